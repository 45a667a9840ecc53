"""A model as a program: known operators by their formulas and signatures, everything else as barriers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    SparseTensorProto,
    TensorProto,
    TypeProto,
    checker,
    numpy_helper,
    shape_inference,
)
from onnx.defs import OpSchema

from eqsat.ir import clock
from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, FrontendError
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, Tensor, View, constant, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, static_shape
from eqsat.ir.terms.term import Term
from eqsat.models.package import dtype_name
from eqsat.onnx.barrier import BarrierImpl, barrier_attrs, is_pure
from eqsat.onnx.call import Call, Declined, Type, attribute_value, parameter, schema
from eqsat.onnx.graphs import without_data
from eqsat.onnx.infer import Types, infer
from eqsat.onnx.islands import islands, node_inputs
from eqsat.onnx.ops.custom import SEPARATOR, told
from eqsat.onnx.ops.table import PREFIX, apply, lookup
from eqsat.onnx.sizes import MOST, Sizes, as_parameter, asked_for, inhabited, size_array, sizes_of
from eqsat.onnx.slice import cleared, settled
from eqsat.onnx.trust import attending, inferred_in, miscounted, unfit

VARIADIC = OpSchema.FormalParameterOption.Variadic
FOLD = 64
"""Integer constants of up to this many elements are computed while reading."""
TOKEN: Type = ((), "uint8")
"""Stands for an output whose type programs do not model (a sequence, strings, ...); its value is 0."""


@dataclass(frozen=True)
class Envelope:
    """What a model has beside its nodes: the model without nodes and constants, value names, defaults of inputs."""

    shell: ModelProto
    names: Mapping[tuple[int, int], str]
    named: Mapping[str, Sequence[Sequence[Node]]]
    """What was made of each node, by its name, its operator, and the names of its values."""
    defaults: tuple[TensorProto, ...] = ()
    carried: tuple[TensorProto | SparseTensorProto, ...] = ()
    inhabited: frozenset[str] = frozenset()
    """The names of dimensions that are at least 1, as the model does not do what it says where they are 0."""


class OnnxProgram(Program):
    """A program that came from a model, and keeps the model's envelope."""

    envelope: Envelope

    def __init__(
        self, inputs: tuple[Tensor, ...], outputs: Mapping[str, Tensor], name: str, envelope: Envelope
    ) -> None:
        super().__init__(inputs, outputs, name)
        object.__setattr__(self, "envelope", envelope)

    def named_nodes(self) -> Mapping[str, Sequence[Sequence[Node]]]:
        """Nodes by the names that the model has for its nodes, for operators and for values."""
        return self.envelope.named

    def with_some(self, outputs: Iterable[str]) -> OnnxProgram:
        """The program with some of its outputs."""
        kept = {name: self.outputs[name] for name in outputs}
        shell = ModelProto()
        shell.CopyFrom(self.envelope.shell)
        ends = [x for x in shell.graph.output if x.name in kept]
        del shell.graph.output[:]
        shell.graph.output.extend(ends)
        return OnnxProgram(self.inputs, kept, self.name, replace(self.envelope, shell=shell))


def read(model: ModelProto, fold_inputs: bool = False) -> OnnxProgram:
    """The program of a model whose tensor data is in memory.

    An initialiser that is also a graph input is an input with a default, unless `fold_inputs` or ir_version < 4 make it
    a constant. An output of a type that programs do not model reads as the scalar 0 and is written back as it was.
    """
    return _read(model, fold_inputs)[1]


@dataclass(frozen=True)
class ModelValues:
    """What is known of the named values of a model: types, which are constants, and the names of symbols."""

    types: Mapping[str, Type]
    constants: frozenset[str]
    symbol_names: Mapping[Term, str]
    others: Mapping[str, TypeProto]
    """The types of values whose elements programs have no type for."""


def value_types(model: ModelProto) -> ModelValues:
    """The types of all values of a model that programs can hold, as far as they can be found out."""
    return read_with_types(model, True)[1]


def read_with_types(
    model: ModelProto, fold_inputs: bool = False, like: OnnxProgram | None = None
) -> tuple[OnnxProgram, ModelValues]:
    """The program of a model, and what became known of the model's values while it was read.

    like: a program with the same dimensions, which may be 0 where they may be 0 there.
    """
    reader, program = _read(model, fold_inputs, like)
    types = {name: known for name in reader.types.protos if (known := reader.types.modelled(name)) is not None}
    types.update({name: (x.shape, x.dtype) for name, x in reader.env.items()})
    fixed: set[int] = set()
    listed = reader.listed & reader.env.keys() if model.ir_version >= 4 else set[str]()
    overridable = {reader.env[name].node.serial for name in listed}
    for node in node_order(reader.env.values()):
        free = isinstance(node, Input) or (isinstance(node, Opaque) and not node.pure) or node.serial in overridable
        if not free and all(x.node.serial in fixed for x in node.operands):
            fixed.add(node.serial)
    constants = frozenset(name for name, x in reader.env.items() if x.node.serial in fixed)
    names = {symbol: name for name, symbol in reader.types.symbols.items()}
    return program, ModelValues(types, constants, names, reader.types.not_modelled())


def _read(model: ModelProto, fold_inputs: bool, like: OnnxProgram | None = None) -> tuple[_Reader, OnnxProgram]:
    """A model, read again where that tells of dimensions that they are at least 1."""
    known = frozenset[str]() if like is None else like.envelope.inhabited
    reader = _Reader(model, fold_inputs, known)
    program = reader.program()
    found = inhabited(reader.asked) if like is None and reader.asked else set[Term]()
    names = frozenset(name for name, symbol in reader.types.symbols.items() if symbol in found)
    if names:
        reader = _Reader(model, fold_inputs, names)
        program = reader.program()
    return reader, program


class _Reader:
    def __init__(self, model: ModelProto, fold_inputs: bool, positive: frozenset[str] = frozenset()) -> None:
        self.model = model
        self.types: Types = infer(model, positive)
        self.asked: list[tuple[Dim, Dim]] = []  # extents that are asked for, and what is made instead where they are 0
        self.opsets = {("" if o.domain == "ai.onnx" else o.domain): int(o.version) for o in model.opset_import}
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.env: dict[str, Tensor] = {}
        self.named: dict[str, list[Sequence[Node]]] = {}
        self.sizes: dict[str, Sizes] = {}
        self.told: set[int] = set()  # serials of extents that values have already
        self.loose: dict[str, TensorProto | SparseTensorProto] = {}  # constants of types that programs do not model
        graph = model.graph
        constants = {x.name for x in graph.initializer}
        self.listed = {x.name for x in graph.input}
        self.overridable = constants & self.listed if model.ir_version >= 4 and not fold_inputs else set[str]()
        self.inputs = [x.name for x in graph.input if x.name not in constants or x.name in self.overridable]

    def program(self) -> OnnxProgram:
        graph = self.model.graph
        for tensor in graph.initializer:
            if tensor.name not in self.overridable:
                self.constant(tensor)
        for sparse in graph.sparse_initializer:
            self.loose[sparse.values.name] = sparse
            self.types.protos.pop(sparse.values.name, None)
        arguments: list[Tensor] = []
        for name in self.inputs:
            known = self.types.modelled(name)
            if known is not None:
                self.env[name] = Tensor(Input(name, *known))
                arguments.append(self.env[name])
                self.told |= _extents(self.env[name])
        nodes = list(graph.node)
        uses: dict[str, int] = {}
        for node in nodes:
            for name in node_inputs(node):
                uses[name] = uses.get(name, 0) + 1
        self.used = {*uses, *(o.name for o in graph.output)}
        self.needed = {o.name for o in graph.output}
        for node in reversed(nodes):
            if any(o in self.needed for o in node.output):
                self.needed.update(node_inputs(node))
        if any(self.types.modelled(o) is None for n in nodes for o in n.output if o in self.used):
            self.scout(nodes)
        for group in islands(nodes, self.modelled):
            clock.check()
            members = [nodes[k] for k in group]
            touched = (n for m in members for n in (*node_inputs(m), *m.output) if n)
            if len(members) == 1 and all(self.modelled(n) for n in touched):
                self.node(members[0])
            else:
                self.island(members)
        outputs = {o.name: self.env[o.name] for o in graph.output if o.name in self.env}
        return OnnxProgram(tuple(arguments), outputs, graph.name or "model", self.envelope())

    def modelled(self, name: str) -> bool:
        """Whether a value can be a tensor of the program (one that nobody reads can be anything)."""
        return (
            name not in self.used
            or name in self.env
            or (name not in self.loose and self.types.modelled(name) is not None)
        )

    def constant(self, tensor: TensorProto) -> None:
        if dtype_name(tensor.data_type) is None:
            self.loose[tensor.name] = tensor
            return
        try:
            array = numpy_helper.to_array(tensor)
        except (ValueError, TypeError, MemoryError, OverflowError) as error:
            raise FrontendError(f"initialiser {tensor.name!r}", f"its data does not fit its shape: {error}") from error
        self.env[tensor.name] = Tensor(Constant(array, tensor.name))

    def scout(self, nodes: list[NodeProto]) -> None:
        """Find out types that inference has not, by reading all nodes one by one, before islands are formed."""
        known, sizes, told = dict(self.env), dict(self.sizes), set(self.told)
        for node in nodes:
            reads = node_inputs(node)
            if all(n in self.env for n in reads):
                self.node(node, carry=False)
            for name in node.output:
                found = self.types.modelled(name)
                if name in self.env:
                    x = self.env[name]
                    if found is None:
                        self.types.protos[name] = self.types.proto(x.shape, x.dtype)
                        self.types.fix_unknown([self.types.protos[name]])
                elif found is not None:
                    self.env[name] = Tensor(Input(name, *found))
        self.env, self.sizes, self.named, self.told = known, sizes, {}, told

    # -- one node ------------------------------------------------------------------------------------------------------

    def node(self, node: NodeProto, carry: bool = True) -> None:
        self.refine(node)
        types = [self.types.modelled(o) for o in node.output]
        last = max((k + 1 for k, o in enumerate(node.output) if o in self.used), default=0)
        try:
            call = self.call(node, types)
            sizes = self.size_values(call, node)
            numbers = None if sizes is None else _numbers(sizes)
            if numbers is not None and types[0] is not None:
                made: tuple[Tensor, ...] = (constant(numbers, types[0][1]),)
            else:
                made = self.folded(call, apply(call))
            if len(made) < last:
                raise Declined(node.op_type, "has more outputs than its entry")
        except EqsatError:
            # Not in the table, or not this use of it: carried as it stands, which is always right.
            if carry:
                self.island([node])
            return
        if carry and any(o in self.needed for o in node.output):
            self.asked += asked_for(call)
        for name, x, known in zip(node.output, made, types, strict=False):
            if name:
                self.env[name] = x
            if name and call.open and known is not None and len(known[0]) == x.rank:
                self.types.learn(name, x.shape)
            self.told |= _extents(x)
        self.name(node, _made(made, call.tensors))

    def name(self, node: NodeProto, made: Sequence[Node]) -> None:
        """Remember what was made of a node."""
        for name in {node.name, node.op_type, PREFIX + node.op_type, *node.output} - {""}:
            self.named.setdefault(name, []).append(made)

    def refine(self, node: NodeProto) -> None:
        """Infer the outputs again where they are vague, from what constants and formulas have made known since."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = inferred_in(node, self.opsets.get(domain, 1))
        spec = None if opset is None else schema(node.op_type, opset, domain)
        if (
            spec is None
            or not any(self.types.vague(o) for o in node.output if o)
            or (node.domain, node.op_type) in self.functions
        ):
            return
        read = {n: self.env[n] for n in node_inputs(node)}
        if len(read) != len({n for n in node.input if n}):
            return
        known = {n: x.node.array for n, x in read.items() if isinstance(x.node, Constant) and x.node.array.size <= FOLD}
        clear = settled(node, known)
        if clear is not None:
            known[node.input[2]] = clear
        data = {n: numpy_helper.from_array(a, n) for n, a in known.items()}
        if node.input and unfit(node, read[node.input[0]].shape):
            return
        inputs = {n: self.types.proto(x.shape, x.dtype) for n, x in read.items()}
        opsets = list(self.model.opset_import)
        try:
            found = shape_inference.infer_node_outputs(
                spec, node, inputs, data, None, opsets, int(self.model.ir_version)
            )
        except (shape_inference.InferenceError, checker.ValidationError, RuntimeError, ValueError):
            return  # the first inference accepted the model; nothing more is known then
        shapes: dict[str, Sequence[object]] = {n: x.shape for n, x in read.items()}
        shapes |= {
            n: [d.dim_value if d.HasField("dim_value") else None for d in x.tensor_type.shape.dim]
            for n, x in found.items()
        }
        for one in attending([node], self.model):
            for name, axes in miscounted(one, shapes).items():
                for k in axes:
                    found[name].tensor_type.shape.dim[k].Clear()
        for name, proto in found.items():
            self.types.refine(name, proto)

    def call(self, node: NodeProto, types: list[Type | None]) -> Call:
        """The node as a call, inputs that the entry needs as constants moved to the parameters."""
        domain = "" if node.domain == "ai.onnx" else node.domain
        opset = self.opsets.get(domain, 1)
        if told(domain, node.op_type) is not None and (node.domain, node.op_type) not in self.functions:
            return self.custom(node, domain, opset, types)
        found = lookup(node.op_type, domain)
        spec = schema(node.op_type, opset, domain)
        if found is None or spec is None or (node.domain, node.op_type) in self.functions:
            raise Declined(node.op_type, "is not in the table")
        attrs = {a.name: attribute_value(a) for a in node.attribute}
        operands: list[Tensor | None] = []
        for slot, name in enumerate(node.input):
            role = str(spec.inputs[min(slot, len(spec.inputs) - 1)].name).lower()
            if name and role in found.declared.constants:
                array = self.env[name].node
                if isinstance(array, Constant):
                    attrs[role] = parameter(array.array)
                    name = ""
                elif name in self.sizes and found.declared.constants[role]:
                    attrs[role] = as_parameter(self.sizes[name])
                    name = ""
            elif name in self.sizes and role in found.declared.computed:
                attrs[role] = as_parameter(self.sizes[name])
            operands.append(self.env[name] if name else None)
        if node.op_type == "Slice":
            attrs |= cleared(attrs)
        while operands and operands[-1] is None:
            operands.pop()
        last = max((k + 1 for k, o in enumerate(node.output) if o in self.used), default=0)
        own, listed = self.types.open(types) - self.told, len(node.output)
        several = spec.outputs[-1].option == VARIADIC  # and none may be missing
        count = listed if several else max(1, last, int(spec.min_output))
        return Call(node.op_type, tuple(operands), attrs, opset, domain, tuple(types), count, listed, own)

    def custom(self, node: NodeProto, domain: str, opset: int, types: list[Type | None]) -> Call:
        """A node of a domain of which a signature was told."""
        attrs = {a.name: attribute_value(a) for a in node.attribute}
        operands = tuple(self.env[name] if name else None for name in node.input)
        count = len(node.output)
        return Call(f"{domain}{SEPARATOR}{node.op_type}", operands, attrs, opset, domain, tuple(types), count, count)

    def size_values(self, call: Call, node: NodeProto) -> Sizes | None:
        """Sizes that a node of shape arithmetic computes; remembered for nodes that need them as parameters."""
        values: dict[int, Sizes] = {}
        for slot, x in enumerate(call.operands):
            if x is None:
                continue
            name, source = node.input[slot], x.node
            if name in self.sizes:
                values[slot] = self.sizes[name]
            elif isinstance(source, Constant) and source.array.size <= MOST and source.array.dtype.kind in "iub":
                values[slot] = np.asarray(source.array.astype(object), object)
        symbolic = any(n in self.sizes for n in node.input) or node.op_type == "Shape"
        made = sizes_of(call, values) if symbolic else None
        known = self.types.modelled(node.output[0])
        if made is not None and made.size <= MOST and known is not None and len(known[0]) == made.ndim:
            made = size_array(list(made.reshape(-1))).reshape(made.shape)
            self.sizes[node.output[0]] = made
            return made
        return None

    def folded(self, call: Call, made: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Constants instead of small computations on constants."""
        small = all(isinstance(x.node, Constant) and x.node.array.size <= FOLD * 16 for x in call.tensors)
        if not small or call.op == "ConstantOfShape":
            return made
        return tuple(constant(evaluate(x)) if _is_small(x) else x for x in made)

    # -- carried nodes -------------------------------------------------------------------------------------------------

    def island(self, nodes: list[NodeProto]) -> None:
        inside = {o for n in nodes for o in n.output if o}
        reads = list(dict.fromkeys(n for node in nodes for n in node_inputs(node) if n not in inside))
        ends = {o.name for o in self.model.graph.output}
        elsewhere = self.used if len(nodes) == 1 else self.outside(nodes) | ends
        operands, graph = [n for n in reads if n in self.env], GraphProto(name="carried")
        graph.node.extend(nodes)
        outputs: list[str] = []
        types: list[Type] = []
        for name in (o for n in nodes for o in n.output if o):
            known = self.types.modelled(name)
            if known is not None and (len(nodes) == 1 or name in elsewhere):
                outputs.append(name)
                types.append(known)
            elif known is None and name in ends:
                outputs.append(name)
                types.append(TOKEN)
                graph.output.add().CopyFrom(next(o for o in self.model.graph.output if o.name == name))
        for name in reads:
            if name in self.loose:
                loose = self.loose[name]
                (graph.initializer if isinstance(loose, TensorProto) else graph.sparse_initializer).append(loose)  # pyright: ignore
            elif name not in self.env:
                graph.input.extend(x for x in self.model.graph.input if x.name == name)
        graph.value_info.extend(v for v in self.model.graph.value_info if v.name in inside)
        if not outputs:
            return
        attrs = barrier_attrs(graph, operands, outputs, self.model)
        arguments = [self.env[n] for n in operands]
        impl = BarrierImpl(attrs, tuple((x.shape, x.dtype) for x in arguments), tuple(types))
        op = nodes[0].op_type if len(nodes) == 1 else "island"
        made = Opaque(
            PREFIX + op, arguments, types, attrs, None, impl, pure=all(is_pure(n, self.functions) for n in nodes)
        )
        for k, name in enumerate(outputs):
            self.env[name] = Tensor(made, k)
            self.told |= _extents(self.env[name])
        for node in nodes:
            self.name(node, [made])

    def outside(self, nodes: list[NodeProto]) -> set[str]:
        inside = {id(n) for n in nodes}
        return {name for n in self.model.graph.node if id(n) not in inside for name in node_inputs(n)}

    def envelope(self) -> Envelope:
        shell = ModelProto()
        shell.CopyFrom(without_data(self.model))
        kept = set(self.inputs)
        inputs = [x for x in shell.graph.input if x.name in kept]
        del shell.graph.input[:]
        shell.graph.input.extend(inputs)
        defaults = tuple(x for x in self.model.graph.initializer if x.name in self.overridable)
        names = {x.key: name for name, x in self.env.items()}
        return Envelope(shell, names, self.named, defaults, tuple(self.loose.values()), self.types.inhabited)


def _extents(x: Tensor) -> set[int]:
    """The serials of the extents of a value that are not known."""
    return {d.serial for d in x.shape if isinstance(d, Term)}


def _made(outputs: Iterable[Tensor], operands: Iterable[Tensor]) -> list[Node]:
    """What is between the operands of a node and its outputs, those included."""
    given = {x.node.serial for x in operands}
    stack, found = [x.node for x in outputs], dict[int, Node]()
    while stack:
        node = stack.pop()
        if node.serial not in given and node.serial not in found:
            found[node.serial] = node
            stack += [x.node for x in node.operands]
    return [node for node in found.values() if isinstance(node, (View, Compute, Opaque))]


def _numbers(sizes: Sizes) -> NDArray | None:
    """Sizes as numbers, or None where one is symbolic."""
    values = [t.int_value(t.as_index(v)) for v in sizes.reshape(-1)]
    return None if None in values else np.array(values, np.int64).reshape(sizes.shape)


def _is_small(x: Tensor) -> bool:
    shape: Shape = x.shape
    numbers = static_shape(shape)
    exact = x.dtype[0] in "iub" or isinstance(x.node, View) or _casts_integers(x.node)
    return (
        numbers is not None
        and int(np.prod(numbers, dtype=np.float64)) <= FOLD
        and exact
        and isinstance(x.node, (View, Compute))
    )


def _casts_integers(node: Node) -> bool:
    """Whether a node makes other numbers of whole ones, which everything rounds alike."""
    cast = node.body if isinstance(node, Compute) and node.combiner is None else None
    return cast is not None and cast.op == "cast" and cast.args[0].op == "load" and node.operands[0].dtype[0] in "iu"
