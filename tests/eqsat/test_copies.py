"""Operands that are copied along axes which other operands have: they are read as what they copy."""

from __future__ import annotations

import random

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Program, Tensor
from eqsat.ir.terms.shape import require_static

TARGETS = ("c", "onnx")


def equal(program: Program, after: Program, seed: int, sizes: dict[str, int] | None = None) -> bool:
    numbers = np.random.default_rng(seed)
    one, two = (p.bind(sizes) if sizes else p for p in (program, after))
    given: dict[str, NDArray] = {}
    for x in one.inputs:
        given[x.name] = numbers.standard_normal(require_static(x.shape, "test")).astype(np.float32)
    return bool(np.allclose(eq.evaluate(one, given), eq.evaluate(two, given), rtol=1e-4, atol=1e-4))


def copied(r: random.Random, x: Tensor, shape: tuple[int, ...], kept: list[int]) -> Tensor:
    """x, which has some axes of a shape, copied along the others: by a broadcast, or as tiles."""
    wide = x.reshape(tuple(d if n in kept else 1 for n, d in enumerate(shape)))
    if r.random() < 0.5:
        return wide.broadcast_to(shape)
    gone = [n for n in range(len(shape)) if n not in kept]
    return wide.tile(tuple(shape[n] if n in gone else 1 for n in range(len(shape))))


# feature: I4 I7
@pytest.mark.parametrize("seed", range(8))
def test_element_wise_operators_read_what_is_copied(seed: int) -> None:
    r = random.Random(seed)
    shape = tuple(r.sample([2, 3, 4, 5], 3))
    kept = sorted(r.sample(range(3), r.randint(0, 2)))
    x, b = eq.input("x", shape, "float32"), eq.input("b", tuple(shape[n] for n in kept), "float32")
    wide = copied(r, b, shape, kept)
    operands = [x, wide] if r.random() < 0.5 else [wide, x]
    y = operands[0] - operands[1]
    if r.random() < 0.5:
        y = eq.where(x > 0, wide, x)
    program = eq.Program([x, b], {"y": y})
    for target in TARGETS:
        result = eq.optimize(program, target, "bytes")
        assert result.bytes_moved == 0 and equal(program, result.program, seed), str(result.program)


# feature: I4 I5 I7
@pytest.mark.parametrize("seed", range(6))
def test_products_read_what_is_copied_for_each_group(seed: int) -> None:
    """A matrix for several heads, in runs or taken in turn, and for every batch."""
    r = random.Random(seed)
    n, g, m, t, d = 2, 3, 2, 5, 4
    q, k = eq.input("q", (n, g * m, t, d), "float32"), eq.input("k", (n, g, d, t), "float32")
    if seed % 2:
        k = eq.input("k", (g, d, t), "float32")
    each = (
        k.reshape((*k.shape[:-2], 1, d, t))
        .broadcast_to((*k.shape[:-3], g, m, d, t))
        .reshape((*k.shape[:-3], g * m, d, t))
    )
    wide = each if r.random() < 0.7 or seed % 2 else k.tile((1, m, 1, 1))
    program = eq.Program([q, k], {"y": eq.matmul(q, wide)})
    for target in TARGETS:
        result = eq.optimize(program, target, "bytes")
        assert equal(program, result.program, seed)
        assert result.bytes_moved == 0 or wide is not each, str(result.program)
        assert result.bytes_moved <= result.initial.bytes_moved


def test_copies_that_no_other_operand_has_stay() -> None:
    """Alone, along a summed axis, in a selection, or of a part: what is computed has these cells."""
    x, b = eq.input("x", (3, 4), "float32"), eq.input("b", (3,), "float32")
    wide = b.reshape((3, 1)).broadcast_to((3, 4))
    for y in (wide.relu(), eq.matmul(x, wide.permute_dims((1, 0))), eq.concat([x, wide], 1), wide + wide):
        program = eq.Program([x, b], {"y": y})
        for target in TARGETS:
            assert equal(program, eq.optimize(program, target, "bytes").program, 0)


def test_copies_of_symbolic_sizes() -> None:
    n = eq.symbol("N", lower=1)
    x, b = eq.input("x", (n, 3, 4), "float32"), eq.input("b", (3, 4), "float32")
    program = eq.Program([x, b], {"y": x * b.broadcast_to((n, 3, 4))})
    result = eq.optimize(program, "onnx", "bytes")
    assert result.bytes_moved == 0 and equal(program, result.program, 1, {"N": 5})


def test_a_frozen_operator_reads_its_copies() -> None:
    x, b = eq.input("x", (3, 4), "float32"), eq.input("b", (4,), "float32")
    program = eq.Program([x, b], {"y": x + b.broadcast_to((3, 4))})
    assert [eq.optimize(program, freeze=f).layout_ops for f in ((), ["add"])] == [0, 1]
