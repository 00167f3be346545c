"""What benchmarks take with each scheme whatever the layout of the kernel: means over many layouts.

    layouts.py -m arm926ej-s --layouts 7 --rounds 5 -b "lat fork" -b "lat exec"

Where a path just does not fit in a cache, what it takes depends on which lines its functions share.
So each kernel is linked N times from the objects that are built, with gaps of random size between
them, and runs with an environment of random size, which moves the programs' stacks. (Curtsinger and
Berger, "Stabilizer: statistically sound performance evaluation", ASPLOS 2013, do the same to
programs.) Prints the mean of each result over the layouts, how much more than unmodified it is,
with the half width of the 95% interval of both, and what sharing gains. What ran before changes a
result, too, since it leaves other pages free: with `--rounds` the benchmarks run so many times in
turns, and the mean is a layout's result. `--benchmark` is run in place of all, as in
`-b "lat fork"`, and without what sharing gains. `--samples` keeps each result in a CSV file, with
what was asked for, and what is in it already is not measured again. Needs `make linux-spaces` and
`make -C guests/linux OUT=$PWD/build/linux plain`.
"""

import csv
import math
import random
import re
import shlex
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import measure
import run

from mmulab.command import run_script, script_options
from mmulab.errors import InputError
from mmulab.limits import MAX_THREADS, whole_number
from mmulab.output import one_by_one

CROSS = "arm-linux-gnueabi-"
# The largest way of the machines' caches (32 KB in 32 ways): gaps up to that put a line into any
# set.
WAY_BYTES = 1024
INSTRUCTION_BYTES, LINE_BYTES = 4, 32
# So many sizes of gaps in a layout.
GAPS = 32
MOST_ROUNDS = 1000
MACHINES = ("sa1100", "ixp425", "at91rm9200", "arm926ej-s")
BENCHMARKS = ("lat ctx 0 2 4 8 13 24", "lat pipe", "lat fork", "lat exec", "lat sh")
# lat_ctx with the program's text where it is shared by the second of these schemes; its gain is
# over the same program, linked as usual, with the first.
SHARED_TEXT = "lat-text-high ctx 0 2 4 8 13"
ALONE, SHARED = "fass", "fass-shared"
COLUMNS = ("asked", "machine", "kernel", "layout", "program", "benchmark", "us")
# Two-sided 95% points of Student's distribution for 1, 2, 3... degrees of freedom, and beyond.
STUDENT = (
    12.71,
    4.30,
    3.18,
    2.78,
    2.57,
    2.45,
    2.36,
    2.31,
    2.26,
    2.23,
    2.20,
    2.18,
    2.16,
    2.14,
    2.13,
)
NORMAL = 2.1


def tool(name, *arguments, folder):
    """Runs one of the cross compiler's tools, and gives what it printed."""
    words = [CROSS + name, *map(str, arguments)]
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout


def gap(path, draw):
    """An object with nothing but a gap in its text and one in its data."""
    text = draw.randrange(INSTRUCTION_BYTES, WAY_BYTES + 1, INSTRUCTION_BYTES)
    data = draw.randrange(LINE_BYTES, WAY_BYTES + 1, LINE_BYTES)
    source = f".text\n.space {text}\n.data\n.space {data}\n"
    subprocess.run([CROSS + "as", "-o", path, "-"], input=source, check=True, text=True)
    return path


def link(kernel, image, seed):
    """Links the kernel of a folder as its own build did, with a gap behind each of its objects.

    Its table of symbols stays that of the build, with other addresses; only messages read it.
    """
    command = re.search(r"^savedcmd_vmlinux := (.*?);", (kernel / ".vmlinux.cmd").read_text(), re.M)
    _, _, *flags = shlex.split(command[1])
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        gaps = [gap(folder / f"gap-{number}.o", draw) for number in range(GAPS)]
        objects = tool("ar", "t", "vmlinux.a", folder=kernel).split()
        linked = folder / "vmlinux"
        tool(
            "ld", *shlex.split(" ".join(flags)), "--script=arch/arm/kernel/vmlinux.lds", "-o", linked,
            *(part for each in objects for part in (each, draw.choice(gaps))), "init/version-timestamp.o",
            "--start-group", "arch/arm/lib/lib.a", "lib/lib.a", "--end-group",
            max(kernel.glob(".tmp_vmlinux?.kallsyms.o")), folder=kernel,
        )  # fmt: skip
        (folder / "names").write_text(tool("nm", "-S", linked, folder=kernel))
        subprocess.run([kernel / "scripts/sorttable", "-s", folder / "names", linked], check=True)
        tool("objcopy", "-O", "binary", "-R", ".comment", "-S", linked, image, folder=kernel)


def link_layout(folder, image, layout):
    """Links a built kernel in the layout of a number."""
    link(run.built(folder), image, f"{folder} {layout}")


def sample(machine, kernel, layout, image, benchmarks=(), rounds=1):
    """The results of one kernel in one layout, as rows."""
    programs = benchmarks or ([*BENCHMARKS, SHARED_TEXT] if kernel == SHARED else BENCHMARKS)
    environment = f"$(seq -s . {random.Random(layout).randrange(WAY_BYTES // 4)})"
    command = " && ".join(f"echo == {program.split()[0]} && {program}" for program in programs)
    if rounds > 1:  # a loop around it moves what it takes
        command = f"for round in $(seq {rounds}); do {command} || exit; done"
    result = run.ours(
        machine,
        f"export LAT_HOPS={measure.HOPS} LAT_STACK={environment}; {command}",
        image=image,
        spaces=None if kernel == measure.UNMODIFIED else kernel,
        kernel_folder=measure.folder_of(machine, kernel),
    )
    if not result.succeeded:
        raise run.failure(f"{machine}, {kernel}, layout {layout}", result)
    found = {}
    for said in result.console.replace("\r", "").split("\n== ")[1:]:
        for benchmark, value, unit in measure.RESULT.findall(said):
            if unit != "us":
                raise InputError(f"{benchmark}: is in {unit}; a benchmark here is a time")
            found.setdefault((said.split()[0], benchmark), []).append(float(value))
    if not found or any(len(values) != rounds for values in found.values()):
        raise InputError(f"{'; '.join(programs)}: does not print a result of lat each time")
    return [(machine, kernel, str(layout), *names, mean(values)) for names, values in found.items()]


class Samples:
    """Results by machine, kernel, layout, program and benchmark; in a file, if there is one, by
    what was asked for."""

    def __init__(self, path, asked):
        self.path, self.asked, self.lock = path, asked, threading.Lock()
        kept = []
        if path and path.exists():
            with path.open() as file:
                columns, *kept = list(csv.reader(file)) or [[]]
            if columns != list(COLUMNS):
                raise InputError(f"{path}: is no file of samples of this version; name another")
        self.others = [row for row in kept if row[0] != asked]
        self.rows = [(*row[1:-1], float(row[-1])) for row in kept if row[0] == asked]

    def has(self, *names):
        return any(row[: len(names)] == names for row in self.rows)

    def add(self, rows):
        with self.lock:
            self.rows = sorted([*self.rows, *rows])
            if self.path:
                part = self.path.with_suffix(".part")
                with part.open("w") as file:
                    mine = [(self.asked, *row) for row in self.rows]
                    csv.writer(file, lineterminator="\n").writerows([COLUMNS, *self.others, *mine])
                part.rename(self.path)

    def of(self, machine, kernel, program, benchmark):
        """Its values, one for each layout."""
        return [
            row[-1]
            for row in self.rows
            if (*row[:2], *row[3:5]) == (machine, kernel, program, benchmark)
        ]


def measure_layout(machine, layout, samples, benchmarks=(), rounds=1):
    """Links both kernels in one layout and runs all that is not there yet."""
    with tempfile.TemporaryDirectory() as name:
        for kernel in measure.KERNELS:
            if samples.has(machine, kernel, str(layout)):
                continue
            folder = measure.folder_of(machine, kernel)
            image = Path(name) / folder
            if not image.exists():
                link_layout(folder, image, layout)
            samples.add(sample(machine, kernel, layout, image, benchmarks, rounds))
            print(f"{machine}, layout {layout}, {kernel}", file=sys.stderr, flush=True)


def interval(values):
    """The mean, and the half width of its 95% interval."""
    freedom = len(values) - 1
    point = STUDENT[freedom - 1] if freedom <= len(STUDENT) else NORMAL
    return mean(values), point * stdev(values) / math.sqrt(len(values))


def more(values, base):
    """By how much more the mean is than that of others, in words; its interval by the errors of
    both."""
    (here, wide), (there, wide_too) = interval(values), interval(base)
    half = here / there * math.hypot(wide / here, wide_too / there)
    return f"{100 * (here / there - 1):+.1f}% \u00b1 {100 * half:.1f}"


def names_of(machine, program, samples):
    """The benchmarks of a program, numbers in their order."""
    names = {row[4] for row in samples.rows if (row[0], row[3]) == (machine, program)}
    return sorted(names, key=lambda name: [word.rjust(4) for word in name.split()])


def tell(machine, samples):
    """The Markdown tables."""
    kernels, base = measure.KERNELS, measure.UNMODIFIED
    print("|", machine, "|", *(f"{kernel} |" for kernel in kernels))
    print("|---|" + "---:|" * len(kernels))
    for name in names_of(machine, "lat", samples):
        cells = []
        for kernel in kernels:
            values = samples.of(machine, kernel, "lat", name)
            average, half = interval(values)
            cells.append(f"{average:,.1f} \u00b1 {half:.1f}")
            if kernel != base:
                cells[-1] += f" ({more(values, samples.of(machine, base, 'lat', name))})"
        print(f"| lat {name} |", *(f"{cell} |" for cell in cells))
    program = SHARED_TEXT.split()[0]
    if not (names := names_of(machine, program, samples)):
        return
    print(f"\n| text shared | `lat`, {ALONE} | `{program}`, {SHARED} | more |")
    print("|---|---:|---:|---:|")
    for name in names:
        alone = samples.of(machine, ALONE, "lat", name)
        shared = samples.of(machine, SHARED, program, name)
        times = [
            f"{average:.1f} \u00b1 {half:.1f}" for average, half in map(interval, (alone, shared))
        ]
        print(f"| {name} | {times[0]} | {times[1]} | {more(shared, alone)} |")


def main():
    options = script_options(__doc__)
    options.add_argument(
        "-m",
        "--machine",
        default="sa1100",
        choices=MACHINES,
        help="the machine (default: %(default)s)",
    )
    options.add_argument(
        "--layouts", type=int, default=10, help="how many layouts (default: %(default)s)"
    )
    options.add_argument(
        "--first", type=int, default=0, help="number of the first layout (default: %(default)s)"
    )
    options.add_argument(
        "--rounds",
        type=int,
        default=1,
        help="how many times each benchmark runs, in turns (default: %(default)s)",
    )
    options.add_argument("-b", "--benchmark", action="append", help='as in "lat fork"')
    options.add_argument(
        "--jobs", type=int, default=1, help="how many boots at a time (default: %(default)s)"
    )
    options.add_argument(
        "--samples",
        type=Path,
        help="a CSV file that keeps each result; what is in it is not measured again",
    )
    chosen = options.parse_args()
    if chosen.layouts < 2:
        options.error("--layouts: an interval needs two")
    whole_number("--rounds", chosen.rounds, 1, MOST_ROUNDS)
    whole_number("--jobs", chosen.jobs, 1, MAX_THREADS)
    whole_number("--first", chosen.first)
    if chosen.samples and not chosen.samples.parent.is_dir():
        options.error(f"--samples {chosen.samples}: there is no such folder; make it first")
    measure.need_kernels(chosen.machine)
    asked = "; ".join([*(chosen.benchmark or ["all"]), f"{chosen.rounds} times"])
    samples = Samples(chosen.samples, asked)
    layouts = range(chosen.first, chosen.first + chosen.layouts)
    with ThreadPoolExecutor(chosen.jobs) as pool:
        measured = [
            pool.submit(
                measure_layout, chosen.machine, n, samples, chosen.benchmark or (), chosen.rounds
            )
            for n in layouts
        ]
        for done in one_by_one("Measuring", measured, "layouts"):
            done.result()
    tell(chosen.machine, samples)


if __name__ == "__main__":
    run_script(main)
