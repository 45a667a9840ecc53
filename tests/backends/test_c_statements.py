"""Statements that no program lowers to, but schedules make: aliases of memory, and buffers of several axes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqsat.backends.c.cc import load_library
from eqsat.backends.c.runner import Runner
from eqsat.backends.c.unit import print_unit
from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.lowered import Lowered
from eqsat.ir.errors import BackendError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, Seq, Stmt, Store
from eqsat.ir.tensors.tensor import as_program, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import ax, load

M, J = ax(0, 6), ax(1, 3)


def with_body(body: Stmt, shape: tuple[int, ...] = (6,)) -> Lowered:
    """A program of one function v1 = f(v0) over 6 uint32 with another body."""
    low = lower(as_program(input("x", (6,), "uint32") + 1))
    (old,) = low.steps
    assert isinstance(old, PrimFunc)
    decls = {n: BufferDecl(n, shape, "uint32") for n in old.params}
    func = PrimFunc(old.name, old.params, decls, body)
    return replace(low, steps=(func,), moves={})


X, Y = "v0", "v2"
HALVES = BufferDecl("halves", (10,), "uint16")
TAIL = BufferDecl("tail", (3,), "uint32")
COPY = For(M, Store(Y, (M,), load(X, [M], "uint32")))
ALIASES: dict[str, Stmt] = {
    "read": Alias(HALVES, X, For(M, Store(Y, (M,), t.cast_to(load("halves", [M + 1], "uint16"), "uint32"))), 2),
    "written": Seq((COPY, Alias(TAIL, Y, For(J, Store("tail", (J,), load(X, [J], "uint32"))), 3))),
    "twice": Alias(BufferDecl("all", (6,), "uint32"), Y, Seq((COPY, Alias(TAIL, "all", For(
        J, Store("tail", (J,), load("tail", [J], "uint32") + load("all", [J], "uint32"))), 3)))),
    "local": Alloc(BufferDecl("acc", (6,), "uint32"), Alias(BufferDecl("same", (6,), "uint32"), "acc", Seq((
        For(M, Store("same", (M,), load(X, [M], "uint32"))), For(M, Store(Y, (M,), load("acc", [M], "uint32"))))))),
    "unused": Alias(HALVES, X, COPY),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIASES)
def test_an_alias_is_a_pointer_into_the_same_memory(name: str) -> None:
    low = with_body(ALIASES[name])
    (func,) = low.steps
    assert isinstance(func, PrimFunc)
    x = np.arange(7, 13, dtype="uint32") * 70001
    want = np.zeros(6, "uint32")
    run_primfunc(func, {X: x.copy(), Y: want})
    unit = print_unit(low)
    out = np.zeros(6, "uint32")
    Runner(low, unit, load_library(unit.source, ("-Werror",))).run({"x": x}, {"out": out})
    np.testing.assert_array_equal(out, want)
    assert want.any()


def test_buffers_of_two_axes_are_refused_by_name() -> None:
    body = For(M, Store(Y, (t.index_const(0), M), load(X, [t.index_const(0), M], "uint32")))
    with pytest.raises(BackendError, match=r"target c: buffer v0: uint32\[1, 6\] has 2 physical axes"):
        print_unit(with_body(body, (1, 6)))
