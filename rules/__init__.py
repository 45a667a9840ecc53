"""Knowledge: rule families, one flat file each. The list of families is here; nothing is found by scanning."""

from __future__ import annotations

from eqsat.ir.law import Law
from eqsat.ir.rule import Rule
from eqsat.rules import (
    axioms,
    bit_ops,
    constants,
    index_arith,
    lattice,
    layout_laws,
    minmax_where,
    predicates,
    split_merge,
    truncation,
)

FAMILIES = (
    split_merge.RULES,
    index_arith.RULES,
    truncation.RULES,
    bit_ops.RULES,
    predicates.RULES,
    lattice.RULES,
    minmax_where.RULES,
    constants.RULES,
)


def scalar_rules() -> list[Rule]:
    """All declared rules about scalar terms, in the order in which the normaliser tries them."""
    return [rule for family in FAMILIES for rule in family]


def tensor_laws() -> list[Law]:
    """All declared laws of tensors, the axioms among them."""
    return [*layout_laws.LAWS, *axioms.AXIOMS]


def all_rules() -> list[Rule | Law]:
    """Everything that `eqsat rules check` checks."""
    return [*scalar_rules(), *tensor_laws()]


def normal_rules() -> list[Rule]:
    """The rules of the normaliser."""
    return tagged("normal")


def tagged(*tags: str) -> list[Rule]:
    """The rules with any of these tags."""
    return [rule for rule in scalar_rules() if rule.tags & set(tags)]
