"""The nodes of graphs inside of nodes (If, Loop, Scan)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import GraphProto, NodeProto


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
