"""Results of replay: one object per machine, with Arrow tables over all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, overload

import pyarrow as pa

from mmulab.causes import CAUSES


@dataclasses.dataclass(frozen=True)
class MachineResult:
    """What one machine made of a trace.

    `data` is the object that `--format json` prints; the properties below read it.
    """

    data: dict[str, Any]

    @property
    def machine(self) -> str:
        """The machine's name with what was changed: `ultrix dtlb.entries=64`."""
        return self.data["machine"]

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
        """The costs of one interrupt for which results stand side by side; the first is in `cycles`."""
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

    @property
    def mean_free_path(self) -> float | None:
        """Instructions between two TLB misses; None where no TLB missed."""
        return self.data["mean_free_path"]

    def cause_count(self, name: str) -> int:
        """How often a cause occurred."""
        return self.data["causes"].get(name, _NOTHING)["count"]

    def cause_cycles(self, name: str) -> int:
        """Cycles of one cause; 0 for a cause that did not occur."""
        return self.data["causes"].get(name, _NOTHING)["cycles"]

    def group_cycles(self, group: str) -> int:
        """Cycles of a group of causes: work, cache (MCPI), translation (VMCPI) or interrupt."""
        return sum(self.cause_cycles(cause.name) for cause in CAUSES if cause.group == group)

    def group_cpi(self, group: str) -> float:
        """The same per instruction."""
        return _per(self.group_cycles(group), self.instructions)


_NOTHING = {"count": 0, "cycles": 0}


def _per(amount: float, of: float) -> float:
    return amount / of if of else 0.0


class ReplayResults(Sequence[MachineResult]):
    """The results of several machines on one trace, in the order asked for."""

    def __init__(self, rows: Sequence[dict[str, Any]]):
        self._rows = [MachineResult(row) for row in rows]

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
        """What `--format json` prints: everything, but of pages only the dearest hundred."""
        return [{**row.data, "pages": row.data["pages"][:100]} for row in self._rows]

    @property
    def table(self) -> pa.Table:
        """One row per machine: totals, ratios, TLB and cache misses, and all causes as columns."""
        return table_of([flatten(row) for row in self._rows])

    @property
    def causes(self) -> pa.Table:
        """One row per machine and cause: `machine`, `cause`, `group`, `count`, `cycles`, `cpi`."""
        return pa.Table.from_pylist(
            [
                {
                    "machine": row.machine,
                    "cause": cause.name,
                    "group": cause.group,
                    "count": row.data["causes"][cause.name]["count"],
                    "cycles": row.cause_cycles(cause.name),
                    "cpi": _per(row.cause_cycles(cause.name), row.instructions),
                }
                for row in self._rows
                for cause in CAUSES
                if cause.name in row.data["causes"]
            ]
        )

    @property
    def regions(self) -> pa.Table:
        """One row per machine and region of the program: text, heap, stack, each library."""
        return self._part("regions")

    @property
    def pages(self) -> pa.Table:
        """One row per machine and page that was walked for, the dearest first."""
        return self._part("pages")

    def _part(self, name: str) -> pa.Table:
        return pa.Table.from_pylist(
            [{"machine": row.machine, **entry} for row in self._rows for entry in row.data[name]]
        )

    def __repr__(self) -> str:
        return f"<mmulab.ReplayResults of {', '.join(row.machine for row in self._rows)}>"


def flatten(row: MachineResult) -> dict[str, Any]:
    """A result as one flat row, for CSV and Parquet."""
    data = row.data
    flat: dict[str, Any] = {
        "machine": data["machine"],
        "instructions": data["instructions"],
        "cycles": data["cycles"],
        "cpi": row.cpi,
        "mcpi": data["mcpi"],
        "vmcpi": data["vmcpi"],
        "interrupts": row.interrupt_count,
    }
    for cost in row.interrupt_costs_cycles:
        flat[f"interrupt_cpi_at_{cost}_cycles"] = row.interrupt_cpi(cost)
        flat[f"translation_share_at_{cost}_cycles"] = row.translation_share(cost)
    flat["mean_free_path"] = row.mean_free_path
    for kind in ("tlbs", "caches"):
        for name, counters in data[kind].items():
            for counter, value in counters.items():
                flat[f"{name}.{counter}"] = value
    for name, account in data["causes"].items():
        flat[f"{name}.count"] = account["count"]
        flat[f"{name}.cycles"] = account["cycles"]
    flat["seconds"] = data["seconds"]
    return flat


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    """Rows as a table with all columns of all rows, in order of appearance.

    Machines differ in TLBs, caches and causes; what one does not have is null.
    """
    columns: dict[str, pa.DataType] = {}
    for row in rows:
        for name, value in row.items():
            kind = pa.scalar(value).type
            known = columns.setdefault(name, kind)
            widens = pa.types.is_floating(kind) and pa.types.is_integer(known)
            if pa.types.is_null(known) or widens:
                columns[name] = kind
    return pa.Table.from_pylist(rows, schema=pa.schema(list(columns.items())))
