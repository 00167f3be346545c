"""What a switch of Linux consists of: cycles by cause, for each scheme.

    switch_costs.py -m ixp425 -m sa1100 -n 2 -n 16 -n 24

Runs `lat ctx 0` and prints a Markdown table, in microseconds a switch: what passing the token costs
in a ring, less what one process needs for the same calls. "Direct" are the instructions of the
switch and the operations on caches and TLBs; the rest is refilled: lines and translations that are
missed because of the switch, here or in the calls that follow. The last row is of the same program
with its text where it is shared. `--layouts` gives means over N layouts of the kernel (layouts.py).
Needs `make linux-spaces`.
"""

import itertools
import sys
import tempfile
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import layouts
import run

import mmulab
from mmulab.command import add_set_option, changes_of, run_script, script_options
from mmulab.limits import whole_number
from mmulab.output import one_by_one

HOPS, REPETITIONS = 400, 5
ALONE, RING = "3", "4"
"""The phases that `lat` begins."""
# `lat` takes so many processes.
MOST_PROCESSES = 96
MOST_LAYOUTS = 1000
# The schemes, each with the program and the words for both.
CASES = (
    *((scheme, "lat", f"`{scheme}`") for scheme in run.SCHEMES),
    (layouts.SHARED, "lat-text-high", f"`{layouts.SHARED}`, text shared"),
)
COLUMNS = {
    "instructions": ("issue", "branch", "interlock", "multiply", "exception"),
    "maintenance": ("dcache-operation", "icache-operation", "tlb-operation", "drain"),
    "I-cache refill": ("icache-miss",),
    "D-cache refill": ("dcache-miss",),
    "walks": ("itlb-walk", "dtlb-walk", "micro-tlb"),
    "write buffer, uncached": ("write-buffer", "write-allocate", "uncached"),
}


def costs(machine, scheme, program, processes, settings=(), image=None):
    """Microseconds a switch by column."""
    result = run.ours(
        machine,
        f"LAT_PHASES=1 LAT_HOPS={HOPS} {program} ctx 0 {processes}",
        spaces=scheme,
        settings=settings,
        image=image,
    )
    if not result.succeeded:
        raise run.failure(f"{machine}, {scheme}", result)
    rounds = max(HOPS // processes, 10)
    hops = (1 + REPETITIONS * rounds) * processes
    causes = {phase["name"]: phase["causes"] for phase in result.data["phases"]}

    def cycles(phase, names):
        return sum(causes[phase][name]["cycles"] for name in names)

    told = {name for names in COLUMNS.values() for name in names} | {"idle", "off"}
    missing = set(causes[RING]) - told
    assert not missing, f"causes without a column: {missing}"
    return {
        column: (cycles(RING, names) - cycles(ALONE, names)) / hops / result.data["clock_hz"] * 1e6
        for column, names in COLUMNS.items()
    }


def main():
    options = script_options(__doc__)
    options.add_argument(
        "-m",
        "--machine",
        action="append",
        choices=list(run.WITH_SPACES),
        help="this machine; may be repeated (default: ixp425)",
    )
    options.add_argument(
        "-n",
        "--processes",
        action="append",
        type=int,
        help="processes in the ring; may be repeated (default: 2 and 16)",
    )
    options.add_argument(
        "--layouts",
        type=int,
        default=0,
        help="mean over so many layouts of the kernel (default: the layout that was built)",
    )
    add_set_option(options)
    chosen = options.parse_args()
    settings = changes_of(chosen.set)
    whole_number("--layouts", chosen.layouts, high=MOST_LAYOUTS)
    for processes in chosen.processes or []:
        whole_number("--processes", processes, 2, MOST_PROCESSES)
    for machine in chosen.machine or ["ixp425"]:
        run.kernel(machine, run.SCHEMES[0])
        mmulab.Machine.load(machine).with_changes(settings)  # before the table begins
    print("| machine | processes | scheme | whole | direct | refilled |", " | ".join(COLUMNS), "|")
    print("|---|---:|---|" + "---:|" * (3 + len(COLUMNS)))
    for machine in chosen.machine or ["ixp425"]:
        with tempfile.TemporaryDirectory() as folder:
            images = [Path(folder) / str(layout) for layout in range(chosen.layouts)]
            for layout, image in enumerate(images):
                layouts.link_layout(run.WITH_SPACES[machine], image, layout)
            cases = list(itertools.product(chosen.processes or [2, 16], CASES))
            for processes, case in one_by_one(f"Measuring {machine}", cases, "rows"):
                tell(machine, processes, *case, settings, images or [None])


def tell(machine, processes, scheme, program, words, settings, images):
    """Prints a row: the means over the kernel's images."""
    samples = [costs(machine, scheme, program, processes, settings, image) for image in images]
    found = {column: mean(sample[column] for sample in samples) for column in COLUMNS}
    whole = sum(found.values())
    direct = found["instructions"] + found["maintenance"]
    cells = [whole, direct, whole - direct, *found.values()]
    print(
        f"| {machine} | {processes} | {words} |",
        " | ".join(f"{value:.1f}" for value in cells),
        "|",
        flush=True,
    )


if __name__ == "__main__":
    run_script(main)
