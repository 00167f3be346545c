"""What the guesses of the machines do to the verdicts of a paper."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

from mmulab import arrow as pa
from mmulab.machine import Machine, settings_of
from mmulab.papers import Claim, Run

Judge = Callable[[Run], list[Claim]]
"""Measures and judges on the machines of a run."""

SCHEMA = pa.schema([(name, pa.string()) for name in ("claim", "machine", "set", "verdict", "ours")])


def over_guesses(
    run: Run, machines: Iterable[str], claims: list[Claim], judge: Judge
) -> tuple[list[Claim], pa.Table]:
    """The claims with what other values of the guesses make of them, and every such verdict.

    `judge` is called once for each value that a machine's file gives instead of one that it
    guesses, with nothing else changed; so a run takes as often as long as there are such values.
    """
    others = [other for name in machines for other in Machine.load(name).alternatives()]
    rows: list[dict[str, Any]] = []
    for done, other in enumerate(others):
        run.progress(f"other values of guesses, {done + 1} of {len(others)}: {other.label}")
        changed = dataclasses.replace(run, changed={other.name: other}, progress=lambda line: None)
        values = " ".join(settings_of(other.changes))
        rows += [
            {
                "claim": claim.id,
                "machine": other.name,
                "set": values,
                "verdict": str(claim.verdict),
                "ours": claim.ours,
            }
            for claim in judge(changed)
        ]
    table = pa.Table.from_pylist(rows, SCHEMA)
    return [
        _told(claim, [row for row in rows if row["claim"] == claim.id]) for claim in claims
    ], table


def _told(claim: Claim, rows: list[dict[str, Any]]) -> Claim:
    others = [row for row in rows if row["verdict"] != claim.verdict]
    if not rows:
        said = "not judged with other values"
    elif not others:
        said = f"the same verdict with each of {len(rows)} other values"
    else:
        said = f"another verdict with {len(others)} of {len(rows)} other values: " + "; ".join(
            f"{row['verdict']} with {row['machine']} {row['set']} ({row['ours']})" for row in others
        )
    return dataclasses.replace(claim, guesses=said)
