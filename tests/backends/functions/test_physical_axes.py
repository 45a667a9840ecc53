"""Parameters of several physical axes: as they are declared, and as their rows lie in memory."""

from __future__ import annotations

import random
from dataclasses import replace
from importlib.util import find_spec
from math import prod
from typing import Any

import numpy as np
import pytest
from random_primfuncs import random_case

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError, ScheduleError, ShapeError
from eqsat.ir.statements.bind import bind_function
from eqsat.ir.statements.decl import BufferDecl
from eqsat.ir.statements.memory import array_shapes, declared_view
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, statements
from eqsat.scheduling.mapped import same_scheduled
from eqsat.scheduling.schedule import Schedule

OPENCL = [pytest.mark.opencl, pytest.mark.skipif(find_spec("pyopencl") is None, reason="needs pyopencl")]
TARGETS = ["numpy", "c", pytest.param("opencl", marks=OPENCL)]
CANARY = 99


def separated(decl: BufferDecl, rng: random.Random) -> BufferDecl:
    """The declaration with physical axes, and perhaps with strides within them."""
    places = sorted(rng.sample(range(1, len(decl.shape)), rng.randint(1, len(decl.shape) - 1)))
    strides: list[int] = []
    if rng.random() < 0.4 and all(isinstance(n, int) and n for n in decl.shape):
        step = rng.randint(1, 2)
        for n in reversed(range(len(decl.shape))):
            strides.insert(0, step)
            extent = decl.shape[n]
            assert isinstance(extent, int)
            step = rng.randint(1, 2) if n in places else step * extent + rng.randint(0, 1)
    return replace(decl, axis_separators=tuple(places), strides=tuple(strides) or None)


def compare(seed: int, target: str) -> int:
    """A function against itself with other physical axes, interpreted and compiled; how many parameters have them."""
    rng, case = random.Random(seed), random_case(seed)
    shown = {s.data for s in statements(case.func.body) if isinstance(s, Alias)}
    decls = dict(case.func.buffer_map)
    for name, decl in decls.items():
        if decl.is_dense and len(decl.shape) > 1 and name not in shown:
            decls[name] = separated(decl, rng)
    func = replace(case.func, buffer_map=decls)
    assert str(PrimFunc.parse(str(func))) == str(PrimFunc.from_json(func.to_json())) == str(func)
    sizes = bind_function(func, {}, case.sizes)
    want = case.arguments(seed)
    given = {n: physical(decls[n], sizes, a) if decls[n].axis_separators else a for n, a in want.items()}
    given = {n: a.copy() if decls[n].is_dense or decls[n].axis_separators else a for n, a in given.items()}
    freed = run_primfunc(case.func, want, case.sizes, track=True)
    again = {n: a.copy() if decls[n].axis_separators else case.arguments(seed)[n] for n, a in given.items()}
    eq.compile(func, target=target)({**given, **case.sizes})
    later = run_primfunc(func, again, case.sizes, track=True)
    for name in func.params:
        a = given[name]
        same = (a == again[name]) | later[name] | ((a != a) & (again[name] != again[name]))
        assert same.all(), f"{target}, {name}\n{func}"
        got = declared_view(decls[name], sizes, a)
        same = (got == want[name]) | freed[name] | ((got != got) & (want[name] != want[name]))
        assert same.all(), f"{name}:\n{got}\n{want[name]}\n{func}"
    return sum(bool(d.axis_separators) for d in decls.values())


def physical(decl: BufferDecl, sizes: Any, array: NDArray) -> NDArray:
    """The elements where they lie in a dense array with an axis for each physical one."""
    made = np.full(array_shapes(decl, sizes)[1], CANARY, array.dtype)
    declared_view(decl, sizes, made)[...] = array
    return made


@pytest.mark.parametrize("target", TARGETS)
def test_random_functions_with_physical_axes(target: str) -> None:  # feature: B2 B3 B13
    assert sum(compare(seed, target) for seed in range(5)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_many_random_functions_with_physical_axes(target: str) -> None:
    assert sum(compare(seed, target) for seed in range(5, 200)) >= 100


TABLE = """\
func f(x: int32[3, 5, 4] separators [2], y: int32[N, 4] separators [1])
  symbol N
  for i in N:
    for j in 4:
      y[i, j] = x[i % 3, i % 5, j] + int32(1)"""


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_takes_the_declared_array_or_its_physical_axes(target: str) -> None:
    kernel = eq.compile(PrimFunc.parse(TABLE), target=target)
    x = np.arange(60, dtype="int32").reshape(3, 5, 4)
    i = np.arange(7)
    for array in (x, x.reshape(15, 4)):
        y = np.zeros((7, 4), "int32")
        kernel(x=array, y=y)
        assert np.array_equal(y, x[i % 3, i % 5] + 1)


@pytest.mark.parametrize("target", TARGETS)
def test_a_call_with_other_physical_axes_is_refused_before_anything_is_read(target: str) -> None:  # feature: B13
    kernel, y = eq.compile(PrimFunc.parse(TABLE), target=target), np.zeros((7, 4), "int32")
    x = np.arange(60, dtype="int32")
    both = r"expected int32.3, 5, 4., or int32.15, 4. with its physical axes"
    for wrong in (x, x.reshape(5, 12), x.reshape(5, 3, 4), x.reshape(3, 5, 2, 2), x.reshape(15, 4).astype("int64")):
        with pytest.raises(EvaluationError, match=both):
            kernel(x=wrong, y=y)
    for strided in (x.reshape(4, 15).T, np.zeros((15, 8), "int32")[:, ::2]):
        with pytest.raises(EvaluationError, match="x is not dense row-major memory"):
            kernel(x=strided, y=y)
    assert not y.any()


def test_a_kernel_tells_its_physical_axes() -> None:
    header = eq.compile(PrimFunc.parse(TABLE)).header
    assert "x: int32[3, 5, 4], 2 physical axes of (15, 4)" in header and "2 physical axes of (N, 4)" in header


def test_a_physical_axis_tells_a_size() -> None:
    func = PrimFunc.parse(
        "func f(x: int8[M, 4, 3] separators [2])\n  symbol M\n  for i in M:\n    x[i, 1, 2] = int8(5)"
    )
    for target in ("numpy", "c"):
        kernel, x = eq.compile(func, target=target), np.zeros((20, 3), "int8")
        kernel(x=x)
        assert [tuple(map(int, at)) for at in np.argwhere(x)] == [(1 + 4 * i, 2) for i in range(5)]
        with pytest.raises(eq.EqsatError, match="no argument tells M"):
            kernel(x=np.zeros((21, 3), "int8"))


LANES = """\
func f(x: float32x4[2, 3] separators [1], y: float32[2, 12] separators [1])
  for i in 2:
    for j in 3:
      y[i, ramp(4*j, 1, 4)] = x[i, j] + x[1 - i, j]"""


@pytest.mark.parametrize("target", TARGETS)
def test_vectors_with_physical_axes(target: str) -> None:
    x, y = np.arange(24, dtype="float32").reshape(2, 3, 4), np.zeros((2, 12), "float32")
    eq.compile(PrimFunc.parse(LANES), target=target)(x=x, y=y)
    assert np.array_equal(y, (x + x[::-1]).reshape(2, 12))


GAPS = """\
func f(x: int32[3, 4] strides [2, 1] separators [1], y: int32[3, 4] strides [2, 1] separators [1])
  for i in 3:
    for j in 4:
      y[i, j] = x[i, j] + int32(1)"""


@pytest.mark.parametrize("target", TARGETS)
def test_strides_are_those_within_a_physical_axis(target: str) -> None:
    """Elements of two physical rows are never one, whatever the strides."""
    kernel = eq.compile(PrimFunc.parse(GAPS), target=target)
    x = np.arange(20, dtype="int32").reshape(5, 4)
    whole, part = np.full((5, 4), 7, "int32"), np.full((5, 4), 7, "int32")
    kernel(x=x, y=whole)
    kernel(x=x[::2], y=part[::2])
    want = np.where(np.arange(5)[:, None] % 2, 7, x + 1)
    assert np.array_equal(whole, want) and np.array_equal(part, want)
    with pytest.raises(EvaluationError, match=r"x has strides .4, 1. in elements, expected .8, 1."):
        kernel(x=x[:3], y=whole)
    one = GAPS.replace("strides [2, 1] separators [1]", "strides [2, 1]")
    with pytest.raises(ShapeError, match=r"y\[1, 0\] and y\[0, 2\] are one element"):
        PrimFunc.parse(one)


def test_separators_of_parameters_are_set_by_a_schedule() -> None:
    before = PrimFunc.parse(TABLE.replace(" separators [2]", "").replace(" separators [1]", ""))
    s = Schedule(before)
    with pytest.raises(ScheduleError, match="parameter"):
        s.set_axis_separators("x", [1])
    s.set_axis_separators("x", [1, 2], interface="free")
    s.set_axis_separators("y", [1], interface="free")
    x, y = np.arange(60, dtype="int32").reshape(3, 5, 4), np.zeros((6, 4), "int32")
    assert same_scheduled(before, s.func, {"x": x, "y": y})
    kernel, got = eq.compile(s.func), np.zeros((6, 4), "int32")
    run_primfunc(before, {"x": x, "y": y})
    kernel(x=x, y=got)
    assert np.array_equal(got, y) and y.any()
    back = Schedule(s.func)
    back.set_axis_separators("x", [], interface="free")
    given = {"x": x.reshape(3, 5, 4), "y": np.zeros((6, 4), "int32")}
    assert same_scheduled(s.func, back.func, given) and same_meaning(s.func, back.func, given)


def test_physical_axes_of_a_schedule_with_strides_move_the_rows() -> None:
    before = PrimFunc.parse(GAPS)
    x = np.arange(20, dtype="int32").reshape(5, 4)
    for name in ("x", "y"):
        s = Schedule(before)
        with pytest.raises(ScheduleError, match=r"lead to one element twice|are one element"):
            s.set_axis_separators(name, [], interface="free")
    apart = PrimFunc.parse(GAPS.replace("strides [2, 1]", "strides [5, 1]"))
    s, rows = Schedule(apart), np.arange(prod((11, 4)), dtype="int32").reshape(11, 4)
    s.set_axis_separators("x", [], interface="free")
    s.set_axis_separators("y", [], interface="free")
    assert s.buffer("x").flat_shape == (14,)
    assert same_scheduled(apart, s.func, {"x": rows, "y": np.zeros((11, 4), "int32")})
    assert same_meaning(before, before, {"x": x, "y": np.zeros((5, 4), "int32")})


def test_holes_are_told_by_the_axes_of_the_array() -> None:
    func = PrimFunc.parse("func f(x: int8[2, 2, 3] separators [2])\n  x[1, 0, 2] = hole(1, 'int8')")
    freed = run_primfunc(func, {"x": np.zeros((4, 3), "int8")}, track=True)["x"]
    assert freed.shape == (4, 3) and np.argwhere(freed).tolist() == [[2, 2]]
    assert np.argwhere(run_primfunc(func, {"x": np.zeros((2, 2, 3), "int8")}, track=True)["x"]).tolist() == [[1, 0, 2]]


ALIAS = """\
func f(x: int32[5, 4] separators [1], y: int32[4])
  alias a: int32[3, 4] strides [2, 1] separators [1] = x
  for i in 3:
    for j in 4:
      a[i, j] = int32(7)
      y[j] = x[READ, j]"""


@pytest.mark.parametrize("target", TARGETS)
def test_aliases_meet_where_their_rows_do(target: str) -> None:
    """Row 2*i of the memory is row i of the alias: an odd row is never written, the row below is, later."""
    func = PrimFunc.parse(ALIAS.replace("READ", "i + 1"))
    x, y = np.arange(20, dtype="int32").reshape(5, 4), np.zeros(4, "int32")
    want = {"x": x.copy(), "y": y.copy()}
    run_primfunc(func, want)
    eq.compile(func, target=target)(x=x, y=y)
    assert np.array_equal(x, want["x"]) and np.array_equal(y, want["y"]) and y.tolist() == [12, 13, 14, 15]
    for read, legal in (("3", True), ("2*i - i//2*2 + 1", True), ("4 - 2*i", False), ("2*i", False)):
        s = Schedule(PrimFunc.parse(ALIAS.replace("READ", read)))
        s.fission("j", 1)
        taken = True
        try:
            s.fission("i", 1)
        except ScheduleError as error:
            taken = False
            assert "meet in" in str(error)
        assert taken or not legal
        given = {"x": np.arange(20, dtype="int32").reshape(5, 4), "y": np.zeros(4, "int32")}
        assert same_scheduled(s.original, s.func, given), read
