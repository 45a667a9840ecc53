"""Calling OpenCL kernels: arguments, devices, images, device arrays, host operators, and what goes wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_checks import sample
from numpy.lib.stride_tricks import as_strided

from eqsat.backends.c import tune
from eqsat.backends.compile import compile
from eqsat.backends.lowering.lower import lower
from eqsat.backends.opencl import device as opencl_device
from eqsat.backends.opencl.image import CHANNEL_TYPES, plan_images
from eqsat.backends.opencl.kernel import ClKernel, make_unit
from eqsat.backends.opencl.profile import Profile
from eqsat.backends.opencl.runner import ClRunner
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError, EqsatError, EvaluationError
from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.layouts.index_map import AXIS_SEPARATOR
from eqsat.ir.tensors import library
from eqsat.ir.tensors.run import evaluate, evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor, as_program, constant, input
from eqsat.ir.terms import term as t

pytestmark = pytest.mark.opencl


def double(shape: Any = (3, 4), dtype: str = "float32") -> Tensor:
    x = input("x", shape, dtype)
    return x + x


def to_image(x: Tensor) -> Tensor:
    """NCHW to NCH'W4c with rows N, C', H."""

    def physical(n: t.Term, c: t.Term, h: t.Term, w: t.Term) -> list[Any]:
        return [n, c // 4, h, AXIS_SEPARATOR, w, c % 4]

    return x.layout_transform(physical)


@pytest.fixture(scope="module")
def kernel() -> ClKernel:
    """y = x + x on (3, 4)."""
    return ClKernel(as_program(double()))


@pytest.mark.smoke
def test_strided_readonly_swapped_and_unaligned_inputs(kernel: ClKernel) -> None:
    base = np.arange(48, dtype="float32").reshape(6, 8)
    raw = bytearray(b"\0" + base[:3, :4].tobytes())
    inputs: dict[str, NDArray] = {
        "slice": base[::2, ::2], "transposed": base[:4, :3].T, "negative": base[2::-1, 3::-1],
        "broadcast": np.broadcast_to(base[0, :4], (3, 4)), "big-endian": base[:3, :4].astype(">f4"),
        "unaligned": np.frombuffer(raw, "float32", 12, 1).reshape(3, 4),
    }  # fmt: skip
    for name, array in inputs.items():
        array.flags.writeable = False
        before = array.copy()
        np.testing.assert_array_equal(kernel(x=array), 2 * before, err_msg=name)
        np.testing.assert_array_equal(array, before)


def test_out_is_written_and_returned(kernel: ClKernel) -> None:
    array, out = sample((3, 4), "float32"), np.empty((3, 4), "float32")
    assert kernel({"x": array}, out=out) is out
    np.testing.assert_array_equal(out, array + array)
    out[...] = 0
    assert kernel(x=array, out={"out": out}) is out
    np.testing.assert_array_equal(out, array + array)


Call = Callable[[ClKernel, NDArray, Any], Any]
WRONG_CALLS: list[tuple[str, Call]] = [
    ("expected float32", lambda k, a, d: k(x=a.astype("float64"))),
    ("extent 4, expected 3", lambda k, a, d: k(x=a.T)),
    ("missing inputs", lambda k, a, d: k()),
    ("unknown inputs", lambda k, a, d: k(x=a, y=d)),
    ("by name", lambda k, a, d: k(a)),
    ("shares memory", lambda k, a, d: k(x=a, out=a)),
    ("shares memory", lambda k, a, d: k(x=d, out=d)),
    ("elements that share memory", lambda k, a, d: k(x=a, out=as_strided(np.zeros(4, "float32"), (3, 4), (0, 4)))),
    ("not a numpy array", lambda k, a, d: k(x=a, out=[0.0])),
    ("out must give", lambda k, a, d: k(x=a, out={"other": a})),
    ("out must give", lambda k, a, d: k(x=a, out={"out": d, "other": a})),
    ("extent 4, expected 3", lambda k, a, d: k(x=d.T)),
    ("dense row-major", lambda k, a, d: k(x=d.reshape(4, 3).T)),
    ("dense row-major", lambda k, a, d: k(x=a, out=d.reshape(4, 3).T)),
    ("expected float32", lambda k, a, d: k(x=d.astype("int32"))),
    ("expected float32", lambda k, a, d: k(x=a, out=d.astype("int32"))),
    ("another context", lambda k, a, d: k(x=elsewhere(a))),
]  # fmt: skip


def elsewhere(array: NDArray) -> Any:
    """A device array of another context."""
    cl, arrays = pytest.importorskip("pyopencl"), pytest.importorskip("pyopencl.array")
    device = opencl_device.open_device().device
    return arrays.to_device(cl.CommandQueue(cl.Context([device])), array)


def on_device(kernel: ClKernel, array: NDArray) -> Any:
    """The array on the device of a kernel."""
    return pytest.importorskip("pyopencl.array").to_device(kernel.where.queue, array)


@pytest.mark.parametrize("number", range(len(WRONG_CALLS)))
def test_wrong_arguments_are_refused(number: int, kernel: ClKernel) -> None:
    message, call = WRONG_CALLS[number]
    array = np.arange(12, dtype="float32").reshape(3, 4)
    there = on_device(kernel, array)
    with pytest.raises(EqsatError, match=message):
        call(kernel, array, there)
    np.testing.assert_array_equal(array, np.arange(12, dtype="float32").reshape(3, 4))
    np.testing.assert_array_equal(there.get(), array)


def test_strided_out(kernel: ClKernel) -> None:
    array, whole = sample((3, 4), "float32"), np.zeros((4, 9), "float32")
    out = whole[::-1, 1::3].T
    assert kernel(x=array, out=out) is out
    np.testing.assert_array_equal(out, array + array)
    whole[:] = 0
    kernel.bind(x=on_device(kernel, array), out=out)()
    np.testing.assert_array_equal(out, array + array)
    assert not whole[:, 0].any() and not whole[:, 2].any()


def test_device_arrays_in_and_out(kernel: ClKernel) -> None:
    array = sample((3, 4), "float32")
    there, target = on_device(kernel, array), on_device(kernel, np.zeros((3, 4), "float32"))
    result = kernel(x=there)
    np.testing.assert_array_equal(result.get(), array + array)
    assert type(result) is type(there) and kernel(x=result, out=target) is target
    np.testing.assert_array_equal(target.get(), 4 * array)
    out = np.empty((3, 4), "float32")
    assert kernel(x=there, out=out) is out and kernel(x=array, out=target) is target
    np.testing.assert_array_equal(out, target.get())


def test_another_queue_of_the_same_context(kernel: ClKernel) -> None:
    cl, arrays = pytest.importorskip("pyopencl"), pytest.importorskip("pyopencl.array")
    array = sample((3, 4), "float32")
    there = arrays.to_device(cl.CommandQueue(kernel.where.context), array)
    np.testing.assert_array_equal(kernel(x=there).get(), array + array)


def test_devices_are_chosen_as_by_pyopencl(monkeypatch: pytest.MonkeyPatch) -> None:
    where = opencl_device.open_device()
    array = sample((3, 4), "float32")
    for given in (where.device, where.context, where.queue):
        np.testing.assert_array_equal(compile(double(), "opencl", device=given)(x=array), array + array)
    assert ClKernel(as_program(double()), device=where.queue).where.queue is where.queue
    with pytest.raises(BackendError, match="is str, not a pyopencl Device"):
        compile(double(), "opencl", device="gpu")
    with pytest.raises(BackendError, match="only target opencl"):
        compile(double(), "c", device=where.device)
    with pytest.raises(BackendError, match="decides"):
        compile(double(), "opencl", threads=1, device=where.queue)
    monkeypatch.setenv("PYOPENCL_CTX", "no such platform")
    with pytest.raises(BackendError, match=r"PYOPENCL_CTX='no such platform'.*found no device"):
        compile(double(), "opencl")


def test_threads_are_compute_units() -> None:
    array = sample((3, 4), "float32")
    cl: Any = opencl_device.opencl()
    if cl.device_partition_property.BY_COUNTS in opencl_device.open_device().device.partition_properties:
        one = ClKernel(as_program(double()), threads=1)
        assert one.where.device.max_compute_units == 1
        np.testing.assert_array_equal(one(x=array), array + array)
    else:
        with pytest.raises(BackendError, match="cannot be divided"):
            ClKernel(as_program(double()), threads=1)
    assert ClKernel(as_program(double()), threads=4096).where.profile.units == opencl_device.open_device().profile.units


def test_missing_pyopencl_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    with pytest.raises(BackendError, match=r"pip install 'eqsat\[opencl\]'"):
        compile(double(), "opencl")


def test_empty_and_rank_zero() -> None:
    assert compile(double((0, 4)), "opencl")(x=np.empty((0, 4), "float32")).shape == (0, 4)
    assert compile(double(()), "opencl")(x=np.float32(2)).shape == ()
    nothing = compile(double((0,)).sum(), "opencl")(x=np.empty(0, "float32"))
    assert nothing.shape == () and nothing == 0


def test_symbols_are_specialised_at_the_call() -> None:
    x = input("x", (t.sym("N"), 3), "float32")
    k = compile(x.permute_dims((1, 0)).sum(1), "opencl")
    with pytest.raises(BackendError, match="no value yet"):
        _ = k.source
    for rows in (1, 5, 1):
        array = np.arange(rows * 3, dtype="float32").reshape(rows, 3)
        np.testing.assert_array_equal(k(x=array), array.sum(0))


def test_host_operators_and_constants_and_workspace() -> None:
    x = input("x", (3, 4), "float32")

    def order(a: NDArray, b: NDArray) -> list[NDArray]:
        a[...] += b
        return [np.sort(a, axis=1), np.argsort(a, axis=1, kind="stable")]

    types = [((4, 3), "float32"), ((4, 3), "int64")]
    weights = constant(np.arange(12, dtype="float32").reshape(4, 3))
    values, places = library.opaque("Sort", [x.permute_dims((1, 0)) * 2, weights], types, impl=order)
    program = Program([x], {"v": values + weights, "p": places, "x2": x * 2})
    k = ClKernel(program)
    array = sample((3, 4), "int8").astype("float32")
    for _ in range(2):
        result = k(x=array)
        added = array.T * 2 + np.arange(12, dtype="float32").reshape(4, 3)
        np.testing.assert_array_equal(result["v"], np.sort(added, axis=1) + np.arange(12, dtype="f4").reshape(4, 3))
        np.testing.assert_array_equal(result["p"], np.argsort(added, axis=1, kind="stable"))
    align = k.where.profile.alignment
    assert k.workspace_bytes == 2 * align
    assert all(b.offset % align == 0 for b in k.lowered.buffers.values())


def test_hostile_names_reach_no_code() -> None:
    names = ['"; system("x")', "*/ int main", "in0", "kernel", "\n#include <x>", "ünïcode", "x" * 5000]
    xs = [input(name, (2,), "int32") for name in names]
    program = Program(xs, {name: x + n for n, (name, x) in enumerate(zip(names, xs, strict=True))}, name="*/ evil")
    k = ClKernel(program)
    result = k({name: np.array([1, 2], "int32") for name in names})
    assert [int(result[name][0]) for name in names] == list(range(1, len(names) + 1))
    text = k.source + k.header
    assert "system" not in k.source and "#include" not in text and "evil" not in text and text.isascii()


# feature: K4
ROUTINE = ("float32", "float16", "int8", "uint16", "bool")


@pytest.mark.parametrize(
    "dtype", [pytest.param(d, marks=() if d in ROUTINE else pytest.mark.slow) for d in CHANNEL_TYPES]
)
def test_images_round_trip(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
    x, back = input("x", (2, 8, 3, 5), dtype), input("x", (2, 2, 3, 5, 4), dtype)
    array = sample((2, 8, 3, 5), dtype)
    write = ClKernel(as_program(to_image(x)))
    rows = {"x": Buffer("x", back.shape, dtype, axis_separators=(3,))}
    plain = back.permute_dims((0, 1, 4, 2, 3)).reshape((2, 8, 3, 5))
    read = ClKernel(as_program(plain), buffers=rows)
    assert "__write_only image2d_t" in write.source and "__read_only image2d_t" in read.source
    pixels = write(x=array)
    np.testing.assert_array_equal(pixels, evaluate(to_image(x), {"x": array}))
    np.testing.assert_array_equal(read(x=pixels), array)
    image = write(x=on_device(write, array))
    assert (image.width, image.height) == (5, 12)
    np.testing.assert_array_equal(read(x=image).get(), array)
    with pytest.raises(EvaluationError, match="is an image"):
        write(x=image)
    with pytest.raises(EvaluationError, match="expected image2d_t"):
        read(x=on_device(read, pixels))


def rows_of(name: str, x: Tensor, place: int) -> dict[str, Any]:
    return {name: Buffer(name, x.shape, x.dtype, axis_separators=(place,))}


def test_images_of_every_kind_of_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """One channel, whole pixels, pixels that a pad cuts (through the workspace), reductions, several images."""
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")
    x = input("x", (3, 7, 5), "float32")
    array = sample((3, 7, 5), "float32")
    padded = x.permute_dims((1, 2, 0)).pad(((0, 0), (0, 0), (0, 1)), 9)
    made: dict[str, tuple[Tensor, int]] = {
        "one": (x * 2, 1), "cut": (padded, 1), "sum": (padded.sum(0), 1), "wide": (x.pad(((0, 0), (1, 0), (2, 1))), 2),
        "from image": (padded.relu() + 1, 2),
    }  # fmt: skip
    program = Program([x], {name: y for name, (y, _) in made.items()})
    buffers = {k: b for name, (y, place) in made.items() for k, b in rows_of(name, y, place).items()}
    want: dict[str, NDArray] = evaluate_outputs(program, {"x": array})
    for kind, given in (("cpu", buffers), ("gpu", {**buffers, **rows_of("x", x, 2)})):
        k = ClKernel(program, buffers=given, kind=kind)
        got = k(x=array)
        assert k.source.count("write_only") == len(made) and "_image(" in k.source
        for name, expected in want.items():
            np.testing.assert_allclose(got[name], expected, rtol=1e-6, err_msg=name)


def test_physical_axes_that_no_image_has() -> None:  # feature: B9
    x = input("x", (2, 8, 6, 5), "float32")
    with pytest.raises(BackendError, match="3 physical axes; target opencl takes 1"):
        compile(x * 2, "opencl", buffers={"x": Buffer("x", x.shape, "float32", axis_separators=(1, 2))})
    with pytest.raises(BackendError, match="2 physical axes; target c takes flat"):
        compile(to_image(x), "c")
    with pytest.raises(BackendError, match="is no input and no output"):
        compile(x * 2, "opencl", buffers={"z": Buffer("x", x.shape, "float32")})
    with pytest.raises(BackendError, match="is not float32"):
        compile(x * 2, "opencl", buffers={"x": Buffer("x", (2, 8, 30), "float32", axis_separators=(1,))})
    with pytest.raises(BackendError, match="strides"):
        compile(x * 2, "opencl", buffers={"x": Buffer("x", x.shape, "float32", strides=(300, 30, 5, 1))})
    with pytest.raises(BackendError, match="no image holds float64"):
        compile(
            double((4, 4), "float64"), "opencl", buffers={"x": Buffer("x", (4, 4), "float64", axis_separators=(1,))}
        )
    low = lower(as_program(x * 2))
    with pytest.raises(BackendError, match="takes 4 x 4"):
        plan_images(low, {"x": (3,)}, Profile(images=(4, 4)))
    with pytest.raises(BackendError, match="has none"):
        plan_images(low, {"x": (3,)}, Profile(images=None))
    assert "image2d_t" not in ClKernel(as_program(to_image(x) * 2)).source


def test_devices_without_double_or_exact_division(kernel: ClKernel) -> None:
    x = input("x", (64,), "float32")
    with pytest.raises(BackendError, match="needs float64, which an OpenCL device has not"):
        make_unit(as_program(x.cast("float64") * 2), {}, {}, Profile(double=False))
    where = replace(kernel.where, profile=replace(kernel.where.profile, exact_division=False))
    y = as_program(x.abs().sqrt() / (x.abs() + 3.0))
    lowered, unit, images = make_unit(y, {}, {}, where.profile)
    # Of numbers that no float is: NVIDIA's compiler makes (float)((double)x / (double)y) a division in float.
    assert unit.source.count("(double)") == unit.source.count("* 0x1p-600") == 3
    assert "double" not in ClKernel(y).source
    array, out = sample((64,), "float32"), np.empty(64, "float32")
    ClRunner(lowered, unit, images, where).run({"x": array}, {"out": out})
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, np.sqrt(np.abs(array)) / (np.abs(array) + np.float32(3)))


def test_compiler_and_memory_errors_are_told(kernel: ClKernel) -> None:
    with pytest.raises(BackendError, match=r"(?s)OpenCL compiler of .* failed:\n.*"):
        opencl_device.build(kernel.where, "__kernel void f(__global int *x) { x[0] = y; }")
    with pytest.raises(BackendError, match=r"bytes; .* has at most .* in one buffer"):
        compile(double((1 << 20, 1 << 14), "float64"), "opencl")
    cl: Any = opencl_device.opencl()
    with pytest.raises(BackendError, match="out of memory"), opencl_device.failures("a call"):
        raise cl.MemoryError("allocation failed")


def test_nothing_needs_a_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    monkeypatch.delenv("PYOPENCL_NO_CACHE", raising=False)
    for value in (str(occupied), "off"):
        monkeypatch.setenv("EQSAT_CACHE", value)
        np.testing.assert_array_equal(compile(double(), "opencl")(x=np.ones((3, 4), "f4")), np.full((3, 4), 2, "f4"))
    assert occupied.read_text() == ""


def test_bound_calls_read_their_arrays_anew() -> None:
    """`bind` checks once, as on target c; each call sees what the arrays hold then."""
    k = compile(double(), "opencl")
    array, out = sample((3, 4), "float32"), np.zeros((3, 4), "float32")
    call = k.bind(x=array, out=out)
    assert call() is None
    np.testing.assert_array_equal(out, array + array)
    array[...] = 3
    call()
    np.testing.assert_array_equal(out, np.full((3, 4), 6, "float32"))
    with pytest.raises(EvaluationError, match="expected float32"):
        k.bind(x=array.astype("float64"), out=out)


def test_tuning_measures_once_and_changes_no_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    asked: list[int] = []

    def second_is_best(calls: Sequence[Callable[[], None]], rounds: int = 1) -> list[list[float]]:
        asked.append(len(calls))
        for call in calls:
            call()
        return [[seconds] * rounds for seconds in (1.0, 0.5, 0.7)[: len(calls)]]

    monkeypatch.setattr(tune, "measure", second_is_best)
    y = input("x", (70, 90), "float32").permute_dims((1, 0))
    array = sample((70, 90), "float32")
    default = compile(y, "opencl")
    first, second = (compile(y, "opencl", tune=True) for _ in range(2))
    assert asked == [3, 2] and first.source == second.source != default.source
    for k in (default, first, second):
        np.testing.assert_array_equal(k(x=array), array.T)
    (remembered,) = (tmp_path / "tuned").iterdir()
    remembered.write_text("torn")
    compile(y, "opencl", tune=True)
    assert asked == [3, 2, 3, 2]
