"""The project's own guests: kernels and programs that the ARM machines boot, built when first asked
for."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

from mmulab.errors import InputError
from mmulab.files import in_turn, telling_where
from mmulab.output import note

SOURCES = Path(__file__).parent / "guest_sources"
"""In a checkout a link to the project's `guests/`; in a wheel the sources themselves."""
FOLDERS = {"microkernel": "microkernel", "timing": "timing", "migration": "migration"}
"""The folder whose Makefile builds an image, by the word that its name begins with."""
COMPILER = "arm-none-eabi-gcc"


def image(name: str) -> Path:
    """The ELF of a guest, such as `microkernel-armv4` or `timing-sa1100`, built again where its
    sources are younger.

    Raises `InputError` where the compiler is missing or there is no such guest.
    """
    folder = FOLDERS.get(name.partition("-")[0])
    if folder is None:
        raise InputError(f"{name}: no such guest; known: {', '.join(FOLDERS)}")
    path = output_folder() / f"{name}.elf"
    build(folder)
    if not path.exists():
        raise InputError(f"{name}: no such guest; {path.parent} has those that there are")
    return path


def output_folder() -> Path:
    """Where images are built: `build/guests` of a checkout, else a folder of the user's cache, one
    for each state of the sources."""
    if SOURCES.is_symlink():
        return SOURCES.resolve().parent / "build" / "guests"
    digest = hashlib.sha256()
    for path in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cached / "mmulab" / f"guests-{digest.hexdigest()[:16]}"


def missing_packages() -> set[str]:
    """Debian packages that have to be installed for the guests to be built."""
    return {
        package
        for program, package in ((COMPILER, "gcc-arm-none-eabi"), ("make", "make"))
        if shutil.which(program) is None
    }


@cache
def build(folder: str) -> None:
    """Runs the Makefile of a folder, once in a process."""
    if missing := missing_packages():
        raise InputError(
            f"the guests cannot be built without {COMPILER} and make; on Debian: "
            f"apt install {' '.join(sorted(missing))}"
        )
    output = output_folder()
    command = ["make", "--silent", "-C", str(SOURCES / folder), f"OUT={output}"]
    with telling_where(output):
        output.mkdir(parents=True, exist_ok=True)
    with in_turn(output):
        if subprocess.run([*command, "--question"], capture_output=True, check=False).returncode:
            note(f"Building the guests of {folder}")
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        said = finished.stderr.strip().splitlines()
        raise InputError(
            f"the guests of {folder} cannot be built: {said[-1] if said else 'make failed'}"
        )
