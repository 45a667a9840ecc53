"""Programs of one process share no facts about their sizes, whatever the sizes are called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seeds import each_value, some_of

import eqsat as eq
from eqsat.extraction.cost import program_bytes
from eqsat.flow import flow_layout
from eqsat.ir.flat.map import digit, from_digits, identity
from eqsat.ir.flat.size_samples import SAMPLE
from eqsat.ir.flat.sizes import monomial
from eqsat.ir.flat.table import Map
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.tensors.run import evaluate, evaluate_outputs
from eqsat.ir.terms import term as t
from eqsat.laws.cells import same_cells
from eqsat.laws.match import bind
from eqsat.laws.plan import plans
from eqsat.operators.forms import FormMaker
from eqsat.operators.interned import Interned
from eqsat.proving.prover import decide, prove
from eqsat.rules.layout_laws import compose_views
from eqsat.verifying.verify import verify


def test_facts_of_one_symbol_are_not_those_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches that answer by text, on disk and in memory, know the bounds of what they were asked."""
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    for _ in range(2):
        for lower, verdict in ((1, "always"), (0, "sometimes"), (2, "always")):
            n = t.sym("N", lower=lower)
            assert decide(t.compare("lt", 0, n)) == verdict
            assert prove(t.var("i", n) < n).verdict == "proved"
        assert decide(t.compare("eq", t.sym("N", multiple_of=4) % 4, 0)) == "always"
        assert decide(t.compare("eq", t.sym("N") % 4, 0)) == "sometimes"
    first, twin = t.sym("N"), t.sym("N")
    proof = prove(t.compare("eq", first, twin))
    assert proof.verdict == "refuted" and proof.witness is not None and set(proof.witness) == {"N", "N_1"}
    assert prove("N <= N_1 + 2", None).verdict == "refuted"
    assert prove(first <= twin, {"N": (1, 4), "N_1": (2, 4)}).verdict == "refuted"
    assert prove(first <= twin, {"N": (1, 3), "N_1": (3, 9)}).verdict == "proved"
    assert prove(first <= twin, {"N_1": (1, 3), "N": (3, 9)}).verdict == "refuted"


def big(n: Any, m: Any) -> eq.Tensor:
    return eq.input("y", (n, m, n), "int32").permute_dims((2, 0, 1)).max(2)


def test_programs_with_symbols_of_one_name() -> None:  # finding: two programs, other bounds
    for lower in (1, 0, 2, 1):
        result = eq.optimize(big(eq.symbol("N", lower=lower), eq.symbol("M", lower=1)))
        assert len(result.program.inputs) == 1
    x, y = eq.input("x", (eq.symbol("N"), 4), "float32"), eq.input("y", (4, eq.symbol("N", lower=0)), "float32")
    p = eq.Program([x, y], {"o": eq.concat([x.relu(), y.permute_dims((1, 0)).relu()], 0).permute_dims((1, 0))})
    feeds = {"x": np.arange(8, dtype="f4").reshape(2, 4) - 4, "y": np.ones((4, 3), "f4")}
    result = eq.optimize(p)
    assert np.array_equal(evaluate_outputs(p, feeds)["o"], evaluate_outputs(result.program, feeds)["o"])
    kernel = eq.compile(result.program)
    for rows in (1, 5):
        arrays = {"x": np.ones((rows, 4), "f4"), "y": np.zeros((4, 2), "f4")}
        assert np.array_equal(kernel(arrays), evaluate_outputs(p, arrays)["o"])


def pads(n: Any) -> list[eq.Tensor]:
    x = eq.input("x", (n,), "float32")
    return [
        x.pad(((0, 3),)).slice([0], [n]),
        x.pad(1).relu().crop([1], [n]),
        eq.concat([x, eq.constant([1.0, 2.0], "float32")], 0).slice([0], [n]),
        (-x.slice([1], [n - 1])).pad(((1, 0),), 1.0).crop([1], [n - 1]),
        x.slice([1], [n - 1]).pad(((1, 1),)).relu(),
    ]


@each_value(case=range(5), lower=[0, 1, 3])
def test_symbolic_pad_and_back(case: int, lower: int) -> None:  # finding: pad, then crop to N
    program = pads(eq.symbol("N", lower=lower))[case]
    result = eq.optimize(program)
    for length in (lower, lower + 1, 9):
        if case > 2 and not length:
            continue  # N - 1 is no extent
        array = np.arange(length, dtype="f4") - 2
        assert np.array_equal(evaluate(program, {"x": array}), evaluate(result.program, {"x": array}))


@pytest.mark.parametrize("lower", some_of([0, 2, 1, 3], 2))
def test_windows_that_two_views_make(lower: int) -> None:
    """What is left of a shift of a shift is a window from 2 to N, of whole rows."""
    n = eq.symbol("N", lower=lower)
    x = eq.input("x", (n, n), "float32")
    shifted = x.pad(((1, 0), (0, 0)))[:n].pad(((1, 0), (0, 0)))[:n]
    result = eq.optimize(shifted)
    for length in (lower, lower + 1, 5):
        array = np.arange(length * length, dtype="f4").reshape(length, length) + 1
        assert np.array_equal(evaluate(shifted, {"x": array}), evaluate(result.program, {"x": array}))


@pytest.mark.parametrize("case", range(5))
def test_sizes_that_may_be_zero_end_the_search(case: int) -> None:  # finding: each view made another, i0 % N % N ...
    """A box with a cell is not empty, so what is read through maps of such boxes has one form."""
    result = eq.optimize(pads(eq.symbol("N", lower=0))[case])
    assert result.status == "saturated" and result.progress.nodes < 100
    assert result.cost_after < result.cost_before or case == 2  # whose operands are read as they are


def test_checked_compositions_give_one_value_to_one_symbol() -> None:
    """N and N + 3 are sizes of one symbol; a wrong composition of them is noticed, a right one is not refused."""
    n = t.sym("N", lower=3)
    small, large = monomial(1, n), monomial(1, n + 3)
    crop = from_digits(large, [digit(small, 1)])
    assert _composes(crop, identity(small), crop)
    assert not _composes(crop, identity(small), from_digits(large, [digit(small, 1)], 3))
    twin = monomial(1, t.sym("N", lower=3))
    assert not _composes(identity(small), identity(small), identity(twin))


def _composes(f: Map, g: Map, h: Map) -> bool:
    """Whether the check of answers takes h for f after g."""
    interned = Interned()
    (plan,) = plans(compose_views, None)
    match = bind(plan, interned, FormMaker(interned, {}), [interned.reindex(m, None, "int8") for m in (g, f)])
    made = [interned.reindex(m, None, "int8") for m in (h, identity(h.n_out))]
    match.numbers |= dict(zip(plan.answer, made, strict=True))
    return same_cells(match)


def test_programs_of_their_own_symbols_are_compared_by_place() -> None:
    def turned(n: Any, back: bool) -> eq.Program:
        x = eq.input("x", (n, 3), "float32")
        y = x.permute_dims((1, 0)).relu()
        return eq.Program([x], {"y": y.permute_dims((1, 0)) if back else y})

    assert verify(
        turned(eq.symbol("N"), True), eq.Program([x := eq.input("x", (eq.symbol("K"), 3), "float32")], {"y": x.relu()})
    )
    with pytest.raises(eq.EqsatError, match=r"\(N, 3\) in one program"):
        verify(turned(eq.symbol("N", lower=0), True), turned(eq.symbol("N", lower=1), True))  # not for 0
    assert verify(turned(eq.symbol("N", lower=2), True), turned(eq.symbol("N", lower=1), True)).verdict == "proved"
    n = eq.symbol("N")
    x, y = eq.input("x", (n,), "float32"), eq.input("y", (n,), "float32")
    apart = [eq.input(k, (eq.symbol("N"),), "float32") for k in "xy"]
    with pytest.raises(eq.EqsatError, match="input 'y'"):
        verify(eq.Program(apart, {"o": apart[0].relu()}), eq.Program([x, y], {"o": x.relu()}))


def test_operators_with_symbols_in_attributes_are_not_merged() -> None:
    first, twin = eq.symbol("N"), eq.symbol("N")
    x = eq.input("x", (3,), "float32")
    rows = [eq.opaque("rows", [x], [((3,), "float32")], {"rows": s}, impl=None) for s in (first, twin, first)]
    a, b, c = (o if isinstance(o, eq.Tensor) else o[0] for o in rows)
    assert not verify(a, b) and verify(a, c)


@given(st.sampled_from([-(2**64), -(2**63), 2**63 - 3, 2**63, 2**70]), st.integers(1, 9), st.integers(2, 5))
def test_ranges_beyond_int64(start: int, count: int, divisor: int) -> None:  # finding: OverflowError
    box = {"i": (start, start + count)}
    values = [i // divisor % 3 for i in range(start, start + count)]
    simple = eq.simplify(f"i // {divisor} % 3", box)
    assert [int(simple.evaluate({"i": i})) for i in range(start, start + count)] == values
    for k in range(3):
        claim = f"i // {divisor} % 3 == {k}"
        expected = "always" if set(values) == {k} else "sometimes" if k in values else "never"
        assert eq.decide(claim, box) == expected
        assert eq.prove(claim, box).verdict == ("proved" if expected == "always" else "refuted")


def test_costs_of_symbolic_layouts() -> None:
    n = eq.symbol("N", upper=8)
    x = eq.input("x", (n, 4), "float32")
    assert program_bytes(eq.Program([x], {"y": x.permute_dims((1, 0))})) == 2 * 8 * 4 * 4
    m = eq.symbol("N")
    y = eq.input("y", (m, 4), "float32")
    result = eq.optimize(eq.concat([y, y], 0).permute_dims((1, 0)))
    assert result.cost_before >= 2 * 2 * SAMPLE * 4 * 4, "a selection of symbolic size has a price"


def test_flow_of_layouts_over_symbolic_rows() -> None:
    n = eq.symbol("N")
    x, row = eq.input("x", (n, 4), "float32"), eq.input("r", (n, 4), "float32")
    flow_layout(eq.compute((n, 4), lambda i, j: x[i, j] - row[0, j]), IndexMap.parse("i, j -> j, i"))
