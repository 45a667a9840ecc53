"""Random programs: the optimised program computes what the original computes.

The long run takes its length and its seed from the environment: EQSAT_EXAMPLES=20000 EQSAT_SEED=7.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from program_checks import check_optimised

from eqsat.ir.tensors.tensor import Program
from eqsat.testing import programs

LONG = int(os.environ.get("EQSAT_EXAMPLES", "3000"))
SEED = int(os.environ.get("EQSAT_SEED", "0"))
LAYOUTS = ("permute", "reshape", "pad", "crop", "unary", "roll", "concat", "flip", "block", "wrap", "take")
READS = (
    "permute", "reshape", "pad", "concat", "row", "minus_row", "swapped", "diagonal", "again", "formula",
    "without_loads", "literal",
)  # fmt: skip


@settings(max_examples=8)
@given(programs(max_ops=12))
def test_optimised_programs_equal_the_original(program: Program) -> None:
    check_optimised(program)


@settings(max_examples=15)
@given(programs(max_ops=12, kinds=LAYOUTS))
def test_optimised_layout_programs_equal_the_original(program: Program) -> None:
    check_optimised(program, ["onnx"])


@settings(max_examples=15)
@given(programs(max_ops=6, kinds=READS, max_size=100))
def test_optimised_formulas_equal_the_original(program: Program) -> None:
    """Rows of views, several reads of one tensor, constant and computed indices, guards that never hold."""
    check_optimised(program, ["c"])


def long_run(program: Program) -> None:
    check_optimised(program)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("kinds", [None, READS, LAYOUTS], ids=["all", "reads", "layouts"])
def test_many_programs(kinds: tuple[str, ...] | None) -> None:
    every = settings(
        max_examples=LONG // 3,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    seed(SEED)(every(given(programs(min_ops=3, max_ops=10, max_size=200, kinds=kinds))(long_run)))()
