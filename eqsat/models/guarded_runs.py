"""Running onnxruntime where it does no harm: some kernels end the process that they run in where operands have no
cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from eqsat.ir import clock
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.models.package import run_session, session
from eqsat.workers.call import WorkerFailure, WorkerLimit, call

WORKER_MODULES = ("numpy", "onnx", "onnxruntime")
SECONDS, MEMORY_MB = 30.0, 4096

Question = tuple[bytes, Mapping[str, NDArray] | None, bool]


class ProcessEnded(EvaluationError):
    """The runtime ends the process in which it loads or runs a model."""


def run_apart(
    model: bytes,
    feeds: Mapping[str, NDArray] | None,
    *,
    optimize: bool = False,
    seconds: float = SECONDS,
    memory_mb: int = MEMORY_MB,
) -> list[Any]:
    """The outputs of a model in the form of a file, run by onnxruntime in a process of its own; [] where nothing is
    fed (None), and it is only loaded. optimize: with onnxruntime's optimisations.

    >>> import numpy as np
    >>> from eqsat.nets import conv_chain
    >>> model = conv_chain()
    >>> shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    >>> [y] = run_apart(model.SerializeToString(), {model.graph.input[0].name: np.zeros(shape, "float32")})
    >>> y.shape[0]
    1

    Raises ProcessEnded where that process is ended, EvaluationError where the model is refused, fails, or takes longer
    or more memory than it may; clock.OutOfTime.
    """
    question: Question = model, feeds, optimize
    allowed = min(clock.left(), seconds)
    try:
        return call("eqsat.models.guarded_runs:ran", question, seconds=allowed, memory_mb=memory_mb)
    except WorkerFailure as failure:
        if failure.signal is None:
            raise
        problem = f"ends the process in which it runs the model (signal {failure.signal})"
        raise ProcessEnded("onnxruntime", problem) from None
    except WorkerLimit:
        clock.check()
        problem = f"takes more than {seconds:g} s or {memory_mb} MB for a model that may end its process"
        raise EvaluationError("onnxruntime", problem) from None


def ran(question: Question, report: Callable[[Any], None] = lambda _: None) -> list[Any]:
    """The job: one run, in one thread."""
    data, feeds, optimize = question
    live = session(data, optimize=optimize, threads=1)
    return [] if feeds is None else run_session(live, feeds)
