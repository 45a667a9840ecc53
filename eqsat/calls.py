"""Programs that call functions over buffers, and layouts at the interface of such functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from eqsat.checking.equal import difference, inexact
from eqsat.checking.guard import differs
from eqsat.checking.programs import EVERY
from eqsat.checking.verdict import Difference
from eqsat.graph.rebuild import with_operands
from eqsat.ir.dtypes import BOOL, NDArray, is_float
from eqsat.ir.errors import EqsatError, EvaluationError, ShapeError, TypeMismatch
from eqsat.ir.given import listed, text, told
from eqsat.ir.statements.bind import at_sizes
from eqsat.ir.statements.called import Called, sizes_of
from eqsat.ir.statements.lane_loops import leaves_open, to_lane_loops
from eqsat.ir.statements.lanes import has_lanes
from eqsat.ir.statements.memory import numpy_dtype
from eqsat.ir.statements.names import cells_of, names_of
from eqsat.ir.statements.primfunc import PrimFunc, as_function
from eqsat.ir.statements.run import run_primfunc
from eqsat.ir.statements.sizes import numbers
from eqsat.ir.statements.ssa import with_own_names
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, BufferDecl, For, If, Stmt, Store, seq, statements, stmt_terms
from eqsat.ir.tensors.bind import program_symbols
from eqsat.ir.tensors.run import evaluate
from eqsat.ir.tensors.tensor import Compute, Node, Opaque, Program, Tensor, View, as_program
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.shape import format_shape, output_axes, same_dim, with_sizes
from eqsat.ir.terms.text import fresh_name
from eqsat.ir.terms.walk import postorder
from eqsat.passes.cells import accesses, has_loads
from eqsat.passes.flow import entry
from eqsat.passes.formula import as_formula
from eqsat.passes.liveness import live_after
from eqsat.passes.no_op import remove_assume
from eqsat.passes.recognise import as_view
from eqsat.scheduling.memory import family
from eqsat.scheduling.nest import index_map_in
from eqsat.scheduling.schedule import Schedule
from eqsat.verifying.runs import sizes_for

RUNS, SIZES, MOST = 2, 4, 2048
"""Runs in which a function is compared with its formula, at so many sizes where it has symbols, on whole numbers below
one that every float type has."""


def call(func: PrimFunc, arguments: Mapping[str, Tensor], free: Collection[str] = ()) -> dict[str, Tensor]:
    """What a function over buffers leaves in the parameters that it writes, as tensors by parameter.

    arguments: tensors by parameter. A parameter that is written may be left out where nobody can tell what it held
    before: each of its cells is written, none is read first. free: parameters whose layout `transform_calls` may
    change; the others are as the function declares them. The function is one operator, a barrier for layouts, which
    `eq.compile` calls compiled; `eq.optimize` takes one that moves elements (`eq.as_view`), or computes each cell of
    its result from cells, as the view or the formula that it is.

    >>> import eqsat as eq, numpy as np
    >>> twice = eq.PrimFunc.parse("func twice(x: int8[4], y: int8[4])\\n  for i in 4:\\n    y[i] = x[i] + x[i]")
    >>> x = eq.input("x", (4,), "int8")
    >>> y = call(twice, {"x": x.flip(0)})["y"]
    >>> eq.evaluate(y + x, {"x": np.arange(4, dtype="int8")})
    array([6, 5, 4, 3], dtype=int8)

    Errors: names, types and shapes that do not fit; a parameter that is needed; strides, offsets, and cells of results
    that are freed, of which a tensor has none.
    """
    func = with_own_names(as_function(func, "call"))
    what = f"call of {func.name}"
    if not isinstance(arguments, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise EqsatError(what, f"arguments {told(arguments)} are no dict of a tensor for each parameter")
    free = [text(name, f"{what} with free={told(free)}") for name in listed(free, what, f"free=[{free!r}]")]
    stmts = list(statements(func.body))
    written = [p for p in func.params if any(isinstance(s, Store) and s.buffer in family(func.body, p) for s in stmts)]
    unknown = sorted(({*arguments} | {*free}) - {*func.params})
    if unknown:
        raise EqsatError(what, f"there is no parameter {unknown[0]!r}", f"parameters are {', '.join(func.params)}")
    for name in func.params:
        _check_plain(what, func, name)
        if name in arguments:
            _check_argument(what, func, name, arguments[name])
        elif name not in written:
            raise EqsatError(what, f"{name} is read, and not given", "give a tensor for it")
        else:
            _check_result(what, func, name)
    if not written:
        raise EqsatError(what, "it writes no parameter")
    given = [p for p in func.params if p in arguments]
    sizes = sizes_of(func, {p: arguments[p].shape for p in given})
    outputs = [
        (tuple(with_sizes(d, sizes) for d in func.buffer_map[p].shape), func.buffer_map[p].dtype) for p in written
    ]
    attrs = {"function": func.to_json(), "given": tuple(given), "free": tuple(sorted(free))}
    impl = Called(func, tuple(given), tuple(written), _kernel, _formula)
    node = Opaque(f"call:{func.name}", [arguments[p] for p in given], outputs, attrs, None, impl)
    return {p: Tensor(node, k) for k, p in enumerate(written)}


@lru_cache(maxsize=256)
def _kernel(func: PrimFunc) -> Callable[..., Any]:
    from eqsat.backends.compile import compile

    return compile(func, target="c")


@lru_cache(maxsize=256)
def _formula(func: PrimFunc) -> Program | None:
    """The program of one view or formula that a function is, compared with it; None where it is none, or
    does more: what it assumes would be believed."""
    if any(isinstance(stmt, Assume) for stmt in statements(func.body)):
        return None
    found = _as_view(func)
    try:
        found = as_formula(func) if found is None else found
        problem = _unlike(func, found)
    except EqsatError:
        return None
    if problem:
        differs(f"the call of {func.name}", Difference(f"formula of {func.name}", problem))
        return None
    return found


def _as_view(func: PrimFunc) -> Program | None:
    if not all(_moves(stmt) for stmt in statements(func.body)):
        return None
    try:
        return as_view(func)
    except EqsatError:
        return None


def _moves(stmt: Stmt) -> bool:
    """Whether what a statement stores, if anything, is chosen among elements and numbers."""
    values = [stmt.value] if isinstance(stmt, Store) else []
    while values and values[-1].op in ("where", "load", "const"):
        value = values.pop()
        values += value.args[1:] if value.op == "where" else ()
    return not values


def _unlike(func: PrimFunc, found: Program) -> str:
    """What differs between a function and its formula, on elements that differ from each other, or ''."""
    if not func.symbols:
        return _unlike_at(func, found)
    shapes = [decl.shape for decl in func.buffer_map.values()]
    for trial in range(SIZES):
        sizes = sizes_for(shapes, trial)
        if sizes is None or not {*func.symbols} <= {*sizes}:
            return "no sizes fit"
        known = {s: int(n) for s, n in sizes.items()}
        sized = at_sizes(func, known)
        bound = found.bind({s: known[s] for s in program_symbols(found)})
        problem = _unlike_at(sized, bound)
        if problem:
            return f"{problem}, at {known}"
    return ""


def _unlike_at(func: PrimFunc, found: Program) -> str:
    (name,) = found.outputs
    small = sum(map(_cells, func.buffer_map.values())) <= EVERY
    run = partial(run_primfunc, func) if small else _kernel(func)
    exact = small or not inexact(*(term for stmt in statements(func.body) for term in stmt_terms(stmt)))
    exact = exact and not any(map(_is_rounded, found.nodes()))
    rng = np.random.default_rng(0)
    for _ in range(RUNS):
        arrays = {n: _scattered(decl, rng) for n, decl in func.buffer_map.items()}
        wanted: NDArray = evaluate(found, {x.name: arrays[x.name].copy() for x in found.inputs})
        run(arrays)
        problem = difference(arrays[name], wanted, exact)
        if problem:
            return problem
    return ""


def _is_rounded(node: Node) -> bool:
    """Whether a node combines floats, whose order says how the result is rounded."""
    return isinstance(node, Compute) and node.combiner in ("sum", "prod") and is_float(node.outputs[0][1])


def _cells(decl: BufferDecl) -> int:
    return prod(numbers(decl.shape, {}))


def _scattered(decl: BufferDecl, rng: np.random.Generator) -> NDArray:
    """Numbers of which few are alike, with both zeros."""
    values = rng.permutation(_cells(decl)) % MOST * rng.choice([-1.0, 1.0], _cells(decl))
    array = rng.random(values.shape) < 0.5 if decl.dtype == BOOL else values.astype(numpy_dtype(decl.dtype))
    return array.reshape(numbers(decl.shape, {}))


def _check_plain(what: str, func: PrimFunc, name: str) -> None:
    decl = func.buffer_map[name]
    if not decl.is_dense or decl.lanes > 1:
        raise EqsatError(what, f"{name} has strides, an offset or vectors", "a tensor is dense: declare it so")
    for s in statements(func.body):
        if isinstance(s, Store) and s.buffer in family(func.body, name) and leaves_open(s.value):
            raise EqsatError(what, f"cells of {name} are freed", "store a value there")


def _check_argument(what: str, func: PrimFunc, name: str, x: Tensor) -> None:
    decl = func.buffer_map[name]
    if not isinstance(x, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeMismatch(what, f"{name} is {x!r}, no tensor")
    if x.dtype != decl.dtype:
        raise TypeMismatch(what, f"{name} is {x.dtype}, declared {decl.dtype}", f"x.cast({decl.dtype!r})")
    fixed = [(a, b) for a, b in zip(x.shape, decl.shape, strict=False) if isinstance(b, int)]
    if x.rank != len(decl.shape) or not all(same_dim(a, b) for a, b in fixed):
        raise ShapeError(what, f"{name} has shape {format_shape(x.shape)}, declared {format_shape(decl.shape)}")


def _check_result(what: str, func: PrimFunc, name: str) -> None:
    """A parameter that is not given: what it held before is neither read nor left."""
    reason = held_before(func, name)
    if reason:
        raise EqsatError(what, reason, "give a tensor for it")


def held_before(func: PrimFunc, name: str) -> str:
    """Why it matters what a parameter held before a function ran: it is read, or left; '' where nobody can tell.

    >>> f = PrimFunc.parse("func f(x: int8[4], y: int8[4])\\n  for i in 3:\\n    y[i] = x[i]")
    >>> held_before(f, "y")
    'what y held before matters at y[3]: the caller sees it'
    """
    decl = func.buffer_map[name]
    func = to_lane_loops(func).func
    if has_lanes(func):
        return "" if _is_filled(func, name) else f"it is not known whether what {name} held before matters"
    axes = cells_of(name, decl.shape, names_of(func))
    before: Stmt = Store(name, axes, t.const(False if decl.dtype == BOOL else 0, decl.dtype))
    for axis in reversed(axes):
        before = For(axis, before)
    filled = PrimFunc(func.name, func.params, func.buffer_map, seq([before, func.body]))
    live = live_after(filled.body, (0,), accesses(before)[-1], entry(filled).roots)
    if live is None or _is_filled(func, name):
        return ""
    cell = live.witness.get("cell")
    where = "" if cell is None else f" at {name}[{', '.join(map(str, cell))}]"
    return f"what {name} held before matters{where}: {live.reason}"


def _is_filled(func: PrimFunc, name: str) -> bool:
    """Whether a function of few cells, in which no data say what happens, fills a parameter by itself: run on memory of
    which nothing is known, it leaves what is known."""
    decls = func.buffer_map.values()
    if func.symbols or sum(map(_cells, decls)) > EVERY or not all(map(_is_plain, statements(func.body))):
        return False
    local = {s.buffer.name for s in statements(func.body) if isinstance(s, Alloc | Alias)}
    outside = fresh_name("result", {*func.buffer_map, *local})
    decl = func.buffer_map[name]
    axes = output_axes(decl.shape)
    copied: Stmt = Store(outside, axes, t.make("load", axes, name, decl.scalar, decl.lanes))
    for axis in reversed(axes):
        copied = For(axis, copied)
    others = {n: d for n, d in func.buffer_map.items() if n != name}
    buffers = {**others, outside: replace(decl, name=outside)}
    body = remove_assume(func).body
    made = PrimFunc(func.name, tuple(buffers), buffers, Alloc(decl, seq([body, copied])))
    shapes = {n: (*numbers(d.shape, {}), *([d.lanes] if d.lanes > 1 else [])) for n, d in buffers.items()}
    arrays = {n: np.ones(shapes[n], numpy_dtype(d.scalar)) for n, d in buffers.items()}
    try:
        run_primfunc(made, arrays, track=True)
    except EvaluationError:
        return False
    return True


def _is_plain(stmt: Stmt) -> bool:
    """Whether no data say what a statement does and reads."""
    if isinstance(stmt, Assume) or not isinstance(stmt, If | Store):
        return True
    if isinstance(stmt, If) and has_loads(stmt.condition):
        return False
    terms = list(postorder(*stmt_terms(stmt)))
    lazy = [x.args[:1] if x.op == "where" else x.args for x in terms if x.op in ("where", "and", "or")]
    index = [x.args for x in terms if x.op == "load"] + ([stmt.index] if isinstance(stmt, Store) else [])
    return not any(has_loads(*found) for found in (*lazy, *index))


def transform_calls(
    program: Program | Tensor, func: str, buffer: str, index_map: Any, pad_value: Any = None
) -> Program:
    """The program with a parameter of a function in another layout: in the function, and so in all calls of it.

    The parameter has to be declared free in each call. Each call takes its tensor in the new layout, or gives it, and
    `eq.optimize` brings these changes of layout together with those around. pad_value: as in
    `eq.Schedule.transform_layout`; what the caller gives holds it. The padding of a result holds something: 0 where it
    may be anything, or where it must not be accessed. Raises EqsatError where there is no such call, or the layout is
    fixed, and ScheduleError where the function refuses it.

    >>> import eqsat as eq
    >>> f = eq.PrimFunc.parse('''func f(x: int8[2, 3], y: int8[2, 3])
    ...   for i in 2:
    ...     for j in 3:
    ...       y[i, j] = x[i, j]*x[i, 0]''')
    >>> y = call(f, {"x": eq.input("x", (3, 2), "int8").permute_dims((1, 0))}, free=["x"])["y"]
    >>> found = eq.optimize(transform_calls(y, "f", "x", "i, j -> j, i"))
    >>> eq.optimize(y).layout_ops, found.layout_ops
    (1, 0)
    """
    whole = as_program(program)
    what = f"transform_calls of {func}"
    calls = [
        n for n in whole.nodes() if isinstance(n, Opaque) and isinstance(n.impl, Called) and n.impl.func.name == func
    ]
    if not calls:
        raise EqsatError(what, "the program calls no such function")
    if pad_value is UNDEF and any(isinstance(n.impl, Called) and buffer in n.impl.results for n in calls):
        pad_value = 0  # the hole is filled
    changed: dict[PrimFunc, PrimFunc] = {}
    for node in calls:
        assert isinstance(node.impl, Called)
        original = node.impl.func
        if buffer not in original.params:
            raise EqsatError(what, f"there is no parameter {buffer!r}", f"parameters are {', '.join(original.params)}")
        if buffer not in node.attrs["free"]:
            raise EqsatError(what, f"the layout of {buffer} is fixed", f"call it with free=[{buffer!r}] everywhere")
        if original not in changed:
            schedule = Schedule(original)
            schedule.transform_layout(buffer, index_map, pad_value, interface="free")
            changed[original] = schedule.func
    if not changed:
        raise EqsatError(what, "the program calls no such function")
    return _with_calls(whole, changed, buffer, index_map, pad_value)


def _with_calls(
    program: Program, changed: dict[PrimFunc, PrimFunc], buffer: str, index_map: Any, pad_value: Any
) -> Program:
    table: dict[tuple[int, int], Tensor] = {}
    for node in program.nodes():
        operands = [table.get(x.key, x) for x in node.operands]
        same = all(a == b for a, b in zip(operands, node.operands, strict=True))
        new = node if same else with_operands(node, operands)
        results = {k: Tensor(new, k) for k in range(len(node.outputs))}
        if isinstance(new, Opaque) and isinstance(new.impl, Called) and new.impl.func in changed:
            results = _recalled(new, new.impl, changed[new.impl.func], buffer, index_map, pad_value)
        table.update({(node.serial, k): x for k, x in results.items()})
    return Program(program.inputs, {n: table.get(x.key, x) for n, x in program.outputs.items()}, program.name)


def _recalled(
    node: Opaque, found: Called, func: PrimFunc, buffer: str, index_map: Any, pad_value: Any
) -> dict[int, Tensor]:
    """A call of the function in the new layout: its results as the call before has them."""
    m = index_map_in("transform_calls", index_map, len(found.func.buffer_map[buffer].shape), found.func.symbols)
    arguments = dict(zip(found.given, node.operands, strict=True))
    if buffer in arguments:
        x = arguments[buffer]
        pads = not bool(m.is_bijective(x.shape))
        arguments[buffer] = x.layout_transform(
            m, pad_value=(UNDEF if pad_value is None else pad_value) if pads else None
        )
    decl = func.buffer_map[buffer]
    if pad_value is None and buffer not in arguments and decl.padding_steps:
        sizes = sizes_of(func, {p: x.shape for p, x in arguments.items()})
        zero = t.const(False if decl.dtype == BOOL else 0, decl.dtype)  # of cells that are never accessed
        arguments[buffer] = Tensor(Compute([], tuple(with_sizes(d, sizes) for d in decl.shape), zero))
    made = call(func, arguments, node.attrs["free"])
    results: dict[int, Tensor] = {}
    for k, name in enumerate(found.results):
        y = made[name]
        if name == buffer:
            shape = node.outputs[k][0]
            y = Tensor(View(y, shape, m.map_indices(output_axes(shape)), t.TRUE, None))
        results[k] = y
    return results
