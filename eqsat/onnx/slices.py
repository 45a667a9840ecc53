"""Slices of one tensor that together are all of it, along one axis: one Split instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from eqsat.onnx.call import Call, accepts, schema, to_node
from eqsat.onnx.writer import Cut, Writer


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
