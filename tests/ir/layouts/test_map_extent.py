"""The extent that an output declares is its greatest value plus one, whatever total operations it is made of."""

from random import Random

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.map_extent import NegativeOutput, declared_extent
from eqsat.ir.points import values_on
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

LEFT, RIGHT = t.var("i"), t.var("j")
BY_NUMBER = {"truncdiv": (1, 9), "truncmod": (1, 9), "shl": (0, 4), "shr": (0, 4), "bitand": (0, 16)}
OPERATIONS = ("abs", "abs", "sum", "min", "max", "bitand", "bitor", "bitxor", *BY_NUMBER)


def random_term(rng: Random, depth: int) -> Term:
    """A term without digits (`%`), which would count whole."""
    if depth == 0:
        x = rng.choice((LEFT, RIGHT)) * rng.randint(-5, 5) + rng.randint(-20, 20)
        return rng.choice((LEFT, RIGHT, x, LEFT + RIGHT * rng.randint(1, 9)))
    op, a = rng.choice(OPERATIONS), random_term(rng, depth - 1)
    if op == "abs":
        return t.absolute(a)
    if op == "sum":
        return a * rng.randint(-3, 3) + random_term(rng, depth - 1) * rng.randint(-2, 2)
    if op in BY_NUMBER:
        return t.binary(op, a, t.index_const(rng.randint(*BY_NUMBER[op])))
    return t.binary(op, a, random_term(rng, depth - 1))


@pytest.mark.parametrize("seed", range(4))
def test_the_extent_is_the_greatest_value_and_one_more(seed: int) -> None:  # feature: A7
    rng = Random(f"extent {seed}")
    for _ in range(250):
        term = random_term(rng, rng.randint(1, 3)) * rng.choice((1, -1)) + rng.randint(0, 90)
        shape = rng.randint(1, 7), rng.randint(1, 7)
        values = values_on([term], [LEFT, RIGHT], shape)
        assert values is not None
        if int(np.min(values[0])) < 0:
            with pytest.raises(NegativeOutput):
                declared_extent(term, {LEFT: shape[0], RIGHT: shape[1]}, lambda: "it")
        else:
            assert (
                declared_extent(term, {LEFT: shape[0], RIGHT: shape[1]}, lambda: "it") == int(np.max(values[0])) + 1
            ), term


@pytest.mark.parametrize(
    ("text", "shape", "extent"),
    [("i -> 4 - abs(2*i - 3)", 4, 4), ("i -> 7 - ((5*i + 5) & 7)", 3, 6), ("i -> 20 - abs(3*i - 10)", 6, 20)],
)
def test_an_end_that_no_value_reaches_is_not_the_extent(text: str, shape: int, extent: int) -> None:
    assert eq.IndexMap.parse(text).map_shape((shape,)) == (extent,)


SPACED = ["i -> 2*i", "i -> 3*i + 1", "i -> 5*i//2", "i -> 4*i, i%3", "i -> i*i", "i -> 2*i + i//3"]


@pytest.mark.parametrize("text", SPACED)
@pytest.mark.parametrize("least", [0, 1])
def test_sizes_that_may_be_0_declare_no_negative_extent(text: str, least: int) -> None:
    """What a shape of symbols declares is, with numbers in their place, what the shape of these numbers declares."""
    m, n = IndexMap.parse(text), t.sym("N", lower=least)
    shape = m.map_shape((n,))
    assert least == 0 or "max" not in str(shape)
    for k in range(least, 9):
        assert numbers(shape, {n: k}) == m.map_shape((k,))


@pytest.mark.parametrize("number", [0, 1, 3])
def test_spaced_elements_of_no_tensor_are_none(number: int) -> None:
    n = t.sym("N", lower=0)
    x, a = eq.input("x", (n,), "float32"), np.arange(1, number + 1, dtype="float32")
    y = x.layout_transform("i -> 2*i", pad_value=0.0)
    want = np.ravel(np.stack([a, np.zeros_like(a)], 1))[: max(2 * number - 1, 0)]
    np.testing.assert_array_equal(eq.evaluate(y, {"x": a}), want)
    np.testing.assert_array_equal(eq.compile(y)(x=a), want)
    s = eq.Schedule(eq.PrimFunc.parse("func f(A: int8[N])\n  symbol N lower 0\n  for i in N:\n    A[i] = int8(1)"))
    s.transform_layout("A", "i -> 2*i", 7, interface="free")
    out = np.zeros(len(want), "int8")
    eq.compile(s.func)(A=out, N=number)
    assert out.tolist() == [7 if k % 2 else 1 for k in range(len(want))]
