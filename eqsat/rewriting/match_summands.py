"""Sums and products of a pattern: which summands of a term match which, and what becomes of the others."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any

from eqsat.ir.cached import cached_property
from eqsat.ir.rule import RuleError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.rewriting import coefficient as co
from eqsat.rewriting.coefficient import Coefficient
from eqsat.rewriting.match_constants import Constants
from eqsat.rewriting.match_state import UNBOUND, Found, Go, Monomial, State, Step, bind, in_order
from eqsat.rewriting.match_sums import contains, factorings, parts_of_sum, splits


class Summands(Constants, ABC):
    """The matchers of sums and products; those of what stands in them are the pattern's own."""

    what: str
    conditional: bool

    @abstractmethod
    def compile(self, p: Term, under: str = "") -> Step:
        """The matcher of a pattern below the root, or below an operation."""

    @abstractmethod
    def variable(self, slot: int) -> Step:
        """The matcher of a variable."""

    def summands_of(self, p: Term) -> list[tuple[Monomial, Term]]:
        """A pattern sum as (coefficient, pattern) pairs; constants are multiples of the pattern 1."""
        constant, items = t.linear_parts(p)
        result: list[tuple[Monomial, Term]] = [((constant, ()), t.index_const(1))] if constant else []
        for number, item in items:
            fixed: list[Term] = []
            rest: list[Term] = []
            for factor in item.args if item.op == "prod" else (item,):
                (rest if self.monomial(factor) is None else fixed).append(factor)
            if len(rest) > 1 and not (len(rest) == 2 and any(f in self.slots for f in rest)):
                raise RuleError(self.what, f"summand {item} of a pattern", "write it as constants times one pattern")
            monomial = self.monomial(t.product(fixed))
            assert monomial is not None
            result.append(((number * monomial[0], monomial[1]), t.product(rest)))
        return result

    def _sum_root(self, p: Term) -> Step:
        items = self.summands_of(p)
        anchored = [(c, q) for c, q in items if q.op not in ("var", "const")]
        bare = [(c[0], self.slots[q]) for c, q in items if q.op == "var" and not c[1]]
        numbers = [c for c, q in items if q.op == "const"]
        known = len(anchored) + len(bare) + len(numbers) == len(items) and len(numbers) <= 1
        if not anchored or not known or any(self._open(k, anchored) for _, k in bare):
            raise RuleError(self.what, f"sum {p}: a summand matches anything", "anchor each summand")
        return self._anchored(anchored, None, (self.scale,), bare, numbers)

    def _open(self, slot: int, anchored: list[tuple[Monomial, Term]]) -> bool:
        """Whether no anchored summand binds a variable."""
        return not any(self.slots.get(node) == slot for _, q in anchored for node in postorder(q))

    def _nested_sum(self, p: Term, under: str) -> Step:
        items = self.summands_of(p)
        bare = [q for c, q in items if q.op == "var" and c == (1, ())]
        if len(bare) == 1 and len(items) == 1 + sum(q.op == "const" for _, q in items):
            return self._offset([c for c, q in items if q.op == "const"], self.slots[bare[0]])
        scaled = [bool(c[1]) or (q.op == "var" and abs(c[0]) > 1) for c, q in items]
        split = list(compress(items, scaled))
        plain = [item for item, has in zip(items, scaled, strict=True) if not has]
        if len(split) == 1 and len(plain) <= 1 and all(c == (1, ()) for c, _ in plain):
            small = self.compile(plain[0][1]) if plain else None
            return self._split(split[0][0], self.compile(split[0][1]), small, under)
        bare = [(c, q) for c, q in items if q.op == "var"]
        anchored = [(c, q) for c, q in items if q.op not in ("var", "const")]
        if len(bare) == len(items) == 2 and all(c in ((1, ()), (-1, ())) for c, _ in bare):
            return self._two_variables([(c[0], self.slots[q]) for c, q in bare])
        odd = len(items) > len(anchored) + len(bare) or any(c != (1, ()) for c, _ in bare)
        if odd or not anchored or len(bare) > 1:
            raise RuleError(self.what, f"sum {p} below an operation", "must read K*x + y, x + numbers, or anchored + y")
        return self._anchored(anchored, self.compile(bare[0][1]) if bare else self.constant((0, ())), ())

    def _offset(self, constants: list[Monomial], slot: int) -> Step:
        """Match x plus numbers: a number that is not known yet is the constant of the sum; x is the rest."""
        variable = self.variable(slot)

        def step(state: State, s: Term, go: Go) -> Found | None:
            constant, parts = t.linear_parts(s)
            if not parts:
                return None
            unknown = [m for m in constants if any(state.values[k] is UNBOUND for k in m[1])]
            known = 0
            for number, slots in (m for m in constants if m not in unknown):
                for k in slots:
                    value = state.values[k]
                    if not isinstance(value, int):
                        return None
                    number *= value
                known += number
            if len(unknown) > 1:
                return None
            if not unknown:
                return variable(state, t.linear(constant - known, parts), go)
            rest = t.linear(0, parts)
            return self.equation(unknown[0], constant - known, state, lambda s2: variable(s2, rest, go))

        return step

    def _two_variables(self, items: list[tuple[int, int]]) -> Step:
        """Match the sum or difference of two variables, neither zero: one of them is bound, or becomes one summand."""

        def summand(state: State, slot: int, value: Term, go: Go) -> Found | None:
            new = state.values[slot] is UNBOUND
            return None if new and t.is_const(value, 0) else bind(slot, state, value, go)

        def step(state: State, s: Term, go: Go) -> Found | None:
            for (one, first), (other, second) in (items, items[::-1]):
                bound = state.values[first]
                for part in parts_of_sum(s) if bound is UNBOUND else [one * bound]:
                    if bound is UNBOUND or contains(s, part):
                        found = summand(
                            state,
                            first,
                            one * part,
                            lambda s2, part=part, k=other, slot=second: summand(s2, slot, k * (s - part), go),
                        )
                        if found is not None:
                            return found
            return None

        return step

    def _product(self, p: Term) -> Step:
        """Match the product of a variable and another pattern: one is a factor, the other is what else there is."""
        steps = [self.compile(a, "prod") for a in p.args]

        def step(state: State, s: Term, go: Go) -> Found | None:
            number, core = (s.payload[1][0], s.args[0]) if s.op == "sum" else (1, s)
            factors = core.args if core.op == "prod" else (core,)
            for k, factor in enumerate(factors):
                others = t.product([t.index_const(number), *factors[:k], *factors[k + 1 :]])
                for way in ((factor, others), (others, factor)):
                    found = in_order(steps)(state, way, go)
                    if found is not None:
                        return found
            return None

        return step

    def _anchored(
        self,
        items: list[tuple[Monomial, Term]],
        rest: Step | None,
        extra: tuple[int, ...],
        bare: Sequence[tuple[int, int]] = (),
        numbers: Sequence[Monomial] = (),
    ) -> Step:
        """Match each (coefficient, pattern) to a summand of its own; `rest` takes the others, at the root they stay.

        `bare`: (factor, variable) summands at the root, bound by the others, that must be found among the rest.
        `numbers`: what the constant of the sum must be, if it is in the pattern.
        """
        items = sorted(items, key=lambda item: (len(item[0][1]), any(x.op == "sum" for x in postorder(item[1]))))
        wanted = [(number, (*extra, *slots)) for (number, slots), _ in items]
        steps = [self.compile(q) for _, q in items]
        ops = [q.op for _, q in items]
        factors = [self._factors(q) for _, q in items]
        at_root = self._rest_at_root(bare, [(number, (*extra, *slots)) for number, slots in numbers])

        def step(state: State, s: Term, go: Go) -> Found | None:
            constant, subject = t.linear_parts(s)
            if len(subject) < len(steps):
                return None
            used: list[int] = []
            placed = _Placed(subject)

            def at(n: int, state: State) -> Found | None:
                if n == len(steps):
                    scale = state.values[self.scale]  # a factor of it would make other summands
                    if (scale is UNBOUND or isinstance(scale, int)) and not placed.hold(
                        state.values[x] for _, x in bare
                    ):
                        return None
                    left = placed.without(tuple(used))
                    return at_root(state, constant, left, go) if rest is None else rest(state, left() + constant, go)
                known = _alone(state.values[k] for k in factors[n])
                value = None if ops[n] == "prod" else self.bound(wanted[n], state)
                for k in range(len(subject)) if value is None else placed.of(value):
                    number, core = subject[k]
                    if k in used or (known and not _has_factors(core, known)):
                        continue
                    for coefficient, inner in factorings(number, core, ops[n]):
                        used.append(k)
                        found = self.equation(
                            wanted[n],
                            coefficient,
                            state,
                            lambda s2, inner=inner: steps[n](s2, inner, lambda s3: at(n + 1, s3)),
                        )
                        used.pop()
                        if found is not None:
                            return found
                return None

            return at(0, state)

        return step

    def _factors(self, q: Term) -> list[int]:
        """The variables that are factors of a product in a pattern, alone or with numbers added."""
        found: list[int] = []
        for a in q.args if q.op == "prod" else ():
            bare = [x for c, x in t.linear_parts(a)[1] if c == 1 and x in self.slots and self.monomial(x) is None]
            found += [self.slots[x] for x in bare]
        return found

    def _rest_at_root(
        self, bare: Sequence[tuple[int, int]], numbers: Sequence[Monomial]
    ) -> Callable[[State, int, Callable[[], Term], Go], Found | None]:
        """What a match at the root leaves of a sum in which `bare` summands are found and `numbers` is the constant."""
        scale = self.scale

        def done(state: State, constant: int, left: Callable[[], Term], go: Go) -> Found | None:
            if state.values[scale] is UNBOUND:  # the coefficients are parameters themselves
                return self.equation((1, (scale,)), 1, state, lambda s2: done(s2, constant, left, go))
            factor = co.to_term(state.values[scale])
            others = (
                _without(left(), [(number * factor, state.values[slot]) for number, slot in bare]) if bare else None
            )
            if bare and others is None:
                return None
            kept = 0 if numbers else constant  # most matches do not come to what is left
            state.rest = lambda new: (left() if others is None else others) + kept + t.mul(factor, new)
            for wanted in numbers:
                return self.equation(wanted, constant, state, go) if constant else None
            return go(state)

        return done

    def _split(self, factor: Monomial, large: Step, small: Step | None, under: str) -> Step:
        """Match K*x + y by division with remainder."""
        fitting = self.conditional
        reduce = under == "mod"
        edges = fitting and under not in ("floordiv", "mod")

        def step(state: State, s: Term, go: Go) -> Found | None:
            for k in self._candidates(state, factor, s):
                number, factors = co.parts(k)
                if not number:  # a parameter that another place has bound to zero: nothing is a multiple of it
                    continue
                key = (s.serial, number, *(f.serial for f in factors), fitting, reduce, edges)
                ways = state.memo.get(key)
                if ways is None:
                    ways = state.memo[key] = splits(s, k, state.bounds, fitting, reduce, edges)
                for q, r in ways:
                    if small is None and not t.is_const(r, 0):
                        continue

                    def remainder(state: State, r: Term = r) -> Found | None:
                        return go(state) if small is None else small(state, r, go)

                    found = self.equation(
                        factor, k, state, lambda s2, q=q, remainder=remainder: large(s2, q, remainder)
                    )
                    if found is not None:
                        return found
            return None

        return step

    def _candidates(self, state: State, factor: Monomial, s: Term) -> list[Coefficient]:
        number, slots = factor
        unknown = [slot for slot in slots if state.values[slot] is UNBOUND]
        if not unknown:
            value: Coefficient = number
            for slot in slots:
                value = co.times(value, state.values[slot])
            return [value]
        wanted = next((v for (_, ss), v in state.pending if any(u in ss for u in unknown)), None)
        return co.divisors(wanted, [co.times(k, co.of_term(x)) if x.op == "prod" else k for k, x in co.summands(s)[1]])


class _Placed:
    """Where the summands of each coefficient are, of those that are no product, and where products are; found when it
    is first asked for."""

    def __init__(self, subject: Sequence[tuple[int, Term]]) -> None:
        self._subject = subject

    @cached_property
    def _places(self) -> dict[int | None, list[int]]:
        found: dict[int | None, list[int]] = {}
        for k, (number, core) in enumerate(self._subject):
            found.setdefault(None if core.op == "prod" else number, []).append(k)
        return found

    @cached_property
    def _cores(self) -> set[Term]:
        return {core for _, core in self._subject}

    def hold(self, values: Iterable[Term]) -> bool:
        """Whether all summands of these values are there, with any coefficients; a number has none."""
        return all(v.op != "const" and all(x in self._cores for _, x in t.linear_parts(v)[1]) for v in values)

    def without(self, used: tuple[int, ...]) -> Callable[[], Term]:
        """The sum of the others, when it is asked for."""
        return lambda: t.linear(0, [pair for k, pair in enumerate(self._subject) if k not in used])

    def of(self, value: Coefficient) -> Sequence[int]:
        """The summands that may be a term with this coefficient: one with factors is of a product."""
        return self._places.get(value if isinstance(value, int) else None, ())


def _alone(values: Iterable[Any]) -> list[Term]:
    """The bound values that can only be a factor of a product: no products, sums or numbers."""
    return [v for v in values if isinstance(v, Term) and v.op not in ("prod", "sum", "const")]


def _has_factors(core: Term, wanted: Sequence[Term]) -> bool:
    """Whether all terms are factors of another one, alone or with a number added."""
    factors = core.args if core.op == "prod" else (core,)
    return all(any(x is f or (f.op == "sum" and any(x is a for a in f.args)) for f in factors) for x in wanted)


def _without(left: Term, bare: Sequence[tuple[Term, Term]]) -> Term | None:
    """A sum without (factor, value) summands, none a number; None where they are not found in it."""
    for factor, value in bare:
        removed = left - t.mul(factor, value)
        fewer = len(t.linear_parts(left)[1]) - len(t.linear_parts(removed)[1])
        if value.op == "const" or fewer < len(t.linear_parts(value)[1]):
            return None
        left = removed
    return left
