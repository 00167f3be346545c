"""Random system calls at length, on the kernel that checks its records after each of them.

    fuzz.py --calls 10000 --seed 7 sa1100/fass

Runs `guests/bench/fuzz.c` under the checker, and prints one line for each run. The status is 1 if a
run did not end well: an invariant did not hold, the checker reported something, a program saw a
foreign word, a frame was lost, or the end was never reached.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import sys

import mmulab
from mmulab import guests
from mmulab.command import run_script, script_options
from mmulab.limits import whole_number
from mmulab.papers.microkernel import (
    ARCHITECTURES,
    MAX_OPTION,
    SCHEMES,
    machine_and_scheme,
    run_with_time_left,
)
from mmulab.replaying import ProgressCallback

INSTRUCTIONS_PER_CALL = 200_000
THUMB = ["at91rm9200", "ixp425", "arm926ej-s"]
"""Cores that have the Thumb state."""


@dataclasses.dataclass(frozen=True)
class Fuzzed:
    """What became of a run; `wrong` is empty if nothing is."""

    calls: int
    spaces: int
    instructions: int
    reports: int
    wrong: str


def fuzz(
    machine: str, scheme: str, seed: int, calls: int, report: ProgressCallback | None = None
) -> Fuzzed:
    """One run; `report` is told the instructions executed."""
    thumb = int(machine in THUMB)
    result = mmulab.boot(
        guests.image(f"microkernel-checked-{ARCHITECTURES[machine]}"),
        machine,
        append=f"scheme={scheme} run=fuzz calls={calls} seed={seed} thumb={thumb}",
        check=True,
        max_instructions=50_000_000 + calls * INSTRUCTIONS_PER_CALL,
        progress=report,
    )
    ended = re.search(r"^= fuzz calls=(\d+) spaces=(\d+)", result.console, re.M)
    said = re.findall(r"^(?:kernel|error): .*", result.console, re.M)
    said += [report["text"] for report in result.reports[:3]]
    if not said and (not ended or result.exit != 0):
        said = [f"no end after {result.instructions:,} instructions, status {result.exit}"]
    done, spaces = (int(ended[1]), int(ended[2])) if ended else (0, 0)
    return Fuzzed(done, spaces, result.instructions, len(result.reports), "; ".join(said))


def main() -> None:
    """Runs what was asked for, else every scheme on two cores."""
    parser = script_options(__doc__)
    parser.add_argument(
        "--calls", type=int, default=500_000, help="system calls of each run (default: %(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="of the random choices (default: %(default)s)"
    )
    everything = [
        f"{machine}/{scheme}" for scheme in SCHEMES for machine in ("sa1100", "arm926ej-s")
    ]
    parser.add_argument(
        "runs",
        nargs="*",
        default=everything,
        help="as in sa1100/fass (default: every scheme on two machines)",
    )
    asked = parser.parse_args()
    runs = [machine_and_scheme(words) for words in asked.runs]
    whole_number("--calls", asked.calls, 1, MAX_OPTION)
    whole_number("--seed", asked.seed, high=MAX_OPTION)
    print("| machine | scheme | calls | spaces made | billion instructions | reports | wrong |")
    print("|---|---|---|---|---|---|---|")
    good = True
    for machine, scheme in runs:
        print(f"{machine}, {scheme}: {asked.calls:,} calls", file=sys.stderr)
        run = functools.partial(fuzz, machine, scheme, asked.seed)
        done = run_with_time_left(asked.calls, run)
        good &= not done.wrong
        print(
            f"| {machine} | {scheme} | {done.calls:,} | {done.spaces:,} | "
            f"{done.instructions / 1e9:.1f} | {done.reports} | {done.wrong or 'nothing'} |",
            flush=True,
        )
    sys.exit(not good)


if __name__ == "__main__":
    run_script(main)
