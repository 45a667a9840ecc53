"""The cases of docs/gallery: bytes that layouts move, and time, before and after, in turns.

    python benchmarks/gallery.py [--only NAME,..] [--seconds S] [--json FILE]

Each case is a program or a model as people have them, and what eqsat makes of it. Of programs, the one side runs a
kernel for each operator, as libraries do, the other one kernel for the optimised whole: both in C, for one thread.
Models run in onnxruntime, one thread, at its own full optimisation. Results are compared first. Times are medians of
rounds in which each side runs once; "ratio" is before over after.
"""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

import eqsat as eq
from eqsat.ir.dtypes import NDArray
from eqsat.nets import Net
from eqsat.timing import interleaved


@dataclass(frozen=True)
class Row:
    """What one case measured; seconds are medians."""

    name: str
    bytes_before: int
    bytes_after: int
    before: float
    after: float

    @property
    def ratio(self) -> float:
        return self.before / self.after


Measure = Callable[[float], Row]
Stage = Callable[[eq.Tensor], eq.Tensor]


def processor() -> str:
    """The processor's name, as the system gives it, with its family and model where it has them.

    >>> bool(processor())
    True
    """
    facts: dict[str, str] = {}
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.is_file() else ():
        key, _, value = line.partition(":")
        facts.setdefault(key.strip(), value.strip())
    name = facts.get("model name") or platform.processor() or platform.machine()
    return f"{name}, family {facts['cpu family']} model {facts['model']}" if "cpu family" in facts else name


def equal(one: NDArray, other: NDArray, name: str) -> None:
    """Raise where results differ beyond rounding."""
    if not np.allclose(one, other, rtol=1e-4, atol=1e-4):
        raise AssertionError(f"{name}: results differ by {np.abs(one - other).max()}")


def compiled(name: str, stages: Sequence[Stage], whole: eq.Tensor, x: NDArray, seconds: float) -> Row:
    """A chain of operators: a kernel for each, as a library runs them, and one for the optimised program."""
    chain: list[Callable[[], None]] = []
    array, moved = x, 0
    for stage in stages:
        tensor = stage(eq.input("x", array.shape, array.dtype.name))
        moved += eq.optimize(tensor).cost_before
        kernel = eq.compile(tensor)
        out = kernel(x=array)
        chain.append(kernel.bind(x=array, out=out))
        array = out
    result = eq.optimize(whole)
    kernel, last = eq.compile(result.program), np.empty_like(array)
    one = kernel.bind(x=x, out=last)

    def each() -> None:
        for call in chain:
            call()

    each()
    one()
    equal(array, last, name)
    return Row(name, moved, result.bytes_moved, *interleaved([each, one], seconds))


def in_onnxruntime(name: str, model: ModelProto, arrays: dict[str, NDArray], seconds: float) -> Row:
    """A model as it is and optimised, both in onnxruntime."""
    best = eq.onnx.optimize(model)
    calls = [session(m, arrays) for m in (model, best.model)]
    equal(calls[0](), calls[1](), name)
    return Row(name, best.initial.bytes_moved, best.bytes_moved, *interleaved(calls, seconds))


def session(model: ModelProto, arrays: dict[str, NDArray]) -> Callable[[], Any]:
    """A run of a model that gives its first output."""
    import onnxruntime

    runtime: Any = onnxruntime
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    made = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda: made.run(None, arrays)[0]


def random(*shape: int) -> NDArray:
    return np.random.default_rng(0).standard_normal(shape).astype("float32")


# -- the cases --------------------------------------------------------------------------------------------------------


def nhwc_model(blocks: int = 6, side: int = 56, width: int = 32) -> ModelProto:
    """Blocks of a convolution, gates for its channels and a residual, as a converter from NHWC writes them."""
    net, y = Net(), "x"
    for _ in range(blocks):
        z = net.add("Relu", net.nhwc_conv(y, width, width))
        gates = net.add("ReduceMean", z, axes=[1, 2], keepdims=1)
        gates = net.add("Sigmoid", net.add("MatMul", gates, net.weight(width, width)))
        y = net.add("Add", y, net.add("Mul", z, gates))
    return net.model([("x", (1, side, side, width))], [(y, (1, side, side, width))])


def nhwc_export(seconds: float) -> Row:
    """Six such blocks."""
    return in_onnxruntime("NHWC export", nhwc_model(), {"x": random(1, 56, 56, 32)}, seconds)


def window_model(side: int = 56, window: int = 7, width: int = 96, heads: int = 3) -> ModelProto:
    """Attention within windows of an image, as exported: partition, three products, attention, product, reverse."""
    net, windows, tokens = Net(), (side // window) ** 2, window * window
    n, depth = side // window, width // heads

    def reshaped(x: str, *shape: int) -> str:
        return net.add("Reshape", x, net.ints(*shape))

    x = reshaped("x", 1, n, window, n, window, width)
    x = reshaped(net.transpose(x, 0, 1, 3, 2, 4, 5), windows, tokens, width)

    def split(perm: tuple[int, ...]) -> str:
        part = reshaped(net.add("MatMul", x, net.weight(width, width)), windows, tokens, heads, depth)
        return net.transpose(part, *perm)

    q, k, v = split((0, 2, 1, 3)), split((0, 2, 3, 1)), split((0, 2, 1, 3))
    scores = net.add("Softmax", net.add("MatMul", q, k), axis=-1)
    y = net.transpose(net.add("MatMul", scores, v), 0, 2, 1, 3)
    y = net.add("MatMul", reshaped(y, windows, tokens, width), net.weight(width, width))
    y = net.transpose(reshaped(y, 1, n, n, window, window, width), 0, 1, 3, 2, 4, 5)
    y = reshaped(y, 1, side, side, width)
    return net.model([("x", (1, side, side, width))], [(y, (1, side, side, width))])


def window_attention(seconds: float) -> Row:
    """One block of attention in windows of 7 x 7."""
    return in_onnxruntime("window attention", window_model(), {"x": random(1, 56, 56, 96)}, seconds)


def packed_weights(seconds: float) -> Row:
    """Weights stored in blocks of 16 columns: unpacked before each product, or once, when the program is made."""
    packed = random(32, 512, 16)
    x = eq.constant(packed)

    def unpacked(w: eq.Tensor) -> eq.Tensor:
        return w.rearrange("o i p -> i (o p)")

    whole = eq.input("x", (1, 512), "float32") @ unpacked(x)
    unpack = eq.compile(unpacked(eq.input("w", (32, 512, 16), "float32")))
    product = eq.compile(eq.input("x", (1, 512), "float32") @ eq.input("w", (512, 512), "float32"))
    plain, out = np.empty((512, 512), "float32"), np.empty((1, 512), "float32")
    first, second = unpack.bind(w=packed, out=plain), product.bind(x=random(1, 512), w=plain, out=out)

    def both() -> None:
        first()
        second()

    result, last = eq.optimize(whole), np.empty_like(out)
    one = eq.compile(result.program).bind(x=random(1, 512), out=last)
    both()
    one()
    equal(out, last, "packed GEMM weights")
    moved = 2 * packed.nbytes
    return Row("packed GEMM weights", moved, result.bytes_moved, *interleaved([both, one], seconds))


def preprocessing(seconds: float) -> Row:
    """Bytes of images to normalised planes: numpy before, `@eq.jit` after."""

    def prepare(batch: Any, mean: Any, deviation: Any) -> Any:
        return ((batch[:, 16:-16, 16:-16, ::-1] / np.float32(255) - mean) / deviation).transpose(0, 3, 1, 2)

    batch = np.random.default_rng(0).integers(0, 256, (8, 256, 256, 3)).astype("uint8")
    numbers = (np.full(3, 0.45, "float32"), np.full(3, 0.22, "float32"))
    fast = eq.jit(prepare)
    equal(fast(batch, *numbers), prepare(batch, *numbers), "preprocessing")
    calls: list[Callable[[], Any]] = [
        lambda: np.ascontiguousarray(prepare(batch, *numbers)),
        lambda: fast(batch, *numbers),
    ]
    # numpy writes a whole array for each of three steps and for the copy; the kernel writes one.
    cells = 8 * 3 * 224 * 224
    return Row("image preprocessing", 4 * cells * 4, cells * 4, *interleaved(calls, seconds))


def chained(name: str, stages: Sequence[Stage], x: NDArray, seconds: float) -> Row:
    """Stages one after another, as they are and as one program."""
    whole = reduce(lambda tensor, stage: stage(tensor), stages, eq.input("x", x.shape, x.dtype.name))
    return compiled(name, stages, whole, x, seconds)


def ragged_padding(seconds: float) -> Row:
    """30 channels in blocks of 16, an operation on the blocks, and back."""
    stages: list[Stage] = [
        lambda x: x.layout_transform("NCHW", "NCHW16c", pad_value=0.0),
        lambda x: x.relu(),
        lambda x: x.layout_transform("n, o, h, w, i -> n, 16*o + i, h, w"),
        lambda x: x.crop((0, 0, 0, 0), (8, 30, 56, 56)),
    ]
    return chained("ragged padding", stages, random(8, 30, 56, 56), seconds)


def swizzles(seconds: float) -> Row:
    """Rows stored swizzled, worked on, and stored plain again."""
    stages: list[Stage] = [
        lambda x: x.layout_transform("i, j -> i, j ^ i%32"),
        lambda x: x.relu(),
        lambda x: x.layout_transform("i, j -> i, j ^ i%32"),
    ]
    return chained("swizzles", stages, random(1024, 1024), seconds)


CASES: dict[str, Measure] = {
    "nhwc-export": nhwc_export,
    "window-attention": window_attention,
    "packed-weights": packed_weights,
    "preprocessing": preprocessing,
    "ragged-padding": ragged_padding,
    "swizzles": swizzles,
}


def line(row: Row) -> str:
    """A row of the table.

    >>> line(Row("swizzles", 8_000_000, 0, 0.004, 0.001))
    'swizzles                  8.000 MB ->   0.000 MB      4.000 ms ->    1.000 ms   ratio 4.00'
    """
    moved = f"{row.bytes_before / 1e6:8.3f} MB -> {row.bytes_after / 1e6:7.3f} MB"
    return f"{row.name:22} {moved} {row.before * 1e3:10.3f} ms -> {row.after * 1e3:8.3f} ms   ratio {row.ratio:.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(CASES), help="names, apart by commas: " + ", ".join(CASES))
    parser.add_argument("--seconds", type=float, default=4.0, help="of measuring each case")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    print(processor())
    rows = [CASES[name](options.seconds) for name in options.only.split(",")]
    for row in rows:
        print(line(row))
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))


if __name__ == "__main__":
    main()
