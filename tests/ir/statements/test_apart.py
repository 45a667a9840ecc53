"""Buffers of which two indices are one element: what is written has memory of its own."""

from __future__ import annotations

import random
from itertools import product

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import EvaluationError, ShapeError
from eqsat.ir.statements.apart import is_apart, shared_cells
from eqsat.ir.statements.decl import BufferDecl
from eqsat.ir.statements.run import run_primfunc

COPY = """func f(A: int32[16], B: int32[4, 4])
  alloc T: int32[4, 4] strides {strides}
  for i in 4:
    for j in 4:
      T[i, j] = A[4*i + j]
  for k in 4:
    for l in 4:
      B[k, l] = T[k, l]"""


@pytest.mark.parametrize("seed", range(4))
def test_shared_elements_are_those_of_an_enumeration(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(250):
        rank = draw.randrange(4)
        shape = tuple(draw.randrange(5) for _ in range(rank))
        strides = tuple(draw.choice([-9, -4, -2, -1, 0, 1, 1, 2, 3, 5, 8, 16]) for _ in range(rank))
        cells: dict[int, list[tuple[int, ...]]] = {}
        for cell in product(*map(range, shape)):
            cells.setdefault(sum(i * s for i, s in zip(cell, strides, strict=True)), []).append(cell)
        several = [those for those in cells.values() if len(those) > 1]
        assert is_apart(BufferDecl("x", shape, "int8", strides=strides)) is (not several), (strides, shape)
        found = shared_cells(strides, shape)
        assert (found is not None) == bool(several), (strides, shape)
        assert found is None or any(set(found) <= set(those) for those in several), (strides, shape)


def test_large_buffers_are_told_by_pairs_of_axes() -> None:
    assert is_apart(BufferDecl("x", (1 << 20, 1 << 20), "int8", strides=(1 << 10, 1))) is False
    assert is_apart(BufferDecl("x", (2, 2, 2), "int8", strides=(5, 3, 2))) is False  # 5 is 3 and 2
    assert is_apart(BufferDecl("x", (1 << 20, 1 << 20), "int8", strides=(1, 1 << 20))) is True
    assert is_apart(BufferDecl("x", (1 << 30,), "int8", strides=(0,))) is False


@pytest.mark.parametrize("strides", ["[1, 1]", "[2, 1]", "[0, 1]", "[3, 2]"])
def test_a_store_to_two_elements_at_once_is_refused(strides: str) -> None:
    with pytest.raises(ShapeError, match=r"T is written, and with strides .* are one element"):
        eq.PrimFunc.parse(COPY.format(strides=strides))


@pytest.mark.parametrize("strides", ["[4, 1]", "[1, 4]", "[-4, 1] offset [12]", "[9, 2]"])
def test_other_strides_are_free(strides: str) -> None:
    func = eq.PrimFunc.parse(COPY.format(strides=strides))
    eq.Schedule(func).reorder("j", "i")


def test_what_is_only_read_may_share() -> None:
    text = """func f(A: int32[4], B: int32[4, 4])
  alias V: int32[4, 4] strides [0, 1] = A
  for i in 4:
    for j in 4:
      B[i, j] = V[i, j]"""
    a, b = np.arange(4, dtype="int32"), np.zeros((4, 4), "int32")
    eq.compile(eq.PrimFunc.parse(text))(A=a, B=b)
    assert np.array_equal(b, np.broadcast_to(a, (4, 4)))
    with pytest.raises(ShapeError, match=r"V\[0, 0\] and V\[1, 0\] are one element"):
        eq.PrimFunc.parse(text + "\n      V[i, j] = int32(1)")


def test_symbols_are_told_by_calls() -> None:
    func = eq.PrimFunc.parse("""func f(A: int32[16], B: int32[4, 4] strides [N, 1])
  symbol N
  for i in 4:
    for j in 4:
      B[i, j] = A[4*i + j]""")
    memory, a = np.zeros(30, "int32"), np.arange(16, dtype="int32")
    kernel = eq.compile(func)
    for n in (4, 6):
        b = np.ndarray((4, 4), "int32", memory, strides=(4 * n, 4))
        kernel(A=a, B=b, N=n)
        assert np.array_equal(b, a.reshape(4, 4))
    b = np.ndarray((4, 4), "int32", memory, strides=(8, 4))
    for call in (lambda: kernel(A=a, B=b, N=2), lambda: run_primfunc(func, {"A": a, "B": b}, {"N": 2})):
        with pytest.raises(EvaluationError, match=r"B\[1, 0\] and B\[0, 2\] are one element"):
            call()


def test_symbolic_strides_of_local_buffers_have_to_be_apart() -> None:
    text = """func f(A: int32[4])
  symbol N
  alloc T: int32[4, N] strides [{stride}, 1]
  for i in 4:
    for j in N:
      T[i, j] = A[i]"""
    eq.PrimFunc.parse(text.format(stride="N + 2"))
    with pytest.raises(ShapeError, match="may lead to one element twice"):
        eq.PrimFunc.parse(text.format(stride="2"))
