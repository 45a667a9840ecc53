"""Single schedules on which Apache TVM 0.27 was found wrong, asked of both sides again."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from compare_schedules import Function, Stage
from compare_tvm import Answer
from features_tvm import FEATURES as FEATURES
from features_tvm import equal, feature, judged, refuses

import eqsat as eq
from eqsat.ir.statements.run import run_primfunc

BACKWARDS = Function(
    {"A": (8,), "B": (8,), "C": (8,)},
    frozenset("B"),
    (Stage((("i", 8, "spatial"),), "B[i] = A[i]"), Stage((("j", 8, "spatial"),), "C[j] = B[7 - j]")),
)


def by_tvm(schedule: Any, *arrays: np.ndarray[Any, Any]) -> list[Any]:
    """The last array after a run."""
    tvm = importlib.import_module("tvm")
    tensors = [tvm.runtime.tensor(a) for a in arrays]
    tvm.compile(schedule.mod, target="llvm")["main"](*tensors)
    return tensors[-1].numpy().tolist()


def _merged() -> str:
    schedule = eq.Schedule(BACKWARDS.ours())
    return refuses(
        r"loop 1 writes B\[7\] in iteration 7, which loop 2 reads", lambda: schedule.merge_adjacent_loops("i")
    )


@feature("E11", "wrong", _merged)
def illegal_merge() -> Answer:
    """Loops of which the second one reads backwards what the first one writes must not be merged."""
    schedule = BACKWARDS.theirs()
    schedule.merge(*(schedule.get_loops(schedule.get_sblock(name))[0] for name in ("b0", "b1")))
    a = np.arange(1, 9, dtype=np.int32)
    found = by_tvm(schedule, a, np.zeros(8, np.int32))
    return judged(found == a[::-1].tolist(), f"merged; {a.tolist()} backwards is {found}")


def _reversed() -> str:
    schedule = eq.Schedule(BACKWARDS.ours())
    schedule.transform_layout("B", "i -> i//2, i%2")
    return equal(_by_us(schedule), [8, 7, 6, 5, 4, 3, 2, 1])


def _by_us(schedule: eq.Schedule) -> list[int]:
    arrays = {"A": np.arange(1, 9, dtype=np.int32), "C": np.zeros(8, np.int32)}
    run_primfunc(schedule.func, arrays)
    return arrays["C"].tolist()


@feature("C1", "wrong", _reversed)
def reversed_read() -> Answer:
    """A buffer that is read backwards, in the layout i//2, i%2."""
    schedule = BACKWARDS.theirs()
    schedule.transform_layout(schedule.get_sblock("b0"), ("write", 0), _halved)
    a = np.arange(1, 9, dtype=np.int32)
    found = by_tvm(schedule, a, np.zeros(8, np.int32))
    read = next(line for line in schedule.mod.script().splitlines() if "C[v_j] =" in line).strip()
    return judged(found == a[::-1].tolist(), f"{read}: {found}")


def _halved(i: Any) -> list[Any]:
    return [i // 2, i % 2]


ALIASED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8,), 'int32'), C: T.Buffer((8,), 'int32')):
    B = T.sblock_alloc_buffer((8,), 'int32')
    V = T.decl_buffer((8,), 'int32', data=B.data)
    for i in range(8):
        with T.sblock('b0'):
            v_i = T.axis.spatial(8, i)
            B[v_i] = A[v_i]
    for j in range(8):
        with T.sblock('b1'):
            v_j = T.axis.spatial(8, j)
            C[v_j] = V[v_j]
"""


def _aliased() -> str:
    text = "func f(A: int32[8], C: int32[8])\n  alloc B: int32[8]\n  alias V: int32[8] = B\n"
    text += "  for i in 8:\n    B[i] = A[i]\n  for j in 8:\n    C[j] = V[j]\n"
    schedule = eq.Schedule(eq.PrimFunc.parse(text))
    schedule.transform_layout("B", "i -> i%2, i//2")
    assert "C[j] = B[j % 2, j // 2]" in str(schedule.func)
    return equal(_by_us(schedule), [1, 2, 3, 4, 5, 6, 7, 8])


@feature("B7", "wrong", _aliased)
def detached_alias() -> Answer:
    """An alias of a buffer whose layout changes must change with it, or forbid that."""
    tvm = importlib.import_module("tvm")
    made = importlib.import_module("tvm.script").from_source(ALIASED.strip())
    schedule = importlib.import_module("tvm.s_tir").Schedule(tvm.IRModule({"main": made}))
    schedule.transform_layout(schedule.get_sblock("b0"), ("write", 0), _interleaved)
    lines = [line.strip() for line in schedule.mod.script().splitlines() if "B[v_i" in line or "= V[" in line]
    return judged("C[v_j] = V[v_j]" not in lines, f"accepted: {'; '.join(lines[-2:])}")


def _interleaved(i: Any) -> list[Any]:
    return [i % 2, i // 2]
