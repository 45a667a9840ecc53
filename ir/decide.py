"""The one door from the language to its provers: the Decider protocol, the Proof it answers, and the registry.

`ir` objects ask questions here (is this predicate always true on this box, is this map injective). The default answers
by enumeration; `import eqsat` registers the prover portfolio instead.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Protocol

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import blocks, evaluate_masked
from eqsat.ir.terms.exact import integers
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

__all__ = [
    "ENUMERATION_LIMIT", "Decider", "Enumerator", "Proof", "Verdict", "decider", "grid", "load_table", "points",
    "register_decider",
]  # fmt: skip

Verdict = Literal["proved", "refuted", "unknown"]
Box = Mapping[Term, tuple[int, int]]
ENUMERATION_LIMIT = 1 << 21
BLOCK = 1 << 18


@dataclass(frozen=True)
class Proof:
    """The answer to a question: proved, refuted with a witness, or unknown; how and how long it took.

    The witness names values that re-evaluate to the refutation: {"i": 7}; for a collision {"first": .., "second": ..}.
    """

    verdict: Verdict
    witness: Mapping[str, Any] | None = None
    method: str = ""
    seconds: float = 0.0
    note: str = ""
    assumptions: tuple[str, ...] = field(default=())

    def __bool__(self) -> bool:
        """True only when proved."""
        return self.verdict == "proved"


class Decider(Protocol):
    """What the language asks of a prover. Boxes give each axis or variable term its half-open range of integers."""

    def prove(self, claim: Term, box: Box, assuming: Term | None = None, /) -> Proof:
        """Is the bool term defined and true everywhere on the box where the assumption holds?"""
        ...

    def injective(self, outputs: Sequence[Term], box: Box, /) -> Proof:
        """Do different points of the box give different output tuples?"""
        ...

    def simplify(self, terms: Sequence[Term], box: Box, /) -> list[Term]:
        """Terms with the same values on the box and no more operations, as quick rules find them."""
        ...

    def shortest(self, terms: Sequence[Term], box: Box, /) -> list[Term]:
        """The same with as few operations as can be found."""
        ...


def grid(box: Box) -> dict[Term, NDArray]:
    """Every axis as a broadcastable array over its range."""
    rank = len(box)
    result: dict[Term, NDArray] = {}
    for n, (axis, (start, stop)) in enumerate(box.items()):
        shape = [1] * rank
        shape[n] = max(0, stop - start)
        result[axis] = integers(start, stop).reshape(shape)
    return result


def points(box: Box) -> int:
    """The number of points of a box."""
    count = 1
    for start, stop in box.values():
        count *= max(0, stop - start)
    return count


class Enumerator:
    """Decides by trying every point, up to a limit; the default Decider.

    >>> i = t.ax(0, 14)
    >>> Enumerator().prove(i // 4 * 4 + i % 4 < 13, {i: (0, 14)}).witness
    {'i0': 13}
    """

    def __init__(self, limit: int = ENUMERATION_LIMIT) -> None:
        self.limit = limit

    def prove(self, claim: Term, box: Box, assuming: Term | None = None) -> Proof:
        goal = claim if assuming is None else t.logical_or(t.logical_not(assuming), claim)
        if points(box) == 0:
            return Proof("proved", method="enumeration", note="the box is empty")
        used = _leaves([goal], box)
        box = {axis: span for axis, span in box.items() if axis in used} | _unused(box, used)
        reason = self._open(used, box)
        if reason:
            return Proof("unknown", method="enumeration", note=reason)
        for env, full in _pieces(box):
            value, bad = evaluate_masked([goal], env, load_table)[0]
            holds = np.broadcast_to(value if bad is None else np.logical_and(value, np.logical_not(bad)), full)
            if not bool(holds.all()):
                return Proof("refuted", _point(env, int(np.argmin(holds)), full), "enumeration")
        return Proof("proved", method="enumeration")

    def injective(self, outputs: Sequence[Term], box: Box) -> Proof:
        reason = self._open(_leaves(outputs, box), box)
        if reason:
            return Proof("unknown", method="enumeration", note=reason)
        if points(box) == 0:
            return Proof("proved", method="enumeration", note="the box is empty")
        env = grid(box)
        full = np.broadcast_shapes(*(a.shape for a in env.values()))
        flat: NDArray = np.zeros(points(box), np.int64)
        for value, bad in evaluate_masked(list(outputs), env, load_table):
            if bad is not None and bool(np.any(bad)):
                at = int(np.argmax(np.broadcast_to(bad, full)))
                return Proof("refuted", _point(env, at, full), "enumeration", note="undefined here")
            digits = np.broadcast_to(value, full).ravel()
            if digits.dtype == object:
                digits = np.unique(digits, return_inverse=True)[1].astype(np.int64)
            low, high = int(digits.min()), int(digits.max())
            if (int(flat.max()) + 1) * (high - low + 1) >= 1 << 62:
                flat = np.unique(flat, return_inverse=True)[1].astype(np.int64)
                digits = np.unique(digits, return_inverse=True)[1].astype(np.int64)
                low, high = 0, int(digits.max())
            flat = flat * (high - low + 1) + (digits - low)
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        same = np.flatnonzero(ordered[1:] == ordered[:-1])
        if not same.size:
            return Proof("proved", method="enumeration")
        first, second = int(order[same[0]]), int(order[same[0] + 1])
        return Proof("refuted", {"first": _point(env, first, full), "second": _point(env, second, full)}, "enumeration")

    def simplify(self, terms: Sequence[Term], box: Box) -> list[Term]:
        """The terms themselves: enumeration knows no rules."""
        return list(terms)

    shortest = simplify

    def _open(self, used: Iterable[Term], box: Box) -> str:
        """Why enumeration cannot answer, or ''."""
        for node in used:
            if node not in box:
                return f"{node} has no {'finite range' if node.op in ('axis', 'var', 'sym') else 'known value'}"
        return f"{points(box)} points are more than {self.limit}" if points(box) > self.limit else ""


def _leaves(roots: Sequence[Term], box: Box) -> dict[Term, None]:
    """The variables of terms, and what else only a program or a user could give a value, in order of appearance."""
    nodes = list(postorder(*roots, done=box))
    used = dict.fromkeys(a for a in (*roots, *(a for n in nodes for a in n.args)) if a in box)
    for n in nodes:
        if n.op in ("axis", "var", "sym", "hole", "given") or (n.op == "load" and not isinstance(n.payload, Table)):
            used[n] = None
    return used


def _unused(box: Box, used: Container[Term]) -> dict[Term, tuple[int, int]]:
    """One point of each axis that the claim does not mention, for the witness."""
    return {axis: (start, start + 1) for axis, (start, _) in box.items() if axis not in used}


def _pieces(box: Box) -> Iterator[tuple[dict[Term, NDArray], tuple[int, ...]]]:
    """The points of a box as environments of a bounded size, with the shape of each."""
    whole = grid(box)
    for block in blocks([a.size for a in whole.values()], BLOCK):
        env: dict[Term, NDArray] = {}
        for n, (axis, values) in enumerate(whole.items()):
            env[axis] = values[tuple(block[n] if k == n else slice(None) for k in range(values.ndim))]
        yield env, tuple(s.stop - s.start for s in block)


def _point(env: Mapping[Term, NDArray], at: int, full: tuple[int, ...]) -> dict[str, int]:
    from eqsat.ir.terms.text import point_names

    where = np.unravel_index(at, full) if full else ()
    rows = zip(point_names(list(env)), env.values(), where, strict=True)
    return {name: int(values.ravel()[int(p)]) for name, values, p in rows}


_registry: list[Callable[[], Decider]] = [Enumerator]


def register_decider(make: Callable[[], Decider]) -> None:
    """Make this the prover that `ir` objects ask (the one registry of the language); built when first asked."""
    _registry[:] = [make]
    decider.cache_clear()


@lru_cache(maxsize=1)
def decider() -> Decider:
    """The registered prover."""
    return _registry[0]()
