"""Which of the candidates stands for which program of the 1998 study, by what the study says of its
own.

Stated before the candidates were compared, and of misses only, which no organisation changes:

* All complete in under 200 million instructions (3.2).
* gcc and vortex "have the worst virtual memory performance" (3.2), 5 to 10% of a 1-CPI machine
  (4.1). A walk takes 10 cycles in the mean of the organisations (10:10:5:15, 4.3), and 20 more
  where its entry misses the first level (table 3), so that they walk once in 100 (10 / 0.10) to 600
  (30 / 0.05) instructions. What does comes first, and what comes nearest to the middle of that on a
  scale of ratios is chosen.
* Among those in that range the ones come first that touch at most 2,048 pages, as 8 MB are "larger
  than the physical memory requirements of any one benchmark" (3.1). This came before the range at
  first; but no GCC of today needs so little, and a compiler that does (tcc) walks once in 45,000
  instructions.
* ijpeg has a "low level of overhead", of which "compulsory misses are actually a large portion"
  (4.4). What walks less often than the range of gcc comes first, then what makes at least half of
  its walks for first uses, then what touches at most 2,048 pages; the longest run of these is
  chosen. (At first the largest share of first uses alone; but the smallest picture always has it.)

The curve is the exact LRU one of `mmulab.miss_curves`, for 128 entries on each side. What it says
of other sizes is not used, since the study's claims are about it (vm98-11, vm98-12); the level is,
so that vm98-03, vm98-17 and vm98-23 test what a walk costs, and no longer how often there is one.

`python -m mmulab.papers.study_choice [DIR]` records all candidates into DIR (some minutes) and
prints the table.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path

import mmulab
from mmulab.command import run_script, script_options
from mmulab.papers import install
from mmulab.papers.study_programs import (
    CANDIDATES,
    Candidate,
    is_recorded,
    missing_packages,
    record,
)

MAX_INSTRUCTIONS = 200_000_000
MAX_PAGES = 2048
TLB_ENTRIES = 128
SHORTEST_PATH = 10 / 0.10
LONGEST_PATH = 30 / 0.05
CHOSEN = {"gcc-like": 3, "vortex-like": 5, "ijpeg-like": 1}
"""What came out, as a position among the candidates."""


@dataclasses.dataclass(frozen=True)
class Candidacy:
    """What a candidate's recording shows."""

    label: str
    completes: bool
    instructions: int
    pages: int
    misses: int
    """Of both sides, LRU."""
    first_uses: int
    """Of these, those of pages not used before on that side."""

    @property
    def path(self) -> float:
        """Instructions from one miss to the next."""
        return self.instructions / max(self.misses, 1)

    @property
    def compulsory(self) -> float:
        """Share of the misses that no TLB avoids."""
        return self.first_uses / max(self.misses, 1)


def distance(path: float) -> float:
    """How far a path is from the middle of the study's range, as the logarithm of a ratio."""
    return abs(math.log(path / math.sqrt(SHORTEST_PATH * LONGEST_PATH)))


def choose(name: str, candidates: list[Candidacy]) -> int:
    """The position of the one that stands for a program."""

    def rank(position: int) -> tuple[bool, bool, bool, bool, float]:
        one = candidates[position]
        too_large = one.pages > MAX_PAGES
        if name == "ijpeg-like":
            often, rarely_first = one.path <= LONGEST_PATH, one.compulsory < 0.5
            return not one.completes, often, rarely_first, too_large, -one.instructions
        in_range = SHORTEST_PATH <= one.path <= LONGEST_PATH
        return not one.completes, not in_range, in_range and too_large, False, distance(one.path)

    return min(range(len(candidates)), key=rank)


def chosen() -> dict[str, Candidate]:
    """The candidate that stands for each program."""
    return {name: candidates[CHOSEN[name]] for name, candidates in CANDIDATES.items()}


def candidacy(label: str, trace: Path) -> Candidacy:
    """Reads a recording."""
    information = mmulab.trace_information(trace)
    curves = mmulab.miss_curves(trace)
    sides = [curves.curve(side, "4K") for side in ("instruction", "data")]
    return Candidacy(
        label,
        information.instructions < MAX_INSTRUCTIONS,
        information.instructions,
        curves.curve("unified", "4K").pages,
        sum(side.misses_at(TLB_ENTRIES) for side in sides),
        sum(side.pages for side in sides),
    )


def table(name: str, candidates: list[Candidacy]) -> list[str]:
    """Rows of a table in Markdown."""
    best = choose(name, candidates)
    return [
        f"| {name} | {one.label} | {one.instructions / 1e6:.0f}{'' if one.completes else ', cut'} "
        f"| {one.pages:,} | {one.path:,.0f} | {one.compulsory:.0%} | "
        f"{'**chosen**' if position == best else ''} |"
        for position, one in enumerate(candidates)
    ]


def main() -> None:
    """Records, chooses and prints; status 1 where `CHOSEN` says otherwise."""
    options = script_options(
        "Chooses the programs that stand for those of the 1998 study, by their misses. Status 1 says "
        "that others would be chosen than those that the study uses.\n\n"
        "    python -m mmulab.papers.study_choice results/study-programs"
    )
    options.prog = "python -m mmulab.papers.study_choice"
    options.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path("results/study-programs"),
        metavar="DIR",
        help="where traces are kept (default: %(default)s)",
    )
    folder = options.parse_args().folder
    install(missing_packages(one for candidates in CANDIDATES.values() for one in candidates))
    print("| for | candidate | million instructions | pages | path | first uses | |")
    print("|---|---|---|---|---|---|---|")
    same = True
    for name, candidates in CANDIDATES.items():
        found = []
        for position, candidate in enumerate(candidates):
            program = candidate.build(name, folder / f"{name}-{position}")
            trace = folder / f"{name}-{position}.mmt"
            if not is_recorded(program, trace):
                print(f"recording {program.label}", file=sys.stderr)
                record(program, trace, MAX_INSTRUCTIONS)
            found.append(candidacy(program.label, trace))
        print("\n".join(table(name, found)))
        same &= choose(name, found) == CHOSEN[name]
    sys.exit(not same)


if __name__ == "__main__":
    run_script(main)
