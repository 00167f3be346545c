"""Programs on one and four Cortex-A7 do what they do on QEMU, and the checker finds what they leave
out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT, script
from conftest import mmulab as command

ROWS = {"address space": 1, "mode": 2}  # of a timeline, by thread number
multicore = script("guests/multicore/run.py")


@pytest.mark.parametrize("cores", multicore.CORES)
def test_cores_count_together_as_on_qemu(cores: int) -> None:
    assert multicore.compare_counter(cores) is None


@pytest.mark.parametrize("name, cores", [("counter", 4), ("off", 2)])
def test_the_time_of_cores_that_are_off_is_told_apart(
    name: str, cores: int, tmp_path: Path
) -> None:
    image, timeline = multicore.build(name, f"{name}.c"), tmp_path / "timeline.json"
    run = multicore.mmulab.boot(
        image, multicore.machine(cores), timeline=timeline, max_instructions=multicore.LIMIT
    )
    assert run.exit == 0
    causes = {name: cause["cycles"] for name, cause in run.data["causes"].items()}
    on = sum(causes.values()) - causes["off"]
    assert causes["off"] > 0.5 * on
    assert sum(mode["cycles"] for mode in run.data["modes"]) == on
    assert sum(space["cycles"] for space in run.data["spaces"]) == on
    slices = [
        event for event in json.loads(timeline.read_text())["traceEvents"] if event["ph"] == "X"
    ]
    for row in ("address space", "mode"):
        drawn = [event for event in slices if event["tid"] == ROWS[row]]
        assert sum(event["args"]["cycles"] for event in drawn) == on


def test_the_table_has_every_program_that_leaves_something_out() -> None:
    readme = (ROOT / "guests" / "multicore" / "README.md").read_text()
    assert [bug.name for bug in multicore.BUGS if f"`{bug.name}`" not in readme] == []


def test_use_of_an_old_entry_before_its_invalidation_is_permitted_and_counted() -> None:
    image = multicore.build("page_reused-correct", "bugs/page_reused.c", ["-DCORRECT"])
    run = multicore.mmulab.boot(
        image, multicore.machine(2), check=True, max_instructions=multicore.LIMIT
    )
    assert run.reports == []
    (permitted,) = run.data["checker"]["permitted"]
    assert permitted["uses"] == 1
    assert multicore.oracle.named(permitted["since_location"], "set_entry")


def test_the_checker_changes_no_cycle_of_preloads() -> None:
    image = multicore.build("preload", "preload.c")
    runs = [
        multicore.mmulab.boot(
            image, multicore.machine(1), check=check, max_instructions=multicore.LIMIT
        )
        for check in (False, True)
    ]
    assert runs[0].exit == 0
    # Each line is waited for, though it is found again while it is on its way.
    lines = 256
    fill = multicore.machine(1).get("memory.line_fill_cycles")
    assert runs[0].data["causes"]["dcache-miss"]["cycles"] > 0.8 * lines * fill
    assert [runs[0].cycles, runs[0].data["causes"]] == [runs[1].cycles, runs[1].data["causes"]]


def test_a_vector_that_is_mapped_by_a_line_in_the_cache_is_no_empty_vector() -> None:
    """Memory has the descriptor of a page of zeros there."""
    image = multicore.build("vectors", "vectors.c")
    run = multicore.mmulab.boot(image, multicore.machine(1), max_instructions=multicore.LIMIT)
    assert (run.exit, run.console.strip()) == (0, "1"), run.end


def test_program_measures_what_the_machine_file_says() -> None:
    measured = multicore.measure()
    machine = multicore.machine(1)
    level_2 = 100 * machine.get("level_2.latency_cycles")
    memory = level_2 + 100 * machine.get("memory.line_fill_cycles")
    reads = [measured["read"][size] for size in sorted(measured["read"])]
    assert reads == sorted(reads)
    # Far within the second level, less the first level's share, and with more pages than a micro
    # TLB has; far beyond it, with a walk for each read.
    refill = 100 * machine.get("micro_tlb.refill_cycles")
    assert 0.7 * (level_2 + refill) < measured["read"][256] < level_2 + refill
    walk = 2 * (100 * machine.get("coherence.walk_hit_cycles") + memory)
    assert memory < measured["read"][65536] < memory + walk
    # Of two reads at once the fills overlap, and the walks do not.
    two, one = measured["read_two"][65536], measured["read"][65536]
    assert memory + 2 * (one - memory) - refill < two < 1.5 * one
    # The micro TLB has eight pages and the loop's own, and not sixty-four. What a round costs
    # beside its pages is the same for any number of them.
    page = measured["page"]
    of_round = 64 * (page[32] - page[64])
    assert abs((page[64] - of_round / 64) - (page[8] - of_round / 8) - refill) < 20
    # Half of the TLB's entries fit, twice as many never do.
    assert measured["page_walks"][128] == 0 and measured["page_walks"][512] == 100
    # The TLB says that it has what was just touched.
    assert measured["tlb_valid"] == {64: 64}
    # A turn of the loop over the TLB takes the same time, whatever the number of turns.
    of_loop = measured["tlb_read"]
    assert of_loop[256] - of_loop[64] == 4 * (of_loop[64] - of_loop[16])
    # Two preloads are on their way at a time, so that each takes half of a line fill: not a third,
    # nor all.
    each = (measured["preload"][64] - measured["preload"][32]) / 32
    assert 0.4 < 100 * each / memory < 0.7
    # Of lines one after the other two are on their way, and as many more as the prefetcher may ask
    # for; a store waits for its line in the store buffer, which has room for few.
    lines = machine.get("buffers.store_lines")
    for prefetches in range(4):
        fills = machine.get("buffers.outstanding_misses") + prefetches
        for name, most in (("next_read", fills), ("next_written", min(fills, lines))):
            assert 0.95 < measured[name][prefetches] * most / memory < 1.1, name


def test_gem5s_system_has_64_entries_and_walks_past_the_first_level() -> None:
    measured = multicore.measure("gem5-vexpress")
    level_2 = 100 * multicore.machine(1, "gem5-vexpress").get("level_2.latency_cycles")
    assert measured["page_walks"][32] == 0 and measured["page_walks"][128] == 100
    # Two descriptors from the second level, although the first has room for all of them. The loops'
    # own share of a page depends a little on the number of pages.
    walk = measured["page"][128] - measured["page"][32]
    assert abs(walk - 2 * level_2) < 50


@pytest.mark.parametrize("bug", multicore.BUGS, ids=[bug.name for bug in multicore.BUGS])
def test_bug_is_reported_and_its_twin_is_not(bug) -> None:
    assert multicore.judge(bug) is None


@pytest.mark.parametrize("seed", multicore.SEEDS)
def test_a_kernel_of_random_steps_that_leaves_nothing_out_is_not_reported(seed: int) -> None:
    assert multicore.judge_random(seed) is None


@pytest.mark.parametrize(
    "left_out", multicore.LEFT_OUT, ids=[one.name for one in multicore.LEFT_OUT]
)
def test_what_the_kernel_of_random_steps_leaves_out_is_reported(left_out) -> None:
    assert multicore.judge_left_out(left_out) is None


def test_a_result_in_a_file_does_not_hide_that_the_checker_reports(tmp_path) -> None:
    image = multicore.build("break_before_make", "bugs/break_before_make.c")
    finished = command("boot", image, "-m", "cortex-a7", "--check", "-o", tmp_path / "b.json")
    assert finished.status == 1
    assert f"the checker reports 1: see {tmp_path / 'b.json'}" in finished.errors
    in_table = command("boot", image, "-m", "cortex-a7", "--check", "--format", "table")
    assert "1. break-before-make: store of " in in_table.output
    in_csv = command("boot", image, "-m", "cortex-a7", "--check", "-o", tmp_path / "b.csv")
    assert in_csv.status == 1
    assert "the checker reports 1, which csv does not hold; --format json does" in in_csv.errors


def test_a_core_that_is_alone_is_told_of_its_own_maintenance() -> None:
    """Nobody watches for messages then; what the core itself may not do yet is reported all the
    same."""
    image = multicore.build("dmb_after_invalidate", "bugs/dmb_after_invalidate.c")
    run = multicore.mmulab.boot(
        image, multicore.machine(1), check=True, max_instructions=multicore.LIMIT
    )
    assert [report["kind"] for report in run.reports] == ["missing-barrier"]


def test_a_change_of_what_a_report_does_not_describe_is_named() -> None:
    image = multicore.build("global_at_once", "bugs/global_at_once.c")
    run = multicore.mmulab.boot(
        image, multicore.machine(1), check=True, max_instructions=multicore.LIMIT
    )
    [report] = run.reports
    page = "4 KB of write-back write-allocate memory at physical 0x40200000"
    assert f"from {page}, of one space, attributes " in report["stale"]
    assert f" to {page}, global, attributes " in report["stale"]
