"""C of the benchmark's own: a reader of memory, copies as a roof, and building such texts."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from eqsat.ir.dtypes import NDArray

Call = Callable[[], object]
LINE = 64

MEMORY = r"""
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

/* The sum of all words: what follows a kernel has to bring its output into the processor. */
uint64_t read_all(const uint64_t *p, size_t words, int threads) {
  uint64_t sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(threads) if (threads > 1)
  for (size_t i = 0; i < words; i++) sum += p[i];
  return sum;
}

static void with_library(char *d, const char *s, size_t n) { memcpy(d, s, n); }

static void with_vectors(char *d, const char *s, size_t n) {
  size_t i = 0;
#if defined(__AVX512F__)
  for (; i + 64 <= n; i += 64) _mm512_storeu_si512(d + i, _mm512_loadu_si512(s + i));
#elif defined(__AVX__)
  for (; i + 64 <= n; i += 64) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(s + i)), b = _mm256_loadu_si256((const __m256i *)(s + i + 32));
    _mm256_storeu_si256((__m256i *)(d + i), a), _mm256_storeu_si256((__m256i *)(d + i + 32), b);
  }
#endif
  memcpy(d + i, s + i, n - i);
}

static void past_caches(char *d, const char *s, size_t n) {
  size_t i = 0;
#if defined(__AVX__)
  for (; i + 64 <= n; i += 64) {
    __m256i a = _mm256_loadu_si256((const __m256i *)(s + i)), b = _mm256_loadu_si256((const __m256i *)(s + i + 32));
    _mm256_stream_si256((__m256i *)(d + i), a), _mm256_stream_si256((__m256i *)(d + i + 32), b);
  }
  _mm_sfence();
#endif
  memcpy(d + i, s + i, n - i);
}

/* n is cut at whole lines, one part for each thread; d is aligned to a line. */
#define PARALLEL(name, part)                                                      \
  void name(char *d, const char *s, size_t n, int threads) {                      \
    if (threads == 1) { part(d, s, n); return; }                                  \
    size_t step = (n / (size_t)threads + 64) / 64 * 64;                           \
    _Pragma("omp parallel for num_threads(threads)")                              \
    for (int t = 0; t < threads; t++) {                                           \
      size_t from = step * (size_t)t, to = from + step < n ? from + step : n;     \
      if (from < to) part(d + from, s + from, to - from);                         \
    }                                                                             \
  }
PARALLEL(copy_library, with_library)
PARALLEL(copy_vectors, with_vectors)
PARALLEL(copy_stream, past_caches)
"""
# -fno-builtin patterns: a loop of vector copies must not become a call of memcpy.
MEMORY_FLAGS = ("-fopenmp", "-fno-tree-loop-distribute-patterns")
COPIES = ("copy_library", "copy_vectors", "copy_stream")


def compiler(language: str = "c") -> str | None:
    """The C or C++ compiler: $CC or $CXX, else gcc or g++, else clang."""
    named, names = ("CC", ("gcc", "clang")) if language == "c" else ("CXX", ("g++", "clang++"))
    return os.environ.get(named) or next((name for name in names if shutil.which(name)), None)


def build(text: str, flags: Sequence[str] = (), language: str = "c") -> ctypes.CDLL:
    """The loaded library of a C or C++ text, compiled with -O3 for this machine."""
    command = compiler(language)
    if command is None:
        raise RuntimeError(f"no {language} compiler: install gcc or clang")
    with tempfile.TemporaryDirectory(prefix="kernels-") as folder:
        source, made = Path(folder) / f"unit.{language}", Path(folder) / "unit.so"
        source.write_text(text)
        line = [command, "-O3", "-march=native", "-fPIC", "-shared", "-o", str(made), str(source), *flags]
        done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command} failed: {done.stderr[:2000]}")
        try:
            return ctypes.CDLL(str(made))
        except OSError as error:
            # A library that it needs, or that one of those needs, is missing.
            raise RuntimeError(f"cannot be loaded: {error}") from error


@lru_cache(maxsize=1)
def memory() -> ctypes.CDLL:
    """The reader and the copies."""
    return build(MEMORY, MEMORY_FLAGS)


def address(array: NDArray) -> ctypes.c_void_p:
    """Where an array lies."""
    return ctypes.c_void_p(array.ctypes.data)


def aligned(shape: Sequence[int], dtype: str) -> NDArray:
    """A dense array that begins at a cache line, every page of it touched."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    raw.fill(0xA5)
    return raw[start : start + size].view(dtype).reshape(tuple(shape))


def reader(array: NDArray, threads: int) -> Call:
    """A call that reads the whole array."""
    function = memory().read_all
    function.restype = ctypes.c_uint64
    return partial(function, address(array), ctypes.c_size_t(array.nbytes // 8), ctypes.c_int(threads))


def copy_of(name: str, target: NDArray, source: NDArray, threads: int) -> Call:
    """A call that copies one array onto another, in one of the ways of :data:`COPIES`."""
    function = getattr(memory(), name)
    function.restype = None
    size = ctypes.c_size_t(min(source.nbytes, target.nbytes))
    return partial(function, address(target), address(source), size, ctypes.c_int(threads))
