"""What the choices of a target cost, in one number: bytes moved, then nodes, then cells that are computed; or time by a
table of prices, then bytes or cells."""

from __future__ import annotations

from functools import cache

from eqsat.backends.targets import target_named
from eqsat.extraction.cost import map_bytes, map_steps, pair_bytes, pair_view
from eqsat.extraction.extract import Prices
from eqsat.extraction.groups import product_of
from eqsat.graph.encode import Encoded
from eqsat.ir.dtypes import itemsize
from eqsat.ir.flat.size_samples import sampled
from eqsat.operators.interned import Reindex
from eqsat.operators.stacks import is_selection
from eqsat.pricing.operators import Origin, operator_price
from eqsat.pricing.table import Table
from eqsat.pricing.views import map_price, view_price

NODE = 1 << 11
"""A node, where it does not count as bytes: it decides between equal bytes."""
BYTE = NODE << 6


def prices(encoded: Encoded, target: str, table: Table | None = None) -> Prices:
    """What views and forms of a program cost for a target: bytes, or time where a table of prices is given.

    A view as the program has it is one node, whatever steps would spell it.
    """
    return _bytes(encoded, target) if table is None else _time(encoded, table)


def _bytes(encoded: Encoded, target: str) -> Prices:
    u = encoded.interned
    node = NODE + target_named(target).node_bytes * BYTE

    def view(reindex: Reindex) -> int:
        if reindex.map.is_identity:
            return NODE
        steps = 1 if u.reindexes.number(reindex) in encoded.views else map_steps(reindex)
        return map_bytes(reindex) * BYTE + steps * node

    def rough(reindex: Reindex) -> int:
        return 2 * sampled(reindex.map.n_out) * itemsize(reindex.dtype) * BYTE + node

    def pair(first: Reindex, second: Reindex) -> int | None:
        moved = pair_bytes(first, second)
        return None if moved is None else moved * BYTE + node

    def form(number: int, origins: tuple[Origin, ...]) -> int:
        operator = u.operators[u.forms[number].operator]
        cells = [sampled(operator.size(order)) for order in operator.outputs]
        moved = 2 * cells[0] * itemsize(operator.kind.dtypes[0]) if is_selection(operator) else 0
        made = product_of(u.forms[number])
        # only products of matrices read them so everywhere: a reshape is near
        transposed = 0 if made is None else sum(made.transposed)
        return moved * BYTE + node * (1 + transposed) + _magnitude(sum(cells)) + (number not in encoded.written)

    return Prices(view, pair, form, rough)


def _time(encoded: Encoded, table: Table) -> Prices:
    u = encoded.interned

    @cache
    def view(reindex: Reindex) -> int:
        nodes = encoded.views.get(u.reindexes.number(reindex), ()) if not reindex.map.is_identity else ()
        price, moved = map_price(reindex, table)
        return min([price, *(view_price(node, table) for node in nodes)]) * NODE + _magnitude(moved)

    @cache
    def pair(first: Reindex, second: Reindex) -> int | None:
        node = pair_view(first, second)
        return None if node is None else view_price(node, table) * NODE + _magnitude(pair_bytes(first, second) or 0)

    @cache
    def form(number: int, origins: tuple[Origin, ...]) -> int:
        found = u.forms[number]
        operator = u.operators[found.operator]
        price = operator_price(operator.kind, found.labels, found.operands, found.outputs, origins, table)
        made = product_of(found)
        transposed = 0 if made is None else sum(made.transposed)  # as above
        price += transposed * round(table.operators["reshape"])
        cells = sum(sampled(operator.size(order)) for order in operator.outputs)
        return price * NODE + _magnitude(cells) + (number not in encoded.written)

    def rough(reindex: Reindex) -> int:
        cells, size = sampled(reindex.map.n_out), itemsize(reindex.dtype)
        price = table.moved("gather", cells, 1, size) + round(table.operators["node"])
        return price * NODE + _magnitude(2 * cells * size)

    return Prices(view, pair, form, rough)


def _magnitude(cells: int) -> int:
    """An even number below NODE that grows with the cells: 32 for every doubling. With 1 for what is spelled anew, of
    ways that are equal otherwise that of the program is the cheapest."""
    bits = max(cells, 1).bit_length() - 1
    return 2 * min(NODE // 2 - 1, 16 * bits + (cells << 4 >> bits) - 16)
