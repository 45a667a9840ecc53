"""Answers to the questions of the tensor e-graph: each distinct question once, each answer checked before use."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from eqsat.graph.forms import FormMaker
from eqsat.graph.labels import ComputeKind, Label, Labelled, Signed, finish
from eqsat.graph.map_check import same_composition
from eqsat.graph.regions import Obligation, region_holds
from eqsat.graph.selections import is_selection, merged, part, selection_operand_sizes
from eqsat.graph.universe import Universe
from eqsat.ir.dtypes import BOOL, NDArray, highest, is_float, lowest
from eqsat.ir.flat.facts import inverse, is_bijective, split_core
from eqsat.ir.flat.map import Digit, FlatMap, digit, from_digits
from eqsat.ir.flat.ops import compose, compose_parts
from eqsat.ir.flat.refine import Part, refine
from eqsat.ir.flat.sizes import Size, add, at_most, mul
from eqsat.ir.flat.table import Map
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import leaves

Fact = tuple[str, tuple[int, ...]]
Question = tuple[int, ...]


class Oracle:
    """Turns questions (relation name, integers) into facts; remembers what was asked and why nothing was answered."""

    def __init__(self, universe: Universe, forms: FormMaker, layout_cap: int = 12) -> None:
        self.universe = universe
        self.forms = forms
        self.layout_cap = layout_cap
        self.asked: set[tuple[str, Question]] = set()
        self.told: set[int] = set()
        self.asked_layouts: dict[tuple[int, int], int] = {}
        self.capped = False
        self.inlined = 0
        self.known_signed = 0
        self.obligations: list[Obligation] = []
        self.answers: dict[str, Callable[..., list[Fact]]] = {
            "need_compose": self.compose,
            "need_absorb": self.absorb,
            "need_inline": self.inline,
            "need_pull": self.pull,
            "need_output_form": self.output_form,
            "need_operand_form": self.operand_form,
            "need_view_up": self.view_up,
            "need_view_down": self.view_down,
            "need_region": self.region,
        }

    def answer(self, name: str, question: Question) -> list[Fact]:
        """The facts that answer a question; none if it was asked before or has no (safe) answer."""
        if (name, question) in self.asked:
            return []
        self.asked.add((name, question))
        if name.startswith("need_merge"):
            return self.merge(question)
        return self.answers[name](*question)

    def announce(self) -> list[Fact]:
        """What the rules need to know about maps that appeared since the last time."""
        facts: list[Fact] = []
        for number in range(self.known_signed, len(self.universe.signed)):
            if is_selection(self.universe.signed[number]):
                facts.append(("selection", (number,)))
        self.known_signed = len(self.universe.signed)
        for number in range(len(self.told), len(self.universe.reindexes)):
            self.told.add(number)
            item = self.universe.reindexes[number]
            if item.map.is_identity:
                facts.append(("identity", (number,)))
            if is_bijective(item.map):
                facts.append(("bijective", (number,)))
            else:
                if split_core(item.map)[1].is_identity:
                    facts.append(("windowed", (number,)))
                if is_partial_identity(item.map):
                    facts.append(("partial_identity", (number,)))
        return facts

    def _reindex(self, m: Map, fill: Term | None, dtype: str) -> int:
        return self.universe.reindex(m, fill, dtype)

    # -- maps ----------------------------------------------------------------------------------------------------------

    def compose(self, f: int, g: int) -> list[Fact]:
        """Law: compose. One map where a single fill tells every padded cell, as a core and a layout of it."""
        inner, outer = self.universe.reindexes[f], self.universe.reindexes[g]
        found = compose_parts(inner.map, outer.map)
        if found is None or (found.outer_pads and found.inner_pads and inner.fill is not outer.fill):
            return []
        if not same_composition(inner.map, outer.map, found.map):
            return []
        fill = outer.fill if found.outer_pads else inner.fill
        core, layout = split_core(found.map)
        return [("compose", (f, g, self._reindex(core, fill, outer.dtype), self._reindex(layout, None, outer.dtype)))]

    # -- operators -----------------------------------------------------------------------------------------------------

    def _register(self, op: Labelled, like: int) -> tuple[int, Sequence[FlatMap]]:
        done = finish(op)
        number = self.universe.signed.number(done.signed)
        self.forms.freedoms.setdefault(number, self.forms.freedom(like))
        return number, done.output_maps

    def absorb(self, s: int, k: int, m: int) -> list[Fact]:
        """Law: absorb. A bijective view of an operand disappears into the operator's labels."""
        if self.forms.freedom(s) == "written":
            return []
        signed, layout = self.universe.signed[s], self.universe.reindexes[m]
        op = _open(signed)
        order = op.arrange(op.operands[k], layout.map)
        if order is None:
            return []
        op.operands[k] = order
        number, layouts = self._register(op, s)
        return [
            ("absorb", (s, k, m, number, o, self._reindex(layout, None, dtype)))
            for o, (layout, dtype) in enumerate(zip(layouts, signed.kind.dtypes, strict=True))
        ]

    def inline(self, s: int, o: int, m: int) -> list[Fact]:
        """Law: inline. A view of an element-wise operator is the operator over views of its operands."""
        signed, view = self.universe.signed[s], self.universe.reindexes[m]
        kind = signed.kind
        if is_selection(signed):
            return self._select(s, o, m)
        if not _is_pointwise(signed) or not isinstance(view.map, FlatMap) or not isinstance(kind, ComputeKind):
            return []
        refined = refine(view.map.digits, view.map.offset, signed.extents(signed.outputs[0]))
        if refined is None:
            return []
        parts, start = refined
        if any(len(p.steps) > 1 or p.reverse for p in parts):
            return []
        fills = self._inner_fills(kind, view.fill, [len(x) > 0 for x in signed.operands])
        if fills is None:
            return []
        labels = [Label("map", p.extent) for p in parts]
        axis_of = {i: n for n, i in enumerate(signed.outputs[0])}
        operands: list[list[int]] = []
        maps: list[int] = []
        for k, order in enumerate(signed.operands):
            mine = {axis_of[i] for i in order}
            # A window is the operand's even where it lies on a digit that the operand does not have (a broadcast).
            own = [n for n, p in enumerate(parts) if _axis(p) in mine or _windowed(p)]
            m_k = _operand_view(signed, order, axis_of, parts, start, own)
            if m_k is None or (not m_k.is_total and fills[k] is None):
                return []
            operands.append(own)
            maps.append(self._reindex(m_k, fills[k], self._dtype(kind, k)))
        op = Labelled(kind, labels, operands, [list(range(len(parts)))], [])
        number, layouts = self._register(op, s)
        self.inlined += 1
        p = self.inlined
        facts: list[Fact] = [("inline", (s, o, m, p, number, self._reindex(layouts[0], None, view.dtype)))]
        return facts + [("inline_operand", (p, k, m_k)) for k, m_k in enumerate(maps)]

    def _select(self, s: int, o: int, m: int) -> list[Fact]:
        """Law: select. A view of a concatenation that reads one part alone."""
        signed, view = self.universe.signed[s], self.universe.reindexes[m]
        sizes = selection_operand_sizes(signed)
        found = None if sizes is None else part(signed, sizes, view.map)
        if found is None:
            return []
        k, inner = found
        return [("select", (s, o, m, k, self._reindex(inner, view.fill, view.dtype)))]

    def merge(self, question: Question) -> list[Fact]:
        """Law: select of loads. A selection over views of one value is one view of it."""
        s, *numbers = question
        views = [self.universe.reindexes[m] for m in numbers]
        found = merged(self.universe.signed[s], [v.map for v in views])
        if found is None:
            return []
        return [(f"merge{len(numbers)}", (*question, self._reindex(found, None, views[0].dtype)))]

    def _inner_fills(self, kind: ComputeKind, fill: Term | None, varies: Sequence[bool]) -> list[Term | None] | None:
        """Fills u of the operands with f(u) = fill, bitwise in the dtype; only where one operand varies."""
        if fill is None:
            return list[Term | None]([None] * len(varies))
        if len(varies) != 1:
            return None
        dtype = self._dtype(kind, 0)
        for candidate in _candidates(dtype, fill):
            if evaluate_scalar(kind, [candidate]) is fill:
                return [candidate]
        return None

    def _dtype(self, kind: ComputeKind, k: int) -> str:
        return self.forms.operand_dtypes(kind)[k]

    def pull(self, s: int, k: int, m: int) -> list[Fact]:
        """Law: inline, read backwards: an element-wise operator over a view is a view of the operator."""
        signed, view = self.universe.signed[s], self.universe.reindexes[m]
        kind = signed.kind
        if not _is_pointwise(signed) or not isinstance(kind, ComputeKind) or not isinstance(view.map, FlatMap):
            return []
        if any(order for j, order in enumerate(signed.operands) if j != k) or len(signed.operands[k]) != len(
            signed.labels
        ):
            return []
        fill: Term | None = None
        if view.fill is not None:
            if len(signed.operands) != 1:
                return []
            fill = evaluate_scalar(kind, [view.fill])
            if fill is None:
                return []
        # The operator's labels are in operand order, so that the view of the operand is the view of the result.
        if signed.outputs[0] != signed.operands[k]:
            return []
        labels = [Label("map", view.map.n_in)]
        operands = [[0] if j == k else list[int]() for j in range(len(signed.operands))]
        number, _ = self._register(Labelled(kind, labels, operands, [[0]], []), s)
        return [("pull", (s, k, m, number, self._reindex(view.map, fill, kind.dtypes[0])))]

    # -- forms and layouts ---------------------------------------------------------------------------------------------

    def _within_cap(self, s: int, slot: int) -> bool:
        count = self.asked_layouts.get((s, slot), 0)
        if count >= self.layout_cap:
            self.capped = True
            return False
        self.asked_layouts[s, slot] = count + 1
        return True

    def form_facts(self, s: int, f: int) -> list[Fact]:
        form = self.universe.forms[f]
        facts: list[Fact] = [("form", (s, f))]
        facts += [("form_operand", (f, k, m)) for k, m in enumerate(form.operand_maps)]
        facts += [("form_output", (f, o, m)) for o, m in enumerate(form.output_maps)]
        return facts

    def output_form(self, s: int, o: int, m: int) -> list[Fact]:
        """The target form that produces this layout directly."""
        if not self._within_cap(s, -1 - o):
            return []
        f = self.forms.for_output(s, o, self.universe.reindexes[m].map)
        return [] if f is None else self.form_facts(s, f)

    def operand_form(self, s: int, k: int, m: int) -> list[Fact]:
        """The target forms that read an operand in this layout."""
        if not self._within_cap(s, k):
            return []
        found = self.forms.for_operand(s, k, self.universe.reindexes[m].map)
        return [fact for f in found for fact in self.form_facts(s, f)]

    def view_up(self, c: int, p: int) -> list[Fact]:
        """The layout that a view of a value takes when the value lies in layout p and nothing is permuted."""
        core, layout = self.universe.reindexes[c], self.universe.reindexes[p]
        back = inverse(layout.map)
        seen = None if back is None else compose(back, core.map)
        if seen is None or not isinstance(seen, FlatMap) or not _counts_up(seen):
            return []
        wanted = inverse(split_core(seen)[1])
        return [] if wanted is None else [("view_up", (c, p, self._reindex(wanted, None, core.dtype)))]

    def view_down(self, c: int, m: int) -> list[Fact]:
        """The layout of the value under a view from which this layout of the view is cut without permuting."""
        core, layout = self.universe.reindexes[c], self.universe.reindexes[m]
        seen = compose(core.map, layout.map)
        if not isinstance(seen, FlatMap) or not _counts_up(seen):
            return []
        order = _source_layout(seen)
        return [] if order is None else [("view_down", (c, m, self._reindex(order, None, core.dtype)))]

    def region(self, value: int, m: int) -> list[Fact]:
        """Side condition of pad-of-crop: the cells outside of the window hold the fill, proved."""
        view = self.universe.reindexes[m]
        if view.fill is None:
            return []
        proof = region_holds(self.universe, value, view.map, view.fill)
        self.obligations.append(Obligation(f"value {value} holds {view.fill} outside of {view.map}", proof))
        return [("region", (value, m))] if proof else []


def is_partial_identity(m: Map) -> bool:
    """Whether every valid cell reads its own position (and there is one): a pad of a crop. Decided by the digits.

    >>> is_partial_identity(from_digits(1 << 40, [digit(1 << 20, 1 << 20, 1), digit(1 << 20, 1)]))
    True
    """
    if not isinstance(m, FlatMap) or m.is_total or m.n_in != m.n_out or any(d.lo == d.hi for d in m.digits):
        return False
    weight: Size = 1
    apart: Size | None = m.offset  # source minus own position at the first valid cell
    for d in reversed(m.digits):
        if d.stride != weight:
            if d.width != 1:
                return False
            step = add(d.stride, mul(-1, weight))
            apart = None if apart is None or step is None else add(apart, mul(step, d.lo))
        weight = mul(weight, d.extent)
    return apart == 0


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


def _open(signed: Signed) -> Labelled:
    return Labelled(
        signed.kind, list(signed.labels), [list(o) for o in signed.operands], [list(o) for o in signed.outputs], []
    )


def _is_pointwise(signed: Signed) -> bool:
    """Whether each cell depends on one cell of each operand, at plain labels only."""
    kind = signed.kind
    return (
        isinstance(kind, ComputeKind)
        and kind.combiner is None
        and len(signed.outputs) == 1
        and all(not x.name for x in signed.labels)
        and set(signed.outputs[0]) == set(range(len(signed.labels)))
    )


def _windowed(p: Part) -> bool:
    return p.lo != 0 or p.hi != p.extent


def _axis(p: Part) -> int:
    return p.steps[0][0] if p.steps else -1


def _operand_view(
    signed: Signed,
    order: Sequence[int],
    axis_of: dict[int, int],
    parts: Sequence[Part],
    start: Sequence[Size],
    own: Sequence[int],
) -> FlatMap | None:
    """The view of one operand: the pieces of its own axes, weighted by the operand's strides."""
    weights: dict[int, Size] = {}
    inner: Size = 1
    for i in reversed(order):
        weights[axis_of[i]] = inner
        inner = mul(inner, signed.labels[i].extent)
    offset: Size | None = 0
    digits: list[Digit] = []
    for axis, weight in weights.items():
        offset = None if offset is None else add(offset, mul(start[axis], weight))
    for n in own:
        p = parts[n]
        stride = mul(p.steps[0][1], weights[_axis(p)]) if _axis(p) in weights else 0
        offset = None if offset is None else add(offset, mul(-1, mul(stride, p.lo)))
        digits.append(Digit(p.extent, stride, p.lo, p.hi))
    if offset is None:
        return None
    return from_digits(inner, digits, offset)


def _candidates(dtype: str, fill: Term) -> list[Term]:
    values: list[Term] = [fill] if fill.dtype == dtype else []
    for number in (*(() if dtype == BOOL else (0, 1)), lowest(dtype), highest(dtype)):
        values.append(t.const(number, dtype))
    if is_float(dtype):
        values += [t.const(-0.0, dtype), t.const(-1.0, dtype)]
    elif dtype.startswith("int"):
        values.append(t.const(-1, dtype))
    return values


def evaluate_scalar(kind: ComputeKind, values: Sequence[Term]) -> Term | None:
    """The value of an element-wise body on constants, in its dtype; None where undefined or dependent on a position."""
    arrays = [np.asarray(t.const_value(v)) for v in values]
    if leaves("axis", kind.body) or leaves("hole", kind.body):
        return None

    def load(source: object, index: Sequence[NDArray]) -> tuple[NDArray, NDArray | None]:
        assert isinstance(source, int)
        return arrays[source], None

    value, bad = evaluate_masked([kind.body], {}, load)[0]
    if bad is not None and bool(np.any(bad)):
        return None
    return t.const(np.asarray(value)[()], kind.dtypes[0])
