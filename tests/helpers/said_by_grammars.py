"""Which rules a grammar can say: what a search over it can find again."""

import itertools
from collections.abc import Mapping, Sequence

from eqsat.ir.rule import Kind, Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.research.grammar import DIVISIONS, ZERO, Grammar

_INDICES: Mapping[Kind, Kind] = dict.fromkeys((Kind.NEG, Kind.TOTAL, Kind.ANY, Kind.NUM), Kind.IDX)
"""What a grammar has instead of narrower and wider kinds of parameters."""


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
