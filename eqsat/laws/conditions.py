"""Hypotheses of laws at one match, decided: by sizes and digits where they say it, at every cell of small boxes, else
by the prover. What is not known does not hold.

A hypothesis is true for all indices. Outside of every box, where no map reads and nothing is inside, it is a statement
without numbers, which `_nowhere` decides; inside, it is a statement about an index from 0 to the largest box.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from eqsat.ir import clock
from eqsat.ir.decide import Proof
from eqsat.ir.dtypes import NDArray
from eqsat.ir.flat.formula import address_at, valid_at
from eqsat.ir.flat.map import FlatMap
from eqsat.ir.flat.size_terms import as_extent
from eqsat.ir.flat.sizes import Size, add, leaves_room, mul, total
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.term_map import TermMap
from eqsat.ir.law import (
    OPERATORS,
    Expr,
    both,
    implies,
    inside,
    mapping,
    negation,
    neutral,
    nodes,
    operand,
    operands,
    reduces,
    same_value,
    undone,
    valid,
    value,
    within,
)
from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import map_loads
from eqsat.laws.cell_terms import Cells, folded, same_cell, takes_at
from eqsat.laws.match import Match, NoAnswer
from eqsat.laws.plan import settles
from eqsat.operators.interned import Interned
from eqsat.operators.labels import ComputeKind
from eqsat.operators.moves import access, varying
from eqsat.operators.selections import owners
from eqsat.proving.rules import normaliser
from eqsat.rewriting.rewrite import RuleStep, Session

EVERY_CELL = 1 << 20


@dataclass(frozen=True)
class Obligation:
    """A side condition that the search met: what was asked, and the verdict."""

    question: str
    proof: Proof


class Conditions:
    """Decides hypotheses, and remembers what a prover was asked."""

    def __init__(self, interned: Interned, rules: tuple[Rule, ...] = ()) -> None:
        self.interned = interned
        self.rules = rules
        self.used: Counter[str] = Counter()
        """How often each rule of a user was used in a condition."""
        self.obligations: list[Obligation] = []

    def hold(self, match: Match, h: Expr) -> bool:
        """Whether a hypothesis of the law is known to hold at a match."""
        if any(e.op == "neutral" for e in nodes(h)):
            return self._left_out(match, h)
        if match.settled is not None and any(e == match.plan.law.left for e in nodes(h) if h.op == "implies"):
            return self._around(match, h)
        at_once = _at_once(match, h)
        if at_once is not None:
            return at_once
        if not _nowhere(match, h):
            return False
        box = _box(match, h)
        used = {x.op for x in nodes(h)}
        listed = "same_value" not in used and not ("takes" in used and owners(match.operator) is None)
        if listed and isinstance(box, int) and box <= EVERY_CELL:
            return bool(np.all(_Everywhere(match, box).formula(h, np.arange(box, dtype=np.int64))))
        clock.check()
        return self._noted(match, h, self._proof(match, h, box))

    def _noted(self, match: Match, h: Expr, proof: Proof) -> bool:
        names = {name: str(m.map) for name, m in match.maps.items()}
        shown = ", ".join(f"{name} = {m}" for name, m in names.items())
        values = ", ".join(f"{name} = {v}" for name, v in match.values.items() if v is not None)
        cells = ", ".join(f"{name} = value {match.numbers[f'n{k}']}" for k, name in enumerate(match.plan.values))
        about = "; ".join(x for x in (shown, values, cells) if x)
        self.obligations.append(Obligation(f"{match.plan.law.name}: {h} at {about}", proof))
        return bool(proof)

    def _left_out(self, match: Match, h: Expr) -> bool:
        """Whether the body is known to be neutral wherever a reduction leaves it out."""
        from eqsat.proving.prover import Portfolio

        found, law = match.left_out, match.plan.law
        part, op = str(law.right.args[0]), str(law.left.args[0])
        outside = both(inside(law.left), reduces(op), negation(within(part)))
        if found is None or law.right.op != "combine_within" or h != implies(outside, neutral(law.left)):
            return False
        clock.check()
        return self._noted(match, h, Portfolio().prove(found.claim, found.box, found.assuming))

    def _around(self, match: Match, h: Expr) -> bool:
        """Whether a result is known to be one value all around a part of it."""
        from eqsat.proving.prover import Portfolio

        found, law, stated = match.settled, match.plan.law, settles(match.plan.law)
        if found is None or stated is None:
            return False
        outside = both(inside(law.left), negation(valid(mapping(stated[1]))))
        if h != implies(outside, same_value(law.left, value(stated[2]))):
            return False
        clock.check()
        return self._noted(match, h, Portfolio().prove(found.claim, found.box, found.assuming))

    def _proof(self, match: Match, h: Expr, box: Size) -> Proof:
        extent = as_extent(box)
        i = t.ax(0, extent)
        log: list[RuleStep] = []
        claim = _AsTerm(match, self.interned, i, (self.rules, log)).formula(h, i)
        self.used.update(step.rule for step in log if any(step.rule == rule.name for rule in self.rules))
        if claim is t.FALSE:
            return Proof("unknown", method="formulas", note="no formula says it")
        from eqsat.proving.prover import Portfolio

        if isinstance(box, int):
            return Portfolio().prove(claim, {i: (0, box)})
        return Portfolio().prove(claim, {i: (0, None)}, t.compare("lt", i, t.as_index(extent)))


def _box(match: Match, h: Expr) -> Size:
    """The largest box that a hypothesis speaks of."""
    found: list[Size] = []
    for e in nodes(h):
        if e.op in ("inside", "valid", "gather"):
            of = e.args[0]
            assert isinstance(of, Expr)
            found.append(_size(match, of))
        elif e.op == "takes":
            found.append(match.operator.size(match.operator.outputs[match.numbers["o"]]))
    largest = next((x for x in found if all(leaves_room(other, x) for other in found)), None if found else 0)
    if largest is None:
        raise NoAnswer("law", "which of some symbolic sizes is the largest is not known")
    return largest


def _size(match: Match, of: Expr) -> Size:
    """The size of the box of a tensor, or of the one that a map gives its view."""
    if of.op == "tensor":
        return match.sizes[str(of.args[0])]
    if of.op in OPERATORS:
        return match.operator.size(match.operator.outputs[match.numbers["o"]])
    if of.op == "inverse":
        inner = of.args[0]
        assert isinstance(inner, Expr)
        return match.maps[str(inner.args[0])].map.n_in
    return _map(match, of).n_out


def _map(match: Match, of: Expr) -> Map:
    if of.op == "filled":
        inner = of.args[0]
        assert isinstance(inner, Expr)
        return _map(match, inner)
    if of.op in ("map", "bijection") and str(of.args[0]) in match.maps:
        return match.maps[str(of.args[0])].map
    return match.map(of, "").map


def _at_once(match: Match, h: Expr) -> bool | None:
    """What sizes, equal maps and digits say at once."""
    parts = [a for a in h.args if isinstance(a, Expr)]
    cells = next((e for e in nodes(h) if e.op == "reached"), None)
    if cells is not None:
        return _kept(match, h, str(cells.args[-1]))
    if h.op == "implies" and [p.op for p in parts] == ["inside", "valid"] and parts[0].args == parts[1].args:
        of = parts[0].args[0]
        if isinstance(of, Expr) and of.op == "map" and _map(match, of).is_total:
            return True
    if h.op == "iff" and all(p.op == "inside" and p.args[1] == Expr("index") for p in parts):
        sizes = [_size(match, p.args[0]) for p in parts if isinstance(p.args[0], Expr)]
        return sizes[0] == sizes[1]
    if h.op == "implies" and [p.op for p in parts] == ["valid", "inside"]:
        read, box = parts[0].args[0], parts[1].args[0]
        here = parts[0].args[1] == Expr("index") and parts[1].args[1] == Expr("gather", (read, Expr("index")))
        if here and isinstance(read, Expr) and isinstance(box, Expr) and _map(match, read).n_in == _size(match, box):
            return True
    if h.op in ("iff", "same_index") and all(p.op in ("valid", "gather") for p in parts):
        a, b = (_map(match, p.args[0]) for p in parts if isinstance(p.args[0], Expr))
        if parts[0].args[1] == parts[1].args[1] and a == b:
            return True
    if h.op == "same_value" and all(p.op in ("constant", "applied") for p in parts):
        values = [match.value(p) for p in parts]
        return values[0] is values[1]
    whole = next((e for e in nodes(h) if e.op == "compose"), None)
    if whole is not None and h == undone(*(a for a in whole.args if isinstance(a, Expr))):
        found = _map(match, whole)
        return None if isinstance(found, TermMap) else found.is_identity
    if h.op == "implies" and parts[0].op == "valid" and parts[1].op == "same_index":
        m, step = parts[0].args[0], parts[1].args[0]
        if parts[1].args[1] == Expr("index") and step == Expr("gather", (m, Expr("index"))) and isinstance(m, Expr):
            return _in_place(_map(match, m))
    return None


def _kept(match: Match, h: Expr, access: str) -> bool:
    """Whether the parts that were found for an operator are those that it reads: cell by cell the same, by digits."""
    left, right = (_access_names(e) for e in (match.plan.law.left, match.plan.law.right))
    if match.cut is None or left != right or h not in match.plan.law.hypotheses:
        return False
    before, after = match.cut.reads[match.positions[left.index(access)]]
    return before is not None and before == after


def _access_names(e: Expr) -> list[str]:
    return [str(x.args[-1]) for x in nodes(e) if x.op in ("read", "read_through")]


def _in_place(m: Map) -> bool | None:
    """Whether every valid cell reads its own position, where digits say it."""
    if not isinstance(m, FlatMap):
        return None
    if m.is_identity or any(d.lo == d.hi for d in m.digits):
        return True
    weight: Size = 1
    apart = m.offset  # source minus own position at the first valid cell
    for d in reversed(m.digits):
        if d.stride != weight:
            if d.width != 1:
                return False
            step = add(d.stride, mul(-1, weight))
            if step is None:
                return None
            apart = total(apart, mul(step, d.lo))
        weight = mul(weight, d.extent)
    return apart == 0 or (False if isinstance(apart, int) else None)


def _nowhere(match: Match, h: Expr) -> bool:
    """A hypothesis at an index outside of every box: nothing is inside or valid there, and maps lead anywhere."""
    parts = [a for a in h.args if isinstance(a, Expr)]
    if h.op == "negation":
        return not _nowhere(match, parts[0])
    if h.op == "both":
        listed = h.args[0]
        return isinstance(listed, tuple) and all(_nowhere(match, p) for p in listed)
    if h.op == "implies":
        return not _nowhere(match, parts[0]) or _nowhere(match, parts[1])
    if h.op == "iff":
        return _nowhere(match, parts[0]) == _nowhere(match, parts[1])
    if h.op == "same_index":
        return parts[0].op == parts[1].op == "gather"
    if h.op == "same_value" and all(p.op in ("constant", "applied") for p in parts):
        return match.value(parts[0]) is match.value(parts[1])
    return False


class _Everywhere:
    """A hypothesis at every cell, in numbers."""

    def __init__(self, match: Match, box: int) -> None:
        self.match, self.box = match, box

    def formula(self, h: Expr, i: NDArray) -> NDArray:
        parts = [a for a in h.args if isinstance(a, Expr)]
        if h.op == "negation":
            return ~self.formula(parts[0], i)
        if h.op == "both":
            listed = h.args[0]
            assert isinstance(listed, tuple)
            return np.logical_and.reduce([self.formula(p, i) for p in listed])
        if h.op == "implies":
            return ~self.formula(parts[0], i) | self.formula(parts[1], i)
        if h.op == "iff":
            return self.formula(parts[0], i) == self.formula(parts[1], i)
        if h.op == "same_index":
            return self.index(parts[0], i) == self.index(parts[1], i)
        if h.op == "valid":
            return self.cells(parts[0], self.index(parts[1], i)) >= 0
        if h.op == "inside":
            at = self.index(parts[1], i)
            return (at >= 0) & (at < np.int64(_number(_size(self.match, parts[0]))))
        if h.op == "takes":
            found = owners(self.match.operator)
            if found is None:
                raise NoAnswer("law", "the selection has no table of its size")
            at = self.index(parts[0], i)
            inside = (at >= 0) & (at < found[0].size)
            if not bool(np.any(inside)):  # of no cells, too
                return inside
            return inside & (found[0][np.where(inside, at, 0)] == self.match.positions[0])
        raise NoAnswer("law", f"{h} has no numbers")

    def index(self, e: Expr, i: NDArray) -> NDArray:
        """An index; -1 where a map leads nowhere."""
        if e.op == "index":
            return i
        m, inner = (a for a in e.args if isinstance(a, Expr))
        return self.cells(m, self.index(inner, i))

    def cells(self, m: Expr, at: NDArray) -> NDArray:
        """Where a map leads; -1 outside of its box and where it pads."""
        found = _map(self.match, m)
        inside = (at >= 0) & (at < np.int64(_number(found.n_out)))
        if not found.is_numeric or not bool(np.any(inside)):
            return np.full(at.shape, -1, np.int64)
        return np.where(inside, found.at(np.where(inside, at, 0)), -1)


def _number(size: Size) -> int:
    if not isinstance(size, int):
        raise NoAnswer("law", f"{size} is no number")
    return size


class _AsTerm:
    """A hypothesis as a term of one index."""

    def __init__(
        self, match: Match, interned: Interned, i: Term, rules: tuple[tuple[Rule, ...], list[RuleStep]]
    ) -> None:
        self.match, self.i, self.rules = match, i, rules
        self.values = Cells(interned)

    def formula(self, h: Expr, i: Term) -> Term:
        parts = [a for a in h.args if isinstance(a, Expr)]
        if h.op == "negation":
            return t.logical_not(self.formula(parts[0], i))
        if h.op == "both":
            listed = h.args[0]
            assert isinstance(listed, tuple)
            return t.logical_and(*(self.formula(p, i) for p in listed))
        if h.op == "implies":
            return t.logical_or(t.logical_not(self.formula(parts[0], i)), self.formula(parts[1], i))
        if h.op == "iff":
            a, b = (self.formula(p, i) for p in parts)
            return t.logical_or(t.logical_and(a, b), t.logical_and(t.logical_not(a), t.logical_not(b)))
        if h.op == "same_index":
            return t.compare("eq", self.index(parts[0], i), self.index(parts[1], i))
        if h.op == "same_value":
            return same_cell(*self.simplified([folded(self.cell(p, i)) for p in parts]))
        if h.op == "takes":
            at = self.index(parts[0], i)
            size = self.match.operator.size(self.match.operator.outputs[0])
            return t.logical_and(_inside(at, size), takes_at(self.match.operator, self.match.positions[0], at))
        at = self.index(parts[1], i)
        if h.op == "inside":
            return _inside(at, _size(self.match, parts[0]))
        assert h.op == "valid"
        m = _map(self.match, parts[0])
        return t.logical_and(_inside(at, m.n_out), valid_at(m, at))

    def simplified(self, cells: list[Term]) -> list[Term]:
        """The same values, by the rules about scalars."""
        extent = self.i.args[0]
        own, log = self.rules
        session = Session(normaliser(own), {self.i: (0, extent.payload)} if extent.op == "const" else None)
        return [session.normal(cell, log) for cell in cells]

    def index(self, e: Expr, i: Term) -> Term:
        if e.op == "index":
            return i
        m, inner = (a for a in e.args if isinstance(a, Expr))
        return address_at(_map(self.match, m), self.index(inner, i))

    def cell(self, e: Expr, i: Term) -> Term:
        """A value at an index."""
        match = self.match
        if e.op in ("constant", "applied"):
            found = match.value(e)
            if found is None:
                raise NoAnswer("law", f"{e} has no value")
            return found
        if (
            e.op == "pointwise"
            and isinstance(match.operator.kind, ComputeKind)
            and len(varying(match.operator)) == len(match.operator.operands)
        ):
            cells = dict(zip(match.positions, (self.cell(operand(x), i) for x in operands(e)), strict=True))
            return map_loads(match.operator.kind.body, lambda load: cells.get(load.payload, load))
        if e.op != "tensor":
            raise NoAnswer("law", f"the cells of {e} are not known")
        name = str(e.args[0])
        value = match.numbers[f"n{match.plan.values.index(name)}"]
        k = match.places.get(name)
        if k is None:
            return self.values.at(value, i)
        read = access(match.operator, k)
        if read is None:
            raise NoAnswer("law", "the operator does not read one cell of the operand")
        return self.values.at(value, address_at(read, i))


def _inside(at: Term, size: Size) -> Term:
    return t.logical_and(t.compare("le", 0, at), t.compare("lt", at, t.as_index(as_extent(size))))
