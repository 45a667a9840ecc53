"""What a program assumes of its inputs (`cropped_value=`), as values that the drawn inputs must hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.checking.part import Impossible, Key, Part, cells, flat_index
from eqsat.checking.pull import Pull
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term

MOST = 1 << 21


def assumptions(pull: Pull) -> dict[int, list[tuple[NDArray, Any]]]:
    """For each random value of a part, cells that hold a given value: a mask over its flat positions, and the value."""
    found: dict[int, list[tuple[NDArray, Any]]] = {}
    makers = {(n.serial, 0): n for n in pull.part.nodes if isinstance(n, View)}
    for node in pull.part.nodes:
        value = None if not isinstance(node, View) or node.tag is None else node.tag.get("cropped_value")
        if value is None:
            continue
        assert isinstance(node, View)
        source, shape = pull.part.real(node.operands[0].key), pull.shape(node.operands[0].key)
        if cells(shape) > MOST:
            raise Impossible("crop with cropped_value", f"{cells(shape)} cells")
        outside = np.ones(cells(shape), bool)
        outside[_read(pull, node, np.arange(cells(pull.shape((node.serial, 0)))))] = False
        number, flat = _traced(pull, makers, source, np.flatnonzero(outside))
        mask = np.zeros(cells(pull.shape(_key_of(pull.part, number))), bool)
        mask[flat] = True
        found.setdefault(number, []).append((mask, np.asarray(t.const_value(value))))
    return found


def _key_of(part: Part, number: int) -> Key:
    return next(key for key, n in part.free.items() if n == number)


def _read(pull: Pull, node: View, points: NDArray) -> NDArray:
    """The flat positions of the source that some cells of a view are."""
    env: dict[Term, NDArray] = pull.env(pull.shape((node.serial, 0)), (), node, points)
    values = [v for v, _ in evaluate_masked(node.gather, env, load_table)]
    return np.broadcast_to(flat_index(values, pull.shape(node.operands[0].key))[0], points.shape)


def _traced(pull: Pull, makers: dict[Key, View], key: Key, points: NDArray) -> tuple[int, NDArray]:
    """The random value, and the positions in it, that some cells of a value are."""
    while key not in pull.part.free:
        node = makers.get(key)
        if node is None:
            raise Impossible("crop with cropped_value", "the cropped value is computed")
        if node.fill is not None:
            env = pull.env(pull.shape(key), (), node, points)
            inside = np.broadcast_to(evaluate_masked([node.valid], env, load_table)[0][0], points.shape)
            points = points[inside]
        points = _read(pull, node, points)
        key = pull.part.real(node.operands[0].key)
    return pull.part.free[key], points
