"""Tables for people on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mmulab.causes import CAUSES
from mmulab.output import human, percent
from mmulab.reach_result import PAGE_SIZES, ReachResult
from mmulab.recording import TraceInformation
from mmulab.results import ReplayResults


def _table(title: str, note: str = "") -> Table:
    return Table(
        title=title,
        caption=note or None,
        title_justify="left",
        caption_justify="left",
        title_style="bold",
        caption_style="dim",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )


def replay(results: ReplayResults) -> RenderableType:
    """Machine by machine: totals, then where the cycles of translation go, then misses."""
    if not results:
        return Text("No machines.")
    costs = sorted({cost for row in results for cost in row.interrupt_costs_cycles})
    totals = _table(
        f"{results[0].instructions:,} instructions",
        "CPI: cycles per instruction. MCPI: cache misses of the program. VMCPI: finding "
        f"translations. int@N: interrupts at N cycles each. Run time includes them at {costs[0]}; "
        "translation is VMCPI and interrupts.",
    )
    totals.add_column("machine", no_wrap=True)
    for heading in ("CPI", "MCPI", "VMCPI", *(f"int@{cost}" for cost in costs)):
        totals.add_column(heading, justify="right")
    for cost in costs:
        totals.add_column(f"translation@{cost}", justify="right")
    totals.add_column("mean free path", justify="right")
    for row in results:
        path = row.mean_free_path
        totals.add_row(
            row.machine,
            f"{row.cpi:.4f}",
            f"{row.mcpi:.4f}",
            f"{row.vmcpi:.4f}",
            *(f"{row.interrupt_cpi(cost):.4f}" for cost in costs),
            *(percent(row.translation_share(cost)) for cost in costs),
            "-" if path is None else f"{human(path)} instr.",
        )
    return Group(totals, _components(results), _misses(results))


def _components(results: ReplayResults) -> RenderableType:
    """Cycles per instruction of every cause that occurred, machines side by side."""
    table = _table("Where the cycles go", "Cycles per thousand instructions; - for no cycle.")
    table.add_column("cause", no_wrap=True)
    for row in results:
        table.add_column(row.machine, justify="right")
    previous = "work"
    for cause in CAUSES:
        cycles = [row.cause_cycles(cause.name) for row in results]
        if not any(cycles):
            continue
        if cause.group != previous:
            table.add_section()
            previous = cause.group
        cells = (
            "-" if not amount else f"{1000 * amount / row.instructions:,.2f}"
            for amount, row in zip(cycles, results, strict=True)
        )
        table.add_row(cause.name, *cells)
    return table


def _misses(results: ReplayResults) -> RenderableType:
    table = _table(
        "TLB and cache misses", "Misses per thousand instructions (and of all look-ups)."
    )
    table.add_column("structure", no_wrap=True)
    for row in results:
        table.add_column(row.machine, justify="right")
    for kind in ("tlbs", "caches"):
        names: dict[str, None] = {}
        for row in results:
            names |= dict.fromkeys(row.data[kind])
        for name in names:
            cells = []
            for row in results:
                counters = row.data[kind].get(name)
                if counters is None:
                    cells.append("-")
                    continue
                rate = counters["misses"] / max(counters["hits"] + counters["misses"], 1)
                per_thousand = 1000 * counters["misses"] / row.instructions
                cells.append(f"{per_thousand:.3f} ({percent(rate)})")
            table.add_row(name, *cells)
        table.add_section()
    return table


def reach(curves: ReachResult) -> RenderableType:
    """Misses per thousand instructions, sizes down and page sizes across, for each stream."""
    parts: list[RenderableType] = []
    for stream, title in (
        ("data", "Data TLB"),
        ("instruction", "Instruction TLB"),
        ("unified", "Unified TLB"),
    ):
        table = _table(f"{title}: misses per thousand instructions")
        table.add_column("entries", justify="right")
        for page_size in PAGE_SIZES:
            table.add_column(f"{page_size} pages", justify="right")
        last = None
        for entries in curves.sizes():
            misses = [curves.curve(stream, size).misses_at(entries) for size in PAGE_SIZES]
            if misses == last:
                break
            last = misses
            cells = (f"{1000 * count / max(curves.instructions, 1):.4f}" for count in misses)
            table.add_row(f"{entries:,}", *cells)
        parts.append(table)
    parts.append(Padding(Text(curves.verdict), (1, 0, 0, 0)))
    return Group(*parts)


def recorded_line(recorded: TraceInformation) -> str:
    """What was recorded, in one line."""
    return (
        f"Recorded {human(recorded.instructions)} instructions, "
        f"{human(recorded.loads + recorded.modifies)} loads and "
        f"{human(recorded.stores + recorded.modifies)} stores into {recorded.path} "
        f"({human(recorded.file_bytes)}B, {recorded.bits_per_instruction:.2f} bits an instruction); "
        f"{recorded.ending or 'incomplete'}"
    )


def machines(rows: Sequence[dict[str, Any]]) -> RenderableType:
    """The list of machines."""
    table = _table("", "`mmulab machines NAME` shows one with its sources.")
    for heading in ("name", "kind", "title"):
        table.add_column(heading, no_wrap=heading != "title")
    for row in rows:
        table.add_row(row["name"], row["kind"], row["title"])
    return table


def flat_values(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted path."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= flat_values(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def values_table(values: dict[str, Any]) -> pa.Table:
    """A machine's values, one row each."""
    flat = flat_values(values)
    return pa.table({"path": list(flat), "value": [str(value) for value in flat.values()]})


def machine_values(values: dict[str, Any]) -> RenderableType:
    """A machine's values by dotted path."""
    return dictionary(flat_values(values))


def dictionary(data: dict[str, Any]) -> RenderableType:
    """Names and values."""
    table = _table("")
    table.add_column("name", no_wrap=True)
    table.add_column("value")
    for name, value in data.items():
        table.add_row(name, str(value))
    return table


def claims(rows: Sequence[dict[str, Any]]) -> RenderableType:
    """Published against ours, claim by claim."""
    table = _table("Published against ours")
    for heading in ("claim", "verdict", "published", "ours", "why"):
        table.add_column(heading, no_wrap=heading in ("claim", "verdict"), vertical="top")
    colours = {"holds": "green", "differs": "red"}
    for row in rows:
        verdict = Text(row["verdict"], style=colours.get(row["verdict"], "dim"))
        table.add_row(row["id"], verdict, row["published"], row["ours"], row["why"])
    return table
