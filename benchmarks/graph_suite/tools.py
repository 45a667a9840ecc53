"""The tools beside us, each in a process of its own: a path in, a path out.

PYTHON -m graph_suite.tools TOOL IN OUT
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnx

ONNX: Any = onnx
SECONDS = 180.0


def onnxsim(path: Path) -> Any:
    return import_module("onnxsim").simplify(ONNX.load(str(path)))[0]


def onnxslim(path: Path) -> Any:
    return import_module("onnxslim").slim(ONNX.load(str(path)))


TOOLS: Mapping[str, Callable[[Path], Any]] = {"onnxsim": onnxsim, "onnxslim": onnxslim}


def run(tool: str, source: Path, target: Path, python: Sequence[str]) -> tuple[float, str]:
    """Seconds, and what went wrong (or ""), of a tool on a model; python: the interpreter that has the tool."""
    start = time.perf_counter()
    try:
        done = subprocess.run(
            [*python, "-m", "graph_suite.tools", tool, str(source.resolve()), str(target.resolve())],
            capture_output=True, text=True, timeout=SECONDS, check=False, cwd=Path(__file__).parent.parent,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return SECONDS, f"more than {SECONDS:g} s"
    wrong = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
    return time.perf_counter() - start, wrong[:120]


def in_openvino(models: Sequence[Path], feeds: Mapping[str, Any], python: Sequence[str]) -> list[dict[str, Any]]:
    """What OpenVINO runs of models, as `openvino_side.Executed`; python: the interpreter that has it."""
    with TemporaryDirectory() as folder:
        given = Path(folder) / "feeds.npz"
        np.savez(given, **feeds)
        command = [*python, "-m", "graph_suite.openvino_side", str(given), *(str(m.resolve()) for m in models)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=SECONDS, check=False, cwd=Path(__file__).parent.parent
            )
        except subprocess.TimeoutExpired:
            return [{"wrong": f"more than {SECONDS:g} s"}] * len(models)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    wrong = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:120]
    return [json.loads(line) for line in lines] if len(lines) == len(models) else [{"wrong": wrong}] * len(models)


if __name__ == "__main__":
    ONNX.save(TOOLS[sys.argv[1]](Path(sys.argv[2])), sys.argv[3])
