"""The index e-graph: equal index terms, predicates and values, by declared rules, with sums modulo their rest.

egglog joins the rules that it can over the slots of sums; between its iterations Python does the linear arithmetic
(`sums`) and matches all other rules on terms that it reads (`terms`). Facts are bounds of axes whose extent is at least
1; what a guard says is known only at the places below it (`places`).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from eqsat.graph.egglog_adapter import Expression, Row
from eqsat.index_graph.extract import READ, Extractor
from eqsat.index_graph.load import Loader
from eqsat.index_graph.obligations import Obligations
from eqsat.index_graph.places import Places
from eqsat.index_graph.pool import give_back, take
from eqsat.index_graph.schema import ALARMS
from eqsat.index_graph.sums import WANTED, Forms, SumStep
from eqsat.index_graph.terms import Terms
from eqsat.ir import clock
from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Rule
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import conjuncts
from eqsat.rewriting.context import Context

BOUNDS = "(run-schedule (repeat 6 (run bounds)))"
BOUND_ROUNDS = 10  # unsound equalities make bounds creep for ever
TABLES = tuple(dict.fromkeys((*READ, *WANTED)))


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
class Saturation:
    """How a run ended: "saturated", "settled" (no better term for some rounds) or the limit that was reached."""

    status: str
    iterations: int
    rows: int
    seconds: float
    matches: Mapping[str, int]


class IndexGraph:
    """Terms over one box, and what the rules make equal. Left with `with`, its engine serves the next one.

    rules: all of `eqsat.rules` where none are given, those tagged `both` from right to left too (`reversed.both_ways`).
    facts: what is known of the leaves, instead of half-open `ranges`.

    >>> from eqsat.ir.terms.term import var
    >>> i = var("i", 64)
    >>> with IndexGraph() as graph:
    ...     root = graph.add(i // 4 * 8 + i % 4 * 2 + 3)
    ...     print(graph.run().status in ("saturated", "settled"), graph.best(root))
    True 2*i + 3
    """

    def __init__(
        self,
        rules: Iterable[Rule] | None = None,
        ranges: Mapping[Term, tuple[int, int]] | None = None,
        facts: Context | None = None,
    ) -> None:
        self.engine = take(None if rules is None else tuple(rules))
        self.graph = self.engine.graph
        self.forms = Forms()
        places = Places(facts or Context(dict(ranges or {}), {}))
        self.loader = Loader(self.forms, places)
        top = places.top.facts
        rewriter = self.engine.rewriter()
        self.terms = Terms(
            rewriter, self.engine.compiled, self.engine.growing, self.loader, Obligations(top, places.given)
        )
        self.roots: list[Expression] = []
        self.spoiled = False  # by a limit: the tables have grown
        self.rows: dict[str, list[Row]] | None = None
        self.deadline = 0.0
        self.most_rows = 0
        self.watch: Callable[[int, Any], None] | None = None  # is told of each iteration, with egglog's report

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        give_back(self.engine, sound=kind is None and not self.spoiled)

    # -- loading -------------------------------------------------------------------------------------------------------

    def add(self, term: Term) -> int:
        """Insert a term; its number as a root."""
        self.roots.append(self.loader.load(term, self.loader.places.top))
        self.apply()
        return len(self.roots) - 1

    def assume(self, fact: Term) -> None:
        """State a predicate that holds somewhere on the box (the caller has made sure of that) as a fact."""
        top = self.loader.places.top
        top.facts = top.facts.under(fact)
        self.state(fact)

    def state(self, fact: Term) -> None:
        """State a predicate that the given facts of the leaves include."""
        self.loader.places.given.append(fact)
        for part in conjuncts(fact):
            self.loader.state(part, self.loader.places.top)
        self.apply()

    def unite(self, a: int, b: int) -> None:
        """State that two roots are equal."""
        self.graph.union(self.roots[a], self.roots[b])
        self.rows = None

    def apply(self) -> int:
        """Send the changes that were collected; their number."""
        self.rows = None
        return self.forms.changes.apply(self.graph)

    # -- running -------------------------------------------------------------------------------------------------------

    def step(self, terms: bool = False) -> int:
        """One sum step, and one term step after it if wanted; the number of changes."""
        sums = SumStep(self.read(), self.forms)
        sums.run()
        if terms:
            self.terms.run(self.extractor(), sums.name, self._is_enough)
        return self.apply()

    def _is_enough(self) -> bool:
        return len(self.loader.loaded) > self.most_rows or time.thread_time() > self.deadline

    def run(self, limits: Limits | None = None, target: tuple[int, int] | None = None) -> Saturation:
        """Apply the rules until nothing changes or no root gets cheaper, or to a limit; Unsound if facts contradict.

        With `target`, two roots: stop as soon as they are equal, and not for want of cheaper terms.
        """
        limits = limits or Limits()
        begun = time.thread_time()
        self.deadline, self.most_rows = begun + limits.seconds, limits.rows // 4
        matches: Counter[str] = Counter()
        self.step()
        best, waited, status, done = self.costs() if target is None else (), 0, "iteration-limit", 0
        while done < limits.iterations:
            clock.check()
            done += 1
            self.settle_bounds()
            report = self.graph.run("(run-schedule (run arith))")
            matches.update(self.engine.matches(report))
            self.rows = None
            self._check()
            changed = self.step(terms=True)
            if self.watch is not None:
                self.watch(done, report)
            if not report.updated and not changed:
                status = "saturated"
                break
            if self.size() > limits.rows or time.thread_time() > self.deadline:
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
        matches.update(self.terms.matches)
        return Saturation(status, done, self.size(), time.thread_time() - begun, matches)

    def settle_bounds(self) -> None:
        """Let the bounds reach what they follow for; the rules about bounds make no terms."""
        for _ in range(BOUND_ROUNDS):
            if not self.graph.run(BOUNDS).updated:
                break
        self.rows = None

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

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self) -> Mapping[str, list[Row]]:
        """The rows of all tables that are read, at this moment."""
        if self.rows is None:
            self.rows = self.graph.rows(TABLES)
        return self.rows

    def extractor(self) -> Extractor:
        """The cheapest term of every class at this moment."""
        return Extractor(self.read(), self.forms, self.loader)

    def costs(self) -> tuple[int, ...]:
        """The cost of the cheapest term of each root."""
        extractor = self.extractor()
        return tuple(extractor.cost(self.graph.find(r)) for r in self.roots)

    def best(self, root: int) -> Term:
        """The cheapest term that is equal to a root."""
        return self.extractor().term(self.graph.find(self.roots[root]))
