"""`eq.jit`: what it makes of functions, and that it reads arrays where they lie."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

import array
import copy
import pickle
import threading
from typing import Any, NamedTuple

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, TypeMismatch
from eqsat.tracing.arguments import spec_of
from eqsat.tracing.jit import Jitted

IMAGE = np.random.default_rng(0).integers(0, 255, (6, 8, 3)).astype("uint8")


@eq.jit
def prepared(image: Any, mean: Any, scale: float = 255) -> Any:
    """Normalised, channels first."""
    return ((image / scale - mean) * 2).transpose(2, 0, 1)


def expected(image: NDArray, mean: NDArray, scale: float = 255) -> NDArray:
    return ((image / scale - mean) * 2).transpose(2, 0, 1)


MEAN = np.array([0.1, 0.2, 0.3])
LAYOUTS = {
    "dense": IMAGE,
    "flipped": IMAGE[::-1],
    "every second": IMAGE[:, ::2],
    "transposed": IMAGE.transpose(1, 0, 2),
    "all backwards": IMAGE[::-2, ::-1, ::-1],
    "repeated": np.broadcast_to(IMAGE[:1], IMAGE.shape),
    "part": IMAGE[2:5],
    "fortran": np.asfortranarray(IMAGE),
    "inner part": IMAGE[1:-1, 2:-2, 1:],
    "no cells": IMAGE[:0],
    "one": IMAGE[:1, :1],
    "swapped bytes": IMAGE.astype(">i4"),
    "unaligned": np.frombuffer(b"x" + IMAGE.astype("i4").tobytes(), "i4", offset=1),
}


NEAR = {"every second", "one", "part"}  # to others, which are in every run


@pytest.mark.parametrize("layout", [pytest.param(n, marks=pytest.mark.slow) if n in NEAR else n for n in LAYOUTS])
def test_any_memory(layout: str) -> None:
    a = LAYOUTS[layout]
    a = a.reshape(IMAGE.shape) if a.ndim == 1 else a
    before, mean = a.copy(), MEAN[: len(a.T)]
    np.testing.assert_allclose(prepared(a, mean), expected(a, mean))
    np.testing.assert_array_equal(a, before)


@pytest.mark.parametrize("layout", [n for n in LAYOUTS if n not in ("swapped bytes", "unaligned")])
def test_nothing_is_copied(layout: str) -> None:
    a = LAYOUTS[layout]
    _, memory = spec_of(a)
    assert np.shares_memory(a, memory) or not a.size
    own = {low <= memory.__array_interface__["data"][0] <= high for low, high in [np.lib.array_utils.byte_bounds(a)]}
    assert own == {True} or not a.size


def test_buffers_dlpack_and_structures() -> None:
    @eq.jit
    def f(pair: Any, options: Any) -> Any:
        a, b = pair
        return {"sum": a.sum() + options["k"], "parts": (a + 1, [b * 2, None]), "shape": "text"}

    found = f((array.array("f", [1, 2, 3]), memoryview(b"ab")), {"k": np.array(5)})
    assert found["sum"] == 11 and found["sum"].dtype == np.float64
    np.testing.assert_array_equal(found["parts"][0], np.array([2, 3, 4], "float32"))
    np.testing.assert_array_equal(found["parts"][1][0], [194, 196])
    assert found["parts"][1][1] is None and found["shape"] == "text"

    class Foreign:
        """An array of another package: all it has is DLPack."""

        def __dlpack__(self, **options: Any) -> Any:
            return MEAN.__dlpack__(**options)

        def __dlpack_device__(self) -> Any:
            return MEAN.__dlpack_device__()

    np.testing.assert_allclose(prepared(IMAGE, Foreign()), expected(IMAGE, MEAN))
    assert f.lower((MEAN, MEAN), {"k": 1}).program.inputs


def test_one_variant_for_each_kind() -> None:
    traced: list[tuple[Any, ...]] = []

    def f(x: Any, scale: Any = 1, *, axis: int | None = None) -> Any:
        traced.append((x.shape, x.dtype, scale))
        return x.sum(axis) * scale

    g = eq.jit(f)
    a = np.arange(6.0).reshape(2, 3)
    assert [g(a), g(a + 1), g(a, 2)] == [15.0, 21.0, 30.0]
    np.testing.assert_array_equal(g(a, axis=0), [3, 5, 7])
    assert g(a, 2.0) == 30.0 and g(a, True) == 15.0  # 2.0 and True are other arguments than 2 and 1
    g(a.astype("float32"))
    g(a[:, ::2])
    count = len(traced)
    assert count == 7
    for _ in range(3):
        g(a, 2)
    assert len(traced) == count and g.__name__ == "f"


def test_values_are_numbers_of_the_same_type() -> None:
    g = eq.jit(lambda x, n: x + n)
    a = np.ones(3, "float32")
    assert g(a, 1).dtype == "float32" and g(a, np.float64(1)).dtype == "float64" and g(a, True).dtype == "float32"


def test_results_that_are_inputs_loads_or_constants() -> None:
    g = eq.jit(lambda x: (x, x[0, 1], np.arange(3), x.T))
    a = np.arange(6.0).reshape(2, 3)
    same, load, three, turned = g(a)
    np.testing.assert_array_equal(same, a)
    assert load == 1 and load.shape == () and not np.shares_memory(same, a)
    np.testing.assert_array_equal(three, [0, 1, 2])
    np.testing.assert_array_equal(turned, a.T)


def test_many_threads_make_one_variant() -> None:
    traced: list[int] = []

    @eq.jit
    def f(x: Any) -> Any:
        traced.append(1)
        return x * 2 + np.cumsum(x)

    a = [np.arange(64.0) + n for n in range(8)]
    results: list[Any] = [None] * 8
    go = threading.Barrier(8)

    def call(n: int) -> None:
        go.wait()
        for _ in range(20):
            results[n] = f(a[n])

    threads = [threading.Thread(target=call, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(traced) == 1
    for n in range(8):
        np.testing.assert_allclose(results[n], a[n] * 2 + np.cumsum(a[n]))


def test_errors_leave_no_lock_behind() -> None:
    @eq.jit
    def f(x: Any, fail: bool) -> Any:
        if fail:
            raise ValueError("by the function")
        return x + 1

    a = np.ones(2)
    for _ in range(2):
        with pytest.raises(ValueError, match="by the function"):
            f(a, True)
    assert f(a, False).tolist() == [2, 2]


def test_methods_and_options() -> None:
    class Model:
        factor = 3

        @eq.jit
        def scaled(self, x: Any) -> Any:
            return x * self.factor

    assert Model().scaled(np.ones(2)).tolist() == [3, 3]
    quick = eq.jit(target="numpy", limits=eq.Limits(seconds=5))(lambda x: x.T + 1)
    assert isinstance(quick, Jitted) and quick(np.zeros((2, 3))).shape == (3, 2)
    assert prepared.lower(IMAGE, MEAN).result.status == "saturated"
    assert prepared.__doc__ == "Normalised, channels first."


REFUSED: list[tuple[Any, str]] = [
    (lambda: eq.jit(lambda x: 1 if x.sum() > 0 else 2)(np.ones(2)), "truth value"),
    (lambda: eq.jit(lambda x, s: x)(np.ones(2), {1, 2}), "unhashable"),
    (lambda: eq.jit(lambda x: x)(np.zeros(2, "datetime64[s]")), "datetime64"),
    (lambda: eq.jit(lambda x: None)(np.ones(2)), "no tensor"),
    (lambda: eq.jit(lambda x: x)(eq.input("x", (2,), "int8")), "is a tensor"),
    (lambda: eq.jit(lambda x: np.asarray(x))(np.ones(2)), "evaluate"),
    (lambda: eq.jit(3), "not a function"),  # type: ignore[arg-type]
    (lambda: eq.jit(target="d")(lambda x: x)(np.ones(2)), "unknown target"),
]


@pytest.mark.parametrize(("call", "word"), REFUSED)
def test_refuses(call: Any, word: str) -> None:
    with pytest.raises((EqsatError, TypeError), match=word):
        call()


def test_strings_of_names_are_not_arrays() -> None:
    with pytest.raises(TypeMismatch, match="dtype"):
        eq.jit(lambda x: x)(np.array(["a"]))


def test_equal_arguments_that_are_told_apart_are_two() -> None:
    """0.0 and -0.0, in whatever order they come; what a set holds, by its type."""
    f, z = eq.jit(lambda x, n: x + n), np.full(1, -0.0, "float32")
    for numbers in ((-0.0, 0.0), (0.0, -0.0)):
        for n in numbers:
            assert np.signbit(f(z, n))[0] == np.signbit(n)
            assert np.signbit(eq.jit(lambda x, ns: x + ns[0])(z, (n,)))[0] == np.signbit(n)
    g = eq.jit(lambda x, ns: x + next(iter(ns)))
    assert [g(np.ones(1, "int8"), frozenset([n])).dtype for n in (1, 1.0)] == [np.int8, np.float64]


class Pair(NamedTuple):
    """Two arrays by name."""

    left: Any
    right: Any


def test_named_tuples_stay_what_they_are() -> None:
    f = eq.jit(lambda p: Pair(p.left + p.right, {"in": p}))
    a, b = np.ones(2), np.arange(2.0)
    got = f(Pair(a, b))
    assert isinstance(got, Pair) and isinstance(got.right["in"], Pair)
    assert got.left.tolist() == [1, 2] and got.right["in"].right.tolist() == [0, 1]
    assert eq.jit(lambda p: p[0])((a, b)).tolist() == [1, 1]


@eq.jit
def doubled(x: Any) -> Any:
    """Twice the array."""
    return x * 2


def test_a_decorated_function_is_pickled_by_its_name() -> None:
    """So it reaches the processes of a pool; copies of what holds it hold the same one."""
    assert pickle.loads(pickle.dumps(doubled)) is doubled
    assert copy.deepcopy({"f": doubled})["f"] is doubled and copy.copy(doubled) is doubled
    with pytest.raises((AttributeError, pickle.PicklingError)):  # by Python's version
        pickle.dumps(eq.jit(lambda x: x))


def test_slices_are_arguments() -> None:
    f = eq.jit(lambda x, part: x[part])
    a = np.arange(6.0).reshape(2, 3)
    for part in (slice(1, None), slice(None, None, -1), slice(0, 1), (slice(None), slice(np.int64(1), 2)), ...):
        np.testing.assert_array_equal(f(a, part), a[part])


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_arrays_that_compute_in_ways_of_their_own_are_refused() -> None:
    """The mask of a masked array would be lost, and `*` of matrices is their product."""
    for a in (np.ma.masked_array([1, 2], [True, False]), np.asmatrix(np.ones((2, 2)))):
        with pytest.raises(TypeMismatch, match="would be lost"):
            eq.jit(lambda x: x * x)(a)
