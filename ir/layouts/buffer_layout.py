"""Buffers in another layout: new memory with padding, the same memory where its order is kept, vectors of elements.

`transform_buffer` replaces a buffer: accesses `b[i]` become `new[map(i)]`. `view_buffer` needs no new memory: the
padded shape is an alias whose padding lies past the end and is never touched. `vector_index` finds the one vector that
the load of neighbouring elements is, where its alignment is proved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from eqsat.ir.decide import decider
from eqsat.ir.errors import LayoutError, ShapeError
from eqsat.ir.layouts.as_map import as_map
from eqsat.ir.layouts.buffer import Buffer, join_lanes
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.pad_value import called, pad_value_term
from eqsat.ir.layouts.padding import LayoutStep, Padding, PadStep, negated
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import as_dim, format_shape, output_axes, same_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables, map_loads, substitute


def transform_buffer(buffer: Buffer, index_map: Any, pad_value: Any = None) -> Buffer:
    """The buffer that holds the same elements in the physical layout of an index map: `new[map(i)]` is `buffer[i]`.

    >>> b = Buffer("b", (14,), "float32")
    >>> new = transform_buffer(b, "i -> i//4, i%4", pad_value=lambda io, ii: b[(4 * io + ii) % 14])
    >>> new.shape, str(new.padding.by_digits(["io", "ii"])), str(new.padding.value)
    ((4, 4), 'io == 3 and 2 <= ii', 'b[(4*i0 + i1) % 14 // 4, (4*i0 + i1) % 14 % 4]')

    pad_value: what padding cells hold (a number, eq.UNDEF, or a function of the physical indices that may load the old
    buffer; the stored value loads the new one). None: padding must not be accessed. Every transform in a row keeps the
    value of its own cells. Axis separators of the map become those of the new buffer.
    Raises LayoutError where two elements would share a cell (with both), or where the buffer is an alias, strided or
    lies at an offset: such memory is laid out by its owner.
    """
    operation = f"transform_layout of {buffer.name}{format_shape(buffer.shape)} by {index_map}"
    if buffer.data is not None:
        raise LayoutError(
            operation, f"{buffer.name} reads the memory of {buffer.root.name}", "transform the owner and every alias"
        )
    if buffer.strides is not None or buffer.elem_offset is not t.index_const(0):
        raise LayoutError(operation, "its strides and offset describe memory that would be replaced", "drop them")
    m = as_map(buffer, index_map, None)
    if not m.names:
        return buffer
    if buffer.axis_separators and not m.axis_separators:
        problem = f"{buffer.name} has axis separators, the map has none"
        raise LayoutError(operation, problem, "put eq.AXIS_SEPARATOR between outputs of the map")
    shape = m.map_shape(buffer.shape)
    inverse, marks = m.non_surjective_inverse(buffer.shape)
    result = Buffer(buffer.name, shape, buffer.dtype, axis_separators=m.axis_separators)
    axes = output_axes(shape)
    table = dict(zip(inverse.initial_indices, axes, strict=True))
    back = [substitute(i, table) for i in inverse.final_indices]
    marks = substitute(marks, table)
    steps = _moved_steps(buffer, m, result, back, marks)
    if marks is not t.FALSE:
        steps.append(PadStep(marks, _value(buffer, pad_value, axes, m, result, marks, operation)))
    return _finished(result, buffer, m, marks, steps)


def _moved(term: Term, buffer: Buffer, m: IndexMap, result: Buffer) -> Term:
    """A formula over the old buffer as one over the new buffer."""

    def change(load: Term) -> Term:
        if load.payload is not buffer:
            return load
        return t.make("load", m.map_indices(load.args), result, load.dtype, load.lanes)

    return map_loads(term, change)


def _finished(result: Buffer, buffer: Buffer, m: IndexMap, marks: Term, steps: Sequence[PadStep]) -> Buffer:
    """A buffer with what is known of its padding, and with the layout that it has of another one by a map."""
    if steps:
        result.padding = Padding(output_axes(result.shape), tuple(steps))
    result.layouts = (*buffer.layouts, LayoutStep(m, buffer.shape, marks is not t.FALSE))
    return result


def _moved_steps(buffer: Buffer, m: IndexMap, result: Buffer, back: Sequence[Term], marks: Term) -> list[PadStep]:
    """The padding that a buffer had already, at its new places; `back` is the old index of a new cell."""
    if buffer.padding is None:
        return []
    old = dict(zip(buffer.padding.indices, back, strict=True))
    steps: list[PadStep] = []
    for step in buffer.padding.steps:
        where = t.logical_and(negated(marks), substitute(step.where, old))
        value = None if step.value is None else _moved(substitute(step.value, old), buffer, m, result)
        steps.append(PadStep(where, value))
    return steps


def _value(
    buffer: Buffer, pad_value: Any, axes: tuple[Term, ...], m: IndexMap, result: Buffer, marks: Term, operation: str
) -> Term | None:
    pad_value = called(pad_value, axes, operation)
    if pad_value is None:
        return None
    value = pad_value_term(buffer, pad_value, axes, result.shape, marks, operation)
    return _moved(value, buffer, m, result)


def keeps_order(buffer: Buffer, index_map: Any) -> Term:
    """The claim that a layout keeps the place of every element: its row-major address is the address it has now.

    >>> b = Buffer("b", (14,), "float32")
    >>> print(keeps_order(b, "i -> i//4, i%4"), "|", keeps_order(b, "i -> i%4, i//4"))
    True | i % 4 * 4 + i // 4 == i
    """
    m, claim = as_map(buffer, index_map, None), t.TRUE
    plain = Buffer(buffer.name, m.map_shape(buffer.shape), buffer.dtype, axis_separators=m.axis_separators)
    variables, outputs = m.on_shape(buffer.shape)
    there, here = plain.flat_index(outputs), buffer.flat_index(variables)
    if len(there) != len(here):
        return t.FALSE
    for a, b in zip(there, here, strict=True):
        x, y = t.as_index(a), t.as_index(b) - buffer.elem_offset
        claim = claim if x is y else t.logical_and(claim, t.compare("eq", x, y))
    return claim


def view_buffer(buffer: Buffer, index_map: Any) -> Buffer:
    """The buffer's own memory under the padded shape of a layout, where that keeps the order of the elements.

    >>> b = Buffer("b", (14,), "float32")
    >>> v = view_buffer(b, "i -> i//4, i%4")
    >>> v.shape, v.flat_shape, v.flat_index((3, 1)), v.data is b
    ((4, 4), (14,), (13,), True)

    Padding lies where the buffer has no memory, so that no access may touch it. Raises LayoutError, with an element
    that would move, where the order is not kept.
    """
    operation = f"view_layout of {buffer.name}{format_shape(buffer.shape)} by {index_map}"
    m = as_map(buffer, index_map, None)
    claim = keeps_order(buffer, m)
    box = {v: (0, e) for v, e in zip(m.on_shape(buffer.shape)[0], buffer.shape, strict=True) if isinstance(e, int)}
    if claim is not t.TRUE:
        used = set(free_variables(claim))
        proof = decider().prove(claim, {v: r for v, r in box.items() if v in used})
        if not proof:
            at = f": it moves the element at {dict(proof.witness)}" if proof.witness else " (not shown)"
            raise LayoutError(operation, f"the row-major order changes{at}", "use transform_layout, which copies")
    inverse, marks = m.non_surjective_inverse(buffer.shape)
    result = Buffer(
        buffer.name, m.map_shape(buffer.shape), buffer.dtype, elem_offset=buffer.elem_offset,
        axis_separators=m.axis_separators,
    )  # fmt: skip
    result.data, result.memory = buffer, buffer.flat_shape
    axes = output_axes(result.shape)
    table = dict(zip(inverse.initial_indices, axes, strict=True))
    marks = substitute(marks, table)
    steps = _moved_steps(buffer, m, result, [substitute(i, table) for i in inverse.final_indices], marks)
    if marks is not t.FALSE:
        steps.append(PadStep(marks, None))
    return _finished(result, buffer, m, marks, steps)


# -- vectors ----------------------------------------------------------------------------------------------------------


def vector_alias(buffer: Buffer, lanes: int) -> Buffer:
    """The same memory as vectors of `lanes` neighbours of the last axis.

    >>> v = vector_alias(Buffer("b", (2, 64), "float32"), 4)
    >>> v.shape, v.dtype
    ((2, 16), 'float32x4')
    """
    what = f"vectors of {lanes} in {buffer.name}{format_shape(buffer.shape)}"
    if not buffer.shape or buffer.lanes != 1 or buffer.strides is not None or lanes < 2:
        raise LayoutError(what, "needs dense scalar elements with a last axis, and 2 lanes or more", "flatten it first")
    last = _divided(t.as_index(buffer.shape[-1]), lanes)
    offset = _divided(buffer.elem_offset, lanes)
    if last is None or offset is None:
        raise LayoutError(
            what, f"{buffer.shape[-1]} elements from {buffer.elem_offset} are not whole vectors", "pad the last axis"
        )
    shape = (*buffer.shape[:-1], last)
    dtype = join_lanes(buffer.scalar, lanes)
    if buffer.axis_separators:
        raise LayoutError(what, "memory of several physical axes has one element type", "declare it as vectors")
    return Buffer(f"{buffer.name}_x{lanes}", shape, dtype, elem_offset=offset, data=buffer)


def vector_index(
    buffer: Buffer,
    index: Any,
    vector: Buffer,
    ranges: Mapping[Term, tuple[int, int]] | None = None,
    assuming: Term | None = None,
) -> tuple[Term, ...]:
    """The index of one vector that is a ramp of a scalar buffer: `b[4*i : 4*i + 4]` is `v[i]`.

    >>> b = Buffer("b", (64,), "float32")
    >>> vector_index(b, t.ramp(4 * t.var("i"), 1, 4), vector_alias(b, 4))
    (i,)

    ranges: half-open, of variables without an extent; assuming: a condition that holds at the access. Raises
    LayoutError, with a witness, unless it is proved that the ramp is exactly one vector.
    """
    items = list(cast("Sequence[Any]", index)) if isinstance(index, (tuple, list)) else [index]
    terms = [t.as_index(i) for i in items]
    shown = f"{buffer.name}[{', '.join(map(str, terms))}]"
    what = f"access {shown} as a vector of {vector.name}"
    if buffer.root is not vector.root or buffer.scalar != vector.scalar or buffer.lanes != 1:
        raise LayoutError(
            what, f"{vector.name} is not the memory of {buffer.name} as vectors of {buffer.scalar}", "use vector_alias"
        )
    flat = buffer.flat_index(tuple(terms))
    whole = (*vector.shape[:-1], as_dim(t.as_index(vector.shape[-1]) * vector.lanes)) if vector.shape else ()
    if len(flat) != 1 or not same_shape(whole, buffer.shape):
        problem = f"{format_shape(vector.shape)} vectors are not {format_shape(buffer.shape)} elements of flat memory"
        raise ShapeError(what, problem)
    ramp = flat[0] if isinstance(flat[0], Term) else t.index_const(flat[0])
    if ramp.op != "ramp" or ramp.payload != vector.lanes or not t.is_const(ramp.args[1], 1):
        problem = f"it does not read {vector.lanes} neighbours"
        raise LayoutError(what, problem, f"index with ramp(start, 1, {vector.lanes})")
    last = terms[-1].args[0] if terms[-1].op == "ramp" else terms[-1]
    quotient = _divided(last, vector.lanes)
    if quotient is None:
        quotient = last // vector.lanes
    result = (*terms[:-1], quotient)
    claim = t.compare("eq", t.as_index(vector.flat_index(result)[0]) * vector.lanes, ramp.args[0])
    if claim is not t.TRUE and not (claim.op == "eq" and claim.args[0] is claim.args[1]):
        box = dict(ranges or {})
        for v in free_variables(claim):
            extent = t.int_value(v.args[0]) if v.args else None
            if v not in box and extent is not None:
                box[v] = (0, extent)
        proof = decider().prove(claim, box, assuming)
        if not proof:
            at = f", for example at {dict(proof.witness)}" if proof.witness else ""
            problem = f"the address {ramp.args[0]} is not shown to be a multiple of {vector.lanes}{at}"
            raise LayoutError(what, problem, "align it, or keep the scalar access")
    return result


def _divided(term: Term, by: int) -> Term | None:
    """term / by where every part is a multiple, else None."""
    constant, parts = t.linear_parts(term)
    if constant % by or any(c % by for c, _ in parts):
        return None
    return t.linear(constant // by, [(c // by, x) for c, x in parts])
