"""Compares what a machine predicts of huge pages with what the computer that it describes does.

    make validate
    .venv/bin/python benches/validate.py [--dir DIR] [--machine FILE] [--runs N] [PROGRAM...]

Each program runs with pages of 4 KB and with huge pages, by turns, and is recorded once; the
recording is replayed with `organisation.pages` at "4K" and at "on-fault". What huge pages save is
compared in seconds of processor time, and printed as a table in Markdown; DIR keeps it as data,
with the traces. The machine is the one that `mmulab calibrate` measures, unless it is named. What
an interrupted comparison has measured and recorded is there, and the next one in DIR goes on with
it.

An out-of-order core works on while it waits, so the prediction has two ends. *Exposed*: each TLB
miss costs all its cycles. *Hidden*: a hit of the second level costs nothing, and all of the core's
walkers are at work. Page faults and zeroing are exposed in both.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import mmulab
from mmulab.command import directory, run_script, script_options
from mmulab.files import replacing
from mmulab.output import note, one_by_one

POLICY = Path("/sys/kernel/mm/transparent_hugepage/enabled")
PR_SET_THP_DISABLE = 41
PRCTL = ctypes.CDLL(None).prctl
TUNABLES = "glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864"
"""Huge pages for `malloc`. The heap grows in pieces of 64 MB, since Valgrind's grows by `brk` to 8
MB only and by `mmap` from there on, where smaller pieces would cut blocks of 2 MB in other places
than natively."""
TOUCHED_BYTES = 1 << 30
"""More than any of the programs takes."""
COUNTERS = [
    f"dtlb_{kind}_misses.walk_{what}"
    for kind in ("load", "store")
    for what in ("completed", "active")
]
"""As Intel's processors have them."""
FAULTS = ["small-page-fault", "large-page-fault", "file-page-fault", "promotion"]
SECOND_LEVEL = "stlb"
MEASURED = "measured.json"
WALKS = ("uhandler", "upte-", "khandler", "kpte-", "rhandler", "rpte-", "host-walk", "hpte-")
"""Causes that are walks, or begin like these."""
SOURCE = Path(mmulab.__file__).parent / "papers" / "object_store.c"
PYTHON = sys.executable
MMULAB = Path(PYTHON).with_name("mmulab")
NUMBERS = "import random; random.seed(1)\n"

# Inputs, each made by a Python program that prints it.
INPUTS = {
    "numbers.txt": NUMBERS + "for _ in range(2_000_000): print(random.getrandbits(60))",
    "pairs.txt": NUMBERS
    + "for _ in range(600_000): print(*sorted(random.sample(range(600_000), 2)))",
    "text.txt": NUMBERS
    + "words = [hex(random.getrandbits(40)) for _ in range(9000)]\n"
    + "for _ in range(160_000): print(*random.choices(words, k=8))",
    "large.s": NUMBERS
    + "for i in range(300_000): print(f'f{i}:\\tmovq\\t${random.getrandbits(30)}, %rax\\n\\tcall\\tf{i // 2}')",
    "large.c": NUMBERS
    + "for i in range(600): print(f'int f{i}(int *a, int n) {{ int s = {i}; '"
    + " f'for (int j = {i % 7}; j < n; j++) s += a[j] * {random.getrandbits(20)} ^ (s >> {i % 31}); return s; }}')",
}
# Made of the inputs before the programs run.
PREPARED = {
    "text.xz": ["xz", "-1", "--keep", "--stdout", "text.txt"],
    "text.bz2": ["bzip2", "-9", "--keep", "--stdout", "text.txt"],
}


@dataclass(frozen=True)
class Program:
    """What is run, and where its huge pages come from."""

    command: list[str]
    tunable: bool = False
    """From the C library, which asks for them (`madvise`) if its tunable says so: programs whose
    memory is `malloc`'s, in small pieces. Others get them wherever they fit."""
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def policy(self) -> str:
        """In POLICY while it runs and is recorded: the C library reads it, and does nothing at
        `always`."""
        return "madvise" if self.tunable else "always"

    def variables(self) -> dict[str, str]:
        """The whole environment."""
        tunables = {"GLIBC_TUNABLES": TUNABLES} if self.tunable else {}
        return {**os.environ, "LC_ALL": "C", **tunables, **self.environment}


DICTIONARIES = [
    PYTHON,
    "-c",
    "d = {}\nfor i in range(2_000_000): d[i * 7919 % 13_000_027] = i\n"
    "print(sum(d.get(k, 0) for k in range(0, 13_000_027, 5)))",
]
# Chosen for what they do to memory: tables, trees, heaps and arrays of 30 to 400 MB that are
# accessed at random; the same in order (sort, arrow); 4 to 14 MB at random (bzip2); next to nothing
# (gzip).
PROGRAMS = {
    "sort": Program(["sort", "-S", "1G", "--parallel=1", "numbers.txt"]),
    "shuf": Program(["shuf", "-i", "1-4000000", "-o", "/dev/null"]),
    "tsort": Program(["tsort", "pairs.txt"], tunable=True),
    "xz": Program(
        ["xz", "--lzma2=preset=1,dict=256MiB", "--keep", "--stdout", "--threads=1", "text.txt"]
    ),
    "unxz": Program(["xz", "-d", "--keep", "--stdout", "text.xz"]),
    "bzip2": Program(["bzip2", "-9", "--keep", "--stdout", "text.txt"]),
    "bunzip2": Program(["bzip2", "-d", "--keep", "--stdout", "text.bz2"]),
    "gzip": Program(["gzip", "-6", "--keep", "--stdout", "text.txt"]),
    "awk": Program(
        [
            "awk",
            "NR > 1000000 { exit } { seen[$1 % 299993] += $1; if (NR % 4 == 0) last[$1] = NR } "
            "END { for (k in seen) n++; print n }",
            "numbers.txt",
        ],
        tunable=True,
    ),
    "perl": Program(
        [
            "perl",
            "-ne",
            "last if $. > 1_000_000; chomp; $h{$_} = $.; $n += $h{reverse $_} // 1; END { print $n, scalar keys %h }",
            "numbers.txt",
        ],
        tunable=True,
    ),
    "python, dictionaries": Program(DICTIONARIES),
    "python, dictionaries, malloc": Program(
        DICTIONARIES, tunable=True, environment={"PYTHONMALLOC": "malloc"}
    ),
    "python, sorting": Program(
        [
            PYTHON,
            "-c",
            "import random; random.seed(1); v = [random.random() for _ in range(1_500_000)]; v.sort(); print(v[5])",
        ],
        tunable=True,
        environment={"PYTHONMALLOC": "malloc"},
    ),
    "sqlite": Program(
        [
            PYTHON,
            "-c",
            "import sqlite3, random\nrandom.seed(1); c = sqlite3.connect(':memory:')\n"
            "c.execute('create table t (a integer primary key, b integer, c text)')\n"
            "c.executemany('insert into t values (?, ?, ?)', ((i, random.randrange(10**6), str(i) * 4) for i in range(600_000)))\n"
            "c.execute('create index i on t (b)')\n"
            "print(c.execute('select sum(y.a) from t x join t y on y.b = x.b where x.a < 200000').fetchall())",
        ],
        tunable=True,
    ),
    "arrow, join": Program(
        [
            PYTHON,
            "-c",
            "import pyarrow as pa, pyarrow.compute as pc\npa.set_cpu_count(1)\nn = 2_500_000\n"
            "keys = [pc.cast(pc.floor(pc.multiply(pc.random(n, initializer=i), 1e7)), pa.int64()) for i in (1, 2)]\n"
            "one, other = (pa.table({'k': k, x: k}) for k, x in zip(keys, 'xy'))\n"
            "print(one.join(other, 'k', join_type='inner', use_threads=False).num_rows)",
        ]
    ),
    "arrow, sort": Program(
        [
            PYTHON,
            "-c",
            "import pyarrow as pa, pyarrow.compute as pc\npa.set_cpu_count(1)\n"
            "a = pc.random(4_000_000, initializer=1)\nt = pa.table({'a': a, 'b': pc.add(a, 1)})\nprint(t.sort_by('a')['b'][5])",
        ]
    ),
    "cc1": Program(["cc1", "-quiet", "-O1", "large.c", "-o", "/dev/null"]),
    "as": Program(["as", "large.s", "-o", "/dev/null"], tunable=True),
    "object store": Program(["./object_store", "1000000", "60"], tunable=True),
}


@dataclass(frozen=True)
class Measured:
    """Of the runs of a program, seconds of processor time."""

    seconds: list[float]
    """With 4 KB pages."""
    saved: list[float]
    """By the run with huge pages beside each."""
    counted: dict[str, int] | None
    """Walks and their cycles, where the computer counts them."""


@dataclass(frozen=True)
class Predicted:
    """Cycles that huge pages save: of page faults, of hits in the second-level TLB, of walks."""

    faults: float
    second_level: float
    walks: float
    small_walks: int
    small_walk_cycles: int
    """With 4 KB pages, all of them."""


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
    walks: int = 0
    walk_cycles: int = 0
    """With 4 KB pages, as replayed."""
    counted: dict[str, int] | None = None
    """The same by the computer's counters, where it has any."""

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
    """Before a program starts: whether it and its children get small pages only. Called for both
    kinds of runs, since what a child does before the program counts as its time."""

    def choose() -> None:
        if PRCTL(PR_SET_THP_DISABLE, int(only), 0, 0, 0):
            os._exit(127)

    return choose


def touch_memory() -> None:
    """Takes memory in large pages and gives it back, so that the program that comes next gets
    memory that exists. A hypervisor takes back what its guest leaves free (free page reporting),
    and whoever touches it first waits for the host: ten times as long as for the guest's kernel, in
    huge pages above all, since whole free blocks are what it takes."""
    with mmap.mmap(-1, TOUCHED_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
        memory.madvise(mmap.MADV_HUGEPAGE)
        for place in range(0, TOUCHED_BYTES, 2 << 20):
            memory[place] = 1


def processor_seconds(program: Program, folder: Path, before: Callable[[], None]) -> float:
    """Of one run."""
    command = command_of(program)
    with subprocess.Popen(
        command,
        cwd=folder,
        env=program.variables(),
        stdout=subprocess.DEVNULL,
        preexec_fn=before,
    ) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command[0]} ended with status {process.returncode}; nothing was compared")
    return usage.ru_utime + usage.ru_stime


@contextmanager
def huge_pages(policy: str) -> Iterator[None]:
    """Lets the kernel give huge pages, and puts back what was set."""
    if not POLICY.exists():
        mounted = POLICY.parents[1].exists()
        why = "this kernel has no transparent huge pages to compare" if mounted else "mount /sys"
        sys.exit(f"{POLICY} is not there: {why}")
    former = POLICY.read_text().split("[")[1].split("]")[0]
    if former == policy:
        yield
        return
    try:
        POLICY.write_text(policy)
    except OSError as error:
        mend = "mount /sys writable" if error.errno == errno.EROFS else "root alone can change it"
        sys.exit(f"{POLICY} is {former}, not {policy}: {mend}")
    try:
        yield
    finally:
        POLICY.write_text(former)


@contextmanager
def one_processor() -> Iterator[None]:
    """Pins what is started to the last of the processors."""
    former = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(former)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)


def prepare(folder: Path, programs: list[str]) -> None:
    """Inputs, and programs that are not installed. Each program runs once, lest one that cannot run
    here is met after the others were measured."""
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
    for program in programs:
        processor_seconds(PROGRAMS[program], folder, small_pages(only=False))


def command_of(program: Program) -> list[str]:
    """The compiler proper is not in PATH."""
    first, *rest = program.command
    if first == "cc1":
        found = subprocess.run(["cc", "-print-prog-name=cc1"], capture_output=True, text=True)
        first = found.stdout.strip()
    return [first, *rest]


def measured(program: Program, folder: Path, runs: int) -> Measured:
    """By turns with 4 KB pages only and with huge pages."""
    with huge_pages(program.policy), one_processor():
        small, saved = by_turns(program, folder, runs)
        return Measured(small, saved, counted(program, folder))


def all_measured(programs: list[str], folder: Path, runs: int) -> dict[str, Measured]:
    """How each program ran. It is kept after each, so that a comparison that was interrupted goes
    on with it where the computer and the number of runs are the same."""
    kept = folder / MEASURED
    described = Path("/proc/cpuinfo").read_text().partition("model name")[2].partition("\n")[0]
    conditions = {"runs": runs, "computer": [*os.uname(), described]}
    ran = {}
    if kept.exists():
        before = json.loads(kept.read_text())
        if before["conditions"] == conditions:
            ran = {name: Measured(**values) for name, values in before["programs"].items()}
            note(f"{kept}: {len(ran)} programs were measured before the interruption")
    left = [program for program in programs if program not in ran]
    for program in one_by_one("Running programs", left, "programs"):
        ran[program] = measured(PROGRAMS[program], folder, runs)
        values = {name: asdict(one) for name, one in ran.items()}
        write_json(kept, {"conditions": conditions, "programs": values})
    return ran


def write_json(path: Path, data: dict[str, object]) -> None:
    """Whole or not at all."""
    with replacing(path) as file:
        file.write(json.dumps(data, indent=1).encode())


def by_turns(program: Program, folder: Path, runs: int) -> tuple[list[float], list[float]]:
    """Seconds with 4 KB pages, and what the run with huge pages beside each saved."""
    small, saved = [], []
    for turn in range(runs + 1):
        seconds = []
        for only in (True, False):
            touch_memory()
            seconds.append(processor_seconds(program, folder, small_pages(only)))
        # The first turn fills the page cache.
        if turn:
            small.append(seconds[0])
            saved.append(seconds[0] - seconds[1])
    return small, saved


def counted(program: Program, folder: Path) -> dict[str, int] | None:
    """Walks for data and the cycles that they took, by this computer's counters, with 4 KB pages;
    nothing where it has none."""
    perf: list[str | Path] = [
        "perf",
        "stat",
        "-x,",
        "-o",
        "counted.csv",
        "-e",
        ",".join(COUNTERS),
        "--",
    ]
    try:
        subprocess.run(
            [*perf, *command_of(program)],
            cwd=folder,
            env=program.variables(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=small_pages(only=True),
            check=True,
        )
    except (FileNotFoundError, subprocess.CalledProcessError):
        return None
    fields = [line.split(",") for line in (folder / "counted.csv").read_text().splitlines()]
    counts = {line[2]: int(line[0]) for line in fields if len(line) > 2 and line[0].isdigit()}
    if set(counts) != set(COUNTERS):
        return None
    return {
        "walks": sum(counts[name] for name in COUNTERS if name.endswith("completed")),
        "cycles": sum(counts[name] for name in COUNTERS if name.endswith("active")),
    }


def recorded(name: str, folder: Path) -> Path:
    """The program's trace, from this folder if it is there."""
    program = PROGRAMS[name]
    trace = folder / f"{name.replace(', ', '-').replace(' ', '-')}.mmt"
    if not trace.exists():
        command = [MMULAB, "record", "--quiet", "-o", trace, "--", *command_of(program)]
        subprocess.run(
            command, cwd=folder, env=program.variables(), stdout=subprocess.DEVNULL, check=True
        )
    return trace


def without_and_with_huge_pages(machine: mmulab.Machine) -> list[mmulab.Machine]:
    """The two that are compared. Raises `MachineError` where a machine has no such choice."""
    return [machine.with_changes({"organisation.pages": pages}) for pages in ("4K", "on-fault")]


def predicted(trace: Path, machine: mmulab.Machine) -> Predicted:
    """What huge pages save by two replays."""
    machines = without_and_with_huge_pages(machine)
    small, huge = (row.data["causes"] for row in mmulab.replay(trace, machines, guesses=False))

    def saved(names: list[str]) -> float:
        return sum(small[name]["cycles"] - huge[name]["cycles"] for name in names)

    walks = [name for name in small if name.startswith(WALKS)]
    return Predicted(
        faults=saved(FAULTS),
        second_level=saved([SECOND_LEVEL]),
        walks=saved(walks),
        small_walks=small["uhandler"]["count"],
        small_walk_cycles=sum(small[name]["cycles"] for name in walks),
    )


def walkers() -> int:
    """How many walks are under way at a time in this computer's cores, as far as known."""
    described = Path("/proc/cpuinfo").read_text()
    if "AuthenticAMD" in described:
        return 6  # a guess: what is said of its cores since Zen 3, not looked up in its guides
    # Intel's top-down metrics divide the walks under way by this (Linux,
    # tools/perf/pmu-events/arch/x86, tma_info_memory_tlb_page_walks_utilization): by 4 since Alder
    # Lake and Sapphire Rapids, the first with SERIALIZE, by 2 before.
    return 4 if " serialize " in described else 2


def compare(
    name: str, folder: Path, machine: mmulab.Machine, nanoseconds: float, ran: Measured
) -> Compared:
    """One program, recorded and replayed, with how it ran."""
    with huge_pages(PROGRAMS[name].policy):
        trace = recorded(name, folder)
    said = predicted(trace, machine)
    low, middle, high = statistics.quantiles(ran.saved, n=4)
    scale = nanoseconds * 1e-9
    return Compared(
        name,
        statistics.median(ran.seconds),
        middle,
        low,
        high,
        exposed=scale * (said.faults + said.second_level + said.walks),
        hidden=scale * (said.faults + said.walks / walkers()),
        faults=scale * said.faults,
        walks=said.small_walks,
        walk_cycles=said.small_walk_cycles,
        counted=ran.counted,
    )


def table(rows: list[Compared]) -> str:
    """In Markdown, milliseconds."""
    lines = [
        "| program | seconds | saved, measured (quartiles) | predicted: hidden to exposed | of it page faults | sign | within a third |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for row in rows:
        if row.is_beyond_noise:
            sign = "right" if row.sign_is_right else "wrong"
        else:
            sign = "within the noise"
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


def counters(rows: list[Compared]) -> str:
    """What was counted beside what was replayed, in Markdown, or that nothing was."""
    both = [(row, row.counted) for row in rows if row.counted]
    if not both:
        return "\nThis computer's counters count no TLB misses (perf stat): times are all there is to compare."
    lines = [
        "",
        "| program | walks, millions: replayed | counted | cycles of walks, millions: replayed | counted |",
        "|---|---:|---:|---:|---:|",
    ]
    for row, counts in both:
        numbers = (row.walks, counts["walks"], row.walk_cycles, counts["cycles"])
        lines.append(
            f"| {row.program} | {' | '.join(f'{number / 1e6:.2f}' for number in numbers)} |"
        )
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
    parser = script_options(__doc__)
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
        try:
            without_and_with_huge_pages(machine)
        except mmulab.MachineError as error:
            raise mmulab.InputError(
                f"--machine {machine_file}: it has no choice of huge pages (organisation.pages), which are compared;"
                " name one that mmulab calibrate wrote"
            ) from error
    for policy in ("always", "madvise"):
        with huge_pages(policy):
            pass  # refused before anything is measured
    prepare(directory(folder), programs)
    machine = machine or mmulab.Machine.load(calibrated(folder / "this-computer"))
    nanoseconds = mmulab._engine.Computer().cycle_ns()
    ran = all_measured(programs, folder, runs)
    note("Measured; nothing is timed from here on")
    rows = [
        compare(program, folder, machine, nanoseconds, ran[program])
        for program in one_by_one("Recording and replaying programs", programs, "programs")
    ]
    compared = {"machine": machine.values(), "programs": [asdict(row) for row in rows]}
    write_json(folder / "validate.json", compared)
    (folder / MEASURED).unlink()
    print(table(rows))
    print(counters(rows))


if __name__ == "__main__":
    run_script(main)
