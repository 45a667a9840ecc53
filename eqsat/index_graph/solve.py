"""Index maps solved by congruence: outputs are given names, and the inputs are read from the e-graph over the names.

Between the iterations of the rules, equations with one unknown are solved for it (`equations`); where that leads no
further, each generator proposes equalities (`generators`). What is found is checked by whoever asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from eqsat.graph.egglog_adapter import usable
from eqsat.index_graph.equations import Equations
from eqsat.index_graph.generators import propose
from eqsat.index_graph.graph import IndexGraph
from eqsat.ir import clock
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.workers.call import WorkerLimit, call

ITERATIONS, ROWS = 12, 4_000
SECONDS = 10.0  # a fuse: rows and iterations end the search, so that the answer is the same on every machine
WORKER_SECONDS, MEMORY_MB = 20.0, 2048
WORKER_MODULES = ("eqsat.graph.egglog_bindings",)
_SPELLED = frozenset(("shl", "shr", "bitand", "bitor", "min", "max", "abs", "truncdiv", "truncmod"))
Ranges = Mapping[Term, tuple[int, int]]
Question = tuple[tuple[Term, ...], tuple[Term, ...], tuple[Term, ...], dict[Term, tuple[int, int]], tuple[Term, ...]]


class Found(NamedTuple):
    """The inputs over the names of the outputs, and terms of which the outputs are made with their values there."""

    values: list[Term]
    inner: list[tuple[Term, Term]]


def solve(
    inputs: Sequence[Term],
    outputs: Sequence[Term],
    names: Sequence[Term],
    ranges: Ranges,
    zero: Sequence[Term] = (),
) -> Found | None:
    """The inputs over the names of the outputs, or None.

    ranges: half-open, of inputs, of names, and of terms over inputs; zero: terms over the inputs that are 0 wherever
    the outputs are asked about.

    >>> from eqsat.ir.terms.term import var
    >>> i, j, p, q = map(var, "ijpq")
    >>> found = solve([i, j], [(i + j) % 8, j], [p, q], {i: (0, 8), j: (0, 5), p: (0, 8), q: (0, 5)})
    >>> [str(e) for e in found.values]
    ['(p - q) % 8', 'q']
    """
    question = (tuple(inputs), tuple(outputs), tuple(names), dict(ranges), tuple(zero))
    if usable():
        return solve_job(question, _unheard)
    try:
        return call("eqsat.index_graph.solve:solve_job", question, seconds=WORKER_SECONDS, memory_mb=MEMORY_MB)
    except WorkerLimit:
        return None


def _unheard(progress: Any) -> None:
    pass


def solve_job(question: Question, report: Callable[[Any], None]) -> Found | None:
    """The same, in a process that may use egglog; nothing is reported."""
    inputs, outputs, names, ranges, zero = question
    with IndexGraph(ranges=ranges) as graph:
        wanted = [graph.add(x) for x in inputs]
        named: list[int] = []
        for output, name in (*zip(outputs, names, strict=True), *((x, t.index_const(0)) for x in zero)):
            named.append(graph.add(name))
            graph.unite(graph.add(output), named[-1])
        for x in ranges:
            if x.args:  # no leaf: its range counts where it is in the graph
                graph.add(x)
        end = time.thread_time() + SECONDS
        graph.deadline, graph.most_rows = end, ROWS
        said: set[Any] = set()
        spelled = any(node.op in _SPELLED for node in postorder(*outputs))
        for k in range(ITERATIONS):
            clock.check()
            graph.settle_bounds()
            ran = graph.graph.run("(run-schedule (run arith))")
            graph.rows = None
            if spelled and k == 0:
                graph.step(terms=True)  # other operations are respelled by rules that egglog does not match
                graph.settle_bounds()
            equations = Equations(graph, named, frozenset(names), said)
            found = [graph.graph.find(graph.roots[n]) for n in wanted]
            if all(map(equations.is_known, found)):
                return Found([equations.known.term(v) for v in found], _inner(equations, outputs))
            if not equations.step() and not ran.updated and not propose(equations):
                break
            if graph.size() > ROWS or time.thread_time() > end:
                graph.spoiled = graph.size() > 2 * ROWS
                break
    return None


def _inner(equations: Equations, outputs: Sequence[Term]) -> list[tuple[Term, Term]]:
    """The operands of the outputs that are known, with their values."""
    graph, whole = equations.graph, set(outputs)
    result: list[tuple[Term, Term]] = []
    for node in postorder(*outputs):
        expression = graph.loader.loaded.get((0, node))
        if node.args and node not in whole and node.dtype == t.INDEX and expression is not None:
            v = graph.graph.find(expression)
            if equations.is_known(v):
                result.append((node, equations.known.term(v)))
    return result
