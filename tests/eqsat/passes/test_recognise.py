"""Functions that are layout changes, as programs of one view, and back."""

from __future__ import annotations

import numpy as np
import pytest
from small_functions import check_same, function, loops, odd_array, put, when

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import If
from eqsat.ir.terms import term as t
from eqsat.passes.recognise import as_function, as_view

F32 = "float32"


def zero(dtype: str = F32) -> t.Term:
    return t.const(0, dtype)


def packed(channels: int) -> PrimFunc:
    """NCHW to NCHW4c: the padding after the channels is zero."""
    c, h, w = eq.axis("c", channels), eq.axis("h", 2), eq.axis("w", 3)
    blocks = -(-channels // 4)
    main = loops([c, h, w], put("y", [0, c // 4, h, w, c % 4], t.load("x", [0, c, h, w], F32)))
    co, ci = eq.axis("co", blocks), eq.axis("ci", 4)
    pad = loops([co, ci, h, w], when(t.index_const(channels) <= 4 * co + ci, put("y", [0, co, h, w, ci], zero())))
    return function({"x": ((1, channels, 2, 3), F32), "y": ((1, blocks, 2, 3, 4), F32)}, main, pad)


def check_view(func: PrimFunc, seed: int = 0) -> eq.Program:
    program = as_view(func)
    rng = np.random.default_rng(seed)
    (x,) = program.inputs
    given = odd_array(rng, func.buffer_map[x.name].shape, x.dtype)  # type: ignore[arg-type]
    (name,) = program.outputs
    out: NDArray = odd_array(rng, func.buffer_map[name].shape, x.dtype)  # type: ignore[arg-type]
    run_primfunc(func, {x.name: given, name: out})
    found = eq.evaluate(program, {x.name: given})
    assert found.tobytes() == out.tobytes()
    check_same(func, as_function(program))
    return program


# feature: G10
@pytest.mark.parametrize("channels", [4, 6, 1])
def test_a_packed_layout_is_recognised(channels: int) -> None:
    program = check_view(packed(channels))
    x = eq.input("x", (1, channels, 2, 3), F32)
    wanted = x.layout_transform("NCHW", "NCHW4c", pad_value=0) if channels % 4 else x.layout_transform("NCHW", "NCHW4c")
    assert eq.verify(eq.Program([x], {"y": wanted}), program).verdict == "proved"


# feature: G10
def test_many_moves_are_recognised() -> None:
    i, j = eq.axis("i", 4), eq.axis("j", 3)
    moves = {
        "transpose": loops([i, j], put("y", [j, i], t.load("x", [i, j], "int8"))),
        "flip": loops([j, i], put("y", [j, i], t.load("x", [3 - i, 2 - j], "int8"))),
        "roll": loops([j, i], put("y", [j, i], t.load("x", [(i + 1) % 4, j], "int8"))),
        "two halves": loops(
            [j, i], If(i < 2, put("y", [j, i], t.load("x", [i, j], "int8")), put("y", [j, i], t.const(7, "int8")))
        ),
        "overwritten": loops([j, i], put("y", [j, i], zero("int8")), put("y", [j, i], t.load("x", [i, j], "int8"))),
    }
    for body in moves.values():
        check_view(function({"x": ((4, 3), "int8"), "y": ((3, 4), "int8")}, body))


# feature: G10
def test_what_is_no_view() -> None:
    i = eq.axis("i", 4)
    buffers = {"x": ((4,), F32), "y": ((4,), F32)}
    a = t.load("x", [i], F32)
    with pytest.raises(ScheduleError, match=r"y\[3\] is not known") as error:
        as_view(function(buffers, loops([i], when(i < 3, put("y", [i], a)))))
    assert error.value.witness == {"buffer": "y", "cell": (3,)}
    for value in (a + a, t.load("y", [i], F32)):
        with pytest.raises(ScheduleError, match="is not known to hold"):
            as_view(function(buffers, loops([i], put("y", [i], value))))
    with pytest.raises(ScheduleError, match="of which"):
        as_view(function(buffers, loops([i], put("y", [i], a), put("x", [i], a))))
    with pytest.raises(ScheduleError, match=r"y\[3\] is not known to come from inside of x") as error:
        as_view(function(buffers, loops([i], put("y", [i], t.load("x", [i + 1], F32)))))
    assert error.value.witness == {"buffer": "y", "cell": (3,)}
    x = eq.input("x", (4,), F32)
    with pytest.raises(ScheduleError, match="more than one view"):
        as_function(eq.Program([x], {"y": x.flip(0).relu()}))


# feature: G10
def test_views_of_scalars_and_of_unknown_sizes() -> None:
    i = eq.axis("i", 2)
    spread = function({"x": ((), "int8"), "y": ((2,), "int8")}, loops([i], put("y", [i], t.load("x", [], "int8"))))
    assert eq.evaluate(as_view(spread), {"x": np.int8(3)}).tolist() == [3, 3]
    turned = PrimFunc.parse("func f(x: int8[N], y: int8[N])\n  symbol N\n  for i in N:\n    y[i] = x[N - i - 1]")
    assert eq.evaluate(as_view(turned), {"x": np.arange(3, dtype="int8")}).tolist() == [2, 1, 0]
    assert str(as_function(eq.input("x", (3,), "int8").flip(0), "turn")).startswith(
        "func turn(x: int8[3], out: int8[3])"
    )


def test_a_function_that_copies_vectors_is_a_view() -> None:
    func = eq.PrimFunc.parse(
        "func f(x: int8[16], y: int8[16])\n  for j in 4:\n    y[ramp(4*j, 1, 4)] = x[ramp(12 - 4*j, 1, 4)]"
    )
    x = np.arange(16, dtype="int8")
    assert eq.evaluate(eq.as_view(func), {"x": x}).tolist() == x.reshape(4, 4)[::-1].ravel().tolist()


@pytest.mark.parametrize("shape", ["0", "2, 0"])
def test_a_function_of_no_cells_is_a_view(shape: str) -> None:  # feature: G10
    rank = shape.count(",") + 1
    at = ", ".join(f"i{n}" for n in range(rank))
    loops_ = "".join("  " * (n + 1) + f"for i{n} in {e}:\n" for n, e in enumerate(shape.split(", ")))
    text = f"func f(x: int8[{shape}], y: int8[{shape}])\n{loops_}{'  ' * (rank + 1)}y[{at}] = x[{at}]"
    program = as_view(eq.PrimFunc.parse(text))
    assert program.outputs["y"].shape == tuple(map(int, shape.split(", ")))
    assert as_function(program).buffer_map["y"].shape == program.outputs["y"].shape
