"""Solving the equations of an index map over numbers: each input as a term over the outputs.

Every step draws a consequence that holds wherever the outputs come from a point of the box: a sum is peeled from its
top (division) or its bottom (remainder, with a modular inverse), systems are eliminated over the fractions, modulo a
number, and over bits. So a map that is solved is injective. `eqsat.ir.map_solve` does the simpler half of this for
symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from eqsat.ir import term as t
from eqsat.ir.bounds import Bounds
from eqsat.ir.map_algebra import eliminate, odd_inverse
from eqsat.ir.map_bits import solve_bits
from eqsat.ir.map_facts import Constraint, Facts
from eqsat.ir.term import Term

_ZERO = t.index_const(0)
ROUNDS = 64
WIDEST_BITS = 64
UNBOUNDED = 1 << 256  # the extent of what has none, above every number that occurs


@dataclass(frozen=True, eq=False)
class _Unit:
    """A summand as a number from 0 upwards: coefficient * unit, and node = start + sign * unit."""

    coefficient: int
    extent: int
    node: Term
    start: Term
    sign: int

    def node_value(self, unit: Term) -> Term:
        return self.start + unit * self.sign


class Equations(Facts):
    """The solver: constraints are used until every input is known, or nothing more follows."""

    def solve(self) -> dict[Term, Term] | None:
        """Every input as a term over the outputs, or None."""
        for _ in range(ROUNDS):
            if all(v in self.known for v in self.inputs):
                return {v: self.known[v] for v in self.inputs}
            before = self.changes
            pending, self.pending = self.pending, []
            for c in pending:
                if not self.use(c):
                    self.pending.append(c)
            self.revisit()
            if self._digits:
                self.link()
            if self.changes == before and not self.combine():
                return None
        return None

    def unit(self, c: int, node: Term) -> _Unit | None:
        w = self.window(node)
        if w is None:
            low, high = self.inside.of(node)
            end = low if c > 0 else high
            return None if end is None else _Unit(abs(c), UNBOUNDED, node, t.index_const(end), 1 if c > 0 else -1)
        return _Unit(c, w.extent, node, w.low, 1) if c > 0 else _Unit(-c, w.extent, node, w.low + (w.extent - 1), -1)

    # -- constraints --------------------------------------------------------------------------------------------------

    def use(self, c: Constraint) -> bool:
        """Draw what follows from a constraint; True when it says nothing more."""
        known, rest = self.split(c.term)
        if not rest:
            return True
        if c.modulus:
            return self.use_residue(c.low - known, rest, c.modulus)
        low, extent = c.low - known, c.extent
        if len(rest) > 1:
            if extent == 1:
                return self.use_sum(low, rest)
            self.learn_window(t.linear(0, rest), low, extent)
            return False
        (k, node) = rest[0]
        if k < 0:
            k, low = -k, (low + (extent - 1)) * -1
        if k > 1:
            low = self.div(low if extent == 1 else low + (k - 1), k)
            extent = -(-extent // k)
        return self.learn_window(node, low, extent)

    def use_sum(self, value: Term, rest: Sequence[tuple[int, Term]]) -> bool:
        units = [self.unit(c, node) for c, node in rest]
        found = [u for u in units if u is not None]
        if len(found) < len(units):
            return False
        for u in found:
            value = value - u.start * (u.coefficient * u.sign)
        return self.peel(value, found)

    def peel(self, value: Term, units: Sequence[_Unit]) -> bool:
        """value = sum of coefficient * unit: take off the units that division or remainder determines."""
        left = sorted((u for u in units if u.extent > 1), key=lambda u: u.coefficient)
        scale, progress = 1, False
        while left:
            common = gcd(*(u.coefficient // scale for u in left))
            if common > 1:
                value, scale = self.div(value, common), scale * common
            if len(left) == 1:
                self.solve_node(left[0].node, left[0].node_value(value))
                return True
            step = self._bottom(value, left, scale) or self._top(value, left, scale)
            if step is None:
                break
            unit, found, value, scale = step
            left.remove(unit)
            self.solve_node(unit.node, unit.node_value(found))
            progress = True
        if progress and left:
            rest = t.linear(0, [(u.coefficient // scale * u.sign, u.node) for u in left])
            for u in left:
                value = value + u.start * (u.coefficient // scale * u.sign)
            self.push(Constraint(rest, value))
            return True
        for u in left:
            value = value + u.start * (u.coefficient // scale * u.sign)
        self.partial(value, [(u.coefficient // scale * u.sign, u.node) for u in left], 0)
        return not left

    def _bottom(self, value: Term, left: Sequence[_Unit], scale: int) -> tuple[_Unit, Term, Term, int] | None:
        """A unit that the others leave alone modulo their common divisor."""
        for u in left:
            others = gcd(*(x.coefficient // scale for x in left if x is not u))
            c = u.coefficient // scale
            if gcd(c, others) == 1 and u.extent <= others:
                found = self.mod(value * pow(c, -1, others), others)
                plain = c * (u.extent - 1) < others
                rest = self.div(value if plain else value - found * c, others)
                return u, found, rest, scale * others
        return None

    def _top(self, value: Term, left: Sequence[_Unit], scale: int) -> tuple[_Unit, Term, Term, int] | None:
        """The unit of the greatest coefficient, where the others together stay below it."""
        top, below = left[-1], left[:-1]
        c = top.coefficient // scale
        if sum(u.coefficient // scale * (u.extent - 1) for u in below) >= c:
            return None
        return top, self.div(value, c), self.mod(value, c), scale

    def use_residue(self, value: Term, rest: Sequence[tuple[int, Term]], modulus: int) -> bool:
        whole = t.linear(0, rest)
        if whole.op == "sum":
            self.learn_residue(whole, modulus, value, pending=True)
        value, parts = self.flat_residue(value, rest, modulus)
        g = gcd(modulus, *(c for c, _ in parts))
        if not parts or modulus == g:
            return True
        if g > 1:
            value, modulus, parts = self.div(value, g), modulus // g, [(c // g, node) for c, node in parts]
        if len(parts) == 1:
            return self.single_residue(value, parts[0][0], parts[0][1], modulus)
        for coefficients in ([c if 2 * c <= modulus else c - modulus for c, _ in parts], [c for c, _ in parts]):
            found = [self.unit(c, node) for c, (_, node) in zip(coefficients, parts, strict=True)]
            units = [u for u in found if u is not None]
            if len(units) == len(found) and sum(u.coefficient * (u.extent - 1) for u in units) < modulus:
                low = _ZERO
                for u in units:
                    low = low + u.start * (u.coefficient * u.sign)
                total = t.linear(0, [(c, node) for c, (_, node) in zip(coefficients, parts, strict=True)])
                exact = Constraint(total, low + self.mod(value - low, modulus))
                if not self.use(exact):
                    self.pending.append(exact)
                return True
        self.partial(value, parts, modulus)
        return False

    def partial(self, value: Term, parts: Sequence[tuple[int, Term]], modulus: int) -> None:
        """What a sum that stays unsolved says about each summand, modulo what is common to the others; modulus 0: the
        sum is the value."""
        steps = [self.residues.get(node) for _, node in parts]
        for n, (c, node) in enumerate(parts):
            rest = [(d, r) for m, ((d, _), r) in enumerate(zip(parts, steps, strict=True)) if m != n]
            others = gcd(modulus, *(d * (1 if r is None else r.modulus) for d, r in rest))
            g = gcd(c, others)
            if others // g > 1:
                left = value - sum((r.value * d for d, r in rest if r is not None), _ZERO)
                self.learn_residue(node, others // g, self.div(left, g) * pow(c // g, -1, others // g))

    def flat_residue(
        self, value: Term, rest: Sequence[tuple[int, Term]], modulus: int
    ) -> tuple[Term, list[tuple[int, Term]]]:
        """The sum modulo a number, remainders by its multiples left out of it."""
        total = t.linear(0, rest)
        for _ in range(8):
            parts = t.linear_parts(total)[1]
            opened = [
                (c, node.args[0] if c * m % modulus == 0 else node)
                for c, node in parts
                for m in [(t.int_value(node.args[1]) or 1) if node.op == "mod" else 1]
                if c % modulus
            ]
            again = t.linear(0, opened)
            constant, _ = t.linear_parts(again)
            value, again = value - constant, again - constant
            if again is total:
                break
            total = again
        known, parts = self.split(total)
        return value - known, [(c % modulus, node) for c, node in parts if c % modulus]

    def single_residue(self, value: Term, c: int, node: Term, modulus: int) -> bool:
        """c * node = value (mod modulus), c prime to it."""
        value = value * pow(c, -1, modulus)
        if node.op == "prod" and modulus & (modulus - 1) == 0:
            factors = [f for f in node.args if not self.unknown(f)]
            rest = [f for f in node.args if self.unknown(f)]
            inverse = odd_inverse(factors, modulus, self.outside)
            if len(rest) == 1 and inverse is not None:
                self.push(Constraint(rest[0], self.mod(value * inverse, modulus), modulus=modulus))
                return True
        self.learn_residue(node, modulus, value)
        if node.op == "bitxor" and modulus & (modulus - 1) == 0:
            for mine, other in (node.args, tuple(reversed(node.args))):
                if not self.unknown(other):
                    found = t.binary("bitxor", self.mod(value, modulus), self.mod(other, modulus))
                    self.push(Constraint(mine, found, modulus=modulus))
                    return True
        return node in self._inputs

    # -- several equations at once ------------------------------------------------------------------------------------

    def combine(self) -> bool:
        """Linear elimination over the fractions, over residues, and over bits."""
        before = self.changes
        systems: dict[int, list[tuple[dict[Term, int], Term]]] = {}
        for c in self.pending:
            if c.extent == 1:
                known, rest = self.split(c.term)
                systems.setdefault(c.modulus, []).append(({node: k for k, node in rest}, c.low - known))
        for modulus, rows in systems.items():
            for factor, node, value in eliminate(rows, modulus):
                if modulus:
                    self.use_residue(value, [(factor, node)], modulus)
                else:
                    self.solve_node(node, self.div(value, factor))
        if self.changes == before:
            self.by_bits()
        return self.changes > before

    def excluded(self) -> list[Term]:
        """What never holds at a cell that a point goes to: a solved term outside of the interval of its values."""
        result: list[Term] = []
        for node, value in self.known.items():
            (low, high), (least, most) = self.inside.of(node), self.outside.of(value)
            if node in self._inputs or low is None or high is None:
                continue
            if least is None or least < low:
                result.append(t.compare("lt", value, low))
            if most is None or most > high:
                result.append(t.compare("lt", high, value))
        return result

    def by_bits(self) -> None:
        equations = [(t.rebuild(node, [self.reduce(a) for a in node.args]), value) for node, value in self.pool]
        for c in self.pending:
            known, rest = self.split(c.term)
            if c.extent == 1 and not c.modulus and known is _ZERO:
                equations.append((t.linear(0, rest), c.low))

        def width(bounds: Bounds, x: Term) -> int | None:
            low, high = bounds.of(x)
            return None if low is None or high is None or low < 0 else min(high.bit_length(), WIDEST_BITS)

        found = solve_bits(
            equations, self.unknown, lambda x: width(self.inside if self.unknown(x) else self.outside, x)
        )
        for atom, value in found.items():
            self.solve_node(atom, value)
