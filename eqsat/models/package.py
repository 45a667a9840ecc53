"""The one place that touches onnx and onnxruntime as packages: finding them, sessions, element types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from eqsat import interrupt
from eqsat.ir.dtypes import DATA, NDArray
from eqsat.ir.errors import EvaluationError, FrontendError, MissingPackage

if TYPE_CHECKING:
    from onnx import ModelProto

EXTRA = "pip install eqsat[onnx]"


def require(package: str) -> Any:
    """An optional package, or an error that says how to get it.

    >>> require("onnx2")
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.MissingPackage: ONNX models: the package onnx2 is not installed (pip install eqsat[onnx])
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        raise MissingPackage("ONNX models", f"the package {package} is not installed", EXTRA) from error


@lru_cache(maxsize=1)
def _element_types() -> tuple[dict[int, str], dict[str, int]]:
    helper: Any = require("onnx").helper
    pairs = {int(helper.np_dtype_to_tensor_dtype(np.dtype(name))): name for name in DATA}
    return pairs, {name: number for number, name in pairs.items()}


def dtype_name(element: int) -> str | None:
    """The data type of an ONNX element type number; None for what programs do not model (strings, bfloat16, ...)."""
    return _element_types()[0].get(element)


def element_type(dtype: str) -> int:
    """The ONNX element type number of a data type.

    >>> element_type("float32")
    1
    >>> element_type("complex64")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.FrontendError: models: tensors of type complex64 are not written (use one of bool, int8, ...)
    """
    known = _element_types()[1]
    if dtype not in known:
        raise FrontendError("models", f"tensors of type {dtype} are not written", f"use one of {', '.join(known)}")
    return known[dtype]


def session(model: ModelProto | str | bytes, optimize: bool = False, threads: int | None = None) -> Any:
    """An onnxruntime session on the CPU, graph optimisations off unless asked for, with as many threads as asked for;
    `model` may be a path, or what is in a file."""
    ort = require("onnxruntime")
    options = ort.SessionOptions()
    level = ort.GraphOptimizationLevel
    options.graph_optimization_level = level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
    options.log_severity_level = 4
    if threads is not None:
        options.intra_op_num_threads = options.inter_op_num_threads = threads
    source = model if isinstance(model, (str, bytes)) else model.SerializeToString()
    try:
        return ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own error classes share no base below Exception
        raise EvaluationError("onnxruntime", f"does not accept the model: {_first_line(error)}") from error


def run_session(live: Any, feeds: Mapping[str, NDArray], outputs: Sequence[str] | None = None) -> list[Any]:
    """The outputs of a session, as numpy arrays where they are tensors."""
    options = require("onnxruntime").RunOptions()
    options.log_severity_level = 4

    def stop() -> None:
        options.terminate = True

    try:
        with interrupt.stopped_by(stop):
            return list(live.run(None if outputs is None else list(outputs), dict(feeds), options))
    except Exception as error:
        raise EvaluationError("onnxruntime", f"failed to run the model: {_first_line(error)}") from error


def run_model(model: ModelProto, feeds: Mapping[str, NDArray]) -> list[Any]:
    """The outputs of a small model: by onnxruntime where that is installed and can, else by onnx.reference."""
    try:
        return run_session(session(model), feeds)
    except (MissingPackage, EvaluationError) as first:
        from eqsat.models.reference import evaluator

        try:
            return list(evaluator(model).run(None, dict(feeds)))
        except Exception as error:
            raise EvaluationError("ONNX operator", f"{first.problem}; onnx.reference: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return (text.splitlines() or [type(error).__name__])[0][:400]
