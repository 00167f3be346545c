"""The scripts beside the guests and of the benchmarks: what they say to somebody who mistypes."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import script as module_of
from conftest import start_interruptible

from mmulab.command import script_options
from mmulab.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
GUESTS = ROOT / "guests"

MISTAKES = [
    ("linux/run.py -m sa110", "sa110: choose from arm926ej-s"),
    ("linux/run.py -m cortex-a7 --spaces fass", "cortex-a7: choose from arm926ej-s"),
    ("linux/run.py -m sa1100 --migration safe", "sa1100: choose from gem5-vexpress"),
    ("linux/run.py --migration save", "--migration: choose from off, thesis, safe"),
    ("linux/run.py -m at91rm9200 --spaces fass --compare", "QEMU has no ARM920T"),
    ("linux/run.py -m at91rm9200 --qemu", "QEMU has no ARM920T"),
    ("linux/run.py --qemu --check", "--check and --max-instructions are for our machine"),
    (
        "linux/run.py --compare --max-instructions 9",
        "--check and --max-instructions are for our machine",
    ),
    ("linux/run.py --qemu --compare", "--compare boots QEMU, too"),
    ("linux/run.py --qemu --set cores=1", "--set is for our machine, not for --qemu"),
    ("linux/debian/run.py --compare --check", "--check and --max-instructions are for our machine"),
    ("linux/debian/run.py --compare --set cores=2", "--set is not for --compare"),
    ("linux/debian/run.py 'echo\"hi\"'", "use single ones"),
    ("linux/run.py 'echo\"hi\"'", "use single ones"),
    ("linux/run.py ''", "the command is empty"),
    ("linux/debian/run.py --qemu 'echo a\necho b'", "separate commands by ;"),
    ("linux/run.py --spaces fass 'echo a\necho b'", "separate commands by ;"),
    (
        "linux/run.py --migration safe --set core.coprocessor=cortex-a7",
        "--migration chooses it",
    ),
    ("linux/loads_migration.py --predictors -m cortex-a7", "leave -m out for gem5-vexpress"),
    (
        "linux/run.py -m cortex-a7 --compare --set memory.size_bytes=64M",
        "with --compare only cores",
    ),
    ("linux/run.py --set cores=2 --compare", "--set cores: is for cortex-a7"),
    ("linux/debian/run.py --qemu --set nothing=3", "--set nothing: with --qemu only cores"),
    ("linux/debian/run.py --set cores=5", "--set cores=5: the device tree has 4"),
    ("linux/run.py -m cortex-a7 --set cores=8", "--set cores=8: the device tree has 4"),
    ("linux/starts.py --set cores=8", "--set cores=8: the device tree has 4"),
    ("linux/run.py --migration safe --set cores=2", "the kernel of gem5-vexpress is for four"),
    ("linux/leave_out.py --set cores", "--set cores: write PATH=VALUE"),
    ("linux/debian/run.py --qemu --set cores=9", "cores: 9 is not between 1 and 8"),
    ("linux/debian/run.py --qemu --set cores=x", 'cores: expected an integer, found "x"'),
    ("linux/debian/run.py --max-instructions 0", "--max-instructions: 0 is no whole number"),
    ("linux/flushes.py --max-instructions 0", "--max-instructions: 0 is no whole number"),
    ("linux/checked.py -m arm926ej-s --sum", "--sum adds up all"),
    ("linux/stress_migration.py --migration transfer", "--migration: thesis or safe"),
    ("linux/layouts.py --first -1", "--first: -1 is no whole number from 0"),
    ("linux/layouts.py --samples missing/a.csv", "there is no such folder"),
    ("linux/switch_costs.py -n 1", "--processes: 1 is no whole number from 2 to 96"),
    ("linux/switch_costs.py --layouts -3", "--layouts: -3 is no whole number from 0"),
    ("linux/layouts.py --jobs 0", "--jobs: 0 is no whole number from 1"),
    ("linux/run.py --set cores", "--set cores: write PATH=VALUE"),
    ("linux/debian/run.py --set cores", "--set cores: write PATH=VALUE"),
    ("linux/flushes.py -m sa1100", "invalid choice: 'sa1100'"),
    ("linux/flushes.py switch", "switch: choose from tlb-user-range"),
    ("linux/measure.py --repeat 0", "--repeat: 0 is no whole number from 1"),
    ("linux/starts.py --starts 0", "--starts: 0 is no whole number from 1"),
    ("linux/gains_migration.py OpenMP", "no load OpenMP: choose from SQLite, compiler"),
    ("linux/stress_migration.py --migration save", "--migration: choose from off, thesis, safe"),
    ("linux/stress_migration.py --rounds 0", "--rounds: 0 is no whole number from 1"),
    ("linux/loads_migration.py OpenMPI", "no load OpenMPI: choose from 'hackbench, threads', "),
    ("linux/leave_out.py --jobs 0", "--jobs: 0 is no whole number from 1"),
    ("linux/run.py --max-instructions 0", "--max-instructions: 0 is no whole number from 1"),
    ("linux/gains_migration.py --starts 0", "--starts: 0 is no whole number from 1"),
    ("linux/jitter_migration.py --loops 0", "--loops: 0 is no whole number from 1"),
    ("linux/jitter_migration.py --boots 3", "--boots: invalid choice: 3"),
    ("microkernel/fuzz.py sa1100", "sa1100: name a run as sa1100/fass"),
    ("microkernel/fuzz.py --calls 0 sa1100/fass", "--calls: 0 is no whole number from 1"),
    (
        "microkernel/fuzz.py --seed 2684354560",
        "--seed: 2684354560 is no whole number from 0 to 2684354559",
    ),
    (
        "microkernel/fuzz.py --calls 2684354560",
        "--calls: 2684354560 is no whole number from 1 to 2684354559",
    ),
    (
        "microkernel/soak.py --operations 2684354560",
        "--operations: 2684354560 is no whole number from 1 to 2684354559",
    ),
    ("microkernel/soak.py sa1100/fas", "sa1100/fas: name a run as sa1100/fass; machines: sa1100"),
    ("microkernel/mutate.py --share 3", "--share 3: write a part and how many there are"),
    ("microkernel/mutate.py --share 9/8", "--share 9/8: there are 8 parts, from 1/8 to 8/8"),
    ("multicore/run.py measure cortex-a8", "'cortex-a8'"),
    ("mutants/run_random.py -m cortex-a7", "invalid choice: 'cortex-a7'"),
    ("mutants/run_random.py --maintenance wrong", "invalid choice: 'wrong'"),
    ("mutants/run_random.py --seeds 8:8", "write FIRST:END, the first below the end, not '8:8'"),
    ("../benches/arm.py --slow", "unrecognized arguments: --slow"),
    ("conformance/run.py --cases 0", "--cases: 0 is no whole number from 1"),
]


@pytest.mark.parametrize("words, told", MISTAKES, ids=[words for words, _ in MISTAKES])
def test_a_mistake_is_told_in_one_line_with_status_2(words, told):
    script, *arguments = shlex.split(words)
    done = subprocess.run(
        [sys.executable, GUESTS / script, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and not done.stdout
    assert len(lines) == 1 and told in lines[0], done.stderr


# Scripts of guests/linux with what is built of what they need, and what is asked for.
NOT_BUILT = [
    ("run.py --compare", "", "kernel is not built. Type: make linux"),
    ("run.py --compare", "kernel board.dtb", "initrd.cpio is not built. Type: make linux"),
    ("flushes.py", "", "kernel is not built. Type: make linux"),
    ("starts.py", "", "kernel-smp is not built. Type: make linux-smp"),
    ("measure.py", "", "kernel-plain-multi is not built"),
    ("measure.py", "kernel-plain-multi", "kernel-spaces-multi is not built"),
    ("layouts.py", "kernel-plain-v4", "kernel-spaces-v4 is not built"),
    (
        "lmbench.py",
        "kernel-plain-multi kernel-spaces-multi board.dtb initrd.cpio",
        "initrd-lmbench.cpio is not built",
    ),
    ("selftests.py", "kernel-plain initrd-selftests.cpio", "kernel-spaces is not built"),
    ("switch_costs.py", "", "kernel-spaces-multi is not built"),
    ("checked.py --load stress", "kernel-spaces board.dtb initrd.cpio", "kernel-spaces-multi is"),
    ("leave_out.py", "kernel-spaces-test", "board.dtb is not built"),
    (
        "leave_out.py",
        "kernel-spaces-test board.dtb initrd-spaces.cpio",
        "initrd.cpio is not built",
    ),
    (
        "leave_out.py --command meet",
        "kernel-spaces-test board.dtb",
        "initrd.cpio is not built",
    ),
    (
        "run.py --spaces fass --compare shares",
        "kernel-spaces board.dtb initrd.cpio",
        "initrd-spaces.cpio is not built",
    ),
    ("leave_out_migration.py", "kernel-migration-test", "initrd-migration.cpio is not built"),
    ("stress_migration.py", "", "kernel-migration is not built. Type: make linux-migration"),
    ("run.py --migration off", "kernel-migration", "initrd-migration.cpio is not built"),
    ("jitter_migration.py", "kernel-migration", "initrd-loads.cpio is not built"),
    ("gains_migration.py", "kernel-migration initrd-loads.cpio", "virt.dtb is not built"),
    ("debian/run.py --compare", "", "vmlinuz is not there. Type: make linux-debian"),
]


@pytest.mark.parametrize(
    "words, built, told", NOT_BUILT, ids=[f"{words}, {built}" for words, built, _ in NOT_BUILT]
)
def test_what_is_not_built_is_told_before_the_work_begins(words, built, told, tmp_path):
    script, *arguments = words.split()
    for source in [*GUESTS.glob("*.py"), *GUESTS.glob("linux/**/*.py")]:
        copy = tmp_path / "guests" / source.relative_to(GUESTS)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, copy)
    for name in built.split():
        path = tmp_path / "build" / "linux" / name
        path = path / "Image" if name.startswith("kernel") else path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    done = subprocess.run(
        [sys.executable, tmp_path / "guests" / "linux" / script, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and not done.stdout
    assert len(done.stderr.splitlines()) == 1 and told in done.stderr, done.stderr
    assert done.stderr.startswith(f"{Path(script).name}: ")


def test_verdicts_of_an_earlier_job_are_known_before_the_work_begins(tmp_path):
    kept_in = module_of("guests/microkernel/mutate.py").kept_in
    out = tmp_path / "mutants.txt"
    assert kept_in(out) == {}
    whole = "killed: a.c:1:2 `--x`: left out -- fass on sa1100, events: other counts\nsurvived: b\n"
    verdicts = {"a.c:1:2 `--x`: left out": "killed", "b": "survived"}
    for cut_off in ("", "survived: a.c:3", "the same co"):
        out.write_text(whole + cut_off)
        assert kept_in(out) == verdicts
        assert out.read_text() == whole
    for number, other in ((3, "hello"), (3, "hello\n"), (3, "killed\n"), (4, "survived: c\n\n")):
        out.write_text(whole + other)
        with pytest.raises(
            InputError, match=f"line {number}: is no mutant's verdict; name another"
        ):
            kept_in(out)
        assert out.read_text() == whole + other
    with pytest.raises(InputError, match="make its folder first"):
        kept_in(tmp_path / "none" / "mutants.txt")


def test_an_interrupt_ends_a_script_in_one_line():
    script = GUESTS / "multicore" / "run.py"
    with start_interruptible(sys.executable, script, stdin=subprocess.DEVNULL) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline().startswith("ok")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr.read() == "run.py: interrupted\n"


def leave_out_list(stdout):
    """Runs a script that prints a few lines to `stdout`; its status and what it says on stderr."""
    done = subprocess.run(
        [sys.executable, GUESTS / "linux" / "leave_out.py", "--list"],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
    )
    return done.returncode, done.stderr


def test_a_reader_that_has_seen_enough_ends_a_script_silently():
    read, write = os.pipe()
    os.close(read)
    try:
        assert leave_out_list(write) == (141, "")
    finally:
        os.close(write)


def test_an_output_that_is_full_is_told_in_one_line():
    with Path("/dev/full").open("w") as full:
        assert leave_out_list(full) == (1, "leave_out.py: stdout: no space left on device\n")


SCRIPTS = sorted(
    path
    for folder in (GUESTS, ROOT / "benches")
    for path in folder.rglob("*.py")
    if "add_argument(" in path.read_text()
)


@pytest.mark.parametrize("path", SCRIPTS, ids=[str(path.relative_to(ROOT)) for path in SCRIPTS])
def test_the_help_of_a_script_has_an_example_and_tells_of_each_option(path):
    tree = ast.parse(path.read_text())
    documentation = ast.get_docstring(tree) or ""
    assert any(line.startswith("    ") and path.name in line for line in documentation.splitlines())
    options = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add_argument"
    ]
    told = {
        ast.unparse(option.args[0]): {keyword.arg: keyword.value for keyword in option.keywords}
        for option in options
    }
    assert not [name for name, given in told.items() if "help" not in given]
    assert not [
        name
        for name, given in told.items()
        if ast.unparse(given.get("default", ast.Constant(None))) not in ("None", "[]")
        and "default: " not in ast.unparse(given["help"])
    ]


BOOTS_ONCE = [
    "guests/linux/run.py",
    "guests/linux/debian/run.py",
    "guests/linux/series.py",
    "guests/microkernel/collision.py",
]
"""Scripts that boot at most once, and show what the guest prints; all others take minutes."""


def test_scripts_that_take_minutes_tell_how_much_is_left():
    silent = [
        str(path.relative_to(ROOT))
        for folder in (GUESTS, ROOT / "benches")
        for path in folder.rglob("*.py")
        if "run_script(main)" in (text := path.read_text())
        and not any(word in text for word in ("one_by_one(", " progress(", "run_with_time_left("))
    ]
    assert sorted(silent) == sorted(BOOTS_ONCE)


def test_the_help_of_a_script_is_its_docstring(capsys):
    documentation = "What it does.\n\n    x.py --one \\\n      two\n\nAnd how: " + "word " * 30
    with pytest.raises(SystemExit):
        script_options(documentation).parse_args(["--help"])
    shown = capsys.readouterr().out
    assert "\n    x.py --one \\\n      two\n\nAnd how: word" in shown
    assert all(len(line) < 100 for line in shown.splitlines())
