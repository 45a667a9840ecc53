"""Checking an optimised program against the program it was made of, by the numpy meaning."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from eqsat.checking.assumed import assumptions
from eqsat.checking.constants import Constants
from eqsat.checking.draws import NUDGES, SMALLER, Draw, mixed, numbers_of, seed_of
from eqsat.checking.drive import RegionRun, Sides, drive
from eqsat.checking.equal import differing, told, unlike
from eqsat.checking.foreign import signature_of
from eqsat.checking.graph import Graph, Type, Vertex, content_mark
from eqsat.checking.part import Impossible, Key, Part, Sizes, Undefined, cells, distinct, part_of
from eqsat.checking.plan import Region
from eqsat.checking.pull import MOST, Pull, filled, fillings
from eqsat.checking.reach import out_of_range
from eqsat.checking.settled import Settled
from eqsat.checking.sizes import sizes_of
from eqsat.checking.symbolic import proved
from eqsat.checking.verdict import Checked, Difference, now
from eqsat.ir.dtypes import INDEX, NDArray, is_float
from eqsat.ir.errors import EqsatError, EvaluationError
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, View
from eqsat.ir.terms.shape import Shape, format_shape, same_shape
from eqsat.ir.terms.walk import postorder

EVERY = 4096
"""Outputs of up to this many cells are compared in all cells, larger ones in SAMPLES of them."""
SAMPLES = (1024, 128, 16)
TRIALS, MANY = 3, 96
"""Inputs to try; more where there are so few cells that each input says little."""
SMALL, A_NODE = 1 << 15, 64
"""Cells that are computed for more inputs than the fewest, and as many of them as computing a node counts for."""
CELLS_PER_SECOND = 2_000_000
NUMBERED = 1 << 62
LEAST = 20_000
"""Cells that a region may compute however little time is left."""


def check_programs(before: Program, after: Program, seconds: float = 10.0) -> Checked:
    """Is `after` a refinement of `before`? Each changed region alone, within a budget of seconds.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> p, q = (eq.Program([x], {"y": y}) for y in (x.permute_dims((1, 0)).relu().permute_dims((1, 0)), x.relu()))
    >>> [r.verdict for r in check_programs(p, q)]
    ['proved']
    """
    begun = now()
    problem = interface(before, after)
    if problem is not None:
        return Checked((), now() - begun, problem)
    constants = Constants()
    left, right = _graph(before, constants, False), _graph(after, constants, True)
    runner = _Runner(left, right, *sizes_of([before, after]))
    done, _ = drive(Sides(left, right, runner.run, runner.cost, runner.describe), seconds - (now() - begun))
    return Checked(done.regions, now() - begun, done.difference)


def interface(before: Program, after: Program) -> Difference | None:
    """What differs in names, order, shapes and types of inputs and outputs."""
    for kind, left, right in (
        ("input", [(x.name, x) for x in before.inputs], [(x.name, x) for x in after.inputs]),
        ("output", list(before.outputs.items()), list(after.outputs.items())),
    ):
        names = [n for n, _ in left], [n for n, _ in right]
        if names[0] != names[1]:
            return Difference(
                f"the {kind}s", f"{', '.join(names[1]) or 'none'} where {', '.join(names[0])} are expected"
            )
        for (name, x), (_, y) in zip(left, right, strict=True):
            if x.dtype != y.dtype or not same_shape(x.shape, y.shape):
                kinds = [f"{z.dtype}{format_shape(z.shape)}" for z in (x, y)]
                return Difference(f"{kind} {name!r}", f"{kinds[1]} where {kinds[0]} is expected")
    return None


# -- graphs -----------------------------------------------------------------------------------------------------------


def _dims(shape: Shape) -> tuple[Hashable, ...]:
    return tuple(d if isinstance(d, int) else d.serial for d in shape)


def _types(node: Node) -> list[Type]:
    return [(_dims(shape), dtype) for shape, dtype in node.outputs]


def _graph(program: Program, constants: Constants, second: bool) -> Graph:
    graph = Graph()
    places: dict[Key, int] = {}
    for node in program.all_nodes():
        operands = tuple(places[x.key] for x in node.operands)
        exact, mark, more = _keys(node, constants, second)
        made = graph.add(Vertex(exact, mark, operands, name_of(node), source=node, **more), _types(node))
        for k, value in enumerate(made):
            places[node.serial, k] = value
    graph.outputs = {name: places[x.key] for name, x in program.outputs.items()}
    return graph


def _keys(node: Node, constants: Constants, second: bool) -> tuple[Hashable, Hashable, dict[str, Any]]:
    """What a node is, what it computes in any layout, and how it is treated."""
    if isinstance(node, Input):
        return ("input", node.name), ("input", node.name), {"leaf": "input"}
    if isinstance(node, Constant):
        exact, content = constants.keys(node.array, node.serial, second)
        return exact, content_mark(node.array), {"leaf": "constant", "content": content}
    if isinstance(node, View):
        fill = None if node.fill is None else node.fill.serial
        exact = "view", tuple(g.serial for g in node.gather), node.valid.serial, fill, _dims(node.outputs[0][0])
        return exact, "view", {"clear": True}
    if isinstance(node, Compute):
        exact = "compute", node.body.serial, _dims(node.reduce), node.combiner, node.ordered, _dims(node.shape)
        ops = tuple(n.op for n in postorder(node.body) if n.dtype != INDEX and n.op != "load")
        return exact, ("compute", ops, node.combiner), {}
    assert isinstance(node, Opaque)
    attrs = seed_of(*((k, v.tobytes() if isinstance(v, np.ndarray) else v) for k, v in sorted(node.attrs.items())))
    signature = signature_of(node)
    roles = tuple(sorted(signature.roles.items()))
    own = id(node.impl) if node.own_impl else 0  # any other implementation follows from name and attributes
    exact = "op", node.op, attrs, own, str(signature), roles, *_types(node)
    return exact, ("op", node.op), {"pure": node.pure}


def name_of(node: Node) -> str:
    """What a node is called in reports."""
    if isinstance(node, Opaque):
        return f"{node.op} t{node.serial}"
    tag = node.tag.name if isinstance(node, (View, Compute)) and node.tag is not None else type(node).__name__.lower()
    return f"{node.name}" if isinstance(node, Input) else f"{tag} t{node.serial}"


# -- regions ----------------------------------------------------------------------------------------------------------


@dataclass
class _Runner:
    left: Graph
    right: Graph
    sizes: list[Sizes]
    larger: list[Sizes]

    def cost(self, region: Region) -> float:
        """Cells to compute, roughly."""
        total = 0.0
        for graph, inside in ((self.left, region.before), (self.right, region.after)):
            for n in inside:
                node = graph.vertices[n].source
                inner = cells([d if isinstance(d, int) else 8 for d in node.reduce]) if isinstance(node, Compute) else 1
                inner *= 64 if isinstance(node, Opaque) else 1
                size = max(cells([d if isinstance(d, int) else 8 for d in s]) for s, _ in node.outputs)
                total += min(size, EVERY) * inner
        return total

    def parts(self, region: Region) -> tuple[Part, Part]:
        """Both sides. Where definitions are too long for one of them, both have operators that stand for themselves:
        an operator that is opened on one side only would look like another function."""
        made = self.part(region, 0), self.part(region, 1)
        if made[0].complete and made[1].complete:
            return made
        return self.part(region, 0, opened=False), self.part(region, 1, opened=False)

    def part(self, region: Region, side: int, opened: bool = True) -> Part:
        graph, inside = ((self.left, region.before), (self.right, region.after))[side]
        free = {_key(graph, value): k for value, k in region.reads[side].items()}
        for n in inside:
            vertex = graph.vertices[n]
            if vertex.content in region.free:
                free[_key(graph, vertex.outputs[0])] = 10_000 + region.free[vertex.content]
        labels: dict[int, int] = {}
        counts: dict[Hashable, int] = {}
        for n in inside:
            vertex = graph.vertices[n]
            if not vertex.pure:
                place = counts[vertex.mark] = counts.get(vertex.mark, 0) + 1
                labels[vertex.source.serial] = place
        made = part_of([graph.vertices[n].source for n in inside], free, labels, opened)
        for value in region.reads[side]:
            key = _key(graph, value)
            made.types[key] = graph.at(value).source.outputs[key[1]]
        return made

    def run(self, region: Region, deadline: float) -> RegionRun:
        parts = self.parts(region)
        roots = [(_key(self.left, b), _key(self.right, a)) for b, a in region.pairs]
        for side, graph in ((0, self.left), (1, self.right)):
            for pair in region.pairs:
                node = graph.at(pair[side]).source
                key = _key(graph, pair[side])
                parts[side].types[key] = node.outputs[key[1]]
                if isinstance(node, Constant) and key not in parts[side].free:
                    parts[side].constants[key] = node.array
        best: RegionRun | None = None
        reason, told = "", False
        for n, sizes in enumerate((*self.sizes, *self.larger)):
            if (best is not None and now() > deadline) or (told and n >= len(self.sizes)):
                break
            trial = _Trial(parts, roots, sizes)
            try:
                outcome = trial.outcome(deadline)
            except Undefined as error:
                reason = f"no inputs were found on which the original has a value: {error}"
                continue
            except Impossible:
                if best is None or n < len(self.sizes):
                    raise
                break
            if outcome.problems:
                return outcome
            told = told or any(p.size for p in trial.points)
            best = outcome if best is None or outcome.verdict == "run" else best
        if best is None:
            raise Impossible("region", reason)
        return best if len(self.sizes) == 1 else RegionRun("run", best.reason)

    def describe(self, region: Region) -> dict[str, Any]:
        """The region as plain data: operators, indices and shapes."""
        return {
            "boundary": [
                _shown((self.left, b) if b >= 0 else (self.right, a)) for b, a in region.boundary
            ],
            "before": [_node(self.left.vertices[n].source) for n in region.before],
            "after": [_node(self.right.vertices[n].source) for n in region.after],
        }  # fmt: skip


def _shown(place: tuple[Graph, int]) -> str:
    graph, value = place
    key = _key(graph, value)
    shape, dtype = graph.at(value).source.outputs[key[1]]
    return f"t{key[0]}: {dtype}{format_shape(shape)}"


def _node(node: Node) -> dict[str, Any]:
    """A node without its numbers."""
    found: dict[str, Any] = {
        "name": f"t{node.serial}",
        "kind": name_of(node).split(" ")[0],
        "reads": [f"t{x.node.serial}" + (f".{x.index}" if x.index else "") for x in node.operands],
        "makes": [f"{dtype}{format_shape(shape)}" for shape, dtype in node.outputs],
    }
    if isinstance(node, View):
        found["gather"] = [str(g)[:300] for g in node.gather]
        found["valid"] = str(node.valid)[:300]
    if isinstance(node, Compute):
        found["operations"] = [n.op for n in postorder(node.body) if n.dtype != INDEX][:100]
        found["indices"] = [[str(a)[:300] for a in n.args] for n in postorder(node.body) if n.op == "load"][:20]
        found["reduce"] = f"{node.combiner} over {format_shape(node.reduce)}"
    return found


def _key(graph: Graph, value: int) -> Key:
    vertex = graph.at(value)
    return vertex.source.serial, value - vertex.outputs[0]


class _Fails(EqsatError):
    """The result has no value where the original may have one."""


@contextmanager
def _failing(side: int) -> Generator[None]:
    """Extents of the result are less than 0 only where those of the original are."""
    try:
        yield
    except Undefined as error:
        if side:
            raise _Fails(error.operation, error.problem) from error
        raise


@dataclass
class _Trial:
    """A region at sizes in numbers."""

    parts: tuple[Part, Part]
    roots: list[tuple[Key, Key]]
    sizes: Sizes

    def outcome(self, deadline: float) -> RegionRun:
        try:
            left, right, every = self._asked(deadline)
        except _Fails as error:
            return RegionRun("run", "", {0: f"the result has no value: {error}"})
        before, after = self.parts
        outside = out_of_range(right)
        if outside and not out_of_range(left):
            return RegionRun("run", "", {0: outside})
        if every and not self.sizes and not before.holes and not after.holes and proved(left, right, self.roots):
            return RegionRun("proved", "the same operations on the same cells")
        assumed = assumptions(left)
        holes = before.holes
        compared = 0
        trouble: Undefined | None = None
        work = left.work + right.work + A_NODE * (len(before.nodes) + len(after.nodes))
        trials = max(TRIALS, min(MANY, SMALL // max(1, work)))
        near = numbers_of([*before.numbers(), *after.numbers()])
        settled = Settled({k for k, (b, _) in enumerate(self.roots) if is_float(before.types[b][1])})
        for draw in _draws(before.exact and after.exact, trials, near):
            if compared and now() > deadline:
                break
            if draw.scale != 1.0 and not settled.open:
                continue
            try:
                expected, *others = [self._values(left, 0, draw, assumed, f) for f in fillings()[: 4 if holes else 1]]
            except (Undefined, EvaluationError) as error:
                trouble = Undefined("the original", str(error))
                continue
            try:
                found = self._values(right, 1, draw, assumed, filled(draw))
            except (Undefined, EvaluationError) as error:
                return RegionRun("run", "", {0: f"the result has no value: {error}"})
            nudged = partial(self._nudged, left, draw, assumed)
            problems = self._problems([expected, *others], found, draw, settled, nudged)
            if problems:
                return RegionRun("run", "", problems)
            compared += 1
            if compared >= trials and not settled.open:
                break
        if settled.held:
            return RegionRun("run", "", settled.problems())
        if not compared:
            raise trouble or Undefined("the original", "no inputs were tried")
        return RegionRun("run", f"{'all' if every else 'sampled'} cells equal on {compared} inputs")

    def _asked(self, deadline: float) -> tuple[Pull, Pull, bool]:
        """Both sides with what they read, for all cells or for as many as the time allows."""
        shapes = self._shapes(0)
        if self._shapes(1) != shapes:
            raise Impossible("region", "the shapes of the two sides differ")
        if max(map(cells, shapes), default=0) >= NUMBERED:
            raise Impossible("region", "its cells cannot be numbered in 64 bits")
        every = all(cells(s) <= EVERY for s in shapes)
        trouble: Impossible | None = None
        for count in (EVERY, *SAMPLES) if every else SAMPLES:
            points = [_points(s, count, k) for k, s in enumerate(shapes)]
            most = min(MOST, max(LEAST, int((deadline - now()) * CELLS_PER_SECOND)))
            left, right = Pull(self.parts[0], self.sizes, most), Pull(self.parts[1], self.sizes, most)
            try:
                for pull, side in ((left, 0), (right, 1)):
                    wanted: dict[Key, NDArray] = {}
                    for pair, p in zip(self.roots, points, strict=True):
                        key = pull.part.real(pair[side])
                        if key not in pull.part.free and key not in pull.part.constants:
                            wanted[key] = np.union1d(wanted[key], p) if key in wanted else p
                    with _failing(side):
                        pull.ask(wanted)
            except Impossible as error:
                trouble = error
                continue
            self.points = points
            return left, right, every and count == EVERY
        assert trouble is not None
        raise trouble

    def _shapes(self, side: int) -> list[tuple[int, ...]]:
        pull = Pull(self.parts[side], self.sizes)
        with _failing(side):
            return [pull.shape(pair[side]) for pair in self.roots]

    def _problems(
        self, expected: list[list[NDArray]], found: list[NDArray], draw: Draw, settled: Settled,
        nudged: Callable[[], list[list[NDArray]]],
    ) -> dict[int, str]:  # fmt: skip
        """What differs on a draw, but for what is held: there the original may be uncertain (`expected` for each
        filling of holes, and `nudged`), other than in moves."""
        before, after = self.parts
        exact, signs = before.exact and after.exact, before.signs and after.signs
        first, *others = expected
        again: list[list[NDArray]] | None = None
        problems: dict[int, str] = {}
        for k, (a, b) in enumerate(zip(first, found, strict=True)):
            free = np.any([unlike(a, other[k]) for other in others], axis=0) if others else None
            wrong = differing(a, b, exact, free, signs)
            text = told(wrong) and f"{told(wrong)} differ on {draw.kind} inputs"
            if text and exact:
                problems[k] = text
            elif text:
                again = nudged() if again is None else again
                if not again or not settled.holds(k, draw.kind, (a, b), [values[k] for values in again], wrong, text):
                    problems[k] = text
            settled.hear(k, a, wrong)
        return problems

    def _nudged(self, left: Pull, draw: Draw, assumed: Mapping[int, Any]) -> list[list[NDArray]]:
        """The original's values for inputs that differ in their last digits; [] where it has none."""
        draws = [replace(draw, nudged=k) for k in NUDGES]
        try:
            return [self._values(left, 0, nudged, assumed, fillings()[0]) for nudged in draws]
        except (Undefined, EvaluationError):
            return []

    def _values(self, pull: Pull, side: int, draw: Draw, assumed: Mapping[int, Any], hole: Any) -> list[NDArray]:
        cells_of = pull.run(draw, hole, assumed)
        return [cells_of(pair[side], p) for pair, p in zip(self.roots, self.points, strict=True)]


def _draws(exact: bool, trials: int, near: tuple[float, ...]) -> list[Draw]:
    """Inputs to try, the first ones first; smaller ones where these say too little, tame ones where the original fails
    on them."""
    kinds = ("plain", "special", "close", "special" if near else "plain")
    first = [Draw(kinds[k % 4], 1 + k, exact, near) for k in range(trials)]
    smaller = [replace(first[0], scale=scale) for scale in SMALLER]
    return [*first, *smaller, *(Draw("tame", 1 + trials + k) for k in range(6))]


def _points(shape: Sequence[int], count: int, salt: int) -> NDArray:
    """All flat positions where there are at most `count`, else random ones, half of them near borders."""
    size = cells(shape)
    if size <= count:
        return np.arange(size)
    flat: NDArray = np.zeros(count, np.int64)
    word = mixed(np.arange(count, dtype=np.uint64) + np.uint64(salt * 1_000_003 + 1))
    for extent in shape:
        word = mixed(word)
        inside = ((word >> np.uint64(8)) % np.uint64(extent)).astype(np.int64)
        near = np.minimum(((word >> np.uint64(4)) % np.uint64(4)).astype(np.int64), extent - 1)
        kind = word % np.uint64(4)
        place = np.where(kind == 0, near, np.where(kind == 1, extent - 1 - near, inside))
        flat = flat * extent + place
    return distinct(flat, size)
