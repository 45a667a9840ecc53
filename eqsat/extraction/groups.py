"""Labels as dimensions: which labels of a form make up each dimension of its operands and output."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations_with_replacement
from itertools import product as flags

from eqsat.ir.flat.align import common_refinement
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import Size, product
from eqsat.ir.tensors.tensor import Constant, Tensor
from eqsat.ir.terms.shape import Shape
from eqsat.operators.interned import Form
from eqsat.operators.labels import Label

Group = tuple[int, ...]


class Groups:
    """For the output and every operand, the labels that make up each dimension; () is a dimension of extent 1."""

    def __init__(self, labels: Sequence[Label], output: Sequence[Group], operands: Sequence[Sequence[Group]]) -> None:
        self.labels = list(labels)
        self.output = list(output)
        self.operands = [list(o) for o in operands]

    def shape(self, dims: Sequence[Group]) -> Shape:
        """The extents of dimensions."""
        return tuple(as_extent(product(self.labels[i].extent for i in g)) for g in dims)


def split_labels(
    labels: Sequence[Label], order: Sequence[int], shape: Shape
) -> tuple[list[Label], list[list[int]], dict[int, list[int]]] | None:
    """Labels cut where a shape needs it: all labels, those of each dimension, and the pieces of each label."""
    cut = common_refinement([labels[i].extent for i in order], [as_size(d) for d in shape])
    if cut is None:
        return None
    found = list(labels)
    pieces: dict[int, list[int]] = {}
    dims: list[list[int]] = [[] for _ in shape]
    count: dict[int, list[Size]] = {}
    for part, _, extent in cut:
        count.setdefault(order[part], []).append(extent)
    for part, dim, extent in cut:
        i = order[part]
        if len(count[i]) == 1:
            number = i
        else:
            if found[i].name:
                return None
            number = len(found)
            found.append(replace(found[i], extent=extent))
        pieces.setdefault(i, []).append(number)
        dims[dim].append(number)
    return found, dims, pieces


@dataclass(frozen=True)
class Product:
    """The axes of a matrix product: those before the rows (an operand may lack some of them), the rows of the left
    operand, the columns of the right one, and the summed ones.

    left: the operand whose rows are the result's; transposed: for left and right, whether the last two are exchanged;
    lifted: whether the first of them stands before the batch.
    """

    batch: Group
    rows: Group
    columns: Group
    inner: Group
    left: int
    transposed: tuple[bool, bool]
    lifted: tuple[bool, bool]


def product_of(form: Form) -> Product | None:
    """A form as a matrix product: (batch, rows, columns) of (batch, rows, inner) and (batch, inner, columns), either
    operand possibly with its last two exchanged; None where it is spelled otherwise."""
    if len(form.operands) != 2 or len(form.outputs) != 1 or any(x.name for x in form.labels):
        return None
    return _product(form.operands, form.outputs[0])


@lru_cache(maxsize=4096)
def _product(operands: tuple[Group, ...], output: Group) -> Product | None:
    sets = [set(o) for o in operands]
    inner = tuple(i for i in operands[0] if i not in output)
    found: list[Product] = []
    for left in (0, 1):
        for start, at in combinations_with_replacement(range(len(output) + 1), 2):
            batch, rows, columns = output[:start], output[start:at], output[at:]
            alone = sets[left].isdisjoint(columns) and sets[1 - left].isdisjoint(rows)
            own = [not s.isdisjoint(i for i in output if i not in t) for s, t in (sets, sets[::-1])]
            if [bool(rows), bool(columns)] != [own[left], own[1 - left]]:
                continue  # with all axes of an operand in the batch, a product is one of vectors
            ends = {left: (rows, inner), 1 - left: (inner, columns)}
            spelled = [_spelled(operands[k], batch, ends[k]) for k in (left, 1 - left)]
            if alone and inner and spelled[0] and spelled[1]:
                (first, lifted), (second, raised) = spelled[0], spelled[1]
                found.append(Product(batch, rows, columns, inner, left, (first, second), (lifted, raised)))
    return min(found, key=lambda p: (sum(p.transposed) + sum(p.lifted), len(p.batch)), default=None)


def _spelled(order: Group, batch: Group, ends: tuple[Group, Group]) -> tuple[bool, bool] | None:
    """Whether an operand is transposed and whether it is lifted; None where it is neither of these orders."""
    whole, batch = batch, tuple(i for i in batch if i in order)
    for lifted, transposed in flags((False, True), repeat=2):
        first, last = ends[::-1] if transposed else ends
        if order == ((*first, *batch, *last) if lifted else (*batch, *first, *last)):
            return None if batch != whole and (transposed or lifted) else (transposed, lifted)
    return None


def product_groups(form: Form, found: Product, shape: Shape, operands: Sequence[Tensor]) -> Groups | None:
    """A product with a result of this shape, in exactly the dimensions that an operator for products has: batch axes,
    rows, columns; rows may be several dimensions where there is no batch and the left operand is not transposed.

    An operand has leading dimensions of extent 1 where it has them already, or is not known yet.
    """
    cut = split_labels(form.labels, form.outputs[0], shape)
    if cut is None or len(shape) < 2:
        return None
    labels, dims, pieces = cut
    kinds = {n: k for k in ("batch", "rows", "columns") for i in getattr(found, k) for n in pieces[i]}
    several = not found.batch and not any(found.transposed)
    expected = ["rows" if several else "batch"] * (len(dims) - 2) + ["rows", "columns"]
    if any(kinds[n] != k for k, dim in zip(expected, dims, strict=True) for n in dim):
        return None
    if not found.batch and any(found.transposed) and len(dims) > 2:
        return None
    output = [tuple(d) for d in dims]
    front, rows, columns, inner = output[:-2], output[-2], output[-1], found.inner
    ends = [
        (inner, rows) if found.transposed[0] else (rows, inner),
        (columns, inner) if found.transposed[1] else (inner, columns),
    ]
    both: list[list[Group]] = []
    for side, k in enumerate((found.left, 1 - found.left)):
        own = {n for i in form.operands[k] for n in pieces.get(i, ())}
        if any(not own.isdisjoint(g) and not own.issuperset(g) for g in front):
            return None
        dims_of = _laid([g if own.issuperset(g) else () for g in front], ends[side], found.lifted[side])
        both.append(_without_units(dims_of, front, operands, k, side == 1))
    return Groups(labels, output, both if found.left == 0 else both[::-1])


def _without_units(
    dims: list[Group], front: Sequence[Group], operands: Sequence[Tensor], k: int, right: bool
) -> list[Group]:
    """The dimensions of an operand, without those of extent 1 in front that it need not have."""
    if any(dims[:-2]) and any(front):
        while not dims[0] and operands and operands[k].rank < len(dims):
            dims = dims[1:]
        return dims
    rank = operands[k].rank if operands else None
    if any(front):
        return dims[-2:]
    if right:  # a constant in any shape is there: a matrix is what a runtime can prepare
        kept = rank is None or (rank == len(dims) and not isinstance(operands[k].node, Constant))
    else:
        kept = rank != 2 or not operands
    return dims if kept else dims[-2:]


def _laid(front: Sequence[Group], ends: tuple[Group, Group], lifted: bool) -> list[Group]:
    return [ends[0], *front, ends[1]] if lifted else [*front, *ends]


def product_shapes(form: Form, found: Product, operands: Sequence[Tensor]) -> Iterator[Shape]:
    """Shapes for the result of a product: the leading dimensions of an operand, or one for each batch axis."""

    def extent(group: Sequence[int]) -> Size:
        return product(form.labels[i].extent for i in group)

    rows, columns = as_extent(extent(found.rows)), as_extent(extent(found.columns))
    for n in (found.left, 1 - found.left) if operands else ():
        lifted = found.lifted[n != found.left]
        yield (*(operands[n].shape[1:-1] if lifted else operands[n].shape[:-2]), rows, columns)
        if n == found.left and not found.transposed[0] and not lifted:
            yield (*operands[n].shape[:-1], columns)
    yield (*(as_extent(form.labels[i].extent) for i in found.batch), rows, columns)
