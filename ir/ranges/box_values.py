"""The values of terms at every point of a small box: exact intervals, where interval analysis only bounds them.

Each value has one dimension for each leaf of the box, of length 1 where the term does not depend on it. Operations that
cannot be undefined and whose operands stay far from the ends of int64 are computed at once; `evaluate` does the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, NDArray
from eqsat.ir.terms.evaluate import Mask, evaluate_masked
from eqsat.ir.terms.exact import integers
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import TRUE, Term
from eqsat.ir.terms.walk import postorder

MOST_POINTS = 1 << 12
MOST_LEAVES = 16
LEAVES = ("axis", "var", "sym")
SAFE = 1 << 62
Closed = tuple[int, int]
Value = tuple[NDArray, Mask]

_DIRECT: dict[str, Callable[..., Any]] = {
    "floordiv": np.floor_divide, "mod": np.remainder, "min": np.minimum, "max": np.maximum,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor, "abs": np.abs,
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "not": np.logical_not,
    "where": np.where,
}  # fmt: skip


class PointValues:
    """The values of terms at points given by an array for each leaf, and where they are undefined; each computed once.

    >>> from eqsat.ir.terms.term import var
    >>> i = var("i")
    >>> PointValues({i: np.arange(5)}).of(i % 3 == 1)[0]
    array([False,  True, False, False,  True])
    """

    def __init__(self, leaves: Mapping[Term, NDArray]) -> None:
        self.leaves = leaves
        self.known: dict[Term, Value] = {leaf: (array, None) for leaf, array in leaves.items()}

    def of(self, term: Term) -> Value:
        """The value, and where it is undefined (None: nowhere)."""
        known = self.known
        if term not in known:
            for node in postorder(term, done=known):
                found = self._directly(node)
                if found is None:
                    masked = any(known[a][1] is not None for a in node.args)
                    env = self.leaves if masked else {a: known[a][0] for a in node.args}
                    known[node] = evaluate_masked([node], env, load_table)[0]
                else:
                    known[node] = (found, None)
        return known[term]

    def _directly(self, node: Term) -> NDArray | None:
        """The value where it is defined everywhere by its looks, and in int64 for certain."""
        op = node.op
        if op == "const":
            small = node.dtype == INDEX and abs(node.payload) < SAFE
            return np.asarray(node.payload) if small else np.asarray(node is TRUE) if node.dtype == BOOL else None
        pairs = [self.known[a] for a in node.args]
        if any(bad is not None or value.dtype == object for value, bad in pairs):
            return None
        args = [value for value, _ in pairs]
        if op == "sum":
            return _sum(node, args)
        if op in ("and", "or"):
            return _junction(op, args)
        if op not in _DIRECT or (node.args[-1].dtype not in (INDEX, BOOL)) or node.dtype not in (INDEX, BOOL):
            return None
        if op in ("floordiv", "mod") and (node.args[1].op != "const" or node.args[1].payload <= 0):
            return None
        return _DIRECT[op](*args)


class BoxValues:
    """The points of a box of half-open ranges where some guards hold; terms of few points only are looked at.

    >>> from eqsat.ir.terms.term import var
    >>> i = var("i")
    >>> here = BoxValues({i: (0, 12)})
    >>> here.interval(i % 8 - i // 8 * 8), here.under(i % 3 == 1).interval(i * i)
    ((-8, 7), (1, 100))
    """

    def __init__(self, ranges: Mapping[Term, tuple[int, int]], outer: BoxValues | None = None) -> None:
        self.ranges = ranges
        self.guards: tuple[Term, ...] = ()
        self.known: dict[tuple[Term, ...], Closed | None] = {}
        self.inner: dict[Term, BoxValues] = {}
        self.places = outer.places if outer else {leaf: n for n, leaf in enumerate(ranges)}
        self.sizes = outer.sizes if outer else [stop - start for start, stop in ranges.values()]
        self.used: dict[Term, int | None] = outer.used if outer else {x: 1 << n for x, n in self.places.items()}
        self.values: PointValues = outer.values if outer else PointValues(_axes(ranges))
        self.keeps: dict[tuple[Term, ...], NDArray] = outer.keeps if outer else {}

    def under(self, guard: Term) -> BoxValues:
        """The points where a predicate holds as well."""
        found = self.inner.get(guard)
        if found is None:
            found = self.inner[guard] = BoxValues(self.ranges, self)
            found.guards = (*self.guards, guard)
        return found

    def interval(self, term: Term) -> Closed | None:
        """The least and the greatest value (of a predicate: 0 or 1) where the term is defined; None: not known."""
        leaves = self._leaves(term)
        if leaves is None or term.dtype not in (INDEX, BOOL) or term.lanes > 1 or self._size(leaves) > MOST_POINTS:
            return None
        asked: list[Term] = []
        for guard in self.guards:
            needed = self._leaves(guard)
            if needed and needed & leaves and self._size(leaves | needed) <= MOST_POINTS:
                leaves |= needed
                asked.append(guard)
        key = (term, *asked)
        if key not in self.known:
            self.known[key] = self._interval(term, tuple(asked))
        return self.known[key]

    def _leaves(self, term: Term) -> int | None:
        """The leaves of a term as bits, or None where it cannot be evaluated on its own."""
        used = self.used
        if term in used:
            return used[term]
        for node in postorder(term, done=used):
            unread = node.op == "load" and not isinstance(node.payload, Table)
            found: int | None = None if unread or node.op in (*LEAVES, "hole", "given") else 0
            for a in node.args:
                below = used[a]
                found = None if found is None or below is None else found | below
            used[node] = found
        return used[term]

    def _size(self, leaves: int) -> int:
        return prod(size for n, size in enumerate(self.sizes) if leaves >> n & 1)

    def _interval(self, term: Term, guards: tuple[Term, ...]) -> Closed | None:
        value, bad = self.values.of(term)
        if guards or bad is not None:
            keep: Any = self._keep(guards) if guards else True
            keep = keep if bad is None else np.logical_and(keep, np.logical_not(bad))
            value, keep = np.broadcast_arrays(value, keep)
            value = value[keep]
        return (int(value.min()), int(value.max())) if value.size else None

    def _keep(self, guards: tuple[Term, ...]) -> NDArray:
        """Where guards are defined and hold."""
        found = self.keeps.get(guards)
        if found is None:
            holds, bad = self.values.of(guards[-1])
            found = holds if bad is None else np.logical_and(holds, np.logical_not(bad))
            if guards[1:]:
                found = np.logical_and(self._keep(guards[:-1]), found)
            self.keeps[guards] = found
        return found


def _sum(node: Term, args: Sequence[NDArray]) -> NDArray | None:
    constant, coefficients = node.payload
    reach = abs(constant)
    for c, value in zip(coefficients, args, strict=True):
        if not value.size:
            return None
        reach += abs(c) * max(abs(int(value.max())), abs(int(value.min())), 1)
    if reach >= SAFE:
        return None
    total: Any = constant
    for c, value in zip(coefficients, args, strict=True):
        total = total + (value if c == 1 else c * value)
    return np.asarray(total)


def _junction(op: str, args: Sequence[NDArray]) -> NDArray:
    result = args[0]
    for value in args[1:]:
        result = np.logical_and(result, value) if op == "and" else np.logical_or(result, value)
    return result


def _axes(ranges: Mapping[Term, tuple[int, int]]) -> dict[Term, NDArray]:
    result: dict[Term, NDArray] = {}
    for n, (leaf, (start, stop)) in enumerate(ranges.items()):
        shape = [1] * len(ranges)
        shape[n] = -1
        result[leaf] = integers(start, stop).reshape(shape)
    return result
