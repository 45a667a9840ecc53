"""Chains of ONNX operators whose fewest bytes are known: a body between detours through layouts that undo each other.

A tensor is a list of dimensions, each made of *atoms*: the pieces of its axes N, C, H, W. A detour is an arrangement of
the atoms, or a permutation of the positions along one axis; the body is spelled in the arrangement that it is met in,
and at the end all is as it was. So the body alone, in the plain arrangement, is what an optimiser has to find.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper, shape_inference

Atom = tuple[str, int]
Dims = tuple[tuple[Atom, ...], ...]


@dataclass
class Sizes:
    """The extents of the atoms: axis C is C0 x C1, and so on; tensors are large beside what a node costs."""

    of: dict[Atom, int]

    @staticmethod
    def drawn(r: random.Random) -> Sizes:
        pieces = {
            "N": (r.choice([16, 24]),),
            "C": (r.choice([2, 3]), r.choice([4, 8])),
            "H": (r.choice([2, 3]), r.choice([4, 8])),
            "W": (r.choice([2, 5]), 8),
        }
        return Sizes({(axis, n): d for axis, parts in pieces.items() for n, d in enumerate(parts)})

    def axis(self, name: str) -> tuple[Atom, ...]:
        return tuple(a for a in self.of if a[0] == name)

    def total(self, atoms: Sequence[Atom]) -> int:
        return int(np.prod([self.of[a] for a in atoms], dtype=np.int64))

    def shape(self, dims: Dims) -> list[int]:
        return [self.total(d) for d in dims]


@dataclass
class Graph:
    """A model in the making, and how the value at hand is arranged."""

    sizes: Sizes
    seed: int
    nodes: list[Any] = field(default_factory=list[Any])
    weights: list[TensorProto] = field(default_factory=list[TensorProto])
    value: str = "x"
    dims: Dims = ()
    moved: bool = True
    """Whether detours are taken; without them the graph is the body alone."""

    plain: Dims = ()
    """The arrangement of the input and the output."""

    def __post_init__(self) -> None:
        self.dims = self.plain
        self.numbers = np.random.default_rng(self.seed)

    def constant(self, array: NDArray[Any] | np.generic) -> str:
        self.weights.append(numpy_helper.from_array(np.array(array, order="C"), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> list[str]:
        names = [f"v{len(self.nodes)}_{k}" for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names

    def apply(self, op: str, *rest: str, **attributes: Any) -> None:
        (self.value,) = self.node(op, self.value, *rest, **attributes)

    def laid(self, array: NDArray[Any], dims: Dims) -> str:
        """A constant of the plain arrangement as one of another."""
        atoms = [a for d in self.plain for a in d]
        cut = array.reshape([self.sizes.of[a] for a in atoms])
        order = [atoms.index(a) for d in dims for a in d]
        return self.constant(cut.transpose(order).reshape(self.sizes.shape(dims)))

    def drawn(self) -> NDArray[Any]:
        shape = self.sizes.shape(self.plain)
        return self.numbers.standard_normal(shape).astype(np.float32)

    def arrange(self, dims: Dims) -> None:
        """Reshape and transpose to an arrangement, in as few nodes as say it."""
        if not self.moved or dims == self.dims:
            return
        now, then = [a for d in self.dims for a in d], [a for d in dims for a in d]
        groups = _runs(now, then)
        cut = [g for d in self.dims for g in _cut(d, groups)]
        order = [cut.index(g) for g in _ordered(then, cut)]
        self.reshape([self.sizes.total(g) for g in cut], self.sizes.shape(self.dims))
        if order != sorted(order):
            self.apply("Transpose", perm=order)
        self.reshape(self.sizes.shape(dims), [self.sizes.total(cut[n]) for n in order])
        self.dims = dims

    def reshape(self, shape: list[int], now: list[int]) -> None:
        if shape != now:
            self.apply("Reshape", self.constant(np.array(shape, np.int64)))

    def at(self, name: str) -> int:
        """The dimension that is an axis of the plain arrangement."""
        return self.dims.index(self.sizes.axis(name))

    def model(self) -> ModelProto:
        shape = self.sizes.shape(self.plain)
        self.apply("Identity")
        self.nodes[-1].output[0] = self.value = "y"
        types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", shape), (self.value, None))]
        graph = helper.make_graph(self.nodes, "chain", types[:1], types[1:], self.weights)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        return shape_inference.infer_shapes(made, strict_mode=True)


def _runs(now: Sequence[Atom], then: Sequence[Atom]) -> set[tuple[Atom, Atom]]:
    """The neighbours that stay neighbours."""
    after = set(pairwise(then))
    return {pair for pair in pairwise(now) if pair in after}


def _cut(dim: tuple[Atom, ...], joined: set[tuple[Atom, Atom]]) -> Iterator[tuple[Atom, ...]]:
    piece: tuple[Atom, ...] = ()
    for a in dim:
        if piece and (piece[-1], a) not in joined:
            yield piece
            piece = ()
        piece = (*piece, a)
    yield piece


def _ordered(then: Sequence[Atom], cut: list[tuple[Atom, ...]]) -> Iterator[tuple[Atom, ...]]:
    first = {g[0]: g for g in cut}
    return (first[a] for a in then if a in first)


# -- detours ----------------------------------------------------------------------------------------------------------


def atoms(text: str) -> Dims:
    """An arrangement: dimensions apart by spaces, an axis as a whole (C) or a piece of it (C0).

    >>> atoms("N C1")
    ((('N', 0),), (('C', 1),))
    """
    dims: list[tuple[Atom, ...]] = []
    for word in text.split():
        found: list[Atom] = []
        for n, letter in enumerate(word):
            if letter.isdigit():
                continue
            piece = word[n + 1 : n + 2]
            found += (
                [(letter, int(piece))] if piece.isdigit() else [(letter, k) for k in range(1 if letter == "N" else 2)]
            )
        dims.append(tuple(found))
    return tuple(dims)


ARRANGEMENTS = {
    "nhwc": "N H W C",
    "chwn": "C H W N",
    "whcn": "W H C N",
    "ncwh": "N C W H",
    "blocked": "N C0 H W C1",
    "windows": "NH0W0 H1W1 C",
    "tokens": "N HW C",
    "columns": "CHW N",
    "space_to_depth": "N H1W1C H0 W0",
    "shuffled": "N C1C0 H W",
    "rows_first": "H N C W",
    "windows_first": "H0W0 N H1W1 C",
}

Permutation = Callable[[int], list[int]]
PERMUTATIONS: dict[str, tuple[str, Permutation]] = {
    "reversed": ("H", lambda n: list(range(n))[::-1]),
    "rolled": ("W", lambda n: [(i + 3) % n for i in range(n)]),
    "swizzled": ("W", lambda n: [i ^ 1 for i in range(n)]),
    "gathered": ("C", lambda n: random.Random(n).sample(range(n), n)),
}


def permuted(g: Graph, name: str, back: bool) -> None:
    """The positions along one axis in another order, spelled as exporters do."""
    if not g.moved:
        return
    axis, order = PERMUTATIONS[name]
    n, at = g.sizes.total(g.sizes.axis(axis)), g.at(axis)
    table = order(n)
    table = [table.index(i) for i in range(n)] if back else table
    if name == "reversed":
        ends = [np.array([v], np.int64) for v in (n - 1, -n - 1, at, -1)]
        g.apply("Slice", *(g.constant(v) for v in ends))
    elif name == "rolled":
        shift = table[0]
        parts: list[str] = []
        for low, high in ((shift, n), (0, shift)):
            ends = [np.array([v], np.int64) for v in (low, high, at)]
            parts += g.node("Slice", g.value, *(g.constant(v) for v in ends))
        (g.value,) = g.node("Concat", *parts, axis=at)
    else:
        g.apply("Gather", g.constant(np.array(table, np.int64)), axis=at)


# -- bodies -----------------------------------------------------------------------------------------------------------


def unary(g: Graph) -> None:
    g.apply("Sigmoid")


def steps(g: Graph) -> None:
    g.apply("Abs")
    g.apply("Exp")
    g.apply("Clip", g.constant(np.float32(0)), g.constant(np.float32(5)))


def added(g: Graph) -> None:
    g.apply("Add", g.laid(g.drawn(), g.dims))


def residual(g: Graph) -> None:
    kept = g.value
    g.apply("Tanh")
    g.apply("Add", kept)


def chosen(g: Graph) -> None:
    (positive,) = g.node("Greater", g.value, g.laid(g.drawn(), g.dims))
    (other,) = g.node("Neg", g.value)
    (g.value,) = g.node("Where", positive, g.value, other)


def quantised(g: Graph) -> None:
    parameters = g.constant(np.float32(0.05)), g.constant(np.uint8(120))
    g.apply("QuantizeLinear", *parameters)
    g.apply("DequantizeLinear", *parameters)


def softmax(g: Graph) -> None:
    g.apply("Softmax", axis=g.at("C"))


def summed_up(g: Graph) -> None:
    g.apply("CumSum", g.constant(np.int64(g.at("C"))))


def centred(g: Graph) -> None:
    (mean,) = g.node("ReduceMean", g.value, axes=[g.at("C")], keepdims=1)
    g.apply("Sub", mean)


def normalised(g: Graph) -> None:
    """As decomposed by exporters: mean, variance, division."""
    centred(g)
    (square,) = g.node("Mul", g.value, g.value)
    (mean,) = g.node("ReduceMean", square, axes=[g.at("C")], keepdims=1)
    (root,) = g.node("Sqrt", g.node("Add", mean, g.constant(np.float32(1e-5)))[0])
    g.apply("Div", root)


def scaled(g: Graph) -> None:
    """A factor and a summand for each channel, broadcast."""
    n, at = g.sizes.total(g.sizes.axis("C")), g.at("C")
    shape = [1] * len(g.dims)
    shape[at] = n
    for op in ("Mul", "Add"):
        g.apply(op, g.constant(g.numbers.standard_normal(n).astype(np.float32).reshape(shape)))


def branches(g: Graph) -> None:
    """Two ways that meet."""
    kept = g.value
    g.apply("Relu")
    (other,) = g.node("Softplus", kept)
    g.apply("Mul", other)


def product(g: Graph) -> None:
    """A matrix over the channels, on the side that their place asks for."""
    n, at = g.sizes.total(g.sizes.axis("C")), g.at("C")
    matrix = g.numbers.standard_normal((n, n)).astype(np.float32)
    shape = g.sizes.shape(g.dims)
    if at == len(shape) - 1:
        g.apply("MatMul", g.constant(matrix))
        return
    g.reshape([*shape[: at + 1], int(np.prod(shape[at + 1 :]))], shape)
    (g.value,) = g.node("MatMul", g.constant(matrix.T), g.value)
    g.reshape(shape, [])


def layer_norm(g: Graph) -> None:
    n = g.sizes.total(g.sizes.axis("C"))
    g.apply("LayerNormalization", *(g.constant(g.numbers.random(n).astype(np.float32)) for _ in range(2)), axis=-1)


def channels(g: Graph, array: NDArray[Any]) -> NDArray[Any]:
    """What is indexed by channels, in the order that they have here."""
    here = next(d for d in g.dims if d[0][0] == "C")
    cut = array.reshape([g.sizes.of[a] for a in g.sizes.axis("C")])
    return cut.transpose([g.sizes.axis("C").index(a) for a in here]).reshape(-1)


WINDOW = {"H": 3, "W": 5}
"""The extents of windows."""


def conv(g: Graph) -> None:
    n = g.sizes.total(g.sizes.axis("C"))
    weight = g.numbers.standard_normal((n, n, *WINDOW.values())).astype(np.float32)
    order = channels(g, np.arange(n))
    bias = g.numbers.standard_normal(n).astype(np.float32)[order]
    kernel = weight[order][:, order].transpose(0, 1, *(2 + list(WINDOW).index(d[0][0]) for d in g.dims[2:]))
    g.apply("Conv", g.constant(kernel), g.constant(bias), pads=[n // 2 for n in kernel.shape[2:]] * 2)


def pooled(g: Graph) -> None:
    taps = [WINDOW[d[0][0]] for d in g.dims[2:]]
    for op in ("MaxPool", "AveragePool"):
        g.apply(op, kernel_shape=taps, pads=[n // 2 for n in taps] * 2)


def batch_norm(g: Graph) -> None:
    n = g.sizes.total(g.sizes.axis("C"))
    order = channels(g, np.arange(n))
    g.apply("BatchNormalization", *(g.constant(g.numbers.random(n).astype(np.float32)[order]) for _ in range(4)))


@dataclass(frozen=True)
class Body:
    """What a body needs of an arrangement: the axis C in one piece, or as the last dimension; or channels, in any
    order, at their place of NCHW, and whole rows and columns behind them."""

    make: Callable[[Graph], None]
    needs: Literal["", "C", "C last", "channels"] = ""

    def fits(self, dims: Dims) -> bool:
        if self.needs == "channels":
            return len(dims) == 4 and sorted(dims[1]) == list(atoms("C")[0]) and sorted(dims[2:]) == list(atoms("H W"))
        return not self.needs or (atoms("C")[0] in (dims[-1:] if self.needs == "C last" else dims))

    @property
    def plain(self) -> Dims:
        return atoms("N H W C" if self.needs == "C last" else "N C H W")


BODIES = {
    "unary": Body(unary),
    "steps": Body(steps),
    "added": Body(added),
    "residual": Body(residual),
    "chosen": Body(chosen),
    "quantised": Body(quantised),
    "branches": Body(branches),
    "softmax": Body(softmax, "C"),
    "summed_up": Body(summed_up, "C"),
    "centred": Body(centred, "C"),
    "normalised": Body(normalised, "C"),
    "scaled": Body(scaled, "C"),
    "product": Body(product, "C"),
    "layer_norm": Body(layer_norm, "C last"),
    "conv": Body(conv, "channels"),
    "pooled": Body(pooled, "channels"),
    "batch_norm": Body(batch_norm, "channels"),
}


def names() -> list[str]:
    """All classes: a detour and a body that can be spelled there.

    >>> len(names()) >= 80
    True
    """
    return [f"{detour}-{body}" for detour in (*ARRANGEMENTS, *PERMUTATIONS) for body in BODIES if fits(detour, body)]


def fits(detour: str, body: str) -> bool:
    """Whether a body can be spelled on a detour, and means the same there."""
    made = BODIES[body]
    if detour in ARRANGEMENTS:
        dims = atoms(ARRANGEMENTS[detour])
        return made.fits(dims) and dims != made.plain
    along = PERMUTATIONS[detour][0]
    if made.needs in ("channels", "C last"):
        return along != "C" and body in ("layer_norm", "batch_norm")
    return not (made.needs and along == "C") and body not in ("added", "chosen")


def built(name: str, seed: int, moved: bool = True) -> ModelProto:
    """The chain of a class, or its body alone: one to three rounds of detour and body, for every second seed with a
    residual around all of them."""
    r = random.Random(f"{name} {seed}")
    detour, _, body = name.partition("-")
    g = Graph(Sizes.drawn(r), seed, moved=moved, plain=BODIES[body].plain)
    for _ in range(r.randint(1, 3)):
        if detour in PERMUTATIONS:
            permuted(g, detour, back=False)
            BODIES[body].make(g)
            permuted(g, detour, back=True)
        else:
            g.arrange(atoms(ARRANGEMENTS[detour]))
            BODIES[body].make(g)
            g.arrange(g.plain)
    if seed % 2:
        g.apply("Add", "x")
    return g.model()
