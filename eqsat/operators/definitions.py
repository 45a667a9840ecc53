"""Operators without a formula by what they are defined as, at every number of positions that some of their axes may
have: what says which of these positions they do without.

    sqrt(sum over r0 < S of x[i0, r0] * x[i0, r0])      a norm along an axis of S positions, of any number of rows
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.flat.sizes import Size, product
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, Tensor, View, input, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads, nodes_of, symbols
from eqsat.operators.bundles import signature_bundles
from eqsat.operators.cuts import may_shrink
from eqsat.operators.labels import CanonicalOp, Name
from eqsat.operators.within import labels_by_name

MOST_ROUNDS = 3
OUTPUT = "y"


@dataclass(frozen=True)
class Definition:
    """The one output of an operator, as a program over stand-ins of its operands.

    dims: for each operand, then the output, the bundle of each dimension ('': a unit). sizes: the extents of a bundle's
    dimensions; a symbol stands for any number of positions, from 1. reduced: the bundles of such a dimension that is
    combined in any order and may be shorter.
    """

    program: Program
    dims: tuple[tuple[Name, ...], ...]
    sizes: Mapping[Name, tuple[Dim, ...]]
    reduced: frozenset[Name]

    def numbers(self, operator: CanonicalOp) -> dict[Term, Size] | None:
        """What the symbols are for an operator of this kind; None where the definition is not of its size."""
        held = labels_by_name(operator)
        found: dict[Term, Size] = {}
        for name, sizes in self.sizes.items():
            size = operator.size(tuple(held.get(name, ())))
            free = [d for d in sizes if isinstance(d, Term) and d.op == "sym"]
            if len(free) == len(sizes):  # positions of a bundle are alike: its first dimension may have all of them
                found |= {d: size if n == 0 else 1 for n, d in enumerate(free)}
            elif free or product(as_size(d) for d in sizes) != size:
                return None
        return found


def definition_of(node: Opaque) -> Definition | None:
    """What an operator is defined as, at any number of some positions; None where nothing is known."""
    if node.definition is None or node.signature is None or not node.pure or len(node.outputs) != 1:
        return None
    signature, extents, bundles = signature_bundles(node)
    if any(len(d) > 1 for dims in (*signature.operands, *signature.outputs) for d in dims):
        return None
    sizes = {x: as_size(d) for x, d in extents.items()}
    reduced = {x for x in bundles if signature.role(x) == "reduce" and may_shrink(node, signature, sizes, x)}
    free = {x: t.sym(f"any{n}", 1) for n, x in enumerate(bundles) if x in reduced or signature.role(x) == "map"}
    for _ in range(MOST_ROUNDS):
        if any(isinstance(d, Term) and d.op != "sym" for x, d in extents.items() if x not in free):
            return None  # such an extent is no number of positions by itself
        made = _built(node, {**extents, **free})
        held = set[Term]() if made is None else _held(made.outputs[OUTPUT], set(free.values()))
        if made is not None and not held:
            dims = tuple(tuple(bundles.get(x, "") for d in side for x in d or ("",)) for side in _sides(node))
            named: dict[Name, tuple[Dim, ...]] = {}
            for x, name in bundles.items():
                named[name] = (*named.get(name, ()), free.get(x, extents[x]))
            kept = frozenset[Name](bundles[x] for x in reduced if x in free)
            return Definition(made, dims, named, kept) if free else None
        # A definition may need numbers: then those of positions that nothing is combined over, as of a 1 x 1 kernel.
        fewer = {x: s for x, s in free.items() if (x in reduced if made is None else s not in held)}
        if len(fewer) == len(free) or not fewer:
            return None
        free = fewer
    return None


def _sides(node: Opaque) -> tuple[tuple[tuple[str, ...], ...], ...]:
    assert node.signature is not None
    return *node.signature.operands, *node.signature.outputs


def _built(node: Opaque, extents: Mapping[str, Dim]) -> Program | None:
    """The definition over stand-ins of some extents."""
    shapes: list[Shape] = [tuple(extents[d[0]] if d else 1 for d in dims) for dims in _sides(node)]
    inputs = [input(f"x{k}", s, x.dtype) for k, (s, x) in enumerate(zip(shapes, node.operands, strict=False))]
    assert node.definition is not None
    try:
        made = node.definition(*inputs)
    except Exception:  # a user's formula, which may need its sizes as numbers: then it says nothing of other sizes
        return None
    output = made if isinstance(made, Tensor) else made[0]
    if not all(_is_formula(x) for x in node_order([output])):
        return None
    same = [as_size(d) for d in output.shape] == [as_size(d) for d in shapes[-1]]
    return Program(inputs, {OUTPUT: output}) if same and output.dtype == node.outputs[0][1] else None


def _is_formula(node: Node) -> bool:
    """Whether a node of a definition is one that can be unfolded: of numbers, only a single one."""
    return isinstance(node, (Input, View, Compute)) or (isinstance(node, Constant) and node.array.size == 1)


def _held(output: Tensor, free: Collection[Term]) -> set[Term]:
    """The symbols that a definition has for more than this: a dimension of so many positions is read position by
    position along one axis of a formula, which occurs nowhere else. Any other is part of what is computed."""
    held: set[Term] = set()
    for node in node_order([output]):
        if not isinstance(node, (View, Compute)):
            continue
        shape: Shape = (*node.outputs[0][0], *(node.reduce if isinstance(node, Compute) else ()))
        spans = [d for d in shape if isinstance(d, Term)]
        held |= {s for s in spans if sum(x is s for x in spans) > 1}
        reads, rest = _reads(node)
        rest += [d for d in spans if d not in free]
        for extent, at in reads:
            if not isinstance(extent, Term) or extent not in free:
                rest.append(at)
            elif at.op != "axis" or at.args[0] is not extent:
                held.add(extent)
        held |= {s for s in (*symbols(*rest), *(a.args[0] for a in nodes_of("axis", *rest))) if s in free}
    return held


def _reads(node: View | Compute) -> tuple[list[tuple[Dim, Term]], list[Term]]:
    """The extent of each dimension that a node reads and the index there, and all else that its formulas say."""
    if isinstance(node, View):
        rest = [node.valid, *(() if node.fill is None else (node.fill,))]
        return list(zip(node.source.shape, node.gather, strict=True)), rest
    body = map_loads(node.body, lambda x: t.load("cell", [], x.dtype) if isinstance(x.payload, int) else x)
    loads = [x for x in nodes_of("load", node.body) if isinstance(x.payload, int)]
    shapes = [node.operands[int(x.payload)].shape for x in loads]
    return [pair for x, shape in zip(loads, shapes, strict=True) for pair in zip(shape, x.args, strict=True)], [body]
