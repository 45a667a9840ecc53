"""Measuring prices: small models that each do one thing, run by onnxruntime in turns; the medians make a table."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from statistics import median
from typing import Any

import numpy as np

from eqsat.ir import clock
from eqsat.models.package import require
from eqsat.pricing.table import PRODUCTS, Table

Run = Callable[[], object]
Shape = tuple[int, ...]
Operator = tuple[str, Sequence[str], Mapping[str, Any]]
"""An operator of a probe: what it is called, what it reads, its attributes."""
RUNS = (1, 4, 16, 96)
"""The lengths of the runs, in cells of 4 bytes, that are measured for what is moved in runs."""
CELLS = 1 << 18
ROUNDS = (5, 25)
NODES = 24
YARDSTICKS = ("nothing", "chain", "few", "rows", "whole")
"""Probes that only others are measured against."""
WORD = 4


@dataclass(frozen=True)
class Probe:
    """A model that does one thing: what of the table it measures, and by what its time is divided.

    key: the kind, and the length of a run in bytes; or the name of a price. per: bytes, operators or multiplications.
    than: the key of the probe that does all but that thing; else that of a model that does nothing.
    """

    key: tuple[str, int]
    per: int
    nodes: Sequence[Operator]
    inputs: Mapping[str, Shape]
    constants: Mapping[str, Any] = field(default_factory=dict[str, Any])
    than: tuple[str, int] = ("nothing", 0)
    outputs: int = 1


def probes() -> list[Probe]:
    """All that is measured, the yardsticks first."""
    found = [Probe(("nothing", 0), 1, [("Relu", ["x"], {})], {"x": (1,)})]
    for run in RUNS:
        found += _in_runs(run)
    image = (1, 64, 62, 66)
    found += [
        _one("axis", 1, "Transpose", (1, 30, 91, 97), {"perm": (0, 2, 3, 1)}),
        _one("transpose", 1, "Transpose", (15, 17, 31, 33), {"perm": (3, 1, 2, 0)}),
        _one("depth_to_space", 1, "DepthToSpace", image, {"blocksize": 2, "mode": "CRD"}),
        _one("space_to_depth", 1, "SpaceToDepth", image, {"blocksize": 2}),
        _sliced("stride", 1, (1, 3, 300, 600), [0], [600], [3], [2]),
        _one("elementwise", 1, "Add", (784, 336), {}, {"b": np.ones((784, 336), np.float32)}),
    ]
    cells = 680 * 384
    found.append(_one("expand", cells, "Expand", (1, 384), {}, {"d": _ints(680, 384)}, cells))
    found.append(_one("tile", 4096, "Tile", (64, 4096), {}, {"d": _ints(1, 2)}, 2 * CELLS))
    found += [_repeated(run) for run in (8, 192)]
    found += [*_normalised_sums(), *_torn_apart()]
    found += [*_operators(), *_products()]
    return found


def _one(
    kind: str, run: int, op: str, shape: Shape, attrs: Mapping[str, Any], constants: Mapping[str, Any] | None = None,
    cells: int | None = None,
) -> Probe:  # fmt: skip
    """One operator on one input."""
    given = constants or {}
    per = WORD * (prod(shape) if cells is None else cells)
    return Probe((kind, WORD * run), per, [(op, ["x", *given], attrs)], {"x": shape}, given)


def _ints(*values: int) -> Any:
    return np.array(values, np.int64)


def _sliced(
    kind: str, run: int, shape: Shape, starts: Sequence[int], ends: Sequence[int], axes: Sequence[int],
    steps: Sequence[int],
) -> Probe:  # fmt: skip
    names = {"s": _ints(*starts), "e": _ints(*ends), "a": _ints(*axes), "t": _ints(*steps)}
    left = prod(shape) // prod(shape[a] for a in axes)
    cells = left * prod(-(-(e - s) // t) for s, e, t in zip(starts, ends, steps, strict=True))
    return _one(kind, run, "Slice", shape, {}, names, cells)


def _in_runs(run: int) -> list[Probe]:
    """The same operators on cells that lie in runs of one length."""
    rows = CELLS // run // 4 * 4
    order = np.arange(rows).reshape(4, -1).T.reshape(-1)
    halves = {"x": (rows // 2, run), "z": (rows // 2, run)}
    size = WORD * rows * run
    found = [
        _one("gather", run, "Gather", (rows, run), {"axis": 0}, {"i": order.astype(np.int64)}),
        _sliced("slice", run, (rows, 2 * run), [0], [run], [1], [1]),
        _one("pad", run, "Pad", (rows, run), {}, {"p": _ints(0, 0, 0, 1)}, rows * (run + 1)),
        Probe(("concat", WORD * run), size, [("Concat", ["x", "z"], {"axis": 1})], halves),
        _split(run, rows),
        _one("tile", run, "Tile", (rows // 2, run), {}, {"d": _ints(1, 2)}, rows * run),
    ]
    if run > 1:
        outer = round((rows // 4) ** 0.5)
        shape = (outer, 2, rows // 2 // outer, run)
        found.append(_one("transpose", run, "Transpose", shape, {"perm": (2, 1, 0, 3)}))
        wide = {"d": _ints(rows, run)}
        found.append(_one("expand", run, "Expand", (rows, 1), {}, wide, rows * run))
    mask = {"c": order.reshape(rows, 1) % 2 == 0, "f": np.zeros(1, np.float32)}
    where = Probe(("mask", WORD * run), size, [("Where", ["c", "x", "f"], {})], {"x": (rows, run)}, mask)
    return [*found, where] if run > 4 else found


def _split(run: int, rows: int) -> Probe:
    nodes: list[Operator] = [("Split", ["x"], {"axis": 1})]
    return Probe(("split", WORD * run), WORD * rows * run, nodes, {"x": (rows // 2, 2 * run)}, outputs=2)


def _repeated(run: int) -> Probe:
    """What it adds to a sum that one side is repeated for every run."""
    row = {"b": np.ones(run, np.float32)}
    shape = (784 * 336 // run, run)
    nodes: list[Operator] = [("Add", ["x", "b"], {})]
    return Probe(("broadcast", WORD * run), WORD * prod(shape), nodes, {"x": shape}, row, ("elementwise", WORD))


def _normalised_sums() -> list[Probe]:
    """A sum that is normalised along its rows: in three dimensions the runtime makes one operator of both."""
    rows, cells = 196, 192
    nodes: list[Operator] = [("Add", ["x", "z"], {}), ("LayerNormalization", ["v0", "s", "b"], {})]
    given = {"s": np.ones(cells, np.float32), "b": np.zeros(cells, np.float32)}
    plain: Shape = (rows, cells)
    apart = Probe(("rows", 0), 1, nodes, {"x": plain, "z": plain}, given)
    whole: Shape = (1, rows, cells)
    return [apart, Probe(("norm_of_sum", WORD), WORD * rows * cells, nodes, {"x": whole, "z": whole}, given, apart.key)]


def _torn_apart() -> list[Probe]:
    """A function in five element-wise operators, of which the runtime makes one, and the same with a reshape before the
    last; it costs what the others take, beside its own price."""
    shape: Shape = (784, 336)
    given = {k: np.array(v, np.float32) for k, v in {"r": 2**0.5, "o": 1, "h": 0.5}.items()}
    steps: list[Operator] = [("Div", ["x", "r"], {}), ("Erf", ["v0"], {}), ("Add", ["v1", "o"], {})]
    steps.append(("Mul", ["x", "v2"], {}))
    whole = Probe(("whole", 0), 1, [*steps, ("Mul", ["v3", "h"], {})], {"x": shape}, given)
    torn: list[Operator] = [*steps, ("Reshape", ["v3", "d"], {}), ("Mul", ["v4", "h"], {})]
    size = WORD * prod(shape)
    flat = given | {"d": _ints(prod(shape))}
    return [whole, Probe(("apart", WORD), size, torn, {"x": shape}, flat, whole.key)]


def _operators() -> list[Probe]:
    """Operators that do next to nothing, each between two that read and write what fills a near cache."""
    shapes = {"s": _ints(512, 32), "t": _ints(32, 512)}
    plain, small, reshaped = [list[Operator]() for _ in range(3)]
    for n in range(NODES):
        before = "x" if n == 0 else f"v{n - 1}"
        plain.append(("Mul", [before, "f"], {}))
        before, row = ("x", "f") if n == 0 else (f"v{2 * n - 1}", f"v{2 * n - 2}")
        small += [("Neg", [row], {}), ("Mul", [before, f"v{2 * n}"], {})]
        reshaped += [("Mul", [before, "f"], {}), ("Reshape", [f"v{2 * n}", "st"[n % 2]], {})]
    inputs = {"x": (32, 512), "f": (1,)}
    return [
        Probe(("chain", 0), 1, plain, inputs),
        Probe(("node", 0), NODES, small, inputs, {}, ("chain", 0)),
        Probe(("reshape", 0), NODES, reshaped, inputs, shapes, ("chain", 0)),
    ]


def _products() -> list[Probe]:
    rows, inner, columns = 784, 192, 384
    weight = np.full((inner, columns), 1 / inner, np.float32)
    per = rows * inner * columns
    there = Probe(("work", 0), per, [("MatMul", ["x", "w"], {})], {"x": (rows, inner)}, {"w": weight})
    left, turned = {"w": weight.T.copy()}, {"x": (inner, rows)}
    other: list[Operator] = [("MatMul", ["w", "x"], {})]
    flags: list[Operator] = [("Gemm", ["x", "w"], {"transA": 1})]
    few, heads = 49, 12
    one = Probe(("few", 0), 1, [("MatMul", ["x", "w"], {})], {"x": (few, inner)}, {"w": weight})
    batch = {"w": np.full((heads, inner, columns // heads), 1 / inner, np.float32)}
    return [
        there,
        one,
        Probe(("packed", 0), weight.size, [("MatMul", ["x", "w"], {})], {"x": (few, inner)}, batch, one.key),
        Probe(("constant_left", 0), per, other, turned, left, ("work", 0)),
        Probe(("transposed_left", 0), per, flags, turned, {"w": weight}, ("work", 0)),
    ]


def model_of(probe: Probe) -> Any:
    """The model of a probe: its operators behind each other, v0, v1, ..., the last one's results the outputs."""
    onnx = require("onnx")
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    made: list[Any] = []
    outputs: list[str] = []
    for n, (op, names, attrs) in enumerate(probe.nodes):
        outputs = [f"v{n}"] if n + 1 < len(probe.nodes) else [f"y{k}" for k in range(probe.outputs)]
        made.append(helper.make_node(op, list(names), outputs, **attrs))
    inputs = [helper.make_tensor_value_info(name, real, shape) for name, shape in probe.inputs.items()]
    results = [helper.make_tensor_value_info(name, real, None) for name in outputs]
    data = [onnx.numpy_helper.from_array(value, name) for name, value in probe.constants.items()]
    graph = helper.make_graph(made, "probe", inputs, results, data)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def runner(probe: Probe, threads: int) -> Run:
    """A run of a probe in onnxruntime, as it optimises models, without copies of what goes in and out."""
    ort = require("onnxruntime")
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.intra_op_num_threads, options.inter_op_num_threads, options.log_severity_level = threads, 1, 4
    live = ort.InferenceSession(model_of(probe).SerializeToString(), options, providers=["CPUExecutionProvider"])
    draw = np.random.default_rng(1).standard_normal
    make = ort.OrtValue.ortvalue_from_numpy
    feeds = {name: make(draw(shape).astype(np.float32)) for name, shape in probe.inputs.items()}
    names = [x.name for x in live.get_outputs()]
    return lambda: live.run_with_ort_values(names, feeds)


def measured(
    threads: int = 1,
    seconds: float = 10.0,
    timer: Callable[[], int] | None = None,
    start: Callable[[Probe, int], Run] = runner,
) -> Table:
    """The table of prices for a number of threads: medians of rounds in which every probe runs once.

    timer: nanoseconds; the default counts this thread's own time where that is all there is, else time that passes.
    Errors: MissingPackage where onnxruntime is not installed.
    """
    now = timer or (time.thread_time_ns if threads == 1 else time.perf_counter_ns)
    every = probes()
    runs = [start(probe, threads) for probe in every]
    for run in runs:
        run()
    taken: list[list[int]] = [[] for _ in runs]
    begun = time.perf_counter()
    while len(taken[0]) < ROUNDS[0] or (len(taken[0]) < ROUNDS[1] and time.perf_counter() - begun < seconds):
        clock.check()
        for run, times in zip(runs, taken, strict=True):
            run()  # what it reads is near then
            before = now()
            run()
            times.append(now() - before)
    medians = {probe.key: median(times) for probe, times in zip(every, taken, strict=True)}
    return _table(every, medians, threads)


def _table(every: Sequence[Probe], medians: Mapping[tuple[str, int], float], threads: int) -> Table:
    prices = {
        p.key: round(1000 * max(0.0, medians[p.key] - medians[p.than]) / p.per, 2)
        for p in every
        if p.key[0] not in YARDSTICKS
    }
    moves: dict[str, list[tuple[float, float]]] = {}
    for (kind, run), price in sorted(prices.items()):
        if run:
            moves.setdefault(kind, []).append((float(run), price))
    named = {kind: price for (kind, run), price in prices.items() if not run}
    products = {name: named.pop(name) for name in PRODUCTS}
    version = getattr(require("onnxruntime"), "__version__", "")
    return Table(f"onnxruntime {version}, {platform.machine()}", threads, moves, named, products)


def thread_counts() -> tuple[int, ...]:
    """For how many threads prices are measured: one, and all processors."""
    count = os.cpu_count() or 1
    return (1,) if count == 1 else (1, count)
