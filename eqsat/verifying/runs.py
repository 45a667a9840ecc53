"""Two programs run on the same inputs: a difference refutes, whatever a proof says.

The programs refine each other where the first has holes: cells that may depend on them are not compared. Inputs on
which the first program has no value say nothing. Floats are compared bit by bit, or, where the language leaves the
order of additions or the sign of a zero open, up to what rounding may do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from eqsat.graph.fill_holes import holes_of
from eqsat.ir import clock
from eqsat.ir.dtypes import COMPLEX, NDArray, float_info, is_float
from eqsat.ir.errors import EvaluationError
from eqsat.ir.tensors.bind import bind_program
from eqsat.ir.tensors.hole_cells import cells_of_holes
from eqsat.ir.tensors.run import bind_sizes, evaluate_outputs
from eqsat.ir.tensors.tensor import Compute, Node, Opaque, Program, Tensor, View
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Shape
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder, symbols

TRIALS = 4
MOST_ELEMENTS = 1 << 24
SMALL = 1 << 12
"""Cells of all inputs up to which special values are tried in every cell."""
MOST_SPECIAL = 11
TOLERANCE = {"bfloat16": 5e-2, "float16": 1e-2, "float32": 1e-4, "float64": 1e-9}
_ROUNDED = (
    "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
    "erf", "pow",
)  # fmt: skip
_MIX, _FOLD = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
"""An odd number with many bits, and half of them."""
_STEPS = ("lt", "le", "eq", "ne", "floor", "ceil", "round", "trunc", "floordiv", "mod", "truncdiv", "truncmod")


@dataclass(frozen=True)
class Trials:
    """What running showed: a witness where they differ, on how many inputs they were equal, and why not on more."""

    equal: int
    witness: Mapping[str, Any] | None = None
    note: str = ""


@dataclass(frozen=True)
class Precision:
    """How far equal programs may differ. exact: not at all; signed: not in the sign of a zero either; continuous: where
    they round differently, by little."""

    exact: bool
    signed: bool
    continuous: bool


_MOVED = Precision(exact=True, signed=True, continuous=True)


def precision(*programs: Program) -> Precision:
    """What the operations of the programs leave open."""
    exact = signed = continuous = True
    for node in (n for p in programs for n in p.nodes()):
        if isinstance(node, Opaque) and any(is_float(dtype) for _, dtype in node.outputs):
            exact = signed = False
        if isinstance(node, Compute) and is_float(node.outputs[0][1]):
            exact = exact and node.combiner not in ("sum", "prod")
            signed = signed and node.combiner is None  # a sum may start at 0.0, which -0.0 does not change
        for x in postorder(*_formulas(node)):
            floats = any(is_float(a.dtype) for a in x.args)
            exact = exact and not (floats and x.op in _ROUNDED)
            signed = signed and not (floats and x.op in ("min", "max"))
            whole = x.op == "cast" and not is_float(x.dtype)
            continuous = continuous and not (floats and (x.op in _STEPS or whole))
    return Precision(exact, signed, continuous)


def _formulas(node: Node) -> Sequence[Term]:
    if isinstance(node, View):
        return () if node.fill is None else (node.fill,)
    return (node.body,) if isinstance(node, Compute) else ()


def compare(p: Program, q: Program, trials: int = TRIALS) -> Trials:
    """Run both programs on random inputs, special values and small sizes among them.

    >>> import eqsat as eq
    >>> x = eq.input("x", (3,), "float32")
    >>> def both(y): return eq.Program([x], {"y": y})
    >>> compare(both(x + 0.0), both(x)).witness["x"]
    array([-0.,  0.,  1.], dtype=float32)
    """
    how = precision(p, q)
    holes = bool(holes_of(p))
    watched = p if how.exact else _with_all(p)
    equal, note, unclear = 0, "", ""
    rounds = trials + _further(p.inputs)
    for trial in range(rounds):
        feeds = inputs_for(p.inputs, trial)
        if feeds is None:
            return Trials(equal, None, "no sizes fit, or the inputs are too large")
        try:
            with np.errstate(all="ignore"):
                before = evaluate_outputs(watched, feeds, _filling(trial))
        except EvaluationError as error:
            note = str(error)
            continue
        clock.check()
        try:
            with np.errstate(all="ignore"):
                after = evaluate_outputs(q, feeds, _filling(rounds + trial))
        except EvaluationError as error:
            if _can_run(q) and not holes:
                return Trials(equal, {**feeds}, f"the second program fails: {error}")
            return Trials(equal, None, str(error))
        found, output = _compared(before, after, _compared_cells(p, feeds, holes), how)
        if found == "different":
            return Trials(equal, {"output": output, **feeds}, f"trial {trial}")
        if found == "rounded":
            unclear = f"{output!r} differs by what roundings may do, so that it says nothing"
        equal += found == "same"
    return Trials(equal, None, unclear or ("" if equal else note))


def _compared_cells(p: Program, feeds: Mapping[str, NDArray], holes: bool) -> dict[str, NDArray]:
    """By output, the cells that depend on no hole, whatever fills it."""
    if not holes:
        return dict.fromkeys(p.outputs, np.ones((), bool))
    sized = bind_program(p, {symbol: int(size) for symbol, size in bind_sizes(p, feeds).items()})
    found: dict[str, NDArray] = {}
    for name, x in sized.outputs.items():
        cells = cells_of_holes(x)
        found[name] = np.zeros((), bool) if cells is None else ~cells
    return found


def _compared(
    before: Mapping[str, NDArray], after: Mapping[str, NDArray], cells: Mapping[str, NDArray], how: Precision
) -> tuple[Literal["same", "rounded", "different"], str]:
    """How the outputs of two programs differ, and which: rounded, where the difference may come from rounding."""
    scale = 0.0 if how.exact else _largest(before.values())
    rounded = ""
    for name, certain in cells.items():
        near = _largest([before[name]])
        if not bool((_wrong(before[name], after[name], how, near) & certain).any()):
            continue
        far = _wrong(before[name], after[name], how, max(near, scale)) & certain
        if bool(far.any()) and (how.exact or how.continuous):
            return "different", name
        rounded = name
    return ("rounded", rounded) if rounded else ("same", "")


def _can_run(program: Program) -> bool:
    return all(not isinstance(n, Opaque) or n.impl is not None or n.definition is not None for n in program.nodes())


def _with_all(program: Program) -> Program:
    """The program with all its tensors as outputs, so that their sizes are known."""
    inner = {f"{node.serial}.{k}": Tensor(node, k) for node in program.nodes() for k in range(len(node.outputs))}
    return Program(program.inputs, {**inner, **program.outputs})


def _filling(seed: int) -> Any:
    """Values of holes, small numbers that differ from seed to seed, hole to hole and cell to cell."""

    def value(number: int, *index: NDArray) -> NDArray:
        total = np.zeros(1, np.uint64)  # of a single number, an overflow is warned of
        for part in (seed, number, *index):
            total = (total ^ (total >> _FOLD)) * _MIX + np.asarray(part).astype(np.uint64)
        mixed = (total ^ (total >> _FOLD)) * _MIX
        small = (mixed >> _FOLD).astype(np.int64) % 13 - 4
        return small.reshape(np.broadcast_shapes(*(i.shape for i in index)))

    return value


def _differs(a: NDArray, b: NDArray) -> NDArray:
    return np.asarray((a != b) & ~((a != a) & (b != b)))


def _largest(arrays: Iterable[NDArray]) -> float:
    """The greatest finite magnitude of any float."""
    found = 0.0
    for a in arrays:
        if is_float(a.dtype.name) and a.size:
            finite = np.abs(a[np.isfinite(a)].astype(np.float64))
            found = max(found, float(finite.max(initial=0.0)))
    return found


def _wrong(a: NDArray, b: NDArray, how: Precision, scale: float) -> NDArray:
    """The cells that differ by more than they may."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.ones(a.shape, bool)
    if a.dtype.name in COMPLEX:  # they are only moved
        return _wrong(a.real, b.real, _MOVED, 0.0) | _wrong(a.imag, b.imag, _MOVED, 0.0)
    different = _differs(a, b)
    if not is_float(a.dtype.name):
        return different
    if how.exact and how.signed:
        zeros = (a == 0) & (b == 0)
        return different | (zeros & (np.signbit(a) != np.signbit(b)))
    if not how.signed:  # the reciprocals of the two zeros
        different = different & ~(np.isinf(a) & np.isinf(b))
    if how.exact:
        return different
    finite = np.isfinite(a) & np.isfinite(b)
    with np.errstate(all="ignore"):
        gap = np.abs(a.astype(np.float64) - b.astype(np.float64))
    far = gap > TOLERANCE[a.dtype.name] * scale
    return different & np.where(finite, far, ~_overflowed(scale, a.dtype.name))


def _overflowed(scale: float, dtype: str) -> NDArray:
    """Whether another order of additions may leave the finite numbers."""
    return np.asarray(scale > float(float_info(dtype).max) / 1e4)


def sizes_for(shapes: Sequence[Shape], trial: int) -> dict[Term, NDArray] | None:
    """Values of the symbols in shapes, small ones that their bounds allow, others from trial to trial."""
    found: dict[Term, NDArray] = {}
    terms = [d for shape in shapes for d in shape if isinstance(d, Term)]
    for n, symbol in enumerate(symbols(*terms)):
        lower, upper, multiple = symbol.payload[1:4]
        least = max(0, lower or 0)
        first = -(-least // multiple) * multiple
        steps = (3 + n, 1, 2 + n, 0)[trial % 4]
        value = first + multiple * steps
        while upper is not None and value > upper and value > first:
            value -= multiple
        if upper is not None and value > upper:
            return None
        found[symbol] = np.asarray(value, np.int64)
    return found


def _further(inputs: Sequence[Tensor]) -> int:
    """Rounds behind the first four, in which each cell of small inputs has the special values of its type in turn."""
    sizes = [int(np.prod([d for d in x.shape if isinstance(d, int)])) for x in inputs]
    fixed = all(isinstance(d, int) for x in inputs for d in x.shape)
    return MOST_SPECIAL if fixed and 0 < sum(sizes) <= SMALL else 0


def inputs_for(inputs: Sequence[Tensor], trial: int) -> dict[str, NDArray] | None:
    """Arrays for all inputs: special values, then small integers, then random numbers, then rare special ones; from
    the fifth on special values again, beginning with another one each time, and another one for each input."""
    sizes = sizes_for([x.shape for x in inputs], trial)
    if sizes is None:
        return None
    rng = np.random.default_rng(trial)
    feeds: dict[str, NDArray] = {}
    total = 0
    for n, x in enumerate(inputs):
        shape = tuple(d if isinstance(d, int) else int(evaluate_masked([d], sizes)[0][0]) for d in x.shape)
        if any(d < 0 for d in shape):
            return None
        total += int(np.prod(shape, dtype=object))
        if total > MOST_ELEMENTS:
            return None
        if trial < TRIALS:
            feeds[x.name] = _values(x.dtype, shape, trial, rng)
        else:
            feeds[x.name] = _values(x.dtype, shape, 0, rng, trial - TRIALS + n * int(rng.integers(MOST_SPECIAL)))
    return feeds


def _values(dtype: str, shape: tuple[int, ...], kind: int, rng: np.random.Generator, first: int = -1) -> NDArray:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in COMPLEX:
        made: NDArray = np.empty(shape, dtype)
        part: str = made.real.dtype.name
        made.real, made.imag = (_values(part, shape, k, rng, first) for k in (kind, (kind + 1) % TRIALS))
        return made
    special = _special(dtype)
    size = int(np.prod(shape))
    if first >= 0:
        return np.resize(np.roll(special, -first), size).reshape(shape)
    if kind == 0:  # all of them, in an order that no axis repeats
        start = np.resize(special, size)
        return np.concatenate([start[: len(special)], rng.permutation(start[len(special) :])]).reshape(shape)
    if is_float(dtype):
        small = rng.integers(-3, 4, shape).astype(dtype) if kind == 1 else np.asarray(rng.normal(size=shape), dtype)
    else:
        info = np.iinfo(dtype)
        small = rng.integers(max(-5, int(info.min)), 100 if kind == 2 else 6, shape).astype(dtype)
    if kind < 3:
        return small
    return np.where(rng.random(shape) < 0.2, rng.choice(special, shape), small).astype(dtype)


def _special(dtype: str) -> NDArray:
    if is_float(dtype):
        top = float_info(dtype)
        numbers = [-0.0, 0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 2.5, float(top.tiny), -0.5, float(top.max)]
        return np.array(numbers, dtype)
    info = np.iinfo(dtype)
    return np.array([v for v in (0, 1, -1, info.max, info.min, 2, 7, -3) if info.min <= v <= info.max], dtype)
