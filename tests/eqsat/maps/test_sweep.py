"""Random index maps of every family against enumeration: a short sweep, and the long one of 20,000 maps."""

from __future__ import annotations

from math import isqrt
from random import Random

import pytest
from map_oracle import disagreements

from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.testing.maps import MAP_FAMILIES, random_map

LONG = 20_000
LARGEST = 1 << 20


def mixture(rng: Random, most: int) -> tuple[IndexMap, tuple[int, ...]]:
    """Two maps side by side; outputs of them split, added, or fused and split again."""
    parts = [random_map(rng.choice(MAP_FAMILIES), rng, max(2, isqrt(most))) for _ in range(2)]
    names = tuple(f"x{n}" for n in range(sum(len(shape) for _, shape in parts)))
    inputs = iter([t.var(n) for n in names])
    outputs: list[Term] = []
    for m, _ in parts:
        table = {v: next(inputs) for v in m.inputs}
        outputs += [substitute(o, table) for o in m.outputs]
    shape = (*parts[0][1], *parts[1][1])
    c, kind = rng.choice((2, 3, 4, 5, 6, 7, 8, 12, 16)), rng.randrange(4)
    first, second = rng.randrange(len(outputs)), rng.randrange(len(outputs))
    if kind == 1:
        outputs[first : first + 1] = [outputs[first] // c, outputs[first] % c]
    elif first != second and kind == 2:
        outputs[first] = outputs[first] + outputs[second] * rng.choice((1, 2, c))
        if rng.randrange(2):
            outputs.pop(second)
    elif first != second and kind == 3:
        radix = IndexMap(names, tuple(outputs)).map_shape(shape)[second]
        fused = outputs[first] * radix + outputs[second]
        outputs[first], outputs[second] = fused // c, fused % c
    rng.shuffle(outputs)
    return IndexMap(names, tuple(outputs)), shape


def sweep(family: str, count: int, max_points: int, seed: str) -> list[str]:
    """What is wrong with the answers about random maps of a family."""
    found: list[str] = []
    for n in range(count):
        rng = Random(f"{seed} {family} {n}")
        m, shape = mixture(rng, max_points) if family == "mixture" else random_map(family, rng, max_points)
        found += [f"{m} on {shape}: {what}" for what in disagreements(m, shape, rng)]
    return found


@pytest.mark.parametrize("family", [*MAP_FAMILIES, "mixture"])
def test_random_maps_agree_with_enumeration(family: str) -> None:
    """Verdicts, witnesses, shapes, inverses, padding, compositions."""  # feature: A6 A7 A8 A9 A10 A13 A15 A16 A17
    assert sweep(family, 16 if family == "mixture" else 4, 2_000, "short") == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", [*MAP_FAMILIES, "mixture"])
def test_many_maps_agree_with_enumeration(family: str) -> None:  # feature: A13
    """20,000 maps on boxes of up to a million points: no disagreement, no unknown."""
    assert sweep(family, -(-LONG // len(MAP_FAMILIES)), LARGEST, "long") == []
