"""Words of cells: 64-bit names, so that cells of one word are cells of one expression.

A word is made of what a cell is: a number by its bits, a cell that a region reads by its place, anything else by what
is done with which words. Both proofs by names use these, that of programs (`symbolic`) and that of models
(`model_symbolic`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.checking.draws import mixed, seed_of
from eqsat.ir.dtypes import NDArray, has_floats

WIDEST = 8
"""Bytes of a number that a word can hold."""


class Unable(Exception):
    """Something that has no word: a kind of number that is not known here, or what its user does not know."""


def constant(values: Any) -> NDArray:
    """The words of numbers, by type and bits; any NaN is like any other.

    >>> bool(constant(np.float32(0.0)) == constant(np.float32(-0.0)))
    False
    >>> bool(constant(complex(np.nan, 1)) == constant(complex(np.nan, 2)))
    False
    """
    array = np.asarray(values)
    if array.dtype.kind == "c":
        return applied(("complex", array.dtype.name), [constant(np.real(array)), constant(np.imag(array))])
    if array.dtype.hasobject or array.dtype.kind in "SUMm" or array.dtype.itemsize > WIDEST:
        raise Unable
    if has_floats(array):
        array = np.where(np.isnan(array), np.asarray(np.nan, array.dtype), array)
    raw = array.astype(np.uint8) if array.dtype.kind == "b" else array.view(f"u{array.dtype.itemsize}")
    return mixed(raw.astype(np.uint64) ^ np.uint64(seed_of("constant", array.dtype.name)))


def free(places: NDArray, number: int) -> NDArray:
    """The words of cells that nothing is known of: those at some places of a value with this number.

    >>> int(np.unique(np.concatenate([free(np.arange(3), 0), free(np.arange(3), 1)])).size)
    6
    """
    return mixed(np.asarray(places).astype(np.uint64) ^ np.uint64(seed_of("free", number)))


def applied(what: Sequence[Any], words: Sequence[NDArray], commutes: bool = False) -> NDArray:
    """The words of what is done with cells of these words; with two of an operator that commutes, in any order.

    >>> x, y = free(np.arange(3), 0), free(np.arange(3), 1)
    >>> [bool(np.all(applied(["add"], [x, y], c) == applied(["add"], [y, x], c))) for c in (True, False)]
    [True, False]
    """
    if commutes and len(words) == 2:
        words = [np.minimum(*words), np.maximum(*words)]
    total: NDArray = np.asarray(seed_of(*what), np.uint64)
    for k, word in enumerate(words):
        total = mixed(total * np.uint64(2 * k + 3) ^ word)
    return total
