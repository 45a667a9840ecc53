"""The tracking interpreter: unknown values and forbidden reads are found where they matter, and only there."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, BufferDecl, For, If, Stmt, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.ir.terms.term import Term, load

ZERO, ONE = t.index_const(0), t.index_const(1)
LOCAL = BufferDecl("a", (4,), "int32")
P = t.ax(0, 4)


def at(name: str, *index: Term, dtype: str = "int32") -> Term:
    return load(name, index, dtype)


def hole(dtype: str = "int32") -> Term:
    return new_hole(dtype, ())


def run(body: Stmt, dtype: str = "int32") -> tuple[list[int], list[bool]]:
    func = PrimFunc("f", ("x",), {"x": BufferDecl("x", (4,), dtype)}, body)
    x = np.arange(4).astype(dtype)
    freed = run_primfunc(func, {"x": x}, track=True)
    return x.tolist(), freed["x"].tolist()


def with_local(body: Stmt) -> Stmt:
    return Alloc(LOCAL, body)


UNKNOWN: dict[str, Stmt] = {
    "holds an unknown value": with_local(Store("x", (ZERO,), at("a", ZERO))),
    "x.1.: holds": seq([Store("x", (ZERO,), hole()), Store("x", (ONE,), at("x", ZERO))]),
    "x.2.: holds": Store("x", (t.index_const(2),), hole() + 1),
    "condition a.0. < int32.3.": with_local(If(at("a", ZERO) < 3, seq([]))),
    "assume a.0. < int32.3.": with_local(Assume(at("a", ZERO) < 3)),
    "index of x": with_local(Store("x", (ZERO,), at("x", t.cast_to(at("a", ZERO), "index") * 0 + t.cast_to(
        at("a", ONE), "index") % 4))),
    "index of a store": with_local(Store("x", (t.cast_to(at("a", ZERO), "index") % 4,), t.const(0, "int32"))),
    "where.a.0. < int32.1.": with_local(If(
        t.compare("eq", t.where(at("a", ZERO) < 1, at("x", ZERO), at("x", ONE)), 0), seq([]))),
    "holds an unknown": with_local(seq([Store("a", (ZERO,), t.const(1, "int32")), Alias(
        BufferDecl("bytes", (16,), "int8"), "a", Store("x", (ZERO,), t.cast_to(at("bytes", t.index_const(4),
        dtype="int8"), "int32")))])),
}  # fmt: skip


@pytest.mark.parametrize("message", UNKNOWN)
def test_an_unknown_value_must_not_reach(message: str) -> None:  # feature: E2
    with pytest.raises(EvaluationError, match=message):
        run(UNKNOWN[message])


def test_what_is_not_needed_may_be_unknown() -> None:  # feature: E2
    """A branch not taken, 0 times an integer, a cell written before it is read, half of an `or`."""
    known = t.const(5, "int32")
    body = with_local(
        seq([
            Store("x", (ZERO,), t.where(P.args[0] < 3, at("a", ZERO), known)),
            Store("x", (ONE,), at("a", ZERO) * 0),
            Store("a", (ONE,), known),
            Store("x", (t.index_const(2),), at("a", ONE)),
            If(t.logical_or(at("x", ONE) < 9, at("a", ZERO) < 1), Store("x", (t.index_const(3),), known)),
        ])
    )  # fmt: skip
    assert run(body) == ([5, 0, 5, 5], [False] * 4)
    with pytest.raises(EvaluationError, match="holds an unknown value"):
        run(
            Alloc(BufferDecl("a", (1,), "float32"), Store("x", (ZERO,), at("a", ZERO, dtype="float32") * 0.0)),
            "float32",
        )


def test_a_hole_frees_its_cell_until_it_is_written_again() -> None:  # feature: E2
    body = seq([Store("x", (ZERO,), hole()), Store("x", (ONE,), hole()), Store("x", (ZERO,), t.const(7, "int32"))])
    values, freed = run(body)
    assert values[0] == 7 and freed == [False, True, False, False]
    guarded = For(P, Store("x", (P,), t.where(P < 2, at("x", P) + 1, hole())))
    values, freed = run(guarded)
    assert values[:2] == [1, 2] and freed == [False, False, True, True]


def padded(pad: object, body: Stmt, x: NDArray) -> None:
    made = eq.Buffer("b", (14,), "int32").transform_layout("i -> i//4, i%4", pad_value=pad)
    decls = {"b": BufferDecl.from_buffer(made), "x": BufferDecl("x", (4,), "int32")}
    run_primfunc(PrimFunc("f", ("b", "x"), decls, body), {"b": np.arange(16, dtype="int32").reshape(4, 4), "x": x},
                 track=True)  # fmt: skip


def test_padding_without_a_value_is_not_accessed() -> None:  # feature: D4
    """`b[3, ii]` is padding for some ii only."""
    row = t.index_const(3)
    read = For(P, Store("x", (P,), at("b", row, P)))
    x = np.zeros(4, "int32")
    with pytest.raises(EvaluationError, match=r"load b\[3, i0\]: the cell is padding of b.*at \{'i0': 2\}"):
        padded(None, read, x)
    with pytest.raises(EvaluationError, match=r"store to b: the cell is padding"):
        padded(None, For(P, Store("b", (row, P), t.const(0, "int32"))), x)
    flat = Alias(BufferDecl("flat", (16,), "int32"), "b", Store("x", (ZERO,), at("flat", t.index_const(15))))
    with pytest.raises(EvaluationError, match="padding"):
        padded(None, flat, x)
    padded(None, For(P, Store("x", (P,), t.where(P < 2, at("b", row, P), t.const(-1, "int32")))), x)
    assert x.tolist() == [12, 13, -1, -1]
    padded(0, read, x)
    assert x.tolist() == [12, 13, 14, 15]
    with pytest.raises(EvaluationError, match=r"x\[2\]: holds an unknown value"):
        padded(eq.UNDEF, read, x)


def test_a_function_may_do_more_where_a_hole_was_stored() -> None:  # feature: E2
    decls = {"x": BufferDecl("x", (4,), "float32")}
    one = t.const(1.0, "float32")
    before = PrimFunc("f", ("x",), decls, For(P, Store("x", (P,), t.where(P < 2, one, hole("float32")))))
    all_ones = PrimFunc("f", ("x",), decls, For(P, Store("x", (P,), one)))
    half = PrimFunc("f", ("x",), decls, For(t.ax(0, 2), Store("x", (t.ax(0, 2),), one)))
    x = {"x": np.array([np.nan, -0.0, 0.0, 4.0], "float32")}
    assert same_meaning(before, all_ones, x) and same_meaning(before, half, x)
    assert same_meaning(half, before, x).difference == "x[2] is 0.0 before, and may be anything after"
    assert same_meaning(half, all_ones, x).difference == "x[2] is 0.0 before, and is 1.0 after"
    negative = PrimFunc("f", ("x",), decls, Store("x", (t.index_const(2),), t.const(-0.0, "float32")))
    nothing = PrimFunc("f", ("x",), decls, seq([]))
    assert not same_meaning(nothing, negative, x) and same_meaning(nothing, nothing, x)
    assert np.isnan(x["x"][0]) and x["x"][3] == 4.0
    bad = PrimFunc("f", ("x",), decls, Store("x", (t.index_const(4),), one))
    assert "outside of" in same_meaning(nothing, bad, x).difference


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": [1, 2]}, "x is list, not a numpy array"),
        ({"x": np.zeros(2, ">i4")}, "x is in another byte order"),
        ({"x": np.broadcast_to(np.int32(1), (2,))}, "x is written, and read-only"),
        ({"x": np.zeros(2, "int32"), "z": np.zeros(2, "int32")}, "there is no parameter 'z'"),
        ({"x": np.zeros(2, "int64")}, r"x is int64\(2,\), expected int32"),
        ({}, "x is nothing"),
    ],
)
def test_arrays_that_cannot_be_run_on_are_said(arrays: dict[str, NDArray], message: str) -> None:
    func = eq.PrimFunc.parse("func f(x: int32[2])\n  alias y: int32[2] = x\n  y[0] = x[1]")
    with pytest.raises(EvaluationError, match=message):
        eq.run_primfunc(func, arrays)
