"""What an entry of an ONNX table understands, by declaration: inputs, attributes, values, constants.

An entry never sees a use with anything else. A later opset may give an operator another attribute, mode or input; an
entry that knows nothing of it would drop it and change the model, so such a use is declined here, in the one place
where entries are applied, and the node is carried through as it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from eqsat.ir.tensors.tensor import constant
from eqsat.onnx.call import Call, Declined, TensorAttr, items_of, schema

NEWEST_OPSET = 28
"""The opset up to which the tables were compared with the schemas; versions of operators after it are carried."""

WINDOW = "auto_pad=NOTSET|VALID|SAME_UPPER|SAME_LOWER dilations kernel_shape pads strides"
POOLING = f"{WINDOW} ceil_mode=0|1"
REDUCTION = "axes keepdims=0|1 noop_with_empty_axes=0|1"
PRODUCT = "transA=0|1 transB=0|1 alpha beta broadcast=0|1"
RESIZING = (
    "mode=nearest|linear|cubic antialias=0|1 axes scales sizes cubic_coeff_a exclude_outside=0|1 extrapolation_value "
    "nearest_mode=round_prefer_floor|round_prefer_ceil|floor|ceil "
    "keep_aspect_ratio_policy=stretch|not_larger|not_smaller coordinate_transformation_mode="
    "half_pixel|half_pixel_symmetric|pytorch_half_pixel|align_corners|asymmetric|tf_half_pixel_for_nn|tf_crop_and_resize"
)
"""Attributes that several entries share."""


@dataclass(frozen=True)
class Declared:
    """Inputs by slot, the values of attributes (none listed: any number), inputs that must be constants, and inputs
    that the entry is told as parameters, too, where they are `computed` from shapes.

    The last input may stand for any number of them. Constants are a list or one number, whatever their rank was.
    """

    inputs: tuple[str, ...]
    optional: frozenset[str]
    variadic: bool
    attributes: Mapping[str, tuple[str, ...]]
    constants: Mapping[str, bool]
    computed: frozenset[str] = frozenset()

    def admit(self, call: Call) -> Call:
        """The call as the entry expects it; Declined where it has anything that is not declared.

        >>> from eqsat.ir.tensors.tensor import input
        >>> x, known = input("x", (1, 4, 2, 2), "float32"), declare("input", "blocksize mode=DCR|CRD")
        >>> sorted(known.admit(Call("DepthToSpace", (x,), {"blocksize": 2})).attrs)
        ['blocksize']
        >>> known.admit(Call("DepthToSpace", (x,), {"blocksize": 2, "mode": "XYZ"}))
        Traceback (most recent call last):
            ...
        eqsat.onnx.call.Declined: DepthToSpace: mode='XYZ' is not modelled
        """
        found = schema(call.op, call.opset, call.domain)
        if found is not None and found.since_version > NEWEST_OPSET:
            raise Declined(call.op, f"version {found.since_version} is newer than its entry")
        call = self._unfolded(call)
        self._operands(call)
        attrs = {name: self._parameter(call, name, value) for name, value in call.attrs.items()}
        return replace(call, attrs=attrs)

    def _unfolded(self, call: Call) -> Call:
        """The call with constants that a tag kept as parameters among its operands."""
        slots = {n: call.attrs[i] for n, i in enumerate(self.inputs) if isinstance(call.attrs.get(i), TensorAttr)}
        slots = {n: a for n, a in slots.items() if self.inputs[n] not in {*self.attributes, *self.constants}}
        if not slots:
            return call
        operands = [*call.operands, *((None,) * (max(slots) + 1 - len(call.operands)))]
        for n, value in slots.items():
            operands[n] = constant(value.array)
        attrs = {k: v for k, v in call.attrs.items() if k not in {self.inputs[n] for n in slots}}
        return replace(call, operands=tuple(operands), attrs=attrs)

    def _operands(self, call: Call) -> None:
        if len(call.operands) > len(self.inputs) and not self.variadic:
            raise Declined(call.op, f"{len(call.operands)} inputs are more than are modelled")
        for slot in range(max(len(call.operands), len(self.inputs))):
            name = self.inputs[min(slot, len(self.inputs) - 1)]
            given = slot < len(call.operands) and call.operands[slot] is not None
            if not given and name not in self.optional and name not in call.attrs:
                raise Declined(call.op, f"input {name} is missing")

    def _parameter(self, call: Call, name: str, value: Any) -> Any:
        if name in self.constants:
            items = items_of(value)
            if any(isinstance(v, str) for v in items):
                raise Declined(call.op, f"{name} is not a number")
            if self.constants[name]:
                return items
            if len(items) != 1:
                raise Declined(call.op, f"{name} is not one number")
            return items[0]
        if name not in self.attributes:
            raise Declined(call.op, f"attribute {name} is not modelled")
        allowed = self.attributes[name]
        if (allowed or isinstance(value, str)) and allowed != ("*",) and str(value) not in allowed:
            raise Declined(call.op, f"{name}={value!r} is not modelled")
        return value


def declare(inputs: str, attributes: str = "", constants: str = "") -> Declared:
    """A declaration from text: `data shape`, `min?` for one that may be absent, `x*` for any number at the end.

    Attributes list their values where there are few (`mode=DCR|CRD`, `keepdims=0|1`); text must, `=*` allows any.
    `constants` names the inputs that the entry needs as numbers: one number, or a list with `axes[]`; with `sizes[]?`
    it has them as sizes beside the operand where shape arithmetic makes them.

    >>> declare("data axes?", "keepdims=0|1 axes", "axes[]").attributes
    {'keepdims': ('0', '1'), 'axes': ()}
    """
    words = inputs.split()
    names = tuple(w.rstrip("?*") for w in words)
    pairs = [w.partition("=") for w in attributes.split()]
    return Declared(
        names,
        frozenset(n for n, w in zip(names, words, strict=True) if w.endswith("?")),
        any(w.endswith("*") for w in words),
        {name: tuple(values.split("|")) if values else () for name, _, values in pairs},
        {w.removesuffix("[]"): w.endswith("[]") for w in constants.split() if not w.endswith("?")},
        frozenset(w.removesuffix("[]?") for w in constants.split() if w.endswith("?")),
    )
