"""Extensions of random programs by formulas: rows, guards, several reads of one tensor, computed and constant indices.

What a layout does to an operator follows from the index formula, so this is where formulas are as odd as they may be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.graph.rebuild import with_operands
from eqsat.ir.dtypes import is_float
from eqsat.ir.tensors import pointwise, views
from eqsat.ir.tensors.tensor import Compute, Opaque, Tensor, compute, constant, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import require_static, same_dim
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.testing.package import st

Draw = st.DrawFn
Pool = Sequence[Tensor]
Axes = Sequence[tuple[Term, int]]

DTYPES = (
    "float32", "int32", "int8", "bool", "float16", "float64", "uint8", "int16", "uint16", "uint32", "int64", "uint64",
)  # fmt: skip


@dataclass(frozen=True)
class Extension:
    """One way to extend a program: whether it applies to a tensor, and how."""

    name: str
    fits: Callable[[Tensor], bool]
    build: Callable[[Draw, Tensor, Pool], Tensor]


def shape_of(x: Tensor) -> tuple[int, ...]:
    """The shape of a tensor without symbols."""
    return require_static(x.shape, "testing")


def size_of(x: Tensor) -> int:
    """The number of elements of a tensor without symbols."""
    return int(np.prod(shape_of(x), dtype=np.int64))


def ranked(x: Tensor) -> bool:
    """Whether a tensor has an axis and an element."""
    return x.rank > 0 and size_of(x) > 0


def combiners_for(dtype: str) -> list[str]:
    """The combiners beside max and min; a long product of floats overflows in one order and not in another."""
    return [] if dtype == "bool" else ["sum"] if is_float(dtype) else ["sum", "prod"]


def is_exact(x: Tensor) -> bool:
    """Whether no float sum lies below a tensor: the order of such a sum is free, so its last bits are."""
    return not any(_rounds(node) for node in node_order([x]))


def _rounds(node: object) -> bool:
    if isinstance(node, Compute):
        return node.combiner in ("sum", "prod") and is_float(node.body.dtype)
    return isinstance(node, Opaque)


def value_of(draw: Draw, dtype: str) -> Term:
    """A constant of a type, special ones included."""
    if dtype == "bool":
        return t.bool_const(draw(st.booleans()))
    if is_float(dtype):
        return t.const(draw(st.sampled_from([0.0, 1.0, -1.0, 0.5, -0.0, np.inf, -np.inf])), dtype)
    info = np.iinfo(dtype)
    return t.const(draw(st.sampled_from([0, 1, 7, int(info.min), int(info.max)])), dtype)


def extents_for(draw: Draw, x: Tensor, most: int, empty: bool = True) -> tuple[int, ...]:
    """Extents of new axes: those of a tensor as a rule, so that its axes are read whole; 1 and, rarely, 0."""
    known = [d for d in shape_of(x) if empty or d] or [3]
    extents = st.one_of(st.sampled_from(known), st.sampled_from([1, 2, 3, 5, 1, 0 if empty else 4]))
    return tuple(draw(st.lists(extents, max_size=most)))


def _index(draw: Draw, axes: Axes, extent: int) -> Term:
    """An index below an extent of at least 1, for axes with elements."""
    kind = draw(st.sampled_from(["axis", "axis", "axis", "constant", "part", "mixed", "clamped", "table"]))
    own = [(i, e) for i, e in axes if e <= extent]
    if kind == "axis" and own:
        i, e = draw(st.sampled_from([p for p in own if p[1] == extent] or own))
        move = draw(st.sampled_from([0, 0, 0, extent - e]))
        return draw(st.sampled_from([i + move, i + move, extent - 1 - i]))
    if kind == "constant" or not axes:
        return t.index_const(draw(st.sampled_from([0, 0, extent - 1, extent // 2])))
    i, e = draw(st.sampled_from(list(axes)))
    if kind == "part":
        cut = -(-e // extent)
        return draw(st.sampled_from([i // cut, i % extent, (i + 1) % extent]))
    if kind == "table":
        cells = draw(st.lists(st.integers(0, extent - 1), min_size=e, max_size=e))
        return table_load(np.asarray(cells), i)
    if kind == "mixed":
        j, f = draw(st.sampled_from(list(axes)))
        return draw(st.sampled_from([(i + j) % extent, (i * f + j) % extent, (i - j) % extent]))
    least = t.binary("min", i, extent - 1)
    return draw(st.sampled_from([least, t.binary("max", least - 1, 0)]))


def _guard(draw: Draw, axes: Axes) -> Term:
    """A condition on the position: never, always, or sometimes true."""
    if not axes:
        return draw(st.sampled_from([t.FALSE, t.TRUE]))
    (i, e), (j, f) = draw(st.sampled_from(list(axes))), draw(st.sampled_from(list(axes)))
    return draw(
        st.sampled_from([
            i < 0, i >= e, i % 3 >= 3, i // (e + 1) != 0,
            i >= 0, i <= e - 1, (i + j) % 2 < 2,
            i < e // 2, i < 1, i >= 1, i % 2 == 0, i + j < (e + f) // 2, t.compare("eq", i, j), t.compare("lt", i, j),
        ])
    )  # fmt: skip


def _load(draw: Draw, axes: Axes, x: Tensor) -> Term:
    return x[tuple(_index(draw, axes, d) for d in shape_of(x))]


def _beside(draw: Draw, axes: Axes, x: Tensor) -> Term:
    """A load that may leave its tensor, behind a guard that keeps it inside."""
    n = draw(st.integers(0, x.rank - 1))
    extent = shape_of(x)[n]
    i, _ = draw(st.sampled_from(list(axes)))
    at = i - draw(st.sampled_from([-1, 0, 1, 2, extent, 9]))
    index = [_index(draw, axes, d) for d in shape_of(x)]
    index[n] = at
    inside = t.logical_and(t.compare("le", 0, at), t.compare("lt", at, extent))
    return t.where(inside, x[tuple(index)], value_of(draw, x.dtype))


def _looked_up(draw: Draw, axes: Axes, x: Tensor, pool: Pool) -> Term:
    """A load at an index that another tensor holds."""
    tables = [y for y in pool if y.dtype in ("int8", "int32", "int64", "uint8") and size_of(y)]
    if not tables:
        return _load(draw, axes, x)
    index = [_index(draw, axes, d) for d in shape_of(x)]
    n = draw(st.integers(0, x.rank - 1))
    index[n] = t.cast_to(_load(draw, axes, draw(st.sampled_from(tables))), t.INDEX) % shape_of(x)[n]
    return x[tuple(index)]


def _read(draw: Draw, axes: Axes, x: Tensor, pool: Pool) -> Term:
    kind = draw(st.sampled_from(["load", "load", "load", "beside", "lookup"]))
    if kind == "beside" and x.rank and axes:
        return _beside(draw, axes, x)
    if kind == "lookup" and x.rank:
        return _looked_up(draw, axes, x, pool)
    return _load(draw, axes, x)


def _joined(draw: Draw, a: Term, b: Term) -> Term:
    if a.dtype == "bool":
        return draw(st.sampled_from([a & b, a | b, a ^ b]))
    least, most = t.binary("min", a, b), t.binary("max", a, b)
    return draw(st.sampled_from([a + b, a - b, a * b, least, most]))


def _body(draw: Draw, axes: Axes, x: Tensor, pool: Pool) -> Term:
    """One or two reads, joined or chosen between; the second one is often of the same tensor."""
    same = [y for y in pool if y.dtype == x.dtype and size_of(y)]
    first = _read(draw, axes, x, pool)
    kind = draw(st.sampled_from(["one", "two", "guard", "guard", "test", "constant"]))
    if kind == "one":
        return first
    y = draw(st.sampled_from([x, x, *same]))
    second = _read(draw, axes, y, pool)
    if kind == "two":
        return _joined(draw, first, second)
    if kind == "guard":
        return t.where(_guard(draw, axes), first, draw(st.sampled_from([second, second, value_of(draw, x.dtype)])))
    if kind == "test" and is_exact(x) and is_exact(y):
        test = first if x.dtype == "bool" else t.compare("lt", first, second)
        return t.where(test, second, first)
    return _joined(draw, first, value_of(draw, x.dtype))


def formula(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """Any formula over new axes, reduced or not."""
    shape = extents_for(draw, x, 3)
    reduced = extents_for(draw, x, 2) if draw(st.integers(0, 2)) == 0 else ()
    combiner = draw(st.sampled_from(["max", "min", *combiners_for(x.dtype)]))

    def body(*axes: Term) -> Term:
        pairs = list(zip(axes, (*shape, *reduced), strict=True))
        return _body(draw, pairs, x, pool)

    return compute(shape, body, reduced, combiner, ordered=draw(st.integers(0, 3)) == 0)


def _turned(draw: Draw, x: Tensor) -> Tensor:
    """A tensor, or a view of it in another order of axes."""
    return views.permute_dims(x, draw(st.permutations(range(x.rank)))) if draw(st.booleans()) else x


def row(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """One row of a tensor or of a view: an axis read at a constant; the others whole or a part of them."""
    x = _turned(draw, x)
    fixed = draw(st.integers(0, x.rank - 1))
    at = draw(st.sampled_from([0, 0, 0, shape_of(x)[fixed] - 1]))
    shape = [draw(st.sampled_from([d, d, max(1, d - 1)])) for n, d in enumerate(shape_of(x)) if n != fixed]

    def body(*i: Term) -> Term:
        return x[(*i[:fixed], at, *i[fixed:])]

    return compute(shape, body)


def minus_row(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """Every row less the first or the last one: two reads of one tensor."""
    x = _turned(draw, x)
    n = draw(st.integers(0, x.rank - 1))
    at = draw(st.sampled_from([0, shape_of(x)[n] - 1]))

    def body(*i: Term) -> Term:
        return _joined(draw, x[i], x[(*i[:n], at, *i[n + 1 :])])

    return compute(shape_of(x), body)


def diagonal(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """The cells whose first two indices are equal."""
    a, b, *rest = shape_of(x)

    def body(i: Term, *j: Term) -> Term:
        return x[(i, i, *j)]

    return compute((min(a, b), *rest), body)


def swapped(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """A square with its own transpose: two reads of one tensor in different orders."""

    def body(i: Term, j: Term, *k: Term) -> Term:
        return _joined(draw, x[(i, j, *k)], x[(j, i, *k)])

    return compute(shape_of(x), body)


def _is_total(x: Tensor) -> bool:
    """Whether a tensor is a formula that is defined for all operands: it divides by none."""
    if not isinstance(x.node, Compute):
        return False
    divisions = [n for n in postorder(x.node.body) if n.op in ("floordiv", "mod", "truncdiv", "truncmod")]
    return all(n.dtype == t.INDEX for n in divisions)


def again(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """The formula of a tensor over other operands, which may be one and the same."""
    node = x.node
    assert isinstance(node, Compute)
    others = [[z for z in pool if (z.dtype, z.shape) == (y.dtype, y.shape) and is_exact(z)] for y in node.operands]
    operands = [draw(st.sampled_from([y, *zs])) for y, zs in zip(node.operands, others, strict=True)]
    return Tensor(with_operands(node, operands))


def without_loads(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """A formula that reads nothing: a constant, or a function of the position."""
    shape = draw(st.sampled_from([shape_of(x), shape_of(x)[:1], extents_for(draw, x, 3)]))

    def body(*axes: Term) -> Term:
        if x.dtype == "bool":
            return _guard(draw, list(zip(axes, shape, strict=True)))
        place = t.linear(0, [(n + 1, i) for n, i in enumerate(axes)])
        return draw(st.sampled_from([value_of(draw, x.dtype), t.cast_to(place % 5, x.dtype)]))

    return compute(shape, body)


def literal(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """A constant tensor: uniform or not, of rank 0 or like another tensor, or empty."""
    shape = draw(st.sampled_from([(), shape_of(x), shape_of(x)[-1:], (0, *shape_of(x)[1:]), (1,) * x.rank]))
    values = np.arange(int(np.prod(shape, dtype=np.int64))).reshape(shape) % draw(st.sampled_from([1, 2, 5]))
    return constant(values.astype(x.dtype))


def cast(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """Another type, any."""
    return pointwise.cast(x, draw(st.sampled_from(DTYPES)))


def compare(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """A comparison with a tensor of the same shape, or with a number."""
    same = [y for y in pool if y.dtype == x.dtype and y.shape == x.shape and is_exact(y)]
    other = draw(st.sampled_from([*same, t.const_value(value_of(draw, x.dtype))]))
    return pointwise.operator(draw(st.sampled_from(["lt", "le", "equal", "not_equal"])), x, other)


def logic(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """Bits and truth values."""
    same = [y for y in pool if y.dtype == x.dtype and y.shape == x.shape]
    y = draw(st.sampled_from(same))
    return draw(st.sampled_from([~x, x & y, x | y, x ^ y]))


def divide(draw: Draw, x: Tensor, pool: Pool) -> Tensor:
    """Division and remainder of integers by a number."""
    return pointwise.operator(
        draw(st.sampled_from(["floordiv", "mod", "truncdiv", "truncmod"])), x, draw(st.sampled_from([1, 2, 3, 7]))
    )


def is_integer(x: Tensor) -> bool:
    """Whether a tensor holds integers."""
    return x.dtype != "bool" and not is_float(x.dtype)


FORMULAS = (
    Extension("formula", lambda x: size_of(x) > 0, formula),
    Extension("formula", lambda x: size_of(x) > 0, formula),
    Extension("row", ranked, row),
    Extension("row", ranked, row),
    Extension("again", _is_total, again),
    Extension("minus_row", ranked, minus_row),
    Extension("diagonal", lambda x: x.rank > 1, diagonal),
    Extension("swapped", lambda x: x.rank > 1 and same_dim(x.shape[0], x.shape[1]), swapped),
    Extension("without_loads", lambda x: True, without_loads),
    Extension("literal", lambda x: True, literal),
    Extension("cast", is_exact, cast),
    Extension("compare", is_exact, compare),
    Extension("logic", lambda x: not is_float(x.dtype), logic),
    Extension("divide", is_integer, divide),
)
