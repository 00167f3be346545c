"""What the computer says of itself: its processor, caches, TLBs and whether it is virtual."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from mmulab import _engine

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True)
class Cache:
    """A cache: level from the core, "Data", "Instruction" or "Unified", its size and ways."""

    level: int
    kind: str
    size_bytes: int
    ways: int


@dataclass(frozen=True)
class Tlb:
    """A TLB, or the part of one for pages of these sizes."""

    level: int
    data: bool
    instructions: bool
    page_sizes: list[str]
    entries: int
    ways: int


@dataclass(frozen=True)
class Reported:
    """All of it. Lists are empty where the computer says nothing."""

    processor: str
    kernel: str
    hypervisor: bool
    caches: list[Cache]
    tlbs: list[Tlb]

    def cache(self, level: int, kind: str) -> Cache | None:
        """The cache of a level that holds this kind; a unified one holds both."""
        for cache in self.caches:
            if cache.level == level and cache.kind in (kind, "Unified"):
                return cache
        return None

    def tlb(self, level: int, page_size: str, data: bool = True) -> Tlb | None:
        """The TLB of a level that holds such pages of this side."""
        for tlb in self.tlbs:
            side = tlb.data if data else tlb.instructions
            if tlb.level == level and side and page_size in tlb.page_sizes:
                return tlb
        return None


def reported() -> Reported:
    """Asks CPUID and the kernel (/proc/cpuinfo, /sys/devices/system/cpu)."""
    processor, flags = _cpuinfo()
    return Reported(
        processor=processor or platform.machine(),
        kernel=f"{platform.system()} {platform.release()}",
        hypervisor="hypervisor" in flags,
        caches=sorted(_caches(), key=lambda cache: (cache.level, cache.kind)),
        tlbs=[Tlb(*row) for row in _engine.reported_tlbs()],
    )


def _cpuinfo() -> tuple[str, list[str]]:
    processor, flags = "", []
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            processor = value.strip()
        elif key.strip() == "flags":
            flags = value.split()
    return processor, flags


def _caches() -> list[Cache]:
    found = []
    for folder in _CACHES.glob("index*"):
        try:
            level, kind, size, ways = (
                (folder / name).read_text(encoding="ascii").strip()
                for name in ("level", "type", "size", "ways_of_associativity")
            )
        except OSError:
            continue
        found.append(Cache(int(level), kind, int(size.rstrip("K")) * 1024, int(ways)))
    return found
