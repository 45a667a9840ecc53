"""Why two index terms are equal: a smallest set of named rules, and the steps of the normaliser where it finds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.index_graph.graph import IndexGraph, Limits
from eqsat.index_graph.reversed import SUFFIX, both_ways
from eqsat.ir.rule import Rule
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.proving.read import read
from eqsat.rewriting.rewrite import Rewriter, RuleStep
from eqsat.rulebook import default_rules
from eqsat.workers.call import WorkerLimit, call

LIMITS = Limits(rows=10_000, iterations=12, seconds=20.0)  # rows and iterations end it before
WORKER_MODULES = ("eqsat.graph.egglog_bindings",)
COMPACT = frozenset(("normal", "compact"))
SECONDS, MEMORY_MB = 60.0, 4096  # for all graphs of one explanation


@dataclass(frozen=True, eq=False)
class Explanation(Record):
    """Whether two terms were found equal, the rules that are needed, and how each term is rewritten to a common one.

    `steps` are (first, second): rewrites of subterms in the order made; empty where the e-graph alone found it.
    """

    equal: bool
    rules: tuple[str, ...] = ()
    steps: tuple[tuple[RuleStep, ...], tuple[RuleStep, ...]] = ((), ())
    common: Term | None = None

    def __str__(self) -> str:
        if not self.equal:
            return "not found equal"
        lines = [f"by {', '.join(self.rules)}" if self.rules else "the same term"]
        for name, steps in zip(("first", "second"), self.steps, strict=True):
            lines += [f"  {name}: {step}" for step in steps]
        return "\n".join(lines + ([f"  both: {self.common}"] if self.common is not None else []))


def explain_terms(
    a: Any, b: Any, ranges: Mapping[Any, Any] | None = None, rules: Sequence[Rule] | None = None
) -> Explanation:
    """Explain why two terms (or texts) are equal in the ranges, by a set of rules none of which can be left out.

    rules: those to use, omitted: all of `eqsat.rules`.

    >>> print(explain_terms("x // 4 * 4 + x % 4 + y", "x + y").rules)
    ('split-merge',)
    """
    (first, second), box = read([a, b], ranges)
    closed: dict[Term, tuple[int, int]] = {}
    ends: dict[Term, Any] = {}
    for leaf, (start, stop) in box.items():
        if start is not None and stop is not None:
            closed[leaf] = (start, stop)
        if start is not None or stop is not None:
            ends[leaf] = (-math.inf if start is None else start, math.inf if stop is None else stop)
    if first is second:
        return Explanation(True, common=first)

    def meets(rules: Sequence[Rule]) -> tuple[Term, list[RuleStep], list[RuleStep]] | None:
        rewriter = Rewriter(rules)
        left, right = list[RuleStep](), list[RuleStep]()
        normal = rewriter.normalise(first, ends, left)
        return (normal, left, right) if rewriter.normalise(second, ends, right) is normal else None

    every = default_rules() if rules is None else list(rules)
    compact = [r for r in every if r.tags & COMPACT]
    found = meets(compact)
    if found is not None:
        used = {step.rule for step in (*found[1], *found[2])}
        needed = smallest([r for r in compact if r.name in used], lambda rules: meets(rules) is not None)
        shortest = meets(needed) or found
        names = tuple(r.name for r in needed)
        return Explanation(True, names, (tuple(shortest[1]), tuple(shortest[2])), shortest[0])
    needed_names = _by_graph(first, second, closed, tuple(every))
    return Explanation(False) if needed_names is None else Explanation(True, needed_names)


Asked = tuple[Term, Term, Mapping[Term, tuple[int, int]], tuple[Rule, ...] | None]


def _by_graph(
    a: Term, b: Term, ranges: Mapping[Term, tuple[int, int]], rules: tuple[Rule, ...]
) -> tuple[str, ...] | None:
    """The rules that make two terms equal in an e-graph, or None; in a worker, where egglog is safe from threads."""
    question: Asked = (a, b, dict(ranges), None if rules == tuple(default_rules()) else rules)
    try:
        return call("eqsat.index_graph.explain:graph_job", question, seconds=SECONDS, memory_mb=MEMORY_MB)
    except WorkerLimit as limit:  # rules that suffice may be known already, if not that each is needed
        return limit.last


def graph_job(question: Asked, report: Callable[[tuple[str, ...]], None]) -> tuple[str, ...] | None:
    """The rules of a smallest set with which the e-graph finds two terms equal; reports the first set that does."""
    a, b, ranges, given = question
    every = default_rules() if given is None else given
    outcome = _joins(a, b, ranges, every)
    if outcome is None:
        return None
    candidates = [r for r in every if r.name in outcome]
    report(tuple(r.name for r in candidates))
    needed = smallest(candidates, lambda rules: _joins(a, b, ranges, rules) is not None)
    return tuple(r.name for r in needed)


def _joins(a: Term, b: Term, ranges: Mapping[Term, tuple[int, int]], rules: Sequence[Rule]) -> set[str] | None:
    """The rules that matched when the e-graph made two terms equal, or None where it did not."""
    with IndexGraph(both_ways(rules), ranges) as graph:
        roots = graph.add(a), graph.add(b)
        outcome = graph.run(LIMITS, target=roots)
        return {name.removesuffix(SUFFIX) for name in outcome.matches} if graph.equal(*roots) else None


def smallest(items: Sequence[Rule], works: Callable[[Sequence[Rule]], bool]) -> list[Rule]:
    """A subset that works and of which no item can be left out (ddmin)."""
    kept, parts = list(items), 2
    while len(kept) >= 2 and parts <= len(kept):
        size = -(-len(kept) // parts)
        for start in range(0, len(kept), size):
            rest = kept[:start] + kept[start + size :]
            if works(rest):
                kept, parts = rest, max(2, parts - 1)
                break
        else:
            if parts == len(kept):
                break
            parts = min(len(kept), parts * 2)
    return [] if len(kept) == 1 and works([]) else kept
