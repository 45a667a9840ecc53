"""Well-formed statements: every buffer is declared before it is used, every axis is bound, types and ranks fit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from keyword import iskeyword

from eqsat.ir.dtypes import BOOL, ELEMENTS, INDEX
from eqsat.ir.errors import BoundsError, ShapeError, TypeMismatch
from eqsat.ir.given import told, truth
from eqsat.ir.ranges.map_bounds import at_least
from eqsat.ir.statements.apart import is_apart, shared_cells
from eqsat.ir.statements.stmt import (
    Alias,
    Alloc,
    Assume,
    BufferDecl,
    For,
    If,
    Stmt,
    Store,
    children,
    stmt_terms,
)
from eqsat.ir.terms.shape import output_axes, same_shape
from eqsat.ir.terms.term import Term, as_index, int_value, product
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import free_variables, postorder

MOST_KNOWN = 1 << 14
_LOOPS = ("serial", "parallel", "vectorized", "unrolled")


def check_function(name: str, params: Sequence[str], buffer_map: Mapping[str, BufferDecl], body: Stmt) -> None:
    """Refuse a function that uses an undeclared buffer, a free axis, or an index or value of the wrong type."""
    what = f"function {name}"
    if len(set(params)) != len(params) or set(params) != set(buffer_map):
        raise ShapeError(
            what, f"parameters {params} are not the declared buffers {tuple(buffer_map)}", "declare each once"
        )
    for key, decl in buffer_map.items():
        _check_decl(what, decl)
        if decl.name != key:
            raise ShapeError(what, f"parameter {key!r} is declared as buffer {decl.name!r}", "use one name")
    scope = _CHECKED.scope(None, *buffer_map.values())
    stack: list[tuple[Stmt, Mapping[str, BufferDecl], frozenset[Term], int]] = [(body, buffer_map, frozenset(), scope)]
    passed: list[tuple[Stmt, frozenset[Term], int]] = []
    while stack:
        stmt, buffers, axes, scope = stack.pop()
        if _CHECKED.has(stmt, axes, scope):
            continue
        passed.append((stmt, axes, scope))
        _check_parts(what, stmt)
        if isinstance(stmt, For):
            if stmt.axis.op not in ("axis", "var") or not stmt.axis.args or stmt.axis in axes:
                raise ShapeError(what, f"{stmt.axis} does not name a new loop", "use an axis with an extent")
            _check_extent(what, stmt)
            axes |= {stmt.axis}
        elif isinstance(stmt, (Alloc, Alias)):
            if stmt.buffer.name in buffers:
                raise ShapeError(what, f"buffer {stmt.buffer.name!r} is declared twice", "rename one")
            _check_decl(what, stmt.buffer)
            if isinstance(stmt, Alias):
                _check_alias(what, stmt, buffers)
            buffers = {**buffers, stmt.buffer.name: stmt.buffer}
            scope = _CHECKED.scope(scope, stmt.buffer)
        elif isinstance(stmt, (If, Assume)):
            vector = stmt.condition.lanes > 1 and isinstance(stmt, If)
            if stmt.condition.dtype != BOOL or vector:
                kind = "a vector" if vector else stmt.condition.dtype
                raise TypeMismatch(what, f"condition {stmt.condition} is {kind}, not bool")
        elif isinstance(stmt, Store):
            _check_access(what, stmt.buffer, stmt.index, stmt.value, buffers)
            if buffers[stmt.buffer].strides is not None:
                _check_apart(what, buffers[stmt.buffer], stmt.buffer in buffer_map)
        for term in stmt_terms(stmt):
            _check_term(what, term, buffers, axes)
        stack.extend((child, buffers, axes, scope) for child in children(stmt))
    _CHECKED.add(passed)


class _Checked:
    """Statements that were found in order, with the loops around them and the buffers that they may use.

    Rewriting makes functions of the same statements again and again. They are told apart by identity, and live as long
    as their ids.
    """

    def __init__(self) -> None:
        self.scopes: dict[tuple[int | None, ...], tuple[int, tuple[BufferDecl, ...]]] = {}
        self.stmts: dict[tuple[int, frozenset[Term], int], Stmt] = {}
        self.numbers = itertools.count()

    def scope(self, outer: int | None, *decls: BufferDecl) -> int:
        """A number for the buffers of an outer one and these."""
        key = (outer, *map(id, decls))
        found = self.scopes.get(key)
        if found is None:
            if len(self.scopes) >= MOST_KNOWN:
                self.scopes.clear()
            found = self.scopes[key] = (next(self.numbers), decls)
        return found[0]

    def has(self, stmt: Stmt, axes: frozenset[Term], scope: int) -> bool:
        """Whether a statement, with all inside of it, was found in order."""
        return (id(stmt), axes, scope) in self.stmts

    def add(self, passed: Sequence[tuple[Stmt, frozenset[Term], int]]) -> None:
        """Remember statements all parts of which are in order."""
        if len(self.stmts) >= MOST_KNOWN:
            self.stmts.clear()
        self.stmts.update(((id(stmt), axes, scope), stmt) for stmt, axes, scope in passed)


_CHECKED = _Checked()


def _check_parts(what: str, stmt: Stmt) -> None:
    """Refuse what is no statement, and what stands in one for a term and is none."""
    if not isinstance(stmt, Stmt):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeMismatch(what, f"{told(stmt)} is no statement")
    for term in (stmt.axis,) if isinstance(stmt, For) else stmt_terms(stmt):
        if not isinstance(term, Term):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeMismatch(what, f"{told(term)} is no term", "eq.axis and eq.symbol make terms")


def _check_extent(what: str, loop: For) -> None:
    extent = loop.extent_term
    for node in postorder(extent):
        if node.op in ("axis", "var", "load", "hole"):
            raise ShapeError(what, f"extent {extent} of {loop.axis} depends on {node}", "loop to a bound, with an if")
    number = int_value(extent)
    if type(loop.reduce) is not bool:
        truth(loop.reduce, f"{what}, reduce={loop.reduce!r} of {loop.axis}")
    if (number is not None and number < 0) or loop.kind not in _LOOPS:
        problem = f"loop over {loop.axis}: extent {extent}, kind {loop.kind!r}"
        raise ShapeError(what, problem, f"one of {', '.join(_LOOPS)}")


def _check_decl(what: str, decl: BufferDecl) -> None:
    if not decl.name.isidentifier() or iskeyword(decl.name):
        raise ShapeError(what, f"a buffer is called {decl.name!r}", "give it a name of letters, digits and _")
    if decl.dtype != INDEX and decl.scalar not in ELEMENTS:
        raise TypeMismatch(what, f"buffer {decl} holds {decl.dtype!r}", f"one of {', '.join(ELEMENTS)}")
    if any(isinstance(n, int) and n < 0 for n in decl.shape):
        raise ShapeError(what, f"buffer {decl} has an extent that is no number of elements", "numbers from 0 on")
    if not decl.is_dense or decl.axis_separators:
        decl.as_buffer()  # which checks strides, offset and separators
    axes = set(output_axes(decl.shape))
    for step in decl.transforms:
        for term in (step.predicate, *(() if step.pad_value is None else (step.pad_value,))):
            stray = next((v for v in free_variables(term) if v not in axes), None)
            if stray is not None:
                raise ShapeError(what, f"padding of {decl} depends on {stray}", "use output_axes of its shape")
        if step.pad_value is not None and step.pad_value.dtype != decl.scalar:
            raise TypeMismatch(what, f"pad value {step.pad_value} of {decl} is {step.pad_value.dtype}")
        if step.pad_value is not None and step.pad_value.lanes != decl.lanes:
            raise TypeMismatch(what, f"pad value {step.pad_value} of {decl} has {step.pad_value.lanes} lanes")


def _check_apart(what: str, decl: BufferDecl, is_parameter: bool) -> None:
    """Refuse what writes to memory of several elements at once; of a parameter's symbols, calls tell."""
    decl = decl.in_one_axis
    apart = is_apart(decl)
    strides = f"strides [{', '.join(map(str, decl.strides or ()))}]"
    if apart is False:
        numbers = [[int(n) for n in part] for part in (decl.strides or (), decl.shape)]
        cells = shared_cells(*numbers) or ()
        both = " and ".join(f"{decl.name}[{', '.join(map(str, cell))}]" for cell in cells)
        raise ShapeError(what, f"{decl.name} is written, and with {strides} {both} are one element", "write to another")
    if apart is None and not is_parameter:
        raise ShapeError(what, f"{decl.name} is written, and {strides} may lead to one element twice", "bound symbols")


def _check_alias(what: str, stmt: Alias, buffers: Mapping[str, BufferDecl]) -> None:
    decl = stmt.buffer
    if stmt.data not in buffers:
        raise ShapeError(what, f"alias {decl} of buffer {stmt.data!r}, which is not declared", "declare it around")
    owner = buffers[stmt.data]
    need = decl.element_bytes * (stmt.offset + product(map(as_index, decl.memory_shape)))
    have = owner.element_bytes * product(map(as_index, owner.memory_shape))
    if stmt.offset < 0 or not at_least(have - need):
        raise BoundsError(what, f"alias {decl} from {stmt.offset} needs {need} bytes, {stmt.data} has {have}")
    if decl.axis_separators or owner.axis_separators:
        same = same_shape(decl.memory_shape, owner.memory_shape) and not stmt.offset
        if not same or decl.dtype != owner.dtype:
            problem = f"alias {decl} of {owner} has other physical axes"
            raise BoundsError(what, problem, "memory of several physical axes has one physical shape and one type")


def _check_term(what: str, term: Term, buffers: Mapping[str, BufferDecl], axes: frozenset[Term]) -> None:
    for node in postorder(term):
        if node.op == "load":
            if not isinstance(node.payload, str):
                raise TypeMismatch(what, f"load of {node.payload!r}, which is not the name of a buffer")
            _check_access(what, node.payload, node.args, node, buffers)
        elif node.op in ("axis", "var") and node not in axes:
            raise ShapeError(what, f"{leaf_name(node)} is used outside of its loop", "move it inside")
        elif any(a.lanes not in (1, node.lanes) or (node.op == "ramp" and a.lanes > 1) for a in node.args):
            raise TypeMismatch(what, f"{node} mixes vectors of {', '.join(str(a.lanes) for a in node.args)} lanes")


def _check_access(what: str, name: str, index: Sequence[Term], value: Term, buffers: Mapping[str, BufferDecl]) -> None:
    """Refuse an access of the wrong rank, type or lanes; `value` is the load, or what is stored."""
    if name not in buffers:
        raise ShapeError(what, f"buffer {name!r} is not declared", "put an Alloc or Alias around")
    decl = buffers[name]
    if len(index) != len(decl.shape):
        raise ShapeError(
            what, f"{name} has {len(decl.shape)} axes, the access has {len(index)} indices", "one per axis"
        )
    if value.dtype != decl.scalar:
        fix = f"write numbers as {decl.scalar}(1), and cast(x, '{decl.scalar}')" if value.dtype == INDEX else ""
        raise TypeMismatch(what, f"{name} holds {decl.dtype}, the access is {value.dtype}", fix)
    for i in index:
        if i.dtype != INDEX:
            raise TypeMismatch(what, f"index {i} of {name} is {i.dtype}")
    vector = next((n for n, i in enumerate(index) if i.lanes > 1), None)
    if vector is not None and vector < len(index) - 1:
        raise TypeMismatch(what, f"index {index[vector]} of {name} is a vector", "only the last index may be one")
    if vector is not None and decl.lanes > 1:
        raise TypeMismatch(what, f"index {index[-1]} of {name} is a vector, and so are its elements")
    lanes = decl.lanes if vector is None else index[-1].lanes
    if value.lanes != lanes:
        problem = f"an access of {name}[{', '.join(map(str, index))}] has {lanes} lanes, {value} has {value.lanes}"
        wide = f"broadcast({value}, {lanes}) has it in each lane"
        raise TypeMismatch(what, problem, wide if value.lanes == 1 else "store as many lanes as the access has")
