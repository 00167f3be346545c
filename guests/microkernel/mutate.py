"""Changes lines of the kernel's source, one at a time, and asks whether the tests notice.

    python guests/microkernel/mutate.py [--share N/M] [--file NAME ...] [--out FILE]

An operator is swapped, a constant changed, a condition turned round or a statement left out. Each mutant
that compiles to other code runs a bounded list of programs on the kernel that checks its records after
each call, under the checker, quickest first, until one of them ends wrongly. `--share 1/8` takes every
eighth mutant of a fixed order. Lines that only count events are left alone.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import hashlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import mmulab

ROOT = Path(__file__).resolve().parents[2]
KERNEL = Path("guests/microkernel/kernel")
FILES = [
    "memory.c",
    "ipc.c",
    "thread.c",
    "space/fass.c",
    "space/fass_shared.c",
    "space/fcse_best_effort.c",
    "space/fcse_guaranteed.c",
    "space/fcse.h",
    "space/flush.c",
]
SWAPS = {
    "==": "!=",
    "!=": "==",
    "<=": "<",
    ">=": ">",
    "&&": "||",
    "||": "&&",
    "<<": ">>",
    ">>": "<<",
    "++": "--",
    "--": "++",
    "+=": "-=",
    "-=": "+=",
    "|=": "&=",
    "&=": "|=",
    "<": "<=",
    ">": ">=",
    "+": "-",
    "-": "+",
    "&": "|",
    "|": "&",
}
TOKEN = re.compile(r'"[^"]*"|//.*|->|[<>=!&|+\-]{1,2}=?|\b0x[0-9a-fA-F]+\b|\b\d+\b|\w+|\S')
STATEMENT = re.compile(
    r"^\t+(?!return|break|continue|case|default|else|do|goto|static|struct|u32|bool|const|volatile|enum|int|unsigned)[^{}]*;\s*(?://.*)?$"
)
LEFT_ALONE = re.compile(r"counters\[|^\s*//|^#|_Static_assert")
MAX_INSTRUCTIONS = 60_000_000
FUZZ = "run=fuzz calls=1500"
RANDOM = "run=random operations=250 spaces=8"
PROGRAMS = [
    ("sa1100", FUZZ),
    ("arm926ej-s", RANDOM),
    ("sa1100", "run=attack attack=unshared_slot"),
    ("sa1100", "run=attack attack=shared_translation"),
    ("ixp425", "run=attack attack=gone_sharer"),
    ("ixp425", "run=attack attack=shared_secret"),
    ("sa1100", "run=attack attack=stale_section"),
    ("sa1100", "run=attack attack=many_sections"),
    ("sa1100", "run=attack attack=orphan"),
    ("sa1100", "run=attack attack=priority"),
    ("sa1100", "run=attack attack=registers"),
    ("arm926ej-s", "run=attack attack=thumb"),
    ("sa1100", "run=attack attack=many_mappings"),
    ("sa1100", "run=attack attack=latency"),
    ("sa1100", "run=attack attack=destruction"),
    ("ixp425", "run=stale"),
    ("sa1100", "run=pingpong clients=20 rounds=300"),
    ("arm926ej-s", "run=fuzz calls=4000 seed=3 thumb=1"),
    ("sa1100", "run=random operations=800 spaces=24"),
]
"""Machine and program, by how quickly they end."""
ARCHITECTURES = {"sa1100": "armv4", "ixp425": "armv5te", "arm926ej-s": "armv5te"}
SCHEMES = {
    "memory.c": ["fass_shared", "fcse_best_effort", "fcse_guaranteed", "flush", "fass"],
    "ipc.c": ["fass", "flush"],
    "thread.c": ["fass", "fcse_best_effort"],
    "space/fass.c": ["fass_shared", "fass"],
    "space/fass_shared.c": ["fass_shared"],
    "space/fcse_best_effort.c": ["fcse_best_effort"],
    "space/fcse_guaranteed.c": ["fcse_guaranteed"],
    "space/fcse.h": ["fcse_guaranteed", "fcse_best_effort"],
    "space/flush.c": ["flush"],
}


@dataclasses.dataclass(frozen=True)
class Mutant:
    """One changed line."""

    file: str
    line: int
    column: int
    old: str
    new: str
    text: str

    @property
    def name(self) -> str:
        """Where it is and what it changes."""
        change = f"`{self.old}` becomes `{self.new}`" if self.new else "left out"
        return f"{self.file}:{self.line} `{self.text.strip()}`: {change}"


def replacements(token: str) -> list[str]:
    """What may stand in a token's place."""
    if token in SWAPS:
        return [SWAPS[token]]
    if re.fullmatch(r"\d+|0x[0-9a-fA-F]+", token):
        value = int(token, 0)
        return [str(value + 1)] if value != 1 else ["0", "2"]
    return []


def mutants_of(file: str) -> list[Mutant]:
    """All of a file's, in the order of its lines."""
    found = []
    for number, text in enumerate((ROOT / KERNEL / file).read_text().splitlines(), 1):
        if LEFT_ALONE.search(text):
            continue
        code = text.split("//")[0]
        if STATEMENT.match(text):
            found.append(Mutant(file, number, 0, text.strip(), "", text))
        if condition := re.search(r"\b(?:if|while) \((.*)\)(?: \{)?\s*$", code):
            inside = condition[1]
            found.append(Mutant(file, number, condition.start(1), inside, f"!({inside})", text))
        for token in TOKEN.finditer(code):
            for new in replacements(token[0]):
                found.append(Mutant(file, number, token.start(), token[0], new, text))
    return found


def chosen(mutants: list[Mutant], share: str) -> list[Mutant]:
    """The share of a fixed order that has nothing to do with where the lines are."""
    part, parts = (int(number) for number in share.split("/"))
    order = sorted(mutants, key=lambda m: hashlib.sha256(repr(m).encode()).digest())
    return [m for i, m in enumerate(order) if i % parts == part % parts]


class Builder:
    """Builds the checked kernel from objects, of which a mutant replaces one."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        for architecture in sorted(set(ARCHITECTURES.values())):
            digest = self.make(architecture, directory / architecture, None)
            if digest is None:
                raise SystemExit(f"the kernel does not compile for {architecture}")
            (directory / architecture / "digest").write_text(digest)

    def command(self, architecture: str) -> list[str]:
        """The compiler with the Makefile's options."""
        make = [
            "make",
            "-s",
            "-C",
            str(ROOT / KERNEL.parent),
            "print-compiler",
            f"NAME={architecture}",
        ]
        words = subprocess.run(make, capture_output=True, text=True, check=True).stdout
        return shlex.split(words)

    def make(self, architecture: str, out: Path, changed: Path | None) -> str | None:
        """Compiles all sources, or those that a changed one concerns; the code's hash, or None."""
        out.mkdir(parents=True, exist_ok=True)
        kernel = changed or ROOT / KERNEL
        compiler = self.command(architecture)
        objects = []
        for source in sorted([*kernel.glob("*.[cS]"), *kernel.glob("*/*.c")]):
            target = out / (str(source.relative_to(kernel)).replace("/", "_") + ".o")
            objects.append(str(target))
            if target.exists():
                continue
            done = subprocess.run(
                [*compiler, "-I", str(kernel), "-c", str(source), "-o", str(target)],
                capture_output=True,
                cwd=ROOT / KERNEL.parent,
            )
            if done.returncode:
                return None
        elf = out / "kernel.elf"
        link = [*compiler, "-T", str(ROOT / KERNEL / "kernel.lds"), *objects, "-o", str(elf)]
        if subprocess.run(link, capture_output=True, cwd=ROOT / KERNEL.parent).returncode:
            return None
        code = elf.with_suffix(".bin")
        copy = ["arm-none-eabi-objcopy", "-O", "binary", str(elf), str(code)]
        subprocess.run(copy, check=True)
        digest = hashlib.sha256(code.read_bytes()).hexdigest()
        code.unlink()
        return digest


def mutate(builder: Builder, mutant: Mutant, directory: Path) -> dict[str, Path] | str:
    """The mutant's images by architecture; or why there is none."""
    kernel = directory / "kernel"
    shutil.copytree(ROOT / KERNEL, kernel)
    shutil.copytree(ROOT / KERNEL.parent / "user", directory / "user")
    path = kernel / mutant.file
    lines = path.read_text().splitlines()
    text = lines[mutant.line - 1]
    end = mutant.column + len(mutant.old)
    changed = text[: mutant.column] + mutant.new + text[end:] if mutant.new else "\t;"
    lines[mutant.line - 1] = changed
    path.write_text("\n".join(lines) + "\n")
    images = {}
    same = True
    for architecture in sorted(set(ARCHITECTURES.values())):
        out = directory / architecture
        shutil.copytree(builder.directory / architecture, out)
        for target in out.glob(
            "*.o" if mutant.file.endswith(".h") else mutant.file.replace("/", "_") + ".o"
        ):
            target.unlink()
        (out / "kernel.elf").unlink()
        digest = builder.make(architecture, out, kernel)
        if digest is None:
            return "does not compile"
        original = (builder.directory / architecture / "digest").read_text()
        same &= digest == original
        images[architecture] = out / "kernel.elf"
    return "the same code" if same else images


def killed_by(mutant: Mutant, images: dict[str, Path]) -> str | None:
    """The first run that ends wrongly, and how; None if all end well."""
    for machine, program in PROGRAMS:
        for scheme in SCHEMES[mutant.file]:
            result = mmulab.boot(
                images[ARCHITECTURES[machine]],
                machine,
                append=f"scheme={scheme} {program}",
                check=True,
                max_instructions=MAX_INSTRUCTIONS,
            )
            where = f"{scheme} on {machine}, {program.removeprefix('run=')}"
            if wrong := re.search(r"^kernel: (.*)", result.console, re.M):
                return f"{where}: {wrong[1]}"
            if result.reports:
                return f"{where}: the checker"
            if result.exit != 0 or "error:" in result.console:
                return f"{where}: the program"
    return None


def judge(builder: Builder, mutant: Mutant) -> tuple[Mutant, str, str]:
    """The mutant, `killed`, `survived` or why it does not count, and by what."""
    with tempfile.TemporaryDirectory(dir=builder.directory) as directory:
        images = mutate(builder, mutant, Path(directory))
        if isinstance(images, str):
            return mutant, images, ""
        by = killed_by(mutant, images)
        return (mutant, "killed", by) if by else (mutant, "survived", "")


def main() -> None:
    """Judges the share asked for; the status is 1 if fewer than 95% of them are killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", default="1/1")
    parser.add_argument("--file", action="append", choices=FILES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    every = [mutant for file in asked.file or FILES for mutant in mutants_of(file)]
    share = chosen(every, asked.share)
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        builder = Builder(Path(directory))
        with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
            for mutant, verdict, by in pool.map(lambda m: judge(builder, m), share):
                counts[verdict] = counts.get(verdict, 0) + 1
                line = f"{verdict}: {mutant.name}" + (f" -- {by}" if by else "")
                print(line, flush=True)
                if asked.out:
                    with asked.out.open("a") as out:
                        out.write(line + "\n")
    alive, dead = counts.get("survived", 0), counts.get("killed", 0)
    print(f"{len(every):,} mutants, of which {len(share):,} were tried: {counts}")
    print(f"{100 * dead / max(1, dead + alive):.1f}% killed")
    sys.exit(dead < 0.95 * (dead + alive))


if __name__ == "__main__":
    main()
