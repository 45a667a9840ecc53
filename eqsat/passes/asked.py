"""Answers to questions that were asked before: passes ask the same ones again and again, of functions that differ in
little."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqsat.ir.decide import Proof, decider
from eqsat.ir.terms.term import Term
from eqsat.proving.prover import Budget, Portfolio

MOST = 1 << 15


class Asked:
    """The verdicts of a prover, but for those that a clock ended: later there may be more time.

    >>> from eqsat.ir.terms import term as t
    >>> asked, i = Asked(decider), t.ax(0, 8)
    >>> bool(asked.prove(i < 8, None)), len(asked.known), bool(asked.prove(i < 8, None)), len(asked.known)
    (True, 1, True, 1)
    """

    def __init__(self, prover: Callable[[], Any]) -> None:
        self.prover = prover
        self.known: dict[tuple[Any, ...], Proof] = {}

    def prove(self, claim: Term, assuming: Term | None) -> Proof:
        """Whether a claim holds everywhere where the assumption does."""
        return self._ask(("prove", claim, assuming), lambda: self.prover().prove(claim, {}, assuming))

    def equal(self, a: Term, b: Term, assuming: Term | None) -> Proof:
        """Whether two terms have the same bits, wherever the assumption holds and the first is defined."""
        return self._ask(("equal", a, b, assuming), lambda: self.prover().equal(a, b, {}, assuming))

    def cache_clear(self) -> None:
        """Forget them."""
        self.known.clear()

    def _ask(self, key: tuple[Any, ...], question: Callable[[], Proof]) -> Proof:
        found = self.known.get(key)
        if found is None:
            found = question()
            if found.method != "clock":
                if len(self.known) >= MOST:
                    self.known.clear()
                self.known[key] = found
        return found


PROVER = Portfolio(
    Budget(points=1 << 18, isl_operations=200_000, z3_rlimits=(400_000,), z3_formulations=2, seconds=5.0)
)
"""The prover of the passes, which ask many small questions."""
PLACES = Asked(lambda: PROVER)
"""What is asked of what holds at a place."""
CELLS = Asked(decider)
"""What is asked of cells."""
