"""One matcher for declared rules, over terms, with sums modulo the rest.

* A sum at the root of a pattern matches any summands of a sum that have the pattern's coefficients up to one common
  scale; the other summands are the rest and stay. A bare variable that another summand binds is looked for among them.
* A sum below an operation that reads `K*x + y` matches a sum by division with remainder: x is what K divides.
* A sum below an operation that reads `x + numbers` matches any term; a number left open is the constant of the sum.
* A sum below an operation with anchored summands and a bare variable gives the other summands to the variable.
* A sum of two bare variables below an operation gives one summand, or what is bound already, to one of them; neither
  is zero.
* A product with a variable in a sum at the root takes a summand apart: one factor, and the others with the number.
* A number in a sum at the root is the constant of the sum.
* `0 <= p` and `0 == p` match any comparison of indices, moved to one side.
* Constants of a pattern are solved as exact equations: see `match_constants`.

A pattern is compiled into closures that call a continuation with the bindings found so far, and try again when the
continuation refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.rule import Instance, Kind, Rule, RuleError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder, substitute
from eqsat.rewriting import coefficient as co
from eqsat.rewriting.coefficient import Coefficient
from eqsat.rewriting.match_constants import Constants
from eqsat.rewriting.match_looks import Look, dtype_of, parts_of
from eqsat.rewriting.match_state import UNBOUND, Found, Go, Monomial, State, Step, compile_condition
from eqsat.rewriting.match_sums import (
    Bounds,
    contains,
    factorings,
    is_subtracted,
    is_total,
    parts_of_sum,
    put,
    slack,
    splits,
)

_COMMUTATIVE = frozenset(("min", "max", "bitand", "bitor", "bitxor"))


class Pattern(Constants):
    """A compiled left side of a rule.

    >>> from eqsat.ir.rule import Idx, Pos, rule
    >>> @rule("split-merge")
    ... def split_merge(x: Idx, c: Pos):
    ...     return x // c * c + x % c, x
    >>> i, j = t.var("i"), t.var("j")
    >>> found = Pattern(split_merge, split_merge.instances[0]).first(i // 4 * 8 + j + i % 4 * 2)
    >>> str(found.build(split_merge.right))
    '2*i + j'
    """

    def __init__(self, rule: Rule, instance: Instance) -> None:
        self.what = f"rule {rule.name}"
        self.instance = instance
        self.slots: dict[Term, int] = {}
        self.kinds: list[Kind] = []
        for p in rule.parameters:
            if p.kind is not Kind.BUFFER:
                dtype = {Kind.PRED: BOOL, Kind.DATA: instance.dtype, Kind.ANY: "float32"}.get(p.kind, INDEX)
                self.slots[t.make("var", (), p.name, dtype)] = len(self.kinds)
                self.kinds.append(p.kind)
        self.scale = len(self.kinds)
        self.variables = list(self.slots)
        self.conditional = bool(instance.conditions)
        roots, below, self.step = self._root(instance.left)
        left = instance.left
        summands = self.summands_of(left) if left.op in ("sum", "prod") else []
        anchors = frozenset(q.op for _, q in summands if q.op not in ("var", "const"))
        self.look = Look(roots, dtype_of(left, instance.dtype), below, parts_of(left), anchors)
        self.checks = [compile_condition(c, self.slots, self.monomial, self._term) for c in instance.conditions]
        bound = set(self.slots)
        self.chosen = [(c, self.slots[c.constant]) for c in instance.choices if c.constant in bound]

    # -- use -----------------------------------------------------------------------------------------------------------

    def first(
        self, subject: Term, bounds: Bounds = lambda a: (None, None), memo: dict[Any, Any] | None = None
    ) -> Found | None:
        """The first match whose conditions are known to hold, or None; `memo` belongs to the bounds."""
        return self.match(subject, bounds, {} if memo is None else memo) if self.look.may(subject) else None

    def match(self, subject: Term, bounds: Bounds, memo: dict[Any, Any]) -> Found | None:
        """The same for a term that looks like a match."""

        def finish(state: State) -> Found | None:
            if state.pending:
                return None
            added = len(state.trail)
            for choice, slot in self.chosen:
                value = choice.value(*bounds(self._term(choice.term, state)))
                if value is None:
                    return self.undo(state, added)
                state.values[slot] = value
                state.trail.append(slot)
            for check in self.checks:
                if not check(state):
                    return self.undo(state, added)
            return Found(self._table(state), state.rest)

        return self.step(State(self.scale + 1, bounds, memo), subject, finish)

    def every(
        self, subject: Term, bounds: Bounds, memo: dict[Any, Any], most: int, open_ones: list[Found] | None = None
    ) -> list[Found]:
        """The first matches whose conditions are known to hold; the others are added to `open_ones`, up to as many."""
        found: list[Found] = []

        def finish(state: State) -> Found | None:
            if state.pending:
                return None
            added = len(state.trail)
            for choice, slot in self.chosen:
                value = choice.value(*bounds(self._term(choice.term, state)))
                if value is None:
                    return self.undo(state, added)
                state.values[slot] = value
                state.trail.append(slot)
            match = Found(self._table(state), state.rest)
            if all(check(state) for check in self.checks):
                found.append(match)
            elif open_ones is not None and len(open_ones) < most:
                open_ones.append(match)
            self.undo(state, added)
            return match if len(found) >= most else None

        self.step(State(self.scale + 1, bounds, memo), subject, finish)
        return found

    def _table(self, state: State) -> dict[Term, Term]:
        table: dict[Term, Term] = {}
        for v, slot in self.slots.items():
            value = state.values[slot]
            if value is not UNBOUND:
                table[v] = value if isinstance(value, Term) else co.to_term(value)
        return table

    def _term(self, pattern: Term, state: State) -> Term:
        return substitute(pattern, self._table(state))

    # -- compiling -----------------------------------------------------------------------------------------------------

    def _root(self, left: Term) -> tuple[frozenset[str], frozenset[str] | None, Step]:
        if left.op in ("sum", "prod"):
            return frozenset(("sum", left.op)), None, self._sum_root(left)
        if left.op in ("and", "or"):
            return frozenset((left.op,)), None, self._junction(left, root=True)
        if left.op in t.COMPARE and self._is_difference(left):
            ops = ("lt", "le") if left.op in ("lt", "le") else (left.op,)
            return frozenset(ops), None, self.compile(left)
        below: frozenset[str] | None = None
        first = left.args[0] if left.args else left
        if first.op == "sum" and self.monomial(first) is None and left.op not in _COMMUTATIVE:
            below = frozenset(("sum", "prod"))
        elif first.op not in ("var", "const", "prod") and self.monomial(first) is None and left.op not in _COMMUTATIVE:
            below = frozenset(("lt", "le") if first.op in ("lt", "le") else (first.op,))
        return frozenset((left.op,)), below, self.compile(left)

    def compile(self, p: Term, under: str = "") -> Step:
        """The matcher of a pattern below the root, or below an operation."""
        constant = self.monomial(p)
        if constant is not None:
            return self.constant(constant)
        slot = self.slots.get(p)
        if slot is not None:
            return self._variable(slot)
        if p.op == "const":
            return lambda state, s, go: go(state) if s is p else None
        if p.op == "sum":
            return self._nested_sum(p, under)
        if p.op in ("and", "or"):
            return self._junction(p, root=False)
        if p.op == "not" and p.args[0] in self.slots:
            return self._opposite(p)
        if p.op in t.COMPARE and self._is_difference(p):
            return self._difference(p)
        if p.op == "prod" and len(p.args) == 2 and any(a in self.slots for a in p.args):
            return self._product(p) if all(self.monomial(a) is None for a in p.args) else self._nested_sum(p, under)
        if p.op in ("prod", "load", "axis", "sym", "hole"):
            raise RuleError(self.what, f"{p} cannot be matched", "products and loads stand on right sides only")
        return self._operation(p)

    def _variable(self, slot: int) -> Step:
        total, turned = self.kinds[slot] is Kind.TOTAL, self.kinds[slot] is Kind.NEG

        def step(state: State, s: Term, go: Go) -> Found | None:
            bound = state.values[slot]
            if bound is not UNBOUND:
                return go(state) if bound is s else None
            if (total and not is_total(s)) or (turned and not is_subtracted(s)):
                return None
            state.values[slot] = s
            result = go(state)
            if result is None:
                state.values[slot] = UNBOUND
            return result

        return step

    def _opposite(self, p: Term) -> Step:
        """Match the opposite of a predicate; of one that is bound it may be a comparison."""
        slot, written = self.slots[p.args[0]], self._operation(p)

        def step(state: State, s: Term, go: Go) -> Found | None:
            bound = state.values[slot]
            if bound is UNBOUND:
                return written(state, s, go)
            return go(state) if s.dtype == BOOL and t.logical_not(bound) is s else None

        return step

    def _operation(self, p: Term) -> Step:
        op, dtype, payload = p.op, p.dtype, p.payload
        free = op == "where" and dtype not in (INDEX, BOOL, self.instance.dtype)
        steps = [self.compile(a, op) for a in p.args]
        order = sorted(range(len(steps)), key=lambda k: (self.monomial(p.args[k]) is None, p.args[k].op == "var", k))
        match = _in_order([steps[k] for k in order])
        ways = [order]
        if op in _COMMUTATIVE and dtype == INDEX:
            match, ways = _in_order(steps), [[0, 1], [1, 0]]

        def step(state: State, s: Term, go: Go) -> Found | None:
            if s.op != op or s.payload != payload or not (free or s.dtype == dtype):
                return None
            args = s.args
            for way in ways:
                result = match(state, [args[k] for k in way], go)
                if result is not None:
                    return result
            return None

        return step

    # -- comparisons ---------------------------------------------------------------------------------------------------

    def _is_difference(self, p: Term) -> bool:
        return p.args[0].dtype == INDEX and any(t.is_const(a, 0) for a in p.args)

    def _difference(self, p: Term) -> Step:
        left, right = p.args
        if p.op in ("eq", "ne"):
            inner = self.compile(right if t.is_const(left, 0) else left)

            def equal(state: State, s: Term, go: Go) -> Found | None:
                if s.op != p.op or s.args[0].dtype != INDEX:
                    return None
                found = inner(state, s.args[0] - s.args[1], go)
                return inner(state, s.args[1] - s.args[0], go) if found is None else found

            return equal
        ordered = self.compile(right - left - (1 if p.op == "lt" else 0))

        def order(state: State, s: Term, go: Go) -> Found | None:
            if s.op not in ("lt", "le") or s.args[0].dtype != INDEX:
                return None
            room = state.memo.get(s)
            if room is None:
                room = state.memo[s] = slack(s)
            return ordered(state, room, go)

        return order

    # -- sums ----------------------------------------------------------------------------------------------------------

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
        split = [(c, q) for c, q in items if c[1]]
        plain = [(c, q) for c, q in items if not c[1]]
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
        variable = self._variable(slot)

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

        def bind(state: State, slot: int, value: Term, go: Go) -> Found | None:
            bound = state.values[slot]
            if bound is not UNBOUND:
                return go(state) if bound is value else None
            if t.is_const(value, 0):
                return None
            state.values[slot] = value
            result = go(state)
            if result is None:
                state.values[slot] = UNBOUND
            return result

        def step(state: State, s: Term, go: Go) -> Found | None:
            for (one, first), (other, second) in (items, items[::-1]):
                bound = state.values[first]
                for part in parts_of_sum(s) if bound is UNBOUND else [one * bound]:
                    if bound is UNBOUND or contains(s, part):
                        found = bind(
                            state,
                            first,
                            one * part,
                            lambda s2, part=part, k=other, slot=second: bind(s2, slot, k * (s - part), go),
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
                    found = _in_order(steps)(state, way, go)
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
        scale = self.scale

        def step(state: State, s: Term, go: Go) -> Found | None:
            constant, subject = t.linear_parts(s)
            if len(subject) < len(steps):
                return None
            used: list[int] = []

            def done(state: State) -> Found | None:
                left = t.linear(0, [pair for k, pair in enumerate(subject) if k not in used])
                if rest is not None:
                    return rest(state, left + constant, go)
                if state.values[scale] is UNBOUND:  # the coefficients are parameters themselves
                    return self.equation((1, (scale,)), 1, state, done)
                factor = co.to_term(state.values[scale])
                others = _without(left, [(number * factor, state.values[slot]) for number, slot in bare])
                if others is None:
                    return None
                state.rest = lambda new: others + (0 if numbers else constant) + t.mul(factor, new)
                for number, slots in numbers:
                    return self.equation((number, (*extra, *slots)), constant, state, go) if constant else None
                return go(state)

            def at(n: int, state: State) -> Found | None:
                if n == len(steps):
                    return done(state)
                for k, (number, core) in enumerate(subject):
                    if k in used:
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

    def _split(self, factor: Monomial, large: Step, small: Step | None, under: str) -> Step:
        """Match K*x + y by division with remainder."""
        fitting = self.conditional
        reduce = under == "mod"
        edges = fitting and under not in ("floordiv", "mod")

        def step(state: State, s: Term, go: Go) -> Found | None:
            for k in self._candidates(state, factor, s):
                number, factors = co.parts(k)
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

    # -- junctions -----------------------------------------------------------------------------------------------------

    def _junction(self, p: Term, root: bool) -> Step:
        """Two or more members of an `and` or `or`, modulo the rest at the root; a last bare variable takes the rest."""
        op = p.op
        steps = [self.compile(a) for a in p.args]
        takes_rest = not root and self.slots.get(p.args[-1]) is not None
        count = len(steps)

        def step(state: State, s: Term, go: Go) -> Found | None:
            if s.op != op or len(s.args) < count or (len(s.args) > count and not (root or takes_rest)):
                return None
            members = s.args
            movable = all(map(is_total, members))
            used: list[int] = []

            def at(n: int, state: State) -> Found | None:
                if n == count:
                    if root:
                        taken = tuple(used)
                        state.rest = lambda new: t.junction(op, put(members, taken, new))
                    return go(state)
                if takes_rest and n == count - 1:
                    return steps[n](state, t.junction(op, [m for k, m in enumerate(members) if k not in used]), go)
                for k, member in enumerate(members):
                    if k in used or (used and not movable and k != used[-1] + 1):
                        continue
                    used.append(k)
                    found = steps[n](state, member, lambda s2: at(n + 1, s2))
                    used.pop()
                    if found is not None:
                        return found
                return None

            return at(0, state)

        return step


def _without(left: Term, bare: Sequence[tuple[Term, Term]]) -> Term | None:
    """A sum without (factor, value) summands, none a number; None where they are not found in it."""
    for factor, value in bare:
        removed = left - t.mul(factor, value)
        fewer = len(t.linear_parts(left)[1]) - len(t.linear_parts(removed)[1])
        if value.op == "const" or fewer < len(t.linear_parts(value)[1]):
            return None
        left = removed
    return left


def _in_order(steps: Sequence[Step]) -> Callable[[State, Sequence[Term], Go], Found | None]:
    """Match terms one after the other."""
    if len(steps) == 1:
        only = steps[0]
        return lambda state, args, go: only(state, args[0], go)
    if len(steps) == 2:
        first, second = steps
        return lambda state, args, go: first(state, args[0], lambda s2: second(s2, args[1], go))
    first, rest = steps[0], _in_order(steps[1:])
    return lambda state, args, go: first(state, args[0], lambda s2: rest(s2, args[1:], go))
