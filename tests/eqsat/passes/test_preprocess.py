"""Work on constants hoisted out: a matrix product whose weights are packed first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.run import run_primfunc
from eqsat.passes.overcompute import overcompute
from eqsat.passes.preprocess import hoist_preprocessing
from eqsat.passes.recognise import as_view

MATMUL = """\
func matmul(X: int32[3, 14], W: int32[14, 5], Y: int32[3, 5])
  alloc packed: int32[4, 5, 4]
  for z in 3:
    for w in 5:
      Y[z, w] = int32(0)
  for ko in 4:
    for n in 5:
      for ki in 4:
        if 4*ko + ki < 14:
          packed[ko, n, ki] = W[4*ko + ki, n]
        else:
          packed[ko, n, ki] = int32(0)
  for i in 3:
    for j in 5:
      for k in 14:
        Y[i, j] = Y[i, j] + X[i, k]*packed[k // 4, j, k % 4]"""


def run_both(first: PrimFunc, second: PrimFunc, arrays: dict[str, NDArray], made: str) -> None:
    """The two functions after each other, on one memory for what the first makes."""
    decl = first.buffer_map[made]
    both = arrays | {made: np.full([int(n) for n in decl.shape if isinstance(n, int)], 99, decl.dtype)}
    run_primfunc(first, {n: both[n] for n in first.params}, track=True)
    run_primfunc(second, {n: both[n] for n in second.params}, track=True)


# feature: G15
def test_packed_weights_are_a_function_of_their_own() -> None:
    """It stands behind another statement; the first half is a layout, the second is told the padding."""
    func = PrimFunc.parse(MATMUL)
    prepack, main = hoist_preprocessing(func, ["W"])
    assert prepack.params == ("W", "packed") and main.params == ("X", "Y", "packed")
    assert "W" not in str(main).replace("W:", "") and "assume" in str(main)
    assert "pack" in str(as_view(prepack)) or "view" in str(as_view(prepack))
    rng = np.random.default_rng(0)
    for _ in range(2):
        arrays = {"X": rng.integers(-9, 9, (3, 14)), "W": rng.integers(-9, 9, (14, 5)), "Y": np.zeros((3, 5))}
        one = {n: a.astype("int32") for n, a in arrays.items()}
        two = {n: a.copy() for n, a in one.items()}
        run_primfunc(func, one)
        run_both(prepack, main, two, "packed")
        assert np.array_equal(one["Y"], two["Y"]) and np.array_equal(one["Y"], one["X"] @ one["W"])


# feature: G15, E17
def test_the_branch_of_the_main_function_goes_by_what_was_packed() -> None:
    padded = MATMUL.replace("for k in 14:", "for k in 16:\n        if k < 14:").replace(
        "X: int32[3, 14]", "X: int32[3, 16]"
    )
    padded = padded.replace("        Y[i, j] = Y[i, j] + X", "          Y[i, j] = Y[i, j] + X")
    _, main = hoist_preprocessing(PrimFunc.parse(padded), ["W"])
    assert [str(test) for test in overcompute(main).changed] == ["k < 14"]


# feature: G15
@pytest.mark.parametrize(
    ("change", "constants", "message"),
    [
        (("", ""), ["X"], "reads packed"),
        (("", ""), ["Q"], "there is no parameter 'Q'"),
        (("", ""), ["Y"], "Y is written"),
        (("packed[ko, n, ki] = W", "packed[ko, n, ki] = X[0, 0]*W"), ["W"], "reads X"),
        (
            ("Y[z, w] = int32(0)", "packed[0, 0, 0] = int32(3)\n      Y[z, w] = packed[0, 0, 0]"),
            ["W"],
            "packed, which is used",
        ),
        (("  for i in 3:\n", "  packed[0, 0, 0] = X[0, 0]\n  for i in 3:\n"), ["W"], "packed, which is used"),
    ],
)
def test_what_is_not_constant_stays(change: tuple[str, str], constants: list[str], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        hoist_preprocessing(PrimFunc.parse(MATMUL.replace(*change)), constants)


@pytest.mark.parametrize("constants", ["W", None, 5, [3]])
def test_constants_are_a_list_of_names(constants: Any) -> None:
    with pytest.raises(ScheduleError, match=r"is no list|is no text"):
        hoist_preprocessing(PrimFunc.parse(MATMUL), constants)


def test_the_halves_are_compiled() -> None:
    prepack, main = hoist_preprocessing(PrimFunc.parse(MATMUL), ["W"])
    x, w = np.arange(42, dtype="int32").reshape(3, 14), np.arange(70, dtype="int32").reshape(14, 5)
    packed, y = np.full((4, 5, 4), 7, "int32"), np.full((3, 5), 7, "int32")
    eq.compile(prepack)({"W": w, "packed": packed})
    for _ in range(2):
        eq.compile(main)({"X": x, "Y": y, "packed": packed})
        assert np.array_equal(y, x @ w)
