"""Formulas for inverses: which maps have one, how it reads, and that large boxes are solved without trying points."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest
from map_oracle import disagreements

from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.points import values_on
from eqsat.ir.terms import term as t
from eqsat.ir.terms.tables import table_load
from eqsat.maps import problem as map_problem

# map, shape, inverse, padding (None: whatever it is)
FORMULAS = [
    # nested // and %: rotations inside of blocks
    ("i -> i//4*4 + (i + i//4)%4", (69,), "p -> p//4*4 + (p - p//4)%4", None),
    ("i -> (i//4%8)*4 + (i + i//32)%4 + i//32*32", (7440,), "p -> p//4*4 + (p - p//32)%4", None),
    ("i -> i//32*32 + (i//4 + i%4)%8*4 + i%4", (128,), "p -> p//32*32 + (p//4 - p%4)%8*4 + p%4", "False"),
    ("i -> i//8*8 + ((i%8) ^ (i//8%8))", (100,), "p -> p//8*8 + ((p%8) ^ (p//8%8))", None),
    # multiplication modulo a number, of digits and of fused axes
    ("i -> (19*i + 4)%1363//2, (19*i + 4)%1363%2", (1363,), "p, q -> 287*(2*p + q - 4)%1363", "1363 <= 2*p + q"),
    ("i -> (7*i)%30//5, (7*i)%5", (30,), "p, q -> 13*(5*p + q)%30", "False"),
    ("i, j, k -> (603*i + 2*j + k)%2412, 387-k", (4, 302, 388), None, None),
    ("i, j -> i, j*(2*i + 1)%16", (29, 16), None, "False"),
    ("i, j -> i, (j + 1)*(2*i + 3)", (5, 6), "p, q -> p, q//(2*p + 3) - 1", None),
    # skews and other linear systems
    ("i, j -> i + j, i - j + 12", (47, 13), "p, q -> (p + q)//2 - 6, (p - q)//2 + 6", None),
    ("i, j -> (i + j)%13, (i + 3*j)%13", (13, 13), "p, q -> (8*p + 6*q)%13, (6*p + 7*q)%13", "False"),
    ("i, j -> (i + j)%48, (4*j + i)%2", (48, 2), "p, q -> (p - (p + q)%2)%48, (p + q)%2", "False"),
    ("i, j -> 3*j + 2*i", (3, 8), "p -> 2*p%3, (p - 2*p%3*2)//3", None),
    # xor with other axes and with digits; Gray codes
    ("i, j -> i, ((j//4) ^ (i%8))*4 + j%4", (40, 64), "p, q -> p, q ^ (p%8*4)", None),
    ("i, j -> i ^ j, j", (30, 50), "p, q -> p ^ q, q", None),
    ("i -> i ^ (i >> 1)", (1024,), "p -> p ^ p//2 ^ (p ^ p//2)//4 ^ (p ^ p//2 ^ (p ^ p//2)//4)//16 "
        "^ (p ^ p//2 ^ (p ^ p//2)//4 ^ (p ^ p//2 ^ (p ^ p//2)//4)//16)//256", "False"),
    ("i -> (i ^ (i >> 1))//6, (i ^ (i >> 1))%6", (1000,), None, None),
    ("i -> (i >> 3 & 1) | (i >> 2 & 1) << 1 | (i >> 1 & 1) << 2 | (i & 1) << 3", (16,), None, "False"),
    # residues: prime to each other or not
    ("i -> i%16, i%15, i%9", (719,), "p, q, r -> (225*p + 576*q + 640*r)%720", None),
    ("i -> 23*i%15, 23*i%10", (30,), "p, q -> 17*(10*p + 21*q)%30", None),
    ("i -> i//7, i%8", (563,), "p, q -> 7*p + (p + q)%8", None),
    ("i, j -> (i*100 + j)//7%10, (i*100 + j)//70, (i*100 + j)%7", (9, 100),
        "p, q, r -> (7*p + 70*q + r)//100, (7*p + 70*q + r)%100", None),
    # pieces
    ("i -> where(i < 9, i + 3, i - 9)", (12,), "p -> where(p < 3, p + 9, p - 3)", "False"),
    ("i -> where(i < 10, i, i + 3)", (16,), "p -> where(p < 10, p, p - 3)", "10 <= p and p < 13"),
    ("i -> where(i%2 == 0, i//2, 5 + i//2)", (10,), "p -> where(p < 5, 2*p, 2*p - 9)", "False"),
    ("i, j -> i, where(i%2 == 0, j, 15 - j)", (17, 16), "p, q -> p, where(p%2 == 0, q, 15 - q)", "False"),
    ("i, j -> where(i < 3, i, i - 3), where(i < 3, j, j + 37)", (8, 37),
        "p, q -> where(q < 37, p, p + 3), where(q < 37, q, q - 37)", "3 <= p and q < 37"),
    ("i, j -> maximum(i, j) - minimum(i, j), minimum(i, j), j", (8, 7), "p, q, r -> where(q == r, p + q, q), r", None),
    ("i -> abs(i - 17), i", (21,), "p, q -> q", "abs(q - 17) != p"),
    ("i -> 2*abs(i - 43) + where(i < 43, 1, 0)", (80,), None, None),
    # sparse images, far beyond what could be tried cell by cell
    ("i -> i, i, i", (40_000,), "p, q, r -> p", "p != q or p != r"),
    ("i -> i*1000003 + 17", (5000,), "p -> (p - 17)//1000003", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "shape", "expected", "padding"), FORMULAS)
def test_inverse_is_a_formula(
    text: str, shape: tuple[int, ...], expected: str | None, padding: str | None
) -> None:  # feature: A8 A10 A13
    m = IndexMap.parse(text)
    inverse, marks = m.non_surjective_inverse(shape)
    assert not inverse.is_table and list(disagreements(m, shape, Random(0))) == []
    names = [str(p) for p in inverse.inputs]
    if expected is not None:
        back = m.then(IndexMap.parse(expected))
        assert back.is_identity(shape) and len(str(inverse)) < 2 * len(expected) + 20
    if padding is not None:
        for short, name in zip("pqr", names, strict=False):
            padding = re.sub(rf"\b{short}\b", name, padding)
        assert str(marks) == padding


def test_a_table_inside_is_inverted_by_a_table_inside() -> None:  # feature: A13
    i = t.var("i")
    m = IndexMap(("i",), (i // 4, table_load(np.array([2, 0, 3, 1]), i % 4)))
    inverse, padding = m.non_surjective_inverse((15,))
    assert inverse.is_table and list(disagreements(m, (15,), Random(0))) == []
    assert len(str(inverse)) < 40 and str(padding).startswith("15 <= ")


LARGE: list[tuple[str, tuple[int, ...]]] = [
    ("n, c, h, w -> n, c//16, h, w, c%16", (64, 64, 224, 224)),
    ("n, c, h, w -> (n*64 + c)//128, h*224 + w, (n*64 + c)%128//4, c%4", (64, 64, 224, 224)),
    ("a, b -> (a%65536)*4 + b%4, a//65536, b//4", (1 << 30, 1 << 30)),
    ("i -> i//4*4 + (i + i//4)%4", (10**12 + 3,)),
    ("i, j -> i, (i + j)%1000003", (10**6, 1000003)),
    ("i -> i*2654435761 % 4294967296", (1 << 32,)),
    ("i -> i ^ (i >> 1)", (1 << 40,)),
    ("i -> i ^ (i >> 7) ^ (i >> 13)", (10**12,)),
    ("i, j -> i, ((j//8) ^ (i%1024))*8 + j%8", (10**9, 1 << 30)),
    ("i -> where(i < 5*10**11, i + 5*10**11, i - 5*10**11)".replace("5*10**11", "500000000000"), (10**12,)),
    ("i -> i%65537, i%65536, i%3", (65537 * 65536 * 3 - 7,)),
    ("i -> (i + 2)//8, (i + 2)%8", (10**15,)),
]


@pytest.mark.parametrize(("text", "shape"), LARGE)
def test_large_boxes_are_not_enumerated(
    text: str, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:  # feature: A8 A10 A13
    def few(terms: Sequence[t.Term], variables: Sequence[t.Term], extents: Sequence[int]) -> Any:
        assert prod(extents) <= map_problem.FEW_POINTS, "a large box was enumerated"
        return values_on(terms, variables, extents)

    monkeypatch.setattr(map_problem, "values_on", few)
    m = IndexMap.parse(text)
    assert m.is_injective(shape)
    inverse, padding = m.non_surjective_inverse(shape)
    declared = m.map_shape(shape)
    rng = Random(text)
    for _ in range(50):
        point = tuple(rng.randrange(n) for n in shape)
        cell = m.map_indices(point)
        assert inverse.map_indices(cell) == point
        assert not padding.evaluate(dict(zip(map(str, inverse.inputs), cell, strict=True)))
        cell = tuple(rng.randrange(int(str(n))) for n in declared)
        back = inverse.map_indices(cell)
        reached = all(0 <= c < n for c, n in zip(back, shape, strict=True)) and m.map_indices(back) == cell
        assert bool(padding.evaluate(dict(zip(map(str, inverse.inputs), cell, strict=True)))) != reached
    proof = m.is_bijective(shape)
    size, cells = np.prod([float(n) for n in shape]), np.prod([float(str(n)) for n in declared])
    assert proof.verdict == ("proved" if size == cells else "refuted")


def test_xor_maps_of_any_size_by_rank() -> None:  # feature: A13
    """A singular map of bits is refuted with two points, however large it is."""
    m = IndexMap.parse("i -> (i ^ (i >> 1)) & 1099511627774")
    proof = m.is_injective((1 << 40,))
    assert proof.verdict == "refuted" and proof.witness is not None
    first, second = (tuple(proof.witness[k].values()) for k in ("first", "second"))
    assert first != second and m.map_indices(first) == m.map_indices(second)


def test_extents_of_xors_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:  # feature: A9
    """Read off the bits, over boxes whose sizes are no powers of two, too; without points and prover."""
    rng = Random(9)
    i, j = t.var("i"), t.var("j")
    terms = [i >> 1, i >> 3, i % 8 * 4, i // 4 % 4, i, j, j << 2, j >> 1, t.index_const(37)]
    cases: list[tuple[IndexMap, tuple[int, int], int]] = []
    for _ in range(60):
        shape = rng.randrange(1, 200), rng.randrange(1, 60)
        term = i
        for other in rng.sample(terms, 3):
            term = term ^ other
        (values,) = values_on([term], [i, j], shape) or [np.zeros(0)]
        cases.append((IndexMap(("i", "j"), (term,)), shape, int(values.max()) + 1))

    def refuse(*_: Any) -> Any:
        raise AssertionError

    for name in ("decider", "_enumerated"):
        monkeypatch.setattr(f"eqsat.ir.layouts.map_extent.{name}", refuse)
    assert [m.map_shape(shape) for m, shape, _ in cases] == [(extent,) for _, _, extent in cases]
    assert IndexMap.parse("i -> i ^ (i >> 7) ^ (i >> 13)").map_shape((10**12,)) == (1005022347264,)
