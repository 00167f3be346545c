"""Landsberg, "Analyzing and Optimizing TLB-Induced Thread Migration Costs on Linux/ARM", 2018:
entries of the TLB follow a thread to its new core, on the Cortex-A7.

What the Cortex-A7 itself has (chapters 3 and 4) is measured by a guest of ours on `cortex-a7`:
reading the TLB, PLD as a way to write it, and the whole migration with two access patterns,
directly and by way of the page descriptors. The modified interfaces (chapters 5 and 6) are measured
on `gem5-vexpress`, the system that the thesis simulated, and on `cortex-a7`. Linux (7 to 9) is in
`tlb_migration_linux`.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import altair as alt

import mmulab
from mmulab import arrow as pa
from mmulab import guests
from mmulab.errors import InputError
from mmulab.papers import (
    Claim,
    Figure,
    Published,
    Reproduction,
    Run,
    about,
    published_claims,
    published_table,
    save_figures,
    tlb_migration_linux,
    wrong_parts,
)
from mmulab.papers.guesses import over_guesses
from mmulab.papers.tlb_migration_linux import COPROCESSOR
from mmulab.provenance import inputs_provenance

PAPER = "tlb_migration_2018"
TITLE = "TLB-induced thread migration costs on Linux/ARM (Landsberg, 2018)"
MACHINE = "cortex-a7"
IMAGES = {
    "bare": "migration-bare",
    "gem5-vexpress": "migration-interfaces-64",
    "cortex-a7": "migration-interfaces-256",
}
"""The guest of chapter 4, and those of chapter 6 by the machine whose TLB they read."""
BENCHMARKS = {
    "direct_4k": "a3_direct_4k",
    "direct_68k": "a4_direct_68k",
    "indirect_4k": "a5_indirect_4k",
    "indirect_68k": "a6_indirect_68k",
}
"""The whole migration, by stride and by what restores an entry; and its published table."""
GEM5 = "gem5-vexpress"
INTERFACES = {
    "v1": "a11_interface_v1_68k",
    "v2": "a12_interface_v2_68k",
    "v3": "a13_interface_v3_68k",
    "v4": "a14_interface_v4_68k",
}
"""The published table of each interface, in nanoseconds."""
OURS = ("v5", "v4_4k", "v5_4k")
"""What the thesis has not: our interface, and the 4 KB benchmark; otherwise 68 KB."""
SIZES = {"v1": 768, "v2": 512, "v3": 512, "v4": 448}
"""Bytes of 64 stored entries."""
BREAK_EVEN, GAIN = 21, 1953
"""Pages from which version 4 gains, and nanoseconds of it with 64."""
TABLES = BENCHMARKS | INTERFACES
FIGURES = ("cold", "migrated", "restore", "save")
"""What the guest prints of one, in this order; in cycles."""
COLUMNS = {
    "cold": "cold_access",
    "migrated": "migrated_access",
    "restore": "restore_tlb",
    "save": "save_tlb",
}
"""The published column of each."""
SLOPES = ("cold", "migrated", "restore")
"""Those of which a further page's cost is judged."""
FEW, HALF, MANY = 16, 32, 64
"""Between these numbers of pages a further page's cost is taken."""
RATIO = 2.5
"""Direct over indirect restoring at 64 pages."""
GEM5_WAITS = (
    "The simulated core of the thesis waits for each fetch and each hit of the data cache, so that an instruction took three "
    "cycles or more; this machine's core takes one, so what is made of instructions is faster here, and what waits for "
    "memory is not"
)

DIFFERENCES = {
    "as it is": {},
    "a line fill is beside no other": {"buffers.outstanding_misses": "1"},
    "a line takes 40 cycles longer from memory, as in another row of DRAM": {
        "memory.line_fill_cycles": "186"
    },
    "the second level takes twice as long": {"level_2.latency_cycles": "20"},
    "walks read past the first level": {"coherence.walks_pass_first_level": "true"},
    "a walk takes 28 cycles longer": {"coherence.walk_hit_cycles": "40"},
    "hardly any walk cache": {"walk_cache.entries": "2"},
    "a first level with one way": {"dcache.ways": "1"},
    "no store buffer": {"buffers.store_lines": "0"},
    "a taken branch takes 8 cycles": {"timing.taken_branch_cycles": "8"},
    "an operation of coprocessor 15 takes 10 cycles": {"timing.coprocessor_write_cycles": "10"},
}
"""Values of the machine that may be behind what differs, changed one at a time, some of them beyond
the range of a guess."""

Points = dict[str, dict[int, list[int]]]
"""What the guest printed: by name and number of entries or pages, medians in cycles or counts."""


def missing_packages(run: Run) -> set[str]:
    """Debian packages that have to be installed first."""
    return guests.missing_packages()


def reproduce(run: Run) -> Reproduction:
    """Runs the guest, and judges."""
    points = on_the_core(run)
    modified = {name: with_interfaces(run, name) for name in (GEM5, MACHINE)}
    on_linux = tlb_migration_linux.run_linux(run)
    claims = judge(points, modified[GEM5], on_linux)
    tables = {}
    if run.guesses:
        claims, tables["guesses"] = over_guesses(
            run,
            [MACHINE, GEM5],
            claims,
            lambda changed: judge(on_the_core(changed), with_interfaces(changed, GEM5), on_linux),
        )
    figures = [
        figure_access(points),
        figure_restore(points),
        figure_interfaces(modified[GEM5], "save", "figure-6-3"),
        figure_interfaces(modified[GEM5], "restore", "figure-6-4"),
        figure_gain(modified),
    ]
    save_figures(figures, run.folder / "figures")
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        claims=claims,
        figures=figures,
        tables={
            **tables,
            **(tlb_migration_linux.tables(on_linux) if on_linux else {}),
            "differences": pa.Table.from_pylist(list(differences(run))),
            "tlb_read": beside(points["tlb_read"], ["cycles"], "a1_tlb_read"),
            "preload": beside(
                points["preload"], ["cycles", "cache_accesses", "cache_misses"], "a2_pld"
            ),
            **{
                name: beside(points[name], list(COLUMNS.values()), table)
                for name, table in BENCHMARKS.items()
            },
            **{
                f"{name}_{machine.replace('-', '_')}": beside(
                    modified[machine][name], list(COLUMNS.values()), table
                )
                for machine in modified
                for name, table in INTERFACES.items()
            },
            **{
                f"gain_{machine.replace('-', '_')}": gains(points)
                for machine, points in modified.items()
            },
            "speedup": pa.Table.from_pylist(
                [
                    {
                        "pages": pages,
                        **{name: net(points, name)[pages] for name in BENCHMARKS},
                        **{f"{name}_published": int(row[name]) for name in BENCHMARKS},
                    }
                    for row in published_table(PAPER, "a7_speedup_cortex_a7")
                    for pages in [int(row["pages"])]
                ]
            ),
        },
        provenance={
            **inputs_provenance(
                [MACHINE, GEM5],
                [
                    *(image(name, full) for name in IMAGES for full in (False, True)),
                    *tlb_migration_linux.inputs(),
                ],
            ),
            "full": run.full,
        },
        notes=(
            "Chapter 4 on one core of cortex-a7, chapter 6 on two cores of gem5-vexpress and of cortex-a7 with the "
            "interfaces, by guests with interrupts off that flush caches by set and way; medians of "
            f"{'2,500' if run.full else '25'} runs (the thesis: 2,500), by the guest's own cycle counter. The pages "
            "are those of the benchmark only, where Linux has others of the same process in the TLB, too. "
            + tlb_migration_linux.NOTES
        ),
    )


def on_the_core(run: Run) -> Points:
    """What the guest measures on the machine."""
    machine = run.machine(MACHINE).with_changes({"cores": "1"})
    return measure(run, machine, image("bare", run.full))


def differences(run: Run) -> Iterable[dict[str, Any]]:
    """What moves the figures that differ: one row for each value of the machine, the published ones
    last, in cycles. A page is a further one."""
    for what, changes in DIFFERENCES.items():
        machine = run.machine(MACHINE).with_changes({"cores": "1"} | changes)
        points = measure(run, machine, guests.image(f"{IMAGES['bare']}-few"))
        yield {
            "changed": what,
            "set": " ".join(f"{path}={value}" for path, value in changes.items()),
            **figures_that_differ(
                {pages: cycles for pages, (cycles, *_) in points["tlb_read"].items()},
                {pages: cycles for pages, (cycles, *_) in points["preload"].items()},
                *(figure_of(points, "direct_68k", name) for name in ("cold", "restore", "save")),
            ),
            "preload_17_to_64_no_fills": per_page(
                {pages: cycles for pages, (cycles,) in points["walks"].items()}, 16, 64
            ),
            "preload_17_to_64_unmapped": per_page(
                {pages: cycles for pages, (cycles, *_) in points["preload_unmapped"].items()},
                17,
                64,
            ),
            "save_0_of_256": points["full_save"][256][0],
        }
    yield {
        "changed": "published",
        "set": "",
        **figures_that_differ(
            *(
                {
                    int(next(iter(row.values()))): int(row["cycles"])
                    for row in published_table(PAPER, table)
                }
                for table in ("a1_tlb_read", "a2_pld")
            ),
            *(published_figure("direct_68k", name) for name in ("cold", "restore", "save")),
        ),
    }


def figures_that_differ(
    read: dict[int, int],
    preload: dict[int, int],
    cold: dict[int, int],
    restore: dict[int, int],
    save: dict[int, int],
) -> dict[str, float]:
    """Those of the 68 KB benchmark, direct, of PLD, and of reading the TLB."""
    return {
        "cold_16_to_64": per_page(cold, 16, 64),
        "restore_16_to_32": per_page(restore, 16, 32),
        "restore_32_to_64": per_page(restore, 32, 64),
        "preload_1_to_17": per_page(preload, 1, 17),
        "preload_17_to_64": per_page(preload, 17, 64),
        "save_1": save[1],
        "save_64": save[MANY],
        "read_16_to_64": per_page(read, 16, 64),
    }


def per_page(values: dict[int, int], few: int, many: int) -> float:
    """Cycles of a further page between these."""
    return round((values[many] - values[few]) / (many - few), 1)


def with_interfaces(run: Run, name: str) -> Points:
    """What the guest of chapter 6 measures in nanoseconds on a machine whose cores have the
    interfaces."""
    changes = {"cores": "2", "core.coprocessor": COPROCESSOR}
    machine = run.machine(name).with_changes(changes)
    nanoseconds = 1e9 / int(str(machine.get("core.clock_hz")))
    return {
        name: {
            pages: [round(value * nanoseconds) for value in values]
            if name in INTERFACES or name in OURS
            else values
            for pages, values in points.items()
        }
        for name, points in measure(run, machine, image(name, run.full)).items()
    }


def image(name: str, full: bool) -> Path:
    """A guest of `IMAGES`: with as many runs as the thesis has, or a hundredth of them."""
    return guests.image(IMAGES[name] if full else f"{IMAGES[name]}-short")


def measure(run: Run, machine: mmulab.Machine, guest: Path) -> Points:
    """Boots a guest and reads what it prints."""
    run.progress(f"{guest.stem} on {machine.label}")
    result = mmulab.boot(guest, machine)
    if result.exit != 0:
        raise InputError(
            f"the guest failed on {machine.label}: {result.console[-300:]!r} ({result.end})"
        )
    points: Points = {}
    for line in result.console.splitlines():
        name, pages, *values = line.split()
        points.setdefault(name, {})[int(pages)] = [int(value) for value in values]
    return points


def beside(points: dict[int, list[int]], columns: list[str], published: str) -> pa.Table:
    """Ours beside the published values, in the units of both."""
    rows = []
    for row in published_table(PAPER, published):
        number = int(next(iter(row.values())))
        ours = dict(zip(columns, points[number], strict=True))
        rows.append(
            {next(iter(row)): number}
            | ours
            | {f"{name}_published": int(row[name]) for name in columns}
        )
    return pa.Table.from_pylist(rows)


def figure_of(points: Points, benchmark: str, figure: str) -> dict[int, int]:
    """One figure of a migration by pages."""
    at = FIGURES.index(figure)
    return {pages: values[at] for pages, values in points[benchmark].items()}


def published_figure(benchmark: str, figure: str) -> dict[int, int]:
    """The same as published."""
    table = published_table(PAPER, TABLES[benchmark])
    return {int(row["pages"]): int(row[COLUMNS[figure]]) for row in table}


def net(points: Points, benchmark: str) -> dict[int, int]:
    """What a migration gains by pages: the cold access less all that takes its place."""
    return {
        pages: cold - migrated - restore - save
        for pages, (cold, migrated, restore, save) in points[benchmark].items()
    }


def gains(points: Points) -> pa.Table:
    """Net gains of versions 4 and 5 by pages in nanoseconds, and how many cycles version 5 takes to
    take over how many entries."""
    return pa.Table.from_pylist(
        [
            {"pages": pages, "v4": gain, **{name: net(points, name)[pages] for name in OURS}}
            | dict(zip(("transfer_cycles", "entries"), points["transfer_v5"][pages], strict=True))
            for pages, gain in net(points, "v4").items()
        ]
    )


def slope(values: dict[int, int]) -> float:
    """Cycles of a further page."""
    return (values[MANY] - values[FEW]) / (MANY - FEW)


def judge(
    points: Points,
    modified: Points,
    on_linux: tlb_migration_linux.Measured | None = None,
) -> list[Claim]:
    """Every claim, by the rules; those on Linux where it was measured."""
    claims = published_claims(PAPER)
    linux = ("mig18-08", "mig18-09", "mig18-10")
    return [
        judge_reading(points, claims["mig18-01"]),
        judge_preloads(points, claims["mig18-02"]),
        judge_migration(points, claims["mig18-03"], ["direct_4k", "direct_68k"]),
        judge_migration(points, claims["mig18-04"], ["indirect_4k", "indirect_68k"]),
        judge_encodings(modified, claims["mig18-05"]),
        judge_interfaces(modified, claims["mig18-06"]),
        judge_gain(modified, claims["mig18-07"]),
        *(
            tlb_migration_linux.judge(on_linux, claims)
            if on_linux
            else [claims[name].not_evaluated(tlb_migration_linux.BUILD) for name in linux]
        ),
    ]


def judge_reading(points: Points, claim: Published) -> Claim:
    """The loop over the TLB."""
    ours = {entries: values[0] for entries, values in points["tlb_read"].items()}
    published = {
        int(row["tlb_entries"]): int(row["cycles"]) for row in published_table(PAPER, "a1_tlb_read")
    }
    further = slope(ours)
    wrong = [n for n in published if not about(ours[n], published[n])]
    return claim.judge(
        not wrong and about(further, 10),
        ", ".join(f"{n}: {ours[n]} ({published[n]})" for n in published)
        + f"; {further:.1f} cycles a further entry",
        f"apart by more than a quarter at {listed(wrong)} entries; a turn of the loop takes {further:.1f} cycles, and "
        f"the first {ours[1]}",
    )


def judge_preloads(points: Points, claim: Published) -> Claim:
    """PLD over consecutive pages: cycles, accesses, misses."""
    published = {
        int(row["pages"]): [int(row[name]) for name in ("cycles", "cache_accesses", "cache_misses")]
        for row in published_table(PAPER, "a2_pld")
    }
    ours = points["preload"]
    unmapped = points["preload_unmapped"][MANY]
    slow = [n for n in published if not about(ours[n][0], published[n][0])]
    counted = [
        [
            n
            for n in published
            if abs(ours[n][at] - published[n][at]) > max(1, published[n][at] / 10)
        ]
        for at in (1, 2)
    ]
    reasons = []
    if slow:
        reasons.append(
            f"cycles apart at {listed(slow)} pages: from 17 on the thesis's instruction accesses the cache no more "
            f"often ({published[MANY][1]} times for {MANY} pages), which it leaves unexplained; here each page "
            f"takes {(ours[MANY][0] - ours[FEW][0]) / (MANY - FEW):.0f} cycles as before, but where only 17 pages, 68 KB, are "
            f"mapped {MANY} take {unmapped[0]:,} cycles (published {published[MANY][0]:,}) and miss data {unmapped[2]} times"
        )
    if counted[0]:
        reasons.append(
            f"accesses apart at {listed(counted[0])} pages ({ours[FEW][1]} for {FEW}, published {published[FEW][1]}): "
            "the model's event of accesses counts loads and stores"
        )
    if counted[1]:
        reasons.append(
            f"misses apart at {listed(counted[1])} pages ({ours[FEW][2]} for {FEW}, published {published[FEW][2]}): "
            "the model's event of refills counts those of the data, not of the descriptors that walks read"
        )
    return claim.judge(
        not reasons,
        ", ".join(
            f"{n} pages: {' / '.join(map(str, ours[n]))} ({' / '.join(map(str, published[n]))})"
            for n in (1, 2, 4, 8, 16, 17, 32, 64)
        ),
        "; ".join(reasons),
    )


def judge_migration(points: Points, claim: Published, benchmarks: list[str]) -> Claim:
    """A benchmark of both strides: no gain, what a further page costs, and for the indirect one the
    ratio."""
    parts: list[tuple[str, bool]] = []
    for name in benchmarks:
        gains = net(points, name)
        best = max(gains, key=lambda pages: gains[pages])
        parts.append(
            (
                f"{name}: net at best {gains[best]:,} cycles, with {best} pages",
                all(gain < 0 for gain in gains.values()),
            )
        )
        for figure in SLOPES:
            ours = slope(figure_of(points, name, figure))
            theirs = slope(published_figure(name, figure))
            parts.append((f"{figure} {ours:.0f} a page ({theirs:.0f})", about(ours, theirs)))
        saving = figure_of(points, name, "save")[MANY]
        published = published_figure(name, "save")[MANY]
        parts.append((f"{name}: saving {saving:,} ({published:,})", about(saving, published)))
    if "indirect_68k" in benchmarks:
        direct, indirect = (
            figure_of(points, name, "restore")[MANY] for name in ("direct_68k", "indirect_68k")
        )
        parts.append(
            (
                f"direct over indirect restoring {direct / indirect:.2f} ({RATIO})",
                about(direct / indirect, RATIO),
            )
        )
    return claim.judge(
        all(holds for _, holds in parts),
        "; ".join(text for text, _ in parts),
        wrong_parts(parts)
        + ". The table of differences changes one value of the machine at a time: what moves these figures, and how far",
    )


def judge_encodings(modified: Points, claim: Published) -> Claim:
    """What another core restores, and the bytes that it takes."""
    found = {name: next(iter(modified[f"restored_{name}"].items())) for name in INTERFACES}
    sizes = {name: stored * MANY // entries for name, (entries, (stored, _)) in found.items()}
    wrong = {name: values[1] for name, (_, values) in found.items()}
    entries = next(iter(found.values()))[0]
    return claim.judge(
        sizes == SIZES and not any(wrong.values()),
        f"{entries} entries of sections and pages, with all permissions and attributes that the format has room for, "
        "restored by another core while no table maps them: "
        + ", ".join(
            f"{name} {wrong[name]} wrong, {sizes[name]} bytes for 64 ({SIZES[name]})"
            for name in sizes
        ),
        "entries are not what they were, or take other sizes",
    )


def judge_interfaces(modified: Points, claim: Published) -> Claim:
    """Saving and restoring by version."""
    restore, save = (
        {name: figure_of(modified, name, figure) for name in INTERFACES}
        for figure in ("restore", "save")
    )
    order = list(INTERFACES)
    parts = [
        (
            f"restoring with {pages} pages: "
            + ", ".join(str(restore[name][pages]) for name in order),
            all(
                restore[later][pages] < restore[earlier][pages] + (pages == HALF)
                for earlier, later in pairwise(order)
            ),
        )
        for pages in (HALF, MANY)
    ]
    for pages in (HALF, MANY):
        times = [save[name][pages] for name in order]
        parts.append(
            (
                f"saving with {pages} pages: " + ", ".join(map(str, times)),
                max(times[2:]) < min(times[:2]),
            )
        )
    for figure, ours in (("restore", restore), ("save", save)):
        for name in order:
            theirs = published_figure(name, figure)
            text = f"to {figure} by {name} {ours[name][MANY]:,} ({theirs[MANY]:,})"
            parts.append((text, about(ours[name][MANY], theirs[MANY])))
    return claim.judge(
        all(holds for _, holds in parts),
        "; ".join(text for text, _ in parts) + " ns",
        wrong_parts(parts) + " ns. " + GEM5_WAITS,
    )


def judge_gain(modified: Points, claim: Published) -> Claim:
    """From where version 4 gains, and how much."""
    gains = net(modified, "v4")
    gaining = [pages for pages in sorted(gains) if gains[pages] > 0]
    first = gaining[0] if gaining else None

    def walk(figures: dict[str, dict[int, int]]) -> float:
        """Nanoseconds that a page in the TLB saves an access."""
        return (figures["cold"][32] - figures["migrated"][32]) / 32

    ours = {figure: figure_of(modified, "v4", figure) for figure in FIGURES}
    theirs = {figure: published_figure("v4", figure) for figure in FIGURES}
    one = [figures["save"][1] + figures["restore"][1] for figures in (ours, theirs)]
    return claim.judge(
        first is not None and about(first, BREAK_EVEN) and about(gains[MANY], GAIN),
        f"gains from {first or 'no number of'} pages on ({BREAK_EVEN}); with 64 {gains[MANY]:,} ns ({GAIN:,}); "
        + ", ".join(f"{pages}: {gain:,}" for pages, gain in gains.items()),
        f"with 32 pages an entry in the TLB saves {walk(ours):.0f} ns of an access here and {walk(theirs):.0f} ns there: "
        "a walk reads two descriptors past the first level, of which the first comes from the second level's cache here; the "
        f"published walk is no longer than one read of memory. And to save and restore a single page takes {one[0]} ns "
        f"here and {one[1]:,} ns there. " + GEM5_WAITS,
    )


def listed(numbers: Iterable[int]) -> str:
    """Numbers in words."""
    return ", ".join(map(str, numbers)) or "none"


def rows_beside(points: Points, figures: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    """Ours and the published of some figures, one row a point."""
    return [
        {"pages": pages, "cycles": cycles, "benchmark": f"{name}, {figure}", "whose": whose}
        for name, figure in figures
        for whose, values in (
            ("ours", figure_of(points, name, figure)),
            ("published", published_figure(name, figure)),
        )
        for pages, cycles in values.items()
    ]


def chart(rows: list[dict[str, Any]], title: str) -> alt.Chart:
    """Lines over pages: ours drawn, published dashed."""
    return (
        alt.Chart(alt.Data(values=rows), width=480, height=280)
        .mark_line(point=alt.OverlayMarkDef(size=14), strokeWidth=1.2)
        .encode(
            x=alt.X("pages:Q"),
            y=alt.Y("cycles:Q", title=title),
            color=alt.Color("benchmark:N", title=None),
            strokeDash=alt.StrokeDash(
                "whose:N",
                title=None,
                legend=alt.Legend(
                    symbolType="stroke",
                    symbolFillColor="gray",
                    symbolStrokeColor="gray",
                    symbolStrokeWidth=2,
                    symbolSize=300,
                ),
            ),
        )
    )


def figure_access(points: Points) -> Figure:
    """Figure 4.8, with the migrated access beside it."""
    figures = [
        (name, figure) for name in ("direct_4k", "direct_68k") for figure in ("cold", "migrated")
    ]
    return Figure(
        "figure-4-8",
        "Access to pages with cold caches, and after a direct migration",
        "With many pages the 68 KB benchmark takes about twice as long as the 4 KB one.",
        chart(rows_beside(points, figures), "cycles"),
    )


def figure_restore(points: Points) -> Figure:
    """Figure 4.10."""
    return Figure(
        "figure-4-10",
        "Restoring the TLB directly and by way of the page descriptors",
        "Almost equal for one page; with 64 pages the indirect way is 2.5 times faster.",
        chart(
            rows_beside(points, [("direct_68k", "restore"), ("indirect_68k", "restore")]),
            "cycles",
        ),
    )


def figure_interfaces(modified: Points, figure: str, name: str) -> Figure:
    """Figures 6.3 and 6.4."""
    says = {
        "save": "Versions 3 and 4 take far less for few pages; with 64 the differences are smaller.",
        "restore": "Each version is faster than the one before, version 4 from 32 pages on.",
    }
    rows = rows_beside(modified, [(version, figure) for version in INTERFACES])
    return Figure(
        name,
        f"To {figure} the entries by each interface, on {GEM5}",
        says[figure],
        chart(rows, "nanoseconds"),
    )


def figure_gain(modified: dict[str, Points]) -> Figure:
    """Figure 6.5, with the Cortex-A7 beside it."""
    rows = [
        {"pages": pages, "cycles": gain, "benchmark": f"{version} on {machine}", "whose": "ours"}
        for version in ("v4", "v5")
        for machine, points in modified.items()
        for pages, gain in net(points, version).items()
    ]
    rows += [
        {
            "pages": int(row["pages"]),
            "cycles": int(row["speedup"]),
            "benchmark": f"v4 on {GEM5}",
            "whose": "published",
        }
        for row in published_table(PAPER, "a15_speedup_v4")
    ]
    return Figure(
        "figure-6-5",
        "Gain of a migration by versions 4 and 5: cold access less migrated access, restoring and saving",
        "A loss below 21 pages, a gain of 1,953 ns with 64.",
        chart(rows, "nanoseconds"),
    )
