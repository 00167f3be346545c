"""Runs the random program beside its reference, which has no caches and empties its TLB after each
step.

    run_random.py
    run_random.py -m sa1100 --maintenance right --seeds 0:100

What must hold depends on the maintenance that the program does beside that at random:

    careless    none: no access finds something else than in the reference before the first report
    tlb-right   that of the TLB: and the first report, if it is of a value, comes with such an access, not before
    right       all, of the TLB by address: every access finds what it does in the reference, without a report

Exit status 1 if a run does not come out as expected.
"""

import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import oracle
from cores import ALL, CORES, SPLIT_TLB

import mmulab
from mmulab.command import run_script, script_options
from mmulab.output import one_by_one

CARELESS, TLB_RIGHT, RIGHT = MAINTENANCE = ("careless", "tlb-right", "right")
LEFT_OUT_SEEDS = range(64)
LIMIT = 20_000_000

# Reports of which the access found another value than it should; the others tell of an address or a
# permission.
OF_A_VALUE = ("stale-data-line", "stale-read-buffer", "stale-memory", "stale-instruction")


@dataclass(frozen=True)
class LeftOut:
    """An operation that right maintenance lacks, where it is needed, and what its lack must be
    reported as."""

    name: str
    machines: tuple
    kinds: tuple  # any of these


OF_THE_TLB = ("stale-tlb-entry", "spurious-fault")
LEFT_OUT = [
    LeftOut("DATA_CLEAN", ALL, ("data-homonym", "stale-data-line", "stale-memory")),
    LeftOut("MINICACHE_CLEAN", ("sa1100", "ixp425"), ("stale-memory",)),
    LeftOut("CODE_INVALIDATE", ALL, ("stale-instruction", "instruction-homonym")),
    LeftOut("READ_BUFFER", ("sa1100",), ("stale-read-buffer",)),
    LeftOut("DATA_TLB", SPLIT_TLB, OF_THE_TLB),
    LeftOut("CODE_TLB", SPLIT_TLB, OF_THE_TLB),
    LeftOut("TLB_OF_SLOT", ALL, OF_THE_TLB),
    LeftOut("TLB_OF_SECTION", ALL, OF_THE_TLB),
    LeftOut("TLB_OF_TABLES", ALL, OF_THE_TLB),
]


@dataclass(frozen=True)
class Step:
    """What a step printed: what its access found, and how many reports there were after it."""

    found: tuple
    reports: int


@dataclass(frozen=True)
class Outcome:
    """How a run compares with its reference: the steps of the first difference and of the first
    report, and that."""

    difference: int | None
    reported: int | None
    report: dict | None
    wrong: str | None  # None if all is as it must be, else what is wrong, in words


def build(machine, maintenance, left_out=None):
    """The ELF of the program, or without `left_out` that of its reference."""
    number, cpu = CORES[machine]
    name = f"mutants/random.{machine}.{maintenance}.{left_out or 'reference'}"
    flags = [f"-DLEFT_OUT={left_out}"] if left_out else ["-DREFERENCE"]
    flags += [
        f"-mcpu={cpu}",
        "-marm",
        "-O1",
        f"-DCORE={number}",
        f"-DMAINTENANCE={maintenance.upper().replace('-', '_')}",
        "-Wl,--defsym=program=random_steps",
    ]
    sources = [HERE / name for name in ("start.S", "random_set_up.c", "random.c")]
    return oracle.compile(name, sources, flags, HERE / "link.ld")


def steps_of(image, machine, seed, check):
    """The steps of a run, and the run."""
    run = mmulab.boot(image, machine, append=str(seed), check=check, max_instructions=LIMIT)
    if run.exit != 0:
        raise SystemExit(f"{image.name} with seed {seed} does not end well: {run.end}")
    steps = []
    for line in run.console.splitlines():
        _, *found, reports = line.split()
        steps.append(Step(tuple(found), int(reports, 16)))
    return steps, run


def judged(maintenance, reference, steps, report):
    """The outcome of a run with such steps and such a first report, or None, beside its
    reference."""
    pairs = enumerate(zip(reference, steps, strict=True))
    difference = next((number for number, (one, two) in pairs if one.found != two.found), None)
    reported = next((number for number, step in enumerate(steps) if step.reports), None)
    wrong = None
    if difference is not None and (reported is None or difference < reported):
        found, expected = steps[difference].found, reference[difference].found
        wrong = f"step {difference} finds {found} for {expected} without a report"
    elif maintenance == RIGHT and report:
        wrong = f"step {reported} is reported: {report['text']}"
    elif maintenance == TLB_RIGHT and report and report["kind"] in OF_A_VALUE:
        if difference != reported:
            wrong = f"step {reported} is reported, and finds what it must: {report['text']}"
    return Outcome(difference, reported, report, wrong)


def compare(machine, maintenance, seed, left_out="NOTHING", check=True):
    """The outcome of a seed. What leaves something out is judged as if it were careless."""
    reference, _ = steps_of(build(machine, maintenance), machine, seed, check=False)
    steps, run = steps_of(build(machine, maintenance, left_out), machine, seed, check)
    report = run.reports[0] if run.reports else None
    return judged(maintenance if left_out == "NOTHING" else CARELESS, reference, steps, report)


def judge(machine, maintenance, seed):
    """None if all is as it must be, else what is wrong, in words."""
    return compare(machine, maintenance, seed).wrong


def judge_left_out(left_out, machine, seeds=LEFT_OUT_SEEDS):
    """None if a seed has what is left out reported, and none finds something wrong without; else
    what is wrong."""
    kinds = set()
    for seed in seeds:
        outcome = compare(machine, RIGHT, seed, left_out.name)
        if outcome.wrong:
            return f"seed {seed}: {outcome.wrong}"
        if outcome.report:
            kinds.add(outcome.report["kind"])
            if outcome.report["kind"] in left_out.kinds:
                return None
    return f"reported by no seed up to {seeds[-1]} as it should: {kinds or 'no report'}"


def main():
    options = script_options(__doc__)
    options.add_argument(
        "-m", "--machine", action="append", choices=CORES, help="only this one; may be repeated"
    )
    options.add_argument(
        "--maintenance", action="append", choices=MAINTENANCE, help="only this; may be repeated"
    )
    options.add_argument(
        "--seeds", metavar="FIRST:END", default="0:16", help="without the last (default: 0:16)"
    )
    chosen = options.parse_args()
    seeds = re.fullmatch(r"(\d{1,6}):(\d{1,6})", chosen.seeds)
    if not seeds or int(seeds[1]) >= int(seeds[2]):
        options.error(f"--seeds: write FIRST:END, the first below the end, not {chosen.seeds!r}")
    oracle.need_tools(oracle.COMPILER)
    runs = [
        (machine, maintenance, seed)
        for machine in chosen.machine or CORES
        for maintenance in chosen.maintenance or MAINTENANCE
        for seed in range(int(seeds[1]), int(seeds[2]))
    ]
    counts = {}
    for machine, maintenance, seed in one_by_one("Comparing", runs, "runs"):
        outcome = compare(machine, maintenance, seed)
        count = counts.setdefault((machine, maintenance), Counter())
        count["runs"] += 1
        count["reported"] += outcome.reported is not None
        count["of a value"] += outcome.report is not None and outcome.report["kind"] in OF_A_VALUE
        count["different"] += outcome.difference is not None
        count["wrong"] += outcome.wrong is not None
        if outcome.wrong:
            print(f"BAD {maintenance} on {machine}, seed {seed}: {outcome.wrong}", flush=True)
    for (machine, maintenance), count in counts.items():
        print(
            f"{'BAD' if count['wrong'] else 'ok '} {maintenance} on {machine}: {count['runs']} runs,"
            f" {count['different']} with a difference, {count['reported']} with a report,"
            f" {count['of a value']} first of a value, {count['wrong']} wrong"
        )
    sys.exit(any(count["wrong"] for count in counts.values()))


if __name__ == "__main__":
    run_script(main)
