"""Benchmarks of Linux in many layouts of the kernel: links and intervals."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace

import pytest
from conftest import script

import mmulab
from mmulab.errors import InputError, Interrupted, MmulabError

BRANCH_TO_ITSELF = 0xEAFFFFFE


def load(name: str) -> ModuleType:
    """A script of the guest, with those beside it that it needs; other guests' have the same
    names."""
    path, beside = sys.path[:], ("run", "measure", "layouts")
    others = {module: sys.modules.pop(module, None) for module in beside}
    try:
        return script(f"guests/linux/{name}.py")
    finally:
        sys.path[:] = path
        for module_name in beside:
            sys.modules.pop(module_name, None)
        sys.modules.update({name: other for name, other in others.items() if other})


layouts = load("layouts")
lmbench = load("lmbench")
switch_costs = load("switch_costs")
linux = layouts.run


def test_a_kernel_in_another_layout_is_the_same_kernel(tmp_path):
    kernel = linux.BUILT / linux.WITH_SPACES["sa1100"]
    if not (kernel / "vmlinux.a").exists():
        pytest.skip("make linux-spaces first")
    images = [tmp_path / "one", tmp_path / "other", tmp_path / "again"]
    for image, seed in zip(images, ["1", "2", "1"], strict=True):
        layouts.link(kernel, image, seed)
    one, other, again = (image.read_bytes() for image in images)
    assert one == again != other
    console = [
        linux.ours("sa1100", "lat null", image=image, spaces="fass").console
        for image in (kernel / "Image", *images[:2])
    ]
    said = [re.sub(r"\d+K", "sizes", "\n".join(linux.comparable(text))) for text in console]
    assert said[0] == said[1] == said[2]


def test_an_interval_is_that_of_student_and_that_of_a_ratio_has_the_errors_of_both():
    """By hand: 1, 2, 3 have a standard error of 0.577, and t is 4.303 with two degrees of
    freedom."""
    assert layouts.interval([1, 2, 3]) == pytest.approx((2, 2.48), abs=0.01)
    assert layouts.more([1, 2, 3], [2, 2, 2]) == "+0.0% \u00b1 124.1"
    # (4 / 2) * sqrt(0.62 ** 2 + 1.24 ** 2), in per cent
    assert layouts.more([3, 4, 5], [1, 2, 3]) == "+100.0% \u00b1 277.6"


def test_what_ran_in_turns_in_one_layout_is_one_result(monkeypatch, tmp_path):
    """The benchmarks that are asked for, and no others, their means over the rounds."""
    first, second = (
        f"== lat\r\nlat fork: {fork} us\r\n== lat\r\nlat exec: {execute} us\r\n"
        for fork, execute in ((2, "5.00"), (4, "5.50"))
    )
    said = f"Run /init\r\n{first}{second}"
    commands = []

    def boot(machine, command, **options):
        commands.append(command)
        return SimpleNamespace(succeeded=True, console=said)

    monkeypatch.setattr(layouts.run, "ours", boot)
    asked = ["lat fork", "lat exec"]
    rows = layouts.sample("ixp425", layouts.SHARED, 7, tmp_path, asked, 2)
    names = ("ixp425", layouts.SHARED, "7", "lat")
    assert rows == [(*names, "fork", 3.0), (*names, "exec", 5.25)]
    assert (
        "for round in $(seq 2); do echo == lat && lat fork && echo == lat && lat exec ||"
        in commands[0]
    )
    assert layouts.SHARED_TEXT not in commands[0]
    for wrong in (3, 1):
        with pytest.raises(InputError, match="does not print a result"):
            layouts.sample("ixp425", layouts.SHARED, 7, tmp_path, asked, wrong)
    # A loop of one round would move what the benchmarks take.
    assert commands[-1].endswith("; echo == lat && lat fork && echo == lat && lat exec")
    said = "Run /init\r\n== lat\r\nlat bw_pipe: 7 MB/s\r\n"
    with pytest.raises(InputError, match="bw_pipe: is in MB/s"):
        layouts.sample("ixp425", layouts.SHARED, 7, tmp_path, ["lat bw_pipe"])
    said = "Run /init\r\n"
    with pytest.raises(InputError, match="true: does not print a result"):
        layouts.sample("ixp425", layouts.SHARED, 7, tmp_path, ["true"])


def test_samples_of_other_benchmarks_are_kept_and_not_shown(tmp_path):
    file = tmp_path / "samples.csv"
    fork = ("ixp425", "off", "7", "lat", "fork", 3.0)
    layouts.Samples(file, "lat fork; 1 times").add([fork])
    others = layouts.Samples(file, "lat exec; 1 times")
    assert not others.has("ixp425", "off", "7") and not others.rows
    others.add([(*fork[:4], "exec", 5.0)])
    again = layouts.Samples(file, "lat fork; 1 times")
    assert again.has("ixp425", "off", "7") and again.rows == [fork]
    for content in ("machine,kernel,layout,program,benchmark,us\n", ""):
        file.write_text(content)
        with pytest.raises(InputError, match="no file of samples of this version"):
            layouts.Samples(file, "lat fork; 1 times")


@pytest.mark.parametrize("machine", sorted(linux.WITH_SPACES))
def test_every_cause_of_cycles_of_a_switch_has_one_column(machine, tmp_path):
    image = tmp_path / "image"
    image.write_bytes(BRANCH_TO_ITSELF.to_bytes(4, "little"))
    causes = mmulab.boot(image, machine, max_instructions=1).data["causes"]
    told = [name for names in switch_costs.COLUMNS.values() for name in names]
    assert sorted([*told, "idle", "off"]) == sorted(causes)


def test_lmbenchs_results_have_the_names_of_ours():
    """The console as the package of Debian 12 prints to it."""
    console = (
        'Pipe latency: 34.3126 microseconds\r\n\r\n"size=0k ovr=7.11\r\n2 10.95\r\n24 22.14\r\n'
        "Process fork+/bin/sh -c: 20292.0000 microseconds\r\nPipe bandwidth: 30.61 MB/sec\r\n"
    )
    assert lmbench.results(console) == {
        "pipe, us": 34.3126,
        "ctx 0 KB 2 processes, us": 10.95,
        "ctx 0 KB 24 processes, us": 22.14,
        "sh, us": 20292,
        "bw_pipe, MB/s": 30.61,
    }


def test_an_interrupted_guest_has_not_failed():
    result = SimpleNamespace(reason="interrupted", end="interrupted", console="")
    with pytest.raises(Interrupted, match="start 1 was interrupted"):
        raise linux.failure("start 1", result)


def test_a_command_line_that_the_kernel_would_cut_is_refused():
    """COMMAND_LINE_SIZE of arch/arm/include/uapi/asm/setup.h is 1,024, with the null behind it."""
    longest = "true " + "x" * (1023 - len(linux.command_line("true ")))
    assert linux.whole(linux.command_line(longest)) == linux.command_line(longest)
    with pytest.raises(InputError, match="would have 1024 bytes and keeps 1023; shorten the"):
        linux.whole(linux.command_line(longest + "x"))


def test_a_guest_that_fails_is_told_in_one_line():
    console = "[    0.1] Run /init\r\n\r\nlat ctx: 2 to 96 processes\r\nmmulab: exit status 2\r\n"
    end = "the guest ended with status 2"
    result = SimpleNamespace(reason="exit", end=end, console=console)
    assert str(linux.failure("ixp425, off", result)) == (
        "ixp425, off: the guest ended with status 2; the guest said: "
        "lat ctx: 2 to 96 processes / mmulab: exit status 2"
    )


def test_what_is_not_built_is_told_with_the_command_that_builds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(linux, "BUILT", tmp_path)
    for name, command in {
        "kernel": "make linux",
        "kernel-multi": "make linux",
        "kernel-smp": "make linux-smp",
        "kernel-spaces-v4": "make linux-spaces",
        "kernel-spaces-test": "make linux-spaces-test",
        "kernel-spaces-swap-v4": "make -C guests/linux OUT=$PWD/build/linux swap",
        "kernel-plain-v4": "make -C guests/linux OUT=$PWD/build/linux plain",
        "board.dtb": "make linux, or make linux-spaces for its kernels alone",
        "initrd-v4.cpio": "make linux, or make linux-spaces for its kernels alone",
        "initrd-lmbench.cpio": "make -C guests/linux OUT=$PWD/build/linux lmbench",
        "initrd-spaces.cpio": "make linux-spaces",
        "initrd-selftests.cpio": "make -C guests/linux OUT=$PWD/build/linux selftests",
    }.items():
        with pytest.raises(MmulabError) as ended:
            linux.built(name)
        assert str(ended.value) == f"{tmp_path / name} is not built. Type: {command}"
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "Image").touch()
    assert linux.built("kernel") == tmp_path / "kernel"
