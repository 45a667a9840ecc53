"""Functions in which one name stands for several buffers, or several loops, in different places."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.rewrite import with_children, with_terms
from eqsat.ir.statements.ssa import renamed
from eqsat.ir.statements.stmt import Alias, Alloc, For, Stmt, Store, children
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import renumber_loads, substitute


def with_names_again(func: PrimFunc) -> PrimFunc:
    """The function whose local buffers have the fewest names: one that is out of sight is taken again."""

    def stmt(old: Stmt, names: Mapping[str, str]) -> Stmt:
        if isinstance(old, (Alloc, Alias)):
            taken = {*func.params, *names.values()}
            name = next(n for n in (f"v{k}" for k in range(99)) if n not in taken)
            body = stmt(old.body, {**names, old.buffer.name: name})
            decl = renamed(old.buffer, name)
            if isinstance(old, Alloc):
                return Alloc(decl, body)
            return Alias(decl, names.get(old.data, old.data), body, old.offset)
        new = with_terms(old, lambda term: renumber_loads(term, names))
        if isinstance(new, Store):
            return replace(new, buffer=names.get(new.buffer, new.buffer))
        return with_children(new, [stmt(part, names) for part in children(new)])

    return replace(func, body=stmt(func.body, {}))


def with_loops_again(func: PrimFunc, rng: Random) -> PrimFunc:
    """The function where about half of the loops take the first name that no loop around them has, whatever their
    neighbours are called."""

    def stmt(old: Stmt, axes: Mapping[Term, Term], around: Sequence[str]) -> Stmt:
        if isinstance(old, For):
            axis = old.axis
            if axis.op == "var" and (rng.random() < 0.5 or leaf_name(axis) in around):
                axis = t.var(next(n for n in (f"k{n}" for n in range(99)) if n not in around), axis.args[0])
            inner = (*around, leaf_name(axis))
            return replace(old, axis=axis, body=stmt(old.body, {**axes, old.axis: axis}, inner))
        moved = with_terms(old, lambda term: substitute(term, axes))
        return with_children(moved, [stmt(part, axes, around) for part in children(moved)])

    return replace(func, body=stmt(func.body, {}, ()))
