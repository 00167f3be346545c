"""Disables every maintenance operation of the kernel in turn, and says what notices.

    mutants.py                    writes docs/microkernel-mutants.md

A mutant is the same kernel with `mutant=NAME`, a name of kernel/maintenance.h. It runs programs
that compare memory with a model, under the checker. It is caught by the checker, by the guest
(wrong contents, a stolen secret, a crash, no end), or by nobody: then it must be in ONLY_SAVES, and
a test asks for that.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

import mmulab
from mmulab import guests
from mmulab.command import run_script, script_options
from mmulab.output import one_by_one
from mmulab.papers.microkernel import SCHEMES

ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURES = {"sa1100": "armv4", "ixp425": "armv5te", "arm926ej-s": "armv5te"}
RANDOM = "run=random operations=1500"
FEW_SPACES = "run=random operations=4000 spaces=6"
SMALL_SPACES = "run=random operations=4000 spaces=4 places=4"
MORE_SPACES = "run=random operations=4000 spaces=20"
MANY_SPACES = "run=random operations=2500 spaces=80"
MANY_SMALL_SPACES = "run=random operations=4000 spaces=96 places=8"
ALL = ["flush", "fass", "fcse_guaranteed", "fcse_best_effort"]
MAX_INSTRUCTIONS = 100_000_000
ATTACKS = {
    "PAGE_LINGERS_DATA": ["shared_secret"],
    "FASS_REGION_DATA": ["gone_sharer"],
    "FASS_REGION_INSTRUCTIONS": ["gone_sharer"],
    "FASS_REGION_TRANSLATIONS": ["shared_translation"],
    "FASS_REGION_SLOT": ["unshared_slot"],
}
"""Programs of guests/bench/attacks.c that were made for an operation."""

# Operations that only save later work: left out, the kernel flushes more often, never less. The
# table says how much more in this run.
ONLY_SAVES = {
    "CACHE_EPOCH": (
        "sa1100",
        "fcse_best_effort",
        RANDOM,
        "page_flushes",
        "all spaces continue counting as cached, so that pages are flushed that are in no cache",
    ),
    "FASS_CLEAN": (
        "sa1100",
        "fass",
        RANDOM,
        "flushes",
        "all domains continue counting as dirty, so that each collision and recycling flushes all",
    ),
    "FCSE_CLEAN": (
        "sa1100",
        "fcse_best_effort",
        MANY_SMALL_SPACES,
        "flushes",
        "all PIDs continue counting as dirty, so that a switch within a group flushes once more",
    ),
    "FCSE_LAST_USER_FORGOTTEN": (
        "sa1100",
        "fcse_best_effort",
        MANY_SMALL_SPACES,
        "flushes",
        "destroying a space has flushed each of its pages, so that it left no line: a newcomer with "
        "its record finds nothing, and any other flushes in vain",
    ),
}


def mutants() -> list[tuple[str, str]]:
    """Name and meaning, from the kernel's list."""
    text = (ROOT / "guests/microkernel/kernel/maintenance.h").read_text()
    return re.findall(r'^\tX\((\w+), "(.*)"\)', text, re.M)


def experiments(name: str) -> list[tuple[str, str, str]]:
    """Machine, scheme and program of the runs that could show a mutant, quickest first."""
    own = [s for s in SCHEMES if name.startswith(f"{s.upper()}_") and s not in ("flush", "fass")]
    if own:
        schemes = [max(own, key=len)]
    elif name.startswith("FLUSH_"):
        schemes = ["flush"]
    elif name.startswith("FASS_REGION"):
        schemes = ["fass_shared"]
    elif name.startswith("FASS_"):
        schemes = ["fass"]
    elif name.startswith(("FCSE_TRANSLATIONS", "FCSE_GUARANTEED")):
        schemes = ["fcse_guaranteed"]
    elif name.startswith("FCSE_"):
        schemes = ["fcse_best_effort"]
    else:
        schemes = ALL
    attacks = [f"run=attack attack={attack}" for attack in ATTACKS.get(name, [])]
    runs = [("ixp425", scheme, attack) for attack in attacks for scheme in schemes]
    if name.startswith("FLUSH_") and not name.endswith("FAST_PATH"):
        runs += [("ixp425", "flush", f"{FEW_SPACES} path=general")]
    runs += [("sa1100", scheme, RANDOM) for scheme in schemes]
    runs += [("sa1100", scheme, "run=stale") for scheme in schemes]
    runs += [("ixp425", scheme, "run=stale") for scheme in schemes]
    runs += [("ixp425", scheme, FEW_SPACES) for scheme in schemes]
    runs += [("ixp425", scheme, SMALL_SPACES) for scheme in schemes]
    runs += [("ixp425", scheme, MORE_SPACES) for scheme in schemes]
    runs += [("sa1100", scheme, "run=isolation path=general") for scheme in schemes]
    runs += [("sa1100", scheme, "run=recycled") for scheme in schemes]
    runs += [("sa1100", scheme, "run=isolation") for scheme in schemes]
    runs += [("sa1100", scheme, "run=pingpong clients=20 rounds=1000") for scheme in schemes]
    runs += [("sa1100", scheme, MANY_SPACES) for scheme in schemes]
    return runs


def run(machine: str, scheme: str, program: str, mutant: str) -> mmulab.BootResult:
    """One run under the checker."""
    return mmulab.boot(
        guests.image(f"microkernel-{ARCHITECTURES[machine]}"),
        machine,
        append=f"scheme={scheme} {program} mutant={mutant}",
        check=True,
        max_instructions=MAX_INSTRUCTIONS,
    )


@functools.cache
def sound(machine: str, scheme: str, program: str) -> bool:
    """Whether the kernel with all its maintenance passes the run."""
    result = run(machine, scheme, program, "NOTHING")
    return result.exit == 0 and not result.reports


def counted(machine: str, scheme: str, program: str, mutant: str, what: str) -> int:
    """One of the kernel's counters at the end of a run of random operations."""
    console = run(machine, scheme, program, mutant).console
    return int(re.search(rf"^= random .*\b{what}=(\d+)", console, re.M)[1])


def verdict(name: str) -> tuple[str, str]:
    """Who catches the mutant, and in which run."""
    for machine, scheme, program in experiments(name):
        if not sound(machine, scheme, program):
            raise SystemExit(f"without a mutant: {scheme} on {machine}, {program} fails")
        result = run(machine, scheme, program, name)
        where = f"{scheme} on {machine}, {program.removeprefix('run=')}"
        guest = result.exit != 0
        if result.reports:
            return "checker and guest" if guest else "checker", where
        if guest:
            return "guest", where
    if name not in ONLY_SAVES:
        return "nobody", "no reason known"
    machine, scheme, program, what, why = ONLY_SAVES[name]
    full, without = (
        counted(machine, scheme, program, mutant, what) for mutant in ("NOTHING", name)
    )
    unit = what.replace("_", " ")
    return "nobody", (
        f"only saves work: {why}; {without:,} {unit} instead of {full:,} "
        f"({scheme} on {machine}, {program.removeprefix('run=')})"
    )


def main() -> None:
    """Writes the table."""
    options = script_options(__doc__)
    options.add_argument("name", nargs="*", help="only these, without writing the page")
    wanted = set(options.parse_args().name)
    for name in wanted - {name for name, _ in mutants()}:
        options.error(f"no mutant is called {name}; docs/microkernel-mutants.md lists them")
    lines = []
    chosen = [(name, meaning) for name, meaning in mutants() if not wanted or name in wanted]
    for name, meaning in one_by_one("Leaving out", chosen, "operations"):
        who, where = verdict(name)
        lines.append(f"| `{name}` | {meaning} | {who} | {where} |")
        print(lines[-1], flush=True)
    if wanted:
        return
    head = """# The kernel without its maintenance, one operation at a time

Each row disables one operation (`mutant=NAME`) and runs programs that compare memory with a model,
under `--check`, on `sa1100` and `ixp425`, until one of them shows it. Made by
`.venv/bin/python guests/microkernel/mutants.py`, which takes ten minutes.

| operation | what it does | caught by | first run that catches it, or the reason |
|---|---|---|---|
"""
    (ROOT / "docs/microkernel-mutants.md").write_text(head + "\n".join(lines) + "\n")


if __name__ == "__main__":
    run_script(main)
