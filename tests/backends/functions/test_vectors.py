"""Vectors in kernels: what is read before a lane is written, and lanes that lie anywhere, checked one by one."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BoundsError, EvaluationError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc

opencl = pytest.mark.skipif(find_spec("pyopencl") is None, reason="needs pyopencl")
BODIES = {
    "index of itself": "B[ramp(cast(B[0], 'index'), 1, 3)] = A[ramp(1, 1, 3)]",
    "index and value of itself": "B[ramp(cast(B[0], 'index'), 2, 3)] = B[ramp(cast(B[0], 'index') + 1, 1, 3)]",
    "index of an alias": "alias C: int32[8] = B\n  C[ramp(cast(B[1], 'index'), -1, 2)] = A[ramp(1, 1, 2)]",
    "scattered": "B[cast(A[ramp(0, 1, 4)], 'index')] = A[ramp(4, 1, 4)]",
    "scattered by itself": "B[cast(B[ramp(0, 1, 4)], 'index')] = A[ramp(0, 1, 4)]",
    "gathered": "B[ramp(0, 2, 4)] = A[cast(A[ramp(3, -1, 4)], 'index')] + A[ramp(1, 1, 4) % 3]",
    "masked": "B[ramp(0, 1, 4)] = where(ramp(6, 1, 4) < 8, A[ramp(6, 1, 4)], A[0])",
    "masked by data": "B[ramp(0, 1, 4)] = where(A[ramp(4, 1, 4)] < int32(8), B[cast(A[ramp(4, 1, 4)], 'index')], A[0])",
}


def arguments() -> dict[str, NDArray]:
    return {"A": np.array([3, 1, 2, 5, 4, 9, 7, 6], "int32"), "B": np.array([0, 1, 3, 2, 7, 7, 7, 7], "int32")}


CASES = [
    *(("c", body) for body in BODIES),
    *(
        pytest.param("opencl", body, marks=[pytest.mark.opencl, opencl])
        for body in ("index of itself", "scattered by itself", "masked by data")
    ),
]


@pytest.mark.parametrize(("target", "body"), CASES)
def test_lanes_of_a_store_do_not_see_each_other(target: str, body: str) -> None:
    func = PrimFunc.parse(f"func f(A: int32[8], B: int32[8])\n  {BODIES[body]}")
    want, got = arguments(), arguments()
    run_primfunc(func, want)
    kernel: Any = eq.compile(func, target=target)
    kernel(**got)
    assert got["B"].tolist() == want["B"].tolist() != arguments()["B"].tolist()


@pytest.mark.parametrize("body", [
    "B[cast(A[ramp(3, 1, 3)], 'index')] = A[ramp(0, 1, 3)]",
    "B[ramp(0, 1, 4)] = where(A[ramp(4, 1, 4)] < int32(10), A[cast(A[ramp(4, 1, 4)], 'index')], A[0])",
])  # fmt: skip
def test_one_lane_out_of_range_is_an_error(body: str) -> None:
    func = PrimFunc.parse(f"func f(A: int32[8], B: int32[8])\n  {body}")
    with pytest.raises(EvaluationError):
        run_primfunc(func, arguments())
    kernel: Any = eq.compile(func, target="c")
    with pytest.raises(eq.EqsatError):
        kernel(**arguments())


def test_lanes_that_depend_on_elements_that_are_vectors_are_refused() -> None:
    text = "func f(A: int32[8], B: int32[8], V: int32x4[1])\n  B[ramp(0, 1, 4)] = A[cast(V[0], 'index')]"
    with pytest.raises(eq.EqsatError, match=r"elements that are vectors"):
        eq.compile(PrimFunc.parse(text), target="c")


LANES = """func f(A: int32[16], B: int32[16])
  alias a: int32x4[4] = A
  alias b: int32x4[4] = B
  for i in 4:
    b[i] = where(a[i] < int32(2), b[i], {})"""


@pytest.mark.parametrize("target", ["c", pytest.param("opencl", marks=[pytest.mark.opencl, opencl])])
def test_vectors_decide_by_lanes_between_accesses_that_stay_inside(target: str) -> None:
    """Such kernels were refused, also those that `vectorize_buffers` makes of functions that are compiled."""
    func = PrimFunc.parse(LANES.format("a[3 - i]"))
    rng = np.random.default_rng(0)
    a, b = (rng.integers(0, 5, 16).astype("int32") for _ in range(2))
    want = np.where(a < 2, b, a.reshape(4, 4)[::-1].reshape(16))
    eq.compile(func, target=target)(A=a, B=b)
    assert b.tolist() == want.tolist()
    with pytest.raises(BoundsError, match="depends, lane by lane, on elements that are vectors"):
        eq.compile(PrimFunc.parse(LANES.format("a[i + 1]")), target=target)
