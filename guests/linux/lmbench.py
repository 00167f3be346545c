"""Debian's lmbench on Linux with address spaces, beside our programs with its protocols.

    lmbench.py --spaces fcse-best-effort --spaces fass

Prints a Markdown table with lmbench's result in the unmodified kernel and with each scheme, and
that of `lat` in brackets. lmbench's programs are dynamically linked, so that fork and exec cost
them more; they are ARMv5TE. Needs `make linux-spaces`, and of guests/linux the targets `plain` and
`lmbench`.
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import measure
import run

from mmulab.command import run_script, script_options
from mmulab.output import one_by_one

PROCESSES = (2, 8, 24)
# The least time of a measurement, in microseconds, and no measurement of the clock, which has no
# noise here.
SETTINGS = "export ENOUGH=20000 TIMING_O=0 LOOP_O=0"
# Less lat_fifo, whose child of each measurement goes on when its parent has ended, and complains
# for ever.
COMMANDS = (
    f"lat_ctx -N 3 -s 0 {' '.join(map(str, PROCESSES))}", "lat_pipe -N 3", "lat_unix -N 3",
    "lat_fcntl -N 3", "lat_proc -N 3 fork", "lat_proc -N 3 exec", "lat_proc -N 3 shell",
    "bw_pipe -N 3", "bw_unix -N 3",
)  # fmt: skip
# What lmbench prints before a result, and what `lat` calls it.
RESULTS = {
    **{str(count): f"ctx 0 KB {count} processes, us" for count in PROCESSES},
    "Pipe latency:": "pipe, us",
    "AF_UNIX sock stream latency:": "unix, us",
    "Fcntl lock latency:": "fcntl, us",
    "Process fork+exit:": "fork, us",
    "Process fork+execve:": "exec, us",
    "Process fork+/bin/sh -c:": "sh, us",
    "Pipe bandwidth:": "bw_pipe, MB/s",
    "AF_UNIX sock stream bandwidth:": "bw_unix, MB/s",
}
RESULT = re.compile(rf"^({'|'.join(map(re.escape, RESULTS))}) ([\d.]+)", re.M)
# The same by `lat`.
BENCHMARKS = [
    f"ctx 0 {' '.join(map(str, PROCESSES))}",
    *(name for name in measure.SET[2:] if name != "fifo"),
]


def results(console):
    """What lmbench printed, by the names that `lat` has for it."""
    found = RESULT.findall(console.replace("\r", ""))
    return {RESULTS[words]: float(value) for words, value in found}


def lmbench(machine, kernel):
    """lmbench's results in a kernel."""
    result = run.ours(
        machine,
        f"{SETTINGS}; {' && '.join(COMMANDS)}",
        spaces=None if kernel == measure.UNMODIFIED else kernel,
        kernel_folder=measure.folder_of(machine, kernel),
        initrd=run.built("initrd-lmbench.cpio"),
    )
    found = results(result.console)
    if not result.succeeded or len(found) < len(RESULTS):
        raise run.failure(f"{machine}, {kernel}", result)
    return found


def main():
    options = script_options(__doc__)
    options.add_argument(
        "-m",
        "--machine",
        default="ixp425",
        choices=["arm926ej-s", "ixp425"],
        help="the machine (default: %(default)s)",
    )
    options.add_argument(
        "--spaces",
        action="append",
        choices=run.SCHEMES,
        help="this scheme beside the unmodified kernel; may be repeated (default: all)",
    )
    chosen = options.parse_args()
    kernels = [measure.UNMODIFIED, *(chosen.spaces or run.SCHEMES)]
    measure.need_kernels(chosen.machine)
    run.need("initrd-lmbench.cpio")
    columns = []
    for kernel in one_by_one("Running lmbench, then ours", kernels, "kernels"):
        print(f"{chosen.machine}, {kernel}", file=sys.stderr)
        theirs = lmbench(chosen.machine, kernel)
        columns.append((theirs, measure.measure(chosen.machine, kernel, BENCHMARKS)))
    print("|", "|", *(f"{kernel} |" for kernel in kernels))
    print("|---|" + "---:|" * len(kernels))
    for name in RESULTS.values():
        print(
            f"| {name} |",
            *(f"{theirs[name]:,.1f} ({ours[name]:,.1f}) |" for theirs, ours in columns),
        )


if __name__ == "__main__":
    run_script(main)
