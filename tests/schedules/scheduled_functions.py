"""The functions of the RFCs' examples, and how schedules of them are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.stmt import BufferDecl, For, If, Stmt, Store, seq
from eqsat.ir.statements.text import format_stmt
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.scheduling.schedule import Schedule


def number(value: Any, dtype: str = "int32") -> Term:
    return t.const(value, dtype)


def at(buffer: str, *index: Any, dtype: str = "int32") -> Term:
    """A load."""
    return t.load(buffer, [t.as_index(i) for i in index], dtype)


def function(body: Stmt, dtype: str = "int32", **shapes: tuple[Any, ...]) -> PrimFunc:
    """A function over parameters of these shapes."""
    decls = {name: BufferDecl(name, shape, dtype) for name, shape in shapes.items()}
    return PrimFunc("func", tuple(decls), decls, body)


def doubled(extent: int = 14, dtype: str = "int32") -> PrimFunc:
    """B[i] = 2 * A[i]."""
    i = t.var("i", extent)
    body = For(i, Store("B", (i,), number(2, dtype) * at("A", i, dtype=dtype)))
    return function(body, dtype, A=(extent,), B=(extent,))


def total(extent: int = 14) -> PrimFunc:
    """B[0] = the sum of A."""
    i = t.var("i", extent)
    add = For(i, Store("B", (t.index_const(0),), at("B", 0) + at("A", i)), reduce=True)
    return function(seq([Store("B", (t.index_const(0),), number(0)), add]), A=(extent,), B=(1,))


def convolution(first: Stmt | None = None) -> PrimFunc:
    """A sum over a window of three, with an initialisation in the same loop."""
    i, f = t.var("i", 14), t.var("f", 3)
    init = first or Store("B", (i,), number(0))
    add = Store("B", (i,), at("B", i) + at("F", f) * at("A", i + f))
    return function(For(i, seq([init, For(f, add, reduce=True)])), A=(16,), F=(3,), B=(14,))


def running_sum() -> PrimFunc:
    """The convolution that begins each element with the one before."""
    i = t.var("i", 14)
    before = If(t.compare("eq", i, 0), Store("B", (i,), number(0)), Store("B", (i,), at("B", i - 1)))
    return convolution(before)


def arrays(func: PrimFunc, seed: int = 0) -> dict[str, NDArray]:
    """Random arguments; what a function writes is prefilled, too."""
    generator = np.random.default_rng(seed)
    found: dict[str, NDArray] = {}
    for name, decl in func.buffer_map.items():
        shape = tuple(int(n) for n in decl.shape if isinstance(n, int))
        found[name] = generator.integers(-9, 10, shape).astype(decl.dtype)
    return found


def body_text(s: Schedule) -> str:
    """The body of the function as it is now, without notes and the layouts of buffers."""
    lines = [line.partition(' note "')[0] for line in format_stmt(s.func.body)]
    return "\n".join(line for line in lines if not line.lstrip().startswith("layout "))


def require_same(before: PrimFunc, s: Schedule, whole: bool = True) -> None:
    """The schedule keeps the meaning, and its trace gives the same function again, where `before` was its beginning."""
    for seed in range(3):
        given = arrays(before, seed)
        for name, decl in before.buffer_map.items():
            for step in decl.padding_steps:
                assert step.value is None or step.value.op == "hole", f"padding of {name} has a value"
        assert same_meaning(before, s.func, given)
    if not whole:
        return
    trace = type(s.trace).from_json(s.trace.to_json())
    again = Schedule.replay(before, trace)
    assert str(again.trace) == str(s.trace)
    if "hole" not in str(s.func):  # each replay has holes of its own
        assert again.func == s.func


def mapped(array: NDArray, index_map: str, pads: Mapping[tuple[int, ...], Any] | None = None) -> NDArray:
    """An argument in another layout; `pads` gives the padding cells."""
    m = IndexMap.parse(index_map)
    made = np.zeros(tuple(int(n) for n in m.map_shape(array.shape)), array.dtype)  # type: ignore[arg-type]
    made[...] = 99
    for cell in np.ndindex(*array.shape):
        made[tuple(int(i) for i in m.map_indices(cell))] = array[cell]
    for cell, value in (pads or {}).items():
        made[cell] = value
    return made


def numbers(values: Sequence[int]) -> NDArray:
    """An int32 array."""
    return np.array(values, "int32")
