"""Constants of a pattern: products of numbers and Pos and Num parameters, solved as exact equations."""

from __future__ import annotations

from eqsat.ir.dtypes import INDEX
from eqsat.ir.rule import Kind
from eqsat.ir.terms.term import Term
from eqsat.rewriting import coefficient as co
from eqsat.rewriting.coefficient import Coefficient
from eqsat.rewriting.match_state import UNBOUND, Found, Go, Monomial, State, Step, bind
from eqsat.rewriting.match_sums import lower


class Constants:
    """The parameters of a pattern by slot, and equations between products of those that are numbers."""

    slots: dict[Term, int]
    kinds: list[Kind]
    scale: int

    def monomial(self, a: Term) -> Monomial | None:
        """A pattern that is a product of constants, or None."""
        if a.op == "const" and a.dtype == INDEX:
            return a.payload, ()
        slot = self.slots.get(a)
        if slot is not None:
            return (1, (slot,)) if self.kinds[slot] in (Kind.POS, Kind.NUM) else None
        if a.op == "prod" or (a.op == "sum" and len(a.args) == 1 and a.payload[0] == 0):
            number, slots = (1, ()) if a.op == "prod" else (a.payload[1][0], ())
            for arg in a.args:
                inner = self.monomial(arg)
                if inner is None:
                    return None
                number, slots = number * inner[0], (*slots, *inner[1])
            return number, slots
        return None

    def bound(self, left: Monomial, state: State) -> Coefficient | None:
        """The value of a product of constants; None while one of them is open."""
        value: Coefficient = left[0]
        for slot in left[1]:
            if state.values[slot] is UNBOUND:
                return None
            value = co.times(value, state.values[slot])
        return value

    def require(self, state: State, left: Monomial, value: Coefficient) -> bool:
        """Add the equation left = value; false where it cannot hold. What is not solved yet is kept pending."""
        waiting = [(left, value)]
        while waiting:
            (number, slots), value = waiting.pop()
            known: Coefficient = number
            unknown = -1
            many = False
            for slot in slots:
                bound = state.values[slot]
                if bound is UNBOUND:
                    many = many or unknown >= 0
                    unknown = slot
                else:
                    known = co.times(known, bound)
            if many:
                state.pending = (*state.pending, ((number, slots), value))
            elif unknown < 0:
                if not co.same(known, value):
                    return False
            else:
                rest = co.quotient(value, known)
                if rest is None or not self._fits(state, unknown, rest):
                    return False
                state.values[unknown] = rest
                state.trail.append(unknown)
                waiting.extend(state.pending)
                state.pending = ()
        return True

    def _fits(self, state: State, slot: int, value: Coefficient) -> bool:
        if slot == self.scale:
            return value != 0
        if self.kinds[slot] is Kind.NUM:
            return isinstance(value, int)
        number, factors = co.parts(value)
        if number <= 0:
            return False
        return all((low := lower(state.bounds, f)) is not None and low >= 1 for f in factors)

    def equation(self, left: Monomial, value: Coefficient, state: State, go: Go) -> Found | None:
        mark, pending = len(state.trail), state.pending
        if self.require(state, left, value):
            result = go(state)
            if result is not None:
                return result
        state.pending = pending
        return self.undo(state, mark)

    def constant(self, left: Monomial) -> Step:
        if not left[1]:
            number = left[0]
            return lambda state, s, go: go(state) if s.op == "const" and s.payload == number else None
        if len(left[1]) == 1 and left[0] == 1:
            return self._one_constant(left)
        return lambda state, s, go: self.equation(left, co.of_term(s), state, go)

    def _one_constant(self, left: Monomial) -> Step:
        """The most frequent case, a single constant, without the machinery of equations where it is a number."""
        slot = left[1][0]
        least = 1 if self.kinds[slot] is Kind.POS else None

        def step(state: State, s: Term, go: Go) -> Found | None:
            if s.op != "const" or state.pending:
                return self.equation(left, co.of_term(s), state, go)
            number: int = s.payload
            bound = state.values[slot]
            if bound is not UNBOUND:
                return go(state) if co.same(bound, number) else None
            return None if least is not None and number < least else bind(slot, state, number, go)

        return step

    def undo(self, state: State, mark: int) -> None:
        while len(state.trail) > mark:
            state.values[state.trail.pop()] = UNBOUND
