"""Quick simplification for index maps: the normal form of the proved rules, without e-graph and without solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.index_graph.cost import cost
from eqsat.ir.terms.term import Term
from eqsat.simplifying.simplify import tidy


def normal_forms(terms: Sequence[Term], box: Mapping[Term, tuple[int, int]]) -> list[Term]:
    """Equal terms over a box of half-open ranges, each with no more operations than before.

    >>> from eqsat.ir.terms import term as t
    >>> i = t.var("i")
    >>> [str(x) for x in normal_forms([i // 4 * 4 + i % 4, i // 16], {i: (0, 16)})]
    ['i', '0']
    """
    return [new if cost(new) <= cost(old) else old for old, new in zip(terms, tidy(terms, box), strict=True)]
