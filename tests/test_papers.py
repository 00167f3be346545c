"""The frame that all reproductions share."""

import pytest

from mmulab import papers


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
    with pytest.raises(ValueError, match="needs an explanation"):
        claim.judge(False, "1.9")
    judged = claim.judge(True, "1.28")
    assert judged.as_dict()["verdict"] == "holds"
    fields = ["id", "paper", "verdict", "published", "rule", "reason", "ours", "why"]
    assert list(judged.as_dict()) == fields


def test_an_unknown_paper_is_refused():
    with pytest.raises(
        ValueError, match="unknown paper 'x'; known: vm-study-1998, fass-2003, fcse-2009"
    ):
        papers.reproduce("x")
