"""How much is asked, and how long functions are, in kernels of n pieces: what grows faster than its program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.backends.c.several import MOST_LOOPS
from eqsat.backends.lowering import index_simplifier, split
from eqsat.ir.tensors.tensor import Tensor, as_program
from eqsat.ir.terms.walk import dag_size


def blocks(number: int) -> Tensor:
    """A matrix of blocks, each an input."""
    rows = [[eq.input(f"x{i}_{j}", (2, 4), "float32") for j in range(number)] for i in range(number)]
    return eq.concatenate([eq.concatenate(row, axis=1) for row in rows], axis=0)


def turned(number: int, width: int = 4) -> Tensor:
    """The rows of a tensor in another order; of another width, since a kernel that was lowered before is known."""
    x = eq.input("x", (number, width), "float32")
    return eq.concatenate([x[k : k + 1] for k in reversed(range(number))])


def chased(number: int) -> Tensor:
    """Positions that are read at positions that are read."""
    x, k = eq.input("x", (64,), "int64"), eq.input("k", (8,), "int64")
    for _ in range(number):
        k = x[k]
    return k


def arguments(y: Tensor) -> dict[str, Any]:
    """Different numbers for each input; positions within 64."""
    rng = np.random.default_rng(3)
    shapes = {x.name: (tuple(map(int, x.shape)), np.dtype(x.dtype)) for x in as_program(y).inputs}
    return {name: rng.integers(0, 64, shape).astype(dtype) for name, (shape, dtype) in shapes.items()}


def kernel_of(y: Tensor) -> eq.Kernel:
    """The compiled program, which gives what numpy does."""
    kernel, given = eq.compile(y), arguments(y)
    assert np.array_equal(kernel(**given), eq.evaluate(y, given))
    return kernel


@pytest.mark.parametrize("made", [blocks, turned])
def test_claims_that_are_shown_on_a_piece_are_not_asked_about_on_its_parts(
    made: Callable[[int], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All claims were substituted for each of the pieces."""
    looked: list[int] = []
    put = split.Nest.put

    def counted(self: split.Nest, roots: Any, *given: Any) -> Any:
        looked.append(len(roots))
        return put(self, roots, *given)

    monkeypatch.setattr(split.Nest, "put", counted)
    numbers: list[int] = []
    for number in (6, 12):
        looked.clear()
        kernel_of(made(number if made is blocks else number * number))
        numbers.append(sum(looked))
    assert 0 < numbers[1] <= 4 * 1.6 * numbers[0]  # four times the pieces, and a level of halves


def test_many_pieces_are_cut_by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """The body of a concatenation of n operands holds all of them: it was taken apart anew for each piece."""
    sizes: list[int] = []
    put = split.Nest.put

    def counted(self: split.Nest, roots: Any, *given: Any) -> Any:
        sizes.append(dag_size(roots[0]))
        return put(self, roots, *given)

    monkeypatch.setattr(split.Nest, "put", counted)
    numbers: list[int] = []
    for number in (32, 64, 128):
        sizes.clear()
        kernel_of(turned(number, 3))
        numbers.append(sum(sizes))
    assert 0 < numbers[1] <= 2.4 * numbers[0] and numbers[2] <= 2.4 * numbers[1]


@pytest.mark.parametrize("threads", [1, 2])
def test_functions_of_many_loops_are_several(threads: int) -> None:
    """gcc takes four times as long for twice the loops in one function."""
    y = blocks(9)
    kernel, given = eq.compile(y, threads=threads), arguments(y)
    assert np.array_equal(kernel(**given), eq.evaluate(y, given))
    functions = re.split(r"(?m)^(?=(?:EQSAT_APART )?(?:static )?(?:void|int) )", kernel.source)
    loops = [text.count("for (") for text in functions]
    assert sum(loops) >= 81 and max(loops) <= MOST_LOOPS
    assert kernel.source.count("EQSAT_APART static") >= 3


def test_concatenations_of_more_operands_than_an_axis_may_be_cut_for_else_compile() -> None:
    """Of 257 and more it was a RecursionError: no cut, and as many `where` one in another."""
    source = kernel_of(turned(264, 2)).source
    assert "?" not in source.partition("kernel_0")[2]


def test_chains_of_positions_are_simplified_link_by_link(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each index holds all that is before it, and all of it was simplified for each of them."""
    sizes: list[int] = []
    decider = index_simplifier.decider

    class Counted:
        """The decider, which counts the nodes that it gets."""

        def __getattr__(self, name: str) -> Any:
            return getattr(decider(), name)

        def simplify(self, terms: Any, facts: Any) -> Any:
            sizes.extend(map(dag_size, terms))
            return decider().simplify(terms, facts)

    monkeypatch.setattr(index_simplifier, "decider", Counted)
    largest: list[tuple[int, int]] = []
    for number in (8, 24):
        sizes.clear()
        kernel_of(chased(number))
        largest.append((max(sizes), sum(sizes)))
    (first, few), (second, many) = largest
    assert first == second and many <= 3.2 * few
