"""The cheapest program of an e-graph, and how much cheaper one could be."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.extraction.beams import Chosen, follow
from eqsat.extraction.bound import least_cost
from eqsat.extraction.budget import Budget
from eqsat.extraction.exact import cost_in, improve
from eqsat.extraction.extract import Alternative, Choice
from eqsat.extraction.frontier import cheapest_in
from eqsat.extraction.local import improved
from eqsat.extraction.parts import Component, Open, Table, take_apart
from eqsat.extraction.rows import Node, Rows, by_class, rows_of
from eqsat.extraction.values import values_of
from eqsat.graph.nodes import ClassId

WORK = 3_000_000
"""The steps of a choice, in all its parts; about a million a second."""
FRONTIER, LOCAL = 0.1, 0.8
"""The shares of a part's work in which all frontiers are followed, and in which a choice is made better."""
WIDTHS = (10, 50, 200)
"""How many choices are followed, one number after the other."""
SOLVED = 1e-7
"""What the integer program may do for a step of that work."""
FEW, ENOUGH = 1_500, 0.7
"""So many steps in question, for which that much work nearly always suffices, and is always allowed."""
SHORTEST = 0.05
"""Seconds below which an integer program is not worth its making."""


@dataclass(frozen=True)
class Extraction:
    """The chosen way of every class that the roots need, needs first; the cost of all of them together; and the least
    that any program of the e-graph costs: the same number where this is the cheapest."""

    choices: Mapping[ClassId, Choice]
    cost: int
    bound: int

    @property
    def gap(self) -> float:
        """How much of the cost may be too much: 0 for an optimum."""
        return (self.cost - self.bound) / self.cost if self.cost > self.bound else 0.0


def cheapest(table: Table, roots: Sequence[ClassId], seconds: float, work: float = WORK) -> Extraction | None:
    """The cheapest program that is found by a fixed amount of work, or in so many seconds; None where a root cannot be
    built.

    >>> from eqsat.extraction.extract import UseForm, UseLeaf
    >>> cheap, dear = Alternative(UseLeaf(0), 1, ()), Alternative(UseForm(0, 0, (1,)), 5, (1,))
    >>> found = cheapest({0: [dear, cheap], 1: [cheap]}, [0], 5.0)
    >>> found.cost, found.gap
    (1, 0.0)
    """
    budget = Budget(work, time.monotonic() + seconds)
    apart = take_apart(table, roots)
    if apart is None:
        return None
    chosen = dict(apart.fixed)
    bound = sum(way.cost for way in apart.fixed.values())
    answers: dict[object, tuple[Question, dict[ClassId, Alternative], int]] = {}
    parts = sorted(apart.parts, key=lambda p: len(p.ways))
    for n, part in enumerate(parts):
        question = _question(part)
        known = answers.get(question.key)
        if known is None:
            share = len(part.ways) / sum(len(p.ways) for p in parts[n:])
            known = answers[question.key] = question, *_answer(part, budget.share(share))
            found = known[1]
        else:
            found = _translated(known[0], known[1], question)
        chosen.update(found)
        bound += known[2]
    choices, cost = _collected(roots, chosen)
    return Extraction(choices, cost, min(bound, cost))


def _answer(part: Component, budget: Budget) -> tuple[dict[ClassId, Alternative], int]:
    """A choice for a part, and the least that any costs."""
    rows, work = rows_of(part), budget.work
    found = cheapest_in(rows, budget.share(FRONTIER))
    if found is not None and rows.whole:
        return _ways(rows, found), found.cost
    trees, values = part.settled(), values_of(part)
    least = max(values.least, *(trees[root][0] for root in part.roots))
    seconds = (budget.deadline - time.monotonic()) / 2
    bound = None if budget.over else least_cost(rows, values, [(c, False) for c in part.roots], seconds)
    prices: Mapping[Node, int] = {}
    if bound is not None:
        least, prices = max(least, bound.cost), bound.prices
    worth = [prices.get(node, 0) for node in rows.order]
    starts = [] if found is None else [found]
    for width, estimate in (*((width, worth) for width in WIDTHS), (WIDTHS[-1], [0] * len(worth))):
        if not any(start.cost <= least for start in starts):
            way = follow(rows.table, rows.start, estimate, width, budget)
            starts += [] if way is None else [way]
    chosen = {c: part.ways[c][n].way for c, (_, n) in trees.items()}
    if starts:
        best = min(starts, key=lambda x: x.cost)
        chosen = _ways(rows, improved(rows, values, best, worth, least, budget.share(LOCAL)))
    cost, left = cost_in(part, chosen), budget.deadline - time.monotonic()
    if least >= cost or left < SHORTEST:
        return chosen, least
    least_work = ENOUGH if sum(map(len, rows.table)) <= FEW else 0.0
    better = improve(part, rows, values, chosen, max(work * SOLVED, least_work), left)
    if better is None:
        return chosen, least
    return better[0] if cost_in(part, better[0]) < cost else chosen, max(least, better[1])


def _ways(rows: Rows, chosen: Chosen) -> dict[ClassId, Alternative]:
    return by_class({rows.order[n]: step for n, (_, _, step) in chosen.rows.items()})


# -- equal parts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Question:
    """A part with its classes in an order that equal parts have too, and the ways of each in such an order."""

    classes: list[ClassId]
    ways: dict[ClassId, list[Open]]
    key: object


def _question(part: Component) -> Question:
    """Parts with one key are equal up to the names of their classes."""
    shape = _shapes(part)
    if shape is None:
        return Question(list(part.ways), part.ways, object())
    roots = set(part.roots)
    number: dict[ClassId, int] = {}
    stack = sorted(part.roots, key=shape.__getitem__)
    while stack:
        c = stack.pop()
        if c not in number:
            number[c] = len(number)
            ways = sorted(part.ways[c], key=lambda o: (o.way.cost, sorted(shape[n] for n in o.needs)))
            stack.extend(n for o in ways for n in sorted(o.needs, key=shape.__getitem__))
    ranked = {c: sorted(part.ways[c], key=lambda o: (o.way.cost, sorted(number[n] for n in o.needs))) for c in number}
    rows = [(c in roots, *((o.way.cost, *sorted(number[n] for n in o.needs)) for o in ranked[c])) for c in number]
    return Question(list(number), ranked, tuple(rows))


def _shapes(part: Component) -> dict[ClassId, int] | None:
    """A number for what lies below each class, equal where that is equal; None where it goes round in circles."""
    roots = set(part.roots)
    found: dict[ClassId, int] = {}
    opened: set[ClassId] = set()
    stack = [(c, False) for c in part.roots]
    while stack:
        c, ready = stack.pop()
        if c in found:
            continue
        if ready:
            below = sorted((o.way.cost, *sorted(found[n] for n in o.needs)) for o in part.ways[c])
            found[c] = hash((c in roots, *below))
            continue
        if c in opened:
            return None
        opened.add(c)
        stack.append((c, True))
        stack.extend((n, False) for o in part.ways[c] for n in o.needs if n not in found)
    return found


def _translated(
    known: Question, chosen: Mapping[ClassId, Alternative], question: Question
) -> dict[ClassId, Alternative]:
    """The answer to a question in the names of an equal one."""
    result: dict[ClassId, Alternative] = {}
    for old, new in zip(known.classes, question.classes, strict=True):
        if old in chosen:
            rank = next(n for n, o in enumerate(known.ways[old]) if o.way is chosen[old])
            result[new] = question.ways[new][rank].way
    return result


def _collected(roots: Sequence[ClassId], chosen: Mapping[ClassId, Alternative]) -> tuple[dict[ClassId, Choice], int]:
    """What the roots need, in the order in which it is built, and what it costs."""
    choices: dict[ClassId, Choice] = {}
    cost = 0
    seen: set[ClassId] = set()
    stack = [(root, False) for root in roots]
    while stack:
        c, ready = stack.pop()
        if ready:
            choices[c] = chosen[c].choice
            cost += chosen[c].cost
        elif c not in seen:
            seen.add(c)
            stack.append((c, True))
            stack.extend((n, False) for n in chosen[c].needs)
    return choices, cost
