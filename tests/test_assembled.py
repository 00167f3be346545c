"""The ARM crate's tests name their instructions; their words must be those of the assembler."""

import re
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent / "crates" / "arm" / "tests"


def test_the_assembler_gives_what_the_listing_says():
    checked = subprocess.run([sys.executable, TESTS / "support" / "assemble.py", "--check"])
    assert checked.returncode == 0


def test_every_listed_instruction_is_used():
    sources = [path.read_text() for path in TESTS.rglob("*.rs")]
    strings = {
        part.strip()
        for source in sources
        for text in re.findall(r'"([^"\n]*)"', source)
        for part in text.split(";")
    }
    listing = (TESTS / "support" / "assembled.txt").read_text().splitlines()
    listed = {line.split(" ", 1)[1].removeprefix("thumb ") for line in listing}
    assert listed <= strings
