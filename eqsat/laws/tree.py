"""Terms of the tensor graph in which numbers and classes are names: both sides of a law as the graph has them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Class:
    """Any class, by name."""

    name: str


@dataclass(frozen=True)
class Viewed:
    """A view, by the map of a name, of another term."""

    source: Tree
    map: str


@dataclass(frozen=True)
class Operated:
    """Output `output` of the operator of a name over terms. `kind` is what the law says about it: `combine`,
    `pointwise` or `select`. With a `place`, the one operand that is given stands there, among any others."""

    operator: str
    output: str
    operands: tuple[Tree, ...]
    kind: str = ""
    place: str = ""


Tree = Class | Viewed | Operated


def text(tree: Tree) -> str:
    """The term in the syntax of the graph.

    >>> text(Viewed(Operated("s", "0", (Class("x"),)), "m"))
    '(View (Hub s 0 (vec-of x)) m)'
    """
    if isinstance(tree, Class):
        return tree.name
    if isinstance(tree, Viewed):
        return f"(View {text(tree.source)} {tree.map})"
    return f"(Hub {tree.operator} {tree.output} {vector([text(x) for x in tree.operands])})"


def vector(items: list[str]) -> str:
    """Operands in the syntax of the graph, which cannot infer the sort of an empty vector."""
    return f"(vec-of {' '.join(items)})" if items else "(vec-empty)"
