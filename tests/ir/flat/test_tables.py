"""Maps with tables: rolls, gathers and xor of some digits, composed, undone and spelled digit by digit."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import flat_build as build
import numpy as np
import pytest
from flat_steps import run_steps
from flat_strategies import Chain, chains, digit_maps
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ir.flat import ops as ops
from eqsat.ir.flat import tabled as tabled_maps
from eqsat.ir.flat.facts import (
    inverse,
    is_bijective,
    is_injective,
    is_permutation,
    split_core,
)
from eqsat.ir.flat.map import FlatMap, IntArray, identity, substitute
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.sizes import Size, monomial, number, product
from eqsat.ir.flat.spell import spell
from eqsat.ir.flat.steps import Reshape
from eqsat.ir.flat.table import Map, TableMap
from eqsat.ir.flat.tabled import from_array, with_numbers
from eqsat.ir.flat.term_map import TermMap
from eqsat.ir.terms import term as t


def done(f: Map, g: Map) -> Map:
    found = compose(f, g)
    assert found is not None
    return found


def chain_of(*maps: Map) -> Map:
    """Views one after another."""
    total: Map = identity(maps[0].n_in)
    for m in maps:
        total = done(total, m)
    return total


def rows(m: Map) -> list[int]:
    """How long the tables of a map are."""
    return sorted(len(x.table) for x in m.lookups) if isinstance(m, TableMap) else []


def check(m: Map, array: IntArray) -> None:
    """Everything that is said about a map, against its cells."""
    assert not isinstance(m, TermMap)
    n_in = number(m.n_in)
    assert np.array_equal(m.to_array(), array) and np.array_equal(m.at(np.arange(len(array))), array)
    source = np.arange(100, 100 + n_in, dtype=np.int32)
    if n_in:
        assert np.array_equal(m.gather(source, -7), np.where(array >= 0, source[np.maximum(array, 0)], -7))
    read = array[array >= 0]
    distinct = np.unique(read)
    assert m.valid_count == len(read) and m.is_total == (len(read) == len(array))
    assert is_injective(m) == (len(distinct) == len(read))
    assert is_bijective(m) == (len(distinct) == len(array) == n_in)
    back = inverse(m)
    assert (back is not None) == is_bijective(m)
    if back is not None:
        assert np.array_equal(array[back.to_array()], np.arange(n_in)) and done(m, back).is_identity
        assert done(back, m).is_identity
    core, layout = split_core(m)
    assert is_permutation(layout) and np.array_equal(done(core, layout).to_array(), array)
    spelling = spell(m)
    assert spelling is not None
    shown = run_steps(spelling, np.arange(1, n_in + 1), -7).reshape(-1)
    assert np.array_equal(shown, np.where(array >= 0, array + 1, -7))


def forget() -> None:
    for cached in (ops.compose_listed, inverse, split_core, is_injective, spell):
        cached.cache_clear()


@pytest.fixture
def as_if_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small maps are taken apart as they come, as large ones are, and not by their cells."""
    monkeypatch.setattr(tabled_maps, "SMALL", 0)
    forget()
    yield
    forget()


@pytest.mark.usefixtures("as_if_large")
@given(chains(), st.data())
def test_chains_by_digits(chain: Chain, data: st.DataObject) -> None:
    total: Map = identity(prod(chain.shape))
    array: IntArray = np.arange(prod(chain.shape))
    for view in chain.views:
        total = done(total, view.map)
        array = np.append(array, -1)[view.map.to_array()]
        assert np.array_equal(total.to_array(), array)
    check(total, array)


@pytest.mark.usefixtures("as_if_large")
@given(digit_maps(), chains(max_views=2))
def test_any_digits_after_tables(m: FlatMap, chain: Chain) -> None:
    inner = from_array(chain.result, prod(chain.shape))
    if m.n_out and number(m.n_in) <= number(inner.n_out):
        wide = FlatMap(inner.n_out, m.digits, m.offset)
        found = done(inner, wide)
        check(found, np.append(inner.to_array(), -1)[wide.to_array()])


def windows(h: int, w: int, c: int, size: int) -> FlatMap:
    """The partition of (h, w, c) into windows."""
    return build.permute((h // size, size, w // size, size, c), (0, 2, 1, 3, 4))


def rolled(shape: tuple[Size, ...], shifts: dict[int, int]) -> Map:
    return chain_of(*(build.roll(shape, axis, shift) for axis, shift in shifts.items()))


@pytest.mark.parametrize("c", [1, 96, 1 << 40, monomial(2, t.sym("C"))])
def test_rolled_windows_are_a_table_for_each_axis(c: Size) -> None:
    """The shifted windows of an image, and back: no table is longer than an axis, and what cancels is gone."""
    shape = (56, 56, c)
    roll, back = rolled(shape, {0: -3, 1: -3}), rolled(shape, {0: 3, 1: 3})
    parted = windows(56, 56, c, 7)  # type: ignore[arg-type]
    there = done(roll, parted)
    assert rows(roll) == rows(back) == rows(there) == [56, 56]
    home = inverse(there)
    assert home is not None and rows(home) == [56, 56]
    assert home == done(inverse(parted) or parted, back)
    assert done(there, home).is_identity and done(home, there).is_identity
    assert done(roll, back).is_identity and done(parted, done(inverse(parted) or parted, back)) == back
    core, layout = split_core(there)
    assert core == roll and layout == parted
    tokens = build.permute((c, 56 * 56), (1, 0))
    assert rows(done(tokens, there)) == [56, 56] and split_core(done(tokens, there))[1] == done(tokens, parted)


def test_a_rotation_by_windows_is_one_of_windows() -> None:
    roll = build.roll((4, 56, 5), 1, 14)
    assert isinstance(roll, TableMap) and rows(roll) == [4]
    assert [number(d.extent) for d in roll.digits] == [4, 4, 70]
    assert build.roll((4, 56, 5), 1, 0) == build.roll((4, 56, 5), 1, 56) == identity(4 * 56 * 5)


N = t.sym("N")


def test_a_reversed_axis_and_then_a_table_of_it() -> None:
    """A table after steps of -N cells has its numbers in steps of N, and an inverse."""
    sizes: tuple[Size, ...] = (2, 4, monomial(1, N))
    turned = chain_of(build.take(sizes, 1, [3, 2, 1, 0]), build.take(sizes, 1, [0, 1, 3, 2]))
    assert isinstance(turned, TableMap) and turned == build.take(sizes, 1, [3, 2, 0, 1])
    back = inverse(turned)
    assert back is not None and done(turned, back).is_identity


@given(st.data())
def test_permuted_axes_compose_like_arrays(data: st.DataObject) -> None:
    """Random permutations of axes with permutations, splits and symbols around them."""
    shape = data.draw(st.lists(st.sampled_from([2, 3, 4, 6, 8, 9]), min_size=1, max_size=4))
    symbolic = data.draw(st.sampled_from([0, 1, 2]))
    sizes: tuple[Size, ...] = (*shape, monomial(1, N)) if symbolic == 1 else tuple(shape)
    sizes = (monomial(3, N), *shape) if symbolic == 2 else sizes
    n = data.draw(st.integers(1, 3))
    x = np.arange(prod(shape) * (n if symbolic == 1 else 3 * n if symbolic == 2 else 1)).reshape(
        [number(s) if isinstance(s, int) else n * s.coef for s in sizes]
    )
    total: Map = identity(product(sizes))
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            first, last = (symbolic == 2), len(sizes) - (symbolic == 1)
            order = [*range(first), *data.draw(st.permutations(range(first, last))), *range(last, len(sizes))]
            total, x = done(total, build.permute(sizes, order)), x.transpose(order)
            sizes = tuple(sizes[a] for a in order)
            continue
        axis = data.draw(st.integers(0, len(sizes) - 1))
        extent = sizes[axis]
        if isinstance(extent, int):
            chosen = data.draw(st.permutations(range(extent)))
            total, x = done(total, build.take(sizes, axis, chosen)), np.take(x, chosen, axis)
            inner = data.draw(st.sampled_from([d for d in range(1, extent + 1) if extent % d == 0]))
            sizes = (*sizes[:axis], extent // inner, inner, *sizes[axis + 1 :])
            x = x.reshape(*x.shape[:axis], extent // inner, inner, *x.shape[axis + 1 :])
    if isinstance(total, TableMap):
        assert max(rows(total)) <= max(shape)
        fixed = with_numbers(total, {N: n})
    else:
        assert isinstance(total, FlatMap)
        fixed = substitute(total, {N: n})
    check(fixed, x.reshape(-1))
    assert from_array(x, x.size) == fixed
    back = inverse(total)
    assert back is not None and done(total, back).is_identity and done(back, total).is_identity
    assert inverse(back) == total


def test_sizes_of_64_bits() -> None:
    n = 1 << 40
    m = done(build.roll((n, 6, 1 << 20), 1, 2), build.permute((n, 6, 1 << 20), (1, 0, 2)))
    at = np.array([0, 5, (1 << 60) + 17, 6 * n * (1 << 20) - 1], np.int64)
    back = inverse(m)
    assert back is not None and np.array_equal(back.at(m.at(at)), at) and done(m, back).is_identity
    assert rows(m) == [3] and is_injective(m)


def test_an_xor_is_a_table_for_each_bit() -> None:
    i, j = np.indices((8, 8))
    xor = build.from_gather((8, 8), (i, i ^ j))
    assert rows(xor) == [4, 4, 4] and done(xor, xor).is_identity
    pushed = build.from_gather((8, 8), (i, j ^ 5))
    assert rows(pushed) in ([], [2], [2, 2]) and done(pushed, pushed).is_identity


def test_large_tables_are_gathered_axis_by_axis() -> None:
    """More rows than one gather may have, and symbols between the tables."""
    n = 40
    x = np.arange(n * n * 200).reshape(200, n, n)
    m = done(rolled((200, n, n), {1: 3, 2: 5}), build.permute((200, n, n), (2, 0, 1)))
    spelling = spell(m, (200, n, n), (n, 200, n))
    assert spelling is not None
    assert [type(s).__name__ for s in spelling.steps if not isinstance(s, Reshape)] == ["Gather", "Gather", "Transpose"]
    assert np.array_equal(run_steps(spelling, x.reshape(-1), 0), np.roll(x, (3, 5), (1, 2)).transpose(2, 0, 1))
    shape = (7, monomial(2, N), 7)
    both = done(rolled(shape, {0: 3, 2: 5}), build.permute(shape, (1, 2, 0)))
    assert spell(both, shape) is not None and spell(rolled(shape, {0: 3, 2: 5}), shape, shape) is not None
