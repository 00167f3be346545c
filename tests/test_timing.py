"""Timings that a guest measures stay near what the papers and manuals say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import VERSATILEPB, script

import mmulab

timing = script("guests/timing/run.py")


@pytest.fixture(scope="module")
def strongarm() -> dict[str, float]:
    return {name: cycles / count for name, (cycles, count) in timing.measure("sa1100").items()}


@pytest.mark.parametrize(
    ("name", "published", "tolerance"),
    [
        ("line-miss", 70, 0.05),
        ("tlb-miss", 45, 0.05),
        ("whole-clean-of-clean-cache", 1_000, 0.25),
        ("whole-clean-of-dirty-cache", 18_000, 0.05),
        ("flush-of-everything-with-what-follows", 75_000, 0.05),
    ],
)
def test_strongarm_costs_what_the_paper_says(
    strongarm: dict[str, float], name: str, published: float, tolerance: float
) -> None:
    assert strongarm[name] == pytest.approx(published, rel=tolerance)


@pytest.mark.parametrize(
    ("machine", "name", "documented"),
    [
        # ARM9E-S TRM, chapter 8.
        ("arm926ej-s", "mov", 1),
        ("arm926ej-s", "add-shifted-by-register", 2),
        ("arm926ej-s", "ldr-then-use", 3),
        ("arm926ej-s", "ldrb-then-use", 4),
        ("arm926ej-s", "branch-taken", 3),
        ("arm926ej-s", "ldr-pc", 5),
        ("arm926ej-s", "muls", 4),
        ("arm926ej-s", "umull", 3),
        ("arm926ej-s", "smulbb", 1),
        # ARM9TDMI TRM: early termination, one cycle a byte.
        ("at91rm9200", "mul-by-small", 2),
        ("at91rm9200", "mul-by-large", 5),
        # IXP42X manual, 3.9.
        ("ixp425", "branch-taken", 1),
        ("ixp425", "ldr-pc", 8),
        ("ixp425", "ldm-4", 6),
        # SA-1100 manual, 1.4.
        ("sa1100", "branch-taken", 2),
        ("sa1100", "ldr-then-use", 3),
    ],
)
def test_instructions_take_what_the_manual_says(machine: str, name: str, documented: int) -> None:
    cycles, count = timing.measure(machine)[name]
    assert round(cycles / count, 1) == documented


@pytest.mark.parametrize("machine", VERSATILEPB)
def test_the_timeline_shows_what_the_guest_measured(machine: str, tmp_path: Path) -> None:
    timeline = tmp_path / "timeline.json"
    run = mmulab.boot(timing.program(machine), machine, timeline=timeline)
    lines = (line.split() for line in run.console.splitlines())
    measured = {name: int(cycles) for name, cycles, _ in lines}["whole-clean-of-dirty-cache"]
    events = json.loads(timeline.read_text())["traceEvents"]
    loops = [event["args"]["cycles"] for event in events if event["name"] == "line operations"]
    assert any(cycles == pytest.approx(measured, rel=0.03) for cycles in loops)


@pytest.mark.parametrize("machine", timing.MACHINES)
def test_a_dirty_victim_costs_its_write_back(machine: str) -> None:
    values = mmulab.Machine.load(machine)
    first, following = (
        int(values.get(f"memory.write_{words}_cycles")) for words in ("first", "next")
    )
    write_back = first + 7 * following
    measured = {name: cycles / count for name, (cycles, count) in timing.measure(machine).items()}
    # Some instructions of the loop run beside it.
    taken = measured["line-miss-with-dirty-victim"] - measured["line-miss"]
    assert write_back - 10 < taken <= write_back
