"""An e-graph is refused to other threads and to forks, where egglog would panic or wait for ever."""

import subprocess
import sys
import threading

import pytest

from eqsat.graph.egglog_adapter import Call, EGraph, EngineFailure

FORKED = """
import os
from eqsat.graph.egglog_adapter import EGraph, EngineFailure
graph = EGraph()
graph.run("(datatype T (A))\\n\\n(let $a (A))\\n\\n(run 1)")
child = os.fork()
if not child:
    for use in (graph.tables, EGraph):
        try:
            use()
        except EngineFailure as error:
            print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.mark.smoke
def test_a_graph_belongs_to_its_thread() -> None:
    graph = EGraph()
    graph.run("(datatype T (A))")
    caught: list[BaseException] = []

    def use() -> None:
        try:
            graph.tables()
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert [type(e) for e in caught] == [EngineFailure] and "belongs to another thread" in str(caught[0])
    assert graph.tables() is not None


@pytest.mark.smoke
def test_a_fork_of_a_process_that_used_egglog_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60)
    assert done.stdout.count("egglog: ") == 2, done.stderr
    assert "belongs to another" in done.stdout and "before this process was forked" in done.stdout


@pytest.mark.parametrize("most", [1, 3, 1000])
def test_expressions_that_come_again_are_the_same(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are kept; none is another graph's or another number's."""
    monkeypatch.setattr("eqsat.graph.egglog_adapter.MOST_EXPRESSIONS", most)
    wanted = [(n, m, n + m) for n in range(3) for m in range(3)]
    for _ in range(2):
        graph = EGraph()
        graph.run("(datatype T (A i64) (P T T))\n\n(function sum (T) i64 :no-merge)")
        pairs = [Call("P", (Call("A", (n,)), Call("A", (m,)))) for n, m, _ in wanted]
        for pair, (_, _, total) in zip(pairs, wanted, strict=True):
            graph.set([(Call("sum", (pair,)), total)])
        rows = graph.rows(["sum"])["sum"]
        assert {row.args[0]: row.output for row in rows} == {
            graph.find(p): w[2] for p, w in zip(pairs, wanted, strict=True)
        }
        assert len(rows) == 9 and graph.find(pairs[1]) != graph.find(pairs[3])


FRONT_END = """
import sys
{before}
import eqsat as eq
x = eq.input("x", (4, 5), "float32")
assert eq.optimize(x.permute_dims((1, 0)).relu().permute_dims((1, 0))).final.bytes_moved == 0
from eqsat.graph.egglog_adapter import EGraph
EGraph().run("(datatype T (A))")
print(*({{"egglog", "black"}} & set(sys.modules)))
import egglog
from egglog import bindings
assert bindings is sys.modules["egglog.bindings"] and type(EGraph()._graph) is bindings.EGraph
assert egglog.EGraph().extract(egglog.i64(1)) is not None
"""


@pytest.mark.parametrize(("before", "loaded"), [("", ""), ("import egglog", "black egglog")])
def test_the_front_end_of_egglog_is_imported_by_those_who_use_it(before: str, loaded: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FRONT_END.format(before=before)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert " ".join(sorted(done.stdout.split())) == loaded
