"""Flat maps with symbols: every answer, with numbers put in, is the answer for numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ir.errors import LayoutError
from eqsat.ir.flat import build as build
from eqsat.ir.flat.align import align
from eqsat.ir.flat.facts import inverse, is_bijective, is_injective, is_surjective, split_core
from eqsat.ir.flat.map import FlatMap, digit, from_digits, identity, substitute
from eqsat.ir.flat.ops import compose, compose_parts
from eqsat.ir.flat.sizes import Size, add, at_most, common, div, monomial, mul, number, product, value
from eqsat.ir.flat.spell import spell
from eqsat.ir.flat.steps import Expand, Fill, Pad, Reshape, Shape, Slice, Spelling, Step, run_steps
from eqsat.ir.flat.table import Map, TableMap
from eqsat.ir.flat.tabled import with_numbers
from eqsat.ir.terms.term import Term, sym

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
    quotient, total = div(a, b), add(a, b)
    assert quotient is None or value(quotient, env) * y == x
    assert total is None or value(total, env) == x + y
    assert not at_most(a, b) or x <= y
    shared = value(common(a, b), env)
    assert (x == y == 0) if shared == 0 else x % shared == 0 == y % shared
    assert (a == b) == (str(a) == str(b)) and (a != b or hash(a) == hash(b))


@st.composite
def symbolic_views(draw: st.DrawFn, shape: Shape) -> tuple[Map, Shape]:
    """One view of a tensor with symbolic extents; numbers are cut and padded, symbols moved, split and repeated."""
    fixed = [isinstance(e, int) for e in shape]
    kind = draw(st.sampled_from(["permute", "permute", "pad", "slice", "tile", "roll"]))
    if kind == "permute":
        axes = draw(st.permutations(range(len(shape))))
        return build.permute(shape, axes), tuple(shape[a] for a in axes)
    if kind == "pad":
        widths = [(draw(st.integers(0, 2)), draw(st.integers(0, 2))) if number_ else (0, 0) for number_ in fixed]
        m = build.pad(shape, [w[0] for w in widths], [w[1] for w in widths])
        return m, tuple(e + sum(w) if isinstance(e, int) else e for e, w in zip(shape, widths, strict=True))
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


@given(st.data(), VALUES)
def test_symbols_agree_with_numbers(data: st.DataObject, env: dict[Term, int]) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, N, M, monomial(2, n)]), min_size=1, max_size=4)))
    start = shape
    total: Map = identity(product(shape))
    expected: Map = at(total, env)
    for _ in range(data.draw(st.integers(1, 4))):
        try:
            view, result = data.draw(symbolic_views(shape))
        except LayoutError:
            break
        step = compose_parts(total, view)
        direct = compose_parts(expected, at(view, env))
        assert direct is not None
        if step is None:
            break
        assert np.array_equal(at(step.map, env).to_array(), direct.map.to_array())
        if all(v > 1 for v in env.values()):
            assert (step.outer_pads, step.inner_pads) == (direct.outer_pads, direct.inner_pads)
        total, expected, shape = step.map, direct.map, result
    array = expected.to_array()
    back = inverse(total)
    if is_bijective(total):
        assert is_bijective(expected)
    assert back is None or np.array_equal(array[at(back, env).to_array()], np.arange(len(array)))
    assert not is_injective(total) or is_injective(expected)
    assert not is_surjective(total) or is_surjective(expected)
    core, layout = split_core(total)
    joined = compose(at(core, env), at(layout, env))
    assert joined is not None and np.array_equal(joined.to_array(), array)
    spelling = spell(total, start, shape)
    if spelling is not None:
        made = run_steps(numeric(spelling, env), np.arange(1, value(total.n_in, env) + 1), -7)
        assert np.array_equal(made.reshape(-1), np.where(array >= 0, array + 1, -7))


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


@pytest.mark.parametrize(
    "make",
    [
        lambda: build.pad((N, 3), (1, 0), (1, 0)),
        lambda: build.flip((N, 3), (0,)),
        lambda: build.roll((N, 3), 0, 1),
        lambda: number(N),
        lambda: from_digits(N, [digit(N, 1)]).to_array(),
    ],
)
def test_what_is_not_one_term_is_an_error(make: Callable[[], object]) -> None:
    with pytest.raises(LayoutError):
        make()
