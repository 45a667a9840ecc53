"""Signatures of operators without a formula: which axes of operands and outputs are one, and what may be done to it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eqsat.ir.errors import ParseError, ShapeError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, format_dims, format_shape, one_symbol, same_dim
from eqsat.ir.terms.term import Term

ROLES = ("map", "equivariant", "reduce", "fixed")
Dims = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Signature:
    """Axis labels per operand and output, and a role per label.

    Roles: `map` (every position computed alike and independently: may be permuted, split, merged), `equivariant`
    (permuting its positions permutes the result, as the axis of a softmax: it stays one axis), `reduce` (read in any
    order, absent from the outputs), `fixed` (stays as it is). A dimension may be a product of labels, most significant
    first: `(g c)`.

    >>> s = Signature.parse("n c h w, o c kh kw -> n o y x", map="n o", reduce="c")
    >>> s.role("n"), s.role("h")
    ('map', 'fixed')
    """

    operands: tuple[Dims, ...]
    outputs: tuple[Dims, ...]
    roles: Mapping[str, str] = field(default_factory=dict[str, str])

    def __post_init__(self) -> None:
        what = f"signature {self}"
        read, written = _labels(self.operands), _labels(self.outputs)
        for label, role in self.roles.items():
            if role not in ROLES:
                raise ShapeError(what, f"role {role!r} of {label}", f"one of {', '.join(ROLES)}")
            if label not in read | written:
                raise ShapeError(what, f"label {label!r} has a role but no axis")
            if role == "reduce" and label in written:
                raise ShapeError(what, f"the reduce axis {label} is an axis of an output")
            if role in ("map", "equivariant") and label not in written:
                raise ShapeError(what, f"the {role} axis {label} is no axis of an output", "is it a reduce axis?")
        for dims in (*self.operands, *self.outputs):
            flat = [x for d in dims for x in d]
            if len(set(flat)) != len(flat):
                raise ShapeError(what, f"a label repeats in {_format(dims)}", "give each axis its own label")
        object.__setattr__(self, "roles", {x: role for x, role in self.roles.items() if role != "fixed"})

    def __hash__(self) -> int:
        return hash((self.operands, self.outputs, frozenset(self.roles.items())))

    def role(self, label: str) -> str:
        """The role of a label; fixed unless said otherwise.

        >>> s = Signature.parse("n k, k m -> n m", map="n m", reduce="k")
        >>> s.role("k"), s.role("n")
        ('reduce', 'map')
        """
        return self.roles.get(label, "fixed")

    @staticmethod
    def parse(text: str, map: str = "", equivariant: str = "", reduce: str = "") -> Signature:
        """Read `operand, operand -> output, output`: labels between blanks, products in brackets.

        `1` is an axis of extent 1, `()` alone is a scalar. `map`, `equivariant`, `reduce` list labels of these roles.
        Raises ParseError for other text, ShapeError for roles that no axis can have.

        >>> print(Signature.parse("n c h w -> n (c h w)", map="n c h w"))
        n c h w -> n (c h w)
        """
        sides = text.split("->")
        if len(sides) != 2:
            raise ParseError(f"signature {text!r}", "needs exactly one '->'")
        left = tuple(_dims(part, text) for part in sides[0].split(",")) if sides[0].strip() else ()
        right = tuple(_dims(part, text) for part in sides[1].split(","))
        roles: dict[str, str] = {}
        for role, names in (("map", map), ("equivariant", equivariant), ("reduce", reduce)):
            for label in names.split():
                if roles.setdefault(label, role) != role:
                    raise ParseError(f"signature {text!r}", f"{label} is both {roles[label]} and {role}")
        return Signature(left, right, roles)

    def check(self, operands: Sequence[Shape], outputs: Sequence[Shape], op: str) -> dict[str, Dim]:
        """The extent of every label; an error where the signature does not fit the shapes.

        >>> Signature.parse("n k, k m -> n m").check([(2, 3), (3, 4)], [(2, 4)], "matmul")
        {'n': 2, 'k': 3, 'm': 4}
        """
        extents: dict[str, Dim] = {}
        groups = (*zip(self.operands, operands, strict=False), *zip(self.outputs, outputs, strict=False))
        if len(self.operands) != len(operands) or len(self.outputs) != len(outputs):
            raise ShapeError(f"{op} with signature {self}", f"{len(operands)} operands and {len(outputs)} outputs")
        for dims, shape in groups:
            if len(dims) != len(shape):
                problem = f"{_format(dims)} does not fit shape {format_shape(shape)}"
                raise ShapeError(f"{op} with signature {self}", problem)
            for labels, extent in zip(dims, shape, strict=True):
                if len(labels) == 1:
                    known = extents.setdefault(labels[0], extent)
                    if not same_dim(known, extent):
                        one, other = format_dims(*operands, *outputs, dims=(known, extent))
                        what, fix = f"{op} with signature {self}", one_symbol(*operands, *outputs)
                        raise ShapeError(what, f"{labels[0]} is both {one} and {other}", fix)
        for dims, shape in groups:
            for labels, extent in zip(dims, shape, strict=True):
                if len(labels) != 1:
                    _solve(labels, extent, extents, f"{op} with signature {self}")
        return extents

    def matches(self, other: Signature, shapes: Sequence[Shape]) -> bool:
        """Whether two signatures of operands and outputs of these shapes are one up to the names of their labels, those
        of extent 1 left out.

        >>> a, b = (Signature.parse(x, map=x[0]) for x in ("n k -> n", "m k -> m"))
        >>> a.matches(b, [(2, 3), (2,)]), a.matches(Signature.parse("n k -> n"), [(2, 3), (2,)])
        (True, False)
        """
        names: dict[str, str] = {}
        back: dict[str, str] = {}
        mine, theirs = ((*s.operands, *s.outputs) for s in (self, other))
        if [len(d) for d in mine] != [len(d) for d in theirs]:
            return False
        for dims, own, shape in zip(mine, theirs, shapes, strict=True):
            for d, e, extent in zip(dims, own, shape, strict=True):
                if same_dim(extent, 1):
                    continue
                if len(d) != len(e):
                    return False
                for x, y in zip(d, e, strict=True):
                    if names.setdefault(x, y) != y or back.setdefault(y, x) != x or self.role(x) != other.role(y):
                        return False
        return True

    def __str__(self) -> str:
        left = ", ".join(_format(d) for d in self.operands)
        return f"{left} -> {', '.join(_format(d) for d in self.outputs)}"


def _labels(groups: Sequence[Dims]) -> set[str]:
    return {x for dims in groups for d in dims for x in d}


def _solve(labels: tuple[str, ...], extent: Dim, extents: dict[str, Dim], what: str) -> None:
    """Check a product dimension; at most one of its labels may still be unknown, which is then computed."""
    unknown = [x for x in labels if x not in extents]
    known: list[Term] = [t.as_index(extents[x]) for x in labels if x in extents]
    done = t.product(known) if known else t.index_const(1)
    if len(unknown) > 1:
        raise ShapeError(what, f"the extents of {' and '.join(unknown)} are not determined")
    if not unknown:
        if not same_dim(done, extent):
            raise ShapeError(what, f"({' '.join(labels)}) is {done}, the dimension is {extent}")
        return
    whole, part = t.int_value(t.as_index(extent)), t.int_value(done)
    if whole is None or not part or whole % part:
        raise ShapeError(what, f"({' '.join(labels)}) of extent {extent} does not divide by {done}")
    extents[unknown[0]] = whole // part


def _dims(part: str, text: str) -> Dims:
    if part.split() == ["()"]:
        return ()
    tokens = re.findall(r"\(|\)|[A-Za-z_][A-Za-z0-9_]*|1|\S", part)
    dims: list[tuple[str, ...]] = []
    group: list[str] | None = None
    for token in tokens:
        if token == "(" and group is None:
            group = []
        elif token == ")" and group:
            dims.append(tuple(group))
            group = None
        elif token == "1" and group is None:
            dims.append(())
        elif re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", token):
            if group is None:
                dims.append((token,))
            else:
                group.append(token)
        else:
            raise ParseError(f"signature {text!r}", f"unexpected {token!r}")
    if group is not None:
        raise ParseError(f"signature {text!r}", "a bracket is not closed")
    return tuple(dims)


def _format(dims: Dims) -> str:
    return " ".join(d[0] if len(d) == 1 else ("1" if not d else f"({' '.join(d)})") for d in dims) or "()"
