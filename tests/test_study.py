"""Studies: what they say, what they refuse, and that they continue where they stopped."""

from __future__ import annotations

import csv
import datetime
import json
import os
import resource
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy
import pyarrow.parquet as parquet
import pytest
from conftest import MMULAB, ROOT
from conftest import mmulab as command
from distributed import LocalCluster
from hypothesis import example, given, settings
from hypothesis import strategies as st

import mmulab
from mmulab import StudyError, _engine, files
from mmulab.cli import app
from mmulab.command import status_of

STUDY = """
traces = ["{trace}"]
machines = ["ultrix", "base"]

[[vary]]
"l1i.size_bytes" = ["8K", "64K"]
"l1d.size_bytes" = ["8K", "64K"]

[[vary]]
"memory.latency_cycles" = [100, 200, 500]
"""


@pytest.fixture
def study(trace: Path, tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY.format(trace=trace))
    return path


def test_lists_of_one_table_step_together_and_tables_are_crossed(study):
    points = [one.point for one in mmulab.Study.load(study).configurations()]
    assert len(points) == 2 * 2 * 3
    assert points[0] == {
        "l1i.size_bytes": 8192,
        "l1d.size_bytes": 8192,
        "memory.latency_cycles": 100,
    }
    assert all(point["l1i.size_bytes"] == point["l1d.size_bytes"] for point in points)


def test_what_is_no_trace_is_refused_before_its_hash_is_taken(tmp_path, monkeypatch):
    (tmp_path / "large").write_text("all files below are large")
    monkeypatch.setattr(mmulab.provenance, "_digest_of", lambda path: pytest.fail(f"read {path}"))
    for path in (tmp_path, tmp_path / "large"):
        with pytest.raises(mmulab.TraceError, match="is no trace of a known format"):
            mmulab.sweep(mmulab.Study([path], ["ultrix"]))


def test_a_sweep_agrees_with_replay(study, trace):
    table = mmulab.sweep(study).to_pylist()
    row = next(
        row
        for row in table
        if row["machine"] == "ultrix"
        and row["l1i.size_bytes"] == 8192
        and row["memory.latency_cycles"] == 200
    )
    changes = {
        "l1i.size_bytes": 8192,
        "l1d.size_bytes": 8192,
        "memory.latency_cycles": 200,
    }
    [alone] = mmulab.replay(trace, mmulab.Machine.load("ultrix").with_changes(changes))
    assert row["cycles"] == alone.cycles
    for name, account in alone.data["causes"].items():
        assert row[f"{name}.cycles"] == account["cycles"]


def test_the_file_is_the_same_for_any_number_of_threads(study, tmp_path):
    for threads in (1, 3):
        mmulab.sweep(study, tmp_path / f"{threads}.parquet", threads=threads)
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "3.parquet").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["1.parquet", "3.parquet", "study.toml"]


def test_a_killed_sweep_goes_on_where_it_stopped(study, tmp_path):
    """The parts of finished units are found again, and the result is that of an unbroken sweep."""
    long = study.read_text().replace('["ultrix", "base"]', '["ultrix", "base", "notlb", "mach"]')
    study.write_text(long)
    output = tmp_path / "t.parquet"
    process = subprocess.Popen([MMULAB, "sweep", study, "--threads", "1", "-o", output], cwd=ROOT)
    parts = tmp_path / "t.parquet.parts"
    while process.poll() is None and not list(parts.glob("*.json")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if not output.exists():
        assert len(list(parts.glob("*.json"))) >= 1
        # As a kill leaves it while a part is being written.
        (parts / ".unit.json.half").write_bytes(b"[")
    assert command("sweep", study, "-o", output).status == 0
    assert not parts.exists()
    assert parquet.read_table(output).equals(mmulab.sweep(study))


def test_others_are_kept_out_before_the_configurations_are_worked_out(study, tmp_path, monkeypatch):
    """Of thousands that takes seconds."""
    output = tmp_path / "t.parquet"
    configurations = mmulab.Study.configurations

    def while_locked(self):
        with (
            pytest.raises(mmulab.InputError, match="taken"),
            files.alone(mmulab.study.parts_folder(output), "taken"),
        ):
            pass
        return configurations(self)

    monkeypatch.setattr(mmulab.Study, "configurations", while_locked)
    mmulab.sweep(study, output)
    assert output.exists() and not mmulab.study.parts_folder(output).exists()


def test_kept_parts_are_not_replayed_again_but_by_another_build(study, tmp_path, monkeypatch):
    output = tmp_path / "t.parquet"
    first = mmulab.sweep(study, output, keep_parts=True)

    def replay(*_: object, **__: object) -> None:
        raise AssertionError("replayed")

    monkeypatch.setattr(_engine, "sweep_unit", replay)
    output.unlink()
    assert mmulab.sweep(study, output, keep_parts=True).equals(first)
    assert parquet.read_table(output).equals(first)
    monkeypatch.setattr(mmulab.study, "_engine_digest", lambda: "of another build")
    with pytest.raises(AssertionError, match="replayed"):
        mmulab.sweep(study, output, keep_parts=True)
    mmulab.study.remove_parts(output)
    assert sorted(os.listdir(tmp_path)) == ["study.toml", "t.parquet"]


def test_what_two_tables_vary_is_refused(study):
    study.write_text(study.read_text() + '\n[[vary]]\n"l1d.size_bytes" = ["16K"]\n')
    wrong = command("sweep", study)
    assert wrong.status == 2
    assert wrong.error_line == f"{study}: l1d.size_bytes: is varied in two tables; take one away"


def test_a_point_that_is_there_twice_is_refused(study):
    text = study.read_text()
    study.write_text(text + '\n[[vary]]\n"l2.size_bytes" = ["1M", 1048576]\n')
    wrong = command("sweep", study)
    assert wrong.status == 2
    assert wrong.error_line.startswith(f"{study}: vary: ")
    assert "l2.size_bytes=1048576 is there twice" in wrong.error_line
    # In one of the lists of a table a value may stand twice.
    study.write_text(
        text + '\n[[vary]]\n"l2.size_bytes" = ["1M", "1M"]\n"l2.latency_cycles" = [20, 21]\n'
    )
    assert command("sweep", study).status == 0


def test_an_error_of_the_file_is_told_with_the_file_whatever_is_set(study):
    study.write_text(study.read_text().replace("latency_cycles", "latency_cycle"))
    wrong = command("sweep", study, "--set", "memory.latency_cycles=7")
    assert wrong.status == 2 and wrong.error_line.startswith(f"{study}: ")


def test_what_the_file_both_varies_and_sets_is_told_with_the_file_whatever_is_set(study):
    study.write_text(study.read_text() + '\n[set]\n"memory.latency_cycles" = 7\n')
    wrong = command("sweep", study, "--set", "l2.latency_cycles=7")
    assert wrong.status == 2
    assert wrong.error_line == (
        f"{study}: memory.latency_cycles: is both varied and set; take one away"
    )


@pytest.mark.parametrize("format", ["csv", "json"])
def test_a_sweep_into_a_file_of_any_format_keeps_its_parts(format, study, tmp_path, monkeypatch):
    output = tmp_path / f"t.{format}"
    arguments = ["sweep", str(study), "-o", str(output), "--threads", "2"]
    replay, interrupted, replayed = _engine.sweep_unit, threading.Event(), threading.Event()
    waits = iter([True, False])

    def interrupted_at_second(*words: Any, **options: Any) -> list[dict[str, Any]]:
        if not next(waits):
            replayed.wait()  # a slow replay would be stopped
            interrupted.set()
            raise KeyboardInterrupt
        rows = replay(*words, **options)
        replayed.set()
        interrupted.wait()  # the first is finished only then, and is kept all the same
        return rows

    monkeypatch.setattr(_engine, "sweep_unit", interrupted_at_second)
    assert status_of(app, arguments) == 130
    kept = list(mmulab.study.parts_folder(output).glob("*.json"))
    assert len(kept) == 1 and not output.exists()
    monkeypatch.setattr(_engine, "sweep_unit", replay)
    assert status_of(app, arguments) == 0
    assert output.read_text() == command("sweep", study, "--format", format).output
    assert sorted(os.listdir(tmp_path)) == ["study.toml", output.name]


def test_a_sweep_into_a_device_keeps_no_parts(study):
    assert command("sweep", study, "-o", "/dev/null", "--format", "csv").status == 0
    assert not os.path.lexists("/dev/null.parts")


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.json"])
def test_a_second_sweep_into_the_same_file_is_refused(name, study, tmp_path):
    """Its parts would be removed with those of the first, or the first's with its own."""
    output = tmp_path / name
    with files.alone(tmp_path / f"{name}.parts", "unused"):
        refused = command("sweep", study, "-o", output)
        assert refused.status == 2
        assert refused.error_line.startswith(f"{output}: another sweep writes there;")
        assert os.listdir(tmp_path / f"{name}.parts") == []
    assert command("sweep", study, "-o", output).status == 0
    assert sorted(os.listdir(tmp_path)) == ["study.toml", name]


BAD_STUDIES = {
    "no TOML": ("traces = ", "is not TOML"),
    "an unknown key": ('trace = ["a"]', "trace: unknown key; did you mean traces?"),
    "no machines": ('traces = ["a"]', "machines: give a list"),
    "an unknown machine": (
        'traces = ["a.mmt"]\nmachines = ["ultrx"]',
        "study.toml: there is no machine 'ultrx'; did you mean ultrix?",
    ),
    "a machine that boots kernels": (
        'traces = ["a.mmt"]\nmachines = ["arm926ej-s"]',
        "study.toml: machine arm926ej-s boots kernels",
    ),
    "no such trace": ('traces = ["a.mmt"]\nmachines = ["ultrix"]', "a.mmt"),
    "a NUL in a name": (
        'traces = ["a\\u0000b"]\nmachines = ["ultrix"]',
        "is no name of a file; take its NUL away",
    ),
    "a title that is no text": ('title = 5\ntraces = ["a"]\nmachines = ["ultrix"]', "is no text"),
    "an empty table": ('traces = ["a"]\nmachines = ["ultrix"]\n[[vary]]', "vary: a table is empty"),
    "a list of one value": (
        'traces = ["a"]\nmachines = ["ultrix"]\n[[vary]]\n"dtlb.entries" = 64',
        "give a list of values",
    ),
    "a path without quotes": (
        'traces = ["a"]\nmachines = ["ultrix"]\n[[vary]]\ndtlb.entries = [64]',
        "dotted paths stand in quotes",
    ),
    "lists of different length": (
        'traces = ["a"]\nmachines = ["ultrix"]\n[[vary]]\n"dtlb.entries" = [64, 128]\n'
        '"itlb.entries" = [64]',
        "equally long",
    ),
    "no such trace, which is told before any machine is made": (
        'traces = ["a"]\nmachines = ["ultrix"]\n[[vary]]\n"dtlb.entry" = [64]',
        "a: no such file or directory",
    ),
    "an unknown path": (
        # The first machine is made after the traces have been looked for.
        f'traces = ["{ROOT}/examples/small.mmt"]\nmachines = ["ultrix"]\n[[vary]]\n"dtlb.entry" = [64]',
        'study.toml: ultrix: dtlb.entry: unknown key; did you mean "entries"?',
    ),
}


@pytest.mark.parametrize(
    "wrong",
    [
        {"machines": []},
        {"vary": [{}]},
        {"vary": {"itlb.entries": [32]}},
        {"vary": [{"itlb.entries": 32}]},
        {"vary": [{"itlb.entries": []}]},
        {"vary": [{"itlb.entries": [32, 64], "dtlb.entries": [32]}]},
        {"set": ["itlb.entries"]},
        {"set": {"memory.latency_cycles": datetime.date(1979, 5, 27)}},
        {"vary": [{"memory.latency_cycles": [datetime.date(1979, 5, 27)]}]},
        {"traces": 5},
        {"traces": [None]},
        {"traces": ["a\0b"]},
        {"machines": 5},
        {"machines": [5]},
        {"machines": ["intel\0"]},
        {"title": 5},
        {"vary": [{5: [64]}]},
        {"set": {5: 64}},
        {"set": {"memory.latency_cycles": None}},
    ],
)
def test_a_wrong_study_is_refused_as_one_of_a_file_is(wrong):
    with pytest.raises(mmulab.StudyError):
        mmulab.Study(**{"traces": ["a.mmt"], "machines": ["intel"], **wrong})


@pytest.mark.parametrize("case", BAD_STUDIES)
def test_a_wrong_study_gets_one_line(case, tmp_path):
    text, expected = BAD_STUDIES[case]
    (tmp_path / "study.toml").write_text(text)
    finished = command("sweep", tmp_path / "study.toml", "-o", tmp_path / "out.parquet")
    assert finished.status == 2
    assert expected in finished.error_line
    assert os.listdir(tmp_path) == ["study.toml"]


def test_a_study_may_be_made_in_python(trace):
    study = mmulab.Study([trace], ["base"], [{"memory.latency_cycles": [100, 200]}])
    cheap, dear = mmulab.sweep(study)["cycles"].to_pylist()
    assert cheap < dear
    with pytest.raises(StudyError, match="no such file"):
        mmulab.Study.load("no-such-study.toml")


def test_a_sweep_refuses_what_can_be_read_only_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "-"):
        study = mmulab.Study([path], ["base"], [{"memory.latency_cycles": [100, 200]}])
        with pytest.raises(
            StudyError, match=f"{path}: a sweep needs a file, to read it more than once"
        ):
            mmulab.sweep(study)


def test_the_cross_product_of_1998_is_whole():
    study = mmulab.Study.load(ROOT / "examples" / "studies" / "vm-study-1998-table1.toml")
    steps = [len(next(iter(axis.values()))) for axis in study.vary]
    assert [len(study.machines), *steps] == [6, 8, 3, 4, 4]
    with pytest.raises(StudyError, match=r"table1\.toml: the study names no traces"):
        mmulab.sweep(study)


def test_traces_values_and_seed_may_come_from_the_command_line(trace, tmp_path):
    (tmp_path / "study.toml").write_text(
        'machines = ["ultrix", "base"]\n[[vary]]\n"l2.size_bytes" = ["512K", "1M"]\n'
    )
    finished = command(
        "sweep", tmp_path / "study.toml", trace, "--seed", "7", "--set", "l1d.size_bytes=8K"
    )
    assert finished.status == 0, finished.errors
    rows = json.loads(finished.output)
    machine = mmulab.Machine.load("ultrix").with_changes(
        {"l1d.size_bytes": "8K", "l2.size_bytes": "1M"}
    )
    [alone] = mmulab.replay(trace, machine, seed=7)
    assert rows[1]["cycles"] == alone.cycles
    assert rows[1]["l2.size_bytes"] == 1 << 20


def test_lists_and_truth_values_are_columns_of_every_format(trace, tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(
        'machines = ["sifive-u74"]\n[[vary]]\n"l1d.write_allocate" = [true, false]\n'
        '[[vary]]\n"dtlb.page_sizes" = [["4K"], ["4K", "2M"]]\n[[vary]]\n"l2.ways" = [8, "full"]\n'
    )
    for kind in ("csv", "parquet"):
        assert command("sweep", study, trace, "-o", tmp_path / f"t.{kind}").status == 0
    rows = list(csv.DictReader((tmp_path / "t.csv").read_text().splitlines()))
    assert [row["l1d.write_allocate"] for row in rows] == ["true"] * 4 + ["false"] * 4
    assert [row["dtlb.page_sizes"] for row in rows] == [*['["4K"]'] * 2, *['["4K", "2M"]'] * 2] * 2
    assert [row["l2.ways"] for row in rows] == ["8", "full"] * 4
    shown = command("sweep", study, trace, "--format", "table").output
    assert "false" in shown and "False" not in shown and "'4K'" not in shown
    assert command("report", tmp_path).status == 0
    assert "True" not in (tmp_path / "report.html").read_text()


def test_a_full_disk_is_told_in_one_line_and_leaves_nothing_half_written(study, tmp_path):
    finished = subprocess.run(
        [MMULAB, "sweep", study, "-o", tmp_path / "t.parquet"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500)),
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert finished.returncode == 1
    [line] = finished.stderr.splitlines()
    assert line.startswith(f"mmulab: {tmp_path}/t.parquet.parts/")
    assert "file too large" in line
    assert not (tmp_path / "t.parquet").exists()
    assert os.listdir(tmp_path) == ["study.toml"]


def test_an_unknown_place_to_run_is_told(study):
    finished = command("sweep", study, "--on", "slurm://x")
    assert finished.status == 2
    assert finished.error_line.endswith("give dask://HOST:PORT or dask://local")


def test_a_worker_that_does_not_start_says_why(study, tmp_path, monkeypatch):
    def fail(**_):
        try:
            raise PermissionError(13, "Permission denied", "/dev/shm")
        except OSError as error:
            raise RuntimeError("Nanny failed to start.") from error

    monkeypatch.setattr("distributed.Client", fail)
    with pytest.raises(mmulab.MmulabError, match=r"no Dask worker starts .*/dev/shm"):
        mmulab.sweep(study, tmp_path / "there.parquet", on="dask://local")


def test_a_cluster_gives_the_same(study, tmp_path):
    finished = command("sweep", study, "-o", tmp_path / "there.parquet", "--on", "dask://local")
    assert finished.status == 0, finished.errors
    mmulab.sweep(study, tmp_path / "here.parquet")
    assert (tmp_path / "here.parquet").read_bytes() == (tmp_path / "there.parquet").read_bytes()


def test_a_cluster_without_a_worker_is_told_of_and_waited_for(study):
    with LocalCluster(
        n_workers=0, processes=False, protocol="tcp", dashboard_address=":0"
    ) as cluster:
        notes = []

        def note(text):
            notes.append(text)
            cluster.scale(1)

        there = mmulab.sweep(study, on=cluster.scheduler_address.replace("tcp", "dask"), note=note)
    assert there == mmulab.sweep(study)
    assert len(notes) == 1 and "no Dask worker has connected" in notes[0]


def test_the_shipped_studies_can_be_read():
    for path in sorted((ROOT / "examples" / "studies").glob("*.toml")):
        assert mmulab.Study.load(path).configurations(), path


GOOD_STUDY = """title = "t"
traces = ["a.mmt"]
machines = ["ultrix", "base"]
seed = 3
[set]
"l2.size_bytes" = "2M"
[[vary]]
"itlb.entries" = [32, 64]
"dtlb.entries" = [32, 64]
"""


@settings(max_examples=50, deadline=None)
@given(
    edits=st.lists(
        st.tuples(
            st.integers(0, len(GOOD_STUDY)),
            st.integers(0, 20),
            st.text(alphabet=st.characters(codec="utf-8"), max_size=12)
            | st.sampled_from(["[", "]", "=", '"', "{}", "1e400", "-1", "[[vary]]\n", "nan", "\n"]),
        ),
        max_size=4,
    )
)
@example(edits=[(77, 0, "\x85")])
def test_any_text_is_a_study_or_refused_in_one_line(edits):
    text = GOOD_STUDY
    for start, removed, inserted in edits:
        text = text[:start] + inserted + text[start + removed :]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.toml"
        path.write_text(text, encoding="utf-8")
        try:
            study = mmulab.Study.load(path)
            study.configurations()
        except mmulab.MmulabError as error:
            assert str(error).isprintable(), str(error)


def test_an_error_of_the_command_line_is_not_put_on_the_study(study):
    finished = command("sweep", study, "--set", "l1d.sise_bytes=8K")
    assert finished.status == 2
    assert finished.error_line.startswith("ultrix: l1d.sise_bytes: unknown key")


def test_a_value_that_is_varied_cannot_be_set_as_well(study):
    """One of the two would be ignored without a word."""
    finished = command("sweep", study, "--set", "memory.latency_cycles=300")
    assert finished.status == 2
    assert finished.error_line == (
        f"memory.latency_cycles: is varied in {study}; leave out --set memory.latency_cycles, or take it away there"
    )


def test_a_study_takes_names_and_paths_and_one_for_a_list(trace):
    one = mmulab.sweep(mmulab.Study(traces=str(trace), machines="base"))
    assert one == mmulab.sweep(mmulab.Study(traces=[trace], machines=[mmulab.Machine.load("base")]))


def test_values_may_be_numpys(trace):
    latencies = numpy.array([100, 200])
    plain = mmulab.Study([trace], ["base"], [{"memory.latency_cycles": [100, 200]}])
    for axis in ([*latencies], latencies):
        of_numpy = mmulab.Study([trace], ["base"], [{"memory.latency_cycles": axis}])
        assert mmulab.sweep(of_numpy) == mmulab.sweep(plain)
    varied = mmulab.Machine.load("base").vary("memory.latency_cycles", latencies)
    assert [one.get("memory.latency_cycles") for one in varied] == [100, 200]
    for alone in (100, "100", numpy.int64(100)):
        with pytest.raises(mmulab.MachineError, match="is no list of values; write "):
            mmulab.Machine.load("base").vary("memory.latency_cycles", alone)


def test_numbers_may_be_numpys(trace):
    plain = mmulab.replay(trace, "base", seed=3, skip=2, warm_up=5, limit=1000, threads=1)
    of_numpy = mmulab.replay(
        trace,
        "base",
        seed=numpy.int64(3),
        skip=numpy.uint8(2),
        warm_up=numpy.int32(5),
        limit=numpy.uint64(1000),
        threads=numpy.int16(1),
    )
    assert json.dumps(of_numpy.to_dicts()) == json.dumps(plain.to_dicts())
    with pytest.raises(mmulab.InputError, match="is no whole number"):
        mmulab.replay(trace, "base", skip=numpy.bool_(True))
