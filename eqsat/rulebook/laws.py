"""Declared laws of tensors in the language of the tensor prover."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any, cast

from eqsat.ir.decide import Proof
from eqsat.ir.errors import EqsatError
from eqsat.ir.law import Expr, Law, operands, operator_of, widened
from eqsat.rulebook import tensor_proofs as p
from eqsat.rulebook.tensor_model import AXIOMS
from eqsat.rulebook.tensor_search import prove_tensor_rule


def _combine_at(m: Any, op: str, reads: Any) -> p.TCompute:
    return p.TCompute(op, reads, at=m)


def _combine_permuted(name: str, op: str, reads: Any) -> p.TCompute:
    return p.TCompute(op, reads, permuted=name)


def _combine_moved(m: Any, name: str, op: str, reads: Any) -> p.TCompute:
    return p.TCompute(op, reads, at=m, permuted=name)


def _combine_within(part: str, op: str, reads: Any) -> p.TCompute:
    return p.TCompute(op, reads, within=part)


def _at(value: Any) -> p.VAt | p.VFill:
    """A tensor or a fill at the index."""
    fills = (p.FVar, p.FConst, p.FApply, p.FOf)
    return p.VFill(value) if isinstance(value, fills) else p.VAt(value, p.IVar())


def _same_value(a: Any, b: Any) -> p.HSameValue:
    return p.HSameValue(_at(a), _at(b))


def _chosen(condition: str, maps: Any) -> Any:
    rest = maps[1:]
    return p.MSelect(condition, maps[0], _chosen(condition + "'", rest)) if rest else maps[0]


def _select(condition: str, operands: Any) -> Any:
    rest = operands[1:]
    return p.TWhere(condition, operands[0], _select(condition + "'", rest)) if rest else operands[0]


def _reached(_: str, index: Any, access: str) -> p.IAccess:
    return p.IAccess(access, index)


_BUILD: dict[str, Callable[..., Any]] = {
    "tensor": p.TVal,
    "map": p.MVar,
    "bijection": partial(p.MVar, bijective=True),
    "constant": p.FConst,
    "identity": p.MIdentity,
    "inverse": p.MInverse,
    "compose": p.MCompose,
    "filled": p.MFilled,
    "chosen": _chosen,
    "applied": p.FApply,
    "view": p.TView,
    "pointwise": p.TPointwise,
    "select": _select,
    "guarded": p.TGuard,
    "read": p.TRead,
    "read_through": p.TReadThrough,
    "combine": p.TCompute,
    "combine_at": _combine_at,
    "combine_permuted": _combine_permuted,
    "combine_moved": _combine_moved,
    "combine_within": _combine_within,
    "index": p.IVar,
    "gather": p.IGather,
    "valid": p.HValid,
    "takes": p.HCondition,
    "reached": _reached,
    "reduces": p.HReduced,
    "within": p.HWithin,
    "neutral": p.HNeutral,
    "inside": p.HInside,
    "same_index": p.HSameIndex,
    "same_value": _same_value,
    "negation": p.HNot,
    "both": p.HAnd,
    "implies": p.HImplies,
    "iff": p.HIff,
}


def translate(e: Expr) -> Any:
    """The prover's expression."""
    build = _BUILD.get(e.op)
    if build is None:
        raise EqsatError(f"law expression {e}", f"{e.op} has no meaning", f"known: {', '.join(_BUILD)}")
    return build(*(_argument(a) for a in e.args))


def _argument(a: Any) -> Any:
    if isinstance(a, Expr):
        return translate(a)
    if isinstance(a, tuple):
        return tuple(_argument(x) for x in cast(tuple[Any, ...], a))
    return a


def prove_law(law: Law, believed: Collection[str] = tuple(AXIOMS)) -> Proof:
    """Is the law true for every rank, all tensors and all maps? A proof names the axioms that it uses, of those that
    are `believed`.

    A law of an operator is proved for the operands that it lists, and for one more: functions and bodies are any, and
    may be of tuples, so what holds for two operands of a kind holds for each number of them.
    """
    operator = operator_of(law.left)
    wider = None if operator is None else widened(law, len(operands(operator)) + 1)
    proofs = [_proof(law, believed)]
    if wider is not None and proofs[0].verdict != "refuted":
        proofs.append(_proof(wider, believed))
    worst = min(proofs, key=lambda proof: ("refuted", "unknown", "proved").index(proof.verdict))
    return replace(worst, seconds=sum(proof.seconds for proof in proofs))


def _proof(law: Law, believed: Collection[str]) -> Proof:
    hypotheses = [translate(h) for h in law.hypotheses]
    return prove_tensor_rule(translate(law.left), translate(law.right), hypotheses, believed=believed)
