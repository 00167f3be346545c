"""How commands give their results: tables for people, data for programs, progress on stderr."""

from __future__ import annotations

import io
import json
import os
import sys
import termios
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, TextIO, TypeVar

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
)
from rich.text import Text

from mmulab import arrow as pa
from mmulab.errors import InputError, MmulabError, printable
from mmulab.files import replacing

NARROWEST_COLUMNS = 80
"""What the tables of all machines that ship fit into."""
PLAIN_COLUMNS = 200
"""How wide text in files and pipes is; a table there is as wide as it needs."""

Item = TypeVar("Item")

_quiet = False


@contextmanager
def quiet(asked: bool) -> Iterator[None]:
    """Inside it, where that is asked for, nothing but results and errors is shown."""
    global _quiet
    before, _quiet = _quiet, asked
    try:
        yield
    finally:
        _quiet = before


class Format(StrEnum):
    """What `--format` takes."""

    table = "table"
    json = "json"
    csv = "csv"
    parquet = "parquet"


def emit(
    *,
    data: Any,
    table: Callable[[], pa.Table],
    view: Callable[[], RenderableType],
    format: Format | None,
    output: Path | None,
) -> None:
    """Writes a result where and how the user asked for.

    `data` goes out as JSON, `table()` as CSV or Parquet, `view()` to people.
    """
    format = format_of(format, output)
    if output is None and format is Format.table:
        show(view())
        return
    write(encoded(data=data, table=table, view=view, format=format), output)


def encoded(
    *,
    data: Any,
    table: Callable[[], pa.Table],
    view: Callable[[], RenderableType],
    format: Format,
) -> bytes:
    """The content of a file: `data` as JSON, `table()` as CSV or Parquet, `view()` for people."""
    if format is Format.table:
        return _plain(view())
    if format is Format.json:
        return (json.dumps(data, indent=2) + "\n").encode()
    return _csv(table()) if format is Format.csv else _parquet(table())


def show(view: RenderableType) -> None:
    """Draws on the terminal, or plainly into a pipe; what is wider than the terminal is for it to
    wrap."""
    console = Console()
    is_wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    console.width = PLAIN_COLUMNS if is_wide else max(console.width, NARROWEST_COLUMNS)
    with console.capture() as captured:
        console.print(view, crop=False)
    write(_without_padding(captured.get()), None)


def write(content: bytes, output: Path | None) -> None:
    """Writes to the file, or to stdout where there is none."""
    if output is not None:
        with replacing(output) as file:
            file.write(content)
        return
    with _to_stdout() as write_there:
        write_there(content)


@contextmanager
def writing(path: Path | None) -> Iterator[Callable[[bytes], object]]:
    """Yields `write(content)`, for a result that comes piece by piece."""
    if path is not None:
        with replacing(path) as file:
            yield file.write
        return
    with _to_stdout() as write_there:
        yield write_there


@contextmanager
def _to_stdout() -> Iterator[Callable[[bytes], object]]:
    """Yields `write(content)`; a reader that has seen enough is no error."""
    try:
        sys.stdout.flush()
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        stop_writing(sys.stdout)
    except OSError as error:
        stop_writing(sys.stdout)
        raise MmulabError(f"stdout: {(error.strerror or str(error)).lower()}") from error


def stop_writing(stream: TextIO) -> None:
    """Discards what is left: Python would complain again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


SUFFIXES = tuple(f".{name}" for name in Format if name != Format.table)
"""Of the files that a result can be written to."""


def format_of(asked: Format | None, output: Path | None, mend: str = "-o FILE") -> Format:
    """What was asked for, else what a file's suffix says, else a table on a terminal and JSON
    anywhere else.

    Raises `InputError` for the suffix of something else or of another format, and for Parquet on a
    terminal, which `mend` avoids.
    """
    if asked is Format.parquet and output is None and sys.stdout.isatty():
        raise InputError(f"parquet is binary and does not suit a terminal; add {mend}")
    if asked is not None:
        if output is not None and output.suffix in SUFFIXES and output.suffix != f".{asked}":
            raise InputError(f"{output}: its name says another format than {asked}; change one")
        return asked
    if output is None:
        return Format.table if sys.stdout.isatty() else Format.json
    if output.suffix not in ("", *SUFFIXES):
        raise InputError(f"{output}: name it .json, .csv or .parquet, or give --format")
    return Format(output.suffix.removeprefix(".") or "json")


def _plain(view: RenderableType) -> bytes:
    text = io.StringIO()
    Console(file=text, width=PLAIN_COLUMNS).print(view, crop=False)
    return _without_padding(text.getvalue())


def _without_padding(drawn: str) -> bytes:
    """The lines without the spaces that fill tables and paragraphs up to their width."""
    return "".join(f"{line.rstrip()}\n" for line in drawn.split("\n")[:-1]).encode()


def _csv(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pa.csv.write_csv(table, buffer, pa.csv.WriteOptions(quoting_style="needed"))
    return buffer.getvalue()


def _parquet(table: pa.Table) -> bytes:
    buffer = io.BytesIO()
    pa.parquet.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def shows_progress() -> bool:
    """Whether a bar would be seen."""
    return not _quiet and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class TimeLeft(ProgressColumn):
    """The time until a job ends at its rate, counted down between its reports; unknown before its
    first unit is done and while one takes longer than all that are left were expected to."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        if task.total is None:
            return Text()
        ends = task.fields["ends"]
        seconds = round(ends - time.monotonic()) if ends else 0
        shown = "--:--"
        if seconds > 0 or task.finished:
            minutes, seconds = divmod(max(seconds, 0), 60)
            hours, minutes = divmod(minutes, 60)
            shown = f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes:02}:{seconds:02}"
        return Text(shown, style="progress.remaining")


@contextmanager
def progress(label: str, unit: str = "instructions") -> Iterator[Callable[[int, int | None], None]]:
    """Yields `report(done, total)`, which shows rate and time left on stderr.

    Where stderr is no terminal nothing is shown, so that logs hold only what matters. What is
    printed on the same terminal meanwhile stands above.
    """
    if not shows_progress():
        yield lambda done, total: None
        return
    columns = [
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TextColumn("{task.fields[amount]}"),
        TimeLeft(),
    ]
    screen = Console(stderr=True, soft_wrap=True)  # rows that are printed stay whole
    above = sys.stdout.isatty()
    with Progress(
        *columns,
        console=screen,
        redirect_stdout=above,
        transient=True,
    ) as bar:
        task = bar.add_task(label, total=None, amount="", ends=None)
        start = time.monotonic()
        # When how much was done. The rate is that of the second half of the time, since one part of
        # a job may be much slower than another; the first report may be of what an earlier run did.
        reports: deque[tuple[float, int]] = deque()

        def report(done: int, total: int | None) -> None:
            now = time.monotonic()
            reports.append((now, done))
            while len(reports) > 2 and reports[1][0] <= (start + now) / 2:
                reports.popleft()
            since, done_before = reports[0]
            rate, ends = "", None
            if now > since and done > done_before:
                per_second = (done - done_before) / (now - since)
                rate = f", {rate_of(per_second)}"
                ends = now + (total - done) / per_second if total else None
            amount = f"{human(done)} {unit}{rate}"
            bar.update(task, completed=done, total=total, amount=amount, ends=ends)

        yield report


def one_by_one(label: str, items: Sequence[Item], unit: str) -> Iterator[Item]:
    """The items, with progress beside what is done with each."""
    with progress(label, unit) as report:
        for done, item in enumerate(items):
            report(done, len(items))
            yield item


@contextmanager
def beside_a_program(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Yields `report(instructions, _)` for a time in which another program owns the terminal.

    A line that is drawn again and again would overwrite what the program writes, so there are whole
    lines, at 2, 4, 8, ... seconds and then each minute. None while the program draws the screen by
    itself (the terminal is not in line mode) or waits for input.
    """
    if _quiet or not sys.stderr.isatty():
        yield lambda done, total: None
        return
    start = time.monotonic()
    next_seconds, last_done = 2.0, 0

    def report(done: int, total: int | None) -> None:
        nonlocal next_seconds, last_done
        seconds = time.monotonic() - start
        advanced, last_done = done > last_done, done
        if seconds < next_seconds or not advanced or not _is_in_line_mode():
            return
        next_seconds = seconds + min(seconds, 60)
        of_total = f" of {human(total)}" if total else ""
        note(f"mmulab: {label}: {human(done)}{of_total} instructions in {seconds:.0f} s")

    yield report


def _is_in_line_mode() -> bool:
    try:
        local_modes = termios.tcgetattr(sys.stderr.fileno())[3]
    except termios.error:
        return False
    return bool(local_modes & termios.ICANON)


def human(number: float, unit: str = "") -> str:
    """A large number, short, and its unit: 1234567 as `1.23 M`, of bytes (`B`) as `1.23 MB`."""
    for unit_size, limit, prefix in ((1e9, 999.5e6, "G"), (1e6, 999.5e3, "M"), (1e3, 9999.5, "k")):
        # What rounds to a thousand of the smaller unit is one of the larger.
        if abs(number) >= limit:
            scaled = number / unit_size
            digits = f"{scaled:.3g}" if abs(scaled) < 999.5 else f"{scaled:.0f}"
            return f"{digits} {prefix}{unit}"
    return f"{number:.0f} {unit}".rstrip()


def rate_of(per_second: float) -> str:
    """A rate, by the minute where it would be less than one a second."""
    return f"{human(per_second)}/s" if per_second >= 1 else f"{60 * per_second:.2g}/min"


def percent(share: float) -> str:
    """A share (0 to 1) as percent with two figures that matter."""
    return f"{100 * share:.2f}%" if share < 0.1 else f"{100 * share:.1f}%"


def open_closed_streams() -> None:
    """Gives standard streams that are closed (`>&-`) the null device, for programs that are run as
    well; a file that is opened would take their number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            os.set_inheritable(number, True)
            setattr(sys, name, os.fdopen(number, mode))


def note(text: str) -> None:
    """A line for people, on stderr."""
    if not _quiet:
        tell(text)


def tell(text: str) -> None:
    """The same, with --quiet, too; a reader that is gone, or a full disk, must not take the result
    from the job."""
    end = "\r\n" if text.endswith("\r") else "\n"  # of a terminal that the guest has
    try:
        print(printable(text.removesuffix("\r")), end=end, file=sys.stderr, flush=True)
    except OSError:
        stop_writing(sys.stderr)
