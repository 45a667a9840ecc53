"""Values that both models have, in shapes of their own: each is reshaped to the shape of the first model and back.

A stream of (1, 64, 128) may be written as (64, 128) from end to end: no operator of it is then the same as one of the
other model, and the whole stream is one region. Between the two reshapes, which mean nothing, its values may be equal
to those of the other model, one by one; that they are is claimed by the plan, and checked, as of any others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np
from onnx import NodeProto, TypeProto, helper

from eqsat.checking.graph import Graph, Type
from eqsat.ir.dtypes import NDArray


def elsewhere(before: Graph, after: Graph) -> dict[int, tuple[int, ...]]:
    """Values of `after` that no value of `before` looks like, but one of another shape does: that shape."""
    known: dict[int, list[Type]] = {}
    for value, look in _computed(before):
        known.setdefault(look, []).append(before.types[value])
    found: dict[int, tuple[int, ...]] = {}
    for value, look in _computed(after):
        dims, element = after.types[value]
        types = known.get(look, [])
        if dims is None or (dims, element) in types:
            continue
        for other, same in types:
            if same == element and other is not None and _merged(_numbers(dims), _numbers(other)):
                found[value] = _numbers(other)
                break
    return found


def _computed(graph: Graph) -> list[tuple[int, int]]:
    """The values that operators compute, with their fingerprints."""
    prints = graph.fingerprints()
    makers = [v for v in graph.vertices if not v.leaf and not v.clear]
    return [(value, prints[value]) for v in makers for value in v.outputs if graph.cut[value]]


def _numbers(dims: Sequence[object]) -> tuple[int, ...]:
    return tuple(int(str(d)) for d in dims)


def _merged(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether one shape is the other with neighbours merged, axes of one position aside."""
    if prod(a) != prod(b) or not prod(a):
        return False
    left, right = ({*accumulate((d for d in dims if d != 1), mul)} for dims in (a, b))
    return left <= right or right <= left


@dataclass(frozen=True)
class Reshaped:
    """A node, the reshapes of its values to other shapes and back, the constants that these read, and what the values
    that it makes are called now."""

    node: NodeProto
    constants: dict[str, NDArray] = field(default_factory=dict[str, NDArray])
    reshapes: list[NodeProto] = field(default_factory=list[NodeProto])
    renamed: dict[str, str] = field(default_factory=dict[str, str])


def reshaped(
    node: NodeProto, shapes: Mapping[str, tuple[int, ...]], types: dict[str, TypeProto], taken: set[str]
) -> Reshaped:
    """A node between reshapes of the values that have other shapes; what that makes gets types, and names not taken."""
    names = [o for o in node.output if o in shapes]
    if not names:
        return Reshaped(node)
    found = Reshaped(NodeProto())
    found.node.CopyFrom(node)
    for name in names:
        kind = types[name].tensor_type
        made, other = _fresh(f"{name} made", taken), _fresh(f"{name} reshaped", taken)
        types[made], types[other] = types[name], helper.make_tensor_type_proto(kind.elem_type, list(shapes[name]))
        found.renamed[name] = made
        own = [int(d.dim_value) for d in kind.shape.dim]
        for source, target, dims in ((made, other, shapes[name]), (other, name, own)):
            shape = _fresh(f"shape of {target}", taken)
            found.constants[shape] = np.array(dims, np.int64)
            found.reshapes.append(helper.make_node("Reshape", [source, shape], [target]))
    found.node.output[:] = [found.renamed.get(o, o) for o in node.output]
    return found


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "'"
    taken.add(name)
    return name
