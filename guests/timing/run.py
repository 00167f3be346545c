"""Measures timings on our machines, by the guest itself, and prints them for docs/timing.md, where
the documents' stand beside them.

Example: .venv/bin/python guests/timing/run.py
"""

import mmulab
from mmulab import guests
from mmulab.command import run_script, script_options
from mmulab.output import one_by_one

MACHINES = ["sa1100", "at91rm9200", "arm926ej-s", "ixp425"]


def program(machine):
    """The ELF of the timing program for a machine."""
    return guests.image(f"timing-{machine}")


def measure(machine):
    """Cycles and events by name."""
    run = mmulab.boot(program(machine), machine, max_instructions=20_000_000)
    if run.exit != 0:
        raise SystemExit(f"{machine}: {run.end}\n{run.console}")
    lines = [line.split() for line in run.console.splitlines()]
    return {name: (int(cycles), int(count)) for name, cycles, count in lines}


def main():
    script_options(__doc__).parse_args()
    measured = {
        machine: measure(machine) for machine in one_by_one("Measuring", MACHINES, "machines")
    }
    names = list(measured["arm926ej-s"])
    print("| cycles for one | " + " | ".join(measured) + " |")
    print("|---|" + "---:|" * len(measured))
    for name in names:
        cells = []
        for values in measured.values():
            cycles, count = values.get(name, (0, 0))
            # One of the 64 instructions shares a cycle with what surrounds them.
            cells.append(
                "" if not count else str(cycles) if count == 1 else f"{cycles / count:.1f}"
            )
        print(f"| {name.replace('-', ' ')} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    run_script(main)
