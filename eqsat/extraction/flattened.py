"""The fewest dimensions that values may have between operators, so that no reshape stands between these.

    layer_norm(x (1, 64, 128) + y (1, 64, 128)):     x, y and both results as (64, 128)

Axes that are neighbours wherever an operator has them are one axis for it. What one operator tells apart, those that
share its values tell apart, too, up to views, which take any shape. An operator that keeps the dimensions of the
program keeps those of its values, and one over images those of what is made of them element by element; where few ask
for what many need not tell apart, the few reshape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from eqsat.extraction.decode_view import reshaped
from eqsat.extraction.extract import Choice, InsertView, UseLeaf, UsePadded, UseSum
from eqsat.extraction.respell import Respelling
from eqsat.graph.encode import Encoded
from eqsat.graph.nodes import ClassId, UseForm
from eqsat.ir import clock
from eqsat.ir.flat.align import common_refinement
from eqsat.ir.flat.size_terms import as_extent, shape_size
from eqsat.ir.flat.sizes import Size, product
from eqsat.ir.tensors.tensor import Opaque, is_ahead
from eqsat.ir.terms.shape import Shape, same_shape
from eqsat.operators.bundles import bundles_of, tied_axes
from eqsat.operators.interned import Form
from eqsat.operators.labels import Kind, OpaqueKind
from eqsat.operators.permutable import free_bundles, widened
from eqsat.pricing.operators import windows_of

STEPS = 4
"""So many forms at most are such that reshape their values."""
WORK = 4000
"""Operators that are looked at for each of them: as many forms are tried, the rarest first."""
WORTH = 2
"""So many dimensions of values are worth a reshape."""


@dataclass(frozen=True)
class _Axes:
    """Labels that an operator has side by side wherever it has one of them; whether they may be cut anywhere."""

    labels: tuple[int, ...]
    extent: Size
    loose: bool


Extents = tuple[Size, ...]
"""The dimensions of a value: () where it keeps those that it has."""


class _Spelled:
    """An operator's axes, and for each value those that it has (by number), outermost first."""

    def __init__(self, axes: tuple[_Axes, ...], held: tuple[tuple[int, ...], ...]) -> None:
        self.axes, self.held = axes, held
        self.told, self.agrees = cache(self._told), cache(self._agrees)

    def _agrees(self, value: int, extents: Extents) -> bool:
        """Whether dimensions of a value are such as the operator has: of whole axes, or of parts of loose ones."""
        axes = [self.axes[n] for n in self.held[value]]
        cut = common_refinement([x.extent for x in axes], extents)
        if cut is None or len(cut) != len(extents):
            return False
        return all(axes[place].loose or extent == axes[place].extent for place, _, extent in cut)

    def _told(self, known: tuple[Extents | None, ...]) -> tuple[Extents, ...] | int:
        """The dimensions of the values with all that is told apart in one of them, by what is known of them; the number
        of a value whose dimensions straddle the others'."""
        pieces: list[Extents] = [(x.extent,) for x in self.axes]
        for v, (held, extents) in enumerate(zip(self.held, known, strict=True)):
            if not extents:
                continue
            cut = common_refinement([self.axes[n].extent for n in held], extents)
            for place, n in enumerate(held):
                both = None if cut is None else common_refinement(pieces[n], [d for k, _, d in cut if k == place])
                if both is None:
                    return v
                if self.axes[n].loose:
                    pieces[n] = tuple(extent for _, _, extent in both)
        found: list[Extents] = []
        for v, (held, extents) in enumerate(zip(self.held, known, strict=True)):
            mine = [extent for n in held for extent in pieces[n]]
            cut = common_refinement(mine, extents or (product(mine),))
            if cut is None:
                return v
            found.append(() if extents == () else tuple(extent for _, _, extent in cut))
        return tuple(found)


@dataclass(frozen=True)
class _Operator:
    """An operator that was chosen: its form, its values, how it has them, and whether it keeps their dimensions."""

    form: int
    values: tuple[ClassId, ...]
    spelled: _Spelled
    stays: bool
    image: bool
    """Whether it makes images, if it stays: it has windows, of one cell each where it only sums."""

    def alike(self, values: set[ClassId]) -> set[ClassId]:
        """The values that it makes element by element of some values, or some of them of these."""
        held = dict(zip(self.values, self.spelled.held, strict=True))
        some = {held[c] for c in values.intersection(held)}
        return {c for c, axes in held.items() if axes in some} if all(x.loose for x in self.spelled.axes) else set()


def _kept(operators: Sequence[_Operator]) -> set[ClassId]:
    """The values that keep their dimensions: those of operators that do, and what is made of images element by element;
    a runtime joins such operators with what makes the images, and has the pixels of these in an order of its own."""
    images = {c for x in operators if x.stays and x.image for c in x.values}
    users: dict[ClassId, list[_Operator]] = {}
    for x in operators:
        for c in x.values:
            users.setdefault(c, []).append(x)
    waiting = list(images)
    while waiting:
        for x in users[waiting.pop()]:
            more = x.alike(images) - images
            images |= more
            waiting += more
    return images.union(*(x.values for x in operators if x.stays))


class _Told:
    """What is told apart in the values of operators, but for those of operators that keep their dimensions."""

    def __init__(self, operators: Sequence[_Operator], kept: set[ClassId], apart: frozenset[int] = frozenset()) -> None:
        """kept: values that keep their dimensions; apart: forms whose operators take values as others have them, and
        reshape these."""
        self.known: dict[ClassId, Extents] = {c: () for c in kept}
        waiting = [x for x in operators if x.form not in apart]
        users: dict[ClassId, list[_Operator]] = {}
        for x in waiting:
            for c in x.values:
                users.setdefault(c, []).append(x)
        while waiting:
            clock.check()
            waiting = list({id(y): y for x in waiting for c in self._passed_on(x) for y in users[c]}.values())
        reshaped = sum(
            not x.spelled.agrees(v, self.known[c])
            for x in operators for v, c in enumerate(x.values) if self.known.get(c)
        )  # fmt: skip
        alone = {c for x in operators for c in x.values} - self.known.keys()
        self.rank = sum(map(len, self.known.values())) + WORTH * (reshaped + 2 * len(alone))
        """The dimensions of all values, and what reshapes count as."""

    def _passed_on(self, x: _Operator) -> list[ClassId]:
        """Tell apart in all values of an operator what is told apart in one of them; what is new of which values."""
        known = tuple(map(self.known.get, x.values))
        found = x.spelled.told(known)
        if found == known:
            return []
        new = {x.values[found]: ()} if isinstance(found, int) else dict(zip(x.values, found, strict=True))
        changed = [c for c, extents in new.items() if extents != self.known.get(c)]
        self.known.update(new)
        return changed


class Flattened:
    """The operators that were chosen, and what each of them tells apart."""

    def __init__(self, encoded: Encoded, choices: Mapping[ClassId, Choice]) -> None:
        self.encoded, self.choices = encoded, choices
        self.constants = self._constants()
        self._kept, self._spelled = cache(self._stays), cache(_Spelled)
        self.operators = [x for c, way in choices.items() for x in self._operator(c, way)]

    def shapes(self) -> list[dict[ClassId, Shape]]:
        """The shapes that values may have, in the ways that there are: what one operator tells apart goes through all
        that is joined with it, unless the operators of the forms that ask for that reshape their values."""
        forms = Counter(x.form for x in self.operators if not x.stays)
        rarest = [form for form, _ in forms.most_common()[::-1]]
        kept = _kept(self.operators)
        apart, ways = frozenset[int](), [_Told(self.operators, kept)]
        for _ in range(STEPS):
            sets = [apart | {form} for form in rarest[: WORK // max(1, len(self.operators))] if form not in apart]
            trials = [(_Told(self.operators, kept, some), some) for some in sets]
            better, apart = min(trials, key=lambda trial: trial[0].rank, default=(ways[-1], apart))
            if better.rank >= ways[-1].rank:
                break
            ways.append(better)
        ways = [ways[0], ways[-1]] if len(ways) > 1 else ways
        return [{c: tuple(as_extent(x) for x in e) for c, e in told.known.items() if e} for told in ways]

    def _constants(self) -> set[ClassId]:
        """The classes that are computed from constants alone: these have any shape."""
        found: set[ClassId] = set()
        for c, way in self.choices.items():
            if isinstance(way, UseLeaf):
                known = way.leaf in self.encoded.interned.constants or is_ahead(self.encoded.leaves[way.leaf].node)
            elif isinstance(way, InsertView):
                known = way.source in found
            else:
                spell = way if isinstance(way, UseForm) else way.spell
                known = len(spell.operands) > 0 and found.issuperset(spell.operands)
            if known:
                found.add(c)
        return found

    def _operator(self, c: ClassId, way: Choice) -> Iterator[_Operator]:
        if isinstance(way, (UseLeaf, InsertView)) or c in self.constants:
            return
        spell = way if isinstance(way, UseForm) else way.spell
        operands: list[ClassId] = list(spell.operands)
        if isinstance(way, UseSum):
            operands[way.place] = way.product
        form = self.encoded.interned.forms[spell.form]
        axes = _axes(form, _loose(self.encoded.interned.operators[form.operator].kind, form))
        numbers = {i: n for n, x in enumerate(axes) for i in x.labels}
        orders = [(c, form.outputs[spell.output]), *zip(operands, form.operands, strict=True)]
        values = {x: tuple(dict.fromkeys(numbers[i] for i in order if i in numbers)) for x, order in orders}
        held = {x: axes for x, axes in values.items() if x not in self.constants}
        spelled = self._spelled(axes, tuple(held.values()))
        stays = isinstance(way, UsePadded) or self._kept(spell.form, axes)
        image = len(windows_of(form.operands, form.outputs[spell.output])) > 0
        image = image or any(x.role == "reduce" for x in form.labels)  # windows of one cell
        yield _Operator(spell.form, tuple(held), spelled, stays, image)

    def _stays(self, number: int, axes: Sequence[_Axes]) -> bool:
        """Whether an operator keeps the dimensions that it has in the program."""
        form = self.encoded.interned.forms[number]
        node = self.encoded.spelled(form.operator).node
        if node.serial in self.encoded.frozen or not isinstance(node, Opaque):
            return node.serial in self.encoded.frozen
        return self.encoded.is_cut(form.operator) or not is_loose(node, len(axes))


def is_loose(node: Opaque, count: int) -> bool:
    """Whether an operator without a formula may have so many axes as dimensions: as many as it tells apart where none
    has one position, so that what it does along each is seen."""
    wide = widened(node)
    if wide is None or not wide.operands:
        return False
    op = bundles_of(wide)
    assert isinstance(op.kind, OpaqueKind)
    form = Form(0, tuple(op.labels), tuple(map(tuple, op.operands)), tuple(map(tuple, op.outputs)), (), ())
    along = {x for n in tied_axes(wide.attrs, len(op.kind.dims[0]))[1] for x in op.kind.dims[0][n]}
    if any(op.labels[i].role == "fixed" and op.labels[i].name not in along for i in form.operands[0]):
        return False  # images: their dimensions are as they are
    axes, first = _axes(form, _loose(op.kind, form)), form.outputs[0]
    order = sorted((x for x in axes if x.labels[0] in first), key=lambda x: first.index(x.labels[0]))
    wanted = tuple(as_extent(x.extent) for x in order)
    operands = [reshaped(x, (as_extent(shape_size(x.shape)),)) for x in wide.operands]
    made = Respelling(form, op.kind, wide).first(operands, wanted, 0)
    return made is not None and same_shape(made.outputs[0][0], wanted) and len(axes) == count


def _loose(kind: Kind, form: Form) -> set[int]:
    """The labels that an operator treats alike at every position."""
    if isinstance(kind, OpaqueKind):
        free = free_bundles(kind, form.labels, len(form.operands))
        return {i for i, x in enumerate(form.labels) if x.name in free}
    return {i for i, x in enumerate(form.labels) if not x.name}


def _axes(form: Form, loose: set[int]) -> tuple[_Axes, ...]:
    """The labels of a form, neighbours joined; those of extent 1 are no axes."""
    orders = [[i for i in order if form.labels[i].extent != 1] for order in (*form.operands, *form.outputs)]
    found: list[list[int]] = []

    def together(a: int, b: int) -> bool:
        """Whether two labels may be one axis: both may be cut anywhere, or they are parts of one dimension."""
        name = form.labels[a].name
        return (a in loose and b in loose) or (not loose & {a, b} and name != "" and name == form.labels[b].name)

    for i in dict.fromkeys(i for order in orders for i in order):
        if any(i in x for x in found):
            continue
        ahead = _line(i, [order[::-1] for order in orders], together)[:0:-1]
        found.append([*ahead, *_line(i, orders, together)])
    return tuple(
        _Axes(tuple(line), product(form.labels[i].extent for i in line), loose.issuperset(line)) for line in found
    )


def _line(i: int, orders: Sequence[Sequence[int]], together: Callable[[int, int], bool]) -> list[int]:
    """A label and what stands behind it wherever an operator has either, as far as they may be one axis."""
    line = [i]
    while True:
        last = line[-1]
        behind = {order[order.index(last) + 1] if last != order[-1] else -1 for order in orders if last in order}
        after = behind.pop() if len(behind) == 1 else -1
        if after in (-1, *line) or not together(last, after):
            break
        if any(after in o and last not in o for o in orders):
            break
        line.append(after)
    return line
