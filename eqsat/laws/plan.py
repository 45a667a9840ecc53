"""What a law needs of the e-graph: the term that it matches, what a match asks, and the term that an answer makes.

A *question* is the numbers of the maps and of the operator that a match has; the *answer* adds the numbers of the maps
and operators that the right side is made of. Both travel as rows of two relations, so that each is asked once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from eqsat.ir.errors import EqsatError
from eqsat.ir.law import (
    OPERATORS,
    Expr,
    Law,
    filled,
    mapping,
    nodes,
    operand,
    operands,
    operator_of,
    underlying,
    value,
    view,
    widened,
)
from eqsat.laws.tree import Class, Operated, Tree, Viewed

NOTHING = Class("")
MATCHED_MAPS = ("map", "bijection", "identity")
MOST_MATCHED, MOST_MOVED = 128, 16
"""Operands beyond which no law acts on an operator, which only has other forms then, and beyond which none moves the
positions of all of them: a rule names each operand, and such a law has a rule for each that asks for all others. Rules
over 200 operands, and those of 48 moved ones, take 10 s to declare."""


class CannotAct(EqsatError):
    """A law whose shape the search does not match or build."""


@dataclass(frozen=True)
class Shape:
    """Operators that a law may match: how many operands, and which of them have axes. The others are the same at every
    index, so they are part of the function."""

    arity: int
    varying: tuple[int, ...]


@dataclass(frozen=True)
class Made:
    """Numbers that an answer has to name: of a map ("map"), of a map as what it keeps and a layout of that ("split"),
    of an operator over plain operands ("under"), or over views of its operands ("over"), or parts of them ("cut", or
    "within" where those are what it reads for a part of what it reduces), seen through a layout; or of the views of
    operands of the operator as it is ("moved")."""

    kind: str
    of: Expr
    names: tuple[str, ...]


@dataclass
class Plan:
    """How a law for one shape of operator acts. `place` is the operand that the law's first one is.

    Without a shape, a law matches no operator, or one with any operands, of which only the first plays a part.
    """

    law: Law
    shape: Shape | None
    place: int
    left: Tree = NOTHING
    right: Tree = NOTHING
    maps: dict[str, Expr] = field(default_factory=dict[str, Expr])
    """The maps of the left side: their names here, and in the law."""
    classes: dict[str, str] = field(default_factory=dict[str, str])
    """The classes of the law's tensors."""
    values: list[str] = field(default_factory=list[str])
    """The tensors whose cells a hypothesis is about."""
    made: list[Made] = field(default_factory=list[Made])

    @property
    def name(self) -> str:
        """The name of the rule in the graph: the law's, then what tells its variants apart."""
        if self.shape is None:
            return self.law.name
        return f"{self.law.name}/{self.shape.arity}.{'_'.join(map(str, self.shape.varying))}.{self.place}"

    @property
    def positions(self) -> tuple[int, ...]:
        """The operand of the graph's operator that each operand of the law is."""
        if self.shape is None:
            return ()
        order = [self.place, *(k for k in range(len(self.shape.varying)) if k != self.place)]
        return tuple(self.shape.varying[k] for k in order)

    def is_operand(self, tensor: str) -> bool:
        """Whether a tensor of the law is an operand itself, and so seen through the operator's access to it."""
        operator = operator_of(self.law.left)
        return operator is not None and Expr("tensor", (tensor,)) in map(operand, operands(operator))

    @property
    def unvarying(self) -> tuple[int, ...]:
        """The operands without axes, where the right side has the operator's value at constants: what they hold is
        asked, too."""
        if self.shape is None or not any(e.op == "applied" for e in nodes(self.law.right)):
            return ()
        return tuple(k for k in range(self.shape.arity) if k not in self.shape.varying)

    @property
    def question(self) -> tuple[str, ...]:
        """The names of what a match knows, in order."""
        operator = operator_of(self.law.left)
        own = () if operator is None else ("s", "o", "k") if self.shape is None else ("s", "o")
        values = (*(f"n{k}" for k in range(len(self.values))), *(f"u{k}" for k in self.unvarying))
        return (*self.maps, *own, *values)

    @property
    def answer(self) -> tuple[str, ...]:
        """The names of what an answer adds, in order."""
        return tuple(name for made in self.made for name in made.names)


def plans(law: Law, shape: Shape | None) -> Iterator[Plan]:
    """How a law acts on operators of a shape; for laws without an operator, the shape is None.

    >>> from eqsat.laws.tree import text
    >>> from eqsat.rules.layout_laws import compose_views
    >>> (plan,) = plans(compose_views, None)
    >>> plan.question, plan.answer, text(plan.left), text(plan.right)
    (('m0', 'm1'), ('r0', 'r1'), '(View (View x1 m1) m0)', '(View (View x1 r0) r1)')

    Errors: the law matches or builds what the graph does not have (CannotAct, with the reason).
    """
    operator = operator_of(law.left)
    if (operator is None or _others_are_idle(law, operator)) != (shape is None):
        return
    if operator is None or shape is None:
        yield _Planner(Plan(law, None, 0)).done
        return
    moves = any(e.op == "combine_moved" for e in nodes(law.right))
    if shape.arity > (MOST_MOVED if moves else MOST_MATCHED):
        return
    wide = widened(law, len(shape.varying))
    if wide is None or (operator.op == "select" and len(shape.varying) != shape.arity):
        return
    for place in range(len(shape.varying) if _first_differs(operator) else 1):
        yield _Planner(Plan(wide, shape, place)).done


def settles(law: Law) -> tuple[str, ...] | None:
    """Where a law says that its left side, an operator, is one value all around a part of its result: the names of the
    map of the part, of the map that puts it back, and of the value.

    >>> from eqsat.rules.layout_laws import lift_pad
    >>> settles(lift_pad)
    ('m', 'n', 'v')
    """
    if law.left.op != "combine":
        return None
    names = tuple(str(x.args[0]) for x in nodes(law.right) if x.op in ("map", "constant"))
    if len(names) < 3:
        return None
    part, back, held = mapping(names[0]), mapping(names[1]), value(names[2])
    return names[:3] if law.right == view(view(law.left, part), filled(back, held)) else None


def check_can_act(law: Law) -> None:
    """Refuse a law that the search cannot match or build, with the reason."""
    operator = operator_of(law.left)
    count = 0 if operator is None else len(operands(operator))
    for shape in (None, Shape(count, tuple(range(count)))):
        list(plans(law, shape))


def _others_are_idle(law: Law, operator: Expr) -> bool:
    """Whether a law says nothing about any operand but the first."""
    first, *others = map(operand, operands(operator))
    if not others or any(x.op != "tensor" or x == first for x in others):
        return False
    used = [x for e in (law.right, *law.hypotheses) for x in nodes(e)]
    return not any(x in others or x.op in (*OPERATORS, "combine_at", "combine_moved") for x in used)


def _first_differs(operator: Expr) -> bool:
    """Whether the first operand plays another part than the last, so that it may be any of them."""
    found = [operand(x) for x in operands(operator)]
    return len(found) > 1 and (found[0].op != found[-1].op or (found[0].op == "tensor" and found[0] != found[-1]))


class _Planner:
    """Walks the left side, then the right side."""

    def __init__(self, done: Plan) -> None:
        self.done = done
        law = done.law
        if sum(x.op in OPERATORS for x in nodes(law.left)) > 1:
            raise self.refuse("it matches more than one operator", "match one at a time")
        if law.left.op == "tensor":
            raise self.refuse("its left side is any tensor", "match a view or an operator")
        done.left = self.match(law.left)
        for h in law.hypotheses:
            for e in nodes(h):
                if e.op in ("same_value", "neutral"):
                    found = [str(x.args[0]) for x in nodes(e) if x.op == "tensor"]
                    done.values += [name for name in dict.fromkeys(found) if name not in done.values]
        done.right = self.build(law.right, top=True)

    def refuse(self, why: str, fix: str = "see the laws in rules/layout_laws.py") -> CannotAct:
        return CannotAct(f"law {self.done.law.name}", why, fix)

    # -- left side -----------------------------------------------------------------------------------------------------

    def match(self, e: Expr) -> Tree:
        done = self.done
        if e.op == "tensor":
            return Class(done.classes.setdefault(str(e.args[0]), f"x{len(done.classes) + 1}"))
        if e.op == "view":
            source, m = e.args
            assert isinstance(source, Expr)
            assert isinstance(m, Expr)
            if m.op not in MATCHED_MAPS and not (m.op == "filled" and underlying(m).op == "map"):
                raise self.refuse(f"the map {m} is matched", "match any map, and say by hypotheses what it has to be")
            name = f"m{len(done.maps)}"
            done.maps[name] = m
            return Viewed(self.match(source), name)
        if e.op in OPERATORS:
            shape = done.shape
            if shape is None:
                first = operand(operands(e)[0])
                return Operated("s", "o", (self.match(first),), e.op, "k")
            found: list[Tree] = [Class(f"v{k}") for k in range(shape.arity)]
            for k, x in zip(done.positions, operands(e), strict=True):
                found[k] = self.match(operand(x))
            return Operated("s", "o", tuple(found), e.op)
        raise self.refuse(f"{e.op} is matched", "views, operators and tensors can be")

    # -- right side ----------------------------------------------------------------------------------------------------

    def make(self, kind: str, of: Expr, count: int) -> tuple[str, ...]:
        first = len(self.done.answer)
        names = tuple(f"r{first + n}" for n in range(count))
        self.done.made.append(Made(kind, of, names))
        return names

    def bound(self, e: Expr) -> Class:
        found = self.done.classes.get(str(e.args[0]))
        if found is None:
            raise self.refuse(f"its right side has {e}, and its left side does not")
        return Class(found)

    def build(self, e: Expr, top: bool = False) -> Tree:
        done = self.done
        if e.op == "tensor":
            if not done.is_operand(str(e.args[0])):
                return self.bound(e)
            e = Expr("view", (e, Expr("identity")))  # an operand is seen through the access to it
        if e.op == "view":
            source = e.args[0]
            assert isinstance(source, Expr)
            below = self.bound(source) if source.op == "tensor" else self.build(source)
            if not top:
                return Viewed(below, *self.make("map", e, 1))
            core, layout = self.make("split", e, 2)
            return Viewed(Viewed(below, core), layout)
        if e.op == "guarded":
            body = e.args[1]
            if isinstance(body, Expr) and body.op == "combine_at" and body.args[0] == e.args[0]:
                return self.over(e)
        if e.op == "combine_at" and all(x.op == "read_through" for x in operands(e)):
            return self.cut(e, "cut")
        if e.op == "combine_within" and all(x.op == "read_through" for x in operands(e)):
            return self.cut(e, "within")
        if e.op == "combine_moved":
            return self.moved(e)
        if e == done.law.left and settles(done.law) is not None:
            return Operated("s", "o", tuple(self.passing(e)))
        if e.op == "combine_at" or (e.op == "pointwise" and any(operand(x).op == "view" for x in operands(e))):
            return self.over(e)
        if e.op == "pointwise" and all(operand(x).op == "tensor" for x in operands(e)):
            return self.under(e)
        raise self.refuse(f"{e} cannot be built", "views, and the operator of the left side over views by one map, can")

    def under(self, e: Expr) -> Tree:
        """The operator of the left side over what its operands are views of."""
        found = self.passing(e)
        for k, x in zip(self.done.positions, operands(e), strict=True):
            found[k] = self.bound(operand(x))
        (number,) = self.make("under", e, 1)
        return Operated(number, "0", tuple(found))

    def over(self, e: Expr) -> Tree:
        """The operator of the left side over views of its operands, seen through a layout."""
        found = self.passing(e)
        number, layout, *maps = self.make("over", e, 2 + len(self.done.positions))
        for k, m in zip(self.done.positions, maps, strict=True):
            found[k] = Viewed(found[k], m)
        return Viewed(Operated(number, "0", tuple(found)), layout)

    def cut(self, e: Expr, kind: str) -> Tree:
        """The operator of the left side over parts of its operands, seen through a layout."""
        found = self.passing(e)
        number, layout, *maps = self.make(kind, e, 2 + len(self.done.positions))
        for k, m in zip(self.done.positions, maps, strict=True):
            found[k] = Viewed(found[k], m)
        return Viewed(Operated(number, "0", tuple(found)), layout)

    def moved(self, e: Expr) -> Tree:
        """The operator of the left side, as it is, over operands with their positions in other orders."""
        found = self.passing(e)
        places = [(k, x) for k, x in zip(self.done.positions, operands(e), strict=True)]
        names = iter(self.make("moved", e, sum(operand(x).op == "view" for _, x in places)))
        for k, x in places:
            source = operand(x)
            if source.op == "view":
                found[k] = Viewed(found[k], next(names))
            else:
                found[k] = self.bound(source)
        return Operated("s", "o", tuple(found))

    def passing(self, e: Expr) -> list[Tree]:
        """The operands of the left side's operator."""
        left = self.done.left
        while isinstance(left, Viewed):
            left = left.source
        if not isinstance(left, Operated):
            raise self.refuse(f"{e} cannot be built", "only an operator of the left side can stand on the right")
        return list(left.operands)
