"""How an index map is written down: the parameters of a function, the two sides of a text, what these may hold."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from eqsat.ir.dtypes import INDEX
from eqsat.ir.errors import LayoutError, ParseError, TypeMismatch
from eqsat.ir.given import whole
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder


def split_indices(side: str, text: str) -> list[str]:
    """The pieces between top-level commas; one pair of brackets around everything is dropped."""
    side = side.strip()
    pieces, depth, current, closed_at = list[str](), 0, "", -1
    for place, c in enumerate(side):
        depth += (c in "([") - (c in ")]")
        if depth < 0:
            raise ParseError(f"index map {text!r}", "brackets do not match")
        if depth == 0 and closed_at < 0 and c in ")]":
            closed_at = place
        if c == "," and depth == 0:
            pieces.append(current.strip())
            current = ""
        else:
            current += c
    if depth:
        raise ParseError(f"index map {text!r}", "brackets do not match")
    if side[:1] in ("(", "[") and closed_at == len(side) - 1:
        inner = side[1:-1].strip()
        return split_indices(f"{inner},0", text)[:-1] if inner else []
    pieces.append(current.strip())
    if pieces == [""]:
        return []
    if "" in pieces:
        raise ParseError(f"index map {text!r}", "an index is missing between commas")
    return pieces


def index_parameters(
    fn: Callable[..., Any], ndim: int | None
) -> tuple[tuple[str, ...], Callable[[tuple[Term, ...]], Any]]:
    """The names of the indices a function takes, and a way to call it with them."""
    what = f"index map from {getattr(fn, '__name__', fn)}"
    try:
        parameters = list(inspect.signature(fn).parameters.values())
    except (TypeError, ValueError) as error:
        raise LayoutError(what, str(error), "give a Python function of indices") from error
    kinds = inspect.Parameter
    needed = [p for p in parameters if p.default is kinds.empty]
    if any(p.kind is kinds.VAR_KEYWORD for p in needed):
        raise LayoutError(what, "takes **keywords", "take indices by name or as *indices")
    first = [p.name for p in needed if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    last = [p.name for p in needed if p.kind is kinds.KEYWORD_ONLY]
    rest = [p.name for p in needed if p.kind is kinds.VAR_POSITIONAL]
    fixed = len(first) + len(last)
    if not rest:
        if ndim is not None and ndim != fixed:
            raise LayoutError(what, f"takes {fixed} indices, ndim is {ndim}")
        middle: list[str] = []
    elif ndim is None:
        raise LayoutError(what, f"takes any number of indices (*{rest[0]})", "give ndim")
    elif ndim < fixed:
        raise LayoutError(what, f"takes at least {fixed} indices, ndim is {ndim}")
    else:
        taken = {*first, *last}
        middle = [f"{rest[0]}{n}" if f"{rest[0]}{n}" not in taken else f"{rest[0]}_{n}" for n in range(ndim - fixed)]

    def call(variables: tuple[Term, ...]) -> Any:
        ahead = variables[: len(first) + len(middle)]
        return fn(*ahead, **dict(zip(last, variables[len(ahead) :], strict=True)))

    return (*first, *middle, *last), call


def check_output(output: Term, inputs: set[Term]) -> None:
    """Raise for what cannot be an output of a map."""
    if output.dtype != INDEX:
        raise TypeMismatch(f"index map output {output}", f"has type {output.dtype}, not index")
    for node in postorder(output):
        if node.op in ("var", "axis") and node not in inputs:
            raise LayoutError(f"index map output {output}", f"{node} is not an input of the map")
        if node.op in ("hole", "ramp", "broadcast") or (node.op == "load" and not isinstance(node.payload, Table)):
            raise LayoutError(f"index map output {output}", f"{node} may not occur in an index map")


def check_separators(given: Sequence[int], rank: int) -> tuple[int, ...]:
    """The positions as numbers; raises for those that leave a physical axis without outputs."""
    separators = tuple(whole(n, f"axis separators {tuple(given)}", "", LayoutError) for n in given)
    for before, place in zip((0, *separators), separators, strict=False):
        if not before < place < rank:
            raise LayoutError(
                f"axis separators {separators}",
                f"every physical axis of {rank} outputs needs at least one of them",
                "positions must increase, from 1 to the number of outputs - 1",
            )
    return separators
