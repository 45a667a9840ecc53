"""Seeds of random tests: some for every run, the rest for the long one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def some_of(seeds: Sequence[int], always: int) -> list[Any]:
    """Parameters of a test: the first ones always, the rest under the marker `slow`.

    >>> [p if isinstance(p, int) else p.marks[0].name for p in some_of(range(3), 2)]
    [0, 1, 'slow']
    """
    return [*seeds[:always], *(pytest.param(seed, marks=pytest.mark.slow) for seed in seeds[always:])]
