"""Wrong rules made of right ones by one small change each, and a judge that shares no code with the prover: sides are
written as Python expressions and tried at numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import numpy as np

from eqsat.ir.errors import EqsatError
from eqsat.ir.rule import Instance, Kind, Rule, variable
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder, transform

GRID, RANDOM = 3_000, 1_500
TRIED = ("", "int8", "uint8", "float16")
DIVIDES = ("floordiv", "mod", "truncdiv", "truncmod")
SWAPPED = (*DIVIDES, "lt", "le", "shl", "shr", "sub")
OTHER = {
    "min": "max", "max": "min", "lt": "le", "le": "lt", "floordiv": "mod", "mod": "floordiv", "bitand": "bitor",
    "bitor": "bitxor", "bitxor": "bitor", "add": "sub", "eq": "ne", "truncdiv": "floordiv", "truncmod": "mod",
}  # fmt: skip


# -- the judge --------------------------------------------------------------------------------------------------------


class Undefined(Exception):
    """A term that has no value at a point."""


def _shift(a: int, k: int, left: bool) -> int:
    if not 0 <= k <= t.MAX_SHIFT:
        raise Undefined
    return a << k if left else a >> k


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _present(value: Any) -> Any:
    if value is None:
        raise Undefined
    return value


def _remaining(a: int, b: int) -> int:
    return a - b * _truncated(a, b)


NAMES: dict[str, Any] = {"shift": _shift, "tdiv": _truncated, "tmod": _remaining, "np": np, "value": _present}
INDEX_TEXT = {
    "floordiv": "({} // {})", "mod": "({} % {})", "truncdiv": "tdiv({}, {})", "truncmod": "tmod({}, {})",
    "min": "min({}, {})", "max": "max({}, {})", "abs": "abs({})", "bitand": "({} & {})", "bitor": "({} | {})",
    "bitxor": "({} ^ {})", "shl": "shift({}, {}, True)", "shr": "shift({}, {}, False)", "lt": "({} < {})",
    "le": "({} <= {})", "eq": "({} == {})", "ne": "({} != {})", "not": "(not {})", "where": "({1} if {0} else {2})",
}  # fmt: skip
DATA_TEXT = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "div": "({} / {})", "neg": "(-{})", "bitnot": "(~{})",
    "abs": "np.abs({})", "min": "np.minimum({}, {})", "max": "np.maximum({}, {})", "bitand": "({} & {})",
    "bitor": "({} | {})", "bitxor": "({} ^ {})", "where": "({1} if {0} else {2})",
}  # fmt: skip


def python_text(term: Term, names: Mapping[Term, str]) -> str:
    """The term as a Python expression over named values, evaluated as lazily as the language says."""
    text: dict[Term, str] = {}
    for node in postorder(term):
        below = [text[a] for a in node.args]
        if node.op == "var":
            text[node] = f"value({names[node]})"
        elif node.op == "const":
            number = t.const_value(node)
            text[node] = f"({int(number)})" if node.dtype == "index" else f"({number!r})"
        elif node.op == "sum":
            constant, coefficients = node.payload
            text[node] = f"({constant}{''.join(f' + {c}*{a}' for c, a in zip(coefficients, below, strict=True))})"
        elif node.op == "prod":
            text[node] = f"({' * '.join(below)})"
        elif node.op in ("and", "or"):
            text[node] = f"({f' {node.op} '.join(below)})"
        elif node.dtype in ("index", "bool"):
            text[node] = INDEX_TEXT[node.op].format(*below)
        else:
            text[node] = DATA_TEXT[node.op].format(*below)
    return text[term]


@dataclass(frozen=True)
class Theorem:
    """An instance of a rule, ready to be tried."""

    names: tuple[str, ...]
    choices: tuple[tuple[Any, ...], ...]  # small values first
    wide: tuple[tuple[Any, ...], ...]
    sides: tuple[CodeType, CodeType]
    conditions: tuple[CodeType, ...]
    floats: bool


def theorem(rule: Rule, instance: Instance) -> Theorem:
    """The instance as Python expressions with the values to try."""
    variables = [(variable(p, instance.dtype), p.kind) for p in rule.parameters]
    names = {v: f"v_{v.payload}" for v, _ in variables}
    lazy = any(n.op in ("where", "and", "or") for n in postorder(instance.left, instance.right))
    numbers = {abs(k) for n in postorder(instance.left, instance.right, *instance.conditions) for k in _numbers(n)}
    near = sorted({k + d for k in numbers if 1 < k < 1 << 40 for d in (-1, 0, 1)})
    choices: list[tuple[Any, ...]] = []
    wide: list[tuple[Any, ...]] = []
    for v, kind in variables:
        missing = (None,) if lazy and kind not in (Kind.POS, Kind.NUM, Kind.TOTAL) else ()
        small, large = _values(v.dtype, kind, near)
        choices.append((*small, *missing))
        wide.append((*small, *large, *missing))

    def compiled(side: Term) -> CodeType:
        return compile(python_text(side, names), "rule", "eval")

    sides = compiled(instance.left), compiled(instance.right)
    conditions = tuple(compiled(c) for c in instance.conditions)
    return Theorem(
        tuple(names.values()), tuple(choices), tuple(wide), sides, conditions, instance.left.dtype.startswith("float")
    )


def _numbers(node: Term) -> Sequence[int]:
    if node.op == "sum":
        return node.payload[0], *node.payload[1]
    return (node.payload,) if node.op == "const" and node.dtype == "index" else ()


def _values(dtype: str, kind: Kind, near: Sequence[int]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Small values, and large ones."""
    if dtype == "bool":
        return (False, True), ()
    if kind is Kind.POS:
        return tuple(range(1, 7)), (*(k for k in near if k > 0), 7, 8, 12, 16, 30)
    if dtype == "index":
        small = sorted(range(-6, 8), key=abs)
        return tuple(small), (*near, *(-k for k in near), *range(8, 40, 3), *range(-40, -8, 5), 1000, -1000)
    if kind is Kind.ANY:
        return (np.float32(1), np.float32(2), np.float32(3)), ()
    if dtype.startswith("float"):
        special = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, 3.0, -2.5)
        return tuple(np.dtype(dtype).type(x) for x in special), ()
    info = np.iinfo(dtype)
    return tuple(np.dtype(dtype).type(x) for x in range(int(info.min), int(info.max) + 1)), ()


def differs_at(rule: Theorem, point: Sequence[Any]) -> bool:
    """Whether a rule is wrong at a point: the conditions hold, the left side has a value, the right one not that."""
    scope = {**NAMES, **dict(zip(rule.names, point, strict=True))}
    try:
        if not all(eval(c, scope) for c in rule.conditions):
            return False
        left = eval(rule.sides[0], scope)
    except (Undefined, ZeroDivisionError):
        return False
    try:
        right = eval(rule.sides[1], scope)
    except (Undefined, ZeroDivisionError):
        return True
    if rule.floats:
        both = bool(np.isnan(left) and np.isnan(right))
        return not both and not (left == right and np.signbit(left) == np.signbit(right))
    return bool(left != right)


def wrong_at(rule: Theorem, seed: int = 0) -> tuple[Any, ...] | None:
    """A point at which a rule is wrong, of a grid of small values and of random ones; None where none was found."""
    with np.errstate(all="ignore"):
        for point in _points(rule, seed):
            if differs_at(rule, point):
                return point
    return None


def _points(rule: Theorem, seed: int) -> Iterator[tuple[Any, ...]]:
    count = 1
    while count < 14 and _size(rule, count + 1) <= GRID:
        count += 1
    widths = [c if len(c) > 14 and len(rule.choices) <= 2 else (*c[:count], *c[-1:]) for c in rule.choices]
    yield from itertools.product(*widths)
    draw = random.Random(seed)
    for values in (rule.choices, rule.wide):
        for _ in range(RANDOM):
            yield tuple(draw.choice(v) for v in values)


def _size(rule: Theorem, count: int) -> int:
    return int(np.prod([min(count, len(c)) for c in rule.choices], dtype=object))


# -- the mutants ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A rule with one change, of one kind."""

    rule: Rule
    change: str

    @property
    def instance(self) -> Instance:
        return self.rule.instances[0]


def mutants(rules: Sequence[Rule], count: int, seed: int) -> list[Mutant]:
    """So many different mutants, spread over the rules in a random order."""
    draw = random.Random(seed)
    pools = [list(_mutants_of(rule)) for rule in rules]
    for pool in pools:
        draw.shuffle(pool)
    draw.shuffle(pools)
    found: list[Mutant] = []
    while len(found) < count and any(pools):
        for pool in pools:
            if pool and len(found) < count:
                found.append(pool.pop())
    return found


def _mutants_of(rule: Rule) -> Iterator[Mutant]:
    instance = next((i for i in rule.instances if i.dtype in TRIED), None)
    if instance is None:
        return
    changes = [("dropped condition", i) for i in _without(instance)]
    changes += [
        (change, replace(instance, **{side: made}))
        for side in ("left", "right")
        for change, made in _changed(getattr(instance, side))
    ]
    for k, condition in enumerate(instance.conditions):
        for change, made in _changed(condition):
            rest = (*instance.conditions[:k], made, *instance.conditions[k + 1 :])
            changes.append((f"{change} in a condition", replace(instance, conditions=rest)))
    for n, (change, made) in enumerate(changes):
        if made.left is not made.right and made.left.op not in ("var", "const"):
            plain = replace(made, hints=(), choices=())
            yield Mutant(replace(rule, name=f"{rule.name}~{n}", family="mutants", instances=(plain,)), change)


def _without(instance: Instance) -> Iterator[Instance]:
    for k in range(len(instance.conditions)):
        yield replace(instance, conditions=instance.conditions[:k] + instance.conditions[k + 1 :])


def _changed(root: Term) -> Iterator[tuple[str, Term]]:
    """The term with one node changed, for all nodes and ways."""
    for node in list(postorder(root)):
        for change, make in _ways(node):
            try:
                other = make()
                made = transform(root, lambda n, old=node, new=other: new if n is old else None)
            except (EqsatError, ArithmeticError):
                continue
            if made is not root and made.op != "const":
                yield change, made


def _ways(node: Term) -> Iterator[tuple[str, Callable[[], Term]]]:
    if node.op == "const" and node.dtype == "index":
        yield "changed constant", lambda: t.index_const(node.payload + 1)
    if node.op == "sum":
        constant, items = t.linear_parts(node)
        yield "changed constant", lambda: t.linear(constant + 1, items)
        yield "changed constant", lambda: t.linear(constant - 1, items)
        for k, (c, x) in enumerate(items):
            new = -c if abs(c) == 1 else c + 1
            yield (
                "changed coefficient",
                lambda k=k, x=x, new=new: t.linear(constant, [*items[:k], (new, x), *items[k + 1 :]]),
            )
    if node.op in SWAPPED and node.args[0] is not node.args[1]:
        yield "swapped operand", lambda: t.rebuild(node, node.args[::-1])
    if node.op == "where":
        yield "swapped operand", lambda: t.rebuild(node, [node.args[0], node.args[2], node.args[1]])
    if node.op in OTHER:
        other = OTHER[node.op]
        if other in t.COMPARE:
            yield "another operation", lambda: t.compare(other, *node.args)
        else:
            yield "another operation", lambda: t.binary(other, *node.args)
    if node.op in ("and", "or"):
        yield "another operation", lambda: t.junction("or" if node.op == "and" else "and", node.args)


# -- the verdicts -----------------------------------------------------------------------------------------------------


def judged(mutant: Mutant, status: str, witness: Mapping[str, Any] | None) -> str:
    """What came of a mutant: refuted, unknown, equivalent (proved, and no point was found where it is wrong), or a
    defect of the prover: "WRONG PROVED", "NO WITNESS" (the values that refute it do not)."""
    ready = theorem(mutant.rule, mutant.instance)
    if status == "refuted":
        values = [None if x == "undefined" else x for x in (witness or {}).values()]
        if len(values) != len(ready.names):
            return "NO WITNESS"
        kinds: list[Any] = [type(c[0]) for c in ready.choices]
        point = [v if v is None else k(v) for v, k in zip(values, kinds, strict=True)]
        with np.errstate(all="ignore"):
            return "refuted" if differs_at(ready, point) else "NO WITNESS"
    wrong = wrong_at(ready)
    if status == "proved":
        return "equivalent" if wrong is None else "WRONG PROVED"
    return "unknown" if wrong is None else "unknown, wrong"
