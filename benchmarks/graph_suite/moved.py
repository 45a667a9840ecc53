"""Bytes that the layout operators of a model move, by shapes that a run of it shows: for models with operators of
onnxruntime's own, whose shapes no inference of ONNX knows.

A Transpose that moves only axes of extent 1, and what has only constants as operands, counts nothing. Transpose, Slice,
Gather by constants, DepthToSpace, SpaceToDepth, Concat and Split read and write their output; Pad, Expand and Tile read
their input and write their output.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from onnx import ModelProto

from eqsat.models.package import session

OUTPUT = ("Transpose", "Slice", "Gather", "DepthToSpace", "SpaceToDepth", "Concat", "Split")
INPUT_AND_OUTPUT = ("Pad", "Expand", "Tile")
TINY = 64  # elements of integer tensors that are shape arithmetic


def moved_bytes(model: ModelProto, feeds: Mapping[str, Any]) -> int:
    """The bytes moved in a run of a model on these inputs."""
    constants = {w.name for w in model.graph.initializer}
    wanted: list[str] = []
    for node in model.graph.node:
        if node.op_type == "Constant" or (node.input and all(n in constants for n in node.input if n)):
            constants.update(node.output)
        if node.op_type in (*OUTPUT, *INPUT_AND_OUTPUT) and node.domain in ("", "ai.onnx"):
            wanted += [n for n in (node.input[0], *node.output) if n and n not in constants]
    sizes = {n: np.asarray(x) for n, x in _values(model, list(dict.fromkeys(wanted)), feeds).items()}
    total = 0
    for node in model.graph.node:
        outputs = [sizes[n] for n in node.output if n in sizes]
        if node.op_type not in (*OUTPUT, *INPUT_AND_OUTPUT) or not outputs or set(node.output) & constants:
            continue
        if node.op_type == "Gather" and node.input[1] not in constants:
            continue
        if outputs[0].dtype.kind in "iu" and all(x.size <= TINY for x in outputs):
            continue
        if node.op_type == "Transpose" and _stays(node, sizes[node.output[0]].shape):
            continue
        written = sum(x.nbytes for x in outputs)
        source = sizes.get(node.input[0])
        read = source.nbytes if node.op_type in INPUT_AND_OUTPUT and source is not None else written
        total += read + written
    return total


def _stays(node: Any, shape: tuple[int, ...]) -> bool:
    """Whether a Transpose keeps the order of the axes that have more than one position."""
    given = next((list(a.ints) for a in node.attribute if a.name == "perm"), list(reversed(range(len(shape)))))
    moving = [a for a, extent in zip(given, shape, strict=True) if extent != 1]
    return moving == sorted(moving)


def _values(model: ModelProto, names: list[str], feeds: Mapping[str, Any]) -> dict[str, Any]:
    """What the values of these names are in a run."""
    shown = ModelProto()
    shown.CopyFrom(model)
    known = {o.name for o in shown.graph.output} | {i.name for i in shown.graph.input}
    for name in names:
        if name not in known:
            shown.graph.output.add().name = name
    asked = [n for n in names if n not in feeds]
    found: list[Any] = session(shown).run(asked, dict(feeds)) if asked else []
    return {**{n: feeds[n] for n in names if n in feeds}, **dict(zip(asked, found, strict=True))}
