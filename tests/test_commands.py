"""The commands as a user types them: the JSON contract, exit status, errors of one line, pipes."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import resource
import shutil
import signal
import subprocess
import time
import tomllib
from pathlib import Path

import jsonschema
import pyarrow.parquet as parquet
import pytest
from conftest import MMULAB, ROOT, mmulab, start_interruptible

import mmulab as api
from mmulab_start import ENDING

STUDY = ["base", "ultrix", "mach", "intel", "pa-risc", "notlb", "inverted-hw"]


@pytest.fixture(scope="module")
def replayed(trace: Path) -> list[dict]:
    finished = mmulab("replay", trace, "-m", ",".join(STUDY), "-m", "x86-64")
    assert finished.status == 0, finished.errors
    assert finished.errors == ""
    return json.loads(finished.output)


def test_replay_in_a_pipe_is_a_list_with_one_object_for_each_machine(replayed):
    assert [row["machine"] for row in replayed] == [*STUDY, "x86-64"]
    for row in replayed:
        assert {
            "machine",
            "instructions",
            "cycles",
            "mcpi",
            "vmcpi",
            "interrupts",
            "causes",
            "provenance",
        } <= set(row)
        for account in row["causes"].values():
            assert set(account) == {"count", "cycles"}


def test_every_cycle_has_a_cause(replayed):
    for row in replayed:
        assert sum(account["cycles"] for account in row["causes"].values()) == row["cycles"]


def test_ratios_follow_from_the_causes(replayed):
    for row in replayed:
        program = ("issue", "L1i-miss", "L2i-miss", "L3i-miss", "L1d-miss", "L2d-miss", "L3d-miss")
        translation = sum(
            account["cycles"]
            for name, account in row["causes"].items()
            if name not in program and not name.endswith("interrupt")
        )
        misses = sum(
            account["cycles"]
            for name, account in row["causes"].items()
            if name in program and name != "issue"
        )
        assert row["vmcpi"] == pytest.approx(translation / row["instructions"])
        assert row["mcpi"] == pytest.approx(misses / row["instructions"])


def test_all_machines_replay_the_same_instructions(replayed):
    assert len({row["instructions"] for row in replayed}) == 1


def test_same_input_same_bytes_whatever_the_threads(trace, tmp_path):
    outputs = []
    for threads in ("1", "2", "3"):
        finished = mmulab("replay", trace, "ultrix", "x86-64", "--threads", threads)
        outputs.append(finished.output)
    assert outputs[0] == outputs[1] == outputs[2] != ""


def test_another_seed_changes_random_replacement_only(trace):
    def cycles(machine: str, seed: str) -> int:
        finished = mmulab(
            "replay", trace, "-m", machine, "--seed", seed, "--set", "dtlb.entries=24"
        )
        return json.loads(finished.output)[0]["cycles"]

    assert len({cycles("ultrix", seed) for seed in "123"}) > 1


@pytest.mark.parametrize("setting", ["memory.latency_cycles=600", "memory.latency_cycles = 600"])
def test_set_changes_the_machine_and_its_label(trace, setting):
    finished = mmulab("replay", trace, "-m", "ultrix", "--set", setting)
    [row] = json.loads(finished.output)
    assert row["machine"] == "ultrix memory.latency_cycles=600"


@pytest.mark.parametrize("format", ["table", "csv"])
def test_values_are_shown_as_the_file_has_them(format):
    change = "l1d.write_allocate=false"
    shown = mmulab("machines", "sifive-u74", "--set", change, "--format", format).output
    lines = [line for line in shown.splitlines() if "l1d.write_allocate" in line]
    assert "false" in lines[0]


def test_csv_and_parquet_hold_the_same_table(trace, tmp_path):
    text = mmulab("replay", trace, "ultrix", "base", "--format", "csv").output
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["machine"] for row in rows] == ["ultrix", "base"]
    assert mmulab("replay", trace, "ultrix", "base", "-o", tmp_path / "t.parquet").status == 0
    table = parquet.read_table(tmp_path / "t.parquet")
    assert table["cycles"].to_pylist() == [int(row["cycles"]) for row in rows]
    assert table["issue.cycles"].to_pylist() == [int(row["issue.cycles"]) for row in rows]


def test_the_trace_may_be_followed_by_machines(trace):
    finished = mmulab("replay", trace, "-m", "ultrix", "mach")
    assert [row["machine"] for row in json.loads(finished.output)] == ["ultrix", "mach"]


def on_a_terminal(*arguments: str | Path) -> str:
    """What a user sees: stdout and stderr are one terminal of 100 columns."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [MMULAB, *arguments],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", "TERM": "xterm"},
    )
    os.close(follower)
    seen = b""
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        seen += part
    os.close(leader)
    assert process.wait() == 0
    return seen.decode()


def test_a_terminal_gets_tables(trace):
    seen = on_a_terminal("replay", trace, "-m", "ultrix")
    assert "VMCPI" in seen and "ultrix" in seen and "upte-" in seen
    assert '"machine"' not in seen


def test_miss_curves_tell_what_huge_pages_would_do(trace):
    finished = mmulab("miss-curves", trace)
    curves = json.loads(finished.output)
    assert curves["verdict"].startswith("Huge pages would ")
    assert len(curves["curves"]) == 15
    for curve in curves["curves"]:
        assert curve["misses"] == sorted(curve["misses"], reverse=True)
        assert len(curve["misses"]) == curve["pages"]
        assert curve["misses"][-1] == curve["pages"]


def test_the_table_of_miss_curves_ends_where_all_have_ended(tmp_path):
    """Between 4 and 512 entries the curve of 1,000 pages in turn is flat."""
    lines = (f"I  00400000,4\n L {0x10000000 + 4096 * n:x},8\n" for n in range(1000))
    trace = tmp_path / "rounds.txt"
    trace.write_text(30 * "".join(lines))
    shown = mmulab("miss-curves", trace, "--format", "table").output
    data = shown[shown.index("Data TLB") : shown.index("Instruction TLB")].splitlines()
    rows = [
        line.split() for line in data if line.split() and line.split()[0].replace(",", "").isdigit()
    ]
    assert [row[0] for row in rows] == [f"{1 << shift:,}" for shift in range(11)]
    assert rows[9][1] != rows[10][1]


def test_addresses_are_hexadecimal_in_labels(trace):
    setting = "organisation.hash_table.base_address=0x90000000"
    done = mmulab("replay", trace, "-m", "inverted-hw", "--no-guesses", "--set", setting)
    assert json.loads(done.output)[0]["machine"] == f"inverted-hw {setting}"


def test_machines_lists_what_is_shipped():
    rows = json.loads(mmulab("machines").output)
    assert {row["name"] for row in rows} >= {*STUDY, "x86-64"}
    assert {row["kind"] for row in rows} <= {"replay", "system"}


def test_machines_are_listed_by_the_name_that_finds_them(trace, tmp_path):
    (tmp_path / "mine.toml").write_text((ROOT / "machines" / "ultrix.toml").read_text())
    folder = {"MMULAB_MACHINES": str(tmp_path)}
    assert [row["name"] for row in json.loads(mmulab("machines", **folder).output)] == ["mine"]
    assert mmulab("replay", trace, "-m", "mine", **folder).status == 0


def test_a_folder_without_machines_is_told(trace, tmp_path):
    for words in (["machines"], ["replay", trace], ["replay", trace, "-m", "ultrix"]):
        finished = mmulab(*words, MMULAB_MACHINES=str(tmp_path / "none"))
        assert finished.status == 2
        assert finished.error_line.endswith(
            "; MMULAB_MACHINES, where it is set, names their folder"
        )


def test_a_machine_is_printed_as_its_file_and_can_be_used_from_a_copy(trace, tmp_path):
    text = mmulab("machines", "ultrix").output
    assert text == (ROOT / "machines" / "ultrix.toml").read_text()
    copy = tmp_path / "mine.toml"
    copy.write_text(text.replace('name = "ultrix"', 'name = "mine"'))
    [row] = json.loads(mmulab("replay", trace, "-m", copy).output)
    assert row["machine"] == "mine"


def test_a_machine_goes_into_a_file_as_its_suffix_says(tmp_path):
    assert mmulab("machines", "ultrix", "-o", "m.toml", cwd=tmp_path).status == 0
    assert (tmp_path / "m.toml").read_text() == (ROOT / "machines" / "ultrix.toml").read_text()
    assert mmulab("machines", "ultrix", "-o", "m.json", cwd=tmp_path).status == 0
    assert json.loads((tmp_path / "m.json").read_text())["name"] == "ultrix"
    for refused in (["-o", "m.txt"], ["--set", "dtlb.entries=64", "-o", "set.toml"]):
        assert mmulab("machines", "ultrix", *refused, cwd=tmp_path).status == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.json", "m.toml"]


def test_the_schema_is_that_of_every_machine_that_ships():
    schema = json.loads(mmulab("machines", "--schema").output)
    assert schema["title"] == "mmulab machine"
    validator = jsonschema.Draft202012Validator(schema)
    for file in (ROOT / "machines").glob("*.toml"):
        text = file.read_text()
        assert text.startswith("#:schema machine.schema.json\n"), file
        validator.validate(tomllib.loads(text))
        wrong = tomllib.loads(text) | {"nonsense": 1}
        assert not validator.is_valid(wrong), file


BAD_USAGE = {
    "no such command": (["fly"], "fly"),
    "no trace": (["replay"], "TRACE"),
    "no such option": (["replay", "t.mmt", "--speed"], "--speed"),
    "no such format": (["machines", "--format", "xml"], "xml"),
    "no such machine": (["machines", "ultrx"], "did you mean ultrix?"),
    "no such machine file": (["machines", "./no/such.toml"], "no/such.toml"),
    "set without a value": (["machines", "ultrix", "--set", "dtlb.entries"], "PATH=VALUE"),
    "set of an unknown path": (["machines", "ultrix", "--set", "dtlb.entry=4"], 'mean "entries"?'),
    "set of a bad value": (["machines", "ultrix", "--set", "dtlb.entries=many"], "dtlb.entries"),
    "no such trace": (["replay", "no-such.mmt", "-m", "ultrix"], "no-such.mmt"),
    "a folder for a trace": (["replay", "docs", "-m", "ultrix"], "docs"),
    "a text for a trace": (["replay", "README.md", "-m", "ultrix"], "README.md"),
    "no program": (["run", "--"], "PROGRAM"),
    "no such program": (["record", "-o", "no.mmt", "--", "no-such-program"], "no-such-program"),
    "a device for a trace": (["record", "-o", "/dev/null", "--", "true"], "/dev/null"),
    "no such paper": (["reproduce", "no-such-paper"], "no-such-paper"),
    "no such folder": (["report", "no-such-folder"], "no-such-folder"),
    "a page that is none": (["report", "docs", "-o", "no.txt"], "name it .html"),
    "a changed machine as a machine's file": (
        ["machines", "ultrix", "--set", "dtlb.entries=64", "-o", "no.toml"],
        "no.toml: a changed machine lacks its sources",
    ),
    "a file for a folder": (["report", "README.md"], "README.md: is a file; name a folder"),
    "a file for a folder of results": (
        ["run", "--dir", "README.md", "--", "true"],
        "is a file; name a folder",
    ),
    "a device for a folder of results": (
        ["run", "--dir", "/dev/null", "--", "true"],
        "/dev/null: is a file; name a folder",
    ),
    "a trace for a study": (["sweep", "examples/small.mmt"], "small.mmt: is no study"),
    "a machine's file by name": (["machines", "README.md"], "for the file write ./README.md"),
    "a machine's file without its suffix": (
        ["machines", "pyproject"],
        "for the file write ./pyproject.toml",
    ),
    "a machine's file in a folder without its suffix": (
        ["machines", "machines/ultrix"],
        "machines/ultrix: there is no such file; write machines/ultrix.toml",
    ),
    "a folder without results": (["report", "docs"], "docs"),
}


@pytest.mark.parametrize("case", BAD_USAGE)
def test_bad_input_gets_one_line_and_status_2(case):
    arguments, expected = BAD_USAGE[case]
    finished = mmulab(*arguments)
    assert finished.status == 2
    assert expected in finished.error_line
    assert finished.output == ""


def test_a_damaged_trace_is_refused_with_its_place_and_leaves_no_output(trace, tmp_path):
    whole = trace.read_bytes()
    damaged = tmp_path / "damaged.mmt"
    for content in (whole[: len(whole) // 2], whole[:400] + b"\xff" * 8 + whole[408:], b""):
        damaged.write_bytes(content)
        finished = mmulab("replay", damaged, "-m", "base", "-o", tmp_path / "out.json")
        assert finished.status == 2
        assert "damaged.mmt" in finished.error_line
        assert not (tmp_path / "out.json").exists()


def test_an_output_that_cannot_be_written_says_so(trace, tmp_path):
    finished = mmulab("machines", "-o", tmp_path / "no" / "such.json")
    assert finished.status == 2 and "no/such.json" in finished.error_line
    finished = mmulab("machines", "-o", tmp_path)
    assert finished.status == 2 and "directory" in finished.error_line
    # Not even what stands there can be asked, as in a folder that may not be entered.
    finished = mmulab("replay", trace, "-m", "base", "-o", tmp_path / ("x" * 300))
    assert finished.status == 2 and "file name too long; it was not written" in finished.error_line


def test_what_a_shell_writes_to_stays(trace, tmp_path):
    """A rename would take away what stands there and what follows."""
    path = tmp_path / "log"
    with path.open("w") as log:
        log.write("before\n")
        log.flush()
        command = [MMULAB, "replay", trace, "-m", "base", "-o", "/dev/stdout"]
        finished = subprocess.run(command, stdout=log, stderr=subprocess.PIPE, text=True)
        assert finished.returncode == 2 and "/dev/stdout: is an open file" in finished.stderr
        log.write("after\n")
    assert path.read_text() == "before\nafter\n"


def test_a_full_disk_is_a_failure_of_the_job():
    finished = mmulab("machines", "--format", "json", "-o", "/dev/full")
    assert finished.status == 1
    assert "no space left" in finished.error_line
    with open("/dev/full", "wb") as full:
        finished = subprocess.run(
            [MMULAB, "machines"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert finished.returncode == 1
    assert finished.stderr == "mmulab: stdout: no space left on device\n"
    for what in ("--help", "--version"):
        with open("/dev/full", "wb") as full:
            finished = subprocess.run(
                [MMULAB, what], stdout=full, stderr=subprocess.PIPE, text=True
            )
        assert finished.returncode == 1
        assert finished.stderr == "mmulab: stdout: no space left on device\n"


def test_two_results_do_not_go_to_one_file(trace, tmp_path):
    """The one would replace the other."""
    one, link = tmp_path / "one", tmp_path / "link"
    link.symlink_to(one)
    for command in (
        ["profile", trace, "--stacks", one, "-o", one],
        ["profile", trace, "--callgrind", one, "--speedscope", link],
        ["boot", trace, "--save", one, "--timeline", one],
    ):
        finished = mmulab(*command)
        assert finished.status == 2 and "two results cannot go to one file" in finished.error_line
    assert os.listdir(tmp_path) == ["link"]
    finished = mmulab("profile", trace, "--stacks", "/dev/null", "--callgrind", "/dev/null")
    assert finished.status == 0


def test_a_name_that_promises_other_contents_is_refused(tmp_path):
    trace = ROOT / "examples/small.mmt"
    for line in (
        "record -o t.csv true",
        "record -o t.gz true",
        f"trace slice {trace} -o t.json",
        f"trace dump {trace} -o t.txt.gz",
        f"trace dump {trace} -o t.mmt",
    ):
        finished = mmulab(*line.split(), cwd=tmp_path)
        assert finished.status == 2 and "give it another name" in finished.error_line, line
    assert not any(tmp_path.iterdir())


def test_no_result_takes_the_place_of_what_the_command_reads(trace, tmp_path):
    """Whatever names it: another name, a link, a machine's file, the program that is to be
    recorded."""
    for name in ("trace.mmt", "machine.toml", "study.toml", "program"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "link").symlink_to("trace.mmt")
    os.link(tmp_path / "trace.mmt", tmp_path / "other")
    for line in (
        "replay trace.mmt -m ultrix --format json -o trace.mmt",
        "replay trace.mmt -m ultrix --format json -o ./link",
        "replay other -m ultrix --format json -o trace.mmt",
        "replay trace.mmt -m machine.toml --format json -o machine.toml",
        "replay trace.mmt machine.toml --format json -o machine.toml",
        "replay trace.mmt other -m x86-64 --schedule round-robin --format json -o other",
        "profile trace.mmt -m ultrix --stacks trace.mmt",
        "miss-curves trace.mmt --format csv -o trace.mmt",
        "trace slice trace.mmt -o trace.mmt",
        "sweep study.toml --format csv -o study.toml",
        "sweep study.toml trace.mmt --format csv -o trace.mmt",
        "machines machine.toml -o machine.toml",
        "record -o program ./program",
        "boot program --timeline program",
        "boot program --save program",
        "boot program --format json -o program",
        "boot program --dtb other --save other",
        "boot program --initrd other --timeline other",
        "boot program --symbols other --timeline other",
        "boot program --restore other --timeline other",
        "boot program --restore other --format json -o other",
    ):
        finished = mmulab(*line.split(), cwd=tmp_path)
        assert finished.status == 2, line
        assert "is read for this result; name another file" in finished.error_line, line
    # But a state may be saved where it was restored from; this one is none.
    finished = mmulab(*["boot", "program", "--restore", "other", "--save", "other"], cwd=tmp_path)
    assert finished.status == 2 and "is read for" not in finished.error_line
    for name in ("trace.mmt", "machine.toml", "study.toml", "program"):
        assert (tmp_path / name).read_bytes() == name.encode()


def test_no_result_of_a_function_takes_the_place_of_what_it_reads(tmp_path):
    """The same from Python, on inputs that are in order."""
    trace, image, study = (tmp_path / name for name in ("trace.mmt", "image", "study.toml"))
    shutil.copy(ROOT / "examples/small.mmt", trace)
    shutil.copy(ROOT / "README.md", image)
    machine = tmp_path / "machine.toml"
    shutil.copy(ROOT / "machines/base.toml", machine)
    study.write_text('machines = ["./machine.toml"]\ntraces = ["trace.mmt"]\n')
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for call in (
        lambda: api.slice_trace(trace, trace, count=1000),
        lambda: api.sweep(study, trace),
        lambda: api.sweep(study, study),
        lambda: api.sweep(study, machine),
        lambda: api.sweep(api.Study(machines=[machine], traces=[trace]), machine),
        lambda: api.sweep(api.Study(machines=[api.Machine.load(machine)], traces=[trace]), machine),
        lambda: api.boot(image, "sa1100", restore=trace, timeline=trace, max_instructions=1),
        lambda: api.boot(image, "sa1100", timeline=image, max_instructions=1),
        lambda: api.boot(image, "sa1100", save=image, max_instructions=1),
        lambda: api.boot(image, "sa1100", initrd=trace, save=trace, max_instructions=1),
        lambda: api.record([image], image),
    ):
        with pytest.raises(api.OutputError, match="is read for this result"):
            call()
    both = tmp_path / "both"
    with pytest.raises(api.OutputError, match="two results"):
        api.boot(image, "sa1100", timeline=both, save=both, max_instructions=1)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_machines_passes_nothing_over():
    finished = mmulab("machines", "--set", "dtlb.entries=1")
    assert finished.status == 2 and "--set: of which machine?" in finished.error_line
    finished = mmulab("machines", "ultrix", "--schema")
    assert finished.status == 2 and "--schema is of all machines" in finished.error_line


def test_a_limit_on_file_size_leaves_the_old_file_and_no_rest(trace, tmp_path):
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    for name, *command in (
        ("out.json", "replay", trace, "-m", "ultrix"),
        ("out.mmt", "trace", "slice", trace),
    ):
        output = tmp_path / name
        output.write_text("old")
        finished = subprocess.run(
            [MMULAB, *command, "-o", output], preexec_fn=limit, capture_output=True, text=True
        )
        assert finished.returncode == 1
        assert len(finished.stderr.splitlines()) == 1
        assert finished.stderr.startswith(f"mmulab: {output}: file too large")
        assert output.read_text() == "old"
        assert os.listdir(tmp_path) == [name]
        output.unlink()


def test_a_reader_that_goes_away_is_no_error(trace):
    process = subprocess.Popen(
        [MMULAB, "replay", trace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    process.stdout.close()
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 0
    assert errors == b""


def wait_until_open(process, path):
    """Returns when a process has opened a file: it is at work then."""
    folder = Path(f"/proc/{process.pid}/fd")
    while process.poll() is None:
        with contextlib.suppress(FileNotFoundError):  # Closed since it was listed.
            if any(entry.samefile(path) for entry in folder.iterdir()):
                return
        time.sleep(0.01)


@pytest.mark.parametrize("sent", ENDING)
def test_an_interrupt_ends_a_replay_with_status_130_and_no_file(trace, tmp_path, sent):
    machines = [argument for _ in range(400) for argument in ("-m", "notlb")]
    output = tmp_path / "out.json"
    arguments = [trace, *machines, "--threads", "1", "-o", output]
    process = start_interruptible(MMULAB, "replay", *arguments, cwd=ROOT, stdout=None)
    wait_until_open(process, trace)
    process.send_signal(sent)
    errors = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 130
    assert errors == "mmulab: interrupted; nothing was written\n"
    assert os.listdir(tmp_path) == []


def test_a_run_of_no_program_leaves_no_folder(tmp_path):
    finished = mmulab("run", "--dir", "results", "--", "no-such-program", cwd=tmp_path)
    assert finished.status == 2 and "there is no program" in finished.error_line
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "command",
    ["run", "record", "replay", "miss-curves", "sweep", "machines", "reproduce", "report"],
)
def test_help_has_an_example(command):
    finished = mmulab(command, "--help", COLUMNS="100")
    assert finished.status == 0
    assert f"Example: mmulab {command}" in " ".join(finished.output.split())


def test_no_command_shows_the_help():
    assert "Commands" in mmulab().output


@pytest.mark.parametrize("written", [b"", b"I  04010000,4\n" * 20_000], ids=["nothing", "a part"])
@pytest.mark.parametrize("arguments", [("replay", "ultrix"), ("trace", "info"), ("miss-curves",)])
def test_ctrl_c_ends_the_wait_for_a_silent_pipe(arguments, written, tmp_path):
    """A writer that neither writes on nor ends keeps nobody."""
    pipe = tmp_path / "trace"
    os.mkfifo(pipe)
    first, *rest = arguments
    line = ["trace", "info", pipe] if first == "trace" else [first, pipe, *rest]
    process = start_interruptible(MMULAB, *line, stdout=subprocess.DEVNULL)
    with pipe.open("wb") as writer:
        writer.write(written)
        writer.flush()
        time.sleep(3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
