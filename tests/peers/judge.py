"""The judge between two libraries of index maps: every point of a box, in Python's own integers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.ir.cached import cached_property
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import format_term
from eqsat.ir.terms.walk import nodes_of, renumber_loads

Point = tuple[int, ...]
OUTSIDE = 1 << 80  # what a load outside of its table gives: no index is that large


@dataclass(frozen=True)
class _Table:
    values: list[int]

    def __getitem__(self, at: int) -> int:
        return self.values[at] if 0 <= at < len(self.values) else OUTSIDE


def _where(condition: bool, a: int, b: int) -> int:
    return a if condition else b


def _truncdiv(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _truncmod(a: int, b: int) -> int:
    return a - b * _truncdiv(a, b)


def function_of(terms: Sequence[Term], names: Sequence[str]) -> Callable[..., tuple[int, ...]]:
    """The terms as one Python function: their printed text, compiled by Python, with none of our evaluation.

    >>> from eqsat.ir.terms.term import var
    >>> function_of([var("i") // 4, var("i") % 4], ["i"])(-1)
    (-1, 3)
    """
    known: dict[str, Any] = {
        "minimum": min, "maximum": max, "where": _where, "truncdiv": _truncdiv, "truncmod": _truncmod,
    }  # fmt: skip
    tables: dict[Any, int] = {}  # a load prints the number of its table, $0, which here is a name
    for load in nodes_of("load", *terms):
        number = tables.setdefault(load.payload, len(tables))
        known[f"table{number}_"] = _Table([int(x) for x in load.payload.array])
    terms = [renumber_loads(term, tables) for term in terms]
    lines: list[str] = []
    for n, term in enumerate(terms):
        *shared, last = re.sub(r"\$(\d+)", r"table\1_", format_term(term, None)).split("; ")
        lines += [f"    {line}" for line in (*shared, f"r{n}_ = {last}")]
    results = ", ".join(f"r{n}_" for n in range(len(terms)))
    code = "\n".join([f"def function({', '.join(names)}):", *lines, f"    return ({results},)"])
    exec(code, known)
    return known["function"]


def points_of(shape: Sequence[int]) -> list[Point]:
    return list(itertools.product(*map(range, shape)))


@dataclass(frozen=True)
class Judge:
    """A map at every point of its box."""

    m: IndexMap
    shape: Point

    @cached_property
    def points(self) -> list[Point]:
        return points_of(self.shape)

    @cached_property
    def images(self) -> list[Point]:
        at = function_of(self.m.outputs, self.m.names)
        return [at(*p) for p in self.points]

    @cached_property
    def collision(self) -> tuple[Point, Point] | None:
        """Two points with one image."""
        first: dict[Point, Point] = {}
        for point, image in zip(self.points, self.images, strict=True):
            if first.setdefault(image, point) != point:
                return first[image], point
        return None

    @property
    def injective(self) -> bool:
        return self.collision is None

    @cached_property
    def reached(self) -> frozenset[Point]:
        return frozenset(self.images)

    def outside(self, declared: Point) -> Point | None:
        """A point whose image leaves the declared shape."""
        for point, image in zip(self.points, self.images, strict=True):
            if len(image) != len(declared) or not all(0 <= x < n for x, n in zip(image, declared, strict=True)):
                return point
        return None

    def missed(self, declared: Point) -> Point | None:
        """A cell of the declared shape that no point reaches."""
        return next((c for c in points_of(declared) if c not in self.reached), None)

    def not_inverted(self, inverse: IndexMap) -> tuple[Point, Point] | None:
        """A point that the proposed inverse does not lead back to, and where it leads instead."""
        back = function_of(inverse.outputs, inverse.names)
        for point, image in zip(self.points, self.images, strict=True):
            if back(*image) != point:
                return point, back(*image)
        return None

    def wrong_padding(self, predicate: Term, names: Sequence[str], declared: Point) -> Point | None:
        """A cell that the predicate of the padding takes for the wrong kind."""
        pads = function_of([predicate], names)
        return next((c for c in points_of(declared) if bool(pads(*c)[0]) is (c in self.reached)), None)
