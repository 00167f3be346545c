"""What the 1998 study measures: one cell for each program, organisation and configuration."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import fmean
from typing import Any

from mmulab import arrow as pa
from mmulab.causes import BY_NAME

KIB = 1024

ORGANISATIONS = ["ultrix", "mach", "intel", "pa-risc", "notlb", "base"]
"""Those of the study, in its order; `inverted-hw` comes on top."""
WITH_TLB = ["ultrix", "mach", "intel", "pa-risc"]
L1_SIZES = [size * KIB for size in (1, 2, 4, 8, 16, 32, 64, 128)]
L2_SIZES = [size * KIB for size in (512, 1024, 2048)]
LINES = [16, 32, 64, 128]
HASHED = ["pa-risc", "inverted-hw"]
"""Those with a hashed inverted table, whose size follows from that of memory."""
STUDY_MEMORY_PAGES = 2048
"""8 MB: "larger than the physical memory requirements of any one benchmark" (3.1)."""
PTE_BYTES = 16
TABLE_ADDRESS = 0x8010_0000
"""Where the machine files have the table, a guess."""
TABLE_START = "organisation.hash_table.base_address"
COLLISION_TABLE_START = "organisation.collision_table.base_address"
PLOTTED_LINES = (64, 128)
"""L1 and L2 line sizes of the study's break-downs, "consistently at or near the top" (4.2)."""


@dataclasses.dataclass(frozen=True, order=True)
class Configuration:
    """A machine of the study; sizes are per side. The total of both sides labels the figures."""

    organisation: str
    l1_bytes: int
    l2_bytes: int
    l1_line_bytes: int
    l2_line_bytes: int
    tlb_entries: int = 128
    """Per side; meaningless where there is no TLB."""

    def changes(self, heads: int) -> dict[str, int]:
        """The values by dotted path that make it from the shipped machine; `heads` of the inverted
        table, where it has one."""
        values = {
            "l1i.size_bytes": self.l1_bytes,
            "l1d.size_bytes": self.l1_bytes,
            "l2.size_bytes": self.l2_bytes,
            "l1i.line_bytes": self.l1_line_bytes,
            "l1d.line_bytes": self.l1_line_bytes,
            "l2.line_bytes": self.l2_line_bytes,
        }
        if self.organisation not in ("notlb", "base"):
            values |= {"itlb.entries": self.tlb_entries, "dtlb.entries": self.tlb_entries}
        if self.organisation in HASHED:
            values |= table_changes(heads)
        return values


def table_heads(pages: int) -> int:
    """Heads of the inverted table for a program of `pages` pages.

    The study has two for each page of a memory that is larger than its programs need (3.1): of 8
    MB, and here of the next power of two where a program needs more.
    """
    memory_pages = STUDY_MEMORY_PAGES
    while memory_pages < pages:
        memory_pages *= 2
    return 2 * memory_pages


def table_changes(heads: int, offset_bytes: int = 0) -> dict[str, int]:
    """The values by dotted path of an inverted table of `heads` heads, its collision table behind
    it."""
    address = TABLE_ADDRESS + offset_bytes
    return {
        "organisation.hash_table.entries": heads,
        TABLE_START: address,
        COLLISION_TABLE_START: address + heads * PTE_BYTES,
    }


def table_moved(changes: Mapping[str, int | str], offset_bytes: int) -> dict[str, int | str]:
    """The same values with the inverted table somewhere else."""
    starts = (TABLE_START, COLLISION_TABLE_START)
    return {
        path: int(value) + offset_bytes if path in starts else value
        for path, value in changes.items()
    }


@dataclasses.dataclass(frozen=True)
class Chains:
    """Collision chains of an inverted table."""

    pages: int
    heads: int
    mean_search: float
    """Entries that a search for each page once looks at, on average."""

    @property
    def load(self) -> float:
        """Pages for each head."""
        return self.pages / self.heads


@dataclasses.dataclass(frozen=True)
class Cell:
    """What one program did on one configuration."""

    program: str
    configuration: Configuration
    instructions: int
    interrupts: int
    tlb_misses: int
    causes: Mapping[str, tuple[int, int]]
    """Count and cycles by cause."""
    chains: Chains | None = None
    """Of an inverted table; a sweep's rows do not tell."""

    def count(self, cause: str) -> int:
        """How often a cause occurred."""
        return self.causes.get(cause, (0, 0))[0]

    def cpi(self, *causes: str) -> float:
        """Cycles per instruction of some causes."""
        return sum(self.causes.get(cause, (0, 0))[1] for cause in causes) / self.instructions

    def group_cpi(self, group: str) -> float:
        """Cycles per instruction of a group of causes."""
        return self.cpi(*(cause for cause in self.causes if BY_NAME[cause].group == group))

    @property
    def mcpi(self) -> float:
        """Cycles per instruction of the program's own cache misses."""
        return self.group_cpi("cache")

    @property
    def vmcpi(self) -> float:
        """Cycles per instruction of finding translations, without interrupts."""
        return self.group_cpi("translation")

    def interrupt_cpi(self, cost_cycles: int) -> float:
        """Cycles per instruction of interrupts at a cost."""
        return self.interrupts * cost_cycles / self.instructions

    def total(self, cost_cycles: int) -> float:
        """The study's total overhead: MCPI + VMCPI + interrupts."""
        return self.mcpi + self.vmcpi + self.interrupt_cpi(cost_cycles)

    @property
    def mean_free_path(self) -> float:
        """Instructions between TLB misses."""
        return self.instructions / max(self.tlb_misses, 1)

    @property
    def cache_misses(self) -> int:
        """The program's own misses at both levels and sides."""
        return self.instruction_misses + self.data_misses

    @property
    def instruction_misses(self) -> int:
        """Of these, the instruction side's."""
        return self.count("L1i-miss") + self.count("L2i-miss")

    @property
    def data_misses(self) -> int:
        """Of these, the data side's."""
        return self.count("L1d-miss") + self.count("L2d-miss")


class Cells:
    """All cells, found by what was asked for."""

    def __init__(self, cells: Iterable[Cell]):
        self._cells = {(cell.program, cell.configuration): cell for cell in cells}

    def __len__(self) -> int:
        return len(self._cells)

    def __iter__(self) -> Iterator[Cell]:
        return iter(self._cells.values())

    def where(self, **wanted: Any) -> list[Cell]:
        """The cells whose program and configuration have these values, in a fixed order.

        A value may be a list of values that will do.
        """

        def fits(cell: Cell) -> bool:
            for name, value in wanted.items():
                own = cell.program if name == "program" else getattr(cell.configuration, name)
                if own not in value if isinstance(value, list | tuple) else own != value:
                    return False
            return True

        found = [cell for cell in self._cells.values() if fits(cell)]
        return sorted(found, key=lambda cell: (cell.program, cell.configuration))

    def like(self, cell: Cell, **changed: Any) -> Cell | None:
        """The cell that differs from this one in the given values only."""
        configuration = dataclasses.replace(cell.configuration, **changed)
        if configuration.organisation in ("notlb", "base"):
            configuration = dataclasses.replace(configuration, tlb_entries=128)
        return self._cells.get((cell.program, configuration))

    def sizes(self, name: str) -> list[int]:
        """The values of a parameter that occur, ascending."""
        return sorted({getattr(cell.configuration, name) for cell in self})

    def table(self) -> pa.Table:
        """One row a cell: the configuration, the totals, and all causes' cycles."""
        causes = sorted({cause for cell in self for cause in cell.causes})
        return pa.Table.from_pylist(
            [
                {
                    "program": cell.program,
                    **dataclasses.asdict(cell.configuration),
                    "instructions": cell.instructions,
                    "mcpi": cell.mcpi,
                    "vmcpi": cell.vmcpi,
                    "interrupts": cell.interrupts,
                    "tlb_misses": cell.tlb_misses,
                    "chain_length": cell.chains.mean_search if cell.chains else None,
                    **{f"{cause}.count": cell.count(cause) for cause in causes},
                    **{f"{cause}.cycles": cell.causes.get(cause, (0, 0))[1] for cause in causes},
                }
                for cell in self.where()
            ]
        )


def cross_product(
    l1_sizes: list[int], l2_sizes: list[int], l1_lines: list[int], l2_lines: list[int]
) -> list[Configuration]:
    """The study's table 1 over the given sizes, with 128-entry TLBs, for all its organisations."""
    return [
        Configuration(organisation, l1, l2, l1_line, l2_line)
        for organisation in ORGANISATIONS
        for l1 in l1_sizes
        for l2 in l2_sizes
        for l1_line in l1_lines
        for l2_line in l2_lines
    ]


def explained_by(
    cells: list[Cell],
    parameter: str,
    cost: Callable[[Cell], float] = lambda cell: cell.vmcpi,
) -> float:
    """Share of the variance of a cost's logarithm, by default VMCPI's, that lies between the groups
    of a parameter."""
    values = [math.log(cost(cell)) for cell in cells]
    mean = fmean(values)
    total = sum((value - mean) ** 2 for value in values)
    between = 0.0
    for line in LINES:
        group = [
            value
            for value, cell in zip(values, cells, strict=True)
            if getattr(cell.configuration, parameter) == line
        ]
        between += len(group) * (fmean(group) - mean) ** 2 if group else 0.0
    return between / total if total else 0.0
