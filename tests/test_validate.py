"""What `make validate` concludes, of numbers that are known; the measurements themselves are the
computer's."""

import dataclasses
import re
import shutil

import pytest
from conftest import ROOT, script

import mmulab

validate = script("benches/validate.py")

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
    # Where nothing is measured, no sign is right either.
    lucky = dataclasses.replace(GOOD, saved_low=-0.001)
    assert "| right |" not in validate.table([lucky])
    said = re.search(r"Beyond the noise (\d) of (\d): .* in (\d), within a third are (\d)", text)
    assert said.groups() == ("2", "3", "1", "1")


def test_what_is_predicted_is_the_difference_of_two_replays():
    trace = ROOT / "examples" / "small.mmt"
    costs = {
        "interrupts.small_page_fault_cycles": "5000",
        "interrupts.large_page_fault_cycles": "300000",
    }
    machine = mmulab.Machine.load("zen5").with_changes(costs)
    said = validate.predicted(trace, machine)
    small, huge = (
        mmulab.replay(trace, machine.with_changes({"organisation.pages": pages}), guesses=False)[0]
        for pages in ("4K", "on-fault")
    )
    saved = small.data["causes"]["small-page-fault"]["count"]
    saved -= huge.data["causes"]["small-page-fault"]["count"]
    blocks = huge.data["causes"]["large-page-fault"]["count"]
    assert said.faults == 5000 * saved - 300_000 * blocks
    # What is left is caches: a page of another size lies elsewhere.
    caches = sum(
        sign * row.data["causes"][f"{level}{side}-miss"]["cycles"]
        for sign, row in ((1, small), (-1, huge))
        for level in ("L1", "L2", "L3")
        for side in "id"
    )
    assert (
        small.data["cycles"] - huge.data["cycles"]
        == said.faults + said.second_level + said.walks + caches
    )


def test_each_program_is_there_and_an_unknown_one_is_refused(capsys, monkeypatch):
    assert len(validate.PROGRAMS) >= 12
    monkeypatch.setattr("sys.argv", ["validate.py", "sort", "no such"])
    with pytest.raises(SystemExit):
        validate.main()
    assert "no program 'no such'; there are 'sort'" in capsys.readouterr().err


def test_a_machine_without_huge_pages_is_refused_before_anything_is_made(tmp_path):
    with pytest.raises(mmulab.InputError, match="--machine ultrix: it has no choice of huge pages"):
        validate.validate(["sort"], tmp_path / "made", "ultrix", 4)
    assert not list(tmp_path.iterdir())


def test_an_interrupted_comparison_goes_on_with_what_it_has_measured(tmp_path, monkeypatch):
    ran = []

    def interrupted_at(last):
        def measured(program, folder, runs):
            if program is validate.PROGRAMS[last]:
                raise KeyboardInterrupt
            ran.append(program)
            return validate.Measured([2.0, 2.5], [0.5, 0.25], {"walks": 7, "cycles": 9})

        return measured

    monkeypatch.setattr(validate, "measured", interrupted_at("xz"))
    with pytest.raises(KeyboardInterrupt):
        validate.all_measured(["sort", "shuf", "xz"], tmp_path, 4)
    monkeypatch.setattr(validate, "measured", interrupted_at("sort"))
    whole = validate.all_measured(["sort", "shuf", "xz"], tmp_path, 4)
    assert ran == [validate.PROGRAMS[name] for name in ("sort", "shuf", "xz")]
    assert whole["sort"] == validate.Measured([2.0, 2.5], [0.5, 0.25], {"walks": 7, "cycles": 9})
    with pytest.raises(KeyboardInterrupt):  # other conditions: measured again
        validate.all_measured(["sort", "shuf", "xz"], tmp_path, 5)
    monkeypatch.setattr(validate.os, "uname", lambda: ("another",))
    with pytest.raises(KeyboardInterrupt):
        validate.all_measured(["sort", "shuf", "xz"], tmp_path, 4)


def test_each_program_is_installed_and_its_files_are_made():
    made = {*validate.INPUTS, *validate.PREPARED, "object_store"}
    for program in validate.PROGRAMS.values():
        first, *rest = validate.command_of(program)
        assert shutil.which(first) or first.removeprefix("./") in made
        assert {word for word in rest if re.fullmatch(r"\w+\.(txt|xz|bz2|s|c)", word)} <= made


def test_huge_pages_come_from_the_c_library_or_from_wherever_they_fit():
    heap, blocks = validate.PROGRAMS["perl"], validate.PROGRAMS["shuf"]
    assert heap.policy == "madvise" and "hugetlb=1" in heap.variables()["GLIBC_TUNABLES"]
    assert blocks.policy == "always" and "GLIBC_TUNABLES" not in blocks.variables()


@pytest.mark.parametrize(
    ("flags", "walkers"),
    [
        ("AuthenticAMD\nflags : serialize ", 6),
        ("GenuineIntel\nflags : sse serialize tsxldtrk", 4),
        ("GenuineIntel\nflags : sse tsc", 2),
    ],
)
def test_walkers_are_those_of_the_processor(flags, walkers, monkeypatch):
    monkeypatch.setattr(validate.Path, "read_text", lambda _: flags)
    assert validate.walkers() == walkers


PERF = """#!/bin/sh
printf '%s' "{}" > counted.csv
"""
COUNTS = "".join(f"{100 * 2**n},,{name},1,100.00,,\n" for n, name in enumerate(validate.COUNTERS))


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (COUNTS, {"walks": 500, "cycles": 1000}),
        (COUNTS.replace("800,", "<not supported>,"), None),
        ("", None),
    ],
)
def test_counters_are_read_where_there_are_any(file, expected, tmp_path, monkeypatch):
    """Load walks 100, their cycles 200; store walks 400, their cycles 800."""
    (tmp_path / "perf").write_text(PERF.format(file))
    (tmp_path / "perf").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    counted = validate.counted(validate.Program(["true"]), tmp_path)
    assert counted == expected
    row = dataclasses.replace(GOOD, walks=600, walk_cycles=1200, counted=counted)
    said = validate.counters([row])
    assert ("count no TLB misses" in said) == (expected is None)
    assert ("| good | 0.00 |" in said) == (expected is not None)


def test_without_perf_nothing_is_counted(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert validate.counted(validate.Program(["/bin/true"]), tmp_path) is None


def test_a_program_that_fails_is_told_before_anything_is_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(validate, "INPUTS", {})
    monkeypatch.setattr(validate, "PREPARED", {})
    monkeypatch.setitem(validate.PROGRAMS, "broken", validate.Program(["false"]))
    with pytest.raises(SystemExit, match="false ended with status 1; nothing was compared"):
        validate.prepare(tmp_path, ["broken"])
