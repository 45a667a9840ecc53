"""isl's gist: a predicate as the few constraints that a box does not state already. Candidates, to be proved equal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.proving.from_isl import Named
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
    found: list[Term] = []
    leaves = dict(zip((v.leaf for v in question.variables), asked.leaves, strict=True))
    try:
        named = Named(Space(question.variables, operations), [leaves[v.leaf] for v in question.variables])
        context = named.space.restricted(question.facts)
        inside = named.space.translate(question.goal).intersect(context).coalesce()
        for predicate, holds in conditions(named, inside, context):
            found.append(predicate if holds else t.logical_not(predicate))
    except NotAffine:
        return []
    except Exception as error:
        spent(error)
    return list(dict.fromkeys(found))


def conditions(named: Named, inside: Any, context: Any) -> Iterator[tuple[Term, bool]]:
    """Predicates that tell, in a context, whether a point is in a set: those that hold in it, and (False) outside."""
    outside = context.subtract(inside)
    for part, positive in ((inside, True), (outside, False)):
        for shape in (part, named.space.isl.Set.from_basic_set(part.convex_hull())):
            if shape is part or shape.intersect(context).is_equal(part):
                here = named.set_term(shape.gist(context).coalesce(), MOST_SETS, MOST_CONSTRAINTS)
                if here is not None:
                    yield here, positive
