"""What `guests/linux/gains_migration.py` makes of two timelines."""

from __future__ import annotations

import pytest
from test_linux_layouts import load

TASK, OTHER = "table 0x40004000 PID 1", "table 0x40008000 PID 2"


@pytest.fixture(scope="module")
def gains():
    return load("gains_migration")


def core(gains, spaces, modes):
    """Spaces and modes one after the other: names, cycles, and instructions."""
    events, at = [], 0
    for name, cycles in spaces:
        events.append((gains.SPACES, f"{name} domains 0x55", at, cycles, {}))
        at += cycles
    at = 0
    for name, cycles, instructions in modes:
        events.append((gains.MODES, name, at, cycles, {"instructions": instructions}))
        at += cycles
    return gains.Core(
        [
            {"ph": "X", "tid": row, "name": name, "ts": at, "args": {"cycles": cycles, **more}}
            for row, name, at, cycles, more in events
        ],
        1,
    )


def idle(gains):
    return core(gains, [(OTHER, 9000)], [("supervisor", 9000, 9000)])


def test_a_gain_is_of_user_mode_and_of_what_comes_before_it(gains):
    spaces = [(OTHER, 40), (TASK, 9000)]
    with_it = core(
        gains,
        spaces,
        [("supervisor", 140, 9), ("user", 200, 100), ("supervisor", 50, 9), ("user", 300, 20_000)],
    )
    # Without its entries it begins 30 cycles earlier, and is 100 and 7 slower; the system call
    # between is not its.
    without = core(
        gains,
        spaces,
        [("supervisor", 110, 8), ("user", 300, 100), ("supervisor", 999, 9), ("user", 307, 20_000)],
    )
    both = [[idle(gains), with_it], [idle(gains), without]]
    assert gains.parting(*both) == (1, 110)
    assert gains.parting(both[0], both[0]) is None
    since = with_it.first_of(110)
    assert since == 40
    found, exact = gains.differences(*both, 1, since)
    assert exact and found[0] == found[2] == (77, 20_100)
    # On another core it is another stay.
    moved = core(gains, [(OTHER, 400), (TASK, 9000)], [("supervisor", 9000, 9)])
    found, exact = gains.differences([moved, with_it], [moved, without], 1, since)
    assert (found, exact) == (None, False)


def test_where_an_interrupt_comes_elsewhere_the_mean_rate_tells(gains):
    with_it = [(0, 10), (1000, 2010), (1100, 9000)]
    without = [(0, 0), (900, 2000), (1200, 9000)]
    # At 900 instructions: 2010 less 100 of two cycles each. Later places are further from each
    # other.
    assert gains.about_same(with_it, without)[0] == (190, 900)
    assert gains.about_same(with_it, [(0, 0)]) is None
