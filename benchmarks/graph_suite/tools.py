"""The tools beside us, each in a process of its own: a path in, a path out.

PYTHON -m graph_suite.tools TOOL IN OUT
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

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


if __name__ == "__main__":
    ONNX.save(TOOLS[sys.argv[1]](Path(sys.argv[2])), sys.argv[3])
