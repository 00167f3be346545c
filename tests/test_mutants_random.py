"""The checker beside a reference without caches, while a program does at random what makes copies
stale."""

from __future__ import annotations

import pytest
from conftest import script

run_random = script("guests/mutants/run_random.py")
Step = run_random.Step

LEFT_OUT = [(one, machine) for one in run_random.LEFT_OUT for machine in one.machines]

EQUAL = [Step(("1",), 0), Step(("2",), 0), Step(("3",), 0)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("maintenance", run_random.MAINTENANCE)
@pytest.mark.parametrize("machine", run_random.CORES)
def test_reports_agree_with_what_the_accesses_find(machine, maintenance, seed) -> None:
    assert run_random.judge(machine, maintenance, seed) is None


@pytest.mark.parametrize(
    ("left_out", "machine"), LEFT_OUT, ids=[f"{one.name}-{machine}" for one, machine in LEFT_OUT]
)
def test_what_right_maintenance_lacks_is_reported(left_out, machine) -> None:
    assert run_random.judge_left_out(left_out, machine) is None


def test_a_difference_that_no_report_announces_is_told() -> None:
    outcome = run_random.compare("sa1100", run_random.CARELESS, 0, check=False)
    assert outcome.wrong and outcome.wrong.endswith("without a report")


@pytest.mark.parametrize(
    ("maintenance", "kind", "wrong"),
    [
        ("careless", "stale-memory", None),
        ("tlb-right", "stale-memory", "step 1 is reported, and finds what it must: as it is"),
        ("tlb-right", "data-homonym", None),
        ("right", "data-homonym", "step 1 is reported: as it is"),
    ],
)
def test_a_report_before_the_difference_is_judged_by_the_maintenance(
    maintenance, kind, wrong
) -> None:
    steps = [Step(("1",), 0), Step(("2",), 1), Step(("4",), 1)]
    report = {"kind": kind, "text": "as it is"}
    outcome = run_random.judged(maintenance, EQUAL, steps, report)
    assert (outcome.difference, outcome.reported, outcome.wrong) == (2, 1, wrong)
