"""Loads are shown to be in range from what guards say about positions, whatever they also say about data."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.backends.compile import compile
from eqsat.ir import pointwise
from eqsat.ir import term as t
from eqsat.ir.errors import BoundsError
from eqsat.ir.run import evaluate
from eqsat.ir.tensor import compute, input


def test_a_load_that_is_guarded_beside_a_condition_on_data() -> None:
    x = input("x", (2, 2), "float32")
    padded = x.pad(((0, 0), (0, 1)))
    y = pointwise.where(padded < padded * 2.0 + 1.0, padded, -padded)
    a = np.array([[1, -3], [0, 2]], np.float32)
    assert np.array_equal(compile(y)({"x": a}), evaluate(y, {"x": a}))


def test_a_condition_on_data_alone_guards_nothing() -> None:
    x = input("x", (4,), "float32")
    y = compute((8,), lambda i: t.where(x[t.binary("min", i, 3)] < 0.0, x[i], t.const(0, "float32")))
    with pytest.raises(BoundsError, match="may leave its buffer"):
        compile(y)
