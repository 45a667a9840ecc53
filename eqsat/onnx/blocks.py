"""Views that ONNX has as one operator between depth and space: found by their shapes, compared by their maps."""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.tensors.tensor import View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import static_shape
from eqsat.onnx.call import Call, accepts
from eqsat.onnx.ops.table import apply

MODES = 11
"""The opset from which on DepthToSpace has more than one mode."""


def as_blocks(node: View, opset: int) -> Call | None:
    """The DepthToSpace or SpaceToDepth that a view is; None where it is neither.

    >>> from eqsat.ir.tensors.tensor import input
    >>> x = input("x", (1, 8, 3, 3), "float32")
    >>> _, c, i, j = (t.ax(n, d) for n, d in enumerate((1, 2, 6, 6)))
    >>> gather = [t.index_const(0), (i % 2 * 2 + j % 2) * 2 + c, i // 2, j // 2]
    >>> found = as_blocks(View(x, (1, 2, 6, 6), gather, t.TRUE, None), 13)
    >>> found is not None and (found.op, dict(found.attrs))
    ('DepthToSpace', {'blocksize': 2, 'mode': 'DCR'})
    """
    if node.valid is not t.TRUE or node.fill is not None:
        return None
    wanted = maps_of_view(node, read_only=True)
    for call in _calls(node, opset) if wanted is not None else ():
        made = apply(call)[0].node
        if accepts(call) and isinstance(made, View) and maps_of_view(made, read_only=True) == wanted:
            return call
    return None


def _calls(node: View, opset: int) -> Iterator[Call]:
    """The operators with the shapes of a view."""
    source, shape = static_shape(node.source.shape), static_shape(node.outputs[0][0])
    if source is None or shape is None or len(source) != 4 or len(shape) != 4 or 0 in source:
        return
    (n, depth, height, width), (m, channels, rows, columns) = source, shape
    if n != m:
        return
    block = max(rows // height, height // max(rows, 1))
    if block < 2:
        return
    if (depth, rows, columns) == (channels * block * block, height * block, width * block):
        for mode in ({"mode": "DCR"}, {"mode": "CRD"}) if opset >= MODES else ({},):
            yield Call("DepthToSpace", (node.source,), {"blocksize": block, **mode}, opset)
    if (channels, height, width) == (depth * block * block, rows * block, columns * block):
        yield Call("SpaceToDepth", (node.source,), {"blocksize": block}, opset)
