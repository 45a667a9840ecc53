"""Numbers for the sizes that a program leaves open."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.checking.part import Sizes
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Program
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import symbols

LARGER = (17, 70, 300, 1300)
"""Sizes where smaller ones make a program empty, or extents that are less than 0."""


def sizes_of(programs: Sequence[Program]) -> tuple[list[Sizes], list[Sizes]]:
    """Values for the symbols: the smallest ones, then ones that differ from each other; and larger ones, for programs
    that have no cells for these.

    >>> import eqsat as eq
    >>> x = eq.input("x", (eq.symbol("N", lower=1), 4), "float32")
    >>> [[int(n) for row in rows for n in row.values()] for rows in sizes_of([eq.Program([x], {"x": x})])]
    [[1, 2, 5], [17, 70, 300, 1300]]
    """
    found: dict[Term, None] = {}
    for program in programs:
        for node in program.all_nodes():
            for shape, _ in node.outputs:
                for s in symbols(*(d for d in shape if isinstance(d, Term))):
                    found.setdefault(s)
    if not found:
        return [{}], []

    def value(symbol: Term, wish: int) -> NDArray:
        lower, upper, multiple = symbol.payload[1:4]
        low = max(0, 0 if lower is None else lower)
        number = max(low, wish)
        number = -(-number // multiple) * multiple
        if upper is not None and number > upper:
            number = upper // multiple * multiple
        return np.asarray(number, np.int64)

    wishes = [
        [0] * len(found),
        [1] * len(found),
        [2 + k for k in range(len(found))],
        [5 + 3 * k for k in range(len(found))],
    ]
    larger = [[size + 3 * k for k in range(len(found))] for size in LARGER]
    tried: dict[tuple[int, ...], Sizes] = {}
    count = 0
    for n, row in enumerate((*wishes, *larger)):
        sizes = {s: value(s, w) for s, w in zip(found, row, strict=True)}
        tried.setdefault(tuple(int(v) for v in sizes.values()), sizes)
        count = len(tried) if n < len(wishes) else count
    every = list(tried.values())
    return every[:count], every[count:]
