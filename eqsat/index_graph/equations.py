"""What the known classes of an index e-graph say about the others: the equations of a map, one unknown at a time.

A class is *known* where it has a term over the names of the outputs. Each step holds at every point: it makes what
follows equal, or asks for quotients and remainders that may become known, which claims nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import gcd, lcm
from typing import Any, TypeVar

from eqsat.graph.egglog_adapter import Call, Expression
from eqsat.index_graph.extract import Extractor
from eqsat.index_graph.graph import IndexGraph
from eqsat.index_graph.linear import LARGEST_MODULUS, coprime_split
from eqsat.index_graph.sums import Class, Linear, SumStep, axpy
from eqsat.ir.terms.term import Term

MOST_FORMS = 6  # of one class, whose differences are looked at


Change = TypeVar("Change")


class Equations:
    """One reading of the graph, and what its known classes say about the others."""

    def __init__(self, graph: IndexGraph, named: Sequence[int], names: frozenset[Term], said: set[Any]) -> None:
        self.graph, self.names, self.said = graph, names, said
        self.sums = SumStep(graph.read(), graph.forms)
        self.sums.leaves -= {graph.graph.find(graph.roots[n]) for n in named}  # the sums that have names are equations
        self.sums.run()
        self.known = Extractor(graph.read(), graph.forms, graph.loader, names)
        self.rows = self.sums.rows
        self.unions = graph.forms.changes.unions
        self.inserts = graph.forms.changes.inserts

    def step(self) -> int:
        """Solve and ask; the number of changes."""
        self.sum_equations()
        for v, x, n in self.by_numbers("Mod"):
            if self.is_known(v):
                self.remainder(v, x, n)
        self.digits()
        self.exclusive()
        return self.say()

    def say(self) -> int:
        """Send what was not sent before; the number of changes."""
        self.unions[:] = self.fresh(self.unions)
        self.inserts[:] = self.fresh(self.inserts)
        return self.graph.apply()

    def fresh(self, changes: Sequence[Change]) -> list[Change]:
        """What was not sent before."""
        new = [x for x in changes if x not in self.said]
        self.said.update(new)
        return new

    def is_known(self, v: Class) -> bool:
        return v in self.known.best

    def by_numbers(self, function: str) -> Iterator[tuple[Class, Class, int]]:
        """(class, dividend, divisor) of all divisions of one kind by numbers."""
        for r in self.rows[function]:
            n = self.sums.numbers.get(r.args[1])
            if n is not None and n > 1:
                yield r.output, r.args[0], n

    # -- sums ----------------------------------------------------------------------------------------------------------

    def sum_equations(self) -> None:
        """Two sums of one class are an equation."""
        for v, forms in self.sums.forms_of.items():
            sides = [self.sums.form(f) for f in forms[:MOST_FORMS]]
            if v in self.sums.atoms and self.is_known(v):
                sides.append((0, {v: 1}))
            for a, b in combinations(sides, 2):
                self.equation(axpy((a[0], dict(a[1])), -1, b))

    def equation(self, d: Linear) -> None:
        """Solve d = 0 for its only unknown, or ask for the digits of the sum of its unknowns."""
        unknown, rest, factor, _ = self.parted(d)
        if not unknown[1]:
            return
        place = self.sums.place(axpy((0, {}), -1, rest))
        if place is None:
            return
        value = place if factor == 1 else self.divided(place, factor)
        whole = self.sums.place(unknown)
        if whole is None:
            return
        self.unions.append((whole, value))
        if len(unknown[1]) > 1:
            for k in {abs(k) for k in unknown[1].values()} - {1}:
                for function in ("Div", "Mod"):
                    self.inserts.append(self.divided(whole, k, function))

    def parted(self, d: Linear) -> tuple[Linear, Linear, int, int]:
        """sign * d as factor * unknown + rest, with a positive factor, and not more negative unknowns than positive."""
        table = {x: k for x, k in d[1].items() if not self.is_known(x)}
        if not table:
            return (0, {}), d, 1, 1
        factor = gcd(*table.values())
        sign = 1 if sum(k > 0 for k in table.values()) * 2 >= len(table) else -1
        unknown: Linear = (0, {x: sign * k // factor for x, k in table.items()})
        rest = axpy((0, {}), sign, (d[0], {x: k for x, k in d[1].items() if x not in table}))
        return unknown, rest, factor, sign

    def apart(self, d: Linear) -> tuple[dict[Class, int], Linear]:
        """The unknown summands of a sum, and the rest."""
        unknown = {x: k for x, k in d[1].items() if not self.is_known(x)}
        return unknown, (d[0], {x: k for x, k in d[1].items() if x not in unknown})

    def load(self, term: Term) -> Expression:
        """The expression of a term over inputs and names."""
        return self.graph.loader.load(term, self.graph.loader.places.top)

    def divided(self, e: Expression, n: int, function: str = "Div") -> Call:
        return Call(function, (e, Call("Num", (n,))))

    # -- remainders ----------------------------------------------------------------------------------------------------

    def remainder(self, v: Class, x: Class, n: int) -> None:
        """What a known remainder says about the dividend, or about the only unknown summand of it."""
        if not self.is_known(x):
            self.window(v, x, n)
        for f in self.sums.forms_of.get(x, ())[:MOST_FORMS]:
            self.factor(v, self.sums.form(f), n)

    def factor(self, v: Class, d: Linear, n: int) -> None:
        """Solve v = d % n for the remainder of the unknown part of d, by the inverse of its factor."""
        unknown, rest, factor, sign = self.parted(d)
        common = gcd(factor, n)
        trivial = not rest[1] and not rest[0] and factor == 1
        if not unknown[1] or trivial or common == n:
            return
        modulus = n // common
        inverse = pow(factor // common, -1, modulus)
        known = axpy((0, {v: sign}), -1, rest)
        place = self.sums.place(axpy((0, {}), inverse, known) if common == 1 else known)
        whole = self.sums.place(unknown)
        if place is None or whole is None:
            return
        value: Expression = place
        if common > 1:
            value = Call("Scale", (inverse, self.divided(self.divided(place, n, "Mod"), common)))
        self.unions.append((self.divided(whole, modulus, "Mod"), self.divided(value, modulus, "Mod")))

    def window(self, v: Class, x: Class, n: int) -> None:
        """l + (x % n - l) % n is x where l <= x < l + n."""
        low, high = self.sums.low.get(x), self.sums.high.get(x)
        if low is None or high is None or high - low >= n:
            self.inserts.append(self.divided(self.sums.name(x), n))
            return
        shifted = self.sums.place((-low, {v: 1}))
        if shifted is not None:
            again = self.divided(shifted, n, "Mod")
            self.unions.append((self.sums.name(x), Call("Add", (Call("Num", (low,)), again))))

    def digits(self) -> None:
        """Known digits of one dividend, put together: a quotient and a remainder, or two remainders."""
        low: dict[Class, dict[int, Class]] = {}
        for v, x, n in self.by_numbers("Mod"):
            if self.is_known(v) and not self.is_known(x):
                low.setdefault(x, {})[n] = v
        for v, x, c in self.by_numbers("Div"):
            if self.is_known(v) and not self.is_known(x):
                self.quotient(v, x, c, low.get(x, {}))
        for x, known in low.items():
            self.remainders(x, sorted(known.items(), reverse=True))

    def remainders(self, x: Class, known: Sequence[tuple[int, Class]]) -> None:
        """From x % a, x % b and so on: x modulo their least common multiple."""
        modulus, total = 1, dict[Class, int]()
        for n, v in known:
            whole = lcm(modulus, n)
            if whole == modulus or whole > LARGEST_MODULUS:
                continue
            p, q = coprime_split(modulus, n)
            first, second = (whole // d * pow(whole // d, -1, d) for d in (p, q))
            total = {w: k * first % whole for w, k in total.items()}
            total[v] = (total.get(v, 0) + second) % whole
            modulus = whole
        place = self.sums.place((0, {v: k for v, k in total.items() if k}))
        if place is not None and modulus > known[0][0]:
            joined = self.divided(place, modulus, "Mod")
            self.unions.append((self.divided(self.sums.name(x), modulus, "Mod"), joined))

    def quotient(self, v: Class, x: Class, c: int, remainders: Mapping[int, Class]) -> None:
        """From v = x // c and x % n for some n >= c: x = c*v + (x - c*v) % n."""
        wide = [n for n in remainders if n >= c]
        if not wide:
            self.inserts.append(self.divided(self.sums.name(x), c, "Mod"))
            return
        n = c if c in wide else min(wide)
        rest: Expression = self.sums.name(remainders[n])
        if n != c:
            rest = self.divided(Call("Add", (rest, Call("Scale", (-c, self.sums.name(v))))), n, "Mod")
        self.unions.append((self.sums.name(x), Call("Add", (Call("Scale", (c, self.sums.name(v))), rest))))

    def exclusive(self) -> None:
        """One operand of a known exclusive or is that of the other two."""
        for r in self.rows["BXor"]:
            for x, y in (r.args, r.args[::-1]):
                if self.is_known(r.output) and self.is_known(y) and not self.is_known(x):
                    self.unions.append((self.sums.name(x), Call("BXor", (self.sums.name(r.output), self.sums.name(y)))))
