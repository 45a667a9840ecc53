"""Compiled kernels, and interpreted statements, against the numpy meaning of a program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st

from eqsat.backends.compile import compile
from eqsat.backends.lowering.lower import lower
from eqsat.ir.dtypes import DATA, NDArray, is_float
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.tensors import reductions, tensor
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor

TOLERANCE = {"float16": 4e-3, "float32": 1e-4, "float64": 1e-10}


def sample(shape: tuple[int, ...], dtype: str, seed: int = 0) -> NDArray:
    """Numbers with the awkward ones among them: extremes, NaN, infinities, both zeros."""
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if is_float(dtype):
        array = np.asarray(rng.standard_normal(shape) * 4).astype(dtype)
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 300.0, -70000.0, 0.5, 1.5, 2.5, -3.0]
    else:
        info = np.iinfo(dtype)
        array = rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
        special = [int(info.min), int(info.max), 0, 1]
    flat = array.reshape(-1)
    for value, at in zip(special, rng.permutation(flat.size)[: flat.size // 2], strict=False):
        with np.errstate(all="ignore"):
            flat[at] = np.asarray(value).astype(dtype)
    return array


def assert_same(got: NDArray, want: NDArray, close: bool, what: str) -> None:
    """Bitwise equal (one NaN is one NaN, and max(0.0, -0.0) is either), or close where the order of a sum is free."""
    assert got.dtype == want.dtype and got.shape == want.shape, what
    if close and is_float(want.dtype.name):
        special = ~np.isfinite(want)
        np.testing.assert_array_equal(np.where(special, got, 0), np.where(special, want, 0), err_msg=what)
        scale = np.abs(np.where(special, 0, want).astype(np.float64)).max(initial=1.0)
        rest = np.where(special, 0, got).astype(np.float64) - np.where(special, 0, want).astype(np.float64)
        assert np.abs(rest).max(initial=0) <= TOLERANCE[want.dtype.name] * scale, what
    else:
        np.testing.assert_array_equal(got, want, err_msg=what)


def check(outputs: Mapping[str, Tensor], feeds: Mapping[str, NDArray], close: bool = False, threads: int = 1) -> None:
    """Every output of one compiled program equals its numpy meaning."""
    program = program_of(outputs)
    want: dict[str, Any] = evaluate_outputs(program, feeds, undef=0)
    got = compile(program, threads=threads)(dict(feeds))
    for name in outputs:
        assert_same(got[name] if len(outputs) > 1 else got, want[name], close, name)


def check_statements(outputs: Mapping[str, Tensor], feeds: Mapping[str, NDArray], close: bool = False) -> None:
    """The lowered statements, interpreted, equal the numpy meaning."""
    program = program_of(outputs)
    want: dict[str, Any] = evaluate_outputs(program, feeds, undef=0)
    low = lower(program)
    arrays = {b.name: np.zeros(b.shape, "int64" if b.dtype == "index" else b.dtype) for b in low.buffers.values()}
    arrays |= {name: np.array(a) for name, a in low.constants.items()}
    arrays |= {low.inputs[n]: np.array(a) for n, a in feeds.items()}
    for step in low.steps:
        assert isinstance(step, PrimFunc)
        run_primfunc(step, {n: arrays[n].reshape(-1) for n in step.params})
    for name, buffer in low.outputs.items():
        assert_same(arrays[buffer], want[name], close, name)


def program_of(outputs: Mapping[str, Tensor]) -> Program:
    """The program with these outputs."""
    inputs = {x.name: x for out in outputs.values() for x in inputs_of(out)}
    return Program(list(inputs.values()), outputs)


def inputs_of(out: Tensor) -> list[Tensor]:
    """The inputs that a tensor depends on."""
    return [Tensor(n) for n in tensor.node_order([out]) if isinstance(n, tensor.Input)]


# -- random programs --------------------------------------------------------------------------------------------------

MAX_SIZE = 400


def _factors(draw: st.DrawFn, n: int) -> list[int]:
    """A random factorisation of n."""
    parts: list[int] = []
    while n > 1:
        d = draw(st.sampled_from([d for d in range(2, n + 1) if n % d == 0]))
        parts.append(d)
        n //= d
    return parts or [1]


@st.composite
def view_steps(draw: st.DrawFn, x: Tensor) -> Tensor:
    """One more layout op on a tensor."""
    shape = [d for d in x.shape if isinstance(d, int)]
    total = int(np.prod(shape))
    kind = draw(st.sampled_from(["permute", "reshape", "pad", "slice", "flip", "roll", "tile", "take", "mode"]))
    axis = draw(st.integers(0, max(x.rank - 1, 0)))
    if kind == "permute":
        return x.permute_dims(draw(st.permutations(range(x.rank))))
    if kind == "reshape" or x.rank == 0 or total == 0:
        return x.reshape(_factors(draw, total) if total else (*shape[::-1],))
    if kind == "pad" and total < MAX_SIZE // 2:
        widths = [(0, 0)] * x.rank
        widths[axis] = (draw(st.integers(0, 3)), draw(st.integers(0, 3)))
        return x.pad(widths, draw(st.booleans()) if x.dtype == "bool" else draw(st.integers(0, 1)))
    if kind == "slice" and shape[axis] > 1:
        step = draw(st.sampled_from([1, 1, 2, 3]))
        start = draw(st.integers(0, shape[axis] - 1))
        starts, sizes, steps = [0] * x.rank, list(shape), [1] * x.rank
        starts[axis], steps[axis] = start, step
        least = 0 if draw(st.integers(0, 5)) == 5 else 1
        sizes[axis] = draw(st.integers(least, (shape[axis] - 1 - start) // step + 1))
        return x.slice(starts, sizes, steps)
    if kind == "roll" and shape[axis]:
        return x.roll(draw(st.integers(-5, 5)), axis)
    if kind == "tile" and total < MAX_SIZE // 2:
        return x.tile([2 if n == axis else 1 for n in range(x.rank)])
    if kind == "take" and shape[axis] and total < MAX_SIZE:
        return x.take(draw(st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=5)), axis)
    if kind == "mode" and shape[axis] > 2 and total < MAX_SIZE // 2:
        mode = draw(st.sampled_from(["edge", "reflect", "wrap"]))
        return x.pad([(2, 1) if n == axis else (0, 0) for n in range(x.rank)], mode=mode)
    return x.flip(axis)


POINTWISE: list[Callable[[Tensor], Tensor]] = [
    lambda y: y.relu(), lambda y: y + y, lambda y: y * 3, lambda y: y.abs(), lambda y: y.clip(1, 2),
    lambda y: y - y.flip(),
]  # fmt: skip


@st.composite
def programs(draw: st.DrawFn, name: str = "x", depth: int = 8) -> tuple[Tensor, bool]:
    """A random program of views, element-wise operators, reductions, concats and casts; whether a sum is reordered."""
    dtype = draw(st.sampled_from(["float32", "float32", *DATA]))
    shape = draw(st.lists(st.integers(1, 7), min_size=0, max_size=4).filter(lambda s: np.prod(s) <= MAX_SIZE))
    x = tensor.input(name, shape, dtype)
    close = False
    for _ in range(draw(st.integers(1, depth))):
        kind = draw(st.sampled_from(["view", "view", "view", "point", "concat", "reduce", "cast"]))
        shape = [d for d in x.shape if isinstance(d, int)]
        if kind == "point" and x.dtype != "bool":
            x = draw(st.sampled_from(POINTWISE))(x)
        elif kind == "concat" and x.rank and np.prod(shape) < MAX_SIZE // 2:
            axis = draw(st.integers(0, x.rank - 1))
            x = reductions.concat([x, x.flip(axis)] if draw(st.booleans()) else [x, x], axis)
        elif kind == "reduce" and x.rank:
            axis = draw(st.integers(0, x.rank - 1))
            combiner = draw(st.sampled_from(["sum", "max", "min"]))
            if combiner == "sum" and x.dtype != "bool":
                close = close or is_float(x.dtype)
                x = x.sum(axis, keepdims=draw(st.booleans()))
            elif shape[axis]:
                x = x.max(axis) if combiner == "max" else x.min(axis)
        elif kind == "cast" and not close:
            x = x.cast(draw(st.sampled_from(DATA)))
        else:
            x = draw(view_steps(x))
    return x, close
