"""Random small functions over buffers: stages of stores, branches, reductions, assumptions, holes and data-dependent
accesses, with inputs that fit their assumptions."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alloc, Assume, BufferDecl, For, If, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.ir.terms.term import Term

DTYPES = ("float16", "float32", "int8", "int32", "float32", "int32")
EXTENTS = (1, 2, 3, 4, 4, 4)
ROWS, COLUMNS = 4, 4


@dataclass
class RandomFunction:
    """A function, and what makes arrays fit its assumptions."""

    func: PrimFunc
    fixes: list[Callable[[dict[str, NDArray]], None]] = field(
        default_factory=list[Callable[[dict[str, NDArray]], None]]
    )

    def fix(self, arrays: dict[str, NDArray]) -> None:
        """Let the assumptions hold."""
        for change in self.fixes:
            change(arrays)


class _Maker:
    """The choices of one function. A and C are inputs that stay, B and D are written, L is local."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dtype = self.rng.choice(DTYPES)
        self.float = self.dtype.startswith("float")
        self.fixes: list[Callable[[dict[str, NDArray]], None]] = []
        self.local = self.rng.random() < 0.3
        self.targets = ["B", "D"] + ["L"] * 2 * self.local
        self.written: list[str] = []
        self.names = 0

    def axis(self, extent: int) -> Term:
        self.names += 1
        names = "ijk" if self.rng.random() < 0.7 else "pqr"
        return t.var(f"{names[self.names % 3]}", extent) if self.rng.random() < 0.8 else t.ax(self.names, extent)

    def axes(self) -> tuple[Term, Term]:
        while True:
            pair = self.axis(ROWS), self.axis(COLUMNS)
            if str(pair[0]) != str(pair[1]):
                return pair

    def constant(self) -> Term:
        small = [0, 1, 2, -1, 0, 0]
        odd = [0.0, -0.0, float("inf"), float("-inf"), 1.5] if self.float else [-128, 127, 3]
        return t.const(self.rng.choice([*small, *odd]), self.dtype)

    def condition(self, a: Term, b: Term) -> Term:
        """A predicate over two axes."""
        rng, flat = self.rng, COLUMNS * a + b
        n = rng.randrange(0, 17)
        options = [
            flat < n,
            t.index_const(n) <= flat,
            t.compare("eq", a, rng.randrange(5)),
            b < rng.randrange(5),
            t.index_const(rng.randrange(4)) <= a,
            t.logical_and(t.compare("eq", a, 3), t.index_const(rng.randrange(4)) <= b),
            t.compare("eq", b % 2, 0),
            a < b,
            a + b < 5,
            t.logical_or(a < 2, b < rng.randrange(4)),
            t.logical_not(t.logical_and(t.compare("eq", a, 3), t.index_const(2) <= b)),
            flat < 14,
            flat < 14,
        ]
        return rng.choice(options)

    def load(self, a: Term, b: Term) -> Term:
        rng = self.rng
        name = rng.choice(["A", "C", *self.written, *self.written])
        index = rng.choice(
            [
                (a, b),
                (a, b),
                (a, b),
                (t.linear(ROWS - 1, [(-1, a)]), b),
                (b, a),
                (a, t.index_const(0)),
                ((a + 1) % ROWS, b),
            ]
        )
        if rng.random() < 0.06 and not self.float:
            index = (t.cast_to(t.load("A", index, self.dtype), "index") % ROWS, index[1])
        return t.load(name, index, self.dtype)

    def value(self, a: Term, b: Term, depth: int = 2) -> Term:
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            return self.constant() if rng.random() < 0.35 else self.load(a, b)
        x, y = self.value(a, b, depth - 1), self.value(a, b, depth - 1)
        op = rng.choice(["add", "mul", "max", "min", "where", "sub"])
        if op == "where":
            return t.where(self.condition(a, b), x, y)
        return t.binary(op, x, y)

    def place(self, a: Term, b: Term) -> tuple[Term, ...]:
        return self.rng.choice(
            [(a, b), (a, b), (a, b), (a, b), (b, a), (t.linear(ROWS - 1, [(-1, a)]), b), (a, t.index_const(1))]
        )

    def store(self, a: Term, b: Term) -> Store:
        name = self.rng.choice(self.targets)
        stored = Store(name, self.place(a, b), self.value(a, b))
        if name not in self.written and name != "L":
            self.written.append(name)
        return stored

    def body(self, a: Term, b: Term) -> Stmt:
        rng = self.rng
        kind = rng.random()
        if kind < 0.3:
            return self.store(a, b)
        if kind < 0.55:
            return If(self.condition(a, b), self.store(a, b))
        if kind < 0.65:
            return If(self.condition(a, b), self.store(a, b), self.store(a, b))
        if kind < 0.72:
            return If(t.compare("lt", self.load(a, b), self.constant()), self.store(a, b))
        if kind < 0.8:
            return seq([self.store(a, b), self.store(a, b)])
        test = self.condition(a, b)
        return seq(
            [
                If(test, self.store(a, b)),
                If(rng.choice([test, t.logical_not(test), self.condition(a, b)]), self.store(a, b)),
            ]
        )

    def nest(self) -> Stmt:
        a, b = self.axes()
        return For(a, For(b, self.body(a, b)))

    def reduction(self) -> Stmt:
        """B[a, 0] starts with a number and takes A[a, b], perhaps under a branch, perhaps where it is neutral."""
        a, b = self.axes()
        rng = self.rng
        op, start = rng.choice([("add", 0), ("add", 0), ("max", None), ("min", None), ("mul", 1), ("add", 1)])
        lowest = float("-inf") if self.float else np.iinfo(self.dtype).min
        highest = float("inf") if self.float else np.iinfo(self.dtype).max
        first = {"max": lowest, "min": highest}.get(op, start)
        name = rng.choice(["B", "D"])
        target = t.load(name, (a, t.index_const(0)), self.dtype)
        source = t.load(rng.choice(["A", "A", "C"]), (a, b), self.dtype)
        update: Stmt = Store(name, target.args, t.binary(op, target, source))
        if rng.random() < 0.8:
            update = If(rng.choice([COLUMNS * a + b < 14, self.condition(a, b)]), update)
        init = [Store(name, target.args, t.const(first, self.dtype))] if rng.random() < 0.85 else []
        if name not in self.written:
            self.written.append(name)
        return For(a, seq([*init, For(b, update)]))

    def assumption(self) -> Stmt:
        """The padding of A holds a number."""
        a, b = self.axes()
        rng = self.rng
        test = rng.choice([COLUMNS * a + b < 14, COLUMNS * a + b < 14, self.condition(a, b)])
        lowest = float("-inf") if self.float else np.iinfo(self.dtype).min
        value = t.const(rng.choice([0, 0, 0, 1, lowest]), self.dtype)

        def change(arrays: dict[str, NDArray]) -> None:
            for p in range(ROWS):
                for q in range(COLUMNS):
                    if not bool(
                        test.evaluate({str(a): p, str(b): q}) if not isinstance(test.payload, int) else test.payload
                    ):
                        arrays["A"][p, q] = t.const_value(value)

        self.fixes.append(change)
        claim = t.compare("eq", t.load("A", (a, b), self.dtype), value)
        return For(a, For(b, Assume(t.logical_or(test, claim))))

    def freed(self) -> Stmt:
        """Some cells are freed."""
        a, b = self.axes()
        name = self.rng.choice(["B", "D"])
        test = self.rng.choice([t.index_const(14) <= COLUMNS * a + b, self.condition(a, b)])
        return For(a, For(b, If(test, Store(name, (a, b), new_hole(self.dtype, [a, b])))))

    def made(self) -> RandomFunction:
        rng = self.rng
        parts: list[Stmt] = [self.assumption()] if rng.random() < 0.6 else []
        for _ in range(rng.randrange(1, 4)):
            parts.append(self.reduction() if rng.random() < 0.35 else self.nest())
        if rng.random() < 0.25:
            parts.append(self.freed())
        body = seq(parts)
        if self.local:
            body = Alloc(BufferDecl("L", (ROWS, COLUMNS), self.dtype), body)
        decls = {name: BufferDecl(name, (ROWS, COLUMNS), self.dtype) for name in "ABCD"}
        return RandomFunction(PrimFunc("f", tuple(decls), decls, body), self.fixes)


def random_function(seed: int) -> RandomFunction:
    """A function by its number."""
    return _Maker(seed).made()
