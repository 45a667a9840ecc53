"""The values of terms at every point of a small box: exact intervals, where interval analysis only bounds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, NDArray
from eqsat.ir.evaluate import Mask, evaluate_masked
from eqsat.ir.tables import Table, load_table
from eqsat.ir.term import Term
from eqsat.ir.walk import postorder

MOST_POINTS = 1 << 12
MOST_LEAVES = 16
LEAVES = ("axis", "var", "sym")
Closed = tuple[int, int]


class Points:
    """The points of a box of half-open ranges where some guards hold; terms of few points only are looked at.

    >>> from eqsat.ir.term import var
    >>> i = var("i")
    >>> here = Points({i: (0, 12)})
    >>> here.interval(i % 8 - i // 8 * 8), here.under(i % 3 == 1).interval(i * i)
    ((-8, 7), (1, 100))
    """

    def __init__(self, ranges: Mapping[Term, tuple[int, int]], guards: tuple[Term, ...] = ()) -> None:
        self.ranges = ranges
        self.guards = guards
        self.known: dict[tuple[Term, ...], Closed | None] = {}
        self.used: dict[Term, frozenset[Term] | None] = {}
        self.inner: dict[Term, Points] = {}
        self.values = _axes(ranges)

    def under(self, guard: Term) -> Points:
        """The points where a predicate holds as well."""
        found = self.inner.get(guard)
        if found is None:
            found = self.inner[guard] = Points(self.ranges, (*self.guards, guard))
            found.used, found.known, found.values = self.used, self.known, self.values
        return found

    def interval(self, term: Term) -> Closed | None:
        """The least and the greatest value (of a predicate: 0 or 1) where the term is defined; None: not known."""
        own = self._leaves(term)
        if own is None or term.dtype not in (INDEX, BOOL) or term.lanes > 1 or self._size(own) > MOST_POINTS:
            return None
        leaves, asked = own, [term]
        for guard in self.guards:
            needed = self._leaves(guard)
            if needed and needed & leaves and self._size(leaves | needed) <= MOST_POINTS:
                leaves = leaves | needed
                asked.append(guard)
        key = tuple(asked)
        if key not in self.known:
            self.known[key] = self._interval(term, asked[1:])
        return self.known[key]

    def _leaves(self, term: Term) -> frozenset[Term] | None:
        """The leaves of a term, or None where it cannot be evaluated on its own."""
        if term not in self.used:
            found: set[Term] = set()
            for node in postorder(term, done=self.ranges):
                if node.op in LEAVES or node.op in ("hole", "given"):
                    self.used[term] = None
                    return None
                if node.op == "load" and not isinstance(node.payload, Table):
                    self.used[term] = None
                    return None
                found.update(a for a in node.args if a in self.ranges)
            self.used[term] = frozenset((term,) if term in self.ranges else found)
        return self.used[term]

    def _size(self, leaves: frozenset[Term]) -> int:
        return prod(stop - start for start, stop in (self.ranges[x] for x in leaves))

    def _interval(self, term: Term, guards: Sequence[Term]) -> Closed | None:
        value, bad = self._value(term)
        keep: Any = True if bad is None else np.logical_not(bad)
        for guard in guards:
            holds, undefined = self._value(guard)
            keep = np.logical_and(keep, holds)
            keep = keep if undefined is None else np.logical_and(keep, np.logical_not(undefined))
        if keep is not True:
            value, keep = np.broadcast_arrays(value, keep)
            value = value[keep]
        return (int(value.min()), int(value.max())) if value.size else None

    def _value(self, term: Term) -> tuple[NDArray, Mask]:
        """The values over the box, one dimension for each leaf; those that do not occur have length 1."""
        for node in postorder(term, done=self.values):
            if node in self.values:
                continue
            masked = any(self.values[a][1] is not None for a in node.args if a in self.values)
            known = {x: self.values[x][0] for x in (self._leaves(node) or () if masked else node.args)}
            self.values[node] = evaluate_masked([node], known, load_table)[0]
        return self.values[term]


def _axes(ranges: Mapping[Term, tuple[int, int]]) -> dict[Term, tuple[NDArray, Mask]]:
    result: dict[Term, tuple[NDArray, Mask]] = {}
    for n, (leaf, (start, stop)) in enumerate(ranges.items()):
        shape = [1] * len(ranges)
        shape[n] = -1
        result[leaf] = np.arange(start, stop, dtype=np.int64).reshape(shape), None
    return result
