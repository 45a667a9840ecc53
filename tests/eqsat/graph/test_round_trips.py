"""What a chain of element-wise operators gives back is not computed: quantised numbers that go to floats and back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray

SHAPE = (2, 3, 4)
VIEWS: dict[str, Callable[[eq.Tensor], eq.Tensor]] = {
    "as it is": lambda x: x,
    "turned": lambda x: x.permute_dims((2, 0, 1)).reshape((4, 6)),
    "cut": lambda x: x[:, :2].flip((2,)),
    "strided": lambda x: x[:, ::2].reshape((4, 4)),
    "copied": lambda x: eq.broadcast_to(x.reshape((2, 3, 1, 4)), (2, 3, 5, 4)),
}


def floats(x: eq.Tensor, scale: float, zero: int) -> eq.Tensor:
    return (x.cast("int32") - zero).cast("float32") * np.float32(scale)


def quantised(x: eq.Tensor, scale: float, zero: int, dtype: str) -> eq.Tensor:
    return ((x / np.float32(scale)).round() + np.float32(zero)).cast(dtype)


def is_gone(program: eq.Tensor, values: NDArray) -> bool:
    """Whether nothing is computed any more; the result is the same numbers in any case."""
    found = eq.optimize(program)
    assert not found.notes
    with np.errstate(all="ignore"):
        before, after = (eq.evaluate(p, {"x": values}) for p in (program, found.program))
    np.testing.assert_array_equal(after, before)
    return not any(word in str(found.program) for word in ("cast", "mul", "div", "round"))


# feature: I3
@pytest.mark.parametrize(("view", "dtype"), list(zip(VIEWS, ("uint8", "int8", "int16", "uint8", "int8"), strict=True)))
def test_what_is_quantised_again_by_the_same_numbers_is_itself(view: str, dtype: str) -> None:
    x = eq.input("x", SHAPE, dtype)
    values = np.random.default_rng(5).integers(0, 120, SHAPE).astype(dtype)
    assert is_gone(quantised(VIEWS[view](floats(x, 0.1, 3)), 0.1, 3, dtype), values)


AGAIN: list[Callable[[eq.Tensor], eq.Tensor]] = [
    lambda x: quantised(floats(x, 0.1, 3), 0.1, 4, "uint8"),
    lambda x: quantised(floats(x, 0.1, 3), 0.11, 3, "uint8"),
    lambda x: quantised(floats(x, 0.1, 3), 0.1, 3, "int8"),  # saturates
    lambda x: quantised(floats(x, 1e-44, 3), 1e-44, 3, "uint8") + np.uint8(0) * x,
    lambda x: quantised(floats(x, 0.1, 3).relu(), 0.1, 3, "uint8"),
    lambda x: quantised(floats(x, 0.1, 3).pad(((0, 0), (1, 1), (0, 0)), 0.0), 0.1, 3, "uint8"),
    lambda x: quantised(floats(x, 0.1, 3) + floats(x, 0.1, 3), 0.1, 3, "uint8"),
    lambda x: quantised(floats(x, 0.1, 3) * eq.constant(np.ones((3, 1), "float32") * 2), 0.1, 3, "uint8"),
]


@pytest.mark.parametrize("again", AGAIN)
def test_other_numbers_stay(again: Callable[[eq.Tensor], eq.Tensor]) -> None:
    values = np.arange(24, dtype="uint8").reshape(SHAPE) * 10
    assert not is_gone(again(eq.input("x", SHAPE, "uint8")), values)


def test_any_chain_that_gives_back_what_it_got() -> None:
    x = eq.input("x", SHAPE, "int8")
    values = np.arange(-12, 12, dtype="int8").reshape(SHAPE)
    assert is_gone(((x.cast("float32") * 2.0).permute_dims((1, 0, 2)) * 0.5).cast("int8"), values)
    assert is_gone((5 - (5 - x.cast("int32"))).cast("int8"), values)
    assert not is_gone((x.cast("float32") * 2.0).permute_dims((1, 0, 2)).cast("int8"), values)


def test_random_scales() -> None:
    """Whatever the scale is: where a trial of all numbers says so, and only there."""
    rng = np.random.default_rng(11)
    values = rng.integers(0, 256, SHAPE).astype("uint8")
    x = eq.input("x", SHAPE, "uint8")
    for k in range(10):
        scale = float(np.float32(2.0 ** rng.uniform(-150, 125)))
        zero = int(rng.integers(0, 256))
        program = quantised(floats(x, scale, zero), scale, zero, "uint8")
        with np.errstate(all="ignore"):
            everything = eq.evaluate(
                quantised(floats(eq.input("x", (256,), "uint8"), scale, zero), scale, zero, "uint8"),
                {"x": np.arange(256, dtype="uint8")},
            )
        assert is_gone(program, values) == bool(np.array_equal(everything, np.arange(256))), (k, scale, zero)


def test_a_part_that_is_left_is_called_a_slice() -> None:
    x = eq.input("x", SHAPE, "uint8")
    found = eq.optimize(quantised(floats(x, 0.1, 3)[:, :2], 0.1, 3, "uint8"))
    assert "slice x" in str(found.program) and "permute" not in str(found.program)
