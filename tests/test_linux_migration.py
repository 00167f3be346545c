"""Linux whose tasks take TLB entries to another core, where it is built."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mmulab
from mmulab.papers import tlb_migration_linux as linux

FOLDER = Path(__file__).resolve().parents[1] / "guests" / "linux" / "tlb_migration"
SOURCE = Path(__file__).resolve().parents[1] / "build" / "linux" / "source"
GEM5, CORTEX_A7 = linux.MACHINES


def boot(mode, command, machine=GEM5, **options):
    if not linux.is_built():
        pytest.skip("make linux-migration first")
    result = linux.boot(mmulab.Machine.load(machine), mode, command, **options)
    assert result.exit == 0, result.console[-500:]
    return result


def counts(console: str) -> dict[str, int]:
    """What /proc/tlb_migration tells."""
    return {name: int(value) for name, value in linux.COUNT.findall(console)}


@pytest.mark.skipif(not (SOURCE / ".unpacked").exists(), reason="make linux first")
def test_the_series_applies_to_the_source(tmp_path):
    patches = sorted((FOLDER / "patches").glob("*.patch"))
    names = [
        name
        for patch in patches
        for name in re.findall(r"^\+\+\+ b/(.+)$", patch.read_text(), re.M)
    ]
    assert len(names) == len(set(names))
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(SOURCE / name, tmp_path / name)
    shutil.copytree(FOLDER / "arch", tmp_path / "arch", dirs_exist_ok=True)
    for patch in [*patches, FOLDER / "leave-out.patch"]:
        words = ["patch", "--strip=1", "--fuzz=0", "--input", patch]
        subprocess.run(words, cwd=tmp_path, check=True)
    header = (tmp_path / "arch/arm/include/asm/tlb_migration.h").read_text()
    script = [sys.executable, FOLDER.parent / "leave_out_migration.py", "--list"]
    listed = subprocess.run(script, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert sorted(re.findall(r"^\tX\((\w+)\)", header, re.M)) == sorted(listed.split())


@pytest.mark.parametrize("machine", linux.MACHINES)
def test_what_was_read_on_one_core_misses_on_no_other(machine):
    """Eight runs on four cores: without migration each core's first misses the TLB."""
    pattern = {
        mode: linux.validation(boot(mode, "hop validate 5", machine).console)
        for mode in linux.MODES
    }
    missing = {
        mode: [cycles > 1.2 * min(values) for cycles in values] for mode, values in pattern.items()
    }
    assert missing["off"] == [True] * 4 + [False] * 4, pattern
    for mode in ("thesis", "safe", "transfer"):
        assert missing[mode] == [True] + [False] * 7, pattern


@pytest.mark.parametrize("mode", ["safe", "transfer tlb_migration_account=1"])
def test_one_migration_can_be_made_to_bring_no_entries(mode):
    def brought(number):
        command = f"echo skip {number} > /proc/tlb_migration_test && hop validate 5"
        found = counts(boot(mode, f"{command} && cat /proc/tlb_migration").console)
        return found["restored"] + found["transfers"]

    assert brought(0) == brought(1000) == brought(4) + 1


def test_a_restored_entry_that_outlived_its_mapping_reads_another_process():
    result = boot("thesis", "wander stale", check=True)
    assert re.search(r"wander: stale: read 0x5ec2e7.., which another process wrote", result.console)
    assert [report["kind"] for report in result.reports] == ["stale-tlb-entry"]


def test_an_identifier_that_was_given_out_again_reads_another_process():
    result = boot("thesis", "wander rollover saved", check=True)
    assert re.search(
        r"wander: rollover: read 0x5ec2e7.., which another process wrote", result.console
    )
    assert {report["kind"] for report in result.reports} == {"stale-tlb-entry"}


@pytest.mark.parametrize("when", ["saved", "restored"])
def test_no_identifier_that_was_given_out_again_is_saved_or_restored(when):
    result = boot("safe", f"wander rollover {when} && cat /proc/tlb_migration", check=True)
    assert "wander: rollover: the pages are not there" in result.console
    found = counts(result.console)
    assert (found["not_its_own"] > 0) == (when == "saved") and found["restored"] > 0, found
    assert result.reports == []


def test_no_identifier_that_was_given_out_again_is_taken_over():
    command = "wander rollover saved && wander rollover restored && cat /proc/tlb_migration"
    result = boot("transfer tlb_migration_account=1", command, check=True)
    assert result.console.count("wander: rollover: the pages are not there") == 2
    assert counts(result.console)["entries_taken_over"] > 0, result.console
    assert result.reports == []


def test_entries_of_an_identifier_that_was_given_out_again_are_not_taken_over():
    result = boot("transfer", "wander rollover taken", check=True)
    assert "wander: rollover: the pages are not there" in result.console
    assert result.reports == []


def test_no_entry_outlives_its_mapping_where_they_expire():
    result = boot("safe", "wander stale && cat /proc/tlb_migration", check=True)
    assert "wander: stale: the page is gone" in result.console
    assert counts(result.console)["expired"] > 0
    assert result.reports == []


def test_no_entry_that_is_taken_over_outlives_its_mapping():
    command = (
        "wander stale && wander stress 2 60 && wander forks 300 && hackbench -T -g 1 -l 10 && "
        "cat /proc/tlb_migration"
    )
    result = boot("transfer tlb_migration_account=1", command, check=True)
    assert "wander: stale: the page is gone" in result.console
    assert "wander: forks: all was as it was stored" in result.console
    assert "2 processes of 4 threads, 60 rounds each, 0 failed" in result.console
    found = counts(result.console)
    assert found["transfers"] > 100 and found["entries_taken_over"] > 100, found
    assert result.reports == []


@pytest.mark.parametrize(
    "options", ["", " tlb_migration_used=1 tlb_migration_threads=1", " tlb_migration_used=3"]
)
def test_threads_that_wander_while_their_memory_changes_use_nothing_stale(options):
    command = (
        "wander stress 2 60 && wander forks 300 && hackbench -T -g 1 -l 10 && "
        "cat /proc/tlb_migration"
    )
    result = boot(f"safe{options}", command, check=True)
    assert "wander: forks: all was as it was stored" in result.console
    assert "2 processes of 4 threads, 60 rounds each, 0 failed" in result.console
    found = counts(result.console)
    assert found["restored"] > 100 and found["expired"] > 10, found
    assert ("threads=1" in options) == (found["threads_started"] > 0), found
    assert result.reports == []


def test_a_window_of_ticks_leaves_behind_what_a_program_used_only_at_its_beginning():
    """Forty-eight pages at first, twelve for two ticks; a few more are the program's own."""
    moved = {}
    for used in range(4):
        mode = f"safe tlb_migration_used={used}"
        console = boot(mode, linux.with_counts(["hop phases 4 48 12"])).console
        (found,) = linux.counts_of_each(console)
        moved[used] = found["words_restored"] / linux.WORDS_AN_ENTRY / found["restored"]
    assert moved[0] > 48 and moved[1] > 48, moved
    assert 12 <= moved[2] < 24 and 12 <= moved[3] < 24, moved


def test_a_core_without_the_interface_says_so_and_goes_on():
    result = boot("safe", "cat /proc/tlb_migration", coprocessor="cortex-a7")
    assert "TLB migration: this core has no interface for it" in result.console
    assert not any(counts(result.console).values())
