"""What solutions rest on: outputs read over few operations, conditions said shortly, cells that are not reached."""

from __future__ import annotations

from math import prod
from random import Random

import numpy as np
import pytest
from seeds import some_of

from eqsat.ir.dtypes import NDArray
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.points import grid, some_points, values_at
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.maps.padding import first_astray
from eqsat.maps.points import plain_values
from eqsat.maps.problem import problem_of
from eqsat.maps.read import plain
from eqsat.maps.solution import solution
from eqsat.maps.tidy import tidy

NUMBERS = (1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24)


def random_index(rng: Random, variables: list[Term], steps: int) -> Term:
    """Sums, quotients and remainders by numbers, bits, minima and choices, over a few variables."""
    pool = [*variables]
    for _ in range(steps):
        a, b = rng.choice(pool), rng.choice(pool)
        c, d = rng.choice(NUMBERS), rng.randint(-8, 8)
        pool += [
            rng.choice(
                [
                    a // c, a % c, a // c, a % c, c * a + b, a - c * b + d, a + d, c * (a // c) + a % c, a - a % c,
                    a // c * c - a, (a + b) // c % 3, t.binary("min", a, b), t.absolute(a - 3) ^ 5, a & 6, a << 2,
                    t.where(a < d, a, b), c * a - b * c, d * a, c * (a // c % 4) + a % c,
                ]
            )
        ]  # fmt: skip
    return pool[-1]


def on_box(terms: list[Term], box: dict[Term, tuple[int, int]]) -> list[NDArray]:
    shape = tuple(stop - low for low, stop in box.values())
    return [np.broadcast_to(v, shape) for v, _ in evaluate_masked(terms, grid(box), load_table)]


@pytest.mark.parametrize("seed", some_of(range(40), 15))
def test_readings_mean_their_terms(seed: int) -> None:
    rng = Random(seed)
    variables = [t.var(n) for n in "ijk"[: rng.randint(1, 3)]]
    box = {v: (low, low + rng.randint(1, 13)) for v in variables for low in [rng.choice((0, 0, 0, 1, -5, 7))]}
    for _ in range(25):
        term = random_index(rng, variables, rng.randint(1, 7))
        wanted, found = on_box([term, plain(term, Bounds(box))], box)
        assert np.array_equal(wanted, found), (term, box)


@pytest.mark.parametrize("seed", some_of(range(40), 15))
def test_shorter_conditions_hold_where_the_given_ones_do(seed: int) -> None:
    rng = Random(seed)
    variables = [t.var(n) for n in "ijk"[: rng.randint(1, 3)]]
    box = {v: (low, low + rng.randint(2, 13)) for v in variables for low in [rng.choice((0, 0, 0, 1, -5, 7))]}
    for _ in range(25):
        factors = [rng.choice((1, 2, 3, 4, 6, 12, -1, -4)) for _ in variables]
        sum_of = t.linear(rng.randint(-9, 9), [(c, v) for c, v in zip(factors, variables, strict=True)])
        side = rng.choice((sum_of, sum_of // rng.choice(NUMBERS), random_index(rng, variables, 2)))
        sides = (side, t.index_const(rng.randint(-9, 40)))
        claim = t.compare(rng.choice(("le", "lt", "ne")), *rng.choice((sides, sides[::-1])))
        (short,) = tidy([claim], box)
        wanted, found = on_box([t.where(claim, 1, 0), t.where(short, 1, 0)], box)
        assert np.array_equal(wanted, found), (claim, short, box)


@pytest.mark.parametrize(
    ("text", "inverse"),
    [
        ("i, j -> (6*i + j)//12, (6*i + j)%12", "2*p0 + p1 // 6, p1 % 6"),
        ("i, j -> (4*i + j)//7, (4*i + j)%7", "(7*p0 + p1) // 4, (p1 - p0) % 4"),
        ("i -> (255 - i)//6, (255 - i)%6", "255 - 6*p0 - p1"),
        ("i, j -> i*6 + 5 - j", "p0 // 6, 5 - p0 % 6"),
        ("i, j -> i//4*4 + j, i%4", "p0 // 4 * 4 + p1, p0 % 4"),
    ],
)
def test_inverses_are_short(text: str, inverse: str) -> None:  # feature: A8
    m = IndexMap.parse(text)
    shape = {1: (256,), 2: (16, 6 if "6" in text else 4)}[len(m.names)]
    back, _ = m.non_surjective_inverse(shape)
    assert str(back).partition(" -> ")[2] == inverse
    again = m.then(back, shape)
    assert [str(o) for o in again.outputs] == list(m.names)


MAPS = [
    ("i -> (i + 5)//8, (i + 5)%8", (200,)),
    ("i, j -> i//3, i%3, (j + 2)//5, (j + 2)%5", (50, 19)),
    ("i, j -> 3*j + 2*i", (2, 900)),
    ("i -> i//8, i%9", (72,)),
    ("i -> i//4, i, i%7", (40,)),
    ("i, j -> (11*i%15*60 + j + 6)//4, 11*i%4, (11*i%15*60 + j + 6)%4", (54, 54)),
    ("i, j -> 7*i + 2*j, i%3", (9, 3)),
    ("i, j -> minimum(i, 14), maximum(i - 14, 0), j", (16, 8)),
    ("i -> where(i < 90, i, i + 3)", (200,)),
    ("i -> abs(i - 70), where(i < 70, 1, 0)", (101,)),
    ("i -> 2*abs(i - 64) + where(i < 64, 1, 0)", (100,)),
    ("i -> where(i < 9, 8 - i, where(i < 40, i + 3, 2*i))", (90,)),
]


@pytest.mark.parametrize(("text", "shape"), MAPS)
def test_padding_is_what_no_point_reaches(text: str, shape: tuple[int, ...]) -> None:  # feature: A10
    """The predicate, and the first padded cell, of a solution by digits, pieces or congruence."""
    m = IndexMap.parse(text)
    problem = problem_of(m._on_box(shape))  # pyright: ignore[reportPrivateUsage]
    back, padding = m.non_surjective_inverse(shape)
    declared = tuple(int(str(n)) for n in m.map_shape(shape))
    reached = np.zeros(declared, np.bool_)
    reached[m.map_indices([a.ravel() for a in np.indices(shape)])] = True
    env = dict(zip(back.inputs, (a.ravel() for a in np.indices(declared)), strict=True))
    marked = values_at([t.where(padding, 1, 0)], env, prod(declared))
    assert marked is not None and np.array_equal(marked[0] == 1, ~reached.ravel())
    first = tuple(int(c) for c in np.unravel_index(int(np.argmin(reached.ravel())), declared))
    solved = solution(problem)
    assert solved is not None and first_astray(problem, solved.values) == first == m.first_padding(shape)


def test_plain_values_decline_what_64_bits_may_not_hold() -> None:
    i = t.var("i")
    env = {i: np.arange(8)}
    assert plain_values([i * (1 << 60)], env, {i: 8}) is None and plain_values([i // (i + 1)], env, {i: 8}) is None
    found = plain_values([(i * 5 + 3) // 2 % 7 ^ 3, t.index_const(4)], env, {i: 8})
    assert found is not None and found[0].tolist() == [((k * 5 + 3) // 2 % 7) ^ 3 for k in range(8)]
    assert found[1].tolist() == [4] * 8


def test_some_points_hold_the_corners() -> None:
    """All points of a small box; of a large one points of the box, both ends of each axis among them."""
    assert sorted(zip(*(a.tolist() for a in some_points((2, 3))), strict=True)) == [
        (a, b) for a in (0, 1) for b in (0, 1, 2)
    ]
    for n, a in zip((1 << 70, 5, 1 << 40), some_points((1 << 70, 5, 1 << 40)), strict=True):
        assert a.min() == 0 and a.max() == min(n, 1 << 62) - 1
