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

from functools import lru_cache, partial
from typing import Any

from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.rule import Instance, Kind, Rule, RuleError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.rewriting import coefficient as co
from eqsat.rewriting.match_filter import Filter, dtype_of, parts_of
from eqsat.rewriting.match_state import UNBOUND, Found, Go, State, Step, bind, compile_condition, in_order
from eqsat.rewriting.match_summands import Summands
from eqsat.rewriting.match_sums import Bounds, is_subtracted, is_total, put, slack

_COMMUTATIVE = frozenset(("min", "max", "bitand", "bitor", "bitxor"))


class Pattern(Summands):
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
        self.filter = Filter(roots, dtype_of(left, instance.dtype), below, parts_of(left), anchors)
        self.checks = [compile_condition(c, self.slots, self.monomial, self._term) for c in instance.conditions]
        bound = set(self.slots)
        self.chosen = [(c, self.slots[c.constant]) for c in instance.choices if c.constant in bound]

    # -- use -----------------------------------------------------------------------------------------------------------

    def first(
        self, subject: Term, bounds: Bounds = lambda a: (None, None), memo: dict[Any, Any] | None = None
    ) -> Found | None:
        """The first match whose conditions are known to hold, or None; `memo` belongs to the bounds."""
        return self.match(subject, bounds, {} if memo is None else memo) if self.filter.may(subject) else None

    def match(self, subject: Term, bounds: Bounds, memo: dict[Any, Any]) -> Found | None:
        """The same for a term that looks like a match."""

        def finish(state: State) -> Found | None:
            if state.pending:
                return None
            added = len(state.trail)
            if self._choose(state) and all(check(state) for check in self.checks):
                return Found(self._table(state), state.rest)
            return self.undo(state, added)

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
            if not self._choose(state):
                return self.undo(state, added)
            match = Found(self._table(state), state.rest)
            if all(check(state) for check in self.checks):
                found.append(match)
            elif open_ones is not None and len(open_ones) < most:
                open_ones.append(match)
            self.undo(state, added)
            return match if len(found) >= most else None

        self.step(State(self.scale + 1, bounds, memo), subject, finish)
        return found

    def _choose(self, state: State) -> bool:
        """Give the parameters that the rule may choose their values; False where there is none."""
        for choice, slot in self.chosen:
            value = choice.value(*state.bounds(self._term(choice.term, state)))
            if value is None:
                return False
            state.values[slot] = value
            state.trail.append(slot)
        return True

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
            return self.variable(slot)
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

    def variable(self, slot: int) -> Step:
        total, turned = self.kinds[slot] is Kind.TOTAL, self.kinds[slot] is Kind.NEG
        plain: Step = partial(bind, slot)
        if not total and not turned:
            return plain

        def step(state: State, s: Term, go: Go) -> Found | None:
            if state.values[slot] is UNBOUND and ((total and not is_total(s)) or (turned and not is_subtracted(s))):
                return None
            return plain(state, s, go)

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
        match = in_order([steps[k] for k in order])
        ways = [order]
        if op in _COMMUTATIVE and dtype == INDEX:
            match, ways = in_order(steps), [[0, 1], [1, 0]]

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


@lru_cache(maxsize=4096)
def pattern_of(rule: Rule, number: int) -> Pattern:
    """The compiled left side of one theorem of a rule, which all rewriters and e-graphs of a process share."""
    return Pattern(rule, rule.instances[number])
