"""Views without digits, of large and of symbolic sizes, move, compose and cancel as any others do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from seeds import each_value
from swizzles import SWIZZLES, gathered, lower_triangle

import eqsat as eq
from eqsat.engine import Limits
from eqsat.graph.encode import encode
from eqsat.ir.tensors.bind import program_symbols
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Tensor, as_program
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, static_shape

N, M = t.sym("N", 1), t.sym("M", 1)
SHAPES: dict[str, Shape] = {"symbolic": (8 * N, 8 * M), "one symbol": (8 * N, 64), "large": (4096, 4096)}
LIMITS = Limits(nodes=3000, seconds=20, iterations=60)


@each_value(name=SWIZZLES, size=SHAPES)
def test_what_is_undone_moves_nothing(name: str, size: str) -> None:
    swizzle, x = SWIZZLES[name], eq.input("x", SHAPES[size], "float32")
    for y in (swizzle.undo(swizzle(x)), swizzle.undo(swizzle(x).relu())):
        result = eq.optimize(y, limits=LIMITS)
        assert result.cost_before > result.cost_after == 0
        assert not encode(as_program(y)).cuts


def test_two_views_become_one() -> None:
    x = eq.input("x", SHAPES["symbolic"], "float32")
    for y in (SWIZZLES["skew"](SWIZZLES["skew"](x)), lower_triangle(lower_triangle(x)), SWIZZLES["xor"](x.flip(1))):
        result = eq.optimize(y, limits=LIMITS)
        assert result.cost_after * 2 == result.cost_before


def test_reshapes_between_permutations_are_seen_through() -> None:
    """What is turned and turned back moves nothing, whatever lies between; reshapes alone never do."""
    x = eq.input("x", (600, 3500), "float32")
    y = x.permute_dims((1, 0)).reshape((1400, 1500)).permute_dims((1, 0)).reshape((3000, 700)).permute_dims((1, 0))
    z = y.permute_dims((1, 0)).reshape((1500, 1400)).permute_dims((1, 0)).reshape((3500, 600)).permute_dims((1, 0))
    result = eq.optimize(z)
    assert result.cost_after == 0 and not result.notes
    assert eq.optimize(x.reshape((1400, 1500))).cost_before == 0


def step(draw: st.DrawFn, x: Tensor) -> Tensor:
    """One view or operator more."""
    kind = draw(st.sampled_from([*SWIZZLES, "triangle", "turned", "flip", "halves", "relu", "pad", "crop", "sum"]))
    n, m = x.shape
    if kind in SWIZZLES and kind != "xor":
        return draw(st.sampled_from([SWIZZLES[kind], SWIZZLES[kind].undo]))(x)
    if kind == "xor" and str(m) in ("16", "8*N", "8*M"):
        return SWIZZLES["xor"](x)
    if kind == "halves":
        return gathered(x, lambda i, j: (i // 2 * 2, j), lambda i, j: t.compare("lt", i % 2, 1))
    views: dict[str, Callable[[Tensor], Tensor]] = {
        "triangle": lower_triangle,
        "turned": lambda x: x.permute_dims((1, 0)),
        "flip": lambda x: x.flip(1),
        "relu": lambda x: x.relu(),
        "pad": lambda x: x.pad(((0, 2), (0, 0))),
        "crop": lambda x: x.crop((0, 0), (draw(st.sampled_from([n, 1])), m)),
        "sum": lambda x: x + x,
    }
    return x if kind == "xor" else views[kind](x)


@st.composite
def programs(draw: st.DrawFn, most: int = 6) -> Tensor:
    """Chains of swizzles and other views over two symbolic sizes or one."""
    x = eq.input("x", draw(st.sampled_from([(8 * N, 8 * M), (8 * N, 16), (N, 16), (N, M), (6, 8 * N)])), "int32")
    for _ in range(draw(st.integers(1, most))):
        x = step(draw, x)
    return x


def check(y: Tensor, target: str) -> None:
    """Optimised once, a program computes the same at several sizes."""
    program = as_program(y)
    result = eq.optimize(program, target, limits=LIMITS)
    assert result.final.rank <= result.initial.rank
    for sizes in ({N: 1, M: 1}, {N: 2, M: 3}, {N: 5, M: 2}):
        before, after = (p.bind({s: sizes[s] for s in program_symbols(p)}) for p in (program, result.program))
        shape = static_shape(before.inputs[0].shape)
        assert shape is not None
        x = np.arange(np.prod(shape), dtype=np.int32).reshape(shape) - 7
        expected, found = (evaluate_outputs(p, {"x": x}) for p in (before, after))
        for name, array in expected.items():
            assert np.array_equal(array, found[name]), f"{sizes}\n{program}\n{result.program}"


@settings(max_examples=4)
@given(programs(3), st.sampled_from(["c", "onnx"]))
def test_programs_are_right_at_every_size(y: Tensor, target: str) -> None:
    check(y, target)


@pytest.mark.slow
@pytest.mark.timeout(0)
@settings(max_examples=300)
@given(programs(), st.sampled_from(["c", "onnx"]))
def test_many_programs_are_right_at_every_size(y: Tensor, target: str) -> None:
    check(y, target)
