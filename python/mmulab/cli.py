"""The commands. Each turns what was typed into a call of the API, and its result into output."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group
from rich.syntax import Syntax

import mmulab
from mmulab import arrow as pa
from mmulab import files, profiling, replaying, run_folder, views
from mmulab import output as out
from mmulab.calibrate import BUSY_LOAD, SAMPLES
from mmulab.command import (
    EXIT_STATUS,
    TAKES_A_PROGRAM,
    CommandGroup,
    CountOption,
    EndOption,
    EnvironmentOption,
    FollowOption,
    FormatOption,
    GuessesOption,
    LimitOption,
    MachineOption,
    OutputOption,
    PartialOption,
    ProgramArgument,
    QemuOption,
    RegionOption,
    Result,
    SeedOption,
    SetOption,
    SkipOption,
    ThreadsOption,
    TraceArgument,
    WarmUpOption,
    begin_process,
    changes_of,
    command,
    complete_machine,
    directory,
    environment_of,
    folder_path,
    machine_of,
    machines_of,
    new_text_path,
    new_trace_path,
    number_from,
    replay_machines_of,
    status_of,
    time_limit,
    trace_path,
)
from mmulab.errors import InputError, Interrupted, MachineError, MmulabError, StudyError
from mmulab.limits import MAX_CORES, whole_number
from mmulab.machine import Machine, machine_names, machine_schema
from mmulab.output import SUFFIXES, Format, beside_a_program, note, progress
from mmulab.papers import PAPERS

app = typer.Typer(
    name="mmulab",
    cls=CommandGroup,
    help="A laboratory for address translation and address-space switching.",
    epilog=EXIT_STATUS,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"mmulab {mmulab.__version__}")
        raise typer.Exit


@app.callback()
def mmulab_(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_version, help="Show the version."),
    ] = False,
) -> None:
    """A laboratory for address translation and address-space switching."""


@command(app, context_settings=TAKES_A_PROGRAM)
def run(
    program: ProgramArgument,
    machine: MachineOption = None,
    set_: SetOption = None,
    seed: SeedOption = 1,
    threads: ThreadsOption = 0,
    max_instructions: LimitOption = None,
    follow_children: FollowOption = False,
    qemu: QemuOption = False,
    environment: EnvironmentOption = None,
    dir: Annotated[
        Path | None,
        typer.Option(
            "--dir",
            metavar="DIR",
            parser=folder_path,
            help="Keep trace, results and report.html in DIR; replaces the run that DIR holds.",
        ),
    ] = None,
    guesses: GuessesOption = True,
) -> Result:
    """Record a program and show what translation costs it on each machine.

    Example: [bold]mmulab run -m ultrix -m x86-64 -- gzip -k -f README.md[/]

    Without -m all machines for replay take part. The exit status is that of the program. In a
    pipe what the program prints comes before the result: -o FILE keeps them apart.
    """
    machines = replay_machines_of(machine or [], set_)
    for one in machines:
        one.check_replays()  # before the program runs
    notes = []
    with contextlib.ExitStack() as stack:
        if dir is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mmulab-")))
        else:
            from mmulab.report import check_sweeps, write_report

            is_new = not dir.exists()
            refusal = f"{dir}: another run writes there; wait for its end, or name another folder"
            stack.enter_context(files.alone(directory(dir), refusal))
            stack.callback(run_folder.forget_if_empty, dir, is_new)
            check_sweeps(dir)  # which the report will show
            folder = run_folder.begin(dir)
        trace = folder / f"{Path(program[0]).name}.mmt"
        # Where it will be kept is told at the end.
        recorded = _record(
            program,
            trace,
            max_instructions,
            follow_children,
            qemu,
            None,
            environment_of(environment),
        )
        if recorded.interrupt_came:
            kept = f"{trace} holds what was recorded until then" if dir else "nothing was written"
            raise Interrupted(f"interrupted; {kept}, nothing was replayed")
        try:
            results, curves = _replay_processes(recorded, machines, seed, threads, guesses)
            if dir is not None:
                run_folder.write_json(folder / "replay.json", results.to_dicts())
                run_folder.write_json(
                    folder / "miss-curves.json", [curve.to_dict() for curve in curves]
                )
                run_folder.write_json(folder / "trace.json", _information_dict(recorded, dir))
                with progress("Drawing the report"):
                    write_report(folder, sweeps_of=dir)
                run_folder.publish(dir)
                notes.append(f"The report: {dir / 'report.html'}, the trace: {dir / trace.name}")
        except KeyboardInterrupt as error:
            kept = f"{trace} holds the recording" if dir else "nothing was written"
            raise Interrupted(f"interrupted; {kept}") from error
        except MmulabError as error:
            if dir is None:
                raise
            raise type(error)(f"{error}; {trace} holds the recording") from error
    return Result(
        data=results.to_dicts(),
        table=lambda: results.table,
        view=lambda: views.run(recorded, results, curves),
        notes=notes,
        status=recorded.exit_status or 0,
    )


def _replay_processes(
    recorded: mmulab.TraceInformation,
    machines: list[Machine],
    seed: int,
    threads: int,
    guesses: bool,
) -> tuple[mmulab.ReplayResults, list[mmulab.MissCurves]]:
    """Every process on every machine, and its misses by TLB size; of children those that executed
    anything."""
    rows: list[dict[str, Any]] = []
    curves = []
    for process in [recorded, *(child for child in recorded.children if child.instructions)]:
        with progress(f"Replaying {process.path.name}") as report:
            results = mmulab.replay(
                process.path,
                machines,
                seed=seed,
                threads=threads,
                guesses=guesses,
                progress=report,
            )
        rows += [row.data for row in results]
        with progress(f"Counting misses by TLB size of {process.path.name}") as report:
            curves.append(mmulab.miss_curves(process.path, progress=report))
    return mmulab.ReplayResults(rows), curves


@command(app, context_settings=TAKES_A_PROGRAM)
def record(
    program: ProgramArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", parser=new_trace_path, help="The trace to write."
        ),
    ] = Path("trace.mmt"),
    max_instructions: LimitOption = None,
    follow_children: FollowOption = False,
    qemu: QemuOption = False,
    environment: EnvironmentOption = None,
    format: Annotated[
        out.Format | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=f"Also give a summary, on stdout after the program's output: {', '.join(out.Format)}.",
        ),
    ] = None,
) -> None:
    """Record a program into a trace.

    Example: [bold]mmulab record -o gzip.mmt -- gzip -k -f README.md[/]

    The program keeps its input and output, and its exit status becomes that of this command. A
    recording that is killed leaves a trace that says that it is incomplete; --partial of other
    commands reads it as far as it goes. Programs for AArch64, ARM and RISC-V run under QEMU.
    """
    if format is not None:
        out.format_of(format, None, mend="> FILE")  # before the program runs
    recorded = _record(
        program,
        output,
        max_instructions,
        follow_children,
        qemu,
        output,
        environment_of(environment),
    )
    if format is not None:
        _trace_result(recorded).emit(format, None)
    raise typer.Exit(
        Interrupted.exit_status if recorded.interrupt_came else recorded.exit_status or 0
    )


def _record(
    program: list[str],
    trace: Path,
    max_instructions: int | None,
    follow_children: bool,
    qemu: bool,
    kept_as: Path | None,
    environment: dict[str, str] | None,
) -> mmulab.TraceInformation:
    """Records, and tells what Valgrind said, how it went, and as what the trace will be kept, if at
    all."""
    with beside_a_program(f"recording {program[0]}") as report:
        recorded = mmulab.record(
            program,
            trace,
            max_instructions=max_instructions,
            follow_children=follow_children,
            qemu=qemu,
            environment=environment,
            progress=report,
        )
    for line in views.valgrind_lines(recorded.messages):
        note(line)
    note(views.recorded_line(recorded, kept_as))
    return recorded


@command(app)
def replay(
    trace: TraceArgument,
    more: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="MACHINE",
            autocompletion=complete_machine("replay"),
            help="Further machines; with --schedule further traces.",
        ),
    ] = None,
    machine: MachineOption = None,
    set_: SetOption = None,
    schedule: Annotated[
        replaying.Schedule | None,
        typer.Option(
            "--schedule",
            metavar="POLICY",
            help="Let several programs take turns: round-robin, each on its core, "
            "or one-queue, on whichever is free.",
        ),
    ] = None,
    time_slice: Annotated[
        int | None,
        typer.Option(
            "--time-slice",
            parser=number_from(1),
            metavar="N",
            help="Instructions of a turn, with --schedule.",
            show_default=f"{replaying.TIME_SLICE_INSTRUCTIONS:,}",
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            "--cores",
            parser=number_from(1, MAX_CORES),
            metavar="N",
            help="Cores of each machine, with --schedule.",
            show_default="1",
        ),
    ] = None,
    seed: SeedOption = 1,
    threads: ThreadsOption = 0,
    skip: SkipOption = 0,
    warm_up: WarmUpOption = 0,
    limit: EndOption = None,
    region: RegionOption = None,
    guesses: GuessesOption = True,
    partial: PartialOption = False,
) -> Result:
    """Show what translation costs a recorded program on each machine.

    Example: [bold]mmulab replay examples/small.mmt -m ultrix mach --set dtlb.entries=64[/]

    Without a machine all machines for replay take part. The TRACE stands before the machines.
    --region NAME counts what a function does from its entry to its return, with all that it calls,
    or what stands between MMULAB_REGION_BEGIN("NAME") and END of recorders/valgrind/mmulab.h in the
    program; the rest is replayed, so that caches and TLBs are what they would be, and not counted.

    With --schedule each name without an option is a trace, and machines are given by -m. Every
    program has an address space of its own; organisation.address_spaces of a machine is how many
    its TLBs keep apart, and without -m all machines that have it take part: [bold]mmulab replay
    a.mmt b.mmt --schedule round-robin -m zen5[/]

    With --schedule and --cores N threads and programs are spread over N cores, which share what the
    machine's multicore says; what one unmaps is shot down on the others.
    """
    traces: Path | list[Path] = trace
    names = [*(machine or []), *(more or [])]
    if schedule is None:
        for name in more or []:
            if name.endswith(".mmt"):
                raise InputError(
                    f"{name}: a trace stands where a machine does; the trace comes first, and several take "
                    "turns with --schedule round-robin"
                )
        for option, value in (("--time-slice", time_slice), ("--cores", cores)):
            if value is not None:
                raise InputError(f"{option} is for programs that take turns; add --schedule")
        machines = replay_machines_of(names, set_)
    else:
        for name in more or []:
            if name in machine_names():
                raise InputError(f"{name}: with --schedule a machine is given by -m {name}")
        traces = [trace, *map(trace_path, more or [])]
        time_slice = time_slice or replaying.TIME_SLICE_INSTRUCTIONS
        machines = machines_of(machine or replaying.schedule_machines(), set_)
    with progress("Replaying") as report:
        results = mmulab.replay(
            traces,
            machines,
            time_slice_instructions=time_slice,
            cores=cores or 1,
            one_queue=schedule is replaying.Schedule.one_queue,
            seed=seed,
            threads=threads,
            skip=skip,
            warm_up=warm_up,
            limit=limit,
            region=region,
            guesses=guesses,
            partial=partial,
            progress=report,
        )
    return Result(
        data=results.to_dicts(),
        table=lambda: results.table,
        view=lambda: views.replay(results),
        notes=_without_large_pages(results),
    )


def _without_large_pages(results: Iterable[mmulab.MachineResult]) -> list[str]:
    """Says of machines that look for anonymous memory that the trace does not tell what is."""
    notes = []
    for row in results:
        pages = row.data["provenance"]["machine"]["description"]["organisation"].get("pages")
        names = {region["name"] for region in row.data["regions"]}
        if pages in ("mixed", "on-fault") and names == {"[unknown]"}:
            notes.append(
                f"{row.trace}: has no mappings, so that {row.machine} finds no anonymous memory for large pages: "
                "all are small; organisation.pages=2M is the other end"
            )
    return notes


@command(app)
def profile(
    trace: TraceArgument,
    machine: Annotated[
        list[str] | None,
        typer.Option(
            "--machine",
            "-m",
            metavar="MACHINE",
            autocompletion=complete_machine("replay"),
            help="A machine for replay.",
            show_default="x86-64",
        ),
    ] = None,
    set_: SetOption = None,
    by: Annotated[
        profiling.By, typer.Option("--by", help="What a row of the table stands for.")
    ] = profiling.By.function,
    callgrind: Annotated[
        Path | None,
        typer.Option(
            "--callgrind", metavar="FILE", help="Also for KCachegrind, callgrind_annotate."
        ),
    ] = None,
    speedscope: Annotated[
        Path | None,
        typer.Option("--speedscope", metavar="FILE", help="Also for speedscope.app."),
    ] = None,
    stacks: Annotated[
        Path | None,
        typer.Option(
            "--stacks", metavar="FILE", help="Also as collapsed stacks, for flame graphs."
        ),
    ] = None,
    cost: Annotated[
        profiling.Cost,
        typer.Option(
            "--cost",
            metavar="COST",
            help=f"What orders the table and fills --stacks: {', '.join(profiling.Cost)}.",
        ),
    ] = profiling.Cost.translation_cycles,
    seed: SeedOption = 1,
    skip: SkipOption = 0,
    warm_up: WarmUpOption = 0,
    limit: EndOption = None,
    region: RegionOption = None,
    partial: PartialOption = False,
) -> Result:
    """Show which functions or source lines pay for translation, page faults and cache misses.

    Example: [bold]mmulab profile examples/small.mmt -m x86-64 --speedscope small.json[/]

    Names come from the ELF files that the program had mapped, and from their separate debug files,
    if they are where they were when it was recorded. Calls are known for x86 programs. The costs of
    a function's own code and, with its callees, inclusive ones are given; its own ones add up to
    what replay counts.
    """
    chosen = machine_of(machine or ["x86-64"], set_)
    with progress("Replaying") as report:
        result = mmulab.profile(
            trace,
            chosen,
            seed=seed,
            skip=skip,
            warm_up=warm_up,
            limit=limit,
            region=region,
            partial=partial,
            progress=report,
        )
    written = [
        (callgrind, result.callgrind),
        (speedscope, result.speedscope),
        (stacks, lambda: result.stacks(cost)),
    ]
    wanted = [(path, text) for path, text in written if path is not None]
    contents = []
    with progress("Adding up", "files") as report:
        for done, (path, text) in enumerate(wanted):
            report(done, len(wanted) + 1)
            contents.append((path, text().encode()))
        report(len(wanted), len(wanted) + 1)
        table = result.table(by, cost)
    for path, content in contents:
        out.write(content, path)
        out.note(f"Wrote {path}")
    return Result(
        data=result.to_dict(),
        table=lambda: table,
        view=lambda: views.profile(result, by, table),
        notes=_without_large_pages([result.outcome]),
    )


@command(app)
def miss_curves(
    trace: TraceArgument,
    entries: Annotated[
        int,
        typer.Option(
            "--entries",
            parser=number_from(1),
            metavar="N",
            help="Data TLB of the verdict on huge pages.",
        ),
    ] = 1536,
    partial: PartialOption = False,
) -> Result:
    """Show the TLB misses of a trace for every TLB size at 4K, 16K, 64K, 2M and 1G pages.

    Example: [bold]mmulab miss-curves examples/small.mmt[/]

    TLBs are fully associative and replace the least recently used entry; the counts are exact.
    """
    with progress("Counting misses by TLB size") as report:
        curves = mmulab.miss_curves(trace, entries=entries, partial=partial, progress=report)
    return Result(
        data=curves.to_dict(),
        table=lambda: curves.table,
        view=lambda: views.miss_curves(curves),
    )


@command(app)
def sweep(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A study in TOML.")],
    traces: Annotated[
        list[Path] | None,
        typer.Argument(metavar="TRACE", help="Traces that replace those of the study."),
    ] = None,
    set_: SetOption = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", parser=number_from(0), metavar="N", help="Instead of the study's."),
    ] = None,
    threads: ThreadsOption = 0,
    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="dask://HOST:PORT",
            help="Run on a Dask cluster; dask://local starts workers on this computer.",
        ),
    ] = None,
    guesses: Annotated[
        bool,
        typer.Option(
            "--guesses",
            help="Also try the other values of the machines' guesses, for the range of each share.",
        ),
    ] = False,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Replay a design space in parallel; continues where a killed sweep stopped.

    Example: [bold]mmulab sweep examples/studies/tlb_sizes.toml -o tlb_sizes.parquet[/]

    With -o FILE finished parts are kept beside it until the whole is done. Rows do not depend on
    threads or interruptions.
    """
    in_file = mmulab.Study.load(study)
    changes = changes_of(set_)
    for path in changes:
        if any(path in axis for axis in in_file.vary):
            raise InputError(
                f"{path}: is varied in {study}; leave out --set {path}, or take it away there"
            )
    described = dataclasses.replace(
        in_file,
        traces=traces or in_file.traces,
        set={**in_file.set, **changes},
        path=None if set_ else in_file.path,  # what is wrong then need not be in the file
        seed=in_file.seed if seed is None else seed,
    )
    format = out.format_of(format, output)

    def result_of(table: pa.Table) -> Result:
        return Result(data=table.to_pylist(), table=lambda: table, view=lambda: views.sweep(table))

    try:
        with progress("Sweeping", "configurations" if on else "instructions") as report:
            table = mmulab.sweep(
                described,
                output,
                threads=threads,
                on=on,
                guesses=guesses,
                progress=report,
                note=note,
                encode=lambda table: result_of(table).encoded(format),
            )
    except (MachineError, StudyError):
        in_file.configurations()  # raises where the file is wrong already
        raise
    except KeyboardInterrupt as error:
        if output is not None:
            kept = mmulab.study.parts_folder(output)
            units = len(list(kept.glob("*.json")))
            finished = "1 finished unit is" if units == 1 else f"{units} finished units are"
            raise Interrupted(
                f"interrupted; {finished} kept in {kept}, and the same command goes on from there"
                if units
                else "interrupted before a unit was finished; nothing is kept"
            ) from error
        raise
    if output is not None:
        rows = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
        return note(f"{rows} in {output}")
    result_of(table).emit(format, None)


trace_group = typer.Typer(
    name="trace", cls=CommandGroup, help="Inspect a trace: information, text dump, slices."
)
app.add_typer(trace_group)


@command(trace_group)
def info(trace: TraceArgument, partial: PartialOption = False) -> Result:
    """Show what a trace says of itself: program, length, accesses, how the recording ended.

    Example: [bold]mmulab trace info examples/small.mmt[/]

    A .mmt trace tells at once; one of another format is read to its end.
    """
    with progress("Reading") as report:
        information = mmulab.trace_information(trace, partial=partial, progress=report)
    told = _trace_result(information)
    told.data.pop("children")  # a trace knows nothing of those beside it
    return told


@command(trace_group)
def slice(
    trace: TraceArgument,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FILE", parser=new_trace_path, help="The .mmt trace to write."
        ),
    ],
    skip: SkipOption = 0,
    count: CountOption = None,
    partial: PartialOption = False,
) -> None:
    """Write a part of a trace as a .mmt trace; with neither --skip nor --count, convert it.

    Example: [bold]mmulab trace slice examples/small.mmt --skip 100000 -n 50000 -o part.mmt[/]

    What was mapped and unmapped before the part stands at its beginning, so that reports know its
    regions.
    """
    with progress("Writing") as report:
        written = mmulab.slice_trace(
            trace, output, skip=skip, count=count, partial=partial, progress=report
        )
    note(f"{written.instructions:,} instructions in {output}")


@command(trace_group)
def dump(
    trace: TraceArgument,
    skip: SkipOption = 0,
    count: CountOption = None,
    partial: PartialOption = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            parser=new_text_path,
            help="Write the text to FILE, complete or not at all.",
        ),
    ] = None,
) -> None:
    """Print a trace as text: a line for each instruction, access and event.

    Example: [bold]mmulab trace dump examples/small.mmt --skip 100000 -n 20[/]

    The text is that of Valgrind's lackey: I address,size, then L, S or M for each load, store or
    modify. Lines with -- tell of threads and mappings. Replay reads it: mmulab replay - does, in a
    pipe.
    """
    try:
        # The text on a terminal, or in a pager, leaves no place for a bar.
        to_a_screen = sys.stdout.isatty() or stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
        bar = progress("Writing") if output or not to_a_screen else contextlib.nullcontext()
        with out.writing(output) as write, bar as report:
            mmulab.dump_trace(
                trace, write, skip=skip, count=count, partial=partial, progress=report
            )
    except KeyboardInterrupt as error:
        if output is None:
            raise Interrupted("interrupted") from error  # some of it was written
        raise


@command(app)
def machines(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            autocompletion=complete_machine(),
            help="Show this one, with its sources.",
        ),
    ] = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of machine files.")
    ] = False,
    set_: SetOption = None,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """List the machines, or show one with the source of each value.

    Example: [bold]mmulab machines ultrix > mine.toml[/]

    A machine's file is printed as it stands, so that it can be copied and changed, also into -o
    FILE.toml or a FILE without a suffix; with --set, --format json or -o FILE.json its values are
    printed instead.
    """
    if schema:
        if name is not None or set_ or format is not None:
            raise InputError("--schema is of all machines and JSON; give it alone, or with -o FILE")
        return _emit_text(json.dumps(machine_schema(), indent=2) + "\n", "json", output)
    if name is None:
        if set_:
            raise InputError("--set: of which machine? Name one")
        named = [(name, Machine.load(name)) for name in machine_names()]
        rows = [
            {"name": name, "kind": machine.kind, "title": machine.title} for name, machine in named
        ]
        return Result(
            data=rows,
            table=lambda: pa.Table.from_pylist(rows),
            view=lambda: views.machines(rows),
        ).emit(format, output)
    chosen = machine_of([name], set_)
    suffix = output.suffix if output is not None and format is None else ""
    if set_ and suffix == ".toml":
        raise InputError(
            f"{output}: a changed machine lacks its sources; name it .json, .csv or .parquet"
        )
    if not set_ and suffix not in ("", ".toml", *SUFFIXES):
        raise InputError(f"{output}: name it .toml, .json, .csv or .parquet, or give --format")
    if set_ or suffix not in ("", ".toml") or format not in (None, Format.table):
        values = chosen.values()
        return Result(
            data=values,
            table=lambda: views.values_table(values),
            view=lambda: views.machine_values(values),
        ).emit(format, output)
    return _emit_text(Machine.path_of(name).read_text(encoding="utf-8"), "toml", output)


@command(app)
def calibrate(
    dir: Annotated[
        Path,
        typer.Option(
            "--dir",
            metavar="DIR",
            parser=folder_path,
            help="Where machine.toml, calibration.json and report.html go.",
        ),
    ] = Path("results/this-computer"),
    samples: Annotated[
        int,
        typer.Option(
            "--samples",
            parser=number_from(3, 1000),
            metavar="N",
            help="Samples of each point, 3 to 1000.",
        ),
    ] = SAMPLES,
) -> Result:
    """Measure this computer's caches, TLBs, page-table walks and page faults, as a machine.

    Example: [bold]mmulab calibrate && mmulab replay examples/small.mmt -m
    results/this-computer/machine.toml[/]

    It takes one core (two for shootdowns) for a minute or more; let nothing else run meanwhile.
    Each value of the machine's file says whether it was measured (median and quartiles), reported
    by the processor, guessed, or as most processors have it.
    """
    folder = directory(dir)
    from mmulab.report.calibration import write_calibration_report

    load = os.getloadavg()[0]
    if load > BUSY_LOAD:
        note(
            f"this computer is busy (load {load:.1f}): it takes longer, and shared caches look smaller"
        )

    try:
        with progress("Measuring", "points") as report:
            calibration = mmulab.calibrate(samples=samples, progress=report)
    except BaseException:
        with contextlib.suppress(OSError):  # it holds an earlier one
            folder.rmdir()
        raise
    calibration.write(folder)
    page = write_calibration_report(folder, calibration)
    return Result(
        data=calibration.data(),
        table=calibration.table,
        view=lambda: views.calibration(calibration),
        notes=[f"Wrote {folder / 'machine.toml'}, {folder / 'calibration.json'} and {page}"],
    )


@command(app)
def boot(
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", help="An ELF, a Linux Image or zImage, or raw code.")
    ],
    machine: Annotated[
        list[str] | None,
        typer.Option(
            "--machine",
            "-m",
            metavar="MACHINE",
            autocompletion=complete_machine("system"),
            help="A system machine.",
            show_default="arm926ej-s",
        ),
    ] = None,
    set_: SetOption = None,
    initrd: Annotated[
        Path | None, typer.Option("--initrd", metavar="FILE", help="Initial RAM disk.")
    ] = None,
    dtb: Annotated[
        Path | None, typer.Option("--dtb", metavar="FILE", help="Device tree; Linux needs one.")
    ] = None,
    append: Annotated[
        str | None, typer.Option("--append", metavar="TEXT", help="Command line for the guest.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Report every use of stale data or translations.")
    ] = False,
    timeline: Annotated[
        Path | None, typer.Option("--timeline", metavar="FILE", help="Write a Perfetto trace.")
    ] = None,
    gdb: Annotated[
        int | None,
        typer.Option(
            "--gdb", parser=number_from(1, 65535), metavar="PORT", help="Wait for gdb on this port."
        ),
    ] = None,
    symbols: Annotated[
        Path | None,
        typer.Option(
            "--symbols",
            metavar="FILE",
            help="Symbols of an image that has none: an ELF file, or a list as of nm.",
        ),
    ] = None,
    guesses: Annotated[
        bool,
        typer.Option(
            "--guesses",
            help="Boot again for each other value of the machine's guesses, with the same input, and show the range.",
        ),
    ] = False,
    max_instructions: LimitOption = None,
    max_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-seconds",
            parser=time_limit,
            metavar="S",
            help="End after S seconds of the machine's own time, also where the guest sleeps.",
        ),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(
            "--save",
            metavar="FILE",
            help="Save the machine's state and end, at --save-at or Ctrl-].",
        ),
    ] = None,
    save_at: Annotated[
        str | None,
        typer.Option(
            "--save-at",
            metavar="N|TEXT",
            help="After N instructions, or once the guest has printed TEXT.",
        ),
    ] = None,
    restore: Annotated[
        Path | None,
        typer.Option(
            "--restore", metavar="FILE", help="Begin with a saved state of the same boot."
        ),
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Boot a kernel or program on a simulated ARM machine, and show where its cycles went.

    Example: [bold]mmulab boot guest.elf -m arm926ej-s --check[/]

    The guest's console is the terminal; Ctrl-] ends the run, with --gdb Ctrl-C, too. Where the
    result goes to a pipe, the console goes to stderr. Exit status 1 says that the guest failed or
    the checker reported, 130 that Ctrl-C or Ctrl-] ended the run (0 where it was saved then); the
    result is given then, too. A restored run goes on cycle by cycle as the saved one would have;
    only values in cycles may be --set to others.
    """
    from mmulab.boot import check_text_to_save_at, guess_rows, terminal

    format = out.format_of(format, output)
    result_takes_stdout = output is None and not (sys.stdout.isatty() and format is Format.table)
    screen = sys.stderr.buffer if result_takes_stdout else sys.stdout.buffer
    chosen = machine_of(machine or ["arm926ej-s"], set_)
    if guesses and (save or restore):
        raise InputError("--guesses: each is a boot of its own, without --save and --restore")
    if save_at is not None and save is None:
        raise InputError("--save-at: where to? Add --save FILE")
    save_point: int | str | None = save_at
    if save_at is not None:
        try:
            number = int(save_at)
        except ValueError:
            check_text_to_save_at("--save-at", save_at)
        else:
            save_point = whole_number("--save-at", number)
    if save is not None and gdb is not None:
        raise InputError("--save: not with --gdb; save first, and give --restore with --gdb")
    again = functools.partial(
        mmulab.boot,
        image,
        initrd=initrd,
        dtb=dtb,
        append=append,
        max_instructions=max_instructions,
        max_seconds=max_seconds,
    )
    with terminal(screen, note, gdb=gdb is not None) as console:
        result = again(
            chosen,
            check=check,
            timeline=timeline,
            gdb_port=gdb,
            symbols=symbols,
            console=console,
            save=save,
            save_at=save_point,
            restore=restore,
            progress=console.advanced if sys.stderr.isatty() else None,
        )
    interrupted = result.reason == "interrupted"
    notes = [text for text in result.data["notes"] if text not in console.remarks]
    missed = save is not None and result.reason != "saved"
    by_hand = guesses and not interrupted and console.real_time and any(result.typed)
    has_failed = not result.succeeded or missed or by_hand
    failures: list[str] = []
    (failures if has_failed and not interrupted else notes).append(result.end)
    is_lost = result.reason in ("vector-loop", "empty-vector", "lost-fetch")
    if is_lost and dtb is None and restore is None and not _is_elf(image):
        notes.append("no device tree was given; if this is Linux it needs one: --dtb FILE")
    if result.reports and format in (Format.csv, Format.parquet):
        failures.append(
            f"the checker reports {len(result.reports)}, which {format.value} does not hold; --format json does"
        )
    elif result.reports and output is not None:
        failures.append(f"the checker reports {len(result.reports)}: see {output}")
    if restored := result.data["restored"]:
        notes.append(
            f"restored at {restored['instructions']:,} instructions and {restored['cycles']:,} cycles, "
            "which are part of all counts"
        )
        notes += [
            f"{name} is {values['now']} since then, where the state was saved with {values['saved']}"
            for name, values in restored["other_cycles"].items()
        ]
        if result.instructions == restored["instructions"]:
            notes.append("nothing was executed: limits and --save-at count from power-on")
    if missed:
        point = "Ctrl-]; --save-at says where else" if save_at is None else "--save-at"
        failures.append(f"{save}: not written, as the run ended before {point}")
    if by_hand:
        failures.append(
            "--guesses: not booted again, as nothing is typed by hand twice alike; pipe it in"
        )
    elif guesses and not interrupted:
        rows: list[dict[str, Any]] = []
        try:
            with progress("Booting with other values of the guesses", "boots") as report:
                for row in guess_rows(result, chosen, again, report):
                    rows.append(row)
        except KeyboardInterrupt:
            interrupted = True
            failures.append(
                f"interrupted; {len(rows)} boots with other values of the guesses were done"
            )
        result = dataclasses.replace(result, data={**result.data, "guesses": rows})
    elif count := sum(map(len, chosen.values().get("guesses", []))):
        notes.append(f"{count} values of {chosen.name} are guesses; --guesses shows what they do")
    Result(
        data=result.data,
        table=lambda: result.table,
        view=lambda: views.boot(result),
        notes=notes,
        failures=failures,
        status=Interrupted.exit_status if interrupted else int(has_failed),
    ).emit(format, output)


@command(app)
def reproduce(
    paper: Annotated[
        str | None,
        typer.Argument(
            metavar="PAPER",
            autocompletion=lambda incomplete: [
                name for name in PAPERS if name.startswith(incomplete)
            ],
            help=f"{', '.join(PAPERS)} (default: all).",
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Long inputs: ten minutes or more a paper, where the short ones take minutes.",
        ),
    ] = False,
    dir: Annotated[
        Path,
        typer.Option(
            "--dir",
            metavar="DIR",
            parser=folder_path,
            help="Directory of traces, figures and tables.",
        ),
    ] = Path("results/reproduce"),
    seed: SeedOption = 1,
    guesses: Annotated[
        bool,
        typer.Option(
            "--guesses",
            help="Judge again with each other value that the machines' files give for a guess: N values, N times as long.",
        ),
    ] = False,
) -> Result:
    """Reproduce a paper: published and measured results, claim by claim.

    Example: [bold]mmulab reproduce vm-study-1998[/]

    Exit status 1 says that a claim differs; the explanation stands beside it.
    """
    from mmulab import papers, report

    names = list(PAPERS) if paper is None else [paper]
    papers.prepare(names, papers.Run(full=full))
    claims: list[dict[str, Any]] = []
    for name in names:
        folder = directory(dir / name)
        run = papers.Run(full=full, folder=folder, seed=seed, progress=note, guesses=guesses)
        try:
            reproduction = papers.reproduce(name, run)
        except KeyboardInterrupt as error:
            kept = any(folder.rglob("*.mmt"))
            raise Interrupted(
                f"interrupted; recordings and finished sweeps are kept in {folder}"
                if kept
                else "interrupted"
            ) from error
        claims += [claim.as_dict() for claim in reproduction.claims]
        with progress("Drawing the report"):
            page = report.write_reproduction(folder, reproduction)
        note(f"The report: {page}")
    return Result(
        data=claims,
        table=lambda: pa.Table.from_pylist(claims),
        view=lambda: views.claims(claims),
        status=1 if any(claim["verdict"] == "differs" for claim in claims) else 0,
    )


@command(app, "report")
def report_(
    dir: Annotated[
        Path, typer.Argument(metavar="DIR", parser=folder_path, help="A folder of results.")
    ],
    output: OutputOption = None,
) -> None:
    """Write a self-contained HTML page of tables and plots from a folder of results.

    Example: [bold]mmulab report results/first-run[/]

    It takes what it finds there: replay.json, miss-curves.json and trace.json as `mmulab run --dir`
    leaves them, and Parquet files of sweeps. The page is DIR/report.html, or the file after -o.
    """
    from mmulab.report import write_report

    if output is not None and output.suffix not in ("", ".html"):
        raise InputError(f"{output}: the report is a page; name it .html")
    with progress("Drawing the report"):
        page = write_report(dir, output)
    note(f"The report: {page}")


def main() -> None:
    """The entry point of `mmulab`; ends the process with the documented exit status."""
    begin_process()
    sys.exit(status_of(app, sys.argv[1:]))


def _emit_text(text: str, language: str, path: Path | None) -> None:
    if path is None and sys.stdout.isatty():
        out.show(Syntax(text.rstrip("\n"), language, background_color="default", word_wrap=True))
    else:
        out.write(text.encode(), path)


def _trace_result(information: mmulab.TraceInformation) -> Result:
    """What a trace says of itself; a row for each process."""
    data = _information_dict(information)
    rows = [
        {name: value for name, value in row.items() if name != "children"}
        for row in [data, *data["children"]]
    ]
    # Also what is not known has its type.
    types = {int: "int64", float: "float64"}
    columns = {
        name: types.get(type(value), "string")
        for name, value in {**rows[0], "exit_status": 0}.items()
    }
    return Result(
        data=data,
        table=lambda: pa.Table.from_pylist(rows, schema=pa.schema([*columns.items()])),
        view=lambda: Group(*map(views.dictionary, rows)),
    )


def _is_elf(path: Path) -> bool:
    if not path.is_file():
        return False  # a pipe, which has been read
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _information_dict(
    recorded: mmulab.TraceInformation, folder: Path | None = None
) -> dict[str, Any]:
    """What a trace says of itself; `folder` is where it will stand."""
    path = folder / recorded.path.name if folder else recorded.path
    values = dataclasses.asdict(recorded)
    del values["interrupt_came"]  # of the recording; the trace does not know
    return {
        **values,
        "path": str(path),
        "command": shlex.join(recorded.command),
        "messages": "\n".join(recorded.messages),
        "bits_per_instruction": recorded.bits_per_instruction,
        "children": [_information_dict(child, folder) for child in recorded.children],
    }
