"""Threads of kernels: by OpenMP, and by POSIX threads where a compiler has none; forks, several callers, unloading."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import eqsat as eq
from eqsat.backends.c import cc
from eqsat.backends.c.kernel import CKernel

WRAPPER = """#!/bin/sh
for word in "$@"; do
    test "$word" = -fopenmp && exit 1
done
exec {compiler} -Wall -Wextra -Werror "$@"
"""
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX threads")


@pytest.fixture
def without_openmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that has no OpenMP."""
    wrapper = tmp_path / "compiler"
    wrapper.write_text(WRAPPER.format(compiler=" ".join(cc.find_compiler())))
    wrapper.chmod(0o700)
    monkeypatch.setenv("CC", str(wrapper))
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path / "cache"))


def moved() -> tuple[eq.Tensor, dict[str, np.ndarray]]:
    x = eq.input("x", (61, 40, 56), "float32")
    return x.permute_dims((1, 2, 0)), {"x": np.random.default_rng(0).random((61, 40, 56), np.float32)}


def reduced() -> tuple[eq.Tensor, dict[str, np.ndarray]]:
    """Rows of a softmax, beside a product, whose parts use local buffers of what is around them."""
    x, w = eq.input("x", (150, 300), "float32"), eq.input("w", (300, 70), "float32")
    rng = np.random.default_rng(1)
    feeds = {"x": rng.random((150, 300), np.float32), "w": rng.random((300, 70), np.float32)}
    return eq.matmul(x.softmax(1), w), feeds


def check(build: Callable[[], tuple[eq.Tensor, dict[str, np.ndarray]]], threads: int) -> CKernel:
    y, feeds = build()
    kernel = eq.compile(y, threads=threads)
    assert isinstance(kernel, CKernel) and kernel.source.count("run_parts(") > 3
    np.testing.assert_allclose(kernel(feeds), eq.evaluate(y, feeds), rtol=2e-5)
    return kernel


def tasks() -> int:
    return len(list(Path("/proc/self/task").iterdir())) if sys.platform == "linux" else 0


@posix
@pytest.mark.usefixtures("without_openmp")
def test_threads_without_openmp() -> None:
    """As many as were asked for, not more with each call, and the same results."""
    before = tasks()
    kernel = check(moved, 3)
    assert not sys.platform.startswith("linux") or tasks() == before + 2
    _, feeds = moved()
    for _ in range(50):
        kernel(feeds)
    assert not sys.platform.startswith("linux") or tasks() == before + 2
    check(reduced, 2)


@posix
@pytest.mark.usefixtures("without_openmp")
def test_several_callers_and_forks() -> None:
    """A caller that finds the threads busy does all itself; a forked process has threads of its own."""
    kernel = check(moved, 2)
    y, feeds = moved()
    want = eq.evaluate(y, feeds)
    wrong: list[int] = []

    def call(n: int) -> None:
        for _ in range(20):
            if not np.array_equal(kernel(feeds), want):
                wrong.append(n)

    callers = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for caller in callers:
        caller.start()
    child = os.fork()
    if child == 0:
        call(0)
        os._exit(len(wrong))
    for caller in callers:
        caller.join()
    assert os.waitpid(child, 0)[1] == 0 and not wrong


@posix
@pytest.mark.usefixtures("without_openmp")
@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc")
def test_no_thread_is_left_when_a_library_is_unloaded(tmp_path: Path) -> None:
    y, feeds = moved()
    made = eq.compile(y, threads=3)
    assert isinstance(made, CKernel)
    path = tmp_path / "unit.so"
    cc.build(made.source, path, cc.find_compiler(), ("-pthread",), ())
    before = tasks()
    library = ctypes.CDLL(str(path))
    out = np.empty((40, 56, 61), np.float32)
    function = getattr(library, next(n for n in made.header.split() if n.startswith("eqsat_")).split("(")[0])
    places = [feeds["x"].ctypes.data, out.ctypes.data, 0]
    assert function(*map(ctypes.c_void_p, places)) == 0 and tasks() == before + 2
    _ctypes.dlclose(library._handle)  # pyright: ignore[reportPrivateUsage]
    assert tasks() == before
    np.testing.assert_array_equal(out, feeds["x"].transpose(1, 2, 0))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs the ziglang wheel")
@pytest.mark.parametrize("target", ["x86_64-windows-gnu", "aarch64-linux-musl", "aarch64-macos"])
def test_compiles_for_other_systems(target: str, tmp_path: Path) -> None:
    made = eq.compile(moved()[0], threads=2)
    assert isinstance(made, CKernel)
    command = (sys.executable, "-m", "ziglang", "cc", "-target", target, "-Werror", "-c")
    source = tmp_path / "unit.c"
    source.write_text(made.source)
    subprocess.run([*command, "-o", str(tmp_path / "unit.o"), str(source)], check=True)
