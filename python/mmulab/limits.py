"""The ranges of numbers that the engine takes, and the error where one is outside."""

from __future__ import annotations

from mmulab.errors import InputError

MAX_COUNT = 2**64 - 1
"""Seeds and counts are 64-bit words."""
MAX_THREADS = 1024
"""More threads than any computer has cores for are a slip."""
MAX_CORES = 128
"""Cores of a machine for replay; each has caches and TLBs of its own."""


def whole_number(name: str, value: int, low: int = 0, high: int = MAX_COUNT) -> int:
    """The value, which must be a whole number from `low` to `high`.

    Raises `InputError` that names the argument.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        last = "2^64 - 1" if high == MAX_COUNT else high
        raise InputError(f"{name}: {value!r} is no whole number from {low} to {last}")
    return value
