"""Linux boot and `hackbench -p -g 1 -l 100` on our ARM926EJ-S and on QEMU, in one run.

    arm.py --quick

Prints a Markdown table: seconds to the same point, the end of the command, and the instructions
that each executed on its own way there. These differ: a guest that waits for its timer executes as
many as fit into the wait, and QEMU's time passes in another way than ours. Seconds are processor
time, since the clock says more about what else the computer did. QEMU's instructions are counted by
a plugin (`qemu_count.c`), in a run that is not timed. Needs `make linux` and a C compiler. With
`--quick` each is timed once, without it three times, of which the fastest counts.
"""

import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "guests" / "linux"))

import run  # noqa: E402

from mmulab.command import run_script, script_options  # noqa: E402
from mmulab.output import one_by_one  # noqa: E402

COMMAND = "hackbench -p -g 1 -l 100"
MACHINE = "arm926ej-s"


def ours(**options):
    """Instructions and processor seconds on our machine."""
    started = time.process_time()
    result = run.ours(MACHINE, COMMAND, **options)
    if result.exit != 0 or result.reports:
        raise SystemExit(f"Linux did not end well: {result.end}")
    return result.instructions, time.process_time() - started


def qemu_seconds(icount):
    """Processor seconds on QEMU."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    console, _ = run.qemu(MACHINE, COMMAND, icount=icount)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    _check_end(console)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def qemu_instructions(icount, plugin):
    """Instructions that QEMU executes."""
    console, _ = run.qemu(MACHINE, COMMAND, icount=icount, options=["-plugin", str(plugin)])
    _check_end(console)
    count = re.search(r"^instructions: (\d+)$", console, re.MULTILINE)
    if count is None:
        raise SystemExit("QEMU's plugin did not count: is QEMU built with plugins?")
    return int(count[1])


def _check_end(console):
    if "exit status 0" not in console:
        raise SystemExit("Linux did not end well on QEMU")


def build_plugin(folder):
    """Compiles the plugin that counts; gives its path."""
    plugin = Path(folder) / "qemu_count.so"
    source = Path(__file__).with_name("qemu_count.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O2", "-o", plugin, source], check=True)
    return plugin


def main():
    options = script_options(__doc__)
    options.add_argument("--quick", action="store_true", help="time each once")
    rounds = 1 if options.parse_args().quick else 3
    packed = run.kernel(MACHINE) / "zImage"  # what QEMU boots

    def best(measure):
        return min((measure() for _ in range(rounds)), key=lambda pair: pair[1])

    def best_on_qemu(plugin, icount):
        seconds = min(qemu_seconds(icount) for _ in range(rounds))
        return qemu_instructions(icount, plugin), seconds

    with tempfile.TemporaryDirectory() as folder:
        plugin = build_plugin(folder)
        measures = [
            ("ours: caches with data, timing", lambda: best(ours)),
            ("ours with --check", lambda: best(lambda: ours(check=True))),
            ("ours from the zImage", lambda: best(lambda: ours(image=packed))),
            (
                "QEMU from the zImage, no model, virtual time fixed to instructions",
                lambda: best_on_qemu(plugin, icount=True),
            ),
            (
                "QEMU from the zImage, no model, the host's time",
                lambda: best_on_qemu(plugin, icount=False),
            ),
        ]
        rows = [(name, *measure()) for name, measure in one_by_one("Measuring", measures, "rows")]
    print("| Linux to hackbench's end | s | instructions executed |")
    print("|---|---:|---:|")
    for name, instructions, seconds in rows:
        print(f"| {name} | {seconds:.2f} | {instructions:,} |")


if __name__ == "__main__":
    run_script(main)
