"""The second stage of `simplify`: an e-graph that holds a term and what the rewriter made of it, under small limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from eqsat.graph.egglog_adapter import usable
from eqsat.index_graph.graph import IndexGraph, Limits
from eqsat.index_graph.reversed import both_ways
from eqsat.ir.ranges.box_values import BoxValues
from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.rewriting.context import Context
from eqsat.workers.call import WorkerLimit, call

FUSE = 10.0  # seconds; rows and iterations end the search before, so that the answer is the same on every machine
LIMITS = Limits(rows=2_000, iterations=6, seconds=FUSE, patience=2)
LARGE = Limits(rows=8_000, iterations=8, seconds=FUSE, patience=3)
MOST_HERE, MOST = 120, 400  # nodes of a question that is answered here, and of one that is answered at all
SECONDS, MEMORY_MB = 20.0, 2048
WORKER_MODULES = ("eqsat.graph.egglog_bindings",)
_DIVISIONS = frozenset(("floordiv", "mod", "truncdiv", "truncmod"))
_CHOICES = frozenset(("min", "max", "where"))


def may_be_stuck(term: Term) -> bool:
    """Whether a normal form has what rules in one direction may not see through: a choice, two divisions, one that is
    subtracted, or one with numbers added before and after it.

    >>> i, j = t.var("i"), t.var("j")
    >>> may_be_stuck(i // 4 + j), may_be_stuck(i // 4 + j % 3), may_be_stuck(7 - i % 8), may_be_stuck((i + 3) // 4 - 1)
    (False, True, True, True)
    """
    divisions = 0
    for node in postorder(term):
        divisions += node.op in _DIVISIONS
        if divisions > 1 or node.op in _CHOICES or (node.op == "sum" and _is_odd(node)):
            return True
    return False


def _is_odd(a: Term) -> bool:
    constant, items = t.linear_parts(a)
    return any(x.op in _DIVISIONS and (k < 0 or (constant and t.linear_parts(x.args[0])[0])) for k, x in items)


@dataclass(frozen=True, eq=False)
class Known(Record):
    """What may be used: half-open ranges of the leaves, small ones of which all points are looked at, an assumption,
    and rules (None: all of `eqsat.rules`)."""

    ranges: Mapping[Term, Any]
    points: Mapping[Term, tuple[int, int]] | None = None
    given: Term | None = None
    rules: tuple[Rule, ...] | None = None

    def facts(self) -> Context:
        """The same as the normaliser knows it."""
        top = Context(self.ranges, {}, 0, None if self.points is None else BoxValues(self.points))
        return top if self.given is None or self.given.op == "const" else top.under(self.given)


def other_form(term: Term, found: Term, known: Known, facts: Context | None = None) -> Term:
    """The cheapest form of a term and an equal one that an e-graph finds; `facts`: those of `known`, if there already.

    Raises Unsound where the rules and facts contradict each other.

    >>> i = t.var("i", 100)
    >>> e = (-((i + 13) // 16)) % 224 * 16 + (2 - i) % 16
    >>> str(other_form(e, e, Known({})))
    '(2 - i) % 3584'
    """
    size = sum(1 for _ in postorder(term, found))
    if size > MOST:
        return found
    if size <= MOST_HERE and usable():
        return best_form(term, found, known, facts or known.facts(), LIMITS)
    question = (term, found, known, LIMITS if size <= MOST_HERE else LARGE)
    try:
        return call("eqsat.index_graph.stage:stage_job", question, seconds=SECONDS, memory_mb=MEMORY_MB)
    except WorkerLimit:  # then the rewriter's answer stands
        return found


def stage_job(question: tuple[Term, Term, Known, Limits], report: Callable[[Any], None]) -> Term:
    """The job of a worker: a large question, or one of a process that may not use egglog."""
    term, found, known, limits = question
    return best_form(term, found, known, known.facts(), limits)


def best_form(term: Term, found: Term, known: Known, facts: Context, limits: Limits) -> Term:
    """The cheapest form of two equal terms in an e-graph."""
    with IndexGraph(None if known.rules is None else both_ways(known.rules), facts=facts) as graph:
        if known.given is not None:
            graph.state(known.given)
        root = graph.add(found)
        if term is not found:
            graph.unite(graph.add(term), root)
        graph.run(limits)
        return graph.best(root)
