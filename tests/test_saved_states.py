"""Runs that are saved and restored by the command and from Python: the same result, and clear
refusals."""

from __future__ import annotations

import json
import struct

import pytest
from conftest import mmulab as run_mmulab
from conftest import script

import mmulab
from mmulab.errors import InputError

linux = script("guests/linux/run.py")

MACHINE = "arm926ej-s"
START = 0x10000


def program(path, letters: str = "abcdef", waits: int = 2000):
    """An image that prints letters one by one, each after a loop, and ends with status 0."""
    words = []
    for letter in letters:
        words += [
            0xE3A01C00 | waits >> 8,  # mov r1, #waits rounded
            0xE2511001,  # subs r1, r1, #1
            0x1AFFFFFD,  # bne
            0xE3A01902,  # mov r1, #0x8000
            0xE3A02000 | ord(letter),  # mov r2, #letter
            0xE5C12000,  # strb r2, [r1]
            0xE3A00003,  # mov r0, #3
            0xEF123456,  # prints it
        ]
    words += [0xE3A00018, 0xE59F1000, 0xEF123456, 0x00020026]
    path.write_bytes(struct.pack(f"<{len(words)}I", *words))
    return path


def test_links_stay_links(tmp_path):
    image = program(tmp_path / "image")
    state, timeline = tmp_path / "state", tmp_path / "timeline"
    for link in (state, timeline):
        link.symlink_to(f"real-{link.name}")
    first = mmulab.boot(image, MACHINE, save=state, save_at="bc", timeline=timeline)
    for link in (state, timeline):
        assert link.is_symlink() and link.stat().st_size > 0
    assert first.console + mmulab.boot(image, MACHINE, restore=state).console == "abcdef"


def compared(result: mmulab.BootResult) -> dict:
    """All of a result but where it began."""
    return {key: value for key, value in result.data.items() if key != "restored"}


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("save_at", [0, 3000, "bc"])
def test_the_rest_of_a_run_is_the_rest_of_the_run(tmp_path, save_at, check):
    image, state = program(tmp_path / "image"), tmp_path / "state"
    whole = mmulab.boot(image, MACHINE, check=check)
    assert (whole.exit, whole.console) == (0, "abcdef")
    first = mmulab.boot(image, MACHINE, check=check, save=state, save_at=save_at)
    assert (first.reason, first.exit, first.succeeded) == ("saved", None, True)
    second = mmulab.boot(image, MACHINE, check=check, restore=state)
    assert first.console + second.console == whole.console
    assert compared(second) == compared(whole)
    restored = second.data["restored"]
    assert (restored["instructions"], restored["cycles"]) == (first.instructions, first.cycles)
    assert restored["state"]["name"] == "state"
    assert whole.data["restored"] is None and whole.simulated["cycles"] == whole.cycles
    for name, of_second in second.simulated.items():
        assert of_second == whole.data[name] - first.data[name]


def test_values_in_cycles_may_be_others_and_act_from_there_on(tmp_path):
    image, state = program(tmp_path / "image"), tmp_path / "state"
    saved = mmulab.boot(image, MACHINE, save=state, save_at=3000)
    slower = mmulab.Machine.load(MACHINE).with_changes({"memory.word_read_cycles": 500})
    runs = [mmulab.boot(image, machine, restore=state) for machine in (MACHINE, slower)]
    assert runs[0].instructions == runs[1].instructions > saved.instructions
    assert runs[0].cycles < runs[1].cycles
    assert runs[1].data["restored"]["cycles"] == saved.cycles
    shipped = mmulab.Machine.load(MACHINE).get("memory.word_read_cycles")
    others = [run.data["restored"]["other_cycles"] for run in runs]
    assert others == [{}, {"memory.word_read_cycles": {"saved": shipped, "now": 500}}]


@pytest.fixture
def saved(tmp_path):
    """An image and a state of it."""
    image, state = program(tmp_path / "image"), tmp_path / "state"
    mmulab.boot(image, MACHINE, save=state, save_at=3000)
    return image, state


def refusal(image, machine=MACHINE, **options) -> str:
    with pytest.raises(InputError) as refused:
        mmulab.boot(image, machine, **options)
    text = str(refused.value)
    assert "\n" not in text
    return text


def test_what_a_state_is_not_of_is_refused_in_one_line(saved, tmp_path):
    image, state = saved
    other = program(tmp_path / "other", "xyz")
    assert "saved of another image (image)" in refusal(other, restore=state)
    assert "saved without --append" in refusal(image, append="one", restore=state)
    assert "saved without --dtb; restore it so" in refusal(image, dtb=other, restore=state)
    assert "saved without --check" in refusal(image, check=True, restore=state)
    machine = mmulab.Machine.load(MACHINE).with_changes({"itlb.entries": 8, "itlb.ways": 2})
    text = refusal(image, machine, restore=state)
    assert "only values in cycles may differ" in text
    assert "was" in text and "entries" in text
    assert "is no saved state" in refusal(image, restore=image)
    assert "is no saved state" in refusal(image, restore="/dev/zero")
    assert "no such file" in refusal(image, restore=tmp_path / "none")
    bytes_ = bytearray(state.read_bytes())
    bytes_[len(bytes_) // 2] ^= 1
    state.write_bytes(bytes_)
    assert "is damaged" in refusal(image, restore=state)


def test_options_that_do_not_go_together_are_refused(saved):
    image, state = saved
    assert "name one as save" in refusal(image, save_at=5)
    assert "gdb" in refusal(image, save=state, save_at=5, gdb_port=1234)
    assert "guesses" in refusal(image, restore=state, guesses=True)
    assert "empty" in refusal(image, save=state, save_at="")


def test_the_command_saves_restores_and_says_when_it_did_not(tmp_path):
    image, state = program(tmp_path / "image"), tmp_path / "state"
    options = ["boot", image, "-m", MACHINE, "--format", "json"]
    whole = json.loads(run_mmulab(*options).output)
    saving = run_mmulab(*options, "--save", state, "--save-at", "3_000")
    assert json.loads(saving.output)["reason"] == "saved"
    restoring = run_mmulab(*options, "--restore", state)
    assert "which are part of all counts" in restoring.errors
    again = json.loads(restoring.output)
    assert again.pop("restored")["instructions"] >= 3000
    assert whole.pop("restored") is None
    assert again == whole
    state.unlink()
    missed = run_mmulab(*options, "--save", state, "--save-at", "never printed")
    assert missed.status == 1
    assert "not written, as the run ended before --save-at\n" in missed.errors
    by_hand = run_mmulab(*options, "--save", state)
    assert "before Ctrl-]; --save-at says where else" in by_hand.errors
    assert not state.exists()


def test_the_command_names_its_own_options_where_they_do_not_go_together(saved):
    image, state = saved
    for options, says in (
        (["--save-at", "5"], "--save-at: where to? Add --save FILE"),
        (["--save", "s", "--save-at", ""], "--save-at: an empty text"),
        (["--save", "s", "--save-at", "1e6"], "--save-at: '1e6' is no whole number"),
        (["--save", "s", "--save-at", "-5"], "--save-at: -5 is no whole number from 0"),
        (["--save", "s", "--save-at", " 10k"], "--save-at: ' 10k' is no whole number"),
        (
            ["--save", "s", "--save-at", "9" * 30],
            f"--save-at: {'9' * 30} is no whole number from 0",
        ),
        (["--save", state, "--gdb", "1234"], "--save: not with --gdb;"),
    ):
        refused = run_mmulab("boot", image, "-m", MACHINE, *options)
        assert refused.status == 2
        assert refused.error_line.startswith(says)


@pytest.mark.parametrize("machine", ["arm926ej-s", "cortex-a7"])
@pytest.mark.parametrize("check", [False, True])
def test_linux_goes_on_where_it_was_saved(machine, check, tmp_path):
    folder = linux.BUILT / linux.KERNEL[machine]
    if not (folder / "Image").exists():
        pytest.skip("make linux and make linux-smp first")
    state = tmp_path / "state"
    options = {"command": "hackbench -p -g 1 -l 5", "check": check}
    whole = linux.ours(machine, **options)
    assert whole.exit == 0, whole.console[-500:]
    first = linux.ours(machine, **options, save=state, save_at="Freeing unused kernel")
    assert first.reason == "saved"
    second = linux.ours(machine, **options, restore=state)
    assert first.console + second.console == whole.console
    assert compared(second) == compared(whole)


def test_a_restored_run_tells_of_other_values_and_of_a_limit_that_is_past(tmp_path):
    image, state = program(tmp_path / "image"), tmp_path / "state"
    result = ("-o", tmp_path / "result.json")
    changed = ("--set", "memory.word_read_cycles=500")
    boot = ("boot", image, "-m", MACHINE)
    assert run_mmulab(*boot, *changed, "--save", state, "--save-at", "3000", *result).status == 0
    other = "memory.word_read_cycles is"
    assert other in run_mmulab(*boot, "--restore", state, *result).errors
    same = run_mmulab(*boot, *changed, "--restore", state, "--max-instructions", "10", *result)
    assert other not in same.errors
    assert "nothing was executed: limits and --save-at count from power-on" in same.errors
