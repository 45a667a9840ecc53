"""OpenCL kernels beside the C target and a copy by 16-wide vectors, measured in turns.

    python benchmarks/opencl.py [ROUNDS]

GB/s, bytes read plus written, median of the rounds, all calls from numpy arrays to numpy arrays: `copy` is numpy's,
`vec16` an OpenCL kernel of vload16 and vstore16, `c` target "c" with as many threads as the device has units.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from eqsat.backends.compile import compile
from eqsat.backends.opencl.device import build, open_device, opencl
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Tensor, input

VEC16 = """__kernel void vec16(__global const float *restrict in, __global float *restrict out)
{
    vstore16(vload16(get_global_id(0), in), get_global_id(0), out);
}"""


def turned(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str = "float32") -> Tensor:
    """A transposed input."""
    return input("x", shape, dtype).permute_dims(axes)


def packed(shape: tuple[int, ...], source: str, target: str, pad: float | None = None) -> Tensor:
    """An input in another layout."""
    return input("x", shape, "float32").layout_transform(source, target, pad_value=pad)


CASES: dict[str, Tensor] = {
    "copy 2048 x 2048": input("x", (2048, 2048), "float32").slice((0, 0), (2048, 2048)),
    "2-D 512 x 512": turned((512, 512), (1, 0)),
    "2-D 2048 x 2048": turned((2048, 2048), (1, 0)),
    "2-D 1023 x 2047": turned((1023, 2047), (1, 0)),
    "2-D 3632 x 3632": turned((3632, 3632), (1, 0)),
    "2-D 2048 x 2048 float16": turned((2048, 2048), (1, 0), "float16"),
    "2-D 2048 x 2048 int8": turned((2048, 2048), (1, 0), "int8"),
    "NCHW -> NHWC 8x256x56x56": turned((8, 256, 56, 56), (0, 2, 3, 1)),
    "NHWC -> NCHW 8x56x56x256": turned((8, 56, 56, 256), (0, 3, 1, 2)),
    "NHWC -> NCHW 8x224x224x3": turned((8, 224, 224, 3), (0, 3, 1, 2)),
    "NCHW -> NCHW16c 8x64x56x56": packed((8, 64, 56, 56), "NCHW", "NCHW16c"),
    "NCHW16c -> NCHW 8x4x56x56x16": packed((8, 4, 56, 56, 16), "NCHW16c", "NCHW"),
    "NCHW -> NCHW16c 8x3x224x224": packed((8, 3, 224, 224), "NCHW", "NCHW16c", 0),
}


def vector_copy(source: NDArray, target: NDArray) -> Callable[[], None]:
    """A call that copies one array to another by 16-wide vectors."""
    cl, where = opencl(), open_device()
    kernel: Any = build(where, VEC16).vec16
    flags = cl.mem_flags
    read = cl.Buffer(where.context, flags.READ_ONLY | flags.USE_HOST_PTR, hostbuf=source)
    write = cl.Buffer(where.context, flags.READ_WRITE | flags.USE_HOST_PTR, hostbuf=target)

    def call() -> None:
        kernel(where.queue, (source.nbytes // 64,), None, read, write)
        where.queue.finish()

    return call


def measure(y: Tensor, rounds: int) -> list[float]:
    """GB/s of the copies, the C kernel and the OpenCL kernel."""
    x = y.node.operands[0]
    while x.node.operands:
        x = x.node.operands[0]
    shape = tuple(int(str(d)) for d in x.shape)
    array = (np.arange(prod(shape)) % 120).astype(x.dtype).reshape(shape)
    c, ours = compile(y, threads=open_device().profile.units), compile(y, "opencl")
    out_c, out_cl = c(x=array), ours(x=array)
    if not np.array_equal(out_c, out_cl):
        raise RuntimeError("the two targets disagree")
    moved = array.nbytes + out_c.nbytes
    source, target = np.ones(moved // 128 * 64, np.uint8), np.zeros(moved // 128 * 64, np.uint8)
    calls = [
        lambda: np.copyto(target, source),
        vector_copy(source, target),
        lambda: c(x=array, out=out_c),
        lambda: ours(x=array, out=out_cl),
    ]
    seconds: list[list[float]] = [[] for _ in calls]
    for n in range(rounds + 1):
        for times, call in zip(seconds, calls, strict=True):
            start = time.perf_counter()
            call()
            if n:
                times.append(time.perf_counter() - start)
    return [moved / statistics.median(times) / 1e9 for times in seconds]


def main(rounds: int) -> None:
    profile = open_device().profile
    print(f"{profile.name}, {profile.units} units")
    print(f"{'GB/s':30} {'copy':>7} {'vec16':>7} {'c':>7} {'opencl':>7}")
    for name, y in CASES.items():
        print(f"{name:30} " + " ".join(f"{speed:7.1f}" for speed in measure(y, rounds)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
