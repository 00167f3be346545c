"""The claims of the FASS paper, each judged from what was measured by the rule in
`published/rules.csv`.

What explains a difference is told only where the measurements show it.
"""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

from mmulab.machine import Machine
from mmulab.papers import ABOUT, Claim, Published, about, fass_linux, linux

KERNELS = {
    "standard, C": ("flush", "general"),
    "fast, C": ("fass", "general"),
    "standard, assembly": ("flush", "fast"),
    "fast, assembly": ("fass", "fast"),
}
"""Scheme and path of the kernels that are compared, each with its like."""
CLIENTS = [1, 2, 4, 6, 8, 10, 12, 14, 15, 16, 17, 18, 20, 24, 28, 32, 36, 40]
PAGES = [1, 4, 8, 10, 12, 14, 16, 20, 24, 28, 30, 32, 40, 48, 64]
RING = [2, 4, 6, 8, 10, 13, 14, 16, 20]
KILOBYTES = [0, 1, 4, 16]
FOOTPRINTS = [1, 32, 64, 80, 96]
"""Lines that each side of a ping-pong touches besides, to see what a larger kernel would cost."""
NEAR_THE_LIMIT = [13, 14, 15]
"""Processes of `extreme` around the number of domains: with the parent and the region, 15 to 17."""
NEAR_THE_LIMIT_PAGES = [16, 20, 24, 28]
STORM_GROUPS = [1, 4, 10]
DTLB_ENTRIES = int(str(Machine.load("sa1100").get("dtlb.entries")))
CONSTANT = 0.05

Row = dict[str, Any]
"""One measured point."""


@dataclasses.dataclass(frozen=True)
class Measured:
    """Everything that the claims are judged by."""

    pingpong: dict[tuple[str, int], Row]
    """By kernel and clients."""
    footprint: dict[tuple[str, int], Row]
    """By kernel and lines touched besides."""
    extreme: dict[tuple[int, int, str], Row]
    """By processes, pages and kind of mapping."""
    near: dict[tuple[int, int, str], Row]
    """The same around the number of domains."""
    ring: dict[tuple[str, str, int, int], Row]
    """By scheme, place of the arrays, processes and kilobytes."""
    storm: dict[tuple[str, int], Row]
    """By scheme and groups of 40 processes."""
    flush: dict[str, float]
    """Cycles by what was done."""

    def us(self, kernel: str, clients: int) -> float:
        """Microseconds of a round trip."""
        return self.pingpong[kernel, clients]["us"]

    @property
    def assembly(self) -> str:
        """What the fast kernel's path in assembly is compared with, as measured."""
        if self.us("standard, assembly", 1) < 0.98 * self.us("standard, C", 1):
            return "assembly against assembly"
        return "assembly against C, as the flushing kernel has no other path"

    def visit(self, processes: int, pages: int, mapping: str) -> float:
        """Cycles of a visit in `extreme`."""
        return self.extreme[processes, pages, mapping]["cycles"]

    def hop(self, scheme: str, processes: int, kilobytes: int = 0) -> float:
        """Cycles of a switch in the ring, less the sum alone; arrays below 32 MB."""
        return self.ring[scheme, "low", processes, kilobytes]["switch_cycles"]


def judge(
    measured: Measured, claims: dict[str, Published], linux_rows: linux.Rows | None = None
) -> list[Claim]:
    """Every claim, in the paper's order; without Linux what the microkernel says of its claims."""
    return [
        *(fass_linux.judge(linux_rows, claims) if linux_rows else on_linux(measured, claims)),
        *on_the_microkernel(measured, claims),
    ]


def on_the_microkernel(measured: Measured, claims: dict[str, Published]) -> list[Claim]:
    """The claims of the paper's L4 half, and on the processor."""
    return [
        private_mappings(measured, claims["fass03-07"]),
        shared_mappings(measured, claims["fass03-08"]),
        largest_ratios(measured, claims["fass03-09"]),
        standard_round_trip(measured, claims["fass03-10"]),
        fast_round_trip(measured, claims["fass03-11"]),
        knee(measured, claims["fass03-12"]),
        optimised_round_trip(measured, claims["fass03-13"]),
        flush_cost(measured, claims["fass03-14"]),
        where_it_loses(measured, claims["fass03-15"]),
    ]


def on_linux(measured: Measured, claims: dict[str, Published]) -> list[Claim]:
    """What the ring says of the claims on lat_ctx, without a verdict."""
    hop = measured.hop
    beyond = max(hop("fass", n) / hop("flush", n) for n in RING if n > 15)
    saved = [hop("flush", 4, k) - hop("fass", 4, k) for k in KILOBYTES]
    gains = [1 - hop("fass_shared", n) / hop("fass", n) for n in RING]
    ring = f"ring of messages on the microkernel, {measured.assembly}"
    ours = {
        "fass03-01": "",
        "fass03-02": f"{ring}: {hop('flush', 2) / hop('fass', 2):.0f} times with 2 processes",
        "fass03-03": f"{ring}: {hop('flush', 13) / hop('fass', 13):.0f} times with 13 processes; one "
        "of 16 domains serves the kernel, and recycling sets in after 15",
        "fass03-04": f"{ring}: fast / flush at most {beyond:.2f} beyond 15",
        "fass03-05": f"{ring}, flush - fast with 4 processes and 0, 1, 4, 16 KB: "
        + ", ".join(f"{difference:,.0f}" for difference in saved)
        + " cycles",
        "fass03-06": f"{ring}, which shares no library code: at most {max(gains):.1%}",
    }
    return [claims[name].not_evaluated(linux.BUILD, text) for name, text in ours.items()]


def private_mappings(measured: Measured, claim: Published) -> Claim:
    """Figure 4: where the private curve leaves its floor."""
    floor = 1.5 * measured.visit(2, 1, "private")
    last = 0
    for pages in PAGES:
        if measured.visit(2, pages, "private") > floor:
            break
        last = pages
    rise = measured.visit(2, 20, "private") / measured.visit(2, 10, "private")
    misses = {pages: measured.extreme[2, pages, "private"]["dtlb"] for pages in PAGES}
    fit = max(pages for pages in PAGES if misses[pages] < 0.5)
    missed = min((pages for pages in PAGES if pages > fit), default=fit)
    return claim.judge(
        about(last, 10) and rise >= 2,
        f"with 2 processes up to {last} pages cost at most 1.5 times one; 20 pages cost {rise:.1f} "
        "times 10",
        f"a visit misses {misses[fit]:.2f} translations with {fit} pages and {misses[missed]:.1f} "
        f"with {missed}: both working sets fit in the {DTLB_ENTRIES} entries as long as everything "
        f"else needs at most {DTLB_ENTRIES - 2 * fit}; here that is the kernel's one section. A rise "
        f"past 10 needs {DTLB_ENTRIES - 20} entries in use elsewhere",
    )


def shared_mappings(measured: Measured, claim: Published) -> Claim:
    """Figure 4: where the shared curve leaves its floor, and meets the other."""
    misses = {pages: measured.extreme[2, pages, "shared"]["dtlb"] for pages in PAGES}
    flat = max(misses[pages] for pages in PAGES if pages <= 20)
    past = max(misses[pages] for pages in PAGES if 24 <= pages <= 32)
    private, shared = (measured.extreme[2, 32, mapping] for mapping in ("private", "shared"))
    at_32 = private["cycles"] / shared["cycles"]
    causes = []
    if not flat < 0.5 <= past:
        causes.append("what is shared fills the 32 entries elsewhere, by the misses that are told")
    if abs(at_32 - 1) > CONSTANT:
        causes.append(
            f"with 32 pages a visit misses {private['dtlb']:.1f} translations if they are private and "
            f"{shared['dtlb']:.1f} if they are shared, and {private['dcache']:.1f} and "
            f"{shared['dcache']:.1f} lines of the data cache, in one set of 32 ways of which lie the bytes "
            "that are read"
        )
    return claim.judge(
        flat < 0.5 <= past and abs(at_32 - 1) <= CONSTANT,
        f"2 processes, shared: at most {flat:.2f} DTLB misses a visit up to 20 pages, "
        f"{past:.1f} between 24 and 32; {measured.visit(2, 1, 'shared'):.0f} cycles at 1 page, "
        f"{measured.visit(2, 20, 'shared'):.0f} at 20; private / shared at 32 pages {at_32:.2f}",
        "; ".join(causes),
    )


def largest_ratios(measured: Measured, claim: Published) -> Claim:
    """Figure 4: how far the curves are apart."""

    def ratio(rows: dict[tuple[int, int, str], Row], processes: int, pages: int) -> float:
        return (
            rows[processes, pages, "private"]["cycles"] / rows[processes, pages, "shared"]["cycles"]
        )

    best = {n: max((ratio(measured.extreme, n, p), p) for p in PAGES) for n in (2, 4, 16)}
    said = "; ".join(f"{n} processes: {value:.1f} at {p} pages" for n, (value, p) in best.items())
    around = ", ".join(
        f"{max(ratio(measured.near, n, p) for p in NEAR_THE_LIMIT_PAGES):.1f} with {n}"
        for n in NEAR_THE_LIMIT
    )
    row = measured.extreme[16, best[16][1], "shared"]
    recycled = row["recycled_dirty"] + row["recycled_clean"]
    causes = []
    if recycled:
        causes.append(
            "with 16, both kinds of mapping pay for recycling, which hides the TLB: 16 children, the "
            "parent and the region are 18 holders of 15 domains, and domains are recycled "
            f"{recycled:,} times"
        )
    causes.append(f"around that limit the largest ratio is {around} processes")
    return claim.judge(about(best[2][0], 9) and about(best[16][0], 3.7), said, "; ".join(causes))


def standard_round_trip(measured: Measured, claim: Published) -> Claim:
    """Figure 5, the upper line, C."""
    times = [measured.us("standard, C", clients) for clients in CLIENTS]
    one = measured.pingpong["standard, C", 1]
    cold = (one["icache"] + one["dcache"] - 512) / 2  # less the 256 lines that each flush loads
    nearest = min(
        FOOTPRINTS, key=lambda lines: abs(measured.footprint["standard, C", lines]["us"] - 135)
    )
    larger, faster = (
        measured.footprint[kernel, nearest]["us"] for kernel in ("standard, C", "fast, C")
    )
    causes = []
    if max(times) / min(times) > 1 + CONSTANT:
        causes.append("it is not flat")
    if times[0] < 135 * (1 - ABOUT):
        causes.append(
            f"less is refilled: {cold:.0f} lines and {(one['itlb'] + one['dtlb']) / 2:.0f} "
            f"translations a switch. With {nearest} more lines touched by each side at each turn the "
            f"standard kernel takes {larger:.0f} us and the fast one {faster:.1f}, so that the "
            f"paper's kernel and library touched about {cold + nearest:.0f} lines a switch"
        )
    elif times[0] > 135 * (1 + ABOUT):
        causes.append(f"more is refilled: {cold:.0f} lines a switch")
    return claim.judge(
        about(times[0], 135) and max(times) / min(times) <= 1 + CONSTANT,
        f"C: {min(times):.1f} to {max(times):.1f} us; by its fastest "
        f"path {measured.us('standard, assembly', 1):.1f} us with 1 client",
        "; ".join(causes),
    )


def fast_round_trip(measured: Measured, claim: Published) -> Claim:
    """Figure 5, the lower line, C against C."""

    def gains(path: str) -> list[float]:
        return [
            measured.us(f"standard, {path}", clients) / measured.us(f"fast, {path}", clients)
            for clients in (1, 14)
        ]

    least = min(measured.us("fast, C", clients) for clients in CLIENTS)
    with_14 = measured.us("fast, C", 14)
    first, last = gains("C")
    one = measured.pingpong["fast, C", 1]
    causes = []
    if least < 10 * (1 - ABOUT):
        causes.append(
            f"the path in C has {one['instructions']:.0f} instructions a round trip and misses "
            f'{one["icache"] + one["dcache"]:.1f} lines; the paper calls its own 10 us "very high" '
            "and expected less than 5 of C"
        )
    if with_14 < least * 1.1:
        causes.append(
            f"it does not rise to 14 clients, as {measured.pingpong['fast, C', 14]['icache']:.1f} + "
            f"{measured.pingpong['fast, C', 14]['dcache']:.1f} lines and "
            f"{measured.pingpong['fast, C', 14]['dtlb']:.1f} data translations are missed: there is "
            "little competition for them"
        )
    if least > 10 * (1 + ABOUT) or with_14 > 12 * (1 + ABOUT):
        causes.append(f"the path is longer: {one['instructions']:.0f} instructions a round trip")
    if not (about(first, 13) and about(last, 11)):
        causes.append(f"the gains are over a standard of {measured.us('standard, C', 1):.0f} us")
    assembly = gains("assembly")
    return claim.judge(
        about(least, 10) and about(with_14, 12) and about(first, 13) and about(last, 11),
        f"C against C: {least:.2f} us minimum, {with_14:.2f} us with 14 clients, gains {first:.1f} "
        f"and {last:.1f} times; {measured.assembly}: {measured.us('fast, assembly', 1):.2f} and "
        f"{measured.us('fast, assembly', 14):.2f} us, gains {assembly[0]:.1f} and {assembly[1]:.1f}",
        "; ".join(causes),
    )


def knee(measured: Measured, claim: Published) -> Claim:
    """Figure 5, where domains run out, C against C."""

    def us(clients: int) -> float:
        return measured.us("fast, C", clients)

    rises = {
        after: (us(after) - us(before)) / (after - before) for before, after in pairwise(CLIENTS)
    }
    usual = 3 * max((us(14) - us(1)) / 13, us(1) / 100)
    early = max(rise for clients, rise in rises.items() if clients <= 14)
    first, last = (us(20) - us(15)) / 5, (us(40) - us(32)) / 8
    worst, worst_assembly = (
        min(
            measured.us(f"standard, {path}", clients) / measured.us(f"fast, {path}", clients)
            for clients in CLIENTS
        )
        for path in ("C", "assembly")
    )
    causes = []
    if early > usual:
        causes.append(f"it rises by {early:.2f} us a client before 15")
    if rises[15] <= usual:
        causes.append(f"it rises by {rises[15]:.2f} us only at 15")
    if last >= first:
        causes.append("the rise does not slow")
    if worst < 2:
        causes.append("where domains run out a recycled one costs nearly as much as a flush")
    return claim.judge(
        early <= usual < rises[15] and last < first and worst >= 2,
        f"C: {us(14):.2f} us with 14 clients, {us(15):.2f} with 15, {us(20):.2f} with 20, "
        f"{us(40):.2f} with 40; the rise slows from {first:.2f} to {last:.2f} us a client; at least "
        f"{worst:.1f} times faster than standard ({measured.assembly} {worst_assembly:.1f})",
        "; ".join(causes),
    )


def optimised_round_trip(measured: Measured, claim: Published) -> Claim:
    """Section 4.2: the paper's estimate for a path in assembly."""
    point = measured.pingpong["fast, assembly", 1]
    missed = point["icache"] + point["dcache"] + point["itlb"] + point["dtlb"]
    return claim.judge(
        about(point["us"], 2),
        f"{point['us']:.2f} us, {point['cycles']:.0f} cycles",
        f"a round trip has {point['instructions']:.0f} instructions and misses {missed:.1f} lines and "
        "translations",
    )


def flush_cost(measured: Measured, claim: Published) -> Claim:
    """Section 2: told, not judged."""
    flush = measured.flush
    return claim.not_evaluated(
        "an input: the machine file takes a missed line and a TLB miss from this sentence; the rest "
        "follows from them, 256 lines loaded to clean 8 KB, and 768 lines and 64 entries to refill",
        f"{flush['line-miss']:.1f} cycles a missed line and {flush['tlb-miss']:.0f} a TLB miss, as "
        f"entered; direct {flush['whole-clean-of-clean-cache']:,.0f} cycles with a clean data cache, "
        f"{flush['flush-of-everything-direct']:,.0f} with a dirty one; everything dirty, flushed and "
        f"refilled {flush['flush-of-everything-with-what-follows']:,.0f}, with "
        f"{flush['lines-in-use-at-the-flush']:.0f} of the 768 lines in use",
    )


def where_it_loses(measured: Measured, claim: Published) -> Claim:
    """Section 5: every case that was measured, assembly against assembly."""
    rings = {
        (array, n, k): (fast, measured.ring["flush", array, n, k])
        for (scheme, array, n, k), fast in measured.ring.items()
        if scheme == "fass"
    }
    others: list[tuple[str, Row, Row]] = []
    for clients in CLIENTS:
        fast, flush = (
            measured.pingpong[f"{one}, assembly", clients] for one in ("fast", "standard")
        )
        others.append((f"ping-pong with {clients} clients", fast, flush))
    for groups in STORM_GROUPS:
        fast, flush = (measured.storm[scheme, groups] for scheme in ("fass", "flush"))
        others.append((f"storm of {40 * groups} processes", fast, flush))
    worse, causes = [], []
    for array, place in (
        ("low", "arrays below 32 MB"),
        ("apart", "arrays in sections of their own"),
        ("same", "arrays at one high address"),
    ):
        cases = [pair for (where, *_), pair in rings.items() if where == array]
        lost = [(fast, flush) for fast, flush in cases if fast["cycles"] > flush["cycles"]]
        if not lost:
            continue
        ratios = [fast["cycles"] / flush["cycles"] - 1 for fast, flush in lost]
        worse.append(
            f"rings with {place}: {len(lost)} of {len(cases)} cases, by {min(ratios):.0%} to "
            f"{max(ratios):.0%}"
        )
        hops = [fast["collisions"] / fast["per"] for fast, _ in lost]
        if min(hops) > 0.9:
            causes.append(
                f"with {place} each hop is a collision: the section belongs to the domain of the "
                "process before, so that a fault and a flush come on top of the switch"
            )
        elif any(fast["recycled_dirty"] for fast, _ in lost):
            causes.append(f"with {place} domains are recycled while they are dirty")
    for name, fast, flush in others:
        if fast["cycles"] > flush["cycles"]:
            worse.append(f"{name}, by {fast['cycles'] / flush['cycles'] - 1:.0%}")
    total = len(rings) + len(others)
    return claim.judge(
        not worse,
        f"none of {total} cases"
        if not worse
        else f"worse in some of {total} cases: {'; '.join(worse)}",
        "; ".join(causes) or "unexplained",
    )
