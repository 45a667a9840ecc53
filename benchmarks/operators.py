"""Operators beside onnxruntime, 1 thread, in turns: softmax, normalisation, pools, convolutions, matrix products.

    python benchmarks/operators.py [CASE ...] [--rounds 15] [--contract]

A case is an ONNX model of one operator with its weights as initializers; a CASE is a part of a name. Results are
compared before anything is timed. Times are processor time, the least of the rounds, so that a busy machine disturbs
little; `ratio` is onnxruntime's time over ours.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from math import exp, log, prod
from pathlib import Path
from typing import Any

import numpy as np

import eqsat as eq

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One operator: its input, weights and attributes; `products` are the multiplications that bound its time."""

    name: str
    op: str
    shape: Shape
    weights: tuple[Shape, ...] = ()
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    products: int = 0


def conv(c: int, o: int, size: int, kernel: int, stride: int = 1, groups: int = 1) -> Case:
    """A convolution that keeps the size, or divides it by the stride."""
    pads = [kernel // 2] * 4
    out = (size + 2 * pads[0] - kernel) // stride + 1
    tail = f"{'_s2' if stride == 2 else ''}{'_dw' if groups > 1 else ''}"
    shapes = ((o, c // groups, kernel, kernel), (o,))
    attributes = {"pads": pads, "strides": [stride] * 2, "group": groups, "kernel_shape": [kernel] * 2}
    products = o * c // groups * kernel**2 * out**2
    return Case(f"conv{kernel}x{kernel}{tail}_{c}_{o}_{size}", "Conv", (1, c, size, size), shapes, attributes, products)


def pool(op: str, c: int, size: int, kernel: int, stride: int) -> Case:
    """A pool over square windows."""
    pads = [kernel // 2] * 4 if kernel % 2 else [0] * 4
    attributes: dict[str, Any] = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
    return Case(f"{op.lower()}_{kernel}x{kernel}s{stride}_{c}_{size}", op, (1, c, size, size), (), attributes)


def gemm(m: int, k: int, n: int, transposed: bool) -> Case:
    """A matrix product, the weights as (k, n) or (n, k)."""
    weights = ((n, k) if transposed else (k, n), (n,))
    name = f"gemm{'_nt' if transposed else ''}_{m}x{k}x{n}"
    return Case(name, "Gemm", (m, k), weights, {"transB": int(transposed)}, m * k * n)


CASES = [
    Case("softmax_last_1024x768", "Softmax", (1024, 768), (), {"axis": -1}),
    Case("softmax_first_64x4096", "Softmax", (64, 4096), (), {"axis": 0}),
    Case("layernorm_1024x768", "LayerNormalization", (1024, 768), ((768,), (768,)), {"axis": -1}),
    pool("MaxPool", 64, 112, 3, 2), pool("MaxPool", 64, 56, 2, 2), pool("MaxPool", 64, 28, 3, 1),
    pool("AveragePool", 64, 112, 3, 2), pool("AveragePool", 64, 56, 2, 2),
    Case("globalaveragepool_512_14", "GlobalAveragePool", (1, 512, 14, 14)),
    conv(3, 64, 224, 7, 2), conv(64, 64, 56, 3), conv(128, 128, 28, 3), conv(256, 256, 14, 3), conv(512, 512, 7, 3),
    conv(64, 128, 56, 3, 2), conv(64, 256, 56, 1), conv(256, 64, 56, 1), conv(256, 1024, 14, 1), conv(512, 2048, 7, 1),
    conv(128, 128, 28, 3, 1, 128), conv(512, 512, 14, 3, 1, 512),
    gemm(1, 1024, 1024, False), gemm(32, 768, 768, True), gemm(512, 512, 512, False), gemm(512, 512, 512, True),
]  # fmt: skip


def model(case: Case) -> bytes:
    """The ONNX model of a case."""
    rng = np.random.default_rng(0)
    names = [f"w{n}" for n in range(len(case.weights))]
    arrays = [(rng.random(s, np.float32) - np.float32(0.5)) / np.float32(prod(s[1:]) ** 0.5) for s in case.weights]
    onnx: Any = import_module("onnx")
    make: Any = import_module("onnx.helper")
    from_array: Any = import_module("onnx.numpy_helper").from_array
    node = make.make_node(case.op, ["x", *names], ["y"], **case.attributes)
    values = [from_array(a, n) for n, a in zip(names, arrays, strict=True)]
    x = make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, case.shape)
    y = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = make.make_graph([node], "g", [x], [y], values)
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8).SerializeToString()


def contenders(case: Case, contract: bool) -> list[Callable[[], Any]]:
    """The case in eqsat and in onnxruntime, on the same input, their results compared."""
    data = model(case)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(data)
        front_end: Any = eq.onnx
        program: eq.Program = front_end.load(path)
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    x = np.random.default_rng(1).random(case.shape, np.float32) - np.float32(0.5)
    expected: Any = session.run(None, {"x": x})[0]
    out = np.empty(expected.shape, np.float32)
    ours = eq.compile(program, contract=contract).bind(x=x, out=out)
    ours()
    np.testing.assert_allclose(out, expected, atol=1e-4 * float(np.abs(expected).max()), err_msg=case.name)
    binding = session.io_binding()
    binding.bind_cpu_input("x", x)
    result = np.empty_like(out)
    binding.bind_output("y", "cpu", 0, np.float32, result.shape, result.ctypes.data)

    def theirs(_: Any = (x, result)) -> None:
        # The arguments keep the memory alive that the binding only points to.
        session.run_with_iobinding(binding)

    theirs()
    np.testing.assert_array_equal(result, expected)
    return [ours, theirs]


def least(actions: list[Callable[[], Any]], rounds: int) -> list[float]:
    """The least seconds of processor time of each action, in turns; short ones are repeated within a turn."""
    best = [float("inf")] * len(actions)
    repeats = 1
    for turn in range(rounds + 1):
        for k, action in enumerate(actions):
            begun = time.process_time()
            for _ in range(repeats):
                action()
            spent = (time.process_time() - begun) / repeats
            best[k] = min(best[k], spent) if turn else float("inf")
            if not turn and not k:
                repeats = max(1, min(200, int(0.01 / max(spent, 1e-6))))
    return best


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--contract", action="store_true", help="fused multiply-add, as onnxruntime has it")
    given = parser.parse_args(arguments)
    # One thread in both, before a library counts the processors.
    os.environ["OMP_NUM_THREADS"] = "1"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    ratios: list[float] = []
    print(f"{'case':32} {'ours us':>9} {'ort us':>9} {'ratio':>6} {'GFLOP/s':>8}")
    for case in CASES:
        if given.cases and not any(part in case.name for part in given.cases):
            continue
        ours, peer = least(contenders(case, given.contract), given.rounds)
        ratios.append(peer / ours)
        speed = f"{2e-9 * case.products / ours:8.1f}" if case.products else ""
        print(f"{case.name:32} {1e6 * ours:9.1f} {1e6 * peer:9.1f} {peer / ours:6.2f} {speed}", flush=True)
    if ratios:
        print(f"geometric mean {exp(sum(map(log, ratios)) / len(ratios)):.2f}, least {min(ratios):.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
