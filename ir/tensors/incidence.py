"""The signature of an operator that has a formula: which axes of its operands and outputs are one, and their roles.

A formula here is any number of Views and Computes between operands and outputs. Every axis of every tensor on the way
is a product of labels. A load whose index is the row-major number of some digits of axes makes those digits and the
axis of what is loaded the same labels; an axis that occurs anywhere else is fixed, with whatever it has become one
with. What is left is `map`, or `equivariant` or `reduce` where some Compute combines along it in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eqsat.ir.dtypes import is_float
from eqsat.ir.layouts.digits import static_digit
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Compute, Input, Tensor, View, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, output_axes, reduce_axes, same_dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute


class _Label:
    """Positions that are taken alike, wherever they index; `parts` are what it was cut into, outermost first."""

    __slots__ = ("extent", "fixed", "parts", "reduced", "same")

    def __init__(self, extent: Dim, fixed: bool = False, reduced: bool = False) -> None:
        self.extent = extent
        self.fixed = fixed
        self.reduced = reduced
        self.same: _Label | None = None
        self.parts: list[_Label] = []


_Product = list[_Label]
"""The labels of one axis, outermost first; none for an axis of extent 1."""


def _product(extent: Dim, fixed: bool = False) -> _Product:
    return [] if same_dim(extent, 1) else [_Label(extent, fixed)]


def _resolved(labels: Sequence[_Label]) -> _Product:
    """What labels have become."""
    result: _Product = []
    stack = list(reversed(labels))
    while stack:
        x = stack.pop()
        if x.same is not None:
            stack.append(x.same)
        elif x.parts:
            stack.extend(reversed(x.parts))
        else:
            result.append(x)
    return result


def _fix(labels: Sequence[_Label]) -> None:
    for x in _resolved(labels):
        x.fixed = True


def _cut(x: _Label, inner: Dim) -> bool:
    """Cut a label in two, if that comes out even."""
    if not isinstance(x.extent, int) or not isinstance(inner, int) or inner < 2 or x.extent % inner:
        return False
    x.parts = [_Label(e, x.fixed, x.reduced) for e in (x.extent // inner, inner)]
    return True


def _unite(a: Sequence[_Label], b: Sequence[_Label]) -> None:
    """Make two products the same labels, cut alike; fixed where they cannot be cut alike."""
    left, right = _resolved(a), _resolved(b)
    while left and right:
        x, y = left.pop(), right.pop()
        if x.same or x.parts or y.same or y.parts:
            left, right = _resolved([*left, x]), _resolved([*right, y])
        elif x is y:
            continue
        elif same_dim(x.extent, y.extent):
            x.same, y.fixed, y.reduced = y, x.fixed or y.fixed, x.reduced or y.reduced
        elif _cut(x, y.extent) or _cut(y, x.extent):
            left, right = _resolved([*left, x]), _resolved([*right, y])
        else:
            _fix([*left, x, *right, y])
            return
    _fix([*left, *right])


@dataclass(frozen=True, eq=False)
class _Part:
    """axis // inner, up to `outer`; the whole axis where that is None."""

    axis: Term
    inner: int = 1
    outer: int | None = None


def _parts(index: Term, extent: Dim) -> list[_Part] | None:
    """The digits of axes, outermost first, of which an index is the row-major number; None where it is none."""
    if index.op == "axis" and index.args[0] is t.as_index(extent):
        return [_Part(index)]
    constant, summands = t.linear_parts(index)
    found: list[_Part] = []
    whole = 1
    for scale, x in sorted(summands, key=lambda s: s[0]):
        digit = static_digit(x)
        if constant or digit is None or digit.source.op != "axis" or scale != whole:
            return None
        axis, inner, radix = digit
        size = t.int_value(axis.args[0])
        outer = size if radix is None else inner * radix
        if not size or outer is None or outer % inner or size % outer:
            return None
        found.insert(0, _Part(axis, inner, outer))
        whole *= outer // inner
    return found if found and same_dim(whole, extent) else None


def _boundary(labels: Sequence[_Label], place: int) -> bool:
    """Cut labels so that some of the innermost ones are digits of exactly the numbers below `place`, if possible."""
    size = 1
    for x in reversed(_resolved(labels)):
        if size == place:
            return True
        if not isinstance(x.extent, int):
            return False
        if size * x.extent > place:
            return place % size == 0 and _cut(x, place // size)
        size *= x.extent
    return size == place


def _digit(labels: _Product, part: _Part) -> _Product | None:
    """The labels of a digit of an axis with these labels."""
    if part.outer is None:
        return labels
    if not _boundary(labels, part.inner) or not _boundary(labels, part.outer):
        return None
    result: _Product = []
    size = 1
    for x in reversed(_resolved(labels)):
        assert isinstance(x.extent, int)
        if part.inner <= size < part.outer:
            result.insert(0, x)
        size *= x.extent
    return result


class _Formula:
    """The axes of one Compute or View, their labels made one with those of what it loads."""

    def __init__(self, node: Compute | View, sources: Sequence[Sequence[_Product]]) -> None:
        self.node, self.sources = node, sources
        shape: Shape = node.outputs[0][0]
        outer, inner = output_axes(shape), reduce_axes(node.reduce if isinstance(node, Compute) else ())
        self.labels = {a: _product(t.int_value(a.args[0]) or a.args[0]) for a in (*outer, *inner)}
        self.output = [self.labels[a] for a in outer]
        self._read(_terms(node))
        in_order = isinstance(node, Compute) and node.ordered and is_float(node.body.dtype)
        for x in _resolved([x for a in inner for x in self.labels[a]]):
            x.fixed, x.reduced = x.fixed or in_order, True

    def _read(self, terms: Sequence[Term]) -> None:
        """Follow all terms: what an axis means outside of an index that is a digit is its own."""
        units = {a: t.index_const(0) for a, labels in self.labels.items() if not labels}
        seen: set[Term] = set()
        stack = [substitute(x, units) for x in terms]
        while stack:
            x = stack.pop()
            if x in seen:
                continue
            seen.add(x)
            if x.op == "axis":
                _fix(self.labels[x])
            elif x.op == "load" and isinstance(x.payload, int):
                shape = self.node.operands[x.payload].shape
                for index, extent, source in zip(x.args, shape, self.sources[x.payload], strict=True):
                    if not self._index(index, extent, source):
                        stack.append(index)
            else:
                stack.extend(x.args)

    def _index(self, index: Term, extent: Dim, source: _Product) -> bool:
        """Make a loaded axis one with what indexes it; False where the index is no number of digits."""
        parts = _parts(index, extent)
        digits = None if parts is None else [_digit(self.labels[p.axis], p) for p in parts]
        if digits is not None and all(d is not None for d in digits):
            _unite([x for d in digits for x in d or ()], source)
            return True
        _fix(source)
        axes = nodes_of("axis", index)
        if len(axes) == 1 and axes[0].args[0] is t.as_index(extent):
            _unite(self.labels[axes[0]], source)  # position by position, in an order that counts
        return False


def _terms(node: Compute | View) -> list[Term]:
    if isinstance(node, Compute):
        return [node.body]
    load = t.load(0, node.gather, node.source.dtype)
    return [load] if node.fill is None else [load, node.valid, node.fill]


def signature_of(operands: Sequence[Tensor], outputs: Sequence[Tensor]) -> Signature:
    """The signature of an operator by the formulas of its outputs over its operands, which are inputs.

    >>> from eqsat.ir.tensors.reductions import contract, reduce
    >>> from eqsat.ir.tensors.tensor import Tag, input
    >>> a, b = input("a", (2, 3), "float32"), input("b", (3, 4), "float32")
    >>> made = signature_of([a, b], [contract("ij,jk->ik", a, b, Tag("mm"))])
    >>> str(made), made.role("a0"), made.role("a1")
    ('a0 a1, a1 a2 -> a0 a2', 'map', 'reduce')
    """
    table: dict[tuple[int, int], list[_Product]] = {}
    for node in node_order(outputs):
        if isinstance(node, (Compute, View)):
            made = [_Formula(node, [table[x.key] for x in node.operands]).output]
        else:  # each position of a constant, and of what has no formula, is its own
            loose = not isinstance(node, Input)
            made = [[_product(d, loose) for d in shape] for shape, _ in node.outputs]
            _fix([x for k in node.operands for labels in table[k.key] for x in labels])
        table.update({(node.serial, n): products for n, products in enumerate(made)})
    for x in operands:
        table.setdefault(x.key, [_product(d) for d in x.shape])
    return _signature([table[x.key] for x in operands], [table[y.key] for y in outputs])


def _signature(operands: Sequence[Sequence[_Product]], outputs: Sequence[Sequence[_Product]]) -> Signature:
    """Labels by name; what no shape determines, and what indexes one tensor twice, is fixed."""
    sides = [[[_resolved(d) for d in dims] for dims in side] for side in (operands, outputs)]
    tensors = [*sides[0], *sides[1]]
    known = {d[0] for dims in tensors for d in dims if len(d) == 1}
    loose: dict[tuple[_Label, ...], _Label] = {}
    for dims in tensors:
        used: set[_Label] = set()
        for n, d in enumerate(dims):
            unknown = [x for x in d if x not in known]
            if used & {*d}:
                _fix(d)
                dims[n] = [_Label(0, True)]
            elif len(d) > 1 and (len(unknown) > 1 or all(x.fixed for x in d)):
                _fix(d)
                dims[n] = [loose.setdefault(tuple(d), _Label(0, True))]
            used |= {*d, *dims[n]}
            known |= {*dims[n]}
    written = {x for dims in sides[1] for d in dims for x in d}
    names: dict[_Label, str] = {}
    roles: dict[str, str] = {}
    for x in (x for dims in tensors for d in dims for x in d):
        name = names.setdefault(x, f"a{len(names)}")
        if not x.fixed and (x.reduced or x in written):
            roles[name] = "map" if not x.reduced else "equivariant" if x in written else "reduce"
    spelled: list[tuple[Dims, ...]] = [
        tuple(tuple(tuple(names[x] for x in d) for d in dims) for dims in side) for side in sides
    ]
    return Signature(spelled[0], spelled[1], roles)
