"""Tensor programs as functions over buffers: the interface as declared, and the meaning of the program."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_checks import assert_same, sample
from program_functions import program_function

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.stmt import Alias, statements
from eqsat.ir.tensors.tensor import Tensor, constant


def some(x: Tensor) -> dict[str, Tensor]:
    packed = (x + 1).layout_transform("i, j -> i, j//4, j%4", pad_value=0)
    weights = constant(np.arange(7, dtype="float32"))
    return {
        "packed": packed, "rows": x.softmax(1), "total": (x * weights).sum((0, 1)), "turned": x.permute_dims((1, 0)),
        "taken": x.take([3, 0, 3], 1),
    }  # fmt: skip


@pytest.mark.parametrize("target", ["interpreter", "c"])
def test_a_program_is_a_function_with_its_own_interface(target: str) -> None:  # feature: B12
    x = eq.input("x", (5, 7), "float32")
    outputs = some(x)
    made = program_function(eq.Program([x], outputs))
    func = made.func
    assert func.buffer_map["x"].shape == (5, 7) and func.buffer_map["packed"].shape == (5, 2, 4)
    flat = {s.buffer.name: (s.data, s.buffer.shape) for s in statements(func.body) if isinstance(s, Alias)}
    assert flat["x_flat"] == ("x", (35,)) and flat["packed_flat"] == ("packed", (40,))
    arrays: dict[str, NDArray] = {"x": sample((5, 7), "float32")}
    want = eq.evaluate(eq.Program([x], outputs), arrays)
    arrays |= {n: np.full(y.shape, -7, "float32") for n, y in outputs.items()}  # pyright: ignore
    arrays |= {n: np.ravel(a) for n, a in made.constants.items()}
    if target == "c":
        eq.compile(func)(arrays)
    else:
        run_primfunc(func, arrays, track=True)
    for name in outputs:
        assert_same(arrays[name], want[name], name in ("rows", "total"), name)


def test_what_is_no_function_is_refused() -> None:
    x = eq.input("x", (3,), "float32")
    with pytest.raises(BackendError, match="'x' is an input and an output"):
        program_function(eq.Program([x], {"x": x + 1}))
    with pytest.raises(BackendError, match="'a b' is no identifier"):
        program_function(eq.Program([x], {"a b": x + 1}))
    (y,) = [eq.opaque("Odd", [x], [((3,), "float32")], impl=np.negative)]
    with pytest.raises(BackendError, match="operator Odd runs in Python"):
        program_function(eq.Program([x], {"y": y if isinstance(y, Tensor) else y[0]}))
