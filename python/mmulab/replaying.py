"""Replaying traces on machines, and miss curves over all TLB sizes."""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mmulab import _engine
from mmulab.curves import MissCurves
from mmulab.errors import InputError
from mmulab.limits import MAX_CORES, MAX_THREADS, whole_number
from mmulab.machine import Machine, machine_names
from mmulab.provenance import (
    machine_labels,
    provenance,
    schedule_provenance,
    trace_labels,
    trace_provenance,
)
from mmulab.results import MachineResult, ReplayResults

MachineLike = str | os.PathLike[str] | Machine
"""A machine, its name, or its file."""


class Schedule(enum.Enum):
    """How programs take turns on cores."""

    round_robin = "round-robin"
    """Each thread has a core of its own, where it takes turns with others."""
    one_queue = "one-queue"
    """All wait in one queue for the core that is free next, so that programs migrate."""


TIME_SLICE_INSTRUCTIONS = 10_000_000
"""Of a turn, where nothing else is asked for: about what a core executes in the 2.8 ms of Linux's
base time slice on eight processors (`sysctl_sched_base_slice` in kernel/sched/fair.c), at 3.5 GHz
and one a cycle."""

ProgressCallback = Callable[[int, int | None], None]
"""Called now and then with what is done and, where known, how much there is."""


def replay(
    trace: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    machines: MachineLike | Iterable[MachineLike],
    *,
    time_slice_instructions: int | None = None,
    cores: int = 1,
    one_queue: bool = False,
    seed: int = 1,
    threads: int = 0,
    skip: int = 0,
    warm_up: int = 0,
    limit: int | None = None,
    region: str | None = None,
    guesses: bool = True,
    partial: bool = False,
    progress: ProgressCallback | None = None,
) -> ReplayResults:
    """Replays a trace on one or several machines, which all see the same reference stream.

    `trace` is a file of any known format (.mmt, drmemtrace, ChampSim, Valgrind lackey, Dinero din),
    told by its content, or a folder of drmemtrace. `machines` are names, files or `Machine`
    objects. `seed` feeds random replacement and placement; the same seed gives the same counts,
    whatever the number of `threads` (0: one for each core). `skip` instructions are left out at the
    beginning, `warm_up` more are replayed and not counted, nor is the rest of the block in which
    these end, and the replay ends `limit` instructions after the `warm_up`. With `region` only what
    functions of that name do counts, from their entry to their return and with all that they call,
    and what the program marks with that name; the rest is replayed and not counted. With `guesses`,
    as by default, each machine is also tried with the other values that its file gives for what it
    guesses, which takes a replay for each. `partial` accepts an incomplete trace up to its last
    whole chunk.

    With `time_slice_instructions` the programs of a list of traces take turns on one core, each for
    so many instructions (to the end of a block), round robin, until all have ended. Each has an
    address space and frames of its own. A machine's `organisation.address_spaces` is how many of
    these its TLBs and walk caches tell apart. `programs` in a result's data is what each program
    did and cost.

    With several `cores`, which execute 10,000 instructions in turn, each thread of a program has a
    core of its own, the one that was given the fewest so far; with `one_queue` programs wait for
    whichever core is free next. A machine's `multicore` is what cores share and what a shootdown
    costs. Cycles are those of all cores together.

    Raises `MachineError`, `TraceError`, `InputError` where the program never comes to the region;
    `KeyboardInterrupt` stops the engine.
    """
    seed, skip, warm_up, limit = check_part(seed, skip, warm_up, limit, region)
    threads = whole_number("threads", threads, 0, MAX_THREADS)
    traces = [Path(trace)] if isinstance(trace, str | os.PathLike) else [Path(one) for one in trace]
    time_slice_instructions, cores = check_schedule(
        traces, time_slice_instructions, region, cores=cores, one_queue=one_queue
    )
    loaded = load_machines(machines)
    alternatives = [machine.alternatives() if guesses else [] for machine in loaded]
    start = time.perf_counter()
    outcomes = _engine.replay(
        [os.fspath(one) for one in traces],
        [
            (machine._engine, [other._engine for other in others])
            for machine, others in zip(loaded, alternatives, strict=True)
        ],
        time_slice_instructions=time_slice_instructions,
        cores=cores,
        one_queue=one_queue,
        seed=seed,
        threads=threads,
        skip=skip,
        warm_up=warm_up,
        limit=limit,
        region=region,
        partial=partial,
        progress=progress,
    )
    seconds = time.perf_counter() - start
    read = ", ".join(map(os.fspath, traces))
    for own, _ in outcomes:
        check_anything_counted(read, own, skip, warm_up, limit, region)
    if time_slice_instructions is None:
        schedule, source = {}, trace_provenance(traces[0])
    else:
        kind = (Schedule.one_queue if one_queue else Schedule.round_robin).value
        schedule = schedule_provenance(traces, kind, time_slice_instructions, cores)
        source = schedule["trace"]
    rows = []
    for (own, others), machine, label, changed in zip(
        outcomes, loaded, machine_labels(loaded), alternatives, strict=True
    ):
        row = outcome_row(own, source["name"], label)
        if schedule:
            row["programs"] = [
                {"trace": name, **costs}
                for name, costs in zip(trace_labels(traces), own["programs"], strict=True)
            ]
        row["guesses"] = [
            alternative_row(other, machine.changes)
            for other, machine in zip(others, changed, strict=True)
        ]
        row["provenance"] = provenance(
            source,
            machine,
            own["symbol_files"],
            seed=seed,
            skip=skip,
            warm_up=warm_up,
            limit=limit,
            region=region,
        )
        row["provenance"].update(schedule)
        rows.append(row)
    return ReplayResults(rows, seconds=seconds)


def check_schedule(
    traces: list[Path],
    time_slice_instructions: int | None,
    region: str | None,
    *,
    cores: int,
    one_queue: bool,
) -> tuple[int | None, int]:
    """The time slice and the number of cores.

    Raises `InputError` where traces cannot take turns, or for an impossible time slice or number of
    cores.
    """
    cores = whole_number("cores", cores, 1, MAX_CORES)
    if time_slice_instructions is None:
        if cores > 1 or one_queue:
            raise InputError(
                "several cores, or one queue, need a time slice; give time_slice_instructions"
            )
        if not traces:
            raise InputError("there is no trace; name one")
        if len(traces) != 1:
            raise InputError(
                f"{len(traces)} traces without a time slice; one is replayed by itself"
            )
        return None, cores
    time_slice_instructions = whole_number("time_slice_instructions", time_slice_instructions, 1)
    if region is not None:
        raise InputError(
            "a region is of a program by itself; leave out the region, or the schedule"
        )
    if not 1 <= len(traces) <= _engine.PROGRAMS_MAX:
        raise InputError(f"a schedule has 1 to {_engine.PROGRAMS_MAX} programs, not {len(traces)}")
    return time_slice_instructions, cores


def check_part(
    seed: int, skip: int, warm_up: int, limit: int | None, region: str | None
) -> tuple[int, int, int, int | None]:
    """Seed, skip, warm-up and limit.

    Raises `InputError` where one of these is no number that the engine takes, or the region has no
    name.
    """
    if region == "":
        raise InputError("region: its name is empty; leave it out to count everything")
    return (
        whole_number("seed", seed),
        whole_number("skip", skip),
        whole_number("warm_up", warm_up),
        None if limit is None else whole_number("limit", limit, 1),
    )


def check_anything_counted(
    trace: str,
    outcome: dict[str, Any],
    skip: int,
    warm_up: int,
    limit: int | None,
    region: str | None,
) -> None:
    """Raises `InputError` where a trace, or the part of it that was asked for, is empty."""
    if outcome["instructions"] == 0:
        if not (skip or warm_up or region):
            raise InputError(
                f"{trace}: the trace has no instruction that is whole; record it again"
            )
        of_region = f" of region {region}" if region else ""
        to_the_end = ", and on to the end of a block," if warm_up else ""
        mend = ""
        if warm_up and limit is not None:
            mend = f" within a limit of {limit:,}; raise that, or skip and warm up with fewer"
        raise InputError(
            f"{trace}: skipping {skip:,} and warming up with {warm_up:,} instructions{to_the_end} leaves "
            f"none of the trace{of_region} to count{mend}"
        )


def miss_curves(
    trace: str | os.PathLike[str],
    *,
    entries: int = 1536,
    partial: bool = False,
    progress: ProgressCallback | None = None,
) -> MissCurves:
    """TLB misses for every TLB size (fully associative, LRU) at 4K, 16K, 64K, 2M and 1G pages.

    One pass, exact stack distances (Mattson et al., 1970). `entries` is the size of the data TLB
    for which the verdict on huge pages is given; 1,536 is that of a second-level TLB of today.

    Raises `TraceError`.
    """
    entries = whole_number("entries", entries, 1)
    start = time.perf_counter()
    raw = _engine.miss_curves(os.fspath(trace), entries=entries, partial=partial, progress=progress)
    seconds = time.perf_counter() - start
    source = {"mmulab": _engine.VERSION, "trace": trace_provenance(trace), "entries": entries}
    return MissCurves({**raw, "provenance": source}, seconds=seconds)


def schedule_machines() -> list[str]:
    """The shipped machines that say how many address spaces their TLBs tell apart; they say what
    cores share, too."""
    return [
        name
        for name in machine_names("replay")
        if "address_spaces" in Machine.load(name).values()["organisation"]
    ]


def load_machines(machines: MachineLike | Iterable[MachineLike]) -> list[Machine]:
    """Names, files and machines, mixed as they come, as machines.

    Raises `MachineError`, and `InputError` where there is none.
    """
    if isinstance(machines, str | os.PathLike | Machine):
        machines = [machines]
    loaded = [
        machine if isinstance(machine, Machine) else Machine.load(machine) for machine in machines
    ]
    if not loaded:
        raise InputError("there is no machine; name one or more")
    return loaded


def outcome_row(outcome: dict[str, Any], trace: str, label: str) -> dict[str, Any]:
    """The engine's outcome in the form of the JSON contract: lists of named things become maps."""
    interrupts = outcome["interrupts"]
    return {
        "trace": trace,
        **{name: value for name, value in outcome.items() if name != "symbol_files"},
        "machine": label,
        "interrupts": {
            "count": interrupts["count"],
            "cycles_at_cost": {str(cost): cycles for cost, cycles in interrupts["cycles_at_cost"]},
        },
        **{part: _by_name(outcome[part]) for part in ("causes", "tlbs", "caches")},
    }


def alternative_row(outcome: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """What `changes` to a guess would make of the result."""
    result = MachineResult(outcome_row(outcome, "", ""))
    return {
        "set": dict(changes),
        "cycles": result.cycles,
        "mcpi": result.mcpi,
        "vmcpi": result.vmcpi,
        "translation_share_at": {
            str(cost): result.translation_share(cost) for cost in result.interrupt_costs_cycles
        },
    }


def _by_name(entries: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {
        entry["name"]: {key: value for key, value in entry.items() if key != "name"}
        for entry in entries
    }
