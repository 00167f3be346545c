"""Linux with TLB migration: what each single migration gains.

    gains_migration.py --starts 1 --way safe SQLite

Runs a load whose processes are given another core every millisecond, from a saved state, once as it
is and once for each migration that brings entries, where this one brings none: all of the run
before is the same, cycle by cycle. What the timelines differ in first is the core that switches to
the task. The gain is by how much longer the task takes without its entries from there to its first
instruction in user mode, and in user mode for its next instructions, up to where both runs enter
the kernel at the same instruction. Beside it the same difference for what the other cores execute
at that moment, which no entry has come for: it tells what is chance. Prints a Markdown table: the
share that gains, and quantiles in nanoseconds. A start takes minutes. Needs `make linux-migration`
and `make -C guests/linux OUT=$PWD/build/linux loads`.
"""

import json
import sys
import tempfile
from bisect import bisect_right
from itertools import count, groupby, pairwise, product
from operator import itemgetter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run
from loads_migration import INITRD, LOADS

import mmulab
from mmulab.command import run_script, script_options
from mmulab.limits import whole_number
from mmulab.output import one_by_one
from mmulab.papers import tlb_migration_linux as linux

# Of one thread each, so that an address space is a task.
PROCESSES = ("SQLite", "compiler")
WAYS = {"safe": "safe", "version 5": "transfer"}
PERIOD = 1000
# Instructions of the task in user mode after which the runs are compared, where both enter the
# kernel next; the last is more than any stay has.
NEXT = (10_000, 100_000, 1 << 63)
# Rows of a timeline (crates/system/src/timeline.rs).
SPACES, MODES = 1, 2
QUANTILES = (5, 25, 50, 75, 95)


class Core:
    """What a timeline tells of one core: times in cycles."""

    def __init__(self, events, cycles):
        rows = {SPACES: [], MODES: []}
        for event in events:
            if event["ph"] == "X" and event["tid"] in rows:
                begin = round(event["ts"] * cycles)
                rows[event["tid"]].append((begin, begin + event["args"]["cycles"], event))
        for row in rows.values():
            row.sort(key=lambda one: one[:2])
        # A space without its domains, which change with each access of the kernel to user memory.
        self.spaces = [
            (begin, end, event["name"].rpartition(" domains")[0])
            for begin, end, event in rows[SPACES]
            if end > begin
        ]
        self.modes = [
            (begin, end, event["name"], event["args"].get("instructions", 0))
            for begin, end, event in rows[MODES]
        ]

    def space_at(self, at):
        """Number of the slice of the space at that time."""
        return bisect_right(self.spaces, at, key=lambda one: one[0]) - 1

    def first_of(self, at):
        """When the space of that time came."""
        number = self.space_at(at)
        while number and self.spaces[number - 1][2] == self.spaces[number][2]:
            number -= 1
        return self.spaces[number][0]

    def progress(self, space, since, until):
        """Instructions that a space has executed in user mode on this core at the ends of its times
        in user mode, and the cycles: those in user mode, and those that the space had before the
        first."""
        executed = cycles = 0
        found = {}
        for begin, end, mode, instructions in self.modes:
            if mode != "user" or begin < since or end > until:
                continue
            if self.spaces[self.space_at(begin)][2] != space:
                continue
            if not found:
                cycles = sum(
                    min(last, begin) - first
                    for first, last, name in self.spaces
                    if name == space and since <= first < begin
                )
                found[0] = cycles
            executed, cycles = executed + instructions, cycles + end - begin
            found[executed] = cycles
        return found


def timeline(path, machine):
    """The cores of a timeline."""
    events = json.loads(path.read_text())["traceEvents"]
    path.unlink()
    cycles = int(str(machine.get("core.clock_hz"))) / 1e6
    return [
        Core([event for event in events if event["pid"] == core], cycles)
        for core in range(int(str(machine.get("cores"))))
    ]


def parting(with_it, without):
    """The core and the time where two timelines differ first, or None."""
    found = []
    for number, (one, other) in enumerate(zip(with_it, without, strict=True)):
        for left, right in zip(one.modes, other.modes, strict=False):
            if left != right:
                found.append((min(left[1], right[1]), number))
                break
    if not found:
        return None
    at, core = min(found)
    return core, at


def differences(with_it, without, core, since):
    """For each of `NEXT` by how many cycles what a core executes takes longer in the second run,
    and how many instructions that is, or none where the stay has no instruction in both; and
    whether that is exact."""
    both, spaces = (with_it, without), with_it[core].spaces
    space = spaces[with_it[core].space_at(since)][2]
    points = []
    for cores in both:
        elsewhere = [
            begin
            for number, other in enumerate(cores)
            if number != core
            for begin, _, name in other.spaces
            if name == space and begin > since
        ]
        points.append(cores[core].progress(space, since, min(elsewhere, default=1 << 63)))
    # Where both leave user mode after the same instructions.
    ends = sorted(points[0].keys() & points[1].keys() - {0})
    if ends:
        counts = [next((end for end in ends if end >= least), ends[-1]) for least in NEXT]
        return [(points[1][end] - points[0][end], end) for end in counts], True
    return about_same(*(list(one.items()) for one in points)), False


def about_same(with_it, without):
    """The same where an interrupt came at other instructions, or none: where the first of the two
    left user mode, and the other executed at the mean rate of its time in user mode there; of all
    such places that where the least is reckoned so."""
    found = []
    for times in zip(pairwise(with_it), pairwise(without), strict=False):
        end = min(after for _, (after, _) in times)
        reckoned = [
            (after - end) * (left - begin) / (after - before)
            for (before, begin), (after, left) in times
        ]
        one, other = (left - less for (_, (_, left)), less in zip(times, reckoned, strict=True))
        found.append((max(reckoned), other - one, end))
    return [min(found)[1:]] * len(NEXT) if found else None


def chance(with_it, without, at, migrated):
    """The same for what the other cores executed at that time in user mode."""
    found = []
    for number, core in enumerate(with_it):
        at_work = [one for one in core.modes if one[0] <= at < one[1] and one[2] == "user"]
        if number != migrated and at_work:
            found.append(differences(with_it, without, number, at_work[0][0]))
    return [one for one, exact in found if exact]


class Experiment:
    """A load on a machine, ready to run again and again."""

    def __init__(self, name, way, load, start, folder):
        self.machine = mmulab.Machine.load(name).with_changes(
            {"core.coprocessor": linux.COPROCESSOR}
        )
        self.folder = folder
        command = LOADS[load]
        # The text that the state is saved at is not in the command line, which the kernel prints.
        script = (
            f"for run in $(seq {start}); do together -m {PERIOD} {command}; done; echo re\\ady; read number; "
            f"echo skip $number > /proc/tlb_migration_test; together -m {PERIOD} {command}"
        )
        self.files = {
            "dtb": run.built(linux.DEVICE_TREE),
            "initrd": run.built(INITRD),
            "append": f'console=ttyAMA0 tlb_migration={WAYS[way]} mmulab.run="{script}"',
        }
        self.boot(save=folder / "state", save_at="ready")

    def boot(self, **options):
        """One run."""
        image = run.built("kernel-migration") / "Image"
        result = mmulab.boot(image, self.machine, **self.files, **options)
        if not result.succeeded:
            raise run.failure(self.files["append"], result)
        return result

    def without(self, number):
        """The timeline of the run where this migration brings no entries; with 0 all do."""
        path = self.folder / "timeline"
        self.boot(restore=self.folder / "state", typed=f"{number:04}\n", timeline=path)
        return timeline(path, self.machine)


def measure(name, way, load, start):
    """Of each migration of one run the differences, and those by chance; how many of the first are
    estimates; and how many migrations have none."""
    with tempfile.TemporaryDirectory() as folder:
        experiment = Experiment(name, way, load, start, Path(folder))
        with_it = experiment.without(0)
        gains, by_chance, estimated, without_any = [], [], 0, 0
        for number in count(1):
            without = experiment.without(number)
            parted = parting(with_it, without)
            if not parted:
                # There are not so many.
                return gains, by_chance, estimated, without_any
            core, at = parted
            found, exact = differences(with_it, without, core, with_it[core].first_of(at))
            if found:
                gains.append(found)
                estimated += not exact
                by_chance += chance(with_it, without, at, core)
            else:
                without_any += 1
            print(f"{name}, {way}, {load}: migration {number}", file=sys.stderr, flush=True)


def quantile(values, percent):
    """By rank, between the two nearest."""
    place = (len(values) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(values) - 1)
    return values[low] + (values[high] - values[low]) * (place - low)


def row(title, found, at, nanoseconds):
    """A row of the table."""
    gains = sorted(one[at][0] * nanoseconds for one in found)
    share = sum(gain > 0 for gain in gains) / len(gains)
    executed = sorted(one[at][1] for one in found)
    quantiles = " | ".join(f"{quantile(gains, percent):,.0f}" for percent in QUANTILES)
    mean = sum(gains) / len(gains)
    after = f"{NEXT[at]:,}" if at + 1 < len(NEXT) else "its stay"
    return f"| {title} | {after} | {quantile(executed, 50):,.0f} | {len(gains)} | {share:.0%} | {quantiles} | {mean:,.0f} |"


def main():
    options = script_options(__doc__)
    options.add_argument(
        "loads",
        nargs="*",
        default=PROCESSES,
        metavar="LOAD",
        help=f"only these of {', '.join(map(repr, PROCESSES))} (default: all)",
    )
    options.add_argument(
        "-m",
        "--machine",
        choices=linux.MACHINES,
        default=linux.MACHINES[0],
        help="the machine (default: %(default)s)",
    )
    options.add_argument(
        "--starts",
        type=int,
        default=2,
        help="runs of a load, each after one more run (default: %(default)s)",
    )
    options.add_argument(
        "--way",
        choices=WAYS,
        action="append",
        help="how the kernel is booted; may be repeated (default: all)",
    )
    chosen = options.parse_args()
    if unknown := set(chosen.loads) - set(PROCESSES):
        options.error(f"no load {unknown.pop()}: choose from {', '.join(PROCESSES)}")
    whole_number("--starts", chosen.starts, 1)
    run.need_migration(INITRD)
    clock_hz = int(str(mmulab.Machine.load(chosen.machine).get("core.clock_hz")))
    names = (f"{percent}%" for percent in QUANTILES)
    print(f"| load | instructions | median | migrations | gain | {' | '.join(names)} | mean |")
    print("|---|" + "---:|" * (len(QUANTILES) + 5), flush=True)
    starts = range(1, chosen.starts + 1)
    runs = list(product(chosen.loads, chosen.way or WAYS, starts))
    boots = one_by_one("Booting", runs, "boots")
    for (load, way), numbered in groupby(boots, itemgetter(0, 1)):
        gains, by_chance, estimated, without_any = [], [], 0, 0
        for *_, start in numbered:
            print(f"{chosen.machine}, {load}, {way}, after {start} runs", file=sys.stderr)
            found = measure(chosen.machine, way, load, start)
            gains += found[0]
            by_chance += found[1]
            estimated += found[2]
            without_any += found[3]
        print(f"{estimated} estimates, {without_any} not in user mode", file=sys.stderr)
        for title, values in ((f"{load}, {way}", gains), ("other cores", by_chance)):
            for at in range(len(NEXT)):
                print(row(title, values, at, 1e9 / clock_hz), flush=True)


if __name__ == "__main__":
    run_script(main)
