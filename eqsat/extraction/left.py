"""Why a move is left: what lies on both sides of it, and what kept each of them in its order."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from eqsat.extraction.cost import layout_nodes
from eqsat.formulas import as_formula
from eqsat.ir.flat.facts import is_bijective
from eqsat.ir.flat.sizes import at_most
from eqsat.ir.flat.split import maps_of_view
from eqsat.ir.tensors.program_text import tensor_names
from eqsat.ir.tensors.tensor import Compute, Input, Node, Opaque, Program, Tensor, View
from eqsat.ir.terms.shape import format_shape
from eqsat.operators.bundles import of_opaque
from eqsat.operators.forms import Freedom, freedom, operator_name
from eqsat.operators.labels import canonicalise, of_compute

KEPT: Mapping[Freedom, str] = {
    "written": "is taken only as it is written",
    "contract": "takes rows and columns as a matrix product has them",
    "transposed": "takes rows and columns as a matrix product has them",
    "bundles": "keeps its dimensions in their places",
}
"""What ties an operator to an order of its axes; one that takes any order is not listed."""
SHOWN = 3
FREE = "in any other place it moves as many bytes or more"
SLOW = "no other place was found in which the program is estimated to take less time"


@dataclass(frozen=True)
class Move:
    """A layout operator that is left in a result.

    `name` is the tensor that it makes, of `shape`; `moved` are bytes; `source` made the cells, `readers` read them;
    `reason` says why it was not removed; `inside`: the body in which it is, '' where that is the program itself.
    """

    name: str
    shape: str
    moved: int
    source: str
    readers: tuple[str, ...]
    reason: str
    inside: str = ""

    def __str__(self) -> str:
        return self.told(self.name)

    def told(self, name: str) -> str:
        """The move in words, under a name."""
        to = ", ".join(self.readers[:SHOWN]) + (" and more" if len(self.readers) > SHOWN else "")
        where = f" in {self.inside}" if self.inside else ""
        return f"{name}{where} {self.shape} moves {self.moved:,} bytes from {self.source} to {to}: {self.reason}"


@dataclass(frozen=True)
class _Side:
    """What is before or behind a move: its name, and what keeps its order ('' where nothing does)."""

    name: str
    kept: str = ""


def moves_left(
    program: Program,
    target: str,
    stopped: str = "",
    unproved: Sequence[str] = (),
    names: Mapping[tuple[int, int], str] | None = None,
    called: Mapping[tuple[int, int], str] | None = None,
    frozen: Collection[int] = (),
    timed: bool = False,
) -> list[Move]:
    """The moves of a program, those of the most bytes first, each with the reason why it is there.

    stopped: the limit that ended the search, '' where it was searched to the end. unproved: the side conditions that
    did not hold, as questions, which name the maps that they are about. names: of tensors, by node and
    output (default: those that the printed program has). called: what the operators that make them are called
    (default: by these names). frozen: the nodes, by serials, that were to stay. timed: whether the choice was by time.

    >>> from eqsat.ir.tensors.tensor import as_program, input
    >>> (left,) = moves_left(as_program(input("x", (2, 3), "float32").permute_dims((1, 0))), "c")
    >>> left.moved, left.reason
    (48, "the input 'x' is given in its order; the output 'out' is wanted in its order")
    """
    own = tensor_names(program) if names is None else names
    walk = _Walk(program, target, stopped, unproved, own, own if called is None else called, frozen, timed)
    left = [walk.move(node, moved) for node, moved in layout_nodes(program)]
    return sorted(left, key=lambda m: -m.moved)


@dataclass
class _Walk:
    program: Program
    target: str
    stopped: str
    unproved: Sequence[str]
    names: Mapping[tuple[int, int], str]
    called: Mapping[tuple[int, int], str]
    frozen: Collection[int] = ()
    timed: bool = False
    users: dict[tuple[int, int], list[Node]] = field(default_factory=dict[tuple[int, int], list[Node]])

    def __post_init__(self) -> None:
        for node in self.program.nodes():
            for x in dict.fromkeys(node.operands):
                self.users.setdefault(x.key, []).append(node)

    def move(self, node: Node, moved: int) -> Move:
        before = list(dict.fromkeys(self.side(_made(x)) for x in node.operands))
        behind = list(dict.fromkeys(self.readers(Tensor(node)))) or [_Side("nothing")]
        source = ", ".join(s.name for s in before[:SHOWN]) + (" and more" if len(before) > SHOWN else "")
        end = f"the search was ended by its {self.stopped}" if self.stopped else SLOW if self.timed else FREE
        reason = _reads(node, behind) or _tied(before, behind, end)
        maps = maps_of_view(node) if isinstance(node, View) else None
        failed = [q for q in self.unproved if any(str(m) in q for m in maps or ())]
        reason += f"; not proved: {failed[0]}" if failed else ""
        shape = f"{node.outputs[0][1]}{format_shape(node.outputs[0][0])}"
        return Move(self.name(Tensor(node)), shape, moved, source, tuple(s.name for s in behind), reason)

    def readers(self, x: Tensor) -> Iterator[_Side]:
        """The operators that read a tensor, through views, and the outputs that it is."""
        for name, output in self.program.outputs.items():
            if output == x:
                yield _Side(f"the output {name!r}", "is wanted in its order")
        for user in self.users.get(x.key, ()):
            if isinstance(user, View):
                yield from self.readers(Tensor(user))
            else:
                yield self.side(user)

    def side(self, node: Node) -> _Side:
        if isinstance(node, Input):
            return _Side(f"the input {node.name!r}", "is given in its order")
        if node.serial in self.frozen:
            return _Side(self.label(node), "is frozen in its order")
        return _Side(self.label(node), KEPT.get(_freedom(node, self.target), ""))

    def label(self, node: Node) -> str:
        op = operator_name(node).rpartition(":")[2] or type(node).__name__.lower()
        name = self.called.get((node.serial, 0))
        return op if name is None else f"{op} {name!r}"

    def name(self, x: Tensor) -> str:
        return self.names.get(x.key) or f"a {operator_name(x.node).rpartition(':')[2] or 'view'}"


def _made(x: Tensor) -> Node:
    """The operator that made the cells of a tensor."""
    while isinstance(x.node, View):
        x = x.node.source
    return x.node


def _freedom(node: Node, target: str) -> Freedom:
    if isinstance(node, Opaque):
        return freedom(canonicalise(of_opaque(node)).operator, node, target)
    if not isinstance(node, (Compute, View)):
        return "any"
    formula = as_formula(node) if isinstance(node, View) else node
    return freedom(canonicalise(of_compute(formula)).operator, formula, target)


def _reads(node: Node, behind: list[_Side]) -> str:
    """What a view shows beside the cells of its source in another order, and so has to be made for its readers."""
    maps = maps_of_view(node) if isinstance(node, View) else None
    if not isinstance(node, View):
        return f"{behind[0].name} reads the parts as one"
    if maps is None or all(is_bijective(m) for m in maps):
        return ""
    if not all(m.is_total for m in maps):
        return f"{behind[0].name} reads its padding"
    m = maps[-1]
    return f"{behind[0].name} reads {'a part of it' if at_most(m.n_out, m.n_in) else 'cells more than once'}"


def _tied(before: list[_Side], behind: list[_Side], end: str) -> str:
    tied = [next((s for s in side if s.kept), None) for side in (before, behind)]
    said = "; ".join(f"{s.name} {s.kept}" for s in tied if s is not None)
    if all(tied):
        return said
    return f"{said}; {end}" if said else end
