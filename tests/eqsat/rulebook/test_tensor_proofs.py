"""The laws of layout hold for every rank, and each stops holding when a hypothesis or a part of it is dropped."""

import pytest

from eqsat.ir.errors import EqsatError
from eqsat.ir.law import (
    Expr,
    applied,
    bijection,
    both,
    chosen,
    combine,
    combine_at,
    combine_permuted,
    compose,
    filled,
    fits,
    gather,
    guarded,
    identity,
    implies,
    inside,
    inverse,
    mapping,
    negation,
    pointwise,
    read,
    read_through,
    same_box,
    same_index,
    same_valid,
    same_value,
    select,
    tensor,
    total,
    valid,
    value,
    view,
)
from eqsat.rulebook.tensor_search import prove_tensor_rule

X, Y, F, G, M, B = tensor("x"), tensor("y"), mapping("f"), mapping("g"), mapping("m"), bijection("b")
M1, M2, CROP, NARROW = mapping("m1"), mapping("m2"), mapping("crop"), mapping("narrow")
P1, P2, P, U, V = value("p1"), value("p2"), value("p"), value("u"), value("v")
PAD = filled(mapping("pad"), V)

# M, read everywhere: its validity forgotten.
EVERYWHERE = mapping("everywhere")
FORGOTTEN = (valid(EVERYWHERE), same_index(gather(EVERYWHERE), gather(M)), same_box(EVERYWHERE, M))

PADDED_PAIR = pointwise("f", view(X, filled(M1, P1)), view(Y, filled(M2, P2)))
PADDED_AFTER = view(pointwise("f", X, Y), filled(M1, applied("f", P1, P2)))
SAME_GATHER = (same_box(M1, M2), same_index(gather(M1), gather(M2)))


def holds(t: Expr, fill: Expr, where: Expr) -> Expr:
    """A tensor has this value at every index of a region."""
    return implies(both(inside(t), where), same_value(t, fill))


def maps_back(first: Expr, then: Expr, where: Expr) -> Expr:
    """At every index of a region, `first` is valid after `then`, and its gather leads back to the index."""
    step = gather(then)
    return implies(where, both(valid(first, step), same_index(gather(first, step), Expr("index"))))


# y is not padded: `NARROW` takes the part of y that lies over x.
ONE_PADDED = pointwise("f", view(X, filled(M, P1)), Y)
ONE_AFTER = view(pointwise("f", X, view(Y, NARROW)), filled(M, applied("f", P1, U)))
LIES_OVER = (
    same_box(M, Y),
    maps_back(NARROW, M, valid(M)),
    implies(both(inside(M), valid(M)), inside(NARROW, gather(M))),
)
CROP_THEN_PAD = (same_box(PAD, X), maps_back(CROP, PAD, valid(PAD)))
SUM = combine("sum", read(view(X, M), "a"), read(Y, "c"))
SUM_X = combine("sum", read(X, "a"))
ABSORBED = combine("sum", read_through(X, M, "a"), read(Y, "c"))
IN_COMPUTE = combine_at(M, "sum", read(X, "a"))

Law = tuple[str, Expr, Expr, tuple[Expr, ...]]

TRUE_LAWS: list[Law] = [
    ("load of a view", view(X, F), guarded(F, view(X, F)), ()),
    ("compose", view(view(X, F), G), view(X, compose(F, G)), ()),
    ("compose three", view(view(view(X, F), G), M), view(X, compose(F, compose(G, M))), ()),
    ("identity", view(X, identity()), X, ()),
    ("identity before", view(X, compose(identity(), F)), view(X, F), ()),
    ("identity after", view(X, compose(F, identity())), view(X, F), ()),
    ("inverse pair", view(view(X, B), inverse(B)), X, (fits(B, X),)),
    ("inverse pair, other way", view(view(X, inverse(B)), B), X, (same_box(B, X),)),
    (
        "inline a view of an element-wise function",
        view(pointwise("f", X, Y), M),
        guarded(M, pointwise("f", view(X, filled(M, P1)), view(Y, filled(M, P2)))),
        (),
    ),
    ("inline a view of a reduction", view(SUM_X, M), guarded(M, IN_COMPUTE), ()),
    (
        "inline a view of a body",
        view(combine("body", read(X, "a"), read(Y, "c")), M),
        guarded(M, combine_at(M, "body", read(X, "a"), read(Y, "c"))),
        (),
    ),
    ("push a pad outward, shared valid", PADDED_PAIR, PADDED_AFTER, (same_valid(M1, M2), *SAME_GATHER)),
    (
        "pull a pad inward through a preimage of the fill",
        view(pointwise("f", X), filled(M, P)),
        pointwise("f", view(X, filled(M, U))),
        (same_value(applied("f", U), P),),
    ),
    ("unpadded operand is u over the pad", ONE_PADDED, ONE_AFTER, (*LIES_OVER, holds(Y, U, negation(valid(M))))),
    ("crop of a pad", view(view(X, PAD), CROP), X, (maps_back(PAD, CROP, inside(X)), same_box(CROP, X), total(CROP))),
    (
        "pad of a crop whose cropped cells hold the value",
        view(view(X, CROP), PAD),
        X,
        (*CROP_THEN_PAD, holds(X, V, negation(valid(PAD)))),
    ),
    ("select", select("c", view(X, F), view(X, G)), view(X, chosen("c", F, G)), (same_box(F, G),)),
    (
        "select of three",
        select("c", view(X, F), view(X, G), view(X, M)),
        view(X, chosen("c", F, G, M)),
        (same_box(F, G), same_box(G, M)),
    ),
    ("absorb", SUM, ABSORBED, ()),
    ("absorb below another reduction", combine("max", read(SUM, "d")), combine("max", read(ABSORBED, "d")), ()),
    ("reindex", SUM_X, view(combine_at(B, "sum", read(X, "a")), inverse(B)), (same_box(inverse(B), SUM_X),)),
    ("reads stay guarded", view(X, M), guarded(M, view(X, EVERYWHERE)), FORGOTTEN),
]

FILLED_TWICE = view(view(X, filled(F, P)), filled(G, V))
FALSE_LAWS: list[Law] = [
    ("compose keeps only the outer fill", FILLED_TWICE, view(X, filled(compose(F, G), V)), ()),
    ("compose keeps only the inner fill", FILLED_TWICE, view(X, filled(compose(F, G), P)), ()),
    ("compose the other way round", view(view(X, F), G), view(X, compose(G, F)), ()),
    ("inverse pair of another box", view(view(X, B), inverse(B)), X, ()),
    ("push a pad, fill not through f", PADDED_PAIR, view(pointwise("f", X, Y), filled(M1, P1)), SAME_GATHER),
    ("push a pad, valid differs", PADDED_PAIR, PADDED_AFTER, SAME_GATHER),
    (
        "pull a pad without a preimage",
        view(pointwise("f", X), filled(M, P)),
        pointwise("f", view(X, filled(M, U))),
        (),
    ),
    ("unpadded operand varies over the pad", ONE_PADDED, ONE_AFTER, LIES_OVER),
    ("crop of a pad that does not lead back", view(view(X, PAD), CROP), X, (same_box(CROP, X), total(CROP))),
    ("pad of a crop of anything", view(view(X, CROP), PAD), X, CROP_THEN_PAD),
    (
        "select with the branches exchanged",
        select("c", view(X, F), view(X, G)),
        view(X, chosen("c", G, F)),
        (same_box(F, G),),
    ),
    (
        "select of three with two exchanged",
        select("c", view(X, F), view(X, G), view(X, M)),
        view(X, chosen("c", F, M, G)),
        (same_box(F, G), same_box(G, M)),
    ),
    ("select of different boxes", select("c", view(X, F), view(X, G)), view(X, chosen("c", F, G)), ()),
    ("absorb forgets valid", SUM, combine("sum", read_through(X, EVERYWHERE, "a"), read(Y, "c")), FORGOTTEN),
    ("inline a padded view of a reduction without its guard", view(SUM_X, M), IN_COMPUTE, ()),
    ("another access", SUM_X, combine("sum", read(X, "c")), ()),
    ("another operator", SUM_X, combine("max", read(X, "a")), ()),
    ("a larger box", view(X, F), view(X, chosen("c", F, G)), ()),
]


@pytest.mark.parametrize(("name", "lhs", "rhs", "hypotheses"), TRUE_LAWS, ids=[law[0] for law in TRUE_LAWS])
def test_true_laws(name: str, lhs: Expr, rhs: Expr, hypotheses: tuple[Expr, ...]) -> None:
    proof = prove_tensor_rule(lhs, rhs, hypotheses)
    assert proof.verdict == "proved", f"{name}: {proof.note}"


@pytest.mark.parametrize(("name", "lhs", "rhs", "hypotheses"), FALSE_LAWS, ids=[law[0] for law in FALSE_LAWS])
def test_false_laws(name: str, lhs: Expr, rhs: Expr, hypotheses: tuple[Expr, ...]) -> None:
    proof = prove_tensor_rule(lhs, rhs, hypotheses)
    assert proof.verdict == "refuted", name
    assert proof.witness is not None
    at = proof.witness
    wrong = at["left[i]"] != at["right[i]"] or at["right defined"] == "False"
    assert (at["left defined"] == "True" and wrong) or at["left box"] != at["right box"], proof.note


def test_reading_out_of_range_is_refused() -> None:
    """where(valid, x[g], p) = x[g] * mask, whatever `*` does to make it so, reads x where the left does not."""
    everywhere = view(X, EVERYWHERE)
    masked = pointwise("mul", everywhere, tensor("mask"))
    law = (
        *FORGOTTEN,
        implies(valid(M), same_value(masked, everywhere)),
        implies(negation(valid(M)), same_value(masked, P)),
        same_box(tensor("mask"), M),
    )
    proof = prove_tensor_rule(view(X, filled(M, P)), masked, law)
    assert proof.verdict == "refuted" and proof.witness is not None
    assert proof.witness["left[i]"] == proof.witness["right[i]"]
    assert proof.witness["left defined"] == "True" and proof.witness["right defined"] == "False"
    in_range = implies(inside(M), inside(X, gather(M)))
    assert prove_tensor_rule(view(X, filled(M, P)), masked, (*law, in_range)).verdict == "proved"


def test_refutation_is_printed() -> None:
    proof = prove_tensor_rule(view(view(X, CROP), PAD), X, CROP_THEN_PAD)
    assert "x(#0) = value" in proof.note
    assert "valid pad(#0) = False" in proof.note


def test_order_free_axiom_is_recorded() -> None:
    proof = prove_tensor_rule(combine_permuted("s", "sum", read(X, "a")), SUM_X)
    assert proof.verdict == "proved" and "order-free" in proof.assumptions[0]
    assert prove_tensor_rule(SUM_X, SUM_X).assumptions == ()


def test_small_budget_is_unknown() -> None:
    assert prove_tensor_rule(view(view(X, B), inverse(B)), X, (fits(B, X),), rlimit=1).verdict == "unknown"


@pytest.mark.parametrize("law", [view(X, X), view(F, F), view(X, inverse(compose(B, B))), Expr("sorted", (X,))])
def test_what_has_no_meaning_is_an_error(law: Expr) -> None:
    with pytest.raises(EqsatError, match=r"has no meaning as a (map|tensor)"):
        prove_tensor_rule(law, X)
