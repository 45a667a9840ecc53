"""Index e-graphs that are used again: the rules are loaded once, and all rows are deleted after each question.

An egglog graph belongs to the thread that made it, so each thread has a pool of its own; a process that was forked from
one that had used egglog has none (`egglog_adapter.usable`). Loading the rules takes many times as long as a question,
and so does copying a graph (`push`), whatever it holds; deleting the rows does not. A question leaves a few bytes for
each of its classes, so a graph is given up after some thousands, and wherever something went wrong in it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from eqsat.graph.egglog_adapter import Call, EGraph
from eqsat.index_graph.compile import NotCompiled, compile_rule, may_grow
from eqsat.index_graph.reversed import both_ways
from eqsat.index_graph.schema import schema
from eqsat.ir.rule import Rule
from eqsat.rewriting.rewrite import Rewriter
from eqsat.rules import scalar_rules

MOST_QUESTIONS = 4_000
MOST_REWRITERS = 8
MOST_KEPT = 3  # engines that wait for the next question in one thread
KEPT_TABLES = frozenset(("on",))  # which rules act: it stays as it is from question to question


class Engine:
    """An e-graph with all rules loaded, of which some are switched on.

    `names` are the rules in order; `skipped` says why a rule is not matched by egglog.
    """

    def __init__(self, all_rules: Sequence[Rule]) -> None:
        self.all_rules = tuple(all_rules)
        self.names = [rule.name for rule in self.all_rules]
        self.skipped: dict[str, str] = {}
        self.graph = EGraph()
        self.graph.run(schema())
        texts: list[str] = []
        for number, rule in enumerate(self.all_rules):
            try:
                texts.append(compile_rule(rule, number))
            except NotCompiled as error:
                self.skipped[rule.name] = str(error)
        self.graph.run("\n\n".join(texts))
        self.compiled = frozenset(self.names) - self.skipped.keys()
        self.growing = frozenset(rule.name for rule in self.all_rules if may_grow(rule))
        self.graph.run(wiping(self.graph))
        self.on: frozenset[int] = frozenset()
        self.rewriters: dict[frozenset[int], Rewriter] = {}
        self.everything = frozenset(range(len(self.all_rules)))
        self.questions = 0

    def matches(self, report: Any) -> dict[str, int]:
        """How often each rule matched in a run."""
        found: dict[str, int] = {}
        for key, count in report.num_matches_per_rule.items():
            if count and key.startswith("rule "):
                name = self.names[int(key[5:])]
                found[name] = found.get(name, 0) + count
        return found

    def rewriter(self) -> Rewriter:
        """The matchers of the rules that are switched on; those of all of them are kept, and of few others."""
        found = self.rewriters.get(self.on)
        if found is None:
            if len(self.rewriters) >= MOST_REWRITERS:
                self.rewriters.pop(next(iter(self.rewriters)))
            found = self.rewriters[self.on] = Rewriter(rule for k, rule in enumerate(self.all_rules) if k in self.on)
        return found

    def switch(self, rules: Iterable[Rule] | None) -> None:
        """Let these rules act (None: all), and no others."""
        if rules is None:
            wanted = self.everything
        else:
            names = {rule.name for rule in rules}
            wanted = frozenset(k for k, name in enumerate(self.names) if name in names)
        self.graph.insert([Call("on", (k,)) for k in sorted(wanted - self.on)])
        self.graph.delete([Call("on", (k,)) for k in sorted(self.on - wanted)])
        self.on = wanted

    def wipe(self) -> None:
        """Delete all rows."""
        self.graph.run("(run-schedule (run wipe))")
        self.questions += 1


def wiping(graph: EGraph) -> str:
    """A rule for each table that deletes its rows."""
    rules = ["(ruleset wipe)"]
    for name, table in sorted(graph.tables().items()):
        if name not in KEPT_TABLES:
            row = f"({name}{''.join(f' a{k}' for k in range(len(table.input_sorts)))})"
            rules.append(f'(rule ({row}) ((delete {row})) :ruleset wipe :name "wipe {name}")')
    return "\n\n".join(rules)


class _Pool(threading.local):
    def __init__(self) -> None:
        self.free: list[Engine] = []


waiting = _Pool()


@cache
def all_ways() -> tuple[Rule, ...]:
    """All rules of `eqsat.rules`, and those that act from right to left."""
    return both_ways(scalar_rules())


def take(rules: Sequence[Rule] | None = None) -> Engine:
    """An engine without rows, with these rules switched on (None: `all_ways`)."""
    all_rules = all_ways()
    if rules is not None and not _within(rules, all_rules):
        all_rules = tuple(rules)
    for k, engine in enumerate(waiting.free):
        if _same(engine.all_rules, all_rules):
            found = waiting.free.pop(k)
            break
    else:
        found = Engine(all_rules)
    found.switch(rules)
    return found


def give_back(engine: Engine, sound: bool) -> None:
    """Keep an engine for the next question, unless something went wrong in it, or it has answered many."""
    if sound and engine.questions < MOST_QUESTIONS:
        engine.wipe()
        waiting.free.insert(0, engine)
        dropped = waiting.free[MOST_KEPT:]
        del waiting.free[MOST_KEPT:]
    else:
        dropped = [engine]
    for one in dropped:
        one.graph.close()


def _within(rules: Sequence[Rule], all_rules: Sequence[Rule]) -> bool:
    known = {rule.name: rule for rule in all_rules}
    return all(known.get(rule.name) is rule for rule in rules)


def _same(a: Sequence[Rule], b: Sequence[Rule]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))
