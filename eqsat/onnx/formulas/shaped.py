"""Tensors in other shapes, whose sizes may only be known while the model runs: Reshape, Expand, Squeeze and Unsqueeze.

Before opset 14, an extent 0 that a Reshape is asked for means: as long as the same axis of its operand. Where an extent
may be 0, that axis has to be 0 as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import FrontendError
from eqsat.ir.flat.size_terms import as_extent
from eqsat.ir.flat.sizes import Monomial, Size, div, least, product
from eqsat.ir.flat.steps import Shape
from eqsat.ir.terms.shape import format_shape
from eqsat.onnx.call import schema
from eqsat.onnx.size_names import size_vector
from eqsat.onnx.writer import Writer

ALLOWZERO = 14
"""The opset from which on an extent 0 can be asked for."""


@dataclass(frozen=True)
class Asked:
    """What a Reshape is asked for once its operand has the axes `new` of extent 1 more; the axes `gone` of extent 1 of
    its result are too many. Without `sizes`, these axes are all that changes. `flat`: a Flatten at that axis is done
    before all this, whose extents are products."""

    sizes: Shape = ()
    new: tuple[int, ...] = ()
    gone: tuple[int, ...] = ()
    flat: int | None = None


def sizes_of(w: Writer, sizes: Sequence[Size]) -> str:
    """Sizes, some of them symbolic, as a vector."""
    return size_vector(w, tuple(as_extent(v) for v in sizes))


def expanded(w: Writer, name: str, source: Shape, target: Shape, dtype: str, out: str) -> str:
    """An Expand to sizes that may be symbolic; before there was one, a Tile."""
    static = all(isinstance(d, int) for d in target)
    if schema("Expand", w.opset) is not None:
        given, more = ({"shape": tuple(target)}, []) if static else ({}, [sizes_of(w, target)])
        return w.step("Expand", [name, *more], given, dtype if static else "", out)
    new = len(target) - len(source)
    if new:
        name = w.step("Unsqueeze", [name], {"axes": tuple(range(new))}, dtype)
    repeats = [1 if d == old else d for d, old in zip(target, (*(1,) * new, *source), strict=True)]
    given, more = ({"repeats": tuple(repeats)}, []) if static else ({}, [sizes_of(w, repeats)])
    return w.step("Tile", [name, *more], given, dtype, out)


def filled(w: Writer, fill: NDArray, target: Shape, out: str) -> str:
    """A tensor of one value, of as many cells as a step needs."""
    return expanded(w, w.constant(fill), (), target, fill.dtype.name, out)


def reshaped(w: Writer, name: str, source: Shape, target: Shape, dtype: str, out: str) -> str:
    """A Reshape: copied sizes, an inferred one, or sizes read from a tensor that has them."""
    if 0 in target and w.opset < ALLOWZERO:
        return filled(w, np.zeros((), dtype), target, out)  # nothing of the operand is in the result
    zero = {"allowzero": 1} if w.opset >= ALLOWZERO else {}
    if all(isinstance(d, int) for d in target):
        return w.step("Reshape", [name], {"shape": tuple(target), **(zero if 0 in target else {})}, dtype, out)
    asked = asked_for(source, target, w.opset)
    if asked is None and zero:
        return w.step("Reshape", [name, sizes_of(w, target)], zero, "", out)
    if asked is None:
        raise FrontendError("Reshape", f"to {format_shape(tuple(map(as_extent, target)))} needs opset {ALLOWZERO}")
    if asked.flat is not None:
        name = w.step("Flatten", [name], {"axis": asked.flat}, dtype, out if asked == Asked(flat=asked.flat) else "")
    if asked.gone and not asked.sizes:
        name = w.step("Squeeze", [name], {"axes": asked.gone}, dtype, "" if asked.new else out)
    if asked.new:
        name = w.step("Unsqueeze", [name], {"axes": asked.new}, dtype, "" if asked.sizes else out)
    if not asked.sizes:
        return name
    last = "" if asked.gone else out
    if all(isinstance(d, int) for d in asked.sizes):
        name = w.step("Reshape", [name], {"shape": asked.sizes}, dtype, last)
    else:
        name = w.step("Reshape", [name, sizes_of(w, asked.sizes)], {}, "", last)
    return w.step("Squeeze", [name], {"axes": asked.gone}, dtype, out) if asked.gone else name


def sizes_read(source: Shape, target: Shape, opset: int) -> int | None:
    """How many sizes a Reshape reads from tensors while the model runs; None where it cannot be written."""
    asked = None if all(isinstance(d, int) for d in target) else asked_for(source, target, opset)
    if asked is None and opset < ALLOWZERO and open_sizes(target) and 0 not in target:
        return None
    return open_sizes(target if asked is None else asked.sizes)


def open_sizes(sizes: Shape) -> int:
    """How many sizes are not known before the model runs."""
    return sum(not isinstance(d, int) for d in sizes)


def asked_for(source: Shape, target: Shape, opset: int) -> Asked | None:
    """How a Reshape asks for symbolic sizes; None where it cannot, or only by an extent 0 that is meant.

    >>> from eqsat.ir.terms.term import sym
    >>> from eqsat.ir.flat.size_terms import as_size
    >>> n, m = as_size(sym("N", lower=0)), as_size(sym("M", lower=0))
    >>> asked_for((n, m, 6), (n, m, 2, 3), 13)
    Asked(sizes=(0, 0, 2, 3), new=(), gone=(), flat=None)
    >>> asked_for((n, 6, m), (n, 2, 3, m), 13)  # as an operand of shape (N, 6, 1, M)
    Asked(sizes=(0, 2, 3, 0), new=(2,), gone=(), flat=None)
    >>> asked_for((6, m), (2, 3, m), 14)
    Asked(sizes=(2, 3, -1), new=(), gone=(), flat=None)
    >>> asked_for((n, 6, m), (n, as_size(6 * as_extent(m))), 13).flat
    1
    >>> found = asked_for((n, m, m, 4), (n, as_size(as_extent(m) * as_extent(m)), 4), 13)  # of shape (N, 4*M*M)
    >>> found.flat, [str(d) for d in found.sizes]
    (1, ['0', 'M*M', '4'])
    >>> asked_for((as_size(as_extent(n) * as_extent(m)), 6), (n, m, 6), 13) is None  # M may be 0 where N is not
    True
    """
    if 0 in target:
        return None
    open_ = [n for n, d in enumerate(target) if not isinstance(d, int)]
    copied = {n for n in open_ if n < len(source) and source[n] == target[n]}
    rest = [n for n in open_ if n not in copied]
    # -1 has no value where another extent is 0.
    if not rest or (len(rest) == 1 and all(_never_zero(target[n]) for n in copied)):
        return Asked(tuple(0 if n in copied else -1 if n in rest else d for n, d in enumerate(target)))
    gone, new = (tuple(n for n, d in enumerate(s) if d == 1) for s in (source, target))
    if gone != new and [d for d in source if d != 1] == [d for d in target if d != 1]:
        return Asked((), new, gone)
    if len(target) == 2:  # its extents are counted by a Flatten
        for axis in range(len(source) + 1):
            if (product(source[:axis]), product(source[axis:])) == target:
                return Asked(flat=axis)
    if opset >= ALLOWZERO:
        return None
    if all(_reaches(source[n] if n < len(source) else 1, target[n]) for n in open_):
        return Asked(target)
    flat = ((product(source[:n]), product(source[n:]), n) for n in range(1, len(source)))
    ways = (_aligned(source, target, open_), *(_aligned((a, b), target, open_, n) for a, b, n in flat))
    return next((way for way in ways if way is not None), None)


def _aligned(source: Shape, target: Shape, open_: Sequence[int], flat: int | None = None) -> Asked | None:
    """What is asked for with axes of extent 1 put in, until each extent that may be 0 meets one that is 0 then."""
    have: list[Size] = []
    want: list[Size] = []
    new: list[int] = []
    gone: list[int] = []
    i = k = 0
    for n in open_:
        if _never_zero(target[n]):
            continue
        match = next((j for j in range(i, len(source)) if _reaches(source[j], target[n])), None)
        if match is None:
            return None
        have += source[i:match]
        want += target[k:n]
        new += range(len(have), len(want))
        gone += range(len(want), len(have))
        width = max(len(have), len(want))
        have += [1] * (width - len(have)) + [source[match]]
        want += [1] * (width - len(want)) + [target[n]]
        i, k = match + 1, n + 1
    have += source[i:]
    sizes = [0 if n < len(have) and not isinstance(d, int) and have[n] == d else d for n, d in enumerate(want)]
    return Asked((*sizes, *target[k:]), tuple(new), tuple(gone), flat)


def _reaches(source: Size, target: Size) -> bool:
    """Whether an extent is 0 wherever another one is."""
    return _never_zero(target) or div(source, target) is not None


def _never_zero(size: Size) -> bool:
    low = least(size.term) if isinstance(size, Monomial) else size
    return low is not None and low > 0
