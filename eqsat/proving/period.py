"""Deciding by periods: where remainders make a claim repeat itself along every axis, one period decides it.

Congruences of polynomials are of this kind, `x**7 % 7 == x % 7`, for which no solver has an answer.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd, lcm

from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.proving.points import UNKNOWN, Answer, enumerate_points, evaluable
from eqsat.proving.question import Question, Variable

MOST_NODES = 300


class _Steps:
    """For one variable: the steps after which terms have changed by a multiple of m, or, for m = 0, not at all."""

    def __init__(self, variable: Term, limit: int) -> None:
        self.variable, self.limit = variable, limit
        self.known: dict[tuple[Term, int], int | None] = {}

    def of(self, node: Term, m: int) -> int | None:
        """Such a step, or None where none is known."""
        if m == 1:
            return 1
        key = node, m
        if key not in self.known:
            self.known[key] = self._of(node, m)
        return self.known[key]

    def _of(self, node: Term, m: int) -> int | None:
        op = node.op
        if node is self.variable:
            return m or None
        if not node.args:
            return 1
        number = t.int_value(node.args[1]) if len(node.args) == 2 and node.dtype == INDEX else None
        if op == "sum":
            return self._all([(a, m // gcd(m, c)) for c, a in zip(node.payload[1], node.args, strict=True)])
        if op == "mod" and number:
            return self.of(node.args[0], abs(number))
        if op == "floordiv" and number:
            return self.of(node.args[0], m * abs(number))
        if op == "shr" and number is not None and 0 <= number <= t.MAX_SHIFT:
            return self.of(node.args[0], m << number)
        if op == "bitand" and number is not None and number >= 0:
            return self.of(node.args[0], 1 << number.bit_length())
        same_below = op == "prod" or (op in ("bitand", "bitor", "bitxor") and m & (m - 1) == 0)
        return self._all([(a, m if same_below and node.dtype == INDEX else 0) for a in node.args])

    def _all(self, parts: list[tuple[Term, int]]) -> int | None:
        step = 1
        for a, m in parts:
            own = self.of(a, m)
            if own is None:
                return None
            step = lcm(step, own)
            if step > self.limit:
                return None
        return step


def _one_period(question: Question, v: Variable, limit: int) -> Variable | None:
    """The variable over one period of the question, or as it is where that is shorter."""
    steps = _Steps(v.leaf, limit)
    period = v.multiple_of
    for root in (question.goal, *question.facts):
        own = steps.of(root, 0)
        if own is None:
            period = 0
            break
        period = lcm(period, own)
    size = None if v.start is None or v.stop is None else v.stop - v.start
    if period == 0 or (size is not None and size <= period):
        return None if size is None else v
    if v.start is None and v.stop is not None:
        return replace(v, start=v.stop - period)
    start = v.start or 0
    return replace(v, start=start, stop=start + period)


def period_claim(question: Question, limit: int) -> Answer:
    """Decide a claim that repeats itself along all unbounded axes by trying the points of one period.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> from eqsat.proving.question import claim
    >>> period_claim(claim(parse_expr("(x*x*x - x) % 6 == 0"), {}).question, 100)
    Answer(verdict='proved', method='one period', witness=None, second=None, note='6 points')
    """
    if not question.variables or any(v.leaf.dtype != INDEX for v in question.variables):
        return UNKNOWN
    nodes = sum(1 for _ in postorder(*question.roots))
    if nodes > MOST_NODES or not evaluable(question.roots):
        return UNKNOWN
    short = [_one_period(question, v, limit) for v in question.variables]
    variables = tuple(v for v in short if v is not None)
    if len(variables) < len(short):
        return UNKNOWN
    once = replace(question, variables=variables)
    answer = enumerate_points(once, limit)
    return UNKNOWN if answer.verdict == "unknown" else replace(answer, method="one period")
