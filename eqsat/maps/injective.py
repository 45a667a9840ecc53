"""Whether an index map is injective over a box, with two points that share a cell where it is not."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import cast

from eqsat.ir.decide import Proof, decider
from eqsat.ir.fast import fast_paths, remembered
from eqsat.ir.points import ENUMERATION_LIMIT
from eqsat.ir.ranges.bounds import overflowing
from eqsat.ir.terms.shape import static_shape
from eqsat.maps.padding import first_astray
from eqsat.maps.points import scan
from eqsat.maps.problem import FEW_POINTS, Pair, Problem
from eqsat.maps.solution import by_digits, for_all_sizes, solution

LARGEST_SCAN = 1 << 24
LARGEST_MARKS = 1 << 26


def injective(problem: Problem) -> Proof:
    """Whether different points of the box have different cells; the witness of a no is a pair of points."""
    if any(isinstance(e, int) and e == 0 for e in problem.extents):
        return Proof("proved", method="empty box")
    if problem.numbers is not None and set(problem.inputs) <= set(problem.outputs):
        return Proof("proved", method="structure")
    methods: list[str] = []
    unknown: Proof | None = None
    for part in problem.parts:
        proof = injective_part(part)
        methods.append(proof.method)
        if proof.verdict == "refuted":
            return Proof("refuted", whole_witness(problem, proof.witness), proof.method, note=proof.note)
        if proof.verdict == "unknown":
            unknown = proof
    if unknown is not None:
        return unknown
    return Proof("proved", method=", ".join(dict.fromkeys(m for m in methods if m)) or "structure")


@remembered(1024)
def injective_part(part: Problem) -> Proof:
    """The same for one component, whose witness names only its own inputs."""
    if not part.outputs:
        return _without_outputs(part)
    if part.numbers is None:
        found = for_all_sizes(part)
        if found is not None:
            return Proof("proved", method="digits" if found.loose is not None else "equations")
    elif set(part.inputs) <= set(part.outputs):
        return Proof("proved", method="structure")
    else:
        found = _by_points(part)
        if found is not None:
            return found
    return decider().injective(part.outputs, part.box)


def _by_points(part: Problem) -> Proof | None:
    """Injectivity over numbers: by the points of a small box, the equations, or all points; None for larger boxes."""
    assert part.numbers is not None
    extents, declared = part.numbers
    if fast_paths() and prod(extents) <= prod(declared) and by_digits(part) is not None:
        return Proof("proved", method="equations")
    pair = part.collision
    if pair is None and prod(extents) > FEW_POINTS:
        if solution(part) is not None:
            return Proof("proved", method="equations")
        narrow = all(overflowing(o, part.box, 64) is None for o in part.outputs)
        if narrow and prod(extents) <= LARGEST_SCAN and prod(declared) <= LARGEST_MARKS:
            pair = _scanned(part, extents, declared)
        elif part.points is not None:
            pair = part.named(part.points.collision())
        else:
            return None
    if pair is None:
        return Proof("proved", method="enumeration")
    return Proof("refuted", {"first": pair[0], "second": pair[1]}, "enumeration")


def _scanned(part: Problem, extents: tuple[int, ...], declared: tuple[int, ...]) -> Pair | None:
    found = scan(part.outputs, part.inputs, extents, declared)
    if found is None:
        return None
    first, second = (dict(zip(map(str, part.inputs), point, strict=True)) for point in found)
    return first, second


def _without_outputs(part: Problem) -> Proof:
    """Inputs that no output depends on: one point, or two that go the same way."""
    for v, extent in zip(part.inputs, part.extents, strict=True):
        if isinstance(extent, int) and extent > 1:
            zero = {str(x): 0 for x in part.inputs}
            return Proof("refuted", {"first": zero, "second": {**zero, str(v): 1}}, "structure", note=f"{v} is lost")
    if static_shape(part.extents) is not None:
        return Proof("proved", method="structure")
    return Proof("unknown", method="structure", note="an input of symbolic extent is lost")


def whole_witness(problem: Problem, witness: Mapping[str, object] | None) -> dict[str, object]:
    """The witness of a component with the inputs of the others at 0, and the values of the symbols."""
    names = [str(v) for v in problem.inputs]
    result: dict[str, object] = {}
    for key, value in (witness or {}).items():
        if isinstance(value, Mapping):
            point = cast("Mapping[str, object]", value)
            result[key] = {**{name: point.get(name, 0) for name in names}, **point}
        else:
            result[key] = value
    return result


def missed_cell(problem: Problem) -> tuple[int, ...] | None:
    """A cell that no point of an injective map reaches, the first one in a small box; None where none is found."""
    if problem.numbers is not None and 0 in problem.numbers[0]:  # no point, so every cell is missed
        return None if 0 in problem.numbers[1] else (0,) * len(problem.physical)
    found: list[tuple[int, ...]] = []
    for part in problem.parts:
        if part.numbers is None:
            return None
        extents, declared = part.numbers
        if prod(extents) == prod(declared):
            continue
        cell = _missed(part)
        if cell is None:
            return None
        found.append(problem.widened(part, cell))
    return min(found, default=None)


def _missed(part: Problem) -> tuple[int, ...] | None:
    """A cell of an injective component that no point reaches: the first one of a small box, else one that the inverse
    does not lead into the box and back, if it is found soon."""
    assert part.numbers is not None
    size = prod(part.numbers[0])
    found = by_digits(part) if fast_paths() else None
    if found is None and size > ENUMERATION_LIMIT:
        found = solution(part)
    cell = None if found is None else first_astray(part, found.values, sample=size > FEW_POINTS)
    return cell if cell is not None or part.points is None else part.points.missed()
