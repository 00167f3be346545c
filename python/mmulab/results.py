"""Results of replay: one object per machine, with Arrow tables over all of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from mmulab import arrow as pa
from mmulab.causes import CAUSES
from mmulab.errors import InputError
from mmulab.provenance import distinct, flat_provenance


@dataclasses.dataclass(frozen=True)
class MachineResult:
    """What one machine made of a trace.

    `data` is the object that `--format json` prints; the properties below read it.
    """

    data: dict[str, Any]

    @property
    def machine(self) -> str:
        """The machine's name with what was changed: `ultrix dtlb.entries=64`. No other machine of
        the same results has it."""
        return self.data["machine"]

    @property
    def trace(self) -> str:
        """The trace's file."""
        return self.data["trace"]

    @property
    def instructions(self) -> int:
        """Instructions of the program; handlers' instructions are not among them."""
        return self.data["instructions"]

    @property
    def cycles(self) -> int:
        """All cycles, interrupts at the machine's first cost included: the sum of the causes."""
        return self.data["cycles"]

    @property
    def cpi(self) -> float:
        """Cycles per instruction, over all causes."""
        return _per(self.cycles, self.instructions)

    @property
    def mcpi(self) -> float:
        """Cycles per instruction that the program's own cache misses take."""
        return self.data["mcpi"]

    @property
    def vmcpi(self) -> float:
        """Cycles per instruction that finding translations takes, without interrupts."""
        return self.data["vmcpi"]

    @property
    def interrupt_costs_cycles(self) -> list[int]:
        """The costs of one interrupt for which results stand side by side; the first is in
        `cycles`."""
        return [int(cost) for cost in self.data["interrupts"]["cycles_at_cost"]]

    @property
    def interrupt_count(self) -> int:
        """Precise interrupts: entries into miss handlers, and copy-on-write faults."""
        return self.data["interrupts"]["count"]

    def interrupt_cpi(self, cost_cycles: int) -> float:
        """Cycles per instruction of all interrupts, at `cost_cycles` each."""
        return _per(self.interrupt_count * cost_cycles, self.instructions)

    def cycles_at(self, cost_cycles: int) -> int:
        """All cycles, with interrupts at `cost_cycles` each."""
        return self.cycles - self.group_cycles("interrupt") + self.interrupt_count * cost_cycles

    def translation_share(self, cost_cycles: int) -> float:
        """The share (0 to 1) of run time that translation takes: VMCPI and its interrupts.

        Copy-on-write faults are part of the run time and not of translation.
        """
        interrupts = self.cause_count("interrupt") * cost_cycles
        return _per(self.group_cycles("translation") + interrupts, self.cycles_at(cost_cycles))

    def translation_share_range(self, cost_cycles: int) -> tuple[float, float]:
        """The least and the most that `translation_share` would be if one guess of the machine's
        file were another value of its range. Raises `InputError` for a cost that is not one of the
        machine's."""
        costs = self.interrupt_costs_cycles
        if cost_cycles not in costs:
            listed = ", ".join(map(str, costs))
            raise InputError(
                f"{cost_cycles}: is no interrupt cost of {self.machine}; it has {listed}"
            )
        others = (guess["translation_share_at"][str(cost_cycles)] for guess in self.data["guesses"])
        shares = [self.translation_share(cost_cycles), *others]
        return min(shares), max(shares)

    @property
    def mean_free_path(self) -> float | None:
        """Instructions between two TLB misses that need a walk; None where none does."""
        return self.data["mean_free_path"]

    def cause_count(self, name: str) -> int:
        """How often a cause occurred."""
        return self.data["causes"][name]["count"]

    def cause_cycles(self, name: str) -> int:
        """Cycles of one cause."""
        return self.data["causes"][name]["cycles"]

    def group_cycles(self, group: str) -> int:
        """Cycles of a group of causes: work, cache (MCPI), translation (VMCPI), interrupt or page
        fault."""
        return sum(self.cause_cycles(cause.name) for cause in CAUSES if cause.group == group)

    def group_cpi(self, group: str) -> float:
        """The same per instruction."""
        return _per(self.group_cycles(group), self.instructions)


def _per(amount: float, of: float) -> float:
    return amount / of if of else 0.0


class ReplayResults(Sequence[MachineResult]):
    """The results of several machines on one trace, or on those of several processes, in the order
    asked for."""

    def __init__(self, rows: Sequence[dict[str, Any]], *, seconds: float | None = None):
        self.seconds = seconds
        """How long the replay took; None where it was read from a file. No part of the results."""
        # Rows may come from files that were put together: two machines never go by one name.
        traces = list(dict.fromkeys(row["trace"] for row in rows))
        self._rows = [
            MachineResult({**row, "machine": machine})
            for trace in traces
            for row, machine in _named_apart([row for row in rows if row["trace"] == trace])
        ]

    @overload
    def __getitem__(self, key: int | str) -> MachineResult: ...
    @overload
    def __getitem__(self, key: slice) -> list[MachineResult]: ...
    def __getitem__(self, key: int | slice | str) -> MachineResult | list[MachineResult]:
        """By place, or by machine: `results["ultrix"]`."""
        if not isinstance(key, str):
            return self._rows[key]
        for row in self._rows:
            if row.machine == key:
                return row
        raise KeyError(key)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[MachineResult]:
        return iter(self._rows)

    def to_dicts(self) -> list[dict[str, Any]]:
        """What `--format json` prints: everything, but of pages only the hundred most expensive."""
        return [{**row.data, "pages": row.data["pages"][:100]} for row in self._rows]

    @property
    def table(self) -> pa.Table:
        """One row per machine: totals, ratios, TLB and cache misses, all causes, provenance.

        The columns are always the same, but for those of the machines' interrupt costs. What a
        machine does not have is null.
        """
        costs = sorted({cost for row in self._rows for cost in row.interrupt_costs_cycles})
        return pa.Table.from_pylist([flatten(row) for row in self._rows], schema=flat_schema(costs))

    @property
    def causes(self) -> pa.Table:
        """One row per machine and cause, also for those that did not occur."""
        rows = [
            {
                "trace": row.trace,
                "machine": row.machine,
                "cause": cause.name,
                "group": cause.group,
                "count": row.cause_count(cause.name),
                "cycles": row.cause_cycles(cause.name),
                "cpi": _per(row.cause_cycles(cause.name), row.instructions),
            }
            for row in self._rows
            for cause in CAUSES
        ]
        return pa.Table.from_pylist(rows, schema=_schema(_CAUSES_COLUMNS))

    @property
    def regions(self) -> pa.Table:
        """One row per machine and region of the program: text, heap, stack, each library."""
        return self._part("regions", _REGIONS_COLUMNS)

    @property
    def pages(self) -> pa.Table:
        """One row per machine and page whose translation cost something, the most expensive
        first."""
        return self._part("pages", _PAGES_COLUMNS)

    @property
    def guesses(self) -> pa.Table:
        """One row per machine and other value of a guess: what it would make of the result."""
        rows = [
            {
                "trace": row.trace,
                "machine": row.machine,
                "set": json.dumps(guess["set"]),
                "interrupt_cost_cycles": int(cost),
                "vmcpi": guess["vmcpi"],
                "translation_share": share,
            }
            for row in self._rows
            for guess in row.data["guesses"]
            for cost, share in guess["translation_share_at"].items()
        ]
        return pa.Table.from_pylist(rows, schema=_schema(_GUESSES_COLUMNS))

    def _part(self, name: str, columns: dict[str, str]) -> pa.Table:
        rows = [
            {"trace": row.trace, "machine": row.machine, **entry}
            for row in self._rows
            for entry in row.data[name]
        ]
        return pa.Table.from_pylist(rows, schema=_schema(columns))

    def by_trace(self) -> dict[str, ReplayResults]:
        """The results of each process, by its trace."""
        traces = dict.fromkeys(row.trace for row in self._rows)
        return {
            trace: ReplayResults([row.data for row in self._rows if row.trace == trace])
            for trace in traces
        }

    def __repr__(self) -> str:
        return f"<mmulab.ReplayResults of {', '.join(row.machine for row in self._rows)}>"


def _named_apart(rows: list[dict[str, Any]]) -> Iterator[tuple[dict[str, Any], str]]:
    """Rows of one trace, each with a name that no other has."""
    machines = [row["provenance"]["machine"] for row in rows]
    names = distinct(
        [row["machine"] for row in rows],
        [machine["file"] or "" for machine in machines],
        [f"#{machine['sha256'][:8]}" for machine in machines],
    )
    return zip(rows, names, strict=True)


def _schema(columns: Mapping[str, str]) -> pa.Schema:
    """Of a table with these columns, by the names of their types, after the trace and the
    machine."""
    return pa.schema([("trace", "string"), ("machine", "string"), *columns.items()])


_CAUSES_COLUMNS = {
    "cause": "string",
    "group": "string",
    "count": "int64",
    "cycles": "int64",
    "cpi": "float64",
}
_REGIONS_COLUMNS = {
    "name": "string",
    "executable": "bool",
    "pages": "int64",
    "walks": "int64",
    "cycles": "int64",
}
_PAGES_COLUMNS = {
    "address": "uint64",
    "size_bytes": "int64",
    "region": "string",
    "fetch_walks": "int64",
    "data_walks": "int64",
    "cycles": "int64",
}
_GUESSES_COLUMNS = {
    "set": "string",
    "interrupt_cost_cycles": "int64",
    "vmcpi": "float64",
    "translation_share": "float64",
}
_TLBS = ["itlb", "dtlb", "stlb"]
_TLB_COUNTERS = ["hits", "misses", "nested_hits", "nested_misses"]
_CACHES = ["L1", "L1i", "L1d", "L2", "L2i", "L2d", "L3", "L3i", "L3d"]
_CACHE_COUNTERS = ["hits", "misses", "store_misses", "write_backs"]


def flat_schema(costs_cycles: Sequence[int]) -> pa.Schema:
    """The columns of `flatten` for machines with these interrupt costs, whatever the data."""
    ratios = [
        f"{ratio}_at_{cost}_cycles{end}"
        for cost in costs_cycles
        for ratio, end in (
            ("interrupt_cpi", ""),
            ("translation_share", ""),
            ("translation_share", "_lowest"),
            ("translation_share", "_highest"),
        )
    ]
    counters = [f"{tlb}.{counter}" for tlb in _TLBS for counter in _TLB_COUNTERS]
    counters += [f"{cache}.{counter}" for cache in _CACHES for counter in _CACHE_COUNTERS]
    counters += [f"{cause.name}.{part}" for cause in CAUSES for part in ("count", "cycles")]
    return _schema(
        {
            "instructions": "int64",
            "cycles": "int64",
            "cpi": "float64",
            "mcpi": "float64",
            "vmcpi": "float64",
            "interrupts": "int64",
            **dict.fromkeys(ratios, "float64"),
            "mean_free_path": "float64",
            **dict.fromkeys(counters, "int64"),
            "mmulab": "string",
            "seed": "uint64",
            "skip": "uint64",
            "warm_up": "uint64",
            "limit": "uint64",
            "region": "string",
            "symbol_files": "string",
            "trace_sha256": "string",
            "machine_sha256": "string",
            "set": "string",
            "machine_description": "string",
        }
    )


def flatten(row: MachineResult) -> dict[str, Any]:
    """A result as one flat row, for CSV and Parquet."""
    data = row.data
    flat: dict[str, Any] = {
        "trace": row.trace,
        "machine": row.machine,
        "instructions": data["instructions"],
        "cycles": data["cycles"],
        "cpi": row.cpi,
        "mcpi": data["mcpi"],
        "vmcpi": data["vmcpi"],
        "interrupts": row.interrupt_count,
    }
    for cost in row.interrupt_costs_cycles:
        share = f"translation_share_at_{cost}_cycles"
        flat[f"interrupt_cpi_at_{cost}_cycles"] = row.interrupt_cpi(cost)
        flat[share] = row.translation_share(cost)
        if data["guesses"]:
            flat[f"{share}_lowest"], flat[f"{share}_highest"] = row.translation_share_range(cost)
    flat["mean_free_path"] = row.mean_free_path
    for kind in ("tlbs", "caches"):
        for name, counters in data[kind].items():
            for counter, value in counters.items():
                flat[f"{name}.{counter}"] = value
    for name, account in data["causes"].items():
        flat[f"{name}.count"] = account["count"]
        flat[f"{name}.cycles"] = account["cycles"]
    return {**flat, **flat_provenance(data["provenance"])}
