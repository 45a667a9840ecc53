"""einops patterns: "b c (h p) (w q) -> b (h w) (p q c)", axes by name, in groups that are merged or split."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from keyword import iskeyword

from eqsat.ir.errors import LayoutError, ParseError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, as_dim, format_shape, same_dim, size_term
from eqsat.ir.terms.term import Term

DOTS = "..."
Group = tuple[str, ...]
SPREAD: Group = ("*",)
"""An ellipsis outside of brackets: each of its axes stays one."""


@dataclass(frozen=True)
class Pattern:
    """The groups of both sides: each is an axis of the tensor, made of named parts, the outer one first."""

    text: str
    left: tuple[Group, ...]
    right: tuple[Group, ...]


def is_pattern(text: str) -> bool:
    """Whether a text is a pattern, not an index map: names stand apart by spaces, without commas or calls.

    >>> is_pattern("b c h w -> b h w c"), is_pattern("i, j -> j, i"), is_pattern("i -> abs(i)")
    (True, False, False)
    """
    if re.search(r"\w\(", text):
        return False
    sides = [side.replace("(", " ").replace(")", " ").split() for side in text.split("->")]
    if len(sides) != 2 or all(len(side) < 2 for side in sides):
        return False
    words = [w for side in sides for w in side]
    return all(w in ("1", DOTS) or (w.isidentifier() and not iskeyword(w)) for w in words)


def parse(text: str) -> Pattern:
    """The groups of a pattern; ParseError says what is wrong with it.

    >>> parse("b (h p) -> h b p").left
    (('b',), ('h', 'p'))
    """
    sides = text.split("->")
    if len(sides) != 2:
        raise ParseError(f"pattern {text!r}", "is not two sides and one '->'", 'for example "b c h w -> b h w c"')
    left, right = (_groups(side, text, dots=n == 1) for n, side in enumerate(sides))
    names = [[DOTS if g is SPREAD else n for g in side for n in g] for side in (left, right)]
    for side in names:
        twice = next((n for n in side if side.count(n) > 1), None)
        if twice is not None:
            raise ParseError(f"pattern {text!r}", f"{twice} stands twice on one side")
    lost = sorted(set(names[0]) ^ set(names[1]))
    if lost:
        raise ParseError(f"pattern {text!r}", f"{lost[0]} stands on one side only", "x.sum(axis) drops one")
    return Pattern(text, left, right)


def _groups(side: str, text: str, dots: bool) -> tuple[Group, ...]:
    """The groups of a side; `dots`: whether an ellipsis may stand in brackets."""
    groups: list[Group] = []
    inside: list[str] | None = None
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            if inside is not None:
                raise ParseError(f"pattern {text!r}", "brackets inside of brackets")
            inside = []
        elif word == ")":
            if inside is None:
                raise ParseError(f"pattern {text!r}", "brackets do not match")
            groups.append(tuple(inside))
            inside = None
        elif word == "1":
            if inside is None:
                groups.append(())
        elif word == DOTS or word.isidentifier():
            if inside is None:
                groups.append(SPREAD if word == DOTS else (word,))
            elif word == DOTS and not dots:
                raise ParseError(f"pattern {text!r}", "an ellipsis in brackets on the left")
            else:
                inside.append(word)
        else:
            raise ParseError(f"pattern {text!r}", f"{word!r} is no name", "names, 1, '...' and brackets")
    if inside is not None:
        raise ParseError(f"pattern {text!r}", "brackets do not match")
    return tuple(groups)


@dataclass(frozen=True)
class PatternOnShape:
    """A pattern on a shape: the parts of the source, their extents in the order of both sides, and the result's."""

    names: tuple[str, ...]
    extents: Mapping[str, Dim]
    order: tuple[int, ...]
    left: tuple[Group, ...]
    right: tuple[Group, ...]

    @property
    def parts(self) -> Shape:
        """The source with every group split."""
        return tuple(self.extents[n] for n in self.names)

    @property
    def shape(self) -> Shape:
        """The result."""
        return tuple(as_dim(size_term(tuple(self.extents[n] for n in g))) for g in self.right)


def on_shape(text: str, shape: Shape, sizes: Mapping[str, int]) -> PatternOnShape:
    """A pattern on a shape, with the sizes that the shape does not give.

    >>> on_shape("b (h p) -> b p h", (2, 12), {"p": 3}).shape
    (2, 3, 4)
    """
    pattern = parse(text)
    what = f"pattern {text!r} on {format_shape(shape)}"
    left, right = _spread(pattern, len(shape), what)
    known = {n for g in left for n in g}
    for name in sizes:
        if name not in known:
            raise LayoutError(
                what, f"the size of {name}, which is not in the pattern", f"one of {', '.join(sorted(known))}"
            )
    extents: dict[str, Dim] = {n: as_dim(v) for n, v in sizes.items()}
    for n, (group, extent) in enumerate(zip(left, shape, strict=True)):
        _fit(group, extent, extents, f"{what}: axis {n}")
    names = tuple(n for g in left for n in g)
    return PatternOnShape(names, extents, tuple(names.index(n) for g in right for n in g), left, right)


def _spread(pattern: Pattern, rank: int, what: str) -> tuple[tuple[Group, ...], tuple[Group, ...]]:
    """Both sides with the axes of the ellipsis by numbers."""
    fixed = sum(g is not SPREAD for g in pattern.left)
    dots = fixed != len(pattern.left)
    if rank < fixed or (not dots and rank != fixed):
        raise LayoutError(what, f"has {fixed} axes, not {rank}")
    own = [f"{DOTS}{n}" for n in range(rank - fixed)]

    def side(groups: Sequence[Group]) -> tuple[Group, ...]:
        found: list[Group] = []
        for group in groups:
            if group is SPREAD:
                found.extend((n,) for n in own)
            else:
                found.append(tuple(m for n in group for m in (own if n == DOTS else [n])))
        return tuple(found)

    return side(pattern.left), side(pattern.right)


def _fit(group: Group, extent: Dim, extents: dict[str, Dim], what: str) -> None:
    """The one extent of a group that is not known yet; all others must divide the axis."""
    open_ = [n for n in group if n not in extents]
    if len(open_) > 1:
        raise LayoutError(what, f"the sizes of {' and '.join(open_)} are open", f"{open_[0]}=...")
    known = size_term(tuple(extents[n] for n in group if n in extents))
    if not open_:
        if not same_dim(as_dim(known), extent):
            raise LayoutError(what, f"({' '.join(group)}) has {known} cells, the axis {extent}")
        return
    constant, parts = t.linear_parts(t.as_index(extent))
    number = t.int_value(known)
    if number is None or number < 1 or constant % number or any(c % number for c, _ in parts):
        raise LayoutError(what, f"{extent} is no multiple of {known}")
    extents[open_[0]] = as_dim(t.linear(constant // number, [(c // number, x) for c, x in parts]))


def pattern_map(text: str, shape: Shape, sizes: Mapping[str, int]) -> IndexMap:
    """The index map that a pattern is on a shape.

    >>> print(pattern_map("b (h p) -> b p h", (2, 12), {"p": 3}))
    b, hp -> b, hp % 3, hp // 3
    """
    found = on_shape(text, shape, sizes)
    names = _index_names(found.left)
    digits: dict[str, Term] = {}
    for group, name in zip(found.left, names, strict=True):
        digits |= _digits(group, t.var(name), found.extents)
    return IndexMap(names, tuple(_merged(group, digits, found.extents) for group in found.right))


def _index_names(groups: Sequence[Group]) -> tuple[str, ...]:
    """A name for each axis: of its parts together, or by its number where those make none."""
    made = ["".join(g) for g in groups]
    plain = [name.isidentifier() and not iskeyword(name) and made.count(name) == 1 for name in made]
    return tuple(name if ok else f"axis{n}" for n, (name, ok) in enumerate(zip(made, plain, strict=True)))


def _digits(group: Group, index: Term, extents: Mapping[str, Dim]) -> dict[str, Term]:
    parts: dict[str, Term] = {}
    for n, name in enumerate(group):
        inner = size_term(tuple(extents[m] for m in group[n + 1 :]))
        part = index if t.is_const(inner, 1) else t.binary("floordiv", index, inner)
        parts[name] = part if n == 0 else t.binary("mod", part, t.as_index(extents[name]))
    return parts


def _merged(group: Group, digits: Mapping[str, Term], extents: Mapping[str, Dim]) -> Term:
    total = t.index_const(0)
    for name in group:
        total = total * t.as_index(extents[name]) + digits[name]
    return total
