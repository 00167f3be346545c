"""TLB migration in Linux's scheduler (`make linux-migration`): chapters 7 to 9 of Landsberg's thesis.

The kernel has four ways, chosen at boot: `off`; `thesis`, which saves where the thesis does and checks nothing;
`safe`, which saves at every migration and whose entries expire with their mappings; and `transfer`, by version 5 of the
interface, which is ours.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from pathlib import Path
from statistics import mean, stdev

import pyarrow as pa

import mmulab
from mmulab.boot import Console
from mmulab.errors import MmulabError
from mmulab.papers import Claim, Published, Run, about, linux, published_table, wrong_parts

PAPER = "tlb_migration_2018"
BUILD = "Linux with TLB migration is not built; in a checkout: make linux-migration"
NOTES = (
    "Chapters 7 to 9 by Linux 6.12 with four cores, where it is built: medians of 10 runs (8.1) and 100 (8.2), or with --full "
    "of 100 and 1,000; "
    "caches are flushed by set and way before each access or run, as in the thesis."
)
KERNEL, SYMBOLS = "kernel-migration/Image", "kernel-migration/vmlinux"
INITRD, DEVICE_TREE = "initrd-migration.cpio", "virt.dtb"
COPROCESSOR = "cortex-a7-tlb-migration"
"""The Cortex-A7's system control coprocessor with the interfaces of chapter 5."""
MODES = ("off", "thesis", "safe", "transfer")
PAGES = (1, 8, 16, 24, 32, 40, 48, 56, 64)
"""The published points of 8.2."""
BREAK_EVEN, BEST, GAIN_PERCENT = 40, 56, 1.4
"""Pages from which the thesis gains, pages with which it gains most, and how much of the time."""
MACHINES = ("gem5-vexpress", "cortex-a7")
"""The system that the thesis simulated, and the core that it began with."""
STAYS = ((48, 48), (48, 12))
"""A working set that stays, and one that moves on: pages, and how many are used in each stay on a core."""
POLICIES = {
    "off": "off",
    "all": "safe",
    "used": "safe tlb_migration_used=1",
    "at most 32": "safe tlb_migration_entries=32",
    "at most 16": "safe tlb_migration_entries=16",
    "transfer": "transfer",
}
"""What moves along with a task, and the kernel's parameter for it."""
LOADS = {
    "hackbench, threads": "hackbench -T -g 1 -l 5",
    "hackbench, processes": "hackbench -p -g 1 -l 5",
}
"""Programs that migrate by themselves, each run several times."""
LOAD_MODES = {
    "off": "off",
    "thesis": "thesis",
    "safe": "safe",
    "safe, no requests": "safe tlb_migration_requests=0",
    "transfer": "transfer",
}
PERIODIC_PAGES = (4, 16, 48)
VALIDATED = re.compile(r"^hop validate: ([\d ]+?)\r?$", re.M)
TOTAL = re.compile(r"^hop total (\d+): (\d+) (\d+) (\d+)", re.M)
STAY = re.compile(r"^hop stay (\d+) (\d+): (\d+)", re.M)
PERIODIC = re.compile(r"^hop periodic (\d+): (\d+) (\d+) (\d+)", re.M)
TIME = re.compile(r"^Time: ([\d.]+)", re.M)
COUNT = re.compile(r"^(\w+) (\d+)\r?$", re.M)
STALE = re.compile(r"^wander: stale: (.+?)\r?$", re.M)
WORDS_AN_ENTRY = 7 / 4
"""Version 4 takes seven bytes for an entry."""
STUDENT = {5: 2.776, 20: 2.093}
"""Student's t for 95%, two-sided, by the number of values: Abramowitz and Stegun, table 26.10."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """What the runs gave; times in nanoseconds."""

    validation: dict[tuple[str, str], list[float]]
    """By machine and mode: an access in each of eight runs."""
    totals: dict[tuple[str, str], dict[int, tuple[int, int, int]]]
    """By machine and mode, by pages: the whole, the accesses, the migrations."""
    stale: dict[str, str]
    """What the attack says, by mode."""
    stays: dict[tuple[str, tuple[int, int]], dict[str, float]]
    """By policy and working set: time of a stay, entries moved, the part of these that was used, where it is known."""
    loads: dict[tuple[str, str], dict[str, float]]
    """By load and mode: seconds, the half of their interval, and what the kernel counted."""
    periodic: dict[tuple[str, int], tuple[int, int, int]]
    """By mode and pages: mean, standard deviation and most of a job's time."""


def built() -> Path | None:
    """Where the kernel is, if it is."""
    folder = linux.folder()
    return folder if folder is not None and (folder / KERNEL).exists() else None


def is_built() -> bool:
    """Whether `make linux-migration` was there."""
    return built() is not None


def inputs() -> list[Path]:
    """The files that the runs boot."""
    folder = built()
    return [folder / name for name in (KERNEL, INITRD, DEVICE_TREE)] if folder else []


def boot(
    machine: mmulab.Machine,
    mode: str,
    command: str,
    *,
    coprocessor: str = COPROCESSOR,
    check: bool = False,
    max_instructions: int | None = None,
    console: Console | None = None,
) -> mmulab.BootResult:
    """Runs a command of the guest's shell; `mode` is the value of `tlb_migration=` with what else the kernel is told."""
    folder = built()
    assert folder is not None
    return mmulab.boot(
        folder / KERNEL,
        machine.with_changes({"core.coprocessor": coprocessor}),
        dtb=folder / DEVICE_TREE,
        initrd=folder / INITRD,
        append=f'console=ttyAMA0 tlb_migration={mode} mmulab.run="{command}"',
        symbols=folder / SYMBOLS,
        check=check,
        max_instructions=max_instructions,
        console=console,
    )


def printed(run: Run, name: str, mode: str, command: str) -> str:
    """What the command prints; raises `MmulabError` where it fails, since these programs check themselves."""
    run.progress(f"Linux, tlb_migration={mode}, on {name}: {command}")
    result = boot(run.machine(name), mode, command)
    if result.exit != 0:
        raise MmulabError(f"{name}, {mode}: {command} failed: {result.console[-300:]}")
    return result.console


def run_linux(run: Run) -> Measured | None:
    """All experiments, or None where the kernel is not built."""
    if not is_built():
        return None
    gem5 = MACHINES[0]
    validated: dict[tuple[str, str], list[float]] = {}
    totals = {}
    for name in MACHINES:
        nanoseconds = 1e9 / int(str(run.machine(name).get("core.clock_hz")))
        for mode in MODES:
            validate, all_timed = ("100", "1000") if run.full else ("10", "100")
            command = (
                f"hop validate {validate} && hop total {all_timed} {' '.join(map(str, PAGES))}"
            )
            console = printed(run, name, mode, command)
            validated[name, mode] = [cycles * nanoseconds for cycles in validation(console)]
            totals[name, mode] = {
                int(pages): (int(whole), int(accesses), int(migrations))
                for pages, whole, accesses, migrations in TOTAL.findall(console)
            }
    stale = {mode: STALE.findall(printed(run, gem5, mode, "wander stale"))[0] for mode in MODES[1:]}
    return Measured(
        validated,
        totals,
        stale,
        stays={
            (policy, pages): values
            for policy, mode in POLICIES.items()
            for pages, values in stays(run, mode).items()
        },
        loads={
            (load, name): values
            for name, mode in LOAD_MODES.items()
            for load, values in timed(run, mode).items()
        },
        periodic={
            (mode, pages): values
            for mode in (MODES[0], *MODES[2:])
            for pages, values in jobs(run, mode).items()
        },
    )


def validation(console: str) -> list[int]:
    """Cycles of the eight accesses of 8.1."""
    return [int(cycles) for cycles in VALIDATED.findall(console)[0].split()]


def stays(run: Run, mode: str) -> dict[tuple[int, int], dict[str, float]]:
    """The working sets under a policy. What was used of what moved is counted in a run of its own."""
    number = 400 if run.full else 100
    commands = [f"hop stay {number} {pages} {used}" for pages, used in STAYS]
    console = printed(run, MACHINES[0], mode, " && ".join(commands))
    nanoseconds = [int(value) for _, _, value in STAY.findall(console)]
    if mode == "off":
        return {
            pages: {"nanoseconds": value} for pages, value in zip(STAYS, nanoseconds, strict=True)
        }
    accounts = f"{mode} tlb_migration_account=1"
    counted = counts_of_each(printed(run, MACHINES[0], accounts, with_counts(commands)))
    return {
        pages: {"nanoseconds": value, **moved(counts)}
        for pages, value, counts in zip(STAYS, nanoseconds, counted, strict=True)
    }


def moved(counts: dict[str, int]) -> dict[str, float]:
    """Entries of a migration, and the part of them that was used; version 5 has no such count."""
    if counts["transfers"]:
        return {"entries_moved": counts["entries_taken_over"] / counts["transfers"]}
    return {
        "entries_moved": counts["words_restored"] / WORDS_AN_ENTRY / counts["restored"],
        "used_share": 1 - counts["words_unused"] / counts["words_restored"],
    }


def timed(run: Run, mode: str) -> dict[str, dict[str, float]]:
    """Each load's mean time with its interval of 95%, and what migrated."""
    runs = 20 if run.full else 5
    commands = [f"for run in $(seq {runs}); do {command}; done" for command in LOADS.values()]
    console = printed(run, MACHINES[0], mode, with_counts(commands))
    seconds = [float(time) for time in TIME.findall(console)]
    found = {}
    for at, (load, counts) in enumerate(zip(LOADS, counts_of_each(console), strict=True)):
        own = seconds[at * runs : (at + 1) * runs]
        half = STUDENT[runs] * stdev(own) / math.sqrt(runs)
        found[load] = {"seconds": mean(own), "interval": half, **counts}
    return found


def jobs(run: Run, mode: str) -> dict[int, tuple[int, int, int]]:
    """The periodic jobs."""
    command = f"hop periodic {1000 if run.full else 100} {' '.join(map(str, PERIODIC_PAGES))}"
    return {
        int(pages): (int(average), int(deviation), int(most))
        for pages, average, deviation, most in PERIODIC.findall(
            printed(run, MACHINES[0], mode, command)
        )
    }


def with_counts(commands: list[str]) -> str:
    """A command that tells before the first of some commands, and after each, what the kernel counted."""
    tell = "cat /proc/tlb_migration"
    return " && ".join([tell, *(part for command in commands for part in (command, tell))])


def counts_of_each(console: str) -> list[dict[str, int]]:
    """What was counted during each of them."""
    told: list[dict[str, int]] = []
    for name, value in COUNT.findall(console):
        if not told or name in told[-1]:
            told.append({})
        told[-1][name] = int(value)
    return [
        {name: after[name] - before[name] for name in after}
        for before, after in itertools.pairwise(told)
    ]


def judge(found: Measured, claims: dict[str, Published]) -> list[Claim]:
    """mig18-08 to -10 by their rules: the thesis's own way, on the system that it simulated."""
    return [
        judge_validation(found, claims["mig18-08"]),
        judge_total(found, claims["mig18-09"]),
        judge_open_ends(found, claims["mig18-10"]),
    ]


def judge_validation(found: Measured, claim: Published) -> Claim:
    """8.1: the pattern, and the numbers."""
    without, with_it = (found.validation[MACHINES[0], mode] for mode in MODES[:2])
    published = published_table(PAPER, "a16_validation")
    apart = [
        f"run {row['run']} {'with' if column == 'migration' else 'without'} migration {ours[at]:.0f} ({row[column]})"
        for column, ours in (("no_migration", without), ("migration", with_it))
        for at, row in enumerate(published)
        if not about(ours[at], float(row[column]))
    ]
    parts = [
        (
            "without migration the first four runs take half as long again as the last four",
            min(without[:4]) >= 1.5 * max(without[4:]),
        ),
        (
            "with it only the first does",
            with_it[0] >= 1.5 * max(with_it[1:]) and max(with_it[1:]) < 1.5 * min(with_it[1:]),
        ),
        ("all runs as published: not " + ", ".join(apart), not apart),
    ]
    return claim.judge(
        all(holds for _, holds in parts),
        f"without migration {listed(without)}; with the thesis's {listed(with_it)}; with ours "
        f"{listed(found.validation[MACHINES[0], 'safe'])} ns",
        wrong_parts(parts)
        + ". What misses the TLB reads two descriptors and the page from memory here, since the caches are empty; there the first "
        "descriptor was mostly cached, so that it read one",
    )


def net(found: Measured, machine: str, mode: str) -> dict[int, int]:
    """What migration saves of the whole, by pages."""
    before, after = found.totals[machine, "off"], found.totals[machine, mode]
    return {pages: before[pages][0] - after[pages][0] for pages in before}


def judge_total(found: Measured, claim: Published) -> Claim:
    """8.2: from where it gains, where most, and how much."""
    gains = net(found, MACHINES[0], "thesis")
    gaining = [pages for pages in PAGES if gains[pages] > 0]
    first = gaining[0] if gaining else None
    best = max(gains, key=lambda pages: gains[pages])
    whole, accesses, migrations = found.totals[MACHINES[0], "off"][BEST]
    percent = 100 * gains[BEST] / whole
    parts = [
        (
            f"a gain from {first or 'no number of'} pages on ({BREAK_EVEN})",
            first is not None and about(first, BREAK_EVEN),
        ),
        (
            f"most with {best} pages ({BEST}), less with 64",
            best == BEST and gains[64] < gains[BEST],
        ),
        (f"{percent:.2f}% with {BEST} ({GAIN_PERCENT}%)", about(percent, GAIN_PERCENT)),
    ]
    published = {
        int(row["pages"]): int(row["delta"]) for row in published_table(PAPER, "a17_linux")
    }
    return claim.judge(
        all(holds for _, holds in parts),
        "; ".join(text for text, _ in parts)
        + ". Gain in ns: "
        + ", ".join(f"{pages}: {gains[pages]:,} ({published[pages]:,})" for pages in PAGES)
        + "".join(
            f"; of {way} "
            + ", ".join(
                f"{pages}: {gain:,}" for pages, gain in net(found, MACHINES[0], mode).items()
            )
            for mode, way in (("safe", "the safe way"), ("transfer", "version 5"))
        ),
        wrong_parts(parts)
        + f". Of {whole:,} ns with {BEST} pages without migration {accesses:,} are the accesses and {migrations:,} the four "
        "hops, whose instructions come from memory, since the flush empties the second level and the instruction caches, too; the rest is "
        "the flush itself, four times. gem5 of 2018 ignored flushes by set and way. And the thesis's way saves before it sends the task "
        "off, so that all migrations last as much longer; the safe way saves while the task is under way",
    )


def judge_open_ends(found: Measured, claim: Published) -> Claim:
    """Chapter 9: each has an experiment with figures."""
    stays = [
        f"{policy} {values['nanoseconds']:,.0f} ns"
        + (
            f" with {values['entries_moved']:.0f} entries moved, {values['used_share']:.0%} of them used"
            if "used_share" in values
            else ""
        )
        for (policy, pages), values in found.stays.items()
        if pages == STAYS[1]
    ]
    loads = [
        f"{load}, {mode}: {1000 * values['seconds']:.1f} +- {1000 * values['interval']:.1f} ms"
        for (load, mode), values in found.loads.items()
    ]
    jobs = [
        f"{pages} pages, {mode}: {average / 1000:.1f} us, deviation {deviation / 1000:.1f}, most {most / 1000:.1f}"
        for (mode, pages), (average, deviation, most) in found.periodic.items()
    ]
    works, *closed = ("another process wrote" in found.stale[mode] for mode in MODES[1:])
    parts = [
        (
            "expiry: the attack, "
            + "; ".join(f"{mode}: {said}" for mode, said in found.stale.items()),
            works and not any(closed),
        ),
        (
            f"predictor, a working set of {STAYS[1][1]} of {STAYS[1][0]} pages: {', '.join(stays)}",
            bool(stays),
        ),
        (f"loads, mean and interval of 95%: {'; '.join(loads)}", bool(loads)),
        (f"a periodic job: {'; '.join(jobs)}", bool(jobs)),
    ]
    return claim.judge(
        all(holds for _, holds in parts), ". ".join(text for text, _ in parts), wrong_parts(parts)
    )


def listed(values: list[float]) -> str:
    """Times in words."""
    return ", ".join(f"{value:.0f}" for value in values)


def tables(found: Measured) -> dict[str, pa.Table]:
    """What was measured, ours beside published where the thesis has it."""
    validated, whole = published_table(PAPER, "a16_validation"), published_table(PAPER, "a17_linux")
    columns = {"off": "no_migration", "thesis": "migration"}
    return {
        "linux_validation": pa.Table.from_pylist(
            [
                {"machine": machine, "run": int(row["run"])}
                | {f"{mode}_ns": found.validation[machine, mode][at] for mode in MODES}
                | {f"{column}_published_ns": int(row[column]) for column in columns.values()}
                for machine in MACHINES
                for at, row in enumerate(validated)
            ]
        ),
        "linux_total": pa.Table.from_pylist(
            [
                {"machine": machine, "mode": mode, "pages": pages}
                | dict(zip(("whole_ns", "accesses_ns", "migrations_ns"), values, strict=True))
                | {"whole_published_ns": int(row[columns[mode]]) if mode in columns else None}
                for (machine, mode), points in found.totals.items()
                for row in whole
                for pages, values in [(int(row["pages"]), points[int(row["pages"])])]
            ]
        ),
        "linux_stays": pa.Table.from_pylist(
            [
                {"policy": policy, "pages": pages, "used": used}
                | {
                    name: values.get(name)
                    for name in ("nanoseconds", "entries_moved", "used_share")
                }
                for (policy, (pages, used)), values in found.stays.items()
            ]
        ),
        "linux_loads": pa.Table.from_pylist(
            [{"load": load, "mode": mode, **values} for (load, mode), values in found.loads.items()]
        ),
        "linux_periodic": pa.Table.from_pylist(
            [
                {"mode": mode, "pages": pages}
                | dict(zip(("mean_ns", "deviation_ns", "most_ns"), values, strict=True))
                for (mode, pages), values in found.periodic.items()
            ]
        ),
    }
