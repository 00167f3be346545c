"""Where a result comes from: what has to be the same for the same bytes to come out again."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from mmulab import _engine
from mmulab.errors import InputError, TraceError
from mmulab.machine import Machine


def trace_provenance(trace: str | os.PathLike[str]) -> dict[str, Any]:
    """What `file_provenance` says of a trace, or of all files of one that is a folder. Raises
    `TraceError` where it cannot be read."""
    try:
        return folder_provenance(trace) if Path(trace).is_dir() else file_provenance(trace)
    except InputError as error:
        raise TraceError(str(error)) from error


def file_provenance(file: str | os.PathLike[str]) -> dict[str, Any]:
    """A file by name, size in bytes and SHA-256; of a pipe only the name is known.

    Raises `InputError` where it cannot be read.
    """
    path = Path(file)
    try:
        size = path.stat().st_size if path.is_file() else None
        return {"name": path.name, "bytes": size, "sha256": _digest_of(path)}
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def schedule_provenance(
    traces: Sequence[Path], kind: str, time_slice_instructions: int, cores: int
) -> dict[str, Any]:
    """What identifies programs that take turns: the `schedule`, and as `trace` all of it under one
    name and one SHA-256. Raises `TraceError` where a trace cannot be read."""
    sources = [trace_provenance(trace) for trace in traces]
    schedule = {
        "kind": kind,
        "time_slice_instructions": time_slice_instructions,
        "cores": cores,
        "traces": sources,
    }
    sizes = [source["bytes"] for source in sources]
    name = " + ".join(source["name"] for source in sources)
    on_cores = f", {cores} cores" if cores > 1 else ""
    trace = {
        "name": f"{name} ({kind}, {time_slice_instructions} instructions{on_cores})",
        "bytes": None if None in sizes else sum(sizes),
        "sha256": hashlib.sha256(json.dumps(schedule).encode()).hexdigest(),
    }
    return {"trace": trace, "schedule": schedule}


def folder_provenance(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """A folder by name, size in bytes of all its files, and SHA-256 of their names and contents.

    Raises `InputError` where one cannot be read; a folder that is not there has no files.
    """
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    parts = [(str(path.relative_to(folder)), file_provenance(path)) for path in files]
    return {
        "name": Path(folder).name,
        "bytes": sum(part["bytes"] for _, part in parts),
        "sha256": hashlib.sha256(
            json.dumps([(name, part["sha256"]) for name, part in parts]).encode()
        ).hexdigest(),
    }


_DIGESTS: dict[tuple[str, int, int], str] = {}


def _digest_of(path: Path) -> str | None:
    """Of a file's content, computed once for each state of the file."""
    state = path.stat()
    if not path.is_file():
        return None
    key = (str(path), state.st_size, state.st_mtime_ns)
    if key not in _DIGESTS:
        with path.open("rb") as file:
            _DIGESTS[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _DIGESTS[key]


def machine_provenance(machine: Machine) -> dict[str, Any]:
    """A machine by name, file, SHA-256 of its content, what `--set` changed, and its whole
    content."""
    return {
        "name": machine.name,
        "file": machine.file,
        "sha256": machine.sha256,
        "set": dict(machine.changes),
        "description": machine.values(),
    }


def provenance(
    trace: dict[str, Any], machine: Machine, symbol_files: Iterable[str] = (), **options: Any
) -> dict[str, Any]:
    """All that a result of `machine` on a trace depends on, the program's files whose names of
    functions were asked for among it."""
    files = [path for path in map(Path, symbol_files) if path.is_file()]
    return {
        "mmulab": _engine.VERSION,
        "trace": trace,
        "machine": machine_provenance(machine),
        **options,
        "symbol_files": [{"path": str(path), **file_provenance(path)} for path in files],
    }


def inputs_provenance(
    machines: Iterable[str], files: Iterable[str | os.PathLike[str]]
) -> dict[str, Any]:
    """What several runs depend on: the version, shipped machines by name, and input files."""
    return {
        "mmulab": _engine.VERSION,
        "machines": [machine_provenance(Machine.load(name)) for name in machines],
        "inputs": [file_provenance(file) for file in files],
    }


def flat_provenance(source: dict[str, Any]) -> dict[str, Any]:
    """The same as columns of a table; what is nested becomes JSON."""
    machine = source["machine"]
    return {
        "mmulab": source["mmulab"],
        "seed": source["seed"],
        "skip": source["skip"],
        "warm_up": source["warm_up"],
        "limit": source["limit"],
        "region": source["region"],
        "symbol_files": json.dumps(
            [
                {"path": file["path"], "sha256": file["sha256"]}
                for file in source.get("symbol_files", [])
            ]
        ),
        "trace_sha256": source["trace"]["sha256"],
        "machine_sha256": machine["sha256"],
        "set": json.dumps(machine["set"]),
        "machine_description": json.dumps(machine["description"]),
    }


def machine_labels(machines: Sequence[Machine]) -> list[str]:
    """A label for each machine that no other of them has: two that differ are never taken for
    one."""
    return distinct(
        [machine.label for machine in machines],
        [machine.file or "" for machine in machines],
        [f"#{machine.sha256[:8]}" for machine in machines],
    )


def trace_labels(paths: Sequence[Path]) -> list[str]:
    """Likewise for traces: the file's name, with its folder where that is not enough."""
    return distinct([path.name for path in paths], [str(path.parent) for path in paths])


def distinct(names: Sequence[str], *details: Sequence[str]) -> list[str]:
    """Names that differ: those that are equal get a detail in brackets, then the next; at last a
    number."""
    found = list(names)
    for detail in details:
        counts = Counter(found)
        found = [
            f"{name} ({more})" if counts[name] > 1 and more else name
            for name, more in zip(found, detail, strict=True)
        ]
    taken: set[str] = set()
    for place, name in enumerate(found):
        number = 2
        while found[place] in taken:
            found[place] = f"{name} [{number}]"
            number += 1
        taken.add(found[place])
    return found
