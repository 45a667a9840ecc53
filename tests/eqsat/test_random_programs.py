"""Random programs: the optimised program computes what the original computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from eqsat.engine import Limits, optimize
from eqsat.ir.run import evaluate
from eqsat.ir.tensor import Compute, Program
from eqsat.testing import arrays_for, programs
from eqsat.verify import equal_arrays

LIMITS = Limits(nodes=3000, seconds=5, iterations=60)


def has_float_sum(program: Program) -> bool:
    return any(
        (isinstance(n, Compute) and n.combiner in ("sum", "prod")) or type(n).__name__ == "Opaque"
        for n in program.nodes()
    )


def check(program: Program, target: str) -> None:
    result = optimize(program, target, limits=LIMITS)
    assert result.cost_after <= result.cost_before
    feeds = arrays_for(program)
    with np.errstate(all="ignore"):
        before, after = evaluate(program, feeds), evaluate(result.program, feeds)
    assert before.keys() == after.keys()
    for name, array in before.items():
        assert equal_arrays(array, after[name], exact=not has_float_sum(program)), (
            f"{name}\n{program}\n{result.program}"
        )


@settings(max_examples=250)
@given(programs(max_ops=12))
def test_optimised_programs_equal_the_original_for_c(program: Program) -> None:
    check(program, "c")


@settings(max_examples=250)
@given(programs(max_ops=8))
def test_optimised_programs_equal_the_original_for_onnx(program: Program) -> None:
    check(program, "onnx")


@settings(max_examples=150)
@given(programs(max_ops=12, kinds=["permute", "reshape", "pad", "crop", "unary", "roll", "concat"]))
def test_optimised_layout_programs_equal_the_original(program: Program) -> None:
    check(program, "onnx")


@pytest.mark.slow
@settings(max_examples=5000)
@given(programs(max_ops=12))
def test_many_programs(program: Program) -> None:
    check(program, "onnx")
