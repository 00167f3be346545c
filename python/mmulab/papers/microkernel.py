"""The microkernel of `guests/microkernel` as the papers' modules run it: boot, read the
measurements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cached_property
from typing import Any, Protocol, TypeVar

import mmulab
from mmulab import guests
from mmulab.errors import InputError
from mmulab.output import progress, shows_progress
from mmulab.replaying import ProgressCallback

ARCHITECTURES = {
    "sa1100": "armv4",
    "at91rm9200": "armv4",
    "ixp425": "armv5te",
    "arm926ej-s": "armv5te",
}
LAP_PHASE = "measured"
"""What the programs call the phase of a lap; the first is the one that is told."""
LEAST_PART = 2000
"""Repetitions that are enough to tell what the others take; the first thousand calls of `run=fuzz`
prepare it."""
MAX_OPTION = 0x0FFFFFFF * 10 + 9
"""The largest number that the programs take for an option (`option_number` of
guests/microkernel/user/system.c)."""
SCHEMES = ["flush", "fass", "fass_shared", "fcse_guaranteed", "fcse_best_effort"]


def machine_and_scheme(words: str) -> tuple[str, str]:
    """Both of a run that is named as "sa1100/fass"; raises `InputError` where one is not known."""
    machine, _, scheme = words.partition("/")
    if machine not in ARCHITECTURES or scheme not in SCHEMES:
        raise InputError(
            f"{words}: name a run as sa1100/fass; machines: {', '.join(ARCHITECTURES)}; "
            f"schemes: {', '.join(SCHEMES)}"
        )
    return machine, scheme


@dataclasses.dataclass(frozen=True)
class Guest:
    """One finished run."""

    result: mmulab.BootResult
    clock_hz: int

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The measurements of a name: the guest's lines "= name key=value ..."."""
        found = []
        for line in self.result.console.splitlines():
            words = line.split()
            if words[:2] != ["=", name]:
                continue
            pairs = (word.split("=", 1) for word in words[2:])
            found.append({key: int(value) if value.isdigit() else value for key, value in pairs})
        return found

    @cached_property
    def lap(self) -> dict[str, Any]:
        """The measured lap of a benchmark that has one."""
        for name in ("pingpong", "extreme", "ring", "storm", "library"):
            if found := self.lines(name):
                return found[0]
        raise InputError(f"the guest printed no measurement: {self.result.console[-300:]!r}")

    @property
    def cycles(self) -> float:
        """Cycles for each unit of the lap: round trip, visit, hop or message."""
        return self.lap["cycles"] / self.lap["per"]

    @property
    def microseconds(self) -> float:
        """The same as time."""
        return self.cycles / self.clock_hz * 1e6

    def lap_count(self, cause: str) -> int:
        """How often the machine itself counted a cause during the lap, whatever the guest says."""
        lap = next(phase for phase in self.result.data["phases"] if phase["name"] == LAP_PHASE)
        return lap["causes"][cause]["count"]

    def per(self, what: str) -> float:
        """Misses or instructions for each unit."""
        return self.lap[what] / self.lap["per"]


def boot(
    machine: str | mmulab.Machine, scheme: str, run: str, *, check: bool = False, **options: object
) -> Guest:
    """Boots the kernel with a scheme and a benchmark program; see `guests/bench`."""
    if isinstance(machine, str):
        machine = mmulab.Machine.load(machine)
    image = guests.image(f"microkernel-{ARCHITECTURES[machine.name]}")
    words = [f"scheme={scheme}", f"run={run}"]
    words += [f"{name}={value}" for name, value in options.items()]
    result = mmulab.boot(image, machine, append=" ".join(words), check=check)
    if result.exit != 0:
        said = result.console[-300:]
        raise InputError(f"the guest failed ({' '.join(words)} on {machine.label}): {said!r}")
    clock_hz = int(str(machine.get("core.clock_hz")))
    return Guest(result, clock_hz)


class Executed(Protocol):
    """What came of a run."""

    @property
    def instructions(self) -> int: ...


Run = TypeVar("Run", bound=Executed)


def run_with_time_left(count: int, run: Callable[[int, ProgressCallback], Run]) -> Run:
    """Runs a program that does something `count` times, `run(count, progress)`, beside a bar with
    the time left.

    How many instructions that takes nobody knows beforehand. So a fiftieth of the count is run
    first, and half of that, and all other repetitions are taken to need as many each as those in
    between. A count that is hardly more than these has no time left, and where no bar is seen
    nothing is run first.
    """
    part = max(count // 50, LEAST_PART)
    expected = None
    if shows_progress() and count >= 4 * part:
        with progress("Estimating") as report:
            half, whole = (
                run(some, lambda instructions, _: report(instructions, None)).instructions
                for some in (part // 2, part)
            )
        expected = whole + (whole - half) * (count - part) // (part - part // 2)
    with progress("Running") as report:
        return run(count, lambda instructions, _: report(instructions, expected))
