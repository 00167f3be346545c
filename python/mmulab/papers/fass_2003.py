"""Wiggins, Tuch, Uhlig and Heiser, "Implementation of Fast Address-Space Switching and TLB Sharing
on the StrongARM Processor", ACSAC 2003: domains as address-space tags, on the SA-1100.

The Linux half runs on Linux 6.12 with FASS where it is built (`fass_linux`). The L4 half runs here
on the microkernel: ping-pong (figure 5), `extreme` (figure 4), and a token ring that has the shape
of the Linux figures 2 and 3 with messages in place of pipes. What a flush costs on the processor
(section 2) is measured by a program without a kernel. The claims are judged in `fass_claims`.
"""

from __future__ import annotations

from typing import Any

import altair as alt

import mmulab
from mmulab import arrow as pa
from mmulab import guests
from mmulab.papers import (
    Figure,
    Reproduction,
    Run,
    fass_linux,
    linux,
    published_claims,
    save_figures,
)
from mmulab.papers.fass_claims import (
    CLIENTS,
    FOOTPRINTS,
    KERNELS,
    KILOBYTES,
    NEAR_THE_LIMIT,
    NEAR_THE_LIMIT_PAGES,
    PAGES,
    RING,
    STORM_GROUPS,
    Measured,
    Row,
    judge,
    on_the_microkernel,
)
from mmulab.papers.guesses import over_guesses
from mmulab.papers.microkernel import ARCHITECTURES, Guest, boot
from mmulab.provenance import inputs_provenance

PAPER = "fass_2003"
TITLE = "Fast address-space switching on the StrongARM (Wiggins et al., 2003)"
MACHINE = "sa1100"
BYTES = range(0, 256, 32)
"""Places in a page of the byte that `extreme` reads: one for each set of the data cache, 8 KB of 32
ways."""


def missing_packages(run: Run) -> set[str]:
    """Debian packages that have to be installed first."""
    return guests.missing_packages()


def reproduce(run: Run) -> Reproduction:
    """Boots the kernel for every point of the figures, and judges."""
    measured = measure(run)
    on_linux = fass_linux.run_linux(run)
    published = published_claims(PAPER)
    claims = judge(measured, published, on_linux)
    tables = {}
    if run.guesses:
        claims, tables["guesses"] = over_guesses(
            run, [MACHINE], claims, lambda changed: on_the_microkernel(measure(changed), published)
        )
    figures = [figure_4(measured.extreme), figure_5(measured.pingpong), figure_2(measured.ring)]
    save_figures(figures, run.folder / "figures")
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        claims=claims,
        figures=figures,
        tables={
            **tables,
            **({"linux": pa.Table.from_pylist(on_linux)} if on_linux else {}),
            "pingpong": table(measured.pingpong),
            "extreme": table(measured.extreme),
            "extreme-around-15-domains": table(measured.near),
            "pingpong-footprint": table(measured.footprint),
            "ring": table(measured.ring),
            "storm": table(measured.storm),
            "flush-cost": pa.Table.from_pylist(
                [
                    {"what": what, "cycles": round(cycles, 1)}
                    for what, cycles in measured.flush.items()
                ]
            ),
        },
        provenance={
            **inputs_provenance(
                [MACHINE],
                [
                    *map(
                        guests.image, [f"microkernel-{ARCHITECTURES[MACHINE]}", f"timing-{MACHINE}"]
                    ),
                    *linux.inputs(),
                ],
            ),
            "full": run.full,
        },
        notes=(
            "Claims on Linux are judged on Linux 6.12 where it is built with address spaces, the others on "
            f"the microkernel on {MACHINE} as its machine file says, under each scheme; "
            f"{pingpongs(run):,} ping-pongs a point. The paper's kernels were in C++, so its figures are "
            "compared with both kernels' path in C; its estimate for assembly, and whether the scheme "
            "ever loses, with both kernels' path in assembly. Our kernel is smaller than "
            "L4Ka::Pistachio, so its indirect costs are lower: the tables have lines and translations "
            "missed for each round trip."
        ),
    )


def pingpongs(run: Run) -> int:
    """Round trips a point of figure 5."""
    return 100_000 if run.full else 10_000


def measure(run: Run) -> Measured:
    """Every point of the figures that the microkernel runs for."""
    rounds = pingpongs(run)
    laps = 500 if run.full else 100
    return Measured(
        pingpong=run_pingpong(run, rounds),
        footprint=run_footprint(run, rounds // 5),
        extreme=run_extreme(run, laps),
        near=run_near_the_limit(run, laps),
        ring=run_ring(run, 500 if run.full else 50),
        storm=run_storm(run, 20 if run.full else 2),
        flush=run_flush_cost(run),
    )


def table(points: dict[Any, Row]) -> pa.Table:
    """Measured points as a table."""
    return pa.Table.from_pylist(list(points.values()))


def row(guest: Guest, **labels: object) -> Row:
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
    return {**labels, "per": guest.lap["per"], **cost, **misses, **counts}


def run_pingpong(run: Run, rounds: int) -> dict[tuple[str, int], Row]:
    """Round trips by kernel and path, and number of clients."""
    points = {}
    for kernel, (scheme, path) in KERNELS.items():
        for clients in CLIENTS:
            run.progress(f"ping-pong, {kernel}, {clients} clients")
            guest = boot(
                run.machine(MACHINE),
                scheme,
                "pingpong",
                clients=clients,
                rounds=rounds,
                seed=run.seed,
                path=path,
            )
            points[kernel, clients] = row(guest, kernel=kernel, clients=clients)
    return points


def run_footprint(run: Run, rounds: int) -> dict[tuple[str, int], Row]:
    """Round trips of two processes that touch lines of their own at every turn, by the path in
    C."""
    points = {}
    for kernel in ("standard, C", "fast, C"):
        scheme, path = KERNELS[kernel]
        for lines in FOOTPRINTS:
            run.progress(f"ping-pong, {kernel}, {lines} lines")
            guest = boot(
                run.machine(MACHINE), scheme, "pingpong", rounds=rounds, lines=lines, path=path
            )
            points[kernel, lines] = row(guest, kernel=kernel, lines=lines)
    return points


def visit(run: Run, processes: int, pages: int, mapping: str, laps: int) -> Row:
    """The median run of `extreme` over the place of the byte that is read of each page.

    The paper does not tell the place. All these bytes lie in one set of the data cache, each place
    in another.
    """
    run.progress(f"extreme, {processes} processes, {pages} pages, {mapping}")
    rows = [
        row(
            boot(
                run.machine(MACHINE),
                "fass_shared",
                "extreme",
                processes=processes,
                pages=pages,
                mapping=mapping,
                laps=laps,
                byte=byte,
            ),
            processes=processes,
            pages=pages,
            mapping=mapping,
            byte=byte,
        )
        for byte in BYTES
    ]
    rows.sort(key=lambda row: row["cycles"])
    least, most = rows[0]["cycles"], rows[-1]["cycles"]
    return {**rows[(len(rows) - 1) // 2], "least_cycles": least, "most_cycles": most}


def run_extreme(run: Run, laps: int) -> dict[tuple[int, int, str], Row]:
    """Cost of a visit by processes, pages and kind of mapping."""
    return {
        (processes, pages, mapping): visit(run, processes, pages, mapping, laps)
        for processes in (2, 4, 16)
        for mapping in ("private", "shared")
        for pages in PAGES
    }


def run_near_the_limit(run: Run, laps: int) -> dict[tuple[int, int, str], Row]:
    """The same where domains run out."""
    return {
        (processes, pages, mapping): visit(run, processes, pages, mapping, laps)
        for processes in NEAR_THE_LIMIT
        for mapping in ("private", "shared")
        for pages in NEAR_THE_LIMIT_PAGES
    }


def run_flush_cost(run: Run) -> dict[str, float]:
    """Cycles for one, as the timing program measures them without a kernel."""
    run.progress("flush cost")
    image = guests.image(f"timing-{MACHINE}")
    lines = [line.split() for line in mmulab.boot(image, run.machine(MACHINE)).console.splitlines()]
    return {name: int(cycles) / int(count) for name, cycles, count in lines}


def run_ring(run: Run, rounds: int) -> dict[tuple[str, str, int, int], Row]:
    """Cost of passing the token by scheme, place of the arrays, processes and kilobytes, and less
    the sum alone. TLB sharing is of interest only where nothing is touched, as in figure 3."""
    points = {}
    cases = [
        (scheme, array, processes, kilobytes)
        for array in ("low", "apart", "same")
        for kilobytes in KILOBYTES
        for processes in RING
        for scheme in ("flush", "fass", "fass_shared")
        if (kilobytes or array == "low") and (scheme != "fass_shared" or not kilobytes)
    ]
    for scheme, array, processes, kilobytes in cases:
        run.progress(f"ring, {scheme}, {kilobytes} KB {array}, {processes} processes")
        guest = boot(
            run.machine(MACHINE),
            scheme,
            "ring",
            processes=processes,
            kilobytes=kilobytes,
            rounds=rounds,
            array=array,
        )
        point = row(guest, scheme=scheme, array=array, processes=processes, kilobytes=kilobytes)
        point["switch_cycles"] = round(guest.cycles - guest.lap["work"], 1)
        points[scheme, array, processes, kilobytes] = point
    return points


def run_storm(run: Run, loops: int) -> dict[tuple[str, int], Row]:
    """Cost of a message among groups of 40 processes."""
    points = {}
    for scheme in ("flush", "fass"):
        for groups in STORM_GROUPS:
            run.progress(f"storm, {scheme}, {groups} groups")
            guest = boot(run.machine(MACHINE), scheme, "storm", groups=groups, loops=loops)
            points[scheme, groups] = row(guest, scheme=scheme, groups=groups)
    return points


def lines(rows: list[Row], x: str, y: str, colour: str, titles: tuple[str, str]):
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


def figure_5(points: dict[tuple[str, int], Row]) -> Figure:
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


def figure_4(points: dict[tuple[int, int, str], Row]) -> Figure:
    """The extreme benchmark."""
    return Figure(
        "figure-04",
        "Microkernel, extreme: cycles a visit over pages touched, private against shared mappings",
        "Private mappings rise from about 10 pages, shared ones from about 20; equal from 32; "
        "apart by up to 9 times with 2 processes.",
        lines(list(points.values()), "pages", "cycles", "mapping", ("pages", "cycles a visit"))
        .properties(width=220, height=220)
        .facet(column=alt.Column("processes:O", title="processes")),
    )


def figure_2(points: dict[tuple[str, str, int, int], Row]) -> Figure:
    """The token ring."""
    return Figure(
        "figures-02-03",
        "Microkernel, token ring: cycles of a switch over processes (the sum alone subtracted)",
        "The paper's are Linux pipes: 57 times apart with 2 processes and no memory touched; "
        "recycling sets in when domains run out.",
        lines(
            [point for point in points.values() if point["array"] == "low"],
            "processes",
            "switch_cycles",
            "scheme",
            ("processes", "cycles a switch"),
        )
        .properties(width=170, height=220)
        .facet(column=alt.Column("kilobytes:O", title="KB touched between messages")),
    )
