"""Ceilings of index terms in terms of sizes, against all their values at small sizes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from eqsat.ir.ranges.ceilings import Ceilings
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables

N, K = t.sym("N", lower=0, upper=4), t.sym("K", lower=1, upper=4)
X, Y = t.ax(0, 4096), t.ax(1, 4096)


def size(rng: random.Random) -> Term:
    """A product of sizes and a number, perhaps rounded up."""
    made = t.product([t.index_const(rng.randint(1, 3)), *rng.choices([N, K], k=rng.randint(0, 2))])
    return (made + rng.randint(0, 3)) // rng.randint(1, 3) if rng.random() < 0.3 else made


def index(rng: random.Random, depth: int) -> Term:
    """A term over two axes and the sizes."""
    if depth == 0 or rng.random() < 0.15:
        return rng.choice([X, Y, X, Y, size(rng), t.index_const(rng.randint(-2, 5))])
    a, b = index(rng, depth - 1), index(rng, depth - 1)
    return rng.choice(
        [
            a + b,
            a - b,
            rng.randint(-2, 4) * a,
            a // size(rng),
            a % size(rng),
            a * rng.choice([K, b]),
            t.binary("min", a, b),
        ]
    )


GRID = {
    x: np.arange(first, 1 + last).reshape([-1 if k == axis else 1 for k in range(4)])
    for axis, (x, first, last) in enumerate([(N, 0, 4), (K, 1, 4), (X, 0, 48), (Y, 0, 48)])
}


@pytest.mark.parametrize("count", [250, pytest.param(600, marks=pytest.mark.slow)])
def test_no_value_is_above_its_ceiling(count: int) -> None:
    found = 0
    for seed in range(count):
        rng = random.Random(seed)
        extents, term = {X: size(rng), Y: size(rng)}, index(rng, 3)
        known = rng.choice([[], [rng.randint(1, 4) * X + rng.randint(-2, 2) * Y < size(rng)], [t.logical_not(X < K)]])
        box = Ceilings(extents, known)
        ceiling = box.of(term)
        if ceiling is None:
            continue
        assert not free_variables(ceiling)
        found += 1
        conditions = [t.compare("lt", x, extent) for x, extent in extents.items()] + known
        runs = np.asarray(True)
        for value, _ in evaluate_masked(conditions, GRID):
            runs = runs & value
        (value, undefined), (least, no_ceiling) = evaluate_masked([term, ceiling], GRID)
        for bad in (undefined, no_ceiling):  # a size of 0 that divides
            runs = runs if bad is None else runs & ~bad
        above = runs & ((value > least) | (least > box.most(term)))
        assert not above.any(), f"{seed}: {term} is at most {ceiling} over {extents} where {known}"
    assert found >= count // 2


def test_quotients_of_what_runs_to_a_product_are_below_the_other_factor() -> None:
    big = t.sym("M", lower=1, upper=1 << 20)
    i = t.ax(0, 1 << 60)
    for extent, term, most in [
        (3 * big * K, i // (3 * big), K - 1),
        (3 * big * K, i // 3 // big, K - 1),
        (3 * big * K, i // 3 // K, big - 1),
        (K * big + 2, i // big, K + 1),
        (2 * big * K, (i + 1) // big, 2 * K),
        (big * big * K, i // big % big, big - 1),
    ]:
        assert Ceilings({i: extent}).of(term) is most, term
    io, ii = t.ax(0, 1 << 60), t.ax(1, 16)
    inside = 16 * io + ii < K * big * big
    split = Ceilings({io: (K * big * big + 15) // 16}).under(inside)
    assert split.of((16 * io + ii) // big // big) is K - 1
