"""Experiments beside the 1998 study's cross product, which say why a claim holds or differs.

Each changes one thing of a machine, with 32 KB and 2 MB a side and lines of 64 and 128 bytes. None
of them decides a claim.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from mmulab import arrow as pa
from mmulab.papers.vm_study_cells import (
    KIB,
    ORGANISATIONS,
    PLOTTED_LINES,
    STUDY_MEMORY_PAGES,
    Cell,
    Configuration,
    table_changes,
)

FOUR_WAYS = {
    f"{cache}.{key}": value
    for cache in ("l1i", "l1d", "l2")
    for key, value in (("ways", 4), ("replacement", "lru"))
}
LRU = {"itlb.replacement": "lru", "dtlb.replacement": "lru"}


def entries(number: int) -> dict[str, int]:
    """TLBs of another size."""
    return {"itlb.entries": number, "dtlb.entries": number}


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A machine of the study with one thing changed."""

    name: str
    organisation: str
    changes: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    heads: int | None = None
    """Of the inverted table, where not those that the program's pages ask for."""
    table_offset_kib: int = 0
    """The inverted table moved up by so much, and so to other sets of the caches."""

    @property
    def configuration(self) -> Configuration:
        """Caches and TLB as the study has them, before the change."""
        return Configuration(self.organisation, 32 * KIB, 2048 * KIB, *PLOTTED_LINES)

    @property
    def is_plain(self) -> bool:
        """Whether it is one of the study's own machines."""
        return not self.changes and self.heads is None and self.table_offset_kib == 0

    def all_changes(self, heads: int) -> dict[str, int | str]:
        """Everything by which the machine differs from the shipped file."""
        heads = self.heads or heads
        changes: dict[str, int | str] = {**self.configuration.changes(heads), **self.changes}
        if self.table_offset_kib:
            changes |= table_changes(heads, self.table_offset_kib * KIB)
        return changes


TABLE_OFFSETS_KIB = (256, 512, 768)

EXPERIMENTS = [
    *(Experiment(name, name) for name in [*ORGANISATIONS, "inverted-hw"]),
    *(
        Experiment(f"{name}, 4-way caches", name, FOUR_WAYS)
        for name in ("base", "ultrix", "intel", "pa-risc", "inverted-hw")
    ),
    *(
        Experiment(f"{name}, {2 * STUDY_MEMORY_PAGES:,} heads", name, heads=2 * STUDY_MEMORY_PAGES)
        for name in ("pa-risc", "inverted-hw")
    ),
    *(
        Experiment(
            f"inverted-hw, table {offset} KB further", "inverted-hw", table_offset_kib=offset
        )
        for offset in TABLE_OFFSETS_KIB
    ),
    Experiment("intel, 112 entries", "intel", entries(112)),
    Experiment("intel, LRU", "intel", LRU),
    Experiment("intel, LRU, 112 entries", "intel", {**LRU, **entries(112)}),
    Experiment(
        "mach, 4 protected slots",
        "mach",
        {"itlb.protected_entries": 4, "dtlb.protected_entries": 4},
    ),
    Experiment(
        "mach, administrative loads side by side",
        "mach",
        {"organisation.administrative_loads.stride_bytes": 4},
    ),
]


class Evidence:
    """What the experiments found, by program and name."""

    def __init__(self, found: Mapping[tuple[str, str], Cell]):
        self.found = dict(found)

    def of(self, program: str, experiment: str) -> Cell:
        """One experiment with one program."""
        return self.found[program, experiment]

    def plain(self) -> list[Cell]:
        """The cells of unchanged machines."""
        unchanged = {experiment.name for experiment in EXPERIMENTS if experiment.is_plain}
        return [cell for (_, name), cell in self.found.items() if name in unchanged]

    def more_misses(self, program: str, experiment: str) -> float:
        """By what share the program misses its caches more often than without virtual memory."""
        base = "base, 4-way caches" if "4-way" in experiment else "base"
        return self.of(program, experiment).cache_misses / self.of(program, base).cache_misses - 1

    def table(self) -> pa.Table:
        """One row for each program and experiment."""
        return pa.Table.from_pylist(
            [
                {
                    "program": program,
                    "experiment": name,
                    "mcpi": cell.mcpi,
                    "vmcpi": cell.vmcpi,
                    "uhandler": cell.cpi("uhandler"),
                    "upte-L2": cell.cpi("upte-L2"),
                    "upte-MEM": cell.cpi("upte-MEM"),
                    "root path": cell.cpi(
                        *(cause for cause in cell.causes if cause.startswith(("k", "r")))
                    ),
                    "mean free path": cell.mean_free_path if cell.tlb_misses else None,
                    "mean search": cell.chains.mean_search if cell.chains else None,
                    "table load": cell.chains.load if cell.chains else None,
                    "more misses": self.more_misses(program, name),
                }
                for (program, name), cell in self.found.items()
            ]
        )
