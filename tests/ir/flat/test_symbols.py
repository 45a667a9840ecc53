"""Flat maps with symbols: every answer, with numbers put in, is the answer for numbers."""

from __future__ import annotations

from collections.abc import Callable

import flat_build as build
import numpy as np
import pytest
from flat_steps import run_steps
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat.align import align
from eqsat.ir.flat.facts import inverse, is_bijective, is_injective, split_core
from eqsat.ir.flat.map import FlatMap, digit, from_digits, identity, substitute
from eqsat.ir.flat.ops import compose, compose_parts
from eqsat.ir.flat.read import digits_of
from eqsat.ir.flat.sizes import (
    Size,
    add,
    at_most,
    common,
    div,
    divided,
    leaves_room,
    monomial,
    mul,
    number,
    product,
    signed_total,
    total,
    value,
)
from eqsat.ir.flat.spell import spell
from eqsat.ir.flat.steps import Expand, Fill, Pad, Reshape, Shape, Slice, Spelling, Step
from eqsat.ir.flat.table import Map, TableMap
from eqsat.ir.flat.tabled import with_numbers
from eqsat.ir.terms.term import TRUE, Term, ax, binary, compare, index_const, logical_and, sym

n, m = sym("N"), sym("M")
N, M = monomial(1, n), monomial(1, m)
SIZES: st.SearchStrategy[Size] = st.sampled_from([(), (n,), (m,), (m, n), (n, n)]).flatmap(
    lambda factors: st.integers(-6, 6).map(lambda coef: monomial(coef, *factors))
)
VALUES = st.fixed_dictionaries({n: st.integers(1, 4), m: st.integers(1, 4)})


@given(SIZES, SIZES, VALUES)
def test_size_arithmetic(a: Size, b: Size, env: dict[Term, int]) -> None:
    x, y = value(a, env), value(b, env)
    assert value(mul(a, b), env) == x * y
    quotient, added = div(a, b), add(a, b)
    assert quotient is None or value(quotient, env) * y == x
    assert added is None or value(added, env) == x + y
    assert value(total(a, b), env) == x + y
    assert not at_most(a, b) or x <= y
    shared = value(common(a, b), env)
    assert (x == y == 0) if shared == 0 else x % shared == 0 == y % shared
    assert (a == b) == (str(a) == str(b)) and (a != b or hash(a) == hash(b))


o = sym("O", lower=0)
PARTS: st.SearchStrategy[Size] = st.sampled_from([(n,), (o,), (n, o), (n, n), (o, o)]).flatmap(
    lambda factors: st.integers(-3, 4).map(lambda coef: monomial(coef, *factors))
)
SUMS = st.tuples(PARTS, PARTS, st.integers(-6, 6)).map(lambda parts: total(total(parts[0], parts[1]), parts[2]))
BOUNDED = st.fixed_dictionaries({n: st.integers(1, 4), o: st.integers(0, 3)})


@given(SUMS, SUMS, BOUNDED)
def test_sums_of_sizes(a: Size, b: Size, env: dict[Term, int]) -> None:
    """Whatever their signs, and for extents of 0 where symbols may be that."""
    x, y = value(a, env), value(b, env)
    assert value(total(a, b), env) == x + y
    assert not leaves_room(a, b) or x <= y
    signed = signed_total(a, b)
    assert signed is None or value(signed, env) == x + y
    parts = divided(a, b) if b != 0 else None
    assert parts is None or (value(parts[0], env), value(parts[1], env)) == divmod(x, y)


@given(SIZES, SIZES, st.integers(0, 6), st.integers(0, 6), VALUES)
def test_extents_that_are_sums(a: Size, b: Size, more: int, less: int, env: dict[Term, int]) -> None:
    """Products of extents and of extents that a padding made larger."""
    x, y = mul(a, total(N, more)), mul(b, total(N, less))
    assert not at_most(x, y) or value(x, env) <= value(y, env)


def clipped(extent: Size) -> Size:
    """An extent, or 0 if it is less."""
    if isinstance(extent, int) or leaves_room(0, extent):
        return extent if not isinstance(extent, int) else max(extent, 0)
    return monomial(1, binary("max", extent.term, index_const(0)))


@st.composite
def symbolic_views(draw: st.DrawFn, shape: Shape) -> tuple[Map, Shape]:
    """One view of a tensor with symbolic extents; numbers are cut and padded, symbols moved, split and repeated."""
    fixed = [isinstance(e, int) for e in shape]
    kind = draw(st.sampled_from(["permute", "permute", "pad", "pad", "crop", "flip", "slice", "tile", "roll"]))
    if kind == "permute":
        axes = draw(st.permutations(range(len(shape))))
        return build.permute(shape, axes), tuple(shape[a] for a in axes)
    if kind == "pad":
        widths = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) for _ in shape]
        m = build.pad(shape, [w[0] for w in widths], [w[1] for w in widths])
        return m, tuple(total(e, sum(w)) for e, w in zip(shape, widths, strict=True))
    if kind == "crop":
        starts, ends = ([draw(st.integers(0, 1)) for _ in shape] for _ in range(2))
        sizes = tuple(clipped(total(e, -low - high)) for e, low, high in zip(shape, starts, ends, strict=True))
        return build.crop(shape, starts, sizes), sizes
    if kind == "flip":
        return build.flip(shape, [a for a, e in enumerate(shape) if e != 0 and draw(st.booleans())]), shape
    if kind == "slice":
        cuts = [
            range(e)[draw(st.integers(0, 2)) :: draw(st.integers(1, 2))] if isinstance(e, int) else e for e in shape
        ]
        if any(isinstance(c, range) and not c for c in cuts):
            return identity(product(shape)), shape
        down = [draw(st.booleans()) and isinstance(c, range) for c in cuts]
        starts = [(c[-1] if d else c[0]) if isinstance(c, range) else 0 for c, d in zip(cuts, down, strict=True)]
        steps = [(-c.step if d else c.step) if isinstance(c, range) else 1 for c, d in zip(cuts, down, strict=True)]
        sizes = tuple(len(c) if isinstance(c, range) else c for c in cuts)
        return build.slice_(shape, starts, sizes, steps), sizes
    if kind == "tile":
        times = [draw(st.sampled_from([1, 1, 2, N])) for _ in shape]
        return build.tile(shape, times), tuple(mul(t, e) for t, e in zip(times, shape, strict=True))
    axis = draw(st.sampled_from([a for a, number_ in enumerate(fixed) if number_] or [-1]))
    if axis < 0:
        return identity(product(shape)), shape
    return build.roll(shape, axis, 1), shape


def at(m: Map, env: dict[Term, int]) -> Map:
    """The map with numbers put in."""
    if isinstance(m, FlatMap):
        return substitute(m, env)
    assert isinstance(m, TableMap)
    return with_numbers(m, env)


def numeric(spelling: Spelling, env: dict[Term, int]) -> Spelling:
    def put(shape: Shape) -> Shape:
        return tuple(value(e, env) for e in shape)

    steps: list[Step] = []
    for step in spelling.steps:
        match step:
            case Reshape():
                steps.append(Reshape(put(step.shape)))
            case Fill():
                steps.append(Fill(put(step.shape)))
            case Expand():
                steps.append(Expand(put(step.shape)))
            case Pad():
                steps.append(Pad(put(step.before), put(step.after)))
            case Slice():
                steps.append(Slice(put(step.starts), put(step.ends), step.steps, put(step.shape)))
            case _:
                steps.append(step)
    return Spelling(put(spelling.src_shape), tuple(steps))


ANY = st.fixed_dictionaries({n: st.integers(1, 4), m: st.integers(1, 4), o: st.integers(0, 4)})


@given(st.data(), ANY)
def test_symbols_agree_with_numbers(data: st.DataObject, env: dict[Term, int]) -> None:
    extents: list[Size] = [1, 2, 3, 4, 6, N, M, monomial(2, n), monomial(1, o)]
    shape = tuple(data.draw(st.lists(st.sampled_from(extents), min_size=1, max_size=4)))
    start, large = shape, all(v > 1 for v in env.values())
    whole: Map = identity(product(shape))
    expected: Map = at(whole, env)
    for _ in range(data.draw(st.integers(1, 4))):
        try:
            view, result = data.draw(symbolic_views(shape))
        except LayoutError:
            break
        step = compose_parts(whole, view)
        direct = compose_parts(expected, at(view, env))
        assert direct is not None
        if step is None:
            break
        assert np.array_equal(at(step.map, env).to_array(), direct.map.to_array())
        large = large and all(isinstance(e, int) or value(e, env) > 1 for e in result)
        if large:
            assert (step.outer_pads, step.inner_pads) == (direct.outer_pads, direct.inner_pads)
        whole, expected, shape = step.map, direct.map, result
    array = expected.to_array()
    back = inverse(whole)
    if is_bijective(whole):
        assert is_bijective(expected)
    assert back is None or np.array_equal(array[at(back, env).to_array()], np.arange(len(array)))
    assert not is_injective(whole) or is_injective(expected)
    core, layout = split_core(whole)
    joined = compose(at(core, env), at(layout, env))
    assert joined is not None and np.array_equal(joined.to_array(), array)
    spelling = spell(whole, start, shape)
    if spelling is not None:
        made = run_steps(numeric(spelling, env), np.arange(1, value(whole.n_in, env) + 1), -7)
        assert np.array_equal(made.reshape(-1), np.where(array >= 0, array + 1, -7))


ROWS = monomial(1, o)
FIRST = from_digits(total(ROWS, 2), [digit(total(ROWS, 2), 1, 0, 1)])
FROM_ONE = from_digits(total(ROWS, 2), [digit(total(ROWS, 2), 1, 1)])
UP_TO_ROWS = from_digits(total(ROWS, 2), [digit(total(ROWS, 5), 1, 0, ROWS)])


@pytest.mark.parametrize("size", range(4))
def test_windows_between_unknown_ends(size: int) -> None:
    """From 1 up to an extent that may be 0, in a box that has cells then, is no window of a digit: there it would end
    before it begins. What is one has the cells that there are in numbers."""
    read = digits_of((o + 5,), total(ROWS, 2), ax(0, o + 5), between(1, ax(0, o + 5), o))
    for m in (read, compose(FROM_ONE, UP_TO_ROWS)):
        expected = [k if 1 <= k < size else -1 for k in range(size + 5)]
        assert m is None or at(m, {o: size}).to_array().tolist() == expected
    first = compose(FIRST, UP_TO_ROWS)  # which has no valid cell where there are no rows
    assert first is None or at(first, {o: size}).to_array().tolist() == [
        0 if k < min(size, 1) else -1 for k in range(size + 5)
    ]
    known = digits_of((n + 2,), N, ax(0, n + 2), between(1, ax(0, n + 2), n))
    assert known is not None, "n is at least 1"
    assert (at(known, {n: size + 1}).to_array() >= 0).sum() == size


@pytest.mark.parametrize("step", [-1, 2])
def test_slices_that_may_have_no_cells(step: int) -> None:
    """Python counts a bound below 0 from the end: what has no cells must not be spelled as a slice that has some."""
    whole, length = (ROWS, clipped(total(ROWS, -3))) if step < 0 else (mul(2, ROWS), clipped(total(ROWS, -3)))
    m = build.crop((whole,), (0,), (mul(2, length) if step > 0 else length,))
    start = total(length, -1) if step < 0 else 0
    taken = build.slice_((mul(2, length) if step > 0 else length,), (start,), (length,), (step,))
    view = compose(m, taken)
    assert view is not None
    spelling = spell(view, (whole,), (length,))
    for size in range(7):
        expected = at(view, {o: size}).to_array()
        assert len(expected) == max(size - 3, 0)
        if spelling is not None:
            source = np.arange(value(whole, {o: size}))
            assert run_steps(numeric(spelling, {o: size}), source, -1).tolist() == expected.tolist()


def test_strides_of_unknown_sign_are_no_digits() -> None:
    assert digits_of((2,), total(N, 9), ax(0, 2) * (n - 3) + 2, TRUE) is None
    assert digits_of((2,), total(N, 9), ax(0, 2) * (n + 3) + 2, TRUE) is not None


def between(low: int, i: Term, high: Term) -> Term:
    return logical_and(compare("le", low, i), compare("lt", i, high))


def names(spelling: Spelling | None) -> list[str]:
    return [] if spelling is None else [type(step).__name__ for step in spelling.steps]


def test_a_symbolic_batch_is_as_good_as_a_number() -> None:
    """The usual views of a network with a batch of N compose, cancel and spell in digits."""
    image, channels_first = (N, 8, 8, 4), (N, 4, 8, 8)
    forth, back = build.permute(image, (0, 3, 1, 2)), build.permute(channels_first, (0, 2, 3, 1))
    assert compose(forth, back) == identity(monomial(256, n)) == compose(inverse(back) or back, back)
    assert names(spell(forth, image, channels_first)) == ["Transpose"]
    pad = build.pad(channels_first, (0, 0, 1, 1), (0, 0, 1, 1))
    assert names(spell(pad, channels_first, (N, 4, 10, 10))) == ["Pad"]
    assert compose(pad, build.crop((N, 4, 10, 10), (0, 0, 1, 1), channels_first)) == identity(pad.n_in)
    blocked = build.permute((N, 2, 2, 8, 8), (0, 1, 3, 4, 2))
    mixed = compose(forth, blocked)
    assert isinstance(mixed, FlatMap) and inverse(mixed) is not None
    assert names(spell(mixed, image, (N, 2, 8, 8, 2))) == ["Reshape", "Transpose"]
    aligned = align([("n", N), ("c", 4), ("h", 8), ("w", 8)], forth)
    assert aligned is not None and [p.label for p in aligned.pieces] == ["n", "h", "w", "c"]
    rolled = build.roll(image, 1, 3)
    assert compose(rolled, build.roll(image, 1, 5)) == identity(rolled.n_in)
    assert names(spell(rolled, image, image)) == ["Gather"]


def test_borders_of_unknown_sizes_are_digits() -> None:
    """Behind a transpose, around each other, cut off again: one map each."""
    last, first = (N, M, N, 3), (N, 3, M, N)
    around = build.pad(first, (0, 0, 1, 2), (0, 0, 3, 1))
    larger = (N, 3, total(M, 4), total(N, 3))
    behind = compose(build.permute(last, (0, 3, 1, 2)), around)
    assert isinstance(behind, FlatMap) and behind.valid_count == behind.n_in
    assert names(spell(behind, last, larger)) == ["Transpose", "Pad"]
    assert compose(around, build.crop(larger, (0, 0, 1, 2), first)) == identity(around.n_in)
    twice = compose(around, build.pad(larger, (0, 0, 1, 0), (0, 0, 0, 2)))
    assert twice == build.pad(first, (0, 0, 2, 2), (0, 0, 3, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: build.roll((N, 3), 0, 1),
        lambda: number(N),
        lambda: from_digits(N, [digit(N, 1)]).to_array(),
    ],
)
def test_what_is_not_one_term_is_an_error(make: Callable[[], object]) -> None:
    with pytest.raises(LayoutError):
        make()
