"""The programs that stand for those of the 1998 study, and their inputs.

The study ran gcc, vortex and ijpeg of SPEC '95. For each there are several candidates of today, as
any Debian machine has them; `study_choice` says which stands for it, and why. Inputs are generated
here, the same bytes everywhere; nothing is downloaded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import mmulab
from mmulab.files import replacing
from mmulab.recording import tool_directory

ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "LC_ALL": "C",
    "LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu",
    "PWD": "/proc/self/cwd",
}
"""Of all programs that are recorded. In direct-mapped caches it matters where a stack begins, which
depends on it, and where libraries are mapped: below /etc/ld.so.cache, unless they are found without
it. A name for the present folder that is the same in each is as good as its own for a shell and for
GCC, which ask whether it is the one."""


@dataclasses.dataclass(frozen=True)
class Program:
    """One program with its input."""

    name: str
    """What it stands for, as `gcc-like`."""
    label: str
    """Which candidate it is."""
    command: list[str]
    """It names files in the input's folder, where it runs: longer names would move its stack."""
    input: Path


Build = Callable[[str, Path], Program]
"""Writes a program's input to a folder, for the name that it goes by."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A program that could stand for one of the study's."""

    label: str
    build: Build
    packages: dict[str, str]
    """Debian packages by the program that is needed of each."""


def compiler(functions: int, option: str) -> Candidate:
    """The C compiler proper (`cc1`), which the `gcc` driver would start as a child."""

    def build(name: str, folder: Path) -> Program:
        source = write(folder / "source.c", source_text(functions).encode())
        found = subprocess.run(
            ["gcc", "-print-prog-name=cc1"], capture_output=True, text=True, check=True
        ).stdout.strip()
        # A file's full name is looked up, which takes longer the longer it is; that option writes
        # nothing anyway.
        output = "-" if option == "-fsyntax-only" else "source.s"
        command = [found, "-quiet", "-w", option, source.name, "-o", output]
        return Program(name, label, command, source)

    label = f"cc1 {option}, {functions} functions"
    return Candidate(label, build, {"gcc": "gcc"})


def small_compiler(functions: int) -> Candidate:
    """`tcc`, which compiles in one pass."""

    def build(name: str, folder: Path) -> Program:
        source = write(folder / "source.c", source_text(functions).encode())
        command = ["tcc", "-c", source.name, "-o", "source.o"]
        return Program(name, label, command, source)

    label = f"tcc, {functions:,} functions"
    return Candidate(label, build, {"tcc": "tcc"})


def relational_database(rows: int, queries: int) -> Candidate:
    """SQLite builds three related tables in memory, then looks up, changes and joins rows in an
    order without locality."""

    def build(name: str, folder: Path) -> Program:
        script = write(folder / "script.sql", script_text(rows, queries).encode())
        command = ["sqlite3", ":memory:", ".output /dev/null", f".read {script.name}"]
        return Program(name, label, command, script)

    label = f"sqlite3, {rows:,} rows, {queries:,} queries"
    return Candidate(label, build, {"sqlite3": "sqlite3"})


def key_value_database(records: int) -> Candidate:
    """Berkeley DB loads records into a B-tree, in an order without locality, with a cache of 6
    MB."""

    def build(name: str, folder: Path) -> Program:
        home = folder / "berkeley"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        (home / "DB_CONFIG").write_text("set_cachesize 0 6291456 1\n")
        text = write(folder / "records.txt", records_text(records).encode())
        command = [
            "db5.3_load",
            "-T",
            "-t",
            "btree",
            "-h",
            home.name,
            "-f",
            text.name,
            "records.db",
        ]
        return Program(name, label, command, text)

    label = f"Berkeley DB, {records:,} records"
    return Candidate(label, build, {"db5.3_load": "db5.3-util"})


def object_store(parts: int, rounds: int) -> Candidate:
    """Our own, in C: what OO1 does with parts and their connections."""

    def build(name: str, folder: Path) -> Program:
        program = folder / "object_store"
        source = Path(__file__).with_name("object_store.c")
        if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
            folder.mkdir(parents=True, exist_ok=True)
            subprocess.run(["gcc", "-O2", "-o", str(program), str(source)], check=True)
        return Program(name, label, [f"./{program.name}", str(parts), str(rounds)], program)

    label = f"object_store, {parts:,} parts, {rounds} rounds"
    return Candidate(label, build, {"gcc": "gcc"})


def picture_compressor(width: int, height: int) -> Candidate:
    """`cjpeg` compresses a generated picture."""

    def build(name: str, folder: Path) -> Program:
        picture = write(folder / "picture.ppm", picture_bytes(width, height))
        options = ["-quality", "90", "-optimize", "-outfile", "picture.jpg"]
        return Program(name, label, ["cjpeg", *options, picture.name], picture)

    label = f"cjpeg, {width} x {height}"
    return Candidate(label, build, {"cjpeg": "libjpeg-turbo-progs"})


CANDIDATES = {
    "gcc-like": [
        compiler(3, "-O2"),
        compiler(12, "-O1"),
        compiler(60, "-O0"),
        compiler(300, "-fsyntax-only"),
        small_compiler(300),
        small_compiler(2000),
    ],
    "vortex-like": [
        relational_database(5200, 1900),
        relational_database(2600, 4000),
        relational_database(10_400, 1000),
        key_value_database(20_000),
        key_value_database(60_000),
        object_store(10_000, 100),
        object_store(10_000, 200),
        object_store(20_000, 100),
        object_store(20_000, 200),
    ],
    "ijpeg-like": [
        picture_compressor(2048, 1664),
        picture_compressor(1024, 832),
        picture_compressor(512, 416),
        picture_compressor(256, 208),
    ],
}
"""For each program of the study those of today among which one is chosen."""
QUICK = {
    "gcc-like": compiler(30, "-fsyntax-only"),
    "vortex-like": object_store(10_000, 20),
    "ijpeg-like": picture_compressor(640, 480),
}
"""Shorter inputs, some 20 million instructions each, for the short version. The compiler stops
after its front end, because setting up its back end alone takes 40 million."""


def programs(folder: Path, chosen: dict[str, Candidate]) -> list[Program]:
    """Writes the inputs to `folder` and returns the programs to run on them."""
    return [candidate.build(name, folder) for name, candidate in chosen.items()]


def missing_packages(candidates: Iterable[Candidate]) -> set[str]:
    """Debian packages that have to be installed for these programs to run and be recorded."""
    missing = {
        package
        for candidate in candidates
        for program, package in candidate.packages.items()
        if shutil.which(program) is None
    }
    if not shutil.which("valgrind") and not shutil.which(tool_directory() / "valgrind"):
        missing.add("valgrind")
    return missing


def write(path: Path, content: bytes) -> Path:
    """Writes a file in one step, unless it is there already with that content; gives its path."""
    if path.exists() and path.read_bytes() == content:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(content)
    return path


def numbers(seed: int) -> Callable[[int], int]:
    """A generator of numbers below a bound, the same in every version of Python (splitmix64)."""
    state = seed
    mask = (1 << 64) - 1

    def below(bound: int) -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & mask
        mixed = state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & mask
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & mask
        return (mixed ^ (mixed >> 31)) % bound

    return below


def source_text(functions: int) -> str:
    """A C file of that many functions of varied shape, with the types and tables they use."""
    below = numbers(1998)
    lines = ["/* Generated; see study_programs.py. */", "typedef unsigned long word;"]
    for index in range(functions // 6 + 1):
        fields = " ".join(f"int field_{field};" for field in range(3 + below(6)))
        lines.append(
            f"struct record_{index} {{ struct record_{index} *next; word key; {fields} "
            f"char name[{8 + 8 * below(4)}]; }};"
        )
        values = ", ".join(str(below(100_000)) for _ in range(16 + below(48)))
        lines.append(f"static const int table_{index}[] = {{ {values} }};")
    shapes = [chain, state_machine, matrix, scanner, arithmetic, recursion]
    for index in range(functions):
        lines.extend(shapes[below(len(shapes))](index, index // 6, below))
    calls = " ".join(f"sum += function_{index}(sum);" for index in range(functions))
    lines.append(f"int main(void) {{ word sum = 1; {calls} return (int)(sum & 127); }}")
    return "\n".join(lines) + "\n"


def chain(index: int, record: int, below: Callable[[int], int]) -> Iterator[str]:
    """A hash table of linked records."""
    yield f"static struct record_{record} pool_{index}[{32 + below(64)}];"
    yield f"static struct record_{record} *heads_{index}[16];"
    yield f"word function_{index}(word seed) {{"
    yield f"  struct record_{record} *item; word found = 0; unsigned long slot, i;"
    yield f"  for (i = 0; i < sizeof pool_{index} / sizeof pool_{index}[0]; i++) {{"
    yield f"    item = &pool_{index}[i]; item->key = seed * {3 + 2 * below(500)}u + i;"
    yield f"    slot = (item->key >> {below(7)}) & 15; item->next = heads_{index}[slot];"
    yield f"    item->field_{below(3)} = (int)(item->key ^ {below(9999)}); heads_{index}[slot] = item;"
    yield "  }"
    yield "  for (slot = 0; slot < 16; slot++)"
    yield f"    for (item = heads_{index}[slot]; item; item = item->next)"
    yield f"      if (item->field_{below(3)} > {below(5000)}) found += item->key % {2 + below(97)};"
    yield f"      else found ^= (word)item->field_{below(3)} << {below(9)};"
    yield "  return found;"
    yield "}"


def state_machine(index: int, record: int, below: Callable[[int], int]) -> Iterator[str]:
    """A loop around a switch."""
    states = 3 + below(4)
    yield f"word function_{index}(word seed) {{"
    yield f"  int state = (int)(seed % {states}), steps = {50 + below(100)}; word out = seed;"
    yield "  while (steps-- > 0) {"
    yield "    switch (state) {"
    for state in range(states):
        yield f"    case {state}: out = out * {1 + below(31)} + {below(1000)};"
        yield f"      if (out & {1 << below(12)}) state = {below(states)}; else {{"
        yield f"        state = {below(states)}; out ^= (word)table_{record}[(out >> 3) & 15]; }}"
        yield "      break;"
    yield "    default: return out; }"
    yield "  }"
    yield "  return out;"
    yield "}"


def matrix(index: int, record: int, below: Callable[[int], int]) -> Iterator[str]:
    """Nested loops over arrays, which the compiler may turn inside out."""
    side = 8 + below(24)
    yield f"static double left_{index}[{side}][{side}], right_{index}[{side}][{side}];"
    yield f"word function_{index}(word seed) {{"
    yield "  int i, j, k; double total = 0;"
    yield f"  for (i = 0; i < {side}; i++) for (j = 0; j < {side}; j++) {{"
    yield f"    left_{index}[i][j] = (double)((seed + i * {1 + below(9)} + j) & 255);"
    yield f"    right_{index}[j][i] = (double)table_{record}[(i + j) & 15] / {1 + below(50)}.0; }}"
    yield f"  for (i = 0; i < {side}; i++) for (j = 0; j < {side}; j++) {{"
    yield "    double cell = 0;"
    yield f"    for (k = 0; k < {side}; k++) cell += left_{index}[i][k] * right_{index}[k][j];"
    yield f"    total += cell > {below(900)}.5 ? cell : -cell; }}"
    yield "  return (word)total;"
    yield "}"


def scanner(index: int, record: int, below: Callable[[int], int]) -> Iterator[str]:
    """Characters classified one by one."""
    text = "".join(chr(97 + below(26)) if below(5) else " " for _ in range(40 + below(80)))
    yield f'static const char text_{index}[] = "{text}";'
    yield f"word function_{index}(word seed) {{"
    yield f"  const char *at = text_{index} + (seed & 7); word words = 0, value = 0; int inside = 0;"
    yield "  for (; *at; at++) {"
    yield "    if (*at == ' ') { inside = 0; continue; }"
    yield "    if (!inside) { inside = 1; words++; }"
    for _ in range(1 + below(3)):
        letter = chr(97 + below(26))
        yield f"    if (*at == '{letter}') value += {below(90)}; else if (*at > '{letter}')"
        yield f"      value = (value << {1 + below(4)}) | (word)(*at & {1 + below(31)});"
    yield "  }"
    yield f"  return words * {1 + below(13)} + value % {2 + below(1000)};"
    yield "}"


def arithmetic(index: int, record: int, below: Callable[[int], int]) -> Iterator[str]:
    """Long expressions over many variables."""
    names = [f"v{number}" for number in range(4 + below(4))]
    yield f"word function_{index}(word seed) {{"
    yield "  word " + ", ".join(f"{name} = seed + {below(777)}" for name in names) + ";"
    operators = ["+", "-", "*", "^", "|", "&"]

    def term(depth: int) -> str:
        if depth == 0:
            return names[below(len(names))] if below(3) else str(1 + below(4096))
        return f"({term(depth - 1)} {operators[below(6)]} {term(depth - 1)})"

    for _ in range(3 + below(4)):
        name = names[below(len(names))]
        if below(3):
            yield f"  {name} = {term(2)} + (word)table_{record}[{names[0]} & 15];"
        else:
            yield f"  if ({term(1)} > {term(2)}) {name} = {term(2)}; else {name} /= {2 + below(60)};"
    yield "  return " + " ^ ".join(names) + ";"
    yield "}"


def recursion(index: int, record: int, below: Callable[[int], int]) -> Iterator[str]:
    """A function that calls itself, and an earlier one."""
    yield f"static word visit_{index}(int depth, word value) {{"
    yield f"  if (depth == 0 || value % {3 + below(20)} == 0)"
    yield f"    return value + (word)table_{record}[value & 15];"
    yield f"  if (value & {1 << below(6)}) return visit_{index}(depth - 1, value * {3 + below(40)})"
    yield f"    + visit_{index}(depth - 1, value >> {1 + below(5)});"
    yield f"  return visit_{index}(depth - 1, value + {1 + below(500)}) ^ {below(500)};"
    yield "}"
    yield f"word function_{index}(word seed) {{"
    earlier = f" + function_{below(index)}(seed + 1)" if index else ""
    yield f"  return visit_{index}({3 + below(5)}, seed){earlier};"
    yield "}"


def script_text(rows: int, queries: int) -> str:
    """SQL that builds customers, parts and orders, then reads and changes them at random.

    A multiplication modulo a prime visits the rows in an order without locality, each once.
    """
    below = numbers(1974)
    prime = next_prime(rows)

    def scattered(column: str, step: int) -> str:
        return f"({column} * {step} % {prime})"

    def count_to(number: int) -> str:
        return (
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {number}) "
        )

    lines = [
        "PRAGMA temp_store=MEMORY;",
        "CREATE TABLE customer(id INTEGER PRIMARY KEY, credit INTEGER, city INTEGER, name TEXT);",
        "CREATE TABLE part(id INTEGER PRIMARY KEY, price INTEGER, kind INTEGER, name TEXT);",
        "CREATE TABLE orders(id INTEGER PRIMARY KEY, customer INTEGER, part INTEGER);",
    ]
    for table, step in [("customer", 7919), ("part", 104_729)]:
        lines.append(
            f"{count_to(rows)} INSERT INTO {table} SELECT {scattered('i', step)}, i % 997, i % 211, "
            f"printf('%0{300 + below(100)}d', i) FROM n;"
        )
    lines.append(
        f"{count_to(rows)} INSERT INTO orders(customer, part) SELECT {scattered('i', 15_485_863)}, "
        f"{scattered('i', 32_452_843)} FROM n;"
    )
    lines.append("CREATE INDEX orders_customer ON orders(customer);")
    for step in (49_979_687, 67_867_967, 86_028_121):
        number = queries // 3
        lines += [
            f"{count_to(number)} SELECT sum(c.credit) FROM n CROSS JOIN customer c "
            f"ON c.id = {scattered('n.i', step)};",
            f"{count_to(number)} SELECT sum(p.price * c.credit) FROM n "
            f"CROSS JOIN orders o ON o.customer = {scattered('n.i', step + 2)} "
            "CROSS JOIN part p ON p.id = o.part CROSS JOIN customer c ON c.id = o.customer;",
            f"{count_to(number // 4)} UPDATE customer SET credit = credit + 1 "
            f"WHERE id IN (SELECT {scattered('i', step + 6)} FROM n);",
        ]
        for _ in range(number // 20):
            key = below(rows)
            lines.append(f"SELECT name FROM part WHERE id = {key};")
            lines.append(f"DELETE FROM orders WHERE customer = {key};")
    return "\n".join(lines) + "\n"


def records_text(records: int) -> str:
    """Keys in an order without locality, each once, and values of 100 characters, line by line."""
    prime = next_prime(records)
    lines = []
    for index in range(records):
        key = (index + 1) * 15_485_863 % prime
        lines += [f"{key:010}", f"{key:0100}"]
    return "\n".join(lines) + "\n"


def next_prime(number: int) -> int:
    """The smallest prime that is not below `number`."""
    while any(number % factor == 0 for factor in range(2, int(number**0.5) + 1)):
        number += 1
    return number


def picture_bytes(width: int, height: int) -> bytes:
    """A colour picture (PPM): smooth shades, hard edges and some noise, as photographs have."""
    below = numbers(1992)
    noise = [below(24) for _ in range(4093)]
    rows = []
    for y in range(height):
        row = bytearray(3 * width)
        at = below(4093)
        for x in range(width):
            edge = 60 if (x // 48 + y // 40) % 3 == 0 else 0
            grain = noise[(at + x) % 4093]
            row[3 * x] = (x * 160 // width) + edge + grain
            row[3 * x + 1] = (y * 160 // height) + edge + grain
            row[3 * x + 2] = ((x + y) * 160 // (width + height)) + grain
        rows.append(bytes(row))
    return f"P6\n{width} {height}\n255\n".encode() + b"".join(rows)


def record(program: Program, trace: Path, max_instructions: int) -> None:
    """Records a program whole, or not at all; an interrupt, also at the program's end, raises
    `KeyboardInterrupt`."""
    trace = trace.absolute()
    with contextlib.chdir(program.input.parent):
        recorded = mmulab.record(
            program.command, trace, max_instructions=max_instructions, environment=ENVIRONMENT
        )
    if recorded.was_interrupted:
        trace.unlink()
    if recorded.interrupt_came:
        raise KeyboardInterrupt


def is_recorded(program: Program, trace: Path) -> bool:
    """Whether a program's trace is there, of this command, no older than its input, and whole: that
    of a recording that was killed is not."""
    try:
        information = mmulab.trace_information(trace)
    except mmulab.TraceError:
        return False
    is_current = trace.stat().st_mtime >= program.input.stat().st_mtime
    return information.command == program.command and is_current and not information.was_interrupted
