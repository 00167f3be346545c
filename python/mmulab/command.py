"""What all commands share: options, the way out of a result, errors and the exit status."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import inspect
import itertools
import math
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import typer
from rich.console import RenderableType
from typer.core import TyperCommand, TyperGroup

import mmulab_start
from mmulab import arrow as pa
from mmulab import files, output
from mmulab.errors import InputError, Interrupted, MachineError, MmulabError
from mmulab.limits import MAX_COUNT, MAX_THREADS
from mmulab.machine import Machine, machine_names
from mmulab.output import Format

EXIT_STATUS = (
    "Exit status: 0 done; 1 the job failed, a claim differs or a check reported; 2 wrong usage or "
    "bad input; 130 interrupted. `record` and `run` end with the status of the program that they "
    "recorded (128+N where signal N ended it)."
)

BROKEN_PIPE_STATUS = 128 + 13
"""What a shell says of a program that SIGPIPE ended."""

WRITTEN_FILES = ("output", "callgrind", "speedscope", "stacks", "timeline", "save")
"""The parameters of commands that name files to write."""
NAMED_FILES = ("machine", "more", "name")
"""Those that name machines or traces, which may be files."""

# What stands after PROGRAM is the program's, options included.
TAKES_A_PROGRAM = {"allow_interspersed_args": False}


def complete_machine(kind: str | None = None) -> Callable[[str], list[str]]:
    """What gives the shell the machines of a kind whose names begin with what is typed."""

    def complete(incomplete: str) -> list[str]:
        with suppress(MachineError):
            return [name for name in machine_names(kind) if name.startswith(incomplete)]
        return []

    return complete


def number_from(low: int, high: int = MAX_COUNT) -> Callable[[str], int]:
    """What reads a number that the engine takes; `max=` would fill the help with it."""

    def parse(text: str) -> int:
        with suppress(ValueError):
            if low <= int(text) <= high:
                return int(text)
        last = "2^64 - 1" if high == MAX_COUNT else str(high)
        raise typer.BadParameter(f"{text!r} is no whole number from {low} to {last}")

    return parse


def time_limit(text: str) -> float:
    """Reads a time in seconds after which a run ends."""
    with suppress(ValueError):
        if 0 < float(text) < math.inf:
            return float(text)
    raise typer.BadParameter(f"{text!r} is no finite number of seconds above 0")


MachineOption = Annotated[
    list[str] | None,
    typer.Option(
        "--machine",
        "-m",
        metavar="MACHINE",
        autocompletion=complete_machine("replay"),
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
    int,
    typer.Option(
        "--seed",
        parser=number_from(0),
        metavar="N",
        help="Seed of random replacement and page placement.",
    ),
]
ThreadsOption = Annotated[
    int,
    typer.Option(
        "--threads",
        parser=number_from(0, MAX_THREADS),
        metavar="N",
        help="Worker threads; 0 for one a core. Results are the same.",
    ),
]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help=f"{', '.join(Format)}; default: a table on a terminal, JSON in a pipe, -o by suffix (.json, .csv, .parquet; JSON without one).",
    ),
]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Write the result to FILE, complete or not at all."
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no notes on stderr, only errors.")
]
LimitOption = Annotated[
    int | None,
    typer.Option(
        "--max-instructions",
        parser=number_from(1),
        metavar="N",
        help="Stop after N instructions; a recording stops at the end of the block.",
    ),
]
SkipOption = Annotated[
    int,
    typer.Option(
        "--skip", parser=number_from(0), metavar="N", help="Skip the first N instructions."
    ),
]
CountOption = Annotated[
    int | None,
    typer.Option(
        "--count",
        "-n",
        parser=number_from(1),
        metavar="N",
        help="End after N instructions; without it at the end of the trace.",
    ),
]
WarmUpOption = Annotated[
    int,
    typer.Option(
        "--warmup",
        parser=number_from(0),
        metavar="N",
        help="Replay the next N instructions without counting.",
    ),
]
EndOption = Annotated[
    int | None,
    typer.Option(
        "--limit",
        parser=number_from(1),
        metavar="N",
        help="Stop after N more instructions (default: end of trace).",
    ),
]


def region_name(text: str) -> str:
    """The region that was named; an empty name, as an unset variable gives, is none."""
    if not text:
        raise InputError("a region's name is empty; leave --region out to count everything")
    return text


RegionOption = Annotated[
    str | None,
    typer.Option(
        "--region",
        metavar="NAME",
        parser=region_name,
        help="Count only what the function NAME does, and what the program marks with NAME.",
    ),
]
GuessesOption = Annotated[
    bool,
    typer.Option(
        "--guesses/--no-guesses",
        help="Also evaluate the alternatives to guessed values, and show the range of the result.",
    ),
]
PartialOption = Annotated[
    bool,
    typer.Option("--partial", help="Read an incomplete trace up to its last whole chunk."),
]


def file_path(text: str) -> Path:
    """A file that was named; an empty name, as an unset variable gives, is not the current
    folder."""
    if not text:
        raise InputError("a file's name is empty; name one")
    return Path(text)


def folder_path(text: str) -> Path:
    """A folder that was named, likewise."""
    if not text:
        raise InputError("a folder's name is empty; give . for the current one")
    return Path(text)


_OTHER_CONTENTS = [".json", ".csv", ".parquet", ".gz", ".xz", ".zst", ".bz2", ".zip"]


def new_trace_path(text: str) -> Path:
    """A trace to write, whose name promises nothing else."""
    return _new_path(text, _OTHER_CONTENTS, "a trace is .mmt")


def new_text_path(text: str) -> Path:
    """A text to write, whose name promises nothing else."""
    return _new_path(text, [".mmt", *_OTHER_CONTENTS], "what is written is plain text")


def _new_path(text: str, refused: list[str], what: str) -> Path:
    path = file_path(text)
    if path.suffix in refused:
        raise InputError(f"{path}: {what}, not {path.suffix}; give it another name")
    return path


STANDARD_INPUT = "/dev/stdin"


def trace_path(text: str) -> Path:
    """The trace that was named; `-` is the standard input, as everywhere."""
    return file_path(STANDARD_INPUT if text == "-" else text)


TraceArgument = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        parser=trace_path,
        help="A trace: .mmt, drmemtrace, ChampSim, Valgrind lackey or Dinero din; - is stdin.",
    ),
]
ProgramArgument = Annotated[
    list[str], typer.Argument(metavar="PROGRAM [ARGS]", help="What to run; write -- before it.")
]
FollowOption = Annotated[
    bool, typer.Option("--follow-children", help="Record child processes, too.")
]
EnvironmentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--environment",
        metavar="NAME=VALUE",
        help="A variable of the program, which gets none of yours then; may be repeated. "
        "With the same ones its memory lies at the same place, whoever records it.",
    ),
]
QemuOption = Annotated[
    bool, typer.Option("--qemu", help="Run the program under QEMU, though Valgrind could.")
]


@dataclasses.dataclass(frozen=True)
class Result:
    """What a command gives: `data` as JSON, `table()` as CSV or Parquet, `view()` to people."""

    data: Any
    table: Callable[[], pa.Table]
    view: Callable[[], RenderableType]
    notes: Sequence[str] = ()
    """Lines for people, on stderr behind the result."""
    failures: Sequence[str] = ()
    """Lines that say why the status is not 0, told with --quiet, too."""
    status: int = 0
    """The exit status."""

    def encoded(self, format: Format) -> bytes:
        """The content of a file in this format."""
        return output.encoded(data=self.data, table=self.table, view=self.view, format=format)

    def emit(self, format: Format | None, path: Path | None) -> None:
        """Writes the result where and how the user asked for, then ends the command."""
        output.emit(data=self.data, table=self.table, view=self.view, format=format, output=path)
        for line in self.notes:
            output.note(line)
        for line in self.failures:
            output.tell(line)
        if self.status:
            raise typer.Exit(self.status)


class _PlainFlags:
    """A command whose help shows flags without `<bool>`, which looks as if a value followed."""

    def get_params(self, context: Any) -> list[Any]:
        parameters: list[Any] = super().get_params(context)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class _Command(_PlainFlags, TyperCommand):
    pass


class CommandGroup(_PlainFlags, TyperGroup):
    """A group of commands, for `typer.Typer`."""


def command(
    group: typer.Typer, name: str | None = None, **settings: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Makes a function a command of `group`.

    Every command gets --quiet. One that returns a `Result` gets --format and --output, too, and the
    result is written here; the others write by themselves.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(function, eval_str=True)
        gives_result = signature.return_annotation is Result
        added = {"format": FormatOption, "output": OutputOption} if gives_result else {}
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in added.items()
        ]
        quiet_option = inspect.Parameter(
            "quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=QuietOption
        )

        @functools.wraps(function)
        def run(*, quiet: bool, **arguments: Any) -> None:
            mmulab_start.started()
            _refuse_the_separator(arguments)
            written = [arguments.get(option) for option in WRITTEN_FILES]
            files.check_outputs(written, _read_files(arguments))
            if restored := arguments.get("restore"):  # where a state may be saved again
                others = [arguments.get(one) for one in WRITTEN_FILES if one != "save"]
                files.check_outputs(others, [restored])
            chosen = {option: arguments.pop(option) for option in added}
            if gives_result:
                output.format_of(chosen["format"], chosen["output"])  # before the work
            try:
                with output.quiet(quiet):
                    result = function(**arguments)
                    if gives_result:
                        result.emit(chosen["format"], chosen["output"])
            except KeyboardInterrupt as error:
                raise Interrupted from error

        parameters = [*signature.parameters.values(), *options, quiet_option]
        for parameter in parameters:
            for described in parameter.annotation.__metadata__:
                # Who reads a file tells that it cannot be read; one that is only written need not
                # be.
                described.readable = False
                if described.parser is None and _takes_files(parameter.annotation):
                    described.parser = file_path
        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        del run.__wrapped__  # type: ignore[attr-defined]
        group.command(name, cls=_Command, help=_paragraphs(function), **settings)(run)
        return function

    return register


def _takes_files(kind: Any) -> bool:
    """Whether an option's type is a path, or has one in it."""
    return kind is Path or any(map(_takes_files, get_args(kind)))


def _refuse_the_separator(arguments: dict[str, Any]) -> None:
    """`--dir -- ls`: what was forgotten would be named `--`."""
    for name, value in arguments.items():
        if "--" in (value[:1] if isinstance(value, list) else [str(value)]):
            option = name.strip("_").replace("_", "-")
            raise InputError(f"--{option}: its value is missing, -- stands there")


def _read_files(arguments: dict[str, Any]) -> list[Path]:
    """What a command may read, as it was typed. A state may be saved where it was restored from."""
    read: list[Any] = []
    for name, value in arguments.items():
        values = value if isinstance(value, list) else [value]
        if name == "program":
            read += values[:1]  # the rest is the program's business
        elif name in NAMED_FILES:
            read += values
        elif name not in (*WRITTEN_FILES, "restore"):
            read += [one for one in values if isinstance(one, Path)]
    return [Path(one) for one in read if one]


def _paragraphs(function: Callable[..., Any]) -> str:
    """The function's docstring with each paragraph in one line, so that help fills the terminal."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def status_of(app: typer.Typer, arguments: list[str]) -> int:
    """Runs a command line and gives its exit status; errors go to stderr, one line each."""

    def job() -> object:
        # Help and version are not written by us; a reader that has seen enough is no error.
        try:
            with suppress(BrokenPipeError), _with_stdout_written():
                return app(args=arguments or ["--help"], prog_name="mmulab", standalone_mode=False)
        except SystemExit as ended:  # so Rich, which writes the help, takes a closed pipe
            if not isinstance(ended.__context__, BrokenPipeError):
                raise
        except UnicodeEncodeError as error:
            words = [ascii(word) for word in arguments if not _is_text(word)]
            if not words:
                raise
            raise InputError(
                f"{', '.join(words)}: is not in UTF-8, as traces and results are"
            ) from error
        return 0

    try:
        return _ended(job, "mmulab")
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)  # none where an option lacks its value
        command = [word for word in arguments[:1] if not word.startswith("-")]
        path = context.command_path if context else " ".join(["mmulab", *command])
        message = " ".join(error.format_message().replace("Value error, ", "").split())
        end = "" if message.endswith("?") else ";"
        return _fail(f"{message.rstrip('.')}{end} `{path} --help` shows how", 2)


def _is_text(word: str) -> bool:
    """Whether an argument can be written down; Python keeps bytes that it cannot decode as halves
    of surrogates."""
    return not any("\ud800" <= character <= "\udfff" for character in word)


class _DocstringHelp(argparse.HelpFormatter):
    """Fills the paragraphs of a docstring, and leaves its indented lines as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(
            paragraph if paragraph.startswith(" ") else fill(paragraph, width, indent)
            for paragraph in paragraphs
        )


class _ScriptOptions(argparse.ArgumentParser):
    """Tells wrong usage in one line, as the commands do."""

    def error(self, message: str) -> NoReturn:
        self.exit(_fail(f"{message}; `{self.prog} --help` shows how", 2, self.prog))


def script_options(docstring: str | None) -> argparse.ArgumentParser:
    """What reads the options of a script. Its help is the script's docstring, examples included."""
    return _ScriptOptions(description=docstring, formatter_class=_DocstringHelp)


def begin_process() -> None:
    """What a command or script does first: its streams are open, its environment is what it was
    given, and SIGTERM and SIGHUP end it as Ctrl-C does."""
    output.open_closed_streams()
    _restore_locale()
    for number in mmulab_start.ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)


def _restore_locale() -> None:
    """Makes LC_CTYPE in the environment what it was before Python chose one (PEP 538): a program
    that is recorded would run in a locale that nobody asked for."""
    with suppress(OSError):
        variables = Path("/proc/self/environ").read_bytes().split(b"\0")
        given = dict(variable.partition(b"=")[::2] for variable in variables)
        os.environb.pop(b"LC_CTYPE", None)
        if b"LC_CTYPE" in given:
            os.environb[b"LC_CTYPE"] = given[b"LC_CTYPE"]


def run_script(main: Callable[[], None]) -> NoReturn:
    """Runs the main function of a script beside a guest, and ends the process as the commands
    end."""

    def job() -> int:
        try:
            with _with_stdout_written():
                main()
        except BrokenPipeError:  # whoever read our output has seen enough
            return BROKEN_PIPE_STATUS
        return 0

    begin_process()
    sys.exit(_ended(job, Path(sys.argv[0]).name))


@contextmanager
def _with_stdout_written() -> Iterator[None]:
    """Writes at the end what was printed inside; what cannot be written is an error then, not when
    Python ends."""
    try:
        yield
        sys.stdout.flush()
    except OSError:  # perhaps of the output; what it has taken is all that Python may try
        with suppress(OSError):
            sys.stdout.flush()
        output.stop_writing(sys.stdout)
        raise


def _ended(job: Callable[[], object], name: str) -> int:
    """The exit status of a job; what goes wrong is one line on stderr that begins with a name."""
    try:
        status = job()
        return status if isinstance(status, int) else 0
    except MmulabError as error:
        return _fail(str(error), error.exit_status, name)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", Interrupted.exit_status, name)
    except OSError as error:
        # What is opened by name tells it; what is full without one is where we print.
        where = error.filename or ("stdout" if error.errno in files.NOT_THE_USERS_FAULT else "")
        where = f"{where}: " if where else ""
        return _fail(f"{where}{(error.strerror or str(error)).lower()}", 1, name)


def _fail(message: str, status: int, name: str = "mmulab") -> int:
    """One line on stderr, without the number that Rust adds to what the system says, and with the
    name for the standard input that results have, too."""
    line = re.sub(r" \(os error \d+\)", "", re.sub(f"^{STANDARD_INPUT}:", "stdin:", message))
    output.tell(f"{name}: {line}")
    return status


def add_set_option(
    options: argparse.ArgumentParser, example: str = "memory.size_bytes=64M"
) -> None:
    """Gives a script the option --set, whose values `changes_of` reads."""
    options.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help=f"change a value of the machine, as in {example}; may be repeated",
    )


def changes_of(settings: list[str] | None) -> dict[str, str]:
    """What --set asks for, by dotted path."""
    changes = {}
    for setting in settings or []:
        path, equals, value = map(str.strip, setting.partition("="))
        if not (path and equals and value):
            raise InputError(f"--set {setting}: write PATH=VALUE, as in dtlb.entries=64")
        changes[path] = value
    return changes


def environment_of(variables: list[str] | None) -> dict[str, str] | None:
    """The environment that --environment asks for, or None where a program shall have ours."""
    if variables is None:
        return None
    environment = {}
    for variable in variables:
        name, equals, value = variable.partition("=")
        if not (name and equals):
            raise InputError(f"--environment {variable}: write NAME=VALUE, as in LC_ALL=C")
        environment[name] = value
    return environment


def machines_of(names: list[str], settings: list[str] | None) -> list[Machine]:
    """The machines that were named, several in a word or not, with the changes of --set."""
    changes = changes_of(settings)
    machines = []
    # A file may have a comma in its name.
    words = [[text] if os.path.isfile(text) else text.split(",") for text in names]
    for name in itertools.chain.from_iterable(words):
        if not name:
            raise InputError("a machine's name is empty; `mmulab machines` lists them")
        machine = Machine.load(name)
        machines.append(machine.with_changes(changes) if changes else machine)
    return machines


def replay_machines_of(names: list[str], settings: list[str] | None) -> list[Machine]:
    """The same; all machines for replay where none was named."""
    if names:
        return machines_of(names, settings)
    every = machine_names("replay")
    try:
        return machines_of(every, settings)
    except MachineError as error:
        raise InputError(
            f"{error}; without -m a change is made to all machines, and this one does not take it: name those that do"
        ) from error


def machine_of(names: list[str], settings: list[str] | None) -> Machine:
    """The same for a command that takes one machine."""
    machine, *others = machines_of(names, settings)
    if others:
        raise InputError(f"{', '.join(names)}: this command takes one machine at a time")
    return machine


def directory(path: Path) -> Path:
    """A folder for results, made where there is none; one that cannot be written to is told before
    the work."""
    try:
        for part in (path, *path.parents):
            if part.exists() and not part.is_dir():
                raise InputError(f"{part}: is a file; name a folder")
        path.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=path).close()
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    return path
