"""The term step of the index e-graph: rules that egglog does not match, matched on terms that are read from the graph.

Each e-node is read over the cheapest terms of its operands, and the rewriter's own matcher tries the rules on it; what
it finds is loaded at the same place and made equal. Terms as they were loaded first are tried with all rules, so that
what the rewriter does in one step is known here. All matches in disjoint parts of a sum are applied together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from eqsat.graph.egglog_adapter import Call, Expression
from eqsat.index_graph.cost import cost
from eqsat.index_graph.extract import NOWHERE, OPAQUE, Extractor, Node
from eqsat.index_graph.load import Loader, is_data
from eqsat.index_graph.obligations import Obligations
from eqsat.index_graph.places import Place
from eqsat.index_graph.reversed import SUFFIX
from eqsat.index_graph.schema import BINARY, DATA
from eqsat.index_graph.sums import Class
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute
from eqsat.rewriting.match import Pattern
from eqsat.rewriting.match_state import Found
from eqsat.rewriting.match_sums import is_total
from eqsat.rewriting.rewrite import FOLD, SINGLE, SPELL, Rewriter, fold, respelled, sort_members

MOST_MATCHES = 3  # of one rule in one term
MOST_IN_A_SUM = 12
MOST_GROWTH = 0  # by which what a rule that may make terms larger makes of a term costs more
NO_LIMIT = 1 << 40
MOST_OTHERS = 3  # e-nodes that stand for the first operand, beside the cheapest
LARGEST_JUNCTION, LARGEST_BESIDE = 24, 6
_ALONE = frozenset(("Then", "Ix", "Of"))  # parts of an encoding, which are no terms
# Functions of which several spellings are one term: what is read is loaded too.
_SPELLED = frozenset(("Zero", "Nonzero", "And", "Or", "Where", "DWhere"))
_SUMMANDS = tuple(map(frozenset, (("Div",), ("Mod",), ("Min", "Max"), ("Where",), ("Lin",))))
_WIDENED = frozenset(("Div", "Mod", "TDiv", "TMod", "Nonneg", "Zero", "Nonzero", "Abs", "Not"))


_READ_AS: dict[str, tuple[str, ...]] = {
    **{name: (op,) for op, name in BINARY.items()},
    "Nonneg": ("le", "lt"), "Zero": ("eq",), "Nonzero": ("ne",), "And": ("and",), "Or": ("or",), "Not": ("not",),
    "Where": ("where",), "DWhere": ("where",), "Abs": ("abs",), "Mul": ("prod",), "Lin": ("sum",),
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class _Try(Record):
    """A term at a place, the class it is in, and what may be made of it: all of a term that was loaded (`whole`), of
    others what does not cost more than `limit`."""

    term: Term
    place: Place
    here: Expression
    whole: bool
    limit: int

    def allows(self, new: Term) -> bool:
        """Whether a result is worth its rows."""
        return self.limit >= NO_LIMIT or cost(new) <= self.limit


@dataclass
class Terms:
    """What has been tried in one graph, and the matches of each rule."""

    rewriter: Rewriter
    compiled: frozenset[str]  # what egglog matches itself
    growing: frozenset[str]  # rules that may make terms larger
    loader: Loader
    obligations: Obligations
    tried: set[tuple[int, Term]] = field(default_factory=set[tuple[int, Term]])
    said: set[tuple[Class, int, Term]] = field(
        default_factory=set[tuple[Class, int, Term]]
    )  # what a class is loaded as
    matches: dict[str, int] = field(default_factory=dict[str, int])
    seconds: dict[str, float] | None = None  # of each rule, where somebody wants to know
    waiting: list[tuple[Expression, Term, Place, str, Pattern, Found]] = field(
        default_factory=list[tuple[Expression, Term, Place, str, Pattern, Found]]
    )

    # -- the step ------------------------------------------------------------------------------------------------------

    def run(self, extractor: Extractor, name: Callable[[Class], Expression], enough: Callable[[], bool]) -> None:
        """Try the rules on all that is new; `enough` ends it early."""
        places = self.loader.places.all
        for (number, term), expression in list(self.loader.loaded.items()) if not self.tried else ():
            self.try_term(term, places[number], expression, whole=True)
        others: dict[Class, list[Node]] = {}
        nodes = [n for n in extractor.nodes if n.function not in _ALONE and extractor.reachable(n)]
        for node in nodes:
            if node.children:
                others.setdefault(node.output, []).append(node)
        for node in nodes:
            if enough():
                break
            if not node.children and node.function not in OPAQUE:
                continue
            number = extractor.place_of(node)
            place = places[0 if number == NOWHERE else number]
            for term in self._read(extractor, node, others):
                if term.op == "pair" or not place.alive:
                    continue
                if node.function in _SPELLED or not _is_read_as(node, term) or _is_shorter(node, term, extractor):
                    said = (node.output, place.number, term)
                    if said not in self.said:
                        self.said.add(said)
                        self._equal(_meant(node, term, name), term, place)
                if (place.number, term) not in self.tried:
                    self.try_term(term, place, _meant(node, term, name), whole=False)
        self.discharge()

    def _read(self, extractor: Extractor, node: Node, others: Mapping[Class, list[Node]]) -> Iterator[Term]:
        """An e-node as terms: over the cheapest operands, and over others in place of the first."""
        yield extractor.read(node)
        if node.function == "Lin":
            yield from self._other_sums(extractor, node, others)
        if node.function in _WIDENED:
            first, *rest = node.children
            cheapest, at = extractor.best[first][1], extractor.place(first)
            count = 0
            for other in others.get(first, ()):
                if other is not cheapest and extractor.place_of(other) in (at, NOWHERE) and count < MOST_OTHERS:
                    count += 1
                    inner = extractor.read(other)
                    if inner.op != "pair":
                        yield node.build([inner, *(extractor.term(c) for c in rest)])

    def _other_sums(self, extractor: Extractor, node: Node, others: Mapping[Class, list[Node]]) -> Iterator[Term]:
        """A sum over summands that are quotients, remainders, or choices, wherever there is such a one."""
        for functions in _SUMMANDS:
            terms: list[Term] = []
            found = False
            for child in node.children:
                best = extractor.best[child][1]
                fitting = (n for n in others.get(child, ()) if n.function in functions)
                other = None if best.function in functions else next(fitting, None)
                fits = other is not None and extractor.place_of(other) in (extractor.place(child), NOWHERE)
                found = found or fits
                terms.append(extractor.read(other) if other is not None and fits else extractor.term(child))
            if found:
                yield node.build(terms)

    def try_term(self, term: Term, place: Place, here: Expression, whole: bool) -> None:
        """All that follows from one term in one step; `whole`: by the rules that egglog matches itself, too."""
        key = (place.number, term)
        if key in self.tried or not place.alive:
            return
        self.tried.add(key)
        single = place.facts.single(term) if term.op != "const" else None
        if single is not None:
            self._found(SINGLE, here, single, place)
            return
        if term.dtype != t.INDEX:
            value = fold(term)
            if value is not None:
                self._found(FOLD, here, value, place)
                return
        if term.op in ("and", "or"):
            if len(term.args) > LARGEST_JUNCTION:
                return
            self._members(term, place, here)
        for rule, pattern in self.rewriter.patterns(term):
            if whole or rule not in self.compiled:
                limit = NO_LIMIT if whole or rule not in self.growing else cost(term) + MOST_GROWTH
                at = _Try(term, place, here, whole, limit)
                if self.seconds is None:
                    self._by(rule, pattern, at)
                    continue
                begun = time.perf_counter()
                self._by(rule, pattern, at)
                self.seconds[rule] = self.seconds.get(rule, 0.0) + time.perf_counter() - begun

    def _by(self, rule: str, pattern: Pattern, at: _Try) -> None:
        """The matches of one rule; in a sum, one after the other."""
        facts, right = at.place.facts, pattern.instance.right
        open_ones: list[Found] | None = [] if pattern.conditional else None
        if at.term.op in ("sum", "prod") and not rule.endswith(SUFFIX):
            results = self._together(pattern, at)
            if not results and open_ones is not None:
                pattern.every(at.term, facts.of, facts.memo, MOST_MATCHES, open_ones)
        else:
            found = pattern.every(at.term, facts.of, facts.memo, MOST_MATCHES, open_ones)
            results = [new for f in found if not _turns_back(rule, at.term, new := f.build(right))]
        for new in results:
            if new is not at.term and not respelled(new, at.term) and at.allows(new):
                self._found(rule, at.here, new, at.place)
        for found in open_ones or ():
            self.waiting.append((at.here, at.term, at.place, rule, pattern, found))

    def _together(self, pattern: Pattern, at: _Try) -> list[Term]:
        """A sum after the matches of one rule in its parts, one after the other; and after the first, where the sum is
        one that was loaded."""
        facts, results = at.place.facts, [at.term]
        while len(results) <= MOST_IN_A_SUM:
            new = results[-1]
            found = pattern.match(new, facts.of, facts.memo) if pattern.filter.may(new) else None
            after = new if found is None else found.build(pattern.instance.right)
            if after is new or not at.allows(after):
                break
            results.append(after)
        made = results[1:]
        return [made[0], made[-1]] if at.whole and len(made) > 1 else made[-1:]

    def discharge(self) -> None:
        """Apply the rules whose open conditions are proved."""
        for here, term, place, rule, pattern, found in self.waiting:
            conditions = [substitute(c, found.table) for c in pattern.instance.conditions]
            if all(self.obligations.proved(t.as_bool(c), place) for c in conditions):
                new = found.build(pattern.instance.right)
                if new is not term and not respelled(new, term):
                    self._found(rule, here, new, place)
        self.waiting.clear()

    def _found(self, rule: str, here: Expression, new: Term, place: Place) -> None:
        self.matches[rule] = self.matches.get(rule, 0) + 1
        self._equal(here, new, place)

    def _equal(self, here: Expression, term: Term, place: Place) -> None:
        made = self.loader.load(term, place)
        if made != here:
            self.loader.forms.changes.unions.append((here, made))

    # -- junctions -----------------------------------------------------------------------------------------------------

    def _members(self, junction: Term, place: Place, here: Expression) -> None:
        """The junction in the order of its members' texts, and with each member under all the others."""
        members = junction.args
        if not all(map(is_total, members)):
            return
        ordered = sort_members(junction)
        if ordered is not junction:
            self._found(SPELL, here, ordered, place)
            return
        if len(members) <= LARGEST_BESIDE:
            for k in range(len(members) - 1):
                made = self.loader.beside(junction, k, place)
                self.loader.forms.changes.unions.append((here, made))


def _meant(node: Node, term: Term, name: Callable[[Class], Expression]) -> Expression:
    """The expression of an e-node that was read as a term: what is an index or a predicate of data is read from it."""
    expression = name(node.output)
    return Call("Of", (expression,)) if node.function in DATA and not is_data(term) else expression


def _turns_back(rule: str, term: Term, new: Term) -> bool:
    """Whether a rule from right to left does not leave fewer quotients and remainders that a sum subtracts."""
    return rule.endswith(SUFFIX) and term.op == "sum" and _subtracted(new) >= _subtracted(term)


def _subtracted(term: Term) -> int:
    return sum(k < 0 and x.op in ("floordiv", "mod") for k, x in t.linear_parts(term)[1])


def _is_shorter(node: Node, term: Term, extractor: Extractor) -> bool:
    """Whether a sum, over other summands than it has, is less than all that its class is known to be."""
    return node.function == "Lin" and cost(term) < extractor.cost(node.output)


def _is_read_as(node: Node, term: Term) -> bool:
    """Whether an e-node was read as the operation that it is, and not folded into something simpler."""
    return node.function in OPAQUE or term.op in _READ_AS[node.function]
