"""What may be a rule: pairs of terms of a grammar with equal values, each once, whatever its variables are called."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eqsat.index_graph.cost import cost
from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Kind, Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.research.grammar import DIVISIONS, ZERO, Classes, Grammar

_INDICES: Mapping[Kind, Kind] = dict.fromkeys((Kind.NEG, Kind.TOTAL, Kind.ANY, Kind.NUM), Kind.IDX)
"""What a grammar has instead of narrower and wider kinds of parameters."""


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


def covered(rule: Rule, grammar: Grammar) -> bool:
    """Whether a grammar can say a rule: its operations, its variables, and its conditions.

    >>> from eqsat.research.grammar import ARITHMETIC
    >>> from eqsat.rules.index_arith import div_div
    >>> covered(div_div, ARITHMETIC)
    True
    """
    operations = {*grammar.operations, "var", "const", "sum"}
    if "mul" in grammar.operations:
        operations.add("prod")
    (instance, *more) = rule.instances
    if more or instance.choices or instance.dtype:
        return False
    kinds = list(grammar.parameters.values())
    asked = [_INDICES.get(p.kind, p.kind) for p in rule.parameters]
    if any(asked.count(kind) > kinds.count(kind) for kind in asked):
        return False
    if instance.conditions and _shape(instance.conditions) not in _shapes(grammar):
        return False
    sides = (instance.left, instance.right)
    parts = [node for side in sides for node in _nodes(side)]
    numbers = {0, 1, *grammar.numbers}
    if any(n.op == "const" and n.payload not in numbers for n in parts):
        return False
    divisors = [n.args[1] for n in parts if n.op in DIVISIONS]
    least = 0 if 1 in grammar.numbers else 1
    negative = [d for d in divisors if d.op == "sum" and d.payload == (0, (-1,)) and "neg" in operations]
    if not all(d.op in ("var", "prod") or d in negative or (d.op == "const" and d.payload > least) for d in divisors):
        return False
    if not all(_sum_said(n, grammar) for n in parts if n.op == "sum"):
        return False
    if grammar.signs and any(n.op in ("lt", "le", "eq", "ne") and n.args[0] is not ZERO for n in parts):
        return False
    sizes = (_size(side) - len(grammar.constants) * _products(side) for side in sides)
    return all(size <= grammar.size for size in sizes) and all(n.op in operations for n in parts)


def _products(term: Term) -> int:
    """How many products of constants a term has as divisors."""
    return sum(n.op in DIVISIONS and n.args[1].op == "prod" for n in _nodes(term))


def _sum_said(node: Term, grammar: Grammar) -> bool:
    """Whether a grammar has the additions, subtractions and coefficients of a sum."""
    constant, coefficients = node.payload
    said = set(grammar.operations)
    if constant and (abs(constant) not in grammar.numbers or not said & {"add", "sub"}):
        return False
    if any(abs(c) != 1 for c in coefficients) and "mul" not in said:
        return False
    subtracted = any(c < 0 for c in coefficients)
    added = sum(c > 0 for c in coefficients) > 1
    return (not subtracted or bool(said & {"sub", "neg"})) and (not added or "add" in said)


def _shapes(grammar: Grammar) -> set[tuple[str, ...]]:
    return {_shape(given) for given in grammar.given() if given}


def _shape(conditions: Sequence[Term]) -> tuple[str, ...]:
    """Conditions without the names of their variables."""
    free = nodes_of("var", *conditions)
    shapes: list[tuple[str, ...]] = []
    for order in itertools.permutations(range(len(free))):
        table = {v: t.make("var", (), f"v{n}", v.dtype) for v, n in zip(free, order, strict=True)}
        shapes.append(tuple(sorted(str(substitute(c, table)) for c in conditions)))
    return min(shapes)


def _nodes(term: Term) -> list[Term]:
    return [term, *(n for a in term.args for n in _nodes(a))]


def _size(term: Term) -> int:
    """The operations of a term, as a grammar counts them."""
    if term.op in ("var", "const"):
        return 0
    below = sum(_size(a) for a in term.args)
    if term.op == "sum":
        constant, coefficients = term.payload
        scaled = sum(abs(c) != 1 for c in coefficients)
        return below + len(term.args) - 1 + bool(constant) + scaled + (max(constant, *coefficients) <= 0)
    return below + (1 if term.op == "where" else max(1, len(term.args) - 1))
