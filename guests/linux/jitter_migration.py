"""Linux with TLB migration: wake-up times of cyclictest whose threads migrate.

    jitter_migration.py --boots 20 --way off --way safe

Debian's cyclictest with four threads that wake up every 500 us by a timer, real-time before all
else: first each is given another core every 500 us while nothing else runs, then they go where the
scheduler has them, beside hackbench. Boots differ by how long they sleep before. Prints a Markdown
table: mean, standard deviation and most of each boot's wake-up times in microseconds, as the mean
of the boots with its interval of 95%; the most of all; how many wake-ups there were in all boots,
and with `safe` how many migrations in each, and how many of these brought entries. Each boot takes
a minute or more. Needs `make linux-migration` and
`make -C guests/linux OUT=$PWD/build/linux loads`.
"""

import itertools
import math
import operator
import re
import sys
from pathlib import Path
from statistics import mean

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run
from loads_migration import INITRD

import mmulab
from mmulab.command import run_script, script_options
from mmulab.limits import whole_number
from mmulab.output import one_by_one
from mmulab.papers import tlb_migration_linux as linux

WAYS = {"off": "off", "safe": "safe", "version 5": "transfer"}
INTERVAL = 500
BINS = 500
# Longer than cyclictest.
HACKBENCH = "hackbench -p -g 1 -l 100000"
CYCLICTEST = f"cyclictest -q -t 4 -p 80 -i {INTERVAL} -d 0 -m -h {BINS} -l {{}} > /tmp/times"
# The histogram without what never was.
TELL = "grep -v ' 000000.000000.000000.000000' /tmp/times"
CASES = {
    "forced": f"{{{{ together -m {INTERVAL} 1 sh -c '{CYCLICTEST}'; {TELL}; }}}}",
    "beside hackbench": f"{{{{ {HACKBENCH} & {CYCLICTEST}; kill $!; {TELL}; }}}}",
}
HISTOGRAM = re.compile(r"^(\d{6}) (\d{6}(?:\t\d{6})+)\r?$", re.M)
SUMS = "# {}: ([\\d ]+?)\\r?$"


def boot(machine, way, boots, loops):
    """What one boot printed, and counted in each case."""
    commands = [f"usleep {1000 * boots + 1}", *(case.format(loops) for case in CASES.values())]
    result = linux.boot(machine, WAYS[way], linux.with_counts(commands), initrd=INITRD)
    if result.exit != 0:
        raise run.failure(way, result)
    return result.console, linux.counts_of_each(result.console)[1:]


def wake_ups(console):
    """For each case the number of wake-ups, and mean, deviation and most of their times."""
    found = []
    for part in console.split("# Histogram\r\n")[1:]:
        times = [
            (int(time), sum(map(int, counts.split()))) for time, counts in HISTOGRAM.findall(part)
        ]
        total, longest, beyond = (
            [int(value) for value in re.search(SUMS.format(name), part, re.M)[1].split()]
            for name in ("Total", "Max Latencies", "Histogram Overflows")
        )
        number = sum(count for _, count in times)
        if any(beyond) or number != sum(total):
            raise SystemExit(f"{sum(beyond)} wake-ups took {BINS} us or more")
        average = sum(time * count for time, count in times) / number
        squares = sum((time - average) ** 2 * count for time, count in times) / number
        found.append((average, math.sqrt(squares), max(longest), number))
    return found


def interval(values):
    """Mean and interval of 95% in words."""
    return f"{mean(values):.1f} +- {linux.half_interval(values):.1f}"


def main():
    options = script_options(__doc__)
    options.add_argument(
        "-m",
        "--machine",
        choices=linux.MACHINES,
        default=linux.MACHINES[0],
        help="the machine (default: %(default)s)",
    )
    options.add_argument(
        "--boots",
        type=int,
        choices=linux.STUDENT,
        default=5,
        help="boots for each way (default: %(default)s)",
    )
    options.add_argument(
        "--way",
        choices=WAYS,
        action="append",
        help="how the kernel is booted; may be repeated (default: all)",
    )
    options.add_argument(
        "--loops",
        type=int,
        default=250,
        help="wake-ups of the thread that has them first (default: %(default)s)",
    )
    chosen = options.parse_args()
    whole_number("--loops", chosen.loops, 1)
    run.need_migration(INITRD)
    machine = mmulab.Machine.load(chosen.machine)
    print(
        "| case | way | mean | deviation | most | most of all | wake-ups | migrations | with entries |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|---:|", flush=True)
    ways = chosen.way or list(WAYS)
    boots = one_by_one("Booting", list(itertools.product(ways, range(chosen.boots))), "boots")
    for way, numbered in itertools.groupby(boots, operator.itemgetter(0)):
        told = []
        for _, number in numbered:
            print(f"{chosen.machine}, {way}, boot {number + 1}", file=sys.stderr, flush=True)
            console, counted = boot(machine, way, number, chosen.loops)
            told.append((wake_ups(console), counted))
        for case, name in enumerate(CASES):
            times = [one[0][case] for one in told]
            figures = [interval([time[figure] for time in times]) for figure in range(3)]
            counted = [one[1][case] for one in told]
            counts = [mean(one[name] for one in counted) for name in ("migrations", "restored")]
            print(
                f"| {name} | {way} | {' | '.join(figures)} | {max(time[2] for time in times)} | {sum(time[3] for time in times):,} "
                f"| {' | '.join(f'{count:.0f}' if count else '' for count in counts)} |",
                flush=True,
            )


if __name__ == "__main__":
    run_script(main)
