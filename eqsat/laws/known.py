"""Cells of values as formulas that say, of results of operators that combine, where these are one value: what is padded
below several operators is known behind all of them."""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.ir.rule import Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, substitute
from eqsat.laws.cell_terms import Cells, digits_at
from eqsat.laws.pieces import holding
from eqsat.laws.settled import Around, around
from eqsat.laws.settled_defined import around_by_definition
from eqsat.operators.interned import Hub, Interned
from eqsat.operators.labels import Name

MOST_KNOWN = 8
"""So many values around parts of one result."""


class KnownCells(Cells):
    """Cells of values, those of operators that combine where they are one value by what is known of their operands."""

    def __init__(
        self,
        interned: Interned,
        cuts: Mapping[int, frozenset[Name]],
        rules: tuple[Rule, ...],
        known: dict[Hub, Around | None],
    ) -> None:
        """Cuts: the bundles along which operators may be cut; known: what was found before, for the same rules."""
        super().__init__(interned)
        self.cuts, self.rules, self.around = cuts, rules, known

    def reduced(self, hub: Hub, i: Term, opaque: Term) -> Term:
        """The values that a result is known to be, where it is; any value elsewhere."""
        if hub not in self.around:
            self.around[hub] = self._around(hub)
        found = self.around[hub]
        if found is None or found.filled.symbols:  # conditions over symbols that are larger say nothing of all
            return opaque
        places = digits_at(found.operator, found.operator.outputs[hub.output], i)
        table = {axis: places[n] for n, axis in found.axes.items() if n in places}
        made = opaque
        for conditions, value in found.cells[:MOST_KNOWN]:
            if table.keys() >= set(nodes_of("axis", *conditions)):
                made = t.where(substitute(holding(conditions), table), value, made)
        return made

    def _around(self, hub: Hub) -> Around | None:
        operator, values = self.interned.operators[hub.operator], dict(enumerate(hub.operands))
        cells = KnownCells(self.interned, self.cuts, self.rules, self.around)
        definition = self.interned.definitions.get(hub.operator)
        if definition is None:
            return around(cells, operator, values, self.rules)
        bundles = self.cuts.get(hub.operator, frozenset[Name]())
        return around_by_definition(cells, operator, values, definition, bundles, self.rules)
