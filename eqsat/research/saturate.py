"""One expression, saturated by chosen rules and watched: rows, matches and time, iteration by iteration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqsat.index_graph.graph import IndexGraph, Limits, Unsound
from eqsat.index_graph.reversed import SUFFIX, both_ways
from eqsat.ir.rule import Rule
from eqsat.ir.terms.term import Term

LIMITS = Limits(rows=2_000, iterations=12, seconds=10.0, patience=13)
RUNAWAY = ("row-limit", "iteration-limit", "time-limit")


@dataclass(frozen=True)
class Growth:
    """What happened to one expression: rows after each iteration, and matches and seconds of each rule by iteration.

    status: "saturated", "row-limit", "iteration-limit", "time-limit", or "contradiction" (a rule is wrong).
    """

    status: str
    rows: tuple[int, ...] = ()
    matches: tuple[Mapping[str, int], ...] = ()
    seconds: tuple[Mapping[str, float], ...] = ()

    @property
    def is_runaway(self) -> bool:
        """Whether the rules had not ended where the limits did."""
        return self.status in RUNAWAY

    @property
    def size(self) -> int:
        """The rows at the end."""
        return self.rows[-1] if self.rows else 0

    def total(self, of: str) -> dict[str, Any]:
        """`matches` or `seconds` of each rule over all iterations."""
        found: dict[str, Any] = {}
        for row in getattr(self, of):
            for name, value in row.items():
                found[name] = found.get(name, 0) + value
        return found


@dataclass
class _Watch:
    """Collects what changes from one iteration to the next."""

    graph: IndexGraph
    rows: list[int] = field(default_factory=list[int])
    matches: list[Counter[str]] = field(default_factory=list[Counter[str]])
    seconds: list[dict[str, float]] = field(default_factory=list[dict[str, float]])

    def __post_init__(self) -> None:
        self.graph.terms.seconds = {}
        self.graph.watch = self.iteration

    def iteration(self, number: int, report: Any) -> None:
        """Take down one iteration: what egglog matched itself, and what was matched on terms since the last one."""
        engine, terms = self.graph.engine, self.graph.terms
        assert terms.seconds is not None
        matches = Counter[str]()
        seconds: dict[str, float] = {}

        def spend(name: str, spent: float) -> None:
            name = name.removesuffix(SUFFIX)
            seconds[name] = seconds.get(name, 0.0) + spent

        for name, count in engine.matches(report).items():
            matches[name.removesuffix(SUFFIX)] += count
        for key, spent in report.search_and_apply_time_per_rule.items():
            if key.startswith("rule "):
                spend(engine.names[int(key[5:])], _seconds(spent))
        for name, count in terms.matches.items():
            matches[name.removesuffix(SUFFIX)] += count
        for name, spent in terms.seconds.items():
            spend(name, spent)
        terms.matches.clear()
        terms.seconds.clear()
        self.rows.append(self.graph.size())
        self.matches.append(+matches)
        self.seconds.append(seconds)


def _seconds(spent: Any) -> float:
    return spent.total_seconds() if hasattr(spent, "total_seconds") else float(spent)


def saturate(
    term: Term, ranges: Mapping[Term, tuple[int, int]], rules: Sequence[Rule], limits: Limits = LIMITS
) -> Growth:
    """Saturate one expression and tell what happened.

    >>> from eqsat.rules.split_merge import RULES
    >>> from eqsat.ir.terms.term import var
    >>> growth = saturate(var("x") // 4 * 4 + var("x") % 4, {}, list(RULES))
    >>> growth.status, growth.total("matches")["split-merge"] > 0
    ('saturated', True)
    """
    with IndexGraph(both_ways(rules), ranges) as graph:
        watch = _Watch(graph)
        graph.add(term)
        start = graph.size()
        try:
            status = graph.run(limits).status
        except Unsound:
            status = "contradiction"
            graph.spoiled = True
    return Growth(
        "saturated" if status == "settled" else status, (start, *watch.rows), tuple(watch.matches), tuple(watch.seconds)
    )
