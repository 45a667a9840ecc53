"""The index e-graph: equal index terms and predicates, by declared rules, with sums modulo their rest.

egglog joins rules over the slots of sums; Python does the linear arithmetic between iterations (`index_sums`). Facts
are bounds of axes whose extent is at least 1. A fact of a guard is a bound on `Given` terms, so it cannot reach another
use of the axis, and it is stated only where the guard is known to hold somewhere.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from eqsat.graph.egglog_adapter import Call, Expression
from eqsat.index_graph.extract import Extractor
from eqsat.index_graph.pool import give_back, take
from eqsat.index_graph.schema import ALARMS, BINARY, LARGEST, TESTS
from eqsat.index_graph.sums import Forms, SumStep
from eqsat.ir.decide import decider
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.ranges.bounds import Bounds, narrow
from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

LEAVES = ("axis", "var", "sym")
BOUNDS = "(run-schedule (repeat 6 (run bounds)))"
BOUND_ROUNDS = 10  # unsound equalities make bounds creep for ever
Guard = tuple[Term, ...]


class Unsound(EqsatError):
    """The e-graph contradicts itself: a rule or a fact is wrong. Nothing of it may be used."""


@dataclass(frozen=True)
class Limits:
    """Where saturation stops: rows of all tables, iterations, seconds, and rounds in which no root became cheaper."""

    rows: int = 8_000
    iterations: int = 24
    seconds: float = 2.0
    patience: int = 3


@dataclass(frozen=True)
class Outcome:
    """How a run ended: "saturated", "settled" (no better term for some rounds) or the limit that was reached."""

    status: str
    iterations: int
    rows: int
    seconds: float
    matches: Mapping[str, int]


class IndexGraph:
    """Terms over one box, and what the rules make equal. Left with `with`, its engine serves the next one.

    >>> i = t.var("i", 64)
    >>> with IndexGraph() as graph:
    ...     root = graph.add(i // 4 * 8 + i % 4 * 2 + 3)
    ...     print(graph.run().status, graph.best(root))
    saturated 2*i + 3
    """

    def __init__(
        self, rules: Iterable[Rule] | None = None, ranges: Mapping[Term, tuple[int, int]] | None = None
    ) -> None:
        self.engine = take(None if rules is None else list(rules))
        self.graph = self.engine.graph
        self.ranges = dict(ranges or {})
        self.bounds = Bounds(self.ranges)
        self.forms = Forms()
        self.leaf: dict[Term, int] = {}
        self.operation: dict[tuple[Any, ...], tuple[int, Term]] = {}
        self.guards: dict[Guard, int] = {}
        self.loaded: dict[Guard, dict[Term, Expression]] = {}
        self.roots: list[Expression] = []
        self.spoiled = False  # by a limit: the tables have grown

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        give_back(self.engine, sound=kind is None and not self.spoiled)

    # -- loading -------------------------------------------------------------------------------------------------------

    def add(self, term: Term) -> int:
        """Insert a term; its number as a root."""
        self.roots.append(self._load(term, ()))
        self.forms.changes.apply(self.graph)
        return len(self.roots) - 1

    def assume(self, fact: Term) -> None:
        """State a predicate that holds somewhere on the box (the caller has made sure of that) as a fact."""
        self._facts(fact, ())
        self.forms.changes.apply(self.graph)

    def unite(self, a: int, b: int) -> None:
        """State that two roots are equal."""
        self.graph.union(self.roots[a], self.roots[b])

    def _load(self, term: Term, guard: Guard) -> Expression:
        stack: list[tuple[Term, Guard]] = [(term, guard)]
        while stack:
            node, here = stack[-1]
            done = self.loaded.setdefault(here, {})
            if node in done:
                stack.pop()
                continue
            needs = self._needs(node, here)
            waiting = [(a, g) for a, g in needs if a not in self.loaded.setdefault(g, {})]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            done[node] = self._insert(node, here, [self.loaded[g][a] for a, g in needs])
        return self.loaded[guard][term]

    def _needs(self, node: Term, guard: Guard) -> list[tuple[Term, Guard]]:
        if node.op in LEAVES or node.op == "const":
            return []
        if node.op == "where":
            p, x, y = node.args
            return [(p, guard), (x, self._under(guard, p)), (y, self._under(guard, t.logical_not(p)))]
        if node.op in t.COMPARE and node.args[0].dtype == INDEX:
            return [(_tested(node), guard)]
        return [(a, guard) for a in node.args]

    def _under(self, guard: Guard, p: Term) -> Guard:
        """The guard with one more predicate; its facts are stated once, if it holds somewhere."""
        parts = p.args if p.op == "and" else (p,)
        new = (*guard, *(x for x in parts if not any(x is y for y in guard)))
        if new not in self.guards:
            self.guards[new] = len(self.guards) + 1
            whole = t.logical_and(*new)
            if decider().prove(t.logical_not(whole), self._box(whole)).verdict == "refuted":
                self._facts(whole, new)
        return new

    def _facts(self, known: Term, guard: Guard) -> None:
        """What a predicate says about the sums that it compares, and about each of their summands."""
        for part in known.args if known.op == "and" else (known,):
            self._state(part, guard)
        for x, (start, stop) in narrow(known, self.ranges).items():
            if self.ranges.get(x) != (start, stop) and x.op != "const":
                place = self._load(x, guard)
                self.forms.changes.sets += [(Call("lo", (place,)), start), (Call("hi", (place,)), stop - 1)]

    def _box(self, term: Term) -> dict[Term, tuple[int, int]]:
        from eqsat.ir.terms.walk import free_variables, symbols

        box: dict[Term, tuple[int, int]] = {}
        for leaf in (*free_variables(term), *symbols(term)):
            low, high = self.bounds.of(leaf)
            if low is not None and high is not None:
                box[leaf] = (low, high + 1)
        return box

    def _state(self, fact: Term, guard: Guard) -> None:
        if fact.op not in ("lt", "le", "eq") or fact.args[0].dtype != INDEX:
            return
        difference = slack(fact) if fact.op != "eq" else fact.args[0] - fact.args[1]
        if difference.op == "const":
            return
        room = self._load(difference, guard)
        self.forms.changes.sets.append((Call("lo", (room,)), 0))
        if fact.op == "eq":
            self.forms.changes.sets.append((Call("hi", (room,)), 0))

    def _insert(self, node: Term, guard: Guard, args: list[Expression]) -> Expression:
        made = self._expression(node, guard, args)
        if isinstance(made, Call) and made.function not in ("Num", "Truth", "Leaf", "Lin"):
            name = self.forms.name()
            self.forms.changes.unions.append((name, made))
            made = name
        elif isinstance(made, Call):
            self.forms.changes.inserts.append(made)
        if node.dtype == INDEX and node.op != "const":
            for function, bound in zip(("lo", "hi"), self.bounds.of(node), strict=True):
                if bound is not None and abs(bound) < LARGEST:
                    self.forms.changes.sets.append((Call(function, (made,)), bound))
        return made

    def _expression(self, node: Term, guard: Guard, args: list[Expression]) -> Expression:
        op = node.op
        if op == "const" and node.dtype == INDEX and abs(node.payload) < LARGEST:
            return Call("Num", (node.payload,))
        if op == "const" and node.dtype == BOOL:
            return Call("Truth", (node.payload,))
        if op in LEAVES:
            leaf = Call("Leaf", (self.leaf.setdefault(node, len(self.leaf)),))
            return Call("Given", (self.guards[guard], leaf)) if guard else leaf
        if op == "sum" and all(abs(k) < LARGEST for k in (node.payload[0], *node.payload[1])):
            return self.forms.add(node.payload[0], list(zip(args, node.payload[1], strict=True)))
        if node.dtype == INDEX and op in BINARY:
            return Call(BINARY[op], tuple(args))
        if node.dtype == INDEX and op == "abs":
            return Call("Abs", tuple(args))
        if op in t.COMPARE and node.args[0].dtype == INDEX:
            return Call(TESTS["le" if op == "lt" else op], tuple(args))
        if op == "where":
            return Call("Where", tuple(args))
        if op == "not":
            return Call("Not", tuple(args))
        if op in ("and", "or", "prod"):
            function = {"and": "And", "or": "Or", "prod": "Mul"}[op]
            whole = args[-1]
            for a in reversed(args[:-1]):
                whole = Call(function, (a, whole))
            return whole
        return self._opaque(node, args)

    def _opaque(self, node: Term, args: list[Expression]) -> Expression:
        """An operation that no rule looks into: its number, and its operands (beyond three in a chain of pairs)."""
        key = (t.make(node.op, (), node.payload, node.dtype), *(a.dtype for a in node.args))
        number = self.operation.setdefault(key, (len(self.operation), node))[0]
        while len(args) > 3:
            args = [*args[:-2], Call("Op2", (-1, *args[-2:]))]
        return Call(f"Op{len(args)}", (number, *args))

    # -- running -------------------------------------------------------------------------------------------------------

    def step(self) -> int:
        """One sum step; the number of changes."""
        return SumStep(self.graph, self.forms).run().apply(self.graph)

    def run(self, limits: Limits | None = None, target: tuple[int, int] | None = None) -> Outcome:
        """Apply the rules until nothing changes or no root gets cheaper, or to a limit; Unsound if facts contradict.

        With `target`, two roots: stop as soon as they are equal, and not for want of cheaper terms.
        """
        limits = limits or Limits()
        begun = time.monotonic()
        matches: dict[str, int] = {}
        self.step()
        best, waited, status, done = self.costs() if target is None else (), 0, "iteration-limit", 0
        while done < limits.iterations:
            done += 1
            self.settle_bounds()
            report = self.graph.run("(run-schedule (run arith))")
            for rule, count in report.num_matches_per_rule.items():
                matches[rule] = matches.get(rule, 0) + count
            changed = self.step()
            self._check()
            if not report.updated and not changed:
                status = "saturated"
                break
            if self.size() > limits.rows or time.monotonic() - begun > limits.seconds:
                status = "row-limit" if self.size() > limits.rows else "time-limit"
                self.spoiled = True
                break
            if target is not None:
                if self.equal(*target):
                    status = "equal"
                    break
                continue
            costs = self.costs()
            waited = 0 if costs < best else waited + 1
            best = min(costs, best)
            if waited >= limits.patience or max(costs, default=0) <= 1:
                status = "settled"
                break
        self.settle_bounds()
        self._check()
        return Outcome(status, done, self.size(), time.monotonic() - begun, {k: c for k, c in matches.items() if c})

    def settle_bounds(self) -> None:
        """Let the bounds reach what they follow for; the rules about bounds make no terms."""
        for _ in range(BOUND_ROUNDS):
            if not self.graph.run(BOUNDS).updated:
                return

    def _check(self) -> None:
        alarms: list[int] = [r.args[0] for r in self.graph.rows(["alarm"])["alarm"]]
        if alarms:
            raise Unsound("index e-graph", ALARMS[alarms[0]], "a rule or an assumption is wrong; check the rules")

    def size(self) -> int:
        """The number of rows of all tables."""
        tables = self.graph.tables()
        return self.graph.size(list(tables), tables)

    def equal(self, a: int, b: int) -> bool:
        """Whether two roots are one class."""
        return self.graph.find(self.roots[a]) == self.graph.find(self.roots[b])

    def used_rules(self) -> list[str]:
        """The rules that rewrote a part of a sum, read from the graph."""
        numbers: set[int] = {r.args[3] for r in self.graph.rows(["Part"])["Part"]}
        return sorted(self.engine.names[n] for n in numbers)

    # -- reading -------------------------------------------------------------------------------------------------------

    def extractor(self) -> Extractor:
        """The cheapest term of every class at this moment."""
        leaves = {n: leaf for leaf, n in self.leaf.items()}
        operations = {n: node for n, node in self.operation.values()}
        return Extractor(self.graph, self.forms, leaves, operations)

    def costs(self) -> tuple[int, ...]:
        """The cost of the cheapest term of each root."""
        extractor = self.extractor()
        return tuple(extractor.cost(self.graph.find(r)) for r in self.roots)

    def best(self, root: int) -> Term:
        """The cheapest term that is equal to a root."""
        return self.extractor().term(self.graph.find(self.roots[root]))

    def all_best(self) -> list[Term]:
        """The cheapest terms of all roots."""
        extractor = self.extractor()
        return [extractor.term(self.graph.find(r)) for r in self.roots]


def _tested(comparison: Term) -> Term:
    """The index that a comparison tests against zero."""
    if comparison.op in ("lt", "le"):
        return slack(comparison)
    return comparison.args[0] - comparison.args[1]


def simplest(
    terms: Sequence[Term], ranges: Mapping[Term, tuple[int, int]], rules: Sequence[Rule] | None = None
) -> list[Term]:
    """The cheapest terms that the rules make equal to these, over one graph."""
    with IndexGraph(rules, ranges) as graph:
        for term in terms:
            graph.add(term)
        graph.run()
        return graph.all_best()
