"""A program as a flat list of values: every View and Compute one body, symbols replaced, definitions expanded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Literal

from eqsat.ir.dtypes import BOOL, NDArray, is_int
from eqsat.ir.errors import BackendError
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, format_shape
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import nodes_of, substitute, symbols, transform

RESULT = "result"
Kind = Literal["input", "constant", "body", "host"]


@dataclass(frozen=True, eq=False)
class Value:
    """One tensor: its name, type, and how it comes about.

    A "body" is a formula over ax(n, shape[n]) and red(n, reduce[n]) whose loads name values, several indices each.
    A "host" value is an output of an operator that only its Python implementation can compute.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    kind: Kind
    label: str
    body: Term | None = None
    reduce: tuple[int, ...] = ()
    combiner: str | None = None
    ordered: bool = False
    array: NDArray | None = None
    operator: Opaque | None = None
    output: int = 0
    operands: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    after: Term | None = None
    """What is stored in place of a reduction's result; a load of RESULT, without an index, stands for that."""

    @property
    def reduced_dtype(self) -> str:
        """The type of a reduction's result, before `after`."""
        found = [n for n in nodes_of("load", self.after) if n.payload == RESULT] if self.after is not None else []
        return found[0].dtype if found else self.dtype

    @property
    def points(self) -> int:
        """How often the body is evaluated."""
        return prod(self.shape) * prod(self.reduce)


@dataclass
class Flat:
    """The values of a program, operands first, and which of them the outputs are."""

    values: list[Value] = field(default_factory=list[Value])
    outputs: dict[str, str] = field(default_factory=dict[str, str])

    def tables(self) -> dict[str, NDArray]:
        """The constants of integers, by name: an index that they make has known bounds."""
        return {v.name: v.array for v in self.values if v.array is not None and is_int(v.dtype)}

    @staticmethod
    def inputs(program: Program) -> dict[str, str]:
        """Which of the values the inputs are: the first ones."""
        return {x.name: f"v{n}" for n, x in enumerate(program.inputs)}


def zero(dtype: str) -> Term:
    """The constant 0 (False) of a data type."""
    return t.const(False if dtype == BOOL else 0, dtype)


class _Flattener:
    def __init__(self, sizes: Mapping[Term, Term]) -> None:
        self.sizes = dict(sizes)
        self.result = Flat()
        self.names: dict[tuple[int, int], str] = {}
        self.expanded: dict[int, list[Tensor]] = {}

    def term(self, term: Term) -> Term:
        """Symbols as numbers, holes as zeros (a hole may hold anything)."""
        bound = substitute(term, self.sizes) if self.sizes else term
        return transform(bound, lambda node: zero(node.dtype) if node.op == "hole" else None)

    def shape(self, shape: Shape, what: str) -> tuple[int, ...]:
        numbers: list[int] = []
        for d in shape:
            number = d if isinstance(d, int) else t.int_value(substitute(d, self.sizes))
            if number is None:
                assert isinstance(d, Term)
                missing = ", ".join(str(s) for s in symbols(d)) or str(d)
                raise BackendError(f"{what} of shape {format_shape(shape)}", f"{missing} is unknown", "give it a value")
            if number < 0:
                raise BackendError(f"{what} of shape {format_shape(shape)}", f"extent {d} is {number}")
            numbers.append(number)
        return tuple(numbers)

    def below(self, x: Tensor) -> Sequence[Tensor]:
        """The tensors that must be named before x."""
        node = x.node
        if isinstance(node, Opaque) and node.definition is not None:
            if node.serial not in self.expanded:
                made = node.definition(*node.operands)
                self.expanded[node.serial] = [made] if isinstance(made, Tensor) else list(made)
            return [self.expanded[node.serial][x.index]]
        return node.operands

    def visit(self, root: Tensor) -> str:
        stack: list[tuple[Tensor, bool]] = [(root, False)]
        while stack:
            x, ready = stack.pop()
            if x.key in self.names:
                continue
            if not ready:
                stack.append((x, True))
                stack.extend((y, False) for y in reversed(self.below(x)))
                continue
            node = x.node
            if isinstance(node, Opaque) and node.definition is not None:
                self.names[x.key] = self.names[self.expanded[node.serial][x.index].key]
            else:
                self.add(node)
        return self.names[root.key]

    def add(self, node: Node) -> None:
        """Append the outputs of a node whose operands are named."""
        operands = tuple(self.names[x.key] for x in node.operands)
        for k, (given, dtype) in enumerate(node.outputs):
            name = f"v{len(self.result.values)}"
            self.names[(node.serial, k)] = name
            shape = self.shape(given, type(node).__name__.lower())
            self.result.values.append(self.value(node, k, name, shape, dtype, operands))

    def value(
        self, node: Node, k: int, name: str, shape: tuple[int, ...], dtype: str, operands: tuple[str, ...]
    ) -> Value:
        if isinstance(node, Input):
            return Value(name, shape, dtype, "input", node.name)
        if isinstance(node, Constant):
            return Value(name, shape, dtype, "constant", node.name or "constant", array=node.array)
        if isinstance(node, View):
            label = node.tag.name if node.tag else "view"
            return Value(name, shape, dtype, "body", label, self.body(node.body, operands))
        if isinstance(node, Compute):
            label = node.tag.name if node.tag else "compute"
            reduced = self.shape(node.reduce, "reduce axes")
            body = self.body(node.body, operands)
            return Value(name, shape, dtype, "body", label, body, reduced, node.combiner, node.ordered)
        assert isinstance(node, Opaque)
        if node.impl is None:
            raise BackendError(f"operator {node.op}", "has no definition and no implementation", "give it an impl")
        return Value(name, shape, dtype, "host", node.op, operator=node, output=k, operands=operands)

    def body(self, body: Term, operands: tuple[str, ...]) -> Term:
        def rename(node: Term) -> Term | None:
            if node.op == "load" and isinstance(node.payload, int):
                return load(operands[node.payload], node.args, node.dtype)
            return None

        return transform(self.term(body), rename)


def flatten_program(program: Program, sizes: Mapping[Term, int] | None = None) -> Flat:
    """The values of a program; `sizes` gives its symbols numbers.

    Holes become zeros. Operators with a definition are expanded; others need an implementation.
    """
    work = _Flattener({s: t.index_const(n) for s, n in (sizes or {}).items()})
    for x in program.inputs:
        work.visit(x)
    flat = work.result
    for name, x in program.outputs.items():
        found = work.visit(x)
        source = next(v for v in flat.values if v.name == found)
        if source.kind in ("input", "constant") or source.name in flat.outputs.values():
            flat.values.append(_copy(f"v{len(flat.values)}", source))
            source = flat.values[-1]
        flat.outputs[name] = source.name
    return flat


def _copy(name: str, source: Value) -> Value:
    """An output that is an input, a constant or another output needs a buffer of its own."""
    axes = [t.ax(n, d) for n, d in enumerate(source.shape)]
    return Value(name, source.shape, source.dtype, "body", "copy", load(source.name, axes, source.dtype))
