"""Interval analysis of terms: the least and greatest value an index term can take, without overflow and without search.

Every answer is sound for the values that are defined; nothing is known (None) where an interval is unbounded. An axis
whose extent may be 0 has no bounds: on an empty box every statement holds, so none may be used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import cast

import numpy as np

from eqsat.ir import term as t
from eqsat.ir.dtypes import BOOL, INDEX, is_float, is_int
from eqsat.ir.tables import Table
from eqsat.ir.term import Term
from eqsat.ir.walk import postorder

Interval = tuple[int | None, int | None]
Ranges = Mapping[Term, tuple[int, int]]
INT32 = 32

_End = int | float  # an int, or an infinity
_Span = tuple[_End, _End]
_ALL: _Span = (-math.inf, math.inf)


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
        self._facts: dict[Term, _Span] = {x: (low, high - 1) for x, (low, high) in self.ranges.items()}
        self._known: dict[Term, _Span] = {}

    def of(self, term: Term) -> Interval:
        """The closed interval (low, high) of a term; None where it is unbounded. A predicate is 0 or 1."""
        low, high = self.span(term)
        return (int(low) if isinstance(low, int) else None, int(high) if isinstance(high, int) else None)

    def span(self, term: Term) -> _Span:
        """The same with infinities for None."""
        for node in postorder(term, done=self._known):
            self._known[node] = self._node(node)
        return self._known[term]

    def under(self, condition: Term) -> Bounds:
        """The intervals where a predicate holds: what it says about single summands is used.

        >>> n = t.var("n")
        >>> Bounds().under(t.logical_and(3 <= n, n < 2 * t.ax(0, 8))).of(n)
        (3, 13)
        """
        inner = Bounds(self.ranges)
        inner._facts = dict(self._facts)
        for part in condition.args if condition.op == "and" else (condition,):
            if part.op in ("lt", "le", "eq") and part.args[0].dtype == INDEX:
                a, b = part.args
                slack = t.linear(-1 if part.op == "lt" else 0, [(1, b), (-1, a)])
                inner._tighten(slack)
                if part.op == "eq":
                    inner._tighten(t.linear(0, [(-1, slack)]))
        return inner

    def facts(self) -> dict[Term, tuple[int, int]]:
        """The given and derived half-open ranges, those that are bounded on both sides."""
        spans = {x: (low, high) for x, (low, high) in self._facts.items()}
        return {
            x: (low, high + 1) for x, (low, high) in spans.items() if isinstance(low, int) and isinstance(high, int)
        }

    def half_open(self) -> dict[Term, tuple[_End, _End]]:
        """The given and derived ranges with infinities where one end is open: what another box can be built from."""
        return {x: (low, high + 1) for x, (low, high) in self._facts.items() if (low, high) != _ALL}

    def _tighten(self, slack: Term) -> None:
        """Use slack >= 0 on each summand."""
        constant, parts = t.linear_parts(slack)
        for c, x in parts:
            rest = constant + sum(max(_times(d, e) for e in self.span(y)) for d, y in parts if y is not x)
            if not isinstance(rest, int):
                continue
            low, high = self.span(x)
            low, high = (max(low, -(rest // c)), high) if c > 0 else (low, min(high, rest // -c))
            if low <= high:
                self._facts[x] = (low, high)
                self._known.clear()

    def _node(self, node: Term) -> _Span:
        computed = self._computed(node)
        given = self._facts.get(node)
        if given is None:
            return computed
        low, high = _meet(computed, given)
        return (low, high) if low <= high else _ALL

    def _computed(self, node: Term) -> _Span:
        if is_float(node.dtype):
            return _ALL
        op, args = node.op, [self._known[a] for a in node.args]
        if op == "const":
            return _constant(node)
        if op in ("axis", "var"):
            return (0, args[0][1] - 1) if args and args[0][0] >= 1 else _ALL
        if op == "sym":
            return _symbol(node)
        if op in t.COMPARE:
            return self._comparison(op, node.args[0], node.args[1])
        if op in ("and", "or"):
            choose = min if op == "and" else max
            return choose(a[0] for a in args), choose(a[1] for a in args)
        if op == "not":
            return 1 - args[0][1], 1 - args[0][0]
        if op == "load":
            return _load(node, args)
        if op == "where":
            taken = args[1:] if args[0][0] != args[0][1] else [args[1] if args[0][0] == 1 else args[2]]
            return min(a[0] for a in taken), max(a[1] for a in taken)
        if op == "given":
            return args[1]
        if op == "sum":
            return self._sum(node)
        span = _strict(node, args)
        return span if node.dtype == INDEX else _wrapped(span, node.dtype)

    def _sum(self, node: Term) -> _Span:
        constant, parts = t.linear_parts(node)
        low, high = self._linear(constant, parts)
        merged = _merge_digits(node)
        if merged is not node:
            low, high = _meet((low, high), self.span(merged))
        if high == math.inf:
            high = self._through_extents(node)
        if low == -math.inf:
            low = -self._through_extents(t.linear(0, [(-1, node)]))
        return low, high

    def _linear(self, constant: int, parts: Sequence[tuple[int, Term]]) -> _Span:
        low: _End = constant
        high: _End = constant
        for c, x in parts:
            ends = [_times(c, e) for e in self.span(x)]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def _through_extents(self, term: Term) -> _End:
        """An upper bound found by replacing each unbounded axis by its extent - 1, where the term grows with it."""
        constant, parts = t.linear_parts(term)
        replaced: list[tuple[int, Term]] = []
        changed = False
        for c, x in parts:
            factors = list(x.args) if x.op == "prod" else [x]
            grows = c > 0 and all(self.span(f)[0] >= 0 for f in factors)
            if grows and any(_is_open(f, self) for f in factors):
                factors = [t.add(f.args[0], -1) if _is_open(f, self) else f for f in factors]
                changed = True
            replaced.append((c, _expand(factors)))
        if not changed:
            return math.inf
        largest = t.linear(constant, replaced)
        return self._linear(*t.linear_parts(largest))[1]

    def _comparison(self, op: str, a: Term, b: Term) -> _Span:
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


def _is_open(factor: Term, box: Bounds) -> bool:
    """An axis bounded only by a symbolic extent of at least 1."""
    return factor.op in ("axis", "var") and bool(factor.args) and box.span(factor) == (0, math.inf)


def _expand(factors: Sequence[Term]) -> Term:
    """The product, distributed over sums while it is small."""
    total = t.index_const(1)
    for f in factors:
        (c, left), (d, right) = t.linear_parts(total), t.linear_parts(f)
        parts = [(p * q, t.product((x, y))) for p, x in left for q, y in right]
        parts += [(p * d, x) for p, x in left] + [(c * q, y) for q, y in right]
        total = t.linear(c * d, parts) if len(parts) <= 64 else t.product((total, f))
    return total


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


def _meet(a: _Span, b: _Span) -> _Span:
    return max(a[0], b[0]), min(a[1], b[1])


def _constant(node: Term) -> _Span:
    if node.dtype == INDEX:
        return node.payload, node.payload
    if node.dtype == BOOL or is_int(node.dtype):
        value = int(t.const_value(node))
        return value, value
    return _ALL


def _symbol(node: Term) -> _Span:
    _, lower, upper, multiple = node.payload
    low = -math.inf if lower is None else -(-lower // multiple) * multiple
    high = math.inf if upper is None else upper // multiple * multiple
    return (low, high) if low <= high else _ALL


def _dtype_span(dtype: str) -> _Span:
    if dtype == BOOL:
        return 0, 1
    if is_int(dtype):
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    return _ALL


def _wrapped(span: _Span, dtype: str) -> _Span:
    """What fixed-width arithmetic makes of an exact interval."""
    low, high = _dtype_span(dtype)
    return span if low <= span[0] and span[1] <= high else (low, high)


def _load(node: Term, args: Sequence[_Span]) -> _Span:
    source = node.payload
    if not isinstance(source, Table):
        return _dtype_span(node.dtype)
    low, high = max(0, args[0][0]), min(len(source.array) - 1, args[0][1])
    if low > high:
        return _ALL
    cells = source.array[int(low) : int(high) + 1]
    return int(cells.min()), int(cells.max())


def _times(a: _End, b: _End) -> _End:
    return 0 if a == 0 or b == 0 else a * b


def _corners(op: Callable[[_End, _End], _End], a: _Span, b: _Span) -> _Span:
    values = [op(p, q) for p, q in product(a, b)]
    return min(values), max(values)


def _hull(spans: Sequence[_Span]) -> _Span:
    return (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else _ALL


def _strict(node: Term, args: Sequence[_Span]) -> _Span:
    op = node.op
    if op in ("add", "sub", "mul", "min", "max"):
        return _arithmetic(op, args[0], args[1])
    if op == "prod":
        return _power_product(node, args)
    if op in ("floordiv", "truncdiv"):
        return _quotient(op, args[0], args[1])
    if op == "mod":
        return (0, 0) if _is_multiple(node.args[0], t.int_value(node.args[1])) else _modulo(args[0], args[1])
    if op == "truncmod":
        return _truncated_modulo(args[0], args[1])
    if op == "neg":
        return -args[0][1], -args[0][0]
    if op == "abs":
        low, high = args[0]
        least = 0 if low <= 0 <= high else min(abs(low), abs(high))
        return least, max(abs(low), abs(high))
    if op in ("bitand", "bitor", "bitxor"):
        return _bits(op, args[0], args[1])
    if op == "bitnot":
        return -args[0][1] - 1, -args[0][0] - 1
    if op in ("shl", "shr"):
        return _shifted(op, args[0], args[1])
    if op == "ramp":
        return _hull_sum(args[0], args[1], node.payload - 1)
    if op == "cast":
        return _cast(node, args[0])
    return _dtype_span(node.dtype)


def _arithmetic(op: str, a: _Span, b: _Span) -> _Span:
    if op == "add":
        return a[0] + b[0], a[1] + b[1]
    if op == "sub":
        return a[0] - b[1], a[1] - b[0]
    if op == "mul":
        return _corners(_times, a, b)
    choose = min if op == "min" else max
    return choose(a[0], b[0]), choose(a[1], b[1])


def _hull_sum(base: _Span, stride: _Span, steps: int) -> _Span:
    ends = (0, *(_times(s, steps) for s in stride))
    return base[0] + min(ends), base[1] + max(ends)


def _power_product(node: Term, args: Sequence[_Span]) -> _Span:
    """Equal factors stand together; an even power is not negative."""
    total: _Span = (1, 1)
    counts: dict[Term, int] = {}
    spans = dict(zip(node.args, args, strict=True))
    for factor in node.args:
        counts[factor] = counts.get(factor, 0) + 1
    for factor, count in counts.items():
        power: _Span = (1, 1)
        for _ in range(count):
            power = _corners(_times, power, spans[factor])
        if count % 2 == 0:
            low, high = spans[factor]
            least: _End = 0 if low <= 0 <= high else min(abs(low), abs(high))
            floor: _End = 1
            for _ in range(count):
                floor = _times(floor, least)
            power = (floor, power[1])
        total = _corners(_times, total, power)
    return total


def _is_multiple(term: Term, number: int | None) -> bool:
    """Whether a sum is a multiple of a number by its factors and by what its symbols are multiples of.

    >>> _is_multiple(6 * t.sym("N", multiple_of=4) - 8, 8), _is_multiple(2 * t.sym("N", multiple_of=4) - 4, 8)
    (True, False)
    """
    if number is None or number == 0:
        return False
    constant, parts = t.linear_parts(term)
    sizes = [constant]
    for c, x in parts:
        for factor in x.args if x.op == "prod" else (x,):
            c *= factor.payload[3] if factor.op == "sym" else 1
        sizes.append(c)
    return all(size % number == 0 for size in sizes)


def _signs(b: _Span) -> list[_Span]:
    """The divisors below and above zero."""
    parts: list[_Span] = []
    if b[0] < 0:
        parts.append((b[0], min(b[1], -1)))
    if b[1] > 0:
        parts.append((max(b[0], 1), b[1]))
    return parts


def _quotient(op: str, a: _Span, b: _Span) -> _Span:
    def divide(p: _End, q: _End) -> _End:
        if isinstance(p, int) and isinstance(q, int):
            return cast(int, t.fold_index(op, p, q))
        if not isinstance(p, int):
            return p if q > 0 else -p
        return 0 if op == "truncdiv" or p == 0 or (p > 0) == (q > 0) else -1

    return _hull([_corners(divide, a, part) for part in _signs(b)])


def _modulo(a: _Span, b: _Span) -> _Span:
    spans: list[_Span] = []
    for low, high in _signs(b):
        if low > 0:
            inside = a[0] >= 0 and a[1] < low
            one_block = (
                low == high and isinstance(a[0], int) and isinstance(a[1], int) and isinstance(low, int)
                and a[0] // low == a[1] // low
            )  # fmt: skip
            if inside:
                spans.append(a)
            elif one_block:
                spans.append((cast(int, a[0]) % cast(int, low), cast(int, a[1]) % cast(int, low)))
            else:
                spans.append((0, min(high - 1, a[1]) if a[0] >= 0 else high - 1))
        else:
            spans.append((low + 1, 0))
    return _hull(spans)


def _truncated_modulo(a: _Span, b: _Span) -> _Span:
    most = max((abs(e) for part in _signs(b) for e in part), default=math.inf) - 1
    return (0 if a[0] >= 0 else max(a[0], -most), 0 if a[1] <= 0 else min(a[1], most))


def _width(spans: Sequence[_Span]) -> int | None:
    """The bits that hold every value but the sign; None where one is unbounded."""
    width = 0
    for end in (e for s in spans for e in s):
        if not isinstance(end, int):
            return None
        width = max(width, (end if end >= 0 else ~end).bit_length())
    return width


def _bits(op: str, a: _Span, b: _Span) -> _Span:
    if op == "bitor":  # by De Morgan
        low, high = _bits("bitand", (-a[1] - 1, -a[0] - 1), (-b[1] - 1, -b[0] - 1))
        tight: _Span = (-high - 1, -low - 1)
    elif op == "bitand":
        negative = a[0] < 0 and b[0] < 0
        width = _width([a, b])
        low = (-math.inf if width is None else -(1 << width)) if negative else 0
        highs = [min(a[1], b[1])] if a[1] >= 0 and b[1] >= 0 else []
        highs += [a[1]] if a[1] >= 0 and b[0] < 0 else []
        highs += [b[1]] if b[1] >= 0 and a[0] < 0 else []
        highs += [min(a[1], b[1], -1)] if negative and not highs else []
        tight = (low, max(highs))
    else:
        width = _width([a, b])
        negative = a[0] < 0 or b[0] < 0
        tight = _ALL if width is None else (-(1 << width) if negative else 0, (1 << width) - 1)
        if width is None and not negative:
            tight = (0, math.inf)
    return tight


def _shifted(op: str, a: _Span, b: _Span) -> _Span:
    amounts = (max(0, b[0]), b[1])
    if amounts[1] < 0:
        return _ALL

    def shift(p: _End, s: _End) -> _End:
        if p == 0 or s == 0:
            return p
        if not isinstance(p, int):
            return p if op == "shl" or isinstance(s, int) else (0 if p > 0 else -math.inf)
        if not isinstance(s, int) or s > t.MAX_SHIFT:
            return (math.inf if p > 0 else -math.inf) if op == "shl" else (0 if p > 0 else -1)
        return p << s if op == "shl" else p >> s

    return _corners(shift, a, amounts)


def _cast(node: Term, value: _Span) -> _Span:
    source = node.args[0].dtype
    if node.dtype == INDEX or source == BOOL:
        return value
    if node.dtype == BOOL:
        return (int(value[0] > 0 or value[1] < 0), int(value != (0, 0)))
    return _wrapped(value, node.dtype) if source == INDEX or is_int(source) else _dtype_span(node.dtype)


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
            ends = [(min(e), max(e)) for e in ([_times(c, x) for x in box.span(a)] for c, a in parts)]
            low = sum((min(0, e[0]) for e in ends), start=min(0, constant))
            high = sum((max(0, e[1]) for e in ends), start=max(0, constant))
            if any(not -limit <= c < limit for c, _ in parts):
                return node
        elif node.op == "prod":
            size: _End = 1
            for a in node.args:
                size = size * max(1, *(abs(e) for e in box.span(a)))
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
