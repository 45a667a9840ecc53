"""The normaliser: rules tagged `normal`, applied until none applies, under the facts of the guards above. It works
bottom-up, but tries the rules about sums of digits on the way down too.

It knows no identities of its own but three conventions of spelling: an operation on constants is its value in its
dtype, a term with one possible value is that value, and predicates have one spelling (a comparison of indices has each
summand on the side where its coefficient is positive; members of a junction that are defined everywhere are sorted).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.ranges.box_values import BoxValues
from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.rewriting.context import Context, Ranges
from eqsat.rewriting.match import Pattern, pattern_of
from eqsat.rewriting.match_filter import FilterKeys
from eqsat.rewriting.match_sums import is_total, slack

LEAVES = ("axis", "var", "sym", "const")
FOLD, SPELL, KNOWN, SINGLE, BESIDE = "evaluate-constants", "spell-predicate", "guard", "one-value", "beside"
# Bounds on the work for one term; normal rules end, so reaching one only makes the answer less simple.
FEWEST_STEPS, STEPS_PER_NODE, MOST_STEPS = 200, 10, 20_000
LARGEST_JUNCTION = 24
MOST_WAYS = 8
LARGEST_BESIDE = 6
DEEPEST_GUARD = 8
MOST_ASSUMING = 1_000  # visits of a term where guards are assumed, of one run; behind them, none more is assumed
LARGEST_TEXT = 120
"""The nodes of a term up to which it is sorted by its text."""


@dataclass(frozen=True, eq=False)
class RuleStep(Record):
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

    Of several ways in which a rule about sums matches one, the first is taken; with a `measure`, that with the least
    result.
    """

    def __init__(self, rules: Iterable[Rule], measure: Callable[[Term], int] | None = None) -> None:
        self.rules = tuple(rules)
        self.measure = measure
        self.by_root: dict[str, list[tuple[str, Pattern]]] = {}
        self.keys: dict[str, FilterKeys] = {}
        self.candidates: dict[Hashable, list[tuple[str, Pattern]]] = {}
        self.beyond: dict[Rewriter, Rewriter] = {}
        for rule in self.rules:
            for number in range(len(rule.instances)):
                pattern = pattern_of(rule, number)
                for op in pattern.filter.roots:
                    self.by_root.setdefault(op, []).append((rule.name, pattern))
        for op, patterns in self.by_root.items():
            self.keys[op] = FilterKeys(p.filter for _, p in patterns)

    def further(self, other: Rewriter) -> Rewriter:
        """The rules that another rewriter does not have, compiled already."""
        found = self.beyond.get(other)
        if found is None:
            found = Rewriter((), self.measure)
            known = {r.name for r in other.rules}
            found.rules = tuple(r for r in self.rules if r.name not in known)
            for op, patterns in self.by_root.items():
                kept = [(name, p) for name, p in patterns if name not in known]
                if kept:
                    found.by_root[op], found.keys[op] = kept, FilterKeys(p.filter for _, p in kept)
            self.beyond[other] = found  # complete: another thread may take it at once
        return found

    def normalise(
        self, term: Term, ranges: Ranges | None = None, log: list[RuleStep] | None = None, assuming: Term | None = None
    ) -> Term:
        """The normal form of a term whose axes, variables and symbols lie in these half-open ranges."""
        return Session(self, ranges, assuming).normal(term, log)

    def step(self, node: Term, context: Context) -> RuleStep | None:
        """The first rule that applies at the root of a node whose arguments are normal."""
        known = context.known.get(node)
        if known is not None:
            return RuleStep(KNOWN, node, known)
        single = context.single(node)
        if single is not None:
            return RuleStep(SINGLE, node, single)
        if node.op in t.COMPARE and node.args[0].dtype == INDEX:
            spelled = spell(node)
            if spelled is not node:
                return RuleStep(SPELL, node, spelled)
        elif node.dtype != INDEX:
            value = fold(node)
            if value is not None:
                return RuleStep(FOLD, node, value)
        ordered = sort_members(node) if node.op in ("and", "or") else sort_pair(node)
        if ordered is not node:
            return RuleStep(SPELL, node, ordered)
        return self.applied(node, context)

    def applied(self, node: Term, context: Context) -> RuleStep | None:
        """The first rule that applies to a node in its spelling, of a comparison also to the sum that it is about."""
        if node.op in t.COMPARE and node.args[0].dtype == INDEX:
            merged = self._difference(node, context)
            if merged is not None:
                return merged
        if node.op in ("and", "or") and len(node.args) > LARGEST_JUNCTION:
            return None
        return self.match(node, context)

    def _difference(self, node: Term, context: Context) -> RuleStep | None:
        """A comparison whose sides, taken as one sum, have digits that belong together."""
        left, right = node.args
        if "sum" not in self.by_root:
            return None
        if left.op == "const" or right.op == "const":
            return None
        difference = slack(node) if node.op in ("lt", "le") else right - left
        found = self.match(difference, context) if difference.op == "sum" else None
        if found is None:
            return None
        op = "le" if node.op == "lt" else node.op
        return RuleStep(found.rule, node, t.compare(op, t.index_const(0), found.after))

    def match(self, node: Term, context: Context) -> RuleStep | None:
        """The first declared rule that applies at the root of a node, whatever its arguments are."""
        for name, pattern in self.patterns(node):
            found = pattern.match(node, context.of, context.memo)
            if found is not None:
                new = found.build(pattern.instance.right)
                if self.measure is not None and node.op == "sum" and pattern.instance.left.op == "sum":
                    ways = pattern.every(node, context.of, context.memo, MOST_WAYS)
                    new = min([new, *(way.build(pattern.instance.right) for way in ways)], key=self.measure)
                if new is not node and not respelled(new, node):
                    return RuleStep(name, node, new)
        return None

    def patterns(self, node: Term) -> list[tuple[str, Pattern]]:
        """The rules, by name, whose left side may match a term, by what stands just below its root."""
        keys = self.keys.get(node.op)
        if keys is None:
            return []
        key = keys.key(node)
        candidates = self.candidates.get(key)
        if candidates is None:
            candidates = self.candidates[key] = [pair for pair in self.by_root[node.op] if pair[1].filter.may(node)]
        return candidates


def respelled(new: Term, node: Term) -> bool:
    """Whether a comparison is another one in other words."""
    return node.op in t.COMPARE and new.op in t.COMPARE and new.args[0].dtype == INDEX and spell(new) is node


class Session:
    """Normal forms of terms over one box (where an assumption holds, if one is given), remembered from term to term.

    With `values`, side conditions are decided exactly on small boxes, instead of by interval analysis. `beside`:
    whether the members of a junction are simplified by those after them too, not only by those before. `after`: earlier
    sessions over the same facts; where one of them has left a term as it is, only further rules are tried here.
    """

    def __init__(
        self,
        rewriter: Rewriter,
        ranges: Ranges | None = None,
        assuming: Term | None = None,
        values: BoxValues | None = None,
        beside: bool = True,
        after: Sequence[Session] = (),
    ) -> None:
        self.rewriter = rewriter
        self.beside = beside
        self.key = (rewriter, beside)
        further = [(s.key, rewriter.further(s.rewriter)) for s in after]
        self.earlier = sorted(further, key=lambda pair: len(pair[1].rules))
        if after:
            self.top = after[0].top
        else:
            self.top = Context(dict(ranges or {}), {}, 0, values)
            if assuming is not None and assuming.op != "const":
                self.top = self.top.under(assuming)
        self.limit_reached = False
        self.assuming = 0  # visits of this run where guards are assumed
        self.most_assuming = MOST_ASSUMING
        self.begun: dict[tuple[int, int], list[Term]] = {}  # the normal arguments of terms that lack some

    def normal(self, term: Term, log: list[RuleStep] | None = None) -> Term:
        """The normal form of a term; the rewrites made are appended to `log`."""
        known = self.found(self.top).get(term)
        self.assuming = 0
        self.begun.clear()
        return known if known is not None else self._run(term, log)

    def found(self, context: Context) -> dict[Term, Term]:
        """The normal forms known in a context."""
        found = context.forms.get(self.key)
        if found is None:
            found = context.forms[self.key] = {}
        return found

    def may_assume(self, context: Context) -> bool:
        """Whether guards below a context are assumed there; nested ones would make contexts without end."""
        return context.depth < DEEPEST_GUARD and self.assuming <= self.most_assuming

    def _left_by(self, context: Context, node: Term) -> Rewriter | None:
        """The rules that an earlier session did not try on a term that it has left as it is."""
        for key, rules in self.earlier:
            forms = context.forms.get(key)
            if forms is not None and forms.get(node) is node:
                return rules
        return None

    def _run(self, term: Term, log: list[RuleStep] | None) -> Term:
        forward, tried = dict[tuple[int, int], Term](), set[tuple[int, int]]()
        stack: list[tuple[Context, Term]] = [(self.top, term)]
        budget = min(FEWEST_STEPS + STEPS_PER_NODE * sum(1 for _ in postorder(term)), MOST_STEPS)
        while stack:
            context, node = stack[-1]
            done = self.found(context)
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
                self._follow(stack, target, done)
                continue
            left = self._left_by(context, node) if self.earlier else None
            if key not in tried:
                tried.add(key)
                if left is not None and left.by_root.keys().isdisjoint(context.occurring(node)):
                    done[node] = node
                    continue
                if budget and (left is None or node.op == "sum"):
                    early = self._early(node, context) if left is None else left.applied(node, context)
                    if early is not None and (id(context), early.after.serial) not in forward:
                        forward[key] = early.after
                        budget -= 1
                        if log is not None:
                            log.append(early)
                        continue
            self.assuming += context is not self.top
            new = self._rebuilt(context, node)
            if isinstance(new, tuple):
                stack.append(new)
                continue
            rule = ""
            if new is node:
                step = self._late(node, context, left) if budget else None
                self.limit_reached = self.limit_reached or not budget
                if isinstance(step, tuple):
                    stack.append(step)
                    continue
                if step is None:
                    done[node] = node
                    continue
                new, rule = step.after, step.rule
            if (id(context), new.serial) in forward and new not in done:  # a circle: rules that are not normal
                self.limit_reached = True
                done[node] = node
                continue
            forward[key] = new
            if rule:
                budget -= 1
                if log is not None:
                    log.append(RuleStep(rule, node, new))
        return self.found(self.top)[term]

    def _rebuilt(self, context: Context, node: Term) -> Term | tuple[Context, Term]:
        """The term over the normal forms of its arguments, or an argument that has none yet."""
        args = _arguments(self, context, node)
        if isinstance(args, tuple):
            return args
        return node if all(a is b for a, b in zip(args, node.args, strict=True)) else t.rebuild(node, args)

    def _follow(self, stack: list[tuple[Context, Term]], target: Term, done: dict[Term, Term]) -> None:
        """The normal form of the last term is that of what it was rewritten to."""
        context, node = stack[-1]
        if target in done:
            done[node] = done[target]
            stack.pop()
        elif any(n is target and c is context for c, n in stack):  # a circle through what is below the target
            self.limit_reached = True
            done[node] = node
            stack.pop()
        else:
            stack.append((context, target))

    def _late(self, node: Term, context: Context, left: Rewriter | None) -> RuleStep | tuple[Context, Term] | None:
        """What is done where all arguments are normal, or what must be normal before that can be said."""
        step = None
        if left is not None:
            step = left.applied(node, context)
        elif node.op != "sum":  # all that is known of sums was tried early
            step = self.rewriter.step(node, context)
        if step is None and self.beside and node.op in ("and", "or"):
            return _beside(self, context, node)
        return step

    def _early(self, node: Term, context: Context) -> RuleStep | None:
        """What is done before the arguments: a term of one value needs none of them, and digits merge before their own
        spellings drift apart."""
        single = context.single(node)
        if single is not None:
            return RuleStep(SINGLE, node, single)
        return self.rewriter.match(node, context) if node.op == "sum" else None


def _arguments(session: Session, context: Context, node: Term) -> list[Term] | tuple[Context, Term]:
    """The normal arguments of a node, or the next one to bring into normal form, with what may be assumed there."""
    lazy = node.op in ("where", "and", "or") and session.may_assume(context)
    result = session.begun.setdefault((id(context), node.serial), [])  # a junction of many is come back to for each
    for k in range(len(result), len(node.args)):
        here, a = context, node.args[k]
        if lazy and k:
            guards = result[:1] if node.op == "where" else result
            positive = node.op == "and" or (node.op == "where" and k == 1)
            for guard in context.related(guards, a):
                here = here.under(guard if positive else t.logical_not(guard))
        found = session.found(here).get(a)
        if found is None:
            return here, a
        result.append(found)
    return session.begun.pop((id(context), node.serial))


def _beside(session: Session, context: Context, node: Term) -> RuleStep | tuple[Context, Term] | None:
    """A junction with one member simplified by the members after it, which have to be total; or what is needed first.

    The first pass simplified each member by those before it, in the order of evaluation.
    """
    members = node.args
    if len(members) > LARGEST_BESIDE or not session.may_assume(context) or not all(map(is_total, members)):
        return None
    for k in range(len(members) - 1):
        others = context.related([*members[:k], *members[k + 1 :]], members[k])
        guard = t.logical_and(*(others if node.op == "and" else map(t.logical_not, others)))
        here = context.under(guard) if others else context
        found = session.found(here).get(members[k])
        if found is None:
            return here, members[k]
        if found is not members[k]:
            return RuleStep(BESIDE, node, t.junction(node.op, [*members[:k], found, *members[k + 1 :]]))
    return None


def fold(node: Term) -> Term | None:
    """The value of an operation on constants, as numpy computes it in its dtype; None where it is undefined.

    >>> str(fold(t.const(127, "int8") + t.const(1, "int8")))
    'int8(-128)'
    """
    if not node.args or node.op in ("load", "hole", "ramp", "broadcast", "given", "same", "load_ok"):
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
    return t.junction(junction.op, sorted(junction.args, key=_place))


@lru_cache(maxsize=4096)
def _place(term: Term) -> tuple[bool, str | bytes]:
    """What a term is sorted by: its text, or a hash of its content where that would be long."""
    large = sum(1 for _ in islice(postorder(term), LARGEST_TEXT + 1)) > LARGEST_TEXT
    return large, term.order[0] if large else str(term)


def sort_pair(node: Term) -> Term:
    """A minimum or maximum of indices with its operands in the order of their texts, numbers last.

    >>> str(sort_pair(t.binary("min", t.index_const(3), t.var("i"))))
    'minimum(i, 3)'
    """
    if node.op not in ("min", "max") or node.dtype != INDEX or node.lanes > 1:
        return node
    a, b = node.args
    swapped = b.op != "const" and (a.op == "const" or _place(b) < _place(a))
    return t.binary(node.op, b, a) if swapped else node


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
