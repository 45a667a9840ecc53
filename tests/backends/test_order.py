"""Loops that are one walk through memory are merged, and no more is asked about them than is needed."""

from __future__ import annotations

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.order import divisions, merge_axes
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term


class Counting(IndexSimplifier):
    """Notes what is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Term] = []

    def simplify(self, term: Term) -> Term:
        self.asked.append(term)
        return super().simplify(term)


def test_axes_merge_where_no_watched_root_divides_more() -> None:
    i, j, k = t.ax(0, 4), t.ax(1, 8), t.ax(2, 16)
    source, target, beside = i + 4 * (16 * j + k), 128 * i + 16 * j + k, 3 * i + j
    counting = Counting()
    axes, roots = merge_axes((i, j, k), (source, target, beside), 2, counting)
    both = axes[1]
    assert axes[0] is i and len(axes) == 2
    assert roots[0] is i + 4 * both and roots[1] is 128 * i + both
    assert roots[2] is (3 * i + both // 16) and divisions(roots) == 1  # not watched


def test_a_root_that_divides_more_is_the_last_that_is_asked_about() -> None:
    i, j = t.ax(0, 4), t.ax(1, 8)
    counting = Counting()
    axes, roots = merge_axes((i, j), (4 * j + i, 8 * i + j, 3 * i + j), 2, counting)
    assert list(map(str, axes)) == ["i0", "i1"] and list(map(str, roots)) == ["4*i1 + i0", "8*i0 + i1", "3*i0 + i1"]
    assert len(counting.asked) == 1
