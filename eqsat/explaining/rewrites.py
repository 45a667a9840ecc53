"""All terms that one rule makes of a term in one place: where, under which guards, and what had to be shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eqsat.index_graph.reversed import SUFFIX, reversed_rule
from eqsat.ir.dtypes import INDEX
from eqsat.ir.rule import Rule, RuleError
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.rewriting.context import Context
from eqsat.rewriting.match import pattern_of
from eqsat.rewriting.match_state import Found
from eqsat.rewriting.rewrite import FOLD, KNOWN, LEAVES, SINGLE, Rewriter, fold, respelled

MOST_PLACES = 400
MOST_MATCHES = 3
CONVENTIONS = (FOLD, SINGLE, KNOWN)


@dataclass(frozen=True, eq=False)
class Position(Record):
    """A part of a term: the way to it (the number of the operand at each level), and what the guards above it say."""

    path: tuple[int, ...]
    node: Term
    context: Context
    guards: tuple[Term, ...] = ()


@dataclass(frozen=True, eq=False)
class Rewrite(Record):
    """One rule applied in one place of `source`: the part after, the whole after, and the conditions that it needs."""

    rule: str
    source: Term
    place: Position
    after: Term
    whole: Term
    conditions: tuple[Term, ...] = ()
    open: bool = False  # whether bounds alone do not show the conditions


def places(root: Term, top: Context) -> Iterator[Position]:
    """Every part of a term, from the root down."""
    waiting = [Position((), root, top)]
    count = 0
    while waiting and count < MOST_PLACES:
        here = waiting.pop(0)
        count += 1
        yield here
        node = here.node
        if node.op in LEAVES:
            continue
        for k, part in enumerate(node.args):
            guards: list[Term] = []
            if node.op == "where" and k:
                guards = [node.args[0] if k == 1 else t.logical_not(node.args[0])]
            elif node.op in ("and", "or") and k:
                guards = [a if node.op == "and" else t.logical_not(a) for a in node.args[:k]]
            context = here.context
            for guard in guards:
                if guard.op != "const":
                    context = context.under(guard)
            waiting.append(Position((*here.path, k), part, context, (*here.guards, *guards)))


def replaced(root: Term, path: Sequence[int], new: Term) -> Term:
    """The term with another part in one place."""
    above: list[tuple[Term, int]] = []
    node = root
    for k in path:
        above.append((node, k))
        node = node.args[k]
    for parent, k in reversed(above):
        new = t.rebuild(parent, [new if n == k else a for n, a in enumerate(parent.args)])
    return new


class Rewrites:
    """Rules ready to be tried everywhere, in both directions where their sides allow that."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = {rule.name: rule for rule in rules}
        both = [*rules]
        for rule in rules:
            try:
                back = reversed_rule(rule)
                for number in range(len(back.instances)):
                    pattern_of(back, number)
            except RuleError:
                continue
            if all(i.left.op not in LEAVES for i in back.instances):
                both.append(back)
        self.forward = Rewriter(rules)
        self.both = Rewriter(both)

    def of(self, root: Term, top: Context, back: bool = True) -> Iterator[Rewrite]:
        """All rewrites of a term; `back`: also from right to left."""
        rewriter = self.both if back else self.forward
        for place in places(root, top):
            for rule, after, conditions, open_ in _at(rewriter, place):
                if after is place.node:
                    continue
                whole = replaced(root, place.path, after)
                if whole is not root:
                    yield Rewrite(rule, root, place, after, whole, conditions, open_)

    def normal(self, root: Term, top: Context) -> Rewrite | None:
        """A step of the rewriter's own, where rules are applied to parts in its order."""
        found = [*places(root, top)]
        for place in [p for p in found if p.node.op == "sum"] + found[::-1]:
            if place.node.op in LEAVES or (not place.node.args and place.node.op != "load"):
                continue
            step = self.forward.step(place.node, place.context)
            if step is not None and step.after is not place.node:
                conditions = next(
                    (c for rule, new, c, _ in _at(self.forward, place) if rule == step.rule and new is step.after), ()
                )
                whole = replaced(root, place.path, step.after)
                if whole is not root:
                    return Rewrite(step.rule, root, place, step.after, whole, conditions)
        return None


def _at(rewriter: Rewriter, place: Position) -> Iterator[tuple[str, Term, tuple[Term, ...], bool]]:
    """What the rules make of a part: rule, part after, conditions, whether these are open."""
    node, context = place.node, place.context
    if node.op in LEAVES:
        return
    single = context.single(node)
    if single is not None:
        yield SINGLE, single, (), False
        return
    value = fold(node) if node.dtype != INDEX else None
    if value is not None:
        yield FOLD, value, (), False
    for name, pattern in rewriter.patterns(node):
        open_ones: list[Found] = []
        found = pattern.every(node, context.of, context.memo, MOST_MATCHES, open_ones)
        for matches, open_ in ((found, False), (open_ones, True)):
            for one in matches:
                after = one.build(pattern.instance.right)
                if not respelled(after, node):
                    conditions = tuple(substitute(c, one.table) for c in pattern.instance.conditions)
                    yield name, after, tuple(t.as_bool(c) for c in conditions), open_


def plain_name(rule: str) -> str:
    """The rule's own name, in whichever direction it was used."""
    return rule.removesuffix(SUFFIX)
