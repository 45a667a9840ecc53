"""An operator without a formula over other shapes: what it does alike at every position may stand in any dimensions.

Axes that only its first operand and its outputs have, and that it treats position by position, are *free*: they are
split, merged and moved as a neighbour has them. Any other dimension stays whole; `axis` and `axes` follow.
What is proposed counts only if the operator, made anew from its table, has the signature that the labels ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from eqsat.extraction.decode_view import reshaped, reshapes_around
from eqsat.ir.flat.align import common_refinement
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import Size, product
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Opaque, Tensor
from eqsat.ir.terms.shape import Shape
from eqsat.operators.bundles import bundle_order, keeps_place, tied_axes
from eqsat.operators.cuts import made_anew, shapes_in_place
from eqsat.operators.interned import Form
from eqsat.operators.labels import Label, Name, OpaqueKind
from eqsat.operators.permutable import followers, free_bundles


@dataclass(frozen=True)
class _Dim:
    """A dimension to be: of free labels (a name of its own, an extent), an old dimension by its number in the first
    operand and the bundles that it has, or a unit."""

    name: str = ""
    extent: Size = 1
    labels: tuple[int, ...] = ()
    old: int = -1
    bundles: tuple[Name, ...] = ()


class Respelling:
    """The ways to spell a form over shapes that are there."""

    def __init__(self, form: Form, kind: OpaqueKind, origin: Opaque) -> None:
        self.orders = (*form.operands, *form.outputs)
        held = {form.labels[i].name for order in self.orders for i in order}
        there = tuple(tuple(tuple(b for b in d if b in held) for d in dims) for dims in kind.dims)
        self.form, self.kind, self.origin = form, replace(kind, dims=there), origin
        self.free = free_bundles(self.kind, form.labels, len(form.operands))
        count = len(form.operands)
        self.moving = [0, *followers(self.kind, count), *range(count, len(self.orders))] if count else []
        """The tensors whose dimensions move: the first operand, those that follow it, and the outputs."""

    def first(self, operands: Sequence[Tensor], wanted: Shape | None, output: int) -> Opaque | None:
        """The operator over its operands in the first way that it has: as the result is wanted, as the first operand
        is, in the dimensions of the program, label by label."""
        place = len(operands) + output
        shapes = [(place, wanted), (0, operands[0].shape), (0, self._plain())]
        return next(self._ways(shapes, operands), None)

    def _ways(self, shapes: Sequence[tuple[int, Shape | None]], operands: Sequence[Tensor]) -> Iterator[Opaque]:
        """The operator with one of its tensors, by number, in each of some shapes, where it has that."""
        for at, shape in shapes:
            dims = None if shape is None else self._dims(at, shape)
            made = None if dims is None else self._made(dims, operands)
            if made is not None:
                yield made

    def fitted(self, operands: Sequence[Tensor], wanted: Mapping[int, Shape]) -> Opaque | None:
        """The operator over the shapes that are there, or that are wanted of its outputs, if fewer reshapes are around
        it than around the node of the program; None if not.

            softmax(x.reshape(4, 1, 16), axis=2).reshape(4, 16) = softmax(x, axis=1), where x is there as (4, 16)
        """

        def around(made: Opaque) -> int:
            shapes = [s for s, _ in made.outputs]
            return reshapes_around(operands, [x.shape for x in made.operands], shapes, wanted)

        least = around(self.origin)
        if not least or not operands:
            return None
        shapes = [(0, operands[0].shape), *((len(operands) + n, shape) for n, shape in sorted(wanted.items()))]
        found = [(around(made), made) for made in self._ways(shapes, operands)]
        best = min(found, key=itemgetter(0), default=(least, self.origin))
        return best[1] if best[0] < least else None

    def source(self, wanted: Shape, output: int) -> Shape | None:
        """The shape of the first operand with which an output has the wanted one; None where that is not to be had."""
        dims = self._dims(len(self.form.operands) + output, wanted)
        found = None if dims is None else self._of(0, dims)
        return None if found is None else found[1]

    def _used(self) -> list[Label]:
        """The labels that index anything."""
        return [self.form.labels[i] for i in dict.fromkeys(i for order in self.orders for i in order)]

    def _name(self, i: int) -> Name:
        return self.form.labels[i].name

    def _plain(self) -> Shape:
        """One dimension for each free label, and for each old dimension that stays whole."""
        found: list[tuple[object, list[Size]]] = []
        for i in self.orders[0]:
            name, extent = self._name(i), self.form.labels[i].extent
            old = i if name in self.free else self._old(0, name)
            if found and name not in self.free and found[-1][0] == ("old", old):
                found[-1][1].append(extent)
            else:
                found.append(((("free" if name in self.free else "old"), old), [extent]))
        return tuple(as_extent(product(extents)) for _, extents in found)

    def _old(self, t: int, name: Name) -> int | None:
        """The one dimension of a tensor that has a bundle."""
        found = [n for n, d in enumerate(self.kind.dims[t]) if name in d]
        return found[0] if len(found) == 1 else None

    def _dims(self, t: int, shape: Shape) -> list[_Dim] | None:
        """The labels of a tensor cut into the dimensions of a shape."""
        order, labels = self.orders[t], self.form.labels
        cut = common_refinement([labels[i].extent for i in order], [as_size(d) for d in shape])
        if cut is None:
            return None
        found: list[_Dim] = []
        for n, extent in enumerate(shape):
            held = list(dict.fromkeys(order[p] for p, d, _ in cut if d == n))
            if not held:
                found.append(_Dim())
            elif all(self._name(i) in self.free for i in held):
                found.append(_Dim(f"free{n}", as_size(extent), tuple(held)))
            else:
                old = self._old(t, self._name(held[0]))
                whole = old is not None and [i for i in order if self._name(i) in self.kind.dims[t][old]] == held
                if old is None or not whole or product(labels[i].extent for i in held) != as_size(extent):
                    return None
                found.append(self._stays(t, old))
        return found

    def _stays(self, t: int, n: int) -> _Dim:
        """A dimension of a tensor as it was."""
        first, bundles = self.kind.dims[0], self.kind.dims[t][n]
        same = n if len(self.kind.dims[t]) == len(first) else next((k for k, d in enumerate(first) if d == bundles), -1)
        return _Dim(old=same, bundles=bundles)

    def _made(self, dims: list[_Dim], operands: Sequence[Tensor]) -> Opaque | None:
        attrs = dict(self.origin.attrs)
        first = self.kind.dims[0]
        name, axes = tied_axes(attrs, len(first))
        dims = [*dims, *(_Dim(old=n) for n in axes if not first[n])]  # of extent 1, so no label: they stand last
        table = {d.old: n for n, d in enumerate(dims) if d.old >= 0}
        places = tuple(table[n] for n in axes if n in table)
        if name and len(places) == len(axes):
            attrs[name] = places if name == "axes" else places[0]
        shapes = shapes_in_place(self.origin, self._used())
        if shapes is None:
            return None
        names: list[Dims] = list(self.kind.dims)
        for t in self.moving:
            found = self._of(t, dims)
            if found is None:
                return None
            names[t], shapes[t] = found
        count = len(operands)
        given = [reshaped(x, shape) for x, shape in zip(operands, shapes[:count], strict=True)]
        outputs = [(shape, dtype) for shape, (_, dtype) in zip(shapes[count:], self.origin.outputs, strict=True)]
        roles = {str(x.name): x.role for x in self.form.labels} | {d.name: "map" for d in dims if d.name}
        used = {x for tensor in names for d in tensor for x in d}
        wanted = Signature(tuple(names[:count]), tuple(names[count:]), {x: r for x, r in roles.items() if x in used})
        return made_anew(self.origin, given, outputs, attrs, wanted)

    def in_place(self, operands: Sequence[Tensor]) -> Opaque | None:
        """The operator over operands whose dimensions hold their labels as in the program, of other extents."""
        count = len(operands)
        if not keeps_place(self.kind, self.form.labels, self.orders):
            return None
        shapes = shapes_in_place(self.origin, self._used())
        if shapes is None or self.origin.signature is None:
            return None
        given = [reshaped(x, shape) for x, shape in zip(operands, shapes[:count], strict=True)]
        outputs = [(shape, dtype) for shape, (_, dtype) in zip(shapes[count:], self.origin.outputs, strict=True)]
        return made_anew(self.origin, given, outputs, self.origin.attrs, self.origin.signature)

    def _of(self, t: int, dims: Sequence[_Dim]) -> tuple[Dims, Shape] | None:
        """What the dimensions are for one of the moving tensors, if its labels then lie as in the form."""
        old = self.kind.dims[t]
        ranked = len(old) == len(self.kind.dims[0])
        order, own = self.orders[t], set(bundle_order(old))
        found: list[tuple[tuple[str, ...], Size]] = []
        line: list[int] = []
        for d in dims:
            if d.name and (not ranked or not own.isdisjoint(self._name(i) for i in d.labels)):
                found.append(((d.name,), d.extent))
                line += [i for i in d.labels if i not in line[-1:]]
            elif d.old < 0 and not d.bundles:  # a unit, or labels along which a follower has one cell
                found += [((), 1)] if ranked else []
            else:
                bundles = old[d.old] if ranked and d.old >= 0 else next((x for x in old if x and x == d.bundles), None)
                if bundles is not None:
                    held = [i for i in order if self._name(i) in bundles]
                    line += held
                    found.append((bundles, product(self.form.labels[i].extent for i in held)))
        if line != list(order):
            return None
        return tuple(names for names, _ in found), tuple(as_extent(extent) for _, extent in found)
