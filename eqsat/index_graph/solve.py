"""Index maps solved by congruence: outputs are given names, and the inputs are read from the e-graph over the names.

A class is *known* where it has a term over the names. Between the iterations of the rules, equations with one unknown
are solved for it (a sum for a summand, a remainder of a sum by the inverse of the factor, a remainder of a term whose
interval is no longer than the divisor), and quotients and remainders that may become known are asked for, which claims
nothing. What is found is checked by whoever asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from math import gcd
from typing import Any

from eqsat.graph.egglog_adapter import Call, Expression, usable
from eqsat.index_graph.extract import Extractor
from eqsat.index_graph.graph import IndexGraph
from eqsat.index_graph.sums import Class, Linear, SumStep, axpy
from eqsat.ir import clock
from eqsat.ir.terms.term import Term
from eqsat.workers.call import WorkerLimit, call

ITERATIONS, ROWS, SECONDS = 10, 4_000, 0.15
WORKER_SECONDS, MEMORY_MB = 20.0, 2048
WORKER_MODULES = ("egglog.bindings",)
Question = tuple[tuple[Term, ...], tuple[Term, ...], tuple[Term, ...], dict[Term, tuple[int, int]]]
MOST_FORMS = 6  # of one class, whose differences are looked at


def solve(
    inputs: Sequence[Term], outputs: Sequence[Term], names: Sequence[Term], ranges: Mapping[Term, tuple[int, int]]
) -> list[Term] | None:
    """The inputs over the names of the outputs, or None; ranges: half-open, of inputs and of names.

    >>> from eqsat.ir.terms.term import var
    >>> i, j, p, q = map(var, "ijpq")
    >>> found = solve([i, j], [(i + j) % 8, j], [p, q], {i: (0, 8), j: (0, 5), p: (0, 8), q: (0, 5)})
    >>> [str(e) for e in found]
    ['(p - q) % 8', 'q']
    """
    question = (tuple(inputs), tuple(outputs), tuple(names), dict(ranges))
    if usable():
        return solve_job(question, _unheard)
    try:
        return call("eqsat.index_graph.solve:solve_job", question, seconds=WORKER_SECONDS, memory_mb=MEMORY_MB)
    except WorkerLimit:
        return None


def _unheard(progress: Any) -> None:
    pass


def solve_job(question: Question, report: Callable[[Any], None]) -> list[Term] | None:
    """The same, in a process that may use egglog; nothing is reported."""
    inputs, outputs, names, ranges = question
    with IndexGraph(ranges=ranges) as graph:
        wanted = [graph.add(x) for x in inputs]
        named: list[int] = []
        for output, name in zip(outputs, names, strict=True):
            named.append(graph.add(name))
            graph.unite(graph.add(output), named[-1])
        end = time.thread_time() + SECONDS
        for _ in range(ITERATIONS):
            clock.check()
            graph.settle_bounds()
            ran = graph.graph.run("(run-schedule (run arith))")
            graph.rows = None
            equations = _Equations(graph, named, frozenset(names))
            found = [graph.graph.find(graph.roots[n]) for n in wanted]
            if all(map(equations.is_known, found)):
                return [equations.known.term(v) for v in found]
            if not equations.step() and not ran.updated:
                break
            if graph.size() > ROWS or time.thread_time() > end:
                graph.spoiled = True
                break
    return None


class _Equations:
    """One reading of the graph, and what its known classes say about the others."""

    def __init__(self, graph: IndexGraph, named: Sequence[int], names: frozenset[Term]) -> None:
        self.graph = graph
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
        for v, x, n in self._by_numbers("Mod"):
            if self.is_known(v):
                self.remainder(v, x, n)
        self.digits()
        self.exclusive()
        return self.graph.apply()

    def is_known(self, v: Class) -> bool:
        return v in self.known.best

    def _by_numbers(self, function: str) -> Iterator[tuple[Class, Class, int]]:
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
        """Known digits of one dividend: quotient and remainder, or remainders by coprime numbers."""
        low: dict[Class, dict[int, Class]] = {}
        for v, x, n in self._by_numbers("Mod"):
            if self.is_known(v) and not self.is_known(x):
                low.setdefault(x, {})[n] = v
        for v, x, n in self._by_numbers("Div"):
            if self.is_known(v) and not self.is_known(x):
                if n in low.get(x, {}):
                    whole = Call("Add", (Call("Scale", (n, self.sums.name(v))), self.sums.name(low[x][n])))
                    self.unions.append((self.sums.name(x), whole))
                else:
                    self.inserts.append(self.divided(self.sums.name(x), n, "Mod"))
        for x, known in low.items():
            for (a, v), (b, w) in combinations(sorted(known.items()), 2):
                if gcd(a, b) == 1 and a * b not in known:
                    first = Call("Scale", (b * pow(b, -1, a), self.sums.name(v)))
                    second = Call("Scale", (a * pow(a, -1, b), self.sums.name(w)))
                    both = self.divided(Call("Add", (first, second)), a * b, "Mod")
                    self.unions.append((self.divided(self.sums.name(x), a * b, "Mod"), both))

    def exclusive(self) -> None:
        """One operand of a known exclusive or is that of the other two."""
        for r in self.rows["BXor"]:
            for x, y in (r.args, r.args[::-1]):
                if self.is_known(r.output) and self.is_known(y) and not self.is_known(x):
                    self.unions.append((self.sums.name(x), Call("BXor", (self.sums.name(r.output), self.sums.name(y)))))
