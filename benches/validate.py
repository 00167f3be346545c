"""Compares what a machine predicts of huge pages with what the computer that it describes does.

    make validate
    .venv/bin/python benches/validate.py [--dir DIR] [--machine FILE] [--runs N] [PROGRAM...]

Each program runs with pages of 4 KB and with huge pages where the kernel gives them (`transparent_hugepage/enabled` is
`always`), by turns, and is recorded once; the recording is replayed with `organisation.pages` at "4K" and at
"on-fault". What huge pages save is compared in seconds of processor time, and printed as a table in Markdown; DIR keeps it
as data, with the traces. The machine is the one that `mmulab calibrate` measures, unless it is named.

An out-of-order core works on while it waits, so the prediction has two ends. *Exposed*: each TLB miss costs all its cycles. *Hidden*: a hit of
the second level costs nothing, and WALKERS walks are under way at a time. Page faults and zeroing are exposed in both.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import mmulab
from mmulab.command import directory, run_script
from mmulab.output import note, progress

POLICY = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PR_SET_THP_DISABLE = 41
PRCTL = ctypes.CDLL(None).prctl
WALKERS = 6
"""A guess: what AMD is known to say of its cores since Zen 3, not looked up in its guides; other cores have other numbers."""
FAULTS = ["small-page-fault", "large-page-fault", "file-page-fault", "promotion"]
SECOND_LEVEL = "stlb"
WALKS = ("uhandler", "upte-", "khandler", "kpte-", "rhandler", "rpte-")
"""Causes that are walks, or begin like these."""
SOURCE = Path(mmulab.__file__).parent / "papers" / "object_store.c"
PYTHON = sys.executable
MMULAB = Path(PYTHON).with_name("mmulab")
NUMBERS = "import random; random.seed(1)\n"

# Inputs, each made by a Python program that prints it.
INPUTS = {
    "numbers.txt": NUMBERS + "for _ in range(300_000): print(random.getrandbits(60))",
    "text.txt": NUMBERS
    + "words = [hex(random.getrandbits(40)) for _ in range(9000)]\n"
    + "for _ in range(25_000): print(*random.choices(words, k=8))",
    "large.s": NUMBERS
    + "for i in range(100_000): print(f'f{i}:\\tmovq\\t${random.getrandbits(30)}, %rax\\n\\tcall\\tf{i // 2}')",
}
# Made of the inputs before the programs run.
PREPARED = {
    "text.xz": ["xz", "-5", "--keep", "--stdout", "text.txt"],
    "text.bz2": ["bzip2", "-9", "--keep", "--stdout", "text.txt"],
}
PROGRAMS: dict[str, list[str]] = {
    "sort": ["sort", "-S", "256M", "--parallel=1", "numbers.txt"],
    "xz": ["xz", "-5", "--keep", "--stdout", "--threads=1", "text.txt"],
    "unxz": ["xz", "-d", "--keep", "--stdout", "text.xz"],
    "bzip2": ["bzip2", "-9", "--keep", "--stdout", "text.txt"],
    "bunzip2": ["bzip2", "-d", "--keep", "--stdout", "text.bz2"],
    "gzip": ["gzip", "-6", "--keep", "--stdout", "text.txt"],
    "awk": [
        "awk",
        "{ seen[$1 % 399989] += $1; last[$1] = NR } END { for (k in seen) n++; print n }",
        "numbers.txt",
    ],
    "perl": [
        "perl",
        "-ne",
        "chomp; $h{$_} = $.; $n += $h{reverse $_} // 1; END { print $n, scalar keys %h }",
        "numbers.txt",
    ],
    "python, dictionaries": [
        PYTHON,
        "-c",
        "d = {}\nfor i in range(700_000): d[i * 7919 % 3_000_017] = i\nprint(sum(d.get(k, 0) for k in range(0, 3_000_017, 5)))",
    ],
    "python, sorting": [
        PYTHON,
        "-c",
        "import random; random.seed(1); v = [random.random() for _ in range(400_000)]; v.sort(); print(v[5])",
    ],
    "sqlite": [
        PYTHON,
        "-c",
        "import sqlite3, random\nrandom.seed(1); c = sqlite3.connect(':memory:')\n"
        "c.execute('create table t (a integer primary key, b integer, c text)')\n"
        "c.executemany('insert into t values (?, ?, ?)', ((i, random.randrange(10**6), str(i) * 4) for i in range(100_000)))\n"
        "c.execute('create index i on t (b)')\n"
        "print(c.execute('select sum(y.a) from t x join t y on y.b between x.b and x.b + 2 where x.a < 50000').fetchall())",
    ],
    "cc1": ["cc1", "-quiet", "-O2", "object_store.i", "-o", "/dev/null"],
    "as": ["as", "large.s", "-o", "/dev/null"],
    "object store": ["./object_store", "400000", "30"],
}


@dataclass(frozen=True)
class Compared:
    """What huge pages save of a program, in seconds of processor time."""

    program: str
    seconds: float
    """With 4 KB pages."""
    saved: float
    saved_low: float
    saved_high: float
    """Median, and the quartiles of the differences of runs side by side."""
    exposed: float
    hidden: float
    faults: float
    """Of both, what page faults and zeroing save."""

    @property
    def is_beyond_noise(self) -> bool:
        """Whether the middle half of the runs is on one side of nothing."""
        return self.saved_low > 0 or self.saved_high < 0

    @property
    def sign_is_right(self) -> bool:
        """Whether an end of the prediction has the sign of what was measured."""
        return any(self.saved * predicted > 0 for predicted in (self.exposed, self.hidden))

    @property
    def is_near(self) -> bool:
        """Whether what was measured lies between the ends, or within a third of one."""
        low, high = sorted([self.exposed, self.hidden])
        slack = abs(self.saved) / 3
        return low - slack <= self.saved <= high + slack


def small_pages(only: bool) -> Callable[[], None]:
    """Before a program starts: whether it and its children get small pages only. Called for both kinds of runs, since
    what a child does before the program counts as its time."""

    def choose() -> None:
        if PRCTL(PR_SET_THP_DISABLE, int(only), 0, 0, 0):
            os._exit(127)

    return choose


def processor_seconds(command: list[str], folder: Path, before: Callable[[], None]) -> float:
    """Of one run."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, preexec_fn=before
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} ended with status {process.returncode}; nothing was compared")
    return usage.ru_utime + usage.ru_stime


@contextmanager
def huge_pages_always() -> Iterator[None]:
    """Sees to it that the kernel gives huge pages, and puts back what was set."""
    if not POLICY.exists():
        sys.exit(f"{POLICY} is not there: this kernel has no transparent huge pages to compare")
    former = POLICY.read_text().split("[")[1].split("]")[0]
    if former == "always":
        yield
        return
    try:
        POLICY.write_text("always")
    except OSError:
        sys.exit(f"{POLICY} is {former}; as root: echo always > {POLICY}, then again")
    try:
        yield
    finally:
        POLICY.write_text(former)


def prepare(folder: Path, programs: list[str]) -> None:
    """Inputs, and programs that are not installed. Each program runs once, lest one that cannot run here is met
    after the others were measured."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, source in INPUTS.items():
        if not (folder / name).exists():
            made = subprocess.run([PYTHON, "-c", source], check=True, capture_output=True).stdout
            (folder / name).write_bytes(made)
    for name, command in PREPARED.items():
        if not (folder / name).exists():
            made = subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout
            (folder / name).write_bytes(made)
    shutil.copy(SOURCE, folder / SOURCE.name)
    subprocess.run(["cc", "-O2", SOURCE.name, "-o", "object_store"], cwd=folder, check=True)
    # The compiler proper does not look for headers where the driver has it look.
    subprocess.run(["cc", "-E", SOURCE.name, "-o", "object_store.i"], cwd=folder, check=True)
    for program in programs:
        processor_seconds(command_of(program), folder, small_pages(only=False))


def command_of(program: str) -> list[str]:
    """The compiler proper is not in PATH."""
    first, *rest = PROGRAMS[program]
    if first == "cc1":
        found = subprocess.run(["cc", "-print-prog-name=cc1"], capture_output=True, text=True)
        first = found.stdout.strip()
    return [first, *rest]


def measured(program: str, folder: Path, runs: int) -> tuple[float, list[float]]:
    """Seconds with 4 KB pages (median), and what each run with huge pages beside one without saved."""
    command = command_of(program)
    small, saved = [], []
    for turn in range(runs + 1):
        one = processor_seconds(command, folder, small_pages(only=True))
        other = processor_seconds(command, folder, small_pages(only=False))
        # The first turn fills the page cache.
        if turn:
            small.append(one)
            saved.append(one - other)
    return statistics.median(small), saved


def recorded(program: str, folder: Path) -> Path:
    """The program's trace, from this folder if it is there."""
    trace = folder / f"{program.replace(', ', '-').replace(' ', '-')}.mmt"
    if not trace.exists():
        command = [MMULAB, "record", "--quiet", "-o", trace, "--", *command_of(program)]
        subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return trace


def predicted(trace: Path, machine: mmulab.Machine) -> tuple[float, float, float]:
    """Cycles that huge pages save: of page faults, of hits in the second-level TLB, of walks."""
    policies = [machine.with_changes({"organisation.pages": pages}) for pages in ("4K", "on-fault")]
    small, huge = (row.data["causes"] for row in mmulab.replay(trace, policies, guesses=False))

    def saved(names: list[str]) -> float:
        return sum(small[name]["cycles"] - huge[name]["cycles"] for name in names)

    walks = [name for name in small if name.startswith(WALKS)]
    return saved(FAULTS), saved([SECOND_LEVEL]), saved(walks)


def compare(
    program: str, folder: Path, machine: mmulab.Machine, nanoseconds: float, runs: int
) -> Compared:
    """One program."""
    seconds, saved = measured(program, folder, runs)
    faults, second_level, walks = predicted(recorded(program, folder), machine)
    low, middle, high = statistics.quantiles(saved, n=4)
    scale = nanoseconds * 1e-9
    return Compared(
        program,
        seconds,
        middle,
        low,
        high,
        exposed=scale * (faults + second_level + walks),
        hidden=scale * (faults + walks / WALKERS),
        faults=scale * faults,
    )


def table(rows: list[Compared]) -> str:
    """In Markdown, milliseconds."""
    lines = [
        "| program | seconds | saved, measured (quartiles) | predicted: hidden to exposed | of it page faults | sign | within a third |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for row in rows:
        sign = (
            "right" if row.sign_is_right else "wrong" if row.is_beyond_noise else "within the noise"
        )
        near = "yes" if row.is_near else "no"
        lines.append(
            f"| {row.program} | {row.seconds:.2f} | {1e3 * row.saved:.1f} ({1e3 * row.saved_low:.1f} to "
            f"{1e3 * row.saved_high:.1f}) | {1e3 * row.hidden:.1f} to {1e3 * row.exposed:.1f} | "
            f"{1e3 * row.faults:.1f} | {sign} | {near} |"
        )
    beyond = [row for row in rows if row.is_beyond_noise]
    right, near = (
        sum(map(is_so, beyond)) for is_so in (lambda r: r.sign_is_right, lambda r: r.is_near)
    )
    lines += [
        "",
        f"Beyond the noise {len(beyond)} of {len(rows)}: the sign is right in {right}, within a third are {near}.",
    ]
    return "\n".join(lines)


def calibrated(folder: Path) -> Path:
    """This computer's machine, measured unless that was done."""
    if not (folder / "machine.toml").exists():
        note("Measuring this computer; let nothing else run")
        command = [MMULAB, "calibrate", "--dir", folder]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return folder / "machine.toml"


def main() -> None:
    """Compares all programs, or those that are named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(map(repr, PROGRAMS))
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=names)
    parser.add_argument(
        "--dir",
        type=Path,
        default=Path("results/validate"),
        help="results, inputs and traces (default: %(default)s)",
    )
    parser.add_argument(
        "--machine", metavar="FILE", help="a machine that mmulab calibrate wrote here"
    )
    parser.add_argument(
        "--runs", type=int, default=15, help="by turns, 4 or more for quartiles (default: 15)"
    )
    asked = parser.parse_args()
    unknown = set(asked.programs) - set(PROGRAMS)
    if unknown:
        parser.error(f"no program {', '.join(map(repr, sorted(unknown)))}; there are {names}")
    if asked.runs < 4:
        parser.error(f"--runs {asked.runs}: 4 at least, for quartiles")
    programs = asked.programs or list(PROGRAMS)
    validate(programs, asked.dir.resolve(), asked.machine, asked.runs)


def validate(programs: list[str], folder: Path, machine_file: str | None, runs: int) -> None:
    """Compares the programs, keeps the results in the folder and prints them."""
    machine = mmulab.Machine.load(machine_file) if machine_file else None
    if machine:
        machine.check_replays()
    with huge_pages_always():
        pass  # refused before anything is measured
    prepare(directory(folder), programs)
    machine = machine or mmulab.Machine.load(calibrated(folder / "this-computer"))
    nanoseconds = mmulab._engine.Computer().cycle_ns()
    rows = []
    with huge_pages_always(), progress("Comparing programs", "programs") as report:
        for done, program in enumerate(programs):
            report(done, len(programs))
            rows.append(compare(program, folder, machine, nanoseconds, runs))
    (folder / "validate.json").write_text(
        json.dumps(
            {"machine": machine.values(), "programs": [asdict(row) for row in rows]}, indent=1
        )
    )
    print(table(rows))


if __name__ == "__main__":
    run_script(main)
