"""What may be a rule: pairs of terms of a grammar with equal values, each once, whatever its variables are called."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from eqsat.index_graph.cost import cost
from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.research.grammar import Classes, Grammar


@dataclass(frozen=True, eq=False)
class Candidate(Record):
    """Two terms that had the same values wherever the conditions held."""

    left: Term
    right: Term
    conditions: tuple[Term, ...] = ()

    @property
    def key(self) -> tuple[bytes, ...]:
        """What tells candidates apart, and in which order, whatever they look like."""
        return self.left.digest, self.right.digest, *(c.digest for c in self.conditions)

    @property
    def directions(self) -> tuple[tuple[Term, Term], ...]:
        """From left to right, and from right to left where that says what the variables are."""
        there, back = (self.left, self.right), (self.right, self.left)
        same = set(nodes_of("var", self.left)) == set(nodes_of("var", self.right))
        return (there, back) if same and self.right.op not in ("var", "const") else (there,)

    @cached_property
    def rank(self) -> tuple[int, int, int, bytes]:
        """The more general and the shorter, the earlier: fewer conditions, less to match, more saved."""
        indices = sum(v.dtype == INDEX for v in nodes_of("var", self.left)) > 0
        return (
            cost(self.left) + 3 * len(self.conditions) + 4 * (not indices),
            cost(self.right),
            len(nodes_of("var", self.left)),
            self.left.digest,
        )


def candidates(grammar: Grammar, classes: Classes, seed: int) -> Iterator[Candidate]:
    """Pairs of equal terms, the larger term on the left; some differ by the names of their variables only."""
    for left, right in classes.equal:
        yield from _oriented(left, right, ())
    for n, conditions in enumerate(grammar.given()[1:]):
        for left, right in classes.under(conditions, seed + n + 1):
            yield from _oriented(left, right, conditions)


def _oriented(left: Term, right: Term, conditions: tuple[Term, ...]) -> Iterator[Candidate]:
    sides = (left, right) if cost(left) >= cost(right) else (right, left)
    for large, small in (sides, sides[::-1]):  # the smaller one on the left where only that says what the variables are
        if large.op not in ("var", "const") and set(nodes_of("var", small, *conditions)) <= set(nodes_of("var", large)):
            yield Candidate(large, small, conditions)
            return


class Names:
    """The names of a grammar, and candidates by the first of them: those that differ by names only become one."""

    def __init__(self, grammar: Grammar) -> None:
        self.kinds = grammar.variables()
        groups = [[v for v, k in self.kinds.items() if k is kind] for kind in dict.fromkeys(self.kinds.values())]
        self.tables: list[dict[Term, Term]] = []  # all exchanges of variables of one kind
        for choice in itertools.product(*(itertools.permutations(g) for g in groups)):
            pairs = [pair for g, new in zip(groups, choice, strict=True) for pair in zip(g, new, strict=True)]
            self.tables.append(dict(pairs))

    def canonical(self, candidate: Candidate) -> Candidate:
        """The same with the first names of each kind, in the order in which the left side has them."""
        made = [new for table in self.tables if (new := _exchanged(candidate, table)) is not None]
        best = min(made, key=lambda c: c.key)
        free = dict(self.kinds)
        table: dict[Term, Term] = {}
        for v in nodes_of("var", best.left):
            table[v] = next(n for n in free if self.kinds[n] is self.kinds[v])
            free.pop(table[v])
        return _exchanged(best, table) or best


def _exchanged(candidate: Candidate, table: dict[Term, Term]) -> Candidate | None:
    """A candidate with other names; None where a side is no term then."""
    try:
        conditions = tuple(substitute(c, table) for c in candidate.conditions)
        return Candidate(substitute(candidate.left, table), substitute(candidate.right, table), conditions)
    except EqsatError:
        return None
