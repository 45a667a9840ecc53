"""Stores of vectors as loops over lanes: what each becomes, that it does the same, and the way back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.lane_loops import to_lane_loops, with_vectors
from eqsat.ir.statements.lanes import has_lanes
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import For, statements

HEAD = "func f(A: float32[16], B: float32[16], I: int32[8], S: int32[N])"
BODIES = {
    "apart": ("B[ramp(1, 2, 4)] = A[ramp(0, 3, 4)]", "vectorized for lane in 4:|  B[2*lane + 1] = A[3*lane]"),
    "negative step": ("B[ramp(7, -2, 4)] = A[ramp(3, -1, 4)]",
        "vectorized for lane in 4:|  B[7 - 2*lane] = A[3 - lane]"),
    "in place": ("B[ramp(0, 1, 4)] = B[ramp(0, 1, 4)]*A[ramp(1, 1, 4)]",
        "vectorized for lane in 4:|  B[lane] = B[lane]*A[lane + 1]"),
    "other cells": ("B[ramp(0, 2, 4)] = B[ramp(1, 2, 4)]", "vectorized for lane in 4:|  B[2*lane] = B[2*lane + 1]"),
    "reads ahead": ("B[ramp(0, 1, 4)] = B[ramp(1, 1, 4)]", "for lane in 4:|  B[lane] = B[lane + 1]"),
    "reads behind": ("B[ramp(1, 1, 4)] = B[ramp(0, 1, 4)]", "for lane in 4:|  B[4 - lane] = B[3 - lane]"),
    "turned around": ("B[ramp(0, 1, 4)] = B[ramp(3, -1, 4)]",
        "alloc lanes: float32[4]|vectorized for lane in 4:|  lanes[lane] = B[3 - lane]|"
        "vectorized for lane_1 in 4:|  B[lane_1] = lanes[lane_1]"),
    "one cell": ("B[ramp(3, 0, 4)] = A[ramp(0, 1, 4)]", "for lane in 4:|  B[3] = A[lane]"),
    "one cell, updated": ("B[ramp(3, 0, 4)] = B[ramp(3, 0, 4)] + A[ramp(0, 1, 4)]",
        "alloc lanes: float32[4]|vectorized for lane in 4:|  lanes[lane] = B[3] + A[lane]|"
        "for lane_1 in 4:|  B[3] = lanes[lane_1]"),
    "step of a size": ("B[ramp(0, N, 4)] = A[ramp(0, 1, 4)]", "for lane in 4:|  B[lane*N] = A[lane]"),
    "step of a size, in place": ("B[ramp(0, N, 4)] = B[ramp(0, N, 4)] + A[ramp(0, 1, 4)]",
        "alloc lanes: float32[4]|vectorized for lane in 4:|  lanes[lane] = B[lane*N] + A[lane]|"
        "for lane_1 in 4:|  B[lane_1*N] = lanes[lane_1]"),
    "step of a loop": ("for i in 3:|  B[ramp(0, i, 4)] = A[ramp(0, 1, 4)]",
        "for i in 3:|  for lane in 4:|    B[i*lane] = A[lane]"),
    "alias": ("alias C: float32[15] = B + 1|C[ramp(0, 1, 4)] = B[ramp(0, 1, 4)]",
        "alias C: float32[15] = B + 1|for lane in 4:|  C[3 - lane] = B[3 - lane]"),
    "alias of other cells": ("alias C: float32[8] = B + 8|C[ramp(0, 1, 4)] = B[ramp(4, 1, 4)]",
        "alias C: float32[8] = B + 8|vectorized for lane in 4:|  C[lane] = B[lane + 4]"),
    "alias of bytes": ("alias C: int16[32] = B|C[ramp(0, 1, 4)] = cast(B[ramp(1, 1, 4)], 'int16')",
        "alias C: int16[32] = B|for lane in 4:|  C[lane] = cast(B[lane + 1], 'int16')"),
    "alias of bytes that meet": ("alias C: int16[32] = B|C[ramp(4, 1, 4)] = cast(B[ramp(1, 1, 4)], 'int16')",
        "alias C: int16[32] = B|alloc lanes: int16[4]|vectorized for lane in 4:|"
        "  lanes[lane] = cast(B[lane + 1], 'int16')|vectorized for lane_1 in 4:|  C[lane_1 + 4] = lanes[lane_1]"),
    "start in data": ("B[ramp(cast(I[0], 'index'), 1, 2)] = A[ramp(cast(I[1], 'index'), 2, 2)]",
        "vectorized for lane in 2:|  B[lane + cast(I[0], 'index')] = A[2*lane + cast(I[1], 'index')]"),
    "scattered": ("B[cast(I[ramp(0, 1, 4)], 'index')] = A[ramp(0, 1, 4)]",
        "for lane in 4:|  B[cast(I[lane], 'index')] = A[lane]"),
    "gathered": ("B[ramp(0, 1, 4)] = A[cast(I[ramp(0, 1, 4)], 'index')]",
        "vectorized for lane in 4:|  B[lane] = A[cast(I[lane], 'index')]"),
    "gathered from itself": ("B[ramp(0, 1, 4)] = B[cast(I[ramp(0, 1, 4)], 'index')]",
        "alloc lanes: float32[4]|vectorized for lane in 4:|  lanes[lane] = B[cast(I[lane], 'index')]|"
        "vectorized for lane_1 in 4:|  B[lane_1] = lanes[lane_1]"),
    "masked": ("B[ramp(0, 1, 4)] = where(ramp(13, 1, 4) < 16, A[ramp(13, 1, 4)], A[0])",
        "vectorized for lane in 4:|  B[lane] = where(lane + 13 < 16, A[lane + 13], A[0])"),
    "holes": ("B[ramp(0, 2, 4)] = hole(1, 'float32', ramp(0, 1, 4))",
        "vectorized for lane in 4:|  B[2*lane] = hole(1, 'float32', lane)"),
    "a hole that lanes share": (
        "B[ramp(0, 1, 4)] = where(A[ramp(0, 1, 4)] < A[0], A[ramp(1, 1, 4)], hole(1, 'float32'))",
        "vectorized for lane in 4:|  B[lane] = where(A[lane] < A[0], A[lane + 1], hole(1, 'float32'))"),
    "a hole, reads behind": ("B[ramp(1, 1, 4)] = where(ramp(0, 1, 4) < 2, B[ramp(0, 1, 4)], hole(1, 'float32'))",
        "for lane in 4:|  B[4 - lane] = where(3 - lane < 2, B[3 - lane], hole(1, 'float32'))"),
    "names that are taken": ("for lane in 1:|  alloc lane_1: float32[1]|  B[ramp(0, 1, 4)] = A[ramp(lane, 1, 4)]",
        "for lane in 1:|  alloc lane_1: float32[1]|  vectorized for lane_2 in 4:|    B[lane_2] = A[lane + lane_2]"),
    "vectors as elements": ("alias C: float32x4[4] = B|C[1] = C[0]",
        "alias C_lanes: float32[16] = B|vectorized for lane in 4:|  C_lanes[lane + 4] = C_lanes[lane]"),
    "a local buffer of vectors": ("alloc C: float32x4[1]|C[0] = A[ramp(0, 1, 4)]|B[ramp(3, 1, 4)] = C[0]",
        "alloc C: float32x4[1]|alias C_lanes: float32[4] = C|vectorized for lane in 4:|  C_lanes[lane] = A[lane]|"
        "vectorized for lane_1 in 4:|  B[lane_1 + 3] = C_lanes[lane_1]"),
}  # fmt: skip
STAYS = {
    "a hole that must be held": "B[ramp(0, 1, 4)] = where(ramp(0, 1, 4) < 2, B[ramp(3, -1, 4)], hole(1, 'float32'))",
    "an index that is written": "alias J: int32[16] = B|J[ramp(cast(J[1], 'index') % 8, 1, 2)] = I[ramp(0, 1, 2)]",
}


def parsed(body: str, head: str = HEAD) -> PrimFunc:
    lines = body.split("|")
    size = "" if "N" not in head else "\n  symbol N"
    return PrimFunc.parse("\n".join([head + size, *(f"  {line}" for line in lines)]))


def arguments(seed: int = 0) -> dict[str, NDArray]:
    rng = np.random.default_rng(seed)
    floats = {name: rng.integers(-9, 9, 16).astype("float32") for name in "AB"}
    return {**floats, "I": np.array([3, 9, 3, 1, 0, 5, 6, 7], "int32"), "S": np.zeros(seed % 4 + 1, "int32")}


def same(before: PrimFunc, after: PrimFunc) -> None:
    for seed in range(3):
        verdict = same_meaning(before, after, arguments(seed))
        assert verdict, f"{verdict.difference}\n{after}"


@pytest.mark.parametrize("case", BODIES)
def test_a_store_is_a_loop_over_its_lanes(case: str) -> None:
    body, want = BODIES[case]
    func = parsed(body)
    made = to_lane_loops(func)
    assert str(made.func) == str(parsed(want)), str(made.func)
    same(func, made.func)
    assert str(func) == str(PrimFunc.parse(str(func))) == str(PrimFunc.from_json(func.to_json()))
    assert with_vectors(made, made.func) is func


@pytest.mark.parametrize("case", BODIES)
def test_a_loop_that_stays_one_is_a_store_again(case: str) -> None:
    func = parsed(BODIES[case][0])
    made = to_lane_loops(func)
    assert with_vectors(made, replace(made.func, name="g")) == replace(func, name="g")
    unknown = replace(made, loops=dict.fromkeys(made.loops, next(iter(made.loops.values()))))
    back = with_vectors(unknown, replace(made.func, name="g"))  # by their text alone
    same(func, replace(back, name="f"))


@pytest.mark.parametrize("case", STAYS)
def test_a_store_that_is_no_loop_stays(case: str) -> None:
    func = parsed(STAYS[case])
    made = to_lane_loops(func)
    assert made.func == func and not made.loops
    same(func, made.func)
    with pytest.raises(eq.ScheduleError, match=r"is a vector"):
        eq.Schedule(func).remove_no_op()


def test_vectors_in_other_strides_stay() -> None:
    func = PrimFunc.parse("func f(A: float32x4[2] strides [2], B: float32[16])\n  B[ramp(0, 1, 4)] = A[1]")
    assert to_lane_loops(func).func == func


def test_a_size_of_the_name_is_not_the_loop() -> None:
    func = PrimFunc.parse(
        "func f(A: float32[lane], B: float32[8])\n  symbol lane\n  B[ramp(0, 1, 4)] = A[ramp(0, 1, 4)]"
    )
    made = to_lane_loops(func).func
    for each in (made, PrimFunc.parse(str(made))):
        assert [str(s.axis) for s in statements(each.body) if isinstance(s, For)] == ["lane_1"]


def test_a_store_of_another_place_is_not_put_back() -> None:
    """The same text, where a buffer has become another name of the memory that is read."""
    made = to_lane_loops(PrimFunc.parse("func f(B: int8[8], C: int8[8])\n  C[ramp(1, 1, 4)] = B[ramp(0, 1, 4)]"))
    text = "func f(B: int8[8])\n  alias C: int8[8] = B\n  vectorized for lane in 4:\n    C[lane + 1] = B[lane]"
    func = PrimFunc.parse(text)
    assert with_vectors(made, func) == func


@pytest.mark.parametrize("body", ["B[lane] = B[lane + 1]", "B[lane % 2] = A[lane]", "B[lane + 1] = B[lane]"])
def test_a_loop_whose_lanes_meet_is_no_store(body: str) -> None:
    """Loops as a pass might leave them, whose iterations are not the lanes of one store."""
    made = to_lane_loops(parsed("B[ramp(0, 1, 4)] = A[ramp(0, 1, 4)]"))
    func = parsed(f"vectorized for lane in 4:|  {body}")
    back = with_vectors(made, func)
    assert has_lanes(back) is False


def test_loops_to_keep_stay() -> None:
    func = parsed("B[ramp(0, 1, 4)] = A[ramp(0, 1, 4)]|B[ramp(4, 1, 4)] = A[ramp(4, 1, 4)]")
    made = to_lane_loops(func)
    back = with_vectors(made, made.func, ["lane"])
    assert str(back).count("for lane in 4") == 1 and str(back).count("ramp") == 2


def test_a_vector_is_freed_lane_by_lane() -> None:
    f = eq.primfunc("f")
    y, v = f.param("y", (8,), "int32"), f.param("v", (2,), "int32x4")
    y[2:6] = eq.UNDEF
    v[1] = eq.UNDEF
    func = f.build()
    for each in (func, to_lane_loops(func).func):
        one = run_primfunc(each, {"y": np.zeros(8, "int32"), "v": np.zeros((2, 4), "int32")}, track=True)
        assert one["y"].tolist() == [False] * 2 + [True] * 4 + [False] * 2
        assert one["v"].tolist() == [[False] * 4, [True] * 4]
