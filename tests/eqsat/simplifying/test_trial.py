"""The box that simplifications are tried on: a wrong rule is caught, a point outside of a symbolic extent is none."""

import importlib
from collections.abc import Iterable

import pytest

from eqsat.ir.rule import Idx, Pos, rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.proving.trial import EVERY_POINT, Trial
from eqsat.rewriting.rewrite import Rewriter
from eqsat.simplifying.simplify import UnsoundWarning, simplify_term

i, j = t.var("i"), t.var("j")


@rule("wrong")
def wrong(x: Idx, c: Pos):
    """A wrong rule: a remainder is not the value."""
    return x % c, x


@pytest.mark.parametrize("extent", [30, 1 << 20, 1 << 60])
def test_a_wrong_rule_is_caught(monkeypatch: pytest.MonkeyPatch, extent: int) -> None:
    """Whether all points are tried or some: what a wrong rule makes is discarded, with a warning."""
    module = importlib.import_module("eqsat.simplifying.simplify")
    compiled = Rewriter([wrong])

    def rewriter(*_: str) -> Rewriter:
        return compiled

    monkeypatch.setattr(module, "_rewriter", rewriter)
    e = i % 8 + t.var("unsound")
    with pytest.warns(UnsoundWarning, match="differs"):
        assert simplify_term(e, {i: (0, extent), t.var("unsound"): (0, 2)}) is e


def test_all_points_of_a_small_box_are_tried() -> None:
    last = EVERY_POINT - 1
    here = Trial(i // 7, {i: (0, EVERY_POINT)}, None)
    assert here.whole and not here.agree(i // 7, t.where(t.compare("eq", i, last - 11), 0, i // 7))
    assert here.varies(t.compare("eq", i, last - 11)) and not Trial(i, {i: (0, EVERY_POINT + 1)}, None).whole


@pytest.mark.parametrize("given", [None, j < 4])
def test_points_lie_in_symbolic_extents_and_in_the_assumption(given: Term | None) -> None:
    n = t.sym("N", multiple_of=4)
    k = t.ax(0, n)
    here = Trial(k % n + n % 4 + j, {j: (0, 9)}, given)
    assert here.possible and not here.whole
    assert here.agree(k % n + n % 4 + j, k + j) and not here.varies(k < n)
    assert here.varies(j < 5) == (given is None)


def test_what_cannot_be_tried_says_so() -> None:
    boxes: Iterable[tuple[Term, dict[Term, tuple[int | None, int | None]]]] = [
        (t.load(0, [i], "float32"), {i: (0, 4)}),
        (i + 1, {i: (1 << 62, 1 << 63)}),
    ]
    assert not any(Trial(e, box, None).possible for e, box in boxes)
    assert Trial(i + j, {i: (3, 3), j: (0, 2)}, None).empty and Trial(t.ax(0, 0) + i, {}, None).empty
    assert not Trial(i + j, {i: (0, 4)}, i > 9).possible
