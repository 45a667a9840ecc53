"""isl's sets and affine functions as terms over named dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.proving.isl import Space


@dataclass(frozen=True, eq=False)
class Named:
    """An isl space whose dimensions are these terms.

    >>> from eqsat.proving.question import Variable
    >>> i = t.var("i")
    >>> named = Named(Space([Variable(i, 0, 24)], 1000), [i])
    >>> str(named.set_term(named.space.translate(i < 8), 3, 4))
    '0 <= 7 - i'
    """

    space: Space
    names: Sequence[Term]

    def set_term(self, found: Any, most_sets: int, most_constraints: int) -> Term | None:
        """A set as a predicate; None where it has more parts, or they more constraints, or an integer that only
        exists."""
        parts: list[Any] = list(found.get_basic_sets())
        made = [self._basic_set(part, most_constraints) for part in parts] if len(parts) <= most_sets else []
        members = [m for m in made if m is not None]
        return t.logical_or(*members) if members and len(members) == len(parts) else None

    def affine(self, aff: Any) -> Term | None:
        """An affine function as a term; None where it is one of fractions."""
        divisions = self._divisions(aff)
        if divisions is None or int(str(aff.get_denominator_val())) != 1:
            return None
        return self._in_aff(aff, divisions)

    def _divisions(self, owner: Any) -> list[Term] | None:
        """The quotients that a part is said with, in order, each over those before it."""
        found: list[Term] = []
        for k in range(owner.dim(self.space.isl.dim_type.div)):
            aff = owner.get_div(k)
            if aff.is_nan():  # an integer that only exists
                return None
            size = int(str(aff.get_denominator_val()))
            found.append(self._in_aff(aff.scale_val(self.space.value(size)), found) // size)
        return found

    def _in_aff(self, aff: Any, divisions: Sequence[Term]) -> Term:
        kinds = self.space.isl.dim_type
        constant = int(str(aff.get_constant_val()))  # the variables of a function are its inputs
        return self._linear(constant, divisions, kinds.in_, aff.get_coefficient_val)

    def _linear(self, constant: int, divisions: Sequence[Term], inputs: Any, coefficient: Callable[..., Any]) -> Term:
        items = [(int(str(coefficient(inputs, k))), x) for k, x in enumerate(self.names)]
        items += [(int(str(coefficient(self.space.isl.dim_type.div, k))), x) for k, x in enumerate(divisions)]
        return t.linear(constant, ((c, x) for c, x in items if c))

    def _basic_set(self, part: Any, most_constraints: int) -> Term | None:
        constraints: list[Any] = list(part.get_constraints())
        divisions = self._divisions(part) if len(constraints) <= most_constraints else None
        if divisions is None:
            return None
        made: list[Term] = []
        for constraint in constraints:
            constant, inputs = int(str(constraint.get_constant_val())), self.space.isl.dim_type.set
            value = self._linear(constant, divisions, inputs, constraint.get_coefficient_val)
            zero = t.index_const(0)
            made.append(t.compare("eq", zero, value) if constraint.is_equality() else t.compare("le", zero, value))
        return t.logical_and(*made)
