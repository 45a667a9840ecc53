"""The cheapest function that the laws of statements make equal to a function."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.graph.egglog_adapter import Call, EGraph, Row, usable
from eqsat.ir import clock
from eqsat.ir.statements.law import PLACED, QUESTIONS, STATEMENTS, StatementLaw
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, Stmt, statements
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.passes.cost import cheaper, cost
from eqsat.passes.effects import vague_buffers
from eqsat.passes.flow import entry
from eqsat.passes.no_op import without_idle_buffers
from eqsat.passes.paths import tidy, with_body
from eqsat.rules.statement_laws import STATEMENT_LAWS
from eqsat.statement_graph.answers import Answers
from eqsat.statement_graph.extract import Extractor
from eqsat.statement_graph.heads import Heads
from eqsat.statement_graph.named import Classes, Named
from eqsat.statement_graph.places import Place
from eqsat.statement_graph.schema import NAMED, ROOT, asked, rules, schema
from eqsat.statement_graph.snapshot import Snapshot
from eqsat.workers.call import call

ASKED = (NAMED, *STATEMENTS, *map(asked, QUESTIONS))
TABLES = (*STATEMENTS, *PLACED)
SECONDS, MEMORY_MB = 60.0, 4096


@dataclass(frozen=True)
class Limits:
    """Where a search stops: rows of the graph and questions, for each hundred statements of the function that is
    begun; rounds; and seconds, which are for what hangs, as a search that they end may end elsewhere next time."""

    rows: int = 3_000
    questions: int = 2_000
    rounds: int = 200
    seconds: float = SECONDS


@dataclass(frozen=True, eq=False)
class Optimized(Record):
    """A function, what it cost before and after, how often each law matched, and how the search ended."""

    func: PrimFunc
    cost_before: Term
    cost_after: Term
    laws: Mapping[str, int]
    status: str
    reordered: tuple[str, ...] = ()


class StatementGraph:
    """The statements of one function, and what laws make equal to them."""

    def __init__(self, func: PrimFunc, laws: Iterable[StatementLaw] = STATEMENT_LAWS) -> None:
        known = entry(func)
        self.size = sum(1 for _ in statements(func.body))
        self.heads = Heads()
        self.answers = Answers(self.heads, known, frozenset(vague_buffers(func)))
        self.graph = EGraph()
        self.graph.run(schema())
        self.graph.run(rules(laws))
        top = self.heads.places.number(Place(known))
        body = self.heads.canonical(tidy(func.body))
        self.names = Named()
        whole = Call("At", (top, self.heads.expression(body, self.names.of)))
        written = list(self.heads.written(body, self.names.of))
        self.graph.apply([], [*self.names.new(), (Call(ROOT, ()), whole)], [], [])
        self.graph.insert(written)
        self.laws: Counter[str] = Counter()
        self._interned: dict[Any, Stmt] = {}
        self._answered: set[tuple[Any, ...]] = set()

    def run(self, limits: Limits) -> str:
        """Apply the laws and answer their questions until neither says anything new, or to a limit."""
        end, hundreds = time.monotonic() + limits.seconds, -(-self.size // 100)
        seen: set[tuple[int, ...]] = set()  # rows that a law removes may come again: then sizes do, too
        for _ in range(limits.rounds):
            while self._step("(saturate (run places))", end) and time.monotonic() < end:
                clock.check()
            asked_anew, tables = self._step("(run statements)", end), self.graph.tables()
            sizes = tuple(self.graph.size([table], tables) for table in TABLES)
            if not asked_anew and sizes in seen:
                return "saturated"
            seen.add(sizes)
            if time.monotonic() > end:
                return "time-limit"
            if sum(sizes) > limits.rows * hundreds:
                return "row-limit"
            if len(self._answered) > limits.questions * hundreds:
                return "question-limit"
        return "round-limit"

    def _step(self, schedule: str, end: float) -> bool:
        """Run some rules and answer what they ask; whether anything was asked that was not asked before."""
        report = self.graph.run(f"(run-schedule {schedule})")
        for name, times in report.num_matches_per_rule.items():
            self.laws[name.strip('"').split("/")[0]] += times
        return self._answer(self.graph.rows(ASKED), end)

    def _answer(self, rows: Mapping[str, Sequence[Row]], end: float) -> bool:
        """Answer the questions that wait; whether there were any."""
        snapshot = Snapshot(rows, self.heads, self._interned)
        named = Classes(rows[NAMED], snapshot, self.names)
        facts, done, new = list[Call](), list[Call](), False
        for question in QUESTIONS:
            for row in rows[asked(question)]:
                done.append(Call(asked(question), named.all(row.args)))
                waiting = [(question, row.args)]
                while waiting:
                    if time.monotonic() > end:
                        return new
                    what, given = waiting.pop()
                    key = (what, *(a if isinstance(a, int) else id(snapshot.statement(a)) for a in given))
                    if key in self._answered:
                        continue
                    self._answered.add(key)
                    new = True
                    for answer in self.answers.answer(what, given, snapshot):
                        made = (a if isinstance(a, int) else self.heads.expression(a, self.names.of) for a in answer)
                        facts.append(Call(what, (*named.all(given), *made)))
                        waiting += snapshot.further(what, given, answer)
        self.graph.apply([], self.names.new(), [], [])
        self.graph.apply(facts, [], [], done)
        return new

    def extractor(self) -> Extractor:
        """The cheapest statement of each class at this moment."""
        return Extractor(self.graph.rows(TABLES), self.heads)

    def root(self) -> Any:
        """The class of the whole function."""
        return self.graph.find(Call(ROOT, ()))

    def placed(self) -> Sequence[Row]:
        """All statements at places; the first argument of each is its place."""
        return [row for rows in self.graph.rows(list(PLACED)).values() for row in rows]

    def best(self) -> Stmt | None:
        """The cheapest statement that is equal to the function's body; None where a limit came before any was read."""
        extractor, root = self.extractor(), self.root()
        return self.heads.names.given_back(extractor.statement(root)) if root in extractor.best else None

    def close(self) -> None:
        """Give up the graph."""
        self.graph.close()


def optimize_statements(
    func: PrimFunc, declared: Iterable[StatementLaw] = STATEMENT_LAWS, limits: Limits | None = None
) -> Optimized:
    """The cheapest function that laws of statements make equal to a function; itself where none is cheaper.

    Branches are hoisted, joined, decided or removed by computing more, loops merged, split and made smaller, stores
    left out that make no difference: in whatever order, and only as far as it pays. The cost is that of
    `eqsat.passes.cost`; of equal ones, the function with fewer iterations and statements is taken.

    >>> f = PrimFunc.parse('''func f(A: int32[16], B: int32[16], c: int32[1])
    ...   for i in 16:
    ...     A[i] = int32(0)
    ...   for j in 16:
    ...     if c[0] < int32(1):
    ...       B[j] = A[j] + int32(2)''')
    >>> print(optimize_statements(f).func)
    func f(A: int32[16], B: int32[16], c: int32[1])
      for i in 16:
        A[i] = int32(0)
      if c[0] < int32(1):
        for j in 16:
          B[j] = int32(2)
    """
    if not usable():
        question = (func, tuple(declared), limits or Limits())
        return call("eqsat.statement_graph.optimize:job", question, seconds=2 * SECONDS, memory_mb=MEMORY_MB)
    graph = StatementGraph(func, declared)
    try:
        status = graph.run(limits or Limits())
        found = graph.best()
    finally:
        graph.close()
    new = func if found is None else with_body(func, without_idle_buffers(tidy(found)))
    before, after = cost(func), cost(new)
    if not cheaper(after, before) and not (after is before and _size(new) < _size(func)):
        new, after = func, before
    laws = {name: times for name, times in graph.laws.items() if times and not name.startswith("ask ")}
    return Optimized(new, before, after, laws, status, tuple(graph.answers.reordered) if new is not func else ())


def job(question: tuple[PrimFunc, Sequence[StatementLaw], Limits], report: Callable[[Any], None]) -> Optimized:  # pyright: ignore[reportUnusedParameter]
    """The job of a worker, for a process that may not use egglog."""
    del report
    return optimize_statements(*question)


def _size(func: PrimFunc) -> tuple[int, int]:
    """Loops, and all statements."""
    found = list(statements(func.body))
    return sum(isinstance(stmt, For) for stmt in found), len(found)
