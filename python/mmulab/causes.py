"""What the ledger's causes mean, for tables, plots and the report.

The names are those of Jacob and Mudge's study (1998, tables 2 and 3). `L1i-miss` counts misses of
the first-level instruction cache and their cycles; `upte-L2` counts page-table entries of the user
tier that missed the first level, and so on.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Cause:
    """One reason to spend cycles."""

    name: str
    group: str
    """`work`, `cache` (MCPI), `translation` (VMCPI), `interrupt` or `page fault`."""
    text: str


CAUSES = [
    Cause("issue", "work", "the program's own instructions"),
    Cause("L1i-miss", "cache", "instruction fetches that missed the first level"),
    Cause("L2i-miss", "cache", "instruction fetches that missed the second level"),
    Cause("L3i-miss", "cache", "instruction fetches that missed the third level"),
    Cause("L1d-miss", "cache", "data references that missed the first level"),
    Cause("L2d-miss", "cache", "data references that missed the second level"),
    Cause("L3d-miss", "cache", "data references that missed the third level"),
    Cause(
        "uhandler", "translation", "the user-level miss handler, or the walking hardware, at work"
    ),
    Cause(
        "upte-L2", "translation", "page-table entries of the user tier that missed the first level"
    ),
    Cause(
        "upte-L3", "translation", "page-table entries of the user tier that missed the second level"
    ),
    Cause("upte-MEM", "translation", "page-table entries of the user tier from memory"),
    Cause("khandler", "translation", "the kernel-level miss handler at work"),
    Cause(
        "kpte-L2",
        "translation",
        "page-table entries of the kernel tier that missed the first level",
    ),
    Cause(
        "kpte-L3",
        "translation",
        "page-table entries of the kernel tier that missed the second level",
    ),
    Cause("kpte-MEM", "translation", "page-table entries of the kernel tier from memory"),
    Cause("rhandler", "translation", "the root-level miss handler at work"),
    Cause("rpte-L2", "translation", "upper page-table entries that missed the first level"),
    Cause("rpte-L3", "translation", "upper page-table entries that missed the second level"),
    Cause("rpte-MEM", "translation", "upper page-table entries from memory"),
    Cause("host-walk", "translation", "walks in a hypervisor's tables"),
    Cause("hpte-L2", "translation", "entries of a hypervisor's tables that missed the first level"),
    Cause(
        "hpte-L3", "translation", "entries of a hypervisor's tables that missed the second level"
    ),
    Cause("hpte-MEM", "translation", "entries of a hypervisor's tables from memory"),
    Cause("tlb-prefetch", "translation", "walks for the next page, which nothing waits for"),
    Cause("overlapped-walk", "translation", "walks beside others: what is waited for beyond these"),
    Cause("shootdown", "translation", "a core that unmapped pages waited for the others"),
    Cause("shootdown-interrupt", "translation", "interrupts of cores that ran what was unmapped"),
    Cause("handler-L2", "translation", "handler code that missed the first level"),
    Cause("handler-L3", "translation", "handler code that missed the second level"),
    Cause("handler-MEM", "translation", "handler code fetched from memory"),
    Cause("stlb", "translation", "look-ups that went on to the second-level TLB"),
    Cause("interrupt", "interrupt", "precise interrupts that enter a miss handler"),
    Cause("cow-interrupt", "interrupt", "interrupts of copy-on-write faults"),
    Cause("small-page-fault", "page fault", "first touches of 4 KB of anonymous memory"),
    Cause("large-page-fault", "page fault", "first touches of 2 MB of anonymous memory"),
    Cause("file-page-fault", "page fault", "first touches of a file's pages"),
    Cause("promotion", "page fault", "blocks whose small pages became a large one"),
]
"""All causes of replay, in the order in which tables and plots show them."""

BY_NAME = {cause.name: cause for cause in CAUSES}
