"""What the choices of a target cost, in one number: bytes moved, then nodes, then cells that are computed."""

from __future__ import annotations

from eqsat.backends.targets import TARGETS
from eqsat.extraction.cost import map_bytes, map_steps, pair_bytes
from eqsat.extraction.extract import Prices
from eqsat.graph.encode import Encoded
from eqsat.ir.dtypes import itemsize
from eqsat.ir.flat.size_samples import sampled
from eqsat.operators.selections import is_selection
from eqsat.operators.universe import Reindex

NODE = 1 << 10
"""A node, where it does not count as bytes: it decides between equal bytes."""
BYTE = NODE << 6


def prices(encoded: Encoded, target: str) -> Prices:
    """What views and forms of a program cost for a target.

    A view as the program has it is one node, whatever steps would spell it.
    """
    u = encoded.universe
    node = NODE + TARGETS[target].node_bytes * BYTE

    def view(reindex: Reindex) -> int:
        steps = 1 if u.reindexes.number(reindex) in encoded.views else map_steps(reindex)
        return map_bytes(reindex) * BYTE + steps * node

    def pair(first: Reindex, second: Reindex) -> int | None:
        moved = pair_bytes(first, second)
        return None if moved is None else moved * BYTE + node

    def form(number: int) -> int:
        signed = u.signed[u.forms[number].signed]
        cells = [sampled(signed.size(order)) for order in signed.outputs]
        moved = 2 * cells[0] * itemsize(signed.kind.dtypes[0]) if is_selection(signed) else 0
        return moved * BYTE + node + _magnitude(sum(cells))

    return Prices(view, pair, form)


def _magnitude(cells: int) -> int:
    """A number below NODE that grows with the cells: 16 for every doubling."""
    bits = max(cells, 1).bit_length() - 1
    return min(NODE - 1, 16 * bits + (cells << 4 >> bits) - 16)
