"""Functions that work row by row in buffers that each row fills anew are formulas, unless a row reads another's."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.tensors.tensor import Compute
from eqsat.ir.terms.walk import nodes_of
from eqsat.passes.own_cells import with_own_cells

ATTENTION = """\
func attention(Q: float32[5, 3], K: float32[3, 6], V: float32[6, 4], O: float32[5, 4])
  alloc S: float32[6]
  alloc most: float32[1]
  for i in 5:
    for z in 6:
      S[z] = float32(0.0)
    reduce for d in 3:
      for k in 6:
        S[k] = S[k] + Q[i, d]*K[d, k]
    most[0] = float32(-inf)
    for m in 6:
      most[0] = max(most[0], S[m])
    alloc total: float32[1]
    total[0] = float32(0.0)
    reduce for e in 6:
      S[e] = exp(S[e] - most[0])
      total[0] = total[0] + S[e]
    for y in 4:
      O[i, y] = float32(0.0)
    reduce for n in 6:
      for o in 4:
        O[i, o] = O[i, o] + S[n]*V[n, o]
    for w in 4:
      O[i, w] = O[i, w] / total[0]""".replace("    for m", "    reduce for m")


# feature: G17
def test_attention_row_by_row_is_softmax_of_products() -> None:
    shapes = {"Q": (5, 3), "K": (3, 6), "V": (6, 4)}
    q, k, v = (eq.input(n, s, "float32") for n, s in shapes.items())
    y = eq.call(eq.PrimFunc.parse(ATTENTION), {"Q": q.permute_dims((1, 0)).permute_dims((1, 0)), "K": k, "V": v})["O"]
    found = eq.optimize(y)
    assert found.layout_ops == 0 and "call:" not in str(found.program)
    rng = np.random.default_rng(0)
    feeds = {n: rng.normal(size=s).astype("float32") for n, s in shapes.items()}
    np.testing.assert_allclose(eq.evaluate(found.program, feeds), eq.evaluate(y, feeds), rtol=1e-5)
    assert eq.verify(y, found.program).verdict == "proved"
    wrong = eq.call(eq.PrimFunc.parse(ATTENTION.replace("S[n]*V", "S[5 - n]*V")), {"Q": q, "K": k, "V": v})["O"]
    assert eq.verify(wrong, found.program).verdict == "refuted"


# feature: G17
def test_what_is_computed_of_a_buffer_is_computed_once() -> None:
    """A product of what is computed has it in a tensor of its own, not in each of its terms."""
    program = eq.as_formula(eq.PrimFunc.parse(ATTENTION))
    found = [len(nodes_of("exp", n.body)) for n in program.nodes() if isinstance(n, Compute)]
    assert sum(found) == 1


# feature: G17
def test_loops_over_the_first_cells_leave_the_others() -> None:
    func = eq.PrimFunc.parse("""\
func f(x: int8[3, 4], y: int8[3])
  alloc s: int8[4]
  for i in 3:
    for k in 4:
      s[k] = x[i, k]
    for k in 2:
      s[k] = s[k] + s[k]
    y[i] = int8(0)
    for k in 4:
      y[i] = y[i] + s[k]""")
    x = np.arange(12, dtype="int8").reshape(3, 4)
    np.testing.assert_array_equal(eq.evaluate(eq.as_formula(func), {"x": x}), (x * [2, 2, 1, 1]).sum(1))
    with pytest.raises(eq.ScheduleError, match="as_formula"):
        eq.as_formula(
            eq.PrimFunc.parse(str(func).replace("for k in 4:\n      s[k] = x", "for k in 3:\n      s[k] = x"))
        )


ACROSS = {
    "a scan": "alloc s: int8[1]\n  s[0] = int8(0)\n  for i in 3:\n    s[0] = s[0] + x[i, 0]\n    y[i] = s[0]",
    "the last row": (
        "alloc s: int8[4]\n  for i in 3:\n    for k in 4:\n      s[k] = x[i, k]\n  for i in 3:\n    y[i] = s[i]"
    ),
    "a cell of the row before": (
        "alloc s: int8[2]\n  s[0] = int8(0)\n  for i in 3:\n    s[1] = x[i, 0]\n    y[i] = s[0]\n    s[0] = s[1]"
    ),
    "where data say so": (
        "alloc s: int8[1]\n  for i in 3:\n    if x[i, 0] < int8(3):\n      s[0] = x[i, 1]\n    y[i] = s[0]"
    ),
}


@pytest.mark.parametrize("case", ACROSS)
def test_what_a_row_leaves_for_the_next_is_no_formula(case: str) -> None:
    with pytest.raises(eq.ScheduleError, match="as_formula"):
        eq.as_formula(eq.PrimFunc.parse(f"func f(x: int8[3, 4], y: int8[3])\n  {ACROSS[case]}"))


def row_by_row(seed: int) -> eq.PrimFunc:
    """A function whose rows use cells of local buffers, declared outside or inside of their loop; some not filled."""
    draw = Random(seed)
    inside = draw.random() < 0.4
    lines = ["    alloc s: int8[1]", "    alloc t: int8[4]"] if inside else []
    known: list[str] = ["x[i, {}]"]

    def value(k: str) -> str:
        one, other = (draw.choice(known).format(draw.choice([k, k, "1", "3 - i"])) for _ in "ab")
        return draw.choice([one, f"{one} + {other}", f"max({one}, {other})"])

    for _ in range(draw.randint(1, 5)):
        name = draw.choice("st")
        if name == "t":
            lines += ["    for k in 4:", *(["      if k < 3:", "  " + "  " * 0] if draw.random() < 0.1 else [])]
            lines = [line for line in lines if line.strip()]
            deep = "  " * lines[-1].startswith("      if")
            lines.append(f"{deep}      t[k] = {value('k')}")
            known.append("t[{}]")
        elif draw.random() < 0.5:
            lines += ["    s[0] = int8(0)"] * (draw.random() < 0.85)
            lines += ["    for k in 4:", f"      s[0] = s[0] + {value('k')}"]
            known.append("s[0]")
        else:
            lines.append(f"    s[0] = {value('2')}")
            known.append("s[0]")
    outside = [] if inside else ["  alloc s: int8[1]", "  alloc t: int8[4]"]
    if not inside and draw.random() < 0.4:
        outside += ["  s[0] = int8(0)", "  for k in 4:", "    t[k] = int8(1)"]
    return eq.PrimFunc.parse(
        "\n".join(["func f(x: int8[3, 4], y: int8[3])", *outside, "  for i in 3:", *lines, f"    y[i] = {value('0')}"])
    )


# feature: G17
@pytest.mark.parametrize("seeds", [range(80), pytest.param(range(80, 5000), marks=pytest.mark.slow)], ids=len)
def test_random_rows(seeds: range) -> None:
    found = 0
    for seed in seeds:
        func = row_by_row(seed)
        x, y, z = np.random.default_rng(seed).integers(-9, 9, (3, 4)).astype("int8"), *np.zeros((2, 3), "int8")
        try:
            program = eq.as_formula(func)
        except eq.ScheduleError:
            continue
        found += 1
        run_primfunc(func, {"x": x.copy(), "y": y}, track=True)
        made = eq.evaluate(program, {"x": x} if program.inputs else {})
        np.testing.assert_array_equal(made, y, str(func))
        run_primfunc(with_own_cells(func), {"x": x.copy(), "y": z}, track=True)
        np.testing.assert_array_equal(z, y, str(func))
    assert found > len(seeds) / 4


def test_a_row_that_reads_what_it_did_not_fill_has_no_value_then() -> None:
    scan = ACROSS["a scan"].replace(
        "  s[0] = int8(0)\n  for i in 3:", "  for i in 3:\n    if i == 0:\n      s[0] = int8(0)"
    )
    func = eq.PrimFunc.parse(f"func f(x: int8[3, 4], y: int8[3])\n  {scan}")
    with pytest.raises(EvaluationError, match="unknown"):
        run_primfunc(with_own_cells(func), {"x": np.zeros((3, 4), "int8"), "y": np.zeros(3, "int8")}, track=True)
