"""Signatures that follow from formulas: what they say of an operator is what its formula does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.incidence import signature_of
from eqsat.ir.tensors.reductions import softmax
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Compute, Opaque, Program, Tensor, from_body, input
from eqsat.ir.terms.shape import output_axes, reduce_axes

Make = Callable[[Any, Any], Tensor]


def shifted(x: Tensor, _: object) -> Tensor:
    return eq.compute(x.shape, lambda i, j: eq.where(i < 2, x[i + 1, j], 0))


def by_position(x: Tensor, _: object) -> Tensor:
    return eq.compute(x.shape, lambda i, j: x[i, j] * eq.cast(j, "float32"))


def in_groups(x: Tensor, w: Tensor) -> Tensor:
    """Channel o of the result reads the channels of its group."""
    (i, o), (r,) = output_axes((3, 6)), reduce_axes((2,))
    body = x[(i, o // 3 * 2 + r)] * w[(o, r)]
    return Tensor(from_body(body, (3, 6), (2,), "sum"))


def grouped_maximum(x: Tensor, _: object) -> Tensor:
    y = x.reshape((2, 3, 4))
    return (y - y.max(1, keepdims=True)).reshape((6, 4))


def weighted(x: Tensor, _: object) -> Tensor:
    return x * eq.constant(np.arange(3, dtype=np.float32))


CASES: dict[str, tuple[Make, list[tuple[int, ...]], str, str]] = {
    "softmax": (lambda x, _: softmax(x, 1), [(2, 3)], "a0 a1 -> a0 a1", "map equivariant"),
    "matmul": (lambda a, b: eq.matmul(a, b), [(2, 3), (3, 4)], "a0 a1, a1 a2 -> a0 a2", "map reduce map"),
    "broadcast": (lambda x, y: x + y, [(2, 3), (3,)], "a0 a1, a1 -> a0 a1", "map map"),
    "an axis of one": (lambda x, _: x * 2, [(2, 1)], "a0 1 -> a0 1", "map"),
    "both axes are one": (lambda x, _: x + x.permute_dims((1, 0)), [(3, 3)], "a0 a1 -> a0 a2", "fixed fixed fixed"),
    "neighbours": (shifted, [(3, 4)], "a0 a1 -> a0 a1", "fixed map"),
    "a position in the value": (by_position, [(3, 4)], "a0 a1 -> a0 a1", "map fixed"),
    "transposed": (lambda x, _: x.permute_dims((1, 0)), [(2, 3)], "a0 a1 -> a1 a0", "map map"),
    "merged": (lambda x, _: x.reshape((6, 4)), [(2, 3, 4)], "a0 a1 a2 -> (a0 a1) a2", "map map map"),
    "split": (lambda x, _: x.reshape((2, 3, 4)), [(6, 4)], "(a0 a1) a2 -> a0 a1 a2", "map map map"),
    "split and merged again": (grouped_maximum, [(6, 4)], "a0 a1 -> a0 a1", "fixed map"),
    "groups": (in_groups, [(3, 4), (6, 2)], "a0 (a1 a2), (a1 a3) a2 -> a0 (a1 a3)", "map map reduce map"),
    "padded": (lambda x, _: x.pad(((0, 0), (1, 1))), [(2, 3)], "a0 a1 -> a0 a2", "map fixed fixed"),
    "a constant weight": (weighted, [(2, 3)], "a0 a1 -> a0 a1", "map fixed"),
}


def arrangement(labels: Sequence[str], extents: dict[str, int], orders: dict[str, NDArray]) -> NDArray:
    """Where the positions of a dimension go if the positions of its labels do."""
    shape = [extents[x] for x in labels]
    at = np.arange(int(np.prod(shape))).reshape(shape)
    for n, x in enumerate(labels):
        at = at.take(orders[x], axis=n)
    return at.reshape(-1)


def rearranged(
    array: NDArray, dims: Sequence[Sequence[str]], extents: dict[str, int], orders: dict[str, NDArray]
) -> NDArray:
    for n, labels in enumerate(dims):
        array = array.take(arrangement(labels, extents, orders), axis=n)
    return array


@pytest.mark.parametrize("name", CASES)
def test_what_a_signature_allows_changes_nothing(name: str) -> None:
    """Positions of every label that is not fixed are permuted in all operands: the output is permuted alike."""
    make, shapes, text, roles = CASES[name]
    xs = [input(f"x{n}", s, "float32") for n, s in enumerate(shapes)]
    y = make(xs[0], xs[-1])
    made = y.node.signature if isinstance(y.node, Opaque) else signature_of(xs, [y])
    assert isinstance(made, Signature)
    extents = {x: int(d) for x, d in made.check(shapes, [y.shape], name).items() if isinstance(d, int)}
    assert (str(made), " ".join(made.role(x) for x in sorted(extents))) == (text, roles)
    r = np.random.default_rng(0)
    orders = {x: np.arange(e) if made.role(x) == "fixed" else r.permutation(e) for x, e in extents.items()}
    arrays: list[NDArray] = [r.integers(-4, 5, s).astype(np.float32) for s in shapes]

    def run(given: list[NDArray]) -> NDArray:
        return np.asarray(eq.evaluate(Program(xs, {"y": y}), {f"x{n}": a for n, a in enumerate(given)}))

    other = [rearranged(a, dims, extents, orders) for a, dims in zip(arrays, made.operands, strict=True)]
    wanted = rearranged(run(arrays), made.outputs[0], extents, orders)
    np.testing.assert_allclose(run(other), wanted, rtol=1e-6)


def test_an_ordered_sum_has_a_fixed_axis() -> None:
    x = input("x", (2, 3), "float32")
    free = x.sum(1).node
    assert isinstance(free, Compute)
    kept = Compute(free.operands, free.shape, free.body, free.reduce, free.combiner, ordered=True)
    assert [signature_of([x], [Tensor(n)]).role("a1") for n in (free, kept)] == ["reduce", "fixed"]


def test_names_are_given_once() -> None:
    """An operand that no output reads has axes of its own."""
    x, y = input("x", (2,), "float32"), input("y", (3,), "float32")
    assert str(signature_of([x, y], [eq.exp(x)])) == "a0, a1 -> a0"
