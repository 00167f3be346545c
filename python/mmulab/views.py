"""Tables for people on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mmulab import arrow as pa
from mmulab.boot import BootResult
from mmulab.calibrate import Calibration
from mmulab.causes import CAUSES
from mmulab.curves import PAGE_SIZES, MissCurves
from mmulab.machine import settings_of, toml_text, value_text
from mmulab.output import PLAIN_COLUMNS, human, percent
from mmulab.profiling import By, Profile
from mmulab.recording import TraceInformation
from mmulab.results import MachineResult, ReplayResults


def _note(text: str) -> Text:
    return Text(text + "\n", style="dim")


_FOLDED_COLUMNS = 16
"""How wide a column of names stays on a terminal that is too narrow for it."""


class _Table(Table):
    """A table that loses no digit.

    Where it does not fit its names are folded, and if that is not enough its lines are longer than
    the terminal's. In files and pipes each row is one line.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = _width(console, options, self)
        if options.max_width < min(width, PLAIN_COLUMNS):
            for column in self.columns:
                if not column.no_wrap and column.justify == "left":
                    column.max_width = _FOLDED_COLUMNS
            folded = _width(console, options, self)
            for column in self.columns:
                column.max_width = None
            width = max(folded, options.max_width)
        yield from super().__rich_console__(console, options.update(width=width))


def _table(title: str) -> Table:
    return _Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        min_width=len(title),  # a title that is wider than its table would be broken
    )


def replay(results: ReplayResults) -> RenderableType:
    """Machine by machine: totals, then where the cycles go, then TLB and cache misses."""
    if not results:
        return Text("No machines.")
    settings, results = _without_common_settings(results)
    return Group(
        *settings,
        _totals(results),
        _note(_TOTALS_NOTE),
        *_programs(results),
        *_guesses(results),
        *([_note(_GUESSES_NOTE)] if any(row.data["guesses"] for row in results) else []),
        _Beside(results, _components),
        _note("Cycles per thousand instructions."),
        _Beside(results, _misses),
        _note("Misses per thousand instructions."),
    )


def _without_common_settings(results: ReplayResults) -> tuple[list[Text], ReplayResults]:
    """A line with the settings that all machines have, and the results without them: as part of a
    name they fill a column with pieces of words."""
    of_each = [settings_of(row.data["provenance"]["machine"]["set"]) for row in results]
    common = [one for one in of_each[0] if all(one in others for others in of_each)]
    if not common:
        return [], results
    rows = []
    for row in results:
        name = row.machine
        for setting in common:
            name = name.replace(f" {setting}", "", 1)
        rows.append({**row.data, "machine": name})
    line = Text("Machines with " + ", ".join(common) + "\n")
    return [line], ReplayResults(rows, seconds=results.seconds)


_TOTALS_NOTE = (
    "Cycles per instruction: all (CPI, interrupts at the first cost), the program's cache misses "
    "(MCPI), finding translations (VMCPI), interrupts at N cycles each. Share: how much of the run "
    "time translation takes, with interrupts at N cycles. Path: the mean free path, instructions "
    "between two TLB misses that need a walk."
)
_GUESSES_NOTE = (
    "At the first cost of an interrupt. One guess of a machine's file at a time is replaced by the "
    "other values that the file gives for it."
)


def _totals(results: ReplayResults) -> RenderableType:
    costs = sorted({cost for row in results for cost in row.interrupt_costs_cycles})
    table = _table(f"{results[0].instructions:,} instructions")
    table.padding = 0
    table.add_column("\nmachine", overflow="fold")
    for heading in ("CPI", "MCPI", "VMCPI"):
        table.add_column(f"\n{heading}", justify="right", no_wrap=True)
    for place, cost in enumerate(costs):
        heading = "interrupts" if place == 0 and len(costs) == 1 else "int."
        table.add_column(f"{heading}\n@{cost}", justify="right", no_wrap=True)
    for cost in costs:
        table.add_column(f"share\n@{cost}", justify="right", no_wrap=True)
    table.add_column("\npath", justify="right", no_wrap=True)
    for row in results:
        path = row.mean_free_path
        table.add_row(
            row.machine.replace(" ", "\n"),
            f"{row.cpi:.3f}",
            f"{row.mcpi:.3f}",
            f"{row.vmcpi:.3f}",
            *(f"{row.interrupt_cpi(cost):.3f}" for cost in costs),
            *(percent(row.translation_share(cost)) for cost in costs),
            "-" if path is None else f"{path:,.0f}",
        )
    return table


def run(
    recorded: TraceInformation, results: ReplayResults, curves: Sequence[MissCurves]
) -> RenderableType:
    """One program: its tables. Several processes: what each is, then its totals."""
    if not recorded.children:
        return Group(replay(results), Text(curves[0].verdict))
    settings, results = _without_common_settings(results)
    parts: list[RenderableType] = [*settings, _processes(recorded)]
    for (trace, own), curve in zip(results.by_trace().items(), curves, strict=True):
        parts += [Text(trace, style="bold"), _totals(own), *_guesses(own)]
        parts += [Text(curve.verdict), Text()]
    return Group(*parts, _note(_TOTALS_NOTE), _note(_GUESSES_NOTE))


def _processes(recorded: TraceInformation) -> RenderableType:
    """A line for each process."""
    table = _table(f"{len(recorded.processes)} processes")
    for heading in ("trace", "program", "end"):
        table.add_column(heading, overflow="fold")
    table.add_column("instructions", justify="right", no_wrap=True)
    for process in recorded.processes:
        table.add_row(
            process.path.name,
            _shortened(shlex.join(process.command)),
            process.termination or "incomplete",
            f"{process.instructions:,}",
        )
    return table


def _shortened(command: str) -> str:
    """The beginning of a long command; a linker's would fill the screen. All of it is in the
    JSON."""
    return command if len(command) <= 80 else f"{command[:79]}…"


def _guesses(results: ReplayResults) -> list[RenderableType]:
    """How far a machine's guesses carry: the range of the share of translation."""
    rows = [row for row in results if row.data["guesses"]]
    if not rows:
        return []
    table = _table("What guessed values do to the share")
    table.add_column("machine", overflow="fold")
    for heading in ("share", "lowest", "highest"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("most by", overflow="fold")
    for row in rows:
        cost = row.interrupt_costs_cycles[0]
        shares = [row.translation_share(cost), *row.translation_share_range(cost)]
        cells = (percent(share) for share in shares)
        table.add_row(row.machine.replace(" ", "\n"), *cells, weightiest_guess(row))
    return [table]


def weightiest_guess(row: MachineResult) -> str:
    """The other value of a guess that moves the share of translation furthest, as text."""
    cost = row.interrupt_costs_cycles[0]
    own = row.translation_share(cost)
    guesses = row.data["guesses"]
    return guess_text(
        max(guesses, key=lambda one: abs(one["translation_share_at"][str(cost)] - own))
    )


def guess_text(guess: dict[str, Any]) -> str:
    """What changes with a guess, in short."""
    (path, value), *more = guess["set"].items()
    return f"{path}={value_text(path, value)}" + (f" and {len(more)} more" if more else "")


class _Beside:
    """A table with a column for each machine, in as many parts as the terminal's width asks for."""

    def __init__(self, results: ReplayResults, draw: Callable[[Sequence[MachineResult]], Table]):
        self._results = list(results)
        self._draw = draw

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rest = self._results
        while rest:
            count = len(rest)
            table = self._draw(rest)
            while count > 1 and _width(console, options, table) > options.max_width:
                count -= 1
                table = self._draw(rest[:count])
            yield table
            rest = rest[count:]


def _width(console: Console, options: ConsoleOptions, table: Table) -> int:
    """The width at which nothing of the table is cut."""
    unbounded = options.update(max_width=10_000)
    return Measurement.get(console, unbounded, table).maximum


def _components(results: Sequence[MachineResult]) -> Table:
    """Cycles of every cause that occurred."""
    table = _table("Where the cycles go")
    table.add_column("cause", no_wrap=True)
    for row in results:
        table.add_column(row.machine.replace(" ", "\n"), justify="right", no_wrap=True)
    previous = "work"
    for cause in CAUSES:
        cycles = [row.cause_cycles(cause.name) for row in results]
        if not any(cycles):
            continue
        if cause.group != previous:
            table.add_section()
            previous = cause.group
        cells = (
            "-" if not amount else f"{1000 * amount / row.instructions:,.2f}"
            for amount, row in zip(cycles, results, strict=True)
        )
        table.add_row(cause.name, *cells)
    return table


def _misses(results: Sequence[MachineResult]) -> Table:
    table = _table("TLB and cache misses")
    table.add_column("structure", no_wrap=True)
    for row in results:
        table.add_column(row.machine.replace(" ", "\n"), justify="right", no_wrap=True)
    for kind in ("tlbs", "caches"):
        for name in dict.fromkeys(name for row in results for name in row.data[kind]):
            counters = [row.data[kind].get(name) for row in results]
            cells = (
                "-" if counter is None else f"{1000 * counter['misses'] / row.instructions:,.3f}"
                for counter, row in zip(counters, results, strict=True)
            )
            table.add_row(name, *cells)
        table.add_section()
    return table


def _programs(results: ReplayResults) -> list[RenderableType]:
    """What each of several programs that took turns did and cost."""
    rows = [row for row in results if "programs" in row.data]
    if not rows:
        return []
    table = _table("Programs that took turns")
    table.padding = (0, 1, 0, 0)
    for name in ("machine", "program"):
        table.add_column(f"\n{name}", overflow="fold")
    for name in ("\ninstructions", "\nwalks", "\ntranslation", "page\nfaults", "cache\nmisses"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        for program in row.data["programs"]:
            count = max(program["instructions"], 1)
            costs = ("walks", "translation_cycles", "page_fault_cycles", "cache_cycles")
            table.add_row(
                row.machine,
                program["trace"],
                f"{program['instructions']:,}",
                *(f"{1000 * program[name] / count:.2f}" for name in costs),
            )
    return [table, _note("Walks, and cycles, per thousand of the program's instructions.")]


_SHOWN_ROWS = 25


def profile(result: Profile, by: By, rows: pa.Table) -> RenderableType:
    """The most expensive functions or lines, costs per thousand instructions of the program."""
    instructions = max(result.instructions, 1)
    title = f"{result.outcome.machine}: {instructions:,} instructions"
    table = _table(title)
    table.padding = 0
    names = ["function", "object"] if by is By.function else ["function", "file", "line"]
    for name in names:
        table.add_column(f"\n{name}", overflow="fold")
    costs = [name for name in rows.column_names if name.endswith(("cycles", "walks"))]
    if by is By.function:
        costs = [*costs, "inclusive_translation_cycles"]
    costs = [name for name in dict.fromkeys(costs) if not name.startswith("inclusive_")] + [
        name for name in costs[-1:] if name.startswith("inclusive_")
    ]
    table.add_column("\ninstr.", justify="right", no_wrap=True)
    for name in costs:
        words = name.removesuffix("_cycles").replace("inclusive_translation", "with callees")
        first, _, rest = words.replace("_", " ").partition(" ")
        table.add_column(f"{first}\n{rest}", justify="right", no_wrap=True)
    for row in rows.slice(0, _SHOWN_ROWS).to_pylist():
        cells = [str(row[name] or "").rsplit("/", 1)[-1] for name in names]
        cells.append(percent(row["instructions"] / instructions))
        cells += [f"{1000 * row[name] / instructions:.2f}" for name in costs]
        table.add_row(*cells)
    parts: list[RenderableType] = [table]
    if rows.num_rows > _SHOWN_ROWS:
        parts.append(_note(f"and {rows.num_rows - _SHOWN_ROWS:,} rows more; --format csv has all"))
    parts.append(
        _note(
            "Share of instructions, then walks and cycles per thousand instructions of the program: "
            "translation (walks, second-level TLB, interrupts of miss handlers), page faults, the "
            "program's cache misses."
        )
    )
    if by is By.function and not result.has_calls:
        parts.append(
            _note("No calls were found, so that costs with callees are the function's own.")
        )
    return Group(*parts)


def miss_curves(curves: MissCurves) -> RenderableType:
    """Misses per thousand instructions, sizes down and page sizes across, for each stream."""
    parts: list[RenderableType] = []
    for stream, title in (
        ("data", "Data TLB"),
        ("instruction", "Instruction TLB"),
        ("unified", "Unified TLB"),
    ):
        table = _table(f"{title}: misses per thousand instructions")
        table.add_column("entries", justify="right")
        for page_size in PAGE_SIZES:
            table.add_column(f"{page_size} pages", justify="right")
        pages = max(curves.curve(stream, size).pages for size in PAGE_SIZES)
        for entries in curves.sizes():
            if entries // 2 >= max(pages, 1):
                break  # all curves have ended
            misses = [curves.curve(stream, size).misses_at(entries) for size in PAGE_SIZES]
            cells = (f"{1000 * count / max(curves.instructions, 1):.4f}" for count in misses)
            table.add_row(f"{entries:,}", *cells)
        parts.append(table)
    parts += [Text(), Text(curves.verdict)]
    return Group(*parts)


_AVX512_BYTES = "unhandled instruction bytes: 0x62"
"""The first byte of the EVEX prefix, which in 64-bit code begins nothing else (Intel SDM 2A,
2.7)."""
_SHOWN_MESSAGES = 8


def valgrind_lines(messages: Sequence[str]) -> list[str]:
    """What Valgrind said, as lines for people: the beginning, and what it means where we know."""
    lines = [f"Valgrind: {message}" for message in messages[:_SHOWN_MESSAGES]]
    if len(messages) > _SHOWN_MESSAGES:
        lines.append(f"Valgrind: ... and {len(messages) - _SHOWN_MESSAGES} lines more")
    if any(_AVX512_BYTES in message for message in messages):
        lines.append(
            "The program uses AVX-512, which Valgrind does not know; build it without "
            "(-mno-avx512f, no -march=native)."
        )
    return lines


def recorded_line(recorded: TraceInformation, path: Path | None) -> str:
    """What was recorded, in one line, and where it is kept, if it is."""
    into = f" into {path}" if path else ""
    children = len(recorded.processes) - 1
    return (
        f"Recorded {human(recorded.instructions)} instructions, "
        f"{human(recorded.loads)} loads, {human(recorded.stores)} stores and "
        f"{human(recorded.modifies)} modifies{into} "
        f"({human(recorded.file_bytes, 'B')}, {recorded.bits_per_instruction:.2f} bits an instruction); "
        f"{recorded.termination or 'incomplete'}"
        + (f"; child processes recorded as well: {children}" if children else "")
    )


def machines(rows: Sequence[dict[str, Any]]) -> RenderableType:
    """The list of machines."""
    table = _table("")
    for heading in ("name", "kind", "title"):
        table.add_column(heading, no_wrap=heading != "title")
    for row in rows:
        table.add_row(row["name"], row["kind"], row["title"])
    return Group(table, _note("`mmulab machines NAME` shows one with its sources."))


def flat_values(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested values by dotted path."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= flat_values(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def values_table(values: dict[str, Any]) -> pa.Table:
    """A machine's values, one row each."""
    flat = flat_values(values)
    return pa.table({"path": list(flat), "value": list(map(toml_text, flat.values()))})


def machine_values(values: dict[str, Any]) -> RenderableType:
    """A machine's values by dotted path."""
    return dictionary(flat_values(values))


def dictionary(data: dict[str, Any]) -> RenderableType:
    """Names and values; what is empty is left out."""
    table = _table("")
    table.add_column("name", no_wrap=True)
    table.add_column("value")
    for name, value in data.items():
        if value not in (None, "", []):
            form = "," if isinstance(value, int) else ".4g" if isinstance(value, float) else ""
            is_number = form and not isinstance(value, bool)
            table.add_row(name, format(value, form) if is_number else toml_text(value))
    return table


def calibration(calibrated: Calibration) -> RenderableType:
    """What was measured, value by value, and the cost of a first touch."""
    table = _table(calibrated.reported.processor)
    for heading in ("value", "", "how it was found"):
        table.add_column(heading, no_wrap=heading != "how it was found")
    for path, value in calibrated.findings.values.items():
        shown = f"{value.value:,}" if isinstance(value.value, int) else str(value.value)
        table.add_row(path, shown, value.source)
    for size, point in calibrated.findings.faults_cycles.items():
        spread = f"measured, first touch ({point.low:,.0f} to {point.high:,.0f})"
        table.add_row(f"page fault, {size}, cycles", f"{point.cycles:,.0f}", spread)
    return Group(table, *[_note(note) for note in calibrated.findings.notes])


def claims(rows: Sequence[dict[str, Any]]) -> RenderableType:
    """Published against ours, claim by claim: paragraphs as wide as the terminal, since some are
    long."""
    colours = {"holds": "green", "differs": "red"}
    parts: list[RenderableType] = []
    for row in rows:
        verdict = (row["verdict"], colours.get(row["verdict"], "dim"))
        parts.append(Text.assemble((row["id"], "bold"), "  ", verdict))
        for name in ("published", "ours", "why", "guesses"):
            if row[name]:
                parts.append(Padding(Text.assemble((f"{name}: ", "dim"), row[name]), (0, 0, 0, 2)))
        parts.append(Text())
    return Group(*parts)


_SHOWN_SPACES = 10
_SHOWN_PHASES = 6


def boot(result: BootResult) -> RenderableType:
    """Where the cycles of a boot went: by cause and phase, by mode, by address space; reports."""
    data = result.data
    parts: list[RenderableType] = [
        _boot_causes(data),
        _note(
            f"{result.simulated['cycles'] / data['clock_hz']:.3f} s of the machine in {result.seconds:.2f} s: "
            f"{result.mips:.1f} million instructions a second."
        ),
        _boot_modes(data),
        _boot_spaces(data),
    ]
    events = {name: count for name, count in data["events"].items() if isinstance(count, int)}
    parts.append(
        Text(", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in events.items()))
    )
    if data["guesses"]:
        parts.append(_boot_guesses(result))
    if data["checker"]["enabled"]:
        parts.append(_boot_reports(result))
    return Group(*parts)


def _boot_guesses(result: BootResult) -> RenderableType:
    """What each other value of a guess makes of the cycles, those that change them most first."""
    lowest, highest = (f"{cycles:,}" for cycles in result.cycles_range)
    table = _table(f"With other values of the machine's guesses: {lowest} to {highest} cycles")
    table.add_column("value", overflow="fold")
    table.add_column("cycles", justify="right")
    table.add_column("change", justify="right")
    for guess in sorted(
        result.data["guesses"], key=lambda one: -abs(one["cycles"] - result.cycles)
    ):
        change = (guess["cycles"] - result.cycles) / max(result.cycles, 1)
        ended = f" (ended by: {guess['reason']})" if guess["reason"] != result.reason else ""
        table.add_row(guess_text(guess) + ended, f"{guess['cycles']:,}", f"{change:+.2%}")
    return table


def _boot_causes(data: dict[str, Any]) -> RenderableType:
    total = sum(cost["cycles"] for cost in data["causes"].values())
    title = f"{data['instructions']:,} instructions, {data['cycles']:,} cycles"
    if total != data["cycles"]:
        title += f" of the core that is ahead; of all cores {total:,}"
    table = _table(title)
    phases = data["phases"]
    several = 1 < len(phases) <= _SHOWN_PHASES
    if len(phases) > _SHOWN_PHASES:
        table.caption = f"{len(phases)} phases: JSON has the cycles of each (--format json)"
    table.add_column("cause")
    table.add_column("events", justify="right")
    table.add_column("cycles", justify="right")
    table.add_column("share", justify="right")
    for phase in phases if several else []:
        table.add_column(phase["name"].replace(" ", "\n"), justify="right")
    for cause, cost in sorted(data["causes"].items(), key=lambda item: -item[1]["cycles"]):
        if cost["count"] == 0 and cost["cycles"] == 0:
            continue
        shares = [f"{phase['causes'][cause]['cycles']:,}" for phase in phases] if several else []
        table.add_row(
            cause,
            f"{cost['count']:,}",
            f"{cost['cycles']:,}",
            percent(cost["cycles"] / (total or 1)),
            *shares,
        )
    return table


def _boot_modes(data: dict[str, Any]) -> RenderableType:
    table = _table("By processor mode")
    table.add_column("mode")
    table.add_column("cycles", justify="right")
    for row in sorted(data["modes"], key=lambda row: -row["cycles"]):
        table.add_row(row["mode"], f"{row['cycles']:,}")
    return table


def _boot_spaces(data: dict[str, Any]) -> RenderableType:
    spaces: dict[tuple[int, int], int] = {}
    for row in data["spaces"]:
        key = (row["table"], row["process"])
        spaces[key] = spaces.get(key, 0) + row["cycles"]
    left_out = len(spaces) - _SHOWN_SPACES
    table = _table("By address space" + (f", {left_out:,} more left out" if left_out > 0 else ""))
    table.add_column("table")
    table.add_column("PID", justify="right")
    table.add_column("cycles", justify="right")
    for (base, process), cycles in sorted(spaces.items(), key=lambda item: -item[1])[
        :_SHOWN_SPACES
    ]:
        table.add_row(f"{base:#010x}", str(process), f"{cycles:,}")
    return table


def _boot_reports(result: BootResult) -> RenderableType:
    if not result.reports:
        return Text("The checker saw nothing stale.", style="green")
    return Group(
        Text(f"The checker reports {len(result.reports)}:", style="bold red"),
        *(
            Text(f"{number}. {report['kind']}: {report['text']}")
            for number, report in enumerate(result.reports, 1)
        ),
    )


def sweep(table: pa.Table) -> RenderableType:
    """What was varied and what it did, a line for each configuration."""
    first = table.column_names.index("instructions")
    names = [name for name in table.column_names[:first] if name != "trace"]
    if len(table["trace"].unique()) > 1:
        names = ["trace", *names]
    ranges = [name for name in table.column_names if name.endswith(("_lowest", "_highest"))]
    ranges = [name for name in ranges[:2] if table[name].null_count < table.num_rows]
    if ranges:
        ranges = [ranges[0].removesuffix("_lowest"), *ranges]
    shown = [*names, "cpi", "mcpi", "vmcpi", "mean_free_path", *ranges]
    drawn = _table(f"{table.num_rows:,} configurations")
    drawn.padding = 0
    for name in shown:
        numbers = not pa.types.is_string(table[name].type)
        heading = name.replace(".", "\n").replace("_", "\n")
        drawn.add_column(heading, justify="right" if numbers else "left", no_wrap=True)
    for row in table.select(shown).to_pylist():
        drawn.add_row(*(_cell(value) for value in row.values()))
    return drawn


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.4g}" if isinstance(value, float) else toml_text(value)
