"""Linux with TLB migration: programs that migrate by themselves, and as often as they are made to.

    loads_migration.py "hackbench, threads"

Runs each load several times in a boot of each way, first as the scheduler has it, then with each of
its threads given another core after so many microseconds, again and again. Prints a Markdown table:
mean time with its interval of 95%, and what the kernel counted in a run. With --predictors, for
gem5-vexpress, the ways differ in which entries go along, and it is counted how many of these were
used before the next migration, which takes time. A load takes minutes for each way. Needs
`make linux-migration` and `make -C guests/linux OUT=$PWD/build/linux loads`.
"""

import itertools
import re
import sys
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run

import mmulab
from mmulab.command import run_script, script_options
from mmulab.limits import whole_number
from mmulab.output import one_by_one
from mmulab.papers import tlb_migration_linux as linux

INITRD = "initrd-loads.cpio"
LOADS = {
    "hackbench, threads": "1 hackbench -T -g 1 -l 5",
    "hackbench, processes": "1 hackbench -p -g 1 -l 5",
    "OpenMP": "1 grid 6",
    "SQLite": "4 sqlite3 -init /loads/rows.sql :memory: .exit",
    "compiler": "6 tcc -c /loads/stress.i -o /tmp/stress.o",
}
MODES = {"off": "off", "safe": "safe", "version 5": "transfer tlb_migration_account=1"}
PREDICTORS = {
    "all": "safe tlb_migration_account=1",
    "used": "safe tlb_migration_account=1 tlb_migration_used=1",
    "used, two ticks": "safe tlb_migration_account=1 tlb_migration_used=2",
    "used, one tick": "safe tlb_migration_account=1 tlb_migration_used=3",
}
TIME = re.compile(r"^together: ([\d.]+) s, 0 failed", re.M)


def entries(counts):
    """How many entries came with a migration that brought any."""
    if counts["transfers"]:
        return counts["entries_taken_over"] / counts["transfers"]
    return counts["words_restored"] / linux.WORDS_AN_ENTRY / max(counts["restored"], 1)


def used(counts):
    """The share of these that was used before the next migration."""
    return f"{1 - counts['words_unused'] / counts['words_restored']:.0%}"


def measure(machine, parameters, commands, runs):
    """For each command seconds of each run, and what the kernel counted in all of them."""
    # The first run of each reads the program, and is left out.
    loops = [
        part
        for command in commands
        for part in (
            f"together {command}",
            f"for run in $(seq {runs}); do together {command}; done",
        )
    ]
    result = linux.boot(machine, parameters, linux.with_counts(loops), initrd=INITRD)
    seconds = [float(time) for time in TIME.findall(result.console)]
    if result.exit != 0 or len(seconds) != len(commands) * (runs + 1):
        raise run.failure(parameters, result)
    counts = linux.counts_of_each(result.console)[1::2]
    return [
        (seconds[at * (runs + 1) + 1 : (at + 1) * (runs + 1)], counted)
        for at, counted in enumerate(counts)
    ]


def main():
    options = script_options(__doc__)
    options.add_argument(
        "loads",
        nargs="*",
        default=list(LOADS),
        metavar="LOAD",
        help=f"only these of {', '.join(map(repr, LOADS))} (default: all)",
    )
    options.add_argument(
        "-m",
        "--machine",
        choices=linux.MACHINES,
        default=linux.MACHINES[0],
        help="the machine (default: %(default)s)",
    )
    options.add_argument(
        "--runs",
        type=int,
        choices=linux.STUDENT,
        default=5,
        help="runs of a load in each boot (default: %(default)s)",
    )
    options.add_argument(
        "--forced",
        type=int,
        default=1000,
        metavar="MICROSECONDS",
        help="how long a thread stays on a core where it is made to migrate (default: %(default)s)",
    )
    options.add_argument(
        "--predictors",
        action="store_true",
        help="compare which entries go along, and count those that were used",
    )
    chosen = options.parse_args()
    if chosen.predictors and chosen.machine != linux.MACHINES[0]:
        options.error(
            f"--predictors: the kernel counts up to its limit of 64 entries, which {chosen.machine}'s TLB exceeds;"
            f" leave -m out for {linux.MACHINES[0]}"
        )
    ways = PREDICTORS if chosen.predictors else MODES
    if unknown := set(chosen.loads) - set(LOADS):
        options.error(f"no load {unknown.pop()}: choose from {', '.join(map(repr, LOADS))}")
    whole_number("--forced", chosen.forced, 1)
    run.need_migration(INITRD)
    machine = mmulab.Machine.load(chosen.machine)
    print("| load | way | ms | migrations | with entries | entries of these |", end="")
    print(" used |" if chosen.predictors else "")
    print("|---|---|---:|---:|---:|---:|" + "---:|" * chosen.predictors, flush=True)
    cases = list(itertools.product(chosen.loads, ways))
    for load, way in one_by_one("Booting", cases, "boots"):
        print(f"{chosen.machine}, {load}, {way}", file=sys.stderr)
        commands = [LOADS[load], f"-m {chosen.forced} {LOADS[load]}"]
        found = measure(machine, ways[way], commands, chosen.runs)
        for how, (seconds, counts) in zip(("", ", forced"), found, strict=True):
            half = linux.half_interval(seconds)
            counted = [
                f"{counts[name] / chosen.runs:.0f}" if counts[name] else ""
                for name in ("migrations", "transfers" if counts["transfers"] else "restored")
            ]
            counted.append(f"{entries(counts):.0f}" if counted[-1] else "")
            if chosen.predictors:
                counted.append(used(counts) if counts["words_restored"] else "")
            print(
                f"| {load}{how} | {way} | {1000 * mean(seconds):.1f} +- {1000 * half:.1f} "
                f"| {' | '.join(counted)} |",
                flush=True,
            )


if __name__ == "__main__":
    run_script(main)
