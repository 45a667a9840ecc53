"""Index maps on boxes without points: injective always, bijective exactly where the physical shape is empty, too."""

from __future__ import annotations

from random import Random

import pytest

import eqsat as eq
from eqsat.ir.errors import LayoutError
from eqsat.testing.maps import MAP_FAMILIES, random_map

WRITTEN = [
    ("i, j -> -i, abs(2*j)", (6, 0)),
    ("i -> abs(i) + i + 4, 3", (0,)),
    ("i, j -> (15 - i)*(j - i), i + i*-1, ((j if j < 3 else 4)*j)", (1, 0)),
    ("i -> abs(i)", (0,)),
    ("i -> i//4, i%4", (0,)),
    ("i -> 4//i", (0,)),
    ("i, j -> max(i, j), min(i, j)", (0, 4)),
    ("i, j -> i, abs(j - 3)", (4, 0)),
    ("i, j -> 5", (0, 2)),
    ("i, j -> j, i", (0, 3)),
]


def check(m: eq.IndexMap, shape: tuple[int, ...]) -> bool:
    """What holds of an empty box; whether the map is onto."""
    try:
        physical = tuple(int(str(e)) for e in m.map_shape(shape))
    except eq.EqsatError:
        return False
    onto = 0 in physical
    assert m.is_injective(shape).verdict == "proved"
    proof = m.is_bijective(shape)
    assert proof.verdict == ("proved" if onto else "refuted")
    back, padding = m.non_surjective_inverse(shape)
    assert len(back.final_indices) == len(shape) and padding.same(eq.parse_expr("False" if onto else "True"))
    if onto:
        assert len(m.inverse(shape).final_indices) == len(shape)
    else:
        assert proof.witness == {"padding": (0,) * len(physical)}
        with pytest.raises(LayoutError, match="not surjective"):
            m.inverse(shape)
    return onto


@pytest.mark.parametrize(("text", "shape"), WRITTEN)
def test_written_maps_on_empty_boxes(text: str, shape: tuple[int, ...]) -> None:
    check(eq.IndexMap.parse(text), shape)


def test_random_maps_on_empty_boxes() -> None:
    rng, seen = Random(11), set[bool]()
    for family in MAP_FAMILIES:
        for _ in range(6):
            m, shape = random_map(family, rng, 200)
            gone = rng.randrange(len(shape))
            seen.add(check(m, tuple(0 if n == gone or rng.random() < 0.2 else e for n, e in enumerate(shape))))
    assert seen == {True, False}
