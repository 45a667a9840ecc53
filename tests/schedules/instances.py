"""Every access of a statement as it happens, by enumeration: what legality is compared with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.accesses.access import Access, Context, accesses
from eqsat.ir.statements.stmt import Stmt
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term


@dataclass(frozen=True, eq=False)
class Instance:
    """One happening of an access."""

    access: Access
    at: tuple[int, ...]
    cell: tuple[int, ...]


def number(term: Term, values: dict[Term, int]) -> Any:
    """The value of a term that reads nothing."""
    env = {k: np.asarray(v, np.int64) for k, v in values.items()}
    ((value, bad),) = evaluate_masked([term], env, load_table)
    assert bad is None or not bool(np.any(bad))
    return value


def instances(stmt: Stmt, context: Context) -> list[Instance]:
    """The happenings of all accesses of a statement that reads no data in conditions and indices."""
    found: list[Instance] = []
    for access in accesses(stmt, context):
        assert access.exact
        for at in _points(access):
            values = dict(zip(access.axes, at, strict=True))
            if all(bool(number(g, values)) for g in access.guards):
                index = [i for i in access.index if i is not None]
                found.append(Instance(access, at, tuple(int(number(i, values)) for i in index)))
    return found


def _points(access: Access) -> Iterator[tuple[int, ...]]:
    extents = [t.int_value(axis.args[0]) or 0 for axis in access.axes]
    yield from np.ndindex(*extents)
