"""Sums of digits whose radix is a size: found in comparisons, where nothing else names the radix."""

from __future__ import annotations

import random
from typing import Any

import pytest

import eqsat as eq
from eqsat import maximum, where
from eqsat.ir.rule import Family, Idx, Num
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.proving.prover import prove_equal

N, M = t.sym("n", 1), t.sym("m", 1)
X, Y = t.var("x"), t.var("y")
OWN = Family("own-sizes")


def eq_zero(a: Term) -> Term:
    return t.compare("eq", a, 0)


@pytest.mark.parametrize(
    ("asked", "given", "wanted"),
    [
        (N * X + Y >= 0, (Y >= 0, Y < N), X >= 0),
        (N * X + Y >= 0, (Y >= -N, Y < 0), X >= 1),
        (N * M * X + Y >= 0, (Y >= 0, Y < N * M), X >= 0),
        (3 * N * X + Y >= 0, (Y >= 0, Y < 3 * N), X >= 0),
        (N * X + Y >= 0, (Y >= 0, Y <= N), None),
        (N * X + Y >= 0, (Y >= -1, Y < N), None),
        (eq_zero(N * X + Y), (-N < Y, Y < N), t.logical_and(eq_zero(X), eq_zero(Y))),
        (eq_zero(N * X + Y), (-N <= Y, Y < N), None),
    ],
)
def test_digits_of_sizes_in_comparisons(asked: Term, given: tuple[Term, ...], wanted: Term | None) -> None:
    found = eq.simplify(asked, assuming=t.logical_and(*given))
    assert found is (asked if wanted is None else wanted)


@pytest.mark.parametrize("count", [60, pytest.param(150, marks=pytest.mark.slow)])
def test_comparisons_of_digits_keep_their_meaning(count: int) -> None:
    """Random sums of three digits of sizes, with limits that fit or just do not, at numbers."""
    draw = random.Random(0)
    shorter = 0
    for _ in range(count):
        radix = draw.choice([N, M, N * M, 2 * N, N + 1])
        asked = draw.choice([radix * X + Y >= draw.randint(-1, 1), eq_zero(radix * X + Y), X * N + Y * M >= 0])
        limits = [(0, radix), (0, radix + 1), (-1, radix), (-radix, 0), (1 - radix, radix), (-radix, radix), (0, N)]
        low, high = draw.choice(limits)
        given = t.logical_and(t.compare("le", low, Y), t.compare("lt", Y, high))
        found = eq.simplify(asked, assuming=given)
        shorter += found is not asked
        for _ in range(60):
            env: dict[Any, Any] = {"x": draw.randint(-4, 4), "y": draw.randint(-20, 20)}
            env |= {"n": draw.randint(1, 5), "m": draw.randint(1, 5)}
            if given.evaluate(env):
                assert found.evaluate(env) == asked.evaluate(env), (asked, given, found, env)
    assert shorter >= count // 15


@OWN.rule("where-below")
def where_below(x: Idx, k: Num):
    """A selection of a limit just below it."""
    return where(x < k + 1, k, x), maximum(x, k)


def test_a_number_that_is_zero_is_no_radix() -> None:
    """Where one place of a pattern binds a number to zero, another does not divide by it."""
    text = "maximum(where(x < y, 0, y), where(x < y, y, 2))"
    assert prove_equal(eq.simplify(text, rules=[where_below]), text)
