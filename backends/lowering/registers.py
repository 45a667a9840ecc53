"""Sums in vector registers: how many vectors by how many rows, and which bodies can be computed that way.

A tile of sums of products reads, for each step of the reduction, the vectors of its lanes and one number a row. More
sums mean fewer loads for each product, until the registers are full: past that, compilers spill. A processor of our
time adds two vectors and multiplies two in a cycle, loads two, and decodes six instructions; an addition takes three
cycles. The tile that takes the least time by this count for the whole output is chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.split import ceil_div, extent_of
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import INDEX, is_float, itemsize
from eqsat.ir.statements.stmt import For, Stmt, Store
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, int_value, linear_parts
from eqsat.ir.terms.walk import free_variables, nodes_of, postorder, substitute, transform

REGISTERS = "registers"
"""The note of a local buffer that is a tile of vector registers."""
DTYPES = ("float32", "float64", "int32", "uint32")
ADDS, LOADS, DECODED, LATENCY = 2, 2, 6, 3
LEAST = 16
"""Bytes of the narrowest vector."""
EXTREMES = ("max", "min")
"""Combiners besides sums that tiles of float registers hold."""
APART = 2
"""How far lanes may lie from each other, in elements of four bytes: two vectors are shuffled into one."""
STEERING = 4
"""Instructions that a step of the reduction takes besides loads and arithmetic."""
SPARE = 2
"""Registers for the number of a row, and for a product."""


@dataclass(frozen=True)
class File:
    """The vector registers: how many elements in each, and how many."""

    lanes: int
    count: int


def register_file(machine: Machine, dtype: str, along: int) -> File:
    """The registers of a machine for so many elements of a dtype: narrower ones where the elements do not fill one.

    >>> register_file(Machine(vector=32), "float32", 100), register_file(Machine(vector=32), "float32", 7)
    (File(lanes=8, count=16), File(lanes=4, count=16))
    """
    width = machine.vector
    while width > LEAST and width > along * itemsize(dtype):
        width //= 2
    return File(width // itemsize(dtype), 32 if machine.vector == 64 else 16)


def fits(vectors: int, rows: int, file: File) -> bool:
    """Whether so many sums stay in registers, beside the vectors of a step."""
    return vectors * rows + vectors + SPARE <= file.count


def cycles(vectors: int, rows: int) -> float:
    """The time of one step of the reduction."""
    sums, loads = vectors * rows, vectors + rows
    return max(sums / ADDS, loads / LOADS, LATENCY, (2 * sums + loads + STEERING) / DECODED)


def _shares(extent: int, size: int, least: int) -> list[tuple[int, int]]:
    """The tiles of an axis and how often each: whole ones, and the rest, which overlaps to have `least` at least."""
    whole, rest = divmod(extent, size)
    return [(size, whole)] * bool(whole) + [(max(rest, min(least, extent)), 1)] * bool(rest)


def register_tile(along: int, across: int, file: File, most: int = 32) -> tuple[int, int]:
    """Lanes and rows, at most so many, of the fastest tile of an output of `along` lanes and `across` rows.

    >>> register_tile(512, 512, File(8, 16)), register_tile(64, 7, File(8, 16)), register_tile(64, 1, File(8, 16))
    ((16, 6), (16, 4), (32, 1))
    """
    best: tuple[float, int, int] | None = None
    for vectors in range(1, file.count):
        width = min(vectors * file.lanes, along)
        for rows in range(1, min(across, most, file.count) + 1):
            if not fits(vectors, rows, file):
                break
            lanes, heights = _shares(along, width, file.lanes), _shares(across, rows, 1)
            time = sum(n * m * cycles(ceil_div(w, file.lanes), h) for w, n in lanes for h, m in heights)
            if best is None or time < best[0]:
                best = time, width, rows
    assert best is not None
    return best[1], best[2]


def rounded_half(x: Term) -> Term | None:
    """The float32 that a term rounds to a half, which is made float32 at once; None where it does something else.

    >>> x = t.load("x", [t.ax(0, 8)], "float32")
    >>> rounded_half(t.cast_to(t.cast_to(x, "float16"), "float32")) is x, rounded_half(x)
    (True, None)
    """
    half = x.args[0] if x.op == "cast" and x.dtype == "float32" else None
    if half is None or half.op != "cast" or half.dtype != "float16" or half.args[0].dtype != "float32":
        return None
    return half.args[0]


def in_registers(body: Term, lane: Term, dtype: str, file: File, combiner: str = "sum") -> bool:
    """Whether a body is sums and products of plain loads that lie side by side along the lanes, or do not move.

    In extremes and in sums of one load each, lanes may also lie two elements apart.
    """
    if dtype not in DTYPES or extent_of(lane) < file.lanes:
        return False
    if combiner != "sum" and (combiner not in EXTREMES or not is_float(dtype)):
        return False
    steps: list[int | None] = []
    nodes = list(postorder(body))
    halves = {n.args[0] for n in nodes if dtype == "float32" and rounded_half(n) is not None}
    for node in nodes:
        if node in halves or rounded_half(node) is not None:
            continue
        if node.op == "load":
            if node.dtype != dtype or len(node.args) != 1:
                return False
            steps.append(lane_step(node.args[0], lane))
        elif node.dtype != INDEX and (node.dtype != dtype or node.op not in ("const", "add", "sub", "mul")):
            return False
    if steps == [APART] and itemsize(dtype) == 4:
        return True
    return 1 in steps and all(s in (0, 1) for s in steps)


def inside(body: Term) -> Term:
    """A body as it is away from borders: what it loads where a position is inside."""

    def change(node: Term) -> Term | None:
        if node.op != "where" or any(n.dtype != INDEX for n in nodes_of("load", node.args[0])):
            return None
        loading = [a for a in node.args[1:] if nodes_of("load", a)]
        return loading[0] if len(loading) == 1 else None

    return transform(body, change)


def one_block(body: Term, lane: Term, simplifier: IndexSimplifier) -> tuple[Term, Term]:
    """A body and its lanes within one block, where they are stored in blocks of one size; else both as they are."""
    extent = extent_of(lane)
    divisions = [n for n in postorder(body) if n.dtype == INDEX and n.op in ("floordiv", "mod")]
    sizes = [int_value(n.args[1]) for n in divisions if lane in set(free_variables(n))]
    block = sizes[0] if sizes else None
    if block is None or block <= 0 or extent % block or any(s != block for s in sizes):
        return body, lane
    role, number = lane.payload
    low = t.make("axis", (t.index_const(block),), (role, number + 5000))
    high = t.make("axis", (t.index_const(extent // block),), (role, number + 6000))
    return simplifier.simplify(substitute(body, {lane: block * high + low})), low


def lane_step(index: Term, lane: Term) -> int | None:
    """How far an index moves with each lane, the same everywhere; None where that is not so."""
    if any(n.op == "load" for n in postorder(index)):
        return None
    parts = dict((u, c) for c, u in linear_parts(index)[1])
    step = parts.pop(lane, 0)
    return None if any(lane in set(free_variables(u)) for u in parts) else step


def over_tile(axes: Sequence[Term], store: Store) -> Stmt:
    """A store for every sum of a tile: rows one by one, lanes as vectors."""
    stmt: Stmt = For(axes[-1], store, "vectorized")
    for axis in reversed(axes[:-1]):
        stmt = For(axis, stmt, "unrolled")
    return stmt
