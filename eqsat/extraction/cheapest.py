"""The cheapest program of an e-graph, and how much cheaper one could be."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eqsat.extraction.blocks import fewer_blocks
from eqsat.extraction.bound import least_cost
from eqsat.extraction.budget import Budget
from eqsat.extraction.exact import cost_in, improve
from eqsat.extraction.extract import Alternative, Choice
from eqsat.extraction.frontier import cheapest_in
from eqsat.extraction.needless import Bounds
from eqsat.extraction.parts import Component, Table, settled, take_apart
from eqsat.extraction.rows import AS_USED, Node, Rows, by_class, narrower, places_of, rows_of
from eqsat.extraction.sections import cheapest_by_stages
from eqsat.extraction.several import Steps, good_choice, steps_at
from eqsat.extraction.stages import stages_of
from eqsat.extraction.values import values_of
from eqsat.extraction.views import has_views_of_views, rows_with_views, with_nearer_views
from eqsat.graph.nodes import ClassId
from eqsat.ir import clock
from eqsat.ir.cached import cached_property

WORK = 8_000_000
"""The steps of a choice, in all its parts; nearly two million a second."""
FRONTIER, LITTLE = 1_500, 100
"""The steps for each node in which all frontiers are followed, and those where nodes have many ways: so that what is
exact does not depend on the number of blocks."""
BOUNDED = 0.3
"""The share of the time in which bounds are looked for; what is known of them by then is used."""
EARLY, LOCAL = 0.3, 0.9
"""The share of a part's time for that, and the share of its work in which choices are made better."""
BLOCKS = 0.85
"""The share of it in which a choice is looked for as if there were only a few of the blocks that repeat."""
STAGED = 0.6
"""What is done stage by stage before, as a share of the work for a part, and of its time."""
MANY = 4
"""So many ways to have each node, on average, make too many frontiers but for small parts."""
SOLVED = 5e-8
"""What the integer program may do for a step of that work."""
FEW, ENOUGH = 1_500, 0.7
"""So many steps in question, for which that much work nearly always suffices, and is always allowed."""
AGAIN = 0.02
"""The share of the ways that must have turned out needless for a part to be taken apart once more."""
MANY_EACH, KEPT_EACH, WAYS = 32, 16, 250_000
"""From how many ways of each class on, on average, and how many of all of them, only so many of each are looked at."""
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
    least_of = _settled(table) if too_many(table) else None
    table = table if least_of is None else fewer_ways(table, least_of)
    apart = _taken_apart(table, roots, budget.until(BOUNDED))
    if apart is None:
        return None
    chosen, questions = apart
    bound = sum(way.cost for way in chosen.values())
    equal: dict[object, list[Question]] = {}
    for question in sorted(questions, key=lambda q: len(q.part.ways)):
        equal.setdefault(question.key, []).append(question)
    left = [some[0] for some in equal.values()]
    for n, (first, *others) in enumerate(equal.values()):
        share = len(first.part.ways) / sum(len(q.part.ways) for q in left[n:])
        own = budget.share(share)
        found, least = _answer(first, own)
        if first.chained:
            found, least = _with_views(first, found, own)
        bound += least * (1 + len(others))
        chosen.update(found)
        for other in others:
            chosen.update(_translated(first, found, other))
    choices, cost = _collected(roots, chosen)
    if least_of is not None:  # what was left out may be cheaper
        bound = max(least_of[root][0] for root in roots)
    return Extraction(choices, cost, min(bound, cost))


def too_many(table: Table) -> bool:
    """Whether there are more ways than can be looked at: where each layout of a value is viewed as each other one, they
    are the square of the layouts."""
    return sum(map(len, table.values())) > max(WAYS, MANY_EACH * len(table))


def fewer_ways(table: Table, built: Mapping[ClassId, tuple[int, int]]) -> Table:
    """The cheapest ways of each class, with one by which the class can be built, as `settled` says."""
    kept: dict[ClassId, Sequence[Alternative]] = {}
    for c, ways in table.items():
        clock.check()
        own = {built[c][1]} if c in built else set[int]()
        own.update(sorted(range(len(ways)), key=lambda n: ways[n].cost)[:KEPT_EACH])
        kept[c] = [ways[n] for n in sorted(own)]
    return kept


def _settled(table: Table) -> dict[ClassId, tuple[int, int]]:
    """What each class that can be built costs at least, and the number of a way to build it."""
    return settled({c: [(way.cost, way.needs) for way in ways] for c, ways in table.items()})


@dataclass(frozen=True)
class Question:
    """A part as rows, what is known of its nodes, and whether views of views may be worth it."""

    part: Component
    rows: Rows
    bounds: Bounds
    chained: bool

    @cached_property
    def key(self) -> object:
        """Parts with one key are equal up to the names of their classes."""
        if not self.rows.whole:
            return object()
        number: dict[ClassId, int] = {}
        nodes = [(number.setdefault(c, len(number)), made) for c, made in self.rows.order]
        ways = [[(cost, needs, step.way is None) for cost, needs, step in some] for some in self.rows.table]
        return self.rows.start, tuple(nodes), tuple(map(tuple, ways))


def _taken_apart(
    table: Table, roots: Sequence[ClassId], deadline: float
) -> tuple[dict[ClassId, Alternative], list[Question]] | None:
    """What is settled, and the parts in question, without ways that no cheapest choice takes, as far as those are known
    at the deadline."""
    while True:
        clock.check()
        apart = take_apart(table, roots)
        clock.check()
        if apart is None:
            return None
        questions: list[Question] = []
        ways: dict[ClassId, Sequence[Alternative]] = {c: [way] for c, way in apart.fixed.items()}
        every = gone = 0
        for part in apart.parts:
            rows = rows_of(part)
            chained = has_views_of_views(part)
            bounds = Bounds(rows, values_of(part), deadline, chained)
            questions.append(Question(part, rows, bounds, chained))
            needless = _needless(rows, bounds)
            every, gone = every + sum(map(len, part.ways.values())), gone + len(needless)
            for c, some in part.ways.items():
                ways[c] = [o.way for o in some if (c, id(o.way)) not in needless]
        if gone <= AGAIN * every or time.monotonic() >= deadline:
            return dict(apart.fixed), questions
        table = ways


def _needless(rows: Rows, bounds: Bounds) -> set[tuple[ClassId, int]]:
    """The ways whose steps are all needless; what only passes on to the other node of its class is no way."""
    steps = {(n, id(step)) for n, step in bounds.needless()}
    needed = {
        (node[0], id(step.way))
        for n, node in enumerate(rows.order)
        for _, _, step in rows.table[n]
        if (n, id(step)) not in steps
    }
    ways = {
        (rows.order[n][0], id(step.way))
        for n, some in enumerate(rows.table)
        for _, _, step in some
        if step.way is not None
    }
    return ways - needed


def _answer(question: Question, budget: Budget) -> tuple[dict[ClassId, Alternative], int]:
    """A choice for a part, and the least that any costs."""
    part, rows, bounds, work = question.part, question.rows, question.bounds, budget.work
    exact = _followed(bounds, budget)
    if exact is not None:
        return by_class(exact), sum(step.cost for step in exact.values())
    trees, values = part.settled(), bounds.values
    least = max(values.least, *(trees[root][0] for root in part.roots))
    share = budget.share(BLOCKS)
    known, worth = _of_fewer_blocks(question, share)
    budget.work += max(0.0, share.work)  # what it did not need is for the whole
    good, least = _searched(list(_orders(question)), least, budget, known, worth)
    chosen = {c: part.ways[c][n].way for c, (_, n) in trees.items()} if good is None else by_class(good)
    cost, left = cost_in(part, chosen), budget.deadline - time.monotonic()
    if least >= cost or left < SHORTEST:
        return chosen, least
    least_work = ENOUGH if sum(map(len, rows.table)) <= FEW else 0.0
    better = improve(part, rows, values, chosen, max(work * SOLVED, least_work), left)
    if better is None:
        return chosen, least
    return better[0] if cost_in(part, better[0]) < cost else chosen, max(least, better[1])


def _followed(bounds: Bounds, budget: Budget) -> Steps | None:
    """The cheapest choice, where its frontiers are few."""
    rows = bounds.rows
    few = sum(map(len, rows.table)) <= MANY * len(rows.table)
    steps = (FRONTIER if few else LITTLE) * len(rows.table)
    found = cheapest_in(bounds, Budget(steps, budget.until(EARLY))) if rows.whole else None
    return None if found is None else steps_at(rows, found)


def _of_fewer_blocks(question: Question, budget: Budget) -> tuple[Steps | None, dict[Node, int]]:
    """A choice in which all blocks are chosen as in a part with few of them, and what having each node is worth there;
    where blocks repeat."""
    fewer = fewer_blocks(question.rows, question.bounds.values)
    if fewer is None:
        return None, {}
    bounds = Bounds(fewer.rows, fewer.values, question.bounds.deadline, question.chained)
    found, worth = _followed(bounds, budget), dict[Node, int]()
    if found is None:
        found, _ = _searched([bounds], 0, budget, None, worth)
    return None if found is None else fewer.spread(found), fewer.worth(worth)


def _searched(
    every: Sequence[Bounds], least: int, budget: Budget, known: Steps | None, worth: dict[Node, int]
) -> tuple[Steps | None, int]:
    """A good choice of a part, given in some orders, and the least that any costs; known: a choice to start from;
    worth: what having each node is worth, which is made better."""
    rows, values = every[0].rows, every[0].values
    roots = [rows.order[n] for n in places_of(rows.start, 0)]
    bound = None if budget.over else least_cost(rows, values, roots, (budget.deadline - time.monotonic()) / 2)
    if bound is not None:
        stages = stages_of(rows, values, roots, bound)
        if stages is not None:
            staged, found = cheapest_by_stages(stages, Budget(STAGED * budget.work, budget.until(STAGED)))
            steps = None if found is None else steps_at(stages.rows, found)
            if found is not None and found.cost == staged:
                return steps, staged
            least, known = max(least, staged), _cheaper(known, steps)
        least = max(least, bound.cost)
        worth.update(bound.prices)
    return good_choice(every, worth, least, budget.share(LOCAL), known), least


def _cheaper(a: Steps | None, b: Steps | None) -> Steps | None:
    known = [steps for steps in (a, b) if steps is not None]
    return min(known, key=lambda steps: sum(step.cost for step in steps.values()), default=None)


def _with_views(
    question: Question, found: Mapping[ClassId, Alternative], budget: Budget
) -> tuple[Mapping[ClassId, Alternative], int]:
    """A choice that has views of views, too, and the least that any costs."""
    part, values = question.part, question.bounds.values
    trees = part.settled()
    least = max(values.least, *(trees[root][0] for root in part.roots))
    if time.monotonic() >= budget.deadline:
        return found, least
    found = with_nearer_views(part, found, budget.deadline)
    if time.monotonic() >= budget.deadline:
        return found, least
    rows = rows_with_views(part)
    if rows.whole:
        steps = FRONTIER * len(rows.table)
        exact = cheapest_in(Bounds(rows, values, question.bounds.deadline), Budget(steps, budget.until(EARLY)))
        if exact is not None:
            return by_class(steps_at(rows, exact)), exact.cost
    bound = least_cost(rows, values, [(c, AS_USED) for c in part.roots], budget.deadline - time.monotonic())
    return found, max(least, 0 if bound is None else bound.cost)


def _orders(question: Question) -> Iterator[Bounds]:
    """A part in the orders in which its frontiers may be few."""
    yield question.bounds
    if question.rows.whole:
        yield Bounds(narrower(question.rows, question.part), question.bounds.values, question.bounds.deadline)


def _translated(
    known: Question, chosen: Mapping[ClassId, Alternative], question: Question
) -> dict[ClassId, Alternative]:
    """The answer to a question in the names of an equal one."""
    result: dict[ClassId, Alternative] = {}
    for n, (old, _) in enumerate(known.rows.order):
        for k, (_, _, step) in enumerate(known.rows.table[n]):
            way = question.rows.table[n][k][2].way
            if way is not None and step.way is chosen.get(old):
                result[question.rows.order[n][0]] = way
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
