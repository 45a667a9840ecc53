"""The state of one attempt to match, and the conditions that are checked at its end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.rewriting.coefficient import Coefficient
from eqsat.rewriting.match_sums import Bounds, Interval, holds

Monomial = tuple[int, tuple[int, ...]]  # a number times constant variables, by slot
Rest = Callable[[Term], Term]
UNBOUND: Any = None


@dataclass(frozen=True)
class Found:
    """A match: what each parameter is, and how the whole term is rebuilt around the new part."""

    table: dict[Term, Term]
    rest: Rest

    def build(self, right: Term) -> Term:
        """The whole term, with `right` (over the bound parameters) in place of the part that matched."""
        return self.rest(substitute(right, self.table))


class State:
    """The bindings of one attempt; `trail` tells what to undo."""

    __slots__ = ("bounds", "memo", "pending", "rest", "trail", "values")

    def __init__(self, size: int, bounds: Bounds, memo: dict[Any, Any]) -> None:
        self.values: list[Any] = [UNBOUND] * size
        self.pending: tuple[tuple[Monomial, Coefficient], ...] = ()
        self.trail: list[int] = []
        self.bounds = bounds
        self.memo = memo
        self.rest: Rest = _whole


def _whole(new: Term) -> Term:
    return new


Go = Callable[[State], "Found | None"]
Step = Callable[[State, Term, Go], "Found | None"]


def bind(slot: int, state: State, value: Any, go: Go) -> Found | None:
    """Go on with the value of a variable, if it has none or this one."""
    known = state.values[slot]
    if known is not UNBOUND:
        return go(state) if known is value else None
    state.values[slot] = value
    result = go(state)
    if result is None:
        state.values[slot] = UNBOUND
    return result


def in_order(steps: Sequence[Step]) -> Callable[[State, Sequence[Term], Go], Found | None]:
    """Match terms one after the other."""
    if len(steps) == 1:
        only = steps[0]
        return lambda state, args, go: only(state, args[0], go)
    if len(steps) == 2:
        first, second = steps
        return lambda state, args, go: first(state, args[0], lambda s2: second(s2, args[1], go))
    first, rest = steps[0], in_order(steps[1:])
    return lambda state, args, go: first(state, args[0], lambda s2: rest(s2, args[1:], go))


def compile_condition(
    condition: Term,
    slots: dict[Term, int],
    monomial: Callable[[Term], Monomial | None],
    term: Callable[[Term, State], Term],
) -> Callable[[State], bool]:
    """Whether a side condition is known to hold, from the bounds of what is bound.

    `monomial` reads a product of constants; `term` puts the bindings into a term.
    """
    if condition.op not in t.COMPARE or condition.args[0].dtype != INDEX:
        return lambda state: state.bounds(term(condition, state)) == (1, 1)
    p, q = condition.args
    op = condition.op
    difference = q - p
    constant, items = t.linear_parts(difference)
    fixed = [(c, m) for c, x in items if (m := monomial(x)) is not None]
    loose = [(c, slots[x]) for c, x in items if x in slots and monomial(x) is None]
    quick = len(fixed) + len(loose) == len(items) and len(loose) <= 1

    def check(state: State) -> bool:
        interval = shortcut(state) if quick else None
        return holds(op, *(interval or whole(state)))

    def whole(state: State) -> Interval:
        value = term(difference, state)
        return (value.payload, value.payload) if value.op == "const" else state.bounds(value)

    def shortcut(state: State) -> Interval | None:
        """The interval of a difference with at most one variable that is not a number."""
        total = constant
        for c, (number, places) in fixed:
            share = c * number
            for slot in places:
                value = state.values[slot]
                if not isinstance(value, int):
                    return None
                share *= value
            total += share
        if not loose:
            return total, total
        c, slot = loose[0]
        value = state.values[slot]
        low, high = (value.payload,) * 2 if value.op == "const" else state.bounds(value)
        if c < 0:
            low, high = high, low
        return None if low is None else total + c * low, None if high is None else total + c * high

    return check
