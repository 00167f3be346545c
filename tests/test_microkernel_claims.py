"""The claims of the two papers on ARM, judged on made-up measurements: a world in which the paper
is right, and for each claim worlds in which just what it says is false."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, ClassVar

import pytest

from mmulab import papers
from mmulab.papers import fass_claims, fcse_2009
from mmulab.papers.fass_claims import CLIENTS, FOOTPRINTS, KERNELS, KILOBYTES, PAGES, RING

COUNTS = dict.fromkeys(
    [
        "icache",
        "dcache",
        "itlb",
        "dtlb",
        "flushes",
        "collisions",
        "recycled_dirty",
        "recycled_clean",
    ],
    0,
)


def row(cycles: float, **more: Any) -> dict[str, Any]:
    """A measured point at 200 MHz."""
    return {**COUNTS, "cycles": cycles, "us": cycles / 200, "instructions": 100, "per": 1, **more}


@dataclasses.dataclass(frozen=True)
class StrongArm:
    """What the FASS paper says, as numbers."""

    paper: ClassVar[str] = "fass_2003"

    knee_pages: int = 10
    rise: float = 3.0
    shared_misses_from: int = 24
    at_32: float = 1.0
    best: dict[int, float] = dataclasses.field(default_factory=lambda: {2: 9.0, 4: 6.0, 16: 3.7})
    standard_us: float = 135.0
    standard_rise: float = 0.0
    fast_us: float = 10.0
    fast_14_us: float = 12.0
    knee_clients: int = 14
    step_us: float = 3.0
    late_us: float = 0.5
    assembly_us: float = 2.0
    loses: str = ""
    points: tuple[tuple[str, tuple, dict[str, float]], ...] = ()
    """Single points that are other than all this says: table, key, values."""

    def pingpong(self, kernel: str, clients: int) -> dict[str, Any]:
        if kernel.startswith("standard"):
            us = self.standard_us * (1 + self.standard_rise * clients / 40)
        elif kernel == "fast, assembly":
            us = self.assembly_us
        else:
            us = self.fast_us + (self.fast_14_us - self.fast_us) * (clients - 1) / 13
            past = clients - self.knee_clients
            if past > 0:
                us += self.step_us * min(past, 6) + self.late_us * max(past - 6, 0)
        return row(200 * us * (200 if self.loses == kernel else 1))

    def visit(self, processes: int, pages: int, mapping: str) -> dict[str, Any]:
        misses = 0.0
        cycles = 400.0
        if pages >= self.shared_misses_from:
            misses, cycles = 20.0, cycles * 2
        if mapping == "private":
            if pages > self.knee_pages:
                cycles *= self.rise if processes == 2 else 1.0
            if pages == 20:
                cycles = 400.0 * self.best[processes] if processes in self.best else 1000.0
                cycles = max(cycles, 400.0 * self.rise) if processes == 2 else cycles
        if pages >= 32:
            cycles = 800.0 * (self.at_32 if mapping == "private" else 1)
        return row(cycles, dtlb=misses)

    def measured(self) -> fass_claims.Measured:
        places = [("low", k) for k in KILOBYTES] + [
            (array, k) for array in ("apart", "same") for k in KILOBYTES if k
        ]
        found = fass_claims.Measured(
            pingpong={(k, c): self.pingpong(k, c) for k in KERNELS for c in CLIENTS},
            footprint={(k, n): self.pingpong(k, 1) for k in KERNELS for n in FOOTPRINTS},
            extreme={
                (n, p, mapping): self.visit(n, p, mapping)
                for n in (2, 4, 16)
                for p in PAGES
                for mapping in ("private", "shared")
            },
            near={
                (n, p, mapping): self.visit(n, p, mapping)
                for n in fass_claims.NEAR_THE_LIMIT
                for p in fass_claims.NEAR_THE_LIMIT_PAGES
                for mapping in ("private", "shared")
            },
            ring={
                (scheme, array, n, k): row(
                    cycles, switch_cycles=cycles, collisions=int(scheme == "fass" and cycles > 5000)
                )
                for scheme in ("flush", "fass", "fass_shared")
                for array, k in places
                for n in RING
                for cycles in [5000 if scheme == "flush" else 9000 if array == self.loses else 100]
            },
            storm={
                (scheme, groups): row(300 if self.loses == "storm" and scheme == "fass" else 200)
                for scheme in ("flush", "fass")
                for groups in fass_claims.STORM_GROUPS
            },
            flush=dict.fromkeys(
                [
                    "line-miss",
                    "tlb-miss",
                    "whole-clean-of-clean-cache",
                    "flush-of-everything-direct",
                    "flush-of-everything-with-what-follows",
                    "lines-in-use-at-the-flush",
                ],
                1.0,
            ),
        )
        for table, key, values in self.points:
            getattr(found, table)[key] |= values
        return found

    def judged(self) -> dict[str, papers.Claim]:
        claims = fass_claims.judge(self.measured(), papers.published_claims(self.paper))
        return {claim.id: claim for claim in claims}


def points(table: str, keys: Iterable[tuple], **values: float) -> list[dict[str, Any]]:
    """Worlds in which one point of a table is another, for each of some."""
    return [{"points": ((table, key, values),)} for key in keys]


def clients(kernel: str) -> list[tuple[str, int]]:
    """The ping-pongs of a kernel."""
    return [(kernel, number) for number in CLIENTS]


FASS_WRONG = {
    "fass03-07": [
        {"knee_pages": 6},
        {"knee_pages": 16},
        {"rise": 1.6, "best": {2: 1.6, 4: 2, 16: 2}},
    ],
    "fass03-08": [
        {"shared_misses_from": 16},
        {"shared_misses_from": 40},
        {"at_32": 1.2},
        {"at_32": 0.8},
        *points("extreme", [(2, pages, "shared") for pages in PAGES if pages <= 20], dtlb=1.0),
    ],
    "fass03-09": [
        {"best": {2: 5.0, 4: 4.0, 16: 3.7}},
        {"best": {2: 14.0, 4: 4.0, 16: 3.7}},
        {"best": {2: 9.0, 4: 4.0, 16: 1.2}},
        {"best": {2: 9.0, 4: 4.0, 16: 6.0}},
        # With any number of pages.
        *points("extreme", [(n, pages, "private") for n in (2, 16) for pages in PAGES], cycles=1e4),
    ],
    "fass03-10": [
        {"standard_us": 72.0},
        {"standard_us": 200.0},
        {"standard_rise": 0.2},
        *points("pingpong", clients("standard, C"), us=135 * 1.06),
    ],
    "fass03-11": [
        {"fast_us": 4.0},
        {"fast_us": 16.0},
        {"fast_14_us": 20.0},
        {"fast_14_us": 8.0},
        {"standard_us": 72.0},
        {"standard_us": 300.0},
        # Each of the four numbers alone, on either side; the least also with 6 clients.
        {"points": (("pingpong", ("fast, C", 1), {"us": 7.2}),), "standard_us": 110.0},
        {"points": (("pingpong", ("fast, C", 6), {"us": 7.2}),)},
        {"fast_us": 13.0, "fast_14_us": 13.5, "standard_us": 160.0},
        {"fast_us": 9.0, "fast_14_us": 8.6, "standard_us": 110.0},
        {"fast_us": 12.0, "fast_14_us": 15.5, "standard_us": 150.0},
        {"fast_us": 12.0, "fast_14_us": 12.0, "standard_us": 110.0},
        {"fast_us": 8.0, "fast_14_us": 12.0},
        {"fast_us": 12.0, "fast_14_us": 14.5, "standard_us": 118.0},
        {"fast_us": 9.5, "fast_14_us": 9.5},
    ],
    "fass03-12": [
        {"knee_clients": 10},
        {"knee_clients": 20},
        {"step_us": 0.0},
        {"late_us": 6.0},
        {"step_us": 12.0},
        # It does not slow; it rises at another place, too; it is not twice as fast at one.
        {"late_us": 3.5, "standard_us": 250.0},
        *points("pingpong", [key for key in clients("fast, C") if 1 < key[1] < 14], us=14.0),
        *points("pingpong", clients("standard, C"), us=15.0),
    ],
    "fass03-13": [{"assembly_us": 0.75}, {"assembly_us": 3.0}],
    "fass03-15": [
        *({"loses": loses} for loses in ("low", "apart", "same", "storm", "fast, assembly")),
        # One case is enough.
        *points("pingpong", clients("fast, assembly"), cycles=1e6),
        *points("storm", [("fass", groups) for groups in fass_claims.STORM_GROUPS], cycles=201),
        *points(
            "ring", [key for key in StrongArm().measured().ring if key[0] == "fass"], cycles=5001
        ),
    ],
}


def test_what_collides_is_told_only_where_it_does():
    same = dataclasses.replace(StrongArm(), loses="same").judged()["fass03-15"]
    assert "each hop is a collision" in same.why
    assert (
        dataclasses.replace(StrongArm(), loses="storm").judged()["fass03-15"].why == "unexplained"
    )


def switch(name: str, to: int = 0, leaving: int = 0) -> dict[str, Any]:
    return {"name": name, "to": to, "within": 0, "from": leaving}


@dataclasses.dataclass(frozen=True)
class Extension:
    """What the FCSE paper says, as measurements."""

    paper: ClassVar[str] = "fcse_2009"

    guaranteed_spaces: int = 95
    guaranteed_limits: tuple[int, int, int] = (1, 0, 0)
    guaranteed_flushes: tuple[int, int] = (0, 0)
    """To and from."""
    ring: tuple[tuple[int, int, str, float], ...] = ()
    """What a point of the ring has otherwise under `guaranteed`: processes, kilobytes, a name, a
    value."""
    best_effort_spaces: int = 104
    grows: int = 1
    flushes: tuple[tuple[str, str, int], ...] = ()
    """What a switch does otherwise than the paper says: condition, direction, flushes."""
    unseen: str = ""
    """A condition that did not come about."""

    def judged(self) -> dict[str, papers.Claim]:
        kernels = ("plain", "guaranteed", "best_effort")
        periodic = {
            (name, period): dict.fromkeys(
                ["min_us", "avg_us", "max_us", "stddev_us", "interval_stddev_us"], 1.0
            )
            for name in kernels
            for period in (500, 1000)
        }
        ring = {
            (name, n, k): {
                "us": 1.0,
                "flushes": 0,
                "hops": 100,
                "tlb_operations": 100,
                "translations_missed": 5.0,
            }
            for name in kernels
            for n in fcse_2009.RING
            for k in fcse_2009.KILOBYTES
        }
        for n, k, column, value in self.ring:
            ring["guaranteed", n, k][column] = value
        storm = {name: {"us": 1.0, "flushes": 1, "switches": 50} for name in kernels}
        best = {
            name: switch(name, int("to" in directions), int("from" in directions))
            for name, directions in fcse_2009.FLUSHES.items()
        } | {name: switch(name) for name in fcse_2009.NO_FLUSH}
        for name, direction, count in self.flushes:
            best[name] = {**best[name], direction: count}
        best.pop(self.unseen, None)
        limits = dict(zip(("inside", "across", "above"), self.guaranteed_limits, strict=True))
        switches = {
            "guaranteed": fcse_2009.Switches(
                self.guaranteed_spaces,
                limits,
                [switch("first"), switch("small", *self.guaranteed_flushes), switch("last")],
            ),
            "best_effort": fcse_2009.Switches(
                self.best_effort_spaces,
                {"inside": 1, "across": 1, "above": self.grows},
                list(best.values()),
            ),
        }
        claims = fcse_2009.judge(periodic, ring, storm, switches)
        return {claim.id: claim for claim in claims}


FCSE_WRONG = {
    "fcse09-07": [
        {"guaranteed_spaces": 94},
        {"guaranteed_spaces": 128},
        {"guaranteed_limits": (0, 0, 0)},
        {"guaranteed_limits": (1, 1, 0)},
        {"guaranteed_limits": (1, 0, 1)},
        {"guaranteed_limits": (1, 1, 1)},
        {"guaranteed_flushes": (1, 0)},
        {"guaranteed_flushes": (0, 1)},
        *(
            {"ring": ((n, k, *other),)}
            for n in fcse_2009.RING
            for k in fcse_2009.KILOBYTES
            for other in [("flushes", 1), ("tlb_operations", 99), ("translations_missed", 0.0)]
        ),
    ],
    "fcse09-08": [
        {"best_effort_spaces": 95},
        {"grows": 0},
        *(
            {"flushes": ((name, way, 0),)}
            for name, ways in fcse_2009.FLUSHES.items()
            for way in ways
        ),
        *({"flushes": ((name, way, 1),)} for name in fcse_2009.NO_FLUSH for way in ("to", "from")),
        *({"unseen": name} for name in [*fcse_2009.FLUSHES, *fcse_2009.NO_FLUSH]),
    ],
}


WRONG = {StrongArm: FASS_WRONG, Extension: FCSE_WRONG}


@pytest.mark.parametrize("world", WRONG)
def test_a_paper_holds_where_it_is_right(world):
    judged = world().judged()
    assert list(judged) == list(papers.published_claims(world.paper))
    for identifier, claim in judged.items():
        wanted = "holds" if identifier in WRONG[world] else "not evaluated"
        assert claim.verdict == wanted, (identifier, claim.ours)


@pytest.mark.parametrize(
    ("world", "identifier", "changes"),
    [
        (world, identifier, changes)
        for world, wrong in WRONG.items()
        for identifier, worlds in wrong.items()
        for changes in worlds
    ],
)
def test_a_claim_differs_where_it_is_false(world, identifier, changes):
    claim = dataclasses.replace(world(), **changes).judged()[identifier]
    assert claim.verdict == "differs", claim.ours
    assert claim.why
