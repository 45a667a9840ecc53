"""Greedy fusion: which values get a buffer, and the bodies of the kernels that fill them.

Every View and every element-wise body is substituted into its consumer (the laws load-of-a-View, inline and absorb are
one substitution here), unless that repeats real work: then the value is materialised, as outputs and reductions are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from eqsat.backends.lowering.access import flat_index, load_claims
from eqsat.backends.lowering.index_simplifier import IndexSimplifier
from eqsat.backends.lowering.values import RESULT, Flat, Value
from eqsat.ir.dtypes import INDEX
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term, load
from eqsat.ir.terms.walk import dag_size, free_variables, nodes_of, postorder, substitute, transform

ROUNDING = ("floor", "ceil", "round", "trunc")
EXPENSIVE = frozenset({*t.FLOAT_UNARY, "pow", "div", "floordiv", "mod", "truncdiv", "truncmod"}) - {*ROUNDING}
CHEAP_OPERATIONS = 6
MAX_BODY = 400
"""A body of more nodes than this is not substituted further: the index terms of unaligned chains would pile up."""

MAX_AFTER = 100
"""A body of more nodes than this stays a kernel of its own behind a reduction."""


@dataclass(frozen=True)
class Fused:
    """The values with a buffer, bodies substituted, in order."""

    values: tuple[Value, ...]
    outputs: dict[str, str]


def is_cheap(body: Term) -> bool:
    """Whether evaluating the body again costs less than a pass over memory: one load and little arithmetic."""
    data = [n for n in postorder(body) if n.dtype != INDEX and n.op != "const"]
    loads = [n for n in data if n.op == "load"]
    return len(loads) <= 1 and len(data) <= CHEAP_OPERATIONS and not any(n.op in EXPENSIVE for n in data)


def reads(value: Value) -> list[str]:
    """The names of the values that a body loads, once for each different access."""
    if value.body is None:
        return []
    terms = [value.body] if value.after is None else [value.body, value.after]
    return [n.payload for n in nodes_of("load", *terms) if isinstance(n.payload, str) and n.payload != RESULT]


def _uses(flat: Flat) -> tuple[Counter[str], dict[str, float]]:
    """How many different accesses each value has, and how often its busiest consumer reads each of its elements."""
    accesses: Counter[str] = Counter()
    repeats: dict[str, float] = {}
    points = {v.name: v.points for v in flat.values}
    for value in flat.values:
        accesses.update(value.operands)
        extents = {t.ax(n, d): d for n, d in enumerate(value.shape)}
        extents |= {t.red(n, d): d for n, d in enumerate(value.reduce)}
        guarded = value.body is not None and bool(nodes_of("where", value.body))
        for node in nodes_of("load", value.body) if value.body is not None else ():
            if isinstance(node.payload, str):
                accesses[node.payload] += 1
                used = set(free_variables(node))
                again = float(prod(d for axis, d in extents.items() if axis not in used))
                if not guarded and points[node.payload]:
                    again = max(again, value.points / points[node.payload])
                repeats[node.payload] = max(repeats.get(node.payload, 0.0), again)
    return accesses, repeats


def fuse(flat: Flat, simplifier: IndexSimplifier) -> Fused:
    """Substitute what can be; answer the values that remain, each to be one kernel."""
    accesses, repeats = _uses(flat)
    wanted = set(flat.outputs.values())
    for value in flat.values:
        wanted.update(value.operands)
    inlined: dict[str, Value] = {}
    kept: list[Value] = []

    def change(node: Term) -> Term | None:
        source = inlined.get(node.payload) if node.op == "load" and isinstance(node.payload, str) else None
        if source is None or source.body is None:
            return None
        axes = {t.ax(n, d): i for n, (d, i) in enumerate(zip(source.shape, node.args, strict=True))}
        return substitute(source.body, axes)

    for value in flat.values:
        if value.kind == "constant" and value.array is not None and value.array.size == 1:
            inlined[value.name] = replace(value, body=t.const(value.array.reshape(-1)[0], value.dtype))
            if value.name in wanted:
                kept.append(value)
            continue
        if value.body is None:
            kept.append(value)
            continue
        steps = [s for name in dict.fromkeys(reads(value)) if name in inlined for s in inlined[name].steps]
        body = simplifier.simplify(transform(value.body, change))
        value = replace(value, body=body, steps=(*dict.fromkeys(steps), value.label))
        work_grows = accesses[value.name] > 1 or repeats.get(value.name, 0.0) > 2
        if (
            value.name in wanted
            or value.combiner is not None
            or dag_size(body) > MAX_BODY
            or (work_grows and not is_cheap(body))
        ):
            kept.append(value)
        else:
            inlined[value.name] = value
    return Fused(fuse_epilogues(_needed(kept, flat.outputs), wanted, simplifier), dict(flat.outputs))


def _needed(kept: list[Value], outputs: dict[str, str]) -> tuple[Value, ...]:
    """Without the values that nothing reads; inputs stay, they are the program's signature."""
    alive = set(outputs.values())
    result: list[Value] = []
    for value in reversed(kept):
        if value.kind == "host" and value.operator is not None and not value.operator.pure:
            alive.add(value.name)
        if value.name in alive or value.kind == "input":
            result.append(value)
            alive.update(value.operands)
            alive.update(reads(value))
    return tuple(reversed(result))


def fuse_epilogues(values: tuple[Value, ...], wanted: set[str], simplifier: IndexSimplifier) -> tuple[Value, ...]:
    """An element-wise value that alone reads a reduction, each element at its own place, is applied to the result
    where it is stored: a bias, an activation, a residual, the division of a mean."""
    readers = Counter(name for v in values for name in reads(v))
    by_name = {v.name: v for v in values}
    result = {v.name: v for v in values}
    for value in values:
        for name in dict.fromkeys(reads(value)) if value.combiner is None else ():
            source = by_name[name]
            if source.combiner is not None and readers[name] == 1 and name not in wanted and all(source.reduce):
                joined = _after(source, value, by_name, simplifier)
                if joined is not None:
                    del result[name]
                    result[value.name] = joined
                    break
    return tuple(result.values())


def _after(source: Value, value: Value, by_name: Mapping[str, Value], simplifier: IndexSimplifier) -> Value | None:
    """A reduction and the element-wise value of its result as one; None where elements are not at the same place."""
    body = value.body
    if body is None or source.body is None or prod(source.shape) != prod(value.shape) or dag_size(body) > MAX_AFTER:
        return None
    (node,) = (n for n in nodes_of("load", body) if n.payload == source.name)
    axes = [t.ax(n, d) for n, d in enumerate(value.shape)]
    there, here = flat_index(node.args, source.shape), flat_index(axes, value.shape)
    single = {a: t.index_const(0) for a, d in zip(axes, value.shape, strict=True) if d == 1}
    if simplifier.simplify(substitute(there - here, single)) is not t.index_const(0):
        return None
    shapes = {name: v.shape for name, v in by_name.items()}
    if load_claims(body, shapes, simplifier):
        return None
    after = transform(body, lambda n: load(RESULT, [], n.dtype) if n is node else None)
    places = {t.ax(n, d): i for n, (d, i) in enumerate(zip(source.shape, node.args, strict=True))}
    inner = simplifier.simplify(substitute(source.body, places))
    joined = replace(value, steps=(*source.steps, *value.steps), body=inner, after=after)
    return replace(joined, reduce=source.reduce, combiner=source.combiner, ordered=source.ordered)
