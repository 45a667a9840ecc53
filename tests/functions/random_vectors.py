"""Seeded random functions that hold vectors: ramps of every step, gathers, buffers of vectors, lanes that meet.

The stages are those of `random_primfuncs`, among which every second one stores vectors: with steps that are negative,
zero, symbols or loops, from starts that depend on data, through aliases, over what is read, with holes in some lanes.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from random_primfuncs import FEATURES, MOST_CELLS, SMALL_INTS, Case, Generator

from eqsat.ir.statements.builder import Cells
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import Term

STEPS = (1, 1, 1, -1, 2, -2, 0)
LASTS = (4, 4, 6, 8)


def vector_case(seed: int) -> Case:
    """The function of a seed; nearly every one holds vectors."""
    return _Vectors(Random(seed), set(FEATURES), seed).case()


class _Vectors(Generator):
    def shape(self) -> tuple[Dim, ...]:
        if self.rng.random() < 0.15:
            return super().shape()
        while True:
            outer = tuple(self.dim() for _ in range(self.rng.choice([0, 0, 1, 1])))
            shape = (*outer, self.rng.choice(LASTS))
            if self.cells(shape) <= MOST_CELLS:
                return shape

    def dtype(self) -> str:
        return self.rng.choice(["float32", "int32", super().dtype()])

    def stage(self, target: Cells) -> None:
        last = target.decl.shape[-1] if target.decl.shape else None
        if target.decl.dtype == "bool" or not isinstance(last, int) or last < 2 or self.rng.random() < 0.3:
            return super().stage(target)
        kinds: list[Callable[[Cells, int], None]] = [
            self.strided, self.strided, self.strided, self.flat, self.whole, self.summed]  # fmt: skip
        self.rng.choice(kinds)(target, last)
        return None

    # -- stages

    def strided(self, target: Cells, last: int) -> None:
        """Each row once or more by a ramp; reads of the row itself, and of what its alias shows."""

        def body(axes: tuple[Term, ...]) -> None:
            self.stored(target, axes[:-1], last, [target])

        self.rows(target, body)

    def flat(self, target: Cells, last: int) -> None:
        """The cells as one row; what is read lies there, or is read by the other name."""
        count = 1
        for dim in target.decl.shape:
            if not isinstance(dim, int):
                return self.strided(target, last)
            count *= dim
        if count < 2:
            return self.strided(target, last)
        with self.f.loop(self.name("once"), 1):
            row = self.f.alias(self.name("flat"), target, (count,), target.decl.dtype)
            own = [row, target] if len(target.decl.shape) == 1 else [row]
            for _ in range(self.rng.choice([1, 2])):
                self.stored(row, (), count, own)
        return None

    def stored(self, target: Cells, row: tuple[Term, ...], last: int, own: list[Cells]) -> None:
        """Loops around one store of a ramp to the last axis."""
        lanes = self.rng.choice([n for n in (2, 3, 4) if n <= last])
        with self.f.loop(self.name("v"), self.rng.choice([1, 2, 3])) as v:
            at = self.ramp(last, lanes, v)
            condition = self.condition((v, *row))

            def store() -> None:
                read = [c for c in own if c.decl.shape[-1] == last]
                target[(*row, at)] = self.lanes(target.decl.dtype, (*row, v), lanes, read)

            if self.rng.random() < 0.25:
                with self.f.when(condition):
                    store()
            else:
                store()

    def ramp(self, last: int, lanes: int, v: Term) -> Term:
        """A ramp inside of an axis; `v` is 0, or below 3."""
        extent = 1 if t.int_value(v) is not None else (t.int_value(v.args[0]) or 3) if v.op == "var" else 3
        if self.symbols and self.rng.random() < 0.3:
            symbol = self.rng.choice(self.symbols)
            most = self.sizes[t.symbol_facts(symbol).name] * (lanes - 1)
            if most < last:
                return t.ramp(self.rng.randint(0, last - 1 - most), symbol, lanes)
        if self.rng.random() < 0.1 and (extent - 1) * (lanes - 1) < last:
            return t.ramp(0, v, lanes)
        fits = [s for s in STEPS if abs(s) * (lanes - 1) < last]
        step = self.rng.choice(fits)
        low = max(0, -step * (lanes - 1))
        high = last - 1 - max(0, step * (lanes - 1))
        starts: list[Term] = [t.index_const(self.rng.randint(low, high)), low + v % (high - low + 1)]
        for part in (1, lanes):
            if low + part * (extent - 1) <= high:
                starts += [low + part * v] * 2
        tables = [c for c in self.readable if c.decl.dtype in SMALL_INTS and all(
            isinstance(d, int) and d for d in c.decl.shape)]  # fmt: skip
        if tables and self.rng.random() < 0.15:
            table = self.rng.choice(tables)
            at = tuple(v % d for d in table.decl.shape)
            starts = [low + t.cast_to(table[at], "index") % (high - low + 1)]
        return t.ramp(self.rng.choice(starts), step, lanes)

    def whole(self, target: Cells, last: int) -> None:
        """Rows as vectors: a local buffer of vectors, and an alias of vectors where the rows are dense."""
        lanes = next((n for n in (4, 2) if last % n == 0), 0)
        if not lanes:
            return self.strided(target, last)
        dtype, parts = target.decl.dtype, last // lanes
        static = all(isinstance(d, int) and d for d in target.decl.shape)

        def body(axes: tuple[Term, ...]) -> None:
            row = axes[:-1]
            held = self.f.alloc(self.name("w"), (parts,), f"{dtype}x{lanes}")
            with self.f.loop(self.name("v"), parts) as v:
                held[v] = self.lanes(dtype, (*row, v), lanes, [])
            with self.f.loop(self.name("v"), parts) as v:
                read = held[self.rng.choice([v, parts - 1 - v])]
                target[(*row, t.ramp(v * lanes, 1, lanes))] = self.combined(dtype, read, held[v])

        self.rows(target, body)
        if static and self.rng.random() < 0.5:
            count = self.cells(target.decl.shape) // lanes
            with self.f.loop(self.name("once"), 1):
                shown = self.f.alias(self.name("x"), target, (count,), f"{dtype}x{lanes}")
                with self.f.loop(self.name("v"), count) as v:
                    shown[v] = self.combined(dtype, shown[v], shown[count - 1 - v])
        return None

    def summed(self, target: Cells, last: int) -> None:
        """Lanes that accumulate along a loop, all in cells of their own or all in one."""
        dtype = target.decl.dtype
        lanes = self.rng.choice([n for n in (2, 3, 4) if n <= last])
        step = self.rng.choice([1, 1, -1, 0])

        def body(axes: tuple[Term, ...]) -> None:
            row = axes[:-1]
            acc = self.f.alloc(self.name("acc"), (lanes,), dtype)
            with self.f.loop(self.name("z"), lanes) as z:
                acc[z] = self.constant(dtype)
            at = t.ramp(lanes - 1 if step < 0 else 0, step, lanes)
            marked = step != 0 and self.rng.random() < 0.7
            with self.f.loop(self.name("r"), self.rng.choice([1, 2, 3]), reduce=marked) as k:
                acc[at] = self.combined(dtype, acc[at], self.lanes(dtype, (*row, k), lanes, []))
            start = self.rng.randint(0, last - lanes)
            target[(*row, t.ramp(start, 1, lanes))] = acc[t.ramp(lanes - 1, -1, lanes)]

        self.rows(target, body)

    def free(self, target: Cells) -> None:
        last = target.decl.shape[-1] if target.decl.shape else None
        dtype = target.decl.dtype
        if not isinstance(last, int) or last < 2 or dtype == "bool" or self.rng.random() < 0.3:
            return super().free(target)
        lanes = min(last, self.rng.choice([2, 3]))

        def body(axes: tuple[Term, ...]) -> None:
            place = t.ramp(self.rng.choice([0, last - lanes]), 1, lanes)
            index = (*axes[:-1], place)
            hole = new_hole(dtype, index if self.rng.random() < 0.6 else axes[:-1])
            if hole.lanes > 1 and self.rng.random() < 0.6:
                target[index] = hole
            else:
                first = t.ramp(0, 1, lanes) < self.rng.randint(0, lanes)
                target[index] = t.where(first, self.lanes(dtype, axes, lanes, []), hole)

        self.rows(target, body)
        return None

    # -- terms

    def lanes(self, dtype: str, axes: tuple[Term, ...], lanes: int, own: list[Cells]) -> Term:
        """A vector: of loads, of positions, of both; `own` may be read besides what is readable."""
        value = t.cast_to(t.ramp(axes[-1], self.rng.choice([0, 1, 3, -1]), lanes), dtype)
        for _ in range(self.rng.choice([1, 1, 2])):
            source = self.rng.choice([*own, *own, *self.readable])
            size = source.decl.shape[-1] if source.decl.shape else 0
            index = self.index(source, axes)
            if not isinstance(size, int) or size < lanes or index is None:
                continue
            if self.rng.random() < 0.15 and source.decl.dtype == dtype:  # beyond the row, where a mask keeps it off
                at = t.ramp(self.rng.choice([axes[-1], t.index_const(size - 1)]), self.rng.choice([1, 2, 3]), lanes)
                read = source[(*index[:-1], at)]
                value = t.where(at.args[0] + t.ramp(0, at.args[1], lanes) < size, read, value)
                continue
            at = self.place(size, lanes, axes[-1])
            read = t.cast_to(source[(*index[:-1], at)], dtype) if source.decl.dtype != "bool" else value
            value = self.combined(dtype, read, value)
        if self.rng.random() < 0.2:
            mask = t.ramp(axes[-1], 1, lanes) < self.rng.randint(0, lanes)
            loops = tuple(a for a in axes if a.op == "var")
            value = t.where(mask, value, self.value(dtype, loops, 1))
        return value

    def place(self, size: int, lanes: int, v: Term) -> Term:
        """Where the lanes of a load lie in the last axis."""
        if self.rng.random() < 0.08:
            return t.ramp(v, self.rng.choice([1, 3]), lanes) % size
        extent = t.int_value(v.args[0]) if v.args and v.op == "var" else None
        if extent is None or extent > 3:
            return self.ramp(size, lanes, v % 3 if extent else t.index_const(0))
        return self.ramp(size, lanes, v)
