"""Programs of numeric shapes unfolded cell by cell: every cell is one number that stands for its value as a function of
the inputs' cells, the same number for the same function. It shares nothing with the search and its normal forms: index
terms are evaluated, data moves as numbers, and two outputs are equal where the numbers are.

What is known of data: operations on constants are carried out, sums and products commute, a negation undoes itself,
0 and 1 are neutral, a reduction that is not ordered is one of a multiset (of a set for max and min).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from eqsat.ir import clock
from eqsat.ir.dtypes import INDEX, NDArray, has_floats, highest, is_float, lowest
from eqsat.ir.points import grid
from eqsat.ir.statements.called import Called
from eqsat.ir.tensors.run import neutral
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, Tensor, View, input, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import Mask, evaluate_masked
from eqsat.ir.terms.shape import static_shape
from eqsat.ir.terms.tables import Table, load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder
from eqsat.verifying.functions import called

MOST_CELLS = 1 << 19  # of all tensors and iteration boxes of a program together
UNDEFINED = 0
_COMMUTATIVE = ("add", "mul", "eq", "ne", "bitand", "bitor", "bitxor")
_COMMUTATIVE_EXACT = ("min", "max")  # of 0.0 and -0.0 the language does not say which is taken
_IDEMPOTENT = ("min", "max", "bitand", "bitor", "and", "or")
_INVOLUTIONS = ("neg", "bitnot", "not")
_NEUTRAL = {
    "add": 0, "sub": 0, "mul": 1, "div": 1, "floordiv": 1, "truncdiv": 1, "bitor": 0, "bitxor": 0, "shl": 0, "shr": 0,
}  # fmt: skip
_OF_EQUALS = {"lt": False, "ne": False, "le": True, "eq": True, "sub": 0, "bitxor": 0}
_LAZY = ("where", "given", "and", "or")


class TooLarge(Exception):
    """A program that is not worth unfolding, or that has no numeric shapes."""


class ValueNumbers:
    """Numbers for values: equal functions of the cells of the inputs have equal numbers."""

    def __init__(self) -> None:
        self.table: dict[Any, int] = {}
        self.constants: dict[int, Any] = {}
        self.undone: dict[tuple[str, int], int] = {}
        """What an operation that undoes itself gives for a value that it has made."""
        self.partial: set[int] = {UNDEFINED}
        self.count = 1

    def of(self, key: Any, partial: bool = False) -> int:
        """The number of a value that is known by a key."""
        found = self.table.get(key)
        if found is None:
            found = self.table[key] = self.count
            self.count += 1
            if partial:
                self.partial.add(found)
        return found

    def block(self, key: Any, size: int) -> NDArray:
        """Numbers of so many values that nothing is known of."""
        first = self.table.get(key)
        if first is None:
            first = self.table[key] = self.count
            self.count += size
        return np.arange(first, first + size, dtype=np.int64)

    def literal(self, array: NDArray) -> NDArray:
        """The numbers of constants."""
        values, inverse = _distinct(array)
        numbers: list[int] = []
        for value in values:
            number = self.of((array.dtype.name, value.tobytes()))
            self.constants[number] = value
            numbers.append(number)
        return np.array(numbers, np.int64)[inverse].reshape(array.shape)


def _distinct(array: NDArray) -> tuple[NDArray, NDArray]:
    """The distinct values of an array bit by bit, all NaN being one, and the place of each cell's among them."""
    flat = np.ascontiguousarray(array).ravel()
    if has_floats(array):
        flat = np.where(np.isnan(flat), np.asarray(np.nan, array.dtype), flat)
        bits, inverse = np.unique(flat.view(f"u{array.dtype.itemsize}"), return_inverse=True)
        return bits.view(array.dtype), inverse
    return np.unique(flat, return_inverse=True)


def _frozen(value: Any) -> Any:
    """A key that equal attributes of an operator share; of what is not plain data, only the object itself has it."""
    if isinstance(value, np.ndarray):
        array = cast(NDArray, value)
        return array.dtype.str, array.shape, array.tobytes()
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return "dict", tuple(sorted((repr(k), _frozen(v)) for k, v in items))
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return kind, tuple(_frozen(v) for v in cast("Sequence[Any]", value))
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return type(value).__name__, repr(value)
    return "object", id(value)


class Unfolding:
    """The cells of one program."""

    def __init__(self, values: ValueNumbers, name: str) -> None:
        self.values = values
        self.name = name
        self.done: dict[tuple[int, int], NDArray] = {}
        self.cells = 0
        self.unsure: set[int] = set()  # values in some node that may be undefined

    def program(self, program: Program) -> dict[str, NDArray]:
        """The numbers of the outputs' cells."""
        for node in program.nodes():
            self.spend(sum(int(np.prod(self.shape(shape), dtype=object)) for shape, _ in node.outputs))
        for node in program.nodes():
            clock.check()
            for k, found in enumerate(self.node(node)):
                self.done[node.serial, k] = found
                if not isinstance(node, Input):
                    self.unsure |= self.values.partial.intersection(np.unique(found).tolist())
        return {name: self.done[x.key] for name, x in program.outputs.items()}

    def node(self, node: Node) -> list[NDArray]:
        values = self.values
        shapes = [self.shape(shape) for shape, _ in node.outputs]
        if isinstance(node, Input):
            return [values.block(("input", node.name), int(np.prod(shapes[0]))).reshape(shapes[0])]
        if isinstance(node, Constant):
            return [values.literal(node.array)]
        operands = [self.done[x.key] for x in node.operands]
        if isinstance(node, View):
            return [self.body(node, node.body, (), operands)]
        if isinstance(node, Compute):
            cells = self.body(node, node.body, self.shape(node.reduce), operands)
            return [cells if node.combiner is None else self.reduced(node, cells)]
        assert isinstance(node, Opaque)
        if node.definition is not None:
            return self.defined(node, operands)
        if not node.pure:
            raise TooLarge
        followed = called(self, node, operands) if isinstance(node.impl, Called) else None
        if followed is not None:
            return followed
        whole = hashlib.blake2b(b"".join(x.tobytes() for x in operands)).digest()
        key = ("opaque", node.op, _frozen(node.attrs), id(node.impl), id(node.definition), whole, tuple(node.outputs))
        return [
            values.block((*key, k), int(np.prod(shape))).reshape(shape) for k, shape in enumerate(shapes)
        ]  # fmt: skip

    def defined(self, node: Opaque, operands: Sequence[NDArray]) -> list[NDArray]:
        """The numbers of an operator that has a definition."""
        inputs = [input(f"operand{k}", x.shape, x.dtype) for k, x in enumerate(node.operands)]
        made = cast("Callable[..., Any]", node.definition)(*inputs)
        roots = [made] if isinstance(made, Tensor) else list(cast("Sequence[Tensor]", made))
        known = {x.key: cells for x, cells in zip(inputs, operands, strict=True)}
        for inner in node_order(roots):
            if not isinstance(inner, Input):
                known.update(((inner.serial, k), x) for k, x in enumerate(self.within(inner, known)))
        return [known[x.key] for x in roots]

    def within(self, node: Node, known: dict[tuple[int, int], NDArray]) -> list[NDArray]:
        """The numbers of a node over other known tensors."""
        before, self.done = self.done, known
        try:
            return self.node(node)
        finally:
            self.done = before

    def shape(self, shape: Any) -> tuple[int, ...]:
        known = static_shape(shape)
        if known is None:
            raise TooLarge
        return known

    def spend(self, cells: int) -> None:
        self.cells += cells
        if self.cells > MOST_CELLS:
            raise TooLarge

    # -- formulas ------------------------------------------------------------------------------------------------------

    def body(self, node: Node, term: Term, reduced: tuple[int, ...], operands: Sequence[NDArray]) -> NDArray:
        """The numbers of a formula over its whole box."""
        out = self.shape(node.outputs[0][0])
        box = (*out, *reduced)
        self.spend(int(np.prod(box, dtype=object)))
        axes = [*(t.ax(n, d) for n, d in enumerate(out)), *(t.red(n, d) for n, d in enumerate(reduced))]
        env = grid({axis: (0, extent) for axis, extent in zip(axes, box, strict=True)})
        order = list(postorder(term, done=env))
        numeric = set(env)
        for x in order:
            reads = x.op == "hole" or (x.op == "load" and not isinstance(x.payload, Table))
            if not reads and all(a in numeric for a in x.args):
                numeric.add(x)
        parts = [a for x in order if x not in numeric for a in x.args if a in numeric]
        if term in numeric:
            parts.append(term)
        wanted = list(dict.fromkeys(parts))
        known = dict(zip(wanted, evaluate_masked(wanted, env, load_table), strict=True))
        cells: dict[Term, NDArray] = {}

        def numbers(x: Term) -> NDArray:
            if x not in cells:
                cells[x] = self.literal(*known[x], x.dtype)
            return cells[x]

        for x in order:
            if x in numeric:
                continue
            if x.op == "load" and all(i in numeric for i in x.args):
                cells[x] = self.load(operands[cast(int, x.payload)], [known[i] for i in x.args])
            elif x.op == "where" and x.args[0] in numeric and known[x.args[0]][1] is None:
                cells[x] = np.where(known[x.args[0]][0], numbers(x.args[1]), numbers(x.args[2]))
            else:
                cells[x] = self.operation(x, [numbers(a) for a in x.args], operands)
        return np.broadcast_to(numbers(term), box)

    def literal(self, value: NDArray, bad: Mask, dtype: str) -> NDArray:
        if value.dtype == object:
            raise TooLarge
        found = self.values.literal(np.asarray(value, "int64" if dtype == INDEX else dtype))
        return found if bad is None else np.where(bad, UNDEFINED, found)

    def load(self, operand: NDArray, index: Sequence[tuple[NDArray, Mask]]) -> NDArray:
        """The cells at a numeric index; outside of the operand nothing is defined."""
        wrong: NDArray = np.zeros((), bool)
        places: list[NDArray] = []
        for (value, bad), extent in zip(index, operand.shape, strict=True):
            outside = np.asarray((value < 0) | (value >= extent))
            wrong = wrong | outside if bad is None else wrong | outside | bad
            places.append(np.asarray(np.clip(value, 0, max(extent - 1, 0)), np.int64))
        if not operand.size:
            return np.full(np.broadcast_shapes(*(p.shape for p in places), wrong.shape), UNDEFINED, np.int64)
        return np.where(wrong, UNDEFINED, operand[tuple(places)])

    def operation(self, x: Term, args: Sequence[NDArray], operands: Sequence[NDArray]) -> NDArray:
        """The numbers of an operation: one for each distinct row of operands."""
        if x.op == "load":
            whole = hashlib.blake2b(operands[cast(int, x.payload)].tobytes()).digest()
            extents = operands[cast(int, x.payload)].shape
            return self.rows(args, lambda row: self.values.of(("load", whole, extents, row), partial=True))
        if x.op == "hole":
            return self.rows(args, lambda row: self.values.of(("hole", self.name, x.payload, row)))
        folded = self.folded(x, args)
        return self.rows(args, lambda row: folded.get(row) or self.made(x, row))

    def number(self, x: Term, row: tuple[int, ...]) -> int:
        """The number of an operation on one row of values."""
        constant = all(number in self.values.constants for number in row)
        folded = self.folded(x, [np.asarray(number) for number in row]) if constant else {}
        return folded.get(row) or self.made(x, row)

    def rows(self, args: Sequence[NDArray], make: Callable[[tuple[int, ...]], int]) -> NDArray:
        if not args:
            return np.asarray(make(()), np.int64)
        stacked = _side_by_side(args)
        distinct, inverse = np.unique(stacked.reshape(-1, len(args)), axis=0, return_inverse=True)
        made = np.array([make(tuple(row)) for row in distinct.tolist()], np.int64)
        return made[inverse.ravel()].reshape(stacked.shape[:-1])

    def folded(self, x: Term, args: Sequence[NDArray]) -> dict[tuple[int, ...], int]:
        """The numbers of the rows that hold constants only."""
        constants = self.values.constants
        stacked = _side_by_side(args).reshape(-1, len(args))
        rows = [tuple(row) for row in np.unique(stacked, axis=0).tolist() if all(v in constants for v in row)]
        if not rows:
            return {}
        leaves = [t.make("var", (), f"operand{k}", a.dtype) for k, a in enumerate(x.args)]
        env: dict[Term, NDArray] = {}
        for k, leaf in enumerate(leaves):
            env[leaf] = np.array([constants[row[k]] for row in rows], "int64" if leaf.dtype == INDEX else leaf.dtype)
        value, bad = evaluate_masked([t.make(x.op, leaves, x.payload, x.dtype)], env)[0]
        found = self.literal(np.broadcast_to(value, len(rows)), bad, x.dtype)
        return {row: int(number) for row, number in zip(rows, found, strict=True) if number != UNDEFINED}

    def made(self, x: Term, row: tuple[int, ...]) -> int:
        """The number of an operation on values."""
        values, op = self.values, x.op
        lazy = self.lazy(op, row) if op in _LAZY else None
        if lazy is not None:
            return lazy
        if op not in _LAZY and UNDEFINED in row:
            return UNDEFINED
        sure = values.partial.isdisjoint(row)
        if op in _IDEMPOTENT and sure and len(set(row)) == 1:
            return row[0]
        exact = not any(is_float(a.dtype) for a in x.args)
        if op in _COMMUTATIVE or (op in _COMMUTATIVE_EXACT and exact) or (op in ("and", "or") and sure):
            row = tuple(sorted(row))
        if op in _OF_EQUALS and sure and len(set(row)) == 1 and (exact or op == "lt"):
            return int(values.literal(np.asarray(_OF_EQUALS[op], x.dtype)))
        if op in ("mul", "bitand", "prod") and exact and sure:
            zero = next((v for v in row if v in values.constants and not values.constants[v]), None)
            if zero is not None:
                return zero
        alike = all(a.dtype == x.dtype for a in x.args)
        kept = values.undone.get((op, row[0]), self.kept(op, row, x.dtype) if alike else None)
        if kept is not None:
            return kept
        payload = x.payload if op != "sum" else (x.payload[0], tuple(x.payload[1]))
        types = tuple(a.dtype for a in x.args)
        found = values.of((op, payload, x.dtype, types, row), partial=not sure or self.may_fail(x, row))
        if op in _INVOLUTIONS:
            values.undone[op, found] = row[0]
        return found

    def kept(self, op: str, row: tuple[int, ...], dtype: str) -> int | None:
        """The operand that an operation with a constant leaves as it is."""
        if op in ("min", "max") and dtype == INDEX:
            return None  # of all whole numbers none is the least
        neutral_element = lowest(dtype) if op == "max" else highest(dtype) if op == "min" else _NEUTRAL.get(op)
        if len(row) != 2 or neutral_element is None or (op in ("floordiv", "truncdiv") and is_float(dtype)):
            return None  # division with a rest, of 1.5 by 1.0, does not keep it
        for value, other in (row, row[::-1]) if op in (*_COMMUTATIVE, "min", "max") else (row,):
            constant = self.values.constants.get(other)
            if constant is None or constant != neutral_element:
                continue
            # x + 0.0 and x - -0.0 make 0.0 of -0.0.
            if op not in ("add", "sub") or not is_float(dtype) or np.signbit(constant) == (op == "add"):
                return value
        return None

    def lazy(self, op: str, row: tuple[int, ...]) -> int | None:
        """An operation that does not look at all of its operands, where it is known at which it does."""
        first = row[0]
        truth = self.values.constants.get(first)
        if first == UNDEFINED:
            return UNDEFINED
        if op == "where":
            if truth is not None:
                return row[1] if truth else row[2]
            return row[1] if row[1] == row[2] and first not in self.values.partial else None
        if truth is None:
            return None
        if op == "given":
            return row[1] if truth else UNDEFINED
        if bool(truth) == (op == "or"):
            return first
        return row[1] if len(row) == 2 else None

    def may_fail(self, x: Term, row: tuple[int, ...]) -> bool:
        """Whether an operation may be undefined on defined operands: integer division, a shift, a choice of `given`."""
        if x.op in ("floordiv", "mod", "truncdiv", "truncmod") and not is_float(x.dtype):
            divisor = self.values.constants.get(row[1])
            return divisor is None or not divisor
        return x.op in ("given", "shl", "shr", "pow") or (x.op == "cast" and x.dtype == INDEX)

    def reduced(self, node: Compute, cells: NDArray) -> NDArray:
        """The numbers of a reduction: of the multiset of its values, of their sequence where it is ordered."""
        dtype, combiner = node.outputs[0][1], cast(str, node.combiner)
        out = self.shape(node.outputs[0][0])
        rows = cells.reshape(math.prod(out), math.prod(cells.shape[len(out) :]))
        if not rows.shape[1]:
            return np.broadcast_to(self.values.literal(np.full((), neutral(combiner, dtype), dtype)), out)
        found = [self.combined(row, combiner, dtype, node.ordered) for row in rows]
        return np.array(found, np.int64).reshape(out)

    def combined(self, row: NDArray, combiner: str, dtype: str, ordered: bool) -> int:
        """The number of values that are combined, in their order or in none."""
        selects = combiner in ("max", "min")
        in_order = ordered and not selects and is_float(dtype)
        items = np.unique(row) if selects else row if in_order else np.sort(row)
        counted = items if in_order else items[~np.isin(items, self.ignored(combiner, dtype))]
        items = counted if counted.size else items[:1]
        if UNDEFINED in items:
            return UNDEFINED
        if len(items) == 1 and not in_order:
            return int(items[0])  # whether a sum starts at 0.0 or at its first element is left open
        key = ("reduce", combiner, dtype, in_order, items.tobytes())
        return self.values.of(key, partial=not self.values.partial.isdisjoint(items.tolist()))

    def ignored(self, combiner: str, dtype: str) -> list[int]:
        """The numbers of the values that change nothing they are combined with; of a zero the sign is left open."""
        value = np.asarray(neutral(combiner, dtype), dtype)
        both = [value, -value] if combiner == "sum" and is_float(dtype) else [value]
        return [int(self.values.literal(x)[()]) for x in both]


def equal_cells(p: Program, q: Program) -> bool | None:
    """Whether all cells of all outputs are the same functions of the inputs; None where the programs are too large.

    False does not mean that they differ. A cell of `p` that is a hole may be anything in `q`.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> def both(y): return eq.Program([x], {"y": y})
    >>> equal_cells(both(x.pad(1).relu().crop([1, 1], [2, 3])), both(x.relu()))
    True
    """
    values = ValueNumbers()
    before, after = Unfolding(values, "p"), Unfolding(values, "q")
    try:
        left, right = before.program(p), after.program(q)
    except TooLarge:
        return None
    if not after.unsure <= before.unsure:
        return False
    holes = {number for key, number in values.table.items() if key[0] == "hole" and key[1] == "p"}
    filled: dict[int, int] = {}
    for name, cells in left.items():
        different = np.flatnonzero(cells.ravel() != right[name].ravel())
        for a, b in zip(cells.ravel()[different].tolist(), right[name].ravel()[different].tolist(), strict=True):
            if a not in holes or filled.setdefault(a, b) != b:
                return False
    return True


def _side_by_side(args: Sequence[NDArray]) -> NDArray:
    """Arrays in their common shape, along a last axis; numpy.broadcast_arrays takes 32 axes at most."""
    rank = max(a.ndim for a in args)
    columns = zip(*((*(1,) * (rank - a.ndim), *a.shape) for a in args), strict=True)
    shape = tuple(next((extent for extent in column if extent != 1), 1) for column in columns)
    return np.stack([np.broadcast_to(a, shape) for a in args], axis=-1)
