"""Recording programs."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mmulab import _engine
from mmulab.errors import InputError
from mmulab.files import telling_where


@dataclasses.dataclass(frozen=True)
class TraceInformation:
    """What is known of a trace without replaying it."""

    path: Path
    command: list[str]
    """The recorded program and its arguments."""
    instructions: int
    loads: int
    stores: int
    modifies: int
    file_bytes: int
    ending: str | None
    """How the recording ended, in words; None where the file is incomplete."""

    @property
    def bits_per_instruction(self) -> float:
        """Size on disk per executed instruction."""
        return 8 * self.file_bytes / max(self.instructions, 1)


def tool_directory() -> Path:
    """Where the Valgrind tool stands: `$MMULAB_RECORDER`, or where `make recorder` puts it."""
    override = os.environ.get("MMULAB_RECORDER")
    return Path(override) if override else Path(__file__).parents[2] / "build" / "valgrind"


def record(
    program: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    max_instructions: int | None = None,
    follow_children: bool = False,
    progress: Callable[[int, int | None], None] | None = None,
) -> TraceInformation:
    """Runs a program under Valgrind and records what it executes into the `.mmt` file `output`.

    The program keeps its standard streams and behaves as without. `output` grows while the program
    runs; a recording that is killed leaves a file that says that it is incomplete and can be read,
    with `partial`, up to its last whole chunk. `max_instructions` stops recording (the program is
    ended); `follow_children` records child processes too, in files beside `output`.

    Raises `RecordError` where Valgrind is missing or cannot run the program, and `InputError` where
    there is no such program.
    """
    words = [os.fspath(word) for word in program]
    if not words:
        raise InputError("there is no program to record; give it after --")
    with telling_where(Path(output)):
        raw = _engine.record(
            words,
            os.fspath(output),
            tool_directory=str(tool_directory()),
            max_instructions=max_instructions,
            follow_children=follow_children,
            progress=progress,
        )
    return _information(Path(raw["files"][0]), raw["information"])


def trace_information(trace: str | os.PathLike[str], *, partial: bool = False) -> TraceInformation:
    """Reads what a `.mmt` file says of itself. Raises `TraceError`."""
    return _information(Path(trace), _engine.trace_information(os.fspath(trace), partial=partial))


def _information(path: Path, raw: dict[str, Any]) -> TraceInformation:
    return TraceInformation(path=path, **raw)
