"""Tensors among arrays: numpy's protocols, indices, loads as tensors of rank 0, symbolic sizes, einops patterns."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

import copy
import itertools
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import BoundsError, EqsatError, LayoutError, ParseError, ShapeError, TypeMismatch
from eqsat.ir.tensors.tensor import Tensor, View
from eqsat.ir.terms.term import Term

X = eq.input("x", (4, 6), "float32")
A = np.arange(24, dtype="float32").reshape(4, 6)


def value(x: Any) -> Any:
    return eq.evaluate(x, {"x": A})


STANDARD = [
    "abs", "acos", "acosh", "add", "all", "any", "arange", "argmax", "argmin", "asarray", "asin", "asinh", "astype",
    "atan", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "broadcast_arrays", "broadcast_to", "ceil", "clip", "concat", "cos", "cosh", "count_nonzero",
    "diff", "divide", "equal", "exp", "expand_dims", "expm1", "eye", "flip", "floor", "floor_divide", "full",
    "full_like", "greater", "greater_equal", "hypot", "isfinite", "isinf", "isnan", "less", "less_equal",
    "linspace", "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or",
    "logical_xor", "matmul", "matrix_transpose", "max", "maximum", "mean", "meshgrid", "min", "minimum", "moveaxis",
    "multiply", "negative", "not_equal", "ones", "ones_like", "permute_dims", "positive", "pow", "prod",
    "reciprocal", "remainder", "repeat", "reshape", "result_type", "roll", "round", "sign", "sin", "sinh", "sqrt",
    "square", "squeeze", "stack", "std", "subtract", "sum", "take", "tan", "tanh", "tensordot", "tile", "tril",
    "triu", "trunc", "unstack", "var", "vecdot", "where", "zeros", "zeros_like",
]  # fmt: skip
"""The functions of the array API standard that are there; others need an order, or shapes that depend on data."""

ANY: Any = X

OBJECTS: list[Any] = [
    lambda: np.asarray(X), lambda: np.array([X, X]), lambda: np.array(X, dtype=object), lambda: np.asarray(X[0, 1]),
    lambda: np.sort(X), lambda: np.linalg.norm(X), lambda: np.fft.fft(X), lambda: np.nonzero(X), lambda: np.unique(X),
    lambda: np.modf(X),
    lambda: np.frexp(X), lambda: np.add.at(X, [0], 1), lambda: np.add.reduceat(X, [0, 1]),
    lambda: np.median(X), lambda: np.float32(ANY), lambda: float(ANY), lambda: np.copyto(A, X),
    lambda: np.isclose(X, A),
    lambda: np.save("/dev/null", X), lambda: np.full(3, X), lambda: np.matmul(A, X.T, A), lambda: np.arctan2(X, X),
]  # fmt: skip


@pytest.mark.parametrize("call", OBJECTS)
def test_no_array_of_objects(call: Any) -> None:
    with pytest.raises((EqsatError, TypeError)) as error:
        call()
    assert not isinstance(error.value, TypeError) or "real number" in str(error.value)


def test_the_message_names_the_alternative() -> None:
    for call, word in (
        (lambda: np.argsort(X), "eq.evaluate"), (lambda: np.nansum(X), "where="),
        (lambda: np.asarray(X), "eq.evaluate"),
        (lambda: np.isclose(X, A), "atol"), (lambda: np.linalg.svd(X), "np.linalg.svd"), (lambda: X == 0, "eq.equal"),
    ):  # fmt: skip
        with pytest.raises(TypeMismatch, match=word):
            call()
    with pytest.raises(TypeMismatch, match=r"a = a \+ x"):
        a = A.copy()
        a += X


def test_methods_of_arrays_that_are_not_there() -> None:
    lacking = [name for name in dir(np.ndarray) if not name.startswith("_") and not hasattr(X, name)]
    assert {"copy", "sort", "tolist", "strides"} <= set(lacking)
    for name in lacking:
        with pytest.raises(EqsatError, match=rf"x\.{name} of a tensor.*\(.+\)"):
            getattr(X, name)
    with pytest.raises(AttributeError, match="x itself"):
        ANY.copy()
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        print(ANY.colour)
    assert copy.copy(X).shape == (4, 6) and not hasattr(X, "__array_interface__")


def test_quotient_and_remainder_at_once() -> None:
    for found, wanted in ((divmod(X, 4), divmod(A, 4)), (divmod(7, X + 1), divmod(7, A + 1))):
        for x, a in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(value(x), a)
    i = eq.axis("i", 12)
    assert list(map(str, divmod(i, 4))) == ["i // 4", "i % 4"] and list(map(str, divmod(7, i)))[1] == "7 % i"


def test_ufuncs_and_their_methods() -> None:
    for made, wanted in (
        (np.add(A, X), A + A), (np.add.reduce(X), A.sum(0)), (np.maximum.reduce(X, axis=1), A.max(1)),
        (np.add.accumulate(X, axis=1), A.cumsum(1)),
        (np.multiply.outer(X[0], X[1]), np.multiply.outer(A[0], A[1])),
        (np.logical_or.reduce(X, axis=None), True),
        (np.minimum.reduce(X, axis=(0, 1), initial=-3), np.float32(-3)),
        (A + X, 2 * A),
        (A[0] - X, A[0] - A), (2 ** X[:1], 2 ** A[:1]), (A @ X.T, A @ A.T), (np.float64(2) * X, np.float64(2) * A),
        (A < X, A < A), (np.equal(X, A), A == A), (A == X, A == A),
    ):  # fmt: skip
        assert isinstance(made, Tensor)
        found = value(made)
        assert found.dtype == np.asarray(wanted).dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_the_namespace() -> None:
    xp = X.__array_namespace__()
    assert xp.exp(X).shape == X.shape and xp.float32 == X.dtype and xp.newaxis is None and xp.pi == np.pi
    assert xp.asarray([1.0], dtype=xp.float32).dtype == "float32" and xp.float32(2) == 2
    for name in xp.__all__:
        assert getattr(eq, name) is getattr(xp, name)
    assert not set(STANDARD) - set(xp.__all__)


def test_loads_are_tensors_of_rank_0() -> None:
    load = X[1, 2]
    assert isinstance(load, Term)
    for made, wanted in (
        (load, 8), (load + X[0], A[0] + 8), (X - load, A - 8), (eq.stack([load, X[0, 0]]), [8, 0]),
        (eq.exp(X * 0 + load), np.exp(A * 0 + 8)), (eq.concatenate([eq.atleast_1d(load), X[0]]), [8, *A[0]]),
        (load < X, A > 8), (eq.where(load < X, X, load), np.maximum(A, 8)), (eq.broadcast_to(load, (2,)), [8, 8]),
        (eq.asarray(load).astype("int8"), 8), (load * X, A * 8),
    ):  # fmt: skip
        np.testing.assert_allclose(value(made), wanted, rtol=1e-6)
    assert eq.Program([X], {"y": load}).outputs["y"].shape == ()
    assert eq.optimize(load).program.outputs["out"].shape == ()
    np.testing.assert_array_equal(eq.compile(load)(x=A), 8)
    with pytest.raises(TypeMismatch, match="over axes"):
        _ = X + X[eq.axis("i"), 0]
    with pytest.raises(TypeMismatch, match="name them"):
        eq.Program([X], [X])  # type: ignore[arg-type]


def test_all_slices_of_short_axes() -> None:
    for n in (0, 1, 2, 5):
        x, a = eq.constant(np.arange(n)), np.arange(n)
        ends = [None, -7, -2, -1, 0, 1, 2, 7]
        for start, stop, step in itertools.product(ends, ends, [None, 1, 2, 3, -1, -2]):
            part = slice(start, stop, step)
            np.testing.assert_array_equal(eq.evaluate(x[part]), a[part], err_msg=f"{part} of {n}")


@pytest.mark.parametrize("lower", [0, 1, 3])
def test_parts_of_an_axis_of_unknown_extent(lower: int) -> None:
    """As numpy clips them, at every size; extents are clipped once."""
    x = eq.input("x", (eq.symbol("N", lower=lower),), "float32")
    ends = [None, 0, 1, 4, -1, -2, -4]
    for start, stop, step in itertools.product(ends, ends, [1, 2, 3]):
        part = x[start:stop:step]
        assert str(part.shape).count("maximum") <= 2
        for size in range(lower, 8):
            a = np.arange(size, dtype="float32")
            found = eq.evaluate(part, {"x": a})
            np.testing.assert_array_equal(found, a[start:stop:step], err_msg=f"{start}:{stop}:{step} of {size}")
    assert str(x[1:][1:].shape) == ("(N - 2,)" if lower == 3 else "(maximum(N - 2, 0),)")


def test_symbolic_extents() -> None:
    n = eq.symbol("N", lower=0)
    x = eq.input("x", (n, 3), "float32")
    cases: dict[str, Any] = {
        "x[1:]": lambda x: x[1:], "x[:-1]": lambda x: x[:-1], "x[:2]": lambda x: x[:2], "x[-2:]": lambda x: x[-2:],
        "x[::2]": lambda x: x[::2], "x[::-1]": lambda x: x[::-1], "x[::-2]": lambda x: x[::-2],
        "x[1:-1:2]": lambda x: x[1:-1:2], "T": lambda x: x.T, "ravel": lambda x: x.ravel(), "flip": np.flip,
        "cumsum": lambda x: x.cumsum(axis=0), "roll": lambda x: np.roll(x, 2, 0), "tril": np.tril,
        "repeat": lambda x: x.repeat(2, axis=0),
    }  # fmt: skip
    program = eq.Program([x], {name: build(x) for name, build in cases.items()})
    kernel = eq.compile(program)
    for extent in (0, 1, 2, 5):
        a = np.arange(extent * 3, dtype="float32").reshape(extent, 3)
        for found in (eq.evaluate(program, {"x": a}), kernel(x=a)):
            for name, build in cases.items():
                np.testing.assert_allclose(found[name], build(a), err_msg=f"{name} of {extent}")
    with pytest.raises(ShapeError, match=r"x\[a:b\]\[::-1\]"):
        x[3:0:-1]
    assert str(eq.zeros((n, 2)).shape) == "(N, 2)"
    assert eq.evaluate(eq.arange(n).sum() + x[:0].sum(), {"x": np.ones((4, 3), "float32")}) == 6
    assert str(x.mT.shape) == "(3, N)" and str(x.size) == "3*N" and x.ndim == 2 and str(x.nbytes) == "12*N"
    with pytest.raises(ShapeError, match="no number"):
        len(x)


def test_layout_functions_are_views() -> None:
    """So that the e-graph folds them: a chain of such functions and its inverse is nothing."""
    made = [
        X.T, X[::-1, 1:], X[None, ..., 0], X[:, [1, 0]], eq.roll(X, (1, 2), (0, 1)), eq.tile(X, (2, 2)),
        X.repeat(2, axis=0),
        eq.pad(X, 2, "reflect"), eq.pad(X, 2, "edge"), eq.pad(X, 2, "symmetric"), eq.pad(X, 2, "wrap"), eq.tril(X),
        eq.sliding_window_view(X, 2, axis=0), eq.diagonal(X), eq.rot90(X), X.swapaxes(0, 1), eq.diag(X[0]), X.ravel(),
        eq.rearrange(X, "(a b) c -> b (a c)", b=2), eq.take(X, [0, 0], 1), eq.broadcast_to(X, (2, 4, 6)), eq.flip(X),
    ]  # fmt: skip
    assert all(isinstance(x.node, View) for x in made)
    back = [
        eq.rot90(eq.rot90(X), -1), eq.roll(eq.roll(X, (1, 2), (0, 1)), (-1, -2), (0, 1)), eq.flip(X)[::-1, ::-1],
        eq.pad(X, ((1, 2), (3, 0)), "reflect")[1:-2, 3:], eq.pad(X, 2, "wrap")[2:-2, 2:-2], eq.tile(X, 2)[:, :6],
        X.repeat(3, axis=1)[:, ::3], eq.stack([X, X.T.T])[1], eq.split(eq.concatenate([X, X * 2]), 2)[0],
        eq.rearrange(eq.rearrange(X, "a (b c) -> c a b", c=3), "c a b -> a (b c)"),
    ]  # fmt: skip
    for x in back:
        assert eq.optimize(x.relu() if x.shape == X.shape else x).layout_ops <= (x.shape != X.shape)


def test_indices_that_are_refused() -> None:
    for key, kind, word in (
        ((4,), BoundsError, "-4..3"), (([0, 9], 0), BoundsError, "9"), ((slice(None, None, 0),), ShapeError, "step"),
        ((X > 0,), TypeMismatch, "eq.where"), ((0, 0, 0), ShapeError, "rank 2"), (("a",), ShapeError, "integer"),
        ((eq.input("f", (2,), "float32"),), TypeMismatch, "float32"), ((eq.axis("i"),), ShapeError, "eq.compute"),
        ((np.array([0.5]),), TypeMismatch, "float64"), (([True, False],), ShapeError, "mask"),
    ):  # fmt: skip
        with pytest.raises(kind, match=word):
            X[key]


def test_positions_in_tensors() -> None:
    q = eq.input("q", (2, 3), "int64")
    at = np.array([[0, -1, 3], [-4, 9, -9]])
    near = np.clip(np.where(at < 0, at + 4, at), 0, 3)
    y = eq.take(X, q, axis=0)
    for found in (eq.evaluate(y, {"x": A, "q": at}), eq.compile(y)({"x": A, "q": at})):
        np.testing.assert_array_equal(found, A[near])


PATTERNS: list[tuple[str, tuple[int, ...], dict[str, int], Any]] = [
    ("b c (h p) (w q) -> b (h w) (p q c)", (2, 3, 4, 6), {"p": 2, "q": 3},
     lambda a: a.reshape(2, 3, 2, 2, 2, 3).transpose(0, 2, 4, 3, 5, 1).reshape(2, 4, 18)),
    ("b c h w -> b h w c", (2, 3, 4, 5), {}, lambda a: a.transpose(0, 2, 3, 1)),
    ("... c -> c ...", (2, 3, 4), {}, lambda a: a.transpose(2, 0, 1)),
    ("b ... -> b (...)", (2, 3, 4), {}, lambda a: a.reshape(2, 12)),
    ("h w -> h 1 (w)", (2, 3), {}, lambda a: a.reshape(2, 1, 3)),
    ("h 1 w -> (w h)", (2, 1, 3), {}, lambda a: a.reshape(2, 3).T.reshape(6)),
    ("(b1 b2 k) -> k b2 b1", (24,), {"b1": 2, "b2": 3}, lambda a: a.reshape(2, 3, 4).transpose(2, 1, 0)),
    ("a () b -> b a", (2, 1, 3), {}, lambda a: a.reshape(2, 3).T),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "shape", "sizes", "meaning"), PATTERNS)
def test_einops_patterns(pattern: str, shape: tuple[int, ...], sizes: dict[str, int], meaning: Any) -> None:
    a = np.arange(np.prod(shape)).reshape(shape)
    x = eq.input("x", shape, "int64")
    for y in (x.rearrange(pattern, **sizes), x.layout_transform(pattern, **sizes), eq.rearrange(x, pattern, **sizes)):
        np.testing.assert_array_equal(eq.evaluate(y, {"x": a}), meaning(a))


def test_a_pattern_and_its_inverse_cancel() -> None:
    y = X.rearrange("(h p) (w q) -> (h w) p q", p=2, q=3).layout_transform("(h w) p q -> (h p) (w q)", h=2)
    assert eq.optimize(y.relu()).layout_ops == 0


def test_patterns_that_are_refused() -> None:
    x = eq.input("x", (2, 12), "int64")
    for pattern, sizes, kind, word in (
        ("a b -> b", {}, ParseError, "one side"), ("a a -> a a", {}, ParseError, "twice"),
        ("a (b -> a b", {}, ParseError, "match"),
        ("a (b c) -> a b c", {}, LayoutError, "b=..."), ("a (b c) -> a b c", {"b": 5}, LayoutError, "multiple"),
        ("a b c -> a b c", {}, LayoutError, "3 axes"), ("a b -> b a", {"z": 2}, LayoutError, "z"),
        ("a ((b c)) -> a b c", {}, ParseError, "inside"),
        ("a b -> b 2", {}, ParseError, "no name"), ("a (b c) -> a b c", {"b": 3, "c": 5}, LayoutError, "15"),
    ):  # fmt: skip
        with pytest.raises(kind, match=word):
            x.rearrange(pattern, **sizes)
        with pytest.raises((LayoutError, ParseError)):
            x.layout_transform(pattern, **sizes)
    with pytest.raises(ParseError, match="einops pattern"):
        eq.IndexMap.parse("b c -> c b")
    n = eq.symbol("N")
    assert str(eq.input("y", (4 * n, 3), "int8").rearrange("(n k) c -> n (k c)", k=4).shape) == "(N, 12)"
