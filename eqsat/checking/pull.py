"""Evaluation of a part of a program at chosen points: what is not asked for is not computed, at any size.

A pass from the outputs down collects the cells that are read, a pass up computes them. So large tensors cost what is
sampled of them, at their true extents: nothing has to be shrunk, and borders stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from eqsat.checking.draws import Draw, seed_of
from eqsat.checking.foreign import Foreign
from eqsat.checking.part import Impossible, Key, Part, Sizes, Undefined, cells, distinct, extents, flat_index
from eqsat.ir.dtypes import BOOL, COMPLEX, NDArray, highest, is_float, lowest
from eqsat.ir.tensors.tensor import Compute, Node, Opaque, OperatorImpl, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import Mask, evaluate_masked, poison
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of

CHUNK = 1 << 18
MOST = 1 << 22
"""Cells that one region may compute."""
IMPL_CELLS = 1 << 20
_REDUCE: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
Holes = Callable[[int, str, Sequence[NDArray]], NDArray]


@dataclass
class Asked:
    """The cells asked for of one value: sorted flat positions; `whole` if they are all of them."""

    points: NDArray
    whole: bool

    def place(self, flat: NDArray) -> NDArray:
        """Where some positions stand among the points."""
        return flat if self.whole else np.searchsorted(self.points, flat)


@dataclass
class Pull:
    """A part with sizes, and the cells that are asked for."""

    part: Part
    sizes: Sizes
    most: int = MOST
    asked: dict[Key, Asked] = field(default_factory=dict[Key, Asked])
    work: int = 0
    foreign: dict[int, Foreign] = field(default_factory=dict[int, Foreign])

    def shape(self, key: Key) -> tuple[int, ...]:
        return extents(self.part.types[key][0], self.sizes)

    # -- down: what is read --------------------------------------------------------------------------------------------

    def ask(self, wanted: Mapping[Key, NDArray]) -> None:
        """Collect the cells that some cells of the outputs need."""
        pending: dict[Key, list[NDArray]] = {}
        for key, points in wanted.items():
            pending.setdefault(self.part.real(key), []).append(points)
        for node in reversed(self.part.nodes):
            for k in range(len(node.outputs)):
                key = (node.serial, k)
                if key in pending:
                    self.asked[key] = self._asked(key, pending.pop(key))
            if any((node.serial, k) in self.asked for k in range(len(node.outputs))):
                for operand, points in self._reads(node):
                    real = self.part.real(operand)
                    if real not in self.part.free and real not in self.part.constants:
                        pending.setdefault(real, []).append(points)

    def _asked(self, key: Key, parts: list[NDArray]) -> Asked:
        size = cells(self.shape(key))
        if sum(p.size for p in parts) >= size // 2:
            self._count(size)
            return Asked(np.arange(size), True)
        points = distinct(np.concatenate([p.ravel() for p in parts]), size)
        self._count(points.size)
        return Asked(points, points.size == size)

    def _count(self, more: int) -> None:
        self.work += more
        if self.work > self.most:
            raise Impossible("region", f"computes more than {self.most} cells, which is over the budget")

    def _reads(self, node: Node) -> list[tuple[Key, NDArray]]:
        if isinstance(node, Opaque):
            return self._foreign_reads(node)
        assert isinstance(node, (View, Compute))
        shape, reduced = self.shape((node.serial, 0)), self.reduced(node)
        points = self.asked[node.serial, 0].points
        inner = cells(reduced)
        self._count(points.size * inner)
        if isinstance(node, View):
            loads = [(0, node.gather)]
            loads += [
                (n.payload, n.args)
                for n in ([] if node.fill is None else nodes_of("load", node.fill))
                if n.payload == 0
            ]
        else:
            loads = [(n.payload, n.args) for n in nodes_of("load", node.body) if isinstance(n.payload, int)]
        result: list[tuple[Key, NDArray]] = []
        for number, index in loads:
            x = node.operands[number]
            real = self.part.real(x.key)
            if real in self.part.free or real in self.part.constants:
                continue
            extent = self.shape(x.key)
            if any(isinstance(n.payload, int) for n in nodes_of("load", *index)):  # an index that is data: anything
                self._count(cells(extent))
                result.append((x.key, np.arange(cells(extent))))
                continue
            if not cells(extent):
                continue
            for part in self._chunks(points, inner):
                values = evaluate_masked(index, self.env(shape, reduced, node, part), load_table)
                flat, bad = flat_index([v for v, _ in values], extent)
                flat, bad = np.broadcast_arrays(flat, False if bad is None else bad)
                result.append((x.key, distinct(flat[~bad], cells(extent))))
        return result

    def reduced(self, node: View | Compute) -> tuple[int, ...]:
        return extents(node.reduce, self.sizes) if isinstance(node, Compute) else ()

    def _chunks(self, points: NDArray, inner: int) -> list[NDArray]:
        step = max(1, CHUNK // max(1, inner))
        return [points[k : k + step] for k in range(0, points.size, step)]

    def env(
        self, shape: tuple[int, ...], reduced: tuple[int, ...], node: View | Compute, points: NDArray
    ) -> dict[Term, NDArray]:
        """Axes as arrays: the points along the first dimension, reduced axes along further ones."""
        env = dict(self.sizes)
        dims = node.outputs[0][0]
        wide = (1,) * len(reduced)
        left = points
        for n in reversed(range(len(shape))):
            env[t.ax(n, dims[n])] = (left % max(1, shape[n])).reshape(-1, *wide)
            left = left // max(1, shape[n])
        if isinstance(node, Compute):
            for n, extent in enumerate(reduced):
                along = [1] * (1 + len(reduced))
                along[1 + n] = extent
                env[t.red(n, node.reduce[n])] = np.arange(extent, dtype=np.int64).reshape(along)
        return env

    def _foreign_reads(self, node: Opaque) -> list[tuple[Key, NDArray]]:
        shapes = [self.shape(x.key) for x in node.operands]
        outputs = [self.shape((node.serial, k)) for k in range(len(node.outputs))]
        total = sum(map(cells, shapes)) + sum(map(cells, outputs))
        runs = not isinstance(node.impl, OperatorImpl) or node.impl.runs
        if node.impl is not None and runs and node.pure and total <= IMPL_CELLS:
            self._count(total)
            for k, shape in enumerate(outputs):
                self.asked[node.serial, k] = Asked(np.arange(cells(shape)), True)
            return [(x.key, np.arange(cells(s))) for x, s in zip(node.operands, shapes, strict=True)]
        made = self.foreign[node.serial] = Foreign(node, shapes, outputs, self.part.labels.get(node.serial, 0))
        reads: list[tuple[Key, NDArray]] = []
        for k in range(len(node.outputs)):
            if (node.serial, k) in self.asked:
                points = self.asked[node.serial, k].points
                self._count(points.size * made.inner)
                reads += [(node.operands[n].key, flat) for n, flat in made.reads(k, points)]
        return reads

    # -- up: the values ------------------------------------------------------------------------------------------------

    def run(
        self, draw: Draw, hole: Holes, assumed: Mapping[int, Sequence[tuple[NDArray, Any]]]
    ) -> Callable[[Key, NDArray], NDArray]:
        """Compute all cells asked for, and answer with a function that gives them; Undefined where there are none."""
        run = _Run(self, draw, hole, assumed)
        run.all()
        return run.cells


@dataclass
class _Run:
    pull: Pull
    draw: Draw
    hole: Holes
    assumed: Mapping[int, Sequence[tuple[NDArray, Any]]]
    values: dict[Key, NDArray] = field(default_factory=dict[Key, NDArray])

    def all(self) -> None:
        for node in self.pull.part.nodes:
            wanted = [k for k in range(len(node.outputs)) if (node.serial, k) in self.pull.asked]
            if not wanted:
                continue
            if isinstance(node, Opaque):
                self._opaque(node, wanted)
            else:
                assert isinstance(node, (View, Compute))
                self.values[node.serial, 0] = self._formula(node)

    def cells(self, key: Key, flat: NDArray) -> NDArray:
        """The cells of a value at some positions, all of which were asked for."""
        part = self.pull.part
        key = part.real(key)
        if key in part.free:
            return self._drawn(part.free[key], flat, part.types[key][1])
        if key in part.constants:
            return part.constants[key].reshape(-1)[flat]
        if not flat.size:
            return np.zeros(flat.shape, part.types[key][1])
        return self.values[key][self.pull.asked[key].place(flat)]

    def _drawn(self, number: int, flat: NDArray, dtype: str) -> NDArray:
        values = self.draw.values(number, flat, dtype)
        for where, value in self.assumed.get(number, ()):
            values = np.where(where[flat], np.asarray(value, dtype), values)
        return values

    def _load(self, node: Node) -> Callable[[Any, Sequence[NDArray]], tuple[NDArray, Mask]]:
        def value(source: Any, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
            if isinstance(source, Table):
                return load_table(source, index)
            x = node.operands[int(source)]
            shape = self.pull.shape(x.key)
            if not cells(shape):
                wide = np.broadcast_shapes(*(i.shape for i in index))
                return np.zeros(wide, x.dtype), np.ones(wide, bool)
            flat, bad = flat_index(index, shape)
            if bad is not None:
                flat, bad = np.broadcast_arrays(flat, bad)
                if bool(bad.all()):
                    return np.zeros(flat.shape, x.dtype), bad
                flat = np.where(bad, flat[~bad].flat[0], flat)  # any cell that was asked for
            return self.cells(x.key, flat), bad

        return value

    def _formula(self, node: View | Compute) -> NDArray:
        pull = self.pull
        shape, reduced = pull.shape((node.serial, 0)), pull.reduced(node)
        dtype = node.outputs[0][1]
        points = pull.asked[node.serial, 0].points
        result: NDArray = np.empty(points.size, dtype)
        load, inner, done = self._load(node), cells(reduced), 0
        for part in pull._chunks(points, inner):  # pyright: ignore[reportPrivateUsage]
            value, bad = evaluate_masked([node.body], pull.env(shape, reduced, node, part), load, self.hole)[0]
            if bad is not None and inner and bool(np.any(bad)):
                raise Undefined(
                    f"{type(node).__name__.lower()} of {node.outputs[0][0]}", "out of range, or a zero divisor"
                )
            piece = np.broadcast_to(value, (part.size, *reduced))
            if isinstance(node, Compute) and node.combiner is not None:
                piece = reduce(piece, node.combiner, dtype)
            result[done : done + part.size] = piece
            done += part.size
        return result

    def _opaque(self, node: Opaque, wanted: list[int]) -> None:
        known = self.pull.foreign.get(node.serial)
        if known is None:
            assert node.impl is not None
            arrays = [self._whole(x.key) for x in node.operands]
            try:
                made: Any = node.impl(*arrays)
            except Exception as error:  # the user's own function may raise anything
                raise Undefined(f"operator {node.op}", f"{type(error).__name__}: {error}") from error
            results = list(cast("Sequence[Any]", made)) if isinstance(made, (list, tuple)) else [made]
            for k in wanted:
                array: NDArray = np.asarray(results[k])
                if array.shape != self.pull.shape((node.serial, k)) or array.dtype.name != node.outputs[k][1]:
                    raise Undefined(f"operator {node.op}", f"output {k} is not what was declared")
                self.values[node.serial, k] = array.reshape(-1)
            return
        for k in wanted:
            points = self.pull.asked[node.serial, k].points
            self.values[node.serial, k] = known.values(
                k, points, lambda n, flat: self.cells(node.operands[n].key, flat)
            )

    def _whole(self, key: Key) -> NDArray:
        shape = self.pull.shape(key)
        return np.array(self.cells(key, np.arange(cells(shape)))).reshape(shape)


def reduce(piece: NDArray, combiner: str, dtype: str) -> NDArray:
    """Combine all axes but the first; numpy's own reduction, in the element type."""
    inner = tuple(range(1, piece.ndim))
    start: dict[str, Any] = {}
    if combiner in ("max", "min"):
        start["initial"] = np.asarray(lowest(dtype) if combiner == "max" else highest(dtype), dtype)[()]
    with np.errstate(all="ignore"):
        return np.asarray(_REDUCE[combiner].reduce(piece, axis=inner, dtype=dtype, **start))


def fillings() -> list[Holes]:
    """Fillings of holes that show what depends on them: NaN or the least number, zero, large ones of both signs."""

    def constant(kind: int) -> Holes:
        def value(number: int, dtype: str, index: Sequence[NDArray]) -> NDArray:
            if kind == 0:
                return np.asarray(poison(dtype))
            if dtype == BOOL or kind == 1:
                return np.zeros((), dtype)
            if is_float(dtype) or dtype in COMPLEX:
                return np.asarray(3e4 + number % 7 if kind == 2 else -3e4 - number % 7, dtype)
            info = np.iinfo(dtype)
            return np.asarray(int(info.max) - number % 7 if kind == 2 else int(info.min) // 3 + 1, dtype)

        return value

    return [constant(k) for k in range(4)]


def filled(draw: Draw) -> Holes:
    """Holes with random values."""

    def value(number: int, dtype: str, index: Sequence[NDArray]) -> NDArray:
        flat: NDArray = np.zeros((), np.uint64)
        with np.errstate(over="ignore"):
            for i in index:
                flat = flat * np.uint64(0x100000001B3) + np.asarray(i).astype(np.uint64)
        return draw.values(seed_of("hole", number), flat, dtype)

    return value
