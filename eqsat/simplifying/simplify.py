"""`simplify`: a term or predicate with fewer operations and the same value everywhere in its ranges."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

from eqsat.index_graph.cost import cost
from eqsat.index_graph.graph import Unsound
from eqsat.index_graph.stage import Known, may_be_stuck, other_form
from eqsat.ir.dtypes import BOOL
from eqsat.ir.errors import EqsatError
from eqsat.ir.fast import fast_paths
from eqsat.ir.keywords import keywords
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import nodes_of, postorder
from eqsat.proving.gist import gists
from eqsat.proving.pieces import by_pieces
from eqsat.proving.prover import Portfolio
from eqsat.proving.question import LEAVES, Box, shallow
from eqsat.proving.read import read
from eqsat.proving.trial import Trial, ranges_of
from eqsat.rewriting.bit_linear import by_bits
from eqsat.rewriting.match_sums import is_total
from eqsat.rewriting.rewrite import MOST_ASSUMING, Rewriter, Session
from eqsat.rules import tagged
from eqsat.simplifying.machine import by_machine_integers
from eqsat.simplifying.residues import Residues, residues

MOST_ROUNDS = 4
ASSUMING_IN_ALL = 8_000  # visits of a term where guards are assumed, of all passes
MOST_GROWTH = 4  # forms that cost so many times as much are left
WORTH_SETS = 6  # the cost from which on a predicate is worth asking isl about
SET_OPERATIONS = 100_000
LEAST = "least"  # beside tags: of several ways in which a rule matches a sum, the one that makes least
Rules = tuple[Rule, ...] | None
_DIVISIONS = {"floordiv", "mod", "truncdiv", "truncmod"}
_REGROUPED = {*_DIVISIONS, "where", "min", "max", "abs", "prod"}  # what the rules tagged `expansive` look at
_SHARED = {"where", "min", "max", "prod"}  # what rules about sums match in several ways
_SPELLED = {*t.COMPARE, "and", "or", "bitxor"}  # what the rules tagged `finish` look at


class UnsoundWarning(UserWarning):
    """A simplification contradicted itself and was discarded: a rule is wrong. Please report it."""


@cache
def _rewriter(rules: Rules, *tags: str) -> Rewriter:
    """The compiled rules with any of these tags: of all of ours (None), or of some."""
    chosen = tagged(*tags) if rules is None else [r for r in rules if r.tags & set(tags)]
    return Rewriter(chosen, cost if LEAST in tags else None)


@keywords
def simplify(
    e: Any,
    ranges: Mapping[str, Any] | None = None,
    assuming: Any = None,
    *,
    rules: Iterable[Rule | str] | ModuleType | None = None,
) -> Term:
    """An equal term with fewer operations, or the term itself.

    e: a term, or text for `parse_expr`. ranges: {name: extent} or {name: (start, stop)}, stop exclusive, None for no
    bound; omitted: the axes' extents. assuming: a predicate that may be used; one that holds nowhere is an EqsatError.
    rules: rules of your own, or a module that declares some, added to those of eqsat once they are proved (one that is
    not is an EqsatError), or names of those of eqsat that may be used.
    The result has the same value wherever the input is defined, and may be defined where it is not. Proved rules derive
    it, or it is proved on its own; before it is returned, it is compared with the input at all points of a small box
    and at some of a large one.

    >>> print(simplify("(i // 4 * 16 + i % 4 * 4 + j) // 4", {"j": 4}))
    i
    >>> print(simplify("not (io == 3 and ii >= 2)", {"io": 4, "ii": 4}))
    4*io + ii < 14
    """
    if isinstance(assuming, bool):
        assuming = t.bool_const(assuming)
    terms, box = read([e] if assuming is None else [e, assuming], ranges)
    given = t.as_bool(terms[1]) if assuming is not None else None
    if given is not None and given.op != "const" and Portfolio().consistent(given, box).verdict == "refuted":
        raise EqsatError(f"assumption {given}", "contradictory: it holds nowhere in the ranges", "drop or correct it")
    if given is t.FALSE:
        raise EqsatError("assumption False", "contradictory: it holds nowhere", "drop or correct it")
    if rules is None:
        return simplify_term(terms[0], box, given)
    from eqsat.rulebook.choice import rules_in_use

    return simplify_term(terms[0], box, given, rules_in_use(rules))


def simplify_term(term: Term, box: Box | None = None, assuming: Term | None = None, rules: Rules = None) -> Term:
    """`simplify` for a term and a box of half-open ranges (None: no bound), by all rules of ours or by those given."""
    if term.op in LEAVES and assuming is None and not _is_single(term, box or {}):
        return term
    found = _over_indices(term, box or {}, assuming, rules)
    return found if rules is not None else by_machine_integers(found, box or {}, assuming, _over_indices)


def _over_indices(term: Term, box: Box, assuming: Term | None, rules: Rules = None) -> Term:
    key = tuple(sorted(((leaf, r) for leaf, r in box.items()), key=lambda item: hash(item[0])))
    return _simplified(term, key, assuming, rules, fast_paths())


def _is_single(leaf: Term, box: Box) -> bool:
    """Whether a leaf has one value in its range."""
    start, stop = ranges_of([leaf], box)[leaf]
    return start is not None and stop is not None and stop - start == 1


@lru_cache(maxsize=4096)
def _simplified(
    term: Term,
    key: tuple[tuple[Term, tuple[int | None, int | None]], ...],
    assuming: Term | None,
    rules: Rules,
    fast: bool,
) -> Term:
    box = dict(key)
    trial = Trial(term, box, assuming)
    if trial.empty:  # then every statement holds, and nothing may be concluded
        return term
    maker = _Maker(term, box, assuming, trial, rules, fast)
    best = maker.least(term)
    if trial.possible and (best is not term or not fast):
        best = maker.by_graph(term, best)
    for _ in range(MOST_ROUNDS if trial.possible else 0):  # until asking again would change nothing
        before, best = best, maker.by_graph(best if fast else term, best)
        if best is before:
            break
    return best if best is term or maker.checked(best) else term


class _Maker:
    """Terms equal to one over its box; the passes remember what they have rewritten.

    `borrowed` are forms that isl or the algebra of bits proposed: they, and what was made of them, have to be proved;
    the others come from proved rules, so trying them at points is a check of the rules. Where they are not made by the
    `fast` path, the e-graph makes all.
    """

    def __init__(
        self, term: Term, box: Box, assuming: Term | None, trial: Trial, rules: Rules, fast: bool = True
    ) -> None:
        self.rules, self.fast = rules, fast
        self.term, self.box, self.assuming, self.trial = term, box, assuming, trial
        self.residues = () if assuming is None else _residues(term, assuming, box, {leaf_name(x) for x in trial.ranges})
        self.ranges: dict[Term, Any] = {}
        for leaf, (start, stop) in box.items():
            self.ranges[leaf] = (-math.inf if start is None else start, math.inf if stop is None else stop)
        self.passes: dict[tuple[str, ...], Session] = {}
        self.found: dict[Term, list[Term]] = {}
        self.borrowed: set[Term] = set()
        self.assuming_left = ASSUMING_IN_ALL

    def rewritten(self, term: Term, *tags: str) -> Term:
        """The term after the pass with the rules of these tags."""
        session = self.session(*tags)
        session.most_assuming = min(MOST_ASSUMING, self.assuming_left)
        found = session.normal(term)
        self.assuming_left -= session.assuming
        return found

    def session(self, *tags: str) -> Session:
        """The pass with the rules of these tags."""
        if tags not in self.passes:
            earlier, beside = list(self.passes.values()), tags != ("finish",)
            box = (self.ranges, self.assuming, self.trial.points)
            self.passes[tags] = Session(_rewriter(self.rules, *tags), *box, beside, earlier)
        return self.passes[tags]

    def forms(self, term: Term) -> list[Term]:
        """Equal terms, from the most canonical to the term itself."""
        normal = self.rewritten(term, "normal")
        if normal not in self.found:
            self.found[normal] = self.of_normal(normal)
        forms = [*self.found[normal]]
        if min(map(cost, forms)) >= cost(term):
            forms.append(self.rewritten(term, "none"))  # without rules: what the bounds decide is left out
        if term in self.borrowed:
            self.borrowed.update(forms)
        return [*forms, term]

    def of_normal(self, normal: Term) -> list[Term]:
        """The forms of a term in normal form."""
        if normal.dtype == BOOL and normal.op != "const" and self.is_open(normal):
            decision = Portfolio().decide(normal, self.box, self.assuming)
            if decision in ("always", "never"):
                return [t.bool_const(decision == "always")]
        operations = {node.op for node in postorder(normal)}
        compares = bool(operations & set(t.COMPARE))
        other: list[Term] = []
        if operations & _REGROUPED:
            other.append(self.rewritten(normal, "normal", "expansive"))
            if "sum" in operations and operations & _SHARED:
                other.append(self.rewritten(normal, "normal", "expansive", LEAST))
        if operations & _DIVISIONS:
            other += self.by_residues(normal)
        if "bitxor" in operations and normal.dtype == t.INDEX:
            other += self.by_bits(normal)
        if "where" in operations and normal.dtype == t.INDEX:
            other += self.by_pieces(normal)
        other = [form for form in other if cost(form) <= MOST_GROWTH * cost(normal)]
        if not operations & _SPELLED:
            return [normal, *other]
        if not compares:
            return [self.rewritten(normal, "finish"), normal, *other]
        forms = [*self.spelled(normal), *other, *(self.rewritten(form, "finish") for form in other)]
        if min(map(cost, forms)) >= WORTH_SETS and _is_involved(normal):
            least = min(map(_comparisons, forms))
            for proposed in gists(normal, self.box, self.assuming, SET_OPERATIONS):
                if _comparisons(proposed) <= least:
                    more = self.spelled(self.rewritten(proposed, "normal"))
                    self.borrowed.update(set(more) - set(forms))
                    forms += more
        return forms

    def by_residues(self, normal: Term) -> list[Term]:
        """Forms over quotients of the variables whose remainders are assumed, said with the variables again: by all
        that is assumed, and as long as that makes nothing smaller, by what matters for one divisor."""
        forms: list[Term] = []
        for known in self.residues:
            found = known.out(simplify_term(known.into(normal), known.box))
            proposed = self.rewritten(found, "normal")
            if not forms or cost(proposed) < cost(self.term):
                self.borrowed.add(proposed)
                forms.append(proposed)
            if cost(proposed) < cost(self.term):
                break
        return forms

    def by_bits(self, normal: Term) -> list[Term]:
        """A term that is linear over bits, said with fewer bits of its variables."""
        closed = {x: (a, b) for x, (a, b) in self.trial.ranges.items() if a is not None and b is not None}
        limits = Bounds(closed)

        def width(atom: Term) -> int | None:
            low, high = limits.of(atom)
            return None if low is None or high is None or low < 0 else high.bit_length()

        proposed = by_bits(normal, width)
        if proposed is None or cost(proposed) >= cost(normal):
            return []
        self.borrowed.add(proposed)
        return [proposed]

    def by_pieces(self, normal: Term) -> list[Term]:
        """Several choices, made over by the affine pieces of their value."""
        if len(nodes_of("where", normal)) < 2:
            return []
        proposed = by_pieces(normal, self.box, self.assuming, SET_OPERATIONS, cost)
        if proposed is None:
            return []
        forms = self.spelled(self.rewritten(proposed, "normal"))  # isl says `0 <= 2 - x`
        forms.append(self.rewritten(proposed, "none"))
        if min(map(cost, forms)) >= cost(normal):
            return []
        self.borrowed.update(forms)
        return forms

    def least(self, term: Term) -> Term:
        """The first stage: the cheapest form that the rewriter finds, of equal ones the first."""
        if not self.fast:
            return term
        best = term
        for _ in range(MOST_ROUNDS):
            before, best = best, min(self.forms(best), key=cost)
            if best is before:
                break
        return best

    def by_graph(self, term: Term, best: Term) -> Term:
        """The second stage: what an e-graph finds for two equal terms, and the rewriter makes of that."""
        if self.rules is None and self.fast and not may_be_stuck(best):
            return best
        try:
            points = self.trial.points
            known = Known(self.ranges, None if points is None else points.ranges, self.assuming, self.rules)
            other = other_form(term, best, known, self.session("normal").top if self.fast else None)
        except Unsound as error:
            warnings.warn(f"simplify {self.term}: {error}", UnsoundWarning, stacklevel=5)
            return best
        if other is best:
            return best
        if best in self.borrowed or not is_total(self.term):  # it states equalities, whichever side is less defined
            self.borrowed.add(other)
        return min([best, self.least(other)], key=cost)

    def is_open(self, predicate: Term) -> bool:
        """Whether a predicate may be the same at all points, for all that trying some has shown."""
        return not self.trial.possible or not self.trial.varies(predicate)

    def spelled(self, normal: Term) -> list[Term]:
        """A normal form with its comparisons merged, with less of a factor in them, and in their final spelling."""
        compact = self.rewritten(normal, "normal", "compact")
        tight = self.rewritten(compact, "normal", "compact", "tight") if _has_factors(compact) else compact
        forms = dict.fromkeys((tight, compact, normal))
        return list(dict.fromkeys((*(self.rewritten(form, "finish") for form in forms), *forms)))

    def checked(self, found: Term) -> bool:
        """Whether a form is the same at the points tried, and proved to be if no rule made it or nothing was tried."""
        differs = "somewhere"
        if self.trial.possible:
            agrees = self.trial.agree(self.term, found)
            if agrees and (self.trial.whole or found not in self.borrowed):
                return True
        else:
            agrees = True
        if agrees:
            proof = Portfolio().equal(self.term, found, self.box, self.assuming)
            if proof.verdict != "refuted":
                return proof.verdict == "proved" or found not in self.borrowed
            differs = f"at {proof.witness}"
        warnings.warn(f"simplify {self.term}: {found} differs {differs}", UnsoundWarning, stacklevel=4)
        return False


def _residues(term: Term, assuming: Term, box: Box, taken: Collection[str]) -> Collection[Residues]:
    """What is assumed of remainders, and what of that matters for each divisor of a term."""
    divisors = {t.int_value(n.args[1]) or 0 for n in postorder(term) if n.op in _DIVISIONS and n.dtype == t.INDEX}
    found = (residues(assuming, box, taken, d) for d in (0, *sorted(divisors, reverse=True)))
    return {tuple(x.serial for x in r.forward.values()): r for r in found if r is not None}.values()


def _comparisons(term: Term) -> int:
    return sum(node.op in t.COMPARE for node in postorder(term))


def _is_involved(predicate: Term) -> bool:
    """Whether a predicate has more to it than the rules see: comparisons of what is not a sum of variables, or three
    and more that share variables."""
    if predicate.dtype != BOOL:
        return False
    groups: list[tuple[set[Term], int]] = []
    for node in postorder(predicate):
        if node.op not in (*t.COMPARE, *LEAVES, "const", "sum", "and", "or", "not"):
            return True
        if node.op in t.COMPARE:
            leaves, count = {x for x in shallow(node) if x.op in LEAVES}, 1
            for group in [g for g in groups if not g[0].isdisjoint(leaves)]:
                groups = [g for g in groups if g is not group]
                leaves, count = leaves | group[0], count + group[1]
            groups.append((leaves, count))
    return any(count > 2 for _, count in groups)


def _has_factors(term: Term) -> bool:
    """Whether a sum has a factor that a comparison could do with less of."""
    sums = [node for node in postorder(term) if node.op == "sum"]
    return any(abs(c) > 1 for node in sums for c, _ in t.linear_parts(node)[1])
