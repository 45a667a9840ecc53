"""Machine integers as mathematical ones, where no value leaves its type: what holds of indices is then true of them.

Each cell and each other machine integer that is not computed by what is known of indices stands as a variable over the
range of its type, narrowed by what is assumed. An operation whose interval fits its type is the index operation; one
that may wrap stays as it is, between casts. The way back is by the same intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np

from eqsat.index_graph.cost import cost
from eqsat.ir.dtypes import INDEX, is_int
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, postorder
from eqsat.proving.question import Box

Simplify = Callable[[Term, Box, Term | None], Term]
_DIVISIONS = {"floordiv", "mod", "truncdiv", "truncmod"}
_BINARY = {*_DIVISIONS, "min", "max", "bitand", "bitor", "bitxor"}
_RING = {"add": t.add, "sub": t.sub, "mul": t.mul}
_OPERATIONS = {*_BINARY, *_RING, "neg", "abs", "where"}
_PASSES = 2  # what one assumption says of a cell may be needed to read another one


def by_machine_integers(term: Term, box: Box, assuming: Term | None, simplify: Simplify) -> Term:
    """The term as it is simplified over indices, where that costs less; the term itself, where it has no such part.

    >>> from eqsat.simplifying.simplify import simplify_term
    >>> n = t.load("n", (), "int32")
    >>> print(simplify_term(n // t.const(8, "int32"), {}, t.logical_and(t.const(0, "int32") <= n, n < 8)))
    int32(0)
    """
    if not _may_help(term, assuming is not None):
        return term
    lift = _Lift(box)
    known = lift.assumption(assuming)
    wide = lift.same_type(term)
    if not lift.lifted:
        return term
    found = simplify(wide, lift.box(), known)
    back = _Back(lift).same_type(found)
    return back if cost(back) < cost(term) else term


def _may_help(term: Term, facts: bool) -> bool:
    """Whether something is computed of machine integers, that is not unknown (a hole) and no vector. Without facts,
    what is no quotient and no comparison is left to the rules of data."""
    some = False
    for node in postorder(term):
        if node.op == "hole" or node.lanes > 1:
            return False
        some = some or (_is_computed(node) and (facts or node.op in _DIVISIONS or _asks(node)))
    return some


def _is_computed(node: Term) -> bool:
    """Whether a node computes or compares machine integers."""
    return (is_int(node.dtype) and node.op in _OPERATIONS) or any(is_int(a.dtype) for a in node.args if _asks(node))


def _asks(node: Term) -> bool:
    return node.op in t.COMPARE or (node.op == "cast" and node.dtype == INDEX)


def _range(dtype: str) -> tuple[int, int]:
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


class _Lift:
    """Terms over indices for terms over machine integers; `lifted` tells whether any operation became another."""

    def __init__(self, box: Box) -> None:
        self.given = box
        self.atoms: dict[Term, Term] = {}
        self.names: dict[Term, Term] = {}
        self.lifted = False
        self.bounds = Bounds({x: _ends(r) for x, r in box.items()})
        self._same: dict[Term, Term] = {}
        self._values: dict[Term, Term] = {}

    def assumption(self, assuming: Term | None) -> Term | None:
        """What is assumed, over indices as far as it can be said so, and used for the intervals."""
        if assuming is None:
            return None
        parts = conjuncts(assuming)
        known: list[Term] = []
        for _ in range(_PASSES):
            known = [self.same_type(part) for part in parts]
            self.bounds = self._ranged().under(t.logical_and(*known))
            self._same, self._values = {}, {}
        return t.logical_and(*known)

    def box(self) -> Box:
        """The box that was given, with the ranges of the variables as far as they are known."""
        found = dict(self.given)
        for name in self.atoms:
            low, high = self.bounds.of(name)
            found[name] = (low, None if high is None else high + 1)
        return found

    def fits(self, value: Term, dtype: str) -> bool:
        """Whether every value of an index is one of a type."""
        low, high = self.bounds.of(value)
        least, most = _range(dtype)
        return low is not None and high is not None and least <= low and high <= most

    def _ranged(self) -> Bounds:
        ranges: dict[Term, Any] = {x: _ends(r) for x, r in self.given.items()}
        for name, atom in self.atoms.items():
            low, high = _range(atom.dtype)
            ranges[name] = (low, high + 1)
        return Bounds(ranges)

    def same_type(self, term: Term) -> Term:
        """The term, where what it reads of machine integers is said of indices."""
        found = self._same.get(term)
        if found is None:
            found = self._same[term] = self._of_type(term)
        return found

    def _of_type(self, term: Term) -> Term:
        if is_int(term.dtype):
            return t.cast_to(self.value(term), term.dtype)
        if _is_computed(term):  # a comparison, or a cast to an index
            self.lifted = self.lifted or term.op in t.COMPARE
            values = [self.value(a) for a in term.args]
            return values[0] if term.op == "cast" else t.compare(term.op, *values)
        return t.rebuild(term, [self.same_type(a) for a in term.args]) if term.args and term.op != "load" else term

    def value(self, term: Term) -> Term:
        """The index that a machine integer is."""
        found = self._values.get(term)
        if found is None:
            found = self._value(term)
            if not self.fits(found, term.dtype):
                found = self._kept(term)
            elif term.op in _OPERATIONS:
                self.lifted = True
            self._values[term] = found
        return found

    def _value(self, term: Term) -> Term:
        op, args = term.op, term.args
        if op == "const":
            return t.index_const(int(t.const_value(term)))
        if op == "cast" and (args[0].dtype == INDEX or is_int(args[0].dtype)):
            return self.same_type(args[0]) if args[0].dtype == INDEX else self.value(args[0])
        if op == "where":
            return t.where(self.same_type(args[0]), self.value(args[1]), self.value(args[2]))
        if op in _RING:
            return _RING[op](self.value(args[0]), self.value(args[1]))
        if op in _BINARY:
            return t.binary(op, self.value(args[0]), self.value(args[1]))
        return t.unary(op, self.value(args[0])) if op in ("neg", "abs") else self._kept(term)

    def _kept(self, term: Term) -> Term:
        """A machine integer that is computed as before: a variable, or a cast of the operation over its operands."""
        if term.args and term.op != "load":
            return t.cast_to(t.rebuild(term, [self.same_type(a) for a in term.args]), INDEX)
        if term not in self.names:
            name = t.make("var", (), f"{term.dtype}#{len(self.names)}")  # which no user can name
            self.names[term], self.atoms[name] = name, term
            low, high = _range(term.dtype)
            self.bounds = Bounds({**self.bounds.half_open(), name: (low, high + 1)})
        return self.names[term]


def _ends(side: tuple[int | None, int | None]) -> tuple[int | float, int | float]:
    start, stop = side
    return (-math.inf if start is None else start, math.inf if stop is None else stop)


class _Back:
    """Terms over machine integers for terms over indices, by the intervals of a lift."""

    def __init__(self, lift: _Lift) -> None:
        self.lift = lift
        self.casts: Mapping[Term, Term] = {name: t.cast_to(atom, INDEX) for name, atom in lift.atoms.items()}
        self._same: dict[Term, Term] = {}

    def same_type(self, term: Term) -> Term:
        """An equal term of the same type that has none of the variables."""
        found = self._same.get(term)
        if found is None:
            found = self._same[term] = self._of_type(term)
        return found

    def _of_type(self, term: Term) -> Term:
        if term in self.casts:
            return self.casts[term]
        if term.op == "cast" and is_int(term.dtype) and term.args[0].dtype == INDEX:
            found = self.machine(term.args[0], term.dtype)
            return t.cast_to(self.same_type(term.args[0]), term.dtype) if found is None else found
        if term.op in t.COMPARE and term.args[0].dtype == INDEX:
            for dtype in self._dtypes(term):
                a, b = (self.machine(x, dtype) for x in term.args)
                if a is not None and b is not None:
                    return t.compare(term.op, a, b)
        return t.rebuild(term, [self.same_type(a) for a in term.args]) if term.args and term.op != "load" else term

    def _dtypes(self, term: Term) -> list[str]:
        """The types of the machine integers in a term."""
        nodes = list(postorder(term))
        of_atoms = [self.lift.atoms[n].dtype for n in nodes if n in self.lift.atoms]
        casts = [n.args[0].dtype for n in nodes if n.op == "cast" and n.dtype == INDEX and is_int(n.args[0].dtype)]
        return list(dict.fromkeys([*of_atoms, *casts]))

    def machine(self, value: Term, dtype: str) -> Term | None:
        """The machine integer that an index is; None where its type may not hold it, or an operand of it."""
        if not self.lift.fits(value, dtype):
            return None
        op = value.op
        if op == "const":
            return t.const(int(value.payload), dtype)
        if value in self.lift.atoms:
            return t.cast_to(self.lift.atoms[value], dtype)
        if op == "cast" and is_int(value.args[0].dtype):
            return t.cast_to(self.same_type(value.args[0]), dtype)
        if not self._dtypes(value):
            return t.cast_to(self.same_type(value), dtype)
        if op == "sum":
            return self._sum(value, dtype)
        if op == "where":
            taken = self._all(value.args[1:], dtype)
            return None if taken is None else t.where(self.same_type(value.args[0]), taken[0], taken[1])
        if op != "prod" and op != "abs" and op not in _BINARY:
            return None
        args = self._all(value.args, dtype)
        if args is None:
            return None
        if op == "prod":
            return reduce(t.mul, args)
        return t.unary(op, args[0]) if op == "abs" else t.binary(op, args[0], args[1])

    def _all(self, values: Sequence[Term], dtype: str) -> list[Term] | None:
        found = [self.machine(value, dtype) for value in values]
        return None if any(x is None for x in found) else [x for x in found if x is not None]

    def _sum(self, value: Term, dtype: str) -> Term | None:
        """A sum: wrapping on the way changes nothing, where each summand and the whole fit."""
        constant, items = t.linear_parts(value)
        found: Term | None = None
        for factor, item in sorted(items, key=lambda pair: pair[0] < 0):
            part = self.machine(item, dtype)
            if part is None or not _holds(dtype, abs(factor)):
                return None
            part = part if abs(factor) == 1 else t.mul(part, t.const(abs(factor), dtype))
            if found is None:
                found = part if factor > 0 else t.neg(part)
            else:
                found = t.add(found, part) if factor > 0 else t.sub(found, part)
        if constant and found is not None:
            if not _holds(dtype, abs(constant)):
                return None
            join = t.add if constant > 0 else t.sub
            return join(found, t.const(abs(constant), dtype))
        return found


def _holds(dtype: str, number: int) -> bool:
    low, high = _range(dtype)
    return low <= number <= high
