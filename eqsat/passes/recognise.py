"""Functions that only move elements, as tensor programs of one view, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.ir.decide import decider
from eqsat.ir.errors import ScheduleError
from eqsat.ir.statements.lane_loops import to_lane_loops
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.primfunc import as_function as checked_function
from eqsat.ir.statements.ssa import with_own_names
from eqsat.ir.statements.stmt import BufferDecl, For, Stmt, Store, statements
from eqsat.ir.tensors.tensor import Input, Program, Tensor, View, as_program
from eqsat.ir.tensors.tensor import input as input_tensor
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.shape import output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import map_loads
from eqsat.passes.cells import has_loads
from eqsat.passes.facts import copies_of
from eqsat.passes.flow import after, entry
from eqsat.simplifying.simplify import simplify_term


@dataclass(frozen=True, eq=False)
class _Piece(Record):
    """Cells of the output, and what they hold: an element of the source, or a number."""

    where: Term
    value: Term


def as_view(func: PrimFunc) -> Program:
    """The program of one view that a function is: each cell of the one parameter that it writes is an element of its
    other parameter, or a number.

    >>> import eqsat as eq
    >>> pack = eq.PrimFunc.parse('''func pack(x: int8[14], y: int8[4, 4])
    ...   for i in 16:
    ...     if i < 14:
    ...       y[i//4, i%4] = x[i]
    ...     else:
    ...       y[i//4, i%4] = int8(0)''')
    >>> print(eq.as_view(pack))
    pack(x: int8(14,)) -> y
      y = view x[4*i0 + i1] where 4*i0 + i1 < 14 else int8(0)  # int8(4, 4)

    It follows from what is known where the function ends, loops, branches and local buffers included; what the function
    assumes is believed. `eq.as_function` is the way back.

    Errors: ScheduleError where the function has other parameters, or with a cell that is not known to be such a copy,
    or to be one of an element that exists. Source: the layout discussion of Apache TVM's Relax (row G10).
    """
    func = with_own_names(checked_function(func, "as_view"))
    what = f"as_view of {func.name}"
    stored = dict.fromkeys(s.buffer for s in statements(func.body) if isinstance(s, Store))
    outputs = [name for name in func.params if name in stored]
    if len(outputs) != 1 or len(func.params) != 2:
        raise ScheduleError(what, f"parameters {func.params}, of which {outputs} are written", "one of two")
    output = func.buffer_map[outputs[0]]
    source = func.buffer_map[next(p for p in func.params if p != output.name)]
    axes = output_axes(output.shape)
    pieces = _pieces(to_lane_loops(func).func, output, source, axes)
    covered = decider().prove(t.logical_or(*(p.where for p in pieces)), {})
    if not covered and 0 not in output.shape:
        cell = None if covered.witness is None else tuple(covered.witness.get(leaf_name(a), 0) for a in axes)
        place = "a cell" if cell is None else f"{output.name}{list(cell)}"
        problem = f"{place} is not known to hold an element of {source.name} or a number"
        raise ScheduleError(what, problem, "only copies are views", {"buffer": output.name, "cell": cell})
    x = input_tensor(source.name, source.shape, source.dtype)
    view = _view(x, output, pieces)
    inside = [c for g, n in zip(view.gather, source.shape, strict=True) for c in (t.as_index(0) <= g, g < n)]
    held = decider().prove(t.logical_or(t.logical_not(view.valid), t.logical_and(*inside)), {})
    if not held:
        cell = None if held.witness is None else tuple(held.witness.get(leaf_name(a), 0) for a in axes)
        place = "a cell" if cell is None else f"{output.name}{list(cell)}"
        problem = f"{place} is not known to come from inside of {source.name}"
        raise ScheduleError(what, problem, "guard the access", {"buffer": output.name, "cell": cell})
    return Program([x], {output.name: Tensor(view)}, func.name)


def _pieces(func: PrimFunc, output: BufferDecl, source: BufferDecl, axes: Sequence[Term]) -> list[_Piece]:
    """What is known of a cell of the output where the function ends."""
    cell = t.load(output.name, axes, output.dtype)
    found: list[_Piece] = []
    for fact in after(func.body, entry(func)).facts:
        for where, claim in fact.about(cell):
            for said in copies_of(cell, claim):
                for under, value in _branches(said):
                    plain = value.op == "load" and value.payload == source.name and not has_loads(*value.args)
                    cells = simplify_term(t.logical_and(where, under), {})
                    if (plain or not has_loads(value)) and cells is not t.FALSE:
                        found.append(_Piece(cells, value))
    return found


def _branches(value: Term) -> list[tuple[Term, Term]]:
    """The values that a `where` chooses between, each with its condition."""
    if value.op != "where" or has_loads(value.args[0]):
        return [(t.TRUE, value)]
    test, yes, no = value.args
    taken = [(t.logical_and(test, c), v) for c, v in _branches(yes)]
    return taken + [(t.logical_and(t.logical_not(test), c), v) for c, v in _branches(no)]


def _view(x: Tensor, output: BufferDecl, pieces: Sequence[_Piece]) -> View:
    moved = [p for p in pieces if p.value.op == "load"]
    fixed = [p for p in pieces if p.value.op != "load"]
    gather: list[Term] = []
    for k in range(len(x.shape)):
        parts = [simplify_term(p.value.args[k], {}, None if p.where is t.TRUE else p.where) for p in moved]
        gather.append(_first([(p.where, part) for p, part in zip(moved, parts, strict=True)], t.index_const(0)))
    valid = simplify_term(t.logical_or(*(p.where for p in moved)), {})
    zero = t.const(False if output.dtype == "bool" else 0, output.dtype)
    return View(x, output.shape, gather, valid, _first([(p.where, p.value) for p in fixed], zero))


def _first(choices: Sequence[tuple[Term, Term]], otherwise: Term) -> Term:
    """The value of the first condition that holds; the last value needs none."""
    result = choices[-1][1] if choices else otherwise
    for where, value in reversed(choices[:-1]):
        result = t.where(where, value, result)
    return result


def as_function(program: Program | Tensor, name: str = "") -> PrimFunc:
    """The function of a program of one view: a loop nest over the cells of its output.

    >>> import eqsat as eq
    >>> x = eq.input("x", (3,), "int8")
    >>> print(eq.as_function(eq.Program([x], {"y": x.flip(0)}, "flipped")))
    func flipped(x: int8[3], y: int8[3])
      for i0 in 3:
        y[i0] = x[2 - i0]

    name: of the function, instead of the program's. `eq.as_view` is the way back.

    Errors: ScheduleError where the program is not one view of an input. Source: the layout discussion of Apache TVM's
    Relax (row G10).
    """
    program = as_program(program)
    what = f"as_function of {program.name}"
    ((label, output),) = program.outputs.items() if len(program.outputs) == 1 else ((("", None)),)
    node = None if output is None else output.node
    if output is None or not isinstance(node, View) or not isinstance(node.source.node, Input):
        raise ScheduleError(what, "it is more than one view of an input", "compile it instead")
    source = node.source.node.name
    axes = output_axes(output.shape)
    value = t.load(source, node.gather, output.dtype)
    if node.fill is not None:
        fill = map_loads(node.fill, lambda load: t.load(source, load.args, load.dtype))
        value = t.where(node.valid, value, fill)
    body: Stmt = Store(label, axes, value)
    for axis in reversed(axes):
        body = For(axis, body)
    decls = {
        source: BufferDecl(source, node.source.shape, output.dtype),
        label: BufferDecl(label, output.shape, output.dtype),
    }
    return PrimFunc(name or program.name, tuple(decls), decls, body)
