"""Laws of tensors, declared for every rank: expressions over tensors, maps and fills, and hypotheses about them.

A *map* is what a View needs: gather, valid, fill and the box of the result. A law says that two tensors are equal, cell
by cell and in the same box, wherever the left one is defined. How each expression unfolds to `out[i]` is the prover's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from eqsat.ir.errors import EqsatError


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


def chosen(condition: str, yes: Expr, no: Expr) -> Expr:
    """The first map where a condition on the output index holds, else the second."""
    return Expr("chosen", (condition, yes, no))


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


def select(condition: str, yes: Expr, no: Expr) -> Expr:
    """yes[i] where a condition on the index holds, else no[i]; lazy."""
    return Expr("select", (condition, yes, no))


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


# -- hypotheses -------------------------------------------------------------------------------------------------------


def gather(m: Expr, index: Expr = HERE) -> Expr:
    """The source index of a map."""
    return Expr("gather", (m, index))


def valid(m: Expr, index: Expr = HERE) -> Expr:
    """The map reads its source here."""
    return Expr("valid", (m, index))


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


# -- declarations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Law:
    """A declared law of tensors: left = right under the hypotheses; an axiom is stated, not proved."""

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
        """Declare a law: the function returns (left, right, *hypotheses)."""

        def add(declare: Callable[[], tuple[Expr, ...]]) -> Law:
            if any(made.name == name for made in self.laws):
                raise EqsatError(f"law {name}", f"family {self.name} has a law of this name")
            left, right, *hypotheses = declare()
            made = Law(name, declare.__doc__ or "", left, right, tuple(hypotheses), source, self.name, self.axioms)
            self.laws.append(made)
            return made

        return add

    def __iter__(self) -> Iterator[Law]:
        return iter(self.laws)

    def __len__(self) -> int:
        return len(self.laws)
