"""A formula as formulas without choices by the index, each under its conditions: what a piece holds can be known where
what the whole holds is not."""

from __future__ import annotations

import math
from collections.abc import Collection
from itertools import product

import numpy as np

from eqsat.ir.dtypes import BOOL, COMPLEX, INDEX, is_float
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder

MOST_PIECES = 32
Conditions = dict[Term, bool]
"""Conditions on the index, and whether each of them holds."""


def holding(conditions: Conditions) -> Term:
    """That conditions are what they are said to be."""
    return t.logical_and(t.TRUE, *(c if yes else t.logical_not(c) for c, yes in conditions.items()))


def is_zero(x: Term, finite: Collection[str]) -> bool:
    """Whether a value is 0 or -0.0: 0 times what is finite is."""
    if x.op == "const":
        return bool(np.asarray(t.const_value(x)) == 0)
    if x.op != "mul":
        return False
    known = [(a.op == "load" and a.payload in finite) or _is_finite(a) for a in x.args]
    return any(is_zero(a, finite) and known[1 - k] for k, a in enumerate(x.args))


def _is_finite(x: Term) -> bool:
    """Whether a value is no NaN and no infinity: it may be what is chosen where it is none."""
    if x.op == "const":
        return bool(np.isfinite(np.asarray(t.const_value(x))))
    if x.op != "where":
        return False
    condition, yes, no = x.args
    either = condition.args if condition.op == "or" else (condition,)
    tested = {(c.op, c.args[0]) for c in either if c.op in ("isinf", "isnan")}
    return _is_finite(yes) and (_is_finite(no) or {("isinf", no), ("isnan", no)} <= tested)


def pieces_of(body: Term) -> list[tuple[Conditions, Term]]:
    """A formula as formulas without choices by the index, each under its conditions; the whole where those are many."""
    done: dict[Term, list[tuple[Conditions, Term]]] = {}
    for node in postorder(body):
        if node.dtype == INDEX or node.op in ("const", "load", "axis", "hole") or _by_index(node):
            done[node] = [({}, node)]
        elif node.op == "where" and _by_index(node.args[0]):
            sides = ((yes, piece) for yes, a in ((True, node.args[1]), (False, node.args[2])) for piece in done[a])
            chosen = [({**c, node.args[0]: yes}, x) for yes, (c, x) in sides if c.get(node.args[0], yes) == yes]
            done[node] = chosen if len(chosen) <= MOST_PIECES else [({}, node)]
        else:
            done[node] = _combined(node, [done[a] for a in node.args])
    return done[body]


def _by_index(node: Term) -> bool:
    """Whether a predicate is one on the index alone."""
    return node.dtype == BOOL and not nodes_of("load", node) and not nodes_of("hole", node)


def _combined(node: Term, args: list[list[tuple[Conditions, Term]]]) -> list[tuple[Conditions, Term]]:
    if math.prod(map(len, args)) > MOST_PIECES**2:
        return [({}, node)]
    result: list[tuple[Conditions, Term]] = []
    for chosen in product(*args):
        conditions: dict[Term, bool] = {}
        if all(conditions.setdefault(c, yes) == yes for own, _ in chosen for c, yes in own.items()):
            result.append((conditions, _evaluated(node, [x for _, x in chosen])))
    return result if len(result) <= MOST_PIECES else [({}, node)]


def _evaluated(node: Term, args: list[Term]) -> Term:
    """An operation on some arguments: in its dtype where they are constants; what 0 absorbs, among integers."""
    made = t.rebuild(node, args)
    if args and all(a.op == "const" for a in args) and made.op != "const":
        value, bad = evaluate_masked([made], {})[0]
        return made if bad is not None and bool(np.any(bad)) else t.const(np.asarray(value)[()], made.dtype)
    if made.op in ("add", "sub") and is_float(made.dtype):
        endless = [n for n, a in enumerate(args) if a.op == "const" and np.isinf(np.asarray(t.const_value(a)))]
        if len(endless) == 1 and _is_finite(args[1 - endless[0]]):
            return args[0] if endless == [0] else _evaluated(node, [t.const(0, made.dtype), args[1]])
    zero = made.op == "mul" and not is_float(made.dtype) and made.dtype not in (INDEX, BOOL, *COMPLEX)
    return next((a for a in args if zero and a.op == "const" and not a.payload), made)


def span(x: Term) -> tuple[float, float]:
    """Between which numbers a value lies, where it is not NaN, which every maximum and minimum keeps."""
    known: dict[Term, tuple[float, float]] = {}
    for node in postorder(x):
        args = [known.get(a, (-math.inf, math.inf)) for a in node.args]
        found = -math.inf, math.inf
        if node.op == "const" and node.dtype != INDEX and not np.isnan(value := np.asarray(t.const_value(node))):
            found = float(value), float(value)
        elif node.op in ("max", "min"):
            pick = max if node.op == "max" else min
            found = pick(args[0][0], args[1][0]), pick(args[0][1], args[1][1])
        elif node.op == "where":
            found = min(args[1][0], args[2][0]), max(args[1][1], args[2][1])
        elif is_float(node.dtype) and node.op in ("abs", "exp", "sqrt"):
            found = 0.0, math.inf
        known[node] = found
    return known[x]
