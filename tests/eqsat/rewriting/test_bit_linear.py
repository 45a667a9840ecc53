"""Forms of terms that are linear over bits, against the values at all points."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import dag_size
from eqsat.rewriting.bit_linear import MOST_PIECES, by_bits

WIDTHS = {t.var("i"): 5, t.var("j"): 3}


def _random_term(rng: Random, depth: int) -> Term:
    if depth == 0:
        return rng.choice(list(WIDTHS)) if rng.random() < 0.9 else t.index_const(rng.randrange(16))
    a = _random_term(rng, depth - 1)
    power = 1 << rng.randrange(1, 4)
    match rng.randrange(5):
        case 0:
            return a // power
        case 1:
            return a % power
        case 2:
            return a % power * power + _random_term(rng, depth - 1) % power
        case _:
            return t.binary("bitxor", a, _random_term(rng, depth - 1))


def _values(term: Term) -> list[int]:
    i, j = (np.arange(1 << width) for width in WIDTHS.values())
    env = dict(zip(WIDTHS, (i[:, None], j[None, :]), strict=True))
    value, bad = evaluate_masked([term], env, None)[0]
    assert bad is None
    return np.broadcast_to(value, (len(i), len(j))).ravel().tolist()


def test_random_forms_have_the_same_values() -> None:  # feature: A13
    rng = Random(1)
    found = 0
    for _ in range(400):
        term = _random_term(rng, 4)
        form = by_bits(term, WIDTHS.get)
        if form is not None:
            found += 1
            assert _values(form) == _values(term), (str(term), str(form))
            again = by_bits(form, WIDTHS.get)
            assert again is not None and dag_size(again) <= dag_size(form)
    assert found > 300


@pytest.mark.parametrize("bits", [1, 2, 5, 30, 62])
def test_the_inverse_of_a_gray_code_cancels(bits: int) -> None:  # feature: A13, A17
    i = t.var("i")
    there = t.binary("bitxor", i, i // 2)
    back, shift = there, 1
    while shift < bits:
        back, shift = t.binary("bitxor", back, back // (1 << shift)), 2 * shift
    assert by_bits(back, {i: bits}.get) is i


def test_what_is_not_linear_or_takes_many_bits_has_none() -> None:
    i, j = WIDTHS
    assert by_bits(t.binary("bitxor", i * j, j), WIDTHS.get) is None
    assert by_bits(t.binary("bitxor", i, t.var("k")), WIDTHS.get) is None
    wide = t.var("w")
    scattered = t.linear(0, [(1 << 2 * k, wide // (1 << k) % 2) for k in range(MOST_PIECES + 1)])
    assert by_bits(scattered, {wide: MOST_PIECES + 1}.get) is None
