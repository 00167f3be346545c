"""What `make validate` concludes, of numbers that are known; the measurements themselves are the computer's."""

import dataclasses
import importlib
import re
import sys

import pytest
from conftest import ROOT

import mmulab

sys.path.insert(0, str(ROOT / "benches"))
validate = importlib.import_module("validate")

# Saves 30 ms of a second, as the prediction of 20 to 40 ms says.
GOOD = validate.Compared("good", 1.0, 0.030, 0.028, 0.032, exposed=0.040, hidden=0.020, faults=0.01)


@pytest.mark.parametrize(
    ("changes", "beyond_noise", "sign", "near"),
    [
        ({}, True, True, True),
        ({"saved_low": -0.001}, False, True, True),
        # A third of what was measured beyond an end, and a little more.
        ({"saved": 0.059}, True, True, True),
        ({"saved": 0.061}, True, True, False),
        ({"saved": 0.0151}, True, True, True),
        ({"saved": 0.0149}, True, True, False),
        # Slower by huge pages, which nobody said.
        ({"saved": -0.030, "saved_low": -0.032, "saved_high": -0.028}, True, False, False),
        ({"exposed": -0.040, "hidden": -0.020}, True, False, False),
        # The ends may lie on both sides of nothing.
        ({"hidden": -0.020}, True, True, True),
    ],
)
def test_a_prediction_is_judged_by_both_of_its_ends(changes, beyond_noise, sign, near):
    row = dataclasses.replace(GOOD, **changes)
    assert (row.is_beyond_noise, row.sign_is_right, row.is_near) == (beyond_noise, sign, near)


def test_only_what_exceeds_the_noise_is_counted():
    noisy = dataclasses.replace(GOOD, saved_low=-0.001, exposed=-1.0, hidden=-1.0)
    wrong = dataclasses.replace(GOOD, exposed=-1.0, hidden=-1.0)
    text = validate.table([GOOD, noisy, wrong])
    assert "| within the noise | no |" in text and "| wrong | no |" in text
    said = re.search(r"Beyond the noise (\d) of (\d): .* in (\d), within a third are (\d)", text)
    assert said.groups() == ("2", "3", "1", "1")


def test_what_is_predicted_is_the_difference_of_two_replays():
    trace = ROOT / "examples" / "small.mmt"
    costs = {
        "interrupts.small_page_fault_cycles": "5000",
        "interrupts.large_page_fault_cycles": "300000",
    }
    machine = mmulab.Machine.load("zen5").with_changes(costs)
    faults, second_level, walks = validate.predicted(trace, machine)
    small, huge = (
        mmulab.replay(trace, machine.with_changes({"organisation.pages": pages}), guesses=False)[0]
        for pages in ("4K", "on-fault")
    )
    saved = small.data["causes"]["small-page-fault"]["count"]
    saved -= huge.data["causes"]["small-page-fault"]["count"]
    blocks = huge.data["causes"]["large-page-fault"]["count"]
    assert faults == 5000 * saved - 300_000 * blocks
    # What is left is caches: a page of another size lies elsewhere.
    caches = sum(
        sign * row.data["causes"][f"{level}{side}-miss"]["cycles"]
        for sign, row in ((1, small), (-1, huge))
        for level in ("L1", "L2", "L3")
        for side in "id"
    )
    assert small.data["cycles"] - huge.data["cycles"] == faults + second_level + walks + caches


def test_each_program_is_there_and_an_unknown_one_is_refused(capsys, monkeypatch):
    assert len(validate.PROGRAMS) >= 12
    monkeypatch.setattr("sys.argv", ["validate.py", "sort", "no such"])
    with pytest.raises(SystemExit):
        validate.main()
    assert "no program 'no such'; there are 'sort'" in capsys.readouterr().err


def test_each_program_runs_here(tmp_path):
    validate.prepare(tmp_path, list(validate.PROGRAMS))


def test_a_program_that_fails_is_told_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setitem(validate.PROGRAMS, "broken", ["false"])
    with pytest.raises(SystemExit, match="false ended with status 1; nothing was compared"):
        validate.prepare(tmp_path, ["broken"])
