"""Jacob and Mudge, "A Look at Several Memory Management Units, TLB-Refill Mechanisms, and Page
Table Organizations", ASPLOS-VIII, 1998: five organisations of virtual memory, their cost in cycles.

Records three programs of today that stand for the study's (`study_programs`, `study_choice`),
replays them on the study's machines over its table 1, evaluates its claims (`vm_study_claims`) and
draws its figures (`vm_study_figures`); experiments beside them (`vm_study_experiments`) say why
claims differ. The short version has shorter inputs and fewer sizes of caches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import mmulab
from mmulab.papers import Reproduction, Run, published_claims, save_figures
from mmulab.papers.guesses import over_guesses
from mmulab.papers.study_choice import chosen
from mmulab.papers.study_programs import (
    QUICK,
    Candidate,
    Program,
    is_recorded,
    programs,
    record,
)
from mmulab.papers.study_programs import missing_packages as missing
from mmulab.papers.vm_study_cells import (
    HASHED,
    KIB,
    L1_SIZES,
    L2_SIZES,
    LINES,
    ORGANISATIONS,
    PLOTTED_LINES,
    TABLE_ADDRESS,
    TABLE_START,
    WITH_TLB,
    Cell,
    Cells,
    Chains,
    Configuration,
    cross_product,
    table_heads,
    table_moved,
)
from mmulab.papers.vm_study_claims import evaluate
from mmulab.papers.vm_study_experiments import EXPERIMENTS, Evidence
from mmulab.papers.vm_study_figures import figures
from mmulab.provenance import inputs_provenance
from mmulab.study import remove_parts

PAPER = "vm_study_1998"
TITLE = "A look at several memory-management units (Jacob and Mudge, 1998)"
MACHINES = [*ORGANISATIONS, "inverted-hw"]
MAXIMUM_INSTRUCTIONS = 200_000_000
"""The study's limit for a run."""
SHORT_L1_SIZES = [size * KIB for size in (4, 8, 32, 128)]
SHORT_L2_SIZES = [size * KIB for size in (512, 2048)]


def reproduce(run: Run) -> Reproduction:
    """Records, replays, evaluates."""
    folder = run.folder / ("full" if run.full else "short")
    recorded = programs(folder, candidates(run))
    traces = {program.name: trace_of(program, folder, run) for program in recorded}
    pages = {program: pages_of(trace) for program, trace in traces.items()}
    heads = {program: table_heads(number) for program, number in pages.items()}
    cells, evidence = measure(traces, heads, folder, run)
    published = published_claims(PAPER)
    run.progress("judging the claims and drawing the figures")
    claims = evaluate(cells, evidence, published)
    tables = {"cells": cells.table(), "experiments": evidence.table()}
    if run.guesses:
        claims, tables["guesses"] = over_guesses(
            run,
            MACHINES,
            claims,
            lambda changed: evaluate(*measure(traces, heads, folder, changed), published),
        )
    drawn = figures(cells)
    save_figures(drawn, run.folder / "figures")
    for parts in folder.glob("sweep-*.parquet.parts"):
        remove_parts(parts.with_suffix(""))
    return Reproduction(
        paper=PAPER,
        title=TITLE,
        claims=claims,
        figures=drawn,
        tables=tables,
        notes=notes(traces, pages, run),
        provenance={
            **inputs_provenance(MACHINES, traces.values()),
            "full": run.full,
            "seed": run.seed,
        },
    )


def measure(
    traces: Mapping[str, Path], heads: Mapping[str, int], folder: Path, run: Run
) -> tuple[Cells, Evidence]:
    """Every cell, and the experiments beside them."""
    evidence = look_into(traces, heads, run)
    swept = [
        cell
        for program, trace in traces.items()
        for cell in sweep(program, trace, heads[program], folder, run)
    ]
    # The plain machines among the experiments tell more of themselves than a sweep's rows do.
    return Cells([*swept, *evidence.plain()]), evidence


def candidates(run: Run) -> dict[str, Candidate]:
    """The programs to run, by what they stand for."""
    return chosen() if run.full else QUICK


def missing_packages(run: Run) -> set[str]:
    """Debian packages that have to be installed first."""
    return missing(candidates(run).values())


def configurations(program: str, full: bool) -> list[Configuration]:
    """Table 1 for the programs of figures 6 to 9, its plotted lines for the third; besides, at the
    plotted lines, other TLB sizes and the hardware-walked inverted table.

    The sizes furthest from the study's are run on one organisation with protected slots and one
    without; the other two have the same TLBs.
    """
    l1_sizes = L1_SIZES if full else SHORT_L1_SIZES
    l2_sizes = L2_SIZES if full else SHORT_L2_SIZES
    l1_line, l2_line = PLOTTED_LINES
    lines = ([l1_line], [l2_line]) if program == "ijpeg-like" else (LINES, LINES)
    others = {64: [*WITH_TLB, "inverted-hw"], 128: ["inverted-hw"]}
    others |= {entries: ["ultrix", "intel"] for entries in (32, 256)}
    besides = [
        Configuration(organisation, l1, l2, l1_line, l2_line, entries)
        for entries, organisations in others.items()
        for organisation in organisations
        for l1 in l1_sizes
        for l2 in l2_sizes
    ]
    return cross_product(l1_sizes, l2_sizes, *lines) + besides


def trace_of(program: Program, folder: Path, run: Run) -> Path:
    """The program's trace; recorded unless it is there."""
    trace = folder / f"{program.name} {program.label}.mmt".replace(" ", "-").replace(",", "")
    if not is_recorded(program, trace):
        run.progress(f"recording {program.name}")
        record(program, trace, MAXIMUM_INSTRUCTIONS)
    return trace


def pages_of(trace: Path) -> int:
    """Pages that a program touches: those that end up in an inverted table."""
    [result] = mmulab.replay(trace, "inverted-hw", guesses=False)
    return result.data["chains"]["pages"]


def sweep(program: str, trace: Path, heads: int, folder: Path, run: Run) -> list[Cell]:
    """Replays a trace on all configurations; an interrupted reproduction finds what is finished."""
    all_of_them = configurations(program, run.full)
    study = mmulab.Study(
        traces=[trace],
        machines=[machine_of(one, one.changes(heads), run) for one in all_of_them],
        seed=run.seed,
    )
    # Each other value of a guess is a study of its own, which is continued by itself.
    of_guess = "".join(f"-{machine.sha256[:12]}" for machine in run.changed.values())
    table = mmulab.sweep(
        study,
        folder / f"sweep-{program}{of_guess}.parquet",
        progress=every_tenth(program, run.progress),
        keep_parts=True,
    )
    return [
        cell_of(program, configuration, row)
        for configuration, row in zip(all_of_them, table.to_pylist(), strict=True)
    ]


def cell_of(program: str, configuration: Configuration, row: dict[str, Any]) -> Cell:
    """A row of a sweep as a cell."""
    causes = [name.removesuffix(".count") for name in row if name.endswith(".count")]
    return Cell(
        program,
        configuration,
        row["instructions"],
        row["interrupts"],
        sum(row.get(f"{tlb}.misses") or 0 for tlb in ("itlb", "dtlb")),
        {
            cause: (row[f"{cause}.count"], row[f"{cause}.cycles"])
            for cause in causes
            if row[f"{cause}.count"]
        },
    )


def every_tenth(program: str, tell: Callable[[str], None]) -> Callable[[int, int | None], None]:
    """Progress of a sweep as a line at each tenth of it."""
    told = -1

    def progress(done: int, total: int | None) -> None:
        nonlocal told
        tenth = 10 * done // total if total else 0
        if tenth > told:
            told = tenth
            tell(f"replaying {program} on all configurations: {10 * tenth}%")

    return progress


def look_into(traces: Mapping[str, Path], heads: Mapping[str, int], run: Run) -> Evidence:
    """Runs the experiments."""
    found = {}
    for program, trace in traces.items():
        run.progress(f"experiments with {program}")
        machines = [
            machine_of(one.configuration, one.all_changes(heads[program]), run)
            for one in EXPERIMENTS
        ]
        results = mmulab.replay(trace, machines, seed=run.seed, guesses=False)
        for experiment, result in zip(EXPERIMENTS, results, strict=True):
            chains = result.data["chains"]
            found[program, experiment.name] = Cell(
                program,
                experiment.configuration,
                result.instructions,
                result.interrupt_count,
                sum(counters["misses"] for counters in result.data["tlbs"].values()),
                {
                    name: (account["count"], account["cycles"])
                    for name, account in result.data["causes"].items()
                },
                chains_of(chains) if chains else None,
            )
    return Evidence(found)


def chains_of(counted: dict[str, Any]) -> Chains:
    """Collision chains as a replay counts them."""
    return Chains(counted["pages"], counted["heads"], counted["mean_search_by_page"])


def machine_of(
    configuration: Configuration, changes: Mapping[str, int | str], run: Run
) -> mmulab.Machine:
    """The run's machine of an organisation, changed."""
    machine = run.machine(configuration.organisation)
    if configuration.organisation in run.changed and configuration.organisation in HASHED:
        changes = table_moved(changes, int(str(machine.get(TABLE_START))) - TABLE_ADDRESS)
    return machine.with_changes(changes)


def notes(traces: dict[str, Path], pages: dict[str, int], run: Run) -> str:
    """What was run."""
    replays = sum(len(configurations(name, run.full)) for name in traces)
    lines = [f"{replays:,} replays of three programs."]
    for name, trace in traces.items():
        information = mmulab.trace_information(trace)
        lines.append(
            f"{name}: {information.instructions / 1e6:.1f} million instructions of "
            f"“{' '.join(Path(word).name for word in information.command)}”, {pages[name]:,} pages "
            f"(inverted tables of {table_heads(pages[name]):,} heads)."
        )
    return "\n".join(lines)
