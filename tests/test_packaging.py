"""The wheels: small, with all that they need, and they work away from the source."""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from mmulab import guests
from mmulab.recording import tool_directory

MIB = 1 << 20


def wheel(source: Path, folder: Path) -> Path:
    """Builds one as a user does, but with the build tools that are there."""
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder)]
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *options, str(source)],
        check=True,
        env={**os.environ, **rust_environment()},
    )
    [built] = folder.glob("*.whl")
    return built


def rust_environment() -> dict[str, str]:
    """What `make` sets for cargo, which may be one of its own, and the tools beside Python."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    settings = ROOT / "build" / "rust.env"
    command = f". {settings} && env -0" if settings.exists() else "env -0"
    listed = subprocess.run(
        ["sh", "-c", command], env={**os.environ, "PATH": path}, capture_output=True, check=True
    ).stdout.decode()
    return dict(entry.split("=", 1) for entry in listed.split("\0") if entry)


def metadata(built: Path) -> email.message.Message:
    with zipfile.ZipFile(built) as file:
        [name] = [name for name in file.namelist() if name.endswith("/METADATA")]
        return email.message_from_bytes(file.read(name))


def unpacked(built: Path, folder: Path) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, built],
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def own_wheel(tmp_path_factory) -> Path:
    return wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def recorder_wheel(tmp_path_factory) -> Path:
    if not (tool_directory() / "mmulab-amd64-linux").exists():
        pytest.skip("no Valgrind or no recorder")
    return wheel(ROOT / "recorders" / "valgrind", tmp_path_factory.mktemp("wheel"))


def test_the_wheel_is_small_and_says_what_it_is(own_wheel):
    assert own_wheel.stat().st_size < 6 * MIB, "unstripped it has more than 30"
    fields = metadata(own_wheel)
    assert fields["License-Expression"] == "MIT OR Apache-2.0"
    assert sorted(fields.get_all("License-File")) == ["LICENSE-APACHE", "LICENSE-MIT"]
    assert "Topic :: System :: Emulators" in fields.get_all("Classifier")
    assert fields.get_payload().startswith("# mmulab")


def test_the_recorders_wheel_is_a_program_of_its_own(recorder_wheel):
    assert recorder_wheel.stat().st_size < 3 * MIB
    fields = metadata(recorder_wheel)
    assert fields["License-Expression"] == "GPL-2.0-or-later"
    assert fields.get_all("License-File") == ["LICENSE"]
    with zipfile.ZipFile(recorder_wheel) as file:
        modes = {Path(one.filename).name: one.external_attr >> 16 for one in file.infolist()}
    assert modes["mmulab-amd64-linux"] & 0o111 and modes["valgrind"] & 0o111


def run(program: str, folder: Path, environment: dict[str, str]) -> str:
    """What a Python program prints that runs in a folder and ends well."""
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_recorders_source_distribution_builds_what_its_wheel_holds(recorder_wheel, tmp_path):
    """It is the source that the licence asks for."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", tmp_path]
    subprocess.run(command, cwd=ROOT / "recorders" / "valgrind", check=True, capture_output=True)
    [built] = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(built, tmp_path, filter="data")
    source, output = tmp_path / built.name.removesuffix(".tar.gz"), tmp_path / "out"
    make = ["make", "-C", source, "bundle", f"OUTPUT={output}"]
    subprocess.run(make, check=True, capture_output=True)
    with zipfile.ZipFile(recorder_wheel) as file:
        held = {Path(name).name for name in file.namelist() if name.startswith("mmulab_recorder/")}
    assert {file.name for file in output.iterdir()} == held - {"__init__.py"}


def test_the_wheels_replay_and_record_away_from_the_source(own_wheel, recorder_wheel, tmp_path):
    """With no Valgrind on the PATH: the recorder's wheel has all that it needs."""
    folder = unpacked(own_wheel, tmp_path / "packages")
    unpacked(recorder_wheel, tmp_path / "packages")
    program = (
        "import json, mmulab, mmulab.recording as r;"
        "recorded = mmulab.record(['/bin/sh', '-c', 'exit 5'], 't.mmt');"
        "row = mmulab.replay('t.mmt', 'ultrix')[0];"
        "print(json.dumps([mmulab.__file__, str(r.tool_directory()), recorded.exit_status,"
        " recorded.instructions == row.instructions]))"
    )
    environment = {"PYTHONPATH": str(folder), "PATH": str(tmp_path / "nothing")}
    package, tool, status, is_same_length = json.loads(run(program, tmp_path, environment))
    assert package == str(folder / "mmulab" / "__init__.py")
    assert tool == str(folder / "mmulab_recorder")
    assert (status, is_same_length) == (5, True)


def test_a_wheel_without_the_recorders_names_it(own_wheel, tmp_path):
    folder = unpacked(own_wheel, tmp_path / "packages")
    program = (
        "import mmulab\ntry: mmulab.record(['/bin/true'], 't.mmt')\n"
        "except mmulab.RecordError as error: print(error)"
    )
    said = run(program, tmp_path, {"PYTHONPATH": str(folder)})
    assert said.startswith("the recorder is not installed; install the package mmulab-recorder")


GUESTS = ["microkernel-armv4", "timing-sa1100", "migration-interfaces-64"]


def test_the_wheel_builds_its_guests_away_from_the_source(own_wheel, tmp_path):
    assert {name.partition("-")[0] for name in GUESTS} == set(guests.FOLDERS)
    if guests.missing_packages():
        pytest.skip("no cross compiler")
    folder = unpacked(own_wheel, tmp_path / "packages")
    program = f"from mmulab import guests; print(*map(guests.image, {GUESTS}), sep='\\n')"
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
    }
    built = [Path(line) for line in run(program, tmp_path, environment).splitlines()]
    assert [path.stem for path in built] == GUESTS
    assert all(path.is_relative_to(tmp_path / "cache") for path in built)
