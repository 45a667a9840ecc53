"""The search for a proof or a finite counter-model of a tensor law, in the meaning that `tensor_model` gives it."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any

from eqsat.ir import clock
from eqsat.ir.decide import Proof, Verdict
from eqsat.ir.law import Expr
from eqsat.proving.apart import MOST_SECONDS
from eqsat.proving.z3_check import verdict_of
from eqsat.rulebook.tensor_model import AXIOMS, World

# What is tried in turn: a proof with so many rounds of instances, or a counter-model with so many indices. Few
# instances first: what follows from them is proved, and many bury it. Small models take less than many instances.
ATTEMPTS = (("rounds", 1), ("indices", 1), ("indices", 2), ("rounds", 2), ("indices", 3))


def _negated(world: World, lhs: Expr, rhs: Expr) -> Any:
    """That the law fails at the index i."""
    z3 = world.z3
    i = world.index("i")
    left, right = world.cell(lhs, i), world.cell(rhs, i)
    results = {"left[i]": left.value, "right[i]": right.value}
    results |= {"left defined": left.defined, "right defined": right.defined}
    results |= {"left box": left.inside, "right box": right.inside}
    world.results = results
    kept = z3.Implies(left.defined, z3.And(right.defined, left.value == right.value))
    return z3.Not(z3.And(kept, left.inside == right.inside))


def _solve(world: World, goal: Any, rlimit: int) -> tuple[str, Any]:
    """Z3's verdict, and the model where there is one."""
    z3 = world.z3
    solver = z3.Solver(ctx=world.context)
    solver.set(rlimit=rlimit, timeout=max(1, int(1000 * min(MOST_SECONDS, clock.left()))))
    solver.add(*world.constraints, goal)
    verdict = verdict_of(solver)
    return verdict, solver.model() if verdict == "sat" else None


def _witness(world: World, model: Any) -> dict[str, str]:
    """What the parts of the law are in a model."""
    names = {str(model.eval(e, model_completion=True)): str(e) for e in world.universe}

    def value(term: Any) -> str:
        text = str(model.eval(term, model_completion=True))
        return names.get(text, text.replace("Value!val!", "value "))

    rows: dict[str, str] = {}
    for name, args, term in world.shown.values():
        rows[f"{name}({', '.join(map(value, args))})" if args else name] = value(term)
    return rows | {text: value(term) for text, term in world.results.items()}


def decide_rule(
    lhs: Expr, rhs: Expr, hypotheses: tuple[Expr, ...], rlimit: int, believed: Collection[str]
) -> tuple[Verdict, dict[str, str], str, tuple[str, ...]]:
    """The verdict, the finite counter-model, the method and the axioms used."""
    axioms: tuple[str, ...] = ()
    for kind, n in ATTEMPTS:
        world = World(n if kind == "indices" else 0, believed)
        goal = _negated(world, lhs, rhs)
        if kind == "rounds":
            world.close(hypotheses, n)
            axioms = tuple(map(AXIOMS.__getitem__, world.axioms))
            if _solve(world, goal, rlimit)[0] == "unsat":
                return "proved", {}, "unfolding + z3", axioms
        elif world.close(hypotheses, 12):
            verdict, model = _solve(world, goal, rlimit)
            if verdict == "sat":
                return "refuted", _witness(world, model), f"finite model with {n} indices", axioms
    return "unknown", {}, "unfolding + z3", axioms


def prove_tensor_rule(
    lhs: Expr,
    rhs: Expr,
    hypotheses: Sequence[Expr] = (),
    rlimit: int = 4_000_000,
    believed: Collection[str] = tuple(AXIOMS),
) -> Proof:
    """Wherever `lhs` is defined: is `rhs` defined and equal, in the same box, for all tensors, maps and functions?

    >>> from eqsat.ir.law import compose, filled, mapping, tensor, value, view
    >>> x, f, g, p = tensor("x"), mapping("f"), mapping("g"), value("p")
    >>> prove_tensor_rule(view(view(x, f), g), view(x, compose(f, g))).verdict
    'proved'
    >>> prove_tensor_rule(view(view(x, f), filled(g, p)), view(x, filled(compose(f, g), p))).verdict  # the fill of f?
    'refuted'

    A refutation's witness maps the parts of a finite model, such as "valid f(#0)", to their values; `note` prints it.
    The budget `rlimit` is in Z3 resource units per attempt. Of the axioms, those that are `believed` may be used.
    """
    begun = time.perf_counter()
    verdict, model, method, axioms = decide_rule(lhs, rhs, tuple(hypotheses), rlimit, believed)
    note = "\n".join(f"{name} = {value}" for name, value in model.items())
    return Proof(verdict, model or None, method, time.perf_counter() - begun, note, axioms)
