"""Index e-graphs that are used again answer as new ones do, and are given up where something went wrong."""

import subprocess
import sys
import threading

import pytest

from eqsat.graph.egglog_adapter import EngineFailure
from eqsat.index_graph import pool
from eqsat.index_graph.graph import IndexGraph, Limits, Unsound
from eqsat.ir.rule import Idx, rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.text import parse_expr
from eqsat.rules import tagged

TEXTS = [
    "i // 4 * 8 + i % 4 * 2 + j",
    "(i*16 + j) // 4 % 8",
    "minimum(i // 3, j // 3)",
    "4*i + j // 4 < 14 and j % 4 >= 0",
    "where(i < 4, i // 4 + 7, i % 16)",
    "(i + 3) // 4 * 4 - i",
]


def answer(text: str) -> tuple[str, str, int]:
    with IndexGraph() as graph:
        root = graph.add(parse_expr(text, {"i": t.var("i", 16), "j": t.var("j", 16)}))
        outcome = graph.run()
        return str(graph.best(root)), outcome.status, outcome.rows


def empty_pool() -> None:
    while pool.waiting.free:
        pool.waiting.free.pop().graph.close()


def test_wiped_graphs_answer_as_new_ones() -> None:
    new: list[tuple[str, str, int]] = []
    for text in TEXTS:
        empty_pool()
        new.append(answer(text))
    engine = pool.waiting.free[0]
    for _ in range(2):
        assert [answer(text) for text in TEXTS] == new
    assert pool.waiting.free == [engine]
    tables = engine.graph.tables()
    assert engine.graph.size([name for name in tables if name not in pool.KEPT_TABLES], tables) == 0


def test_rules_are_switched_on_and_off() -> None:
    """One engine serves all subsets of the rules."""
    x = t.var("x")
    term = x // 2 // 3
    for _ in range(2):
        for rules, found in ((tagged("expansive"), term), (None, x // 6), ([], term)):
            with IndexGraph(rules) as graph:
                root = graph.add(term)
                graph.run()
                assert graph.best(root) is found


@rule("unsound: one is zero")
def unsound(x: Idx):
    return x % 1, 1


def test_what_went_wrong_is_given_up() -> None:
    x = t.var("x")
    empty_pool()
    with pytest.raises(Unsound), IndexGraph([*tagged("normal"), unsound]) as graph:
        graph.add(t.make("mod", (x, t.index_const(1))))
        graph.run()
    with pytest.raises(EngineFailure), IndexGraph() as graph:
        graph.graph.run("(run-schedule (run nosuch))")
    with IndexGraph() as graph:
        graph.add(x // 4 * 4 + x % 4)
        graph.run(Limits(rows=3))
    assert pool.waiting.free == []


def test_a_pool_is_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "MOST_QUESTIONS", 2)
    empty_pool()
    engines: list[pool.Engine] = []
    for _ in range(6):
        with IndexGraph() as graph:
            engines.append(graph.engine)
    assert [engines[0] is e for e in engines] == [True, True, True, False, False, False]


def test_each_thread_has_its_own() -> None:
    wanted = [answer(text) for text in TEXTS[:3]]
    found: list[list[tuple[str, str, int]]] = []

    def work() -> None:
        found.append([answer(text) for text in TEXTS[:3] * 2])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [wanted * 2] * 4


LAZY = """
import sys, eqsat as eq
eq.simplify("(i // 4 * 16 + i % 4 * 4 + j) // 4", {"j": 4})
assert not {"egglog", "egglog.bindings"} & set(sys.modules)
"""


def test_no_graph_is_made_before_it_is_needed() -> None:
    subprocess.run([sys.executable, "-c", LAZY], check=True, timeout=60)
