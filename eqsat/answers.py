"""What `import eqsat` registers as the Decider of the language: the prover, the rules, and the solver of index maps.

The rules alone are enough to compile most kernels; the solvers load when they are first asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from eqsat.ir.cached import cached_property
from eqsat.ir.decide import Box, Proof
from eqsat.ir.map_on_box import MapInverse, MapOnBox
from eqsat.ir.terms.term import Term
from eqsat.simplifying.normal_forms import normal_forms

if TYPE_CHECKING:
    from eqsat.proving.prover import Portfolio


class Answers:
    """A Decider that asks the rooms of the engine.

    >>> from eqsat.ir.terms.term import ax
    >>> i = ax(0, 14)
    >>> Answers().simplify([i // 4 * 4 + i % 4], {i: (0, 14)})[0] is i
    True
    """

    @cached_property
    def _prover(self) -> Portfolio:
        from eqsat.proving.prover import Portfolio

        return Portfolio()

    def prove(self, claim: Term, box: Box, assuming: Term | None = None) -> Proof:
        """By the portfolio: is the predicate defined and true everywhere on the box where the assumption holds?"""
        return self._prover.prove(claim, box, assuming)

    def injective(self, outputs: Sequence[Term], box: Box) -> Proof:
        """By the portfolio: do different points of the box give different outputs?"""
        return self._prover.injective(outputs, box)

    def simplify(self, terms: Sequence[Term], box: Mapping[Term, tuple[int, int]]) -> list[Term]:
        """Terms with the same values on the box and no more operations: their normal form by the proved rules."""
        return normal_forms(terms, box)

    def shortest(self, terms: Sequence[Term], box: Mapping[Term, tuple[int, int]]) -> list[Term]:
        """Terms with the same values on the box and as few operations as `eq.simplify` finds."""
        from eqsat.simplifying.simplify import simplify_term

        return [simplify_term(x, dict(box)) for x in terms]

    def map_injective(self, m: MapOnBox) -> Proof:
        """By the solver: do different points of a map's box have different cells?"""
        from eqsat.maps.injective import injective
        from eqsat.maps.problem import problem_of

        return injective(problem_of(m))

    def map_bijective(self, m: MapOnBox) -> Proof:
        """By the solver: does every cell of the declared shape belong to exactly one point?"""
        from eqsat.maps.problem import problem_of
        from eqsat.maps.verdicts import bijective

        return bijective(problem_of(m))

    def map_inverse(self, m: MapOnBox) -> MapInverse:
        """The solver's inverse; LayoutError where points share a cell, the given one is wrong, or none is found."""
        from eqsat.maps.inverse import inverse
        from eqsat.maps.problem import problem_of

        return inverse(problem_of(m))
