"""What a program moves: the bytes of its materialised layout operators, as the target spells them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from eqsat.extraction.decode_view import viewed_twice
from eqsat.ir.dtypes import itemsize
from eqsat.ir.flat.formula import TABLE_POINTS
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.size_samples import sampled
from eqsat.ir.flat.size_terms import as_extent, shape_size
from eqsat.ir.flat.sizes import Size
from eqsat.ir.flat.spell import spell
from eqsat.ir.flat.split import chain_of_view, maps_of_view
from eqsat.ir.flat.steps import Reshape, moved_cells
from eqsat.ir.flat.table import Map
from eqsat.ir.tensors.tensor import Compute, Node, Program, View, input, is_ahead
from eqsat.operators.forms import is_selection_node
from eqsat.operators.interned import Reindex


@lru_cache(maxsize=1 << 14)
def map_cells(m: Map) -> tuple[Size, ...]:
    """The cells that materialising a view reads and writes, one entry per transfer."""
    if m.is_identity:
        return ()
    spelling = spell(m)
    return (m.n_out, m.n_out) if spelling is None else moved_cells(spelling)


@lru_cache(maxsize=1 << 14)
def map_bytes(reindex: Reindex) -> int:
    """The bytes that materialising a view moves.

    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> map_bytes(Reindex(from_digits(6, [digit(3, 1), digit(2, 3)]), None, "float32"))
    48
    """
    return sum(sampled(c) for c in map_cells(reindex.map)) * itemsize(reindex.dtype)


@lru_cache(maxsize=1 << 14)
def map_steps(reindex: Reindex) -> int:
    """The number of operators that materialising a view takes, reshapes left out: which of them are needed depends on
    the shapes on both sides."""
    spelling = spell(reindex.map)
    return 1 if spelling is None else max(1, sum(not isinstance(s, Reshape) for s in spelling.steps))


def spelled_maps(node: View) -> tuple[Map, ...] | None:
    """The maps, applied one after another, by which a View moves the fewest bytes; None where no maps describe it."""
    maps = maps_of_view(node)
    if maps is None or len(maps) == 1 or _counted(_maps_cells(maps)) <= 2 * sampled(maps[-1].n_out):
        return maps  # no view moves less than its result, read and written
    whole: Map | None = maps[0]
    for m in maps[1:]:
        whole = None if whole is None else compose(whole, m, TABLE_POINTS)
    if whole is None or _counted(_maps_cells(maps)) <= _counted(map_cells(whole)):
        return maps
    return (whole,)


def _maps_cells(maps: Sequence[Map]) -> list[Size]:
    """The cells that materialising views, one after another, reads and writes."""
    return [c for m in maps for c in map_cells(m)]


def _counted(cells: Sequence[Size]) -> int:
    return sum(sampled(c) for c in cells)


@lru_cache(maxsize=1 << 14)
def pair_bytes(first: Reindex, second: Reindex) -> int | None:
    """The bytes that a view of a view moves as one View; None where one View would not be read as such a pair.

    >>> from eqsat.ir.terms import term as t
    >>> from eqsat.ir.flat.map import digit, from_digits
    >>> pad = Reindex(from_digits(3, [digit(4, 1, 0, 3)]), t.const(0, "int8"), "int8")
    >>> pair_bytes(pad, Reindex(from_digits(4, [digit(2, 1), digit(2, 2)]), None, "int8"))
    15
    """
    node = pair_view(first, second)
    return None if node is None else _counted(node_cells(node, set())) * itemsize(first.dtype)


@lru_cache(maxsize=1 << 12)
def pair_view(first: Reindex, second: Reindex) -> View | None:
    """A view of a view as one View; None where one View would not be read as such a pair."""
    if not isinstance(first.map, FlatMap) or not isinstance(second.map, FlatMap):
        return None
    x = input("x", (as_extent(first.map.n_in),), first.dtype)
    node = viewed_twice(x, first.map, second.map, (first.fill, second.fill), None).node
    if not isinstance(node, View) or len(chain_of_view(node) or ()) < 2:
        return None
    return node if len(maps_of_view(node, read_only=True) or ()) > 1 else None


def node_cells(node: Node, constants: set[int]) -> Sequence[Size]:
    """The cells that a layout operator reads and writes: a View of what is not constant, or a concatenation."""
    shape = node.outputs[0][0]
    if isinstance(node, View) and node.source.node.serial not in constants:
        maps = spelled_maps(node)
        return [shape_size(shape)] * 2 if maps is None else _maps_cells(maps)
    if isinstance(node, Compute) and is_selection_node(node):
        return [shape_size(shape)] * 2
    return ()


def layout_cells(program: Program) -> list[tuple[Node, Sequence[Size], int]]:
    """The nodes of a program that move cells only to change a layout, with those cells and the bytes of each."""
    constants: set[int] = set()
    found: list[tuple[Node, Sequence[Size], int]] = []
    for node in program.nodes():
        if is_ahead(node) or (isinstance(node, View) and node.source.node.serial in constants):
            constants.add(node.serial)
            continue
        cells = node_cells(node, constants)
        if cells:
            found.append((node, cells, itemsize(node.outputs[0][1])))
    return found


def layout_nodes(program: Program) -> list[tuple[Node, int]]:
    """The nodes of a program that move bytes only to change a layout, with those bytes."""
    counted = [(node, _counted(cells) * each) for node, cells, each in layout_cells(program)]
    return [(node, moved) for node, moved in counted if moved]


def program_bytes(program: Program) -> int:
    """The bytes moved by the layout operators of a program."""
    return sum(moved for _, moved in layout_nodes(program))
