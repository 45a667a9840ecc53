# pyright: basic, reportMissingImports=false
"""What OpenVINO runs of models: the bytes that its layout operators move, its nodes, and its time on one thread.

    python -m graph_suite.openvino_side FEEDS MODEL [MODEL ..]

FEEDS is an .npz file of the inputs. One line of JSON for each model, in their order; all models are timed in turns.
OpenVINO has passes of its own, a format of its own and its own kernels, so this is not a result to hand on, but another
runtime for the input and for ours.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

import numpy as np

OUTPUT = ("Transpose", "Reorder", "StridedSlice", "Slice", "Gather", "DepthToSpace", "SpaceToDepth", "Concatenation",
          "Split", "VariadicSplit", "ShuffleChannels")  # fmt: skip
INPUT_AND_OUTPUT = ("Pad", "Broadcast", "Tile")
QUANTILE = 20
ROUNDS = 40
LEAST_ROUNDS = 5
SECONDS = 1.0
"""Of timed runs for each model, at most."""


@dataclass
class Executed:
    """What is run of one model: its nodes, megabytes that layout operators move, and the seconds of a run."""

    nodes: int = 0
    moved: float = 0.0
    time: float = 0.0
    wrong: str = ""


def executed(compiled: Any) -> Executed:
    """The graph that is run. Copies that stand in for a view of memory ("Reshape", in place) count nothing."""
    nodes = [n for n in compiled.get_runtime_model().get_ordered_ops() if _kind(n) not in ("Const", "Input", "Output")]
    return Executed(len(nodes), sum(map(_moved, nodes)) / 1e6)


def _kind(node: Any) -> str:
    return str(_said(node, "layerType"))


def _said(node: Any, key: str) -> Any:
    value = node.get_rt_info()[key]
    return getattr(value, "value", value)


def _moved(node: Any) -> int:
    kind = _kind(node)
    sources = [x.get_node() for x in (i.get_source_output() for i in node.inputs())]
    if kind not in (*OUTPUT, *INPUT_AND_OUTPUT) or all(_kind(s) == "Const" for s in sources):
        return 0
    if "optimized_out" in str(_said(node, "primitiveType")) or node.get_output_partial_shape(0).is_dynamic:
        return 0
    written = sum(_bytes(node.output(k)) for k in range(node.get_output_size()))
    read = _bytes(node.input(0).get_source_output()) if kind in INPUT_AND_OUTPUT else written
    return read + written


def _bytes(value: Any) -> int:
    return prod(value.get_shape()) * value.get_element_type().size


def main(arguments: list[str]) -> int:
    import openvino as ov

    core, feeds = ov.Core(), dict(np.load(arguments[0]))
    wanted = {"INFERENCE_NUM_THREADS": 1, "PERFORMANCE_HINT": "LATENCY", "INFERENCE_PRECISION_HINT": "f32"}
    found: list[Executed] = []
    requests: dict[int, Any] = {}
    for k, path in enumerate(arguments[1:]):
        try:
            compiled = core.compile_model(core.read_model(path), "CPU", wanted)
            request = compiled.create_infer_request()
            request.infer(feeds)
            found.append(executed(compiled))
            requests[k] = request
        except RuntimeError as error:
            found.append(Executed(wrong=str(error).strip().splitlines()[-1][:120]))
    seconds: dict[int, list[float]] = {k: [] for k in requests}
    begun = time.perf_counter()
    for turn in range(ROUNDS):
        if turn > LEAST_ROUNDS and time.perf_counter() - begun > SECONDS * len(found):
            break
        for k, request in requests.items():
            start = time.perf_counter()
            request.infer(feeds)
            seconds[k].append(time.perf_counter() - start)
    for k, taken in seconds.items():
        found[k].time = float(np.percentile(taken, QUANTILE))
    for one in found:
        print(json.dumps(asdict(one)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
