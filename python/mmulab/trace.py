"""Traces as files: what they hold, parts of them, and their text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from mmulab import _engine
from mmulab.errors import InputError, MmulabError
from mmulab.files import check_outputs, replacing_path
from mmulab.limits import whole_number
from mmulab.recording import TraceInformation
from mmulab.replaying import ProgressCallback


def trace_information(
    trace: str | os.PathLike[str],
    *,
    partial: bool = False,
    progress: ProgressCallback | None = None,
) -> TraceInformation:
    """What a trace of any format says of itself.

    A complete `.mmt` file has it in its index; any other trace is read to its end. Raises
    `TraceError`.
    """
    raw = _engine.trace_information(os.fspath(trace), partial=partial, progress=progress)
    return TraceInformation(path=Path(trace), **raw)


def slice_trace(
    trace: str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    skip: int = 0,
    count: int | None = None,
    partial: bool = False,
    progress: ProgressCallback | None = None,
) -> TraceInformation:
    """Writes `count` instructions (None: all) of a trace of any format, from instruction `skip` on,
    into the `.mmt` file `output`.

    What was mapped before, and the running thread, stand at the beginning of the slice. With
    `skip=0` and no count it converts a trace of another format. Raises `TraceError`, `OutputError`,
    and `InputError` where the trace has no instruction after `skip`.
    """
    _check_range(skip, count)
    check_outputs([Path(output)], [Path(trace)])
    with replacing_path(output) as temporary:
        try:
            written = _engine.slice_trace(
                os.fspath(trace),
                os.fspath(temporary),
                partial=partial,
                skip=skip,
                count=count,
                progress=progress,
            )
        except MmulabError as error:
            said = str(error).removeprefix(f"{temporary}: ")
            if said == str(error):
                raise
            # By the name that was asked for.
            raise type(error)(f"{os.fspath(output)}: {said}; it was not written") from None
        if written == 0:
            raise _ends_before(trace, skip)
    return trace_information(output)


def dump_trace(
    trace: str | os.PathLike[str],
    write: Callable[[bytes], object],
    *,
    skip: int = 0,
    count: int | None = None,
    partial: bool = False,
    progress: ProgressCallback | None = None,
) -> None:
    """Gives `count` instructions (None: all) from instruction `skip` on to `write`, as text.

    The text is that of Valgrind's lackey, a line for each instruction and access, which `replay`
    reads; events are lines that begin with `--`. Raises `TraceError`, and `InputError` where the
    trace has no instruction after `skip`.
    """
    _check_range(skip, count)
    is_empty = True

    def tell(text: bytes) -> None:
        nonlocal is_empty
        is_empty = False
        write(text)

    _engine.dump_trace(
        os.fspath(trace), partial=partial, skip=skip, count=count, write=tell, progress=progress
    )
    if is_empty and skip:
        raise _ends_before(trace, skip)


def _ends_before(trace: str | os.PathLike[str], skip: int) -> InputError:
    return InputError(f"{os.fspath(trace)}: the trace ends before instruction {skip:,}")


def _check_range(skip: int, count: int | None) -> None:
    whole_number("skip", skip)
    if count is not None:
        whole_number("count", count, 1)
