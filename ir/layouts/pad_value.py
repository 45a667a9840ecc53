"""What a user may give as a pad value, checked and made a term over the physical index.

A number of the element type (in every lane of a vector), eq.UNDEF, or a function of the physical indices that answers
one of these, an index expression, or a formula that may load the transformed source itself, by its own (logical) index:
the wrap-around of 14 cells in 4x4 is `lambda io, ii: x[(4*io + ii) % 14]`. Nothing else may be read.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

import numpy as np

from eqsat.ir.decide import decider
from eqsat.ir.dtypes import BOOL, INDEX, NDArray, float_info, is_float, split_vector
from eqsat.ir.errors import BoundsError, LayoutError, TypeMismatch
from eqsat.ir.layouts.padding import Padding
from eqsat.ir.points import ENUMERATION_LIMIT
from eqsat.ir.ranges.bounds import bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import Mask, evaluate_masked
from eqsat.ir.terms.holes import UNDEF, new_hole
from eqsat.ir.terms.shape import Shape, size, static_shape
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads, nodes_of, postorder, substitute, symbols

_PARTIAL = ("floordiv", "mod", "truncdiv", "truncmod", "shl", "shr", "pow")
"""Operations that are undefined for some integers."""


class Source(Protocol):
    """What is padded: a tensor or a buffer."""

    @property
    def name(self) -> str: ...

    @property
    def shape(self) -> Shape: ...

    @property
    def dtype(self) -> str: ...

    @property
    def padding(self) -> Padding | None: ...


def pad_value_term(
    source: Source, pad_value: Any, axes: Sequence[Term], shape: Shape, padding: Term, operation: str
) -> Term:
    """The value of padding cells as a term over `axes` (the physical index, of extents `shape`).

    padding: the predicate of these cells. Elements that are vectors hold the value of a scalar in every lane; a vector
    has as many. Raises TypeMismatch where the value has another type or may not fit it,
    LayoutError where it reads anything but the source, BoundsError where it reads outside of it (with the cell).
    """
    pad_value = called(pad_value, axes, operation)
    element, lanes = split_vector(source.dtype)
    if pad_value is UNDEF:
        return new_hole(element, [*axes, *([t.ramp(0, 1, lanes)] if lanes > 1 else [])])
    if isinstance(pad_value, Term):
        _check_reads(source, pad_value, axes, shape, operation)
        pad_value = map_loads(
            pad_value, lambda x: t.make("load", x.args, x.payload, element, x.lanes) if x.dtype == source.dtype else x
        )
    value = _typed(source, pad_value, axes, shape, padding, operation)
    if value.lanes not in (1, lanes):
        raise TypeMismatch(operation, f"pad value {value} has {value.lanes} lanes, {source.name} is {source.dtype}")
    _check_defined(source, value, axes, shape, padding, operation)
    return t.broadcast(value, lanes)


def called(pad_value: Any, axes: Sequence[Term], operation: str) -> Any:
    """The pad value, or what it answers at the physical index where it is a function."""
    if not callable(pad_value) or isinstance(pad_value, Term):
        return pad_value
    function = cast("Callable[..., Any]", pad_value)
    try:
        inspect.signature(function).bind(*axes)
    except TypeError as error:
        raise TypeMismatch(
            operation, f"the pad function does not take {len(axes)} indices: {error}", "one per physical axis"
        ) from error
    except ValueError:  # a function of C has no signature to look at
        pass
    return function(*axes)


def _typed(source: Source, value: Any, axes: Sequence[Term], shape: Shape, padding: Term, operation: str) -> Term:
    element = split_vector(source.dtype)[0]
    if isinstance(value, Term):
        if value.dtype == INDEX:
            return _cast_index(source, value, axes, shape, padding, operation)
        if value.dtype != element:
            problem = f"pad value {value} is {value.dtype}, {source.name} is {source.dtype}"
            raise TypeMismatch(operation, problem, f"use eq.cast(value, {element!r})")
        return value
    if getattr(value, "shape", ()) != () or hasattr(value, "node"):
        fix = "a number, eq.UNDEF, or a function of the physical indices"
        raise TypeMismatch(operation, f"pad value {value!r} is not a scalar", fix)
    if isinstance(value, (np.ndarray, np.generic)):
        scalar = cast(Any, value)[()]
        if scalar.dtype.name != element:
            problem = f"pad value {scalar!r} is {scalar.dtype.name}, {source.name} is {source.dtype}"
            raise TypeMismatch(operation, problem, "convert it, or give a Python number")
        return t.const(scalar, element)
    try:
        term = t.const(value, element)
    except TypeMismatch as error:
        raise TypeMismatch(operation, f"pad value {value!r}: {error.problem}") from error
    if is_float(element) and np.isfinite(value) and not np.isfinite(t.const_value(term)):
        raise TypeMismatch(operation, f"pad value {value!r} does not fit {element}", "give an infinity")
    return term


def _cast_index(source: Source, value: Term, axes: Sequence[Term], shape: Shape, padding: Term, operation: str) -> Term:
    """An index expression as an element, where its values fit the type in all padding cells."""
    element = split_vector(source.dtype)[0]
    if element == BOOL:
        raise TypeMismatch(operation, f"pad value {value} is a number, {source.name} is bool", "compare it")
    info: Any = float_info(element) if is_float(element) else np.iinfo(element)
    least, most = int(info.min), int(info.max)
    low, high = bounds(value)
    if is_float(element) and (low is None or high is None):
        return t.cast_to(value, element)
    if low is None or high is None or low < least or high > most:
        inside = t.logical_and(t.compare("le", least, value), t.compare("le", value, most))
        box = {a: (0, n) for a, n in zip(axes, static_shape(shape) or (), strict=False)}
        proof = decider().prove(inside, box, padding)
        if not proof:
            at = f" at {dict(proof.witness)}" if proof.witness else ""
            problem = f"pad value {value} may not fit {element}{at}"
            raise TypeMismatch(operation, problem, f"use eq.cast(value, {element!r}) to wrap")
    return t.cast_to(value, element)


def _check_reads(source: Source, value: Term, axes: Sequence[Term], shape: Shape, operation: str) -> None:
    for node in nodes_of("load", value):
        if node.payload is not source and node.payload != source and not isinstance(node.payload, Table):
            other = getattr(node.payload, "name", node.payload)
            index = [str(a) for a in node.args]
            problem = f"the pad value reads {other}[{', '.join(index)}]"
            raise LayoutError(operation, problem, f"it may read {source.name} only", {"buffer": other, "index": index})
        if not isinstance(node.payload, Table) and len(node.args) != len(source.shape):
            problem = f"the pad value {value} reads {source.name} at {len(node.args)} indices"
            raise LayoutError(operation, problem, f"{len(source.shape)}, one for each axis before the transform")
    known = {s for d in (*shape, *source.shape) if isinstance(d, Term) for s in symbols(d)}
    own = set(axes)
    for node in postorder(value, done=own):
        if (node.op in ("axis", "var") and node not in own) or (node.op == "sym" and node not in known):
            raise LayoutError(operation, f"the pad value {value} depends on {node}", "it may use the physical indices")


def _check_defined(
    source: Source, value: Term, axes: Sequence[Term], shape: Shape, padding: Term, operation: str
) -> None:
    """Refuse a value that is undefined (reads out of range, divides by zero) at a padding cell, where that is sure."""
    extents, within = static_shape(shape), static_shape(source.shape)
    if extents is None or within is None or size(extents) > ENUMERATION_LIMIT or _depends_on_data(value):
        _check_known(source, value, padding, operation)
        return
    risky = [n for n in postorder(value) if n.op == "load" or n.op in _PARTIAL]
    if not risky:
        return

    def read(payload: Any, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
        if isinstance(payload, Table):
            return load_table(payload, index)
        bad: NDArray = np.zeros((), np.bool_)
        for i, n in zip(index, within, strict=True):
            bad = np.logical_or(bad, np.logical_or(i < 0, i >= n))
        if source.padding is not None:
            at = dict(zip(source.padding.indices, index, strict=True))
            bad = np.logical_or(bad, evaluate_masked([source.padding.unknown], at, load_table)[0][0])
        return np.ones((), split_vector(source.dtype)[0]), bad  # of a vector the index has an axis for the lanes

    grid = np.indices(extents)
    env = {a: grid[n] for n, a in enumerate(axes)}
    (here, _), (_, bad) = evaluate_masked([padding, value], env, read, lambda n, dtype, index: np.ones((), dtype))
    if value.lanes > 1 and bad is not None:
        bad = bad.any(axis=-1)
    wrong = np.logical_and(here, False if bad is None else bad)
    if wrong.any():
        cell = tuple(int(i) for i in np.argwhere(np.broadcast_to(wrong, extents))[0])
        problem = f"the pad value {value} is undefined at the padding cell {cell}"
        raise BoundsError(operation, problem, f"read what {source.name} holds, for example by % of its extent")


def _check_known(source: Source, value: Term, padding: Term, operation: str) -> None:
    """Refuse a value that may read padding of which nothing is known, at a padding cell."""
    if source.padding is None or source.padding.unknown is t.FALSE:
        return
    for node in nodes_of("load", value):
        if isinstance(node.payload, Table):
            continue
        there = substitute(source.padding.unknown, dict(zip(source.padding.indices, node.args, strict=True)))
        if not decider().prove(t.logical_not(there), {}, padding):
            problem = f"the pad value {value} may read padding of {source.name} that has no value"
            raise BoundsError(operation, problem, f"read what {source.name} holds, for example by % of its extent")


def _depends_on_data(value: Term) -> bool:
    """Whether a choice or a divisor of data decides what is read, so that only the data tell what is undefined."""
    for node in postorder(value):
        deciding: Sequence[Term] = ()
        if node.op == "where":
            deciding = node.args[:1]
        elif node.op in ("and", "or", "load") or (node.dtype != INDEX and node.op in _PARTIAL):
            deciding = node.args
        if any(n.op in ("load", "hole") and not isinstance(n.payload, Table) for d in deciding for n in postorder(d)):
            return True
    return False
