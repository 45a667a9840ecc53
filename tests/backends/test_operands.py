"""Operands of products in the order in which they are read, against numpy, and where they are left as they lie."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kernel_checks import assert_same, program_of
from seeds import each_value

import eqsat as eq
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.lowering.lower import lower
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor
from eqsat.ir.terms.term import Term

Sizes = dict[str, int]


@pytest.fixture(autouse=True)
def strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CFLAGS", "-O1 -Werror")


def whole(shape: tuple[int, ...], dtype: str, seed: int = 0) -> NDArray:
    """Small whole numbers: every order of a sum gives the same, to the bit."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


def changed(data: st.DataObject, x: Tensor) -> Tensor:
    """A tensor as it is, or with another one that is computed or read from it element by element."""
    made = x, x.relu(), x * 2 - 1, eq.flip(x, axis=-1)
    return made[data.draw(st.integers(0, len(made) - 1))]


def operand(data: st.DataObject, name: str, axes: str, sizes: Sizes, dtype: str) -> Tensor:
    """A tensor over axes, that lies in memory in a random order of them: an input, or a constant."""
    lies = data.draw(st.permutations(axes))
    narrow = data.draw(st.sampled_from([dtype, dtype, "int8", "float16"] if dtype == "float32" else [dtype, "int8"]))
    shape = tuple(sizes[a] for a in lies)
    constant = data.draw(st.integers(0, 3)) == 0
    x = eq.constant(whole(shape, narrow, 1)) if constant else eq.input(name, shape, narrow)
    x = x if narrow == dtype else x.cast(dtype)
    return changed(data, x).permute_dims(tuple(lies.index(a) for a in axes))


def product(data: st.DataObject, name: str) -> Tensor:
    """A sum of products: axes that both operands have, those of one, and those that are summed."""
    batch, rows, lanes, summed = (
        data.draw(st.sampled_from(kinds))
        for kinds in (["", "", "b", "bc"], ["i", "i", "ij"], ["n", "n", "nm"], ["k", "k", "kl"])
    )
    sizes = {a: data.draw(st.integers(1, 40 if a in "ink" else 5)) for a in batch + rows + lanes + summed}
    if data.draw(st.booleans()):
        sizes["n"] = 16 * data.draw(st.integers(1, 4))
    dtype = data.draw(st.sampled_from(["float32", "float32", "float64", "int32"]))
    a = operand(data, f"{name}a", batch + rows + summed, sizes, dtype)
    b = operand(data, f"{name}b", batch + lanes + summed, sizes, dtype)
    out = data.draw(st.permutations(batch + rows + lanes)) if data.draw(st.booleans()) else batch + rows + lanes
    return eq.einsum(f"{batch}{rows}{summed},{batch}{lanes}{summed}->{''.join(out)}", a, b)


def windows(data: st.DataObject, name: str) -> Tensor:
    """A convolution of what is computed element by element from its operands."""
    channels, out, size, kernel = (data.draw(st.integers(*ends)) for ends in ((1, 5), (1, 20), (4, 9), (1, 3)))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int32"]))
    x = operand(data, f"{name}x", "nchw", {"n": 2, "c": channels, "h": size, "w": size + 1}, dtype)
    w = operand(data, f"{name}w", "ochw", {"o": out, "c": channels, "h": kernel, "w": kernel}, dtype)
    return eq.conv2d(x, w, strides=data.draw(st.integers(1, 2)), padding=data.draw(st.integers(0, 1)))


def feeds(program: Program) -> dict[str, NDArray]:
    """Inputs for a program."""
    return {b.label: whole(b.shape, b.dtype) for b in lower(program).buffers.values() if b.role == "input"}


GENERATED = [Phase.explicit, Phase.generate]
MACHINES = [Machine(vector=16), Machine(vector=32, first=1 << 12), Machine(vector=64)]


def check_products(machine: Machine, threads: int, data: st.DataObject) -> None:
    outputs = {f"y{n}": product(data, f"x{n}") for n in range(5)}
    program = program_of({**outputs, "z0": windows(data, "z0"), "z1": windows(data, "z1")})
    arrays = feeds(program)
    want, got = evaluate_outputs(program, arrays), CKernel(program, threads, machine)(arrays)
    for name in want:
        assert_same(got[name], want[name], False, name)


# feature: K3
@each_value(machine=MACHINES, threads=[1, 2])
@given(data=st.data())
@settings(max_examples=1, phases=GENERATED, suppress_health_check=[HealthCheck.too_slow])
def test_random_products(machine: Machine, threads: int, data: st.DataObject) -> None:
    check_products(machine, threads, data)


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("machine", MACHINES)
@given(data=st.data())
@settings(max_examples=12, phases=GENERATED, suppress_health_check=[HealthCheck.too_slow])
def test_many_random_products(machine: Machine, threads: int, data: st.DataObject) -> None:
    check_products(machine, threads, data)


def made(y: Tensor) -> list[str]:
    """The shapes of the operands that a product has in the workspace, in order."""
    lowered = lower(program_of({"y": y}), machine=Machine(vector=32))
    ends = ("in order", "as it is read")
    return [f"{b.dtype}{b.shape}" for b in lowered.buffers.values() if b.label.endswith(ends)]


def transposed(m: int, k: int, n: int, dtype: str = "float32") -> Tensor:
    return eq.matmul(eq.input("a", (m, k), dtype), eq.input("b", (n, k), dtype).permute_dims((1, 0)))


# feature: K3
def test_what_gets_a_buffer() -> None:
    """Blocks of 64 bytes where that leaves no rest, narrow numbers as wide as they are summed."""
    a, b = eq.input("a", (48, 32), "int8"), eq.input("b", (32, 40), "float32")
    assert made(transposed(48, 32, 64)) == ["float32(4, 32, 16)"]
    assert made(transposed(48, 32, 64, "float64")) == ["float64(8, 32, 8)"]
    assert made(transposed(48, 32, 50)) == ["float32(32, 50)"]
    assert made(eq.matmul(a.cast("float32"), b)) == ["float32(48, 32)"]
    q, k = (eq.input(n, (2, 48, 3, 8), "float32").permute_dims((0, 2, 1, 3)) for n in "qk")
    assert made(eq.matmul(q, k.permute_dims((0, 1, 3, 2)))) == ["float32(2, 3, 3, 8, 16)"]


# feature: K3
def test_what_is_computed_before() -> None:
    """What windows and products have of single elements, once for each; not what depends on where it is read."""
    x, w = eq.input("x", (1, 16, 9, 9), "float32"), eq.input("w", (16, 16, 3, 3), "int8")
    a, b = eq.input("a", (48, 32), "float32"), eq.input("b", (32, 40), "float32")
    assert made(eq.conv2d(x.relu(), w.cast("float32"), padding=1)) == ["float32(16, 16, 3, 3)", "float32(1, 16, 9, 9)"]
    assert made(eq.matmul(a * 2, b)) == ["float32(48, 32)"]
    masked = eq.compute((48, 32), lambda i, k: eq.where(i < k, a[i, k], 0))
    assert made(eq.matmul(masked, b)) == ["float32(48, 32)"]  # an operand that is not in order
    assert made((a * 2).sum(axis=1)) == []


# feature: K3
def test_what_stays_as_it_lies() -> None:
    """What is in order, what is read a few times, and windows, whose elements would be there several times."""
    a, b = eq.input("a", (48, 32), "float32"), eq.input("b", (32, 40), "float32")
    x, w = eq.input("x", (1, 16, 9, 3), "float32"), eq.input("w", (16, 16, 3, 3), "float32")
    assert made(eq.matmul(a, b)) == made(transposed(9, 32, 64)) == made(eq.conv2d(x, w, strides=2)) == []


# feature: K3
def test_a_constant_is_moved_when_it_is_compiled() -> None:
    weights = whole((50, 32), "float32", 1)
    y = eq.matmul(eq.input("a", (48, 32), "float32"), eq.constant(weights).permute_dims((1, 0)))
    lowered = lower(program_of({"y": y}), machine=Machine(vector=32))
    ((array, *_),) = [lowered.constants.values()]
    assert len(lowered.steps) == 1 and lowered.workspace_bytes == 0
    np.testing.assert_array_equal(array, weights.T)


def guarded(data: st.DataObject, name: str) -> Tensor:
    """A reduction of a function of one element and of where that is read: axes of the result, of the sum and of the
    operand have few extents, so that those of one may be taken for those of another."""
    n = data.draw(st.integers(2, 5))
    rank, spatial, summed = (data.draw(st.integers(1, 2)) for _ in range(3))
    x = eq.input(name, (n,) * rank, data.draw(st.sampled_from(["float32", "int32"])))
    places = st.integers(0, spatial + summed - 1)
    read = [(data.draw(places), data.draw(st.sampled_from(["here", "back", "next", "half"]))) for _ in range(rank)]
    asked, bound, kind = data.draw(places), data.draw(st.integers(0, n)), data.draw(st.integers(0, 2))
    times = data.draw(st.sampled_from([1, 7, 20]))

    def body(*axes: Term) -> Term:
        def at(place: int, way: str) -> Term:
            i = axes[place]
            return {"here": i, "back": n - 1 - i, "next": (i + 1) % n, "half": i // 2}[way]

        element = x[tuple(at(place, way) for place, way in read)]
        if kind == 0:
            return eq.where(axes[asked] < bound, element, 0)
        return element * eq.cast(axes[asked], x.dtype) if kind == 1 else eq.maximum(element, 0) - 1

    combiner = data.draw(st.sampled_from(["sum", "max", "min"]))
    return eq.compute((n,) * spatial, body, reduce=(*(n,) * summed, times), combiner=combiner)


def check_functions(machine: Machine | None, data: st.DataObject) -> None:
    program = program_of({f"y{n}": guarded(data, f"x{n}") for n in range(8)})
    arrays = feeds(program)
    want, got = evaluate_outputs(program, arrays), CKernel(program, 1, machine)(arrays)
    for name in want:
        assert_same(got[name], want[name], False, name)


# feature: K3
@pytest.mark.parametrize("machine", [None, Machine(vector=32)])
@given(data=st.data())
@settings(max_examples=5, phases=GENERATED, suppress_health_check=[HealthCheck.too_slow])
def test_functions_of_elements_and_places(machine: Machine | None, data: st.DataObject) -> None:
    check_functions(machine, data)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [None, Machine(vector=32)])
@given(data=st.data())
@settings(max_examples=50, phases=GENERATED, suppress_health_check=[HealthCheck.too_slow])
def test_many_functions_of_elements_and_places(machine: Machine | None, data: st.DataObject) -> None:
    check_functions(machine, data)


# feature: K3
def test_a_piece_that_reads_nothing() -> None:
    """The tiles of the piece whose sums are in registers are not those of the piece that a guard cuts off."""
    x, array = eq.input("x", (4,), "float32"), np.arange(1, 5, dtype=np.float32)
    chosen = eq.compute((4, 4), lambda i, j, k: eq.where(j < 1, x[i], 0), reduce=(4,), combiner="max")
    got = CKernel(program_of({"y": chosen}), 1, Machine(vector=32))({"x": array})
    np.testing.assert_array_equal(got, np.where(np.arange(4) < 1, array[:, None], 0))


# feature: K3
def test_a_guard_is_about_the_place_that_reads() -> None:
    """The axis of the guard is that of the result, not the one of the buffer that has its number and extent."""
    x = eq.input("x", (3,), "int32")
    turned = eq.compute((3, 20), lambda i, j, k: eq.where(i < 2, x[2 - i], 0), reduce=(20,), combiner="max")
    moved = eq.compute((3, 20), lambda i, j, k: eq.where(i + 1 < 3, x[i + 1], 0), reduce=(20,), combiner="sum")
    program, array = program_of({"y": turned, "z": moved}), np.array([5, 6, 7], np.int32)
    got = CKernel(program, 1, Machine(vector=32))({"x": array})
    assert got["y"][:, 0].tolist() == [7, 6, 0] and got["z"][:, 0].tolist() == [120, 140, 0]
