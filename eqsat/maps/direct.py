"""An index map over numbers solved by its equations alone: each step holds at every point, so the map is injective.

The cells without a point follow too: those that lead out of the box, or do not lead back. What of these conditions is
shown by intervals and normal forms is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import NDArray
from eqsat.ir.points import LARGEST_RANDOM, values_at
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size
from eqsat.maps.equations import Equations
from eqsat.maps.facts import Constraint
from eqsat.maps.form_values import leaves_of, replaced, values_of
from eqsat.maps.forms import Form, Forms
from eqsat.maps.points import plain_values, probe
from eqsat.maps.problem import Problem
from eqsat.rewriting.rewrite import spell

ALL_CELLS = 1 << 12
LARGEST_SEARCH = 1 << 14
_CHUNK = 1 << 7
_PIECES = ("where", "abs", "min", "max", "bitxor")  # what other ways solve sooner


@dataclass(frozen=True, eq=False)
class Outside:
    """Where a form over the outputs is not in [low, stop)."""

    form: Form
    low: int
    stop: int

    @property
    def above(self) -> bool:
        """Whether the interval of the form leaves open that a value is too large."""
        return self.form.high is None or self.form.high >= self.stop

    @property
    def below(self) -> bool:
        return self.form.low is None or self.form.low < self.low

    def at(self, values: NDArray) -> NDArray:
        """Where this holds, on the sides that the interval leaves open: what `claims` say."""
        if self.above and self.below:
            return (values < self.low) | (values >= self.stop)
        return values >= self.stop if self.above else values < self.low if self.below else np.zeros(values.shape, bool)

    def claims(self) -> list[Term]:
        """The same as predicates, none that never holds."""
        form = self.form
        if self.above and self.below and self.stop == self.low + 1:
            return [_spelled("ne", form.arena.term(form), self.low)]
        result = [_at_least(form, self.stop)] if self.above else []
        return [*result, t.logical_not(_at_least(form, self.low))] if self.below else result


def _at_least(form: Form, least: int) -> Term:
    """form >= least, said shortly."""
    arena = form.arena
    while True:
        form, least = form - form.constant, least - form.constant
        common = gcd(*[c for _, c in form.parts])
        if common > 1:
            form, least = arena.div(form, common), -(-least // common)
        atom, found = form.atom, None
        if atom is not None and atom.op == "//":
            form, least = atom.args[0], least * atom.number
        elif len(form.parts) > 1 and (found := arena.above(form, least)) is not None:
            form, least = found[0], least // found[1]
        else:
            break
    return _spelled("le", t.index_const(least), arena.term(form))


def _spelled(op: str, a: Term, b: Term | int) -> Term:
    claim = t.compare(op, a, b)
    return claim if claim.op == "const" else spell(claim)


@dataclass(frozen=True, eq=False)
class Direct:
    """The inputs as forms over the outputs, right at a few points; `exceeding` are forms with the ranges that they keep
    at cells which points go to."""

    problem: Problem
    forms: Forms
    values: dict[Term, Form]
    exceeding: list[tuple[Form, int, int]]

    @cached_property
    def terms(self) -> list[Term]:
        """The inputs as terms, in their order; one that is an output as it stands is that."""
        plain = dict(zip(self.problem.outputs[::-1], self.problem.physical[::-1], strict=True))
        return [plain[v] if v in plain else self.forms.term(self.values[v]) for v in self.problem.inputs]

    @cached_property
    def outside(self) -> list[Outside] | None:
        """What makes a cell padding; None where that is not known in forms."""
        found = self._left(self.forms, self.values)
        if not self.exceeding or found is None or (len(found) < 2 and all(x.stop > 1 for x in found)):
            return found
        # Where these keep their ranges, less may be left of the conditions.
        term = self.forms.term
        ranges = {term(x): (low, stop) for x, low, stop in self.exceeding}
        narrow = Forms({**self.problem.box, **self.problem.cells, **ranges}, self.problem.inputs)
        left = self._left(narrow, {v: narrow.read(term(x)) for v, x in self.values.items()})
        if left is None:
            return found
        other = [*(Outside(*x) for x in self.exceeding), *left]
        return min(found, other, key=lambda some: dag_size(*(c for x in some for c in x.claims())))

    def _left(self, forms: Forms, values: Mapping[Term, Form]) -> list[Outside] | None:
        """What keeps the values in the box and leads them back, as far as forms do not show it."""
        result: list[Outside] = []
        for v, extent in zip(self.problem.inputs, self.problem.extents, strict=True):
            assert isinstance(extent, int)
            if not values[v].inside(extent):
                result.append(Outside(values[v], 0, extent))
        back = gaps(forms, values, self.problem.outputs, self.problem.physical)
        return None if back is None else [*result, *back]

    @cached_property
    def groups(self) -> list[Group] | None:
        """The conditions apart where they share no variable."""
        if self.outside is None:
            return None
        assert self.problem.numbers is not None
        found: list[tuple[set[Term], list[Outside]]] = []
        for x in self.outside:
            here = set(leaves_of(x.form))
            touched = [g for g in found if g[0] & here]
            merged = here.union(*(g[0] for g in touched)), [*(y for g in touched for y in g[1]), x]
            found = [g for g in found if not any(g is y for y in touched)] + [merged]
        extents = dict(zip(self.problem.physical, self.problem.numbers[1], strict=True))
        return [
            Group(tuple(p for p in extents if p in cells), tuple(e for p, e in extents.items() if p in cells), some)
            for cells, some in found
        ]

    def missed(self) -> tuple[int, ...] | None:
        """A padded cell, the first one where it is found soon."""
        groups = self.groups
        firsts = [] if groups is None else [g.first() for g in groups]
        cells: list[tuple[int, ...]] = []
        for g, cell in zip(groups or (), firsts, strict=True):
            if cell is not None:
                own = dict(zip(g.cells, cell, strict=True))
                cells.append(tuple(own.get(p, 0) for p in self.problem.physical))
        return min(cells, default=None)

    @cached_property
    def padding(self) -> Term | None:
        """The cells that no point reaches, none of the conditions idle; None where that is not known."""
        assert self.problem.numbers is not None
        extents, declared = self.problem.numbers
        if prod(extents) == prod(declared):
            return t.FALSE
        kept: list[Outside] = []
        for group in self.groups or ():
            found = group.conditions if len(self.outside or ()) == 1 else group.needed()
            if found is None:
                return None
            kept += found
        order = {id(x): n for n, x in enumerate(self.outside or ())}
        kept.sort(key=lambda x: order[id(x)])
        return t.logical_or(*(claim for x in kept for claim in x.claims())) if self._is_padding(kept) else None

    def _is_padding(self, conditions: Sequence[Outside]) -> bool:
        """Whether conditions hold at those of a few cells that do not lead into the box, or not back."""
        assert self.problem.numbers is not None
        cells = probe(self.problem.numbers[1])
        env, size = dict(zip(self.problem.physical, cells, strict=True)), len(cells[0]) if cells else 1
        masks, found = masks_of(conditions, env), values_of([self.values[v] for v in self.problem.inputs], env)
        return masks is not None and found is not None and is_padding(self.problem, either(masks, size), found, env)


def astray(problem: Problem, values: Sequence[NDArray], cells: Mapping[Term, NDArray]) -> NDArray | None:
    """A mask of the cells whose values do not lie in the box, or do not lead back; None where that is undefined."""
    assert problem.numbers is not None
    extents = dict(zip(problem.inputs, problem.numbers[0], strict=True))
    found = dict(zip(problem.inputs, values, strict=True))
    size = max((len(a) for a in cells.values()), default=1)
    wrong = either([(x < 0) | (x >= extents[v]) for v, x in found.items()], size)
    inside = {v: np.where(wrong, 0, x) for v, x in found.items()}
    back = plain_values(problem.outputs, inside, extents)
    if back is None:
        back = values_at(problem.outputs, inside, size)
    if back is None:
        return None
    return either([wrong, *(x != p for x, p in zip(back, cells.values(), strict=True))], size)


def is_padding(problem: Problem, mask: NDArray, values: Sequence[NDArray], cells: Mapping[Term, NDArray]) -> bool:
    """Whether a mask of cells marks those whose values do not lie in the box, or do not lead back."""
    wrong = astray(problem, values, cells)
    return wrong is not None and bool((mask == wrong).all())


@dataclass(frozen=True, eq=False)
class Group:
    """Conditions on some of the cells' variables, with the extents of these."""

    cells: tuple[Term, ...]
    declared: tuple[int, ...]
    conditions: list[Outside]

    def first(self) -> tuple[int, ...] | None:
        """The first cell where one holds, if it is found soon, else one of a few."""

        def where(env: Mapping[Term, NDArray], size: int) -> NDArray | None:
            masks = masks_of(self.conditions, env)
            return None if masks is None else either(masks, size)

        return first_where(where, self.cells, self.declared)

    def needed(self) -> list[Outside] | None:
        """The conditions without those that only hold where others do, or nowhere, tried at every cell or at a few;
        None if what is left is not known to be enough."""
        every = prod(self.declared) <= ALL_CELLS
        cells = [a.ravel() for a in np.indices(self.declared)] if every else probe(self.declared)
        masks = masks_of(self.conditions, dict(zip(self.cells, cells, strict=True)))
        if masks is None:
            return None
        size = len(cells[0]) if cells else 1
        kept = list(range(len(masks)))
        for k in sorted(kept, key=lambda k: -len(self.conditions[k].form.parts)):
            rest = [masks[n] for n in kept if n != k]
            if not bool((masks[k] & ~either(rest, size)).any()):
                if not every:
                    return None
                kept.remove(k)
        return [self.conditions[k] for k in kept]


def masks_of(conditions: Sequence[Outside], env: Mapping[Term, NDArray]) -> list[NDArray] | None:
    result: list[NDArray] = []
    for x in conditions:
        found = values_of([x.form], env)
        if found is None:
            return None
        result.append(x.at(found[0]))
    return result


def either(masks: Sequence[NDArray], size: int) -> NDArray:
    result: NDArray = np.zeros(size, np.bool_)
    for mask in masks:
        result = result | mask
    return result


def first_where(
    where: Callable[[Mapping[Term, NDArray], int], NDArray | None], cells: Sequence[Term], declared: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The first cell where a condition holds, if it is found soon, else one of a few."""
    if not declared:
        mask = where({}, 1)
        return () if mask is not None and bool(mask.any()) else None
    total = prod(declared)
    start: int = 0
    size: int = min(_CHUNK, total)
    while size and start + size <= LARGEST_SEARCH and total < LARGEST_RANDOM:
        at = np.unravel_index(np.arange(start, start + size), declared)
        mask = where(dict(zip(cells, at, strict=True)), size)
        if mask is None:
            return None
        k = int(np.argmax(mask))
        if bool(mask[k]):
            return tuple(int(a[k]) for a in at)
        start, size = start + size, min(8 * size, total - start - size)
    some = probe(declared)
    mask = where(dict(zip(cells, some, strict=True)), len(some[0]))
    places: list[int] = [] if mask is None else np.flatnonzero(mask).tolist()
    return min((tuple(int(c[k]) for c in some) for k in places), default=None)


def gaps(
    forms: Forms, values: Mapping[Term, Form], outputs: Sequence[Term], physical: Sequence[Term]
) -> list[Outside] | None:
    """What keeps outputs at the values from being the cell, as far as forms do not show it."""
    memo: dict[int, Form] = {}
    table = {form: x for v, x in values.items() if (form := forms.read(v)).parts}
    result: list[Outside] = []
    for p, output in zip(physical, outputs, strict=True):
        back = replaced(forms.read(output), table, memo)
        if back is None:
            return None
        gap = forms.read(p) - back
        if gap.parts or gap.constant:
            result.append(Outside(gap if gap.high != 0 else gap * -1, 0, 1))
    return result


@lru_cache(maxsize=128)
def direct(problem: Problem) -> Direct | None:
    """The solution by the equations of a map over numbers, tried at a few points, at all of a small box; or None."""
    if problem.numbers is None:
        return None
    given = [Constraint(o, p) for o, p in zip(problem.outputs, problem.physical, strict=True)]
    equations = Equations(problem.inputs, problem.box, problem.cells, given)
    if any(atom.unknown and atom.op in _PIECES for atom in equations.forms.atoms) or not equations.solve():
        return None
    found = {v: equations.value(v) for v in problem.inputs}
    values = {v: x for v, x in found.items() if x is not None}
    if len(values) < len(found):
        return None
    sample = problem.probe
    back = values_of(list(values.values()), sample.cells)
    if back is None or not all(map(_equal, back, sample.points.values())):
        return None
    return Direct(problem, equations.forms, values, equations.exceeding())


def _equal(found: NDArray, wanted: NDArray) -> bool:
    return bool((found == wanted).all())
