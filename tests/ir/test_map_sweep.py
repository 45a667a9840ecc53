"""Random index maps of every family against enumeration: a short sweep, and the long one of 20,000 maps."""

from __future__ import annotations

from random import Random

import pytest
from map_oracle import disagreements

from eqsat.testing_maps import MAP_FAMILIES, random_map

LONG = 20_000
LARGEST = 1 << 20


def sweep(family: str, count: int, max_points: int, seed: str) -> list[str]:
    """What is wrong with the answers about random maps of a family."""
    found: list[str] = []
    for n in range(count):
        rng = Random(f"{seed} {family} {n}")
        m, shape = random_map(family, rng, max_points)
        found += [f"{m} on {shape}: {what}" for what in disagreements(m, shape, rng)]
    return found


@pytest.mark.parametrize("family", MAP_FAMILIES)
def test_random_maps_agree_with_enumeration(family: str) -> None:
    """Verdicts, witnesses, shapes, inverses, padding, compositions."""  # feature: A6 A7 A8 A9 A10 A13 A15 A16 A17
    assert sweep(family, 12, 2_000, "short") == []


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("family", MAP_FAMILIES)
def test_many_maps_agree_with_enumeration(family: str) -> None:  # feature: A13
    """20,000 maps on boxes of up to a million points: no disagreement, no unknown."""
    assert sweep(family, -(-LONG // len(MAP_FAMILIES)), LARGEST, "long") == []
