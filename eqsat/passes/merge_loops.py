"""Two loops, one after the other, as one, where no iteration of the second meets a later one of the first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eqsat.ir.errors import ScheduleError
from eqsat.ir.given import listed, whole
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_axis
from eqsat.ir.statements.stmt import For, Seq, Stmt, seq, statements
from eqsat.ir.statements.text import format_stmt
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.passes.cells import accesses, apart, fresh_axes, substituted
from eqsat.passes.effects import Difference
from eqsat.passes.flow import context_at, entry
from eqsat.passes.fresh import renamed
from eqsat.passes.liveness import cell_at
from eqsat.passes.paths import Path, at, changed_while, paths, put, tidy, with_body


def merge_adjacent_loops(func: PrimFunc, first: Path | None = None) -> PrimFunc:
    """Merge adjacent loops of equal extents where that changes nothing.

    first: the path of the first of two loops that are to be merged; without one, all that can be are. Legal where, for
    all i > j, the cells that loop 1 writes in iteration i are none that loop 2 accesses in iteration j, and those that
    loop 1 reads in i are none that loop 2 writes in j (for loops whose iterations have no order: for all i != j).
    ScheduleError with the iterations and the cell where it is not.

    rewrite: `for i: X; for j: Y` to `for i: X; Y[j := i]`.
    """
    if first is not None:
        loops = _pair(func, first)
        problem = _conflict(func, first, *loops)
        if problem is not None:
            raise ScheduleError(
                f"merge_adjacent_loops of {func.name}", problem.problem, "keep the loops apart", problem.witness
            )
        return with_body(func, _merged_at(func.body, first, *loops))
    return changed_while(func, _merged_with_next)


def _merged_with_next(func: PrimFunc, path: Path, stmt: Stmt) -> PrimFunc | None:
    loops = _adjacent(func.body, path) if isinstance(stmt, For) else None
    if loops is None or _conflict(func, path, *loops) is not None:
        return None
    return with_body(func, _merged_at(func.body, path, *loops))


def none_merged(func: PrimFunc) -> ScheduleError:
    """Why no two loops of a function are one: the first conflict, or that none stand next to one another."""
    what = f"merge_adjacent_loops of {func.name}"
    for path, _ in paths(func.body):
        loops = _adjacent(func.body, path)
        problem = None if loops is None else _conflict(func, path, *loops)
        if loops is not None and problem is not None:
            names = " and ".join(leaf_name(loop.axis) for loop in loops)
            return ScheduleError(what, f"loops {names}: {problem.problem}", "keep the loops apart", problem.witness)
    return ScheduleError(what, "no two loops stand next to one another", "merge loops that do")


def _adjacent(body: Stmt, path: Path) -> tuple[For, For] | None:
    """The loop at a path and the one after it."""
    if not path:
        return None
    parent, stmt = at(body, path[:-1]), at(body, path)
    if not isinstance(parent, Seq) or not isinstance(stmt, For) or path[-1] + 1 >= len(parent.parts):
        return None
    after = parent.parts[path[-1] + 1]
    return (stmt, after) if isinstance(after, For) else None


def _pair(func: PrimFunc, path: Path) -> tuple[For, For]:
    what = f"merge_adjacent_loops of {func.name}"
    path = tuple(whole(n, what, "number", ScheduleError) for n in listed(path, what, "a path", ScheduleError))
    stmt = dict(paths(func.body)).get(path)
    if not isinstance(stmt, For):
        raise ScheduleError(what, f"no loop stands at {path}")
    loops = _adjacent(func.body, path)
    if loops is None:
        problem = f"behind loop {leaf_name(stmt.axis)} stands {_behind(func.body, path)}"
        raise ScheduleError(what, problem, "merge loops that stand next to one another")
    return loops


def _behind(body: Stmt, path: Path) -> str:
    """What follows the statement at a path, in words."""
    parent = at(body, path[:-1]) if path else None
    if not isinstance(parent, Seq) or path[-1] + 1 >= len(parent.parts):
        return "nothing"
    return f"`{format_stmt(parent.parts[path[-1] + 1])[0].strip()}`, no loop"


def _merged_at(body: Stmt, path: Path, first: For, second: For) -> Stmt:
    axis = first.axis
    merged = replace(first, body=tidy(seq([first.body, with_axis(second.body, second.axis, axis)])))
    return put(put(body, path, merged), (*path[:-1], path[-1] + 1), Seq(()))


def _conflict(func: PrimFunc, path: Path, first: For, second: For) -> Difference | None:
    """Why two loops may not be merged where they stand."""
    return meeting(first, second, entry(func).roots, t.logical_and(*context_at(func, path).guard))


def meeting(first: For, second: For, roots: Mapping[str, str], assuming: Term = t.TRUE) -> Difference | None:
    """Why two loops, one after the other, are not one loop: an iteration of the second meets a later one of the first.

    roots: the buffers whose memory others show.
    """
    if first.axis.args[0] is not second.axis.args[0]:
        return Difference(f"the loops run {first.axis.args[0]} and {second.axis.args[0]} times", _last(first, second))
    if first.kind != second.kind or first.reduce != second.reduce:
        return Difference(f"one loop is {first.kind}, the other {second.kind}", {})
    if any(isinstance(inner, For) and inner.axis is first.axis for inner in statements(second.body)):
        return Difference(f"the second loop has a loop over {first.axis} inside", {})
    in_order = first.kind == "serial" and not first.reduce
    i, j = renamed(first.axis), renamed(second.axis)
    order = j < i if in_order else t.compare("ne", i, j)
    for one in accesses(first.body):
        for two in accesses(second.body):
            if not (one.changes or two.changes) or roots.get(one.buffer, one.buffer) != roots.get(
                two.buffer, two.buffer
            ):
                continue
            if one.buffer != two.buffer:
                shared = {"buffer": one.buffer, "alias": two.buffer}
                return Difference(f"{one.buffer} and {two.buffer} share their memory", shared)
            a = substituted(fresh_axes(one), {first.axis: i})
            b = substituted(fresh_axes(two), {second.axis: j})
            proof = apart(a, b, assuming, order)
            if not proof:
                return _told(one.buffer, one.kind, two.kind, dict(proof.witness or {}), (i, j), a.index)
    return None


def _last(first: For, second: For) -> dict[str, Any]:
    """An iteration that only one of two loops has."""
    m, n = (t.int_value(loop.extent_term) for loop in (first, second))
    return {} if m is None or n is None else {"loop": leaf_name((first if m > n else second).axis), "i": min(m, n)}


def _told(
    buffer: str, one: str, two: str, witness: dict[str, Any], axes: tuple[Term, Term], index: tuple[Term, ...]
) -> Difference:
    if not witness:
        return Difference(f"loop 1 may {one} cells of {buffer} that loop 2 must {two} later (not decided)", {})
    i, j = (witness.get(str(axis), 0) for axis in axes)
    cell = cell_at(index, witness)
    where = "" if cell is None else str(list(cell))
    verbs = {"read": "reads", "write": "writes", "free": "frees"}
    problem = (
        f"loop 1 {verbs[one]} {buffer}{where} in iteration {i}, which loop 2 {verbs[two]} already in iteration {j}"
    )
    return Difference(problem, {"i": i, "j": j, "buffer": buffer, "cell": cell})
