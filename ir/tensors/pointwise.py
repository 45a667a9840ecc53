"""Element-wise tensor operators: each is a Compute whose body loads every operand at the broadcast output index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, overload

import numpy as np

from eqsat.ir.dtypes import BOOL, as_dtype
from eqsat.ir.errors import EqsatError, ShapeError, TypeMismatch
from eqsat.ir.tensors.tensor import Compute, Tag, Tensor, constant, from_body
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, format_dims, format_shapes, one_symbol, output_axes, same_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of

Attrs = tuple[tuple[str, Any], ...]


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The common shape of operands under numpy's broadcasting rules, symbols compared as written.

    >>> broadcast_shapes((2, 1), (3,))
    (2, 3)
    """
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = []
    for n in range(rank):
        extent: Dim = 1
        for s in shapes:
            k = n - (rank - len(s))
            if k < 0 or same_dim(s[k], 1):
                continue
            if not same_dim(extent, 1) and not same_dim(extent, s[k]):
                what, (one, other) = " and ".join(format_shapes(*shapes)), format_dims(*shapes, dims=(extent, s[k]))
                raise ShapeError(f"broadcast of {what}", f"axis {n} is both {one} and {other}", one_symbol(*shapes))
            extent = s[k]
        result.append(extent)
    return tuple(result)


def broadcast_load(x: Tensor, axes: tuple[Term, ...]) -> Term:
    """The load of an operand at the output index, extents of 1 read at 0."""
    return _load_at(x, x, axes)


def _load_at(source: Any, x: Tensor, axes: tuple[Term, ...]) -> Term:
    """The same, which names the operand by some source."""
    own = axes[len(axes) - x.rank :]
    return t.load(
        source, [t.index_const(0) if same_dim(d, 1) else i for d, i in zip(x.shape, own, strict=True)], x.dtype
    )


@overload
def pointwise(name: str, fn: Callable[[Term], Term], a: Tensor, /, *, attrs: Attrs = ()) -> Tensor: ...
@overload
def pointwise(name: str, fn: Callable[[Term, Term], Term], a: Tensor, b: Tensor, /, *, attrs: Attrs = ()) -> Tensor: ...
@overload
def pointwise(name: str, fn: Callable[..., Term], /, *operands: Tensor, attrs: Attrs = ()) -> Tensor: ...
def pointwise(name: str, fn: Callable[..., Term], /, *operands: Tensor, attrs: Attrs = ()) -> Tensor:
    """Apply a scalar function to broadcast operands; `name` and `attrs` are the tag for targets.

    >>> import eqsat as eq
    >>> x, y = eq.input("x", (2, 1), "float32"), eq.input("y", (3,), "float32")
    >>> pointwise("hypot2", lambda a, b: a * a + b * b, x, y).shape
    (2, 3)
    """
    shape = broadcast_shapes(*(x.shape for x in operands))
    axes, tag = output_axes(shape), Tag(name, attrs)
    made = _by_numbers(fn, operands, shape, axes, tag)
    return Tensor(made or from_body(fn(*(broadcast_load(x, axes) for x in operands)), shape, tag=tag))


def _by_numbers(
    fn: Callable[..., Term], operands: Sequence[Tensor], shape: Shape, axes: tuple[Term, ...], tag: Tag
) -> Compute | None:
    """What `from_body` makes, of loads that name operands by number: equal operators of a model share their bodies,
    which are looked at once. None where a body reads anything else, or is refused: then tensors are to be named."""
    numbers: dict[Tensor, int] = {}
    try:
        body = fn(*(_load_at(numbers.setdefault(x, len(numbers)), x, axes) for x in operands))
    except EqsatError:
        return None
    return Compute(list(numbers), shape, body, tag=tag) if _reads(body) == tuple(range(len(numbers))) else None


@lru_cache(maxsize=4096)
def _reads(body: Term) -> tuple[Any, ...]:
    """The sources of the loads of a body, in order of appearance."""
    return tuple(dict.fromkeys(x.payload for x in nodes_of("load", body)))


def as_operands(name: str, *values: Any) -> list[Tensor]:
    """Tensors from tensors, numbers and arrays; a number takes the dtype of the first tensor."""
    first = next((v for v in values if isinstance(v, Tensor)), None)
    if first is None:
        raise TypeMismatch(name, "none of the operands is a tensor", "eq.constant(value, dtype) makes one")
    tensors: list[Tensor] = []
    for v in values:
        if isinstance(v, Tensor):
            tensors.append(v)
        elif isinstance(v, np.ndarray):
            tensors.append(constant(v))
        elif isinstance(v, Term):
            raise TypeMismatch(f"{name} of {first!r} and {v}", "a tensor and a term", "load x[i, j] inside eq.compute")
        else:
            tensors.append(constant(t.const_value(t.const(v, first.dtype))))
    return tensors


def binary(name: str, op: Callable[[Term, Term], Term], a: Any, b: Any) -> Tensor:
    """A binary operator on tensors and numbers of one dtype."""
    x, y = as_operands(name, a, b)
    if x.dtype != y.dtype:
        raise TypeMismatch(f"{name} of {x!r} and {y!r}", f"dtypes {x.dtype} and {y.dtype} differ", "use x.cast(dtype)")
    return pointwise(name, op, x, y)


_OPERATORS: dict[str, Callable[[Term, Term], Term]] = {
    "add": t.add, "sub": t.sub, "mul": t.mul, "and": lambda a, b: a & b, "or": lambda a, b: a | b,
    "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
    "equal": lambda a, b: a == b, "not_equal": lambda a, b: a != b,
}  # fmt: skip


def operator(name: str, a: Any, b: Any) -> Tensor:
    """A named binary operator: Python's operators, comparisons, min, max, truncdiv, ..."""
    return binary(name, _OPERATORS.get(name) or (lambda x, y: t.binary(name, x, y)), a, b)


def unary(name: str, x: Tensor) -> Tensor:
    """A float function of every element, by its scalar name."""
    return pointwise(name, lambda a: t.unary(name, a), x)


def negative(x: Tensor) -> Tensor:
    """-x of every element; unsigned integers wrap."""
    return pointwise("neg", t.neg, x)


def invert(x: Tensor) -> Tensor:
    """The complement of bools or of the bits of integers."""
    return pointwise("not", lambda a: ~a, x)


def relu(x: Tensor) -> Tensor:
    """max(x, 0); NaN stays NaN."""
    return pointwise("relu", lambda a: t.binary("max", a, 0), x)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    from eqsat.ir.terms.build import sigmoid as scalar

    return pointwise("sigmoid", scalar, x)


def clip(x: Tensor, low: Any = None, high: Any = None) -> Tensor:
    """Limit values to [low, high]; either may be None."""

    def body(a: Term) -> Term:
        a = a if low is None else t.binary("max", a, low)
        return a if high is None else t.binary("min", a, high)

    return pointwise("clip", body, x, attrs=(("low", low), ("high", high)))


def cast(x: Tensor, dtype: Any) -> Tensor:
    """Convert the elements; float to integer truncates and saturates."""
    name = as_dtype(dtype)
    if name == t.INDEX:
        raise TypeMismatch(f"cast of {x!r}", "index is not a data type", "use int64")
    return x if name == x.dtype else pointwise("cast", lambda a: t.cast_to(a, name), x, attrs=(("dtype", name),))


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """Elements of a where the condition holds, else of b; broadcast, and either may be a number."""
    if isinstance(condition, (bool, np.bool_)):
        condition = constant(np.asarray(condition, bool))
    if not isinstance(condition, Tensor) or condition.dtype != BOOL:
        kind = condition.dtype if isinstance(condition, Tensor) else repr(condition)
        raise TypeMismatch("where", f"condition is {kind}, not a bool tensor", "compare with != 0")
    x, y = as_operands("where", a, b)
    return pointwise("where", t.where, condition, x, y)
