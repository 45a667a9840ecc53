"""Index terms and maps in isl's own notation, so that isl is asked as its users ask it: by text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from eqsat.ir.dtypes import BOOL
from eqsat.ir.errors import FrontendError
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder, substitute

_COMPARE = {"lt": "<", "le": "<=", "eq": "=", "ne": "!="}
_NEGATED = {"lt": ">=", "le": ">", "eq": "!=", "ne": "="}


MOST_PIECES = 32


def _fail(node: Term) -> FrontendError:
    return FrontendError(f"isl text for {node}", f"{node.op} is not quasi-affine")


def _integer(node: Term, args: Sequence[str]) -> str:
    op = node.op
    number = node.args[1].payload if len(args) == 2 and node.args[1].op == "const" else None
    if op == "const":
        return str(node.payload)
    if op == "var":
        return str(node)
    if op == "sum":
        constant, coefficients = node.payload
        return f"({' + '.join(f'{c}*{a}' for c, a in zip(coefficients, args, strict=True))} + {constant})"
    if op in ("min", "max"):
        return f"{op}({args[0]}, {args[1]})"
    if op == "abs":
        return f"max({args[0]}, -{args[0]})"
    if op == "shr" and number is not None and number >= 0:
        op, number = "floordiv", 1 << number
    if op == "bitand" and number is not None and number >= 0 and number & (number + 1) == 0:
        op, number = "mod", number + 1
    if op == "shl" and number is not None and 0 <= number < 60:
        return f"({1 << number}*{args[0]})"
    if number is None or number <= 0:
        raise _fail(node)
    if op == "floordiv":
        return f"(floor({args[0]}/{number}))"
    if op == "mod":
        return f"({args[0]} mod {number})"
    raise _fail(node)


def integer_text(term: Term) -> str:
    """An index term without selections as an isl expression; FrontendError where it is not quasi-affine."""
    done: dict[Term, str] = {}
    for node in postorder(term):
        if node.dtype == BOOL:
            raise _fail(node)
        done[node] = _integer(node, [done[a] for a in node.args])
    return done[term]


def pieces(terms: Sequence[Term]) -> list[tuple[list[str], list[Term]]]:
    """The terms without selections, under the conditions of each piece: isl writes `where` as a union of pieces."""
    finished: list[tuple[list[str], list[Term]]] = []
    open_: list[tuple[list[str], list[Term]]] = [([], list(terms))]
    while open_:
        conditions, left = open_.pop()
        chosen = next((w for w in nodes_of("where", *left) if not nodes_of("where", w.args[0])), None)
        if chosen is None:
            finished.append((conditions, left))
            continue
        if len(open_) + len(finished) >= MOST_PIECES:
            raise _fail(chosen)
        condition = chosen.args[0]
        same = [w for w in nodes_of("where", *left) if w.args[0] is condition]
        for negated in (True, False):
            table = {w: w.args[2 if negated else 1] for w in same}
            now = [substitute(x, table) for x in left]
            open_.append(([*conditions, condition_text(condition, negated)], now))
    return finished


def condition_text(predicate: Term, negated: bool = False) -> str:
    """A predicate as an isl condition."""
    op = predicate.op
    if op == "const":
        return "true" if bool(predicate.payload) is not negated else "false"
    if op in ("and", "or"):
        joined = " and " if (op == "and") is not negated else " or "
        return f"({joined.join(condition_text(p, negated) for p in predicate.args)})"
    if op == "not":
        return condition_text(predicate.args[0], not negated)
    if op not in _COMPARE or predicate.args[0].dtype == BOOL:
        raise _fail(predicate)
    sign = (_NEGATED if negated else _COMPARE)[op]
    found: list[str] = []
    for conditions, (a, b) in pieces(predicate.args):
        found.append(" and ".join([*conditions, f"{integer_text(a)} {sign} {integer_text(b)}"]))
    return found[0] if len(found) == 1 else f"({' or '.join(f'({x})' for x in found)})"


def box_text(box: Mapping[str, int]) -> str:
    return " and ".join(f"0 <= {name} < {n}" for name, n in box.items()) or "true"


def map_text(outputs: Sequence[Term], box: Mapping[str, int] | None, names: Sequence[str] = ()) -> str:
    """A map of the inputs of a box, restricted to it; of the named inputs everywhere, where there is no box."""
    inputs = ", ".join(names if box is None else box)
    inside = [] if box is None else [box_text(box)]
    found: list[str] = []
    for conditions, terms in pieces(outputs):
        where = " and ".join([*conditions, *inside])
        found.append(f"[{inputs}] -> [{', '.join(map(integer_text, terms))}]{f' : {where}' if where else ''}")
    return f"{{ {'; '.join(found)} }}"


def set_text(condition: str, names: Sequence[str]) -> str:
    return f"{{ [{', '.join(names)}] : {condition} }}"
