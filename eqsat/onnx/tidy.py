"""What a written model need not have: Reshapes of Reshapes and constants, the same twice, Slices that are one Split."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from math import prod

from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from eqsat.ir.terms.text import fresh_name
from eqsat.onnx.call import Call, accepts, schema, to_node
from eqsat.onnx.graphs import nested_nodes, subgraphs
from eqsat.onnx.writer import Cut, Writer


def tidy(graph: GraphProto) -> None:
    """Let a Reshape of a Reshape start from the first one's input, give reshaped constants their shape, let equal
    constants and equal Reshapes be one, and drop what nothing reads any more. Only shapes that are numbers count: a 0
    in a shape means an extent of the input.

    >>> from onnx import TensorProto, helper, numpy_helper
    >>> import numpy as np
    >>> nodes = [helper.make_node("Reshape", ["x", "a"], ["y"]), helper.make_node("Reshape", ["y", "b"], ["z"])]
    >>> shapes = [numpy_helper.from_array(np.array(s, np.int64), n) for n, s in (("a", [6]), ("b", [3, 2]))]
    >>> ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [2, 3]), ("z", [3, 2]))]
    >>> graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], shapes)
    >>> tidy(graph)
    >>> [(list(n.input), list(n.output)) for n in graph.node], [x.name for x in graph.initializer]
    ([(['x', 'b'], ['z'])], ['b'])
    """
    before = _uses(graph)
    overridable = {x.name for x in graph.input}
    constants = {x.name: x for x in graph.initializer}
    reshapes: dict[str, NodeProto] = {}
    folded: dict[str, str] = {}
    names = {*constants, *overridable, *(o for n in nested_nodes(graph.node) for o in n.output)}
    for node in graph.node:
        if (node.domain or "ai.onnx", node.op_type) != ("ai.onnx", "Reshape"):
            continue
        if not _is_fixed(node, constants, overridable):
            continue
        while node.input[0] in reshapes:
            node.input[0] = reshapes[node.input[0]].input[0]
        node.input[0] = folded.get(node.input[0], node.input[0])
        source = constants.get(node.input[0])
        shape = constants[node.input[1]]
        if source is not None and node.input[0] not in overridable and _is_inline(source) and _fits(source, shape):
            node.input[0] = _reshaped(graph, source, shape, names)
            constants[node.input[0]] = graph.initializer[-1]
            folded[node.output[0]] = node.input[0]
            before[node.input[0]] += 1
            node.op_type = "Identity"
            del node.input[1:], node.attribute[:]
        else:
            reshapes[node.output[0]] = node
    _forward(graph)
    fixed = {*overridable, *(x.name for x in graph.output), *_inner(graph)}
    _share_constants(graph, fixed)
    _share_reshapes(graph, reshapes, fixed)
    _drop_unused(graph, before)


def _is_fixed(node: NodeProto, constants: dict[str, TensorProto], overridable: set[str]) -> bool:
    if len(node.input) < 2:  # of opsets before 5, which had an attribute
        return False
    shape = constants.get(node.input[1])
    if shape is None or shape.name in overridable or not _is_inline(shape):
        return False
    return numpy_helper.to_array(shape).ndim == 1 and 0 not in numpy_helper.to_array(shape).tolist()


def _fits(source: TensorProto, shape: TensorProto) -> bool:
    """Whether a constant has as many cells as a shape without 0, of which one extent may be open."""
    wanted: list[int] = numpy_helper.to_array(shape).tolist()
    cells, known = prod(source.dims), prod(d for d in wanted if d != -1)
    if wanted.count(-1) > 1 or min(wanted, default=1) < -1:
        return False
    return cells % known == 0 if -1 in wanted else cells == known


def _is_inline(x: TensorProto) -> bool:
    return x.data_location != TensorProto.EXTERNAL


def _reshaped(graph: GraphProto, source: TensorProto, shape: TensorProto, names: set[str]) -> str:
    """The name of a constant with the data of another and a shape of its own."""
    array = numpy_helper.to_array(source).reshape(numpy_helper.to_array(shape).tolist())
    name = fresh_name(source.name, names)
    names.add(name)
    graph.initializer.append(numpy_helper.from_array(array, name))
    return name


def _inner(graph: GraphProto) -> Iterator[str]:
    """The names that occur inside of nodes."""
    for node in graph.node:
        for inner in nested_nodes([node]):
            if inner is not node:
                yield from (*inner.input, *inner.output)
            yield from (o.name for g in subgraphs(inner) for o in g.output)


def _share_constants(graph: GraphProto, fixed: Collection[str]) -> None:
    """Let readers of a constant read the first one that is equal to it."""
    first: dict[tuple[object, ...], str] = {}
    table: dict[str, str] = {}
    for x in graph.initializer:
        if x.name not in fixed and _is_inline(x) and x.HasField("raw_data"):
            key = x.data_type, tuple(x.dims), blake2b(x.raw_data).digest()
            table[x.name] = first.setdefault(key, x.name)
    _renamed(graph, {old: new for old, new in table.items() if old != new})


def _share_reshapes(graph: GraphProto, reshapes: dict[str, NodeProto], fixed: Collection[str]) -> None:
    """Let readers of a Reshape read the first one of the same value to the same shape."""
    first: dict[tuple[str, ...], str] = {}
    table: dict[str, str] = {}
    for output, node in reshapes.items():
        found = first.setdefault(tuple(node.input), output)
        if found != output and output not in fixed:
            table[output] = found
    _renamed(graph, table)


def _renamed(graph: GraphProto, table: dict[str, str]) -> None:
    """Let all that reads a value read another one."""
    for node in nested_nodes(graph.node) if table else ():
        for k, name in enumerate(node.input):
            if name in table:
                node.input[k] = table[name]


def _forward(graph: GraphProto) -> None:
    """Let readers of constants that stand behind an Identity of this pass read them directly."""
    constants = {x.name for x in graph.initializer}
    outputs = {x.name for x in graph.output}
    table = {
        n.output[0]: n.input[0]
        for n in graph.node
        if n.op_type == "Identity" and n.input[0] in constants and n.output[0] not in outputs
    }
    _renamed(graph, table)


def _drop_unused(graph: GraphProto, before: Counter[str]) -> None:
    """Remove the nodes and constants whose last reader is gone; what nobody read before stays as it is."""
    found = [-1]
    while found:
        uses = _uses(graph)
        found = [
            k for k, n in enumerate(graph.node)
            if n.op_type in ("Reshape", "Identity") and _is_gone(n.output[0], uses, before)
        ]  # fmt: skip
        for k in reversed(found):
            del graph.node[k]
    uses = _uses(graph)
    for k in reversed(range(len(graph.initializer))):
        if _is_gone(graph.initializer[k].name, uses, before):
            del graph.initializer[k]


def _is_gone(name: str, uses: Counter[str], before: Counter[str]) -> bool:
    return not uses[name] and bool(before[name])


def _uses(graph: GraphProto) -> Counter[str]:
    return Counter([i for n in nested_nodes(graph.node) for i in n.input] + [x.name for x in graph.output])


def tilings(cuts: Iterable[Cut]) -> Iterator[list[Cut]]:
    """Two or more cuts each, in order, that have every position of an axis once.

    >>> from onnx import NodeProto
    >>> a, b, c = (Cut(NodeProto(), "x", "float32", 0, *ends, 6) for ends in ((2, 6), (0, 2), (0, 3)))
    >>> [[(cut.start, cut.end) for cut in found] for found in tilings([a, b, c])]
    [[(0, 2), (2, 6)]]
    """
    groups: dict[tuple[str, int], dict[int, dict[int, Cut]]] = {}
    for cut in cuts:
        if cut.start < cut.end:
            groups.setdefault((cut.source, cut.axis), {}).setdefault(cut.start, {}).setdefault(cut.end, cut)
    for group in groups.values():
        found = _from(group, 0, next(iter(next(iter(group.values())).values())).extent)
        if found is not None and len(found) > 1:
            yield found


def _from(group: dict[int, dict[int, Cut]], start: int, extent: int) -> list[Cut] | None:
    """Cuts from a position to the end of the axis; of several at one position, the first that is continued."""
    ways: dict[int, list[Cut]] = {extent: []}
    for at in sorted((x for x in group if x >= start), reverse=True):
        way = next(([cut, *ways[end]] for end, cut in group[at].items() if end in ways), None)
        if way is not None:
            ways[at] = way
    return ways.get(start)


def joined(w: Writer, cuts: Sequence[Cut]) -> None:
    """Write Slices of a model that have each cell of a tensor once as one Split, which moves the same."""
    for tiling in tilings(cuts):
        first = tiling[0]
        sizes = tuple(cut.end - cut.start for cut in tiling)
        call = Call("Split", (), {"axis": first.axis, "split": sizes}, w.opset)
        found = schema(call.op, w.opset)
        known = found is not None and ("split" in found.attributes or len(found.inputs) > 1)
        if not known or not accepts(call) or not w.runs(call.op, first.dtype):
            continue
        gone = {id(cut.node) for cut in tiling}
        outputs = [cut.node.output[0] for cut in tiling]
        place = next(n for n, node in enumerate(w.nodes) if id(node) in gone)
        w.nodes[place] = to_node(call, [first.source], outputs, w.constant, w.fresh(call.op))
        w.nodes[:] = [node for node in w.nodes if id(node) not in gone]
        unread = {name for cut in tiling for name in cut.node.input} - {name for x in w.nodes for name in x.input}
        w.initializers[:] = [x for x in w.initializers if x.name not in unread]
