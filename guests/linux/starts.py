"""What several starts of one guest differ by, on several cores.

    starts.py --starts 3 --check "hackbench -p -g 1 -l 20"

Boots Linux with a word more on its command line each time, which moves the kernel's first
microseconds, and with them who meets whom later. Prints a row a start and the medians; with --check
the uses of old TLB entries that the checker permits as well, and a start that it reports anything
of is an error. Needs `make linux-smp`.
"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import run

import mmulab
from mmulab.command import add_set_option, changes_of, run_script, script_options
from mmulab.limits import whole_number
from mmulab.output import one_by_one

LOAD = "hackbench -p -g 1 -l 100"


def start(machine, settings, command, check, number):
    """Boots once; what differs: instructions, cycles of the core that is ahead, permitted uses."""
    # Init gets what the kernel does not know, as a variable.
    result = run.ours(
        machine,
        command,
        settings=settings,
        extra=f"start={'x' * number}",
        check=check,
        console=mmulab.Transcript(),
    )
    if not result.succeeded:
        raise run.failure(f"start {number}", result)
    permitted = result.data["checker"]["permitted"] if check else []
    return result.instructions, result.cycles, sum(entry["uses"] for entry in permitted)


def main():
    options = script_options(__doc__)
    options.add_argument(
        "command",
        nargs="?",
        default=LOAD,
        help="what the guest's shell runs (default: %(default)s)",
    )
    options.add_argument(
        "-m",
        "--machine",
        default=run.SMP,
        choices=[run.SMP],
        help="the machine (default: %(default)s)",
    )
    add_set_option(options)
    options.add_argument(
        "--starts", type=int, default=9, help="how many starts (default: %(default)s)"
    )
    options.add_argument(
        "--check",
        action="store_true",
        help="report uses of old translations and of incoherent lines",
    )
    chosen = options.parse_args()
    whole_number("--starts", chosen.starts, 1)
    settings = changes_of(chosen.set)
    run.refuse_more_cores(options, settings)
    columns = ("instructions", "cycles", "permitted")[: 3 if chosen.check else 2]

    def show(name, values):
        print(f"{name:>6}", *(f"{v:>14,.0f}" for v in values[: len(columns)]), flush=True)

    found = []
    for number in one_by_one("Booting", range(chosen.starts), "starts"):
        found.append(start(chosen.machine, settings, chosen.command, chosen.check, number))
        if number == 0:  # not before it is known that there is a kernel
            print(f"{'start':>6}", *(f"{column:>14}" for column in columns))
        show(number, found[-1])
    for name, of in (("least", min), ("median", statistics.median), ("most", max)):
        show(name, [of(values) for values in zip(*found, strict=True)])


if __name__ == "__main__":
    run_script(main)
