"""Seeded random index terms and predicates."""

import random
from collections.abc import Callable

from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

LEAVES = (t.var("i"), t.var("j"), t.var("k"))


def digit_term(source: random.Random, depth: int) -> Term:
    """Sums, quotients and remainders by small numbers."""
    if depth == 0:
        return source.choice([LEAVES[0], *LEAVES])
    kind = source.random()
    if kind < 0.6:
        divisor = t.index_const(source.choice([2, 2, 3, 4, 4, 6, 8, 12, 16]))
        return t.binary("floordiv" if kind < 0.3 else "mod", digit_term(source, depth - 1), divisor)
    coefficients = [source.choice([1, 1, 1, 2, 3, 4, 4, 8, -1, -4]) for _ in range(source.choice([2, 2, 3]))]
    parts = [(c, digit_term(source, depth - 1)) for c in coefficients]
    return t.linear(source.choice([0, 0, 0, 1, -1, 3, 4, 8]), parts)


def any_term(source: random.Random, depth: int) -> Term:
    """Everything that index terms are made of."""
    if depth == 0:
        return source.choice([LEAVES[0], *LEAVES])

    def below() -> Term:
        return any_term(source, depth - 1)

    number = t.index_const(source.choice([1, 2, 3, 4, 5, 7, 8, -2, -3]))
    kind = source.random()
    if kind < 0.32:
        return t.binary(source.choice(["floordiv", "mod", "floordiv", "mod", "truncdiv", "truncmod"]), below(), number)
    if kind < 0.40:
        return t.binary(source.choice(["min", "max"]), below(), source.choice([number, below()]))
    if kind < 0.44:
        return abs(below())
    if kind < 0.52:
        mask = t.index_const(source.choice([1, 2, 3, 4, 5, 7, 8, 15]))
        return t.binary(source.choice(["bitand", "bitor", "bitxor"]), below(), mask)
    if kind < 0.56:
        return t.binary(source.choice(["shl", "shr"]), below(), t.index_const(source.choice([0, 1, 2, 3])))
    if kind < 0.64:
        return t.where(predicate(source, depth - 1, any_term), below(), below())
    if kind < 0.67:
        return t.binary("floordiv", below(), below())
    parts = [(source.choice([1, 1, 1, 2, 3, 4, -1, -4]), below()) for _ in range(2)]
    return t.linear(source.choice([0, 0, 1, -1, 3, 8]), parts)


def predicate(source: random.Random, depth: int, inner: Callable[[random.Random, int], Term]) -> Term:
    """Comparisons under and, or and not."""
    kind = source.random()
    if depth <= 1 or kind < 0.5:
        left = inner(source, max(0, depth - 1))
        numbers = [t.index_const(source.randint(-2, 16)), t.index_const(source.randint(0, 8))]
        right = source.choice([*numbers, inner(source, max(0, depth - 2))])
        return t.compare(source.choice(["lt", "le", "eq", "ne"]), left, right)
    first = predicate(source, depth - 1, inner)
    if kind < 0.6:
        return t.logical_not(first)
    join = t.logical_and if kind < 0.8 else t.logical_or
    return join(first, predicate(source, depth - 1, inner))
