"""Costs over symbolic sizes: polynomials, compared at every size that is declared."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.flat.size_samples import sampled
from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.tensors.tensor import Program, Tensor
from eqsat.ir.terms.term import Term
from eqsat.polynomials import never_more, program_polynomial, size_notes


def turned(x: Tensor) -> Tensor:
    return x.permute_dims((1, 0))


def sizes_of(low: int, high: int | None) -> range:
    return range(low, (40 if high is None else high) + 1)


@pytest.mark.parametrize("seed", range(40))
def test_what_is_never_more_is_so_at_every_size(seed: int) -> None:
    """Random polynomials in one bounded and one unbounded size, against all sizes up to a limit."""
    r = np.random.default_rng(seed)
    low, high = int(r.integers(0, 4)), int(r.integers(4, 12))
    n, c = eq.symbol("N", lower=low), eq.symbol("C", lower=low, upper=high)

    def polynomial() -> Term:
        k = [int(v) for v in r.integers(-6, 7, 4)]
        return n * n * k[0] + n * c * k[1] + c * k[2] + k[3]

    a, b = polynomial(), polynomial()
    truth = all(int((b - a).evaluate({n: i, c: j})) >= 0 for i in sizes_of(low, None) for j in sizes_of(low, high))
    assert not never_more(a, b) or truth
    assert never_more(a, a + c * n + n * n)


def test_costs_in_many_sizes() -> None:
    """What only grows is compared whatever the sizes are; of others, of so many sizes, nothing is said."""
    n, *many = (eq.symbol(f"S{k}") for k in range(200))
    both = sum(many, n)
    assert never_more(both * n, both * n * 2 + n)
    assert not never_more(both * n, both * n * 2 - n) and not never_more(both, n)


def test_a_size_that_is_no_polynomial_is_one_of_its_own() -> None:
    n = eq.symbol("N")
    assert never_more((n // 2) * 4, (n // 2) * 8) and not never_more((n // 2) * 8, n * 4 - 1)


def test_polynomials_count_what_samples_count() -> None:
    n, c = eq.symbol("N", upper=128), eq.symbol("C")
    x = eq.input("x", (n, c), "float32")
    program = Program([x], {"y": turned(x).relu(), "z": turned(x + 1)})
    found = program_polynomial(program)
    for at in ({n: 64, c: 64}, {n: 3, c: 5}):
        assert sampled(as_size(found), at) == eq.optimize(program.bind(at)).cost_before
    assert sampled(as_size(found)) == eq.optimize(program).cost_before


def test_the_result_says_what_holds_at_other_sizes() -> None:
    n = eq.symbol("N")
    x = eq.input("x", (n, 8), "float32")
    found = eq.optimize(turned(turned(x).relu()))
    assert "bytes: 128*N before, 0 after, never more at other sizes" in found.notes
    assert not any("sizes" in note for note in eq.optimize(turned(eq.input("x", (4, 8), "float32"))).notes)


def test_a_crossing_is_said_with_a_size_where_the_result_is_worse() -> None:
    """Turning 40 columns costs less than turning N rows of one at 64 rows, not at 1."""
    n = eq.symbol("N")
    wide, long = eq.input("w", (40, 2), "float32"), eq.input("x", (n, 2), "float32")
    before, after = Program([wide, long], {"y": turned(long)}), Program([wide, long], {"y": turned(wide)})
    assert size_notes(before, after)[1] == "bytes: 16*N before, 640 after, more at N = 1"
    assert size_notes(after, before)[1].endswith("more at N = 1048576")


def test_what_only_grows_is_told_without_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sympy takes longer to load than a model to be optimised."""
    n, c = eq.symbol("N"), eq.symbol("C", lower=1)
    monkeypatch.setitem(sys.modules, "sympy", None)
    assert (
        never_more(c * 8, (n + 1) * c * 8) and never_more(n, n * n + n) and never_more((n + c) * 2, (n + c) * (n + 2))
    )
    with pytest.raises(ImportError):
        never_more(n * 64, n * n)


def test_a_long_sum_that_may_be_negative_is_no_size() -> None:
    """Products of long sums are not multiplied out, so a factor may still be a difference."""
    n, less, *many = (eq.symbol(f"S{k}") for k in range(60))
    assert not never_more(n, (sum(many, n) - less) * (sum(many, n) + 1) + n)
