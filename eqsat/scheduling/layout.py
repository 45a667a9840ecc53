"""The layout of a buffer inside of a function: transform_layout, with padding written and assumed, and separators.

Every access is rewritten. A producer writes the padding after each statement that writes the buffer; a consumer gets an
assumption. Style "select" writes it in the same loops instead, "elementwise" computes over it where that is legal.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from eqsat.accesses.access import Context, accesses
from eqsat.ir.decide import decider
from eqsat.ir.dtypes import is_float
from eqsat.ir.errors import EqsatError, ScheduleError
from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.padding import negated
from eqsat.ir.ranges.map_bounds import at_least
from eqsat.ir.statements.apart import is_apart
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Assume, BufferDecl, For, Stmt, Store, Transform, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.shape import output_axes, static_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables, map_loads, nodes_of, substitute
from eqsat.passes.fresh import renamed
from eqsat.scheduling.by_buffer import follow
from eqsat.scheduling.change import Change, become_one
from eqsat.scheduling.memory import Declared, declared, family, moved, touches, with_declaration, without_aliases
from eqsat.scheduling.nest import Place, at, depends_on_tables, guarded, index_map_of, new_names, replaced, stages
from eqsat.scheduling.styles import compute_padding, select_padding

Interface = Literal["fixed", "free"]
Style = Literal["after", "select", "elementwise"]
INTERFACES: tuple[Interface, ...] = ("fixed", "free")
STYLES: tuple[Style, ...] = ("after", "select", "elementwise")


@dataclass(frozen=True)
class Layout:
    """How transform_layout is to be done: may the signature change, where padding is written, whether the loops that
    write the buffer follow its new cells."""

    interface: Interface = "fixed"
    style: Style = "after"
    rewrite_loops: bool = True


def transform_layout(
    func: PrimFunc,
    buffer: str,
    index_map: Any,
    pad_value: Any = None,
    interface: Interface = "fixed",
    style: Style = "after",
    rewrite_loops: bool = True,
) -> Change:
    """The buffer in the physical layout of an index map; answers the loops that write it now.

    rewrite: `for i in 14: B[i] = S(i)` by `i -> i//4, i%4`, padded with 0
          -> `for io, ii in 4, 4: if 4*io + ii < 14: B[io, ii] = S(4*io + ii)`
             `for io, ii in 4, 4: if 14 <= 4*io + ii: B[io, ii] = 0`
    """
    what = f"transform_layout of {buffer} by {index_map}"
    options = Layout(interface, style, rewrite_loops)
    old = declared(func, buffer, what)
    _require_open(func, old, options, what)
    body = without_aliases(at(func, old.body).stmt, old.decl, what)
    m = index_map_of(index_map, len(old.decl.shape))
    new = transformed(old.decl, m, pad_value, what)
    step = new.transforms[-1] if new.transforms and new is not old.decl else Transform(m, old.decl.shape)
    body = moved(body, buffer, buffer, lambda index: _mapped(m, index), what)
    func = with_declaration(func, old, new, body)
    made = declared(func, buffer, what)
    if made.path is None:
        _require_values(func, made.decl, step, what)
    return _with_padding(func, made, step, options, what)


def _require_values(func: PrimFunc, decl: BufferDecl, step: Transform, what: str) -> None:
    """Refuse a pad value of a parameter that reads cells which may hold nothing, for the caller would see a copy."""
    reads = () if step.pad_value is None else nodes_of("load", step.pad_value)
    if not reads:
        return
    own = {axis: renamed(axis) for axis in output_axes(decl.shape)}
    assuming = substitute(step.predicate, own)
    freed = [a for a in accesses(func.body, Context.of(func)) if a.write and a.buffer == decl.name and _frees(a.stmt)]
    for load in reads:
        index = [substitute(i, own) for i in load.args]
        for a in freed:
            met = [t.TRUE if i is None else t.compare("eq", x, i) for x, i in zip(index, a.index, strict=True)]
            proof = decider().prove(t.logical_not(t.logical_and(*met)), {}, t.logical_and(assuming, *a.guards))
            if not proof:
                problem = f"the pad value reads {load}, which may be a cell that holds nothing in particular"
                raise ScheduleError(what, problem, "give it a value first, or pad by another one", {"load": str(load)})


def _frees(stmt: Stmt) -> bool:
    return isinstance(stmt, Store) and bool(nodes_of("hole", stmt.value))


def _mapped(m: IndexMap, index: Sequence[Term]) -> Sequence[Term]:
    return [t.as_index(i) for i in m.map_indices(tuple(index))] if m.names else index


def _require_open(func: PrimFunc, old: Declared, options: Layout, what: str) -> None:
    if old.path is None and options.interface == "fixed":
        name = old.decl.name
        written = touches(func.body, family(func.body, name))[1]
        use = f"{'cache_write' if written else 'cache_read'}({name!r})"
        fix = f"use {use} and transform the cache, or interface='free'"
        raise ScheduleError(what, f"{name} is a parameter, its layout belongs to the callers", fix, {"parameter": name})


def transformed(decl: BufferDecl, m: IndexMap, pad_value: Any, what: str) -> BufferDecl:
    """The declaration in another layout; `pad_value` may load the buffer by its own index."""
    try:
        if m.names and static_shape(decl.shape) is not None and len(m.names) == len(decl.shape):
            single = m.is_injective(decl.shape)
            if single.verdict == "refuted":
                raise ScheduleError(what, become_one("elements", single), "use an injective map", single.witness)
        made = decl.as_buffer()
        new = BufferDecl.from_buffer(made.transform_layout(m, as_pad(made, pad_value)))
        if any(depends_on_tables(s.predicate) for s in new.transforms) or depends_on_tables(*m.final_indices):
            raise ScheduleError(what, "its padding is known as a table only", "use sums, // and % by numbers")
        return replace(new, note=decl.note)
    except ScheduleError:
        raise
    except EqsatError as error:
        if error.operation.startswith("transform_layout of "):  # of the same buffer
            raise ScheduleError(what, error.problem, error.fix, error.witness) from error
        raise ScheduleError(what, str(error), witness=error.witness) from error


def as_pad(made: Buffer, pad_value: Any) -> Any:
    """A pad value whose loads of the buffer, by name or as another object of its name, are loads of this object."""

    def own(value: Any) -> Any:
        if not isinstance(value, Term):
            return value

        def change(load: Term) -> Term:
            name = load.payload if isinstance(load.payload, str) else getattr(load.payload, "name", None)
            same = name == made.name and isinstance(load.payload, (str, Buffer))
            return t.make("load", load.args, made, load.dtype, load.lanes) if same else load

        return map_loads(value, change)

    if isinstance(pad_value, Term):

        def recorded(*axes: Term) -> Any:
            places = dict(zip(_positions(len(axes), pad_value), axes, strict=True))
            return own(substitute(pad_value, places))

        return recorded
    if callable(pad_value):
        function: Callable[..., Any] = pad_value
        return _same_signature(function, own)
    return pad_value


def _positions(rank: int, pad_value: Term) -> list[Term]:
    """The axes of a recorded pad value: physical axis n is `ax(n, extent)`."""
    known = {v.payload[1]: v for v in free_variables(pad_value) if v.op == "axis"}
    return [known.get(n, t.ax(n, 0)) for n in range(rank)]


def _same_signature(function: Callable[..., Any], own: Callable[[Any], Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*axes: Term) -> Any:
        return own(function(*axes))

    return call


def resolved_pad(decl: BufferDecl, m: IndexMap, pad_value: Any, what: str) -> Any:
    """A pad value as data for a trace: None, UNDEF or a term over output_axes, which loads the buffer itself."""
    if pad_value is None or pad_value is UNDEF:
        return pad_value
    new = transformed(decl, m, pad_value, what)
    step = new.transforms[-1] if new.transforms else None
    if step is None or step.predicate is t.FALSE or step.pad_value is None:
        return None
    if step.pad_value.op == "hole":
        return UNDEF
    made = decl.as_buffer()
    found = pad_value if isinstance(pad_value, Term) else None
    if found is None:
        given = as_pad(made, pad_value)
        found = given(*output_axes(new.shape)) if callable(given) else step.pad_value
    return found if isinstance(found, Term) else step.pad_value


# -- padding ----------------------------------------------------------------------------------------------------------


def _with_padding(func: PrimFunc, new: Declared, step: Transform, options: Layout, what: str) -> Change:
    """The function with padding written after each stage that writes the buffer, or assumed where none does."""
    name = new.decl.name
    writers = write_stages(at(func, new.body), name)
    made: tuple[str, ...] = ()
    reordered: list[str] = []
    texts: list[str] = []
    pads = step.predicate is not t.FALSE and step.pad_value is not None
    if options.style != "after" and step.predicate is not t.FALSE and not (pads and options.rewrite_loops):
        raise ScheduleError(what, f"style {options.style!r} needs padding with a value, and loops that follow it")
    fills = [pads and fills_padding(writer, new.decl, step) for writer in writers]
    after = [not fills[n] or all(fills[:n]) for n in range(len(writers))]
    for writer, produces in reversed(list(zip(writers, after, strict=True))):  # from the last one: earlier paths stay
        place = at(func, writer.path)
        if options.rewrite_loops:
            change = _followed(func, name, Place(place.stmt, place.context), what)
            func, place = change.func, at(change.func, writer.path)
            made = change.made or made
            reordered.extend(change.reordered)
            texts = [*change.steps, *texts]
        if pads and produces:
            func = _padded(func, place, new.decl, step, options, what)
    if not writers and pads and new.path is None and step.pad_value is not None and step.pad_value.op != "hole":
        func = replaced(func, (), seq([assumption(func, new.decl, step, what), func.body]))
    return Change(func, made, tuple(dict.fromkeys(reordered)), tuple(texts))


def write_stages(place: Place, name: str) -> list[Place]:
    """The statements that write a buffer, in their order: the largest inside of which nothing else reads what they
    write. A loop of which every iteration writes the buffer anew, and then reads it, has such statements in its body.
    """
    return [found for stage in stages(place) if touches(stage.stmt, {name})[1] for found in _anew(stage, name)]


def _anew(stage: Place, name: str) -> list[Place]:
    loop = stage.stmt
    if not isinstance(loop, For) or loop.kind == "parallel" or not at_least(loop.extent_term, 1):
        return [stage]
    index = [i for a in accesses(loop, stage.context) if a.buffer == name for i in a.index]
    if any(i is None or loop.axis in set(free_variables(i)) for i in index):
        return [stage]
    body = [s for s in stages(Place(*stage.context.child(loop, 0))) if any(touches(s.stmt, {name}))]
    writers = [s for s in body if touches(s.stmt, {name})[1]]
    found = [inner for s in writers for inner in _anew(s, name)]
    apart = len(writers) < len(body) and body[0] is writers[0]
    return found if apart or (len(body) == 1 and found[0] is not body[0]) else [stage]


def fills_padding(place: Place, decl: BufferDecl, step: Transform) -> bool:
    """Whether a stage writes only padding of earlier steps, as `padding_stage` does: after it, what the last step adds
    need not be written again, unless that reads the buffer, and so perhaps this padding."""
    if step.pad_value is None or nodes_of("load", step.pad_value):
        return False
    earlier = [s.predicate for s in decl.transforms[:-1] if s.predicate is not t.FALSE]
    if not earlier:
        return False
    axes = output_axes(decl.shape)
    for a in accesses(place.stmt, place.context):
        if a.buffer == decl.name and a.write:
            index = [i for i in a.index if i is not None]
            if not a.exact or len(index) < len(axes):
                return False
            where = substitute(t.logical_or(*earlier), dict(zip(axes, index, strict=True)))
            if not decider().prove(where, {}, t.logical_and(*a.guards)):
                return False
    return True


def _followed(func: PrimFunc, buffer: str, place: Place, what: str) -> Change:
    """The stage with loops that follow the buffer, where that is legal and splits nothing off; else as it is."""
    try:
        change = follow(func, buffer, place, what)
    except ScheduleError:
        return Change(func)
    return Change(func) if any("fission(" in s for s in change.steps) else change


def _padded(func: PrimFunc, place: Place, decl: BufferDecl, step: Transform, options: Layout, what: str) -> PrimFunc:
    stmt = place.stmt
    if options.style == "select":
        return replaced(func, place.path, select_padding(stmt, decl, step, what))
    if options.style == "elementwise":
        stmt = compute_padding(stmt, place.context, decl, step, what)
    return replaced(func, place.path, seq([stmt, padding_stage(func, decl, step, what)]))


def padding_stage(func: PrimFunc, decl: BufferDecl, step: Transform, what: str) -> Stmt:
    """Loops over all cells that write the padding of a step."""
    assert step.pad_value is not None

    def body(axes: Sequence[Term], where: Term, value: Term) -> Stmt:
        return guarded(where, Store(decl.name, tuple(axes), value))

    return _over_cells(func, decl, step, body, what)


def assumption(func: PrimFunc, decl: BufferDecl, step: Transform, what: str) -> Stmt:
    """Loops over all cells that assume the padding of a step to hold its value."""

    def body(axes: Sequence[Term], where: Term, value: Term) -> Stmt:
        own = t.make("load", axes, decl.name, decl.scalar, decl.lanes)
        holds = t.compare("eq", own, value)
        value = value.args[0] if value.op == "broadcast" else value
        if is_float(decl.scalar) and not (value.op == "const" and t.const_value(value) == t.const_value(value)):
            holds = t.logical_or(holds, t.logical_and(t.unary("isnan", own), t.unary("isnan", value)))
        return Assume(t.logical_or(negated(where), holds))

    return _over_cells(func, decl, step, body, what)


def _over_cells(
    func: PrimFunc, decl: BufferDecl, step: Transform, make: Callable[[Sequence[Term], Term, Term], Stmt], what: str
) -> Stmt:
    assert step.pad_value is not None
    names = new_names(func, what, None, [f"{decl.name}_{n}" for n in range(len(decl.shape))])
    axes = [t.var(n, e) for n, e in zip(names, decl.shape, strict=True)]
    table = dict(zip(output_axes(decl.shape), axes, strict=True))
    stmt = make(axes, substitute(step.predicate, table), substitute(step.pad_value, table))
    for axis in reversed(axes):
        stmt = For(axis, stmt)
    return stmt


def set_axis_separators(
    func: PrimFunc, buffer: str, axis_separators: Sequence[int], interface: Interface = "fixed"
) -> Change:
    """A buffer with memory of several physical axes; accesses stay as they are.

    Kernels take a parameter as it is declared, or as the dense array of its physical axes.

    rewrite: `alloc t: float32[4, 8]` -> `alloc t: float32[4, 8]` whose second physical axis begins at axis 1
    """
    what = f"set_axis_separators of {buffer} to {list(axis_separators)}"
    old = declared(func, buffer, what)
    _require_open(func, old, Layout(interface), what)
    body = at(func, old.body).stmt
    if len(family(body, buffer)) > 1:
        alias = sorted(family(body, buffer) - {buffer})[0]
        raise ScheduleError(what, f"{alias} is an alias of its memory", "remove the alias", {"alias": alias})
    new = replace(old.decl, axis_separators=tuple(axis_separators))
    try:
        new.as_buffer()
        if is_apart(old.decl) and not is_apart(new):
            raise ScheduleError(what, f"strides {list(new.strides or ())} lead to one element twice then")
        return Change(with_declaration(func, old, new, body))
    except ScheduleError:
        raise
    except EqsatError as error:
        raise ScheduleError(what, str(error), witness=error.witness) from error
