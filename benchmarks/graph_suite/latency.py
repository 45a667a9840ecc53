"""Processor time of models in onnxruntime: the versions of one model in turns, one thread, each at its best level."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from eqsat.models.package import require

LEVELS = ("EXTENDED", "ALL")
QUANTILE = 20
"""The percentile of a version's runs that counts: above the least, below what other processes disturb."""


@dataclass
class Runner:
    """A version of a model at one level of onnxruntime, and the seconds of its runs."""

    name: str
    level: str
    session: Any
    seconds: list[float] = field(default_factory=list[float])

    @property
    def time(self) -> float:
        return float(np.percentile(self.seconds, QUANTILE))


def session(path: Path, level: str, threads: int = 1, optimized: Path | None = None) -> Any:
    """A session on the CPU; optimized: where onnxruntime writes what it made of the model."""
    ort = require("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 4
    if optimized is not None:
        options.optimized_model_filepath = str(optimized)
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def latencies(
    versions: Mapping[str, Path], feeds: Mapping[str, Any], seconds: float = 3.0, rounds: tuple[int, int] = (10, 200)
) -> dict[str, float]:
    """The seconds of each version at its best level: all versions and levels in turns, in random order.

    seconds: how long all rounds together may take, within the limits of their number.
    """
    runners = [Runner(n, level, session(path, level)) for n, path in versions.items() for level in LEVELS]
    for runner in runners:
        for _ in range(2):
            runner.session.run(None, feeds)
    begun = time.perf_counter()
    turn = 0
    while turn < rounds[0] or (turn < rounds[1] and time.perf_counter() - begun < seconds):
        for runner in Random(turn).sample(runners, len(runners)):
            start = time.thread_time()
            runner.session.run(None, feeds)
            runner.seconds.append(time.thread_time() - start)
        turn += 1
    return {name: min(r.time for r in runners if r.name == name) for name in versions}


def kernels_after(path: Path, folder: Path) -> Path:
    """The model as onnxruntime's own pass (EXTENDED) leaves it."""
    result = folder / f"{path.stem}.pass.onnx"
    session(path, "EXTENDED", optimized=result)
    return result


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean; NaN of nothing."""
    return float(np.exp(np.mean(np.log(values)))) if values else float("nan")
