"""House rules that a machine can check."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from conftest import ROOT

TEXT = {
    ".rs",
    ".py",
    ".pyi",
    ".toml",
    ".md",
    ".c",
    ".h",
    ".S",
    ".s",
    ".sh",
    ".j2",
    ".ipynb",
    ".csv",
}


def tracked() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a Git checkout")
    paths = (ROOT / name for name in listed.stdout.split("\0") if name)
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def sources() -> list[tuple[Path, str]]:
    return [
        (path, path.read_text(encoding="utf-8"))
        for path in tracked()
        if (path.suffix in TEXT or path.name == "Makefile") and path != Path(__file__)
    ]


def test_no_unfinished_work_is_marked():
    for path, text in sources():
        assert not re.search(r"\b(TODO|FIXME|XXX|HACK)\b", text), path


def test_no_path_of_a_developers_machine():
    for path, text in sources():
        # $(OUT)/root/ is a folder of a build.
        assert not re.search(r"(?<!\))(/home/\w|/root/|/work/|/Users/\w)", text), path


def test_files_end_with_a_newline_and_have_no_trailing_blanks():
    for path, text in sources():
        if path.suffix in {".rs", ".py", ".toml", ".md", ".sh"}:
            assert text == "" or text.endswith("\n"), path
            assert not re.search(r"[ \t]$", text, re.MULTILINE), path


def test_prose_is_wrapped():
    """Lines of paragraphs in documents have 100 columns, but for a last word that is longer: code
    and links are one word each."""
    for path, text in sources():
        if path.suffix != ".md":
            continue
        prose = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
        for line in prose.splitlines():
            if not line.startswith(("|", "#", "![", "    ")):
                words = re.findall(r"(?:`[^`]*`|\[[^\]]*\]\([^)]*\)|\S)+", line)
                assert len(line) <= 100 or line.rindex(words[-1]) < 100, (path, line)


def test_no_large_file_is_in_the_repository():
    for path in tracked():
        assert path.stat().st_size < 4 << 20, path


def test_units_stand_last_in_names():
    """`latency_cycles`, never `cycles_latency`; sizes in bytes say so."""
    for path in sorted((ROOT / "machines").glob("*.toml")):
        for name in re.findall(r"^(\w+)\s*=", path.read_text(), re.MULTILINE):
            assert not re.match(r"(bytes|cycles|instructions|seconds)_(?!per_)", name), (path, name)
            assert not re.search(r"(size|latency|cost|penalty)$", name), (path, name)


def test_papers_use_only_what_a_user_can():
    for path in sorted((ROOT / "python/mmulab/papers").glob("*.py")):
        assert "_engine" not in path.read_text(), path


def test_the_fuzzers_lock_what_their_crates_depend_on():
    fuzzers = sorted(ROOT.glob("crates/*/fuzz"))
    assert fuzzers
    for folder in fuzzers:
        crate = tomllib.loads((folder.parent / "Cargo.toml").read_text())
        packages = tomllib.loads((folder / "Cargo.lock").read_text())["package"]
        [locked] = [one for one in packages if one["name"] == crate["package"]["name"]]
        assert {name.split()[0] for name in locked["dependencies"]} == set(crate["dependencies"])


def test_the_test_program_of_a_crate_has_all_its_files():
    """With `autotests = false` a file that `main.rs` does not name is never compiled."""
    programs = sorted(ROOT.glob("crates/*/tests/main.rs"))
    assert programs
    for program in programs:
        files = {path.stem for path in program.parent.glob("*.rs")} - {"main"}
        named = set(re.findall(r"^mod (\w+);", program.read_text(), re.MULTILINE))
        assert files <= named, (program, files - named)


def test_the_recorder_needs_no_header_of_a_c_library():
    """It is linked without one; a computer that links 32-bit programs need not have its headers for
    them."""
    for name in ("recorder.c", "stream.h"):
        text = (ROOT / "recorders" / "valgrind" / name).read_text()
        assert not re.findall(r"#include <.*>", text), name
