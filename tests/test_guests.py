"""The guests as an installed package has them: sources that are built when first asked for."""

import re
import shutil
import subprocess
import threading

import pytest

from mmulab import InputError, files, guests

PARTS = ("microkernel", "bench", "timing", "mutants")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """The sources as files, not as a link into a checkout, in a folder that nobody may write."""
    sources = tmp_path / "site-packages" / "guest_sources"
    for part in PARTS:
        shutil.copytree(guests.SOURCES / part, sources / part)
    for path in sources.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    monkeypatch.setattr(guests, "SOURCES", sources)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    guests.build.cache_clear()
    yield tmp_path
    guests.build.cache_clear()


def test_an_installed_package_builds_its_guests_into_the_users_cache(installed):
    built = [guests.image(name) for name in ("microkernel-armv5te", "timing-sa1100")]
    for path in built:
        assert path.read_bytes().startswith(b"\x7fELF")
        assert path.is_relative_to(installed / "cache" / "mmulab")
    checkout = guests.Path(__file__).parents[1] / "build" / "guests" / "timing-sa1100.elf"
    assert not checkout.exists() or checkout not in built


def test_no_guest_names_a_temporary_file(installed):
    """What is built twice has the same bytes, and a state that was saved of one can be restored
    into the other."""
    elves = list(guests.image("microkernel-armv5te").parent.glob("*.elf"))
    assert len(elves) > 5
    for elf in elves:
        symbols = subprocess.run(
            ["arm-none-eabi-readelf", "--wide", "--symbols", elf],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        files = re.findall(r" FILE +LOCAL .* (\S+)$", symbols, re.M)
        assert files and not [
            name for name in files if name.startswith("cc") and name.endswith(".o")
        ]


def test_other_sources_have_another_folder(installed):
    before = guests.output_folder()
    changed = guests.SOURCES / "bench" / "ring.c"
    changed.chmod(0o644)
    changed.write_text(changed.read_text() + "\n")
    assert guests.output_folder() != before


def test_a_missing_compiler_is_told_with_its_package(monkeypatch):
    guests.build.cache_clear()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InputError, match="apt install gcc-arm-none-eabi make"):
        guests.image("microkernel-armv4")


@pytest.mark.parametrize("name", ["linux", "microkernel-armv9", "timing-"])
def test_an_unknown_guest_is_told(name):
    with pytest.raises(InputError, match="no such guest"):
        guests.image(name)


def test_a_second_process_waits_while_the_first_builds(tmp_path):
    entered = threading.Event()

    def build_too() -> None:
        with files.in_turn(tmp_path):
            entered.set()

    second = threading.Thread(target=build_too)
    with files.in_turn(tmp_path):
        second.start()
        assert not entered.wait(0.3)
    assert entered.wait(60)
    second.join()
