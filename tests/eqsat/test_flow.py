"""Layouts through index formulas: the seed's examples, and what has no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.flow import flow_layout
from eqsat.ir.errors import EqsatError, LayoutError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Tensor, compute, input

BLOCKED = IndexMap.parse("n, c, h, w -> n, c//4, h, w, c%4")


# feature: G11 G16
def test_the_seeds_relu_bias_and_sum() -> None:
    x, bias = input("x", (32, 256, 14, 14), "float32"), input("b", (256, 1, 1), "float32")
    assert flow_layout(x.relu(), BLOCKED)[x] == IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")
    maps = flow_layout(x + bias, BLOCKED)
    assert maps[x] == IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")
    assert maps[bias] == IndexMap.parse("i, j, k -> i//4, 0, 0, i%4")
    total = x.sum((2, 3))
    assert flow_layout(total, IndexMap.parse("n, c -> n, c//4, c%4"))[x] == IndexMap.parse(
        "i, j, k, l -> i, j//4, k, l, j%4"
    )


# feature: G17
def test_a_fused_body_flows_as_one() -> None:
    x = input("x", (2, 8, 3, 3), "float32")
    y = compute((2, 8, 3, 3), lambda n, c, h, w: (x[n, c, h, w] + 1.0) * x[n, c, h, w])
    assert flow_layout(y, BLOCKED)[x] == IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")


# feature: G18
def test_channels_that_the_layout_pads_flow_as_they_are() -> None:
    x = input("x", (32, 3, 8, 8), "float32")
    assert flow_layout(x.relu(), BLOCKED)[x] == IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")


# feature: G16
def test_windows_strides_and_pads_flow_where_their_axes_move_as_a_whole() -> None:
    x = input("x", (2, 8, 8, 8), "float32")
    pooled = compute((2, 8, 4, 4), lambda n, c, h, w, i, j: x[n, c, 2 * h + i, 2 * w + j], (2, 2), "max")
    for y in (pooled, x.slice((0, 0, 1, 0), (2, 8, 3, 8), (1, 1, 2, 1)), x.pad(1), x.flip((2,)), x.roll(3, 2)):
        assert flow_layout(y, IndexMap.parse("n, c, h, w -> n, h, w, c"))[x] == IndexMap.parse(
            "a, b, c, d -> a, c, d, b"
        )
        split = flow_layout(y, IndexMap.parse("n, c, h, w -> n, c, h//2, w, h%2"))[x]
        assert split is None


# feature: G16
def test_an_operand_of_which_a_part_is_read_keeps_its_cells_apart() -> None:
    x = input("x", (10,), "float32")
    part = x.slice([0], [4])
    assert flow_layout(part, IndexMap.parse("i -> i//2, i%2"))[x] == IndexMap.parse("i -> i//2, i%2")
    assert flow_layout(part, IndexMap.parse("i -> i%4"))[x] is None


# feature: G17 G20
def test_layouts_flow_through_all_operators_between_two_tensors() -> None:
    x, w = input("x", (2, 8, 6, 6), "float32"), input("w", (8, 1, 1), "float32")
    y = ((x.pad([(0, 0), (0, 0), (1, 1), (1, 1)]) + w).relu() * x.pad([(0, 0), (0, 0), (2, 0), (2, 0)])).sum(3)
    maps = flow_layout(y, IndexMap.parse("n, c, h -> n, c//4, h, c%4"), [x, w])
    assert maps[x] == IndexMap.parse("a, b, c, d -> a, b//4, c, d, b%4")
    assert maps[w] == IndexMap.parse("i, j, k -> i//4, 0, 0, i%4")
    square = input("s", (4, 4), "float32")
    both = square + square.permute_dims((1, 0)).relu()
    assert flow_layout(both, IndexMap.parse("i, j -> j, i"), [square])[square] is None
    with pytest.raises(LayoutError, match="does not read it"):
        flow_layout(y, IndexMap.parse("n, c, h -> n, h, c"), [square])


# feature: G21
def test_signatures_and_callbacks_say_what_formulas_do_not() -> None:
    x, k = input("x", (2, 8, 5), "float32"), input("k", (8,), "float32")
    types = [((2, 5, 8), "float32")]
    by_axes = Signature.parse("n c t, c -> n t c", map="n c")
    scan, nothing = (eq.opaque("Scan", [x, k], types, signature=s)[0] for s in (by_axes, None))
    blocked = IndexMap.parse("n, t, c -> n, c//4, t, c%4")
    expected: dict[Tensor, IndexMap | None] = {
        x: IndexMap.parse("a, b, c -> a, b//4, c, b%4"),
        k: IndexMap.parse("i -> i//4, i%4"),
    }
    assert flow_layout(scan, blocked) == expected
    assert flow_layout(nothing, blocked) == {x: None, k: None}
    asked: list[IndexMap] = []

    def answer(y: Tensor, m: IndexMap) -> dict[Tensor, IndexMap | None]:
        asked.append(m)
        return expected

    assert flow_layout(nothing, blocked, callbacks={"Scan": answer}) == expected
    assert flow_layout(nothing.relu(), blocked, [x], {"Scan": answer}) == {x: expected[x]}
    assert asked == [blocked, blocked]
    for wrong, why in (
        ({k: IndexMap.parse("i -> i//4")}, "share a place"),
        ({k: IndexMap.parse("i, j -> j, i")}, "2 inputs for rank 1"),
        ({scan: blocked}, "is no operand"),
    ):
        with pytest.raises(LayoutError, match=why):
            flow_layout(nothing, blocked, callbacks={"Scan": lambda y, m, wrong=wrong: wrong})


def test_products_of_labels_are_digits() -> None:
    x = input("x", (2, 3, 4), "float32")
    y = eq.opaque("Merge", [x], [((2, 12), "float32")], signature=Signature.parse("a b c -> a (b c)", map="a b c"))[0]
    assert flow_layout(y, IndexMap.parse("i, j -> j, i"))[x] is None
    once = Signature.parse("a (b c), c -> (b c) a", map="a")
    z = eq.opaque("Same", [y, input("k", (4,), "float32")], [((12, 2), "float32")], signature=once)[0]
    assert flow_layout(z, IndexMap.parse("i, j -> j, i"))[y] == IndexMap.parse("a, b -> a, b")


# feature: G19
def test_conflicting_or_computed_accesses_have_no_layout() -> None:
    a = input("a", (4, 4), "float32")
    transpose = IndexMap.parse("i, j -> j, i")
    both = compute((4, 4), lambda i, j: a[i, j] * a[j, i])
    mixed = compute((4, 4), lambda i, j: a[(i + j) % 4, j])
    assert flow_layout(both, transpose)[a] is None
    assert flow_layout(mixed, transpose)[a] is None


@pytest.mark.parametrize("seed", range(60))
def test_physical_indices_of_operand_and_result_correspond(seed: int) -> None:
    """Brute force over views: the layout keeps the operand's cells apart, and each physical index of what is read is a
    function of one physical index of the result, in the same order."""
    rng = np.random.default_rng(seed)
    x = input("x", (4, 6, 5), "int32")
    steps: list[Callable[[Tensor, int], Tensor]] = [
        lambda y, axis: y.pad([(int(n == axis), 2) for n in range(y.rank)], -1),
        lambda y, axis: y.flip((axis,)),
        lambda y, axis: y.roll(1, axis),
        lambda y, axis: y[tuple(slice(int(n == axis), int(n == axis) - 1 or None) for n in range(y.rank))],
        lambda y, axis: y.permute_dims([(n + axis) % y.rank for n in range(y.rank)]),
    ]
    y = x
    for _ in range(rng.integers(1, 3)):
        y = steps[rng.integers(len(steps))](y, int(rng.integers(y.rank)))
    digits = [d for n in "ijk" for d in ([n] if rng.integers(3) else [f"{n}//2", f"{n}%2"])]
    m = IndexMap.parse(f"i, j, k -> {', '.join(rng.permutation(digits))}")
    own = flow_layout(y, m, [x])[x]
    if own is None:
        assert any("//" in d for d in digits)
        return
    cells = list(np.ndindex(4, 6, 5))
    assert len({own.map_indices(c) for c in cells}) == len(cells)
    read = eq.evaluate(y, {"x": np.arange(120, dtype="int32").reshape(4, 6, 5)})
    pairs = [(m.map_indices(at), own.map_indices(cells[n])) for at, n in np.ndenumerate(read) if n >= 0]
    place = -1
    for p in range(len(own.final_indices)):
        place = next(q for q in range(place + 1, len(digits)) if is_function({(a[q], b[p]) for a, b in pairs}))


def is_function(pairs: set[tuple[int, int]]) -> bool:
    return len({a for a, _ in pairs}) == len(pairs)


def test_what_has_no_operands_and_wrong_ranks_are_refused() -> None:
    x: Tensor = input("x", (4, 4), "float32")
    with pytest.raises(LayoutError, match="has no operands"):
        flow_layout(x, IndexMap.parse("i, j -> j, i"))
    with pytest.raises(LayoutError, match="inputs for rank"):
        flow_layout(x.relu(), IndexMap.parse("i -> i"))
    with pytest.raises(LayoutError, match="two cells share a place"):
        flow_layout(x.relu(), IndexMap.parse("i, j -> i + j"))


def test_a_map_may_be_a_text_and_nothing_else() -> None:
    x: Tensor = input("x", (4, 4), "float32")
    assert flow_layout(x.relu(), "i, j -> j, i") == flow_layout(x.relu(), IndexMap.parse("i, j -> j, i"))
    with pytest.raises(EqsatError, match="i, j ->"):
        flow_layout(x.relu(), "i, j -> ")
    odd: list[Any] = [None, 5, input, eq.PrimFunc.parse("func f(x: int8[4])\n  pass")]
    for given in odd:
        with pytest.raises(LayoutError, match="is no index map"):
            flow_layout(x.relu(), given)
        with pytest.raises(LayoutError, match="is no tensor"):
            flow_layout(given, "i, j -> j, i")
    for given in (5, "x", [5], [None]):
        with pytest.raises(LayoutError, match=r"is no tensor|is no list"):
            flow_layout(x.relu(), "i, j -> j, i", given)  # pyright: ignore[reportArgumentType]
    for given in (5, "x", ["relu"]):
        with pytest.raises(LayoutError, match="are no dict"):
            flow_layout(x.relu(), "i, j -> j, i", None, given)  # pyright: ignore[reportArgumentType]
