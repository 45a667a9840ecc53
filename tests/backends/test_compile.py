"""Calling compiled programs: arguments, outputs, symbols, host operators, the compiler and its cache."""

from __future__ import annotations

import gc
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from kernel_checks import sample
from numpy.lib.stride_tricks import as_strided

from eqsat.backends.c import cc
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.c.unit import print_unit
from eqsat.backends.compile import compile
from eqsat.backends.interface import HostCall, ProgramBuffer
from eqsat.backends.lowering.lower import lower
from eqsat.backends.lowering.lowered import plan_parts
from eqsat.backends.machine import Machine
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import BackendError, EqsatError, EvaluationError
from eqsat.ir.tensors import library, reductions
from eqsat.ir.tensors.tensor import Opaque, Program, Tensor, as_program, compute, constant, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term

TARGETS = ["c", "numpy"]


def double(shape: Any = (3, 4), dtype: str = "float32") -> Tensor:
    x = input("x", shape, dtype)
    return x + x


@pytest.mark.smoke
@pytest.mark.parametrize("target", TARGETS)
def test_strided_readonly_swapped_and_unaligned_inputs(target: str) -> None:
    k = compile(double(), target)
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
        np.testing.assert_array_equal(k(x=array), 2 * before, err_msg=name)
        np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("target", TARGETS)
def test_out_is_written_and_returned(target: str) -> None:
    x = input("x", (3, 4), "float32")
    one, two = compile(x + x, target), compile(Program([x], {"a": x + x, "b": x.permute_dims((1, 0))}), target)
    array = sample((3, 4), "float32")
    out = np.empty((3, 4), "float32")
    assert one({"x": array}, out=out) is out
    np.testing.assert_array_equal(out, array + array)
    outs = {"a": np.empty((3, 4), "float32"), "b": np.empty((4, 3), "float32")}
    assert two(x=array, out=outs)["b"] is outs["b"]
    np.testing.assert_array_equal(outs["b"], array.T)


def strided_arrays(shape: tuple[int, int], dtype: str) -> dict[str, NDArray]:
    """Arrays of a shape that are not dense row-major memory, one of them at an address that is not aligned."""
    h, w = shape
    raw = np.zeros(h * w * np.dtype(dtype).itemsize + 1, np.uint8)
    return {
        "slice": np.zeros((2 * h, 2 * w), dtype)[::2, 1::2], "transposed": np.zeros((w, h), dtype).T,
        "negative": np.zeros(shape, dtype)[::-1, ::-1], "unaligned": raw[1:].view(dtype).reshape(shape),
    }  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_strided_out(target: str) -> None:
    """Arrays with strides are filled where they lie, and nothing beside them; also beside an input in one array."""
    x = input("x", (5, 7), "int16")
    kernel = compile(Program([x], {"a": x.permute_dims((1, 0)), "b": x + x}), target)
    array = sample((5, 7), "int16")
    for name, out in strided_arrays((5, 7), "int16").items():
        dense = np.zeros((7, 5), "int16")
        result = kernel(x=array, out={"a": dense, "b": out})
        assert result["b"] is out and result["a"] is dense
        np.testing.assert_array_equal(out, array + array, err_msg=name)
        np.testing.assert_array_equal(dense, array.T)
        out[...] = 0
        kernel.bind(x=array, out={"a": dense, "b": out})()
        np.testing.assert_array_equal(out, array + array, err_msg=name)
    whole = np.zeros((5, 14), "int16")
    whole[:, ::2] = array
    compile(x + x, target)(x=whole[:, ::2], out=whole[:, 1::2])
    np.testing.assert_array_equal(whole[:, ::2], array)
    np.testing.assert_array_equal(whole[:, 1::2], array + array)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_arrays_that_numpy_calls_aligned(dtype: str) -> None:
    """Complex numbers are aligned to their parts for numpy: elsewhere than at whole elements they are copied."""
    x = input("x", (5, 7), dtype)
    parts = np.random.default_rng(0).normal(size=(2, 71)).astype("float32" if dtype == "complex64" else "float64")
    array, out = (row[1:].view(dtype).reshape(5, 7) for row in parts)
    want = array.T.copy()
    compile(x.permute_dims((1, 0)))(x=array, out=out.reshape(7, 5))
    np.testing.assert_array_equal(out.reshape(7, 5), want)


WRONG_CALLS: list[tuple[str, Callable[[CKernel, NDArray], Any]]] = [
    ("expected float32", lambda k, a: k(x=a.astype("float64"))),
    ("extent 4, expected 3", lambda k, a: k(x=a.T)),
    ("expected float32", lambda k, a: k(x=a[0])),
    ("missing inputs", lambda k, a: k()),
    ("unknown inputs", lambda k, a: k(x=a, y=a)),
    ("by name", lambda k, a: k(a)),
    ("is no array", lambda k, a: k(x=[[0.0], [1.0, 2.0]])),
    ("by name", lambda k, a: k({"x": a}, x=a)),
    ("shares memory", lambda k, a: k(x=a, out=a)),
    ("shares memory", lambda k, a: k(x=a[:, ::-1], out=a)),
    ("elements that share memory", lambda k, a: k(x=a, out=as_strided(np.zeros(9, "float32"), (3, 4), (8, 4)))),
    ("elements that share memory", lambda k, a: k(x=a, out=as_strided(np.zeros(4, "float32"), (3, 4), (0, 4)))),
    ("expected float32", lambda k, a: k(x=a, out=np.empty((3, 5), "float32"))),
    ("expected float32", lambda k, a: k(x=a, out=np.empty((3, 4), ">f4"))),
    ("read-only", lambda k, a: k(x=a, out=np.broadcast_to(np.float32(0), (3, 4)).copy().view(ReadOnly))),
    ("not a numpy array", lambda k, a: k(x=a, out=[0.0])),
    ("out must give", lambda k, a: k(x=a, out={"other": a})),
]  # fmt: skip


class ReadOnly(np.ndarray[Any, Any]):
    """An array that is never writeable."""

    def __array_finalize__(self, obj: Any) -> None:
        self.flags.writeable = False


@pytest.mark.parametrize("number", range(len(WRONG_CALLS)))
def test_wrong_arguments_are_refused_before_anything_runs(number: int) -> None:
    message, call = WRONG_CALLS[number]
    array = np.arange(12, dtype="float32").reshape(3, 4)
    with pytest.raises(EqsatError, match=message):
        call(CKernel(as_program(double()), 1), array)
    np.testing.assert_array_equal(array, np.arange(12, dtype="float32").reshape(3, 4))


@pytest.mark.parametrize("target", TARGETS)
def test_empty_and_rank_zero(target: str) -> None:
    assert compile(double((0, 4)), target)(x=np.empty((0, 4), "float32")).shape == (0, 4)
    assert compile(double(()), target)(x=np.float32(2)).shape == ()
    nothing = compile(double((0,)).sum(), target)(x=np.empty(0, "float32"))
    assert nothing.shape == () and nothing == 0


HOSTILE = [
    '"; system("x")', "*/ int main", "in0", "out0", "int", "\n#include <x>", "ünïcode", "a b", "out", "??/", "x" * 5000
]  # fmt: skip


def test_hostile_names_reach_no_code() -> None:
    xs = [input(name, (2,), "int32") for name in HOSTILE]
    outputs = {name: x + n for n, (name, x) in enumerate(zip(HOSTILE, xs, strict=True))}
    program = Program(xs, outputs, name='*/ "evil"\n')
    k = compile(program)
    result = k({name: np.array([1, 2], "int32") for name in HOSTILE})
    assert [int(result[name][0]) for name in HOSTILE] == list(range(1, len(HOSTILE) + 1))
    text = k.source + k.header
    assert "system(" not in text and '"x"' not in text and "#include <x>" not in text and '"evil"' not in text
    assert text.isascii() and k.header.count("*/") == 2


def test_constants_are_data_or_literals() -> None:
    """What is compiled for Python has no data in it: it takes constants as arguments."""
    x = input("x", (1000,), "float32")
    weights = np.arange(1000, dtype="float32")
    k = compile(x * constant(weights, name="w*/") + constant(np.float32(0.5)))
    assert " 999\n" in k.source and "0.5f" in k.source and "w*/" not in k.source + k.header
    assert " 999\n" not in print_unit(k.lowered).source if isinstance(k, CKernel) else False
    np.testing.assert_array_equal(k(x=weights), weights * weights + np.float32(0.5))


@pytest.mark.parametrize("target", TARGETS)
def test_bound_calls_hold_what_they_work_on(target: str) -> None:
    x = input("x", (3, 5), "float32")
    kernel = compile(as_program(x.permute_dims((1, 0)) + 1), target=target)
    a, out = np.arange(15, dtype="float32").reshape(3, 5), np.empty((5, 3), "float32")
    call = kernel.bind(x=a, out=out)
    assert call() is None
    np.testing.assert_array_equal(out, a.T + 1)
    a += 10
    call()
    np.testing.assert_array_equal(out, a.T + 1)
    # The copies of inputs that are not dense belong to the call alone.
    call = kernel.bind(x=np.arange(30, dtype="float32").reshape(3, 10)[:, ::2], out=out)
    gc.collect()
    # Whatever memory was let go of is used for something else now.
    others = [np.full((3, 5), -1, "float32") for _ in range(100)]
    call()
    np.testing.assert_array_equal(out, np.arange(0, 30, 2).reshape(3, 5).T + 1)
    assert all((other == -1).all() for other in others)
    with pytest.raises(EvaluationError, match="has no out="):
        kernel.bind(x=a)


@pytest.mark.parametrize("target", TARGETS)
def test_symbols_are_specialised_at_the_call(target: str) -> None:
    n = t.sym("N")
    x = input("x", (n, 3), "float32")
    k = compile(x.permute_dims((1, 0)).sum(1), target)
    for rows in (1, 5, 2, 5):
        array = np.arange(rows * 3, dtype="float32").reshape(rows, 3)
        np.testing.assert_array_equal(k(x=array), array.sum(0))
    with pytest.raises(EqsatError, match="N is unknown"):
        lower(Program([x], {"y": x.permute_dims((1, 0))}))
    with pytest.raises(BackendError, match="no value yet"):
        _ = compile(double((n,))).source
    with pytest.raises(EvaluationError):
        k(x=np.empty((0, 3), "float32"))


@pytest.mark.parametrize("target", TARGETS)
def test_a_symbol_of_an_input_that_nothing_reads(target: str) -> None:
    n = t.sym("N")
    x, z = input("x", (n,), "float32"), input("z", (2,), "float32")
    k = compile(Program([x, z], {"y": z + 1}), target)
    for rows in (1, 3):
        found = k(x=np.ones(rows, "float32"), z=np.arange(2, dtype="float32"))
        np.testing.assert_array_equal(found, [1, 2])


def test_host_operators_run_between_kernels() -> None:
    x = input("x", (3, 4), "float32")
    calls: list[tuple[int, ...]] = []

    def order(a: NDArray) -> list[NDArray]:
        calls.append(a.shape)
        a[...] += 0
        return [np.sort(a, axis=1), np.argsort(a, axis=1, kind="stable")]

    types = [((4, 3), "float32"), ((4, 3), "int64")]
    values, places = library.opaque("Sort", [x.permute_dims((1, 0)) * 2], types, impl=order)
    program = Program([x], {"v": values + 1, "p": places, "x2": x * 2})
    k = compile(program)
    array = sample((3, 4), "int8").astype("float32")
    result = k(x=array)
    np.testing.assert_array_equal(result["v"], np.sort(array.T * 2, axis=1) + 1)
    np.testing.assert_array_equal(result["p"], np.argsort(array.T * 2, axis=1, kind="stable"))
    assert calls == [(4, 3)] and k.workspace_bytes >= 96 and "eqsat_program_1" in k.header

    def first_row(a: NDArray) -> NDArray:
        return a[0]

    (bad,) = library.opaque("Bad", [x], [((3, 4), "float32")], impl=first_row)
    with pytest.raises(EvaluationError, match="declared"):
        compile(bad)(x=array)
    (unknown,) = library.opaque("Mystery", [x], [((3, 4), "float32")])
    with pytest.raises(BackendError, match="Mystery"):
        compile(unknown)


def test_parts_of_a_workspace_are_the_same_or_apart() -> None:
    """Buffers alive at the same time have different parts; parts do not overlap, and none lies outside."""
    rng = np.random.default_rng(4)
    for _ in range(60):
        spans = {f"b{n}": sorted(rng.integers(0, 6, 2).tolist()) for n in range(8)}
        buffers = {b: ProgramBuffer(b, (int(rng.integers(0, 300)),), "uint8", "workspace", "") for b in spans}
        touched = [tuple(b for b, (i, j) in spans.items() if i <= k <= j) for k in range(6)]
        planned, total = plan_parts(buffers, [HostCall(cast(Opaque, None), names, ()) for names in touched], 64)
        for one, two in combinations(planned.values(), 2):
            apart = one.offset + one.nbytes <= two.offset or two.offset + two.nbytes <= one.offset
            assert apart or one.offset == two.offset
            assert one.offset != two.offset or not any({one.name, two.name} <= {*names} for names in touched)
        assert all(b.offset % 64 == 0 and b.offset + b.nbytes <= total for b in planned.values())


def test_workspace_is_reused() -> None:
    x = input("x", (64, 64), "float32")
    y = x
    for _ in range(7):
        y = reductions.matmul(y, x) * 0.125
    low = lower(Program([x], {"y": y}))
    used = [b for b in low.buffers.values() if b.role == "workspace"]
    assert len(used) >= 6 and low.workspace_bytes == 2 * 64 * 64 * 4
    lives = {b.name: [n for n, s in enumerate(low.steps) if b.name in getattr(s, "params", ())] for b in used}
    for a in used:
        for b in used:
            apart = a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset
            assert a is b or apart or lives[a.name][-1] < lives[b.name][0] or lives[b.name][-1] < lives[a.name][0]


def test_wrong_options() -> None:
    y = double()
    with pytest.raises(BackendError, match="unknown"):
        compile(y, "cuda")
    with pytest.raises(BackendError, match="positive"):
        compile(y, threads=0)
    with pytest.raises(BackendError, match="one variant"):
        compile(y, "numpy", tune=True)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("unknown", {"target": ["c"]}), ("more than", {"threads": 1 << 31}), ("neither True", {"tune": "no"}),
        ("not a dict", {"buffers": 3}),
    ]  # fmt: skip
    for message, options in wrong:
        with pytest.raises(BackendError, match=message):
            compile(y, **options)


@pytest.mark.parametrize("target", TARGETS)
def test_results_are_the_callers_own(target: str) -> None:
    """An output that is an input, a constant or another output is a copy."""
    array = np.arange(12, dtype="float32").reshape(3, 4)
    x, fixed = input("x", (3, 4), "float32"), constant(array)
    kernel = compile(Program([x], {"a": x, "b": x, "c": fixed, "d": x.permute_dims((1, 0))}), target)
    for _ in range(2):
        found = kernel(x=array)
        for name in ("a", "b", "c"):
            np.testing.assert_array_equal(found[name], np.arange(12, dtype="float32").reshape(3, 4))
        np.testing.assert_array_equal(found["d"], array.T)
        for part in found.values():
            part += 1


@pytest.mark.parametrize("target", TARGETS)
def test_every_name_is_an_argument(target: str) -> None:
    names = ("self", "args", "arrays", "x")
    inputs = [input(n, (2,), "int32") for n in names]
    program = Program(inputs, {x.name: x + 1 for x in inputs})
    found = compile(program, target)(**{n: np.full(2, k, "int32") for k, n in enumerate(names)})
    assert {n: a.tolist() for n, a in found.items()} == {n: [k + 1] * 2 for k, n in enumerate(names)}
    with pytest.raises(EvaluationError, match="in a dict"):
        compile(input("out", (2,), "int32") + 1, target)(out=np.ones(2, "int32"))


def test_missing_and_broken_compilers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(BackendError, match=r"/nowhere/cc.*is not a program"):
        compile(double())
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cc, "has_zig", lambda: False)
    with pytest.raises(BackendError, match="no C compiler"):
        compile(double())
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo line $i >&2; done; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(BackendError, match=r"line 12\n\.\.\. 3 more lines"):
        compile(double())
    assert not list((tmp_path / "objects").iterdir())


NO_ARROW = """#!/bin/sh
for word; do
  if [ "$word" = -march=native ]; then
    for other; do case "$other" in *%s*) echo "no such arrow" >&2; exit 1;; esac; done
  fi
done
exec %s "$@"
"""
"""A compiler that fails for this processor where an argument holds some text."""


@pytest.mark.parametrize(("where", "said"), [("unit", True), (".c", False)])
def test_what_fails_for_this_processor_is_told(
    where: str, said: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A compiler without the flag is asked without it, and nobody needs to know; one that fails is slow, and told."""
    real = " ".join(cc.find_compiler())
    compiler = tmp_path / "compiler"
    compiler.write_text(NO_ARROW % (where, real))
    compiler.chmod(0o700)
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", str(compiler))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        made = compile(double())
    np.testing.assert_array_equal(made(x=np.ones((3, 4), "float32")), np.full((3, 4), 2, "float32"))
    assert [w.category for w in found] == [cc.CompilerWarning] * said
    assert not said or re.search(r"for this processor.*slower; check CC.*\n.*no such arrow", str(found[0].message))


def test_objects_are_cached_and_corrupt_ones_rebuilt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    builds: list[Path] = []
    real = cc.build

    def counted(source: str, target: Path, *rest: Any) -> None:
        builds.append(target)
        real(source, target, *rest)

    monkeypatch.setattr(cc, "build", counted)
    array = np.arange(12, dtype="float32").reshape(3, 4)
    for expected, damage in ((1, b""), (1, b"torn"), (2, None), (2, b"")):
        np.testing.assert_array_equal(compile(double())(x=array), 2 * array)
        assert len(builds) == expected
        if damage is not None and expected == 1 and damage:
            # A new file: the old one is mapped into this process.
            (kept,) = (tmp_path / "objects").glob("*.so")
            kept.unlink()
            kept.write_bytes(damage)
    assert sorted(p.suffix for p in (tmp_path / "objects").iterdir()) == [".so", ".sum"]
    monkeypatch.setenv("EQSAT_CFLAGS", "-O0")
    compile(double())(x=array)
    assert len(builds) == 3


def test_another_compiler_makes_other_objects(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A compiler is known by its files: a new one in the place of an old one is another."""
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "bin"
    folder.mkdir()
    compiler, real = folder / "compiler", " ".join(cc.find_compiler())
    monkeypatch.setenv("CC", "compiler")
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    objects: list[int] = []
    for text in (f'exec {real} "$@"\n', f'exec {real} "$@"\n', f'# new\nexec {real} "$@"\n'):
        if not compiler.exists() or compiler.read_text() != "#!/bin/sh\n" + text:
            compiler.write_text("#!/bin/sh\n" + text)
            compiler.chmod(0o700)
        np.testing.assert_array_equal(compile(double())(x=np.ones((3, 4), "float32")), np.full((3, 4), 2, "float32"))
        objects.append(len(list((tmp_path / "cache" / "objects").glob("*.so"))))
    assert objects == [1, 1, 2]


def test_a_cached_program_needs_few_modules() -> None:
    """What runs a compiler, and what lowers and prints, is not imported where nothing is compiled."""
    code = """
import sys, eqsat
y = eqsat.input("x", (3, 4), "float32") * 2
eqsat.compile(y)
modules = (
    "subprocess", "tempfile", "shutil", "concurrent.futures", "eqsat.backends.lowering.lower", "eqsat.backends.c.unit"
)
print([module for module in modules if module in sys.modules])
"""
    run = [subprocess.run((sys.executable, "-c", code), capture_output=True, text=True, check=True) for _ in range(2)]
    assert run[1].stdout == "[]\n"


@pytest.mark.filterwarnings("ignore::eqsat.backends.cache.CacheWarning")
def test_an_unwritable_cache_is_only_slower(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    monkeypatch.setenv("EQSAT_CACHE", str(occupied))
    np.testing.assert_array_equal(compile(double())(x=np.ones((3, 4), "float32")), np.full((3, 4), 2, "float32"))
    assert occupied.read_text() == ""


def test_an_index_too_wide_is_refused_by_name() -> None:
    x = input("x", (4,), "float32")

    def wide(i: Term) -> Term:
        return t.cast_to(t.binary("bitxor", i * (3 << 62), 1), "float32") + x[i]

    y = compute((4,), wide)
    with pytest.raises(BackendError, match="may not fit 64 bits"):
        compile(y)
    compile(input("x", ((1 << 61) - 1,), "float32").slice((5,), (1,)))
    with pytest.raises(BackendError, match=r"input x.*more than pointers reach"):
        compile(input("x", (1 << 61,), "float32").slice((5,), (1,)))


# feature: K5
def test_sources_are_deterministic(golden: Callable[[str, str], None]) -> None:
    x = input("x", (1, 32, 6, 7), "float32")
    bits = input("bits", (40, 64), "uint8")
    image, a, b = input("image", (4, 6, 3), "uint8"), input("a", (5, 7), "float32"), input("b", (7, 6), "float32")
    blocked = x.pad(((0, 0), (0, 0), (1, 1), (1, 1))).relu().reshape((1, 2, 16, 8, 9)).permute_dims((0, 1, 3, 4, 2))
    scaled = ((image.cast("float32") - 127.5) / 255.0).permute_dims((2, 0, 1)).cast("float16")
    chosen = {
        "pad_relu_nchw16c": Program([x], {"y": blocked}),
        "image_to_half": Program([image], {"y": scaled}),
        "matmul": Program([a, b], {"y": reductions.matmul(a, b)}),
        "concat_roll": Program([a], {"y": reductions.concat([a.roll(2, 1), a.flip(0)], 0)}),
        "softmax": Program([a], {"y": a.softmax(1)}),
        "rotated_rows": Program([bits], {"y": compute((40, 64), lambda i, j: bits[i, (i + j) % 64])}),
        "swizzled_rows": Program([bits], {"y": compute((40, 64), lambda i, j: bits[i, j ^ i % 32])}),
    }
    for name, program in chosen.items():
        k = CKernel(program, 1, Machine())
        assert k.source == CKernel(program, 1, Machine()).source
        golden(k.source, f"{name}.c")
    golden(compile(chosen["softmax"]).header, "softmax.h")


# feature: K5
def test_sources_of_moves(golden: Callable[[str, str], None]) -> None:
    """One small kernel of each kind; those named large stream, because the machine has a tiny last cache."""
    x, image = input("x", (2, 64, 6, 7), "float32"), input("image", (2, 3, 8, 10), "uint8")
    matrix, heads = input("m", (160, 96), "float32"), input("h", (2, 49, 3, 32), "float16")
    blocked = x.reshape((2, 4, 16, 6, 7)).permute_dims((0, 1, 3, 4, 2))
    pairs = matrix.reshape((2, 80, 96)).permute_dims((1, 2, 0))
    padded = image.pad(((0, 0), (0, 13), (0, 0), (0, 0))).reshape((2, 1, 16, 8, 10)).permute_dims((0, 1, 3, 4, 2))
    chosen = {
        "nchw_nhwc": x.permute_dims((0, 2, 3, 1)), "nchw_nchw16c": blocked,
        "rgb_nchw16c": padded, "rgb_nhwc": image.permute_dims((0, 2, 3, 1)), "heads": heads.permute_dims((0, 2, 1, 3)),
        "pad_rows": x.pad(((0, 0), (0, 0), (1, 1), (1, 1)), 1), "interleave": pairs,
        "large_transpose": matrix.permute_dims((1, 0)), "large_heads": heads.permute_dims((0, 2, 1, 3)),
        "large_nchw16c": blocked,
    }  # fmt: skip
    for name, y in chosen.items():
        machine = Machine(last=1 << 10) if name.startswith("large") else Machine()
        golden(CKernel(as_program(y), 1, machine).source, f"{name}.c")
