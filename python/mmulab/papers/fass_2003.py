"""Wiggins, Tuch, Uhlig and Heiser, "Implementation of Fast Address-Space Switching and TLB Sharing on
the StrongARM Processor", ACSAC 2003: domains as address-space tags, on the SA-1100.

The L4 half runs here on the microkernel: ping-pong (figure 5), `extreme` (figure 4), and a token ring
that has the shape of the Linux figures 2 and 3 with messages in place of pipes. What a flush costs on
the processor (section 2) is measured by a program without a kernel.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import pyarrow as pa

import mmulab
from mmulab.errors import InputError
from mmulab.papers import (
    Claim,
    Figure,
    Published,
    Reproduction,
    Run,
    published_claims,
    save_figures,
)
from mmulab.papers.microkernel import GUESTS, Guest, boot, decide

PAPER = "fass_2003"
TITLE = "Fast address-space switching on the StrongARM (Wiggins et al., 2003)"
MACHINE = "sa1100"
CLIENTS = [1, 2, 4, 6, 8, 10, 12, 14, 15, 16, 17, 18, 20, 24, 28, 32, 36, 40]
PAGES = [1, 4, 8, 10, 12, 14, 16, 20, 24, 28, 30, 32, 40, 48, 64]
RING = [2, 4, 6, 8, 10, 13, 14, 16, 20]
KILOBYTES = [0, 1, 4, 16]
FOOTPRINTS = [1, 32, 64, 80, 96]
"""Lines that each side of a ping-pong touches besides, to see what a larger kernel would cost."""
NEAR_THE_LIMIT = [13, 14, 15]
"""Processes of `extreme` around the number of domains: with the parent and the region, 15 to 17."""
LINUX = "the paper measured Linux here, and the Linux guest has no fast address-space switching yet"


def reproduce(run: Run) -> Reproduction:
    """Boots the kernel for every point of the figures, and judges."""
    rounds = 100_000 if run.full else 10_000
    pingpong = run_pingpong(run, rounds)
    extreme = run_extreme(run, 500 if run.full else 100)
    footprint = run_footprint(run, rounds // 5)
    near = run_near_the_limit(run, 500 if run.full else 100)
    flush = run_flush_cost(run)
    ring = run_ring(run, 500 if run.full else 50)
    figures = [figure_4(extreme), figure_5(pingpong), figure_2(ring)]
    save_figures(figures, run.folder / "figures")
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        claims=judge(pingpong, extreme, ring, footprint, near, flush),
        figures=figures,
        tables={
            "pingpong": pa.Table.from_pylist(list(pingpong.values())),
            "extreme": pa.Table.from_pylist(list(extreme.values())),
            "extreme-around-15-domains": pa.Table.from_pylist(list(near.values())),
            "pingpong-footprint": pa.Table.from_pylist(list(footprint.values())),
            "flush-cost": pa.Table.from_pylist(
                [{"what": what, "cycles": round(cycles, 1)} for what, cycles in flush.items()]
            ),
            "ring": pa.Table.from_pylist(list(ring.values())),
        },
        notes=(
            f"The microkernel on {MACHINE} as its machine file says, under each scheme; "
            f"{rounds:,} ping-pongs a point. Our kernel is smaller than L4Ka::Pistachio and its "
            "message path is assembly, so its indirect costs are lower: the tables have lines and "
            "translations missed for each round trip."
        ),
    )


def row(guest: Guest, **labels: object) -> dict[str, Any]:
    """One measured point: its labels, its cost, what it missed and what the scheme did."""
    counts = {
        key: guest.lap[key]
        for key in ("flushes", "tlb_flushes", "collisions", "recycled_dirty", "recycled_clean")
    }
    misses = {key: round(guest.per(key), 3) for key in ("itlb", "dtlb", "icache", "dcache")}
    cost = {
        "cycles": round(guest.cycles, 1),
        "us": round(guest.microseconds, 3),
        "instructions": round(guest.per("instructions"), 1),
    }
    return {**labels, **cost, **misses, **counts}


def run_pingpong(run: Run, rounds: int) -> dict[tuple[str, int], dict[str, Any]]:
    """Round trips by scheme and number of clients; `general` is FASS without the fast path."""
    points = {}
    for kernel, scheme, path in (
        ("standard", "flush", "fast"),
        ("fast", "fass", "fast"),
        ("fast, C path", "fass", "general"),
    ):
        for clients in CLIENTS:
            run.progress(f"ping-pong, {kernel}, {clients} clients")
            guest = boot(
                MACHINE,
                scheme,
                "pingpong",
                clients=clients,
                rounds=rounds,
                seed=run.seed,
                path=path,
            )
            points[kernel, clients] = row(guest, kernel=kernel, clients=clients)
    return points


def run_footprint(run: Run, rounds: int) -> dict[tuple[str, int], dict[str, Any]]:
    """Round trips of two processes that touch lines of their own at every turn."""
    points = {}
    for kernel, scheme in (("standard", "flush"), ("fast", "fass")):
        for lines in FOOTPRINTS:
            run.progress(f"ping-pong, {kernel}, {lines} lines")
            guest = boot(MACHINE, scheme, "pingpong", rounds=rounds, lines=lines)
            points[kernel, lines] = row(guest, kernel=kernel, lines=lines)
    return points


def visit(run: Run, processes: int, pages: int, mapping: str, laps: int) -> dict[str, Any]:
    """One run of `extreme`."""
    run.progress(f"extreme, {processes} processes, {pages} pages, {mapping}")
    guest = boot(
        MACHINE,
        "fass_shared",
        "extreme",
        processes=processes,
        pages=pages,
        mapping=mapping,
        laps=laps,
    )
    return row(guest, processes=processes, pages=pages, mapping=mapping)


def run_extreme(run: Run, laps: int) -> dict[tuple[int, int, str], dict[str, Any]]:
    """Cost of a visit by processes, pages and kind of mapping."""
    return {
        (processes, pages, mapping): visit(run, processes, pages, mapping, laps)
        for processes in (2, 4, 16)
        for mapping in ("private", "shared")
        for pages in PAGES
    }


def run_near_the_limit(run: Run, laps: int) -> dict[tuple[int, int, str], dict[str, Any]]:
    """The same where domains run out."""
    return {
        (processes, pages, mapping): visit(run, processes, pages, mapping, laps)
        for processes in NEAR_THE_LIMIT
        for mapping in ("private", "shared")
        for pages in (16, 20, 24, 28)
    }


def run_flush_cost(run: Run) -> dict[str, float]:
    """Cycles for one, as the timing program measures them without a kernel."""
    run.progress("flush cost")
    image = GUESTS / f"timing-{MACHINE}.elf"
    if not image.exists():
        raise InputError(f"{image} is missing; type: make guests")
    lines = [line.split() for line in mmulab.boot(image, MACHINE).console.splitlines()]
    return {name: int(cycles) / int(count) for name, cycles, count in lines}


def run_ring(run: Run, rounds: int) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Cost of passing the token, less the sum alone, by scheme, processes and kilobytes."""
    points = {}
    for scheme in ("flush", "fass", "fass_shared"):
        for kilobytes in KILOBYTES:
            for processes in RING:
                run.progress(f"ring, {scheme}, {kilobytes} KB, {processes} processes")
                guest = boot(
                    MACHINE, scheme, "ring", processes=processes, kilobytes=kilobytes, rounds=rounds
                )
                point = row(guest, scheme=scheme, processes=processes, kilobytes=kilobytes)
                point["switch_cycles"] = round(guest.cycles - guest.lap["work"], 1)
                points[scheme, processes, kilobytes] = point
    return points


def judge(
    pingpong: dict, extreme: dict, ring: dict, footprint: dict, near: dict, flush: dict[str, float]
) -> list[Claim]:
    """Every claim, in the paper's order."""
    claims = published_claims(PAPER)

    def hop(scheme: str, processes: int, kilobytes: int = 0) -> float:
        return ring[scheme, processes, kilobytes]["switch_cycles"]

    def ratio(processes: int) -> float:
        return hop("flush", processes) / hop("fass", processes)

    beyond = max(hop("fass", n) / hop("flush", n) for n in RING if n > 15)
    saved = [hop("flush", 4, k) - hop("fass", 4, k) for k in KILOBYTES]
    gains = [1 - hop("fass_shared", n) / hop("fass", n) for n in RING]
    judged = [
        claims["fass03-01"].not_evaluated(LINUX),
        claims["fass03-02"].not_evaluated(
            LINUX, f"ring of messages on the microkernel: {ratio(2):.0f} times with 2 processes"
        ),
        claims["fass03-03"].not_evaluated(
            LINUX,
            f"ring of messages on the microkernel: {ratio(13):.0f} times with 13 processes; one "
            "of 16 domains serves the kernel, and recycling sets in after 15",
        ),
        claims["fass03-04"].not_evaluated(
            LINUX,
            f"ring of messages on the microkernel: fast / flush at most {beyond:.2f} beyond 15",
        ),
        claims["fass03-05"].not_evaluated(
            LINUX,
            "ring of messages on the microkernel, flush - fast with 4 processes and 0, 1, 4, 16 "
            "KB: " + ", ".join(f"{difference:,.0f}" for difference in saved) + " cycles",
        ),
        claims["fass03-06"].not_evaluated(
            LINUX,
            "ring of messages on the microkernel, which shares no library code: at most "
            f"{max(gains):.1%}",
        ),
        *judge_extreme(claims, extreme, near),
        *judge_pingpong(claims, pingpong, footprint),
        judge_flush_cost(claims["fass03-14"], flush),
    ]
    worse = [
        f"ring {n} x {k} KB"
        for n in RING
        for k in KILOBYTES
        if ring["fass", n, k]["cycles"] > ring["flush", n, k]["cycles"]
    ] + [
        f"ping-pong with {clients} clients"
        for clients in CLIENTS
        if pingpong["fast", clients]["cycles"] > pingpong["standard", clients]["cycles"]
    ]
    cases = len(RING) * len(KILOBYTES) + len(CLIENTS)
    judged.append(
        decide(
            claims["fass03-15"],
            not worse,
            f"none of {cases} cases" if not worse else f"worse: {', '.join(worse)}",
            "a domain is recycled at every switch and the work is long",
        )
    )
    return judged


def judge_flush_cost(claim: Published, flush: dict[str, float]) -> Claim:
    """Section 2."""
    line, translation = flush["line-miss"], flush["tlb-miss"]
    clean, dirty = flush["whole-clean-of-clean-cache"], flush["flush-of-everything-direct"]
    worst, used = (
        flush["flush-of-everything-with-what-follows"],
        flush["lines-in-use-at-the-flush"],
    )
    return decide(
        claim,
        abs(line - 70) < 7
        and abs(translation - 45) < 4.5
        and abs(clean / 1000 - 1) < 0.2
        and abs(dirty / 18000 - 1) < 0.2
        and abs(worst / 75000 - 1) < 0.2,
        f"direct {clean:,.0f} cycles with a clean data cache, {dirty:,.0f} with a dirty one; "
        f"{line:.1f} cycles a missed line, which is the machine file's value, {translation:.0f} a "
        f"TLB miss; everything dirty, flushed and refilled {worst:,.0f} cycles, with {used:.0f} of "
        "the 768 lines in use; each within a fifth of the paper's",
        "see the numbers",
    )


def judge_extreme(claims: dict, extreme: dict, near: dict) -> list[Claim]:
    """Figure 4."""

    def cost(processes: int, pages: int, mapping: str) -> float:
        return extreme[processes, pages, mapping]["cycles"]

    knee = next(n for n in PAGES if cost(2, n, "private") > 1.5 * cost(2, 1, "private"))
    rise = cost(2, 20, "private") / cost(2, 10, "private")
    flat = extreme[2, 20, "shared"]["dtlb"] < 0.5
    at_32 = cost(2, 32, "private") / cost(2, 32, "shared")
    best = {
        n: max((cost(n, p, "private") / cost(n, p, "shared"), p) for p in PAGES) for n in (2, 4, 16)
    }
    said = "; ".join(f"{n} processes: {ratio:.1f} at {p} pages" for n, (ratio, p) in best.items())
    around = ", ".join(
        f"{max(near[n, p, 'private']['cycles'] / near[n, p, 'shared']['cycles'] for p in pages):.1f}"
        f" with {n}"
        for pages in [sorted({p for _, p, _ in near})]
        for n in NEAR_THE_LIMIT
    )
    return [
        decide(
            claims["fass03-07"],
            8 <= knee <= 16 and rise > 2,
            f"with 2 processes the first point above 1.5 times is {knee} pages; "
            f"20 pages cost {rise:.1f} times 10 pages",
            "two working sets and the kernel fill the 32 entries elsewhere",
        ),
        decide(
            claims["fass03-08"],
            flat and abs(at_32 - 1) < 0.05,
            f"2 processes, shared: {cost(2, 1, 'shared'):.0f} cycles at 1 page, "
            f"{cost(2, 20, 'shared'):.0f} at 20 with {extreme[2, 20, 'shared']['dtlb']:.2f} DTLB "
            f"misses a visit; private / shared at 32 pages {at_32:.2f}",
            "the entries that are shared do not fit",
        ),
        decide(
            claims["fass03-09"],
            abs(best[2][0] - 9) < 2 and abs(best[16][0] - 3.7) < 1,
            said,
            "2 processes agree; with 16, both kinds of mapping pay for recycling at nearly every "
            "switch, which hides the TLB: 16 children, the parent and the region are 18 holders of "
            f"15 domains. Around that limit the largest ratio is {around} processes. The paper's "
            "Linux had 13 domains, but it does not say how often its children were without one.",
        ),
    ]


def judge_pingpong(claims: dict, points: dict, footprint: dict) -> list[Claim]:
    """Figure 5."""

    def us(kernel: str, clients: int) -> float:
        return points[kernel, clients]["us"]

    def gain(clients: int) -> float:
        return us("standard", clients) / us("fast", clients)

    standard = [us("standard", clients) for clients in CLIENTS]
    spread = max(standard) / min(standard) - 1
    one = points["standard", 1]
    cold = (one["icache"] + one["dcache"] - 512) / 2
    nearest = min(FOOTPRINTS, key=lambda lines: abs(footprint["standard", lines]["us"] - 135))
    least = min(us("fast", clients) for clients in CLIENTS)
    early = us("fast", 15) - us("fast", 14)
    first, last = (us("fast", 20) - us("fast", 15)) / 5, (us("fast", 40) - us("fast", 32)) / 8
    worst = min(gain(clients) for clients in CLIENTS)
    return [
        decide(
            claims["fass03-10"],
            spread < 0.05 and abs(standard[0] / 135 - 1) < 0.25,
            f"{min(standard):.1f} to {max(standard):.1f} us, {spread:.1%} apart",
            f"flat as the paper's, but lower, because less is refilled: {cold:.0f} lines and "
            f"{(one['itlb'] + one['dtlb']) / 2:.0f} translations a switch. With {nearest} more "
            "lines touched by each side at each turn the standard kernel takes "
            f"{footprint['standard', nearest]['us']:.0f} us and the fast one "
            f"{footprint['fast', nearest]['us']:.1f}, so that the paper's kernel and library "
            f"touched about {cold + nearest:.0f} lines a switch",
        ),
        decide(
            claims["fass03-11"],
            least <= 10 and us("fast", 14) <= 12 and gain(1) > 13 and gain(14) > 11,
            f"{least:.2f} us minimum, {us('fast', 14):.2f} us with 14 clients; gains "
            f"{gain(1):.0f} and {gain(14):.0f} times; C path instead of assembly "
            f"{us('fast, C path', 1):.2f} and {us('fast, C path', 14):.2f} us",
            "the path is longer",
        ),
        decide(
            claims["fass03-12"],
            early > 3 * (us("fast", 14) - us("fast", 1)) and last < first and worst > 1.5,
            f"{us('fast', 14):.2f} us with 14 clients, {us('fast', 15):.2f} with 15, "
            f"{us('fast', 20):.2f} with 20, {us('fast', 40):.2f} with 40; the rise slows from "
            f"{first:.2f} to {last:.2f} us a client; never less than {worst:.1f} times faster than "
            "standard",
            "the knee is elsewhere",
        ),
        decide(
            claims["fass03-13"],
            us("fast", 1) <= 2,
            f"{us('fast', 1):.2f} us, {points['fast', 1]['cycles']:.0f} cycles",
            "the assembly path is too long",
        ),
    ]


def lines(rows: list[dict[str, Any]], x: str, y: str, colour: str, titles: tuple[str, str]):
    """A line chart of rows, costs on a logarithmic scale that fits them."""
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_line(point=alt.OverlayMarkDef(size=14), strokeWidth=1.2)
        .encode(
            x=alt.X(f"{x}:Q", title=titles[0]),
            y=alt.Y(f"{y}:Q", title=titles[1], scale=alt.Scale(type="log", nice=False, padding=8)),
            color=alt.Color(f"{colour}:N", title=None),
        )
    )


def figure_5(points: dict) -> Figure:
    """Round trips over clients, with what the paper says of its own as points."""
    rows = list(points.values())
    for kernel, clients, value in (
        ("paper, standard", 1, 135),
        ("paper, standard", 40, 135),
        ("paper, fast", 1, 10),
        ("paper, fast", 14, 12),
    ):
        rows.append({"kernel": kernel, "clients": clients, "us": value})
    return Figure(
        "figure-05",
        "L4 round trip over the number of clients, 200 MHz",
        "Standard flat at 135 us; fast from 10 us to 12 us with 14 clients, rising faster from 15 "
        "on and then more slowly.",
        lines(rows, "clients", "us", "kernel", ("clients", "microseconds a round trip")).properties(
            width=480, height=280
        ),
    )


def figure_4(points: dict) -> Figure:
    """The extreme benchmark."""
    return Figure(
        "figure-04",
        "extreme: cycles a visit over pages touched, private against shared mappings",
        "Private mappings rise from about 10 pages, shared ones from about 20; equal from 32; "
        "apart by up to 9 times with 2 processes.",
        lines(list(points.values()), "pages", "cycles", "mapping", ("pages", "cycles a visit"))
        .properties(width=220, height=220)
        .facet(column=alt.Column("processes:O", title="processes")),
    )


def figure_2(points: dict) -> Figure:
    """The token ring."""
    return Figure(
        "figures-02-03",
        "Token ring: cycles of a switch over processes (the sum alone subtracted)",
        "The paper's are Linux pipes: 57 times apart with 2 processes and no memory touched; "
        "recycling sets in when domains run out.",
        lines(
            list(points.values()),
            "processes",
            "switch_cycles",
            "scheme",
            ("processes", "cycles a switch"),
        )
        .properties(width=170, height=220)
        .facet(column=alt.Column("kilobytes:O", title="KB touched between messages")),
    )
