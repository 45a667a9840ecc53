"""What may be a rule: pairs of terms of a grammar with equal values, each once, whatever its variables are called."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eqsat.index_graph.cost import cost
from eqsat.ir.dtypes import INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Kind, Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.research.grammar import Classes, Grammar


@dataclass(frozen=True)
class Candidate:
    """Two terms that had the same values wherever the conditions held."""

    left: Term
    right: Term
    conditions: tuple[Term, ...] = ()

    @property
    def key(self) -> tuple[bytes, ...]:
        """What tells candidates apart, and in which order, whatever they look like."""
        return self.left.digest, self.right.digest, *(c.digest for c in self.conditions)

    @property
    def rank(self) -> tuple[int, int, int, str]:
        """The more general and the shorter, the earlier: fewer conditions, less to match, more saved."""
        indices = sum(v.dtype == INDEX for v in nodes_of("var", self.left)) > 0
        return (
            cost(self.left) + 3 * len(self.conditions) + 4 * (not indices),
            cost(self.right),
            len(nodes_of("var", self.left)),
            str(self.left),
        )


def candidates(grammar: Grammar, classes: Classes, seed: int) -> Iterator[Candidate]:
    """Pairs of equal terms up to the names of their variables, the larger term on the left."""
    names, kinds = _renamings(grammar), grammar.variables()
    for left, right in classes.equal:
        yield from _oriented(left, right, (), names, kinds)
    for n, conditions in enumerate(grammar.given()[1:]):
        for left, right in classes.under(conditions, seed + n + 1):
            yield from _oriented(left, right, conditions, names, kinds)


def _oriented(
    left: Term, right: Term, conditions: tuple[Term, ...], names: Sequence[dict[Term, Term]], kinds: dict[Term, Kind]
) -> Iterator[Candidate]:
    if cost(left) < cost(right):
        left, right = right, left
    if left is right or left.op in ("var", "const"):
        return
    free = set(nodes_of("var", right, *conditions)) - set(nodes_of("var", left))
    if free:
        return
    best: Candidate | None = None
    for table in names:
        try:
            made = Candidate(
                substitute(left, table), substitute(right, table), tuple(substitute(c, table) for c in conditions)
            )
        except EqsatError:
            continue
        if best is None or made.key < best.key:
            best = made
    if best is not None:
        yield _named(best, kinds)


def _named(candidate: Candidate, kinds: dict[Term, Kind]) -> Candidate:
    """The same with the first names of each kind, in the order in which the left side has them."""
    table: dict[Term, Term] = {}
    free = dict(kinds)
    for v in nodes_of("var", candidate.left):
        table[v] = next(n for n in free if kinds[n] is kinds[v])
        free.pop(table[v])
    left, right = substitute(candidate.left, table), substitute(candidate.right, table)
    return Candidate(left, right, tuple(substitute(c, table) for c in candidate.conditions))


def _renamings(grammar: Grammar) -> list[dict[Term, Term]]:
    """All exchanges of variables of one kind, apart from each other."""
    kinds = grammar.variables()
    groups = [[v for v, k in kinds.items() if k is kind] for kind in dict.fromkeys(kinds.values())]
    tables: list[dict[Term, Term]] = []
    for choice in itertools.product(*(itertools.permutations(g) for g in groups)):
        tables.append(
            {old: new for g, new_g in zip(groups, choice, strict=True) for old, new in zip(g, new_g, strict=True)}
        )
    return tables


def covered(rule: Rule, grammar: Grammar) -> bool:
    """Whether a grammar can say a rule: its operations, its variables, and its conditions.

    >>> from eqsat.research.grammar import ARITHMETIC
    >>> from eqsat.rules.index_arith import div_div
    >>> covered(div_div, ARITHMETIC)
    True
    """
    allowed = {"add": "sum", "sub": "sum", "mul": "prod"}
    operations = {allowed.get(op, op) for op in grammar.operations} | {"var", "const", "sum", "prod"}
    (instance, *more) = rule.instances
    if more or instance.choices or instance.dtype:
        return False
    kinds = list(grammar.parameters.values())
    for kind in {p.kind for p in rule.parameters}:
        if sum(p.kind is kind for p in rule.parameters) > kinds.count(kind):
            return False
    known = _shapes(grammar)
    if instance.conditions and _shape(instance.conditions) not in known:
        return False
    parts = (*_nodes(instance.left), *_nodes(instance.right))
    numbers = {0, 1, *grammar.numbers}
    if any(n.op == "const" and n.payload not in numbers for n in parts):
        return False
    if any(n.op in ("floordiv", "mod") and n.args[1].op == "const" for n in parts):
        return False
    return _size(instance.left) <= grammar.size and all(n.op in operations for n in parts)


def _shapes(grammar: Grammar) -> set[tuple[str, ...]]:
    return {_shape(given) for given in grammar.given() if given}


def _shape(conditions: Sequence[Term]) -> tuple[str, ...]:
    """Conditions without the names of their variables."""
    table: dict[Term, Term] = {}
    for v in nodes_of("var", *conditions):
        table[v] = t.var(f"v{len(table)}")
    return tuple(sorted(str(substitute(c, table)) for c in conditions))


def _nodes(term: Term) -> list[Term]:
    return [term, *(n for a in term.args for n in _nodes(a))]


def _size(term: Term) -> int:
    """The operations of a term, as a grammar counts them."""
    if term.op in ("var", "const"):
        return 0
    below = sum(_size(a) for a in term.args)
    if term.op == "sum":
        constant, coefficients = term.payload
        return below + len(term.args) - 1 + bool(constant) + sum(c != 1 for c in coefficients)
    return below + max(1, len(term.args) - 1)
