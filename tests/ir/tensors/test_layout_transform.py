"""layout_transform: one View, checked against numpy; padding, holes, wrap-around and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from map_families import BruteForce, maps

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BoundsError, EqsatError, LayoutError, ShapeError, TypeMismatch
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.tensors.layout_transform import layout_transform
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.tensor import Tensor, View, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.shape import require_static
from eqsat.ir.terms.term import Term


def fill_of(y: Tensor) -> Term | None:
    assert isinstance(y.node, View)
    return y.node.fill


@settings(max_examples=35)
@given(maps())
def test_equals_the_scattered_array(case: tuple[IndexMap, tuple[int, ...]]) -> None:
    m, shape = case
    truth = BruteForce(m, shape)
    x = input("x", shape, "int32")
    a = np.arange(1, x.rank and np.prod(shape) + 1, dtype=np.int32).reshape(shape)
    if not truth.injective:
        with pytest.raises(LayoutError, match="both map to"):
            layout_transform(x, m, pad_value=-1)
        return
    y = layout_transform(x, m, pad_value=-1)
    expected: NDArray = np.full(require_static(y.shape, "test"), -1, np.int32)
    for point, image in zip(truth.points, truth.images, strict=True):
        expected[image] = a[point]
    assert isinstance(y.node, View) and y.node.source == x and y.shape == m.map_shape(shape)
    assert np.array_equal(evaluate(y, {"x": a}), expected)
    if (expected == -1).any():
        with pytest.raises(LayoutError, match="pads"):
            layout_transform(x, m)
    else:  # feature: D15
        assert fill_of(layout_transform(x, m)) is None is fill_of(y)


def transformed(pad_value: Any, n: int = 14, dtype: str = "float32") -> Any:
    x = input("x", (n,), dtype)
    y = layout_transform(x, "i -> i//4, i%4", pad_value=pad_value)
    return evaluate(y, {"x": np.arange(n).astype(dtype)})


def two(f: Callable[[Term, Term], Any]) -> Any:
    """A pad function of two indices, with its types."""
    return f


def corner(io: Term, ii: Term) -> Term:
    return io + ii


def test_pad_values() -> None:
    assert transformed(0)[3].tolist() == [12, 13, 0, 0]  # feature: D5
    assert transformed(np.float32(0.5))[3].tolist() == transformed(np.array(0.5, "float32"))[3].tolist()
    assert transformed(-np.inf)[3, 2] == -np.inf and np.signbit(transformed(-0.0)[3, 2])
    assert transformed(True, dtype="bool")[3].all() and transformed(-1, dtype="int8")[3].tolist() == [12, 13, -1, -1]
    assert transformed(corner)[3].tolist() == [12, 13, 5, 6]  # feature: D6
    assert np.isnan(transformed(UNDEF)[3, 2:]).all()  # feature: D7
    assert np.isnan(transformed(two(lambda io, ii: UNDEF))[3, 2:]).all()  # feature: D7
    assert transformed(last)[3].tolist() == [12, 13, 2, 3]  # feature: D6
    assert transformed(corner, dtype="int8")[3].tolist() == [12, 13, 5, 6]  # feature: D6
    assert transformed(99, 16)[3].tolist() == [12, 13, 14, 15]  # feature: D15
    assert transformed(t.const(2.5, "float32"))[3, 3] == 2.5


def test_wrap_around() -> None:  # feature: D8 D9
    x, z = input("x", (14,), "float32"), input("z", (14,), "float32")

    def wrapped(io: Term, ii: Term, source: Tensor = x) -> Term:
        return source[(4 * io + ii) % 14]

    y = layout_transform(x, "i -> i//4, i%4", pad_value=wrapped)
    assert evaluate(y, {"x": np.arange(14, dtype="float32")})[3].tolist() == [12, 13, 0, 1]
    assert layout_transform(z, "i -> i//4, i%4", pad_value=z[0]).shape == (4, 4)
    with pytest.raises(LayoutError, match="reads z"):
        layout_transform(x, "i -> i//4, i%4", pad_value=z[0])


def test_wrap_around_is_not_the_formula_of_the_text() -> None:  # feature: D8
    """The seed writes B[0, (io-14) % 4]; the wrap-around needs the whole position (4*io + ii) % 14."""
    x = input("x", (14,), "float32")
    y = layout_transform(x, "i -> i//4, i%4", pad_value=two(lambda io, ii: x[(io - 14) % 4]))
    assert evaluate(y, {"x": np.arange(14, dtype="float32")})[3].tolist() == [12, 13, 1, 1]


READS: list[tuple[Callable[[Tensor, Term, Term], Term], list[float]]] = [
    (lambda x, io, ii: x[13], [13, 13]),
    (lambda x, io, ii: x[ii] * 2 + x[0], [4, 6]),
    (lambda x, io, ii: t.where(ii < 3, x[5], t.const(7.0, "float32")), [5, 7]),
    (lambda x, io, ii: t.where(4 * io + ii < 14, x[4 * io + ii], x[1]), [1, 1]),
]


@pytest.mark.parametrize(("function", "cells"), READS)
def test_formulas_of_the_same_buffer(
    function: Callable[[Tensor, Term, Term], Term], cells: list[float]
) -> None:  # feature: D8
    x = input("x", (14,), "float32")
    y = layout_transform(x, "i -> i//4, i%4", pad_value=two(lambda io, ii: function(x, io, ii)))
    assert evaluate(y, {"x": np.arange(14, dtype="float32")})[3].tolist() == [12, 13, *cells]


def test_a_value_that_is_undefined_in_the_padding_is_refused() -> None:
    x = input("x", (14,), "float32")
    reads: list[Callable[[Term, Term], Term]] = [
        lambda io, ii: x[4 * io + ii],
        lambda io, ii: x[ii - 3],
        lambda io, ii: x[ii // (io - 3)],
    ]
    for bad in reads:
        with pytest.raises(BoundsError, match=r"undefined at the padding cell \(3, 2\)"):
            layout_transform(x, "i -> i//4, i%4", pad_value=bad)
    data = layout_transform(
        x, "i -> i//4, i%4", pad_value=two(lambda io, ii: t.where(x[0] < x[1], x[1], x[4 * io + ii]))
    )
    assert evaluate(data, {"x": np.arange(14, dtype="float32")})[3, 2] == 1, "only the data tell"


def test_pad_none_must_not_pad() -> None:  # feature: D4
    with pytest.raises(LayoutError, match=r"first padded cell is \(3, 2\)"):
        transformed(None)
    with pytest.raises(LayoutError, match=r"first padded cell is \(3, 2\)"):
        transformed(two(lambda io, ii: None))
    assert transformed(None, 16).shape == (4, 4)


def last(*index: Term) -> Term:
    return index[-1]


def below(io: Term, ii: Term) -> Term:
    return io + ii < 3


@pytest.mark.parametrize(
    ("pad_value", "dtype"),
    [
        (np.int8(3), "int32"),  # feature: D10
        (0.5, "int32"),
        (300, "uint8"),
        (t.const(1.0, "float64"), "float32"),
        (below, "float32"),
        (np.int64(0), "float32"),  # feature: D10
        (np.float64(0), "float32"),  # feature: D10
        (np.bool_(True), "int32"),  # feature: D10
        (np.array(0), "float32"),
        (True, "int32"),
        (1, "bool"),
        (1.0, "int32"),
        (float("nan"), "int8"),
        (1e300, "float32"),
        (70000, "float16"),
        (1j, "float32"),
        ("0", "float32"),
        (np.zeros(2, "float32"), "float32"),
        ([0.0], "float32"),
        (input("z", (), "float32"), "float32"),
        (abs, "float32"),
        (two(lambda io, ii: [0.0]), "float32"),
        (two(lambda io, ii: 100 * io + ii), "int8"),
        (two(lambda io, ii: io - 4), "uint8"),
        (two(lambda io, ii: io), "bool"),
    ],
)
def test_bad_pad_values_are_refused(pad_value: Any, dtype: str) -> None:
    with pytest.raises(TypeMismatch, match="layout_transform of"):
        transformed(pad_value, dtype=dtype)


@pytest.mark.parametrize("stranger", [t.var("q"), t.sym("Q"), t.ax(5, 3), t.ax(0, 3)])
def test_values_of_something_else_are_refused(stranger: Term) -> None:  # feature: D9
    with pytest.raises(LayoutError, match="depends on"):
        transformed(two(lambda io, ii: io + stranger))


def test_each_cell_follows_the_step_that_introduced_it() -> None:  # feature: D14 A19
    x = input("x", (14,), "float32")
    first = layout_transform(x, "i -> i//4, i%4", pad_value=UNDEF)
    second = layout_transform(first, "i, j -> i, j//8, j%8", pad_value=0)
    result = evaluate(second, {"x": np.arange(14, dtype="float32")})
    assert result.shape == (4, 1, 8) and (result[:, 0, 4:] == 0).all()
    assert np.isnan(result[3, 0, 2:4]).all() and result[3, 0, :2].tolist() == [12, 13]


def test_layout_strings() -> None:  # feature: F7
    x = input("x", (1, 30, 2, 3), "float32")
    a = np.random.default_rng(0).random((1, 30, 2, 3)).astype("float32")
    with pytest.raises(LayoutError, match="pads"):
        layout_transform(x, "NCHW", "NCHW16c")
    y = layout_transform(x, "NCHW", "NCHW16c", pad_value=0)
    back = layout_transform(y, "NCHW16c", "NCHW")
    assert y.shape == (1, 2, 2, 3, 16) and back.shape == (1, 32, 2, 3)
    padded = np.concatenate([a, np.zeros((1, 2, 2, 3), "float32")], axis=1)
    assert np.array_equal(evaluate(y, {"x": a}), padded.reshape(1, 2, 16, 2, 3).transpose(0, 1, 3, 4, 2))
    assert np.array_equal(evaluate(back, {"x": a}), padded)
    assert layout_transform(y, "NCHW16c", "NCHW8c").shape == (1, 4, 2, 3, 8)
    node = layout_transform(x, "NCHW", "NHWC").node
    assert isinstance(node, View) and node.tag is not None and node.tag.name == "layout_transform"
    assert node.tag.get("map") == "n, c, h, w -> n, h, w, c"


def test_symbolic_extents() -> None:
    n = t.sym("N")
    x = input("x", (n,), "float32")
    y = layout_transform(x, "i -> i//4, i%4", pad_value=0)
    assert [str(d) for d in y.shape] == ["(N + 3) // 4", "4"]
    for size in (1, 4, 14):
        expected = np.zeros(-(-size // 4) * 4, "float32")
        expected[:size] = np.arange(1, size + 1)
        assert np.array_equal(evaluate(y, {"x": np.arange(1, size + 1, dtype="float32")}), expected.reshape(-1, 4))
    with pytest.raises(LayoutError, match="pads"):
        layout_transform(x, "i -> i//4, i%4")
    whole = input("z", (t.sym("M", multiple_of=8),), "int8")
    assert fill_of(layout_transform(whole, "i -> i//4, i%4")) is None


def test_zero_extents_and_scalars() -> None:
    x = input("x", (0, 3), "float32")
    y = layout_transform(x, "i, j -> j, i")
    assert y.shape == (3, 0) and evaluate(y, {"x": np.zeros((0, 3), "float32")}).shape == (3, 0)
    s = layout_transform(input("s", (), "float32"), IndexMap((), ()))
    assert s.shape == () and evaluate(s, {"s": np.float32(3)}) == 3


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(("NCHW",), LayoutError), ((7,), LayoutError), (("i, j -> j, i",), ShapeError), (("NC", "NC4c"), ShapeError)],
)
def test_misuse_is_refused(arguments: tuple[Any, ...], error: type[EqsatError]) -> None:
    with pytest.raises(error):
        layout_transform(input("x", (4,), "float32"), *arguments)
