"""The ways to have each class of the e-graph: its leaves and forms, and the views that bridge layouts, which are added
here, between what is produced and what is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from math import inf

from eqsat.graph.nodes import ClassId, Nodes, UseForm
from eqsat.ir import clock
from eqsat.ir.flat.facts import inverse
from eqsat.ir.flat.formula import composed
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.ops import compose
from eqsat.operators import algebra
from eqsat.operators.interned import Interned, Reindex
from eqsat.pricing.operators import Origin, may_add


@dataclass(frozen=True)
class UseLeaf:
    """The value is a leaf of the program."""

    leaf: int


@dataclass(frozen=True)
class InsertView:
    """The value is a view of another class, and then, as one View with that, a view of the view."""

    source: ClassId
    reindex: int
    then: int | None = None


@dataclass(frozen=True)
class UsePadded:
    """The value is an output of a form that pads its first operand itself, as a view of that would."""

    spell: UseForm
    reindex: int


@dataclass(frozen=True)
class Between:
    """A class that only a form which pads its first operand itself reads: a view of another class."""

    source: ClassId
    reindex: int


@dataclass(frozen=True)
class Direct:
    """A class as a product makes it for one form alone, which adds something to it as it is made."""

    source: ClassId
    reader: UseForm


@dataclass(frozen=True)
class UseSum:
    """The value is a form that adds something to a product, its operand at a place, as that is made."""

    spell: UseForm
    place: int
    product: Direct


Choice = UseLeaf | UseForm | InsertView | UsePadded | UseSum


@dataclass(frozen=True)
class Alternative:
    """One way to have a class: what it costs by itself, and the classes it needs."""

    choice: Choice
    cost: int
    needs: tuple[ClassId, ...]


@dataclass(frozen=True)
class Prices:
    """What the choices of a target cost: a view, a view of a view as one (None: not to be had), a form
    over operands of some origins; and a view, where there is no time to look for its spelling."""

    view: Callable[[Reindex], int]
    pair: Callable[[Reindex, Reindex], int | None]
    form: Callable[[int, tuple[Origin, ...]], int]
    rough: Callable[[Reindex], int]


Apart = Callable[[int, Reindex, Reindex | None], tuple[Reindex, Reindex] | None]
"""Of a view, or a view of a view, what pads it, such that a form does that itself, and the view without padding."""


class Alternatives:
    """Every way to have the classes that a program may need; made from the roots down.

    A view may start from each produced layout of what it views. What depends only on maps is found once for all blocks
    of a network.
    """

    def __init__(
        self,
        nodes: Nodes,
        interned: Interned,
        prices: Prices,
        constant: Callable[[int], bool],
        takes: Callable[[int, Reindex], bool] = lambda form, view: False,
        apart: Apart = lambda form, view, then: None,
        excluded: Collection[int] = (),
        seconds: float = inf,
    ) -> None:
        """`excluded` are forms that turned out to have no spelling. After so many seconds, views are priced roughly,
        and views of views are left out."""
        self.until = time.monotonic() + seconds
        self.nodes, self.interned, self.prices, self.takes, self.apart = nodes, interned, prices, takes, apart
        self.excluded = excluded
        self.constants = _constant_classes(nodes, constant)
        self.ahead = _ahead(nodes, self.constants)
        self.produced = self._produced()
        self._viewed = {(base, m): c for c, views in nodes.views.items() for base, m in views}
        self._own_products = cache(self._products)
        self._behind = cache(self._seen_through)
        self._bridges = cache(self._bridge)
        self._pairs = cache(self._pair)

    def table(self, roots: Sequence[ClassId]) -> dict[ClassId, list[Alternative]]:
        """The ways of all classes that the roots may need."""
        table: dict[ClassId, list[Alternative]] = {}
        stack = list(roots)
        while stack:
            c = stack.pop()
            if c not in table:
                clock.check()
                table[c] = self.ways(c)
                stack.extend(need for way in table[c] for need in way.needs)
        return table

    def ways(self, c: ClassId) -> list[Alternative]:
        """Every way to have a class."""
        if isinstance(c, Between):
            views = Views(self.constants)
            views.add(c.source, self._bridges(None, c.reindex))
            return views.cheapest()
        if isinstance(c, Direct):
            return [Alternative(spell, self._price(spell), spell.operands) for spell in self._own_products(c.source)]
        nodes = self.nodes
        ways: list[Alternative] = []
        if c in nodes.leaves:
            ways.append(Alternative(UseLeaf(nodes.leaves[c]), 0, ()))
        for spell in nodes.forms.get(c, ()):
            if spell.form in self.excluded:
                continue
            ways.append(Alternative(spell, self._price(spell), spell.operands))
            ways.extend(self._added(spell))
            ways.extend(self._padded(spell))
        views = Views(self.constants)
        for p, source in self.produced.get(c, ()):
            if p is not None:  # from another layout back
                views.add(source, self._bridges(p, None))
        seen: set[tuple[ClassId, int, int | None]] = set()
        for base, m in nodes.views.get(c, ()):
            for p, source in self.produced.get(base, ()):
                if source != c:
                    views.add(source, self._bridges(p, m))
            for below, inner in nodes.views.get(base, ()):
                for first, then in self._behind(inner, m):
                    if (below, first, then) in seen:
                        continue
                    seen.add((below, first, then))
                    for p, source in self.produced.get(below, ()):
                        if source != c:
                            views.add(source, self._bridges(p, first) if then is None else self._pairs(p, first, then))
        return [*ways, *views.cheapest()]

    def _padded(self, spell: UseForm) -> Iterator[Alternative]:
        """The ways of a form whose first operand is a padded view, the padding left to the form."""
        first, rest = spell.operands[:1], spell.operands[1:]
        for base, m in self.nodes.views.get(first[0], ()) if first else ():
            read = self.interned.reindexes[m]
            if read.fill is not None:
                for p, source in self.produced.get(base, ()):
                    view = self._back(p, read)
                    if view is not None and self.takes(spell.form, view):
                        yield self._pads_itself(spell, (source, *rest), view)
                    elif view is not None:
                        yield from self._padded_behind(spell, source, self.apart(spell.form, view, None))
            for below, inner in self.nodes.views.get(base, ()):
                padded = self.interned.reindexes[inner]
                if padded.fill is not None and read.fill is None:
                    yield from self._padded_behind(spell, below, self.apart(spell.form, padded, read))

    def _padded_behind(
        self, spell: UseForm, source: ClassId, apart: tuple[Reindex, Reindex] | None
    ) -> Iterator[Alternative]:
        if apart is not None:
            m = self.interned.reindexes.number(apart[0])
            operand = self._viewed.get((source, m), Between(source, m))
            yield self._pads_itself(spell, (operand, *spell.operands[1:]), apart[1])

    def _pads_itself(self, spell: UseForm, operands: tuple[ClassId, ...], view: Reindex) -> Alternative:
        own = UseForm(spell.form, spell.output, operands)
        return Alternative(UsePadded(own, self.interned.reindexes.number(view)), self._price(own), operands)

    def _added(self, spell: UseForm) -> Iterator[Alternative]:
        """The ways of a form over a product that it is added to, where that costs less than the form by itself."""
        for n, x in enumerate(spell.operands):
            if self._own_products(x):
                price = self._price(spell, n)
                if price < self._price(spell):
                    made = Direct(x, spell)
                    yield Alternative(
                        UseSum(spell, n, made), price, (*spell.operands[:n], made, *spell.operands[n + 1 :])
                    )

    def _price(self, spell: UseForm, product: int | None = None) -> int:
        """What a form over some classes costs, of which one is a product that only the form reads."""
        origins: list[Origin] = ["product" if n == product else self._origin(x) for n, x in enumerate(spell.operands)]
        return self.prices.form(spell.form, tuple(origins))

    def _origin(self, c: ClassId) -> Origin:
        return "constant" if c in self.ahead else ""

    def _products(self, c: ClassId) -> list[UseForm]:
        """The products that make a class, to which something may be added."""
        known = () if c in self.ahead else self.nodes.forms.get(c, ())
        return [spell for spell in known if spell.form not in self.excluded and self._adds(spell)]

    def _adds(self, spell: UseForm) -> bool:
        form = self.interned.forms[spell.form]
        return may_add(self.interned.operators[form.operator].kind, form.labels, form.operands, form.outputs)

    def _produced(self) -> dict[ClassId, list[tuple[int | None, ClassId]]]:
        """The classes that hold a class in some layout, with that layout (None: as it is)."""
        nodes, produced = self.nodes, dict[ClassId, list[tuple[int | None, ClassId]]]()
        known = nodes.leaves.keys() | nodes.forms.keys() | nodes.views.keys()
        for c in nodes.classes():
            if c in known:
                produced.setdefault(c, []).append((None, c))
        for c in nodes.forms:
            for base, m in nodes.views.get(c, ()):
                if c != base and inverse(self.interned.reindexes[m].map) is not None:
                    produced.setdefault(base, []).append((m, c))
                    if base not in known and (None, base) not in produced[base]:
                        produced[base].append((None, base))
        return produced

    def _seen_through(self, inner: int, outer: int) -> list[tuple[int, int | None]]:
        """A view of a view as one view or as a pair, as far as one fill tells the padding."""
        if self._is_late:
            return []
        first, then = self.interned.reindexes[inner], self.interned.reindexes[outer]
        found: list[tuple[int, int | None]] = []
        if first.fill is None or then.fill is None or first.fill is then.fill:
            found.append((inner, outer))
        whole = algebra.compose(first, then)
        if whole is not None:
            found.append((self.interned.reindexes.number(whole), None))
        return found

    def _back(self, p: int | None, view: Reindex | None) -> Reindex | None:
        """A view of a value as a view of its layout p."""
        if p is None:
            return view
        layout = self.interned.reindexes[p]
        back = inverse(layout.map)
        if back is None or view is None:
            return None if back is None else Reindex(back, None, layout.dtype)
        through = composed(back, view.map)
        return None if through is None else Reindex(through, view.fill, view.dtype)

    def _bridge(self, p: int | None, m: int | None) -> tuple[int, int | None, int] | None:
        view = self._back(p, None if m is None else self.interned.reindexes[m])
        if view is None:
            return None
        price = self.prices.rough if self._is_late else self.prices.view
        return self.interned.reindexes.number(view), None, price(view)

    @property
    def _is_late(self) -> bool:
        return time.monotonic() > self.until

    def _pair(self, p: int | None, inner: int, outer: int) -> tuple[int, int | None, int] | None:
        """A view of a view as one View: what no single map says."""
        if self._is_late:
            return None
        first, second = self._back(p, self.interned.reindexes[inner]), self.interned.reindexes[outer]
        if first is None or not isinstance(first.map, FlatMap) or not isinstance(second.map, FlatMap):
            return None
        if isinstance(compose(first.map, second.map, 0), FlatMap):
            return None
        cost = self.prices.pair(first, second)
        if cost is None:
            return None
        return self.interned.reindexes.number(first), self.interned.reindexes.number(second), cost


class Views:
    """The cheapest view of each class, the first of equal ones: a value has as many views of views as its e-class has
    pairs of views, and of all that start from one class only the cheapest can be worth it."""

    def __init__(self, constants: Collection[ClassId]) -> None:
        self.constants = constants
        self.found: dict[ClassId, tuple[int, int | None, int]] = {}

    def add(self, source: ClassId, view: tuple[int, int | None, int] | None) -> None:
        """A view of a class: its map, that of a view of the view, and what it costs."""
        if view is None:
            return
        known = self.found.get(source)
        if known is None or (view[2] < known[2] and source not in self.constants):
            self.found.pop(source, None)  # in the order in which those that stay came
            self.found[source] = view

    def cheapest(self) -> list[Alternative]:
        """What is left of them."""
        return [
            Alternative(InsertView(source, first, then), 1 if source in self.constants else cost, (source,))
            for source, (first, then, cost) in self.found.items()
        ]


def _constant_classes(nodes: Nodes, constant: Callable[[int], bool]) -> set[ClassId]:
    """The classes that are constants, or views of such."""
    viewers: dict[ClassId, list[ClassId]] = {}
    for c, views in nodes.views.items():
        for base, _ in views:
            viewers.setdefault(base, []).append(c)
    found: set[ClassId] = set()
    stack = [c for c, leaf in nodes.leaves.items() if constant(leaf)]
    while stack:
        c = stack.pop()
        if c not in found:
            found.add(c)
            stack.extend(viewers.get(c, ()))
    return found


def _ahead(nodes: Nodes, constants: set[ClassId]) -> set[ClassId]:
    """The classes that are computed from constants alone, by operators too, as a dequantised weight is."""
    readers: dict[ClassId, list[tuple[ClassId, tuple[ClassId, ...]]]] = {}
    for c, forms in nodes.forms.items():
        for form in forms:
            for x in form.operands:
                readers.setdefault(x, []).append((c, form.operands))
    for c, views in nodes.views.items():
        for base, _ in views:
            readers.setdefault(base, []).append((c, (base,)))
    found = set(constants)
    stack = list(constants)
    while stack:
        for c, operands in readers.get(stack.pop(), ()):
            if c not in found and found.issuperset(operands):
                found.add(c)
                stack.append(c)
    return found
