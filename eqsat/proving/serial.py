"""Deciding claims about sums and bit operations of integers of any size by an automaton that reads their bits.

Integers are streams of bits, the least first, that end in their sign for ever. A sum is made bit by bit with a carry,
and its carries are few; so the states of a claim (all carries, and which equations have held so far) are finitely many,
and the claim holds for all integers if no state that can be reached, ended in any signs, violates it. What has no bit
by bit meaning (quotients, minima, choices) becomes a variable of its own with a fact that defines it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.ir import clock
from eqsat.ir.dtypes import BOOL, INDEX, NDArray
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts, postorder, transform
from eqsat.proving.points import UNKNOWN, Answer
from eqsat.proving.question import Question

MOST_VARIABLES = 7
MOST_STEPS = 1 << 20  # of all states with all inputs
LARGEST = 1 << 40
MOST_WEIGHT = 1 << 16  # of the coefficients of a sum, which bounds its carries
_BITWISE: dict[str, Any] = {"bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}


class _Outside(Exception):
    """A term that is not made of sums and bit operations."""


class _Lowering:
    """The question over variables, sums, bit operations and comparisons only."""

    def __init__(self) -> None:
        self.made: list[Term] = []
        self.facts: list[Term] = []

    def fresh(self) -> Term:
        v = t.make("var", (), f"serial{len(self.made)}")
        self.made.append(v)
        return v

    def change(self, node: Term) -> Term | None:
        op, args = node.op, node.args
        if op == "where" and node.dtype == BOOL:
            return t.logical_or(t.logical_and(args[0], args[1]), t.logical_and(t.logical_not(args[0]), args[2]))
        if node.dtype != INDEX or op in ("const", "var", "sum", "bitand", "bitor", "bitxor"):
            return None
        if op == "where":
            return self.chosen(args[0], args[1], args[2])
        if op in ("min", "max"):
            return self.chosen(t.compare("lt", *args), *(args if op == "min" else args[::-1]))
        if op == "abs":
            return self.chosen(args[0] < 0, -args[0], args[0])
        number = t.int_value(args[1]) if len(args) == 2 else None
        if number is None or number < 0:
            raise _Outside
        if op == "shl" and number < 40:
            return args[0] * (1 << number)
        if op == "shr" and number < 40:
            op, number = "floordiv", 1 << number
        if op not in ("floordiv", "mod") or not number:
            raise _Outside
        quotient, rest = self.fresh(), self.fresh()
        self.facts += [t.compare("eq", args[0], quotient * number + rest), rest >= 0, rest < number]
        return quotient if op == "floordiv" else rest

    def chosen(self, condition: Term, yes: Term, no: Term) -> Term:
        v = self.fresh()
        first, second = t.compare("eq", v, yes), t.compare("eq", v, no)
        other = t.logical_not(condition)
        self.facts.append(t.logical_or(t.logical_and(condition, first), t.logical_and(other, second)))
        return v


@dataclass(frozen=True)
class _Machine:
    """The automaton of a question: the order of its terms, and the places of carries and flags in a state."""

    variables: tuple[Term, ...]
    order: tuple[Term, ...]
    carries: dict[Term, int]
    flags: dict[Term, int]
    initial: NDArray

    def step(self, states: NDArray, inputs: NDArray) -> tuple[NDArray, dict[Term, NDArray]]:
        """The states after one bit of each variable, and that bit of every term."""
        bits: dict[Term, NDArray] = {v: inputs[:, k] for k, v in enumerate(self.variables)}
        after = states.copy()
        for node in self.order:
            if node in self.carries:
                k = self.carries[node]
                total = states[:, k]
                if node.op == "sum":
                    for c, a in zip(node.payload[1], node.args, strict=True):
                        total = total + c * bits[a]
                bits[node] = total & 1
                after[:, k] = total >> 1
            elif node.op in _BITWISE:
                bits[node] = _BITWISE[node.op](bits[node.args[0]], bits[node.args[1]])
            elif node in self.flags:
                after[:, self.flags[node]] &= bits[node.args[0]] == bits[node.args[1]]
        return after, bits

    def ended(self, states: NDArray, inputs: NDArray, predicate: Term) -> NDArray:
        """Whether the predicate holds where the inputs stay as they are for ever."""
        while True:
            clock.check()
            after, bits = self.step(states, inputs)
            if np.array_equal(after, states):
                break
            states = after
        truth: dict[Term, NDArray] = {}
        for node in postorder(predicate):
            below = [truth[a] for a in node.args] if node.op in ("and", "or", "not") else []
            if node in self.flags:
                held = states[:, self.flags[node]] == 1
                truth[node] = held if node.op == "eq" else ~held
            elif node.op in ("lt", "le"):
                sign = bits[_difference(node)] == 1
                truth[node] = sign if node.op == "lt" else ~sign
            elif node.op == "and":
                truth[node] = np.logical_and.reduce(below)
            elif node.op == "or":
                truth[node] = np.logical_or.reduce(below)
            elif node.op == "not":
                truth[node] = ~below[0]
            elif node.op == "const" and node.dtype == BOOL:
                truth[node] = np.full(len(states), bool(node.payload))
        return truth[predicate]


def _difference(node: Term) -> Term:
    """The term that is negative where a < b; for a <= b the one that is negative where it does not hold."""
    a, b = node.args
    return t.linear(0, [(1, a), (-1, b)]) if node.op == "lt" else t.linear(0, [(1, b), (-1, a)])


def _machine(variables: tuple[Term, ...], roots: Sequence[Term]) -> _Machine:
    given = set(variables)
    order: dict[Term, None] = {}
    for root in list(postorder(*roots)):
        if root.op in ("lt", "le") and root.args[0].dtype == INDEX:
            order.update(dict.fromkeys(postorder(_difference(root))))
        order[root] = None
    carries: dict[Term, int] = {}
    flags: dict[Term, int] = {}
    initial: list[int] = []
    for node in order:
        if node in given or node.op in ("and", "or", "not", *_BITWISE):
            continue
        if node.op in ("const", "sum") and node.dtype == INDEX:
            start = node.payload if node.op == "const" else node.payload[0]
            weight = 0 if node.op == "const" else sum(abs(c) for c in node.payload[1])
            if abs(start) > LARGEST or weight > MOST_WEIGHT:
                raise _Outside
            carries[node] = len(initial)
            initial.append(start)
        elif node.op in ("eq", "ne") and node.args[0].dtype == INDEX:
            flags[node] = len(initial)
            initial.append(1)
        elif node.op not in ("lt", "le") and not (node.op == "const" and node.dtype == BOOL):
            raise _Outside
    return _Machine(variables, tuple(order), carries, flags, np.array([initial], np.int64))


def _lowered(question: Question) -> tuple[tuple[Term, ...], list[Term], Term]:
    """Variables, facts and goal without what has no meaning bit by bit."""
    lowering = _Lowering()
    facts: list[Term] = []
    for v in question.variables:
        if v.leaf.dtype != INDEX:
            raise _Outside
        facts += [] if v.start is None else [t.index_const(v.start) <= v.leaf]
        facts += [] if v.stop is None else [v.leaf < v.stop]
        if v.multiple_of != 1:
            facts.append(t.compare("eq", lowering.fresh() * v.multiple_of, v.leaf))
    memo: dict[Term, Term] = {}
    goal, *more = (transform(root, lowering.change, memo) for root in (question.goal, *question.facts))
    whole = [part for fact in (*facts, *more, *lowering.facts) for part in conjuncts(fact)]
    return (*(v.leaf for v in question.variables), *lowering.made), whole, goal


def serial_claim(question: Question) -> Answer:
    """Decide a claim about bit operations and sums, for integers of any size.

    >>> from eqsat.ir.terms.text import parse_expr
    >>> from eqsat.proving.question import claim
    >>> serial_claim(claim(parse_expr("(x ^ y) + 2*(x & y) == x + y"), {}).question).verdict
    'proved'
    >>> serial_claim(claim(parse_expr("(x | y) == x + y"), {}).question).witness
    (-1, -1)
    """
    nodes = list(postorder(*question.roots))
    if len(nodes) > 200 or not any(n.op in _BITWISE and n.dtype == INDEX for n in nodes):
        return UNKNOWN
    try:
        variables, facts, goal = _lowered(question)
        if len(variables) > MOST_VARIABLES:
            return UNKNOWN
        bad = t.logical_and(*facts, t.logical_not(goal))  # may spell a comparison the other way round
        machine = _machine(variables, [*facts, bad])
    except _Outside:
        return UNKNOWN
    needed = [machine.flags[f] for f in facts if f.op == "eq" and f in machine.flags]
    return _explored(machine, bad, needed, len(question.variables))


def _explored(machine: _Machine, bad: Term, needed: Sequence[int], own: int) -> Answer:
    """Breadth first over the states, so that a counterexample has as few bits as possible."""
    inputs = np.array(list(itertools.product((0, 1), repeat=len(machine.variables))), np.int64)
    inputs = inputs[np.argsort(inputs.sum(axis=1), kind="stable")]
    layers: list[tuple[NDArray, NDArray]] = []  # for every state: its parent, and what was read
    states = machine.initial
    seen = {states.tobytes()}
    spent = 0
    while len(states):
        clock.check()
        spent += len(states) * len(inputs)
        if spent > MOST_STEPS:
            return UNKNOWN
        parent: NDArray = np.repeat(np.arange(len(states)), len(inputs))
        read: NDArray = np.tile(np.arange(len(inputs)), len(states))
        before, bits = states[parent], inputs[read]
        violated = np.flatnonzero(machine.ended(before, bits, bad))
        if violated.size:
            at = int(violated[0])
            signs, state = inputs[read[at]], int(parent[at])
            return Answer("refuted", "bits in series", _integers(layers, inputs, signs, state)[:own])
        after, _ = machine.step(before, bits)
        kept = np.flatnonzero(np.all(after[:, list(needed)] == 1, axis=1)) if needed else np.arange(len(after))
        fresh: list[int] = []
        for k in kept.tolist():
            key = after[k].tobytes()
            if key not in seen:
                seen.add(key)
                fresh.append(k)
        layers.append((parent[fresh], read[fresh]))
        states = after[fresh]
    return Answer("proved", "bits in series", note=f"{len(seen)} states")


def _integers(
    layers: Sequence[tuple[NDArray, NDArray]], inputs: NDArray, signs: NDArray, state: int
) -> tuple[int, ...]:
    """The integers with these signs whose bits lead to a state."""
    values = [-int(b) for b in signs]
    for parents, reads in reversed(layers):
        values = [2 * v + int(b) for v, b in zip(values, inputs[reads[state]], strict=True)]
        state = int(parents[state])
    return tuple(values)
