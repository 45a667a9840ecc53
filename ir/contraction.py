"""Convolution as a formula: the window offsets are index arithmetic, the padding is a predicate of the body."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ir import term as t
from eqsat.ir.errors import LayoutError, ShapeError, TypeMismatch
from eqsat.ir.shape import Dim, Shape, as_dim, format_shape
from eqsat.ir.tensor import Compute, Tag, Tensor, from_body, output_axes, reduce_axes
from eqsat.ir.term import Term


def _pair(value: int | Sequence[int], count: int, what: str, least: int) -> tuple[int, ...]:
    result = (value,) * count if isinstance(value, int) else tuple(int(v) for v in value)
    if len(result) != count:
        raise ShapeError("conv2d", f"{what} {value} needs {count} numbers")
    if any(v < least for v in result):
        raise ShapeError("conv2d", f"{what} {value} is below {least}")
    return result


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
    from eqsat.ir.layout import Layout

    out_name = out_layout or data_layout
    if x.dtype != w.dtype:
        raise TypeMismatch("conv2d", f"data is {x.dtype}, weights are {w.dtype}")
    data, kernel, out = Layout("NCHW").to(data_layout), Layout("OIHW").to(kernel_layout), Layout("NCHW").to(out_name)
    if groups < 1:
        raise ShapeError("conv2d", f"{groups} groups")
    n, c, h, width = data.backward_shape(x.shape)
    o, i, kh, kw = kernel.backward_shape(w.shape)
    if t.as_index(i) * groups is not t.as_index(c):
        raise ShapeError(
            f"conv2d of {format_shape(x.shape)} {data_layout} by {format_shape(w.shape)} {kernel_layout}",
            f"{c} channels in {groups} groups do not fit {i} input channels of the kernel",
        )
    outputs, inputs = t.int_value(t.as_index(o)), t.int_value(t.as_index(i))
    if groups != 1 and (outputs is None or inputs is None or outputs % groups):
        raise ShapeError("conv2d", f"{o} output channels do not divide into {groups} groups")
    (sh, sw), (dh, dw) = _pair(strides, 2, "strides", 1), _pair(dilation, 2, "dilation", 1)
    pads = _pair(padding, 2 if isinstance(padding, int) or len(padding) == 2 else 4, "padding", 0)
    top, left, bottom, right = pads if len(pads) == 4 else (*pads, *pads)
    oh, ow = _window(h, kh, sh, dh, top + bottom), _window(width, kw, sw, dw, left + right)
    shape: Shape = tuple(as_dim(d) for d in out.forward_shape((n, o, oh, ow)))
    reduced: Shape = (i, kh, kw)
    k, a, b = reduce_axes(reduced)
    bn, bo, y, z = out.backward_index(output_axes(shape))
    if groups == 1:
        channel = k
    else:
        assert outputs is not None and inputs is not None
        channel = bo // (outputs // groups) * inputs + k
    row, column = y * sh + a * dh - top, z * sw + b * dw - left
    value = x[data.forward_index((bn, channel, row, column))] * w[kernel.forward_index((bo, k, a, b))]
    checks: list[Term] = []
    if top or bottom:
        checks += [t.compare("le", 0, row), t.compare("lt", row, t.as_index(h))]
    if left or right:
        checks += [t.compare("le", 0, column), t.compare("lt", column, t.as_index(width))]
    body = t.where(t.logical_and(*checks), value, 0) if checks else value
    attrs = (
        ("strides", (sh, sw)), ("padding", (top, left, bottom, right)), ("dilation", (dh, dw)), ("groups", groups),
        ("data_layout", data_layout), ("kernel_layout", kernel_layout), ("out_layout", out_name),
    )  # fmt: skip
    return Tensor(_checked(from_body(body, shape, reduced, "sum", Tag("conv2d", attrs))))


def _checked(node: Compute) -> Compute:
    if len(node.operands) != 2:
        raise LayoutError("conv2d", "data and weights are one tensor")
    return node


def _window(extent: Dim, kernel: Dim, stride: int, dilation: int, pads: int) -> Dim:
    """The number of window positions along an axis."""
    reach = (t.as_index(kernel) - 1) * dilation
    result = as_dim((t.as_index(extent) + pads - reach - 1) // stride + 1)
    if isinstance(result, int) and result < 1:
        raise ShapeError("conv2d", f"a kernel of {kernel} does not fit {extent} + {pads}")
    return result
