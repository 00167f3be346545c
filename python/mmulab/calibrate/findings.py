"""What the measurements say: a value for each quantity of a machine's file, and where it comes
from."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

from mmulab.calibrate.plateaus import LEAST_STEP, Plateau, capacity, crossing, plateaus
from mmulab.calibrate.reported import Cache, Reported, Tlb
from mmulab.calibrate.series import (
    LINE_BYTES,
    PAGES_BESIDES,
    Measurements,
    Point,
    Series,
    differences,
)
from mmulab.errors import MmulabError

LONGEST_RAMP = 4.0
"""A curve that takes longer than this factor of sizes from where it leaves a level to the middle
between that and the next has room for another."""

AGREEMENT = 1.35
"""A reported size within this factor of the measured one is taken for what it is: a curve's knee
says how much of a level is of use, which depends on what pages lie where."""


@dataclass(frozen=True)
class Value:
    """A value, how it was found, and what else it might be."""

    value: int | str | list[str]
    source: str
    """For the comment beside it. Begins with "measured", "reported" or "guess"."""
    alternatives: tuple[int | str | list[str], ...] = ()
    measured: float | None = None
    reported: int | None = None

    def number(self) -> int:
        """The value of a quantity that is a number."""
        if not isinstance(self.value, int):
            raise TypeError(f"{self.value!r} is no number")
        return self.value


@dataclass(frozen=True)
class Findings:
    """Values by their dotted path in a machine's file, and what has no place in one."""

    values: dict[str, Value]
    faults_cycles: dict[str, Point]
    """The first touch of a page, by page size."""
    shootdown_cycles: dict[str, Point]
    """What unmapping costs where another core runs the program: by the value of `multicore`."""
    notes: list[str]


def find(measured: Measurements, reported: Reported) -> Findings:
    """Draws all conclusions.

    Raises `MmulabError` where the curves show no levels, as when something else uses the core.
    """
    finder = _Finder(measured, reported)
    finder.caches()
    finder.tlbs()
    finder.instruction_side()
    faults = {
        size: measured.series[name][0]
        for size, name in (("4K", "faults_4k"), ("2M", "faults_2m"))
        if name in measured.series
    }
    shootdowns = {
        key: measured.series[name][0]
        for key, name in (
            ("shootdown_cycles", "shootdowns"),
            ("shootdown_interrupt_cycles", "shootdown_interrupts"),
        )
        if name in measured.series
    }
    return Findings(finder.values, faults, shootdowns, finder.notes)


class _Finder:
    def __init__(self, measured: Measurements, reported: Reported):
        self.series = measured.series
        self.reported = reported
        self.values: dict[str, Value] = {}
        self.notes: list[str] = [
            f"no measurement of {name}: {why}" for name, why in measured.skipped.items()
        ]

    def caches(self) -> None:
        """Sizes, ways and latencies of the data caches, and of memory."""
        loads = self.series["loads"]
        data = [cache for cache in self.reported.caches if cache.kind != "Instruction"]
        levels = plateaus(loads, len(data) + 1 if data else None)
        if len(levels) < 2 or (data and len(levels) <= len(data)):
            raise MmulabError(
                "the latencies of loads show no levels of cache: something else uses this core; "
                "try again on an idle computer"
            )
        for number, (level, above) in enumerate(itertools.pairwise(levels), start=1):
            name = "l1d" if number == 1 else f"l{number}"
            knee = capacity(loads, level, above)
            known = self.reported.cache(number, "Data")
            too_large = next((point.x for point in loads if point.x > knee), math.inf)
            size = _size(knee, known.size_bytes if known else None, "bytes", too_large)
            self.values[f"{name}.size_bytes"] = size
            self.values[f"{name}.ways"] = self._cache_ways(number, size, known, levels)
            self._doubt_size(name, level, knee)
            slower = "memory" if number == len(levels) - 1 else f"l{number + 1}"
            if slower == "l4":
                raise MmulabError("four levels of cache were found; a machine's file has three")
            self.values[f"{slower}.latency_cycles"] = _difference(above, level, name.upper())
        self.l1 = levels[0]
        self.l2_extra = round(levels[1].cycles - levels[0].cycles)
        self.values["organisation.walk_step_cycles"] = Value(
            round(self.l1.cycles),
            f"measured: an L1D hit, {_spread(self.l1)}; a step's load depends on the one before",
            measured=self.l1.cycles,
        )
        issue = self.series["issue"][0].cycles
        self.values["core.instructions_per_cycle"] = Value(
            max(1, round(1 / issue)),
            f"measured: {1 / issue:.2f} instructions that do nothing",
            measured=1 / issue,
        )

    def _doubt_size(self, name: str, level: Plateau, knee: float) -> None:
        """A cache that others use may show no plateau of its own: it lies in the ramp to the next
        level, whose middle is then far beyond the size of the cache below."""
        leaves = crossing(self.series["loads"], level, level.cycles * math.exp(LEAST_STEP))
        if knee <= LONGEST_RAMP * leaves:
            return
        size = self.values[f"{name}.size_bytes"]
        step = LINE_BYTES * self.values[f"{name}.ways"].number()
        smaller = max(1, round(leaves / step)) * step
        self.values[f"{name}.size_bytes"] = replace(size, alternatives=(smaller,))
        self.notes.append(
            f"{name.upper()}: from {_whole(leaves)} to {_whole(knee)} bytes loads become slower and no "
            "level shows; it may be smaller, and hide another cache that others were using"
        )

    def _cache_ways(
        self, number: int, size: Value, known: Cache | None, levels: list[Plateau]
    ) -> Value:
        lines = size.number() // 64
        if number == 1 and not self.breaks_up_large_pages():
            conflict = _first_above(
                self.series["same_set"], (levels[0].cycles + levels[1].cycles) / 2
            )
            if conflict is not None and lines % (conflict - 1) == 0:
                said = f"; reported: {known.ways}" if known else ""
                return Value(
                    conflict - 1,
                    f"measured: {conflict} lines 256 KB apart do not fit{said}",
                    measured=conflict - 1,
                    reported=known.ways if known else None,
                )
        if known and lines % known.ways == 0:
            return Value(known.ways, "reported by the processor", reported=known.ways)
        source = _why_guessed(known, known.size_bytes // 64 if known else 0, "lines")
        return Value(_likely_ways(lines), source, (2 * _likely_ways(lines),))

    def breaks_up_large_pages(self) -> bool:
        """Whether a TLB holds a large page as many small ones, as where a hypervisor maps it by
        such: lines in each 4 KB of one then miss where lines in as many 4 KB pages do."""
        knees = []
        for name in ("tlb_parts", "tlb_4k"):
            series = list(differences(self.series.get(name, []), self.series["loads_of_pages"]))
            levels = plateaus(series, offset=1.0)[:2] if series else []
            if len(levels) < 2:
                return False
            knees.append(capacity(series, *levels))
        return max(knees) < AGREEMENT * min(knees)

    def tlbs(self) -> None:
        """Both levels of the data TLB for both page sizes, and the walk."""
        small = list(differences(self.series["tlb_4k"], self.series["loads_of_pages"]))
        levels = plateaus(small, offset=1.0)[:2]
        if len(levels) < 2:
            raise MmulabError(
                "the latencies of loads in many pages show no levels of TLB: something else uses "
                "this core; try again on an idle computer"
            )
        first, second = levels
        self._first_level(small, first, second)
        latency = second.cycles - first.cycles
        self.values["stlb.latency_cycles"] = _difference(second, first, "the first level")
        # A miss costs the look-up that failed and the walk: at least twice the look-up.
        knee = crossing(small, second, 2 * second.cycles)
        known = self.reported.tlb(2, "4K")
        self._array("stlb", knee, known, "4K")
        beyond = [p for p in small if 1.3 * knee <= p.x <= 2.5 * knee]
        if not beyond:
            raise MmulabError(f"the second-level TLB holds {knee:.0f} entries or more: too many")
        walk = sorted(p.cycles for p in beyond)[len(beyond) // 2] - first.cycles - latency
        step = self.values["organisation.walk_step_cycles"].number()
        nested = " of guest and host tables" if self.reported.hypervisor else ""
        steps, said = 1, "one step that misses L1D"
        if self.breaks_up_large_pages():
            self.values["organisation.host.pages"] = Value(
                "4K", "measured: a 2 MB page takes a TLB entry for each 4 KB"
            )
            steps, said = 2, "one step in each table that misses L1D"
        overhead = max(0, round(walk - steps * (step + self.l2_extra)))
        self.values["organisation.walk_overhead_cycles"] = Value(
            overhead,
            f"measured: a walk{nested} takes {walk:.0f} cycles over {beyond[0].x} to {beyond[-1].x} "
            f"pages, less {said}",
            tuple(
                {
                    max(0, round(walk - steps * step)),
                    max(
                        0, round(beyond[0].cycles - second.cycles - steps * (step + self.l2_extra))
                    ),
                }
                - {overhead}
            ),
            measured=walk,
        )

    def _first_level(self, small: Series, first: Plateau, second: Plateau) -> None:
        knee = capacity(small, first, second)
        self._array("dtlb", knee, self.reported.tlb(1, "4K"), "4K")
        entries = self.values["dtlb.entries"].number()
        conflict = _first_above(
            self.series["tlb_same_set"], self.l1.cycles + (first.cycles + second.cycles) / 2
        )
        sets_of_ways = {entries // sets for sets in range(2, entries + 1) if entries % sets == 0}
        if conflict is not None and conflict - 1 in sets_of_ways:
            ways: int | str = conflict - 1
            source = f"measured: {conflict} pages 4 MB apart do not fit"
        else:
            ways, source = (
                "full",
                "measured: pages 4 MB apart fit as well as others, or as no set would",
            )
        self.values["dtlb.ways"] = Value(ways, source, measured=conflict and conflict - 1)
        large = list(differences(self.series.get("tlb_2m", []), self.series["loads_of_pages"]))
        levels = plateaus(large, offset=1.0)[:2] if large else []
        if len(levels) < 2:
            self.notes.append("no first-level TLB for 2 MB pages was seen; they are broken down")
            self.values["dtlb.page_sizes"] = Value(["4K"], "guess: not measured", (["4K", "2M"],))
            return
        knee_2m = capacity(large, *levels)
        together = list(differences(self.series["tlb_both"], self.series["loads_of_pages"]))
        both = plateaus(together, offset=1.0)[:2]
        beside = capacity(together, *both) if len(both) == 2 else 0.0
        source = f"measured: with {PAGES_BESIDES} 2 MB pages {beside:.0f} 4 KB pages fit"
        if beside < knee - PAGES_BESIDES / 2:
            self.values["dtlb.page_sizes"] = Value(["4K", "2M"], source)
        else:
            self.values["dtlb.page_sizes"] = Value(["4K"], source)
            self._array("dtlb_large", knee_2m, self.reported.tlb(1, "2M"), "2M")
        if levels[1].last > AGREEMENT * knee_2m:
            self.values["stlb.page_sizes"] = Value(
                ["4K", "2M"],
                f"measured: {levels[1].cycles:.1f} cycles more for up to {levels[1].last} 2 MB pages",
            )
        else:
            self.values["stlb.page_sizes"] = Value(["4K"], "measured: 2 MB pages find none")

    def _array(self, name: str, knee: float, known: Tlb | None, page_size: str) -> None:
        entries = _size(knee, known.entries if known else None, f"{page_size} pages")
        self.values[f"{name}.entries"] = entries
        count = entries.number()
        if known and known.entries == count:
            full = known.ways == known.entries
            self.values[f"{name}.ways"] = Value(
                "full" if full else known.ways, "reported by the processor", reported=known.ways
            )
        else:
            source = _why_guessed(known, known.entries if known else 0, "entries")
            self.values[f"{name}.ways"] = Value(_likely_ways(count), source, ("full",))

    def instruction_side(self) -> None:
        """The first-level instruction cache and TLB; fetching ahead hides most of what they
        cost."""
        cache = self.reported.cache(1, "Instruction")
        for key in ("size_bytes", "ways"):
            known = getattr(cache, key, None)
            self.values[f"l1i.{key}"] = (
                Value(known, "reported by the processor", reported=known)
                if known
                else Value(self.values[f"l1d.{key}"].value, "guess: as L1D")
            )
        jumps = self.series.get("jumps_of_pages", [])
        levels = plateaus(jumps)
        known_tlb = self.reported.tlb(1, "4K", data=False)
        if len(levels) > 1:
            self._array("itlb", capacity(jumps, *levels[:2]), known_tlb, "4K")
        elif known_tlb:
            self._array("itlb", known_tlb.entries, known_tlb, "4K")
        else:
            self.values["itlb.entries"] = Value(self.values["dtlb.entries"].value, "guess: as DTLB")
            self.values["itlb.ways"] = Value(self.values["dtlb.ways"].value, "guess: as DTLB")


def _size(knee: float, known: int | None, unit: str, too_large: float = math.inf) -> Value:
    """What a knee says: the reported size where it agrees, else the nearest one that is built.

    `too_large` is the first size that was measured behind the knee: what is built lies below it.
    """
    if known and known / AGREEMENT <= knee <= known * AGREEMENT:
        return Value(
            known, f"reported by the processor; measured: {_whole(knee)} {unit}", (), knee, known
        )
    built = (factor << shift for factor in (4, 5, 6, 7) for shift in range(40))
    rounded = min(
        (size for size in built if size < too_large),
        key=lambda size: abs(math.log(size / knee)),
    )
    said = f"; reported: {known:,}, which does not agree" if known else ""
    return Value(rounded, f"measured: {_whole(knee)} {unit}{said}", (), knee, known)


def _whole(number: float) -> str:
    return f"{round(number):,}"


def _why_guessed(known: Cache | Tlb | None, slots: int, of: str) -> str:
    """The source of a number of ways that is a guess: what is reported, if anything, is of another
    size."""
    if known is None:
        return "guess: not reported"
    return f"guess; reported: {known.ways} ways of {slots:,} {of}, which does not agree"


def _likely_ways(entries: int) -> int:
    """Eight ways or a few more, so that the number of sets is a power of two."""
    if entries < 16:
        return entries
    sets = 1 << int(math.log2(entries / 8))
    return entries // sets


def _difference(level: Plateau, below: Plateau, name: str) -> Value:
    extra = level.cycles - below.cycles
    low, high = round(level.low - below.cycles), round(level.high - below.cycles)
    value = max(0, round(extra))
    less = f"{below.cycles:z.1f}"
    # The first level of a TLB is a difference already.
    said = f"{name} at {less}" if less.startswith("-") else f"less {less} of {name}"
    return Value(
        value,
        f"measured: {_spread(level)}, {said}",
        tuple(sorted({max(0, low), max(0, high)} - {value})),
        measured=extra,
    )


def _spread(level: Plateau) -> str:
    return f"{level.cycles:z.1f} cycles ({level.low:z.1f} to {level.high:z.1f})"


def _first_above(series: Series, cycles: float) -> int | None:
    """The first place from which on a curve stays above a latency."""
    first: int | None = None
    for point in series:
        first = (first or point.x) if point.cycles > cycles else None
    return first
