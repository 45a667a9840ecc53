"""Questions in normal form: what the members of the prover portfolio see.

A question has canonical variables v0, v1, ... with ranges, facts that may be assumed, and a goal (or the outputs of a
map asked to be injective). Definedness is compiled into ordinary predicates first, under the lazy meaning of `where`,
`and` and `or`, so that every member may treat operations as total.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.ir.dtypes import BOOL, INDEX, is_float, is_int, itemsize
from eqsat.ir.errors import TypeMismatch
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import fresh_name, leaf_name
from eqsat.ir.terms.walk import postorder, substitute, transform

Range = tuple[int | None, int | None]
Box = Mapping[Term, Range]
Shapes = Mapping[Any, Sequence[Any]]

LEAVES = ("axis", "var", "sym")
_COMMUTATIVE = frozenset(("prod", "min", "max", "bitand", "bitor", "bitxor", "eq", "ne", "add", "mul", "same"))


@dataclass(frozen=True, eq=False)
class Variable:
    """A quantified variable: start <= leaf < stop (None: no bound), divisible by `multiple_of`; data has no range."""

    leaf: Term
    start: int | None
    stop: int | None
    multiple_of: int = 1

    def _key(self) -> tuple[int, int | None, int | None, int]:
        return self.leaf.serial, self.start, self.stop, self.multiple_of

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Variable) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    @property
    def empty(self) -> bool:
        """Whether no value is allowed."""
        if self.start is None or self.stop is None:
            return False
        first = -(-self.start // self.multiple_of) * self.multiple_of
        return first >= self.stop


@dataclass(frozen=True, eq=False)
class Question(Record):
    """Does the goal hold (with outputs: is the map injective) for all values of the variables that satisfy the facts?

    Facts, goal and outputs are defined everywhere (outputs: wherever the goal holds).
    """

    variables: tuple[Variable, ...]
    facts: tuple[Term, ...]
    goal: Term
    outputs: tuple[Term, ...] = ()
    finite: bool = False
    hints: tuple[Term, ...] = ()

    @property
    def roots(self) -> tuple[Term, ...]:
        """All terms of the question."""
        return (*self.facts, self.goal, *self.outputs, *self.hints)

    def parts(self) -> list[str]:
        """What identifies the question, for a cache key."""
        shown = [f"{v.leaf.dtype} {v.start} {v.stop} {v.multiple_of}" for v in self.variables]
        roots = [f"{len(self.facts)} {len(self.outputs)} {self.finite}", *(r.digest.hex() for r in self.roots)]
        return shown + roots


@dataclass(frozen=True)
class Asked:
    """A question with the asker's own names: `leaves[k]` is variable k, `axes` the box, `idle` its unused part."""

    question: Question
    leaves: tuple[Term, ...]
    axes: tuple[Term, ...] = ()
    idle: tuple[tuple[Term, Range], ...] = ()

    @property
    def vacuous(self) -> bool:
        """Whether the box has no point at all."""
        gone = any(a is not None and b is not None and a >= b for _, (a, b) in self.idle)
        return gone or any(v.empty for v in self.question.variables)


# -- definedness ------------------------------------------------------------------------------------------------------


def same(a: Term, b: Term) -> Term:
    """Identity of values: for floats bit by bit with one NaN (unlike `==`), otherwise `==`."""
    if a.dtype != b.dtype:
        raise TypeMismatch(f"equality of {a} and {b}", f"types {a.dtype} and {b.dtype} differ", "use eq.cast")
    if a is b:
        return t.TRUE
    if not is_float(a.dtype):
        return t.compare("eq", a, b)
    if a.op == b.op == "const":
        return t.FALSE
    return t.make("same", (a, b), None, BOOL)


def lower_same(term: Term) -> Term:
    """The term with `same` spelled in the language, for numpy."""

    def change(node: Term) -> Term | None:
        if node.op != "same":
            return None
        a, b = node.args
        zero, one = t.const(0.0, a.dtype), t.const(1.0, a.dtype)
        signs = t.compare("eq", t.binary("div", one, a), t.binary("div", one, b))
        equal = t.logical_and(t.compare("eq", a, b), t.logical_or(t.compare("ne", a, zero), signs))
        return t.where(t.unary("isnan", a), t.unary("isnan", b), equal)

    return transform(term, change)


def _either(a: Term, b: Term) -> Term:
    """a or b, both defined everywhere."""
    return t.TRUE if b is t.TRUE else t.logical_or(a, b)


def _implies(a: Term, b: Term) -> Term:
    return _either(t.logical_not(a), b)


def _inside(index: Term, extent: Any) -> Term:
    return t.logical_and(t.index_const(0) <= index, index < t.as_index(extent))


def _load_defined(node: Term, shapes: Shapes) -> Term:
    source: Any = node.payload
    if isinstance(source, Table):
        return _inside(node.args[0], len(source.array))
    shape: Sequence[Any] | None = shapes.get(source)
    if shape is None:
        shape = getattr(source, "shape", None)
    if shape is None:
        return t.make("load_ok", node.args, source, BOOL) if node.args else t.TRUE
    return t.logical_and(*(_inside(i, extent) for i, extent in zip(node.args, shape, strict=True)))


def own_condition(node: Term, shapes: Shapes) -> Term:
    """What a strict operation asks of its (defined) operands."""
    op, integer = node.op, node.dtype == INDEX or is_int(node.dtype)
    if op in ("floordiv", "mod", "truncdiv", "truncmod") and integer:
        return t.compare("ne", node.args[1], t.const(0, node.dtype))
    if op in ("shl", "shr"):
        amount, width = node.args[1], t.MAX_SHIFT + 1 if node.dtype == INDEX else 8 * itemsize(node.dtype)
        low, high = t.const(0, node.dtype), t.const(width - 1, node.dtype)
        return t.logical_and(t.compare("le", low, amount), t.compare("le", amount, high))
    if op == "cast" and node.dtype == INDEX and node.args[0].dtype == "uint64":
        return t.compare("le", node.args[0], t.const((1 << 63) - 1, "uint64"))
    return _load_defined(node, shapes) if op == "load" else t.TRUE


def definedness(roots: Sequence[Term], shapes: Shapes | None = None) -> list[Term]:
    """For each term, the predicate that it is defined (itself defined everywhere).

    >>> from eqsat.ir.terms.text import parse_expr
    >>> str(definedness([parse_expr("x // y if y > 0 else 0")])[0])
    'y <= 0 or y != 0'
    """
    known: dict[Term, Term] = {}
    stack = [(r, False) for r in roots]
    while stack:
        node, ready = stack.pop()
        if node in known:
            continue
        if node.op in LEAVES or (not node.args and node.op != "load"):
            known[node] = t.TRUE
        elif not ready:
            stack.append((node, True))
            stack.extend((a, False) for a in node.args)
        else:
            parts = [known[a] for a in node.args]
            if node.op == "where":
                c = node.args[0]
                known[node] = t.logical_and(parts[0], _implies(c, parts[1]), _either(c, parts[2]))
            elif node.op == "given":
                known[node] = t.logical_and(parts[0], _implies(node.args[0], parts[1]))
            elif node.op in ("and", "or"):
                result = parts[-1]
                for p, d in zip(reversed(node.args[:-1]), reversed(parts[:-1]), strict=True):
                    result = t.logical_and(d, _implies(p, result) if node.op == "and" else _either(p, result))
                known[node] = result
            else:
                known[node] = t.logical_and(*parts, own_condition(node, shapes or {}))
    return [known[r] for r in roots]


# -- building ---------------------------------------------------------------------------------------------------------


def claim(
    goal: Term,
    box: Box,
    assuming: Term | None = None,
    shapes: Shapes | None = None,
    finite: bool = False,
    hints: Sequence[Term] = (),
) -> Asked:
    """Is `goal` defined and true everywhere on the box where the assumption is defined and holds?"""
    given = [t.as_bool(assuming)] if assuming is not None else []
    whole, *rest = _scalar([t.as_bool(goal), *given, *hints])
    defined = definedness([whole, *rest], shapes)
    facts = [t.logical_and(d, f) for d, f in zip(defined[1:], rest[: len(given)], strict=False)]
    lemmas = _lemmas(defined[1 + len(given) :], rest[len(given) :])
    return _canonical(box, facts, t.logical_and(defined[0], whole), (), finite, lemmas)


def _lemmas(defined: Sequence[Term], hints: Sequence[Term]) -> list[Term]:
    return [t.logical_and(d, h) if h.dtype == BOOL else h for d, h in zip(defined, hints, strict=True)]


def refinement(
    a: Term,
    b: Term,
    box: Box,
    assuming: Term | None = None,
    shapes: Shapes | None = None,
    finite: bool = False,
    hints: Sequence[Term] = (),
) -> Asked:
    """Wherever `a` is defined: is `b` defined and the same value?"""
    given = [t.as_bool(assuming)] if assuming is not None else []
    whole, other, *rest = _scalar([a, b, *given, *hints])
    defined = definedness([whole, other, *rest], shapes)
    facts = [t.logical_and(d, f) for d, f in zip(defined[2:], rest[: len(given)], strict=False)]
    goal = t.logical_and(defined[1], same(whole, other))
    lemmas = _lemmas(defined[2 + len(given) :], rest[len(given) :])
    return _canonical(box, [*facts, defined[0]], goal, (), finite, lemmas)


def collision(outputs: Sequence[Term], box: Box, assuming: Term | None = None, shapes: Shapes | None = None) -> Asked:
    """Are all outputs defined, and different points of the box mapped to different outputs?"""
    given = [t.as_bool(assuming)] if assuming is not None else []
    terms = _scalar([*outputs, *given])
    defined = definedness(terms, shapes)
    n = len(outputs)
    facts = [t.logical_and(d, f) for d, f in zip(defined[n:], terms[n:], strict=True)]
    return _canonical(box, facts, t.logical_and(*defined[:n]), terms[:n], False, (), keep_idle=True)


def _scalar(roots: list[Term]) -> list[Term]:
    """Ramps as scalars over a lane variable, and what stands in every lane as itself."""
    if any(n.op == "broadcast" for n in postorder(*roots)):
        roots = [transform(r, lambda n: n.args[0] if n.op == "broadcast" else None) for r in roots]
    ramps = [n for n in postorder(*roots) if n.op == "ramp"]
    if not ramps:
        return roots
    lanes = {n.payload for n in ramps}
    if len(lanes) > 1:
        raise TypeMismatch(f"vectors of {sorted(lanes)} lanes", "differ in length")
    named = [leaf_name(n) for n in postorder(*roots) if n.op in LEAVES]
    lane = t.var(fresh_name("lane", named), ramps[0].payload)  # shown in witnesses
    return [transform(r, lambda n: n.args[0] + n.args[1] * lane if n.op == "ramp" else None) for r in roots]


def shallow(*roots: Term) -> list[Term]:
    """Every distinct subterm once, arguments before users; the extents of axes are not entered."""
    seen: set[Term] = set()
    result: list[Term] = []
    stack = [(r, False) for r in reversed(roots)]
    while stack:
        node, ready = stack.pop()
        if node in seen:
            continue
        if ready or not node.args or node.op in LEAVES:
            seen.add(node)
            result.append(node)
        else:
            stack.append((node, True))
            stack.extend((a, False) for a in reversed(node.args))
    return result


def _ranges(box: Box, roots: list[Term]) -> tuple[dict[Term, Variable], list[Term]]:
    """The range of every leaf of the roots, and the facts that symbolic extents add."""
    found: dict[Term, Variable] = {}
    facts: list[Term] = []
    waiting = list(roots)
    while waiting:
        for node in shallow(waiting.pop()):
            if node.op not in LEAVES or node in found:
                continue
            if node in box:
                found[node] = Variable(node, *box[node], t.symbol_facts(node).multiple_of if node.op == "sym" else 1)
            elif node.op == "sym":
                _, lower, upper, multiple, _ = t.symbol_facts(node)
                found[node] = Variable(node, lower, None if upper is None else upper + 1, multiple)
            elif not node.args:
                found[node] = Variable(node, None, None)
            else:
                extent = node.args[0]
                number = t.int_value(extent)
                found[node] = Variable(node, 0, number)
                if number is None:
                    facts.append(node < extent)
                    waiting.append(extent)
    return found, facts


def _canonical(
    box: Box,
    facts: Sequence[Term],
    goal: Term,
    outputs: Sequence[Term],
    finite: bool,
    hints: Sequence[Term],
    keep_idle: bool = False,
) -> Asked:
    roots = [*facts, goal, *outputs, *hints]
    found, more = _ranges(box, roots)
    idle = [(axis, r) for axis, r in box.items() if axis not in found]
    if keep_idle:  # an axis that no output reads still tells points apart; a symbol is the same for all points
        found.update((axis, Variable(axis, *r)) for axis, r in idle)
        idle = []
        outputs = [*outputs, *(leaf for leaf in found if leaf.op == "sym")]
        roots.extend(outputs)
    order = _leaf_order([*roots, *more], found)
    order.extend(leaf for leaf in found if leaf not in set(order))
    table = {leaf: t.make("var", (), f"v{k}", leaf.dtype) for k, leaf in enumerate(order)}
    sources: dict[Any, int] = {}

    def change(node: Term) -> Term | None:
        if node.op in ("load", "load_ok") and not isinstance(node.payload, Table):
            return t.make(node.op, node.args, sources.setdefault(node.payload, len(sources)), node.dtype)
        if node.op == "hole":
            return t.make("hole", node.args, sources.setdefault(("hole", node.payload), len(sources)), node.dtype)
        return None

    memo: dict[Term, Term] = {}
    f, m, o, h = (
        [transform(substitute(r, table), change, memo) for r in group] for group in (facts, more, outputs, hints)
    )
    g = transform(substitute(goal, table), change, memo)
    variables = tuple(
        Variable(table[leaf], found[leaf].start, found[leaf].stop, found[leaf].multiple_of) for leaf in order
    )
    kept = tuple(dict.fromkeys(x for x in (*m, *f) if x is not t.TRUE))
    return Asked(Question(variables, kept, g, tuple(o), finite, tuple(h)), tuple(order), tuple(box), tuple(idle))


def _leaf_order(roots: Sequence[Term], found: Mapping[Term, Variable]) -> list[Term]:
    """Leaves in an order that does not depend on their names, so that renamed questions share a cache entry."""
    blind: dict[Term, bytes] = {}
    children: dict[Term, Sequence[Term]] = {}
    for node in shallow(*roots):
        if node in found:
            v = found[node]
            text, below = f"{node.dtype} {v.start} {v.stop} {v.multiple_of}", []
        elif node.op == "sum":
            pairs = sorted(zip(node.payload[1], node.args, strict=True), key=lambda p: (p[0], blind[p[1]]))
            text, below = f"sum {node.payload[0]} {[c for c, _ in pairs]}", [a for _, a in pairs]
        else:
            below = sorted(node.args, key=lambda a: blind[a]) if node.op in _COMMUTATIVE else list(node.args)
            named = node.op in ("load", "load_ok", "hole") and not isinstance(node.payload, Table)
            text = f"{node.op} {node.dtype} {'' if named else getattr(node.payload, 'source_key', node.payload)}"
        children[node] = below
        blind[node] = hashlib.blake2b(text.encode() + b"".join(blind[a] for a in below), digest_size=12).digest()
    order: dict[Term, None] = {}
    seen: set[Term] = set()
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if node in found:
            order[node] = None
        stack.extend(reversed(children[node]))
    return list(order)
