"""Random arrays for the inputs of programs."""

from __future__ import annotations

import numpy as np

from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.tensors.tensor import Program
from eqsat.testing.formulas import shape_of


def arrays_for(program: Program, seed: int = 0) -> dict[str, NDArray]:
    """Random arrays for the inputs of a program: small numbers of both signs, a few special floats."""
    rng = np.random.default_rng(seed)
    feeds: dict[str, NDArray] = {}
    for x in program.inputs:
        shape = shape_of(x)
        if x.dtype == "bool":
            feeds[x.name] = rng.integers(0, 2, shape).astype(bool)
        elif is_float(x.dtype):
            special = rng.choice([0.0, -0.0, 1.0, np.inf, -np.inf, np.nan], shape)
            feeds[x.name] = np.where(rng.random(shape) < 0.05, special, rng.normal(size=shape) * 2).astype(x.dtype)
        else:
            feeds[x.name] = rng.integers(-4 if x.dtype.startswith("int") else 0, 9, shape).astype(x.dtype)
    return feeds
