"""What tests of saved models share: the model runs in onnxruntime, and read again, as the program evaluates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto

from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor, as_program
from eqsat.ir.terms.shape import static_shape
from eqsat.models.package import run_session, session
from eqsat.onnx.read import read
from eqsat.onnx.write import write

ULPS = {"float16": 5e-3, "float32": 2e-5, "float64": 1e-11}
"""Differences that count as none, relative to the larger of the value and 1."""


def difference(wanted: NDArray, got: NDArray) -> str:
    """How two arrays differ, or nothing; of zeros, the sign is the runtime's."""
    if wanted.shape != got.shape or wanted.dtype != got.dtype:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    with np.errstate(all="ignore"):
        same = np.asarray(wanted == got)
        if wanted.dtype.kind == "f":
            a, b = wanted.astype(np.float64), got.astype(np.float64)
            near = np.abs(a - b) <= ULPS[wanted.dtype.name] * np.maximum(1, np.abs(a))
            same |= (np.isnan(a) & np.isnan(b)) | (np.isfinite(a) & np.isfinite(b) & near)
    if bool(same.all()):
        return ""
    at = tuple(int(i) for i in np.argwhere(~same)[0])
    return f"{got[at]} instead of {wanted[at]} at {at}"


def random_feeds(program: Program, seed: int = 0, sizes: Mapping[str, int] | None = None) -> dict[str, NDArray]:
    """Arrays for the inputs of a program: small numbers of both signs."""
    random = np.random.default_rng(seed)
    feeds: dict[str, NDArray] = {}
    for x in program.inputs:
        shape = tuple(d if isinstance(d, int) else (sizes or {})[str(d)] for d in x.shape)
        low, high = (0, 2) if x.dtype == "bool" else (0, 9) if x.dtype.startswith("u") else (-4, 9)
        values: Any = random.standard_normal(shape) * 2 if x.dtype[0] == "f" else random.integers(low, high, shape)
        feeds[x.name] = np.asarray(values).astype(x.dtype)
    return feeds


def saved(
    y: Program | Tensor, feeds: Mapping[str, NDArray] | None = None, seed: int = 0, sizes: dict[str, int] | None = None
) -> ModelProto:
    """The model of a program, after checking what it computes; static ones are read again and evaluated, too."""
    program = as_program(y)
    given = random_feeds(program, seed, sizes) if feeds is None else feeds
    wanted = evaluate_outputs(program, given, undef=0)
    model = write(program)
    checker: Any = onnx.checker
    checker.check_model(model, full_check=True)
    assert [x.name for x in model.graph.input] == [x.name for x in program.inputs]
    assert [x.name for x in model.graph.output] == list(program.outputs)
    for name, got in zip(program.outputs, run_session(session(model), given), strict=True):
        problem = difference(wanted[name], got)
        assert not problem, f"{name}: {problem}\n{program}"
    if all(static_shape(s) is not None for node in program.all_nodes() for s, _ in node.outputs):
        again = evaluate_outputs(read(model), given)
        for name, value in wanted.items():
            problem = difference(value, again[name])
            assert not problem, f"{name} read again: {problem}\n{program}"
    return model


def operators(model: ModelProto) -> list[str]:
    """The operators of a model in order."""
    return [node.op_type for node in model.graph.node]
