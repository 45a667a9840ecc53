"""Loops run in the order of an index map: those of a block, by `transform_block_layout`, and any of one nest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from eqsat.accesses.access import Context, accesses, parts
from eqsat.accesses.dependences import mapped
from eqsat.accesses.values import same_values
from eqsat.ir.decide import decider
from eqsat.ir.errors import EqsatError, ScheduleError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.padding import negated
from eqsat.ir.statements.names import names_of
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, If, Stmt
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, as_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name, leaf_name
from eqsat.ir.terms.walk import free_variables, postorder, substitute
from eqsat.scheduling.change import Change, become_one, refuse, shown
from eqsat.scheduling.nest import (
    Place,
    depends_on_tables,
    find_block,
    find_loop,
    guarded,
    index_map_of,
    new_names,
    replaced,
    substituted,
)
from eqsat.scheduling.order import REDUCTIONS, Chain, chain, recheck, require_stable, unchanged

_AFFINE = ("sum", "floordiv", "mod", "const", "var", "axis", "sym")


def transform_block_layout(func: PrimFunc, block: str, index_map: Any, names: Sequence[str] | None = None) -> Change:
    """The loops of a block, replaced by those of the outputs of a bijective affine index map.

    rewrite: `for i in 16: for j in 64: S(i, j)` by `i, j -> i//4, j, i%4`
          -> `for i in 4: for j in 64: for k in 4: S(4*i + k, j)`
    """
    what = f"transform_block_layout of {block} by {index_map}"
    here = find_block(func, block, what)
    members: list[tuple[For, Context]] = []
    while isinstance(here.stmt, For) or (isinstance(here.stmt, If) and here.stmt.orelse is None):
        if isinstance(here.stmt, For):
            members.append((here.stmt, here.context))
        here = Place(*here.context.child(here.stmt, parts(here.stmt)[0]))
    m = index_map_of(index_map, len(members))
    if len(m.names) > len(members):
        raise ScheduleError(what, f"the map takes {len(m.names)} indices, the block has {len(members)} loops")
    members = members[: len(m.names)]
    if not members:
        raise ScheduleError(what, "the map takes no index, so no loop is named", "give a map of its outermost loops")
    for output in m.final_indices:
        _require_affine(what, output)
        axes = {v: s.axis for v, (s, _) in zip(m.inputs, members, strict=True)}
        used = set(free_variables(*decider().simplify([substitute(output, axes)], {})))
        kinds = {s.reduce for s, _ in members if s.axis in used}
        if len(kinds) > 1:
            fix = "keep them in different outputs, or use transform_loops"
            found = _mixed(output, [s for s, _ in members], m)
            raise ScheduleError(what, f"{output} mixes spatial and reduce loops", fix, found)
    return _transformed(func, members, m, names, what)


def _mixed(output: Term, members: Sequence[For], m: IndexMap) -> dict[str, Any]:
    """Two iterations that combine into one element, and for which an output differs: a loop over it is not spatial."""
    names = [leaf_name(s.axis) for s in members]
    extents = [t.int_value(s.axis.args[0]) or 2 for s in members]
    points = list(product(*({0, min(1, n - 1), n - 1} for n in extents)))
    for first, second in product(points, points):
        if all(s.reduce or a == b for s, a, b in zip(members, first, second, strict=True)):
            one, two = (
                substitute(output, dict(zip(m.inputs, map(t.index_const, p), strict=True))) for p in (first, second)
            )
            if one is not two:
                found = [dict(zip(names, p, strict=True)) for p in (first, second)]
                return {"output": str(output), "first": found[0], "second": found[1]}
    return {}


def _require_affine(what: str, output: Term) -> None:
    for node in postorder(output):
        if node.op not in _AFFINE or (node.op in ("floordiv", "mod") and t.int_value(node.args[1]) is None):
            problem = f"{output} is not affine: it has {node}"
            raise ScheduleError(what, problem, "use sums, and // and % by numbers")


def transform_loops(func: PrimFunc, loops: Sequence[str], index_map: Any, names: Sequence[str] | None = None) -> Change:
    """Loops of one nest, outer ones first, replaced by those of the outputs of an injective index map.

    The map may mix loops as the accesses allow; what iterations it adds are guarded.
    rewrite: `for i in 14: S(i)` by `i -> (i+3)//4, (i+3)%4`
          -> `for p0 in 5: for p1 in 4: if 3 <= 4*p0 + p1 and 4*p0 + p1 < 17: S(4*p0 + p1 - 3)`
    """
    what = f"transform_loops of {', '.join(loops)} by {index_map}"
    if not loops:
        raise ScheduleError(what, "no loop is named", "name the loops of one nest, outer ones first")
    found = [find_loop(func, name, what) for name in loops]
    m = index_map_of(index_map, len(loops))
    if len(m.names) != len(loops):
        raise ScheduleError(what, f"the map takes {len(m.names)} indices, {len(loops)} loops are named")
    return _transformed(func, found, m, names, what, pads=True)


def _transformed(
    func: PrimFunc,
    found: Sequence[tuple[For, Context]],
    m: IndexMap,
    names: Sequence[str] | None,
    what: str,
    pads: bool = False,
) -> Change:
    (first, context), (last, inner) = found[0], found[-1]
    if inner.path[: len(context.path)] != context.path:
        problem = "the loops do not stand one inside of the other, in the order in which they are named"
        raise ScheduleError(what, problem, "name the loops of one nest, outer ones first")
    nest = chain(what, first, last)
    members = [s for s in nest if isinstance(s, For)]
    if len(members) != len(found) or any(a is not b for a, (b, _) in zip(members, found, strict=True)):
        raise ScheduleError(what, "the loops are not all the loops of one nest", "reorder them next to one another")
    serial = [s for s in members if s.kind != "serial"]
    if serial:
        raise ScheduleError(what, f"loop {leaf_name(serial[0].axis)} is {serial[0].kind}", "transform serial loops")
    known = accesses(first, context)
    moved = require_stable(what, nest, known, len(context.loops))
    shape = tuple(as_dim(s.axis.args[0]) for s in members)
    extents, back, padding = _inverse(what, m, shape)
    if padding is not t.FALSE and not pads:
        where = m.first_padding(shape)
        raise ScheduleError(
            what, f"the map is not bijective on {shape}: it adds iterations where {padding}",
            "use a map that divides the extents, or split", {"iteration": where},
        )  # fmt: skip
    depth = len(context.loops)
    table = {v: s.axis for v, s in zip(m.inputs, members, strict=True)}
    outputs = [substitute(o, table) for o in m.final_indices]
    met, free = mapped(moved, range(depth, depth + len(members)), outputs)
    made, new, now = _built(func, context, nest, (outputs, extents, back, padding), names, what)
    result = replaced(func, context.path, new)
    if met is not None:
        if not unchanged(known, accesses(new, context), context, now) and not same_values(func, result):
            raise refuse(what, met, f"leave their order{REDUCTIONS if not all(s.reduce for s in members) else ''}")
        free = []
    recheck(result, [leaf_name(s.axis) for s in members], context, what)
    return Change(result, tuple(made), shown(free))


def _inverse(what: str, m: IndexMap, shape: Shape) -> tuple[Shape, IndexMap, Term]:
    try:
        single = m.is_injective(shape)
        if single.verdict == "refuted":
            raise ScheduleError(what, become_one("iterations", single), "use a bijective map", single.witness)
        extents = m.map_shape(shape)
        back, padding = m.non_surjective_inverse(shape)
    except ScheduleError:
        raise
    except EqsatError as error:
        raise ScheduleError(what, str(error), "use a bijective map of the iterations") from error
    if depends_on_tables(*back.final_indices, padding):
        raise ScheduleError(what, f"the inverse of {m} is known as a table only", "use sums, // and % by numbers")
    return extents, back, padding


def _built(
    func: PrimFunc,
    context: Context,
    nest: Chain,
    new: tuple[Sequence[Term], Shape, IndexMap, Term],
    names: Sequence[str] | None,
    what: str,
) -> tuple[list[str], Stmt, dict[Term, Term]]:
    """The names of the new loops, the new nest, and the old axes over the new ones."""
    outputs, extents, back, padding = new
    members = [s for s in nest if isinstance(s, For)]
    by_axis = {s.axis: s for s in members}
    kept: list[str | None] = []
    reduces: list[bool] = []
    for output in outputs:
        used = [by_axis[v] for v in free_variables(output) if v in by_axis]
        name = leaf_name(used[0].axis) if len(used) == 1 and output is used[0].axis else None
        kept.append(None if name in kept else name)
        reduces.append(bool(used) and all(s.reduce for s in used))
    made = new_names(func, what, names, [f"p{n}" for n in range(len(kept))]) if names else _free(func, members, kept)
    axes = [t.var(n, e) for n, e in zip(made, extents, strict=True)]
    place = dict(zip(back.inputs, axes, strict=True))
    table = {s.axis: substitute(i, place) for s, i in zip(members, back.final_indices, strict=True)}
    body = substituted(members[-1].body, table)
    for stmt in reversed(nest):
        if isinstance(stmt, If):
            # What is inside is over the new axes already, of which one may be an old one by another meaning.
            orelse = None if stmt.orelse is None else substituted(stmt.orelse, table)
            body = replace(stmt, condition=substitute(stmt.condition, table), then=body, orelse=orelse)
    body = guarded(negated(substitute(padding, place)), body)
    for axis, reduce in reversed(list(zip(axes, reduces, strict=True))):
        body = replace(members[0], axis=axis, body=body, reduce=reduce)
    return made, body, table


def _free(func: PrimFunc, members: Sequence[For], kept: Sequence[str | None]) -> list[str]:
    """The names of loops that stay, and free ones for the others; those of loops that go are free, too."""
    taken = {*names_of(func), *(name for name in kept if name)} - ({leaf_name(s.axis) for s in members} - {*kept})
    made: list[str] = []
    for n, name in enumerate(kept):
        made.append(name or fresh_name(f"p{n}", {*taken, *made}))
    return made
