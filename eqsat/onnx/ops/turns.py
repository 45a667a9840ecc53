"""Other orders of what operators of ONNX read and make: axes of images, with the numbers that an operator has for each
of them, and matrices whose rows and columns a parameter exchanges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from typing import Any, Protocol

from eqsat.ir.tensors.tensor import input
from eqsat.ir.terms.shape import Shape, same_dim, same_shape
from eqsat.onnx.call import Call, Declined, items_of
from eqsat.operators.window_impl import Turn

RESULT = -1
"""The place of the result among input slots."""
ALONE = ("kernel_shape", "strides", "dilations", "output_padding", "output_shape", "scales", "sizes")
"""Parameters with a number for each axis; `pads` has all that stand before, and then all that stand behind."""
MOST = 3
"""More axes than that keep their order."""
BROADCASTS = 7
"""The opset from which on a column is added to all columns of a matrix."""


class Turning(Protocol):
    """The other orders of an operator."""

    def places(self, call: Call) -> Mapping[int, tuple[int, ...]]:
        """The axes of windows of each slot, and of the result; none where the call has no two."""
        ...

    def turns(self, call: Call) -> tuple[Turn, ...]:
        """The other orders of a call, by the numbers of its operands."""
        ...

    def turned(self, call: Call, turn: Turn) -> Call:
        """The call over stand-ins for its operands, in another order; Declined where it has none."""
        ...


@dataclass(frozen=True)
class Windows:
    """The axes of windows, in the operands of some slots and in the result: those behind the first two; or `named`, by
    the parameter `axes`. Each has its own parameters, by place, and is computed by itself, whatever the others are."""

    slots: tuple[int, ...] = (0,)
    named: bool = False

    def places(self, call: Call) -> Mapping[int, tuple[int, ...]]:
        """The axes of each slot, and of the result, that may change places; none where the call has no two."""
        rank = call.tensors[0].rank
        axes = tuple(range(2, rank))
        if self.named:
            axes = tuple(n for n in items_of(call.get("axes", ())) if isinstance(n, int) and 0 <= n < rank)
        operands = [x for n, x in enumerate(call.operands) if n in self.slots and x is not None]
        types = [kept for kept in call.types if kept is not None]
        if len(axes) < 2 or len(operands) != len(self.slots) or len(types) != 1:
            return {}
        if self.named and (len(call.tensors) > 1 or axes != tuple(items_of(call.get("axes", ())))):
            return {}
        if any(len(shape) != rank for shape in (types[0][0], *(x.shape for x in operands))):
            return {}
        return dict.fromkeys((*self.slots, RESULT), axes)

    def turns(self, call: Call) -> tuple[Turn, ...]:
        places = self.places(call)
        axes = places.get(RESULT, ())
        if not 1 < len(axes) <= MOST:
            return ()
        ranks = {slot: x.rank for slot, x in zip(call.slots, call.tensors, strict=True)}
        ranks[RESULT] = ranks[self.slots[0]]
        own = tuple(range(len(call.tensors)))

        def moved(slot: int, order: Sequence[int]) -> tuple[int, ...]:
            return _moved(ranks[slot], axes, order) if slot in places else _whole(ranks[slot])

        orders = (p for p in permutations(range(len(axes))) if p != tuple(range(len(axes))))
        return tuple(Turn(own, tuple(moved(slot, p) for slot in (*call.slots, RESULT))) for p in orders)

    def turned(self, call: Call, turn: Turn) -> Call:
        axes = self.places(call)[RESULT]
        order = [axes.index(n) for n in turn.dims[-1] if n in axes]
        made = stand_ins(call, turn)
        return replace(
            made, attrs={name: self._parameter(call.op, name, value, order) for name, value in call.attrs.items()}
        )

    def _parameter(self, op: str, name: str, value: Any, order: Sequence[int]) -> Any:
        if name not in (*ALONE, "pads"):
            return value
        numbers, count = items_of(value), len(order)
        if not numbers:
            return value
        if len(numbers) != (2 * count if name == "pads" else count):
            raise Declined(op, f"{name} has {len(numbers)} numbers for {count} axes")
        rows = (numbers[n : n + count] for n in range(0, len(numbers), count))
        return tuple(row[n] for row in rows for n in order)


@dataclass(frozen=True)
class Matrices:
    """A product of two matrices, or batches of them, in the first two slots, to which something may be added: either
    may lie the other way round, if its flag says so, and the result is that of both exchanged."""

    flags: tuple[str, str] = ("transA", "transB")
    first: tuple[str, ...] = ()
    """For each of the two, the parameter that says whether its rows stand before the batch."""

    def places(self, call: Call) -> Mapping[int, tuple[int, ...]]:
        return {}

    def turns(self, call: Call) -> tuple[Turn, ...]:
        known, own = [kept for kept in call.types if kept is not None], call.tensors
        if call.slots[:2] != (0, 1) or len(known) != 1 or len(own) > 3 or min(x.rank for x in own[:2]) < 2:
            return ()
        rank = len(known[0][0])
        places = [(_whole(x.rank), _swapped(x.rank, self._lifted(call, n))) for n, x in enumerate(own[:2])]
        kept = [_whole(x.rank) for x in own[2:]]
        added = [_of_rows(x.shape) for x in own[2:]]
        found: list[Turn] = []
        for left, right in product(*places):
            found.append(Turn(_whole(len(own)), (left, right, *kept, _whole(rank))))
            if call.opset >= BROADCASTS or not own[2:]:
                found.append(Turn((1, 0, *range(2, len(own))), (right, left, *added, _swapped(rank))))
        return tuple(found[1:])

    def turned(self, call: Call, turn: Turn) -> Call:
        result = turn.operands[:2] == (1, 0)
        attrs = {k: v for k, v in call.attrs.items() if k not in (*self.flags, *self.first)}
        for place, n in enumerate(turn.operands[:2]):
            moved = turn.dims[place] != tuple(range(call.tensors[n].rank))
            if bool(call.get(self.flags[n], 0)) ^ moved ^ result:
                attrs[self.flags[place]] = 1
            if self._lifted(call, n):
                attrs[self.first[place]] = 1
        return replace(stand_ins(call, turn), attrs=attrs)

    def _lifted(self, call: Call, n: int) -> bool:
        return bool(self.first) and bool(call.get(self.first[n], 0))


def _whole(rank: int) -> tuple[int, ...]:
    return tuple(range(rank))


def _swapped(rank: int, lifted: bool = False) -> tuple[int, ...]:
    """The axes of a batch of matrices with rows and columns exchanged."""
    found = list(range(rank))
    first = 0 if lifted else rank - 2
    found[first], found[-1] = found[-1], found[first]
    return tuple(found)


def _of_rows(shape: Shape) -> tuple[int | None, ...]:
    """The axes of what is added to a matrix, as it is added to that with rows and columns exchanged."""
    if len(shape) == 1 and not same_dim(shape[0], 1):
        return 0, None
    return _swapped(len(shape)) if len(shape) == 2 else _whole(len(shape))


def stand_ins(call: Call, turn: Turn) -> Call:
    """A call over stand-ins for its operands in another order."""
    rows = [*(x.shape for x in call.tensors), *(kept[0] for kept in call.types if kept is not None)]
    shapes = turn.moved(rows, 1)
    operands = list(call.operands)
    for slot, n, shape in zip(call.slots, turn.operands, shapes, strict=False):
        x = call.tensors[n]
        operands[slot] = x if same_shape(x.shape, shape) else input(f"turned{n}", shape, x.dtype)
    types = iter(shapes[len(turn.operands) :])
    return replace(call, operands=tuple(operands), types=tuple(kept and (next(types), kept[1]) for kept in call.types))


def _moved(rank: int, axes: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    found = list(range(rank))
    for place, n in zip(axes, order, strict=True):
        found[place] = axes[n]
    return tuple(found)
