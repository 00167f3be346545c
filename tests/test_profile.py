"""Regions of interest and who pays, on a real program beside Valgrind's callgrind."""

from __future__ import annotations

import csv
import json
import re
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
from conftest import ROOT, mmulab

import mmulab as api

PROGRAM = r"""
#include "mmulab.h"
#include <setjmp.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline))

static jmp_buf out;
static char* memory;

NOINLINE int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

NOINLINE long touch(long pages)
{
   long sum = 0;
   for (long page = 0; page < pages; page++)
      sum += memory[page * 4096]++;
   return sum;
}

NOINLINE int compare(const void* one, const void* other) { return *(int*)one - *(int*)other; }

NOINLINE void sort(int* numbers, int count, int (*order)(const void*, const void*))
{
   for (int end = 1; end < count; end++)
      for (int i = end; i > 0 && order(&numbers[i - 1], &numbers[i]) > 0; i--) {
         int other = numbers[i];
         numbers[i] = numbers[i - 1];
         numbers[i - 1] = other;
      }
}

NOINLINE void give_up(int depth)
{
   if (depth == 0)
      longjmp(out, 1);
   give_up(depth - 1);
   memory[0]++;
}

NOINLINE long solve(int round)
{
   int numbers[100];
   for (int i = 0; i < 100; i++)
      numbers[i] = (i * 7919 + round) % 1000;
   sort(numbers, 100, compare);
   if (setjmp(out) == 0)
      give_up(5);
   return touch(2000) + numbers[round];
}

NOINLINE long around(int round) { return solve(round) + fibonacci(10); }

int main(void)
{
   long sum = 0;
   memory = calloc(3000, 4096);
   for (int round = 0; round < 3; round++) {
      sum += around(round);
      sum += touch(1000);
      MMULAB_REGION_BEGIN("marked");
      sum += solve(round);
      MMULAB_REGION_END("marked");
   }
   return sum == 42;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    source = folder / "program.c"
    source.write_text(PROGRAM)
    include = ROOT / "recorders" / "valgrind"
    flags = ["-g", "-O1", "-fno-inline", "-fno-optimize-sibling-calls", f"-I{include}"]
    subprocess.run(["gcc", *flags, source, "-o", folder / "program"], check=True)
    return folder / "program"


@pytest.fixture(scope="module")
def recording(program: Path) -> Path:
    trace = program.with_suffix(".mmt")
    assert api.record([program], trace).exit_status == 0
    return trace


def callgrind(program: Path, *options: str) -> Path:
    """The output of callgrind on the program."""
    file = program.with_name("callgrind.out")
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={file}", *options, program]
    subprocess.run(command, check=True, capture_output=True)
    return file


def read_callgrind(file: Path) -> tuple[dict[str, int], dict[str, int], int]:
    """First event by function (own code), calls by function, and the total."""
    own: dict[str, int] = defaultdict(int)
    calls: dict[str, int] = defaultdict(int)
    names: dict[str, str] = {}
    function = callee = ""
    is_call = False
    total = 0
    for line in file.read_text().splitlines():
        if match := re.match(r"(c?fn)=(?:\((\d+)\))? ?(.*)", line):
            kind, number, name = match.groups()
            name = names.setdefault(number, name) if number and name else name or names[number]
            function, callee = (name, callee) if kind == "fn" else (function, name)
        elif line.startswith("calls="):
            calls[callee] += int(line[6:].split()[0])
            is_call = True
        elif match := re.match(r"(?:summary|totals): (\d+)", line):
            total = int(match[1])
        elif line and line[0] in "0123456789+-*" and (fields := line.split()):
            if not is_call:
                own[function] += int(fields[1])
            is_call = False
    return own, calls, total


OWN = ["main", "around", "solve", "touch", "fibonacci", "compare", "sort", "give_up"]


@pytest.fixture(scope="module")
def profile(recording: Path) -> api.Profile:
    return api.profile(recording, "x86-64")


def test_instructions_and_calls_by_function_are_callgrinds(
    program: Path, profile: api.Profile
) -> None:
    own, calls, _ = read_callgrind(callgrind(program, "--skip-plt=no", "--separate-recs=1"))
    rows = {row["function"]: row for row in profile.table().to_pylist()}
    for name in OWN:
        assert rows[name]["instructions"] == own[name], name
    for name in ["main", "around", "solve", "touch", "compare", "sort"]:
        assert rows[name]["calls"] == calls[name], name
    assert rows["fibonacci"]["calls"] == 3 * 177


def test_inclusive_costs_count_a_recursion_once(profile: api.Profile) -> None:
    rows = {row["function"]: row for row in profile.table().to_pylist()}
    whole = profile.instructions
    fibonacci = rows["fibonacci"]
    assert fibonacci["inclusive_instructions"] == fibonacci["instructions"]
    # The C library and the dynamic linker's first calls come on top.
    own = sum(rows[name]["instructions"] for name in OWN)
    assert own < rows["main"]["inclusive_instructions"] < whole


def test_the_function_that_touches_memory_pays(profile: api.Profile) -> None:
    first = profile.table(cost="translation_cycles").to_pylist()[0]
    assert first["function"] == "touch"
    line = profile.table("line", "translation_cycles").to_pylist()[0]
    text = PROGRAM.splitlines()[line["line"] - 1]
    assert line["file"].endswith("program.c")
    assert "memory[page" in text, text


def test_a_profile_adds_up_to_the_replay(recording: Path, profile: api.Profile) -> None:
    replayed = api.replay(recording, "x86-64", guesses=False)[0]
    named = {
        **replayed.data["provenance"],
        "symbol_files": profile.outcome.data["provenance"]["symbol_files"],
    }
    assert profile.outcome.data == {**replayed.data, "provenance": named}
    for by in ("function", "line"):
        table = profile.table(by)
        assert sum(table["instructions"].to_pylist()) == replayed.instructions
        cycles = sum(
            sum(table[name].to_pylist())
            for name in ("translation_cycles", "page_fault_cycles", "cache_cycles")
        )
        issue = replayed.data["causes"]["issue"]["cycles"]
        assert cycles == replayed.cycles - issue


def test_a_function_as_region_is_what_callgrind_collects_in_it(
    program: Path, recording: Path
) -> None:
    for name in ["around", "solve", "touch"]:
        _, _, total = read_callgrind(
            callgrind(program, "--skip-plt=no", f"--toggle-collect={name}")
        )
        replayed = api.replay(recording, "x86-64", region=name, guesses=False)[0]
        assert replayed.instructions == total, name


def test_marks_count_what_is_between_them(recording: Path, profile: api.Profile) -> None:
    marked = api.replay(recording, "x86-64", region="marked", guesses=False)[0]
    inside = api.profile(recording, "x86-64", region="marked").table().to_pylist()
    by_name = {row["function"]: row for row in inside}
    whole = {row["function"]: row for row in profile.table().to_pylist()}
    assert by_name["solve"]["instructions"] * 2 == whole["solve"]["instructions"]
    assert "fibonacci" not in by_name
    # The call, and the marks themselves.
    assert by_name["main"]["instructions"] < 3 * 30
    assert marked.instructions == sum(row["instructions"] for row in inside)
    text = mmulab("trace", "dump", recording).output
    assert text.count("-- region begins marked") == text.count("-- region ends marked") == 3


def test_a_region_survives_slicing(recording: Path, tmp_path: Path) -> None:
    whole = api.replay(recording, "x86-64", region="marked", guesses=False)[0]
    part = tmp_path / "part.mmt"
    api.slice_trace(recording, part, skip=1000)
    sliced = api.replay(part, "x86-64", region="marked", guesses=False)[0]
    assert sliced.instructions == whole.instructions


def test_what_was_written_before_the_disk_was_full_is_named(trace: Path, tmp_path: Path) -> None:
    file = tmp_path / "profile.callgrind"
    finished = mmulab("profile", trace, "-m", "base", "--callgrind", file, "-o", "/dev/full")
    assert finished.status == 1
    assert finished.errors.splitlines() == [
        f"Wrote {file}",
        "mmulab: /dev/full: no space left on device; it was not written",
    ]
    read_callgrind(file)


def test_files_for_viewers(recording: Path, profile: api.Profile, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"profile.{kind}" for kind in ("callgrind", "speedscope", "stacks")}
    options = [word for kind, file in files.items() for word in (f"--{kind}", file)]
    finished = mmulab("profile", recording, *options, "--by", "line", "--format", "csv")
    assert finished.status == 0, finished.errors
    assert "program.c" in finished.output
    annotated = subprocess.run(
        ["callgrind_annotate", "--threshold=100", files["callgrind"]],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    _, _, total = read_callgrind(files["callgrind"])
    assert total == profile.instructions
    assert f"{total:,}" in annotated
    assert "fibonacci" in annotated
    scopes = json.loads(files["speedscope"].read_text())
    frames = scopes["shared"]["frames"]
    for one in scopes["profiles"]:
        assert one["endValue"] == sum(one["weights"])
        assert all(0 <= frame < len(frames) for sample in one["samples"] for frame in sample)
    assert scopes["profiles"][0]["endValue"] == profile.instructions
    for line in files["stacks"].read_text().splitlines():
        assert re.fullmatch(r"[^;]+(;[^;]+)* \d+", line)
    assert ";main;around;solve;touch " in files["stacks"].read_text()


def test_lines_outside_of_a_region_are_left_out(recording: Path) -> None:
    lines = api.profile(recording, "x86-64", region="solve").table("line").to_pylist()
    assert lines and all(row["instructions"] for row in lines)
    assert "main" not in {row["function"] for row in lines}


def test_columns_of_lines_have_their_types_without_debugging_information(
    trace: Path, profile: api.Profile
) -> None:
    lines = api.profile(trace, "base").table("line")
    assert lines["file"].null_count == lines.num_rows
    assert lines.schema == profile.table("line").schema


def test_callgrind_annotate_shows_each_functions_own_cost(trace: Path, tmp_path: Path) -> None:
    """Of a program whose calls are not all counted."""
    file = tmp_path / "profile.callgrind"
    finished = mmulab("profile", trace, "-m", "x86-64", "--callgrind", file, "--format", "csv")
    rows = list(csv.DictReader(finished.output.splitlines()))
    annotated = subprocess.run(
        ["callgrind_annotate", "--threshold=100", file], check=True, capture_output=True, text=True
    ).stdout
    shown = re.findall(r"^ *([\d,]+) \(.*:.* \[", annotated, re.MULTILINE)
    costs = [int(row["instructions"]) for row in rows]
    assert len(costs) > 100
    assert sorted(int(number.replace(",", "")) for number in shown) == sorted(costs)


def test_the_provenance_has_the_files_that_names_were_taken_from(tmp_path: Path) -> None:
    """Two names change places in the program's file after the recording: the region is another
    part of it then, and the result says that it was made with another file."""
    source = """
        __attribute__((noinline)) int one(int n) { return n ? one(n - 1) + 1 : 0; }
        __attribute__((noinline)) int two(int n) { return n ? two(n - 1) + 2 : 0; }
        int main(void) { return (one(100) + two(1000)) & 1; }
    """
    swapped = source.replace("one", "other").replace("two", "one").replace("other", "two")
    program, trace = tmp_path / "program", tmp_path / "t.mmt"

    def build(text: str) -> None:
        command = ["gcc", "-O0", "-x", "c", "-", "-o", program]
        subprocess.run(command, input=text, text=True, check=True)

    build(source)
    api.record([program], trace)
    first = api.replay(trace, "base", region="one", guesses=False)[0]
    build(swapped.replace("one(100) + two(1000)", "two(100) + one(1000)"))
    second = api.replay(trace, "base", region="one", guesses=False)[0]
    assert second.instructions > 5 * first.instructions

    def own(row: api.MachineResult) -> list[str]:
        files = row.data["provenance"]["symbol_files"]
        return [file["sha256"] for file in files if file["path"] == str(program)]

    assert len(own(first)) == len(own(second)) == 1 and own(first) != own(second)
    columns = api.ReplayResults([first.data, second.data]).table.to_pylist()
    assert columns[0]["symbol_files"] != columns[1]["symbol_files"]
    outcome = api.profile(trace, "base").outcome
    assert own(outcome) == own(second)
    without = api.replay(trace, "base", guesses=False)[0]
    assert without.data["provenance"]["symbol_files"] == []


def test_bad_regions_are_told_in_a_line(trace: Path) -> None:
    finished = mmulab("replay", trace, "-m", "x86-64", "--region", "nonsense")
    assert finished.status == 2
    said = "called nonsense begins in the trace, or in the part that was chosen of it;"
    assert said in finished.error_line
    for call in (api.replay, api.profile):
        with pytest.raises(api.InputError, match="region: its name is empty"):
            call(trace, "x86-64", region="")


@pytest.mark.parametrize("machines", [[], ["x86-64", "zen5"]])
def test_a_profile_is_of_one_machine(trace: Path, machines: list[str]) -> None:
    with pytest.raises(api.InputError, match=r"takes one machine at a time|there is no machine"):
        api.profile(trace, machines)
    assert api.profile(trace, "ultrix", limit=1000).outcome.machine == "ultrix"
