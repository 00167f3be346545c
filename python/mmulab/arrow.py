"""What there is in `pyarrow`, which is imported when some of it is first used.

Importing it takes half of the time in which a command starts, also of one that makes no table.
Modules say `from mmulab import arrow as pa`.
"""

from __future__ import annotations

import importlib
from typing import Any

_SUBMODULES = ("compute", "csv", "parquet")


def __getattr__(name: str) -> Any:
    """Of pyarrow, or one of its modules."""
    if name in _SUBMODULES:
        return importlib.import_module(f"pyarrow.{name}")
    return getattr(importlib.import_module("pyarrow"), name)
