"""The checker reports each program that lacks a maintenance operation, and not its twin."""

from __future__ import annotations

import pytest
from conftest import script

import mmulab

mutants = script("guests/mutants/run.py")

CASES = [
    (mutant, machine)
    for mutant in mutants.MUTANTS
    for machine in mutant.machines
    if machine in mmulab.machine_names("system")
]


@pytest.mark.parametrize(
    ("mutant", "machine"), CASES, ids=[f"{mutant.name}-{machine}" for mutant, machine in CASES]
)
def test_mutant_is_reported_and_its_twin_is_not(mutant, machine: str) -> None:
    assert mutants.judge(mutant, machine) is None
