"""Studies: a design space described in a file, replayed in parallel, resumed where it stopped.

title = "L1 size against TLB size"
traces = ["gcc.mmt"]
machines = ["ultrix", "intel"]

[[vary]]                                  # the lists of one table go together, step by step
"l1i.size_bytes" = ["16K", "64K"]
"l1d.size_bytes" = ["16K", "64K"]

[[vary]]                                  # tables are crossed
"dtlb.entries" = [64, 128]
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import hashlib
import itertools
import json
import logging
import os
import threading
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mmulab import _engine
from mmulab import arrow as pa
from mmulab.errors import InputError, MachineError, MmulabError, StudyError
from mmulab.files import alone, check_outputs, replacing
from mmulab.limits import MAX_THREADS, whole_number
from mmulab.machine import Machine, Value, machine_value, settings_of, toml_text
from mmulab.provenance import (
    file_provenance,
    machine_labels,
    provenance,
    trace_labels,
    trace_provenance,
)
from mmulab.replaying import ProgressCallback, load_machines, outcome_row
from mmulab.results import MachineResult, flat_schema, flatten

_KEYS = {"title", "traces", "machines", "seed", "vary", "set"}


@dataclasses.dataclass(frozen=True)
class Study:
    """A design space: machines, what varies in them, and the traces they replay."""

    traces: list[Path]
    machines: list[str | Machine]
    vary: list[dict[str, list[Value]]] = dataclasses.field(default_factory=list)
    """Axes, crossed with each other; the lists of one axis are stepped through together."""
    set: dict[str, Value] = dataclasses.field(default_factory=dict)
    """Changes to every machine, by dotted path."""
    seed: int = 1
    title: str = ""
    path: Path | None = dataclasses.field(default=None, compare=False)
    """Its file, which errors name, if it has one."""

    def __post_init__(self) -> None:
        """Takes names for paths, and one for a list of one, as `replay` does.

        Raises `StudyError` for what cannot be a study, `InputError` for what is no seed.
        """
        names = (str, os.PathLike)
        traces = [Path(trace) for trace in _list_of("traces", self.traces, names)]
        machines = _list_of("machines", self.machines, (*names, Machine))
        if not machines:
            raise StudyError('machines: give a list of at least one, as in machines = ["..."]')
        if not isinstance(self.title, str):
            raise StudyError(f'title: {self.title} is no text; write title = "..."')
        if not isinstance(self.vary, list) or not all(isinstance(axis, dict) for axis in self.vary):
            raise StudyError('vary: write [[vary]] and lines such as "dtlb.entries" = [64, 128]')
        if not isinstance(self.set, dict):
            raise StudyError('set: write [set] and lines such as "memory.latency_cycles" = 200')
        try:
            vary = [_axis(axis) for axis in self.vary]
            changes = {path: machine_value(path, value) for path, value in self.set.items()}
        except MachineError as error:
            raise StudyError(str(error)) from error
        seed = whole_number("seed", self.seed)
        plain = {
            "traces": traces,
            "machines": machines,
            "vary": vary,
            "set": changes,
            "seed": seed,
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Study:
        """Reads a study file; paths in it are relative to its folder.

        Raises `StudyError` with the file, the key and what to do.
        """
        path = Path(path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except IsADirectoryError as error:
            raise StudyError(f"{path}: is a directory; name a study in it") from error
        except OSError as error:
            raise StudyError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        except UnicodeDecodeError as error:
            raise StudyError(
                f"{path}: is no study, which is a text in TOML; traces come after it"
            ) from error
        except ValueError as error:
            raise StudyError(f"{path}: is not TOML: {error}") from error
        try:
            study = dataclasses.replace(cls._from_values(values, path.parent), path=path)
            for machine in load_machines(study.machines):
                machine.check_replays()
        except InputError as error:
            raise StudyError(f"{path}: {error}") from error
        return study

    @classmethod
    def _from_values(cls, values: dict[str, Any], folder: Path) -> Study:
        if "kind" in values:
            raise StudyError("is a machine; a study names machines and what to vary")
        for key in values:
            if key not in _KEYS:
                near = difflib.get_close_matches(key, _KEYS, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(_KEYS))}"
                raise StudyError(f"{key}: unknown key; {hint}")
        for key in ("traces", "machines"):
            # A study without traces is told which on the command line.
            is_left_out = key == "traces" and key not in values
            if not is_left_out and not _is_list_of_text(values.get(key)):
                raise StudyError(f'{key}: give a list of at least one, as in {key} = ["..."]')
        return cls(
            traces=[folder / trace for trace in values.get("traces", [])],
            machines=[
                str(folder / name) if name.endswith(".toml") else name
                for name in values["machines"]
            ],
            vary=values.get("vary", []),
            set=values.get("set", {}),
            seed=values.get("seed", 1),
            title=values.get("title", ""),
        )

    def configurations(self) -> list[Configuration]:
        """Every machine of the design space with the values that it varies, in a fixed order."""
        points = [
            {path: value for step in steps for path, value in step.items()}
            for steps in itertools.product(*(list(_steps(axis)) for axis in self.vary))
        ]
        where = f"{self.path}: " if self.path else ""
        varied_paths = [path for axis in self.vary for path in axis]
        for path in varied_paths:
            if path in self.set:
                raise StudyError(f"{where}{path}: is both varied and set; take one away")
            if varied_paths.count(path) > 1:
                raise StudyError(f"{where}{path}: is varied in two tables; take one away")
        found = []
        machines = load_machines(self.machines)
        for machine, label in zip(machines, machine_labels(machines), strict=True):
            seen: set[str] = set()
            for point in points:
                changes = {**self.set, **point}
                try:
                    varied = machine.with_changes(changes) if changes else machine
                except MachineError as error:
                    if not self.path:
                        raise
                    raise StudyError(f"{self.path}: {error}") from error
                # As the machine has them: 65536 where the study says "64K".
                values = {path: varied.get(path) for path in point}
                settings = ", ".join(settings_of(values))
                if settings in seen:
                    raise StudyError(f"{where}vary: {settings} is there twice; take one away")
                seen.add(settings)
                found.append(Configuration(varied, label, values))
        return found


@dataclasses.dataclass(frozen=True)
class Configuration:
    """One point of a design space."""

    machine: Machine
    label: str
    """The name of the machine that varies, which no other machine of the study has."""
    point: dict[str, Value]
    """The values that vary."""

    def alternatives(self) -> list[Configuration]:
        """The same point, each with another value of one guess of the machine's file."""
        return [
            Configuration(other, self.label, self.point) for other in self.machine.alternatives()
        ]


def _is_list_of_text(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, str) for one in value)


def _list_of(key: str, given: Any, kinds: tuple[type, ...]) -> list[Any]:
    """What a key is given as a list, which one name alone stands for, too."""
    is_one = isinstance(given, kinds) or not isinstance(given, Iterable)
    found: list[Any] = [given] if is_one else list(given)
    if not all(isinstance(one, kinds) for one in found):
        raise StudyError(f'{key}: give a list of names, as in {key} = ["..."]')
    for one in found:
        if not isinstance(one, Machine) and "\0" in os.fspath(one):
            raise StudyError(f"{key}: {os.fspath(one)!r} is no name of a file; take its NUL away")
    return found


def _axis(axis: dict[str, Any]) -> dict[str, list[Value]]:
    """The lists of one table, which are stepped through together."""
    if not axis:
        raise StudyError('vary: a table is empty; give it lines such as "dtlb.entries" = [64, 128]')
    found = {}
    for path, values in axis.items():
        values = values.tolist() if hasattr(values, "tolist") else values
        if not isinstance(values, list) or not values:
            is_table = isinstance(values, dict)
            hint = ' (dotted paths stand in quotes: "dtlb.entries")' if is_table else ""
            raise StudyError(f"vary: {path}: give a list of values{hint}")
        found[path] = [machine_value(path, value) for value in values]
    if len({len(values) for values in found.values()}) > 1:
        listed = ", ".join(f"{path} has {len(values)}" for path, values in found.items())
        raise StudyError(f"vary: lists of one table go together and must be equally long; {listed}")
    return found


def _steps(axis: dict[str, list[Value]]) -> Iterator[dict[str, Value]]:
    for values in zip(*axis.values(), strict=True):
        yield dict(zip(axis, values, strict=True))


def sweep(
    study: Study | str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    threads: int = 0,
    on: str | None = None,
    guesses: bool = False,
    progress: ProgressCallback | None = None,
    note: Callable[[str], None] | None = None,
    keep_parts: bool = False,
    encode: Callable[[pa.Table], bytes] | None = None,
) -> pa.Table:
    """Replays every trace of a study on every configuration; one row for each pair.

    Columns: `trace`, `machine`, each varied path, then those of `ReplayResults.table`. With
    `guesses` each configuration is also tried with the other values that its machine's file gives
    for what it guesses, for the lowest and highest shares of translation; else these columns are
    empty. With `output`, a Parquet file if `encode` makes nothing else of the table, finished parts
    are kept in a folder beside it until the whole is written, so that a killed sweep continues
    where it stopped; with `keep_parts` they stay until `remove_parts`, for a job of several sweeps
    that continues as a whole. Rows, and the bytes of the file, depend neither on `threads` (0: one
    for each core) nor on interruptions. `on` names a Dask cluster to run on instead,
    `dask://HOST:PORT` or `dask://local`; its workers must see the traces under the same paths.
    `note` is told if the cluster has none yet, which is waited for.

    Raises `StudyError`, `MachineError`, `TraceError`, `OutputError`, and `InputError` for a number
    of threads or a cluster that cannot be.
    """
    if not isinstance(study, Study):
        study = Study.load(study)
    output = None if output is None else Path(output)
    threads = whole_number("threads", threads, 0, MAX_THREADS)
    if not study.traces:
        raise StudyError(
            (f"{study.path}: " if study.path else "")
            + "the study names no traces; name one in it, or on the command line after it"
        )
    for path in study.traces:
        is_file = path.is_file() or path.is_dir()
        if not is_file and (path.exists() or path == Path("-")):
            raise StudyError(
                f"{path}: a sweep needs a file, to read it more than once; write it to one"
            )
    if output is not None:
        machines = [one.file if isinstance(one, Machine) else one for one in study.machines]
        named = [*study.traces, study.path, *machines]
        check_outputs([output], [Path(one) for one in named if one is not None])
    # First of all, since to work out many configurations takes seconds in which another sweep might
    # begin.
    with _parts(output) as parts:
        for path in study.traces:
            _check_begins(path)
        sources = [trace_provenance(trace) for trace in study.traces]
        points = study.configurations()
        families = [[one, *(one.alternatives() if guesses else [])] for one in points]
        configurations = [one for family in families for one in family]
        units = _engine.sweep_units([one.machine._engine for one in configurations])
        traces = [
            _Trace(path, label, source)
            for path, label, source in zip(
                study.traces, trace_labels(study.traces), sources, strict=True
            )
        ]
        jobs = [_Job(trace, unit, configurations, study.seed) for trace in traces for unit in units]
        waiting = [job for job in jobs if not parts.recall(job)]
        if on is None:
            _run(waiting, parts, threads or os.cpu_count() or 1, progress)
        else:
            _run_on_cluster(on, waiting, parts, progress, note)
        rows = []
        for trace in traces:
            every = iter(_in_order(jobs, trace, parts))
            rows += [_with_range([next(every) for _ in family]) for family in families]
        table = pa.Table.from_pylist(rows, schema=_schema(rows, points))
        if output is not None:
            with replacing(output) as file:
                if encode is not None:
                    file.write(encode(table))
                else:
                    pa.parquet.write_table(table, file, compression="zstd")
            if not keep_parts:
                parts.forget()
    return table


def remove_parts(output: str | os.PathLike[str]) -> None:
    """Removes what a sweep into `output` has kept. Raises `InputError` where a sweep is under
    way."""
    with _parts(output) as parts:
        parts.forget()


def _with_range(family: list[dict[str, Any]]) -> dict[str, Any]:
    """The row of a configuration, with the range of its and its alternatives' shares of
    translation."""
    own, *others = family
    for name in [name for name in own if name.startswith("translation_share_at_") and others]:
        shares = [one[name] for one in family]
        own[f"{name}_lowest"], own[f"{name}_highest"] = min(shares), max(shares)
    return own


def _schema(rows: list[dict[str, Any]], configurations: list[Configuration]) -> pa.Schema:
    """Columns by what is varied and by the machines, whatever the data."""
    costs = {
        int(cost)
        for configuration in configurations
        for cost in configuration.machine.get("interrupts.costs_cycles")  # type: ignore[union-attr]
    }
    schema = flat_schema(sorted(costs))
    for place, path in enumerate(configurations[0].point):
        values = [row[path] for row in rows]
        try:
            kind = pa.array(values).type
        except pa.ArrowException:  # numbers and words, as in ways = 8 and ways = "full"
            kind = pa.string()
        if pa.types.is_list(kind):  # as page_sizes, which CSV has no place for
            kind = pa.string()
        if pa.types.is_string(kind):
            for row in rows:
                row[path] = toml_text(row[path])
        schema = schema.insert(2 + place, pa.field(path, kind))
    return schema


@dataclasses.dataclass(frozen=True)
class _Trace:
    path: Path
    label: str
    source: dict[str, Any]


class _Job:
    """Configurations that one pass over a trace serves together."""

    def __init__(
        self,
        trace: _Trace,
        places: Sequence[int],
        configurations: Sequence[Configuration],
        seed: int,
    ):
        self.trace = trace
        self.places = places
        self.configurations = [configurations[place] for place in places]
        self.seed = seed
        self.done = 0

    def key(self) -> str:
        """Names the job by all that its result depends on."""
        source = f"{_engine_digest()} {self.seed} {self.trace.label} {self.trace.source['sha256']}"
        digest = hashlib.sha256(source.encode())
        for one, place in zip(self.configurations, self.places, strict=True):
            digest.update(f"{place} {one.label}\n{one.machine._engine.toml()}".encode())
        return digest.hexdigest()[:32]

    def run(self, progress: ProgressCallback) -> list[dict[str, Any]]:
        outcomes = _engine.sweep_unit(
            os.fspath(self.trace.path),
            [one.machine._engine for one in self.configurations],
            seed=self.seed,
            progress=progress,
        )
        return self.rows_of(outcomes)

    def description(self) -> tuple[str, list[str], int]:
        """The job for another computer; relative paths mean nothing there."""
        machines = [one.machine._engine.toml() for one in self.configurations]
        return str(self.trace.path.resolve()), machines, self.seed

    def rows_of(self, outcomes: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """One row a configuration, from what the engine gives."""
        rows = []
        for outcome, one in zip(outcomes, self.configurations, strict=True):
            data = outcome_row(outcome, self.trace.label, one.label)
            data["guesses"] = []
            data["provenance"] = provenance(
                self.trace.source,
                one.machine,
                seed=self.seed,
                skip=0,
                warm_up=0,
                limit=None,
                region=None,
            )
            row = flatten(MachineResult(data))
            names = {"trace": row.pop("trace"), "machine": row.pop("machine")}
            rows.append({**names, **one.point, **row})
        return rows


@functools.cache
def _engine_digest() -> str:
    """Of the engine's file: two builds have one version while somebody works on it."""
    return str(file_provenance(_engine.__file__)["sha256"])


class _Parts:
    """Results of finished jobs: in memory, and in a folder where there is one."""

    def __init__(self, folder: Path | None):
        self.folder = folder
        self.rows: dict[_Job, list[dict[str, Any]]] = {}

    def recall(self, job: _Job) -> bool:
        """Whether an earlier sweep has done this job."""
        if self.folder is None:
            return False
        try:
            self.rows[job] = json.loads(self._path(job).read_bytes())
        except (OSError, ValueError):
            return False
        return True

    def add(self, job: _Job, rows: list[dict[str, Any]]) -> None:
        self.rows[job] = rows
        if self.folder is not None:
            with replacing(self._path(job)) as file:
                file.write(json.dumps(rows).encode())

    def forget(self) -> None:
        """Empties the folder; the result is written."""
        if self.folder is not None:
            # The second are files that a killed sweep was about to rename.
            for path in [*self.folder.glob("*.json"), *self.folder.glob(".*.json.*")]:
                path.unlink()

    def _path(self, job: _Job) -> Path:
        assert self.folder is not None
        return self.folder / f"{job.key()}.json"


def parts_folder(output: str | os.PathLike[str]) -> Path:
    """Where the finished parts of the sweep that writes `output` are kept."""
    return Path(f"{os.fspath(output)}.parts")


@contextmanager
def _parts(output: str | os.PathLike[str] | None) -> Iterator[_Parts]:
    """The parts of the sweep that writes `output`.

    Raises `InputError` where another sweep has them: both would remove what the other still writes.
    """
    if output is None or (os.path.exists(output) and not os.path.isfile(output)):
        yield _Parts(None)  # a device, or a pipe
        return
    folder = parts_folder(output)
    refusal = f"{output}: another sweep writes there; wait for its end, or name another file"
    with alone(folder, refusal):
        try:
            yield _Parts(folder)
        finally:
            with suppress(OSError):  # it is not empty: the next sweep goes on from there
                folder.rmdir()


def _run(
    waiting: list[_Job], parts: _Parts, threads: int, progress: ProgressCallback | None
) -> None:
    """Runs what earlier sweeps have not; an interrupt or a failure stops the others soon."""
    lengths = {job.trace.path: _length(job.trace.path) for job in waiting}
    known = all(length is not None for length in lengths.values())
    total = (
        sum((lengths[job.trace.path] or 0) * len(job.places) for job in waiting) if known else None
    )
    stop = threading.Event()

    def work(job: _Job) -> list[dict[str, Any]]:
        def watch(done: int, _total: int | None) -> None:
            if stop.is_set():
                raise MmulabError("stopped")
            job.done = done * len(job.places)

        rows = job.run(watch)
        job.done = (lengths[job.trace.path] or 0) * len(job.places)
        return rows

    with ThreadPoolExecutor(threads) as pool:
        running = {pool.submit(work, job): job for job in waiting}
        try:
            pending = set(running)
            while pending:
                finished, pending = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
                for future in finished:
                    parts.add(running[future], future.result())
                if progress is not None:
                    progress(sum(job.done for job in waiting), total)
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            # What has finished beside it, or since, is kept for the next sweep.
            for future, job in running.items():
                finished_well = not future.cancelled() and future.exception() is None
                if finished_well and job not in parts.rows:
                    parts.add(job, future.result())
            raise


def _run_on_cluster(
    on: str,
    waiting: list[_Job],
    parts: _Parts,
    progress: ProgressCallback | None,
    note: Callable[[str], None] | None,
) -> None:
    """Hands jobs to a Dask cluster; only here are files written."""
    scheme, _, address = str(on).partition("://")
    if scheme != "dask" or not address:
        raise InputError(f"{on}: unknown cluster; give dask://HOST:PORT or dask://local")
    try:
        from distributed import Client, as_completed
    except ImportError as error:
        raise InputError("a cluster needs Dask: pip install distributed") from error
    try:
        # What goes wrong in a worker comes back as an exception; its log would only tell how it
        # ends.
        if address == "local":
            client = Client(dashboard_address=":0", silence_logs=logging.CRITICAL)
        else:
            client = Client(address, timeout="10s")
    except (OSError, ValueError, RuntimeError) as error:
        what = "no Dask worker starts" if address == "local" else "no Dask scheduler answers there"
        # What Dask says of a worker that fails is only that; the reason is behind it.
        reason: BaseException = error
        while reason.__cause__ is not None:
            reason = reason.__cause__
        said = f" ({reason})" if str(reason) else ""
        # A worker imports the script of Python that starts it, if it is one.
        is_local = address == "local"
        hint = '; a script has to sweep under if __name__ == "__main__":' if is_local else ""
        raise InputError(f"{on}: {what}{said}{hint}") from error
    with client:
        if note is not None and not client.nthreads():
            note(f"{on}: no Dask worker has connected yet; the sweep waits for one")
        running = {
            client.submit(_run_elsewhere, *job.description(), pure=False): job for job in waiting
        }
        total = sum(len(job.places) for job in waiting)
        done = 0
        if progress is not None:
            progress(done, total)
        for future in as_completed(running):
            job = running[future]
            parts.add(job, job.rows_of(future.result()))
            done += len(job.places)
            if progress is not None:
                progress(done, total)


def _run_elsewhere(trace: str, machines: list[str], seed: int) -> list[dict[str, Any]]:
    """A job on another computer, where machines arrive as text."""
    parsed = [_engine.Machine.parse(text, "machine") for text in machines]
    return _engine.sweep_unit(trace, parsed, seed=seed, progress=None)


def _length(trace: Path) -> int | None:
    return _engine.trace_length(os.fspath(trace))


def _check_begins(trace: Path) -> None:
    """Raises `TraceError` where there is no trace: before its hash is taken, which may be of all
    that a folder holds."""
    if _length(trace) is None:
        _engine.dump_trace(
            os.fspath(trace),
            partial=False,
            skip=0,
            count=1,
            write=lambda text: None,
            progress=None,
        )


def _in_order(jobs: list[_Job], trace: _Trace, parts: _Parts) -> list[dict[str, Any]]:
    """The rows of a trace in the order of the configurations."""
    placed = {
        place: row
        for job in jobs
        if job.trace is trace
        for place, row in zip(job.places, parts.rows[job], strict=True)
    }
    return [placed[place] for place in sorted(placed)]
