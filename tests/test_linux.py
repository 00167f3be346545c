"""Linux with address spaces that keep their cache lines over a switch, where it is built."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, script

FOLDER = ROOT / "guests" / "linux"
BUILT = ROOT / "build" / "linux"
linux = script("guests/linux/run.py")
FLUSHING_LESS = [scheme for scheme in linux.SCHEMES if scheme != "off"]


def test_a_guest_on_qemu_gives_its_status_and_qemu_its_own(capsys):
    for console, status in [("mmulab: exit status 0", 0), ("mmulab: exit status 3", 3), ("", 1)]:
        with pytest.raises(SystemExit) as ended:
            linux.tell_of_qemu(console, "1.0 s")
        assert ended.value.code == status
    assert linux.oracle.finished(["sh", "-c", "echo a warning >&2"], 60, "a guest").stdout == b""
    for command, said in [
        ("printf 'so\nno such machine\n' >&2; exit 1", "QEMU: no such machine"),
        ("exec sleep 60", "QEMU's guest has not ended after 0.1 s: a guest"),
    ]:
        with pytest.raises(SystemExit, match=said):
            linux.oracle.finished(
                ["sh", "-c", command], 0.1 if "sleep" in command else 60, "a guest"
            )


@pytest.mark.parametrize(
    ("line", "is_refused"),
    [
        ('Unknown kernel command line parameters "tlb_migration_foo=3", will be passed', True),
        ("Malformed early option 'tlb_migration_threads'", True),
        ("TLB migration: 1 to 256 entries, not 1000", True),
        ("TLB migration: safe, at most 64 entries", False),
    ],
)
def test_a_parameter_that_the_kernel_refuses_is_seen(line, is_refused):
    assert bool(linux.REFUSED_PARAMETERS.search(f"[    0.000000] {line}\n")) == is_refused


def need(machine: str) -> None:
    """Skips the test where the machine's kernel is not built."""
    if not (BUILT / linux.WITH_SPACES[machine] / "Image").exists():
        pytest.skip("make linux-spaces first")


def test_the_pages_first_example_is_what_it_prints():
    need("arm926ej-s")
    console = linux.ours("arm926ej-s", "lat ctx 0 2 8 24", spaces="fass").console
    if not re.search(r"Linux version 6\.12\.117.*\(Debian 12\.2\.0-14", console):
        pytest.skip("another kernel or compiler than the page's")
    said = re.findall(r"^lat ctx .*", console, re.M)
    page = (ROOT / "docs" / "linux-address-spaces.md").read_text()
    assert len(said) == 3 and "".join(f"    {line.strip()}\n" for line in said) in page


def microseconds(console: str) -> dict[str, float]:
    """The results of `lat`, by their names."""
    return {
        name: float(time) for name, time in re.findall(r"^lat (.+?): ([\d.-]+) us", console, re.M)
    }


@pytest.mark.parametrize("scheme", linux.SCHEMES)
def test_nothing_is_stale_nobody_is_reached_and_the_console_is_that_of_qemu(scheme):
    need("arm926ej-s")
    command = "meet && stress 4 20 2 && attack 4"
    result = linux.ours("arm926ej-s", command, spaces=scheme, check=True)
    assert result.exit == 0, result.console[-500:]
    assert "meet: 16 parts, 0 failed" in result.console
    assert "stress: 4 processes, 20 rounds each, 0 failed" in result.console
    assert [report["text"] for report in result.reports if not linux.is_tolerated(report)] == []
    there, _ = linux.qemu("arm926ej-s", command, spaces=scheme)
    assert linux.comparable(result.console) == linux.comparable(there)


@pytest.mark.parametrize("scheme", FLUSHING_LESS)
def test_nobody_is_reached_where_domains_change_hands(scheme):
    """16 victims are more than FASS has domains."""
    need("arm926ej-s")
    result = linux.ours("arm926ej-s", "attack 16", spaces=scheme, check=True)
    assert result.exit == 0, result.console[-500:]
    assert "attack: 16 victims" in result.console and " 0 succeeded" in result.console
    assert result.reports == []


@pytest.mark.parametrize(
    ("scheme", "identifiers"),
    [("fcse-guaranteed", 95), ("fcse-best-effort", 95), ("fass", 64), ("fass-shared", 64)],
)
def test_identifiers_leave_room_for_what_is_mapped_high(scheme, identifiers):
    """With FASS what is mapped above 2 GB is in no slot of an identifier: 64 of them reach so
    far."""
    need("arm926ej-s")
    console = linux.ours("arm926ej-s", spaces=scheme).console
    assert f"Address spaces: {scheme} with {identifiers} process identifiers" in console


def test_a_switch_is_cheaper_in_every_scheme():
    need("arm926ej-s")
    times = {
        scheme: microseconds(linux.ours("arm926ej-s", "lat ctx 0 2 16", spaces=scheme).console)
        for scheme in linux.SCHEMES
    }
    for scheme in FLUSHING_LESS:
        assert times[scheme]["ctx 0 KB 2 processes"] < times["off"]["ctx 0 KB 2 processes"] / 2
        assert times[scheme]["ctx 0 KB 16 processes"] < times["off"]["ctx 0 KB 16 processes"] / 1.5


def test_fork_and_exit_spare_the_instruction_cache():
    """Of 101 forks `off` invalidates it at four places: fork, exit and a switch after each."""
    need("arm926ej-s")
    flushes = {
        scheme: linux.ours("arm926ej-s", "lat fork", spaces=scheme).data["events"]["icache_flushes"]
        for scheme in ("off", "fcse-guaranteed", "fass")
    }
    assert flushes["off"] > 400
    assert flushes["fcse-guaranteed"] < flushes["off"] - 350
    assert flushes["fass"] < flushes["off"] - 350


def test_what_is_shared_misses_the_tlb_less():
    """400 visits to 20 pages, which two processes have in common or not."""
    need("sa1100")
    missed = {
        scheme: linux.ours("sa1100", "lat extreme shared 2 20", spaces=scheme).data["events"]
        for scheme in ("fass", "fass-shared")
    }
    assert missed["fass-shared"]["dtlb_misses"] < missed["fass"]["dtlb_misses"] - 3_000


def test_what_processes_map_alike_is_at_one_address_where_it_is_shared():
    """Files of tmpfs and segments too, whose mappings do not say where they go whether they may be
    written."""
    need("arm926ej-s")
    places = {
        scheme: dict(
            re.findall(
                r"^shares: (.+): (\d+)",
                linux.ours("arm926ej-s", "shares places", spaces=scheme).console,
                re.M,
            )
        )
        for scheme in ("fass", "fass-shared")
    }
    assert places["fass-shared"] == {
        "a file that all write": "1",
        "a file that all may write and read": "1",
        "a file that two write and two read": "2",
        "a segment that all write": "1",
    }
    assert set(places["fass"].values()) == {"4"}


@pytest.mark.parametrize("scheme", linux.SCHEMES)
def test_nothing_beside_what_is_shared_is_reached(scheme):
    need("arm926ej-s")
    result = linux.ours(
        "arm926ej-s",
        "shares",
        spaces=scheme,
        check=True,
        max_instructions=200_000_000,
    )
    assert result.exit == 0, result.console[-500:]
    assert "shares: 2 parts, 0 failed" in result.console
    assert [report["text"] for report in result.reports if not linux.is_tolerated(report)] == []


def test_the_random_part_of_where_mappings_begin_leaves_room_within_32_megabytes():
    need("arm926ej-s")
    command = "echo 9 > /proc/sys/vm/mmap_rnd_bits || cat /proc/sys/vm/mmap_rnd_bits"
    console = linux.ours("arm926ej-s", command, spaces="fass").console
    assert "Invalid argument" in console and re.search(r"^8\r?$", console, re.M)


def test_off_undoes_a_scheme_that_stands_before_it():
    need("arm926ej-s")
    lat = "lat ctx 0 2"
    off, undone = (
        linux.ours("arm926ej-s", lat, spaces=scheme)
        for scheme in ("off", "fass address_spaces=off")
    )
    assert "Address spaces: fass" in undone.console
    assert (
        microseconds(undone.console)["ctx 0 KB 2 processes"]
        > 0.9 * (microseconds(off.console)["ctx 0 KB 2 processes"])
    )


def test_guaranteed_fcse_refuses_the_96th_process_and_the_33rd_megabyte():
    need("arm926ej-s")
    result = linux.ours("arm926ej-s", "lat ctx 0 95; stress limits", spaces="fcse-guaranteed")
    assert "stress: a mapping at 64 MB: Out of memory" in result.console
    assert "fork: Resource temporarily unavailable" in result.console
    assert "stress: a mapping of 40 MB: Out of memory" in result.console


def test_guaranteed_fcse_refuses_a_program_that_is_linked_above_32_megabytes():
    """As Linux does with any program whose segments cannot be where they are to be: exec has no way
    back."""
    need("arm926ej-s")
    command = "lat-text-high null; echo status $?"
    status = {}
    for scheme in linux.SCHEMES:
        console = linux.ours("arm926ej-s", command, spaces=scheme).console
        status[scheme] = int(re.findall(r"^status (\d+)", console, re.M)[0])
    killed_by_sigsegv = 139
    assert status.pop("fcse-guaranteed") == killed_by_sigsegv
    assert set(status.values()) == {0}


HOLES = {
    "other_domains": "another's memory",
    "kernel_as_client": "the kernel's memory",
}
"""What FASS does for isolation, and what `attack` reaches without it."""


@pytest.mark.parametrize("left_out", ["nothing", *HOLES])
@pytest.mark.parametrize("where", ["ours", "qemu"])
def test_the_attack_succeeds_where_isolation_is_left_out_and_only_there(where, left_out):
    kernel = "kernel-spaces-test"
    if not (BUILT / kernel / "Image").exists():
        pytest.skip("make linux-spaces-test first")
    options = {
        "spaces": "fass",
        "kernel_folder": kernel,
        "extra": f"address_spaces_without={left_out}",
    }
    if where == "ours":
        result = linux.ours("arm926ej-s", "attack 4", max_instructions=300_000_000, **options)
        console = result.console
    else:
        try:
            console, _ = linux.qemu("arm926ej-s", "attack 4", timeout=60, **options)
        except SystemExit as late:  # a kernel that was written to may not end
            assert isinstance(late.__cause__, subprocess.TimeoutExpired), late
            console = (late.__cause__.stdout or b"").decode(errors="replace")
    reached = re.findall(r"^attack: read of (.+?) at ", console.replace("\r", ""), re.M)
    if left_out == "nothing":
        assert ", 0 succeeded" in console and not reached, console[-500:]
    else:
        assert HOLES[left_out] in reached, console[-500:]


@pytest.mark.skipif(not (BUILT / "source" / ".unpacked").exists(), reason="make linux first")
def test_the_series_applies_to_the_source(tmp_path):
    patches = sorted((FOLDER / "address_spaces" / "patches").glob("*.patch"))
    names = {
        name
        for patch in patches
        for name in re.findall(r"^\+\+\+ b/(.+)$", patch.read_text(), re.M)
    }
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((BUILT / "source" / name).read_bytes())
    for patch in patches:
        apply(patch, tmp_path)
    shutil.copytree(FOLDER / "address_spaces" / "arch", tmp_path / "arch", dirs_exist_ok=True)
    apply(FOLDER / "address_spaces" / "leave-out.patch", tmp_path)
    header = (tmp_path / "arch/arm/include/asm/address_spaces.h").read_text()
    names = re.findall(r"^\tX\((\w+)\)", header, re.M)
    listed = subprocess.run(
        [sys.executable, FOLDER / "leave_out.py", "--list"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert sorted(names) == sorted(listed.stdout.split())


def apply(patch: Path, tree: Path) -> None:
    with patch.open() as text:
        subprocess.run(["patch", "--strip=1", "--fuzz=0"], cwd=tree, stdin=text, check=True)


def need_smp() -> None:
    """Skips the test where the kernel for several cores is not built."""
    if not (BUILT / linux.KERNEL[linux.SMP] / "Image").exists():
        pytest.skip("make linux-smp first")


def test_linux_on_one_cortex_a7_prints_what_it_prints_on_qemu():
    need_smp()
    settings = {"cores": 1, "board.timer_hz": linux.QEMU_TIMER_HZ}
    here = linux.ours(linux.SMP, "uname -a", settings=settings)
    there, _ = linux.qemu(linux.SMP, "uname -a", cores=1)
    assert linux.comparable(here.console) == linux.comparable(there)


@pytest.mark.parametrize("command", ["hackbench -p -g 1 -l 10", "hackbench -T -g 1 -l 10"])
def test_linux_on_four_cortex_a7_uses_nothing_stale(command):
    need_smp()
    result = linux.ours(linux.SMP, command, check=True)
    assert result.exit == 0, result.console[-500:]
    assert "SMP: Total of 4 processors activated" in result.console
    assert [report["text"] for report in result.reports if not linux.is_tolerated(report)] == []
