"""Loops over rows that are read several times: while a row is read again, from a cache, the next one is prefetched.

before:  for r: for k: m = max(m, x[r, k])                        # waits for memory
                for k: e[k] = exp(x[r, k] - m)                    # waits for arithmetic
after:   for r: for k: m = max(m, x[r, k])
                for k: e[k] = exp(x[r, k] - m); prefetch a part of x[r + 1]
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.order import stride
from eqsat.backends.lowering.registers import REGISTERS
from eqsat.backends.machine import LINE
from eqsat.ir.dtypes import INDEX, itemsize
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, For, Seq, Stmt, statements, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, int_value
from eqsat.ir.terms.walk import free_variables, nodes_of, substitute

FAR = 512 << 10
"""Smaller inputs lie in a second cache anyway."""
STRAIGHT = 4
"""So many prefetches are printed one by one, without a loop."""
DEFINITION = """#include <stddef.h>
#ifdef __GNUC__
#define PREFETCH(p) __builtin_prefetch(p)
#else
#define PREFETCH(p) ((void)0)
#endif"""


@dataclass(frozen=True)
class NextRow:
    """A row that is prefetched: of which buffer, elements between chunks of rows and between rows, where the first
    lies, elements of a line, lines for each step."""

    buffer: str
    chunk: int
    row: int
    first: int
    line: int
    lines: int

    def text(self, buffer: str, names: Sequence[str], step: str) -> list[str]:
        """The statements in a step of a loop, in those over chunks, if any, and rows; all are given by their names."""
        start = f"{buffer} + {self.row} * ((ptrdiff_t){names[-1]} + {1 + self.first})"
        if self.chunk:
            start += f" + {self.chunk} * (ptrdiff_t){names[0]}"
        start += f" + {self.line * self.lines} * {step}"
        if self.lines <= STRAIGHT:
            return [f"PREFETCH({start}{f' + {self.line * k}' if k else ''});" for k in range(self.lines)]
        return [f"for (int n = 0; n < {self.line * self.lines}; n += {self.line}) PREFETCH({start} + n);"]


def find_next_rows(loop: For, func: PrimFunc, simplifier: IndexSimplifier) -> Mapping[int, list[NextRow]]:
    """What the loops inside of a loop over rows prefetch, by their identity: the second one that reads a row.

    Rows may be in chunks: then one of the nests is the loop over the rows of a chunk.
    """
    nests = _nests(loop.body)
    within = next((n for n in nests if len(_nests(n.body)) > 1), None)
    rows = loop if within is None else within
    nests = _nests(rows.body)
    found: dict[int, list[NextRow]] = {}
    if rows.extent < 2 or len(nests) < 2:
        return found
    loads = [(n, _loads(n)) for n in nests]
    readers = Counter(name for _, those in loads for name in those)
    for name in func.params:
        if readers[name] < 2:
            continue
        decl = func.buffer_map[name]
        read = [n for n, those in loads if name in those]
        places = [place for _, those in loads for place in those.get(name, [])]
        step, chunk = _step(places, rows.axis), _step(places, loop.axis) if within is not None else 0
        if not step or chunk is None or decl.dtype == INDEX:
            continue
        if max(step * rows.extent, chunk * loop.extent) * itemsize(decl.dtype) < FAR:
            continue
        first = int_value(_at_start(places[0])) or 0
        first //= step
        starts = step * (rows.axis + first) + (chunk * loop.axis if chunk else 0)
        if not all(_inside(place - starts, step, simplifier) for place in places):
            continue
        again = next((n for n in read[1:] if not _in_registers(n)), None)
        if again is not None:
            line = LINE // itemsize(decl.dtype)
            lines = -(-step // (line * again.extent))
            found.setdefault(id(again), []).append(NextRow(name, chunk, step, first, line, lines))
    return found


def _step(places: Sequence[Term], axis: Term) -> int | None:
    """How far all places move with an axis; None where they differ."""
    steps = {stride(place, axis) for place in places}
    return steps.pop() if len(steps) == 1 else None


def _at_start(place: Term) -> Term:
    """A place in the first steps of all loops."""
    return substitute(place, {a: t.index_const(0) for a in free_variables(place)})


def _nests(stmt: Stmt) -> list[For]:
    """The loops that follow one another in a body."""
    if isinstance(stmt, Seq):
        return [n for part in stmt.parts for n in _nests(part)]
    if isinstance(stmt, (Alloc, Alias)):
        return _nests(stmt.body)
    return [stmt] if isinstance(stmt, For) else []


def _loads(stmt: Stmt) -> dict[object, list[Term]]:
    """The places where a nest reads buffers, by their names."""
    found: dict[object, list[Term]] = {}
    for node in nodes_of("load", *(x for s in statements(stmt) for x in stmt_terms(s))):
        found.setdefault(node.payload, []).append(node.args[0])
    return found


def _inside(place: Term, row: int, simplifier: IndexSimplifier) -> bool:
    """Whether places lie in one row."""
    limits = simplifier.range(simplifier.simplify(place))
    return limits is not None and limits[0] >= 0 and limits[1] < row


def _in_registers(stmt: Stmt) -> bool:
    """Whether a part of a nest is a tile of vector registers, which has a printer of its own."""
    return any(isinstance(s, Alloc) and s.buffer.note == REGISTERS for s in statements(stmt))
