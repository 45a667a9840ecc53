"""Single examples on which Apache TVM 0.27 was found wrong, crashing or without an answer, asked of both sides again.

`ours` asserts what is right and answers it as text; `theirs` answers the same question by TVM as an Answer, raising
where TVM raises.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from compare_tvm import RIGHT, Answer

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.tvm_maps import map_to_tvm, to_tvm

N = eq.symbol("N", lower=1)
SPLIT = eq.IndexMap.parse("i -> i//4, i%4")


@dataclass(frozen=True)
class Feature:
    """A row of the feature list; `seen` is what TVM 0.27 was seen to do."""

    number: str
    what: str
    seen: str
    ours: Callable[[], str]
    theirs: Callable[[], Answer]


FEATURES: list[Feature] = []
Ours = Callable[[], str]
Theirs = Callable[[], Answer]


def feature(number: str, seen: str, ours: Ours) -> Callable[[Theirs], Theirs]:
    """Register TVM's side of a row under its docstring."""

    def register(theirs: Theirs) -> Theirs:
        FEATURES.append(Feature(number, (theirs.__doc__ or "").rstrip("."), seen, ours, theirs))
        return theirs

    return register


def tirx() -> Any:
    return importlib.import_module("tvm.tirx")


def ours(text: str) -> eq.IndexMap:
    return eq.IndexMap.parse(text, {"N": N})


def tvm_map(text: str) -> Any:
    """TVM's IndexMap of our text."""
    return map_to_tvm(ours(text))


# Functions for Schedule.transform_layout, which takes no int64 map for a buffer with int32 indices.


def remainder(i: Any) -> list[Any]:
    return [i % 7]


def split(i: Any) -> list[Any]:
    return [i // 4, i % 4]


def refuses(error: str, call: Callable[[], object]) -> str:
    """Our error; fails where there is none, or another."""
    with pytest.raises(eq.EqsatError, match=error) as caught:
        call()
    return str(caught.value)


def equal(found: object, expected: object) -> str:
    assert str(found) == str(expected), f"{found}, not {expected}"
    return str(found)


def inverts(text: str, shape: tuple[int, ...]) -> str:
    """Our inverse of a map, checked at every point; a formula and no table."""
    m = ours(text)
    back = m.inverse(shape)
    points = [a.ravel() for a in np.indices(shape)]
    for a, b in zip(points, back.map_indices(m.map_indices(points)), strict=True):
        assert np.array_equal(a, b)
    assert not back.is_table
    return str(back)


def judged(right: bool, witness: object) -> Answer:
    return RIGHT if right else Answer("wrong", str(witness))


def crashes(code: str) -> Answer:
    """Run in a process of its own: a crash must not end the comparison."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    if done.returncode < 0 or done.returncode >= 128:
        return Answer("crash", f"signal {abs(done.returncode) % 128}")
    return RIGHT if done.returncode == 0 else Answer("refused", done.stderr.strip().splitlines()[-1][:200])


# -- A: index maps ----------------------------------------------------------------------------------------------------


def with_constant(i: Any) -> list[Any]:
    return [0, (i + 1) // 8]


@feature("A3", "refused", lambda: equal(eq.IndexMap.from_func(with_constant), "i -> 0, (i + 1) // 8"))
def constants() -> Answer:
    """A map that returns a plain 0."""
    return judged(len(tirx().IndexMap.from_func(with_constant).final_indices) == 2, "")


@feature("A6", "refused", lambda: equal(ours("i -> 7 - i").map_shape((8,)), (8,)))
def shape_of_reversal() -> Answer:
    """The shape of 7-i on 8."""
    found = [int(n) for n in tvm_map("i -> 7 - i").map_shape([8])]
    return judged(found == [8], found)


@feature("A6", "refused", lambda: equal(ours("i, j -> i, i ^ j").map_shape((8, 8)), (8, 8)))
def shape_of_xor() -> Answer:
    """The shape of i, i^j on (8, 8)."""
    found = [int(n) for n in tvm_map("i, j -> i, i ^ j").map_shape([8, 8])]
    return judged(found == [8, 8], found)


def _collision() -> str:
    x = eq.input("x", (14,), "float32")
    return refuses(r"not injective: \(0,\) and \(7,\)", lambda: x.layout_transform(ours("i -> i % 7")))


@feature("A7", "wrong", _collision)
def collision_in_graph() -> Answer:
    """relax.layout_transform by i%7 on 14 must be refused."""
    relax = importlib.import_module("tvm.relax")
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((14,), "float32"))
    with builder.function("main", [x]):
        y = builder.emit(relax.op.layout_transform(x, tvm_map("i -> i % 7")))
        builder.emit_func_output(y)
    return Answer("wrong", f"accepted; cells 0 and 7 share one: result {y.ty.shape}")


def _schedule() -> Any:
    te, tvm = importlib.import_module("tvm.te"), importlib.import_module("tvm")
    a = te.placeholder((14,), "float32", "A")

    def body(i: Any) -> Any:
        return a[i] + te.const(1, "float32")

    b = te.compute((14,), body, "B")
    return importlib.import_module("tvm.s_tir").Schedule(tvm.IRModule({"main": te.create_prim_func([a, b])}))


@feature("A7", "wrong", _collision)
def collision_in_schedule() -> Answer:
    """Schedule.transform_layout by i%7 on 14 must be refused."""
    schedule = _schedule()
    schedule.transform_layout("B", ("write", 0), remainder)
    return Answer("wrong", f"accepted: {next(s for s in schedule.mod.script().splitlines() if '= A[' in s).strip()}")


OFFSET = ours("i -> (i+2)//8, (i+2)%8")


@feature("A8", "wrong", lambda: refuses("not surjective.*first such cell is .0, 0.", lambda: OFFSET.inverse((16,))))
def offset_inverse() -> Answer:
    """The inverse of (i+2)//8, (i+2)%8 on 16, which pads, must be refused."""
    back = tvm_map("i -> (i+2)//8, (i+2)%8").inverse([16])
    image = [tirx().const(x, "int64") for x in (0, 2)]
    return Answer("wrong", f"cell (0, 2), of i = 0, leads to {back.map_indices(image)[0]}")


@feature("A13", "wrong", lambda: inverts("i -> (i+58) % 64", (64,)))
def rotation_inverse() -> Answer:
    """The inverse of (i+58)%64 on 64."""
    back = tvm_map("i -> (i+58) % 64").inverse([64])
    found = int(back.map_indices([tirx().const(58, "int64")])[0])
    return judged(found == 0, f"cell 58, of i = 0, leads to {found}")


def _beyond(text: str, shape: tuple[int, ...]) -> None:
    def theirs() -> Answer:
        return Answer("differs", str(tvm_map(text).inverse(list(shape))))

    what = f"The inverse of {text} on {shape}"
    FEATURES.append(Feature("A13", what, "refused", lambda: inverts(text, shape), theirs))


_beyond("i -> 5*i % 16", (16,))
_beyond("i, j -> i, j ^ i", (8, 8))
_beyond("i, j -> i, (i + j) % 4", (4, 4))
_beyond("i -> i % 3, i % 5", (15,))
_beyond("i -> i ^ i >> 1", (16,))


def symbolic(method: str, text: str) -> Any:
    """TVM's answer to a question about a map on (N,), N >= 1."""
    n = tirx().Var("N", "int64")
    m, i = ours(text), tirx().Var("i", "int64")
    outputs = [to_tvm(o, {m.inputs[0]: i, N: n}) for o in m.outputs]
    analyzer = importlib.import_module("tvm.sym").Analyzer()
    with analyzer.constraint_scope(n >= 1):
        return getattr(tirx().IndexMap([i], outputs, None), method)([n], analyzer)


@feature("A14", "refused", lambda: equal(ours("i -> N - 1 - i").map_shape((N,)), "(N,)"))
def symbolic_reversal() -> Answer:
    """The shape of N-1-i on N."""
    found = symbolic("map_shape", "i -> N - 1 - i")
    return judged(str(found) == "(N,)", found)


@feature("A14", "wrong", lambda: equal(ours("i -> (i+1) % N").inverse((N,)), "p0 -> (p0 - 1) % N"))
def symbolic_rotation() -> Answer:
    """The inverse of (i+1)%N on N."""
    found = symbolic("inverse", "i -> (i+1) % N").final_indices[0]
    return judged(str(found) != "axis0", f"{found}: for N = 8, cell 1, of i = 0, leads to 1")


def _padded(array: NDArray) -> str:
    found = SPLIT.map_ndarray(array, pad_value=0)
    assert found.shape == (4, 4) and np.array_equal(found.ravel(), [*array, 0, 0])
    return str(found.tolist())


@feature("A18", "refused", lambda: _padded(np.arange(14, dtype=np.int32)))
def array() -> Answer:
    """An array of 14 by i//4, i%4."""
    source = importlib.import_module("tvm.runtime").tensor(np.arange(14, dtype="int32"))
    found = tvm_map("i -> i//4, i%4").map_tensor(source).numpy()
    return judged(found.shape == (4, 4), found.shape)


@feature("A20", "crash", lambda: equal(eq.IndexMap.from_json(SPLIT.to_json()), SPLIT))
def saved() -> Answer:
    """A map as JSON."""
    return crashes(
        "import tvm; from tvm.tirx import IndexMap\ntvm.ir.save_json(IndexMap.from_func(lambda i: [i // 4, i % 4]))"
    )


def _given() -> str:
    m = eq.IndexMap(("i",), ours("i -> 5*i % 16").outputs, inverse_index_map=ours("i -> i"))
    return refuses("inverse_index_map.*at .5,. it gives i = 5, not 1", lambda: m.inverse((16,)))


@feature("A22", "wrong", _given)
def given_inverse() -> Answer:
    """A wrong inverse given by the user for 5*i % 16 must be refused."""
    m = tvm_map("i -> 5*i % 16")
    back = tirx().IndexMap(m.initial_indices, m.final_indices, tvm_map("i -> i")).inverse([16])
    found = int(back.map_indices([tirx().const(5, "int64")])[0])
    return judged(found == 1, f"cell 5, of i = 1, leads to {found}")


# -- D: padding -------------------------------------------------------------------------------------------------------


@feature("D5", "refused", lambda: _padded(np.arange(14, dtype=np.float32)))
def zero_in_floats() -> Answer:
    """Padding of a float buffer with the number 0."""
    _schedule().transform_layout("B", ("write", 0), split, pad_value=0)
    return RIGHT


def _undefined() -> str:
    y = eq.input("x", (14,), "float32").layout_transform(SPLIT, pad_value=eq.UNDEF)
    found = eq.evaluate(y, {"x": np.arange(14, dtype=np.float32)})
    assert np.array_equal(found.ravel()[:14], np.arange(14)) and bool(np.isnan(found.ravel()[14:]).all())
    return "unknown in cells (3, 2) and (3, 3)"


@feature("D7", "refused", _undefined)
def undefined() -> Answer:
    """Padding of no known value."""
    _schedule().transform_layout("B", ("write", 0), split, pad_value=tirx().undef())
    return RIGHT


def _one_form() -> str:
    box = {"io": 4, "ii": 4}
    forms = {str(eq.simplify(p, box)) for p in ("4*io + ii < 14", "not (io == 3 and ii >= 2)")}
    assert len(forms) == 1, forms
    return forms.pop()


@feature("D17", "differs", _one_form)
def predicate() -> Answer:
    """4*io+ii<14 and not (io==3 and ii>=2) in one form."""
    tir, sym, ranges = tirx(), importlib.import_module("tvm.sym"), importlib.import_module("tvm.ir").Range
    io, ii = tir.Var("io", "int64"), tir.Var("ii", "int64")
    analyzer = sym.Analyzer()
    analyzer.bind(io, ranges(0, 4))
    analyzer.bind(ii, ranges(0, 4))
    forms = {str(analyzer.simplify(e)) for e in (4 * io + ii < 14, tir.Not(tir.all(io == 3, ii >= 2)))}
    return RIGHT if len(forms) == 1 else Answer("differs", " | ".join(sorted(forms)))


# -- F: layout strings ------------------------------------------------------------------------------------------------


def layout(name: str) -> Any:
    return importlib.import_module("tvm.s_tir").slayout(name)


def between(source: str, target: str) -> Any:
    return importlib.import_module("tvm.s_tir").sbijective_layout(source, target)


@feature("F2", "wrong", lambda: refuses("C occurs twice", lambda: eq.Layout("NCCHW")))
def repeated_axis() -> Answer:
    """NCCHW must be refused."""
    return Answer("wrong", f"accepted as {layout('NCCHW')}")


@feature("F2", "wrong", lambda: refuses("NCHW16", lambda: eq.Layout("NCHW16")))
def dangling_number() -> Answer:
    """NCHW16 must be refused."""
    return Answer("wrong", f"accepted with {len(layout('NCHW16'))} axes: the 16 is lost")


def _packed() -> str:
    both = eq.Layout("OIHW").to("OIHW[2o4i]")
    there = both.forward_index((7, 7, 0, 0))
    return f"{equal(there, (3, 1, 0, 0, 7))} and back to {equal(both.backward_index(there), (7, 7, 0, 0))}"


@feature("F4", "wrong", _packed)
def packed() -> Answer:
    """OIHW -> OIHW[2o4i] of (8, 8, 1, 1), there and back."""
    both = between("OIHW", "OIHW[2o4i]")
    there = [int(x) for x in both.forward_index([7, 7, 0, 0])]
    back = [int(x) for x in both.backward_index(there)]
    return judged(back == [7, 7, 0, 0], f"(7, 7, 0, 0) -> {there} -> {back}")


@feature("F6", "refused", lambda: equal(
    eq.Layout("OIHW").to("OIHW16i64o2i").forward_index((70, 37, 0, 0)), (1, 1, 0, 0, 2, 6, 1)
))  # fmt: skip
def several_blocks() -> Answer:
    """OIHW -> OIHW16i64o2i at (70, 37, 0, 0)."""
    found = [int(x) for x in between("OIHW", "OIHW16i64o2i").forward_index([70, 37, 0, 0])]
    return judged(found == [1, 1, 0, 0, 2, 6, 1], found)


@feature("F7", "differs", lambda: equal(eq.Layout("NCHW").to("NCHW16c").pads((1, 30, 7, 7)), {"C": 2}))
def padding_seen() -> Answer:
    """NCHW -> NCHW16c pads 30 channels, and says so."""
    both = between("NCHW", "NCHW16c")
    back = [int(x) for x in both.backward_shape(both.forward_shape([1, 30, 7, 7]))]
    return Answer("differs", f"(1, 30, 7, 7) comes back as {back}, and nothing says so")


@feature("F8", "differs", lambda: equal(eq.Layout("NCHW") is eq.Layout("NCHW"), True))
def one_instance() -> Answer:
    """One object for one layout."""
    return RIGHT if layout("NCHW").same_as(layout("NCHW")) else Answer("differs", "two objects for one layout")


@feature("F10", "refused", lambda: refuses("axes W", lambda: eq.Layout("NCHW").to("NCH")))
def not_convertible() -> Answer:
    """NCHW to NCH is answered, not an internal error."""
    return RIGHT if between("NCHW", "NCH") is None else Answer("wrong", "converted")
