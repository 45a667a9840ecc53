"""The language in which laws of tensors are proved for every rank: sides are unfolded to out[i] over any index sort.

The language is small. A *tensor* has a value and an "inside" predicate (its box); reading outside is undefined. A *map*
is what a View needs: gather (index to index), valid, fill and the box of the result. A law is two tensors and some
hypotheses. It is proved when, wherever the left is defined, the right is defined and equal, and both have the same box.
So a right side that could read out of range is refused. A refuted law comes with a finite model.

>>> from eqsat.rulebook.tensor_search import prove_tensor_rule
>>> x, f, g = TVal("x"), MVar("f"), MVar("g")
>>> prove_tensor_rule(TView(TView(x, f), g), TView(x, MCompose(f, g))).verdict
'proved'
>>> law = prove_tensor_rule(TView(TView(x, f), g), TView(x, MFilled(MCompose(f, g), FOf(g))))  # forgets the fill of f
>>> law.verdict
'refuted'
"""

from __future__ import annotations

from dataclasses import dataclass

# -- maps: what gather, valid, fill and box are at an output index ----------------------------------------------------


@dataclass(frozen=True)
class MVar:
    """Any map. A bijective one is valid everywhere and one to one between its box and its source's box."""

    name: str
    bijective: bool = False


@dataclass(frozen=True)
class MIdentity:
    """out[i] = t[i], of the source's own box."""


@dataclass(frozen=True)
class MInverse:
    """The inverse of a bijective map variable."""

    map: MVar


@dataclass(frozen=True)
class MCompose:
    """The map of View(View(t, first), then): gather first after then; the first's fill where only `then` is valid."""

    first: MapExpr
    then: MapExpr


@dataclass(frozen=True)
class MFilled:
    """The same map with another fill."""

    map: MapExpr
    fill: FillExpr


@dataclass(frozen=True)
class MTotal:
    """The same map read everywhere, its validity forgotten."""

    map: MapExpr


@dataclass(frozen=True)
class MSelect:
    """The first map where a condition on the output index holds, else the second."""

    condition: str
    yes: MapExpr
    no: MapExpr


MapExpr = MVar | MIdentity | MInverse | MCompose | MFilled | MTotal | MSelect


# -- fills: values at an output index of a map ------------------------------------------------------------------------


@dataclass(frozen=True)
class FVar:
    """Any value, depending on the index, where it is defined at all."""

    name: str


@dataclass(frozen=True)
class FConst:
    """One value for all indices."""

    name: str


@dataclass(frozen=True)
class FApply:
    """An element-wise function of fills."""

    function: str
    args: tuple[FillExpr, ...]


@dataclass(frozen=True)
class FOf:
    """The fill of a map."""

    map: MapExpr


FillExpr = FVar | FConst | FApply | FOf


# -- tensors ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TVal:
    """Any tensor, defined inside of its box."""

    name: str


@dataclass(frozen=True)
class TFull:
    """A constant in the box of another tensor."""

    value: FillExpr
    like: TensorExpr


@dataclass(frozen=True)
class TView:
    """where(valid(i), source[gather(i)], fill(i))."""

    source: TensorExpr
    map: MapExpr


@dataclass(frozen=True)
class TPointwise:
    """f(a[i], b[i], ...): every operand is read."""

    function: str
    args: tuple[TensorExpr, ...]


@dataclass(frozen=True)
class TWhere:
    """yes[i] where a condition on the index holds, else no[i]; lazy."""

    condition: str
    yes: TensorExpr
    no: TensorExpr


@dataclass(frozen=True)
class TGuard:
    """where(valid(i), body[i], fill(i)) with valid, fill and box of a map; lazy. The gather is not used."""

    map: MapExpr
    body: TensorExpr


@dataclass(frozen=True)
class TRead:
    """A load inside of a Compute: operand[access(i, j)], i the output index and j the reduced one."""

    operand: TensorExpr
    access: str


@dataclass(frozen=True)
class TReadThrough:
    """A load with a View absorbed: where(valid(a), operand[gather(a)], fill(a)) at a = access(i, j)."""

    operand: TensorExpr
    map: MapExpr
    access: str


@dataclass(frozen=True)
class TCompute:
    """combine over j of body(i, j, loads), for any body and combiner, both named by `op`.

    at: the body is taken at gather(i) of this map, whose box the result has. permuted: the reduced index runs through
    a bijection of the reduced box (the order-free axiom makes that no difference; a proof records its use). A Compute
    that is not `reduced` is its body. within: only the reduced indices of this part of the box (the axiom of neutral
    values says where that makes no difference).
    """

    op: str
    reads: tuple[TRead | TReadThrough, ...]
    at: MapExpr | None = None
    permuted: str = ""
    reduced: bool = True
    within: str = ""


TensorExpr = TVal | TFull | TView | TPointwise | TWhere | TGuard | TCompute


# -- hypotheses: formulas, true for all values of their index variables -----------------------------------------------


@dataclass(frozen=True)
class IVar:
    """An index variable."""

    name: str = "i"


@dataclass(frozen=True)
class IGather:
    """gather(index) of a map."""

    map: MapExpr
    index: IndexExpr


@dataclass(frozen=True)
class IAccess:
    """Where a Compute reads an operand: access(index, j), j an index that it reduces over."""

    access: str
    index: IndexExpr
    reduced: IVar = IVar("j")


IndexExpr = IVar | IGather | IAccess


@dataclass(frozen=True)
class VAt:
    """tensor[index]."""

    tensor: TensorExpr
    index: IndexExpr


@dataclass(frozen=True)
class VFill:
    """A fill at an index."""

    fill: FillExpr
    index: IndexExpr = IVar()


@dataclass(frozen=True)
class HValid:
    """valid(index) of a map."""

    map: MapExpr
    index: IndexExpr = IVar()


@dataclass(frozen=True)
class HInside:
    """The index is inside of a tensor's box, or of the box that a map gives its view."""

    of: TensorExpr | MapExpr
    index: IndexExpr = IVar()


@dataclass(frozen=True)
class HReduced:
    """The index is inside of the box that a Compute reduces over."""

    op: str
    index: IVar = IVar("j")


@dataclass(frozen=True)
class HWithin:
    """The reduced index is in a part of the box."""

    part: str
    index: IVar = IVar("j")


@dataclass(frozen=True)
class HNeutral:
    """The body of a Compute changes nothing that it is combined with, at an index and a reduced one."""

    of: TCompute
    index: IndexExpr = IVar()
    reduced: IVar = IVar("j")


@dataclass(frozen=True)
class HCondition:
    """A named condition at an index."""

    name: str
    index: IndexExpr = IVar()


@dataclass(frozen=True)
class HSameValue:
    """Two values are the same."""

    a: VAt | VFill
    b: VAt | VFill


@dataclass(frozen=True)
class HSameIndex:
    """Two indices are the same."""

    a: IndexExpr
    b: IndexExpr


@dataclass(frozen=True)
class HNot:
    """Not."""

    part: Formula


@dataclass(frozen=True)
class HAnd:
    """All of them."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class HImplies:
    """If a then b."""

    a: Formula
    b: Formula


@dataclass(frozen=True)
class HIff:
    """a exactly where b."""

    a: Formula
    b: Formula


Formula = (
    HValid | HInside | HReduced | HWithin | HNeutral | HCondition
    | HSameValue | HSameIndex | HNot | HAnd | HImplies | HIff
)  # fmt: skip


def same_valid(a: MapExpr, b: MapExpr) -> Formula:
    """Both maps are valid at the same indices."""
    return HIff(HValid(a), HValid(b))


def fits(f: MVar, t: TensorExpr) -> Formula:
    """The source box of a bijective map is the box of a tensor."""
    return HIff(HInside(MInverse(f)), HInside(t))


def same_box(a: TensorExpr | MapExpr, b: TensorExpr | MapExpr) -> Formula:
    """Two tensors, or results of maps, have the same box."""
    return HIff(HInside(a), HInside(b))


def total(m: MapExpr) -> Formula:
    """The map is valid in its whole box: it pads nothing."""
    return HImplies(HInside(m), HValid(m))


def holds(t: TensorExpr, value: FillExpr, where: Formula) -> Formula:
    """A tensor has this value at every index of a region (a formula over the default index variable)."""
    return HImplies(HAnd((HInside(t), where)), HSameValue(VAt(t, IVar()), VFill(value)))


def maps_back(first: MapExpr, then: MapExpr, where: Formula) -> Formula:
    """At every index of a region, `first` is valid after `then`, and its gather leads back to the index."""
    step = IGather(then, IVar())
    return HImplies(where, HAnd((HValid(first, step), HSameIndex(IGather(first, step), IVar()))))
