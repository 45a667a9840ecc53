"""`@eq.jit` on three preprocessing pipelines, beside numpy and torch (eager), in turns.

    python benchmarks/pipelines.py [--rounds N] [--python PYTHON] [--json FILE]

Each pipeline is one function in numpy's names, which numpy runs as it stands and eqsat compiles; torch has its own
words (`torch_side.py`). PYTHON is an interpreter that has torch (this one, if it has); without it numpy alone stands
beside us. Results are compared first. A round calls each side once, in another order each time, on data that was made
just before; torch is timed in its own process. Ratios are of a round: how many times longer the other side took; shown
are the median with its 95 % interval, and the distance between the quartiles as a part of it. All run on one thread.
"""

from __future__ import annotations

import argparse
import json
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import numpy as np
from kernel_suite.statistics import median_interval, spread

import eqsat as eq
from eqsat.ir.dtypes import NDArray

MEAN = np.array([0.485, 0.456, 0.406], "float32")
DEVIATION = np.array([0.229, 0.224, 0.225], "float32")
WINDOW = np.hanning(400).astype("float32")


def image(batch: Any, mean: Any, deviation: Any) -> Any:
    """Decoded pictures for a network: the middle cropped, flipped, normalised, channels first, padded."""
    middle = batch[:, 16:-16, 16:-16, :][:, :, ::-1]
    normal = (middle.astype("float32") / np.float32(255) - mean) / deviation
    return np.pad(np.transpose(normal, (0, 3, 1, 2)), ((0, 0), (0, 0), (4, 4), (4, 4)))


def audio(signal: Any, window: Any) -> Any:
    """Waves as frames: pre-emphasis, windows of 400 every 160, their mean taken off, weighted."""
    flat = signal[:, 1:] - np.float32(0.97) * signal[:, :-1]
    frames = np.lib.stride_tricks.sliding_window_view(flat, 400, axis=1)[:, ::160]
    return (frames - np.mean(frames, axis=-1, keepdims=True)) * window


def tokens(ids: Any, lengths: Any) -> Any:
    """Rows of tokens for a decoder: padding replaced, the mask of attention, positions, labels one ahead."""
    columns = np.arange(512)
    real = columns < lengths[:, None]
    clean = np.where(real, ids, 0)
    causal = columns[:, None] >= columns
    mask = np.where(real[:, None, :] & causal, np.float32(0), np.float32(-1e9))
    positions = np.where(real, np.cumsum(real, axis=1) - 1, 0)
    labels = np.where(columns + 1 < lengths[:, None], np.pad(ids[:, 1:], ((0, 0), (0, 1))), -100)
    return clean, mask, positions, labels


@dataclass(frozen=True)
class Pipeline:
    """A function in numpy's names, and arguments: the first is fresh in every call."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[np.random.Generator], tuple[NDArray, ...]]


PIPELINES = [
    Pipeline(
        "image", image,
        lambda rng: (rng.integers(0, 256, (8, 256, 256, 3)).astype("uint8"), MEAN, DEVIATION),
    ),
    Pipeline("audio", audio, lambda rng: (rng.standard_normal((4, 32001)).astype("float32"), WINDOW)),
    Pipeline(
        "tokens", tokens, lambda rng: (rng.integers(1, 50_000, (8, 512)), rng.integers(64, 513, 8))
    ),
]  # fmt: skip


Call = Callable[[Sequence[NDArray]], tuple[float, Any]]
"""A call on numpy arrays: its seconds, and what it gave."""


def timed(function: Callable[..., Any]) -> Call:
    """A call in this process."""

    def call(arrays: Sequence[NDArray]) -> tuple[float, Any]:
        start = time.perf_counter()
        made = function(*arrays)
        return time.perf_counter() - start, made

    return call


@contextmanager
def torch_calls(python: str | None) -> Generator[dict[str, Call]]:
    """torch's call of each pipeline, in a process of an interpreter that has torch; none without one."""
    if python is None:
        yield {}
        return
    command = [python, str(Path(__file__).with_name("torch_side.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        asked, answers = process.stdin, process.stdout
        assert asked is not None and answers is not None
        try:
            print(f"torch {pickle.load(answers)}")
        except EOFError:
            raise SystemExit(f"{python} has no torch that runs") from None

        def calling(name: str) -> Call:
            def call(arrays: Sequence[NDArray]) -> tuple[float, Any]:
                pickle.dump((name, tuple(arrays)), asked)
                asked.flush()
                seconds, parts = pickle.load(answers)
                return seconds, parts if len(parts) > 1 else parts[0]

            return call

        yield {p.name: calling(p.name) for p in PIPELINES}
        asked.close()


def compared(calls: Mapping[str, Call], arrays: Sequence[NDArray]) -> float:
    """The greatest difference of any result from numpy's, as a share of the greatest value."""
    parts = {name: call(arrays)[1] for name, call in calls.items()}
    wanted: Any = parts.pop("numpy")
    worst = 0.0
    for name, found in parts.items():
        left, right = (cast("tuple[Any, ...]", x) if isinstance(x, tuple) else (x,) for x in (wanted, found))
        for one, other in zip(left, right, strict=True):
            a: NDArray = np.asarray(one)
            b: NDArray = np.asarray(other)
            if a.shape != b.shape or (name == "eqsat" and a.dtype != b.dtype):
                raise AssertionError(f"{name}: {b.dtype}{b.shape}, not {a.dtype}{a.shape}")
            worst = max(worst, float(np.abs(a - b).max() / max(float(np.abs(a).max()), 1.0)))
    return worst


def measured(pipeline: Pipeline, rounds: int, torch: Mapping[str, Call]) -> dict[str, Any]:
    """Seconds of every side and round."""
    rng, shuffle = np.random.default_rng(0), random.Random(0)
    calls = {"eqsat": timed(eq.jit(pipeline.function)), "numpy": timed(pipeline.function)}
    if pipeline.name in torch:
        calls["torch"] = torch[pipeline.name]
    first = pipeline.arguments(rng)
    made, _ = calls["eqsat"](first)
    difference = compared(calls, first)
    assert difference < 1e-5, f"{pipeline.name}: results differ by {difference}"
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for _ in range(rounds):
        shuffle.shuffle(names)
        for name in names:
            seconds[name].append(calls[name](pipeline.arguments(rng))[0])
    return {"name": pipeline.name, "compile": made, "difference": difference, "seconds": seconds}


def report(found: dict[str, Any]) -> str:
    """One line: the time of eqsat, and how many times longer the others took."""
    seconds: dict[str, list[float]] = found["seconds"]
    own = np.array(seconds["eqsat"])
    line = f"{found['name']:8} eqsat {1e3 * float(np.median(own)):7.2f} ms  (compiled in {found['compile']:.1f} s)"
    for name in (n for n in seconds if n != "eqsat"):
        ratios = list(np.array(seconds[name]) / own)
        ratio = median_interval(ratios)
        line += f"   {name} x {ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}] spread {spread(ratios):.2f}"
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--python", default=sys.executable if find_spec("torch") else None)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with torch_calls(options.python) as torch:
        rows = [measured(p, options.rounds, torch) for p in PIPELINES]
    for row in rows:
        print(report(row))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
