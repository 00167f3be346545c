"""Replaying traces on machines, and miss curves over all TLB sizes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from mmulab import _engine
from mmulab.limits import MAX_THREADS, whole_number
from mmulab.machine import Machine
from mmulab.reach_result import ReachResult
from mmulab.results import ReplayResults

ProgressCallback = Callable[[int, int | None], None]
"""Called now and then with what is done and, where known, how much there is."""


def replay(
    trace: str | os.PathLike[str],
    machines: str | Machine | Iterable[str | Machine],
    *,
    seed: int = 1,
    threads: int = 0,
    partial: bool = False,
    progress: ProgressCallback | None = None,
) -> ReplayResults:
    """Replays a trace on one or several machines, which all see the same reference stream.

    `trace` is a file of any known format (.mmt, ChampSim, Valgrind lackey, Dinero din), told by its
    content. `machines` are names, files or `Machine` objects. `seed` feeds random replacement and
    placement; the same seed gives the same counts, whatever the number of `threads` (0: one for
    each core). `partial` accepts an incomplete trace up to its last whole chunk.

    Raises `MachineError`, `TraceError`; `KeyboardInterrupt` stops the engine.
    """
    whole_number("seed", seed)
    whole_number("threads", threads, 0, MAX_THREADS)
    loaded = load_machines(machines)
    start = time.perf_counter()
    outcomes = _engine.replay(
        os.fspath(trace),
        [machine._engine for machine in loaded],
        seed=seed,
        threads=threads,
        partial=partial,
        progress=progress,
    )
    seconds = time.perf_counter() - start
    pairs = zip(outcomes, loaded, strict=True)
    return ReplayResults(
        [outcome_row(outcome, machine.label, seconds) for outcome, machine in pairs]
    )


def reach(
    trace: str | os.PathLike[str],
    *,
    entries: int = 1536,
    partial: bool = False,
    progress: ProgressCallback | None = None,
) -> ReachResult:
    """TLB misses for every TLB size (fully associative, LRU) at 4K, 16K, 64K, 2M and 1G pages.

    One pass, exact stack distances (Mattson et al., 1970). `entries` is the size of the data TLB for
    which the verdict on huge pages is given; 1,536 is that of a second-level TLB of today.

    Raises `TraceError`.
    """
    whole_number("entries", entries, 1)
    start = time.perf_counter()
    raw = _engine.reach(os.fspath(trace), entries=entries, partial=partial, progress=progress)
    return ReachResult({**raw, "seconds": time.perf_counter() - start})


def load_machines(machines: str | Machine | Iterable[str | Machine]) -> list[Machine]:
    """Names, files and machines, mixed as they come, as machines."""
    if isinstance(machines, str | Machine):
        machines = [machines]
    return [
        machine if isinstance(machine, Machine) else Machine.load(machine) for machine in machines
    ]


def outcome_row(outcome: dict[str, Any], label: str, seconds: float) -> dict[str, Any]:
    """The engine's outcome in the form of the JSON contract: lists of named things become maps."""
    interrupts = outcome["interrupts"]
    return {
        **outcome,
        "machine": label,
        "interrupts": {
            "count": interrupts["count"],
            "cycles_at_cost": {str(cost): cycles for cost, cycles in interrupts["cycles_at_cost"]},
        },
        **{part: _by_name(outcome[part]) for part in ("causes", "tlbs", "caches")},
        "seconds": seconds,
    }


def _by_name(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        entry["name"]: {key: value for key, value in entry.items() if key != "name"}
        for entry in entries
    }
