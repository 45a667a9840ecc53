"""Quick simplification for index maps and kernels: the normal form of the proved rules, without e-graph and solver
(where fast paths are switched off, by the e-graph instead).

Loop nests ask about the same terms again and again, mostly over no other ranges than the extents of their axes: what
was found over a box is remembered, in each thread for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from functools import cache

from eqsat.index_graph.cost import cost
from eqsat.ir.fast import fast_paths
from eqsat.ir.terms.term import Term
from eqsat.proving.rules import normaliser
from eqsat.rewriting.rewrite import Rewriter, Session
from eqsat.rules import tagged

MOST_BOXES = 16
MOST_TERMS = 4_096
"""A box is forgotten after so many questions, with all that was remembered for them."""

Ranges = Mapping[Term, tuple[int, int]]


@cache
def _finishing() -> Rewriter:
    """The rules about how terms are shown."""
    return Rewriter(tagged("finish"))


class _Box:
    """The normal forms found over one box."""

    def __init__(self, ranges: Ranges) -> None:
        self.normal = Session(normaliser(), ranges)
        self.shown = Session(_finishing(), beside=False, after=[self.normal])
        self.asked = 0

    def form(self, term: Term) -> Term:
        """The normal form of a term, in the spelling in which it is shown; the term where that is not smaller."""
        self.asked += 1
        found = self.shown.normal(self.normal.normal(term))
        return found if cost(found) <= cost(term) else term


class _Kept(threading.local):
    def __init__(self) -> None:
        self.boxes: dict[frozenset[tuple[Term, tuple[int, int]]], _Box] = {}


_kept = _Kept()


def forget() -> None:
    """Forget what was found in this thread, so that it is found again."""
    _kept.boxes.clear()


def normal_forms(terms: Sequence[Term], box: Ranges) -> list[Term]:
    """Equal terms over a box of half-open ranges, each with no more operations than before; axes that the box leaves
    out range over their extents.

    >>> from eqsat.ir.terms import term as t
    >>> i = t.var("i")
    >>> [str(x) for x in normal_forms([i // 4 * 4 + i % 4, i // 16], {i: (0, 16)})]
    ['i', '0']
    """
    if not fast_paths():
        from eqsat.simplifying.simplify import simplify_term  # the e-graph, which few kernels need

        return [simplify_term(term, box) for term in terms]
    key = frozenset(box.items())
    here = _kept.boxes.pop(key, None)
    if here is None or here.asked >= MOST_TERMS:
        here = _Box(box)
    _kept.boxes[key] = here  # the one used last is the last
    if len(_kept.boxes) > MOST_BOXES:
        del _kept.boxes[next(iter(_kept.boxes))]
    return [here.form(term) for term in terms]
