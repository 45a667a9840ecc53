"""What a user or a package tells of operators: the signature of one that eqsat does not define, and pad values to try.

Neither acts unless it is given in `rules=`. A signature cannot be proved, for nobody knows what the operator computes:
it is an assumption, and a result that follows from it lists it. A pad value is only tried: it acts where the operator
takes it to the wanted value, bit by bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from eqsat.ir.errors import ParseError, ShapeError
from eqsat.ir.keywords import keywords
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.terms.shape import Dim, Shape, same_dim

REST = "..."


@dataclass(frozen=True)
class KnownOperator:
    """The signature of an operator by its name, for operands of all ranks that it fits; made by `eq.operator`."""

    name: str
    text: str
    roles: Mapping[str, str] = field(default_factory=dict[str, str])
    doc: str = ""

    def __hash__(self) -> int:
        return hash((self.name, self.text))

    def __str__(self) -> str:
        found = {role: " ".join(x for x, r in self.roles.items() if r == role) for role in self.roles.values()}
        return f"{self.name}: {self.text}" + "".join(f", {role} {names}" for role, names in found.items())

    @property
    def assumption(self) -> str:
        """What a result relies on that follows from the signature."""
        return f"operator {self}, the same on the same operands, as it is declared"

    def signature(self, operands: Sequence[Shape], outputs: Sequence[Shape] | None = None) -> Signature:
        """The signature for operands of these shapes; an axis of extent 1 that broadcasts has no label.

        >>> print(operator("my:scale", "... c, c -> ... c", map="... c").signature([(2, 3, 4), (4,)], [(2, 3, 4)]))
        x0 x1 c, c -> x0 x1 c

        Errors: ShapeError where the shapes do not fit.
        """
        left, right = self.text.split("->")
        parts, ends = _parts(left), _parts(right)
        if len(parts) != len(operands) or (outputs is not None and len(ends) != len(outputs)):
            count = f"{len(operands)} operands" + ("" if outputs is None else f" and {len(outputs)} outputs")
            raise ShapeError(f"operator {self}", f"does not fit {count}")
        ranks = [len(s) - len([x for x in _tokens(p) if x != REST]) for p, s in zip(parts, operands, strict=True)]
        rest = max((n for p, n in zip(parts, ranks, strict=True) if REST in _tokens(p)), default=0)
        spread = [f"x{n}" for n in range(max(rest, 0))]
        sides = [_spread(p, spread[len(spread) - n :] if n > 0 else []) for p, n in zip(parts, ranks, strict=True)]
        text = f"{', '.join(sides)} -> {', '.join(_spread(p, spread) for p in ends)}"
        whole = Signature.parse(text)
        shapes = [*operands, *(outputs or ())]
        dims = _broadcast([*whole.operands, *(whole.outputs if outputs is not None else ())], shapes)
        count = len(operands)
        ends_dims = dims[count:] if outputs is not None else whole.outputs
        made = Signature(tuple(dims[:count]), tuple(ends_dims), self._kept(dims[:count], ends_dims, spread))
        if outputs is not None:
            made.check(operands, outputs, f"operator {self.name}")
        return made

    def _kept(self, read: Sequence[Dims], written: Sequence[Dims], rest: Sequence[str]) -> dict[str, str]:
        """The roles of labels that have an axis here."""
        every = {x: role for y, role in self.roles.items() for x in (rest if y == REST else [y])}
        reads, writes = ({x for dims in side for d in dims for x in d} for side in (read, written))
        return {x: r for x, r in every.items() if (x in reads - writes if r == "reduce" else x in writes)}

    def shapes(self, operands: Sequence[Shape]) -> list[Shape] | None:
        """The shapes of the outputs, where those of the operands determine them.

        >>> operator("my:scale", "... c, c -> ... c", map="... c").shapes([(2, 3, 4), (4,)])
        [(2, 3, 4)]
        """
        found = self.signature(operands)
        known: dict[str, Dim] = {}
        for dims, shape in zip(found.operands, operands, strict=True):
            for labels, extent in zip(dims, shape, strict=True):
                if len(labels) == 1:
                    known.setdefault(labels[0], extent)
        if any(len(d) > 1 or any(x not in known for x in d) for dims in found.outputs for d in dims):
            return None
        return [tuple(known[d[0]] if d else 1 for d in dims) for dims in found.outputs]


@dataclass(frozen=True)
class PadValue:
    """Numbers worth trying as the padding of an operand; made by `eq.pad_value`."""

    name: str
    numbers: tuple[float, ...]
    doc: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {', '.join(f'{n:g}' for n in self.numbers)}"


@keywords
def operator(
    name: str, signature: str, *, map: str = "", equivariant: str = "", reduce: str = "", doc: str = ""
) -> KnownOperator:
    """Tell what may be done to the axes of an operator that eqsat does not define.

    >>> print(operator("com.acme::FusedGelu", "... -> ...", map="..."))
    com.acme::FusedGelu: ... -> ..., map ...

    name: that of `eq.opaque`, or `DOMAIN::NAME` of an ONNX operator. signature: as of `eq.Signature.parse`; `...`
    stands for any number of axes, which operands share from the right, as in numpy. map, equivariant, reduce: labels
    with these roles, `...` among them; all others are fixed. Give it in `rules=`; what it says is taken on trust, and
    listed in `r.assumptions`.

    Raises ParseError and ShapeError for what is no signature.
    """
    sides = signature.split("->")
    if not name or len(sides) != 2:
        raise ParseError(f"operator {name!r}: {signature!r}", "needs a name, and one '->'", "'... -> ...'")
    roles: dict[str, str] = {}
    for role, names in (("map", map), ("equivariant", equivariant), ("reduce", reduce)):
        for label in names.split():
            if roles.setdefault(label, role) != role:
                raise ParseError(f"operator {name!r}", f"{label} is both {roles[label]} and {role}")
    if REST in roles and roles[REST] != "map":
        raise ParseError(f"operator {name!r}", f"... cannot be {roles[REST]}", "name the axes")
    if any(_tokens(p).count(REST) > 1 for p in (*_parts(sides[0]), *_parts(sides[1]))):
        raise ParseError(f"operator {name!r}", "an operand has '...' twice")
    plain = Signature.parse(signature.replace(REST, "rest_"), **_listed(roles))
    assert plain
    return KnownOperator(name, " ".join(signature.split()), roles, doc)


@keywords
def pad_value(name: str, *numbers: float, doc: str = "") -> PadValue:
    """Numbers to try where a padded result may come from a padded operand: f(pad(x, u)) = pad(f(x), f(u)).

    >>> print(pad_value("grey", 0.485, 0.456))
    grey: 0.485, 0.456

    The optimiser itself tries 0, 1, -1, the least and the greatest number, the wanted value, and the constants of the
    operator's formula. Each is evaluated in the operator's type, so a wrong one never acts.

    Raises ParseError where no number is given.
    """
    if not numbers:
        raise ParseError(f"pad value {name!r}", "has no number", "eq.pad_value('grey', 0.5)")
    return PadValue(name, tuple(float(n) for n in numbers), doc)


def _listed(roles: Mapping[str, str]) -> dict[str, str]:
    names = {x: "rest_" if x == REST else x for x in roles}
    return {role: " ".join(names[x] for x, r in roles.items() if r == role) for role in set(roles.values())}


def _parts(side: str) -> list[str]:
    return side.split(",") if side.strip() else []


def _tokens(part: str) -> list[str]:
    """The dimensions of an operand: labels, products in brackets, `1` and `...`; `()` alone is a scalar."""
    found: list[str] = []
    depth = 0
    for word in part.replace("(", " ( ").replace(")", " ) ").split():
        if word == ")":
            depth -= 1
        elif word == "(":
            depth += 1
            found.append("()")
        elif not depth:
            found.append(word)
    return [] if part.split() in (["()"], ["(", ")"]) else found


def _spread(part: str, labels: Sequence[str]) -> str:
    """The text of an operand with its `...` written out."""
    return part.replace(REST, f" {' '.join(labels)} ").strip() or "()"


def _broadcast(sides: Sequence[Dims], shapes: Sequence[Shape]) -> list[Dims]:
    """The dimensions without labels where an extent of 1 stands for another."""
    known: dict[str, Dim] = {}
    for dims, shape in zip(sides, shapes, strict=True):
        if len(dims) != len(shape):
            raise ShapeError("signature", f"{len(dims)} axes for rank {len(shape)}")
        for labels, extent in zip(dims, shape, strict=True):
            if len(labels) == 1 and (labels[0] not in known or same_dim(known[labels[0]], 1)):
                known[labels[0]] = extent

    def kept(labels: tuple[str, ...], extent: Dim) -> tuple[str, ...]:
        alone = len(labels) == 1 and same_dim(extent, 1) and not same_dim(known[labels[0]], 1)
        return () if alone else labels

    return [tuple(kept(d, e) for d, e in zip(dims, s, strict=True)) for dims, s in zip(sides, shapes, strict=True)]
