"""What each rule does to searches over a corpus: matches, time, the rows that it adds, and which ones run away."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from eqsat.engine import optimize
from eqsat.index_graph.graph import Limits
from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.ir.tensors.tensor import Program
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.proving.ranges_text import ranges_of
from eqsat.proving.read import read
from eqsat.research.derive import idle_among
from eqsat.research.runaway import Runaway, diagnose_all
from eqsat.research.saturate import LIMITS, Growth, saturate
from eqsat.rulebook.admitted import NEEDED
from eqsat.rulebook.firings import firings
from eqsat.rules import scalar_rules, tensor_laws

MOST_DIAGNOSED = 3
EVERY = 6  # of the recorded examples one in so many


@dataclass(frozen=True)
class RuleProfile:
    """One rule over the corpus. matches; seconds; rows: of the graphs with the rule, less those without it; entries:
    in how many entries it matched; by_iteration: matches of each iteration."""

    name: str
    matches: int
    seconds: float
    rows: int
    entries: int
    by_iteration: tuple[int, ...] = ()


@dataclass(frozen=True)
class Profile:
    """The rules over a corpus, those that add the most rows first; what ran away, what contradicted itself, and
    why rules that can be matched nowhere are not in it."""

    rules: tuple[RuleProfile, ...]
    growth: Mapping[str, tuple[int, ...]]
    status: Mapping[str, str]
    runaways: tuple[Runaway, ...] = ()
    idle: Mapping[str, str] = field(default_factory=dict[str, str])

    def __getitem__(self, name: str) -> RuleProfile:
        return {r.name: r for r in self.rules}[name]

    def data(self) -> dict[str, Any]:
        """The profile as plain data."""
        reasons = [
            {"culprits": r.culprits, "term": str(r.term), "status": r.status, "rows": r.rows, "without": r.rows_without}
            for r in self.runaways
        ]
        return {
            "rules": [asdict(r) for r in self.rules],
            "growth": dict(self.growth),
            "status": dict(self.status),
            "runaways": reasons,
            "idle": dict(self.idle),
        }

    def to_json(self) -> str:
        """The profile as JSON."""
        return json.dumps(self.data(), indent=1, default=str)

    def __str__(self) -> str:
        lines = [f"{'rule':36}{'matches':>9}{'entries':>9}{'rows':>9}{'ms':>9}  matches by iteration"]
        for r in self.rules:
            counts = " ".join(map(str, r.by_iteration))
            lines.append(f"{r.name:36}{r.matches:9}{r.entries:9}{r.rows:+9}{1000 * r.seconds:9.1f}  {counts}")
        counted = Counter(self.status.values())
        lines.append(", ".join(f"{n} {status}" for status, n in sorted(counted.items())))
        lines += [f"contradiction: {name}" for name, status in self.status.items() if status == "contradiction"]
        lines += [f"runs away: {reason}" for reason in self.runaways]
        lines += [f"acts nowhere: {name}: {reason}" for name, reason in self.idle.items()]
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class _Entry(Record):
    """An entry of the corpus: a name, and how it is run with some rules of ours and of the user."""

    name: str
    run: Callable[[Sequence[Rule | Law]], Growth]
    term: Term | None = None
    ranges: Mapping[Term, tuple[int, int]] = field(default_factory=dict[Term, tuple[int, int]])


def profile(
    corpus: Iterable[Any] | None = None,
    rules: Iterable[Rule | Law] = (),
    *,
    limits: Limits = LIMITS,
    progress: Callable[[str], None] | None = None,
) -> Profile:
    """Saturate each entry of a corpus with all rules of eqsat and these of your own, and without one after the other.

    corpus: expressions as texts, (text, ranges), or programs; omitted: some of the smallest examples of our rules.
    rules: of your own; they need not be proved, as nothing is concluded from what they say. limits: of one search.

    >>> found = profile([("(8*x + y) // 8", {"y": 8})])
    >>> found["div-of-sum"].matches > 0, found.status
    (True, {'(8*x + y) // 8': 'saturated'})
    """
    given = list(rules)
    idle = idle_among(r for r in given if isinstance(r, Rule))
    own = [r for r in given if r.name not in idle]
    tell = progress or _silent
    entries = [_entry(item, limits) for item in (_examples() if corpus is None else corpus)]
    ours: list[Rule | Law] = [*scalar_rules(), *tensor_laws()]
    table: dict[str, list[RuleProfile]] = {}
    growth: dict[str, tuple[int, ...]] = {}
    status: dict[str, str] = {}
    runaways: dict[tuple[str, ...], Runaway] = {}
    for n, entry in enumerate(entries):
        tell(f"{n + 1} of {len(entries)}: {entry.name}")
        grown = entry.run([*ours, *own])
        growth[entry.name], status[entry.name] = grown.rows, grown.status
        for name in grown.total("matches"):
            table.setdefault(name, []).append(_measured(name, grown, entry, [*ours, *own]))
        asked = bool(own) or corpus is not None
        if asked and grown.is_runaway and entry.term is not None and len(runaways) < MOST_DIAGNOSED:
            scalars = [r for r in own if isinstance(r, Rule)]
            for reason in diagnose_all(entry.term, entry.ranges, scalar_rules(), scalars, limits):
                known = runaways.get(reason.culprits)
                if known is None or len(str(reason.term)) < len(str(known.term)):
                    runaways[reason.culprits] = reason
    merged = [_merged(name, rows) for name, rows in table.items()]
    merged.sort(key=lambda r: (-r.rows, -r.matches, r.name))
    return Profile(tuple(merged), growth, status, tuple(runaways.values()), idle)


def _silent(text: str) -> None:
    """Who is told nothing of the progress."""


def _examples() -> list[Any]:
    """The recorded examples in which rules fire in the e-graph."""
    found: dict[str, Any] = {}
    for places in firings().values():
        for where, row in places.items():
            if where == "graph" and "text" in row:
                found[row["text"]] = (row["text"], row.get("ranges", {}))
    return list(found.values())[::EVERY]


def _entry(item: Any, limits: Limits) -> _Entry:
    if isinstance(item, Program):
        name = ", ".join(item.outputs)
        return _Entry(name, lambda rules: _program_growth(item, rules))
    text, ranges = cast(tuple[Any, Any], item) if isinstance(item, tuple) else (item, None)
    (term,), box = read([text], ranges)
    closed = {leaf: (a, b) for leaf, (a, b) in box.items() if a is not None and b is not None}

    def run(rules: Sequence[Rule | Law]) -> Growth:
        return saturate(term, closed, [r for r in rules if isinstance(r, Rule)], limits)

    return _Entry(str(text), run, term, closed)


def _program_growth(program: Program, rules: Sequence[Rule | Law]) -> Growth:
    """A program, searched by some laws; what the search says of the time of each is the time of all."""
    ours = tensor_laws()
    names = [r.name for r in rules if isinstance(r, Law) and any(r is law for law in ours)]
    own = [r for r in rules if isinstance(r, Law) and r.name not in names]
    done = optimize(program, rules=[*dict.fromkeys((*names, *NEEDED)), *own]).progress
    return Growth(done.status, (done.nodes,), (dict(done.matches),), ({},))


def _measured(name: str, grown: Growth, entry: _Entry, rules: Sequence[Rule | Law]) -> RuleProfile:
    """One rule in one entry."""
    matches, seconds = grown.total("matches")[name], grown.total("seconds").get(name, 0.0)
    found = next((r for r in rules if r.name == name), None)
    needed = found is None or (entry.term is None and name in NEEDED)
    without = grown if needed else entry.run([r for r in rules if r is not found])
    by_iteration = tuple(row.get(name, 0) for row in grown.matches)
    return RuleProfile(name, matches, float(seconds), grown.size - without.size, 1, by_iteration)


def _merged(name: str, rows: Sequence[RuleProfile]) -> RuleProfile:
    """One rule over all entries."""
    longest = max(len(r.by_iteration) for r in rows)
    counts = [sum(r.by_iteration[k] for r in rows if k < len(r.by_iteration)) for k in range(longest)]
    while counts and not counts[-1]:
        counts.pop()
    totals = (sum(r.matches for r in rows), sum(r.seconds for r in rows), sum(r.rows for r in rows), len(rows))
    return RuleProfile(name, *totals, tuple(counts))


def corpus_of(lines: Iterable[str]) -> list[tuple[str, dict[str, Any]]]:
    """A corpus from a text: an expression on each line, ranges after a semicolon; # begins a comment.

    >>> corpus_of(["(8*i + j) // 8 ; j=8", "# nothing", ""])
    [('(8*i + j) // 8', {'j': 8})]
    """
    found: list[tuple[str, dict[str, Any]]] = []
    for line in lines:
        text, _, ranges = line.partition("#")[0].partition(";")
        if text.strip():
            found.append((text.strip(), dict(ranges_of(ranges))))
    if not found:
        raise EqsatError("corpus", "has no expression", "write one on each line, for example (8*i + j)//8 ; j=8")
    return found
