"""From a fused body to moves: the output box is cut and split until every access is affine, pads stay as boxes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod

from eqsat.backends.lowering.index_simplifier import IndexSimplifier, nonnegative_form
from eqsat.backends.lowering.moves import Access, Box, Move, normalise, operand
from eqsat.backends.lowering.split import Nest, Policy, ceil_div, extent_of
from eqsat.backends.lowering.xor import digits_of_xor, narrow_axis
from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, linear_parts
from eqsat.ir.terms.walk import conjuncts, free_variables, nodes_of, postorder, substitute, transform

MAX_MOVES = 24
"""Bodies that fall into more pieces are left to the general loop nest."""

Axes = tuple[Term, ...]


class NotAffine(Exception):
    """The body is no small union of moves."""


class Extractor:
    """Finds the moves of one element-wise body. `sizes` gives the elements of every buffer."""

    def __init__(self, name: str, dtype: str, sizes: Mapping[str, int], simplifier: IndexSimplifier) -> None:
        self.name = name
        self.dtype = dtype
        self.sizes = sizes
        self.simplifier = simplifier
        self.nest = Nest(simplifier, Policy(), {}, 2)
        self.moves: list[Move] = []

    def run(self, axes: Axes, body: Term, index: Term) -> None:
        """Add the moves of a body stored at an index, over a box of axes."""
        roots = (body, index)
        for axis in axes:
            if extent_of(axis) == 1:
                roots = self.nest.put(roots, axis, t.index_const(0))
        axes = tuple(a for a in axes if extent_of(a) > 1)
        roots = self.simplifier.simplify_all(digits_of_xor(r, self.simplifier) for r in roots)
        questions = [self.nest.division(axis, roots) for axis in axes]
        for k, (step, cuts) in enumerate(questions):
            if step and not cuts:
                extent = extent_of(axes[k])
                high, low = self.nest.fresh(axes[k], extent // step), self.nest.fresh(axes[k], step)
                roots = self.nest.put(roots, axes[k], step * high + low)
                return self.run((*axes[:k], high, low, *axes[k + 1 :]), *roots)
        for k, (_, cuts) in enumerate(questions):
            if cuts:
                return self.cut(axes, k, cuts, roots)
        narrow = narrow_axis(roots, axes)
        if narrow is not None:
            return self.cut(axes, narrow, set(range(1, extent_of(axes[narrow]))), roots)
        boxed = self.boxed(axes, roots[0])
        if boxed is not None:
            return self.leaf(axes, *boxed, roots[1])
        for k, axis in enumerate(axes):
            cuts = self.nest.sign_cuts(axis, roots)
            if cuts:
                return self.cut(axes, k, cuts, roots)
        raise NotAffine

    def cut(self, axes: Axes, k: int, cuts: set[int], roots: tuple[Term, ...]) -> None:
        """One run for each piece of an axis."""
        points = [0, *sorted(cuts), extent_of(axes[k])]
        if len(self.moves) + len(points) > MAX_MOVES:
            raise NotAffine
        for start, stop in pairwise(points):
            piece = self.nest.fresh(axes[k], stop - start)
            self.run((*axes[:k], piece, *axes[k + 1 :]), *self.nest.put(roots, axes[k], start + piece))

    def boxed(self, axes: Axes, body: Term) -> tuple[Term, Term | None, Box] | None:
        """The body inside of a box, the fill outside of it, and the box; None where conditions ask for a cut."""
        whole = tuple((0, extent_of(a)) for a in axes)
        conditions = {n.args[0]: None for n in nodes_of("where", body) if self.positional(n.args[0])}
        if not conditions:
            return body, None, whole
        if len(conditions) > 1:
            return None
        (condition,) = conditions
        inside = self.simplifier.simplify(substitute(body, {condition: t.TRUE}))
        outside = self.simplifier.simplify(substitute(body, {condition: t.FALSE}))
        if nodes_of("load", inside) and not nodes_of("load", outside) and not free_variables(outside):
            outside = t.const(outside.evaluate({}), outside.dtype)
            box = self.box_of(axes, condition)
            return None if box is None else (inside, outside, box)
        return None

    @staticmethod
    def positional(condition: Term) -> bool:
        """Whether a condition is about positions alone."""
        return not nodes_of("load", condition)

    def box_of(self, axes: Axes, condition: Term) -> Box | None:
        """The box in which a conjunction of bounds on single axes holds."""
        box = {a: (0, extent_of(a)) for a in axes}
        for part in conjuncts(condition):
            form = nonnegative_form(part)
            constant, terms = linear_parts(form) if form is not None else (0, ())
            if len(terms) != 1 or terms[0][1] not in box:
                return None
            k, axis = terms[0]
            low, high = box[axis]
            if k > 0:
                box[axis] = (max(low, ceil_div(-constant, k)), high)
            else:
                box[axis] = (low, min(high, constant // -k + 1))
        return tuple((low, max(low, high)) for low, high in box.values())

    def leaf(self, axes: Axes, inside: Term, outside: Term | None, box: Box, index: Term) -> None:
        """One move, if its accesses are affine and in range."""
        operands: list[Access] = []

        def change(node: Term) -> Term | None:
            if node.op != "load":
                return None
            if not isinstance(node.payload, str):
                raise NotAffine
            access = self.access(node.payload, node.dtype, node.args[0], axes)
            if access not in operands:
                operands.append(access)
            return operand(operands.index(access), node.dtype)

        if any(n.dtype == INDEX and n.op == "load" for n in postorder(inside)):
            raise NotAffine
        body = transform(inside, change)
        if free_variables(body):
            raise NotAffine
        if not operands:
            body = t.const(body.evaluate({}), body.dtype)
        out = self.access(self.name, self.dtype, index, axes)
        move = Move(tuple(extent_of(a) for a in axes), box, out, tuple(operands), body, outside)
        if all(low < high for low, high in box):
            for a in operands:
                least, most = a.span(box)
                if least < 0 or most >= self.sizes[a.buffer]:
                    raise NotAffine
        least, most = out.span(move.whole)
        assert least >= 0 and most < self.sizes[out.buffer]
        self.moves.append(normalise(move))

    def access(self, buffer: str, dtype: str, index: Term, axes: Axes) -> Access:
        """An affine index as offset and strides."""
        constant, parts = linear_parts(index)
        strides = dict((u, k) for k, u in parts)
        if not strides.keys() <= set(axes):
            raise NotAffine
        return Access(buffer, dtype, constant, tuple(strides.get(a, 0) for a in axes))


def find_moves(
    name: str, dtype: str, axes: Axes, body: Term, index: Term, sizes: Mapping[str, int], simplifier: IndexSimplifier
) -> tuple[Move, ...] | None:
    """The moves that fill a buffer from an element-wise body with flat loads; None for other bodies."""
    if not prod(extent_of(a) for a in axes):
        return None
    work = Extractor(name, dtype, sizes, simplifier)
    try:
        work.run(axes, body, index)
    except NotAffine:
        return None
    return tuple(work.moves)
