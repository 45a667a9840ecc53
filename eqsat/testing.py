"""Hypothesis strategies for users' and our own tests: shapes, index maps, layout chains, random tensor programs.

>>> from hypothesis import given
>>> @given(programs(max_ops=4))
... def check(program):
...     assert program.outputs
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
from hypothesis import strategies as st

from eqsat.ir import pointwise, reductions, views
from eqsat.ir import term as t
from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.index_map import IndexMap
from eqsat.ir.shape import require_static
from eqsat.ir.tensor import Program, Tensor, compute, constant, input
from eqsat.ir.term import Term
from eqsat.testing_maps import MAP_FAMILIES, random_map

FLOAT_FUNCTIONS = ("exp", "tanh", "abs")


@st.composite
def shapes(draw: st.DrawFn, min_rank: int = 0, max_rank: int = 4, max_extent: int = 6) -> tuple[int, ...]:
    """Static shapes; extents of 1 and, rarely, 0 included."""
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


def index_maps(
    max_points: int = 256, families: Sequence[str] = MAP_FAMILIES
) -> st.SearchStrategy[tuple[IndexMap, tuple[int, ...]]]:
    """Index maps of every family with a shape of at most `max_points` points: see `eqsat.testing_maps.random_map`."""

    def build(family: str, seed: int) -> tuple[IndexMap, tuple[int, ...]]:
        return random_map(family, Random(seed), max_points)

    return st.builds(build, st.sampled_from(list(families)), st.integers(0, 1 << 32))


@dataclass(frozen=True)
class _Step:
    """One way to extend a program: whether it applies to a tensor, and how."""

    name: str
    fits: Callable[[Tensor], bool]
    build: Callable[[st.DrawFn, Tensor, Sequence[Tensor]], Tensor]


def _shape(x: Tensor) -> tuple[int, ...]:
    return require_static(x.shape, "testing")


def _size(x: Tensor) -> int:
    return int(np.prod(_shape(x), dtype=np.int64))


def _permute(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return views.permute_dims(x, draw(st.permutations(range(x.rank))))


def _reshape(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return views.reshape(x, draw(factorings(_size(x))))


def _pad(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    width = st.sampled_from([0, 0, 1, 2])
    widths = [(draw(width), draw(width)) for _ in range(x.rank)]
    values = (
        [0, 1, -1, -0.0, np.inf, -np.inf] if is_float(x.dtype) else [False, True] if x.dtype == "bool" else [0, 1, 7]
    )
    return views.pad(x, widths, draw(st.sampled_from(values)))


def _crop(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    starts, sizes, steps = list[int](), list[int](), list[int]()
    for extent in _shape(x):
        step = draw(st.sampled_from([1, 1, 1, 2, -1]))
        count = draw(st.integers(1, -(-extent // abs(step))))
        reach = (count - 1) * abs(step)
        low = draw(st.integers(0, extent - 1 - reach))
        starts.append(low if step > 0 else low + reach)
        sizes.append(count)
        steps.append(step)
    return views.slice_(x, starts, sizes, steps)


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
    a, b = _shape(x), _shape(y)
    return all(p == q or p == 1 or q == 1 for p, q in zip(reversed(a), reversed(b), strict=False))


def _bias(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    axis = draw(st.integers(0, x.rank - 1))
    shape = [d if n == axis else 1 for n, d in enumerate(_shape(x))]
    values = np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) % 5 - 2
    return x + constant(values.astype(x.dtype))


def _where(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    y = draw(st.sampled_from([y for y in pool if y.dtype == x.dtype and y.shape == x.shape]))
    return pointwise.where(x < y, x, y) if x.dtype != "bool" else pointwise.where(x, x, y)


def _position(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """A `where` on the position: one axis is cut, the far part is read mirrored."""
    axis = draw(st.integers(0, x.rank - 1))
    extent = _shape(x)[axis]
    bound = draw(st.integers(0, extent))

    def body(*i: Term) -> Term:
        mirrored = list(i)
        mirrored[axis] = extent - 1 - i[axis]
        return t.where(i[axis] < bound, x[tuple(i)], x[tuple(mirrored)])

    return compute(_shape(x), body)


def _reduce(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    axes = draw(st.lists(st.integers(0, x.rank - 1), unique=True, min_size=1, max_size=x.rank))
    name = draw(st.sampled_from(["max", "min"] if x.dtype == "bool" else ["sum", "max", "min"]))
    return reductions.reduce(x, name, axes, draw(st.booleans()))


def _concat(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    others = [y for y in pool if y.dtype == x.dtype and y.shape == x.shape]
    return reductions.concat([x, draw(st.sampled_from(others))], draw(st.integers(0, x.rank - 1)))


def _matmul(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    rows = _shape(x)[-1]
    weights = (np.arange(rows * 3).reshape(rows, 3) % 7 - 3).astype(x.dtype)
    return reductions.matmul(x, constant(weights))


def _softmax(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return reductions.softmax(x, draw(st.integers(0, x.rank - 1)))


def _ranked(x: Tensor) -> bool:
    return x.rank > 0 and _size(x) > 0


STEPS = (
    _Step("permute", lambda x: x.rank > 1, _permute),
    _Step("reshape", lambda x: True, _reshape),
    _Step("pad", _ranked, _pad),
    _Step("crop", _ranked, _crop),
    _Step("roll", _ranked, _roll),
    _Step("tile", _ranked, _tile),
    _Step("unary", lambda x: True, _unary),
    _Step("unary", lambda x: True, _unary),
    _Step("binary", lambda x: True, _binary),
    _Step("bias", lambda x: _ranked(x) and x.dtype != "bool", _bias),
    _Step("where", lambda x: True, _where),
    _Step("position", _ranked, _position),
    _Step("reduce", _ranked, _reduce),
    _Step("concat", _ranked, _concat),
    _Step("matmul", lambda x: _ranked(x) and x.dtype != "bool", _matmul),
    _Step("softmax", lambda x: _ranked(x) and is_float(x.dtype), _softmax),
)


@st.composite
def programs(
    draw: st.DrawFn,
    max_ops: int = 12,
    max_size: int = 400,
    dtypes: Sequence[str] = ("float32", "int32", "int8"),
    kinds: Sequence[str] | None = None,
    prefix: str = "",
) -> Program:
    """Random programs of views, element-wise operators, selections by position, and reductions, over one or two inputs.

    kinds: the names of the steps to use (permute, reshape, pad, crop, roll, tile, unary, binary, bias, where, position,
    reduce, concat, matmul, softmax). prefix: of the names of inputs and outputs.
    """
    dtype = draw(st.sampled_from(list(dtypes)))
    steps = [s for s in STEPS if kinds is None or s.name in kinds]
    pool: list[Tensor] = [input(f"{prefix}x", draw(shapes(min_rank=1)), dtype)]
    if draw(st.booleans()):
        pool.append(input(f"{prefix}y", _shape(pool[0]), dtype))
    inputs = list(pool)
    for _ in range(draw(st.integers(1, max_ops))):
        x = pool[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(pool))
        fitting = [s for s in steps if s.fits(x)]
        if not fitting:
            continue
        made = draw(st.sampled_from(fitting)).build(draw, x, pool)
        if _size(made) <= max_size:
            pool.append(made)
    outputs = {f"{prefix}out": pool[-1]}
    if len(pool) > 3 and draw(st.booleans()):
        outputs[f"{prefix}side"] = draw(st.sampled_from(pool[1:]))
    return Program(inputs, outputs)


def arrays_for(program: Program, seed: int = 0) -> dict[str, NDArray]:
    """Random arrays for the inputs of a program: small numbers of both signs, a few special floats."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, NDArray] = {}
    for x in program.inputs:
        shape = _shape(x)
        if x.dtype == "bool":
            feeds[x.name] = rng.integers(0, 2, shape).astype(bool)
        elif is_float(x.dtype):
            feeds[x.name] = np.asarray(rng.normal(size=shape) * 2, x.dtype)
        else:
            feeds[x.name] = rng.integers(-4 if x.dtype.startswith("int") else 0, 9, shape).astype(x.dtype)
    return feeds
