"""Parameters in other layouts: moved once, by a program of their own, and free in each call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.engine import measure
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.program_json import program_from_json, program_to_json
from eqsat.ir.tensors.tensor import Input, Program, Tensor
from eqsat.ir.terms.shape import require_static

Run = Callable[[Program], Callable[[dict[str, NDArray]], Any]]
BLOCKED = ["NCHW -> NCHW4c", "OIHW -> OIHW4i4o", "NCHW -> NCHW4c"]


def weight(name: str, shape: tuple[int, ...]) -> Tensor:
    return eq.input(name, shape, "float32", parameter=True)


def arrays(program: Program) -> dict[str, NDArray]:
    r = np.random.default_rng(5)
    return {x.name: r.standard_normal(require_static(x.shape, "test")).astype(np.float32) for x in program.inputs}


def run_in_two(parts: tuple[Program, Program], given: dict[str, NDArray], run: Run) -> Any:
    """What the second program makes of the results of the first."""
    ahead, main = parts
    made = run(ahead)({x.name: given[x.name] for x in ahead.inputs})
    packed: dict[str, NDArray] = {next(iter(ahead.outputs)): made} if len(ahead.outputs) == 1 else made
    return run(main)({x.name: packed[x.name] if x.name in packed else given[x.name] for x in main.inputs})


def numpy(program: Program) -> Callable[[dict[str, NDArray]], Any]:
    def call(given: dict[str, NDArray]) -> Any:
        return eq.evaluate(program, given)

    return call


# feature: G25
@pytest.mark.parametrize("run", [numpy, eq.compile])
def test_parameters_are_laid_once(run: Run) -> None:
    x, w = eq.input("x", (1, 8, 6, 6), "float32"), weight("w", (8, 8, 3, 3))
    program = eq.Program([x, w], {"y": eq.conv2d(eq.conv2d(x, w, padding=1).relu(), w, padding=1)})
    result = eq.optimize(program, freeze={"conv2d": BLOCKED})
    assert result.layout_ops == 2 and not [m for m in result.left if "w" in m.source]
    ahead, main = parts = result.prepack()
    assert [x.name for x in ahead.inputs] == ["w"] and list(ahead.outputs) == ["w_packed"]
    assert [x.name for x in main.inputs] == ["x", "w_packed"]
    assert measure(main).layout_ops == 2
    given = arrays(program)
    found = run_in_two(parts, given, run)
    assert np.allclose(found, eq.evaluate(program, given), rtol=1e-4, atol=1e-4)


# feature: G25
def test_a_parameter_takes_the_layout_change_of_what_it_meets() -> None:
    """The other operand could move as well; the parameter does so for nothing."""

    def net(parameter: bool) -> Program:
        x, w = eq.input("x", (6, 8), "float32"), eq.input("w", (8, 6), "float32", parameter=parameter)
        return eq.Program([x, w], {"y": (x.relu() + w.permute_dims((1, 0))).sum(0)})

    assert [eq.optimize(net(p)).layout_ops for p in (False, True)] == [1, 0]
    assert [eq.optimize(net(p), "onnx").initial.bytes_moved for p in (False, True)] == [384, 0]


# feature: G25
def test_parts_of_programs_and_names() -> None:
    """Parameters in several layouts and as they are, constants, outputs of parameters alone, names that are taken."""
    x, w, b, other = eq.input("x", (4, 6), "float32"), weight("w", (6, 4)), weight("b", (4,)), weight("w_packed", (6,))
    turned = w.permute_dims((1, 0))
    y = (x * turned + b.reshape((4, 1)) + x * turned.flip((0,)) + other).sum() + w.sum()
    program = eq.Program([x, w, b, other], {"y": y, "t": turned, "one": eq.constant(np.float32(1))})
    ahead, main = parts = eq.optimize(program).prepack()
    assert all(not x.name.startswith("w_packed") or x.name == "w_packed" for x in ahead.inputs)
    assert "w_packed2" in ahead.outputs and set(ahead.outputs) == {x.name for x in main.inputs} - {"x"}
    given = arrays(program)
    found, expected = run_in_two(parts, given, numpy), eq.evaluate(program, given)
    assert all(np.allclose(found[k], expected[k], rtol=1e-4, atol=1e-4) for k in expected)


# feature: G25
def test_what_has_no_parameters_is_one_program() -> None:
    x = eq.input("x", (4, 6), "float32")
    ahead, main = eq.optimize(x.permute_dims((1, 0)).relu()).prepack()
    assert not ahead.inputs and not ahead.outputs and [x.name for x in main.inputs] == ["x"]


# feature: G25
def test_a_parameter_stays_one_in_json_and_with_sizes() -> None:
    n = eq.symbol("N")
    x, w = eq.input("x", (n, 6), "float32"), weight("w", (6, 4))
    program = eq.Program([x, w], {"y": eq.matmul(x, w)}).bind({"N": 3})
    again = program_from_json(program_to_json(program))
    assert [x.node.parameter for p in (program, again) for x in p.inputs if isinstance(x.node, Input)] == [
        False,
        True,
    ] * 2
