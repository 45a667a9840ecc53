"""A result in words: what was gained, what is left and why, what was checked, what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from eqsat.checking.verdict import Checked
from eqsat.extraction.left import Move
from eqsat.reporting.sides import Side, Vertex, moves_of

SHOWN = 5
"""Moves that are left of which the summary tells."""
SMALL = 0.995
"""Shares above this are not spoken of as a gain in per cent."""


@dataclass(frozen=True)
class Row:
    """Operators of one kind before and after: how many, the bytes that they move, their estimated picoseconds."""

    kind: str
    nodes: tuple[int, int]
    moved: tuple[int, int]
    picoseconds: tuple[int, int] | None

    @property
    def changed(self) -> bool:
        """Whether anything differs."""
        times = self.picoseconds or (0, 0)
        return self.nodes[0] != self.nodes[1] or self.moved[0] != self.moved[1] or times[0] != times[1]


@dataclass(frozen=True)
class Advice:
    """How options are named where the reader can give them, and which of them are of use."""

    time: str = "limits=eq.Limits(seconds=...)"
    nodes: str = "limits=eq.Limits(nodes=...)"
    sizes: str = "eq.symbol sizes as numbers"
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Taken:
    """The laws by which a region was changed (None: not found in the time), of which, if `least`, none can be left out,
    and their side conditions: the question, the verdict, the method."""

    laws: tuple[str, ...] | None = None
    least: bool = False
    conditions: Sequence[tuple[str, str, str]] = ()

    @property
    def told(self) -> str:
        """The laws in words."""
        if self.laws is None:
            return "its laws were not found in the time"
        if not self.laws:
            return "by no law of its own"
        names = ", ".join(self.laws)
        return f"by {names}, none of which can be left out" if self.least else f"by {names}, or some of them"


@dataclass(frozen=True)
class Report:
    """Everything that is said of a result: costs under its objective (picoseconds or bytes), both programs, the limit
    that stopped the search ('' where none did), what is left, and what was checked."""

    objective: str
    costs: tuple[int, int]
    before: Side
    after: Side
    status: str
    stopped: str
    gap: float | None
    seconds: float
    iterations: int
    e_nodes: int
    left: Sequence[Move]
    checked: Checked
    notes: Sequence[str] = ()
    conditions: Sequence[tuple[str, str, str]] = ()
    """Side conditions: the question, the verdict, the method."""
    rules: Mapping[str, int] = field(default_factory=dict[str, int])
    prices: str = ""
    history: Sequence[tuple[float, int]] = ()
    """The e-nodes of the search over its seconds."""
    laws: Sequence[tuple[str, str, str, str, int]] = ()
    """The laws that acted: name, statement, what it says, status, how often it matched."""
    needed: Literal["", "some", "least"] = ""
    """Whether `laws` are those that are needed: with none of them left out (least), or perhaps more (some)."""
    same: bool = False
    """Whether the result is the program as it was given."""
    refused: str = ""
    """Why a better result that was found is not taken."""
    inside: Sequence[tuple[str, Report]] = ()
    """The reports of bodies, which are programs of their own and in no figure of this one, by what they are."""
    taken: Sequence[Taken] = ()
    """For each region that was checked, the laws by which it was changed; nothing where they were not asked for."""

    @property
    def share(self) -> float:
        """The cost of the result as a share of what it was."""
        return self.costs[1] / self.costs[0] if self.costs[0] else 1.0

    @property
    def rows(self) -> tuple[Row, ...]:
        """A row for each kind of operator, those that move the most bytes first."""
        return rows_of(self.before, self.after)

    @property
    def changed_moves(self) -> tuple[list[Vertex], list[Vertex]]:
        """The moves that are gone, and those that are new."""
        gone, new = moves_of(self.before, self.after), moves_of(self.after, self.before)
        if self.checked.regions and not self.checked.skipped:  # what is in no region is the same under another name
            before, after = {k for r in self.checked for k in r.before}, {k for r in self.checked for k in r.after}
            gone, new = [v for v in gone if v.key in before], [v for v in new if v.key in after]
        return gone, new

    @property
    def removed(self) -> list[tuple[Vertex, int | None]]:
        """The moves that are gone, each with the place of its region among those that were checked."""
        places = {key: n for n, region in reversed(list(enumerate(self.checked))) for key in region.before}
        return [(v, places.get(v.key)) for v in self.changed_moves[0]]

    @property
    def verdict(self) -> str:
        """What was gained, in a line."""
        if self.checked.difference is not None:
            return "unchanged: what was found differs from the input, a defect of eqsat that was noticed in time"
        if not self.same:
            return self._gain()
        better = [r for _, r in self.inside if r.improved]
        if better:
            old, new = sum(r.moves[0] for r in better), sum(r.moves[1] for r in better)
            return f"better parts: {_gone(old, new)} in {len(better)} of {len(self.inside)}"
        if not self.moves[0] and not self.stopped and not self.refused:
            return "nothing to do: no operator moves data"
        if self.refused:
            return f"unchanged: {self.refused}"
        if self.stopped:
            return f"unchanged: {self._gave_up()}"
        if self.gap == 0:
            return f"already optimal: nothing that the rules reach {self._costs_less()}"
        return f"unchanged: nothing was found that {self._costs_less()}"

    @property
    def improved(self) -> bool:
        """Whether the result, or a body in it, is better than what was given."""
        return not self.same or any(r.improved for _, r in self.inside)

    @property
    def moves(self) -> tuple[int, int]:
        """The moves before and after, with those in bodies."""
        before, after = self.before.moves, self.after.moves
        return before + sum(r.moves[0] for _, r in self.inside), after + sum(r.moves[1] for _, r in self.inside)

    def _costs_less(self) -> str:
        return "takes less time" if self.objective == "time" else "moves fewer bytes"

    def _gave_up(self) -> str:
        places = {
            "time-limit": f"gave up after {self.seconds:.3g} s",
            "node-limit": f"gave up at {count(self.e_nodes)} e-nodes",
            "memory-limit": "gave up where memory was over",
            "iteration-limit": f"gave up after {self.iterations} iterations",
        }
        return places.get(self.stopped, f"stopped by the {self.stopped}")

    def _gain(self) -> str:
        gone = _gone(self.before.moves, self.after.moves)
        stop = f"; the search {self._gave_up()}" if self.stopped else ""
        if self.costs[1] > self.costs[0]:
            more = f" by {100 * (self.share - 1):.0f} %" if self.costs[0] else ""
            what = f"slower{more}, as estimated" if self.objective == "time" else f"more bytes moved{more}"
            gone = f"{_moves(self.after.moves)} instead of {self.before.moves}"
            return f"{what}, for the layouts that were given: {gone}{stop}"
        if self.share > SMALL:
            return f"a little better: {gone}{stop}"
        percent = f"{100 * (1 - self.share):.0f} %"
        if self.objective == "time":
            return f"faster by an estimated {percent}: {gone}{stop}"
        moved = "no bytes are moved any more" if not self.costs[1] else f"{percent} fewer bytes moved"
        return f"{moved}: {gone}{stop}"

    def next_steps(self, advice: Advice) -> list[str]:
        """What the reader can do now, the most useful first."""
        steps: list[str] = []
        if self.stopped == "time-limit":
            steps.append(f"allow more time: {advice.time}")
        elif self.stopped == "node-limit":
            steps.append(f"allow a larger e-graph: {advice.nodes}")
        own = [m for m in self.left if not m.inside]
        tied = {m.reason.partition(" is given")[0] for m in own if " is given in its order" in m.reason}
        wanted = [m for m in own if "is wanted in its order" in m.reason]
        if tied or wanted:
            ends = " and ".join([x for x, there in (("inputs", tied), ("outputs", wanted)) if there])
            steps.append(f"moves at {ends} go where the program may take or give them in another order")
        if any("not proved" in m.reason for m in self.left):
            steps.append(f"a condition was not proved: give {advice.sizes}")
        return [*steps, *advice.others]

    def data(self, advice: Advice | None = None) -> dict[str, Any]:
        """As plain data; times in microseconds."""
        names = names_of(self.after)
        rows = [
            {
                "operator": r.kind,
                "nodes": list(r.nodes),
                "bytes": list(r.moved),
                "estimated_us": None if r.picoseconds is None else [microseconds(t) for t in r.picoseconds],
            }
            for r in self.rows
        ]
        return {
            "verdict": self.verdict,
            "objective": self.objective,
            "cost_before": self.costs[0],
            "cost_after": self.costs[1],
            "operators": rows,
            "nodes": [len(self.before.operators), len(self.after.operators)],
            "moves": [self.before.moves, self.after.moves],
            "size": [self.before.size, self.after.size],
            "removed": [self._removed(v, place) for v, place in self.removed],
            "left": [{**asdict(move), "node": names.get(move.name, move.name)} for move in self.left],
            "checked": self.checked.data(),
            "inside": [{"part": part, **r.data(advice)} for part, r in self.inside],
            "notes": list(self.notes),
            "next": self.next_steps(advice or Advice()),
        }

    def _removed(self, move: Vertex, place: int | None) -> dict[str, Any]:
        number = None if place is None else place + 1  # as the page counts them
        found: dict[str, Any] = {"node": move.key, "operator": move.kind, "bytes": move.moved, "region": number}
        if place is not None:
            check = self.checked.regions[place]
            found |= {"checked": check.verdict, "reason": check.reason, "in_its_place": list(check.after)}
        if place is not None and self.taken:
            taken = self.taken[place]
            asked = [{"question": q, "verdict": v, "method": m} for q, v, m in taken.conditions]
            laws = None if taken.laws is None else list(taken.laws)
            found |= {"laws": laws, "least": taken.least, "conditions": asked}
        return found

    def text(self, advice: Advice | None = None, verbose: bool = False) -> str:
        """The whole summary; verbose: with the rules that acted and every side condition."""
        return "\n".join([self.verdict, *self.lines(advice or Advice(), verbose)])

    def lines(self, advice: Advice, verbose: bool = False) -> Iterator[str]:
        """The summary below its first line."""
        yield from self._table()
        yield from self._left()
        yield from (f"  {part}: {r.verdict}; checked: {r.checked.summary()}" for part, r in self.inside)
        yield f"  checked{', outside of these' if self.inside else ''}: {self.checked.summary()}"
        optimal = "; the result is the cheapest of the e-graph" if self.gap == 0 else ""
        stop = f" ({self.status})" if self.status != "saturated" else ", to the end"
        yield f"  search: {self.iterations} iterations{stop}, {count(self.e_nodes)} e-nodes{optimal}"
        if verbose:
            yield from self._verbose()
        yield from (f"  note: {note}" for note in self.notes)
        yield from (f"  next: {step}" for step in self.next_steps(advice))

    def _table(self) -> Iterator[str]:
        timed = any(r.picoseconds is not None for r in self.rows)
        shown = [r for r in self.rows if r.changed or any(r.moved)]
        heads = ["operator", "nodes", "bytes moved", *(["estimated us"] if timed else [])]
        lines = [_cells(r.kind, r.nodes, r.moved, r.picoseconds) for r in shown]
        rest = [r for r in self.rows if r not in shown]
        if rest:
            many = sum(r.nodes[0] for r in rest)
            times = _times(rest)
            lines.append(_cells("others, as before" if shown else "all, as before", (many, many), (0, 0), times))
        ends = (len(self.before.operators), len(self.after.operators))
        moved = (sum(v.moved for v in self.before.vertices), sum(v.moved for v in self.after.vertices))
        times = (self.costs[0], self.costs[1]) if self.objective == "time" else _times(self.rows)
        lines.append(_cells("together", ends, moved, times))
        rows = [heads, *([c for c in line][: len(heads)] for line in lines)]
        widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]
        for row in rows:
            cells = [row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))]
            yield f"  {'  '.join(cells)}".rstrip()
        if self.before.size or self.after.size:
            yield f"  size: {arrow((self.before.size, self.after.size))} bytes"

    def _left(self) -> Iterator[str]:
        names = names_of(self.after)
        if not self.left:
            yield "  left: no move"
        for move in self.left[:SHOWN]:
            yield f"  left: {move.told(names.get(move.name, move.name))}"
        if len(self.left) > SHOWN:
            rest = sum(move.moved for move in self.left[SHOWN:])
            yield f"  left: {len(self.left) - SHOWN} more, {count(rest)} bytes (the report and JSON list them)"

    def _verbose(self) -> Iterator[str]:
        for v, place in self.removed if self.taken else ():
            if place is not None:
                check, taken = self.checked.regions[place], self.taken[place]
                yield f"  gone: {v.kind} {v.name or v.tensor!r}, {count(v.moved)} bytes, {taken.told} [{check.verdict}]"
        if self.rules:
            yield "  rules that matched, and how often:"
            yield from (f"    {name}: {count(times)}" for name, times in self.rules.items())
        if self.conditions:
            yield "  side conditions:"
            yield from (f"    {verdict} ({method}): {question}" for question, verdict, method in self.conditions)
        if self.prices:
            yield f"  prices of time: {self.prices}"


def _moves(number: int) -> str:
    return f"{number} move{'s' * (number != 1)}"


def _gone(old: int, new: int) -> str:
    """How many moves there were and are."""
    if new < old:
        return f"{old - new} of {old} moves gone"
    return f"{_moves(new)}, as before" if new == old else f"{_moves(new)} instead of {old}, cheaper ones"


def rows_of(before: Side, after: Side) -> tuple[Row, ...]:
    """A row for each kind of operator, those that move or moved the most bytes first."""
    kinds = dict.fromkeys(v.kind for side in (before, after) for v in side.operators)
    rows = [_row(kind, before, after) for kind in kinds]
    return tuple(sorted(rows, key=lambda r: (-max(r.moved), -max(r.picoseconds or (0, 0)))))


def _row(kind: str, before: Side, after: Side) -> Row:
    sides = [[v for v in side.operators if v.kind == kind] for side in (before, after)]
    nodes, moved = [len(s) for s in sides], [sum(v.moved for v in s) for s in sides]
    timed = all(v.picoseconds is not None for s in sides for v in s)
    times = [sum(v.picoseconds or 0 for v in s) for s in sides]
    return Row(kind, (nodes[0], nodes[1]), (moved[0], moved[1]), (times[0], times[1]) if timed else None)


def _times(rows: Sequence[Row]) -> tuple[int, int] | None:
    if any(r.picoseconds is None for r in rows):
        return None
    return sum((r.picoseconds or (0, 0))[0] for r in rows), sum((r.picoseconds or (0, 0))[1] for r in rows)


def _cells(kind: str, nodes: tuple[int, int], moved: tuple[int, int], times: tuple[int, int] | None) -> list[str]:
    us = "" if times is None else arrow((microseconds(times[0]), microseconds(times[1])))
    return [kind, arrow(nodes), arrow(moved), us]


def names_of(side: Side) -> Mapping[str, str]:
    """The operators that make tensors, by kind and by their own names where they have some."""
    return {v.tensor: _named(v) for v in side.vertices}


def _named(vertex: Vertex) -> str:
    return f"{vertex.kind} {vertex.name or vertex.tensor!r}"


def arrow(pair: tuple[float, float]) -> str:
    """Two numbers, or the one that both are.

    >>> arrow((1200, 7)), arrow((3, 3))
    ('1,200 -> 7', '3')
    """
    return count(pair[0]) if pair[0] == pair[1] else f"{count(pair[0])} -> {count(pair[1])}"


def count(number: float) -> str:
    """A number with its thousands apart: 8,086,528."""
    return f"{number:,}"


def microseconds(picoseconds: int) -> float:
    """Picoseconds as microseconds, to a tenth."""
    return round(picoseconds / 1e6, 1)
