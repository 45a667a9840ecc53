"""`simplify` over the table of expressions with least sizes, and over others whose sizes may not grow."""

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grammars import GROUPS, Profile, expression
from make_sizes import SIZES, size
from make_table import TABLE, points, rows_of, values
from terms_by_size import Search, turned

from eqsat.index_graph.cost import cost
from eqsat.ir.fast import by_rules_alone
from eqsat.ir.terms import term as t
from eqsat.proving.read import read
from eqsat.simplifying.simplify import simplify

LEAST_SHARE = 0.97
LEAST_ALONE = 0.95  # by the e-graph, without the rewriter


@pytest.fixture(autouse=True)
def warnings_are_errors() -> Iterator[None]:
    """A discarded result (UnsoundWarning) fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def rows(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text())


@pytest.mark.parametrize("every", [9, pytest.param(1, marks=pytest.mark.slow)])
def test_share_of_the_table(every: int, capsys: pytest.CaptureFixture[str]) -> None:
    """The share of the table that reaches the least size, of each class, seen and unseen; asked is every ninth row."""
    table = rows(TABLE)
    assert len(table) >= 600 and sum(r["unseen"] for r in table) >= 200
    entries = table[::every]
    assert {r["class"] for r in entries} == {r["class"] for r in table}
    asked, reached = Counter[str](), Counter[str]()
    for row in entries:
        part = "unseen" if row["unseen"] else "seen"
        for name in (row["class"], part, "all"):
            asked[name] += 1
            reached[name] += size(row) <= row["size"]
    with capsys.disabled():
        print()
        for name in asked:
            print(f"  {name:10} {reached[name]:4} of {asked[name]:4}  {reached[name] / asked[name]:6.1%}")
    assert reached["all"] >= LEAST_SHARE * asked["all"]


@pytest.mark.parametrize("every", [16, pytest.param(1, marks=pytest.mark.slow)])
def test_share_of_the_table_by_the_graph_alone(every: int) -> None:
    """With the rewriter off, the index e-graph reaches nearly as many least sizes, in each class nearly all.

    Asked is the whole table, or a sixteenth of each class, of small ones ten at least.
    """
    of_class: dict[str, list[dict[str, Any]]] = {}
    for row in rows(TABLE):
        of_class.setdefault(row["class"], []).append(row)
    chosen = [row for those in of_class.values() for row in those[:: min(every, max(1, len(those) // 10))]]
    asked, reached = Counter[str](), Counter[str]()
    with by_rules_alone():
        for row in chosen:
            for name in (row["class"], "all"):
                asked[name] += 1
                reached[name] += size(row) <= row["size"]
    assert len(chosen) >= len(rows(TABLE)) / every and min(asked.values()) >= 10
    assert reached["all"] >= LEAST_ALONE * asked["all"]
    assert all(reached[name] >= 0.7 * asked[name] for name in asked), reached


def test_the_switch_turns_the_rewriter_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered before with fast paths does not stand in, and no pass of the rewriter is made."""
    assert str(simplify("i // 4 * 4 + i % 4")) == "i"

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("eqsat.simplifying.simplify._Maker.session", refuse)
    with by_rules_alone():
        assert str(simplify("i // 4 * 4 + i % 4")) == "i"
    with pytest.raises(AssertionError):
        simplify("j // 4 * 4 + j % 4")


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])
def test_nothing_gets_larger(every: int) -> None:
    larger = [(row["text"], size(row), row["size"]) for row in rows(SIZES)[::every] if size(row) > row["size"]]
    assert not larger


def test_expressions_are_those_of_the_grammars() -> None:
    by_name = {g.name: g for g in GROUPS}
    for row in rows(TABLE):
        text, profile = expression(by_name[row["class"]], row["seed"])
        ranges = json.loads(json.dumps(profile.ranges))
        assert (text, ranges, profile.assuming) == (row["text"], row.get("ranges", {}), row.get("assuming", ""))
        assert row["unseen"] == (row["seed"] % 3 == 2)


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.name)
def test_enumeration_finds_what_is_made(group: Any) -> None:
    """Each stored term has its values and its cost, and no cheaper one of the table's results is missed."""
    env = points(group, Profile({n: (1, 50) for n in group.names}), 40)
    search = Search(group, env)
    search.grow(4)
    for shelf in (search.index, search.truth):
        for k in range(0, len(shelf), max(1, len(shelf) // 60)):
            term, row = search.term(shelf.recipes[k]), search.stored(shelf, k)
            made = values(term, env)
            assert made is not None and np.array_equal(made, row), term
            assert cost(term) <= shelf.costs[k] + 1 + 2 * turned(term), term


def test_enumeration_finds_least_sizes() -> None:
    """Known smallest forms, and a term that has no smaller one."""
    lattice = next(g for g in GROUPS if g.name == "lattice")
    env = points(lattice, Profile({}), 60)
    search = Search(lattice, env)
    assert search.grow(4) == 4
    terms, _ = read(["maximum(minimum(x, y), minimum(x, z))", "minimum(x, y) + maximum(y, z) + 1"], None)
    found = search.smallest([v for e in terms if (v := values(e, env)) is not None], True)
    assert found[0] is not None and found[0][0] == 4 and cost(found[0][1]) == 5
    assert found[1] is None  # costs 8, and the search ends at 6
    assert simplify(t.binary("min", t.var("x"), t.var("x"))) is t.var("x")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["products", "trunc", "symbolic"])
def test_table_is_made_again(name: str) -> None:
    """The script writes what the table holds, for the classes that take seconds."""
    group = next(g for g in GROUPS if g.name == name)
    made = json.loads(json.dumps(rows_of(group)[0]))
    assert made == [r for r in rows(TABLE) if r["class"] == name]
