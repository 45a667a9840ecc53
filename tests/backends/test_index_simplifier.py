"""Simplifying never changes the value of a term; ranges hold; what is divided is not negative."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_checks import check_statements, sample
from kernel_views import VIEWS

from eqsat.backends.lowering.floor import upwards
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.ir import decide
from eqsat.ir.enumerator import Enumerator
from eqsat.ir.points import grid
from eqsat.ir.tensors.tensor import input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

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
def test_simplifying_keeps_the_value_and_ranges_hold(term: Term) -> None:
    simplifier = IndexSimplifier()
    simple = simplifier.simplify(term)
    box = {axis: (0, int(axis.args[0].payload)) for axis in AXES}
    (want, _), (got, bad) = evaluate_masked([term, simple], grid(box))
    assert bad is None
    full = np.broadcast_shapes(np.shape(want), np.shape(got))
    np.testing.assert_array_equal(np.broadcast_to(got, full), np.broadcast_to(want, full))
    upper = upwards(simple, simplifier)
    (raised, bad), *dividends = evaluate_masked([upper, *(n.args[0] for n in divided(upper))], grid(box))
    assert bad is None and all(np.min(x) >= 0 for x, _ in dividends)
    np.testing.assert_array_equal(np.broadcast_to(raised, full), np.broadcast_to(want, full))
    known = simplifier.range(simple)
    assert known is not None and known[0] <= np.min(want) and np.max(want) <= known[1]


def divided(term: Term) -> list[Term]:
    """The divisions of a term."""
    return [n for n in postorder(term) if n.op in ("floordiv", "mod")]


@pytest.mark.parametrize("name", ["padded blocks", "reflect", "roll", "cut blocks", "concat", "take"])
def test_kernels_are_right_without_rules(name: str) -> None:
    """With the language's own Decider, which knows no rules, more is left to be computed."""
    registered = decide.decider()
    decide.register_decider(Enumerator)
    try:
        x = input("x", (2, 8, 7, 5), "float32")
        check_statements({"y": VIEWS[name](x)}, {"x": sample((2, 8, 7, 5), "float32")})
    finally:
        decide.register_decider(lambda: registered)


LOWERED = """
import sys
import eqsat as eq
from eqsat.backends.lowering.lower import lower

x = eq.input("x", (8, 6, 4), "float32")
print(lower(eq.Program([x], {"y": x.reshape((12, 16)).roll(3, 0).permute_dims((1, 0))})).steps[0])
assert "eqsat.rewriting.rewrite" in sys.modules
assert not {"eqsat.proving.prover", "eqsat.index_graph.graph", "egglog.bindings", "z3", "islpy"} & set(sys.modules)
"""


def test_most_kernels_need_the_rules_alone() -> None:
    """Solvers and e-graphs take longer to load than a kernel to lower."""
    done = subprocess.run((sys.executable, "-c", LOWERED), capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "for i0 in" in done.stdout, done.stderr


def test_digits_disappear() -> None:
    i, j, k = AXES
    flat = 40 * i + 5 * j + k
    simplifier = IndexSimplifier()
    for term, expected in (
        (flat // 5, 8 * i + j), (flat % 40 // 5, j), (flat // 40 * 40 + flat % 40, flat), (flat // 5 % 8, j),
        (flat // 10 * 10 + flat // 5 % 2 * 5 + flat % 5, flat), ((flat + 7) // 5, 8 * i + j + 1 + (k + 2) // 5),
    ):  # fmt: skip
        assert simplifier.simplify(term).same(expected), (str(term), str(simplifier.simplify(term)))
    assert simplifier.simplify(t.compare("le", 3, (j + 9) // 5)).same(t.compare("le", 6, j))
