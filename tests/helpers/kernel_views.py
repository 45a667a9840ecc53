"""Views, bodies and reductions that every target compiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from kernel_checks import sample

from eqsat.ir.dtypes import DATA, is_float
from eqsat.ir.tensors import contraction, pointwise, reductions
from eqsat.ir.tensors.tensor import Tensor, compute, constant, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.term import Term


def blocked(x: Tensor) -> Tensor:
    """NCHW to NCHW4c."""
    n, c, h, w = x.shape
    return x.reshape((n, c // 4, 4, h, w)).permute_dims((0, 1, 3, 4, 2))


def plain(x: Tensor) -> Tensor:
    """NCHW4c to NCHW."""
    n, c, h, w, b = x.shape
    return x.permute_dims((0, 1, 4, 2, 3)).reshape((n, c * b, h, w))


# feature: K1
VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "nhwc": lambda x: x.permute_dims((0, 2, 3, 1)),
    "blocked": blocked,
    "there and back": lambda x: plain(blocked(x).relu()),
    "other block": lambda x: plain(blocked(x)).reshape((2, 4, 2, 7, 5)).permute_dims((0, 1, 3, 4, 2)),
    "padded blocks": lambda x: blocked(x.pad(((0, 0), (1, 3), (0, 0), (2, 0)))),
    "pad after transpose": lambda x: x.permute_dims((0, 2, 3, 1)).relu().pad(1, 2),
    "pad all": lambda x: x.pad(((1, 0), (0, 2), (3, 1), (1, 1)), 1),
    "undefined padding": lambda x: x.pad(1, UNDEF),
    "edge": lambda x: x.pad(2, mode="edge"),
    "reflect": lambda x: x.pad(1, mode="reflect"),
    "wrap": lambda x: x.pad(3, mode="wrap").crop((1, 2, 0, 1), (5, 9, 10, 8)),
    "reshape": lambda x: x.reshape((7, 2, 5, 8)).flip((0, 3)),
    "unaligned": lambda x: x.reshape((7, 80)).permute_dims((1, 0)).reshape((35, 16)).flip(0).reshape((4, 140)),
    "steps": lambda x: x.slice((1, 7, 0, 4), (1, 4, 3, 3), (1, -2, 3, -2)),
    "offset blocks": lambda x: x.reshape((560,)).slice((3,), (540,)).reshape((45, 12)).permute_dims((1, 0)),
    "cut blocks": lambda x: x.reshape((560,)).pad((5, 11)).reshape((36, 16)).permute_dims((1, 0)),
    "roll": lambda x: x.roll(-3, 2).roll(2, 1),
    "tile": lambda x: x.tile((1, 2, 1, 3)),
    "take": lambda x: x.take([4, 0, 0, 2], 3).take([-1], 1),
    "broadcast": lambda x: x.sum((1, 3), keepdims=True).broadcast_to((2, 3, 7, 2)),
    "concat": lambda x: reductions.concat([x, x.flip(1), x.pad(((0, 0), (0, 1), (0, 0), (0, 0)))], 1).flip(3),
    "split": lambda x: reductions.concat(reductions.split(x, [2, 3], 1)[::-1], 1),
    "empty": lambda x: x.slice((0, 0, 0, 0), (2, 0, 7, 5)).permute_dims((1, 0, 2, 3)),
    "empty sum": lambda x: x.slice((0, 0, 0, 0), (2, 0, 7, 5)).sum(1),
    "scalar": lambda x: x.slice((1, 2, 3, 4), (1, 1, 1, 1)).reshape(()),
    "itself": lambda x: x,
    "max": lambda x: x.max((0, 2)),
    "min of the rest": lambda x: x.min(3, keepdims=True),
}  # fmt: skip


def operations(dtype: str) -> dict[str, Tensor]:
    """Every scalar operation of a dtype."""
    x, y = input("x", (64,), dtype), input("y", (64,), dtype)
    binary = ["min", "max", "lt", "le", "gt", "ge", "equal", "not_equal"]
    unary: list[str] = []
    if dtype == "bool":
        binary += ["and", "or", "bitxor"]
    elif is_float(dtype):
        binary += ["add", "sub", "mul", "div", "floordiv", "mod"]
        unary = ["neg", "abs", "sqrt", "floor", "ceil", "round", "trunc", "isnan", "isinf"]
    else:
        binary += ["add", "sub", "mul", "floordiv", "mod", "truncdiv", "truncmod", "bitand", "bitor", "bitxor"]
        unary = ["neg", "abs", "bitnot"]
    outputs = {name: pointwise.operator(name, x, y) for name in binary}
    for name in unary:
        outputs[name] = pointwise.pointwise(name, partial(t.unary, name), x)
    for target in DATA:
        outputs[f"cast to {target}"] = x.cast(target)
    outputs["where"] = pointwise.where(x < y, x, y)
    if dtype != "bool":
        outputs |= {"relu": x.relu(), "clip": x.clip(1, 3), "many": x * x + x - 3}
        outputs["left"] = pointwise.operator("max", 1, x)
    if dtype.startswith(("int", "uint")):
        outputs |= {"shl": x << 5, "shr": x >> 3, "pow": x**5}
    return outputs


def row(n: int, formula: Callable[[Term], Term]) -> Tensor:
    """A tensor of rank 1 by its formula."""
    return compute((n,), formula)


def matrix(shape: tuple[int, int], formula: Callable[[Term, Term], Term]) -> Tensor:
    """A tensor of rank 2 by its formula."""
    return compute(shape, formula)


def guarded(x: Tensor, at: Term, *rest: Term) -> Term:
    """x[at, ...] where `at` is in range, else 0."""
    return t.where(t.logical_and(t.compare("le", 0, at), at < x.shape[0]), x[(at, *rest)], 0)


def reducing_and_gathering() -> tuple[dict[str, Tensor], dict[str, np.ndarray]]:
    a, b = input("a", (5, 33, 7), "float32"), input("b", (7, 20), "float32")
    x, w = input("x", (2, 6, 9, 8), "float32"), input("w", (4, 3, 3, 3), "float32")
    v, n, k = input("v", (10, 4), "float32"), input("n", (50,), "int32"), input("k", (6,), "int64")
    first, wide = x.slice((0, 0, 0, 0), (2, 4, 9, 8)), w.pad(((0, 0), (0, 1), (0, 0), (0, 0)))
    s = t.binary

    def wrapped(q: Term) -> Term:
        return t.where(q < 0, q + 10, q)

    outputs = {
        "matmul": reductions.matmul(a, b),
        "convolution": contraction.conv2d(x, w, strides=2, padding=1, groups=2),
        "blocked convolution": contraction.conv2d(blocked(first), wide, padding=1, data_layout="NCHW4c"),
        "softmax": x.softmax(1), "mean": x.mean((1, 3)), "sum": x.sum(), "long": a.sum((0, 1)),
        "wrapping product": (n * 2 + 1).prod(), "wrapping sum": n.sum(), "log of sum": x.exp().sum(3).log(),
        "gather": matrix((6, 4), lambda i, j: guarded(v, t.cast_to(k[i], "index"), j)),
        "negative gather": matrix((6, 4), lambda i, j: guarded(v, wrapped(t.cast_to(k[i], "index")), j)),
        "skew": matrix((9, 9), lambda i, j: t.where(i + j < 9, v[s("min", i + j, 9), j % 4], 0)),
        "swizzle": matrix((10, 4), lambda i, j: v[i, j ^ (i % 4)]),
        "floor division": row(40, lambda i: v[(7 * i - 100) // 3 % 10, s("truncmod", 3 * i - 50, 4) % 4]),
        "truncating division": row(40, lambda i: v[s("truncdiv", i - 20, 7) + 5, abs(i - 20) % 4]),
        "diagonal": row(4, lambda i: v[i, i]),
        "constants": a.permute_dims((0, 2, 1)) + constant(np.arange(33, dtype="float32")),
        "indices": matrix((3, 5), lambda i, j: t.cast_to(i * 5 - j * j, "int16")),
    }  # fmt: skip
    rng = np.random.default_rng(5)
    feeds = {
        name: rng.standard_normal(shape).astype("float32")
        for name, shape in (("a", (5, 33, 7)), ("b", (7, 20)), ("x", (2, 6, 9, 8)), ("w", (4, 3, 3, 3)))
    }
    feeds |= {"v": sample((10, 4), "float32"), "n": sample((50,), "int32")}
    feeds["k"] = np.array([3, -1, 9, 10, -(1 << 63), (1 << 63) - 1])
    return outputs, feeds
