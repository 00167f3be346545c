"""The page of a measured computer: its curves, with the levels that were found in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair as alt

from mmulab.calibrate import Calibration, Point
from mmulab.report import plots
from mmulab.report.build import render

_COLOURS = {
    "4 KB pages": plots.GROUP_COLOURS["translation"],
    "2 MB pages": plots.GROUP_COLOURS["cache"],
    "4 KB pages, 24 of 2 MB besides": plots.GROUP_COLOURS["interrupt"],
}


def write_calibration_report(directory: Path, calibration: Calibration) -> Path:
    """Writes `report.html` into the folder; returns its path."""
    path = directory / "report.html"
    series = calibration.measured.series
    figures = [
        (
            "Latency over working set",
            "Dependent loads over all lines of a working set in random order. Each flat part is a level. "
            "Above the second curve lies what 4 KB pages cost.",
            {"4 KB pages": series.get("loads_4k", []), "2 MB pages": series["loads"]},
            ("bytes of working set", "cycles a load"),
        ),
        (
            "Latency over pages",
            "One line in each page. The same number of lines side by side would take as long as the "
            "caches allow; the steps above that are TLB levels and walks.",
            {
                "4 KB pages": series["tlb_4k"],
                "2 MB pages": series.get("tlb_2m", []),
                "4 KB pages, 24 of 2 MB besides": series.get("tlb_both", []),
            },
            ("pages", "cycles a load"),
        ),
        (
            "Walks with entries farther and farther away",
            "Random pages of one 2 MB file that is mapped over and over: the data stay near, the "
            "page-table entries take 8 bytes a page and fall out of one level after the other.",
            {"4 KB pages": series.get("walks", [])},
            ("pages", "cycles a load"),
        ),
        (
            "Jumps over pages",
            "One jump in each 4 KB page. Cores fetch ahead, so that most of a miss is hidden.",
            {"4 KB pages": series.get("jumps_of_pages", [])},
            ("pages", "cycles a jump"),
        ),
    ]
    render(
        "calibration.html.j2",
        path,
        title=f"{calibration.reported.processor}, measured",
        calibration=calibration,
        written=_written,
        figures=[
            (title, text, plots.both(_curves, curves, titles))
            for title, text, curves, titles in figures
            if any(curves.values())
        ],
    )
    return path


def _written(value: object) -> str:
    """A value of the machine, for people."""
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _curves(
    curves: dict[str, list[Point]], titles: tuple[str, str], *, narrow: bool = False
) -> str:
    rows: list[dict[str, Any]] = [
        {
            "curve": name,
            "x": point.x,
            "cycles": max(point.cycles, 0.1),
            "text": f"{name}, {point.x:,} {titles[0]}: {point.cycles:.1f} cycles ({point.low:.1f} to {point.high:.1f})",
        }
        for name, points in curves.items()
        for point in points
    ]
    present = [name for name, points in curves.items() if points]
    base = alt.Chart(
        alt.InlineData(rows), width=plots.NARROW_WIDTH + 60 if narrow else plots.WIDTH, height=280
    ).encode(
        x=alt.X(
            "x:Q",
            title=titles[0],
            scale=alt.Scale(type="log", base=2, nice=False),
            axis=alt.Axis(labelExpr=plots.BINARY, tickCount=4 if narrow else 12),
        ),
        y=alt.Y("cycles:Q", title=titles[1], scale=alt.Scale(type="log")),
        color=alt.Color(
            "curve:N",
            title=None,
            scale=alt.Scale(domain=present, range=[_COLOURS[name] for name in present]),
            legend=alt.Legend(orient="bottom", columns=1 if narrow else 3),
        ),
    )
    points = base.mark_circle(size=28, opacity=1).encode(description="text:N")
    return plots.svg(base.mark_line(strokeWidth=1.5) + points)
