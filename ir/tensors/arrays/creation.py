"""Tensors made of a formula alone, under their numpy names: zeros, ranges, unit matrices."""

from __future__ import annotations

import math
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BFLOAT16, BOOL, NDArray, is_float, is_int
from eqsat.ir.errors import ShapeError, TypeMismatch
from eqsat.ir.given import told, whole
from eqsat.ir.tensors.arrays.types import as_tensor, is_weak, type_of
from eqsat.ir.tensors.pointwise import cast
from eqsat.ir.tensors.tensor import Tag, Tensor, constant, data_dtype, from_body
from eqsat.ir.tensors.views import broadcast_to
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import cast_array
from eqsat.ir.terms.shape import Shape, as_dim, as_shape, output_axes
from eqsat.ir.terms.term import Term


def _made(shape: Shape, body: Callable[..., Term], name: str) -> Tensor:
    return Tensor(from_body(body(*output_axes(shape)), shape, tag=Tag(name)))


def asarray(obj: Any, /, dtype: Any = None, *, copy: bool | None = None) -> Tensor:
    """A tensor of a tensor, an array or numbers, in a data type if one is given; `copy` says nothing here.

    >>> import eqsat as eq
    >>> eq.asarray([1, 2], dtype="float32").dtype, eq.asarray(eq.input("x", (2,), "int8"))
    ('float32', <input x int8(2,)>)
    """
    made = as_tensor(obj, "asarray")
    return made if dtype is None else cast(made, data_dtype(dtype))


def array(obj: Any, dtype: Any = None, *, copy: bool | None = True) -> Tensor:
    """A tensor of numbers, as numpy.array.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.array([1, 2], "float32"))
    array([1., 2.], dtype=float32)
    """
    return asarray(obj, dtype)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Tensor:
    """One value everywhere, of its own type unless one is given, as numpy.full.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.full((2, 2), 7))
    array([[7, 7],
           [7, 7]])
    """
    out = as_shape(shape)
    if isinstance(fill_value, (Tensor, Term, np.ndarray, list, tuple)):
        given = as_tensor(fill_value, "full")
        return broadcast_to(given if dtype is None else cast(given, dtype), out)
    kind = type_of(fill_value, "full") if dtype is None else data_dtype(dtype)
    name = np.dtype(kind).name
    value = _filling(fill_value, name) if dtype is not None else fill_value
    return _made(out, lambda *_: t.const(value, name), "full")


def _filling(value: Any, dtype: str) -> Any:
    """A number converted as numpy.full does it: a Python integer must fit; floats become integers by saturating."""
    if type(value) is int and is_int(dtype):
        return t.const_value(t.const(value, dtype))
    given: NDArray = np.asarray(value)
    if given.dtype.kind not in "biufc" and given.dtype.name != BFLOAT16:
        raise TypeMismatch("full", f"{told(value)} is no number")
    return cast_array(given, dtype)[()]


def zeros(shape: Any, dtype: Any = "float64", order: str = "C") -> Tensor:
    """Zeros, as numpy.zeros; extents may be symbols.

    >>> import eqsat as eq
    >>> eq.zeros((2, 3), "int8")
    <compute t... int8(2, 3)>
    """
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = "float64", order: str = "C") -> Tensor:
    """Ones, as numpy.ones.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.ones(3))
    array([1., 1., 1.])
    """
    return full(shape, 1, dtype)


def _like(x: Any, dtype: Any, shape: Any, what: str) -> tuple[Shape, str]:
    y = as_tensor(x, what)
    return (y.shape if shape is None else as_shape(shape)), (y.dtype if dtype is None else data_dtype(dtype))


def zeros_like(x: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Tensor:
    """Zeros of the shape and the type of a tensor, as numpy.zeros_like.

    >>> import eqsat as eq
    >>> eq.zeros_like(eq.input("x", (2, 3), "int8")).dtype
    'int8'
    """
    return zeros(*_like(x, dtype, shape, "zeros_like"))


def ones_like(x: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Tensor:
    """Ones of the shape and the type of a tensor, as numpy.ones_like.

    >>> import eqsat as eq
    >>> eq.ones_like(eq.input("x", (2, 3), "int8")).shape
    (2, 3)
    """
    return ones(*_like(x, dtype, shape, "ones_like"))


def full_like(
    x: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None
) -> Tensor:
    """One value in the shape and the type of a tensor, as numpy.full_like.

    >>> import eqsat as eq
    >>> eq.full_like(eq.input("x", (2, 3), "int8"), 7).dtype
    'int8'
    """
    out, kind = _like(x, dtype, shape, "full_like")
    return full(out, fill_value, kind)


def _counted(n: Any, start: Any, step: Any, dtype: str, name: str) -> Tensor:
    """start + step * i for n positions, computed in the type itself, or of whole numbers as indices."""
    out = as_shape(n)

    def body(i: Term) -> Term:
        if not is_float(dtype):
            return t.cast_to(i * int(step) + int(start), dtype)
        return t.cast_to(i, dtype) * t.const(step, dtype) + t.const(start, dtype)

    return _made(out, body, name)


def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """Numbers from start to before stop, as numpy.arange; a single number is the stop, which may be a symbol.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.arange(1, 8, 3)), eq.arange(eq.symbol("N")).shape
    (array([1, 4, 7]), (N,))
    """
    if stop is None:
        start, stop = 0, start
    if isinstance(start, Term) or isinstance(stop, Term):
        if not isinstance(step, int) or step < 1:
            raise ShapeError("arange", f"step {step!r} between symbols", "a positive integer")
        first, n = t.as_index(start), t.as_index(stop) - start
        n = n if step == 1 else (n + (step - 1)) // step
        kind = data_dtype("int64" if dtype is None else dtype)

        def body(i: Term) -> Term:
            return t.cast_to(i * step + first, kind)

        return _made((as_dim(n),), body, "arange")
    if step == 0:
        raise ShapeError("arange", "the step is 0")
    numbers: list[Any] = [typing.cast(Any, v).item() if isinstance(v, np.generic) else v for v in (start, stop, step)]
    given: Any = np.result_type(*(np.asarray(v) for v in (start, stop, step)))
    kind = data_dtype(given if dtype is None else dtype)
    if kind == BOOL:
        raise TypeMismatch("arange in bool", "has at most two numbers", "eq.constant([False, True])")
    low, high, by = numbers
    if not math.isfinite((high - low) / by):
        raise ShapeError("arange", f"from {low} to {high} by {by} is no number of steps")
    count = max(0, math.ceil((high - low) / by))
    if is_float(kind):
        # numpy's own way: the second number less the first, both rounded to the type.
        first = np.asarray(low, kind)
        return _counted(count, first[()], (np.asarray(low + by, kind) - first)[()], kind, "arange")
    if not all(isinstance(v, (int, bool)) for v in numbers):
        low, by = int(low), int(low + by) - int(low)
    return _counted(count, low, by, kind, "arange")


def linspace(
    start: float,
    stop: float,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    """`num` numbers at equal distances from start to stop, as numpy.linspace of numbers.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.linspace(0, 1, 5))
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    if not (is_weak(start) or isinstance(start, np.generic)) or not (is_weak(stop) or isinstance(stop, np.generic)):
        raise TypeMismatch("linspace", "start and stop are not numbers", "start + eq.arange(n) * step")
    make: Any = np.linspace
    num = whole(num, "linspace", "num")
    values, step = make(start, stop, num, endpoint, retstep=True, dtype=dtype, axis=axis)
    made = constant(values)
    return (made, float(step)) if retstep else made


def eye(n: Any, m: Any = None, k: int = 0, dtype: Any = "float64", order: str = "C") -> Tensor:
    """Ones on a diagonal, zeros elsewhere, as numpy.eye.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.eye(2, 3, 1, dtype="int8"))
    array([[0, 1, 0],
           [0, 0, 1]], dtype=int8)
    """
    kind = data_dtype(dtype)
    shape = as_shape((n, n if m is None else m))
    return _where_ahead(shape, "eq", k, kind, "eye")


def _where_ahead(shape: Shape, op: str, k: int, dtype: str, name: str) -> Tensor:
    """1 where the column less the row is so, compared with k."""

    def body(i: Term, j: Term) -> Term:
        return t.cast_to(t.compare(op, j - i, k), dtype)

    return _made(shape, body, name)


def identity(n: Any, dtype: Any = "float64") -> Tensor:
    """The unit matrix, as numpy.identity.

    >>> import eqsat as eq
    >>> eq.identity(3).shape
    (3, 3)
    """
    return eye(n, dtype=dtype)


def tri(n: Any, m: Any = None, k: int = 0, dtype: Any = "float64") -> Tensor:
    """Ones on and below a diagonal, as numpy.tri.

    >>> import eqsat as eq
    >>> eq.evaluate(eq.tri(2, dtype="int8"))
    array([[1, 0],
           [1, 1]], dtype=int8)
    """
    kind = data_dtype(dtype)
    shape = as_shape((n, n if m is None else m))
    return _where_ahead(shape, "le", k, kind, "tri")


def meshgrid(*xi: Any, indexing: str = "xy", copy: bool = True, sparse: bool = False) -> tuple[Tensor, ...]:
    """Each row of coordinates along its own axis of a common grid, as numpy.meshgrid.

    >>> import eqsat as eq
    >>> [y.shape for y in eq.meshgrid(eq.arange(2), eq.arange(3))]
    [(3, 2), (3, 2)]
    """
    from eqsat.ir.tensors.arrays.shapes import broadcast_arrays, reshape, swapaxes

    if indexing not in ("xy", "ij"):
        raise ShapeError("meshgrid", f"indexing {indexing!r}", "'xy' or 'ij'")
    rank = len(xi)
    rows = [reshape(x, (*(1,) * n, -1, *(1,) * (rank - 1 - n))) for n, x in enumerate(xi)]
    if indexing == "xy" and rank > 1:
        rows = [swapaxes(x, 0, 1) for x in rows]
    return tuple(rows) if sparse else broadcast_arrays(*rows)
