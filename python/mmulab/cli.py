"""The commands. Each turns what was typed into a call of the API, and its result into output."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer
from rich.console import Group
from rich.syntax import Syntax

import mmulab
from mmulab import output, views
from mmulab.errors import InputError, MmulabError
from mmulab.files import replacing
from mmulab.machine import Machine, machine_names, machine_schema
from mmulab.output import Format, emit, note, progress

app = typer.Typer(
    name="mmulab",
    help="A laboratory for address translation and address-space switching.",
    epilog="Exit status: 0 done; 1 the job failed or a claim did not hold; 2 wrong usage or bad "
    "input; 130 interrupted.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

MachineOption = Annotated[
    list[str] | None,
    typer.Option(
        "--machine",
        "-m",
        metavar="MACHINE",
        help="A machine by name or file; repeat it, or separate names by commas.",
    ),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a machine's value by its dotted path, as in dtlb.entries=64 or l2.size_bytes=2M.",
    ),
]
SeedOption = Annotated[
    int, typer.Option("--seed", min=0, help="Seeds random replacement and placement.")
]
ThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads", min=0, help="Worker threads; 0 for one a core. Results don't differ."
    ),
]
FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="Default: a table on a terminal, JSON in a pipe, -o by suffix."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the result here, all or nothing."),
]
LimitOption = Annotated[
    int | None,
    typer.Option("--max-instructions", min=1, metavar="N", help="Stop after N instructions."),
]
PartialOption = Annotated[
    bool,
    typer.Option("--partial", help="Read an incomplete trace up to its last whole chunk."),
]
TraceArgument = Annotated[
    Path,
    typer.Argument(metavar="TRACE", help="A trace: .mmt, ChampSim, Valgrind lackey or Dinero din."),
]
ProgramArgument = Annotated[
    list[str], typer.Argument(metavar="PROGRAM [ARGS]...", help="What to run; write -- before it.")
]
FollowOption = Annotated[
    bool, typer.Option("--follow-children", help="Record child processes, too.")
]
INTERRUPTED = "interrupted; nothing was written"
# What stands after PROGRAM is the program's, options included.
TAKES_A_PROGRAM = {"allow_interspersed_args": False}


@app.command(context_settings=TAKES_A_PROGRAM)
def run(
    program: ProgramArgument,
    machine: MachineOption = None,
    set_: SetOption = None,
    seed: SeedOption = 1,
    threads: ThreadsOption = 0,
    max_instructions: LimitOption = None,
    follow_children: FollowOption = False,
    dir: Annotated[
        Path | None,
        typer.Option("--dir", metavar="DIR", help="Keep trace, results and report.html in DIR."),
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Record a program and show what translation costs it on each machine.

    Example: [bold]mmulab run -m ultrix -m x86-64 -- gzip -k -f README.md[/]

    Without -m all machines for replay take part.
    """
    machines = _machines(machine or machine_names("replay"), set_)
    with contextlib.ExitStack() as stack:
        if dir is None:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mmulab-")))
        else:
            directory = _directory(dir)
        trace = directory / "trace.mmt"
        with progress("Recording") as report:
            recorded = mmulab.record(
                program,
                trace,
                max_instructions=max_instructions,
                follow_children=follow_children,
                progress=report,
            )
        note(views.recorded_line(recorded))
        with progress("Replaying") as report:
            results = mmulab.replay(trace, machines, seed=seed, threads=threads, progress=report)
        with progress("Measuring reach") as report:
            curves = mmulab.reach(trace, progress=report)
        if dir is not None:
            from mmulab.report import write_report

            _write_json(directory / "replay.json", results.to_dicts())
            _write_json(directory / "reach.json", curves.to_dict())
            _write_json(directory / "trace.json", _information_dict(recorded))
            page = write_report(directory)
    emit(
        data=results.to_dicts(),
        table=lambda: results.table,
        view=lambda: Group(views.replay(results), "", curves.verdict),
        format=format,
        output=output,
    )
    if dir is not None:
        note(f"The report: {page}")


@app.command(context_settings=TAKES_A_PROGRAM)
def record(
    program: ProgramArgument,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The trace to write.")
    ] = Path("trace.mmt"),
    max_instructions: LimitOption = None,
    follow_children: FollowOption = False,
    format: FormatOption = None,
) -> None:
    """Record a program into a trace, for replay as often as you like.

    Example: [bold]mmulab record -o gzip.mmt -- gzip -k -f README.md[/]

    The program keeps its input and output. A recording that is killed leaves a trace that says that
    it is incomplete; --partial of other commands reads it as far as it goes. With --format a summary
    goes to stdout, after what the program writes there.
    """
    with progress("Recording") as report:
        recorded = mmulab.record(
            program,
            output,
            max_instructions=max_instructions,
            follow_children=follow_children,
            progress=report,
        )
    note(views.recorded_line(recorded))
    if format is not None:
        data = _information_dict(recorded)
        emit(
            data=data,
            table=lambda: pa.Table.from_pylist([data]),
            view=lambda: views.dictionary(data),
            format=format,
            output=None,
        )


@app.command()
def replay(
    trace: TraceArgument,
    more_machines: Annotated[
        list[str] | None, typer.Argument(metavar="MACHINE...", help="Further machines.")
    ] = None,
    machine: MachineOption = None,
    set_: SetOption = None,
    seed: SeedOption = 1,
    threads: ThreadsOption = 0,
    partial: PartialOption = False,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Show what translation costs a recorded program on each machine.

    Example: [bold]mmulab replay examples/small.mmt -m ultrix mach --set dtlb.entries=64[/]

    Without a machine all machines for replay take part. The TRACE stands before the machines.
    """
    names = [*(machine or []), *(more_machines or [])]
    machines = _machines(names or machine_names("replay"), set_)
    with progress("Replaying") as report:
        results = mmulab.replay(
            trace,
            machines,
            seed=seed,
            threads=threads,
            partial=partial,
            progress=report,
        )
    emit(
        data=results.to_dicts(),
        table=lambda: results.table,
        view=lambda: views.replay(results),
        format=format,
        output=output,
    )


@app.command()
def reach(
    trace: TraceArgument,
    entries: Annotated[
        int,
        typer.Option("--entries", min=1, help="Data TLB of the verdict on huge pages."),
    ] = 1536,
    partial: PartialOption = False,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Show the TLB misses of a trace for every TLB size at 4K, 16K, 64K, 2M and 1G pages.

    Example: [bold]mmulab reach examples/small.mmt[/]

    TLBs are fully associative and replace the least recently used entry; the counts are exact.
    """
    with progress("Measuring reach") as report:
        curves = mmulab.reach(trace, entries=entries, partial=partial, progress=report)
    emit(
        data=curves.to_dict(),
        table=lambda: curves.table,
        view=lambda: views.reach(curves),
        format=format,
        output=output,
    )


@app.command()
def sweep(
    study: Annotated[Path, typer.Argument(metavar="STUDY", help="A study in TOML.")],
    traces: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[TRACE]...", help="Replay these instead of the study's."),
    ] = None,
    set_: SetOption = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Instead of the study's.")
    ] = None,
    threads: ThreadsOption = 0,
    on: Annotated[
        str | None,
        typer.Option(
            "--on", metavar="dask://HOST:PORT", help="Run on a Dask cluster; dask://local tries it."
        ),
    ] = None,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Replay a whole design space, in parallel, and go on where a killed sweep stopped.

    Example: [bold]mmulab sweep examples/studies/tlb_sizes.toml -o tlb_sizes.parquet[/]

    With -o FILE.parquet finished parts are kept beside it until the whole is done. Rows do not
    depend on threads or interruptions.
    """
    described = mmulab.Study.load(study)
    described = dataclasses.replace(
        described,
        traces=traces or described.traces,
        set={**described.set, **_changes(set_)},
        seed=described.seed if seed is None else seed,
    )
    is_parquet = output is not None and (
        format is Format.parquet or (format is None and output.suffix == ".parquet")
    )
    with progress("Sweeping") as report:
        table = mmulab.sweep(
            described, output if is_parquet else None, threads=threads, on=on, progress=report
        )
    if is_parquet:
        return note(f"{table.num_rows:,} rows in {output}")
    emit(
        data=table.to_pylist(),
        table=lambda: table,
        view=lambda: views.sweep(table),
        format=format,
        output=output,
    )


@app.command()
def machines(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Show this one, with its sources.")
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

    A machine's file is printed as it stands, so that it can be copied and changed; with --set or
    --format json its values are printed instead.
    """
    if schema:
        return _emit_text(json.dumps(machine_schema(), indent=2) + "\n", "json", output)
    if name is None:
        rows = [
            {"name": machine.name, "kind": machine.kind, "title": machine.title}
            for machine in map(Machine.load, machine_names())
        ]
        return emit(
            data=rows,
            table=lambda: pa.Table.from_pylist(rows),
            view=lambda: views.machines(rows),
            format=format,
            output=output,
        )
    chosen = _machines([name], set_)[0]
    if set_ or format not in (None, Format.table):
        values = chosen.values()
        return emit(
            data=values,
            table=lambda: views.values_table(values),
            view=lambda: views.machine_values(values),
            format=format,
            output=output,
        )
    return _emit_text(Machine.path_of(name).read_text(encoding="utf-8"), "toml", output)


@app.command()
def boot(
    image: Annotated[
        Path, typer.Argument(metavar="IMAGE", help="An ELF, a Linux Image or zImage, or raw code.")
    ],
    machine: Annotated[
        str, typer.Option("--machine", "-m", metavar="MACHINE", help="A system machine.")
    ] = "arm926ej-s",
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
        typer.Option("--gdb", metavar="PORT", min=1, max=65535, help="Wait for gdb on this port."),
    ] = None,
    symbols: Annotated[
        Path | None,
        typer.Option("--symbols", metavar="ELF", help="Names addresses of an image without any."),
    ] = None,
    max_instructions: LimitOption = None,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Boot a kernel or program on a simulated ARM machine, and show where its cycles went.

    Example: [bold]mmulab boot guest.elf -m arm926ej-s --check[/]

    The guest's console is the terminal; Ctrl-] ends the run. Where the result goes to a pipe, the
    console goes to stderr. Exit status 1 says that the guest failed or the checker reported.
    """
    from mmulab.boot import terminal

    result_takes_stdout = output is None and (
        not sys.stdout.isatty() or format not in (None, Format.table)
    )
    screen = sys.stderr.buffer if result_takes_stdout else sys.stdout.buffer
    chosen = _machines([machine], set_)[0]
    with terminal(screen) as console:
        result = mmulab.boot(
            image,
            chosen,
            initrd=initrd,
            dtb=dtb,
            append=append,
            check=check,
            timeline=timeline,
            gdb_port=gdb,
            max_instructions=max_instructions,
            symbols=symbols,
            console=console,
        )
    emit(
        data=result.data,
        table=lambda: result.table,
        view=lambda: views.boot(result),
        format=format,
        output=output,
    )
    for text in result.data["notes"]:
        note(text)
    note(result.end)
    if not result.succeeded:
        raise typer.Exit(1)


@app.command()
def reproduce(
    paper: Annotated[
        str | None, typer.Argument(metavar="PAPER", help="Which paper; without, all of them.")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Long inputs instead of those of under two minutes.")
    ] = False,
    dir: Annotated[
        Path,
        typer.Option("--dir", metavar="DIR", help="Where traces, figures and tables are kept."),
    ] = Path("results/reproduce"),
    seed: SeedOption = 1,
    format: FormatOption = None,
    output: OutputOption = None,
) -> None:
    """Reproduce a paper: published against ours, claim by claim.

    Example: [bold]mmulab reproduce vm-study-1998[/]

    Exit status 1 says that a claim differs; the explanation stands beside it.
    """
    from mmulab import papers, report

    names = list(papers.PAPERS) if paper is None else [paper]
    for name in names:
        if name not in papers.PAPERS:
            raise InputError(f"unknown paper {name!r}; known: {', '.join(papers.PAPERS)}")
    claims: list[dict[str, Any]] = []
    for name in names:
        folder = _directory(dir / name)
        run = papers.Run(full=full, folder=folder, seed=seed, progress=note)
        reproduction = papers.reproduce(name, run)
        claims += [claim.as_dict() for claim in reproduction.claims]
        note(f"The report: {report.write_reproduction(folder, reproduction)}")
    emit(
        data=claims,
        table=lambda: pa.Table.from_pylist(claims),
        view=lambda: views.claims(claims),
        format=format,
        output=output,
    )
    if any(claim["verdict"] == "differs" for claim in claims):
        raise typer.Exit(1)


@app.command(name="report")
def report_(
    dir: Annotated[Path, typer.Argument(metavar="DIR", help="A folder of results.")],
    output: OutputOption = None,
) -> None:
    """Write a self-contained HTML page of tables and plots from a folder of results.

    Example: [bold]mmulab report results/first-run[/]

    It takes what it finds there: replay.json, reach.json and trace.json as `mmulab run --dir`
    leaves them, and Parquet files of sweeps. The page is DIR/report.html, or the file after -o.
    """
    from mmulab.report import write_report

    note(f"The report: {write_report(dir, output)}")


def main() -> None:
    """The entry point of `mmulab`; ends the process with the documented exit status."""
    sys.exit(status_of(sys.argv[1:]))


def status_of(arguments: list[str]) -> int:
    """Runs a command line and gives its exit status; errors go to stderr, one line each."""
    try:
        status = app(args=arguments or ["--help"], prog_name="mmulab", standalone_mode=False)
        if status == 130:
            return _fail(INTERRUPTED, 130)
        return status if isinstance(status, int) else 0
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "mmulab"
        message = " ".join(error.format_message().split())
        return _fail(f"{message.rstrip('.')}; `{command} --help` shows how", 2)
    except MmulabError as error:
        return _fail(str(error), error.exit_status)
    except (KeyboardInterrupt, typer.Abort):
        return _fail(INTERRUPTED, 130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return _fail(f"{where}{(error.strerror or str(error)).lower()}", 1)


def _fail(message: str, status: int) -> int:
    print(f"mmulab: {' '.join(message.split())}", file=sys.stderr)
    return status


def _changes(settings: list[str] | None) -> dict[str, str]:
    changes = {}
    for setting in settings or []:
        path, equals, value = setting.partition("=")
        if not (path and equals and value):
            raise InputError(f"--set {setting}: write PATH=VALUE, as in dtlb.entries=64")
        changes[path] = value
    return changes


def _machines(names: list[str], settings: list[str] | None) -> list[Machine]:
    changes = _changes(settings)
    machines = []
    for name in filter(None, ",".join(names).split(",")):
        machine = Machine.load(name)
        machines.append(machine.with_changes(changes) if changes else machine)
    return machines


def _directory(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    return path


def _emit_text(text: str, language: str, path: Path | None) -> None:
    if path is None and sys.stdout.isatty():
        output.show(Syntax(text.rstrip("\n"), language, background_color="default"))
    else:
        output.write(text.encode(), path)


def _write_json(path: Path, data: Any) -> None:
    with replacing(path) as file:
        file.write((json.dumps(data, indent=1) + "\n").encode())


def _information_dict(recorded: mmulab.TraceInformation) -> dict[str, Any]:
    data = dataclasses.asdict(recorded)
    data["path"] = str(recorded.path)
    data["command"] = shlex.join(recorded.command)
    data["bits_per_instruction"] = recorded.bits_per_instruction
    return data
