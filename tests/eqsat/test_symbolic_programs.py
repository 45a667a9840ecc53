"""Programs with symbolic sizes: optimised once, right at every size."""

from __future__ import annotations

import os
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from program_checks import equal_arrays
from symbolic_programs import TRIPS, sizes_for, symbolic_programs

from eqsat.backends.compile import compile
from eqsat.engine import Limits, optimize
from eqsat.ir.errors import EvaluationError, ShapeError
from eqsat.ir.tensors.bind import program_symbols
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Compute, Program
from eqsat.ir.terms.term import Term
from eqsat.testing import arrays_for

LIMITS = Limits(nodes=3000, seconds=5, iterations=60)
LONG = int(os.environ.get("EQSAT_LONG", "3000"))


def has_float_sum(program: Program) -> bool:
    return any(isinstance(n, Compute) and n.combiner in ("sum", "prod") for n in program.nodes())


def at(program: Program, sizes: dict[Term, int]) -> Program | None:
    """The program at some sizes; None where it does not exist, because an extent would be negative."""
    try:
        return program.bind({s: sizes[s] for s in program_symbols(program)})
    except ShapeError as error:
        assert "negative" in str(error) or "reads" in str(error), error
        return None


def values(program: Program, sizes: dict[Term, int], seed: int) -> dict[str, np.ndarray] | None:
    """The outputs at some sizes; None where the program has none, because an extent would be negative."""
    bound = at(program, sizes)
    if bound is None:
        return None
    with np.errstate(all="ignore"):
        return evaluate_outputs(program, arrays_for(bound, seed))


def check(program: Program, trip: str, target: str) -> None:
    there = TRIPS[trip](program)
    assert [s.serial for s in program_symbols(there)] == [s.serial for s in program_symbols(program)]
    assert str(there) == str(program)
    result = optimize(there, target, limits=LIMITS)
    assert result.final.rank <= result.initial.rank
    for seed, sizes in enumerate(sizes_for(program)):
        try:
            before = values(program, sizes, seed)
        except EvaluationError:
            continue  # the original does not run at these sizes
        if before is None:
            continue
        after = values(result.program, sizes, seed)
        assert after is not None and before.keys() == after.keys()
        for name, array in before.items():
            assert equal_arrays(array, after[name], exact=not has_float_sum(program)), (
                f"{name} at {sizes}\n{program}\n{result.program}"
            )


@settings(max_examples=7)
@given(symbolic_programs(), st.sampled_from(list(TRIPS)), st.sampled_from(["c", "onnx"]))
def test_optimised_once_and_right_at_every_size(program: Program, trip: str, target: str) -> None:
    check(program, trip, target)


@settings(max_examples=50)
@given(symbolic_programs(max_ops=5), st.integers(0, 9))
def test_bound_programs_compute_what_the_symbolic_ones_do(program: Program, seed: int) -> None:
    for sizes in sizes_for(program, seed):
        bound = at(program, sizes)
        if bound is None:
            continue
        feeds = arrays_for(bound, seed)
        try:
            with np.errstate(all="ignore"):
                expected = evaluate_outputs(program, feeds)
        except EvaluationError:
            with pytest.raises(EvaluationError), np.errstate(all="ignore"):
                evaluate_outputs(bound, feeds)
            continue
        with np.errstate(all="ignore"):
            found = evaluate_outputs(bound, feeds)
        assert all(equal_arrays(expected[k], found[k], exact=True) for k in expected), f"{sizes}\n{program}\n{bound}"


def check_kernel(program: Program, target: str) -> None:
    """One kernel, called with arrays of all sizes."""
    kernel = compile(program, target=target)
    for seed, sizes in enumerate(sizes_for(program)):
        bound = at(program, sizes)
        if bound is None:
            continue
        feeds = arrays_for(bound, seed)
        try:
            with np.errstate(all="ignore"):
                expected = evaluate_outputs(program, feeds)
        except EvaluationError:
            continue
        found: Any = kernel(feeds)
        arrays = cast("dict[str, Any]", found) if isinstance(found, dict) else {next(iter(expected)): found}
        for name, array in expected.items():
            same = equal_arrays(array, np.asarray(arrays[name]), exact=not has_float_sum(program))
            assert same, f"{name} at {sizes}\n{program}"


@settings(max_examples=40)
@given(symbolic_programs(max_ops=5))
def test_one_kernel_for_every_size(program: Program) -> None:
    check_kernel(program, "numpy")


@pytest.mark.slow
@pytest.mark.timeout(0)
@settings(max_examples=LONG // 20)
@given(symbolic_programs(max_ops=6))
def test_one_compiled_kernel_for_every_size(program: Program) -> None:
    check_kernel(program, "c")


@pytest.mark.slow
@pytest.mark.timeout(0)
@settings(max_examples=LONG)
@given(symbolic_programs(max_ops=12), st.sampled_from(list(TRIPS)), st.sampled_from(["c", "onnx"]))
def test_many_symbolic_programs(program: Program, trip: str, target: str) -> None:
    check(program, trip, target)
