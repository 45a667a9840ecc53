"""Choices as the affine pieces of their value: equal at every point, one condition less than there are pieces."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from seeds import some_of

from eqsat.index_graph.cost import cost
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import parse_expr
from eqsat.ir.terms.walk import nodes_of
from eqsat.proving.pieces import by_pieces
from eqsat.simplifying.simplify import simplify

X, Y = t.var("i"), t.var("j")


def pieces(e: Term, ranges: dict[Term, tuple[int | None, int | None]], assuming: Term | None = None) -> Term | None:
    return by_pieces(e, ranges, assuming, 100_000, cost)


def values(e: Term, rows: int, columns: int) -> list[int]:
    i, j = np.indices((rows, columns)).reshape(2, -1) - 3
    ((found, bad),) = evaluate_masked([e], {X: i, Y: j})
    assert bad is None
    return np.broadcast_to(found, i.shape).tolist()


class Drawn:
    """A term of choices over affine terms, quotients, remainders and extremes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(f"pieces {seed}")

    def affine(self) -> Term:
        r = self.random
        e = t.linear(r.randint(-4, 4), [(r.choice((0, 1, 1, -1, 2, 3)), X), (r.choice((0, 0, 1, -2)), Y)])
        if r.random() < 0.25:
            e = e // r.choice((2, 3, -2)) if r.random() < 0.5 else e % r.choice((2, 3, 4))
        return e

    def condition(self, depth: int) -> Term:
        r = self.random
        if r.random() < 0.2:
            kind = t.logical_and if r.random() < 0.5 else t.logical_or
            return kind(self.condition(depth), self.condition(depth))
        return t.compare(r.choice(("lt", "le", "eq", "ne")), self.term(depth - 1), self.affine())

    def term(self, depth: int) -> Term:
        r = self.random
        if depth <= 0 or r.random() < 0.2:
            return self.affine()
        if r.random() < 0.15:
            return t.binary(r.choice(("min", "max")), self.term(depth - 1), self.term(depth - 1))
        if r.random() < 0.2:
            return self.term(depth - 1) + self.term(depth - 1)
        return t.where(self.condition(depth), self.term(depth - 1), self.term(depth - 1))


@pytest.mark.parametrize("first", some_of(range(0, 3000, 75), 1))
def test_random_choices_are_equal_at_every_point(first: int) -> None:
    found = 0
    for seed in range(first, first + 75):
        e = Drawn(seed).term(2)
        proposed = pieces(e, {X: (-3, 9), Y: (-3, 4)})
        if proposed is not None:
            found += 1
            assert values(proposed, 12, 7) == values(e, 12, 7), f"{e}: {proposed}"
    assert found > 25


def test_a_roll_behind_a_roll_is_a_roll() -> None:
    m = IndexMap.parse("i -> where(i < 7, i + 5, i - 7)")
    n = m
    for k in range(2, 6):
        n = n.then(m, (12,))
        assert [n.map_indices((i,)) for i in range(12)] == [((i + 5 * k) % 12,) for i in range(12)]
        assert len(nodes_of("where", *n.outputs)) == 1
    assert str(n.then(IndexMap.parse("i -> where(i < 1, i + 11, i - 1)"), (12,))) == "i -> i"


def test_conditions_say_what_those_before_leave_open() -> None:
    e = t.where(Y < 2, t.where(X < 2, 50, X), t.where(X < 2, 50, Y))
    found = pieces(e, {X: (0, 9), Y: (0, 9)})
    assert str(found) == "where(0 <= 1 - i, 50, where(0 <= j - 2, j, i))"


@pytest.mark.parametrize(
    ("text", "ranges", "shown"),
    [
        ("where(i < 4, where(i < 8, i, 0), where(i < 12, i, i + 1))", {"i": (0, 16)}, "where(i < 12, i, i + 1)"),
        ("where(i < 1, 0, where(i < 2, 1, i))", {"i": (0, 9)}, "i"),
        ("where(i < j, j - i, 0) + where(j < i, i - j, 0)", {"i": (0, 9), "j": (0, 9)}, "maximum(i - j, j - i)"),
        ("where(i // 4 == 0, i, where(i // 4 == 1, i, i - 4))", {"i": (0, 12)}, "where(i < 8, i, i - 4)"),
    ],
)
def test_simplified(text: str, ranges: dict[str, tuple[int, int]], shown: str) -> None:
    assert str(simplify(text, ranges)) == shown


def test_what_isl_cannot_say_is_left() -> None:
    x = t.load(0, [X], "int32")
    products = t.where(X < Y, X * Y, t.where(Y < X, X, Y))
    for e in (t.where(X < 4, X, t.where(x < t.const(3, "int32"), X, Y)), products, t.where(X < 4, x, x)):
        assert pieces(e, {X: (0, 9), Y: (0, 9)}) is None
    many = X
    for k in range(6):
        many = t.where(t.compare("eq", X, k), 100 * k * k, many)
    assert pieces(many, {X: (0, 9)}) is None


def test_what_is_assumed_is_used() -> None:
    e = t.where(X < 4, t.where(Y < 2, X, Y), t.where(Y < 2, Y, X))
    assert pieces(e, {X: (0, 9), Y: (0, 9)}, parse_expr("i < 4 and j < 2")) is X
    assert str(pieces(e, {X: (0, 9), Y: (0, 9)}, X < 4)) == "where(0 <= 1 - j, i, j)"
