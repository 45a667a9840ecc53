"""Hypothesis strategies for users' and our own tests: shapes, index maps, layouts, random tensor programs, instances of
rules; and checks of rules and programs that fail with the smallest example.

They need the package hypothesis: `pip install eqsat[testing]`.

>>> from hypothesis import given
>>> @given(programs(max_ops=4))
... def check(program):
...     assert program.outputs
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from eqsat.ir.dtypes import is_float
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.layout import Layout
from eqsat.ir.tensors import pointwise, reductions, views
from eqsat.ir.tensors.layout_transform import layout_transform
from eqsat.ir.tensors.tensor import Program, Tensor, compute, constant, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.testing.arrays import arrays_for as arrays_for
from eqsat.testing.formulas import (
    DTYPES,
    FORMULAS,
    Extension,
    combiners_for,
    is_exact,
    ranked,
    shape_of,
    size_of,
    value_of,
)
from eqsat.testing.maps import MAP_FAMILIES, random_map
from eqsat.testing.package import st
from eqsat.testing.rules import Example as Example
from eqsat.testing.rules import check_program as check_program
from eqsat.testing.rules import check_rule as check_rule
from eqsat.testing.rules import rule_instances as rule_instances

FLOAT_FUNCTIONS = ("exp", "tanh", "abs")


@st.composite
def shapes(draw: st.DrawFn, min_rank: int = 0, max_rank: int = 4, max_extent: int = 6) -> tuple[int, ...]:
    """Static shapes without extents of 0; those of 1 are frequent."""
    extents = st.one_of(st.integers(1, max_extent), st.sampled_from([1, 2, 4, 6, 8]), st.just(2))
    return tuple(draw(st.lists(extents, min_size=min_rank, max_size=max_rank)))


def factorings(size: int, max_rank: int = 4) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes with a given number of elements."""

    @st.composite
    def build(draw: st.DrawFn) -> tuple[int, ...]:
        if size == 0:
            return draw(st.sampled_from([(0,), (2, 0), (0, 3)]))
        left, result = size, list[int]()
        for _ in range(draw(st.integers(0, max_rank - 1))):
            divisor = draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]))
            result.append(divisor)
            left //= divisor
        return (*result, left)

    return build()


@st.composite
def layouts(draw: st.DrawFn, axes: str = "NCHW", max_blocks: int = 2) -> Layout:
    """Layouts of these logical axes, in any order, some of them in blocks: NHWC, NCHW16c, HWCN4n8c."""
    blocked = draw(st.lists(st.sampled_from(axes), unique=True, max_size=min(max_blocks, len(axes))))
    inner = "".join(f"{draw(st.sampled_from([2, 4, 8, 16]))}{axis.lower()}" for axis in blocked)
    return Layout("".join(draw(st.permutations(axes))) + inner)


def index_maps(
    max_points: int = 256, families: Sequence[str] = MAP_FAMILIES
) -> st.SearchStrategy[tuple[IndexMap, tuple[int, ...]]]:
    """Index maps of every family with a shape of at most `max_points` points: see `eqsat.testing.maps.random_map`."""

    def build(family: str, seed: int) -> tuple[IndexMap, tuple[int, ...]]:
        return random_map(family, Random(seed), max_points)

    return st.builds(build, st.sampled_from(list(families)), st.integers(0, 1 << 32))


def _permute(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return views.permute_dims(x, draw(st.permutations(range(x.rank))))


def _reshape(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return views.reshape(x, draw(factorings(size_of(x))))


def _pad(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    width = st.sampled_from([0, 0, 1, 2])
    widths = [(draw(width), draw(width)) for _ in range(x.rank)]
    values = (
        [0, 1, -1, -0.0, np.inf, -np.inf] if is_float(x.dtype) else [False, True] if x.dtype == "bool" else [0, 1, 7]
    )
    return views.pad(x, widths, draw(st.sampled_from(values)))


def _crop(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    starts, sizes, steps = list[int](), list[int](), list[int]()
    for extent in shape_of(x):
        step = draw(st.sampled_from([1, 1, 1, 2, -1]))
        count = draw(st.integers(0 if draw(st.integers(0, 15)) == 7 else 1, -(-extent // abs(step))))
        reach = max(0, (count - 1) * abs(step))
        low = draw(st.integers(0, extent - 1 - reach))
        starts.append(low if step > 0 else low + reach)
        sizes.append(count)
        steps.append(step)
    return views.slice_(x, starts, sizes, steps)


def _flip(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return views.flip(x, draw(st.lists(st.integers(0, x.rank - 1), unique=True)))


def _wrap(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """A pad by cells of the tensor itself."""
    width = st.sampled_from([0, 0, 1, 2])
    widths = [(draw(width), draw(width)) for _ in range(x.rank)]
    return views.pad(x, widths, mode=draw(st.sampled_from(["edge", "reflect", "wrap"])))


def _take(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    axis = draw(st.integers(0, x.rank - 1))
    return views.take(x, draw(st.lists(st.integers(0, shape_of(x)[axis] - 1), max_size=5)), axis)


def _broadcast(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """New axes in front, of any extent, and axes of extent 1 stretched."""
    front = draw(st.lists(st.sampled_from([1, 1, 2, 3]), max_size=1))
    return views.broadcast_to(x, (*front, *(draw(st.sampled_from([1, 2, 3])) if d == 1 else d for d in shape_of(x))))


def _block(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """An axis in blocks, the last one padded, the axis within a block behind the others."""
    axis, factor = draw(st.integers(0, x.rank - 1)), draw(st.sampled_from([2, 3, 4]))
    blocks = IndexMap.from_func(
        lambda *i: [*(a // factor if n == axis else a for n, a in enumerate(i)), i[axis] % factor], x.rank
    )
    return layout_transform(x, blocks, pad_value=value_of(draw, x.dtype))


def _roll(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    axis = draw(st.integers(0, x.rank - 1))
    return views.roll(x, draw(st.integers(-3, 3)), axis)


def _tile(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return views.tile(x, [draw(st.sampled_from([1, 1, 2])) for _ in range(x.rank)])


def _unary(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    if x.dtype == "bool":
        return ~x
    if is_float(x.dtype):
        name = draw(st.sampled_from(["relu", "neg", "scale", *FLOAT_FUNCTIONS]))
        if name in FLOAT_FUNCTIONS:
            return pointwise.unary(name, x)
    else:
        name = draw(st.sampled_from(["relu", "neg", "scale"]))
    if name == "relu":
        return pointwise.relu(x)
    return -x if name == "neg" else x * 2 + 1


def _binary(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    others = [y for y in pool if y.dtype == x.dtype and _broadcasts(x, y)]
    y = draw(st.sampled_from(others))
    if x.dtype == "bool":
        return x & y
    name = draw(st.sampled_from(["add", "mul", "max", "sub"]))
    return pointwise.operator(name, x, y)


def _broadcasts(x: Tensor, y: Tensor) -> bool:
    a, b = shape_of(x), shape_of(y)
    return all(p == q or p == 1 or q == 1 for p, q in zip(reversed(a), reversed(b), strict=False))


def _bias(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    axis = draw(st.integers(0, x.rank - 1))
    shape = [d if n == axis else 1 for n, d in enumerate(shape_of(x))]
    values = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) % 5 - 2
    return x + constant(values.astype(x.dtype))


def _where(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    y = draw(st.sampled_from([y for y in pool if y.dtype == x.dtype and y.shape == x.shape and is_exact(y)]))
    return pointwise.where(x < y, x, y) if x.dtype != "bool" else pointwise.where(x, x, y)


def _position(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """A `where` on the position: one axis is cut, the far part is read mirrored."""
    axis = draw(st.integers(0, x.rank - 1))
    extent = shape_of(x)[axis]
    bound = draw(st.integers(0, extent))

    def body(*i: Term) -> Term:
        mirrored = list(i)
        mirrored[axis] = extent - 1 - i[axis]
        return t.where(i[axis] < bound, x[tuple(i)], x[tuple(mirrored)])

    return compute(shape_of(x), body)


def _reduce(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    axes = draw(st.lists(st.integers(0, x.rank - 1), unique=True, min_size=1, max_size=x.rank))
    names = ["max", "min"] if size_of(x) else list[str]()
    names += combiners_for(x.dtype)
    name = draw(st.sampled_from(names))
    return reductions.reduce(x, name, axes, draw(st.booleans()))


def _concat(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """Up to three parts, all of one tensor now and then; parts may be cut to any extent, also to none."""
    axis = draw(st.integers(0, x.rank - 1))
    others = [y for y in pool if y.dtype == x.dtype and y.shape == x.shape]
    parts: list[Tensor] = []
    for y in (x, *draw(st.lists(st.sampled_from(others), max_size=2))):
        extent = shape_of(y)[axis]
        low = draw(st.sampled_from([0, 0, 0, 1, extent]))
        high = draw(st.sampled_from([extent, extent, extent, min(low + 1, extent), low]))
        start = [min(low, extent) if n == axis else 0 for n in range(y.rank)]
        sizes = [max(0, high - low) if n == axis else d for n, d in enumerate(shape_of(y))]
        parts.append(y if sizes == list(shape_of(y)) else views.crop(y, start, sizes))
    return reductions.concat(draw(st.permutations(parts)), axis)


def _matmul(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    rows = shape_of(x)[-1]
    weights = (np.arange(rows * 3).reshape(rows, 3) % 7 - 3).astype(x.dtype)
    return reductions.matmul(x, constant(weights))


def _softmax(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return reductions.softmax(x, draw(st.integers(0, x.rank - 1)))


STEPS = (
    Extension("permute", lambda x: x.rank > 1, _permute),
    Extension("reshape", lambda x: True, _reshape),
    Extension("pad", ranked, _pad),
    Extension("wrap", ranked, _wrap),
    Extension("take", ranked, _take),
    Extension("flip", ranked, _flip),
    Extension("block", ranked, _block),
    Extension("broadcast", lambda x: True, _broadcast),
    Extension("crop", ranked, _crop),
    Extension("roll", ranked, _roll),
    Extension("tile", ranked, _tile),
    Extension("unary", lambda x: True, _unary),
    Extension("unary", lambda x: True, _unary),
    Extension("binary", lambda x: True, _binary),
    Extension("bias", lambda x: ranked(x) and x.dtype != "bool", _bias),
    Extension("where", is_exact, _where),
    Extension("position", ranked, _position),
    Extension("reduce", lambda x: ranked(x) or (x.rank > 0 and x.dtype != "bool"), _reduce),
    Extension("concat", ranked, _concat),
    Extension("matmul", lambda x: ranked(x) and x.dtype != "bool", _matmul),
    Extension("softmax", lambda x: ranked(x) and is_float(x.dtype), _softmax),
    *FORMULAS,
)


@st.composite
def programs(
    draw: st.DrawFn,
    max_ops: int = 12,
    max_size: int = 400,
    dtypes: Sequence[str] = DTYPES,
    kinds: Sequence[str] | None = None,
    prefix: str = "",
    min_ops: int = 1,
) -> Program:
    """Random programs of views, element-wise operators, formulas of all sorts, and reductions, over one or two inputs.

    Extents of 1 are frequent, extents of 0 and tensors of rank 0 occur; no program is undefined on any input.
    dtypes: of the inputs. kinds: the names of the steps to use (default: all of `STEPS`). prefix: of the names of
    inputs and outputs. min_ops, max_ops: how many steps are tried; one of over max_size elements is left out.
    """
    dtype = draw(st.sampled_from(list(dtypes)))
    steps = [s for s in STEPS if kinds is None or s.name in kinds]
    shape = draw(shapes(min_rank=draw(st.sampled_from([1, 1, 1, 1, 0]))))
    empty = draw(st.integers(0, 15)) == 7
    shape = tuple(0 if empty and n == len(shape) - 1 else d for n, d in enumerate(shape))
    if draw(st.booleans()):  # axes that cannot be told apart by their extents
        shape = shape[:1] * min(len(shape), 3)
    pool: list[Tensor] = [input(f"{prefix}x", shape, dtype)]
    if draw(st.booleans()):
        pool.append(input(f"{prefix}y", shape_of(pool[0]), dtype))
    inputs = list(pool)
    for _ in range(draw(st.integers(min_ops, max_ops))):
        x = pool[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(pool))
        fitting = [s for s in steps if s.fits(x)]
        if not fitting:
            continue
        made = draw(st.sampled_from(fitting)).build(draw, x, pool)
        if size_of(made) <= max_size:
            pool.append(made)
    outputs = {f"{prefix}out": pool[-1]}
    for name in ("side", "other")[: draw(st.integers(0, 2))]:
        outputs[f"{prefix}{name}"] = draw(st.sampled_from(pool[1:] or pool))
    return Program(inputs, outputs)
