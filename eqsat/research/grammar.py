"""Terms by size over a small grammar, told apart by their values at random points."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsat.index_graph.cost import cost
from eqsat.ir.dtypes import BOOL, INDEX, NDArray
from eqsat.ir.rule import Kind, Parameter, variable
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of

POINTS = 384
ZERO = t.index_const(0)
LARGEST = 1 << 40  # of values: beyond, a term is left out
_COMPARE = ("lt", "le", "eq", "ne")
_JUNCTIONS = ("and", "or")
_NUMPY: dict[str, Callable[..., NDArray]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "floordiv": np.floor_divide, "mod": np.mod,
    "min": np.minimum, "max": np.maximum, "bitxor": np.bitwise_xor, "bitand": np.bitwise_and, "bitor": np.bitwise_or,
    "lt": np.less, "le": np.less_equal, "eq": np.equal, "ne": np.not_equal, "and": np.logical_and,
    "or": np.logical_or, "not": np.logical_not, "abs": np.abs, "neg": np.negative, "where": np.where,
    "truncmod": np.fmod,
}  # fmt: skip


def _truncdiv(a: NDArray, b: NDArray) -> NDArray:
    return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))


_NUMPY["truncdiv"] = _truncdiv
_UNARY = ("not", "abs", "neg")
DIVISIONS = ("floordiv", "mod", "truncdiv", "truncmod")


@dataclass(frozen=True)
class Grammar:
    """What terms are made of.

    parameters: the names and what they range over (Idx, Pos or Pred); numbers: constants; operations: of the language
    (`add`, `sub`, `mul`, `floordiv`, `mod`, `min`, `max`, `abs`, `bitxor`, ..., `lt`, `le`, `eq`, `and`, `or`, `not`);
    size: the most operations in a term. Divisors, and one factor of each product, are positive constants; what is
    multiplied is no sum.
    conditions: which to try, beside none; omitted: 0 <= x < c for each index and positive constant, and 0 <= x.
    constants: further constants, such as a*b, that count as one name. signs: comparisons are of 0 with a term. With
    `neg`, divisors are also the negatives of positive constants.
    """

    parameters: Mapping[str, Kind] = field(
        default_factory=lambda: {"x": Kind.IDX, "y": Kind.IDX, "a": Kind.POS, "b": Kind.POS}
    )
    numbers: tuple[int, ...] = ()
    operations: tuple[str, ...] = ("add", "mul", "floordiv", "mod")
    size: int = 4
    conditions: tuple[tuple[Term, ...], ...] | None = None
    constants: tuple[Term, ...] = ()
    signs: bool = False

    def variables(self) -> dict[Term, Kind]:
        """The variables that stand for the parameters."""
        return {variable(Parameter(name, kind), ""): kind for name, kind in self.parameters.items()}

    def given(self) -> list[tuple[Term, ...]]:
        """The conditions to try, none first."""
        if self.conditions is not None:
            return [(), *self.conditions]
        found: list[tuple[Term, ...]] = [()]
        kinds = self.variables()
        for v in (v for v, k in kinds.items() if k is Kind.IDX):
            found += [(t.index_const(0) <= v, v < c) for c, k in kinds.items() if k is Kind.POS]
        return found


ARITHMETIC = Grammar()


@dataclass(frozen=True, eq=False)
class Entry(Record):
    """A term with its number of operations and its values at the points."""

    term: Term
    size: int
    values: NDArray


def points(grammar: Grammar, conditions: Sequence[Term], seed: int) -> dict[Term, NDArray]:
    """Random values of the variables at which the conditions hold: small and large, of both signs."""
    draw = np.random.default_rng(seed)
    kinds = grammar.variables()
    found: dict[Term, list[NDArray]] = {v: [] for v in kinds}
    count, rounds = 0, 0
    while count < POINTS and rounds < 200:
        rounds += 1
        n = 2 * POINTS
        env: dict[Term, NDArray] = {}
        for v, kind in kinds.items():
            if kind is Kind.PRED:
                env[v] = draw.integers(0, 2, n).astype(bool)
            elif kind is Kind.POS:
                env[v] = draw.integers(1, draw.choice(np.array([4, 12]), n))
            else:
                wide = draw.choice(np.array([1, 2, 4, 12, 150]), n)
                env[v] = draw.integers(-wide, wide + 1)
        keep = np.ones(n, bool)
        for c in conditions:
            keep &= np.asarray(values_of(c, env), bool)
        for v in kinds:
            found[v].append(env[v][keep])
        count += int(keep.sum())
    return {v: np.concatenate(parts)[:POINTS] for v, parts in found.items()}


def values_of(term: Term, env: Mapping[Term, NDArray]) -> NDArray:
    """The values of a term of a grammar at points."""
    if term in env:
        return env[term]
    if term.op == "const":
        return np.full(len(next(iter(env.values()))), t.const_value(term))
    args = [values_of(a, env) for a in term.args]
    if term.op == "sum":
        constant, coefficients = term.payload
        return sum((c * a for c, a in zip(coefficients, args, strict=True)), np.full(len(args[0]), constant))
    if term.op in ("prod", *_JUNCTIONS):
        operation = _NUMPY["mul" if term.op == "prod" else term.op]
        result = args[0]
        for a in args[1:]:
            result = operation(result, a)
        return result
    with np.errstate(all="ignore"):
        return _NUMPY[term.op](*args)


def _built(op: str, args: Sequence[Term]) -> Term:
    if op == "add":
        return args[0] + args[1]
    if op == "sub":
        return args[0] - args[1]
    if op == "mul":
        return args[0] * args[1]
    if op in _COMPARE:
        return t.compare(op, *args)
    if op in _JUNCTIONS:
        return t.logical_and(*args) if op == "and" else t.logical_or(*args)
    if op == "not":
        return t.logical_not(args[0])
    if op == "neg":
        return -args[0]
    if op == "where":
        return t.where(*args)
    return t.absolute(args[0]) if op == "abs" else t.binary(op, *args)


def _chooses(a: Term, b: Term) -> bool:
    return a.dtype == INDEX or (a.op == "const" and b.op == "const")


class Classes:
    """The terms of a grammar up to a size, of those with the same values everywhere only the cheapest extended.

    `equal` are the pairs (term, cheapest of its class) found on the way.
    """

    def __init__(self, grammar: Grammar, seed: int = 0, until: float = float("inf")) -> None:
        self.grammar, self.until = grammar, until
        self.positive = {v for v, k in grammar.variables().items() if k is Kind.POS}
        self.env = points(grammar, (), seed)
        self.levels: list[list[Entry]] = []
        self.known: dict[tuple[str, bytes], Entry] = {}
        self.seen: set[Term] = set()
        self.equal: list[tuple[Term, Term]] = []
        self.complete = True
        for size in range(grammar.size + 1):
            self.levels.append([])
            for term, values in self._leaves() if size == 0 else self._made(size):
                if time.monotonic() > until:
                    self.complete = False
                    return
                self._add(term, values, size)

    def _add(self, term: Term, values: NDArray, size: int) -> None:
        if term in self.seen:
            return
        self.seen.add(term)
        if values.dtype != bool and (np.abs(values) > LARGEST).any():
            return
        entry = Entry(term, size, values)
        key = (term.dtype, values.tobytes())
        found = self.known.get(key)
        if found is None:
            self.known[key] = entry
            self.levels[size].append(entry)
        elif cost(term) < cost(found.term) or (cost(term) == cost(found.term) and term.op == "const"):
            self.equal.append((found.term, term))
            self.known[key] = Entry(term, found.size, values)
            level = self.levels[found.size]
            level[next(n for n, e in enumerate(level) if e.term is found.term)] = Entry(term, found.size, values)
        else:
            self.equal.append((term, found.term))

    def _leaves(self) -> Iterator[tuple[Term, NDArray]]:
        yield from self.env.items()
        yield from ((c, values_of(c, self.env)) for c in self.grammar.constants)
        ops = self.grammar.operations
        for number in dict.fromkeys((0, *self.grammar.numbers)):
            if any(op not in (*_JUNCTIONS, "not") for op in ops):
                yield t.index_const(number), np.full(POINTS, number)
        if set(ops) & {*_COMPARE, *_JUNCTIONS}:
            yield t.FALSE, np.zeros(POINTS, bool)
            yield t.TRUE, np.ones(POINTS, bool)

    def _made(self, size: int) -> Iterator[tuple[Term, NDArray]]:
        for op in self.grammar.operations:
            if op == "where":
                yield from self._chosen(size)
                continue
            wanted = BOOL if op in (*_JUNCTIONS, "not") else INDEX
            if op in _UNARY:
                for e in list(self.levels[size - 1]):
                    if e.term.dtype == wanted:
                        yield _built(op, [e.term]), _NUMPY[op](e.values)
                continue
            for left in range(size):
                for a in list(self.levels[left]):
                    if a.term.dtype != wanted:
                        continue
                    for b in list(self.levels[size - 1 - left]):
                        if b.term.dtype == wanted and self._allowed(op, a.term, b.term):
                            yield _built(op, [a.term, b.term]), _NUMPY[op](a.values, b.values)

    def _chosen(self, size: int) -> Iterator[tuple[Term, NDArray]]:
        """Choices between two different indices, or the two truth values, by predicates."""
        for first in range(size):
            for p in [e for e in self.levels[first] if e.term.dtype == BOOL and e.term.op != "const"]:
                for second in range(size - first):
                    for a in list(self.levels[second]):
                        for b in list(self.levels[size - 1 - first - second]):
                            if b.term.dtype == a.term.dtype and a.term is not b.term and _chooses(a.term, b.term):
                                yield _built("where", [p.term, a.term, b.term]), np.where(p.values, a.values, b.values)

    def _allowed(self, op: str, a: Term, b: Term) -> bool:
        if op in DIVISIONS:
            return (self._is_constant(b) or self._is_negative(b)) and not self._is_constant(a)
        if self.grammar.signs and op in _COMPARE and a is not ZERO:
            return False
        if op == "mul":
            return self._is_constant(b) and a.op not in ("sum", "const")
        if op == "add" and self._is_constant(a) and self._is_constant(b):
            return False
        return not (op in ("add", "sub", "min", "max", *_COMPARE) and a.op == b.op == "const")

    def _is_constant(self, term: Term) -> bool:
        """Whether a term is made of positive constants only, by multiplication."""
        if term.op == "const":
            return term.dtype == INDEX and term.payload > (0 if 1 in self.grammar.numbers else 1)
        factors = term.args if term.op == "prod" else (term,)
        return all(f in self.positive for f in factors)

    def _is_negative(self, term: Term) -> bool:
        """Whether a term is the negative of a positive constant, and the grammar has negatives."""
        opposite = term.op == "sum" and term.payload == (0, (-1,)) and term.args[0] in self.positive
        return opposite and "neg" in self.grammar.operations

    def entries(self) -> Iterator[Entry]:
        """The cheapest terms of all classes."""
        for level in self.levels:
            yield from level

    def under(self, conditions: Sequence[Term], seed: int) -> Iterator[tuple[Term, Term]]:
        """Pairs of classes that are equal where conditions hold, though not everywhere: the larger term first, or the
        one over more variables.
        """
        env = points(self.grammar, conditions, seed)
        if len(next(iter(env.values()))) < POINTS // 4:
            return
        named = set(nodes_of("var", *conditions))
        cheapest: dict[Any, Term] = {}
        for entry in sorted(self.entries(), key=lambda e: (cost(e.term), e.size)):
            if time.monotonic() > self.until:
                self.complete = False
                return
            values = values_of(entry.term, env)
            key = (entry.term.dtype, values.tobytes())
            found = cheapest.setdefault(key, entry.term)
            if found is entry.term:
                continue
            own, others = set(nodes_of("var", entry.term)), set(nodes_of("var", found))
            if named <= own:
                yield entry.term, found
            elif named | own <= others:
                yield found, entry.term
