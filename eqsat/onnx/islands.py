"""Which nodes of a model must stay together: values that programs do not model never leave an island of nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx import NodeProto

from eqsat.onnx.infer import captured


def node_inputs(node: NodeProto) -> list[str]:
    """The values a node reads, those that its subgraphs capture included."""
    return list(dict.fromkeys([*(n for n in node.input if n), *captured(node)]))


def islands(nodes: Sequence[NodeProto], modelled: Callable[[str], bool]) -> list[list[int]]:
    """The nodes in groups, in an order in which every group comes after the groups it reads.

    Nodes that share a value which is not modelled are one group; so are groups that would otherwise need each other.
    """
    parent = list(range(len(nodes)))

    def find(n: int) -> int:
        while parent[n] != n:
            parent[n] = parent[parent[n]]
            n = parent[n]
        return n

    reads = [node_inputs(n) for n in nodes]
    maker: dict[str, int] = {o: k for k, n in enumerate(nodes) for o in n.output if o}
    holder: dict[str, int] = {}
    for k, node in enumerate(nodes):
        for name in (*reads[k], *(o for o in node.output if o)):
            if not modelled(name):
                parent[find(k)] = find(holder.setdefault(name, k))
    edges: dict[int, set[int]] = {find(k): set() for k in range(len(nodes))}
    for k in range(len(nodes)):
        edges[find(k)].update(find(maker[name]) for name in reads[k] if name in maker and find(maker[name]) != find(k))
    members: dict[int, list[int]] = {}
    for k in range(len(nodes)):
        members.setdefault(find(k), []).append(k)
    return [sorted(k for group in component for k in members[group]) for component in _components(edges)]


def _components(edges: dict[int, set[int]]) -> list[list[int]]:
    """Strongly connected components, what is read first (Tarjan's algorithm, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    result: list[list[int]] = []
    for root in edges:
        if root in index:
            continue
        work = [(root, iter(sorted(edges[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, children = work[-1]
            child = next(children, None)
            if child is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    cut = stack.index(node)
                    result.append(stack[cut:])
                    on_stack.difference_update(stack[cut:])
                    del stack[cut:]
            elif child not in index:
                index[child] = low[child] = len(index)
                stack.append(child)
                on_stack.add(child)
                work.append((child, iter(sorted(edges[child]))))
            elif child in on_stack:
                low[node] = min(low[node], index[child])
    return result
