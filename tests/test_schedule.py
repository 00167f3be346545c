"""Several programs under one schedule, from the command line and from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import mmulab

import mmulab as api

SCHEDULE = ["--schedule", "round-robin"]


def test_two_programs_take_turns(trace: Path) -> None:
    [alone] = api.replay(trace, "x86-64", guesses=False)
    finished = mmulab("replay", trace, trace, *SCHEDULE, "--time-slice", "100000", "-m", "x86-64")
    assert finished.status == 0, finished.errors
    [both] = json.loads(finished.output)
    assert both["instructions"] == 2 * alone.instructions
    assert [one["instructions"] for one in both["programs"]] == [alone.instructions] * 2
    assert len({one["trace"] for one in both["programs"]}) == 2
    walks = both["causes"]["uhandler"]["count"]
    assert sum(one["walks"] for one in both["programs"]) == walks
    of_programs = sum(
        one["translation_cycles"] + one["page_fault_cycles"] + one["cache_cycles"]
        for one in both["programs"]
    )
    assert of_programs == both["cycles"] - both["causes"]["issue"]["cycles"]
    assert both["provenance"]["schedule"]["time_slice_instructions"] == 100_000


def test_a_switch_without_identifiers_costs_walks_and_shorter_turns_more(trace: Path) -> None:
    def walks(time_slice: int, address_spaces: int) -> int:
        machine = api.Machine.load("zen5").with_changes(
            {"organisation.address_spaces": address_spaces}
        )
        [row] = api.replay(
            [trace, trace, trace], machine, time_slice_instructions=time_slice, guesses=False
        )
        return row.cause_count("uhandler")

    tagged, flushed = walks(50_000, 6), walks(50_000, 1)
    assert tagged < flushed
    assert walks(50_000, 2) == flushed, "three programs in turn lose one of two identifiers each"
    assert walks(10_000, 1) > flushed
    # A turn that is longer than the programs is no turn: they follow each other.
    assert walks(10**9, 1) == walks(10**9, 6)


def test_a_program_by_itself_is_no_other_under_a_schedule(trace: Path) -> None:
    [alone] = api.replay(trace, "neoverse-n1", guesses=False)
    [under] = api.replay([trace], "neoverse-n1", time_slice_instructions=1000, guesses=False)
    for part in ("instructions", "cycles", "causes", "tlbs", "caches", "regions"):
        assert under.data[part] == alone.data[part], part
    assert "programs" not in alone.data and "schedule" not in alone.data["provenance"]


def test_results_name_the_schedule(trace: Path) -> None:
    results = [
        api.replay([trace, trace], "zen4", time_slice_instructions=slice_, guesses=False)[0]
        for slice_ in (10**6, 10**7)
    ]
    assert results[0].trace == "small.mmt + small.mmt (round-robin, 1000000 instructions)"
    digests = {result.data["provenance"]["trace"]["sha256"] for result in results}
    assert len(digests) == 2


def test_programs_on_cores_of_their_own_share_the_last_cache_alone(trace: Path) -> None:
    def walks(cores: int, *, one_queue: bool = False) -> int:
        [row] = api.replay(
            [trace, trace],
            "x86-64",
            time_slice_instructions=20_000,
            cores=cores,
            one_queue=one_queue,
            guesses=False,
        )
        return row.cause_count("uhandler")

    [alone] = api.replay(trace, "x86-64", guesses=False)
    assert walks(2) == 2 * alone.cause_count("uhandler"), "each has a core, and no one disturbs it"
    assert walks(1) >= walks(2)
    # With one queue and as many cores as programs each time slice may be on the other core.
    assert walks(2, one_queue=True) >= walks(2)


def test_cores_and_the_queue_are_named_by_results(trace: Path) -> None:
    arguments = ["replay", trace, trace, "--schedule", "one-queue", "--cores", "2", "-m", "zen5"]
    finished = mmulab(*arguments, "--no-guesses")
    assert finished.status == 0, finished.errors
    [row] = json.loads(finished.output)
    schedule = row["provenance"]["schedule"]
    assert (schedule["kind"], schedule["cores"]) == ("one-queue", 2)
    assert row["trace"].endswith("(one-queue, 10000000 instructions, 2 cores)")
    finished = mmulab(*arguments, "--no-guesses", "--set", "multicore.first_shared_level=1")
    assert finished.status == 2
    assert "multicore.first_shared_level: is not between 2 and 4" in finished.error_line


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--time-slice", "5"], "add --schedule"),
        (["--region", ""], "a region's name is empty"),
        (["--cores", "2"], "--cores is for programs that take turns; add --schedule"),
        ([*SCHEDULE, "--cores", "0"], "--cores"),
        ([*SCHEDULE, "-m", "ultrix"], "needs organisation radix, as x86-64 or zen5 have it"),
        ([*SCHEDULE, "-m", "sifive-u74"], "organisation.address_spaces: is missing"),
        ([*SCHEDULE, "-m", "zen5", "--region", "main"], "leave out the region, or the schedule"),
        ([*SCHEDULE, "-m", "zen5", "--time-slice", "0"], "--time-slice"),
    ],
)
def test_what_cannot_be_scheduled_is_said(trace: Path, arguments: list[str], expected: str) -> None:
    finished = mmulab("replay", trace, *arguments)
    assert finished.status == 2
    assert expected in finished.error_line


def test_the_api_wants_a_time_slice_for_several_traces(trace: Path) -> None:
    with pytest.raises(api.InputError, match="2 traces without a time slice"):
        api.replay([trace, trace], "zen5")
    with pytest.raises(api.InputError, match="1 to 128 programs"):
        api.replay([trace] * 129, "zen5", time_slice_instructions=1000)
