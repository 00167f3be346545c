"""What a trace asks of a TLB: misses for every size, at several page sizes."""

from __future__ import annotations

import dataclasses
from typing import Any, cast

from mmulab import arrow as pa
from mmulab.errors import InputError

PAGE_SIZES = ["4K", "16K", "64K", "2M", "1G"]
STREAMS = ["instruction", "data", "unified"]


@dataclasses.dataclass(frozen=True)
class Curve:
    """The miss curve of one stream at one page size."""

    stream: str
    """`instruction`, `data`, or `unified` (one TLB for both)."""
    page_size: str
    references: int
    """Look-ups, one for each page of 4 KiB that an access touches, whatever the size of pages
    here."""
    misses: pa.UInt64Array
    """Misses of a fully associative LRU TLB of 1, 2, 3, ... entries, up to the number of pages."""

    @property
    def pages(self) -> int:
        """How many different pages were used."""
        return len(self.misses)

    def misses_at(self, entries: int) -> int:
        """Misses of a TLB of `entries`; beyond the number of pages only first uses miss."""
        if entries < 1:
            raise InputError(f"a TLB of {entries} entries holds nothing; give at least 1")
        if not self.pages:
            return 0
        return self.misses[min(entries, self.pages) - 1].as_py()


class MissCurves:
    """All curves of a trace, and the answer to "would huge pages help"."""

    def __init__(self, raw: dict[str, Any], *, seconds: float | None = None):
        self.instructions: int = raw["instructions"]
        self.verdict: str = raw["verdict"]
        """Whether huge pages would help: one sentence with its numbers."""
        self.provenance: dict[str, Any] = raw["provenance"]
        """What the curves come from: version, trace and its hash, size of the verdict's TLB."""
        self.seconds = seconds
        """How long it took; None where it was read from a file. No part of the result."""
        self.curves = [
            Curve(
                curve["stream"],
                curve["page_size"],
                curve["references"],
                _uint64_array(curve["misses"]),
            )
            for curve in raw["curves"]
        ]

    def curve(self, stream: str, page_size: str) -> Curve:
        """One curve, as in `curve("data", "4K")`. Raises `InputError` for one not counted."""
        for curve in self.curves:
            if (curve.stream, curve.page_size) == (stream, page_size):
                return curve
        raise InputError(
            f"no curve of {stream!r} at {page_size!r}; streams are {', '.join(STREAMS)}, "
            f"page sizes {', '.join(PAGE_SIZES)}"
        )

    def sizes(self) -> list[int]:
        """Powers of two from 1 entry to past the largest curve: enough for tables."""
        pages = max((curve.pages for curve in self.curves), default=1)
        return [1 << shift for shift in range((max(pages, 2) - 1).bit_length() + 1)]

    @property
    def table(self) -> pa.Table:
        """All points: `stream`, `page_size`, `entries`, `misses`, `misses_per_thousand`."""
        parts = []
        for curve in self.curves:
            count = curve.pages
            per_thousand = pa.compute.multiply(
                pa.compute.cast(curve.misses, pa.float64()), 1000 / max(self.instructions, 1)
            )
            parts.append(
                pa.table(
                    {
                        "stream": pa.repeat(curve.stream, count),
                        "page_size": pa.repeat(curve.page_size, count),
                        "entries": pa.array(range(1, count + 1), pa.uint32()),
                        "misses": curve.misses,
                        "misses_per_thousand": per_thousand,
                    }
                )
            )
        return pa.concat_tables(parts)

    def to_dict(self) -> dict[str, Any]:
        """What `--format json` prints."""
        return {
            "instructions": self.instructions,
            "verdict": self.verdict,
            "curves": [
                {
                    "stream": curve.stream,
                    "page_size": curve.page_size,
                    "references": curve.references,
                    "pages": curve.pages,
                    "misses": curve.misses.to_pylist(),
                }
                for curve in self.curves
            ],
            "provenance": self.provenance,
        }


def _uint64_array(values: bytes | list[int]) -> pa.UInt64Array:
    """Numbers as the engine hands them over (native 64-bit words) or as JSON does (a list)."""
    if isinstance(values, list):
        return pa.array(values, pa.uint64())
    buffers = [None, pa.py_buffer(values)]
    return cast(pa.UInt64Array, pa.Array.from_buffers(pa.uint64(), len(values) // 8, buffers))
