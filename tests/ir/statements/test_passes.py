"""Passes over functions: names once, flat buffers, buffers of vectors, scalar lanes, smaller buffers."""

from __future__ import annotations

import numpy as np
import pytest
from random_primfuncs import random_case
from seeds import some_of

import eqsat as eq
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.compact import compact_buffer
from eqsat.ir.statements.flatten import flatten_buffers, is_flat
from eqsat.ir.statements.lanes import has_lanes, to_scalars
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.statements.ssa import to_ssa
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, Seq, Store, statements, stmt_terms
from eqsat.ir.statements.vectorize import vectorize_buffers
from eqsat.ir.terms import term as t
from eqsat.ir.terms.walk import nodes_of


def lines(func: PrimFunc) -> list[str]:
    return [line.strip() for line in str(func).splitlines()]


@pytest.mark.parametrize("seed", some_of(range(100, 112), 6))
def test_passes_keep_the_meaning_of_random_functions(seed: int) -> None:  # feature: B6 H10
    case = random_case(seed)
    arguments = case.arguments(seed)
    once, flat = to_ssa(case.func), flatten_buffers(case.func)
    scalar, vectors = to_scalars(flatten_buffers(once)), vectorize_buffers(case.func)
    smaller = case.func
    for name in [s.buffer.name for s in statements(once.body) if isinstance(s, Alloc)]:
        try:
            smaller = compact_buffer(smaller, name)
        except ScheduleError as error:
            assert error.witness["buffer"] == name
    for func in (once, flat, scalar, vectors, smaller):
        assert same_meaning(case.func, func, arguments, case.sizes)
    assert to_ssa(once) == once and flatten_buffers(flat) == flat
    assert not has_lanes(scalar)
    accessed = {n.payload for s in statements(flat.body) for n in nodes_of("load", *stmt_terms(s))}
    decls = [*flat.buffer_map.values(), *(s.buffer for s in statements(flat.body) if isinstance(s, (Alloc, Alias)))]
    assert all(is_flat(d) for d in decls if d.name in accessed)


def test_copies_of_an_allocation_are_allocations_of_their_own() -> None:  # feature: H10
    """An unrolled loop declares its local buffer twice; they never share memory, nor their loops a name."""
    i = t.ax(0, 2)
    body = Alloc(BufferDecl("a", (2,), "int8"), Seq((
        For(i, Store("a", (i,), t.cast_to(i, "int8"))),
        Store("x", (t.index_const(0),), t.load("a", [t.index_const(1)], "int8")),
    )))  # fmt: skip
    func = PrimFunc("f", ("x", "a_1"), {n: BufferDecl(n, (2,), "int8") for n in ("x", "a_1")}, Seq((body, body)))
    once = to_ssa(func)
    names = [s.buffer.name for s in statements(once.body) if isinstance(s, Alloc)]
    assert names == ["a", "a_2"]
    axes = [s.axis for s in statements(once.body) if isinstance(s, For)]
    assert len(set(axes)) == 2
    arrays = {n: np.zeros(2, "int8") for n in ("x", "a_1")}
    assert same_meaning(func, once, arrays)


def test_aliases_are_flattened_with_what_they_show() -> None:  # feature: B7
    f = eq.primfunc("f")
    x, y = f.param("x", (4, 6), "int32"), f.param("y", (4, 6), "int32", strides=(8, 1), elem_offset=2)
    view = f.alias("view", x, (3, 8), "int32")
    tail = f.alias("tail", x, (2, 2), "int32", offset=20)
    with f.loop("i", 3) as i, f.loop("j", 6) as j:
        y[i, j] = view[i, j + 2] + x[i, j]
    tail[1, 0] = y[3, 5]
    func = f.build()
    flat = flatten_buffers(func)
    assert lines(flat)[:5] == [
        "func f(x: int32[4, 6], y: int32[4, 6] strides [8, 1] offset [2])",
        "alias x_flat: int32[24] = x",
        "alias y_flat: int32[32] = y",
        "alias view: int32[24] = x",
        "alias tail: int32[4] = x + 20",
    ]
    assert lines(flat)[-2:] == ["y_flat[8*i + j + 2] = view[8*i + j + 2] + x_flat[6*i + j]", "tail[2] = y_flat[31]"]
    memory = np.arange(40, dtype="int32")
    there = np.ndarray((4, 6), "int32", memory, 8, (32, 4))
    assert same_meaning(func, flat, {"x": np.arange(24, dtype="int32").reshape(4, 6), "y": there})


def test_the_interface_stays_where_the_body_becomes_flat() -> None:  # feature: B12
    f = eq.primfunc("fn")
    x = f.param("X", (2, 3), "float32")
    unused = f.param("Y", (2, 3), "float32")
    assert unused.name == "Y"
    with f.loop("i", 2) as i, f.loop("j", 3) as j:
        x[i, j] = x[i, j] * 2
    flat = flatten_buffers(f.build())
    assert flat.buffer_map == f.build().buffer_map
    assert lines(flat)[:2] == ["func fn(X: float32[2, 3], Y: float32[2, 3])", "alias X_flat: float32[6] = X"]


def test_separated_axes_stay_apart() -> None:  # feature: B6
    f = eq.primfunc("f")
    x = f.param("x", (3, 5, 7, 8), "int8", axis_separators=(2,))
    x[1, 2, 3, 4] = 1
    flat = flatten_buffers(f.build())
    assert lines(flat)[1:] == ["alias x_flat: int8[15, 56] separators [1] = x", "x_flat[7, 28] = int8(1)"]
    assert flatten_buffers(flat) is flat


VECTORS = """func f(B: float32[64], C: float32[64], D: float32[64])
  alloc T: float32[64]
  for i in 16:
    T[ramp(4*i, 1, 4)] = B[ramp(4*i, 1, 4)] + C[ramp(2*i, 1, 4)]
    D[4*i] = float32(0.0)
    D[ramp(4*i, 1, 4)] = T[ramp(60 - 4*i, 1, 4)]"""


def test_whole_aligned_vectors_make_a_buffer_of_vectors() -> None:  # feature: H12
    """C is read at addresses that are no multiples of 4, D also by single elements: both stay."""
    func = PrimFunc.parse(VECTORS)
    found = vectorize_buffers(func)
    assert lines(found)[1:] == [
        "alias B_x4: float32x4[16] = B", "alloc T: float32x4[16]", "for i in 16:",
        "T[i] = B_x4[i] + C[ramp(2*i, 1, 4)]", "D[4*i] = float32(0.0)", "D[ramp(4*i, 1, 4)] = T[15 - i]",
    ]  # fmt: skip
    arrays = {n: np.arange(64, dtype="float32") + k for k, n in enumerate("BCD")}
    scaled = PrimFunc.parse(VECTORS.replace("T[ramp(60 - 4*i, 1, 4)]", "T[ramp(4*i, 1, 4)]"))
    assert same_meaning(scaled, vectorize_buffers(scaled), arrays)
    shared = PrimFunc.parse("func f(B: int8[8])\n  alias a: int8[8] = B\n  B[ramp(0, 1, 4)] = a[ramp(4, 1, 4)]")
    assert vectorize_buffers(shared) is shared


def test_lanes_are_read_before_one_is_written() -> None:  # feature: H2
    """x[0:4] = x[1:5] reads what was there; an overlapping alias of vectors too."""
    func = PrimFunc.parse("""func f(x: int32[8])
  alias v: int32x4[2] = x
  x[ramp(3, -1, 4)] = x[ramp(1, 1, 4)] + int32(10)
  v[1] = x[ramp(2, 1, 4)]""")
    x = np.arange(8, dtype="int32")
    eq.compile(func, target="numpy")(x=x)
    assert x.tolist() == [14, 13, 12, 11, 12, 11, 4, 5]
    assert same_meaning(func, to_scalars(func), {"x": np.arange(8, dtype="int32")})


COMPACT = """func f(x: int32[6])
  alloc a: int32[10, 10]
  alias same: int32[10, 10] = a
  for i in 6:
    a[i + 2, 3] = x[i]
  for i in 6:
    if 1 <= i:
      x[i] = same[i + 1, 3]"""


def test_a_smaller_buffer_takes_its_aliases_along() -> None:  # feature: B7 H8
    func = PrimFunc.parse(COMPACT)
    small = compact_buffer(func, "a")
    assert lines(small)[1:3] == ["alloc a: int32[7, 1]", "alias same: int32[7, 1] = a"]
    assert "a[i + 1, 0] = x[i]" in lines(small) and "x[i_1] = same[i_1, 0]" in lines(small)
    assert same_meaning(func, small, {"x": np.arange(6, dtype="int32")})


def test_a_smaller_buffer_keeps_its_physical_axes() -> None:  # feature: B1 H8
    f = PrimFunc.parse("""func f(x: int8[4])
  alloc a: int8[16, 8] separators [1]
  alias b: int8[16, 8] separators [1] = a
  for i in 4:
    a[i + 3, 2] = x[i]
    x[3 - i] = b[i + 3, 2]""")
    small = compact_buffer(f, "a")
    assert lines(small)[1:3] == ["alloc a: int8[4, 1] separators [1]", "alias b: int8[4, 1] separators [1] = a"]
    assert same_meaning(f, small, {"x": np.arange(4, dtype="int8")})


def test_another_alias_refuses_with_its_name() -> None:  # feature: H8
    for other in ("int32[100] = a", "uint32[10, 10] = a", "int32[9, 10] = a + 10"):
        func = PrimFunc.parse(COMPACT.replace("int32[10, 10] = a", other).replace("same[i + 1, 3]", "a[i + 1, 3]"))
        with pytest.raises(ScheduleError, match="shows its memory under another") as caught:
            compact_buffer(func, "a")
        assert caught.value.witness == {"buffer": "a", "alias": "same"}
    for name, text in (("x", "no local buffer"), ("b", "no local buffer of that name")):
        with pytest.raises(ScheduleError, match=text):
            compact_buffer(PrimFunc.parse(COMPACT), name)


def test_what_is_not_bounded_stays_as_large() -> None:
    text = "func f(x: int32[6])\n  alloc a: int32[10]\n  a[cast(x[0], 'index') % 20] = int32(1)\n  x[0] = int32(1)"
    func = PrimFunc.parse(text)
    assert compact_buffer(func, "a") is func
    text = text.replace("cast(x[0], 'index') % 20", "cast(x[0], 'index') % 4")
    assert "alloc a: int32[4]" in lines(compact_buffer(PrimFunc.parse(text), "a"))
