"""Answers to the questions of laws: each distinct match once, its hypotheses discharged, its right side checked."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir.fast import fast_paths
from eqsat.ir.flat.facts import inverse, is_bijective, split_core
from eqsat.ir.flat.sizes import Size
from eqsat.ir.flat.table import Map
from eqsat.ir.law import Expr, operand, operands, underlying
from eqsat.ir.rule import Rule
from eqsat.ir.terms.term import Term
from eqsat.laws.cells import same_cells
from eqsat.laws.conditions import Conditions, Obligation
from eqsat.laws.defined import left_out_by_definition
from eqsat.laws.known import KnownCells
from eqsat.laws.match import Match, NoAnswer, bind
from eqsat.laws.neutral import left_out
from eqsat.laws.numbers import same_around, same_terms
from eqsat.laws.plan import Made, Plan, settles
from eqsat.laws.results import same_results, same_results_around
from eqsat.laws.settled import Around, settled
from eqsat.laws.settled_defined import settled_by_definition
from eqsat.operators.definitions import Definition
from eqsat.operators.forms import FormMaker
from eqsat.operators.interned import Hub, Interned, Reindex
from eqsat.operators.labels import CanonicalOp
from eqsat.operators.moves import fills_for, is_pointwise, over, under
from eqsat.operators.positions import moved, moves_positions
from eqsat.operators.restrict import restricted
from eqsat.operators.within import within

MOST_PERMUTATIONS = 8
"""So many permutations of positions an operator changes places with, in one search."""
MOST_UNCOMPOSED = 64
"""And so many where loading composes nothing: all parts of a chain are values then, not only the whole chain."""


class LawAnswers:
    """Answers questions of plans, in numbers of interned things, and keeps the hypotheses that it had to ask about."""

    def __init__(self, interned: Interned, forms: FormMaker, rules: tuple[Rule, ...] = ()) -> None:
        self.interned = interned
        self.forms = forms
        self.conditions = Conditions(interned, rules)
        self.around: dict[Hub, Around | None] = {}
        """Where results are known to be one value, for all questions."""
        self.permuted: dict[int, set[Map]] = {}
        """The permutations of positions with which each operator was asked to change places."""
        self.capped = False

    @property
    def obligations(self) -> list[Obligation]:
        """The hypotheses that a prover was asked about."""
        return self.conditions.obligations

    def answer(self, plan: Plan, question: Sequence[int]) -> list[int] | None:
        """The numbers that complete a match; None where the law does not apply to it, or has no right side here."""
        try:
            match = bind(plan, self.interned, self.forms, question)
            if not self._kind_fits(match) or not self._within_cap(match) or not self._solved(match):
                return None
            self._cut(match)
            self._leave_out(match)
            self._settle(match)
            self._move(match)
            if not all(self.conditions.hold(match, h) for h in plan.law.hypotheses):
                return None
            for made in plan.made:
                numbers = self._made(match, made)
                match.numbers |= dict(zip(made.names, numbers, strict=True))
        except NoAnswer:
            return None
        if not self._checked(match):
            return None
        return [match.numbers[name] for name in plan.answer]

    def _checked(self, match: Match) -> bool:
        """Whether running both sides of the law shows no difference."""
        if match.settled is not None:
            defined = self._definition(match)
            return same_around(match) if defined is None else same_results_around(match, defined)
        if match.left_out is None:
            return same_cells(match)
        defined = self._definition(match)
        return same_terms(match) if defined is None else same_results(match, defined)

    def _kind_fits(self, match: Match) -> bool:
        """Whether the operator is what the law takes it for, where its kind alone does not say it."""
        kinds = {m.kind for m in match.plan.made}
        if "cut" in kinds:  # of element-wise operators, every view passes to the operands
            return not is_pointwise(match.operator)
        if "moved" in kinds and match.plan.law.left.op == "view":  # the same
            return not is_pointwise(match.operator)
        return not kinds & {"under", "over"} or is_pointwise(match.operator)

    def _within_cap(self, match: Match) -> bool:
        """Whether an operator may change places with the permutations of positions of a match, too: around residuals
        they compose to more and more of them, each in every block."""
        if "s" not in match.numbers:
            return True
        views = {self.interned.reindexes[match.numbers[name]].map for name in match.plan.maps}
        views = {m for m in views if moves_positions(m)}
        known = self.permuted.setdefault(match.numbers["s"], set())
        most = MOST_PERMUTATIONS if fast_paths() else MOST_UNCOMPOSED
        if not views <= known and len(known | views) > most:
            self.capped = True
            return False
        known |= views
        return True

    def _solved(self, match: Match) -> bool:
        """Give values to the fills that only the right side names: constants that the operator takes to a known one."""
        for h in match.plan.law.hypotheses:
            if h.op != "same_value":
                continue
            a, b = (x for x in h.args if isinstance(x, Expr))
            if a.op != "applied" or b.op != "constant":
                continue
            listed = a.args[1]
            assert isinstance(listed, tuple)
            names = [str(x.args[0]) for x in listed]
            target = match.value(b)
            if any(name in match.values for name in names):
                continue
            # A view that pads nothing is the other laws'; padding two operands for one result moves more, not less.
            held = {k: x for k, x in match.unvarying.items() if x is not None}
            if target is None or len(match.positions) != 1 or len(match.operator.operands) != 1 + len(held):
                return False
            tried = self.interned.pad_values
            found = fills_for(match.operator, self.forms.operand_dtypes(match.operator.kind), target, tried, held)
            if found is None:
                return False
            match.values |= {name: found[k] for name, k in zip(names, match.positions, strict=True)}
        return True

    def _cut(self, match: Match) -> None:
        """Find the parts of operands that the right side names, and its operator over them."""
        for made in match.plan.made:
            if made.kind != "cut":
                continue
            m = made.of.args[0]
            assert isinstance(m, Expr)
            bundles = self.forms.cuts.get(match.numbers["s"], frozenset())
            match.cut = restricted(match.operator, match.maps[str(m.args[0])].map, bundles)
            if match.cut is None:
                raise NoAnswer("law", "the axes of the operator do not say which parts of its operands it reads")

    def _definition(self, match: Match) -> Definition | None:
        """What the operator of a match is defined by, where it has no formula."""
        return self.forms.definitions.get(match.numbers["s"])

    def _cells(self) -> KnownCells:
        """The cells of values, with what is known of them."""
        return KnownCells(self.interned, self.forms.cuts, self.conditions.rules, self.around)

    def _leave_out(self, match: Match) -> None:
        """Find what a reduction need not combine, and its operator without that."""
        if not any(made.kind == "within" for made in match.plan.made):
            return
        names = enumerate(match.plan.values)
        values = {match.places[name]: match.numbers[f"n{k}"] for k, name in names}
        rules, defined = self.conditions.rules, self._definition(match)
        if defined is None:
            match.left_out = left_out(self._cells(), match.operator, values, rules)
        else:
            match.left_out = left_out_by_definition(self._cells(), match.operator, values, defined, rules)
        found = match.left_out
        match.cut = None if found is None else within(found.operator, found.kept)
        if match.cut is None:
            raise NoAnswer("law", "nothing is known that the reduction could leave out")

    def _settle(self, match: Match) -> None:
        """Find the part of the result beyond which it is one value, that value, and the maps from and to the part."""
        stated = settles(match.plan.law)
        if stated is None:
            return
        if is_pointwise(match.operator) and len({frozenset(x) for x in match.operator.operands}) == 1:
            raise NoAnswer("law", "a padding of an element-wise operator is one of all its operands")
        part, back, value = stated
        names = enumerate(match.plan.values)
        values = {match.places[name]: match.numbers[f"n{k}"] for k, name in names}
        defined, rules = self._definition(match), self.conditions.rules
        if defined is None:
            found = settled(self._cells(), match.operator, values, rules)
        else:
            bundles = self.forms.cuts.get(match.numbers["s"], frozenset())
            found = settled_by_definition(self._cells(), match.operator, values, defined, bundles, rules)
        if found is None:
            raise NoAnswer("law", "nothing is known around a part of the result")
        dtype = match.operator.kind.dtypes[match.numbers["o"]]
        match.settled = found
        match.values[value] = found.value
        match.maps |= {part: Reindex(found.part, None, dtype), back: Reindex(found.back, found.value, dtype)}

    def _move(self, match: Match) -> None:
        """Give the maps that only the right side names: how positions move in other operands, and in the result."""
        law = match.plan.law
        inner = next((made.of for made in match.plan.made if made.kind == "moved"), None)
        if inner is None:
            return
        operator, output = match.operator, match.numbers["o"]
        above = law.left.op == "view"
        place = len(operator.operands) + output if above else match.positions[0]
        found = moved(operator, place, self.interned.reindexes[match.numbers[next(iter(match.plan.maps))]].map)
        if found is None:
            raise NoAnswer("law", "the operator does not treat these positions alike")
        dtypes = self.forms.operand_dtypes(operator.kind)
        for k, x in zip(match.positions, operands(inner), strict=True):
            source = operand(x)
            view = found[k] if above else inverse(found[k])
            if source.op == "view" and isinstance(source.args[1], Expr):
                if view is None:
                    raise NoAnswer("law", "how the positions are put back is not known")
                match.maps[str(source.args[1].args[0])] = Reindex(view, None, dtypes[k])
        if not above and isinstance(law.right.args[1], Expr):
            view = found[len(operator.operands) + output]
            match.maps[str(law.right.args[1].args[0])] = Reindex(view, None, operator.kind.dtypes[output])

    def _made(self, match: Match, made: Made) -> list[int]:
        if made.kind in ("cut", "within"):
            return self._parts(match)
        if made.kind == "moved":
            views = [operand(x).args[1] for x in operands(made.of) if operand(x).op == "view"]
            return [self._number(match.maps[str(m.args[0])]) for m in views if isinstance(m, Expr)]
        if made.kind == "under":
            found = under(match.operator, self._flat_size(match, made.of), match.layouts)
            if found is None:
                raise NoAnswer("law", "the operator cannot read its operands in these layouts")
            match.result = found.layout
            return [self._operator(match, found.operator)]
        if made.kind == "over":
            return self._over(match, made.of)
        view = match.view(made.of)
        if made.kind == "map":
            return [self._number(view)]
        core, layout = split_core(view.map)
        return [self._number(Reindex(core, view.fill, view.dtype)), self._number(Reindex(layout, None, view.dtype))]

    def _number(self, view: Reindex) -> int:
        return self.interned.reindex(view.map, view.fill, view.dtype)

    def _operator(self, match: Match, operator: CanonicalOp) -> int:
        number = self.interned.operators.number(operator)
        self.forms.inherit(number, match.numbers["s"])
        return number

    def _flat_size(self, match: Match, e: Expr) -> Size:
        sizes = {match.sizes[str(operand(x).args[0])] for x in operands(e)}
        if len(sizes) != 1:
            raise NoAnswer("law", "operands of one index have different boxes")
        return sizes.pop()

    def _parts(self, match: Match) -> list[int]:
        """The operator over parts, its layout, and the parts of its operands, in the order of the law's operands."""
        found, kind = match.cut, match.operator.kind
        assert found is not None
        dtypes = self.forms.operand_dtypes(kind)
        numbers = [self._operator(match, found.operator)]
        numbers.append(self.interned.reindex(found.layout, None, kind.dtypes[match.numbers["o"]]))
        return numbers + [self.interned.reindex(found.views[k], None, dtypes[k]) for k in match.positions]

    def _over(self, match: Match, e: Expr) -> list[int]:
        """The operator, its layout, and the views of its operands, in the order of the law's operands."""
        maps, fills = self._views(match, e)
        if any(m != maps[0] for m in maps):
            raise NoAnswer("law", "the operands would be viewed by different maps")
        padded = not maps[0].is_total
        if padded and (fills is None or any(f is None for f in fills)):
            raise NoAnswer("law", "a guard around an operator is no node of the graph")
        found = over(match.operator, maps[0], padded)
        if found is None:
            raise NoAnswer("law", "the operator is no operator over views of its operands")
        if not padded and is_bijective(maps[0]) and sum(m is not None and not m.is_identity for m in found.views) > 1:
            raise NoAnswer("law", "one view that loses nothing would become several")
        dtypes = self.forms.operand_dtypes(match.operator.kind)
        numbers = [self._operator(match, found.operator)]
        numbers.append(self.interned.reindex(found.layout, None, match.operator.kind.dtypes[match.numbers["o"]]))
        for n, k in enumerate(match.positions):
            m = found.views[k]
            if m is None:
                raise NoAnswer("law", "an operand has no axes")
            numbers.append(self.interned.reindex(m, None if fills is None else fills[n], dtypes[k]))
        return numbers

    def _views(self, match: Match, e: Expr) -> tuple[list[Map], list[Term | None] | None]:
        """The maps by which the operands are viewed, and their fills where the law gives each its own."""
        if e.op in ("guarded", "combine_at"):
            m = e.args[0]
            assert isinstance(m, Expr)
            return [match.maps[str(underlying(m).args[0])].map] * max(1, len(match.positions)), None
        maps: list[Map] = []
        fills: list[Term | None] = []
        for x in operands(e):
            m = operand(x).args[1]
            assert isinstance(m, Expr)
            maps.append(match.maps[str(underlying(m).args[0])].map)
            fills.append(match.value(m.args[1]) if m.op == "filled" and isinstance(m.args[1], Expr) else None)
        return maps, fills
