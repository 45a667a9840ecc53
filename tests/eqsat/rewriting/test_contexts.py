"""Facts of nested guards: as many contexts as there are branches, and no more than a run has time for."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest

from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of
from eqsat.rewriting.context import Context
from eqsat.rewriting.rewrite import Rewriter, Session
from eqsat.rules import scalar_rules
from eqsat.simplifying.simplify import simplify


def rolled(x: Term, extent: int, shifts: int) -> Term:
    """Rolls behind each other, each of them with a comparison; the one before it stands three times in it."""
    for _ in range(shifts):
        x = t.where(x < extent - 5, x + 5, x - (extent - 5))
    return x


def contexts(top: Context) -> int:
    return 1 + sum(map(contexts, top.below.values()))


@pytest.mark.parametrize("shifts", [3, 7, 40])
def test_nested_guards_end(shifts: int) -> None:
    """Without a bound there are three times as many contexts with each level, and then as many for what they made."""
    i = t.var("i")
    session = Session(Rewriter(r for r in scalar_rules() if "normal" in r.tags))
    term = rolled(i, 12, shifts)
    found = session.normal(term)
    assert contexts(session.top) < 1000 and not session.limit_reached
    (before, _), (after, _) = evaluate_masked([term, found], {i: np.arange(12)})
    assert list(before) == list(after) == [(k + 5 * shifts) % 12 for k in range(12)]


def test_facts_of_every_branch_are_used_where_there_are_few() -> None:
    i = t.var("i")
    term = t.where(i < 4, i // 4, t.where(i < 8, i // 4, t.where(i < 12, i // 4, t.where(i < 16, i // 4, 9))))
    found = Session(Rewriter(scalar_rules()), {i: (0, 64)}).normal(term)
    assert not nodes_of("floordiv", found)


def drifting(x: Term, levels: int) -> Term:
    """Choices behind each other, none like another: each condition and each branch holds all that was before."""
    for k in range(levels):
        x = t.where(x < k + t.var("i") % 7, x + t.var("i") * k, x - 7)
    return x


@pytest.mark.parametrize(("levels", "most"), [(10, 26_000), pytest.param(14, 40_000, marks=pytest.mark.slow)])
def test_deep_nests_of_different_choices_end(levels: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pass has a bound on where guards are assumed, all of them together have one, and a term may grow by rules
    that distribute some times per node of it: without them, there are eight times as many visits at 14 levels, and
    34,000 at 10."""
    visits = 0
    rebuilt = Session._rebuilt  # pyright: ignore[reportPrivateUsage]

    def counted(self: Session, context: Context, node: Term) -> object:
        nonlocal visits
        visits += 1
        return rebuilt(self, context, node)

    monkeypatch.setattr(Session, "_rebuilt", counted)
    i = t.var("i")
    term = drifting(i, levels)
    found = simplify(term, {"i": 60})
    assert visits < most
    (before, _), (after, _) = evaluate_masked([term, found], {i: np.arange(60)})
    assert list(before) == list(after)


@pytest.mark.parametrize("shared", [False, True])
def test_a_junction_of_many_is_not_begun_anew_for_each_member(monkeypatch: pytest.MonkeyPatch, shared: bool) -> None:
    """What is known of a member by those before is asked once for each, not once for each member of each."""
    asked: list[Term] = []
    related = Context.related

    def counted(context: Context, guards: list[Term], term: Term) -> list[Term]:
        asked.append(term)
        return related(context, guards, term)

    monkeypatch.setattr(Context, "related", counted)
    count, i = 80, [t.var(f"i{k}") for k in range(81)]
    members = [
        t.logical_or(i[k] < 5, i[k + 1] < i[k]) if shared else 2 * i[k] + i[k] < 15 for k in range(count)
    ]  # fmt: skip
    found = Session(Rewriter(scalar_rules()), {x: (0, 10) for x in i}).normal(t.logical_and(*members))
    assert len(found.args) == count <= len(asked) <= 12 * count


def test_predicates_are_related_by_what_they_share() -> None:
    rng = Random(0)
    i = [t.var(f"i{k}") for k in range(12)]
    for _ in range(200):
        pairs = [(rng.randrange(12), rng.randrange(12)) for _ in range(rng.randrange(9))]
        reached = {start := rng.randrange(12)}
        for _ in pairs:
            reached |= {x for pair in pairs if reached & set(pair) for x in pair}
        guards = [i[a] < 3 if a == b else i[a] < i[b] for a, b in pairs]
        wanted = [guard for guard, pair in zip(guards, pairs, strict=True) if reached & set(pair)]
        assert Context({}, {}).related(guards, i[start] // 2) == wanted


def test_long_rows_of_relations_are_followed_once() -> None:
    """20,000 comparisons in a row, each with the next, from one end: each round took all of them, for minutes."""
    i = [t.var(f"i{k}") for k in range(20_001)]
    guards = [a < b for a, b in pairwise(i)]
    assert Context({}, {}).related(guards, i[0]) == guards
