"""Laws of tensors, declared for every rank: expressions over tensors, maps and fills, and hypotheses about them.

A *map* is what a View needs: gather, valid, fill and the box of the result. A law says that two tensors are equal, cell
by cell and in the same box, wherever the left one is defined. How each expression unfolds to `out[i]` is the prover's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import signature
from typing import Any, cast

from eqsat.ir.errors import EqsatError
from eqsat.ir.given import label, told
from eqsat.ir.keywords import keywords


@dataclass(frozen=True)
class Expr:
    """A tensor, map, fill, index or formula: an operation by name, over other expressions and names."""

    op: str
    args: tuple[Expr | str | bool | tuple[Expr, ...], ...] = ()

    def __str__(self) -> str:
        if self.op in ("tensor", "map", "bijection", "value", "constant"):
            return str(self.args[0])
        if self.op == "index":
            return "i"

        def shown(a: Expr | str | bool | tuple[Expr, ...]) -> str:
            return ", ".join(map(str, a)) if isinstance(a, tuple) else str(a)

        return f"{self.op}({', '.join(shown(a) for a in self.args)})"


HERE = Expr("index")


def tensor(name: str) -> Expr:
    """Any tensor."""
    return Expr("tensor", (name,))


def mapping(name: str) -> Expr:
    """Any map."""
    return Expr("map", (name,))


def bijection(name: str) -> Expr:
    """Any map that is one to one between its box and its source's box."""
    return Expr("bijection", (name,))


def value(name: str) -> Expr:
    """One value for all indices."""
    return Expr("constant", (name,))


# -- maps and fills ---------------------------------------------------------------------------------------------------


def identity() -> Expr:
    """The map that changes nothing."""
    return Expr("identity")


def inverse(m: Expr) -> Expr:
    """The inverse of a bijection."""
    return Expr("inverse", (m,))


def compose(first: Expr, then: Expr) -> Expr:
    """The map of a view by `then` of a view by `first`."""
    return Expr("compose", (first, then))


def filled(m: Expr, fill: Expr) -> Expr:
    """The same map with another fill."""
    return Expr("filled", (m, fill))


def chosen(condition: str, *maps: Expr) -> Expr:
    """The map that a selection by the same condition would take at an output index."""
    return Expr("chosen", (condition, maps))


def applied(function: str, *fills: Expr) -> Expr:
    """An element-wise function of fills."""
    return Expr("applied", (function, fills))


# -- tensors ----------------------------------------------------------------------------------------------------------


def view(source: Expr, m: Expr) -> Expr:
    """where(valid(i), source[gather(i)], fill(i))."""
    return Expr("view", (source, m))


def pointwise(function: str, *operands: Expr) -> Expr:
    """f(a[i], b[i], ...)."""
    return Expr("pointwise", (function, operands))


def select(condition: str, *operands: Expr) -> Expr:
    """The first operand at i where a condition on the index holds, else the next ones in turn; lazy."""
    return Expr("select", (condition, operands))


def guarded(m: Expr, body: Expr) -> Expr:
    """where(valid(i), body[i], fill(i)), with valid, fill and box of a map; lazy."""
    return Expr("guarded", (m, body))


def read(operand: Expr, access: str) -> Expr:
    """A load inside of a Compute: operand[access(i, j)]."""
    return Expr("read", (operand, access))


def read_through(operand: Expr, m: Expr, access: str) -> Expr:
    """A load with a View absorbed into it: where(valid(a), operand[gather(a)], fill(a)) at a = access(i, j)."""
    return Expr("read_through", (operand, m, access))


def combine(op: str, *reads: Expr) -> Expr:
    """combine over j of body(i, j, loads), for any body and combiner."""
    return Expr("combine", (op, reads))


def combine_at(m: Expr, op: str, *reads: Expr) -> Expr:
    """The same with the body taken at gather(i) of a map."""
    return Expr("combine_at", (m, op, reads))


def combine_permuted(bijection_name: str, op: str, *reads: Expr) -> Expr:
    """The same with the reduced index running through a bijection of its box."""
    return Expr("combine_permuted", (bijection_name, op, reads))


def combine_moved(m: Expr, bijection_name: str, op: str, *reads: Expr) -> Expr:
    """The body taken at gather(i) of a map, with the reduced index running through a bijection of its box."""
    return Expr("combine_moved", (m, bijection_name, op, reads))


def combine_within(part: str, op: str, *reads: Expr) -> Expr:
    """The same over those reduced indices alone that are in a part of the reduced box."""
    return Expr("combine_within", (part, op, reads))


# -- hypotheses -------------------------------------------------------------------------------------------------------


def gather(m: Expr, index: Expr = HERE) -> Expr:
    """The source index of a map."""
    return Expr("gather", (m, index))


def valid(m: Expr, index: Expr = HERE) -> Expr:
    """The map reads its source here."""
    return Expr("valid", (m, index))


def takes(condition: str, index: Expr = HERE) -> Expr:
    """A selection by this condition takes its first operand here."""
    return Expr("takes", (condition, index))


def reduces(op: str) -> Expr:
    """The reduced index, the same one wherever a hypothesis has it, is inside of the box that an operator reduces."""
    return Expr("reduces", (op,))


def within(part: str) -> Expr:
    """The reduced index is in a part of the box that an operator reduces."""
    return Expr("within", (part,))


def neutral(of: Expr) -> Expr:
    """The value that an operator's body has at the reduced index changes nothing that it is combined with."""
    return Expr("neutral", (of,))


def inside(of: Expr, index: Expr = HERE) -> Expr:
    """The index is inside of a tensor's box, or of the box that a map gives its view."""
    return Expr("inside", (of, index))


def same_index(a: Expr, b: Expr) -> Expr:
    """Two indices are the same."""
    return Expr("same_index", (a, b))


def same_value(a: Expr, b: Expr) -> Expr:
    """Two values (tensors or fills, at the index) are the same."""
    return Expr("same_value", (a, b))


def negation(a: Expr) -> Expr:
    """Not."""
    return Expr("negation", (a,))


def both(*parts: Expr) -> Expr:
    """All of them."""
    return Expr("both", (parts,))


def implies(a: Expr, b: Expr) -> Expr:
    """If a then b."""
    return Expr("implies", (a, b))


def same_valid(a: Expr, b: Expr) -> Expr:
    """Both maps are valid at the same indices."""
    return Expr("iff", (valid(a), valid(b)))


def same_box(a: Expr, b: Expr) -> Expr:
    """Two tensors, or results of maps, have the same box."""
    return Expr("iff", (inside(a), inside(b)))


def fits(m: Expr, source: Expr) -> Expr:
    """The source box of a bijection is the box of a tensor."""
    return Expr("iff", (inside(inverse(m)), inside(source)))


def undone(first: Expr, then: Expr) -> Expr:
    """`first` leads each cell that `then` reads back to where it is read: `then` reads no cell twice and pads none."""
    both_maps = compose(first, then)
    return implies(inside(then), both(valid(both_maps), same_index(gather(both_maps), HERE)))


def reached(op: str, access: str, index: Expr = HERE) -> Expr:
    """The cell of an operand that an operator reads there, for any index that it reduces over."""
    return Expr("reached", (op, index, access))


def total(m: Expr) -> Expr:
    """A map reads its source in all of its box."""
    return implies(inside(m), valid(m))


def keeps(kept: Expr, back: Expr, m: Expr, op: str, access: str) -> Expr:
    """All cells that an operator reads for a view of its result by m are among those that a map keeps; `back` says
    where each of them is kept."""
    read_there = reached(op, access, gather(m))
    return implies(both(inside(m), reduces(op)), _kept(kept, back, read_there))


def keeps_within(kept: Expr, back: Expr, part: str, op: str, access: str) -> Expr:
    """The same of the cells that an operator reads at the reduced indices of a part."""
    box = inside(combine(op))  # whatever it reads
    return implies(both(box, reduces(op), within(part)), _kept(kept, back, reached(op, access)))


def _kept(kept: Expr, back: Expr, cell: Expr) -> Expr:
    place = gather(back, cell)
    found = inside(back, cell), valid(back, cell), inside(kept, place), valid(kept, place)
    return both(*found, same_index(gather(kept, place), cell))


# -- declarations -----------------------------------------------------------------------------------------------------

OPERATORS = ("pointwise", "select", "combine")
VARIABLES = ("tensor", "map", "bijection", "constant")
ACCESSES = ("read", "read_through", "reached")
"""What names an access, as its last argument."""


@dataclass(frozen=True)
class Law:
    """A declared law of tensors: left = right under the hypotheses; an axiom is stated, not proved.

    The last of several operands of its operator stands for any number of such operands, none included; an only operand
    stands for one or more (`widened`).
    """

    name: str
    doc: str
    left: Expr
    right: Expr
    hypotheses: tuple[Expr, ...] = ()
    source: str = ""
    family: str = ""
    axiom: bool = False

    def __str__(self) -> str:
        condition = f" when {', '.join(map(str, self.hypotheses))}" if self.hypotheses else ""
        return f"{self.name}: {self.left} = {self.right}{condition}"


def nodes(e: Expr) -> Iterator[Expr]:
    """An expression and all below it, from the root down, as often as they occur."""
    yield e
    for a in e.args:
        for child in a if isinstance(a, tuple) else (a,):
            if isinstance(child, Expr):
                yield from nodes(child)


def operator_of(e: Expr) -> Expr | None:
    """The first operator (`pointwise`, `select`, `combine`) in an expression."""
    return next((x for x in nodes(e) if x.op in OPERATORS), None)


def operand(e: Expr) -> Expr:
    """The tensor that an operand is: what is read, where it is read through an access."""
    inner = e.args[0] if e.op in ("read", "read_through") else e
    assert isinstance(inner, Expr)
    return inner


def underlying(m: Expr) -> Expr:
    """The map without what is said about its fill."""
    inner = m.args[0] if m.op == "filled" else m
    assert isinstance(inner, Expr)
    return inner


def operands(operator: Expr) -> tuple[Expr, ...]:
    """The operands of an operator."""
    found = operator.args[-1]
    assert isinstance(found, tuple)
    return found


def _names(e: Expr) -> set[str]:
    """The variables of an operand, and the accesses it is read by."""
    found = {str(x.args[0]) for x in nodes(e) if x.op in VARIABLES}
    return found | {f"access {x.args[-1]}" for x in nodes(e) if x.op in ACCESSES}


def widened(law: Law, count: int) -> Law | None:
    """The law for an operator of `count` operands: what only its last operand names is repeated, or left out.

    >>> x, y, f, g = tensor("x"), tensor("y"), mapping("f"), mapping("g")
    >>> law = Law("merge", "", select("c", view(x, f), view(x, g)), view(x, chosen("c", f, g)), (same_box(f, g),))
    >>> print(widened(law, 3))
    merge: select(c, view(x, f), view(x, g), view(x, g.2)) = view(x, chosen(c, f, g, g.2)) when \
iff(inside(f, i), inside(g, i)), iff(inside(f, i), inside(g.2, i))
    """
    operator = operator_of(law.left)
    if operator is None:
        return law if count == 0 else None
    first, last = operands(operator)[:-1], operands(operator)[-1]
    copies = count - len(first)
    if copies < (0 if first else 1):
        return None
    own = _names(last) - {name for e in first for name in _names(e)}
    for e in nodes(law.right):  # what only the right side has, beside what is repeated
        for a in e.args:
            if isinstance(a, tuple) and _ends_in(a, own):
                own |= _names(a[-1]) - _names(law.left)
    tables = [{name: f"{name}.{k + 1}" if k else name for name in own} for k in range(copies)]
    hypotheses: list[Expr] = []
    for h in law.hypotheses:
        if not _names(h) & own:
            hypotheses.append(h)
        elif any(_ends_in(a, own) for x in nodes(h) if x.op != "both" for a in x.args):
            hypotheses.append(_repeated(h, own, tables))
        else:
            hypotheses += [_renamed(h, table) for table in tables]
    repeated = Expr(operator.op, (*operator.args[:-1], (*first, *(_renamed(last, table) for table in tables))))
    left, right = _replaced(law.left, operator, repeated), _repeated(law.right, own, tables)
    return replace(law, left=left, right=right, hypotheses=tuple(dict.fromkeys(hypotheses)))


def _replaced(e: Expr, old: Expr, new: Expr) -> Expr:
    if e is old:
        return new
    return Expr(e.op, tuple(_replaced(a, old, new) if isinstance(a, Expr) else a for a in e.args))


def _ends_in(a: object, own: set[str]) -> bool:
    """Whether an argument is a list whose last member names what is repeated."""
    last = cast(tuple[object, ...], a)[-1] if isinstance(a, tuple) and a else None
    return isinstance(last, Expr) and bool(_names(last) & own)


def _renamed(e: Expr, table: Mapping[str, str]) -> Expr:
    args: list[Any] = []
    for n, a in enumerate(e.args):
        if isinstance(a, tuple):
            args.append(tuple(_renamed(x, table) for x in a))
        elif isinstance(a, Expr):
            args.append(_renamed(a, table))
        elif e.op in VARIABLES and n == 0:
            args.append(table.get(str(a), a))
        elif e.op in ACCESSES and n == len(e.args) - 1:
            args.append(table.get(f"access {a}", f"access {a}").removeprefix("access "))
        else:
            args.append(a)
    return Expr(e.op, tuple(args))


def _repeated(e: Expr, own: set[str], tables: Sequence[Mapping[str, str]]) -> Expr:
    """An expression in which the last member of every list, where it names what is repeated, is."""
    args: list[Any] = []
    for a in e.args:
        if isinstance(a, tuple) and _ends_in(a, own):
            args.append((*a[:-1], *(_renamed(a[-1], table) for table in tables)))
        elif isinstance(a, tuple):
            args.append(tuple(_repeated(x, own, tables) for x in a))
        else:
            args.append(_repeated(a, own, tables) if isinstance(a, Expr) else a)
    return Expr(e.op, tuple(args))


@keywords
def law(name: str, *, source: str = "", family: str = "") -> Callable[[Callable[[], tuple[Expr, ...]]], Law]:
    """Declare a law: the function returns (left, right, *hypotheses); its docstring says it in words.

    >>> @law("select-same")
    ... def select_same():
    ...     \"\"\"Selecting between a tensor and itself is the tensor.\"\"\"
    ...     x = tensor("x")
    ...     return select("c", x, x), x
    >>> print(select_same)
    select-same: select(c, x, x) = x

    Errors: EqsatError where the function returns something else, or takes parameters.
    """
    label(name, "law")

    def add(declare: Callable[[], tuple[Expr, ...]]) -> Law:
        left, right, *hypotheses = _declared(declare, f"law {name}")
        return Law(name, declare.__doc__ or "", left, right, tuple(hypotheses), source, family or declare.__module__)

    return add


def _declared(declare: Callable[[], object], what: str) -> tuple[Expr, ...]:
    """What the function of a law returns, which is two sides and hypotheses."""
    needed = [
        p.name for p in signature(declare).parameters.values() if p.default is p.empty and p.kind < p.VAR_POSITIONAL
    ]
    if needed:
        raise EqsatError(what, f"its function takes {', '.join(needed)}", "name tensors in it: x = tensor('x')")
    answer = declare()
    parts = cast("tuple[object, ...]", answer if isinstance(answer, tuple) else ())
    if len(parts) < 2 or not all(isinstance(part, Expr) for part in parts):
        fix = "return (left, right, *hypotheses), made by the functions of eqsat.ir.law"
        raise EqsatError(what, f"its function returns {told(cast('object', answer))}", fix)
    return cast("tuple[Expr, ...]", parts)


@dataclass
class Laws:
    """The laws of one module, in order of declaration.

    >>> LAWS = Laws("mine")
    >>> @LAWS.law("compose")
    ... def compose_views():
    ...     \"\"\"A view of a view is a view.\"\"\"
    ...     x, f, g = tensor("x"), mapping("f"), mapping("g")
    ...     return view(view(x, f), g), view(x, compose(f, g))
    >>> print(LAWS.laws[0])
    compose: view(view(x, f), g) = view(x, compose(f, g))
    """

    name: str
    laws: list[Law] = field(default_factory=list[Law])
    axioms: bool = False

    def law(self, name: str, *, source: str = "") -> Callable[[Callable[[], tuple[Expr, ...]]], Law]:
        """Declare a law of this family."""

        def add(declare: Callable[[], tuple[Expr, ...]]) -> Law:
            if any(made.name == name for made in self.laws):
                raise EqsatError(f"law {name}", f"family {self.name} has a law of this name")
            made = replace(law(name, source=source, family=self.name)(declare), axiom=self.axioms)
            self.laws.append(made)
            return made

        return add

    def __iter__(self) -> Iterator[Law]:
        return iter(self.laws)

    def __len__(self) -> int:
        return len(self.laws)
