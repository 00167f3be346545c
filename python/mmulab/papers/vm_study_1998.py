"""Jacob and Mudge, "A Look at Several Memory Management Units, TLB-Refill Mechanisms, and Page Table
Organizations", ASPLOS-VIII, 1998: five organisations of virtual memory, their cost in cycles.

Records three programs of today that stand for the study's (`study_programs`), replays them on the
study's machines over its table 1, evaluates its claims (`vm_study_claims`) and draws its figures
(`vm_study_figures`); experiments beside them (`vm_study_experiments`) say why claims differ. The short version has shorter inputs and fewer sizes of caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mmulab
from mmulab.papers import Reproduction, Run, published_claims, save_figures
from mmulab.papers import study_programs as guests
from mmulab.papers.vm_study_cells import (
    KIB,
    L1_SIZES,
    L2_SIZES,
    LINES,
    PLOTTED_LINES,
    WITH_TLB,
    Cell,
    Cells,
    Configuration,
    cross_product,
)
from mmulab.papers.vm_study_claims import evaluate
from mmulab.papers.vm_study_experiments import EXPERIMENTS, Evidence
from mmulab.papers.vm_study_figures import figures

PAPER = "vm_study_1998"
TITLE = "A look at several memory-management units (Jacob and Mudge, 1998)"
MAXIMUM_INSTRUCTIONS = 200_000_000
"""The study's limit for a run."""
SHORT_L1_SIZES = [size * KIB for size in (4, 8, 32, 128)]
SHORT_L2_SIZES = [size * KIB for size in (512, 2048)]
TLB_SIZES = [32, 64, 256]
"""Besides the study's 128."""


def reproduce(run: Run) -> Reproduction:
    """Records, replays, evaluates."""
    folder = run.folder / ("full" if run.full else "short")
    size = guests.FULL if run.full else guests.QUICK
    traces = {
        program.name: trace_of(program, folder, run) for program in guests.programs(folder, size)
    }
    configurations = all_configurations(run.full)
    cells = Cells(
        cell
        for program, trace in traces.items()
        for cell in measure(program, trace, configurations, run)
    )
    evidence = look_into(traces, run)
    drawn = figures(cells)
    save_figures(drawn, run.folder / "figures")
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        claims=evaluate(cells, evidence, published_claims(PAPER)),
        figures=drawn,
        tables={"cells": cells.table(), "experiments": evidence.table()},
        notes=notes(traces, len(configurations)),
    )


def all_configurations(full: bool) -> list[Configuration]:
    """Table 1; other TLB sizes and the hardware-walked inverted table at the plotted lines."""
    l1_sizes = L1_SIZES if full else SHORT_L1_SIZES
    l2_sizes = L2_SIZES if full else SHORT_L2_SIZES
    l1_line, l2_line = PLOTTED_LINES
    besides = [
        Configuration(organisation, l1, l2, l1_line, l2_line, entries)
        for organisation in [*WITH_TLB, "inverted-hw"]
        for l1 in l1_sizes
        for l2 in l2_sizes
        for entries in ([*TLB_SIZES, 128] if organisation == "inverted-hw" else TLB_SIZES)
    ]
    return cross_product(l1_sizes, l2_sizes, LINES, LINES) + besides


def trace_of(program: guests.Program, folder: Path, run: Run) -> Path:
    """The program's trace; recorded unless it is there and younger than the inputs."""
    trace = folder / f"{program.name}.mmt"
    inputs = [Path(word) for word in program.command if Path(word).parent == folder]
    newest = max((path.stat().st_mtime for path in inputs if path.exists()), default=0.0)
    if not trace.exists() or trace.stat().st_mtime < newest:
        run.progress(f"recording {program.name}")
        mmulab.record(program.command, trace, max_instructions=MAXIMUM_INSTRUCTIONS)
    return trace


def measure(
    program: str, trace: Path, configurations: list[Configuration], run: Run
) -> Iterator[Cell]:
    """Replays a trace on configurations, a number of them at a time."""
    at_once = 96
    for start in range(0, len(configurations), at_once):
        some = configurations[start : start + at_once]
        run.progress(f"replaying {program}: {start} of {len(configurations)} configurations")
        yield from replay_cells(
            program,
            trace,
            [(configuration, configuration.changes()) for configuration in some],
            run.seed,
        )


def look_into(traces: dict[str, Path], run: Run) -> Evidence:
    """Runs the experiments."""
    found = {}
    for program, trace in traces.items():
        run.progress(f"experiments with {program}")
        cells = replay_cells(
            program,
            trace,
            [(experiment.configuration, experiment.all_changes()) for experiment in EXPERIMENTS],
            run.seed,
        )
        for experiment, cell in zip(EXPERIMENTS, cells, strict=True):
            found[program, experiment.name] = cell
    return Evidence(found)


def replay_cells(
    program: str,
    trace: Path,
    machines: list[tuple[Configuration, dict[str, int | str]]],
    seed: int,
) -> Iterator[Cell]:
    """Replays a trace once, on machines made from the shipped ones by changes."""
    changed = [
        mmulab.Machine.load(configuration.organisation).with_changes(changes)
        for configuration, changes in machines
    ]
    results = mmulab.replay(trace, changed, seed=seed)
    for (configuration, _), result in zip(machines, results, strict=True):
        chains = result.data["chains"]
        yield Cell(
            program,
            configuration,
            result.instructions,
            result.interrupt_count,
            sum(counters["misses"] for counters in result.data["tlbs"].values()),
            {
                name: (account["count"], account["cycles"])
                for name, account in result.data["causes"].items()
            },
            chains["mean_search_by_page"] if chains else None,
        )


def notes(traces: dict[str, Path], configurations: int) -> str:
    """What was run."""
    lines = [f"{configurations} configurations of each program."]
    for name, trace in traces.items():
        information = mmulab.trace_information(trace)
        lines.append(
            f"{name}: {information.instructions / 1e6:.1f} million instructions of "
            f"`{' '.join(Path(word).name for word in information.command)}`."
        )
    return "\n".join(lines)
