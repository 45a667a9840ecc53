"""How the axes of a region's values belong together, operator by operator; what an operator is not known to treat
alike keeps its extents. So a region is shrunk on both sides in the same way, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from eqsat.checking.digits import Digits, DigitTable
from eqsat.checking.graph import Vertex
from eqsat.checking.model_graph import SMALL, Unit, array_of
from eqsat.checking.plan import Region
from eqsat.ir.dtypes import NDArray

POINTWISE = frozenset(
    (
        "Relu", "LeakyRelu", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs",
        "Erf", "Gelu", "Elu", "Selu", "Celu", "Softplus", "Softsign", "Floor", "Ceil", "Round", "Sign",
        "Reciprocal", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh",
        "Not", "IsNaN", "IsInf", "Cast", "Clip", "Mish", "ThresholdedRelu", "Shrink", "BitwiseNot", "Swish", "Add",
        "Sub", "Mul", "Div", "Pow", "Mod", "Max", "Min", "Sum", "Mean", "PRelu", "And", "Or", "Xor", "Equal",
        "Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Where", "BitwiseAnd", "BitwiseOr", "BitwiseXor",
        "BitShift",
    )
)  # fmt: skip
"""Operators that work cell by cell, operands broadcast as in numpy."""
REDUCTIONS = frozenset(
    ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare",
     "ReduceLogSum", "ReduceLogSumExp")
)  # fmt: skip
WHOLE = (TensorProto.INT64, TensorProto.INT32)
ALONG = frozenset(("Softmax", "LogSoftmax"))
Axes = list[Digits]


@dataclass
class Space:
    """The axes of the values of both sides of a region, over one table of digits."""

    table: DigitTable = field(default_factory=DigitTable)
    axes: tuple[dict[str, Axes], dict[str, Axes]] = field(
        default_factory=lambda: (dict[str, Axes](), dict[str, Axes]())
    )

    def value(self, side: int, name: str, shape: Sequence[int]) -> Axes:
        """The axes of a value, made when first asked for."""
        known = self.axes[side]
        if name not in known:
            known[name] = [self.table.axis(d) for d in shape]
        return known[name]

    def shape(self, side: int, name: str) -> tuple[int, ...]:
        """The shrunk shape of a value."""
        return tuple(self.table.size(d) for d in self.axes[side][name])

    def same(self, a: Axes, b: Axes) -> None:
        """Two values are one, axis by axis."""
        if len(a) != len(b):
            self.table.hold(d for axes in (a, b) for digits in axes for d in digits)
            return
        for x, y in zip(a, b, strict=True):
            self.table.equate(x, y)

    def cut(self, side: int, name: str, array: NDArray) -> NDArray:
        """The part of a constant that is left of it."""
        digits = [self.table.roots(d) for d in self.axes[side][name]]
        flat = [d for axis in digits for d in axis]
        wide = array.reshape([self.table.extent(d) for d in flat])
        part = wide[np.ix_(*(self.table.kept[d] for d in flat))] if flat else wide
        return np.ascontiguousarray(part).reshape(self.shape(side, name))


def attribute(node: NodeProto, name: str, default: Any = None) -> Any:
    """The value of an attribute."""
    for a in node.attribute:
        if a.name == name:
            return helper.get_attribute_value(a)
    return default


def numbers(unit: Unit, vertex: Vertex, place: int) -> list[int] | None:
    """The whole numbers of a constant operand; None where it is absent or not constant."""
    node: NodeProto = vertex.source
    if place >= len(node.input) or not node.input[place]:
        return None
    tensor = unit.tensors.get(node.input[place])
    return None if tensor is None else [int(v) for v in array_of(tensor).reshape(-1)]


def given(unit: Unit, vertex: Vertex, name: str, place: int) -> list[int] | None:
    """A list that is an attribute in old opsets and an operand in new ones."""
    value = attribute(vertex.source, name)
    return numbers(unit, vertex, place) if value is None else [int(v) for v in value]


def shape_of(unit: Unit, name: str) -> tuple[int, ...] | None:
    """The shape of a value in numbers."""
    dims = unit.graph.types[unit.made[name]][0]
    return None if dims is None else tuple(int(str(d)) for d in dims)


def relate(space: Space, side: int, unit: Unit, vertex: Vertex) -> None:
    """Relate the axes of a node's operands and outputs."""
    node: NodeProto = vertex.source
    names = [*(unit.values[v] for v in vertex.operands), *(o for o in node.output if o)]
    shapes = {name: shape_of(unit, name) for name in names}
    known = {name: space.value(side, name, s) for name, s in shapes.items() if s is not None}
    for name in names:  # what may be sizes or positions, and few numbers, stay as they are
        tensor = unit.tensors.get(name)
        if name in known and tensor is not None and (tensor.data_type in WHOLE or prod(tensor.dims) < SMALL):
            space.table.hold(d for digits in known[name] for d in digits)
    rule = None if not is_known(node) or len(known) != len(shapes) else _rule(node.op_type)
    if rule is not None:
        ins = [known[n] if n else [] for n in node.input]
        sizes = [shapes[n] or () if n else () for n in node.input]
        context = _Node(space, unit, vertex, ins, [known[o] for o in node.output if o], sizes,
                        [shapes[o] or () for o in node.output if o])  # fmt: skip
        if rule(context):
            return
    for axes in known.values():
        for digits in axes:
            space.table.hold(digits)


def space_of(region: Region, units: tuple[Unit, Unit], constants: bool) -> Space | None:
    """The axes of a region, shrunk, or all but those of constants whose numbers matter; None where the shapes of a
    (wrong) model do not fit each other."""
    try:
        return _related(region, units, constants)
    except (ValueError, IndexError, KeyError, TypeError):
        return None


def _related(region: Region, units: tuple[Unit, Unit], constants: bool) -> Space:
    space = Space()
    for side, inside in ((0, region.before), (1, region.after)):
        unit = units[side]
        for n in inside:
            vertex = unit.graph.vertices[n]
            if vertex.leaf:
                shape = shape_of(unit, vertex.name)
                if shape is not None:
                    axes = space.value(side, vertex.name, shape)
                    if not constants and vertex.content not in region.free:
                        space.table.hold(d for digits in axes for d in digits)
            else:
                relate(space, side, unit, vertex)
    ties: dict[Any, list[Axes]] = {}
    for side, inside in ((0, region.before), (1, region.after)):
        unit = units[side]
        for value, k in region.reads[side].items():
            shape = shape_of(unit, unit.values[value])
            if shape is not None:
                ties.setdefault(k, []).append(space.value(side, unit.values[value], shape))
        for n in inside:
            content = unit.graph.vertices[n].content
            name = unit.graph.vertices[n].name
            if content in region.free and name in space.axes[side]:
                flat = [tuple(d for digits in space.axes[side][name] for d in digits)]
                ties.setdefault(("content", content), []).append(flat)
    for k, (b, a) in enumerate(region.pairs):
        for side, value in ((0, b), (1, a)):
            shape = shape_of(units[side], units[side].values[value])
            if shape is not None:
                ties.setdefault(("pair", k), []).append(space.value(side, units[side].values[value], shape))
    for first, *others in ties.values():
        for other in others:
            space.same(first, other)
    space.table.shrink()
    return space


@dataclass
class _Node:
    space: Space
    unit: Unit
    vertex: Vertex
    ins: list[Axes]
    outs: list[Axes]
    sizes: list[tuple[int, ...]]
    made: list[tuple[int, ...]]

    @property
    def node(self) -> NodeProto:
        return self.vertex.source

    def same(self, a: Digits, b: Digits) -> bool:
        return self.space.table.equate(a, b)

    def hold(self, *axes: Digits) -> None:
        for digits in axes:
            self.space.table.hold(digits)

    def new(self, extent: int) -> Digits:
        digits = self.space.table.axis(extent)
        self.space.table.hold(digits)
        return digits


def _pointwise(x: _Node) -> bool:
    for axes, shape in zip(x.ins, x.sizes, strict=True):
        for n in range(1, len(shape) + 1):
            if shape[-n] != 1 and not x.same(axes[-n], x.outs[0][-n]):
                return False
    return True


def _transpose(x: _Node) -> bool:
    perm = attribute(x.node, "perm") or list(range(len(x.ins[0])))[::-1]
    return all(x.same(x.ins[0][p], d) for p, d in zip(perm, x.outs[0], strict=True))


def _reshape(x: _Node) -> bool:
    if x.node.op_type == "Reshape" and (len(x.node.input) < 2 or numbers(x.unit, x.vertex, 1) is None):
        return False
    if 0 in x.sizes[0]:
        return False
    flat = [d for axis in x.ins[0] for d in axis], [d for axis in x.outs[0] for d in axis]
    return x.same(*(tuple(f) for f in flat))


def _some_axes(x: _Node, axes: Sequence[int] | None) -> bool:
    """All axes but some are one in the first operand and the outputs; those keep their extents."""
    if axes is None:
        return False
    held = {a % len(x.ins[0]) for a in axes} if x.ins[0] else set[int]()
    for out in x.outs:
        if len(out) != len(x.ins[0]):
            return False
        for n, (a, b) in enumerate(zip(x.ins[0], out, strict=True)):
            if n in held:
                x.hold(a, b)
            elif not x.same(a, b):
                return False
    return True


def _slice(x: _Node) -> bool:
    starts, ends = given(x.unit, x.vertex, "starts", 1), given(x.unit, x.vertex, "ends", 2)
    if (
        starts is None
        or ends is None
        or (len(x.node.input) > 3 and x.node.input[3] and numbers(x.unit, x.vertex, 3) is None)
    ):
        return False
    steps = numbers(x.unit, x.vertex, 4)
    if steps is None and len(x.node.input) > 4 and x.node.input[4]:
        return False
    axes = given(x.unit, x.vertex, "axes", 3) or list(range(len(starts)))
    cut: list[int] = []
    for k, a in enumerate(axes):
        extent = x.sizes[0][a]
        whole = starts[k] == 0 and ends[k] >= extent and (steps is None or steps[k] == 1)
        if not whole:
            cut.append(a)
    return _some_axes(x, cut)


def _pad(x: _Node) -> bool:
    pads = given(x.unit, x.vertex, "pads", 1)
    if pads is None or (len(x.node.input) > 3 and x.node.input[3]) or len(pads) != 2 * len(x.sizes[0]):
        return False
    rank = len(x.sizes[0])
    return _some_axes(x, [n for n in range(rank) if pads[n] or pads[rank + n]])


def _concat(x: _Node) -> bool:
    axis = int(attribute(x.node, "axis", 1))
    for axes in x.ins:
        for n, (a, b) in enumerate(zip(axes, x.outs[0], strict=True)):
            if n == axis % len(axes):
                x.hold(a, b)
            elif not x.same(a, b):
                return False
    return True


def _split(x: _Node) -> bool:
    return _some_axes(x, [int(attribute(x.node, "axis", 0))])


def _gather(x: _Node) -> bool:
    axis = int(attribute(x.node, "axis", 0)) % max(1, len(x.ins[0]))
    if numbers(x.unit, x.vertex, 1) is None:
        return False
    x.hold(x.ins[0][axis], *x.ins[1], *x.outs[0][axis : axis + len(x.ins[1])])
    rest = [*x.ins[0][:axis], *x.ins[0][axis + 1 :]]
    kept = [*x.outs[0][:axis], *x.outs[0][axis + len(x.ins[1]) :]]
    return len(rest) == len(kept) and all(x.same(a, b) for a, b in zip(rest, kept, strict=True))


def _expand(x: _Node) -> bool:
    if len(x.node.input) > 1 and numbers(x.unit, x.vertex, 1) is None:
        return False
    for n in range(1, len(x.ins[0]) + 1):
        if x.sizes[0][-n] != 1 and not x.same(x.ins[0][-n], x.outs[0][-n]):
            return False
    return True


def _tile(x: _Node) -> bool:
    repeats = numbers(x.unit, x.vertex, 1)
    if repeats is None or len(repeats) != len(x.ins[0]):
        return False
    return all(x.same((*x.new(r), *a), b) for r, a, b in zip(repeats, x.ins[0], x.outs[0], strict=True))


def _depth(x: _Node, deep: Axes, wide: Axes, inner: int, crd: bool) -> bool:
    """(N, C, H, W) with C = blocks and channels, beside (N, channels, H blocks, W blocks)."""
    block = int(attribute(x.node, "blocksize", 1))
    p, q = x.new(block), x.new(block)
    c = x.space.table.axis(inner)
    done = x.same(deep[0], wide[0]) and x.same(deep[1], (*c, *p, *q) if crd else (*p, *q, *c))
    done = done and x.same(wide[1], c)
    return done and x.same(wide[2], (*deep[2], *p)) and x.same(wide[3], (*deep[3], *q))


def _depth_to_space(x: _Node) -> bool:
    return _depth(x, x.ins[0], x.outs[0], x.made[0][1], attribute(x.node, "mode", b"DCR") == b"CRD")


def _space_to_depth(x: _Node) -> bool:
    if attribute(x.node, "mode") is not None:
        return False
    return _depth(x, x.outs[0], x.ins[0], x.sizes[0][1], False)


def reduced_axes(unit: Unit, vertex: Vertex, rank: int) -> list[int] | None:
    """The axes that a reduction removes; None where they are not known."""
    axes = given(unit, vertex, "axes", 1)
    if axes is None:
        absent = len(vertex.source.input) < 2 or not vertex.source.input[1]
        return list(range(rank)) if absent and not attribute(vertex.source, "noop_with_empty_axes", 0) else None
    if not axes:
        return None
    return sorted(a % rank for a in axes)


def _reduce(x: _Node) -> bool:
    axes = reduced_axes(x.unit, x.vertex, len(x.ins[0]))
    if axes is None:
        return False
    keep = int(attribute(x.node, "keepdims", 1))
    outs = iter(x.outs[0])
    for n, a in enumerate(x.ins[0]):
        if n in axes:
            if keep:
                next(outs)
        elif not x.same(a, next(outs)):
            return False
    return True


def _along(x: _Node) -> bool:
    return all(x.same(a, b) for a, b in zip(x.ins[0], x.outs[0], strict=True))


def turned(node: NodeProto, operand: int, rank: int) -> list[int]:
    """The axes of an operand of a product, batch first, then rows and inner, or inner and columns."""
    letter, places = "AB"[operand], list(range(rank))
    if attribute(node, f"transBatch{letter}", 0):
        places = [*places[1:-1], places[0], places[-1]]
    return [*places[:-2], places[-1], places[-2]] if attribute(node, f"trans{letter}", 0) else places


def _matmul(x: _Node) -> bool:
    if min(map(len, x.ins)) < 2:
        return False
    orders = [turned(x.node, k, len(axes)) for k, axes in enumerate(x.ins)]
    a, b = ([axes[n] for n in order] for axes, order in zip(x.ins, orders, strict=True))
    if not x.same(a[-1], b[-2]):
        return False
    out = x.outs[0]
    if not x.same(a[-2], out[-2]) or not x.same(b[-1], out[-1]):
        return False
    extents = [[sizes[n] for n in order] for sizes, order in zip(x.sizes, orders, strict=True)]
    for axes, sizes in zip((a, b), extents, strict=True):
        for n in range(3, len(axes) + 1):
            if sizes[-n] != 1 and not x.same(axes[-n], out[-n]):
                return False
    return True


def _conv(x: _Node) -> bool:
    if int(attribute(x.node, "group", 1)) != 1:
        return False
    data, weight, out = x.ins[0], x.ins[1], x.outs[0]
    x.hold(*(d for axes in (data, weight, out) for d in axes[2:]))
    bias = x.ins[2][0] if len(x.ins) > 2 and x.ins[2] else None
    done = x.same(data[0], out[0]) and x.same(data[1], weight[1]) and x.same(weight[0], out[1])
    return done and (bias is None or x.same(bias, out[1]))


_RULES: Mapping[str, Callable[[_Node], bool]] = {
    "Transpose": _transpose, "Reshape": _reshape, "Squeeze": _reshape, "Unsqueeze": _reshape, "Flatten": _reshape,
    "Identity": _along, "Slice": _slice, "Pad": _pad, "Concat": _concat, "Split": _split, "Gather": _gather,
    "Expand": _expand, "Tile": _tile, "DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth,
    "MatMul": _matmul, "FusedMatMul": _matmul, "Conv": _conv,
}  # fmt: skip


def is_known(node: NodeProto) -> bool:
    """Whether a node may be an operator of which something is said here."""
    return node.domain in ("", "ai.onnx") or (node.domain, node.op_type) == ("com.microsoft", "FusedMatMul")


def _rule(op: str) -> Callable[[_Node], bool] | None:
    if op in POINTWISE:
        return _pointwise
    if op in REDUCTIONS:
        return _reduce
    return _along if op in ALONG else _RULES.get(op)
