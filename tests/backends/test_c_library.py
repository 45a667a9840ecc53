"""A compiled program as a C library: header and source under several compilers, called from C and from threads."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_checks import check, check_statements

import eqsat as eq
from eqsat.backends.c import program_cache
from eqsat.backends.c.cc import build, find_compiler, has_zig
from eqsat.backends.c.element_types import TYPE_NAMES
from eqsat.backends.c.kernel import CKernel
from eqsat.backends.c.library import numbers
from eqsat.backends.c.types import c_type
from eqsat.backends.c.unit import print_unit
from eqsat.backends.compile import compile
from eqsat.backends.interface import ProgramBuffer
from eqsat.backends.lowering.lower import lower
from eqsat.ir.dtypes import COMPLEX, NDArray
from eqsat.ir.tensors.tensor import Program, as_program

COMPILERS = {
    "gcc": ("gcc",) if shutil.which("gcc") else (),
    "clang": ("clang",) if shutil.which("clang") else (),
    "zig": (sys.executable, "-m", "ziglang", "cc") if has_zig() else (),
}
STRICT = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")


def network() -> CKernel:
    """Two outputs, constants, a gather by a table, reductions that share the workspace, an input of two names."""
    rng = np.random.default_rng(0)
    x = eq.input("x", (1, 4, 9, 9), "float32")
    w = eq.constant(rng.random((8, 4, 3, 3), np.float32) - np.float32(0.5))
    table = eq.constant(rng.permutation(8).astype("int64"))
    bias = eq.constant(np.array([0.5, -0.0, -0.25, 1e-42, 1, 2, 3, 4], "float32").reshape(1, 8, 1, 1))
    y = eq.conv2d(x, w, padding=1) + bias
    z = eq.conv2d(y.relu(), eq.constant(rng.random((8, 8, 1, 1), np.float32)))
    chosen = eq.compute((1, 8, 9, 9), lambda n, c, h, v: z[n, eq.cast(table[c], "index"), h, v])
    return CKernel(Program([x], {"y": y, "the picked": chosen}, name="Net 1"), 1)


MAIN = """
#include "net.h"
#include <stdio.h>
#include <stdlib.h>
#define BYTES(name) EQSAT_NET_1_##name##_BYTES
int main(void)
{
    float *x = malloc(BYTES(IN_X)), *y = malloc(BYTES(OUT_Y)), *z = malloc(BYTES(OUT_THE_PICKED));
    char *raw = malloc(EQSAT_NET_1_WORKSPACE_BYTES + 64);
    char *work = raw + (64 - (uintptr_t)raw % 64) % 64;
    if (!x || !y || !z || !raw || fread(x, 1, BYTES(IN_X), stdin) != BYTES(IN_X)) return 9;
    if (eqsat_net_1(NULL, y, z, work) != 1) return 11;
    if (eqsat_net_1(x, y, z, NULL) != 1) return 12;
    if (eqsat_net_1((const float *)(const void *)((const char *)x + 1), y, z, work) != 2) return 13;
    if (eqsat_net_1(x, y, z, work + 4) != 2) return 14;
    if (eqsat_net_1(x, x, z, work) != 3) return 15;
    if (eqsat_net_1(x, y, y + 1, work) != 3) return 16;
    if (eqsat_net_1(x, y, z, work) != 0) return 17;
    fwrite(y, 1, BYTES(OUT_Y), stdout);
    fwrite(z, 1, BYTES(OUT_THE_PICKED), stdout);
    free(x), free(y), free(z), free(raw);
    return 0;
}
"""


@pytest.mark.parametrize("name", COMPILERS)
def test_a_c_program_uses_header_and_source(name: str, tmp_path: Path) -> None:  # feature: K3
    command = COMPILERS[name]
    if not command:
        pytest.skip(f"{name} is not installed")
    k = network()
    assert len(re.findall(r"^int ", k.source, re.MULTILINE)) == 1
    (tmp_path / "net.h").write_text(k.header)
    # The source agrees with the header: both in one unit.
    (tmp_path / "net.c").write_text('#include "net.h"\n' + k.source)
    (tmp_path / "main.c").write_text(MAIN)
    files = [str(tmp_path / n) for n in ("net.c", "main.c")]
    done = subprocess.run([*command, *STRICT, *files, "-o", str(tmp_path / "net"), "-lm"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    x = np.random.default_rng(1).random((1, 4, 9, 9), np.float32)
    run = subprocess.run([str(tmp_path / "net")], input=x.tobytes(), capture_output=True)
    assert run.returncode == 0
    expected = k(x=x)
    size = 8 * 81 * 4
    for n, array in enumerate(expected.values()):
        got = np.frombuffer(run.stdout[n * size : (n + 1) * size], np.float32).reshape(array.shape)
        np.testing.assert_allclose(got, array, rtol=1e-5, atol=1e-6)
        assert np.isfinite(array).any()


def some_of_its_functions() -> str:
    """The source of a program of which a processor needs some functions only: rows interleaved, and a maximum."""
    x, p = eq.input("x", (17, 63, 5), "int8"), eq.input("p", (2, 18, 33), "float32")
    pooled = eq.compute((2, 9, 16), lambda n, i, j, a, b: p[n, 2 * i + a, 2 * j + b], reduce=(2, 2), combiner="max")
    return CKernel(Program([x, p], {"rows": x.permute_dims((2, 0, 1)), "pooled": pooled}), 1).source


def test_functions_that_a_processor_does_not_need_are_marked() -> None:
    """Clang says of a function that is called in another branch of the preprocessor only that it is not used."""
    parts = re.split(r"(?m)^#(if|endif)", some_of_its_functions())
    depth, always = 0, parts[0]
    for word, text in zip(parts[1::2], parts[2::2], strict=True):
        depth += 1 if word == "if" else -1
        always += "" if depth else text
    functions = re.findall(r"(?m)^static inline .*?(\w+)\(", always)
    assert any(always.count(f"{name}(") == 1 for name in functions)
    assert "#ifdef __clang__\n#pragma clang diagnostic ignored" in some_of_its_functions()


@pytest.mark.parametrize("name", COMPILERS)
@pytest.mark.parametrize("flags", [(), ("-march=native",)])
def test_functions_that_a_processor_does_not_need_are_no_warnings(
    name: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    if not COMPILERS[name]:
        pytest.skip(f"{name} is not installed")
    (tmp_path / "some.c").write_text(some_of_its_functions())
    command = [*COMPILERS[name], *STRICT, *flags, "-c", str(tmp_path / "some.c"), "-o", str(tmp_path / "some.o")]
    done = subprocess.run(command, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


@pytest.mark.parametrize("language", ["c", "c++"])
def test_headers_stand_alone(language: str, tmp_path: Path) -> None:
    compiler = shutil.which("gcc" if language == "c" else "g++")
    if compiler is None:
        pytest.skip("the compiler is not installed")
    x = eq.input("x", (4,), "float16")
    text = "".join(CKernel(Program([x], {"y": x + x}, name=n), 1).header for n in ("a", "b"))
    (tmp_path / "all.h").write_text(text + text)
    command = [compiler, "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-include"]
    done = subprocess.run([*command, str(tmp_path / "all.h"), "/dev/null"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()


def test_cpp_programs_call_functions_over_buffers(tmp_path: Path) -> None:
    """Headers say that the functions are C, which C++ would look for under other names."""
    compilers = shutil.which("gcc"), shutil.which("g++")
    if None in compilers:
        pytest.skip("the compilers are not installed")
    k = eq.compile(eq.PrimFunc.parse("func put(x: int32[1])\n  x[0] = x[0] + int32(41)"))
    (tmp_path / "put.h").write_text(k.header)
    (tmp_path / "put.c").write_text('#include "put.h"\n' + k.source)
    main = '#include "put.h"\nint main() { int32_t x = 1; return eqsat_put(&x, nullptr) || x != 42; }\n'
    (tmp_path / "main.cpp").write_text(main)
    steps = (["gcc", "-c", "put.c", "-o", "put.o"], ["g++", "main.cpp", "put.o", "-o", "put", "-lm"], ["./put"])
    for step in steps:
        done = subprocess.run(step, cwd=tmp_path, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()


def test_inputs_and_outputs_alone_reach_the_library() -> None:
    """An input that nothing reads is an argument too, a constant is none."""
    x, unused = eq.input("x", (3,), "float32"), eq.input("unused", (2,), "int8")
    k = CKernel(Program([unused, x], {"y": x + eq.constant(np.array([1, 2, 3], "float32"))}), 1)
    assert "int eqsat_program(const int8_t *in_unused, const float *in_x, float *out_y, void *workspace);" in k.header
    np.testing.assert_array_equal(k(x=np.zeros(3, "float32"), unused=np.zeros(2, "int8")), [1, 2, 3])


@pytest.mark.parametrize("count", [2, 12])
def test_overlapping_arguments_are_refused(count: int, tmp_path: Path) -> None:
    """Each output with each other argument, whether conditions or a loop compare them; inputs may be one."""
    inputs = [eq.input(n, (4,), "int32") for n in ("a", "b")]
    program = Program(inputs, {f"o{k}": inputs[k % 2] + k for k in range(count)})
    source = compile(program).source
    assert ("bytes[]" in source) == (count == 12)
    build(source, tmp_path / "unit.so", find_compiler(), ("-Werror", "-pedantic"))
    function = ctypes.CDLL(str(tmp_path / "unit.so")).eqsat_program
    function.argtypes = [ctypes.c_void_p] * (count + 3)
    memory = np.zeros((count + 2, 8), "int32")
    places = [int(memory[k].ctypes.data) for k in range(count + 2)]
    assert function(*places, 0) == 0
    assert function(places[0], *places[:1], *places[2:], 0) == 0
    for k in range(2, count + 2):
        for m in range(count + 2):
            moved = list(places)
            moved[k] = places[m] + 12
            assert function(*moved, 0) == (0 if m == k else 3)


def test_many_arguments_compile_quickly() -> None:
    x = eq.input("x", (64,), "float32")
    source = compile(Program([x], {f"o{k}": x + float(k) for k in range(80)})).source
    assert source.count("overlap(") == 2


EDGES: list[tuple[str, list[Any]]] = [
    ("float32", [0.1, -0.0, np.nan, np.inf, -np.inf, 1e-45, 3.4028235e38, 16777217]),
    ("float64", [0.1, -0.0, np.nan, np.inf, -np.inf, 5e-324, 1.7976931348623157e308]),
    ("float16", [0.1, -0.0, np.nan, np.inf, -np.inf, 6e-8, 65504]),
    ("int64", [-(1 << 63), (1 << 63) - 1, -1]),
    ("uint64", [(1 << 64) - 1, 0]),
    ("int8", [-128, 127]),
    ("bool", [True, False]),
]


def test_constants_are_read_back_exactly(tmp_path: Path) -> None:
    """The data of a library, copied out again by the library."""
    constants = {d: np.array(v, d) for d, v in EDGES}
    # One cell of each constant is chosen by an input: it stays data.
    at = eq.input("at", (9,), "int64")
    shapes = {d: (9, a.size) for d, a in constants.items()}

    def rows(d: str) -> eq.Tensor:
        c = eq.constant(constants[d])
        return eq.compute(shapes[d], lambda i, j: eq.where(at[i] == 7, c[c.shape[0] - 1 - j], c[j]))

    k = CKernel(Program([at], {d: rows(d) for d in constants}), 1)
    build(k.source, tmp_path / "all.so", find_compiler(), ("-Werror", "-Wconversion", "-pedantic"))
    function = ctypes.CDLL(str(tmp_path / "all.so")).eqsat_program
    outs = [np.zeros(shapes[d], d) for d in constants]
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (np.full(9, 7), *outs)]
    assert function(*pointers, None) == 0
    for out, array in zip(outs, constants.values(), strict=True):
        assert out.tobytes() == np.ascontiguousarray(np.broadcast_to(array[::-1], out.shape)).tobytes()


def test_numbers_in_c() -> None:
    cases = {
        "float32": ((1.5, -0.0, 2, 1e20, np.nan, -np.inf), "1.5f -0.0 2 1.00000002e+20f NAN (-INFINITY)"),
        "float64": ((0.1, -0.0, 2, 1e20, np.nan, -np.inf), "0.10000000000000001 -0.0 2 1e+20 NAN (-INFINITY)"),
    }
    for dtype, (values, text) in cases.items():
        assert numbers(np.array(values, dtype), dtype) == text.split()
    assert numbers(np.array([-(1 << 63)]), "int64") == ["INT64_MIN"]


def test_one_kernel_in_two_threads() -> None:  # feature: K3
    """Calls at the same time do not see each other: no global state, a workspace for each."""
    k = network()
    rng = np.random.default_rng(2)
    xs: list[NDArray] = [rng.random((1, 4, 9, 9), np.float32) for _ in range(24)]
    alone = [k(x=x) for x in xs]

    def call(x: NDArray) -> dict[str, NDArray]:
        return k(x=x)

    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            for a, b in zip(alone, pool.map(call, xs), strict=True):
                assert all(a[n].tobytes() == b[n].tobytes() for n in a)


def test_the_second_compile_is_read_from_the_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    x = eq.input("x", (3, 4), "float32")

    def program(weights: list[float], name: str = "x") -> Program:
        c = eq.constant(np.array(weights, "float32"))
        a = eq.input(name, (3, 4), "float32")
        return as_program((a + c).permute_dims((1, 0)))

    array = np.arange(12, dtype="float32").reshape(3, 4)
    first = compile(program([1, 2, 3, 4]))(x=array)
    compile(x.reshape((12,)).roll(3, 0).reshape((4, 3)))  # its index terms are simplified by rules

    def forbidden(*_: Any) -> Any:
        raise AssertionError("lowered again")

    monkeypatch.setattr("eqsat.backends.lowering.lower.lower_flat", forbidden)
    again = compile(program([1, 2, 3, 4]))
    np.testing.assert_array_equal(again(x=array), first)
    assert "constant_v1[4]" in again.source and again.header
    # Other data, names, threads or shapes are other programs; so is a file that is not intact.
    others: list[Any] = [program([1, 2, 3, 5]), program([1, 2, 3, 4], "y"), x.permute_dims((1, 0)), x + x]
    for other in others:
        with pytest.raises(AssertionError, match="lowered again"):
            compile(other)
    with pytest.raises(AssertionError, match="lowered again"):
        compile(program([1, 2, 3, 4]), threads=2)
    # A module that made it has another size or time now.
    made_by = {"/".join(Path(file).parts[-2:]) for file in program_cache.generator_state()}
    assert {"c/unit.py", "lowering/lower.py", "c/kernel.py", "terms/term.py"} <= made_by
    assert {"rules/index_arith.py", "rewriting/rewrite.py", "simplifying/normal_forms.py"} <= made_by
    with monkeypatch.context() as patch:
        state = program_cache.file_state

        def changed(file: str) -> list[int]:
            return [1, 2] if file.endswith("c/unit.py") else state(file)

        patch.setattr(program_cache, "file_state", changed)
        with pytest.raises(AssertionError, match="lowered again"):
            compile(program([1, 2, 3, 4]))
    compile(program([1, 2, 3, 4]))
    for file in (tmp_path / "programs").glob("*.json"):
        file.write_text(file.read_text().replace("kernel_0", "kernel_1"))
    with pytest.raises(AssertionError, match="lowered again"):
        compile(program([1, 2, 3, 4]))


def test_buffers_know_their_size() -> None:
    assert (
        ProgramBuffer("v0", (3, 4), "float16", "input").nbytes == 24
        and ProgramBuffer("v1", (2,), "index", "constant").nbytes == 16
    )


def blocks() -> Program:
    """The same block four times, then others; its constants, an index among them, differ."""
    rng = np.random.default_rng(3)
    x = eq.input("x", (6, 8), "float32")

    def mixed(z: eq.Tensor, table: eq.Tensor) -> Callable[[eq.Term, eq.Term], eq.Term]:
        return lambda i, j: z[eq.cast(table[i], "index"), j] + x[j % 6, i]

    y, outputs = x, dict[str, eq.Tensor]()
    for n in range(4):
        weights = eq.constant(rng.random((8, 8), np.float32))
        table = eq.constant(rng.permutation(6).astype("int64"))
        z = eq.matmul(y, weights).relu()
        y = eq.compute((6, 8), mixed(z, table))
        y = y.softmax(1)
        outputs[f"y{n}"] = y.permute_dims((1, 0))
    return Program([x], {**outputs, "sum": y.sum(0)})


def test_equal_kernels_are_built_and_printed_once() -> None:
    program = blocks()
    low = lower(program)
    assert len(low.duplicates) >= 9
    source = print_unit(low).source
    assert source.count("static void kernel_") <= len(low.steps) - len(low.duplicates)
    x = {"x": np.random.default_rng(4).random((6, 8), np.float32)}
    check_statements(program.outputs, x, close=True)
    check(program.outputs, x, close=True)


def test_sources_in_parts_are_the_same_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = blocks()
    x = {"x": np.random.default_rng(4).random((6, 8), np.float32)}
    whole = compile(program)
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    monkeypatch.setattr("eqsat.backends.c.unit.FUNCTIONS_PER_RUN", 2)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    split = CKernel(program, 1)
    parts = print_unit(lower(program)).parts
    assert len(parts) == 3 and split.source == whole.source
    for name, array in whole(x).items():
        assert array.tobytes() == split(x)[name].tobytes()


@pytest.mark.parametrize("name", sorted(TYPE_NAMES))
def test_no_function_has_the_name_of_a_type(name: str, tmp_path: Path) -> None:
    """A program or function that is called as a type in the C text is, under eqsat_."""
    shown = name.removeprefix("eqsat_")
    x, z = eq.input("x", (40,), "float16"), eq.input("z", (2, 3), "complex64")
    kernel = compile(Program([x, z], {"y": x.exp() + x, "w": z.T}, name=shown))
    assert isinstance(kernel, CKernel) and f"int {name}_(" in kernel.header
    a, b = np.linspace(-1, 1, 40, dtype="float16"), np.ones((2, 3), "complex64")
    found = kernel(x=a, z=b)
    np.testing.assert_allclose(found["y"], np.exp(a) + a, rtol=1e-2)
    np.testing.assert_array_equal(found["w"], b.T)
    f = eq.primfunc(shown)
    source, target = f.param("source", (40,), "float16"), f.param("target", (40,), "float16")
    with f.loop("i", 40) as i:
        target[i] = source[i] + source[i]
    twice = np.empty_like(a)
    eq.compile(f.build())(source=a, target=twice)
    np.testing.assert_array_equal(twice, a + a)


def test_the_names_of_types_are_known() -> None:
    """Those that any text of ours defines."""
    folder = Path(str(eq.__file__)).parent / "backends"
    text = "".join(p.read_text() for p in sorted(folder.rglob("*.py")))
    defined = {*re.findall(r"typedef [^;{]*?(eqsat_[a-z0-9_]+)", text), *map(c_type, COMPLEX, repeat("int64_t"))}
    assert defined == TYPE_NAMES
