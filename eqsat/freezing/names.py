"""Which operators of a program are frozen, by the names or tensors that a user gives, and in which layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, cast

from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.tensor import Compute, Node, Opaque, Program, Tensor
from eqsat.operators.forms import operator_name

Name = str | Tensor
Freeze = Name | Iterable[Name] | Mapping[Any, Any]
"""Operators, by names of operators, of nodes and of outputs, or by a result; in a mapping, with layouts for each (None:
those of the program)."""


@dataclass(frozen=True)
class Frozen:
    """An operator that keeps its layouts; `layouts`: others that it is given first; `called`: by what name."""

    node: Node
    layouts: Any
    called: str

    def __str__(self) -> str:
        return f"freeze {self.called!r}"


def frozen_nodes(program: Program, freeze: Freeze) -> dict[int, Frozen]:
    """The operators to freeze, by their serials; EqsatError for names that nothing has, for what is no operator, and
    for an operator that is given two layouts."""
    found: dict[int, Frozen] = {}
    names = called_nodes(program)
    inside = {node.serial for node in program.nodes()}
    for key, layouts in frozen_items(freeze):
        called = key if isinstance(key, str) else key.name
        parts = _called(key, names) if isinstance(key, str) else [[key.node]]
        parts = [[node for node in part if node.serial in inside] for part in parts]
        operators = [[node for node in part if isinstance(node, (Compute, Opaque))] for part in parts]
        if not any(operators):
            what = "only moves cells, or is computed already" if any(parts) else "is not in the program"
            raise EqsatError(f"freeze {called!r}", what, "freeze operators that compute something")
        for part in operators:
            if layouts is not None and len(part) > 1:
                inner = ", ".join(sorted({operator_name(node) or "a formula" for node in part}))
                raise EqsatError(f"freeze {called!r}", f"has no layouts of its own, it is {inner}", "give no layouts")
        for node in (node for part in operators for node in part):
            other = found.setdefault(node.serial, Frozen(node, layouts, called))
            if not _same(other.layouts, layouts):
                both = f"{other.layouts!r} and {layouts!r}"
                raise EqsatError(
                    f"freeze {called!r}", f"contradicts freeze {other.called!r}: {both}", "give one of them"
                )
    return found


def frozen_items(freeze: Freeze) -> Iterator[tuple[Name, Any]]:
    """Each name or tensor with its layouts, None for those of the program.

    >>> list(frozen_items("relu"))
    [('relu', None)]
    """
    if isinstance(freeze, (str, Tensor)):
        yield freeze, None
        return
    if not isinstance(freeze, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise EqsatError(f"freeze {freeze!r}", "is neither a name nor a tensor", "freeze=['conv2d']")
    layouts_of = cast("Mapping[Any, Any]", freeze) if isinstance(freeze, Mapping) else dict.fromkeys(freeze)
    for key, layouts in layouts_of.items():
        if not isinstance(key, (str, Tensor)):
            raise EqsatError(f"freeze {key!r}", "is neither a name nor a tensor", "freeze=['conv2d']")
        yield key, layouts


def called_nodes(program: Program) -> dict[str, list[Sequence[Node]]]:
    """What each name means, each of it as nodes."""
    found: dict[str, list[Sequence[Node]]] = {name: list(parts) for name, parts in program.named_nodes().items()}
    known = {(name, node.serial) for name, parts in found.items() for part in parts for node in part}
    for node in program.nodes():
        name = operator_name(node)
        if name and (name, node.serial) not in known:
            found.setdefault(name, []).append([node])
    return found


def _called(name: str, names: Mapping[str, list[Sequence[Node]]]) -> list[Sequence[Node]]:
    if name not in names:
        close = get_close_matches(name, names, 3) or sorted(names)[:8]
        fix = f"one of {', '.join(close)}" if close else ""
        raise EqsatError(f"freeze {name!r}", "no operator has that name", fix)
    return names[name]


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and bool(a == b))
