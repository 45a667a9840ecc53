"""Constant tables inside of index terms: a load from a literal integer array, for gathers that no formula describes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

MOST_PRINTED = 64


class Table:
    """A literal 1-d int64 array that index terms may load; equal arrays are the same source."""

    __slots__ = ("__weakref__", "array", "source_key")

    def __init__(self, array: NDArray) -> None:
        self.array: NDArray = np.array(array, dtype=np.int64).reshape(-1)
        self.array.flags.writeable = False
        content = self.array.astype("<i8").tobytes()
        self.source_key = "table " + hashlib.blake2b(content, digest_size=12).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self.source_key == other.source_key

    def __hash__(self) -> int:
        return hash(self.source_key)

    def __repr__(self) -> str:
        return f"Table({np.array2string(self.array, threshold=8)})"

    @property
    def name(self) -> str:
        """What a load prints: the numbers, which can be read again, or a name where they are many."""
        if self.array.size > MOST_PRINTED:
            return f"table{self.source_key[-6:]}"
        return str(self.array.tolist())


def table_load(array: NDArray, index: Term) -> Term:
    """The index term array[index].

    >>> import numpy as np
    >>> from eqsat.ir.terms.term import ax
    >>> table_load(np.array([2, 0, 1]), ax(0, 3)).dtype
    'index'
    """
    return t.load(Table(array), (index,), INDEX)


def load_table(source: Any, index: Sequence[NDArray]) -> tuple[NDArray, NDArray | None]:
    """The load function for terms whose only loads are constant tables; the mask marks indices out of range.

    >>> value, bad = load_table(Table(np.array([5, 7])), [np.array([1, 2])])
    >>> value[0], bad
    (np.int64(7), array([False,  True]))
    """
    if not isinstance(source, Table):
        raise EvaluationError(f"load of {t.load(source, (), INDEX)}", "only constant tables have values here")
    array, at = source.array, index[0]
    bad = np.asarray((at < 0) | (at >= array.size))
    if not array.size:
        return np.zeros(at.shape, np.int64), bad
    return np.asarray(array[np.clip(at, 0, array.size - 1)]), bad if bool(bad.any()) else None
