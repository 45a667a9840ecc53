"""Programs and models as they are shown: operators by name, with what each costs and reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eqsat.checking.programs import name_of
from eqsat.extraction.cost import layout_nodes
from eqsat.ir.tensors.program_text import node_texts, tensor_names
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Program, Tensor, View
from eqsat.operators.forms import operator_name
from eqsat.pricing.programs import node_prices
from eqsat.pricing.table import Table

INPUT, OUTPUT = "input", "output"
"""What stands for inputs and outputs among operators."""


@dataclass(frozen=True)
class Vertex:
    """An operator: the first tensor that it makes, its own name, its kind, its types, what it does in index notation,
    the vertices that it reads, the bytes that it moves if it is a layout operator, and its estimated picoseconds."""

    tensor: str
    name: str
    kind: str
    types: str
    text: str
    reads: tuple[str, ...]
    moved: int = 0
    picoseconds: int | None = None
    key: str = ""
    """What checks call it; equal on both sides where the operator is the same."""


@dataclass(frozen=True)
class Side:
    """A program before or after: its operators, operands first, and the bytes that it takes with its constants."""

    vertices: tuple[Vertex, ...]
    size: int

    @property
    def operators(self) -> tuple[Vertex, ...]:
        """The vertices that are operators."""
        return tuple(v for v in self.vertices if v.kind not in (INPUT, OUTPUT))

    @property
    def moves(self) -> int:
        """How many operators move bytes."""
        return sum(v.moved > 0 for v in self.vertices)


def side_of_program(program: Program, table: Table | None, told: bool = True) -> Side:
    """A program as it is shown; with prices, its times are estimated; told: with what its operators do to indices.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> side = side_of_program(eq.Program([x], {"y": x.permute_dims((1, 0)).relu()}), None)
    >>> [(v.kind, v.moved, v.reads) for v in side.operators]
    [('permute_dims', 48, ('x',)), ('relu', 0, ('t0',))]
    """
    names, texts = tensor_names(program), node_texts(program) if told else {}
    moved = {node.serial: count for node, count in layout_nodes(program)}
    prices = {} if table is None else {node.serial: price for node, price in node_prices(program, table)}
    vertices: list[Vertex] = []
    size = 0
    for node in program.nodes():
        if isinstance(node, Constant):
            size += node.array.nbytes
            continue
        plain = "view" if isinstance(node, View) else "compute" if isinstance(node, Compute) else ""
        kind = INPUT if isinstance(node, Input) else operator_name(node) or plain
        reads = tuple(dict.fromkeys(names[Tensor(x.node).key] for x in node.operands if not is_constant(x)))
        text, types = texts.get(node.serial, ("", ""))
        name = names[(node.serial, 0)]
        cost = None if table is None else prices.get(node.serial, 0)
        vertices.append(Vertex(name, "", kind, types, text, reads, moved.get(node.serial, 0), cost, name_of(node)))
    ends = {name: names[Tensor(x.node).key] for name, x in program.outputs.items()}
    return Side((*vertices, *outputs(ends)), size)


def outputs(ends: Mapping[str, str]) -> Sequence[Vertex]:
    """Vertices for outputs, which are not operators; ends: the tensor that each one is."""
    return [Vertex(f"{OUTPUT} {name}", name, OUTPUT, "", f"output {name}", (tensor,)) for name, tensor in ends.items()]


def is_constant(x: Tensor) -> bool:
    """Whether a tensor is a constant, which is not shown."""
    return isinstance(x.node, Constant)


def moves_of(side: Side, other: Side) -> list[Vertex]:
    """The moves of a side that the other has not."""
    named = {(v.kind, v.types, v.key) for v in other.operators}
    told = {(v.kind, v.types, v.text) for v in other.operators}
    moves = [v for v in side.operators if v.moved]
    return [v for v in moves if (v.kind, v.types, v.key) not in named and (v.kind, v.types, v.text) not in told]
