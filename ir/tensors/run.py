"""The numpy meaning of tensor programs: `evaluate`, the reference every other reading is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import BFLOAT16, NDArray, array_of, has_floats, highest, lowest
from eqsat.ir.errors import EvaluationError
from eqsat.ir.keywords import inputs_problem
from eqsat.ir.tensors.tensor import (
    Compute,
    Constant,
    Input,
    Node,
    Opaque,
    Program,
    Tensor,
    View,
    as_program,
    constant,
    node_order,
)  # fmt: skip
from eqsat.ir.terms import term as t
from eqsat.ir.terms.bindings import bounds
from eqsat.ir.terms.evaluate import HoleFunction, Mask, blocks, evaluate_masked, poison
from eqsat.ir.terms.shape import Shape, format_shape
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import symbols

CHUNK_POINTS = 1 << 20
_UFUNC: dict[str, Any] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def neutral(combiner: str, dtype: str) -> Any:
    """The value that a combiner ignores."""
    if combiner in ("sum", "prod"):
        return 0 if combiner == "sum" else 1
    return lowest(dtype) if combiner == "max" else highest(dtype)


def gather(array: NDArray, index: Sequence[NDArray]) -> NDArray:
    """array[index] for broadcastable index arrays; outer products of indices are taken axis by axis.

    >>> gather(np.arange(6).reshape(2, 3), [np.array([[1], [0]]), np.array([[2, 1, 0]])])
    array([[5, 4, 3],
           [2, 1, 0]])
    """
    rank = max((i.ndim for i in index), default=0)
    shaped = [i.reshape((1,) * (rank - i.ndim) + i.shape) for i in index]
    varying = [[k for k in range(rank) if i.shape[k] != 1] for i in shaped]
    used = [k for axes in varying for k in axes]
    if len(set(used)) != len(used):
        return np.asarray(array[tuple(index)])
    result = array
    for n, i in enumerate(shaped):
        flat = i.ravel()
        if not (flat.size == array.shape[n] and bool((flat == np.arange(flat.size)).all())):
            result = np.take(result, flat, axis=n)
    # One axis per varying grid axis, in the order of the array's dimensions; then in the order of the grid.
    result = result.reshape([i.shape[k] for i, axes in zip(shaped, varying, strict=True) for k in axes])
    result = result.transpose(sorted(range(len(used)), key=used.__getitem__))
    sizes = dict(zip(sorted(used), result.shape, strict=True))
    return result.reshape([sizes.get(k, 1) for k in range(rank)])


class _Run:
    """One evaluation: symbol values, hole values and finished tensors."""

    def __init__(self, undef: Any, sizes: dict[Term, NDArray]) -> None:
        self.undef = undef
        self.sizes = sizes
        self.done: dict[tuple[int, int], NDArray] = {}

    def extent(self, shape: Shape) -> tuple[int, ...]:
        numbers = [d if isinstance(d, int) else int(evaluate_masked([d], self.sizes)[0][0]) for d in shape]
        if any(n < 0 for n in numbers):
            raise EvaluationError(f"shape {format_shape(shape)}", f"has a negative extent: {tuple(numbers)}")
        return tuple(numbers)

    def hole(self) -> HoleFunction:
        undef = self.undef

        def value(number: int, dtype: str, index: Sequence[NDArray]) -> NDArray:
            if callable(undef):
                return np.asarray(undef(number, *index)).astype(dtype)
            return np.asarray(poison(dtype) if undef is None else undef).astype(dtype)

        return value

    def load(self, operands: Sequence[NDArray]) -> Callable[[Any, Sequence[NDArray]], tuple[NDArray, Mask]]:
        def value(source: Any, index: Sequence[NDArray]) -> tuple[NDArray, Mask]:
            if isinstance(source, Table):
                return load_table(source, index)
            array: NDArray = operands[cast(int, source)]
            bad: Mask = None
            safe: list[NDArray] = []
            for i, extent in zip(index, array.shape, strict=True):
                out = np.asarray((i < 0) | (i >= extent))
                if bool(out.any()):
                    bad = out if bad is None else np.logical_or(bad, out)
                    i = np.clip(i, 0, max(extent - 1, 0))
                safe.append(np.asarray(i))
            if array.size == 0:
                shape = np.broadcast_shapes(*(i.shape for i in index))
                return np.zeros(shape, array.dtype), np.ones(shape, bool)
            return gather(array, safe), bad

        return value

    def box(self, shape: Shape, reduced: Shape, block: Sequence[slice]) -> dict[Term, NDArray]:
        """Axis terms as arrays over a part of the iteration box, and the symbols."""
        env = dict(self.sizes)
        rank = len(shape) + len(reduced)
        for n, part in enumerate(block):
            role = t.ax(n, shape[n]) if n < len(shape) else t.red(n - len(shape), reduced[n - len(shape)])
            along = [-1 if k == n else 1 for k in range(rank)]
            env[role] = np.arange(part.start, part.stop, dtype=np.int64).reshape(along)
        return env

    def body(self, node: Node, term: Term, reduced: Shape, arrays: list[NDArray], combiner: str | None) -> NDArray:
        """The values of a body over the whole box, reduced; computed in blocks of the spatial axes."""
        shape, dtype = node.outputs[0]
        out, inner = self.extent(shape), self.extent(reduced)
        result: NDArray = np.empty(out, dtype)
        whole = tuple(slice(0, d) for d in inner)
        room = max(1, CHUNK_POINTS // max(1, int(np.prod(inner, dtype=object))))
        load, hole = self.load(arrays), self.hole()
        for block in blocks(out, room):
            full = (*(s.stop - s.start for s in block), *inner)
            value, bad = evaluate_masked([term], self.box(shape, reduced, (*block, *whole)), load, hole)[0]
            if bad is not None and bool(np.broadcast_to(bad, full).any()):
                at = np.argwhere(np.broadcast_to(bad, full))[0].tolist()
                point = tuple(int(a) + s.start for a, s in zip(at, (*block, *whole), strict=True))
                raise EvaluationError(
                    f"{type(node).__name__.lower()} of shape {format_shape(shape)}",
                    f"{term} is undefined (out of range or a zero divisor) at {point}",
                )
            piece = np.broadcast_to(value, full)
            result[block] = piece if combiner is None else reduction(piece, combiner, len(out), dtype)
        return result

    def node(self, node: Node, feeds: Mapping[str, NDArray]) -> list[NDArray]:
        arrays = [self.done[x.key] for x in node.operands]
        if isinstance(node, Input):
            return [feeds[node.name]]
        if isinstance(node, Constant):
            return [node.array]
        if isinstance(node, View):
            return [self.view(node, arrays)]
        if isinstance(node, Compute):
            return [self.body(node, node.body, node.reduce, arrays, node.combiner)]
        if isinstance(node, Opaque):
            return self.opaque(node, arrays)
        raise EvaluationError(f"node {type(node).__name__}", "is not of the language")

    def view(self, node: View, arrays: list[NDArray]) -> NDArray:
        self.check_cropped(node, arrays[0])
        return self.body(node, node.body, (), arrays, None)

    def check_cropped(self, node: View, source: NDArray) -> None:
        """The user's assumption about cropped cells, where the tag records one."""
        expected = None if node.tag is None else node.tag.get("cropped_value")
        if expected is None:
            return
        value = np.asarray(t.const_value(expected))
        shape = node.outputs[0][0]
        outside = np.ones(source.shape, bool)
        env = self.box(shape, (), [slice(0, d) for d in self.extent(shape)])
        outside[tuple(a for a, _ in evaluate_masked(node.gather, env, load_table))] = False
        same = (source == value) | ((source != source) & (value != value))
        if has_floats(source):  # bit by bit: 0.0 is not -0.0
            same &= (np.signbit(source) == np.signbit(value)) | (value != value)
        wrong = outside & ~same
        if bool(wrong.any()):
            at = tuple(int(a) for a in np.argwhere(wrong)[0])
            raise EvaluationError(f"crop with cropped_value={value}", f"the cropped cell {at} holds {source[at]}")

    def opaque(self, node: Opaque, arrays: list[NDArray]) -> list[NDArray]:
        if node.impl is not None:
            made = node.impl(*[a.copy() for a in arrays])
            results = list(cast("Sequence[Any]", made)) if isinstance(made, (list, tuple)) else [made]
        elif node.definition is not None:
            tensors = node.definition(*[constant(a) for a in arrays])
            roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
            inner = _Run(self.undef, self.sizes)
            inner.nodes(roots, {})
            results = [inner.done[x.key] for x in roots]
        else:
            raise EvaluationError(f"operator {node.op}", "has no meaning here", "give eq.opaque an impl")
        if len(results) != len(node.outputs):
            raise EvaluationError(f"operator {node.op}", f"gave {len(results)} outputs, declared {len(node.outputs)}")
        return [self.checked(node, k, np.asarray(value)) for k, value in enumerate(results)]

    def checked(self, node: Opaque, number: int, array: NDArray) -> NDArray:
        """An output of an operator, if it is what was declared; a size that only the operator knows is learned here."""
        shape, dtype = node.outputs[number]
        if array.ndim == len(shape):
            for d, extent in zip(shape, array.shape, strict=True):
                if isinstance(d, Term) and d.op == "sym" and d not in self.sizes:
                    _check_symbol(d, extent, f"output {number} of operator {node.op}")
                    self.sizes[d] = np.asarray(extent, np.int64)
        if array.shape != self.extent(shape) or array.dtype.name != dtype:
            raise EvaluationError(
                f"operator {node.op}",
                f"output {number} is {array.dtype.name}{array.shape}, declared {dtype}{format_shape(shape)}",
            )
        return array

    def nodes(self, roots: Sequence[Tensor], feeds: Mapping[str, NDArray]) -> None:
        """Evaluate all nodes below the roots; values nobody needs any more are dropped."""
        order = list(node_order(roots))
        uses: dict[tuple[int, int], int] = {}
        for x in (*roots, *(x for node in order for x in node.operands)):
            uses[x.key] = uses.get(x.key, 0) + 1
        for node in order:
            for k, value in enumerate(self.node(node, feeds)):
                self.done[(node.serial, k)] = value
            for x in node.operands:
                uses[x.key] -= 1
                if not uses[x.key]:
                    del self.done[x.key]


def reduction(piece: NDArray, combiner: str, rank: int, dtype: str) -> NDArray:
    """The reduction of the trailing axes; numpy's own, in the element type; of two bytes in float32, rounded once, as
    numpy does where the terms of a sum lie side by side, and kernels everywhere."""
    if dtype in (BFLOAT16, "float16"):
        with np.errstate(over="ignore"):
            return reduction(piece.astype(np.float32), combiner, rank, "float32").astype(dtype)
    inner = tuple(range(rank, piece.ndim))
    start = {} if combiner in ("sum", "prod") else {"initial": np.asarray(neutral(combiner, dtype), dtype)[()]}
    with np.errstate(all="ignore"):
        return np.asarray(_UFUNC[combiner].reduce(piece, axis=inner, dtype=dtype, **start))


def bind_sizes(program: Program, feeds: Mapping[str, NDArray]) -> dict[Term, NDArray]:
    """The values of symbolic extents, read from the shapes of the given arrays; wrong shapes and dtypes are errors."""
    sizes: dict[Term, NDArray] = {}
    for x in program.inputs:
        array = feeds[x.name]
        if array.dtype.name != x.dtype or array.ndim != x.rank:
            raise EvaluationError(
                f"input {x.name!r}", f"got {array.dtype.name}{array.shape}, expected {x.dtype}{format_shape(x.shape)}"
            )
        for n, (d, extent) in enumerate(zip(x.shape, array.shape, strict=True)):
            if isinstance(d, int):
                if d != extent:
                    raise EvaluationError(f"input {x.name!r}", f"axis {n} has extent {extent}, expected {d}")
            elif d.op == "sym" and d not in sizes:
                _check_symbol(d, int(extent), f"input {x.name!r}")
                sizes[d] = np.asarray(extent, np.int64)
    for x in program.inputs:
        for n, (d, extent) in enumerate(zip(x.shape, feeds[x.name].shape, strict=True)):
            if isinstance(d, int):
                continue
            missing = [s for s in symbols(d) if s not in sizes]
            if len(missing) == 1 and (solved := _solved(d, missing[0], int(extent), sizes)) is not None:
                _check_symbol(missing[0], solved, f"input {x.name!r}")
                sizes[missing[0]] = np.asarray(solved, np.int64)
            elif missing:
                raise EvaluationError(f"input {x.name!r}", f"axis {n} needs {missing[0]}, which is no extent by itself")
            expected = int(evaluate_masked([d], sizes)[0][0])
            if expected != extent:
                raise EvaluationError(f"input {x.name!r}", f"axis {n} has extent {extent}, {d} is {expected}")
    return sizes


def _solved(d: Term, symbol: Term, extent: int, sizes: Mapping[Term, NDArray]) -> int | None:
    """The value of a symbol from that of an extent, a sum of whole multiples of it and others of known value."""
    factors = [c for c, body in t.linear_parts(d)[1] if body is symbol]
    if len(factors) != 1:
        return None
    rest = d - factors[0] * symbol
    if any(s is symbol for s in symbols(rest)):
        return None
    known = int(evaluate_masked([rest], sizes)[0][0])
    return (extent - known) // factors[0] if (extent - known) % factors[0] == 0 else None


def _check_symbol(symbol: Term, value: int, what: str) -> None:
    if not t.holds_facts(symbol, value):
        raise EvaluationError(what, f"{t.symbol_facts(symbol).name} = {value} breaks {bounds(symbol)}")


def evaluate(program: Program | Tensor | Term, inputs: Mapping[str, Any] | None = None, undef: Any = None) -> Any:
    """The numpy value of a program: an array, or a dict of arrays by name for several outputs, as a kernel gives.

    `undef` is the value of holes, or a callable (number, *index); by default NaN or the least integer.

    >>> import eqsat as eq, numpy as np
    >>> x = eq.input("x", (3,), "float32")
    >>> evaluate(x.relu(), {"x": np.array([-1, 0, 2], "float32")})
    array([0., 0., 2.], dtype=float32)

    Raises EvaluationError where an array does not fit its input, where an access leaves its tensor or a divisor is 0,
    and where an operator without a formula has no `impl`.
    """
    values = evaluate_outputs(program, inputs, undef)
    return next(iter(values.values())) if len(values) == 1 else values


def evaluate_outputs(
    program: Program | Tensor | Term, inputs: Mapping[str, Any] | None = None, undef: Any = None
) -> dict[str, NDArray]:
    """What `evaluate` computes as a dict by name, however many outputs there are."""
    p = as_program(program)
    given = {name: _native(given_array(name, value)) for name, value in (inputs or {}).items()}
    problem = inputs_problem([x.name for x in p.inputs], given)
    if problem:
        raise EvaluationError("evaluate", problem)
    run = _Run(undef, bind_sizes(p, given))
    try:
        run.nodes(list(p.outputs.values()), given)
    except MemoryError as error:
        raise EvaluationError("evaluate", f"a tensor needs more memory than there is: {error}") from error
    return {name: run.done[x.key] for name, x in p.outputs.items()}


def given_array(name: str, value: Any) -> NDArray:
    """What numpy makes of the value of an input; EvaluationError where it makes nothing, and for a masked array.

    >>> given_array("x", [1, 2]).shape
    (2,)
    """
    try:
        return array_of(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise EvaluationError(f"input {name!r}", f"is no array: {error}") from error


def _native(array: NDArray) -> NDArray:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
