"""The passes over whole functions as steps of a schedule: what they did stands in the trace."""

from __future__ import annotations

from collections.abc import Callable, Collection

from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.compact import compact_buffer as compact
from eqsat.ir.statements.flatten import flatten_buffers as flatten
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, If, Stmt, statements
from eqsat.ir.statements.vectorize import vectorize_buffers as vectors
from eqsat.ir.terms.term import Term
from eqsat.passes import extents, hoist, merge_loops, no_op, overcompute, padding, simplify
from eqsat.passes.paths import Path
from eqsat.scheduling.change import Change
from eqsat.scheduling.nest import at_part, find_loop
from eqsat.statement_graph import optimize


def _as_step(rewrite: Callable[[PrimFunc], PrimFunc]) -> Callable[[PrimFunc], Change]:
    """A pass without arguments as a primitive."""

    def step(func: PrimFunc) -> Change:
        return Change(rewrite(func))

    return step


simplify_statements = _as_step(simplify.simplify_statements)
remove_no_op = _as_step(no_op.remove_no_op)
remove_assume = _as_step(no_op.remove_assume)
remove_store_undef = _as_step(no_op.remove_store_undef)
reduce_loop_extents = _as_step(extents.reduce_loop_extents)


def hoist_expression(func: PrimFunc, kinds: Collection[hoist.HoistKind] = hoist.ALL) -> Change:
    """Conditions moved out of the loops that do not change them."""
    return Change(hoist.hoist_expression(func, kinds))


def merge_adjacent_loops(func: PrimFunc, first: str | None = None) -> Change:
    """A loop and the one after it as one; without a name, all that can be. ScheduleError where none is merged."""
    if first is None:
        merged = merge_loops.merge_adjacent_loops(func)
        if merged is func:
            raise merge_loops.none_merged(func)
        return Change(merged)
    _, context = find_loop(func, first, f"merge_adjacent_loops of {first}")
    return Change(merge_loops.merge_adjacent_loops(func, _as_children(func.body, context.path)))


def _as_children(stmt: Stmt, path: Path) -> Path:
    """A path of this room, where the arms of a branch are 1 and 2, as one by children, where they are 0 and 1."""
    found: list[int] = []
    for number in path:
        found.append(number - isinstance(stmt, If))
        stmt = at_part(stmt, number)
    return tuple(found)


def remove_branching_through_overcompute(func: PrimFunc, condition: Term | None = None) -> Change:
    """Branches away where what they kept from running makes no difference."""
    return _traded(
        "remove_branching_through_overcompute", func, overcompute.overcompute(func, condition), "without", condition
    )


def remove_overcompute_through_branching(func: PrimFunc, condition: Term | None = None) -> Change:
    """Statements run only where they make a difference."""
    return _traded("remove_overcompute_through_branching", func, overcompute.branch(func, condition), "only", condition)


_HELP = {
    "without": "give the condition of a branch as it stands in the program, or none for all of them",
    "only": "assume what the padding holds, or give the condition under which statements are to run",
}


def _traded(name: str, func: PrimFunc, found: overcompute.Traded, word: str, condition: Term | None) -> Change:
    if found.changed:
        return Change(found.func, (), found.reordered, tuple(f"{word} if {test}" for test in found.changed))
    what = f"{name} of {func.name}"
    if not found.refused:
        problem = "no branch stands there" if word == "without" else "no statement is known to make no difference"
        where = "" if condition is None else f": neither `if` nor `where` has the condition {condition}"
        raise ScheduleError(what, problem + (where if word == "without" else ""), _HELP[word])
    test, why = found.refused[0]
    raise ScheduleError(what, f"{word} if {test}: {why.problem}", "assume what the padding holds", why.witness)


def choose_padding(func: PrimFunc) -> Change:
    """The function's own holes filled, branches removed or loops shrunk, whichever is cheapest."""
    plan = padding.choose_padding(func)
    steps = (*(str(f) for f in plan.fillings), *(f"without if {test}" for test in plan.removed))
    return Change(plan.func, (), plan.reordered, (*steps, f"cost {plan.cost_before} -> {plan.cost_after}"))


def optimize_statements(func: PrimFunc) -> Change:
    """The cheapest function that the laws of statements make equal to this one."""
    found = optimize.optimize_statements(func)
    return Change(found.func, (), found.reordered, (f"cost {found.cost_before} -> {found.cost_after}",))


def flatten_buffers(func: PrimFunc) -> Change:
    """Flat accesses only: one index for each physical axis; parameters keep their declaration."""
    return _declaring(func, flatten(func))


def vectorize_buffers(func: PrimFunc) -> Change:
    """Buffers whose accesses are whole aligned vectors as buffers of vectors."""
    return _declaring(func, vectors(func))


def compact_buffer(func: PrimFunc, buffer: str) -> Change:
    """A local buffer, and its aliases, with the box of cells that are accessed."""
    return Change(compact(func, buffer))


def _declaring(before: PrimFunc, after: PrimFunc) -> Change:
    """A change, with the names of the buffers that it declares."""
    known = _declared(before.body)
    return Change(after, tuple(name for name in _declared(after.body) if name not in known))


def _declared(stmt: Stmt) -> list[str]:
    return [s.buffer.name for s in statements(stmt) if isinstance(s, (Alloc, Alias))]
