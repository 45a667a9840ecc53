"""Random programs written in numpy's names: read by numpy and by eqsat, one result, also optimised and as C."""

# feature: A1

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from seeds import some_of

import eqsat as eq
from eqsat.ir.dtypes import NDArray

PROGRAMS, PART, STEPS, MOST_CELLS = 250, 50, 5, 200
TYPES = ["float32", "float32", "float64", "float16", "int32", "int8", "uint8", "int64", "bool"]
TOLERANCE = {"float16": 3e-2, "float32": 1e-4, "float64": 1e-9}
POINTWISE = [
    "abs", "sign", "square", "floor", "tanh", "isfinite", "logical_not", "clip", "where", "add", "multiply", "maximum",
    "minimum", "less", "round", "mixed", "not_equal", "logical_xor",
]  # fmt: skip
Step = Callable[[Any, Any], Any]


class Steps:
    """The steps of one program, drawn by a seed: each is a function of (numpy or eqsat, the value so far)."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, *options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def data(self) -> NDArray:
        sizes = self.rng.choice([0, 1, 2, 3, 4, 5], self.whole(0, 3), p=[0.04, 0.16, 0.2, 0.2, 0.2, 0.2])
        shape = tuple(int(d) for d in sizes)
        dtype = self.pick(*TYPES)
        if dtype == "bool":
            return np.asarray(self.rng.random(shape) < 0.5)
        if dtype.startswith("float"):
            a = np.asarray(self.rng.standard_normal(shape)).astype(dtype)
            if a.size and self.whole(0, 9) == 0:
                a.ravel()[0] = self.pick(np.nan, np.inf, -np.inf, -0.0)
            return a
        return np.asarray(self.rng.integers(0 if dtype[0] == "u" else -9, 10, shape)).astype(dtype)

    def axis(self, a: NDArray) -> int:
        return self.whole(-a.ndim, a.ndim - 1)

    def step(self, a: NDArray) -> Step:
        """One step that suits a value."""
        kinds = [self.pointwise, self.types, self.axes, self.index]
        if a.ndim:
            kinds += [self.along, self.cells, self.join, self.reduce, self.reduce]
        if a.ndim >= 2:
            kinds += [self.matrices]
        return self.pick(*kinds)(a)

    def pointwise(self, a: NDArray) -> Step:
        name = self.pick(*POINTWISE)
        other = self.pick(2, 0.5, np.arange(3)[self.whole(0, 2)], np.float32(1.5), True)
        if name in ("sign", "square") and a.dtype == bool:
            name = "logical_not"
        if name == "clip":
            return lambda xp, x: xp.clip(x, -1 if a.dtype.kind != "u" and a.dtype != bool else 0, 1)
        if name == "where":
            return lambda xp, x: xp.where(xp.greater(x, 0), x, other)
        if name == "mixed":
            return lambda xp, x: x + xp.equal(x, x) * other
        if name in ("add", "multiply", "maximum", "minimum", "less", "not_equal", "logical_xor"):
            return lambda xp, x: getattr(xp, name)(x, other)
        return lambda xp, x: getattr(xp, name)(x)

    def types(self, a: NDArray) -> Step:
        dtype = self.pick("float32", "float64", "bool", "int64", "int32")
        if a.dtype.kind == "f" and dtype != "bool":
            dtype = "float64"  # what NaN and too large numbers become as integers is not numpy's to say
        return lambda xp, x: x.astype(dtype)

    def axes(self, a: NDArray) -> Step:
        order = [int(n) for n in self.rng.permutation(a.ndim)]
        kind = self.pick("T", "transpose", "ravel", "reshape", "expand", "moveaxis", "fortran", "atleast")
        if kind == "T":
            return lambda xp, x: x.T
        if kind == "transpose":
            return lambda xp, x: xp.transpose(x, order)
        if kind == "ravel":
            return lambda xp, x: x.ravel()
        if kind == "expand":
            place = self.whole(0, a.ndim)
            return lambda xp, x: xp.expand_dims(x, place)
        if kind == "moveaxis" and a.ndim:
            source, target = self.axis(a), self.axis(a)
            return lambda xp, x: xp.moveaxis(x, source, target)
        if kind == "atleast":
            return lambda xp, x: xp.atleast_2d(x)
        first = self.pick(*[d for d in range(1, a.size + 1) if a.size % d == 0]) if a.size else 3
        shape = (first, -1) if a.size else (0, first)
        return lambda xp, x: xp.reshape(x, shape, order="F" if kind == "fortran" else "C")

    def index(self, a: NDArray) -> Step:
        items: list[Any] = []
        arrays = 0
        for extent in a.shape:
            kind = self.pick("slice", "slice", "int", "array", "none", "all")
            if kind == "int" and extent:
                items.append(self.whole(-extent, extent - 1))
            elif kind == "array" and extent and not arrays:
                arrays += 1
                items.append([self.whole(-extent, extent - 1) for _ in range(self.whole(0, 3))])
            elif kind == "slice":
                bounds = [self.pick(None, self.whole(-extent - 1, extent + 1)) for _ in range(2)]
                items.append(slice(bounds[0], bounds[1], self.pick(None, 1, 2, 3, -1, -2)))
            elif kind == "none":
                items.extend([None, slice(None)])
            else:
                items.append(slice(None))
        if self.whole(0, 1):
            items = [*items[: self.whole(0, len(items))], Ellipsis]
        if self.pick(True, False) and len(items) == 1:
            return lambda xp, x: x[items[0]]
        return lambda xp, x: x[tuple(items)]

    def along(self, a: NDArray) -> Step:
        axis, kind = self.axis(a), self.pick("flip", "roll", "repeat", "cumsum", "diff", "split", "roll2", "rolled")
        shift = self.whole(-6, 6)
        if kind == "flip":
            return lambda xp, x: xp.flip(x, axis)
        if kind == "roll":
            return lambda xp, x: xp.roll(x, shift, axis)
        if kind == "roll2":
            return lambda xp, x: xp.roll(x, (shift, 1), (axis, 0))
        if kind == "rolled":
            return lambda xp, x: xp.roll(x, shift)
        if kind == "repeat":
            return lambda xp, x: xp.repeat(x, abs(shift) % 3, axis=axis)
        if kind == "diff" and a.dtype != bool:
            return lambda xp, x: xp.diff(x, axis=axis)
        if kind == "split" and a.shape[axis]:
            cut = self.whole(0, a.shape[axis])
            return lambda xp, x: xp.split(x, [cut], axis)[1]
        return lambda xp, x: xp.cumsum(x, axis=axis)

    def cells(self, a: NDArray) -> Step:
        kind = self.pick("pad", "pad", "tile", "window", "take")
        width = [(self.whole(0, 3), self.whole(0, 3)) for _ in range(a.ndim)]
        if kind == "pad" and 0 not in a.shape:
            mode = self.pick("constant", "edge", "reflect", "symmetric", "wrap")
            return lambda xp, x: xp.pad(x, width, mode=mode)
        if kind == "window" and a.shape[-1] >= 2:
            return lambda xp, x: sliding(xp)(x, 2, axis=-1)
        if kind == "take" and a.shape[0]:
            at = [self.whole(-a.shape[0], a.shape[0] - 1) for _ in range(3)]
            return lambda xp, x: xp.take(x, at, axis=0)
        reps = self.whole(0, 2)
        return lambda xp, x: xp.tile(x, reps)

    def join(self, a: NDArray) -> Step:
        axis, kind = self.axis(a), self.pick("concatenate", "stack", "hstack", "vstack")
        if kind == "concatenate":
            more = "int32" if a.dtype.kind in "ib" else "float64"
            return lambda xp, x: xp.concatenate([x, xp.flip(x, axis), x.astype(more)], axis)
        if kind == "stack":
            return lambda xp, x: xp.stack([x, xp.roll(x, 1, axis)], axis)
        return lambda xp, x: getattr(xp, kind)([x, x])

    def reduce(self, a: NDArray) -> Step:
        name = self.pick("sum", "prod", "mean", "var", "any", "all", "max", "min", "argmax", "argmin", "count_nonzero")
        axis: Any = self.pick(None, self.axis(a), self.axis(a))
        if 0 in a.shape and name not in ("sum", "prod", "any", "all"):
            name = "sum"
        keepdims = self.pick(True, False)
        return lambda xp, x: getattr(xp, name)(x, axis=axis, keepdims=keepdims)

    def matrices(self, a: NDArray) -> Step:
        kind = self.pick("matmul", "tril", "triu", "diagonal", "einsum", "mT", "trace", "tensordot")
        k = self.whole(-2, 2)
        if kind == "matmul":
            return lambda xp, x: x @ x.swapaxes(-1, -2)
        if kind in ("tril", "triu"):
            return lambda xp, x: getattr(xp, kind)(x, k)
        if kind == "einsum":
            return lambda xp, x: xp.einsum("...ij,...kj->...ik", x, x)
        if kind == "tensordot":
            return lambda xp, x: xp.tensordot(x, x, ((0,), (0,)))
        if kind == "mT":
            return lambda xp, x: x.swapaxes(-1, -2)
        if kind == "trace":
            return lambda xp, x: xp.trace(x, offset=k)
        return lambda xp, x: xp.diagonal(x, k)


def sliding(xp: Any) -> Any:
    return np.lib.stride_tricks.sliding_window_view if xp is np else xp.sliding_window_view


def program(seed: int) -> tuple[NDArray, list[Step], NDArray, float]:
    """An input, steps, what numpy makes of them, and how near a result must be: as the least exact type on the way."""
    steps = Steps(seed)
    a = steps.data()
    value, done, near = a, list[Step](), TOLERANCE.get(a.dtype.name, 0.0)
    for _ in range(STEPS):
        step = steps.step(value)
        found = np.asarray(step(np, value))
        if found.size > MOST_CELLS or found.ndim > 5 or (found.dtype.kind == "f" and found.size and unclear(found)):
            continue
        value = found
        done.append(step)
        near = max(near, TOLERANCE.get(found.dtype.name, 0.0))
    return a, done, value, near


def unclear(a: NDArray) -> bool:
    """Whether float16 or sums have left the range in which orders of adding agree."""
    with np.errstate(all="ignore"):
        return bool((np.abs(a[np.isfinite(a)]) > 1e4).any())


def same(found: NDArray, wanted: NDArray, near: float, what: str) -> None:
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape), what
    np.testing.assert_allclose(found, wanted, rtol=near, atol=near * 100, err_msg=what)


def check(seeds: range, compiled: bool) -> None:
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    data: dict[str, NDArray] = {}
    wanted: dict[str, NDArray] = {}
    near: dict[int, float] = {}
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            a, steps, expected, near[seed] = program(seed)
            name = f"x{seed}"
            x: Any = eq.input(name, a.shape, a.dtype)
            inputs[name], data[name], value = x, a, x
            for step in steps:
                value = eq.asarray(step(eq, value))
            outputs[f"y{seed}"], wanted[f"y{seed}"] = value, expected
        whole = eq.Program(list(inputs.values()), outputs)
        best = eq.optimize(whole).program
        results = {"evaluate": eq.evaluate(whole, data), "optimised": eq.evaluate(best, data)}
        if compiled:
            results["C"] = eq.compile(best)(data)
    for way, found in results.items():
        for seed in seeds:
            same(found[f"y{seed}"], wanted[f"y{seed}"], near[seed], f"program {seed} by {way}")


@pytest.mark.parametrize("first", some_of(range(0, PROGRAMS, PART), 1))
def test_random_programs_in_numpys_names(first: int) -> None:
    check(range(first, first + PART), compiled=first % (5 * PART) == 0)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(10_000, 20_000, 100))
def test_more_random_programs(first: int) -> None:
    check(range(first, first + 100), compiled=True)
