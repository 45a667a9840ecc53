"""Programs that call functions over buffers: one meaning everywhere, and layouts that change with all callers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from program_functions import program_function

import eqsat as eq
import eqsat.calls
from eqsat.calls import held_before
from eqsat.checking.verdict import CheckFailure
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Opaque, Tensor, as_program
from eqsat.passes.split import split_function

PRODUCT = eq.PrimFunc.parse("""\
func product(A: float32[3, 4], B: float32[4, 5], C: float32[3, 5])
  for i in 3:
    for z in 5:
      C[i, z] = float32(0.0)
    for k in 4:
      for j in 5:
        C[i, j] = C[i, j] + A[i, k]*B[k, j]""")  # in this order, which no formula has
A, B = eq.input("a", (3, 4), "float32"), eq.input("b", (5, 4), "float32")
FEEDS: dict[str, NDArray] = {
    "a": np.arange(12, dtype="float32").reshape(3, 4),
    "b": np.arange(20, dtype="float32").reshape(5, 4) - 7,
}


def product(free: Sequence[str] = ()) -> eq.Tensor:
    return eq.call(PRODUCT, {"A": A, "B": B.permute_dims((1, 0))}, free)["C"]


def everywhere(program: eq.Tensor | eq.Program) -> NDArray:
    """The value of a program: evaluated, optimised, compiled, and compiled when optimised, which are the same."""
    found: NDArray = eq.evaluate(program, FEEDS)
    best = eq.optimize(program)
    for other in (eq.evaluate(best.program, FEEDS), eq.compile(program)(FEEDS), eq.compile(best.program)(FEEDS)):
        np.testing.assert_array_equal(other, found)
    return found


# feature: C2
def test_a_call_is_what_the_function_does() -> None:
    y = product().relu() + 1
    np.testing.assert_array_equal(everywhere(y), np.maximum(FEEDS["a"] @ FEEDS["b"].T, 0) + 1)
    assert eq.optimize(y).layout_ops == 1  # the interface is fixed


# feature: C9, E17
def test_parts_of_a_function_are_called_one_after_the_other() -> None:
    whole = eq.PrimFunc.parse("""\
func both(x: int8[6], y: int8[6])
  alloc t: int8[6]
  for i in 6:
    t[i] = x[i] + x[i]
  for j in 6:
    y[j] = t[5 - j]""")
    first, second = split_function(whole, 1)
    x = eq.input("x", (6,), "int8")
    y = eq.call(second, eq.call(first, {"x": x}) | {"y": eq.constant(np.zeros(6, "int8"))})["y"]
    value = {"x": np.arange(6, dtype="int8")}
    np.testing.assert_array_equal(eq.evaluate(y, value), eq.evaluate(eq.call(whole, {"x": x})["y"], value))


# feature: B12
def test_a_program_with_calls_is_one_function() -> None:
    """The functions that it calls stand in it, over aliases of its buffers; what they change is a copy."""
    twice = eq.PrimFunc.parse("""\
func twice(C: float32[15], n: float32[1])
  alloc old: float32[1]
  for i in 15:
    old[0] = C[i]
    C[i] = C[i] + old[0]
  n[0] = C[0]""")
    flat = product().reshape((15,))
    made = eq.call(twice, {"C": flat})
    y = eq.Program([A, B], {"y": made["C"] + flat, "n": made["n"]})
    whole = program_function(y)
    assert str(whole.func).count("alias") >= 6 and not whole.constants
    given = FEEDS | {"y": np.zeros(15, "float32"), "n": np.zeros(1, "float32")}
    for run in (partial(run_primfunc, whole.func), eq.compile(whole.func)):
        result = {name: array.copy() for name, array in given.items()}
        run(result)
        for name, wanted in evaluate_outputs(y, FEEDS).items():
            np.testing.assert_array_equal(result[name], wanted)


# feature: C9
def test_a_layout_changes_in_the_function_and_in_all_calls_of_it() -> None:
    free = ["B", "C"]
    y = product(free) + eq.call(PRODUCT, {"A": A.abs(), "B": -B.permute_dims((1, 0))}, free)["C"]
    expected = everywhere(y)
    turned = eq.transform_calls(y, "product", "B", "i, j -> j, i")
    assert eq.optimize(y).layout_ops == 1 and eq.optimize(turned).layout_ops == 0
    np.testing.assert_array_equal(everywhere(turned), expected)
    packed = eq.transform_calls(turned, "product", "C", "i, j -> i, j//4, j%4", 0)
    np.testing.assert_array_equal(everywhere(packed), expected)
    assert {n.outputs[0][0] for n in packed.nodes() if getattr(n, "op", "") == "call:product"} == {(3, 2, 4)}
    with pytest.raises(eq.EqsatError, match="layout of B is fixed"):
        eq.transform_calls(y + product(), "product", "B", "i, j -> j, i")
    with pytest.raises(eq.EqsatError, match="calls no such function"):
        eq.transform_calls(y, "other", "B", "i, j -> j, i")
    with pytest.raises(ScheduleError):
        eq.transform_calls(y, "product", "C", "i, j -> 0, j")


SCAN = eq.PrimFunc.parse("""\
func scan(x: int32[14], y: int32[14])
  y[0] = x[0]
  for i in 13:
    y[i + 1] = y[i] + x[i + 1]""")


def difference(i: eq.Term, j: eq.Term) -> eq.Term:
    return i - j


PADS: list[Any] = [None, 0, eq.UNDEF, difference]
X14 = eq.input("x", (14,), "int32")


def scanned(x: eq.Tensor) -> eq.Tensor:
    return eq.call(SCAN, {"x": x}, free=["x", "y"])["y"]  # each cell is written before it is read


# feature: C2, C9
@pytest.mark.parametrize("pad_value", PADS, ids=["None", "0", "UNDEF", "function"])
@pytest.mark.parametrize("buffer", ["x", "y"])
def test_free_parameters_are_padded_in_all_ways(buffer: str, pad_value: Any) -> None:
    y, value = scanned(X14), {"x": np.arange(14, dtype="int32") - 5}
    changed = eq.transform_calls(y, "scan", buffer, "i -> i//4, i%4", pad_value)
    best = eq.optimize(changed).program
    for program in (changed, best):
        np.testing.assert_array_equal(eq.evaluate(program, value), np.cumsum(value["x"]))
        np.testing.assert_array_equal(eq.compile(program)(value), np.cumsum(value["x"]))
        assert eq.verify(y, program).verdict == "proved"
    shapes = [x.shape for n in changed.nodes() if isinstance(n, Opaque) for x in (*n.operands, Tensor(n))]
    assert (4, 4) in shapes


# feature: C9
@pytest.mark.parametrize("pad_value", [None, eq.UNDEF], ids=["None", "UNDEF"])
def test_layouts_between_calls_that_change_together_cancel(pad_value: Any) -> None:
    """The padding that the second call is given may be that which the first one leaves."""
    y = scanned(scanned(X14))
    packed = eq.transform_calls(y, "scan", "x", "i -> i//4, i%4", pad_value)
    packed = eq.transform_calls(packed, "scan", "y", "i -> i//4, i%4", 0)
    found = eq.optimize(packed)
    assert as_program(packed) is not y and found.layout_ops == 2  # in front of the first, behind the second
    assert eq.verify(y, found.program).verdict == "proved"


# feature: C8
def test_a_parameter_in_place_is_padded() -> None:
    f = eq.PrimFunc.parse("func inc(y: int32[14])\n  for i in 14:\n    y[i] = y[i] + int32(1)")
    y, value = eq.call(f, {"y": X14}, free=["y"])["y"], np.arange(14, dtype="int32")
    for pad_value in (None, 0, eq.UNDEF):
        changed = eq.transform_calls(y, "inc", "y", "i -> i//4, i%4", pad_value)
        np.testing.assert_array_equal(eq.compile(changed)(x=value), value + 1)
        assert eq.verify(y, changed).verdict == "proved"


UNFILLED = {
    "read before": "y[0] = x[0]\n  for i in 13:\n    y[13 - i] = y[12 - i] + x[i]",
    "a part": "for i in 13:\n    y[i] = x[i]",
    "as data say": "for i in 14:\n    if x[i] < int32(3):\n      y[i] = x[i]",
    "where data say": "for i in 14:\n    y[cast(x[i], 'index') % 14] = x[i]",
    "one that data choose": "y[0] = x[0]\n  for i in 13:\n    y[i + 1] = where(x[i] < int32(7), x[i], y[13 - i])",
}


@pytest.mark.parametrize("case", UNFILLED)
def test_a_result_that_is_not_filled_has_to_be_given(case: str) -> None:
    f = eq.PrimFunc.parse(f"func f(x: int32[14], y: int32[14])\n  {UNFILLED[case]}")
    with pytest.raises(eq.EqsatError, match="what y held before matters"):
        eq.call(f, {"x": X14})


def test_sizes_are_told_by_arguments() -> None:
    f = eq.PrimFunc.parse(
        "func f(x: int8[N], y: int8[2*N])\n  symbol N\n  for i in N:\n    y[2*i] = x[i]\n    y[2*i + 1] = x[i]"
    )
    x = eq.input("x", (3,), "int8")
    y = eq.call(f, {"x": x, "y": eq.constant(np.zeros(6, "int8"))})["y"]
    np.testing.assert_array_equal(eq.evaluate(y, {"x": np.array([1, 2, 3], "int8")}), [1, 1, 2, 2, 3, 3])
    with pytest.raises(eq.EqsatError, match="does not fit"):
        eq.call(f, {"x": x, "y": eq.constant(np.zeros(7, "int8"))})


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        ("y[0] = x[0]", {}, "x is read, and not given"),
        ("y[0] = x[0]", {"x": ((2,), "int8")}, "what y held before matters at y"),
        ("for i in 2:\n    y[i] = x[i] + y[1 - i]", {"x": ((2,), "int8")}, "read later"),
        ("for i in 2:\n    y[i] = x[i]", {"x": ((3,), "int8")}, "has shape"),
        ("for i in 2:\n    y[i] = x[i]", {"x": ((2,), "int16")}, "declared int8"),
        ("for i in 2:\n    y[i] = hole(1, 'int8', i)", {"x": ((2,), "int8")}, "are freed"),
        ("pass", {"x": ((2,), "int8"), "y": ((2,), "int8")}, "writes no parameter"),
        ("y[0] = x[0]", {"z": ((2,), "int8")}, "no parameter 'z'"),
    ],
)
def test_what_does_not_fit_is_said(text: str, arguments: dict[str, Any], message: str) -> None:
    f = eq.PrimFunc.parse(f"func f(x: int8[2], y: int8[2])\n  {text}")
    with pytest.raises(eq.EqsatError, match=message):
        eq.call(f, {name: eq.input(name, *t) for name, t in arguments.items()})


@pytest.mark.parametrize("odd", [None, 5, "func f()", b"x"])
def test_what_is_no_function_or_no_arguments(odd: Any) -> None:
    with pytest.raises(eq.EqsatError, match="no function over buffers"):
        eq.call(odd, {})
    f = eq.PrimFunc.parse("func f(x: int8[2], y: int8[2])\n  for i in 2:\n    y[i] = x[i]")
    with pytest.raises(eq.EqsatError, match="no dict of a tensor"):
        eq.call(f, odd)
    with pytest.raises(eq.EqsatError, match="is no list"):
        eq.call(f, {"x": eq.input("x", (2,), "int8")}, odd)
    with pytest.raises(eq.EqsatError, match="is no text"):
        eq.call(f, {"x": eq.input("x", (2,), "int8")}, [["x"]])  # pyright: ignore[reportArgumentType]


IN_VECTORS = [
    "B[ramp(4*i, 1, 4)] = broadcast(A[i], 4) + A[ramp(4*i, 1, 4)]",
    "B[ramp(4*i, 1, 4)] = A[ramp(12 - 4*i, 1, 4)]",
    "B[ramp(4*i, 1, 4)] = V[i]*V[3 - i]",
]


@pytest.mark.parametrize("store", IN_VECTORS)
def test_a_function_whose_stores_are_vectors_is_called(store: str) -> None:
    text = f"func g(A: float32[16], B: float32[16])\n  alias V: float32x4[4] = A\n  for i in 4:\n    {store}"
    func = eq.PrimFunc.parse(text)
    x = eq.input("x", (16,), "float32")
    y = eq.call(func, {"A": x.flip(0)}, free=["A"])["B"].flip(0)
    a = np.arange(16, dtype="float32")
    arrays = {"A": a[::-1].copy(), "B": np.zeros(16, "float32")}
    run_primfunc(func, arrays)
    best = eq.optimize(y).program
    moved = eq.transform_calls(y, "g", "A", "i -> i//3, i%3", 0)
    for program in (y, best, moved):
        for found in (eq.evaluate(program, {"x": a}), eq.compile(program)(x=a)):
            assert np.array_equal(np.asarray(found), arrays["B"][::-1])


@pytest.mark.parametrize("value", ["where(i < 3, A[i], hole(1, 'int8'))", "hole(1, 'int8')"])
def test_a_call_whose_result_is_freed_in_part_is_refused(value: str) -> None:
    func = eq.PrimFunc.parse(f"func g(A: int8[4], B: int8[4])\n  for i in 4:\n    B[i] = {value}")
    with pytest.raises(eq.EqsatError, match="cells of B are freed"):
        eq.call(func, {"A": eq.input("x", (4,), "int8")})


VECTORS = {
    "B[i] = A[i]": True,
    "B[3*i % 4] = A[i]": True,
    "B[i] = A[i] + B[i]": False,
    "B[i // 2] = A[i]": False,
    "C[ramp(4*i, 1, 4)] = A[i]": True,
    "C[ramp(i, 4, 4)] = A[i]": True,
    "C[ramp(3*i, 1, 4)] = A[i]": False,
}


@pytest.mark.parametrize("store", VECTORS)
def test_what_a_parameter_of_vectors_held_before(store: str) -> None:
    func = eq.PrimFunc.parse(f"func f(A: int8x4[4], B: int8x4[4], C: int8[16])\n  for i in 4:\n    {store}")
    assert (held_before(func, store[0]) == "") is VECTORS[store]


def test_what_a_parameter_held_before() -> None:
    """Also where it has strides, and an extent that is not known."""
    text = """\
func f(x: int8[N, 6], y: int8[N, 6] strides [{}, 1] offset [2])
  symbol N
  for i in N:
    for j in 6:
      y[i, j] = x[i, j]"""
    assert held_before(eq.PrimFunc.parse(text.format(8)), "y") == ""
    with pytest.raises(ScheduleError, match="overlapping strides"):
        held_before(eq.PrimFunc.parse(text.format(5)), "y")
    partial_store = "func f(y: int8[4])\n  for i in 3:\n    y[i] = int8(1)"
    assert held_before(eq.PrimFunc.parse(partial_store), "y").startswith("what y held before matters at y[3]")


PACK = eq.PrimFunc.parse("""\
func pack(x: float32[14], y: float32[4, 4])
  for i in 16:
    if i < 14:
      y[i//4, i%4] = x[i]
    else:
      y[i//4, i%4] = float32(0.0)""")


def packed(freeze: Sequence[str] = (), relu: bool = False) -> eq.Tensor:
    y = eq.call(PACK, {"x": eq.input("x", (14,), "float32")})["y"]
    return (y.relu() if relu else y).reshape((16,))[:14]


# feature: G10
@pytest.mark.parametrize("relu", [False, True])
def test_a_call_that_only_moves_elements_is_a_view(relu: bool) -> None:
    program = packed(relu=relu)
    found = eq.optimize(program)
    assert found.layout_ops == 0 and found.cost_before > found.cost_after == 0
    assert "call:pack only moves elements: it is taken as a view" in found.notes
    assert not [node for node in found.program.nodes() if getattr(node, "op", "") == "call:pack"]
    x = np.linspace(-3, 3, 14).astype("float32")
    for one in (program, found.program):
        np.testing.assert_array_equal(eq.evaluate(one, {"x": x}), np.maximum(x, 0) if relu else x)
    kept = eq.optimize(program, freeze=["call:pack"])
    assert [node for node in kept.program.nodes() if getattr(node, "op", "") == "call:pack"] and not kept.notes


# feature: G10
def test_large_functions_are_compared_compiled() -> None:
    turn = eq.PrimFunc.parse(
        "func turn(x: int8[80, 90], y: int8[90, 80])\n  for i in 80:\n    for j in 90:\n      y[j, i] = x[i, j]"
    )
    y = eq.call(turn, {"x": eq.input("x", (80, 90), "int8")})["y"]
    assert eq.optimize(y.permute_dims((1, 0))).layout_ops == 0


# feature: G10
def test_a_call_stays_where_its_view_gains_nothing() -> None:
    program = as_program(eq.call(PACK, {"x": eq.input("x", (14,), "float32")})["y"] * 2)
    found = eq.optimize(program)
    assert found.program is found.original is program and found.cost_before == found.cost_after == 0 and not found.notes


NO_VIEWS: dict[str, tuple[str, bool]] = {
    "a cell that is not known": ("alloc t: int8[4]\n  t[0] = x[0]\n  for i in 4:\n    y[i] = t[i]", False),
    "a part": ("for i in 3:\n    y[i] = x[i]", True),
    "both written": ("for i in 4:\n    y[i] = x[i]\n  x[0] = x[1]", False),
    "where data says": ("for i in 4:\n    y[i] = x[cast(x[i], 'index') % 4]", False),
    "a sum from another number": ("for i in 4:\n    y[i] = int8(1)\n    for j in 4:\n      y[i] = y[i] + x[j]", False),
    "what the same loop writes": ("for i in 4:\n    y[i] = x[i]\n    if 1 <= i:\n      y[i] = y[i - 1]", True),
    "what is promised": ("assume x[0] == int8(1)\n  for i in 4:\n    y[i] = x[i]", False),
    "outside": ("for i in 4:\n    y[i] = x[i + 1]", False),
}


# feature: G10
@pytest.mark.parametrize("case", NO_VIEWS)
def test_a_call_that_does_more_than_move_elements_stays(case: str) -> None:
    text, given = NO_VIEWS[case]
    f = eq.PrimFunc.parse(f"func f(x: int8[4], y: int8[4])\n  {text}")
    arguments = {"x": eq.input("x", (4,), "int8")} | ({"y": eq.input("z", (4,), "int8")} if given else {})
    y = eq.call(f, arguments)["y"].flip(0).flip(0)
    found = eq.optimize(y)
    assert [node.op for node in found.program.nodes() if isinstance(node, Opaque)] == ["call:f"]
    assert found.layout_ops == 0 and not [n for n in found.notes if "taken as a view" in n]


def test_a_view_that_differs_from_its_function_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = eq.as_view(eq.PrimFunc.parse(str(PACK).replace("x[i]", "x[13 - i]")))

    def mistaken(func: eq.PrimFunc) -> eq.Program:
        return wrong

    monkeypatch.setattr(eqsat.calls, "as_view", mistaken)
    func = eq.PrimFunc.parse(str(PACK).replace("pack", "other"))
    y = eq.call(func, {"x": eq.input("x", (14,), "float32")})["y"].reshape((16,))[:14]
    with pytest.raises(CheckFailure, match="check of the call of other: formula of other"):
        eq.optimize(y)
    monkeypatch.setenv("EQSAT_DEBUG", "0")
    assert "call:other" in str(eq.optimize(y).program)


FORMULAS = {
    "two stages": """alloc t: int8[4]
  for i in 4:
    t[i] = x[3 - i] + int8(1)
  for i in 4:
    y[i] = max(t[i], int8(0))""",
    "one loop": "alloc t: int8[4]\n  for i in 4:\n    t[i] = x[i]*x[i]\n    y[i] = t[i] + t[i]",
    "if data says so": "for i in 4:\n    if x[i] < int8(0):\n      y[i] = -x[i]\n    else:\n      y[i] = x[i]",
    "twice": "for i in 4:\n    y[i] = int8(7)\n  for i in 4:\n    if 1 <= i:\n      y[i] = x[i - 1]",
    "truths": "for i in 4:\n    y[i] = not x[3 - i]",
    "in place": "for i in 4:\n    y[i] = x[i]\n  for i in 4:\n    y[i] = y[i]*y[i]",
}


# feature: G17
@pytest.mark.parametrize("case", FORMULAS)
def test_a_call_that_computes_cells_from_cells_is_a_formula(case: str) -> None:
    dtype = "bool" if case == "truths" else "int8"
    f = eq.PrimFunc.parse(f"func f(x: {dtype}[4], y: {dtype}[4])\n  {FORMULAS[case]}")
    x = eq.input("x", (4,), dtype)
    before = {"y": eq.constant(np.zeros(4, "int8"))} if "data" in case else {}
    program = as_program(eq.call(f, {"x": x.flip(0)} | before)["y"].flip(0))
    found = eq.optimize(program)
    assert not [node for node in found.program.nodes() if getattr(node, "op", "") == "call:f"]
    values = np.array([-3, 0, 5, 100], "int8").astype(dtype)
    np.testing.assert_array_equal(eq.evaluate(found.program, {"x": values}), eq.evaluate(program, {"x": values}))


# feature: G17
def test_layouts_flow_through_a_function_of_several_blocks() -> None:
    f = eq.PrimFunc.parse("""\
func f(x: float32[2, 8, 6], y: float32[2, 8, 6])
  alloc t: float32[2, 8, 6]
  for n in 2:
    for c in 8:
      for w in 6:
        t[n, c, w] = x[n, c, w] + float32(1.0)
  for c in 8:
    for n in 2:
      for w in 6:
        y[n, c, w] = max(t[n, c, w], float32(0.0))""")
    x = eq.input("x", (2, 8, 6), "float32")
    y = eq.call(f, {"x": x})["y"]
    blocked = "n, c, w -> n, c//4, w, c%4"
    assert str(eq.flow_layout(y, blocked)[x]) == str(eq.IndexMap.parse("i0, i1, i2 -> i0, i1//4, i2, i1%4"))
    crossed = eq.optimize(eq.call(f, {"x": x.permute_dims((0, 2, 1)).permute_dims((0, 2, 1))})["y"])
    assert crossed.layout_ops == 0
