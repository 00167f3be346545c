"""Runs Linux under the checker, on all machines with all schemes, and adds up how long it ran.

    checked.py -m sa1100 --spaces fass --load stress
    checked.py --sum

Each run is a row of checked.csv, in place of an older one of the same machine, scheme and load.
`--sum` adds up the rows that are of the series as it is now. A second of the guest is what its
clock says; busy is what it does not wait for an interrupt. Needs `make linux-spaces`, and for the
load `swap` `make -C guests/linux OUT=$PWD/build/linux swap`.
"""

import csv
import fcntl
import hashlib
import itertools
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import run

from mmulab.command import run_script, script_options
from mmulab.output import one_by_one

TABLE = HERE / "checked.csv"
COLUMNS = (
    "machine", "scheme", "load", "series", "seconds", "busy_seconds", "instructions", "reports", "tolerated",
)  # fmt: skip
ARMV5 = ("arm926ej-s", "ixp425")
BENCHMARKS = (
    "export LAT_HOPS=40; lat ctx 0 2 8 24 && lat ctx 16 2 && lat pipe && lat fifo && lat unix && lat fcntl && "
    "lat fork && lat exec && lat sh && lat bw_pipe && lat bw_unix && lat extreme private 2 20 && "
    "lat extreme shared 2 20 && net reply 50 && net period 50 && storm pipes 2"
)
# Linked above 32 MB, which guaranteed FCSE refuses.
TEXT_HIGH = " && lat-text-high ctx 0 2 8"
HACKBENCH = "hackbench -p -g 1 -l 10 && hackbench -g 1 -l 10 && hackbench -T -g 1 -l 10 && cyclictest -q -l 500"
# What stands for it where Debian's programs, which are ARMv5TE, do not run.
STORMS = "storm pipes 10 && storm sockets 10 && storm threads 10"
# Kernels, programs and memory for the load `swap`: so little that there is something to reclaim.
WITH_SWAP = {"sa1100": "kernel-spaces-swap-v4"}
MEMORY_FOR_SWAP = {"memory.size_bytes": "24M"}
# What each load runs. `days` is a machine in daily use, which mostly waits.
LOADS = {
    "benchmarks": BENCHMARKS,
    "hackbench": HACKBENCH,
    "stress": "meet && stress 6 10 3 && attack 16",
    "long-stress": "for seed in $(seq 40); do stress 6 20 $seed || exit 1; done",
    "swap": "swap 15 3",
    "shares": "shares",
    "days": "for i in $(seq 20); do stress 2 1 $i > /tmp/said || exit 1; sleep 9; done",
}


def series():
    """What names the series as it is: a part of the hash of its files."""
    folder = HERE / "address_spaces"
    files = sorted([*(folder / "arch").rglob("*.[chS]"), *(folder / "patches").glob("*.patch")])
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:12]


def command_of(machine, scheme, load):
    """What the guest's shell runs."""
    if load == "benchmarks" and scheme != "fcse-guaranteed":
        return BENCHMARKS + TEXT_HIGH
    if load == "hackbench" and machine not in ARMV5:
        return STORMS
    return LOADS[load]


def kernel_name(machine, load):
    """The name of the folder with the kernel."""
    if load == "swap":
        return WITH_SWAP.get(machine, "kernel-spaces-swap-multi")
    return run.WITH_SPACES[machine]


def check(machine, scheme, load):
    """One run, as a row. A load that fails is an error, since its programs check themselves."""
    command, folder = command_of(machine, scheme, load), kernel_name(machine, load)
    settings = MEMORY_FOR_SWAP if load == "swap" else {}
    result = run.ours(
        machine, command, spaces=scheme, kernel_folder=folder, settings=settings, check=True
    )
    if result.exit != 0:
        raise run.failure(f"{machine}, {scheme}, {load}", result)
    for report in result.reports:
        print("tolerated: " * run.is_tolerated(report) + report["text"], file=sys.stderr)
    clock_hz = result.data["clock_hz"]
    idle = sum(result.data["causes"][cause]["cycles"] for cause in ("idle", "off"))
    tolerated = sum(map(run.is_tolerated, result.reports))
    return {
        "machine": machine, "scheme": scheme, "load": load, "series": series(),
        "seconds": f"{result.cycles / clock_hz:.1f}", "busy_seconds": f"{(result.cycles - idle) / clock_hz:.1f}",
        "instructions": result.instructions, "reports": len(result.reports) - tolerated, "tolerated": tolerated,
    }  # fmt: skip


def key(row):
    return (row["machine"], row["scheme"], row["load"])


def read():
    if not TABLE.exists():
        return {}
    with TABLE.open() as file:
        return {key(row): row for row in csv.DictReader(file)}


def add(row):
    """Writes a row into the table; several may do so at a time."""
    folder = os.open(HERE, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    rows = {**read(), key(row): row}
    part = TABLE.with_suffix(".part")
    with part.open("w") as file:
        table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        table.writeheader()
        table.writerows(rows[name] for name in sorted(rows))
    part.rename(TABLE)
    os.close(folder)


def add_up():
    rows = [row for row in read().values() if row["series"] == series()]
    print(
        "| machine | scheme | runs | minutes | busy seconds | million instructions | reports | tolerated |"
    )
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    pairs = {(row["machine"], row["scheme"]) for row in rows}
    for machine, scheme in [*sorted(pairs), ("all", "")]:
        some = [row for row in rows if machine == "all" or key(row)[:2] == (machine, scheme)]

        def total(column, some=some):
            return sum(float(row[column]) for row in some)

        print(
            f"| {machine} | {scheme and f'`{scheme}`'} | {len(some)} | {total('seconds') / 60:.1f} "
            f"| {total('busy_seconds'):.1f} | {total('instructions') / 1e6:,.0f} "
            f"| {total('reports'):.0f} | {total('tolerated'):.0f} |"
        )


def main():
    options = script_options(__doc__)
    options.add_argument(
        "-m",
        "--machine",
        action="append",
        choices=list(run.WITH_SPACES),
        help="this machine; may be repeated (default: all)",
    )
    options.add_argument(
        "--spaces",
        action="append",
        choices=run.SCHEMES,
        help="this scheme; may be repeated (default: all)",
    )
    options.add_argument(
        "--load",
        action="append",
        choices=list(LOADS),
        help="this load; may be repeated (default: all)",
    )
    options.add_argument(
        "--sum", action="store_true", help="add up what checked.csv holds, without a boot"
    )
    chosen = options.parse_args()
    if chosen.sum:
        if chosen.machine or chosen.spaces or chosen.load:
            options.error("--sum adds up all: give neither -m nor --spaces nor --load")
        add_up()
        return
    loads, machines = chosen.load or LOADS, chosen.machine or run.WITH_SPACES
    for load in loads:
        for machine in machines:
            run.need_to_boot(machine, kernel_name(machine, load), command=LOADS[load])
    cases = list(itertools.product(loads, machines, chosen.spaces or run.SCHEMES))
    for load, machine, scheme in one_by_one("Checking", cases, "boots"):
        row = check(machine, scheme, load)
        print(*row.values(), flush=True)
        add(row)


if __name__ == "__main__":
    run_script(main)
