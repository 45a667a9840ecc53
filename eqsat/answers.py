"""What `import eqsat` registers as the Decider of the language: the prover, the rules, and the solver of index maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.index_graph.solve import solve
from eqsat.ir.decide import Box, Proof
from eqsat.ir.map_on_box import MapInverse, MapOnBox
from eqsat.ir.terms.term import Term
from eqsat.maps.forms import normal
from eqsat.maps.injective import injective
from eqsat.maps.inverse import inverse
from eqsat.maps.problem import problem_of
from eqsat.maps.verdicts import bijective
from eqsat.proving.prover import Portfolio
from eqsat.simplifying.normal_forms import normal_forms
from eqsat.simplifying.simplify import simplify_term


class Answers:
    """A Decider that asks the rooms of the engine; the solvers behind them load when they are first needed.

    >>> from eqsat.ir.terms.term import ax
    >>> i = ax(0, 14)
    >>> Answers().simplify([i // 4 * 4 + i % 4], {i: (0, 14)})[0] is i
    True
    """

    def __init__(self) -> None:
        self._prover = Portfolio()

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
        """Terms with the same values on the box and as few operations as `eq.simplify` finds, quotients worked out."""
        return [simplify_term(x, dict(box)) for x in normal(terms, box)]

    def solve(
        self, inputs: Sequence[Term], outputs: Sequence[Term], names: Sequence[Term], box: Box
    ) -> list[Term] | None:
        """By the index e-graph: the inputs of a map over names for its outputs, to be checked, or None."""
        return solve(inputs, outputs, names, box)

    def map_injective(self, m: MapOnBox) -> Proof:
        """By the solver: do different points of a map's box have different cells?"""
        return injective(problem_of(m))

    def map_bijective(self, m: MapOnBox) -> Proof:
        """By the solver: does every cell of the declared shape belong to exactly one point?"""
        return bijective(problem_of(m))

    def map_inverse(self, m: MapOnBox) -> MapInverse:
        """The solver's inverse; LayoutError where points share a cell, the given one is wrong, or none is found."""
        return inverse(problem_of(m))
