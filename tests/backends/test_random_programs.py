"""Random programs: what the C compiler makes of them computes what numpy means, optimised or not.

Several programs are joined into one, because starting the compiler costs more than running a small kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program_checks import equal_arrays

from eqsat.backends.compile import compile
from eqsat.engine import Limits, optimize
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program
from eqsat.testing import arrays_for, programs

JOINED = 12
ANY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]


@pytest.fixture(scope="module", autouse=True)
def warnings_allowed() -> Iterator[None]:
    """A random program may say what a compiler warns of: a truth value that is 7, an unsigned number below 0."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EQSAT_CFLAGS", "-O1")
        yield


@st.composite
def bundles(draw: st.DrawFn, count: int = JOINED, max_ops: int = 12) -> Program:
    """Several random programs side by side."""
    parts = [draw(programs(max_ops=max_ops, max_size=200, prefix=f"p{k}_")) for k in range(count)]
    outputs = {name: x for part in parts for name, x in part.outputs.items()}
    return Program([x for part in parts for x in part.inputs], outputs)


def check(program: Program, compiled: Program) -> None:
    feeds = arrays_for(program)
    with np.errstate(all="ignore"):
        expected = evaluate_outputs(program, feeds)
    results: dict[str, NDArray] = compile(compiled, target="c")(feeds)
    assert results.keys() == expected.keys()
    for name, array in expected.items():
        assert equal_arrays(array, results[name], exact=False), name


@settings(max_examples=7, suppress_health_check=ANY)
@given(bundles())
def test_compiled_programs_equal_their_numpy_meaning(program: Program) -> None:
    check(program, program)


def check_optimised(program: Program) -> None:
    check(program, optimize(program, "c", limits=Limits(nodes=4000, seconds=5, iterations=60)).program)


@settings(max_examples=4, suppress_health_check=ANY)
@given(bundles(count=6, max_ops=8))
def test_optimised_and_compiled_programs_equal_the_original(program: Program) -> None:
    check_optimised(program)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=ANY)
@given(bundles(count=6, max_ops=8))
def test_many_optimised_and_compiled_programs(program: Program) -> None:
    check_optimised(program)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@settings(max_examples=1000, suppress_health_check=ANY)
@given(bundles())
def test_many_compiled_programs(program: Program) -> None:
    check(program, program)
