"""Published results, beside ours: one module per paper.

A module evaluates its paper's claims by code, from what it ran, and returns a `Reproduction`. To add a
paper, put its figures in `published/<paper>/`, its claims in `published/claims.csv`, a module with a
function `reproduce(run)` here, and its name in `PAPERS`.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import vl_convert

from mmulab.files import replacing

PAPERS = {
    "vm-study-1998": "mmulab.papers.vm_study_1998",
    "fass-2003": "mmulab.papers.fass_2003",
    "fcse-2009": "mmulab.papers.fcse_2009",
}
"""What users type, and the module that does it."""

PUBLISHED = Path(__file__).parents[1] / "published"


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    DIFFERS = "differs"
    NOT_EVALUATED = "not evaluated"


@dataclasses.dataclass(frozen=True)
class Published:
    """A claim as its paper makes it: a row of `published/claims.csv`."""

    id: str
    paper: str
    section: str
    quantity: str
    expectation: str

    def judge(self, holds: bool, ours: str, why: str = "") -> Claim:
        """Our verdict: `ours` gives the numbers that decide it, `why` explains a difference."""
        if not holds and not why:
            raise ValueError(f"{self.id} differs and needs an explanation")
        verdict = Verdict.HOLDS if holds else Verdict.DIFFERS
        return Claim(self.id, self.paper, verdict, self._text(), ours, why)

    def not_evaluated(self, why: str, ours: str = "") -> Claim:
        """No verdict, and the reason; `ours` tells what was measured instead."""
        return Claim(self.id, self.paper, Verdict.NOT_EVALUATED, self._text(), ours, why)

    def _text(self) -> str:
        return f"{self.quantity}: {self.expectation} (section {self.section})"


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim with our verdict; `as_dict` is the contract of `mmulab reproduce --format json`."""

    id: str
    paper: str
    verdict: Verdict
    published: str
    ours: str
    why: str

    def as_dict(self) -> dict[str, str]:
        """The claim as plain text fields."""
        return {key: str(value) for key, value in dataclasses.asdict(self).items()}


@dataclasses.dataclass(frozen=True)
class Run:
    """How to run a reproduction."""

    full: bool = False
    """Long inputs; otherwise the short ones, which take under two minutes."""
    folder: Path = Path("results/reproduce")
    """Where traces and intermediate results are kept from one run to the next."""
    seed: int = 1
    progress: Callable[[str], None] = lambda line: None
    """Called with a line of text at each step."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of the paper as ours; `says` is what the paper says of its own."""

    name: str
    title: str
    says: str
    chart: Any


@dataclasses.dataclass(frozen=True)
class Reproduction:
    """What a paper's module returns."""

    paper: str
    title: str
    claims: list[Claim]
    figures: list[Figure] = dataclasses.field(default_factory=list)
    tables: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Arrow tables by name: the numbers behind claims and figures."""
    notes: str = ""
    """What was run, in sentences: programs, inputs, sizes, machines."""

    @property
    def all_hold(self) -> bool:
        """Whether no claim differs."""
        return all(claim.verdict is not Verdict.DIFFERS for claim in self.claims)


def published_claims(paper: str) -> dict[str, Published]:
    """The claims of a paper, by id, in the paper's order; `paper` as `vm_study_1998`."""
    with open(PUBLISHED / "claims.csv", newline="", encoding="utf-8") as file:
        rows = [Published(**row) for row in csv.DictReader(file)]
    return {row.id: row for row in rows if row.paper == paper}


def published_table(paper: str, name: str) -> list[dict[str, str]]:
    """A table of a paper: the rows of `published/<paper>/<name>.csv`."""
    with open(PUBLISHED / paper / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def save_figures(figures: list[Figure], folder: Path) -> None:
    """Writes each figure as SVG and PNG, for papers and slides; the report has them inline."""
    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        specification = figure.chart.to_dict()
        with replacing(folder / f"{figure.name}.svg") as file:
            file.write(vl_convert.vegalite_to_svg(specification).encode())
        with replacing(folder / f"{figure.name}.png") as file:
            file.write(vl_convert.vegalite_to_png(specification, scale=2))


def reproduce(name: str, run: Run | None = None) -> Reproduction:
    """Reproduces a paper by the name that users type; see `PAPERS`."""
    if name not in PAPERS:
        raise ValueError(f"unknown paper {name!r}; known: {', '.join(PAPERS)}")
    module = importlib.import_module(PAPERS[name])
    return module.reproduce(run or Run())
