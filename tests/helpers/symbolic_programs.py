"""Hypothesis strategies for programs with symbolic sizes, and the sizes at which to run them.

Names are few and bounds differ, so that the programs of one test run, and the symbols of one program, share names.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from eqsat.ir.dtypes import is_float
from eqsat.ir.errors import ShapeError
from eqsat.ir.flat.size_samples import sampled, symbol_sample
from eqsat.ir.flat.size_terms import shape_size
from eqsat.ir.ranges.bounds import bounds
from eqsat.ir.tensors import pointwise, reductions, views
from eqsat.ir.tensors.bind import program_symbols
from eqsat.ir.tensors.program_json import program_from_json, program_to_json
from eqsat.ir.tensors.tensor import Program, Tensor, compute, constant, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms import walk
from eqsat.ir.terms.shape import Dim, Shape, same_dim, same_shape
from eqsat.ir.terms.term import Term
from eqsat.testing.package import st

NAMES = ("N", "N", "M")
BOUNDS = ((1, None, 1), (0, None, 1), (2, None, 1), (1, 6, 1), (0, 3, 1), (4, None, 4), (0, None, 2), (3, 9, 3))
MOST = 4
"""What samples of symbols are capped at where sizes of programs are kept small."""


@st.composite
def symbols(draw: st.DrawFn) -> Term:
    """A symbol with one of a few names and any of the bounds."""
    return t.sym(draw(st.sampled_from(NAMES)), *draw(st.sampled_from(BOUNDS)))


@dataclass(frozen=True)
class _Step:
    name: str
    fits: Callable[[Tensor], bool]
    build: Callable[[st.DrawFn, Tensor, Sequence[Tensor]], Tensor]


def _axis(draw: st.DrawFn, x: Tensor) -> int:
    return draw(st.integers(0, x.rank - 1))


def _with(shape: Shape, axis: int, extent: Dim) -> Shape:
    return (*shape[:axis], extent, *shape[axis + 1 :])


def _at_least(d: Dim, least: int) -> bool:
    """Whether an extent is that large at every size."""
    if isinstance(d, int):
        return d >= least
    low = bounds(d)[0]
    return low is not None and low >= least


def _permute(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return views.permute_dims(x, draw(st.permutations(range(x.rank))))


def _merge(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """A reshape that merges axes, splits a number, flattens, or goes to a shape of the pool with as many elements."""
    kind = draw(st.sampled_from(["merge", "split", "flat", "unit", "back"]))
    at = _axis(draw, x)
    shape: Shape = x.shape
    if kind == "merge" and at + 1 < x.rank:
        whole = t.as_index(shape[at]) * shape[at + 1]
        shape = (*shape[:at], t.int_value(whole) or whole, *shape[at + 2 :])
    elif kind == "split" and isinstance(shape[at], int) and shape[at] in (4, 6):
        shape = (*shape[:at], 2, int(str(shape[at])) // 2, *shape[at + 1 :])
    elif kind == "unit":
        shape = (*shape[:at], 1, *shape[at:])
    elif kind == "back":
        same = [y.shape for y in pool if same_dim(views.size_term(y.shape), views.size_term(shape))]
        shape = draw(st.sampled_from(same)) if same else shape
    else:
        shape = (-1,) if not any(isinstance(d, int) and d == 0 for d in shape) else shape
    try:
        return views.reshape(x, shape)
    except ShapeError:
        return x  # sizes are compared as written, and N*(2*N + 2) is not 2*N*(N + 1)


def _pad(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    width = st.sampled_from([0, 0, 1, 2])
    widths = [(draw(width), draw(width)) for _ in range(x.rank)]
    value = draw(st.sampled_from([0.0, 1.0, -np.inf] if is_float(x.dtype) else [0, 1, 7]))
    return views.pad(x, widths, value)


def _pad_crop(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """Pad, perhaps an operator, and back to the old shape, or to one that is off by one place."""
    low, high = draw(st.integers(0, 2)), draw(st.integers(0, 3))
    axis = _axis(draw, x)
    widths = [(low, high) if n == axis else (0, 0) for n in range(x.rank)]
    y = views.pad(x, widths, draw(st.sampled_from([0, 1])))
    if draw(st.booleans()):
        y = _unary(draw, y, pool)
    start = draw(st.sampled_from([low, 0, low + high]))
    return views.crop(y, [start if n == axis else 0 for n in range(x.rank)], x.shape)


def _cut(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """One or two cells less of an axis that always has them; steps of -1 too."""
    fitting = [n for n, d in enumerate(x.shape) if _at_least(d, 2)]
    if not fitting:
        return x
    axis, backwards = draw(st.sampled_from(fitting)), draw(st.booleans())
    shift, extent = draw(st.integers(0, 1)), t.as_index(x.shape[axis])
    starts = [t.as_index(0) for _ in x.shape]
    starts[axis] = extent - 1 if backwards else t.as_index(shift)
    steps = [-1 if backwards and n == axis else 1 for n in range(x.rank)]
    left = extent - 1
    return views.slice_(x, starts, _with(x.shape, axis, t.int_value(left) or left), steps)


def _part(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """A part of axes of any extent, clipped where there are fewer cells: numpy's slices."""
    ends = st.sampled_from([None, None, 0, 1, 2, -1, -2, -3])
    return x[tuple(slice(draw(ends), draw(ends), draw(st.sampled_from([1, 1, 1, 2]))) for _ in x.shape)]


def _flip(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    return views.flip(x, (_axis(draw, x),))


def _unary(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    name = draw(st.sampled_from(["relu", "neg", "scale"]))
    if name == "relu":
        return pointwise.relu(x)
    return -x if name == "neg" else x * 2 + 1


def _binary(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    y = draw(st.sampled_from([y for y in pool if same_shape(x.shape, y.shape)]))
    return pointwise.operator(draw(st.sampled_from(["add", "mul", "max", "sub"])), x, y)


def _bias(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    fixed = [n for n, d in enumerate(x.shape) if isinstance(d, int) and d]
    if not fixed:
        return x
    axis = draw(st.sampled_from(fixed))
    shape = [int(str(d)) if n == axis else 1 for n, d in enumerate(x.shape)]
    return x + constant((np.arange(int(np.prod(shape))).reshape(shape) % 5 - 2).astype(x.dtype))


def _row(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """The first or the last row, or x less its first row."""
    fitting = [n for n, d in enumerate(x.shape) if _at_least(d, 1)]
    if not fitting or x.rank < 2:
        return x
    axis = draw(st.sampled_from(fitting))
    place = draw(st.sampled_from([t.as_index(0), t.as_index(x.shape[axis]) - 1]))

    def less_row(*i: Term) -> Term:
        return x[i] - x[(*i[:axis], place, *i[axis + 1 :])]

    def row(*i: Term) -> Term:
        return x[(*i[:axis], place, *i[axis:])]

    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    return compute(x.shape, less_row) if draw(st.booleans()) else compute(rest, row)


def _halves(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """A `where` on the position, cut in the middle of an axis, or nowhere."""
    axis = _axis(draw, x)
    extent = t.as_index(x.shape[axis])
    bound = draw(st.sampled_from([extent // 2, extent, t.as_index(0), extent - 1]))

    def body(*i: Term) -> Term:
        mirrored = (*i[:axis], extent - 1 - i[axis], *i[axis + 1 :])
        return t.where(i[axis] < bound, x[i], x[mirrored])

    return compute(x.shape, body)


def _reduce(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    axis, keep = _axis(draw, x), draw(st.booleans())
    names = ["sum"] if same_dim(x.shape[axis], 0) else ["sum", "max", "min"]
    return reductions.reduce(x, draw(st.sampled_from(names)), [axis], keep)


def _concat(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    axis = _axis(draw, x)
    rest = _with(x.shape, axis, 1)
    others = [y for y in pool if y.rank == x.rank and same_shape(_with(y.shape, axis, 1), rest)]
    return reductions.concat([x, draw(st.sampled_from(others))], axis)


def _matmul(draw: st.DrawFn, x: Tensor, pool: Sequence[Tensor]) -> Tensor:
    """x times its own transpose, over the last or the last but one axis."""
    other = views.permute_dims(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2))
    return reductions.matmul(x, other) if draw(st.booleans()) else reductions.matmul(other, x)


def _ranked(x: Tensor) -> bool:
    return x.rank > 0


STEPS = (
    _Step("permute", lambda x: x.rank > 1, _permute),
    _Step("merge", _ranked, _merge),
    _Step("merge", _ranked, _merge),
    _Step("pad", _ranked, _pad),
    _Step("pad_crop", _ranked, _pad_crop),
    _Step("cut", _ranked, _cut),
    _Step("part", _ranked, _part),
    _Step("part", _ranked, _part),
    _Step("flip", _ranked, _flip),
    _Step("unary", lambda x: True, _unary),
    _Step("unary", lambda x: True, _unary),
    _Step("binary", lambda x: True, _binary),
    _Step("bias", _ranked, _bias),
    _Step("row", _ranked, _row),
    _Step("halves", _ranked, _halves),
    _Step("reduce", _ranked, _reduce),
    _Step("concat", _ranked, _concat),
    _Step("matmul", lambda x: x.rank in (2, 3), _matmul),
)


def _cells(x: Tensor) -> int:
    """The number of elements where symbols are small."""
    found = walk.symbols(*(d for d in x.shape if isinstance(d, Term)))
    return sampled(shape_size(x.shape), {s: symbol_sample(s, MOST) for s in found})


@st.composite
def symbolic_programs(
    draw: st.DrawFn,
    max_ops: int = 8,
    max_size: int = 2000,
    dtypes: Sequence[str] = ("float32", "int32"),
    kinds: Sequence[str] | None = None,
    empty: bool = True,
) -> Program:
    """Random programs over one to three inputs whose extents are numbers and symbols; often two symbols of one name.

    empty: whether a number among the extents may be 0.
    """
    dtype = draw(st.sampled_from(list(dtypes)))
    steps = [s for s in STEPS if kinds is None or s.name in kinds]
    sizes = draw(st.lists(symbols(), min_size=1, max_size=3))
    numbers = [1, 2, 3, 4, 4, 6, *([0] if empty else [])]
    extent: st.SearchStrategy[Dim] = st.one_of(st.sampled_from(sizes), st.sampled_from(numbers))
    first: list[Dim] = draw(st.lists(extent, min_size=1, max_size=3))
    first[draw(st.integers(0, len(first) - 1))] = sizes[0]
    pool = [input("x", tuple(first), dtype)]
    if draw(st.booleans()):
        pool.append(input("y", pool[0].shape, dtype))
    if draw(st.booleans()):
        axis = _axis(draw, pool[0])
        pool.append(input("z", _with(pool[0].shape, axis, draw(extent)), dtype))
    inputs = list(pool)
    for _ in range(draw(st.integers(1, max_ops))):
        x = pool[-1] if draw(st.integers(0, 3)) else draw(st.sampled_from(pool))
        fitting = [s for s in steps if s.fits(x)]
        if fitting:
            made = draw(st.sampled_from(fitting)).build(draw, x, pool)
            if _cells(made) <= max_size and made.rank <= 5:
                pool.append(made)
    outputs = {"out": pool[-1]}
    if len(pool) > 3 and draw(st.booleans()):
        outputs["side"] = draw(st.sampled_from(pool[1:]))
    return Program(inputs, outputs)


TRIPS: dict[str, Callable[[Program], Program]] = {
    "none": lambda p: p,
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),
    "json": lambda p: program_from_json(program_to_json(p)),
    "copy": copy.deepcopy,
}
"""Ways there and back, after which a program must hold the same symbols."""


def sizes_for(program: Program, seed: int = 0, count: int = 4) -> Iterator[dict[Term, int]]:
    """Values for the symbols of a program: the least ones (0 where it is allowed), then small and larger ones."""
    found = program_symbols(program)
    yield {s: symbol_sample(s, 0) for s in found}
    random = Random(seed)
    for most in (1, 3, 5, 9, 17)[: count - 1]:
        yield {s: symbol_sample(s, random.randint(most // 2, most)) for s in found}
