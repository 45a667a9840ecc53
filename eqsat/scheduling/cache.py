"""Copies of buffers inside of a function, whose layout is then free: cache_read, cache_write; and assumptions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.accesses.access import Path, accesses
from eqsat.accesses.dependences import flows
from eqsat.accesses.touched import touched
from eqsat.accesses.values import same_values
from eqsat.ir.decide import decider
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.names import names_of
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alloc, Assume, BufferDecl, For, Seq, Stmt, Store, seq, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name
from eqsat.ir.terms.walk import free_variables, nodes_of
from eqsat.scheduling.change import Change
from eqsat.scheduling.memory import declared, family, forbidden, moved, touches
from eqsat.scheduling.nest import Place, at, find_block, guarded, new_names, replaced, stages


def cache_read(func: PrimFunc, buffer: str, name: str | None = None) -> Change:
    """A copy of a buffer, made before the first stage that reads it, which all later stages read instead.

    Stages may write the buffer meanwhile, but no cell that is read afterwards.

    rewrite: `for i: B[i] = A[i]` -> `alloc A_cache; for c: A_cache[c] = A[c]; for i: B[i] = A_cache[i]`
    """
    what = f"cache_read of {buffer}"
    old, group = _group(func, buffer, what)
    decl, cache = _cache(func, old, name, what)
    readers = [n for n, p in enumerate(group) if touches(p.stmt, {buffer})[0]]
    if not readers:
        raise ScheduleError(what, f"no stage reads {buffer}", "use cache_write for what is written")
    used = group[readers[0] : readers[-1] + 1]
    copy = _copy(func, decl, cache.name, buffer, what)
    cached = [moved(p.stmt, buffer, cache.name, list, what, stores=False) for p in used]
    rest = [p.stmt for p in group[readers[-1] + 1 :]]
    result = _around(func, group, readers[0], seq([Alloc(cache, seq([copy, *cached])), *rest]))
    if any(touches(p.stmt, {buffer})[1] for p in used):
        met = flows([a for p in used for a in accesses(p.stmt, p.context)], buffer)
        if met is not None and not same_values(func, result):
            problem = f"{met}, after the copy would be made"
            raise ScheduleError(what, problem, "use cache_write, which holds both", met.witness)
    return Change(result, (cache.name,))


def cache_write(func: PrimFunc, buffer: str, name: str | None = None) -> Change:
    """A local buffer that the stages which write a buffer use instead, copied to it after the last of them.

    rewrite: `for i: B[i] = A[i]` -> `alloc B_cache; for i: B_cache[i] = A[i]; for c: B[c] = B_cache[c]`
    The copy begins with what the buffer holds, unless it is shown that all of it is written first.
    """
    what = f"cache_write of {buffer}"
    old, group = _group(func, buffer, what)
    decl, cache = _cache(func, old, name, what)
    writers = [n for n, p in enumerate(group) if touches(p.stmt, {buffer})[1]]
    if not writers:
        raise ScheduleError(what, f"no stage writes {buffer}", "use cache_read for what is read")
    used = group[writers[0] : writers[-1] + 1]
    for place in used:
        for s in statements(place.stmt):
            if isinstance(s, Store) and s.buffer == buffer and nodes_of("hole", s.value):
                index = [str(i) for i in s.index]
                problem = f"{buffer}[{', '.join(index)}] is freed by a store of undef"
                fix = "cache it before its layout leaves cells open"
                raise ScheduleError(what, problem, fix, {"buffer": buffer, "index": index})
    back = _copy(func, decl, buffer, cache.name, what)
    first = [] if _overwritten(used, decl) else [_copy(func, decl, cache.name, buffer, what)]
    cached = [moved(p.stmt, buffer, cache.name, list, what) for p in used]
    rest = [p.stmt for p in group[writers[-1] + 1 :]]
    made = seq([Alloc(cache, seq([*first, *cached, back])), *rest])
    return Change(_around(func, group, writers[0], made), (cache.name,))


def _overwritten(used: Sequence[Place], decl: BufferDecl) -> bool:
    """Whether the first stage writes all cells, and reads none of them."""
    first = used[0]
    if touches(first.stmt, {decl.name})[0]:
        reads = [a for a in accesses(first.stmt, first.context) if a.buffer == decl.name and not a.write]
        if reads:
            return False
    return bool(decider().prove(touched(first.stmt, decl.name, first.context).must, {}))


def _group(func: PrimFunc, buffer: str, what: str) -> tuple[BufferDecl, list[Place]]:
    """The declaration and the stages of the sequence in which the buffer is used."""
    old = declared(func, buffer, what)
    body = at(func, old.body)
    if len(family(body.stmt, buffer)) > 1:
        alias = sorted(family(body.stmt, buffer) - {buffer})[0]
        raise ScheduleError(what, f"{alias} is an alias of its memory", "remove the alias", {"alias": alias})
    found = stages(body)
    # The stages that use it stand in one sequence; others may stand in declarations around it.
    users = [p for p in found if any(touches(p.stmt, {buffer}))]
    if not users:
        raise ScheduleError(what, f"nothing uses {buffer}")
    parent = min((_sequence(func, p) for p in users), key=len)
    where = at(func, parent)
    parts = where.stmt.parts if isinstance(where.stmt, Seq) else (where.stmt,)
    if not isinstance(where.stmt, Seq):
        return old.decl, [where]
    return old.decl, [Place(*where.context.child(where.stmt, n)) for n in range(len(parts))]


def _sequence(func: PrimFunc, place: Place) -> Path:
    """The path of the sequence that a stage is part of; its own where it is alone."""
    return place.path[:-1] if place.path and isinstance(at(func, place.path[:-1]).stmt, Seq) else place.path


def _around(func: PrimFunc, group: Sequence[Place], start: int, new: Stmt) -> PrimFunc:
    """The function whose stages from number `start` on are another statement."""
    if len(group) == 1:
        return replaced(func, group[0].path, new)
    parent = group[0].path[:-1]
    return replaced(func, parent, seq([*(p.stmt for p in group[:start]), new]))


def _cache(func: PrimFunc, decl: BufferDecl, name: str | None, what: str) -> tuple[BufferDecl, BufferDecl]:
    taken = names_of(func)
    if name is not None and name in taken:
        raise ScheduleError(what, f"the name {name} is taken", "give another one")
    name = name or fresh_name(f"{decl.name}_cache", taken)
    note = f"copy of {decl.name}"
    return decl, replace(decl, name=name, note=note, strides=None, elem_offset=0, axis_separators=(), transforms=())


def _copy(func: PrimFunc, decl: BufferDecl, to: str, source: str, what: str) -> Stmt:
    """Loops that copy all cells that may be accessed."""
    names = new_names(func, what, None, [f"c{n}" for n in range(len(decl.shape))])
    axes = [t.var(n, e) for n, e in zip(names, decl.shape, strict=True)]
    store: Stmt = Store(to, tuple(axes), t.make("load", axes, source, decl.scalar, decl.lanes))
    store = guarded(t.logical_not(forbidden(decl, axes)), store)
    for axis in reversed(axes):
        store = For(axis, store)
    return store


def assume(func: PrimFunc, condition: Term, block: str | None = None) -> Change:
    """A promise of the caller, or a proved fact, at the start of the function or before a block.

    rewrite: `S` -> `assume condition; S`
    Axes in the condition become loops over their extents. A condition that is provably false is refused; one that reads
    memory may only read parameters that are not written before.
    """
    what = f"assume {condition}"
    place = Place(func.body, at(func, ()).context) if block is None else find_block(func, block, what)
    axes = free_variables(condition)
    if any(not v.args for v in axes):
        raise ScheduleError(what, "an index has no extent", "use eq.axis(name, extent)")
    if not nodes_of("load", condition):
        proof = decider().prove(condition, {})
        if proof.verdict == "refuted" and (axes or decider().prove(t.logical_not(condition), {})):
            raise ScheduleError(what, "it is false", "assume what is true", proof.witness)
    earlier = [p for p in stages(Place(func.body, at(func, ()).context)) if p.path < place.path]
    for load in nodes_of("load", condition):
        name = str(load.payload)
        if name not in func.buffer_map or any(touches(p.stmt, family(func.body, name))[1] for p in earlier):
            problem = f"{name} is not what the caller gave"
            fix = "only parameters that are not written before can be assumed about"
            raise ScheduleError(what, problem, fix, {"buffer": name, "index": [str(i) for i in load.args]})
    stmt: Stmt = Assume(condition)
    for axis in reversed(axes):
        stmt = For(axis, stmt)
    return Change(replaced(func, place.path, seq([stmt, place.stmt])))
