"""The frame that all reproductions share."""

import pytest
from rich.console import Console

from mmulab import Machine, papers, views
from mmulab.papers.guesses import over_guesses
from mmulab.papers.vm_study_1998 import machine_of
from mmulab.papers.vm_study_cells import (
    COLLISION_TABLE_START,
    KIB,
    PTE_BYTES,
    TABLE_START,
    Configuration,
)


def test_published_claims_are_read_in_order():
    claims = papers.published_claims("vm_study_1998")
    assert list(claims)[:2] == ["vm98-01", "vm98-02"]
    assert len(claims) == 23
    assert claims["vm98-21"].expectation == "1.25 expected; just over 1.3 for gcc"


@pytest.mark.parametrize("paper", papers.PAPERS.values())
def test_every_claim_has_a_rule_and_its_reason(paper):
    for claim in papers.published_claims(paper.rpartition(".")[2]).values():
        assert len(claim.rule) > 20 and len(claim.reason) > 20, claim.id


def test_published_tables_are_read():
    costs = papers.published_table("vm_study_1998", "table2_table3_costs")
    assert {"component": "MCPI", "tag": "L2d-miss", "cycles": "500"}.items() <= costs[3].items()


def test_a_difference_needs_an_explanation():
    claim = papers.published_claims("vm_study_1998")["vm98-21"]
    with pytest.raises(ValueError, match="vm98-21 differs and needs an explanation"):
        papers.Reproduction("vm_study_1998", "", [claim.judge(False, "1.9")])
    judged = claim.judge(True, "1.28")
    assert judged.as_dict()["verdict"] == "holds"
    fields = ["id", "paper", "verdict", "published", "rule", "reason", "ours", "why", "guesses"]
    assert list(judged.as_dict()) == fields


def test_long_claims_are_paragraphs_as_wide_as_the_terminal():
    told = {"ours": "fast " * 99 + "end", "why": "since " * 199 + "end", "guesses": "no other"}
    row = {"id": "fass03-01", "verdict": "differs", "published": "slow", **told}
    console = Console(width=80)
    with console.capture() as captured:
        console.print(views.claims([row, {**row, "id": "fass03-02", "guesses": ""}]))
    first, second = captured.get().split("\n\n")[:2]
    assert first.startswith("fass03-01  differs\n  published: slow")
    assert "guesses" in first and "guesses" not in second
    text = " ".join(first.split())
    assert all(f"{name}: {words}" in text for name, words in told.items())
    assert len(first.splitlines()) < len(text) / 75 + 5, first


def test_a_claim_tells_which_other_values_of_guesses_change_its_verdict():
    claim, other = list(papers.published_claims("fass_2003").values())[:2]
    run = papers.Run(guesses=True)

    def judge(changed):
        slow = changed.machine("sa1100").get("timing.exception_cycles") == 4
        return [claim.judge(not slow, "slow" if slow else "fast")]

    [told, untold], table = over_guesses(
        run, ["sa1100"], [*judge(run), other.judge(True, "elsewhere")], judge
    )
    alternatives = Machine.load("sa1100").alternatives()
    assert table.num_rows == len(alternatives) > 1
    assert told.guesses == (
        f"another verdict with 1 of {len(alternatives)} other values: "
        "differs with sa1100 timing.exception_cycles=4 (slow)"
    )
    assert untold.guesses == "not judged with other values"


def test_the_inverted_table_of_the_study_stands_where_the_guess_has_it():
    machine = Machine.load("pa-risc")
    moved = machine.alternatives()[0]
    assert moved.get(TABLE_START) != machine.get(TABLE_START)
    configuration = Configuration("pa-risc", 32 * KIB, 2048 * KIB, 64, 128)
    changes = configuration.changes(4096)
    for run in (papers.Run(), papers.Run(changed={"pa-risc": moved})):
        found = machine_of(configuration, changes, run)
        assert found.get(TABLE_START) == run.machine("pa-risc").get(TABLE_START)
        assert found.get(COLLISION_TABLE_START) == found.get(TABLE_START) + 4096 * PTE_BYTES


def test_an_unknown_paper_is_refused():
    with pytest.raises(
        ValueError,
        match="unknown paper 'x'; known: vm-study-1998, fass-2003, fcse-2009, tlb-migration-2018",
    ):
        papers.reproduce("x")
