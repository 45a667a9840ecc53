"""Optimise ONNX models, check the results, and print what was moved.

    python benchmarks/models.py [FOLDER or MODEL ...]

By default the light models that the onnx wheel brings; their constant weights are replaced by seeded random ones, since
otherwise no comparison could fail. Every result is checked by onnx.checker and compared in onnxruntime.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import onnx
from graph_suite.reseed import reseed_weights

import eqsat.onnx
from eqsat.onnx.bytes import bytes_moved
from eqsat.onnx.check import compare_models


def check_model(model: onnx.ModelProto) -> None:
    """Raise where onnx.checker finds the model invalid."""
    checker: Any = onnx.checker
    checker.check_model(model)


def models(arguments: list[str]) -> list[Path]:
    """The model files named by folders or paths."""
    if not arguments:
        arguments = [str(Path(onnx.__file__).parent / "backend" / "test" / "data" / "light")]
    found: list[Path] = []
    for argument in map(Path, arguments):
        found += sorted(argument.glob("*.onnx")) if argument.is_dir() else [argument]
    return found


def main(arguments: list[str]) -> int:
    failed = 0
    print(f"{'model':34} {'nodes':>11} {'MB moved':>17} {'seconds':>8} {'e-nodes':>8}  check")
    for path in models(arguments):
        before = reseed_weights(eqsat.onnx.load_model(path), 0)
        start = time.perf_counter()
        result = eqsat.onnx.optimize(before, fold_inputs=True)
        seconds = time.perf_counter() - start
        check_model(result.model)
        check = compare_models(before, result.model)
        moved = [bytes_moved(m).total / 1e6 for m in (before, result.model)]
        worse = moved[1] > moved[0] or not check.equal
        failed += worse
        verdict = "equal" if check.equal else "DIFFERENT"
        if not check.can_fail:
            verdict += ", but the check could not fail"
        nodes = f"{len(before.graph.node)}->{len(result.model.graph.node)}"
        print(
            f"{path.name:34} {nodes:>11} {moved[0]:7.2f} -> {moved[1]:6.2f} {seconds:8.2f} {result.progress.nodes:8}  "
            f"{verdict} (worst {check.worst:.1e}, sensitivity {check.sensitivity:.2g})",
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
