"""The claims on Linux of both papers, judged on made-up measurements: the paper right, or wrong in
one."""

from __future__ import annotations

from typing import Any

import pytest

from mmulab import papers
from mmulab.papers import fass_linux, fcse_linux
from mmulab.papers.linux import ring

Values = dict[tuple[str, str], float]


def rows(values: Values) -> list[dict[str, Any]]:
    return [
        {"machine": "made up", "scheme": scheme, "benchmark": name, "value": value, "unit": "us"}
        for (scheme, name), value in values.items()
    ]


def fass_is_right() -> Values:
    """What the FASS paper says, as measurements."""
    fast = {2: 2.0, 4: 3.0, 8: 20.0, 13: 28.5, 14: 45.0, 16: 60.0, 20: 65.0, 24: 66.0}
    values = {}
    for processes, time in fast.items():
        values["fass", ring(0, processes)] = time
        values["off", ring(0, processes)] = 114.0
    for processes, gain in {2: 0.0, 4: 0.1, 8: 0.23, 13: 0.2}.items():
        values["fass-shared", ring(0, processes)] = fast[processes] * (1 - gain)
    for size in (1, 4, 16):
        for processes in (2, 4):
            values["fass", ring(size, processes)] = 10.0 * size
            values["off", ring(size, processes)] = 10.0 * size + 112.0
    for row in papers.published_table("fass_2003", "table1_linux"):
        name = fass_linux.ROWS[row["benchmark"], row["variant"]]
        values["off", name] = float(row["original"])
        values["fass", name] = float(row["fast"])
    return values


def multiplied(values: Values, scheme: str, name: str, factors: list[float]) -> list[Values]:
    """Worlds in which one measurement is another."""
    return [{(scheme, name): values[scheme, name] * factor} for factor in factors]


FASS = fass_is_right()
FASS_WRONG: dict[str, list[Values]] = {
    "fass03-01": [
        {("fass", "pipe"): 50.0},
        {("fass", "fork"): 2000.0},
        {("fass", "bw_unix"): 30.0},
        # Each row alone, on either side.
        *(
            world
            for name in fass_linux.ROWS.values()
            for world in multiplied(FASS, "fass", name, [0.7, 1.4])
        ),
    ],
    "fass03-02": [{("fass", ring(0, 2)): 4.0}, {("fass", ring(0, 2)): 1.0}],
    "fass03-03": [{("fass", ring(0, 13)): 10.0}, {("off", ring(0, 13)): 60.0}],
    "fass03-04": [
        *({("fass", ring(0, processes)): 70.0} for processes in fass_linux.BEYOND),
        {("fass", ring(0, 16)): 30.0},
    ],
    "fass03-05": [
        {("off", ring(size, processes)): FASS["off", ring(size, processes)] + more}
        for size in fass_linux.KILOBYTES
        for processes in fass_linux.FEW
        for more in (-40.0, 40.0)
    ],
    "fass03-06": [
        *(
            world
            for processes in fass_linux.SHARERS
            for world in multiplied(FASS, "fass-shared", ring(0, processes), [0.6, 1.4])
        ),
        {("fass-shared", ring(0, 8)): 10.0},
        {("fass-shared", ring(0, 8)): 19.0, ("fass-shared", ring(0, 13)): 27.0},
    ],
}


def fass_claims(values: Values) -> dict[str, papers.Claim]:
    judged = fass_linux.judge(rows(values), papers.published_claims("fass_2003"))
    return {claim.id: claim for claim in judged}


def test_the_fass_paper_holds_on_linux_where_it_is_right():
    judged = fass_claims(fass_is_right())
    assert list(judged) == [f"fass03-0{number}" for number in range(1, 7)]
    for identifier, claim in judged.items():
        assert claim.verdict == "holds", (identifier, claim.ours)


@pytest.mark.parametrize(
    ("identifier", "changes"),
    [(identifier, changes) for identifier, worlds in FASS_WRONG.items() for changes in worlds],
)
def test_a_claim_of_the_fass_paper_differs_on_linux_where_it_is_false(identifier, changes):
    claim = fass_claims({**fass_is_right(), **changes})[identifier]
    assert claim.verdict == "differs", claim.ours
    assert claim.why


def fcse_is_right() -> Values:
    """What the FCSE paper says, as measurements."""
    values = {}
    for size in fcse_linux.KILOBYTES:
        for processes in fcse_linux.PROCESSES:
            values["off", ring(size, processes)] = 130.0 + size
            for scheme in ("fcse-guaranteed", "fcse-best-effort"):
                values[scheme, ring(size, processes)] = 10.0 + size + 5 * processes
    schemes = fcse_linux.SCHEMES
    for row in papers.published_table("fcse_2009", "table2_cyclictest"):
        for name, column in (("least", "min_us"), ("average", "avg_us"), ("most", "max_us")):
            values[schemes[row["kernel"]], f"cyclictest {name}"] = float(row[column])
    for row in papers.published_table("fcse_2009", "table3_packet_reply"):
        values[schemes[row["kernel"]], "reply average"] = float(row["avg_us"])
    for row in papers.published_table("fcse_2009", "table4_packet_period"):
        values[schemes[row["kernel"]], "period deviation"] = float(row["stddev_us"])
    return values | {
        ("fcse-best-effort", "period deviation"): 2.0,
        ("off", "storm"): 100.0,
        ("fcse-best-effort", "storm"): 52.0,
        ("off", "switches since boot"): 1e6,
    }


FCSE = fcse_is_right()
FCSE_POINTS = [ring(size, n) for size in fcse_linux.KILOBYTES for n in fcse_linux.PROCESSES]
MODES = ("fcse-guaranteed", "fcse-best-effort")
FCSE_WRONG: dict[str, list[Values]] = {
    "fcse09-01": [
        {("fcse-guaranteed", "cyclictest average"): 150.0},
        {("fcse-guaranteed", "cyclictest average"): 40.0},
        {("fcse-best-effort", "cyclictest average"): 90.0},
        {("fcse-best-effort", "cyclictest average"): 180.0},
    ],
    "fcse09-02": [
        *({("off", point): 99.0} for point in FCSE_POINTS),
        # The most processes take longer than the fewest, or the other way round.
        *(
            world
            for size in fcse_linux.KILOBYTES
            for processes in (2, 16)
            for world in multiplied(FCSE, "off", ring(size, processes), [1.4])
        ),
    ],
    "fcse09-03": [
        {("fcse-guaranteed", ring(16, 16)): 151.0, ("fcse-best-effort", ring(16, 16)): 151.0},
        {("fcse-best-effort", ring(1, 8)): 90.0},
        {("fcse-guaranteed", ring(0, 2)): 91.0, ("fcse-best-effort", ring(0, 2)): 91.0},
        # One mode alone, at each point: too slow, though near the other; apart from the other, on
        # either side; and with 2 processes slower than with 16.
        *(
            {(mode, point): 151.0, (other, point): 145.0}
            for mode, other in (MODES, MODES[::-1])
            for point in FCSE_POINTS
        ),
        *(
            world
            for point in FCSE_POINTS
            for world in multiplied(FCSE, "fcse-best-effort", point, [0.8, 1.2])
        ),
        *(
            {
                (mode, ring(size, 2)): FCSE[mode, ring(size, 16)] + 1,
                (other, ring(size, 2)): FCSE[other, ring(size, 16)] - 1,
            }
            for mode, other in (MODES, MODES[::-1])
            for size in fcse_linux.KILOBYTES
        ),
    ],
    "fcse09-04": [{("fcse-best-effort", "storm"): 90.0}, {("fcse-best-effort", "storm"): 30.0}],
    "fcse09-05": [
        # The reply comes too late and too soon.
        *(
            {(mode, "reply average"): FCSE["off", "reply average"] - sooner}
            for mode in MODES
            for sooner in (50.0, 110.0)
        ),
    ],
    "fcse09-06": [
        {("fcse-guaranteed", "period deviation"): 5.0},
        {("fcse-guaranteed", "period deviation"): 1.0},
    ],
}


def fcse_claims(values: Values) -> dict[str, papers.Claim]:
    judged = fcse_linux.judge(rows(values), papers.published_claims("fcse_2009"))
    return {claim.id: claim for claim in judged}


def test_the_fcse_paper_holds_on_linux_where_it_is_right():
    judged = fcse_claims(fcse_is_right())
    assert list(judged) == list(FCSE_WRONG)
    for identifier, claim in judged.items():
        assert claim.verdict == "holds", (identifier, claim.ours)


@pytest.mark.parametrize(
    ("identifier", "changes"),
    [(identifier, changes) for identifier, worlds in FCSE_WRONG.items() for changes in worlds],
)
def test_a_claim_of_the_fcse_paper_differs_on_linux_where_it_is_false(identifier, changes):
    claim = fcse_claims({**fcse_is_right(), **changes})[identifier]
    assert claim.verdict == "differs", claim.ours
    assert claim.why
