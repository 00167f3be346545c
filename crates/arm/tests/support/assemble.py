"""Assembles the instructions that the tests of the ARM crate use into assembled.txt.

    assemble.py ['add r0, r1, r2' ...]    takes the given instructions in, and the old ones again
    assemble.py --check                   exit status 1 if the assembler gives something else

An instruction that begins with "thumb " is one in Thumb state. Needs the GNU tools for
arm-none-eabi.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

LISTING = Path(__file__).resolve().parent / "assembled.txt"
PREFIX = "arm-none-eabi-"


def assembled(texts):
    """The listing of some instructions: each with its word, in order of the text."""
    texts = sorted(set(texts))
    source = ".syntax divided\n"
    for text in texts:
        thumb = text.startswith("thumb ")
        instruction = text.removeprefix("thumb ")
        # Eight bytes each: the instruction and zeros.
        source += f".balign 8, 0\n.{'thumb' if thumb else 'arm'}\n"
        # Only VFP and Advanced SIMD begin so.
        vector = instruction.startswith("v")
        source += ".arch armv7-a\n.fpu neon-vfpv4\n" * vector
        source += instruction + "\n" + ".cpu xscale\n" * vector
    source += ".balign 8, 0\n"
    with tempfile.TemporaryDirectory() as folder:
        assembler = [PREFIX + "as", "-mcpu=xscale", "-o", "all.o", "-"]
        subprocess.run(assembler, input=source, text=True, cwd=folder, check=True)
        for command in (
            ["ld", "-Ttext", "0x10000", "-e", "0", "-o", "all.elf", "all.o"],
            ["objcopy", "-O", "binary", "all.elf", "all.bin"],
        ):
            subprocess.run([PREFIX + command[0], *command[1:]], cwd=folder, check=True)
        code = (Path(folder) / "all.bin").read_bytes()
    lines = []
    for number, text in enumerate(texts):
        bits = code[8 * number : 8 * number + 4]
        if text.startswith("thumb "):
            halves = [int.from_bytes(bits[at : at + 2], "little") for at in (0, 2)]
            word = halves[0] << 16 | halves[1] if halves[0] >> 11 > 0b11100 else halves[0]
        else:
            word = int.from_bytes(bits, "little")
        lines.append(f"{word:08x} {text}\n")
    return "".join(lines)


def main():
    listing = LISTING.read_text() if LISTING.exists() else ""
    old = [line.split(" ", 1)[1] for line in listing.splitlines()]
    if sys.argv[1:] == ["--check"]:
        raise SystemExit(assembled(old) != listing)
    new = [text.strip() for words in sys.argv[1:] for text in words.split(";")]
    LISTING.write_text(assembled([*old, *new]))


if __name__ == "__main__":
    main()
