"""Why a claim of the 1998 study differs on programs of today: found by looking, run by run.

What was found holds for the programs of `study_programs`; the numbers in the sentences are those of
the run at hand.
"""

from __future__ import annotations

from collections.abc import Callable

from mmulab.papers.vm_study_cells import Cells
from mmulab.papers.vm_study_experiments import Evidence

_EXPLANATIONS: dict[str, Callable[[Cells, Evidence], str]] = {}


def explain(identifier: str, cells: Cells, evidence: Evidence) -> str:
    """Why a claim differs."""
    if identifier in _EXPLANATIONS:
        return _EXPLANATIONS[identifier](cells, evidence)
    return (
        "it holds on the run that docs/reproduce-vm-study-1998.md describes; the programs or the "
        "inputs of this run are others"
    )
