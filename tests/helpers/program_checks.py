"""What every optimised program must satisfy, whatever the program is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.engine import Limits, optimize
from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Compute, Opaque, Program
from eqsat.testing import arrays_for
from eqsat.verifying.verify import verify

LIMITS = Limits(nodes=3000, seconds=5, iterations=60)
TARGETS = ("c", "numpy", "onnx")
TOLERANCE = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-10}


def equal_arrays(a: NDArray, b: NDArray, exact: bool) -> bool:
    """Equal bit by bit (any NaN for any NaN), or within what the type resolves of the largest value, NaN and inf in the
    same places."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if not is_float(a.dtype.name):
        return bool(np.array_equal(a, b))
    if exact:
        signs = np.signbit(a[~np.isnan(a)]), np.signbit(b[~np.isnan(b)])
        return bool(np.array_equal(a, b, equal_nan=True)) and bool(np.array_equal(*signs))
    finite = np.isfinite(a)
    if not np.array_equal(finite, np.isfinite(b)) or not np.array_equal(a[~finite], b[~finite], equal_nan=True):
        return False
    scale = float(np.max(np.abs(a[finite]), initial=0.0))
    gap = np.abs(a[finite].astype(np.float64) - b[finite].astype(np.float64))
    return bool(np.all(gap <= TOLERANCE[a.dtype.name] * scale))


def has_float_sum(program: Program) -> bool:
    """Whether the order of a float sum is free somewhere: only then may last bits differ."""
    return any(
        isinstance(n, Opaque) or (isinstance(n, Compute) and n.combiner in ("sum", "prod") and is_float(n.body.dtype))
        for n in program.nodes()
    )


def interface(program: Program) -> tuple[object, ...]:
    """What a caller sees of a program."""
    inputs = [(x.name, x.shape, x.dtype) for x in program.inputs]
    return inputs, [(name, x.shape, x.dtype) for name, x in program.outputs.items()]


def values(program: Program, feeds: dict[str, NDArray]) -> dict[str, NDArray]:
    """The outputs of a program by name."""
    with np.errstate(all="ignore"):
        return evaluate_outputs(program, feeds)


def check_optimised(program: Program, targets: Sequence[str] = TARGETS) -> None:
    """The optimised program is no worse, has the same interface and the same values, and is never refuted."""
    feeds = arrays_for(program)
    before = values(program, feeds)
    found: dict[str, Program] = {}
    for target in targets:
        result = optimize(program, target, limits=LIMITS)
        found[str(result.program)] = result.program
        assert result.final.rank <= result.initial.rank
        assert interface(program) == interface(result.program)
        after = values(result.program, feeds)
        for name, array in before.items():
            same = equal_arrays(array, after[name], exact=not has_float_sum(program))
            assert same, f"{target}: {name}\n{program}\n{result.program}"
    for other in found.values():
        assert verify(program, other, LIMITS).verdict != "refuted", f"{program}\n{other}"
