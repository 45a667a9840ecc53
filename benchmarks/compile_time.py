"""How long `eq.compile` takes: the kernel suite, a few reductions, and whole models; lines of the generated source.

    python benchmarks/compile_time.py [CASE ...] [--models FOLDER] [--every N]

Each case is compiled with an empty cache, then again: in the same process, and in a fresh one (imports not counted).
`ours` is the part of the first time that is not the C compiler's. A CASE is a part of a name.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from kernel_suite.cases import extras, suite

import eqsat as eq
from eqsat.backends.c import cc
from eqsat.ir.tensors.tensor import Program, Tensor, as_program


def pool(shape: tuple[int, ...]) -> Tensor:
    """The largest of each 3 x 3 window, stride 2."""
    n, c, h, w = shape
    x = eq.input("x", shape, "float32")

    def body(*i: eq.Term) -> eq.Term:
        return x[i[0], i[1], 2 * i[2] + i[4], 2 * i[3] + i[5]]

    return eq.compute((n, c, (h - 3) // 2 + 1, (w - 3) // 2 + 1), body, reduce=(3, 3), combiner="max")


def operators() -> dict[str, Callable[[], Tensor]]:
    """Reductions, by name."""
    x = eq.input("x", (1, 64, 56, 56), "float32")
    rows = eq.input("x", (1024, 768), "float32")

    def conv(o: int, k: int, stride: int) -> Callable[[], Tensor]:
        def make() -> Tensor:
            w = eq.input("w", (o, 64, k, k), "float32")
            return eq.conv2d(x, w, strides=stride, padding=k // 2).relu()

        return make

    return {
        "softmax_1024x768": lambda: rows.softmax(1),
        "mean_1024x768": lambda: rows.mean(1),
        "maxpool_64x112x112": lambda: pool((1, 64, 112, 112)),
        "matmul_512": lambda: eq.matmul(eq.input("a", (512, 512), "float32"), eq.input("b", (512, 512), "float32")),
        "conv3x3_64x56x56": conv(64, 3, 1),
        "conv3x3s2_64x56x56": conv(128, 3, 2),
        "conv1x1_64x56x56": conv(256, 1, 1),
    }


def programs(names: list[str]) -> dict[str, Program]:
    """The cases whose name contains one of the given parts."""
    found: dict[str, Program] = {c.name: as_program(c.program()) for c in (*suite(), *extras())}
    found |= {name: as_program(make()) for name, make in operators().items()}
    return {n: p for n, p in found.items() if not names or any(part in n for part in names)}


def fresh(name: str) -> float:
    """Seconds of a compile from the cache in a process of its own."""
    done = subprocess.run((sys.executable, __file__, "--once", name), capture_output=True, text=True, check=True)
    return float(done.stdout)


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class CompilerClock:
    """Counts the seconds that the C compiler runs."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._build = cc.build
        cc.build = self.build

    def build(self, *arguments: Any) -> None:
        """Compile, and note how long it took."""
        start = time.perf_counter()
        try:
            self._build(*arguments)
        finally:
            self.seconds += time.perf_counter() - start


def report(found: dict[str, Program], every: int) -> None:
    """A line for each program, then the figures of all."""
    clock = CompilerClock()
    rows: list[tuple[float, float, float, float, int]] = []
    again: list[float] = []
    print(f"{'case':38} {'cold s':>7} {'ours':>6} {'cached ms':>9} {'fresh ms':>8} {'lines':>6}")
    for number, (name, program) in enumerate(found.items()):
        clock.seconds = 0.0
        cold = timed(lambda program=program: eq.compile(program))
        compiler = clock.seconds
        cached = min(timed(lambda program=program: eq.compile(program)) for _ in range(3))
        lines = eq.compile(program).source.count("\n")
        text = ""
        if number % every == 0:
            again.append(min(fresh(name) for _ in range(2)))
            text = f"{1e3 * again[-1]:8.1f}"
        rows.append((cold, cold - compiler, compiler, cached, lines))
        print(f"{name:38} {cold:7.3f} {cold - compiler:6.3f} {1e3 * cached:9.2f} {text:>8} {lines:6}", flush=True)
    columns = list(zip(*rows, strict=True))
    share = 100 * sum(columns[2]) / sum(columns[0])
    print(f"cold: median {median(columns[0]):.3f} s, worst {max(columns[0]):.3f} s, {share:.0f} % of it the C compiler")
    print(f"ours: median {1e3 * median(columns[1]):.1f} ms, worst {1e3 * max(columns[1]):.1f} ms")
    print(f"cached: median {1e3 * median(columns[3]):.2f} ms, worst {1e3 * max(columns[3]):.2f} ms")
    print(f"cached, fresh process: median {1e3 * median(again):.2f} ms, worst {1e3 * max(again):.2f} ms")
    print(f"source: median {median(columns[4]):.0f} lines, worst {max(columns[4])}")


def models(folder: Path) -> None:
    """A line for each ONNX model of a folder."""
    clock = CompilerClock()
    front_end: Any = eq.onnx
    print(f"{'model':38} {'cold s':>7} {'ours':>6} {'cached s':>9} {'kernels':>8} {'lines':>6}")
    for path in sorted(folder.glob("*.onnx")):
        program: Program = front_end.load(path)
        clock.seconds = 0.0
        cold = timed(lambda program=program: eq.compile(program))
        compiler = clock.seconds
        cached = timed(lambda program=program: eq.compile(program))
        kernel = eq.compile(program)
        calls = kernel.source.count("    kernel_")
        lines = kernel.source.count("\n")
        print(f"{path.stem:38} {cold:7.2f} {cold - compiler:6.2f} {cached:9.3f} {calls:8} {lines:6}", flush=True)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--models", type=Path, default=None, help="a folder of ONNX models, in place of the cases")
    parser.add_argument("--every", type=int, default=8, help="a fresh process for every Nth case")
    parser.add_argument("--once", default="", help="print the seconds of one compile of this case")
    given = parser.parse_args(arguments)
    if given.once:
        program, run = programs([given.once])[given.once], eq.compile
        gc.collect()  # what the other cases left behind is no part of this one
        print(timed(lambda: run(program)))
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["EQSAT_CACHE"] = folder
        if given.models is not None:
            models(given.models)
        else:
            report(programs(given.cases), given.every)


if __name__ == "__main__":
    main(sys.argv[1:])
