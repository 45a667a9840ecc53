"""One match of a law: its variables as the maps, values, operators and boxes that the graph's numbers stand for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from eqsat.ir.errors import EqsatError
from eqsat.ir.flat.facts import inverse, is_permutation
from eqsat.ir.flat.formula import address_at, from_formula, valid_at
from eqsat.ir.flat.map import identity
from eqsat.ir.flat.ops import compose as compose_maps
from eqsat.ir.flat.sizes import Size
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.term_map import cell
from eqsat.ir.law import Expr, operand, operands, operator_of, underlying
from eqsat.ir.terms.term import Term
from eqsat.laws.cell_terms import read_at
from eqsat.laws.neutral import LeftOut
from eqsat.laws.plan import Plan
from eqsat.laws.settled import Settled
from eqsat.operators.algebra import compose
from eqsat.operators.forms import FormMaker
from eqsat.operators.interned import Interned, Reindex
from eqsat.operators.labels import CanonicalOp
from eqsat.operators.moves import access, applied
from eqsat.operators.restrict import Restricted
from eqsat.operators.selections import merged, owners, part, selection_operand_sizes


class NoAnswer(EqsatError):
    """The match has no right side that the graph can hold: no law is broken, and nothing is rewritten."""


@dataclass
class Match:
    """The numbers of a question, and what they stand for."""

    plan: Plan
    interned: Interned
    forms: FormMaker
    numbers: dict[str, int]
    maps: dict[str, Reindex] = field(default_factory=dict[str, Reindex])
    values: dict[str, Term | None] = field(default_factory=dict[str, "Term | None"])
    sizes: dict[str, Size] = field(default_factory=dict[str, Size])
    places: dict[str, int] = field(default_factory=dict[str, int])
    """Which operand of the graph's operator a tensor of the law is."""
    common: Map | None = None
    """The map of the view that the first operand is, as the operator's result sees it."""
    layouts: dict[int, Map] = field(default_factory=dict[int, Map])
    """The operands that are, under the map of the first one, in a layout of their own, which an operator absorbs."""
    result: Map | None = None
    """The layout in which the operator of the right side has its result."""

    cut: Restricted | None = None
    """The operator over parts of its operands."""
    left_out: LeftOut | None = None
    """What a reduction leaves out."""
    settled: Settled | None = None
    """The part of the operator's result beyond which it is one value."""

    def __post_init__(self) -> None:
        self._walk(self.plan.law.left, iter(self.plan.maps), None)

    # -- what the left side binds --------------------------------------------------------------------------------------

    def _walk(self, e: Expr, names: Iterator[str], place: int | None) -> Size:
        """Bind the variables of a term of the left side, in the order in which the plan named its maps; its size."""
        if e.op == "view":
            source, m = e.args
            assert isinstance(source, Expr)
            assert isinstance(m, Expr)
            number = self.numbers[next(names)]
            item = self.interned.reindexes[number]
            below = item.map.n_in
            if place is not None and not self.moves:
                item = self._in_common(self._seen(item, place), place)
            self._bind_map(m, item)
            if source.op == "tensor":
                self.sizes.setdefault(str(source.args[0]), below)
            else:
                self._walk(source, names, None)
            return item.map.n_out
        if e.op == "tensor":
            return 0
        operator = self.operator
        size = operator.size(operator.outputs[self.numbers["o"]])
        positions = self.positions
        for k, x in zip(positions, operands(e), strict=False):
            inner = operand(x)
            if inner.op == "tensor":
                own = operator.size(operator.operands[k]) if e.op == "combine" and "k" not in self.numbers else size
                self.sizes.setdefault(str(inner.args[0]), own)
                self.places.setdefault(str(inner.args[0]), k)
            else:
                self._walk(inner, names, k)
        return size

    def _seen(self, item: Reindex, place: int) -> Reindex:
        """The view of an operand as the operator's result sees it; a selection reads its operands in its own way."""
        read = None if self.is_selection else access(self.operator, place)
        if read is None:
            if self.is_selection:
                return item
            raise NoAnswer("law", "the operator does not read one cell of each operand")
        found = compose(item, Reindex(read, None, item.dtype))
        if found is None:
            raise NoAnswer("law", "the operator's view of an operand has no map of its size")
        return found

    def _in_common(self, item: Reindex, place: int) -> Reindex:
        """The view of an operand, where the right side has the operator below one view for all: the view of the first
        operand, of this one in a layout, if a layout is all in which they differ."""
        if not any(made.kind == "under" for made in self.plan.made):
            return item
        first = self.common = item.map if self.common is None else self.common
        back = None if item.map == first else inverse(first)
        layout = None if back is None else compose_maps(item.map, back)
        if layout is None or not is_permutation(layout):
            return item
        self.layouts[place] = layout
        return Reindex(first, item.fill, item.dtype)

    def _bind_map(self, m: Expr, item: Reindex) -> None:
        if m.op == "identity":
            return
        name = str(underlying(m).args[0])
        old = self.maps.setdefault(name, item)
        if old != item:
            raise NoAnswer("law", f"{name} would be two maps")
        if m.op == "filled":
            fill = m.args[1]
            assert isinstance(fill, Expr)
            value = str(fill.args[0])
            if self.values.setdefault(value, item.fill) is not item.fill:
                raise NoAnswer("law", f"{value} would be two values")

    # -- the operator --------------------------------------------------------------------------------------------------

    @property
    def operator(self) -> CanonicalOp:
        """The operator."""
        return self.interned.operators[self.numbers["s"]]

    @property
    def is_selection(self) -> bool:
        """Whether the law takes the operator for a selection."""
        operator = operator_of(self.plan.law.left)
        return operator is not None and operator.op == "select"

    @property
    def moves(self) -> bool:
        """Whether the law moves positions of the operator's operands and result."""
        return any(made.kind == "moved" for made in self.plan.made)

    @property
    def positions(self) -> tuple[int, ...]:
        """The operand of the graph's operator that each operand of the law is."""
        return (self.numbers["k"],) if "k" in self.numbers else self.plan.positions

    @property
    def unvarying(self) -> dict[int, Term | None]:
        """What the operands without axes hold, if that is known."""
        return {k: self.interned.scalar(self.numbers[f"u{k}"]) for k in self.plan.unvarying}

    def dtype_of(self, e: Expr) -> str:
        """The dtype of a tensor of the right side."""
        if e.op != "tensor":
            return self.operator.kind.dtypes[self.numbers["o"]]
        name = str(e.args[0])
        if name in self.places:
            return self.forms.operand_dtypes(self.operator.kind)[self.places[name]]
        return self._below(self.plan.law.left, name) or ""

    def _below(self, e: Expr, name: str) -> str | None:
        """The dtype of a tensor by the view of it on the left side."""
        if e.op == "view":
            source, m = e.args
            assert isinstance(source, Expr)
            assert isinstance(m, Expr)
            if source.op == "tensor" and source.args[0] == name:
                found = self.maps.get(str(underlying(m).args[0])) if m.op != "identity" else None
                return None if found is None else found.dtype
            return self._below(source, name)
        if e.op == "tensor":
            return None
        for x in operands(e):
            found = self._below(operand(x), name)
            if found is not None:
                return found
        return None

    # -- maps and fills of the right side ------------------------------------------------------------------------------

    def value(self, e: Expr) -> Term | None:
        """A fill; None where no cell shows it."""
        if e.op == "constant":
            return self.values.get(str(e.args[0]))
        parts = e.args[1]
        assert isinstance(parts, tuple)
        found = [self.value(x) for x in parts]
        at = dict(zip(self.positions, found, strict=True)) | self.unvarying
        known = [x for _, x in sorted(at.items()) if x is not None]
        return applied(self.operator, known) if len(known) == len(at) else None

    def map(self, e: Expr, dtype: str) -> Reindex:
        """A map of the right side, for a view of a tensor of this dtype."""
        found = self._map(e, dtype)
        if found is None:
            raise NoAnswer("law", f"{e} has no map of its size")
        if not found.map.is_total and found.fill is None:
            raise NoAnswer("law", f"{e} would show no single value where it pads")
        return found

    def _map(self, e: Expr, dtype: str) -> Reindex | None:
        if e.op in ("map", "bijection"):
            found = self.maps.get(str(e.args[0]))
            return None if found is None else Reindex(found.map, found.fill, dtype)
        parts = [a for a in e.args if isinstance(a, Expr)]
        if e.op == "filled":
            inner = self._map(parts[0], dtype)
            fill = None if inner is None or inner.map.is_total else self.value(parts[1])
            return None if inner is None else Reindex(inner.map, fill, dtype)
        if e.op == "inverse":
            inner = self._map(parts[0], dtype)
            back = None if inner is None else inverse(inner.map)
            return None if back is None else Reindex(back, None, dtype)
        if e.op == "compose":
            first, then = (self._map(x, dtype) for x in parts)
            return None if first is None or then is None else compose(first, then)
        if e.op == "chosen":
            listed = e.args[1]
            assert isinstance(listed, tuple)
            views = [self._map(x, dtype) for x in listed]
            known = {k: v.map for k, v in zip(self.positions, views, strict=True) if v is not None}
            if len(known) < len(self.operator.operands):
                return None
            found = merged(self.operator, [known[k] for k in sorted(known)])
            return None if found is None else Reindex(found, None, dtype)
        return None

    def view(self, e: Expr) -> Reindex:
        """The view that stands on the right side, of a tensor or of an operator there."""
        source, m = e.args
        assert isinstance(source, Expr)
        assert isinstance(m, Expr)
        dtype = self.dtype_of(source)
        if source.op != "tensor" and self.result is not None:
            whole = compose(Reindex(self.result, None, dtype), self.map(m, dtype))
            if whole is None:
                raise NoAnswer("law", "a view of the operator's result has no map of its size")
            return whole
        if source.op != "tensor" or str(source.args[0]) not in self.places:
            return self.map(m, dtype)
        return self._operand_view(self.places[str(source.args[0])], m, dtype)

    def _operand_view(self, k: int, m: Expr, dtype: str) -> Reindex:
        """A view of an operand as the operator sees it, as a view of the operand's value."""
        size = self.operator.size(self.operator.outputs[self.numbers["o"]])
        outer = Reindex(identity(size), None, dtype) if m.op == "identity" else self.map(m, dtype)
        if self.is_selection and access(self.operator, k) is None:
            found = self._part(k, outer.map)
            if found is None:
                raise NoAnswer("law", "the view reads more than one operand, or no map of its size says which cells")
            return Reindex(found, outer.fill, dtype)
        read = access(self.operator, k)
        whole = None if read is None else compose(Reindex(read, None, dtype), outer)
        if whole is None:
            raise NoAnswer("law", "the operator does not read one cell of the operand")
        return whole

    def _part(self, k: int, m: Map) -> Map | None:
        """A view of a selection that is known to take operand k alone, as a view of that."""
        sizes = selection_operand_sizes(self.operator)
        if sizes is not None and m.is_numeric and owners(self.operator) is not None:
            found = part(self.operator, sizes, m)
            return found[1] if found is not None and found[0] == k else None
        i, size = cell(m.n_out), self.operator.size(self.operator.operands[k])
        return from_formula(size, m.n_out, read_at(self.operator, k, address_at(m, i)), valid_at(m, i))


def bind(plan: Plan, interned: Interned, forms: FormMaker, question: Sequence[int]) -> Match:
    """The match that a question is about. NoAnswer where its numbers do not fit the law's variables."""
    return Match(plan, interned, forms, dict(zip(plan.question, question, strict=True)))
