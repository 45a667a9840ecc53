"""The cells that a statement touches, as predicates over cells and the axes around the statement.

isl projects the statement's own loops away; what it cannot say (products of axes, swizzles of unusual widths) is
enumerated where the box is small, and is every cell otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from eqsat.accesses.access import Access, Context, accesses
from eqsat.ir.decide import Proof, decider
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import ShapeError
from eqsat.ir.statements.stmt import Stmt
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.leaves import hidden
from eqsat.ir.terms.tables import load_table, table_load
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder, substitute
from eqsat.proving.from_isl import Named
from eqsat.proving.isl import NotAffine, Space, spent
from eqsat.proving.question import Variable

OPERATIONS = 1_000_000
MOST_SETS = 8
MOST_CONSTRAINTS = 24
MOST_POINTS = 1 << 20


@dataclass(frozen=True, eq=False)
class TouchedCells:
    """Cells of a buffer: `may` holds for each cell that may be touched, `must` for those that surely are.

    Both are predicates over `cells` (a variable for each axis of the buffer) and the axes and symbols around.
    """

    buffer: str
    cells: tuple[Term, ...]
    may: Term
    must: Term

    @property
    def exact(self) -> bool:
        """Whether the two are the same."""
        return self.may is self.must

    def at(self, index: Sequence[Any]) -> Term:
        """The condition that a cell may be touched."""
        here = substitute(self.may, dict(zip(self.cells, map(t.as_index, index), strict=True)))
        return decider().simplify([here], {})[0]

    def covers(self, other: TouchedCells) -> Proof:
        """Is every cell that the other may touch surely touched by this one?"""
        return decider().prove(t.logical_or(t.logical_not(self._theirs(other)), self.must), {})

    def apart(self, other: TouchedCells) -> Proof:
        """Does this one touch no cell that the other may touch?"""
        return decider().prove(t.logical_not(t.logical_and(self._theirs(other), self.may)), {})

    def _theirs(self, other: TouchedCells) -> Term:
        if other.buffer != self.buffer or len(other.cells) != len(self.cells):
            raise ShapeError(f"cells of {self.buffer}", f"compared with cells of {other.buffer}", "compare one buffer")
        return substitute(other.may, dict(zip(other.cells, self.cells, strict=True)))


def touched(stmt: Stmt, buffer: str, context: Context, kind: str = "write") -> TouchedCells:
    """The cells of a buffer that a statement writes ("write"), reads ("read") or either ("both"), in its context.

    >>> from eqsat.accesses.access import Memory
    >>> from eqsat.ir.statements.stmt import BufferDecl, For, If, Store
    >>> i = t.ax(0, 16)
    >>> part = For(i, If(i < 12, Store("x", (i,), t.const(1, "int8"))))
    >>> region = touched(part, "x", Context({"x": Memory(BufferDecl("x", (16,), "int8"), "x")}))
    >>> print(region.cells[0], "|", region.may, "|", region.exact)
    c0# | c0# < 12 | True

    Accesses through aliases of the buffer may touch all of it; loops and guards of the context stay in the predicate.
    """
    return region(accesses(stmt, context), buffer, context, kind)


def region(found: Iterable[Access], buffer: str, context: Context, kind: str = "write") -> TouchedCells:
    """The same for accesses that are at hand."""
    memory = context.buffers[buffer]
    cells = tuple(hidden(f"c{n}", extent) for n, extent in enumerate(memory.decl.shape))
    wanted = [a for a in found if a.memory.root == memory.root and (kind == "both" or a.write == (kind == "write"))]
    may: list[Term] = []
    must: list[Term] = []
    for access in wanted:
        own = access.buffer == buffer
        known = _cells(access, cells, context) if own else None
        may.append(t.TRUE if known is None else known)
        if known is not None and access.exact:
            must.append(known)
    # The declared box of a cell is left out of predicates: the cells have their extents.
    simple = decider().simplify([t.logical_or(*may), t.logical_or(*must)], {})
    same = len(may) == len(must)
    return TouchedCells(buffer, cells, simple[0], simple[0] if same else simple[1])


def _cells(access: Access, cells: Sequence[Term], context: Context) -> Term | None:
    """The cells of one access; None where they cannot be told."""
    inner = [loop.stmt.axis for loop in access.loops[len(context.loops) :]]
    meets = [t.compare("eq", c, i) for c, i in zip(cells, access.index, strict=True) if i is not None]
    condition = t.logical_and(*access.guards, *meets)
    own = {*inner, *cells}
    extents = [x.args[0] for x in own]
    if any(t.int_value(e) == 0 for e in extents):
        return t.FALSE
    outer = [n for n in postorder(condition, *extents) if n.op in ("axis", "var", "sym") and n not in own]
    known = _by_isl(condition, list(dict.fromkeys(outer)), cells, inner)
    return _by_trial(condition, list(dict.fromkeys(outer)), cells, inner) if known is None else known


def _variable(leaf: Term, facts: list[Term]) -> Variable:
    if leaf.op == "sym":
        _, lower, upper, multiple, _ = t.symbol_facts(leaf)
        return Variable(leaf, lower, None if upper is None else upper + 1, multiple)
    stop = t.int_value(leaf.args[0]) if leaf.args else None
    if leaf.args and stop is None:
        facts.append(t.compare("lt", leaf, leaf.args[0]))
    return Variable(leaf, 0 if leaf.args else None, stop)


def _by_isl(condition: Term, outer: list[Term], cells: Sequence[Term], inner: list[Term]) -> Term | None:
    facts = [condition]
    kept = [_variable(v, facts) for v in (*outer, *cells)]
    variables = [*kept, *(_variable(v, facts) for v in inner)]
    try:
        space = Space(variables, OPERATIONS)
        points = space.restricted(facts)
        shadow = points.project_out(space.isl.dim_type.set, len(kept), len(inner)).coalesce()
        if shadow.is_empty():
            return t.FALSE
        around = space.domain.project_out(space.isl.dim_type.set, len(kept), len(inner))
        short = shadow.gist(around).compute_divs().coalesce()
        return Named(space, [v.leaf for v in kept]).set_term(short, MOST_SETS, MOST_CONSTRAINTS)
    except NotAffine:
        return None
    except Exception as error:
        spent(error)
        return None


def _by_trial(condition: Term, outer: list[Term], cells: Sequence[Term], inner: list[Term]) -> Term | None:
    """A table of the cells, for boxes that can be tried point by point."""
    kept = [*outer, *cells]
    sizes = [t.int_value(v.args[0]) if v.args else None for v in (*kept, *inner)]
    extents = [n for n in sizes if n is not None]
    if len(extents) != len(sizes) or prod(extents) > MOST_POINTS:
        return None
    grid: NDArray = np.indices(extents) if extents else np.zeros((0,))
    env = {v: grid[n] for n, v in enumerate((*kept, *inner))}
    ((holds, bad),) = evaluate_masked([condition], env, load_table)
    good: NDArray = np.broadcast_to(holds if bad is None else np.logical_and(holds, np.logical_not(bad)), extents)
    mask = np.asarray(good.any(axis=tuple(range(len(kept), len(extents))))) if inner else good
    flat = t.index_const(0)
    for v, n in zip(kept, extents, strict=False):
        flat = flat * n + v
    return t.compare("eq", table_load(mask.astype(np.int64).reshape(-1), flat), 1)
