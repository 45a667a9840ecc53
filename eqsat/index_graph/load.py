"""Terms on their way into the graph: one expression for each subterm at each place, with the bounds known there."""

from __future__ import annotations

from typing import Any

from eqsat.graph.egglog_adapter import Call, Expression
from eqsat.index_graph.places import Guards, Place, Places, parts
from eqsat.index_graph.schema import BINARY, LARGEST, TESTS
from eqsat.index_graph.sums import Forms
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.rewriting.match_sums import slack
from eqsat.rewriting.rewrite import spell

LEAVES = ("axis", "var", "sym")
NAMED = frozenset(("Num", "Truth", "Leaf", "Lin", "DLeaf"))  # expressions that name their class by themselves
# Where a lazy operation stands, and what holds at its two branches, or at the first two members of (a rest of) it.
Lazy = tuple[Guards, Guards, Guards]


def is_data(node: Term) -> bool:
    """Whether a term is a value of a fixed-width type, which is kept apart from the integers."""
    return node.dtype not in (INDEX, BOOL)


def tested(comparison: Term) -> Term:
    """The index that a comparison tests against zero."""
    if comparison.op in ("lt", "le"):
        return slack(comparison)
    spelled = spell(comparison)
    if spelled.op == "const":
        return comparison.args[0] - comparison.args[1]
    return spelled.args[0] - spelled.args[1]


class Loader:
    """What has been loaded, and the numbers of leaves, operations and lazy places that rows of the graph mention."""

    def __init__(self, forms: Forms, places: Places) -> None:
        self.forms, self.places = forms, places
        self.leaf: dict[Term, int] = {}
        self.datum: dict[Term, int] = {}
        self.operation: dict[Any, tuple[int, Term]] = {}
        self.lazy: dict[Lazy, int] = {}
        self.loaded: dict[tuple[int, Term], Expression] = {}

    # -- the way in ----------------------------------------------------------------------------------------------------

    def load(self, term: Term, place: Place) -> Expression:
        """The expression of a term at a place."""
        stack: list[tuple[Term, Place]] = [(term, place)]
        while stack:
            node, here = stack[-1]
            key = (here.number, node)
            if key in self.loaded:
                stack.pop()
                continue
            needs = self._needs(node, here)
            waiting = [(a, g) for a, g in needs if (g.number, a) not in self.loaded]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            self.loaded[key] = self._insert(node, here, [self.loaded[g.number, a] for a, g in needs])
        return self.loaded[place.number, term]

    def _needs(self, node: Term, place: Place) -> list[tuple[Term, Place]]:
        if node.op in LEAVES or node.op == "const":
            return []
        if node.op == "where":
            p, x, y = node.args
            return [(p, place), (x, self._under(place, [p], x)), (y, self._under(place, [t.logical_not(p)], y))]
        if node.op in ("and", "or"):
            guards = list(node.args if node.op == "and" else map(t.logical_not, node.args))
            return [(a, self._under(place, guards[:k], a)) for k, a in enumerate(node.args)]
        if node.op in t.COMPARE and node.args[0].dtype == INDEX:
            return [(tested(node), place)]
        return [(a, place) for a in node.args]

    def _under(self, place: Place, guards: list[Term], term: Term) -> Place:
        found = self.places.under(place, guards, term)
        loose, found.loose = found.loose, []
        for fact in loose:
            self.state(fact, found)
        return found

    def state(self, fact: Term, place: Place) -> None:
        """State a predicate that holds at a place, and at some point at least."""
        changes = self.forms.changes
        changes.unions.append((self.load(fact, place), Call("Truth", (1,))))
        changes.unions.append((self.load(t.logical_not(fact), place), Call("Truth", (0,))))
        if fact.op in ("lt", "le", "eq") and fact.args[0].dtype == INDEX:
            difference = slack(fact) if fact.op != "eq" else fact.args[0] - fact.args[1]
            if difference.op != "const":
                room = self.load(difference, place)
                changes.sets.append((Call("lo", (room,)), 0))
                if fact.op == "eq":
                    changes.sets.append((Call("hi", (room,)), 0))
        for x, (start, stop) in place.facts.ranges.items():
            if x.op != "const" and self.places.top.facts.ranges.get(x) != (start, stop):
                self._bound(self.load(x, place), start, stop - 1)

    def _bound(self, expression: Expression, low: Any, high: Any) -> None:
        for function, bound in (("lo", low), ("hi", high)):
            if isinstance(bound, int) and abs(bound) < LARGEST:
                self.forms.changes.sets.append((Call(function, (expression,)), bound))

    # -- one node ------------------------------------------------------------------------------------------------------

    def _insert(self, node: Term, place: Place, args: list[Expression]) -> Expression:
        made = self._expression(node, place, args)
        assert isinstance(made, Call)
        if made.function in NAMED:
            self.forms.changes.inserts.append(made)
        else:
            name = self.forms.name(data=is_data(node))
            self.forms.changes.unions.append((name, made))
            made = name
        if node.dtype == INDEX and node.op != "const":
            self._bound(made, *place.facts.of(node))
        return made

    def _expression(self, node: Term, place: Place, args: list[Expression]) -> Expression:
        op = node.op
        if op == "const" and node.dtype == INDEX and abs(node.payload) < LARGEST:
            return Call("Num", (node.payload,))
        if op == "const" and node.dtype == BOOL:
            return Call("Truth", (node.payload,))
        if op in LEAVES and not is_data(node):
            leaf = Call("Leaf", (self.leaf.setdefault(node, len(self.leaf)),))
            return Call("Given", (place.number, leaf)) if place.number else leaf
        if is_data(node) and not node.args:
            return Call("DLeaf", (self.datum.setdefault(node, len(self.datum)),))
        if op == "sum" and all(abs(k) < LARGEST for k in (node.payload[0], *node.payload[1])):
            return self.forms.add(node.payload[0], list(zip(args, node.payload[1], strict=True)))
        if node.dtype == INDEX and op in BINARY:
            return Call(BINARY[op], tuple(args))
        if node.dtype == INDEX and op == "abs":
            return Call("Abs", tuple(args))
        if op in t.COMPARE and node.args[0].dtype == INDEX:
            return Call(TESTS["le" if op == "lt" else op], tuple(args))
        if op in ("where", "and", "or"):
            return self._lazily(node, place, args)
        if op == "not":
            return Call("Not", tuple(args))
        if op == "prod":
            whole = args[-1]
            for a in reversed(args[:-1]):
                whole = Call("Mul", (a, whole))
            return whole
        return self._opaque(node, args)

    def _lazily(self, node: Term, place: Place, args: list[Expression]) -> Expression:
        """A lazy operation, with the number of what may be taken for granted in its later operands."""
        home = place.guards
        if node.op == "where":
            p = node.args[0]
            number = self._number((home, home | parts(p), home | parts(t.logical_not(p))))
            return Call("DWhere" if is_data(node) else "Where", (number, *args))
        holds = [home]
        for a in node.args[:-1]:
            holds.append(holds[-1] | parts(a if node.op == "and" else t.logical_not(a)))
        whole = args[-1]
        for k in range(len(args) - 2, -1, -1):
            number = self._number((home, holds[k], holds[k + 1]))
            whole = Call("Then" if k else node.op.capitalize(), (number, args[k], whole))
        return whole

    def beside(self, junction: Term, k: int, place: Place) -> Expression:
        """A junction whose members are defined everywhere, with member k as the last one, under all the others."""
        others = [a for n, a in enumerate(junction.args) if n != k]
        guards = others if junction.op == "and" else list(map(t.logical_not, others))
        last = junction.args[k]
        whole = self.load(last, self._under(place, guards, last))
        home, holds = place.guards, place.guards.union(*map(parts, guards))
        for n in range(len(others) - 1, -1, -1):
            second = holds if n == len(others) - 1 else home
            number = self._number((home, home, second))
            whole = Call("Then" if n else junction.op.capitalize(), (number, self.load(others[n], place), whole))
        name = self.forms.name()
        self.forms.changes.unions.append((name, whole))
        return name

    def _number(self, lazy: Lazy) -> int:
        return self.lazy.setdefault(lazy, len(self.lazy))

    def _opaque(self, node: Term, args: list[Expression]) -> Expression:
        """An operation that egglog's rules do not look into: its number, and its operands (beyond three in pairs)."""
        data = is_data(node) or any(map(is_data, node.args))
        like = tuple((a.dtype, a.lanes) for a in node.args)
        key = (t.make(node.op, (), node.payload, node.dtype), node.lanes, data, *like)
        number = self.operation.setdefault(key, (len(self.operation), node))[0]
        prefix = "DOp" if data else "Op"
        if data:
            args = [e if is_data(a) else Call("Ix", (e,)) for a, e in zip(node.args, args, strict=True)]
        while len(args) > 3:
            args = [*args[:-2], Call(f"{prefix}2", (-1, *args[-2:]))]
        made = Call(f"{prefix}{len(args)}", (number, *args))
        return Call("Of", (made,)) if data and not is_data(node) else made
