"""Seeded random functions over buffers that have a meaning on every input: in range, nothing unknown in an output.

Several stages write local buffers and outputs one after the other: element-wise stages, reductions, scans, updates in
place, stores behind predicates, through aliases, of vectors, of holes; they read at permuted, reversed, shifted,
wrapped and data-dependent indices. Extents are 0 and 1 too, or symbols; types are all that there are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import numpy as np

from eqsat.ir.dtypes import DATA, INTS, UINTS, NDArray, is_int
from eqsat.ir.statements.bind import bind_function
from eqsat.ir.statements.builder import Builder, Cells
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF, new_hole
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import Term

FEATURES: tuple[str, ...] = (
    "symbols", "empty", "holes", "aliases", "vectors", "strides", "data", "assume", "scan", "update", "locals",
    "guards",
)  # fmt: skip
"""What `without` may leave out of the functions; `data` is data-dependent reads."""
Body = Callable[[tuple[Term, ...]], None]
EXTENTS = (1, 2, 3, 4, 4, 5, 6)
MOST_CELLS = 48
SMALL_INTS = tuple(d for d in (*INTS, *UINTS) if not d.endswith("64"))


@dataclass(frozen=True)
class Case:
    """A function and numbers for its symbols."""

    func: PrimFunc
    sizes: Mapping[str, int]

    def arguments(self, seed: int = 0) -> dict[str, NDArray]:
        """Arrays for the parameters, outputs among them: whole numbers, and some NaN, infinities and negative zeros.

        Parameters with strides or an offset are views of larger memory.
        """
        rng = np.random.default_rng(seed)
        sizes = bind_function(self.func, {}, self.sizes)
        arrays: dict[str, NDArray] = {}
        for name in self.func.params:
            decl = self.func.buffer_map[name]
            shape = numbers(decl.shape, sizes)
            memory = prod(numbers(decl.memory_shape, sizes))
            flat = _numbers(rng, memory, decl.scalar)
            if decl.is_dense:
                arrays[name] = flat.reshape(shape)
                continue
            assert decl.strides is not None
            steps, width = numbers(decl.strides, sizes), flat.dtype.itemsize
            offset = numbers((decl.elem_offset,), sizes)[0]
            arrays[name] = np.ndarray(shape, flat.dtype, flat, offset * width, [s * width for s in steps])
        return arrays


def _numbers(rng: np.random.Generator, count: int, dtype: str) -> NDArray:
    if dtype == "bool":
        return rng.integers(0, 2, count).astype(bool)
    if is_int(dtype):
        info = np.iinfo(dtype)
        small = rng.integers(max(int(info.min), -9), 10, count).astype(dtype)
        wide = rng.integers(info.min, info.max, count, dtype=dtype, endpoint=True)
        return np.where(rng.integers(0, 6, count) == 0, wide, small).astype(dtype)
    values = rng.integers(-9, 10, count).astype(dtype)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.5], dtype)[rng.integers(0, 5, count)]
    return np.where(rng.integers(0, 12, count) == 0, odd, values).astype(dtype)


def random_case(seed: int, without: Collection[str] = ()) -> Case:
    """The function of a seed; `without` names FEATURES that it must not have."""
    unknown = set(without) - set(FEATURES)
    assert not unknown, unknown
    return Generator(Random(seed), set(FEATURES) - set(without), seed).case()


class Generator:
    def __init__(self, rng: Random, features: set[str], seed: int) -> None:
        self.rng = rng
        self.features = features
        self.f = Builder(f"random_{seed}")
        self.symbols: list[Term] = []
        self.sizes: dict[str, int] = {}
        self.readable: list[Cells] = []
        self.fresh = 0

    def chance(self, feature: str, one_in: int) -> bool:
        return feature in self.features and self.rng.randrange(one_in) == 0

    def name(self, stem: str) -> str:
        self.fresh += 1
        return f"{stem}{self.fresh}"

    # -- shapes and types

    def dim(self) -> Dim:
        if self.symbols and self.rng.random() < 0.35:
            symbol = self.rng.choice(self.symbols)
            return self.rng.choice([symbol, symbol, symbol + 1, 2 * symbol])
        return 0 if self.chance("empty", 24) else self.rng.choice(EXTENTS)

    def shape(self) -> tuple[Dim, ...]:
        while True:
            shape = tuple(self.dim() for _ in range(self.rng.choice([0, 1, 1, 2, 2, 2, 3])))
            if self.cells(shape) <= MOST_CELLS:
                return shape

    def cells(self, shape: tuple[Dim, ...]) -> int:
        """The number of cells, with the numbers that the symbols will have."""
        return prod(numbers(shape, {s: self.sizes[t.symbol_facts(s).name] for s in self.symbols}))

    def dtype(self) -> str:
        return self.rng.choice(["float32", "int32", "int32", *DATA])

    # -- the function

    def case(self) -> Case:
        if "symbols" in self.features and self.rng.random() < 0.5:
            n = t.sym("N")
            self.symbols.append(n)
            self.sizes["N"] = self.rng.choice(EXTENTS)
        inputs = [self.input(k) for k in range(self.rng.choice([1, 2, 2]))]
        self.readable = list(inputs)
        outputs = [self.f.param(f"out{k}", self.shape(), self.dtype()) for k in range(self.rng.choice([1, 1, 2]))]
        for _ in range(self.rng.choice([0, 1, 2])):
            local = self.f.alloc(self.name("t"), self.shape(), self.dtype())
            self.fill(local)
            self.stage(local)
            self.readable.append(local)
        for out in outputs:
            for _ in range(self.rng.choice([1, 1, 2])):
                self.stage(out)
            if self.chance("holes", 3):
                self.free(out)
            else:
                self.readable.append(out)
        return Case(self.f.build(), self.sizes)

    def input(self, k: int) -> Cells:
        shape = self.shape()
        if k == 0 and self.symbols:
            shape = (self.symbols[0], *shape[1:])
        layout: dict[str, Any] = {}
        if shape and self.chance("strides", 4) and all(isinstance(d, int) and d for d in shape):
            steps, step = [0] * len(shape), self.rng.choice([1, 2])
            for d in self.rng.sample(range(len(shape)), len(shape)):
                steps[d], extent = step, shape[d]
                assert isinstance(extent, int)
                step *= extent + self.rng.choice([0, 1])
            strides = tuple(steps)
            layout = {"strides": strides, "elem_offset": self.rng.choice([0, 3])}
        return self.f.param(f"in{k}", shape, self.dtype(), **layout)

    # -- stages

    def fill(self, target: Cells) -> None:
        """Write every cell, so that it may be read."""

        def body(axes: tuple[Term, ...]) -> None:
            target[axes] = self.value(target.decl.dtype, axes)

        self.nest(target, body)

    def stage(self, target: Cells) -> None:
        kinds = [self.pointwise, self.pointwise, self.reduction, self.reduction]
        for feature, kind in (
            ("scan", self.scan), ("update", self.update), ("locals", self.accumulator), ("guards", self.guarded),
            ("aliases", self.through_alias), ("vectors", self.vectors),
        ):  # fmt: skip
            kinds += [kind] * (feature in self.features)
        self.rng.choice(kinds)(target)

    def nest(self, target: Cells, body: Body) -> None:
        """Loops over the cells of a buffer, in any order."""
        shape = target.decl.shape
        order = self.rng.sample(range(len(shape)), len(shape))
        found: dict[int, Term] = {}

        def inside(level: int) -> None:
            if level == len(order):
                axes = tuple(found[n] for n in range(len(shape)))
                if self.chance("assume", 8) and axes:
                    axis = self.rng.choice(axes)
                    self.f.assume(axis < axis.args[0])
                body(axes)
                return
            dim = order[level]
            with self.f.loop(self.name("i"), t.as_index(shape[dim])) as axis:
                found[dim] = axis
                inside(level + 1)

        inside(0)

    def pointwise(self, target: Cells) -> None:
        self.fill(target)

    def reduction(self, target: Cells) -> None:
        dtype = target.decl.dtype
        extent = self.dim()

        def body(axes: tuple[Term, ...]) -> None:
            target[axes] = self.constant(dtype)
            with self.f.loop(self.name("r"), t.as_index(extent), reduce=True) as k:
                added = self.combined(dtype, target[axes], self.value(dtype, (*axes, k)))
                if self.rng.random() < 0.3 and axes:
                    with self.f.when(k + axes[0] < 4):
                        target[axes] = added
                else:
                    target[axes] = added

        self.nest(target, body)

    def accumulator(self, target: Cells) -> None:
        dtype = target.decl.dtype
        extent = self.dim()

        def body(axes: tuple[Term, ...]) -> None:
            acc = self.f.alloc(self.name("acc"), (1,), dtype)
            acc[0] = self.constant(dtype)
            with self.f.loop(self.name("r"), t.as_index(extent), reduce=True) as k:
                acc[0] = self.combined(dtype, acc[0], self.value(dtype, (*axes, k)))
            target[axes] = acc[0]

        self.nest(target, body)

    def scan(self, target: Cells) -> None:
        dtype = target.decl.dtype
        if not target.decl.shape:
            return self.pointwise(target)

        def body(axes: tuple[Term, ...]) -> None:
            first = axes[0]
            before = target[(first - 1, *axes[1:])]
            previous = t.where(first >= 1, before, self.constant(dtype))
            target[axes] = self.combined(dtype, previous, self.value(dtype, axes))

        shape = target.decl.shape
        with self.f.loop(self.name("i"), t.as_index(shape[0])) as outer:
            inner: list[Term] = []

            def rest(level: int) -> None:
                if level == len(shape):
                    body((outer, *inner))
                    return
                with self.f.loop(self.name("i"), t.as_index(shape[level])) as axis:
                    inner.append(axis)
                    rest(level + 1)
                    inner.pop()

            rest(1)
        return None

    def update(self, target: Cells) -> None:
        """A cell from its old value, and perhaps from a cell that this stage has changed or will change."""
        dtype = target.decl.dtype
        self.fill(target)

        def body(axes: tuple[Term, ...]) -> None:
            old = target[axes]
            if axes and self.rng.random() < 0.5:
                old = target[(axes[0].args[0] - 1 - axes[0], *axes[1:])]
            target[axes] = self.combined(dtype, old, self.value(dtype, axes))

        self.nest(target, body)

    def guarded(self, target: Cells) -> None:
        """Stores behind a condition; the cells that no branch writes keep what they had."""
        dtype = target.decl.dtype
        if not target.decl.shape:
            return self.pointwise(target)

        def body(axes: tuple[Term, ...]) -> None:
            condition = self.condition(axes)
            with self.f.when(condition):
                target[axes] = self.value(dtype, axes)
            if self.rng.random() < 0.5:
                with self.f.otherwise():
                    target[axes] = self.value(dtype, axes)

        self.nest(target, body)
        return None

    def through_alias(self, target: Cells) -> None:
        """The cells as one row, or as their bytes."""
        dims = target.decl.shape
        total = t.product([t.as_index(d) for d in dims]) if dims else t.index_const(1)
        dtype = target.decl.dtype
        with self.f.loop(self.name("once"), 1):
            flat = self.f.alias(self.name("flat"), target, (total,), dtype)
            with self.f.loop(self.name("i"), total) as i:
                flat[i] = self.value(dtype, (i,))
            if dtype in INTS and self.rng.random() < 0.5:
                raw = self.f.alias(self.name("bytes"), target, (total,), "uint8")
                with self.f.loop(self.name("i"), total) as i:
                    raw[i] = raw[total - 1 - i]

    def vectors(self, target: Cells) -> None:
        """Stores of several lanes, from loads of as many."""
        last = target.decl.shape[-1] if target.decl.shape else 1
        dtype = target.decl.dtype
        lanes = next((n for n in (4, 2) if isinstance(last, int) and last and last % n == 0), None)
        if lanes is None or dtype == "bool":
            return self.pointwise(target)
        sources = [c for c in self.readable if len(c.decl.shape) and _at_least(c.decl.shape[-1], lanes)]

        def body(axes: tuple[Term, ...]) -> None:
            row = axes[:-1]
            with self.f.loop(self.name("v"), t.as_index(last) // lanes) as v:
                here = (*row, t.ramp(v * lanes, 1, lanes))
                value = t.cast_to(t.ramp(v, self.rng.choice([0, 1, 3]), lanes), dtype)
                if sources:
                    source = self.rng.choice(sources)
                    size = source.decl.shape[-1]
                    assert isinstance(size, int)
                    index = self.index(source, (*row, v))
                    step = self.rng.choice([1, 1, -1]) if size == lanes else 1
                    start = t.index_const(lanes - 1 if step < 0 else self.rng.randint(0, size - lanes))
                    if index is not None:
                        read = source[(*index[:-1], t.ramp(start, step, lanes))]
                        value = self.combined(dtype, t.cast_to(read, dtype), value)
                target[here] = value

        self.rows(target, body)
        return None

    def rows(self, target: Cells, body: Body) -> None:
        """Loops over all but the last axis."""
        shape = target.decl.shape
        axes: list[Term] = []

        def inside(level: int) -> None:
            if level == len(shape) - 1:
                body((*axes, t.index_const(0)))
                return
            with self.f.loop(self.name("i"), t.as_index(shape[level])) as axis:
                axes.append(axis)
                inside(level + 1)
                axes.pop()

        inside(0)

    def free(self, target: Cells) -> None:
        """Some cells of an output may hold anything."""

        def body(axes: tuple[Term, ...]) -> None:
            if not axes:
                target[axes] = UNDEF
            elif self.rng.random() < 0.5:
                with self.f.when(self.condition(axes)):
                    target[axes] = UNDEF
            else:
                hole = new_hole(target.decl.dtype, axes)
                target[axes] = t.where(self.condition(axes), self.value(target.decl.dtype, axes), hole)

        self.nest(target, body)

    # -- terms

    def constant(self, dtype: str) -> Term:
        if dtype == "bool":
            return t.bool_const(self.rng.random() < 0.5)
        return t.const(self.rng.choice([0, 1, 2, 3]), dtype)

    def combined(self, dtype: str, a: Term, b: Term) -> Term:
        if dtype == "bool":
            return self.rng.choice([t.logical_and, t.logical_or])(a, b)
        return t.binary(self.rng.choice(["max", "min"]), a, b) if self.rng.random() < 0.3 else self.rng.choice(
            [t.add, t.add, t.sub, t.mul])(a, b)  # fmt: skip

    def condition(self, axes: tuple[Term, ...]) -> Term:
        axis = self.rng.choice(axes)
        other = self.rng.choice(axes)
        return self.rng.choice([
            axis < 2, t.compare("eq", axis % 2, 0), axis + 2 * other < 5, other <= axis, axis >= 1,
            t.logical_and(axis >= 1, axis < axis.args[0] - 1), t.logical_or(axis < 1, other >= 3),
        ])  # fmt: skip

    def value(self, dtype: str, axes: tuple[Term, ...], depth: int = 2) -> Term:
        """A value of a type: loads, positions, constants, put together."""
        roll = self.rng.random()
        if depth and roll < 0.35:
            if dtype != "bool" and axes and roll < 0.1:
                yes, no = (self.value(dtype, axes, depth - 1) for _ in range(2))
                return t.where(self.condition(axes), yes, no)
            return self.combined(dtype, self.value(dtype, axes, depth - 1), self.value(dtype, axes, depth - 1))
        if roll < 0.8:
            source = self.rng.choice(self.readable)
            index = self.index(source, axes)
            if index is not None:
                return self.converted(source[index], dtype)
        if axes and dtype != "bool" and self.rng.random() < 0.6:
            return t.cast_to(self.rng.choice(axes), dtype)
        return self.constant(dtype)

    def converted(self, value: Term, dtype: str) -> Term:
        if dtype == "bool" and value.dtype != "bool":
            return t.compare("lt", value, t.const(3, value.dtype))
        return t.cast_to(value, dtype)

    def index(self, source: Cells, axes: tuple[Term, ...]) -> tuple[Term, ...] | None:
        """An index that is in range wherever the axes are; None for a buffer that may be empty."""
        found: list[Term] = []
        for dim in source.decl.shape:
            one = self.position(t.as_index(dim), axes)
            if one is None:
                return None
            found.append(one)
        return tuple(found)

    def position(self, dim: Term, axes: tuple[Term, ...]) -> Term | None:
        size = t.int_value(dim)
        if size == 0:
            return None
        choices: list[Term] = [t.index_const(0), dim - 1]
        for axis in axes:
            extent = t.int_value(axis.args[0]) if axis.args and axis.op == "var" else None
            fits = size is not None and extent is not None and extent <= size
            if fits or (axis.args and axis.op == "var" and axis.args[0] is dim):
                choices += [axis, axis, dim - 1 - axis]
            choices += [(axis + self.rng.randint(0, 3)) % dim, (3 * axis + 1) % dim]
            if fits and extent is not None and size is not None and size > extent:
                choices.append(axis + (size - extent))
        if self.chance("data", 5):
            numbers = [c for c in self.readable if c.decl.dtype in SMALL_INTS and all(
                isinstance(d, int) and d for d in c.decl.shape)]  # fmt: skip
            if numbers:
                table = self.rng.choice(numbers)
                at = tuple((a % d) for a, d in zip(
                    (*axes, *[t.index_const(0)] * 3), table.decl.shape, strict=False))  # fmt: skip
                return t.cast_to(table[at], "index") % dim
        return self.rng.choice(choices)


def _at_least(dim: Dim, least: int) -> bool:
    return isinstance(dim, int) and dim >= least
