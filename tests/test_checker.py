"""The checker only looks: with it a guest takes the same instructions and cycles to the same
end."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import VERSATILEPB, script

import mmulab
from mmulab import guests
from mmulab.papers.microkernel import boot


def same_but_for_the_checker(*runs: mmulab.BootResult) -> None:
    """Fails where anything but the speed and the reports differs."""
    one, other = (
        {key: value for key, value in run.data.items() if key != "checker"} for run in runs
    )
    assert one == other
    assert runs[0].console == runs[1].console


@pytest.mark.parametrize("machine", VERSATILEPB)
def test_programs_of_caches_tlbs_and_faults_run_alike(machine: str) -> None:
    images: list[Path] = [
        script("guests/timing/run.py").program(machine),
        script("guests/conformance/run.py").mmu_program(),
    ]
    for image in images:
        without, checked = (mmulab.boot(image, machine, check=check) for check in (False, True))
        assert without.exit == 0
        same_but_for_the_checker(without, checked)


@pytest.mark.parametrize("machine", VERSATILEPB)
def test_a_kernel_with_timer_interrupts_runs_alike(machine: str) -> None:
    guests.build("microkernel")
    runs = [boot(machine, "flush", "periodic", check=check).result for check in (False, True)]
    assert runs[0].exit == 0
    assert runs[0].data["events"]["exceptions"]["irq"] > 50
    same_but_for_the_checker(*runs)
