"""Random ONNX models, built node by node: each node is run as soon as it is added, so that only valid ones stay.

A model has several assignments of numbers to its symbolic sizes. A node stays if it runs under the first two; the
others (0 and 1 among them) are tried on the whole model, and left out where the model itself fails.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from eqsat.models.package import element_type
from eqsat.onnx.call import schema

Array = Any
Random = np.random.Generator
Dim = int | str
SIZES: tuple[dict[str, int], ...] = (
    {"N": 3, "M": 4}, {"N": 5, "M": 2}, {"N": 1, "M": 4}, {"N": 3, "M": 1}, {"N": 1, "M": 1}, {"N": 0, "M": 4},
    {"N": 3, "M": 0},
)  # fmt: skip
"""Sizes that models are run with; nodes are tried under the first two."""
TRIED = 2
FLOATS = ("float32", "float16", "float64")
BITS = {"float16": 8, "float32": 20, "float64": 48}
"""Numbers of up to this many bits, sums of them included, are exact."""
LARGEST = {"float16": 1e3, "float32": 1e5, "float64": 1e6}


class Rejected(Exception):
    """A node that onnxruntime refuses, or whose values would be no test."""


@dataclass(frozen=True)
class Value:
    """A named value: its arrays under the first assignments, and the digits that its floats have after the point.

    A value without digits was rounded; `positive` ones are above 0 under every assignment.
    """

    name: str
    arrays: tuple[Array, ...]
    digits: int | None = 0
    positive: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.arrays[0].shape)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> str:
        return str(self.arrays[0].dtype.name)

    @property
    def exact(self) -> bool:
        return self.digits is not None

    @property
    def dynamic(self) -> frozenset[int]:
        """The axes whose extent depends on the assignment: all, where even the rank does."""
        if len({a.ndim for a in self.arrays}) > 1:
            return frozenset(range(self.rank))
        return frozenset(n for n in range(self.rank) if len({a.shape[n] for a in self.arrays}) > 1)


def run(model: ModelProto, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs by onnxruntime, without graph optimisations, in one thread."""
    runtime: Any = ort
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(feeds)))


def info(name: str, dtype: str, shape: Sequence[Any] | None) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, element_type(dtype), shape)


@dataclass
class Builder:
    """A model in the making."""

    random: Random
    opset: int
    symbolic: bool
    values: list[Value] = field(default_factory=list[Value])
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    inputs: dict[str, tuple[str, tuple[Dim, ...], bool]] = field(
        default_factory=dict[str, tuple[str, tuple[Dim, ...], bool]]
    )
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    defaults: list[str] = field(default_factory=list[str])
    used: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    fresh: int = 0

    # -- choices -------------------------------------------------------------------------------------------------------

    def whole(self, low: int, high: int) -> int:
        """A number from low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def chance(self, p: float) -> bool:
        return bool(self.random.random() < p)

    def pick(self, items: Sequence[Any]) -> Any:
        return items[self.whole(0, len(items) - 1)]

    def extent(self) -> int:
        return int(self.random.choice([0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 6], p=[0.02, *[0.098] * 10]))

    def name(self, wish: str) -> str:
        self.fresh += 1
        return f"{wish}{self.fresh}"

    # -- values --------------------------------------------------------------------------------------------------------

    def numbers(self, dtype: str, shape: Sequence[int], positive: bool = False) -> Array:
        """Small numbers that floats hold exactly: sums and products of some of them are exact, too."""
        if dtype == "bool":
            return self.random.integers(0, 2, tuple(shape)).astype(bool)
        low = 1 if positive else 0 if dtype[0] == "u" else -8
        values = self.random.integers(low, 9, tuple(shape))
        return (values / 4).astype(dtype) if dtype in FLOATS else values.astype(dtype)

    def input(self, dtype: str, dims: Sequence[Dim], positive: bool = False) -> Value:
        """A new graph input."""
        name = self.name("x")
        self.inputs[name] = (dtype, tuple(dims), positive)
        shapes = [[s[d] if isinstance(d, str) else d for d in dims] for s in SIZES[:TRIED]]
        arrays = tuple(self.numbers(dtype, shape, positive) for shape in shapes)
        self.values.append(Value(name, arrays, 2 if dtype in FLOATS else 0, positive))
        return self.values[-1]

    def constant(self, array: Array, positive: bool = False) -> Value:
        """A constant: an initialiser, the output of a Constant node, or an input with a default."""
        array = np.asarray(array)
        name, kind = self.name("c"), self.random.random()
        if kind < 0.15:
            self.nodes.append(helper.make_node("Constant", [], [name], value=numpy_helper.from_array(array)))
        else:
            if kind < 0.25 and array.dtype.kind == "f":
                self.defaults.append(name)
            self.constants[name] = array
        return Value(name, (array,) * TRIED, 2 if array.dtype.kind == "f" else 0, positive)

    def ints(self, *values: int) -> Value:
        return self.constant(np.array(values, np.int64))

    def new(self, dtype: str, rank: int, positive: bool = False) -> Value:
        """A new input of some rank, with symbolic sizes where the model may have them."""
        dims: list[Dim] = [self.extent() for _ in range(rank)]
        for n in range(rank):
            if self.symbolic and self.chance(0.4):
                dims[n] = self.pick(("N", "M"))
        return self.input(dtype, dims, positive)

    def value(
        self,
        dtypes: Sequence[str] = ("float32",),
        least: int = 0,
        most: int = 5,
        exact: bool = False,
        positive: bool = False,
        static: Sequence[int] = (),
    ) -> Value:
        """A value of some data type and rank: one that is there already, or a new input."""
        fits = [
            v for v in self.values
            if v.dtype in dtypes and least <= v.rank <= most and (v.exact or not exact) and (v.positive or not positive)
            and not any(n in v.dynamic for n in static)
        ]  # fmt: skip
        if fits and self.chance(0.85):
            late = fits[-3:] if self.chance(0.7) else fits
            return self.pick(late)
        rank = self.whole(least, max(least, min(most, 4)))
        if not static:
            return self.new(self.pick(dtypes), rank, positive)
        dims: list[Dim] = [self.extent() for _ in range(rank)]
        return self.input(self.pick(dtypes), dims, positive)

    def like(self, v: Value, positive: bool = False) -> Value:
        """A value that broadcasts with another: of its shape, or with axes left out or of extent 1."""
        fits = [
            w for w in self.values
            if w.dtype == v.dtype and all(a.shape == b.shape for a, b in zip(v.arrays, w.arrays, strict=True))
            and (w.positive or not positive)
        ]  # fmt: skip
        if fits and self.chance(0.5):
            return self.pick(fits)
        shape = [1 if n in v.dynamic or self.chance(0.3) else d for n, d in enumerate(v.shape)]
        cut = 0 if self.chance(0.5) else self.whole(0, v.rank)
        if self.chance(0.6):
            return self.constant(self.numbers(v.dtype, shape[cut:], positive), positive)
        return self.input(v.dtype, shape[cut:], positive)

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def add(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: Mapping[str, Any] | None = None,
        outputs: int = 1,
        digits: int | None = None,
        positive: bool = False,
        skip: Sequence[int] = (),
    ) -> list[Value]:
        """Add a node; Rejected where onnxruntime refuses it or its values grow too large.

        `digits` are those of the outputs, None where the operator rounds; `skip` names outputs that get no name.
        """
        found = schema(op, self.opset)
        if found is None:
            raise Rejected(f"{op} is not in opset {self.opset}")
        names = ["" if n in skip else self.name("v") for n in range(outputs)]
        given = ["" if x is None else x.name for x in inputs]
        node = helper.make_node(op, given, names, **dict(attrs or {}))
        made = [self._run(node, [x for x in inputs if x is not None], k) for k in range(TRIED)]
        for k, name in enumerate(n for n in names if n):
            arrays = tuple(m[k] for m in made)
            self._refuse(arrays)
            rounded = arrays[0].dtype.kind == "f" and not _exact(arrays, digits)
            plain = 0 if arrays[0].dtype.kind != "f" else digits
            self.values.append(Value(name, arrays, None if rounded else plain, positive))
        self.nodes.append(node)
        self.used.append((op, int(found.since_version)))
        return self.values[-sum(1 for n in names if n) :]

    def _run(self, node: NodeProto, inputs: Sequence[Value], k: int) -> list[Array]:
        feeds = {x.name: x.arrays[k] for x in inputs if x.name not in self.constants}
        graph = helper.make_graph(
            [node],
            "one",
            [info(n, a.dtype.name, [None] * a.ndim) for n, a in feeds.items()],
            [helper.make_empty_tensor_value_info(o) for o in node.output if o],
            [numpy_helper.from_array(self.constants[x.name], x.name) for x in {v.name: v for v in inputs}.values()
             if x.name in self.constants],
        )  # fmt: skip
        try:
            return run(_stamped(graph, self.opset), feeds)
        except Exception as error:  # onnxruntime's own classes
            raise Rejected(str(error)) from error

    def _refuse(self, arrays: Sequence[Array]) -> None:
        for a in arrays:
            if not hasattr(a, "ndim"):
                raise Rejected("no tensor")
            if a.size > 4096 or a.ndim > 7:
                raise Rejected("too large")
            largest = LARGEST.get(a.dtype.name, 2**20) if a.dtype.kind in "fiu" else 2
            if a.size and not float(np.max(np.abs(a.astype(np.float64)))) < largest:
                raise Rejected("values grow")

    # -- the model -----------------------------------------------------------------------------------------------------

    def feeds(self, k: int) -> dict[str, Array]:
        """Inputs under one assignment of sizes."""
        if k < TRIED:
            return {v.name: v.arrays[k] for v in self.values if v.name in self.inputs}
        table: dict[str, Array] = {}
        for name, (dtype, dims, positive) in self.inputs.items():
            table[name] = self.numbers(dtype, [SIZES[k][d] if isinstance(d, str) else d for d in dims], positive)
        return table

    def model(self) -> tuple[ModelProto, dict[str, bool]]:
        """The model, and its outputs with whether they must be equal bit for bit.

        Outputs are the values that nobody reads and some others, their shapes declared, left open, or left out.
        """
        read = {i for n in self.nodes for i in n.input}
        made = [v for v in self.values if v.name not in self.inputs]
        ends = [v for v in made if v.name not in read or self.chance(0.12)] or made[-1:]
        self.random.shuffle(ends)  # pyright: ignore[reportArgumentType]
        inputs = [info(n, d, dims) for n, (d, dims, _) in self.inputs.items() if n in read]
        inputs += [info(n, self.constants[n].dtype.name, self.constants[n].shape) for n in self.defaults if n in read]
        graph = helper.make_graph(
            self.nodes,
            "random",
            inputs,
            [info(v.name, v.dtype, self._declared(v)) for v in ends],
            [numpy_helper.from_array(a, n) for n, a in self.constants.items() if n in read],
        )
        if self.chance(0.2) and not self.symbolic:
            kept = [v for v in made if v.name in read and v not in ends and self.chance(0.5)]
            graph.value_info.extend(info(v.name, v.dtype, self._declared(v)) for v in kept)
        return _stamped(graph, self.opset), {v.name: v.exact for v in ends}

    def _declared(self, v: Value) -> list[Any] | None:
        kind = self.random.random()
        if kind < 0.15 or len({a.ndim for a in v.arrays}) > 1:
            return None
        hidden = 1.0 if kind < 0.4 else 0.0
        return [None if n in v.dynamic or self.chance(hidden) else d for n, d in enumerate(v.shape)]


def _stamped(graph: Any, opset: int) -> ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _exact(arrays: Sequence[Array], digits: int | None) -> bool:
    """Whether floats with so many digits after the point are exact, partial sums included."""
    if digits is None:
        return False
    top = max((float(np.max(np.abs(a), initial=0)) for a in arrays), default=0)
    return digits + np.log2(max(top, 1)) + 3 <= BITS[arrays[0].dtype.name]
