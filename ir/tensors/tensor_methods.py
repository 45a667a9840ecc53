"""The methods of a tensor: thin names over the functions of views, pointwise, reductions and `arrays`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eqsat.ir.keywords import keyword_methods
from eqsat.ir.tensors.tensor_operators import TensorOperators

if TYPE_CHECKING:
    from eqsat.ir.layouts.padding import Padding
    from eqsat.ir.tensors.tensor import Tensor
    from eqsat.ir.terms.shape import Dim
    from eqsat.ir.terms.term import TermLike

Axis = int | Sequence[int] | None


def _named(name: str, *arguments: Any, **options: Any) -> Any:
    """The function of that name of `arrays/namespace.py`."""
    from eqsat.ir.tensors.arrays import namespace

    return getattr(namespace, name)(*arguments, **options)


def _shape(given: tuple[Any, ...]) -> Any:
    """What was given as numbers, or as one tuple or list of them."""
    return given[0] if len(given) == 1 and not isinstance(given[0], int) else given


@keyword_methods
class TensorMethods(TensorOperators):
    """Layout, element-wise and reducing methods; each builds one node."""

    __slots__ = ()

    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
        return _named("transpose", self)

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return _named("matrix_transpose", self)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._tensor().shape)

    @property
    def size(self) -> Dim:
        """The number of elements."""
        return _named("size", self)

    @property
    def itemsize(self) -> int:
        """The bytes of one element."""
        from eqsat.ir.dtypes import itemsize

        return itemsize(self._tensor().dtype)

    @property
    def nbytes(self) -> Dim:
        """The bytes of all elements."""
        return self.size * self.itemsize

    @property
    def device(self) -> str:
        """Where the array API says that a tensor lives."""
        return "cpu"

    def transpose(self, *axes: Any) -> Tensor:
        """The axes in another order, given as numbers or a tuple; reversed without any."""
        return _named("transpose", self, _shape(axes) or None)

    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """Two axes exchanged."""
        return _named("swapaxes", self, axis1, axis2)

    def ravel(self, order: Any = "C") -> Tensor:
        """All elements along one axis."""
        return _named("ravel", self, order)

    def flatten(self, order: Any = "C") -> Tensor:
        """All elements along one axis."""
        return _named("ravel", self, order)

    def repeat(self, repeats: Any, axis: int | None = None) -> Tensor:
        """Each element repeated in its place."""
        return _named("repeat", self, repeats, axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The cells of a diagonal along a new last axis."""
        return _named("diagonal", self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
        """The sum of a diagonal."""
        return _named("trace", self, offset, axis1, axis2, dtype)

    def dot(self, b: Any) -> Tensor:
        """The sum of products over the last axis and the last but one of b."""
        return _named("dot", self, b)

    def astype(self, dtype: Any, *, copy: bool = True) -> Tensor:
        """The elements converted; float to integer truncates and saturates."""
        return _named("astype", self, dtype)

    def rearrange(self, pattern: str, **sizes: int) -> Tensor:
        """Axes split, reordered and merged by an einops pattern, as "b c (h p) -> b (h c) p"."""
        return _named("rearrange", self, pattern, **sizes)

    def reshape(self, *shape: Any, order: Any = "C", copy: bool | None = None) -> Tensor:
        """The same elements under another shape, given as numbers or a tuple; one extent may be -1."""
        return _named("reshape", self, _shape(shape), order)

    def permute_dims(self, axes: int | Sequence[int], *more: int) -> Tensor:
        """Axis k of the result is axis axes[k], as numpy.transpose: a sequence of axes, or one after the other."""
        from eqsat.ir.tensors import views

        return views.permute_dims(self._tensor(), (axes, *more) if isinstance(axes, int) else axes)

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

    def slice(self, starts: Sequence[TermLike], sizes: Sequence[Any], steps: Sequence[int] | None = None) -> Tensor:
        """sizes[n] elements of each axis from starts[n], every steps[n]-th."""
        from eqsat.ir.tensors import views

        return views.slice_(self._tensor(), starts, sizes, steps)

    def crop(self, start_indices: Sequence[TermLike], slice_sizes: Sequence[Any], cropped_value: Any = None) -> Tensor:
        """The box of slice_sizes cells from start_indices; cropped_value is a recorded assumption about the rest."""
        from eqsat.ir.tensors import views

        return views.crop(self._tensor(), start_indices, slice_sizes, cropped_value)

    @property
    def padding(self) -> Padding | None:
        """Which cells the Views that made this tensor padded, and with what; None without padding."""
        from eqsat.ir.tensors.padding import padding_of

        return padding_of(self._tensor())

    def relu(self) -> Tensor:
        """max(x, 0) of every element."""
        from eqsat.ir.tensors import pointwise

        return pointwise.relu(self._tensor())

    def layout_transform(self, map_or_src: Any, dst: Any = None, pad_value: Any = None, **sizes: int) -> Tensor:
        """Move the elements to the physical layout of an index map or an einops pattern, or from layout string `src`
        to `dst`."""
        from eqsat.ir.tensors import layout_transform

        return layout_transform.layout_transform(self._tensor(), map_or_src, dst, pad_value, **sizes)

    def roll(self, shift: int | Sequence[int], axis: Axis = None) -> Tensor:
        """Elements shifted along axes, wrapping around; without an axis all as one row."""
        return _named("roll", self, shift, axis)

    def tile(self, reps: int | Sequence[int]) -> Tensor:
        """The tensor repeated as a whole along each axis."""
        return _named("tile", self, reps)

    def take(self, indices: Any, axis: int | None = None) -> Tensor:
        """The elements at positions of an axis, as numpy.take."""
        return _named("take", self, indices, axis)

    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """The nearest values in [min, max]."""
        return _named("clip", self, min, max)

    def cast(self, dtype: Any) -> Tensor:
        """Convert the elements; float to integer truncates and saturates."""
        from eqsat.ir.tensors import pointwise

        return pointwise.cast(self._tensor(), dtype)

    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x)) of every element."""
        from eqsat.ir.tensors import functions

        return functions.sigmoid(self._tensor())

    def erf(self) -> Tensor:
        """erf of every element."""
        from eqsat.ir.tensors import functions

        return functions.erf(self._tensor())

    def exp(self) -> Tensor:
        """exp of every element."""
        return _named("exp", self)

    def log(self) -> Tensor:
        """log of every element."""
        return _named("log", self)

    def sqrt(self) -> Tensor:
        """sqrt of every element."""
        return _named("sqrt", self)

    def tanh(self) -> Tensor:
        """tanh of every element."""
        return _named("tanh", self)

    def sin(self) -> Tensor:
        """sin of every element."""
        return _named("sin", self)

    def cos(self) -> Tensor:
        """cos of every element."""
        return _named("cos", self)

    def floor(self) -> Tensor:
        """floor of every element."""
        return _named("floor", self)

    def ceil(self) -> Tensor:
        """ceil of every element."""
        return _named("ceil", self)

    def abs(self) -> Tensor:
        """abs of every element."""
        return _named("abs", self)

    def round(self, decimals: int = 0) -> Tensor:
        """The nearest numbers with so many decimals, the even one of two."""
        return _named("round", self, decimals)

    def sum(
        self, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, initial: Any = None, where: Any = None
    ) -> Tensor:
        """The sum along axes (None: all); whole numbers and bools in int64 or uint64."""
        return _named("sum", self, axis, dtype, None, keepdims, initial, where)

    def prod(
        self, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, initial: Any = None, where: Any = None
    ) -> Tensor:
        """The product along axes (None: all); whole numbers and bools in int64 or uint64."""
        return _named("prod", self, axis, dtype, None, keepdims, initial, where)

    def max(self, axis: Axis = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Tensor:
        """The greatest element along axes (None: all)."""
        return _named("max", self, axis, None, keepdims, initial, where)

    def min(self, axis: Axis = None, keepdims: bool = False, *, initial: Any = None, where: Any = None) -> Tensor:
        """The smallest element along axes (None: all)."""
        return _named("min", self, axis, None, keepdims, initial, where)

    def any(self, axis: Axis = None, keepdims: bool = False, *, where: Any = None) -> Tensor:
        """Whether an element along axes (None: all) is not 0."""
        return _named("any", self, axis, None, keepdims, where=where)

    def all(self, axis: Axis = None, keepdims: bool = False, *, where: Any = None) -> Tensor:
        """Whether no element along axes (None: all) is 0."""
        return _named("all", self, axis, None, keepdims, where=where)

    def mean(self, axis: Axis = None, keepdims: bool = False, *, dtype: Any = None, where: Any = None) -> Tensor:
        """The average along axes (None: all); divides by the logical extent."""
        return _named("mean", self, axis, dtype, None, keepdims, where=where)

    def var(
        self,
        axis: Axis = None,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        mean: Any = None,
        correction: float | None = None,
    ) -> Tensor:
        """The variance along axes (None: all)."""
        options: dict[str, Any] = {"where": where, "mean": mean, "correction": correction}
        return _named("var", self, axis, dtype, None, ddof, keepdims, **options)

    def std(
        self,
        axis: Axis = None,
        dtype: Any = None,
        ddof: float = 0,
        keepdims: bool = False,
        *,
        where: Any = None,
        mean: Any = None,
        correction: float | None = None,
    ) -> Tensor:
        """The square root of the variance along axes (None: all)."""
        options: dict[str, Any] = {"where": where, "mean": mean, "correction": correction}
        return _named("std", self, axis, dtype, None, ddof, keepdims, **options)

    def argmax(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """The first position of the greatest element along an axis (None: in a row of all)."""
        return _named("argmax", self, axis, keepdims=keepdims)

    def argmin(self, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """The first position of the smallest element along an axis (None: in a row of all)."""
        return _named("argmin", self, axis, keepdims=keepdims)

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Tensor:
        """The sums up to each element along an axis."""
        return _named("cumsum", self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None) -> Tensor:
        """The products up to each element along an axis."""
        return _named("cumprod", self, axis, dtype)

    def softmax(self, axis: int) -> Tensor:
        """exp(x - max) / sum along an axis."""
        from eqsat.ir.tensors import reductions

        return reductions.softmax(self._tensor(), axis)
