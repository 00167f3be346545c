"""Measures the computer that it runs on and describes it as a machine."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mmulab import arrow as pa
from mmulab.calibrate.findings import Findings, Value, find
from mmulab.calibrate.machine_file import machine_file
from mmulab.calibrate.reported import Reported, reported
from mmulab.calibrate.series import SAMPLES, Measurements, Point, Progress, measure
from mmulab.files import replacing
from mmulab.limits import whole_number

__all__ = [
    "BUSY_LOAD",
    "SAMPLES",
    "Calibration",
    "Findings",
    "Measurements",
    "Point",
    "Value",
    "calibrate",
]


@dataclass(frozen=True)
class Calibration:
    """A computer as it was measured."""

    reported: Reported
    measured: Measurements
    findings: Findings

    def machine_file(self) -> str:
        """The text of a machine's file."""
        return machine_file(self.measured, self.reported, self.findings)

    def data(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return dataclasses.asdict(self)

    def table(self) -> pa.Table:
        """The values, one row each: path in the machine's file, value, how it was found, what was
        measured and what the processor reports."""
        rows = self.findings.values.items()
        return pa.table(
            {
                "path": pa.array([path for path, _ in rows], pa.string()),
                "value": pa.array([str(value.value) for _, value in rows], pa.string()),
                "source": pa.array([value.source for _, value in rows], pa.string()),
                "measured": pa.array([value.measured for _, value in rows], pa.float64()),
                "reported": pa.array([value.reported for _, value in rows], pa.int64()),
            }
        )

    def write(self, directory: Path) -> None:
        """Writes `machine.toml` and `calibration.json` into a folder."""
        with replacing(directory / "machine.toml") as file:
            file.write(self.machine_file().encode())
        with replacing(directory / "calibration.json") as file:
            file.write((json.dumps(self.data(), indent=1) + "\n").encode())


BUSY_LOAD = 1.0
"""The load average from which on others use the caches that are measured."""


def calibrate(samples: int = SAMPLES, progress: Progress | None = None) -> Calibration:
    """Measures this computer on one core (two for shootdowns), for a minute or more.

    `progress` gets points done and points in all. Raises `MmulabError` where no levels can be told
    apart, as on a busy computer, and `InputError` for less than 3 or more than 1000 `samples` of a
    point.
    """
    samples = whole_number("samples", samples, 3, 1000)
    says, load = reported(), os.getloadavg()[0]
    largest = max((cache.size_bytes for cache in says.caches), default=32 << 20)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        measured = measure(largest, samples, progress)
    finally:
        os.sched_setaffinity(0, allowed)
    found = find(measured, says)
    if load > BUSY_LOAD:
        found.notes.append(
            f"the computer was busy (load {load:.1f}): shared caches look smaller than they are"
        )
    return Calibration(says, measured, found)
