"""Element-wise operators, reductions, contractions and convolution against plain numpy."""

from collections.abc import Callable
from typing import Any, cast, overload

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, TypeMismatch
from eqsat.ir.tensors.tensor import Tensor

rng = np.random.default_rng(0)
FLOATS = ("float16", "float32", "float64")
INTS = ("int8", "uint8", "int32", "uint64")
START = rng.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Each test has the same numbers, whichever ran before."""
    rng.bit_generator.state = START


def sample(shape: tuple[int, ...], dtype: str) -> NDArray:
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype in FLOATS:
        return (rng.standard_normal(shape) * 3).astype(dtype)
    info = np.iinfo(dtype)
    return rng.integers(int(info.min), int(info.max), shape, dtype=dtype, endpoint=True)


@overload
def run(fn: Callable[[Tensor], Tensor], a: NDArray, /) -> NDArray: ...
@overload
def run(fn: Callable[[Tensor, Tensor], Tensor], a: NDArray, b: NDArray, /) -> NDArray: ...
@overload
def run(fn: Callable[[Tensor, Tensor, Tensor], Tensor], a: NDArray, b: NDArray, c: NDArray, /) -> NDArray: ...
def run(fn: Callable[..., Tensor], /, *arrays: NDArray) -> NDArray:
    """The value of a function of inputs like the arrays."""
    inputs = [eq.input(f"x{k}", a.shape, a.dtype) for k, a in enumerate(arrays)]
    return eq.evaluate(fn(*inputs), {x.name: a for x, a in zip(inputs, arrays, strict=True)})


ANY = ("float32", "float16", "int8", "uint8", "int32", "uint64")
BINARY: list[tuple[str, Callable[[Any, Any], Any], Callable[[Any, Any], Any], tuple[str, ...]]] = [
    ("add", lambda a, b: a + b, np.add, ANY),
    ("sub", lambda a, b: a - b, np.subtract, ANY),
    ("mul", lambda a, b: a * b, np.multiply, ANY),
    ("div", lambda a, b: a / b, np.divide, FLOATS),
    ("floordiv", lambda a, b: a // b, np.floor_divide, ANY),
    ("mod", lambda a, b: a % b, np.mod, ANY),
    ("minimum", eq.minimum, np.minimum, ANY),
    ("maximum", eq.maximum, np.maximum, ANY),
    ("less", lambda a, b: a < b, np.less, ANY),
    ("less_equal", lambda a, b: a <= b, np.less_equal, ANY),
    ("greater", lambda a, b: a > b, np.greater, ANY),
    ("greater_equal", eq.greater_equal, np.greater_equal, ANY),
    ("equal", eq.equal, np.equal, (*ANY, "bool")),
    ("not_equal", eq.not_equal, np.not_equal, (*ANY, "bool")),
    ("and", lambda a, b: a & b, np.bitwise_and, (*INTS, "bool")),
    ("or", lambda a, b: a | b, np.bitwise_or, (*INTS, "bool")),
    ("xor", lambda a, b: a ^ b, np.bitwise_xor, (*INTS, "bool")),
    ("logical_and", eq.logical_and, np.logical_and, ("bool",)),
    ("logical_or", eq.logical_or, np.logical_or, ("bool",)),
]
SHAPES = [((3, 4), (3, 4)), ((3, 1), (4,)), ((), (2, 3)), ((0, 3), (1, 3)), ((), ())]


@pytest.mark.parametrize(("_", "ours", "theirs", "dtypes"), BINARY, ids=[case[0] for case in BINARY])
def test_binary(_: str, ours: Any, theirs: Any, dtypes: tuple[str, ...]) -> None:
    for dtype in dtypes:
        for left, right in SHAPES:
            a, b = sample(left, dtype), sample(right, dtype)
            if theirs in (np.floor_divide, np.mod) and dtype in INTS:
                b = np.where(b == 0, np.ones((), dtype), b)
            with np.errstate(all="ignore"):
                expected = theirs(a, b)
            result = run(ours, a, b)
            assert result.dtype == expected.dtype and result.shape == expected.shape
            np.testing.assert_array_equal(result, expected)


UNARY = [
    ("exp", np.exp), ("log", np.log), ("sqrt", np.sqrt), ("tanh", np.tanh), ("sin", np.sin), ("cos", np.cos),
    ("floor", np.floor), ("ceil", np.ceil), ("round", np.rint), ("trunc", np.trunc), ("abs", np.abs), ("tan", np.tan),
    ("asin", np.arcsin), ("atanh", np.arctanh), ("isnan", np.isnan), ("isinf", np.isinf),
    ("sign", np.sign), ("negative", np.negative), ("square", np.square), ("reciprocal", np.reciprocal),
    ("fabs", np.fabs),
]  # fmt: skip


@pytest.mark.parametrize(("name", "theirs"), UNARY)
@pytest.mark.parametrize("dtype", FLOATS)
def test_unary(name: str, theirs: Any, dtype: str) -> None:
    a = np.concatenate([sample((20,), dtype), np.array([0.0, -0.0, np.inf, -np.inf, np.nan], dtype)])
    with np.errstate(all="ignore"):
        expected = theirs(a)
    result = run(getattr(eq, name), a)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)
    assert np.array_equal(np.signbit(result), np.signbit(expected)) if result.dtype.kind == "f" else True


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_power_one_half(dtype: str) -> None:
    """`x ** 0.5` is the square root, as in numpy; a term's power is C's, where -inf gives inf and -0.0 gives 0.0."""
    a = np.concatenate([np.abs(sample((20,), dtype)), np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -2.0], dtype)])
    x = eq.input("x", a.shape, dtype)
    of_terms = eq.compute(a.shape, lambda i: x[i] ** 0.5)
    with np.errstate(all="ignore"):
        wanted = ((x**0.5, a**0.5), (of_terms, np.power(a, np.full_like(a, 0.5))))
    for y, expected in wanted:
        for result in (eq.evaluate(y, {"x": a}), eq.compile(y)(x=a)):
            np.testing.assert_allclose(result, expected, rtol=1e-3 if dtype == "float16" else 1e-6)
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(result)[numbers], np.signbit(expected)[numbers])


def test_element_wise_methods() -> None:
    a = sample((4, 5), "float32")
    np.testing.assert_array_equal(run(lambda x: x.relu(), a), np.maximum(a, 0))
    np.testing.assert_array_equal(run(lambda x: -x, a), -a)
    np.testing.assert_array_equal(run(lambda x: x.clip(-1, 1), a), np.clip(a, -1, 1))
    np.testing.assert_allclose(run(lambda x: x.sigmoid(), a), 1 / (1 + np.exp(-a)), rtol=1e-6)
    np.testing.assert_array_equal(run(lambda x: ~(x > 0), a), ~(a > 0))
    np.testing.assert_array_equal(run(lambda x: eq.where(x > 0, x, 1.5), a), np.where(a > 0, a, np.float32(1.5)))
    np.testing.assert_array_equal(run(lambda x: 2.0 - x, a), 2 - a)
    np.testing.assert_array_equal(run(lambda x: np.float32(2) * x, a), 2 * a)
    np.testing.assert_array_equal(run(lambda x: cast(Any, np.ones((5,), "float32")) + x, a), 1 + a)
    np.testing.assert_array_equal(run(lambda x: x + x, a), a + a)
    assert np.isnan(run(lambda x: x.relu(), np.array([np.nan], "float32"))).all()
    np.testing.assert_array_equal(run(lambda x: ~x, sample((5,), "int8")).dtype, np.int8)


@given(st.sampled_from([*FLOATS, *INTS, "bool"]), st.sampled_from([*FLOATS, *INTS, "bool"]))
def test_casts(source: str, target: str) -> None:
    a = sample((50,), source)
    result = run(lambda x: x.cast(target), a)
    if source in FLOATS and target in INTS:
        info = np.iinfo(target)
        expected = [min(max(int(v), int(info.min)), int(info.max)) for v in a.tolist()]
        assert result.tolist() == expected
    else:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(result, a.astype(target))
    assert result.dtype == target


REFUSED: list[Callable[[Tensor, Tensor], object]] = [
    lambda x, k: x & x, lambda x, k: k + 300, lambda x, k: x << 1, lambda x, k: x + "a", lambda x, k: k * 1j,
    lambda x, k: x + np.ones(3), lambda x, k: eq.where(x, x, x), lambda x, k: x + np.ones(4, "complex64"),
    lambda x, k: x.cast("index"), lambda x, k: cast(Any, eq.exp)(3), lambda x, k: eq.erf(x, dtype="float64"),
    lambda x, k: (x > 0) - (x > 0), lambda x, k: -(x > 0), lambda x, k: eq.matmul(x, x),
    lambda x, k: x.mean(dtype="int8"),
    lambda x, k: eq.cast(k, None), lambda x, k: x + eq.axis("i"), lambda x, k: x.sum(dtype=bool),
    lambda x, k: k.softmax(0),
    lambda x, k: eq.input("y", (3, 0), "float32").max(1), lambda x, k: x.sum((0, 0)), lambda x, k: x.sum(2),
    lambda x, k: x + eq.input("z", (5,), "float32"), lambda x, k: eq.constant([300], "uint8"),
    lambda x, k: eq.constant("a"),
]  # fmt: skip


@pytest.mark.parametrize("build", REFUSED)
def test_refuses(build: Callable[[Tensor, Tensor], object]) -> None:
    with pytest.raises(EqsatError):
        build(eq.input("x", (3, 4), "float32"), eq.input("k", (3, 4), "int8"))


REDUCE = [("sum", np.add), ("prod", np.multiply), ("max", np.maximum), ("min", np.minimum)]


@pytest.mark.parametrize(("name", "ufunc"), REDUCE)
@pytest.mark.parametrize("dtype", [*FLOATS, "int8", "uint64"])
def test_reductions(name: str, ufunc: Any, dtype: str) -> None:
    a = sample((3, 4, 5), dtype)
    for axis in (0, -1, (0, 2), None, ()):
        for keepdims in (False, True):
            axes = tuple(range(3)) if axis is None else axis
            with np.errstate(all="ignore"):
                expected = np.asarray(ufunc.reduce(a, axis=axes, keepdims=keepdims, dtype=dtype))
            typed: dict[str, Any] = {"dtype": dtype} if name in ("sum", "prod") else {}
            result = eq.evaluate(getattr(eq.constant(a), name)(axis, keepdims, **typed))
            assert result.shape == expected.shape and result.dtype == dtype
            rounds = dtype in FLOATS and name in ("sum", "prod")
            with np.errstate(all="ignore"):
                whole = ufunc.reduce(np.abs(a).astype("float64"), axis=axes, keepdims=keepdims)  # what may round
                off = np.abs(np.asarray(result, "float64") - np.asarray(expected, "float64"))
                close = off <= (4e-3 if dtype == "float16" else 1e-6) * whole
            assert np.all((result == expected) | (rounds & close)), (axis, off)


def test_reductions_of_special_values() -> None:
    a = np.array([[1, np.nan], [-np.inf, 2]], "float32")
    np.testing.assert_array_equal(run(lambda x: x.max(1), a), [np.nan, 2])
    np.testing.assert_array_equal(run(lambda x: x.min(1), a), [np.nan, -np.inf])
    assert run(lambda x: x.sum(1), np.zeros((2, 0), "float32")).tolist() == [0, 0]
    assert run(lambda x: x.prod(), np.zeros((2, 0), "int8")).tolist() == 1
    bools = np.array([[True, False], [False, False]])
    assert run(lambda x: x.max(1), bools).tolist() == [True, False]
    assert run(lambda x: x.min(1), bools).tolist() == [False, False]
    ones = np.ones(3000, "float16")
    assert run(lambda x: x.mean(), ones) == 1 == np.mean(ones), "numpy sums float16 in float32 for a mean"
    many = np.full(300, 100, "int8")
    assert run(lambda x: x.sum(dtype="int8"), many) == many.sum(dtype="int8")
    assert run(lambda x: x.sum(), many) == 30000


def test_mean_softmax() -> None:
    a = sample((3, 4, 5), "float64")
    np.testing.assert_allclose(run(lambda x: x.mean((0, 2)), a), a.mean((0, 2)))
    e = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(run(lambda x: x.softmax(1), a), e / e.sum(1, keepdims=True))
    assert run(lambda x: x.softmax(-1), np.zeros((2, 0), "float32")).shape == (2, 0)
    for extent in (1, 4):
        n = eq.symbol("N")
        x = eq.input("x", (n, 3), "float64")
        b = sample((extent, 3), "float64")
        np.testing.assert_allclose(eq.evaluate(x.softmax(0).sum(0), {"x": b}), np.ones(3))
        np.testing.assert_allclose(eq.evaluate(x.mean(0), {"x": b}), b.mean(0))


@pytest.mark.parametrize(
    ("left", "right"),
    [((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)), ((1, 2, 3), (5, 3, 4)), ((3,), (3,)), ((2, 3), (3,)),
     ((3,), (5, 3, 4)), ((6, 1, 2, 3), (5, 3, 4)), ((0, 3), (3, 4)), ((2, 0), (0, 4))],
)  # fmt: skip
def test_matmul(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = sample(left, "float64"), sample(right, "float64")
    np.testing.assert_allclose(run(eq.matmul, a, b), np.matmul(a, b))
    c, d = sample(left, "int8"), sample(right, "int8")
    np.testing.assert_array_equal(run(eq.matmul, c, d), np.matmul(c, d))


def test_concat_and_split() -> None:
    a, b, c = (sample((2, n, 3), "int32") for n in (1, 0, 4))
    expected = np.concatenate([a, b, c, a], 1)
    np.testing.assert_array_equal(run(lambda x, y, z: eq.concat([x, y, z, x], 1), a, b, c), expected)
    d = sample((7, 6), "int32")
    for cut, axis in ((3, 1), ([1, 4], 0), ([-2], 0), ([2, 99], 1), ([], 0)):
        parts = np.split(d, cut, axis)
        for k, part in enumerate(parts):
            np.testing.assert_array_equal(eq.evaluate(eq.split(eq.constant(d), cut, axis)[k]), part)


def convolution(
    x: NDArray, w: NDArray, strides: tuple[int, int], pads: tuple[int, ...], dilation: tuple[int, int], groups: int
) -> NDArray:
    """The definition, one output channel and window position at a time, in NCHW and OIHW."""
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    n, _, height, width = x.shape
    outputs, inputs, kh, kw = w.shape
    oh = (height - (kh - 1) * dilation[0] - 1) // strides[0] + 1
    ow = (width - (kw - 1) * dilation[1] - 1) // strides[1] + 1
    y = np.zeros((n, outputs, oh, ow), x.dtype)
    for o in range(outputs):
        first = o // (outputs // groups) * inputs
        for i in range(oh):
            for j in range(ow):
                rows = [i * strides[0] + a * dilation[0] for a in range(kh)]
                columns = [j * strides[1] + b * dilation[1] for b in range(kw)]
                window = x[:, first : first + inputs][:, :, rows][:, :, :, columns]
                y[:, o, i, j] = (window * w[o]).sum((1, 2, 3))
    return y


def two(value: Any) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else value


CONVOLUTIONS = [
    ((2, 6, 7, 8), (4, 6, 3, 3), 1, 1, 1, 1), ((1, 6, 9, 8), (4, 3, 3, 2), (2, 1), (1, 2, 0, 1), (1, 2), 2),
    ((1, 4, 5, 5), (8, 1, 3, 3), 1, 0, 1, 4), ((1, 3, 5, 5), (2, 3, 1, 1), 2, (0, 1), 1, 1),
    ((0, 3, 5, 5), (2, 3, 2, 2), 1, 0, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "kernel", "strides", "padding", "dilation", "groups"), CONVOLUTIONS)
@pytest.mark.parametrize(("data", "weights"), [("NCHW", "OIHW"), ("NHWC", "HWIO"), ("NHWC", "OHWI")])
def test_conv2d(
    shape: Any, kernel: Any, strides: Any, padding: Any, dilation: Any, groups: int, data: str, weights: str
) -> None:
    x, w = sample(shape, "float64"), sample(kernel, "float64")
    pads = two(padding) if len(two(padding)) == 4 else (*two(padding), *two(padding))
    expected = convolution(x, w, cast(Any, two(strides)), pads, cast(Any, two(dilation)), groups)
    same, last = (0, 1, 2, 3), (0, 2, 3, 1)
    orders = {"NCHW": same, "NHWC": last, "OIHW": same, "HWIO": (2, 3, 1, 0), "OHWI": last}
    result = run(
        lambda a, b: eq.conv2d(a, b, strides, padding, dilation, groups, data, weights),
        x.transpose(orders[data]),
        w.transpose(orders[weights]),
    )
    np.testing.assert_allclose(result, expected.transpose(orders[data]), atol=1e-12)


def test_conv2d_in_blocked_layouts() -> None:
    x, w = sample((1, 8, 6, 6), "float64"), sample((16, 8, 3, 3), "float64")
    expected = convolution(x, w, (1, 1), (1, 1, 1, 1), (1, 1), 1)
    blocked_x = x.reshape(1, 2, 4, 6, 6).transpose(0, 1, 3, 4, 2)
    blocked_w = w.reshape(2, 8, 2, 4, 3, 3).transpose(0, 2, 4, 5, 3, 1)
    result = run(
        lambda a, b: eq.conv2d(a, b, padding=1, data_layout="NCHW4c", kernel_layout="OIHW4i8o", out_layout="NCHW8c"),
        blocked_x,
        blocked_w,
    )
    np.testing.assert_allclose(result, expected.reshape(1, 2, 8, 6, 6).transpose(0, 1, 3, 4, 2), atol=1e-12)
    n = eq.symbol("N")
    a, b = eq.input("a", (n, 8, 6, 6), "float64"), eq.input("b", (16, 8, 3, 3), "float64")
    np.testing.assert_allclose(eq.evaluate(eq.conv2d(a, b, padding=1), {"a": x, "b": w}), expected, atol=1e-12)


def test_conv2d_refuses() -> None:
    x, w = eq.input("x", (1, 8, 6, 6), "float32"), eq.input("w", (4, 8, 3, 3), "float32")
    wrong: list[dict[str, Any]] = [
        {"groups": 0}, {"groups": 3}, {"strides": 0}, {"dilation": -1}, {"padding": -1}, {"padding": (1, 2, 3)},
        {"data_layout": "NHWC"}, {"dilation": 5}, {"strides": (1, 2, 3)},
    ]  # fmt: skip
    for options in wrong:
        with pytest.raises(EqsatError):
            eq.conv2d(x, w, **options)
    with pytest.raises(TypeMismatch):
        eq.conv2d(x, w.cast("float64"))
