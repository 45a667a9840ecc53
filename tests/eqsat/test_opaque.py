"""Operators that only their caller knows: none is merged with another, or moved to where it would not be itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.tensors.tensor import Program, Tensor

SHAPE = (2, 3, 5)
ARRAY = np.random.default_rng(0).standard_normal(SHAPE).astype("float32")
BIG = np.arange(5000)
OTHER = np.where(BIG == 2500, 7, BIG)


def one(x: Tensor, impl: Callable[[Any], Any], **attrs: Any) -> Tensor:
    signature = eq.Signature.parse("a b c -> a b c", map="a b")
    return eq.opaque("op", [x], [(x.shape, x.dtype)], attrs=attrs, signature=signature, impl=impl)[0]


def cumulated(x: Any) -> Any:
    return np.cumsum(x, axis=2)


def swapped(x: Tensor) -> Tensor:
    return x.permute_dims((0, 2, 1))


def turned(x: Tensor) -> Tensor:
    return x.permute_dims((1, 2, 0)).permute_dims((2, 0, 1))


X = eq.input("x", SHAPE, "float32")
PROGRAMS = {
    "implementations differ": turned(one(X, np.sin)) + one(X, np.cos),
    "arrays differ beyond what numpy prints": turned(one(X, np.sin, table=BIG)) + one(X, np.cos, table=OTHER),
    "the axis is fixed in the implementation": swapped(one(swapped(X), cumulated, axis=2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_meaning_is_kept(name: str) -> None:
    program = Program((X,), {"y": PROGRAMS[name]})
    before, after = (eq.evaluate(p, {"x": ARRAY}) for p in (program, eq.optimize(program).program))
    assert np.array_equal(before, after)


def test_one_implementation_is_one_operator() -> None:
    same = turned(one(X, np.sin, table=BIG)) + one(X, np.sin, table=BIG.copy())
    assert sum(n.__class__.__name__ == "Opaque" for n in eq.optimize(same).program.nodes()) == 1
