"""OpenCL kernels on arrays that stay on the device, beside copies by the device, and beside torch on CUDA.

    python benchmarks/opencl.py [--rounds N] [--small] [--kind cpu|gpu] [--only TEXT] [--json FILE]

GB/s, bytes read plus written, median of the rounds, in turns, by the device's own clock (events, torch's by CUDA):
`copy` is the device's copy of a buffer, `vec16` an OpenCL kernel of vload16 and vstore16, both of as many bytes as the
case moves; `opencl` the kernels of target "opencl"; `of copy` is their ratio to the faster of both. `call` is what a
caller gets: `k.bind(x=..., out=...)` on pyopencl arrays, ten calls in a row, by the host's clock. `torch` is
`permute(...).contiguous()` where torch sees the GPU; on a CPU, `c` is target "c" with as many threads as the device has
units. Every result is compared with numpy's before anything is timed. It takes the first GPU that pyopencl finds, else
the default device; sizes suit a GPU, `--small` those of a CPU.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from math import prod
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import numpy as np
from device_times import Timed, buffers, check, device, launch, medians, printed, queued, seconds_of, spoil

import eqsat as eq
from eqsat.backends.opencl.device import OpenDevice, build, opencl
from eqsat.ir.dtypes import NDArray

VEC16 = """__kernel void vec16(__global const uint *restrict in, __global uint *restrict out)
{
    vstore16(vload16(get_global_id(0), in), get_global_id(0), out);
}"""
CALLS = 10
"""Calls in a row of the column `call`."""


@dataclass(frozen=True)
class Case:
    """A layout change: pad, cut, reverse axes, split them into `parts`, and permute those."""

    name: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    parts: tuple[int, ...] = ()
    """The extents after padding and splitting; () keeps the axes."""
    pads: tuple[tuple[int, int], ...] = ()
    dtype: str = "float32"
    cut: tuple[tuple[int, int], ...] = ()
    """Where the part that is kept begins and ends, axis by axis; () keeps all."""
    flips: tuple[int, ...] = ()

    @property
    def program(self) -> eq.Program:
        """The case for eqsat."""
        x = y = eq.input("x", self.shape, self.dtype)
        y = y.pad(self.pads) if self.pads else y
        y = y.slice([a for a, _ in self.cut], [b - a for a, b in self.cut]) if self.cut else y
        y = y.flip(self.flips) if self.flips else y
        y = y.reshape(self.parts) if self.parts else y
        return eq.Program([x], {"y": y.permute_dims(self.axes)})

    def numpy(self, array: NDArray) -> NDArray:
        """The case in numpy."""
        y = np.pad(array, self.pads) if self.pads else array
        y = np.flip(y[tuple(slice(*ends) for ends in self.cut)], self.flips)
        return np.ascontiguousarray(y.reshape(self.parts or y.shape).transpose(self.axes))

    def torch(self, x: Any) -> Any:
        """The case in torch."""
        if self.pads:
            x = import_module("torch.nn.functional").pad(x, [n for pad in reversed(self.pads) for n in pad])
        x = x[tuple(slice(*ends) for ends in self.cut)]
        x = x.flip(self.flips) if self.flips else x
        return x.reshape(self.parts or x.shape).permute(self.axes).contiguous()


TYPES = ("float32", "float16", "int8", "float64")


def cases(small: bool) -> list[Case]:
    """The cases, for a GPU or for a CPU."""
    side, n = (2048, 8) if small else (8192, 64)
    odd = (1023, 2047) if small else (8191, 8193)
    found = [Case(f"transpose {side} x {side} {d}", (side, side), (1, 0), dtype=d) for d in TYPES]
    found.append(Case(f"transpose {odd[0]} x {odd[1]}", odd, (1, 0)))
    for d in TYPES:
        found.append(Case(f"NCHW -> NHWC {n}x256x56x56 {d}", (n, 256, 56, 56), (0, 2, 3, 1), dtype=d))
        found.append(Case(f"NHWC -> NCHW {n}x56x56x256 {d}", (n, 56, 56, 256), (0, 3, 1, 2), dtype=d))
    blocked, halves = (n, 16, 16, 56, 56), (n, 8, 32, 56, 56)
    image, channels = (n, 3, 224, 224), ((0, 0), (0, 13), (0, 0), (0, 0))
    rows, side2 = (n, 256, 56, 56), ((0, 0), (0, 0), (1, 1), (1, 1))
    k, vnni = side // 16, (side // 4, 4, side // 64, 64)
    return [
        *found,
        Case(f"NCHW -> NCHW16c {n}x256x56x56", rows, (0, 1, 3, 4, 2), blocked),
        Case(f"NCHW16c -> NCHW {n}x16x56x56x16", (n, 16, 56, 56, 16), (0, 1, 4, 2, 3)),
        Case(f"NCHW -> NCHW32c {n}x256x56x56 int8", rows, (0, 1, 3, 4, 2), halves, dtype="int8"),
        Case(f"NCHW -> NCHW16c {n}x3x224x224 padded", image, (0, 1, 3, 4, 2), (n, 1, 16, 224, 224), channels),
        Case(f"KN -> KN16n {side} x {side}", (side, side), (1, 0, 2), (side, k, 16)),
        Case(f"NK -> KN16n {side} x {side}", (side, side), (0, 2, 1), (k, 16, side)),
        Case(f"KN -> KN64n4k {side} x {side} int8", (side, side), (2, 0, 3, 1), vnni, (), "int8"),
        Case(f"NCHW -> NHWC {n}x3x224x224", image, (0, 2, 3, 1)),
        Case(f"NHWC -> NCHW {n}x224x224x3", (n, 224, 224, 3), (0, 3, 1, 2)),
        Case(f"pad {n}x256x56x56 by 1", rows, (0, 1, 2, 3), pads=side2),
        Case(f"pad {n}x256x56x56 by 1 float16", rows, (0, 1, 2, 3), pads=side2, dtype="float16"),
        Case(f"pad {n}x256x56x56 by 1 int8", rows, (0, 1, 2, 3), pads=side2, dtype="int8"),
        Case(f"crop {n}x256x56x56 by 1", rows, (0, 1, 2, 3), cut=((0, n), (0, 256), (1, 55), (1, 55))),
        Case(f"flip {side} x {side}", (side, side), (0, 1), flips=(1,)),
        Case(f"heads {n}x512x16x64 float16", (n, 512, 16, 64), (0, 2, 1, 3), dtype="float16"),
        Case(f"windows {n}x56x56x96", (n, 56, 56, 96), (0, 1, 3, 2, 4, 5), (n, 8, 7, 8, 7, 96)),
    ]  # fmt: skip


def torch_on_gpu() -> Any:
    """The torch package where it is installed and sees a GPU, else None."""
    try:
        torch = import_module("torch")
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def torch_call(torch: Any, case: Case, array: NDArray, want: NDArray) -> Timed:
    """torch's answer, checked."""
    x = torch.from_numpy(array).cuda()
    if not np.array_equal(case.torch(x).cpu().numpy(), want):
        raise RuntimeError(f"{case.name}: torch computes something else than numpy")

    def seconds() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        case.torch(x)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3

    return seconds


def c_call(program: eq.Program, array: NDArray, want: NDArray, units: int) -> Timed:
    """Target "c", checked, by the host's clock."""
    out = np.empty_like(want)
    run: Callable[[], None] = eq.compile(program, threads=units).bind(x=array, out=out)
    run()
    if not np.array_equal(out, want):
        raise RuntimeError("target c computes something else than numpy")

    def seconds() -> float:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start

    return seconds


def bound_call(where: OpenDevice, case: Case, read: Any, write: Any, want: NDArray, kind: str) -> Timed:
    """The call that users write, on pyopencl arrays over the same memory."""
    arrays = import_module("pyopencl.array")
    x = arrays.Array(where.queue, case.shape, np.dtype(case.dtype), data=read)
    y = arrays.Array(where.queue, want.shape, want.dtype, data=write)
    kernel: Any = import_module("eqsat.backends.opencl.kernel").ClKernel(case.program, device=where.queue, kind=kind)
    run = kernel.bind(x=x, out=y)
    spoil(where, write)
    run()
    check(where, write, want, f"{case.name}, bound")
    return queued(where, run, CALLS)


@dataclass(frozen=True)
class Row:
    """GB/s of a case."""

    case: str
    megabytes: float
    rates: dict[str, float]

    @property
    def ratio(self) -> float:
        """The kernels to the faster copy."""
        return self.rates["opencl"] / max(self.rates["copy"], self.rates["vec16"])


def measure(where: OpenDevice, case: Case, rounds: int, torch: Any) -> Row:
    """One case, checked, then measured in turns."""
    array = (np.arange(prod(case.shape)) % 113).astype(case.dtype).reshape(case.shape)
    want = case.numpy(array)
    if [int(str(n)) for n in case.program.outputs["y"].shape] != list(want.shape):
        raise RuntimeError(f"{case.name}: the result is to have shape {want.shape}")
    read, write = buffers(where, array, want)
    kind = where.profile.kind
    calls: dict[str, Timed] = copies(where, array.nbytes + want.nbytes)
    calls["opencl"], _ = printed(where, case.program, where.profile, {"x": read, "y": write})
    spoil(where, write)
    calls["opencl"]()
    check(where, write, want, case.name)
    calls["call"] = bound_call(where, case, read, write, want, kind)
    if torch is not None:
        calls["torch"] = torch_call(torch, case, array, want)
    elif where.shares_memory:
        calls["c"] = c_call(case.program, array, want, where.profile.units)
    moved = array.nbytes + want.nbytes
    rates = {name: moved / seconds / 1e9 for name, seconds in medians(calls, rounds).items()}
    return Row(case.name, moved / 1e6, rates)


def copies(where: OpenDevice, moved: int) -> dict[str, Timed]:
    """Copies that read and write about so many bytes together."""
    cl, group = opencl(), min(256, where.profile.group)
    size = moved // 2 // (64 * group) * (64 * group)
    ones = np.ones(size, np.uint8)
    source, target = buffers(where, ones, ones)
    kernel: Any = build(where, VEC16).vec16
    kernel.set_args(source, target)
    calls: dict[str, Timed] = {
        "copy": lambda: seconds_of(cl.enqueue_copy(where.queue, target, source)),
        "vec16": launch(where, kernel, size // 64 // group * group, group),
    }
    for call in calls.values():
        spoil(where, target)
        call()
        check(where, target, ones, "a copy")
    return calls


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--small", action="store_true", help="sizes for a CPU")
    parser.add_argument("--kind", choices=("cpu", "gpu"), help="print kernels as for such a device")
    parser.add_argument("--only", default="", help="cases whose names have this text")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    where, torch = device(), torch_on_gpu()
    if options.kind:
        where = replace(where, profile=replace(where.profile, kind=options.kind))
    profile = where.profile
    version = f"{where.device.platform.name.strip()}, driver {where.device.driver_version.strip()}"
    print(f"{profile.name}, {profile.units} units, kernels for a {profile.kind} ({version})")
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}" if torch else "no torch with a GPU")
    peer = "torch" if torch else "c"
    names = ("copy", "vec16", "opencl", "call", peer)
    print(f"{'GB/s':44} {'MB':>7} " + " ".join(f"{n:>7}" for n in names) + f" of copy  of {peer}")
    found: list[Row] = []
    for case in cases(options.small):
        if options.only not in case.name:
            continue
        row = measure(where, case, options.rounds, torch)
        found.append(row)
        speeds = " ".join(f"{row.rates[n]:7.1f}" if n in row.rates else f"{'-':>7}" for n in names)
        other = f"{row.rates['opencl'] / row.rates[peer]:8.2f}" if peer in row.rates else ""
        print(f"{row.case:44} {row.megabytes:7.1f} {speeds} {row.ratio:7.2f} {other}", flush=True)
    if found:
        print(f"geometric mean of the ratios to a copy {geometric_mean(r.ratio for r in found):.2f}")
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in found], indent=1))


if __name__ == "__main__":
    main()
