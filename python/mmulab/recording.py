"""Recording programs, and what a trace says of itself."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from mmulab import _engine
from mmulab.errors import InputError, RecordError
from mmulab.files import check_outputs, telling_where
from mmulab.limits import whole_number


@dataclasses.dataclass(frozen=True)
class TraceInformation:
    """What is known of a trace without replaying it."""

    path: Path
    format: str
    command: list[str]
    """The recorded program and its arguments; empty where the format does not say."""
    recorder: str
    """What made the trace; empty where the format does not say."""
    instruction_set: str
    instructions: int
    loads: int
    stores: int
    modifies: int
    blocks: int
    """Executed straight-line runs of instructions, as the file has them."""
    distinct_blocks: int
    events: int
    """Changes of the running thread and of what is mapped."""
    file_bytes: int
    termination: str | None
    """How the recording ended, in words; None where that is not known or the file incomplete."""
    termination_kind: str | None
    """The same in one word: exited, replaced, signalled, limit, interrupted or unknown."""
    exit_status: int | None
    """The recorded program's exit status as a shell tells it: 128 + N where signal N ended it, 0
    where the limit on instructions did, 130 where it was interrupted; None where that is not
    known."""
    truncation: str | None = None
    """Why a trace that was read as partial ends early."""
    messages: list[str] = dataclasses.field(default_factory=list)
    """What Valgrind said during the recording; empty for a trace that is only looked at."""
    interrupt_came: bool = False
    """Whether one came during the recording, even where it found the program at its end."""
    children: list[TraceInformation] = dataclasses.field(default_factory=list)
    """The traces of child processes that were recorded, too."""

    @property
    def processes(self) -> list[TraceInformation]:
        """All recorded processes, this one first."""
        return [self, *self.children]

    @property
    def was_interrupted(self) -> bool:
        """Whether the user ended the recording."""
        return self.termination_kind == "interrupted"

    @property
    def bits_per_instruction(self) -> float:
        """Size on disk per executed instruction; 0 where there is none."""
        return 8 * self.file_bytes / self.instructions if self.instructions else 0.0


def tool_directory() -> Path:
    """Where the Valgrind tool and the plugin for QEMU stand.

    In turn: `$MMULAB_RECORDER`; `build/valgrind` beside the source, where `make recorder` puts it;
    the package `mmulab-recorder`, where that is installed. Raises `RecordError` where nothing of
    that can be.
    """
    override = os.environ.get("MMULAB_RECORDER")
    if override:
        return Path(override)
    project = Path(__file__).parents[2]
    beside_the_source = project / "build" / "valgrind"
    package = importlib.util.find_spec("mmulab_recorder")
    if beside_the_source.is_dir():
        return beside_the_source
    if package is not None and package.origin is not None:
        return Path(package.origin).parent
    if not (project / "recorders").is_dir():
        raise RecordError(
            "the recorder is not installed; install the package mmulab-recorder, whose wheel "
            "`make wheels` builds beside that of mmulab"
        )
    return beside_the_source


def record(
    program: Sequence[str | os.PathLike[str]],
    output: str | os.PathLike[str],
    *,
    max_instructions: int | None = None,
    follow_children: bool = False,
    qemu: bool = False,
    environment: Mapping[str, str] | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> TraceInformation:
    """Runs a program and records what it executes into the `.mmt` file `output`.

    Valgrind runs programs for x86; QEMU runs those for AArch64, ARM and RISC-V, and with `qemu`
    all.

    The program keeps its standard streams and behaves as without. `output` grows while the program
    runs; a recording that is killed leaves a file that says that it is incomplete and can be read,
    with `partial`, up to its last whole chunk. Ctrl-C ends the recording, not Python: the result
    says `was_interrupted`, or `interrupt_came` alone where the program had just ended.
    `max_instructions` stops recording (the program is ended); `follow_children` records child
    processes too, in files beside `output`; those that an earlier recording left there are removed.

    `environment` is the program's in place of ours. A stack begins below its program's environment,
    so that with the same one, and the same words, the program's memory lies in the same place in
    whatever folder mmulab is, and runs.

    Raises `RecordError` where Valgrind or QEMU is missing or fails, and `InputError` where there is
    no such program, they cannot run it, `output` cannot be written, or text stands in place of a
    list.
    """
    if isinstance(program, str | os.PathLike):
        raise InputError(f"a program is a list of words, as in {[os.fspath(program)]}")
    words = [os.fspath(word) for word in program]
    if not words:
        raise InputError("there is no program to record; give it after --")
    if max_instructions is not None:
        max_instructions = whole_number("max_instructions", max_instructions, 1)
    check_outputs([Path(output)], [Path(words[0])])
    with telling_where(Path(output)):
        raw = _engine.record(
            words,
            os.fspath(output),
            tool_directory=str(tool_directory()),
            max_instructions=max_instructions,
            follow_children=follow_children,
            qemu=qemu,
            environment=None if environment is None else list(environment.items()),
            progress=progress,
        )
    first, *others = map(Path, raw["files"])
    children = [
        TraceInformation(
            path=path, **_engine.trace_information(str(path), partial=True, progress=None)
        )
        for path in others
    ]
    return TraceInformation(
        path=first,
        messages=raw["messages"],
        interrupt_came=raw["interrupt_came"],
        children=children,
        **raw["information"],
    )
