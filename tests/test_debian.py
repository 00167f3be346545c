"""Debian's own kernel and programs, where `make linux-debian` fetched them."""

from __future__ import annotations

import pytest
from conftest import script

import mmulab

debian = script("guests/linux/debian/run.py")
fetched = pytest.mark.skipif(not debian.is_built(), reason="make linux-debian first")

SUM = "create table t(a); insert into t values(3),(4); select sum(a) from t;"
HELLO = "int main(void) { return 7; }"


@fetched
def test_the_console_is_that_of_qemu() -> None:
    differences, lines = debian.compare("uname -a && cat /proc/cpuinfo")
    assert differences == []
    assert lines > 150


@fetched
def test_programs_have_the_modes_of_their_packages_whoever_unpacked_them() -> None:
    # The cpio format newc: a header of 13 numbers in hexadecimal, the name, the file, both padded
    # to words.
    modes = {}
    with (debian.BUILT / "debian.cpio").open("rb") as archive:
        while (header := archive.read(110))[:6] == b"070701":
            mode, size, name_size = (int(header[at : at + 8], 16) for at in (14, 54, 94))
            name = archive.read(name_size + -(110 + name_size) % 4).rstrip(b"\0").decode()
            archive.seek(size + -size % 4, 1)
            modes[name] = mode & 0o7777
    assert len(modes) > 1000
    assert [modes[name] for name in ("tmp", "usr/bin/su", "usr/bin/ls")] == [0o1777, 0o4755, 0o755]


class AtThePrompt(mmulab.Transcript):
    """Types when the guest asks: what comes before it listens is lost."""

    def read(self, wait_seconds):
        return super().read(wait_seconds) if b"# " in self.data else b""


@fetched
def test_without_a_command_busybox_alone_gives_a_shell() -> None:
    result = debian.ours(None, settings={"cores": 1}, console=AtThePrompt(b"exit 3\n"))
    assert result.exit == 3, result.console[-500:]


@fetched
def test_programs_run_on_four_cores() -> None:
    commands = [
        "nproc",
        "python3 -c 'print(2 ** 100)'",
        "perl -e 'print 6 * 7 . chr 10'",
        f"echo '{SUM}' | sqlite3",
        f"echo '{HELLO}' > a.c && gcc -o a a.c; ./a; echo $?",
    ]
    result = debian.ours("; ".join(commands), "programs")
    assert result.exit == 0, result.console[-500:]
    printed = result.console.replace("\r", "").split("\n")
    said = [line for line in printed if line and not line.startswith(("[", "mmulab"))]
    assert said == ["4", "1267650600228229401496703205376", "42", "7", "7"]


@fetched
@pytest.mark.skipif(
    not (debian.linux.BUILT / debian.linux.KERNEL[debian.MACHINE] / "Image").exists(),
    reason="make linux-smp first",
)
def test_our_kernel_runs_debians_programs_and_the_checker_is_silent() -> None:
    result = debian.ours("uname -rm", own_kernel=True, check=True)
    assert result.exit == 0, result.console[-500:]
    assert "6.12." in result.console and "-mmulab armv7l" in result.console
    assert result.reports == []


def test_a_report_is_known_by_its_functions() -> None:
    report = {
        "kind": "stale-instruction",
        "pc_location": "0xc031d314 (pte_offset_late_fixmap+0x4)",
        "since_location": "0xc0d3ab50 (__patch_text_real+0xb0)",
        "stale": "older than what was stored through 0xffe7e314, which is in the dirty line 0x4031d300",
    }
    assert debian.is_known(report)
    assert not debian.is_known(report | {"kind": "stale-data-line"})
    assert not debian.is_known(report | {"since_location": "0xc0d3ab50"})
    assert not debian.is_known(report | {"since_location": ""})
