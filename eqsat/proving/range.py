"""Intervals of index terms over the variables of a question: quick decisions, bit widths, and overflow guards."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from eqsat.ir.dtypes import INDEX, is_float
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.ranges.intervals import ALL, Span
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, postorder, transform
from eqsat.proving.question import Question, Range, Variable, same

MOST_RUNS = 4
MOST_BITS = 4096  # of a bound: a product beyond has none


class _Claimed(Bounds):
    """Bounds in which a variable has the range of the question, whatever its own extent says."""

    def _computed(self, node: Term) -> Span:
        return ALL if node in self.ranges else super()._computed(node)

    def _is_open(self, factor: Term) -> bool:
        return factor not in self.ranges and super()._is_open(factor)


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


def variable_ranges(question: Question) -> dict[Term, Range]:
    """The closed interval of every variable."""
    return {v.leaf: (v.start, None if v.stop is None else v.stop - 1) for v in question.variables}


def _box(variables: Mapping[Term, Range]) -> Bounds:
    ends = ((x, -math.inf if a is None else a, math.inf if b is None else b + 1) for x, (a, b) in variables.items())
    return _Claimed({x: (low, high) for x, low, high in ends})


def intervals(roots: Sequence[Term], variables: Mapping[Term, Range]) -> dict[Term, Range]:
    """The closed interval of every index subterm (None: no bound); valid wherever the term is defined.

    >>> from eqsat.ir.terms.term import var
    >>> i = var("i")
    >>> intervals([i // 4 + 1], {i: (0, 15)})[i // 4 + 1]
    (1, 4)
    """
    box = _box(variables)
    return {node: box.of(node) for node in postorder(*roots) if node.dtype == INDEX}


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


def _compare(node: Term, box: Bounds) -> Term | None:
    a, b = node.args
    low, high = box.of(b - a)
    if node.op in ("lt", "le"):
        least = 1 if node.op == "lt" else 0
        if low is not None and low >= least:
            return t.TRUE
        return t.FALSE if high is not None and high < least else None
    apart = (low is not None and low > 0) or (high is not None and high < 0)
    if apart:
        return t.bool_const(node.op == "ne")
    return t.bool_const(node.op == "eq") if low == high == 0 else None


def settle(term: Term, box: Bounds) -> Term:
    """The predicate with every comparison folded that linear forms and intervals decide (valid where it is defined)."""

    def change(node: Term) -> Term | None:
        if node.op in t.COMPARE and node.args[0].dtype == INDEX:
            return _compare(node, box)
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


def _bound(fact: Term, leaves: Container[Term]) -> tuple[Term, Range] | None:
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
        box = _box(variable_ranges(question))
        table = {v.leaf: v for v in question.variables}
        facts: dict[Term, None] = {}
        for fact in question.facts:
            for part in conjuncts(settle(fact, box)):
                bound = _bound(part, table)
                if bound is not None:
                    table[bound[0]] = _meet(table[bound[0]], bound[1])
                elif part is not t.TRUE:
                    facts[part] = None
        goal = t.logical_and(*(p for p in conjuncts(settle(question.goal, box)) if p not in facts))
        changed = tuple(table.values()) != question.variables
        question = replace(question, variables=tuple(table.values()), facts=tuple(facts), goal=goal)
        if not changed:
            break
    return question
