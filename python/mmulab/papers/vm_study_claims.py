"""The claims of the 1998 study, each evaluated by code.

What decides is `published/rules.csv`, written down before the result was seen: "about" allows a
quarter more or less, "close" 15%, "much" is a factor of two, "constant" allows 5%. What the paper
says of its programs must hold for each of them. Where a claim differs, `explain` says what the
run's numbers show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean, median

from mmulab.papers import ABOUT, Claim, Published
from mmulab.papers.vm_study_cells import (
    KIB,
    PLOTTED_LINES,
    WITH_TLB,
    Cell,
    Cells,
    explained_by,
)
from mmulab.papers.vm_study_experiments import Evidence
from mmulab.papers.vm_study_explanations import explain

CLOSE = 0.15
CONSTANT = 0.05
MUCH = 2.0
ORDER_OF_MAGNITUDE = (10 * (1 - ABOUT), 10**1.5)
"""From ten less a quarter to where a hundred is nearer."""
COSTS = (10, 50, 200)
POOR_LOCALITY = ("gcc-like", "vortex-like")
FIGURE_L1 = (8 * KIB, 32 * KIB, 128 * KIB)
"""Figures 11 to 13 plot 16, 64 and 256 KB of both sides."""
LARGE_L2 = 2048 * KIB
SMALL_L2 = 512 * KIB
LONG_L2_LINES = (64, 128)
SHORT_L2_LINES = (16, 32)

Finding = tuple[bool, str]
"""Whether the claim holds, and the numbers that decide it."""

_CLAIMS: dict[str, Callable[[Cells], Finding]] = {}


def claim(identifier: str) -> Callable[[Callable[[Cells], Finding]], Callable[[Cells], Finding]]:
    """Enters a function as the evaluation of a claim."""

    def enter(function: Callable[[Cells], Finding]) -> Callable[[Cells], Finding]:
        _CLAIMS[identifier] = function
        return function

    return enter


def evaluate(cells: Cells, evidence: Evidence, published: dict[str, Published]) -> list[Claim]:
    """Our verdict on every published claim, in the paper's order."""
    return [
        row.judge(holds, ours, "" if holds else explain(identifier, cells, evidence))
        for identifier, row in published.items()
        for holds, ours in [_CLAIMS[identifier](cells)]
    ]


def by_program(parts: Mapping[str, str]) -> str:
    """The numbers of each program, in one line."""
    return "; ".join(f"{program} {part}" for program, part in parts.items())


def about(value: float, low: float, high: float | None = None) -> bool:
    """Whether a value is in a range, or near a value, give or take a quarter."""
    high = low if high is None else high
    return low * (1 - ABOUT) <= value <= high * (1 + ABOUT)


def percent(share: float) -> str:
    """A share in percent, with a decimal where it is small."""
    return f"{100 * share:.{0 if abs(share) >= 0.1 else 1}f}%"


def spread(values: Iterable[float]) -> float:
    """Largest over smallest."""
    values = list(values)
    return max(values) / min(values) if min(values) > 0 else math.inf


def plotted(cells: Cells, **wanted: object) -> list[Cell]:
    """Cells with 64/128-byte lines and, unless asked for otherwise, 128-entry TLBs."""
    l1_line, l2_line = PLOTTED_LINES
    return cells.where(
        **{"l1_line_bytes": l1_line, "l2_line_bytes": l2_line, "tlb_entries": 128, **wanted}
    )


def in_figures(cells: Cells, **wanted: object) -> list[Cell]:
    """Those on the caches of figures 11 to 13."""
    return plotted(cells, l1_bytes=FIGURE_L1, l2_bytes=(SMALL_L2, LARGE_L2), **wanted)


def compared(cell: Cell, cells: Cells, organisation: str) -> Cell:
    """The same program and caches under another organisation."""
    other = cells.like(cell, organisation=organisation)
    if other is None:
        raise ValueError(f"{organisation} was not run on {cell.configuration}")
    return other


@claim("vm98-01")
def intel_is_best_hierarchical(cells: Cells) -> Finding:
    """At every interrupt cost, on the configurations of figures 11 and 12.

    NOTLB, which has no TLB to shrink, is compared at the study's 128 entries only.
    """
    won, lost = 0, []
    for cell in in_figures(
        cells,
        organisation="intel",
        program=POOR_LOCALITY,
        tlb_entries=(64, 128),
    ):
        for cost in COSTS:
            for organisation in ("ultrix", "mach", "notlb"):
                if organisation == "notlb" and cell.configuration.tlb_entries != 128:
                    continue
                other = compared(cell, cells, organisation)
                if cell.total(cost) < other.total(cost):
                    won += 1
                else:
                    lost.append((organisation, other.total(cost) / cell.total(cost)))
    by = ", ".join(sorted({organisation for organisation, _ in lost}))
    worst = f"; beaten by {by}, by {percent(1 - min(r for _, r in lost))} at most" if lost else ""
    return not lost, f"INTEL lower in {won} of {won + len(lost)} comparisons{worst}"


@claim("vm98-02")
def mach_is_close_to_ultrix(cells: Cells) -> Finding:
    """Over the whole cross product."""
    holds, parts = True, {}
    for program in POOR_LOCALITY:
        ratios = [
            cell.vmcpi / compared(cell, cells, "ultrix").vmcpi
            for cell in cells.where(organisation="mach", program=program, tlb_entries=128)
        ]
        middle = median(ratios)
        holds &= abs(middle - 1) <= CLOSE
        parts[program] = f"median {middle:.3f}, {min(ratios):.3f} to {max(ratios):.3f}"
    return holds, f"MACH/ULTRIX: {by_program(parts)}"


@claim("vm98-03")
def vmcpi_is_five_to_ten_percent(cells: Cells) -> Finding:
    """Median over caches and the organisations with a TLB, for each program of poor locality."""
    medians = {
        program: median(
            cell.vmcpi for cell in plotted(cells, organisation=WITH_TLB, program=program)
        )
        for program in POOR_LOCALITY
    }
    ours = ", ".join(f"{program} {value:.3f}" for program, value in medians.items())
    return all(about(value, 0.05, 0.10) for value in medians.values()), f"median VMCPI: {ours}"


def notlb_ratio(cells: Cells, program: str, l2_bytes: int, l2_lines: Sequence[int]) -> float:
    """VMCPI of NOTLB over the median of the organisations with a TLB: the median over the
    caches."""
    return median(
        cell.vmcpi / median(compared(cell, cells, other).vmcpi for other in WITH_TLB)
        for cell in cells.where(
            organisation="notlb", program=program, l2_bytes=l2_bytes, l2_line_bytes=l2_lines
        )
    )


@claim("vm98-04")
def notlb_needs_a_large_second_level(cells: Cells) -> Finding:
    """2 MB a side with lines of 64 bytes or more, against 512 KB a side with shorter lines."""
    holds, parts = True, {}
    for program in POOR_LOCALITY:
        good = notlb_ratio(cells, program, LARGE_L2, LONG_L2_LINES)
        bad = notlb_ratio(cells, program, SMALL_L2, SHORT_L2_LINES)
        holds &= about(good, 1.0) and bad >= MUCH
        parts[program] = f"{good:.2f} with a large second level, {bad:.2f} below"
    return holds, f"NOTLB over the others' median: {by_program(parts)}"


@claim("vm98-05")
def notlb_is_most_sensitive(cells: Cells) -> Finding:
    """Largest over smallest VMCPI, over all caches and lines."""
    holds, parts = True, {}
    for program in POOR_LOCALITY:
        spreads = {
            organisation: spread(
                cell.vmcpi
                for cell in cells.where(organisation=organisation, program=program, tlb_entries=128)
            )
            for organisation in [*WITH_TLB, "notlb"]
        }
        holds &= spreads["notlb"] > max(spreads[name] for name in WITH_TLB)
        parts[program] = ", ".join(f"{name} {value:.1f}" for name, value in spreads.items())
    return holds, by_program(parts)


def line_spread(cells: Cells, organisation: str, program: str) -> float:
    """How much the lines matter with the largest first level: the most over the second levels."""
    return max(
        spread(
            cell.vmcpi
            for cell in cells.where(
                organisation=organisation,
                program=program,
                l1_bytes=cells.sizes("l1_bytes")[-1],
                l2_bytes=l2_bytes,
                tlb_entries=128,
            )
        )
        for l2_bytes in cells.sizes("l2_bytes")
    )


@claim("vm98-06")
def pa_risc_ignores_lines_with_large_caches(cells: Cells) -> Finding:
    """With the largest first level: PA-RISC within a quarter, each other by about two."""
    holds, parts = True, {}
    for program in POOR_LOCALITY:
        spreads = {name: line_spread(cells, name, program) for name in WITH_TLB}
        parts[program] = ", ".join(f"{name} {value:.2f}" for name, value in spreads.items())
        holds &= spreads.pop("pa-risc") <= 1 + ABOUT
        holds &= all(about(value, 2.0) for value in spreads.values())
    return holds, f"largest over smallest VMCPI over lines: {by_program(parts)}"


@claim("vm98-07")
def longest_lines_help_only_pa_risc(cells: Cells) -> Finding:
    """First-level caches up to 4 KB, second-level lines of 128 bytes: 128- over 64-byte lines."""
    falls_below = 0.98
    holds, parts = True, {}
    for program in POOR_LOCALITY:
        ratios = {}
        for organisation in WITH_TLB:
            small = cells.where(
                organisation=organisation,
                program=program,
                l1_bytes=[size for size in cells.sizes("l1_bytes") if size <= 4 * KIB],
                l1_line_bytes=64,
                l2_line_bytes=128,
                tlb_entries=128,
            )
            longer = [cells.like(cell, l1_line_bytes=128) for cell in small]
            ratios[organisation] = median(
                more.vmcpi / cell.vmcpi for cell, more in zip(small, longer, strict=True) if more
            )
        parts[program] = ", ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())
        holds &= ratios.pop("pa-risc") < falls_below
        holds &= all(ratio >= falls_below for ratio in ratios.values())
    return holds, f"VMCPI at 128 over 64 bytes: {by_program(parts)}"


@claim("vm98-08")
def lines_group_the_curves(cells: Cells) -> Finding:
    """First-level caches up to 8 KB, as 4.1 says of the TLB-based schemes; NOTLB over all."""
    holds, parts = True, {}
    for program in POOR_LOCALITY:
        said = []
        for organisation in [*WITH_TLB, "notlb"]:
            by_l1, by_l2 = lines_explain(cells, program, organisation)
            holds &= by_l2 > by_l1 if organisation == "notlb" else by_l1 > by_l2
            said.append(f"{organisation} {percent(by_l1)} and {percent(by_l2)}")
        parts[program] = ", ".join(said)
    return holds, f"variance explained by the L1 line and by the L2 line: {by_program(parts)}"


def lines_explain(cells: Cells, program: str, organisation: str) -> tuple[float, float]:
    """Shares of variance that the L1 line and the L2 line explain: the mean over the graphs, of
    which each second level has one."""
    sizes = cells.sizes("l1_bytes")
    if organisation != "notlb":
        sizes = [size for size in sizes if size <= 8 * KIB]
    graphs = [
        cells.where(
            organisation=organisation,
            program=program,
            l2_bytes=l2_bytes,
            l1_bytes=sizes,
            tlb_entries=128,
        )
        for l2_bytes in cells.sizes("l2_bytes")
    ]
    by_l1, by_l2 = (
        fmean(explained_by(graph, parameter) for graph in graphs)
        for parameter in ("l1_line_bytes", "l2_line_bytes")
    )
    return by_l1, by_l2


def follows_the_tlb(
    cells: Cells, organisations: Sequence[str], quantity: Callable[[Cell], float]
) -> Finding:
    """Whether a quantity is constant over all caches with a TLB, and without one falls by the
    second level."""
    constant = max(
        spread(
            quantity(cell)
            for cell in cells.where(organisation=organisation, program=program, tlb_entries=128)
        )
        for organisation in organisations
        for program in POOR_LOCALITY
    )
    falls = [
        quantity(more) / quantity(cell)
        for cell in plotted(cells, organisation="notlb", program=POOR_LOCALITY, l2_bytes=SMALL_L2)
        if (more := cells.like(cell, l2_bytes=LARGE_L2))
    ]
    ours = (
        f"with a TLB largest over smallest {constant:.3f}; NOTLB at 2 MB over 512 KB a side: "
        f"median {median(falls):.2f}, at most {max(falls):.2f}"
    )
    return constant <= 1 + CONSTANT and max(falls) < 1 - CONSTANT, ours


@claim("vm98-09")
def handler_cost_follows_the_tlb(cells: Cells) -> Finding:
    """`uhandler`."""
    return follows_the_tlb(cells, WITH_TLB, lambda cell: cell.cpi("uhandler"))


@claim("vm98-10")
def handler_proportions(cells: Cells) -> Finding:
    """Against ULTRIX = 10, for each program of poor locality."""
    holds, parts = True, {}
    for program in POOR_LOCALITY:
        cost = {
            organisation: fmean(
                cell.cpi("uhandler")
                for cell in plotted(cells, organisation=organisation, program=program)
            )
            for organisation in WITH_TLB
        }
        scaled = {name: 10 * value / cost["ultrix"] for name, value in cost.items()}
        holds &= (
            abs(scaled["mach"] - 10) <= 10 * CLOSE
            and about(scaled["intel"], 5)
            and about(scaled["pa-risc"], 15)
        )
        parts[program] = ":".join(f"{value:.1f}" for value in scaled.values())
    return holds, by_program(parts)


@claim("vm98-11")
def protected_slots_shorten_the_path(cells: Cells) -> Finding:
    """Mean free path of ULTRIX (112 slots for the program) against INTEL (128)."""
    shorter = {
        program: 1
        - fmean(c.mean_free_path for c in plotted(cells, organisation="ultrix", program=program))
        / fmean(c.mean_free_path for c in plotted(cells, organisation="intel", program=program))
        for program in POOR_LOCALITY
    }
    ours = ", ".join(f"{program} {percent(value)} shorter" for program, value in shorter.items())
    return all(about(value, 0.30) for value in shorter.values()), ours


@claim("vm98-12")
def tlb_size_matters_more_than_caches(cells: Cells) -> Finding:
    """Doublings of the TLB from 32 to 256 entries; every doubling of a cache."""
    changes = {
        (organisation, program): max(
            (cell.vmcpi / more.vmcpi, cell.configuration.tlb_entries)
            for cell in cells.where(organisation=organisation, program=program)
            if (more := cells.like(cell, tlb_entries=2 * cell.configuration.tlb_entries))
        )
        for organisation in ("intel", "ultrix")
        for program in POOR_LOCALITY
    }
    cache = max(
        max(cell.vmcpi / more.vmcpi, more.vmcpi / cell.vmcpi)
        for cell in cells.where(organisation=WITH_TLB, program=POOR_LOCALITY)
        for name in ("l1_bytes", "l2_bytes")
        if (more := cells.like(cell, **{name: 2 * getattr(cell.configuration, name)}))
    )

    def said(organisation: str) -> str:
        return ", ".join(
            f"{program} {factor:.1f} times from {entries} to {2 * entries} entries"
            for (name, program), (factor, entries) in changes.items()
            if name == organisation
        )

    largest = max(factor for (name, _), (factor, _) in changes.items() if name == "intel")
    least, most = ORDER_OF_MAGNITUDE
    ours = (
        f"VMCPI at most: INTEL {said('intel')}; a cache of twice the size {cache:.1f} times; not "
        f"judged: ULTRIX {said('ultrix')}, of which 16 are protected (32 to 64 entries are 16 to 48 "
        "usable slots)"
    )
    return least <= largest < most and cache < least, ours


@claim("vm98-13")
def intel_root_entries_fit_soon(cells: Cells) -> Finding:
    """`rpte-L2` over `upte-L2` at the smallest first level, at 32 KB and at the largest."""
    holds, parts = True, {}
    sizes = cells.sizes("l1_bytes")
    for program in POOR_LOCALITY:
        ratio = {
            size: fmean(
                cell.cpi("rpte-L2") / cell.cpi("upte-L2")
                for cell in plotted(cells, organisation="intel", program=program, l1_bytes=size)
            )
            for size in (sizes[0], 32 * KIB, sizes[-1])
        }
        holds &= about(ratio[sizes[0]], 1.0) and ratio[32 * KIB] <= 0.5 * ratio[sizes[0]]
        parts[program] = ", ".join(
            f"{value:.2f} at {size // KIB} KB" for size, value in ratio.items()
        )
    return holds, f"rpte-L2/upte-L2: {by_program(parts)}"


@claim("vm98-14")
def mach_differs_in_the_root_path(cells: Cells) -> Finding:
    """Where MACH's VMCPI exceeds ULTRIX's, summed over the plotted caches."""
    excess: dict[str, float] = {}
    for cell in plotted(cells, organisation="mach", program=POOR_LOCALITY):
        ultrix = compared(cell, cells, "ultrix")
        for cause in (*cell.causes, *ultrix.causes):
            excess[cause] = excess.get(cause, 0.0)
        for cause in excess:
            excess[cause] += cell.cpi(cause) - ultrix.cpi(cause)
    added = {
        cause: value
        for cause, value in excess.items()
        if value > 0 and cause.startswith(("u", "k", "r", "handler"))
    }
    if not added:
        return False, "MACH exceeds ULTRIX in nothing"
    total = sum(added.values())
    root = sum(added.get(cause, 0.0) for cause in ("rpte-MEM", "rpte-L2", "rhandler"))
    largest = max(added, key=lambda cause: added[cause])
    parts = ", ".join(
        f"{cause} {percent(value / total)}"
        for cause, value in sorted(added.items(), key=lambda item: -item[1])[:4]
    )
    return largest == "rpte-MEM" and root >= 0.5 * total, f"of MACH's excess: {parts}"


def fall_over_l1(cells: Cells, organisation: str, program: str) -> float:
    """By how much `upte-L2` falls from the smallest to the largest first level."""
    sizes = cells.sizes("l1_bytes")
    first, last = (
        fmean(
            cell.cpi("upte-L2")
            for cell in plotted(cells, organisation=organisation, program=program, l1_bytes=size)
        )
        for size in (sizes[0], sizes[-1])
    )
    return 1 - last / first


@claim("vm98-15")
def inverted_entries_in_the_first_level(cells: Cells) -> Finding:
    """From the smallest to the largest first level."""
    gcc = fall_over_l1(cells, "pa-risc", "gcc-like")
    vortex = fall_over_l1(cells, "pa-risc", "vortex-like")
    others = fmean(
        fall_over_l1(cells, organisation, "vortex-like")
        for organisation in ("ultrix", "mach", "intel")
    )
    ours = (
        f"upte-L2 falls by {percent(gcc)} (gcc-like), {percent(vortex)} (vortex-like); the others "
        f"by {percent(others)} (vortex-like)"
    )
    return abs(gcc) <= ABOUT and about(vortex, 0.8) and about(others, 0.5), ours


@claim("vm98-16")
def applications_miss_more(cells: Cells) -> Finding:
    """Misses of both levels, on the caches of figures 11 and 12, against BASE."""
    more, data = {}, []
    for program in POOR_LOCALITY:
        ratios = []
        for cell in in_figures(
            cells,
            organisation=WITH_TLB,
            program=program,
        ):
            base = compared(cell, cells, "base")
            ratios.append(cell.cache_misses / base.cache_misses - 1)
            added = cell.cache_misses - base.cache_misses
            if added:
                data.append((cell.data_misses - base.data_misses) / added)
        more[program] = fmean(ratios)
    of_data = median(data) if data else 0.0
    holds = about(more["gcc-like"], 0.05) and about(more["vortex-like"], 0.20) and of_data >= 0.75
    ours = ", ".join(f"{program} +{100 * value:.1f}%" for program, value in more.items())
    return holds, f"{ours}; {percent(of_data)} of it data misses (median)"


@claim("vm98-17")
def three_ways_to_count(cells: Cells) -> Finding:
    """Shares of run time (1 + MCPI + VMCPI + interrupts), medians; interrupts at 50 cycles."""
    holds, parts = True, {}
    for program in POOR_LOCALITY:
        plain, induced, interrupts = [], [], []
        for cell in in_figures(
            cells,
            organisation=WITH_TLB,
            program=program,
        ):
            more_misses = cell.mcpi - compared(cell, cells, "base").mcpi
            time = 1 + cell.mcpi + cell.vmcpi
            plain.append(cell.vmcpi / time)
            induced.append((cell.vmcpi + more_misses) / time)
            cost = cell.interrupt_cpi(50)
            interrupts.append((cell.vmcpi + more_misses + cost) / (time + cost))
        shares = [median(values) for values in (plain, induced, interrupts)]
        ranges = ((0.05, 0.10), (0.10, 0.20), (0.10, 0.30))
        holds &= all(about(share, *limits) for share, limits in zip(shares, ranges, strict=True))
        parts[program] = " / ".join(percent(share) for share in shares)
    return holds, by_program(parts)


@claim("vm98-18")
def interrupts_follow_the_tlb(cells: Cells) -> Finding:
    """The number of interrupts, where misses are handled in software."""
    return follows_the_tlb(cells, ("ultrix", "mach", "pa-risc"), lambda cell: cell.interrupts)


@claim("vm98-19")
def jpeg_is_the_counterexample(cells: Cells) -> Finding:
    """The four parts of the claim, on the caches of figure 13, interrupts at 10 and 50 cycles."""
    worst, mach, exceeds, totals = [], [], [], []
    for cell in in_figures(
        cells,
        organisation="pa-risc",
        program="ijpeg-like",
    ):
        others = [compared(cell, cells, name) for name in ("ultrix", "mach", "intel")]
        worst.append(cell.vmcpi > max(other.vmcpi for other in others))
        mach.append(others[1].vmcpi / others[0].vmcpi)
        for one in (cell, others[0], others[1]):
            exceeds += [one.vmcpi > one.interrupt_cpi(cost) for cost in (10, 50)]
        totals += [one.total(50) for one in (cell, *others)]
    ours = (
        f"PA-RISC highest VMCPI in {sum(worst)} of {len(worst)}; MACH/ULTRIX median "
        f"{median(mach):.2f}; VMCPI over interrupts in {percent(fmean(exceeds))}; total "
        f"{min(totals):.3f} to {max(totals):.3f} CPI"
    )
    holds = (
        all(worst)
        and median(mach) >= 1 + CLOSE
        and fmean(exceeds) >= 0.5
        and max(totals) <= 1 - ABOUT
    )
    return holds, ours


@claim("vm98-20")
def fourfold_caches_halve_the_total(cells: Cells) -> Finding:
    """On the caches of figures 11 and 12, interrupts at 50 cycles."""
    holds, parts = True, {}
    for program in POOR_LOCALITY:
        best, which = max(
            (1 - more.total(50) / cell.total(50), level)
            for cell in in_figures(
                cells,
                organisation=WITH_TLB,
                program=program,
            )
            for level in ("l1", "l2")
            for size in [4 * getattr(cell.configuration, f"{level}_bytes")]
            if (more := cells.like(cell, **{f"{level}_bytes": size}))
        )
        holds &= about(best, 0.5)
        parts[program] = f"falls by up to {percent(best)} ({which.upper()})"
    return holds, by_program(parts)


@claim("vm98-21")
def chains_are_short(cells: Cells) -> Finding:
    """Entries that a search for each page of the program once looks at, against the load."""
    holds, parts = True, {}
    for program in (*POOR_LOCALITY, "ijpeg-like"):
        [cell] = [
            cell for cell in plotted(cells, organisation="pa-risc", program=program) if cell.chains
        ]
        chains = cell.chains
        assert chains is not None
        holds &= about(chains.mean_search - 1, chains.load / 2)
        parts[program] = (
            f"{chains.mean_search:.3f}, expected {1 + chains.load / 2:.3f} ({chains.pages:,} pages "
            f"in {chains.heads:,} heads)"
        )
    return holds, by_program(parts)


@claim("vm98-22")
def inverted_and_hardware_is_best(cells: Cells) -> Finding:
    """Total overhead of `inverted-hw` on the caches of figures 11 and 12, at every cost."""
    won, lost, gains = 0, [], []
    for cell in in_figures(
        cells,
        organisation="inverted-hw",
        program=POOR_LOCALITY,
    ):
        for name in ("intel", "pa-risc"):
            other = compared(cell, cells, name)
            gains.append(1 - cell.vmcpi / other.vmcpi)
            for cost in COSTS:
                if cell.total(cost) < other.total(cost):
                    won += 1
                else:
                    lost.append((name, cell.total(cost) / other.total(cost) - 1))
    by = ", ".join(sorted({name for name, _ in lost}))
    worse = f"; {by} lower, by {percent(max(r for _, r in lost))} at most" if lost else ""
    ours = (
        f"lower total in {won} of {won + len(lost)} comparisons{worse}; VMCPI lower by "
        f"{percent(median(gains))} (median)"
    )
    return not lost, ours


@claim("vm98-23")
def copy_on_write_adds_half(cells: Cells) -> Finding:
    """One interrupt more every 40,000 instructions, against those of the TLB."""
    more = {
        program: median(
            cell.instructions / 40_000 / cell.interrupts
            for cell in plotted(cells, organisation=("ultrix", "mach", "pa-risc"), program=program)
        )
        for program in POOR_LOCALITY
    }
    ours = ", ".join(f"{program} +{percent(value)}" for program, value in more.items())
    return all(about(value, 0.5) for value in more.values()), f"interrupts: {ours}"
