"""Tensors of no cells, of one cell, and of one value everywhere: every view of such a tensor is like many others."""

from __future__ import annotations

import random

import numpy as np
import pytest
from seeds import some_of

import eqsat as eq
from eqsat.graph.encode import encode

EXTENTS = (0, 1, 1, 2, 3, 4, 5, 7, 8)
DTYPES = ("float32", "int8", "bool", "int64", "float16")
ENOUGH = 300
"""e-nodes: the largest of 1,600 such programs had 266."""


def extents(x: eq.Tensor) -> list[int]:
    return [d for d in x.shape if isinstance(d, int)]


def drawn(r: random.Random) -> tuple[eq.Tensor, eq.Tensor]:
    """An input with small axes, and up to seven views and functions of it, one after another."""
    dtype = r.choice(DTYPES)
    one = True if dtype == "bool" else 1
    y = x = eq.input("x", tuple(r.choice(EXTENTS) for _ in range(r.randint(1, 4))), dtype)
    for _ in range(r.randint(2, 7)):
        shape = extents(y)
        axis = r.randrange(len(shape))
        kind = r.choice(["permute", "reshape", "flip", "roll", "pad", "crop", "abs"])
        if kind == "permute":
            y = y.permute_dims(r.sample(range(len(shape)), len(shape)))
        elif kind == "reshape" and 0 not in shape:
            cells = int(np.prod(shape))
            rows = r.choice([d for d in range(1, cells + 1) if cells % d == 0])
            y = y.reshape((rows, cells // rows))
        elif kind == "flip":
            y = y.flip((axis,))
        elif kind == "roll":
            y = y.roll(r.randint(-9, 9), axis)
        elif kind == "pad":
            y = y.pad([(r.randint(0, 2), r.randint(0, 2)) for _ in shape], one)
        elif kind == "crop":
            start = [r.randint(0, d) for d in shape]
            y = y.crop(start, [r.randint(0, d - at) for d, at in zip(shape, start, strict=True)])
        elif kind == "abs" and dtype != "bool":
            y = y.abs()
    return x, y


def check(x: eq.Tensor, y: eq.Tensor, seed: int) -> eq.Result:
    low, high = (0, 2) if x.dtype == "bool" else (-5, 6)
    data = np.random.default_rng(seed).integers(low, high, extents(x)).astype(x.dtype)
    wanted = np.asarray(eq.evaluate(y, {"x": data}))
    result = eq.optimize(y, "c")
    found = np.asarray(eq.evaluate(result.program, {"x": data}))
    assert found.dtype == wanted.dtype and found.shape == wanted.shape and np.array_equal(found, wanted)
    assert result.status == "saturated" and result.progress.nodes <= ENOUGH
    return result


@pytest.mark.parametrize("block", some_of(range(4), 2))
def test_views_of_small_tensors(block: int) -> None:
    for seed in range(25 * block, 25 * (block + 1)):
        check(*drawn(random.Random(seed)), seed)


@pytest.mark.parametrize("function", [False, True])
def test_the_search_ends_where_nothing_is_read(function: bool) -> None:
    """Each view of one value everywhere is that value everywhere; there are many ways to see it so."""
    x = eq.input("x", (0, 3, 7), "float32")
    y = x.crop((0, 1, 2), (0, 2, 4)).crop((0, 0, 3), (0, 0, 0)).pad(((1, 1), (0, 2), (1, 0)), 1)
    y = y.abs() if function else y
    y = y.pad(((0, 0), (0, 0), (1, 1)), 1).flip((0,)).pad(((0, 2), (0, 0), (2, 2)), 1).roll(1, 2)
    result = check(x, y, 0)
    assert result.bytes_moved == 0 and result.progress.nodes < 10


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_functions_of_one_value(dtype: str) -> None:
    """Nothing is moved: the result is one value, and what it is is known."""
    ones = eq.constant(np.ones((3, 4), dtype))
    x = eq.input("x", (3, 4), dtype)
    result = check(x, x + (ones + ones).flip((0,)).roll(2, 1), 1)
    assert result.bytes_moved == 0


@pytest.mark.parametrize("value", [0, 1])
def test_one_value_beside_another(value: int) -> None:
    """Padding with the value itself makes no difference; with another one it does, and nothing has to be given back."""
    x = eq.input("x", (5,), "float32")
    padded = eq.constant(np.ones(3, "float32")).pad(((1, 1),), value)
    result = check(x, x + padded, 2)
    known = encode(eq.Program([x], {"y": x + padded})).interned.constants.values()
    assert not result.notes and len(known) == 1 + value  # one of 5 cells, and for another value the given one of 3
