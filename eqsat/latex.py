"""Terms, and the steps of explanations, as LaTeX: printed by sympy, as they are written."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from eqsat.ir.dtypes import BOOL, INDEX, is_float
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import MAX_DEPTH, fresh_name, names_in, needs_names, printed_nodes, source_name
from eqsat.ir.terms.walk import postorder

_BITS: dict[str, tuple[str, Callable[[int, int], int]]] = {
    "bitand": (r"\mathbin{\&}", int.__and__), "bitor": (r"\mathbin{|}", int.__or__), "bitxor": (r"\oplus", int.__xor__),
    "shl": (r"\ll", int.__lshift__), "shr": (r"\gg", int.__rshift__),
}  # fmt: skip
_SAME_NAME = (
    "exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
    "atanh", "floor",
)  # fmt: skip
_OTHER_NAME = {
    "min": "Min", "max": "Max", "lt": "Lt", "le": "Le", "eq": "Eq", "ne": "Ne", "and": "And", "or": "Or", "not": "Not",
    "abs": "Abs", "ceil": "ceiling", "pow": "Pow", "add": "Add", "mul": "Mul", "prod": "Mul", "mod": "Mod",
}  # fmt: skip


def latex(term: Term) -> str:
    r"""A term as LaTeX, parts in the order in which the term has them.

    >>> from eqsat.ir.terms.term import var, where
    >>> i, j = var("i"), var("j")
    >>> print(latex(i // 4 * 4 + i % 4))
    \left(i \bmod 4\right) + 4 \left\lfloor{\frac{i}{4}}\right\rfloor
    >>> print(latex(where(i < 14, i ^ j, 0)))
    \begin{cases} \left(i \oplus j\right) & \text{for}\: i < 14 \\0 & \text{otherwise} \end{cases}

    As in a term's text, shared and deep parts get names where it would be long or deep without.

    >>> for _ in range(4):
    ...     i = i * i // 3
    >>> print(latex(i).partition(r",\quad")[0])
    t_{0} = \left\lfloor{\frac{i i}{3}}\right\rfloor
    """
    sp: Any = importlib.import_module("sympy")
    nodes = printed_nodes(term)
    uses, needed = needs_names(nodes)
    if not needed:
        return str(sp.latex(as_sympy(term), order="none"))
    names, lines = names_in(term), list[str]()
    taken, done, depth = set(names.values()), dict[Term, Any](), dict[Term, int]()
    for node in nodes:
        leaf = node in names or not node.args
        done[node] = _leaf(node, names) if node in names else _made(node, [done[a] for a in node.args])
        depth[node] = 0 if leaf else 1 + max(depth[a] for a in node.args)
        if node is not term and not leaf and (uses[node] > 1 or depth[node] > MAX_DEPTH):
            name = sp.Symbol(fresh_name(f"t{len(lines)}", taken))
            lines.append(f"{sp.latex(name)} = {sp.latex(done[node], order='none')}")
            done[node], depth[node] = name, 0
            taken.add(name.name)
    return r",\quad ".join([*lines, str(sp.latex(done[term], order="none"))])


def as_sympy(term: Term) -> Any:
    """A term as a sympy expression that sympy has not simplified.

    >>> from eqsat.ir.terms.term import var
    >>> as_sympy(var("i") // 4 * 4).subs("i", 7)
    4

    Arithmetic of data is that of real numbers here; what sympy has no word for is a function of the term's name.
    """
    names = names_in(term)
    done: dict[Term, Any] = {}
    for node in postorder(term):
        done[node] = _leaf(node, names) if node in names else _made(node, [done[a] for a in node.args])
    return done[term]


def _leaf(node: Term, names: Mapping[Term, str]) -> Any:
    return importlib.import_module("sympy").Symbol(names[node])


def _made(node: Term, args: list[Any]) -> Any:
    sp: Any = importlib.import_module("sympy")
    op = node.op
    if op == "const":
        return _number(node, sp)
    if op == "sum":
        constant, parts = node.payload[0], zip(node.payload[1], args, strict=True)
        summands = [x if c == 1 else sp.Mul(sp.Integer(int(c)), x, evaluate=False) for c, x in parts]
        summands += [sp.Integer(int(constant))] if constant else []
        return summands[0] if len(summands) == 1 else sp.Add(*summands, evaluate=False)
    if op == "where" and node.dtype == BOOL:
        return sp.ITE(*args, evaluate=False)
    if op == "where":
        return sp.Piecewise((args[1], args[0]), (args[2], True), evaluate=False)
    if op in ("sub", "neg"):
        minus = sp.Mul(sp.Integer(-1), args[-1], evaluate=False)
        return minus if op == "neg" else sp.Add(args[0], minus, evaluate=False)
    if op in ("div", "floordiv"):
        ratio = sp.Mul(args[0], sp.Pow(args[1], sp.Integer(-1), evaluate=False), evaluate=False)
        return ratio if op == "div" else sp.floor(ratio, evaluate=False)
    if op in _BITS and node.dtype == INDEX:
        return _bits(op)(*args, evaluate=False)
    if op in _OTHER_NAME or op in _SAME_NAME:
        return getattr(sp, _OTHER_NAME.get(op, op))(*args, evaluate=False)
    if op == "load":
        base = sp.Symbol(source_name(node.payload).replace("$", r"\$"))
        made = sp.Indexed(sp.IndexedBase(base), *args) if args else base
    else:
        name = node.dtype if op == "cast" else f"U_{node.payload}" if op == "hole" else op
        made = sp.Function(name)(*args, *([sp.Integer(node.payload)] if op in ("ramp", "broadcast") else []))
    return sp.Ne(made, 0, evaluate=False) if node.dtype == BOOL else made


def _number(node: Term, sp: Any) -> Any:
    value = t.const_value(node)
    if node.dtype == BOOL:
        return sp.true if value else sp.false
    if not is_float(node.dtype):
        return sp.Integer(int(value))
    if np.isfinite(value):
        return sp.Float(repr(float(value)))
    return sp.nan if np.isnan(value) else sp.oo if value > 0 else -sp.oo


@cache
def _bits(op: str) -> Any:
    """An operation on bits as a function that sympy prints between its arguments and works out on numbers."""
    sp: Any = importlib.import_module("sympy")
    sign, meaning = _BITS[op]

    def of_numbers(_: Any, a: Any, b: Any) -> Any:
        return sp.Integer(meaning(int(a), int(b))) if a.is_Integer and b.is_Integer else None

    def printed(self: Any, printer: Any, **_: Any) -> str:
        return rf"\left({f' {sign} '.join(printer.doprint(a) for a in self.args)}\right)"

    return type(op, (sp.Function,), {"eval": classmethod(of_numbers), "_latex": printed, "is_integer": True})
