"""`simplify`: a term or predicate with fewer operations and the same value everywhere in its ranges."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from eqsat.index_extract import cost
from eqsat.ir import term as t
from eqsat.ir.bounds import Bounds
from eqsat.ir.dtypes import BOOL
from eqsat.ir.errors import EqsatError
from eqsat.ir.evaluate import evaluate_masked
from eqsat.ir.points import MOST_LEAVES, MOST_POINTS, Points
from eqsat.ir.rewrite import Rewriter, Session
from eqsat.ir.term import Term
from eqsat.ir.walk import postorder
from eqsat.prove_gist import gists
from eqsat.prove_points import evaluable
from eqsat.prove_question import LEAVES, Box, shallow
from eqsat.prove_read import read
from eqsat.prove_rules import normaliser
from eqsat.prover import Portfolio
from eqsat.rules import tagged

SAMPLES = 4_096
MOST_ROUNDS = 4
WORTH_SETS = 6  # the cost from which on a predicate is worth asking isl about
SET_OPERATIONS = 100_000
_SPELLED = {*t.COMPARE, "and", "or", "bitxor"}  # what the rules tagged `finish` look at


class UnsoundWarning(UserWarning):
    """A simplification contradicted itself and was discarded: a rule is wrong. Please report it."""


@cache
def _rewriter(*tags: str) -> Rewriter:
    """The compiled rules with any of these tags."""
    return Rewriter(tagged(*tags))


def session(ranges: Mapping[Term, Any] | None = None, assuming: Term | None = None) -> Session:
    """A normaliser over one box, for many terms: `session(ranges).normal(term)`; ranges are half-open.

    >>> i, j = t.ax(0, 8), t.ax(1, 16)
    >>> str(session().normal((16 * i + j) // 8 % 4))
    'i0 % 2 * 2 + i1 // 8'
    """
    return Session(normaliser(), ranges, assuming)


def tidy(terms: Sequence[Term], ranges: Mapping[Term, Any] | None = None) -> list[Term]:
    """Terms in normal form, as they are shown: no solver is asked, and nothing is compared with what was there before.

    ranges: half-open ranges of leaves; the others range over their extents.

    >>> i = t.ax(0, 16)
    >>> [str(e) for e in tidy([i // 4 * 4 + i % 4, t.compare("ne", i % 4, 2)])]
    ['i0', 'i0 % 4 != 2']
    """
    normal, finish = session(ranges), Session(_rewriter("finish"), ranges, beside=False)
    return [finish.normal(normal.normal(e)) for e in terms]


def simplify(e: Any, ranges: Mapping[str, Any] | None = None, assuming: Any = None) -> Term:
    """An equal term with fewer operations, or the term itself.

    e: a term, or text for `parse_expr`. ranges: {name: extent} or {name: (start, stop)}, stop exclusive, None for no
    bound; omitted: the axes' extents. assuming: a predicate that may be used; one that holds nowhere is an EqsatError.
    The result has the same value wherever the input is defined, and is checked against it before it is returned.

    >>> print(simplify("(i // 4 * 16 + i % 4 * 4 + j) // 4", {"j": 4}))
    i
    >>> print(simplify("not (io == 3 and ii >= 2)", {"io": 4, "ii": 4}))
    4*io + ii < 14
    """
    if isinstance(assuming, bool):
        assuming = t.bool_const(assuming)
    terms, box = read([e] if assuming is None else [e, assuming], ranges)
    given = t.as_bool(terms[1]) if assuming is not None else None
    if given is not None and given.op != "const" and Portfolio().consistent(given, box).verdict == "refuted":
        raise EqsatError(f"assumption {given}", "contradictory: it holds nowhere in the ranges", "drop or correct it")
    if given is t.FALSE:
        raise EqsatError("assumption False", "contradictory: it holds nowhere", "drop or correct it")
    return simplify_term(terms[0], box, given)


def simplify_term(term: Term, box: Box | None = None, assuming: Term | None = None) -> Term:
    """`simplify` for a term and a box of half-open ranges (None: no bound)."""
    key = tuple(sorted(((leaf, r) for leaf, r in (box or {}).items()), key=lambda item: hash(item[0])))
    return _simplified(term, key, assuming)


@lru_cache(maxsize=4096)
def _simplified(term: Term, key: tuple[tuple[Term, tuple[int | None, int | None]], ...], assuming: Term | None) -> Term:
    box = dict(key)
    if _is_empty(term, box):
        return term
    ranges: dict[Term, Any] = {}
    for leaf, (start, stop) in box.items():
        ranges[leaf] = (-math.inf if start is None else start, math.inf if stop is None else stop)
    maker = _Maker(ranges, box, assuming, _points(term, box))
    best = term
    for _ in range(MOST_ROUNDS):
        before, best = best, min(maker.forms(best), key=cost)  # of equal ones the first
        if best is before:
            break
    if best is term or not _checked(term, best, box, assuming):
        return term
    return best


class _Maker:
    """Equal terms over one box; the passes remember what they have rewritten."""

    def __init__(self, ranges: Mapping[Term, Any], box: Box, assuming: Term | None, points: Points | None) -> None:
        self.ranges, self.box, self.assuming, self.points = ranges, box, assuming, points
        self.passes: dict[tuple[str, ...], Session] = {}

    def rewritten(self, term: Term, *tags: str) -> Term:
        """The term after the pass with the rules of these tags."""
        if tags not in self.passes:
            beside = tags != ("finish",)
            self.passes[tags] = Session(_rewriter(*tags), self.ranges, self.assuming, self.points, beside)
        return self.passes[tags].normal(term)

    def forms(self, term: Term) -> list[Term]:
        """Equal terms, from the most canonical to the term itself."""
        normal = self.rewritten(term, "normal")
        if normal.dtype == BOOL and normal.op != "const":
            decision = Portfolio().decide(normal, self.box, self.assuming)
            if decision in ("always", "never"):
                normal = t.bool_const(decision == "always")
        operations = {node.op for node in postorder(normal)}
        if not operations & _SPELLED:
            return [normal, term]
        if not operations & set(t.COMPARE):
            return [self.rewritten(normal, "finish"), normal, term]
        forms = self.spelled(normal)
        if normal.dtype == BOOL and min(map(cost, forms)) >= WORTH_SETS:
            least = min(map(_comparisons, forms))
            for other in gists(normal, self.box, self.assuming, SET_OPERATIONS):
                if _comparisons(other) <= least:
                    forms += self.spelled(self.rewritten(other, "normal"))
        return [*forms, term]

    def spelled(self, normal: Term) -> list[Term]:
        """A normal form with its comparisons merged, with less of a factor in them, and in their final spelling."""
        compact = self.rewritten(normal, "normal", "compact")
        tight = self.rewritten(compact, "normal", "compact", "tight") if _has_factors(compact) else compact
        forms = dict.fromkeys((tight, compact, normal))
        return list(dict.fromkeys((*(self.rewritten(form, "finish") for form in forms), *forms)))


def _comparisons(term: Term) -> int:
    return sum(node.op in t.COMPARE for node in postorder(term))


def _has_factors(term: Term) -> bool:
    """Whether a sum has a factor that a comparison could do with less of."""
    sums = [node for node in postorder(term) if node.op == "sum"]
    return any(abs(c) > 1 for node in sums for c, _ in t.linear_parts(node)[1])


def _points(term: Term, box: Box) -> Points | None:
    """The points of the box, where every variable of the term has a small range."""
    known = Bounds()
    ranges: dict[Term, tuple[int, int]] = {}
    for node in shallow(term):
        if node.op in LEAVES:
            low, high = known.of(node)
            start, stop = box.get(node, (low, None if high is None else high + 1))
            if start is not None and stop is not None and stop - start <= MOST_POINTS:
                ranges[node] = (start, stop)
    return Points(ranges) if 0 < len(ranges) <= MOST_LEAVES else None


def _is_empty(term: Term, box: Box) -> bool:
    """Whether an axis has no value: then every statement holds, and nothing may be concluded."""
    for node in postorder(term):
        if node.op not in LEAVES:
            continue
        start, stop = box.get(node, (None, None))
        if start is not None and stop is not None and start >= stop:
            return True
        if node.op != "sym" and node.args and node not in box:
            most = Bounds().of(node.args[0])[1]
            if most is not None and most <= 0:
                return True
    return False


def _checked(before: Term, after: Term, box: Box, assuming: Term | None) -> bool:
    """Whether the result is proved equal, or at least equal at many points where no prover knows."""
    proof = Portfolio().equal(before, after, box, assuming)
    if proof.verdict == "refuted" or (proof.verdict == "unknown" and not _agree(before, after, box, assuming)):
        message = f"simplify {before}: {after} differs at {proof.witness}"
        warnings.warn(message, UnsoundWarning, stacklevel=4)
        return False
    return True


def _agree(before: Term, after: Term, box: Box, assuming: Term | None) -> bool:
    """Equality at random points; true where nothing can be evaluated (loads), as only proved rules were used."""
    roots = [before, after, *([] if assuming is None else [assuming])]
    if not evaluable(roots):
        return True
    random = np.random.default_rng(7)
    env: dict[Term, Any] = {}
    for node in postorder(*roots):
        if node.op in LEAVES:
            low, high = Bounds().of(node)
            start, stop = box.get(node, (low, None if high is None else high + 1))
            if start is None:
                start = -1000 if stop is None else stop - 2000
            env[node] = random.integers(start, start + 2000 if stop is None else stop, SAMPLES)
        elif node.op == "var":
            return True
    values = evaluate_masked(roots, env)
    (a, a_bad), (b, b_bad) = values[:2]
    wrong = np.logical_or(a != b, False if b_bad is None else b_bad)
    if a_bad is not None:
        wrong = np.logical_and(wrong, np.logical_not(a_bad))
    if assuming is not None:
        wrong = np.logical_and(wrong, values[2][0])
    return not bool(np.any(wrong))
