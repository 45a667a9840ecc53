"""Rule declarations: one function states a law once; the rewrite, the theorem, the test and the catalogue read it.

A rule is a function of quantified parameters that returns its left and right side, as terms over them, and possibly
`when(...)` (side conditions), `hint(...)` (lemmas for the prover) and `choose(...)` (how to pick a parameter that only
the right side has). The kind of each parameter is its annotation.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

from eqsat.ir.cached import cached_property
from eqsat.ir.dtypes import BOOL, DATA, INDEX
from eqsat.ir.errors import EqsatError
from eqsat.ir.given import label, told
from eqsat.ir.keywords import keywords
from eqsat.ir.order import decreases
from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of


class RuleError(EqsatError):
    """A rule declaration does not make sense."""


class Kind(Enum):
    """What a parameter ranges over."""

    IDX = "any integer, as an index term"
    TOTAL = "any integer, as an index term that has a value wherever its variables have one"
    NEG = "any integer, as a sum of index terms, all subtracted, without a constant"
    POS = "any positive integer constant: a number, or a size that is proved positive"
    NUM = "any integer constant: a number"
    PRED = "any predicate"
    DATA = "any value of the rule's dtype"
    ANY = "any value of any one type"
    BUFFER = "any buffer of one dimension, of any length"


Idx = Annotated[Term, Kind.IDX]
Total = Annotated[Term, Kind.TOTAL]
Neg = Annotated[Term, Kind.NEG]
Pos = Annotated[Term, Kind.POS]
Num = Annotated[Term, Kind.NUM]
Pred = Annotated[Term, Kind.PRED]
Data = Annotated[Term, Kind.DATA]
Elem = Annotated[Term, Kind.ANY]

# No operation of a rule touches an `Elem` value, so one uninterpreted type stands for all.
ANY_DTYPE = "float32"


class BufferParameter:
    """A buffer in a rule: `x[i]` is its element i, defined where i is inside of the buffer, whatever its length."""

    def __init__(self, name: str, dtype: str) -> None:
        self.name, self.dtype = name, dtype
        self.source_key = f"parameter {name}"

    def __getitem__(self, index: t.TermLike) -> Term:
        return t.make("load", (t.as_index(index),), self, self.dtype)


Buffer = Annotated[BufferParameter, Kind.BUFFER]


@dataclass(frozen=True)
class Parameter:
    """A quantified name of a rule."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class When:
    """Side conditions: predicates over the parameters, all of which must hold."""

    conditions: tuple[Term, ...]


@dataclass(frozen=True)
class Hint:
    """Lemmas for the prover: index terms (witness quotients), or predicates (proved before they are used)."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, eq=False)
class Choose(Record):
    """A positive constant that only the right side has, from the interval of a term.

    how: "width" (the number of values), "above" (the least number above all of them), "below" (minus the least value).
    """

    constant: Term
    term: Term
    how: str

    def value(self, low: int | None, high: int | None) -> int | None:
        """The constant for this interval; None where there is no positive one."""
        if self.how == "width":
            value = None if low is None or high is None else high - low + 1
        elif self.how == "above":
            value = None if high is None else high + 1
        else:
            value = None if low is None else -low
        return value if value is not None and value > 0 else None


@keywords
def when(*conditions: Any) -> When:
    """Side conditions of a rule, each a comparison of its own: `when(0 <= y, y < c)`.

    >>> from eqsat.ir.terms.term import var
    >>> when(0 <= var("y"), var("y") < 8).conditions
    (0 <= y, y < 8)
    """
    return When(tuple(t.as_bool(c) for c in conditions))


def hint(*terms: Term) -> Hint:
    """Lemmas that help to prove a rule: the quotient that is claimed, or a predicate."""
    return Hint(terms)


def choose(
    constant: Term, *, width_of: Term | None = None, above: Term | None = None, below: Term | None = None
) -> Choose:
    """Let the rewriter pick a constant of the right side from the interval of an index term.

    width_of: the number of its values; above: the least number above them; below: minus the least value.
    """
    ways = {"width": width_of, "above": above, "below": below}
    given = [(how, term) for how, term in ways.items() if term is not None]
    if len(given) != 1:
        raise RuleError(f"choose({constant})", "needs exactly one of width_of, above and below")
    return Choose(constant, given[0][1], given[0][0])


@dataclass(frozen=True, eq=False)
class Instance(Record):
    """One theorem: left = right for all values of the variables that satisfy the conditions."""

    left: Term
    right: Term
    conditions: tuple[Term, ...] = ()
    hints: tuple[Term, ...] = ()
    choices: tuple[Choose, ...] = ()
    dtype: str = ""


@dataclass(frozen=True)
class Rule:
    """A declared law, with its theorem for each dtype that it names (one theorem for laws of indices).

    Tags: `normal` rules make terms smaller in a well-founded order and are used by the normaliser; `compact` ones too,
    but they hide structure (a box becomes one comparison), so that only `simplify` uses them; `tight` ones change
    numbers in a comparison and `finish` ones its spelling, in passes of their own; `expansive` rules may make terms
    larger. `both`: in the e-graph the rule is used from right to left, too.
    """

    name: str
    doc: str
    parameters: tuple[Parameter, ...]
    instances: tuple[Instance, ...]
    source: str = ""
    tags: frozenset[str] = frozenset()
    family: str = ""

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Computed once: rules are looked up often, and are large."""
        return hash((self.name, self.family, self.parameters, self.instances, self.tags))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_hash"}  # other processes hash otherwise

    @property
    def left(self) -> Term:
        """The left side (of the first theorem)."""
        return self.instances[0].left

    @property
    def right(self) -> Term:
        """The right side (of the first theorem)."""
        return self.instances[0].right

    def __str__(self) -> str:
        first = self.instances[0]
        condition = f" when {', '.join(map(str, first.conditions))}" if first.conditions else ""
        types = f" for {', '.join(i.dtype for i in self.instances)}" if first.dtype else ""
        return f"{self.name}: {first.left} = {first.right}{condition}{types}"


TAGS = frozenset(("normal", "compact", "tight", "finish", "expansive", "both"))
Declaration = Callable[..., Any]


@dataclass
class Family:
    """The rules of one module, in order of declaration; `family.rule` is the decorator that adds to it.

    >>> RULES = Family("mine")
    >>> @RULES.rule("div-one")
    ... def div_one(x: Idx):
    ...     \"\"\"Division by one changes nothing.\"\"\"
    ...     return x // 1, x
    >>> print(RULES.rules[0])
    div-one: x // 1 = x
    """

    name: str
    rules: list[Rule] = field(default_factory=list[Rule])

    def rule(
        self,
        name: str,
        *,
        source: str = "",
        tags: Iterable[str] = (),
        dtypes: Iterable[str] = (),
        cases: Iterable[int] = (),
    ) -> Callable[[Declaration], Rule]:
        """Declare a rule of this family; see `rule`."""

        def add(declare: Declaration) -> Rule:
            made = make_rule(declare, name, source, tags, dtypes, self.name, cases)
            if any(r.name == name for r in self.rules):
                raise RuleError(f"rule {name}", f"family {self.name} has a rule of this name")
            self.rules.append(made)
            return made

        return add

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)


@keywords
def rule(
    name: str,
    *,
    source: str = "",
    tags: Iterable[str] = (),
    dtypes: Iterable[str] = (),
    cases: Iterable[int] = (),
) -> Callable[[Declaration], Rule]:
    """Turn a function of quantified parameters into a rule.

    >>> @rule("split-merge", source="RFC 39", tags=["normal"])
    ... def split_merge(x: Idx, c: Pos):
    ...     \"\"\"Splitting by c and merging again is the identity.\"\"\"
    ...     return x // c * c + x % c, x
    >>> print(split_merge)
    split-merge: c*(x // c) + x % c = x

    The function returns (left, right) and any of `when(...)`, `hint(...)`, `choose(...)`. Parameters are annotated with
    their kinds: Idx, Total, Neg, Pos, Num, Pred, Elem, Buffer, and Data for a value of each of `dtypes`. A parameter
    of type int is each of the `cases`: one theorem for each number. Errors: RuleError.
    """
    label(name, "rule")
    return lambda declare: make_rule(declare, name, source, tags, dtypes, "", cases)


def _kind(annotation: Any) -> Kind | None:
    if get_origin(annotation) is Annotated:
        return next((a for a in get_args(annotation)[1:] if isinstance(a, Kind)), None)
    return None


def _annotations(declare: Declaration) -> Mapping[str, Any]:
    """What a function says of its parameters. Names of its module, as in most rules, are looked up: that is many times
    as fast as to compile them."""
    names: Mapping[str, Any] = getattr(declare, "__annotations__", {})
    known: Mapping[str, Any] = getattr(declare, "__globals__", {})
    if hasattr(declare, "__wrapped__") or not all(isinstance(n, str) and n in known for n in names.values()):
        return get_type_hints(declare, include_extras=True)
    return {parameter: known[name] for parameter, name in names.items()}


def make_rule(
    declare: Declaration,
    name: str,
    source: str,
    tags: Iterable[str],
    dtypes: Iterable[str],
    family: str,
    cases: Iterable[int] = (),
) -> Rule:
    """The rule that a function declares, checked for shape."""
    what = f"rule {name}"
    tags, dtypes, cases = frozenset(tags), tuple(dtypes), tuple(cases)
    if not tags <= TAGS:
        raise RuleError(what, f"unknown tag {min(tags - TAGS)!r}", f"known: {', '.join(sorted(TAGS))}")
    if not inspect.isfunction(declare):
        raise RuleError(what, f"{told(declare)} is no function", "declare it with def name(x: Idx, ...)")
    hints = _annotations(declare)
    parameters: list[Parameter] = []
    numbered: list[str] = []
    for parameter, given in inspect.signature(declare).parameters.items():
        if given.kind not in (given.POSITIONAL_OR_KEYWORD, given.KEYWORD_ONLY):
            raise RuleError(what, f"parameter {given} is not one value", "give each value a parameter of its own")
        if cases and hints.get(parameter) is int:
            numbered.append(parameter)
            continue
        kind = _kind(hints.get(parameter))
        if kind is None:
            raise RuleError(what, f"parameter {parameter} has no kind", "annotate it with Idx, Pos, Pred, Data, ...")
        parameters.append(Parameter(parameter, kind))
    if not parameters:
        raise RuleError(what, "has no parameters", "a law is about quantified values")
    uses_data = any(p.kind is Kind.DATA for p in parameters)
    if uses_data != bool(dtypes):
        raise RuleError(what, "Data parameters and dtypes belong together", "name the dtypes: dtypes=('float32', ...)")
    if any(d not in DATA for d in dtypes):
        raise RuleError(what, f"dtypes {dtypes}", f"known: {', '.join(DATA)}")
    if len(numbered) != bool(cases):
        raise RuleError(what, "cases are the numbers of one parameter", "declare one parameter of type int")
    ends = bool(tags & {"normal", "compact"})
    fixed = [{name: k for name in numbered} for k in cases or (0,)]
    instances = tuple(_instance(declare, what, parameters, d, ends, k) for d in dtypes or ("",) for k in fixed)
    doc = inspect.getdoc(declare) or ""
    return Rule(name, doc, tuple(parameters), instances, source, tags, family)


def variable(parameter: Parameter, dtype: str) -> Any:
    """What stands for a parameter in the sides of a rule."""
    if parameter.kind is Kind.BUFFER:
        return BufferParameter(parameter.name, dtype or ANY_DTYPE)
    types = {Kind.PRED: BOOL, Kind.DATA: dtype, Kind.ANY: ANY_DTYPE}
    return t.make("var", (), parameter.name, types.get(parameter.kind, INDEX))


def _instance(
    declare: Declaration,
    what: str,
    parameters: list[Parameter],
    dtype: str,
    normal: bool,
    fixed_numbers: Mapping[str, int],
) -> Instance:
    variables = {p.name: variable(p, dtype) for p in parameters}
    answer: Any = declare(**variables, **fixed_numbers)
    if not isinstance(answer, tuple):
        raise RuleError(what, f"returns {answer!r}", "return (left, right) or (left, right, when(...))")
    parts = list(cast(tuple[Any, ...], answer))
    if len(parts) < 2:
        raise RuleError(what, "has fewer than two sides")
    left = _side(what, parts[0], INDEX)
    right = _side(what, parts[1], left.dtype)
    conditions: list[Term] = []
    hints: list[Term] = []
    choices: list[Choose] = []
    for part in parts[2:]:
        if isinstance(part, When):
            conditions.extend(part.conditions)
        elif isinstance(part, Hint):
            hints.extend(part.terms)
        elif isinstance(part, Choose):
            choices.append(part)
        else:
            raise RuleError(what, f"returns {part!r} after its sides", "use when(...), hint(...) or choose(...)")
    if left.dtype != right.dtype:
        raise RuleError(what, f"the sides have types {left.dtype} and {right.dtype}")
    if left is right:
        raise RuleError(what, f"both sides are {left}", "the language already states this law by its normal form")
    if left.op in ("var", "const"):
        raise RuleError(what, f"the left side {left} matches everything or nothing")
    known = {v for v in nodes_of("var", left)} | {c.constant for c in choices}
    for role, terms in (("right side", [right]), ("conditions", conditions)):
        free = [v for v in nodes_of("var", *terms) if v not in known]
        if free:
            raise RuleError(what, f"{free[0]} occurs in the {role} but not in the left side")
    fixed = {variables[p.name] for p in parameters if p.kind in (Kind.POS, Kind.NUM)}
    turned = {variables[p.name] for p in parameters if p.kind is Kind.NEG}
    if normal and not decreases(left, right, fixed, turned):
        fix = "a normal rule must end; drop the tag or turn it round"
        raise RuleError(what, f"{right} is not smaller than {left}", fix)
    return Instance(left, right, tuple(conditions), tuple(hints), tuple(choices), dtype)


def _side(what: str, side: Any, dtype: str) -> Term:
    if isinstance(side, Term):
        return side
    if isinstance(side, (bool, int, float)):
        return t.const(side, dtype)
    raise RuleError(what, f"side {side!r} is not a term")
