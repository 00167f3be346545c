"""Why a claim of the 1998 study differs on the programs of today: found by looking, run by run."""

EXPLANATIONS: dict[str, str] = {}
"""By claim; the experiments stand in docs/reproduce-vm-study-1998.md."""
