"""Programs with a size that is a symbol lose as many moves as those with a number for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import as_program
from eqsat.testing import arrays_for

N = eq.symbol("N", lower=4)


def x(*shape: Any, name: str = "x") -> eq.Tensor:
    return eq.input(name, shape, "float32")


def weights(*shape: int) -> eq.Tensor:
    return eq.constant(np.random.default_rng(0).normal(size=shape).astype("float32"))


def heads(n: Any, rows: Any) -> eq.Tensor:
    split = x(rows, n, 64).reshape((rows, n, 4, 16)).permute_dims((0, 2, 1, 3))
    return split.exp().permute_dims((0, 2, 1, 3)).reshape((rows, n, 64))


def windows(n: Any) -> eq.Tensor:
    cut = x(n, 8, 8, 4).reshape((n, 2, 4, 2, 4, 4)).permute_dims((0, 1, 3, 2, 4, 5)).reshape((4 * n, 16, 4)).exp()
    return cut.reshape((n, 2, 2, 4, 4, 4)).permute_dims((0, 1, 3, 2, 4, 5)).reshape((n, 8, 8, 4))


def gates(n: Any) -> eq.Tensor:
    y = eq.matmul(x(n, 16), weights(16, 64))
    return y[:, :32] * y[:, 32:].sigmoid()


def shuffled(n: Any) -> eq.Tensor:
    y = x(n, 12, 4).reshape((n, 3, 4, 4)).permute_dims((0, 2, 1, 3)).reshape((n, 12, 4)).relu()
    return y.reshape((n, 4, 3, 4)).permute_dims((0, 2, 1, 3)).reshape((n, 12, 4))


PROGRAMS: dict[str, Callable[[Any], eq.Tensor]] = {
    "the first of joined rows": lambda n: eq.concat([x(n, 6), x(3, 6, name="y")], 0)[:n].exp(),
    "the last of joined rows": lambda n: eq.concat([x(3, 6, name="y"), x(n, 6)], 0)[3:].exp(),
    "columns of joined columns": lambda n: eq.concat([x(n, 6), x(n, 3, name="y")], 1)[:, 6:].exp(),
    "a window across joined columns": lambda n: eq.concat([x(n, 8), x(n, 8, name="y")], 1)[:, 4:12].exp(),
    "reversed rows of a product": lambda n: eq.matmul(x(5, n).flip(1), x(n, 4, name="y").flip(0)),
    "reversed and back": lambda n: x(n, 6).flip(0).exp().flip((0, 1)).relu().flip(1),
    "gates": gates,
    "heads": lambda n: heads(n, 2),
    "heads of a batch": lambda n: heads(4, n),
    "windows": windows,
    "shuffled channels": shuffled,
    "rows padded and cut": lambda n: x(n, 10).pad(((2, 3), (0, 0)))[2 : 2 + n].exp(),
    "padding of a product": lambda n: eq.matmul(x(n, 6).pad(((0, 8), (0, 0))), weights(6, 5))[:n],
    "padding of a sum": lambda n: x(n, 6).pad(((0, 0), (0, 2))).sum(1),
    "packed and unpacked": lambda n: (
        x(n, 64).layout_transform("i, j -> j//16, i, j%16").exp().layout_transform("a, b, c -> b, 16*a + c")
    ),
}


NEAR = {
    "columns of joined columns",
    "heads of a batch",
    "padding of a sum",
    "reversed rows of a product",
    "the last of joined rows",
}  # to others, which are in every run


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in NEAR else n for n in PROGRAMS])
def test_as_many_moves_go(name: str) -> None:
    known, unknown = (eq.optimize(PROGRAMS[name](n)) for n in (8, N))
    assert known.cost_after < known.cost_before and unknown.layout_ops <= known.layout_ops
    assert unknown.status == "saturated" and unknown.checked.difference is None
    for size in (4, 7):
        before, after = (p.bind({N: size}) for p in (as_program(PROGRAMS[name](N)), unknown.program))
        feeds = arrays_for(before, size)
        left, right = evaluate_outputs(before, feeds), evaluate_outputs(after, feeds)
        np.testing.assert_allclose(right["out"], left["out"], rtol=1e-4, atol=1e-4)
