"""Arrays beyond 2 GiB: offsets are computed in 64 bits, products of constants too."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Sequence
from math import prod

import numpy as np
import pytest

from eqsat.backends.compile import compile
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import input

NORESERVE = 0x4000
"""Linux: memory is not counted before it is written; a name for it comes with Python 3.13."""

PERMUTED: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = [
    ("uint8", (46341, 46349), (1, 0)),
    ("uint16", (65, 40000000), (1, 0)),
    ("int64", (134217728, 8), (1, 0)),
    ("uint64", (2, 65536, 40000000), (2, 0, 1)),
    ("int16", (134217728, 65, 2, 65, 4), (4, 3, 0, 1, 2)),
    ("int8", (724, 805306373), (1, 0)),
    ("uint16", (8, 31, 8589934599), (0, 2, 1)),
]


@pytest.mark.parametrize(("dtype", "shape", "order"), PERMUTED)
@pytest.mark.parametrize("threads", [1, 2])
def test_no_constant_of_a_large_kernel_overflows(
    dtype: str, shape: tuple[int, ...], order: tuple[int, ...], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the compiler can tell about kernels whose arrays are too large to be made here."""
    monkeypatch.setenv("EQSAT_CFLAGS", "-Werror=overflow -O0")
    x = input("x", shape, dtype)
    compile(x.permute_dims(order), threads=threads)
    if len(shape) == 2:
        compile(x.flip((0, 1)).permute_dims(order) + 1, threads=threads)


def _sparse(shape: Sequence[int], dtype: str) -> NDArray:
    """Zeros of which only the pages that are written take memory."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE
    return np.frombuffer(mmap.mmap(-1, prod(shape) * np.dtype(dtype).itemsize, flags=flags), dtype).reshape(shape)


CROPPED: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = [
    ("uint16", (128, 805306373), (65, 250), (1, 0)),
    ("uint16", (100, 805306373), (64, 7), (1, 0)),
    ("uint64", (64, 31, 65, 46349), (32, 16, 16, 2), (1, 3, 2, 0)),
    ("uint8", (200, 40000000), (130, 100), (1, 0)),
    ("uint32", (70, 3, 134217728), (64, 2, 33), (2, 1, 0)),
    ("uint8", (3, 1 << 31), (3, 1000), (1, 0)),
]


@pytest.mark.skipif(sys.platform != "linux", reason="sparse memory")
@pytest.mark.parametrize(("dtype", "shape", "sizes", "order"), CROPPED)
def test_the_far_corner_of_a_large_array(
    dtype: str, shape: tuple[int, ...], sizes: tuple[int, ...], order: tuple[int, ...]
) -> None:
    array = _sparse(shape, dtype)
    starts = [d - n for d, n in zip(shape, sizes, strict=True)]
    corner = array[tuple(slice(s, None) for s in starts)]
    corner[...] = np.random.default_rng(0).integers(1, 200, sizes)
    y = input("x", shape, dtype).crop(starts, sizes).permute_dims(order)
    np.testing.assert_array_equal(compile(y)(x=array), corner.transpose(order))
    np.testing.assert_array_equal(compile(y * 2)(x=array), (corner * 2).astype(dtype).transpose(order))
