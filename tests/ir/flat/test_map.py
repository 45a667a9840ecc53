"""Canonical form, recognition, composition, inverse and the facts about flat maps, against plain arrays."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Callable, Sequence
from math import prod

import flat_build as build
import numpy as np
import pytest
from flat_strategies import Chain, chains, digit_maps, fitted
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ir.errors import EqsatError
from eqsat.ir.flat.facts import (
    inverse,
    is_bijective,
    is_injective,
    is_permutation,
    split_core,
)
from eqsat.ir.flat.map import Digit, FlatMap, IntArray, digit, from_digits, identity
from eqsat.ir.flat.ops import compose, compose_parts
from eqsat.ir.flat.sizes import number
from eqsat.ir.flat.table import Map, TableMap, surroundings
from eqsat.ir.flat.tabled import from_array


def after(f: Map, g: Map) -> IntArray:
    """What compose(f, g) must be, cell by cell."""
    outer, inner = g.to_array(), np.append(f.to_array(), -1)
    return inner[outer]  # -1 reads the last one


def factorizations(n: int) -> list[tuple[int, ...]]:
    return [(n,)] + [(d, *rest) for d in range(2, n) if n % d == 0 for rest in factorizations(n // d)]


def test_one_canonical_form_per_function() -> None:
    """Exhaustive over the digit forms of a few cells: equal canonical forms exactly where equal arrays."""
    seen: dict[bytes, FlatMap] = {}
    forms = 0
    for n, strides in ((1, 3), (2, 4), (3, 4), (4, 4), (6, 4), (8, 2), (9, 3), (12, 2)):
        for extents in factorizations(n):
            choices = [
                [Digit(e, s, lo, hi) for s in (0, 1, 2, -1)[:strides] for lo in range(e + 1) for hi in range(lo, e + 1)]
                for e in extents
            ]
            for digits in itertools.product(*choices):
                m = fitted(list(digits), 64)
                forms += 1
                assert seen.setdefault(m.to_array().tobytes(), m) == m
    assert len(set(seen.values())) == len(seen) < forms / 2


def _check_gather(m: Map, array: IntArray) -> None:
    source = np.arange(100, 100 + number(m.n_in), dtype=np.int32)
    expected = np.where(array >= 0, source[np.maximum(array, 0)] if source.size else -7, -7)
    found = m.gather(source, -7)
    assert found.dtype == source.dtype and np.array_equal(found, expected)


@given(digit_maps())
def test_digit_maps_are_recognised(m: FlatMap) -> None:
    array = m.to_array()
    assert from_array(array, number(m.n_in)) == m
    assert hash(m) == hash(FlatMap(m.n_in, m.digits, m.offset)) and pickle.loads(pickle.dumps(m)) == m
    assert np.array_equal(m.at(np.arange(len(array))), array)
    _check_gather(m, array)
    assert m.valid_count == np.count_nonzero(array >= 0) and m.n_out == len(array)
    assert m.is_total == bool(np.all(array >= 0))
    assert m.is_identity == (len(array) == m.n_in and np.array_equal(array, np.arange(len(array))))


@given(st.integers(1, 12).flatmap(lambda n: st.lists(st.integers(-1, n - 1), min_size=1, max_size=30)), st.data())
def test_any_array_has_one_form(row: list[int], data: st.DataObject) -> None:
    outer, inner = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    n = 12
    block = np.array(row, dtype=np.int64)
    wide = np.repeat(block * inner, inner) + np.tile(np.arange(inner), len(block))
    array = np.concatenate([np.where(np.repeat(block, inner) < 0, -1, wide + b * n * inner) for b in range(outer)])
    m = from_array(array, n * outer * inner)
    assert np.array_equal(m.to_array(), array) and np.array_equal(m.at(np.arange(len(array))), array)
    assert from_array(m.to_array(), n * outer * inner) == m
    _check_gather(m, array)
    assert m.valid_count == np.count_nonzero(array >= 0) and m.is_total == bool(np.all(array >= 0))
    if isinstance(m, TableMap):
        blocks, run = surroundings(m)
        assert number(blocks) % outer == 0 and number(run) % inner == 0
        assert pickle.loads(pickle.dumps(m)) == m and hash(pickle.loads(pickle.dumps(m))) == hash(m)
    else:
        assert from_array(block, n) == from_array(from_array(block, n).to_array(), n)


@given(chains())
def test_chains_of_views(chain: Chain) -> None:
    """Building and composing along a chain is what numpy does, and it is the canonical form of that."""
    total: Map = identity(prod(chain.shape))
    for view in chain.views:
        step = compose_parts(total, view.map)
        assert step is not None
        padded = after(total, view.map)
        assert np.array_equal(step.map.to_array(), padded)
        outer = view.map.to_array()
        assert step.outer_pads == bool(np.any(outer < 0))
        assert step.inner_pads == bool(np.any((padded < 0) & (outer >= 0)))
        total = step.map
    assert np.array_equal(total.to_array(), chain.result.reshape(-1))
    assert from_array(chain.result, prod(chain.shape)) == total


def random_digits(rng: random.Random, extents: Sequence[int], strides: tuple[int, ...]) -> list[Digit]:
    digits: list[Digit] = []
    for extent in extents:
        ends = sorted(rng.choices(range(extent + 1), k=2)) if rng.random() < 0.3 else [0, extent]
        digits.append(Digit(extent, rng.choice(strides), *ends))
    return digits


@pytest.mark.parametrize("count", [1000, pytest.param(3000, marks=pytest.mark.slow)])
def test_compose_any_digit_maps(count: int) -> None:
    """Views with windows, offsets, gaps, repeats and overlaps, of views of any digits that cover their source."""
    rng = random.Random(0)
    found = 0
    for _ in range(count):
        extents = rng.choices((2, 3, 4, 6), k=rng.randint(1, 3))
        g = fitted(random_digits(rng, extents, (1, 1, 2, 3, 4, 6, 8, 12, -1, -2, -4, 0)), 0)
        inner = rng.choices((2, 3, 4, 6, 8), k=rng.randint(1, 3))
        radices = [-(-number(g.n_in) // prod(inner)), *inner]
        f = fitted(random_digits(rng, radices, (1, 2, 3, 5, 16, 24, 40, -1, -7, 0)))
        room = number(f.n_out) - number(g.n_in)
        g = from_digits(number(f.n_out), g.digits, number(g.offset) + rng.choice((0, room // 2, room)))
        h, cells = compose(f, g), after(f, g)
        assert h is not None and np.array_equal(h.to_array(), cells), (str(f), str(g))
        assert from_array(cells, number(f.n_in)) == h, (str(f), str(g))
        found += isinstance(h, FlatMap) and not h.is_all_padding
    assert found > 0.3 * count


def test_aligned_chains_need_no_table() -> None:
    """Composition in digits alone, whatever the size; what carries has no form above the limit."""
    n = 1 << 20
    blocked = build.permute((64, n, 16), (1, 0, 2))
    for f, g in (
        (blocked, build.permute((n, 8, 8, 16), (2, 0, 1, 3))),
        (build.pad((n, 14), (0, 1), (0, 1)), build.crop((n, 16), (0, 1), (n, 14))),
        (build.pad((n, 12), (0, 0), (0, 4)), build.permute((n, 4, 4), (1, 2, 0))),
        (build.crop((n, 64), (0, 16), (n, 32)), build.permute((n, 2, 16), (2, 1, 0))),
        (build.slice_((n, 9), (n - 1, 1), (n, 4), (-1, 2)), build.flip((n, 4), (0, 1))),
        (build.broadcast((n, 1), (n, 8)), build.permute((n, 2, 4), (2, 0, 1))),
        (build.permute((n, 6), (1, 0)), build.slice_((6, n), (4, 0), (2, n), (-3, 1))),
        (build.roll((n, 7, 3), 1, 2), build.roll((n, 7, 3), 1, -2)),
        (build.roll((n, 56, 56), 1, 3), build.permute((n, 8, 7, 8, 7), (0, 1, 3, 2, 4))),
    ):
        h = compose(f, g)
        assert h is not None
        at = np.random.default_rng(0).integers(0, number(g.n_out), 1000)
        outer = g.at(at)
        assert np.array_equal(h.at(at), np.where(outer >= 0, f.at(outer), -1))
    assert compose(build.permute((n, 6), (1, 0)), build.permute((n // 2, 12), (1, 0))) is None


def test_facts_of_all_overlaps() -> None:
    """Three digits of any small strides: interleaved, overlapping, leaving gaps."""
    for strides in itertools.product((1, 2, 3, 4, 5, 7), repeat=3):
        for extents in itertools.product((2, 3), repeat=3):
            check_facts(fitted([digit(e, s) for e, s in zip(extents, strides, strict=True)]))


@given(st.one_of(digit_maps(), chains().map(lambda c: from_array(c.result, prod(c.shape)))))
def test_facts(m: Map) -> None:
    check_facts(m)


def check_facts(m: Map) -> None:
    array, n_in = m.to_array(), number(m.n_in)
    read = array[array >= 0]
    distinct = np.unique(read)
    assert is_injective(m) == (len(distinct) == len(read))
    assert is_bijective(m) == (len(distinct) == len(array) == n_in)
    back = inverse(m)
    assert (back is not None) == is_bijective(m)
    if back is not None:
        assert np.array_equal(array[back.to_array()], np.arange(n_in)) and inverse(back) == m


def test_the_core_of_a_table_that_sorts_into_digits() -> None:
    """Its digits (8, 3) sort into (3, 2, 2, 2), which no order of whole digits reaches."""
    m = from_array(
        [4 * ((a * 3 + c) // 4 % 6) + 2 * b + d for a in range(8) for b in (0, 1) for c in range(3) for d in (0, 1)], 24
    )
    assert isinstance(m, TableMap)
    core, layout = split_core(m)
    assert compose(core, layout) == m and split_core(core) == (core, identity(core.n_out))


def without_broadcast(m: FlatMap) -> FlatMap:
    return from_digits(m.n_in, [d for d in m.digits if d.stride != 0], m.offset)


@given(st.one_of(digit_maps(), chains().map(lambda c: from_array(c.result, prod(c.shape)))), st.data())
def test_core_forgets_the_order_of_digits(m: Map, data: st.DataObject) -> None:
    core, layout = split_core(m)
    assert is_permutation(layout) and compose(core, layout) == m
    assert split_core(core) == (core, identity(core.n_out))
    if isinstance(m, FlatMap) and is_injective(without_broadcast(m)) and all(d.width != 1 for d in m.digits):
        mixed = from_digits(m.n_in, data.draw(st.permutations(m.digits)), m.offset)
        assert split_core(mixed)[0] == core
    if is_permutation(m):
        assert core.is_identity
    elif is_bijective(m):
        assert is_bijective(core) and not is_permutation(core)


def test_zero_sizes() -> None:
    empty = identity(0)
    assert empty == from_digits(0, [digit(3, 2), digit(0, 1)]) and empty.is_total and empty.is_identity
    nothing = build.pad((0, 3), (1, 0), (1, 0))
    assert nothing.to_array().tolist() == [-1] * 6 and nothing.is_all_padding
    assert compose(nothing, build.permute((2, 3), (1, 0))) == nothing
    assert compose(nothing, build.crop((2, 3), (1, 0), (0, 3))) == empty
    assert inverse(empty) == empty and is_injective(nothing)


@pytest.mark.parametrize(
    "make",
    [
        lambda: from_digits(6, [digit(3, 3)]),
        lambda: from_digits(6, [digit(3, 1)], -1),
        lambda: from_digits(6, [Digit(3, 1, 2, 4)]),
        lambda: from_digits(0, [digit(3, 0)]),
        lambda: from_array([0, 6], 6),
        lambda: build.permute((2, 3), (0, 0)),
        lambda: build.slice_((4,), (1,), (3,), (2,)),
        lambda: build.slice_((4,), (1,), (3,), (-1,)),
        lambda: build.broadcast((2,), (3,)),
        lambda: build.pad((4,), (-1,), (0,)),
        lambda: build.pad((4,), (1, 1), (0,)),
        lambda: build.from_gather((2, 3), ([1, 2], [0, 0])),
        lambda: compose(identity(3), identity(4)),
    ],
)
def test_bad_arguments(make: Callable[[], object]) -> None:
    with pytest.raises(EqsatError):
        make()
