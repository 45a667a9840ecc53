"""All terms over some variables, constants and operations by their number of operations, one for each function.

Terms that agree at all points are one; a term and its opposite are one too, and so are a predicate and its negation.
Costs are those of `eqsat.index_graph.cost`, with a shared part counted at each of its uses, but for the minus sign of a
sum that is only subtracted, which is free here (`turned` counts them): the size of a form with such a sign is the least
but for that sign. The search is complete up to the greatest cost for which there is room, and at the next two costs,
whose terms are made but not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
from grammars import TRUNCATED, Group

from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

LEAF, SUM, SCALE, LESS, EQUAL, AND = "leaf", "sum", "scale", "lt", "eq", "and"
MOST_CLASSES = 600_000
MOST_MAGNITUDE = 1 << 46
CHUNK = 1 << 16


def _truncdiv(a: NDArray, c: NDArray | int) -> NDArray:
    return np.asarray(np.sign(a) * (np.abs(a) // c))


def _truncmod(a: NDArray, c: NDArray | int) -> NDArray:
    return np.asarray(np.sign(a) * (np.abs(a) % c))


DIVIDE: dict[str, Any] = {
    "floordiv": np.floor_divide,
    "mod": np.mod,
    "truncdiv": _truncdiv,
    "truncmod": _truncmod,
}


@dataclass(frozen=True)
class Recipe:
    """How a term is made: an operation of earlier terms (number and sign each), and a number."""

    op: str
    args: tuple[tuple[int, int], ...] = ()
    number: int = 0


Making = Callable[[int], Recipe]


def turned(term: Term) -> int:
    """How many sums of a term are only subtracted."""
    sums = [n.payload for n in postorder(term) if n.op == "sum"]
    return sum(constant == 0 and all(k == -1 for k in coefficients) for constant, coefficients in sums)


@dataclass
class Shelf:
    """Terms of one sort: their values at the points, costs, and how each is made."""

    points: int
    values: list[NDArray] = field(default_factory=list[NDArray])
    recipes: list[Recipe] = field(default_factory=list[Recipe])
    costs: list[int] = field(default_factory=list[int])
    known: dict[int, int] = field(default_factory=dict[int, int])
    levels: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])

    def block(self, cost: int) -> tuple[int, NDArray]:
        """The first number and the values of the terms of a cost."""
        start, stop = self.levels.get(cost, (0, 0))
        return start, self.values[self.block_of[cost]] if stop > start else np.zeros((0, self.points), np.int64)

    block_of: dict[int, int] = field(default_factory=dict[int, int])

    def __len__(self) -> int:
        return len(self.recipes)


def _single(op: str, start: int, sign: int = 1, number: int = 0) -> Making:
    return lambda k: Recipe(op, ((start + k, sign),), number)


def _paired(op: str, first: int, second: Sequence[int], signs: tuple[int, int]) -> Making:
    return lambda k: Recipe(op, ((first + k // len(second), signs[0]), (second[k % len(second)], signs[1])))


def _guarded(guard: int, pairs: Making) -> Making:
    return lambda k: Recipe("where", ((guard, 1), *pairs(k).args))


def _moved(pairs: Making, first: Sequence[int]) -> Making:
    def make(k: int) -> Recipe:
        (left, sign), right = pairs(k).args
        return Recipe(pairs(k).op, ((first[left], sign), right))

    return make


def _among(recipes: Making, kept: Sequence[int]) -> Making:
    return lambda k: recipes(kept[k])


class Search:
    """The terms of a class over points, made cost by cost."""

    def __init__(self, group: Group, env: Mapping[str, NDArray]) -> None:
        self.group = group
        self.points = len(next(iter(env.values())))
        generator = np.random.default_rng(20)
        self.weights = generator.integers(1, 1 << 62, self.points, dtype=np.uint64) | np.uint64(1)
        self.index, self.truth = Shelf(self.points), Shelf(self.points)
        rows = [np.asarray(env[n], np.int64) for n in group.names]
        rows += [np.full(self.points, c, np.int64) for c in group.constants]
        recipes = [Recipe(LEAF, number=k) for k in range(len(rows))]
        self.leaves = [t.var(n) for n in group.names] + [t.index_const(c) for c in group.constants]
        self.top = 0
        self.positive: list[bool] = []
        self._store(self.index, 0, [(np.array(rows), recipes)])

    # -- fingerprints --------------------------------------------------------------------------------------------------

    def prints(self, values: NDArray) -> NDArray:
        """One number for each row, linear in it."""
        return np.asarray(values.astype(np.uint64) @ self.weights)

    @staticmethod
    def unsigned(prints: NDArray) -> NDArray:
        """The same number for a row and its opposite."""
        return np.minimum(prints, np.uint64(0) - prints)

    def _store(self, shelf: Shelf, cost: int, found: list[tuple[NDArray, list[Recipe]]]) -> None:
        start = len(shelf)
        kept: list[NDArray] = []
        for values, recipes in found:
            for k, key in enumerate(self.keys(shelf, values).tolist()):
                if key not in shelf.known:
                    shelf.known[key] = len(shelf.recipes)
                    shelf.recipes.append(recipes[k])
                    shelf.costs.append(cost)
                    if shelf is self.index:
                        self.positive.append(self._is_positive(recipes[k]))
                    kept.append(values[k])
        shelf.levels[cost] = start, len(shelf)
        if kept:
            shelf.block_of[cost] = len(shelf.values)
            shelf.values.append(np.array(kept))

    def keys(self, shelf: Shelf, values: NDArray) -> NDArray:
        """What tells the functions of a sort apart."""
        if shelf is self.index:
            return self.unsigned(self.prints(values))
        prints = self.prints(values)
        return np.minimum(prints, self.prints(1 - values))

    # -- making terms --------------------------------------------------------------------------------------------------

    def grow(self, top: int) -> int:
        """Make all terms up to a cost, or up to the last cost for which there is room; that cost."""
        for cost in range(max(self.top, 1) + (self.top > 0), top + 1):
            for shelf, make in ((self.index, self._indices), (self.truth, self._predicates)):
                found: list[tuple[NDArray, list[Recipe]]] = []
                seen: set[int] = set()
                for values, recipes in make(cost):
                    found += self._new(shelf, values, recipes, seen)
                    if len(seen) + len(self.index) > MOST_CLASSES:
                        return self.top
                self._store(shelf, cost, found)
            self.top = cost
        return self.top

    def _new(
        self, shelf: Shelf, values: NDArray, recipes: Making, seen: set[int]
    ) -> Iterator[tuple[NDArray, list[Recipe]]]:
        """The rows that no earlier term has; `recipes` gives the recipe of a row."""
        if shelf is self.index:
            fitting = np.abs(values).max(axis=1, initial=0) < MOST_MAGNITUDE
        else:
            fitting = np.ones(len(values), bool)
        keys = self.keys(shelf, values)
        first = np.unique(keys, return_index=True)[1]
        kept = [k for k in first.tolist() if fitting[k] and keys[k] not in seen and int(keys[k]) not in shelf.known]
        if kept:
            seen.update(keys[kept].tolist())
            yield values[kept], [recipes(k) for k in kept]

    def _pairs(
        self, left: Shelf, right: Shelf, total: int, ordered: bool
    ) -> Iterator[tuple[int, NDArray, int, NDArray]]:
        """Blocks of terms whose costs add up, the left ones in pieces."""
        for a in range(total + 1):
            b = total - a
            if not ordered and a < b:
                continue
            first, xs = left.block(a)
            second, ys = right.block(b)
            if not len(xs) or not len(ys):
                continue
            step = max(1, CHUNK // len(ys))
            for k in range(0, len(xs), step):
                yield first + k, xs[k : k + step], second, ys

    def _indices(self, cost: int) -> Iterator[tuple[NDArray, Making]]:
        """The index terms of a cost, those that are no sums first: only they are scaled without further cost."""
        yield from self._divided(cost)
        ops = self.group.operations
        for name, ufunc in (("min", np.minimum), ("max", np.maximum)):
            if name in ops:
                for signs in ((1, 1), (1, -1)):
                    yield from self._binary(name, ufunc, cost - 2, signs, False)
        if "prod" in ops:
            for values, recipes in self._binary("prod", np.multiply, cost - 2, (1, 1), False):
                kept = [k for k in range(len(values)) if not any(map(self._is_number, recipes(k).args))]
                yield values[kept], _among(recipes, kept)
        if "abs" in ops:
            start, xs = self.index.block(cost - 2)
            yield np.abs(xs), _single("abs", start)
        if "where" in ops:
            yield from self._selections(cost)
        for c in self.group.factors:
            start, xs = self.index.block(cost - 2)
            plain = [k for k in range(len(xs)) if self.index.recipes[start + k].op not in (SUM, SCALE)]
            yield c * xs[plain], _among(_single(SCALE, start, 1, c), plain)
        for sign in (1, -1):
            yield from self._binary(SUM, np.add, cost - 2, (1, sign), False)

    def _is_number(self, argument: tuple[int, int]) -> bool:
        recipe = self.index.recipes[argument[0]]
        return recipe.op == LEAF and recipe.number >= len(self.group.names)

    def _binary(
        self, op: str, ufunc: Any, total: int, signs: tuple[int, int], ordered: bool
    ) -> Iterator[tuple[NDArray, Making]]:
        if total < 0:
            return
        for first, xs, second, ys in self._pairs(self.index, self.index, total, ordered):
            values = ufunc(signs[0] * xs[:, None, :], signs[1] * ys[None, :, :]).reshape(-1, self.points)
            yield values, _paired(op, first, range(second, second + len(ys)), signs)

    def _divided(self, cost: int) -> Iterator[tuple[NDArray, Making]]:
        for op in sorted(self.group.operations & DIVIDE.keys()):
            if cost < 3:
                return
            start, xs = self.index.block(cost - 3)
            for c in self.group.divisors:
                yield DIVIDE[op](xs, c), _single(op, start, 1, c)
                kept = self._turnable(op, start, len(xs))
                yield DIVIDE[op](-xs[kept], c), _among(_single(op, start, -1, c), kept)
            if not self.group.divisors:
                yield from self._by_sizes(op, cost - 3)

    def _turnable(self, op: str, start: int, count: int) -> list[int]:
        """The terms of a block that are divided with the other sign too.

        A quotient of an opposite is left out, as what rounds up has one spelling: (x + c - 1) // c.
        """
        if op in TRUNCATED:
            return []
        return [k for k in range(count) if op == "mod" or not self.positive[start + k]]

    def _is_positive(self, recipe: Recipe) -> bool:
        """Whether a term is one summand that is not a number, or a sum of such that are all added."""
        if recipe.op == SUM:
            return all(sign > 0 and self.positive[k] for k, sign in recipe.args)
        return not (recipe.op == LEAF and recipe.number >= len(self.group.names))

    def _by_sizes(self, op: str, total: int) -> Iterator[tuple[NDArray, Making]]:
        """Divisions by terms that are positive at all points."""
        for first, xs, second, ys in self._pairs(self.index, self.index, total, True):
            positive = [k for k in range(len(ys)) if (ys[k] > 0).all()]
            kept = self._turnable(op, first, len(xs))
            for sign, rows in ((1, list(range(len(xs)))), (-1, kept)):
                values = DIVIDE[op](sign * xs[rows][:, None, :], ys[positive][None, :, :])
                pairs = _paired(op, 0, [second + k for k in positive], (sign, 1))
                yield values.reshape(-1, self.points), _moved(pairs, [first + k for k in rows])

    def _selections(self, cost: int) -> Iterator[tuple[NDArray, Making]]:
        for guard in range(2, cost - 1):
            start, ps = self.truth.block(guard)
            for k, p in enumerate(ps):
                for first, xs, second, ys in self._pairs(self.index, self.index, cost - 2 - guard, True):
                    for sign in (1, -1):
                        values = np.where(p[None, None, :], xs[:, None, :], sign * ys[None, :, :])
                        pairs = _paired("where", first, range(second, second + len(ys)), (1, sign))
                        yield values.reshape(-1, self.points), _guarded(start + k, pairs)

    def _predicates(self, cost: int) -> Iterator[tuple[NDArray, Making]]:
        ops = self.group.operations
        for op, ufunc in ((LESS, np.less), (EQUAL, np.equal)):
            if op in ops:
                for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)) if op == LESS else ((1, 1), (1, -1)):
                    for values, recipe in self._binary(op, ufunc, cost - 2, signs, op == LESS):
                        yield values.astype(np.int64), recipe
        if AND in ops and cost >= 6:
            for first, xs, second, ys in self._pairs(self.truth, self.truth, cost - 2, False):
                for signs in product((1, 0), (1, 0)):
                    a, b = (xs if signs[0] else 1 - xs), (ys if signs[1] else 1 - ys)
                    values = (a[:, None, :] * b[None, :, :]).reshape(-1, self.points)
                    yield values, _paired(AND, first, range(second, second + len(ys)), signs)

    # -- reading terms -------------------------------------------------------------------------------------------------

    def term(self, recipe: Recipe) -> Term:
        """The term that a recipe makes."""
        if recipe.op == LEAF:
            return self.leaves[recipe.number]
        if recipe.op == AND:
            return t.logical_and(*(self._truth(k, s) for k, s in recipe.args))
        args = [self._signed(k, s) for k, s in recipe.args[1 if recipe.op == "where" else 0 :]]
        if recipe.op == "where":
            return t.where(self._truth(recipe.args[0][0], recipe.args[0][1]), *args)
        if recipe.op == SUM:
            return args[0] + args[1]
        if recipe.op == SCALE:
            return args[0] * recipe.number
        if recipe.op == "abs":
            return t.absolute(args[0])
        if recipe.op == "prod":
            return args[0] * args[1]
        if recipe.op in (LESS, EQUAL):
            return t.compare(recipe.op, *args)
        return t.binary(recipe.op, args[0], args[1] if len(args) > 1 else t.index_const(recipe.number))

    def _signed(self, k: int, sign: int) -> Term:
        term = self.term(self.index.recipes[k])
        return term if sign > 0 else -term

    def _truth(self, k: int, sign: int) -> Term:
        term = self.term(self.truth.recipes[k])
        return term if sign else t.logical_not(term)

    # -- looking up ----------------------------------------------------------------------------------------------------

    def smallest(self, rows: Sequence[NDArray], is_index: bool) -> list[tuple[int, Term] | None]:
        """For rows of values the least cost of a term that has them, and the term; None where the search ended."""
        shelf = self.index if is_index else self.truth
        wanted = np.array(rows, np.int64)
        keys = self.keys(shelf, wanted)
        result: list[tuple[int, Term] | None] = []
        for key, row in zip(keys.tolist(), wanted, strict=True):
            known = shelf.known.get(key)
            same = known is not None and np.array_equal(self.stored(shelf, known), row)
            result.append(
                None if known is None else (shelf.costs[known], self._turned(shelf, shelf.recipes[known], same))
            )
        for cost in (self.top + 1, self.top + 2):
            open_keys = {key: k for k, key in enumerate(keys.tolist()) if result[k] is None}
            for values, recipes in (self._indices if is_index else self._predicates)(cost) if open_keys else ():
                made = self.keys(shelf, values)
                for k in np.flatnonzero(np.isin(made, np.array(list(open_keys), np.uint64))).tolist():
                    for n in np.flatnonzero(keys == made[k]).tolist():
                        if result[n] is None:
                            same = np.array_equal(values[k], wanted[n])
                            result[n] = cost, self._turned(shelf, recipes(k), same)
        return result

    def _turned(self, shelf: Shelf, recipe: Recipe, same: bool) -> Term:
        """The term of a recipe, or its opposite."""
        term = self.term(recipe)
        if same:
            return term
        return -term if shelf is self.index else t.logical_not(term)

    def stored(self, shelf: Shelf, k: int) -> NDArray:
        """The values of a stored term."""
        start, block = shelf.block(shelf.costs[k])
        return np.asarray(block[k - start])
