"""Spellings run to what the map says, in the fewest steps on known cases; labels align; symbols agree with numbers."""

from __future__ import annotations

from math import prod

import flat_build as build
import numpy as np
import pytest
from flat_steps import run_steps, spelled_cost
from flat_strategies import Chain, chains, digit_maps, reshapes
from hypothesis import assume, given
from hypothesis import strategies as st

from eqsat.ir.errors import EqsatError
from eqsat.ir.flat.align import align
from eqsat.ir.flat.facts import inverse, is_bijective
from eqsat.ir.flat.map import FlatMap, digit, from_digits, identity
from eqsat.ir.flat.ops import compose
from eqsat.ir.flat.sizes import number
from eqsat.ir.flat.spell import spell
from eqsat.ir.flat.steps import Reshape, Spelling, Step, Transpose
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.tabled import from_array


def names(spelling: Spelling | None) -> list[str]:
    assert spelling is not None
    return [type(step).__name__ for step in spelling.steps]


def check(m: Map, src: tuple[int, ...] | None, dst: tuple[int, ...] | None) -> Spelling:
    spelling = spell(m, src, dst)
    assert spelling is not None
    source = np.arange(1, number(m.n_in) + 1)
    result = run_steps(spelling, source, -7)
    array = m.to_array()
    assert result.shape == ((number(m.n_out),) if dst is None else dst) == spelling.dst_shape
    assert np.array_equal(result.reshape(-1), np.where(array >= 0, array + 1, -7))
    return spelling


@given(chains(), st.data())
def test_spelling_of_view_chains(chain: Chain, data: st.DataObject) -> None:
    m = from_array(chain.result, prod(chain.shape))
    shape = chain.result.shape
    bare = check(m, None, None)
    cost = spelled_cost(bare, 4)
    assert spelled_cost(check(m, chain.shape, shape), 4) <= cost
    assert spelled_cost(check(m, data.draw(reshapes(chain.shape)), data.draw(reshapes(shape))), 4) <= cost
    if is_bijective(m) and isinstance(m, FlatMap) and all(number(d.stride) > 0 for d in m.digits):
        assert cost == (0 if m.is_identity else 8 * number(m.n_out))
        assert [type(s) for s in bare.steps] in ([], [Reshape, Transpose, Reshape])


@given(digit_maps())
def test_spelling_of_any_digit_map(m: FlatMap) -> None:
    check(m, None, None)


B, H, W, C = 2, 6, 8, 3


@pytest.mark.parametrize(
    ("m", "src", "dst", "steps", "cells"),
    [
        (build.permute((1, H, W, C), (0, 3, 1, 2)), (1, H, W, C), (1, C, H, W), ["Transpose"], 2 * H * W * C),
        (build.permute((B, H, W, C), (0, 3, 1, 2)), (B, H, W, C), (B, C, H, W), ["Transpose"], 2 * B * H * W * C),
        (build.permute((B, H, W, C), (0, 3, 1, 2)), (B, H * W, C), (B, C, H, W), ["Transpose", "Reshape"], 288 * 2),
        (build.permute((B, H, W, C), (0, 3, 1, 2)), None, (B, C, H, W), ["Reshape", "Transpose"], 288 * 2),
        (build.permute((B, 4, 4, H), (0, 1, 3, 2)), (B, 16, H), (B, 4, H, 4), ["Reshape", "Transpose"], 192 * 2),
        (build.permute((1, 5, 1), (1, 0, 2)), (1, 5, 1), (5, 1, 1), ["Reshape"], 0),
        (build.pad((B, C, H, W), (0, 0, 1, 1), (0, 0, 1, 1)), (B, C, H, W), (B, C, 8, 10), ["Pad"], 288 + 480),
        (build.crop((B, C, H, W), (0, 0, 1, 1), (B, C, 4, 6)), (B, C, H, W), (B, C, 4, 6), ["Slice"], 2 * 144),
        (build.flip((B, C), (0, 1)), (B, C), (B, C), ["Slice"], 12),
        (build.slice_((9, 8), (7, 0), (3, 4), (-3, 2)), (9, 8), (3, 4), ["Slice"], 24),
        (build.broadcast((C, 1, 1), (B, C, H, W)), (C, 1, 1), (B, C, H, W), ["Reshape", "Expand"], 3 + 288),
        (build.roll((B, 7, C), 1, 2), (B, 7, C), (B, 7, C), ["Gather"], 2 * 42),
        (build.take((B, 3, C), 1, [2, -1, 0, 1, 1]), (B, 3, C), (B, 5, C), ["Gather", "Mask"], 4 * 30),
        (build.pad((0, 3), (1, 0), (1, 0)), (0, 3), (2, 3), ["Fill"], 0),
        (identity(12), (3, 4), (4, 3), ["Reshape"], 0),
        (identity(12), (3, 4), (3, 4), [], 0),
        (from_digits(10, [digit(4, 1), digit(2, 4)]), (10,), (4, 2), ["Slice", "Reshape", "Transpose"], 32),
        (from_digits(9, [digit(3, 2), digit(3, 1)]), (9,), (3, 3), ["Gather", "Reshape"], 18),
    ],
)
def test_known_spellings(
    m: Map, src: tuple[int, ...] | None, dst: tuple[int, ...] | None, steps: list[str], cells: int
) -> None:
    spelling = check(m, src, dst)
    assert (names(spelling), spelled_cost(spelling, 1)) == (steps, cells)


def test_slice_first_pad_last() -> None:
    """Crop, transpose and pad in any order of the program: one slice, one transpose, one pad, at the smallest sizes."""
    padded = build.pad((H, W, C), (1, 1, 0), (1, 1, 0))
    moved = compose(padded, build.permute((H + 2, W + 2, C), (2, 0, 1)))
    assert moved is not None
    cropped = compose(moved, build.crop((C, H + 2, W + 2), (1, 0, 0), (1, H + 2, W + 2)))
    assert cropped is not None
    spelling = check(cropped, (H, W, C), (1, H + 2, W + 2))
    assert names(spelling) == ["Slice", "Reshape", "Pad"]
    assert spelled_cost(spelling, 1) == 2 * H * W + H * W + (H + 2) * (W + 2)


LABELS = st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=4).filter(lambda e: prod(e) <= 400)


@given(LABELS, st.data())
def test_align_absorbs_a_layout(extents: list[int], data: st.DataObject) -> None:
    """x indexed by the pieces is the view of x indexed by the labels."""
    shape = data.draw(reshapes(tuple(extents)))
    labels = list(zip("abcd", extents, strict=False))
    m = build.permute(shape, data.draw(st.permutations(range(len(shape)))))
    back = inverse(m)
    assert back is not None
    found = align(labels, back if data.draw(st.booleans()) else m)
    direct = align(labels, m)
    if direct is None:
        assume(False)
        return
    assert found is None or len(found.splits) == len(labels)
    at = dict(zip("abcd", np.indices(extents), strict=False))
    x = np.random.default_rng(0).permutation(prod(extents)).reshape([number(p.extent) for p in direct.pieces])
    index = tuple(at[p.label] // number(p.stride) % number(p.extent) for p in direct.pieces)
    read = x[index] if index else x.reshape(extents)
    assert np.array_equal(read.reshape(-1), x.reshape(-1)[m.to_array()])
    for label, extent in labels:
        pieces = sorted((number(p.stride), number(p.extent)) for p in direct.pieces if p.label == label)
        split = dict(direct.splits)[label]
        assert prod(number(e) for e in split) == extent and [e for _, e in reversed(pieces)] == list(split)


def test_align_refuses_straddling_and_reversal() -> None:
    assert align([("a", 3), ("b", 4)], build.permute((4, 3), (1, 0))) is not None
    assert align([("a", 3), ("b", 4)], build.permute((3, 4), (1, 0))) is None
    assert align([("a", 3), ("b", 4)], build.flip((3, 4), (0,))) is None
    assert align([("a", 3), ("b", 4)], build.roll((3, 4), 0, 1)) is None
    split = align([("a", 12)], build.permute((3, 4), (1, 0)))
    assert split is not None and split.splits == (("a", (4, 3)),)


def test_spell_checks_shapes() -> None:
    with pytest.raises(EqsatError):
        spell(identity(12), (3, 5), (12,))
    assert isinstance(Transpose((1, 0)), Step)
