"""A program as a model: every node is spelled by an ONNX call that the table of operators reads back as that node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper

from eqsat.ir import clock
from eqsat.ir.cached import cached_property
from eqsat.ir.errors import FrontendError
from eqsat.ir.tensors.bind import program_symbols
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, Tensor, View, node_order
from eqsat.ir.terms.shape import Dim, same_dim, static_shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import format_term, symbol_names
from eqsat.models.package import element_type
from eqsat.onnx.barrier import GRAPH, INPUTS, OPSETS, OUTPUTS, functions_of, unpack
from eqsat.onnx.blocks import as_blocks
from eqsat.onnx.call import Call, Declined, schema, symbolic
from eqsat.onnx.emit import costs_less_in_steps, spell_compute, spell_sizes, spell_view, takes_steps
from eqsat.onnx.formulas.formula import Formula
from eqsat.onnx.formulas.pool import as_average_pool, quotient_of_sum
from eqsat.onnx.graphs import subgraphs
from eqsat.onnx.kernels import means_the_formula
from eqsat.onnx.ops.custom import SEPARATOR, is_custom
from eqsat.onnx.ops.table import LISTED, OPSET, OUTPUT, SLOTS, apply, opaque_call
from eqsat.onnx.read import OnnxProgram
from eqsat.onnx.recognise import call_of, recognise
from eqsat.onnx.size_names import size_vector
from eqsat.onnx.tidy import joined, tidy
from eqsat.onnx.writer import DEFAULT_IR, Writer
from eqsat.pricing.table import Table
from eqsat.pricing.views import is_quick


class NotWritten(FrontendError):
    """A `node` of a program that cannot be written in a model's opset."""

    def __init__(self, error: FrontendError, node: Node) -> None:
        super().__init__(error.operation, error.problem, error.fix, error.witness)
        self.node = node


def write(program: Program, like: OnnxProgram | None = None, domains: Collection[str] = ()) -> ModelProto:
    """The model of a program; inputs, outputs, metadata and opsets are those of `like`, else of the program itself.

    Operators are those of ONNX, and of further domains that are named or that the program has. A node that ONNX cannot
    express in the model's opset is an error that names it.
    """
    return write_with_owners(program, like, domains)[0]


def write_with_owners(
    program: Program, like: OnnxProgram | None = None, domains: Collection[str] = (), table: Table | None = None
) -> tuple[ModelProto, Mapping[str, int]]:
    """As `write`, with the serial of the program's node for which each value was made.

    table: the prices by which views are spelled in the quickest steps, rather than those that move the fewest bytes.
    """
    source = like if like is not None else program if isinstance(program, OnnxProgram) else None
    writer = _ProgramWriter(program, source, domains, table)
    model = writer.model()
    tidy(model.graph)
    return model, writer.owners


class _ProgramWriter(Writer):
    """Spells the nodes of a program."""

    def __init__(
        self, program: Program, source: OnnxProgram | None, domains: Collection[str], table: Table | None
    ) -> None:
        super().__init__(program, source, domains, table)
        self.owners: dict[str, int] = {}
        self.begun: set[int] = set()
        """The serials of nodes that are being written."""

    def tensors(self, roots: Iterable[Tensor]) -> None:
        """Write everything below some tensors, operands first."""
        for node in list(node_order(list(roots))):
            if isinstance(node, (Input, Constant)) or node.serial in self.absorbed or (node.serial, 0) in self.names:
                continue
            clock.check()
            start = len(self.nodes)
            self.begun.add(node.serial)
            try:
                self.node(node)
            except NotWritten:  # a node below
                raise
            except FrontendError as error:
                raise NotWritten(error, node) from error
            finally:
                self.begun.discard(node.serial)
            for made in self.nodes[start:]:  # the outputs of a Split are nodes of their own, as is what has a size
                for o in made.output:
                    self.owners.setdefault(o, node.serial)

    @cached_property
    def measured(self) -> Mapping[Dim, list[Tensor]]:
        """The tensors that have each size along an axis, in the order in which they can be written."""
        found: dict[Dim, list[Tensor]] = {}
        for node in self.program.nodes():
            for n, (shape, _) in enumerate(node.outputs):
                for d in dict.fromkeys(shape):
                    found.setdefault(d, []).append(Tensor(node, n))
        return found

    def measure(self, d: Term) -> None:
        for x in self.measured.get(d, ()):
            if not any(n.serial in self.begun for n in node_order([x])):
                self.tensors([x])
            if d in self.symbols:
                return

    def node(self, node: Node) -> None:
        if isinstance(node, Opaque):
            self.opaque(node)
            return
        assert isinstance(node, (View, Compute))
        if self.exact and any(same_dim(d, 0) for d in node.outputs[0][0]):
            self.empty(node)
            return
        if isinstance(node, View) and self.split(node):
            return
        steps = isinstance(node, View) and takes_steps(self, node)
        found = None if steps or node.serial in self.averages else self.recognised(node)
        if found is not None and symbolic(found.attrs.get("shape")):
            spell_sizes(self, node, found)
        elif found is not None:
            inputs = ["" if x is None else self.name(x) for x in found.operands]
            name = self.claim(Tensor(node), found.op.lower())
            self.call(found, inputs, [name])
            if found.domain:  # inference knows ONNX alone
                self.value_info.append(self.info(name, Tensor(node)))
        elif isinstance(node, View):
            blocks = None if self.exact or steps else as_blocks(node, self.opset)
            if blocks is not None and self.table is not None and not is_quick(node, f"onnx:{blocks.op}", self.table):
                blocks = None
            if blocks is None or not self.runs(blocks.op, node.outputs[0][1]):
                spell_view(self, node)
            else:
                self.call(blocks, [self.name(node.source)], [self.claim(Tensor(node), blocks.op.lower())])
        else:
            spell_compute(self, node)

    def recognised(self, node: View | Compute) -> Call | None:
        """The call to write for a node whose operands are written; of a program of our own, one that means the same."""
        found = recognise(node, self.opset, self.domains)
        if found is not None and isinstance(node, View) and costs_less_in_steps(self, node, found):
            return None
        if found is not None and found.tensors:
            runs = self.runs(found.op, found.tensors[-1].dtype)
            if not (means_the_formula(found) if self.exact else runs):
                return None
        if found is None or not isinstance(node, Compute):
            return None if found is not None and found.op == "Split" else found
        shared = [x for x in node.operands if x not in found.tensors and x.node.serial not in self.absorbed]
        if found.op != "Gemm" or not shared:
            return found
        # The product is needed by others too: only the sum is left to do.
        return recognise(Compute(node.operands, node.shape, node.body), self.opset)

    def number(self, size: Term) -> str:
        """The name of a size that no tensor of the model has, as an int64 of rank 0."""
        return Formula(self, (), ()).write(size).name

    def empty(self, node: View | Compute) -> None:
        """Write a tensor without cells."""
        shape, dtype = node.outputs[0]
        sizes = static_shape(shape)
        if sizes is not None:
            self.alias(Tensor(node), self.constant(np.zeros(sizes, dtype)))
            return
        vector = size_vector(self, shape)
        self.adopt(Tensor(node), self.step("Expand", [self.constant(np.zeros((), dtype)), vector]), True)

    def split(self, node: View, alone: bool = False) -> bool:
        """Write the Split that all these views are, at the first of them; `alone`: even for one that is used."""
        if node.tag is None or node.tag.name != "onnx:Split":
            return False
        group = self.splits.get(_split_key(node), [])
        found = recognise(node, self.opset) if len(group) > 1 or alone else None
        if found is None or not all(_is_output(found, x) for x in group):
            return False
        by_place = {x.node.tag.get(OUTPUT): x for x in group if isinstance(x.node, View) and x.node.tag is not None}
        outputs = [
            self.claim(by_place[k], "split") if k in by_place else self.fresh("split") for k in range(found.listed)
        ]
        self.call(found, [self.name(node.source)], outputs)
        self.owners.update({self.names[x.key]: x.node.serial for x in by_place.values()})
        for x in group:  # the same Split may have been there twice
            if x.key not in self.names and isinstance(x.node, View) and x.node.tag is not None:
                self.alias(x, self.name(by_place[x.node.tag.get(OUTPUT)]))
        return True

    def opaque(self, node: Opaque) -> None:
        if GRAPH in node.attrs:
            self.barrier(node)
            return
        call = self.opaque_call(node)
        if call is None:
            if node.definition is None:
                raise FrontendError(
                    f"operator {node.op}", "ONNX has no such operator here", "keep it out of ONNX programs"
                )
            made = node.definition(*node.operands)
            for n, x in enumerate([made] if isinstance(made, Tensor) else list(made)):
                self.stand_in(Tensor(node, n), x)
            return
        asked = replace(call, types=tuple(node.outputs))
        ours = _signature(asked)
        if not _is_one(ours, node) and not _is_one(_of_any(asked), node):
            raise FrontendError(f"operator {node.op}", f"ONNX has it as {ours}, the program needs {node.signature}")
        inputs = ["" if x is None else self.name(x) for x in call.operands]
        wish = call.op.rpartition(SEPARATOR)[2].lower()
        names = [self.claim(Tensor(node, n), wish) for n in range(len(node.outputs))]
        self.call(call, inputs, names)
        if is_custom(call.op):  # inference knows ONNX alone
            self.value_info.extend(self.info(name, Tensor(node, n)) for n, name in enumerate(names))

    def opaque_call(self, node: Opaque) -> Call | None:
        """The ONNX call of an operator that has one in this opset."""
        if OPSET not in node.attrs:
            return call_of(node, self.opset)
        call = opaque_call(node)
        if is_custom(call.op):
            if self.opsets.get(call.domain) != call.opset:
                raise FrontendError(f"operator {node.op}", f"needs opset {call.opset} of {call.domain}")
            return call
        opset = self.opsets.get(call.domain, 1) if call.domain else self.opset
        ours, theirs = schema(call.op, opset, call.domain), schema(call.op, call.opset, call.domain)
        if ours is None or theirs is None or ours.since_version != theirs.since_version:
            raise FrontendError(
                f"operator {node.op}", f"was read in opset {call.opset}, which differs in opset {opset}"
            )
        return replace(call, opset=opset)

    # -- carried nodes -------------------------------------------------------------------------------------------------

    def barrier(self, node: Opaque) -> None:
        for domain, version in node.attrs[OPSETS]:
            if self.opsets.get("" if domain == "ai.onnx" else domain) != version:
                raise FrontendError(f"operator {node.op}", f"needs opset {version} of {domain or 'ai.onnx'}")
        graph = unpack(node.attrs[GRAPH])
        table = {old: self.name(x) for old, x in zip(node.attrs[INPUTS], node.operands, strict=True)}
        carried = {o.name for o in graph.output}
        loose = (
            {x.name for x in graph.initializer}
            | {x.values.name for x in graph.sparse_initializer}
            | {x.name for x in graph.input}
        )
        for n, old in enumerate(node.attrs[OUTPUTS]):
            if old in carried:
                self.names[node.serial, n] = old
                self.taken.add(old)
                self.done.add(old)
                self.tokens.add(old)
            else:
                table[old] = self.claim_as(Tensor(node, n), old)
        for inner in (o for child in graph.node for o in child.output if o):
            if inner not in table and inner not in carried and inner not in loose:
                table[inner] = self.keep(inner)
        for child in graph.node:
            self.nodes.append(renamed(child, table))
            self.written(self.nodes[-1].output)
        for info in graph.value_info:
            info.name = table.get(info.name, info.name)
            self.value_info.append(info)
        if self.envelope is None:
            self.initializers.extend(x for x in graph.initializer if x.name not in self.taken)
            self.taken.update(loose)
        self.functions.update({(f.domain, f.name): f for f in functions_of(node.attrs)})

    def keep(self, name: str) -> str:
        """A carried name as it is, where it is still free."""
        if name in self.taken or name in self.program.outputs:
            return self.fresh(name)
        self.taken.add(name)
        return name

    def claim_as(self, x: Tensor, name: str) -> str:
        if x.key not in self.ends and name not in self.taken and name not in self.program.outputs:
            self.names[x.key] = name
            self.taken.add(name)
            self.claimed[name] = x.shape
            return name
        return self.claim(x, name)

    # -- the model -----------------------------------------------------------------------------------------------------

    def model(self) -> ModelProto:
        self.check_names()
        for x in self.program.inputs:
            self.names[x.key] = x.name
            self.taken.add(x.name)
            for axis, d in enumerate(x.shape):
                self.symbols.setdefault(d, (x.name, axis))
        nodes = self.program.nodes()
        uses: dict[tuple[int, int], int] = {x.key: 1 for x in self.program.outputs.values()}
        for node in nodes:
            for x in node.operands:
                uses[x.key] = uses.get(x.key, 0) + 1
        for node in nodes:
            if isinstance(node, View) and node.tag is not None and node.tag.name == "onnx:Split":
                self.splits.setdefault(_split_key(node), []).append(Tensor(node))
            if (
                isinstance(node, Compute)
                and node.tag is not None
                and node.tag.name == "onnx:Gemm"
                and node.combiner is None
            ):
                self.absorb(node, uses)
            if isinstance(node, Compute):
                self.average(node, uses)
        self.tensors(self.program.outputs.values())
        self.finish_outputs()
        joined(self, self.cuts)
        return self.assembled()

    def check_names(self) -> None:
        inputs = {x.name: x for x in self.program.inputs}
        for name, x in self.program.outputs.items():
            if name in inputs and inputs[name] != x:
                fix = "give one of them another name"
                raise FrontendError(f"output {name!r}", "has the name of an input, which is one value in ONNX", fix)

    def absorb(self, node: Compute, uses: Mapping[tuple[int, int], int]) -> None:
        """Mark a product that its only user, a Gemm, computes itself."""
        found = recognise(node, self.opset)
        if found is None or found.op != "Gemm":
            return
        for x in node.operands:
            if x not in found.tensors and uses[x.key] == 1:
                self.absorbed.add(x.node.serial)

    def average(self, node: Compute, uses: Mapping[tuple[int, int], int]) -> None:
        """Mark a sum over windows that its only user, a division, makes a pool."""
        total = quotient_of_sum(node)
        if total is not None and uses[total.serial, 0] == 1 and as_average_pool(node, self.opset) is not None:
            self.absorbed.add(total.serial)
            self.averages.add(node.serial)

    def finish_outputs(self) -> None:
        for name, x in self.program.outputs.items():
            if name in self.done or (isinstance(x.node, Input) and x.name == name):
                continue
            self.step("Identity", [self.name(x)], output=name)

    @cached_property
    def labels(self) -> Mapping[Term, str]:
        """The names of the program's symbols."""
        return symbol_names(program_symbols(self.program))

    def info(self, name: str, x: Tensor) -> onnx.ValueInfoProto:
        """The type of an end of the graph; symbols of one name become dimensions of different names."""
        dims = [d if isinstance(d, int) else format_term(d, names=self.labels) for d in x.shape]
        return helper.make_tensor_value_info(name, element_type(x.dtype), dims)

    def assembled(self) -> ModelProto:
        model = ModelProto()
        if self.envelope is None:
            model.ir_version = DEFAULT_IR
            model.producer_name = "eqsat"
            model.graph.name = self.program.name
            model.graph.input.extend(self.info(x.name, x) for x in self.program.inputs)
            model.graph.output.extend(self.info(n, x) for n, x in self.program.outputs.items())
            model.opset_import.extend(helper.make_opsetid(d, v) for d, v in sorted(self.opsets.items()))
            model.functions.extend(self.functions.values())
        else:
            model.CopyFrom(self.envelope.shell)
            known = {o.domain for o in model.opset_import}
            new = sorted((d, v) for d, v in self.opsets.items() if d and d not in known)
            model.opset_import.extend(helper.make_opsetid(d, v) for d, v in new)
            model.graph.initializer.extend(self.envelope.defaults)
            for loose in self.envelope.carried:
                if isinstance(loose, TensorProto):
                    model.graph.initializer.append(loose)
                else:
                    model.graph.sparse_initializer.append(loose)
            for output in model.graph.output:
                kind, known = output.type, self.program.outputs.get(output.name)
                if (
                    known is not None
                    and output.name not in self.tokens
                    and (
                        not kind.WhichOneof("value")
                        or (kind.HasField("tensor_type") and not kind.tensor_type.HasField("shape"))
                    )
                ):
                    output.CopyFrom(self.info(output.name, known))
        model.graph.node.extend(self.nodes)
        model.graph.initializer.extend(self.initializers)
        model.graph.value_info.extend(self.value_info)
        if model.ir_version < 4:
            # Before IR version 4 every initialiser had to be listed as an input.
            listed = {x.name for x in model.graph.input}
            model.graph.input.extend(
                helper.make_tensor_value_info(x.name, x.data_type, list(x.dims))
                for x in model.graph.initializer
                if x.name not in listed
            )
        return model


def _split_key(node: View) -> tuple[object, ...]:
    assert node.tag is not None
    attrs = tuple(item for item in node.tag.attrs if item[0] not in (OUTPUT, SLOTS))
    return (node.source.key, attrs, node.tag.get(LISTED))


def _signature(call: Call) -> Signature | None:
    """How the axes of an operator belong together, if it is one node."""
    made = apply(call)[0].node
    return made.signature if isinstance(made, Opaque) else None


def _of_any(call: Call) -> Signature | None:
    """The signature with operands of which nothing is known in the place of constants: they may have become constants
    since the operator was read, and what holds for any operand holds for them."""
    operands = [
        Tensor(Input(f"operand{n}", x.shape, x.dtype)) if x is not None and isinstance(x.node, Constant) else x
        for n, x in enumerate(call.operands)
    ]
    try:
        return _signature(replace(call, operands=tuple(operands)))
    except Declined:
        return None


def _is_one(ours: Signature | None, node: Opaque) -> bool:
    """Whether an operator with a signature keeps the places of axes as a node does."""
    shapes = [*(x.shape for x in node.operands), *(s for s, _ in node.outputs)]
    return ours is not None and node.signature is not None and ours.matches(node.signature, shapes)


def _is_output(call: Call, x: Tensor) -> bool:
    from eqsat.onnx.recognise import matches

    node = x.node
    return isinstance(node, View) and node.tag is not None and matches(call, node, node.tag.get(OUTPUT, 0))


def renamed(original: NodeProto, table: Mapping[str, str]) -> NodeProto:
    """A node with the values that it reads and makes renamed, outer values in its subgraphs included."""
    node = NodeProto()
    node.CopyFrom(original)
    for names in (node.input, node.output):
        for n, name in enumerate(names):
            names[n] = table.get(name, name)
    stack: list[tuple[GraphProto, Mapping[str, str]]] = [(g, table) for g in subgraphs(node)]
    while stack:
        graph, outer = stack.pop()
        own = {x.name for x in (*graph.input, *graph.initializer)} | {o for n in graph.node for o in n.output}
        inner = {old: new for old, new in outer.items() if old not in own}
        for child in graph.node:
            for n, name in enumerate(child.input):
                child.input[n] = inner.get(name, name)
            stack.extend((g, inner) for g in subgraphs(child))
        for output in graph.output:
            output.name = inner.get(output.name, output.name)
    return node
