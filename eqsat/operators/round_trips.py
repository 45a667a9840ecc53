"""Chains of element-wise operators that give back what they got: what is dequantised and quantised again by the same
numbers is itself.

Decided by trial of every number that a type has, with the operators' own meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.ir.dtypes import BOOL, NDArray
from eqsat.ir.tensors.tensor import Compute, Node, Opaque, Tensor, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of
from eqsat.operators.labels import CanonicalOp, ComputeKind, canonicalise, of_compute
from eqsat.operators.moves import is_pointwise

SMALL = ("int8", "uint8", "int16", "uint16", BOOL)
"""The types of few numbers."""

MOST_STEPS = 16

Step = tuple[CanonicalOp, Sequence[Term | None]]
"""An operator, and the constants that its operands hold; None where the number goes in."""


def formula_of(operator: CanonicalOp, node: Node) -> tuple[CanonicalOp, list[int]] | None:
    """An operator as a formula, and which of the operator's operands each of the formula's is: the operator itself, or
    what its definition says, where that is one formula of its operands and the cells of both are in the same order.

    `node` is an operator of a program with this normal form.
    """
    if operator.kind.identity:
        return None  # it stays an operator of its own
    if isinstance(operator.kind, ComputeKind):
        return operator, list(range(len(operator.operands)))
    if not isinstance(node, Opaque) or node.definition is None or not node.pure or len(node.outputs) != 1:
        return None
    held = {(x := input(f"x{k}", d.shape, d.dtype)).key: (k, x) for k, d in enumerate(node.operands)}
    made = node.definition(*(x for _, x in held.values()))
    found = made if isinstance(made, Tensor) else made[0]
    if not isinstance(found.node, Compute) or any(x.key not in held for x in found.node.operands):
        return None
    labelled = of_compute(found.node)
    formula = canonicalise(labelled).operator
    order = [held[found.node.operands[k].key][0] for k in labelled.accesses]
    theirs = [operator.operands[k] == operator.outputs[0] for k in order]
    return (formula, order) if theirs == [x == formula.outputs[0] for x in formula.operands] else None


def is_plain(step: Step) -> bool:
    """Whether an operator makes each number from the one at its place, and from constants."""
    op, given = step
    kind = op.kind
    if kind.identity or not isinstance(kind, ComputeKind) or not is_pointwise(op) or len(given) != len(op.operands):
        return False
    numbers = [k for k, x in enumerate(given) if x is None]
    loads = {x.payload for x in nodes_of("load", kind.body)}
    plain = loads <= set(range(len(given))) and not any(nodes_of(x, kind.body) for x in ("axis", "sym", "hole"))
    return plain and len(numbers) == 1 and op.operands[numbers[0]] == op.outputs[0]


class Chain:
    """Plain operators one after another, from the last one back, that end in a type of few numbers."""

    def __init__(self, dtype: str) -> None:
        self.numbers = _numbers(dtype)
        self.made = self.numbers
        """What comes out for each number of the type at the last place that was asked about."""
        self.since: list[Step] = []

    def start_with(self, step: Step) -> None:
        """Put an operator before all others."""
        self.since.insert(0, step)

    def gives_back(self) -> bool | None:
        """Whether numbers of the type that go in come out as they are; None where they never will, whatever operators
        come before: some number of the type does not come out at all."""
        found: NDArray | None = self.numbers
        for step in self.since:
            found = None if found is None else _on(step, found)
        if found is None or found.dtype != self.numbers.dtype:
            return None
        least = int(self.numbers[0])
        self.made, self.since = self.made[found.astype(np.int64) - least], []
        if not np.bincount(self.made.astype(np.int64) - least, minlength=len(self.numbers)).all():
            return None
        return bool(np.array_equal(self.made, self.numbers))


def _numbers(dtype: str) -> NDArray:
    if dtype == BOOL:
        return np.array([False, True])
    info = np.iinfo(dtype)
    return np.arange(info.min, int(info.max) + 1, dtype=dtype)


def _on(step: Step, numbers: NDArray) -> NDArray | None:
    """What an operator makes of numbers; None where it is not defined on all of them."""
    op, given = step
    assert isinstance(op.kind, ComputeKind)

    def load(source: object, index: Sequence[NDArray]) -> tuple[NDArray, NDArray | None]:
        assert isinstance(source, int)
        held = given[source]
        return (numbers if held is None else np.asarray(t.const_value(held))), None

    with np.errstate(all="ignore"):
        value, bad = evaluate_masked([op.kind.body], {}, load)[0]
    if bad is not None and bool(np.any(bad)):
        return None
    return np.broadcast_to(np.asarray(value, op.kind.dtypes[0]), numbers.shape)
