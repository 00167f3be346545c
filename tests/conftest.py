"""What several tests share: a trace of a real program, and the command line as a user has it."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mmulab import Machine, machine_names
from mmulab_start import ENDING

ROOT = Path(__file__).resolve().parents[1]
MMULAB = Path(sys.executable).with_name("mmulab")
# The machines that have the board of QEMU's versatilepb, for which most guests are made.
VERSATILEPB = [
    name
    for name in machine_names("system")
    if Machine.load(name).get("board.kind") == "versatilepb"
]


def script(path: str) -> ModuleType:
    """A script of the project as a module, which finds those beside it as it does when it is run.

    It is named by its folder, too, since several are called `run.py`.
    """
    file = ROOT / path
    name = f"{file.parent.name}_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec and spec.loader
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    spec.loader.exec_module(module)
    sys.path.remove(str(file.parent))
    return module


@dataclass
class Finished:
    """A command that ended."""

    status: int
    output: str
    errors: str

    @property
    def error_line(self) -> str:
        """The one line on stderr; fails where there are several, or a traceback."""
        lines = self.errors.splitlines()
        assert len(lines) == 1, self.errors
        assert lines[0].startswith("mmulab: ")
        return lines[0].removeprefix("mmulab: ")


def mmulab(
    *arguments: str | Path,
    cwd: Path | None = None,
    timeout_seconds: float = 120,
    **environment: str,
) -> Finished:
    """Runs `mmulab` with pipes for stdout and stderr."""
    finished = subprocess.run(
        [MMULAB, *arguments],
        cwd=cwd or ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
    )
    return Finished(finished.returncode, finished.stdout, finished.stderr)


def _end_by_signals() -> None:
    for sent in ENDING:
        signal.signal(sent, signal.SIG_DFL)


def start_interruptible(*words: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Starts a process with pipes for stdout and stderr that Ctrl-C, or the terminal's end, ends as
    at a terminal: what a shell starts in the background inherits that SIGINT is ignored, what
    `nohup` starts that SIGHUP is. `options` are those of `Popen`."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        words,
        preexec_fn=_end_by_signals,
        **{**pipes, **options},
    )


@pytest.fixture(scope="session")
def trace() -> Path:
    """The small trace of a real program that the project ships."""
    return ROOT / "examples" / "small.mmt"
