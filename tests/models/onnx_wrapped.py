"""Random models between reshapes: their inputs come, and their results go, in other shapes of as many elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx_fuzz import Drawn, Run, draw
from onnx_random import run


def wrapped(seed: int, focus: str = "") -> Drawn | None:
    """A random model of known sizes whose inputs and results are reshaped: axes of extent 1 come or go, or neighbours
    are one axis. None where nothing valid came of the seed."""
    drawn = draw(seed, focus)
    if drawn is None or len({tuple(a.shape for a in row.feeds.values()) for row in drawn.runs}) != 1:
        return None
    random = np.random.default_rng(seed + 1)
    model, first = ModelProto(), drawn.runs[0]
    model.CopyFrom(drawn.model)
    graph, feeds = model.graph, dict(first.feeds)
    before: list[NodeProto] = []
    after: list[NodeProto] = []
    if next(o.version for o in model.opset_import if o.domain == "") < 14:  # a Reshape of any type and extent
        return None

    def reshape(source: str, made: str, shape: tuple[int, ...], at: list[NodeProto]) -> None:
        graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), f"{made}.shape"))
        at.append(helper.make_node("Reshape", [source, f"{made}.shape"], [made], allowzero=1))

    defaults = {x.name for x in graph.initializer}
    for x in graph.input:
        if x.name in feeds and x.name not in defaults and x.type.WhichOneof("value") == "tensor_type":
            name, shape = x.name, feeds[x.name].shape
            feeds[f"{name}.in"] = feeds.pop(name).reshape(_other(random, shape))
            _retype(x, f"{name}.in", feeds[f"{name}.in"].shape)
            reshape(x.name, name, shape, before)
    for x, array in zip(graph.output, first.made, strict=True):
        if x.type.WhichOneof("value") == "tensor_type":
            name, shape = x.name, _other(random, array.shape)
            _retype(x, f"{name}.out", shape)
            reshape(name, x.name, shape, after)
    nodes = [*before, *graph.node, *after]
    del graph.node[:]
    graph.node.extend(nodes)
    try:
        made = run(model, feeds)
    except Exception:  # onnxruntime's own classes: the model says more of its sizes than is so
        return None
    exact = {f"{name}.out": known for name, known in drawn.exact.items()}
    return replace(drawn, model=model, exact=exact, runs=[Run(feeds, made, first.tried)])


def _retype(x: Any, name: str, shape: tuple[int, ...]) -> None:
    kind = helper.make_tensor_type_proto(x.type.tensor_type.elem_type, shape)
    x.CopyFrom(helper.make_value_info(name, kind))


def _other(random: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of as many elements: without units, with some, or with two neighbours as one."""
    found = [d for d in shape if d != 1 or random.random() < 0.4]
    for _ in range(int(random.integers(0, 3))):
        if len(found) > 1 and random.random() < 0.3:
            at = int(random.integers(len(found) - 1))
            found[at : at + 2] = [found[at] * found[at + 1]]
        elif len(found) < 6:
            found.insert(int(random.integers(len(found) + 1)), 1)
    return tuple(found)
