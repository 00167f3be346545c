"""Linux boot and `hackbench -p -g 1 -l 100` on our ARM926EJ-S and on QEMU, in one run.

Prints a Markdown table. Seconds are processor time, since the clock says more about what else the
computer did. Needs `make linux`.
"""

import resource
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "guests" / "linux"))

import run  # noqa: E402

COMMAND = "hackbench -p -g 1 -l 100"
MACHINE = "arm926ej-s"


def ours(**options):
    """Instructions and processor seconds on our machine."""
    started = time.process_time()
    result = run.ours(MACHINE, COMMAND, **options)
    if result.exit != 0 or result.reports:
        raise SystemExit(f"Linux did not end well: {result.end}")
    return result.instructions, time.process_time() - started


def qemu(icount):
    """Processor seconds on QEMU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    console, _ = run.qemu(MACHINE, COMMAND, icount=icount)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if "exit status 0" not in console:
        raise SystemExit("Linux did not end well on QEMU")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    rounds = 1 if "--quick" in sys.argv else 3
    packed = run.kernel(MACHINE) / "zImage"  # what QEMU boots
    unpacking = min((ours(image=packed) for _ in range(rounds)), key=lambda pair: pair[1])
    timed = min((ours() for _ in range(rounds)), key=lambda pair: pair[1])
    checked = min((ours(check=True) for _ in range(rounds)), key=lambda pair: pair[1])
    free, counted = (min(qemu(icount) for _ in range(rounds)) for icount in (False, True))
    print("| Linux to hackbench's end | instructions | s | million instructions a second |")
    print("|---|---:|---:|---:|")
    for name, (instructions, seconds) in (
        ("ours: caches with data, timing", timed),
        ("ours with --check", checked),
        ("ours from the zImage", unpacking),
        (
            "QEMU from the zImage, no model, virtual time fixed to instructions",
            (unpacking[0], counted),
        ),
        ("QEMU from the zImage, no model", (unpacking[0], free)),
    ):
        print(f"| {name} | {instructions:,} | {seconds:.2f} | {instructions / seconds / 1e6:.1f} |")


if __name__ == "__main__":
    main()
