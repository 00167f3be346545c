"""The ranges of numbers that the engine takes, and the error where one is outside."""

from __future__ import annotations

import operator
from typing import SupportsIndex

from mmulab.errors import InputError

MAX_COUNT = 2**64 - 1
"""Seeds and counts are 64-bit words."""
MAX_THREADS = 1024
"""More threads than any computer has cores for are a slip."""
MAX_CORES = 128
"""Cores of a machine for replay; each has caches and TLBs of its own."""


def whole_number(name: str, value: SupportsIndex, low: int = 0, high: int = MAX_COUNT) -> int:
    """The value as an `int`; it must be a whole number from `low` to `high`, as NumPy's integers
    are too.

    Raises `InputError` that names the argument.
    """
    number = None
    if hasattr(value, "__index__") and not isinstance(value, bool):
        number = operator.index(value)
    if number is None or not low <= number <= high:
        last = "2^64 - 1" if high == MAX_COUNT else high
        raise InputError(f"{name}: {value!r} is no whole number from {low} to {last}")
    return number
