"""Who pays: costs of a replay by function, source line and path of calls."""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any

from mmulab import _engine
from mmulab import arrow as pa
from mmulab.errors import InputError
from mmulab.provenance import provenance, trace_provenance
from mmulab.replaying import (
    MachineLike,
    ProgressCallback,
    check_anything_counted,
    check_part,
    load_machines,
    outcome_row,
)
from mmulab.results import MachineResult

COSTS = {
    "instructions": "Instructions",
    "walks": "Page-table walks",
    "translation_cycles": "Cycles of translation",
    "page_fault_cycles": "Cycles of page faults",
    "cache_cycles": "Cycles of cache misses",
}
"""What is counted for each piece of code, and its title."""


class Cost(StrEnum):
    """One of `COSTS`."""

    instructions = "instructions"
    walks = "walks"
    translation_cycles = "translation_cycles"
    page_fault_cycles = "page_fault_cycles"
    cache_cycles = "cache_cycles"


class By(StrEnum):
    """What a row of a table stands for."""

    function = "function"
    line = "line"


class Profile:
    """What each piece of a program's code costs on a machine."""

    def __init__(
        self, outcome: dict[str, Any], raw: dict[str, Any], *, seconds: float | None = None
    ):
        self.outcome = MachineResult(outcome)
        """The whole: what `replay` gives for the same machine."""
        self.seconds = seconds
        """How long it took. No part of the result."""
        self._functions: list[dict[str, Any]] = raw["functions"]
        self._lines: list[dict[str, Any]] = raw["lines"]
        self._paths: list[dict[str, Any]] = raw["paths"]

    @property
    def instructions(self) -> int:
        """Instructions of the program."""
        return self.outcome.instructions

    def to_dict(self) -> dict[str, Any]:
        """The contract: the outcome, then functions, lines (a function by its place) and paths
        (likewise; `parent` is the place of the caller's path)."""
        return {
            "outcome": self.outcome.data,
            "functions": self._functions,
            "lines": self._lines,
            "paths": self._paths,
        }

    def table(
        self, by: By | str = By.function, cost: Cost | str = "translation_cycles"
    ) -> pa.Table:
        """A row for each function or line, the one with most of `cost` first.

        Costs are those of its own code; of functions also inclusive ones, with what they call,
        where calls are known: a recursion counts once.
        """
        rows = list(self._function_rows() if By(by) is By.function else self._line_rows())
        name = Cost(cost).value
        rows.sort(key=lambda row: (-row[name], -row["instructions"], *map(str, row.values())))
        # Also in a program whose files and lines are not known, they have their types.
        types = {"function": "string", "object": "string", "file": "string"}
        schema = pa.schema([(name, types.get(name, "int64")) for name in rows[0]])
        return pa.Table.from_pylist(rows, schema=schema)

    @property
    def has_calls(self) -> bool:
        """Whether any call was found; without one, inclusive costs are a function's own."""
        return any(path["parent"] is not None for path in self._paths)

    def _function_rows(self) -> Iterator[dict[str, Any]]:
        own: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COSTS, 0))
        calls: dict[int, int] = defaultdict(int)
        for path in self._paths:
            _add(own[path["function"]], path["cost"])
            calls[path["function"]] += path["calls"]
        inclusive = self._inclusive_by_function()
        for number, costs in own.items():
            function = self._functions[number]
            yield {
                "function": self._name(number),
                "object": function["object"],
                "address": function["address"],
                "calls": calls[number],
                **costs,
                **{f"inclusive_{name}": value for name, value in inclusive[number].items()},
            }

    def _line_rows(self) -> Iterator[dict[str, Any]]:
        for line in self._lines:
            if not any(line["cost"].values()):
                continue  # outside of the region that counts
            yield {
                "function": self._name(line["function"]),
                "object": self._functions[line["function"]]["object"],
                "file": line["file"] or None,
                "line": line["line"] or None,
                **line["cost"],
            }

    def _name(self, number: int) -> str:
        function = self._functions[number]
        if function["name"]:
            return str(function["name"])
        return f"({function['object'].rsplit('/', 1)[-1] or 'unknown'})"

    def _inclusive(self) -> list[dict[str, int]]:
        """The costs of each path with all that continue it."""
        costs = [dict(path["cost"]) for path in self._paths]
        for number in range(len(costs) - 1, -1, -1):
            parent = self._paths[number]["parent"]
            if parent is not None:
                _add(costs[parent], costs[number])
        return costs

    def _outermost(self, edges: bool) -> Iterator[tuple[Any, int]]:
        """The functions, or calls from one to another, of which no path above has the same; and the
        path."""
        continued: dict[int | None, list[int]] = defaultdict(list)
        for number, path in enumerate(self._paths):
            continued[path["parent"]].append(number)
        on_path: dict[Any, int] = defaultdict(int)
        # Paths to enter, and those to leave as their complement.
        to_do = continued[None][::-1]
        while to_do:
            number = to_do.pop()
            path = self._paths[max(number, ~number)]
            parent = path["parent"]
            caller = self._paths[parent]["function"] if parent is not None else None
            key = (caller, path["function"]) if edges else path["function"]
            if number < 0:
                on_path[key] -= 1
                continue
            if not on_path[key] and not (edges and caller is None):
                yield key, number
            on_path[key] += 1
            to_do.append(~number)
            to_do += continued[number][::-1]

    def _inclusive_by_function(self) -> dict[int, dict[str, int]]:
        inclusive = self._inclusive()
        found: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(COSTS, 0))
        for function, number in self._outermost(edges=False):
            _add(found[function], inclusive[number])
        return found

    def stacks(self, cost: Cost | str = "translation_cycles") -> str:
        """Collapsed stacks: a line for each path, functions separated by semicolons, then the cost.
        This is what flamegraph.pl, inferno and speedscope read."""
        name = Cost(cost).value
        lines = [
            f"{';'.join(self._name(it).replace(';', ':') for it in stack)} {costs[name]}\n"
            for stack, costs in self._stacks()
            if costs[name]
        ]
        return "".join(sorted(lines))

    def _stacks(self) -> Iterator[tuple[list[int], dict[str, int]]]:
        """Functions from the outermost, and the costs of the last one's own code."""
        for path in self._paths:
            if any(path["cost"].values()):
                stack = [path["function"]]
                parent = path["parent"]
                while parent is not None:
                    stack.append(self._paths[parent]["function"])
                    parent = self._paths[parent]["parent"]
                yield stack[::-1], path["cost"]

    def speedscope(self) -> str:
        """A file for speedscope.app, with a profile for each kind of cost."""
        stacks = list(self._stacks())
        profiles = []
        for name, title in COSTS.items():
            chosen = [(stack, costs[name]) for stack, costs in stacks if costs[name]]
            profiles.append(
                {
                    "type": "sampled",
                    "name": title,
                    "unit": "none",
                    "startValue": 0,
                    "endValue": sum(weight for _, weight in chosen),
                    "samples": [stack for stack, _ in chosen],
                    "weights": [weight for _, weight in chosen],
                }
            )
        frames = [
            {"name": self._name(number), "file": function["object"]}
            for number, function in enumerate(self._functions)
        ]
        return json.dumps(
            {
                "$schema": "https://www.speedscope.app/file-format-schema.json",
                "exporter": f"mmulab {_engine.VERSION}",
                "name": f"{self.outcome.data['trace']} on {self.outcome.machine}",
                "activeProfileIndex": list(COSTS).index("translation_cycles"),
                "shared": {"frames": frames},
                "profiles": profiles,
            }
        )

    def callgrind(self) -> str:
        """A file in the format of callgrind, for KCachegrind, QCachegrind and
        callgrind_annotate."""
        data = self.outcome.data
        symbols = self._symbols()
        events = {name: "".join(w.capitalize() for w in name.split("_")) for name in COSTS}
        lines = [
            "# callgrind format",
            "version: 1",
            f"creator: mmulab {_engine.VERSION}",
            f"cmd: {data['trace']} on {self.outcome.machine}",
            "positions: line",
            *(f"event: {events[name]} : {title}" for name, title in COSTS.items()),
            f"events: {' '.join(events.values())}",
            "",
        ]
        by_function: dict[int, list[dict[str, Any]]] = defaultdict(list)
        for line in self._lines:
            by_function[line["function"]].append(line)
        calls: dict[tuple[int, int], int] = defaultdict(int)
        costs: dict[tuple[int, int], dict[str, int]] = defaultdict(lambda: dict.fromkeys(COSTS, 0))
        for path in self._paths:
            if path["parent"] is not None:
                caller = self._paths[path["parent"]]["function"]
                calls[caller, path["function"]] += path["calls"]
        inclusive = self._inclusive()
        for edge, number in self._outermost(edges=True):
            _add(costs[edge], inclusive[number])
        callees: dict[int, list[int]] = defaultdict(list)
        for caller, callee in calls:
            callees[caller].append(callee)
        for number, function in enumerate(self._functions):
            own = by_function[number]
            file = next((line["file"] for line in own if line["file"]), "???")
            lines += [f"ob={function['object'] or '???'}", f"fl={file}", f"fn={symbols[number]}"]
            current = file
            for line in own:
                here = line["file"] or file
                if here != current:
                    lines.append(f"fi={here}" if here != file else f"fe={here}")
                    current = here
                lines.append(f"{line['line']} {_numbers(line['cost'])}")
            for callee in callees[number]:
                lines += [
                    f"cob={self._functions[callee]['object'] or '???'}",
                    f"cfi={next((it['file'] for it in by_function[callee] if it['file']), '???')}",
                    f"cfn={symbols[callee]}",
                    # Some callees' calls are not counted, but costs after `calls=0` would be the
                    # caller's own.
                    f"calls={calls[number, callee] or 1} 0",
                    f"0 {_numbers(costs[number, callee])}",
                ]
            lines.append("")
        totals: dict[str, int] = dict.fromkeys(COSTS, 0)
        for line in self._lines:
            _add(totals, line["cost"])
        return "\n".join([*lines, f"totals: {_numbers(totals)}", ""])

    def _symbols(self) -> list[str]:
        """A name for each function that no other has: callgrind_annotate adds up those of one name,
        whatever their objects."""
        names = [self._name(number) for number in range(len(self._functions))]
        namesakes = Counter(names)
        return [
            f"{name}@{it['address']:#x}" if namesakes[name] > 1 else name
            for name, it in zip(names, self._functions, strict=True)
        ]


def _add(sum_: dict[str, int], more: dict[str, int]) -> None:
    for name, value in more.items():
        sum_[name] += value


def _numbers(costs: dict[str, int]) -> str:
    return " ".join(str(costs[name]) for name in COSTS)


def profile(
    trace: str | os.PathLike[str],
    machine: MachineLike,
    *,
    seed: int = 1,
    skip: int = 0,
    warm_up: int = 0,
    limit: int | None = None,
    region: str | None = None,
    partial: bool = False,
    progress: ProgressCallback | None = None,
) -> Profile:
    """Replays a trace on a machine and attributes its costs to functions, lines and paths of calls.

    Arguments and errors are those of `replay`. Names come from the ELF files that the program had
    mapped, if they are where they were. Calls are found in what x86 programs store and load.
    """
    seed, skip, warm_up, limit = check_part(seed, skip, warm_up, limit, region)
    machines = load_machines(machine)
    if len(machines) != 1:
        raise InputError(f"{len(machines)} machines: a profile takes one machine at a time")
    [loaded] = machines
    start = time.perf_counter()
    outcome, raw = _engine.profile(
        os.fspath(trace),
        loaded._engine,
        seed=seed,
        skip=skip,
        warm_up=warm_up,
        limit=limit,
        region=region,
        partial=partial,
        progress=progress,
    )
    seconds = time.perf_counter() - start
    check_anything_counted(os.fspath(trace), outcome, skip, warm_up, limit, region)
    row = outcome_row(outcome, Path(trace).name, loaded.label)
    row["guesses"] = []
    row["provenance"] = provenance(
        trace_provenance(trace),
        loaded,
        outcome["symbol_files"],
        seed=seed,
        skip=skip,
        warm_up=warm_up,
        limit=limit,
        region=region,
    )
    return Profile(row, raw, seconds=seconds)
