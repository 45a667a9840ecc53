"""Random models around one matrix product: operands stored in any order of axes, the result in any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from eqsat.models.package import element_type

EXTENTS = (1, 2, 2, 3, 3, 4, 5)
DTYPES = ("float32", "float32", "float32", "float32", "float64", "float16", "int32", "int64")


@dataclass
class Draft:
    """A graph in the making, with the value of each size name."""

    random: np.random.Generator
    nodes: list[NodeProto] = field(default_factory=list[NodeProto])
    inputs: list[Any] = field(default_factory=list[Any])
    constants: list[TensorProto] = field(default_factory=list[TensorProto])

    def chance(self, p: float) -> bool:
        return bool(self.random.random() < p)

    def add(self, op: str, *operands: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(operands), [name], **attrs))
        return name

    def ints(self, values: Sequence[int]) -> str:
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), f"c{len(self.constants)}"))
        return self.constants[-1].name


def shuffled(random: np.random.Generator, letters: str) -> str:
    return "".join(random.permutation(list(letters)).tolist()) if letters else ""


@dataclass(frozen=True)
class Axes:
    """Letters of the axes of a product, and their extents; the symbolic ones have names."""

    groups: tuple[str, str, str, str]
    extents: Mapping[str, int]
    symbolic: frozenset[str]

    def dims(self, letters: str) -> list[int | str]:
        return [f"n_{x}" if x in self.symbolic else self.extents[x] for x in letters]

    def sizes(self) -> dict[str, int]:
        return {f"n_{x}": self.extents[x] for x in self.symbolic}

    def merged(self, *groups: str) -> list[int]:
        """The extents of groups of axes as one dimension each; a symbolic one is -1."""
        return [-1 if set(g) & self.symbolic else prod(self.extents[x] for x in g) for g in groups]


def axes(random: np.random.Generator) -> Axes:
    """Batch, rows, columns and summed axes; at most one is symbolic or empty."""
    counts = [int(random.integers(0, 3)), *(int(random.integers(1, 3)) for _ in range(3))]
    letters = iter("bcdefghijk")
    groups = ["".join(next(letters) for _ in range(n)) for n in counts]
    extents = {x: int(random.choice(EXTENTS)) for g in groups for x in g}
    symbolic: set[str] = set()
    odd = random.random()
    if odd < 0.15:
        symbolic.add(str(random.choice(list("".join(groups[:2]) or groups[1]))))
    elif odd < 0.2:
        extents[str(random.choice(list("".join(groups[:3]))))] = 0
    return Axes((groups[0], groups[1], groups[2], groups[3]), extents, frozenset(symbolic))


def operand(d: Draft, a: Axes, dtype: str, name: str, groups: Sequence[str], constant: bool) -> str:
    """A tensor stored in a random order of its axes, laid out by groups."""
    stored = shuffled(d.random, "".join(groups))
    if constant and not set(stored) & a.symbolic:
        shape = [a.extents[x] for x in stored]
        values = d.random.integers(-3, 4, shape) if dtype[0] == "i" else d.random.standard_normal(shape)
        d.constants.append(numpy_helper.from_array(np.asarray(values).astype(dtype), name))
    else:
        d.inputs.append(helper.make_tensor_value_info(name, element_type(dtype), a.dims(stored)))
    if d.chance(0.3):
        name = d.add("Neg", name)
    return relaid(d, a, name, stored, groups)


def relaid(d: Draft, a: Axes, name: str, stored: str, groups: Sequence[str]) -> str:
    """Axes in the order of groups, each group one dimension; a group is "" for none."""
    wanted = "".join(groups)
    if wanted != stored:
        name = d.add("Transpose", name, perm=[stored.index(x) for x in wanted])
    if len(wanted) != len(groups) or any(len(g) != 1 for g in groups):
        name = d.add("Reshape", name, d.ints(a.merged(*groups)), **_zero(a, groups))
    return name


def _zero(a: Axes, groups: Sequence[str]) -> dict[str, int]:
    return {"allowzero": 1} if 0 in a.merged(*groups) else {}


def random_product(seed: int) -> tuple[ModelProto, dict[str, int]]:
    """A model, and a value for its symbolic sizes."""
    random = np.random.default_rng(seed)
    d, a = Draft(random), axes(random)
    batch, rows, columns, inner = a.groups
    dtype = str(random.choice(DTYPES))
    fixed = [d.chance(0.25), d.chance(0.4)]
    flags = {"transA": int(d.chance(0.5)), "transB": int(d.chance(0.5))}
    gemm = not batch and dtype[0] == "f" and d.chance(0.5)
    left = [*batch, rows, inner]
    right = [*batch, inner, columns]
    if gemm:
        left, right = (left[::-1] if flags["transA"] else left), (right[::-1] if flags["transB"] else right)
    p = operand(d, a, dtype, "x", left, fixed[0])
    shared = d.chance(0.15) and a.merged(*left) == a.merged(*right)
    q = p if shared else operand(d, a, dtype, "w", right, fixed[1])
    y = d.add("Gemm", p, q, **flags) if gemm else d.add("MatMul", p, q)
    if d.chance(0.5):
        y = d.add("Neg", y)
    whole = batch + rows + columns
    if len(rows) != 1 or len(columns) != 1:
        y = d.add("Reshape", y, d.ints(a.merged(*whole)), **_zero(a, whole))
    out = shuffled(random, whole)
    if out != whole:
        y = d.add("Transpose", y, perm=[whole.index(x) for x in out])
    d.nodes.append(helper.make_node("Identity", [y], ["y"]))
    output = helper.make_tensor_value_info("y", element_type(dtype), a.dims(out))
    graph = helper.make_graph(d.nodes, "product", d.inputs, [output], d.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", int(random.choice((15, 17, 21))))])
    model.ir_version = 8
    return model, a.sizes()
