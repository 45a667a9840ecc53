"""RFC 39's rules of accesses, in functions: ranks, lanes, addresses, views of other types."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import BufferDecl, Store, seq
from eqsat.ir.terms import term as t


def run(text: str, **arrays: NDArray) -> None:
    """By the interpreter and in C, which are equal."""
    func = PrimFunc.parse(text)
    compiled = {n: a.copy() for n, a in arrays.items()}
    run_primfunc(func, arrays, track=True)
    eq.compile(func)(compiled)
    for name, array in arrays.items():
        np.testing.assert_array_equal(compiled[name], array)


def test_the_lanes_of_an_access_are_those_of_its_index_or_its_element() -> None:  # feature: H2 H7
    """f32[ramp4] is f32x4, and f32x4[0] is f32x4: a view of 16 floats, whose element 1 is floats 4 to 7."""
    f = eq.primfunc("f")
    x = f.param("x", (16,), "float32")
    view = f.alias("view", x, (4,), "float32x4")
    assert x[t.ramp(0, 1, 4)].lanes == 4 and view[0].lanes == 4 and x[0].lanes == 1 and x[0:8:2].lanes == 4
    x[0:4] = view[1] + x[8:16:2]
    x_memory = np.arange(16, dtype="float32")
    run(str(f.build()), x=x_memory)
    assert x_memory[:4].tolist() == [12, 15, 18, 21]


def test_an_index_counts_elements_of_the_buffer() -> None:  # feature: H3 H7
    """f32x4[3] lies at byte 48; a view of two lanes from element 5 on begins at byte 40."""
    text = """func f(x: float32x4[4], y: float32[4])
  alias pairs: float32x2[3] = x + 5
  y[ramp(0, 1, 4)] = x[3]
  y[ramp(2, 1, 2)] = pairs[1]"""
    y = np.zeros(4, "float32")
    run(text, x=np.arange(16, dtype="float32").reshape(4, 4), y=y)
    assert y.tolist() == [12, 13, 12, 13]


REFUSED = {
    "A has 2 axes, the access has 1": "A[0] = float32(0.0)",  # feature: H1
    "index ramp.0, 1, 4. of A is a vector .only the last": "A[ramp(0, 1, 4), 0] = B[ramp(0, 1, 4)]",  # feature: H4
    "ramp.0, 1, 2. of V is a vector, and so are its elements": "B[ramp(0, 1, 4)] = V[ramp(0, 1, 2)]",  # feature: H5
    "has 4 lanes, B.0. has 1": "B[ramp(0, 1, 4)] = B[0]",  # feature: H6
    "has 1 lanes, V.0. has 4": "B[0] = V[0]",  # feature: H6
    "has 4 lanes, float32.1.0. has 1": "V[0] = float32(1.0)",  # feature: H6
    "needs 80 bytes, B has 64": "alias five: float32x4[5] = B",  # feature: H9
    "is no statement": "C[0] = float32(1.0)",  # feature: H11
}


@pytest.mark.parametrize("message", REFUSED)
def test_an_access_that_breaks_a_rule_is_refused(message: str) -> None:
    text = f"func f(A: float32[4, 4], B: float32[16], V: float32x4[4])\n  {REFUSED[message]}"
    with pytest.raises(EqsatError, match=message):
        PrimFunc.parse(text)


def test_bool_buffers_hold_bools() -> None:  # feature: H13
    text = "func f(x: bool[4], y: bool[4])\n  for i in 4:\n    y[i] = not x[i] and x[3 - i]"
    y = np.zeros(4, bool)
    run(text, x=np.array([True, False, False, True]), y=y)
    assert y.dtype == bool and y.tolist() == [False, False, False, False]
    alias = "func f(x: bool[4])\n  alias raw: uint8[4] = x\n  raw[2] = uint8(1)"
    x = np.zeros(4, bool)
    run(alias, x=x)
    assert x.tolist() == [False, False, True, False]


def test_parameters_are_declared_by_buffers_too() -> None:  # feature: B12 D11
    """The predicate of the padding and what it holds stay with the declaration, in text, JSON and the header."""
    b = eq.Buffer("b", (14,), "float32").transform_layout("i -> i//4, i%4", pad_value=0)
    cell = (t.index_const(3), t.index_const(3))
    func = PrimFunc("f", ("b",), {"b": b}, Store("b", cell, t.const(1.0, "float32")))  # pyright: ignore
    decl = func.buffer_map["b"]
    (step,) = decl.transforms
    assert step.logical_shape == (14,) and str(step.index_map) == "i -> i // 4, i % 4"
    assert PrimFunc.from_json(func.to_json()) == func and PrimFunc.parse(str(func)) == func
    padding = decl.as_buffer().padding
    assert padding is not None and str(padding.by_digits(["io", "ii"])) == "io == 3 and 2 <= ii"
    assert 'layout b [14] by "i -> i // 4, i % 4"' in eq.compile(func).header
    with pytest.raises(EqsatError, match="shows the memory of b"):
        PrimFunc("f", ("v",), {"v": b.view_layout("i, j -> 4*i + j")}, seq([]))  # pyright: ignore
    with pytest.raises(EqsatError, match="is int"):
        PrimFunc("f", ("v",), {"v": 3}, seq([]))  # pyright: ignore
    assert BufferDecl.from_buffer(decl.as_buffer()) == decl


def test_a_number_is_stored_in_each_lane() -> None:
    """By the builder, as numpy does; texts say so, and the term is itself in JSON and in kernels."""
    f = eq.primfunc("f")
    x, v, flags = f.param("x", (8,), "int16"), f.param("v", (2,), "float32x4"), f.param("flags", (1,), "boolx2")
    with f.loop("i", 2) as i:
        x[4 * i : 4 * i + 4] = 3
        v[i] = eq.cast(i, "float32") + 0.5
        flags[0] = x[i] > 2
        x[0:2] = x[7]
    func = f.build()
    text = str(func)
    assert "x[ramp(4*i, 1, 4)] = broadcast(int16(3), 4)" in text and "= broadcast(x[7], 2)" in text
    assert PrimFunc.parse(text) == func == PrimFunc.from_json(func.to_json())
    arrays = {"x": np.full(8, 9, "int16"), "v": np.zeros((2, 4), "float32"), "flags": np.zeros((1, 2), "bool")}
    run(text, **arrays)
    assert arrays["x"].tolist() == [3] * 8 and arrays["v"].tolist() == [[0.5] * 4, [1.5] * 4]
    assert arrays["flags"].tolist() == [[True, True]]


def test_a_hole_in_each_lane_is_one_hole() -> None:
    value = "where(ramp(0, 1, 4) < 2, broadcast(hole(1, 'int8'), 4), x[ramp(0, 1, 4)])"
    text = f"func f(x: int8[4])\n  x[ramp(0, 1, 4)] = {value}"
    freed = run_primfunc(PrimFunc.parse(text), {"x": np.zeros(4, "int8")}, track=True)
    assert freed["x"].tolist() == [True, True, False, False]
