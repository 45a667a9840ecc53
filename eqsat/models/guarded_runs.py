"""Whether onnxruntime survives a model: some kernels end the process that they run in where operands have no cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from eqsat.ir.dtypes import NDArray
from eqsat.models.package import require
from eqsat.workers.call import WorkerFailure, WorkerLimit, call

WORKER_MODULES = ("numpy", "onnx", "onnxruntime")
SECONDS, MEMORY_MB = 30.0, 4096

Question = Sequence[tuple[bytes, Mapping[str, NDArray]]]


def survived(models: Question) -> int:
    """How many models, from the first on, can be run with these inputs by a process that lives on; one that is refused,
    by an exception, does no harm.

    >>> from eqsat.nets import conv_chain
    >>> survived([(conv_chain().SerializeToString(), {})])
    1
    """
    count = 0
    for one in models:
        try:
            call("eqsat.models.guarded_runs:ran", one, seconds=SECONDS, memory_mb=MEMORY_MB)
        except WorkerFailure as failure:
            if failure.signal is None:
                raise
            break
        except WorkerLimit:
            break
        count += 1
    return count


def ran(question: tuple[bytes, Mapping[str, NDArray]], report: Callable[[Any], None] = lambda _: None) -> None:
    """The job: one run."""
    data, feeds = question
    runtime: Any = require("onnxruntime")
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        live = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        live.run(None, dict(feeds))
    except Exception:  # runtimes raise classes of their own; the caller, who runs it again, sees what it is
        return
