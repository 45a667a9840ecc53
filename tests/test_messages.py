"""Mistakes that new users make: each message names what was given, what is wrong, and what to write instead."""

from collections.abc import Callable

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.errors import EqsatError


def x() -> eq.Tensor:
    return eq.input("x", (2, 3, 4, 5), "float32")


CASES: list[tuple[Callable[[], object], str]] = [
    (lambda: eq.optimize("m.onnx"), r"is a path.*eq\.onnx\.optimize"),  # pyright: ignore[reportArgumentType]
    (lambda: eq.compile("m.onnx"), r"is a path.*eq\.onnx\.load"),  # pyright: ignore[reportArgumentType]
    (lambda: eq.optimize(np.zeros((3, 3))), r"an array float64\(3, 3\).*eq\.constant"),  # pyright: ignore[reportArgumentType]
    (lambda: eq.input("y", ("N", 2), "float32"), r"eq\.symbol\('N'\)"),
    (lambda: eq.Program([x()], [x()]), r'outputs=\{"y": y\}'),  # pyright: ignore[reportArgumentType]
    (lambda: eq.prove("4*io + ii < 14", {"oi": 4, "ii": 4}), r"range of 'oi'.*does not occur.*'io' was meant"),
    (lambda: eq.decide("i < 2", {"j": 4}), r"range of 'j'.*'i' was meant"),
    (lambda: eq.simplify("i // 2 * 2", {"j": 4}), r"range of 'j'.*'i' was meant"),
    (lambda: eq.explain("i + 0", "i", {"j": 4}), r"range of 'j'.*'i' was meant"),
    (lambda: eq.optimize(x().relu(), growth=-1), r"growth=-1"),
    (lambda: eq.Limits(seconds=-1), r"seconds=-1.*a number from 0"),
    (lambda: np.asarray(x()), r"eq\.evaluate"),
]


@pytest.mark.parametrize(("mistake", "said"), CASES)
def test_a_mistake_is_explained(mistake: Callable[[], object], said: str) -> None:
    with pytest.raises(EqsatError, match=said):
        mistake()


def test_ranges_of_names_that_fold_away_or_are_not_needed_are_no_mistake() -> None:
    assert eq.prove("i < 4", {"i": 4, "other": 3}) and eq.prove("0*y + i < 4", {"y": 8, "i": 4})
    assert eq.decide("i < 4", {"nothing": 0}) == "always", "an empty range leaves no point"


def test_axes_one_after_the_other_as_numpy_takes_them() -> None:
    assert x().permute_dims(0, 2, 3, 1).shape == x().permute_dims((0, 2, 3, 1)).shape == (2, 4, 5, 3)


def test_methods_that_are_looked_for_in_the_package() -> None:
    with pytest.raises(AttributeError, match=r"x\.relu\(\)"):
        _ = eq.relu  # pyright: ignore


@pytest.mark.onnx
def test_what_is_no_model() -> None:
    pytest.importorskip("onnx")
    with pytest.raises(EqsatError, match=r"a Tensor: is not a path or a ModelProto.*eq\.optimize"):
        eq.onnx.optimize(x())  # pyright: ignore[reportArgumentType]
