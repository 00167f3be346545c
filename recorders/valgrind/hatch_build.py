"""Puts the compiled tool, and the parts of Valgrind that it runs with, into the wheel."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class RecorderHook(BuildHookInterface):
    """Runs `make bundle` for each wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel is written."""
        self.folder = Path(tempfile.mkdtemp(prefix="mmulab-recorder-"))
        if version == "editable":
            raise RuntimeError("make recorder builds the recorder in place")
        subprocess.run(["make", "-C", self.root, "bundle", f"OUTPUT={self.folder}"], check=True)
        build_data["pure_python"] = False
        # The launcher is linked with the C library of the machine that built it.
        build_data["tag"] = "py3-none-linux_x86_64"
        for file in sorted(self.folder.iterdir()):
            build_data["force_include"][str(file)] = f"mmulab_recorder/{file.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """After it."""
        shutil.rmtree(self.folder, ignore_errors=True)
