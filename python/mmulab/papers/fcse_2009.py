"""Chanteperdrix and Cochran, "The ARM Fast Context Switch Extension for Linux", 2009: 32 MB slots
by process ID, guaranteed and best effort, on the IXP425 and the AT91RM9200.

The paper measured Linux. Linux 6.12 with FCSE does so where it is built (`fcse_linux`). The
microkernel always runs the two modes with programs of the same shape: a periodic task under load
(cyclictest), a token ring (lat_ctx), a storm of messages among 400 processes (hackbench). What the
modes allow, refuse and flush (sections 4.1 and 4.2) is judged on it, by a program that brings about
each condition of a flush and its opposite.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import altair as alt

from mmulab import arrow as pa
from mmulab import guests
from mmulab.papers import (
    Claim,
    Figure,
    Published,
    Reproduction,
    Run,
    fcse_linux,
    linux,
    published_claims,
    published_table,
    save_figures,
    wrong_parts,
)
from mmulab.papers.guesses import over_guesses
from mmulab.papers.microkernel import boot
from mmulab.provenance import inputs_provenance

PAPER = "fcse_2009"
TITLE = "The ARM fast context switch extension for Linux (Chanteperdrix and Cochran, 2009)"
KERNELS = {"plain": "flush", "guaranteed": "fcse_guaranteed", "best_effort": "fcse_best_effort"}
RING = [2, 4, 6, 8, 10, 12, 14, 16]
KILOBYTES = [0, 1, 4, 16]


def missing_packages(run: Run) -> set[str]:
    """Debian packages that have to be installed first."""
    return guests.missing_packages()


def reproduce(run: Run) -> Reproduction:
    """Boots the kernel for every point, and judges."""
    periodic = run_periodic(run, 2000 if run.full else 150)
    ring, storm, switches = what_the_modes_do(run)
    on_linux = fcse_linux.run_linux(run)
    claims = judge(periodic, ring, storm, switches, on_linux)
    tables = {}
    if run.guesses:
        claims, tables["guesses"] = over_guesses(
            run,
            ["ixp425", "at91rm9200"],
            claims,
            lambda changed: on_the_microkernel(*what_the_modes_do(changed)),
        )
    figures = [figure_latency(periodic), figure_ring(ring)]
    save_figures(figures, run.folder / "figures")
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        claims=claims,
        figures=figures,
        tables={
            **tables,
            **({"linux": pa.Table.from_pylist(on_linux)} if on_linux else {}),
            "periodic": pa.Table.from_pylist(
                [
                    {key: value for key, value in row.items() if key != "histogram"}
                    for row in periodic.values()
                ]
            ),
            "ring": pa.Table.from_pylist(list(ring.values())),
            "storm": pa.Table.from_pylist(list(storm.values())),
            "switches": pa.Table.from_pylist(
                [
                    {"kernel": name, **switch}
                    for name, found in switches.items()
                    for switch in found.switches
                ]
            ),
        },
        provenance={
            **inputs_provenance(
                ["ixp425", "at91rm9200"],
                [*map(guests.image, ["microkernel-armv4", "microkernel-armv5te"]), *linux.inputs()],
            ),
            "full": run.full,
        },
        notes=(
            "Claims on Linux are judged on Linux 6.12 where it is built with address spaces. Beside it the microkernel on "
            "ixp425 (periodic task, ring, conditions of a flush) and at91rm9200 (storm), as their machine "
            "files say; its paths are far shorter than Linux's, so that absolute times are lower and ratios larger."
        ),
    )


def what_the_modes_do(run: Run) -> tuple[dict, dict, dict[str, Switches]]:
    """The ring, the storm, and the conditions of a flush."""
    return (
        run_ring(run, 300 if run.full else 40),
        run_storm(run, 20 if run.full else 3),
        {name: run_switches(run, name) for name in ("guaranteed", "best_effort")},
    )


def deviation(count: int, total: int, squares: int) -> float:
    """Standard deviation from sums."""
    return math.sqrt(max(0.0, squares / count - (total / count) ** 2))


def run_periodic(run: Run, samples: int) -> dict[tuple[str, int], dict[str, Any]]:
    """Latency and interval of a periodic task under load, by kernel and period."""
    rows = {}
    for name, scheme in KERNELS.items():
        for period in (1000, 500):
            run.progress(f"periodic task, {name}, {period} us")
            guest = boot(run.machine("ixp425"), scheme, "periodic", samples=samples, period=period)
            sums, tick = guest.lines("periodic")[0], guest.clock_hz / 1e6
            count = sums["samples"]
            rows[name, period] = {
                "kernel": name,
                "period_us": period,
                "min_us": round(sums["least"] / tick, 2),
                "avg_us": round(sums["sum"] / count / tick, 2),
                "max_us": round(sums["most"] / tick, 2),
                "stddev_us": round(deviation(count, sums["sum"], sums["squares"]) / tick, 2),
                "interval_stddev_us": round(
                    deviation(count - 1, sums["interval_sum"], sums["interval_squares"]) / tick, 3
                ),
                "histogram": guest.lines("histogram")[0],
            }
    return rows


def run_ring(run: Run, rounds: int) -> dict[tuple[str, int, int], dict[str, Any]]:
    """Switches by kernel, processes and kilobytes, the sum alone subtracted."""
    rows = {}
    for name, scheme in KERNELS.items():
        for kilobytes in KILOBYTES:
            for processes in RING:
                run.progress(f"ring, {name}, {kilobytes} KB, {processes} processes")
                guest = boot(
                    run.machine("ixp425"),
                    scheme,
                    "ring",
                    processes=processes,
                    kilobytes=kilobytes,
                    rounds=rounds,
                )
                cycles = guest.cycles - guest.lap["work"]
                rows[name, processes, kilobytes] = {
                    "kernel": name,
                    "processes": processes,
                    "kilobytes": kilobytes,
                    "us": round(cycles / guest.clock_hz * 1e6, 3),
                    "flushes": guest.lap["flushes"],
                    "hops": guest.lap["per"],
                    "tlb_operations": guest.lap_count("tlb-operation"),
                    "translations_missed": round(guest.per("itlb") + guest.per("dtlb"), 3),
                }
    return rows


@dataclasses.dataclass(frozen=True)
class Switches:
    """What the program of conditions found."""

    spaces: int
    """Spaces that could be had."""
    limits: dict[str, int]
    """Whether a page could be mapped inside the 32 MB, across their end and above."""
    switches: list[dict[str, Any]]
    """By name of the condition: flushes at the switch to a process, within, and at the one from
    it."""

    def flushes(self, name: str) -> list[tuple[int, int]]:
        """Flushes of the switches to and from a process, each time that a condition was met."""
        return [(row["to"], row["from"]) for row in self.switches if row["name"] == name]


def run_switches(run: Run, kernel: str) -> Switches:
    """Brings about each condition of a flush, and its opposite."""
    run.progress(f"conditions of a flush, {kernel}")
    guest = boot(run.machine("ixp425"), KERNELS[kernel], "switches")
    return Switches(
        guest.lines("spaces")[0]["started"], guest.lines("limits")[0], guest.lines("switch")
    )


def run_storm(run: Run, loops: int) -> dict[str, dict[str, Any]]:
    """400 processes in 10 groups; guaranteed mode refuses that many."""
    rows = {}
    for name in ("plain", "best_effort"):
        run.progress(f"storm of messages, {name}")
        guest = boot(run.machine("at91rm9200"), KERNELS[name], "storm", loops=loops)
        rows[name] = {
            "kernel": name,
            "us": round(guest.microseconds, 3),
            "messages": guest.lap["per"],
            "switches": guest.lap["switches"],
            "flushes": guest.lap["flushes"],
        }
    return rows


def judge(
    periodic: dict,
    ring: dict,
    storm: dict,
    switches: dict[str, Switches],
    linux_rows: linux.Rows | None = None,
) -> list[Claim]:
    """Every claim, in the paper's order; without Linux what the microkernel says of its claims."""
    claims = published_claims(PAPER)

    def hops(name: str) -> list[float]:
        return [ring[name, n, k]["us"] for n in RING for k in KILOBYTES]

    latency = "; ".join(
        f"{name} {row['min_us']:.0f}, {row['avg_us']:.0f}, {row['max_us']:.0f}, "
        f"{row['stddev_us']:.1f}"
        for name in KERNELS
        for row in [periodic[name, 1000]]
    )
    spread = {name: periodic[name, 500]["interval_stddev_us"] for name in KERNELS}
    apart = max(
        abs(ring["guaranteed", n, k]["us"] / ring["best_effort", n, k]["us"] - 1)
        for n in RING
        for k in KILOBYTES
    )
    growth = max(
        abs(ring["plain", RING[-1], k]["us"] / ring["plain", RING[0], k]["us"] - 1)
        for k in KILOBYTES
    )
    ratio = storm["best_effort"]["us"] / storm["plain"]["us"]
    without_linux = [
        claims["fcse09-01"].not_evaluated(
            linux.BUILD,
            "least, average, most and deviation of the latency of a 1,000 us task under load on "
            f"the microkernel, us: {latency}",
        ),
        claims["fcse09-02"].not_evaluated(
            linux.BUILD,
            f"ring of messages on the microkernel: {min(hops('plain')):.1f} to "
            f"{max(hops('plain')):.1f} us; from 2 to 16 processes it changes by at most "
            f"{growth:.1%}",
        ),
        claims["fcse09-03"].not_evaluated(
            linux.BUILD,
            "ring of messages on the microkernel: guaranteed "
            f"{min(hops('guaranteed')):.2f} to {max(hops('guaranteed')):.1f} us, best "
            f"effort {min(hops('best_effort')):.2f} to {max(hops('best_effort')):.1f} us, "
            f"at most {apart:.1%} apart",
        ),
        claims["fcse09-04"].not_evaluated(
            linux.BUILD,
            f"storm of messages on the microkernel on at91rm9200: {ratio:.2f}, "
            f"{storm['best_effort']['flushes']:,} flushes instead of "
            f"{storm['plain']['flushes']:,}",
        ),
        claims["fcse09-05"].not_evaluated(linux.BUILD),
        claims["fcse09-06"].not_evaluated(
            linux.BUILD,
            "periodic task on the microkernel under load: deviation of a 500 us period "
            f"{spread['plain']:.2f} us plain, {spread['guaranteed']:.2f} guaranteed, "
            f"{spread['plain'] / max(spread['guaranteed'], 0.001):.1f} times less",
        ),
    ]
    on_linux = fcse_linux.judge(linux_rows, claims) if linux_rows else without_linux
    return [*on_linux, *on_the_microkernel(ring, storm, switches)]


def on_the_microkernel(ring: dict, storm: dict, switches: dict[str, Switches]) -> list[Claim]:
    """The claims on what the modes allow, refuse and flush."""
    claims = published_claims(PAPER)
    return [
        judge_guaranteed(claims["fcse09-07"], switches["guaranteed"], ring),
        judge_best_effort(claims["fcse09-08"], switches["best_effort"], storm),
    ]


def judge_guaranteed(claim: Published, found: Switches, ring: dict) -> Claim:
    """Limits: spaces, size; no cache flush on a switch, and a TLB that is invalidated on each."""
    hops = [row for (name, *_), row in ring.items() if name == "guaranteed"]
    flushes = sum(row["flushes"] for row in hops)
    flushes += sum(row["to"] + row["from"] for row in found.switches)
    invalidated = min(row["tlb_operations"] / row["hops"] for row in hops)
    missed = min(row["translations_missed"] for row in hops)
    limits = found.limits
    parts = {
        f"{found.spaces} spaces": found.spaces == 95,
        f"a page below 32 MB is {'mapped' if limits['inside'] else 'refused'}": limits["inside"]
        == 1,
        f"pages across are {'mapped' if limits['across'] else 'refused'} and above "
        f"{'mapped' if limits['above'] else 'refused'}": limits["across"] == limits["above"] == 0,
        f"{flushes} cache flushes in all switches": flushes == 0,
        f"{invalidated:.2f} or more TLB invalidations a hop of the ring, counted by the machine, and "
        f"{missed:.1f} or more translations missed": invalidated >= 1 and missed >= 1,
    }
    return claim.judge(all(parts.values()), "; ".join(parts), wrong_parts(parts.items()))


FLUSHES = {
    "group_dirty_another_last": ("to",),
    "flush_before_the_next": ("to",),
    "dirty_again": ("to",),
    "large": ("to", "from"),
    "shared_and_written": ("from",),
}
"""The switches that have to flush, by condition; the others of these conditions are not judged."""
NO_FLUSH = [
    "small",
    "same_process_last",
    "another_last_but_flushed_since",
    "small_again",
    "shared_and_read",
    "of_a_sharer_that_only_read",
    "unmapped_after_writing",
]
"""The opposites, where no switch may flush."""


def judge_best_effort(claim: Published, found: Switches, storm: dict) -> Claim:
    """No limits; flushes where they are needed and nowhere else; each makes all groups clean."""
    parts = {
        f"{found.spaces} spaces and more": found.spaces > 95,
        f"one of them {'grows' if found.limits['above'] else 'cannot grow'} past 32 MB": (
            found.limits["above"] == 1
        ),
    }
    for name, directions in FLUSHES.items():
        made = [
            dict(zip(("to", "from"), flushes, strict=True))[direction]
            for flushes in found.flushes(name)
            for direction in directions
        ]
        parts[f"{told(name)}: {sum(made)} flushes in {len(made)} switches"] = bool(made) and all(
            flushes >= 1 for flushes in made
        )
    for name in NO_FLUSH:
        made = [flushes for both in found.flushes(name) for flushes in both]
        parts[f"{told(name)}: {sum(made)} in {len(made)}"] = bool(made) and sum(made) == 0
    entering = sum(to for to, _ in found.flushes("shared_and_written"))
    share = storm["best_effort"]["flushes"] / storm["best_effort"]["switches"]
    return claim.judge(
        all(parts.values()),
        f"{'; '.join(parts)}; not judged: entering a process that wrote to shared pages, {entering}; "
        f"400 processes: {share:.1%} of the switches flush",
        wrong_parts(parts.items()),
    )


def told(name: str) -> str:
    """A condition's name in words."""
    return name.replace("_", " ")


def figure_latency(periodic: dict) -> Figure:
    """Histograms of the latency, with the paper's averages in `says`."""
    rows = []
    for (name, period), row in periodic.items():
        if period == 1000:
            rows += [
                {"kernel": name, "us": int(bucket), "samples": samples}
                for bucket, samples in row["histogram"].items()
            ]
    paper = ", ".join(
        f"{row['kernel']} {row['avg_us']}" for row in published_table(PAPER, "table2_cyclictest")
    )
    return Figure(
        "figures-03-04",
        "Microkernel: latency of a periodic task under load, 1,000 us",
        f"The paper's averages under Linux, in microseconds: {paper}.",
        alt.Chart(alt.Data(values=rows), width=420, height=220)
        .mark_bar(opacity=0.7)
        .encode(
            x=alt.X("us:Q", title="latency, microseconds"),
            y=alt.Y("samples:Q", title="samples", stack=None),
            color=alt.Color("kernel:N", title=None),
        ),
    )


def figure_ring(ring: dict) -> Figure:
    """The token ring."""
    rows = list(ring.values())
    return Figure(
        "figures-05-07",
        "Microkernel, token ring: microseconds of a switch over processes",
        "Under Linux: plain above 100 us everywhere and flat; both FCSE modes nearly identical, "
        "growing with the processes.",
        alt.Chart(alt.Data(values=rows), width=200, height=200)
        .mark_line(point=alt.OverlayMarkDef(size=14), strokeWidth=1.2)
        .encode(
            x=alt.X("processes:Q"),
            y=alt.Y("us:Q", title="microseconds a switch", scale=alt.Scale(type="symlog")),
            color=alt.Color("kilobytes:O", title="KB"),
            column=alt.Column("kernel:N", title=None),
        ),
    )
