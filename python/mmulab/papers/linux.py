"""Linux with address spaces, as the papers' modules run it where it is built
(`make linux-spaces`)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import mmulab
from mmulab import guests
from mmulab.errors import MmulabError
from mmulab.papers import Run

KERNELS = {
    "sa1100": ("kernel-spaces-v4", "initrd-v4.cpio"),
    "at91rm9200": ("kernel-spaces-multi", "initrd-v4.cpio"),
    "ixp425": ("kernel-spaces-multi", "initrd.cpio"),
}
"""Folder of the kernel and initial RAM disk for each machine of the papers."""
BUILD = "Linux with address spaces is not built; in a checkout: make linux-spaces"
RESULT = re.compile(r"^lat (.+?): (-?[\d.]+) (us|MB/s)", re.M)
LATENCY = re.compile(r"Min: *(\d+) .*Avg: *(\d+) Max: *(\d+)")
PACKETS = re.compile(r"^net (\w+): .* average (-?[\d.]+) most [\d.]+ deviation ([\d.]+) us", re.M)
STORM = re.compile(r"^storm of .* 0 failed, time ([\d.]+) s", re.M)
SWITCHES = re.compile(r"^ctxt (\d+)", re.M)
"""What `/proc/stat` says of context switches."""

Rows = list[dict[str, Any]]
"""One measured value each: machine, scheme, benchmark, value, unit."""


def folder() -> Path | None:
    """Where `make linux-spaces` leaves what it builds, in a checkout."""
    return (
        guests.SOURCES.resolve().parent / "build" / "linux" if guests.SOURCES.is_symlink() else None
    )


def is_built(machine: str) -> bool:
    """Whether the kernel of a machine is there."""
    built = folder()
    return built is not None and (built / KERNELS[machine][0] / "Image").exists()


def inputs() -> list[Path]:
    """The files that the runs boot, of the machines whose kernel is there."""
    built = folder()
    names = {name for machine in KERNELS if is_built(machine) for name in KERNELS[machine]}
    if built is None or not names:
        return []
    paths = [built / name for name in sorted(names)]
    return [built / "board.dtb", *(path / "Image" if path.is_dir() else path for path in paths)]


def boot(machine: str, scheme: str, command: str) -> str:
    """Runs a command of the guest's shell under a scheme, and gives what it printed.

    Raises `MmulabError` where it fails: these programs check themselves.
    """
    built = folder()
    assert built is not None
    kernel, initrd = KERNELS[machine]
    result = mmulab.boot(
        built / kernel / "Image",
        machine,
        dtb=built / "board.dtb",
        initrd=built / initrd,
        append=f'console=ttyAMA0 address_spaces={scheme} mmulab.run="{command}"',
    )
    if result.exit != 0:
        raise MmulabError(f"{machine}, {scheme}: {command} failed: {result.console[-300:]}")
    return result.console


def measure(run: Run, machine: str, scheme: str, command: str) -> Rows:
    """What the programs of a command measured."""
    run.progress(f"Linux, {scheme}, on {machine}: {command}")
    console = boot(machine, scheme, command)
    found = [(name, float(value), unit) for name, value, unit in RESULT.findall(console)]
    for least, average, most in LATENCY.findall(console):
        found += [
            (f"cyclictest {name}", float(value), "us")
            for name, value in (("least", least), ("average", average), ("most", most))
        ]
    for name, average, deviation in PACKETS.findall(console):
        found += [
            (f"{name} average", float(average), "us"),
            (f"{name} deviation", float(deviation), "us"),
        ]
    if times := STORM.findall(console):
        found.append(("storm", max(map(float, times)), "s"))
    if switches := SWITCHES.findall(console):
        found.append(("switches since boot", float(switches[-1]), ""))
    return [
        {"machine": machine, "scheme": scheme, "benchmark": name, "value": value, "unit": unit}
        for name, value, unit in found
    ]


def values(rows: Rows) -> dict[tuple[str, str], float]:
    """The values by scheme and benchmark."""
    return {(row["scheme"], row["benchmark"]): row["value"] for row in rows}


def ring(kilobytes: int, processes: int) -> str:
    """The name of a point of lat_ctx."""
    return f"ctx {kilobytes} KB {processes} processes"
