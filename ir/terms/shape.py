"""Shapes: tuples of extents, each a number or an index term over symbols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from eqsat.ir.errors import ShapeError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.sums import content, distributed
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import format_term, symbol_names
from eqsat.ir.terms.walk import postorder, substitute, symbols

Dim = int | Term
Shape = tuple[Dim, ...]


def as_dim(value: Any) -> Dim:
    """An extent: a Python int where it is a number, else an index term over symbols.

    >>> as_dim(np.int64(3)), as_dim(t.sym("N") + 1)
    (3, N + 1)
    """
    if isinstance(value, Term):
        number = t.int_value(t.as_index(value))
        if number is None:
            for node in postorder(value):
                if node.op in ("axis", "var", "load", "hole"):
                    raise ShapeError(f"extent {value}", f"depends on {node}", "use numbers and symbols")
            return value
        value = number
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        fix = f"eq.symbol({value!r}) is a size with a name" if isinstance(value, str) else ""
        raise ShapeError(f"extent {value!r}", "not an integer or an index term", fix)
    size = int(cast(Any, value))
    if size < 0:
        raise ShapeError(f"extent {size}", "is negative")
    return size


def as_shape(shape: Any) -> Shape:
    """A tuple of extents from an int, or a sequence of ints and index terms.

    >>> as_shape([2, np.int64(3)])
    (2, 3)
    """
    if isinstance(shape, (int, np.integer, Term)):
        return (as_dim(shape),)
    try:
        return tuple(as_dim(d) for d in shape)
    except TypeError as error:
        raise ShapeError(f"shape {shape!r}", "not an integer or a sequence of extents") from error


def with_sizes(dim: Dim, sizes: Mapping[Term, Term]) -> Dim:
    """An extent with sizes in the place of symbols."""
    return dim if isinstance(dim, int) else as_dim(substitute(dim, sizes))


def same_dim(a: Dim, b: Dim) -> bool:
    """Whether two extents are equal as written."""
    if type(a) is int and type(b) is int:
        return a == b
    return t.as_index(a) is t.as_index(b)


def same_shape(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(same_dim(x, y) for x, y in zip(a, b, strict=True))


def static_shape(shape: Shape) -> tuple[int, ...] | None:
    """The shape as numbers, or None where an extent is symbolic."""
    return None if any(isinstance(d, Term) for d in shape) else tuple(d for d in shape if isinstance(d, int))


def require_static(shape: Shape, operation: str) -> tuple[int, ...]:
    """The shape as numbers; an error naming the operation where an extent is symbolic."""
    numbers = static_shape(shape)
    if numbers is None:
        raise ShapeError(f"{operation} of shape {format_shape(shape)}", "needs numbers", "give the symbols a value")
    return numbers


def size_term(shape: Shape) -> Term:
    """The number of elements as an index term, the same whichever extent a number divides, also inside of products.

    >>> n, c = t.sym("N"), t.sym("C")
    >>> size_term((n, 3, 10 * c + 10)), size_term((30, c + 1, n))
    (30*N*(C + 1), 30*N*(C + 1))
    >>> size_term(((2 * n + 2) * (2 * c + 1), 3)), size_term((2 * c + 1, 6, n + 1))
    ((N + 1)*(2*C + 1)*6, (N + 1)*(2*C + 1)*6)
    """
    number = 1
    rest: list[Term] = []
    left = [t.as_index(d) for d in shape]
    while left:
        factor, body = content(left.pop())
        number *= factor
        if body.op == "prod":
            left.extend(body.args)
        else:
            rest.append(body)
    return t.product([t.index_const(number), *rest])


def same_size(a: Shape, b: Shape) -> bool:
    """Whether two shapes have as many elements, for all sizes, by the looks of their extents or multiplied out.

    >>> n = t.sym("N")
    >>> same_size((n + 1, n - 1), (n * n - 1,)), same_size((n, n), (n + 1, n))
    (True, False)
    """
    if same_dim(size_term(a), size_term(b)):
        return True
    left, right = (distributed(*[f for d in s for f in _factors(t.as_index(d))]) for s in (a, b))
    return left is right


def _factors(x: Term) -> Iterator[Term]:
    """A term as factors that are no products."""
    number, body = content(x)
    yield t.index_const(number)
    yield from body.args if body.op == "prod" else (body,)


def size(shape: Sequence[int]) -> int:
    return prod(shape)


def format_shape(shape: Shape, names: Mapping[Term, str] | None = None) -> str:
    """As Python prints a tuple; symbols by name, or by `names` where the shape stands beside other things."""
    if names is None and any(isinstance(d, Term) for d in shape):
        names = shape_names(shape)
    body = ", ".join(str(d) if isinstance(d, int) else format_term(d, names=names) for d in shape)
    return f"({body},)" if len(shape) == 1 else f"({body})"


def shape_names(*shapes: Shape) -> dict[Term, str]:
    """Distinct names for the symbols of some shapes."""
    return symbol_names(symbols(*(d for shape in shapes for d in shape if isinstance(d, Term))))


def format_shapes(*shapes: Shape) -> list[str]:
    """Shapes as they are shown beside each other: symbols of one name are told apart.

    >>> format_shapes((t.sym("N"), 4), (t.sym("N"),))
    ['(N, 4)', '(N_1,)']
    """
    names = shape_names(*shapes)
    return [format_shape(shape, names) for shape in shapes]


def format_dims(*shapes: Shape, dims: Sequence[Dim]) -> list[str]:
    """Extents as they are shown beside some shapes."""
    names = shape_names(*shapes)
    return [str(d) if isinstance(d, int) else format_term(d, names=names) for d in dims]


def one_symbol(*shapes: Shape) -> str:
    """The advice for shapes that differ in symbols of one name only, or ''."""
    names = shape_names(*shapes)
    twice = next((s for s, name in names.items() if name != t.symbol_facts(s).name), None)
    return "" if twice is None else f"use one eq.symbol object for one size {t.symbol_facts(twice).name}"


def normalize_axis(axis: int, rank: int, operation: str) -> int:
    """An axis number in 0..rank-1 from one that may count from the end."""
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ShapeError(operation, f"axis {axis!r} is not an integer")
    if not -rank <= axis < rank:
        raise ShapeError(operation, f"axis {axis} is out of range for rank {rank}")
    return int(axis) % rank


def normalize_axes(axes: int | Sequence[int] | None, rank: int, operation: str) -> tuple[int, ...]:
    """Distinct axis numbers; None means all."""
    if axes is None:
        return tuple(range(rank))
    given = tuple(axes) if isinstance(axes, Iterable) else (axes,)
    result = tuple(normalize_axis(a, rank, operation) for a in given)
    if len(set(result)) != len(result):
        raise ShapeError(operation, f"axes {given} repeat")
    return result


def output_axes(shape: Sequence[Dim]) -> tuple[Term, ...]:
    """The axis terms ax(0, shape[0]), ax(1, shape[1]), ..."""
    return tuple(t.ax(n, d) for n, d in enumerate(shape))


def reduce_axes(shape: Sequence[Dim]) -> tuple[Term, ...]:
    """The axis terms red(0, shape[0]), ..."""
    return tuple(t.red(n, d) for n, d in enumerate(shape))
