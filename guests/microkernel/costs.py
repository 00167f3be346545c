"""What the kernel's paths cost on the SA-1100, measured by the programs themselves.

.venv/bin/python guests/microkernel/costs.py      prints the size, the paths and the working set of docs/microkernel.md
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from mmulab import guests
from mmulab.command import run_script, script_options
from mmulab.output import one_by_one
from mmulab.papers.microkernel import Guest, boot

MACHINE = "sa1100"
SCHEMES = {
    "flush": "flush",
    "fass": "fass",
    "fcse_guaranteed": "fcse guaranteed",
    "fcse_best_effort": "fcse best effort",
}
EVENTS = {
    "null system call": "null_call",
    "map a fresh page (zeroed, uncached)": "map_page",
    "copy-on-write fault (4 KB copied, uncached)": "copy_on_write",
    "unmap a page that is cached": "unmap_page",
    "create a space with a process": "space_create",
    "destroy it": "space_destroy",
    "map a page above 32 MB (0x90000000): growth": "map_above_32_mb",
    "first touch of it": "grown_first_touch",
    "the same, where another space has lines": "collision_dirty",
    "round trip that recycles a dirty domain (median)": "round_trip_recycled_dirty",
    "round trip to one of 100 spaces (median)": "round_trip_other",
    "the same, where another space with its PID ran last": "round_trip_flushed",
    "first write to a shared page": "shared_first_write",
    "round trip after written sharing": "round_trip_after_written_sharing",
}
PATHS = {
    "round trip of two spaces, 1 client": {"clients": 1},
    "the same with 14 clients": {"clients": 14},
    "the same with 40 clients": {"clients": 40},
    "1 client, by the general path in C": {"clients": 1, "path": "general"},
}


def table(head: list[str], rows: list[list[str]]) -> None:
    """Markdown."""
    for row in [head, ["---"] * len(head), *rows]:
        print("| " + " | ".join(row) + " |")
    print()


def sizes() -> None:
    """Bytes of each section of the kernel."""
    listing = subprocess.run(
        ["arm-none-eabi-size", "-A", guests.image("microkernel-armv4")],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = [line.split()[:2] for line in listing.splitlines() if line.startswith(".")]
    found = [row for row in found if not row[0].startswith((".debug", ".comment", ".ARM"))]
    table(["section", "bytes"], [[name, f"{int(size):,}"] for name, size in found])


def event(guest: Guest, name: str) -> str:
    """Cycles of an event, and the flushes that came with it."""
    found = [row for row in guest.lines("event") if row["name"] == name]
    if not found:
        return ""
    flushes = max(row["flushes"] for row in found)
    cycles = f"{statistics.median(row['cycles'] for row in found):,.0f}"
    return cycles if not flushes else f"{cycles} ({flushes} flush{'es' if flushes > 1 else ''})"


def working_set(guest: Guest) -> list[str]:
    """Lines and translations missed for each switch, two to a round trip."""
    flushed = 256 * guest.lap["flushes"] / guest.lap["per"]
    data = max(0.0, guest.per("dcache") - flushed)
    both = guest.per("icache"), data, guest.per("itlb"), guest.per("dtlb")
    return [f"{misses / 2:.1f}" for misses in both]


def main() -> None:
    """All of it."""
    script_options(__doc__).parse_args()
    sizes()
    rows = []
    for said, options in one_by_one("Measuring", list(PATHS.items()), "paths"):
        print(said, file=sys.stderr)
        laps = [boot(MACHINE, name, "pingpong", rounds=10_000, **options) for name in SCHEMES]
        rows.append([said, *(f"{lap.cycles:,.0f}" for lap in laps)])
    print("events", file=sys.stderr)
    ran = {name: boot(MACHINE, name, "events") for name in SCHEMES}
    for said, name in EVENTS.items():
        rows.append([said, *(event(guest, name) for guest in ran.values())])
    table(["path", *SCHEMES.values()], rows)
    rows = []
    for clients in (1, 40):
        print(f"working set, {clients} clients", file=sys.stderr)
        for name, scheme in SCHEMES.items():
            lap = boot(MACHINE, name, "pingpong", rounds=10_000, clients=clients)
            rows.append([scheme, str(clients), *working_set(lap)])
    table(["scheme", "clients", "I-lines", "D-lines", "I-TLB", "D-TLB"], rows)


if __name__ == "__main__":
    run_script(main)
