"""Charts of papers laid out again for a phone: facets stand one below another, legends below."""

from __future__ import annotations

import textwrap
from typing import Any

PAGE_WIDTH = 346
"""What a phone of 375 pixels leaves beside the margins."""
VIEW_WIDTH = 240
"""And beside an axis."""
LEGEND_COLUMNS = (3, 2, 1)
"""Tried in this order: labels may be long."""
TITLE_CHARACTERS = 42


def narrowed(chart: dict[str, Any], legend_columns: int) -> dict[str, Any] | None:
    """A Vega-Lite chart as narrow as it gets; None of a matrix of facets, whose columns mean
    something: it scrolls."""
    chart = dict(chart)
    for joined in ("vconcat", "hconcat"):
        if joined in chart:
            parts = [narrowed(part, legend_columns) for part in chart.pop(joined)]
            if None in parts:
                return None
            return _with_legends_below({**chart, "vconcat": parts}, legend_columns)
    if "facet" in chart:
        facet = chart["facet"]
        if "row" in facet:
            return None
        inner = narrowed(chart["spec"], legend_columns)
        chart |= {"facet": _below(facet.get("column", facet)), "columns": 1, "spec": inner}
    encoding = dict(chart.get("encoding", {}))
    if "row" in encoding:
        return None
    if facet := encoding.pop("column", None) or encoding.get("facet"):
        encoding["facet"] = {**_below(facet), "columns": 1}
    if encoding:
        chart["encoding"] = encoding
    if isinstance(chart.get("width"), int | float):
        chart["width"] = min(chart["width"], VIEW_WIDTH)
    return _with_legends_below(chart, legend_columns)


def _below(facet: dict[str, Any]) -> dict[str, Any]:
    """A facet's channel, with its title in lines that fit."""
    if isinstance(title := facet.get("title"), str):
        return {**facet, "title": textwrap.wrap(title, TITLE_CHARACTERS)}
    return facet


def _with_legends_below(chart: dict[str, Any], columns: int) -> dict[str, Any]:
    config = dict(chart.get("config", {}))
    legend = {**config.get("legend", {}), "orient": "bottom", "columns": columns}
    return {**chart, "config": {**config, "legend": legend}} if "config" in chart else chart
