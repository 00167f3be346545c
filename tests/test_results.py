"""Results say where they come from, and never take one thing for another."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from conftest import mmulab as command
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import mmulab
from mmulab import _engine, run_folder
from mmulab.cli import app
from mmulab.command import changes_of, status_of
from mmulab.errors import InputError, MachineError
from mmulab.machine import Machine, machine_directory, machine_names, settings_of
from mmulab.provenance import distinct, machine_labels
from mmulab.recording import tool_directory
from mmulab.report import write_report
from mmulab.results import ReplayResults, flat_schema, flatten
from mmulab.views import flat_values
from mmulab.views import sweep as sweep_view

REPLAY_MACHINES = mmulab.machine_names("replay")
needs_recorder = pytest.mark.skipif(
    not shutil.which("valgrind") or not (tool_directory() / "mmulab-amd64-linux").exists(),
    reason="needs Valgrind and the recorder; see make setup",
)


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    """A copy of a shipped machine, under its name, in which one value is another."""
    path = tmp_path_factory.mktemp("machines") / "mine.toml"
    text = (machine_directory() / "intel.toml").read_text()
    changed = text.replace("latency_cycles = 500", "latency_cycles = 50")
    assert changed != text
    path.write_text(changed)
    return path


@pytest.fixture(scope="module")
def results(trace: Path) -> ReplayResults:
    return mmulab.replay(trace, ["cortex-a55", "ultrix", "base", "notlb"])


# ---- identity ----------------------------------------------------------------------------------


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_machines_that_differ_in_any_one_value_never_go_by_one_name(data):
    machine = mmulab.Machine.load(data.draw(st.sampled_from(REPLAY_MACHINES)))
    numbers = {
        path: value
        for path, value in flat_values(machine.values()).items()
        if isinstance(value, int) and not isinstance(value, bool)
    }
    path = data.draw(st.sampled_from(sorted(numbers)))
    try:
        changed = machine.with_changes(
            {path: data.draw(st.sampled_from([1, 2])) * numbers[path] + 4}
        )
        # As a file of one's own has it: nothing tells of the change but the content.
        other = mmulab.Machine.parse(changed._engine.toml(), "mine.toml")
    except MachineError:
        return
    same = mmulab.Machine.parse(machine._engine.toml(), "copy.toml")
    assert machine.sha256 == same.sha256 != other.sha256
    assert machine.label == other.label
    assert len(set(machine_labels([machine, other, same]))) == 3


@given(st.lists(st.tuples(*[st.sampled_from(["", "a", "b", "a (b)", "a [2]"])] * 3)))
def test_distinct_names_are_distinct_and_leave_alone_what_is_so_already(rows):
    names = [row[0] for row in rows]
    found = distinct(names, *zip(*(row[1:] for row in rows), strict=True))
    assert len(set(found)) == len(names)
    assert all(new.startswith(old) for new, old in zip(found, names, strict=True))
    assert found == names or len(set(names)) < len(names)


def test_a_copied_machine_and_its_original_stay_two(trace, copied, tmp_path):
    both = mmulab.replay(trace, ["intel", copied], guesses=False)
    assert [row.machine for row in both] == ["intel", f"intel ({copied})"]
    assert both[0].cycles > both[1].cycles
    # Also in results that were made apart and put together.
    alone = [mmulab.replay(trace, one, guesses=False).to_dicts() for one in ("intel", copied)]
    (tmp_path / "replay.json").write_text(json.dumps([*alone[0], *alone[1]]))
    page = write_report(tmp_path).read_text()
    for row in both:
        assert f"<td>{row.machine}</td>\n<td>{row.cpi:.3f}</td>" in page
        assert f"{row.machine}: issue, {row.group_cpi('work'):.4f} cycles" in page


def test_copied_machines_and_traces_of_one_name_stay_two_in_a_sweep(trace, copied, tmp_path):
    folders = [tmp_path / name for name in ("old", "new")]
    for folder in folders:
        folder.mkdir()
        shutil.copy(trace, folder / "gcc.mmt")
    study = mmulab.Study(
        [folder / "gcc.mmt" for folder in folders], ["intel", str(copied)], [{"l2.ways": [1, 2]}]
    )
    table = mmulab.sweep(study, tmp_path / "sweep.parquet")
    rows = table.to_pylist()
    assert len({(row["trace"], row["machine"], row["l2.ways"]) for row in rows}) == 8
    assert len({row["machine_sha256"] for row in rows}) == 4
    page = write_report(tmp_path).read_text()
    assert all(f"{row['machine']}, {row['trace']}" in page for row in rows)


# ---- provenance and schemas --------------------------------------------------------------------


def test_every_result_file_says_where_it_comes_from(trace, tmp_path):
    digest = hashlib.sha256(trace.read_bytes()).hexdigest()
    asked = ["replay", trace, "ultrix", "--set", "dtlb.entries=64", "--seed", "7"]
    machine = mmulab.Machine.load("ultrix").with_changes({"dtlb.entries": "64"})
    for name in ("t.json", "t.csv", "t.parquet"):
        assert command(*asked, "-o", tmp_path / name).status == 0
    [row] = json.loads((tmp_path / "t.json").read_text())
    source = row["provenance"]
    assert source["mmulab"] == mmulab.__version__
    assert source["trace"] == {
        "name": trace.name,
        "bytes": trace.stat().st_size,
        "sha256": digest,
    }
    assert source["seed"] == 7
    assert source["machine"]["set"] == {"dtlb.entries": "64"}
    assert source["machine"]["description"] == machine.values()
    assert source["machine"]["sha256"] == machine.sha256
    [from_csv] = csv.DictReader(io.StringIO((tmp_path / "t.csv").read_text()))
    [from_parquet] = parquet.read_table(tmp_path / "t.parquet").to_pylist()
    for flat in (from_csv, from_parquet):
        assert (flat["mmulab"], int(flat["seed"])) == (mmulab.__version__, 7)
        assert (flat["trace_sha256"], flat["machine_sha256"]) == (digest, machine.sha256)
        assert json.loads(flat["set"]) == {"dtlb.entries": "64"}
        assert json.loads(flat["machine_description"]) == machine.values()
    curves = mmulab.miss_curves(trace).to_dict()
    assert curves["provenance"]["trace"]["sha256"] == digest


def test_equal_runs_write_equal_bytes(trace, tmp_path):
    for name in ("one", "two"):
        for suffix in ("json", "csv", "parquet"):
            out = tmp_path / f"{name}.{suffix}"
            assert command("replay", trace, "intel", "x86-64", "-o", out).status == 0
        assert (
            command("miss-curves", trace, "-o", tmp_path / f"{name}-miss-curves.json").status == 0
        )
    for suffix in (".json", ".csv", ".parquet", "-miss-curves.json"):
        one, two = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("one", "two"))
        assert one == two


def test_columns_and_their_types_do_not_depend_on_the_data(trace, results):
    empty = ReplayResults([])
    short = mmulab.replay(trace, ["intel"], limit=1000, guesses=False)
    for part in ("causes", "regions", "pages", "guesses"):
        schemas = [getattr(some, part).schema for some in (empty, short, results)]
        assert schemas[0] == schemas[1] == schemas[2]
        assert not any(pa.types.is_null(kind) for kind in schemas[0].types)
    assert short.table.schema == results.table.schema
    names = [name for name in results.table.column_names if "_cycles" not in name]
    assert [name for name in empty.table.column_names if "_cycles" not in name] == names
    for row in [*results, *short]:
        assert set(flatten(row)) <= set(flat_schema(row.interrupt_costs_cycles).names)
        assert list(row.data["causes"]) == [cause.name for cause in mmulab.causes.CAUSES]


# ---- walks, guesses, parts of a trace ----------------------------------------------------------


def test_walks_by_region_are_the_misses_of_the_last_level(results):
    for row in results:
        walks = sum(region["walks"] for region in row.data["regions"])
        tlbs = row.data["tlbs"]
        last_level = [tlbs["stlb"]] if "stlb" in tlbs else list(tlbs.values())
        expected = sum(tlb["misses"] for tlb in last_level)
        assert walks == (row.cause_count("uhandler") if row.machine == "notlb" else expected)
        assert walks == sum(page["fetch_walks"] + page["data_walks"] for page in row.data["pages"])


def test_the_range_of_a_guess_is_what_the_changed_machines_give(trace, results):
    row = results["cortex-a55"]
    shares = {}
    for guess in row.data["guesses"]:
        machine = mmulab.Machine.load("cortex-a55").with_changes(guess["set"])
        [alone] = mmulab.replay(trace, machine, guesses=False)
        for key in ("cycles", "mcpi", "vmcpi"):
            assert alone.data[key] == guess[key], guess["set"]
        shares[json.dumps(guess["set"])] = alone.translation_share(10)
    lowest, highest = row.translation_share_range(10)
    assert (lowest, highest) == (min(shares.values()), max(shares.values()))
    with pytest.raises(InputError, match="75: is no interrupt cost of cortex-a55; it has 10"):
        row.translation_share_range(75)
    assert lowest < row.translation_share(10) < highest
    assert shares['{"stlb.latency_cycles": 8}'] == highest
    # What is set is no guess any more.
    machine = mmulab.Machine.load("cortex-a55").with_changes({"stlb.latency_cycles": 3})
    assert '{"stlb.latency_cycles": 8}' not in map(
        str, (one.changes for one in machine.alternatives())
    )
    assert len(machine.alternatives()) == len(row.data["guesses"]) - 2


def test_a_sweep_has_the_same_range_when_asked(trace, results):
    study = mmulab.Study(
        traces=[trace],
        machines=["cortex-a55", "x86-64"],
        vary=[{"l1d.write_allocate": [True, False]}],
    )
    ranges = [f"translation_share_at_10_cycles{end}" for end in ("", "_lowest", "_highest")]
    plain = mmulab.sweep(study)
    assert plain[ranges[1]].null_count == plain.num_rows == 4
    asked = mmulab.sweep(study, guesses=True)
    assert asked.schema == plain.schema
    assert (
        asked.drop_columns(ranges[1:])
        .select([*ranges[:1], "cycles"])
        .equals(plain.select([*ranges[:1], "cycles"]))
    )
    row = results["cortex-a55"]
    own = mmulab.Machine.load("cortex-a55").get("l1d.write_allocate")
    [same] = [
        one
        for one in asked.to_pylist()
        if one["machine"] == "cortex-a55" and one["l1d.write_allocate"] == own
    ]
    assert (same[ranges[1]], same[ranges[2]]) == row.translation_share_range(10)
    for table, is_shown in ((asked, True), (plain, False)):
        console = Console(width=200, file=io.StringIO(), record=True)
        console.print(sweep_view(table))
        shown = console.export_text()
        assert all((end in shown) == is_shown for end in ("lowest", "highest"))
        assert (f"{same[ranges[2]]:,.4g}" in shown) == is_shown


def test_every_summary_shows_the_range(trace, tmp_path):
    shown = command("replay", trace, "cortex-a55", "--format", "table").output
    [row] = json.loads(command("replay", trace, "cortex-a55", "-o", "/dev/stdout").output)
    (tmp_path / "replay.json").write_text(json.dumps([row]))
    page = write_report(tmp_path).read_text()
    [result] = ReplayResults([row])
    lowest, highest = (f"{100 * share:.2f}%" for share in result.translation_share_range(10))
    for text in (shown, page):
        assert lowest in text and highest in text and "stlb.latency_cycles=8" in text
    assert f"({lowest} to {highest}, as its guessed values go)" in page
    without = command("replay", trace, "cortex-a55", "--no-guesses", "--format", "table").output
    assert highest not in without


def test_a_part_of_a_trace_is_that_part(trace):
    [all_of_it] = mmulab.replay(trace, "ultrix", guesses=False)
    [first] = mmulab.replay(trace, "ultrix", limit=1_000_000, guesses=False)
    [rest] = mmulab.replay(trace, "ultrix", skip=1_000_000, guesses=False)
    [warm] = mmulab.replay(trace, "ultrix", warm_up=1_000_000, guesses=False)
    assert first.instructions == 1_000_000
    assert first.instructions + rest.instructions == all_of_it.instructions
    # A warm-up ends with a block, and what it did is not counted; nothing else changes.
    assert 0 <= rest.instructions - warm.instructions < 200
    assert warm.cause_count("uhandler") < rest.cause_count("uhandler")
    for name, account in all_of_it.data["causes"].items():
        assert account["count"] >= warm.cause_count(name), name
    [tail] = mmulab.replay(trace, "ultrix", skip=1_000_000, warm_up=5000, limit=2000, guesses=False)
    assert 0 <= 2000 - tail.instructions < 200
    source = tail.data["provenance"]
    assert (source["skip"], source["warm_up"], source["limit"]) == (1_000_000, 5000, 2000)


@pytest.mark.parametrize("option", ["--skip", "--warmup"])
def test_a_part_beyond_the_end_is_refused(trace, option):
    finished = command("replay", trace, "base", option, "4000000")
    assert finished.status == 2
    assert "leaves none of the trace to count" in finished.error_line
    assert ("to the end of a block" in finished.error_line) == (option == "--warmup")
    assert "raise" not in finished.error_line
    with pytest.raises(InputError):
        mmulab.replay(trace, "base", limit=0)


@pytest.mark.parametrize("name", ["replay", "profile"])
def test_a_limit_within_the_warm_ups_last_block_is_told(trace, name):
    # The first block has two instructions, and the warm-up takes both.
    asked = (name, trace, "-m", "base", "--format", "json", "--warmup", "1", "--limit")
    finished = command(*asked, "1")
    assert finished.status == 2
    assert finished.error_line == (
        f"{trace}: skipping 0 and warming up with 1 instructions, and on to the end of a block, leaves none "
        "of the trace to count within a limit of 1; raise that, or skip and warm up with fewer"
    )
    assert '"instructions": 1,' in command(*asked, "2").output


def test_machines_may_have_any_number_of_sets(trace):
    sizes = {"l1d.size_bytes": 48 * 1024, "l1d.ways": 1, "dtlb.entries": 24, "dtlb.ways": 4}
    machine = mmulab.Machine.load("intel").with_changes(sizes)
    [odd] = mmulab.replay(trace, machine, guesses=False)
    [less, more] = mmulab.replay(
        trace, mmulab.Machine.load("intel").vary("l1d.size_bytes", ["32K", "64K"]), guesses=False
    )
    # Which lines collide is another matter, but some do and some no longer do.
    misses = {row.data["caches"]["L1d"]["misses"] for row in (less, odd, more)}
    assert len(misses) == 3


# ---- the folder of a run -----------------------------------------------------------------------


def a_run(folder: Path, name: str, children: int) -> None:
    """What a finished run of `name` leaves to be published."""
    unfinished = run_folder.begin(folder)
    traces = [f"{name}.mmt", *(f"{name}.{child}.mmt" for child in range(1, children + 1))]
    for trace in traces:
        (unfinished / trace).write_text(name)
    information = [{"path": str(folder / trace)} for trace in traces]
    run_folder.write_json(
        unfinished / "trace.json", {**information[0], "children": information[1:], "run": name}
    )
    for result in ("replay.json", "miss-curves.json"):
        run_folder.write_json(unfinished / result, {"run": name})


def runs_in(folder: Path) -> set[str]:
    """Of which runs the folder holds anything."""
    found = {path.name.split(".")[0] for path in folder.glob("*.mmt")}
    return found | {json.loads(path.read_text())["run"] for path in folder.glob("*.json")}


@pytest.mark.parametrize("killed_at", range(16))
def test_a_run_killed_anywhere_leaves_no_mixture(tmp_path, monkeypatch, killed_at):
    a_run(tmp_path, "old", 3)
    run_folder.publish(tmp_path)
    (tmp_path / "notes.mmt").write_text("not of a run")
    (tmp_path / "notes.mmt").rename(tmp_path / "notes.txt")
    assert runs_in(tmp_path) == {"old"}
    a_run(tmp_path, "new", 1)
    assert runs_in(tmp_path) == {"old"}
    left = killed_at

    def until_killed(function):
        def step(self, *arguments, **settings):
            nonlocal left
            if left == 0:
                raise KeyboardInterrupt
            left -= 1
            return function(self, *arguments, **settings)

        return step

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", until_killed(Path.unlink))
        patch.setattr(Path, "replace", until_killed(Path.replace))
        try:
            run_folder.publish(tmp_path)
        except KeyboardInterrupt:
            assert len(runs_in(tmp_path)) <= 1
        else:
            assert runs_in(tmp_path) == {"new"}
            assert not (tmp_path / "unfinished").exists()
    a_run(tmp_path, "newest", 0)
    run_folder.publish(tmp_path)
    assert {"newest"} <= runs_in(tmp_path) and (tmp_path / "notes.txt").exists()


@needs_recorder
def test_all_processes_are_reported_with_their_ends(tmp_path):
    script = "(exit 7); /bin/echo a; exit 3"
    asked = ["run", "--follow-children", "-m", "intel", "--dir", tmp_path / "out"]
    finished = command(*asked, "--format", "json", "--", "sh", "-c", script)
    assert finished.status == 3, finished.errors
    names = ["sh.mmt", "sh.1.mmt", "sh.2.mmt"]
    rows = json.loads(finished.output[finished.output.index("[") :])
    assert [row["trace"] for row in rows] == names
    assert {path.name for path in (tmp_path / "out").glob("*.mmt")} == set(names)
    information = json.loads((tmp_path / "out" / "trace.json").read_text())
    statuses = [one["exit_status"] for one in [information, *information["children"]]]
    assert statuses == [3, 7, 0]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "3 processes" in page and all(f"<td>{name}</td>" in page for name in names)
    # They are told of without a replay, too.
    (tmp_path / "out" / "replay.json").unlink()
    again = command("report", tmp_path / "out")
    assert again.status == 0, again.errors
    assert "3 processes" in (tmp_path / "out" / "report.html").read_text()
    # A run in the same folder takes the place of this one, traces of children included.
    finished = command("run", "-m", "base", "--dir", tmp_path / "out", "--", "true")
    assert finished.status == 0, finished.errors
    assert [path.name for path in (tmp_path / "out").glob("*.mmt")] == ["true.mmt"]
    # And one that fails leaves all as it was.
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    failed = command("run", "-m", "base", "--dir", tmp_path / "out", "--", "no-such-program")
    assert failed.status == 2
    assert before == {
        path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()
    }


def test_a_child_that_executed_nothing_has_no_results(trace, tmp_path, monkeypatch, capsys):
    """It was killed before its first instruction."""
    nothing = tmp_path / "t.1.mmt"
    options = {"partial": False, "skip": 1 << 40, "count": None, "progress": None}
    assert _engine.slice_trace(str(trace), str(nothing), **options) == 0
    child = mmulab.trace_information(nothing)
    recorded = dataclasses.replace(mmulab.trace_information(trace), children=[child])
    monkeypatch.setattr(mmulab, "record", lambda *_, **__: recorded)
    folder = tmp_path / "out"
    arguments = ["run", "-q", "-m", "base", "--dir", str(folder), "--format"]
    assert status_of(app, [*arguments, "table", "--", "true"]) == 0
    assert "t.1.mmt" in capsys.readouterr().out
    rows = json.loads((folder / "replay.json").read_text())
    assert [row["trace"] for row in rows] == [trace.name]
    page = (folder / "report.html").read_text()
    assert re.search(r"<td>t\.1\.mmt</td>.*<td>0</td>", page)


@pytest.mark.parametrize("name", machine_names())
def test_a_change_is_shown_as_set_takes_it(name):
    for other in Machine.load(name).alternatives():
        assert Machine.load(name).with_changes(changes_of(settings_of(other.changes))) == other


def test_changed_machines_keep_their_changes_in_alternatives():
    machine = mmulab.Machine.load("x86-64").with_changes({"dtlb.entries": 128})
    assert all(other.get("dtlb.entries") == 128 for other in machine.alternatives())


@pytest.mark.parametrize("mine", ["notes.txt", ".git/config"])
def test_what_is_of_no_run_is_not_removed(tmp_path, mine):
    path = tmp_path / "unfinished" / mine
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(InputError, match="is of no run"):
        run_folder.begin(tmp_path)
    assert path.read_text() == "mine"
    path.rename(tmp_path / "notes.txt")
    if path.parent != tmp_path / "unfinished":
        path.parent.rmdir()
    (tmp_path / "unfinished" / "ls.mmt").touch()
    (tmp_path / "unfinished" / ".ls.mmt.7.0").touch()
    assert list(run_folder.begin(tmp_path).iterdir()) == []
