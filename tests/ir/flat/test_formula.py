"""Maps by formulas: what they read, what they compose to, and whose padding a cell holds, at every size."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from flat_build import crop, flip, pad, permute
from hypothesis import given, settings
from hypothesis import strategies as st
from swizzles import SWIZZLES, lower_triangle

import eqsat as eq
from eqsat.ir.flat.formula import (
    MOST_COMPOSED,
    address_at,
    composed,
    composed_parts,
    fits_words,
    formula_of_view,
    from_formula,
    map_of_view,
    valid_at,
)
from eqsat.ir.flat.map import FlatMap, identity, substitute
from eqsat.ir.flat.ops import TABLE_LIMIT
from eqsat.ir.flat.sizes import monomial, number, value
from eqsat.ir.flat.table import Map, TableMap
from eqsat.ir.flat.term_map import TermMap, cell
from eqsat.ir.tensors.tensor import Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.walk import dag_size, symbols
from eqsat.ir.terms.walk import substitute as put
from eqsat.simplifying import simplify as simplify_module

N = t.sym("N", 1)
ROWS = monomial(8, N)


def whole(x: Tensor) -> Map:
    assert isinstance(x.node, View)
    found = map_of_view(x.node) or formula_of_view(x.node)
    assert found is not None
    return found


def cells(m: Map, n: int) -> np.ndarray:
    """What a map reads where N is a number."""
    if isinstance(m, FlatMap):
        return substitute(m, {N: n}).to_array()
    size = value(m.n_out, {N: n})
    i = np.arange(size, dtype=np.int64)
    terms = [put(x(m, cell(size)), {N: t.index_const(n)}) for x in (address_at, valid_at)]
    (address, _), (valid, _) = evaluate_masked(terms, {cell(size): i}, load_table)
    return np.where(np.broadcast_to(valid, i.shape), address, -1)


def maps() -> dict[str, Map]:
    """Maps from 8*N rows of 16 to themselves."""
    x = eq.input("x", (8 * N, 16), "float32")
    shape = (ROWS, 16)
    found = {name: whole(swizzle(x)) for name, swizzle in SWIZZLES.items()}
    found |= {f"{name} back": whole(swizzle.undo(x)) for name, swizzle in SWIZZLES.items()}
    found |= {"triangle": whole(lower_triangle(x)), "flip": flip(shape, (1,))}
    found["columns"] = permute((ROWS, 4, 4), (0, 2, 1))
    return found


MAPS = maps()


@pytest.mark.parametrize("name", SWIZZLES)
def test_a_swizzle_and_what_undoes_it_are_the_identity(name: str) -> None:
    there, back = MAPS[name], MAPS[f"{name} back"]
    assert isinstance(there, TableMap if name == "roll" else TermMap)
    for a, b in ((there, back), (back, there)):
        found = composed(a, b)
        assert found is not None and found.is_identity


@pytest.mark.parametrize("name", MAPS)
def test_a_formula_says_what_the_view_reads(name: str) -> None:
    m = MAPS[name]
    assert pickle.loads(pickle.dumps(m)) == m and hash(pickle.loads(pickle.dumps(m))) == hash(m)
    if name in SWIZZLES:
        for n in (1, 2, 5):
            x = eq.input("x", (8 * n, 16), "float32")
            expected = whole(SWIZZLES[name](x))
            assert not isinstance(expected, TermMap)
            assert np.array_equal(cells(m, n), expected.to_array())


def too_large(f: Map, g: Map) -> bool:
    """Whether the formula of a composition has more terms than are kept."""
    i = cell(g.n_out)
    at = address_at(g, i)
    valid = t.logical_and(valid_at(g, i), valid_at(f, at))
    found = from_formula(f.n_in, g.n_out, address_at(f, at), valid, 10**6)
    return isinstance(found, TermMap) and dag_size(found.address, found.valid) > MOST_COMPOSED


@settings(max_examples=14)
@given(st.lists(st.sampled_from(sorted(MAPS)), min_size=2, max_size=4), st.sampled_from([1, 2, 3]))
def test_compositions_are_right_at_every_size(names: list[str], n: int) -> None:
    total = MAPS[names[0]]
    for name in names[1:]:
        g = MAPS[name]
        step = composed_parts(total, g)
        if step is None:
            assert (isinstance(total, FlatMap) and isinstance(g, FlatMap)) or too_large(total, g)
            return
        inner, outer = cells(total, n), cells(g, n)
        padded = np.where(outer >= 0, inner[np.maximum(outer, 0)], -1)
        assert np.array_equal(cells(step.map, n), padded)
        assert step.outer_pads or not np.any(outer < 0)
        assert step.inner_pads or not np.any((outer >= 0) & (padded < 0))
        total = step.map


def test_what_is_small_is_a_table_and_what_has_digits_is_digits() -> None:
    i = cell(64)
    assert isinstance(from_formula(64, 64, i // 8 * 8 + (i % 8 ^ i // 8), t.TRUE), TableMap)
    j = cell(ROWS)
    plain = from_formula(ROWS, ROWS, j // 8 * 8 + (j % 8 ^ j // 8 % 8 ^ j // 8 % 8), t.TRUE)
    assert plain == identity(ROWS)
    never = from_formula(ROWS, ROWS, j, t.logical_and(t.compare("lt", j % 8, 4), t.compare("le", 4, j % 8)))
    assert never is not None and never.is_all_padding


def test_reshapes_that_do_not_align_are_the_identity() -> None:
    for shape in ((1400, 1500), (600, 3500)):
        assert whole(eq.input("x", (1000, 2100), "float32").reshape(shape)).is_identity


def test_large_views_are_read_and_small_parts_of_them_are_tables() -> None:
    x = eq.input("x", (4096, 4096), "float32")
    m = whole(SWIZZLES["xor"](x))
    assert isinstance(m, TermMap) and number(m.n_out) > TABLE_LIMIT
    at = np.array([0, 5, 4097, 4096 * 4095 + 77], np.int64)
    row, column = np.divmod(at, 4096)
    assert np.array_equal(m.at(at), row * 4096 + column // 8 * 8 + (column % 8 ^ row % 8))
    part = composed(m, crop((4096, 4096), (8, 0), (2, 4096)))
    assert isinstance(part, TableMap)
    assert np.array_equal(part.to_array(), m.at(np.arange(8 * 4096, 10 * 4096)))


def test_digit_maps_stay_two_where_only_a_formula_says_both() -> None:
    turned = permute((600, 3500), (1, 0)), permute((1000, 2100), (1, 0))
    assert composed(*turned) is None
    assert composed(pad((600,), (3,), (4,)), crop((607,), (3,), (600,))) == identity(600)


def test_formulas_that_need_more_than_64_bits_are_no_maps() -> None:
    i = cell(ROWS)
    assert not fits_words([cell(1 << 20) * (1 << 50) // 7])
    k = cell(1 << 20)
    assert from_formula(1 << 20, 1 << 20, k * k * k * k % (1 << 20), t.TRUE) is None
    assert from_formula(ROWS, ROWS, (i * 3) % t.as_index(8 * N), t.TRUE) is not None


def test_a_map_that_reads_outside_says_so() -> None:
    m = TermMap(8, 16, cell(16) - 4, t.compare("le", 4, cell(16)))
    with pytest.raises(eq.EqsatError, match="outside"):
        m.to_array()
    inside = TermMap(12, 16, cell(16) - 4, t.compare("le", 4, cell(16)))
    assert inside.gather(np.arange(12), -7).tolist() == [-7] * 4 + list(range(12))


def test_formulas_in_other_symbols_are_shortened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a network have sizes of their own; symbols of which something else is known share nothing."""
    asked: list[t.Term] = []
    shortest = simplify_module.simplify_term

    def counted(term: t.Term, box: Any = None) -> t.Term:
        asked.append(term)
        return shortest(term, box)

    monkeypatch.setattr(simplify_module, "simplify_term", counted)

    def rolled(name: str, least: int) -> Map:
        h, w = t.sym(f"{name}_h", least), t.sym(f"{name}_w", least)
        return whole(eq.roll(eq.input("x", (N, 3, h, w), "float32"), 1, 2))

    first, count = rolled("p", 5), len(asked)
    assert count > 0
    others = [rolled(name, 5) for name in ("a", "q", "z9", "z10")]
    assert len(asked) == count and len({first, *others}) == 5
    rolled("r", 6)
    assert len(asked) > count
    for m in (first, *others):
        free = sorted({*symbols(m.address)} - {N}, key=str) if isinstance(m, TermMap) else []
        sizes = {N: 2, free[0]: 5, free[1]: 6}
        size = value(m.n_out, sizes)
        table = {s: t.index_const(n) for s, n in sizes.items()}
        terms = [put(f(m, cell(size)), table) for f in (address_at, valid_at)]
        (address, _), (valid, _) = evaluate_masked(terms, {cell(size): np.arange(size)}, load_table)
        wanted = np.roll(np.arange(6 * 30).reshape(2, 3, 5, 6), 1, 2)
        assert np.array_equal(np.where(valid, address, -1), wanted.reshape(-1))
