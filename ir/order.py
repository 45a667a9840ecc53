"""A well-founded order on the sides of rules, so that rules tagged `normal` cannot run for ever.

It is a recursive path order over one precedence of operations. Constants, and what is computed from constants alone,
are the least elements and all alike; coefficients of a sum do not count, and arguments are compared as a multiset.
"""

from __future__ import annotations

from collections.abc import Collection

from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

_PRECEDENCE = (
    ("sum", "prod", "add", "sub", "mul", "div", "neg", "cast", "load"),
    ("min", "max", "abs", "bitor", "bitxor"),
    ("mod",),
    ("floordiv",),
    ("truncmod",),
    ("truncdiv", "shl", "shr", "bitand", "bitnot"),
    ("lt", "le"),
    ("and", "or"),
    ("eq", "ne"),
    ("not",),
    ("where",),
)
_RANK = {op: rank for rank, ops in enumerate(_PRECEDENCE) for op in ops}


def decreases(left: Term, right: Term, fixed: Collection[Term] = (), turned: Collection[Term] = ()) -> bool:
    """Whether the right side is smaller in every instance; `fixed` variables stand for constants.

    A side that is alike but for constants is smaller too where a negated divisor loses its sign, and where each
    `turned` variable, which stands for a sum of subtracted terms, occurs only subtracted: then these terms are added.

    >>> from eqsat.ir.terms.term import var
    >>> x, c = var("x"), var("c")
    >>> decreases(x // c * c + x % c, x, {c}), decreases(x % c, x - x // c * c, {c})
    (True, False)
    """
    order = _Order(fixed)
    if order.greater(left, right):
        return True
    if not order.same(left, right):
        return False
    if _negated_divisors(left) > _negated_divisors(right):
        return True
    return bool(turned) and all(_only_subtracted(v, right) for v in turned)


def _negated_divisors(term: Term) -> int:
    """How many divisions have a divisor that is written as an opposite."""
    divisors = [n.args[1] for n in postorder(term) if n.op in ("floordiv", "mod", "truncdiv", "truncmod")]
    return sum(d.op == "sum" and d.payload == (0, (-1,)) for d in divisors)


def _only_subtracted(v: Term, term: Term) -> bool:
    """Whether every occurrence of a variable is a summand with a negative coefficient."""
    for node in postorder(term):
        for k, a in enumerate(node.args):
            if a is v and (node.op != "sum" or node.payload[1][k] >= 0):
                return False
    return term is not v


class _Order:
    """The order of one question. Answers are kept: the sides of a rule share subterms, which are met many times."""

    def __init__(self, fixed: Collection[Term]) -> None:
        self.constants = {x.serial: True for x in fixed}
        self.stripped: dict[int, Term] = {}
        self.alike: dict[tuple[int, int], bool] = {}
        self.larger: dict[tuple[int, int], bool] = {}

    def constant(self, x: Term) -> bool:
        known = self.constants.get(x.serial)
        if known is None:
            known = x.op == "const" or (bool(x.args) and x.op != "load" and all(map(self.constant, x.args)))
            self.constants[x.serial] = known
        return known

    def strip(self, x: Term) -> Term:
        """A sum or product of one thing and constants is that thing."""
        known = self.stripped.get(x.serial)
        if known is None:
            known = self.stripped[x.serial] = self._strip(x)
        return known

    def _strip(self, x: Term) -> Term:
        while x.op in ("sum", "prod"):
            rest = [a for a in x.args if not self.constant(a)]
            if len(rest) != 1:
                return x
            x = rest[0]
        return x

    def arguments(self, x: Term) -> list[Term]:
        if x.op not in ("sum", "prod"):
            return [self.strip(a) for a in x.args]
        return [self.strip(a) for a in x.args if not self.constant(a)]

    def same(self, a: Term, b: Term) -> bool:
        """Whether two terms differ at most in constants."""
        a, b = self.strip(a), self.strip(b)
        known = self.alike.get((a.serial, b.serial))
        if known is None:
            known = self.alike[a.serial, b.serial] = self._same(a, b)
        return known

    def _same(self, a: Term, b: Term) -> bool:
        if a is b or (self.constant(a) and self.constant(b)):
            return True
        if a.op != b.op or a.op == "var":
            return False
        below, others = self.arguments(a), self.arguments(b)
        return len(below) == len(others) and all(map(self.same, below, others))

    def greater(self, a: Term, b: Term) -> bool:
        a, b = self.strip(a), self.strip(b)
        known = self.larger.get((a.serial, b.serial))
        if known is None:
            known = self.larger[a.serial, b.serial] = self._greater(a, b)
        return known

    def _greater(self, a: Term, b: Term) -> bool:
        if a.op == "var" or self.constant(a):
            return False
        if self.constant(b):
            return True
        below = self.arguments(a)
        if any(self.same(x, b) or self.greater(x, b) for x in below):
            return True
        if b.op == "var" or _RANK.get(a.op, -1) < _RANK.get(b.op, -1):
            return False
        others = self.arguments(b)
        if not all(self.greater(a, y) for y in others):
            return False
        if a.op != b.op and _RANK.get(a.op, -1) == _RANK.get(b.op, -1) == -1:
            return False
        if _RANK.get(a.op, -1) > _RANK.get(b.op, -1):
            return True
        return self.last_first(below, others) if a.op == b.op == "where" else self.multiset(below, others)

    def last_first(self, xs: list[Term], ys: list[Term]) -> bool:
        for x, y in zip(reversed(xs), reversed(ys), strict=True):
            if not self.same(x, y):
                return self.greater(x, y)
        return False

    def multiset(self, xs: list[Term], ys: list[Term]) -> bool:
        xs, ys = list(xs), list(ys)
        for x in list(xs):
            twin = next((y for y in ys if self.same(x, y)), None)
            if twin is not None:
                _drop(xs, x)
                _drop(ys, twin)
        return bool(xs) and all(any(self.greater(x, y) for x in xs) for y in ys)


def _drop(items: list[Term], item: Term) -> None:
    """Remove one occurrence, by identity (== builds a term)."""
    del items[next(k for k, x in enumerate(items) if x is item)]
