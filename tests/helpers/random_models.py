"""Small random ONNX models, and wrong models made of right ones by one fault each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, helper, numpy_helper, shape_inference

from eqsat.nets import Net

Shape = tuple[int, ...]


class Builder(Net):
    """A network under construction whose values have known shapes."""

    def __init__(self, random: Random) -> None:
        super().__init__(random.randrange(1 << 30))
        self.choice = random
        self.shapes: dict[str, Shape] = {}

    def put(self, op: str, shape: Shape, *inputs: str, **attrs: Any) -> str:
        name = self.add(op, *inputs, **attrs)
        self.shapes[name] = shape
        return name


def _transpose(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    perm = list(range(len(shape)))
    b.choice.shuffle(perm)
    return b.put("Transpose", tuple(shape[p] for p in perm), x, perm=perm)


def _pointwise(b: Builder, x: str) -> str:
    return b.put(b.choice.choice(["Relu", "Sigmoid", "Tanh", "Neg", "Abs"]), b.shapes[x], x)


def _bias(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    axis = b.choice.randrange(len(shape))
    wide = [d if n == axis else 1 for n, d in enumerate(shape)]
    op = b.choice.choice(["Add", "Mul", "Sub"])
    return b.put(op, shape, x, b.constant(b.random.standard_normal(wide).astype(np.float32)))


def _reshape(b: Builder, x: str) -> str:
    shape = list(b.shapes[x])
    n = b.choice.randrange(len(shape))
    if len(shape) > 2 and b.choice.random() < 0.5:
        n = min(n, len(shape) - 2)
        new = [*shape[:n], shape[n] * shape[n + 1], *shape[n + 2 :]]
    elif shape[n] % 2 == 0 and len(shape) < 6:
        new = [*shape[:n], shape[n] // 2, 2, *shape[n + 1 :]]
    else:
        new = [1, *shape] if len(shape) < 6 else shape
    return b.put("Reshape", tuple(new), x, b.ints(*new))


def _slice(b: Builder, x: str) -> str:
    shape = list(b.shapes[x])
    n = b.choice.randrange(len(shape))
    if shape[n] < 2:
        return x
    start = b.choice.randrange(shape[n] - 1)
    end = b.choice.randrange(start + 1, shape[n] + 1)
    shape[n] = end - start
    return b.put("Slice", tuple(shape), x, b.ints(start), b.ints(end), b.ints(n))


def _pad(b: Builder, x: str) -> str:
    shape = list(b.shapes[x])
    n = b.choice.randrange(len(shape))
    pads = [0] * (2 * len(shape))
    pads[n], pads[n + len(shape)] = b.choice.randrange(2), b.choice.randrange(1, 3)
    shape[n] += pads[n] + pads[n + len(shape)]
    return b.put("Pad", tuple(shape), x, b.ints(*pads), b.constant(np.array(b.choice.choice([0, 1, -2]), np.float32)))


def _concat(b: Builder, x: str) -> str:
    shape = list(b.shapes[x])
    n = b.choice.randrange(len(shape))
    other = b.put("Neg", tuple(shape), x)
    shape[n] *= 2
    return b.put("Concat", tuple(shape), x, other, axis=n)


def _softmax(b: Builder, x: str) -> str:
    return b.put("Softmax", b.shapes[x], x, axis=b.choice.randrange(len(b.shapes[x])))


def _mean(b: Builder, x: str) -> str:
    shape = list(b.shapes[x])
    n = b.choice.randrange(len(shape))
    shape[n] = 1
    return b.put(b.choice.choice(["ReduceMean", "ReduceMax"]), tuple(shape), x, axes=[n], keepdims=1)


def _conv(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    if len(shape) != 4 or min(shape[2:]) < 3:
        return x
    out = b.choice.choice([2, 4])
    weight = b.weight(out, shape[1], 3, 3)
    return b.put("Conv", (shape[0], out, *shape[2:]), x, weight, pads=[1, 1, 1, 1], kernel_shape=[3, 3])


def _matmul(b: Builder, x: str) -> str:
    shape = b.shapes[x]
    if len(shape) < 2:
        return x
    return b.put("MatMul", (*shape[:-1], 4), x, b.weight(shape[-1], 4))


def _back(b: Builder, x: str) -> str:
    """A residual: the tensor plus its own transpose there and back."""
    perm = list(range(len(b.shapes[x])))
    b.choice.shuffle(perm)
    y = b.put("Transpose", tuple(b.shapes[x][p] for p in perm), x, perm=perm)
    y = b.put("Relu", b.shapes[y], y)
    y = b.put("Transpose", b.shapes[x], y, perm=[perm.index(k) for k in range(len(perm))])
    return b.put("Add", b.shapes[x], x, y)


STEPS: tuple[Callable[[Builder, str], str], ...] = (
    _transpose, _transpose, _transpose, _pointwise, _bias, _reshape, _slice, _pad, _concat, _softmax, _mean, _conv,
    _matmul, _back, _back,
)  # fmt: skip


def random_model(random: Random, steps: int = 8) -> ModelProto:
    """A model of so many random steps over one input."""
    b = Builder(random)
    shape = tuple(random.choice([1, 2, 3, 4, 4, 6]) for _ in range(random.choice([2, 3, 4, 4])))
    b.shapes["x"] = shape
    x = "x"
    for _ in range(steps):
        y = random.choice(STEPS)(b, x)
        size = int(np.prod(b.shapes[y]))
        x = y if size <= 4000 else x
    if x == "x":
        x = b.put("Relu", shape, "x")
    return b.model([("x", shape)], [(x, b.shapes[x])])


# -- faults -----------------------------------------------------------------------------------------------------------


def _copy(model: ModelProto) -> ModelProto:
    copy = ModelProto()
    copy.CopyFrom(model)
    return copy


def _set(node: NodeProto, name: str, value: Any) -> None:
    kept = [a for a in node.attribute if a.name != name]
    del node.attribute[:]
    node.attribute.extend([*kept, helper.make_attribute(name, value)])


def _perm(model: ModelProto, node: NodeProto, random: Random) -> bool:
    for a in node.attribute:
        if a.name == "perm" and len(a.ints) > 1:
            i, j = random.sample(range(len(a.ints)), 2)
            perm = list(a.ints)
            perm[i], perm[j] = perm[j], perm[i]
            _set(node, "perm", perm)
            return True
    return False


def _axis(model: ModelProto, node: NodeProto, random: Random) -> bool:
    for a in node.attribute:
        if a.name == "axis":
            _set(node, "axis", int(a.i) + random.choice([-1, 1]))
            return True
    return False


def _identity(model: ModelProto, node: NodeProto, random: Random) -> bool:
    node.CopyFrom(helper.make_node("Identity", [node.input[0]], [node.output[0]]))
    return True


def _reshape_for_transpose(model: ModelProto, node: NodeProto, random: Random) -> bool:
    if node.op_type != "Transpose":
        return False
    types = {x.name: x.type for x in shape_inference.infer_shapes(model).graph.value_info}
    types.update({x.name: x.type for x in model.graph.output})
    shape = [d.dim_value for d in types[node.output[0]].tensor_type.shape.dim]
    model.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), "fault"))
    node.CopyFrom(helper.make_node("Reshape", [node.input[0], "fault"], [node.output[0]]))
    return True


def _number(model: ModelProto, node: NodeProto, random: Random) -> bool:
    """A constant operand that is off in one place, as the start of a slice, the width or value of a pad, a weight."""
    constants = {x.name: x for x in model.graph.initializer}
    found = [n for n in node.input if n in constants and node.op_type not in ("Reshape",)]
    if not found:
        return False
    tensor = constants[random.choice(found)]
    array = numpy_helper.to_array(tensor).copy()
    if not array.size:
        return False
    array.flat[random.randrange(array.size)] += 1
    tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return True


def _turned(model: ModelProto, node: NodeProto, random: Random) -> bool:
    """A constant with its elements in another order, of the same shape."""
    constants = {x.name: x for x in model.graph.initializer}
    found = [n for n in node.input if n in constants and node.op_type not in ("Reshape", "Slice", "Pad")]
    if not found:
        return False
    tensor = constants[random.choice(found)]
    array = numpy_helper.to_array(tensor)
    tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(array.T).reshape(array.shape), tensor.name))
    return True


def _swapped(model: ModelProto, node: NodeProto, random: Random) -> bool:
    if node.op_type not in ("Concat", "Sub") or len(node.input) < 2:
        return False
    names = list(node.input)
    del node.input[:]
    node.input.extend(reversed(names))
    return True


def _unit_axis(model: ModelProto, node: NodeProto, random: Random) -> bool:
    """A Reshape that loses an axis of extent 1."""
    constants = {x.name: x for x in model.graph.initializer}
    if node.op_type != "Reshape" or node.input[1] not in constants:
        return False
    shape = [int(d) for d in numpy_helper.to_array(constants[node.input[1]])]
    if 1 not in shape:
        return False
    shape.remove(1)
    model.graph.initializer.append(numpy_helper.from_array(np.array(shape, np.int64), "fault"))
    node.input[1] = "fault"
    return True


FAULTS: dict[str, Callable[[ModelProto, NodeProto, Random], bool]] = {
    "two axes of a transpose swapped": _perm,
    "another axis": _axis,
    "a node dropped": _identity,
    "a reshape for a transpose": _reshape_for_transpose,
    "a number of a constant": _number,
    "a constant turned": _turned,
    "operands swapped": _swapped,
    "a unit axis lost": _unit_axis,
}


def models_with_a_fault(model: ModelProto, random: Random, count: int) -> Iterator[tuple[str, ModelProto]]:
    """Up to so many models with one fault each."""
    for _ in range(4 * count):
        if count <= 0 or not model.graph.node:
            return
        name = random.choice(list(FAULTS))
        copy = _copy(model)
        node = copy.graph.node[random.randrange(len(copy.graph.node))]
        if FAULTS[name](copy, node, random):
            count -= 1
            yield name, copy
