"""A row for every name of numpy's that tensors have and every keyword it takes: expressions over the arrays below.

Each is read twice, with `np` as numpy and the names as arrays, and with `np` as eqsat and the names as inputs.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms.term import Term

_rng = np.random.default_rng(17)


def _special(a: NDArray, *values: float) -> NDArray:
    """The array with values at its first places."""
    a.ravel()[: len(values)] = values
    return a


DATA: dict[str, NDArray] = {
    "x": _rng.standard_normal((4, 6)).astype("float32"),
    "y": (_rng.standard_normal((4, 6)) * 2).astype("float32"),
    "z": _special(_rng.standard_normal((4, 6)).astype("float32"), np.nan, np.inf, -np.inf, -0.0, 0.0),
    "d": _rng.standard_normal((2, 3, 4)),
    "h": _rng.standard_normal((3, 4)).astype("float16"),
    "s": _rng.standard_normal((4, 4)).astype("float32"),
    "t": _rng.standard_normal((4, 1, 6)).astype("float32"),
    "v": _rng.standard_normal(6).astype("float32"),
    "p": (_rng.random((4, 6)) * 0.9 + 0.05).astype("float64"),
    "k": _rng.integers(-9, 9, (4, 6)).astype("int32"),
    "n": (_rng.integers(1, 7, (4, 6)) * _rng.choice([-1, 1], (4, 6))).astype("int32"),
    "i": _rng.integers(-128, 127, (4, 6)).astype("int8"),
    "u": _rng.integers(0, 255, (4, 6)).astype("uint8"),
    "j": _rng.integers(-(2**62), 2**62, (4, 6)),
    "w": _rng.integers(0, 2**63, (4, 6)).astype("uint64"),
    "q": _rng.integers(-4, 4, 3),
    "b": _rng.random((4, 6)) < 0.5,
    "c": _rng.random((4, 6)) < 0.7,
    "r": _rng.standard_normal(()).astype("float32"),
    "o": np.zeros((3, 0), "float32"),
}

_BINARY = [
    "add", "subtract", "multiply", "divide", "true_divide", "floor_divide", "remainder", "mod", "maximum", "minimum",
    "fmax", "fmin", "hypot", "logaddexp", "equal", "not_equal", "less", "less_equal", "greater", "greater_equal",
    "logical_and", "logical_or", "logical_xor",
]  # fmt: skip
_UNARY = [
    "exp", "sqrt", "sin", "cos", "tan", "tanh", "sinh", "arctan", "arcsinh", "log1p", "expm1", "floor", "ceil",
    "trunc", "rint", "negative", "positive", "absolute", "abs", "fabs", "sign", "square", "reciprocal", "exp2",
    "deg2rad", "rad2deg", "radians", "degrees", "isnan", "isinf", "isfinite", "logical_not",
]  # fmt: skip
_BITS = [
    "bitwise_and", "bitwise_or", "bitwise_xor",
]  # fmt: skip

_NOT_OF_BOOLS = ("subtract", "floor_divide", "remainder", "mod", "hypot", "logaddexp")

ELEMENTWISE = [
    *(f"np.{f}(x, y)" for f in _BINARY),
    *(f"np.{f}(z, y)" for f in ("maximum", "minimum", "fmax", "fmin", "equal", "less", "logical_and", "multiply")),
    *(f"np.{f}(x, n)" for f in ("add", "floor_divide", "power", "less", "maximum")),
    *(f"np.{f}(k, n)" for f in _BINARY if f not in ("logaddexp", "hypot")),
    *(f"np.{f}(b, c)" for f in _BINARY if f not in _NOT_OF_BOOLS),
    *(f"np.{f}(b, i)" for f in ("add", "multiply", "less", "bitwise_and")),
    *(f"np.{f}(u, i)" for f in ("add", "multiply", "less", "bitwise_xor", "maximum")),
    *(f"np.{f}(j, w)" for f in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "add")),
    *(f"np.{f}(w, j)" for f in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")),
    *(f"np.{f}(z)" for f in _UNARY),
    *(f"np.{f}(k)" for f in _UNARY if f not in ("exp2", "reciprocal", "expm1", "exp", "sqrt", "log1p", "sinh")),
    *(f"np.{f}(u)" for f in ("exp", "sqrt", "negative", "sign", "square", "invert", "isnan", "rint", "floor", "abs")),
    *(f"np.{f}(b)" for f in ("exp", "invert", "absolute", "square", "isnan", "logical_not", "floor", "rint")),
    *(f"np.{f}(h)" for f in ("exp", "tanh", "floor", "sign", "square", "negative")),
    *(f"np.{f}(p)" for f in ("log", "log2", "log10", "arcsin", "arccos", "arctanh", "asin", "acos", "atanh", "log1p")),
    *(f"np.{f}(p + 1)" for f in ("arccosh", "acosh", "cosh", "asinh", "atan")), "np.log2(np.float32(2) ** n)",
    "np.log10(z)", "np.log2(z)", *(f"np.{f}(k, n)" for f in _BITS), *(f"np.{f}(b, c)" for f in _BITS), "np.invert(k)",
    "np.bitwise_not(i)", "np.bitwise_invert(b)", "np.left_shift(k, 3)", "np.right_shift(i, 2)",
    "np.bitwise_left_shift(u, 1)", "np.bitwise_right_shift(k, 40)", "np.left_shift(u, np.uint8(9))", "i >> 9",
    "np.power(x, 2)", "np.pow(p, x)", "np.power(k, 3)", "np.float_power(k, 2)", "x ** 2", "p ** 0.5", "2.0 ** x",
    "np.add(x, y, dtype='float64')", "np.exp(i, dtype='float32')", "np.maximum(k, u, dtype='int64')",
    "np.exp(x, where=True)", "np.add(x, y, out=None)", "np.add(x, t)", "np.multiply(x, v)", "np.add(r, x)", "x + 1",
    "1 - k", "k / 2", "k / n", "i // 3", "7 // n", "k % n", "7 % n", "x * np.float64(2)", "k + 0.5", "u + 1",
    "x * np.float32(2)", "b + 1", "b * 2.5", "x @ y.T", "v @ v", "s @ s", "k & 6", "6 | k", "k ^ n", "b & c", "~b",
    "~k", "-x", "+x", "abs(k)", "x < y", "k <= 2", "x > 0", "k >= n", "k << 1", "k >> 1", "True & b",
    "np.clip(x, -1, 1)", "np.clip(k, 0, None)", "np.clip(k, None, 2.5)", "np.clip(x, a_min=0, a_max=0.5)",
    "np.clip(x, min=v, max=2)", "x.clip(-0.5, 0.5)", "x.clip(min=0)", "x.clip(max=0)", "np.clip(u, 3, 200)",
    "np.where(b, x, y)", "np.where(b, x, 0)", "np.where(x > 0, k, 1.5)", "np.where(b, 1, k)", "np.round(x)",
    "np.round(x, 2)", "np.round(p, decimals=1)", "np.round(k)", "np.round(b)", "np.round(x, -1)", "x.round(1)",
    "x.astype('int32')", "k.astype('float16')", "k.astype(bool)", "b.astype('int8')", "np.astype(x, 'float64')",
    "x.astype('float64', copy=False)", "np.astype(k, 'uint8', copy=True)", "np.less(u, 300)", "u >= -1", "-200 < i",
    "np.equal(u, -1)", "np.not_equal(i, 200)", "np.less_equal(j, 2**64)", "np.greater(w, -1)", "np.greater(2**63, j)",
    "np.clip(u, -5, 300)", "np.clip(i, None, 2**40)", "np.clip(i, True, 99)", "np.clip(w, -1, None)", "z ** 0.5",
    "h ** 0.5", "k ** 0.5", "z ** np.float64(0.5)",
]  # fmt: skip

INDEXING = [
    "x[0]", "x[-1]", "x[1:3]", "x[:, 2]", "x[:, -2]", "x[::-1]", "x[::2, 1::3]", "x[-3:-1]", "x[3:1]",
    "x[::-2, ::-1]", "x[10:]", "x[None]", "x[:, None, 2:]", "x[..., None]", "x[..., 0]", "x[...]", "x[()]",
    "d[..., 1]", "d[0, ..., 1:]", "d[1, :, ::-2]", "d[:, 1:2, None]", "x[1, 2]", "x[-1, -1]", "x[np.int64(1)]",
    "x[:, [0, 2, -1]]", "x[[3, 3, 0]]", "d[:, [0, 2], :]", "d[0, :, [1, 3]]", "d[:, 1, [0, 2]]",
    "x[[[0, 1], [2, 3]]]", "x[[0, 1], [2, 3]]", "x[1:3, [0, 5]]", "d[[0, 1], :, [2, 3]]", "x[None, [1, 2], None]",
    "x[[True, False, True, False]]", "x[:, q]", "x[q[1:]]", "x[np.array([0, 2])]", "v[3]", "v[-1]", "v[2:][0]",
    "x[:, (2, 1, 0)]", "d[..., (0, -1), None]", "x[range(1, 3)]", "x[(0, 2), (1, 1)]",
    "v[2] + x", "x[1, 2] * y", "r[()]", "r[None]", "x[6:2:-1]", "x[-1:-5:-2]", "o[:, :2]",
]  # fmt: skip

AXES = [
    "x.T", "d.T", "d.mT", "x.transpose()", "d.transpose(2, 0, 1)", "d.transpose((1, 0, 2))", "np.transpose(d)",
    "np.transpose(d, axes=(2, 1, 0))", "np.permute_dims(d, (1, 2, 0))", "np.matrix_transpose(d)", "d.reshape(6, 4)",
    "d.reshape((4, -1))", "d.reshape(-1)", "d.reshape(24)", "np.reshape(d, (6, 4))",
    "np.reshape(d, (4, 6), order='F')", "d.reshape(3, 8, order='F')", "np.reshape(d, -1, copy=None)", "d.ravel()",
    "np.ravel(d)", "np.ravel(d, order='F')", "d.ravel('F')", "d.flatten()", "d.flatten(order='F')",
    "d.swapaxes(0, 2)", "np.swapaxes(d, 1, -1)", "np.moveaxis(d, 0, -1)", "np.moveaxis(d, [0, 1], [-1, 0])",
    "np.moveaxis(d, source=2, destination=0)", "np.expand_dims(x, 0)", "np.expand_dims(x, axis=(0, -1))",
    "np.squeeze(t)", "np.squeeze(t, axis=1)", "t.squeeze()", "t.squeeze(axis=-2)", "np.broadcast_to(v, (3, 6))",
    "np.broadcast_to(t, shape=(4, 2, 6))", "np.broadcast_arrays(x, v, r)", "np.atleast_1d(r)", "np.atleast_2d(v)",
    "np.atleast_3d(v)", "np.atleast_3d(x)", "np.atleast_1d(r, x)", "np.flip(d)", "np.flip(d, 1)",
    "np.flip(d, axis=(0, -1))", "np.fliplr(x)", "np.flipud(x)", "np.rot90(x)", "np.rot90(x, k=2)",
    "np.rot90(d, 3, axes=(1, 2))", "np.rot90(d, k=-1)", "np.roll(x, 2)", "np.roll(x, 1, axis=0)",
    "np.roll(x, (1, -2), axis=(0, 1))", "np.roll(x, shift=3, axis=(0, 1))", "np.roll(x, (1, 2), axis=0)",
    "np.tile(x, 2)", "np.tile(x, (2, 1, 3))", "np.tile(x, reps=(2, 2))", "np.tile(v, 0)", "x.repeat(2)",
    "np.repeat(x, 3, axis=1)", "np.repeat(x, [1, 0, 2, 1], axis=0)", "x.repeat(repeats=2, axis=0)",
    "np.take(x, [0, 5, 2])", "np.take(x, [[0, 1], [2, 3]], axis=0)", "x.take([1, -1], axis=1)",
    "np.take(x, q, axis=1)", "np.take(x, [7, -9], axis=1, mode='wrap')", "np.take(x, [7, -9], axis=1, mode='clip')",
    "np.take(x, 2, axis=0)", "np.sliding_window_view(v, 3)", "np.sliding_window_view(x, (2, 3))",
    "np.sliding_window_view(d, 2, axis=1)", "np.sliding_window_view(x, window_shape=(2, 2), axis=(0, 1))",
    "np.sliding_window_view(v, 4)[::2]", "np.shape(d)", "np.ndim(d)", "np.size(d)", "np.size(d, axis=1)", "d.ndim",
    "d.size", "d.shape", "d.itemsize", "d.nbytes", "np.shape(d[0])", "len(d)", "[e.sum() for e in x]",
]  # fmt: skip

_PADS = ("edge", "reflect", "symmetric", "wrap")
JOINING = [
    *(f"np.pad(x, {w}, mode='{m}')" for m in _PADS for w in ("2", "((1, 2), (3, 0))")),
    *(f"np.pad(v, 13, '{m}')" for m in _PADS), *(f"np.pad(d, (0, 1), '{m}')" for m in _PADS), "np.pad(x, 1)",
    "np.pad(x, (1, 2))", "np.pad(x, ((0, 1), (2, 0)))", "np.pad(x, {1: (1, 2)})", "np.pad(x, {-1: 2})",
    "np.pad(x, pad_width=1, mode='constant', constant_values=7)", "np.pad(k, 1, constant_values=-1)",
    "np.pad(x, 2, constant_values=((1, 2), (3, 4)))", "np.pad(x, 1, constant_values=(5, 6))", "np.pad(b, 1)",
    "np.pad(x, 2, 'reflect', reflect_type='even')", "np.concatenate([x, y])", "np.concatenate((x, y), axis=1)",
    "np.concatenate([x, k])", "np.concatenate([x, y], axis=None)", "np.concatenate([x, y], dtype='float64')",
    "np.concatenate([x, y], casting='same_kind')", "np.concat([x, k], axis=-1)", "np.concatenate([x, x[:0], y])",
    "np.stack([x, y])", "np.stack([x, y], axis=1)", "np.stack([x, k], -1)", "np.stack([x, y], dtype='float64')",
    "np.hstack([x, y])", "np.hstack([v, v])", "np.hstack([x, k], dtype='float64', casting='same_kind')",
    "np.vstack([x, v])", "np.vstack([v, v])", "np.vstack([x, y], dtype='float64')", "np.dstack([x, y])",
    "np.dstack([v, v])", "np.column_stack([v, v])", "np.column_stack([x, y])", "np.append(x, v)",
    "np.append(x, y, axis=0)", "np.split(x, 2)", "np.split(x, 3, axis=1)", "np.split(x, [1, 4], axis=1)",
    "np.array_split(x, 4, axis=1)", "np.array_split(v, 4)", "np.hsplit(x, 2)", "np.vsplit(x, [1])", "np.dsplit(d, 2)",
    "np.unstack(x)", "np.unstack(d, axis=1)", "np.diagonal(s)", "np.diagonal(x, 1)",
    "np.diagonal(d, offset=-1, axis1=1, axis2=2)", "s.diagonal()", "s.diagonal(-1)", "np.diag(v)", "np.diag(s, 1)",
    "np.diag(v, k=-2)", "np.trace(s)", "s.trace(1)", "np.trace(d, offset=0, axis1=1, axis2=2, dtype='float32')",
    "np.triu(x)", "np.triu(s, 1)", "np.tril(s, k=-1)", "np.tril(d)", "np.tril(v)", "np.triu(z)", "np.tril(b)",
    "np.diff(x)", "np.diff(x, n=2, axis=0)", "np.diff(b)", "np.diff(x, prepend=0, append=v[:4, None])",
    "np.meshgrid(v, q)", "np.meshgrid(v, q, indexing='ij')", "np.meshgrid(v, q, sparse=True)",
]  # fmt: skip

_TOTALS = ("sum", "prod", "max", "min", "mean", "var", "std", "any", "all")
REDUCING = [
    *(f"np.{f}(d)" for f in _TOTALS), *(f"np.{f}(d, axis=1)" for f in _TOTALS), *(f"d.{f}(axis=-1)" for f in _TOTALS),
    *(f"np.{f}(d, axis=(0, 2), keepdims=True)" for f in _TOTALS), *(f"np.{f}(z, 0)" for f in _TOTALS),
    *(f"np.{f}(i)" for f in _TOTALS), *(f"np.{f}(u, axis=0)" for f in _TOTALS),
    *(f"np.{f}(b, axis=1)" for f in _TOTALS), *(f"np.{f}(h, axis=1)" for f in _TOTALS),
    *(f"np.{f}(o, 1)" for f in ("sum", "prod", "any", "all")),
    *(f"np.{f}(x, axis=1, where=b)" for f in ("sum", "prod", "any", "all")),
    *(f"np.{f}(x, where=b)" for f in ("mean", "var", "std", "sum")), "np.mean(x, axis=0, where=b[:, :1] | True)",
    *(f"np.{f}(k, dtype='float32')" for f in ("sum", "prod", "mean", "var", "std", "cumsum")),
    "np.sum(i, dtype='int8')", "np.sum(x, initial=3)", "np.prod(x, axis=0, initial=2)",
    "np.max(x, axis=1, initial=0)", "np.min(x, initial=-1, where=b)", "np.max(o, axis=1, initial=5)",
    "np.max(x, axis=0, initial=-9, where=b)", "np.var(x, ddof=1)", "np.std(x, axis=1, ddof=2)",
    "np.var(x, correction=1)", "np.std(x, axis=0, correction=0.5)",
    "np.var(x, axis=0, mean=x.mean(axis=0, keepdims=True))", "np.std(x, mean=x.mean())", "np.sum(x, axis=())",
    "np.ptp(x)", "np.ptp(k, axis=1, keepdims=True)", "np.count_nonzero(k)", "np.count_nonzero(x, axis=1)",
    "np.mean(h)", "np.var(h)", "np.count_nonzero(b, axis=0, keepdims=True)", "np.argmax(x)", "np.argmax(x, axis=1)",
    "np.argmin(k, axis=0)", "np.argmax(z, axis=1)", "np.argmin(z)", "np.argmin(d, axis=-1, keepdims=True)",
    "np.argmax(b, axis=1)", "x.argmax()", "x.argmin(axis=1)", "np.argmax(x, keepdims=True)", "np.cumsum(x)",
    "np.cumsum(x, axis=1)", "np.cumsum(k, axis=0)", "np.cumsum(u, dtype='uint8', axis=0)", "x.cumsum(axis=0)",
    "np.cumprod(x, axis=1)", "np.cumprod(n)", "n.cumprod(axis=0)", "np.sum(j)", "np.prod(n, axis=1)",
    "np.cumprod(x, dtype='float64')",
]  # fmt: skip

PRODUCTS = [
    "np.matmul(x, y.T)", "np.matmul(d, d.mT)", "np.matmul(x, v)", "np.matmul(k, n.T)", "np.matmul(x, k.T)", "b @ c.T",
    "np.matmul(x, y.T, dtype='float64')", "np.dot(x, v)", "np.dot(x, y.T)", "np.dot(d, s)", "np.dot(r, x)",
    "x.dot(v)", "np.inner(x, y)", "np.inner(v, v)", "np.outer(v, q)", "np.vecdot(x, y)", "np.vecdot(x, y, axis=0)",
    "np.tensordot(x, y.T, 1)", "np.tensordot(x, y, axes=2)", "np.tensordot(x, y, axes=([0], [0]))",
    "np.tensordot(x, y, axes=((1, 0), (1, 0)))", "np.tensordot(v, v, axes=0)", "np.einsum('ij,ij->i', x, y)",
    "np.einsum('ij,kj', x, y)", "np.einsum('ij->ji', x)", "np.einsum('ii', s)", "np.einsum('ii->i', s)",
    "np.einsum('...i,i->...', d[..., :3], d[0, :, 0])", "np.einsum('ij,j,kj->ik', x, v, y)",
    "np.einsum('ab,bc,cd->ad', s, s, x)", "np.einsum(x, [0, 30])", "np.einsum(x, [26, 25])",
    "np.einsum(x, [0, 1], y, [40, 1])", "np.einsum(d, (30, ..., 2))",
    "np.einsum(x, [0, 1], y, [2, 1], [0, 2])", "np.einsum(x, [0, 1])",
    "np.einsum('ij,ij', k, n)", "np.einsum('ij,kj->ik', b, c)", "np.einsum('ij,j->ij', k, v)",
    "np.einsum('ij,kj->ik', x, y, optimize=True)", "np.einsum('i,j->ij', v, v, dtype='float64')",
    "np.einsum('bij->b', d)", "np.einsum('...ij->...ji', d)", "np.einsum('ij,ij->', x, y, order='C', casting='safe')",
]  # fmt: skip

CREATION = [
    "np.zeros((2, 3))", "np.zeros(4, dtype='int8')", "np.zeros((2,), 'bool', order='C')", "np.ones((2, 3))",
    "np.ones(3, dtype='uint16')", "np.full((2, 2), 7)", "np.full((2, 2), 0.5)", "np.full(3, 2, dtype='float32')",
    "np.full((2, 6), v)", "np.full(2, True)", "np.arange(5)", "np.arange(2, 11, 3)", "np.arange(0, 1, 0.3)",
    "np.arange(5, 0, -2)", "np.arange(5, dtype='float32')", "np.arange(2.5)", "np.arange(3, 3)",
    "np.linspace(0, 1, 5)", "np.arange(1, 4, step=0.5, dtype='float32')", "np.linspace(0, 2, num=4, endpoint=False)",
    "np.linspace(0, 9, 4, dtype='int32')", "np.eye(3)", "np.eye(2, 4, k=1)", "np.eye(3, dtype='int32')",
    "np.eye(3, 2, -1, 'bool')", "np.identity(3)", "np.identity(2, dtype='int8')", "np.tri(3)",
    "np.tri(3, 4, k=1, dtype='int8')", "np.zeros_like(x)", "np.ones_like(k)", "np.zeros_like(x, dtype='int8')",
    "np.full_like(x, 7)", "np.full_like(k, 2.5, dtype='float64')", "np.ones_like(x, shape=(2,))",
    "np.zeros_like(x, order='K', subok=True)", "x + np.arange(6)", "x * np.eye(4, 6, dtype='float32')",
]  # fmt: skip

ROWS = list(dict.fromkeys([*ELEMENTWISE, *INDEXING, *AXES, *JOINING, *REDUCING, *PRODUCTS, *CREATION]))

REFUSED = {
    "np.pad(x, 1, 'linear_ramp')": "concatenate", "np.pad(x, 1, 'mean')": "mean", "np.pad(x, 1, 'maximum')": "max",
    "np.pad(x, 1, 'minimum')": "min", "np.pad(x, 1, 'median')": "concatenate",
    "np.pad(x, 1, 'reflect', reflect_type='odd')": "edge", "np.round(k, -1)": "floor_divide", "x[b]": "eq.where",
    "np.exp(x, out=x)": "what it returns", "np.add(x, y, where=b)": "eq.where", "np.sum(x, out=x)": "what it returns",
    "np.concatenate([x, y], casting='no')": "astype", "np.linspace(v, 1)": "eq.arange", "np.subtract(b, c)": "xor",
    "np.take(x, [0], out=x)": "what it returns", "-b": "~", "np.max(x, where=b)": "initial",
}  # fmt: skip
"""What is not there, and a word of the alternative that the message names."""


def inputs() -> dict[str, Tensor]:
    """An input for each array."""
    return {name: eq.input(name, a.shape, a.dtype) for name, a in DATA.items()}


_BUILTINS = {"abs": abs, "len": len, "bool": bool, "range": range, "__import__": __import__}


def value(row: str, names: dict[str, Any], module: Any) -> list[Any]:
    """The results of a row as a flat list."""
    spaces: dict[str, Any] = {"np": module, **names}
    if isinstance(module, ModuleType) and module is np:
        spaces["np"] = Numpy()
    return flat(eval(row, {"__builtins__": _BUILTINS}, spaces))


class Numpy:
    """numpy, with the one function that it keeps elsewhere."""

    sliding_window_view = staticmethod(np.lib.stride_tricks.sliding_window_view)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def flat(found: Any) -> list[Any]:
    """Results out of tuples and lists; shapes and numbers stay."""
    if isinstance(found, (tuple, list)):
        parts: list[Any] = [p for v in found for p in flat(v)]  # pyright: ignore[reportUnknownVariableType]
        return parts
    return [found]


def as_output(result: Any) -> Any:
    """A result as an output of a program, or None for what is no tensor."""
    return result if isinstance(result, (Tensor, Term)) else None
