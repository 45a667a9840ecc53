"""Operators without a formula over parts of their operands: along which bundles they may be cut, and what that makes.

    conv(x, w)[:, 0:8] = conv(x, w[0:8])                      # along output channels, where there is one group

An operator may be cut along what it computes position by position, if its table has it over smaller operands, too: with
the same parameters, or with one that counts these positions (the groups of a convolution), if both have one formula.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from eqsat.ir.errors import EqsatError
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import Size, at_most, div, mul, product
from eqsat.ir.tensors.library import operator_node
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Opaque, OperatorImpl, Tensor, input
from eqsat.ir.terms.shape import Shape, same_shape
from eqsat.operators.alike import same_formula
from eqsat.operators.bundles import signature_bundles
from eqsat.operators.labels import Label, Name


def made_anew(
    node: Opaque,
    operands: Sequence[Tensor],
    outputs: Sequence[tuple[Shape, str]],
    attrs: Mapping[str, object],
    signature: Signature,
) -> Opaque | None:
    """The operator of a node over other operands, with other parameters, if its table has it with this signature; a
    parameter that is the number of positions of a label may be what that is now."""
    made = _made(node, operands, outputs, attrs, signature)
    return made if made is not None else _counted(node, operands, outputs, attrs, signature)


def _counted(
    node: Opaque,
    operands: Sequence[Tensor],
    outputs: Sequence[tuple[Shape, str]],
    attrs: Mapping[str, object],
    signature: Signature,
) -> Opaque | None:
    """The operator with another number for one parameter, if that makes no other formula."""
    try:
        old = signature.check([x.shape for x in node.operands], [s for s, _ in node.outputs], node.op)
        new = signature.check([x.shape for x in operands], [s for s, _ in outputs], node.op)
    except EqsatError:
        return None  # labels of another spelling
    for name, number in attrs.items():
        if type(number) is not int or number < 2:
            continue
        counts = {n for x, d in old.items() if isinstance(d, int) and d == number and isinstance(n := new[x], int)}
        for count in sorted(counts - {number}):
            made = _made(node, operands, outputs, {**attrs, name: count}, signature)
            if made is not None and same_formula(node, made):
                return made
    return None


def _made(
    node: Opaque,
    operands: Sequence[Tensor],
    outputs: Sequence[tuple[Shape, str]],
    attrs: Mapping[str, object],
    signature: Signature,
) -> Opaque | None:
    try:
        if isinstance(node.impl, OperatorImpl):
            made = node.impl.with_attrs(node, operands, outputs, attrs)
        elif node.definition is not None:
            made = operator_node(node.op, operands, attrs)
        else:
            made = Opaque(node.op, operands, outputs, attrs, signature, node.impl)
    except EqsatError:
        return None
    shapes = [*(x.shape for x in operands), *(s for s, _ in outputs)]
    if [d for _, d in made.outputs] != [d for _, d in outputs]:
        return None
    if node.definition is not None and made.definition is None:
        return None  # a use that no formula covers
    if not all(same_shape(a, b) for (a, _), (b, _) in zip(made.outputs, outputs, strict=True)):
        return None
    return made if made.signature is not None and made.signature.matches(signature, shapes) else None


def shapes_in_place(node: Opaque, labels: Iterable[Label]) -> list[Shape] | None:
    """The shapes of operands, then outputs, in the dimensions of a node whose bundles have other labels; None where
    that is no number of positions for each dimension.

    A bundle of several dimensions is cut along the first of them that comes out even: they are computed alike.
    """
    signature, old, bundles = signature_bundles(node)
    sizes: dict[Name, Size] = {}
    for x in labels:
        sizes[x.name] = mul(sizes.get(x.name, 1), x.extent)
    extents = {x: as_size(d) for x, d in old.items()}
    for name in dict.fromkeys(bundles.values()):
        own = [x for x in extents if bundles.get(x) == name]
        wanted = sizes.get(name, 1)
        if product(extents[x] for x in own) == wanted:
            continue
        new = [div(wanted, product(extents[y] for y in own if y != x)) for x in own]
        first = next((n for n, e in enumerate(new) if e is not None and at_most(e, extents[own[n]])), None)
        cut = None if first is None else new[first]
        if first is None or cut is None:
            return None
        extents[own[first]] = cut
    return _shapes(signature, extents)


def _shapes(signature: Signature, extents: Mapping[str, Size]) -> list[Shape]:
    sides = (*signature.operands, *signature.outputs)
    return [tuple(as_extent(product(extents[x] for x in d)) for d in dims) for dims in sides]


def cut_bundles(node: Opaque) -> frozenset[Name]:
    """The bundles along which an operator may be cut.

    >>> import eqsat as eq
    >>> from eqsat.ir.tensors.library import operator
    >>> x = eq.input("x", (4, 6), "float32")
    >>> sorted(cut_bundles(operator("softmax", [x], {"axis": 1})[0].node))
    ['b0']
    """
    known = isinstance(node.impl, OperatorImpl) or node.definition is not None
    if not known or node.signature is None or not node.pure or len(node.outputs) != 1:
        return frozenset()
    signature, extents, bundles = signature_bundles(node)
    sizes = {label: as_size(d) for label, d in extents.items()}
    whole = {
        bundle
        for x, bundle in bundles.items()
        if signature.role(x) != "map" or not may_shrink(node, signature, sizes, x)
    }
    return frozenset[Name](bundles.values()) - whole


def may_shrink(node: Opaque, signature: Signature, extents: Mapping[str, Size], x: str) -> bool:
    """Whether the table has an operator with fewer positions of a label."""
    extent = extents[x]
    if not isinstance(extent, int) or extent == 0:
        return False
    return all(_has(node, signature, {**extents, x: fewer}) for fewer in {extent - 1, -(-extent // 2)})


def _has(node: Opaque, signature: Signature, extents: Mapping[str, Size]) -> bool:
    """Whether the table has an operator over other extents of its labels."""
    shapes, count = _shapes(signature, extents), len(node.operands)
    operands = [
        x if same_shape(x.shape, s) else input(f"operand{n}", s, x.dtype)
        for n, (x, s) in enumerate(zip(node.operands, shapes[:count], strict=True))
    ]
    outputs = [(s, d) for s, (_, d) in zip(shapes[count:], node.outputs, strict=True)]
    return made_anew(node, operands, outputs, node.attrs, signature) is not None
