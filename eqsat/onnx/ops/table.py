"""The table of ONNX operators: an entry is a formula (a View or a Compute) or a signature, and nothing about layouts.

Reading applies an entry to a node; writing proposes a node, applies the entry to it and compares. Both therefore mean
the same, and an operator is added by one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import import_module
from typing import Any

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError, EvaluationError
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Compute, Constant, Definition, Node, Opaque, OperatorImpl, Tag, Tensor, View, input
from eqsat.ir.terms.shape import Shape, normalize_axis, same_shape
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, TensorAttr, Type, items_of, schema_default, symbolic, to_node
from eqsat.onnx.ops import custom
from eqsat.onnx.ops.custom import is_custom, signature_and_types
from eqsat.onnx.ops.declare import Declared, declare
from eqsat.onnx.ops.slots import Slot
from eqsat.onnx.ops.turns import RESULT, Turning
from eqsat.operators.window_impl import Turn, WindowImpl

PREFIX = "onnx:"
OPSET, SLOTS, OUTPUT, LISTED = "onnx.opset", "onnx.slots", "onnx.output", "onnx.listed"
TIED = "onnx.tied."
"""Prefix of a parameter that looks like an axis, but does not follow one axis alone."""
TABLES = (
    "along", "attention", "conv", "images", "integer", "loss", "math", "norm", "picks", "pointwise", "pool", "quantize",
    "reduce", "resize", "signatures", "views",
)  # fmt: skip
"""The modules of entries."""
SMALL = 64
"""Parameters longer than this are not kept in tags; the formula has them."""
LARGE = 4096
"""Constant operands of more cells are not kept in tags, either."""

Entry = Callable[[Call], "Tensor | Sequence[Tensor]"]


@dataclass(frozen=True)
class Operator:
    """An entry, and what it understands."""

    entry: Entry
    declared: Declared
    domain: str = ""
    slot: Slot | None = None
    turning: Turning | None = None


_operators: dict[str, Operator] = {}


def define(
    names: str,
    inputs: str,
    attributes: str = "",
    constants: str = "",
    domain: str = "",
    slot: Slot | None = None,
    turning: Turning | None = None,
) -> Callable[[Entry], Entry]:
    """Register one entry for operators of a domain, with all that it understands (see `declare`), how they pad their
    first operand, if they do, and in which other orders they are there."""

    def register(entry: Entry) -> Entry:
        for name in names.split():
            if name in _operators:
                raise EqsatError(f"ONNX operator {name}", "is defined twice")
            _operators[name] = Operator(entry, declare(inputs, attributes, constants), domain, slot, turning)
        return entry

    return register


def lookup(op: str, domain: str = "") -> Operator | None:
    """The entry of an operator, or None: a barrier.

    >>> lookup("Conv") is not None, lookup("NonZero") is None
    (True, True)
    """
    _import_tables()
    found = _operators.get(op)
    return found if found is not None and found.domain == ("" if domain == "ai.onnx" else domain) else None


@lru_cache(maxsize=1)
def _import_tables() -> None:
    """Import the tables, once: operators are looked up for every node that is made."""
    for table in TABLES:
        import_module(f"eqsat.onnx.ops.{table}")


def domain_of(op: str) -> str:
    """The domain of an operator with an entry, or of a custom one."""
    if is_custom(op):
        return custom.domain_of(op)
    return _operators[op].domain if op in _operators else ""


def operator_names() -> tuple[str, ...]:
    """All operators of ONNX itself with an entry."""
    lookup("Add")
    return tuple(sorted(name for name, found in _operators.items() if not found.domain))


def apply(call: Call) -> tuple[Tensor, ...]:
    """The outputs of a call as program nodes, tagged with the operator; Declined where it has no entry."""
    if is_custom(call.op):
        signature, types = signature_and_types(call)
        return opaque(call, signature, types, tied=tuple(call.attrs), impl=CustomImpl())
    found = lookup(call.op, call.domain)
    if found is None:
        raise Declined(f"ONNX {call.op}", "is not in the table")
    call = found.declared.admit(call)
    result = found.entry(call)
    outputs = (result,) if isinstance(result, Tensor) else tuple(result)
    for n, x in enumerate(outputs):
        known = call.types[n] if n < len(call.types) else None
        if known is not None and (known[1] != x.dtype or not _may_agree(known[0], x.shape)):
            raise Declined(f"ONNX {call.op}", f"output {n} is {x!r}, the model says {known}")
    old = {x.node.serial for x in call.tensors}
    for n, x in enumerate(outputs):
        if isinstance(x.node, (View, Compute)) and x.node.serial not in old:
            x.node.tag = _tag(_folded(call, x.node, found.declared), n if call.op == "Split" else None)
    return outputs


def _folded(call: Call, node: Node, declared: Declared) -> Call:
    """The call with constant operands that its formula no longer reads among the parameters."""
    left = {x.key for x in node.operands}
    gone = [
        n
        for n, x in enumerate(call.operands)
        if x is not None and x.key not in left and isinstance(x.node, Constant) and x.node.array.size <= LARGE
    ]
    if not gone or {x.key for n, x in enumerate(call.operands) if x is not None and n not in gone} != left:
        return call
    values = {declared.inputs[n]: _tensor_attr(call.operands[n]) for n in gone}
    kept = tuple(None if n in gone else x for n, x in enumerate(call.operands))
    return replace(call, operands=kept, attrs={**call.attrs, **values})


def _tensor_attr(x: Tensor | None) -> TensorAttr:
    assert x is not None and isinstance(x.node, Constant)
    return TensorAttr(x.dtype, tuple(x.node.array.shape), x.node.array.tobytes())


def _may_agree(a: Shape, b: Shape) -> bool:
    return len(a) == len(b) and all(
        p == q for p, q in zip(a, b, strict=True) if isinstance(p, int) and isinstance(q, int)
    )


def _tag(call: Call, output: int | None) -> Tag:
    def plain(value: Any) -> bool:
        return not symbolic(value) and len(items_of(value)) <= SMALL

    attrs = {k: v for k, v in call.attrs.items() if plain(v)}
    attrs[SLOTS] = call.slots
    if output is not None:
        attrs[OUTPUT], attrs[LISTED] = output, call.listed
    return Tag(PREFIX + call.op, tuple(sorted(attrs.items())))


def tag_call(tag: Tag, operands: Sequence[Tensor], opset: int) -> Call | None:
    """The call that a tag remembers, with the given operands in its slots; None where it is no ONNX operator."""
    if not tag.name.startswith(PREFIX):
        return None
    attrs = {k: v for k, v in tag.attrs if not k.startswith("onnx.")}
    listed, op = tag.get(LISTED, 1), tag.name.removeprefix(PREFIX)
    slotted = in_slots(operands, tag.get(SLOTS, ()))
    return Call(op, slotted, attrs, opset, domain_of(op), count=listed, listed=listed)


def in_slots(operands: Sequence[Tensor], slots: Sequence[int]) -> tuple[Tensor | None, ...]:
    """Operands at their input positions."""
    table = dict(zip(slots, operands, strict=False))
    return tuple(table.get(n) for n in range(max(table, default=-1) + 1))


# -- operators without a formula ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OnnxImpl(WindowImpl):
    """The numpy meaning of an operator: the node alone in a model, run. `loose` is one whose types are only known from
    the model: over other shapes nobody knows them."""

    call: Call
    types: tuple[Type, ...]
    loose: bool = False

    def __call__(self, *arrays: NDArray) -> list[Any]:
        from onnx import TensorProto, helper, numpy_helper

        from eqsat.models.package import element_type, run_model

        constants: list[TensorProto] = []

        def add(array: NDArray) -> str:
            constants.append(numpy_helper.from_array(array, f"c{len(constants)}"))
            return constants[-1].name

        table = dict(zip(self.call.slots, range(len(arrays)), strict=True))
        names = [f"x{table[n]}" if n in table else "" for n in range(len(self.call.operands))]
        outputs = [f"y{n}" for n in range(len(self.types))]
        node = to_node(replace(self.call, types=self.types), names, outputs, add)
        ins = [
            helper.make_tensor_value_info(f"x{n}", element_type(a.dtype.name), a.shape) for n, a in enumerate(arrays)
        ]
        outs = [
            helper.make_tensor_value_info(y, element_type(d), [None] * len(s))
            for y, (s, d) in zip(outputs, self.types, strict=True)
        ]
        graph = helper.make_graph([node], "one", ins, outs, constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid(self.call.domain, self.call.opset)], ir_version=8
        )
        return run_model(model, {f"x{n}": a for n, a in enumerate(arrays)})

    def with_attrs(
        self, node: Opaque, operands: Sequence[Tensor], outputs: Sequence[Type], attrs: Mapping[str, Any]
    ) -> Opaque:
        if self.loose:
            raise Declined(self.call.op, "has no formula for this use")
        return with_attrs(node, operands, outputs, attrs)

    def padded(
        self, node: Opaque, operands: Sequence[Tensor], pads: Sequence[tuple[int, int]], fill: Term | None
    ) -> Opaque:
        found = lookup(self.call.op, self.call.domain)
        if self.loose or found is None or found.slot is None or len(node.outputs) != 1:
            return super().padded(node, operands, pads, fill)
        own = opaque_call(node)
        call = found.slot.padded(replace(own, operands=in_slots(operands, node.attrs[SLOTS])), pads, fill)
        before, after = (apply(replace(c, types=()))[0] for c in (own, call))
        made = apply(call)[0].node if same_shape(before.shape, after.shape) else None
        if not isinstance(made, Opaque) or before.dtype != after.dtype:
            raise Declined(node.op, "does no such padding of its own")
        return made

    def windows(self, node: Opaque) -> tuple[tuple[int, ...], ...]:
        turning = self._turning(node)
        places = None if turning is None else turning.places(opaque_call(node))
        if not places:
            return ()
        return *(places.get(slot, ()) for slot in node.attrs[SLOTS]), places[RESULT]

    def turns(self, node: Opaque) -> tuple[Turn, ...]:
        turning = self._turning(node)
        return () if turning is None else turning.turns(opaque_call(node))

    def turned(self, node: Opaque, turn: Turn) -> Opaque:
        turning = self._turning(node)
        if turning is None:
            raise Declined(node.op, "is there in one order")
        made = apply(turning.turned(opaque_call(node), turn))[0].node
        if not isinstance(made, Opaque):
            raise Declined(node.op, "is no single node in another order")
        return made

    def _turning(self, node: Opaque) -> Turning | None:
        found = lookup(self.call.op, self.call.domain)
        return None if found is None or self.loose or len(node.outputs) != 1 else found.turning


@dataclass(frozen=True)
class CustomImpl(OperatorImpl):
    """An operator of a custom domain, which nobody here can run; over other operands it is the same node."""

    runs = False

    def __call__(self, *arrays: NDArray) -> Any:
        raise EvaluationError("an operator of a custom domain", "cannot be run here")

    def with_attrs(
        self, node: Opaque, operands: Sequence[Tensor], outputs: Sequence[Type], attrs: Mapping[str, Any]
    ) -> Opaque:
        return with_attrs(node, operands, outputs, attrs)


@dataclass(frozen=True)
class BySignature:
    """An operator of which only the signature is known; the types of its outputs come from the model.

    `build` names the axes of all operands and of all outputs that the operator has. The parameter `axis` counts from
    the front, so that a layout that moves it has a number to change; it is that of the schema, or else the given one.
    """

    build: Callable[[Call], Signature]
    axis: int | None = None

    def __call__(self, call: Call) -> tuple[Tensor, ...]:
        """The node of a call."""
        if self.axis is not None:
            axis = call.get("axis", schema_default(call, "axis", self.axis))
            call = merged(call, axis=normalize_axis(int(axis), call.tensors[0].rank, call.op))
        known = [k for k in call.types[: call.count] if k is not None]
        if len(known) < call.count:
            raise Declined(call.op, "the type of an output is not known")
        whole = self.build(call)
        outputs = whole.outputs[: call.count]
        return opaque(call, labelled(whole.operands, outputs, whole.roles), known)


def labelled(operands: Sequence[Dims], outputs: Sequence[Dims], roles: Mapping[str, str]) -> Signature:
    """A signature in which labels without an axis here, or without an output, lose their role.

    >>> str(labelled([(("n",), ("k",))], [(("n",),)], {"n": "map", "k": "map", "z": "map"}).roles)
    "{'n': 'map'}"
    """
    read, written = ({x for dims in side for d in dims for x in d} for side in (operands, outputs))
    kept = {x: r for x, r in roles.items() if (x in written if r != "reduce" else x in read - written)}
    return Signature(tuple(operands), tuple(outputs), kept)


def by_signature(
    names: str,
    inputs: str,
    attributes: str = "",
    constants: str = "",
    *,
    axis: int | None = None,
    turning: Turning | None = None,
) -> Callable[[Callable[[Call], Signature]], Callable[[Call], Signature]]:
    """Register the signature of operators that have no formula, with all that it understands (see `declare`)."""

    def register(build: Callable[[Call], Signature]) -> Callable[[Call], Signature]:
        define(names, inputs, attributes, constants, turning=turning)(BySignature(build, axis))
        return build

    return register


def opaque(
    call: Call,
    signature: Signature,
    types: Sequence[Type],
    tied: Sequence[str] = (),
    definition: Definition | None = None,
    loose: bool = False,
    impl: OperatorImpl | None = None,
) -> tuple[Tensor, ...]:
    """An operator as one node with a signature; `tied` names parameters that nobody may change to move an axis."""
    try:
        signature.check([x.shape for x in call.tensors], [s for s, _ in types], call.op)
    except EqsatError as error:
        raise Declined(call.op, error.problem) from error
    attrs = {f"{TIED}{k}" if k in tied else k: v for k, v in call.attrs.items()}
    attrs.update({OPSET: call.opset, SLOTS: call.slots})
    bare = replace(call, operands=tuple(call.operands), types=())
    impl = impl or OnnxImpl(_without_tensors(bare), tuple(types), loose)
    node = Opaque(PREFIX + call.op, call.tensors, types, attrs, signature, impl, definition)
    return tuple(Tensor(node, n) for n in range(len(types)))


def _without_tensors(call: Call) -> Call:
    """The call with stand-ins for its operands, so that an implementation does not keep a program alive."""
    return replace(call, operands=tuple(None if x is None else input("x", (), x.dtype) for x in call.operands))


def _parameters(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """The operator's own parameters among the attributes of a node."""
    plain = {k: v for k, v in attrs.items() if not k.startswith("onnx.")}
    return plain | {k.removeprefix(TIED): v for k, v in attrs.items() if k.startswith(TIED)}


def opaque_call(node: Opaque) -> Call:
    """The call of an Opaque made by the table, in the opset it was read in."""
    attrs = _parameters(node.attrs)
    operands = in_slots(node.operands, node.attrs[SLOTS])
    return Call(
        node.op.removeprefix(PREFIX),
        operands,
        attrs,
        node.attrs[OPSET],
        domain_of(node.op.removeprefix(PREFIX)),
        types=tuple(node.outputs),
        count=len(node.outputs),
    )


def with_attrs(node: Opaque, operands: Sequence[Tensor], types: Sequence[Type], attrs: Mapping[str, Any]) -> Opaque:
    """The same operator over other operands and with other parameters, as the table has it.

    Errors: Declined where the table has no such operator.
    """
    call = replace(opaque_call(node), operands=in_slots(operands, node.attrs[SLOTS]), types=tuple(types))
    made = apply(replace(call, attrs={**call.attrs, **_parameters(attrs)}))[0].node
    if not isinstance(made, Opaque):
        raise Declined(node.op, "is no single node with these parameters")
    return made


def merged(call: Call, **attrs: Any) -> Call:
    """A call with some parameters replaced; None removes one."""
    table: Mapping[str, Any] = {**call.attrs, **attrs}
    return replace(call, attrs={k: v for k, v in table.items() if v is not None})
