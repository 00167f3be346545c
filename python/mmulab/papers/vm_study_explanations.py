"""Why a claim of the 1998 study differs on programs of today.

Each explanation was found by looking, and is a list of causes that may or may not be at work in a
run: a cause is told only where the run's own numbers show it, and with these numbers. Where none
does, the claim stays unexplained, and that is told.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from statistics import fmean, median

from mmulab.papers.vm_study_cells import (
    KIB,
    PLOTTED_LINES,
    WITH_TLB,
    Cell,
    Cells,
    explained_by,
)
from mmulab.papers.vm_study_experiments import TABLE_OFFSETS_KIB, Evidence

Causes = Callable[[Cells, Evidence], Iterator[str]]
"""Gives a sentence for each cause that the run's numbers show."""

UNEXPLAINED = (
    "unexplained: none of the causes that were looked for shows in the numbers of this run"
)
POOR_LOCALITY = ("gcc-like", "vortex-like")
_CAUSES: dict[str, Causes] = {}


def explain(identifier: str, cells: Cells, evidence: Evidence) -> str:
    """Why a claim differs, by what this run shows."""
    causes = _CAUSES.get(identifier)
    shown = "; ".join(causes(cells, evidence)) if causes else ""
    return shown or UNEXPLAINED


def of(identifier: str) -> Callable[[Causes], Causes]:
    """Enters a function as the causes of a claim's difference."""

    def enter(function: Causes) -> Causes:
        _CAUSES[identifier] = function
        return function

    return enter


def times(number: int) -> str:
    """How often."""
    return "once" if number == 1 else f"{number:,} times"


def per_thousand(events: float, instructions: int) -> str:
    """Events per thousand instructions."""
    return f"{1000 * events / instructions:.2f}"


def one(cells: Cells, program: str, organisation: str, **wanted: int) -> Cell:
    """The cell of the plotted lines with the given sizes, by default 32 KB, 2 MB and 128
    entries."""
    sizes = {"l1_bytes": 32 * KIB, "l2_bytes": 2048 * KIB, "tlb_entries": 128} | wanted
    [found] = cells.where(
        program=program,
        organisation=organisation,
        l1_line_bytes=PLOTTED_LINES[0],
        l2_line_bytes=PLOTTED_LINES[1],
        **sizes,
    )
    return found


@of("vm98-01")
def who_beats_intel(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """Caches past what a 128-entry TLB maps; conflicts of root and user entries with data."""
    for program in POOR_LOCALITY:
        notlb, intel = evidence.of(program, "notlb"), evidence.of(program, "intel")
        if notlb.interrupts < intel.tlb_misses:
            yield (
                f"{program} touches more pages than 128 entries map, but 2 MB still hold their lines: "
                f"{per_thousand(notlb.interrupts, notlb.instructions)} walks per thousand "
                "instructions without a TLB (L1 32 KB a side) and "
                f"{per_thousand(intel.tlb_misses, intel.instructions)} with one"
            )
        intel, ultrix = (
            one(cells, program, name, l1_bytes=8 * KIB) for name in ("intel", "ultrix")
        )
        parts = [cell.cpi("upte-L2", "rpte-L2", "handler-L2") for cell in (intel, ultrix)]
        if intel.total(10) > ultrix.total(10) and parts[0] > parts[1] and intel.mcpi > ultrix.mcpi:
            yield (
                f"{program}, L1 8 KB and L2 2 MB a side: INTEL's two loads a walk conflict with the "
                "program's data in the direct-mapped first level: entries (and in ULTRIX the handler) "
                f"from the second level cost {parts[0]:.3f} CPI against ULTRIX's {parts[1]:.3f}, and "
                f"MCPI is {intel.mcpi:.3f} against {ultrix.mcpi:.3f}"
            )


@of("vm98-03")
def how_often_and_how_dear(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """VMCPI is the cost of a walk over the path between walks; medians over what the claim is
    of."""
    for program in POOR_LOCALITY:
        judged = cells.where(
            program=program,
            organisation=WITH_TLB,
            l1_line_bytes=PLOTTED_LINES[0],
            l2_line_bytes=PLOTTED_LINES[1],
            tlb_entries=128,
        )
        middle = median(cell.vmcpi for cell in judged)
        each = median(cell.vmcpi * cell.mean_free_path for cell in judged)
        path = median(cell.mean_free_path for cell in judged)
        for bound, outside, side in (
            (0.05, middle < 0.05 * 0.75, "already takes"),
            (0.10, middle > 0.10 * 1.25, "allows only"),
        ):
            if outside:
                yield (
                    f"{program} pays {each:.0f} cycles for a walk (median), so that {bound:.2f} "
                    f"{side} one in {each / bound:.0f} instructions; it walks once in {path:.0f}"
                )


@of("vm98-04")
def walks_against_misses(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """NOTLB walks for lines, the others for pages."""
    for program in POOR_LOCALITY:
        tlb = evidence.of(program, "ultrix")
        misses = tlb.tlb_misses / tlb.instructions
        above, below = (
            median(
                cell.interrupts / cell.instructions
                for cell in cells.where(
                    program=program, organisation="notlb", l2_bytes=size, l2_line_bytes=lines
                )
            )
            for size, lines in ((2048 * KIB, (64, 128)), (512 * KIB, (16, 32)))
        )
        numbers = (
            f"{1000 * above:.2f} walks per thousand instructions above and {1000 * below:.2f} below "
            f"against {1000 * misses:.2f} misses of a TLB with 112 slots"
        )
        if above < 0.75 * misses:
            yield f"{program} outgrows 128 entries more than it outgrows a large cache: {numbers}"
        elif above > 1.25 * misses:
            yield f"{program} outgrows even a large cache more than it outgrows 128 entries: {numbers}"
        elif below < 2 * misses:
            yield f"a small cache holds what {program} needs nearly as well as a TLB: {numbers}"
        walk, others = (
            median(
                cell.vmcpi
                * cell.instructions
                / (cell.interrupts if name == "notlb" else cell.tlb_misses)
                for cell in cells.where(
                    program=program,
                    organisation=name,
                    l2_bytes=512 * KIB,
                    l2_line_bytes=(16, 32),
                    tlb_entries=128,
                )
            )
            for name in ("notlb", WITH_TLB)
        )
        if below > misses and walk < others / 2:
            yield (
                f"{program}: below, a walk of NOTLB costs {walk:.0f} cycles and one for a TLB "
                f"{others:.0f}, as the same small second level holds page-table entries too"
            )


def from_memory(cell: Cell) -> float:
    """The part of VMCPI that misses the second level."""
    return cell.cpi(*(cause for cause in cell.causes if cause.endswith("pte-MEM")), "handler-MEM")


@of("vm98-06")
def second_level_conflicts_follow_lines(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """What varies may come from memory: conflicts in a direct-mapped second level."""
    for program in POOR_LOCALITY:
        for organisation in WITH_TLB:
            some = cells.where(
                program=program,
                organisation=organisation,
                l1_bytes=cells.sizes("l1_bytes")[-1],
                l2_bytes=2048 * KIB,
                tlb_entries=128,
            )
            near = [cell.vmcpi - from_memory(cell) for cell in some]
            far = [from_memory(cell) for cell in some]
            whole = max(cell.vmcpi for cell in some) / min(cell.vmcpi for cell in some)
            limit = 1.25 if organisation == "pa-risc" else 2.5
            constant = min(cell.cpi("uhandler") / cell.vmcpi for cell in some)
            judged = max(
                max(cell.vmcpi for cell in graph) / min(cell.vmcpi for cell in graph)
                for size in cells.sizes("l2_bytes")
                for graph in [
                    cells.where(
                        program=program,
                        organisation=organisation,
                        l1_bytes=cells.sizes("l1_bytes")[-1],
                        l2_bytes=size,
                        tlb_entries=128,
                    )
                ]
            )
            if organisation != "pa-risc" and judged < 1.5 and constant > 0.5:
                yield (
                    f"{organisation} with {program}: uhandler, which the lines do not change, is at "
                    f"least {constant:.0%} of VMCPI there"
                )
            if whole > limit >= max(near) / min(near):
                yield (
                    f"{organisation} with {program} (128 KB and 2 MB a side): what comes from memory "
                    f"is {min(far):.4f} to {max(far):.4f} by the lines, because the table's lines "
                    "conflict with the program's in the direct-mapped second level; all else is "
                    f"within {max(near) / min(near):.2f} times"
                )


@of("vm98-07")
def the_handler_gains_not_the_entries(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """What PA-RISC saves by lines of 128 bytes is fetching its handler of 80."""
    for program in POOR_LOCALITY:
        short, long = (
            [
                cell
                for cell in cells.where(
                    program=program,
                    organisation="pa-risc",
                    l1_line_bytes=line,
                    l2_line_bytes=128,
                    tlb_entries=128,
                )
                if cell.configuration.l1_bytes <= 4 * KIB
            ]
            for line in (64, 128)
        )
        code, entries = (
            [fmean(cell.cpi(cause) for cell in group) for group in (short, long)]
            for cause in ("handler-L2", "upte-L2")
        )
        if code[1] < code[0] and abs(entries[1] / entries[0] - 1) < 0.02:
            yield (
                f"{program}: all that longer first-level lines save PA-RISC is fetching its handler "
                f"(handler-L2 {code[0]:.4f} to {code[1]:.4f} CPI, mean up to 4 KB); a neighbouring "
                f"entry of its table is of no use (upte-L2 {entries[0]:.4f} to {entries[1]:.4f})"
            )


@of("vm98-08")
def no_handler_and_unequal_pairs(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """INTEL has no handler code to fetch; NOTLB groups where lines grow outwards."""
    small = [size for size in cells.sizes("l1_bytes") if size <= 8 * KIB]

    def shares(
        program: str,
        organisation: str,
        keep: Callable[[Cell], bool] = lambda cell: True,
        cost: Callable[[Cell], float] = lambda cell: cell.vmcpi,
    ) -> tuple[float, float]:
        graphs = [
            [
                cell
                for cell in cells.where(
                    program=program,
                    organisation=organisation,
                    l2_bytes=size,
                    l1_bytes=cells.sizes("l1_bytes") if organisation == "notlb" else small,
                    tlb_entries=128,
                )
                if keep(cell)
            ]
            for size in cells.sizes("l2_bytes")
        ]
        by_l1, by_l2 = (
            fmean(explained_by(graph, parameter, cost) for graph in graphs)
            for parameter in ("l1_line_bytes", "l2_line_bytes")
        )
        return by_l1, by_l2

    def without_code(cell: Cell) -> float:
        return cell.vmcpi - cell.cpi("handler-L2", "handler-MEM")

    def outwards(cell: Cell) -> bool:
        return cell.configuration.l2_line_bytes >= cell.configuration.l1_line_bytes

    for program in POOR_LOCALITY:
        intel, ultrix = shares(program, "intel"), shares(program, "ultrix")
        bare = shares(program, "ultrix", cost=without_code)
        if intel[0] <= intel[1] and ultrix[0] > ultrix[1] and bare[0] < ultrix[0]:
            yield (
                f"{program}: what longer first-level lines save the others is handler code, of which "
                f"INTEL has none: without it the L1 line explains {bare[0]:.0%} of ULTRIX, not "
                f"{ultrix[0]:.0%}"
            )
        every, some = shares(program, "notlb"), shares(program, "notlb", outwards)
        if every[0] >= every[1] and some[0] < some[1]:
            yield (
                f"{program}: NOTLB does as published where the second level's line is at least as "
                f"long as the first's ({some[1]:.0%} by the L2 line, {some[0]:.0%} by the L1 line); in "
                "the other 6 of the 16 pairs a first-level miss asks the second level for one short "
                "line only"
            )


@of("vm98-10")
def lengths_times_misses(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """The paper's own explanation of its proportions, with another curve."""
    for program in POOR_LOCALITY:
        ultrix, intel = evidence.of(program, "ultrix"), evidence.of(program, "intel")
        fewer = intel.tlb_misses / ultrix.tlb_misses
        if not 5 * 0.75 <= 7 * fewer <= 5 * 1.25 or not 15 * 0.75 <= 20 * fewer <= 15 * 1.25:
            yield (
                f"{program}: the proportions are the handlers' lengths times the misses, as the paper "
                f"says; 128 slots miss {1 - fewer:.0%} less often than 112 (vm98-11), which makes "
                f"10:10:{7 * fewer:.1f}:{20 * fewer:.1f}"
            )


@of("vm98-11")
def slots_and_the_curve(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """The slots make the difference, and it is the program's curve that says how much."""
    for program in POOR_LOCALITY:
        ultrix, less = evidence.of(program, "ultrix"), evidence.of(program, "intel, 112 entries")
        whole = evidence.of(program, "intel")
        shorter = 1 - ultrix.mean_free_path / whole.mean_free_path
        if abs(ultrix.mean_free_path / less.mean_free_path - 1) > 0.02:
            yield (
                f"{program}: not the slots alone: ULTRIX has a path of {ultrix.mean_free_path:.0f} "
                f"instructions, INTEL cut to 112 entries of {less.mean_free_path:.0f}"
            )
            continue
        half = one(cells, program, "intel", tlb_entries=64)
        doubled = whole.mean_free_path / half.mean_free_path
        by_curve = 1 - (112 / 128) ** math.log2(doubled)
        if abs(by_curve - shorter) <= 0.05 and not 0.225 <= shorter <= 0.375:
            yield (
                f"{program}: the slots are the whole difference (INTEL cut to 112 entries has the "
                f"path of ULTRIX, {less.mean_free_path:.0f} instructions), and its curve is another: "
                f"from 64 to 128 entries the path becomes {doubled:.1f} times as long, so that 12.5% "
                f"fewer slots cost {by_curve:.0%}; 30% would take 6.4 times"
            )


@of("vm98-12")
def the_curve_between_sizes(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """VMCPI follows the misses."""
    sizes = cells.sizes("tlb_entries")
    for program in POOR_LOCALITY:
        paths = [one(cells, program, "intel", tlb_entries=size).mean_free_path for size in sizes]
        steps = [after / before for before, after in itertools.pairwise(paths)]
        if max(steps) < 7.5:
            said = ", ".join(
                f"{step:.1f} times from {before} to {2 * before}"
                for step, before in zip(steps, sizes, strict=False)
            )
            yield f"{program}'s misses themselves change by less (INTEL's path: {said})"


@of("vm98-13")
def few_root_entries(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """A root entry serves 4 MB."""
    for program in POOR_LOCALITY:
        cell = one(cells, program, "intel", l1_bytes=cells.sizes("l1_bytes")[0])
        root, user = cell.cpi("rpte-L2"), cell.cpi("upte-L2")
        entries = evidence.of(program, "mach").count("khandler")
        if root < 0.75 * user and entries <= 64:
            yield (
                f"{program}: one root entry serves 4 MB, so {entries} serve the whole program and lie "
                f"in {math.ceil(entries / 16)} to {entries} lines, of which the one needed is "
                f"sometimes still there from an earlier walk (rpte-L2 {root / user:.2f} of upte-L2 at "
                "the smallest first level)"
            )
        missed = root_and_user_misses(cell)
        larger = one(cells, program, "intel", l1_bytes=32 * KIB)
        if root > 1.25 * user and missed[0] > 4 * root_and_user_misses(larger)[0]:
            yield (
                f"{program}: lines that are used between two walks lie in the root entry's set of the direct-mapped "
                f"first level, and drive it out however often it is used: {missed[0]:.0%} of walks miss it there, "
                f"{missed[1]:.0%} the user's entry, and with 32 KB {root_and_user_misses(larger)[0]:.0%} the root's"
            )


def root_and_user_misses(cell: Cell) -> tuple[float, float]:
    """How many of INTEL's walks miss the first level with the root's entry, and with the user's."""
    walks = max(cell.count("uhandler"), 1)
    return cell.count("rpte-L2") / walks, cell.count("upte-L2") / walks


@of("vm98-14")
def root_path_is_walked_once(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """Sixteen protected slots are enough, and then code misses more than data."""
    for program in POOR_LOCALITY:
        mach, ultrix = evidence.of(program, "mach"), evidence.of(program, "ultrix")
        few = evidence.of(program, "mach, 4 protected slots")
        pages, walks = mach.count("khandler"), mach.count("rhandler")
        code = mach.cpi("handler-MEM") - ultrix.cpi("handler-MEM")
        data = mach.cpi("rpte-MEM") - ultrix.cpi("rpte-MEM")
        if few.count("rhandler") > walks and code > data:
            yield (
                f"{program}: 16 protected slots keep what maps its {pages} pages of user table, so that "
                f"the root path runs {times(walks)} and its 500 instructions cost more from memory "
                "(handler-MEM) than its 11 loads (rpte-MEM); with 4 protected slots it runs "
                f"{times(few.count('rhandler'))} and costs "
                f"{few.cpi('rhandler', 'rpte-L2', 'rpte-MEM'):.3f} CPI, of which rhandler "
                f"{few.cpi('rhandler'):.3f}"
            )


@of("vm98-15")
def larger_entries_fall_later(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """Where entries of 4 and of 16 bytes begin to fit."""
    for program in POOR_LOCALITY:
        falls = {}
        for organisation in ("pa-risc", "ultrix"):
            first, last = (
                one(cells, program, organisation, l1_bytes=size).cpi("upte-L2")
                for size in (cells.sizes("l1_bytes")[0], cells.sizes("l1_bytes")[-1])
            )
            falls[organisation] = 1 - last / first
        if 0 < falls["pa-risc"] < falls["ultrix"]:
            yield (
                f"{program}: entries of 16 bytes fit later than those of 4, so that upte-L2 falls by "
                f"{falls['pa-risc']:.0%} under PA-RISC and by {falls['ultrix']:.0%} under ULTRIX"
            )
        elif falls["pa-risc"] > falls["ultrix"]:
            yield (
                f"{program}: the dense inverted table fits sooner than the sparse one: upte-L2 falls "
                f"by {falls['pa-risc']:.0%} under PA-RISC and by {falls['ultrix']:.0%} under ULTRIX"
            )


@of("vm98-16")
def a_walk_displaces_little(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """Misses added by a walk, walks, and misses that there are anyway."""
    for program in POOR_LOCALITY:
        base, ultrix = evidence.of(program, "base"), evidence.of(program, "ultrix")
        added = (ultrix.cache_misses - base.cache_misses) / ultrix.tlb_misses
        more = evidence.more_misses(program, "ultrix")
        wanted = {"gcc-like": 0.05, "vortex-like": 0.20}[program]
        if added < 1 and more < 0.75 * wanted:
            yield (
                f"{program}: a walk evicts less than one line that is needed again ({added:.2f} "
                "misses, ULTRIX with L1 32 KB and L2 2 MB a side), and comes once in "
                f"{ultrix.mean_free_path:.0f} instructions among "
                f"{per_thousand(base.cache_misses, base.instructions)} misses per thousand: "
                f"+{more:.1%}; with 4-way caches "
                f"+{evidence.more_misses(program, 'ultrix, 4-way caches'):.1%}"
            )
        elif added >= 1:
            yield (
                f"{program}: a walk costs {added:.2f} further misses of the program (ULTRIX), "
                f"+{more:.1%}; with 4-way caches "
                f"+{evidence.more_misses(program, 'ultrix, 4-way caches'):.1%}"
            )


@of("vm98-17")
def the_run_time_is_longer(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """The run time that the shares are of."""
    for program in POOR_LOCALITY:
        cell = evidence.of(program, "ultrix")
        if cell.mcpi > 0.5:
            yield (
                f"{program}: the shares are of a run time with a MCPI of {cell.mcpi:.2f} (ULTRIX, L1 "
                f"32 KB, L2 2 MB a side); of the 1 CPI without it VMCPI is {cell.vmcpi:.1%}"
            )
        if not 0.0375 <= cell.vmcpi <= 0.125:
            yield f"{program}: VMCPI itself is {cell.vmcpi:.3f} (vm98-03)"


@of("vm98-19")
def first_walks_and_a_stream(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """Which of the four parts differ."""
    mach, ultrix = evidence.of("ijpeg-like", "mach"), evidence.of("ijpeg-like", "ultrix")
    pa_risc, intel = evidence.of("ijpeg-like", "pa-risc"), evidence.of("ijpeg-like", "intel")
    if mach.vmcpi < 1.15 * ultrix.vmcpi:
        yield (
            f"MACH differs from ULTRIX by {(mach.vmcpi - ultrix.vmcpi) * mach.instructions / 1000:.0f} "
            f"thousand cycles in {mach.instructions / 1e6:.0f} million instructions, as its root path "
            f"runs {times(mach.count('rhandler'))}, and by its first walks only"
        )
    small = one(cells, "ijpeg-like", "ultrix", l1_bytes=8 * KIB, l2_bytes=512 * KIB)
    if small.mcpi > 0.75:
        memory = 500 * (small.count("L2d-miss") + small.count("L2i-miss")) / small.instructions
        yield (
            f"the largest totals are cache misses (MCPI {small.mcpi:.2f} with 8 and 512 KB a side, of "
            f"which {memory:.2f} from memory): the picture is read once and larger than the caches"
        )
    highest = max(ultrix.vmcpi, mach.vmcpi, intel.vmcpi)
    if pa_risc.vmcpi < highest:
        yield (
            f"PA-RISC's VMCPI is {pa_risc.vmcpi:.5f} against {highest:.5f} of the highest, with "
            f"upte-MEM {pa_risc.cpi('upte-MEM'):.5f} against {ultrix.cpi('upte-MEM'):.5f} of ULTRIX: "
            "with few misses the first loads of each line decide, and its table is dense"
        )


@of("vm98-20")
def the_second_level_holds_all(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """How many misses of the second level a larger one leaves."""
    for program in POOR_LOCALITY:
        small, large = (one(cells, program, "ultrix", l2_bytes=size * KIB) for size in (512, 2048))
        misses = [cell.count("L2i-miss") + cell.count("L2d-miss") for cell in (small, large)]
        left = misses[1] / misses[0] if misses[0] else 1.0
        fall = 1 - large.total(50) / small.total(50)
        if left < 0.375 and fall > 0.625:
            yield (
                f"{program}: of its misses of 512 KB a side 2 MB leave {left:.0%} (L1 32 KB), and at "
                f"500 cycles each they are most of the total, which falls by {fall:.0%}"
            )


@of("vm98-21")
def dense_regions_hash_better_than_chance(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """Consecutive pages have heads of their own."""
    for program in (*POOR_LOCALITY, "ijpeg-like"):
        chains = evidence.of(program, "pa-risc").chains
        if chains is None:
            continue
        excess, expected = chains.mean_search - 1, chains.load / 2
        if excess < 0.75 * expected:
            yield (
                f"{program}: consecutive pages hash to heads of their own, so that dense regions "
                f"collide less than the {expected:.3f} of chance: {excess:.3f}"
            )
        elif excess > 1.25 * expected:
            yield (
                f"{program}: whole regions hash to the same heads, so that their pages collide more "
                f"than the {expected:.3f} of chance: {excess:.3f}"
            )


@of("vm98-22")
def dense_regions_favour_linear_tables(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """Four times the bytes, and chance conflicts on top."""
    for program in POOR_LOCALITY:
        intel, inverted = evidence.of(program, "intel"), evidence.of(program, "inverted-hw")
        own, other = inverted.cpi("upte-MEM"), intel.cpi("upte-MEM", "rpte-MEM")
        moved = [
            evidence.of(program, f"inverted-hw, table {offset} KB further").cpi("upte-MEM")
            for offset in TABLE_OFFSETS_KIB
        ]
        if own > other:
            yield (
                f"{program}: the prediction rests on sparsely used page tables, and this program's "
                "regions are dense, so that 16-byte entries take four times the lines: upte-MEM "
                f"{own:.4f} CPI against {other:.4f} of INTEL's upte-MEM and rpte-MEM"
            )
        if max(moved) > 1.25 * min(moved):
            yield (
                f"{program}: what the table conflicts with in direct-mapped caches is chance: "
                f"upte-MEM is {min(moved):.4f} to {max(moved):.4f} when it moves by some 100 KB"
            )
        ways = [evidence.of(program, f"{name}, 4-way caches") for name in ("inverted-hw", "intel")]
        if ways[0].vmcpi > ways[1].vmcpi:
            yield (
                f"{program} with 4-way caches: VMCPI {ways[0].vmcpi:.4f} against INTEL's "
                f"{ways[1].vmcpi:.4f}"
            )


@of("vm98-23")
def how_often_the_tlb_interrupts(cells: Cells, evidence: Evidence) -> Iterator[str]:
    """Arithmetic: a copy-on-write fault every 40,000 instructions beside a miss every path."""
    paths = {
        program: evidence.of(program, "ultrix").mean_free_path
        for program in (*POOR_LOCALITY, "ijpeg-like")
    }
    if any(not 0.375 <= paths[program] / 40_000 <= 0.625 for program in POOR_LOCALITY):
        said = ", ".join(f"{program} {path:,.0f}" for program, path in paths.items())
        yield (
            "one interrupt more in 40,000 instructions is half as many again where the TLB misses "
            f"every 20,000; the paths in ULTRIX are {said}"
        )
