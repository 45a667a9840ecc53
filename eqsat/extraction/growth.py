"""Constants in further layouts: which of them would make a program larger than it may become."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from eqsat.extraction.extract import Choice, InsertView, UseLeaf, UsePadded, UseSum
from eqsat.graph.encode import Encoded
from eqsat.graph.nodes import ClassId, UseForm
from eqsat.ir.dtypes import itemsize
from eqsat.ir.flat.size_samples import sampled
from eqsat.ir.tensors.tensor import Constant

SLACK = 1 << 12
"""Bytes by which a program may grow, however small it is."""


def too_large(
    encoded: Encoded, choices: Mapping[ClassId, Choice], roots: Collection[ClassId], growth: float
) -> set[ClassId]:
    """The constants whose views stay nodes, the largest first, so that all constants together do not grow by more than
    a share: a constant that is read in other layouts alone is written in these instead."""
    sizes: dict[ClassId, int] = {}
    for c, choice in choices.items():
        node = encoded.leaves[choice.leaf].node if isinstance(choice, UseLeaf) else None
        if isinstance(node, Constant):
            sizes[c] = node.array.nbytes
    total = sum(x.node.array.nbytes for x in encoded.leaves.values() if isinstance(x.node, Constant))
    spells = [choice.spell if isinstance(choice, (UsePadded, UseSum)) else choice for choice in choices.values()]
    read = {*roots, *(c for spell in spells if isinstance(spell, UseForm) for c in spell.operands)}
    more = {c: 0 if c in read else -size for c, size in sizes.items()}
    for choice in choices.values():
        if isinstance(choice, InsertView) and choice.source in sizes:
            seen = encoded.interned.reindexes[choice.reindex if choice.then is None else choice.then]
            more[choice.source] += sampled(seen.map.n_out) * itemsize(seen.dtype)
    beyond = sum(more.values()) - growth * total - SLACK
    found: set[ClassId] = set()
    for c in sorted(more, key=lambda c: (-more[c], c)):
        if beyond <= 0 or more[c] <= 0:
            break
        found.add(c)
        beyond -= more[c]
    return found
