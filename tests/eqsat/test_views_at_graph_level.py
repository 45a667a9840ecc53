"""Layout changes, pads and crops as operators of a graph: what is taken, what folds, where they move."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import LayoutError
from eqsat.ir.tensors.tensor import Compute, View

X = eq.input("x", (1, 16, 4, 4), "float32")


def views(tensor: eq.Tensor) -> list[View]:
    """The views of the result with the fewest bytes."""
    return [node for node in eq.optimize(tensor, objective="bytes").program.nodes() if isinstance(node, View)]


# feature: G1
def test_any_bijective_map_is_a_layout_and_others_are_refused() -> None:
    square = eq.input("s", (4, 4), "float32")
    swizzled = square.layout_transform("i, j -> i, j ^ i")
    a = np.arange(16, dtype="float32").reshape(4, 4)
    rows, columns = np.indices((4, 4))
    expected = np.empty_like(a)
    expected[rows, columns ^ rows] = a
    assert swizzled.shape == (4, 4) and np.array_equal(eq.evaluate(swizzled, {"s": a}), expected)
    assert np.array_equal(eq.compile(swizzled)(s=a), expected)
    with pytest.raises(LayoutError, match=r"not injective: \(0, 1\) and \(1, 0\)"):
        square.layout_transform("i, j -> i + j")


# feature: G2
@pytest.mark.parametrize("value", [0.0, -1.5, float("inf")])
def test_pads_take_widths_and_a_value(value: float) -> None:
    widths = [(0, 0), (1, 2), (0, 3), (2, 0)]
    a = np.random.default_rng(0).standard_normal((1, 16, 4, 4)).astype("float32")
    padded = X.pad(widths, value)
    assert np.array_equal(eq.evaluate(padded, {"x": a}), np.pad(a, widths, constant_values=value))
    more = [(0, 0), (1, 0), (0, 0), (0, 1)]
    assert len(views(padded.pad(more, value))) == 1
    other = eq.optimize(padded.pad(more, 7.0), objective="bytes").program
    expected = np.pad(np.pad(a, widths, constant_values=value), more, constant_values=7.0)
    assert np.array_equal(eq.evaluate(other, {"x": a}), expected)


# feature: G4
def test_two_maps_fold_into_one() -> None:
    (once,) = views(X.layout_transform("NCHW", "NCHW8c"))
    (both,) = views(X.layout_transform("NCHW", "NCHW4c").layout_transform("NCHW4c", "NCHW8c"))
    assert both.outputs == once.outputs and both.gather == once.gather and both.source == once.source


# feature: I7
def test_moves_go_where_they_move_least() -> None:
    after_reduction = eq.optimize(X.permute_dims((0, 2, 3, 1)).exp().max((1, 2)), "onnx", "bytes")
    assert after_reduction.bytes_moved == 0 < after_reduction.initial.bytes_moved
    rows = X.permute_dims((0, 2, 3, 1))
    larger = eq.compute((1, 8, 8, 16), lambda n, h, w, c: rows[n, h // 2, w // 2, c]).permute_dims((0, 3, 1, 2))
    assert eq.optimize(larger, "c", "bytes").bytes_moved == 0
    sliced = eq.optimize(X.permute_dims((0, 2, 3, 1)).relu()[:, :1], "onnx", "bytes")
    assert sliced.bytes_moved < sliced.initial.bytes_moved


# feature: G20
def test_operators_keep_what_they_are_when_a_layout_passes() -> None:
    nwc = eq.input("x", (2, 3, 5), "float32").permute_dims((0, 2, 1))
    result = eq.optimize(nwc.sum(2), "onnx")
    (total,) = [node for node in result.program.nodes() if isinstance(node, Compute)]
    assert total.tag is not None and total.tag.name == "reduce_sum" and result.bytes_moved == 0
    assert str(total.body) == "$0[i0, r0, i1]"
