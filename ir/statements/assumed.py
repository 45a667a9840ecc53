"""Assumptions that cannot hold: a function whose every run breaks a promise is refused before it is lowered."""

from __future__ import annotations

from collections.abc import Iterator

from eqsat.ir.decide import decider
from eqsat.ir.errors import EvaluationError
from eqsat.ir.ranges.map_bounds import at_least
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Assume, For, If, Stmt, children
from eqsat.ir.terms import term as t
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


def _always(stmt: Stmt) -> Iterator[Stmt]:
    """The statements that run, whatever the arguments are."""
    yield stmt
    if isinstance(stmt, If) or (isinstance(stmt, For) and not at_least(stmt.extent_term, 1)):
        return
    for child in children(stmt):
        yield from _always(child)
