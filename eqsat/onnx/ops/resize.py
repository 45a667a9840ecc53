"""Resize and Upsample of ONNX: every output reads one, two or four positions of each axis, weighted by constants.

Positions and weights come from the coordinates in float32, as runtimes compute them. Positions become index arithmetic
where a rounded division of the output position describes them, else a constant table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray, is_float
from eqsat.ir.flat.size_terms import as_size
from eqsat.ir.flat.sizes import div
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.tensors.tensor import Constant, Tensor, constant, from_body
from eqsat.ir.tensors.views import view
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, normalize_axes, output_axes, require_static, same_dim
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term
from eqsat.onnx.call import Call, Declined, Type, ints, items_of, schema
from eqsat.onnx.ops.declare import RESIZING
from eqsat.onnx.ops.nodes import node
from eqsat.onnx.ops.signatures import output_shape, spelled
from eqsat.onnx.ops.turns import Windows

F = np.float32
HALF, ONE = F(0.5), F(1)


@dataclass(frozen=True)
class Axis:
    """One resized axis: its extents and the float32 scale."""

    number: int
    inside: int
    outside: int
    scale: np.float32

    def coordinates(self, mode: str) -> NDArray:
        """Where the output positions lie in the input."""
        i, scale = np.arange(self.outside).astype(F), self.scale
        if scale == 1 and self.inside == self.outside:
            return i
        if mode == "asymmetric":
            return i / scale
        if mode == "align_corners":
            return np.zeros_like(i) if self.outside == 1 else i * F(self.inside - 1) / F(self.outside - 1)
        if mode == "tf_half_pixel_for_nn":
            return (i + HALF) / scale
        if mode == "pytorch_half_pixel" and self.outside == 1:
            return np.zeros_like(i)
        if mode in ("half_pixel", "pytorch_half_pixel"):
            return (i + HALF) / scale - HALF
        if mode == "half_pixel_symmetric":
            adjustment = F(self.outside) / (scale * F(self.inside))
            offset = F(self.inside) / F(2) * (ONE - adjustment)
            return offset + (i + HALF) / scale - HALF
        raise Declined("Resize", f"coordinates {mode!r}")


def _nearest(x: NDArray, axis: Axis, rounding: str) -> NDArray:
    if rounding == "simple":  # before opset 11
        rounding = "ceil" if axis.scale < 1 else "floor"
    low = np.floor(x)
    if rounding == "round_prefer_floor":
        found = np.ceil(x - HALF)
    elif rounding == "round_prefer_ceil":
        found = np.floor(x + HALF)
    elif rounding in ("floor", "ceil"):
        found = low if rounding == "floor" else np.ceil(x)
    else:
        raise Declined("Resize", f"rounding {rounding!r}")
    return np.clip(found, 0, axis.inside - 1).astype(np.int64)


def positions(targets: NDArray, i: Term, axis: Axis) -> Term:
    """The index term that is targets[i] for every output position: a clipped rounded division, or a table.

    >>> from eqsat.ir.terms.term import ax
    >>> str(positions(np.array([0, 0, 1, 1, 2, 2]), ax(0, 6), Axis(0, 3, 6, np.float32(2))))
    'i0 // 2'
    """
    slope, top = Fraction(1 / float(axis.scale)).limit_denominator(1000), axis.inside - 1
    p, q = slope.numerator, slope.denominator
    at = np.arange(len(targets))
    for free in (np.zeros(len(targets), bool), (targets == 0) | (targets == top)):
        # q * target <= p * i + offset < q * (target + 1); a clipped position binds from one side only.
        low = (q * targets - p * at)[~free | (targets > 0)]
        high = (q * (targets + 1) - 1 - p * at)[~free | (targets < top)]
        least = int(low.max()) if low.size else 0
        most = int(high.min()) if high.size else least
        if least > most:
            continue
        offset = 0 if least <= 0 <= most else least
        term = (i * p + offset) // q
        exact = (p * at + offset) // q
        if int(exact.max(initial=0)) > top:
            term = t.binary("min", term, top)
        return t.binary("max", term, 0) if int(exact.min(initial=0)) < 0 else term
    return table_load(targets, i)


def _linear(x: NDArray, axis: Axis) -> tuple[NDArray, NDArray]:
    """Positions and weights, each (2, outputs)."""
    x = np.clip(x, 0, axis.inside - 1)
    low = x.astype(np.int64)
    high = np.minimum(low + 1, axis.inside - 1)
    part = x - low.astype(F)
    return np.stack([low, high]), np.stack([ONE - part, part])


def _cubic(x: NDArray, axis: Axis, a: float, exclude: bool) -> tuple[NDArray, NDArray]:
    """Positions and weights, each (4, outputs): the convolution kernel of Keys with parameter a."""
    low = np.floor(x)
    d = (x - low).astype(np.float64)
    at = low.astype(np.int64) + np.arange(-1, 3)[:, None]
    outer = [a * s**3 - 5 * a * s**2 + 8 * a * s - 4 * a for s in (d + 1, 2 - d)]
    inner = [(a + 2) * s**3 - (a + 3) * s**2 + 1 for s in (d, 1 - d)]
    weights = np.stack([outer[0], inner[0], inner[1], outer[1]])
    if exclude:
        weights = np.where((at < 0) | (at >= axis.inside), 0.0, weights)
        weights = weights / weights.sum(axis=0)
    return np.clip(at, 0, axis.inside - 1), weights.astype(F)


def _blended(x: Tensor, axis: Axis, taps: NDArray, weights: NDArray) -> Tensor:
    """The weighted sum of some positions along one axis."""
    shape = tuple(axis.outside if n == axis.number else d for n, d in enumerate(x.shape))
    axes = output_axes(shape)
    i = axes[axis.number]
    total: Term | None = None
    for tap, weight in zip(taps, weights, strict=True):
        index = list(axes)
        index[axis.number] = positions(tap, i, axis)
        factor = constant(weight.astype(x.dtype))
        value = x[tuple(index)] * factor[(i,)]
        total = value if total is None else total + value
    assert total is not None
    return Tensor(from_body(total, shape))


def _axes(c: Call, x: Tensor, out: Sequence[Dim]) -> list[Axis]:
    scales = _scales(c, x)
    if scales is None and c.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Declined(c.op, "one scale for all axes")
    changed: list[Axis] = []
    for n, (d, e) in enumerate(zip(x.shape, out, strict=True)):
        if same_dim(d, e) and (scales is None or scales[n] == 1):
            continue
        inside, outside = require_static((d, e), c.op)
        scale = F(outside) / F(inside) if scales is None else F(scales[n])
        if not scale > 0 or not inside:
            raise Declined(c.op, f"a scale of {scale}")
        changed.append(Axis(n, inside, outside, scale))
    return changed


def _scales(c: Call, x: Tensor) -> NDArray | None:
    """The scales of all axes where the node has them; None where it has sizes."""
    named = _named(c, x)
    if "scales" in c.attrs:
        if len(items_of(c.attrs["scales"])) != len(named):
            raise Declined(c.op, "other axes have scales")
        found = np.ones(x.rank, F)
        found[list(named)] = np.asarray(c.attrs["scales"], F)
        return found
    if "sizes" in c.attrs:
        return None
    slot = 1 if c.op == "Upsample" or c.opset < 11 else 2
    source = c.operands[slot] if slot < len(c.operands) else None
    if source is not None and source.shape != (0,):
        if not isinstance(source.node, Constant) or source.shape != (len(named),):
            raise Declined(c.op, "the scales are not constant")
        found = np.ones(x.rank, F)
        found[list(named)] = source.node.array.astype(F)
        return found
    sizes = c.operands[3] if len(c.operands) > 3 else None
    if sizes is None:
        raise Declined(c.op, "neither scales nor sizes")
    return None


def _named(c: Call, x: Tensor) -> tuple[int, ...]:
    """The axes that scales, sizes and regions are for."""
    given = c.get("axes")
    return tuple(range(x.rank)) if given is None else normalize_axes(ints(given, c.op), x.rank, c.op)


def by_axes(c: Call) -> Call:
    """A call whose scales or sizes are known as one that names the axes which it resizes, with their scales or sizes as
    parameters; any other call as it is. Sizes that are computed from shapes are known beside their operand."""
    made, done = _by_axes(c)
    x, axes = c.tensors[0], tuple(sorted(_named(c, c.tensors[0])))
    if not done and "axes" in c.attrs and not _has_kernel(c, x, axes) and axes != tuple(range(2, x.rank)):
        raise Declined(c.op, f"no runtime has it along the axes {axes}")
    return made


def _by_axes(c: Call) -> tuple[Call, bool]:
    x, given = c.tensors[0], [None, *c.operands[1:], None, None, None]
    sizes = c.attrs.get("sizes") if given[3] is not None else None
    c = replace(c, attrs={k: v for k, v in c.attrs.items() if k != "sizes"}) if sizes is not None else c
    policy = c.get("keep_aspect_ratio_policy", "stretch")
    if c.get("coordinate_transformation_mode") == "tf_crop_and_resize" or policy != "stretch":
        return c, False
    slots = {"scales": 1 if c.opset < 11 else 2, "sizes": 3}
    for name, slot in slots.items():
        source, listed = given[slot], c.attrs.get(name)
        known = source is not None and isinstance(source.node, Constant) and source.shape != (0,)
        listed = sizes if name == "sizes" and not known and sizes is not None else listed
        if listed is None and not known:
            continue
        array = source.node.array if source is not None and isinstance(source.node, Constant) else None
        values: list[Any] = list(items_of(listed)) if array is None or not known else array.tolist()
        if len(values) != len(_named(c, x)):
            return c, False
        pairs = zip(_named(c, x), values, strict=True)
        kept = [(n, v) for n, v in pairs if (v != 1 if name == "scales" else not same_dim(x.shape[n], v))]
        spelled_as = _spelled(c, x, name, kept) if kept else None
        if spelled_as is None:
            return c, False
        axes = tuple(n for n, _ in kept)
        c = replace(c, types=_settled(c, x, axes))
        if not _has_kernel(c, x, axes):
            return c, False
        return replace(c, operands=c.operands[:1], attrs={**c.attrs, "axes": axes, **spelled_as}), True
    return c, False


def _spelled(c: Call, x: Tensor, name: str, kept: Sequence[tuple[int, Any]]) -> dict[str, Any] | None:
    """Scales or sizes of some axes as a parameter that can be written; None where there is none. Sizes that are not
    numbers, or stand among extents that are none where all axes have to have one, are scales if those make them."""
    found = schema(c.op, c.opset)
    alone = found is not None and "axes" in found.attributes
    others = [d for n, d in enumerate(x.shape) if n not in {n for n, _ in kept}]
    numbers = all(isinstance(v, int) for _, v in kept) and (alone or all(isinstance(d, int) for d in others))
    if name == "scales" or numbers:
        return {name: tuple(v for _, v in kept)}
    scales = [_scale(x.shape[n], v) for n, v in kept]
    return None if any(s is None for s in scales) else {"scales": tuple(scales)}


def _scale(inside: Dim, outside: Dim) -> float | None:
    """The scale that makes an extent of another one, as runtimes count: rounded down, in float32.

    >>> _scale(4, 10), _scale(3, 64), _scale(0, 4) is None
    (2.5, 21.33333396911621, True)
    """
    if isinstance(inside, int) and isinstance(outside, int):
        scale = F(outside) / F(inside) if inside else F(0)
        return float(scale) if inside and int(scale * F(inside)) == outside else None
    times = div(as_size(outside), as_size(inside))
    return float(times) if isinstance(times, int) else None


def _settled(c: Call, x: Tensor, axes: Sequence[int]) -> tuple[Type | None, ...]:
    """The types of a call in which axes that are not resized have the extents that they had, where inference only made
    up a symbol for them."""
    if not c.types or c.types[0] is None or len(c.types[0][0]) != x.rank:
        return c.types
    (shape, dtype), *rest = c.types[0], *c.types[1:]
    kept = [
        d if n not in axes and isinstance(e, Term) and e.serial in c.open else e
        for n, (d, e) in enumerate(zip(x.shape, shape, strict=True))
    ]
    return (tuple(kept), dtype), *rest


def _has_kernel(c: Call, x: Tensor, axes: Sequence[int]) -> bool:
    """Whether runtimes resize along these axes: copies along any, means along those of an image."""
    mode = str(c.get("mode", "nearest"))
    if mode == "nearest":
        return True
    return x.dtype == "float32" and x.rank == 4 and axes in (((2, 3), (1, 2)) if mode == "linear" else ((2, 3),))


def untouched(c: Call) -> Signature:
    """Axes that are not resized, and of which no region is taken, are independent; the others stay as they are."""
    x, out = c.tensors[0], output_shape(c)
    kept = {n for n, (d, e) in enumerate(zip(x.shape, out, strict=True)) if same_dim(d, e)}
    policy = c.get("keep_aspect_ratio_policy", "stretch")
    if c.get("coordinate_transformation_mode") == "tf_crop_and_resize" or policy != "stretch":
        kept -= set(_named(c, x))
    try:
        scales = _scales(c, x)
        kept -= set() if scales is None else {n for n, s in enumerate(scales) if s != 1}
    except Declined:  # computed: they may be anything along the axes that they are for
        kept -= set(_named(c, x))
    if _is_listed(c):
        kept -= set(_named(c, x))
    read = [f"a{n}" if n in kept else f"x{n}" for n in range(x.rank)]
    written = [f"a{n}" if n in kept else f"y{n}" for n in range(len(out))]
    ins = ", ".join([" ".join(read), *(f"p{k}" for k in range(1, len(c.operands)))])
    return spelled(c, f"{ins} -> {' '.join(written)}", map=" ".join(f"a{n}" for n in kept))


def _is_listed(c: Call) -> bool:
    """Whether an operand has a size for each axis, in the order of axes (scales of axes that stay are all 1)."""
    return len(c.operands) > 3 and c.operands[3] is not None


@node(
    "Resize",
    "x roi? scales? sizes?",
    RESIZING,
    "sizes[]?",
    parameters=(1, 2, 3),
    otherwise=untouched,
    normal=by_axes,
    ordered=_is_listed,
    turning=Windows(named=True),
)
@node("Upsample", "x scales", "mode=nearest|linear scales", parameters=(1,), otherwise=untouched)
def resize(c: Call) -> Tensor:
    x, kind = c.operands[0], str(c.get("mode", "nearest"))
    if x is None or not c.types or c.types[0] is None or c.get("antialias", 0):
        raise Declined(c.op, "the output shape, or smoothing")
    if kind != "nearest" and not is_float(x.dtype):
        raise Declined(c.op, "integers round")
    out, old = c.types[0][0], c.op == "Upsample" or c.opset < 11
    place = "asymmetric" if old else str(c.get("coordinate_transformation_mode", "half_pixel"))
    rounding = "simple" if old else str(c.get("nearest_mode", "round_prefer_floor"))
    changed = _axes(c, x, out)
    if kind == "nearest":
        gather = list(output_axes(out))
        for axis in changed:
            targets = _nearest(axis.coordinates(place), axis, rounding)
            gather[axis.number] = positions(targets, gather[axis.number], axis)
        return view(x, out, gather)
    for axis in changed:
        at = axis.coordinates(place)
        if kind == "linear":
            x = _blended(x, axis, *_linear(at, axis))
        elif kind == "cubic":
            x = _blended(
                x, axis, *_cubic(at, axis, float(c.get("cubic_coeff_a", -0.75)), bool(c.get("exclude_outside", 0)))
            )
        else:
            raise Declined(c.op, f"mode {kind!r}")
    return x
