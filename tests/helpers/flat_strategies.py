"""Random flat maps for the tests: digit lists, tensor views with their numpy meaning, chains of views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import flat_build as build
import numpy as np
from hypothesis import strategies as st

from eqsat.ir.flat.map import Digit, FlatMap, IntArray, from_digits
from eqsat.ir.flat.sizes import number
from eqsat.ir.flat.table import Map


def fitted(digits: list[Digit], n_in: int = 0, shift: int = 0) -> FlatMap:
    """The map of these digits with their smallest offset, or a larger one if the source has room for it."""
    low = high = 0
    for d in digits:
        ends = (number(d.stride) * number(d.lo), number(d.stride) * (number(d.hi) - 1))
        low, high = low + min(ends), high + max(ends)
    size = max(n_in, high - low + 1)
    return from_digits(size, digits, min(shift, size - 1 - (high - low)) - low)


@st.composite
def windows(draw: st.DrawFn, extent: int) -> tuple[int, int]:
    """Mostly a whole digit, else any window, rarely an empty one."""
    if draw(st.sampled_from([True, True, False])):
        return 0, extent
    ends = sorted(draw(st.tuples(st.sampled_from(range(extent + 1)), st.sampled_from(range(extent + 1)))))
    return ends[0], ends[1]


@st.composite
def digit_maps(draw: st.DrawFn, max_digits: int = 5) -> FlatMap:
    """Any digit map of at most a few hundred cells, most of them with windows, gaps, repeats and overlaps."""
    digits: list[Digit] = []
    for _ in range(draw(st.sampled_from(range(max_digits + 1)))):
        extent = draw(st.sampled_from([2, 3, 4, 6, 1]))
        stride = draw(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 0, 5, -1, -2, -4, -6, 24]))
        digits.append(Digit(extent, stride, *draw(windows(extent))))
    return fitted(digits, draw(st.sampled_from([0, 12, 24, 36, 48])), draw(st.integers(0, 5)))


@dataclass(frozen=True)
class View:
    """A view op on a tensor of one shape: its map, the shape it makes, and what numpy does (-1 pads)."""

    name: str
    map: Map
    shape: tuple[int, ...]
    run: Callable[[IntArray], IntArray]


SHAPES = st.sampled_from([3, 2, 4, 1, 0]).flatmap(
    lambda rank: st.tuples(*[st.sampled_from([4, 6, 3, 2, 8, 1, 5, 7])] * rank)
)


@st.composite
def reshapes(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of as many elements."""
    rest, result = prod(shape), list[int]()
    while rest > 1:
        extent = draw(st.sampled_from([d for d in range(2, rest + 1) if rest % d == 0]))
        result.append(extent)
        rest //= extent
    for _ in range(draw(st.integers(0, 2))):
        result.insert(draw(st.integers(0, len(result))), 1)
    return tuple(result) if rest else shape


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...], tables: bool = True) -> View:
    """One view op that fits the shape."""
    rank = len(shape)
    kinds = ["permute", "permute", "slice", "slice", "pad", "flip", "broadcast", "tile", "repeat"]
    kinds = kinds[: 6 if prod(shape) > 400 else 9] + (["roll", "take"] if tables and rank and prod(shape) else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "permute":
        axes = tuple(draw(st.permutations(range(rank))))
        return View(kind, build.permute(shape, axes), tuple(shape[a] for a in axes), lambda x: x.transpose(axes))
    if kind == "slice":
        cut = tuple(_slice(draw, extent) for extent in shape)
        ranges = [range(extent)[c] for extent, c in zip(shape, cut, strict=True)]
        m = build.slice_(shape, [r.start for r in ranges], [len(r) for r in ranges], [r.step for r in ranges])
        return View(kind, m, tuple(len(r) for r in ranges), lambda x: x[cut])
    if kind == "pad":
        widths = tuple((draw(st.sampled_from([0, 1, 2])), draw(st.sampled_from([0, 1, 4]))) for _ in shape)
        m = build.pad(shape, [w[0] for w in widths], [w[1] for w in widths])
        shape_out = tuple(e + w[0] + w[1] for e, w in zip(shape, widths, strict=True))
        return View(kind, m, shape_out, lambda x: np.pad(x, widths, constant_values=-1) if widths else x)
    if kind == "flip":
        flipped = tuple(a for a in range(rank) if draw(st.booleans()))
        return View(kind, build.flip(shape, flipped), shape, lambda x: np.flip(x, flipped))
    if kind == "broadcast":
        wide = tuple(draw(st.integers(1, 3)) if e == 1 else e for e in shape)
        wide = (draw(st.integers(1, 2)), *wide) if draw(st.booleans()) else wide
        return View(kind, build.broadcast(shape, wide), wide, lambda x: np.broadcast_to(x, wide).copy())
    if kind in ("tile", "repeat"):
        times = tuple(draw(st.integers(1, 2)) for _ in shape)
        larger = tuple(e * t for e, t in zip(shape, times, strict=True))
        if kind == "tile":
            return View(kind, build.tile(shape, times), larger, lambda x: np.tile(x, times))
        return View(kind, build.repeat(shape, times), larger, lambda x: _repeat(x, times))
    axis = draw(st.integers(0, rank - 1))
    if kind == "roll":
        shift = draw(st.integers(-3, 3))
        return View(kind, build.roll(shape, axis, shift), shape, lambda x: np.roll(x, shift, axis))
    chosen = draw(st.lists(st.integers(-1, shape[axis] - 1), min_size=1, max_size=8))
    rows = np.array(chosen, dtype=np.int64)
    shape_out = (*shape[:axis], len(rows), *shape[axis + 1 :])
    return View(kind, build.take(shape, axis, rows), shape_out, lambda x: _take(x, rows, axis))


def _slice(draw: st.DrawFn, extent: int) -> slice:
    if draw(st.booleans()):
        return slice(None)
    step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
    ends = sorted((draw(st.sampled_from(range(extent + 1))), draw(st.sampled_from(range(extent + 1)))))
    if step > 0:
        return slice(ends[0], ends[1], step)
    return slice(max(ends[1] - 1, 0), ends[0] - 1 if ends[0] else None, step)


def _repeat(x: IntArray, times: tuple[int, ...]) -> IntArray:
    for axis, count in enumerate(times):
        x = np.repeat(x, count, axis)
    return x


def _take(x: IntArray, rows: IntArray, axis: int) -> IntArray:
    missing = (rows < 0).reshape((-1,) + (1,) * (x.ndim - axis - 1))
    return np.where(missing, -1, np.take(x, np.maximum(rows, 0), axis))


@dataclass(frozen=True)
class Chain:
    """Views with reshapes between them: (shape before, view), and what the whole chain does to arange(n)."""

    shape: tuple[int, ...]
    views: tuple[View, ...]
    result: IntArray


@st.composite
def chains(draw: st.DrawFn, max_views: int = 6, tables: bool = True) -> Chain:
    """A random chain of view ops and reshapes over a small tensor."""
    start = draw(SHAPES)
    shape = start
    x = np.arange(prod(shape), dtype=np.int64).reshape(shape)
    steps: list[View] = []
    for _ in range(draw(st.sampled_from(range(1, max_views + 1)))):
        if draw(st.booleans()):
            shape = draw(reshapes(shape))
            x = x.reshape(shape)
        view = draw(views(shape, tables))
        if prod(view.shape) > 3000:
            break
        x = np.array(view.run(x))
        steps.append(view)
        shape = view.shape
    return Chain(start, tuple(steps), x)
