"""Measuring: actions that take turns, so that a busy machine disturbs all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

ENOUGH = 5


def interleaved(actions: Sequence[Callable[[], Any]], seconds: float = 1.0) -> list[float]:
    """The median seconds of each action, from rounds in which each runs once, for about `seconds` in all.

    >>> quick, slow = interleaved([lambda: None, lambda: time.sleep(0.002)], seconds=0.05)
    >>> quick < slow
    True
    """
    for action in actions:
        action()
    found: list[list[float]] = [[] for _ in actions]
    stop = time.perf_counter() + seconds
    while len(found[0]) < ENOUGH or time.perf_counter() < stop:
        for times, action in zip(found, actions, strict=True):
            begun = time.perf_counter()
            action()
            times.append(time.perf_counter() - begun)
    return [max(median(times), 1e-9) for times in found]
