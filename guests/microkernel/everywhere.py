"""Every program of guests/bench but attack and fuzz under every scheme, on the four machines and on
QEMU.

    everywhere.py events

On ours each runs twice, the first time under the checker: no report, and the second run must print
the same, measurements included. Then the same ELF on QEMU must print the same, measurements aside.
Prints a line for each program and scheme; the status is 1 if anything differed.
"""

from __future__ import annotations

import subprocess
import sys

import mmulab
from mmulab import guests
from mmulab.command import run_script, script_options
from mmulab.output import one_by_one
from mmulab.papers.microkernel import ARCHITECTURES, SCHEMES

QEMU = {"armv4": "sa1110", "armv5te": "arm926"}
PROGRAMS = [
    "pingpong clients=20 rounds=1000",
    "pingpong clients=20 rounds=1000 path=general",
    "extreme processes=16 pages=20 mapping=private laps=20",
    "extreme processes=16 pages=20 mapping=shared laps=20",
    "ring processes=8 kilobytes=4 rounds=20",
    "ring processes=8 kilobytes=4 rounds=20 array=same",
    "storm groups=1 loops=10",
    "storm groups=10 loops=2",
    "periodic period=1000 samples=50",
    "events",
    "isolation",
    "isolation path=general",
    "recycled",
    "stale",
    "switches",
    "random operations=3000 spaces=40",
    "library processes=12 pages=8 laps=5",
    "calls",
    "calls path=general",
]
FROM_THE_CHECKER = "= checker"
REFUSED = {"fcse_guaranteed": "array=same"}
"""Pages above 32 MB, without which a ring waits for ever."""


def lines(console: str, measurements: bool) -> list[str]:
    """What a run printed, without the checker's count, and with or without the measurements."""
    wanted = [line for line in console.splitlines() if line and FROM_THE_CHECKER not in line]
    return wanted if measurements else [line for line in wanted if not line.startswith("= ")]


def on_qemu(architecture: str, options: str) -> tuple[int, list[str]]:
    """Exit status and output on QEMU, whose time follows instructions: by the clock of a busy host
    sleepers wake together."""
    command = (
        f"qemu-system-arm -M versatilepb -cpu {QEMU[architecture]} -icount shift=3,sleep=off -nographic -monitor none "
        f"-semihosting -audiodev none,id=a -kernel {guests.image(f'microkernel-{architecture}')} -append"
    )
    done = subprocess.run([*command.split(), options], capture_output=True, timeout=300)
    return done.returncode, lines(done.stdout.decode(), measurements=False)


def compare(program: str, scheme: str) -> bool:
    """One program under one scheme; prints what became of it."""
    options = f"scheme={scheme} run={program}"
    wrong = []
    reports = 0
    outputs = {}
    for machine, architecture in ARCHITECTURES.items():
        image = guests.image(f"microkernel-{architecture}")
        checked = mmulab.boot(image, machine, append=options, check=True)
        plain = mmulab.boot(image, machine, append=options)
        reports += len(checked.reports)
        if lines(checked.console, True) != lines(plain.console, True):
            wrong.append(f"{machine} differs from itself")
        outputs[machine] = (plain.exit, lines(plain.console, False))
    for architecture in QEMU:
        outputs[f"QEMU {QEMU[architecture]}"] = on_qemu(architecture, options)
    status, text = outputs["sa1100"]
    wrong += [where for where, output in outputs.items() if output != (status, text)]
    said = "; ".join(wrong) if wrong else "the same everywhere"
    print(f"| {program} | {scheme} | {status} | {reports} | {said} | {text[-1]} |", flush=True)
    return not wrong and not reports


def main() -> None:
    """Everything, or the programs named."""
    options = script_options(__doc__)
    options.add_argument("program", nargs="*", help="only these")
    names = options.parse_args().program
    known = {program.split()[0] for program in PROGRAMS}
    for name in set(names) - known:
        options.error(f"there is no program {name}: choose from {', '.join(sorted(known))}")
    programs = [p for p in PROGRAMS if not names or p.split()[0] in names]
    print("| program | scheme | status | reports | output | last line |")
    print("|---|---|---|---|---|---|")
    runs = [
        (program, scheme)
        for program in programs
        for scheme in SCHEMES
        if scheme not in REFUSED or REFUSED[scheme] not in program
    ]
    good = True
    for program, scheme in one_by_one("Comparing", runs, "programs and schemes"):
        good &= compare(program, scheme)
    sys.exit(not good)


if __name__ == "__main__":
    run_script(main)
