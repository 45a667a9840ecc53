"""Which values of a term are unknown, because a cell without a value was read: followed beside the evaluation.

A term is KNOWN, FREED (a hole itself, perhaps behind a `where`) or UNKNOWN (computed from a hole, or from what has no
value). An integer times a known 0 is 0 whatever the other factor is; for floats that is not so (0*inf).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from eqsat.ir.dtypes import INDEX, NDArray, is_int
from eqsat.ir.statements.memory import FREED, KNOWN, UNKNOWN
from eqsat.ir.terms.evaluate import LoadFunction, evaluate_masked
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder

StateFunction = Callable[[Term, Sequence[NDArray]], NDArray]
"""What is known of the cells that a load reads at an index."""


class Unknowns:
    """What is known of the terms of one statement, at one position of the loops.

    state: what is known of the cells that a load reads; it also refuses those that must not be read. It sees only loads
    that are evaluated: those behind a guard that does not hold are not.
    """

    def __init__(
        self, roots: Sequence[Term], env: Mapping[Term, NDArray], load: LoadFunction, state: StateFunction
    ) -> None:
        self.nodes = list(postorder(*roots))
        inner = [n for n in self.nodes if n.op not in ("axis", "var", "sym")]
        found = evaluate_masked(inner, env, load)
        self.values = {n: np.asarray(value) for n, (value, _) in zip(inner, found, strict=True)}
        self.undefined = {n: bad for n, (_, bad) in zip(inner, found, strict=True) if bad is not None}
        self.values |= {n: np.asarray(env[n]) for n in self.nodes if n in env}
        self.reached = self._reached(roots)
        self.states: dict[Term, NDArray] = {}
        for node in self.nodes:
            self.states[node] = self._of(node, state)

    def of(self, term: Term) -> int:
        """The worst that is known of the lanes of a term."""
        return int(self.states[term].max(initial=KNOWN))

    def _reached(self, roots: Sequence[Term]) -> set[Term]:
        """The terms that are evaluated, those behind a guard that holds in no lane left out."""
        found: set[Term] = set()
        stack = list(roots)
        while stack:
            node = stack.pop()
            if node in found or node.op in ("axis", "var", "sym"):
                continue
            found.add(node)
            stack.extend(a for a, taken in zip(node.args, self._taken(node), strict=True) if taken)
        return found

    def _taken(self, node: Term) -> list[bool]:
        """Which arguments are evaluated in some lane."""
        if node.op in ("where", "given"):
            condition = self.values[node.args[0]]
            return [True, bool(condition.any()), bool((~condition).any())][: len(node.args)]
        if node.op in ("and", "or"):
            taken = [True]
            going = np.asarray(True)
            for a in node.args[:-1]:
                value = self.values[a]
                going = going & (value if node.op == "and" else ~value)
                taken.append(bool(going.any()))
            return taken
        return [True] * len(node.args)

    def _of(self, node: Term, state: StateFunction) -> NDArray:
        known = np.zeros((), np.uint8)
        if node not in self.reached or node.op in ("axis", "var", "sym", "const"):
            return known
        if node.op == "hole":
            return np.full((), FREED, np.uint8)
        args = [self._wide(node, a) for a in node.args]
        if node.op == "broadcast":
            return args[0]
        if node.op == "load":
            worst = _worst(args)
            at = [self.values[a] for a in node.args]
            read = np.where(worst, UNKNOWN, known) if worst.any() else state(node, at)
            return np.where(read > KNOWN, UNKNOWN, KNOWN).astype(np.uint8)
        if node.op == "where":
            condition = self._lanes(node, node.args[0])
            return np.where(args[0], UNKNOWN, np.where(condition, args[1], args[2])).astype(np.uint8)
        if node.op == "given":
            return np.where(args[0], UNKNOWN, args[1]).astype(np.uint8)
        if node.op in ("and", "or"):
            result, going = known, np.asarray(True)
            for a, unknown in zip(node.args, args, strict=True):
                result = np.where(going & (unknown > 0), UNKNOWN, result)
                value = self._lanes(node, a)
                going = going & ((value if node.op == "and" else ~value) | (unknown > 0))
            return result.astype(np.uint8)
        worst = np.where(_worst(args), UNKNOWN, KNOWN).astype(np.uint8)
        if node.op in ("mul", "prod", "bitand") and (node.dtype == INDEX or is_int(node.dtype)):
            for a, unknown in zip(node.args, args, strict=True):
                worst = np.where((unknown == 0) & (self._lanes(node, a) == 0), KNOWN, worst).astype(np.uint8)
        return worst

    def _wide(self, node: Term, arg: Term) -> NDArray:
        """What is known of an argument, with an axis for the lanes where the node has one."""
        state = self.states[arg]
        return state[..., None] if state.ndim == 0 and node.lanes > 1 else state

    def _lanes(self, node: Term, arg: Term) -> NDArray:
        value = self.values[arg]
        return value[..., None] if value.ndim == 0 and node.lanes > 1 else value


def _worst(states: Sequence[NDArray]) -> NDArray:
    result: NDArray = np.zeros((), np.bool_)
    for state in states:
        result = result | (state > KNOWN)
    return result
