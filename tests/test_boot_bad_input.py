"""Images that cannot run and guests that go astray: one clear message, never a panic."""

from __future__ import annotations

import gzip
import struct
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT

import mmulab

ARM, I386 = 40, 3
START = 0x10000
BRANCH_TO_ITSELF = 0xEAFFFFFE
SMALL = mmulab.Machine.load("arm926ej-s").with_changes({"memory.size_bytes": 0x100000})


def elf(
    code: list[int], entry: int = START, vectors: list[int] | None = None, kind: int = ARM
) -> bytes:
    """An ELF file with code at its entry, and words at address 0 if asked."""
    parts = [(entry, struct.pack(f"<{len(code)}I", *code))]
    if vectors:
        parts.append((0, struct.pack(f"<{len(vectors)}I", *vectors)))
    magic = b"\x7fELF\1\1\1"
    header = (magic, 2, kind, 1, entry, 52, 0, 0x5000200, 52, 32, len(parts), 40, 0, 0)
    out = struct.pack("<16sHHIIIIIHHHHHH", *header)
    offset = 52 + 32 * len(parts)
    for address, data in parts:
        out += struct.pack("<8I", 1, offset, address, address, len(data), len(data), 7, 4)
        offset += len(data)
    return out + b"".join(data for _, data in parts)


GOOD = elf([BRANCH_TO_ITSELF])


def test_tables_of_an_elf_file_need_no_alignment(tmp_path: Path) -> None:
    strings = b"\0the_entry\0"
    image = bytearray(GOOD)
    image += bytes(1 - len(image) % 2)  # from here on everything lies at odd offsets
    symbols_at = len(image)
    # One global function in the first section; symbol 0 is empty.
    image += bytes(16) + struct.pack("<IIIBBH", 1, START, 4, 0x12, 0, 1)
    strings_at = len(image)
    image += strings
    image += bytes(1 - len(image) % 2)
    sections_at = len(image)
    image += bytes(40)
    image += struct.pack("<10I", 0, 2, 0, 0, symbols_at, 32, 2, 1, 4, 16)
    image += struct.pack("<10I", 0, 3, 0, 0, strings_at, len(strings), 0, 0, 1, 0)
    struct.pack_into("<I", image, 32, sections_at)
    struct.pack_into("<HH", image, 48, 3, 2)
    assert symbols_at % 2 and sections_at % 2
    file = tmp_path / "image"
    file.write_bytes(image)
    result = mmulab.boot(file, SMALL)
    assert result.reason == "hang"
    assert "the_entry" in result.end


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (GOOD[:10], "damaged ELF"),
        (GOOD[:60], "damaged ELF"),
        (GOOD[:-2], "beyond the end of the file"),
        (elf([0], kind=I386), "a 32-bit ARM one is needed"),
        (
            elf([0], entry=0x70000000),
            r"does not fit into 1048576 bytes of memory .* another machine\?",
        ),
        (bytes(0x200000), "do not fit into 1048576 bytes of memory"),
        (b"", "less than one instruction"),
        (b"\x89MMT\r\n\x1a\n" + bytes(60), "is a recorded program"),
        (b"# How to build the kernel\n", "is text; a kernel is"),
        (gzip.compress(GOOD), "is compressed with gzip; unpack it first"),
    ],
    ids=[
        "head only",
        "cut header",
        "cut segment",
        "foreign",
        "high",
        "large",
        "empty",
        "trace",
        "text",
        "gzip",
    ],
)
def test_an_image_that_cannot_run_is_refused(tmp_path: Path, image: bytes, message: str) -> None:
    file = tmp_path / "image"
    file.write_bytes(image)
    with pytest.raises(mmulab.InputError, match=message) as refused:
        mmulab.boot(file, SMALL)
    assert str(file) in str(refused.value)


@pytest.mark.parametrize(
    "tree", [b"nonsense" * 8, struct.pack(">10I", 0xD00DFEED, 1 << 21, *[0] * 8)]
)
def test_a_device_tree_that_is_none_is_refused(tmp_path: Path, tree: bytes) -> None:
    (tmp_path / "image").write_bytes(GOOD)
    (tmp_path / "tree.dtb").write_bytes(tree)
    with pytest.raises(mmulab.InputError, match=r"tree\.dtb.*device tree"):
        mmulab.boot(tmp_path / "image", SMALL, dtb=tmp_path / "tree.dtb")


def test_an_initrd_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(GOOD)
    (tmp_path / "initrd").write_bytes(bytes(0x200000))
    tree = tmp_path / "board.dtb"
    source = ROOT / "guests" / "linux" / "board.dts"
    subprocess.run(["dtc", "-q", "-O", "dtb", "-o", tree, source], check=True)
    with pytest.raises(mmulab.InputError, match=r"initrd.*do not fit"):
        mmulab.boot(tmp_path / "image", SMALL, dtb=tree, initrd=tmp_path / "initrd")


# mov r0, #1 MB; TTB; mov r1, #1; DACR; control register with the MMU on: nothing is mapped.
UNMAP_EVERYTHING = [
    0xE3A00601, 0xEE020F10, 0xE3A01001, 0xEE031F10, 0xEE112F10, 0xE3822001, 0xEE012F10, 0xE1A00000,
]  # fmt: skip


@pytest.mark.parametrize(
    ("image", "reason", "place"),
    [
        (elf([BRANCH_TO_ITSELF]), "hang", "0x00010000"),
        (elf([0xFFFFFFFF] * 4), "empty-vector", "0x00010000"),
        (elf([0xE7FFFFFF], vectors=[0xE7FFFFFF] * 8), "vector-loop", "0x00000004"),
        (elf(UNMAP_EVERYTHING), "vector-loop", "0x0000000c"),
        (elf([0xE3A0F102]), "lost-fetch", "0x80000000"),
    ],
    ids=["loop with interrupts off", "garbage", "garbage vectors", "unmapped vector", "jump out"],
)
def test_a_guest_that_goes_astray_is_stopped(
    tmp_path: Path, image: bytes, reason: str, place: str
) -> None:
    file = tmp_path / "image"
    file.write_bytes(image)
    run = mmulab.boot(file, SMALL, max_instructions=3_000_000)
    assert run.reason == reason
    assert place in run.end
    assert run.exit is None
    assert not run.succeeded


def test_a_write_to_nothing_is_listed(tmp_path: Path) -> None:
    file = tmp_path / "image"
    # mov r0, #0x80000000; str r0, [r0]; b .
    file.write_bytes(elf([0xE3A00102, 0xE5800000, BRANCH_TO_ITSELF]))
    run = mmulab.boot(file, SMALL, max_instructions=1000)
    [note] = run.data["notes"]
    assert note.startswith("nothing is at physical 0x80000000: ") and "0x00010004" in note


def test_writes_of_one_instruction_to_many_pages_of_nothing_are_one_line(tmp_path: Path) -> None:
    file = tmp_path / "image"
    # mov r0, #0x80000000; str r0, [r0]; add r0, r0, #0x1000; b the store
    file.write_bytes(elf([0xE3A00102, 0xE5800000, 0xE2800A01, 0xEAFFFFFC]))
    three = mmulab.boot(file, SMALL, max_instructions=10)
    [note] = three.data["notes"]
    assert "physical 0x80000000 and 2 other pages, up to 0x80002000: " in note
    many, ending = mmulab.boot(file, SMALL, max_instructions=1000).data["notes"]
    assert "0x80000000 and 63 other pages, up to 0x8003f000: " in many
    assert "only those of the first 64 pages are listed" in ending
