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
from eqsat.ir.statements.rewrite import with_axis
from eqsat.ir.statements.stmt import Alias, Alloc, For, If, Seq, Stmt, Store, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import conjuncts, free_variables, substitute, symbols
from eqsat.passes.asked import CELLS
from eqsat.passes.cells import (
    CellAccess,
    apart,
    certain_writes,
    differ,
    fresh_axes,
    frozen,
    reads_of,
    substituted,
    written,
)
from eqsat.passes.fresh import renamed, scope
from eqsat.passes.mentioned import mentioned, misses
from eqsat.passes.paths import Path, at
from eqsat.passes.tight import minus, tight

OFTEN = 8
"""Up to so many parts of a condition, each write that it comes from asks whether anything is left."""


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
    region: CellAccess | None = fresh_axes(changed)
    for depth in reversed(range(len(path))):
        region = None if region is None else _leave(at(body, path[:depth]), path[depth], region)
    if region is None:
        return None
    proof = CELLS.prove(t.logical_not(region.condition), None)
    return (
        None if proof else Live("the caller sees it", {"buffer": changed.buffer, "cell": _cell(region, proof.witness)})
    )


def _leave(parent: Stmt, number: int, region: CellAccess) -> CellAccess | None:
    """What is left of a region when a statement around it has ended."""
    if isinstance(parent, Seq):
        return _through(Seq(parent.parts[number + 1 :]), region)
    if isinstance(parent, If):
        test = frozen(parent.condition)
        return _where(region, test if number == 0 else t.logical_not(test))
    if isinstance(parent, For):
        other = renamed(parent.axis)
        in_order = parent.kind in ("serial", "unrolled") and not parent.reduce
        order = parent.axis < other if in_order else t.compare("ne", parent.axis, other)
        _through(with_axis(parent.body, parent.axis, other), _where(region, order))
        return _with_axis(region, parent.axis)
    if isinstance(parent, Alloc) and region.buffer == parent.buffer.name:
        return None
    return region


def _with_axis(region: CellAccess, axis: Term) -> CellAccess:
    own = renamed(axis)
    return replace(substituted(region, {axis: own}), axes=(own, *region.axes))


def _where(region: CellAccess, condition: Term) -> CellAccess:
    return replace(region, condition=tight(t.logical_and(region.condition, condition)))


def _through(stmt: Stmt, region: CellAccess) -> CellAccess | None:
    """What is left of a region after a statement that reads none of its cells: the region, maybe under more
    conditions, or nothing."""
    if isinstance(stmt, Seq):
        left: CellAccess | None = region
        for part in stmt.parts:
            if left is not None and not misses(part, left.buffer, left.index):
                left = _through(part, left)
        return left
    for term in stmt_terms(stmt):
        for read in reads_of(term):
            _check_unread(read, region)
    if isinstance(stmt, If):
        return _either(stmt, region)
    if isinstance(stmt, (Alloc, Alias)):
        return _through(stmt.body, region)
    left = region
    if isinstance(stmt, For) and region.buffer in mentioned(stmt).reads:
        _through(stmt.body, region)
    if isinstance(stmt, (For, Store)):
        for write in certain_writes(stmt):
            left = None if left is None else _overwritten(left, write)
    return left


def _either(stmt: If, region: CellAccess) -> CellAccess | None:
    """What is left of a region after a branch: one region again, so that many in a row are not followed in all
    combinations; itself where neither arm writes any of it."""
    test = frozen(stmt.condition)
    arms = [(_where(region, test), stmt.then), (_where(region, t.logical_not(test)), stmt.orelse)]
    left = [None if here.condition is t.FALSE else here if arm is None else _through(arm, here) for here, arm in arms]
    kept = [end for end in left if end is not None]
    if len(kept) < 2:
        return kept[0] if kept else None
    if all(end.condition is here.condition for end, (here, _) in zip(kept, arms, strict=True)):
        return region
    first, second = (dict.fromkeys(conjuncts(end.condition)) for end in kept)
    both = dict.fromkeys(part for part in first if part in second)
    rest = [t.logical_and(*(part for part in own if part not in both)) for own in (first, second)]
    return replace(region, condition=t.logical_and(*both, t.logical_or(*rest)))


def _check_unread(read: CellAccess, region: CellAccess) -> None:
    if region.buffer != read.buffer:
        return
    proof = apart(region, read)
    if not proof:
        reason = f"it is read later, as {read.buffer}[{', '.join(map(str, read.index))}]"
        raise _Used(Live(reason, {"buffer": read.buffer, "cell": _cell(region, proof.witness)}))


def _overwritten(region: CellAccess, write: CellAccess) -> CellAccess | None:
    """What of a region is left after a write."""
    if write.buffer != region.buffer:
        return region
    cell = region.index * (len(write.index) // max(1, len(region.index)))
    covered = None if differ(write.index, cell) else written(fresh_axes(write), cell)
    if covered is None:
        return region
    left = minus(region.condition, covered)
    if left is region.condition:
        return region
    return None if _is_none(left) else replace(region, condition=left)


def _is_none(condition: Term) -> bool:
    """Whether a condition is known never to hold. Of a long one, to which many writes have come that bounds say nothing
    of, that is asked now and then: what is read later, and what is left at the end, is asked about anyway."""
    count = len(conjuncts(condition))
    if condition is t.FALSE or (count > OFTEN and count & (count - 1)):
        return condition is t.FALSE
    return bool(CELLS.prove(t.logical_not(condition), None))


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
