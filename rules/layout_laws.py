"""The laws of layout: how views compose, cancel and pass through any operator. They replace per-operator knowledge.

A View is `where(valid(i), source[gather(i)], fill(i))`. Every law here holds for all ranks and all maps; where a law
needs that maps fit together, or that cells hold a value, it says so as a hypothesis, which the engine has to discharge.
"""

from __future__ import annotations

from eqsat.ir.law import (
    HERE,
    Expr,
    Laws,
    applied,
    bijection,
    both,
    chosen,
    combine,
    combine_at,
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
    valid,
    value,
    view,
)

LAWS = Laws("layout_laws")
law = LAWS.law

X, Y = tensor("x"), tensor("y")
F, G, M, N, B = mapping("f"), mapping("g"), mapping("m"), mapping("n"), bijection("b")
P, Q, U, V = value("p"), value("q"), value("u"), value("v")
PAD, CROP = filled(mapping("pad"), V), mapping("crop")


@law("compose")
def compose_views() -> tuple[Expr, ...]:
    """A view of a view is a view: gathers compose, and each keeps its own fill."""
    return view(view(X, F), G), view(X, compose(F, G))


@law("identity")
def identity_view() -> tuple[Expr, ...]:
    """A view that changes nothing is its source."""
    return view(X, identity()), X


@law("inverse-pair")
def inverse_pair() -> tuple[Expr, ...]:
    """A bijective view and its inverse cancel, where the bijection's source box is the tensor's."""
    return view(view(X, B), inverse(B)), X, fits(B, X)


@law("inverse-pair-before")
def inverse_pair_before() -> tuple[Expr, ...]:
    """The inverse first and the bijection after cancel too."""
    return view(view(X, inverse(B)), B), X, same_box(B, X)


@law("inline")
def inline() -> tuple[Expr, ...]:
    """A view of a Compute is the Compute with its body taken at the gathered index, guarded by the view's validity."""
    return view(combine("op", read(X, "a")), M), guarded(M, combine_at(M, "op", read(X, "a")))


@law("push-view")
def push_view() -> tuple[Expr, ...]:
    """An element-wise function of operands under one view is the view of the function; its fill goes through it."""
    left = pointwise("f", view(X, filled(M, P)), view(Y, filled(N, Q)))
    right = view(pointwise("f", X, Y), filled(M, applied("f", P, Q)))
    return left, right, same_valid(M, N), same_box(M, N), same_index(gather(M), gather(N))


@law("pull-pad")
def pull_pad() -> tuple[Expr, ...]:
    """A view of an element-wise function passes to its operand with a constant that the function takes to the fill."""
    left = view(pointwise("f", X), filled(M, P))
    return left, pointwise("f", view(X, filled(M, U))), same_value(applied("f", U), P)


@law("pull-pad-past-operand")
def pull_pad_past_operand() -> tuple[Expr, ...]:
    """The same with an unpadded operand that lies over the padded one and holds one value over the padded cells."""
    narrow = mapping("narrow")
    at = gather(M)
    left = pointwise("f", view(X, filled(M, P)), Y)
    right = view(pointwise("f", X, view(Y, narrow)), filled(M, applied("f", P, U)))
    lies_over = implies(valid(M), both(same_index(gather(narrow, at), HERE), valid(narrow, at)))
    covered = implies(both(inside(M), valid(M)), inside(narrow, at))
    constant = implies(both(inside(Y), negation(valid(M))), same_value(Y, U))
    return left, right, same_box(M, Y), lies_over, covered, constant


@law("crop-of-pad")
def crop_of_pad() -> tuple[Expr, ...]:
    """A crop that leads back to the cells that a pad kept undoes it."""
    step = gather(CROP)
    back = implies(inside(X), both(valid(PAD, step), same_index(gather(PAD, step), HERE)))
    return view(view(X, PAD), CROP), X, back, same_box(CROP, X), implies(inside(CROP), valid(CROP))


@law("pad-of-crop")
def pad_of_crop() -> tuple[Expr, ...]:
    """A pad undoes a crop only where the cropped cells hold the pad's value."""
    step = gather(PAD)
    back = implies(valid(PAD), both(valid(CROP, step), same_index(gather(CROP, step), HERE)))
    held = implies(both(inside(X), negation(valid(PAD))), same_value(X, V))
    return view(view(X, CROP), PAD), X, same_box(PAD, X), back, held


@law("absorb")
def absorb() -> tuple[Expr, ...]:
    """A view that a Compute loads disappears into the access."""
    left = combine("op", read(view(X, M), "a"), read(Y, "c"))
    return left, combine("op", read_through(X, M, "a"), read(Y, "c"))


@law("select-of-views")
def select_of_views() -> tuple[Expr, ...]:
    """Selecting between views of one tensor is one view."""
    return select("c", view(X, F), view(X, G)), view(X, chosen("c", F, G)), same_box(F, G)


@law("reindex")
def reindex() -> tuple[Expr, ...]:
    """A Compute over a bijection of its output box, seen through the inverse, is the Compute."""
    left = combine("op", read(X, "a"))
    return left, view(combine_at(B, "op", read(X, "a")), inverse(B)), fits(B, left)
