"""Who reads a cell before it is written again: a store is dead in its place, never by itself.

Cells that a store changes are followed from its place to the end of the function. Each read on the way must be shown to
mean other cells; what is certainly written, or freed by a hole, is followed no further. What is left at the end is
observable if it belongs to a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eqsat.ir.errors import EqsatError
from eqsat.ir.statements.stmt import Alias, Alloc, For, If, Seq, Stmt, Store, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import free_variables, substitute, symbols
from eqsat.passes.asked import CELLS
from eqsat.passes.cells import (
    CellAccess,
    apart,
    certain_writes,
    fresh_axes,
    frozen,
    reads_of,
    substituted,
    written,
)
from eqsat.passes.fresh import renamed, scope
from eqsat.passes.paths import Path, at, with_axis


@dataclass(frozen=True)
class Live:
    """Why cells are not dead: what happens to them, and for which."""

    reason: str
    witness: Mapping[str, Any]


class _Used(Exception):
    """The cells are read."""

    def __init__(self, live: Live) -> None:
        super().__init__(live.reason)
        self.live = live


def live_after(body: Stmt, path: Path, changed: CellAccess, roots: Mapping[str, str]) -> Live | None:
    """Whether cells that were changed at a path of a function's body may be read later, or seen by the caller; None:
    never.

    `changed`: its axes are loops inside of the statement at the path; the loops around it are left as they are.
    """
    family = {
        name for name in (*roots, *roots.values()) if roots.get(name, name) == roots.get(changed.buffer, changed.buffer)
    }
    if len(family) > 1:
        return Live(f"{changed.buffer} shares its memory with {', '.join(sorted(family - {changed.buffer}))}", {})
    try:
        with scope("l"):  # no name comes out of here
            return _left(body, path, changed)
    except _Used as used:
        return used.live


def _left(body: Stmt, path: Path, changed: CellAccess) -> Live | None:
    """What is left of a change at the end of a function."""
    regions = [fresh_axes(changed)]
    for depth in reversed(range(len(path))):
        regions = _leave(at(body, path[:depth]), path[depth], regions)
        if not regions:
            return None
    cell = next((c for c in map(_some_cell, regions) if c is not None), None)
    return Live("the caller sees it", {"buffer": changed.buffer, "cell": cell})


def _leave(parent: Stmt, number: int, regions: list[CellAccess]) -> list[CellAccess]:
    """The regions that are left when a statement around them has ended."""
    if isinstance(parent, Seq):
        for part in parent.parts[number + 1 :]:
            regions = _through(part, regions)
        return regions
    if isinstance(parent, If):
        test = frozen(parent.condition)
        return _where(regions, test if number == 0 else t.logical_not(test))
    if isinstance(parent, For):
        other = renamed(parent.axis)
        in_order = parent.kind in ("serial", "unrolled") and not parent.reduce
        order = parent.axis < other if in_order else t.compare("ne", parent.axis, other)
        _through(with_axis(parent.body, parent.axis, other), _where(regions, order))
        return [_with_axis(r, parent.axis) for r in regions]
    if isinstance(parent, Alloc):
        return [r for r in regions if r.buffer != parent.buffer.name]
    return regions


def _with_axis(region: CellAccess, axis: Term) -> CellAccess:
    own = renamed(axis)
    return replace(substituted(region, {axis: own}), axes=(own, *region.axes))


def _where(regions: Sequence[CellAccess], condition: Term) -> list[CellAccess]:
    return [replace(r, condition=t.logical_and(r.condition, condition)) for r in regions]


def _through(stmt: Stmt, regions: list[CellAccess]) -> list[CellAccess]:
    """The regions that are left after a statement that reads none of their cells."""
    if isinstance(stmt, Seq):
        for part in stmt.parts:
            regions = _through(part, regions)
        return regions
    for term in stmt_terms(stmt):
        for read in reads_of(term):
            _check_unread(read, regions)
    if isinstance(stmt, If):
        test = frozen(stmt.condition)
        left = _through(stmt.then, _where(regions, test))
        other = _where(regions, t.logical_not(test))
        return left + (other if stmt.orelse is None else _through(stmt.orelse, other))
    if isinstance(stmt, (Alloc, Alias)):
        return _through(stmt.body, regions)
    if isinstance(stmt, For):
        _through(stmt.body, regions)
    if isinstance(stmt, (For, Store)):
        for write in certain_writes(stmt):
            regions = [r for region in regions for r in _overwritten(region, write)]
    return regions


def _check_unread(read: CellAccess, regions: Sequence[CellAccess]) -> None:
    for region in regions:
        if region.buffer != read.buffer:
            continue
        proof = apart(region, read)
        if not proof:
            cell = _cell(region, proof.witness)
            raise _Used(
                Live(
                    f"it is read later, as {read.buffer}[{', '.join(map(str, read.index))}]",
                    {"buffer": read.buffer, "cell": cell},
                )
            )


def _overwritten(region: CellAccess, write: CellAccess) -> list[CellAccess]:
    """What of a region is left after a write."""
    if write.buffer != region.buffer:
        return [region]
    covered = written(fresh_axes(write), region.index * (len(write.index) // max(1, len(region.index))))
    if covered is None:
        return [region]
    left = t.logical_and(region.condition, t.logical_not(covered))
    return [] if CELLS.prove(t.logical_not(left), None) else [replace(region, condition=left)]


def _some_cell(region: CellAccess) -> tuple[int, ...] | None:
    """A cell of a region, where one can be shown."""
    return _cell(region, CELLS.prove(t.logical_not(region.condition), None).witness)


def _cell(region: CellAccess, witness: Mapping[str, Any] | None) -> tuple[int, ...] | None:
    return None if witness is None else cell_at(region.index, witness)


def cell_at(index: Sequence[Term], witness: Mapping[str, Any]) -> tuple[int, ...] | None:
    """The cell that an index means at a point; what the point leaves out may be anything, and is 0."""
    leaves = (*free_variables(*index), *symbols(*index))
    idle = {leaf: t.index_const(0) for leaf in leaves if leaf_name(leaf) not in witness}
    try:
        return tuple(int(substitute(i, idle).evaluate(dict(witness))) for i in index)
    except EqsatError:
        return None
