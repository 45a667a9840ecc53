"""Statements: what is refused, how they print, and what they mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat.ir.errors import BackendError, EqsatError, EvaluationError
from eqsat.ir.statements.primfunc import PrimFunc, require_rank
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, BufferDecl, For, If, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load

P, Q = t.ax(0, 4), t.ax(1, 3)
DECLS = {"x": BufferDecl("x", (4,), "int32"), "y": BufferDecl("y", (4, 3), "int32")}


def func(body: Stmt) -> PrimFunc:
    return PrimFunc("f", ("x", "y"), DECLS, body)


def x_at(i: Term) -> Term:
    return load("x", [i], "int32")


ZERO = t.index_const(0)
LOCAL = BufferDecl("local", (2,), "int32")


def local_at(i: Term) -> Term:
    return load("local", [i], "int32")


REFUSED: dict[str, Callable[[], Stmt]] = {
    "'z' is not declared": lambda: Store("z", (t.index_const(0),), t.const(1, "int32")),
    "2 axes, the access has 1": lambda: For(P, Store("y", (P,), x_at(P))),
    "holds int32, the access is float32": lambda: For(P, Store("x", (P,), t.const(1.0, "float32"))),
    "used outside of its loop": lambda: For(P, Store("y", (P, Q), x_at(P))),
    "does not name a new loop": lambda: For(P, For(P, Store("x", (P,), x_at(P)))),
    "declared twice": lambda: Alloc(BufferDecl("x", (1,), "int32"), seq([])),
    "not bool": lambda: For(P, If(x_at(P), seq([]))),
    "not the name of a buffer": lambda: For(P, Store("x", (P,), load(0, [P], "int32"))),
    "buffer 'local' is not declared": lambda: seq(
        [Store("local", (ZERO,), local_at(ZERO)), Alloc(LOCAL, seq([]))]
    ),  # feature: H11
    "'local' is not declared": lambda: seq(
        [Alloc(LOCAL, seq([])), Store("x", (ZERO,), local_at(ZERO))]
    ),  # feature: H11
    "alias flat: int32.12. of buffer 'w', which is not declared": lambda: Alias(
        BufferDecl("flat", (12,), "int32"), "w", seq([])
    ),  # feature: H11
    "needs 52 bytes, y has 48": lambda: Alias(BufferDecl("flat", (13,), "int32"), "y", seq([])),  # feature: H9
    "from 2 needs 24 bytes, x has 16": lambda: Alias(BufferDecl("flat", (1,), "int64"), "x", seq([]), 2),
    "from -1 needs": lambda: Alias(BufferDecl("flat", (1,), "int8"), "x", seq([]), -1),
    "buffer 'y' is declared twice": lambda: Alias(BufferDecl("y", (12,), "int32"), "y", seq([])),
    "2 lanes, x.i0. has 1": lambda: For(P, Store("x", (t.ramp(P, 1, 2),), x_at(P))),  # feature: H6
    "1 lanes, x.ramp.i0, 1, 2.. has 2": lambda: For(P, Store("x", (P,), x_at(t.ramp(P, 1, 2)))),  # feature: H6
    "ramp.i0, 1, 2. of y is a vector": lambda: For(P, Store(
        "y", (t.ramp(P, 1, 2), ZERO), x_at(t.ramp(P, 1, 2)))),  # feature: H4
    "mixes vectors of 2, 3": lambda: For(P, Store(
        "x", (t.ramp(P, 1, 3),), x_at(t.ramp(P, 1, 2)) + x_at(t.ramp(P, 1, 3)))),
    "is a vector, not bool": lambda: For(P, If(x_at(t.ramp(P, 1, 2)) < 3, seq([]))),
    "extent that is no number": lambda: Alloc(BufferDecl("a", (-1,), "int32"), seq([])),
    "holds 'float31'": lambda: Alloc(BufferDecl("a", (1,), "float31"), seq([])),
    "extent i0 of i5 depends on i0": lambda: For(P, For(t.ax(5, P), seq([]))),
    "a buffer is called 'a b'": lambda: Alloc(BufferDecl("a b", (1,), "int8"), seq([])),
    "strides for rank 2": lambda: Alloc(BufferDecl("a", (2, 2), "int8", strides=(1,)), seq([])),
    "may lie before its memory": lambda: Alloc(BufferDecl("a", (2,), "int8", strides=(-1,)), seq([])),
    "alias flat: int32.N. from 0 needs 4.N bytes": lambda: Alias(
        BufferDecl("flat", (t.sym("N"),), "int32"), "x", seq([])),
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


def test_parameters_are_declared_under_their_names() -> None:  # feature: H11
    with pytest.raises(EqsatError, match="'x' is declared as buffer 'y'"):
        PrimFunc("f", ("x",), {"x": DECLS["y"]}, seq([]))
    with pytest.raises(EqsatError, match="are not the declared buffers"):
        PrimFunc("f", ("x", "y"), {"x": DECLS["x"]}, seq([]))


def test_the_interface_stays_and_the_body_uses_an_alias() -> None:  # feature: B12 H7
    """fn(X: (2, 3)) whose body is flat: the parameter keeps its declaration, X_flat(6) is the same memory."""
    decls = {"X": BufferDecl("X", (2, 3), "float32"), "Y": BufferDecl("Y", (2, 3), "float32")}
    i, j = t.ax(0, 6), t.ax(0, 2)
    copy = For(i, Store("Y_flat", (i,), load("X_flat", [i], "float32") + load("X_flat", [i], "float32")))
    last = For(j, Store("tail", (j,), t.const(7, "int32")))
    body: Stmt = seq([copy, Alias(BufferDecl("tail", (2,), "int32"), "Y", last, offset=4)])
    for name in "XY":
        body = Alias(BufferDecl(f"{name}_flat", (6,), "float32"), name, body)
    f = PrimFunc("f", ("X", "Y"), decls, body)
    assert str(f).splitlines()[:2] == [
        "func f(X: float32[2, 3], Y: float32[2, 3])", "  alias Y_flat: float32[6] = Y",
    ]  # fmt: skip
    assert "  alias tail: int32[2] = Y + 4" in str(f).splitlines()
    x, y = np.arange(6, dtype="float32").reshape(2, 3), np.zeros((2, 3), "float32")
    run_primfunc(f, {"X": x, "Y": y})
    assert y.reshape(-1)[:4].tolist() == [0, 2, 4, 6] and y.reshape(-1)[4:].view("int32").tolist() == [7, 7]
    with pytest.raises(EvaluationError, match="not dense"):
        run_primfunc(f, {"X": x.T.copy().T, "Y": y})


def test_a_local_holds_nothing_of_use_before_it_is_written() -> None:
    body = For(P, Alloc(BufferDecl("a", (1,), "float32"), Store("x", (P,), load("a", [ZERO], "float32"))))
    x = np.zeros(4, "float32")
    run_primfunc(PrimFunc("f", ("x",), {"x": BufferDecl("x", (4,), "float32")}, body), {"x": x})
    assert np.isnan(x).all()


def test_a_target_names_the_buffer_of_a_rank_that_it_lacks() -> None:  # feature: B9
    f = func(seq([]))
    require_rank(f, (1, 2), "opencl")
    with pytest.raises(BackendError, match=r"target c: buffer y: int32\[4, 3\] has 2 physical axes"):
        require_rank(f, (1,), "c")
    with pytest.raises(BackendError, match="cube"):
        require_rank(func(Alloc(BufferDecl("cube", (2, 2, 2), "int8"), seq([]))), (1, 2), "opencl")


@pytest.mark.parametrize("body", [Store("x", (P + 1,), x_at(P)), Store("x", (P,), x_at(P - 1)), Assume(P < 3)])
def test_bad_accesses_and_broken_promises_are_found(body: Stmt) -> None:
    arrays = {"x": np.zeros(4, "int32"), "y": np.zeros((4, 3), "int32")}
    with pytest.raises(EvaluationError):
        run_primfunc(func(For(P, body)), arrays)
    with pytest.raises(EvaluationError, match="expected"):
        run_primfunc(func(For(P, body)), arrays | {"x": np.zeros(5, "int32")})
