"""Sets as bits of numbers, many at once: rows of booleans, and which of them hold another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np

from eqsat.ir.dtypes import NDArray

TOGETHER = 64
"""So many are looked at at once."""


def bits_of(masks: Sequence[int], width: int) -> NDArray:
    """Masks as rows of booleans, the lowest bit first, at least so many: as many bytes as they take.

    >>> bits_of([1, 6], 3).astype(int).tolist()
    [[1, 0, 0, 0, 0, 0, 0, 0], [0, 1, 1, 0, 0, 0, 0, 0]]
    """
    size = -(-width // 8)
    data = b"".join(mask.to_bytes(size, "little") for mask in masks)
    rows = np.frombuffer(data, np.uint8).reshape(len(masks), size)
    return np.unpackbits(rows, axis=1, bitorder="little").astype(bool)


def numbers_of(rows: NDArray) -> list[int]:
    """Rows of booleans as masks, the first the lowest bit."""
    packed = np.packbits(rows, axis=1, bitorder="little")
    return [int.from_bytes(row.tobytes(), "little") for row in packed]


def holding_no_other(masks: Sequence[int]) -> list[int]:
    """The places of the masks that hold no mask before them, all of whose bits they have.

    >>> holding_no_other([0b110, 0b011, 0b111, 0b1011])
    [0, 1]
    """
    some = every = masks[0]
    for mask in masks:
        some, every = some | mask, every & mask
    bits = bits_of(masks, max(1, some.bit_length()))
    differing = bits[:, bits_of([some & ~every], bits.shape[1])[0]]
    packed = np.packbits(differing, axis=1, bitorder="little")
    words = np.zeros((len(masks), -(-packed.shape[1] // 8) * 8), np.uint8)
    words[:, : packed.shape[1]] = packed
    sets: NDArray = words.view(np.uint64)
    kept: list[int] = []
    for first in range(0, len(masks), TOGETHER):
        here = np.arange(first, min(first + TOGETHER, len(masks)))
        beside = np.array([*kept, *here])
        held: NDArray = np.ones((len(beside), len(here)), bool)
        for word in sets.T:
            np.logical_and(held, np.equal(word[beside][:, None] & ~word[here], 0), out=held)
        old, fresh = len(kept), 0
        needless: list[bool] = cast(NDArray, held[:old].any(axis=0)).tolist()
        by = numbers_of(held[old:].T)
        for k, place in enumerate(here.tolist()):
            if not needless[k] and not by[k] & fresh:
                fresh |= 1 << k
                kept.append(place)
    return kept
