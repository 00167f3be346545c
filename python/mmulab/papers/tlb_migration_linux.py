"""TLB migration in Linux's scheduler (`make linux-migration`): chapters 7 to 9 of Landsberg's
thesis.

The kernel has four ways, chosen at boot: `off`; `thesis`, which saves where the thesis does and
checks nothing; `safe`, which saves at every migration and whose entries expire with their mappings;
and `transfer`, by version 5 of the interface, which is ours.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

import mmulab
from mmulab import arrow as pa
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
PUBLISHED_COLUMNS = {"off": "no_migration", "thesis": "migration"}
"""Of the thesis's tables of chapter 8."""
WORKING_SETS = (("stay", 48, 48), ("stay", 48, 12), ("phases", 48, 12))
"""Of `hop`: one that stays, one that moves on, and one that shrinks after the beginning; pages, and
how many are used after each migration."""
POLICIES = {
    "off": "off",
    "all": "safe",
    "used": "safe tlb_migration_used=1",
    "used, two ticks": "safe tlb_migration_used=2",
    "used, one tick": "safe tlb_migration_used=3",
    "at most 32": "safe tlb_migration_entries=32",
    "at most 16": "safe tlb_migration_entries=16",
    "used, two ticks, at most 16": "safe tlb_migration_used=2 tlb_migration_entries=16",
    "transfer": "transfer",
}
"""What moves along with a task, and the kernel's parameter for it."""
WARM_MODES = {
    "off": "off",
    "safe": "safe",
    "safe, from 24 on": "safe tlb_migration_least=24",
    "transfer": "transfer",
}
WARM_PAGES = (1, 4, 8, 16, 24, 32, 48, 64)
"""Migrations with warm caches: what is asked of the kernel, and how many pages are read after
each."""
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
UNFLUSHED = re.compile(r"^hop unflushed (\d+): (\d+) (\d+) (\d+)", re.M)
STAY = re.compile(r"^hop (stay|phases) (\d+) (\d+): (\d+)", re.M)
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
    unflushed: dict[tuple[str, str], dict[int, tuple[int, int, int]]]
    """The same without flushes of the caches."""
    warm: dict[tuple[str, str], dict[int, int]]
    """By machine and mode, by pages: a migration with warm caches, and the accesses that follow."""
    stale: dict[str, str]
    """What the attack says, by mode."""
    predictions: dict[tuple[str, tuple[str, int, int]], dict[str, float]]
    """By policy and working set: time of a migration with what follows, entries moved, the part of
    these that was used, where it is known."""
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
    initrd: str = INITRD,
    check: bool = False,
    max_instructions: int | None = None,
    console: Console | None = None,
) -> mmulab.BootResult:
    """Runs a command of the guest's shell; `mode` is the value of `tlb_migration=` with what else
    the kernel is told, `initrd` the file with the programs."""
    folder = built()
    assert folder is not None
    return mmulab.boot(
        folder / KERNEL,
        machine.with_changes({"core.coprocessor": coprocessor}),
        dtb=folder / DEVICE_TREE,
        initrd=folder / initrd,
        append=f'console=ttyAMA0 tlb_migration={mode} mmulab.run="{command}"',
        symbols=folder / SYMBOLS,
        check=check,
        max_instructions=max_instructions,
        console=console,
    )


def printed(run: Run, name: str, mode: str, command: str) -> str:
    """What the command prints; raises `MmulabError` where it fails, since these programs check
    themselves."""
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
    totals, unflushed = {}, {}
    for name in MACHINES:
        nanoseconds = 1e9 / int(str(run.machine(name).get("core.clock_hz")))
        for mode in MODES:
            validate, all_timed = ("100", "1000") if run.full else ("10", "100")
            pages = " ".join(map(str, PAGES))
            command = (
                f"hop validate {validate} && hop total {all_timed} {pages}"
                f" && hop unflushed {all_timed} {pages}"
            )
            console = printed(run, name, mode, command)
            validated[name, mode] = [cycles * nanoseconds for cycles in validation(console)]
            totals[name, mode] = wholes(TOTAL, console)
            unflushed[name, mode] = wholes(UNFLUSHED, console)
    stale = {mode: STALE.findall(printed(run, gem5, mode, "wander stale"))[0] for mode in MODES[1:]}
    return Measured(
        validated,
        totals,
        unflushed,
        warm={
            (name, way): warm(run, name, mode)
            for name in MACHINES
            for way, mode in WARM_MODES.items()
        },
        stale=stale,
        predictions={
            (policy, working_set): values
            for policy, mode in POLICIES.items()
            for working_set, values in predicted(run, mode).items()
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


def wholes(line: re.Pattern[str], console: str) -> dict[int, tuple[int, int, int]]:
    """The figures of 8.2 by pages."""
    return {
        int(pages): (int(whole), int(accesses), int(migrations))
        for pages, whole, accesses, migrations in line.findall(console)
    }


def warm(run: Run, name: str, mode: str) -> dict[int, int]:
    """A migration and one read of each page, in nanoseconds; the TLB of the new core is empty."""
    number = 400 if run.full else 60
    commands = [f"hop stay {number} {pages} {pages}" for pages in WARM_PAGES]
    found = STAY.findall(printed(run, name, mode, " && ".join(commands)))
    return {int(pages): int(nanoseconds) for _, pages, _, nanoseconds in found}


def predicted(run: Run, mode: str) -> dict[tuple[str, int, int], dict[str, float]]:
    """The working sets under a policy. What was used of what moved is counted in a run of its
    own."""
    runs = {"stay": 400, "phases": 80} if run.full else {"stay": 100, "phases": 20}
    commands = [f"hop {how} {runs[how]} {pages} {used}" for how, pages, used in WORKING_SETS]
    found = STAY.findall(printed(run, MACHINES[0], mode, " && ".join(commands)))
    times = [{"nanoseconds": float(nanoseconds)} for *_, nanoseconds in found]
    counted: list[dict[str, float]] = [{}] * len(times)
    if mode != "off":
        accounts = f"{mode} tlb_migration_account=1"
        console = printed(run, MACHINES[0], accounts, with_counts(commands))
        counted = [moved(counts) for counts in counts_of_each(console)]
        # Where each stay begins with all pages, all that was moved was used by the next migration;
        # and the kernel's count of what was not used stops at its limit on entries.
        for (how, *_), entries in zip(WORKING_SETS, counted, strict=True):
            if how == "phases" or "tlb_migration_entries" in mode:
                entries.pop("used_share", None)
    return {
        working_set: time | entries
        for working_set, time, entries in zip(WORKING_SETS, times, counted, strict=True)
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
        found[load] = {"seconds": mean(own), "interval": half_interval(own), **counts}
    return found


def half_interval(values: Sequence[float]) -> float:
    """Half of the interval of 95% of their mean; as many values as `STUDENT` knows."""
    return STUDENT[len(values)] * stdev(values) / math.sqrt(len(values))


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
    """A command that tells before the first of some commands, and after each, what the kernel
    counted."""
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
        "the flush itself, four times. gem5 of 2018 ignored flushes by set and way: without them "
        + gain_unflushed(found)
        + ". And the thesis's way saves before it sends the task "
        "off, so that all migrations last as much longer; the safe way saves while the task is under way",
    )


def gain_unflushed(found: Measured) -> str:
    """What the ways gain without flushes with the published best number of pages, in per cent of
    the whole."""
    before = found.unflushed[MACHINES[0], "off"][BEST][0]
    ways = {"thesis": "the thesis's way", "safe": "the safe way", "transfer": "version 5"}
    return ", ".join(
        f"{way} gains {100 * (1 - found.unflushed[MACHINES[0], mode][BEST][0] / before):.1f}%"
        for mode, way in ways.items()
    )


def judge_open_ends(found: Measured, claim: Published) -> Claim:
    """Chapter 9: each has an experiment with figures."""
    _, pages, used = WORKING_SETS[1]
    predictions = [
        f"{policy} {values['nanoseconds']:,.0f} ns"
        + (
            f" with {values['entries_moved']:.0f} entries moved"
            if "entries_moved" in values
            else ""
        )
        + (f", {values['used_share']:.0%} of them used" if "used_share" in values else "")
        for (policy, working_set), values in found.predictions.items()
        if working_set == WORKING_SETS[1]
    ]
    loads = [
        f"{load}, {mode}: {1000 * values['seconds']:.1f} +- {1000 * values['interval']:.1f} ms"
        for (load, mode), values in found.loads.items()
    ]
    jobs = [
        f"{number} pages, {mode}: {average / 1000:.1f} us, deviation {deviation / 1000:.1f}, most {most / 1000:.1f}"
        for (mode, number), (average, deviation, most) in found.periodic.items()
    ]
    works, *closed = ("another process wrote" in found.stale[mode] for mode in MODES[1:])
    parts = [
        (
            "expiry: the attack, "
            + "; ".join(f"{mode}: {said}" for mode, said in found.stale.items()),
            works and not any(closed),
        ),
        (
            f"predictor, a working set of {used} of {pages} pages: {', '.join(predictions)}",
            bool(predictions),
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


def total_rows(
    totals: dict[tuple[str, str], dict[int, tuple[int, int, int]]],
) -> list[dict[str, object]]:
    """Rows of the whole, the accesses and the migrations, in nanoseconds, and the published
    whole."""
    published = {
        (mode, int(row["pages"])): int(row[column])
        for mode, column in PUBLISHED_COLUMNS.items()
        for row in published_table(PAPER, "a17_linux")
    }
    return [
        {"machine": machine, "mode": mode, "pages": pages}
        | dict(zip(("whole_ns", "accesses_ns", "migrations_ns"), values, strict=True))
        | {"whole_published_ns": published.get((mode, pages))}
        for (machine, mode), points in totals.items()
        for pages, values in points.items()
    ]


def tables(found: Measured) -> dict[str, pa.Table]:
    """What was measured, ours beside published where the thesis has it."""
    validated = published_table(PAPER, "a16_validation")
    return {
        "linux_validation": pa.Table.from_pylist(
            [
                {"machine": machine, "run": int(row["run"])}
                | {f"{mode}_ns": found.validation[machine, mode][at] for mode in MODES}
                | {
                    f"{column}_published_ns": int(row[column])
                    for column in PUBLISHED_COLUMNS.values()
                }
                for machine in MACHINES
                for at, row in enumerate(validated)
            ]
        ),
        "linux_total": pa.Table.from_pylist(total_rows(found.totals)),
        "linux_unflushed": pa.Table.from_pylist(total_rows(found.unflushed)),
        "linux_warm": pa.Table.from_pylist(
            [
                {"machine": machine, "mode": mode, "pages": pages, "nanoseconds": nanoseconds}
                for (machine, mode), points in found.warm.items()
                for pages, nanoseconds in points.items()
            ]
        ),
        "linux_predictions": pa.Table.from_pylist(
            [
                {"policy": policy, "program": how, "pages": pages, "used": used}
                | {
                    name: values.get(name)
                    for name in ("nanoseconds", "entries_moved", "used_share")
                }
                for (policy, (how, pages, used)), values in found.predictions.items()
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
