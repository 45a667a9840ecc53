"""Statements: what is refused, how they print, and what they mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat.ir import term as t
from eqsat.ir.errors import EqsatError, EvaluationError
from eqsat.ir.stmt import Alloc, Assume, BufferDecl, For, If, PrimFunc, Stmt, Store, seq
from eqsat.ir.stmt_run import run_primfunc
from eqsat.ir.term import Term, load

P, Q = t.ax(0, 4), t.ax(1, 3)
DECLS = {"x": BufferDecl("x", (4,), "int32"), "y": BufferDecl("y", (4, 3), "int32")}


def func(body: Stmt) -> PrimFunc:
    return PrimFunc("f", ("x", "y"), DECLS, body)


def x_at(i: Term) -> Term:
    return load("x", [i], "int32")


REFUSED: dict[str, Callable[[], Stmt]] = {
    "'z' is not declared": lambda: Store("z", (t.index_const(0),), t.const(1, "int32")),
    "2 axes, the access has 1": lambda: For(P, Store("y", (P,), x_at(P))),
    "holds int32, the access is float32": lambda: For(P, Store("x", (P,), t.const(1.0, "float32"))),
    "used outside of its loop": lambda: For(P, Store("y", (P, Q), x_at(P))),
    "does not name a new loop": lambda: For(P, For(P, Store("x", (P,), x_at(P)))),
    "declared twice": lambda: Alloc(BufferDecl("x", (1,), "int32"), seq([])),
    "not bool": lambda: For(P, If(x_at(P), seq([]))),
    "not the name of a buffer": lambda: For(P, Store("x", (P,), load(0, [P], "int32"))),
    "has no value": lambda: For(P, Store("x", (t.sym("N") + P,), x_at(P))),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSED)
def test_ill_formed_functions_are_refused(message: str) -> None:
    with pytest.raises(EqsatError, match=message):
        func(REFUSED[message]())


def test_loops_conditions_and_locals_have_their_meaning() -> None:
    acc = BufferDecl("acc", (1,), "int32")
    zero = t.index_const(0)
    held = load("acc", [zero], "int32")
    inner = For(Q, If(Q < P, Store("acc", (zero,), held + x_at(P)), Store("y", (P, Q), held)))
    body = For(P, Alloc(acc, seq([Assume(t.compare("le", 0, P)), Store("acc", (zero,), t.const(1, "int32")), inner])))
    x, y = np.arange(4, dtype="int32") * 10, np.full((4, 3), -1, "int32")
    run_primfunc(func(body), {"x": x, "y": y})
    assert y.tolist() == [[1, 1, 1], [-1, 11, 11], [-1, -1, 41], [-1, -1, -1]]
    assert str(func(body)).splitlines()[1:5] == [
        "  for i0 in 4:", "    alloc acc: int32[1]", "    assume 0 <= i0", "    acc[0] = int32(1)",
    ]  # fmt: skip


@pytest.mark.parametrize("body", [Store("x", (P + 1,), x_at(P)), Store("x", (P,), x_at(P - 1)), Assume(P < 3)])
def test_bad_accesses_and_broken_promises_are_found(body: Stmt) -> None:
    arrays = {"x": np.zeros(4, "int32"), "y": np.zeros((4, 3), "int32")}
    with pytest.raises(EvaluationError):
        run_primfunc(func(For(P, body)), arrays)
    with pytest.raises(EvaluationError, match="expected"):
        run_primfunc(func(For(P, body)), arrays | {"x": np.zeros(5, "int32")})
