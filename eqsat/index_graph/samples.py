"""A few points at which predicates are tried, and a prover with a small budget: what one question of a run may cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.ir.decide import Proof
from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.proving.prover import Budget, Portfolio
from eqsat.rewriting.context import Context

SMALL = Budget(points=1 << 14, isl_operations=20_000, z3_rlimits=(40_000,), z3_formulations=1, rules=False, seconds=0.2)
LEAVES = ("axis", "var", "sym")
POINTS = 48
FAR = 1 << 24  # how far a side without an end is looked at
WIDE = 1 << 60


def holds(predicates: Sequence[Term], facts: Context) -> list[NDArray] | None:
    """Where predicates are defined and true, at random points of a box; None where that cannot be evaluated.

    >>> i = t.var("i")
    >>> here = Context({i: (0, 1000)}, {})
    >>> [(bool(x.any()), bool(x.all())) for x in holds([i < 500, i >= 0], here) or []]
    [(True, False), (True, True)]
    """
    nodes = list(postorder(*predicates))
    if any(n.op in ("load", "hole", "given") for n in nodes):
        return None
    source = np.random.default_rng(5)
    env: dict[Term, NDArray] = {}
    for leaf in nodes:
        if leaf.op in LEAVES:
            first, last = _side(*facts.of(leaf))
            step = t.symbol_facts(leaf).multiple_of if leaf.op == "sym" else 1
            start = -(-first // step)
            env[leaf] = source.integers(start, max(start, last // step) + 1, POINTS) * step
    result: list[NDArray] = []
    for value, bad in evaluate_masked(list(predicates), env):
        true = value if bad is None else np.logical_and(value, np.logical_not(bad))
        result.append(np.broadcast_to(true, (POINTS,)))
    return result


def _side(low: int | None, high: int | None) -> tuple[int, int]:
    """The part of a range that is looked at."""
    if low is None:
        low = -FAR if high is None else high - 2 * FAR
    low = max(low, -WIDE)
    return low, min(low + 2 * FAR, WIDE) if high is None else min(high, WIDE)


def asked(claim: Term, given: Term, facts: Context) -> Proof:
    """What the prover says of a claim wherever a predicate holds, within a small budget."""
    box: dict[Term, tuple[int | None, int | None]] = {}
    for leaf in postorder(claim, given):
        if leaf.op in LEAVES:
            low, high = facts.of(leaf)
            box[leaf] = (low, None if high is None else high + 1)
    return Portfolio(SMALL, cached=False).prove(claim, box, None if given is t.TRUE else given)
