"""Operators that stay one node of a program: an entry says what they compute, and all else follows from that.

An entry builds the outputs of a call from Views and Computes. From them come their types and its signature, so that
layouts cross it, its meaning for a target that lacks it, and how an operator of our own is written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypedDict, Unpack, cast

from eqsat.ir.errors import EqsatError
from eqsat.ir.ranges.bounds import bounds
from eqsat.ir.tensors.incidence import signature_of
from eqsat.ir.tensors.pointwise import cast as cast_tensor
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Constant, Tensor, input
from eqsat.ir.terms.shape import Dim, normalize_axis, same_dim, same_shape
from eqsat.ir.terms.sums import linear_parts
from eqsat.ir.terms.term import Term, sym
from eqsat.onnx.call import Call, Declined, Type
from eqsat.onnx.ops.slots import Slot
from eqsat.onnx.ops.table import BySignature, define, lookup, merged, opaque, operator_names
from eqsat.onnx.ops.turns import Turning

Build = Callable[[Call], "Tensor | Sequence[Tensor]"]
NEVER = 1 << 30


@dataclass(frozen=True)
class Formula:
    """What operators compute, and how much of it is one for all uses.

    A `wide` formula computes float16 in float32, as onnxruntime does. `parameters` are the slots of operands that it
    reads as numbers: they must be constants. From opset `along` on an operator works along its axis `axis` alone, so
    that a layout moves it by that number; along none where operand `scaled` is one number for all axes. Where no
    formula covers a use, an operator whose first `leading` axes of operand and output are one whatever the sizes, or
    whose signature `otherwise` knows, is still one node; else it is a barrier. `normal`: a call as one whose parameters
    are for the axes that it names, so that layouts move these. `ordered`: whether what is left among its operands says
    something of each axis in their order, so that only `otherwise` knows which axes are free.
    """

    build: Build
    wide: bool = True
    parameters: tuple[int, ...] = ()
    along: int = NEVER
    leading: int | None = None
    otherwise: Callable[[Call], Signature] | None = None
    scaled: int | None = None
    normal: Callable[[Call], Call] | None = None
    ordered: Callable[[Call], bool] | None = None

    def __call__(self, call: Call) -> tuple[Tensor, ...]:
        """The node of a call."""
        call = call if self.normal is None else self.normal(call)
        tied = ("axis",) if call.opset < self.along else ()
        if self.along < NEVER:
            call = merged(call, axis=self._axis(call))
        slots = tuple(None if x is None else _stand_in(n, x, n in self.parameters) for n, x in enumerate(call.operands))
        own = replace(call, operands=slots)
        made = _made(_Use(_key(own), self, own))
        known = (*call.types, *((None,) * call.count))[: call.count]
        known = _settled(known, made.types, call.open) if made is not None else known
        if made is not None and all(k is None or _alike(k, t) for k, t in zip(known, made.types, strict=True)):
            types = [k or t for k, t in zip(known, made.types, strict=True)]
            signature = made.signature
            if self.otherwise is not None and self.ordered is not None and self.ordered(call):
                signature = self.otherwise(call)
            return opaque(call, signature, types, tied, Definition(self, own))
        if made is None and self.otherwise is not None:
            return BySignature(self.otherwise)(call)
        whole = [k for k in known if k is not None]
        if len(whole) < call.count or (made is None and (self.leading is None or call.count > 1)):
            raise Declined(call.op, "has no formula for this use")
        signature = _leading(call.tensors, whole[0], self.leading or 0) if made is None else made.signature
        return opaque(call, signature, whole, tied, loose=made is None)

    def _axis(self, call: Call) -> int | None:
        """The axis as a number from 0; None where a parameter along it is one number, the same for all axes."""
        scale = None if self.scaled is None else call.tensors[self.scaled]
        if scale is not None and scale.rank < 2 and all(same_dim(d, 1) for d in scale.shape):
            return None
        return normalize_axis(int(call.parameter("axis")), call.tensors[0].rank, call.op)

    def outputs(self, call: Call) -> list[Tensor]:
        """The outputs of a call as Views and Computes; EqsatError where they do not cover it."""
        narrow = self.wide and any(x.dtype == "float16" for x in call.tensors)
        if narrow:
            call = replace(call, operands=tuple(None if x is None else _widened(x) for x in call.operands))
        answer = self.build(call)
        made = [answer] if isinstance(answer, Tensor) else list(answer)
        if len(made) < call.count:
            raise Declined(call.op, "its further outputs have no formula")
        return [_narrowed(x, n, call) if narrow else x for n, x in enumerate(made[: call.count])]


def _narrowed(x: Tensor, place: int, call: Call) -> Tensor:
    """An output of what was computed in float32, in the type that it has; only the first is known to have another."""
    known = call.types[place] if place < len(call.types) else None
    dtype = known[1] if known is not None else "float16" if place == 0 else x.dtype
    return cast_tensor(x, dtype) if x.dtype == "float32" and dtype == "float16" else x


class How(TypedDict, total=False):
    """What an entry says of its formula, as in `Formula`."""

    wide: bool
    parameters: tuple[int, ...]
    along: int
    leading: int | None
    otherwise: Callable[[Call], Signature] | None
    scaled: int | None
    normal: Callable[[Call], Call] | None
    ordered: Callable[[Call], bool] | None


def node(
    names: str,
    inputs: str,
    attributes: str = "",
    constants: str = "",
    *,
    slot: Slot | None = None,
    turning: Turning | None = None,
    **how: Unpack[How],
) -> Callable[[Build], Build]:
    """Register the formula of operators that stay one node, with all that it understands (see `declare`)."""

    def register(build: Build) -> Build:
        define(names, inputs, attributes, constants, slot=slot, turning=turning)(Formula(build, **how))
        return build

    return register


def node_names() -> tuple[str, ...]:
    """The operators that are one node with a formula.

    >>> [n in node_names() for n in ("Conv", "Relu", "TopK")]
    [True, False, False]
    """
    return tuple(n for n in operator_names() if (x := lookup(n)) is not None and isinstance(x.entry, Formula))


@dataclass(frozen=True, eq=False)
class Definition:
    """The outputs of an operator from its operands; `call` holds stand-ins for them, and parameters as constants."""

    formula: Formula
    call: Call

    def __call__(self, *operands: Tensor) -> list[Tensor]:
        slots: list[Tensor | None] = list(self.call.operands)
        for n, given in zip(self.call.slots, operands, strict=True):
            own = slots[n]
            known = own is not None and isinstance(own.node, Constant)
            slots[n] = own if known and not isinstance(given.node, Constant) else given
        return self.formula.outputs(replace(self.call, operands=tuple(slots)))


def _widened(x: Tensor) -> Tensor:
    return cast_tensor(x, "float32") if x.dtype == "float16" else x


def _stand_in(slot: int, x: Tensor, parameter: bool) -> Tensor:
    """A definition must not keep a program alive."""
    return x if parameter and isinstance(x.node, Constant) else input(f"operand{slot}", x.shape, x.dtype)


def _alike(a: Type, b: Type) -> bool:
    return a[1] == b[1] and same_shape(a[0], b[0])


def _settled(known: Sequence[Type | None], made: Sequence[Type], unknown: frozenset[int]) -> Sequence[Type | None]:
    """Types with what a formula says of extents that inference only made up a symbol for."""

    def one(k: Type, t: Type) -> Type:
        dims = [
            _better(a, b) if isinstance(a, Term) and a.serial in unknown else a
            for a, b in zip(k[0], t[0], strict=False)
        ]
        return (tuple(dims), k[1]) if len(k[0]) == len(t[0]) else k

    return [k if k is None else one(k, t) for k, t in zip(known, made, strict=True)] if unknown else known


def _better(symbol: Term, d: Dim) -> Dim:
    """An extent where it is as plain as a size; else the symbol, at least 1 where the extent is. Other extents would
    grow from layer to layer, or be negative for small sizes."""
    if isinstance(d, int):
        return d if d >= 0 else symbol
    constant, parts = linear_parts(d)
    if constant >= 0 and all(n > 0 and body.op == "sym" for n, body in parts):
        return d
    least = bounds(d)[0]
    return _inhabited(symbol) if least is not None and least >= 1 else symbol


@lru_cache(maxsize=4096)
def _inhabited(symbol: Term) -> Term:
    """A symbol of that name which is at least 1: one and the same wherever the other stands."""
    return sym(symbol.payload.name, lower=1)


def _leading(operands: Sequence[Tensor], known: Type, count: int) -> Signature:
    """The first axes of the first operand are the output's, every other axis stays as it is."""
    first = operands[0].shape
    shared = [n for n in range(min(count, len(first), len(known[0]))) if same_dim(first[n], known[0][n])]

    def dims(prefix: str, rank: int, named: Sequence[int]) -> Dims:
        return tuple((f"a{n}",) if n in named else (f"{prefix}{n}",) for n in range(rank))

    read = [dims(f"x{k}_", x.rank, shared if k == 0 else ()) for k, x in enumerate(operands)]
    return Signature(tuple(read), (dims("y", len(known[0]), shared),), {f"a{n}": "map" for n in shared})


# -- each different use is looked at once ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Made:
    """What a formula makes of a use."""

    types: tuple[Type, ...]
    signature: Signature


@dataclass(frozen=True)
class _Use:
    """A use of an operator over stand-ins, equal to others by its key."""

    key: tuple[Any, ...]
    formula: Formula = field(compare=False)
    call: Call = field(compare=False)


@lru_cache(maxsize=4096)
def _made(use: _Use) -> _Made | None:
    try:
        made = use.formula.outputs(use.call)
        signature = signature_of(use.call.tensors, made)
        signature.check([x.shape for x in use.call.tensors], [y.shape for y in made], use.call.op)
    except EqsatError:
        return None  # declined, or a size is not known: the implementation remains
    return _Made(tuple((y.shape, y.dtype) for y in made), signature)


def _key(call: Call) -> tuple[Any, ...]:
    operands = tuple(None if x is None else (x.dtype, _plain(x.shape), _content(x)) for x in call.operands)
    attrs = tuple((k, _plain(v)) for k, v in sorted(call.attrs.items()))
    return call.op, call.opset, call.count, attrs, operands, _plain(call.types)


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
