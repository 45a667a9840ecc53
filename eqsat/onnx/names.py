"""The names of a written model: nodes and values that are kept have those that the user gave them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from onnx import GraphProto, ModelProto, NodeProto

from eqsat.checking.model_graph import shown_names
from eqsat.checking.model_names import Names
from eqsat.checking.verdict import Checked
from eqsat.ir.terms.text import fresh_name
from eqsat.onnx.graphs import nested_nodes, subgraphs
from eqsat.onnx.read import ModelValues, OnnxProgram
from eqsat.onnx.write import renamed


def with_names(model: ModelProto, before: ModelProto, names: Names) -> tuple[ModelProto, Mapping[str, str]]:
    """A written model in which what is kept of `before` has its names there, and the values that were renamed.

    A node that is new is called after one in whose place it is and its operator: `encoder/turn.Reshape`. No two nodes
    have one name, and none has no name; of several that had the same, the first keeps it. With names goes what the user
    wrote beside them: documentation, metadata, and what the model says of values.
    """
    table = _values(model, names)
    result = ModelProto()
    result.CopyFrom(model)
    nodes = [renamed(node, table) for node in model.graph.node] if table else list(result.graph.node)
    taken: set[str] = set()
    origins = before.graph.node
    for place, node in enumerate(nodes):
        if place in names.nodes and origins[names.nodes[place]].name:
            node.name = _free(origins[names.nodes[place]].name, taken)
        if place in names.nodes:
            _annotated(node, origins[names.nodes[place]])
    for place, node in enumerate(nodes):
        if place not in names.nodes or not origins[names.nodes[place]].name:
            base = origins[names.instead[place]].name if place in names.instead else ""
            node.name = _free(f"{base}.{node.op_type}" if base else node.name or node.op_type, taken)
    if table:
        del result.graph.node[:]
        result.graph.node.extend(nodes)
        for info in result.graph.value_info:
            info.name = table.get(info.name, info.name)
    _tell(result.graph, before.graph, {old for name, old in names.values.items() if table.get(name, name) == old})
    return result, table


def _annotated(node: NodeProto, origin: NodeProto) -> None:
    """Give a node the documentation and metadata of the one that it is."""
    if origin.doc_string:
        node.doc_string = origin.doc_string
    if origin.metadata_props:
        del node.metadata_props[:]
        node.metadata_props.extend(origin.metadata_props)


def _tell(graph: GraphProto, before: GraphProto, kept: Collection[str]) -> None:
    """Say of values what a model says of those that are the same and have the same name."""
    made = {o for node in graph.node for o in node.output if o in kept}
    told = {x.name: x for x in before.value_info if x.name in made}
    for info in graph.value_info:
        if info.name in told:
            info.CopyFrom(told.pop(info.name))
    graph.value_info.extend(told.values())


def read_as(program: OnnxProgram, values: ModelValues, table: Mapping[str, str]) -> tuple[OnnxProgram, ModelValues]:
    """A model that was read, with values renamed."""

    def new(name: str) -> str:
        return table.get(name, name)

    names = {key: new(name) for key, name in program.envelope.names.items()}
    known = OnnxProgram(program.inputs, program.outputs, program.name, replace(program.envelope, names=names))
    types = {new(name): kind for name, kind in values.types.items()}
    return known, replace(values, types=types, constants=frozenset(map(new, values.constants)))


def checked_as(checked: Checked, old: ModelProto, new: ModelProto) -> Checked:
    """A check that names the nodes of the result as they are called now."""
    table = dict(zip(shown_names(old.graph.node), shown_names(new.graph.node), strict=True))
    regions = tuple(replace(r, after=tuple(table.get(name, name) for name in r.after)) for r in checked.regions)
    return replace(checked, regions=regions)


def _values(model: ModelProto, names: Names) -> dict[str, str]:
    """The values to rename: those whose old name nothing else has."""
    made = {o for node in model.graph.node for o in node.output if o}
    fixed = {*_fixed(model.graph)}
    table: dict[str, str] = {}
    wanted: set[str] = set()
    for name, old in names.values.items():
        if name in made and name not in fixed and old not in fixed and old not in wanted:
            wanted.add(old)
            table[name] = old
    clashes = True
    while clashes:  # what keeps the name that it has keeps others from it
        staying = made - table.keys()
        clashes = [name for name, old in table.items() if old in staying]
        for name in clashes:
            del table[name]
    return {name: old for name, old in table.items() if name != old}


def _fixed(graph: GraphProto) -> Iterator[str]:
    """Names that are not to change: the ends and constants of a graph, and all that the graphs inside of nodes own."""
    yield from (x.name for x in (*graph.input, *graph.output, *graph.initializer))
    yield from (x.values.name for x in graph.sparse_initializer)
    for node in nested_nodes(graph.node):
        for inner in subgraphs(node):
            yield from (x.name for x in (*inner.input, *inner.output, *inner.initializer))
            yield from (o for child in inner.node for o in child.output)


def _free(wish: str, taken: set[str]) -> str:
    """A name that no node has yet."""
    name = fresh_name(wish, taken)
    taken.add(name)
    return name
