"""Traces of steps that speak of sizes, on the function itself and on one read from its text."""

from __future__ import annotations

import pytest

import eqsat as eq
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.scheduling.schedule import Schedule
from eqsat.scheduling.script import take_steps
from eqsat.scheduling.trace import Trace

ROWS = """\
func rows(A: float32[N, M], B: float32[N])
  symbol N
  symbol M
  for i in N:
    B[i] = A[i, 0]"""


def tiled() -> Schedule:
    """Rows of B as tiles of M, which is even."""
    s = Schedule(PrimFunc.parse(ROWS))
    s.assume("M % 2 == 0")
    s.transform_layout("B", "i -> i//M, i%M", "cast(i1 + M, 'float32')", interface="free")
    s.transform_loops(["B_0", "B_1"], "i, j -> j, i", ["k", "l"])
    return s


def test_maps_terms_and_conditions_speak_of_sizes_by_name() -> None:
    s = tiled()
    assert s.func.symbols == s.original.symbols
    assert str(s.trace.steps[1].args["index_map"]) == "i -> i // M, i % M"
    with pytest.raises(eq.EqsatError, match="K is not an input"):
        s.transform_layout("A", "i, j -> i//K, i%K, j", interface="free")


def test_a_trace_is_replayed_on_the_function_that_its_text_says() -> None:
    s = tiled()
    again = PrimFunc.parse(ROWS)
    replayed = Schedule.replay(again, Trace.from_json(s.trace.to_json()))
    assert str(replayed.func) == str(s.func)
    assert replayed.func.symbols == again.symbols
    for steps in (str(s.trace), s.trace.to_json()):
        scripted = Schedule(again)
        take_steps(scripted, steps)
        assert str(scripted.func) == str(s.func)


def test_steps_are_taken_back_and_again() -> None:
    s = tiled()
    made, trace = s.func, s.trace
    for _ in range(3):
        s.undo()
    assert s.func == s.original
    s.take(trace)
    assert s.func == made
