"""OpenCL kernels on the device's own memory, beside a copy by the device and, on a CUDA device, torch.

    python benchmarks/opencl.py [--only TEXT] [--rounds 15] [--json FILE]

GB/s, bytes read plus written over the device's own time (events), median of the rounds, in turns: `copy` is the
driver's copy of as many bytes, `vec16` a kernel of vload16 and vstore16, `torch` torch's own kernel for the same move
where torch has CUDA (its events). `host` is the whole call of target "opencl" on numpy arrays, `c` target "c" with as
many threads as there are processors. It takes the first GPU that pyopencl finds, else the first device, with smaller
cases. Every result is compared with numpy's before anything is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from device_times import Timed, buffers, check, device, launch, medians, printed, seconds_of

from eqsat.backends.compile import compile
from eqsat.backends.opencl.device import OpenDevice, build, opencl
from eqsat.ir.dtypes import NDArray
from eqsat.ir.tensors.tensor import Program, Tensor, input

VEC16 = """__kernel void vec16(__global const float *restrict in, __global float *restrict out)
{
    vstore16(vload16(get_global_id(0), in), get_global_id(0), out);
}"""
Torch = Callable[[Any, Any], Any]
"""A move as torch does it: the module and an array of it."""


@dataclass(frozen=True)
class Case:
    """A move of one input, for ours and for torch."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    ours: Callable[[Tensor], Tensor]
    torch: Torch


@dataclass(frozen=True)
class Rates:
    """GB/s of a case."""

    case: str
    opencl: float
    copy: float
    vec16: float
    torch: float | None
    host: float
    c: float


def turned(name: str, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str = "float32") -> Case:
    """A transpose."""
    return Case(name, shape, dtype, lambda x: x.permute_dims(axes), lambda _, x: x.permute(axes).contiguous())


def blocks(name: str, shape: tuple[int, ...]) -> Case:
    """NCHW to NCHW16c."""
    n, c, h, w = shape

    def by_torch(_: Any, x: Any) -> Any:
        return x.reshape(n, c // 16, 16, h, w).permute(0, 1, 3, 4, 2).contiguous()

    return Case(name, shape, "float32", lambda x: x.layout_transform("NCHW", "NCHW16c"), by_torch)


def cases(side: int, batch: int) -> list[Case]:
    """Squares of that side, images of that batch."""
    odd = (side - 1, 2 * side - 1)
    planes = (batch, 256, 56, 56)
    around = ((0, 0), (0, 0), (1, 1), (1, 1))
    return [
        turned(f"2-D {side}", (side, side), (1, 0)),
        turned(f"2-D {side} float64", (side, side), (1, 0), "float64"),
        turned(f"2-D {side} float16", (side, side), (1, 0), "float16"),
        turned(f"2-D {side} int8", (side, side), (1, 0), "int8"),
        turned(f"2-D {odd[0]} x {odd[1]}", odd, (1, 0)),
        turned("NCHW -> NHWC 256 x 56 x 56", planes, (0, 2, 3, 1)),
        turned("NHWC -> NCHW 56 x 56 x 256", (batch, 56, 56, 256), (0, 3, 1, 2)),
        turned("NHWC -> NCHW 224 x 224 x 3", (batch, 224, 224, 3), (0, 3, 1, 2)),
        turned("heads 197 x 12 x 64", (8 * batch, 197, 12, 64), (0, 2, 1, 3)),
        blocks("NCHW -> NCHW16c 256 x 56 x 56", planes),
        Case(
            "pad 1 around 256 x 56 x 56", planes, "float32",
            lambda x: x.pad(around, pad_value=0), lambda torch, x: torch.nn.functional.pad(x, (1, 1, 1, 1)),
        ),
        Case(
            "crop 1 around 256 x 56 x 56", planes, "float32",
            lambda x: x.crop((0, 0, 1, 1), (batch, 256, 55, 55)), lambda _, x: x[:, :, 1:-1, 1:-1].contiguous(),
        ),
        Case("flip 2-D", (side, side), "float32", lambda x: x.flip((1,)), lambda torch, x: torch.flip(x, (1,))),
    ]  # fmt: skip


def cuda() -> Any:
    """The torch module where it has a CUDA device, else None."""
    try:
        torch: Any = import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def by_torch(torch: Any, case: Case, array: NDArray, want: NDArray) -> Timed:
    """A call of torch's kernel that says how long it took."""
    x = torch.from_numpy(array).cuda()
    if not np.array_equal(case.torch(torch, x).cpu().numpy(), want):
        raise RuntimeError(f"{case.name}: torch computes something else than numpy")
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def call() -> float:
        begin.record()
        case.torch(torch, x)
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) * 1e-3

    return call


def copies(where: OpenDevice, moved: int) -> dict[str, Timed]:
    """The driver's copy and one by a kernel, of half as many bytes."""
    part = np.zeros(moved // 128 * 64, np.uint8)
    read, write = buffers(where, part, part)
    kernel: Any = build(where, VEC16).vec16
    kernel.set_args(read, write)
    group = min(256, where.profile.group)
    items = part.nbytes // 64 // group * group
    return {
        "copy": lambda: seconds_of(opencl().enqueue_copy(where.queue, write, read)),
        "vec16": launch(where, kernel, items, group),
    }


def on_host(call: Callable[[], object]) -> float:
    """The seconds of a call that ends when its result is there."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(where: OpenDevice, case: Case, rounds: int) -> Rates:
    """The rates of one case."""
    x = input("x", case.shape, case.dtype)
    program = Program([x], {"y": case.ours(x)})
    array: NDArray = (np.arange(int(np.prod(case.shape))) % 120).astype(case.dtype).reshape(case.shape)
    c = compile(program, threads=os.cpu_count())
    want: NDArray = c(x=array)
    if not np.array_equal(want, compile(program, "numpy")(x=array)):
        raise RuntimeError(f"{case.name}: target c computes something else than numpy")
    read, write = buffers(where, array, want)
    calls: dict[str, Timed] = {}
    calls["opencl"], _ = printed(where, program, where.profile, {"x": read, "y": write})
    calls["opencl"]()
    check(where, write, want, case.name)
    moved = array.nbytes + want.nbytes
    calls |= copies(where, moved)
    torch = cuda()
    if torch is not None:
        calls["torch"] = by_torch(torch, case, array, want)
    whole = compile(program, "opencl", device=where.queue)
    calls["host"] = partial(on_host, lambda: whole(x=array, out=want))
    calls["c"] = partial(on_host, lambda: c(x=array, out=want))
    found = {name: moved / seconds / 1e9 for name, seconds in medians(calls, rounds).items()}
    return Rates(case.name, torch=found.pop("torch", None), **found)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose names have this")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    where = device()
    real = where.profile.kind == "gpu"
    print(f"{where.profile.name}, {where.profile.units} units ({where.device.platform.name.strip()})")
    heads = ("opencl", "copy", "vec16", "torch", "host", "c")
    print(f"{'GB/s':34} " + " ".join(f"{h:>7}" for h in heads) + "  of copy  of torch")
    found: list[Rates] = []
    for case in cases(8192, 64) if real else cases(1024, 2):
        if options.only in case.name and (case.dtype != "float64" or where.profile.double):
            r = measure(where, case, options.rounds)
            rates = [getattr(r, h) for h in heads]
            numbers = " ".join("      -" if v is None else f"{v:7.1f}" for v in rates)
            beside = "-" if r.torch is None else f"{r.opencl / r.torch:.2f}"
            print(f"{r.case:34} {numbers}  {r.opencl / r.copy:7.2f}  {beside:>8}", flush=True)
            found.append(r)
    if options.json:
        options.json.write_text(json.dumps([asdict(r) for r in found], indent=1))


if __name__ == "__main__":
    main()
