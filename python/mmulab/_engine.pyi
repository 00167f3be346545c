"""The engine: what the binding crate exports. Use the functions of `mmulab` instead."""

from collections.abc import Callable
from typing import Any

VERSION: str

PROGRAMS_MAX: int
"""How many programs may take turns."""

Part = tuple[str, int, int, bool]
"""Pages ("4K" or "2M"), lines, stride in bytes, and whether each lies at another place within it."""

class Machine:
    name: str
    title: str
    kind: str
    @staticmethod
    def load(path: str) -> Machine: ...
    @staticmethod
    def parse(text: str, name: str) -> Machine: ...
    def check_replays(self) -> None: ...
    def with_changes(self, changes: list[tuple[str, str]]) -> Machine: ...
    def toml(self) -> str: ...

class Computer:
    def cycle_ns(self) -> float: ...
    def issue_cycles(self, samples: int) -> list[float]: ...
    def load_cycles(self, parts: list[Part], samples: int) -> list[float]: ...
    def jump_cycles(self, part: Part, samples: int) -> list[float]: ...
    def walk_cycles(self, pages: int, samples: int) -> list[float]: ...
    def fault_cycles(self, pages: str, count: int, samples: int) -> list[float]: ...
    def shootdown_cycles(self, samples: int) -> tuple[list[float], list[float]]: ...

def reported_tlbs() -> list[tuple[int, bool, bool, list[str], int, int]]: ...
def machine_schema() -> str: ...
def trace_information(
    path: str, *, partial: bool, progress: Callable[[int, int | None], None] | None
) -> dict[str, Any]: ...
def trace_length(path: str) -> int | None: ...
def dump_trace(
    path: str,
    *,
    partial: bool,
    skip: int,
    count: int | None,
    write: Callable[[bytes], object],
    progress: Callable[[int, int | None], None] | None,
) -> None: ...
def slice_trace(
    path: str,
    output: str,
    *,
    partial: bool,
    skip: int,
    count: int | None,
    progress: Callable[[int, int | None], None] | None,
) -> int: ...
def record(
    program: list[str],
    output: str,
    *,
    tool_directory: str,
    max_instructions: int | None,
    follow_children: bool,
    qemu: bool,
    environment: list[tuple[str, str]] | None,
    progress: Callable[[int, int | None], None] | None,
) -> dict[str, Any]: ...
def replay(
    traces: list[str],
    machines: list[tuple[Machine, list[Machine]]],
    *,
    time_slice_instructions: int | None,
    cores: int,
    one_queue: bool,
    seed: int,
    threads: int,
    skip: int,
    warm_up: int,
    limit: int | None,
    region: str | None,
    partial: bool,
    progress: Callable[[int, int | None], None] | None,
) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]: ...
def profile(
    trace: str,
    machine: Machine,
    *,
    seed: int,
    skip: int,
    warm_up: int,
    limit: int | None,
    region: str | None,
    partial: bool,
    progress: Callable[[int, int | None], None] | None,
) -> tuple[dict[str, Any], dict[str, Any]]: ...
def miss_curves(
    trace: str,
    *,
    entries: int,
    partial: bool,
    progress: Callable[[int, int | None], None] | None,
) -> dict[str, Any]: ...
def boot(
    image: str,
    machine: Machine,
    *,
    initrd: str | None,
    dtb: str | None,
    append: str | None,
    check: bool,
    timeline: str | None,
    gdb_port: int | None,
    max_instructions: int | None,
    max_seconds: float | None,
    symbols: str | None,
    console: object | None,
    save: str | None,
    save_at: int | str | None,
    save_header: str,
    restore: str | None,
    progress: Callable[[int, int | None], None] | None,
) -> dict[str, Any]: ...
def saved_state_header(file: str) -> str: ...
def sweep_units(machines: list[Machine]) -> list[list[int]]: ...
def sweep_unit(
    trace: str,
    machines: list[Machine],
    *,
    seed: int,
    progress: Callable[[int, int | None], None] | None,
) -> list[dict[str, Any]]: ...
