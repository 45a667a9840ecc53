"""Layouts of the values at the border of an If: of what its branches read of the outer graph, and of its results.

A value may lie in another order there. It is transposed on one side and back on the other; the outer graph and each
branch, optimised by themselves, show what that order costs them. An order is taken only where no side costs more than
before and one costs less, so that every choice lowers a sum and no choice can be undone by another.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, helper

from eqsat.checking.guard import differs
from eqsat.checking.models import check_and_names
from eqsat.engine import Limits
from eqsat.ir.errors import EqsatError
from eqsat.ir.flat.size_terms import shape_size
from eqsat.ir.terms.text import fresh_name
from eqsat.models.guarded import check_model
from eqsat.onnx.graphs import nested_nodes
from eqsat.onnx.infer import SMALL_TENSOR, captured, elements
from eqsat.onnx.parts.bodies import body_name, model_of, names_in, put_back
from eqsat.onnx.parts.own import Parts
from eqsat.onnx.read import read_with_types
from eqsat.onnx.write import renamed

Order = tuple[int, ...]
Orders = Mapping[str, Order]
"""Values at a border with the order of their axes there; others lie as they do."""
Optimize = Callable[..., Any]
ORDERS = 4
"""Orders that are tried for a rank."""
SECONDS = 5.0
"""For the comparison of a model with the one it was, for each branch."""
TINY = 64
"""Values of up to this many elements stay as they lie."""


def optimized(model: ModelProto, optimize: Optimize, alone: Optimize, limits: Limits) -> Parts:
    """The model with better layouts at the borders of its branchings; the model itself where none is better.

    optimize: what is done with a branch as a model of its own, alone: with a graph in which branchings stay as they
    are. Each If may take a quarter of the time that is left.
    """
    result = Parts(model, "borders of If have better layouts", around=True)

    def better(share: Limits, which: int) -> ModelProto | None:
        search = _Search(result.model, which, optimize, alone, share)
        found = search.best()
        result.results = (*result.results, *search.results) if found is not None else result.results
        return found

    if not any(n.op_type == "Transpose" for n in nested_nodes(model.graph.node)):
        return result
    for known in _branchings(model.graph):  # what changes may stand elsewhere among them then, the others keep names
        which, node = next((k, n) for k, n in enumerate(_branchings(result.model.graph)) if n.output == known.output)
        if _candidates(result.model, node):
            result.attempt(f"the border of If {node.name or node.output[0]!r}", limits, partial(better, which=which))
    return result


def _branchings(graph: GraphProto) -> list[NodeProto]:
    return [n for n in graph.node if n.op_type == "If" and n.domain in ("", "ai.onnx")]


def _branches(node: NodeProto) -> list[GraphProto]:
    """The branches of an If in an order that does not depend on how it is stored."""
    return [a.g for a in _bodies(node)]


def _bodies(node: NodeProto) -> list[AttributeProto]:
    return sorted((a for a in node.attribute if a.HasField("g")), key=lambda a: a.name)


def _candidates(model: ModelProto, node: NodeProto) -> list[str]:
    """What passes the border and may have layouts: constants that branches know are none of it."""
    known = {x.name for x in model.graph.initializer if elements(x) <= SMALL_TENSOR}
    return [x for x in dict.fromkeys((*node.output, *captured(node))) if x and x not in known]


@dataclass(frozen=True)
class _Costs:
    """What the outer graph and each branch cost, optimised, and the bytes that all of them move."""

    outer: int
    branches: tuple[int, ...]
    moved: int

    @property
    def runs(self) -> list[int]:
        """What a run costs that takes this branch or that."""
        return [self.outer + branch for branch in self.branches]

    def improves(self, other: _Costs) -> bool:
        """Whether neither the outer graph nor any run costs more, and some run less."""
        no_more = all(a <= b for a, b in zip(self.runs, other.runs, strict=True))
        return no_more and self.outer <= other.outer and self.runs != other.runs


@dataclass
class _Search:
    """The orders at the border of one If of a model that lower what its sides cost."""

    model: ModelProto
    which: int
    optimize: Optimize
    alone: Optimize
    limits: Limits
    begun: float = field(default_factory=time.monotonic)
    known: dict[Any, tuple[ModelProto, Any]] = field(default_factory=dict[Any, tuple[ModelProto, Any]])
    """What was found of a branch with some orders."""
    results: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """What was found of the branches with the best orders, beside what they were, by names as those of bodies."""

    def best(self) -> ModelProto | None:
        """The model with the best orders that were found; None where the best is none."""
        ranks = self._ranks()
        orders = _orders(self.model, self.which, set(ranks.values()))
        if not any(orders.values()):
            return None
        chosen: dict[str, Order] = {}
        first = self._costs(chosen)
        assert first is not None  # nothing bounds it
        best = first
        start = time.monotonic()
        for count, tried in enumerate(_trials(chosen, ranks, orders), 1):
            if best.moved == 0 or self._left() < 2 * (time.monotonic() - start) / count:
                break
            found = self._costs(tried, first)
            if found is not None and found.improves(first) and sum(found.runs) < sum(best.runs):
                best = found
                chosen.clear()
                chosen.update(tried)
        if not chosen:
            return None
        made = self._made(chosen)
        self._check(made)
        return made

    def _left(self) -> float:
        return self.limits.seconds - (time.monotonic() - self.begun)

    def _ranks(self) -> dict[str, int]:
        """What may lie in another order, with its rank."""
        types = read_with_types(self.model)[1].types
        found: dict[str, int] = {}
        for name in _candidates(self.model, _branchings(self.model.graph)[self.which]):
            shape = types[name][0] if name in types else ()
            cells = shape_size(shape)
            if len(shape) > 1 and not (isinstance(cells, int) and cells <= TINY):
                found[name] = len(shape)
        return found

    def _costs(self, orders: Orders, most: _Costs | None = None) -> _Costs | None:
        """What each side costs with some orders; None where that is more than it may be."""
        made = laid(self.model, self.which, orders)
        sides = [_with_parts(self.alone(made, limits=self._share()))]
        outer = sum(x.cost for x in sides[0])
        if most is not None and outer > most.outer:
            return None
        branches: list[int] = []
        for number, own in enumerate(self._branches(made)):
            sides.append(_with_parts(self._branch(number, orders, own)[1]))
            branches.append(sum(x.cost for x in sides[-1]))
            if most is not None and outer + branches[-1] > most.runs[number]:
                return None
        return _Costs(outer, tuple(branches), sum(x.bytes_moved for side in sides for x in side))

    def _made(self, orders: Orders) -> ModelProto:
        """The model with some orders, all sides optimised."""
        made = laid(self.model, self.which, orders)
        owns = list(self._branches(made))
        found: list[Any] = []
        for number, branch in enumerate(_branches(_branchings(made.graph)[self.which])):
            own, best = self._branch(number, orders, owns[number])
            before = self._branch(number, {}, owns[number])[1]
            found.append(replace(best, initial=before.initial))
            if best.model is not own:
                put_back(made, branch, best.model, own)
        whole = self.alone(made, limits=self._share()).model
        node = _branchings(whole.graph)[_same_branching(self.model, self.which, whole)]
        node.name = _branchings(self.model.graph)[self.which].name
        self.results = [(body_name(node, a), x) for a, x in zip(_bodies(node), found, strict=True)]
        return whole

    def _branches(self, made: ModelProto) -> Iterator[Callable[[], ModelProto]]:
        """What makes a model of each branch."""
        values = read_with_types(made)[1]
        named = {d.dim_param for x in made.graph.input for d in x.type.tensor_type.shape.dim if d.dim_param}
        node = _branchings(made.graph)[self.which]
        for branch in _branches(node):
            yield partial(model_of, branch, node, made, values, named)

    def _branch(self, number: int, orders: Orders, own: Callable[[], ModelProto]) -> tuple[ModelProto, Any]:
        """A branch as a model, and what was found of it."""
        given = _branchings(self.model.graph)[self.which]
        met = {*_read(_branches(given)[number]), *given.output}
        key = number, frozenset((x, o) for x, o in orders.items() if x in met)
        if key not in self.known:
            model = own()
            self.known[key] = model, self.optimize(model, limits=self._share())
        return self.known[key]

    def _share(self) -> Limits:
        return replace(self.limits, seconds=max(self._left(), 0.1))

    def _check(self, after: ModelProto) -> None:
        """Compare the models as they are where each branch is taken.

        Raises EqsatError where they differ.
        """
        check_model(after)
        where = _same_branching(self.model, self.which, after)
        for number in range(2):
            pair = taken(self.model, self.which, number), taken(after, where, number)
            difference = check_and_names(*pair, SECONDS)[0].difference
            if difference is not None:
                raise EqsatError("layouts at the border of If", differs("the model", difference))


def _same_branching(before: ModelProto, which: int, after: ModelProto) -> int:
    """Where an If is in a model in which others stay: those keep their results' names, or it is the only one."""
    others = {tuple(n.output) for k, n in enumerate(_branchings(before.graph)) if k != which}
    left = [k for k, n in enumerate(_branchings(after.graph)) if tuple(n.output) not in others]
    if len(left) != 1:
        raise EqsatError("layouts at the border of If", "other branchings of the model have changed, too")
    return left[0]


def _trials(chosen: Orders, ranks: Mapping[str, int], orders: Mapping[int, Sequence[Order]]) -> Iterator[Orders]:
    """What to try: one order for all values of a rank, then others for each value, from the best so far on."""
    tried: set[frozenset[tuple[str, Order]]] = {frozenset()}

    def fresh(wanted: Orders) -> Iterator[Orders]:
        key = frozenset(wanted.items())
        if key not in tried:
            tried.add(key)
            yield wanted

    for rank, several in orders.items():
        for order in several:
            yield from fresh({**chosen, **{x: order for x, r in ranks.items() if r == rank}})
    for name, rank in ranks.items():
        yield from fresh({x: o for x, o in chosen.items() if x != name})
        for order in orders[rank]:
            yield from fresh({**chosen, name: order})


def _orders(model: ModelProto, which: int, ranks: set[int]) -> dict[int, list[Order]]:
    """Orders for each rank: those of the model's own transposes, back and forth, and channels first and last."""
    counts: Counter[Order] = Counter()
    nodes = [*model.graph.node, *nested_nodes([_branchings(model.graph)[which]])]
    for node in nodes:
        order = _order(node)
        if order is not None:
            counts.update((order, _back(order)))
    found: dict[int, list[Order]] = {}
    for rank in sorted(ranks):
        own = [o for o, _ in counts.most_common() if len(o) == rank]
        last = (0, *range(2, rank), 1) if rank > 2 else (1, 0)
        every = dict.fromkeys((*own, last, _back(last)))
        found[rank] = [o for o in every if o != tuple(range(rank))][:ORDERS]
    return found


def _order(node: NodeProto) -> Order | None:
    """The order that a Transpose gives; None for other nodes."""
    given = next((tuple(a.ints) for a in node.attribute if a.name == "perm"), None)
    return given if node.op_type == "Transpose" and node.domain in ("", "ai.onnx") else None


def _back(order: Order) -> Order:
    return tuple(order.index(n) for n in range(len(order)))


def _read(branch: GraphProto) -> list[str]:
    """The outer values that a branch reads."""
    return captured(helper.make_node("If", ["c"], ["y"], then_branch=branch))


def _with_parts(result: Any) -> list[Any]:
    """What a model costs, and each of its bodies."""
    return [result.final, *(x for _, part in result.parts for x in _with_parts(part))]


def laid(model: ModelProto, which: int, orders: Orders) -> ModelProto:
    """The model with values that pass the border of an If in other orders: transposed before it and back behind it."""
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    node = _branchings(graph)[which]
    taken_names = {*names_in(graph)}

    def fresh(base: str) -> str:
        name = fresh_name(base, taken_names)
        taken_names.add(name)
        return name

    before: list[NodeProto] = []
    behind: list[NodeProto] = []
    branches = _branches(node)
    for name, order in orders.items():
        if name in node.output:
            place, outer = list(node.output).index(name), fresh(f"{name}_laid")
            behind.append(helper.make_node("Transpose", [outer], [name], perm=_back(order)))
            node.output[place] = outer
            for branch in branches:
                result, kind = fresh(f"{name}_result"), branch.output[place]
                branch.node.append(helper.make_node("Transpose", [kind.name], [result], perm=order))
                kind.name = result
                kind.type.tensor_type.ClearField("shape")
            continue
        outer = fresh(f"{name}_laid")
        before.append(helper.make_node("Transpose", [name], [outer], perm=order))
        for branch in branches:
            if name in _read(branch):
                inner = fresh(f"{name}_inside")
                nodes = [renamed(n, {name: inner}) for n in branch.node]
                del branch.node[:]
                branch.node.append(helper.make_node("Transpose", [outer], [inner], perm=_back(order)))
                branch.node.extend(nodes)
                for output in branch.output:
                    output.name = inner if output.name == name else output.name
    at = next(k for k, n in enumerate(graph.node) if n.output == node.output and n.op_type == "If")
    _give_nodes(graph, [*graph.node[:at], *before, node, *behind, *graph.node[at + 1 :]])
    return made


def taken(model: ModelProto, which: int, number: int) -> ModelProto:
    """The model as it is where one branch of an If is always taken."""
    made = ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    node = _branchings(graph)[which]
    branch = _branches(node)[number]
    names = {*names_in(graph)}
    table: dict[str, str] = {}
    own = [*(x.name for x in branch.initializer), *(x.values.name for x in branch.sparse_initializer)]
    for name in (*own, *(o for n in branch.node for o in n.output if o)):
        table[name] = fresh_name(f"{name}_taken", names)
        names.add(table[name])
    for x in branch.initializer:
        graph.initializer.add().CopyFrom(x)
        graph.initializer[-1].name = table[x.name]
    for x in branch.sparse_initializer:
        graph.sparse_initializer.add().CopyFrom(x)
        graph.sparse_initializer[-1].values.name = table[x.values.name]
    inside = [renamed(n, table) for n in branch.node]
    ends = [
        helper.make_node("Identity", [table.get(x.name, x.name)], [o])
        for x, o in zip(branch.output, node.output, strict=False)
        if o
    ]
    at = next(k for k, n in enumerate(graph.node) if n.output == node.output and n.op_type == "If")
    _give_nodes(graph, [*graph.node[:at], *inside, *ends, *graph.node[at + 1 :]])
    return made


def _give_nodes(graph: GraphProto, nodes: Sequence[NodeProto]) -> None:
    """Give a graph other nodes, some of which may be its own."""
    data = [n.SerializeToString() for n in nodes]
    del graph.node[:]
    graph.node.extend(NodeProto.FromString(x) for x in data)
