"""Functions of several stages as one formula: what is taken as one computes what the function does."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, Store, seq
from eqsat.ir.terms import term as t
from eqsat.passes.formula import as_formula

ORDERED = [
    "for i in 4:\n    for j in 4:\n      y[i, j] = x[i, j]\n      y[j, i] = x[i, j] + int8(1)",
    "for i in 4:\n    for j in 4:\n      y[i, j] = x[i, j]\n      if i < j:\n        y[j, i] = int8(0)",
    "alloc t: int8[4, 4]\n  for i in 4:\n    for j in 4:\n      t[i, j] = x[i, j]\n      y[i, j] = t[j, i]",
    "for i in 4:\n    for j in 4:\n      y[i, j] = x[i, j]\n  for i in 4:\n    y[i, i] = int8(0)",
    "for i in 4:\n    for j in 3:\n      y[i, j] = x[i, j]\n    y[i, 3] = int8(0)",
]


@pytest.mark.parametrize("body", ORDERED)
def test_what_depends_on_the_order_of_iterations_is_no_formula(body: str) -> None:
    with pytest.raises(eq.ScheduleError, match="as_formula"):
        as_formula(eq.PrimFunc.parse(f"func f(x: int8[4, 4], y: int8[4, 4])\n  {body}"))


class Stages:
    """Random stages over buffers of one shape: values of one another, turned and mirrored, under branches."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)
        rank = self.draw.randint(1, 2)
        self.shape = [self.draw.randint(1, 4)] * rank
        self.axes = ["i", "j"][:rank]
        self.known = ["x"]

    def index(self, straight: float) -> str:
        axes = self.axes[:: 1 if self.draw.random() < straight else -1]
        odd = [self.draw.random() < 0.2 and straight < 0.8 for _ in axes]
        return ", ".join(f"{n - 1} - {a}" if o else a for a, n, o in zip(axes, self.shape, odd, strict=True))

    def value(self, depth: int = 2) -> str:
        if not depth or self.draw.random() < 0.2:
            load = f"{self.draw.choice(self.known)}[{self.index(0.7)}]"
            return self.draw.choice([load, load, f"int8({self.draw.randint(-3, 3)})"])
        a, b = self.value(depth - 1), self.value(depth - 1)
        return self.draw.choice([f"({a} + {b})", f"({a} * {b})", f"max({a}, {b})"])

    def nest(self, written: list[str]) -> list[str]:
        order = sorted(self.axes, key=lambda _: self.draw.random())
        some = [self.shape[0] - (self.draw.random() < 0.15) for _ in order]  # the first cells, or all
        lines = ["  " * (k + 1) + f"for {a} in {n}:" for k, (a, n) in enumerate(zip(order, some, strict=True))]
        pad = "  " * (len(order) + 1)
        for name in written:
            store = f"{name}[{self.index(0.85)}] = "
            test = self.draw.choice([f"i < {self.draw.randint(0, 3)}", f"x[{', '.join(self.axes)}] < int8(0)", "", ""])
            lines += [f"{pad}if {test}:", f"{pad}  {store}{self.value()}"] if test else [f"{pad}{store}{self.value()}"]
            lines += [f"{pad}else:", f"{pad}  {store}{self.value()}"] if test and self.draw.random() < 0.6 else []
        self.known = list(dict.fromkeys([*self.known, *written]))
        return lines

    def function(self) -> eq.PrimFunc:
        declared = f"int8{self.shape}"
        lines = [f"func f(x: {declared}, y: {declared})", *(f"  alloc {n}: {declared}" for n in "tu")]
        for _ in range(self.draw.randint(1, 4)):
            lines += self.nest([self.draw.choice("tuy") for _ in range(self.draw.randint(1, 2))])
        return eq.PrimFunc.parse("\n".join([*lines, *self.nest(["y"])]))


# feature: G17
@pytest.mark.parametrize("seeds", [range(200), pytest.param(range(200, 10_000), marks=pytest.mark.slow)], ids=len)
def test_random_stages(seeds: range) -> None:
    found = 0
    for seed in seeds:
        stages = Stages(seed)
        func = stages.function()
        try:
            program = as_formula(func)
        except eq.ScheduleError:
            continue
        x = np.random.default_rng(seed).integers(-5, 6, stages.shape).astype("int8")
        y = np.full(stages.shape, 77, "int8")
        run_primfunc(func, {"x": x.copy(), "y": y}, track=True)
        np.testing.assert_array_equal(eq.evaluate(program, {"x": x} if program.inputs else {}), y, str(func))
        found += 1
    assert found > len(seeds) / 5


def test_a_buffer_of_the_same_name_is_another_one() -> None:
    i = eq.axis("i", 4)
    first = Alloc(BufferDecl("t", (4,), "int8"), For(i, Store("t", (i,), t.load("x", [i], "int8"))))
    second = Alloc(BufferDecl("t", (4,), "int8"), For(i, Store("y", (i,), t.load("t", [i], "int8"))))
    decls = {name: BufferDecl(name, (4,), "int8") for name in "xy"}
    with pytest.raises(eq.ScheduleError, match="is not known to hold anything"):
        as_formula(eq.PrimFunc("f", ("x", "y"), decls, seq([first, second])))
