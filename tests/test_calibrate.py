"""Calibration: what is found in curves, against computers whose sizes and latencies are known."""

import json
import math
import os
import random
import signal
import sys
import tomllib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from conftest import ROOT, start_interruptible
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import mmulab
from mmulab import _engine
from mmulab.calibrate import Calibration, findings, plateaus, series
from mmulab.calibrate.reported import Cache, Reported, Tlb
from mmulab.calibrate.series import LINE_BYTES, Point
from mmulab.cli import app
from mmulab.command import status_of
from mmulab.report.calibration import write_calibration_report

NOTHING_REPORTED = Reported("a model", "none", False, [], [])


@dataclass(frozen=True)
class Level:
    """A cache (entries are lines) or a TLB (entries are pages): what fits costs nothing more."""

    sets: int
    ways: int
    miss_cycles: float

    def misses(self, numbers: Sequence[int]) -> float:
        """The share that misses if LRU sets are visited round and round: all lines of a full
        set."""
        if isinstance(numbers, range):
            # Side by side: every set holds as many, or one more.
            each, more = divmod(len(numbers), self.sets)
            loads = [(each, self.sets - more), (each + 1, more)]
        else:
            load = Counter(number % self.sets for number in numbers)
            loads = list(Counter(load.values()).items())
        return sum(count * sets for count, sets in loads if count > self.ways) / len(numbers)


def miss_cycles(levels: list[Level], numbers: Sequence[int]) -> float:
    """What a visit costs more than a hit of the first level; only what misses asks the next one."""
    share, cycles = 1.0, 0.0
    for level in levels:
        share = min(share, level.misses(numbers))
        cycles += share * level.miss_cycles
    return cycles


@dataclass
class Model:
    """Answers as `_engine.Computer` does, from first principles, with noise as of a busy
    computer."""

    caches: list[Level]
    tlbs: dict[str, list[Level]]
    shared: bool
    noise: random.Random
    l1_cycles: float = 4.0
    breaks_up: bool = False
    """Whether a TLB holds a large page as small ones."""
    known: dict[tuple[tuple[str, int, int, bool], ...], float] = field(default_factory=dict)

    def cycle_ns(self) -> float:
        return 0.25

    def issue_cycles(self, samples: int) -> list[float]:
        return self._noisy(0.25, samples)

    def load_cycles(self, parts: list[tuple[str, int, int, bool]], samples: int) -> list[float]:
        key = tuple(parts)
        if key not in self.known:
            self.known[key] = self._cycles(parts)
        return self._noisy(self.known[key], samples)

    def _cycles(self, parts: list[tuple[str, int, int, bool]]) -> float:
        lines: Sequence[int] = []
        accesses = {"4K": 0, "2M": 0}
        pages: dict[str, Sequence[int]] = {"4K": [], "2M": []}
        for part, (size, count, stride, spread) in enumerate(parts):
            page_bytes = 4096 if size == "4K" or self.breaks_up else 2 << 20
            base = part << 40
            places = min(stride, page_bytes) // LINE_BYTES
            if stride == LINE_BYTES:
                lines = range(count)
                pages[size] = range(max(1, count * stride // page_bytes))
                accesses[size] = count
                continue
            places_of = [(i * 29 + i // 64) % places if spread else 0 for i in range(count)]
            offsets = [base + i * stride + place * LINE_BYTES for i, place in enumerate(places_of)]
            lines = [*lines, *(offset // LINE_BYTES for offset in offsets)]
            pages[size] = sorted({offset // page_bytes for offset in offsets})
            accesses[size] = count
        cycles = self.l1_cycles + miss_cycles(self.caches, lines)
        if self.shared:
            pages = {"4K": [*pages["4K"], *(page + (1 << 50) for page in pages["2M"])], "2M": []}
        for size, numbers in pages.items():
            share = 1.0 if self.shared else accesses[size] / sum(accesses.values())
            cycles += share * (miss_cycles(self.tlbs[size], numbers) if numbers else 0.0)
        return cycles

    def jump_cycles(self, part: tuple[str, int, int, bool], samples: int) -> list[float]:
        return self._noisy(1.0 if part[1] <= 64 else 3.0, samples)

    def walk_cycles(self, pages: int, samples: int) -> list[float]:
        return self._noisy(20.0 + pages**0.5, samples)

    def fault_cycles(self, pages: str, count: int, samples: int) -> list[float]:
        return self._noisy(1000.0 if pages == "4K" else 100_000.0, samples)

    def shootdown_cycles(self, samples: int) -> tuple[list[float], list[float]]:
        return self._noisy(5000.0, samples), self._noisy(2000.0, samples)

    def _noisy(self, cycles: float, samples: int) -> list[float]:
        # Most samples are right to 2 %; every tenth is slower by up to three times.
        return [
            cycles
            * (1 + abs(self.noise.gauss(0, 0.02)))
            * (1 + 2 * self.noise.random() * (self.noise.random() < 0.1))
            for _ in range(samples)
        ]


def calibrated(model: Model, monkeypatch: pytest.MonkeyPatch) -> findings.Findings:
    return calibration_of(model, monkeypatch).findings


def calibration_of(model: Model, monkeypatch: pytest.MonkeyPatch) -> Calibration:
    monkeypatch.setattr(_engine, "Computer", lambda: model)
    monkeypatch.setattr(series, "available_bytes", lambda: 24 << 30)
    measured = series.measure(1 << 20, progress=None)
    return Calibration(NOTHING_REPORTED, measured, findings.find(measured, NOTHING_REPORTED))


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    l1=st.sampled_from([(64, 8), (64, 12), (128, 4)]),
    l2=st.sampled_from([(512, 8), (1024, 4)]),
    dtlb=st.sampled_from([(1, 48), (16, 4), (1, 96)]),
    stlb_sets=st.sampled_from([128, 256]),
    shared=st.booleans(),
    seed=st.integers(0, 1 << 30),
)
def test_what_a_model_has_is_found(l1, l2, dtlb, stlb_sets, shared, seed):
    caches = [Level(*l1, 10.0), Level(*l2, 250.0)]
    tlbs = [Level(*dtlb, 7.0), Level(stlb_sets, 8, 40.0)]
    large = [Level(1, 32, 7.0), Level(stlb_sets, 8, 40.0)]
    model = Model(caches, {"4K": tlbs, "2M": large}, shared, random.Random(seed))
    with pytest.MonkeyPatch.context() as patch:
        found = calibrated(model, patch).values
    assert found["l1d.size_bytes"].value == pytest.approx(l1[0] * l1[1] * LINE_BYTES, rel=0.1)
    assert found["l1d.ways"].value == l1[1]
    assert found["l2.size_bytes"].value == pytest.approx(l2[0] * l2[1] * LINE_BYTES, rel=0.1)
    assert found["l2.latency_cycles"].value == 10
    assert found["memory.latency_cycles"].value == pytest.approx(250, rel=0.03)
    assert found["dtlb.entries"].value == pytest.approx(dtlb[0] * dtlb[1], rel=0.1)
    assert found["dtlb.ways"].value == ("full" if dtlb[0] == 1 else dtlb[1])
    assert found["dtlb.page_sizes"].value == (["4K", "2M"] if shared else ["4K"])
    if not shared:
        assert found["dtlb_large.entries"].value == 32
    assert found["stlb.latency_cycles"].value == 7
    assert found["stlb.entries"].value == pytest.approx(stlb_sets * 8, rel=0.2)
    # One step of a walk takes an L1 hit, and its entry comes from L2.
    assert found["organisation.walk_overhead_cycles"].value == pytest.approx(40 - 4 - 10, abs=3)
    assert found["core.instructions_per_cycle"].value == 4
    assert found["itlb.entries"].value == pytest.approx(64, rel=0.25)


def test_measured_shootdowns_stand_in_the_file_and_guesses_where_there_are_none(
    monkeypatch, tmp_path
):
    def multicore() -> dict[str, object]:
        calibration_of(model, monkeypatch).write(tmp_path)
        text = (tmp_path / "machine.toml").read_text(encoding="utf-8")
        return tomllib.loads(text)["multicore"]

    tlbs = [Level(16, 4, 7.0), Level(128, 8, 40.0)]
    caches = [Level(64, 8, 10.0), Level(512, 8, 250.0)]
    model = Model(caches, {"4K": tlbs, "2M": tlbs}, True, random.Random(1))
    measured = multicore()
    assert measured["first_shared_level"] == 2
    assert measured["shootdown_cycles"] == pytest.approx(5000, rel=0.1)
    assert measured["shootdown_interrupt_cycles"] == pytest.approx(2000, rel=0.1)

    def refused(_):
        raise mmulab.MmulabError("there is one processor")

    model.shootdown_cycles = refused
    assert multicore()["shootdown_cycles"] == 4000


@pytest.mark.parametrize("samples", [[999.8, 1000.1, 1000.2], [1000.1, 1000.2, 1007.0]])
def test_a_quartile_that_rounds_to_the_median_is_no_other_value(samples, monkeypatch, tmp_path):
    tlbs = [Level(16, 4, 7.0), Level(128, 8, 40.0)]
    caches = [Level(64, 8, 10.0), Level(512, 8, 250.0)]
    model = Model(caches, {"4K": tlbs, "2M": tlbs}, True, random.Random(1))
    model.fault_cycles = lambda *_: samples
    model.shootdown_cycles = lambda _: (samples, samples)
    calibration_of(model, monkeypatch).write(tmp_path)
    machine = mmulab.Machine.load(tmp_path / "machine.toml")
    assert "small_page_fault_cycles = 1_000 " in (tmp_path / "machine.toml").read_text()
    assert machine.name == "this-computer"


@pytest.mark.parametrize("breaks_up", [False, True])
def test_large_pages_that_a_hypervisor_breaks_up_are_found(breaks_up, monkeypatch, tmp_path):
    tlbs = [Level(16, 4, 7.0), Level(128, 8, 60.0)]
    caches = [Level(64, 8, 10.0), Level(512, 8, 250.0)]
    model = Model(caches, {"4K": tlbs, "2M": tlbs}, True, random.Random(1), breaks_up=breaks_up)
    calibration_of(model, monkeypatch).write(tmp_path)
    text = (tmp_path / "machine.toml").read_text(encoding="utf-8")
    values = tomllib.loads(text)
    organisation = values["organisation"]
    # Lines 256 KB apart meet in a set of the TLB first, if large pages are broken up.
    assert values["l1d"]["ways"] == 8
    assert organisation.get("host", {}).get("pages") == ("4K" if breaks_up else None)
    # A walk loads an entry of each table, from L2.
    tables = 2 if breaks_up else 1
    expected = 60 - tables * (4 + 10)
    assert organisation["walk_overhead_cycles"] == pytest.approx(expected, abs=4)
    mmulab.Machine.load(str(tmp_path / "machine.toml")).check_replays()


def test_a_shootdown_is_measured_although_calibration_stays_on_one_processor():
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        pytest.skip("a shootdown needs two processors")
    os.sched_setaffinity(0, {max(allowed)})
    try:
        wait, interrupt = _engine.Computer().shootdown_cycles(1)
        assert len(wait) == len(interrupt) == 1
    except mmulab.MmulabError as error:
        assert "other programs take the second processor" in str(error)
    finally:
        os.sched_setaffinity(0, allowed)


def test_ctrl_c_ends_a_measurement_that_has_begun():
    """A point takes seconds, on a busy computer many; this one would take hours."""
    code = """
from mmulab import _engine
computer = _engine.Computer()
computer.load_cycles([("4K", 64, 4096, False)], 2)
print("begun", flush=True)
computer.load_cycles([("4K", 64, 4096, False)], 10**7)
"""
    process = start_interruptible(sys.executable, "-c", code)
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert errors.endswith("KeyboardInterrupt\n")


def test_a_folder_that_cannot_be_written_to_is_told_before_the_measurement(monkeypatch, capfd):
    monkeypatch.setattr(mmulab, "calibrate", lambda **_: pytest.fail("it measures"))
    assert status_of(app, ["calibrate", "--dir", "/proc"]) == 2  # where not even root can
    _, errors = capfd.readouterr()
    assert errors.startswith("mmulab: /proc: ")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("samples", [-1, 1, 1001])
def test_a_number_of_samples_that_gives_no_quartiles_is_refused(samples):
    with pytest.raises(mmulab.InputError, match=f"samples: {samples} is no whole number from 3"):
        mmulab.calibrate(samples=samples)


def test_no_levels_no_machine(monkeypatch):
    flat = Model([], {"4K": [], "2M": []}, False, random.Random(1))
    with pytest.raises(mmulab.MmulabError, match="no levels of cache"):
        calibrated(flat, monkeypatch)


def all_values(machine_file: str) -> dict[str, str]:
    """By path, the value and the comment of each line of a machine's file before its guesses."""
    found, section = {}, ""
    for line in machine_file.partition("[[guesses]]")[0].splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif " = " in line and section:
            key, _, value = line.partition(" = ")
            found[f"{section}.{key}"] = value
    return found


def test_a_series_that_fails_is_told_and_the_rest_goes_on(monkeypatch, tmp_path):
    caches = [Level(64, 8, 10.0), Level(512, 8, 250.0)]
    tlbs = [Level(16, 4, 7.0), Level(128, 8, 40.0)]
    model = Model(caches, {"4K": tlbs, "2M": tlbs}, True, random.Random(1))

    def refused(*_):
        raise mmulab.MmulabError("no jumps here")

    model.jump_cycles = refused
    model.shootdown_cycles = refused
    calibration = calibration_of(model, monkeypatch)
    found = calibration.findings
    assert "no measurement of jumps_of_pages: no jumps here" in found.notes
    assert found.values["itlb.entries"].source == "guess: as DTLB"
    calibration.write(tmp_path)
    text = (tmp_path / "machine.toml").read_text(encoding="utf-8")
    assert "# Note: no measurement of jumps_of_pages" in text
    assert mmulab.Machine.load(str(tmp_path / "machine.toml")).name == "this-computer"
    guessed = {path for path, value in all_values(text).items() if "# guess" in value}
    without = {path for path in guessed if f'"{path}" = [' not in text}
    assert without <= {"l1i.size_bytes", "l1i.ways", "itlb.entries", "itlb.ways"}, without
    page = write_calibration_report(tmp_path, calibration).read_text(encoding="utf-8")
    assert "a model, measured" in page and "Jumps over pages" not in page
    assert calibration.table().num_rows == len(found.values)


def test_a_reported_size_counts_where_the_curve_agrees():
    assert findings._size(1_150_000, 1 << 20, "bytes").value == 1 << 20
    # Loads in 38,968 bytes missed: it is not 40 KB, though the knee is nearer to that.
    assert findings._size(36_640, None, "bytes", 38_968).value == 32 << 10
    disagrees = findings._size(4_600_000, 32 << 20, "bytes")
    assert disagrees.value == 4 << 20 or disagrees.value == 5 << 20
    assert "does not agree" in disagrees.source


def test_nothing_negative_is_subtracted_where_a_latency_is_explained():
    level = plateaus.Plateau(6.95, 3, 5, 6.9, 7.9)
    for below, said in [
        (4.02, "measured: 7.0 cycles (6.9 to 7.9), less 4.0 of L1D"),
        (-0.03, "measured: 7.0 cycles (6.9 to 7.9), less 0.0 of L1D"),
        (-0.1, "measured: 7.0 cycles (6.9 to 7.9), L1D at -0.1"),
    ]:
        lower = plateaus.Plateau(below, 0, 2, below, below)
        assert findings._difference(level, lower, "L1D").source == said


def test_a_cache_that_lies_in_the_ramp_is_doubted(monkeypatch, tmp_path):
    """The third level is in use by others: its size has no plateau, and the second seems to reach
    to the middle of the ramp."""
    tlbs = [Level(16, 4, 7.0), Level(128, 8, 60.0)]
    caches = [Level(64, 8, 10.0), Level(2048, 16, 250.0)]
    model = Model(caches, {"4K": tlbs, "2M": tlbs}, True, random.Random(1))
    clear = calibration_of(model, monkeypatch)
    assert not clear.findings.values["l2.size_bytes"].alternatives
    assert not any("hide another cache" in note for note in clear.findings.notes)

    def crowded(point: Point) -> Point:
        if not 1 << 20 < point.x < 24 << 20:
            return point
        cycles = 14.0 * (264 / 14) ** (math.log2(point.x / (1 << 20)) / math.log2(24))
        return Point(point.x, cycles, cycles, cycles)

    clear.measured.series["loads"] = [crowded(point) for point in clear.measured.series["loads"]]
    found = findings.find(clear.measured, NOTHING_REPORTED)
    size = found.values["l2.size_bytes"]
    assert size.number() > 4 << 20
    assert any(note.startswith("L2: from 1,") for note in found.notes), found.notes
    assert 1 << 20 <= size.alternatives[0] < 3 << 19
    Calibration(NOTHING_REPORTED, clear.measured, found).write(tmp_path)
    machine = mmulab.Machine.load(str(tmp_path / "machine.toml"))
    [row] = mmulab.replay(ROOT / "examples/small.mmt", machine, guesses=True)
    tried = {path for guess in row.data["guesses"] for path in guess["set"]}
    assert "l2.size_bytes" in tried, tried


def test_a_guess_of_ways_says_what_is_reported(monkeypatch):
    tlbs = [Level(16, 4, 7.0), Level(128, 8, 60.0)]
    caches = [Level(64, 8, 10.0), Level(512, 8, 250.0)]
    model = Model(caches, {"4K": tlbs, "2M": tlbs}, True, random.Random(1))
    measured = calibration_of(model, monkeypatch).measured
    reported = Reported(
        "a model",
        "none",
        False,
        [Cache(1, "Data", 32 << 10, 8), Cache(2, "Unified", 3 << 20, 12)],
        [Tlb(2, True, False, ["4K"], 4096, 16)],
    )
    values = findings.find(measured, reported).values
    assert values["stlb.ways"].source == (
        "guess; reported: 16 ways of 4,096 entries, which does not agree"
    )
    assert values["l2.ways"].source == (
        "guess; reported: 12 ways of 49,152 lines, which does not agree"
    )
    nothing = findings.find(measured, NOTHING_REPORTED).values
    assert nothing["stlb.ways"].source == nothing["l2.ways"].source == "guess: not reported"


def test_a_curve_that_falls_is_levelled():
    points = [Point(x, y, y, y) for x, y in enumerate([4.0, 9.0, 4.0, 4.0, 20.0])]
    rising = plateaus.rising(points)
    assert rising == sorted(rising)
    assert sum(rising) == pytest.approx(41.0)


def test_this_computer(tmp_path, capsys, monkeypatch):
    """The real thing, short: its file is a machine that replays, whatever the values are."""
    from mmulab.cli import app
    from mmulab.command import status_of

    monkeypatch.setattr(series, "PASSES", 1)
    monkeypatch.setattr(series, "available_bytes", lambda: 300 << 20)
    monkeypatch.setattr("os.getloadavg", lambda: (7.25, 0.0, 0.0))
    status = status_of(app, ["calibrate", "--samples", "3", "--dir", str(tmp_path)])
    notes = capsys.readouterr().err.splitlines()
    assert "busy (load 7.2)" in notes[0]
    if status:
        # A busy computer shows no levels: that, too, is an answer in one line.
        assert status == 1 and len(notes) == 2
        return
    assert (tmp_path / "report.html").exists()
    values = tomllib.loads((tmp_path / "machine.toml").read_text(encoding="utf-8"))
    assert values["l1d"]["size_bytes"] >= 4096
    machine = mmulab.Machine.load(str(tmp_path / "machine.toml"))
    results = mmulab.replay("examples/small.mmt", [machine])
    assert results[0].instructions > 0
    saved = json.loads((tmp_path / "calibration.json").read_text(encoding="utf-8"))
    assert saved["measured"]["series"]["loads"][0]["cycles"] > 0
    assert status_of(app, ["machines", str(tmp_path / "machine.toml")]) == 0
    capsys.readouterr()
