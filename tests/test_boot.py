"""Booting images: what comes out for people and for programs, and what is refused."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from conftest import MMULAB, ROOT, VERSATILEPB, start_interruptible
from conftest import mmulab as run_mmulab

import mmulab
from mmulab import guests
from mmulab.boot import Retyping, Terminal, terminal
from mmulab.cli import app
from mmulab.command import status_of
from mmulab_start import ENDING

START = 0x10000
LAB = 0x101FF000


def constant(register: int, value: int) -> list[int]:
    """MOV and ORR that put a constant into a register."""
    words = [0xE3A00000 | register << 12 | value & 0xFF]
    for shift, rotation in ((8, 12), (16, 8), (24, 4)):
        byte = value >> shift & 0xFF
        words.append(0xE3800000 | register << 16 | register << 12 | rotation << 8 | byte)
    return words


def put(address: int, value: int) -> list[int]:
    """STR of a constant; R2 and R3 are spoilt."""
    return [*constant(2, address), *constant(3, value), 0xE5823000]


SEMIHOSTING = 0xEF123456
BRANCH_TO_ITSELF = 0xEAFFFFFE


def written(path, words):
    """The path, at which an image of these words is now."""
    path.write_bytes(struct.pack(f"<{len(words)}I", *words))
    return path


def free_port() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def program(path, *, status: int = 0):
    """An image that prints "hi", enters phase 7 and ends with a status."""
    words = [
        *put(0x8000, int.from_bytes(b"hi\0\0", "little")),
        *constant(0, 4),
        *constant(1, 0x8000),
        SEMIHOSTING,
        *put(LAB + 0x18, 7),
        *put(LAB + 0x1C, status),
        BRANCH_TO_ITSELF,
    ]
    return written(path, words)


@pytest.mark.parametrize("machine", VERSATILEPB)
def test_the_result_as_objects_and_tables(machine, tmp_path):
    result = mmulab.boot(program(tmp_path / "image"), machine)
    assert (result.exit, result.reason, result.console) == (0, "exit", "hi")
    assert result.succeeded
    assert [row["name"] for row in result.phases.to_pylist()] == ["0", "7"]
    assert sum(result.table["cycles"].to_pylist()) == result.cycles
    assert sum(result.spaces["cycles"].to_pylist()) == result.cycles


def test_a_phase_that_begins_again_goes_on_also_the_first(tmp_path):
    words = [*put(LAB + 0x18, 7), *put(LAB + 0x18, 0), *put(LAB + 0x18, 7), *put(LAB + 0x1C, 0)]
    image = written(tmp_path / "image", words)
    phases = mmulab.boot(image, "arm926ej-s").phases.to_pylist()
    assert [(row["name"], row["instructions"]) for row in phases] == [("0", 18), ("7", 18)]


def test_equal_runs_are_equal_and_say_of_what(tmp_path):
    image = program(tmp_path / "image")
    first, second = (mmulab.boot(image, "arm926ej-s", check=True) for _ in range(2))
    assert first.data == second.data
    assert first.seconds > 0
    source = first.data["provenance"]
    assert source["image"]["sha256"] == hashlib.sha256(image.read_bytes()).hexdigest()
    assert source["machine"]["description"] == mmulab.Machine.load("arm926ej-s").values()


def test_the_guests_status_and_the_contract_of_the_json(tmp_path, capfd):
    image = program(tmp_path / "image", status=3)
    assert status_of(app, ["boot", str(image), "-m", "sa1100", "--format", "json"]) == 1
    out, err = capfd.readouterr()
    data = json.loads(out)
    for key in (
        "machine",
        "instructions",
        "cycles",
        "causes",
        "phases",
        "exit",
        "checker",
        "provenance",
    ):
        assert key in data
    assert data["exit"] == 3
    assert "hi" in err


def test_the_table_for_people(tmp_path, capfd):
    image = program(tmp_path / "image")
    assert status_of(app, ["boot", str(image), "--check", "--format", "table"]) == 0
    out, _ = capfd.readouterr()
    assert "By processor mode" in out
    assert "The checker saw nothing stale." in out


def test_a_change_to_the_machine_costs_what_it_says(tmp_path):
    image = program(tmp_path / "image")
    slow = mmulab.Machine.load("arm926ej-s").with_changes({"memory.word_read_cycles": 100})
    assert mmulab.boot(image, slow).cycles > mmulab.boot(image, "arm926ej-s").cycles


def test_the_range_of_a_boot_is_what_the_changed_machines_give(tmp_path):
    image = program(tmp_path / "image")
    plain = mmulab.boot(image, "ixp425")
    assert plain.data["guesses"] == [] and plain.cycles_range == (plain.cycles, plain.cycles)
    result = mmulab.boot(image, "ixp425", guesses=True)
    assert {**result.data, "guesses": []} == plain.data
    assert len(result.data["guesses"]) == len(mmulab.Machine.load("ixp425").alternatives()) > 5
    every = [plain.cycles]
    for guess in result.data["guesses"]:
        alone = mmulab.boot(image, mmulab.Machine.load("ixp425").with_changes(guess["set"]))
        assert (alone.cycles, alone.instructions) == (guess["cycles"], guess["instructions"])
        every.append(alone.cycles)
    assert result.cycles_range == (min(every), max(every))
    assert min(every) < plain.cycles < max(every)


def test_a_boot_tells_of_guesses_and_shows_them_when_asked(tmp_path, capfd):
    image = str(program(tmp_path / "image"))
    plain = run_mmulab("boot", image, "-m", "ixp425", "--format", "table")
    assert "values of ixp425 are guesses; --guesses shows what they do" in plain.errors
    shown = run_mmulab("boot", image, "-m", "ixp425", "--guesses", "--format", "table")
    assert "memory.line_fill_cycles=120" in shown.output and "--guesses" not in shown.errors


WAIT_FOR_INTERRUPT = 0xEE070F90
TIMER, INTERRUPTS, UART = 0x101E2000, 0x10140000, 0x101F1000


class Clock(mmulab.Transcript):
    """A console with a clock, which never strikes: it only notes how long it was to wait."""

    real_time = True

    def __init__(self, typed: bytes = b""):
        super().__init__(typed)
        self.waited: list[float] = []

    def read(self, wait_seconds: float | None) -> bytes:
        """Types the text while the guest waits."""
        if not wait_seconds:
            return b""
        self.waited.append(wait_seconds)
        return super().read(wait_seconds)


class Late(mmulab.Transcript):
    """A console at which a key is typed when it was asked twice before."""

    def __init__(self):
        super().__init__(b"x")
        self.asked = 0

    def read(self, wait_seconds: float | None) -> bytes:
        """Types the key, late."""
        self.asked += 1
        return super().read(wait_seconds) if self.asked > 2 else b""


@pytest.fixture
def poller(tmp_path):
    """An image that waits for a character in a loop and ends."""
    no_character = [0xE5910018, 0xE3100010, 0x1AFFFFFC]  # LDR of UART's FR, TST of RXFE, BNE
    words = [*constant(1, UART), *no_character, *put(LAB + 0x1C, 0), BRANCH_TO_ITSELF]
    return written(tmp_path / "poller", words)


def test_boots_with_other_values_of_guesses_are_typed_the_same(poller):
    """Without it they would not end."""
    result = mmulab.boot(poller, "ixp425", console=Late(), guesses=True)
    for guess in result.data["guesses"]:
        machine = mmulab.Machine.load("ixp425").with_changes(guess["set"])
        alone = mmulab.boot(poller, machine, console=Late())
        assert (alone.cycles, alone.reason) == (guess["cycles"], guess["reason"])
        assert guess["reason"] == "exit"
    piped = subprocess.run(
        [MMULAB, "boot", poller, "-m", "ixp425", "--guesses", "--max-instructions", "10000000"],
        input=b"x",
        capture_output=True,
        check=True,
    )
    told = json.loads(piped.stdout)
    assert {guess["reason"] for guess in told["guesses"]} == {told["reason"]} == {"exit"}


def test_what_is_typed_while_a_guest_sleeps_is_typed_again_where_it_sleeps():
    retyping = Retyping([b"", b"", b"a", b"b"])
    assert [retyping.read(0.0), retyping.read(None), retyping.read(0.0)] == [b"", b"a", b"b"]
    assert retyping.read(None) == b""


def test_what_is_typed_by_hand_is_not_typed_again(poller):
    """The time that a person takes is part of the cycles."""
    keyboard, terminal_side = pty.openpty()
    line = [MMULAB, "boot", poller, "-m", "ixp425", "--guesses", "--format", "json"]
    with subprocess.Popen(
        line, stdin=terminal_side, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while process.poll() is None:  # what comes before the terminal is raw is lost
            os.write(keyboard, b"x")
            time.sleep(0.1)
        output, errors = process.communicate()
    os.close(keyboard)
    os.close(terminal_side)
    assert process.returncode == 1 and "--guesses: not booted again" in errors
    assert json.loads(output)["guesses"] == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"typed": "x", "console": mmulab.Transcript()}, "typed: the console types"),
        ({"guesses": True, "console": Clock()}, "guesses: in real time"),
    ],
)
def test_options_that_a_console_does_not_go_with_are_refused(poller, options, told):
    with pytest.raises(mmulab.InputError, match=told):
        mmulab.boot(poller, "ixp425", **options)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_of_the_boots_with_other_values_gives_what_is_done(
    tmp_path, monkeypatch, capfd
):
    image = endless(tmp_path / "image")
    output = tmp_path / "result.json"
    boot, boots = mmulab.boot, 0

    def endless_third(*arguments, **options):
        nonlocal boots
        boots += 1
        if boots == 3:
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            options["max_instructions"] = None
        return boot(*arguments, **options)

    monkeypatch.setattr(mmulab, "boot", endless_third)
    line = ["boot", str(image), "-m", "ixp425", "--guesses", "--max-instructions", "1000"]
    assert status_of(app, [*line, "-o", str(output)]) == 130
    assert (
        "interrupted; 1 boots with other values of the guesses were done" in capfd.readouterr().err
    )
    data = json.loads(output.read_text())
    assert data["reason"] == "limit" and len(data["guesses"]) == 1


def test_guesses_of_a_boot_that_ends_before_its_first_cycle_are_shown(tmp_path):
    image = program(tmp_path / "image")
    options = ["-m", "ixp425", "--guesses", "--max-seconds", "1e-12", "--format", "table"]
    shown = run_mmulab("boot", image, *options)
    assert shown.status == 0 and "+0.00%" in shown.output


def test_the_instruction_limit_is_exact(tmp_path):
    result = mmulab.boot(program(tmp_path / "image"), "ixp425", max_instructions=11)
    assert (result.instructions, result.reason, result.exit) == (11, "limit", None)


@pytest.fixture
def sleeper(tmp_path):
    """An image that waits 300 ms for its timer and ends."""
    words = [
        *put(INTERRUPTS + 0x10, 1 << 4),
        *put(TIMER + 8, 0x03),  # 32 bits, one shot
        *put(TIMER, 300_000),
        *put(TIMER + 8, 0xA3),  # on, with interrupt
        WAIT_FOR_INTERRUPT,
        *put(LAB + 0x1C, 0),
        BRANCH_TO_ITSELF,
    ]
    return written(tmp_path / "sleeper", words)


def test_idle_time_passes_by_the_clock_where_the_console_has_one(sleeper):
    clock = Clock()
    paced = mmulab.boot(sleeper, "arm926ej-s", console=clock)
    skipped = mmulab.boot(sleeper, "arm926ej-s")
    assert clock.waited == [pytest.approx(0.3, rel=0.01)]
    assert paced.cycles == skipped.cycles
    assert paced.data["causes"]["idle"]["cycles"] == pytest.approx(0.3 * 266e6, rel=0.01)


def test_several_cores_that_sleep_at_once_wait_once_and_not_at_each_turn(sleeper):
    machine = mmulab.Machine.load("arm926ej-s").with_changes({"cores": "2"})
    clock = Clock()
    paced = mmulab.boot(sleeper, machine, console=clock)
    assert sum(clock.waited) == pytest.approx(0.3, rel=0.01)
    assert len(clock.waited) <= 300
    assert paced.cycles == mmulab.boot(sleeper, machine).cycles


def test_what_is_typed_cuts_the_wait_short_and_the_rest_is_waited_later(sleeper):
    clock = Clock(b"x")
    paced = mmulab.boot(sleeper, "arm926ej-s", console=clock)
    assert len(clock.waited) == 2
    assert clock.waited[1] < clock.waited[0]
    assert paced.cycles == mmulab.boot(sleeper, "arm926ej-s").cycles


LABELS = """
    .global _start
_start:
    mov r0, #1
again:
    subs r0, r0, #1
    bne again
    .type typed, %function
typed:
    nop
inside:
    b .
    .size typed, . - typed
after:
    b .
"""


@pytest.mark.skipif(shutil.which("arm-none-eabi-gcc") is None, reason="needs make setup-arm")
def test_labels_of_assembly_name_what_is_in_no_function(tmp_path):
    source, image = tmp_path / "labels.s", tmp_path / "labels"
    source.write_text(LABELS)
    compiler = ["arm-none-eabi-gcc", "-g", "-nostdlib", "-Ttext=0x10000"]
    subprocess.run([*compiler, source, "-o", image], check=True)
    result = mmulab.boot(image, "sa1100", max_instructions=1000)
    assert "at 0x00010010 (typed+0x4, labels.s:12)" in result.end
    restarted = mmulab.boot(image, "sa1100", max_instructions=2)
    assert "at 0x00010008 (again+0x4, labels.s:7)" in restarted.end


def test_the_provenance_has_what_was_typed_and_the_file_of_symbols():
    image = guests.image("microkernel-armv4")
    given = mmulab.boot(image, "sa1100", typed="x", symbols=image, max_instructions=10)
    provenance = given.data["provenance"]
    assert (provenance["typed"], provenance["symbols"]) == ("x", provenance["image"])
    without = mmulab.boot(image, "sa1100", max_instructions=10).data["provenance"]
    assert without["typed"] is without["symbols"] is None


@pytest.mark.parametrize(("seconds", "reason"), [(0.2, "limit"), (0.4, "exit")])
def test_the_time_limit_is_exact_and_counts_sleep(sleeper, seconds, reason):
    run = mmulab.boot(sleeper, "arm926ej-s", max_seconds=seconds)
    assert run.reason == reason
    assert ("time limit" in run.end) == (reason == "limit")
    assert run.data["provenance"]["max_seconds"] == seconds
    if reason == "limit":
        assert run.cycles == pytest.approx(seconds * 266e6, abs=2)


def test_the_time_limit_ends_a_guest_that_waits_for_what_is_typed(tmp_path):
    words = [
        *put(INTERRUPTS + 0x10, 1 << 12),
        *put(UART + 0x38, 0x10),
        WAIT_FOR_INTERRUPT,
        *put(LAB + 0x1C, 7),
        BRANCH_TO_ITSELF,
    ]
    image = written(tmp_path / "listener", words)
    limited = run_mmulab("boot", str(image), "--max-seconds", "3", "--format", "json")
    assert json.loads(limited.output)["cycles"] == pytest.approx(3 * 266e6, abs=2)
    # What is typed wakes it before.
    assert mmulab.boot(image, "arm926ej-s", max_seconds=3, typed="x").exit == 7


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_limit_that_is_none_is_refused(sleeper, seconds):
    with pytest.raises(mmulab.InputError, match="is no time; give a finite number of seconds"):
        mmulab.boot(sleeper, max_seconds=seconds, machine="arm926ej-s")


def test_a_timeline_appears_whole(tmp_path):
    timeline = tmp_path / "timeline.json"
    mmulab.boot(program(tmp_path / "image"), "arm926ej-s", timeline=timeline)
    assert json.loads(timeline.read_text())["traceEvents"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["image", "timeline.json"]


def test_a_timeline_that_does_not_fit_leaves_nothing(tmp_path):
    program(tmp_path / "image")
    finished = subprocess.run(
        [MMULAB, "boot", "image", "--timeline", "t.json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert finished.returncode == 1
    assert finished.stderr.endswith("mmulab: t.json: file too large; it was not written\n")
    assert [path.name for path in tmp_path.iterdir()] == ["image"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing"], "missing: no such file"),
        (["image", "-m", "ultrix"], "an image needs one of kind"),
        (["image", "--initrd", "image"], "give one with --dtb"),
        (["image", "--dtb", "image"], "is not a device tree blob"),
        (["image", "--timeline", "no/such/folder/t.json"], "no/such/folder/t.json"),
        (["image", "--gdb", "99999"], "--gdb"),
        (["image", "--max-instructions", "0"], "--max-instructions"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, tmp_path, monkeypatch, capfd):
    program(tmp_path / "image")
    monkeypatch.chdir(tmp_path)
    assert status_of(app, ["boot", *arguments]) == 2
    _, err = capfd.readouterr()
    assert message in err
    assert err.count("\n") == 1


def test_a_guest_that_is_lost_fails_with_its_pc(tmp_path, capfd):
    image = tmp_path / "image"
    image.write_bytes(struct.pack("<I", 0xE7F000F0))
    assert status_of(app, ["boot", str(image)]) == 1
    _, err = capfd.readouterr()
    assert "undefined instruction at 0x00010000" in err


def test_quiet_is_silent_where_a_run_ends_well_and_tells_why_where_not(tmp_path):
    def said(*words):
        finished = run_mmulab("boot", *words, "-q", "-o", tmp_path / "r.json")
        return finished.status, finished.errors

    assert said(program(tmp_path / "well")) == (0, "")
    status, told = said(program(tmp_path / "three", status=3))
    assert status == 1 and "status 3" in told
    unsaved = ("--save", tmp_path / "state", "--save-at", "never printed")
    status, told = said(tmp_path / "well", *unsaved)
    assert status == 1 and "not written, as the run ended before --save-at" in told


def test_a_raw_image_that_is_lost_without_a_device_tree_is_told_of_it(tmp_path, capfd):
    image = tmp_path / "image"
    image.write_bytes(struct.pack("<I", 0xE7F000F0) * 16)
    assert status_of(app, ["boot", str(image)]) == 1
    assert "if this is Linux it needs one: --dtb FILE" in capfd.readouterr().err
    tree = tmp_path / "board.dtb"
    source = ROOT / "guests" / "linux" / "board.dts"
    subprocess.run(["dtc", "-q", "-o", tree, source], check=True)
    assert status_of(app, ["boot", str(image), "--dtb", str(tree)]) == 1
    assert "Linux" not in capfd.readouterr().err


def endless(path, printed=b"on\n\0"):
    """An image that prints "on" and never ends."""
    words = [
        *put(0x8000, int.from_bytes(printed, "little")),
        *constant(0, 4),
        *constant(1, 0x8000),
        SEMIHOSTING,
        # MOV R0, R0; B back: no hang that the machine would notice by itself.
        0xE1A00000,
        0xEAFFFFFD,
    ]
    return written(path, words)


class Interrupting(mmulab.Transcript):
    """A console that does what Ctrl-C does as soon as the guest prints."""

    def write(self, data):
        super().write(data)
        signal.raise_signal(signal.SIGINT)


@pytest.fixture
def interruptible():
    """Ctrl-C as at a terminal; a shell that starts jobs in the background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_is_an_exception_in_python_unless_a_console_is_given(tmp_path):
    forever = endless(tmp_path / "image")
    result = mmulab.boot(forever, "ixp425", console=Interrupting())
    assert result.reason == "interrupted" and result.instructions > 0
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        mmulab.boot(forever, "ixp425")
    timer.join()


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_comes_as_the_guest_ends_is_not_lost(tmp_path):
    image = tmp_path / "image"
    program(image)
    assert mmulab.boot(image, "arm926ej-s", console=Interrupting()).reason == "interrupted"


@pytest.mark.parametrize("sent", ENDING)
@pytest.mark.parametrize("options", [[], ["--gdb", "PORT"]], ids=["running", "waiting for gdb"])
def test_an_interrupt_ends_a_boot_with_its_result_and_status_130(tmp_path, options, sent):
    forever = endless(tmp_path / "image")
    port = free_port()
    output, timeline = tmp_path / "result.json", tmp_path / "timeline"
    arguments = [port if option == "PORT" else option for option in options]
    arguments += ["-o", output, "--timeline", timeline]
    with start_interruptible(
        MMULAB, "boot", forever, *arguments, stdin=subprocess.DEVNULL
    ) as process:
        assert process.stdout and process.stderr
        if options:
            assert "waiting for gdb" in process.stderr.readline()
        else:
            assert process.stdout.readline() == "on\n"
        process.send_signal(sent)
        assert process.wait(timeout=60) == 130
        assert process.stderr.read().startswith("interrupted at 0x0001")
    assert json.loads(output.read_text())["reason"] == "interrupted"
    assert json.loads(timeline.read_text())
    assert sorted(os.listdir(tmp_path)) == ["image", "result.json", "timeline"]


def test_what_is_said_of_an_image_is_said_before_it_runs_and_once(tmp_path):
    """A kernel for a later architecture may neither print nor end."""
    image = guests.image("microkernel-armv5te")
    line = [MMULAB, "boot", image, "-m", "sa1100", "--append", "scheme=fass run=pingpong"]
    with start_interruptible(*line, stdin=subprocess.DEVNULL) as process:
        assert "compiled for ARMv5TEJ" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert "compiled for" not in errors


def test_ctrl_c_on_a_terminal_ends_the_waiting_for_gdb(tmp_path):
    forever = endless(tmp_path / "image")
    process, terminal_side = pty.fork()
    if process == 0:
        # It is ignored where the tests run in the background of a script.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(MMULAB, [MMULAB, "boot", os.fspath(forever), "--gdb", free_port()])
    with os.fdopen(terminal_side, "rb+", buffering=0) as screen:
        said = b""
        while b"Ctrl-C ends it" not in said:
            said += screen.read(1024)
        screen.write(b"\x03")
        kill = threading.Timer(30.0, os.kill, (process, signal.SIGKILL))
        kill.start()
        _, status = os.waitpid(process, 0)
        kill.cancel()
    assert os.waitstatus_to_exitcode(status) == 130


def test_a_run_that_gdb_kills_has_ended_as_it_was_asked_to(tmp_path):
    port = free_port()
    with start_interruptible(MMULAB, "boot", endless(tmp_path / "image"), "--gdb", port) as process:
        assert "waiting for gdb" in process.stderr.readline()
        with socket.create_connection(("127.0.0.1", int(port))) as gdb:
            gdb.sendall(b"$k#6b")
            assert process.wait(timeout=60) == 0


def test_nobody_waits_for_gdb_before_the_files_and_the_port_are_known_to_be_good(tmp_path):
    missing = run_mmulab("boot", tmp_path / "missing", "--gdb", free_port())
    assert missing.status == 2 and "waiting" not in missing.errors


def test_a_port_that_gdb_cannot_have_is_refused_with_a_mend(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        refused = run_mmulab("boot", endless(tmp_path / "image"), "--gdb", port)
    assert refused.status != 0
    [line] = [line for line in refused.errors.splitlines() if line.startswith("mmulab: ")]
    assert f"gdb port {port}: " in line and "choose another" in line
    assert "waiting" not in refused.errors


def test_a_silent_guest_is_told_once_before_it_prints_and_once_where_its_input_is_at_its_end(
    tmp_path, monkeypatch
):
    notes = []
    (tmp_path / "typed").write_bytes(b"ls\n")
    with (tmp_path / "typed").open("rb") as typed, (tmp_path / "screen").open("wb") as screen:
        module = sys.modules["mmulab.boot"]  # `mmulab.boot` is the function
        monkeypatch.setattr(module, "STANDARD_INPUT", typed.fileno())
        monkeypatch.setattr(module, "SILENCE_SECONDS", 0.0)
        with terminal(screen, notes.append) as console:
            assert [console.read(0.0) for _ in range(3)] == [b"ls\n", b"", b""]
            assert len(notes) == 1 and "made for another core" in notes.pop()
            console.write(b"$ ")
            assert [console.read(0.0) for _ in range(3)] == [b""] * 3
            console.write(b"later")
            assert console.read(0.0) == b""
    assert len(notes) == 1 and "Ctrl-C" in notes[0]


def test_a_guest_that_sleeps_until_something_is_typed_and_printed_nothing_is_told(
    tmp_path, monkeypatch
):
    notes = []
    keyboard, typist = os.pipe()
    module = sys.modules["mmulab.boot"]  # `mmulab.boot` is the function
    monkeypatch.setattr(module, "STANDARD_INPUT", keyboard)
    monkeypatch.setattr(module, "SILENCE_SECONDS", 0.1)
    types = threading.Timer(0.5, os.write, (typist, b"x"))
    with (tmp_path / "screen").open("wb") as screen:
        console = Terminal(screen, escape=False, note=notes.append)
        types.start()
        assert console.read(None) == b"x"
    types.join()
    os.close(keyboard)
    os.close(typist)
    assert len(notes) == 1 and "made for another core" in notes[0]


def test_a_silent_guest_is_told_with_its_instructions_while_nobody_reads_its_screen(
    tmp_path, monkeypatch
):
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    for at_the_keyboard in (False, True):
        notes = []
        with (tmp_path / "screen").open("wb") as screen:
            console = Terminal(screen, escape=at_the_keyboard, note=notes.append)
            for seconds, millions in ((1.9, 20), (0.2, 20), (1.8, 40), (0.4, 40), (9.0, 40)):
                now += seconds
                console.advanced(1_000_000 * millions, None)
            console.write(b"on")
            now += 2.1
            console.advanced(30_000_000, 60_000_000)
        silent = [text.removeprefix("the guest is silent: ").rstrip() for text in notes]
        # After 2.1 and 4.3 seconds; later it only waits.
        before = ["20 M instructions so far", "40 M instructions so far"]
        after = [] if at_the_keyboard else ["30 M of 60 M instructions so far"]
        assert silent == before + after


@pytest.mark.parametrize("printed", [b"on\n\0", b"on>\0"])
def test_what_comes_behind_a_prompt_begins_a_line(tmp_path, printed):
    image = endless(tmp_path / "image", printed)
    arguments = ["boot", image, "-m", "arm926ej-s", "--max-instructions", "100000", "-o"]
    together = subprocess.run(
        [MMULAB, *arguments, tmp_path / "a.json"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    guest, *notes = together.stdout.splitlines()
    assert guest == printed[:-1].rstrip() and notes[0].startswith(b"the instruction limit")
    apart = run_mmulab(*arguments, tmp_path / "b.json")
    assert apart.output.encode() == printed[:-1], "no byte is added to a console in a file"


def test_progress_of_a_boot_is_told_and_may_end_it(tmp_path):
    """The guest would never end by itself."""

    def end(instructions: int, limit: int | None) -> None:
        assert instructions > 0 and limit is None
        raise ArithmeticError("enough")

    with pytest.raises(ArithmeticError, match="enough"):
        mmulab.boot(endless(tmp_path / "image"), "arm926ej-s", progress=end)


def test_a_write_that_does_nothing_is_told_on_stderr_once(tmp_path):
    image = tmp_path / "image"
    debug_override = 0xEE0F0F10  # MCR p15, 0, R0, c15, c0, 0
    words = [debug_override, debug_override, *put(LAB + 0x1C, 0), BRANCH_TO_ITSELF]
    image.write_bytes(struct.pack(f"<{len(words)}I", *words))
    finished = run_mmulab("boot", image)
    assert finished.status == 0
    assert finished.errors.count("MCR p15, 0, c15, c0, 0 is not modelled") == 1
    assert len(json.loads(finished.output)["notes"]) == 1


def test_what_cannot_be_used_is_refused_before_the_run(tmp_path):
    image = endless(tmp_path / "image")
    notes = tmp_path / "notes"
    notes.write_text("no list of symbols\n")
    fifo = tmp_path / "fifo"  # as devices are: root would replace /dev/null
    os.mkfifo(fifo)
    for option, path, told in (
        ("--symbols", notes, "has no symbols"),
        ("--symbols", tmp_path / "missing", "no such file or directory"),
        ("--timeline", tmp_path, "is a directory"),
        ("--timeline", fifo, "is no file"),
        ("--save", fifo, "is no file"),
    ):
        done = run_mmulab("boot", str(image), option, str(path))
        assert (done.status, done.output) == (2, "")
        assert f"{path}: {told}" in done.errors and done.errors.count("\n") == 1
    assert fifo.is_fifo()
