"""Intervals of index terms over the variables of a question: quick decisions, bit widths, and overflow guards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, is_float, is_int
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder, transform
from eqsat.proving.question import Question, Range, Variable, conjuncts, same

_WIDE: Range = (None, None)
MOST_RUNS = 4
MOST_BITS = 4096  # of a bound: a product beyond has none


def _least(values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return min(known) if len(known) == len(values) else None


def _greatest(values: Sequence[int | None]) -> int | None:
    known = [v for v in values if v is not None]
    return max(known) if len(known) == len(values) else None


def _scale(c: int, r: Range) -> Range:
    low, high = (None if b is None else c * b for b in r)
    return (low, high) if c >= 0 else (high, low)


def _plus(a: Range, b: Range) -> Range:
    low = None if a[0] is None or b[0] is None else a[0] + b[0]
    return low, None if a[1] is None or b[1] is None else a[1] + b[1]


def _times(a: Range, b: Range) -> Range:
    least_known = a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0
    if sum(max(end.bit_length() for end in r if end is not None) for r in (a, b) if r != _WIDE) > MOST_BITS:
        return (0, None) if least_known else _WIDE
    if None in a or None in b:
        return (a[0] * b[0], None) if a[0] is not None and b[0] is not None and least_known else _WIDE
    corners = [x * y for x in a for y in b if x is not None and y is not None]
    return min(corners), max(corners)


def _around(r: Range) -> Range:
    """The least interval around zero that holds this one."""
    if r[0] is None or r[1] is None:
        return _WIDE
    largest = max(abs(r[0]), abs(r[1]))
    return -largest, largest


def _floordiv(a: Range, b: Range) -> Range:
    if b[0] is None or b[0] < 1:
        return _around(a)
    low = None if a[0] is None else a[0] // b[0] if a[0] < 0 else 0 if b[1] is None else a[0] // b[1]
    high = None if a[1] is None else a[1] // b[0] if a[1] >= 0 else -1 if b[1] is None else a[1] // b[1]
    return low, high


def _mod(a: Range, b: Range) -> Range:
    if b[0] is None or b[0] < 1:
        return _around(b)
    if a[0] is not None and a[0] >= 0:
        if a[1] is not None and a[1] < b[0]:
            return a
        tops = [x for x in (a[1], None if b[1] is None else b[1] - 1) if x is not None]
        return 0, min(tops, default=None)
    return 0, None if b[1] is None else b[1] - 1


def _trunc(op: str, a: Range, b: Range) -> Range:
    if a[0] is not None and a[0] >= 0:
        return (_floordiv if op == "truncdiv" else _mod)(a, b)
    return _around(a)


def _bits(op: str, a: Range, b: Range) -> Range:
    if op == "bitand":
        tops = [r[1] for r in (a, b) if r[0] is not None and r[0] >= 0]
        if tops:
            return 0, min((x for x in tops if x is not None), default=None)
    if a[0] is None or b[0] is None or a[1] is None or b[1] is None:
        return _WIDE
    power = 1 << max(abs(end) for end in (a[0], a[1], b[0], b[1])).bit_length()
    return (0 if a[0] >= 0 and b[0] >= 0 else -power), power - 1


def _shift(op: str, a: Range, b: Range) -> Range:
    least = min(t.MAX_SHIFT, max(0, b[0] or 0))
    powers = (1 << least, 1 << max(least, t.MAX_SHIFT if b[1] is None else min(t.MAX_SHIFT, b[1])))
    return _times(a, powers) if op == "shl" else _floordiv(a, powers)


def runs(mask: int) -> list[tuple[int, int]] | None:
    """The runs of set bits of a mask as (lowest bit, length), a few at most: x & mask is the sum of these digits of x.

    >>> runs(0b1101), runs(-1)
    ([(0, 1), (2, 2)], None)
    """
    found: list[tuple[int, int]] = []
    bit = 0
    while mask > 0:
        skipped = (mask & -mask).bit_length() - 1
        mask, bit = mask >> skipped, bit + skipped
        length = (~mask & (mask + 1)).bit_length() - 1
        found.append((bit, length))
        mask, bit = mask >> length, bit + length
    return found if mask == 0 and len(found) <= MOST_RUNS else None


def _data_range(dtype: str) -> Range:
    if dtype == BOOL:
        return 0, 1
    return (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)) if is_int(dtype) else _WIDE


def _interval(node: Term, known: Mapping[Term, Range]) -> Range:
    op = node.op
    if op == "const":
        return node.payload, node.payload
    if op == "cast":
        return _data_range(node.args[0].dtype)
    if op == "load" and isinstance(node.payload, Table):
        array = node.payload.array
        return (int(array.min()), int(array.max())) if array.size else (0, 0)
    args = [known.get(a, _WIDE) for a in node.args]
    if op == "sum":
        constant, coefficients = node.payload
        total: Range = (constant, constant)
        for c, r in zip(coefficients, args, strict=True):
            total = _plus(total, _scale(c, r))
        return total
    if op == "prod":
        result: Range = (1, 1)
        for r in args:
            result = _times(result, r)
        return result
    if op == "floordiv" or op == "mod":
        return (_floordiv if op == "floordiv" else _mod)(args[0], args[1])
    if op in ("truncdiv", "truncmod"):
        return _trunc(op, args[0], args[1])
    if op in ("min", "max"):
        lows, highs = [r[0] for r in args], [r[1] for r in args]
        if op == "min":
            return _least(lows), min((h for h in highs if h is not None), default=None)
        return max((x for x in lows if x is not None), default=None), _greatest(highs)
    if op in ("bitand", "bitor", "bitxor"):
        return _bits(op, args[0], args[1])
    if op in ("shl", "shr"):
        return _shift(op, args[0], args[1])
    if op == "abs":
        low, high = args[0]
        if low is not None and low >= 0:
            return low, high
        return 0, None if low is None or high is None else max(-low, high)
    if op == "where":
        return _least([args[1][0], args[2][0]]), _greatest([args[1][1], args[2][1]])
    return _WIDE


def variable_ranges(question: Question) -> dict[Term, Range]:
    """The closed interval of every variable."""
    return {v.leaf: (v.start, None if v.stop is None else v.stop - 1) for v in question.variables}


def intervals(roots: Sequence[Term], variables: Mapping[Term, Range]) -> dict[Term, Range]:
    """The closed interval of every index subterm (None: no bound); valid wherever the term is defined.

    >>> from eqsat.ir.terms.term import var
    >>> i = var("i")
    >>> intervals([i // 4 + 1], {i: (0, 15)})[i // 4 + 1]
    (1, 4)
    """
    known: dict[Term, Range] = {}
    for node in postorder(*roots):
        if node.dtype == INDEX:
            known[node] = variables[node] if node in variables else _interval(node, known)
    return known


def widest(roots: Sequence[Term], known: Mapping[Term, Range]) -> int | None:
    """A number that no intermediate value of index type exceeds in magnitude, or None."""

    def magnitude(node: Term) -> int | None:
        low, high = known[node]
        return None if low is None or high is None else max(abs(low), abs(high))

    largest = 0
    for node in postorder(*roots):
        if node.dtype != INDEX:
            continue
        own = magnitude(node)
        below = [magnitude(a) for a in node.args if a.dtype == INDEX]
        if own is None or None in below:
            return None
        sizes = [b for b in below if b is not None]
        if node.op == "sum":
            constant, coefficients = node.payload
            own = abs(constant) + sum(abs(c) * m for c, m in zip(coefficients, sizes, strict=True))
        elif node.op == "prod":
            if sum(m.bit_length() for m in sizes) > MOST_BITS:
                return None
            own = 1
            for m in sizes:
                own *= max(1, m)
        largest = max(largest, own, *sizes)
    return largest


def _compare(node: Term, variables: Mapping[Term, Range]) -> Term | None:
    a, b = node.args
    difference = b - a
    low, high = intervals([difference], variables)[difference]
    if node.op in ("lt", "le"):
        least = 1 if node.op == "lt" else 0
        if low is not None and low >= least:
            return t.TRUE
        return t.FALSE if high is not None and high < least else None
    apart = (low is not None and low > 0) or (high is not None and high < 0)
    if apart:
        return t.bool_const(node.op == "ne")
    return t.bool_const(node.op == "eq") if low == high == 0 else None


def settle(term: Term, variables: Mapping[Term, Range]) -> Term:
    """The predicate with every comparison folded that linear forms and intervals decide (valid where it is defined)."""

    def change(node: Term) -> Term | None:
        if node.op in t.COMPARE and node.args[0].dtype == INDEX:
            return _compare(node, variables)
        if node.op in ("eq", "ne") and node.args[0] is node.args[1] and not is_float(node.args[0].dtype):
            return t.bool_const(node.op == "eq")
        if node.op == "same":
            return same(node.args[0], node.args[1])
        return _fold(node)

    return transform(term, change)


def _fold(node: Term) -> Term | None:
    """A data operation on constants as numpy computes it in that type."""
    if not node.args or node.dtype == INDEX or any(a.op != "const" for a in node.args):
        return None
    if node.op in ("load", "load_ok", "hole") or any(a.dtype == INDEX for a in node.args):
        return None
    value, bad = evaluate_masked([node], {})[0]
    return None if bad is not None else t.const(value[()], node.dtype)


def _bound(fact: Term, leaves: Mapping[Term, Range]) -> tuple[Term, Range] | None:
    """The variable and the range that a fact about one variable gives it."""
    if fact.op not in ("lt", "le", "eq") or fact.args[0].dtype != INDEX:
        return None
    constant, parts = t.linear_parts(fact.args[1] - fact.args[0])
    if len(parts) != 1 or parts[0][1] not in leaves:
        return None
    c, leaf = parts[0]
    if fact.op == "eq":
        return (leaf, (-constant // c, -constant // c)) if constant % c == 0 else None
    slack = constant - (1 if fact.op == "lt" else 0)  # slack + c * leaf >= 0
    return (leaf, (-(slack // c), None)) if c > 0 else (leaf, (None, slack // -c))


def _meet(v: Variable, r: Range) -> Variable:
    start = max((x for x in (v.start, r[0]) if x is not None), default=None)
    stop = min((x for x in (v.stop, None if r[1] is None else r[1] + 1) if x is not None), default=None)
    return Variable(v.leaf, start, stop, v.multiple_of)


def settled(question: Question) -> Question:
    """The question with folded goal and facts; a fact that bounds one variable becomes its range.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> from eqsat.proving.question import claim
    >>> str(settled(claim(parse_expr("x // 4 < 2"), {}, parse_expr("0 <= x and x < 8")).question).goal)
    'True'
    """
    for _ in range(4):
        variables = variable_ranges(question)
        table = {v.leaf: v for v in question.variables}
        facts: dict[Term, None] = {}
        for fact in question.facts:
            for part in conjuncts(settle(fact, variables)):
                bound = _bound(part, variables)
                if bound is not None:
                    table[bound[0]] = _meet(table[bound[0]], bound[1])
                elif part is not t.TRUE:
                    facts[part] = None
        goal = t.logical_and(*(p for p in conjuncts(settle(question.goal, variables)) if p not in facts))
        changed = tuple(table.values()) != question.variables
        question = replace(question, variables=tuple(table.values()), facts=tuple(facts), goal=goal)
        if not changed:
            break
    return question
