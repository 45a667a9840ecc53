"""Whatever is taken from a graph of statements means what the function means: any choice, not only the cheapest."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from random_functions import random_function
from random_primfuncs import random_case
from small_functions import arrays_for

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError, ScheduleError
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.refine import same_meaning
from eqsat.ir.terms import term as t
from eqsat.passes.no_op import without_idle_buffers
from eqsat.passes.paths import tidy, with_body
from eqsat.statement_graph.extract import Extractor, parts_of
from eqsat.statement_graph.optimize import Limits, StatementGraph

SMALL = Limits(rows=1000, questions=500)
FEW, MANY = (*range(700, 702), 2032), range(2000, 2150)
SAMPLES = 5


def by_depth(extractor: Extractor) -> dict[Any, int]:
    """For each class the least depth of a statement in it."""
    depths: dict[Any, int] = {}
    while True:
        new = {
            found: len(depths)
            for found, nodes in extractor.nodes.items()
            if found not in depths and any(all(p in depths for p in parts_of(node)) for node in nodes)
        }
        if not new:
            return depths
        depths.update(new)


def any_statement(graph: StatementGraph, rng: random.Random) -> Any:
    """A statement of the root's class, each node of it chosen at random of those that end."""
    extractor = graph.extractor()
    depths = by_depth(extractor)
    for found, depth in depths.items():
        nodes = [n for n in extractor.nodes[found] if all(depths.get(p, depth) < depth for p in parts_of(n))]
        extractor.best[found] = (extractor.best[found][0], rng.choice(nodes))
    return graph.heads.names.given_back(extractor.statement(graph.root()))


def check(func: PrimFunc, runs: list[dict[str, NDArray]], sizes: dict[str, int], seed: int) -> int:
    """How many different functions were taken and compared."""
    try:
        assert same_meaning(func, func, runs[0], sizes)
        graph = StatementGraph(func)
    except (EvaluationError, ScheduleError):  # it reads what has no value, or passes do not take it
        return 0
    try:
        graph.run(SMALL)
        check_places(graph)
        rng = random.Random(seed)
        taken = {str(func): func}
        for _ in range(SAMPLES if graph.best() is not None and not graph.answers.reordered else 0):
            new = with_body(func, without_idle_buffers(tidy(any_statement(graph, rng))))
            taken.setdefault(str(new), new)
    finally:
        graph.close()
    for new in taken.values():
        for arrays in runs:
            found = same_meaning(func, new, arrays, sizes)
            assert found, f"{found.difference}\n{func}\n{new}"
    return len(taken) - 1


def check_places(graph: StatementGraph) -> None:
    """Statements of one class stand at one place: what is equal where more is known is not where less is. The loops
    around a place have the axes of their depths."""
    places: defaultdict[Any, set[int]] = defaultdict(set)
    for row in graph.placed():
        places[row.output].add(row.args[0])
    assert all(len(numbers) == 1 for numbers in places.values())
    for axes in (graph.heads.places[number].axes for numbers in places.values() for number in numbers):
        assert all(axis is t.ax(depth, axis.args[0]) for depth, axis in enumerate(axes)), axes


def compared(seed: int) -> int:
    made = random_function(seed)
    runs = [arrays_for(made.func, np.random.default_rng([seed, k]), made.fix) for k in range(2)]
    case = random_case(seed, without=("vectors", "strides"))
    others = [case.arguments(k) for k in range(2)]
    return check(made.func, runs, {}, seed) + check(case.func, others, dict(case.sizes), seed)


# feature: E2, E15
def test_any_choice_means_the_same() -> None:
    assert sum(compared(seed) for seed in FEW) >= 4


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_any_choice_of_many_means_the_same() -> None:
    assert sum(compared(seed) for seed in MANY) >= 300
