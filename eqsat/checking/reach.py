"""Accesses that leave their tensor, also in cells that no output needs: the numpy meaning computes all cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.checking.draws import mixed
from eqsat.checking.part import cells, flat_index
from eqsat.checking.pull import Pull
from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.tensors.tensor import Compute, View
from eqsat.ir.terms.evaluate import Mask, evaluate_masked
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

POINTS = 2048


def out_of_range(pull: Pull) -> str:
    """An access of a part that is out of range, or ''; nodes whose accesses depend on data are left to running them."""
    for node in pull.part.nodes:
        if not isinstance(node, (View, Compute)):
            continue
        term = node.body
        if _on_data(term):
            continue
        shape, reduced = pull.shape((node.serial, 0)), pull.reduced(node)
        inner = cells(reduced)
        size, room = cells(shape), max(1, POINTS * 8 // max(1, inner))
        if size <= room:
            points = np.arange(size)
        else:
            points = np.unique((mixed(np.arange(room - 1)) % np.uint64(size)).astype(np.int64))
            points = np.union1d(points, [0, size - 1])
        if not points.size or not inner or inner > POINTS * 64:
            continue
        bad = evaluate_masked([term], pull.env(shape, reduced, node, points), _ranges(pull, node), _no_hole)[0][1]
        if bad is not None and bool(np.any(bad)):
            return f"{type(node).__name__.lower()} of {shape} reads out of range"
    return ""


def _on_data(term: Term) -> bool:
    """Whether a guard or an index is data."""
    loads: set[Term] = set()
    for n in postorder(term):
        if any(a in loads for a in n.args):
            guard = n.op in ("where", "given") and n.args[0] in loads
            if guard or n.op in ("and", "or", "load") or n.dtype == INDEX:
                return True
            loads.add(n)
        elif n.op == "load" and not isinstance(n.payload, Table):
            loads.add(n)
    return False


def _ranges(pull: Pull, node: View | Compute) -> Any:
    def load(source: Any, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
        if isinstance(source, Table):
            return load_table(source, index)
        x = node.operands[int(source)]
        shape = pull.shape(x.key)
        wide = np.broadcast_shapes(*(i.shape for i in index))
        if not cells(shape):
            return np.ones(wide, x.dtype), np.ones(wide, bool)
        return np.ones(wide, x.dtype), flat_index(index, shape)[1]

    return load


def _no_hole(number: int, dtype: str, index: Sequence[NDArray]) -> NDArray:
    return np.zeros((), dtype)
