"""Loops that combine into a cell as reductions of tensors: what is taken as one computes what the function does."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.tensors.tensor import Compute
from eqsat.passes.formula import as_formula


def function(body: str, dtype: str = "float32", result: str = "[4]") -> eq.PrimFunc:
    return eq.PrimFunc.parse(f"func f(x: {dtype}[4, 6], y: {dtype}{result})\n" + body)


def rows(first: str, value: str, loop: str = "reduce for k in 6", end: str = "y[i] = t[i]") -> str:
    lines = ["  alloc t: float32[4]", "  for i in 4:", f"    t[i] = {first}", f"    {loop}:", f"      t[i] = {value}"]
    return "\n".join([*lines, "  for i in 4:", f"    {end}"])


TAKEN: dict[str, tuple[str, str]] = {
    "sum": ("sum", rows("float32(0)", "t[i] + x[i, k]")),
    "turned": ("sum", rows("float32(0)", "x[i, k] + t[i]")),
    "product": ("prod", rows("float32(1)", "t[i] * x[i, k]")),
    "greatest": ("max", rows("float32(-inf)", "max(t[i], x[i, k])")),
    "least": ("min", rows("float32(inf)", "min(t[i], x[i, k])")),
    "of products": ("sum", rows("float32(0)", "t[i] + x[i, k] * x[i, 5 - k]")),
    "a mean": ("sum", rows("float32(0)", "t[i] + x[i, k]", end="y[i] = t[i] / float32(6)")),
    "mirrored": ("sum", rows("float32(0)", "t[i] + x[i, k]", end="y[i] = t[3 - i]")),
    "a part": ("sum", rows("float32(0)", "t[i] + x[i, k + 1]", "reduce for k in 5")),
    "of nothing": ("max", rows("float32(-inf)", "max(t[i], x[i, k])", "reduce for k in 0")),
    "under a condition": (
        "sum",
        "  for i in 4:\n    y[i] = float32(0)\n    reduce for k in 6:\n      if k < i:\n        y[i] = y[i] + x[i, k]",
    ),
    "two loops": (
        "sum",
        "  for i in 4:\n    y[i] = float32(0)\n    reduce for k in 2:\n      reduce for l in 3:\n"
        "        y[i] = y[i] + x[i, 3 * k + l]",
    ),
    "first all, then all": (
        "sum",
        "  for i in 4:\n    y[i] = float32(0)\n  for i in 4:\n    reduce for k in 6:\n      y[i] = y[i] + x[i, k]",
    ),
    "some rows": (
        "sum",
        "  for i in 4:\n    y[i] = float32(0)\n  for i in 4:\n    if i < 2:\n      reduce for k in 6:\n"
        "        y[i] = y[i] + x[i, k]",
    ),
    "outside of loops over cells": (
        "sum",
        "  for i in 4:\n    y[i] = float32(0)\n  reduce for k in 6:\n    for i in 4:\n      y[i] = y[i] + x[i, k]",
    ),
    "between loops over cells": (
        "sum",
        "  for i in 4:\n    y[i] = float32(0)\n  reduce for k in 2:\n"
        "    for i in 4:\n      reduce for l in 3:\n        if k < 1:\n          y[i] = y[i] + x[i, 3 * k + l]",
    ),
    "with a promise": (
        "sum",
        "  assume x[0, 0] < float32(9)\n  for i in 4:\n    y[i] = float32(0)\n    reduce for k in 6:\n"
        "      y[i] = y[i] + x[i, k]",
    ),
}
STAYS: dict[str, str] = {
    "an order of floats": rows("float32(0)", "t[i] + x[i, k]", "for k in 6"),
    "a first number": rows("float32(2)", "t[i] + x[i, k]"),
    "a first number that counts": rows("float32(-0.0)", "t[i] + x[i, k]"),
    "a first number of data": rows("x[i, 0]", "max(t[i], x[i, k])"),
    "the least float": rows("float32(-3.0e38)", "max(t[i], x[i, k])"),
    "less": rows("float32(0)", "t[i] - x[i, k]"),
    "an order around cells": (
        "  for i in 4:\n    y[i] = float32(0)\n  for k in 6:\n    for i in 4:\n      y[i] = y[i] + x[i, k]"
    ),
    "what another iteration writes": (
        "  alloc t: float32[4]\n  for i in 4:\n    t[i] = float32(1)\n  for i in 4:\n    t[i] = x[i, 0]\n"
        "    y[i] = t[3 - i]"
    ),
    "itself": rows("float32(0)", "t[i] + t[i] * x[i, k]"),
    "another cell": rows("float32(0)", "t[i] + t[3 - i]"),
    "a condition on itself": (
        "  for i in 4:\n    y[i] = float32(0)\n    reduce for k in 6:\n      if y[i] < float32(9):\n"
        "        y[i] = y[i] + x[i, k]"
    ),
    "more than that": (
        "  for i in 4:\n    y[i] = float32(0)\n    reduce for k in 6:\n      y[i] = y[i] + x[i, k]\n"
        "      y[i] = y[i] + x[i, 0]"
    ),
    "nothing before": "  for i in 4:\n    reduce for k in 6:\n      y[i] = y[i] + x[i, k]",
    "twice": (
        "  for i in 4:\n    y[i] = float32(0)\n    reduce for k in 6:\n      y[i] = y[i] + x[i, k]\n"
        "    reduce for k in 6:\n      y[i] = y[i] + x[i, k]"
    ),
}


def check(func: eq.PrimFunc, program: eq.Program, x: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    decl = func.buffer_map["y"]
    y = np.full([d for d in decl.shape if isinstance(d, int)], 77, decl.dtype)
    run_primfunc(func, {"x": x.copy(), "y": y}, track=True)
    np.testing.assert_array_equal(eq.evaluate(program, {"x": x} if program.inputs else {}), y, str(func))


# feature: G17
@pytest.mark.parametrize("name", TAKEN)
def test_loops_that_combine_are_reductions(name: str) -> None:
    combiner, body = TAKEN[name]
    func = function(body)
    program = as_formula(func)
    assert [n.combiner for n in program.nodes() if isinstance(n, Compute) and n.combiner] == [combiner]
    check(func, program, np.random.default_rng(0).integers(-4, 5, (4, 6)).astype("float32"))


@pytest.mark.parametrize("name", STAYS)
def test_other_loops_are_none(name: str) -> None:
    with pytest.raises(eq.ScheduleError, match="as_formula"):
        as_formula(function(STAYS[name]))


def test_whole_numbers_are_combined_in_any_order() -> None:
    body = "  for i in 4:\n    y[i] = int8(1)\n    for k in 6:\n      y[i] = y[i] * x[i, k]"
    func = function(body, "int8")
    check(func, as_formula(func), np.random.default_rng(0).integers(-128, 128, (4, 6)).astype("int8"))


SOFTMAX = """  alloc t: float32[4]
  alloc s: float32[4]
  for i in 4:
    t[i] = float32(-inf)
    reduce for k in 6:
      t[i] = max(t[i], x[i, k])
  for i in 4:
    s[i] = float32(0)
    reduce for k in 6:
      s[i] = s[i] + exp(x[i, k] - t[i])
  for i in 4:
    for j in 6:
      y[i, j] = exp(x[i, j] - t[i]) / s[i]"""


PRODUCT = """\
func product(A: float32[3, 4], B: float32[4, 5], C: float32[3, 5])
  for i in 3:
    for z in 5:
      C[i, z] = float32(0.0)
    reduce for k in 4:
      for j in 5:
        C[i, j] = C[i, j] + A[i, k]*B[k, j]"""


# feature: G17
def test_a_product_row_by_row_is_one() -> None:
    a, b = eq.input("A", (3, 4), "float32"), eq.input("B", (4, 5), "float32")
    y = eq.call(eq.PrimFunc.parse(PRODUCT), {"A": a, "B": b.permute_dims((1, 0)).permute_dims((1, 0))})["C"]
    found = eq.optimize(y)
    assert found.layout_ops == 0 and [n.combiner for n in found.program.nodes() if isinstance(n, Compute)] == ["sum"]
    assert eq.verify(y, found.program).verdict == eq.verify(y, a @ b).verdict == "proved"


# feature: G17
def test_layouts_cross_functions_that_reduce() -> None:
    func = function(SOFTMAX, result="[4, 6]")
    x = eq.input("x", (6, 4), "float32")
    y = eq.call(func, {"x": x.permute_dims((1, 0))})["y"].permute_dims((1, 0))
    found = eq.optimize(y)
    assert found.layout_ops == 0 and found.cost_before > 0
    assert any("in any order" in note for note in found.notes)
    a = np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    np.testing.assert_allclose(eq.evaluate(found.program, {"x": a}), eq.evaluate(y, {"x": a}), rtol=1e-5)
    straight = eq.call(func, {"x": eq.input("x", (4, 6), "float32")})["y"]
    (m,) = eq.flow_layout(straight, "i, j -> i//2, j, i%2").values()
    assert m is not None and m.is_equivalent_to(eq.IndexMap.parse("i, j -> i//2, j, i%2"), (4, 6))


def test_layouts_that_differ_by_way_of_a_reduction_are_none() -> None:
    end = "for j in 6:\n      y[i, j] = x[i, j] / t[i]"
    body = rows("float32(0)", "t[i] + x[k, i]", "reduce for k in 4", end)
    func = function(body, result="[4, 6]")
    y = eq.call(func, {"x": eq.input("x", (4, 6), "float32")})["y"]
    assert list(eq.flow_layout(y, "i, j -> i//2, j, i%2").values()) == [None]


# -- random functions --------------------------------------------------------------------------------------------------

FIRST = {"+": "0", "*": "1", "max": "-inf", "min": "inf"}


def random_function(seed: int) -> eq.PrimFunc:
    """Rows that are combined by stages, each of what was combined before, some of them with a slip."""
    draw = Random(seed)
    known, lines = list[str](), ["func f(x: float32[3, 4], y: float32[3])", *(f"  alloc {n}: float32[3]" for n in "tu")]
    for name in [*(draw.choice("tuy") for _ in range(draw.randint(0, 3))), "y"]:
        op = draw.choice(list(FIRST))
        first = FIRST[op] if draw.random() < 0.85 else draw.choice(list(FIRST.values()))
        index = draw.choice(["i, k", "i, k", "i, 3 - k", "2 - i, k", "i, 0"])
        term = f"x[{index}]"
        if known and draw.random() < 0.6:
            term = f"({term} {draw.choice('+-*')} {draw.choice(known)}[{draw.choice(['i', 'i', '2 - i'])}])"
        cell = f"{name}[i]"
        value = f"{op}({cell}, {term})" if op in ("max", "min") else f"{cell} {op} {term}"
        test = draw.choice(["", "", "", f"k < {draw.randint(0, 4)}", "i < k", f"x[{index}] < float32(0)"])
        marked = "reduce " * (draw.random() < 0.9)
        inside = [f"      if {test}:"] if test else []
        lines += ["  for i in 3:", f"    {cell} = float32({first})"]
        if draw.random() < 0.3:
            lines += [f"  {marked}for k in 4:", "    for i in 3:", *inside]
        else:
            lines += [*(["  for i in 3:"] * draw.randint(0, 1)), f"    {marked}for k in 4:", *inside]
        lines.append(f"      {'  ' * bool(test)}{cell} = {value}")
        if draw.random() < 0.4:
            lines += ["  for i in 3:", f"    {cell} = {cell} + float32({draw.randint(-1, 1)})"]
        known = [*dict.fromkeys([*known, name])]
    return eq.PrimFunc.parse("\n".join(lines))


# feature: G17
@pytest.mark.parametrize("seeds", [range(120), pytest.param(range(120, 6000), marks=pytest.mark.slow)], ids=len)
def test_random_rows(seeds: range) -> None:
    found = 0
    for seed in seeds:
        func = random_function(seed)
        try:
            program = as_formula(func)
        except eq.ScheduleError:
            continue
        found += 1
        x = np.random.default_rng(seed).integers(-2, 3, (3, 4)).astype("float32")
        y = np.full(3, 77, "float32")
        with np.errstate(all="ignore"):
            run_primfunc(func, {"x": x.copy(), "y": y}, track=True)
            made = eq.evaluate(program, {"x": x} if program.inputs else {})
        np.testing.assert_allclose(made, y, rtol=1e-5, err_msg=str(func))
    assert found > len(seeds) / 4


# -- sizes ------------------------------------------------------------------------------------------------------------

SIZED = """func f(x: float32[N, M], y: float32[N])
  symbol N
  symbol M
  for i in N:
    y[i] = float32(0)
    reduce for k in M:
      y[i] = y[i] + x[i, M - 1 - k]"""


# feature: G17
def test_a_function_of_sizes_is_a_formula_whether_or_not_a_call_knows_them() -> None:
    func = eq.PrimFunc.parse(SIZED)
    x = eq.input("x", (7, 5), "float32")
    y = eq.call(func, {"x": x.permute_dims((1, 0))})["y"]
    found = eq.optimize(y)
    assert found.layout_ops == 0 and any("in any order" in note for note in found.notes)
    a = np.random.default_rng(0).normal(size=(7, 5)).astype("float32")
    np.testing.assert_allclose(eq.evaluate(found.program, {"x": a}), a.sum(0), rtol=1e-5)
    n = eq.symbol("N", lower=1)
    unsized = eq.call(func, {"x": eq.input("x", (7, n), "float32").permute_dims((1, 0))})["y"]
    found = eq.optimize(unsized)
    assert found.layout_ops == 0 and "call:f" not in str(found.program)
    for program in (unsized, found.program):
        np.testing.assert_allclose(eq.evaluate(program, {"x": a}), a.sum(0), rtol=1e-5)
        np.testing.assert_allclose(eq.compile(program)(x=a), a.sum(0), rtol=1e-5)
    assert eq.verify(unsized, found.program).verdict == "proved"
