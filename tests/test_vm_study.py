"""The reproduction of the 1998 study: its inputs, and the evaluation of its claims.

The claims are evaluated on two worlds made by formula, one in which the paper is right throughout
and one in which it is wrong, so that no evaluation can say the same of both.
"""

import hashlib
import math

import pytest

from mmulab import papers
from mmulab.causes import BY_NAME
from mmulab.papers import study_programs, vm_study_1998
from mmulab.papers.vm_study_cells import KIB, Cell, Cells, Configuration
from mmulab.papers.vm_study_claims import evaluate
from mmulab.papers.vm_study_experiments import EXPERIMENTS, Evidence

INSTRUCTIONS = 100_000_000
SIZES = {"gcc-like": 1.0, "vortex-like": 1.0, "ijpeg-like": 0.03}


def in_cycles(instructions: float) -> int:
    return round(instructions * INSTRUCTIONS)


def paper_world(program: str, configuration: Configuration) -> Cell:
    """A world after the paper's sentences: powers of sizes, nothing simulated."""
    c = configuration
    name = c.organisation
    vortex = program == "vortex-like"
    l1, l2 = c.l1_bytes / (8 * KIB), c.l2_bytes / (512 * KIB)
    scale = SIZES[program]
    protected = 16 if name in ("ultrix", "mach") else 0
    # 112 slots for 128 shorten the path by 30%: the exponent is log 0.7 / log (112 / 128).
    misses = scale / 450 * (128 / (c.tlb_entries - protected)) ** 2.67
    if name == "notlb":
        misses = scale / 85 * (64 / c.l2_line_bytes) ** 0.7 / l2
    if name == "base":
        misses = 0.0
    # Level-1 lines matter with small caches, level-2 lines hardly.
    line = (32 / c.l1_line_bytes) ** (0.9 / (1 + l1 / 8))
    if c.l1_line_bytes == 128 and l1 < 1:
        line *= 0.9 if name == "pa-risc" else 2.0
    if name == "pa-risc":
        line **= 0.1
    length = {"ultrix": 10, "mach": 10, "intel": 7, "pa-risc": 20, "inverted-hw": 5, "notlb": 10}
    causes = {"issue": (INSTRUCTIONS, INSTRUCTIONS)}

    def charge(cause: str, per_instruction: float, cycles: int) -> None:
        if per_instruction:
            count = in_cycles(per_instruction)
            causes[cause] = (count, count * cycles)

    charge("uhandler", misses, length.get(name, 0))
    falls = (0.0 if not vortex else math.log(0.2) if name == "pa-risc" else math.log(0.5)) / (
        math.log(16)
    )
    charge("upte-L2", misses * 0.6 * line * l1**falls, 20)
    charge("upte-MEM", misses * (0.03 if program != "ijpeg-like" else 0.2), 500)
    if name == "pa-risc" and program == "ijpeg-like":
        charge("handler-MEM", misses * 0.2, 500)
    if name == "intel":
        charge("rpte-L2", misses * 0.6 * line / (1 + l1**2 / 4), 20)
    if name == "mach":
        charge("rpte-MEM", misses * (0.004 if program != "ijpeg-like" else 0.05), 500)
    more = {"gcc-like": 0.05, "vortex-like": 0.2, "ijpeg-like": 0.05}[program]
    if name == "base":
        more = 0.0
    elif name == "inverted-hw":
        more *= 0.9
    elif name == "intel":
        more *= 0.95
    base = scale * 0.015
    charge("L1i-miss", base / l1, 20)
    charge("L1d-miss", base * (1 + 2 * more) / l1, 20)
    charge("L2d-miss", base / 60 / l2, 500)
    taken = 0 if name in ("intel", "inverted-hw", "base") else in_cycles(misses)
    if program != "ijpeg-like" and taken and name != "notlb":
        taken = INSTRUCTIONS // 20_000
    tlb_misses = 0 if name in ("notlb", "base") else in_cycles(misses)
    chain = 1.3 if name == "pa-risc" else None
    return Cell(program, c, INSTRUCTIONS, taken, tlb_misses, causes, chain)


def world(make) -> Cells:
    return Cells(
        make(program, configuration)
        for program in SIZES
        for configuration in vm_study_1998.configurations(program, full=True)
    )


def claims_in(make) -> dict[str, papers.Claim]:
    evidence = Evidence(
        {
            (program, experiment.name): make(program, experiment.configuration)
            for program in SIZES
            for experiment in EXPERIMENTS
        }
    )
    claims = evaluate(world(make), evidence, papers.published_claims("vm_study_1998"))
    return {claim.id: claim for claim in claims}


@pytest.fixture(scope="module")
def right() -> dict[str, papers.Claim]:
    return claims_in(paper_world)


def wrong_world(program: str, configuration: Configuration) -> Cell:
    """Caches change nothing; translation costs many times more, INTEL's most."""
    cell = paper_world(program, Configuration("pa-risc", 128 * KIB, 2048 * KIB, 16, 16))
    factor = {"intel": 200, "mach": 60}.get(configuration.organisation, 20)
    causes = {
        cause: (factor * count, factor * cycles) if BY_NAME[cause].group == "translation" else it
        for cause, it in cell.causes.items()
        for count, cycles in [it]
    }
    return Cell(program, configuration, INSTRUCTIONS, 1, 1, causes, 9.0)


def test_every_claim_is_evaluated_in_order(right):
    assert list(right) == list(papers.published_claims("vm_study_1998"))
    assert all(claim.ours for claim in right.values())


@pytest.mark.parametrize("number", range(1, 24))
def test_the_claim_holds_where_the_paper_is_right(right, number):
    claim = right[f"vm98-{number:02}"]
    assert claim.verdict == "holds", claim.ours


def test_no_claim_holds_where_the_paper_is_wrong():
    claims = claims_in(wrong_world)
    assert [claim.id for claim in claims.values() if claim.verdict == "holds"] == []
    assert all(claim.why for claim in claims.values())


def test_inputs_are_the_same_everywhere(tmp_path):
    study_programs.programs(tmp_path, study_programs.QUICK)
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        for path in sorted(tmp_path.iterdir())
    }
    assert digests == {
        "picture.ppm": "d188662a49a19ee5",
        "script.sql": "e917b1962ce60ba3",
        "source.c": "10d57b18489ad836",
    }


def test_a_missing_program_is_named_with_its_package():
    with pytest.raises(study_programs.MissingProgram, match="apt install no-such-package"):
        study_programs.find("no-such-program", "no-such-package")
