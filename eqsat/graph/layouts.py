"""Answers to the questions about layouts: which forms a target has, and which layouts views carry up and down."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.ir.flat.facts import inverse, is_bijective, split_core
from eqsat.ir.flat.map import FlatMap, digit, from_digits
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.sizes import at_most
from eqsat.ir.flat.table import Map
from eqsat.ir.terms.term import Term
from eqsat.operators.forms import FormMaker
from eqsat.operators.interned import Interned

Fact = tuple[str, tuple[int, ...]]

MANY = 60
"""Operators, above which fewer layouts are asked of each: choices among more take longer and are made no better."""


def layout_cap(operators: int) -> int:
    """How many layouts are asked of each operand and output of so many operators.

    >>> layout_cap(3), layout_cap(300)
    (12, 8)
    """
    return 12 if operators <= MANY else 8


class Layouts:
    """Turns questions (relation name, integers) into facts, and remembers whether there were too many layouts."""

    def __init__(self, interned: Interned, forms: FormMaker, layout_cap: int) -> None:
        self.interned = interned
        self.forms = forms
        self.layout_cap = layout_cap
        self.asked_layouts: dict[tuple[int, int], int] = {}
        self.capped = False
        self.answers: dict[str, Callable[..., list[Fact]]] = {
            "need_output_form": self.output_form,
            "need_operand_form": self.operand_form,
            "need_view_up": self.view_up,
            "need_view_down": self.view_down,
        }

    def _reindex(self, m: Map, fill: Term | None, dtype: str) -> int:
        return self.interned.reindex(m, fill, dtype)

    def _within_cap(self, s: int, slot: int) -> bool:
        count = self.asked_layouts.get((s, slot), 0)
        if count >= self.layout_cap:
            self.capped = True
            return False
        self.asked_layouts[s, slot] = count + 1
        return True

    def form_facts(self, s: int, f: int) -> list[Fact]:
        form = self.interned.forms[f]
        facts: list[Fact] = [("form", (s, f))]
        facts += [("form_operand", (f, k, m)) for k, m in enumerate(form.operand_maps)]
        facts += [("form_output", (f, o, m)) for o, m in enumerate(form.output_maps)]
        return facts

    def output_form(self, s: int, o: int, m: int) -> list[Fact]:
        """The target forms that produce this layout directly."""
        if not self._within_cap(s, -1 - o):
            return []
        found = self.forms.for_output(s, o, self.interned.reindexes[m].map)
        return [fact for f in found for fact in self.form_facts(s, f)]

    def operand_form(self, s: int, k: int, m: int) -> list[Fact]:
        """The target forms that read an operand in this layout."""
        if not self._within_cap(s, k):
            return []
        found = self.forms.for_operand(s, k, self.interned.reindexes[m].map)
        return [fact for f in found for fact in self.form_facts(s, f)]

    def view_up(self, c: int, p: int) -> list[Fact]:
        """The layout that a view of a value takes when the value lies in layout p and nothing is permuted."""
        core, layout = self.interned.reindexes[c], self.interned.reindexes[p]
        back = inverse(layout.map)
        seen = None if back is None else compose(back, core.map)
        if seen is None or not isinstance(seen, FlatMap) or not _counts_up(seen):
            return []
        wanted = inverse(split_core(seen)[1])
        return [] if wanted is None else [("view_up", (c, p, self._reindex(wanted, None, core.dtype)))]

    def view_down(self, c: int, m: int) -> list[Fact]:
        """The layout of the value under a view from which this layout of the view is cut without permuting."""
        core, layout = self.interned.reindexes[c], self.interned.reindexes[m]
        seen = compose(core.map, layout.map)
        if not isinstance(seen, FlatMap) or not _counts_up(seen):
            return []
        order = _source_layout(seen)
        return [] if order is None else [("view_down", (c, m, self._reindex(order, None, core.dtype)))]


def _counts_up(m: FlatMap) -> bool:
    """Whether every digit steps forward, each over cells of its own: only then does a map have an order of its axes."""
    strides = [d.stride for d in m.digits if d.stride != 0]
    return all(at_most(1, s) for s in strides) and len(set(strides)) == len(strides)


def _source_layout(m: FlatMap) -> FlatMap | None:
    """The source's digits (cut at the strides that m uses) in the order in which m's output counts them."""
    strides = sorted({abs(d.stride) for d in m.digits if isinstance(d.stride, int) and d.stride})
    if not strides or not isinstance(m.n_in, int):
        return None
    radices: dict[int, int] = {}
    for low, high in zip(strides, [*strides[1:], m.n_in], strict=True):
        if high % low:
            return None
        radices[low] = high // low
    order = [abs(d.stride) for d in m.digits if isinstance(d.stride, int) and d.stride]
    digits = [digit(radices[s], s) for s in dict.fromkeys(order)]
    if strides[0] != 1:
        digits.append(digit(strides[0], 1))
    result = from_digits(m.n_in, digits)
    return result if is_bijective(result) else None
