"""Chanteperdrix and Cochran, "The ARM Fast Context Switch Extension for Linux", 2009: 32 MB slots by
process ID, guaranteed and best effort, on the IXP425 and the AT91RM9200.

The paper measured Linux. Here the microkernel runs the two modes with programs of the same shape: a
periodic task under load (cyclictest), a token ring (lat_ctx), a storm of messages among 400 processes
(hackbench). What the modes allow, refuse and flush (sections 4.1 and 4.2) is judged on it.
"""

from __future__ import annotations

import math
from typing import Any

import altair as alt
import pyarrow as pa

from mmulab.papers import (
    Claim,
    Figure,
    Reproduction,
    Run,
    published_claims,
    published_table,
    save_figures,
)
from mmulab.papers.microkernel import Guest, boot, decide

PAPER = "fcse_2009"
TITLE = "The ARM fast context switch extension for Linux (Chanteperdrix and Cochran, 2009)"
KERNELS = {"plain": "flush", "guaranteed": "fcse_guaranteed", "best_effort": "fcse_best_effort"}
RING = [2, 4, 6, 8, 10, 12, 14, 16]
KILOBYTES = [0, 1, 4, 16]
LINUX = "the paper measured Linux here, and the Linux guest has no FCSE yet"


def reproduce(run: Run) -> Reproduction:
    """Boots the kernel for every point, and judges."""
    periodic = run_periodic(run, 2000 if run.full else 150)
    ring = run_ring(run, 300 if run.full else 40)
    storm = run_storm(run, 20 if run.full else 3)
    events = {name: boot("ixp425", scheme, "events") for name, scheme in KERNELS.items()}
    figures = [figure_latency(periodic), figure_ring(ring)]
    save_figures(figures, run.folder / "figures")
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        claims=judge(periodic, ring, storm, events),
        figures=figures,
        tables={
            "periodic": pa.Table.from_pylist(
                [
                    {key: value for key, value in row.items() if key != "histogram"}
                    for row in periodic.values()
                ]
            ),
            "ring": pa.Table.from_pylist(list(ring.values())),
            "storm": pa.Table.from_pylist(list(storm.values())),
        },
        notes=(
            "The microkernel on ixp425 (periodic task, ring, events) and at91rm9200 (storm), as "
            "their machine files say. Its paths are far shorter than Linux's, so that absolute "
            "times are lower and ratios larger."
        ),
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
            guest = boot("ixp425", scheme, "periodic", samples=samples, period=period)
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
                    "ixp425",
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
                }
    return rows


def run_storm(run: Run, loops: int) -> dict[str, dict[str, Any]]:
    """400 processes in 10 groups; guaranteed mode refuses so many."""
    rows = {}
    for name in ("plain", "best_effort"):
        run.progress(f"storm of messages, {name}")
        guest = boot("at91rm9200", KERNELS[name], "storm", loops=loops)
        rows[name] = {
            "kernel": name,
            "us": round(guest.microseconds, 3),
            "messages": guest.lap["per"],
            "switches": guest.lap["switches"],
            "flushes": guest.lap["flushes"],
        }
    return rows


def judge(periodic: dict, ring: dict, storm: dict, events: dict[str, Guest]) -> list[Claim]:
    """Every claim, in the paper's order."""
    claims = published_claims(PAPER)

    def switches(name: str) -> list[float]:
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
    return [
        claims["fcse09-01"].not_evaluated(
            LINUX,
            "least, average, most and deviation of the latency of a 1,000 us task under load on "
            f"the microkernel, us: {latency}",
        ),
        claims["fcse09-02"].not_evaluated(
            LINUX,
            f"ring of messages on the microkernel: {min(switches('plain')):.1f} to "
            f"{max(switches('plain')):.1f} us; from 2 to 16 processes it changes by at most "
            f"{growth:.1%}",
        ),
        claims["fcse09-03"].not_evaluated(
            LINUX,
            "ring of messages on the microkernel: guaranteed "
            f"{min(switches('guaranteed')):.2f} to {max(switches('guaranteed')):.1f} us, best "
            f"effort {min(switches('best_effort')):.2f} to {max(switches('best_effort')):.1f} us, "
            f"at most {apart:.1%} apart",
        ),
        claims["fcse09-04"].not_evaluated(
            LINUX,
            f"storm of messages on the microkernel on at91rm9200: {ratio:.2f}, "
            f"{storm['best_effort']['flushes']:,} flushes instead of "
            f"{storm['plain']['flushes']:,}",
        ),
        claims["fcse09-05"].not_evaluated("there is no network on the board"),
        claims["fcse09-06"].not_evaluated(
            LINUX,
            "periodic task on the microkernel under load: deviation of a 500 us period "
            f"{spread['plain']:.2f} us plain, {spread['guaranteed']:.2f} guaranteed, "
            f"{spread['plain'] / max(spread['guaranteed'], 0.001):.1f} times less",
        ),
        judge_guaranteed(claims["fcse09-07"], events["guaranteed"], ring),
        judge_best_effort(claims["fcse09-08"], events["best_effort"], ring, storm),
    ]


def judge_guaranteed(claim, events: Guest, ring: dict) -> Claim:
    """Limits: spaces, size, no flush on a switch."""
    started = events.lines("spaces")[0]["started"] + 3  # the root and the two subjects
    refused = events.lines("growth")[0]["refused"]
    flushes = sum(row["flushes"] for (name, *_), row in ring.items() if name == "guaranteed")
    flushes += sum(event["flushes"] for event in events.lines("event"))
    return decide(
        claim,
        started == 95 and refused == 1 and flushes == 0,
        f"{started} spaces, the next is refused; a mapping at 0x90000000 is "
        f"{'refused' if refused else 'made'}; {flushes} cache flushes in all switches of the ring "
        "and of the events; the TLB is invalidated on every switch by both paths, and without that "
        "the checker reports (docs/microkernel-mutants.md)",
        "see the numbers",
    )


def judge_best_effort(claim, events: Guest, ring: dict, storm: dict) -> Claim:
    """No limits, flushes only where they are needed."""
    by_name = {event["name"]: event for event in events.lines("event")}
    started = events.lines("spaces")[0]["started"] + 3
    grown = by_name["grown_first_touch"]["flushes"] + by_name["collision_dirty"]["flushes"]
    written = by_name["round_trip_after_written_sharing"]["flushes"]
    small = sum(row["flushes"] for (name, *_), row in ring.items() if name == "best_effort")
    share = storm["best_effort"]["flushes"] / storm["best_effort"]["switches"]
    return decide(
        claim,
        started > 95 and grown > 0 and written > 0 and small == 0 and 0 < share < 1,
        f"{started} spaces and more; a large space is flushed for ({grown} flushes in two "
        f"accesses), as is one that has written shared pages ({written} in a round trip); none in "
        f"the ring of small processes; 400 processes: {share:.1%} of the switches flush, because a "
        "flush clears all dirty bits",
        "see the numbers",
    )


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
        "Latency of a periodic task under load, 1,000 us",
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
        "Token ring: microseconds of a switch over processes",
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
