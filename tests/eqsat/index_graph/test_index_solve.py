"""Maps solved in the index e-graph: right at every point, and before a table is made; alone, it solves what maps do."""

import random
import time
from collections.abc import Sequence
from math import gcd

import numpy as np
import pytest
from seeds import some_of

import eqsat as eq
from eqsat.index_graph import solve as solve_module
from eqsat.index_graph.solve import solve
from eqsat.index_graph.stage import LARGE, Known, best_form
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.rule import Idx, Pos, rule, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.rulebook import check_rule

Axis = tuple[Term, int]


def random_map(source: random.Random) -> tuple[list[Axis], list[Axis]]:
    """Inputs and outputs with their extents: digits split, fused, permuted, rotated, reversed, skewed, multiplied."""
    inputs = [(t.var(name), source.choice([6, 8, 12, 16, 24, 35, 9])) for name in "ijk"[: source.choice([1, 2, 2, 3])]]
    now = list(inputs)
    for _ in range(source.randint(1, 5)):
        k = source.randrange(len(now))
        x, e = now[k]
        kind = source.choice(["split", "fuse", "rotate", "reverse", "swap", "skew", "multiply", "xor"])
        other = (k + 1) % len(now)
        divisors = [d for d in (2, 3, 4, 5, 7, 8) if e % d == 0 and e > d]
        factors = [u for u in (3, 5, 7, 11) if gcd(u, e) == 1]
        if kind == "split" and divisors:
            d = source.choice(divisors)
            now[k : k + 1] = [(x // d, e // d), (x % d, d)]
        elif kind == "fuse" and k + 1 < len(now):
            now[k : k + 2] = [(x * now[other][1] + now[other][0], e * now[other][1])]
        elif kind == "rotate":
            now[k] = ((x + source.randint(1, e - 1)) % e, e)
        elif kind == "reverse":
            now[k] = (e - 1 - x, e)
        elif kind == "swap":
            now[k], now[other] = now[other], now[k]
        elif kind == "skew" and other != k:
            now[k] = ((x + now[other][0]) % e, e)
        elif kind == "multiply" and factors:
            now[k] = (source.choice(factors) * x % e, e)
        elif kind == "xor" and other != k and e & (e - 1) == 0:
            now[k] = (x ^ now[other][0] % e, e)
    return inputs, now


def solved(inputs: Sequence[Axis], outputs: Sequence[Axis]) -> bool:
    """Whether inputs were found; an AssertionError where they are wrong at a point."""
    names = [t.var(f"p{n}") for n in range(len(outputs))]
    ranges = {x: (0, e) for x, e in (*inputs, *zip(names, (e for _, e in outputs), strict=True))}
    found = solve([x for x, _ in inputs], [x for x, _ in outputs], names, ranges)
    if found is None:
        return False
    points = np.indices([e for _, e in inputs])
    env = {str(x): p for (x, _), p in zip(inputs, points, strict=True)}
    cells = {str(p): x.evaluate(env) for p, (x, _) in zip(names, outputs, strict=True)}
    for (x, _), back in zip(inputs, found.values, strict=True):
        assert np.array_equal(np.broadcast_to(back.evaluate(cells), points[0].shape), env[str(x)]), (outputs, back)
    return True


@pytest.mark.parametrize("maps", some_of([50, 100], 1))
def test_random_maps_are_solved(maps: int) -> None:
    source = random.Random(5)
    assert sum(solved(*random_map(source)) for _ in range(maps)) >= 0.99 * maps


def test_a_process_that_may_not_use_egglog_asks_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    source = random.Random(7)
    monkeypatch.setattr(solve_module, "usable", lambda: False)
    assert all(solved(*random_map(source)) for _ in range(3))


@pytest.mark.parametrize("maps", some_of([16, 40], 1))
def test_the_graph_alone_cancels_compositions(maps: int) -> None:
    """Without the rewriter, what was found after the map is the identity in at least 95 of 100 inputs."""
    source = random.Random(8)
    tried = reached = 0
    for _ in range(maps):
        inputs, outputs = random_map(source)
        names = [t.var(f"p{n}") for n in range(len(outputs))]
        ranges = {x: (0, e) for x, e in (*inputs, *zip(names, (e for _, e in outputs), strict=True))}
        found = solve([x for x, _ in inputs], [x for x, _ in outputs], names, ranges)
        for (x, _), back in zip(inputs, found.values if found else (), strict=True):
            whole = substitute(back, dict(zip(names, (o for o, _ in outputs), strict=True)))
            if whole is not x:
                known = Known({v: (0, e) for v, e in inputs})
                tried += 1
                reached += best_form(whole, whole, known, known.facts(), LARGE) is x
    assert tried >= maps and reached >= 0.95 * tried


def test_the_steps_are_laws() -> None:
    """What the solver states of windows, digits, factors and coprime remainders is proved for all numbers."""

    @rule("mod-window")
    def window(x: Idx, low: Idx, c: Pos):
        return low + (x % c - low) % c, x, when(low <= x, x < low + c)

    @rule("mod-factor")
    def factor(x: Idx, y: Idx):
        return (13 * ((5 * x + y) % 16 - y)) % 16, x % 16

    @rule("mod-common-factor")
    def common(x: Idx, y: Idx):
        return (3 * (((6 * x + y) % 16 - y) % 16 // 2)) % 8, x % 8

    @rule("coprime remainders")
    def coprime(x: Idx):
        return (x % 3 * 10 + x % 5 * 6) % 15, x % 15

    for law in (window, factor, common, coprime):
        report = check_rule(law)
        assert report.status == "proved", report


def test_what_is_not_injective_is_not_solved() -> None:
    source = random.Random(6)
    for _ in range(25):
        inputs, outputs = random_map(source)
        if len(outputs) > 1:
            assert not solved(inputs, outputs[:-1]) or outputs[-1][1] == 1


TABLES = [
    ("i, j -> (i + (i + j) % 24) % 12, (i + j) % 24", (12, 24)),
    ("i, j -> (i + j) % 12 // 4, (i + j) % 12 % 4 * 7 % 4, (j + (i + j) % 12 // 4) % 8", (12, 8)),
    ("i, j -> (i + (i + j) % 2400000) % 1200000, (i + j) % 2400000", (1200000, 2400000)),
]


@pytest.mark.parametrize(("text", "shape"), TABLES)
def test_formulas_where_the_equations_give_none(text: str, shape: tuple[int, ...]) -> None:
    """Small maps had tables here, and large ones no inverse."""
    there = IndexMap.parse(text)
    back = there.inverse(shape)
    assert not back.is_table
    source = random.Random(1)
    for _ in range(50):
        point = [source.randrange(e) for e in shape]
        assert [int(str(v)) for v in back.map_indices(there.map_indices(point))] == point


def test_a_slow_machine_gives_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and iterations end a search, not the speed of the processor."""
    clock = time.thread_time
    monkeypatch.setattr("time.thread_time", lambda: 20 * clock())
    monkeypatch.setenv("EQSAT_CACHE", "off")
    columns, rows = eq.symbol("N_of_slow"), eq.symbol("M_of_slow")
    m = eq.IndexMap.parse("i, j -> i, j//4*4 + (i + j)%4", {})
    assert str(m.non_surjective_inverse((rows, 8 * columns))[0]) == "p0, p1 -> p0, p1 // 4 * 4 + (p1 - p0) % 4"
    assert str(eq.simplify("max(max(-2*a, -2*b), -2*a)", {"a": 90, "b": 91})) == "-2*minimum(a, b)"
