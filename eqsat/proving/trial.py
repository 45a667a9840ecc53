"""A box to try terms at: all points of a small box, else its corners and random ones. What differs there is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import BOOL, INDEX, NDArray
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.ranges.box_values import MOST_LEAVES, MOST_POINTS, BoxValues, PointValues
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.proving.points import evaluable
from eqsat.proving.question import LEAVES, Box, Range, shallow

EVERY_POINT = 1 << 12
SAMPLES = 1 << 9
CORNERS = 6  # leaves of which all corners are tried
WIDE = 2_000  # how far a side without an end is looked at
FAR = 1 << 52  # up to there, floats are integers

Side = tuple[int, int, int]  # first value, number of values, step


def ranges_of(leaves: Sequence[Term], box: Box) -> dict[Term, Range]:
    """The half-open range of every leaf: that of the box, or what its extent or its declaration says.

    >>> from eqsat.ir.terms.term import sym, var
    >>> list(ranges_of([var("i"), var("j", 8), sym("N")], {var("i"): (2, 4)}).values())
    [(2, 4), (0, 8), (1, None)]
    """
    result: dict[Term, Range] = {}
    for leaf in leaves:
        if leaf in box:
            result[leaf] = box[leaf]
        elif leaf.op == "sym":
            _, low, high, _, _ = t.symbol_facts(leaf)
            result[leaf] = (low, None if high is None else high + 1)
        else:
            result[leaf] = (0, _most(leaf.args[0])) if leaf.args else (None, None)
    return result


def _step(leaf: Term) -> int:
    """What every value of a leaf divides by."""
    return t.symbol_facts(leaf).multiple_of if leaf.op == "sym" else 1


def _most(extent: Term) -> int | None:
    """The number of values of an axis, where it is a number or certainly none."""
    number = t.int_value(extent)
    if number is None:
        most = Bounds().of(extent)[1]
        return 0 if most is not None and most <= 0 else None
    return number


class Trial:
    """Points of a box where the assumption holds; `whole` tells whether they are all, `possible` whether there are any.

    >>> from eqsat.ir.terms.term import var
    >>> i = var("i")
    >>> here = Trial(i % 8, {i: (0, 12)}, None)
    >>> here.whole, here.agree(i % 8, i), here.varies(i < 12), here.varies(i % 8 < 4)
    (True, False, False, True)
    """

    def __init__(self, term: Term, box: Box, assuming: Term | None) -> None:
        roots = [term] if assuming is None else [term, assuming]
        nodes = list(postorder(*roots))
        leaves = [n for n in nodes if n.op in LEAVES]
        self.ranges = ranges_of(leaves, box)
        self.empty = any(a is not None and b is not None and a >= b for a, b in (*box.values(), *self.ranges.values()))
        self.points = self._points(shallow(*roots) if any(x.args for x in leaves) else nodes)
        self.whole = False
        self.keep: Any = True
        self.sides = {x: _side(*r, _step(x)) for x, r in self.ranges.items()}
        self.possible = (
            term.dtype in (INDEX, BOOL)
            and all(r.lanes == 1 for r in roots)
            and all(n.dtype == INDEX for n in leaves)
            and not any(abs(first) >= FAR or abs(first + n * step) >= FAR for first, n, step in self.sides.values())
            and evaluable(roots)
        )
        self.possible = self.possible and not self.empty
        if not self.possible:
            return
        closed = all(None not in r for r in self.ranges.values())
        self.whole = closed and prod(n for _, n, _ in self.sides.values()) <= EVERY_POINT
        symbolic = [x for x in leaves if x.op != "sym" and x.args and x.args[0].op != "const" and x not in box]
        inside = [x < x.args[0] for x in symbolic]
        for fact in inside if assuming is None else [*inside, assuming]:
            value, bad = self.values.of(fact)
            self.keep = self.keep & value if bad is None else self.keep & value & ~bad
        self.possible = bool(np.any(self.keep))

    @cached_property
    def values(self) -> PointValues:
        """The values of terms at the points."""
        if self.whole and self.points is not None and self.points.values.leaves.keys() == self.sides.keys():
            return self.points.values
        return PointValues(_grid(self.sides) if self.whole else _chosen(self.sides))

    def _points(self, nodes: Sequence[Term]) -> BoxValues | None:
        """The values over the box, where every variable of the term has a small range."""
        found: dict[Term, tuple[int, int]] = {}
        for leaf in (n for n in nodes if n.op in LEAVES):
            start, stop = self.ranges[leaf]
            step = _step(leaf)
            if start is not None and stop is not None and step == 1 and stop - start <= MOST_POINTS:
                found[leaf] = (start, stop)
        return BoxValues(found) if 0 < len(found) <= MOST_LEAVES else None

    def agree(self, before: Term, after: Term) -> bool:
        """Whether the second term is defined and the same at all these points where the first one is defined."""
        (a, a_bad), (b, b_bad) = self.values.of(before), self.values.of(after)
        wrong = (a != b) & self.keep if b_bad is None else ((a != b) | b_bad) & self.keep
        return not bool(np.any(wrong if a_bad is None else wrong & ~a_bad))

    def varies(self, predicate: Term) -> bool:
        """Whether the predicate holds at one of these points, and fails at another."""
        value, bad = self.values.of(predicate)
        holds = value & self.keep
        fails = ~value & self.keep
        if bad is not None:
            holds, fails = holds & ~bad, fails & ~bad
        return bool(np.any(holds)) and bool(np.any(fails))


def _side(start: int | None, stop: int | None, step: int) -> Side:
    """Values of a leaf: those of a range, or many near its one end."""
    if start is None:
        start = -WIDE // 2 if stop is None else stop - WIDE
    first = -(-start // step) * step
    stop = first + WIDE * step if stop is None else stop
    return first, max(0, -(-(stop - first) // step)), step


def _grid(sides: Mapping[Term, Side]) -> dict[Term, NDArray]:
    env: dict[Term, NDArray] = {}
    for n, (leaf, (first, count, step)) in enumerate(sides.items()):
        shape = [1] * len(sides)
        shape[n] = -1
        env[leaf] = np.arange(first, first + count * step, step, dtype=np.int64).reshape(shape)
    return env


def _chosen(sides: Mapping[Term, Side]) -> dict[Term, NDArray]:
    """Corners and random points."""
    env: dict[Term, NDArray] = {}
    parts = _fractions(len(sides))
    for n, (leaf, (first, count, step)) in enumerate(sides.items()):
        env[leaf] = first + step * np.minimum((parts[n] * count).astype(np.int64), max(0, count - 1))
    return env


@lru_cache(maxsize=64)
def _fractions(leaves: int) -> NDArray:
    """Where the points lie in a box of so many leaves: a row for each leaf, from 0 to 1."""
    random = np.random.default_rng(7).random((leaves, SAMPLES))
    for n in range(leaves):
        corners = 1 << min(leaves, CORNERS)
        random[n, :corners] = [k >> (n % CORNERS) & 1 for k in range(corners)]
    return random
