"""Disables every maintenance operation of the kernel in turn, and says what notices.

    python guests/microkernel/mutants.py [NUMBER ...]      writes docs/microkernel-mutants.md

A mutant is the same kernel with `mutant=N`, N from kernel/maintenance.h. It runs programs that compare
memory with a model, under the checker. It is caught by the checker, by the guest (wrong contents, a
stolen secret, a crash, no end), or by nobody; then REASONS says why, and a test asks for a reason.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path

import mmulab

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURES = {"sa1100": "armv4", "ixp425": "armv5te", "arm926ej-s": "armv5te"}
RANDOM = "run=random operations=1500"
FEW_SPACES = "run=random operations=4000 spaces=6"
SMALL_SPACES = "run=random operations=4000 spaces=4 places=4"
MORE_SPACES = "run=random operations=4000 spaces=20"
MANY_SPACES = "run=random operations=2500 spaces=80"
ALL = ["flush", "fass", "fcse_guaranteed", "fcse_best_effort"]
MOST_INSTRUCTIONS = 100_000_000

GROWN = (
    "the first space maps for others here, and the switch to the one that grew, now large, flushes "
    "everything; needed by a space that grows itself"
)
REASONS = {
    "PAGE_UNCACHED_DATA": "its dirty lines were cleaned just before, when the page was shared "
    "(`PAGE_COPIED_CLEAN`), and what is left of them is clean and not looked at while the page is "
    "uncached; kept for cores that do look",
    "TABLE_DRAIN": "the way back to the user takes longer than the write buffer, so that no walk "
    "ever finds a descriptor in it; kept because nothing guarantees that",
    "FASS_RECYCLE_INSTRUCTIONS": "it takes two spaces that execute different code at one modified "
    "address, a recycling between them, and nothing that drops instruction lines meanwhile, which "
    "these programs do not bring about; needed all the same",
    "FCSE_REUSED_TRANSLATIONS": "every switch invalidates the TLB after it has loaded the table base",
    "FCSE_GROW_DATA": GROWN,
    "FCSE_GROW_INSTRUCTIONS": GROWN,
    "FCSE_GROW_TRANSLATIONS": GROWN,
    "FCSE_LAST_USER": "without it the kernel flushes more often, not less",
    "FCSE_LAST_USER_FORGOTTEN": "the lines of a destroyed space have been flushed page by page, so "
    "that a newcomer mistaken for it finds nothing",
}


def mutants() -> list[tuple[int, str, str]]:
    """Number, name and meaning, from the kernel's list."""
    text = (ROOT / "guests/microkernel/kernel/maintenance.h").read_text()
    body = text[text.index("enum maintenance {") :]
    found = re.findall(r"^\t([A-Z_]+),[ \t]*(?:// (.*))?$", body, re.M)
    rows = [(number, name, meaning) for number, (name, meaning) in enumerate(found)]
    return [row for row in rows if row[1] not in ("NOTHING", "MAINTENANCES")]


def experiments(name: str) -> list[tuple[str, str, str]]:
    """Machine, scheme and program of the runs that could show a mutant, quickest first."""
    if name.startswith("FLUSH_"):
        schemes = ["flush"]
    elif name.startswith("FASS_REGION"):
        schemes = ["fass_shared"]
    elif name.startswith("FASS_"):
        schemes = ["fass"]
    elif name.startswith("FCSE_TRANSLATIONS"):
        schemes = ["fcse_guaranteed"]
    elif name.startswith("FCSE_"):
        schemes = ["fcse_best_effort"]
    else:
        schemes = ALL
    runs = [("sa1100", scheme, RANDOM) for scheme in schemes]
    runs += [("ixp425", scheme, FEW_SPACES) for scheme in schemes]
    runs += [("ixp425", scheme, SMALL_SPACES) for scheme in schemes]
    runs += [("ixp425", scheme, MORE_SPACES) for scheme in schemes]
    runs += [("sa1100", scheme, "run=isolation path=general") for scheme in schemes]
    runs += [("sa1100", scheme, "run=recycled") for scheme in schemes]
    runs += [("sa1100", scheme, "run=isolation") for scheme in schemes]
    runs += [("sa1100", scheme, "run=pingpong clients=20 rounds=1000") for scheme in schemes]
    runs += [("sa1100", scheme, MANY_SPACES) for scheme in schemes]
    return runs


def run(machine: str, scheme: str, program: str, mutant: int) -> mmulab.BootResult:
    """One run under the checker."""
    return mmulab.boot(
        ROOT / f"build/guests/microkernel-{ARCHITECTURES[machine]}.elf",
        machine,
        append=f"scheme={scheme} {program} mutant={mutant}",
        check=True,
        max_instructions=MOST_INSTRUCTIONS,
    )


@functools.cache
def sound(machine: str, scheme: str, program: str) -> bool:
    """Whether the kernel with all its maintenance passes the run."""
    result = run(machine, scheme, program, 0)
    return result.exit == 0 and not result.reports


def verdict(number: int, name: str) -> tuple[str, str]:
    """Who catches the mutant, and in which run."""
    for machine, scheme, program in experiments(name):
        if not sound(machine, scheme, program):
            raise SystemExit(f"without a mutant: {scheme} on {machine}, {program} fails")
        result = run(machine, scheme, program, number)
        where = f"{scheme} on {machine}, {program.removeprefix('run=')}"
        guest = result.exit != 0
        if result.reports:
            return "checker and guest" if guest else "checker", where
        if guest:
            return "guest", where
    return "nobody", REASONS.get(name, "no reason known")


def main() -> None:
    """Writes the table."""
    wanted = {int(number) for number in sys.argv[1:]}
    lines = []
    for number, name, meaning in mutants():
        if wanted and number not in wanted:
            continue
        who, where = verdict(number, name)
        lines.append(f"| {number} | `{name}` | {meaning} | {who} | {where} |")
        print(lines[-1], flush=True)
    if wanted:
        return
    head = """# The kernel without its maintenance, one operation at a time

Each row disables one operation (`mutant=N`) and runs programs that compare memory with a model,
under `--check`. Made by `python guests/microkernel/mutants.py`.

| N | operation | what it does | caught by | first run that catches it, or the reason |
|---|---|---|---|---|
"""
    (ROOT / "docs/microkernel-mutants.md").write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
