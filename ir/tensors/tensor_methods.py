"""The methods of a tensor: thin names over the functions of views, pointwise and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from eqsat.ir.layouts.padding import Padding
    from eqsat.ir.tensors.tensor import Tensor
    from eqsat.ir.terms.term import TermLike


class TensorMethods:
    """Layout, element-wise and reducing methods; each builds one node."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy leaves `array + tensor` to the tensor

    def _tensor(self) -> Tensor:
        return cast("Tensor", self)

    def permute_dims(self, axes: Sequence[int]) -> Tensor:
        """Axis k of the result is axis axes[k], as numpy.transpose."""
        from eqsat.ir.tensors import views

        return views.permute_dims(self._tensor(), axes)

    def reshape(self, shape: Any) -> Tensor:
        """The same elements in row-major order under another shape; one extent may be -1."""
        from eqsat.ir.tensors import views

        return views.reshape(self._tensor(), shape)

    def expand_dims(self, axis: int | Sequence[int]) -> Tensor:
        """Insert axes of extent 1."""
        from eqsat.ir.tensors import views

        return views.expand_dims(self._tensor(), axis)

    def squeeze(self, axis: int | Sequence[int] | None = None) -> Tensor:
        """Drop axes of extent 1."""
        from eqsat.ir.tensors import views

        return views.squeeze(self._tensor(), axis)

    def broadcast_to(self, shape: Any) -> Tensor:
        """Repeat along new leading axes and axes of extent 1."""
        from eqsat.ir.tensors import views

        return views.broadcast_to(self._tensor(), shape)

    def pad(self, pad_width: Any, pad_value: Any = 0, mode: str = "constant") -> Tensor:
        """Add cells before and after each axis, as numpy.pad; pad_value may be eq.UNDEF."""
        from eqsat.ir.tensors import views

        return views.pad(self._tensor(), pad_width, pad_value, mode)

    def flip(self, axes: int | Sequence[int] | None = None) -> Tensor:
        """Reverse the order of elements along axes."""
        from eqsat.ir.tensors import views

        return views.flip(self._tensor(), axes)

    def roll(self, shift: int, axis: int) -> Tensor:
        """Shift elements along an axis, wrapping around."""
        from eqsat.ir.tensors import views

        return views.roll(self._tensor(), shift, axis)

    def tile(self, reps: Sequence[int]) -> Tensor:
        """Repeat the tensor along each axis."""
        from eqsat.ir.tensors import views

        return views.tile(self._tensor(), reps)

    def take(self, indices: Any, axis: int) -> Tensor:
        """Constant positions of an axis, as numpy.take."""
        from eqsat.ir.tensors import views

        return views.take(self._tensor(), indices, axis)

    def slice(self, starts: Sequence[TermLike], sizes: Sequence[Any], steps: Sequence[int] | None = None) -> Tensor:
        """sizes[n] elements of each axis from starts[n], every steps[n]-th."""
        from eqsat.ir.tensors import views

        return views.slice_(self._tensor(), starts, sizes, steps)

    def crop(self, start_indices: Sequence[TermLike], slice_sizes: Sequence[Any], cropped_value: Any = None) -> Tensor:
        """The box of slice_sizes cells from start_indices; cropped_value is a recorded assumption about the rest."""
        from eqsat.ir.tensors import views

        return views.crop(self._tensor(), start_indices, slice_sizes, cropped_value)

    def layout_transform(self, map_or_src: Any, dst: Any = None, pad_value: Any = None) -> Tensor:
        """Move the elements to the physical layout of an index map, or from layout string `src` to `dst`."""
        from eqsat.ir.tensors import layout_transform

        return layout_transform.layout_transform(self._tensor(), map_or_src, dst, pad_value)

    @property
    def padding(self) -> Padding | None:
        """Which cells the Views that made this tensor padded, and with what; None without padding."""
        from eqsat.ir.tensors.padding import padding_of

        return padding_of(self._tensor())

    def relu(self) -> Tensor:
        """max(x, 0) of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.relu(self._tensor())

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x)) of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.sigmoid(self._tensor())

    def exp(self) -> Tensor:
        """exp of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("exp", self._tensor())

    def log(self) -> Tensor:
        """log of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("log", self._tensor())

    def sqrt(self) -> Tensor:
        """sqrt of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("sqrt", self._tensor())

    def tanh(self) -> Tensor:
        """tanh of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("tanh", self._tensor())

    def erf(self) -> Tensor:
        """erf of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("erf", self._tensor())

    def sin(self) -> Tensor:
        """sin of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("sin", self._tensor())

    def cos(self) -> Tensor:
        """cos of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("cos", self._tensor())

    def floor(self) -> Tensor:
        """floor of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("floor", self._tensor())

    def ceil(self) -> Tensor:
        """ceil of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("ceil", self._tensor())

    def round(self) -> Tensor:
        """round of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("round", self._tensor())

    def abs(self) -> Tensor:
        """abs of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.unary("abs", self._tensor())

    def clip(self, low: Any = None, high: Any = None) -> Tensor:
        """Limit values to [low, high]."""
        from eqsat.ir.tensors import pointwise

        return pointwise.clip(self._tensor(), low, high)

    def cast(self, dtype: Any) -> Tensor:
        """Convert the elements; float to integer truncates and saturates."""
        from eqsat.ir.tensors import pointwise

        return pointwise.cast(self._tensor(), dtype)

    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The sum along axes (None: all)."""
        from eqsat.ir.tensors import reductions

        return reductions.reduce(self._tensor(), "sum", axis, keepdims)

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The product along axes (None: all)."""
        from eqsat.ir.tensors import reductions

        return reductions.reduce(self._tensor(), "prod", axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The max along axes (None: all)."""
        from eqsat.ir.tensors import reductions

        return reductions.reduce(self._tensor(), "max", axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The min along axes (None: all)."""
        from eqsat.ir.tensors import reductions

        return reductions.reduce(self._tensor(), "min", axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The mean along axes; divides by the logical extent."""
        from eqsat.ir.tensors import reductions

        return reductions.mean(self._tensor(), axis, keepdims)

    def softmax(self, axis: int) -> Tensor:
        """exp(x - max) / sum along an axis."""
        from eqsat.ir.tensors import reductions

        return reductions.softmax(self._tensor(), axis)

    def __add__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("add", self._tensor(), other)

    def __radd__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("add", other, self._tensor())

    def __sub__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("sub", self._tensor(), other)

    def __rsub__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("sub", other, self._tensor())

    def __mul__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("mul", self._tensor(), other)

    def __rmul__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("mul", other, self._tensor())

    def __truediv__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("div", self._tensor(), other)

    def __rtruediv__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("div", other, self._tensor())

    def __floordiv__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("floordiv", self._tensor(), other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("floordiv", other, self._tensor())

    def __mod__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("mod", self._tensor(), other)

    def __rmod__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("mod", other, self._tensor())

    def __pow__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("pow", self._tensor(), other)

    def __rpow__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("pow", other, self._tensor())

    def __and__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("and", self._tensor(), other)

    def __rand__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("and", other, self._tensor())

    def __or__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("or", self._tensor(), other)

    def __ror__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("or", other, self._tensor())

    def __xor__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("bitxor", self._tensor(), other)

    def __rxor__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("bitxor", other, self._tensor())

    def __lshift__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("shl", self._tensor(), other)

    def __rlshift__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("shl", other, self._tensor())

    def __rshift__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("shr", self._tensor(), other)

    def __rrshift__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("shr", other, self._tensor())

    def __lt__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("lt", self._tensor(), other)

    def __le__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("le", self._tensor(), other)

    def __gt__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("gt", self._tensor(), other)

    def __ge__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.operator("ge", self._tensor(), other)

    def __neg__(self) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.negative(self._tensor())

    def __invert__(self) -> Tensor:
        from eqsat.ir.tensors import pointwise

        return pointwise.invert(self._tensor())
