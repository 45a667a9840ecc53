"""Small random functions: several stages of loop nests over a few buffers, with guards, reductions and odd indices."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.ranges.bounds import bounds
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, If, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term


@dataclass
class Nests:
    """A random function from a seed."""

    rng: random.Random
    dtype: str = "int32"
    data_dependent: bool = False
    decls: dict[str, BufferDecl] = field(default_factory=dict[str, BufferDecl])
    loops: int = 0

    def function(self) -> PrimFunc:
        """A function of up to three stages over parameters x, y, z and a local buffer."""
        for name in ("x", "y", "z"):
            shape = tuple(self.rng.choice((1, 2, 3, 4, 6)) for _ in range(self.rng.randint(1, 2)))
            self.decls[name] = BufferDecl(name, shape, self.dtype)
        params = dict(self.decls)
        local = BufferDecl("w", (self.rng.randint(2, 6),), self.dtype)
        self.decls["w"] = local
        fill = t.ax(90, local.shape[0])
        first = For(fill, Store("w", (fill,), self.value([fill])))
        stages = [self.stage() for _ in range(self.rng.randint(1, 3))]
        body = Alloc(local, seq([first, *stages]))
        return PrimFunc("f", tuple(params), params, body)

    def stage(self) -> Stmt:
        """A nest of one to three loops."""
        axes: list[Term] = []
        for _ in range(self.rng.randint(1, 3)):
            axes.append(t.ax(self.loops, self.rng.choice((1, 2, 3, 4, 5))))
            self.loops += 1
        return self.nest(axes, 0)

    def nest(self, axes: Sequence[Term], depth: int) -> Stmt:
        """The loops from `depth` on; sometimes a store stands before an inner loop."""
        if depth == len(axes):
            return seq([self.store(axes) for _ in range(self.rng.choice((1, 1, 1, 2)))])
        inner = self.nest(axes, depth + 1)
        if depth and self.rng.random() < 0.2:
            inner = seq([self.store(axes[:depth]), inner])
        if depth and self.rng.random() < 0.15:
            inner = If(self.condition(axes[:depth]), inner)
        return For(axes[depth], inner)

    def store(self, axes: Sequence[Term]) -> Stmt:
        """A store, a guarded one, or an accumulation."""
        name = self.rng.choice(("x", "y", "z", "w"))
        index = self.index(name, axes)
        value = self.value(axes)
        own = t.load(name, index, self.dtype)
        if self.rng.random() < 0.35:
            value = self.rng.choice((own + value, value + own, t.binary("max", own, value)))
        found = Store(name, tuple(index), value)
        return If(self.condition(axes), found) if self.rng.random() < 0.2 else found

    def condition(self, axes: Sequence[Term]) -> Term:
        """A comparison of loop axes."""
        a = self.rng.choice(axes)
        if self.data_dependent and self.rng.random() < 0.3:
            return t.compare("lt", t.load("x", self.index("x", axes), self.dtype), t.const(0, self.dtype))
        b = self.rng.choice([t.index_const(self.rng.randint(0, 3)), self.rng.choice(axes)])
        return t.compare(self.rng.choice(("lt", "le", "ne")), a, b)

    def value(self, axes: Sequence[Term]) -> Term:
        """A load, a number, or a sum of them."""
        names = [n for n in self.decls if n != "w" or self.loops]
        name = self.rng.choice(names)
        load = t.load(name, self.index(name, axes), self.dtype)
        number = t.const(self.rng.randint(-3, 3), self.dtype)
        kind = self.rng.random()
        if kind < 0.15:
            return number
        if kind < 0.3:
            return t.where(self.condition(axes), load, number)
        return load if kind < 0.6 else load + number

    def index(self, name: str, axes: Sequence[Term]) -> list[Term]:
        """An index inside of a buffer."""
        return [self.coordinate(n, axes) for n in extents(self.decls[name])]

    def coordinate(self, extent: int, axes: Sequence[Term]) -> Term:
        """A term with values in 0..extent-1: an axis, a sum, a quotient, a flipped axis, a constant."""
        a, b = self.rng.choice(axes), self.rng.choice(axes)
        if self.data_dependent and not is_float(self.dtype) and self.rng.random() < 0.1:
            return t.cast_to(t.load("x", [self.rng.randrange(n) * a * 0 for n in extents(self.decls["x"])], self.dtype),
                             "index") % extent  # fmt: skip
        choices = [a, a, a, a + b, a + 1, 2 * a, a // 2, extent - 1 - a, 3 * a + b, a * b, t.index_const(0)]
        term = self.rng.choice(choices)
        low, high = bounds(term)
        return term if low is not None and high is not None and low >= 0 and high < extent else term % extent


def extents(decl: BufferDecl) -> tuple[int, ...]:
    """The extents of a buffer of known size."""
    return tuple(n for n in decl.shape if isinstance(n, int))


def inputs(func: PrimFunc, seed: int) -> dict[str, NDArray]:
    """Random arrays for the parameters; outputs are prefilled, too."""
    generator = np.random.default_rng(seed)
    found: dict[str, NDArray] = {}
    for name, decl in func.buffer_map.items():
        found[name] = generator.integers(-5, 6, extents(decl)).astype(decl.dtype)
    return found
