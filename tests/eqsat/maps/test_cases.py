"""Maps solved by pieces: what is said to hold at all cells of a piece does."""

from __future__ import annotations

from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.map_claims import on_box
from eqsat.ir.terms import term as t
from eqsat.maps.cases import Pieces
from eqsat.maps.problem import problem_of


def test_what_holds_at_some_cells_does_not_hold_at_all() -> None:
    problem = problem_of(on_box(IndexMap.parse("i -> 2*i + 1"), (t.index_const(10),)))
    pieces, (p,) = Pieces(problem, True), problem.physical
    for claim, holds in ((p < 30, True), (p < 11, False), (p < 0, False), (t.compare("eq", p % 2, 1), True)):
        assert pieces._always(claim, pieces.whole) == holds, claim  # pyright: ignore[reportPrivateUsage]
