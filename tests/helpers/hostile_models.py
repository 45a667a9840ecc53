"""Small valid or broken models that ask for all memory or all time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from onnx import FunctionProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

F, INT = TensorProto.FLOAT, TensorProto.INT64
Port = tuple[str, int, Sequence[int | str] | None]
N = helper.make_node


def model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    constants: Sequence[TensorProto] = (),
    functions: Sequence[FunctionProto] = (),
    opset: int = 17,
) -> ModelProto:
    ports = [[helper.make_tensor_value_info(*p) for p in side] for side in (inputs, outputs)]
    graph = helper.make_graph(list(nodes), "g", ports[0], ports[1], list(constants))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, functions=list(functions))


def ints(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def floats(name: str, *shape: int) -> TensorProto:
    return numpy_helper.from_array(np.ones(shape, np.float32), name)


def filled(*shape: int, then: Sequence[NodeProto] = (), value: Any = 0.0, kind: int = F) -> ModelProto:
    """A constant of a shape, and what is done with it."""
    fill = numpy_helper.from_array(np.array([value], np.float32 if kind == F else np.int64))
    nodes = [N("ConstantOfShape", ["s"], ["c"], value=fill), *(then or [N("Neg", ["c"], ["y"])])]
    constants = [ints("s", *shape), numpy_helper.from_array(np.array(0, np.int64), "zero")]
    return model(nodes, [("x", F, [4, 4])], [("y", kind, None)], constants)


def chain(op: str, count: int, port: Port, twice: bool = False, constant: bool = False, **attrs: Any) -> ModelProto:
    names = ["x", *(f"v{k}" for k in range(count))]
    nodes = [N(op, [a, a] if twice else [a], [b], **attrs) for a, b in pairwise(names)]
    if constant:
        return model(nodes, [], [(names[-1], port[1], None)], [ints("x", 1)])
    return model(nodes, [port], [(names[-1], port[1], None)])


def functions(count: int, recursive: bool = False) -> ModelProto:
    """Functions that call the one before twice; or one that calls itself."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    made: list[FunctionProto] = []
    for k in range(count):
        callee = f"f{k}" if recursive else f"f{k - 1}"
        body = [N(callee, ["a"], ["t"], domain="f"), N(callee, ["t"], ["b"], domain="f")]
        body = body if k or recursive else [N("Relu", ["a"], ["b"])]
        made.append(helper.make_function("f", f"f{k}", ["a"], ["b"], body, opsets))
    return model([N(f"f{count - 1}", ["x"], ["y"], domain="f")], [("x", F, [4])], [("y", F, [4])], (), made)


def one(op: str, port: Port, *constants: TensorProto, inputs: Sequence[str] = (), **attrs: Any) -> ModelProto:
    names = list(inputs) or [port[0], *(x.name for x in constants)]
    return model([N(op, names, ["y"], **attrs)], [port], [("y", F, None)], constants)


def unaligned(count: int) -> ModelProto:
    shapes = [[1000, 2100], [1400, 1500], [600, 3500], [3000, 700], [500, 4200]]
    nodes, x = list[NodeProto](), "x"
    for k in range(count):
        nodes += [N("Reshape", [x, f"s{k % 5}"], [f"r{k}"]), N("Transpose", [f"r{k}"], [f"t{k}"], perm=[1, 0])]
        x = f"t{k}"
    return model(nodes, [("x", F, [600, 3500])], [(x, F, None)], [ints(f"s{k}", *s) for k, s in enumerate(shapes)])


def growing_pads(count: int) -> ModelProto:
    nodes, x = list[NodeProto](), "x"
    for k in range(count):
        nodes.append(N("Pad", [x, f"p{k}"], [f"v{k}"]))
        x = f"v{k}"
    return model(nodes, [("x", F, [4])], [(x, F, None)], [ints(f"p{k}", 0, 4 << k) for k in range(count)])


def loop(trips: int) -> ModelProto:
    ends = [helper.make_tensor_value_info("i", INT, []), helper.make_tensor_value_info("go", TensorProto.BOOL, [])]
    body = helper.make_graph(
        [N("Identity", ["go"], ["on"]), N("Concat", ["state", "state"], ["more"], axis=0)],
        "body",
        [*ends, helper.make_tensor_value_info("state", F, [None])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("more", F, [None])],
    )
    trip = numpy_helper.from_array(np.array(trips, np.int64), "n")
    go = numpy_helper.from_array(np.array(True), "go0")
    return model([N("Loop", ["n", "go0", "x"], ["y"], body=body)], [("x", F, [4])], [("y", F, None)], [trip, go])


def parts(count: int) -> ModelProto:
    outputs: list[Port] = [(f"o{k}", F, [1, 2]) for k in range(count)]
    nodes = [N("Split", ["x"], [name for name, _, _ in outputs], axis=0)]
    return model(nodes, [("x", F, [count, 2])], outputs, opset=13)


def nested(depth: int) -> ModelProto:
    end = helper.make_tensor_value_info("z", F, [4])
    leaf = helper.make_graph([N("Relu", ["x"], ["z"])], "b", [], [end])
    graph = leaf
    for k in range(depth):
        test = N("Constant", [], [f"c{k}"], value=numpy_helper.from_array(np.array(True)))
        choice = N("If", [f"c{k}"], [f"z{k}"], then_branch=graph, else_branch=leaf)
        graph = helper.make_graph([test, choice], "b", [], [helper.make_tensor_value_info(f"z{k}", F, [4])])
    test = N("Constant", [], ["c"], value=numpy_helper.from_array(np.array(True)))
    top = N("If", ["c"], ["y"], then_branch=graph, else_branch=leaf)
    return model([test, top], [("x", F, [4])], [("y", F, [4])])


def many(count: int) -> ModelProto:
    ports: list[Port] = [(f"x{k}", F, [2]) for k in range(count)]
    return model([N("Concat", [p[0] for p in ports], ["y"], axis=0)], ports, [("y", F, None)])


MODELS: dict[str, Callable[[], ModelProto]] = {
    "constant of 2^28": lambda: filled(2**28),
    "constant of 2^33": lambda: filled(2**33),
    "constant of 2^64": lambda: filled(2**62, 4),
    "negative constant": lambda: filled(-5),
    "integers of 2^28": lambda: filled(2**28, value=3, kind=INT),
    "constant product": lambda: filled(60_000, 60_000, then=[N("MatMul", ["c", "c"], ["y"])]),
    "constant sums": lambda: filled(2**31, then=[N("CumSum", ["c", "zero"], ["y"])]),
    "constant eye": lambda: filled(10**6, 10**6, then=[N("EyeLike", ["c"], ["y"])]),
    "constant places": lambda: filled(10**5, 10**5, then=[N("NonZero", ["c"], ["y"])], value=1.0),
    "constant transpose": lambda: filled(2**20, 2**12, then=[N("Transpose", ["c"], ["y"])]),
    "gather of 2^31": lambda: filled(2**31, then=[N("Gather", ["x", "c"], ["y"])], value=0, kind=INT),
    "doubled input": lambda: chain("Concat", 40, ("x", F, [1]), twice=True, axis=0),
    "doubled integers": lambda: chain("Concat", 40, ("x", INT, [1]), twice=True, axis=0),
    "doubled constant": lambda: chain("Concat", 45, ("x", INT, [1]), twice=True, constant=True, axis=0),
    "added to itself": lambda: chain("Add", 60, ("x", F, [4]), twice=True),
    "deep": lambda: chain("Relu", 6_000, ("x", F, [4])),
    "deep transposes": lambda: chain("Transpose", 2_000, ("x", F, [512, 512]), perm=[1, 0]),
    "nested functions": lambda: functions(40),
    "recursive function": lambda: functions(1, recursive=True),
    "recursive functions of 3": lambda: functions(3, recursive=True),
    "expand": lambda: one("Expand", ("x", F, [1]), ints("s", 10**9, 2000)),
    "expand of a constant": lambda: one(
        "Expand", ("x", F, [1]), floats("k", 1), ints("s", 10**9, 2000), inputs=("k", "s")
    ),
    "resize": lambda: one(
        "Resize", ("x", F, [1, 1, 8, 8]), ints("s", 1, 1, 10**5, 8 * 10**4), inputs=("x", "", "", "s"), mode="nearest"
    ),
    "tile": lambda: one("Tile", ("x", F, [3]), ints("s", 10**10)),
    "tile of a constant": lambda: one("Tile", ("x", F, [3]), floats("k", 3), ints("s", 10**10), inputs=("k", "s")),
    "pad": lambda: one("Pad", ("x", F, [4]), ints("p", 10**12, 10**12)),
    "growing pads": lambda: growing_pads(50),
    "one hot": lambda: one("OneHot", ("x", INT, [4]), ints("d", 10**11), floats("v", 2)),
    "range": lambda: one(
        "Range", ("x", INT, [4]), ints("a", 0), ints("b", 10**11), ints("d", 1), inputs=("a", "b", "d")
    ),
    "rank 200": lambda: one("Transpose", ("x", F, [1] * 200), perm=list(range(199, -1, -1))),
    "rank 60": lambda: one("Transpose", ("x", F, [2] * 60), perm=list(range(59, -1, -1))),
    "dimensions of 2^40": lambda: one("Transpose", ("x", F, [2**40, 2**40]), perm=[1, 0]),
    "dimension of 2^63 - 1": lambda: one("Relu", ("x", F, [2**63 - 1, 2])),
    "negative dimension": lambda: one("Relu", ("x", F, [-5])),
    "reshape to rank 20": lambda: one("Reshape", ("x", F, [2**20]), ints("s", *[2] * 20)),
    "steps of 2^31": lambda: one(
        "Conv", ("x", F, [1, 1, 8, 8]), floats("w", 1, 1, 3, 3), strides=[2**31 - 1] * 2, pads=[2**30] * 4
    ),
    "kernel of 2^31": lambda: one("MaxPool", ("x", F, [1, 1, 8, 8]), kernel_shape=[2**31, 2**31], pads=[2**30] * 4),
    "reshapes that do not align": lambda: unaligned(40),
    "endless loop": lambda: loop(2**62),
    "nested branches": lambda: nested(20),
    "2000 parts": lambda: parts(2000),
    "2000 inputs": lambda: many(2000),
    "fewer cells than parts": lambda: model(
        [N("Split", ["x"], ["a", "b", "c"], num_outputs=3), N("Slice", ["c", "zero", "end"], ["y"])],
        [("x", F, [1])],
        [("y", F, None)],
        [ints("zero", 0), ints("end", 1)],
        opset=18,
    ),
    "split of no axis": lambda: model(
        [N("Split", ["x"], ["a", "y"], axis=7, num_outputs=2)], [("x", F, [4, 4])], [("y", F, None)], opset=18
    ),
    "operand that nothing makes": lambda: model([N("EyeLike", ["nowhere"], ["y"])], [("x", F, [4])], [("y", F, None)]),
    "long name": lambda: one("Relu", ("x" * 10**6, F, [4])),
}
