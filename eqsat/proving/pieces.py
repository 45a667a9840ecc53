"""isl's piecewise affine functions: a term of choices as its few pieces, each with one condition. Candidates, to be
proved equal."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.proving.from_isl import Named
from eqsat.proving.gist import conditions
from eqsat.proving.isl import NotAffine, Space, is_modest, is_tame, spent
from eqsat.proving.question import Box, collision

MOST = 4  # pieces: all orders of them are looked at


def by_pieces(
    term: Term, box: Box, assuming: Term | None, operations: int, measure: Callable[[Term], int]
) -> Term | None:
    """The term as choices between affine pieces, in the order that measures least; None where isl cannot tell or there
    are many.

    >>> from eqsat.ir.terms.walk import dag_size
    >>> i = t.var("i")
    >>> j = t.where(i < 7, i + 5, i - 7)  # a roll by 5, twice
    >>> str(by_pieces(t.where(j < 7, j + 5, j - 7), {i: (0, 12)}, None, 100_000, dag_size))
    'where(0 <= i - 2, i - 2, i + 10)'
    """
    if term.dtype != INDEX:
        return None
    asked = collision([term], box, assuming)
    question = asked.question
    if not is_modest(question) or not is_tame(question):
        return None
    leaves = dict(zip((v.leaf for v in question.variables), asked.leaves, strict=True))
    try:
        named = Named(Space(question.variables, operations), [leaves[v.leaf] for v in question.variables])
        context = named.space.restricted(question.facts)
        pieces = _pieces(named, named.space.translate(question.outputs[0]).intersect_domain(context))
        return None if pieces is None else _chosen(named, pieces, context, measure)
    except NotAffine:
        return None
    except Exception as error:
        spent(error)
        return None


def _pieces(named: Named, function: Any) -> list[tuple[Any, Term]] | None:
    """Where a function is which affine term; None where there are many, or one of them is none of integers."""
    found: list[tuple[Any, Any]] = []
    for domain, aff in function.coalesce().get_pieces():
        here = named.space.isl.PwAff.from_aff(aff)
        for k, (other, there) in enumerate(found):  # one of them may say both
            same = here.eq_set(there)
            if domain.is_subset(same) or other.is_subset(same):
                found[k] = (other.union(domain).coalesce(), there if domain.is_subset(same) else here)
                break
        else:
            found.append((domain, here))
        if len(found) > MOST:
            return None
    made: list[tuple[Any, Term]] = []
    for domain, function in found:
        ((_, aff),) = function.get_pieces()
        value = named.affine(aff)
        if value is None:
            return None
        made.append((domain, value))
    return made


def _chosen(named: Named, pieces: list[tuple[Any, Term]], context: Any, measure: Callable[[Term], int]) -> Term | None:
    """Choices, of all orders the one that measures least; the last piece needs no condition."""

    @cache
    def best(left: tuple[int, ...]) -> Term | None:
        if len(left) == 1:
            return pieces[left[0]][1]
        here = context
        for k, (domain, _) in enumerate(pieces):
            if k not in left:
                here = here.subtract(domain)
        found: list[Term] = []
        for k in left:
            domain, value = pieces[k]
            rest = best(tuple(n for n in left if n != k))
            if rest is not None:
                for condition, holds in conditions(named, domain.intersect(here).coalesce(), here):
                    found.append(t.where(condition, *((value, rest) if holds else (rest, value))))
        return min(found, key=measure, default=None)

    return best(tuple(range(len(pieces)))) if pieces else None
