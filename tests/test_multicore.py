"""Programs on one and four Cortex-A7 do what they do on QEMU, and the checker finds what they leave out."""

from __future__ import annotations

import importlib.util

import pytest
from conftest import ROOT

_spec = importlib.util.spec_from_file_location(
    "multicore", ROOT / "guests" / "multicore" / "run.py"
)
assert _spec and _spec.loader
multicore = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(multicore)


@pytest.mark.parametrize("cores", multicore.CORES)
def test_cores_count_together_as_on_qemu(cores: int) -> None:
    assert multicore.compare_counter(cores) is None


@pytest.mark.parametrize("bug", multicore.BUGS, ids=[bug.name for bug in multicore.BUGS])
def test_bug_is_reported_and_its_twin_is_not(bug) -> None:
    assert multicore.judge(bug) is None
