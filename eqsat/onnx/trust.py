"""Nodes whose shapes onnx.shape_inference gets wrong, told to it in words that it gets right.

Before opset 22 a pooling with ceil_mode counts windows that begin behind the input, which no runtime has; Slice of
opset 10 gives an axis that it cuts the name of the uncut one; STFT counts all frequencies unless it is told not to;
about dilated windows with automatic or rounded padding, inference and runtimes disagree in every version, and from
opset 22 on about a rounded number of windows none of which fits; Attention counts with 0 for extents of its operands
that are unknown. Such a node is inferred as a function of the same node in an opset that has it right, and where there
is none, with unknown extents.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from eqsat.onnx.call import schema
from eqsat.onnx.graphs import nested_nodes

DOMAIN, OPENED, OPEN, AXES = "eqsat.inferred", "Opened", "eqsat.inferred/open", "eqsat.inferred/axes"
STANDARD = ("", "ai.onnx")
POOLS = ("MaxPool", "AveragePool", "LpPool")
RIGHT = {"Slice": 13, "MaxPool": 22, "AveragePool": 22, "LpPool": 22}
"""The version of an operator from which on its inference is right."""


def inferred_in(node: NodeProto, opset: int) -> int | None:
    """The opset in which to infer the outputs of a node; None where no version is right.

    >>> ceil = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2], ceil_mode=1)
    >>> inferred_in(ceil, 12), inferred_in(helper.make_node("Relu", ["x"], ["y"]), 12)
    (22, 12)
    """
    if node.domain not in STANDARD or node.op_type not in (*RIGHT, "STFT"):
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
    if node.op_type not in POOLS or node.domain not in STANDARD:
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


def window_axes(node: NodeProto) -> tuple[int, ...]:
    """The axes along which a node has windows."""
    count = len(next((a.ints for a in node.attribute if a.name == "kernel_shape"), (0,)))
    return tuple(range(2, 2 + count))


def miscounted(node: NodeProto, shapes: Mapping[str, Sequence[object]]) -> dict[str, tuple[int, ...]]:
    """The axes of what a node makes that are 0 by inference, though no known extent of an operand is; to be asked about
    Attention, and what has one inside.

    >>> node = helper.make_node("Attention", ["q", "k", "v"], ["y"], q_num_heads=2, kv_num_heads=2)
    >>> miscounted(node, {"q": (1, 8, 16), "k": (1, 8, 16), "v": (1, 8, None), "y": (1, 8, 0)})
    {'y': (2,)}
    """
    if any(d == 0 for name in node.input for d in shapes.get(name, ()) if isinstance(d, int)):
        return {}
    zeros = {o: tuple(k for k, d in enumerate(shapes.get(o, ())) if isinstance(d, int) and not d) for o in node.output}
    return {o: axes for o, axes in zeros.items() if axes}


def attending(nodes: Iterable[NodeProto], model: ModelProto) -> Iterator[NodeProto]:
    """The nodes of a model that are Attention, or have one inside, in a body or a function."""
    functions = {(f.domain, f.name): f for f in model.functions}
    known = dict[tuple[str, str], bool]()

    def attends(node: NodeProto) -> bool:
        return any(calls((x.domain, x.op_type)) for x in nested_nodes([node]))

    def calls(key: tuple[str, str]) -> bool:
        if key not in functions:
            return key[0] in STANDARD and key[1] == "Attention"
        if key not in known:
            known[key] = False  # functions do not call themselves; where they do, the model is refused elsewhere
            known[key] = any(attends(x) for x in functions[key].node)
        return known[key]

    return (node for node in nodes if attends(node))


def prepare(bare: ModelProto, without: Mapping[str, tuple[int, ...]]) -> bool:
    """Replace such nodes of a model that is only inferred; whether there were any. Of some values, by name, some axes
    shall stay unknown."""
    opset = next((int(o.version) for o in bare.opset_import if o.domain in STANDARD), 1)
    local = {(f.domain, f.name) for f in bare.functions}
    nodes = list[NodeProto]()
    changed = False
    for k, node in enumerate(bare.graph.node):
        nodes.append(node)
        right = opset if (node.domain, node.op_type) in local else inferred_in(node, opset)
        axes = {o: window_axes(node) for o in node.output if o} if right is None else {}
        axes.update((o, without[o]) for o in node.output if o in without)
        if right is not None and right != opset:
            _infer_in(bare, node, right, f"{node.op_type}{k}")
        elif not axes:
            continue
        changed = True
        for slot, name in enumerate(node.output):
            if name in axes:
                node.output[slot] = f"{name}/whole"
                nodes.append(_opened(bare, node.output[slot], name, axes[name]))
    if changed:
        copies = [NodeProto.FromString(x.SerializeToString()) for x in nodes]
        del bare.graph.node[:]
        bare.graph.node.extend(copies)
        bare.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return changed


def _infer_in(bare: ModelProto, node: NodeProto, opset: int, name: str) -> None:
    """Make a node a call of a function that is the same node in another opset."""
    inner = NodeProto()
    inner.CopyFrom(node)
    inputs, outputs = list(dict.fromkeys(n for n in node.input if n)), [o for o in node.output if o]
    own = helper.make_opsetid("", max(opset, 13))
    bare.functions.append(helper.make_function(DOMAIN, name, inputs, outputs, [inner], [own]))
    node.CopyFrom(helper.make_node(name, inputs, outputs, domain=DOMAIN))


def _opened(bare: ModelProto, whole: str, name: str, axes: Sequence[int]) -> NodeProto:
    """A node that leaves some axes of a value unknown: a Slice to ends that nobody knows."""
    if not any(x.name == OPEN for x in bare.graph.input):
        bare.graph.input.append(helper.make_tensor_value_info(OPEN, TensorProto.INT64, [None]))
        step = helper.make_node("Slice", ["x", "ends", "ends", "axes"], ["y"])
        own = helper.make_opsetid("", 13)
        bare.functions.append(helper.make_function(DOMAIN, OPENED, ["x", "ends", "axes"], ["y"], [step], [own]))
    along = "/".join([AXES, *map(str, axes)])
    if not any(x.name == along for x in bare.graph.initializer):
        bare.graph.initializer.append(numpy_helper.from_array(np.array(axes, dtype=np.int64), along))
    return helper.make_node(OPENED, [whole, OPEN, along], [name], domain=DOMAIN)
