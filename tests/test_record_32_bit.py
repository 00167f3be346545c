"""Recording 32-bit programs, where the compiler and the recorder can."""

import re
import subprocess
from pathlib import Path

import pytest

import mmulab
from mmulab.papers import study_programs
from mmulab.recording import tool_directory

SOURCE = Path(study_programs.__file__).with_name("object_store.c")


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """A program of 32 bits."""
    path = tmp_path_factory.mktemp("program") / "object_store"
    compiled = subprocess.run(
        ["gcc", "-m32", "-O2", "-static", "-o", path, SOURCE], capture_output=True, check=False
    )
    if compiled.returncode != 0 or not (tool_directory() / "mmulab-x86-linux").exists():
        pytest.skip("needs the Debian package gcc-multilib, and `make recorder` after it")
    return path


def test_a_32_bit_program_is_recorded_as_valgrinds_own_tool_counts_it(program, tmp_path):
    command = [str(program), "500", "2"]
    recorded = mmulab.record(command, tmp_path / "t.mmt")
    counted = subprocess.run(
        ["valgrind", "--tool=lackey", *command], capture_output=True, text=True, check=True
    ).stderr
    instructions = int(re.search(r"guest instrs:\s+([\d,]+)", counted)[1].replace(",", ""))
    # Lackey counts a block whole that is left in its middle.
    assert recorded.instructions == pytest.approx(instructions, rel=1e-3)
    assert recorded.loads > 1000 and recorded.stores > 1000
    [result] = mmulab.replay(recorded.path, "ultrix")
    assert result.instructions == recorded.instructions
    assert mmulab.miss_curves(recorded.path).curve("unified", "4K").pages < 200
