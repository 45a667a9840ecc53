"""Random formulas: loads at affine, guarded, tabled and data-dependent indices, all types, reductions, symbolic sizes.

Arithmetic is exact (small multiples of a quarter, wrapping integers), so that values can be compared bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, DATA, NDArray, is_float
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.tensors.tensor import Program, Tensor, compute, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.holes import new_hole
from eqsat.ir.terms.shape import Dim, Shape
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term

BATCH = t.sym("N", lower=0)
WIDTH = t.sym("M", lower=1)


class Case:
    """The choices of one random program."""

    def __init__(self, seed: int) -> None:
        self.r = Random(seed)
        self.symbolic = self.r.random() < 0.25
        dtype = self.r.choice([*DATA, "float32", "int32"])
        self.inputs = [input("x", self.shape(), dtype)]
        if self.r.random() < 0.6:
            self.inputs.append(input("y", self.shape(), dtype))
        self.inputs.append(input("at", (self.r.randint(1, 4),), "int32"))
        if self.symbolic:
            self.inputs.append(input("sizes", (BATCH, WIDTH), "uint8"))

    def extent(self) -> Dim:
        r = self.r
        if self.symbolic and r.random() < 0.4:
            return r.choice([BATCH, WIDTH, WIDTH * 2, BATCH + 1])
        return r.choice([0, 1, 1, 2, 3, 4, 5]) if r.random() < 0.3 else r.randint(1, 5)

    def shape(self, most: int = 3) -> Shape:
        return tuple(self.extent() for _ in range(self.r.randint(0, most)))

    def program(self) -> Program:
        made: list[Tensor] = []
        for _ in range(self.r.randint(1, 3)):
            x = self.tensor([*self.inputs[:2], *made])
            made.append(x)
        outputs = {f"out{n}": x for n, x in enumerate(made) if n + 1 == len(made) or self.r.random() < 0.3}
        return Program(self.inputs, outputs)

    def tensor(self, pool: Sequence[Tensor]) -> Tensor:
        r = self.r
        reduce = self.shape(2) if r.random() < 0.4 else ()
        combiner = r.choice(["sum", "prod", "max", "min"])

        def body(*axes: Term) -> Term:
            value = self.value(axes, pool, r.randint(0, 3))
            if value.dtype == BOOL and reduce and combiner in ("sum", "prod"):
                return t.cast_to(value, "int8")
            if is_float(value.dtype) and reduce and combiner == "prod":
                return t.where(t.compare("lt", value, 0), t.const(0.5, value.dtype), t.const(2.0, value.dtype))
            return value

        return compute(self.shape(), body, reduce, combiner, ordered=r.random() < 0.1)

    # -- data ----------------------------------------------------------------------------------------------------------

    def value(self, axes: Sequence[Term], pool: Sequence[Tensor], depth: int) -> Term:
        r = self.r
        if depth == 0 or r.random() < 0.15:
            return self.leaf(axes, pool)
        a = self.value(axes, pool, depth - 1)
        kind = r.randint(0, 9)
        if kind == 0:
            return self.cast(a, r.choice([d for d in DATA if d != a.dtype]))
        b = self.like(self.value(axes, pool, depth - 1), a.dtype)
        if kind == 1:
            return t.where(self.condition(axes, pool, depth - 1), a, b)
        if kind == 2:
            return t.compare(r.choice(["lt", "le", "eq", "ne"]), a, b)
        if kind == 3:
            return self.unary(a)
        return self.binary(a, b)

    def leaf(self, axes: Sequence[Term], pool: Sequence[Tensor]) -> Term:
        r = self.r
        x = r.choice(list(pool))
        kind = r.randint(0, 11)
        if kind == 0 and x.dtype != BOOL:
            return self.cast(t.cast_to(self.index(axes), "int64"), x.dtype)
        if kind == 1:
            return self.constant(x.dtype)
        if kind == 2 and axes and r.random() < 0.3:
            return new_hole(x.dtype, axes[:1])
        return self.load(x, axes)

    def constant(self, dtype: str) -> Term:
        if dtype == BOOL:
            return t.const(bool(self.r.randint(0, 1)), BOOL)
        if is_float(dtype):
            return t.const(self.r.choice([0.0, -0.0, 1.0, -2.5, 3.0]), dtype)
        info = np.iinfo(dtype)
        values = [0, 1, 2, 3, int(info.max), int(info.min), *([-1, -3] if info.min < 0 else [])]
        return t.const(self.r.choice(values), dtype)

    def load(self, x: Tensor, axes: Sequence[Term]) -> Term:
        """A load that stays inside: by its bounds, by a modulus, or under a guard."""
        r = self.r
        index: list[Term] = []
        guards: list[Term] = []
        for d in x.shape:
            extent = t.as_index(d)
            same = [a for a in axes if a.args[0] is extent]
            if same and r.random() < 0.6:
                index.append(r.choice(same))
                continue
            i = self.index(axes)
            low, room = Bounds().of(i)[0], Bounds().of(extent - 1 - i)[0]
            if low is not None and low >= 0 and room is not None and room >= 0 and r.random() < 0.8:
                index.append(i)
            elif (Bounds().of(extent)[0] or 0) > 0 and r.random() < 0.4:
                index.append(i % extent)
            else:
                index.append(i)
                guards += [t.compare("le", 0, i), t.compare("lt", i, extent)]
        value = x[tuple(index)]
        if not guards:
            return value
        r.shuffle(guards)
        other = self.constant(x.dtype)
        guard = t.logical_and(*guards)
        if r.random() < 0.2:
            return t.where(t.logical_not(guard), other, value)
        return t.where(guard, value if r.random() < 0.7 else self.unary(value), other)

    def cast(self, a: Term, dtype: str) -> Term:
        return t.cast_to(a, dtype)

    def like(self, a: Term, dtype: str) -> Term:
        return a if a.dtype == dtype else self.cast(a, dtype)

    def unary(self, a: Term) -> Term:
        if a.dtype == BOOL:
            return t.logical_not(a)
        if is_float(a.dtype):
            name = self.r.choice(["neg", "abs", "floor", "ceil", "round", "trunc"])
            return t.unary(name, a)
        return t.unary(self.r.choice(["neg", "abs", "bitnot"]), a)

    def binary(self, a: Term, b: Term) -> Term:
        r = self.r
        if a.dtype == BOOL:
            return t.binary(r.choice(["bitand", "bitor", "bitxor", "min", "max"]), a, b)
        if is_float(a.dtype):
            small = t.binary("max", t.const(-4.0, a.dtype), t.binary("min", t.const(4.0, a.dtype), b))
            # onnxruntime's Where loses the sign of a zero, which a division would show.
            small = t.where(t.compare("eq", small, 0), t.const(1.0, a.dtype), small)
            return t.binary(r.choice(["add", "sub", "mul", "min", "max", "floordiv", "mod"]), a, small)
        op = r.choice(
            ["add", "sub", "mul", "min", "max", "floordiv", "mod", "truncdiv", "truncmod", "bitand", "bitor", "bitxor",
             "shl", "shr", "pow"]
        )  # fmt: skip
        if op in ("floordiv", "mod", "truncdiv", "truncmod"):
            zero = t.compare("eq", b, 0)
            return t.where(zero, a, t.binary(op, a, b))
        if op in ("shl", "shr"):
            bits = 8 * np.dtype(a.dtype).itemsize
            return t.binary(op, a, t.binary("mod", b, t.const(bits, a.dtype)))
        if op == "pow":
            return t.binary(op, a, t.binary("mod", b, t.const(r.choice([3, 7]), a.dtype)))
        return t.binary(op, a, b)

    # -- positions -----------------------------------------------------------------------------------------------------

    def index(self, axes: Sequence[Term]) -> Term:
        r = self.r
        total = t.index_const(r.randint(-1, 2))
        for a in axes:
            if r.random() < 0.6:
                total = total + a * r.choice([1, 1, 1, 2, -1, 3])
        kind = r.randint(0, 9)
        if kind == 0:
            return total // r.randint(2, 3)
        if kind == 1:
            return total % r.randint(1, 4)
        if kind == 2:
            return t.binary(r.choice(["min", "max"]), total, r.randint(0, 3))
        if kind == 3:
            table = np.asarray([r.randint(0, 4) for _ in range(r.randint(1, 5))])
            return table_load(table, total % table.size)
        if kind == 4:
            at = next(x for x in self.inputs if x.name == "at")
            (count,) = at.shape
            return t.cast_to(at[(total % count,)], t.INDEX)
        if kind == 5:
            return t.where(self.position(axes), total, total + 1)
        if kind == 6 and self.symbolic:
            return total + r.choice([BATCH, WIDTH - 1])
        return total

    def position(self, axes: Sequence[Term]) -> Term:
        total = self.r.choice([t.index_const(1), *axes])
        return t.compare(self.r.choice(["lt", "le", "eq", "ne"]), total, self.r.randint(0, 3))

    def condition(self, axes: Sequence[Term], pool: Sequence[Tensor], depth: int) -> Term:
        kind = self.r.randint(0, 3)
        if kind < 2:
            return self.position(axes)
        a = self.value(axes, pool, depth)
        test = a if a.dtype == BOOL else t.compare("lt", a, self.constant(a.dtype))
        if kind == 2:
            return test
        return self.r.choice([t.logical_and, t.logical_or])(self.position(axes), test)


def feeds_of(program: Program, seed: int) -> dict[str, NDArray]:
    """Arrays for the inputs: small numbers, the ends of integer types, a few special floats."""
    random = np.random.default_rng(seed)
    sizes = {BATCH: int(random.integers(0, 4)), WIDTH: int(random.integers(1, 4))}
    feeds: dict[str, NDArray] = {}
    for x in program.inputs:
        shape = tuple(d if isinstance(d, int) else _value(d, sizes) for d in x.shape)
        if x.name == "at":
            feeds[x.name] = random.integers(-2, 5, shape).astype(x.dtype)
        elif x.dtype == BOOL:
            feeds[x.name] = random.integers(0, 2, shape).astype(bool)
        elif is_float(x.dtype):
            others = [np.nan, np.inf, -np.inf, -0.0]
            feeds[x.name] = special(random.integers(-12, 13, shape) / 4, random, others, x.dtype)
        else:
            info = np.iinfo(x.dtype)
            low = -5 if info.min < 0 else 0
            feeds[x.name] = special(random.integers(low, 9, shape), random, [info.min, info.max], x.dtype)
    return feeds


def special(values: Any, random: np.random.Generator, others: Sequence[Any], dtype: str) -> NDArray:
    result = np.asarray(values).astype(dtype)
    for value in others:
        result[random.random(result.shape) < 0.06] = value
    return result


def _value(d: Any, sizes: dict[Term, int]) -> int:
    return int(evaluate_masked([d], {s: np.asarray(v) for s, v in sizes.items()})[0][0])


def program_of(seed: int) -> Program:
    """A random program of formulas."""
    return Case(seed).program()
