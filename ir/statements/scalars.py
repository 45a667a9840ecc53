"""What a statement computes at one position, without arrays of indices: these are Python integers, and the elements
that they lead to are read first. Where anything is out of the ordinary, the answer is left to `evaluate_masked`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from eqsat.ir.dtypes import INDEX, NDArray
from eqsat.ir.errors import EvaluationError
from eqsat.ir.statements.memory import Allocation
from eqsat.ir.terms.evaluate import LoadFunction, Mask, evaluate_masked, order_of
from eqsat.ir.terms.exact import INT64_MAX, integer_function
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of

EXACT = frozenset(
    ("sum", "prod", "floordiv", "mod", "truncdiv", "truncmod", "min", "max", "bitand", "bitor", "bitxor", "shl", "shr")
)
"""Operations of indices that `integer_function` knows."""


class Plan:
    """How terms are evaluated, found once: `axes` are those that have a value at each position.

    `order` is that of all nodes, for `evaluate_masked`; `holes` says whether a hole is among them.
    """

    def __init__(self, terms: Sequence[Term], axes: Mapping[Term, NDArray]) -> None:
        self.order = order_of(terms, axes)
        self.holes = bool(nodes_of("hole", *terms))
        self.slots: dict[Term, int] = {}
        self.start: list[int] = []
        self.leaves: list[tuple[int, Term]] = []
        self.steps: list[tuple[int, Callable[..., int], tuple[int, ...]]] = []
        self.loads: list[tuple[Term, str, tuple[int, ...]]] = []
        for axis in axes:
            self.leaves.append((self._slot(axis, 0), axis))
        for node in self.order[0]:
            self._take(node)
        used = {a for node in self.order[0] for a in node.args} | {*terms}
        self.leaves = [(slot, axis) for slot, axis in self.leaves if axis in used]
        self.terms = terms
        self.rest = [term for term in terms if term not in self.slots]
        done: dict[Term, NDArray] = dict.fromkeys([*self.slots, *(load for load, _, _ in self.loads)], np.zeros(()))
        self.rest_order = order_of(self.rest, done)
        beside = dict.fromkeys(a for node in self.rest_order[0] for a in node.args)
        self.beside = [(a, self.slots[a]) for a in beside if a in self.slots]

    def _slot(self, node: Term, value: int) -> int:
        self.slots[node] = len(self.start)
        self.start.append(value)
        return self.slots[node]

    def _take(self, node: Term) -> None:
        """Plan a node whose operands are planned; what is not taken here is left to arrays."""
        if node.lanes != 1 or not all(a in self.slots for a in node.args):
            return
        operands = tuple(self.slots[a] for a in node.args)
        if node.op == "load":
            self.loads.append((node, str(node.payload), operands))
        elif node.dtype == INDEX and node.op == "const":
            self._slot(node, node.payload)
        elif node.dtype == INDEX and node.op in EXACT:
            self.steps.append((self._slot(node, 0), integer_function(node), operands))

    def evaluate(
        self, axes: Mapping[Term, NDArray], buffers: Mapping[str, Allocation], load: LoadFunction, track: bool
    ) -> list[tuple[NDArray, Mask]] | None:
        """What `evaluate_masked` answers for the terms; None where a load is out of range or an index is undefined or
        large, and, with `track`, where not all is known of an element."""
        numbers = self.start.copy()
        for slot, axis in self.leaves:
            numbers[slot] = int(axes[axis])
        try:
            for slot, function, operands in self.steps:
                numbers[slot] = function(*[numbers[k] for k in operands])
        except EvaluationError:  # perhaps nobody needs it
            return None
        known: dict[Term, NDArray] = {}
        for node, name, index in self.loads:
            found = buffers[name]
            place = found.place([numbers[k] for k in index])
            if place is None or len(place) != found.cells.ndim:
                return None
            if track and (found.state[place].any() or found.forbidden[place].any()):
                return None
            known[node] = np.asarray(found.cells[place])
        for node, slot in self.beside:
            if abs(numbers[slot]) > INT64_MAX:
                return None
            known[node] = np.asarray(numbers[slot], np.int64)
        rest = iter(evaluate_masked(self.rest, known, load, None, self.rest_order) if self.rest else ())
        slots = self.slots
        return [(np.asarray(numbers[slots[t]]), None) if t in slots else next(rest) for t in self.terms]
