"""Values for what a region reads: a random function of the position, so that nothing is stored, and special values."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, COMPLEX, NDArray, float_info, is_float

_MIX = np.uint64(0x9E3779B97F4A7C15)
_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_CLOSE, _LEAST_CLOSE = np.uint64(6), -2
BEYOND = ("high", "low")
FARTHEST = 100.0
SMALLER = (2.0**-5, 2.0**-30, 2.0**-100)
"""Scales for originals that overflow, or are uncertain, on plain numbers."""
NUDGE = 8.0
"""Units in the last place by which nudged floats differ."""
NUDGES = (1, 2, 3)
"""The numbers of variants."""
_S30, _S27, _S31, _S11 = (np.uint64(n) for n in (30, 27, 31, 11))


def mixed(a: Any) -> NDArray:
    """A bijection of 64-bit words that leaves nothing of their order (splitmix64)."""
    with np.errstate(over="ignore"):
        z = np.asarray(a, np.uint64) * _MIX + _MIX
        z = (z ^ (z >> _S30)) * _ONE
        z = (z ^ (z >> _S27)) * _TWO
        return np.asarray(z ^ (z >> _S31))


def seed_of(*parts: Any) -> int:
    """A 64-bit number that is the same in every process for parts that print alike.

    >>> seed_of("conv", 3) == seed_of("conv", 3) != seed_of("conv", 4)
    True
    """
    text = "\\0".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little")


@dataclass(frozen=True)
class Draw:
    """One way to choose inputs.

    kind: "plain" are numbers of both signs, all different; "special" mixes in 0, -0.0, inf, NaN, if `limits`, the
    limits of the type, and numbers that the region itself has (`near`), with what lies beside them; "close" are a few
    small whole numbers, so that many cells are equal; "tame" are small positive numbers, for originals that fail on
    others; "high" are all above the numbers that the region has, and "low" all below, where a maximum, a mean or a
    comparison hides what is done to the others. Plain floats are multiplied by `scale`, with the same signs.
    `nudged` is 0, or the number of a variant of the draw that differs from it in the last digits of floats.
    """

    kind: str
    seed: int
    limits: bool = True
    near: tuple[float, ...] = ()
    scale: float = 1.0
    nudged: int = 0

    def values(self, name: int, index: NDArray, dtype: str) -> NDArray:
        """The cells of a value at some flat positions.

        >>> Draw("plain", 0).values(1, np.arange(3), "int8").dtype
        dtype('int8')
        """
        bits = mixed(np.asarray(index).astype(np.uint64) ^ mixed(np.uint64((self.seed * 0x1F1F1F1F + name) % 2**64)))
        if dtype == BOOL:
            return np.asarray((bits >> _S31) & np.uint64(1)).astype(bool)
        if is_float(dtype):
            return self._floats(bits, dtype)
        if dtype in COMPLEX:
            made: NDArray = np.empty(bits.shape, dtype)
            made.real, made.imag = (self._floats(mixed(bits + np.uint64(k)), made.real.dtype.name) for k in range(2))
            return made
        info = np.iinfo(dtype)
        if self.kind == "close":
            return np.asarray(bits % _CLOSE).astype(dtype) + np.asarray(_LEAST_CLOSE if info.min < 0 else 0, dtype)
        if self.kind == "tame":
            return np.asarray(bits % np.uint64(2 if self.seed % 2 else 3)).astype(dtype) + np.asarray(
                self.seed % 2, dtype
            )
        if self.kind in BEYOND:
            far = np.asarray(bits % np.uint64(3), np.int64) + min(round(self._largest) + 1, int(info.max) - 2)
            return (far if self.kind == "high" else np.maximum(-far, int(info.min))).astype(dtype)
        low = max(-100, int(info.min)) if info.min < 0 else 0
        whole = np.asarray(bits % np.uint64(min(200, int(info.max) - low + 1)), np.int64) + low
        made = whole.astype(dtype)
        if self.kind == "special":
            extra = [0, 1, int(info.max), int(info.min)] if self.limits else [0, 1, 0, 1]
            beside = [int(n) + k for n in self.near if np.isfinite(n) for k in (-1, 0, 0, 1)]
            extra += [n for n in beside if info.min <= n <= info.max]
            chosen = np.asarray((bits >> _S30) % np.uint64(len(extra) + 4 if beside else 24))
            for k, value in enumerate(extra):
                made = np.where(chosen == k, np.asarray(value, dtype), made)
        return made

    def _floats(self, bits: NDArray, dtype: str) -> NDArray:
        made = self._own_floats(bits, dtype)
        if not self.nudged:
            return made
        step = np.where((bits >> np.uint64(24 + self.nudged)) % np.uint64(2), NUDGE, -NUDGE) * float(
            float_info(dtype).eps
        )
        with np.errstate(over="ignore"):
            return np.asarray(made.astype(np.float64) * (1.0 + step)).astype(dtype)

    def _own_floats(self, bits: NDArray, dtype: str) -> NDArray:
        if self.kind == "close":
            return np.asarray(bits % _CLOSE).astype(dtype) + np.asarray(_LEAST_CLOSE, dtype)
        unit = np.asarray(bits >> _S11, np.float64) * 2.0**-53
        if self.kind == "tame":
            return np.asarray(0.5 + unit, dtype)
        if self.kind in BEYOND:
            return np.asarray((self._largest + 1.0 + unit) * (1.0 if self.kind == "high" else -1.0)).astype(dtype)
        scale = max(self.scale, float(float_info(dtype).tiny) * FARTHEST)
        made = np.asarray((unit - 0.5) * (5.0 * scale)).astype(dtype)
        if self.kind == "special":
            top = float_info(dtype).max
            special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, *((top, -top) if self.limits else (2.0, -1.0))]
            with np.errstate(over="ignore"):
                table = np.array([*special, *self.near, *self.near], dtype)
            chosen = np.asarray((bits >> np.uint64(3)) % np.uint64(max(32, 2 * len(table))))
            made = np.where(chosen < len(table), table[np.minimum(chosen, np.uint64(len(table) - 1))], made)
        return made

    @property
    def _largest(self) -> float:
        """The largest of the region's own numbers, of either sign, that are not far from all others."""
        return max((abs(n) for n in self.near if abs(n) <= FARTHEST), default=0.0)


MOST_NUMBERS = 8


def numbers_of(arrays: Iterable[NDArray]) -> tuple[float, ...]:
    """Some different numbers of small arrays, for `Draw.near`.

    >>> numbers_of([np.array([3, 3, 7]), np.array(True)])
    (3.0, 7.0)
    """
    found: dict[float, None] = {}
    for array in arrays:
        if array.dtype.kind in "iuf" and array.size <= MOST_NUMBERS:
            found.update(dict.fromkeys(map(float, array.reshape(-1).tolist())))
        if len(found) >= MOST_NUMBERS:
            break
    return tuple(found)[:MOST_NUMBERS]


def pool(draw: Draw, name: int, size: int, dtype: str) -> NDArray:
    """Cells 0..size-1 of a value, those of large ones repeated with a prime period, which is no stride."""
    period = 65_521
    if size <= period:
        return draw.values(name, np.arange(size), dtype)
    return np.resize(draw.values(name, np.arange(period), dtype), size)
