"""Side conditions that bounds leave open: each is tried at some points, and what withstands that is proved, or unknown.

Each question is asked once, a few in each run, and a rule whose condition stays unknown does not act.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eqsat.index_graph.places import Place
from eqsat.index_graph.samples import asked, holds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.rewriting.context import Context


@dataclass
class Obligations:
    """The questions of one graph and their answers; the prover may be asked `most` times. `given`: what is assumed."""

    facts: Context
    given: Sequence[Term] = ()
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
        given = t.logical_and(*sorted({*place.guards, *self.given}, key=str))
        tried = holds([claim, given], self.facts)
        if tried is None or bool(np.any(np.logical_and(np.logical_not(tried[0]), tried[1]))) or not self.most:
            return False
        self.most -= 1
        return bool(asked(claim, given, self.facts))
