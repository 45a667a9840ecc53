"""Bringing inverses and padding conditions into the form in which they are shown.

Most of what the solver makes is in normal form already, and most conditions are decided by their interval; the
registered simplifier sees only the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd

from eqsat.ir.decide import decider
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, nodes_of
from eqsat.rewriting.rewrite import spell

LARGE_XOR = 12  # nodes: an xor of more comes from elimination over bits, which spells it


def tidy(terms: Sequence[Term], box: Mapping[Term, tuple[int, int]]) -> list[Term]:
    """Terms over a box of half-open ranges in normal form, unless that is longer.

    >>> p, q = t.var("p"), t.var("q")
    >>> [str(x) for x in tidy([(4 * p + q) // 4, 17 <= 4 * p + q], {p: (0, 4), q: (0, 4)})]
    ['p', 'False']
    """
    box = {x: (low, stop) for x, (low, stop) in box.items() if stop > low}
    limits = Bounds(box)
    settled = [_decided(x, limits) if x.dtype == BOOL else x if _is_settled(x, limits) else None for x in terms]
    left = [x for x, done in zip(terms, settled, strict=True) if done is None]
    normal = decider().simplify(left, box) if left else []
    rest = iter(x if dag_size(x) < dag_size(new) else new for x, new in zip(left, normal, strict=True))
    return [next(rest) if done is None else done for done in settled]


def _decided(claim: Term, limits: Bounds) -> Term | None:
    """A claim that its interval decides, or that is in normal form once it is shortened."""
    ends = limits.of(claim)
    if ends[0] == ends[1]:
        return t.bool_const(bool(ends[0]))
    if nodes_of("bitxor", claim):
        return claim if dag_size(claim) > LARGE_XOR else None
    if claim.op not in ("lt", "le", "ne") or claim.args[0].dtype != INDEX:
        return None
    difference = t.sub(claim.args[1], claim.args[0])
    single = claim.op == "ne" and len(t.linear_parts(difference)[1]) < 2
    if single or not _is_settled(difference, limits):
        return None
    return spell(claim if claim.op == "ne" else _shorter(claim, limits))


def _shorter(claim: Term, limits: Bounds) -> Term:
    """A comparison of a sum with a number, without common factors, quotients, and rests that do not count."""
    difference = t.sub(claim.args[1], claim.args[0])
    least = int(claim.op == "lt")
    falling = all(c < 0 for c, _ in t.linear_parts(difference)[1])
    if falling:  # x >= least as not -x >= 1 - least
        difference, least = difference * -1, 1 - least
    x, least = _at_least(difference, least, limits)
    shorter = t.compare("le", t.index_const(least), x)
    return t.logical_not(shorter) if falling else shorter


def _at_least(x: Term, least: int, limits: Bounds) -> tuple[Term, int]:
    """x >= least as a comparison of the same kind of a shorter term."""
    while True:
        constant, parts = t.linear_parts(x)
        common = max(gcd(*(c for c, _ in parts)), 1)
        least = -((constant - least) // common)
        parts = [(c // common, part) for c, part in parts]
        x = t.linear(0, parts)
        number = t.int_value(x.args[1]) if x.op == "floordiv" else None
        if number is not None and number > 0:
            x = x.args[0]
            least *= number
            continue
        step = _step(x, least, limits)
        if step is None:
            return x, least
        x = t.linear(0, [(c // step, part) for c, part in parts if c % step == 0])
        least //= step


def _step(x: Term, least: int, limits: Bounds) -> int | None:
    """A divisor of the bound such that what a sum holds besides its multiples lies below it, and so does not count."""
    parts = t.linear_parts(x)[1]
    for step in {abs(c) for c, _ in parts} - {1}:
        low, high = limits.of(t.linear(0, [(c, part) for c, part in parts if c % step]))
        if least % step == 0 and low is not None and high is not None and low >= 0 and high < step:
            return step
    return None


def _is_settled(term: Term, limits: Bounds) -> bool:
    """Whether an index term is known to be in normal form: a sum of digits of different variables that have more than
    one value each, or a large xor."""
    if nodes_of("bitxor", term):
        return dag_size(term) > LARGE_XOR
    seen: set[Term] = set()
    for _, part in t.linear_parts(term)[1]:
        source = _digit_source(part, limits)
        if source is None or source in seen:
            return False
        seen.add(source)
    return True


def _digit_source(part: Term, limits: Bounds) -> Term | None:
    """The variable of x, x // a, x % b or x // a % b, none of whose steps is idle."""
    steps = ("mod", "floordiv")
    for op in steps:
        if part.op != op:
            continue
        number = t.int_value(part.args[1])
        high = limits.of(part.args[0])[1]
        if number is None or number < 2 or high is None or high < number:
            return None
        part = part.args[0]
    low, high = limits.of(part)
    varies = low is not None and high is not None and low < high
    return part if part.op in ("var", "axis") and varies else None
