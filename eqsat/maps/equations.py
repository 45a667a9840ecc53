"""Solving the equations of an index map over numbers: each input as a term over the outputs.

Every step draws a consequence that holds wherever the outputs come from a point of the box: a sum is peeled from its
top (division) or its bottom (remainder, with a modular inverse), systems are eliminated over the fractions, modulo a
number, and over bits. So a map that is solved is injective. `eqsat.maps.solve` does the simpler half of this for
symbolic sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import NamedTuple

from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.maps.algebra import eliminate, odd_inverse
from eqsat.maps.bits import solve_bits
from eqsat.maps.facts import Claim, Facts
from eqsat.maps.forms import Form

ROUNDS = 64
WIDEST_BITS = 64
UNBOUNDED = 1 << 256  # the extent of what has none, above every number that occurs


class _Unit(NamedTuple):
    """A summand as a number from 0 upwards: coefficient * unit, and form = start + sign * unit."""

    coefficient: int
    extent: int
    form: Form
    start: Form
    sign: int

    def form_value(self, unit: Form) -> Form:
        return self.start + unit * self.sign


class Equations(Facts):
    """The solver: constraints are used until every input is known, or nothing more follows."""

    def solve(self) -> bool:
        """Whether every input is known."""
        for _ in range(ROUNDS):
            if all(x in self.known for x in self.sources):
                return True
            before = self.changes
            pending, self.pending = self.pending, []
            for c in pending:
                if not self.use(c):
                    self.pending.append(c)
            if self.pool:
                self.revisit()
            if self.forms.quotients:
                self.link()
            if self.changes == before and not self.combine():
                return False
        return False

    def values(self) -> dict[Term, Term]:
        """The inputs that are known, as terms over the outputs."""
        found = {v: self.value(v) for v in self.inputs}
        return {v: self.forms.term(x) for v, x in found.items() if x is not None}

    def unit(self, c: int, form: Form) -> _Unit | None:
        w = self.window(form)
        if w is None:
            end = form.low if c > 0 else form.high
            return None if end is None else _Unit(abs(c), UNBOUNDED, form, self.forms.number(end), 1 if c > 0 else -1)
        return _Unit(c, w.extent, form, w.low, 1) if c > 0 else _Unit(-c, w.extent, form, w.low + (w.extent - 1), -1)

    # -- constraints --------------------------------------------------------------------------------------------------

    def use(self, claim: Claim) -> bool:
        """Draw what follows from a constraint; True when it says nothing more."""
        known, rest = self.split(claim.form)
        if not rest:
            return True
        if claim.modulus:
            return self.use_residue(claim.low - known, rest, claim.modulus)
        low, extent = claim.low - known, claim.extent
        if len(rest) > 1:
            if extent == 1:
                return self.use_sum(low, rest)
            self.learn_window(self.forms.linear(0, rest), low, extent)
            return False
        (k, form) = rest[0]
        if k < 0:
            k, low = -k, (low + (extent - 1)) * -1
        if k > 1:
            low = self.div(low if extent == 1 else low + (k - 1), k)
            extent = -(-extent // k)
        return self.learn_window(form, low, extent)

    def use_sum(self, value: Form, rest: Sequence[tuple[int, Form]]) -> bool:
        units = [self.unit(c, form) for c, form in rest]
        found = [u for u in units if u is not None]
        if len(found) < len(units):
            return False
        for u in found:
            value = value - u.start * (u.coefficient * u.sign)
        return self.peel(value, found)

    def peel(self, value: Form, units: Sequence[_Unit]) -> bool:
        """value = sum of coefficient * unit: take off the units that division or remainder determines."""
        left = sorted((u for u in units if u.extent > 1), key=lambda u: u.coefficient)
        scale, progress = 1, False
        while left:
            common = gcd(*[u.coefficient // scale for u in left])
            if common > 1:
                value, scale = self.div(value, common), scale * common
            if len(left) == 1:
                self.solve_form(left[0].form, left[0].form_value(value))
                return True
            step = self._bottom(value, left, scale) or self._top(value, left, scale)
            if step is None:
                break
            unit, found, value, scale = step
            left.remove(unit)
            self.solve_form(unit.form, unit.form_value(found))
            progress = True
        for u in left:
            value = value + u.start * (u.coefficient // scale * u.sign)
        parts = [(u.coefficient // scale * u.sign, u.form) for u in left]
        if progress and left:
            self.push(self.forms.linear(0, parts), value)
            return True
        self.partial(value, parts, 0)
        return not left

    def _bottom(self, value: Form, left: Sequence[_Unit], scale: int) -> tuple[_Unit, Form, Form, int] | None:
        """A unit that the others leave alone modulo their common divisor."""
        for u in left:
            others = gcd(*[x.coefficient // scale for x in left if x is not u])
            c = u.coefficient // scale
            if u.extent <= others and gcd(c, others) == 1:
                found = self.mod(value if c == 1 else value * pow(c, -1, others), others)
                plain = c * (u.extent - 1) < others
                rest = self.div(value if plain else value - found * c, others)
                return u, found, rest, scale * others
        return None

    def _top(self, value: Form, left: Sequence[_Unit], scale: int) -> tuple[_Unit, Form, Form, int] | None:
        """The unit of the greatest coefficient, where the others together stay below it."""
        top, below = left[-1], left[:-1]
        c = top.coefficient // scale
        if sum([u.coefficient // scale * (u.extent - 1) for u in below]) >= c:
            return None
        return top, self.div(value, c), self.mod(value, c), scale

    def use_residue(self, value: Form, rest: Sequence[tuple[int, Form]], modulus: int) -> bool:
        whole = self.forms.linear(0, rest)
        if whole.atom is None:
            self.learn_residue(whole, modulus, value, pending=True)
        value, parts = self.flat_residue(value, rest, modulus)
        g = gcd(modulus, *[c for c, _ in parts])
        if not parts or modulus == g:
            return True
        if g > 1:
            value, modulus, parts = self.div(value, g), modulus // g, [(c // g, form) for c, form in parts]
        if len(parts) == 1:
            return self.single_residue(value, parts[0][0], parts[0][1], modulus)
        for coefficients in ([c if 2 * c <= modulus else c - modulus for c, _ in parts], [c for c, _ in parts]):
            found = [self.unit(c, form) for c, (_, form) in zip(coefficients, parts, strict=True)]
            units = [u for u in found if u is not None]
            if len(units) == len(found) and sum([u.coefficient * (u.extent - 1) for u in units]) < modulus:
                low = self.forms.linear(0, [(u.coefficient * u.sign, u.start) for u in units])
                total = self.forms.linear(0, [(c, form) for c, (_, form) in zip(coefficients, parts, strict=True)])
                exact = Claim(total, low + self.mod(value - low, modulus))
                if not self.use(exact):
                    self.pending.append(exact)
                return True
        self.partial(value, parts, modulus)
        return False

    def partial(self, value: Form, parts: Sequence[tuple[int, Form]], modulus: int) -> None:
        """What a sum that stays unsolved says about each summand, modulo what is common to the others; modulus 0: the
        sum is the value."""
        steps = [self.residues.get(form) for _, form in parts]
        for n, (c, form) in enumerate(parts):
            rest = [(d, r) for m, ((d, _), r) in enumerate(zip(parts, steps, strict=True)) if m != n]
            others = gcd(modulus, *[d * (1 if r is None else r.modulus) for d, r in rest])
            g = gcd(c, others)
            if others // g > 1:
                left = self.forms.linear(0, [(1, value), *((-d, r.value) for d, r in rest if r is not None)])
                self.learn_residue(form, others // g, self.div(left, g) * pow(c // g, -1, others // g))

    def flat_residue(
        self, value: Form, rest: Sequence[tuple[int, Form]], modulus: int
    ) -> tuple[Form, list[tuple[int, Form]]]:
        """The sum modulo a number, remainders by its multiples left out of it."""
        forms = self.forms
        total = forms.linear(0, rest)
        for _ in range(8):
            opened: list[tuple[int, Form]] = []
            for a, c in total.parts:
                atom = forms.atoms[a]
                if c % modulus:
                    plain = atom.op != "%" or c * atom.number % modulus
                    opened.append((c, atom.form if plain else atom.args[0]))
            again = forms.linear(0, opened)
            value, again = value - again.constant, again - again.constant
            if again is total:
                break
            total = again
        known, parts = self.split(total)
        return value - known, [(c % modulus, form) for c, form in parts if c % modulus]

    def single_residue(self, value: Form, c: int, form: Form, modulus: int) -> bool:
        """c * form = value (mod modulus), c prime to it."""
        value = value * pow(c, -1, modulus)
        atom, powers = form.atom, modulus & (modulus - 1) == 0
        if atom is not None and powers and atom.op == "prod":
            factors = [self.forms.term(f) for f in atom.args if not f.unknown]
            rest = [f for f in atom.args if f.unknown]
            inverse = odd_inverse(factors, modulus, Bounds(self.cells))
            if len(rest) == 1 and inverse is not None:
                found = self.forms.read(t.product([self.forms.term(value), inverse]))
                self.push(rest[0], self.mod(found, modulus), modulus=modulus)
                return True
        self.learn_residue(form, modulus, value)
        if atom is not None and powers and atom.op == "bitxor":
            for mine, other in (atom.args, tuple(reversed(atom.args))):
                if not other.unknown:
                    term = self.forms.term
                    both = t.binary("bitxor", term(self.mod(value, modulus)), term(self.mod(other, modulus)))
                    self.push(mine, self.forms.read(both), modulus=modulus)
                    return True
        return form in self.sources

    # -- several equations at once ------------------------------------------------------------------------------------

    def combine(self) -> bool:
        """Linear elimination over the fractions, over residues, and over bits."""
        before = self.changes
        systems: dict[int, list[tuple[dict[Form, int], Form]]] = {}
        for c in self.pending:
            if c.extent == 1:
                known, rest = self.split(c.form)
                systems.setdefault(c.modulus, []).append(({form: k for k, form in rest}, c.low - known))
        for modulus, rows in systems.items():
            for factor, form, combination in eliminate([row for row, _ in rows], modulus):
                value = self.forms.linear(0, [(k, rows[n][1]) for n, k in combination])
                if modulus:
                    self.use_residue(value, [(factor, form)], modulus)
                else:
                    self.solve_form(form, self.div(value, factor))
        if self.changes == before:
            self.by_bits()
        return self.changes > before

    def exceeding(self) -> list[tuple[Form, int, int]]:
        """Values of solved forms that may leave the interval of these, [low, stop): no point goes to a cell where one
        does."""
        result: list[tuple[Form, int, int]] = []
        for form, value in self.known.items():
            if form in self.sources or form.low is None or form.high is None:
                continue
            if value.low is None or value.high is None or value.low < form.low or value.high > form.high:
                result.append((value, form.low, form.high + 1))
        return result

    def excluded(self) -> list[Term]:
        """What never holds at a cell that a point goes to."""
        result: list[Term] = []
        for value, low, stop in self.exceeding():
            term = self.forms.term(value)
            if value.low is None or value.low < low:
                result.append(t.compare("lt", term, low))
            if value.high is None or value.high >= stop:
                result.append(t.compare("le", t.index_const(stop), term))
        return result

    def by_bits(self) -> None:
        """Values that the bits of the equations determine."""
        term, read = self.forms.term, self.forms.read
        equations = [(term(self.inside(form)), term(value)) for form, value in self.pool]
        for c in self.pending:
            known, rest = self.split(c.form)
            if c.extent == 1 and not c.modulus and not known.parts and not known.constant:
                equations.append((term(self.forms.linear(0, rest)), term(c.low)))

        def width(x: Term) -> int | None:
            low, high = self.limits.of(x)
            return None if low is None or high is None or low < 0 else min(high.bit_length(), WIDEST_BITS)

        for atom, value in solve_bits(equations, lambda x: read(x).unknown, width).items():
            self.solve_form(read(atom), read(value))
