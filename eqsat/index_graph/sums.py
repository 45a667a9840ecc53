"""The sum step of the index e-graph: what egglog asked about sums, answered by linear arithmetic between iterations.

Every claim it makes is a polynomial identity: a form equals its sum, f = g*Q + R, f' = f - masked + scale * part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd
from typing import Any

from eqsat.graph.egglog_adapter import Call, EGraph, Expression, Row
from eqsat.index_graph.schema import ASKED, DATA, LARGEST, LEAVES, NAMES, NODES

WANTED = tuple(dict.fromkeys((*NODES, *DATA, *LEAVES, *NAMES, *ASKED, "need_split", "lo", "hi")))
Class = Any  # an opaque id of egglog, hashable
Linear = tuple[int, dict[Class, int]]  # a constant, and the coefficient of each class
MOST_DIVISORS = 16


@dataclass
class Changes:
    """What to do to the graph, in one go."""

    inserts: list[Call] = field(default_factory=list[Call])
    unions: list[tuple[Expression, Expression]] = field(default_factory=list[tuple[Expression, Expression]])
    sets: list[tuple[Call, int]] = field(default_factory=list[tuple[Call, int]])
    deletes: list[Call] = field(default_factory=list[Call])

    def __len__(self) -> int:
        return len(self.inserts) + len(self.unions) + len(self.sets) + len(self.deletes)

    def apply(self, graph: EGraph) -> int:
        """Send them; the number of changes sent."""
        count = len(self)
        graph.apply(self.inserts, self.unions, self.sets, self.deletes)
        for part in (self.inserts, self.unions, self.sets, self.deletes):
            part.clear()
        return count


@dataclass
class Forms:
    """All forms made so far; `live` ones are matched by rules."""

    changes: Changes = field(default_factory=Changes)
    data: dict[int, tuple[int, tuple[int, ...]]] = field(default_factory=dict[int, tuple[int, tuple[int, ...]]])
    live: set[int] = field(default_factory=set[int])
    done_parts: set[tuple[int, ...]] = field(default_factory=set[tuple[int, ...]])
    done_splits: dict[tuple[int, int, int], bool] = field(default_factory=dict[tuple[int, int, int], bool])
    done_sums: set[Any] = field(default_factory=set[Any])
    names: int = 0

    def name(self, data: bool = False) -> Call:
        """A fresh name for a class, of data where these are apart from the integers."""
        self.names += 1
        return Call("DAt" if data else "At", (self.names,))

    def add(self, constant: int, slots: Sequence[tuple[Expression, int]]) -> Call:
        """A new form over classes given by expressions."""
        f = len(self.data)
        for j, (x, k) in enumerate(slots):
            self.changes.unions.append((Call("Slot", (f, j)), x))
            self.changes.sets.append((Call("coef", (f, j)), k))
        self.changes.sets += [(Call("cst", (f,)), constant), (Call("len", (f,)), len(slots))]
        self.changes.inserts.append(Call("Lin", (f,)))
        self.data[f] = (constant, tuple(k for _, k in slots))
        self.live.add(f)
        return Call("Lin", (f,))

    def retire(self, f: int) -> None:
        """Take a form out of matching; it stays a name of its class."""
        if f in self.live:
            self.live.remove(f)
            self.changes.deletes += [Call("coef", (f, j)) for j in range(len(self.data[f][1]))]
            self.changes.deletes.append(Call("cst", (f,)))


def axpy(total: Linear, k: int, other: Linear) -> Linear:
    """total + k * other, in place for the coefficients."""
    constant, table = total
    for v, c in other[1].items():
        n = table.get(v, 0) + k * c
        if n:
            table[v] = n
        else:
            table.pop(v, None)
    return constant + k * other[0], table


class SumStep:
    """One reading of the graph and the changes that its sums ask for."""

    def __init__(self, rows: Mapping[str, list[Row]], forms: Forms) -> None:
        self.forms = forms
        self.rows = rows
        self.numbers: dict[Class, int] = {r.output: r.args[0] for r in self.rows["Num"]}
        self.leaves = {r.output for name in ("Num", "Truth", "Leaf") for r in self.rows[name]}
        self.atoms = {r.output for name in (*NODES, "Leaf", "Given", "Truth") for r in self.rows[name]}
        self.slot: dict[tuple[int, int], Class] = {(r.args[0], r.args[1]): r.output for r in self.rows["Slot"]}
        self.class_of: dict[int, Class] = {r.args[0]: r.output for r in self.rows["Lin"]}
        self.forms_of: dict[Class, list[int]] = {}
        for f, v in self.class_of.items():
            if f in forms.live:
                self.forms_of.setdefault(v, []).append(f)
        self.asked: dict[Class, list[tuple[str, tuple[Any, ...]]]] = {}
        for name in ASKED:
            for r in self.rows[name]:
                self.asked.setdefault(r.output, []).append((name, r.args))
        self.known: dict[Class, Linear] = {}
        self.named: dict[Class, Expression] = {}
        for name in NAMES:
            for r in self.rows[name]:
                self.named.setdefault(r.output, Call(name, r.args))
        self.spelled: dict[Class, list[tuple[str, tuple[Any, ...]]]] = {}
        for name in (*NODES, *DATA, "Given", *ASKED):
            for r in self.rows[name]:
                self.spelled.setdefault(r.output, []).append((name, r.args))
        self.made: dict[Any, Expression] = {}
        self.low = {r.args[0]: r.output for r in self.rows["lo"]}
        self.high = {r.args[0]: r.output for r in self.rows["hi"]}

    # -- classes -------------------------------------------------------------------------------------------------------

    def name(self, v: Class) -> Expression:
        """An expression that denotes a class."""
        found = self.named.get(v)
        if found is not None:
            return found
        function, args = self.spelled[v][0]
        name = self.forms.name(data=function in DATA)
        self.named[v] = name  # a class that holds itself is reached through its own name
        self.forms.changes.unions.append(
            (name, Call(function, tuple(a if isinstance(a, int) else self.name(a) for a in args)))
        )
        return name

    def linear(self, v: Class) -> Linear:
        """A class as a sum: itself where it has a node that is not a sum, else its shortest form."""
        found = self.known.get(v)
        if found is not None:
            return found
        if v in self.numbers:
            result: Linear = (self.numbers[v], {})
        elif v in self.atoms:
            result = (0, {v: 1})
        else:
            self.known[v] = (0, {v: 1})  # in progress: opaque
            choices = [self.form(f) for f in self.forms_of.get(v, ())]
            choices += [self.sum_of(name, args) for name, args in self.asked.get(v, ())]
            result = min(choices, key=lambda d: len(d[1]) + (d[0] != 0), default=(0, {v: 1}))
        self.known[v] = result
        return result

    def form(self, f: int) -> Linear:
        """The canonical sum of a form."""
        constant, coefficients = self.forms.data[f]
        total: Linear = (constant, {})
        for j, k in enumerate(coefficients):
            total = axpy(total, k, self.linear(self.slot[f, j]))
        return total

    def sum_of(self, name: str, args: tuple[Any, ...]) -> Linear:
        """The sum that a right side asked for."""
        if name == "Add":
            return axpy(axpy((0, {}), 1, self.linear(args[0])), 1, self.linear(args[1]))
        return axpy((0, {}), args[0], self.linear(args[1]))

    def place(self, d: Linear) -> Expression | None:
        """An expression for a sum: a number, a class, or a form; None where a number leaves 62 bits."""
        constant, table = d
        if not table:
            return Call("Num", (constant,)) if abs(constant) < LARGEST else None
        if constant == 0 and len(table) == 1:
            ((v, k),) = table.items()
            if k == 1:
                return self.name(v)
        key = _key(d)
        if key not in self.made:
            if abs(constant) >= LARGEST or any(abs(k) >= LARGEST for k in table.values()):
                return None
            order = sorted(table.items(), key=lambda p: (-abs(p[1]), str(p[0])))
            self.made[key] = self.forms.add(constant, [(self.name(v), k) for v, k in order])
        return self.made[key]

    # -- the step ------------------------------------------------------------------------------------------------------

    def run(self) -> Changes:
        """All changes that the sums of the graph ask for."""
        self.clean()
        self.parts()
        self.sums()
        self.splits()
        return self.forms.changes

    def clean(self) -> None:
        """Forms whose slots merged, or whose class is a leaf, give way to better ones."""
        forms = self.forms
        stale: list[tuple[int, Linear]] = []
        for f in sorted(forms.live):
            if f not in self.class_of:
                continue
            if self.class_of[f] in self.leaves:
                forms.retire(f)
                continue
            d = self.form(f)
            key = _key(d)
            constant, coefficients = forms.data[f]
            single = constant == 0 and (not coefficients or coefficients == (1,))
            same = constant == d[0] and len(coefficients) == len(d[1])
            same = same and all(d[1].get(self.slot[f, j]) == k for j, k in enumerate(coefficients))
            if key not in self.made and same and not single:
                self.made[key] = Call("Lin", (f,))
            else:
                stale.append((f, d))
        for f, d in stale:
            better = self.place(d)
            if better is not None:
                forms.changes.unions.append((Call("Lin", (f,)), better))
                forms.retire(f)

    def parts(self) -> None:
        """Rewritten parts of forms: disjoint ones are applied together, so that n of them cost one form, not 2^n."""
        forms = self.forms
        found: dict[int, list[tuple[int, int, Class]]] = {}
        for r in self.rows["Part"]:
            f, mask, scale, _ = r.args
            if f in forms.live and r.args not in forms.done_parts:
                forms.done_parts.add(r.args)
                found.setdefault(f, []).append((mask, scale, r.output))
        for f, parts in found.items():
            constant, coefficients = forms.data[f]
            own, seen, moved = _key(self.form(f)), set[frozenset[Any]](), False
            for first in parts:
                used, chosen = 0, list[tuple[int, int, Class]]()
                for p in (first, *parts):
                    if not used & p[0]:
                        used |= p[0]
                        chosen.append(p)
                group = frozenset((mask, scale) for mask, scale, _ in chosen)
                if group in seen:
                    continue
                seen.add(group)
                d: Linear = (constant, {})
                for j, k in enumerate(coefficients):
                    if not used >> j & 1:
                        d = axpy(d, k, self.linear(self.slot[f, j]))
                for _, scale, v in chosen:
                    d = axpy(d, scale, self.linear(v))
                better = None if _key(d) == own else self.place(d)
                if better is not None:
                    forms.changes.unions.append((Call("Lin", (f,)), better))
                    moved = True
            if moved:
                forms.retire(f)

    def sums(self) -> None:
        """Sums that right sides asked for."""
        for v, asked in self.asked.items():
            for name, args in asked:
                if (name, args, v) in self.forms.done_sums:
                    continue
                self.forms.done_sums.add((name, args, v))
                made = self.place(self.sum_of(name, args))
                if made is not None:
                    self.forms.changes.unions.append((self.name(v), made))

    def inside(self, d: Linear, g: int) -> bool:
        """Whether 0 <= d < g is known from the bounds."""
        low = high = d[0]
        for v, k in d[1].items():
            if v not in self.low or v not in self.high:
                return False
            low += k * (self.low[v] if k > 0 else self.high[v])
            high += k * (self.high[v] if k > 0 else self.low[v])
        return low >= 0 and high < g

    def least(self, d: Linear) -> int | None:
        low = d[0]
        for v, k in d[1].items():
            bound = (self.low if k > 0 else self.high).get(v)
            if bound is None:
                return None
            low += k * bound
        return low

    def splits(self) -> None:
        """Divisions of forms with remainder: by the divisor, and by the greatest divisor of it whose remainder fits."""
        for r in self.rows["need_split"]:
            f, n = r.args
            if f in self.forms.live and n != 1:
                self.split(f, n)

    def split(self, f: int, n: int) -> None:
        coefficients = self.forms.data[f][1]
        steps: set[int] = {gcd(k, n) for k in coefficients} | {n}
        for a in list(steps)[:MOST_DIVISORS]:
            steps |= {gcd(a, b) for b in list(steps)[:MOST_DIVISORS]}
        fits = False
        for g in sorted(steps - {0, 1}, reverse=True)[:MOST_DIVISORS]:
            if fits:
                break
            seen: list[Any] = []
            for w in range(5):
                known = self.forms.done_splits.get((f, g, w))
                if known is not None:
                    fits = fits or known
                    continue
                q, r = self.divided(f, g, w)
                key = _key(q)
                if (not q[1] and q[0] == 0) or key in seen:
                    self.forms.done_splits[f, g, w] = False
                    continue
                seen.append(key)
                inside = self.inside(r, g)
                if not inside and (g != n or w):
                    continue  # asked again when the bounds are tighter
                quotient, remainder = self.place(q), self.place(r)
                self.forms.done_splits[f, g, w] = inside
                if quotient is None or remainder is None:
                    continue
                fits = fits or inside
                self.forms.changes.unions += [
                    (Call("SplitQ", (f, g, w)), quotient),
                    (Call("SplitR", (f, g, w)), remainder),
                ]
                self.forms.changes.inserts.append(Call("split", (f, g, w)))

    def divided(self, f: int, g: int, way: int) -> tuple[Linear, Linear]:
        """Quotient and remainder of a form by g; the ways differ in what becomes of coefficients and constant."""
        constant, coefficients = self.forms.data[f]
        q: Linear = (0, {})
        r: Linear = (constant, {})
        for j, k in enumerate(coefficients):
            share = k // g if way % 2 == 0 or k % g == 0 else 0
            here = self.linear(self.slot[f, j])
            if share:
                q = axpy(q, share, here)
            if k - g * share:
                r = axpy(r, k - g * share, here)
        if way < 2:
            taken = r[0] // g
        elif way == 4:
            low = self.least(r)
            taken = 0 if low is None else low // g
        else:
            taken = 0
        return (q[0] + taken, q[1]), (r[0] - g * taken, r[1])


def _key(d: Linear) -> Any:
    return d[0], frozenset(d[1].items())
