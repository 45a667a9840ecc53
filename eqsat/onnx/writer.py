"""Names, constants and nodes of a model that is being written, as all that spells a program shares them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import FrontendError
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Opaque, Program, Tensor, View
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, output_axes, same_dim, same_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.onnx.barrier import GRAPH, OPSETS, unpack
from eqsat.onnx.call import Call, accepts, schema, to_node
from eqsat.onnx.graphs import subgraphs
from eqsat.onnx.kernels import runs
from eqsat.onnx.ops.custom import SEPARATOR, custom_node, is_custom
from eqsat.onnx.ops.table import OPSET, PREFIX, domain_of
from eqsat.onnx.read import Envelope, OnnxProgram
from eqsat.operators.forms import operator_name
from eqsat.pricing.table import Table

DEFAULT_OPSET, BITS_OPSET, DEFAULT_IR = 17, 18, 8
BITS = ("bitand", "bitor", "bitxor", "bitnot")


@dataclass(frozen=True)
class Cut:
    """A Slice that keeps some positions of one axis: which tensor of which type it reads, and how long the axis is."""

    node: NodeProto
    source: str
    dtype: str
    axis: int
    start: int
    end: int
    extent: int


class Writer(ABC):
    """Names and nodes of the model being written; how a program's nodes are spelled is left to `write`."""

    def __init__(
        self,
        program: Program,
        source: OnnxProgram | None,
        domains: Collection[str] = (),
        table: Table | None = None,
    ) -> None:
        self.program = program
        self.table = table
        self.envelope = envelope = None if source is None else source.envelope
        self.native = {
            (name.removeprefix(PREFIX), n.operands[-1].dtype)
            for n in (program if source is None else source).nodes()
            if n.operands and (name := operator_name(n))
        }
        self.opsets = _opsets(program, envelope)
        self.domains = {*domains, *(domain_of(op) for op, _ in self.native)}
        self.opset = self.opsets.get("", DEFAULT_OPSET)
        self.names: dict[tuple[int, int], str] = {}
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.constants: dict[tuple[object, ...], str] = {}
        self.functions: dict[tuple[str, str], onnx.FunctionProto] = {}
        self.value_info: list[onnx.ValueInfoProto] = []
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}
        self.reserved = _reserved(program, envelope)
        self.ends: dict[tuple[int, int], str] = {}
        ends = {name: (x, original(x)) for name, x in program.outputs.items()}
        for name, (x, first) in sorted(ends.items(), key=lambda end: end[1][0] != end[1][1]):
            free = first.key not in self.ends and not isinstance(first.node, (Input, Constant))
            if not isinstance(x.node, (Input, Constant)):
                self.ends.setdefault(first.key if free else x.key, name)
        self.done: set[str] = set()
        self.symbols: dict[object, tuple[str, int]] = {}
        self.claimed: dict[str, Shape] = {}
        self.tokens: set[str] = set()
        self.splits: dict[tuple[object, ...], list[Tensor]] = {}
        self.cuts: list[Cut] = []
        self.absorbed: set[int] = set()
        self.averages: set[int] = set()
        self.exact = envelope is None
        self.final: set[int] = set()
        self.sizes: dict[Term, str] = {}
        self.vectors: dict[Term, str] = {}
        self.ranges: dict[tuple[Dim, int], str] = {}
        self.views: dict[tuple[object, ...], Tensor] = {}

    # -- names ---------------------------------------------------------------------------------------------------------

    def fresh(self, wish: str) -> str:
        """A name that nothing else has."""
        number, name = self.counts.get(wish, 0), wish
        while name in self.taken or name in self.reserved:
            number += 1
            name = f"{wish}_{number}"
        self.counts[wish] = number
        self.taken.add(name)
        return name

    def claim(self, x: Tensor, wish: str) -> str:
        """The name of a new value: its output name, else the one it had, else a fresh one."""
        if x.key in self.ends:
            name = self.ends[x.key]
            self.done.add(name)
        else:
            old = None if self.envelope is None else self.envelope.names.get(x.key)
            ends = self.program.outputs
            name = old if old is not None and old not in self.taken and old not in ends else self.fresh(wish)
        self.taken.add(name)
        self.names[x.key] = name
        self.claimed[name] = x.shape
        return name

    def name(self, x: Tensor) -> str:
        """The name of a value that has been written; constants are written when first named."""
        if x.key not in self.names:
            if not isinstance(x.node, Constant):
                raise FrontendError("ONNX", f"{x!r} is used before it is written")
            self.names[x.key] = self.constant(x.node.array, self.constant_name(x, x.node))
        return self.names[x.key]

    def constant_name(self, x: Tensor, node: Constant) -> str:
        old = None if self.envelope is None else self.envelope.names.get(x.key)
        for wish in (old, node.name):
            if (
                wish
                and wish not in self.taken
                and wish not in self.program.outputs
                and (wish == old or wish not in self.reserved)
            ):
                self.taken.add(wish)
                return wish
        return self.fresh(node.name or "constant")

    def constant(self, array: NDArray, name: str = "") -> str:
        """The name of an initialiser; small equal ones without a name are shared."""
        key = (array.dtype.name, array.shape, array.tobytes()) if not name and array.size <= 64 else None
        if key is not None and key in self.constants:
            return self.constants[key]
        name = name or self.fresh("constant")
        self.initializers.append(numpy_helper.from_array(np.ascontiguousarray(array) if array.ndim else array, name))
        if key is not None:
            self.constants[key] = name
        return name

    # -- nodes ---------------------------------------------------------------------------------------------------------

    def call(self, call: Call, inputs: Sequence[str], outputs: Sequence[str], dtype: str = "") -> None:
        """Write one call; `dtype` is that of its data where the call's operands do not tell."""
        if is_custom(call.op):
            self.nodes.append(custom_node(call, inputs, outputs, self.fresh(call.op.rpartition(SEPARATOR)[2])))
            self.written(outputs)
            return
        opset = self.opsets.setdefault(call.domain, 1) if call.domain else self.opset
        call = replace(call, opset=opset)
        dtype = dtype or (call.tensors[-1].dtype if call.tensors else "")
        if not self.runs(call.op, dtype):
            raise FrontendError(f"ONNX {call.op}", f"onnxruntime does not have it for {dtype}, nor has the model")
        if not accepts(call):
            kinds = ", ".join(x.dtype for x in call.tensors)
            raise FrontendError(
                f"ONNX {call.op}", f"opset {self.opset} does not have it for {kinds}", "raise the opset"
            )
        node = to_node(call, inputs, outputs, self.constant, self.fresh(call.op))
        known = schema(call.op, opset, call.domain)
        if known is not None and len(node.input) > known.max_input:  # what are numbers there is computed here
            why = f"has attributes in opset {opset} where the program computes numbers"
            raise FrontendError(f"ONNX {call.op}", why, "raise the opset")
        self.nodes.append(node)
        self.written(outputs)

    def runs(self, op: str, dtype: str) -> bool:
        """Whether there is a kernel for an operator, or at least the model had it before."""
        return runs(op, dtype, self.opset) or (op, dtype) in self.native

    def written(self, names: Iterable[str]) -> None:
        """From here on, nodes may read the sizes of these values."""
        for name in names:
            for axis, d in enumerate(self.claimed.pop(name, ())):
                self.symbols.setdefault(d, (name, axis))

    def place_of(self, d: Term) -> tuple[str, int] | None:
        """Which value has a size, and along which axis; what is to have a symbol of the model is written first."""
        if d not in self.symbols and d.op == "sym":
            self.measure(d)
        return self.symbols.get(d)

    def step(
        self,
        op: str,
        inputs: Sequence[str],
        attrs: Mapping[str, object] | None = None,
        dtype: str = "",
        output: str = "",
        data: str = "",
    ) -> str:
        """Write a call with one output by the names of its operands; `dtype` types its constant parameters.

        `data` is the type of what is chosen from or combined, where that is another one.
        """
        from eqsat.ir.tensors.tensor import input

        stand_in = (input("x", (), dtype),) if dtype else ()
        output = output or self.fresh(op.lower())
        self.call(Call(op, stand_in, dict(attrs or {}), self.opset), inputs, [output], data)
        return output

    # -- what `write` does --------------------------------------------------------------------------------------------

    @abstractmethod
    def tensors(self, roots: Iterable[Tensor]) -> None:
        """Write everything below some tensors, operands first."""

    @abstractmethod
    def measure(self, d: Term) -> None:
        """Write a tensor that has a size, if there is one that does not need what is being written."""

    @abstractmethod
    def split(self, node: View, alone: bool = False) -> bool:
        """Write the Split that all these views are, at the first of them; `alone`: even for one that is used."""

    @abstractmethod
    def number(self, size: Term) -> str:
        """The name of a size that no tensor of the model has, as an int64 of rank 0."""

    def stand_in(self, x: Tensor, made: Tensor) -> None:
        """Write an equal tensor in place of a node's value."""
        if x.key in self.ends and made.key not in self.names and not isinstance(made.node, (Input, Constant)):
            self.ends.setdefault(made.key, self.ends.pop(x.key))
        self.tensors([made])
        self.alias(x, self.name(made))

    def alias(self, x: Tensor, name: str) -> None:
        """Give a node's value the name of an equal value already written; an output gets its own name."""
        if x.key in self.ends:
            self.step("Identity", [name], output=self.claim(x, "output"))
        else:
            self.names[x.key] = name

    def adopt(self, x: Tensor, name: str, fresh: bool) -> None:
        """Let a written value be that of a node: under the node's name if the last call made it for that."""
        last = self.nodes[-1] if self.nodes else None
        if not fresh or last is None or list(last.output) != [name]:
            self.alias(x, name)
            return
        last.output[0] = self.claim(x, "formula")
        self.written(last.output)

    def viewed(self, source: Tensor, shape: Shape, gather: Sequence[Term], valid: Term, fill: Term) -> Tensor:
        """A written View; equal ones are one."""
        key = (source.key, shape, *gather, valid, fill)
        if key not in self.views:
            self.views[key] = Tensor(View(source, shape, gather, valid, None if valid is t.TRUE else fill))
            self.tensors([self.views[key]])
        return self.views[key]


def is_whole(node: View) -> bool:
    """Whether a View is its source as it stands.

    >>> from eqsat.ir.tensors.tensor import input
    >>> x = input("x", (1, 1, 5), "float32")
    >>> [is_whole(x.permute_dims(p).node) for p in ((1, 0, 2), (0, 2, 1))]
    [True, False]
    """
    shape = node.outputs[0][0]
    if node.valid is not t.TRUE or not same_shape(shape, node.source.shape):
        return False
    pairs = zip(node.gather, output_axes(shape), shape, strict=True)
    return all(i is a or same_dim(d, 1) for i, a, d in pairs)  # along an axis of one cell there is no other


def original(x: Tensor) -> Tensor:
    """The tensor that a tensor is, behind Views that are their source as it stands."""
    while isinstance(x.node, View) and is_whole(x.node):
        x = x.node.source
    return x


def _opsets(program: Program, envelope: Envelope | None) -> dict[str, int]:
    if envelope is not None:
        return {("" if o.domain == "ai.onnx" else o.domain): int(o.version) for o in envelope.shell.opset_import}
    result: dict[str, int] = {}
    for node in program.nodes():
        if isinstance(node, Opaque) and node.op.startswith(PREFIX):
            own = domain_of(node.op.removeprefix(PREFIX)), node.attrs.get(OPSET, DEFAULT_OPSET)
            for domain, version in node.attrs.get(OPSETS, (own,)):
                domain = "" if domain == "ai.onnx" else domain
                result[domain] = max(version, result.get(domain, 0))
    result.setdefault("", DEFAULT_OPSET)
    if _has_bits(program):
        result[""] = max(result[""], BITS_OPSET)
    return result


def _has_bits(program: Program) -> bool:
    """Whether formulas work on bits, which ONNX has since opset 18."""
    formulas = (
        [*n.gather, n.valid, *(() if n.fill is None else (n.fill,))] if isinstance(n, View) else [n.body]
        for n in program.nodes()
        if isinstance(n, (View, Compute))
    )
    return any(x.op in BITS for terms in formulas for x in postorder(*terms))


def _reserved(program: Program, envelope: Envelope | None) -> set[str]:
    """Names that new values must not take: those of the model, and all inside of carried graphs."""
    names = {*program.outputs, *(x.name for x in program.inputs)}
    if envelope is not None:
        names.update(envelope.names.values())
        names.update(x.name for x in (*envelope.shell.graph.input, *envelope.shell.graph.output))
        names.update(x.name if isinstance(x, TensorProto) else x.values.name for x in envelope.carried)
    stack: list[GraphProto] = [
        unpack(n.attrs[GRAPH]) for n in program.nodes() if isinstance(n, Opaque) and GRAPH in n.attrs
    ]
    while stack:
        graph = stack.pop()
        names.update(x.name for x in (*graph.input, *graph.output, *graph.initializer))
        for node in graph.node:
            names.update((*node.input, *node.output))
            stack.extend(subgraphs(node))
    return names
