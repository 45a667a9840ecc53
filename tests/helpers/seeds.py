"""Which cases of a test are in every run: the rest is under the marker `slow`, for the long one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Any

import pytest


def some_of(seeds: Sequence[Any], always: int) -> list[Any]:
    """Parameters of a test: the first ones always, the rest under the marker `slow`.

    >>> [p if isinstance(p, int) else p.marks[0].name for p in some_of(range(3), 2)]
    [0, 1, 'slow']
    """
    return [*seeds[:always], *(pytest.param(seed, marks=pytest.mark.slow) for seed in seeds[always:])]


def each_value(**axes: Iterable[Any]) -> pytest.MarkDecorator:
    """All combinations of some parameters' values: as many as the longest has values always, so that each value is in
    one of them; the rest under the marker `slow`.

    >>> [(p.id, *(m.name for m in p.marks)) for p in each_value(dtype=["int8", "int16"], axis=[0, 1]).args[1]]
    [('int8-0',), ('int8-1', 'slow'), ('int16-0', 'slow'), ('int16-1',)]
    """
    values = [list(axis) for axis in axes.values()]
    chosen = {tuple((n + n // len(axis)) % len(axis) for axis in values) for n in range(max(map(len, values)))}
    cases: list[Any] = []
    for places in product(*(range(len(axis)) for axis in values)):
        case = [axis[n] for axis, n in zip(values, places, strict=True)]
        texts = [str(x) if isinstance(x, (str, int)) else str(n) for x, n in zip(case, places, strict=True)]
        cases.append(pytest.param(*case, id="-".join(texts), marks=() if places in chosen else pytest.mark.slow))
    return pytest.mark.parametrize(tuple(axes), cases)
