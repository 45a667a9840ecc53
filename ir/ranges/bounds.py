"""Interval analysis of terms: the least and greatest value an index term can take, without overflow and without search.

Every answer is sound for the values that are defined; nothing is known (None) where an interval is unbounded. An axis
whose extent may be 0 has no bounds: on an empty box every statement holds, so none may be used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from eqsat.ir.dtypes import BOOL, INDEX, is_float, is_int
from eqsat.ir.ranges.intervals import (
    ALL,
    End,
    Span,
    constant_span,
    meet,
    operation_span,
    plus,
    symbol_span,
    table_span,
    times,
    widened,
    wrapped,
)
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, postorder

Interval = tuple[int | None, int | None]
Ranges = Mapping[Term, tuple[End, End]]
INT32 = 32


class Bounds:
    """The intervals of terms over a box, remembered from question to question.

    `ranges` gives axes, variables, symbols or any other terms a half-open range (start, stop); axes and variables that
    are left out range over their extent.

    >>> i = t.ax(0, 14)
    >>> box = Bounds()
    >>> box.of(i // 4), box.of(i % 4 - 1), box.of(i // 4 * 4 + i % 4)
    ((0, 3), (-1, 2), (0, 13))
    """

    def __init__(self, ranges: Ranges | None = None) -> None:
        self.ranges = dict(ranges or {})
        self._facts: dict[Term, Span] = {x: (low, high - 1) for x, (low, high) in self.ranges.items()}
        self._known: dict[Term, Span] = {}

    def of(self, term: Term) -> Interval:
        """The closed interval (low, high) of a term; None where it is unbounded. A predicate is 0 or 1."""
        low, high = self.span(term)
        return (int(low) if isinstance(low, int) else None, int(high) if isinstance(high, int) else None)

    def span(self, term: Term) -> Span:
        """The same with infinities for None."""
        found = self._known.get(term)
        if found is not None:
            return found
        for node in postorder(term, done=self._known):
            self._known[node] = widened(self._node(node))
        return self._known[term]

    def under(self, condition: Term) -> Bounds:
        """The intervals where a predicate holds: what it says about single summands is used.

        >>> n = t.var("n")
        >>> Bounds().under(t.logical_and(3 <= n, n < 2 * t.ax(0, 8))).of(n)
        (3, 13)
        >>> Bounds({n: (0, 9)}).under(n != 0).of(n)
        (1, 8)
        """
        inner = Bounds(self.ranges)
        inner._facts = dict(self._facts)
        for part in conjuncts(condition):
            if part.op in ("lt", "le", "eq") and part.args[0].dtype == INDEX:
                a, b = part.args
                slack = t.linear(-1 if part.op == "lt" else 0, [(1, b), (-1, a)])
                inner._tighten(slack)
                if part.op == "eq":
                    inner._tighten(t.linear(0, [(-1, slack)]))
            elif part.op == "ne" and part.args[0].dtype == INDEX:  # an end of a range that is left out
                b, a = part.args
                for slack in (t.linear(0, [(1, b), (-1, a)]), t.linear(0, [(1, a), (-1, b)])):
                    if inner.span(slack)[0] == 0:
                        inner._tighten(t.linear(-1, [(1, slack)]))
        return inner

    def facts(self) -> dict[Term, tuple[int, int]]:
        """The given and derived half-open ranges, those that are bounded on both sides."""
        spans = {x: (low, high) for x, (low, high) in self._facts.items()}
        return {
            x: (low, high + 1) for x, (low, high) in spans.items() if isinstance(low, int) and isinstance(high, int)
        }

    def half_open(self) -> dict[Term, tuple[End, End]]:
        """The given and derived ranges with infinities where one end is open: what another box can be built from."""
        return {x: (low, high + 1) for x, (low, high) in self._facts.items() if (low, high) != ALL}

    def _tighten(self, slack: Term) -> None:
        """Use slack >= 0 on each summand."""
        constant, parts = t.linear_parts(slack)
        for c, x in parts:
            rest: End = constant
            for d, y in parts:
                rest = rest if y is x else plus(rest, max(times(d, e) for e in self.span(y)))
            if not isinstance(rest, int):
                continue
            low, high = self.span(x)
            low, high = (max(low, -(rest // c)), high) if c > 0 else (low, min(high, rest // -c))
            if low <= high:
                self._facts[x] = (low, high)
                self._known.clear()

    def _node(self, node: Term) -> Span:
        computed = self._computed(node)
        given = self._facts.get(node)
        if given is None:
            return computed
        low, high = meet(computed, given)
        return (low, high) if low <= high else ALL

    def _computed(self, node: Term) -> Span:
        if is_float(node.dtype):
            return ALL
        op, args = node.op, [self._known[a] for a in node.args]
        if op == "const":
            return constant_span(node)
        if op in ("axis", "var"):
            return (0, args[0][1] - 1) if args and args[0][0] >= 1 else ALL
        if op == "sym":
            return symbol_span(node)
        if op in t.COMPARE:
            return self._comparison(op, node.args[0], node.args[1])
        if op in ("and", "or"):
            choose = min if op == "and" else max
            return choose(a[0] for a in args), choose(a[1] for a in args)
        if op == "not":
            return 1 - args[0][1], 1 - args[0][0]
        if op == "load":
            return table_span(node, args)
        if op == "where":
            taken = args[1:] if args[0][0] != args[0][1] else [args[1] if args[0][0] == 1 else args[2]]
            return min(a[0] for a in taken), max(a[1] for a in taken)
        if op == "given":
            return args[1]
        if op == "sum":
            return self._sum(node)
        span = operation_span(node, args)
        return span if node.dtype == INDEX else wrapped(span, node.dtype)

    def _sum(self, node: Term) -> Span:
        constant, parts = t.linear_parts(node)
        low, high = self._linear(constant, parts)
        merged = _merge_digits(node)
        if merged is not node:
            low, high = meet((low, high), self.span(merged))
        if high == math.inf:
            high = self._through_extents(node)
        if low == -math.inf:
            low = -self._through_extents(t.linear(0, [(-1, node)]))
        return low, high

    def _linear(self, constant: int, parts: Sequence[tuple[int, Term]]) -> Span:
        low: End = constant
        high: End = constant
        for c, x in parts:
            ends = [times(c, e) for e in self.span(x)]
            low, high = plus(low, min(ends)), plus(high, max(ends))
        return low, high

    def _through_extents(self, term: Term) -> End:
        """An upper bound found by replacing each unbounded axis by its extent - 1, where the term grows with it."""
        constant, parts = t.linear_parts(term)
        replaced: list[tuple[int, list[Term]]] = []
        changed = False
        for c, x in parts:
            factors = list(x.args) if x.op == "prod" else [x]
            grows = c > 0 and all(self.span(f)[0] >= 0 for f in factors)
            if grows and any(self._is_open(f) for f in factors):
                factors = [t.add(f.args[0], -1) if self._is_open(f) else f for f in factors]
                changed = True
            replaced.append((c, factors))
        if not changed:
            return math.inf
        largest = t.linear(constant, [(c, t.distributed(*factors)) for c, factors in replaced])
        return self._linear(*t.linear_parts(largest))[1]

    def _is_open(self, factor: Term) -> bool:
        """An axis bounded only by a symbolic extent of at least 1."""
        return factor.op in ("axis", "var") and bool(factor.args) and self.span(factor) == (0, math.inf)

    def _comparison(self, op: str, a: Term, b: Term) -> Span:
        if a.dtype == INDEX:
            low, high = self.span(t.linear(0, [(1, b), (-1, a)]))
        elif is_int(a.dtype) or a.dtype == BOOL:
            (al, ah), (bl, bh) = self.span(a), self.span(b)
            low, high = bl - ah, bh - al
        else:
            return 0, 1
        if op == "lt":
            return int(low > 0), int(high > 0)
        if op == "le":
            return int(low >= 0), int(high >= 0)
        never, always = low > 0 or high < 0, low == 0 and high == 0
        if op == "ne":
            never, always = always, never
        return int(always), int(not never)


def _merge_digits(node: Term) -> Term:
    """The sum with `x // c * c + x % c` written as x, and `x - x // c * c` as `x % c`."""
    constant, parts = t.linear_parts(node)
    table = {x: c for c, x in parts}
    for c, x in parts:
        size = t.int_value(x.args[1]) if x.op == "floordiv" else None
        if size is None or size == 0:
            continue
        inner = x.args[0]
        rest = t.binary("mod", inner, size)
        digit = table.get(rest)
        if digit is not None and c == digit * size:
            return t.linear(constant, [*parts, (-c, x), (-digit, rest), (digit, inner)])
        _, inner_parts = t.linear_parts(inner)
        scale = _scale_of(inner_parts, table)
        if scale is not None and c == -scale * size:
            return t.linear(constant, [*parts, (-c, x), (-scale, inner), (scale, rest)])
    return node


def _scale_of(inner: Sequence[tuple[int, Term]], table: Mapping[Term, int]) -> int | None:
    """The k for which a sum contains k times the inner sum, if it contains a multiple of all its summands."""
    if not inner:
        return None
    c, x = inner[0]
    whole = table.get(x)
    if whole is None or whole % c:
        return None
    scale = whole // c
    return scale if scale and all(table.get(y) == scale * d for d, y in inner) else None


def bounds(term: Term, ranges: Ranges | None = None) -> Interval:
    """The closed interval of a term's values; None where it is unbounded or nothing is known.

    >>> i, n = t.ax(0, 16), t.sym("N")
    >>> bounds(3 - i // 4), bounds(t.ax(1, n)), bounds(t.ax(1, n) - n)
    ((0, 3), (0, None), (None, -1))
    >>> bounds(t.var("k") % 8 - 8, {t.var("k"): (0, 4)})
    (-8, -5)
    """
    return Bounds(ranges).of(term)


def overflowing(term: Term, ranges: Ranges | None = None, bits: int = INT32) -> Term | None:
    """A subterm of index type that may leave the signed integers of this width, or None if all fit.

    Sums count with every partial sum and product, in whatever order they are computed.
    """
    box = Bounds(ranges)
    limit = 1 << (bits - 1)
    for node in postorder(term, done=_hidden_extents(term, box.ranges)):
        if node.dtype != INDEX:
            continue
        low, high = box.span(node)
        if node.op == "sum":
            constant, parts = t.linear_parts(node)
            ends = [(min(e), max(e)) for e in ([times(c, x) for x in box.span(a)] for c, a in parts)]
            low = sum((min(0, e[0]) for e in ends), start=min(0, constant))
            high = sum((max(0, e[1]) for e in ends), start=max(0, constant))
            if any(not -limit <= c < limit for c, _ in parts):
                return node
        elif node.op == "prod":
            size: End = 1
            for a in node.args:
                size = times(size, max(1, *(abs(e) for e in box.span(a))))
            low, high = max(low, -size), max(high, size)
        if not (-limit <= low and high < limit):
            return node
    return None


def _hidden_extents(term: Term, ranges: Ranges) -> set[Term]:
    """The extents of axes whose range is given: nothing computes them."""
    return {a for node in postorder(term) if node in ranges and node.op in ("axis", "var") for a in node.args}


def fits_int32(term: Term, ranges: Ranges | None = None) -> bool:
    """Whether every subterm of index type fits 32-bit signed integers, not only the value.

    >>> i = t.ax(0, 1 << 20)
    >>> fits_int32(i * 1024), fits_int32(i * 4096 // 4096)
    (True, False)
    """
    return overflowing(term, ranges) is None


def narrow(condition: Term, ranges: Ranges | None = None) -> dict[Term, tuple[int, int]]:
    """The ranges, tightened by what a predicate says about single summands; for use under that guard only.

    >>> i = t.ax(0, 16)
    >>> narrow(t.logical_and(2 <= i, 2 * i < 9))[i]
    (2, 5)
    """
    return Bounds(ranges).under(condition).facts()
