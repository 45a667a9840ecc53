"""Facts about memory: what is said of cells for all values of a fact's own axes under a condition.

`for c: if 14 <= c: A[c] == 0` is used by solving its index for the cell that is asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import ELEMENTS, is_float
from eqsat.ir.terms import term as t
from eqsat.ir.terms.leaves import MARK
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.passes.cells import differ, has_loads, loads, solve
from eqsat.proving.question import same

MOST_ALTERNATIVES = 8
"""A selection from more values is followed so far only."""
_HERE = {dtype: t.load("here#", (), dtype) for dtype in ELEMENTS}


@dataclass(frozen=True, eq=False)
class Fact:
    """For all values of the axes under the condition (which reads no memory), the claim holds."""

    axes: tuple[Term, ...]
    condition: Term
    claim: Term

    @cached_property
    def key(self) -> tuple[int, ...]:
        """What tells it from other facts."""
        return (*(a.serial for a in self.axes), -1, self.condition.serial, self.claim.serial)

    @cached_property
    def cells(self) -> tuple[Term, ...]:
        """The loads that the claim is about."""
        return tuple(loads(self.claim))

    @cached_property
    def named(self) -> tuple[tuple[str, tuple[Term, ...]], ...]:
        """The buffers and indices of these loads."""
        return tuple((str(load.payload), load.args) for load in self.cells)

    @cached_property
    def buffers(self) -> frozenset[str]:
        """The buffers that the claim is about."""
        return frozenset(str(load.payload) for load in self.cells)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fact) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        text = str(self.claim) if self.condition is t.TRUE else f"{self.claim} where {self.condition}"
        return text if not self.axes else f"for all {', '.join(map(str, self.axes))}: {text}"

    def about(self, load: Term) -> list[tuple[Term, Term]]:
        """The claim about one cell, and the condition under which it is said, where that may hold."""
        if load.payload not in self.buffers:
            return []
        if load not in self._about:
            self._about[load] = self._found(load)
        return self._about[load]

    @cached_property
    def _about(self) -> dict[Term, list[tuple[Term, Term]]]:
        """What was found of cells before: they are asked about again and again."""
        return {}

    def _found(self, load: Term) -> list[tuple[Term, Term]]:
        found: list[tuple[Term, Term]] = []
        for own in self.cells:
            if own.payload != load.payload or differ(own.args, load.args):
                continue
            solved = solve(own.args, self.axes, load.args)
            if solved is None:
                continue
            table = solved.values
            inside: list[Term] = []
            for axis in self.axes:
                inside += [t.index_const(0) <= table[axis], table[axis] < substitute(axis.args[0], table)]
            meet = [t.compare("eq", substitute(i, table), j) for i, j in zip(own.args, load.args, strict=True)]
            where = t.logical_and(*inside, *meet, substitute(self.condition, table))
            said = substitute(substitute(self.claim, {own: _HERE[own.dtype]}), table)
            found.append((where, substitute(said, {_HERE[own.dtype]: load})))
        return found


def no_negative_zero(value: Term) -> Term:
    """The predicate that a float is not -0.0: then adding 0.0 changes no bit of it."""
    zero, one = t.const(0.0, value.dtype), t.const(1.0, value.dtype)
    return t.logical_or(t.compare("ne", value, zero), t.compare("lt", zero, one / value))


def never_negative_zero(value: Term, known: Callable[[Term], bool]) -> bool:
    """Whether a float is shown not to be -0.0: rounding makes a sum -0.0 only of two -0.0.

    `known` answers for loads. (Z3 decides this for no sum within a reasonable budget.)
    """
    op, args = value.op, value.args
    if op == "const":
        return not (float(t.const_value(value)) == 0.0 and np.signbit(t.const_value(value)))
    if op == "load":
        return known(value)
    if op == "add":
        return any(never_negative_zero(a, known) for a in args)
    if op == "sub":
        return never_negative_zero(args[0], known)
    if op in ("min", "max", "where"):
        return all(never_negative_zero(a, known) for a in (args[1:] if op == "where" else args))
    if op == "cast":
        return not is_float(args[0].dtype)
    return op in ("abs", "exp") or (op == "mul" and args[0] is args[1])


def fact_of(claim: Term) -> Fact:
    """A claim about memory as a fact: what it says of axes alone becomes its condition."""
    if claim.op == "or":
        pure = [part for part in claim.args if not has_loads(part)]
        rest = [part for part in claim.args if has_loads(part)]
        if pure and rest:
            return Fact((), t.logical_and(*map(t.logical_not, pure)), t.logical_or(*rest))
    return Fact((), t.TRUE, claim)


def over(fact: Fact, axis: Term) -> Fact:
    """The fact for every value of an axis of its surroundings.

    The axes of facts are called by their order, so that what is found twice is one fact: they stand for all values, and
    mean nothing outside of it.
    """
    table: dict[Term, Term] = {}
    for k, old in enumerate((axis, *fact.axes)):
        table[old] = t.make("var", (substitute(old.args[0], table),), f"c{k}{MARK}{len(fact.axes) + 1}")
    return Fact(tuple(table.values()), substitute(fact.condition, table), substitute(fact.claim, table))


def is_same(buffer: str, index: Sequence[Term], value: Term) -> Term:
    """The claim that a cell holds a value, bit by bit."""
    return same(t.load(buffer, index, value.dtype), value)


def excludes_negative_zero(load: Term, claim: Term, wanted: Term) -> bool:
    if claim is wanted:
        return True
    if claim.op != "same" or all(load is not a for a in claim.args):
        return False
    return never_negative_zero(claim.args[1] if claim.args[0] is load else claim.args[0], lambda _: False)


def alternatives(value: Term) -> list[tuple[Term, Term]]:
    """The values that a selection by conditions without memory chooses from, each with where it is that one.

    >>> i, x = t.ax(0, 16), t.load("x", [t.ax(0, 16)], "int8")
    >>> alternatives(t.where(i < 14, x, t.const(0, "int8")))
    [(i0 < 14, x[i0]), (14 <= i0, int8(0))]
    """
    found = [(t.TRUE, value)]
    while len(found) < MOST_ALTERNATIVES:
        at = next((k for k, (_, x) in enumerate(found) if x.op == "where" and not has_loads(x.args[0])), None)
        if at is None:
            break
        where, (test, yes, no) = found[at][0], found[at][1].args
        found[at : at + 1] = [(t.logical_and(where, test), yes), (t.logical_and(where, t.logical_not(test)), no)]
    return found


def is_exact(claim: Term) -> bool:
    return claim.op == "eq" and not is_float(claim.args[0].dtype)


def copies_of(load: Term, claim: Term) -> list[Term]:
    """What a claim says to have the same bits as a cell."""
    if claim.op != "same" and not is_exact(claim):
        return []
    a, b = claim.args
    return [b] if a is load else [a] if b is load else []


def values_of(load: Term, claim: Term) -> list[Term]:
    if claim.op not in ("same", "eq") or all(load is not a for a in claim.args):
        return []
    value = claim.args[1] if claim.args[0] is load else claim.args[0]
    if has_loads(value) or value.op == "hole":
        return []
    if claim.op == "same" or not is_float(value.dtype):
        return [value]
    if value.op != "const":
        return []
    number = float(t.const_value(value))
    if number != 0.0:
        return [value] if number == number else []
    return [t.const(0.0, value.dtype), t.const(-0.0, value.dtype)]
