"""Random operations at length: every scheme on every core, under the checker.

    soak.py --operations 100000 sa1100/flush

Prints one line for each run. The guest itself compares every page with what it should hold; one
error or one report of the checker and the status is 1.
"""

from __future__ import annotations

import re
import sys

import mmulab
from mmulab import guests
from mmulab.command import run_script, script_options
from mmulab.errors import MmulabError
from mmulab.limits import whole_number
from mmulab.papers.microkernel import (
    ARCHITECTURES,
    MAX_OPTION,
    SCHEMES,
    machine_and_scheme,
    run_with_time_left,
)
from mmulab.replaying import ProgressCallback


def soak(machine: str, scheme: str, operations: int, options: str) -> bool:
    """One run; True if nothing was wrong."""
    print(f"{machine}, {scheme}: {operations:,} operations", file=sys.stderr)

    def run(count: int, report: ProgressCallback) -> mmulab.BootResult:
        return mmulab.boot(
            guests.image(f"microkernel-{ARCHITECTURES[machine]}"),
            machine,
            append=f"scheme={scheme} run=random operations={count} {options}",
            check=True,
            progress=report,
        )

    result = run_with_time_left(operations, run)
    said = re.search(r"^random: (\d+) operations, (\d+) errors", result.console, re.M)
    if not said and not result.reports:
        raise MmulabError(f"{machine}, {scheme}: {result.end}: {result.console.strip()[-200:]}")
    done, errors = (int(said[1]), said[2]) if said else (0, "no end")
    print(
        f"| {machine} | {scheme} | {done:,} | {errors} | {len(result.reports)} | "
        f"{result.instructions / 1e9:.1f} |",
        flush=True,
    )
    if result.exit != 0 or result.reports:
        print(result.console[-2000:], *result.reports[:3], sep="\n", file=sys.stderr)
        return False
    return done == operations


def main() -> None:
    """Runs what was asked for, else everything."""
    parser = script_options(__doc__)
    parser.add_argument(
        "--operations", type=int, default=1_000_000, help="of each run (default: %(default)s)"
    )
    parser.add_argument(
        "--options", default="spaces=40", help="of guests/bench/random.c (default: %(default)s)"
    )
    everything = [f"{machine}/{scheme}" for scheme in SCHEMES for machine in ARCHITECTURES]
    parser.add_argument(
        "runs",
        nargs="*",
        default=everything,
        help="as in sa1100/fass (default: every scheme on all machines)",
    )
    asked = parser.parse_args()
    runs = [machine_and_scheme(words) for words in asked.runs]
    whole_number("--operations", asked.operations, 1, MAX_OPTION)
    print("| machine | scheme | operations | errors | reports | billion instructions |")
    print("|---|---|---|---|---|---|")
    good = [soak(*run, asked.operations, asked.options) for run in runs]
    sys.exit(not all(good))


if __name__ == "__main__":
    run_script(main)
