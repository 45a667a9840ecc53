"""What is known about the forms of an index map while its equations are solved: windows, residues, values.

A window says that a form lies in [low, low + extent), low a form over the outputs; a residue gives its remainder modulo
a number. A window that is no wider than a known modulus gives the value; residues are joined by the Chinese remainder
theorem; what is known of x // a says something about x // (a*b), and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

import numpy as np

from eqsat.ir.cached import cached_property
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import Table, table_load
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.maps.algebra import coprime_split
from eqsat.maps.forms import Atom, Form, Forms

LARGEST_TABLE = 1 << 22
LARGEST_MODULUS = 1 << 40  # greater ones would overflow 64 bits when residues are joined


class Window(NamedTuple):
    """low <= x < low + extent."""

    low: Form
    extent: int


class Residue(NamedTuple):
    """x = value (mod modulus)."""

    modulus: int
    value: Form


@dataclass(frozen=True, eq=False)
class Constraint:
    """low <= term < low + extent; with a modulus: term = low (mod modulus)."""

    term: Term
    low: Term
    extent: int = 1
    modulus: int = 0


class Claim(NamedTuple):
    """A constraint on forms."""

    form: Form
    low: Form
    extent: int = 1
    modulus: int = 0


class Facts:
    """What constraints say about inputs within half-open ranges; `cells` are the ranges of the outputs' variables.

    `ranges` may hold ranges of other terms over the inputs as well; an input or output of symbolic extent has none.
    """

    def __init__(
        self,
        inputs: Sequence[Term],
        ranges: Mapping[Term, tuple[int, int]],
        cells: Mapping[Term, tuple[int, int]],
        constraints: Sequence[Constraint],
    ) -> None:
        self.cells = cells
        self.forms = Forms({**ranges, **cells}, inputs)
        read = self.forms.read
        self.inputs = list(inputs)
        self.sources = {form for form in map(read, inputs) if form.parts}
        self.windows: dict[Form, Window] = {}
        self.residues: dict[Form, Residue] = {}
        self.known: dict[Form, Form] = {}
        self.pool: list[tuple[Form, Form]] = []
        self.changes = 0
        self._reduced: dict[int, Form] = {}
        self.pending: list[Claim] = []
        for c in constraints:
            form, low = read(c.term), read(c.low)
            if form in self.sources and c.extent == 1 and not c.modulus:
                self.known.setdefault(form, low)
            else:
                self.pending.append(Claim(form, low, c.extent, c.modulus))
        for x, (low, stop) in ranges.items():
            if stop - low == 1:
                form = read(x)
                if form.unknown:
                    self.pending.append(Claim(form, self.forms.number(low)))

    @cached_property
    def limits(self) -> Bounds:
        """The intervals of terms."""
        return Bounds(self.forms.ranges)

    def value(self, v: Term) -> Form | None:
        """The value of an input, if it is known."""
        form = self.forms.read(v)
        return self.known.get(form) if form.unknown else form

    def push(self, form: Form, low: Form, extent: int = 1, modulus: int = 0) -> None:
        self.pending.append(Claim(form, low, extent, modulus))
        self.changes += 1

    def mod(self, value: Form, modulus: int) -> Form:
        return self.forms.mod(value, modulus)

    def div(self, value: Form, divisor: int) -> Form:
        return self.forms.div(value, divisor)

    # -- reading ------------------------------------------------------------------------------------------------------

    def reduce(self, form: Form) -> Form:
        """The form with everything known replaced."""
        if not form.unknown:
            return form
        summands = [(c, self._reduced_atom(a)) for a, c in form.parts]
        return self.forms.linear(form.constant, summands)

    def _reduced_atom(self, a: int) -> Form:
        found = self._reduced.get(a)
        if found is not None:
            return found
        atom, forms = self.forms.atoms[a], self.forms
        itself = atom.form
        result = self.known.get(itself)
        if result is None:
            result = itself
            if atom.unknown and atom.op in ("//", "%"):
                x = self.reduce(atom.args[0])
                residue = self.residues.get(x - x.constant) if atom.op == "%" else None
                if residue is not None and residue.modulus % atom.number == 0:
                    result = forms.mod(residue.value + x.constant, atom.number)
                elif x is not atom.args[0]:
                    result = forms.div(x, atom.number) if atom.op == "//" else forms.mod(x, atom.number)
            elif atom.unknown and atom.args:
                result = self.inside(itself)
            elif atom.unknown and atom.term is not None and atom.op != "leaf":
                result = self._substituted(atom.term)
            result = self.known.get(result, result)
        self._reduced[a] = result
        return result

    def inside(self, form: Form) -> Form:
        """A form that is an operation of its own kind, with what is known of its arguments replaced."""
        atom = form.atom
        args = [] if atom is None else [self.reduce(x) for x in atom.args]
        if atom is None or atom.term is None or all(x is y for x, y in zip(args, atom.args, strict=True)):
            return form
        return self.forms.read(t.rebuild(atom.term, [self.forms.term(x) for x in args]))

    def _substituted(self, term: Term) -> Form:
        term_of = self.forms.term
        table = {term_of(x): term_of(value) for x, value in self.known.items()}
        return self.forms.read(substitute(term, table))

    def split(self, form: Form) -> tuple[Form, list[tuple[int, Form]]]:
        """A sum as its known part and the summands that are not."""
        form = self.reduce(form)
        atoms, known_form = self.forms.atoms, self.forms.known_form
        if not form.unknown:
            return form, []
        known = known_form(form.constant, tuple([p for p in form.parts if not atoms[p[0]].unknown]))
        return known, [(c, atoms[a].form) for a, c in form.parts if atoms[a].unknown]

    def window(self, form: Form) -> Window | None:
        """The narrowest range known for a form without constant."""
        found = self.windows.get(form)
        low, high = form.low, form.high
        if low is None or high is None:
            return found
        if found is None or found.extent >= high - low + 1:
            return Window(self.forms.number(low), high - low + 1)
        return found

    # -- facts --------------------------------------------------------------------------------------------------------

    def value_of(self, form: Form) -> Form | None:
        """The known value of a form."""
        bare = form - form.constant
        found = self.known.get(bare)
        if found is None and (window := self.windows.get(bare)) is not None and window.extent == 1:
            found = window.low
        return None if found is None else found + form.constant

    def window_of(self, form: Form) -> Window | None:
        found = self.windows.get(form - form.constant)
        return None if found is None else Window(found.low + form.constant, found.extent)

    def residue_of(self, form: Form) -> Residue | None:
        found = self.residues.get(form - form.constant)
        return None if found is None else Residue(found.modulus, found.value + form.constant)

    def learn_window(self, form: Form, low: Form, extent: int) -> bool:
        low, form = low - form.constant, form - form.constant
        if extent == 1:
            self.solve_form(form, low)
            return True
        have = self.window(form)
        if have is None or extent < have.extent:
            self.windows[form] = Window(low, extent)
            self.changes += 1
            if form.atom is None:
                self.push(form, low, extent)
            self.finish(form)
        return form in self.sources

    def learn_residue(self, form: Form, modulus: int, value: Form, pending: bool = False) -> None:
        """form = value (mod modulus); `pending`: a constraint says so already."""
        value, form = value - form.constant, form - form.constant
        have, given = self.residues.get(form), modulus
        if have is not None:
            if have.modulus % modulus == 0:
                return
            if modulus % have.modulus:
                whole = lcm(have.modulus, modulus)
                if whole > LARGEST_MODULUS:
                    return
                a, b = coprime_split(have.modulus, modulus)
                first, second = whole // a * pow(whole // a, -1, a), whole // b * pow(whole // b, -1, b)
                modulus, value = whole, have.value * (first % whole) + value * (second % whole)
        self.residues[form] = Residue(modulus, value)
        self.changes += 1
        self._reduced.clear()
        if form.atom is None and not (pending and modulus == given):
            self.push(form, value, modulus=modulus)
        self.finish(form)

    def finish(self, form: Form) -> None:
        """A form known modulo a number that is no smaller than its window is known."""
        residue, window = self.residues.get(form), self.window(form)
        if residue is None or window is None or window.extent > residue.modulus or window.extent == 1:
            return
        self.solve_form(form, window.low + self.mod(residue.value - window.low, residue.modulus))

    def solve_form(self, form: Form, value: Form) -> None:
        """Note the value of a form, and what it says about the forms inside."""
        value, form = value - form.constant, form - form.constant
        if self.value_of(form) is not None:
            return
        self.changes += 1
        self._reduced.clear()
        atom = form.atom
        if atom is None:
            self.windows[form] = Window(value, 1)
            self.push(form, value)
            return
        self.known[form] = value
        if form in self.sources:
            return
        if atom.op in ("//", "%"):
            self.solve_digit(atom, value)
        elif atom.op == "load" and atom.term is not None and isinstance(atom.term.payload, Table):
            self.invert_table(atom.term.payload, atom.args[0], value)
        else:
            self.pool.append((form, value))

    def solve_digit(self, atom: Atom, value: Form) -> None:
        """From the quotient of x, or its remainder, what it says about x, which both together give."""
        x, number = atom.args[0], atom.number
        if atom.op == "//":
            rest = self.known.get(self.forms.mod(x, number))
            if rest is not None:
                self.solve_form(x, value * number + rest)
            else:
                self.push(x, value * number, number)
        else:
            above = self.forms.div(x, number)
            quotient = self.known.get(above - above.constant)
            if quotient is not None:
                self.solve_form(x, (quotient + above.constant) * number + value)
            else:
                self.push(x, value, modulus=number)

    def invert_table(self, source: Table, index: Form, value: Form) -> None:
        """From table[index] = value, the index by the table of the inverse."""
        low, high = index.low, index.high
        if low is None or high is None or low < 0 or high >= len(source.array):
            return
        used = source.array[low : high + 1]
        first, last = int(used.min()), int(used.max())
        if last - first >= LARGEST_TABLE or len(np.unique(used)) < len(used):
            return
        back = np.full(last - first + 1, low, np.int64)
        back[used - first] = np.arange(low, high + 1)
        at = value - first
        place = self.forms.term(at)
        if at.low is None or at.low < 0:
            place = t.binary("max", place, 0)
        if at.high is None or at.high > last - first:
            place = t.binary("min", place, last - first)
        self.push(index, self.forms.read(table_load(back, place)))

    def revisit(self) -> None:
        """Forms of known value that are not solved for what is inside: a ^ b with one side known, products."""
        pool, self.pool = self.pool, []
        for form, value in pool:
            atom = form.atom
            args = [] if atom is None else [self.reduce(a) for a in atom.args]
            unknown = [a for a in args if a.unknown]
            if not unknown and args:
                continue
            if atom is not None and len(unknown) == 1:
                others = [self.forms.term(a) for a in args if a is not unknown[0]]
                if atom.op == "bitxor" and others:
                    found = t.binary("bitxor", self.forms.term(value), others[0])
                    self.push(unknown[0], self.forms.read(found))
                    continue
                if atom.op == "prod" and others:
                    other = self.forms.read(t.product(others))
                    if other.low is not None and other.low >= 1:
                        found = t.binary("floordiv", self.forms.term(value), self.forms.term(other))
                        self.push(unknown[0], self.forms.read(found))
                        continue
            self.pool.append((form, value))

    # -- digits of one source -----------------------------------------------------------------------------------------

    def link(self) -> None:
        """What is known of x // a says something about x // (a*b), and the other way round."""
        for chain in list(self.forms.quotients.values()):
            weights = sorted(chain)
            for n, c in enumerate(weights):
                for a in weights[:n]:
                    if c % a == 0 and (self.value_of(chain[a]) is None or self.value_of(chain[c]) is None):
                        self.link_pair(chain[a], chain[c], c // a)

    def link_pair(self, base: Form, quotient: Form, ratio: int) -> None:
        exact, above = self.value_of(base), self.value_of(quotient)
        if exact is not None:
            self.solve_form(quotient, self.div(exact, ratio))
            return
        if above is not None:
            self.learn_window(base, above * ratio, ratio)
            return
        low, high = self.residue_of(base), self.residue_of(quotient)
        if low is not None and low.modulus % ratio == 0:
            if low.modulus > ratio:
                self.learn_residue(quotient, low.modulus // ratio, self.div(self.mod(low.value, low.modulus), ratio))
            if high is not None and low.modulus % (ratio * high.modulus):
                digit = self.mod(high.value, high.modulus)
                self.learn_residue(base, ratio * high.modulus, self.mod(low.value, ratio) + digit * ratio)
        wide = self.window_of(quotient)
        if wide is not None:
            self.learn_window(base, wide.low * ratio, wide.extent * ratio)
        wide = self.window_of(base)
        if wide is not None:
            aligned = wide.low.constant % ratio == 0 and all(c % ratio == 0 for _, c in wide.low.parts)
            count = -(-wide.extent // ratio) if aligned else (wide.extent + ratio - 2) // ratio + 1
            self.learn_window(quotient, self.div(wide.low, ratio), count)
