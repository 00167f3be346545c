"""The plots of the report: Altair charts, drawn to SVG without a browser.

Text and lines use two marker colours that the page's style sheet replaces, so that one picture
serves light and dark. Each mark's description becomes a tooltip.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import altair as alt
import vl_convert

from mmulab import arrow as pa
from mmulab.causes import BY_NAME, CAUSES
from mmulab.curves import PAGE_SIZES, MissCurves
from mmulab.machine import toml_text
from mmulab.report.phone import LEGEND_COLUMNS, PAGE_WIDTH, narrowed
from mmulab.results import ReplayResults

INK = "#1f2328"
RULE = "#d4d8dd"
WIDTH = 800
FONT = "system-ui, 'Segoe UI', Roboto, 'Helvetica Neue', 'Noto Sans', 'DejaVu Sans', sans-serif"
MEASURED_FONT = "no such font"
"""What labels are measured with: Vega then takes the same for each character, on every computer and
whichever fonts it has, a little more than DejaVu Sans takes for names, which is the widest of
`FONT`."""

GROUP_COLOURS = {
    "work": "#aab2bb",
    "cache": "#4b8fc4",
    "translation": "#e8853a",
    "interrupt": "#8f63b8",
}
GROUP_TITLES = {
    "work": "the program's instructions",
    "cache": "its cache misses (MCPI)",
    "translation": "translation (VMCPI)",
    "interrupt": "interrupts",
}
CAUSE_COLOURS = {
    "issue": "#aab2bb",
    "L1i-miss": "#9cc7ea",
    "L2i-miss": "#5b9fd3",
    "L3i-miss": "#2e6da4",
    "L1d-miss": "#9bd6ca",
    "L2d-miss": "#4fae9d",
    "L3d-miss": "#237a6b",
    "uhandler": "#f4c04e",
    "upte-L2": "#f4a05a",
    "upte-L3": "#e97f33",
    "upte-MEM": "#d95f1e",
    "khandler": "#d9cf62",
    "kpte-L2": "#c3b23c",
    "kpte-L3": "#a4932a",
    "kpte-MEM": "#82741d",
    "rhandler": "#f0a3a3",
    "rpte-L2": "#e67777",
    "rpte-L3": "#d24f54",
    "rpte-MEM": "#b0323d",
    "host-walk": "#c9b3e6",
    "hpte-L2": "#ab8fd6",
    "hpte-L3": "#8a68bf",
    "hpte-MEM": "#66449c",
    "tlb-prefetch": "#d9e0a0",
    "overlapped-walk": "#dba51f",
    "shootdown": "#8f5a2b",
    "shootdown-interrupt": "#b98a5e",
    "handler-L2": "#eab0cd",
    "handler-L3": "#d983ad",
    "handler-MEM": "#bd5a8c",
    "stlb": "#c08457",
    "interrupt": "#8f63b8",
    "cow-interrupt": "#bd9cd9",
    "small-page-fault": "#b8b8b8",
    "large-page-fault": "#8c8c8c",
    "file-page-fault": "#d6d6d6",
    "promotion": "#6b6b6b",
}
PAGE_SIZE_COLOURS = ["#d95f1e", "#e0a32e", "#4fae9d", "#4b8fc4", "#8f63b8"]
NUMBER = ".6~g"
"""Of ticks. Without a precision Vega takes one from step and range, and rounds 0.12 to 0.1 where
0.12 - 0.02 is below 0.1."""
BINARY = (
    "datum.value >= 1048576 ? datum.value / 1048576 + 'M' : "
    "datum.value >= 1024 ? datum.value / 1024 + 'K' : datum.value"
)
"""Vega's expression for the labels of an axis of sizes."""


NARROW_WIDTH = 210
"""On a phone, beside the labels of machines."""


def both(draw: Callable[..., str], *arguments: Any) -> tuple[str, str]:
    """A plot as wide as the page, and one for a phone; the style sheet shows one of them."""
    return draw(*arguments), draw(*arguments, narrow=True)


def svg(chart: alt.TopLevelMixin) -> str:
    """A chart as SVG text."""
    return _drawn(_styled(chart))


def svg_and_narrow(chart: alt.TopLevelMixin) -> tuple[str, str | None]:
    """A chart of a paper, and the same for a phone where it can be laid out for one."""
    styled = _styled(chart)
    narrow = None
    for columns in LEGEND_COLUMNS:
        laid_out = narrowed(styled, columns)
        if laid_out is None:
            break
        narrow = _drawn(laid_out)
        width = re.search(r' width="([\d.]+)"', narrow)
        if width and float(width[1]) <= PAGE_WIDTH:
            break
    return _drawn(styled), narrow


def _styled(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """A chart in the page's colours, as Vega-Lite has it."""
    styled = chart.configure(
        font=MEASURED_FONT,
        background="transparent",
        padding=4,
        axis=alt.AxisConfig(
            labelColor=INK,
            titleColor=INK,
            domainColor=RULE,
            tickColor=RULE,
            gridColor=RULE,
            gridOpacity=0.7,
            labelFontSize=12,
            titleFontSize=12,
            titleFontWeight="normal",
            labelLimit=320,
        ),
        legend=alt.LegendConfig(
            labelColor=INK, titleColor=INK, labelFontSize=12, labelLimit=460, symbolType="square"
        ),
        header=alt.HeaderConfig(
            labelColor=INK, titleColor=INK, labelFontSize=12, labelFontWeight="bold"
        ),
        view=alt.ViewConfig(stroke=None),
        title=alt.TitleConfig(color=INK, fontSize=13, anchor="start"),
    )
    return styled.to_dict()


def _drawn(chart: dict[str, Any]) -> str:
    return vl_convert.vegalite_to_svg(chart).replace(MEASURED_FONT, FONT)


def cycles(results: ReplayResults, *, narrow: bool = False) -> str:
    """Where every cycle goes: one bar per machine, one colour per cause."""
    rows: list[dict[str, Any]] = [
        {
            "machine": row.machine,
            "cause": cause.name,
            "order": order,
            "cpi": row.cause_cycles(cause.name) / max(row.instructions, 1),
        }
        for row in results
        for order, cause in enumerate(CAUSES)
        if row.cause_cycles(cause.name)
    ]
    for row in rows:
        row["text"] = f"{row['machine']}: {row['cause']}, {row['cpi']:.4f} cycles per instruction\n"
        row["text"] += BY_NAME[row["cause"]].text
    return svg(_stacked(rows, results, "cycles per instruction", [c.name for c in CAUSES], narrow))


def translation(results: ReplayResults, *, narrow: bool = False) -> str:
    """The components of VMCPI, one bar per machine."""
    rows: list[dict[str, Any]] = [
        {
            "machine": row.machine,
            "cause": cause.name,
            "order": order,
            "cpi": row.cause_cycles(cause.name) / max(row.instructions, 1),
        }
        for row in results
        for order, cause in enumerate(CAUSES)
        if cause.group == "translation" and row.cause_cycles(cause.name)
    ]
    for row in rows:
        row["text"] = f"{row['machine']}: {row['cause']}, {row['cpi']:.4f} cycles per instruction\n"
        row["text"] += BY_NAME[row["cause"]].text
    names = [cause.name for cause in CAUSES if cause.group == "translation"]
    return svg(_stacked(rows, results, "VMCPI: cycles per instruction", names, narrow))


def _stacked(
    rows: list[dict[str, Any]],
    results: ReplayResults,
    title: str,
    names: list[str],
    narrow: bool,
) -> alt.Chart:
    present = [name for name in names if any(row["cause"] == name for row in rows)]
    return (
        alt.Chart(alt.InlineData(rows), width=_width(narrow), height=alt.Step(26))
        .mark_bar(height=alt.RelativeBandSize(0.72))
        .encode(
            x=alt.X("cpi:Q", title=title, stack="zero", axis=alt.Axis(format=NUMBER)),
            y=alt.Y("machine:N", title=None, sort=[row.machine for row in results]),
            color=alt.Color(
                "cause:N",
                title=None,
                scale=alt.Scale(domain=present, range=[CAUSE_COLOURS[name] for name in present]),
                legend=alt.Legend(orient="bottom", columns=3 if narrow else 9),
            ),
            order=alt.Order("order:Q"),
            description="text:N",
        )
    )


def _width(narrow: bool) -> int:
    return NARROW_WIDTH if narrow else WIDTH


def interrupts(results: ReplayResults, *, narrow: bool = False) -> str:
    """Overhead per instruction with interrupts at each of the machine's costs."""
    rows: list[dict[str, Any]] = []
    for row in results:
        for cost in row.interrupt_costs_cycles:
            parts = (
                ("cache", row.group_cpi("cache")),
                ("translation", row.group_cpi("translation")),
                ("interrupt", row.interrupt_cpi(cost)),
            )
            for order, (group, cpi) in enumerate(parts):
                rows.append(
                    {
                        "machine": row.machine,
                        "cost": f"{cost}",
                        "part": GROUP_TITLES[group],
                        "order": order,
                        "cpi": cpi,
                        "text": f"{row.machine}, {cost} cycles an interrupt: "
                        f"{GROUP_TITLES[group]} {cpi:.4f} cycles per instruction",
                    }
                )
    groups = ["cache", "translation", "interrupt"]
    chart = (
        alt.Chart(alt.InlineData(rows), width=_width(narrow) - 60, height=alt.Step(13))
        .mark_bar(height=alt.RelativeBandSize(0.85))
        .encode(
            x=alt.X(
                "cpi:Q",
                title="overhead: cycles per instruction",
                stack="zero",
                axis=alt.Axis(format=NUMBER),
            ),
            y=alt.Y(
                "cost:O",
                title=None,
                sort=sorted({row["cost"] for row in rows}, key=int),
                axis=alt.Axis(labelFontSize=10, ticks=False, domain=False),
            ),
            row=alt.Row(
                "machine:N",
                title=None,
                sort=[row.machine for row in results],
                spacing=10,
                header=alt.Header(labelAngle=0, labelAlign="left", labelPadding=6),
            ),
            color=alt.Color(
                "part:N",
                title=None,
                scale=alt.Scale(
                    domain=[GROUP_TITLES[group] for group in groups],
                    range=[GROUP_COLOURS[group] for group in groups],
                ),
                legend=alt.Legend(orient="bottom", columns=1 if narrow else 3),
            ),
            order=alt.Order("order:Q"),
            description="text:N",
        )
    )
    return svg(chart)


def mean_free_path(results: ReplayResults, *, narrow: bool = False) -> str:
    """Instructions between two TLB misses, on a logarithmic scale."""
    rows = [
        {
            "machine": row.machine,
            "path": row.mean_free_path,
            "text": f"{row.machine}: {row.mean_free_path:,.0f} instructions between TLB misses",
        }
        for row in results
        if row.mean_free_path
    ]
    chart = (
        alt.Chart(alt.InlineData(rows), width=_width(narrow), height=alt.Step(22))
        .mark_circle(size=110, color=GROUP_COLOURS["translation"], opacity=1)
        .encode(
            x=alt.X(
                "path:Q",
                title="instructions between two TLB misses that need a walk (more is better)",
                scale=alt.Scale(type="log", nice=True),
                axis=alt.Axis(format="~s", tickCount=3 if narrow else 8),
            ),
            y=alt.Y(
                "machine:N",
                title=None,
                sort=[row.machine for row in results],
                axis=alt.Axis(grid=True),
            ),
            description="text:N",
        )
    )
    return svg(chart)


def miss_curves(curves: MissCurves, *, narrow: bool = False) -> str:
    """TLB misses over TLB size, one line per page size, data and instructions side by side."""
    panels = []
    for stream, title in (("data", "Data TLB"), ("instruction", "Instruction TLB")):
        rows = []
        for page_size in PAGE_SIZES:
            curve = curves.curve(stream, page_size)
            for entries in _sizes(curve.pages):
                rate = 1000 * curve.misses_at(entries) / max(curves.instructions, 1)
                rows.append(
                    {
                        "entries": entries,
                        "rate": rate,
                        "pages": f"{page_size} pages",
                        "text": f"{entries:,} entries, {page_size} pages: "
                        f"{rate:.4f} misses per thousand instructions",
                    }
                )
        width = 280 if narrow else 420
        base = alt.Chart(alt.InlineData(rows), title=title, width=width, height=280).encode(
            x=alt.X(
                "entries:Q",
                title="TLB entries",
                scale=alt.Scale(type="log", base=2, nice=False),
                axis=alt.Axis(format="d", tickCount=7),
            ),
            y=alt.Y(
                "rate:Q",
                title="misses per thousand instructions" if narrow or stream == "data" else None,
                scale=alt.Scale(type="symlog", constant=0.01),
                axis=alt.Axis(format=",.2~f", values=[0, 0.01, 0.1, 1, 10, 100, 1000]),
            ),
            color=alt.Color(
                "pages:N",
                title=None,
                scale=alt.Scale(
                    domain=[f"{size} pages" for size in PAGE_SIZES], range=PAGE_SIZE_COLOURS
                ),
                legend=alt.Legend(
                    orient="bottom",
                    symbolType="stroke",
                    symbolStrokeWidth=3,
                    columns=3 if narrow else 5,
                ),
            ),
        )
        panels.append(
            base.mark_line(strokeWidth=2)
            + base.mark_circle(size=26, opacity=1).encode(description="text:N")
        )
    return svg(alt.vconcat(*panels) if narrow else alt.hconcat(*panels, spacing=28))


def _sizes(pages: int) -> list[int]:
    """Sizes worth a point: eight to the doubling would be a smooth line, four are enough."""
    largest = max(2 * pages, 2)
    sizes = {round(2 ** (step / 4)) for step in range(4 * largest.bit_length() + 1)}
    return sorted(size for size in sizes if size <= largest)


def sweep(table: pa.Table, metric: str, along: str, axis: str, *, narrow: bool = False) -> str:
    """One metric over one varied parameter, a line for each machine on each trace; `axis` names all
    that have its values."""
    several = len(table["trace"].unique()) > 1
    grouped = table.group_by(["trace", "machine", along]).aggregate([(metric, "mean")])
    rows = []
    for row in grouped.to_pylist():
        series = f"{row['machine']}, {row['trace']}" if several else row["machine"]
        value = row[f"{metric}_mean"]
        rows.append(
            {
                "along": row[along],
                "series": series,
                "value": value,
                "text": f"{along} {toml_text(row[along])}, {series}: {metric} {value:.4f}",
            }
        )
    numeric = all(isinstance(row["along"], int | float) for row in rows)
    names = sorted({row["series"] for row in rows}, key=_natural)
    width = 280 if narrow else WIDTH - 100
    base = alt.Chart(alt.InlineData(rows), width=width, height=260).encode(
        x=alt.X(
            "along:O",
            title=axis,
            sort=None if not numeric else "ascending",
            axis=alt.Axis(
                labelAngle=0,
                labelOverlap=True,
                labelExpr=BINARY if along.endswith("_bytes") else "datum.label",
            ),
        ),
        y=alt.Y("value:Q", title=metric.upper(), axis=alt.Axis(format=NUMBER)),
        color=alt.Color(
            "series:N",
            title=None,
            sort=names,
            legend=alt.Legend(
                orient="bottom" if narrow else "right", columns=1, symbolLimit=len(names)
            ),
            scale=alt.Scale(scheme="tableau10" if len(names) <= 10 else "tableau20"),
        ),
    )
    return svg(
        base.mark_line(strokeWidth=2)
        + base.mark_circle(size=36, opacity=1).encode(description="text:N")
    )


def _natural(text: str) -> tuple[int, float, str]:
    """Numbers before words, numbers by size."""
    try:
        return (0, float(text), text)
    except ValueError:
        return (1, 0.0, text)
