"""Operators that only their caller knows: none is merged with another, or moved to where it would not be itself."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.tensors.tensor import Opaque, Program, Tensor

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


def along_the_second(x: Tensor, text: str) -> Tensor:
    """Sums along axis 1, whichever of the axes has extent 1."""
    signature = eq.Signature.parse(f"{text} -> {text}", map="a")
    return eq.opaque("op", [x], [(x.shape, x.dtype)], signature=signature, impl=second)[0]


def second(x: Any) -> Any:
    return np.cumsum(x, axis=1)


X = eq.input("x", SHAPE, "float32")
PROGRAMS = {
    "implementations differ": turned(one(X, np.sin)) + one(X, np.cos),
    "arrays differ beyond what numpy prints": turned(one(X, np.sin, table=BIG)) + one(X, np.cos, table=OTHER),
    "the axis is fixed in the implementation": swapped(one(swapped(X), cumulated, axis=2)),
    "units stand elsewhere": along_the_second(X.reshape((2, 1, 15)), "a 1 b").reshape((2, 15, 1))
    - turned(along_the_second(X.reshape((2, 15, 1)), "a b 1")),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_meaning_is_kept(name: str) -> None:
    program = Program((X,), {"y": PROGRAMS[name]})
    found = eq.optimize(program)
    before, after = (eq.evaluate(p, {"x": ARRAY}) for p in (program, found.program))
    assert np.array_equal(before, after)
    assert found.checked.difference is None


def test_one_implementation_is_one_operator() -> None:
    same = turned(one(X, np.sin, table=BIG)) + one(X, np.sin, table=BIG.copy())
    assert sum(n.__class__.__name__ == "Opaque" for n in eq.optimize(same).program.nodes()) == 1


def test_an_operator_that_nobody_can_make_anew_keeps_its_shapes() -> None:
    """Its signature says what layouts do to it, not whether it takes another rank."""
    x, w = eq.input("x", (6, 4, 5), "float32"), eq.input("w", (4, 4), "float32")
    windows = x.reshape((2, 3, 4, 5)).permute_dims((1, 0, 2, 3)).reshape((6, 4, 5))
    signature = eq.Signature.parse("n c h, o c -> n o h", map="n o", reduce="c")
    y = eq.opaque("Odd", [windows, w], [((6, 4, 5), "float32")], signature=signature)[0]
    back = y.reshape((3, 2, 4, 5)).permute_dims((1, 0, 2, 3)).reshape((6, 4, 5))
    found = eq.optimize(back, target="onnx")
    (node,) = [n for n in found.program.nodes() if isinstance(n, Opaque)]
    assert found.bytes_moved == 0 and node.outputs == y.node.outputs
