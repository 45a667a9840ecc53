"""Proof by symbolic evaluation: every cell is the expression that computes it, known by a 64-bit hash.

Equal expressions in all cells are equal values for all inputs of these sizes. Numbers that are known are computed, the
operands of commutative operators and the terms of reductions have no order; nothing else is simplified, so "not equal"
says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.checking.draws import mixed, seed_of
from eqsat.checking.part import Key, Part, cells, flat_index
from eqsat.checking.pull import Pull, reduce
from eqsat.checking.words import Unable, applied, constant, free
from eqsat.ir.dtypes import COMPLEX, INDEX, NDArray
from eqsat.ir.tensors.run import neutral
from eqsat.ir.tensors.tensor import Compute, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder

COMMUTATIVE = frozenset(("add", "mul", "min", "max", "bitand", "bitor", "bitxor", "eq", "ne"))
MOST = 1 << 18
"""Cells, reduced axes included, up to which a proof is cheaper than running."""


@dataclass(frozen=True)
class Cells:
    """Expressions by their hashes, and the numbers of those that are known (None: none is)."""

    words: NDArray
    known: NDArray | None = None
    numbers: NDArray | None = None


def proved(left: Pull, right: Pull, roots: Sequence[tuple[Key, Key]]) -> bool:
    """Whether all cells of each pair of values, all of which were asked for, are the same expressions."""
    if left.work > MOST or right.work > MOST:
        return False
    try:
        with np.errstate(all="ignore"):
            a, b = _Symbolic(left), _Symbolic(right)
            for x, y in roots:
                shape = left.shape(x)
                every = np.arange(cells(shape))
                if not np.array_equal(a.cells(x, every).words, b.cells(y, every).words):
                    return False
    except Unable:
        return False
    return True


class _Symbolic:
    """The expressions of a part."""

    def __init__(self, pull: Pull) -> None:
        self.pull = pull
        self.values: dict[Key, Cells] = {}
        for node in pull.part.nodes:
            if (node.serial, 0) in pull.asked:
                if not isinstance(node, (View, Compute)):
                    raise Unable
                self.values[node.serial, 0] = self._node(node)

    def cells(self, key: Key, flat: NDArray) -> Cells:
        part: Part = self.pull.part
        key = part.real(key)
        if key in part.free:
            return Cells(free(flat, part.free[key]))
        if key in part.constants:
            numbers = part.constants[key].reshape(-1)[flat]
            return Cells(constant(numbers), np.ones(flat.shape, bool), numbers)
        if not flat.size:
            return Cells(np.zeros(flat.shape, np.uint64))
        found, place = self.values[key], self.pull.asked[key].place(flat)
        return Cells(
            found.words[place],
            None if found.known is None else found.known[place],
            None if found.numbers is None else found.numbers[place],
        )

    def _node(self, node: View | Compute) -> Cells:
        pull = self.pull
        shape, reduced = pull.shape((node.serial, 0)), pull.reduced(node)
        points = pull.asked[node.serial, 0].points
        if not points.size:  # what such a node loads, nobody asked for
            return Cells(np.zeros(0, np.uint64))
        env = pull.env(shape, reduced, node, points)
        value = _spread(self._term(node.body, env, node), (points.size, *reduced))
        if isinstance(node, Compute) and node.combiner is not None:
            return _combined(value, node.combiner, node.outputs[0][1], node.ordered)
        return value

    def _term(self, root: Term, env: Mapping[Term, NDArray], node: View | Compute) -> Cells:
        done: dict[Term, Any] = {}
        conditions = [n for n in postorder(root) if _concrete(n)]
        outer = [n for n in conditions if n.dtype != INDEX]
        for n, (value, bad) in zip(outer, evaluate_masked(outer, env, load_table), strict=True):
            if bad is not None and bool(np.any(bad)):
                raise Unable
            done[n] = Cells(constant(value), np.ones(np.shape(value), bool), np.asarray(value))
        for n in postorder(root, done=done):
            if n.dtype == INDEX:
                continue
            done[n] = self._apply(n, done, env, node)
        return done[root]

    def _apply(self, n: Term, done: Mapping[Term, Cells], env: Mapping[Term, NDArray], node: View | Compute) -> Cells:
        if n.op == "load":
            return self._load(n, env, node)
        if n.op == "hole":
            raise Unable
        if n.op == "where":
            chosen = self._chosen(*(done[a] for a in n.args))
            if chosen is not None:
                return chosen
        if any(a.dtype == INDEX for a in n.args):
            index = [a for a in n.args if a.dtype == INDEX]
            if any(isinstance(x.payload, int) for x in nodes_of("load", *index)):
                raise Unable
            values = dict(zip(index, (v for v, _ in evaluate_masked(index, env, load_table)), strict=True))
            operands = [_index(values[a]) if a.dtype == INDEX else done[a] for a in n.args]
        else:
            operands = [done[a] for a in n.args]
        what = (n.op, n.dtype, n.payload if n.op != "const" else "")
        made = applied(what, [x.words for x in operands], n.op in COMMUTATIVE)
        return self._folded(n, operands, Cells(made))

    def _folded(self, n: Term, operands: Sequence[Cells], made: Cells) -> Cells:
        """Where all operands are known numbers, their number."""
        known: Any = True
        for x in operands:
            if x.known is None:
                return made
            known = known & x.known
        if not bool(np.any(known)):
            return made
        holders = [t.make("var", (), f"operand{k}", a.dtype) for k, a in enumerate(n.args)]
        table = {h: np.asarray(x.numbers) for h, x in zip(holders, operands, strict=True)}
        value, bad = evaluate_masked([t.make(n.op, holders, n.payload, n.dtype)], table)[0]
        if bad is not None:
            known = known & ~bad
        shape = np.broadcast_shapes(np.shape(known), made.words.shape, np.shape(value))
        known, value = np.broadcast_to(known, shape), np.broadcast_to(value, shape)
        return Cells(np.where(known, constant(value), made.words), known, value)

    def _chosen(self, condition: Cells, a: Cells, b: Cells) -> Cells | None:
        """`where` with a condition that is known everywhere."""
        if condition.known is None or not bool(np.all(condition.known)):
            return None
        c = np.asarray(condition.numbers, bool)
        words = np.where(c, a.words, b.words)
        if a.known is None and b.known is None:
            return Cells(words)
        none = np.zeros((), bool)
        known = np.where(c, none if a.known is None else a.known, none if b.known is None else b.known)
        first, second = a.numbers, b.numbers
        if first is None:
            first = np.zeros((), np.asarray(second).dtype)
        if second is None:
            second = np.zeros((), np.asarray(first).dtype)
        return Cells(words, known, np.where(c, first, second))

    def _load(self, n: Term, env: Mapping[Term, NDArray], node: View | Compute) -> Cells:
        if isinstance(n.payload, Table) or any(isinstance(x.payload, int) for x in nodes_of("load", *n.args)):
            raise Unable
        x = node.operands[int(n.payload)]
        shape = self.pull.shape(x.key)
        index = [v for v, _ in evaluate_masked(n.args, env, load_table)]
        flat, bad = flat_index(index, shape)
        if not cells(shape):
            return Cells(np.zeros(np.shape(flat), np.uint64))  # a guard stands before it, or the original fails
        if bad is not None:
            flat, bad = np.broadcast_arrays(flat, bad)
            if bool(bad.all()):
                return Cells(np.zeros(flat.shape, np.uint64))
            flat = np.where(bad, flat[~bad].flat[0], flat)
            found = self.cells(x.key, flat)
            words = np.where(bad, np.uint64(0), found.words)  # the word 0 must not come out: see _spread
            return Cells(words, None if found.known is None else found.known & ~bad, found.numbers)
        return self.cells(x.key, flat)


def _concrete(n: Term) -> bool:
    """Data that is known from the position alone: constants, comparisons of indices, casts of indices."""
    if n.dtype == INDEX:
        return False
    return all(x.op not in ("load", "hole") or isinstance(x.payload, Table) for x in postorder(n))


def _index(values: NDArray) -> Cells:
    return Cells(
        mixed(np.asarray(values, np.int64).astype(np.uint64)), np.ones(np.shape(values), bool), np.asarray(values)
    )


def _spread(value: Cells, shape: tuple[int, ...]) -> Cells:
    if bool(np.any(value.words == 0)):
        raise Unable  # an access out of range comes out
    known, numbers = value.known, value.numbers
    return Cells(
        np.broadcast_to(value.words, shape),
        None if known is None else np.broadcast_to(known, shape),
        None if numbers is None else np.broadcast_to(numbers, shape),
    )


def _combined(value: Cells, combiner: str, dtype: str, ordered: bool) -> Cells:
    """A reduction: the sum of well-mixed words has no order; an ordered one keeps the places of its terms. Without an
    order, neutral numbers say nothing (0 and -0.0 in a sum, whose total begins with 0)."""
    axes = tuple(range(1, value.words.ndim))
    kind = np.uint64(seed_of("reduce", combiner, dtype))  # in the total too: the sum of no words says nothing
    words = mixed(value.words ^ kind)
    if ordered:
        places: NDArray = np.arange(cells(value.words.shape[1:]), dtype=np.uint64)
        inner: NDArray = places.reshape(value.words.shape[1:])
        words = mixed(words ^ mixed(inner))
    elif value.known is not None and value.numbers is not None and dtype not in COMPLEX:
        words = np.where(value.known & (value.numbers == neutral(combiner, dtype)), np.uint64(0), words)
    total = mixed(words.sum(axis=axes, dtype=np.uint64) + kind)
    if value.known is None or value.numbers is None:
        return Cells(total)
    known = np.asarray(value.known.all(axis=axes))
    numbers = reduce(value.numbers, combiner, dtype)
    return Cells(np.where(known, constant(numbers), total), known, numbers)
