"""What the papers' benchmarks take on Linux, unmodified and with each scheme of address spaces.

    measure.py -m sa1100 "ctx 0 2 8" fork

BENCHMARK is what `lat` is told, such as "ctx 0 2 8" or "fork"; without one it is the whole set.
Prints a Markdown table: medians of N runs, in one boot for each kernel. Needs `make linux-spaces`
and, for the unmodified kernels, `make -C guests/linux OUT=$PWD/build/linux plain`.
"""

import re
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run

from mmulab.command import add_set_option, changes_of, run_script, script_options
from mmulab.limits import whole_number
from mmulab.output import one_by_one

UNMODIFIED = "unmodified"
HOPS = 400
KERNELS = (UNMODIFIED, *run.SCHEMES)
SET = (
    "ctx 0 2 8 13 16 24", "ctx 16 2 8", "pipe", "fifo", "unix", "fcntl", "fork", "exec", "sh", "bw_pipe",
    "bw_unix",
)  # fmt: skip
RESULT = re.compile(r"^lat (.+?): (-?[\d.]+) (us|MB/s)", re.M)


def folder_of(machine, kernel):
    """The name of the folder with the kernel."""
    folder = run.WITH_SPACES[machine]
    return folder.replace("spaces", "plain") if kernel == UNMODIFIED else folder


def need_kernels(machine):
    """Ends with the command that makes what is not built of what both kernels need."""
    run.need_to_boot(machine, folder_of(machine, UNMODIFIED), run.WITH_SPACES[machine])


def measure(machine, kernel, benchmarks, repeat=1, settings=()):
    """The median of each result by its name and unit."""
    once = " && ".join(f"lat {benchmark}" for benchmark in benchmarks)
    every = " ".join(str(number) for number in range(repeat))
    result = run.ours(
        machine,
        f"export LAT_HOPS={HOPS}; for i in {every}; do {once} || exit 1; done",
        spaces=None if kernel == UNMODIFIED else kernel,
        kernel_folder=folder_of(machine, kernel),
        settings=settings,
    )
    if not result.succeeded:
        raise run.failure(f"{machine}, {kernel}", result)
    found = {}
    for name, value, unit in RESULT.findall(result.console):
        found.setdefault(f"{name}, {unit}", []).append(float(value))
    return {name: median(values) for name, values in found.items()}


def main():
    options = script_options(__doc__)
    options.add_argument(
        "-m",
        "--machine",
        default="ixp425",
        choices=list(run.WITH_SPACES),
        help="the machine (default: %(default)s)",
    )
    options.add_argument(
        "--repeat",
        type=int,
        default=1,
        help="runs of each benchmark, whose median counts (default: %(default)s)",
    )
    add_set_option(options)
    options.add_argument(
        "benchmark",
        nargs="*",
        default=SET,
        help='as in "ctx 0 2 8" or fork (default: the whole set)',
    )
    chosen = options.parse_args()
    whole_number("--repeat", chosen.repeat, 1)
    settings = changes_of(chosen.set)
    need_kernels(chosen.machine)
    found = {}
    for kernel in one_by_one("Measuring", KERNELS, "kernels"):
        print(f"{chosen.machine}, {kernel}", file=sys.stderr)
        found[kernel] = measure(chosen.machine, kernel, chosen.benchmark, chosen.repeat, settings)
    print("|", "|", *(f"{kernel} |" for kernel in KERNELS))
    print("|---|" + "---:|" * len(KERNELS))
    for name in found[UNMODIFIED]:
        print(f"| {name} |", *(f"{found[kernel].get(name, 'refused')} |" for kernel in KERNELS))


if __name__ == "__main__":
    run_script(main)
