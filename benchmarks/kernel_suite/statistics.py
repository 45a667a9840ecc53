"""Medians, and how sure they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

DRAWS = 2000


@dataclass(frozen=True)
class Interval:
    """A median with the bounds of its 95% bootstrap interval."""

    median: float
    low: float
    high: float


def median_interval(values: Sequence[float], seed: int = 0) -> Interval:
    """The median of a sample and its 95% interval, by drawing samples of the same size from it.

    >>> median_interval([1.0] * 20)
    Interval(median=1.0, low=1.0, high=1.0)
    """
    array = np.asarray(values, np.float64)
    if array.size == 0:
        raise ValueError("a sample without values has no median")
    drawn = np.random.default_rng(seed).integers(0, array.size, (DRAWS, array.size))
    low, high = np.percentile(np.median(array[drawn], axis=1), [2.5, 97.5])
    return Interval(float(np.median(array)), float(low), float(high))


def spread(values: Sequence[float]) -> float:
    """The distance between the quartiles, as a part of the median.

    >>> spread([2.0, 2.0, 2.0])
    0.0
    """
    low, middle, high = np.percentile(np.asarray(values), [25, 50, 75])
    return float((high - low) / middle)


def geometric_mean(values: Iterable[float]) -> float:
    """The geometric mean; NaN of nothing.

    >>> round(geometric_mean([0.5, 2.0]), 9)
    1.0
    """
    logs = [log(value) for value in values]
    return exp(sum(logs) / len(logs)) if logs else float("nan")
