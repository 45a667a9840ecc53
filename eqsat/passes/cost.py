"""What a function costs to run: operations and branches that are evaluated, counted over its iterations."""

from __future__ import annotations

from math import prod

import numpy as np

from eqsat.ir.decide import decider
from eqsat.ir.dtypes import NDArray
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Assume, For, If, Stmt, Store, children, stmt_terms
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, postorder, symbols
from eqsat.passes.cells import has_loads

MOST_POINTS = 1 << 18
BRANCH = 1


def cost(func: PrimFunc) -> Term:
    """Operations (loads and stores among them) and branches, as a number or a polynomial in the function's symbols.

    Where the sizes are numbers, iterations are counted under the conditions of their branches, as far as these read no
    memory; where they are symbols, every branch counts as taken.

    >>> from eqsat.ir.statements.stmt import BufferDecl
    >>> n, i = t.sym("N"), t.ax(0, 4)
    >>> zero = t.const(0, "int8")
    >>> print(cost(PrimFunc("f", ("A",), {"A": BufferDecl("A", (4,), "int8")}, For(i, Store("A", (i,), zero)))))
    4
    """
    return _cost(func.body, (), t.TRUE)


def cheaper(a: Term, b: Term) -> bool:
    """Whether a cost is less than another one: for all sizes nowhere more, and somewhere less."""
    return a is not b and bool(decider().prove(a <= b, {}))


def _cost(stmt: Stmt, axes: tuple[Term, ...], condition: Term) -> Term:
    if isinstance(stmt, Assume):
        return t.index_const(0)
    total = t.index_const(0)
    own = sum(operations(term) for term in stmt_terms(stmt)) + isinstance(stmt, Store) + BRANCH * isinstance(stmt, If)
    if own:
        total = count(axes, condition) * own
    for number, child in enumerate(children(stmt)):
        inner, under = axes, condition
        if isinstance(stmt, For):
            inner = (*axes, stmt.axis)
        elif isinstance(stmt, If):
            under = t.logical_and(condition, stmt.condition if number == 0 else t.logical_not(stmt.condition))
        total = total + _cost(child, inner, under)
    return total


def operations(term: Term) -> int:
    """Operations of a term: a sum of n parts is n - 1 of them and one for each factor."""
    total = 0
    for node in postorder(term):
        if node.op == "sum":
            constant, coefficients = node.payload
            total += len(coefficients) - 1 + (constant != 0) + sum(abs(c) != 1 for c in coefficients)
        elif node.op in ("prod", "and", "or"):
            total += len(node.args) - 1
        elif node.op == "load" or (node.args and node.op not in ("axis", "var", "cast", "not")):
            total += 1
    return total


def count(axes: tuple[Term, ...], condition: Term) -> Term:
    """How many iterations there are, as far as can be told."""
    extents = [axis.args[0] for axis in axes]
    numbers = [t.int_value(e) for e in extents]
    sizes = [n for n in numbers if n is not None]
    pure = t.logical_and(*(part for part in conjuncts(condition) if not has_loads(part)))
    if pure is t.TRUE or len(sizes) < len(numbers) or symbols(pure) or prod(sizes) > MOST_POINTS:
        return t.product(extents)
    grid: NDArray = np.indices(sizes) if sizes else np.zeros((0,))
    env = {axis: grid[k] for k, axis in enumerate(axes)}
    ((holds, bad),) = evaluate_masked([pure], env)
    good = np.broadcast_to(holds if bad is None else np.logical_and(holds, np.logical_not(bad)), sizes)
    return t.index_const(int(np.count_nonzero(good)))
