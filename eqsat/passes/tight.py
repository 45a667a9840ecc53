"""Conjunctions without what bounds say anyway: the cells that a long row of writes leaves are a short condition, which
nobody has to prove."""

from __future__ import annotations

import math
from functools import lru_cache

from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts
from eqsat.proving.question import definedness

Form = tuple[tuple[int, int], ...]


@lru_cache(maxsize=1 << 14)
def tight(condition: Term) -> Term:
    """An equal condition with one lower and one upper bound of each linear form, or False where these exclude each
    other; they stand where the first bound of the form stood.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> for text in ("3 <= i and j < 4 and 5 <= i and i < 9", "i < 5 and j < 4 and 7 <= i", "i < 2 and i + 3 < 8"):
    ...     print(tight(parse_expr(text)))
    5 <= i and j < 4 and i < 9
    False
    i < 2
    """
    if condition.op != "and":
        return condition
    least: dict[Form, int] = {}
    best: dict[Form, Term] = {}
    parts: dict[Form | Term, None] = {}
    for part in conjuncts(condition):
        found = _least(part)
        parts[part if found is None else found[0]] = None
        if found is not None and (found[0] not in least or found[1] > least[found[0]]):
            least[found[0]], best[found[0]] = found[1], part
    for form, low in least.items():
        high = least.get(tuple((-c, x) for c, x in form))
        if high is not None and low > -high:
            return t.FALSE
    return t.logical_and(*(part if isinstance(part, Term) else best[part] for part in parts))


@lru_cache(maxsize=1 << 14)
def minus(condition: Term, covered: Term) -> Term:
    """Where a condition holds and another one does not, as far as bounds say: False where that is nowhere, the first
    condition itself where both exclude each other.

    >>> i = t.var("i", 64)
    >>> print(minus(14 <= i, t.logical_and(0 <= i, i < 64, i < 17)), minus(14 <= i, 3 <= i), minus(14 <= i, i < 9))
    17 <= i False 14 <= i
    """
    rest: list[Term] = []
    for part in conjuncts(covered):
        if _always(part) or tight(t.logical_and(condition, t.logical_not(part))) is t.FALSE:
            continue
        if tight(t.logical_and(condition, part)) is t.FALSE:
            return condition
        rest.append(part)
    if not rest:
        return t.FALSE
    return tight(t.logical_and(condition, t.logical_not(t.logical_and(*rest))))


@lru_cache(maxsize=1 << 14)
def _always(part: Term) -> bool:
    """Whether a predicate is defined and holds for all that its axes may be, by their extents."""
    return Bounds().of(part) == (1, 1) and definedness([part])[0] is t.TRUE


@lru_cache(maxsize=1 << 14)
def _least(part: Term) -> tuple[Form, int] | None:
    """A bound as a linear form without constant, and the least value that it may have: of the form, what is common to
    its coefficients is taken out."""
    if part.op not in ("lt", "le") or part.args[0].dtype != t.INDEX or part.lanes > 1:
        return None
    constant, summands = t.linear_parts(part.args[1] - part.args[0])
    if not summands:
        return None
    common = math.gcd(*(c for c, _ in summands))
    low = (1 if part.op == "lt" else 0) - constant
    return tuple((c // common, x.serial) for c, x in summands), -(-low // common)
