"""The checker reports each program that lacks a maintenance operation, and not its twin."""

from __future__ import annotations

import pytest
from conftest import script

import mmulab

mutants = script("guests/mutants/run.py")

CASES = [
    (mutant, machine)
    for mutant in mutants.MUTANTS
    for machine in mutant.machines
    if machine in mmulab.machine_names("system")
]


@pytest.mark.parametrize(
    ("mutant", "machine"), CASES, ids=[f"{mutant.name}-{machine}" for mutant, machine in CASES]
)
def test_mutant_is_reported_and_its_twin_is_not(mutant, machine: str) -> None:
    assert mutants.judge(mutant, machine) is None


def test_only_a_thousand_causes_are_kept_and_that_is_said(tmp_path) -> None:
    # Each store makes one word stale, and each is a cause of its own.
    source = tmp_path / "many.c"
    source.write_text(
        '#include "machine.h"\n'
        "void many(void)\n"
        "{\n"
        "    map(VIEW, PAGE_A, READ_WRITE | CACHED);\n"
        "    for (word at = 0; at < 4096; at += 4)\n"
        "        (void)*(volatile word *)(VIEW + at);\n"
        '    __asm__ volatile(".set at, 0\\n .rept 1001\\n str %0, [%0, #at]\\n"\n'
        '                     ".set at, at + 4\\n .endr" : : "r"(UNCACHED + PAGE_A) : "memory");\n'
        "    for (word at = 0; at < 4004; at += 4)\n"
        "        use(VIEW + at);\n"
        "}\n"
    )
    number, cpu = mutants.CORES["sa1100"]
    here = mutants.HERE
    program = mutants.oracle.compile(
        "mutants/many",
        [here / "start.S", here / "set_up.c", source],
        [f"-mcpu={cpu}", f"-DCORE={number}", "-O1", "-Wl,--defsym=program=many", f"-I{here}"],
        here / "link.ld",
    )
    result = mmulab.boot(program, "sa1100", check=True, max_instructions=2_000_000)
    assert len(result.reports) == 1000
    said = "of the checker's reports only those of the first 1000 causes are kept"
    assert said in result.data["notes"]
