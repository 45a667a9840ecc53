"""Proof for a region of a model: every cell of a shrunk region is the expression that computes it, known by a hash.

What an operator means for the places of cells is said here once more, independently of the reader of models; what is
computed in a cell is only a name: the operator with its attributes. Operators that are not known here make the region
one that is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import NodeProto

from eqsat.checking.axes import (
    ALONG,
    POINTWISE,
    REDUCTIONS,
    Space,
    attribute,
    given,
    is_known,
    numbers,
    reduced_axes,
    turned,
)
from eqsat.checking.draws import mixed, seed_of
from eqsat.checking.graph import Vertex
from eqsat.checking.model_graph import Unit, array_of
from eqsat.checking.plan import Region
from eqsat.checking.words import Unable, applied, constant, free
from eqsat.ir.dtypes import NDArray

COMMUTATIVE = frozenset(("Add", "Mul", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor"))
MOST = 1 << 16
"""Cells of a value up to which a proof is tried."""


def proved(region: Region, units: tuple[Unit, Unit], space: Space) -> bool:
    """Whether all cells of each pair of a shrunk region are the same expressions."""
    try:
        with np.errstate(all="ignore"):
            sides = [_side(region, side, units[side], space) for side in (0, 1)]
    except (Unable, ValueError, IndexError, KeyError, TypeError):  # a wrong model has shapes that do not fit: it is run
        return False
    for b, a in region.pairs:
        left, right = sides[0][units[0].values[b]], sides[1][units[1].values[a]]
        if left.shape != right.shape or not np.array_equal(left, right):
            return False
    return True


def _side(region: Region, side: int, unit: Unit, space: Space) -> dict[str, NDArray]:
    values: dict[str, NDArray] = {}

    def fill(name: str, number: int) -> None:
        shape = space.shape(side, name)
        size = int(np.prod(shape, dtype=np.int64))
        if size > MOST:
            raise Unable
        values[name] = free(np.arange(size), number).reshape(shape)

    for value, k in region.reads[side].items():
        fill(unit.values[value], k)
    inside = (region.before, region.after)[side]
    ends = [unit.graph.maker[pair[side]] for pair in region.pairs]
    for n in sorted({*inside, *(e for e in ends if unit.graph.vertices[e].leaf == "constant")}):
        vertex = unit.graph.vertices[n]
        name = vertex.name
        if vertex.leaf == "constant":
            if vertex.content in region.free:
                fill(name, 10_000 + region.free[vertex.content])
            elif name in unit.tensors and name in space.axes[side]:
                values[name] = constant(space.cut(side, name, array_of(unit.tensors[name])))
            continue
        if not vertex.pure or not is_known(vertex.source):
            raise Unable
        made = _apply(unit, vertex, values, space, side)
        outputs = [o for o in vertex.source.output if o]
        if len(outputs) != len(made):
            raise Unable
        for o, words in zip(outputs, made, strict=True):
            if words.size > MOST or words.shape != space.shape(side, o):
                raise Unable
            values[o] = words
    return values


def _apply(unit: Unit, vertex: Vertex, values: Mapping[str, NDArray], space: Space, side: int) -> list[NDArray]:
    node: NodeProto = vertex.source
    if any(a.name not in _ATTRIBUTES.get(node.op_type, ()) for a in node.attribute) and node.op_type not in POINTWISE:
        raise Unable
    targets = [space.shape(side, o) for o in node.output if o]
    if node.op_type in POINTWISE:
        return [_pointwise(vertex, values)]
    x = values[node.input[0]]
    if node.op_type in REDUCTIONS:
        return [_reduced(unit, vertex, x, targets[0])]
    if node.op_type in ALONG:
        return [_along(vertex, x)]
    rule = _RULES.get(node.op_type)
    if rule is None:
        raise Unable
    return rule(_Node(unit, vertex, [values[n] for n in node.input if n in values], x, targets))


class _Node:
    def __init__(
        self, unit: Unit, vertex: Vertex, operands: Sequence[NDArray], x: NDArray, targets: Sequence[tuple[int, ...]]
    ) -> None:
        self.unit, self.vertex, self.operands, self.x, self.targets = unit, vertex, operands, x, targets

    def attribute(self, name: str, default: Any = None) -> Any:
        return attribute(self.vertex.source, name, default)

    def given(self, name: str, place: int) -> list[int]:
        found = given(self.unit, self.vertex, name, place)
        if found is None:
            raise Unable
        return found

    def optional(self, place: int) -> list[int] | None:
        node = self.vertex.source
        if place >= len(node.input) or not node.input[place]:
            return None
        found = numbers(self.unit, self.vertex, place)
        if found is None:
            raise Unable
        return found


def _pointwise(vertex: Vertex, values: Mapping[str, NDArray]) -> NDArray:
    node: NodeProto = vertex.source
    if attribute(node, "axis") is not None:  # broadcasting of opsets before 7
        raise Unable
    words = [values[n] for n in node.input if n]
    return applied(_what(vertex), words, node.op_type in COMMUTATIVE)


def _what(vertex: Vertex) -> tuple[Any, ...]:
    """An operator with its opset, attributes and absent operands."""
    exact: Any = vertex.exact
    return exact


def _reduced(unit: Unit, vertex: Vertex, x: NDArray, target: tuple[int, ...]) -> NDArray:
    axes = reduced_axes(unit, vertex, x.ndim)
    if axes is None:
        raise Unable
    words = mixed(x ^ np.uint64(seed_of("reduce", vertex.source.op_type)))
    return mixed(words.sum(axis=tuple(axes), dtype=np.uint64)).reshape(target)


def _along(vertex: Vertex, x: NDArray) -> NDArray:
    if vertex.exact[2] < 13:  # type: ignore[index]
        raise Unable
    axis = int(attribute(vertex.source, "axis", -1))
    total = mixed(mixed(x).sum(axis=axis, keepdims=True, dtype=np.uint64))
    return mixed(x * np.uint64(3) ^ mixed(total ^ np.uint64(seed_of(vertex.source.op_type))))


def _transpose(x: _Node) -> list[NDArray]:
    return [x.x.transpose(x.attribute("perm") or list(range(x.x.ndim))[::-1])]


def _reshape(x: _Node) -> list[NDArray]:
    return [x.x.reshape(x.targets[0])]


def _identity(x: _Node) -> list[NDArray]:
    return [x.x]


def _slice(x: _Node) -> list[NDArray]:
    starts, ends = x.given("starts", 1), x.given("ends", 2)
    axes = given(x.unit, x.vertex, "axes", 3) or list(range(len(starts)))
    steps = x.optional(4) or [1] * len(starts)
    index = [slice(None)] * x.x.ndim
    for s, e, n, step in zip(starts, ends, axes, steps, strict=True):
        extent = x.x.shape[n]
        if step < 1:
            raise Unable
        s, e = (v + extent if v < 0 else v for v in (s, e))
        index[n] = slice(min(max(s, 0), extent), min(max(e, 0), extent), step)
    return [x.x[tuple(index)]]


def _pad(x: _Node) -> list[NDArray]:
    pads, mode = x.given("pads", 1), x.attribute("mode", b"constant")
    node: NodeProto = x.vertex.source
    widths = list(zip(pads[: x.x.ndim], pads[x.x.ndim :], strict=True))
    if mode != b"constant" or len(widths) != x.x.ndim or min(map(min, widths), default=0) < 0:
        raise Unable
    element = _numpy_type(x, node.input[0])
    if len(node.input) > 2 and node.input[2]:
        tensor = x.unit.tensors.get(node.input[2])
        if tensor is None:
            raise Unable
        fill = constant(array_of(tensor).reshape(()))
    else:
        fill = constant(np.asarray(x.attribute("value", 0), element))
    return [np.pad(x.x, widths, constant_values=fill)]


def _numpy_type(x: _Node, name: str) -> np.dtype[Any]:
    from eqsat.checking.model_run import NUMPY

    element = x.unit.graph.types[x.unit.made[name]][1]
    known = NUMPY.get(int(element)) if element.isdigit() else None  # type: ignore[call-overload]
    if known is None:
        raise Unable
    return np.dtype(known)


def _concat(x: _Node) -> list[NDArray]:
    return [np.concatenate(list(x.operands), int(x.attribute("axis", 1)))]


def _split(x: _Node) -> list[NDArray]:
    axis = int(x.attribute("axis", 0))
    ends = np.cumsum([t[axis] for t in x.targets])
    if int(ends[-1]) != x.x.shape[axis]:
        raise Unable
    return np.split(x.x, ends[:-1], axis)


def _expand(x: _Node) -> list[NDArray]:
    return [np.broadcast_to(x.x, x.targets[0])]


def _tile(x: _Node) -> list[NDArray]:
    repeats = x.optional(1)
    if repeats is None or len(repeats) != x.x.ndim:
        raise Unable
    return [np.tile(x.x, repeats)]


def _gather(x: _Node) -> list[NDArray]:
    index = x.unit.tensors.get(x.vertex.source.input[1])
    if index is None:
        raise Unable
    return [np.take(x.x, array_of(index), axis=int(x.attribute("axis", 0)))]


def _depth_to_space(x: _Node) -> list[NDArray]:
    n, c, h, w = x.x.shape
    b = int(x.attribute("blocksize"))
    if x.attribute("mode", b"DCR") == b"CRD":
        wide = x.x.reshape(n, c // (b * b), b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    else:
        wide = x.x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2)
    return [wide.reshape(n, c // (b * b), h * b, w * b)]


def _space_to_depth(x: _Node) -> list[NDArray]:
    n, c, h, w = x.x.shape
    b = int(x.attribute("blocksize"))
    wide = x.x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return [wide.reshape(n, c * b * b, h // b, w // b)]


def _matmul(x: _Node) -> list[NDArray]:
    if attribute(x.vertex.source, "alpha", 1.0) != 1.0:
        raise Unable
    a, b = (y.transpose(turned(x.vertex.source, k, y.ndim)) if y.ndim > 1 else y for k, y in enumerate(x.operands))
    if a.ndim < 2 or b.ndim < 2 or a.size * b.shape[-1] > 1 << 20:
        raise Unable
    terms = mixed(a[..., :, :, None] * np.uint64(5) ^ mixed(b[..., None, :, :]))
    return [mixed(terms.sum(axis=-2, dtype=np.uint64))]


_RULES: Mapping[str, Callable[[_Node], list[NDArray]]] = {
    "Transpose": _transpose, "Reshape": _reshape, "Squeeze": _reshape, "Unsqueeze": _reshape, "Flatten": _reshape,
    "Identity": _identity, "Slice": _slice, "Pad": _pad, "Concat": _concat, "Split": _split, "Expand": _expand,
    "Tile": _tile, "Gather": _gather, "DepthToSpace": _depth_to_space, "SpaceToDepth": _space_to_depth,
    "MatMul": _matmul, "FusedMatMul": _matmul,
}  # fmt: skip
_ATTRIBUTES: Mapping[str, Sequence[str]] = {
    "Transpose": ("perm",), "Reshape": ("allowzero",), "Squeeze": ("axes",), "Unsqueeze": ("axes",),
    "Flatten": ("axis",),
    "Slice": ("starts", "ends", "axes"), "Pad": ("pads", "mode", "value"), "Concat": ("axis",),
    "Split": ("axis", "split", "num_outputs"), "Gather": ("axis",), "DepthToSpace": ("blocksize", "mode"),
    "FusedMatMul": ("alpha", "transA", "transB", "transBatchA", "transBatchB"),
    "SpaceToDepth": ("blocksize",), "Softmax": ("axis",), "LogSoftmax": ("axis",),
    **{op: ("axes", "keepdims", "noop_with_empty_axes") for op in REDUCTIONS},
}  # fmt: skip
