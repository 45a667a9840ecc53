"""Index maps and index terms to and from Apache TVM (0.27 or later: `pip install apache-tvm`)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.errors import FrontendError, MissingPackage
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.leaves import int_value
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name
from eqsat.ir.terms.walk import postorder

INDEX_DTYPE = "int64"
_LARGEST = 1 << 63
_FUNCTION = {
    "floordiv": "floordiv", "mod": "floormod", "truncdiv": "truncdiv", "truncmod": "truncmod", "min": "min",
    "max": "max", "bitand": "bitwise_and", "bitor": "bitwise_or", "bitxor": "bitwise_xor", "shl": "shift_left",
    "shr": "shift_right", "abs": "abs", "lt": "LT", "le": "LE", "eq": "EQ", "ne": "NE", "not": "Not",
}  # fmt: skip
_BINARY_NODE = {
    "FloorDiv": "floordiv", "FloorMod": "mod", "Div": "truncdiv", "Mod": "truncmod", "Min": "min", "Max": "max",
    "BitwiseAnd": "bitand", "BitwiseOr": "bitor", "BitwiseXor": "bitxor", "LShift": "shl", "RShift": "shr",
}  # fmt: skip
_BUILD: dict[str, Callable[[Term, Term], Term]] = {
    "Add": t.add, "Sub": t.sub, "Mul": t.mul,
    "LT": lambda a, b: t.compare("lt", a, b), "LE": lambda a, b: t.compare("le", a, b),
    "GT": lambda a, b: t.compare("lt", b, a), "GE": lambda a, b: t.compare("le", b, a),
    "EQ": lambda a, b: t.compare("eq", a, b), "NE": lambda a, b: t.compare("ne", a, b),
    "And": t.logical_and, "Or": t.logical_or,
}  # fmt: skip


def _module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingPackage("Apache TVM", str(error), "pip install apache-tvm") from error


def to_tvm(term: Term, variables: Mapping[Term, Any]) -> Any:
    """An index term or predicate as a TVM expression over int64; `variables` holds TVM's for ours.

    Raises FrontendError for what TVM's expressions do not have: loads from tables, numbers beyond int64.
    """
    tirx = _module("tvm.tirx")
    done: dict[Term, Any] = dict(variables)
    for node in postorder(term, done=variables):
        done[node] = _to_node(tirx, node, [done[a] for a in node.args if a in done])
    return done[term]


def _number(tirx: Any, value: int) -> Any:
    if not -_LARGEST <= value < _LARGEST:
        raise FrontendError(f"TVM expression for {value}", "beyond int64")
    return tirx.const(value, INDEX_DTYPE)


def _to_node(tirx: Any, node: Term, args: list[Any]) -> Any:
    op = node.op
    if op == "const" and node.dtype in (INDEX, BOOL):
        return _number(tirx, node.payload) if node.dtype == INDEX else tirx.const(node.payload, BOOL)
    if op == "sum":
        constant, coefficients = node.payload
        total: Any = None
        for c, a in zip(coefficients, args, strict=True):
            part = a if c == 1 else a * _number(tirx, c)
            total = part if total is None else total + part
        return total + _number(tirx, constant) if constant else total
    if op == "prod":
        total = args[0]
        for a in args[1:]:
            total = total * a
        return total
    if op in ("and", "or"):
        return (tirx.all if op == "and" else tirx.any)(*args)
    if op == "where":
        return tirx.if_then_else(*args)
    operands = node.args
    if op in _FUNCTION and all(a.dtype in (INDEX, BOOL) for a in operands):
        return getattr(tirx, _FUNCTION[op])(*args)
    raise FrontendError(f"TVM expression for {node}", f"TVM has no {op} in an index")


def from_tvm(expression: Any, variables: Mapping[str, Term]) -> Term:
    """A TVM expression as a term; `variables` holds ours by the names of TVM's.

    Raises FrontendError for a node without a meaning as an index term or predicate.
    """
    stack: list[tuple[Any, bool]] = [(expression, False)]
    results: list[Term] = []
    while stack:
        node, ready = stack.pop()
        children = _children(node)
        if children and not ready:
            stack.append((node, True))
            stack.extend((c, False) for c in reversed(children))
            continue
        args = [results.pop() for _ in children][::-1]
        results.append(_from_node(node, args, variables))
    return results[0]


def _children(node: Any) -> list[Any]:
    kind = type(node).__name__
    if kind in _BINARY_NODE or kind in _BUILD:
        return [node.a, node.b]
    if kind == "Select":
        return [node.condition, node.true_value, node.false_value]
    if kind == "Not":
        return [node.a]
    if kind == "Cast":
        return [node.value]
    return list(node.args) if kind == "Call" else []


def _from_node(node: Any, args: list[Term], variables: Mapping[str, Term]) -> Term:
    kind = type(node).__name__
    if kind == "IntImm":
        return t.bool_const(bool(node.value)) if _is_bool(node) else t.index_const(int(node.value))
    if kind == "Var" and node.name in variables:
        return variables[node.name]
    if kind in _BINARY_NODE:
        return t.binary(_BINARY_NODE[kind], *args)
    if kind in _BUILD:
        return _BUILD[kind](*args)
    if kind == "Not":
        return t.logical_not(*args)
    if kind == "Select" or (kind == "Call" and node.op.name.endswith("if_then_else")):
        return t.where(*args)
    if kind == "Cast" and args[0].dtype == INDEX and not _is_bool(node):
        return args[0]
    raise FrontendError(f"term for TVM's {node}", f"no meaning for {kind} in an index")


def _is_bool(node: Any) -> bool:
    return str(getattr(node, "ty", None) or node.dtype).strip("()").endswith("bool")


def map_to_tvm(m: IndexMap) -> Any:
    """The `tvm.tirx.IndexMap` of a map, without its given inverse.

    Raises FrontendError where an output has no TVM expression, LayoutError for the identity of any rank.
    """
    if not m.names:
        raise FrontendError(f"TVM index map of {m}", "the identity of any rank", "use IndexMap.identity(rank)")
    tirx = _module("tvm.tirx")
    inputs = {v: tirx.Var(leaf_name(v), INDEX_DTYPE) for v in m.inputs}
    return tirx.IndexMap(list(inputs.values()), [to_tvm(o, inputs) for o in m.outputs], None)


def map_from_tvm(index_map: Any) -> IndexMap:
    """The map of a `tvm.tirx.IndexMap`."""
    names = [str(v.name) for v in index_map.initial_indices]
    if len(set(names)) != len(names):
        raise FrontendError(f"index map {index_map}", "two inputs have one name")
    known = {name: t.var(name) for name in names}
    return IndexMap(tuple(names), tuple(from_tvm(o, known) for o in index_map.final_indices))


def shape_from_tvm(shape: Any) -> tuple[int, ...]:
    """A shape of TVM as numbers; FrontendError where it has symbols."""
    numbers = [int_value(from_tvm(e, {})) for e in shape]
    known = [n for n in numbers if n is not None]
    if len(known) != len(numbers):
        raise FrontendError(f"shape {shape}", "not all numbers")
    return tuple(known)
