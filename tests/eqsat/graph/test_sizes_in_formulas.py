"""Formulas that compute with sizes that are not known: what evaluates numbers on the way leaves them alone."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.tensors.tensor import as_program

BYTES, OTHERS = eq.input("x", (8,), "int8"), eq.input("y", (8,), "int8")
SIZE = eq.symbol("N", lower=0)
SIZED = eq.compute((8,), lambda i: BYTES[i] + eq.cast(SIZE, "int8"))
CHOSEN = eq.compute((8,), lambda i: eq.where(i < SIZE, BYTES[i], OTHERS[i]))
ROWS = eq.input("rows", (2, 8), "int8")
COMPUTED: dict[str, eq.Tensor] = {
    "the border of a mean": eq.input("z", (3, SIZE), "int8").pad(((1, 1), (0, 0)), 0).mean(1),
    "a part of a selection": CHOSEN.crop((0,), (4,)),
    "a selection in another layout": CHOSEN.reshape((2, 4)).permute_dims((1, 0)),
    "conversions there and back": eq.cast(eq.cast(SIZED, "int16"), "int8").flip(0),
    "zeros times a size": eq.compute(
        (4,), lambda i, k: ROWS.pad(((1, 1), (0, 0)), 0)[i, k] * eq.cast(SIZE, "int8"), reduce=(8,)
    ),
    "zeros from a size on": eq.compute(
        (4,), lambda i, k: eq.where(k < SIZE, ROWS.pad(((1, 1), (0, 0)), 0)[i, k], 0), reduce=(8,)
    ),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_formulas_that_compute_with_a_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is evaluated on the way has no value for the size: nothing follows from it then, and nothing fails."""
    monkeypatch.setenv("EQSAT_DEBUG", "1")
    beside = eq.input("beside", (SIZE,), "int8")
    inputs = [*as_program(COMPUTED[name]).inputs, beside]
    program = eq.Program(inputs, {"a": COMPUTED[name], "b": beside + beside})
    found = eq.optimize(program)
    for n in (0, 1, 5, 9):
        rng = np.random.default_rng(n)
        shapes = {x.name: [d if isinstance(d, int) else n for d in x.shape] for x in inputs}
        feeds = {k: rng.integers(-128, 128, shape).astype("int8") for k, shape in shapes.items()}
        with np.errstate(all="ignore"):
            one, other = eq.evaluate(program, feeds), eq.evaluate(found.program, feeds)
        np.testing.assert_array_equal(one["a"], other["a"])
