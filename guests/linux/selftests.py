"""Runs the kernel's own tests of memory and processes on the unmodified kernel and with address
spaces.

    selftests.py -m ixp425 --spaces fass

Prints each test that says something else than on the unmodified kernel, less numbers and addresses,
and the counts of all. Needs `make linux-spaces`, and of guests/linux the targets `plain` and
`selftests`.
"""

import difflib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import measure
import run

from mmulab.command import run_script, script_options
from mmulab.output import one_by_one

TIMEOUT_SECONDS = 20
# Also of each thread: those of glibc, 8 MB, are too many for 32 MB.
STACK_KILOBYTES = 256
PART = re.compile(r"^selftest (\S+) begins\n(.*?)^selftest \1 status (\d+)\n", re.M | re.S)
POINT = re.compile(r"^\s*(ok|not ok)\b(?:.*# (SKIP))?", re.M)


def boot(machine, scheme, names):
    """What each test printed, and its status; with no scheme, on the unmodified kernel."""
    tests = " ".join(names) or "*"
    command = (
        f"cd /selftests; ulimit -s {STACK_KILOBYTES}; for t in {tests}; do echo selftest $t begins; "
        f"timeout {TIMEOUT_SECONDS} ./$t < /dev/null 2>&1; s=$?; echo; echo selftest $t status $s; done"
    )
    result = run.ours(
        machine,
        command,
        spaces=scheme,
        kernel_folder=measure.folder_of(machine, scheme or measure.UNMODIFIED),
        initrd=run.built("initrd-selftests.cpio"),
    )
    if not result.succeeded:
        raise run.failure(f"{machine}, {scheme or 'unmodified'}", result)
    console = result.console.replace("\r", "")
    return {name: (said, int(status)) for name, said, status in PART.findall(console)}


def comparable(said):
    """What a test says less the kernel's messages, numbers, and who of several processes speaks
    first."""
    lines = [line for line in said.splitlines() if not re.match(r"\[ *\d+\.\d+\]", line)]
    return sorted(
        re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{8}\b|\d+", "N", line) for line in lines if line.strip()
    )


def counts(tests):
    """Tests that end with status 0, and points that pass, fail and are skipped, in words."""
    points = [point for said, _ in tests.values() for point in POINT.findall(said)]
    passed = sum(1 for verdict, skip in points if verdict == "ok" and not skip)
    skipped = sum(1 for _, skip in points if skip)
    ended = sum(1 for _, status in tests.values() if status == 0)
    return (
        f"{len(tests)} tests, {ended} with status 0; {len(points)} points: {passed} pass, "
        f"{skipped} are skipped, {len(points) - passed - skipped} fail"
    )


def main():
    options = script_options(__doc__)
    options.add_argument(
        "-m",
        "--machine",
        default="arm926ej-s",
        choices=["arm926ej-s", "ixp425"],
        help="the machine (default: %(default)s)",
    )
    options.add_argument(
        "--spaces",
        action="append",
        choices=run.SCHEMES,
        help="the scheme of address spaces; may be repeated (default: all)",
    )
    options.add_argument("test", nargs="*", help="only these tests (default: all)")
    chosen = options.parse_args()
    measure.need_kernels(chosen.machine)
    run.need("initrd-selftests.cpio")
    listed = run.built("initrd-selftests.cpio").with_suffix(".list").read_text()
    names = re.findall(r"^file /selftests/(\S+)", listed, re.M)
    if unknown := [name for name in chosen.test if name not in names]:
        options.error(f"no test is called {unknown[0]}: choose from {', '.join(names)}")
    usual, differ = None, 0
    for scheme in one_by_one("Testing", [None, *(chosen.spaces or run.SCHEMES)], "kernels"):
        found = boot(chosen.machine, scheme, chosen.test)
        print(f"{scheme or measure.UNMODIFIED}: {counts(found)}", flush=True)
        usual = usual or found
        for name in sorted(usual.keys() | found.keys()):
            here, there = found.get(name, ("", -1)), usual.get(name, ("", -1))
            sides = [[*comparable(said), f"status {status}"] for said, status in (there, here)]
            if sides[0] != sides[1]:
                differ += 1
                print(
                    *difflib.unified_diff(*sides, name, f"{name}, {scheme}", lineterm="", n=0),
                    sep="\n",
                )
    sys.exit(differ > 0)


if __name__ == "__main__":
    run_script(main)
