"""A filter before matching: which patterns can match a term at all, by what stands at its root and just below it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

_DIVISIONS = ("floordiv", "mod", "truncdiv", "truncmod")
_NUMBERED = frozenset((*_DIVISIONS, "bitand", "bitor", "bitxor", "shl", "shr"))
Part = tuple[str, int]


def anchors_of(a: Term) -> frozenset[str]:
    """The operations of the summands of a sum, and of their factors."""
    found = {x.op for x in a.args}
    if "prod" in found:
        found |= {y.op for x in a.args if x.op == "prod" for y in x.args}
    return frozenset(found)


def _part(a: Term) -> Part | None:
    """A number, or a division by one."""
    if a.op == "const":
        return "const", a.payload
    if a.op in _DIVISIONS and a.args[1].op == "const":
        return a.op, a.args[1].payload
    return None


@dataclass(frozen=True)
class Filter:
    """What a term must have so that a pattern may match it: the operation at its root, its dtype (None: any), the
    operation of its first operand (None: any), operands that are a number or divided by one, and operations that its
    summands must have."""

    roots: frozenset[str]
    dtype: str | None
    below: frozenset[str] | None
    parts: frozenset[Part]
    anchors: frozenset[str]

    def may(self, subject: Term) -> bool:
        """Whether a match is possible."""
        if subject.op not in self.roots or (self.dtype is not None and subject.dtype != self.dtype):
            return False
        if self.below is not None and (not subject.args or subject.args[0].op not in self.below):
            return False
        if self.parts and not self.parts <= {_part(a) for a in subject.args}:
            return False
        return not self.anchors or self.anchors <= anchors_of(subject)


def parts_of(left: Term) -> frozenset[Part]:
    """The numbers and divisions by numbers among the operands of a pattern, which stand there as they are."""
    if left.op not in _NUMBERED or left.dtype != INDEX:
        return frozenset()
    return frozenset(p for a in left.args if (p := _part(a)) is not None)


class FilterKeys:
    """All that the filters of the patterns with one root read of a term: terms with one key pass the same filters."""

    def __init__(self, filters: Iterable[Filter]) -> None:
        kept = list(filters)
        self.parts = frozenset(p for x in kept for p in x.parts)
        self.below = any(x.below is not None for x in kept)
        self.anchors = frozenset(op for x in kept for op in x.anchors)

    def key(self, node: Term) -> Hashable:
        """What tells terms apart that different patterns may match; there are few keys, whatever numbers occur."""
        anchors = self.anchors & anchors_of(node) if self.anchors else None
        parts = self.parts & {_part(a) for a in node.args} if self.parts else None
        return node.op, node.dtype, node.args[0].op if self.below and node.args else None, anchors, parts


def dtype_of(left: Term, instance_dtype: str) -> str | None:
    """The dtype that a term must have where its root is an operation that stands for itself."""
    if left.op in ("sum", "prod", "and", "or", *t.COMPARE):
        return None
    free = left.op == "where" and left.dtype not in (INDEX, BOOL, instance_dtype)
    return None if free else left.dtype
