"""Maps that leave gaps: rows with a pitch, tiles apart, layouts of (shape, stride) whose weights do not divide."""

from math import prod

import numpy as np
import pytest

from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.parse import parse_expr
from eqsat.ir.terms.walk import dag_size
from eqsat.maps.padding import first_cell

# The padding is a bound on a digit, 5 to 7 nodes, for each place that is wider than what it holds.
ONE_GAP = [
    ("i -> i//2*6 + i%2", (8,)),  # (2, 4):(1, 6)
    ("i -> i//3*9 + i%3", (18,)),
    ("i -> i//3*9 + i%3", (17,)),
    ("i -> i//32*64 + i%32", (1024,)),
    ("i -> i//4*8 + i%2*4 + i//2%2", (32,)),
    ("i -> i%8//4*16 + i//8*32 + i%4", (64,)),
    ("i, j -> i//16*2048 + j//16*512 + i%16*32 + j%16", (64, 64)),
    ("i -> i//2*12 + 2*i - i//4*31", (8,)),  # (4, 2):(1, 16) after (4, 2):(2, 1)
    ("i -> 3*i - i//4*11", (8,)),
    ("i -> 4*i - i//2*2", (8,)),
]
MORE_GAPS = [
    ("i -> i%2*8 + i//2%4 + i//8*64", (64,)),
    ("i -> i//4%2*32 + i//8*4 + i//2%2*8 + i%2", (16,)),
    ("i -> 2*i + i//4", (16,)),  # 2*(i%4) + 9*(i//4)
    ("i -> i//4*8 + i%4//2*3 + i%2", (32,)),
    ("i, j -> 26*i + 2*j + j//5*7", (4, 9)),
]


def reached(m: IndexMap, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
    """The points as columns, the flat cell of each, and the declared shape."""
    points = np.indices(shape).reshape(len(shape), -1)
    declared = tuple(int(n) for n in m.map_shape(shape))
    cells = [np.broadcast_to(np.asarray(c), points.shape[1:]) for c in m.map_indices(tuple(points))]
    return points, np.ravel_multi_index(cells, declared), declared


# feature: A10
@pytest.mark.parametrize(
    ("text", "shape", "most"), [(*m, 7) for m in ONE_GAP] + [(*m, 16) for m in MORE_GAPS], ids=lambda x: str(x)
)
def test_the_padding_of_gaps_is_a_bound_on_digits(text: str, shape: tuple[int, ...], most: int) -> None:
    m = IndexMap.parse(text)
    points, cells, declared = reached(m, shape)
    inverse, padding = m.non_surjective_inverse(shape)
    everywhere = tuple(np.unravel_index(np.arange(prod(declared)), declared))
    empty = np.ones(prod(declared), bool)
    empty[cells] = False
    found = padding.evaluate(dict(zip(inverse.names, everywhere, strict=True)))
    assert np.array_equal(np.broadcast_to(np.asarray(found), empty.shape), empty)
    for back, point in zip(inverse.map_indices(everywhere), points, strict=True):
        assert np.array_equal(np.broadcast_to(np.asarray(back), empty.shape)[cells], point)
    assert not inverse.is_table
    assert dag_size(padding) <= most, str(padding)


@pytest.mark.parametrize("text", ["i -> 2*i + i//4", "i -> 5*i - i//2*2", "i -> i//32*64 + i%32"])
def test_gaps_of_large_boxes_are_said_too(text: str) -> None:
    m, shape = IndexMap.parse(text), (1 << 40,)
    inverse, padding = m.non_surjective_inverse(shape)
    assert m.is_injective(shape).verdict == "proved"
    assert dag_size(padding) <= 11
    points = np.arange(1 << 14) * 67_108_859
    cells = m.map_indices((points,))
    assert np.array_equal(inverse.map_indices(cells)[0], points)
    assert not np.any(padding.evaluate(dict(zip(inverse.names, cells, strict=True))))
    assert np.any(padding.evaluate({inverse.names[0]: np.arange(64)}))


FAR = {
    "30000 <= p and 40000 <= q": (30_000, 40_000),
    "(p + q) % 7 == 3 and 20000 < p": (20_001, 1),
    "5 <= q": (0, 5),
    "70000 <= p and 40000 <= q": None,
    "200000 <= 3*p + q and q < 5": None,
}


@pytest.mark.parametrize("text", FAR)
def test_the_first_cell_of_a_large_box_is_found_by_proofs(text: str) -> None:
    """Of more cells than are tried, axis by axis; where the predicate holds nowhere, there is none."""
    p, q = t.var("p"), t.var("q")
    predicate = parse_expr(text, {"p": p, "q": q})
    assert first_cell(predicate, [p, q], (1 << 16, 1 << 16)) == FAR[text]
