"""Index terms and comparisons of kernels, made simple by the proved rules; exact ranges; affine forms read.

Every axis term carries its extent, so `0 <= axis < extent` is known, and the contents of constant tables are; nothing
else is assumed. Which terms are equal is not known here: the Decider of the language is asked (`ir/decide.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eqsat.ir.decide import decider
from eqsat.ir.dtypes import INDEX, NDArray, is_int
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, rebuild
from eqsat.ir.terms.walk import postorder, substitute

Range = tuple[int, int]
INDEX_LIMIT = 1 << 40
"""A 64-bit number from data that is used as an index saturates here, beyond every buffer: sums cannot overflow."""


class IndexSimplifier:
    """Ranges and simple forms of terms, remembered for the time one program is lowered."""

    def __init__(self, tables: Mapping[str, NDArray] | None = None, ranges: Mapping[Term, Range] | None = None) -> None:
        self.tables = dict(tables or {})
        """The contents of index tables, and of integer constants that become an index, by the name in loads."""
        self._facts: dict[Term, Range] = dict(ranges or {})
        self._bounds = Bounds(self._facts)
        self._seen: dict[Term, None] = {}
        self._simple: dict[Term, Term] = {}

    def range(self, term: Term) -> Range | None:
        """The least and greatest value of an index term; None where no bound is known."""
        self._look(term)
        low, high = self._bounds.of(term)
        return None if low is None or high is None else (low, high)

    def _look(self, term: Term) -> None:
        """Note what is known of the loads and casts in a term."""
        told = len(self._facts)
        for node in postorder(term, done=self._seen):
            self._seen[node] = None
            known = self._contents(node)
            if known is not None:
                self._facts[node] = (int(known.min(initial=0)), int(known.max(initial=0)) + 1)
            elif node.dtype == INDEX and node.op == "cast" and node.args[0].dtype in ("int64", "uint64"):
                self._facts[node] = (0 if node.args[0].dtype == "uint64" else -INDEX_LIMIT, INDEX_LIMIT + 1)
        if len(self._facts) > told:
            self._bounds = Bounds(self._facts)

    def _contents(self, node: Term) -> NDArray | None:
        """What an index term reads, where that is a constant: a load of a table, or a cast load of integers."""
        if node.dtype != INDEX:
            return None
        source = node.args[0] if node.op == "cast" and is_int(node.args[0].dtype) else node
        known = source.op == "load" and isinstance(source.payload, str)
        return self.tables.get(source.payload) if known else None

    def simplify(self, term: Term) -> Term:
        """An equal term (for all positions of the axes), its index terms and comparisons of them in normal form.

        >>> i, j = t.ax(0, 8), t.ax(1, 16)
        >>> print(IndexSimplifier().simplify((16 * i + j + 32) // 16))
        i0 + 2
        """
        done = self._simple
        stack = [term]
        while stack:
            node = stack[-1]
            if node in done:
                stack.pop()
                continue
            if is_positional(node):
                inner = [] if is_affine(node) else self.read_within(node)
                missing = [x for x in inner if x not in done]
                if missing:
                    stack.extend(missing)
                else:
                    done[node] = self._shallow(node, inner)
                continue
            missing = [a for a in node.args if a not in done]
            if missing:
                stack.extend(missing)
                continue
            args = [done[a] for a in node.args]
            same = all(a is b for a, b in zip(args, node.args, strict=True))
            done[node] = node if same else rebuild(node, args)
        return done[term]

    def _shallow(self, node: Term, inner: Iterable[Term]) -> Term:
        """An index term in normal form, where inner loads, simple already, are values of which nothing is asked."""
        if is_affine(node):
            return node
        names = {load: t.load(f"read#{load.serial}", (), load.dtype) for load in inner}
        short = substitute(node, names)
        simple = decider().simplify([short], self.facts(short))[0]
        return substitute(simple, {name: self._simple[load] for load, name in names.items()})

    def read_within(self, node: Term) -> list[Term]:
        """The outermost loads in the indices of the outermost loads of a term: of chains `x[y[z[i]]]`, whose terms hold
        all that is before them, each link is a question by itself. Loads of known contents are left out."""
        found: dict[Term, None] = {}
        seen: set[tuple[Term, bool]] = set()
        stack = [(node, False)]
        while stack:
            here = stack.pop()
            if here in seen:
                continue
            seen.add(here)
            x, within = here
            if x.op == "load" and within and isinstance(x.payload, str) and x.payload not in self.tables:
                found[x] = None
            else:
                stack.extend((a, within or x.op == "load") for a in x.args)
        return list(found)

    def simplify_all(self, terms: Iterable[Term]) -> tuple[Term, ...]:
        """Several terms simplified."""
        return tuple(self.simplify(x) for x in terms)

    def facts(self, term: Term) -> dict[Term, Range]:
        """The half-open ranges of what a term loads; its axes say theirs."""
        self._look(term)
        return {x: self._facts[x] for x in postorder(term) if x in self._facts} if self._facts else {}


def is_positional(node: Term) -> bool:
    """Whether a term is an index, or compares two."""
    return node.dtype == INDEX or (node.op in t.COMPARE and node.args[0].dtype == INDEX)


def is_affine(term: Term) -> bool:
    """Whether a term is a sum of axes with numbers as factors, which has no simpler form."""
    return term.op in ("axis", "const") or (term.op == "sum" and all(a.op == "axis" for a in term.args))


def nonnegative_form(condition: Term) -> Term | None:
    """The index term f for which the comparison says f >= 0; None for other conditions."""
    if condition.op not in ("le", "lt") or condition.args[0].dtype != INDEX:
        return None
    return condition.args[1] - condition.args[0] - (0 if condition.op == "le" else 1)
