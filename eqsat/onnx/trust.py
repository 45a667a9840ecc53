"""Nodes whose shapes onnx.shape_inference gets wrong, told to it in words that it gets right.

Before opset 22 a pooling with ceil_mode counts windows that begin behind the input, which no runtime has; Slice of
opset 10 gives an axis that it cuts the name of the uncut one; STFT counts all frequencies unless it is told not to;
about dilated windows with automatic or rounded padding, inference and runtimes disagree in every version, and from
opset 22 on about a rounded number of windows none of which fits. Such a node is inferred as a function of the same node
in an opset that has it right, and where there is none, with unknown extents.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from eqsat.onnx.call import schema

DOMAIN, OPEN, AXES = "eqsat.inferred", "eqsat.inferred/open", "eqsat.inferred/axes"
POOLS = ("MaxPool", "AveragePool", "LpPool")
RIGHT = {"Slice": 13, "MaxPool": 22, "AveragePool": 22, "LpPool": 22}
"""The version of an operator from which on its inference is right."""


def inferred_in(node: NodeProto, opset: int) -> int | None:
    """The opset in which to infer the outputs of a node; None where no version is right.

    >>> ceil = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], ceil_mode=1)
    >>> inferred_in(ceil, 12), inferred_in(helper.make_node("Relu", ["x"], ["y"]), 12)
    (22, 12)
    """
    if node.domain not in ("", "ai.onnx") or node.op_type not in (*RIGHT, "STFT"):
        return opset
    if node.op_type == "STFT":
        return opset if any(a.name == "onesided" for a in node.attribute) else None
    if node.op_type == "Slice":
        return RIGHT["Slice"] if opset == 10 else opset
    attrs = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    ceil, same = bool(attrs.get("ceil_mode", 0)), str(attrs.get("auto_pad", b"")).startswith(("b'SAME", "SAME"))
    if max(attrs.get("dilations", [1]), default=1) > 1 and (ceil or same):
        return None
    right = RIGHT[node.op_type]
    if not ceil or opset >= right:
        return opset
    found = schema(node.op_type, right)
    return right if found is not None and found.since_version == right else None


def unfit(node: NodeProto, shape: Sequence[object]) -> bool:
    """Whether a pooling counts its windows with ceil_mode, and none fits an axis of this operand, as far as is known.

    >>> pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3], strides=[2], ceil_mode=1)
    >>> unfit(pool, (1, 1, 1)), unfit(pool, (1, 1, 3)), unfit(pool, (1, 1, None))
    (True, False, False)
    """
    if node.op_type not in POOLS or node.domain not in ("", "ai.onnx"):
        return False
    attrs = {a.name: list(a.ints) or a.i for a in node.attribute}
    kernel = attrs.get("kernel_shape")
    if not attrs.get("ceil_mode") or not isinstance(kernel, list):
        return False
    count = len(kernel)
    pads, apart = attrs.get("pads") or [0] * (2 * count), attrs.get("dilations") or [1] * count
    if not isinstance(pads, list) or not isinstance(apart, list):
        return False
    rows = zip(shape[2:], kernel, apart, pads[:count], pads[count:], strict=False)
    return any(isinstance(d, int) and d + p + q < (k - 1) * a + 1 for d, k, a, p, q in rows)


def prepare(bare: ModelProto, without: Collection[str] = ()) -> bool:
    """Replace such nodes of a model that is only inferred, and those that make one of some values; whether there were
    any."""
    opset = next((int(o.version) for o in bare.opset_import if o.domain in ("", "ai.onnx")), 1)
    local = {(f.domain, f.name) for f in bare.functions}
    changed = 0
    for node in bare.graph.node:
        wanted = None if node.output[0] in without else inferred_in(node, opset)
        if wanted == opset or (node.domain, node.op_type) in local:
            continue
        changed += 1
        inner = NodeProto()
        inner.CopyFrom(node)
        steps, inputs, needed = [inner], list(dict.fromkeys(n for n in node.input if n)), list[str]()
        if wanted is None:
            count = len(next((a.ints for a in node.attribute if a.name == "kernel_shape"), (0,)))
            needed = [OPEN, f"{AXES}{count}"]
            _openings(bare, count)
            for k, name in enumerate(node.output):
                if name:
                    inner.output[k] = f"{name}/whole"
                    steps.append(helper.make_node("Slice", [inner.output[k], OPEN, OPEN, needed[1]], [name]))
        outputs = [o for o in node.output if o]
        own = helper.make_opsetid("", max(wanted or opset, 13))
        name = f"{node.op_type}{changed}"
        bare.functions.append(helper.make_function(DOMAIN, name, [*inputs, *needed], outputs, steps, [own]))
        node.CopyFrom(helper.make_node(name, [*inputs, *needed], outputs, domain=DOMAIN))
    if changed:
        bare.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return changed > 0


def _openings(bare: ModelProto, count: int) -> None:
    """A Slice to ends that nobody knows, along the window axes, leaves them unknown."""
    if not any(x.name == OPEN for x in bare.graph.input):
        bare.graph.input.append(helper.make_tensor_value_info(OPEN, TensorProto.INT64, [None]))
    if not any(x.name == f"{AXES}{count}" for x in bare.graph.initializer):
        axes = np.arange(2, 2 + count, dtype=np.int64)
        bare.graph.initializer.append(numpy_helper.from_array(axes, f"{AXES}{count}"))
