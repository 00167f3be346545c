"""Our ARM machines and QEMU run the same random instructions to the same end."""

from __future__ import annotations

import random
import sys

import pytest
from conftest import ROOT, VERSATILEPB, script

sys.path.append(str(ROOT / "guests"))
sys.path.append(str(ROOT / "guests" / "conformance"))

import generate
import instructions
import oracle

run = script("guests/conformance/run.py")

CASES = 4000


@pytest.mark.parametrize("machine", [*VERSATILEPB, "armv7a"])
def test_random_sequences_end_alike(machine: str) -> None:
    if machine not in oracle.CPU:
        pytest.skip(f"QEMU has no processor like {machine}")
    compared = run.compare(machine, seed=1001, cases=CASES)
    assert compared.instructions > 10 * CASES
    assert compared.differences == []


@pytest.mark.parametrize("machine", VERSATILEPB)
def test_every_page_permission_domain_and_fault_is_as_on_qemu(machine: str) -> None:
    if machine not in oracle.CPU:
        pytest.skip(f"QEMU has no processor like {machine}")
    lines, different = run.compare_mmu(machine)
    assert lines > 1500
    assert different == []


def test_random_tables_of_armv7_mean_what_they_mean_on_qemu() -> None:
    lines, different, departures = run.compare_mmu_v7()
    assert lines == 10_000
    assert different == []
    # What QEMU checks in another order than the manual; the rest is equal to the bit.
    assert departures.total() < lines / 4


@pytest.mark.parametrize("machine", ["arm926ej-s", "sa1100"])
def test_timers_interrupt_controller_and_uart_do_what_qemus_do(machine: str) -> None:
    lines, different = run.compare_devices(machine)
    assert lines > 10_000
    assert different == []


def test_virt_devices_behave_as_on_qemu() -> None:
    """GIC, generic timers and firmware calls, by four cores."""
    lines, different = run.compare_virt("armv7a")
    assert lines > 7000
    assert different == []


@pytest.mark.parametrize("seed", [1001, 1002], ids=["alignment checked", "unaligned"])
def test_every_encoding_of_armv7_is_drawn(seed: int) -> None:
    """Each line of the tables, each size of exclusive access, and each new branch, many times."""
    source = run.generator("armv7a", seed)
    generate.blob(source, CASES)
    lines = [f"{state}.{name}" for state, rows in source.tables.items() for name, _ in rows]
    for state, groups in source.vectors.items():
        lines += [f"{state}.{name}" for rows in groups for name, _ in rows]
    assert len(set(lines)) > 300
    drawn = {name: source.made[name] for name in [*lines, "it", "exclusive.8", "exclusive.1"]}
    assert min(drawn.values()) >= 10, sorted(drawn.items(), key=lambda item: item[1])[:5]


def test_no_random_word_is_left_out_without_a_reason() -> None:
    """Over uniform words, each reason stays a small share: the masks do not hide the encodings."""
    draw = random.Random(1)
    words = [draw.getrandbits(28) | 0xE0000000 for _ in range(20_000)]
    reasons = [instructions.arm(word, instructions.V5TE)[1] for word in words]
    kept = reasons.count(None)
    # A branch or a write to the PC is not left out but made by template.
    templates = sum(
        reason in (instructions.WRITES_PC, instructions.CONTROL, instructions.DOUBLEWORD)
        for reason in reasons
    )
    assert (kept + templates) / len(words) > 0.6
