"""An index map over a box, as the solver sees it: variables, extents, and the points of boxes that are small enough."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import LayoutError
from eqsat.ir.map_on_box import MapOnBox
from eqsat.ir.points import ENUMERATION_LIMIT, first_repeated, some_points, values_at, values_on
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, free_variables, substitute
from eqsat.maps.points import Enumerated, plain_values, row_key
from eqsat.maps.read import plain

FEW_POINTS = 1 << 14
Pair = tuple[dict[str, int], dict[str, int]]


@dataclass(frozen=True, eq=False)
class Sample:
    """Points of the box as flat arrays, and the cells they go to; `complete`: all points of the box."""

    points: Mapping[Term, NDArray]
    cells: Mapping[Term, NDArray]
    complete: bool

    @property
    def size(self) -> int:
        return max((len(a) for a in self.points.values()), default=1)


@dataclass(frozen=True, eq=False)
class Problem(MapOnBox):
    """A map over a box with what the solver has found out about it."""

    @cached_property
    def parts(self) -> list[Problem]:
        """The components of the map."""
        return components(self)

    @cached_property
    def reading(self) -> tuple[Term, ...]:
        """The outputs with the same values on the box, over few kinds of operations."""
        limits = Bounds(self.box)
        return tuple([plain(o, limits) for o in self.outputs])

    def part(self, inputs: Sequence[int], outputs: Sequence[int]) -> Problem:
        """The map of some inputs to some outputs, by number."""
        return Problem(
            self.title,
            tuple([self.inputs[n] for n in inputs]),
            tuple([self.extents[n] for n in inputs]),
            tuple([self.outputs[n] for n in outputs]),
            tuple([self.physical[n] for n in outputs]),
            tuple([self.declared[n] for n in outputs]),
        )

    def widened(self, part: Problem, cell: Sequence[int]) -> tuple[int, ...]:
        """A cell of a part of the map as one of the map, zero elsewhere."""
        own = dict(zip(part.physical, cell, strict=True))
        return tuple([own.get(p, 0) for p in self.physical])

    @property
    def points(self) -> Enumerated | None:
        """The map at every point of its box, or None where the box is symbolic or too large."""
        if self.numbers is None or prod(self.numbers[0]) > ENUMERATION_LIMIT:
            return None
        return (_few if prod(self.numbers[0]) <= FEW_POINTS else _many)(self)

    def sample(self) -> Sample:
        """Some points of a box of numbers, all of a small one, and the cells they go to."""
        assert self.numbers is not None
        points = self.points if prod(self.numbers[0]) <= FEW_POINTS else None
        if points is not None:
            inputs = dict(zip(self.inputs, points.coordinates, strict=True))
            return Sample(inputs, dict(zip(self.physical, points.images, strict=True)), True)
        arrays = some_points(self.numbers[0])
        images = values_at(self.outputs, dict(zip(self.inputs, arrays, strict=True)), len(arrays[0]))
        if images is None:
            raise _undefined(self)
        inputs = dict(zip(self.inputs, arrays, strict=True))
        return Sample(inputs, dict(zip(self.physical, images, strict=True)), False)

    @cached_property
    def probe(self) -> Sample:
        """A few points of a box of numbers, all of a very small one, and the cells they go to."""
        assert self.numbers is not None
        arrays = some_points(self.numbers[0], whole=FEW_POINTS)
        inputs = dict(zip(self.inputs, arrays, strict=True))
        size = len(arrays[0]) if arrays else 1
        images = plain_values(self.outputs, inputs, dict(zip(self.inputs, self.numbers[0], strict=True)))
        if images is None:
            images = values_at(self.outputs, inputs, size)
        if images is None:
            raise _undefined(self)
        return Sample(inputs, dict(zip(self.physical, images, strict=True)), size == prod(self.numbers[0]))

    @cached_property
    def collision(self) -> Pair | None:
        """Two points of one cell: the first ones in a small box, some that a sample holds in a large one, or None."""
        if self.numbers is None:
            return None
        points = self.points if prod(self.numbers[0]) <= FEW_POINTS else None
        if points is not None:
            return self.named(points.collision())
        sample = self.sample()
        rows, images = list(sample.points.values()), list(sample.cells.values())
        kept = np.unique(row_key(rows, self.numbers[0]), return_index=True)[1]
        keys = row_key([np.asarray(a)[kept] for a in images], self.numbers[1])
        pair = first_repeated(keys)
        if pair is None:
            return None
        first, second = ({str(v): int(x[kept[k]]) for v, x in zip(self.inputs, rows, strict=True)} for k in pair)
        return first, second

    def named(self, pair: tuple[int, int] | None) -> Pair | None:
        """Two flat points of a box of numbers, by the names of the inputs."""
        if pair is None or self.numbers is None:
            return None
        extents = self.numbers[0]
        at = [np.unravel_index(flat, extents) if extents else () for flat in pair]
        first, second = (dict(zip(map(str, self.inputs), map(int, x), strict=True)) for x in at)
        return first, second

    def conditions(self, values: Sequence[Term]) -> list[Term]:
        """What makes a cell padding, the inputs over the outputs given: they leave the box there, or do not return.

        The order guards later ones, which may be undefined where an earlier one holds.
        """
        return [*self.leaving(values), *self.astray(values)]

    def leaving(self, values: Sequence[Term]) -> list[Term]:
        """Where the inputs over the outputs leave the box."""
        result: list[Term] = []
        for value, extent in zip(values, self.extents, strict=True):
            result += [t.compare("le", t.as_index(extent), value), t.compare("lt", value, 0)]
        return result

    def astray(self, values: Sequence[Term], loose: Container[int] | None = None) -> list[Term]:
        """Where the outputs do not return; only some of them, if these are given."""
        table = dict(zip(self.inputs, values, strict=True))
        outputs = self.outputs
        if self.numbers is not None:
            outputs = [min(both, key=dag_size) for both in zip(self.outputs, self.reading, strict=True)]
        return [
            t.compare("ne", substitute(output, table), p)
            for n, (p, output) in enumerate(zip(self.physical, outputs, strict=True))
            if loose is None or n in loose
        ]


def _enumerated(problem: Problem) -> Enumerated:
    assert problem.numbers is not None
    arrays = values_on(problem.outputs, problem.inputs, problem.numbers[0])
    if arrays is None:
        raise _undefined(problem)
    return Enumerated(*problem.numbers, arrays)


# Points take memory: those of few problems are kept, and those of one large one.
_few = lru_cache(maxsize=32)(_enumerated)
_many = lru_cache(maxsize=1)(_enumerated)


def _undefined(problem: Problem) -> LayoutError:
    return LayoutError(problem.what, "an output is undefined at a point of the box")


@lru_cache(maxsize=1024)
def problem_of(m: MapOnBox) -> Problem:
    """The problem of a map that is asked about, the same one each time."""
    return Problem(m.title, m.inputs, m.extents, m.outputs, m.physical, m.declared, m.given)


def components(problem: Problem) -> list[Problem]:
    """The parts of a map that share no variable; an output without variables is a part of its own."""
    used = [frozenset(free_variables(o)) for o in problem.outputs]
    groups: list[tuple[set[Term], list[int]]] = [({v}, []) for v in problem.inputs]
    for n, variables in enumerate(used):
        touched = [g for g in groups if g[0] & variables]
        merged: tuple[set[Term], list[int]] = (set[Term]().union(*(g[0] for g in touched)), [n])
        for g in touched:
            merged[1].extend(g[1])
        groups = [g for g in groups if not any(g is x for x in touched)] + [merged]
    return [
        problem.part([n for n, v in enumerate(problem.inputs) if v in variables], sorted(numbers))
        for variables, numbers in groups
    ]
