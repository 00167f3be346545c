"""Measures recording, replay, miss curves and sweep beside their peers, and prints a table in
Markdown.

Every number is the median of several runs that take turns with their peers', so that a busy moment
meets all alike. Rates are per second of processor time, decode included, because other work on the
computer disturbs that least; what takes several threads says both.

    make bench                           # all of it, about ten minutes
    . build/rust.env; .venv/bin/python benches/run.py --quick
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path

from mmulab.command import run_script, script_options
from mmulab.output import progress

ROOT = Path(__file__).resolve().parents[1]
BIN = ROOT / ".venv" / "bin"
MMULAB = BIN / "mmulab"
BENCH = ["cargo", "bench", "--quiet", "-p"]

TARGETS = {
    "recording the C compiler": "2.5 times",
    "trace on disk": "3, aim 1.5",
    "cachegrind": "",
    "replay on base": "300, aim 600",
    "replay on ultrix": "300, aim 600",
    "replay on intel": "300, aim 600",
    "replay on notlb": "300, aim 600",
    "replay on x86-64": "200",
    "miss curves": "200",
    "table 1 of 1998": "600 s, aim 180 s",
    "memory of replaying": "500 MB",
}
"""What we want to reach, of each row by the first words of what it is about."""

TellDone = Callable[[float], None]
"""Is told how much of a part of the work is done, 0 to 1."""


@dataclass
class Run:
    """One run of a program."""

    clock_seconds: float
    processor_seconds: float
    memory_mib: float
    output: str


def run(command: list[str | Path]) -> Run:
    """Runs to the end, quietly; fails loudly."""
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        clock = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))}: status {process.returncode}\n{text}")
    return Run(clock, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, text)


def in_turn(
    times: int, commands: dict[str, list[str | Path]], tell_done: TellDone
) -> dict[str, list[Run]]:
    """Runs all commands one after the other, `times` times over."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for turn in range(times):
        for place, (name, command) in enumerate(commands.items(), 1):
            runs[name].append(run(command))
            tell_done((turn + place / len(commands)) / times)
    return runs


def median(runs: list[Run], what: Callable[[Run], float]) -> float:
    return statistics.median(what(one) for one in runs)


def processor(runs: list[Run]) -> float:
    return median(runs, lambda one: one.processor_seconds)


def clock(runs: list[Run]) -> float:
    return median(runs, lambda one: one.clock_seconds)


class Report:
    """The table, printed line by line as it comes."""

    def __init__(self) -> None:
        print("| what | result | target | peer in the same run |\n|---|---|---|---|")

    def row(self, what: str, result: str, peer: str = "") -> None:
        (target,) = (target for words, target in TARGETS.items() if what.startswith(words))
        print(f"| {what} | {result} | {target} | {peer} |", flush=True)


def source(folder: Path) -> Path:
    """A C file for the compiler to compile: this project's recorder and its headers."""
    path = folder / "recorder.i"
    flags = subprocess.run(
        ["pkg-config", "--cflags", "valgrind"], capture_output=True, text=True, check=True
    ).stdout.split()
    defines = ["amd64=1", "linux=1"]
    macros = [f"-DVG{kind}_{name}" for kind, name in zip("AO", defines, strict=True)]
    macros += ["-DVGP_amd64_linux=1", "-DVGPV_amd64_linux_vanilla=1"]
    run(["gcc", "-E", *flags, *macros, ROOT / "recorders/valgrind/recorder.c", "-o", path])
    return path


def recording(
    report: Report, trace: Path, program: list[str], times: int, tell_done: TellDone
) -> None:
    log = f"--cachegrind-out-file={trace.with_name('cachegrind')}"
    runs = in_turn(
        times,
        {
            "none": ["valgrind", "-q", "--tool=none", *program],
            "record": [MMULAB, "record", "-o", trace, "--", *program],
            "cachegrind": ["valgrind", "-q", "--tool=cachegrind", "--cache-sim=yes", log, *program],
        },
        tell_done,
    )
    text = runs["record"][0].output
    bits = re.search(r"([\d.]+) bits an instruction", text)
    none, ours, theirs = (runs[name] for name in ("none", "record", "cachegrind"))
    report.row(
        "recording the C compiler, against Valgrind's empty tool",
        f"{clock(ours) / clock(none):.2f} times its time "
        f"({processor(ours) / processor(none):.2f} by processor time, compression included)",
        f"cachegrind {clock(theirs) / clock(none):.2f} times "
        f"({processor(theirs) / processor(none):.2f})",
    )
    report.row("trace on disk", f"{bits[1] if bits else '?'} bits an instruction")
    instructions = trace_instructions(trace)
    rate = instructions / processor(theirs) / 1e6
    report.row(
        "cachegrind, which executes too",
        "",
        f"{rate:.0f} M instructions/s of processor time",
    )


def trace_instructions(trace: Path) -> int:
    code = f"import mmulab; print(mmulab.trace_information({str(trace)!r}).instructions)"
    return int(run([BIN / "python", "-c", code]).output)


def replay(report: Report, trace: Path, times: int, tell_done: TellDone) -> None:
    naive = trace.with_name("naive")
    run(["gcc", "-O2", ROOT / "benches/naive.c", "-o", naive])
    instructions = trace_instructions(trace)
    machines = ["base", "ultrix", "intel", "notlb", "x86-64"]
    bench = [*BENCH, "mmulab-replay", "--bench", "replay", "--", trace]
    commands = {name: [*bench, name] for name in machines}
    runs = in_turn(times, {**commands, "naive": [naive, str(instructions)]}, tell_done)
    peer = instructions / processor(runs["naive"]) / 1e6
    for name in machines:
        found = [
            float(match[1])
            for one in runs[name]
            if (match := re.search(r"one thread .*on the processor +([\d.]+)", one.output))
        ]
        report.row(
            f"replay on {name}, one thread, decode included",
            f"{statistics.median(found):.0f} M instructions/s (best {max(found):.0f})",
            f"naive C loop without a trace {peer:.0f}" if name == "base" else "",
        )


def miss_curves(report: Report, trace: Path) -> None:
    output = run([*BENCH, "mmulab-replay", "--bench", "miss_curves", "--", trace]).output
    for what in ("from the file", "from memory"):
        pattern = rf"{what}.*on the processor.*?([\d.]+) M references"
        rates = [float(rate) for rate in re.findall(pattern, output)]
        report.row(
            f"miss curves, five page sizes, {what}",
            f"{statistics.median(rates):.0f} M references/s (best {max(rates):.0f})",
        )


def sweep(report: Report, trace: Path) -> None:
    study = ROOT / "examples/studies/vm-study-1998-table1.toml"
    instructions = trace_instructions(trace)
    ours = run([MMULAB, "sweep", study, trace, "-o", trace.with_name("table1.parquet")])
    report.row(
        f"table 1 of 1998: 2,304 configurations of {instructions / 1e6:.0f} M instructions",
        f"{ours.clock_seconds:.0f} s on {os.cpu_count()} processors "
        f"({ours.processor_seconds:.0f} s of processor time), {ours.memory_mib:.0f} MiB",
        "replaying each alone: see replay, 2,304 times",
    )


def memory(report: Report, trace: Path) -> None:
    instructions = trace_instructions(trace)
    ours = run([MMULAB, "replay", trace, "--no-guesses", "-m", "ultrix", "-m", "x86-64"])
    report.row(
        f"memory of replaying {instructions / 1e6:.0f} M instructions on two machines",
        f"{ours.memory_mib:.0f} MiB",
    )


def main() -> None:
    parser = script_options(__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer runs of shorter traces")
    quick = parser.parse_args().quick
    if not shutil.which("valgrind"):
        sys.exit("valgrind is missing: sudo apt-get install valgrind")
    if not shutil.which("cargo"):
        sys.exit("cargo is missing: type `. build/rust.env` first, or `make bench`")
    run([*BENCH, "mmulab-replay", "--no-run"])
    times = 1 if quick else 3
    instructions = 20_000_000 if quick else 200_000_000
    scale = instructions / 200_000_000
    compiler = run(["gcc", "-print-prog-name=cc1"]).output.strip()
    print(f"{date.today()}, {platform.machine()}, {os.cpu_count()} processors, load ", end="")
    print(f"{os.getloadavg()[0]:.1f} at the start, {'one run' if quick else 'median of 3'}\n")
    report = Report()
    with tempfile.TemporaryDirectory(prefix="mmulab-bench-") as name:
        folder = Path(name)
        program = [compiler, "-quiet", "-O2", str(source(folder)), "-o", "/dev/null"]
        whole, trace = folder / "whole.mmt", folder / "trace.mmt"
        limit = ["--max-instructions", str(instructions)]
        # Each with the seconds that it takes on the slowest computer of README.md, for the time
        # left.
        parts: list[tuple[float, Callable[[TellDone], object]]] = [
            (100 * times, lambda tell: recording(report, whole, program, times, tell)),
            (10 * scale, lambda tell: run([MMULAB, "record", *limit, "-o", trace, "--", *program])),
            (15 * times * scale, lambda tell: replay(report, trace, times, tell)),
            (30 * scale, lambda tell: miss_curves(report, trace)),
            (200 * scale, lambda tell: sweep(report, trace)),
            (25, lambda tell: memory(report, whole)),
        ]
        total = sum(seconds for seconds, _ in parts)
        with progress("Measuring", "seconds of work") as show:

            def tell_done(before: float, seconds: float, share: float) -> None:
                show(round(before + share * seconds), round(total))

            done = 0.0
            for seconds, measure in parts:
                tell_done(done, seconds, 0)
                measure(partial(tell_done, done, seconds))
                done += seconds
            tell_done(total, 0, 0)


if __name__ == "__main__":
    run_script(main)
