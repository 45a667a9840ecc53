"""The values of a formula over a box of axes, as ONNX tensors that broadcast against the box.

Every term becomes one tensor whose axes are the last axes of the box, each in full or of extent 1. What depends on the
position alone is a constant; a load is a View of its operand that is aligned with the box, or, where no View says it,
a Gather at computed positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, NDArray
from eqsat.ir.errors import FrontendError
from eqsat.ir.ranges.bounds import Bounds
from eqsat.ir.tensors.tensor import Tensor, View
from eqsat.ir.tensors.views import flatten
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Dim, Shape, as_dim, output_axes, same_dim, static_shape
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, occurs, postorder, substitute
from eqsat.models.package import element_type
from eqsat.onnx.formulas.data_terms import as_data, const_data, reads_data, zero_of
from eqsat.onnx.formulas.lower import PRIMITIVES, lowered
from eqsat.onnx.formulas.run_op import run_op
from eqsat.onnx.size_names import size_scalar
from eqsat.onnx.writer import Writer

TABLE_CELLS = 1 << 20
"""What depends on the position alone is a constant of up to this many cells; else it is computed by the model."""
INT64 = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True)
class Value:
    """A written tensor: its name, and for each of its axes (the last ones of the box) whether it is in full."""

    name: str
    dims: tuple[bool, ...] = ()


class Formula:
    """Terms over the axes of a box, written once each."""

    def __init__(self, w: Writer, operands: Sequence[Tensor], axes: Sequence[Term]) -> None:
        self.w = w
        self.operands = tuple(operands)
        self.axes = tuple(axes)
        self.extents: Shape = tuple(as_dim(a.args[0]) for a in axes)
        self.written: dict[Term, Value] = {}
        self.leaves: dict[Term, Term] = {}

    # -- terms ---------------------------------------------------------------------------------------------------------

    def write(self, body: Term) -> Value:
        """Write a term."""
        return self.emit(lowered(self.data(body), self.w.exact))

    def is_leaf(self, body: Term) -> bool:
        """Whether a term is no operation to be written: a load, a hole, a constant."""
        return self.data(body).op in ("value", "const")

    def data(self, body: Term) -> Term:
        """The term over data, with what can be named by itself written: loads, and what depends on the position."""
        known = self.leaves
        stack = [body]
        while stack:
            x = stack[-1]
            if x in known:
                stack.pop()
                continue
            leaf = self.leaf(x)
            if leaf is not None:
                known[stack.pop()] = leaf
                continue
            missing = [a for a in x.args if a not in known]
            if missing:
                stack.extend(reversed(missing))
                continue
            known[stack.pop()] = as_data(x, [known[a] for a in x.args])
        return known[body]

    def leaf(self, x: Term) -> Term | None:
        """What a term is by itself, if it is not an operation on its arguments."""
        if x.op == "const":
            return const_data(x)
        if x.op == "value":
            return x
        if x.op == "hole":
            return zero_of(x.dtype)  # a hole may be filled with anything
        if x.op == "sym" or (x.dtype == INDEX and x in self.w.symbols):
            return self.term_of(Value(size_scalar(self.w, as_dim(x))), "int64")
        cells = self.cells(x)
        if cells is not None:
            return self.table(x, cells)
        if x.op == "axis":
            return self.term_of(self.positions(x), "int64")
        if x.op == "load":
            if isinstance(x.payload, Table):
                at = t.binary("max", 0, t.binary("min", x.args[0], x.payload.array.size - 1))
                return self.term_of(self.gather(self.w.constant(x.payload.array), at), "int64")
            return self.term_of(self.load(x), x.dtype)
        if x.op == "where":
            guarded = self.guarded(x)
            return None if guarded is None else self.term_of(guarded, x.dtype)
        return None

    def term_of(self, value: Value, dtype: str) -> Term:
        """A written tensor as a term."""
        return t.make("value", (), value, dtype)

    def emit(self, root: Term) -> Value:
        """Write primitive operations, arguments first."""
        for x in postorder(root, done=self.written):
            self.written[x] = self.operation(x)
        return self.written[root]

    def operation(self, x: Term) -> Value:
        w = self.w
        if x.op == "value":
            return x.payload
        if x.op == "const":
            return Value(w.constant(np.asarray(t.const_value(x), x.dtype)))
        args = [self.written[a] for a in x.args]
        names = [a.name for a in args]
        dims = _broadcast([a.dims for a in args])
        dtype = x.args[0].dtype
        if x.op not in PRIMITIVES:
            raise FrontendError(f"formula {x}", f"ONNX has no operator for {x.op}")
        op = PRIMITIVES[x.op]
        if x.op in ("cast", "rawcast"):
            return Value(w.step("Cast", names, {"to": element_type(x.dtype)}, dtype), dims)
        if x.op == "quadrature":
            return Value(self.erf(names[0]), dims)
        if x.op == "ne":
            return Value(w.step("Not", [run_op(w, op, names, dtype, tests=True)], {}, BOOL), dims)
        if x.op in ("and", "or"):
            name = names[0]
            for other in names[1:]:
                name = w.step(op, [name, other], {}, BOOL)
            return Value(name, dims)
        attrs = {"fmod": {"fmod": 1}, "shl": {"direction": "LEFT"}, "shr": {"direction": "RIGHT"}}.get(x.op, {})
        data = x.dtype if x.op == "where" else dtype
        return Value(run_op(w, op, names, data, attrs, tests=x.dtype == BOOL and x.op != "where"), dims)

    def erf(self, name: str) -> str:
        """erf of float64: 2 / sqrt(pi) * x * the integral of exp(-(x s)**2) over s from 0 to 1, by Gauss and Legendre.

        Beyond 6 it is 1 to the last bit.
        """
        w = self.w
        nodes, weights = np.polynomial.legendre.leggauss(48)
        places, shares = (nodes + 1) / 2, weights / np.sqrt(np.pi)

        def step(op: str, *names: str) -> str:
            return w.step(op, names, {}, "float64")

        limit = w.constant(np.asarray(6.0))
        x = step("Min", step("Max", name, step("Neg", limit)), limit)
        square = w.step("Unsqueeze", [step("Mul", x, x)], {"axes": (-1,)}, "float64")
        powers = step("Exp", step("Mul", square, w.constant(-(places**2))))
        return step("Mul", x, step("MatMul", powers, w.constant(shares)))

    # -- positions -----------------------------------------------------------------------------------------------------

    def used(self, *terms: Term) -> tuple[bool, ...]:
        """Which of the last axes of the box occur in terms, from the first that does."""
        flags = [occurs([a], *terms) for a in self.axes]
        return tuple(flags[flags.index(True) :]) if True in flags else ()

    def table(self, x: Term, cells: NDArray) -> Term:
        """A term that depends on the position alone as a constant; cells that nobody may read are 0."""
        dims, dtype = self.used(x), "int64" if x.dtype == INDEX else x.dtype
        if cells.dtype == object:
            raise FrontendError(f"index {x}", "does not fit int64")
        if not dims:
            return t.const(cells.astype(dtype)[()], dtype)
        shape = tuple(d if u else 1 for d, u in zip(self.extents[len(self.axes) - len(dims) :], dims, strict=True))
        array = np.array(np.broadcast_to(cells, [int(str(d)) for d in shape]), dtype)
        return self.term_of(Value(self.w.constant(array), dims), dtype)

    def cells(self, x: Term) -> NDArray | None:
        """The values of a term that depends on the position alone, if they are not too many."""
        if reads_data(x) or any(y.op in ("sym", "value") for y in postorder(x)):
            return None
        dims = self.used(x)
        axes, extents = self.axes[len(self.axes) - len(dims) :], self.extents[len(self.axes) - len(dims) :]
        shape = static_shape(tuple(d if u else 1 for d, u in zip(extents, dims, strict=True)))
        if shape is None or int(np.prod(shape, dtype=object)) > TABLE_CELLS:
            return None
        grids = dict(zip(axes, np.indices(shape, dtype=np.int64, sparse=True), strict=True)) if shape else {}
        return evaluate_masked([x], grids, load_table)[0][0]

    def positions(self, axis: Term) -> Value:
        """An axis of symbolic extent: 0, 1, 2, ..."""
        n, w = next(k for k, a in enumerate(self.axes) if a is axis), self.w
        extent, behind = self.extents[n], len(self.axes) - n - 1
        if (extent, 0) not in w.ranges:
            zero, one = w.constant(np.asarray(0)), w.constant(np.asarray(1))
            w.ranges[extent, 0] = w.step("Range", [zero, size_scalar(w, extent), one], {}, "int64")
        if (extent, behind) not in w.ranges:
            shape = {"shape": (-1, *(1,) * behind)}
            w.ranges[extent, behind] = w.step("Reshape", [w.ranges[extent, 0]], shape, "int64")
        return Value(w.ranges[extent, behind], (True, *(False,) * behind))

    # -- loads ---------------------------------------------------------------------------------------------------------

    def load(self, x: Term) -> Value:
        source = self.operands[int(x.payload)]
        if reads_data(*x.args):
            return self.gathered(source, x.args)
        return self.plain(source, x.args) or self.view(source, x.args, t.TRUE, zero_of(x.dtype))

    def plain(self, source: Tensor, index: Sequence[Term]) -> Value | None:
        """An operand that broadcasts as it is."""
        first = len(self.axes) - source.rank
        if first < 0:
            return None
        dims: list[bool] = []
        for i, d, axis, extent in zip(index, source.shape, self.axes[first:], self.extents[first:], strict=True):
            whole = i is axis and same_dim(d, extent)
            if not whole and not (t.is_const(i, 0) and same_dim(d, 1)):
                return None
            dims.append(whole and not same_dim(d, 1))
        return Value(self.w.name(source), tuple(dims))

    def guarded(self, x: Term) -> Value | None:
        """A choice between a load and a number by the position: a View with a fill."""
        found = guarded_load(x)
        if found is None:
            return None
        load, valid, fill = found
        return self.view(self.operands[int(load.payload)], load.args, valid, fill)

    def view(self, source: Tensor, index: Sequence[Term], valid: Term, fill: Term) -> Value:
        """A View of an operand over those axes of the box that it depends on, which reads nothing outside of it."""
        valid = t.logical_and(valid, *outside_checks(source.shape, index, valid))
        dims = self.used(*index, valid)
        shape: Shape = tuple(
            d if u else 1 for d, u in zip(self.extents[len(self.axes) - len(dims) :], dims, strict=True)
        )
        inner = dict(zip(self.axes[len(self.axes) - len(dims) :], output_axes(shape), strict=True))
        gather, valid = [substitute(i, inner) for i in index], substitute(valid, inner)
        return Value(self.w.name(self.w.viewed(source, shape, gather, valid, fill)), dims)

    def gathered(self, source: Tensor, index: Sequence[Term]) -> Value:
        """A load at computed positions: of the flat operand, at positions that never leave it."""
        w = self.w
        if not source.rank:
            return Value(w.name(source))
        if any(same_dim(d, 0) for d in source.shape):
            return Value(w.constant(np.zeros((), source.dtype)))  # a cell that nobody may read
        total = t.product([t.as_index(d) for d in source.shape])
        name = w.name(source)
        if source.rank > 1:
            name = w.step("Reshape", [name], {"shape": (-1,)}, source.dtype)
        if t.int_value(total) is None:  # a model may be run with no cells, whatever its symbols are taken for
            name = w.step("Concat", [name, w.constant(np.zeros((1,), source.dtype))], {"axis": 0}, source.dtype)
            total = total + 1
        flat = flatten(index, source.shape)
        return self.gather(name, t.binary("max", 0, t.binary("min", flat, total - 1)))

    def gather(self, name: str, at: Term) -> Value:
        """The cells of a vector at positions over the box."""
        at = _from_the_end(at)
        for y in postorder(at):
            low, high = Bounds().of(y) if y.dtype == INDEX else (0, 0)
            if (low is not None and low < INT64[0]) or (high is not None and high > INT64[1]):
                raise FrontendError(f"index {y}", "may not fit int64, in which ONNX computes", "use smaller numbers")
        place = self.write(at)
        return Value(self.w.step("Gather", [name, place.name], {"axis": 0}), place.dims)


def _from_the_end(at: Term) -> Term:
    """The same positions; the sum that counts a number below 0 from the end has no other number to overflow with.

    >>> i = t.cast_to(t.load(0, [t.ax(0, 4)], "int64"), INDEX)
    >>> _from_the_end(t.where(i < 0, i + 5, i))
    where(cast($0[i0], 'index') < 0, minimum(cast($0[i0], 'index'), -1) + 5, cast($0[i0], 'index'))
    """
    found: dict[Term, Term] = {}
    for x in postorder(at):
        if x.op != "where" or x.args[0].op != "lt" or x.args[1].op != "sum":
            continue
        if (Bounds().of(x.args[1])[1] or 0) <= INT64[1]:
            continue
        below, counted, plain = substitute(x, found).args
        number, limit = below.args
        if t.int_value(limit) == 0 and number in counted.args:
            found[x] = t.where(below, substitute(counted, {number: t.binary("min", number, -1)}), plain)
    return substitute(at, found)


def guarded_load(x: Term) -> tuple[Term, Term, Term] | None:
    """A load that the position decides about, when it is read and what there is elsewhere; None for other terms.

    >>> i = t.ax(0, 4)
    >>> guarded_load(t.where(i < 2, 1.0, t.load(0, [i - 2], "float32")))
    ($0[i0 - 2], 2 <= i0, float32(1.0))
    """
    if x.op == "load" and isinstance(x.payload, int) and not reads_data(*x.args):
        return x, t.TRUE, zero_of(x.dtype)
    if x.op != "where":
        return None
    valid, a, b = x.args
    if a.op != "load":
        valid, a, b = t.logical_not(valid), b, a
    if a.op != "load" or not isinstance(a.payload, int) or b.op not in ("const", "hole") or reads_data(valid, *a.args):
        return None
    return a, valid, b if b.op == "const" else zero_of(b.dtype)


def _broadcast(dims: Sequence[tuple[bool, ...]]) -> tuple[bool, ...]:
    """The axes of what is made of broadcast operands."""
    rank = max(map(len, dims), default=0)
    padded = [(False,) * (rank - len(d)) + d for d in dims]
    return tuple(any(column) for column in zip(*padded, strict=True))


def outside_checks(shape: Shape, index: Sequence[Term], valid: Term) -> list[Term]:
    """The conditions that keep an index inside of a shape, without those that are seen to hold where it is read."""
    box = Bounds().under(valid)
    checks: list[Term] = []
    for i, d in zip(index, shape, strict=True):
        low = box.of(i)[0]
        if low is None or low < 0:
            checks.append(t.compare("le", 0, i))
        room = box.of(t.as_index(d) - 1 - i)[0]
        if room is None or room < 0:
            checks.append(t.compare("lt", i, t.as_index(d)))
    return [c for c in checks if not _always(c, valid)]


def _always(check: Term, valid: Term) -> bool:
    """Whether a small box shows that a condition holds wherever another does."""
    axes = nodes_of("axis", check, valid)
    shape = static_shape(tuple(as_dim(a.args[0]) for a in axes))
    if shape is None or nodes_of("sym", check, valid) or int(np.prod(shape, dtype=object)) > TABLE_CELLS:
        return False
    grid = dict(zip(axes, np.indices(shape, dtype=np.int64, sparse=True), strict=True)) if shape else {}
    (holds, undefined), (reached, bad) = evaluate_masked([check, valid], grid, load_table)
    if undefined is not None or bad is not None:
        return False
    return bool(np.all(np.logical_or(holds, np.logical_not(reached))))


def view_of(source: Tensor, shape: Sequence[Dim], gather: Sequence[Term], valid: Term, fill: Term) -> Tensor:
    """A View that pads only where it has a condition."""
    return Tensor(View(source, tuple(shape), gather, valid, None if valid is t.TRUE else fill))
