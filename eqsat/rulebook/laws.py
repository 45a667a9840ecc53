"""Declared laws of tensors, proved."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from eqsat.ir.decide import Proof
from eqsat.ir.law import Law, operands, operator_of, widened
from eqsat.rulebook.tensor_model import AXIOMS
from eqsat.rulebook.tensor_search import prove_tensor_rule


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
    return prove_tensor_rule(law.left, law.right, law.hypotheses, believed=believed)
