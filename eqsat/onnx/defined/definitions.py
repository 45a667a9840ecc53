"""The meaning of ONNX operators that are one node with a signature, as formulas over tensors.

An entry builds the outputs of a call from Views and Computes. Graph work sees the operator; a target that lacks it
compiles the formula. An operator or a use of it without an entry, or whose entry declines, is left to its `impl`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from typing import Any, cast

from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.pointwise import cast as cast_tensor
from eqsat.ir.tensors.tensor import Constant, Tensor, input
from eqsat.ir.terms.shape import same_shape
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Type
from eqsat.onnx.declare import Declared, declare

TABLES = ("along", "conv", "norm", "pool", "quantize", "reduce", "resize")
"""The modules of entries."""
Formula = Callable[[Call], "Tensor | Sequence[Tensor]"]


@dataclass(frozen=True)
class Entry:
    """A formula and what it understands; a `wide` one computes float16 in float32, as onnxruntime does.

    `parameters` are the slots of operands that it reads as numbers: they must be constants.
    """

    formula: Formula
    declared: Declared
    wide: bool
    parameters: tuple[int, ...]


_entries: dict[str, Entry] = {}


def formula(
    names: str, inputs: str, attributes: str = "", wide: bool = True, parameters: tuple[int, ...] = ()
) -> Callable[[Formula], Formula]:
    """Register the formula of some operators, with all that it understands (see `declare`)."""

    def register(function: Formula) -> Formula:
        for name in names.split():
            if name in _entries:
                raise EqsatError(f"formula of ONNX {name}", "is defined twice")
            _entries[name] = Entry(function, declare(inputs, attributes), wide, parameters)
        return function

    return register


def formula_names() -> tuple[str, ...]:
    """The operators that have a formula.

    >>> "Conv" in formula_names(), "TopK" in formula_names()
    (True, False)
    """
    for table in TABLES:
        import_module(f"eqsat.onnx.defined.{table}")
    return tuple(sorted(_entries))


@dataclass(frozen=True, eq=False)
class OnnxDefinition:
    """The outputs of an operator from its operands; `call` holds stand-ins for them, and parameters as constants."""

    call: Call

    def __call__(self, *operands: Tensor) -> list[Tensor]:
        slots: list[Tensor | None] = list(self.call.operands)
        for n, given in zip(self.call.slots, operands, strict=True):
            own = slots[n]
            known = own is not None and isinstance(own.node, Constant)
            slots[n] = own if known and not isinstance(given.node, Constant) else given
        return build(replace(self.call, operands=tuple(slots)))


def build(call: Call) -> list[Tensor]:
    """The outputs of a call by its formula; EqsatError where it has none."""
    entry = _entries[call.op]
    call = entry.declared.admit(call)
    narrow = entry.wide and any(x.dtype == "float16" for x in call.tensors)
    if narrow:
        call = replace(call, operands=tuple(None if x is None else _widened(x) for x in call.operands))
    made = entry.formula(call)
    outputs = [made] if isinstance(made, Tensor) else list(made)
    return [cast_tensor(y, "float16") if narrow and y.dtype == "float32" else y for y in outputs]


def _widened(x: Tensor) -> Tensor:
    return cast_tensor(x, "float32") if x.dtype == "float16" else x


def definition(call: Call, types: Sequence[Type]) -> OnnxDefinition | None:
    """The formula of a call whose outputs have these types, or None.

    Whether the formula covers this use is tried on stand-ins, once for each different use.

    >>> x = input("x", (1, 2, 4), "float32")
    >>> same = (((1, 2, 4), "float32"),)
    >>> [definition(Call(op, (x,)), same) is not None for op in ("Softmax", "TopK")]
    [True, False]
    """
    if call.op not in formula_names():
        return None
    kept = _entries[call.op].parameters
    slots = tuple(None if x is None else _stand_in(n, x, n in kept) for n, x in enumerate(call.operands))
    own = replace(call, operands=slots, types=tuple(types))
    return OnnxDefinition(own) if _covers(_Use(_key(own, types), own, tuple(types))) else None


def _stand_in(slot: int, x: Tensor, parameter: bool) -> Tensor:
    """A definition must not keep a program alive."""
    return x if parameter and isinstance(x.node, Constant) else input(f"operand{slot}", x.shape, x.dtype)


@dataclass(frozen=True)
class _Use:
    """A use of an operator, equal to others by its key."""

    key: tuple[Any, ...]
    call: Call = field(compare=False)
    types: tuple[Type, ...] = field(compare=False)


@lru_cache(maxsize=4096)
def _covers(use: _Use) -> bool:
    try:
        made = build(use.call)
    except EqsatError:
        return False  # declined, or a size is not known: the implementation remains
    return len(made) == len(use.types) and all(
        y.dtype == dtype and same_shape(y.shape, shape) for y, (shape, dtype) in zip(made, use.types, strict=True)
    )


def _key(call: Call, types: Sequence[Type]) -> tuple[Any, ...]:
    operands = tuple(None if x is None else (x.dtype, _plain(x.shape), _content(x)) for x in call.operands)
    attrs = tuple((k, _plain(v)) for k, v in sorted(call.attrs.items()))
    return call.op, call.opset, attrs, operands, tuple((_plain(s), d) for s, d in types)


def _content(x: Tensor) -> bytes | None:
    return x.node.array.tobytes() if isinstance(x.node, Constant) else None


def _plain(value: Any) -> Any:
    """A value whose == is a bool: terms by their serial number, tables and sequences as tuples, numbers by type."""
    if isinstance(value, Term):
        return "term", value.serial
    if isinstance(value, (tuple, list)):
        return tuple(_plain(v) for v in cast("Sequence[Any]", value))
    if isinstance(value, Mapping):
        return tuple((k, _plain(v)) for k, v in cast("Mapping[Any, Any]", value).items())
    return type(value).__name__, value
