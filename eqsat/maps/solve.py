"""Solving the equations of an index map by its digits: outputs that are sums of `(source // a) % b` give their inputs.

Every step is exact for sizes of any value, symbols included. A sum of parts whose weights outgrow the parts below has
only one reading (mixed radix); the digits of a source, put together, give the source; a source known modulo m is known
where it spans at most m values. What this cannot read is left to the index e-graph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from eqsat.index_graph.linear import LARGEST_MODULUS, coprime_split
from eqsat.ir.layouts.digits import Digit, read_digit, static_digit
from eqsat.ir.ranges.map_bounds import at_least, bounds, exact_quotient, floor_div, merged, modulo
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import free_variables, substitute

_ONE = t.index_const(1)
_ZERO = t.index_const(0)


@dataclass(frozen=True, eq=False)
class _Known:
    """The value of a digit; `bounded`: it is certainly in [0, modulus); `origin`: the outputs it was read from."""

    digit: Digit
    value: Term
    bounded: bool
    origin: frozenset[int]


@dataclass(frozen=True, eq=False)
class _Equation:
    """value = term; `root`: the value is output number n itself, below the declared extent."""

    value: Term
    term: Term
    origin: frozenset[int]
    extent: Term | None = None


@dataclass(eq=False)
class _Part:
    """coefficient * digit of an equation, counted from its low end: digit = low + unit, or high - unit."""

    coefficient: Term
    digit: Digit
    low: Term
    high: Term
    falling: bool

    @property
    def extent(self) -> Term:
        return self.high - self.low + 1


@dataclass(eq=False)
class Solution:
    """The inputs as terms over the outputs; outputs in `loose` hold cells that no input reaches, beyond the ranges.

    `inner`: other terms over the inputs, with their values at every cell that an input reaches.
    """

    values: dict[Term, Term]
    loose: set[int] = field(default_factory=set[int])
    inner: list[tuple[Term, Term]] = field(default_factory=list[tuple[Term, Term]])


class _Solver:
    def __init__(
        self, extents: Mapping[Term, Dim], equations: Sequence[_Equation], ranges: Mapping[Term, tuple[int, int]]
    ) -> None:
        self.extents = extents
        self.box = {v: (_ZERO, t.as_index(e) - 1) for v, e in extents.items()}
        self.box.update((v, (t.index_const(low), t.index_const(stop - 1))) for v, (low, stop) in ranges.items())
        self.box.update((e.value, (_ZERO, e.extent - 1)) for e in equations if e.extent is not None)
        self.pending = list(equations)
        self.digits: dict[Term, list[_Known]] = {}
        self.closed: set[Term] = set()
        self.solution = Solution({v: low for v in extents for low, high in [self.box[v]] if low is high})

    def run(self) -> bool:
        """Whether all inputs are found."""
        while len(self.solution.values) < len(self.extents):
            before = (len(self.solution.values), len(self.pending), len(self.closed))
            self.pending = [e for e in self.pending if not self.decompose(e)]
            for source in list(self.digits):
                if source not in self.closed:
                    self.assemble(source)
            if before == (len(self.solution.values), len(self.pending), len(self.closed)):
                return False
        for equation in self.pending:
            self.solution.loose |= equation.origin
        for source, known in self.digits.items():
            if source not in self.closed:
                self.loosen(known)
        return True

    def loosen(self, known: Sequence[_Known]) -> None:
        for k in known:
            self.solution.loose |= k.origin

    def unknown(self, term: Term) -> bool:
        return any(v in self.extents and v not in self.solution.values for v in free_variables(term))

    def split(self, term: Term) -> tuple[Term, list[tuple[Term, Term]]]:
        """A sum, known inputs replaced, as its known part and (coefficient, unknown summand)."""
        constant, parts = t.linear_parts(substitute(term, self.solution.values))
        known, rest = t.index_const(constant), list[tuple[Term, Term]]()
        for c, node in parts:
            if not self.unknown(node):
                known = known + node * c
                continue
            factors = list(node.args) if node.op == "prod" else [node]
            inner = [f for f in factors if self.unknown(f)]
            if len(inner) == 1:
                scale = t.product([t.index_const(c), *(f for f in factors if f is not inner[0])])
                rest.append((scale, inner[0]))
            else:
                rest.append((t.index_const(c), node))
        return known, rest

    def part(self, scale: Term, node: Term) -> _Part | None:
        digit = read_digit(node)
        if digit is None:
            return None
        falling = not at_least(scale, 1)
        coefficient = scale * -1 if falling else scale
        if not at_least(coefficient, 1):
            return None
        bound = bounds(digit.source, self.box)
        if bound is not None:
            low, high = floor_div(bound.low, digit.divisor), floor_div(bound.high, digit.divisor)
            fits = digit.modulus is None or (at_least(low) and at_least(digit.modulus - 1 - high))
            if fits:
                return _Part(coefficient, digit, low, high, falling)
        if digit.modulus is None:
            return None
        return _Part(coefficient, digit, _ZERO, digit.modulus - 1, falling)

    def decompose(self, equation: _Equation) -> bool:
        """Read an equation as mixed radix; True when it is done with."""
        known, rest = self.split(equation.term)
        if not rest:
            self.solution.loose |= equation.origin
            return True
        if len(rest) == 1 and rest[0][0] is _ONE and rest[0][1].op == "bitxor":
            return self.cancel_xor(equation, known, rest[0][1])
        return self.places(equation, known, rest) or self.places(equation, known, _staircases(rest))

    def places(self, equation: _Equation, known: Term, rest: Sequence[tuple[Term, Term]]) -> bool:
        """Read an equation as its known part and places of a number."""
        parts: list[_Part] = []
        for scale, node in rest:
            part = self.part(scale, node)
            if part is None:
                return False
            parts.append(part)
            known = known + t.distributed(part.coefficient, part.high * -1 if part.falling else part.low)
        ordered = _ordered(parts)
        if not ordered:
            return False
        value = equation.value - known
        read = _mixed_radix(value, ordered)
        if read is None:
            return False
        units, remainder = read
        for n, (part, (unit, tight)) in enumerate(zip(ordered, units, strict=True)):
            if n == len(ordered) - 1:
                reach = t.distributed(part.coefficient, part.extent)
                tight = known is _ZERO and equation.extent is not None and at_least(reach - equation.extent)
            self.learn(part, unit, tight, equation.origin)
        if ordered[0].coefficient is not _ONE:
            self.solution.loose |= equation.origin
            self.solution.inner.append((_ZERO, remainder))
        return True

    def cancel_xor(self, equation: _Equation, known: Term, node: Term) -> bool:
        """From a ^ b with b known, a."""
        for mine, other in (node.args, tuple(reversed(node.args))):
            if not self.unknown(other):
                value = t.binary("bitxor", equation.value - known, other)
                self.pending.append(_Equation(value, mine, equation.origin))
                return True
        return False

    def learn(self, part: _Part, unit: Term, tight: bool, origin: frozenset[int]) -> None:
        value = part.high - unit if part.falling else part.low + unit
        digit = part.digit
        if not tight:
            self.solution.inner.append((_term(digit), value))
        if digit.source in self.extents and digit.divisor is _ONE and digit.modulus is None:
            self.solution.values.setdefault(digit.source, merged(value))
            return
        # A digit that was narrowed to the values it takes may stand for others outside of the image.
        whole = digit.modulus is None or (part.low is _ZERO and exact_quotient(part.extent, digit.modulus) is _ONE)
        known = _Known(digit, value, tight and whole, origin)
        if digit.source in self.closed:
            self.loosen([known])
        self.digits.setdefault(digit.source, []).append(known)

    def assemble(self, source: Term) -> None:
        """Put the digits of a source together, lowest first."""
        weight, total, top = _ONE, _ZERO, False
        used: list[_Known] = []
        candidates = self.digits[source]
        while not top:
            here = [k for k in candidates if k.digit.divisor is weight and k.digit.modulus is not _ONE]
            if not here:
                break
            whole = [k for k in here if k.digit.modulus is None]
            chosen = whole[0] if whole else max(here, key=_radix)
            used.append(chosen)
            total = total + t.distributed(weight, chosen.value)
            top = chosen.digit.modulus is None
            if chosen.digit.modulus is not None:
                weight = weight * chosen.digit.modulus
        if not used:
            return
        if not top:
            found = self.from_residue(source, total, weight, all(k.bounded for k in used))
            if found is None:
                used = [k for k in candidates if k.digit.divisor is _ONE]
                joined = _by_residues(used)
                found = None if joined is None else self.from_residue(source, *joined, False)
                self.loosen(used)
            if found is None:
                return
            source_part, total = found
        else:
            source_part = source
        self.closed.add(source)
        self.loosen([k for k in used if not (k.bounded or k.digit.modulus is None)])
        self.loosen([k for k in candidates if k not in used])
        origin = frozenset[int]().union(*(k.origin for k in used))
        if source_part in self.extents:
            self.solution.values.setdefault(source_part, merged(total))
        else:
            self.solution.inner.append((source_part, total))
            self.pending.append(_Equation(merged(total), source_part, origin))

    def from_residue(self, source: Term, residue: Term, modulus: Term, bounded: bool) -> tuple[Term, Term] | None:
        """A source, or what a factor prime to the modulus multiplies in it, from its residue."""
        known, rest = self.split(source)
        inner = t.linear(0, [(1, scale * node) for scale, node in rest])
        bound = bounds(inner, self.box)
        if bound is not None and at_least(modulus - (bound.high - bound.low + 1)):
            low = known + bound.low
            if low is not _ZERO:
                residue = low + modulo(residue - low, modulus)
            elif not bounded:
                residue = modulo(residue, modulus)
            return source, residue
        number = t.int_value(modulus)
        factor = math.gcd(*(c for c, _ in t.linear_parts(inner)[1]))
        if number is None or factor <= 1 or math.gcd(factor, number) != 1:
            return None
        part = exact_quotient(inner, t.index_const(factor))
        bound = None if part is None else bounds(part, self.box)
        if part is None or bound is None or not at_least(modulus - (bound.high - bound.low + 1)):
            return None
        scaled = t.distributed(residue - known, t.index_const(pow(factor, -1, number)))
        return part, bound.low + modulo(scaled - bound.low, modulus)


def _radix(known: _Known) -> int:
    number = None if known.digit.modulus is None else t.int_value(known.digit.modulus)
    return 0 if number is None else number


def _by_residues(known: Sequence[_Known]) -> tuple[Term, Term] | None:
    """What is known modulo several numbers, modulo their least common multiple."""
    modulus, parts = 1, list[tuple[int, Term]]()
    for k in sorted(known, key=_radix, reverse=True):
        number = _radix(k)
        whole = math.lcm(modulus, number)
        if not number or whole == modulus or whole > LARGEST_MODULUS:
            continue
        a, b = coprime_split(modulus, number)
        first, second = (whole // d * pow(whole // d, -1, d) for d in (a, b))
        parts = [*((c * first % whole, x) for c, x in parts), (second % whole, k.value)]
        modulus = whole
    return (t.linear(0, parts), t.index_const(modulus)) if len(parts) > 1 else None


def _ordered(parts: list[_Part]) -> list[_Part] | None:
    """The parts by weight, lowest first."""
    numbers = [t.int_value(p.coefficient) for p in parts]
    if all(n is not None for n in numbers):
        return sorted(parts, key=lambda p: t.int_value(p.coefficient) or 0)
    rest, result = list(parts), list[_Part]()
    while rest:
        least = [p for p in rest if all(exact_quotient(q.coefficient, p.coefficient) is not None for q in rest)]
        if len(least) != 1:
            return None
        result.append(least[0])
        rest.remove(least[0])
    return result


def _mixed_radix(value: Term, parts: Sequence[_Part]) -> tuple[list[tuple[Term, bool]], Term] | None:
    """The units of parts in order of weight, each with whether the radix is exactly its extent; and what is left."""
    result: list[tuple[Term, bool]] = []
    left = modulo(value, parts[0].coefficient)
    for n, part in enumerate(parts):
        if n == len(parts) - 1:
            result.append((floor_div(value, part.coefficient), False))
            break
        above = parts[n + 1].coefficient
        radix = exact_quotient(above, part.coefficient)
        if radix is not None and at_least(radix - part.extent):
            unit = modulo(floor_div(value, part.coefficient), radix)
            result.append((unit, radix is part.extent))
        elif _below(parts[: n + 1], above):
            read = _mixed_radix(modulo(value, above), parts[: n + 1])
            if read is None:
                return None
            result, left = read
        else:
            return None
    return result, left


def _below(parts: Sequence[_Part], weight: Term) -> bool:
    """Whether the largest sum of parts is below the weight of what follows."""
    return at_least(weight - 1 - t.linear(0, [(1, t.distributed(p.coefficient, p.extent - 1)) for p in parts]))


def _staircases(rest: Sequence[tuple[Term, Term]]) -> list[tuple[Term, Term]]:
    """Summands (coefficient, digit) of one source with digits that do not overlap; () where no sum has such digits.

    >>> i = t.var("i")
    >>> [(str(c), str(x)) for c, x in _staircases([(t.index_const(2), i), (_ONE, i // 4)])]
    [('2', 'i % 4'), ('9', 'i // 4')]
    """
    steps: dict[Term, dict[int, int]] = {}
    result: list[tuple[Term, Term]] = []
    for scale, node in rest:
        digit, c = static_digit(node), t.int_value(scale)
        if digit is None or c is None:
            result.append((scale, node))
            continue
        mine = steps.setdefault(digit.source, {})
        mine[digit.weight] = mine.get(digit.weight, 0) + c
        if digit.radix is not None:
            above = digit.weight * digit.radix
            mine[above] = mine.get(above, 0) - c * digit.radix
    for source, mine in steps.items():
        weights = sorted(mine)
        if any(high % low for low, high in pairwise(weights)):
            return []
        carried = 0
        for low, high in zip(weights, [*weights[1:], None], strict=True):
            carried += mine[low]
            place = source if low == 1 else t.binary("floordiv", source, low)
            if carried:
                result.append((t.index_const(carried), place if high is None else t.binary("mod", place, high // low)))
            carried *= 1 if high is None else high // low
    return result


def solve_digits(
    extents: Mapping[Term, Dim],
    outputs: Sequence[Term],
    values: Sequence[Term],
    declared: Sequence[Dim],
    ranges: Mapping[Term, tuple[int, int]] | None = None,
) -> Solution | None:
    """The inputs of `values[k] = outputs[k]` as terms over the values; None where digits do not explain the map.

    ranges: half-open ranges of inputs, where they are narrower than the extents.

    >>> i, a, b = t.var("i"), t.var("a"), t.var("b")
    >>> str(solve_digits({i: 14}, [i // 4, i % 4], [a, b], [4, 4]).values[i])
    '4*a + b'
    """
    solver = _solver(extents, outputs, values, declared, ranges or {})
    return solver.solution if solver.run() else None


def peeled(
    extents: Mapping[Term, Dim], outputs: Sequence[Term], values: Sequence[Term], declared: Sequence[Dim]
) -> list[tuple[Term, Term]]:
    """What is left of the equations of a map where its digits are put together, and digits, as (term, value).

    >>> i, a, b = t.var("i"), t.var("a"), t.var("b")
    >>> [(str(x), str(v)) for x, v in peeled({i: 99}, [(i ^ i // 2) // 4, (i ^ i // 2) % 4], [a, b], [32, 4])]
    [('i ^ i // 2', '4*a + b')]
    """
    solver = _solver(extents, outputs, values, declared, {})
    solver.run()
    left = [known for source, known in solver.digits.items() if source not in solver.closed]
    digits = [(k.digit, k.value) for known in left for k in known]
    return [*((e.term, e.value) for e in solver.pending), *((_term(digit), value) for digit, value in digits)]


def _term(digit: Digit) -> Term:
    whole = floor_div(digit.source, digit.divisor)
    return whole if digit.modulus is None else t.binary("mod", whole, digit.modulus)


def _solver(
    extents: Mapping[Term, Dim],
    outputs: Sequence[Term],
    values: Sequence[Term],
    declared: Sequence[Dim],
    ranges: Mapping[Term, tuple[int, int]],
) -> _Solver:
    equations = [
        _Equation(value, merged(output), frozenset([n]), t.as_index(extent))
        for n, (value, output, extent) in enumerate(zip(values, outputs, declared, strict=True))
    ]
    return _Solver(extents, equations, ranges)
