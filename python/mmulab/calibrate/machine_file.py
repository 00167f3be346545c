"""Writes a machine's file from what was found."""

from __future__ import annotations

import json
from collections.abc import Iterator

from mmulab.calibrate.findings import Findings, Value
from mmulab.calibrate.reported import Reported
from mmulab.calibrate.series import Measurements, Point

NAME = "this-computer"

_REPLACEMENT = Value("lru", "guess: not measured", ("random",))
_TREE = Value("plru", "guess: not measured", ("lru",))
_FREE = Value(0, "hits are part of issue")

_LEVEL_2 = {
    "entries": Value(32, "guess: not measured", (16, 64)),
    "ways": Value(4, "guess: not measured", ("full",)),
    "replacement": _REPLACEMENT,
}
_LEVEL_3 = {
    "entries": Value(4, "guess: not measured", (16,)),
    "ways": Value("full", "guess: not measured", (2,)),
    "replacement": _REPLACEMENT,
}

# What a machine's file needs besides what is measured: table, key, value. Sections are written in
# this order, keys of one section as they come; what was found goes first.
_FIXED: dict[str, dict[str, Value]] = {
    "core": {},
    "organisation": {
        "kind": Value("radix", "the tables of x86-64 and of AArch64 with 4 KB pages"),
        "levels": Value(4, "48 bits of address"),
        "index_bits": Value(9, "tables of one page"),
        "pte_bytes": Value(8, "both architectures"),
        "pages": Value("4K", 'without huge pages; "2M" or "mixed" to compare'),
        "walk_starts_at": Value("l1d", "guess: not measured", ("l2",)),
        "address_spaces": Value(6, "guess: as Linux gives PCIDs; on AArch64 65536", (65536,)),
    },
    "organisation.walk_cache_level_2": _LEVEL_2,
    "organisation.walk_cache_level_3": _LEVEL_3,
    "organisation.host": {
        "guest_memory_bytes": Value(
            1 << 34, "guess: a common size of virtual machines", (1 << 36,)
        ),
        "levels": Value(4, "as x86-64 and AArch64 have it"),
        "index_bits": Value(9, "tables of one page"),
        "pte_bytes": Value(8, "both architectures"),
    },
    "organisation.host.walk_cache_level_2": _LEVEL_2,
    "organisation.host.walk_cache_level_3": _LEVEL_3,
    "itlb": {
        "page_sizes": Value(["4K", "2M"], "guess: not measured", (["4K"],)),
        "latency_cycles": _FREE,
    },
    "dtlb": {"latency_cycles": _FREE},
    "dtlb_large": {
        "page_sizes": Value(["2M"], "measured: an array of its own"),
        "latency_cycles": _FREE,
    },
    "stlb": {"page_sizes": Value(["4K"], "guess: not measured")},
    "l1i": {"latency_cycles": _FREE},
    "l1d": {"latency_cycles": _FREE},
    "l2": {},
    "l3": {},
    "multicore": {
        "shootdown": Value(
            "interrupt", "as Linux does on x86; AArch64 has broadcast, without interrupts"
        ),
        "shootdown_cycles": Value(4000, "guess: not measured", (1500, 10_000)),
        "shootdown_interrupt_cycles": Value(1500, "guess: not measured", (500, 4000)),
    },
    "memory": {"placement": Value("random", "guess: as after some time of use", ("first-touch",))},
    "interrupts": {"costs_cycles": Value("[10, 50, 200]", "those of the 1998 study")},
}
_TLB = {"replacement": _REPLACEMENT, "protected_entries": Value(0, "none known")}
_CACHE = {
    "line_bytes": Value(64, "x86-64 and most AArch64 cores"),
    "replacement": _TREE,
    "write_policy": Value("write-back", "as all current cores have it"),
    "write_allocate": Value("true", "as all current cores have it"),
    "addressing": Value("physical", "as all current cores have it"),
}


def machine_file(measured: Measurements, reported: Reported, findings: Findings) -> str:
    """The text of a machine's file, each value with how it was found."""
    has_third_level = any(path.startswith("l3.") for path in findings.values)
    shared = Value(3 if has_third_level else 2, "the last level, as most processors have it")
    found = {
        **findings.values,
        **_page_faults(findings),
        **_shootdowns(findings),
        "multicore.first_shared_level": shared,
    }
    return "\n".join(
        [
            *_head(measured, reported, findings),
            'kind = "replay"',
            f'name = "{NAME}"',
            f"title = {json.dumps(f'{reported.processor}, measured')}",
            *_sections(found),
            *_guesses(found),
            "",
        ]
    )


def _page_faults(findings: Findings) -> dict[str, Value]:
    return {
        f"interrupts.{kind}_page_fault_cycles": _measured(
            point, f"first touch of {size}, zeroed by the kernel, and giving it back"
        )
        for kind, size in (("small", "4K"), ("large", "2M"))
        if (point := findings.faults_cycles.get(size))
    }


def _shootdowns(findings: Findings) -> dict[str, Value]:
    return {
        f"multicore.{key}": _measured(point, "munmap while another core runs the program")
        for key, point in findings.shootdown_cycles.items()
    }


def _measured(point: Point, how: str) -> Value:
    """A whole number of cycles, and its quartiles where they are other numbers."""
    cycles = round(point.cycles)
    quartiles = {round(point.low), round(point.high)} - {cycles}
    return Value(cycles, f"measured: {how}", tuple(sorted(quartiles)))


def _head(measured: Measurements, reported: Reported, findings: Findings) -> Iterator[str]:
    yield f"# {reported.processor} under {reported.kernel}, as measured by `mmulab calibrate`."
    yield f"# A cycle takes {measured.cycle_ns:.3f} ns. Latencies: medians of dependent loads (quartiles)."
    if reported.hypervisor:
        yield "# A virtual machine: walks go through the guest's and the host's tables; what the levels hold"
        yield "# is what the host leaves."
    for note in findings.notes:
        yield f"# Note: {note}"
    yield ""


def _all_values(found: dict[str, Value]) -> Iterator[tuple[str, dict[str, Value]]]:
    for section, fixed in _FIXED.items():
        values = {
            path.rpartition(".")[2]: value
            for path, value in found.items()
            if path.rpartition(".")[0] == section
        }
        if section == "dtlb_large" and not values:
            continue
        if section == "l3" and not values:
            continue
        if section.startswith("organisation.host") and "organisation.host.pages" not in found:
            continue
        common = (
            _TLB if "tlb" in section else _CACHE if section in ("l1i", "l1d", "l2", "l3") else {}
        )
        split = (
            {"split": Value("false", "as all current cores have it")}
            if section in ("l2", "l3")
            else {}
        )
        if values.get("ways") and not _is_power_of_two(values["ways"].value):
            # A tree needs a power of two of ways.
            common = {
                key: _REPLACEMENT if value is _TREE else value for key, value in common.items()
            }
        first = fixed if section == "organisation" else {}
        yield (
            section,
            {
                **first,
                **split,
                **values,
                **{k: v for k, v in {**fixed, **common}.items() if k not in values},
            },
        )


def _is_power_of_two(ways: object) -> bool:
    return isinstance(ways, int) and ways & (ways - 1) == 0


def _sections(found: dict[str, Value]) -> Iterator[str]:
    for section, values in _all_values(found):
        yield ""
        yield f"[{section}]"
        for key, value in values.items():
            yield f"{f'{key} = {_toml(value.value)}':<36}# {value.source}"


def _guesses(found: dict[str, Value]) -> Iterator[str]:
    yield ""
    yield "# What else a value might be: other guesses, and the quartiles of what was measured."
    for section, values in _all_values(found):
        for key, value in values.items():
            if value.alternatives:
                others = ", ".join(_toml(other) for other in value.alternatives)
                yield ""
                yield "[[guesses]]"
                yield f'"{section}.{key}" = [{others}] # {value.source.partition(":")[0]}'


def _toml(value: object) -> str:
    if isinstance(value, int):
        return f"{value:_}"
    if isinstance(value, str) and (value in ("true", "false") or value.startswith("[")):
        return value
    return json.dumps(value)
