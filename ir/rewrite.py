"""The normaliser: rules tagged `normal`, applied until none applies, under the facts of the guards above. It works
bottom-up, but tries the rules about sums of digits on the way down too.

It knows no identities of its own but three conventions of spelling: an operation on constants is its value in its
dtype, a term with one possible value is that value, and predicates have one spelling (a comparison of indices has each
summand on the side where its coefficient is positive; members of a junction that are defined everywhere are sorted).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.ir import term as t
from eqsat.ir.bounds import Bounds, Interval
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.evaluate import evaluate_masked
from eqsat.ir.match import Pattern
from eqsat.ir.match_sums import is_total, slack
from eqsat.ir.points import Points
from eqsat.ir.rule import Rule
from eqsat.ir.term import Term

LEAVES = ("axis", "var", "sym", "const")
FOLD, SPELL, KNOWN, SINGLE, BESIDE = "evaluate-constants", "spell-predicate", "guard", "one-value", "beside"
# Bounds on the work for one term; normal rules end, so reaching one only makes the answer less simple.
MOST_STEPS = 20_000
LARGEST_JUNCTION = 24
LARGEST_BESIDE = 6
DEEPEST_GUARD = 8

Ranges = Mapping[Term, tuple[int, int]]


@dataclass(frozen=True)
class Step:
    """One rewrite: the rule, and the subterm before and after."""

    rule: str
    before: Term
    after: Term

    def __str__(self) -> str:
        return f"{self.before} = {self.after}  [{self.rule}]"


class Rewriter:
    """Compiled rules, looked up by the operation at their root.

    >>> from eqsat.ir.rule import Idx, Pos, rule
    >>> @rule("mod-mod", tags=["normal"])
    ... def mod_mod(x: Idx, a: Pos, b: Pos):
    ...     return x % (a * b) % a, x % a
    >>> i = t.var("i")
    >>> str(Rewriter([mod_mod]).normalise(i % 12 % 4 + 1))
    'i % 4 + 1'
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.rules = tuple(rules)
        self.by_root: dict[str, list[tuple[str, Pattern]]] = {}
        for rule in self.rules:
            for instance in rule.instances:
                pattern = Pattern(rule, instance)
                for op in pattern.roots:
                    self.by_root.setdefault(op, []).append((rule.name, pattern))

    def normalise(
        self, term: Term, ranges: Ranges | None = None, log: list[Step] | None = None, assuming: Term | None = None
    ) -> Term:
        """The normal form of a term whose axes, variables and symbols lie in these half-open ranges."""
        return Session(self, ranges, assuming).normal(term, log)

    def step(self, node: Term, context: Context) -> Step | None:
        """The first rule that applies at the root of a node whose arguments are normal."""
        known = context.known.get(node)
        if known is not None:
            return Step(KNOWN, node, known)
        single = context.single(node)
        if single is not None:
            return Step(SINGLE, node, single)
        if node.op in t.COMPARE and node.args[0].dtype == INDEX:
            spelled = spell(node)
            if spelled is not node:
                return Step(SPELL, node, spelled)
            merged = self._difference(node, context)
            if merged is not None:
                return merged
        elif node.dtype != INDEX:
            value = fold(node)
            if value is not None:
                return Step(FOLD, node, value)
        if node.op in ("and", "or"):
            ordered = sort_members(node)
            if ordered is not node:
                return Step(SPELL, node, ordered)
            if len(node.args) > LARGEST_JUNCTION:
                return None
        return self.match(node, context)

    def _difference(self, node: Term, context: Context) -> Step | None:
        """A comparison whose sides, taken as one sum, have digits that belong together."""
        left, right = node.args
        if left.op == "const" or right.op == "const":
            return None
        difference = slack(node) if node.op in ("lt", "le") else right - left
        found = self.match(difference, context) if difference.op == "sum" else None
        if found is None:
            return None
        op = "le" if node.op == "lt" else node.op
        return Step(found.rule, node, t.compare(op, t.index_const(0), found.after))

    def match(self, node: Term, context: Context) -> Step | None:
        """The first declared rule that applies at the root of a node, whatever its arguments are."""
        for name, pattern in self.by_root.get(node.op, ()):
            found = pattern.first(node, context.of, context.memo)
            if found is not None:
                new = found.build(pattern.instance.right)
                if new is not node and not _respelled(new, node):
                    return Step(name, node, new)
        return None


def _respelled(new: Term, node: Term) -> bool:
    """Whether a comparison is another one in other words."""
    return node.op in t.COMPARE and new.op in t.COMPARE and new.args[0].dtype == INDEX and spell(new) is node


class Context:
    """What may be assumed at one place of a term: ranges, and predicates known from the guards above."""

    def __init__(
        self, ranges: Ranges, known: Mapping[Term, Term], depth: int = 0, points: Points | None = None
    ) -> None:
        self.bounds = Bounds(ranges)
        self.points = points
        self.ranges = ranges
        self.known = dict(known)
        self.normal: dict[Term, Term] = {}
        self.intervals: dict[Term, Interval] = {}
        self.memo: dict[Any, Any] = {}
        self.below: dict[Term, Context] = {}
        self.depth = depth

    def of(self, a: Term) -> Interval:
        """The interval of a term; one without its constant may be in the ranges."""
        found = self.intervals.get(a)
        if found is None:
            if a.op == "sum" and a.payload[0] and self.ranges:
                constant = a.payload[0]
                low, high = self.bounds.of(a - constant)
                found = (None if low is None else low + constant, None if high is None else high + constant)
            else:
                found = self.bounds.of(a)
            if self.points is not None and (found[0] is None or found[0] != found[1]):
                found = self.points.interval(a) or found
            self.intervals[a] = found
        return found

    def single(self, node: Term) -> Term | None:
        """The constant that an index or a predicate is, if it can have but one value."""
        if node.dtype not in (INDEX, BOOL) or node.lanes > 1:
            return None
        low, high = self.of(node)
        if low is None or low != high:
            return None
        return t.index_const(low) if node.dtype == INDEX else t.bool_const(low == 1)

    def under(self, guard: Term) -> Context:
        """The context where a predicate holds as well."""
        found = self.below.get(guard)
        if found is None:
            ranges: dict[Term, Any] = dict(Bounds(self.ranges).under(guard).half_open())
            known = dict(self.known)
            for part in guard.args if guard.op == "and" else (guard,):
                known[part] = t.TRUE
                known[t.logical_not(part)] = t.FALSE
                _narrow_sum(part, ranges, self)
            points = None if self.points is None else self.points.under(guard)
            found = self.below[guard] = Context(ranges, known, self.depth + 1, points)
        return found


def _narrow_sum(part: Term, ranges: dict[Term, Any], context: Context) -> None:
    """The range of a sum of several summands (without its constant) from a comparison."""
    if part.op not in ("lt", "le", "eq") or part.args[0].dtype != INDEX:
        return
    room = slack(part)
    constant, items = t.linear_parts(room)
    if len(items) < 2:
        return
    for sign in (1, -1):
        form = t.linear(0, [(sign * c, x) for c, x in items])
        low, high = context.of(form)
        if part.op == "eq":
            low = high = -sign * constant
        elif sign > 0:
            low = -constant if low is None else max(low, -constant)
        else:
            high = constant if high is None else min(high, constant)
        least, most = -math.inf if low is None else low, math.inf if high is None else high
        if least <= most and (low, high) != (None, None):
            ranges[form] = (least, most + 1)


class Session:
    """Normal forms of terms over one box (where an assumption holds, if one is given), remembered from term to term.

    With `points`, side conditions are decided exactly on small boxes, instead of by interval analysis. `beside`:
    whether the members of a junction are simplified by those after them too, not only by those before.
    """

    def __init__(
        self,
        rewriter: Rewriter,
        ranges: Ranges | None = None,
        assuming: Term | None = None,
        points: Points | None = None,
        beside: bool = True,
    ) -> None:
        self.rewriter = rewriter
        self.beside = beside
        self.top = Context(dict(ranges or {}), {}, 0, points)
        if assuming is not None and assuming.op != "const":
            self.top = self.top.under(assuming)
        self.limit_reached = False

    def normal(self, term: Term, log: list[Step] | None = None) -> Term:
        """The normal form of a term; the rewrites made are appended to `log`."""
        found = self.top.normal.get(term)
        return found if found is not None else self._run(term, log)

    def _run(self, term: Term, log: list[Step] | None) -> Term:
        forward: dict[tuple[int, int], Term] = {}
        tried: set[tuple[int, int]] = set()
        stack: list[tuple[Context, Term]] = [(self.top, term)]
        budget = MOST_STEPS
        while stack:
            context, node = stack[-1]
            done = context.normal
            if node in done:
                stack.pop()
                continue
            if node.op in LEAVES or (not node.args and node.op != "load"):
                known = context.known.get(node) if node.dtype == BOOL else context.single(node)
                done[node] = node if known is None else known
                stack.pop()
                continue
            key = (id(context), node.serial)
            target = forward.get(key)
            if target is not None:
                if target in done:
                    done[node] = done[target]
                    stack.pop()
                else:
                    stack.append((context, target))
                continue
            if node.op == "sum" and key not in tried:  # digits merge before their own spellings drift apart
                tried.add(key)
                early = self.rewriter.match(node, context)
                if early is not None and (id(context), early.after.serial) not in forward and budget:
                    forward[key] = early.after
                    budget -= 1
                    if log is not None:
                        log.append(early)
                    continue
            args = _arguments(context, node)
            if isinstance(args, tuple):
                stack.append(args)
                continue
            same = all(a is b for a, b in zip(args, node.args, strict=True))
            new = node if same else t.rebuild(node, args)
            rule = ""
            if new is node:
                step = self.rewriter.step(node, context) if budget else None
                self.limit_reached = self.limit_reached or not budget
                if step is None and budget and self.beside and node.op in ("and", "or"):
                    beside = _beside(context, node)
                    if isinstance(beside, tuple):
                        stack.append(beside)
                        continue
                    step = beside
                if step is None:
                    done[node] = node
                    stack.pop()
                    continue
                new, rule = step.after, step.rule
            if (id(context), new.serial) in forward and new not in done:  # a circle: rules that are not normal
                self.limit_reached = True
                done[node] = node
                stack.pop()
                continue
            forward[key] = new
            if rule:
                budget -= 1
                if log is not None:
                    log.append(Step(rule, node, new))
        return self.top.normal[term]


def _arguments(context: Context, node: Term) -> list[Term] | tuple[Context, Term]:
    """The normal arguments of a node, or the next one to bring into normal form, with what may be assumed there."""
    lazy = node.op in ("where", "and", "or") and context.depth < DEEPEST_GUARD
    result: list[Term] = []
    here = context
    for k, a in enumerate(node.args):
        if lazy and k:
            guard = result[0 if node.op == "where" else k - 1]
            positive = node.op == "and" or (node.op == "where" and k == 1)
            outer = context if node.op == "where" else here
            here = outer if guard.op == "const" else outer.under(guard if positive else t.logical_not(guard))
        found = here.normal.get(a)
        if found is None:
            return here, a
        result.append(found)
    return result


def _beside(context: Context, node: Term) -> Step | tuple[Context, Term] | None:
    """A junction with one member simplified by the members after it, which have to be total; or what is needed first.

    The first pass simplified each member by those before it, in the order of evaluation.
    """
    members = node.args
    if len(members) > LARGEST_BESIDE or context.depth >= DEEPEST_GUARD or not all(map(is_total, members)):
        return None
    for k in range(len(members) - 1):
        others = [*members[:k], *members[k + 1 :]]
        here = context.under(t.logical_and(*(others if node.op == "and" else map(t.logical_not, others))))
        found = here.normal.get(members[k])
        if found is None:
            return here, members[k]
        if found is not members[k]:
            return Step(BESIDE, node, t.junction(node.op, [*members[:k], found, *members[k + 1 :]]))
    return None


def fold(node: Term) -> Term | None:
    """The value of an operation on constants, as numpy computes it in its dtype; None where it is undefined.

    >>> str(fold(t.const(127, "int8") + t.const(1, "int8")))
    'int8(-128)'
    """
    if not node.args or node.op in ("load", "hole", "ramp", "given"):
        return None
    if any(a.op != "const" or (a.dtype == INDEX and abs(a.payload) >= 1 << 62) for a in node.args):
        return None
    value, bad = evaluate_masked([node], {})[0]
    if bad is not None and bool(np.any(bad)):
        return None
    return t.const(value[()], node.dtype)


def sort_members(junction: Term) -> Term:
    """The junction with its members sorted by their text, where all are defined everywhere, so that none is a guard.

    >>> i, j = t.var("i"), t.var("j")
    >>> str(sort_members(t.logical_and(j < 4, i < 8))), str(sort_members(t.logical_and(j > 0, i // j < 8)))
    ('i < 8 and j < 4', '0 < j and i // j < 8')
    """
    if len(junction.args) > LARGEST_JUNCTION or not all(map(is_total, junction.args)):
        return junction
    return t.junction(junction.op, sorted(junction.args, key=str))


def spell(comparison: Term) -> Term:
    """A comparison of indices with positive coefficients on both sides, and no constant where another order has none.

    >>> i = t.var("i")
    >>> str(spell(0 <= 3 - i)), str(spell(i * 4 - 2 > 3))
    ('i < 4', '6 <= 4*i')
    """
    if comparison.op in ("eq", "ne"):
        p, q = comparison.args
        constant, items = t.linear_parts(q - p)
        if items and (items[0][0] < 0):
            constant, items = -constant, tuple((-c, x) for c, x in items)
        left, right = _sides(items)
        if not right:
            return t.compare(comparison.op, t.linear(0, left), t.index_const(-constant))
        return t.compare(comparison.op, t.linear(max(constant, 0), left), t.linear(max(-constant, 0), right))
    constant, items = t.linear_parts(slack(comparison))
    more, less = _sides(items)
    if not less:
        return t.compare("le", t.index_const(-constant), t.linear(0, more))
    if not more:
        return t.compare("lt", t.linear(0, less), t.index_const(constant + 1))
    if constant < 0:
        op = "lt" if constant == -1 else "le"
        return t.compare(op, t.linear(0 if constant == -1 else -constant, less), t.linear(0, more))
    return t.compare("le", t.linear(0, less), t.linear(constant, more))


def _sides(items: Sequence[tuple[int, Term]]) -> tuple[list[tuple[int, Term]], list[tuple[int, Term]]]:
    return [(c, x) for c, x in items if c > 0], [(-c, x) for c, x in items if c < 0]
