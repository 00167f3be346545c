"""Recording under QEMU: against Valgrind on the same program, and where each access is known."""

import gzip
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import mmulab

import mmulab as api

NEEDED = ["arm-none-eabi-gcc", "gcc", "qemu-arm", "qemu-x86_64", "valgrind"]
ARM = ["arm-none-eabi-gcc", "-nostdlib", "-static", "-marm"]
X86 = ["gcc", "-nostdlib", "-static", "-no-pie", "-fno-pic", "-fno-stack-protector"]

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason="make setup setup-arm installs what it needs"
)


def built(compiler: list[str], folder: Path, suffix: str, source: str) -> str:
    """A program of a source text."""
    file = folder / f"program{suffix}"
    file.write_text(source)
    program = folder / "program"
    subprocess.run([*compiler, file, "-o", program], check=True)
    return str(program)


def recorded(program: str, folder: Path, **options) -> tuple[api.TraceInformation, list[str]]:
    """What a program's trace says of itself, and its lines."""
    information = api.record([program], folder / "t.mmt", **options)
    return information, mmulab("trace", "dump", folder / "t.mmt").output.splitlines()


def without_the_stack(lines: list[str]) -> list[str]:
    """Instructions and accesses, those of the stack as distances from its first."""
    stack = None
    said = []
    for line in lines:
        if line.startswith("--"):
            continue
        kind, place = line[:3], line[3:]
        address, _, size = place.partition(",")
        number = int(address, 16)
        if number >> 32:
            stack = number if stack is None else stack
            address = f"stack{number - stack:+}"
        said.append(f"{kind}{address},{size}")
    return said


# Sorting, counting, pointers and recursion, on numbers that are drawn.
WORK = """
static unsigned numbers[4096], other[4096];
static unsigned long seed = SEED;
static unsigned draw(void)
{
    seed = seed * 6364136223846793005ul + 1442695040888963407ul;
    return seed >> 33;
}
static int fold(int n) { return n < 2 ? n : fold(n - 1) + fold(n - 2); }
static void sort(unsigned *first, unsigned *last)
{
    while (last - first > 1) {
        unsigned pivot = *first, *low = first, *high = last - 1;
        while (low < high) {
            while (low < high && *high >= pivot)
                high--;
            *low = *high;
            while (low < high && *low <= pivot)
                low++;
            *high = *low;
        }
        *low = pivot;
        sort(first, low);
        first = low + 1;
    }
}
void _start(void)
{
    for (int i = 0; i < 1024; i++)
        numbers[i] = draw();
    sort(numbers, numbers + 1024);
    for (int i = 0; i < 4096; i++) {
        other[draw() % 4096] += numbers[i];
        ((unsigned char *)other)[draw() % 16384] ^= 1;
    }
    int result = fold(13) + (int)other[17];
    __asm__ volatile("syscall" : : "a"(231), "D"(result & 0x7f));
    __builtin_unreachable();
}
"""


@pytest.mark.parametrize("optimised", ["-O0", "-O2"])
def test_qemu_and_valgrind_see_the_same(tmp_path, optimised):
    seed = random.Random(optimised).getrandbits(40)
    program = built([*X86, optimised], tmp_path, ".c", WORK.replace("SEED", f"{seed}ul"))
    by_valgrind, one = recorded(program, tmp_path)
    by_qemu, other = recorded(program, tmp_path, qemu=True)
    assert (by_valgrind.recorder[-8:], by_qemu.recorder[-4:]) == ("Valgrind", "QEMU")
    assert by_qemu.instructions == by_valgrind.instructions > 100_000
    assert by_qemu.exit_status == by_valgrind.exit_status
    assert without_the_stack(other) == without_the_stack(one)


# Registers: 4 the data, 0 and 7 system calls. Accesses that a condition leaves out, several of an
# instruction, a pair of words, an exclusive pair, and a block that a fault leaves in its middle a
# hundred times.
ARM_SOURCE = """
    .arch armv7-a
    .syntax unified
    .global _start
_start:
    ldr r4, =data
    mov r7, #174            @ rt_sigaction(SIGSEGV)
    mov r0, #11
    ldr r1, =action
    mov r2, #0
    mov r3, #8
    svc #0
    mov r5, #0
again:
    add r5, r5, #1
    str r5, [r4]
    mov r6, #0
    strb r5, [r6]           @ faults
    str r5, [r4, #4]        @ never
    str r5, [r4, #8]        @ never
resumed:
    cmp r5, #100
    blt again
    cmp r5, #0
    streq r5, [r4, #12]     @ never
    strhne r5, [r4, #16]
    ldmia r4, {r0, r1, r2}
    ldrd r2, r3, [r4, #24]
    add r8, r4, #32
    ldrex r0, [r8]
    strex r1, r5, [r8]
    mov r0, r5
    mov r7, #248            @ exit_group
    svc #0

    @ The saved program counter becomes that of `resumed` (struct ucontext: 5 words, then trap_no, error_code,
    @ oldmask, and the registers).
handler:
    ldr r0, =resumed
    str r0, [r2, #92]
    bx lr
restorer:
    mov r7, #173            @ rt_sigreturn
    svc #0
    .ltorg
    .data
    .balign 64
data: .space 64
action: .word handler, 0x04000004, restorer, 0, 0
"""


@pytest.mark.parametrize("compiler", [ARM, X86], ids=["QEMU", "Valgrind"])
def test_a_program_that_is_not_whole_leaves_no_trace(tmp_path, compiler):
    """What runs it maps what the file does not have, and a signal ends it before its first
    instruction."""
    source = ".global _start\n.space 100000\n_start: .long 0\n"
    program = Path(built(compiler, tmp_path, ".s", source))
    program.write_bytes(program.read_bytes()[:4200])
    finished = mmulab("record", "-o", tmp_path / "t.mmt", "--", program)
    assert finished.status in (1, 2)
    assert f"mmulab: recording {program}: " in finished.errors.splitlines()[-1]
    assert not (tmp_path / "t.mmt").exists()


def test_conditions_faults_and_pairs_of_an_arm_program(tmp_path):
    program = built(ARM, tmp_path, ".s", ARM_SOURCE)
    information, lines = recorded(program, tmp_path)
    assert (information.instruction_set, information.exit_status) == ("ARM", 100)
    names = subprocess.run(
        ["arm-none-eabi-nm", program], check=True, capture_output=True, text=True
    ).stdout
    places = {name: int(value, 16) for value, _, name in map(str.split, names.splitlines())}
    data, again = places["data"], places["again"]
    executed = [int(line[3:].partition(",")[0], 16) for line in lines if line.startswith("I")]
    # What comes before the fault is there each time; the store that faults, and what follows it,
    # never.
    assert [executed.count(again + 4 * place) for place in range(6)] == [100, 100, 100, 0, 0, 0]
    assert executed.count(places["handler"]) == executed.count(places["resumed"]) == 100
    # Eight before, of a turn three, three of the handler, two of the restorer and two, and then
    # eleven.
    assert len(executed) == information.instructions == 8 + 100 * (3 + 3 + 2 + 2) + 11
    own = [line for line in lines if line[1] in "LSM" and data <= int(line[3:11], 16) < data + 64]
    at = [f"{{}} {data + place:08x},{size}" for place, size in enumerate([4] * 64)]
    assert own == [" " + at[0].format("S")] * 100 + [
        f" S {data + 16:08x},2",
        *(f" L {data + place:08x},4" for place in (0, 4, 8, 24, 28)),
        f" L {data + 32:08x},4",
        f" M {data + 32:08x},4",
    ]


def test_calls_of_an_arm_program_are_not_made_up(tmp_path):
    """They are in registers. A region would never end, and a function's callees are not known."""
    source = 'void work(void) {} void _start(void) { work(); asm("mov r7, #1; svc 0"); }'
    recorded(built(ARM, tmp_path, ".c", source), tmp_path)
    compressed = tmp_path / "t.mmt.gz"
    compressed.write_bytes(gzip.compress((tmp_path / "t.mmt").read_bytes()))
    asked = [
        (command, trace) for command in ("replay", "profile") for trace in ("t.mmt", compressed)
    ]
    for command, trace in asked:
        finished = mmulab(command, tmp_path / trace, "-m", "base", "--region", "work")
        assert finished.status == 2
        assert (
            "calls, which are found in x86 programs only; this one is for ARM"
            in finished.error_line
        )
    assert not api.profile(tmp_path / "t.mmt", "base").has_calls
    table = mmulab("profile", tmp_path / "t.mmt", "-m", "base", "--format", "table").output
    assert "No calls were found" in table


def test_what_qemu_does_not_record_is_said(tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexit 3\n")
    script.chmod(0o755)
    finished = mmulab("record", "--qemu", "-o", tmp_path / "t.mmt", "--", script)
    assert finished.status == 2 and "it is a script" in finished.error_line
    finished = mmulab(
        "record", "--qemu", "--follow-children", "-o", tmp_path / "t.mmt", "--", "/bin/true"
    )
    assert finished.status == 2 and "leave out --follow-children" in finished.error_line
    program = built(ARM, tmp_path, ".s", ARM_SOURCE)
    finished = mmulab("record", "-o", tmp_path / "t.mmt", "--", program, PATH=str(tmp_path))
    assert finished.status == 1 and "apt-get install qemu-user" in finished.error_line
    assert not (tmp_path / "t.mmt").exists()


def test_a_child_leaves_nothing_in_its_parents_trace(tmp_path):
    source = WORK.replace("SEED", "1").replace(
        "    int result = fold(13) + (int)other[17];",
        "    long child;\n"
        '    __asm__ volatile("syscall" : "=a"(child) : "a"(57) : "rcx", "r11", "memory");\n'
        "    int result = child ? 5 : fold(20);",
    )
    program = built([*X86, "-O1"], tmp_path, ".c", source)
    by_valgrind, one = recorded(program, tmp_path)
    by_qemu, other = recorded(program, tmp_path, qemu=True)
    assert by_qemu.exit_status == by_valgrind.exit_status == 5
    assert without_the_stack(other) == without_the_stack(one)


# 16 pages, of which the last 8 shrink to 2 in their place.
REMAPPED = """
static long call(long number, long first, long second, long third, long fourth)
{
    register long flags asm("r10") = fourth;
    register long file asm("r8") = -1, offset asm("r9") = 0;
    asm volatile("syscall" : "+a"(number) : "D"(first), "S"(second), "d"(third), "r"(flags), "r"(file), "r"(offset)
        : "rcx", "r11", "memory");
    return number;
}
void _start(void)
{
    long mapped = call(9, 0, 16 * 4096, 3, 0x22);
    call(25, mapped + 8 * 4096, 8 * 4096, 2 * 4096, 0);
    call(231, 0, 0, 0, 0);
}
"""


def test_what_is_remapped_in_its_place_has_its_own_length(tmp_path):
    """Linux shows it as one with its neighbours."""
    lines = recorded(built([*X86, "-O1"], tmp_path, ".c", REMAPPED), tmp_path, qemu=True)[1]
    mapped, unmapped, remapped = [line.split()[1:3] for line in lines if line[:2] == "--"][-3:]
    first, length = mapped[1].split(",")
    assert (mapped[0], length) == ("map", f"{16 * 4096}")
    behind = f"{int(first, 16) + 8 * 4096:08x}"
    assert unmapped == ["unmap", f"{behind},{8 * 4096}"]
    assert remapped == ["map", f"{behind},{2 * 4096}"]


def test_a_limit_ends_the_program(tmp_path):
    program = built([*X86, "-O1"], tmp_path, ".c", WORK.replace("SEED", "1"))
    information, lines = recorded(program, tmp_path, qemu=True, max_instructions=5000)
    assert information.termination_kind == "limit"
    assert 5000 <= information.instructions < 5600
    whole = recorded(program, tmp_path, qemu=True)[1]
    assert lines == whole[: len(lines)]
