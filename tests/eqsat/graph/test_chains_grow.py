# feature: A7
"""Views of views: what a search looks at grows with the length of a chain, not with the number of its parts."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

import eqsat as eq
from eqsat.graph.search import SHORT_CHAIN, longest_chain
from eqsat.ir.fast import by_rules_alone
from eqsat.ir.tensors.tensor import Tensor
from eqsat.ir.terms import term as t

Chain = Callable[[int], Tensor]


def borders(length: int) -> Tensor:
    """A row more at each step, of an unknown number of them."""
    y = eq.input("x", (t.sym("N"), 8), "float32")
    for k in range(length):
        y = y[: 10 + k].pad(((0, 1), (0, 0)))
    return y


def frames(length: int) -> Tensor:
    """Padding with values in turn, of which no two are one view."""
    y = eq.input("x", (20, 8), "float32")
    for k in range(length):
        y = y.pad(((0, 1), (0, 0)), pad_value=k // 4 % 2)
    return y


def turns(length: int) -> Tensor:
    """Permutations and reversals."""
    random, y = Random(0), eq.input("x", (2, 3, 4, 5, 6), "float32")
    for k in range(length):
        order = list(range(5))
        random.shuffle(order)
        y = y.permute_dims(tuple(order)).flip(k % 5)
    return y


@pytest.mark.parametrize("chain", [borders, frames, turns])
def test_twice_the_chain_is_twice_the_search(chain: Chain) -> None:
    found = [eq.optimize(chain(length)) for length in (14, 28, 56)]
    assert {r.status for r in found} == {"saturated"}
    nodes = [r.progress.nodes for r in found]
    assert nodes[2] - nodes[1] <= 2.1 * (nodes[1] - nodes[0]), nodes
    matches = [sum(r.progress.matches.values()) for r in found]
    assert matches[2] - matches[1] <= 4.2 * (matches[1] - matches[0]), matches  # each pass matches again what is there


@pytest.mark.parametrize("lengths", [(3, 7, 13), pytest.param((6, 12, 18), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("chain", [borders, frames, turns])
def test_parts_that_are_no_view_of_the_source_are_composed_as_well(chain: Chain, lengths: tuple[int, ...]) -> None:
    """Where loading composes nothing, the search finds what it finds otherwise."""
    for length in lengths:
        with by_rules_alone():
            alone = eq.optimize(chain(length))
        assert alone.cost_after == eq.optimize(chain(length)).cost_after


def test_what_else_is_read_is_a_base_too() -> None:
    """A part of what is an output itself is read from there, not made from the input once more."""
    x = eq.input("x", (64, 128, 32), "float32")
    y = x.pad(((1, 1), (1, 1), (0, 0)))
    z = y[:, ::2].flip(0)[3:]
    for k in range(SHORT_CHAIN):
        z = z.flip(k // 2 % 3)
    program = eq.Program([x], {"y": y, "z": z})
    assert longest_chain(program) > SHORT_CHAIN
    found = eq.optimize(program)
    assert found.cost_after == 8 * (64 * 128 * 32) + 4 * (66 * 130 - 64 * 128) * 32 + 8 * 63 * 65 * 32
    assert found.layout_ops == 2


def test_a_base_is_one_in_every_layout() -> None:
    """A part of what is read in another order is read from that, in its order."""
    y = x = eq.input("x", (6, 6, 8), "float32")
    for k in range(SHORT_CHAIN):
        y = y.flip(k // 2 % 3)
    padded = y.permute_dims((1, 2, 0)).permute_dims((2, 1, 0)).pad(((1, 0), (0, 2), (0, 0)))
    rolled = padded.permute_dims((0, 2, 1)).roll(2, 0)
    part = padded[1:-1, ::2, 1:-1:2].permute_dims((0, 2, 1))
    found = eq.optimize(eq.Program([x], {"rolled": rolled, "part": part}))
    assert found.layout_ops == 3  # the padding once, in the order of both
    assert found.cost_after == 4 * (6 * 6 * 8 + 7 * 6 * 10) + 8 * 7 * 6 * 10 + 8 * 5 * 2 * 5
