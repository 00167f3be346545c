"""Gathers what a folder holds and fills the page with it."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from mmulab import __version__
from mmulab import arrow as pa
from mmulab.causes import CAUSES
from mmulab.curves import PAGE_SIZES, MissCurves
from mmulab.errors import InputError
from mmulab.files import replacing
from mmulab.machine import value_text
from mmulab.output import human, percent
from mmulab.report import plots
from mmulab.results import MachineResult, ReplayResults
from mmulab.views import weightiest_guess

_PAGES_SHOWN = 25
_REGIONS_SHOWN = 14
_SHOWN_OF_A_TRACE = (
    "command",
    "instructions",
    "loads",
    "stores",
    "modifies",
    "file_bytes",
    "bits_per_instruction",
    "termination",
)


def write_report(
    directory: str | os.PathLike[str],
    output: Path | None = None,
    *,
    sweeps_of: Path | None = None,
) -> Path:
    """Writes the page for the results in `directory`, with the sweeps there or in the folder
    `sweeps_of`; returns its path.

    Raises `InputError` where the folder holds no results.
    """
    directory = Path(directory)
    if not directory.is_dir():
        what = "is a file; name a folder" if directory.exists() else "there is no such folder"
        raise InputError(f"{directory}: {what}")
    found = _gather(directory, sweeps_of or directory)
    if not found:
        raise InputError(
            f"{directory}: holds no replay.json, miss-curves.json or sweep in Parquet; "
            "`mmulab run --dir DIR -- PROGRAM` makes them"
        )
    path = output or directory / "report.html"
    render("page.html.j2", path, title=_title(found, directory), **found)
    return path


def write_reproduction(directory: Path, reproduction: Any) -> Path:
    """Writes the page of a reproduced paper: its claims, our figures and the numbers behind them.

    Each table has the provenance in its schema metadata, under `provenance`; beside them it is
    `provenance.json`.
    """
    source = json.dumps(reproduction.provenance, sort_keys=True)
    with replacing(directory / "provenance.json") as file:
        file.write(f"{source}\n".encode())
    for name, table in reproduction.tables.items():
        metadata = {**(table.schema.metadata or {}), b"provenance": source.encode()}
        table = table.replace_schema_metadata(metadata)
        with replacing(directory / f"{name}.parquet") as file:
            pa.parquet.write_table(table, file, compression="zstd")
    counts = {
        verdict: sum(str(claim.verdict) == verdict for claim in reproduction.claims)
        for verdict in ("holds", "differs", "not evaluated")
    }
    path = directory / "report.html"
    render(
        "paper.html.j2",
        path,
        title=reproduction.title,
        reproduction=reproduction,
        counts=counts,
        figures=[(figure, *plots.svg_and_narrow(figure.chart)) for figure in reproduction.figures],
    )
    return path


def render(template: str, path: Path, **values: Any) -> None:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("mmulab.report", "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "human": human,
        "percent": percent,
        "size": _size,
        "points": _points,
        "breakable": _breakable,
    }
    page = environment.get_template(template).render(
        version=__version__, ink=plots.INK, rule=plots.RULE, font=plots.FONT, **values
    )
    with replacing(path) as file:
        file.write(page.encode())


def _gather(directory: Path, sweeps_of: Path) -> dict[str, Any]:
    """What the page's sections need, for what the folders hold; nothing where they hold nothing."""
    known = _read(directory / "trace.json", _processes_of) or {}
    results = _read(directory / "replay.json", ReplayResults)
    curves = _read(directory / "miss-curves.json", _all_curves) or []
    sweeps = _sweeps(sweeps_of)
    if results is None and not (known or curves or sweeps):
        return {}
    if results is not None and not results:
        raise InputError(f"{directory / 'replay.json'}: a result without machines; make it again")
    by_trace = results.by_trace() if results else {}
    with _of_this_version(directory / "replay.json"):
        replays = {name: _replay(rows) for name, rows in by_trace.items()}
    with _of_this_version(directory / "miss-curves.json"):
        measured = {one.provenance["trace"]["name"]: _miss_curves(one) for one in curves}
    processes = [
        {
            "name": name,
            "trace": known.get(name),
            "replay": replays.get(name),
            "miss_curves": measured.get(name),
        }
        for name in dict.fromkeys([*known, *replays, *measured])
    ]
    return {"processes": processes, "sweeps": sweeps}


def _processes_of(trace: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """By the name of their traces; of `trace info` there are no children."""
    processes = [trace, *trace.get("children", [])]
    # The page's template could not name the file.
    if missing := [name for one in processes for name in _SHOWN_OF_A_TRACE if name not in one]:
        raise KeyError(missing[0])
    return {Path(one["path"]).name: one for one in processes}


def _all_curves(raw: Any) -> list[MissCurves]:
    return [MissCurves(one) for one in (raw if isinstance(raw, list) else [raw])]


def _read(path: Path, prepare: Callable[[Any], Any]) -> Any:
    """What a file of results holds, prepared; None where there is no such file."""
    if not path.exists():
        return None
    try:
        with _of_this_version(path):
            return prepare(json.loads(path.read_text(encoding="utf-8")))
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    except ValueError as error:
        raise InputError(
            f"{path}: is not the JSON that mmulab writes: {error}; make it again"
        ) from error


@contextmanager
def _of_this_version(path: Path) -> Iterator[None]:
    """Raises `InputError` where a result lacks something, as one of a version that did not have
    it."""
    try:
        yield
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: is not a result of this version ({type(error).__name__}: {error}); "
            "make it again"
        ) from error


def _title(found: dict[str, Any], directory: Path) -> str:
    trace = found["processes"][0]["trace"] if found["processes"] else None
    if trace and (words := _words(trace.get("command") or "")):
        program, *rest = words
        return shlex.join([Path(program).name, *rest])
    return directory.resolve().name


def _words(command: str) -> list[str]:
    """What `shlex.join` joined; another text is one word."""
    try:
        return shlex.split(command)
    except ValueError:
        return [command]


def _replay(results: ReplayResults) -> dict[str, Any]:
    costs = sorted({cost for row in results for cost in row.interrupt_costs_cycles})
    translating = [row for row in results if row.group_cycles("translation")]
    return {
        "results": results,
        "costs": costs,
        "instructions": results[0].instructions,
        "headline": _headline(results),
        "programs": _program_rows(results),
        "guesses": [_guess_rows(row) for row in results if row.data["guesses"]],
        "cycles": plots.both(plots.cycles, results),
        "translation": plots.both(plots.translation, results) if translating else None,
        "interrupts": plots.both(plots.interrupts, results)
        if any(row.interrupt_count for row in results)
        else None,
        "path": plots.both(plots.mean_free_path, results)
        if any(r.mean_free_path for r in results)
        else None,
        "causes": _cause_rows(results),
        "misses": _miss_rows(results),
        "regions": _region_rows(translating),
        "translating": [row.machine for row in translating],
        "pages": [_page_rows(row) for row in translating if row.data["pages"]],
        "provenance": results[0].data["provenance"],
        "part": _part(results[0].data["provenance"]),
        "largest_share": max(row.translation_share(costs[-1]) for row in results) or 1,
    }


def _part(source: dict[str, Any]) -> str:
    """Which part of the trace was counted, in words; empty for all of it."""
    skip, warm_up, limit = source["skip"], source["warm_up"], source["limit"]
    said = [
        f"{skip:,} instructions skipped" if skip else "",
        f"{warm_up:,} instructions to warm up" if warm_up else "",
        f"{limit:,} instructions at most" if limit else "",
        f"region {source['region']} alone" if source["region"] else "",
    ]
    return ", ".join(filter(None, said))


def _headline(results: ReplayResults) -> str:
    """The result in a sentence or two, with the range that guessed values give it, as HTML."""
    translating = [row for row in results if row.group_cycles("translation")]
    if not translating:
        if any(_translates(row) for row in results):
            return f"Address translation takes nothing of {_whose_time(results[0].data['provenance'])} on these machines."
        return "None of these machines translates addresses."
    by_share = sorted(translating, key=_first_share)
    best, worst = by_share[0], by_share[-1]
    time = _whose_time(results[0].data["provenance"])
    costs = {row.interrupt_costs_cycles[0] for row in translating}
    at = f"{costs.pop()} cycles" if len(costs) == 1 else "the first cost of each machine"
    if best is worst:
        interrupts = f", with interrupts at {at}" if best.interrupt_count else ""
        return Markup("Address translation takes {} of {} on {}{}.").format(
            _share(best), time, _breakable(best.machine), interrupts
        )
    return Markup(
        "Address translation takes {} of {} on {} and {} on {}, the cheapest and the most expensive of {} "
        "machines that translate, with interrupts at {}."
    ).format(
        *(_share(best), time, _breakable(best.machine), _share(worst), _breakable(worst.machine)),
        *(len(translating), at),
    )


def _translates(row: MachineResult) -> bool:
    """Whether the machine translates addresses, also where all of it was free."""
    return row.data["provenance"]["machine"]["description"]["organisation"]["kind"] != "base"


def _whose_time(source: dict[str, Any]) -> str:
    if "schedule" in source:
        return "these programs' run time"
    if _part(source):
        return "the run time of this part of the program"
    return "this program's run time"


def _first_share(row: MachineResult) -> float:
    """The share of translation at the machine's first cost of an interrupt."""
    return row.translation_share(row.interrupt_costs_cycles[0])


def _share(row: MachineResult) -> str:
    cost = row.interrupt_costs_cycles[0]
    share = percent(_first_share(row))
    lowest, highest = map(percent, row.translation_share_range(cost))
    if not row.data["guesses"] or lowest == highest:
        return share
    return f"{share} ({lowest} to {highest}, as its guessed values go)"


def _points(difference: float) -> str:
    """Percentage points with their sign, which a difference that rounds to nothing has not."""
    return f"{difference:+.2f}" if abs(difference) >= 0.005 else "0.00"


def _breakable(name: str) -> Markup:
    """A name whose line may end between its words, as in `organisation.walk_cache_level_2`."""
    return Markup("<wbr>").join(re.split(r"(?<=[._=/])(?=\w)", name))


def _guess_rows(row: MachineResult) -> dict[str, Any]:
    """What each other value of a guess would make of a machine's share of translation."""
    cost = str(row.interrupt_costs_cycles[0])
    own = row.translation_share(int(cost))
    lowest, highest = row.translation_share_range(int(cost))
    rows = [
        {
            "changes": [(path, value_text(path, value)) for path, value in guess["set"].items()],
            "share": guess["translation_share_at"][cost],
            "difference": 100 * (guess["translation_share_at"][cost] - own),
        }
        for guess in row.data["guesses"]
        if guess["translation_share_at"][cost] != own
    ]
    rows.sort(key=lambda one: -abs(one["difference"]))
    return {
        "machine": row.machine,
        "share": own,
        "lowest": lowest,
        "highest": highest,
        "weightiest": weightiest_guess(row),
        "rows": rows,
        "without_effect": len(row.data["guesses"]) - len(rows),
    }


def _program_rows(results: ReplayResults) -> list[dict[str, Any]]:
    """What each of several programs that took turns did and cost, per thousand of its
    instructions."""
    costs = ("walks", "translation_cycles", "page_fault_cycles", "cache_cycles")
    return [
        {
            "machine": row.machine,
            "trace": program["trace"],
            "instructions": program["instructions"],
            "costs": [1000 * program[name] / max(program["instructions"], 1) for name in costs],
        }
        for row in results
        for program in row.data.get("programs", [])
    ]


def _cause_rows(results: ReplayResults) -> list[dict[str, Any]]:
    rows = []
    for cause in CAUSES:
        cells = [
            {
                "cycles": 1000 * row.cause_cycles(cause.name) / max(row.instructions, 1),
                "count": row.cause_count(cause.name),
            }
            for row in results
        ]
        if any(cell["count"] for cell in cells):
            colour = plots.CAUSE_COLOURS[cause.name]
            rows.append({"cause": cause, "colour": colour, "cells": cells})
    return rows


def _miss_rows(results: ReplayResults) -> list[dict[str, Any]]:
    rows = []
    for kind in ("tlbs", "caches"):
        names = list(dict.fromkeys(name for row in results for name in row.data[kind]))
        for name in names:
            cells: list[dict[str, Any] | None] = []
            for row in results:
                counters = row.data[kind].get(name)
                if counters is None:
                    cells.append(None)
                    continue
                references = counters["hits"] + counters["misses"]
                cells.append(
                    {
                        "misses": counters["misses"],
                        "references": references,
                        "per_thousand": 1000 * counters["misses"] / max(row.instructions, 1),
                        "rate": counters["misses"] / max(references, 1),
                    }
                )
            rows.append({"name": name, "kind": kind, "cells": cells})
    return rows


def _region_rows(translating: list[MachineResult]) -> list[dict[str, Any]]:
    """Share of each machine's translation cycles by part of the program, the most expensive parts
    first."""
    shares: dict[tuple[str, bool], dict[str, float]] = {}
    pages: dict[tuple[str, bool], int] = {}
    for row in translating:
        total = sum(region["cycles"] for region in row.data["regions"]) or 1
        for region in row.data["regions"]:
            key = (region["name"], region["executable"])
            shares.setdefault(key, {})[row.machine] = region["cycles"] / total
            pages[key] = max(pages.get(key, 0), region["pages"])
    ordered = sorted(shares, key=lambda key: (-sum(shares[key].values()), key))
    rows = [
        {
            "name": Path(name).name if name.startswith("/") else name,
            "path": name,
            "executable": executable,
            "pages": pages[name, executable],
            "cells": [shares[name, executable].get(row.machine) for row in translating],
        }
        for name, executable in ordered[:_REGIONS_SHOWN]
    ]
    if rest := ordered[_REGIONS_SHOWN:]:
        rows.append(
            {
                "name": f"{len(rest)} more",
                "path": "",
                "executable": False,
                "pages": sum(pages[key] for key in rest),
                "cells": [
                    sum(shares[key].get(row.machine, 0.0) for key in rest) for row in translating
                ],
            }
        )
    return rows


def _page_rows(row: MachineResult) -> dict[str, Any]:
    translation = row.group_cycles("translation") + row.cause_cycles("interrupt")
    pages = row.data["pages"][:_PAGES_SHOWN]
    largest = max((page["cycles"] for page in pages), default=1) or 1
    return {
        "machine": row.machine,
        "rows": [
            {
                **page,
                "walks": page["fetch_walks"] + page["data_walks"],
                "share": page["cycles"] / max(translation, 1),
                "bar": page["cycles"] / largest,
                "name": Path(page["region"]).name
                if page["region"].startswith("/")
                else page["region"],
            }
            for page in pages
        ],
    }


def _miss_curves(curves: MissCurves) -> dict[str, Any]:
    sizes = [size for size in curves.sizes() if size >= 4][:14]
    return {
        "curves": curves,
        "plot": plots.both(plots.miss_curves, curves),
        "page_sizes": PAGE_SIZES,
        "pages": [curves.curve("data", size).pages for size in PAGE_SIZES],
        "rows": [
            {
                "entries": entries,
                "cells": [
                    1000
                    * curves.curve("data", size).misses_at(entries)
                    / max(curves.instructions, 1)
                    for size in PAGE_SIZES
                ],
            }
            for entries in sizes
        ],
    }


def check_sweeps(folder: Path) -> None:
    """Raises `InputError` where a Parquet file of the folder cannot be shown as a sweep."""
    _sweeps(folder)


def _sweeps(folder: Path) -> list[dict[str, Any]]:
    return [sweep for path in sorted(folder.glob("*.parquet")) if (sweep := _sweep(path))]


def _sweep(path: Path) -> dict[str, Any] | None:
    """A sweep's table, with a plot over each parameter that it varied; nothing of a replay's
    table."""
    try:
        table = pa.parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: is not Parquet that can be read: {error}; sweep again, or move it away"
        ) from error
    columns = table.column_names
    if "instructions" not in columns or "machine" not in columns:
        raise InputError(
            f"{path}: is not a sweep: it has no columns machine and instructions; move it away"
        )
    if columns.index("instructions") == columns.index("machine") + 1:
        return None
    try:
        figures = _sweep_figures(table)
    except (KeyError, TypeError, pa.ArrowException) as error:
        raise InputError(
            f"{path}: is not a sweep of this version ({type(error).__name__}: {error}); make it again"
        ) from error
    return {"name": path.stem, "rows": table.num_rows, "plots": figures}


def _sweep_figures(table: pa.Table) -> list[dict[str, Any]]:
    columns = table.column_names
    varied = [
        name
        for name in columns[columns.index("machine") + 1 : columns.index("instructions")]
        if len(table[name].unique()) > 1
    ]
    figures = []
    for along in _leaders(table, varied):
        together = _same_steps(table, along, varied)
        axis = " and ".join(name for name in together if table[name].equals(table[along]))
        others = [name for name in varied if name not in together]
        averaged = f" The mean over all values of {', '.join(others)}." if others else ""
        for metric, title in (("vmcpi", "VMCPI"), ("mcpi", "MCPI")):
            figures.append(
                {
                    "title": f"{title} over {' and '.join(together)}",
                    "svg": plots.both(plots.sweep, table, metric, along, axis),
                    "caption": f"Cycles per instruction.{averaged}",
                }
            )
    return figures


def _same_steps(table: pa.Table, along: str, varied: list[str]) -> list[str]:
    """The parameters that step together with `along`, itself included."""
    steps = table[along].to_pylist()
    together = []
    for name in varied:
        pairs = set(zip(steps, table[name].to_pylist(), strict=True))
        if len(pairs) == len(set(steps)) == len(set(table[name].to_pylist())):
            together.append(name)
    return together


def _leaders(table: pa.Table, varied: list[str]) -> list[str]:
    """One parameter for each group of those that step together."""
    leaders: list[str] = []
    for name in varied:
        if not any(name in _same_steps(table, leader, varied) for leader in leaders):
            leaders.append(name)
    return leaders


def _size(size_bytes: float) -> str:
    """Bytes, short: 4096 as 4K."""
    if not size_bytes:
        return "0"
    step = min(int(math.log2(size_bytes)) // 10, 3)
    return f"{size_bytes / 1024**step:g}{['', 'K', 'M', 'G'][step]}"
