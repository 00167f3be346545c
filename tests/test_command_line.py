"""What holds for every command: bad values, --quiet, help, completion, exit status, signals.

The values are found by looking at the commands themselves, so that a new option is tested too.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import json
import os
import pty
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet as parquet
import pytest
import typer
from conftest import MMULAB, ROOT, mmulab, start_interruptible
from rich.console import Console

import mmulab as api
from mmulab import files, output, report, views
from mmulab.cli import app
from mmulab.command import status_of
from mmulab.output import Format
from mmulab.recording import tool_directory
from mmulab_start import ENDING

needs_recorder = pytest.mark.skipif(
    not (tool_directory() / "mmulab-amd64-linux").exists(), reason="no Valgrind or no recorder"
)

GROUP = typer.main.get_command(app)


def commands(group=GROUP, path=()):
    """Every command with the words that call it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())
SMALL = "examples/small.mmt"
# A call of each command that would do something, for an option to be added to.
GOOD = {
    ("calibrate",): [],
    ("run",): ["-m", "base", "--", "true"],
    ("record",): ["-o", "never.mmt", "--", "true"],
    ("replay",): [SMALL, "-m", "base"],
    ("profile",): [SMALL],
    ("miss-curves",): [SMALL],
    ("sweep",): ["examples/studies/tlb_sizes.toml"],
    ("trace", "info"): [SMALL],
    ("trace", "slice"): [SMALL, "-o", "never.mmt"],
    ("trace", "dump"): [SMALL],
    ("machines",): ["ultrix"],
    ("boot",): ["README.md"],
    ("reproduce",): ["no-such-paper"],
    ("report",): ["no-such-folder"],
}

BAD_NUMBERS = ["-1", "1.5", "x", "", "18446744073709551616", "9" * 40, "1e3", "nan", "0x10"]
BAD_FILES = ["/no/such/file", "docs", "", "a\nb", "a\x1b[31mb"]
BAD = {
    int: BAD_NUMBERS,
    Format: ["xml", "", "JSON5"],
    "--machine": [
        "",
        ",",
        "ultrix,",
        "no-such",
        "./no.toml",
        "docs",
        "a\nb",
        "./examples/small.mmt",
    ],
    "--set": [
        "",
        "=",
        "x",
        "dtlb.entries=",
        "=4",
        "dtlb.entries=-1",
        "no.such=1",
        "dtlb.entries=1=2",
        "a\x85b\x1b[31m=1",
    ],
    "--max-seconds": ["0", "-1", "nan", "inf", "x", ""],
    "--on": ["", "dask://", "slurm://x", "dask://no-such-host-anywhere:1", "dask://localhost:1"],
    "TRACE": [*BAD_FILES, "README.md"],
    "STUDY": [*BAD_FILES, "README.md", "machines/ultrix.toml"],
    "IMAGE": BAD_FILES,
    "DIR": ["/proc/no/such/folder", "README.md", "README.md/below", ""],
    "PAPER": ["", "no-such"],
    "NAME": ["", "no-such", "docs"],
}


def cases():
    for path, command in COMMANDS.items():
        for parameter in command.params:
            is_option = parameter.opts[0].startswith("-")
            keys = [*parameter.opts, parameter.metavar, parameter.type_descriptor.annotation]
            values = next((BAD[key] for key in keys if key in BAD), [])
            for value in values:
                arguments = GOOD[path]
                if is_option:
                    arguments = [f"{parameter.opts[0]}={value}", *arguments]
                else:
                    arguments = [value, *arguments[1:]]
                yield pytest.param(
                    [*path, *arguments], id=f"{' '.join(path)} {parameter.opts[0]} {value!r}"
                )


@pytest.mark.parametrize("arguments", list(cases()))
def test_a_bad_value_gets_one_line_and_status_2(arguments, capfd, monkeypatch):
    """In this process, which is quicker than hundreds of new ones."""

    monkeypatch.chdir(ROOT)
    before = set(os.listdir(ROOT))
    status = status_of(app, list(arguments))
    output, errors = capfd.readouterr()
    assert status == 2, errors
    assert errors.startswith("mmulab: ") and errors.endswith("\n"), errors
    assert errors[:-1].isprintable(), errors
    assert output == "" and "os error" not in errors
    assert set(os.listdir(ROOT)) == before


@pytest.mark.parametrize(
    "line",
    [
        ["replay", ""],
        ["replay", SMALL, "-o", ""],
        ["trace", "slice", SMALL, "-o", ""],
        ["record", "-o", "", "--", "true"],
        ["profile", SMALL, "-m", "base", "--stacks", ""],
        ["sweep", ""],
        ["sweep", "examples/studies/tlb_sizes.toml", ""],
        ["boot", "README.md", "--dtb", ""],
    ],
)
def test_an_empty_name_of_a_file_is_not_the_current_folder(line, capfd):
    """As an unset variable gives it."""
    assert status_of(app, line) == 2
    assert "a file's name is empty" in capfd.readouterr().err


def test_an_option_without_its_value_names_the_command_whose_help_shows_how(capfd):

    assert status_of(app, ["replay", "examples/small.mmt", "-m"]) == 2
    assert capfd.readouterr().err.endswith("; `mmulab replay --help` shows how\n")


@pytest.mark.parametrize("first", ["ultrix", "examples/small.mmt"])
def test_a_trace_in_a_machines_place_is_told(first, capfd):

    assert status_of(app, ["replay", first, "examples/small.mmt"]) == 2
    assert "examples/small.mmt: a trace stands where a machine does" in capfd.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["profile", SMALL, "-m", "zen4,zen5"],
        ["profile", SMALL, "-m", "zen4", "-m", "zen5"],
        ["boot", "no.elf", "-m", "sa1100,ixp425"],
        ["machines", "zen4,zen5"],
    ],
)
def test_a_second_machine_is_refused_where_one_is_asked_for(words, capfd):

    assert status_of(app, words) == 2
    assert capfd.readouterr().err.endswith(": this command takes one machine at a time\n")


def test_a_file_that_may_be_written_but_not_read_is_replaced(tmp_path, monkeypatch, capfd):
    """Root may read everything, so that the system's answer is replaced."""

    path = tmp_path / "ultrix.toml"
    path.touch(0o200)
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.R_OK and may(path, mode))
    assert status_of(app, ["machines", "ultrix", "-o", str(path)]) == 0, capfd.readouterr().err
    assert path.read_text().startswith("#:schema")


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["replay", "{}.mmt", "-m", "base", "-o", "{}.json"], 0),
        (["replay", "{}.mmt", "-m", "base", "-o", "new.csv"], 2),
        (["replay", "{}.mmt", "-m", "base", "--region", "{}"], 2),
        (["replay", "{}.mmt", "-m", "base", "--set", "{}=1"], 2),
        (["profile", "{}.mmt", "--callgrind", "new.callgrind"], 2),
        (["record", "-o", "new.mmt", "--", "echo", "{}"], 2),
        (["run", "-m", "base", "--", "{}"], 2),
    ],
)
def test_what_is_not_in_utf_8_is_told_where_it_cannot_be_written_down(
    words, status, tmp_path, trace
):
    name = os.fsdecode(b"caf\xe9")
    (tmp_path / f"{name}.mmt").symlink_to(trace)
    before = set(os.listdir(tmp_path))
    finished = mmulab(*(word.format(name) for word in words), cwd=tmp_path)
    assert finished.status == status, finished.errors
    if status == 0:
        assert (tmp_path / f"{name}.json").exists()
    else:
        assert finished.error_line.endswith(": is not in UTF-8, as traces and results are")
        assert r"caf\udce9" in finished.error_line and set(os.listdir(tmp_path)) == before


def test_the_good_calls_are_good():
    """Otherwise the test above would test nothing."""
    for path, arguments in GOOD.items():
        if path[0] in ("replay", "miss-curves", "machines") or path == ("trace", "info"):
            finished = mmulab(*path, *arguments)
            assert finished.status == 0, finished.errors
    assert set(GOOD) == set(COMMANDS)


FORMATTED = {
    "replay": ["replay", SMALL, "-m", "base"],
    "profile": ["profile", SMALL, "-m", "base"],
    "miss-curves": ["miss-curves", SMALL],
    "sweep": ["sweep", "examples/studies/tlb_sizes.toml"],
    "trace info": ["trace", "info", SMALL],
    "machines": ["machines"],
    "a machine": ["machines", "ultrix"],
    "a system machine": ["machines", "arm926ej-s"],
}


@pytest.mark.parametrize("format", list(Format))
@pytest.mark.parametrize("name", FORMATTED)
def test_every_result_has_every_format(name, format, tmp_path):
    output = tmp_path / "result"
    finished = mmulab(*FORMATTED[name], "--format", format.value, "-o", output)
    assert finished.status == 0, finished.errors
    content = output.read_bytes()
    if format is Format.json:
        assert json.loads(content)
    elif format is Format.csv:
        rows = list(csv.reader(io.StringIO(content.decode())))
        assert len(rows) > 1 and len({len(row) for row in rows}) == 1
    elif format is Format.parquet:
        assert parquet.read_table(output).num_rows > 0
    else:
        assert len(content.splitlines()) > 2


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize(
    "command",
    [
        FORMATTED["replay"],
        [*FORMATTED["sweep"], "--format", "parquet"],
        ["trace", "slice", SMALL, "-n", "10"],
        pytest.param(["record", "--", "true"], marks=needs_recorder),
    ],
    ids=lambda words: words[0],
)
def test_a_link_stays_a_link(command, exists, tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "result", tmp_path / "link"
    link.symlink_to("there/result")
    if exists:
        target.write_text("old")
    words = command.index("--") if "--" in command else len(command)
    assert mmulab(*command[:words], "-o", link, *command[words:]).status == 0
    assert link.is_symlink() and len(target.read_bytes()) > 3
    assert sorted(os.listdir(tmp_path)) == ["link", "there"]
    assert os.listdir(target.parent) == ["result"]


@pytest.mark.parametrize("command", [FORMATTED["replay"], FORMATTED["sweep"], ["boot", "no.elf"]])
@pytest.mark.parametrize("name", ["result.xlsx", "result.CSV", "result.mmt"])
def test_a_suffix_of_no_format_is_told_before_the_work(command, name, tmp_path):
    finished = mmulab(*command, "-o", tmp_path / name)
    assert finished.status == 2
    assert finished.error_line == (
        f"{tmp_path / name}: name it .json, .csv or .parquet, or give --format"
    )
    assert not list(tmp_path.iterdir())


def test_a_machine_can_also_be_written_as_its_file(tmp_path):
    finished = mmulab("machines", "ultrix", "-o", tmp_path / "u.txt")
    assert finished.status == 2
    assert finished.error_line == (
        f"{tmp_path / 'u.txt'}: name it .toml, .json, .csv or .parquet, or give --format"
    )
    assert mmulab("machines", "ultrix", "-o", tmp_path / "u.toml").status == 0
    assert (tmp_path / "u.toml").read_bytes() == api.Machine.path_of("ultrix").read_bytes()


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_has_an_example_and_every_option_has_help(path):
    command = COMMANDS[path]
    shown = " ".join(mmulab(*path, "--help", COLUMNS="100").output.split())
    assert f"Example: mmulab {' '.join(path)}" in shown
    assert "--quiet" in shown
    for parameter in command.params:
        assert parameter.help, parameter.opts


def test_commands_start_without_the_library_of_tables():
    """It takes as long to import as all else, also where no table is made: for --help, completion,
    an error."""
    code = "import sys, mmulab.cli; print({'pyarrow', 'numpy', 'altair'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "set()\n"


def test_the_format_of_a_recording_is_not_said_to_go_by_suffix():
    """-o is the trace there, and without --format there is no summary."""
    assert "by suffix" not in " ".join(mmulab("record", "--help", COLUMNS="100").output.split())


def test_help_fills_the_lines():
    """A paragraph is filled whatever the width is: no line ends before the next word would not
    fit."""
    for columns in (60, 80, 120):
        shown = mmulab("record", "--help", COLUMNS=str(columns)).output
        lines = [line.strip() for line in shown.split("╭")[0].splitlines()]
        start = next(i for i, line in enumerate(lines) if line.startswith("The program keeps"))
        end = lines.index("", start)
        for line, following in itertools.pairwise(lines[start:end]):
            assert len(line) + 1 + len(following.split()[0]) > columns - 2, line


def test_a_machine_file_may_have_a_comma_in_its_name(tmp_path):
    path = tmp_path / "a,b.toml"
    path.write_bytes(api.Machine.path_of("ultrix").read_bytes())
    for names in (["-m", f"mach,{path.parent}/none,b.toml"], ["-m", "mach", "-m", str(path)]):
        finished = mmulab("replay", SMALL, *names, "--no-guesses", "--format", "csv")
        assert (finished.status == 0) == ("none" not in names[1]), finished.errors
    assert len(finished.output.splitlines()) == 3


def test_a_narrow_terminal_loses_no_digits():
    words = ["replay", SMALL, "-m", "ultrix,mach,zen5", "--no-guesses", "--format", "table"]
    narrow, normal = (mmulab(*words, COLUMNS=columns).output for columns in ("40", "80"))
    assert narrow == normal and "…" not in normal and "ultrix" in normal
    assert not any(line.endswith(" ") for line in normal.splitlines())


@pytest.mark.parametrize("command", [["run", "-m", "base"], ["record"]], ids=lambda words: words[0])
@pytest.mark.parametrize("output", ["no/such.csv", "/proc/result.json", "."])
def test_a_result_that_cannot_be_written_is_told_before_the_work(command, output, tmp_path):
    program = ["--", "touch", str(tmp_path / "was-run")]
    finished = mmulab(*command, "-o", output, *program)
    assert finished.status == 2 and len(finished.errors.splitlines()) == 1, finished.errors
    assert output in finished.errors and not (tmp_path / "was-run").exists()


@pytest.mark.parametrize(
    ("command", "mend"),
    [
        (["run", "-m", "base", "--", "touch", "was-run"], "-o FILE"),
        (["record", "-o", "t.mmt", "--", "touch", "was-run"], "> FILE"),
        (["replay", "missing.mmt"], "-o FILE"),
        (["sweep", str(ROOT / "examples/studies/tlb_sizes.toml")], "-o FILE"),
    ],
)
def test_parquet_on_a_terminal_is_refused_before_the_work(
    command, mend, tmp_path, monkeypatch, capfd
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(api, "sweep", lambda *_, **__: pytest.fail("it sweeps"))
    assert status_of(app, [command[0], "--format", "parquet", *command[1:]]) == 2
    expected = f"mmulab: parquet is binary and does not suit a terminal; add {mend}\n"
    assert capfd.readouterr().err == expected
    assert not list(tmp_path.iterdir())


def test_a_folder_with_parquet_that_is_no_sweep_is_told_before_the_program_runs(tmp_path):
    parquet.write_table(pyarrow.table({"a": [1]}), tmp_path / "cells.parquet")
    program = ["--", "touch", tmp_path / "was-run"]
    refused = mmulab("run", "-m", "base", "--dir", tmp_path, *program)
    assert refused.status == 2 and "cells.parquet: is not a sweep" in refused.error_line
    assert os.listdir(tmp_path) == ["cells.parquet"]


def test_a_trace_whose_folder_is_missing_is_told_with_the_mend(tmp_path):
    with pytest.raises(api.OutputError, match="make its folder first"):
        api.record(["true"], tmp_path / "missing" / "t.mmt")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (9_999, "9999"),
        (9_999.6, "10 k"),
        (999_499, "999 k"),
        (999_600, "1 M"),
        (999_499_999, "999 M"),
        (999_600_000, "1 G"),
        (999_600_000_000, "1000 G"),
        (-999_600, "-1 M"),
    ],
)
def test_a_number_that_rounds_to_a_thousand_is_told_in_the_next_unit(number, text):
    """Not as 1e+03 M."""
    assert output.human(number) == text


def test_version_and_module():
    assert mmulab("--version").output == f"mmulab {api.__version__}\n"
    as_module = subprocess.run(
        [sys.executable, "-m", "mmulab", "--version"], capture_output=True, text=True, check=True
    )
    assert as_module.stdout == f"mmulab {api.__version__}\n"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("mmulab rep", ["replay", "reproduce", "report"]),
        ("mmulab replay x -m cortex-a", ["cortex-a55"]),
        ("mmulab replay x ult", ["ultrix"]),
        ("mmulab boot x -m cortex-a", ["cortex-a7"]),
        ("mmulab profile x -m cortex-a", ["cortex-a55"]),
        ("mmulab machines cortex-a", ["cortex-a55", "cortex-a7"]),
        ("mmulab reproduce fc", ["fcse-2009"]),
    ],
)
def test_the_shell_completes(words, expected):
    finished = mmulab(
        _MMULAB_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(len(words.split()) - 1),
    )
    assert finished.output.splitlines() == expected


@pytest.mark.parametrize(
    ("command", "option", "value", "last"),
    [
        ("replay", "--limit", "0", "2^64 - 1"),
        ("replay", "--cores", "129", "128"),
        ("replay", "--threads", "4000", "1024"),
        ("calibrate", "--samples", "two", "1000"),
        ("boot", "--gdb", "65536", "65535"),
    ],
)
def test_a_number_out_of_range_is_named_with_the_range(command, option, value, last):
    words = [] if command == "calibrate" else ["file"]
    refused = mmulab(command, *words, option, value)
    assert refused.status == 2
    assert f"'{option}': '{value}' is no whole number from" in refused.errors
    assert f" to {last};" in refused.errors


@pytest.mark.parametrize("command", ["replay", "miss-curves", "profile", "trace slice"])
def test_a_dash_is_no_name_for_a_result(trace, tmp_path, command):
    """It would be a file that only `rm ./-` removes, where the reader of a pipe waits for it."""
    refused = mmulab(*command.split(), trace, "-o", "-", cwd=tmp_path)
    assert refused.status == 2
    assert refused.errors == "mmulab: -: is no name of a file here; name one\n"
    assert not (tmp_path / "-").exists()


@pytest.mark.parametrize("stream", ["<&-", ">&-", "2>&-"])
def test_a_closed_standard_stream_is_no_obstacle(tmp_path, stream):
    output = tmp_path / "result.csv"
    for arguments in (f"replay {SMALL} -m base --limit 1000 -o {output}", "machines"):
        finished = subprocess.run(
            f"{MMULAB} {arguments} {stream}", shell=True, cwd=ROOT, capture_output=True, text=True
        )
        assert (finished.returncode, finished.stderr) == (0, "")
    assert output.read_text().count("\n") == 2
    refused = subprocess.run(f"{MMULAB} replay {tmp_path}/none {stream}", shell=True)
    assert refused.returncode == 2


@pytest.mark.parametrize("value", [-1, 2**64, 1.5, True, None])
def test_the_api_refuses_numbers_that_the_engine_cannot_take(trace, tmp_path, value):
    for call in (
        lambda: api.replay(trace, "base", seed=value),
        lambda: api.replay(trace, "base", threads=value),
        lambda: api.miss_curves(trace, entries=value),
        lambda: api.slice_trace(trace, tmp_path / "t.mmt", skip=value),
        lambda: api.dump_trace(trace, lambda text: None, skip=value),
        lambda: api.sweep(api.Study(traces=[trace], machines=["base"], seed=value)),
        lambda: api.sweep(api.Study(traces=[trace], machines=["base"]), threads=value),
    ):
        with pytest.raises(api.InputError, match="is no whole number from"):
            call()


# ---- traces ------------------------------------------------------------------------------------


def causes(*arguments: str | Path, stdin: bytes | None = None) -> dict:
    finished = subprocess.run(
        [MMULAB, "replay", *arguments, "-m", "ultrix"], input=stdin, capture_output=True, cwd=ROOT
    )
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)[0]["causes"]


@pytest.mark.parametrize("command", ["replay", "miss-curves", "trace info"])
def test_the_standard_input_is_called_stdin_in_errors_too(command):
    finished = subprocess.run(
        [MMULAB, *command.split(), "-"], stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert finished.returncode == 2
    assert finished.stderr.startswith("mmulab: stdin: this is no trace of a known format")


def test_the_dump_of_a_trace_is_replayed_like_the_trace(trace, tmp_path):
    text = subprocess.run([MMULAB, "trace", "dump", trace], capture_output=True, check=True).stdout
    assert causes("-", stdin=text) == causes(trace)
    # Of a part, which begins with what was mapped before.
    part = tmp_path / "part.mmt"
    assert mmulab("trace", "slice", trace, "--skip", "100000", "-n", "500", "-o", part).status == 0
    dumped = mmulab("trace", "dump", part).output
    assert dumped.startswith("-- map") and dumped.count("-- ") > 50
    assert causes("-", stdin=dumped.encode()) == causes(part)
    some = mmulab("trace", "dump", trace, "--skip", "1000", "-n", "3").output.splitlines()
    instructions = [line for line in text.decode().splitlines() if line.startswith("I  ")]
    assert [line for line in some if line.startswith("I  ")] == instructions[1000:1003]
    assert any(line.startswith("-- map ") and line.endswith("[stack]") for line in some)


def test_a_dump_tells_how_far_it_is(trace):
    told = []

    def write_slowly(_: bytes) -> None:
        if not told:
            time.sleep(0.15)  # longer than from one report to the next

    wanted = {"skip": 1000, "count": 1 << 62}
    api.dump_trace(trace, write_slowly, progress=lambda *report: told.append(report), **wanted)
    whole = api.trace_information(trace).instructions
    assert told and all(0 < done <= whole - 1000 == total for done, total in told)


@pytest.mark.parametrize("sent", ENDING)
def test_an_interrupt_while_python_imports_is_one_line(tmp_path, sent):
    """As it comes while the entry point imports the commands: the first of them to be imported
    sends it."""
    (tmp_path / "typer.py").write_text(f"import os\nos.kill(os.getpid(), {int(sent)})\n")
    with start_interruptible(
        MMULAB, "replay", SMALL, env={**os.environ, "PYTHONPATH": str(tmp_path)}
    ) as process:
        assert process.communicate(timeout=60) == ("", "mmulab: interrupted\n")
        assert process.returncode == 130


def test_an_interrupted_dump_does_not_say_that_nothing_was_written(trace):
    with start_interruptible(MMULAB, "trace", "dump", trace) as process:
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "mmulab: interrupted\n")


def test_slices_add_up_to_the_whole(trace, tmp_path):
    sums = {"instructions": 0, "loads": 0, "stores": 0, "modifies": 0}
    for skip in (0, 1_234_567, 2_469_134, 3_703_701):
        part = api.slice_trace(trace, tmp_path / f"{skip}.mmt", skip=skip, count=1_234_567)
        for name in sums:
            sums[name] += getattr(part, name)
    whole = api.trace_information(trace)
    assert sums == {name: getattr(whole, name) for name in sums}
    assert sorted(os.listdir(tmp_path)) == sorted(
        f"{n}.mmt" for n in (0, 1_234_567, 2_469_134, 3_703_701)
    )


def test_a_slice_knows_what_was_mapped_before(trace, tmp_path):
    assert (
        mmulab("trace", "slice", trace, "--skip", "3000000", "-o", tmp_path / "t.mmt").status == 0
    )
    [row] = json.loads(mmulab("replay", tmp_path / "t.mmt", "-m", "ultrix").output)
    names = {region["name"] for region in row["regions"]}
    assert "[unknown]" not in names and {"[heap]", "[stack]"} <= names


def test_a_slice_beyond_the_end_is_refused_and_leaves_nothing(trace, tmp_path):
    finished = mmulab("trace", "slice", trace, "--skip", "4000000", "-o", tmp_path / "t.mmt")
    assert finished.status == 2
    assert finished.error_line == f"{trace}: the trace ends before instruction 4,000,000"
    assert os.listdir(tmp_path) == []


def test_information_of_any_format(trace, tmp_path):
    text = tmp_path / "lackey.txt"
    assert mmulab("trace", "dump", trace, "-n", "1000", "-o", text).status == 0
    information = json.loads(mmulab("trace", "info", text).output)
    assert information["format"] == "Valgrind lackey"
    assert information["instructions"] == 1000
    assert api.trace_information(trace).termination_kind == "limit"
    packed = tmp_path / "t.mmt.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes(), 1))
    assert api.trace_information(packed).file_bytes == packed.stat().st_size
    # What is not known of the text has the type that it has of the other.
    output = tmp_path / "t.parquet"
    schemas = []
    for told in (trace, text):
        assert mmulab("trace", "info", told, "-o", output).status == 0
        schemas.append(parquet.read_schema(output))
    assert schemas[0] == schemas[1]


def test_a_trace_without_mappings_says_that_it_has_no_large_pages(trace, tmp_path):
    text = tmp_path / "lackey.txt"
    instructions = "".join(f"I  {0x400000 + 4 * place:x},4\n" for place in range(10))
    text.write_text(instructions + " L 10000000,8\n")
    common = ("--no-guesses", "-m", "zen5", "--set")
    for command, options in (("replay", common), ("profile", common[1:])):
        told = mmulab(command, text, *options, "organisation.pages=mixed").errors
        assert "lackey.txt: has no mappings, so that zen5 organisation.pages=mixed finds" in told
    for which, pages in ((text, "2M"), (trace, "mixed")):
        assert mmulab("replay", which, *common, f"organisation.pages={pages}").errors == ""


def test_a_reader_of_a_dump_that_goes_away_is_no_error(trace):
    process = subprocess.Popen(
        f"{MMULAB} trace dump {trace} | head -1",
        shell=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = process.communicate(timeout=60)
    assert output.startswith(b"-- map") and errors == b""


@pytest.mark.parametrize("words", [["--help"], ["replay", "--help"], ["machines"], ["--version"]])
def test_a_reader_that_is_gone_is_no_error(words):
    reader, writer = os.pipe()
    os.close(reader)
    finished = subprocess.run([MMULAB, *words], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (finished.returncode, finished.stderr) == (0, b"")


# ---- recording ---------------------------------------------------------------------------------


@needs_recorder
def test_a_recorded_program_has_its_standard_streams_where_ours_are_closed(tmp_path):
    """Else what the recorder opens takes their numbers, and the program writes into it."""
    command = f"{MMULAB} record -o {tmp_path}/t.mmt -- sh -c 'cat && echo said' <&- >&-"
    finished = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert finished.returncode == 0 and "Valgrind: " not in finished.stderr


@needs_recorder
@pytest.mark.parametrize("command", [["record", "-o", "t.mmt"], ["run", "-m", "base"]])
@pytest.mark.parametrize(("script", "status"), [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)])
def test_the_programs_status_is_passed_on(command, script, status, tmp_path):
    finished = mmulab(*command, "--", "sh", "-c", script, cwd=tmp_path)
    assert finished.status == status, finished.errors


@needs_recorder
def test_no_signal_is_ignored_that_the_recorder_did_not_inherit(tmp_path):
    """Python ignores SIGXFSZ; a program that writes past its limit is to end by it, which a shell
    calls 153."""
    script = "ulimit -f 1; head -c 100000 /dev/zero > out"
    finished = mmulab("record", "-o", "t.mmt", "--", "sh", "-c", script, cwd=tmp_path)
    assert finished.status == 128 + signal.SIGXFSZ, finished.errors


@needs_recorder
@pytest.mark.parametrize("format", ["table", "json", "csv"])
def test_a_recording_tells_itself_in_every_format(format, tmp_path):
    command = ["--follow-children", "--format", format, "--", "sh", "-c", "/bin/true; true"]
    finished = mmulab("record", "-o", "t.mmt", *command, cwd=tmp_path)
    assert finished.status == 0, finished.errors
    assert "t.mmt" in finished.output and "t.1.mmt" in finished.output
    assert "Traceback" not in finished.errors


@needs_recorder
def test_quiet_leaves_the_terminal_to_the_program(tmp_path):
    finished = mmulab(
        "record", "-q", "-o", "t.mmt", "--", "sh", "-c", "echo out; echo err >&2", cwd=tmp_path
    )
    assert (finished.status, finished.output, finished.errors) == (0, "out\n", "err\n")


LOOPS = "echo begun; while :; do :; done"


def interrupted(
    arguments: list[str], cwd: Path, sent: signal.Signals, script: str = LOOPS
) -> tuple[int, str]:
    """Sends a signal once the recorded shell script has begun to write; status and stderr."""
    process = start_interruptible(MMULAB, *arguments, "--", "sh", "-c", script, cwd=cwd)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(sent)
    output, errors = process.communicate(timeout=60)
    assert output == ""
    return process.returncode, errors


@needs_recorder
@pytest.mark.parametrize("sent", ENDING)
def test_an_interrupted_recording_is_whole_and_says_so(tmp_path, sent):
    status, _ = interrupted(["record", "-o", "t.mmt"], tmp_path, sent)
    assert status == 130
    information = api.trace_information(tmp_path / "t.mmt")
    assert information.was_interrupted and information.instructions > 0


@needs_recorder
@pytest.mark.parametrize("sent", ENDING)
def test_an_interrupted_run_does_not_go_on_to_replay(tmp_path, sent):
    status, errors = interrupted(["run", "-m", "base", "--dir", "results"], tmp_path, sent)
    assert status == 130
    assert errors.splitlines()[-1] == (
        "mmulab: interrupted; results/unfinished/sh.mmt holds what was recorded until then, nothing was replayed"
    )
    assert os.listdir(tmp_path / "results") == ["unfinished"]
    assert os.listdir(tmp_path / "results" / "unfinished") == ["sh.mmt"]


@needs_recorder
@pytest.mark.parametrize(
    "script",
    [
        f"trap 'exit 0' INT; {LOOPS}",  # handles it, as servers do
        f"exec sh -c \"trap 'exit 0' INT; {LOOPS}\"",  # was at its end: what it loaded is not recorded
    ],
)
@pytest.mark.parametrize("command", ["record", "run"])
def test_an_interrupt_is_one_also_where_the_program_ends_well(command, script, tmp_path):
    kept = {"record": ["-o", "t.mmt"], "run": ["-m", "base", "--dir", "results"]}[command]
    status, errors = interrupted([command, *kept], tmp_path, signal.SIGINT, script)
    assert status == 130
    assert ("nothing was replayed" in errors) == (command == "run")


@needs_recorder
@pytest.mark.parametrize(
    ("command", "trace"),
    [("record -o {}/t.mmt", "t.mmt"), ("run -m base --dir {}/new", "new/unfinished/ls.mmt")],
)
def test_a_recording_on_a_full_disk_says_what_is_kept(tmp_path, command, trace):

    def with_small_disk(command: str) -> subprocess.CompletedProcess[str]:
        script = f"mount -t tmpfs -o size=40K tmpfs {tmp_path} && {command}"
        words = ["unshare", "--map-root-user", "--mount", "sh", "-c", script]
        return subprocess.run(words, capture_output=True, text=True)

    if with_small_disk("true").returncode:
        pytest.skip("no file system can be mounted here")
    finished = with_small_disk(f"{MMULAB} {command.format(tmp_path)} --quiet -- ls -l /usr/bin")
    assert finished.returncode == 1
    assert finished.stderr == (
        f"mmulab: recording ls: {tmp_path / trace}: no space left on device; the program was "
        "ended; free space, or write elsewhere (--partial reads what is whole of a file that is "
        "kept)\n"
    )


def test_a_slice_that_does_not_fit_was_not_written(trace, tmp_path):
    finished = subprocess.run(
        [MMULAB, "trace", "slice", trace, "-o", "t.mmt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
    )
    assert finished.returncode == 1
    assert finished.stderr == "mmulab: t.mmt: file too large; it was not written\n"
    assert not list(tmp_path.iterdir())


@needs_recorder
def test_nothing_else_is_written_into_a_file_that_is_recorded(tmp_path):
    """Another program is not run, and the first one's file and those of its children stay."""
    program = ["sh", "-c", "echo begun; read line; true"]
    with subprocess.Popen(
        [MMULAB, "record", "-o", "t.mmt", "--", *program],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as first:
        assert first.stdout.readline() == "begun\n"
        (tmp_path / "t.1.mmt").touch()
        second = ["record", "-o", "t.mmt", "--follow-children", "--", "touch", "second"]
        refused = mmulab(*second, cwd=tmp_path)
        assert refused.status == 2
        assert refused.error_line == (
            "t.mmt: another mmulab writes there; wait for its end, or name another file"
        )
        other = ["trace", "slice", ROOT / SMALL, "-o", "t.mmt"]
        assert mmulab(*other, cwd=tmp_path).error_line == refused.error_line
        with pytest.raises(api.OutputError), files.replacing(tmp_path / "t.mmt"):
            pass  # what was begun before the recording
        assert sorted(os.listdir(tmp_path)) == ["t.1.mmt", "t.mmt"]
        first.communicate("\n", timeout=60)
    assert first.returncode == 0
    assert api.trace_information(tmp_path / "t.mmt").command == program
    assert mmulab(*second, cwd=tmp_path).status == 0
    assert sorted(os.listdir(tmp_path)) == ["second", "t.mmt"]


@needs_recorder
def test_a_run_that_is_interrupted_while_its_report_is_drawn_leaves_the_old_one_whole(
    tmp_path, monkeypatch, capsys
):
    folder = tmp_path / "results"
    arguments = ["run", "-q", "--dir", str(folder), "-m", "base", "--"]
    assert mmulab(*arguments, "true").status == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "write_report", interrupted)
    assert status_of(app, [*arguments, "echo"]) == 130
    kept = f"{folder}/unfinished/echo.mmt"
    assert capsys.readouterr().err == f"mmulab: interrupted; {kept} holds the recording\n"
    assert Path(kept).exists()
    after = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert after == before


def test_a_change_that_not_all_machines_take_says_to_name_machines(capsys):
    assert status_of(app, ["replay", SMALL, "--set", "dtlb.entries=64"]) == 2
    assert "name those that do" in capsys.readouterr().err
    assert status_of(app, ["replay", SMALL, "-m", "base", "--set", "dtlb.entries=64"]) == 2
    assert "name those that do" not in capsys.readouterr().err


@pytest.mark.parametrize("kept", [[], ["machine.toml"]])
def test_an_interrupted_calibration_leaves_no_empty_folder(kept, tmp_path, monkeypatch, capsys):
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    folder = tmp_path / "computer"
    if kept:
        folder.mkdir()
        (folder / kept[0]).write_text("of an earlier one")
    monkeypatch.setattr(api, "calibrate", interrupted)
    assert status_of(app, ["calibrate", "-q", "--dir", str(folder)]) == 130
    assert capsys.readouterr().err == "mmulab: interrupted; nothing was written\n"
    assert (os.listdir(folder) if folder.exists() else []) == kept
    assert folder.exists() == bool(kept)


def test_a_run_that_is_interrupted_before_it_begins_leaves_no_folder(tmp_path, monkeypatch, capsys):
    def interrupted(folder: Path) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("mmulab.report.check_sweeps", interrupted)
    folder = tmp_path / "results"
    assert status_of(app, ["run", "-q", "--dir", str(folder), "-m", "base", "true"]) == 130
    assert capsys.readouterr().err == "mmulab: interrupted; nothing was written\n"
    assert not folder.exists()


@needs_recorder
def test_a_second_run_into_the_same_folder_is_refused(tmp_path):
    """It would remove what the first has not finished."""
    arguments = ("run", "--dir", tmp_path, "-m", "base", "--", "true")
    with files.alone(tmp_path, "unused"):
        (tmp_path / "unfinished").mkdir()
        refused = mmulab(*arguments)
        assert refused.status == 2
        assert refused.error_line.startswith(f"{tmp_path}: another run writes there;")
        assert (tmp_path / "unfinished").exists()
    assert mmulab(*arguments).status == 0


@pytest.mark.parametrize("is_new", [True, False])
def test_a_run_that_comes_to_nothing_leaves_the_folder_as_it_was(is_new, tmp_path, monkeypatch):
    folder = tmp_path / "results"
    if not is_new:
        folder.mkdir()
    monkeypatch.setenv("MMULAB_RECORDER", str(tmp_path))
    refused = mmulab("run", "--dir", folder, "-m", "base", "--", "true")
    assert refused.status == 1 and f"the recorder is not in {tmp_path}" in refused.error_line
    assert folder.exists() != is_new and os.listdir(tmp_path) == [folder.name] * (not is_new)


@needs_recorder
def test_a_run_tells_where_its_trace_is_kept_and_gives_the_program_its_environment(tmp_path):
    words = ("run", "-m", "ultrix", "--no-guesses", "--environment", "SAID=this", "--dir", tmp_path)
    finished = mmulab(*words, "--", "sh", "-c", 'test "$SAID" = this && test -z "$HOME"')
    assert finished.status == 0, finished.errors
    assert finished.errors.splitlines()[-1].endswith(f", the trace: {tmp_path / 'sh.mmt'}")
    assert (tmp_path / "sh.mmt").exists() and "unfinished" not in finished.errors


def test_names_stay_whole_in_a_pipe(trace):
    """As they do not in 80 columns."""
    words = [MMULAB, "profile", trace, "-m", "x86-64", "--format", "table"]
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    piped = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert "__memset_avx2_unaligned_erms" in piped.stdout
    assert "__memset_avx2_unaligned_erms" not in mmulab(*words[1:], COLUMNS="80").output


def test_many_varied_values_are_told_whole_in_80_columns(tmp_path):
    """One row is one line, longer than the terminal's."""
    varied = {
        f"{cache}.{value}": number
        for cache in ("l1i", "l1d", "l2")
        for value, number in (("size_bytes", 1048576), ("line_bytes", 64), ("ways", 4))
    }
    lines = "".join(f'"{path}" = [{number}]\n' for path, number in varied.items())
    study = tmp_path / "study.toml"
    study.write_text(f'traces = ["{ROOT / SMALL}"]\nmachines = ["x86-64"]\n[[vary]]\n{lines}')
    for columns in ("80", "300"):
        swept = mmulab("sweep", study, "--format", "table", COLUMNS=columns)
        assert swept.status == 0, swept.errors
        row = swept.output.rstrip().splitlines()[-1].split()
        assert row[1 : 1 + len(varied)] == [str(number) for number in varied.values()]


@pytest.mark.parametrize("columns", [20, 80, 199])
def test_a_table_that_does_not_fit_folds_names_and_no_number(columns):
    name = "a::name<of,300,characters>" * 11
    numbers = [f"{10**9 + n:,}" for n in range(9)]
    table = views._table("")
    table.add_column("name", overflow="fold")
    for heading in range(len(numbers)):
        table.add_column(f"{heading}", justify="right")
    table.add_row(name, *numbers)

    def drawn(width):
        console = Console(file=io.StringIO(), width=width)
        console.print(table, crop=False)
        return [
            line.split()
            for line in console.file.getvalue().splitlines()
            if ":" in line or "," in line
        ]

    first, *more = drawn(columns)
    assert first[1:] == numbers and more
    assert "".join([first[0], *(part for line in more for part in line)]) == name
    assert drawn(output.PLAIN_COLUMNS) == [[name, *numbers]]


@pytest.mark.parametrize("stderr", ["2>&1 >/dev/null | true", "2>/dev/full"])
def test_whoever_reads_notes_no_more_takes_nothing_from_the_job(tmp_path, stderr):
    program = "sh -c 'sleep 0.5; exit 7'"
    shell = f"set -o pipefail; {MMULAB} %s -- {program} {stderr}"
    for job in ("record -o t.mmt", "run --no-guesses --dir whole -m ultrix -o replay.csv"):
        done = subprocess.run(["bash", "-c", shell % job], cwd=tmp_path, capture_output=True)
        assert (done.returncode, done.stderr) == (7, b""), job
    assert api.trace_information(tmp_path / "t.mmt").exit_status == 7
    assert (tmp_path / "whole" / "report.html").exists() and (tmp_path / "replay.csv").exists()
    shell = f"set -o pipefail; {MMULAB} replay missing.mmt {stderr}"
    assert subprocess.run(["bash", "-c", shell], cwd=tmp_path).returncode == 2


def test_time_left_is_counted_down_between_reports(monkeypatch):
    now = 100.0
    bars = []

    class Kept(output.Progress):
        def __init__(self, *columns, **options):
            super().__init__(*columns, **{**options, "auto_refresh": False})
            bars.append(self)

    monkeypatch.setattr(output, "Progress", Kept)
    monkeypatch.setattr(output, "shows_progress", lambda: True)
    monkeypatch.setattr(time, "monotonic", lambda: now)

    def left() -> str:
        return output.TimeLeft().render(bars[0].tasks[0]).plain

    with output.progress("Booting", "boots") as report:
        assert left() == ""  # nobody knows how many
        report(3, 7)  # an earlier run did three of them
        assert left() == "--:--"
        now += 10
        report(4, 7)
        assert left() == "00:30"
        now += 20
        assert left() == "00:10"
        now += 20
        assert left() == "--:--"  # it takes longer than was expected
        report(5, 7)
        assert left() == "01:20"  # at the rate of the second half: one in 40 s
        now += 8000
        report(6, 7)
        assert left() == "2:13:20"
        report(7, 7)
        assert left() == "00:00"


def test_progress_does_not_overwrite_what_the_program_writes(tmp_path):
    """On a terminal, for longer than the first line of progress takes to come."""
    leader, follower = pty.openpty()
    script = 'i=0; while [ $i -lt 40 ]; do echo "line $i"; sleep 0.1; i=$((i + 1)); done'
    process = subprocess.Popen(
        [MMULAB, "record", "-o", tmp_path / "t.mmt", "--", "sh", "-c", script],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(follower)
    seen = b""
    while part := read_until_closed(leader):
        seen += part
    os.close(leader)
    assert process.wait() == 0
    assert b"\x1b" not in seen, "nothing moves the cursor"
    lines = seen.decode().split("\r\n")
    assert [line for line in lines if line.startswith("line ")] == [f"line {i}" for i in range(40)]
    assert any(line.startswith("mmulab: recording sh: ") for line in lines)
    assert "\r" not in "".join(lines)


def read_until_closed(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
