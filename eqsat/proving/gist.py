"""isl's gist: a predicate as the few constraints that a box does not state already. Candidates, to be proved equal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.proving.isl import NotAffine, Space, is_modest, spent
from eqsat.proving.question import Box, claim
from eqsat.proving.range import settled

MOST_SETS = 3
MOST_CONSTRAINTS = 4


def gists(predicate: Term, box: Box, assuming: Term | None, operations: int) -> list[Term]:
    """Predicates that isl finds equal where the assumption holds in the box: the set's own constraints, and where the
    set or the rest of the box is convex, those of its hull. Empty where isl cannot tell.

    >>> i = t.var("i")
    >>> [str(p) for p in gists(t.compare("ne", i // 3, i // 6), {i: (0, 24)}, None, 100_000)][-1]
    '2 - i < 0'
    """
    asked = claim(predicate, box, assuming)
    question = settled(asked.question)
    if question.hints or not is_modest(question):
        return []
    leaves = dict(zip((v.leaf for v in question.variables), asked.leaves, strict=True))
    found: list[Term] = []
    names = [leaves[v.leaf] for v in question.variables]
    try:
        space = Space(question.variables, operations)
        context = space.restricted(question.facts)
        inside = space.translate(question.goal).intersect(context).coalesce()
        outside = context.subtract(inside)
        for part, positive in ((inside, True), (outside, False)):
            for shape in (part, space.isl.Set.from_basic_set(part.convex_hull())):
                if shape is part or shape.intersect(context).is_equal(part):
                    here = set_term(space, shape.gist(context).coalesce(), names, MOST_SETS, MOST_CONSTRAINTS)
                    if here is not None:
                        found.append(here if positive else t.logical_not(here))
    except NotAffine:
        return []
    except Exception as error:
        spent(error)
    return list(dict.fromkeys(found))


def set_term(space: Space, found: Any, names: list[Term], most_sets: int, most_constraints: int) -> Term | None:
    """An isl set as a predicate over its dimensions; None where it has more parts, or they more constraints, or an
    integer that only exists."""
    parts: list[Any] = list(found.get_basic_sets())
    made = [_basic_set(space, part, names, most_constraints) for part in parts] if len(parts) <= most_sets else []
    members = [m for m in made if m is not None]
    return t.logical_or(*members) if members and len(members) == len(parts) else None


def _basic_set(space: Space, part: Any, names: list[Term], most_constraints: int) -> Term | None:
    kinds = space.isl.dim_type
    constraints: list[Any] = list(part.get_constraints())
    if len(constraints) > most_constraints:
        return None
    divisions: list[Term] = []

    def linear(constant: int, coefficient: Callable[[Any, int], int], scale: int = 1) -> Term:
        items = [(coefficient(kinds.set, k), x) for k, x in enumerate(names)]
        items += [(coefficient(kinds.div, k), x) for k, x in enumerate(divisions)]
        return t.linear(constant * scale, ((c * scale, x) for c, x in items if c))

    for k in range(part.dim(kinds.div)):
        aff = part.get_div(k)
        if aff.is_nan():  # an integer that only exists
            return None
        size = int(str(aff.get_denominator_val()))
        scaled = aff.scale_val(space.value(size))
        inner = linear(int(str(scaled.get_constant_val())), lambda kind, n, a=scaled: _in_aff(space, a, kind, n))
        divisions.append(inner // size)
    made: list[Term] = []
    for constraint in constraints:
        value = linear(
            int(str(constraint.get_constant_val())),
            lambda kind, n, c=constraint: int(str(c.get_coefficient_val(kind, n))),
        )
        zero = t.index_const(0)
        made.append(t.compare("eq", zero, value) if constraint.is_equality() else t.compare("le", zero, value))
    return t.logical_and(*made)


def _in_aff(space: Space, aff: Any, kind: Any, n: int) -> int:
    """The coefficient of a variable in an affine expression, where variables are inputs."""
    kinds = space.isl.dim_type
    return int(str(aff.get_coefficient_val(kinds.in_ if kind == kinds.set else kind, n)))
