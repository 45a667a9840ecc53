"""Terms as text in Python syntax, which `eqsat.ir.terms.parse` reads again.

Where a plain text would be long or deep, shared and deep subterms become assignments before the expression
(`t0 = ...; ...`), so that the size of the text is the size of the DAG.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

from eqsat.ir.dtypes import BOOL, INDEX, to_bits
from eqsat.ir.terms import term as t
from eqsat.ir.terms.parse import parse_expr
from eqsat.ir.terms.term import Term, const_value
from eqsat.ir.terms.walk import postorder

__all__ = [
    "MAX_DEPTH", "MAX_PRINTED", "format_term", "fresh_name", "leaf_name", "names_in", "needs_names", "parse_expr",
    "point_names", "printed_nodes", "source_name", "symbol_names",
]  # fmt: skip

MAX_PRINTED = 400
MAX_DEPTH = 40
MAX_DIGITS = 4000

_INFIX: dict[str, tuple[int, str]] = {
    "or": (1, " or "), "and": (2, " and "), "lt": (4, " < "), "le": (4, " <= "), "eq": (4, " == "), "ne": (4, " != "),
    "bitor": (5, " | "), "bitxor": (6, " ^ "), "bitand": (7, " & "), "shl": (8, " << "), "shr": (8, " >> "),
    "add": (9, " + "), "sub": (9, " - "), "mul": (10, "*"), "div": (10, " / "), "floordiv": (10, " // "),
    "mod": (10, " % "),
}  # fmt: skip
_NOT, _COMPARE, _SUM, _PRODUCT, _UNARY, _POWER, _ATOM = 3, 4, 9, 10, 11, 12, 20
_CALL_NAMES = {"min": "minimum", "max": "maximum"}

Printed = tuple[int, str]
"""How tightly the outermost operation of a text binds, and the text."""


def fresh_name(base: str, taken: Container[str]) -> str:
    """The name, or the first of base_1, base_2, ... that is free.

    >>> fresh_name("acc", {"acc", "acc_1"})
    'acc_2'
    """
    name, number = base, 0
    while name in taken:
        number += 1
        name = f"{base}_{number}"
    return name


def leaf_name(node: Term) -> str:
    """The name of an axis, variable or symbol; see `symbol_names` for symbols of one name."""
    if node.op == "axis":
        role, n = node.payload
        return f"{'i' if role == 'ax' else 'r'}{n}"
    return str(node.payload if node.op == "var" else node.payload[0])


def symbol_names(leaves: Iterable[Term]) -> dict[Term, str]:
    """Distinct names for the symbols among some leaves: the oldest of a name keeps it, the next is NAME_1.

    >>> from eqsat.ir.terms.term import sym
    >>> list(symbol_names([sym("N"), sym("M"), sym("N")]).values())
    ['N', 'N_1', 'M']
    """
    groups: defaultdict[str, dict[tuple[str, int], Term]] = defaultdict(dict)
    taken: set[str] = set()
    for leaf in leaves:
        if leaf.op != "sym":
            taken.add(leaf_name(leaf))
        else:
            groups[leaf_name(leaf)][t.symbol_facts(leaf).key, leaf.serial] = leaf
    kept = groups.keys() - taken
    taken |= groups.keys()
    found: dict[Term, str] = {}
    for name, symbols in groups.items():
        number = 0
        for place, (_, symbol) in enumerate(sorted(symbols.items())):
            found[symbol] = name
            while found[symbol] in taken and (place or name not in kept):
                number += 1
                found[symbol] = f"{name}_{number}"
            taken.add(found[symbol])
    return found


def point_names(leaves: Sequence[Term]) -> list[str]:
    """The names under which the coordinates of a point are shown, one for each leaf."""
    known = symbol_names(leaves)
    return [known.get(leaf) or leaf_name(leaf) for leaf in leaves]


def names_in(*terms: Term) -> dict[Term, str]:
    """The names of all axes, variables and symbols of some terms as their texts show them."""
    leaves = [n for n in postorder(*terms) if n.op in ("axis", "var", "sym")]
    return dict(zip(leaves, point_names(leaves), strict=True))


def source_name(source: Any) -> str:
    """The name of what a load reads: `$0` for operand 0, else the source's own name."""
    return f"${source}" if isinstance(source, int) else str(getattr(source, "name", source))


def _digits(value: int) -> str:
    """Python prints and reads at most 4300 decimal digits, but any number of hexadecimal ones."""
    return str(value) if value.bit_length() < 3 * MAX_DIGITS else hex(value)


def _number(node: Term) -> Printed:
    if node.dtype == BOOL:
        return _ATOM, "True" if node.payload else "False"
    if node.dtype == INDEX:
        return (_SUM if node.payload < 0 else _ATOM), _digits(node.payload)
    value = const_value(node)
    text = str(value)
    if "." in text and to_bits(float(text), node.dtype) != node.payload:
        text = repr(float(value))
    if text == "-0":  # of bfloat16, which is read as an integer otherwise
        text = "-0.0"
    return _ATOM, f"{node.dtype}({text})"


def _wrap(part: Printed, level: int) -> str:
    return part[1] if part[0] >= level else f"({part[1]})"


def _multiple(factor: int, node: Term, part: Printed) -> Printed:
    """factor * summand, for a factor of at least 1."""
    if factor == 1:
        return part if part[0] >= _PRODUCT else (_ATOM, f"({part[1]})")
    if node.op in ("floordiv", "mod") and part[0] == _PRODUCT:
        return _PRODUCT, f"{part[1]} * {_digits(factor)}"
    if node.op == "prod" and part[1].startswith("("):  # a factor before a sum would be multiplied into it
        return _PRODUCT, f"{part[1]}*{_digits(factor)}"
    return _PRODUCT, f"{_digits(factor)}*{part[1] if node.op == 'prod' else _wrap(part, _UNARY)}"


def _sum(node: Term, parts: Mapping[Term, Printed]) -> Printed:
    constant, items = t.linear_parts(node)
    shown = [(c < 0, -abs(c), _multiple(abs(c), x, parts[x]), x) for c, x in items]
    shown.sort(key=lambda item: (item[0], item[1], item[3].op != "prod", len(item[2][1]), item[2][1]))
    text = _digits(constant) if constant > 0 and shown[0][0] else ""
    for negative, size, (_, body), x in shown:
        if negative and not text and x.op in ("floordiv", "mod"):  # a leading minus binds before // and %
            text = f"-{'' if size == -1 else f'{_digits(-size)}*'}({parts[x][1]})"
        elif negative and not text and x.op == "prod" and body.startswith("("):
            text = f"-({body})"
        elif negative and not text:
            text = f"-{body}"
        else:
            text += ((" - " if negative else " + ") if text else "") + body
    if constant and not (constant > 0 and shown[0][0]):
        text += f" {'-' if constant < 0 else '+'} {_digits(abs(constant))}"
    single = len(shown) == 1 and not constant and not shown[0][0]
    return (_PRODUCT if single else _SUM), text


def _format(node: Term, parts: Mapping[Term, Printed], names: Mapping[Term, str]) -> Printed:
    op = node.op
    if op == "const":
        return _number(node)
    if op in ("axis", "var", "sym"):
        return _ATOM, names.get(node) or leaf_name(node)
    if op == "sum":
        return _sum(node, parts)
    args = [parts[a] for a in node.args]
    if op == "prod":
        return _PRODUCT, "*".join(sorted((_wrap(a, _UNARY) for a in args), key=lambda text: (len(text), text)))
    if op in _INFIX:
        level, sign = _INFIX[op]
        return level, sign.join(_wrap(a, level + (1 if level == _COMPARE or k else 0)) for k, a in enumerate(args))
    if op == "pow":
        return _POWER, f"{_wrap(args[0], _POWER + 1)}**{_wrap(args[1], _UNARY)}"
    if op == "not":
        return _NOT, f"not {_wrap(args[0], _NOT)}"
    if op == "neg":
        return _UNARY, f"-{_wrap(args[0], _UNARY)}"
    texts = ", ".join(a[1] for a in args)
    if op == "load":
        return _ATOM, f"{source_name(node.payload)}[{texts or '()'}]"
    if op == "cast":
        return _ATOM, f"cast({texts}, '{node.dtype}')"
    if op == "hole":
        return _ATOM, f"hole({node.payload}, '{node.dtype}'{', ' if texts else ''}{texts})"
    if op in ("ramp", "broadcast"):
        return _ATOM, f"{op}({texts}, {node.payload})"
    return _ATOM, f"{_CALL_NAMES.get(op, op)}({texts})"


def printed_nodes(term: Term) -> list[Term]:
    """What is printed, arguments first: the extents of axes are not."""
    found = list(postorder(term))
    extents = {a for n in found if n.op in ("axis", "var") for a in n.args}
    if not extents:
        return found
    return list(postorder(term, done=extents - set(_operands(found)) - {term}))


def _operands(nodes: list[Term]) -> Iterator[Term]:
    for n in nodes:
        if n.op not in ("axis", "var"):
            yield from n.args


def needs_names(nodes: list[Term]) -> tuple[dict[Term, int], bool]:
    """How often each node is used, and whether the plain text would be much longer than the DAG or too deep."""
    uses: dict[Term, int] = dict.fromkeys(nodes, 0)
    tree: dict[Term, int] = {}
    depth: dict[Term, int] = {}
    for n in nodes:
        args = () if n.op in ("axis", "var") else n.args
        tree[n] = 1 + sum(tree[a] for a in args)
        depth[n] = 1 + max((depth[a] for a in args), default=0)
        for a in args:
            uses[a] += 1
    last = nodes[-1]
    return uses, tree[last] > 2 * len(nodes) + 30 or depth[last] > MAX_DEPTH


def format_term(
    term: Term, limit: int | None = MAX_PRINTED, names: Mapping[Term, str] | None = None, used: Collection[str] = ()
) -> str:
    """The term in Python syntax; above `limit` distinct nodes an elided summary, which cannot be read again.

    `names` are those of its symbols where it stands beside other terms, `used` those that no shared subterm may get.

    >>> from eqsat.ir.terms.term import var
    >>> i = var("i")
    >>> format_term(i // 4 * 4 + i % 4 - 1)
    'i // 4 * 4 + i % 4 - 1'
    >>> for _ in range(5):
    ...     i = i * i + 1
    >>> format_term(i)
    't0 = i*i + 1; t1 = t0*t0 + 1; t2 = t1*t1 + 1; t3 = t2*t2 + 1; t3*t3 + 1'
    """
    nodes = printed_nodes(term)
    if limit is not None and len(nodes) > limit:
        return f"<{term.op} of {len(nodes)} nodes>"
    uses, name_shared = needs_names(nodes)
    leaves = [n for n in nodes if n.op in ("axis", "var", "sym")]
    if names is None and any(n.op == "sym" for n in leaves):
        names = symbol_names([*leaves, *(n for n in postorder(term) if n.op in ("axis", "var", "sym"))])
    shown = names or {}
    taken = {*used, *(shown.get(n) or leaf_name(n) for n in leaves)}
    fresh = (name for name in (f"t{k}" for k in range(len(nodes) + len(taken))) if name not in taken)
    parts: dict[Term, Printed] = {}
    depth: dict[Term, int] = {}
    lines: list[str] = []
    for n in nodes:
        parts[n] = _format(n, parts, shown)
        depth[n] = 1 + max((depth[a] for a in n.args if a in depth), default=0)
        worth_a_name = n is not term and n.args and n.op not in ("axis", "var")
        if name_shared and worth_a_name and ((uses[n] > 1 and len(parts[n][1]) > 6) or depth[n] > MAX_DEPTH):
            name = next(fresh)
            lines.append(f"{name} = {parts[n][1]}")
            parts[n], depth[n] = (_ATOM, name), 0
    return "; ".join([*lines, parts[term][1]])
