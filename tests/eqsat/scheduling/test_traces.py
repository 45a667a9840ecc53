"""Traces of steps that speak of sizes, on the function itself and on one read from its text."""

from __future__ import annotations

import pytest

import eqsat as eq
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.terms import term as t
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


def of_one_name() -> Schedule:
    """A function with two sizes that are called N."""
    m, n = eq.symbol("N"), eq.symbol("N", lower=2, multiple_of=4)
    f = eq.primfunc("f")
    a, b = f.param("A", (m, n), "int32"), f.param("B", (m, n), "int32")
    with f.loop("i", m) as i, f.loop("j", n) as j:
        b[i, j] = a[i, j]
    s = Schedule(f.build())
    s.transform_layout("B", eq.IndexMap(("i", "j"), (t.var("i") * n + t.var("j"),)), interface="free")
    s.assume(n < 100)
    s.transform_layout("A", "i, j -> j, i//4, i%4", "cast(N_1 + i1, 'int32')", interface="free")
    return s


def test_sizes_of_one_name_have_other_names_in_traces_and_layouts() -> None:
    """Those that the function shows; a text that is read again says the same."""
    s = of_one_name()
    m, n = s.original.symbols
    text = str(s.func)
    assert 'layout B [N, N_1] by "i, j -> i*N_1 + j"' in text and "assume N_1 < 100" in text
    lines = str(s.trace).splitlines()
    assert lines[0].endswith("index_map='i, j -> i*N_1 + j', interface='free')")
    assert "v0, v1 -> v0*N_1 + v1" in lines[1] and "assume(condition='N_1 < 100')" in lines
    assert "pad_value=\"cast(i1 + N_1, 'int32')\"" in lines[-1]
    assert PrimFunc.parse(text, {"N": m, "N_1": n}) == s.func == PrimFunc.from_json(s.func.to_json())


def test_sizes_of_one_name_are_found_on_another_function() -> None:
    """One read from text has sizes that are called N and N_1."""
    s = of_one_name()
    for func in (s.original, PrimFunc.parse(str(s.original))):
        scripted = Schedule(func)
        take_steps(scripted, str(s.trace))
        made = [scripted, *(Schedule.replay(func, x) for x in (s.trace, Trace.from_json(s.trace.to_json())))]
        for other in made:
            assert str(other.trace) == str(s.trace)
            assert sorted(str(other.func).splitlines()) == sorted(str(s.func).splitlines())
        if func is s.original:
            assert made[0].func == made[1].func == made[2].func == s.func


def test_an_input_of_a_map_that_is_called_like_a_size_gets_another_name() -> None:
    n = eq.symbol("N")
    f = eq.primfunc("f")
    a = f.param("A", (n, n), "int32")
    with f.loop("i", n) as i:
        a[i, i] = 0
    s = Schedule(f.build())
    s.transform_layout("A", eq.IndexMap(("i", "N"), (t.var("i") * n + t.var("N"),)), interface="free")
    assert 'by "i, N_1 -> N*i + N_1"' in str(s.func)
    assert (
        PrimFunc.parse(str(s.func), {"N": n})
        .buffer_map["A"]
        .transforms[0]
        .index_map.outputs[0]
        .evaluate({"i": 2, "N_1": 3, "N": 10})
        == 23
    )
