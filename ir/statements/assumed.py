"""What is refused before a function is lowered: promises that every run breaks, and places that depend on a hole."""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.ir.decide import decider
from eqsat.ir.errors import EvaluationError
from eqsat.ir.ranges.map_bounds import at_least
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Assume, For, If, Stmt, Store, children, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, int_value
from eqsat.ir.terms.walk import nodes_of


def check_assumptions(func: PrimFunc) -> None:
    """Refuse a function that always comes to an assumption which is false in all iterations, as quick rules see it.

    One that reads memory, or stands under a branch, may hold whenever the function is called.

    >>> check_assumptions(PrimFunc.parse("func f(x: int8[4])\\n  for i in 4:\\n    assume i > 4\\n    x[i] = -x[i]"))
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.EvaluationError: function f: assume 4 < i can never hold (remove or correct it)
    """
    for stmt in _always(func.body):
        if isinstance(stmt, Assume) and not nodes_of("load", stmt.condition):
            (found,) = decider().simplify([stmt.condition], {})
            if found is t.FALSE:
                problem = f"assume {stmt.condition} can never hold"
                raise EvaluationError(f"function {func.name}", problem, "remove or correct it")


def check_holes(func: PrimFunc) -> None:
    """Refuse a function in which an index or a branch depends on a hole: which cell, or which statements, nobody says.

    A value may depend on one: then the cell that is stored to holds nothing in particular.

    >>> check_holes(PrimFunc.parse("func f(x: int8[4])\\n  x[cast(hole(1, 'int8'), 'index') % 4] = int8(0)"))
    Traceback (most recent call last):
        ...
    eqsat.ir.errors.EvaluationError: function f: index cast(hole(1, 'int8'), 'index') % 4 of x depends on a hole, ...
    """
    stack = [func.body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, For) and int_value(stmt.extent_term) == 0:
            continue
        stack.extend(children(stmt))
        if isinstance(stmt, If):
            _require_known(func, f"condition {stmt.condition}", stmt.condition)
        if isinstance(stmt, Store):
            for index in stmt.index:
                _require_known(func, f"index {index} of {stmt.buffer}", index)
        for load in nodes_of("load", *stmt_terms(stmt)):
            for index in load.args:
                _require_known(func, f"index {index} of {load.payload}", index)


def _require_known(func: PrimFunc, what: str, term: Term) -> None:
    if nodes_of("hole", term):
        problem = f"{what} depends on a hole, which has no value"
        raise EvaluationError(f"function {func.name}", problem, "store a value there, or fill it (choose_padding)")


def _always(stmt: Stmt) -> Iterator[Stmt]:
    """The statements that run, whatever the arguments are."""
    yield stmt
    if isinstance(stmt, If) or (isinstance(stmt, For) and not at_least(stmt.extent_term, 1)):
        return
    for child in children(stmt):
        yield from _always(child)
