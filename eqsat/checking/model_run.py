"""Running the two sides of a region of a model: small models, inputs drawn alike, outputs compared."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, cast

import numpy as np
from onnx import ModelProto, NodeProto, SparseTensorProto, TensorProto, ValueInfoProto, helper, numpy_helper

from eqsat.checking.draws import MOST_NUMBERS, NUDGES, SMALLER, Draw, numbers_of, pool
from eqsat.checking.drive import RegionRun
from eqsat.checking.equal import difference, differing, tolerance_of
from eqsat.checking.graph import Type
from eqsat.checking.meant import explicit
from eqsat.checking.model_graph import Uniform, Unit, array_of
from eqsat.checking.part import Impossible
from eqsat.checking.settled import Settled
from eqsat.checking.verdict import now
from eqsat.ir import clock
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EvaluationError, MissingPackage
from eqsat.models.guarded_runs import ProcessEnded, run_apart
from eqsat.models.package import session
from eqsat.models.reference import evaluator

NUMPY: dict[int, str] = {
    TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64", TensorProto.FLOAT16: "float16",
    TensorProto.INT8: "int8", TensorProto.INT16: "int16", TensorProto.INT32: "int32", TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8", TensorProto.UINT16: "uint16", TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64", TensorProto.BOOL: "bool",
}  # fmt: skip
BY_CAST: dict[int, tuple[int, str]] = {
    TensorProto.BFLOAT16: (TensorProto.FLOAT, "bfloat16"), TensorProto.FLOAT8E4M3FN: (TensorProto.FLOAT, "bfloat16"),
    TensorProto.FLOAT8E5M2: (TensorProto.FLOAT, "bfloat16"),
}  # fmt: skip
"""Types that numpy has not: fed and read through a Cast; with the type whose tolerance they get."""
FEW = 1000
"""Cells of inputs below which more inputs are tried."""
MOST_AXES = 64
"""Of an array of numpy."""
BY_PLACE = frozenset(
    ("ReduceMax", "ReduceMin", "Max", "Min", "MaxPool", "GlobalMaxPool", "ArgMax", "ArgMin", "TopK", "MaxRoiPool")
)
"""Operators whose kernels lose a NaN or keep it by where it stands."""
EXACT_IDS = {
    "float32": 1 << 24,
    "float64": 1 << 53,
    "int32": 1 << 31,
    "int64": 1 << 62,
    "uint32": 1 << 31,
    "uint64": 1 << 62,
}


@dataclass(frozen=True)
class Fed:
    """An input of a small model: the number by which it is drawn, its type, and whether it stands for a constant."""

    number: int
    kind: Type
    constant: bool = False


@dataclass
class Small:
    """One side of a region as a model, what is fed to it, the tolerance of each output (None: by its type), and whether
    it is run in a process of its own: one of its values may have no cells."""

    model: ModelProto
    fed: dict[str, Fed]
    outputs: list[str]
    tolerances: dict[str, str]
    apart: bool = False


def small_model(
    unit: Unit, nodes: Sequence[NodeProto], tensors: Mapping[str, Any], fed: Mapping[str, Fed],
    outputs: Sequence[str],
) -> Small:  # fmt: skip
    """The model of some nodes of a model; values of types that numpy has not go in and out through casts."""
    model = ModelProto(ir_version=max(unit.model.ir_version, 4))
    model.opset_import.extend(unit.model.opset_import)
    used = {(n.domain, n.op_type) for n in nodes}
    if unit.functions and used & set(unit.functions):
        model.functions.extend(unit.functions.values())
    graph = model.graph
    graph.name = "region"
    tolerances: dict[str, str] = {}
    for name, one in fed.items():
        dims, element = one.kind
        if dims is None or not element.isdigit():
            raise Impossible("region", f"the type of {name!r} is not known")
        kind = int(element)
        if kind in BY_CAST:
            graph.node.append(helper.make_node("Cast", [f"{name}__plain"], [name], to=kind))
            graph.input.append(helper.make_tensor_value_info(f"{name}__plain", BY_CAST[kind][0], _extents(dims)))
        elif kind in NUMPY or kind == TensorProto.STRING:
            graph.input.append(helper.make_tensor_value_info(name, kind, _extents(dims)))
        else:
            raise Impossible("region", f"no values are drawn for element type {kind} of {name!r}")
    for name, source in tensors.items():
        if isinstance(source, Uniform):
            source = np.array(array_of(source), order="C")  # of no axes, too
        if isinstance(source, SparseTensorProto):
            graph.sparse_initializer.append(source)
        elif isinstance(source, np.ndarray):
            graph.initializer.append(numpy_helper.from_array(cast(NDArray, source), name))
        else:
            added = graph.initializer.add()
            added.CopyFrom(source)
            added.name = name
    graph.node.extend(nodes)
    shown: list[str] = []
    for k, name in enumerate(outputs):
        _, element = unit.graph.types[unit.made[name]]
        kind = int(element) if element.isdigit() else 0
        out = f"out__{k}"
        if kind in BY_CAST:
            graph.node.append(helper.make_node("Cast", [name], [out], to=BY_CAST[kind][0]))
            tolerances[out] = BY_CAST[kind][1]
        else:
            graph.node.append(helper.make_node("Identity", [name], [out]))
        graph.output.append(helper.make_empty_tensor_value_info(out))
        shown.append(out)
    return Small(model, dict(fed), shown, tolerances)


def _extents(dims: Sequence[object]) -> list[int]:
    return [d for d in dims if isinstance(d, int)]


class _Engine:
    """A model ready to be run: by onnxruntime, here or in a process of its own, or, where that is not installed or
    asked not to, by onnx.reference."""

    def __init__(self, model: ModelProto, apart: bool, reference: bool = False) -> None:
        self.data = b"" if reference else model.SerializeToString()
        self.apart = apart and not reference
        self.live: Any = None
        if reference:
            self.live = _tried(lambda: evaluator(model))
        elif apart:
            _tried(lambda: run_apart(self.data, None))
        else:
            self.live = _tried(lambda: session(self.data, threads=1))

    def run(self, feeds: Mapping[str, Any]) -> list[Any]:
        if self.apart:
            return _tried(lambda: run_apart(self.data, feeds))
        with warnings.catch_warnings():  # the reference is numpy, which warns of means of nothing and the like
            warnings.simplefilter("ignore", RuntimeWarning)
            return _tried(lambda: list(self.live.run(None, dict(feeds))))


class _Refused(Exception):
    """The runtime did not take a model, or failed on an input."""


def _tried(action: Any) -> Any:
    try:
        return action()
    except (ProcessEnded, MissingPackage, clock.OutOfTime):
        raise
    except EvaluationError as error:
        raise _Refused(error.problem[:200]) from error
    except Exception as error:  # runtimes raise classes of their own, with no common base
        raise _Refused((str(error).strip().splitlines() or [type(error).__name__])[0][:200]) from error


def compare(small: tuple[Small, Small], moves: bool, deadline: float) -> RegionRun:
    """Run both sides on the same inputs; what only moves values is proved by inputs that are all different."""
    apart = any(side.apart for side in small)
    left, reference = _original(small[0].model, apart)
    try:
        right = _Engine(small[1].model, apart, reference)
    except (_Refused, ProcessEnded) as error:
        return RegionRun("run", "", dict.fromkeys(range(len(small[0].outputs)), f"the result does not load: {error}"))
    compared, trouble = 0, ""
    proof = moves and _countable(small)
    few = sum(prod(_extents(one.kind[0] or ())) for one in small[0].fed.values()) < FEW
    written = (x for side in small for x in side.model.graph.initializer if prod(x.dims) <= MOST_NUMBERS)
    near = numbers_of(numpy_helper.to_array(x) for x in written)
    kinds = [Draw("special" if k % 3 == 1 else "plain", 1 + k, moves, near) for k in range(9 if few else 3)]
    kinds += [Draw(kind, 11, moves, near) for kind in ("high", "low") if few]
    draws: list[Draw | int] = [0, 1] if proof else list(kinds)
    smaller = [] if proof else [replace(kinds[0], scale=scale) for scale in SMALLER]
    settled = Settled(set(range(len(small[0].outputs))))
    for draw in (*draws, *smaller, *(Draw("tame", k) for k in (14, 15, 17, 16))):
        if compared and now() > deadline:
            break
        if draw in smaller and not settled.open:
            continue
        feeds = _feeds(small[0], draw), _feeds(small[1], draw)
        try:
            expected = left.run(feeds[0])
        except _Refused as error:
            trouble = str(error)
            continue
        except ProcessEnded as error:
            raise Impossible("region", "the runtime ends the process in which it runs the original") from error
        try:
            found = right.run(feeds[1])
        except (_Refused, ProcessEnded) as error:
            return RegionRun("run", "", dict.fromkeys(range(len(expected)), f"the result fails: {error}"))
        problems = _problems(small[0], left, (expected, found), draw, moves, settled)
        if problems and isinstance(draw, Draw) and draw.kind == "special" and not reference:
            problems = _meant(small, feeds, problems, moves)
        if problems:
            return RegionRun("run", "", problems)
        compared += 1
        if compared >= len(draws) and not settled.open:
            break
    if settled.held:
        return RegionRun("run", "", settled.problems())
    if not compared:
        raise Impossible("region", f"the original fails on the inputs that were drawn: {trouble}")
    if proof and compared == 2:
        return RegionRun("proved", "values are only moved, and each arrives where it should")
    return RegionRun("run", f"equal on {compared} inputs")


def strays(models: tuple[ModelProto, ModelProto], extents: Mapping[tuple[str, int], int]) -> bool:
    """Whether the first of two models breaks a shape that it declares for an output where the second one keeps to all
    of them, run with these extents of inputs, by input and axis, for those that are not numbers.

    A Reshape to sizes that are 0 copies other extents instead, and what was meant are the sizes.
    """
    feeds: dict[str, NDArray] = {}
    sizes: dict[str, int] = {}
    given = {x.name for x in models[0].graph.initializer}
    for value in models[0].graph.input:
        kind = value.type.tensor_type
        if value.name in given:
            continue
        if kind.elem_type not in NUMPY:
            return False
        shape = [extents.get((value.name, n), d.dim_value) for n, d in enumerate(kind.shape.dim)]
        sizes |= {d.dim_param: e for d, e in zip(kind.shape.dim, shape, strict=True) if d.dim_param}
        feeds[value.name] = np.zeros(shape, NUMPY[kind.elem_type])
    try:
        first, second = (_Engine(model, apart=True).run(feeds) for model in models)
    except (_Refused, ProcessEnded, MissingPackage):
        return False
    declared = models[0].graph.output
    before, after = ([_kept(o, x, sizes) for o, x in zip(declared, ran, strict=True)] for ran in (first, second))
    return all(after) and not all(before)


def _kept(declared: ValueInfoProto, found: Any, sizes: Mapping[str, int]) -> bool:
    """Whether an array has the shape that was declared for it."""
    kind = declared.type.tensor_type
    if not kind.HasField("shape") or not isinstance(found, np.ndarray):
        return True
    array = cast(NDArray, found)
    said = [d.dim_value if d.HasField("dim_value") else sizes.get(d.dim_param, -1) for d in kind.shape.dim]
    return len(said) == array.ndim and all(d in (-1, e) for d, e in zip(said, array.shape, strict=True))


def _problems(
    small: Small, left: _Engine, sides: tuple[list[Any], list[Any]], draw: Draw | int, moves: bool, settled: Settled
) -> dict[int, str]:
    """What differs on a draw, but for what is held: there the original may be uncertain, other than in moves."""
    problems: dict[int, str] = {}
    again: list[list[Any]] | None = None
    for k, (a, b) in enumerate(zip(*sides, strict=True)):
        kind = small.tolerances.get(small.outputs[k], "")
        text = _difference(a, b, moves, kind)
        arrays = isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
        x, y = cast(NDArray, a), cast(NDArray, b)
        if moves or isinstance(draw, int) or not arrays or x.shape != y.shape or x.dtype != y.dtype:
            settled.silent.discard(k)
            if text:
                problems[k] = text
            continue
        tolerance = tolerance_of(kind) if kind else None
        wrong = differing(x, y, False, tolerance=tolerance)
        if text:
            again = _nudged(small, left, draw) if again is None else again
            others = [values[k] for values in again]
            if not again or not settled.holds(k, draw.kind, (x, y), others, wrong, text, tolerance):
                problems[k] = text
        settled.hear(k, x, wrong)
    return problems


def _nudged(small: Small, left: _Engine, draw: Draw) -> list[list[Any]]:
    """The original's values for inputs that differ in their last digits; [] where it has none."""
    try:
        return [left.run(_feeds(small, replace(draw, nudged=k))) for k in NUDGES]
    except _Refused:
        return []


def _meant(
    small: tuple[Small, Small],
    feeds: tuple[dict[str, NDArray], dict[str, NDArray]],
    problems: dict[int, str],
    moves: bool,
) -> dict[int, str]:
    """The differences that are in the meaning of the models, too: whether a NaN is the largest of several numbers, or
    lost among them, depends in onnxruntime on where it stands; of windows a longer model says what is meant, of all
    others onnx.reference."""
    if not any(n.op_type in BY_PLACE for side in small for n in side.model.graph.node):
        return problems
    shared = [small[0].tolerances.get(name, "") for name in small[0].outputs]
    models = [side.model for side in small]
    longer = [explicit(model) or model for model in models]
    apart = any(side.apart for side in small)
    for reference, asked in ((False, longer), (True, models)):
        if not reference and all(a is b for a, b in zip(asked, models, strict=True)):
            continue
        try:
            with np.errstate(all="ignore"):
                left, right = (_Engine(m, apart, reference).run(fed) for m, fed in zip(asked, feeds, strict=True))
        except (_Refused, ProcessEnded):
            continue
        problems = {k: text for k, text in problems.items() if _difference(left[k], right[k], moves, shared[k])}
        if not problems:
            break
    return problems


def _original(model: ModelProto, apart: bool) -> tuple[_Engine, bool]:
    """The original ready to be run, and whether by onnx.reference: where onnxruntime does not take it."""
    try:
        return _Engine(model, apart), False
    except (_Refused, ProcessEnded, MissingPackage) as first:
        try:
            return _Engine(model, apart, reference=True), True
        except _Refused as error:
            raise Impossible("region", f"no runtime takes the original: {first}; {error}") from error


def _difference(a: Any, b: Any, exact: bool, tolerance: str) -> str:
    if isinstance(a, list) or isinstance(b, list):
        if not (isinstance(a, list) and isinstance(b, list) and len(a) == len(b)):  # pyright: ignore[reportUnknownArgumentType]
            return "a sequence of another length"
        parts: list[str] = [_difference(x, y, exact, tolerance) for x, y in zip(a, b, strict=True)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return next((p for p in parts if p), "")
    if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
        return "" if (a is None and b is None) or a == b else "another value"
    x, y = cast(NDArray, a), cast(NDArray, b)
    if tolerance:
        return difference(x, y, exact, tolerance=tolerance_of(tolerance))
    return difference(x, y, exact, signs=exact)


def _countable(small: tuple[Small, Small]) -> bool:
    """Whether all cells that are fed can have different values, exactly."""
    total = 0
    for one in small[0].fed.values():
        name = NUMPY.get(int(one.kind[1]), "")
        total += prod(d for d in one.kind[0] or () if isinstance(d, int))
        if name not in EXACT_IDS or total + len(small[0].fed) >= EXACT_IDS[name]:
            return False
    return bool(small[0].fed)


def _feeds(small: Small, draw: Draw | int) -> dict[str, NDArray]:
    """The inputs of a small model. Numbered draws 0 and 1 give each cell a value of its own."""
    feeds: dict[str, NDArray] = {}
    for name, one in small.fed.items():
        shape = tuple(d for d in one.kind[0] or () if isinstance(d, int))
        if len(shape) > MOST_AXES:
            raise Impossible("region", f"it reads an array of {len(shape)} axes")
        size, kind = prod(shape), int(one.kind[1])
        if isinstance(draw, int):
            start = 1 + (one.number % 10_000) * size  # one number, one size
            flat = np.arange(start, start + size)
            feeds[name] = (flat if draw == 0 else start + 7 + (flat[::-1] - start)).astype(NUMPY[kind]).reshape(shape)
        elif kind == TensorProto.STRING:
            words = pool(draw, one.number, size, "uint8")
            feeds[name] = np.array([f"s{w}" for w in words], object).reshape(shape)
        elif kind in BY_CAST:
            feeds[f"{name}__plain"] = pool(draw, one.number, size, "float32").reshape(shape)
        else:
            # Constants of both signs first; then positive ones, since a variance or a scale may have to be.
            chosen = Draw("tame", draw.seed) if one.constant and draw.kind != "plain" else draw
            feeds[name] = pool(chosen, one.number, size, NUMPY[kind]).reshape(shape)
    return feeds
