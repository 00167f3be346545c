"""Machines: the descriptions that results depend on, loaded from files and varied for studies."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mmulab import _engine
from mmulab.errors import MachineError

Value = bool | int | float | str | list[Any]


def machine_directory() -> Path:
    """Where the shipped machine files stand: `$MMULAB_MACHINES`, or the package's own."""
    override = os.environ.get("MMULAB_MACHINES")
    return Path(override) if override else Path(__file__).parent / "machines"


def machine_names(kind: str | None = None) -> list[str]:
    """Names of the shipped machines, sorted; `kind` is `"replay"` or `"system"`, or None for all.

    Raises `MachineError` where their folder has none.
    """
    names = []
    paths = sorted(machine_directory().glob("*.toml"))
    if not paths:
        raise MachineError(
            f"{machine_directory()}: holds no machines; MMULAB_MACHINES, where it is set, names their folder"
        )
    for path in paths:
        if kind is None or _kind_of_file(path) == kind:
            names.append(path.stem)
    return names


def _kind_of_file(path: Path) -> str:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8")).get("kind", "")
    except (OSError, ValueError):
        return ""


class Machine:
    """A described machine. Immutable: `vary` and `with_changes` return others.

    Source of every value: the comments of its file (`mmulab machines NAME` shows them).
    """

    __slots__ = ("_engine", "changes", "file")

    def __init__(
        self,
        engine: _engine.Machine,
        changes: Mapping[str, Value] | None = None,
        file: str | None = None,
    ):
        self._engine = engine
        self.file = file
        """The file that it was loaded from, as it was named; None for a shipped machine, and
        text."""
        self.changes: dict[str, Value] = dict(changes or {})
        """What was changed since the file, by dotted path."""

    @classmethod
    def load(cls, name: str | os.PathLike[str]) -> Machine:
        """Loads a machine by name (`"ultrix"`) or from a file (`"./mine.toml"`).

        Raises `MachineError` with file, line and what to do when there is no such machine, or the
        file does not describe one.
        """
        path = cls.path_of(name)
        shipped = path.parent == machine_directory()
        return cls(_engine.Machine.load(str(path)), file=None if shipped else str(path))

    @staticmethod
    def path_of(name: str | os.PathLike[str]) -> Path:
        """The file that `load` would read."""
        text = os.fspath(name)
        with_suffix = f"{text}.toml"
        if os.sep in text or text.endswith(".toml"):
            if not os.path.exists(text) and os.path.isfile(with_suffix):
                raise MachineError(f"{text}: there is no such file; write {with_suffix}")
            return Path(text)
        shipped = machine_directory() / with_suffix
        if shipped.is_file():
            return shipped
        near = difflib.get_close_matches(text, machine_names(), n=1)
        hint = f"did you mean {near[0]}?" if near else "`mmulab machines` lists them"
        files = [file for file in (text, with_suffix) if os.path.isfile(file)]
        if files:
            hint = f"for the file write ./{files[0]}"
        raise MachineError(f"there is no machine {text!r}; {hint}")

    @classmethod
    def parse(cls, text: str, name: str = "machine") -> Machine:
        """A machine from TOML text; `name` stands for the file in messages."""
        return cls(_engine.Machine.parse(text, name))

    @property
    def name(self) -> str:
        """The name in the file."""
        return self._engine.name

    @property
    def title(self) -> str:
        """What it is, in one line."""
        return self._engine.title

    @property
    def kind(self) -> str:
        """`"replay"` (driven by a recorded program) or `"system"` (boots kernels)."""
        return self._engine.kind

    def check_replays(self) -> None:
        """Raises `MachineError` where it boots kernels instead."""
        self._engine.check_replays()

    @property
    def label(self) -> str:
        """The name with the changes, as results show it: `ultrix dtlb.entries=64`."""
        return " ".join([self.name, *settings_of(self.changes)])

    @property
    def sha256(self) -> str:
        """Of the whole content: machines that differ in any value differ in it."""
        return hashlib.sha256(self._engine.toml().encode()).hexdigest()

    def alternatives(self) -> list[Machine]:
        """The machines that this one would be if a guess of its file were another value of its
        range.

        One for each step of each table of `[[guesses]]`, with what it changes in `changes`. A step
        that does not fit what was changed since the file is left out.
        """
        found = []
        for guess in self.values().get("guesses", []):
            for values in zip(*guess.values(), strict=True):
                changes = dict(zip(guess, values, strict=True))
                with contextlib.suppress(MachineError):
                    found.append(Machine(self.with_changes(changes)._engine, changes, self.file))
        return found

    def get(self, path: str) -> Value:
        """The value at a dotted path, as in `get("dtlb.entries")`.

        Raises `MachineError` where the machine has no such value.
        """
        value: Any = self.values()
        for key in path.split("."):
            if not isinstance(value, dict) or key not in value:
                raise MachineError(
                    f"{self.name}: {path}: there is no such value; `mmulab machines {self.file or self.name}` shows all"
                )
            value = value[key]
        return value

    def values(self) -> dict[str, Any]:
        """Every value of the description, nested as in the file."""
        return tomllib.loads(self._engine.toml())

    def with_changes(self, changes: Mapping[str, Value] | Iterable[tuple[str, Value]]) -> Machine:
        """The machine with values changed by dotted path, checked together once all are in place.

        Raises `MachineError` for an unknown path or a value that breaks a rule.
        """
        changes = {path: machine_value(path, value) for path, value in dict(changes).items()}
        engine = self._engine.with_changes(
            [(path, toml_text(value)) for path, value in changes.items()]
        )
        return Machine(engine, {**self.changes, **changes}, self.file)

    def vary(self, path: str, values: Iterable[Value]) -> list[Machine]:
        """One machine for each value at `path`:
        `load("ultrix").vary("dtlb.entries", [64, 128])`.

        Raises `MachineError` as `with_changes` does, and where there is no value or no list of them.
        """
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise MachineError(f"{path}: {values!r} is no list of values; write [{values!r}]")
        machines = [self.with_changes({path: value}) for value in values]
        if not machines:
            raise MachineError(f"{path}: no value is given; name one or more")
        return machines

    def __repr__(self) -> str:
        return f"<mmulab.Machine {self.label}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self._engine.toml() == other._engine.toml()

    def __hash__(self) -> int:
        return hash(self._engine.toml())


def machine_value(path: str, value: Any) -> Value:
    """A value for a dotted path, in Python's own types where it is one of NumPy's numbers or
    arrays.

    Raises `MachineError` for what no machine has, as TOML's dates.
    """
    value = value.tolist() if hasattr(value, "tolist") else value
    if not isinstance(path, str):
        raise MachineError(f'{path!r}: is no dotted path; write one as "dtlb.entries"')
    if not isinstance(value, bool | int | float | str | list):
        raise MachineError(f"{path}: {value} is no number, text, truth value or list of these")
    return value


def machine_schema() -> dict[str, Any]:
    """The JSON Schema of machine files."""
    return json.loads(_engine.machine_schema())


def settings_of(changes: Mapping[str, Value]) -> list[str]:
    """Changes by dotted path as `--set` takes them: `l1d.write_allocate=false`."""
    return [f"{path}={value_text(path, value)}" for path, value in changes.items()]


def value_text(path: str, value: Any) -> str:
    """A machine's value at a dotted path as `--set` takes it; addresses in hexadecimal."""
    is_address = path.endswith("base_address") and isinstance(value, int)
    return f"{value:#x}" if is_address else toml_text(value)


def toml_text(value: Any) -> str:
    """A value as the file would write it; text goes as it is, the engine knows words from sizes."""
    return value if isinstance(value, str) else json.dumps(value)
