"""Bringing inverses and padding conditions into the form in which they are shown.

Most of what the solver makes is in normal form already, and most conditions are decided by their interval or by plain
arithmetic; the registered simplifier sees only the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.ir.decide import decider
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, leaves, transform
from eqsat.maps.algebra import canonical_mod, exact_div
from eqsat.rewriting.rewrite import spell

LARGE_XOR = 12  # nodes: an xor of more comes from elimination over bits, which spells it


def tidy(terms: Sequence[Term], box: Mapping[Term, tuple[int, int]]) -> list[Term]:
    """Terms over a box of half-open ranges in normal form.

    >>> p, q = t.var("p"), t.var("q")
    >>> [str(x) for x in tidy([(4 * p + q) // 4, 17 <= 4 * p + q], {p: (0, 4), q: (0, 4)})]
    ['p', 'False']
    """
    box = {x: (low, stop) for x, (low, stop) in box.items() if stop > low}
    limits = Bounds(box)
    settled = [_decided(x, limits) if x.dtype == BOOL else x if _is_settled(x, limits) else None for x in terms]
    rest = iter(decider().simplify([x for x, done in zip(terms, settled, strict=True) if done is None], box))
    return [next(rest) if done is None else done for done in settled]


def _decided(claim: Term, limits: Bounds) -> Term | None:
    """A claim whose interval, or plain arithmetic, decides it."""
    ends = limits.of(claim)
    if ends[0] == ends[1]:
        return t.bool_const(bool(ends[0]))
    if claim.op in ("ne", "eq") and _plainly(claim.args[0], limits) is claim.args[1]:
        return t.bool_const(claim.op == "eq")
    if leaves("bitxor", claim):
        return claim if dag_size(claim) > LARGE_XOR else None
    if claim.op not in ("lt", "le", "ne") or claim.args[0].dtype != INDEX:
        return None
    difference = t.sub(claim.args[1], claim.args[0])
    single = claim.op == "ne" and len(t.linear_parts(difference)[1]) < 2
    return None if single or not _is_settled(difference, limits) else spell(claim)


def _plainly(term: Term, limits: Bounds) -> Term:
    """The term with what is plain in its quotients and remainders worked out."""

    def change(node: Term) -> Term | None:
        number = t.int_value(node.args[1]) if node.op in ("floordiv", "mod") else None
        if number is None or number < 1:
            return None
        return (exact_div if node.op == "floordiv" else canonical_mod)(node.args[0], number, limits)

    return transform(term, change)


def _is_settled(term: Term, limits: Bounds) -> bool:
    """Whether an index term is known to be in normal form: a sum of digits of different variables that have more than
    one value each, or a large xor."""
    if leaves("bitxor", term):
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
