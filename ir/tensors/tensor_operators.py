"""Python's operators on tensors, in numpy's types, and what Python and numpy ask of an array."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import EllipsisType, ModuleType
from typing import TYPE_CHECKING, Any, NoReturn, cast, overload

from eqsat.ir.dtypes import NDArray
from eqsat.ir.terms.node import Lifted, Term

if TYPE_CHECKING:
    from eqsat.ir.tensors.tensor import Tensor


def _apply(name: str, *operands: Any) -> Tensor:
    from eqsat.ir.tensors.arrays import ufuncs

    return ufuncs.apply(name, *operands)


class TensorOperators(Lifted):
    """Arithmetic, comparisons, indices and numpy's protocols; each operator builds one node."""

    __slots__ = ()

    def _tensor(self) -> Tensor:
        return cast("Tensor", self)

    # Integers alone are a load or a tensor, by the rank; a term among them makes a load.
    @overload
    def __getitem__(self, index: tuple[int, ...]) -> Any: ...
    @overload
    def __getitem__(self, index: Term | tuple[Term | int, ...]) -> Term: ...
    @overload
    def __getitem__(self, index: slice | EllipsisType | Sequence[int] | NDArray | None) -> Tensor: ...
    @overload
    def __getitem__(self, index: Any) -> Any: ...
    def __getitem__(self, index: Any) -> Any:
        from eqsat.ir.tensors.arrays import indexing

        return indexing.index(self._tensor(), index)

    if not TYPE_CHECKING:  # a checker knows what is there

        def __getattr__(self, name: str) -> NoReturn:
            from eqsat.ir.tensors.arrays import protocols

            raise protocols.missing(name)

    def __iter__(self) -> Iterator[Any]:
        x = self._tensor()
        return iter([x[(k, *(slice(None),) * (x.rank - 1))] for k in range(len(x))])

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        from eqsat.ir.tensors.arrays import namespace

        return namespace

    def __array_function__(
        self, func: Any, types: Sequence[type], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        from eqsat.ir.tensors.arrays import protocols

        return protocols.array_function(func, args, kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from eqsat.ir.tensors.arrays import protocols

        return protocols.array_ufunc(ufunc, method, inputs, kwargs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        from eqsat.ir.tensors.arrays import protocols

        return protocols.refuse_array(self._tensor())

    def __add__(self, other: Any) -> Tensor:
        return _apply("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _apply("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _apply("subtract", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _apply("divide", other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return _apply("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return _apply("floor_divide", other, self)

    def __mod__(self, other: Any) -> Tensor:
        return _apply("remainder", self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return _apply("remainder", other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return _apply("floor_divide", self, other), _apply("remainder", self, other)

    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return _apply("floor_divide", other, self), _apply("remainder", other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _apply("power", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return _apply("power", other, self)

    def __and__(self, other: Any) -> Tensor:
        return _apply("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _apply("bitwise_and", other, self)

    def __or__(self, other: Any) -> Tensor:
        return _apply("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _apply("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Tensor:
        return _apply("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Tensor:
        return _apply("bitwise_xor", other, self)

    def __lshift__(self, other: Any) -> Tensor:
        return _apply("left_shift", self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return _apply("left_shift", other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return _apply("right_shift", self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return _apply("right_shift", other, self)

    def __lt__(self, other: Any) -> Tensor:
        return _apply("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _apply("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _apply("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _apply("greater_equal", self, other)

    def __matmul__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors.arrays import products

        return products.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        from eqsat.ir.tensors.arrays import products

        return products.matmul(other, self)

    def __neg__(self) -> Tensor:
        return _apply("negative", self)

    def __pos__(self) -> Tensor:
        return _apply("positive", self)

    def __abs__(self) -> Tensor:
        return _apply("absolute", self)

    def __invert__(self) -> Tensor:
        return _apply("invert", self)
