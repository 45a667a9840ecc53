"""The digit analysis never changes the value of a term, and its ranges hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.backends.lowering.affine import Folder
from eqsat.ir.points import grid
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term

AXES = (t.ax(0, 6), t.ax(1, 8), t.ax(2, 5))
NUMBERS = st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24])


@st.composite
def index_terms(draw: st.DrawFn, depth: int = 5) -> Term:
    """Sums, divisions, remainders, minima and choices of three axes, with coefficients that often fit together."""
    term: Term = draw(st.sampled_from(AXES))
    for _ in range(depth):
        kind = draw(st.sampled_from(["sum", "scale", "div", "mod", "join", "min", "abs", "where"]))
        n = draw(NUMBERS)
        if kind == "sum":
            term = term + draw(st.sampled_from(AXES)) * draw(st.integers(-2, 2)) * n + draw(st.integers(-20, 20))
        elif kind == "scale":
            term = term * n
        elif kind in ("div", "mod"):
            term = term // n if kind == "div" else term % n
        elif kind == "join":
            shifted = term + draw(st.integers(-9, 9))
            m = draw(NUMBERS)
            term = draw(st.sampled_from([shifted // n * n + shifted % n, shifted // n % m * n + shifted % n]))
        elif kind == "abs":
            term = abs(term - n)
        elif kind == "min":
            term = t.binary(draw(st.sampled_from(["min", "max"])), term, draw(st.sampled_from(AXES)) + n)
        else:
            compare = draw(st.sampled_from(["lt", "le", "eq", "ne"]))
            term = t.where(t.compare(compare, term, draw(st.integers(-9, 30))), term + 1, draw(st.sampled_from(AXES)))
    return term


@settings(max_examples=400)
@given(index_terms())
def test_folding_keeps_the_value_and_ranges_hold(term: Term) -> None:
    folder = Folder()
    folded = folder.fold(term)
    box = {axis: (0, int(axis.args[0].payload)) for axis in AXES}
    (want, _), (got, bad) = evaluate_masked([term, folded], grid(box))
    assert bad is None
    full = np.broadcast_shapes(np.shape(want), np.shape(got))
    np.testing.assert_array_equal(np.broadcast_to(got, full), np.broadcast_to(want, full))
    known = folder.range(folded)
    assert known is not None and known[0] <= np.min(want) and np.max(want) <= known[1]


def test_digits_disappear() -> None:
    i, j, k = AXES
    flat = 40 * i + 5 * j + k
    folder = Folder()
    for term, expected in (
        (flat // 5, 8 * i + j), (flat % 40 // 5, j), (flat // 40 * 40 + flat % 40, flat), (flat // 5 % 8, j),
        (flat // 10 * 10 + flat // 5 % 2 * 5 + flat % 5, flat), ((flat + 7) // 5, 8 * i + j + 1 + (k + 2) // 5),
    ):  # fmt: skip
        assert folder.fold(term).same(expected), (str(term), str(folder.fold(term)))
    assert folder.fold(t.compare("le", 3, (j + 9) // 5)).same(t.compare("le", 10, j + 4))
