"""Booting kernels on simulated ARM machines, with or without the staleness checker."""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import numbers
import os
import re
import select
import termios
import time
import tty
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, Protocol

from mmulab import _engine
from mmulab import arrow as pa
from mmulab.errors import InputError
from mmulab.files import behind_links, check_outputs, refuse_what_is_no_file
from mmulab.limits import whole_number
from mmulab.machine import Machine
from mmulab.output import human
from mmulab.provenance import file_provenance, machine_provenance
from mmulab.replaying import ProgressCallback

STANDARD_INPUT = 0
ESCAPE_KEY = 0x1D
"""Ends an interactive run: Ctrl-]."""
SILENCE_SECONDS = 20.0
"""A guest that printed nothing for so long may be made for another machine; or, where nobody can
type to it, wait for ever."""


FIRST_TOLD_SECONDS = 2.0
"""How far a guest is that has printed nothing for so long is told."""


class Console(Protocol):
    """What the guest's serial line is connected to."""

    def write(self, data: bytes) -> None:
        """The guest printed."""

    def read(self, wait_seconds: float | None) -> bytes | None:
        """What was typed since last time; None ends the run. Where nothing was, waits so long for
        it; with None the guest sleeps until something comes, and `b""` says that nothing ever
        will."""

    @property
    def real_time(self) -> bool:
        """Whether a guest that waits for its timer waits by this computer's clock."""

    def remark(self, text: str) -> None:
        """Said of the image before it runs; it is among the result's notes, too."""

    def waits_for_gdb(self, port: int) -> None:
        """gdb can connect to the port from now on, and the guest waits for it."""


class Transcript:
    """A console that keeps what the guest prints, and types a given text."""

    real_time = False

    def __init__(self, typed: bytes = b""):
        self._typed = typed
        self.data = bytearray()

    @property
    def text(self) -> str:
        """All output so far."""
        return self.data.decode(errors="replace")

    def write(self, data: bytes) -> None:
        """Keeps output."""
        self.data += data

    def read(self, wait_seconds: float | None) -> bytes:
        """Types the text, once."""
        typed, self._typed = self._typed, b""
        return typed

    def remark(self, text: str) -> None:
        """Who boots without a terminal reads the result's notes."""

    def waits_for_gdb(self, port: int) -> None:
        """Who boots without a terminal knows the port."""


class Recorder:
    """A console that keeps what another one types."""

    def __init__(self, console: Console):
        self._console = console
        self.typed: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        """All else is the other one's."""
        return getattr(self._console, name)

    def read(self, wait_seconds: float | None) -> bytes | None:
        """What the other one types, each time that it is asked."""
        typed = self._console.read(wait_seconds)
        self.typed.append(typed or b"")
        return typed


class Retyping(Transcript):
    """A console that types what another one did when it had been asked as often, or once the guest
    sleeps until then."""

    def __init__(self, typed: Iterable[bytes]):
        super().__init__()
        self._left = deque(typed)

    def read(self, wait_seconds: float | None) -> bytes:
        """The next of it."""
        while self._left:
            typed = self._left.popleft()
            if typed or wait_seconds is not None:
                return typed
        return b""


class Terminal:
    """The terminal that mmulab runs in, in raw mode, where Ctrl-] ends the run and idle time passes
    as on a clock; or what is piped in, whose end means that no more will be typed. A guest that
    then falls silent, or has not printed yet, runs on, as it may be at work; `note` is told."""

    def __init__(self, output: BinaryIO, *, escape: bool, note: Callable[[str], None]):
        self._output = output
        self._escape = escape
        self._note = note
        self._ended = False
        self._silent_since = time.monotonic()
        self._next_told_seconds = FIRST_TOLD_SECONDS
        self._told = ""
        self._has_printed = False
        self._last_byte = b"\n"
        self._noted: set[bool] = set()
        self.remarks: list[str] = []
        """What was told of the image."""

    def write(self, data: bytes) -> None:
        """Shows output."""
        self._output.write(data)
        self._output.flush()
        self._last_byte = data[-1:] or self._last_byte
        self._silent_since = time.monotonic()
        self._next_told_seconds = FIRST_TOLD_SECONDS
        self._has_printed = True

    def advanced(self, instructions: int, limit: int | None) -> None:
        """Tells how far a silent guest is, at 2, 4, 8, ... seconds. Not where somebody sits at the
        keyboard of one that has printed: the screen may be the guest's."""
        seconds = time.monotonic() - self._silent_since
        if seconds < self._next_told_seconds or (self._escape and self._has_printed):
            return
        self._next_told_seconds = 2 * seconds
        if human(instructions) == self._told:  # it only waits
            return
        self._told = human(instructions)
        of_limit = f" of {human(limit)}" if limit else ""
        self._tell(f"the guest is silent: {human(instructions)}{of_limit} instructions so far")

    @property
    def real_time(self) -> bool:
        """Somebody sits at the keyboard."""
        return self._escape

    def read(self, wait_seconds: float | None) -> bytes | None:
        """Keys; None once Ctrl-] is among them."""
        if self._ended or not self._has_printed:
            self._note_silence()
        if self._ended:
            return b""
        # The guest sleeps, perhaps for longer than it should be silent.
        if wait_seconds is None and not self._has_printed:
            left_seconds = self._silent_since + SILENCE_SECONDS - time.monotonic()
            if not select.select([STANDARD_INPUT], [], [], max(0.0, left_seconds))[0]:
                self._note_silence()
        ready, _, _ = select.select([STANDARD_INPUT], [], [], wait_seconds)
        if not ready:
            return b""
        typed = os.read(STANDARD_INPUT, 1024)
        self._ended = not typed
        return None if self._escape and ESCAPE_KEY in typed else typed

    def _note_silence(self) -> None:
        """Told once of a guest that has not printed yet, once of one that no longer does."""
        is_over = time.monotonic() >= self._silent_since + SILENCE_SECONDS
        if self._has_printed in self._noted or not is_over:
            return
        self._noted.add(self._has_printed)
        reason = (
            ", and its input is at its end: if it waits for some, it does so for ever, if it is at work, it goes on"
            if self._has_printed
            else ": if it is made for another core, board or console it never will"
        )
        key = "Ctrl-]" if self._escape else "Ctrl-C"
        self._tell(
            f"the guest has printed nothing for {SILENCE_SECONDS:.0f} seconds{reason}. "
            f"{key} ends it; --max-instructions limits a run, --max-seconds also where the guest sleeps"
        )

    def remark(self, text: str) -> None:
        """Told at once, since a guest that cannot run here may never end."""
        self.remarks.append(text)
        self._tell(text)

    def waits_for_gdb(self, port: int) -> None:
        """Told, as nothing else is to be seen."""
        self._tell(f"waiting for gdb on port {port} of this computer; Ctrl-C ends it")

    def end_line(self) -> None:
        """Ends a line that the guest has begun, such as a prompt, if what we say comes behind
        it."""
        with suppress(OSError, ValueError):  # no file of the system
            if self._last_byte != b"\n" and os.path.sameopenfile(self._output.fileno(), 2):
                self._output.write(b"\r\n" if self._escape else b"\n")
                self._output.flush()
                self._last_byte = b"\n"

    def _tell(self, text: str) -> None:
        self.end_line()
        # A raw terminal only feeds lines.
        self._note(text + ("\r" if self._escape else ""))


@contextmanager
def terminal(
    output: BinaryIO, note: Callable[[str], None], *, gdb: bool = False
) -> Iterator[Terminal]:
    """The standard input as the guest's keyboard: raw while it is a terminal, then as it was.
    `note` is told what the user should know meanwhile. With gdb Ctrl-C stays a signal: no key is
    read while the guest stands still."""
    if not os.isatty(STANDARD_INPUT):
        console = Terminal(output, escape=False, note=note)
        yield console
        console.end_line()
        return
    before = termios.tcgetattr(STANDARD_INPUT)
    try:
        tty.setraw(STANDARD_INPUT)
        if gdb:
            mode = termios.tcgetattr(STANDARD_INPUT)
            mode[3] |= termios.ISIG
            termios.tcsetattr(STANDARD_INPUT, termios.TCSADRAIN, mode)
        console = Terminal(output, escape=True, note=note)
        yield console
        console.end_line()
    finally:
        termios.tcsetattr(STANDARD_INPUT, termios.TCSADRAIN, before)


@dataclasses.dataclass(frozen=True)
class BootResult:
    """What a run came to. `data` is all of it, as `--format json` prints it."""

    data: dict[str, Any]
    console: str = ""
    """What the guest printed, where the console kept it."""
    seconds: float = 0.0
    """How long the simulation took. No part of the result, which is the same each time."""
    typed: Sequence[bytes] = ()
    """What the console typed each time that it was asked. No part of the result."""

    @property
    def exit(self) -> int | None:
        """The status the guest ended with, or None where it did not end by itself."""
        return self.data["exit"]

    @property
    def end(self) -> str:
        """Why the run ended, in a sentence."""
        return self.data["end"]

    @property
    def reason(self) -> str:
        """The same in a word: exit, reboot, limit, saved, interrupted, debugger, hang, deadlock,
        ..."""
        return self.data["reason"]

    @property
    def instructions(self) -> int:
        """Instructions executed."""
        return self.data["instructions"]

    @property
    def cycles(self) -> int:
        """Cycles of the core that ran longest."""
        return self.data["cycles"]

    @property
    def cycles_range(self) -> tuple[int, int]:
        """The least and the most that `cycles` would be if one guess of the machine's file were
        another value of its range; the same twice without `guesses`."""
        every = [self.cycles, *(guess["cycles"] for guess in self.data["guesses"])]
        return min(every), max(every)

    @property
    def mips(self) -> float:
        """Million instructions simulated a second, those before a restored state left out."""
        return self.simulated["instructions"] / self.seconds / 1e6 if self.seconds else 0.0

    @property
    def simulated(self) -> dict[str, int]:
        """`instructions` and `cycles` of this run; where it was restored, since then."""
        before = self.data["restored"] or {}
        return {name: self.data[name] - before.get(name, 0) for name in ("instructions", "cycles")}

    @property
    def reports(self) -> list[dict[str, Any]]:
        """What the checker found, one a cause; empty without `check`."""
        return self.data["checker"]["reports"]

    @property
    def succeeded(self) -> bool:
        """Whether the guest ended with status 0, reached a limit, was saved or was killed by gdb,
        and the checker is silent."""
        return not self.reports and (
            self.exit == 0 or self.reason in ("limit", "saved", "debugger")
        )

    @property
    def table(self) -> pa.Table:
        """Cycles by phase and cause."""
        rows = [
            {"machine": self.data["machine"], "phase": phase["name"], "cause": cause, **cost}
            for phase in self.data["phases"]
            for cause, cost in phase["causes"].items()
        ]
        return pa.Table.from_pylist(rows)

    @property
    def phases(self) -> pa.Table:
        """Instructions and cycles by phase."""
        return pa.Table.from_pylist(
            [
                {key: phase[key] for key in ("name", "instructions", "cycles")}
                for phase in self.data["phases"]
            ]
        )

    @property
    def modes(self) -> pa.Table:
        """Cycles by processor mode."""
        return pa.Table.from_pylist(self.data["modes"])

    @property
    def spaces(self) -> pa.Table:
        """Cycles by address space (table base, process ID, domains)."""
        return pa.Table.from_pylist(self.data["spaces"])


def boot(
    image: str | os.PathLike[str],
    machine: str | Machine,
    *,
    initrd: str | os.PathLike[str] | None = None,
    dtb: str | os.PathLike[str] | None = None,
    append: str | None = None,
    check: bool = False,
    timeline: str | os.PathLike[str] | None = None,
    gdb_port: int | None = None,
    max_instructions: int | None = None,
    max_seconds: float | None = None,
    symbols: str | os.PathLike[str] | None = None,
    console: Console | None = None,
    typed: str = "",
    guesses: bool = False,
    save: str | os.PathLike[str] | None = None,
    save_at: int | str | None = None,
    restore: str | os.PathLike[str] | None = None,
    progress: ProgressCallback | None = None,
) -> BootResult:
    """Runs an ELF, a Linux `Image` or `zImage`, or a raw binary on a system machine.

    The guest's output is kept in the result and `typed` is typed on its serial line, unless a
    `console` does both. `check` turns the staleness checker on. `symbols` names the addresses of an
    image without symbols: an ELF file, or a list as of `nm`. With `guesses` the run is repeated for
    each other value that the machine's file gives for what it guesses, with the same typed. The run
    ends when the guest does, at `max_instructions`, at `max_seconds` of the machine's own time
    since power-on (in which a guest may sleep), or where the console says so.

    With `save` the machine's state is written to a file once `save_at` instructions have been
    executed or the guest has printed that text, and the run ends by the reason "saved"; without
    `save_at`, where the console ends the run. With `restore` the run begins with such a state
    instead of at power-on, and goes on as the saved one would have: of the same image, files,
    options and machine, but for values in cycles.

    `progress` is told now and then how many instructions all cores have executed, and
    `max_instructions`.

    Raises `MachineError`, `InputError`; and `KeyboardInterrupt` on Ctrl-C, unless a `console` is
    given: then the result says that it was interrupted. Where that happens while a run is repeated,
    it is raised always.
    """
    if max_instructions is not None:
        max_instructions = whole_number("max_instructions", max_instructions, 1)
    for name, text in (("append", append or ""), ("typed", typed)):
        if not isinstance(text, str):
            raise InputError(f"{name}: {text!r} is no text")
    if max_seconds is not None and not (
        isinstance(max_seconds, numbers.Real) and 0 < max_seconds < math.inf
    ):
        raise InputError(
            f"max_seconds: {max_seconds} is no time; give a finite number of seconds above 0"
        )
    if gdb_port is not None:
        gdb_port = whole_number("gdb_port", gdb_port, 1, 65535)
    if save_at is not None and not isinstance(save_at, str):
        save_at = whole_number("save_at", save_at)
    if isinstance(save_at, str):
        check_text_to_save_at("save_at", save_at)
    if save_at is not None and save is None:
        raise InputError("save_at: of no file; name one as save")
    if save is not None and gdb_port is not None:
        raise InputError("save: not while gdb debugs; save first and restore for gdb")
    if guesses and (save is not None or restore is not None):
        raise InputError("guesses: each is a boot of its own, without save and restore")
    if typed and console is not None:
        raise InputError("typed: the console types; give one of the two")
    if guesses and console is not None and console.real_time:
        raise InputError(
            "guesses: in real time nothing is typed twice alike; give a console without real_time"
        )
    loaded = machine if isinstance(machine, Machine) else Machine.load(machine)
    read = [Path(one) for one in (image, initrd, dtb, symbols, loaded.file) if one is not None]
    outputs = [None if path is None else Path(path) for path in (timeline, save)]
    check_outputs(outputs, read)
    if restore is not None:  # where a state may be saved again
        check_outputs(outputs[:1], [Path(restore)])
    provenance = {  # of what is run, so before it runs
        "mmulab": _engine.VERSION,
        "machine": machine_provenance(loaded),
        "image": file_provenance(image),
        "initrd": file_provenance(initrd) if initrd is not None else None,
        "dtb": file_provenance(dtb) if dtb is not None else None,
        "append": append,
        "typed": typed or None,
        "symbols": file_provenance(symbols) if symbols is not None else None,
        "max_instructions": max_instructions,
        "max_seconds": max_seconds,
    }
    header: dict[str, Any] = {}
    if save is not None or restore is not None:
        header = {**provenance, "engine": file_provenance(_engine.__file__), "check": check}
    restored: dict[str, Any] | None = None
    if restore is not None:
        saved = json.loads(_engine.saved_state_header(os.fspath(restore)))
        others = _other_cycles(os.fspath(restore), saved, header)
        restored = {
            "state": file_provenance(restore),
            "set": saved["machine"]["set"],
            "other_cycles": others,
        }
    transcript = Transcript(typed.encode())
    recorder = Recorder(console or transcript)
    data = _engine.boot(
        os.fspath(image),
        loaded._engine,
        initrd=_path(initrd),
        dtb=_path(dtb),
        append=append,
        check=check,
        timeline=_output_path(timeline),
        gdb_port=gdb_port,
        max_instructions=max_instructions,
        max_seconds=max_seconds,
        symbols=_path(symbols),
        console=recorder,
        save=_output_path(save),
        save_at=save_at,
        save_header=json.dumps(header),
        restore=_path(restore),
        progress=progress,
    )
    seconds = data.pop("seconds")
    restored_at = data.pop("restored_at")
    data["restored"] = restored and {
        **restored,
        "instructions": restored_at[0],
        "cycles": restored_at[1],
    }
    data["machine"] = loaded.label
    data["provenance"] = provenance
    data["guesses"] = []
    text = console.text if isinstance(console, Transcript) else transcript.text
    result = BootResult(data, text, seconds, recorder.typed)
    if console is None and result.reason == "interrupted":
        raise KeyboardInterrupt
    if not guesses:
        return result
    again = functools.partial(
        boot,
        image,
        initrd=initrd,
        dtb=dtb,
        append=append,
        max_instructions=max_instructions,
        max_seconds=max_seconds,
    )
    rows = list(guess_rows(result, loaded, again))
    return dataclasses.replace(result, data={**data, "guesses": rows})


def _other_cycles(
    path: str, saved: dict[str, Any], wanted: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """The values in cycles that a state was saved with and that are others now,
    `{path: {"saved": ..., "now": ...}}`.

    Raises `InputError` where anything else of the run that it was saved of is another.
    """

    def refuse(reason: str) -> NoReturn:
        raise InputError(f"{path}: {reason}")

    if saved["engine"]["sha256"] != wanted["engine"]["sha256"]:
        refuse(f"saved by another build of mmulab ({saved['mmulab']}); boot and save again")
    for what in ("image", "initrd", "dtb"):
        digests = [one[what] and one[what]["sha256"] for one in (saved, wanted)]
        if digests[0] != digests[1]:
            if saved[what] is None:
                refuse(f"saved without --{what}; restore it so, too")
            refuse(f"saved of another {what} ({saved[what]['name']}); give the one that was booted")
    if saved["append"] != wanted["append"]:
        given = (
            "without --append" if saved["append"] is None else f"with --append {saved['append']!r}"
        )
        refuse(f"saved {given}; restore it so, too")
    if saved["check"] != wanted["check"]:
        refuse(f"saved {'with' if saved['check'] else 'without'} --check; restore it so, too")
    machines = (saved["machine"], wanted["machine"])
    values = [dict(_leaves(one["description"])) for one in machines]
    others = {}
    for name in sorted({*values[0], *values[1]} - {"guesses"}):
        before, now = (one.get(name) for one in values)
        if before == now:
            continue
        if not name.endswith("_cycles"):
            refuse(
                f"saved on another machine: {name} was {json.dumps(before)}, not {json.dumps(now)}; "
                "only values in cycles may differ"
            )
        others[name] = {"saved": before, "now": now}
    return others


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested dictionaries by dotted paths."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key)
    else:
        yield name, value


def guess_rows(
    result: BootResult,
    machine: Machine,
    again: Callable[..., BootResult],
    progress: ProgressCallback | None = None,
) -> Iterator[dict[str, Any]]:
    """What each other value of the machine's guesses makes of a boot, in which the same is typed.

    `again` boots the same on another machine with a `console`; `progress` is told how many boots
    are done. Raises `KeyboardInterrupt` on Ctrl-C.
    """
    others = machine.alternatives()
    for done, other in enumerate(others):
        if progress:
            progress(done, len(others))
        run = again(other, console=Retyping(result.typed))
        if run.reason == "interrupted":
            raise KeyboardInterrupt
        yield {
            "set": dict(other.changes),
            "instructions": run.instructions,
            "cycles": run.cycles,
            "reason": run.reason,
        }


def check_text_to_save_at(name: str, text: str) -> None:
    """Raises `InputError`, with the argument's name, for a text that is empty or that means a
    number: a run would wait in vain until the guest prints it."""
    if text == "":
        raise InputError(f"{name}: an empty text; name one that the guest prints")
    if re.fullmatch(r"\s*[-+]?[\d_.,]+\s*([kKMG]|[eE][-+]?\d+)?\s*", text):
        raise InputError(
            f"{name}: {text!r} is no whole number of instructions, and a text needs letters"
        )


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.fspath(path)


def _output_path(path: str | os.PathLike[str] | None) -> str | None:
    if path is None:
        return None
    path = behind_links(Path(path))
    refuse_what_is_no_file(path)
    return os.fspath(path)
