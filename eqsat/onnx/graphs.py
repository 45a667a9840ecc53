"""Models as messages: the nodes of graphs inside of nodes (If, Loop, Scan), a model without its nodes and data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import GraphProto, ModelProto, NodeProto


def subgraphs(node: NodeProto) -> Iterator[GraphProto]:
    """The graphs that a node holds as attributes."""
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs


def nested_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes, and those of their subgraphs."""
    stack = list(nodes)
    while stack:
        node = stack.pop()
        yield node
        for graph in subgraphs(node):
            stack.extend(graph.node)


def without_data(model: ModelProto) -> ModelProto:
    """A copy of a model without nodes, constants and intermediate types."""
    copy = ModelProto()
    for entry, value in model.ListFields():
        if entry.name == "graph":
            continue
        if isinstance(value, (int, float, str, bytes)):
            setattr(copy, entry.name, value)
        else:
            getattr(copy, entry.name).MergeFrom(value)
    graph = model.graph
    copy.graph.name, copy.graph.doc_string = graph.name, graph.doc_string
    copy.graph.input.extend(graph.input)
    copy.graph.output.extend(graph.output)
    copy.graph.quantization_annotation.extend(graph.quantization_annotation)
    copy.graph.metadata_props.extend(graph.metadata_props)
    return copy
