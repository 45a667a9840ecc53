"""What a program moves: the bytes of its materialised layout operators, as the target spells them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from eqsat.extraction.decode_view import viewed_twice
from eqsat.ir.dtypes import itemsize
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.read import TABLE_POINTS
from eqsat.ir.flat.size_samples import sampled, sampled_cells, symbol_sample
from eqsat.ir.flat.size_terms import as_extent
from eqsat.ir.flat.spell import spell
from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.flat.steps import Reshape, moved_cells
from eqsat.ir.flat.table import Map
from eqsat.ir.tensors.tensor import Compute, Constant, Node, Program, View, input
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import symbol_names
from eqsat.ir.terms.walk import symbols
from eqsat.operators.forms import is_selection_node
from eqsat.operators.universe import Reindex


@lru_cache(maxsize=1 << 14)
def map_bytes(reindex: Reindex) -> int:
    """The bytes that materialising a view moves.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> map_bytes(Reindex(from_digits(6, [digit(3, 1), digit(2, 3)]), None, "float32"))
    48
    """
    if reindex.map.is_identity:
        return 0
    spelling = spell(reindex.map)
    cells = (reindex.map.n_out, reindex.map.n_out) if spelling is None else moved_cells(spelling)
    return sum(sampled(c) for c in cells) * itemsize(reindex.dtype)


@lru_cache(maxsize=1 << 14)
def map_steps(reindex: Reindex) -> int:
    """The number of operators that materialising a view takes, reshapes left out: which of them are needed depends on
    the shapes on both sides."""
    spelling = spell(reindex.map)
    return 1 if spelling is None else max(1, sum(not isinstance(s, Reshape) for s in spelling.steps))


def spelled_maps(node: View) -> tuple[Map, ...] | None:
    """The maps, applied one after another, by which a View moves the fewest bytes; None where no maps describe it."""
    maps = maps_of_view(node)
    if maps is None or len(maps) == 1:
        return maps
    whole: Map | None = maps[0]
    for m in maps[1:]:
        whole = None if whole is None else compose(whole, m, TABLE_POINTS)
    dtype = node.source.dtype
    return maps if whole is None or maps_bytes(maps, dtype) <= maps_bytes((whole,), dtype) else (whole,)


def maps_bytes(maps: Sequence[Map], dtype: str) -> int:
    """The bytes that materialising views, one after another, moves."""
    return sum(map_bytes(Reindex(m, None, dtype)) for m in maps)


@lru_cache(maxsize=1 << 14)
def pair_bytes(first: Reindex, second: Reindex) -> int | None:
    """The bytes that a view of a view moves as one View; None where one View would not be read as such a pair.

    >>> from eqsat.ir.terms import term as t
    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> pad = Reindex(from_digits(3, [digit(4, 1, 0, 3)]), t.const(0, "int8"), "int8")
    >>> pair_bytes(pad, Reindex(from_digits(4, [digit(2, 1), digit(2, 2)]), None, "int8"))
    15
    """
    if not isinstance(first.map, FlatMap) or not isinstance(second.map, FlatMap):
        return None
    x = input("x", (as_extent(first.map.n_in),), first.dtype)
    node = viewed_twice(x, first.map, second.map, (first.fill, second.fill), None).node
    maps = maps_of_view(node) if isinstance(node, View) else None
    return node_bytes(node, set()) if maps is not None and len(maps) > 1 else None


def node_bytes(node: Node, constants: set[int]) -> int:
    """The bytes that a layout operator moves: a View of what is not constant, or a concatenation."""
    shape, dtype = node.outputs[0]
    if isinstance(node, View):
        if node.source.node.serial in constants:
            return 0
        maps = spelled_maps(node)
        return 2 * sampled_cells(shape) * itemsize(dtype) if maps is None else maps_bytes(maps, dtype)
    if isinstance(node, Compute) and is_selection_node(node):
        return selection_bytes(node)
    return 0


def selection_bytes(node: Node) -> int:
    """The bytes that an operator which only selects between cells of its operands moves."""
    shape, dtype = node.outputs[0]
    return 2 * sampled_cells(shape) * itemsize(dtype)


def sample_notes(program: Program) -> list[str]:
    """At which sizes the costs of a program are compared, where it has symbolic ones.

    >>> from eqsat.ir.terms.term import sym
    >>> x = input("x", (sym("N"), sym("C", upper=8)), "float32")
    >>> sample_notes(Program([x], {"y": x}))
    ['bytes are counted at N = 64, C = 8']
    """
    dims = (d for node in program.all_nodes() for shape, _ in node.outputs for d in shape if isinstance(d, Term))
    names = symbol_names(symbols(*dims))
    shown = [f"{name} = {symbol_sample(s)}" for s, name in names.items()]
    more = [f"{len(shown) - 4} more"] if len(shown) > 4 else []
    return [f"bytes are counted at {', '.join([*shown[:4], *more])}"] if shown else []


def layout_nodes(program: Program) -> list[tuple[Node, int]]:
    """The nodes of a program that move bytes only to change a layout, with those bytes."""
    constants: set[int] = set()
    found: list[tuple[Node, int]] = []
    for node in program.nodes():
        if isinstance(node, Constant) or (isinstance(node, View) and node.source.node.serial in constants):
            constants.add(node.serial)
            continue
        moved = node_bytes(node, constants)
        if moved:
            found.append((node, moved))
    return found


def program_bytes(program: Program) -> int:
    """The bytes moved by the layout operators of a program."""
    return sum(moved for _, moved in layout_nodes(program))
