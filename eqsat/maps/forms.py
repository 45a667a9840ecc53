"""Linear forms for solving index maps: sums of atoms with numbers as coefficients, interned, with their intervals.

What terms are for the language, forms are for the solver: a form knows at once how large it can be and whether an
unknown input occurs in it. An atom is a leaf, a quotient or a remainder by a number, or any other operation, kept as a
term. Forms are kept normal: quotients and remainders are worked out as far as intervals and divisibility say.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import gcd

from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size, free_variables

LARGEST_SHIFT = 63


class Atom:
    """What forms are sums of; `op` is "leaf", "//" or "%" (of args[0] by `number`), or that of `term`."""

    __slots__ = ("args", "form", "high", "low", "number", "op", "term", "unknown")
    form: Form

    def __init__(self, op: str, args: tuple[Form, ...], number: int, term: Term | None, unknown: bool) -> None:
        self.op, self.args, self.number, self.term, self.unknown = op, args, number, term, unknown
        self.low: int | None = None
        self.high: int | None = None


class Form:
    """constant + sum of coefficient * atom, `parts` as (atom, coefficient); equal forms are the same object."""

    __slots__ = ("arena", "constant", "high", "low", "parts", "unknown")

    def __init__(self, arena: Forms, constant: int, parts: tuple[tuple[int, int], ...]) -> None:
        self.arena, self.constant, self.parts = arena, constant, parts
        low: int | None = constant
        high: int | None = constant
        unknown = False
        for a, c in parts:
            atom = arena.atoms[a]
            first, last = (atom.low, atom.high) if c > 0 else (atom.high, atom.low)
            low = None if low is None or first is None else low + c * first
            high = None if high is None or last is None else high + c * last
            unknown = unknown or atom.unknown
        self.low, self.high, self.unknown = low, high, unknown

    def __add__(self, other: Form | int) -> Form:
        if isinstance(other, int):
            return self if not other else self.arena.known_form(self.constant + other, self.parts)
        if not other.parts:
            return self + other.constant
        return self.arena.linear(0, ((1, self), (1, other))) if self.parts else other + self.constant

    def __sub__(self, other: Form | int) -> Form:
        if isinstance(other, int):
            return self if not other else self.arena.known_form(self.constant - other, self.parts)
        if not other.parts:
            return self - other.constant
        return self.arena.linear(0, ((1, self), (-1, other)))

    def __mul__(self, factor: int) -> Form:
        return self if factor == 1 else self.arena.linear(0, ((factor, self),))

    @property
    def atom(self) -> Atom | None:
        """The atom that this form is, if it is one."""
        if self.constant or len(self.parts) != 1 or self.parts[0][1] != 1:
            return None
        return self.arena.atoms[self.parts[0][0]]

    def inside(self, size: int) -> bool:
        """Whether all values lie in [0, size)."""
        return self.low is not None and self.high is not None and self.low >= 0 and self.high < size

    def __str__(self) -> str:
        return str(self.arena.term(self))


class Forms:
    """The forms over inputs and outputs with half-open ranges; `ranges` may hold ranges of other terms as well.

    >>> i = t.var("i")
    >>> forms = Forms({i: (0, 64)}, [i])
    >>> [str(forms.read(x)) for x in (i // 4 * 4 + i % 4, (8 * i + 3) // 4, (i * 6 + 3) % 4, i // 4 // 16)]
    ['i', '2*i', '(6*i + 3) % 4', '0']
    """

    def __init__(self, ranges: Mapping[Term, tuple[int, int]], inputs: Iterable[Term]) -> None:
        self.atoms: list[Atom] = []
        self.inputs, self.ranges = frozenset(inputs), ranges
        self._limits: Bounds | None = None
        self._forms: dict[tuple[int, tuple[tuple[int, int], ...]], Form] = {}
        self._index: dict[tuple[str, Form, int], int] = {}
        self._read: dict[int, Form] = {}
        self._terms: dict[int, Term] = {}
        self.restricted = False
        self.quotients: dict[Form, dict[int, Form]] = {}
        for x, (low, stop) in ranges.items():
            if x.op not in ("var", "axis", "sym") and x.dtype == t.INDEX:
                self._restrict(self.read(x), low, stop - 1)

    def _restrict(self, form: Form, low: int, high: int) -> None:
        """Note the range of a term that is not a leaf."""
        bare = form - form.constant
        for x, start in ((form, 0), (bare, form.constant), (bare.atom, form.constant)):
            if x is not None:
                x.low = low - start if x.low is None else max(low - start, x.low)
                x.high = high - start if x.high is None else min(high - start, x.high)
        self.restricted = True

    # -- building -----------------------------------------------------------------------------------------------------

    def number(self, value: int) -> Form:
        return self.known_form(value, ())

    def known_form(self, constant: int, parts: tuple[tuple[int, int], ...]) -> Form:
        """The form of parts that are sorted and merged."""
        found = self._forms.get((constant, parts))
        if found is None:
            found = self._forms[constant, parts] = Form(self, constant, parts)
            if constant and self.restricted:
                bare = self.known_form(0, parts)
                found.low = None if bare.low is None else bare.low + constant
                found.high = None if bare.high is None else bare.high + constant
        return found

    def linear(self, constant: int, summands: Sequence[tuple[int, Form]]) -> Form:
        """constant + sum of coefficient * form, split digits put together."""
        table: dict[int, int] = {}
        digits = False
        for k, form in summands:
            constant += k * form.constant
            for a, c in form.parts:
                table[a] = table.get(a, 0) + k * c
                digits = digits or self.atoms[a].args != ()
        return self._from_table(constant, table, digits)

    def _from_table(self, constant: int, table: dict[int, int], digits: bool = True) -> Form:
        parts = tuple(sorted([part for part in table.items() if part[1]]) if len(table) > 1 else
                      [part for part in table.items() if part[1]])  # fmt: skip
        found = self._forms.get((constant, parts))
        if found is not None:
            return found
        if digits and len(parts) > 1:
            merged = self._merged(constant, dict(parts))
            if merged is not None:
                return merged
        return self.known_form(constant, parts)

    def _merged(self, constant: int, table: dict[int, int]) -> Form | None:
        """c*r*(x // r) + c*(x % r) as c*x; c*r*(x // r % m) + c*(x % r) as c*(x % (r*m)); c*x - c*(x % r) as
        c*r*(x // r); c*x - c*r*(x // r) as c*(x % r)."""
        for a, c in table.items():
            atom = self.atoms[a]
            if atom.op == "%":
                found = self._with_quotient(constant, table, a, c, atom)
            elif atom.op == "//" and c % atom.number == 0 and len(table) > len(atom.args[0].parts):
                x, k = atom.args[0], c // atom.number
                found = self._without(constant + k * x.constant, table, a, x, -k)
                found = None if found is None else found - self.mod(x, atom.number) * k
            else:
                continue
            if found is not None:
                return found
        return None

    def _with_quotient(self, constant: int, table: dict[int, int], a: int, c: int, atom: Atom) -> Form | None:
        x, r = atom.args[0], atom.number
        wanted = c * r
        if wanted in table.values():
            above = self.div(x, r)
            high, whole = _single(above), x
            if high is None or table.get(high) != wanted:
                high = None
                for b, d in table.items():
                    upper = self.atoms[b]
                    if d != wanted or not upper.args or upper.term is not None:
                        continue
                    if upper.op == "%" and upper.args[0] is above:
                        high, whole = b, self.mod(x, r * upper.number)
                    elif upper.op == "//" and upper.number == r and _single(self.mod(upper.args[0], r)) == a:
                        high, whole = b, upper.args[0]
            if high is not None:
                rest = self._from_table(0, {b: d for b, d in table.items() if b not in (a, high)})
                return self.linear(constant, ((1, rest), (c, whole)))
        rest = self._without(constant + c * x.constant, table, a, x, -c) if len(table) > len(x.parts) else None
        return None if rest is None else rest - self.div(x, r) * wanted

    def _without(self, constant: int, table: dict[int, int], a: int, x: Form, k: int) -> Form | None:
        """The sum without the atom a and k*x, if it holds these."""
        if not x.parts or any(table.get(b) != k * d for b, d in x.parts):
            return None
        gone = {a, *(b for b, _ in x.parts)}
        return self._from_table(constant, {b: d for b, d in table.items() if b not in gone})

    def _atom(self, op: str, x: Form, number: int) -> Form:
        known = self._index.get((op, x, number))
        if known is None:
            known = self._index[op, x, number] = len(self.atoms)
            atom = Atom(op, (x,), number, None, x.unknown)
            if op == "%":
                atom.low, atom.high = 0, number - 1
                if x.low is not None and x.low >= 0 and x.high is not None:
                    atom.high = min(atom.high, x.high)
            else:
                atom.low = None if x.low is None else x.low // number
                atom.high = None if x.high is None else x.high // number
            self._add(atom)
            if op == "//" and x.unknown:
                self.quotients.setdefault(x, {1: x})[number] = atom.form
        return self.atoms[known].form

    def _add(self, atom: Atom) -> Form:
        self.atoms.append(atom)
        atom.form = self.known_form(0, ((len(self.atoms) - 1, 1),))
        return atom.form

    def div(self, x: Form, d: int) -> Form:
        """x // d for d > 0."""
        if d == 1:
            return x
        if x.low is not None and x.high is not None and x.low // d == x.high // d:
            return self.number(x.low // d)
        outer, inner = x.constant // d, [(a, c) for a, c in x.parts if c % d]
        if len(inner) < len(x.parts) or outer:
            over = self.known_form(outer, tuple([(a, c // d) for a, c in x.parts if not c % d]))
            return over + self.div(self.known_form(x.constant % d, tuple(inner)), d)
        common = gcd(d, *[c for _, c in inner])
        if common > 1:
            parts = tuple([(a, c // common) for a, c in inner])
            return self.div(self.known_form(x.constant // common, parts), d // common)
        atom = x.atom
        if atom is not None and atom.op == "//":
            return self.div(atom.args[0], atom.number * d)
        if atom is not None and atom.op == "%" and atom.number % d == 0:
            return self.mod(self.div(atom.args[0], d), atom.number // d)
        if len(inner) > 1:
            above = self.above(x, d)
            if above is not None:
                return self.div(above[0], d // above[1])
        return self._atom("//", x, d)

    def above(self, x: Form, d: int) -> tuple[Form, int] | None:
        """x // g for a divisor g of d, where x is a multiple of g and a rest in [0, g)."""
        for _, c in x.parts:
            g = gcd(c, d)
            if g > 1:
                rest = self.known_form(x.constant % g, tuple([(b, k) for b, k in x.parts if k % g]))
                if rest.inside(g):
                    whole = tuple([(b, k // g) for b, k in x.parts if not k % g])
                    return self.known_form(x.constant // g, whole), g
        return None

    def mod(self, x: Form, m: int) -> Form:
        """x % m for m > 0; with small coefficients where x is known, while unknown forms keep what they share."""
        if m == 1:
            return self.number(0)
        for _ in range(8):
            if x.low is not None and x.high is not None and x.low // m == x.high // m:
                return x - x.low // m * m
            again = self._reduced(x, m)
            if again is x:
                break
            x = again
        plain = self._plainly(x, m)
        if plain is not None:
            return plain
        common = gcd(m, *[c for _, c in x.parts])
        if common > 1 and x.constant % common == 0:
            inner = self.known_form(x.constant // common, tuple([(a, c // common) for a, c in x.parts]))
            return self.mod(inner, m // common) * common
        return self._atom("%", x, m)

    def _plainly(self, x: Form, m: int) -> Form | None:
        """x % m as a sum, where coefficients of either sign make it small enough."""
        near = tuple([(a, (c + m // 2) % m - m // 2) for a, c in x.parts])
        for parts in (near, tuple([(a, -c if 2 * c == -m else c) for a, c in near])):
            small = self._from_table(x.constant % m, {a: c for a, c in parts if c})
            if small.low is not None and small.high is not None and small.low // m == small.high // m:
                return small - small.low // m * m
        return None

    def _reduced(self, x: Form, m: int) -> Form:
        """A form that is equal modulo m."""
        table: dict[int, int] = {}
        constant = x.constant
        for a, c in x.parts:
            if c % m == 0:
                continue
            atom = self.atoms[a]
            if atom.op == "%" and c * atom.number % m == 0:
                inner = atom.args[0]
                constant += c * inner.constant
                for b, d in inner.parts:
                    table[b] = table.get(b, 0) + c * d
            else:
                table[a] = table.get(a, 0) + c
        if not x.unknown:
            constant += self._rejoin(table, m)
            table = self._balanced({a: c % m for a, c in table.items()}, m)
        return self._from_table(constant % m, {a: c for a, c in table.items() if c % m})

    def _rejoin(self, table: dict[int, int], m: int) -> int:
        """c*(x % r) + d*(x // r) as c*x, where d = c*r modulo m; the constant of c*x."""
        for a, c in list(table.items()):
            atom = self.atoms[a]
            if c and atom.op == "%" and len(table) > 1:
                x = atom.args[0]
                high = _single(self.div(x, atom.number))
                if high is not None and high in table and (table[high] - c * atom.number) % m == 0:
                    del table[a], table[high]
                    for b, d in x.parts:
                        table[b] = table.get(b, 0) + c * d
                    return c * x.constant
        return 0

    @staticmethod
    def _balanced(table: dict[int, int], m: int) -> dict[int, int]:
        """Small negative coefficients in place of those of nearly the modulus, where another one is positive."""
        small = {a: c - m if 8 * (m - c) <= m or c == m - 1 > 1 else c for a, c in table.items() if c}
        return small if any(c > 0 for c in small.values()) else table

    # -- terms --------------------------------------------------------------------------------------------------------

    def read(self, term: Term) -> Form:
        """The form of an index term."""
        known = self._read
        stack = [term]
        while stack:
            node = stack[-1]
            if node.serial in known:
                stack.pop()
                continue
            op = node.op
            if op in _READ:
                missing = [a for a in node.args if a.serial not in known]
                if missing:
                    stack.extend(missing)
                    continue
                found = self._node(node, [known[a.serial] for a in node.args])
            else:
                found = self._other(node, ())
            known[node.serial] = found
            stack.pop()
        return known[term.serial]

    def _node(self, node: Term, args: list[Form]) -> Form:
        op = node.op
        if op == "const":
            return self.number(node.payload)
        if op == "sum":
            constant, coefficients = node.payload
            return self.linear(constant, list(zip(coefficients, args, strict=True)))
        if len(args) == 2:
            found = self._by_number(op, args[0], args[1]) or self._of_both(op, args[0], args[1])
            if found is not None:
                return found
        return self._other(node, tuple(args))

    def _by_number(self, op: str, a: Form, b: Form) -> Form | None:
        """An operation with a number."""
        if b.parts:
            if op not in ("prod", "bitand") or a.parts:
                return None
            a, b = b, a
        number = b.constant
        if op == "prod":
            return a * number
        if op == "bitand" and number >= 0:
            return self._masked(a, number)
        if op in ("truncdiv", "truncmod") and (a.low is None or a.low < 0):
            return None
        if op in ("floordiv", "truncdiv") and number > 0:
            return self.div(a, number)
        if op in ("mod", "truncmod") and number > 0:
            return self.mod(a, number)
        if op in ("shl", "shr") and 0 <= number < LARGEST_SHIFT:
            return a * (1 << number) if op == "shl" else self.div(a, 1 << number)
        return None

    def _of_both(self, op: str, a: Form, b: Form) -> Form | None:
        if op in ("min", "max"):
            gap = b - a
            if (gap.low is not None and gap.low >= 0) or (gap.high is not None and gap.high <= 0):
                rising = gap.low is not None and gap.low >= 0
                return a if rising == (op == "min") else b
        if op == "bitor":
            for upper, lower in ((a, b), (b, a)):
                if lower.low is not None and lower.high is not None and lower.low >= 0:
                    step = 1 << lower.high.bit_length()
                    if upper.constant % step == 0 and all(c % step == 0 for _, c in upper.parts):
                        return upper + lower
        return None

    def _masked(self, a: Form, mask: int) -> Form:
        """a & mask as the sum of the runs of bits that the mask keeps."""
        total, low = self.number(0), 0
        while mask >> low:
            if (mask >> low) & 1:
                high = low
                while (mask >> high) & 1:
                    high += 1
                total = total + self.mod(self.div(a, 1 << low), 1 << (high - low)) * (1 << low)
                low = high
            low += 1
        return total

    def _other(self, node: Term, args: tuple[Form, ...]) -> Form:
        """Any other operation, and leaves; over other arguments than its own if these are given."""
        if args:
            terms = [self.term(a) for a in args]
            if any(x is not y for x, y in zip(terms, node.args, strict=True)):
                node = t.rebuild(node, terms)
                if node.op in ("sum", "const"):
                    return self.read(node)
                if node.serial in self._read:
                    return self._read[node.serial]
        leaf = node.op in ("var", "axis", "sym")
        unknown = any(a.unknown for a in args) or (
            node in self.inputs if leaf else any(v in self.inputs for v in free_variables(node)) if not args else False
        )
        atom = Atom("leaf" if leaf else node.op, args, 0, node, unknown)
        span = self.ranges.get(node)
        if span is not None:
            atom.low, atom.high = span[0], span[1] - 1
        else:
            self._limits = self._limits or Bounds(self.ranges)
            atom.low, atom.high = self._limits.of(node)
        if leaf and atom.low is not None and atom.low == atom.high:
            return self.number(atom.low)
        found = self._read[node.serial] = self._add(atom)
        return found

    def term(self, form: Form) -> Term:
        """The index term of a form."""
        return t.linear(form.constant, [(c, self._atom_term(a)) for a, c in form.parts])

    def _atom_term(self, a: int) -> Term:
        found = self._terms.get(a)
        if found is None:
            atom = self.atoms[a]
            found = atom.term
            if found is None:
                op = "mod" if atom.op == "%" else "floordiv"
                found = t.make(op, (self.term(atom.args[0]), t.index_const(atom.number)))
            self._terms[a] = found
        return found


def normal(terms: Sequence[Term], ranges: Mapping[Term, tuple[int, int]]) -> list[Term]:
    """Index terms in the form in which quotients and remainders are worked out, where that is no longer.

    >>> i, j = t.var("i"), t.var("j")
    >>> str(normal([((4 * i + j) % 7 - (4 * i + j) // 7) % 4], {i: (0, 9), j: (0, 4)})[0])
    'j'
    """
    forms = Forms(ranges, ())
    found = [forms.term(forms.read(x)) for x in terms]
    return [new if dag_size(new) <= dag_size(old) else old for old, new in zip(terms, found, strict=True)]


def _single(form: Form) -> int | None:
    """The number of the atom that a form is."""
    return form.parts[0][0] if not form.constant and len(form.parts) == 1 and form.parts[0][1] == 1 else None


_READ = frozenset(
    ("const", "sum", "prod", "floordiv", "mod", "truncdiv", "truncmod", "shl", "shr", "bitand", "bitor", "bitxor",
     "min", "max", "load")
)  # fmt: skip
