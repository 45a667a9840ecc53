"""What every program of an e-graph needs."""

from __future__ import annotations

from random import Random

import pytest

from eqsat.extraction.parts import needed_by_all, settled


@pytest.mark.parametrize("seed", range(40))
def test_what_all_need_is_what_none_can_be_built_without(seed: int) -> None:
    """Against each class left out; with circles, and classes that cannot be built."""
    rng = Random(seed)
    count = rng.randint(2, 9)
    ways = {
        c: [[rng.randrange(count) for _ in range(rng.randint(0, 2))] for _ in range(rng.randint(1, 3))]
        for c in range(count)
    }
    built = settled({c: [(1, needs) for needs in some] for c, some in ways.items()})
    ways = {c: [needs for needs in ways[c] if all(x in built for x in needs)] for c in built}
    roots = [c for c in built if rng.random() < 0.3]
    needed = needed_by_all(ways, roots)
    for c in built:
        left = settled({d: [(1, needs) for needs in some if c not in needs] for d, some in ways.items() if d != c})
        assert (c in needed) == any(root not in left for root in roots), c
