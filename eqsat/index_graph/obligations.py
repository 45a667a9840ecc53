"""Side conditions that bounds leave open: each is tried at some points, and what withstands that is proved, or unknown.

Each question is asked once, a few in each run, and a rule whose condition stays unknown does not act.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from eqsat.index_graph.places import Place
from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.proving.prover import Budget, Portfolio
from eqsat.rewriting.context import Context

SMALL = Budget(points=1 << 14, isl_operations=20_000, z3_rlimits=(40_000,), z3_forms=1, rules=False, seconds=0.2)
LEAVES = ("axis", "var", "sym")
POINTS = 48
FAR = 1 << 24


@dataclass
class Obligations:
    """The questions of one graph and their answers; `proved` may be asked of the prover `most` times."""

    facts: Context
    most: int = 4
    answers: dict[tuple[Term, frozenset[Term]], bool] = field(default_factory=dict[tuple[Term, frozenset[Term]], bool])

    def proved(self, claim: Term, place: Place) -> bool:
        """Whether a predicate is known to hold wherever those of the place do."""
        key = (claim, place.guards)
        if key not in self.answers:
            low, _ = place.facts.of(claim)
            self.answers[key] = low == 1 or self._asked(claim, place)
        return self.answers[key]

    def _asked(self, claim: Term, place: Place) -> bool:
        given = t.logical_and(*sorted(place.guards, key=str))
        leaves = [n for n in postorder(claim, given) if n.op in LEAVES]
        box = {leaf: self.facts.of(leaf) for leaf in leaves}
        if not self._withstands(claim, given, box):
            return False
        if not self.most:
            return False
        self.most -= 1
        open_box = {x: (low, None if high is None else high + 1) for x, (low, high) in box.items()}
        return bool(Portfolio(SMALL).prove(claim, open_box, None if given is t.TRUE else given))

    def _withstands(self, claim: Term, given: Term, box: dict[Term, tuple[int | None, int | None]]) -> bool:
        """Whether the claim is true at some random points, as far as it can be evaluated."""
        if any(n.op in ("load", "hole", "given") for n in postorder(claim, given)):
            return False
        source = np.random.default_rng(5)
        env: dict[Term, NDArray] = {}
        for leaf, (low, high) in box.items():
            first = max(-FAR if low is None else low, -FAR if high is None else high - 2 * FAR)
            last = min(first + 2 * FAR, FAR if high is None else high)
            step = t.symbol_facts(leaf).multiple_of if leaf.op == "sym" else 1
            env[leaf] = source.integers(-(-first // step), max(-(-first // step), last // step) + 1, POINTS) * step
        (value, bad), (holds, unknown) = evaluate_masked([claim, given], env)
        wrong = np.logical_and(holds, np.logical_not(value))
        for mask in (bad, unknown):
            wrong = wrong if mask is None else np.logical_and(wrong, np.logical_not(mask))
        return not bool(np.any(wrong))
