"""Finds the flat parts of a curve of latency over size: each is a level of a hierarchy."""

from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import dataclass

from mmulab.calibrate.series import Point, Series

LEAST_POINTS = 3
"""A plateau has at least this many points."""

RAMP_COST = 0.10
"""What a point between plateaus costs, as a deviation of the logarithm: a point that lies farther
than 10 % from a plateau does not belong to it."""

PLATEAU_COST = 0.3
"""What a plateau costs, so that noise does not make two of one."""


LEAST_STEP = math.log(1.3)
"""A level is at least 30 % slower than the one before."""


@dataclass(frozen=True)
class Plateau:
    """A level: the latency of its points, in cycles, and where its first and its last lie."""

    cycles: float
    first: int
    last: int
    low: float
    high: float


def rising(series: Series) -> list[float]:
    """The nearest curve to the medians that never falls (pool adjacent violators).

    A larger working set cannot be faster; where it seems so, something else ran.
    """
    pools: list[tuple[float, int]] = []
    for point in series:
        pools.append((point.cycles, 1))
        while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
            (b, n), (a, m) = pools.pop(), pools.pop()
            pools.append(((a * m + b * n) / (m + n), m + n))
    return [value for value, count in pools for _ in range(count)]


def plateaus(series: Series, count: int | None = None, offset: float = 0.0) -> list[Plateau]:
    """The flat parts, in order of size; `count` of them where that is known.

    The cheapest division of the curve into plateaus and ramps, each point of a plateau at the cost
    of its distance from the plateau's median. Distances are of logarithms; `offset` cycles are
    added before, so that differences near zero can be told from noise. Fewer than `count` come back
    where the curve has not enough points.
    """
    curve = rising(series)
    logs = [math.log(max(value, 0.0) + offset + 1e-3) for value in curve]
    most = count if count is not None else len(logs) // LEAST_POINTS
    # best[k][i]: the cheapest division of the first i points with k plateaus: its cost, where its
    # last piece begins (None: a ramp of one point), and the height of its last plateau.
    best: list[list[tuple[float, int | None, float]]] = []
    for k in range(most + 1):
        row: list[tuple[float, int | None, float]] = [
            (0.0 if k == 0 else math.inf, None, -math.inf)
        ]
        for end in range(1, len(logs) + 1):
            cost, _, height = row[end - 1]
            options: list[tuple[float, int | None, float]] = [(cost + RAMP_COST, None, height)]
            for begin in range(end - LEAST_POINTS + 1) if k else ():
                cost, _, height = best[k - 1][begin]
                middle = logs[(begin + end) // 2]  # the median: the curve rises
                if middle >= height + LEAST_STEP:
                    cost += PLATEAU_COST + sum(abs(value - middle) for value in logs[begin:end])
                    options.append((cost, begin, middle))
            row.append(min(options, key=lambda option: option[0]))
        best.append(row)
    possible = [k for k in range(most + 1) if best[k][-1][0] < math.inf]
    k = min(possible, key=lambda k: best[k][-1][0]) if count is None else max(possible)
    found: list[Plateau] = []
    end = len(logs)
    while end:
        start = best[k][end][1]
        if start is None:
            end -= 1
            continue
        found.append(_plateau(series[start:end]))
        end, k = start, k - 1
    return found[::-1]


def _plateau(points: list[Point]) -> Plateau:
    return Plateau(
        statistics.median(point.cycles for point in points),
        points[0].x,
        points[-1].x,
        statistics.median(point.low for point in points),
        statistics.median(point.high for point in points),
    )


def capacity(series: Series, below: Plateau, above: Plateau) -> float:
    """The size of a level: where the curve crosses the middle between its plateau and the next."""
    return crossing(series, below, (below.cycles + above.cycles) / 2)


def crossing(series: Series, below: Plateau, cycles: float) -> float:
    """Where the curve that leaves a plateau crosses a latency, between two points by
    interpolation."""
    points = zip(series, rising(series), strict=True)
    for (left, a), (right, b) in itertools.pairwise(points):
        if left.x >= below.first and a <= cycles < b:
            return left.x * (right.x / left.x) ** ((cycles - a) / (b - a))
    return float(below.last)
