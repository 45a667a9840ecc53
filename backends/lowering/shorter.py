"""Index terms that are worth a search: where a kernel falls into pieces or divides, shorter ones may make it smaller.

Rules applied in one direction find the simple form of nearly every index term, and loops split digits until nothing
is divided. What may be left is a term with several divisions of sums; then the Decider is asked for the shortest form
that it can find. Each question may take as long as a compiler, so few are asked for one program.
"""

from __future__ import annotations

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.ir.decide import decider
from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms.term import Term, int_value
from eqsat.ir.terms.walk import dag_size, free_variables, postorder

MOST_QUESTIONS = 16
LARGEST = 60
"""Nodes of a term that is asked about."""
DIVISIONS = ("floordiv", "mod")


class Shorter:
    """Asks for the shortest forms of index terms, a limited number of times."""

    def __init__(self, simplifier: IndexSimplifier) -> None:
        self.simplifier = simplifier
        self.questions = MOST_QUESTIONS

    def forms(self, body: Term) -> dict[Term, Term]:
        """Shorter terms for some of the index terms of a body in normal form."""
        found: dict[Term, Term] = {}
        for term in index_terms(body):
            if self.questions and is_tangled(term):
                self.questions -= 1
                axes = {a: (0, int_value(a.args[0]) or 0) for a in free_variables(term) if a.args}
                (shortest,) = decider().shortest([term], {**axes, **self.simplifier.facts(term)})
                if shortest is not term:
                    found[term] = shortest
        return found


def index_terms(body: Term) -> list[Term]:
    """The index terms that are no part of others: addresses, and sides of comparisons."""
    tops: dict[Term, None] = {}
    for node in postorder(body):
        if node.dtype != INDEX:
            tops.update((a, None) for a in node.args if a.dtype == INDEX)
    return list(tops)


def is_tangled(term: Term) -> bool:
    """Whether a term of a moderate size has digits of two different sums that share an axis.

    >>> from eqsat.ir.terms.term import ax
    >>> i, j = ax(0, 64), ax(1, 40)
    >>> is_tangled((i + 1) // 16 * 32 + (i + 1) % 16 + (j + 1) % 8), is_tangled((i - j + 1) // 2 * 2 - (i + j) % 2)
    (False, True)
    """
    sums = {_whole(n): None for n in postorder(term) if n.dtype == INDEX and n.op in DIVISIONS}
    axes = [a for x in sums if x.op != "axis" for a in free_variables(x)]
    return len(axes) > len(set(axes)) and dag_size(term) <= LARGEST


def _whole(term: Term) -> Term:
    """What a digit is a digit of."""
    while term.op in DIVISIONS:
        term = term.args[0]
    return term
