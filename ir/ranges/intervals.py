"""Interval arithmetic: the span of an operation from the spans of its operands, with infinities where one is open."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import cast

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, is_int
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term

End = int | float  # an int, or an infinity
Span = tuple[End, End]
ALL: Span = (-math.inf, math.inf)
LARGEST = 1 << 1000


def meet(a: Span, b: Span) -> Span:
    return max(a[0], b[0]), min(a[1], b[1])


def constant_span(node: Term) -> Span:
    if node.dtype == INDEX:
        return node.payload, node.payload
    if node.dtype == BOOL or is_int(node.dtype):
        value = int(t.const_value(node))
        return value, value
    return ALL


def symbol_span(node: Term) -> Span:
    _, lower, upper, multiple, _ = t.symbol_facts(node)
    low = -math.inf if lower is None else -(-lower // multiple) * multiple
    high = math.inf if upper is None else upper // multiple * multiple
    return (low, high) if low <= high else ALL


def _dtype_span(dtype: str) -> Span:
    if dtype == BOOL:
        return 0, 1
    if is_int(dtype):
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    return ALL


def wrapped(span: Span, dtype: str) -> Span:
    """What fixed-width arithmetic makes of an exact interval."""
    low, high = _dtype_span(dtype)
    return span if low <= span[0] and span[1] <= high else (low, high)


def table_span(node: Term, args: Sequence[Span]) -> Span:
    source = node.payload
    if not isinstance(source, Table):
        return _dtype_span(node.dtype)
    low, high = max(0, args[0][0]), min(len(source.array) - 1, args[0][1])
    if low > high:
        return ALL
    cells = source.array[int(low) : int(high) + 1]
    return int(cells.min()), int(cells.max())


def times(a: End, b: End) -> End:
    if a == 0 or b == 0:
        return 0
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    return math.inf if (a > 0) == (b > 0) else -math.inf  # an infinity times an integer that no float holds, too


def plus(a: End, b: End) -> End:
    return a + b if isinstance(a, int) and isinstance(b, int) else a if isinstance(a, float) else b


def widened(span: Span) -> Span:
    """The span with ends of a magnitude that matters: beyond, nothing is known but the sign.

    >>> widened((5, 1 << 2000))
    (5, inf)
    """
    low, high = span
    if low >= -LARGEST and high <= LARGEST:
        return span
    return (-math.inf if low < -LARGEST else min(low, LARGEST)), (math.inf if high > LARGEST else max(high, -LARGEST))


def _corners(op: Callable[[End, End], End], a: Span, b: Span) -> Span:
    values = [op(p, q) for p, q in product(a, b)]
    return min(values), max(values)


def _hull(spans: Sequence[Span]) -> Span:
    return (min(s[0] for s in spans), max(s[1] for s in spans)) if spans else ALL


def operation_span(node: Term, args: Sequence[Span]) -> Span:
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


def _arithmetic(op: str, a: Span, b: Span) -> Span:
    if op == "add":
        return plus(a[0], b[0]), plus(a[1], b[1])
    if op == "sub":
        return plus(a[0], -b[1]), plus(a[1], -b[0])
    if op == "mul":
        return _corners(times, a, b)
    choose = min if op == "min" else max
    return choose(a[0], b[0]), choose(a[1], b[1])


def _hull_sum(base: Span, stride: Span, steps: int) -> Span:
    ends = (0, *(times(s, steps) for s in stride))
    return plus(base[0], min(ends)), plus(base[1], max(ends))


def _power_product(node: Term, args: Sequence[Span]) -> Span:
    """Equal factors stand together; an even power is not negative."""
    total: Span = (1, 1)
    counts: dict[Term, int] = {}
    spans = dict(zip(node.args, args, strict=True))
    for factor in node.args:
        counts[factor] = counts.get(factor, 0) + 1
    for factor, count in counts.items():
        power: Span = (1, 1)
        for _ in range(count):
            power = widened(_corners(times, power, spans[factor]))
        if count % 2 == 0:
            low, high = spans[factor]
            least: End = 0 if low <= 0 <= high else min(abs(low), abs(high))
            floor: End = 1
            for _ in range(count):
                floor = min(times(floor, least), LARGEST)
            power = (floor, power[1])
        total = widened(_corners(times, total, power))
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
            c *= t.symbol_facts(factor).multiple_of if factor.op == "sym" else 1
        sizes.append(c)
    return all(size % number == 0 for size in sizes)


def _signs(b: Span) -> list[Span]:
    """The divisors below and above zero."""
    parts: list[Span] = []
    if b[0] < 0:
        parts.append((b[0], min(b[1], -1)))
    if b[1] > 0:
        parts.append((max(b[0], 1), b[1]))
    return parts


def _quotient(op: str, a: Span, b: Span) -> Span:
    def divide(p: End, q: End) -> End:
        if isinstance(p, int) and isinstance(q, int):
            return cast(int, t.fold_index(op, p, q))
        if not isinstance(p, int):
            return p if q > 0 else -p
        return 0 if op == "truncdiv" or p == 0 or (p > 0) == (q > 0) else -1

    return _hull([_corners(divide, a, part) for part in _signs(b)])


def _modulo(a: Span, b: Span) -> Span:
    spans: list[Span] = []
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


def _truncated_modulo(a: Span, b: Span) -> Span:
    most = max((abs(e) for part in _signs(b) for e in part), default=math.inf) - 1
    return (0 if a[0] >= 0 else max(a[0], -most), 0 if a[1] <= 0 else min(a[1], most))


def _width(spans: Sequence[Span]) -> int | None:
    """The bits that hold every value but the sign; None where one is unbounded."""
    width = 0
    for end in (e for s in spans for e in s):
        if not isinstance(end, int):
            return None
        width = max(width, (end if end >= 0 else ~end).bit_length())
    return width


def _bits(op: str, a: Span, b: Span) -> Span:
    if op == "bitor":  # by De Morgan
        low, high = _bits("bitand", (-a[1] - 1, -a[0] - 1), (-b[1] - 1, -b[0] - 1))
        tight: Span = (-high - 1, -low - 1)
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
        tight = ALL if width is None else (-(1 << width) if negative else 0, (1 << width) - 1)
        if width is None and not negative:
            tight = (0, math.inf)
    return tight


def _shifted(op: str, a: Span, b: Span) -> Span:
    amounts = (max(0, b[0]), b[1])
    if amounts[1] < 0:
        return ALL

    def shift(p: End, s: End) -> End:
        if p == 0 or s == 0:
            return p
        if not isinstance(p, int):
            return p if op == "shl" or isinstance(s, int) else (0 if p > 0 else -math.inf)
        if not isinstance(s, int) or s > t.MAX_SHIFT:
            return (math.inf if p > 0 else -math.inf) if op == "shl" else (0 if p > 0 else -1)
        return p << s if op == "shl" else p >> s

    return _corners(shift, a, amounts)


def _cast(node: Term, value: Span) -> Span:
    source = node.args[0].dtype
    if node.dtype == INDEX or source == BOOL:
        return value
    if node.dtype == BOOL:
        return (int(value[0] > 0 or value[1] < 0), int(value != (0, 0)))
    return wrapped(value, node.dtype) if source == INDEX or is_int(source) else _dtype_span(node.dtype)
