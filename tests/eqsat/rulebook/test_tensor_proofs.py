"""The laws of layout hold for every rank, and each stops holding when a hypothesis or a part of it is dropped."""

import pytest

from eqsat.rulebook.tensor_proofs import (
    FApply,
    FConst,
    FOf,
    Formula,
    HAnd,
    HIff,
    HImplies,
    HInside,
    HNot,
    HSameIndex,
    HSameValue,
    HValid,
    IGather,
    IVar,
    MCompose,
    MFilled,
    MIdentity,
    MInverse,
    MSelect,
    MTotal,
    MVar,
    TCompute,
    TensorExpr,
    TGuard,
    TPointwise,
    TRead,
    TReadThrough,
    TVal,
    TView,
    TWhere,
    VAt,
    VFill,
    fits,
    holds,
    maps_back,
    same_box,
    same_valid,
    total,
)
from eqsat.rulebook.tensor_search import prove_tensor_rule

X, Y, F, G, M, B = TVal("x"), TVal("y"), MVar("f"), MVar("g"), MVar("m"), MVar("b", bijective=True)
M1, M2, CROP, NARROW = MVar("m1"), MVar("m2"), MVar("crop"), MVar("narrow")
P1, P2, P, U, V = FConst("p1"), FConst("p2"), FConst("p"), FConst("u"), FConst("v")
PAD = MFilled(MVar("pad"), V)
HERE, AFTER_PAD = IVar(), IGather(PAD, IVar())

PADDED_PAIR = TPointwise("f", (TView(X, MFilled(M1, P1)), TView(Y, MFilled(M2, P2))))
PADDED_AFTER = TView(TPointwise("f", (X, Y)), MFilled(M1, FApply("f", (P1, P2))))
SAME_GATHER = (same_box(M1, M2), HSameIndex(IGather(M1, HERE), IGather(M2, HERE)))

# y is not padded: `NARROW` takes the part of y that lies over x.
ONE_PADDED = TPointwise("f", (TView(X, MFilled(M, P1)), Y))
ONE_AFTER = TView(TPointwise("f", (X, TView(Y, NARROW))), MFilled(M, FApply("f", (P1, U))))
AT_SOURCE = IGather(M, HERE)
LIES_OVER = (
    same_box(M, Y),
    HImplies(HValid(M), HAnd((HSameIndex(IGather(NARROW, AT_SOURCE), HERE), HValid(NARROW, AT_SOURCE)))),
    HImplies(HAnd((HInside(M), HValid(M))), HInside(NARROW, AT_SOURCE)),
)
CROP_THEN_PAD = (
    same_box(PAD, X),
    HImplies(HValid(PAD), HAnd((HValid(CROP, AFTER_PAD), HSameIndex(IGather(CROP, AFTER_PAD), HERE)))),
)
SUM = TCompute("sum", (TRead(TView(X, M), "a"), TRead(Y, "c")))
SUM_X = TCompute("sum", (TRead(X, "a"),))
ABSORBED = TCompute("sum", (TReadThrough(X, M, "a"), TRead(Y, "c")))
IN_COMPUTE = TCompute("sum", (TRead(X, "a"),), at=M)
FLAT = TCompute("body", (TRead(X, "a"), TRead(Y, "c")), reduced=False)

Law = tuple[str, TensorExpr, TensorExpr, tuple[Formula, ...]]

TRUE_LAWS: list[Law] = [
    ("load of a view", TView(X, F), TGuard(F, TView(X, F)), ()),
    ("compose", TView(TView(X, F), G), TView(X, MCompose(F, G)), ()),
    ("compose three", TView(TView(TView(X, F), G), M), TView(X, MCompose(F, MCompose(G, M))), ()),
    ("identity", TView(X, MIdentity()), X, ()),
    ("identity before", TView(X, MCompose(MIdentity(), F)), TView(X, F), ()),
    ("identity after", TView(X, MCompose(F, MIdentity())), TView(X, F), ()),
    ("inverse pair", TView(TView(X, B), MInverse(B)), X, (fits(B, X),)),
    ("inverse pair, other way", TView(TView(X, MInverse(B)), B), X, (same_box(B, X),)),
    (
        "inline a view of an element-wise function",
        TView(TPointwise("f", (X, Y)), M),
        TGuard(M, TPointwise("f", (TView(X, MFilled(M, P1)), TView(Y, MFilled(M, P2))))),
        (),
    ),
    ("inline a view of a reduction", TView(SUM_X, M), TGuard(M, IN_COMPUTE), ()),
    (
        "inline a view of a body",
        TView(FLAT, M),
        TGuard(M, TCompute("body", (TRead(X, "a"), TRead(Y, "c")), at=M, reduced=False)),
        (),
    ),
    ("push a pad outward, shared valid", PADDED_PAIR, PADDED_AFTER, (same_valid(M1, M2), *SAME_GATHER)),
    (
        "pull a pad inward through a preimage of the fill",
        TView(TPointwise("f", (X,)), MFilled(M, P)),
        TPointwise("f", (TView(X, MFilled(M, U)),)),
        (HSameValue(VFill(FApply("f", (U,))), VFill(P)),),
    ),
    ("unpadded operand is u over the pad", ONE_PADDED, ONE_AFTER, (*LIES_OVER, holds(Y, U, HNot(HValid(M))))),
    (
        "crop of a pad",
        TView(TView(X, PAD), CROP),
        X,
        (maps_back(PAD, CROP, HInside(X)), same_box(CROP, X), total(CROP)),
    ),
    (
        "pad of a crop whose cropped cells hold the value",
        TView(TView(X, CROP), PAD),
        X,
        (*CROP_THEN_PAD, holds(X, V, HNot(HValid(PAD)))),
    ),
    ("select", TWhere("c", TView(X, F), TView(X, G)), TView(X, MSelect("c", F, G)), (same_box(F, G),)),
    ("absorb", SUM, ABSORBED, ()),
    (
        "absorb below another reduction",
        TCompute("max", (TRead(SUM, "d"),)),
        TCompute("max", (TRead(ABSORBED, "d"),)),
        (),
    ),
    (
        "reindex",
        SUM_X,
        TView(TCompute("sum", (TRead(X, "a"),), at=B), MInverse(B)),
        (HIff(HInside(MInverse(B)), HInside(SUM_X)),),
    ),
    ("reads stay guarded", TView(X, M), TGuard(M, TView(X, MTotal(M))), ()),
]

FALSE_LAWS: list[Law] = [
    ("compose keeps only the outer fill", TView(TView(X, F), G), TView(X, MFilled(MCompose(F, G), FOf(G))), ()),
    ("compose keeps only the inner fill", TView(TView(X, F), G), TView(X, MFilled(MCompose(F, G), FOf(F))), ()),
    ("compose the other way round", TView(TView(X, F), G), TView(X, MCompose(G, F)), ()),
    ("inverse pair of another box", TView(TView(X, B), MInverse(B)), X, ()),
    ("push a pad, fill not through f", PADDED_PAIR, TView(TPointwise("f", (X, Y)), MFilled(M1, P1)), SAME_GATHER),
    ("push a pad, valid differs", PADDED_PAIR, PADDED_AFTER, SAME_GATHER),
    (
        "pull a pad without a preimage",
        TView(TPointwise("f", (X,)), MFilled(M, P)),
        TPointwise("f", (TView(X, MFilled(M, U)),)),
        (),
    ),
    ("unpadded operand varies over the pad", ONE_PADDED, ONE_AFTER, LIES_OVER),
    ("crop of a pad that does not lead back", TView(TView(X, PAD), CROP), X, (same_box(CROP, X), total(CROP))),
    ("pad of a crop of anything", TView(TView(X, CROP), PAD), X, CROP_THEN_PAD),
    (
        "select with the branches exchanged",
        TWhere("c", TView(X, F), TView(X, G)),
        TView(X, MSelect("c", G, F)),
        (same_box(F, G),),
    ),
    ("select of different boxes", TWhere("c", TView(X, F), TView(X, G)), TView(X, MSelect("c", F, G)), ()),
    ("absorb forgets valid", SUM, TCompute("sum", (TReadThrough(X, MTotal(M), "a"), TRead(Y, "c"))), ()),
    ("inline a padded view of a reduction without its guard", TView(SUM_X, M), IN_COMPUTE, ()),
    ("another access", SUM_X, TCompute("sum", (TRead(X, "c"),)), ()),
    ("another operator", SUM_X, TCompute("max", (TRead(X, "a"),)), ()),
    ("a larger box", TView(X, F), TView(X, MSelect("c", F, G)), ()),
]


@pytest.mark.parametrize(("name", "lhs", "rhs", "hypotheses"), TRUE_LAWS, ids=[law[0] for law in TRUE_LAWS])
def test_true_laws(name: str, lhs: TensorExpr, rhs: TensorExpr, hypotheses: tuple[Formula, ...]) -> None:
    proof = prove_tensor_rule(lhs, rhs, hypotheses)
    assert proof.verdict == "proved", f"{name}: {proof.note}"


@pytest.mark.parametrize(("name", "lhs", "rhs", "hypotheses"), FALSE_LAWS, ids=[law[0] for law in FALSE_LAWS])
def test_false_laws(name: str, lhs: TensorExpr, rhs: TensorExpr, hypotheses: tuple[Formula, ...]) -> None:
    proof = prove_tensor_rule(lhs, rhs, hypotheses)
    assert proof.verdict == "refuted", name
    assert proof.witness is not None
    at = proof.witness
    wrong = at["left[i]"] != at["right[i]"] or at["right defined"] == "False"
    assert (at["left defined"] == "True" and wrong) or at["left box"] != at["right box"], proof.note


def test_reading_out_of_range_is_refused() -> None:
    """where(valid, x[g], p) = x[g] * mask, whatever `*` does to make it so, reads x where the left does not."""
    everywhere = TView(X, MTotal(M))
    masked = TPointwise("mul", (everywhere, TVal("mask")))
    law = (
        HImplies(HValid(M), HSameValue(VAt(masked, HERE), VAt(everywhere, HERE))),
        HImplies(HNot(HValid(M)), HSameValue(VAt(masked, HERE), VFill(P))),
        same_box(TVal("mask"), M),
    )
    proof = prove_tensor_rule(TView(X, MFilled(M, P)), masked, law)
    assert proof.verdict == "refuted" and proof.witness is not None
    assert proof.witness["left[i]"] == proof.witness["right[i]"]
    assert proof.witness["left defined"] == "True" and proof.witness["right defined"] == "False"
    in_range = HImplies(HInside(M), HInside(X, IGather(M, HERE)))
    assert prove_tensor_rule(TView(X, MFilled(M, P)), masked, (*law, in_range)).verdict == "proved"


def test_refutation_is_printed() -> None:
    proof = prove_tensor_rule(TView(TView(X, CROP), PAD), X, CROP_THEN_PAD)
    assert "x(#0) = value" in proof.note
    assert "valid pad(#0) = False" in proof.note


def test_order_free_axiom_is_recorded() -> None:
    proof = prove_tensor_rule(TCompute("sum", (TRead(X, "a"),), permuted="s"), SUM_X)
    assert proof.verdict == "proved" and "order-free" in proof.assumptions[0]
    assert prove_tensor_rule(SUM_X, SUM_X).assumptions == ()


def test_small_budget_is_unknown() -> None:
    assert prove_tensor_rule(TView(TView(X, B), MInverse(B)), X, (fits(B, X),), rlimit=1).verdict == "unknown"
