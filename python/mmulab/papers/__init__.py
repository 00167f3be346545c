"""Published results, beside ours: one module per paper.

A module evaluates its paper's claims by code, from what it ran, and returns a `Reproduction`. To
add a paper, put its figures in `published/<paper>/`, its claims in `published/claims.csv`, the rule
by which each will be judged in `published/rules.csv` (before the first result), a module here with
the functions `reproduce(run)` and `missing_packages(run)`, and its name in `PAPERS`.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from mmulab.errors import InputError
from mmulab.files import replacing
from mmulab.machine import Machine

PAPERS = {
    "vm-study-1998": "mmulab.papers.vm_study_1998",
    "fass-2003": "mmulab.papers.fass_2003",
    "fcse-2009": "mmulab.papers.fcse_2009",
    "tlb-migration-2018": "mmulab.papers.tlb_migration_2018",
}
"""What users type, and the module that does it."""

PUBLISHED = Path(__file__).parents[1] / "published"

ABOUT = 0.25
"""How far from a published number still is that number, as a part of it: a quarter, in all
rules."""


def about(value: float, wanted: float) -> bool:
    """Whether a value is a published positive one, give or take a quarter."""
    return wanted > 0 and abs(value / wanted - 1) <= ABOUT


def wrong_parts(parts: Iterable[tuple[str, bool]]) -> str:
    """Which parts of a claim do not hold, of what is told of each."""
    return "what does not hold: " + "; ".join(text for text, holds in parts if not holds)


class Verdict(StrEnum):
    """What became of a claim."""

    HOLDS = "holds"
    DIFFERS = "differs"
    NOT_EVALUATED = "not evaluated"


@dataclasses.dataclass(frozen=True)
class Published:
    """A claim as its paper makes it, a row of `published/claims.csv`, and how we judge it."""

    id: str
    paper: str
    section: str
    quantity: str
    expectation: str
    rule: str
    """What decides, from `published/rules.csv`: written down before the result was seen."""
    reason: str
    """Why this rule."""

    def judge(self, holds: bool, ours: str, why: str = "") -> Claim:
        """Our verdict: `ours` gives the numbers that decide it, `why` explains a difference and is
        not said where the claim holds."""
        return self._claim(Verdict.HOLDS if holds else Verdict.DIFFERS, ours, "" if holds else why)

    def not_evaluated(self, why: str, ours: str = "") -> Claim:
        """No verdict, and the reason; `ours` tells what was measured instead."""
        return self._claim(Verdict.NOT_EVALUATED, ours, why)

    def _claim(self, verdict: Verdict, ours: str, why: str) -> Claim:
        published = f"{self.quantity}: {self.expectation} (section {self.section})"
        return Claim(self.id, self.paper, verdict, published, self.rule, self.reason, ours, why)


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim with our verdict; `as_dict` is the contract of `mmulab reproduce --format json`."""

    id: str
    paper: str
    verdict: Verdict
    published: str
    rule: str
    reason: str
    ours: str
    why: str
    guesses: str = ""
    """What other values of the machines' guesses do to the verdict, where that was asked for."""

    def as_dict(self) -> dict[str, str]:
        """The claim as plain text fields."""
        return {key: str(value) for key, value in dataclasses.asdict(self).items()}


@dataclasses.dataclass(frozen=True)
class Run:
    """How to run a reproduction."""

    full: bool = False
    """Long inputs; otherwise the short ones, which take minutes."""
    folder: Path = Path("results/reproduce")
    """Where traces and intermediate results are kept from one run to the next."""
    seed: int = 1
    progress: Callable[[str], None] = lambda line: None
    """Called with a line of text at each step."""
    guesses: bool = False
    """Judge again with each other value of the machines' guesses; see `mmulab.papers.guesses`."""
    changed: Mapping[str, Machine] = dataclasses.field(default_factory=dict)
    """Machines that stand for those of a name: with another value of a guess."""

    def machine(self, name: str) -> Machine:
        """The machine to run on."""
        return self.changed.get(name) or Machine.load(name)


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
    provenance: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What all numbers depend on (`inputs_provenance`, `full`, `seed`); each table file contains
    it."""

    def __post_init__(self) -> None:
        """Raises `ValueError` where a difference has no explanation."""
        for claim in self.claims:
            if claim.verdict is Verdict.DIFFERS and not claim.why:
                raise ValueError(f"{claim.id} differs and needs an explanation")

    @property
    def all_hold(self) -> bool:
        """Whether no claim differs."""
        return all(claim.verdict is not Verdict.DIFFERS for claim in self.claims)


def published_claims(paper: str) -> dict[str, Published]:
    """The claims of a paper, by id, in the paper's order; `paper` as `vm_study_1998`."""
    rules = {row["id"]: row for row in _rows(PUBLISHED / "rules.csv")}
    return {
        row["id"]: Published(**row, **{key: rules[row["id"]][key] for key in ("rule", "reason")})
        for row in _rows(PUBLISHED / "claims.csv")
        if row["paper"] == paper
    }


def published_table(paper: str, name: str) -> list[dict[str, str]]:
    """A table of a paper: the rows of `published/<paper>/<name>.csv`."""
    return _rows(PUBLISHED / paper / f"{name}.csv")


def _rows(path: Path) -> list[dict[str, str]]:
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def save_figures(figures: list[Figure], folder: Path) -> None:
    """Writes each figure as SVG and PNG, for papers and slides; the report has them inline."""
    import vl_convert  # takes long to load, and each command asks for the names of papers

    folder.mkdir(parents=True, exist_ok=True)
    for figure in figures:
        drawing = vl_convert.vegalite_to_svg(figure.chart.to_dict())
        with replacing(folder / f"{figure.name}.svg") as file:
            file.write(drawing.encode())
        with replacing(folder / f"{figure.name}.png") as file:
            file.write(vl_convert.svg_to_png(drawing, scale=2))


def reproduce(name: str, run: Run | None = None) -> Reproduction:
    """Reproduces a paper by the name that users type; see `PAPERS`."""
    run = run or Run()
    prepare([name], run)
    return _module(name).reproduce(run)


def prepare(names: Iterable[str], run: Run) -> None:
    """Raises `InputError` where something has to be installed first, with one command for all
    papers."""
    install({package for name in names for package in _module(name).missing_packages(run)})


def install(packages: set[str]) -> None:
    """Raises `InputError` that says how to install packages, unless there are none."""
    if packages:
        raise InputError(
            f"programs are missing that a reproduction runs; on Debian: apt install "
            f"{' '.join(sorted(packages))}"
        )


def _module(name: str) -> Any:
    if name not in PAPERS:
        raise InputError(f"unknown paper {name!r}; known: {', '.join(PAPERS)}")
    return importlib.import_module(PAPERS[name])
