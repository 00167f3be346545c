"""Changes lines of the kernel's source, one at a time, and asks whether the tests notice.

    mutate.py --file space/flush.c
    mutate.py --share 1/8 --out mutants.txt

An operator is swapped, a constant changed, a condition turned round or a statement left out. Each
mutant that compiles to other code runs a bounded list of programs under the checker, those that
kill most first, until one of them ends wrongly: with a report, an error, another output than that
of the kernel as it is, or not in twice as many instructions; a few may also not become slower, or
count other events (flushes, faults, domains that change hands). So the kernel as it is runs the
list first, and must pass it; a second build of it with other code alignment must too, so that
nobody is killed for having its code elsewhere. Where events are counted the processor is so fast
that no time slice ends, and a third build, for size, must count the same, so that nobody is killed
for taking another number of cycles. `--share 1/8` takes every eighth mutant of a fixed order. With
`--out`, what the file has already judged is not judged again. Lines that only count events are left
alone.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import mmulab
from mmulab import guests
from mmulab.command import run_script, script_options
from mmulab.errors import InputError
from mmulab.files import check_outputs
from mmulab.output import one_by_one
from mmulab.papers import microkernel

ROOT = Path(__file__).resolve().parents[2]
KERNEL = Path("guests/microkernel/kernel")
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
TIMED = {
    "cycles",
    "instructions",
    "itlb",
    "dtlb",
    "icache",
    "dcache",
    "write_backs",
    "work",
    "calls",
}
"""What a line of measurements says that depends on where the code lies; calls print times, too."""
ARCHITECTURES = {"sa1100": "armv4", "ixp425": "armv5te", "arm926ej-s": "armv5te"}


@dataclasses.dataclass(frozen=True)
class Program:
    """A program of guests/bench, and where it runs."""

    machine: str
    options: str
    checked: bool = False
    schemes: tuple[str, ...] = ()
    """Only under these; all of them if empty."""
    slower: float = 2.0
    """How many times as many cycles of what is measured as the kernel as it is are too many."""
    counted: bool = False
    """Whether the kernel's counters must be the same."""

    @functools.cached_property
    def runs_on(self) -> mmulab.Machine:
        """The machine; with one whose clock is 20 times as fast no time slice ends, as slices are
        real time."""
        machine = mmulab.Machine.load(self.machine)
        faster = 20 * machine.get("core.clock_hz")
        return machine.with_changes({"core.clock_hz": faster}) if self.counted else machine

    @property
    def build(self) -> str:
        """The kernel that it needs."""
        architecture = ARCHITECTURES[self.machine]
        return f"checked-{architecture}" if self.checked else architecture


SHARING = ("fass_shared",)
TWO = ("fass_shared", "fcse_best_effort")
PROGRAMS = [
    Program("sa1100", "pingpong clients=16 rounds=300", slower=1.05, counted=True),
    Program("sa1100", "events", counted=True),
    Program("sa1100", "storm groups=1 loops=2", slower=1.2, counted=True),
    Program("sa1100", "fuzz calls=1500", checked=True),
    Program("arm926ej-s", "random operations=250 spaces=8", checked=True),
    Program("sa1100", "calls", checked=True),
    Program("ixp425", "calls path=general"),
    Program("sa1100", "attack attack=unshared_slot", checked=True, schemes=SHARING),
    Program("ixp425", "attack attack=shared_translation", schemes=SHARING),
    Program("sa1100", "attack attack=stale_section", checked=True, schemes=SHARING),
    Program("sa1100", "attack attack=many_sections", checked=True, schemes=TWO),
    Program("sa1100", "library processes=18 pages=12 laps=3", slower=1.05, counted=True),
    Program("ixp425", "attack attack=gone_sharer", schemes=SHARING),
    Program("ixp425", "attack attack=interrupted_end", schemes=SHARING),
    Program("ixp425", "attack attack=shared_secret"),
    Program("sa1100", "attack attack=orphan"),
    Program("sa1100", "attack attack=priority"),
    Program("sa1100", "attack attack=registers"),
    Program("arm926ej-s", "attack attack=thumb", checked=True),
    Program("arm926ej-s", "attack attack=thumb_calls"),
    Program("sa1100", "attack attack=many_mappings"),
    Program("sa1100", "attack attack=move_latency"),
    Program("sa1100", "attack attack=sleep_trap"),
    Program("sa1100", "attack attack=slices"),
    Program("sa1100", "periodic period=1000 samples=50"),
    Program("sa1100", "pingpong clients=20 rounds=300 path=general", slower=1.05, counted=True),
    Program("sa1100", "pingpong clients=40 rounds=300", slower=1.05, counted=True),
    Program("sa1100", "pingpong clients=70 rounds=300", slower=1.05, counted=True),
    Program("sa1100", "calls", schemes=("fcse_best_effort", "fcse_guaranteed")),
    Program(
        "sa1100", "ring processes=6 kilobytes=4 rounds=5 array=same", slower=1.05, counted=True
    ),
    Program(
        "sa1100", "extreme processes=4 pages=8 mapping=shared laps=5", slower=1.05, counted=True
    ),
    Program(
        "sa1100", "extreme processes=16 pages=4 mapping=shared laps=5", slower=1.1, counted=True
    ),
    Program("sa1100", "switches", counted=True),
    Program("sa1100", "recycled", counted=True),
    Program("sa1100", "attack attack=latency"),
    Program("sa1100", "random operations=800 spaces=24", slower=1.2),
    Program("sa1100", "attack attack=destruction"),
    Program("arm926ej-s", "fuzz calls=2500 seed=3 thumb=1", checked=True),
    Program("ixp425", "stale", counted=True),
    Program("sa1100", "isolation", schemes=TWO),
    Program("sa1100", "fuzz calls=5000 seed=5", checked=True),
]
"""By how many mutants they kill in how much time."""
MAX_INSTRUCTIONS = 400_000_000
BUILDS = sorted({program.build for program in PROGRAMS})
FIRST_BUILD = PROGRAMS[0].build
"""Whose code tells whether a mutant is one."""
SCHEMES = {
    "main.c": ["fass", "fcse_best_effort", "flush"],
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
"""The schemes that show a change of a file."""
for _name in microkernel.SCHEMES:
    if (ROOT / KERNEL / f"space/{_name}.c").exists():
        SCHEMES.setdefault(f"space/{_name}.c", [_name])
FILES = list(SCHEMES)
VERDICTS = ("killed", "survived", "does not compile", "the same code")
JUDGED = re.compile(rf"({'|'.join(VERDICTS)}): (.+)\n")


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
        return f"{self.file}:{self.line}:{self.column} `{self.text.strip()}`: {change}"


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
    numbers = re.fullmatch(r"(\d+)/([1-9]\d*)", share)
    if not numbers:
        raise InputError(f"--share {share}: write a part and how many there are, as in 1/20")
    part, parts = map(int, numbers.groups())
    if not 1 <= part <= parts:
        raise InputError(
            f"--share {share}: there are {parts} parts, from 1/{parts} to {parts}/{parts}"
        )
    order = sorted(mutants, key=lambda m: hashlib.sha256(repr(m).encode()).digest())
    return [m for i, m in enumerate(order) if i % parts == part % parts]


class Builder:
    """Builds kernels from the objects of the kernel as it is, of which a mutant replaces some."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.sources = directory / "kernel"
        shutil.copytree(ROOT / KERNEL, self.sources)
        shutil.copytree(ROOT / KERNEL.parent / "user", directory / "user")
        self.files = sorted([*self.sources.glob("*.[cS]"), *self.sources.glob("*/*.c")])
        self.commands = {build: self.command(build) for build in BUILDS}
        self.original: dict[str, str] = {}
        for build in one_by_one("Building the kernel as it is", BUILDS, "builds"):
            variants = {"": [], "aligned-": ["-falign-functions=64"], "small-": ["-Os"]}
            for variant, options in variants.items():
                name = variant + build
                where = directory / name
                if not self.compile(build, self.files, where, options) or not self.link(
                    build, where
                ):
                    raise SystemExit(f"the kernel does not compile: {build}")
            self.original[build] = self.digest(directory / build / "kernel.elf")

    def command(self, build: str) -> list[str]:
        """The compiler with the Makefile's options, but neither warnings nor tables for
        debuggers."""
        target = f"print-compiler-{build}"
        make = ["make", "-s", "-C", str(ROOT / KERNEL.parent), target]
        words = subprocess.run(make, capture_output=True, text=True, check=True).stdout
        return [*shlex.split(words), "-g0", "-w"]

    def object_of(self, source: Path, where: Path) -> Path:
        """Where a source's object is."""
        return where / (str(source.relative_to(self.sources)).replace("/", "_") + ".o")

    def compile(
        self, build: str, files: list[Path], where: Path, options: Sequence[str] = ()
    ) -> bool:
        """False if one does not compile."""
        where.mkdir(exist_ok=True)
        for source in files:
            out = ["-c", str(source), "-o", str(self.object_of(source, where))]
            command = [*self.commands[build], *options, "-I", str(self.sources), *out]
            if subprocess.run(command, capture_output=True, cwd=self.directory).returncode:
                return False
        return True

    def link(self, build: str, where: Path) -> Path | None:
        """The kernel, with the objects in `where` in place of the original's."""
        objects = []
        for source in self.files:
            mine = self.object_of(source, where)
            objects.append(
                mine if mine.exists() else self.object_of(source, self.directory / build)
            )
        elf = where / "kernel.elf"
        script = str(self.sources / "kernel.lds")
        command = [*self.commands[build], "-T", script, *map(str, objects), "-o", str(elf)]
        done = subprocess.run(command, capture_output=True, cwd=self.directory)
        return None if done.returncode else elf

    def digest(self, elf: Path) -> str:
        """A hash of the code."""
        code = elf.with_suffix(".bin")
        copy = ["arm-none-eabi-objcopy", "-O", "binary", str(elf), str(code)]
        subprocess.run(copy, check=True)
        return hashlib.sha256(code.read_bytes()).hexdigest()


class Changed:
    """A mutant's kernels, each built when it is first needed."""

    def __init__(self, builder: Builder, mutant: Mutant) -> None:
        self.builder = builder
        self.path = builder.sources / mutant.file
        self.kept = self.path.read_text()
        lines = self.kept.splitlines()
        text = lines[mutant.line - 1]
        end = mutant.column + len(mutant.old)
        changed = text[: mutant.column] + mutant.new + text[end:] if mutant.new else "\t;"
        lines[mutant.line - 1] = changed
        self.path.write_text("\n".join(lines) + "\n")
        self.files = builder.files if mutant.file.endswith(".h") else [self.path]
        self.images: dict[str, Path | None] = {}

    def image(self, build: str) -> Path | None:
        """The kernel, or None if it does not compile."""
        if build not in self.images:
            where = self.builder.directory / f"changed-{build}"
            shutil.rmtree(where, ignore_errors=True)
            compiles = self.builder.compile(build, self.files, where)
            self.images[build] = self.builder.link(build, where) if compiles else None
        return self.images[build]

    def close(self) -> None:
        """Puts the source back."""
        self.path.write_text(self.kept)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a run is judged by."""

    wrong: str
    said: list[str]
    counted: list[str]
    instructions: int
    cycles: int
    """Of the laps that the program measures; of the whole run where there is none."""


def run(program: Program, scheme: str, image: Path, most: int) -> Outcome:
    """One program under one scheme."""
    result = mmulab.boot(
        image,
        program.runs_on,
        append=f"scheme={scheme} run={program.options}",
        check=True,
        max_instructions=most,
    )
    lines = [line for line in result.console.splitlines() if line and not line.startswith("= ")]
    wrong = ""
    if stopped := re.search(r"^kernel: (.*)", result.console, re.M):
        wrong = stopped[1]
    elif result.reports:
        wrong = "the checker"
    elif result.exit is None:
        wrong = "no end"
    elif result.exit != 0 or "error:" in result.console:
        wrong = "the program"
    counted = [
        field
        for line in result.console.splitlines()
        if line.startswith("= ")
        for field in line.split()
        if field.split("=")[0] not in TIMED
    ]
    laps = sum(int(cycles) for cycles in re.findall(r"^= .* cycles=(\d+)", result.console, re.M))
    return Outcome(wrong, lines, counted, result.instructions, laps or result.cycles)


class Judge:
    """Knows how the kernel as it is ends each program."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.expected: dict[tuple[Program, str], Outcome] = {}

    @staticmethod
    def runs(file: str) -> list[tuple[Program, str]]:
        """The programs and schemes that judge a file's mutants."""
        return [
            (program, scheme)
            for program in PROGRAMS
            for scheme in SCHEMES[file]
            if not program.schemes or scheme in program.schemes
        ]

    def as_it_is(self, program: Program, scheme: str) -> Outcome:
        """The original's outcome. It must be good, but guaranteed FCSE may refuse a program:
        addresses."""
        key = program, scheme
        if key not in self.expected:
            image = self.builder.directory / program.build / "kernel.elf"
            done = run(program, scheme, image, MAX_INSTRUCTIONS)
            if done.wrong and scheme != "fcse_guaranteed":
                raise SystemExit(f"the kernel as it is fails {program}, {scheme}: {done.wrong}")
            image = self.builder.directory / f"aligned-{program.build}" / "kernel.elf"
            moved = run(program, scheme, image, MAX_INSTRUCTIONS)
            if not done.wrong and (wrong := self.difference(program, moved, done)):
                raise SystemExit(f"the same code elsewhere fails {program}, {scheme}: {wrong}")
            image = self.builder.directory / f"small-{program.build}" / "kernel.elf"
            if (
                program.counted
                and run(program, scheme, image, MAX_INSTRUCTIONS).counted != done.counted
            ):
                raise SystemExit(
                    f"the same source built for size counts otherwise: {program}, {scheme}"
                )
            self.expected[key] = done
        return self.expected[key]

    @staticmethod
    def difference(program: Program, done: Outcome, expected: Outcome) -> str:
        """What is wrong with a run; empty if nothing is."""
        if done.wrong:
            return done.wrong
        # What a fuzz prints of threads that stopped depends on when each is preempted.
        if done.said != expected.said and "fuzz" not in program.options:
            return "another output"
        if program.counted and done.counted != expected.counted:
            return "other counts"
        if done.cycles > program.slower * expected.cycles:
            return f"{done.cycles / expected.cycles:.2f} times the cycles"
        return ""

    def killed_by(self, mutant: Mutant, changed: Changed) -> str | None:
        """The first run that ends wrongly, and how; None if all end well."""
        for program, scheme in self.runs(mutant.file):
            expected = self.as_it_is(program, scheme)
            if expected.wrong:
                continue
            image = changed.image(program.build)
            if not image:
                return f"{program.build}: does not compile"
            done = run(program, scheme, image, 2 * expected.instructions + 1_000_000)
            wrong = self.difference(program, done, expected)
            if wrong:
                return f"{scheme} on {program.machine}, {program.options}: {wrong}"
        return None

    def judge(self, mutant: Mutant) -> tuple[str, str]:
        """One of the verdicts; and by what it was killed."""
        changed = Changed(self.builder, mutant)
        try:
            first = changed.image(FIRST_BUILD)
            if not first:
                return "does not compile", ""
            if self.builder.digest(first) == self.builder.original[FIRST_BUILD]:
                return "the same code", ""
            by = self.killed_by(mutant, changed)
            return ("killed", by) if by else ("survived", "")
        finally:
            changed.close()


def kept_in(out: Path) -> dict[str, str]:
    """The verdicts of an earlier job by the names of its mutants. A line without its end, which a
    kill has left, is taken away. Raises `InputError` where the file holds anything else."""
    check_outputs([out])
    if not out.is_file():
        return {}
    text = out.read_text(errors="replace")
    kept = {}
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        if judged := JUDGED.fullmatch(line):
            kept[judged[2].rsplit(" -- ", 1)[0]] = judged[1]
        elif line[-1] != "\n" and any(line[: len(it)] == it[: len(line)] for it in VERDICTS):
            out.write_text(text.removesuffix(line))
        else:
            raise InputError(f"{out}: line {number}: is no mutant's verdict; name another file")
    return kept


def main() -> None:
    """Judges the share asked for; the status is 1 if fewer than 95% of them are killed."""
    parser = script_options(__doc__)
    parser.add_argument(
        "--share", default="1/1", help="which part of all mutants, as in 1/8 (default: %(default)s)"
    )
    parser.add_argument(
        "--file", action="append", choices=FILES, help="only mutants of this file; may be repeated"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="a file that keeps what is judged; what is in it is not judged again",
    )
    asked = parser.parse_args()
    every = [mutant for file in asked.file or FILES for mutant in mutants_of(file)]
    share = chosen(every, asked.share)
    judged = kept_in(asked.out) if asked.out else {}
    guests.image("microkernel-armv4")  # all kernels contain the programs that this builds
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as directory:
        judge = Judge(Builder(Path(directory)))
        files = {mutant.file for mutant in share if mutant.name not in judged}
        # Now, lest hours of mutants end at the first program that the kernel as it is fails.
        runs = sorted({run for file in files for run in Judge.runs(file)}, key=repr)
        for program, scheme in one_by_one("Running the kernel as it is", runs, "runs"):
            judge.as_it_is(program, scheme)
        for mutant in one_by_one("Judging", share, "mutants"):
            verdict = judged.get(mutant.name, "")
            if not verdict:
                verdict, by = judge.judge(mutant)
                line = f"{verdict}: {mutant.name}" + (f" -- {by}" if by else "")
                print(line, flush=True)
                if asked.out:
                    with asked.out.open("a") as out:
                        out.write(line + "\n")
            counts[verdict] = counts.get(verdict, 0) + 1
    alive, dead = counts.get("survived", 0), counts.get("killed", 0)
    print(f"{len(every):,} mutants, of which {len(share):,} were tried: {counts}")
    print(f"{100 * dead / (dead + alive):.1f}% killed" if dead + alive else "none counts")
    sys.exit(dead < 0.95 * (dead + alive))


if __name__ == "__main__":
    run_script(main)
