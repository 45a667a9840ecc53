"""Graphs with the laws declared are kept between searches, and hold nothing of the search before."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

import eqsat as eq
from eqsat.graph import declared as kept
from eqsat.graph.encode import encode
from eqsat.graph.search import Snapshot, run, task_of
from eqsat.ir.law import Law
from eqsat.ir.tensors.tensor import as_program
from eqsat.rules import tensor_laws

X = eq.input("x", (6, 14), "float32")
PROGRAMS = [
    X.permute_dims((1, 0)).relu().permute_dims((1, 0)),
    X.pad(((0, 0), (1, 2)), 0.0).sum(1),
    (X.reshape((2, 3, 14)).permute_dims((1, 0, 2)).exp() + 1).sum(2),
    eq.concat([X.permute_dims((1, 0)), X.permute_dims((1, 0)).exp()]).permute_dims((1, 0)),
]


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kept, "_kept", {})
    yield


def last(program: eq.Tensor, laws: list[Law] | None = None) -> tuple[object, ...]:
    """What a search in this process finds: its tables and its counts."""
    found: list[Snapshot] = []
    run(task_of(encode(as_program(program)), "c", eq.Limits(), laws), found.append)
    done = found[-1].progress
    nodes = found[-1].nodes
    sizes = [len(nodes.leaves), *(sum(map(len, x.values())) for x in (nodes.views, nodes.forms))]
    return sizes, done.nodes, done.iterations, done.status, sorted(done.matches.items())


def graphs() -> list[kept.Declared]:
    return list(kept._kept.values())  # pyright: ignore[reportPrivateUsage]


# feature: A1
def test_a_search_finds_what_it_finds_in_a_new_graph() -> None:
    fresh: list[tuple[object, ...]] = []
    for program in PROGRAMS:
        kept._kept.clear()  # pyright: ignore[reportPrivateUsage]
        fresh.append(last(program))
    for _ in range(3):
        assert [last(program) for program in PROGRAMS] == fresh
    held = graphs()
    assert len(held) == len({id(g) for g in held}) <= len(PROGRAMS)
    assert all(g.graph.size(("Leaf", "View", "Hub", "Form", "Value")) == 0 for g in held)


def test_other_laws_have_a_graph_of_their_own() -> None:
    program, few = PROGRAMS[0], [x for x in tensor_laws() if x.name != "push-view"]
    both = last(program), last(program, few)
    assert (last(program), last(program, few)) == both and len(graphs()) == 2


def test_what_a_search_declares_goes_with_it() -> None:
    """A search may come upon operators of other shapes than those of its program."""
    with kept.declared(tensor_laws(), encode(as_program(PROGRAMS[0])).interned) as graph:
        before = set(graph.plans), set(graph.arities), set(graph.shapes)
        graph.need_arity(5)
        graph.need_shape(kept.Shape(5, (0, 3)))
        assert set(graph.plans) > before[0]
    (held,) = graphs()
    assert held is graph and (set(held.plans), set(held.arities), set(held.shapes)) == before
    with kept.declared(tensor_laws(), encode(as_program(PROGRAMS[0])).interned) as graph:
        assert graph is held
        graph.need_shape(kept.Shape(5, (0, 3)))


def test_a_graph_that_failed_is_not_used_again() -> None:
    last(PROGRAMS[0])
    (held,) = graphs()
    with pytest.raises(ZeroDivisionError), kept.declared(tensor_laws(), encode(as_program(PROGRAMS[0])).interned) as x:
        assert x is held
        raise ZeroDivisionError
    assert not graphs() and last(PROGRAMS[0])[3] == "saturated"


def test_few_are_kept_and_only_by_the_first_thread() -> None:
    for n in range(kept.MOST_KEPT + 3):
        last(PROGRAMS[0], list(tensor_laws())[n:])
    assert len(graphs()) == kept.MOST_KEPT
    kept._kept.clear()  # pyright: ignore[reportPrivateUsage]
    found: list[tuple[object, ...]] = []
    thread = threading.Thread(target=lambda: found.append(last(PROGRAMS[1])))
    thread.start()
    thread.join()
    assert not graphs() and found == [last(PROGRAMS[1])]


@pytest.mark.parametrize("count", [17, 64, pytest.param(130, marks=pytest.mark.slow)])
def test_operators_of_many_operands(count: int) -> None:
    """The layout of a concatenation and of each of its parts is one, however many they are."""
    x, parts = eq.input("x", (3, 4), "float32"), range(count)
    whole = eq.concat([x.permute_dims((1, 0)) * float(k + 2) for k in parts], 0).permute_dims((1, 0))
    found = eq.optimize(whole)
    assert (found.status, found.layout_ops, found.notes) == ("saturated", 1, [])  # the concatenation


def test_shapes_are_told_apart() -> None:
    with kept.declared(tensor_laws(), encode(as_program(PROGRAMS[0])).interned) as graph:
        some = [kept.Shape(13, v) for v in ((1, 2), (12,), (1, 12), (11, 2))]
        more = [kept.Shape(33, tuple(range(n))) for n in (32, 33)]
        numbers = [graph.need_shape(shape) for shape in (*some, *more)]
        assert len(set(numbers)) == len(numbers) == len({graph.need_shape(shape) for shape in (*some, *more)})
