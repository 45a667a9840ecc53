"""The laws of layout: how views compose, cancel and pass through any operator. They replace per-operator knowledge.

A View is `where(valid(i), source[gather(i)], fill(i))`. Every law here holds for all ranks and all maps; where a law
needs that maps fit together, or that cells hold a value, it says so as a hypothesis, which the engine has to discharge.
What is declared here is what the search runs: `eqsat.laws` makes its rules and questions from these laws.
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
    combine_moved,
    combine_within,
    compose,
    filled,
    fits,
    gather,
    guarded,
    identity,
    implies,
    inside,
    inverse,
    keeps,
    keeps_within,
    mapping,
    negation,
    neutral,
    pointwise,
    read,
    read_through,
    reduces,
    same_box,
    same_index,
    same_valid,
    same_value,
    select,
    takes,
    tensor,
    total,
    undone,
    valid,
    value,
    view,
    within,
)

LAWS = Laws("layout_laws")
law = LAWS.law

X, Y = tensor("x"), tensor("y")
F, G, M, N = mapping("f"), mapping("g"), mapping("m"), mapping("n")
B, C, D = bijection("b"), bijection("c"), bijection("d")
P, Q, U, V = value("p"), value("q"), value("u"), value("v")
PAD = filled(mapping("pad"), V)


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
    """A view that reads no cell twice, of the view that leads each of its cells back, is the source."""
    return view(view(X, F), G), X, same_box(G, X), undone(F, G)


@law("inline")
def inline() -> tuple[Expr, ...]:
    """A view of a Compute is the Compute with its body taken at the gathered index, guarded by the view's validity."""
    return view(combine("op", read(X, "a")), M), guarded(M, combine_at(M, "op", read(X, "a")))


@law("restrict")
def restrict() -> tuple[Expr, ...]:
    """A part of a Compute is the Compute over those parts of its operands that it reads."""
    left = view(combine("op", read(X, "a")), M)
    right = combine_at(M, "op", read_through(view(X, F), G, "a"))
    return left, right, total(M), keeps(F, G, M, "op", "a")


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


@law("pad-of-crop")
def pad_of_crop() -> tuple[Expr, ...]:
    """A view that reads each cell in its place, or shows a value, is its source where that holds the value there."""
    in_place = implies(valid(PAD), same_index(gather(PAD), HERE))
    held = implies(both(inside(X), negation(valid(PAD))), same_value(X, V))
    return view(X, PAD), X, same_box(PAD, X), in_place, held


@law("select-part")
def select_part() -> tuple[Expr, ...]:
    """A view of a selection that reads cells of one operand alone is a view of that."""
    one = implies(both(inside(M), valid(M)), takes("c", gather(M)))
    return view(select("c", X, Y), M), view(X, M), one


@law("select-of-views")
def select_of_views() -> tuple[Expr, ...]:
    """Selecting between views of one tensor is one view."""
    return select("c", view(X, F), view(X, G)), view(X, chosen("c", F, G)), same_box(F, G)


@law("drop-neutral")
def drop_neutral() -> tuple[Expr, ...]:
    """A reduction is the one over a part of its box where its body is neutral everywhere else: padding is not read."""
    left = combine("op", read(X, "a"))
    right = combine_within("k", "op", read_through(view(X, F), G, "a"))
    idle = implies(both(inside(left), reduces("op"), negation(within("k"))), neutral(left))
    return left, right, keeps_within(F, G, "k", "op", "a"), idle


@law("lift-pad")
def lift_pad() -> tuple[Expr, ...]:
    """An operator that has one value all around a part of its result is that part, padded with the value."""
    left = combine("op", read(X, "a"))
    again = compose(M, N)
    placed = implies(valid(again), same_index(gather(again), HERE))
    around = implies(both(inside(left), negation(valid(N))), same_value(left, V))
    fit = same_box(N, left), implies(valid(N), inside(M, gather(N)))
    return left, view(view(left, M), filled(N, V)), total(M), *fit, placed, around


@law("spell")
def spell() -> tuple[Expr, ...]:
    """A layout of a Compute is a Compute over layouts of its operands: the forms in which a target can spell it."""
    left = view(combine("op", read(X, "a")), B)
    return left, combine_at(B, "op", read_through(view(X, C), inverse(C), "a")), fits(C, X)


@law("move-positions")
def move_positions() -> tuple[Expr, ...]:
    """The positions of a result in another order are those of the operands in another order: of the axes that they have
    in common, which the operator treats alike at every position, and in any order of what it reduces."""
    left = view(combine("op", read(X, "a")), B)
    return left, combine_moved(B, "s", "op", read_through(view(X, C), inverse(C), "a")), fits(C, X)


@law("lift-positions")
def lift_positions() -> tuple[Expr, ...]:
    """An operator over an operand with its positions in another order is, in that order, the operator over the operand
    as it is, and over others whose positions are put back."""
    left = combine("op", read(view(X, F), "a"), read(Y, "c"))
    moved = combine_moved(inverse(C), "s", "op", read_through(X, F, "a"), read_through(view(Y, D), inverse(D), "c"))
    return left, view(moved, C), same_box(C, left), fits(D, Y)


@law("absorb")
def absorb() -> tuple[Expr, ...]:
    """A view that a Compute loads disappears into the access."""
    left = combine("op", read(view(X, M), "a"), read(Y, "c"))
    return left, combine("op", read_through(X, M, "a"), read(Y, "c"))
