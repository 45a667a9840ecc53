"""`simplify`: a term or predicate with fewer operations and the same value everywhere in its ranges."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from eqsat.egglog_adapter import EngineFailure
from eqsat.index_extract import cost
from eqsat.index_graph import IndexGraph, Limits, Unsound
from eqsat.ir import term as t
from eqsat.ir.bounds import Bounds
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.evaluate import evaluate_masked
from eqsat.ir.rewrite import Rewriter, Session
from eqsat.ir.term import Term
from eqsat.ir.walk import postorder
from eqsat.prove_points import evaluable
from eqsat.prove_question import LEAVES, Box
from eqsat.prove_read import read
from eqsat.prover import Portfolio
from eqsat.rules import compact_rules, normal_rules

GRAPH_LIMITS = Limits(rows=3_000, iterations=10, seconds=0.5)
HARD = ("floordiv", "mod", "truncdiv", "truncmod", "min", "max")
SAMPLES = 4_096


class UnsoundWarning(UserWarning):
    """A simplification contradicted itself and was discarded: a rule is wrong. Please report it."""


@lru_cache(maxsize=1)
def normaliser() -> Rewriter:
    """The compiled rules tagged `normal`."""
    return Rewriter(normal_rules())


@lru_cache(maxsize=1)
def _compactor() -> Rewriter:
    return Rewriter(compact_rules())


def session(ranges: Mapping[Term, Any] | None = None, assuming: Term | None = None) -> Session:
    """A normaliser over one box, for many terms: `session(ranges).normal(term)`; ranges are half-open.

    >>> i, j = t.ax(0, 8), t.ax(1, 16)
    >>> str(session().normal((16 * i + j) // 8 % 4))
    'i0 % 2 * 2 + i1 // 8'
    """
    return Session(normaliser(), ranges, assuming)


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
    normal = session(ranges, assuming).normal(term)
    best = _cheaper(term, normal)
    if any(node.dtype == BOOL for node in postorder(normal)):
        best = _cheaper(best, Session(_compactor(), ranges, assuming).normal(normal))
    if best.dtype == BOOL and best.op != "const":
        decision = Portfolio().decide(best, box, assuming)
        if decision in ("always", "never"):
            best = t.bool_const(decision == "always")
    if _is_hard(normal):
        best = _cheaper(best, _by_graph(term, normal, ranges, box, assuming))
    return best if best is term or _checked(term, best, box, assuming) else term


def _rank(term: Term) -> tuple[int, int, str]:
    text = str(term)
    return cost(term), len(text), text


def _cheaper(a: Term, b: Term) -> Term:
    return a if a is b or _rank(a) <= _rank(b) else b


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


def _is_hard(term: Term) -> bool:
    """Whether the e-graph may find what the normaliser did not: several operations that interact."""
    return sum(node.op in HARD and node.dtype == INDEX for node in postorder(term)) >= 2


def _by_graph(term: Term, normal: Term, ranges: Mapping[Term, Any], box: Box, assuming: Term | None) -> Term:
    try:
        graph = IndexGraph(ranges=ranges)
        roots = [graph.add(normal), graph.add(term)]
        if normal is not term:
            graph.unite(*roots)
        if assuming is not None and Portfolio().consistent(assuming, box).verdict == "proved":
            graph.assume(assuming)
        graph.run(GRAPH_LIMITS)
        return session(ranges, assuming).normal(graph.best(roots[0]))
    except (Unsound, EngineFailure) as error:
        warnings.warn(f"simplify {term}: {error}", UnsoundWarning, stacklevel=4)
        return normal


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
