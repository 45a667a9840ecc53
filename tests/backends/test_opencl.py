"""Programs compiled to OpenCL equal their numpy meaning, as few heavy work-items and as one for each position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_checks import assert_same, inputs_of, program_of, programs, sample
from kernel_views import VIEWS, operations, reducing_and_gathering

from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.opencl.accumulators import split_accumulators
from eqsat.backends.opencl.device import open_device
from eqsat.backends.opencl.grid import independent
from eqsat.backends.opencl.kernel import ClKernel, make_unit
from eqsat.backends.opencl.local_tiles import LAYOUTS, conflicts, layout
from eqsat.backends.opencl.profile import Profile
from eqsat.backends.opencl.runner import ClRunner
from eqsat.ir.dtypes import DATA, INTS, NDArray, is_float
from eqsat.ir.statements.stmt import Alloc, BufferDecl, For, Seq, Store
from eqsat.ir.statements.text import format_stmt
from eqsat.ir.tensors import pointwise, reductions
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Program, Tensor, compute, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

pytestmark = pytest.mark.opencl
ANY = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
KINDS = ["cpu", "gpu"]


def check(outputs: Mapping[str, Tensor], feeds: Mapping[str, NDArray], kind: str, close: bool = False) -> ClKernel:
    """Every output of one compiled program equals its numpy meaning."""
    program = program_of(outputs)
    want: dict[str, NDArray] = evaluate_outputs(program, feeds, undef=0)
    kernel = ClKernel(program, kind=kind)
    got = kernel(dict(feeds))
    for name in outputs:
        assert_same(got[name] if len(outputs) > 1 else got, want[name], close, name)
    return kernel


def joined(outputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors of one type in a row: starting the compiler for a kernel costs more than running it."""
    rows: dict[str, list[Tensor]] = {}
    for x in outputs.values():
        rows.setdefault(x.dtype, []).append(x.reshape((-1,)))
    return {dtype: reductions.concat(xs, 0) for dtype, xs in rows.items()}


def some_views(kind: str, share: int) -> list[str]:
    """Every second view for one kind of device and the others for the other kind, or all for both."""
    return list(VIEWS)[KINDS.index(kind) % share :: share]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are compiled without optimisation, which takes most of the time of these tests."""
    monkeypatch.setenv("PYOPENCL_BUILD_OPTIONS", "-cl-opt-disable")


# feature: K4
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_views_in_every_way(kind: str, share: int) -> None:
    x = input("x", (2, 8, 7, 5), "int32")
    check({name: VIEWS[name](x) for name in some_views(kind, share)}, {"x": sample((2, 8, 7, 5), "int32")}, kind)


def operands(dtype: str) -> tuple[NDArray, NDArray]:
    x, y = sample((64,), dtype, 1), sample((64,), dtype, 2)
    if not is_float(dtype) and dtype != "bool":
        y[y == 0] = 3
        if dtype in INTS:
            x[:3], y[:12] = np.iinfo(dtype).min, [-1, 2, -3, 7, -7, 5, -5, 1, -2, 3, -1, 11]
    elif is_float(dtype):
        x[:8], y[:8] = [-7, 7, -7, 7, 0, -0.0, np.inf, -3.5], [2, -2, -2, 2, 3, 3, 2, np.inf]
    return x, y


@pytest.mark.parametrize("dtype", DATA)
def test_scalar_operations(dtype: str) -> None:
    """Those of a type, and casts from all others to it: few kernels, since few types are in a row."""
    outputs = {name: y for name, y in operations(dtype).items() if not name.startswith("cast")}
    outputs |= {f"cast from {d}": input(f"from_{d}", (64,), d).cast(dtype) for d in DATA}
    x, y = operands(dtype)
    check(joined(outputs), {"x": x, "y": y, **{f"from_{d}": operands(d)[0] for d in DATA}}, "cpu")


def test_half_rounds_to_nearest_even() -> None:
    x, d, f = input("x", (1 << 16,), "float16"), input("d", (20000,), "float64"), input("f", (20000,), "float32")
    numbers = np.ldexp(np.random.default_rng(3).standard_normal(20000), np.arange(20000) % 60 - 35)
    numbers[:1000] = (np.arange(1000) + 0.5) * 2.0**-24
    feeds = {"d": numbers, "f": numbers.astype("float32"), "x": np.arange(1 << 16, dtype=np.uint16).view(np.float16)}
    outputs = {"d": d.cast("float16"), "f": f.cast("float16"), "wide": x.cast("float64"), "neg": -x, "copy": x.flip(0)}
    kernel = check(outputs, feeds, "cpu")
    assert "cl_khr_fp16" not in kernel.source


def test_signed_zeros() -> None:
    x = input("x", (7,), "float32")
    outputs = [x.relu(), pointwise.operator("max", 0.0, x), -x, x.clip(None, 0.0)]
    zeros = np.array([0.0, -0.0, 0.0, -0.0, 1, -1, np.nan], "float32")
    check({"y": 1.0 / reductions.concat(outputs, 0)}, {"x": zeros}, "cpu")


def test_functions_are_close() -> None:
    x = input("x", (200,), "float32")
    names = ("exp", "tanh", "erf", "sin", "cos", "atan", "sinh", "asinh")
    d, h = x.cast("float64").abs() + 0.5, x.cast("float16")
    outputs = {"float32": reductions.concat([pointwise.unary(name, x) for name in names] + [x.sigmoid()], 0)}
    outputs |= {"float64": reductions.concat([d.log(), d**0.3, d.sqrt()], 0), "half": h.exp(), "softmax": x.softmax(0)}
    check(outputs, {"x": np.linspace(-4, 4, 200, dtype="float32")}, "cpu", close=True)


@pytest.mark.parametrize("kind", KINDS)
def test_reductions_and_gathers(kind: str) -> None:
    outputs, feeds = reducing_and_gathering()
    chosen = ("matmul", "blocked convolution", "softmax", "sum", "wrapping product")
    indexed = {n: x for n, x in outputs.items() if x.dtype == "float32" and ("gather" in n or n in ("skew", "swizzle"))}
    check({**{n: outputs[n] for n in chosen}, **joined(indexed)}, feeds, kind, close=True)


@pytest.mark.parametrize("kind", KINDS)
def test_work_is_divided_exactly(kind: str) -> None:
    sizes: list[tuple[int, ...]] = [(100003,), (3, 40009), (65, 257, 5), (2, 3, 5, 7, 11, 13)]
    xs = [input(f"x{n}", shape, "uint8") for n, shape in enumerate(sizes)]
    outputs = {f"y{n}": x.permute_dims(tuple(range(x.rank))[::-1]) + 1 for n, x in enumerate(xs)}
    outputs["padded"] = xs[1].pad(((1, 0), (3, 3)), 7)
    kernel = check(outputs, {f"x{n}": sample(shape, "uint8", n) for n, shape in enumerate(sizes)}, kind)
    assert kernel.source.count("__kernel") == len(outputs)


@pytest.mark.parametrize("kind", KINDS)
def test_turning_tiles(kind: str) -> None:
    """Transposes with operations and pads, odd sizes: tiles of a work-item, and of a group in local memory."""
    x, h = input("x", (2, 37, 5, 67), "float32"), input("h", (70, 45), "float16")
    outputs = {
        "nhwc": x.permute_dims((0, 2, 3, 1)), "back": x.flip(3).permute_dims((3, 2, 0, 1)),
        "padded": x.permute_dims((0, 2, 3, 1)).relu().pad(((0, 0), (1, 0), (2, 1), (0, 3)), 2),
        "half": h.permute_dims((1, 0)), "bool": (h < 1).permute_dims((1, 0)),
        "narrow": x.slice((0, 0, 0, 0), (2, 3, 5, 67)).permute_dims((0, 2, 3, 1)),
    }  # fmt: skip
    feeds = {"x": sample((2, 37, 5, 67), "float32"), "h": sample((70, 45), "float16")}
    source = check(outputs, feeds, kind).source
    assert source.count("__local") == (0 if kind == "cpu" else 5) and source.count("barrier(") == source.count(
        "__local"
    )


def test_a_group_that_holds_no_tile_uses_none() -> None:
    program = program_of({"y": input("x", (64, 64), "float32").permute_dims((1, 0))})
    device = Profile(kind="gpu", group=256, local_bytes=1 << 14)
    for small in (replace(device, group=128), replace(device, local_bytes=1 << 11)):
        assert "__local" in make_unit(program, {}, {}, device)[1].source
        assert "__local" not in make_unit(program, {}, {}, small)[1].source


@pytest.mark.usefixtures("quick")
def test_tiles_of_every_layout_hold_all_cells() -> None:  # feature: K4
    """Plain, padded and swizzled tiles: no two cells share a place, a column meets no bank twice, results are right."""
    x = input("x", (70, 45), "float32")
    program = program_of({"y": x.permute_dims((1, 0))})
    where, feed = open_device(), sample((70, 45), "float32")
    for name in LAYOUTS:
        for shape in ((32, 32), (16, 64), (64, 16), (3, 320), (45, 64)):
            assert layout(name, *shape, 2).is_injective(shape).verdict == "proved"
        lowered, unit, images = make_unit(program, {}, {}, replace(where.profile, kind="gpu", tile=name))
        assert f"tile[{1055 if name == 'padded' else 1024}]" in unit.source and (" ^ " in unit.source) == (
            name == "swizzled"
        )
        out = np.empty((45, 70), "float32")
        ClRunner(lowered, unit, images, where).run({"x": feed}, {"y": out})
        assert_same(out, feed.T, False, name)
    for size in (1, 2, 4, 8):
        assert conflicts(layout("padded", 64, 64, size), 64, 64, size) == (1, 1)
        assert conflicts(layout("swizzled", 32, 32, size), 32, 32, size) == (1, 1)


@pytest.mark.usefixtures("quick")
def test_a_work_item_of_a_busy_gpu_takes_several_positions() -> None:  # feature: K4
    """A whole number of blocks, one with a rest, and nests behind each other; little work is not put together."""
    shapes = {"whole": (256, 128), "rest": (181, 182), "less": (64, 8)}
    feeds = {name: sample(shape, "int16") for name, shape in shapes.items()}
    inputs = {name: input(name, shape, "int16") for name, shape in shapes.items()}
    around = {name: x.pad(((1, 2), (0, 1)), pad_value=-1) for name, x in inputs.items()}
    outputs = {name: x.flip(1) for name, x in inputs.items()} | {f"{n} padded": x for n, x in around.items()}
    where = open_device()
    group = max(where.profile.group, 256)
    profile = replace(where.profile, kind="gpu", units=2, group=group, whole_vectors=False)
    for name, y in outputs.items():
        source = name.split()[0]
        lowered, unit, images = make_unit(program_of({"y": y}), {}, {}, profile)
        assert ("item = first + k * 256" in unit.source) == (source != "less")
        want = feeds[source][:, ::-1]
        if "padded" in name:
            want = np.pad(feeds[source], ((1, 2), (0, 1)), constant_values=-1)
        out = np.full(want.shape, 99, "int16")
        ClRunner(lowered, unit, images, where).run({source: feeds[source]}, {"y": out})
        np.testing.assert_array_equal(out, want, name)


def wide_cases(dtype: str) -> dict[str, tuple[Tensor, str]]:
    """Moves for a GPU whose buffers begin at whole vectors, and what their kernels have ("" where that depends)."""
    x = input("x", (6, 10, 24), dtype)
    fill = True if dtype == "bool" else 1
    narrow = dtype not in ("float32", "float64")
    turned = "tile + " if narrow else "tile["
    return {
        "pad": (x.pad(((0, 0), (1, 1), (2, 2)), fill), "lanes["),
        "pad of rows": (x.pad(((1, 2), (0, 2), (0, 0)), fill), "const"),
        "odd pad": (x.pad(((0, 1), (1, 0), (1, 0)), fill), ""),
        "flip": (x.flip(2), "lanes[" if narrow else ""),
        "crop": (x.slice((1, 0, 8), (5, 10, 16)), "__global const"),
        "crop at odd places": (x.slice((0, 0, 3), (6, 10, 16)), "lanes[" if narrow else ""),
        "swap of rows": (x.permute_dims((1, 0, 2)), "__global const"),
        "arithmetic": ((x | True if dtype == "bool" else -x).pad(((0, 0), (0, 0), (0, 8)), fill), "lanes["),
        "turn": (x.reshape((60, 24)).permute_dims((1, 0)), turned),
        "turn of odd rows": (x.reshape((16, 90)).slice((0, 0), (16, 89)).permute_dims((1, 0)), "tile["),
        "turn with borders": (x.reshape((6, 240)).permute_dims((1, 0)).pad(((3, 0), (0, 10)), fill), "} else {"),
        "turn with whole borders": (x.reshape((6, 240)).permute_dims((1, 0)).pad(((8, 8), (0, 2)), fill), "} else {"),
        "side by side": (reductions.concat([x, x.flip(0)], 1), ""),
        "part": (reductions.concat([x.slice((0, 0, 0), (3, 1, 5)).reshape((15,)), x.reshape((1440,))], 0), ""),
        "parts": (reductions.concat([x.reshape((1440,)), x.flip(0).reshape((1440,))], 0), ""),
    }


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "dtype",
    ["int8", "float16", "float32", *(pytest.param(dtype, marks=pytest.mark.slow) for dtype in ("bool", "float64"))],
)
def test_vectors_where_buffers_begin_at_whole_ones(dtype: str) -> None:  # feature: K4
    """Pads in one pass, rows and words of narrow elements in vectors; the same bits, and no vector at an odd place."""
    where, feed = open_device(), sample((6, 10, 24), dtype)
    profile = replace(where.profile, kind="gpu", units=0, group=max(where.profile.group, 256), whole_vectors=True)
    cases = wide_cases(dtype)
    for name, (y, text) in cases.items():
        source, plain = (
            make_unit(program_of({"y": y}), {}, {}, p)[1].source
            for p in (profile, replace(profile, whole_vectors=False))
        )
        assert text in source, (name, source)
        assert not any(part in plain for part in ("lanes[", "tile + ", "*(__global"))
    program = program_of({name: y for name, (y, _) in cases.items()})
    want = evaluate_outputs(program, {"x": feed})
    out = {name: np.full(array.shape, 1, dtype) for name, array in want.items()}
    ClRunner(*make_unit(program, {}, {}, profile), where).run({"x": feed}, out)
    for name, array in want.items():
        assert_same(out[name], array, False, name)


def test_only_what_is_proved_independent_is_divided() -> None:
    x = input("x", (64, 100), "float32")
    assert "6400 work-items" in ClKernel(program_of({"y": x.flip(1)}), kind="gpu").header
    i, j, y = t.ax(0, 8), t.ax(1, 4), t.load("x", [t.ax(1, 4)], "int8")
    simplifier = IndexSimplifier()
    apart: list[tuple[Term, bool]] = [
        (4 * i + j, True), (5 * i + j, True), (3 * i + j, False), (i + 8 * j, True), (i + 7 * j, False), (j, False),
        (28 - 4 * i + j, True), (4 * (i // 2) + j, False), (8 * i + (j // 2) % 8, True), (2 * i + j % 3, False),
    ]  # fmt: skip
    for cell, expected in apart:
        assert independent((i,), For(j, Store("y", (cell,), y)), simplifier) is expected, str(cell)
    for both, expected in (((8 * i, 8 * i + 7), True), ((4 * i, 4 * i + 4), False), ((4 * i, 3 * i + 1), False)):
        stores = Seq(tuple(Store("y", (cell,), y) for cell in both))
        assert independent((i,), For(j, stores), simplifier) is expected, str(both)
    assert not independent((i,), For(j, Store("x", (4 * i + j,), y)), simplifier)


def test_accumulators_that_meet_stay_together() -> None:
    """acc[4] becomes one accumulator for each position only where every access is that of its own position."""
    v, k, width = t.ax(0, 4), t.ax(1, 3), BufferDecl("acc", (4,), "float32")
    clear, own = For(v, Store("acc", (v,), t.const(0.0, "float32"))), t.load("acc", [v], "float32")
    add = For(k, For(v, Store("acc", (v,), own + t.load("x", [4 * k + v], "float32"))))
    end = For(v, Store("y", (v,), own))
    found = split_accumulators(Alloc(width, Seq((clear, add, end))))
    assert found is not None and found.extent == 4
    text = "\n".join(format_stmt(found))
    assert text.count("acc[0]") == 4 and text.count("for") == 2
    other = For(v, Store("y", (v,), t.load("acc", [3 - v], "float32")))
    total = Store("y", (t.index_const(0),), t.load("acc", [t.index_const(0)], "float32"))
    mixed = For(v, Store("y", (v,), own + t.load("acc", [3 - v], "float32")))
    for last in (other, total, mixed, Seq((end, total))):
        assert split_accumulators(Alloc(width, Seq((clear, add, last)))) is None


def test_sources_are_deterministic() -> None:
    x = input("x", (5, 7), "float32")
    program = Program([x], {"y": x.softmax(1), "z": x.pad(1).permute_dims((1, 0))})
    assert ClKernel(program).source == ClKernel(program).source


def test_indices_are_64_bits_where_they_may_not_fit_32() -> None:
    x = input("x", (4,), "float32")

    def wide(i: t.Term) -> t.Term:
        return t.cast_to(t.binary("bitxor", i * (3 << 40), 1), "float32") + x[i]

    kernel = check({"y": compute((4,), wide)}, {"x": sample((4,), "float32")}, "cpu")
    assert "long i0" in kernel.source and "3298534883328" in kernel.source
    assert "long" not in check({"y": x.flip(0)}, {"x": sample((4,), "float32")}, "cpu").source


Made = tuple[tuple[Tensor, bool], ...]
FOUR = st.tuples(*(programs(f"x{n}", depth=6) for n in range(4)))


def random_programs(made: Made, kind: str) -> None:
    outputs = {f"y{n}": out for n, (out, _) in enumerate(made)}
    inputs = [x for out in outputs.values() for x in inputs_of(out)]
    feeds = {x.name: sample(tuple(int(str(d)) for d in x.shape), x.dtype, n) for n, x in enumerate(inputs)}
    check(outputs, feeds, kind, any(close for _, close in made))


@pytest.mark.usefixtures("quick")
@settings(max_examples=4, suppress_health_check=[*ANY, HealthCheck.function_scoped_fixture])
@given(FOUR, st.sampled_from(KINDS))
def test_random_programs(made: Made, kind: str) -> None:
    random_programs(made, kind)


@pytest.mark.slow
@settings(max_examples=100, suppress_health_check=ANY)
@given(FOUR, st.sampled_from(KINDS))
def test_many_random_programs(made: Made, kind: str) -> None:
    random_programs(made, kind)
