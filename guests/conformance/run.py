"""Compares our ARM machines with QEMU on the same images.

    run.py                    everything: a million random instructions and more, MMU, devices
    run.py --cases 2000       less of it
    run.py --machine sa1100 --seed 7 --show 5

Exit status 1 if anything differs. See README.md beside this file.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import generate
import oracle
from generate import Generator
from generate_v7 import Generator7
from instructions import V4, V4T, V5TE, V7

import mmulab
from mmulab.command import run_script, script_options
from mmulab.limits import whole_number
from mmulab.output import one_by_one

ARCHITECTURE = {
    "arm926ej-s": V5TE, "ixp425": V5TE, "at91rm9200": V4T, "sa1100": V4, "armv7a": V7,
}  # fmt: skip
CASES_A_ROUND = 20_000


def described(machine):
    """What boots: the name of a machine, or the file of one that is only for this."""
    own = HERE / f"{machine}.toml"
    return own if own.exists() else machine


def generator(machine, seed, **shares):
    """The source of random cases for a machine."""
    architecture = ARCHITECTURE[machine]
    if architecture == V7:
        return Generator7(seed, **shares)
    return Generator(seed, architecture, **shares)


@dataclass
class Comparison:
    """What came out of one image on both sides."""

    machine: str
    instructions: int
    cases: int
    differences: list  # (case number, QEMU's line, ours)
    left_out: Counter


def harness(machine):
    """The program that runs the cases; ARMv4 code, so that every core can."""
    v7 = ARCHITECTURE[machine] == V7
    return oracle.compile(
        "conformance-v7" if v7 else "conformance",
        [HERE / "vectors.S", HERE / "harness.c"],
        ["-mcpu=strongarm", "-marm", "-O2", *["-DARMV7"] * v7],
        HERE / "harness.ld",
    )


def image(path, machine, seed, cases, **options):
    """Writes the image with its cases; gives the generator and the number of instructions."""
    source = generator(machine, seed, **options)
    payload, instructions = generate.blob(source, cases)
    path.write_bytes(generate.attach(harness(machine).read_bytes(), generate.CASES, payload))
    return source, instructions


def compare(machine, seed, cases):
    """Runs random cases on QEMU and on our machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.elf"
        source, instructions = image(path, machine, seed, cases)
        theirs = oracle.qemu(path, oracle.CPU[machine])
        # Far more than any case takes: one that hangs here is a difference, too.
        ours = mmulab.boot(path, described(machine), max_instructions=100_000 * cases)
    if theirs.status != 0:
        raise SystemExit(f"QEMU did not finish seed {seed} of {machine}: {theirs.output[-300:]}")
    expected, found = theirs.output.splitlines()[1:], ours.console.splitlines()[1:]
    differences = [
        (number, theirs_line, found[number] if number < len(found) else f"nothing: {ours.end}")
        for number, theirs_line in enumerate(expected)
        if number >= len(found) or found[number] != theirs_line
    ]
    if len(expected) != cases:
        raise SystemExit(f"QEMU ran {len(expected)} of {cases} cases of seed {seed}")
    return Comparison(machine, instructions, cases, differences, source.left_out)


def mmu_program():
    """The program that tries every kind of page, permission, domain, process and fault."""
    return oracle.compile(
        "conformance-mmu",
        [HERE / "mmu_start.S", HERE / "mmu.c"],
        ["-mcpu=strongarm", "-marm", "-O1"],
        HERE / "mmu.ld",
    )


def in_our_words(line):
    """A line of QEMU's with its known departure fixed, if it is one.

    QEMU 7.2 gives the virtual address in the fault address register, where the manuals give the
    modified virtual address (ARM DDI 0198D, 2.3.7; 252480-006, 3.5.1.5). Only that column changes.
    Its timers count from 0 after reset, where the manual says 0xffffffff (ARM DDI 0271D, table
    3-1).
    """
    if line in ("timer reset 004 00000000 ", "timer reset 024 00000000 "):
        return line.replace("00000000", "ffffffff")
    match = re.fullmatch(
        r"(process.*? ([0-9a-f]{8}) .*data abort [0-9a-f]{8} )([0-9a-f]{8})( *)", line
    )
    if not match:
        return line
    before, process, address, rest = match.groups()
    if int(address, 16) >= 1 << 25:
        return line
    return f"{before}{int(address, 16) | int(process, 16) << 25:08x}{rest}"


def compare_mmu(machine):
    """Runs the MMU program on both; gives the number of lines and those that differ."""
    theirs = oracle.qemu(mmu_program(), oracle.CPU[machine])
    return _compare_lines(described(machine), mmu_program(), theirs)


def devices_program():
    """The program that tries timers, interrupt controller and UART."""
    return oracle.compile(
        "conformance-devices",
        [HERE / "mmu_start.S", HERE / "devices.c"],
        ["-mcpu=strongarm", "-marm", "-O1"],
        HERE / "mmu.ld",
    )


def compare_devices(machine):
    """Runs the devices' program on both; gives the number of lines and those that differ."""
    # QEMU's time follows its instructions, so that a busy computer does not lose interrupts.
    by_instructions = ["-icount", "shift=3,sleep=off"]
    theirs = oracle.qemu(devices_program(), oracle.CPU[machine], options=by_instructions)
    return _compare_lines(described(machine), devices_program(), theirs)


def virt_program():
    """The program that tries the devices of the board virt."""
    return oracle.compile(
        "conformance-virt",
        [HERE / "virt_start.S", HERE / "virt.c"],
        ["-mcpu=cortex-a7", "-mfloat-abi=soft", "-marm", "-O1"],
        HERE / "virt.ld",
    )


#: What makes the machine for ARMv7-A one of four cores on that board.
VIRT = {
    "board.kind": "virt", "board.timer_hz": 62_500_000, "cores": 4, "interleave_cycles": 100,
}  # fmt: skip


def compare_virt(machine):
    """Runs the program for virt on both; gives the number of lines and those that differ."""
    options = ["-smp", "4", "-accel", "tcg,thread=single"]
    theirs = oracle.qemu(virt_program(), oracle.CPU[machine], options=options, board="virt")
    ours = mmulab.Machine.load(described(machine)).with_changes(VIRT)
    return _compare_lines(ours, virt_program(), theirs)


def mmu_v7_program():
    """The program that draws tables of ARMv7's short descriptors."""
    return oracle.compile(
        "conformance-mmu-v7",
        [HERE / "mmu_v7_start.S", HERE / "mmu_v7.c"],
        ["-mcpu=cortex-a7", "-mfloat-abi=soft", "-marm", "-O1", "-Wno-parentheses"],
        HERE / "virt.ld",
    )


#: A refused access in the program for tables of ARMv7: all but the status, and the status.
REFUSED = re.compile(r"(.* (?:data|prefetch) abort )([0-9a-f]{4})( .*)")
DOMAIN_FAULTS, PERMISSION_FAULTS, ACCESS_FLAG_FAULTS = (0x9, 0xB), (0xD, 0xF), (0x3, 0x6)
SECOND_LEVEL_TRANSLATION_FAULT = 0x7


def departure(theirs, ours, domains):
    """Why QEMU 7.2 and our machine may give these lines, where `domains` is DACR; None if they may
    not.

    The walk of the manual (ARM DDI 0406C, B3.19.5, TranslationTableWalkSD) reads both levels and
    looks at the access flag; domain and permissions are checked after it. QEMU checks the domain
    first, then whether the page may be executed, and where the program is the domain's manager it
    does not look at the flag at all.
    """
    refused = REFUSED.fullmatch(ours)
    if not refused:
        return None
    status = int(refused[2], 16)
    flag = status & 0xF in ACCESS_FLAG_FAULTS
    qemus = REFUSED.fullmatch(theirs)
    if qemus:
        status_there = int(qemus[2], 16)
        same = (qemus[1], qemus[3]) == (refused[1], refused[3]) and (
            status ^ status_there
        ) & ~0xF == 0
        if flag and same and status_there & 0xF in PERMISSION_FAULTS and "prefetch" in ours:
            return "execution is checked before the access flag"
        if not same or status_there & 0xF not in DOMAIN_FAULTS:
            return None
        if flag:
            return "the domain is checked before the access flag"
        if status & 0xF == SECOND_LEVEL_TRANSLATION_FAULT:
            return "the domain is checked before the second level is read"
        return None
    manager = domains >> (status >> 4 & 0xF) * 2 & 3 == 3
    return "a manager needs no access flag" if flag and manager else None


def compare_mmu_v7(machine="cortex-a7"):
    """Runs the program for tables of ARMv7 on both; gives the number of lines, those that differ,
    and how often QEMU departed from the manual in which way."""
    theirs = oracle.qemu(mmu_v7_program(), oracle.CPU["armv7a"], board="virt")
    ours = mmulab.Machine.load(machine).with_changes({"cores": 1})
    run = mmulab.boot(mmu_v7_program(), ours, max_instructions=100_000_000)
    expected, found = theirs.output.splitlines(), run.console.splitlines()
    if theirs.status != 0 or run.exit != 0 or len(expected) != len(found):
        raise SystemExit(f"the program did not end: QEMU {theirs.status}, {run.end}")
    different, departures, domains = [], Counter(), 0
    for pair in zip(expected, found, strict=True):
        if pair[0].startswith("round"):
            domains = int(pair[0].split()[-1], 16)
        if pair[0] == pair[1]:
            continue
        reason = departure(*pair, domains)
        if reason:
            departures[reason] += 1
        else:
            different.append(pair)
    return len(expected), different, departures


def _compare_lines(machine, image, theirs):
    ours = mmulab.boot(image, machine, max_instructions=100_000_000)
    if theirs.status != 0:
        raise SystemExit(f"QEMU did not finish {image.name}")
    expected = [in_our_words(line) for line in theirs.output.splitlines()]
    # The UART, whose console it is here, sends zeros.
    found = ours.console.replace("\0", "").splitlines()
    found += [f"nothing: {ours.end}"] * (len(expected) - len(found))
    return len(expected), [pair for pair in zip(expected, found, strict=True) if pair[0] != pair[1]]


def show(machine, seed, number, theirs, ours):
    """Prints one case: its code, and the words that differ."""
    payload, _ = generate.blob(generator(machine, seed), number + 1, only=number)
    cpsr = int.from_bytes(payload[28:32], "little")
    registers = [int.from_bytes(payload[36 + 4 * i : 40 + 4 * i], "little") for i in range(15)]
    print(f"case {number}: cpsr {cpsr:08x}", *(f"r{i}={v:08x}" for i, v in enumerate(registers)))
    with tempfile.NamedTemporaryFile(suffix=".bin") as code:
        code.write(payload[generate.HEAD + 72 :])
        code.flush()
        state = ["-Mforce-thumb"] if cpsr & 0x20 else []
        listing = subprocess.run(
            ["arm-none-eabi-objdump", "-D", "-b", "binary", "-marm", *state, code.name],
            capture_output=True, text=True,
        ).stdout  # fmt: skip
    print("\n".join(listing.splitlines()[7:]))
    print("QEMU:", theirs)
    print("ours:", ours, "\n")


def compare_programs(machine, shown):
    """Compares what the machine's programs print, and prints so many differing lines of each:
    whether any differ, and what was left out."""
    # The tables of the MMU program are those of ARMv4 and ARMv5, the devices another board's.
    programs = [("MMU program", compare_mmu), ("devices", compare_devices)]
    compared, departures = [], Counter()
    if ARCHITECTURE[machine] == V7:
        programs = [("devices of virt", compare_virt)]
        lines, different, departures = compare_mmu_v7()
        compared = [("cortex-a7: MMU program", lines, different)]
    compared += (
        (f"{machine}: {name}", *compare_lines(machine)) for name, compare_lines in programs
    )
    for name, lines, different in compared:
        print(f"{name}, {lines} lines, {len(different)} differ")
        for expected, found in different[:shown]:
            print(f"QEMU: {expected}\nours: {found}")
    return any(different for *_, different in compared), departures


def main():
    options = script_options(__doc__)
    options.add_argument(
        "--machine",
        action="append",
        choices=list(ARCHITECTURE),
        help="this machine; may be repeated (default: all that are described here)",
    )
    options.add_argument(
        "--cases", type=int, default=120_000, help="how many, in all (default: %(default)s)"
    )
    options.add_argument(
        "--seed", type=int, default=1, help="of the random choices (default: %(default)s)"
    )
    options.add_argument(
        "--show", type=int, default=3, help="differing cases to print (default: %(default)s)"
    )
    chosen = options.parse_args()
    whole_number("--cases", chosen.cases, 1)
    whole_number("--seed", chosen.seed)
    oracle.need_tools()
    shipped = mmulab.machine_names("system")
    machines = chosen.machine or [m for m in ARCHITECTURE if m in shipped or described(m) != m]
    share = -(-chosen.cases // len(machines))
    rounds = [
        (machine, chosen.seed + number, min(CASES_A_ROUND, share - number * CASES_A_ROUND))
        for machine in machines
        for number in range(-(-share // CASES_A_ROUND))
    ]
    left_out, failed, total = Counter(), False, 0
    for machine, seed, cases in one_by_one("Comparing", rounds, "rounds"):
        if seed == chosen.seed:  # the first round of a machine
            differ, departures = compare_programs(machine, chosen.show)
            failed |= differ
            left_out += departures
        started = time.monotonic()
        done = compare(machine, seed, cases)
        total += done.instructions
        left_out += done.left_out
        print(
            f"{machine}: seed {seed}, {cases} cases, {done.instructions} instructions, "
            f"{len(done.differences)} differ ({time.monotonic() - started:.0f} s)",
            flush=True,
        )
        for number, theirs, ours in done.differences[: chosen.show]:
            show(machine, seed, number, theirs, ours)
        failed |= bool(done.differences)
    print(f"{total} instructions compared. Drawn and left out:")
    for reason, count in left_out.most_common():
        print(f"{count:9}  {reason}")
    sys.exit(failed)


if __name__ == "__main__":
    run_script(main)
