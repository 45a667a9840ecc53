"""Random functions around padding: guards that keep it out, sums over it, assumptions about it, cells that are freed.

Another generator than `random_nests` and `random_primfuncs`: initialisations stand inside or outside of reductions,
branches nest and follow each other with equal or opposite conditions, local buffers are written in part.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.ranges.bounds import bounds
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, BufferDecl, For, If, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}
SHAPES = ((4, 4), (14,), (3, 5), (6,), (2, 3, 4), (4, 4))


@dataclass
class PaddedFunctions:
    """A random function from a seed, and arguments for it on which its assumptions hold."""

    seed: int
    rng: random.Random = field(init=False)
    dtype: str = field(init=False)
    decls: dict[str, BufferDecl] = field(default_factory=dict[str, BufferDecl])
    read: list[str] = field(default_factory=lambda: ["X", "Y", "Z"])
    written: list[str] = field(default_factory=lambda: ["Y", "Z"])
    assumed: tuple[Sequence[Term], Term, Any] | None = None
    count: int = 0

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.dtype = self.rng.choice(["int32", "float32", "int8", "float32"])

    def function(self) -> PrimFunc:
        rng = self.rng
        for name in ("X", "Y", "Z"):
            shape = tuple(rng.choice((1, 2, 3, 4, 4, 5, 6)) for _ in range(rng.choice((1, 2, 2))))
            self.decls[name] = BufferDecl(name, rng.choice(SHAPES) if name == "X" else shape, self.dtype)
        params = dict(self.decls)
        parts = [self.assumption()] if rng.random() < 0.5 else []
        if rng.random() < 0.6:
            parts.append(self.with_local())
        else:
            parts += [self.stage() for _ in range(rng.randint(1, 3))]
        return PrimFunc("padded", tuple(params), params, seq(parts))

    def arguments(self, seed: int) -> dict[str, NDArray]:
        """Small whole numbers, and some that are odd; padding holds what the function assumes."""
        rng = np.random.default_rng([self.seed, seed])
        low = -np.inf if is_float(self.dtype) else float(np.iinfo(self.dtype).min)
        odd = np.array([np.nan, np.inf, low, -0.0] if is_float(self.dtype) else [low, 1, 0]).astype(self.dtype)
        made: dict[str, NDArray] = {}
        for name in ("X", "Y", "Z"):
            shape = numbers(self.decls[name].shape, {})
            plain = rng.integers(-4, 5, shape).astype(self.dtype)
            made[name] = np.where(rng.random(shape) < 0.12, rng.choice(odd, shape), plain)
        if self.assumed is not None:
            axes, test, value = self.assumed
            grid: NDArray = np.indices(numbers(self.decls["X"].shape, {}), np.int64)
            holds = test.evaluate({str(a): grid[n] for n, a in enumerate(axes)})
            made["X"][~np.broadcast_to(np.asarray(holds, bool), made["X"].shape)] = value
        return made

    # -- terms

    def axis(self, extent: int | None = None) -> Term:
        self.count += 1
        return t.var(f"{self.rng.choice('ijkpq')}{self.count}x", extent or self.rng.choice((1, 2, 3, 4, 4, 5, 6)))

    def cells(self, name: str) -> list[Term]:
        return [self.axis(n) for n in numbers(self.decls[name].shape, {})]

    def number(self) -> Term:
        odd = (-np.inf, -0.0) if is_float(self.dtype) else (int(np.iinfo(self.dtype).min),)
        return t.const(self.rng.choice((0, 0, 1, 2, -1, *odd)), self.dtype)

    def neutral(self, op: str) -> Term:
        info = None if is_float(self.dtype) else np.iinfo(self.dtype)
        low, high = (-np.inf, np.inf) if info is None else (int(info.min), int(info.max))
        return t.const({"sum": 0, "prod": 1, "max": low, "min": high}[op], self.dtype)

    def coordinate(self, extent: int, axes: Sequence[Term]) -> Term:
        rng = self.rng
        if not axes:
            return t.index_const(rng.randrange(extent))
        a, b, c = rng.choice(axes), rng.choice(axes), rng.randint(0, 3)
        term = rng.choice(
            (a, a, a, a + c, c * a + b, a // 2, extent - 1 - a, a % 3, 4 * a + b, a - b, (a + 1) % extent)
        )
        low, high = bounds(term)
        return term if low is not None and high is not None and low >= 0 and high < extent else term % extent

    def index(self, name: str, axes: Sequence[Term]) -> list[Term]:
        return [self.coordinate(n, axes) for n in numbers(self.decls[name].shape, {})]

    def load(self, axes: Sequence[Term]) -> Term:
        name = self.rng.choice(self.read)
        return t.load(name, self.index(name, axes), self.dtype)

    def condition(self, axes: Sequence[Term], depth: int = 0) -> Term:
        rng = self.rng
        if depth < 2 and rng.random() < 0.25:
            join = rng.choice((t.logical_and, t.logical_or))
            return join(self.condition(axes, depth + 1), self.condition(axes, depth + 1))
        if rng.random() < 0.08:
            return t.compare(rng.choice(("lt", "eq", "ne")), self.load(axes), self.number())
        a, b = rng.choice(axes), rng.choice(axes)
        term = rng.choice((a, a, 4 * a + b, a + b, 3 * b + a, a % 2, a // 2))
        bound = rng.randint(0, 6) if term is a or rng.random() < 0.3 else rng.choice((10, 14, 13, 7, 5))
        return t.compare(rng.choice(("lt", "lt", "lt", "le", "eq", "ne")), term, t.index_const(bound))

    def value(self, axes: Sequence[Term], depth: int = 0) -> Term:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.15:
            return self.number()
        if kind < 0.6 or depth > 1:
            return self.load(axes)
        if kind < 0.75 and axes:
            return t.where(self.condition(axes), self.value(axes, depth + 1), self.value(axes, depth + 1))
        op = rng.choice(("sum", "sum", "prod", "max", "min"))
        return self.combined(op, self.value(axes, depth + 1), self.value(axes, depth + 1))

    def combined(self, op: str, x: Term, y: Term) -> Term:
        a, b = (y, x) if self.rng.random() < 0.3 else (x, y)
        return {"sum": lambda: a + b, "prod": lambda: a * b}.get(op, lambda: t.binary(COMBINE[op], a, b))()

    # -- statements

    def nest(self, axes: Sequence[Term], body: Stmt, reduce: bool = False) -> Stmt:
        for axis in reversed(axes):
            body = For(axis, body, reduce=reduce)
        return body

    def store(self, axes: Sequence[Term]) -> Stmt:
        rng, name = self.rng, self.rng.choice(self.written)
        index = self.index(name, axes)
        value, own = self.value(axes), t.load(name, index, self.dtype)
        if rng.random() < 0.25:
            value = self.combined(rng.choice(("sum", "prod", "max", "min")), own, value)
        return Store(name, tuple(index), own if rng.random() < 0.05 else value)

    def body(self, axes: Sequence[Term], depth: int = 0) -> Stmt:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.45 or depth > 2:
            return self.store(axes)
        if kind < 0.7:
            orelse = self.body(axes, depth + 1) if kind > 0.62 else None
            return If(self.condition(axes), self.body(axes, depth + 1), orelse)
        if kind < 0.78:
            test = self.condition(axes)
            other = rng.choice((test, t.logical_not(test)))
            return seq([If(test, self.store(axes)), If(other, self.store(axes))])
        if kind < 0.9:
            return seq([self.body(axes, depth + 1), self.body(axes, depth + 1)])
        axis = self.axis()
        return For(axis, self.body([*axes, axis], depth + 1))

    def stage(self) -> Stmt:
        kinds = (self.free, self.scan, self.through_alias, self.whole, self.whole)
        kind = self.rng.random()
        if kind < 0.3:
            axes = [self.axis() for _ in range(self.rng.randint(1, 3))]
            return self.nest(axes, self.body(axes))
        return self.reduction(self.rng.choice(self.read)) if kind < 0.65 else self.rng.choice(kinds)()

    def whole(self) -> Stmt:
        """Every cell of a buffer, perhaps but for some, which then may get a number."""
        rng, name = self.rng, self.rng.choice(self.written)
        axes = self.cells(name)
        stmt: Stmt = Store(name, tuple(axes), self.value(axes))
        if rng.random() < 0.5:
            stmt = If(
                self.condition(axes), stmt, Store(name, tuple(axes), self.number()) if rng.random() < 0.5 else None
            )
        return self.nest(axes, stmt)

    def reduction(self, source: str, test: tuple[Sequence[Term], Term] | None = None) -> Stmt:
        """A buffer reduced to cells of another; `test` guards it, over other axes."""
        rng, out, op = self.rng, self.rng.choice(self.written), self.rng.choice(("sum", "sum", "prod", "max", "min"))
        axes = self.cells(source)
        index = tuple(self.index(out, axes[:1] if rng.random() < 0.7 else []))
        start = self.neutral(op) if rng.random() < 0.7 else self.number()
        own, cell = t.load(out, index, self.dtype), t.load(source, axes, self.dtype)
        step: Stmt = Store(out, index, self.combined(op, own, cell))
        if test is not None:
            step = If(substitute(test[1], dict(zip(test[0], axes, strict=True))), step)
        elif rng.random() < 0.75:
            step = If(self.condition(axes), step)
        marked = rng.random() < 0.7
        inside = {n for i in index for n in nodes_of("var", i)} <= {axes[0]} and len(axes) > 1
        if inside and rng.random() < 0.6:
            return For(axes[0], seq([Store(out, index, start), self.nest(axes[1:], step, marked)]))
        first = self.cells(out)
        return seq(
            [self.nest(first, Store(out, tuple(first), start)), self.nest(axes, step, marked and len(axes) == 1)]
        )

    def scan(self) -> Stmt:
        name = self.rng.choice(self.written)
        axes = self.cells(name)
        before = t.load(name, [axes[0] - 1, *axes[1:]], self.dtype)
        value = self.combined(self.rng.choice(("sum", "prod", "max")), before, self.value(axes))
        return self.nest(axes, If(t.compare("le", t.index_const(1), axes[0]), Store(name, tuple(axes), value)))

    def free(self) -> Stmt:
        name = self.rng.choice(("Y", "Z"))
        axes = self.cells(name)
        return self.nest(axes, If(self.condition(axes), Store(name, tuple(axes), new_hole(self.dtype, axes))))

    def through_alias(self) -> Stmt:
        name = self.rng.choice(self.written)
        total = int(np.prod(numbers(self.decls[name].shape, {})))
        axis = self.axis(total)
        alias = f"flat{self.count}"
        value = self.value([axis])
        own = t.load(alias, [axis], self.dtype)
        store = Store(alias, (axis,), value if self.rng.random() < 0.6 else self.combined("sum", own, value))
        return Alias(BufferDecl(alias, (total,), self.dtype), name, For(axis, store))

    def assumption(self) -> Stmt:
        """The padding of X holds a number, where that may be."""
        axes = self.cells("X")
        test, value = self.condition(axes), self.neutral(self.rng.choice(("sum", "prod", "max")))
        if nodes_of("load", test):
            return seq([])
        self.assumed = axes, test, t.const_value(value)
        held = t.compare("eq", t.load("X", axes, self.dtype), value)
        return self.nest(axes, Assume(t.logical_or(test, held)))

    def with_local(self) -> Stmt:
        """A local buffer, written whole, or in part and then read there alone."""
        rng = self.rng
        decl = BufferDecl("L", rng.choice(((4, 4), (14,), (3, 4), (6,))), self.dtype)
        self.decls["L"] = decl
        axes = self.cells("L")
        fill: Stmt = Store("L", tuple(axes), self.value(axes))
        if rng.random() < 0.6:
            self.read += ["L", "L"]
            self.written += ["L", "L"]
            parts = [self.nest(axes, fill), *(self.stage() for _ in range(rng.randint(1, 3)))]
        else:
            test = self.condition(axes)
            parts = [self.nest(axes, If(test, fill))]
            if not nodes_of("load", test):
                parts += [self.reduction("L", (axes, test)) for _ in range(rng.randint(1, 2))]
        return Alloc(decl, seq(parts))
