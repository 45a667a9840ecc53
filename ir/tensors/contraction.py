"""Convolution as a formula: the window offsets are index arithmetic, the padding is a predicate of the body."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import gcd

from eqsat.ir.errors import LayoutError, ShapeError, TypeMismatch
from eqsat.ir.keywords import keywords
from eqsat.ir.tensors.tensor import Tag, Tensor, from_body
from eqsat.ir.tensors.views import pad, view
from eqsat.ir.tensors.windows import Window, window
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim, Shape, as_dim, format_shape, output_axes, reduce_axes
from eqsat.ir.terms.term import Term

Place = Callable[[tuple[Term, ...]], Sequence[Term]]
"""Logical index -> index of a tensor in its layout."""


@keywords
def conv2d(
    x: Tensor,
    w: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str | None = None,
) -> Tensor:
    """Two-dimensional convolution in any layout, blocked ones included.

    `padding` is one number, (h, w) or (top, left, bottom, right); padded cells count as 0. Strides and dilation are one
    number or (h, w). Raises ShapeError where shapes, groups and windows do not fit.

    >>> import eqsat as eq
    >>> x, w = eq.input("x", (1, 8, 10, 10), "float32"), eq.input("w", (16, 8, 3, 3), "float32")
    >>> eq.conv2d(x, w, padding=1).shape
    (1, 16, 10, 10)
    """
    from eqsat.ir.layouts.layout import Layout

    out_name = out_layout or data_layout
    if x.dtype != w.dtype:
        raise TypeMismatch("conv2d", f"data is {x.dtype}, weights are {w.dtype}")
    data, kernel, out = Layout("NCHW").to(data_layout), Layout("OIHW").to(kernel_layout), Layout("NCHW").to(out_name)
    n, c, *extents = data.backward_shape(x.shape)
    o, i, *taps = kernel.backward_shape(w.shape)
    what = f"conv2d of {format_shape(x.shape)} {data_layout} by {format_shape(w.shape)} {kernel_layout}"
    windows = _windows("conv2d", extents, taps, strides, padding, dilation)
    shape: Shape = tuple(as_dim(d) for d in out.forward_shape((n, o, *(v.outputs for v in windows))))
    attrs = (
        ("strides", tuple(v.stride for v in windows)),
        ("padding", (*(v.before for v in windows), *(v.after for v in windows))),
        ("dilation", tuple(v.dilation for v in windows)), ("groups", groups),
        ("data_layout", data_layout), ("kernel_layout", kernel_layout), ("out_layout", out_name),
    )  # fmt: skip
    index = out.backward_index(output_axes(shape))
    channels = _channels(c, o, i, groups, what)
    reduced = (i, *taps)
    body = _products(x, w, windows, channels, index, reduced, data.forward_index, kernel.forward_index)
    node = from_body(body, shape, reduced, "sum", Tag("conv2d", attrs))
    if len(node.operands) != 2:
        raise LayoutError("conv2d", "data and weights are one tensor")
    return Tensor(node)


def conv(
    x: Tensor,
    w: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Tensor:
    """Convolution over any number of axes: x is (n, c, *extents), w is (o, c // groups, *taps).

    `padding` is one number, one per axis, or all befores and then all afters; padded cells count as 0. Raises
    ShapeError where shapes, groups and windows do not fit.

    >>> import eqsat as eq
    >>> x, w = eq.input("x", (1, 8, 10), "float32"), eq.input("w", (16, 4, 3), "float32")
    >>> conv(x, w, padding=1, groups=2).shape
    (1, 16, 10)
    """
    what = f"conv of {format_shape(x.shape)} by {format_shape(w.shape)}"
    if x.rank != w.rank or x.rank < 3:
        raise ShapeError(what, "both need a batch, a channel and at least one further axis")
    windows = _windows("conv", x.shape[2:], w.shape[2:], strides, padding, dilation)
    shape: Shape = (x.shape[0], w.shape[0], *(v.outputs for v in windows))
    channels = _channels(x.shape[1], w.shape[0], w.shape[1], groups, what)
    body = _products(x, w, windows, channels, output_axes(shape), w.shape[1:], tuple, tuple)
    return Tensor(from_body(body, shape, w.shape[1:], "sum", Tag("conv", (("groups", groups),))))


def conv_transpose(
    x: Tensor,
    w: Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
    output_padding: int | Sequence[int] = 0,
) -> Tensor:
    """The transpose of `conv` over any number of axes: x is (n, c, *extents), w is (c, o // groups, *taps).

    `padding` is cut off from the result, `output_padding` appended to it. With stride s an output sums ceil(taps / s)
    products only: position y is phase (y + before) % s of step (y + before) // s, one Compute has the phases as axes of
    their own, and a View puts them in order. Raises ShapeError where shapes do not fit.

    >>> import eqsat as eq
    >>> x, w = eq.input("x", (1, 8, 5, 5), "float32"), eq.input("w", (8, 4, 2, 2), "float32")
    >>> conv_transpose(x, w, strides=2).shape
    (1, 4, 10, 10)
    """
    what = f"conv_transpose of {format_shape(x.shape)} by {format_shape(w.shape)}"
    if x.rank != w.rank or x.rank < 3:
        raise ShapeError(what, "both need a batch, a channel and at least one further axis")
    count, own, inputs = x.rank - 2, w.shape[1], t.int_value(t.as_index(w.shape[0]))
    if groups < 1 or t.as_index(x.shape[1]) is not t.as_index(w.shape[0]):
        raise ShapeError(what, f"{x.shape[1]} channels in {groups} groups, weights for {w.shape[0]}")
    if groups != 1 and (inputs is None or inputs % groups):
        raise ShapeError(what, f"{w.shape[0]} channels do not divide into {groups} groups")
    befores, afters = _paddings(what, padding, count)
    parts = [
        Transposed(d, k, s, a, p, q, m)
        for d, k, s, a, p, q, m in zip(
            x.shape[2:], w.shape[2:], _numbers(what, "strides", strides, count, 1),
            _numbers(what, "dilation", dilation, count, 1), befores, afters,
            _numbers(what, "output padding", output_padding, count, 0), strict=True,
        )
    ]  # fmt: skip
    channels: Shape = (x.shape[0], as_dim(t.as_index(own) * groups))
    shape: Shape = (*channels, *(p.stride for p in parts), *(p.steps for p in parts))
    reduced: Shape = (w.shape[0] if inputs is None else inputs // groups, *(p.products for p in parts))
    n, o, *rest = output_axes(shape)
    c, *inner = reduce_axes(reduced)
    source, channel = (c, o) if groups == 1 else (o // own * reduced[0] + c, o % own)
    rows = list(zip(parts, rest[:count], rest[count:], inner, strict=True))
    missing = [p.missing() for p in parts]
    x = pad(x, [(0, 0), (0, 0), *missing])
    cells = [p.cell(r, q, j) + low for (p, r, q, j), (low, _) in zip(rows, missing, strict=True)]
    taps = [p.tap(r, j) for p, r, _, j in rows]
    checks = [check for p, r, _, j in rows for check in p.inside(r, j)]
    value = x[(n, source, *cells)] * w[(source, channel, *taps)]
    body = t.where(t.logical_and(*checks), value, 0) if checks else value
    phases = Tensor(from_body(body, shape, reduced, "sum", Tag("conv_transpose", (("groups", groups),))))
    result: Shape = (*channels, *(p.outputs for p in parts))
    n, o, *outer = output_axes(result)
    reached = [y + p.before % p.stride for p, y in zip(parts, outer, strict=True)]
    where = [[at % p.stride for p, at in zip(parts, reached, strict=True)]]
    where.append([at // p.stride for p, at in zip(parts, reached, strict=True)])
    return view(phases, result, [n, o, *where[0], *where[1]])


@dataclass(frozen=True, eq=False)
class Transposed:
    """One axis of a transposed convolution: output y is phase (y + before) % stride of step (y + before) // stride.

    Cell i reaches output i * stride + tap * dilation - before.
    """

    extent: Dim
    taps: Dim
    stride: int
    dilation: int
    before: int
    after: int
    more: int

    @property
    def common(self) -> int:
        """Phases that are no multiple of this are reached by nothing."""
        return gcd(self.stride, self.dilation)

    @property
    def outputs(self) -> Dim:
        reach = (t.as_index(self.extent) - 1) * self.stride + (t.as_index(self.taps) - 1) * self.dilation + 1
        return as_dim(reach + (self.more - self.before - self.after))

    @property
    def steps(self) -> Dim:
        """How many steps the outputs span."""
        return as_dim((t.as_index(self.outputs) - 1 + self.before % self.stride) // self.stride + 1)

    @property
    def products(self) -> Dim:
        """How many taps meet a phase."""
        return as_dim(-(-t.as_index(self.taps) // (self.stride // self.common)))

    def first(self, phase: Term) -> Term:
        """The first tap that meets a phase: dilation * tap = phase modulo stride, which has one solution."""
        s, a = self.stride // self.common, self.dilation // self.common
        return phase // self.common * pow(a, -1, s) % s if s > 1 else t.index_const(0)

    def tap(self, phase: Term, number: Term) -> Term:
        """The tap of a product."""
        return number * (self.stride // self.common) + self.first(phase)

    def cell(self, phase: Term, step: Term, number: Term) -> Term:
        """The cell of a product."""
        a = self.dilation // self.common
        return step + self.before // self.stride - number * a - self.behind(phase)

    def behind(self, phase: Term) -> Term:
        """How many cells before the step the first tap of a phase reads."""
        s, a = self.stride // self.common, self.dilation // self.common
        return -((phase // self.common - self.first(phase) * a) // s) if a > 1 else t.index_const(0)

    def missing(self) -> tuple[int, int]:
        """How many cells before and after the axis are read, which count as 0."""
        a, start = self.dilation // self.common, self.before // self.stride
        most = max(int(t.const_value(self.behind(t.index_const(r)))) for r in range(self.stride))
        low = t.int_value(most + (t.as_index(self.products) - 1) * a - start)
        high = t.int_value(t.as_index(self.steps) + start - t.as_index(self.extent))
        if low is None or high is None:
            raise ShapeError("conv_transpose", f"the padding of extent {self.extent} is not a number")
        return max(0, low), max(0, high)

    def inside(self, phase: Term, number: Term) -> list[Term]:
        """The conditions under which a product exists, each about one axis where it can be."""
        s = self.stride // self.common
        checks: list[Term] = []
        if self.common > 1:
            checks.append(t.compare("eq", phase % self.common, 0))
        if not isinstance(self.taps, int):
            checks.append(t.compare("lt", self.tap(phase, number), t.as_index(self.taps)))
        elif self.taps % s:
            whole = t.compare("lt", number, self.taps // s)
            checks.append(t.logical_or(whole, t.compare("lt", self.first(phase), self.taps % s)))
        return checks


def _products(
    x: Tensor,
    w: Tensor,
    windows: Sequence[Window],
    channels: Callable[[Term, Term], Term],
    index: Sequence[Term],
    reduced: Shape,
    data: Place,
    kernel: Place,
) -> Term:
    """What is summed for output (n, o, *position) = index, over the input channels of a group and the taps."""
    n, o, *outer = index
    k, *taps = reduce_axes(reduced)
    cells = [v.position(i, a) for v, i, a in zip(windows, outer, taps, strict=True)]
    checks = [c for v, cell in zip(windows, cells, strict=True) for c in v.inside(cell)]
    value = x[tuple(data((n, channels(o, k), *cells)))] * w[tuple(kernel((o, k, *taps)))]
    return t.where(t.logical_and(*checks), value, 0) if checks else value


def _channels(c: Dim, o: Dim, i: Dim, groups: int, what: str) -> Callable[[Term, Term], Term]:
    """The input channel of an output channel and a channel of its group."""
    if groups < 1:
        raise ShapeError(what, f"{groups} groups")
    if t.as_index(i) * groups is not t.as_index(c):
        raise ShapeError(what, f"{c} channels in {groups} groups do not fit {i} input channels of the kernel")
    outputs, inputs = t.int_value(t.as_index(o)), t.int_value(t.as_index(i))
    if groups == 1:
        return lambda _, k: k
    if outputs is None or inputs is None or outputs % groups:
        raise ShapeError(what, f"{o} output channels do not divide into {groups} groups")
    return lambda position, k: position // (outputs // groups) * inputs + k


def _numbers(what: str, name: str, value: int | Sequence[int], count: int, least: int) -> tuple[int, ...]:
    result = (value,) * count if isinstance(value, int) else tuple(int(v) for v in value)
    if len(result) != count:
        raise ShapeError(what, f"{name} {value} needs {count} numbers")
    if any(v < least for v in result):
        raise ShapeError(what, f"{name} {value} is below {least}")
    return result


def _paddings(what: str, padding: int | Sequence[int], count: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each axis."""
    single = isinstance(padding, int) or len(padding) == count
    pads = _numbers(what, "padding", padding, count if single else 2 * count, 0)
    return (pads, pads) if single else (pads[:count], pads[count:])


def _windows(
    what: str,
    extents: Sequence[Dim],
    taps: Sequence[Dim],
    strides: int | Sequence[int],
    padding: int | Sequence[int],
    dilation: int | Sequence[int],
) -> list[Window]:
    count = len(extents)
    steps = _numbers(what, "strides", strides, count, 1)
    apart = _numbers(what, "dilation", dilation, count, 1)
    befores, afters = _paddings(what, padding, count)
    rows = zip(extents, taps, steps, apart, befores, afters, strict=True)
    return [window(d, k, s, a, p, q, what=what) for d, k, s, a, p, q in rows]
