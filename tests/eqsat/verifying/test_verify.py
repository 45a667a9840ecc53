"""Refinement: proved by normal forms and rules, refuted by inputs."""

from __future__ import annotations

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.tensor import Program, input
from eqsat.ir.terms.holes import UNDEF
from eqsat.verifying.verify import verify

X = input("x", (8, 8), "float32")
LARGE = input("large", (600, 600), "float32")  # more cells than are unfolded


@pytest.mark.smoke
def test_cells_prove() -> None:
    proof = verify(X.permute_dims((1, 0)).relu().permute_dims((1, 0)), X.relu())
    assert proof.verdict == "proved" and proof.method == "cell by cell"


def test_normal_forms_prove() -> None:
    proof = verify(LARGE.permute_dims((1, 0)).relu().permute_dims((1, 0)), LARGE.relu())
    assert proof.verdict == "proved" and proof.method == "normal form"


def test_rules_prove() -> None:
    proof = verify(LARGE.pad(2).relu().crop((2, 2), (600, 600)), LARGE.relu())
    assert proof.verdict == "proved" and proof.method == "e-graph"


def test_an_input_refutes() -> None:
    proof = verify(X.permute_dims((1, 0)), X.reshape((8, 8)))
    assert proof.verdict == "refuted" and proof.witness is not None and "x" in proof.witness
    assert verify(X.pad(1, 0.0), X.pad(1, -0.0)).verdict == "refuted"


def test_positions_by_data() -> None:
    """A position in a tensor is clamped: a minimum and a maximum of indices, of which none is the least."""
    places = input("places", (3,), "int64")
    assert verify(X[places], X[places].T.T).verdict == "proved"
    assert verify(X[:, places], X.T[places].T).verdict == "proved"
    assert verify(X[places], X[places][::-1]).verdict == "refuted"


@pytest.mark.parametrize("size", [1, 2, 5, 12, 40])
def test_special_values_come_to_every_cell(size: int) -> None:
    """Of inputs with fewer cells than there are special values, and of others."""
    x, i = eq.input("x", (size,), "float32"), eq.input("i", (size,), "int16")
    for special in (np.nan, np.inf, -np.inf, np.finfo("float32").max):
        found = eq.isnan(x) if special != special else eq.equal(x, special)
        last = x[size - 1 :]
        changed = eq.concatenate([x[: size - 1], eq.where(found[size - 1 :], 1.0, last)])
        assert eq.verify(changed, x).verdict == "refuted", special
    assert eq.verify(eq.where(eq.equal(i, -(1 << 15)), i, -i), -i).verdict != "refuted"
    assert eq.verify(eq.where(eq.equal(i, (1 << 15) - 1), i, -i), -i).verdict == "refuted"


def test_what_is_equal_but_not_by_our_rules_is_unknown() -> None:
    assert verify(X + X, X * 2.0).verdict == "unknown"


# feature: E2
def test_holes_may_be_filled_but_not_assumed() -> None:
    cropped = X.crop((0, 0), (3, 3))
    assert verify(cropped.pad(((0, 5), (0, 5)), UNDEF), X).verdict == "proved"
    assert verify(X, cropped.pad(((0, 5), (0, 5)), UNDEF)).verdict != "proved"
    assert verify(cropped.pad(((0, 5), (0, 5)), 0.0), X).verdict == "refuted"


def test_interfaces_must_agree() -> None:
    with pytest.raises(EqsatError, match="outputs"):
        verify(Program([X], {"a": X}), Program([X], {"b": X}))
    with pytest.raises(EqsatError, match="output 'out'"):
        verify(X, X.reshape((64,)))


@pytest.mark.parametrize("rank", [33, 60])
def test_programs_of_many_axes(rank: int) -> None:
    """Numpy broadcasts over 32 axes at most, but its arrays have up to 64."""
    x = eq.input("x", (*(1,) * (rank - 2), 2, 3), "float32")
    turned = tuple(reversed(range(rank)))
    y = (x.permute_dims(turned) + 1.0).permute_dims(turned)
    assert eq.verify(y, x + 1.0).verdict == "proved"
    assert eq.verify(y, x + 2.0).verdict == "refuted"


@pytest.mark.parametrize("rank", [63, 64, 70])
def test_programs_of_more_axes_than_numpy_has_are_not_run(rank: int) -> None:
    """They ended in numpy's errors."""
    x = eq.input("x", (*(1,) * (rank - 1), 3), "float32")
    turned = tuple(reversed(range(rank)))
    y = x.permute_dims(turned).permute_dims(turned)
    assert eq.verify(y, x).verdict == "proved"
    found = eq.verify(y, x.relu())
    assert found.verdict == "unknown" and "62 axes" in found.note
