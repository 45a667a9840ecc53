"""Layout operators mean what numpy's functions of the same name mean."""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eqsat as eq
from eqsat.ir.dtypes import DATA, NDArray
from eqsat.ir.errors import EqsatError, EvaluationError, ShapeError, TypeMismatch
from eqsat.ir.tensors.tensor import Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

NAN = float("nan")


def array(*shape: int, dtype: str = "float32") -> NDArray:
    return (np.arange(int(np.prod(shape))).reshape(shape) + 1).astype(dtype)


def value(fn: Callable[[Tensor], Tensor], a: NDArray, shape: Any = None, **options: Any) -> NDArray:
    """The function of an input with the given (or the array's) declared shape."""
    x = eq.input("x", a.shape if shape is None else shape, a.dtype)
    return eq.evaluate(fn(x), {"x": a}, **options)


a2, a3 = array(3, 4), array(2, 3, 4)
CASES: list[tuple[str, NDArray, Callable[[Tensor], Tensor], NDArray]] = [
    ("permute", a3, lambda x: x.permute_dims((2, 0, 1)), a3.transpose(2, 0, 1)),
    ("permute from the end", a3, lambda x: x.permute_dims((-1, 0, -2)), a3.transpose(2, 0, 1)),
    ("reshape", a3, lambda x: x.reshape((4, -1)), a3.reshape(4, -1)),
    ("reshape groups", a3, lambda x: x.reshape((2, 2, 6)), a3.reshape(2, 2, 6)),
    ("reshape ones", a3, lambda x: x.reshape((1, 2, 1, 12, 1)), a3.reshape(1, 2, 1, 12, 1)),
    ("reshape flat", a3, lambda x: x.reshape(24), a3.reshape(24)),
    ("reshape scalar", array(1, 1), lambda x: x.reshape(()), np.full((), 1, "float32")),
    ("reshape from scalar", np.full((), 3, "float32"), lambda x: x.reshape((1, 1)), np.full((1, 1), 3, "float32")),
    ("reshape empty", array(0, 3), lambda x: x.reshape((3, 0, 2)), array(3, 0, 2)),
    ("expand", a2, lambda x: x.expand_dims((0, -1)), a2[None, ..., None]),
    ("squeeze", array(1, 3, 1), lambda x: x.squeeze(), array(3)),
    ("squeeze one", array(1, 3, 1), lambda x: x.squeeze(-1), array(1, 3)),
    ("broadcast", array(3, 1), lambda x: x.broadcast_to((2, 3, 4)), np.broadcast_to(array(3, 1), (2, 3, 4))),
    ("pad one number", a2, lambda x: x.pad(1), np.pad(a2, 1)),
    ("pad a pair", a2, lambda x: x.pad((1, 2)), np.pad(a2, ((1, 2), (1, 2)))),
    ("pad pairs", a2, lambda x: x.pad(((0, 0), (2, 1)), 7.5), np.pad(a2, ((0, 0), (2, 1)), constant_values=7.5)),
    ("pad nothing", a2, lambda x: x.pad(0), a2),
    ("pad NaN", a2, lambda x: x.pad(1, NAN), np.pad(a2, 1, constant_values=NAN)),
    ("pad an empty", array(0, 2), lambda x: x.pad(1), np.pad(array(0, 2), 1)),
    ("pad a scalar", np.full((), 3, "float32"), lambda x: x.pad(()), np.full((), 3, "float32")),
    ("flip", a3, lambda x: x.flip((0, 2)), np.flip(a3, (0, 2))),
    ("flip all", a3, lambda x: x.flip(), np.flip(a3)),
    ("roll", a3, lambda x: x.roll(-5, 1), np.roll(a3, -5, 1)),
    ("tile", a2, lambda x: x.tile((2, 3)), np.tile(a2, (2, 3))),
    ("tile none", a2, lambda x: x.tile((0, 1)), np.tile(a2, (0, 1))),
    ("take", a3, lambda x: x.take([2, 0, -1, 2], 1), np.take(a3, [2, 0, -1, 2], 1)),
    ("take none", a3, lambda x: x.take([], 1), np.take(a3, np.array([], int), 1)),
    ("slice", a3, lambda x: x.slice((0, 1, 3), (2, 2, 2), (1, 1, -2)), a3[:, 1:3, 3:0:-2]),
    ("crop", a3, lambda x: x.crop((0, 1, 1), (2, 2, 3)), a3[:, 1:3, 1:4]),
    ("crop to nothing", a3, lambda x: x.crop((0, 3, 0), (2, 0, 4)), a3[:, 3:3]),
]  # fmt: skip


@pytest.mark.parametrize(("_", "a", "fn", "expected"), CASES, ids=[case[0] for case in CASES])
def test_like_numpy(_: str, a: NDArray, fn: Callable[[Tensor], Tensor], expected: NDArray) -> None:
    result = value(fn, a)
    assert result.shape == expected.shape and result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    assert fn(eq.input("x", a.shape, a.dtype)).shape == expected.shape


@given(st.sampled_from(["edge", "reflect", "wrap"]), st.integers(1, 5), st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_pad_modes(mode: str, extent: int, width: tuple[int, int]) -> None:
    a = array(2, extent)
    pads: Any = ((0, 0), width)
    expected = cast(Any, np.pad)(a, pads, mode=mode)
    np.testing.assert_array_equal(value(lambda x: x.pad(pads, mode=mode), a), expected)


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pad_modes_of_a_symbolic_extent(mode: Any) -> None:
    n = eq.symbol("N", lower=3)
    for extent in (3, 5):
        result = value(lambda x: x.pad(2, mode=mode), array(extent), (n,))
        np.testing.assert_array_equal(result, np.pad(array(extent), 2, mode=mode))
    with pytest.raises(ShapeError):
        eq.input("x", (eq.symbol("M", lower=0),), "float32").pad(2, mode=mode)
    with pytest.raises(ShapeError):
        eq.input("x", (0,), "float32").pad(2, mode=mode)


def _grouped(factors: list[int], cuts: int) -> list[int]:
    """The product of every run of factors, cut where the bits of a number say."""
    result: list[int] = []
    for n, factor in enumerate(factors):
        if cuts >> n & 1 or not result:
            result.append(factor)
        else:
            result[-1] *= factor
    return result


@given(st.data())
def test_reshapes(data: st.DataObject) -> None:
    """Any two factorings of a size, with ones and zeros."""
    factors = data.draw(st.lists(st.sampled_from([1, 2, 2, 3, 5, 0]), max_size=5))
    shape, wanted = (_grouped(data.draw(st.permutations(factors)), data.draw(st.integers(1, 31))) for _ in range(2))
    np.testing.assert_array_equal(value(lambda x: x.reshape(wanted), array(*shape)), array(*shape).reshape(wanted))


def test_symbolic_extents() -> None:
    n = eq.symbol("N")
    for extent in (1, 2, 5):
        a = array(extent, 3, 4)
        cases: list[tuple[Callable[[Tensor], Tensor], NDArray]] = [
            (lambda x: x.reshape((n, -1)), a.reshape(extent, 12)),
            (lambda x: x.reshape((-1, 4)), a.reshape(-1, 4)),
            (lambda x: x.reshape((n * 3, 4)), a.reshape(-1, 4)),
            (lambda x: x.pad(((1, 0), (0, 0), (0, 2))), np.pad(a, ((1, 0), (0, 0), (0, 2)))),
            (lambda x: x.flip(0).roll(1, 0), np.roll(a[::-1], 1, 0)),
            (lambda x: x.tile((2, 1, 1)).sum(0), np.tile(a, (2, 1, 1)).sum(0)),
            (lambda x: eq.concat([x, x], 0), np.concatenate([a, a])),
        ]
        for fn, expected in cases:
            np.testing.assert_array_equal(value(fn, a, (n, 3, 4)), expected)


def test_holes_are_poisoned_and_distinct() -> None:
    a = array(2)
    x = eq.input("x", (2,), "float32")
    p, q = x.pad(1, eq.UNDEF), x.pad(1, eq.UNDEF)
    assert isinstance(p.node, View) and isinstance(q.node, View)
    assert p.node.fill is not None and q.node.fill is not None and p.node.fill.payload != q.node.fill.payload
    assert np.isnan(eq.evaluate(p, {"x": a})).tolist() == [True, False, False, True]
    assert value(lambda x: x.pad(1, eq.UNDEF), a, undef=9).tolist() == [9, 1, 2, 9]
    numbers = (p.node.fill.payload, q.node.fill.payload)

    def fill(number: int, i: NDArray) -> NDArray:
        return numbers.index(number) * 100 + i

    assert eq.evaluate(p - q, {"x": a}, undef=fill).tolist() == [-100, 0, 0, -100]
    assert eq.evaluate(p, {"x": a}, undef=fill).tolist() == [0, 1, 2, 3]
    low = value(lambda x: x.pad(1, eq.UNDEF), array(2, dtype="int8"))
    assert low.tolist() == [-128, 1, 2, -128]


def test_pad_values() -> None:
    a = array(3)

    def position(i: Term) -> Term:
        return eq.cast(i, "float32")

    def around(i: Term) -> Term:
        return t.load(0, [(i - 1) % 3], "float32")

    assert value(lambda x: x.pad(1, position), a).tolist() == [0, 1, 2, 3, 4]
    assert value(lambda x: x.pad(1, around), a).tolist() == [3, 1, 2, 3, 1]
    minus = value(lambda x: x.pad(1, -0.0), a)
    assert np.signbit(minus).tolist() == [True, False, False, False, True]
    assert value(lambda x: x.pad(1, -7), array(2, dtype="int8")).tolist() == [-7, 1, 2, -7]


def test_cropped_values_are_checked() -> None:
    def assumed(x: Tensor) -> Tensor:
        return x.crop((1,), (2,), cropped_value=0)

    assert value(assumed, np.array([0, 5, 6, 0], "float32")).tolist() == [5, 6]
    with pytest.raises(EvaluationError, match=r"\(3,\) holds 7"):
        value(assumed, np.array([0, 5, 6, 7], "float32"))
    assert value(lambda x: x.crop((1,), (2,), cropped_value=NAN), np.array([NAN, 5, 6], "float32")).tolist() == [5, 6]
    assert value(lambda x: x.crop((1,), (2,), cropped_value=eq.UNDEF), array(4)).tolist() == [2, 3]


def first_axis(i: Term, j: Term) -> Term:
    return i


x34 = eq.input("x", (3, 4), "float32")
REFUSED: list[Callable[[], object]] = [
    lambda: x34.permute_dims((0, 0)), lambda: x34.permute_dims((0,)), lambda: x34.permute_dims((0, 2)),
    lambda: x34.reshape((5, -1)), lambda: x34.reshape((-1, -1)), lambda: x34.reshape((3, 5)),
    lambda: x34.reshape((0, -1)),
    lambda: x34.squeeze(0), lambda: x34.broadcast_to((4,)), lambda: x34.broadcast_to((3, 5)), lambda: x34.pad(-1),
    lambda: x34.pad(0.5), lambda: x34.pad((1, 2, 3)), lambda: x34.pad(1, "a"), lambda: x34.pad(1, mode="odd"),
    lambda: eq.input("x", (3,), "int8").pad(1, 300), lambda: eq.input("x", (3,), "int8").pad(1, 0.5),
    lambda: x34.pad(1, first_axis), lambda: x34.flip(2), lambda: x34.flip((0, 0)), lambda: x34.roll(1, 2),
    lambda: x34.tile(cast(Any, (2.5,))), lambda: x34.tile((-1, 1)),
    lambda: x34.take([4], 1), lambda: x34.take([0.5], 1),
    lambda: x34.take([True], 1), lambda: x34.slice((0, 0), (4, 4)), lambda: x34.slice((0, 0), (3, 4), (0, 1)),
    lambda: x34.slice((0,), (3,)), lambda: x34.crop((-1, 0), (2, 2)), lambda: x34.crop((0, 0), (3, 5)),
    lambda: eq.input("x", (-1,), "float32"), lambda: eq.input("x", (1.5,), "float32"),
    lambda: eq.input("x", (3,), "index"), lambda: x34.reshape((12, -1, -1)),
    lambda: eq.input("", (3,), "float32"), lambda: eq.input("x", (3,), "datetime64[s]"),
    lambda: eq.input("x", None, "int8"),
    lambda: eq.input("x", (eq.axis("i"),), "float32"), lambda: eq.split(x34, 3, 1),
    lambda: eq.split(x34, cast(Any, [0.5]), 1),
    lambda: eq.concat([x34, x34[0]], 0), lambda: eq.concat([x34, x34.flip().reshape((4, 3))], 0),
    lambda: eq.concat([], 0), lambda: x34[5], lambda: x34[0.5, 1], lambda: x34[0, 0, 0], lambda: x34[..., ...],
    lambda: len(x34[0, 0] + x34.sum()), lambda: bool(x34), lambda: x34[::0], lambda: x34[[4]], lambda: x34[1.5:],
    lambda: x34 == 0, lambda: x34[eq.axis("i")],
]  # fmt: skip


@pytest.mark.parametrize("build", REFUSED)
def test_refuses(build: Callable[[], object]) -> None:
    with pytest.raises(EqsatError):
        build()


def test_reads_stay_inside() -> None:
    with pytest.raises(EvaluationError, match=r"out of range.*\(3,\)"):
        value(lambda x: eq.compute((5,), lambda i: x[i + 1]), array(4))
    with pytest.raises(TypeMismatch, match="depends on a hole"):
        x = eq.input("x", (4,), "int64")
        hole = x.pad((0, 1), eq.UNDEF)
        assert isinstance(hole.node, View) and hole.node.fill is not None
        fill = hole.node.fill
        eq.compute((5,), lambda i: x[eq.cast(fill, "index") + i])


def test_the_default_pad_is_the_zero_of_every_type() -> None:
    for dtype in DATA:
        x = eq.input("x", (2,), dtype)
        padded = eq.evaluate(x.pad(1), {"x": np.ones(2, dtype)})
        assert padded.dtype == dtype and padded.tolist() == [0, 1, 1, 0]
    with pytest.raises(TypeMismatch, match="does not fit bool"):
        eq.input("x", (2,), "bool").pad(1, 1)


def test_reshapes_whichever_extent_a_number_divides() -> None:
    n, h = eq.symbol("N"), eq.symbol("H")
    x = eq.input("x", (n, 3, 10 * h + 10), "float32")
    assert x.reshape((30 * n * (h + 1),)).reshape((10, h + 1, 3 * n)).rank == 3
    with pytest.raises(eq.EqsatError, match="do not fit"):
        x.reshape((30 * n * (h + 2),))


# feature: A14
Sizes = Callable[[Any], Any]
JOINED: list[tuple[Sizes, Sizes]] = [
    (lambda n: (2 * n + 2, 2 * n + 1), lambda n: ((2 * n + 2) * (2 * n + 1),)),
    (lambda n: (2 * n + 2, 3 * n + 3, 2), lambda n: (2, (2 * n + 2) * (3 * n + 3))),
    (lambda n: (n + 1, n - 1), lambda n: (n * n - 1,)),
]


@pytest.mark.parametrize(
    ("case", "further"), [(0, True), (1, False), pytest.param(1, True, marks=pytest.mark.slow), (2, True)]
)
def test_sizes_are_compared_whatever_their_factors_are(case: int, further: bool) -> None:
    """Numbers that divide an extent inside of a product, and products that are multiplied out; optimised and compiled
    too, which takes long for the second."""
    shape, joined = JOINED[case]
    n = eq.symbol("N", lower=2)
    x = eq.input("x", shape(n), "int32")
    y = eq.Program([x], {"y": eq.flip(x).reshape(joined(n)), "back": (x.reshape(joined(n)) * 2).reshape(shape(n))})
    best, kernel = (eq.optimize(y).program, eq.compile(y)) if further else (y, None)
    for size in (2, 5):
        a = array(*shape(size), dtype="int32")
        for found in (eq.evaluate(y, {"x": a}), eq.evaluate(best, {"x": a}), *([kernel(x=a)] if kernel else [])):
            assert np.array_equal(found["y"], np.flip(a).reshape(joined(size)))
            assert np.array_equal(found["back"], a * 2)
    with pytest.raises(EqsatError, match="do not fit"):
        x.reshape((n * n * n, 2))
