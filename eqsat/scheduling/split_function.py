"""One function cut in two: what the first stages know of padding that they wrote becomes an assumption of the second.

Local buffers that both parts use become parameters of both. Run one after the other on the same memory, the two do what
the function does. Stores of undef stay in the first part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.accesses.access import Memory
from eqsat.accesses.touched import touched
from eqsat.ir.decide import decider
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, BufferDecl, For, If, Stmt, Store, Transform, seq, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.scheduling.layout import assumption
from eqsat.scheduling.memory import touches
from eqsat.scheduling.nest import Place, at, find_block, places, stages


def split_function(func: PrimFunc, block: str, names: Sequence[str] | None = None) -> tuple[PrimFunc, PrimFunc]:
    """The function before a block, and from it on, as two functions.

    >>> from eqsat.ir.statements.stmt import seq
    >>> i, j = t.var("i", 4), t.var("j", 4)
    >>> decls = {n: BufferDecl(n, (4,), "int8") for n in ("x", "y")}
    >>> fill = For(i, Store("w", (i,), t.load("x", [i], "int8")))
    >>> use = For(j, Store("y", (j,), t.load("w", [3 - j], "int8")))
    >>> f = PrimFunc("f", ("x", "y"), decls, Alloc(BufferDecl("w", (4,), "int8"), seq([fill, use])))
    >>> for part in split_function(f, "y"):
    ...     print(part)
    func f_0(x: int8[4], w: int8[4])
      for i in 4:
        w[i] = x[i]
    func f_1(y: int8[4], w: int8[4])
      for j in 4:
        y[j] = w[3 - j]

    Raises ScheduleError where an alias would be cut from its memory.
    """
    what = f"split of function {func.name} before {block}"
    first = find_block(func, block, what)
    found = stages(Place(func.body, at(func, ()).context))
    before = [p for p in found if p.path < first.path]
    after = [p for p in found if p.path >= first.path]
    if not before:
        raise ScheduleError(what, "nothing stands before it", "name a later block")
    local = _locals(func, found, what)
    crossing = [n for n in local if _uses(before, n) and _uses(after, n)]
    known: list[Stmt] = []
    for name in (*func.params, *crossing):
        decl = local.get(name) or func.buffer_map[name]
        for step in decl.transforms:
            if _uses(after, name) and _leaves(before, decl, step):
                known.append(assumption(func, decl, step, what))
    given = names or (f"{func.name}_0", f"{func.name}_1")
    parts: list[PrimFunc] = []
    for name, part, more in zip(given, (before, after), ([], known), strict=True):
        inside = [d for n, d in local.items() if n not in crossing and _uses(part, n)]
        params = [n for n in (*func.params, *crossing) if _uses(part, n)]
        body = seq([*more, *(p.stmt for p in part)])
        for decl in reversed(inside):
            body = Alloc(decl, body)
        decls = {n: local.get(n) or func.buffer_map[n] for n in params}
        parts.append(PrimFunc(name, tuple(params), decls, body))
    return parts[0], parts[1]


def _locals(func: PrimFunc, found: Sequence[Place], what: str) -> dict[str, BufferDecl]:
    """The buffers that are declared around the stages."""
    local: dict[str, BufferDecl] = {}
    tops = {p.path for p in found}
    for place in places(func):
        if any(place.path[: len(top)] == top for top in tops):
            continue
        if isinstance(place.stmt, Alias):
            raise ScheduleError(what, f"{place.stmt.buffer.name} is an alias around both parts", "remove the alias")
        if isinstance(place.stmt, Alloc):
            if place.stmt.buffer.name in local:
                raise ScheduleError(what, f"two buffers are called {place.stmt.buffer.name}", "rename one")
            local[place.stmt.buffer.name] = place.stmt.buffer
    return local


def _uses(part: Sequence[Place], name: str) -> bool:
    """Whether stages use a buffer, or an alias of it."""
    aliased = any(isinstance(s, Alias) and s.data == name for p in part for s in statements(p.stmt))
    return aliased or any(any(touches(p.stmt, {name})) for p in part)


def _leaves(before: Sequence[Place], decl: BufferDecl, step: Transform) -> bool:
    """Whether the stages are shown to leave the value of a padding step in its cells.

    From the last one back: one that writes the value to exactly these cells, and none behind it that may write there.
    """
    if step.predicate is t.FALSE or step.pad_value is None or nodes_of("hole", step.pad_value):
        return False
    if nodes_of("load", step.pad_value):  # what it reads may change behind it
        return False
    for place in reversed(before):
        if _writes(place.stmt, decl, step):
            return True
        if not touches(place.stmt, {decl.name})[1]:
            if any(isinstance(s, Alias) and s.data == decl.name for s in statements(place.stmt)):
                return False
            continue
        context = replace(place.context, buffers={**place.context.buffers, decl.name: Memory(decl, decl.name)})
        written = touched(place.stmt, decl.name, context)
        pads = substitute(step.predicate, dict(zip(output_axes(decl.shape), written.cells, strict=True)))
        if not decider().prove(t.logical_not(t.logical_and(written.may, pads)), {}):
            return False
    return False


def _writes(stmt: Stmt, decl: BufferDecl, step: Transform) -> bool:
    """Whether a stage stores the pad value in loops over all cells where they are padding, and nothing else there."""
    loops: list[For] = []
    while isinstance(stmt, For):
        loops.append(stmt)
        stmt = stmt.body
    guard = t.TRUE
    if isinstance(stmt, If) and stmt.orelse is None:
        guard, stmt = stmt.condition, stmt.then
    if not isinstance(stmt, Store) or stmt.buffer != decl.name or len(loops) != len(decl.shape):
        return False
    axes = [s.axis for s in loops]
    if any(i is not a or a.args[0] is not t.as_index(n) for i, a, n in zip(stmt.index, axes, decl.shape, strict=True)):
        return False
    here = dict(zip(output_axes(decl.shape), axes, strict=True))
    assert step.pad_value is not None
    pads, value = substitute(step.predicate, here), substitute(step.pad_value, here)
    if not decider().prove(t.logical_or(t.logical_not(pads), guard), {}):
        return False
    if stmt.value.op != "where":
        return stmt.value is value
    inside, _, otherwise = stmt.value.args  # written by a choice: the pad value stands where the cell is padding
    return otherwise is value and bool(decider().prove(t.logical_not(t.logical_and(pads, inside)), {}))
