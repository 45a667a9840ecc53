"""Facts that are read in bulk are the facts that actions make one by one."""

import random

import pytest

from eqsat.graph import bulk
from eqsat.graph.bulk import FEW
from eqsat.graph.egglog_adapter import Call, EGraph, Expression

SCHEMA = """
(sort V)

(sort Vs (Vec V))

(constructor Value (i64) V)

(constructor View (V i64) V)

(constructor Form (i64 Vs) V)

(function vid (V) i64 :merge (min old new))

(relation lay (V i64))

(relation edge (i64 i64))
"""
COUNTED = ("Value", "View", "Form", "vid", "lay", "edge")


def _value(n: int) -> Call:
    return Call("Value", (n,))


def _filled(draw: random.Random) -> EGraph:
    """A graph with random facts of each kind, few of some and many of others, negative numbers among them."""
    graph = EGraph()
    graph.run(SCHEMA)
    count = draw.choice([1, FEW, FEW + 1, 700])

    def number() -> int:
        return draw.randrange(-count, count)

    def operands() -> Call:
        chosen = tuple(_value(number()) for _ in range(draw.randrange(3)))
        return Call("vec-of", chosen) if chosen else Call("vec-empty", ())

    pairs: list[tuple[Expression, Expression]] = [(_value(number()), _value(number())) for _ in range(count // 3)]
    pairs += [(Call("View", (_value(number()), number())), Call("Form", (number(), operands()))) for _ in range(count)]
    graph.unions(pairs)
    graph.set([(Call("vid", (_value(number()),)), number()) for _ in range(count)])
    graph.insert([Call("lay", (_value(number()), number())) for _ in range(count)])
    graph.relate([Call("edge", (number(), number())) for _ in range(count)])
    return graph


def _seen(graph: EGraph) -> tuple[dict[str, int], list[object]]:
    sizes = {name: size for name, size in graph.sizes().items() if name in COUNTED}
    rows = graph.rows(COUNTED)
    names: dict[object, int] = {}
    for row in rows["vid"]:
        names[row.args[0]] = row.output
    shown = sorted(
        tuple(names.get(a, 0) if not isinstance(a, (int, tuple)) else 0 for a in r.args) for r in rows["lay"]
    )
    return sizes, [shown, sorted(graph.related("edge")), sorted(names.values())]


@pytest.mark.parametrize("seed", range(8))
def test_in_bulk_and_one_by_one_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = _seen(_filled(random.Random(seed)))
    monkeypatch.setattr(bulk, "_readable", [False])  # a process that cannot read its own pipes
    assert _seen(_filled(random.Random(seed))) == fast


def test_what_is_declared_in_a_scratch_is_gone() -> None:
    graph = EGraph()
    graph.run(SCHEMA)
    facts = [Call("lay", (_value(n), n)) for n in range(2 * FEW)]
    for _ in range(2):
        with graph.scratch():
            graph.insert(facts)
            assert graph.sizes()["lay"] == len(facts)
        assert graph.sizes()["lay"] == 0
    graph.insert(facts)
    assert graph.sizes()["lay"] == len(facts)


def test_tables_of_bulks_are_empty_again() -> None:
    graph = EGraph()
    graph.run(SCHEMA)
    graph.insert([Call("lay", (_value(n), n)) for n in range(2 * FEW)])
    assert {size for name, size in graph.sizes().items() if name.startswith("bulk")} == {0}


def test_the_collected_fact_is_read_back() -> None:
    graph = EGraph()
    graph.run(SCHEMA)
    many = {(n, -n * 10**12) for n in range(5000)}
    graph.relate([Call("edge", pair) for pair in many])
    assert set(graph.related("edge")) == many
