"""The folder that `mmulab run --dir` keeps: one run, whole, or none."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from mmulab.errors import InputError
from mmulab.files import replacing, telling_where

UNFINISHED = "unfinished"
"""Where a run stands in the folder until it is done. The next run removes what is left of one."""

_RESULTS = ["report.html", "replay.json", "miss-curves.json", "trace.json"]


def begin(folder: Path) -> Path:
    """A fresh place for a run in `folder`; the run that `folder` holds stays until `publish`.

    Raises `InputError` where something else than a run that was not finished stands in its place.
    """
    unfinished = folder / UNFINISHED
    with telling_where(unfinished):
        if unfinished.exists():
            for path in unfinished.iterdir():
                of_a_run = path.suffix == ".mmt" or path.name in _RESULTS or path.name[0] == "."
                if not (of_a_run and path.is_file()):
                    raise InputError(f"{path}: is of no run; move it, or name another folder")
            shutil.rmtree(unfinished)
        unfinished.mkdir(parents=True)
    return unfinished


def forget_if_empty(folder: Path, is_new: bool) -> None:
    """Takes away the place of a run that ended before it came to anything, and the folder if it was
    made for it."""
    for path in [folder / UNFINISHED, *([folder] if is_new else [])]:
        with suppress(OSError):  # it holds something, or is published
            path.rmdir()


def publish(folder: Path) -> None:
    """Puts the finished run in the place of the one that `folder` holds.

    The old results go first, then the old traces, and only then anything new comes, so that
    whenever this is killed old and new are never side by side.
    """
    unfinished = folder / UNFINISHED
    with telling_where(folder):
        old_traces = _traces_of(folder)
        for name in [*_RESULTS, *old_traces]:
            (folder / name).unlink(missing_ok=True)
        results = [unfinished / name for name in _RESULTS]
        traces = [path for path in sorted(unfinished.iterdir()) if path not in results]
        for path in [*traces, *filter(Path.exists, results)]:
            path.replace(folder / path.name)
        unfinished.rmdir()


def _traces_of(folder: Path) -> list[str]:
    """Names of the traces of the run that `folder` holds."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        trace = json.loads((folder / "trace.json").read_text(encoding="utf-8"))
        return [Path(one["path"]).name for one in [trace, *trace["children"]]]
    return []


def write_json(path: Path, data: Any) -> None:
    """Writes a result, all or nothing."""
    with replacing(path) as file:
        file.write((json.dumps(data, indent=1) + "\n").encode())
