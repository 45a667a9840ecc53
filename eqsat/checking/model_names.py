"""Which nodes and values of a written model are those of the model it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx import ModelProto

from eqsat.checking.kept import kept
from eqsat.checking.model_graph import Contents, Unit, inferred, unit_of, unknown_sizes
from eqsat.checking.plan import Planner


@dataclass(frozen=True)
class Names:
    """Nodes by their places in the result and in the original, values by their names there.

    nodes: the same operator of the same data; instead: a node in whose place another one is; values: the same tensors.
    """

    nodes: Mapping[int, int] = field(default_factory=dict[int, int])
    instead: Mapping[int, int] = field(default_factory=dict[int, int])
    values: Mapping[str, str] = field(default_factory=dict[str, str])


def unchecked_names(before: ModelProto, after: ModelProto) -> Names:
    """What is kept of a model whose result is not compared with it: nodes by how they look, and no values."""
    sizes, contents = {name: 2 + k for k, (_, _, name) in enumerate(unknown_sizes(before))}, Contents()
    try:
        left, right = (unit_of(model, inferred(model, sizes), contents) for model in (before, after))
    except Exception:  # what onnx cannot infer the types of is not compared either
        return _of_outputs(before, after)
    planner = Planner(left.graph, right.graph)
    planner.plan()
    return names_of(left, right, planner, False)


def names_of(before: Unit, after: Unit, planner: Planner, equal: bool) -> Names:
    """What is kept, by a plan of both models; equal: what that takes for equal was shown to be."""
    known = _of_outputs(before.model, after.model)
    vertices = [_places(unit) for unit in (before, after)]
    numbers = [{place: n for n, place in side.items()} for side in vertices]
    same = {numbers[1][a]: numbers[0][b] for a, b in known.nodes.items() if a in numbers[1] and b in numbers[0]}
    found = kept(planner, same, equal)
    nodes = {vertices[1][a]: vertices[0][b] for a, b in found.nodes.items()}
    instead = {vertices[1][a]: vertices[0][b] for a, b in found.instead.items()}
    values = {after.name(a): before.name(b) for a, b in found.values.items()}
    return Names({**nodes, **known.nodes}, instead, {a: b for a, b in values.items() if a and b})


def _of_outputs(before: ModelProto, after: ModelProto) -> Names:
    """Nodes of one operator that make values of one name, which a writer keeps where the value is the same."""
    makers = {o: place for place, node in enumerate(before.graph.node) for o in node.output if o}
    found: dict[int, int] = {}  # a node of the original, and the first of the result that is it
    for place, node in enumerate(after.graph.node):
        other = next((makers[o] for o in node.output if o in makers), None)
        if other is not None and before.graph.node[other].op_type == node.op_type:
            found.setdefault(other, place)
    return Names({place: other for other, place in found.items()})


def _places(unit: Unit) -> dict[int, int]:
    """For each vertex that is a node of the model, the place of that."""
    makers = {o: place for place, node in enumerate(unit.model.graph.node) for o in node.output if o}
    found: dict[int, int] = {}
    for n, vertex in enumerate(unit.graph.vertices):
        names = [] if vertex.leaf or vertex.added else [unit.name(v) for v in vertex.outputs]
        place = next((makers[name] for name in names if name in makers), None)
        if place is not None:
            found[n] = place
    return found
