"""What is measured: series of points, each the cycles of an access over one size of a pattern."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mmulab import _engine
from mmulab.errors import MmulabError

SAMPLES = 7
PASSES = 3
"""All is measured this many times; of each point the fastest pass counts, since what else runs on
the computer only ever makes it slower."""
PAGES_BESIDES = 24
"""Large pages in the series of both sizes: fewer than an array of their own holds in most cores,
and enough to be missed in one that is shared."""
FAULTS_BYTES = 256 << 20
"""First touches of small and of large pages are of as much memory, more than caches hold of what
the kernel zeroes."""
LINE_BYTES = 64
PAGE_BYTES = 4096
HUGE_PAGE_BYTES = 2 << 20


@dataclass(frozen=True)
class Point:
    """One measurement: at `x`, in cycles, the median of the samples and its quartiles."""

    x: int
    cycles: float
    low: float
    high: float


Series = list[Point]
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Measurements:
    """All series of one computer, by name (see `SERIES`), and the length of a cycle."""

    cycle_ns: float
    series: dict[str, Series]
    skipped: dict[str, str]
    """Series that could not be measured here, and why."""


SERIES = {
    "loads": "latency of a load over a working set of lines in 2 MB pages (x: bytes)",
    "loads_4k": "the same in 4 KB pages (x: bytes)",
    "loads_of_pages": "as many lines as tlb_4k has, side by side in 2 MB pages (x: lines)",
    "tlb_4k": "latency of a load over one line in each 4 KB page (x: pages)",
    "tlb_2m": "latency of a load over one line in each 2 MB page (x: pages)",
    "tlb_parts": "latency of a load over one line in each 4 KB of 2 MB pages (x: lines)",
    "tlb_both": "as tlb_4k, with one line in each of 24 2 MB pages besides (x: 4 KB pages)",
    "tlb_same_set": "latency of a load over one line in each 4 KB page, pages 4 MB apart (x: pages)",
    "issue": "an instruction that does nothing, among its like (x: 1)",
    "same_set": "latency of a load over lines 256 KB apart (x: lines)",
    "jumps": "a jump over lines side by side (x: bytes)",
    "jumps_of_pages": "a jump over one line in each 4 KB page (x: pages)",
    "walks": "latency of a load at random 4 KB pages of one 2 MB file (x: pages)",
    "faults_4k": "first store to a 4 KB page, and giving it back (x: pages in a row)",
    "faults_2m": "first store to a 2 MB page, and giving it back (x: pages in a row)",
    "shootdowns": "unmapping a 4 KB page while another core runs the program, more than alone (x: 1)",
    "shootdown_interrupts": "what the other core loses by it (x: 1)",
}


def steps(first: int, last: int, per_doubling: int = 4) -> list[int]:
    """Whole numbers from `first` to `last`, `per_doubling` for each doubling."""
    numbers: list[int] = []
    step = 0
    while (x := round(first * 2 ** (step / per_doubling))) <= last:
        if not numbers or x > numbers[-1]:
            numbers.append(x)
        step += 1
    return numbers


def available_bytes() -> int:
    """Memory that can be used without swapping, as the kernel estimates it."""
    with open("/proc/meminfo") as lines:
        for line in lines:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def measure(
    largest_cache_bytes: int, samples: int = SAMPLES, progress: Progress | None = None
) -> Measurements:
    """Measures all series on the core that it runs on, for a minute or more.

    `largest_cache_bytes` is what the computer reports; working sets go to four times that.
    Raises `MmulabError` where the kernel gives no memory at all.
    """
    computer = _engine.Computer()
    budget = available_bytes() // 3
    plan = _plan(largest_cache_bytes, budget)
    total = PASSES * sum(len(xs) for xs in plan.values())
    done = 0
    series: dict[str, dict[int, Point]] = {name: {} for name in plan}
    skipped: dict[str, str] = {}
    cycle_ns = statistics.median(computer.cycle_ns() for _ in range(101))
    for name, xs in [*plan.items()] * PASSES:
        for x in xs:
            if progress:
                progress(done, total)
            done += 1
            if name in skipped:
                continue
            try:
                point = _point(x, _samples(computer, name, x, samples))
            except MmulabError as error:
                skipped[name] = str(error)
                continue
            before = series[name].get(x)
            if before is None or point.cycles < before.cycles:
                series[name][x] = point
    if progress:
        progress(total, total)
    if not series["loads"]:
        raise MmulabError(f"nothing can be measured: {skipped['loads']}")
    measured = {name: list(points.values()) for name, points in series.items() if points}
    return Measurements(cycle_ns, measured, skipped)


def _plan(largest_cache_bytes: int, budget: int) -> dict[str, list[int]]:
    largest = min(max(4 * largest_cache_bytes, 64 << 20), budget)
    pages = steps(8, min(1 << 14, budget // PAGE_BYTES))
    touched = min(FAULTS_BYTES, budget) // HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
    return {
        "loads": steps(4096, largest),
        "loads_4k": steps(4096, largest),
        "loads_of_pages": pages,
        "tlb_4k": pages,
        "same_set": list(range(2, 33)),
        "tlb_same_set": steps(2, 256, 8),
        "issue": [1],
        "jumps": steps(4096, 1 << 20),
        "jumps_of_pages": steps(8, 4096),
        "walks": [1 << log2 for log2 in range(4, 24)],
        "tlb_2m": steps(8, min(4096, budget // HUGE_PAGE_BYTES)),
        "tlb_parts": steps(8, 512),
        "tlb_both": steps(8, 512),
        "faults_4k": [touched // PAGE_BYTES],
        "faults_2m": [touched // HUGE_PAGE_BYTES],
        "shootdowns": [1],
        "shootdown_interrupts": [1],
    }


def _samples(computer: _engine.Computer, name: str, x: int, samples: int) -> list[float]:
    lines = x // LINE_BYTES
    match name:
        case "loads":
            return computer.load_cycles([("2M", lines, LINE_BYTES, False)], samples)
        case "loads_4k":
            return computer.load_cycles([("4K", lines, LINE_BYTES, False)], samples)
        case "loads_of_pages":
            return computer.load_cycles([("2M", x, LINE_BYTES, False)], samples)
        case "tlb_4k":
            return computer.load_cycles([("4K", x, PAGE_BYTES, True)], samples)
        case "tlb_2m":
            return computer.load_cycles([("2M", x, HUGE_PAGE_BYTES, True)], samples)
        case "tlb_parts":
            return computer.load_cycles([("2M", x, PAGE_BYTES, True)], samples)
        case "tlb_both":
            parts = [("4K", x, PAGE_BYTES, True), ("2M", PAGES_BESIDES, HUGE_PAGE_BYTES, True)]
            return computer.load_cycles(parts, samples)
        case "tlb_same_set":
            return computer.load_cycles([("4K", x, 4 << 20, True)], samples)
        case "issue":
            return computer.issue_cycles(samples)
        case "same_set":
            return computer.load_cycles([("2M", x, 256 << 10, False)], samples)
        case "jumps":
            return computer.jump_cycles(("2M", lines, LINE_BYTES, False), samples)
        case "jumps_of_pages":
            return computer.jump_cycles(("4K", x, PAGE_BYTES, True), samples)
        case "walks":
            return computer.walk_cycles(x, samples)
        case "faults_4k":
            return computer.fault_cycles("4K", x, samples)
        case "faults_2m":
            return computer.fault_cycles("2M", x, samples)
        case _:
            wait, interrupt = computer.shootdown_cycles(samples)
            return wait if name == "shootdowns" else interrupt


def _point(x: int, samples: list[float]) -> Point:
    low, middle, high = statistics.quantiles(samples, n=4)
    return Point(x, middle, low, high)


def differences(series: Series, baseline: Series) -> Iterator[Point]:
    """The points of a series less those of its baseline at the same places."""
    at = {point.x: point.cycles for point in baseline}
    for point in series:
        if point.x in at:
            base = at[point.x]
            yield Point(point.x, point.cycles - base, point.low - base, point.high - base)
