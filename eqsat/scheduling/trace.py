"""The record of a schedule: each step by its name and arguments, so that it can be printed, saved and run again."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from eqsat.ir.errors import ParseError
from eqsat.ir.json_data import JsonReader, write_json
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.term_json import term_from_json, term_to_json
from eqsat.ir.statements.names import names_of
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import For, statements
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import UNDEF
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import leaf_name, symbol_names
from eqsat.ir.terms.walk import free_variables, substitute, symbols


@dataclass(frozen=True, eq=False)
class Step:
    """One primitive: its arguments, the names that it made, the float accumulations that it reordered, and the smaller
    steps that it consists of. `sizes` are symbols and loops of the arguments that the function shows by another name
    than theirs, since several have that."""

    name: str
    args: Mapping[str, Any]
    made: tuple[str, ...] = ()
    reordered: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    sizes: Mapping[str, Term] = field(default_factory=dict[str, Term])

    def __str__(self) -> str:
        loops = self.args.get("loops", ()) if self.name == "reorder" else ()
        table = {size: _called(name, size) for name, size in self.sizes.items()}
        args = {k: _moved(v, lambda _: table) if table else v for k, v in self.args.items()}
        given = [*map(repr, loops), *(f"{k}={_shown(v)}" for k, v in args.items() if k != "loops" or not loops)]
        head = f"{', '.join(self.made)} = " if self.made else ""
        lines = [f"{head}{self.name}({', '.join(given)})", *(f"  {s}" for s in self.steps)]
        return "\n".join([*lines, *(f"  reordered: {s}" for s in self.reordered)])


@dataclass(frozen=True, eq=False)
class Trace:
    """The steps of a schedule in order.

    >>> step = Step("split", {"loop": "i", "factors": [None, 4]}, ("i_0", "i_1"))
    >>> trace = Trace((step,))
    >>> print(trace)
    i_0, i_1 = split(loop='i', factors=[None, 4])
    >>> print(Trace.from_json(trace.to_json()))
    i_0, i_1 = split(loop='i', factors=[None, 4])
    """

    steps: tuple[Step, ...] = ()

    @property
    def reordered(self) -> tuple[str, ...]:
        """The float accumulations that run in another order, as text."""
        return tuple(dict.fromkeys(r for s in self.steps for r in s.reordered))

    def __len__(self) -> int:
        return len(self.steps)

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def to_json(self) -> str:
        """The trace as JSON text."""
        steps = [
            {
                "name": s.name, "args": {k: _encode(v) for k, v in s.args.items()}, "made": list(s.made),
                "reordered": list(s.reordered), "steps": list(s.steps),
                **({"sizes": {name: term_to_json(size) for name, size in s.sizes.items()}} if s.sizes else {}),
            }
            for s in self.steps
        ]  # fmt: skip
        return write_json({"eqsat": "trace", "version": 1, "steps": steps})

    @staticmethod
    def from_json(text: str) -> Trace:
        """The trace of a JSON text; ParseError for anything that `to_json` would not write."""
        reader = JsonReader("trace")
        fields = reader.header(reader.parse(text), "trace")
        steps: list[Step] = []
        for entry in reader.items(reader.field(fields, "steps"), "steps"):
            data = reader.mapping(entry, "step")
            args = reader.mapping(reader.field(data, "args"), "arguments")
            lists = [
                tuple(reader.string(x, key) for x in reader.items(data.get(key, []), key))
                for key in ("made", "reordered", "steps")
            ]
            name = reader.string(reader.field(data, "name"), "name")
            named = reader.mapping(data.get("sizes", {}), "sizes")
            sizes = {shown: term_from_json(reader.string(size, "size")) for shown, size in named.items()}
            if any(size.op not in ("sym", "var", "axis") for size in sizes.values()):
                raise ParseError("JSON of trace", "a size is neither a symbol nor a loop")
            steps.append(Step(name, {k: _decode(v) for k, v in args.items()}, *lists, sizes=sizes))
        return Trace(tuple(steps))


def _called(name: str, size: Term) -> Term:
    if size.op != "sym":
        return t.var(name, *size.args)
    facts = t.symbol_facts(size)
    return t.sym(name, facts.lower, facts.upper, facts.multiple_of)


def sizes_of(func: PrimFunc, args: Mapping[str, Any]) -> dict[str, Term]:
    """The symbols and loops in the arguments of a step that its function shows by another name than theirs.

    >>> import eqsat as eq
    >>> f = eq.primfunc("f")
    >>> _ = f.param("A", (eq.symbol("N"), eq.symbol("N")), "int8")
    >>> func = f.build()
    >>> [name for name in sizes_of(func, {"condition": func.symbols[0] < func.symbols[1]})]
    ['N_1']
    """
    used: set[Term] = set()

    def note(term: Term) -> dict[Term, Term]:
        used.update(symbols(term), free_variables(term))
        return {}

    for value in args.values():
        _moved(value, note)
    shown = {**symbol_names(func.symbols), **axis_names(func)}
    return {name: x for x, name in shown.items() if name != leaf_name(x) and x in used}


def axis_names(func: PrimFunc) -> dict[Term, str]:
    """What the text of a step calls the loops of a function: loops over different extents that share a name are
    numbered.

    >>> text = "func f(A: int8[6])\\n  for i in 4:\\n    A[i] = int8(1)\\n  for i in 6:\\n    A[i] = int8(2)"
    >>> list(axis_names(PrimFunc.parse(text)).values())
    ['i_0', 'i_1']
    """
    axes = list(dict.fromkeys(s.axis for s in statements(func.body) if isinstance(s, For)))
    count = Counter(map(leaf_name, axes))
    taken, found = {*count, *names_of(func)}, dict[Term, str]()
    for axis in axes:
        name = leaf_name(axis)
        if count[name] > 1:
            name = next(n for k in itertools.count() if (n := f"{name}_{k}") not in taken)
            taken.add(name)
        found[axis] = name
    return found


def at_sizes_of(func: PrimFunc, args: Mapping[str, Any], sizes: Mapping[str, Term] | None = None) -> dict[str, Any]:
    """Arguments of a step in which sizes of another function are those that this one has by their names.

    A function that was read from text has sizes of its own. `sizes` are those that the other function shows by another
    name than theirs.

    >>> text = "func f(A: int8[N])\\n  symbol N\\n  pass"
    >>> one, other = PrimFunc.parse(text), PrimFunc.parse(text)
    >>> at_sizes_of(other, {"condition": one.symbols[0] < 4})["condition"] is (other.symbols[0] < 4)
    True
    """
    known = {x.serial for x in func.symbols}
    names = {name: x for x, name in symbol_names(func.symbols).items()}
    shown = {x.serial: name for name, x in (sizes or {}).items()}

    def own(term: Term) -> dict[Term, Term]:
        found = {x: names.get(shown.get(x.serial, leaf_name(x))) for x in symbols(term) if x.serial not in known}
        return {x: same for x, same in found.items() if same is not None}

    return {name: _moved(value, own) for name, value in args.items()}


def _moved(value: Any, table: Callable[[Term], Mapping[Term, Term]]) -> Any:
    """An argument of a step over other symbols: those of a term by the table for it."""
    if isinstance(value, Term):
        return substitute(value, table(value))
    if not isinstance(value, IndexMap):
        return value
    back = None if value.inverse_index_map is None else _moved(value.inverse_index_map, table)
    outputs = tuple(substitute(x, table(x)) for x in value.final_indices)
    return IndexMap(value.names, outputs, value.axis_separators, back)


def _shown(value: Any) -> str:
    """An argument as `eqsat.scheduling.script` reads it again."""
    if isinstance(value, (IndexMap, Term)):
        return repr(str(value))
    return "UNDEF" if value is UNDEF else repr(value)


def _encode(value: Any) -> Any:
    if isinstance(value, IndexMap):
        return {"index_map": value.to_json()}
    if isinstance(value, Term):
        return {"term": term_to_json(value)}
    if value is UNDEF:
        return {"undef": True}
    if isinstance(value, (list, tuple)):
        return [_encode(v) for v in cast("Sequence[Any]", value)]
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("Mapping[str, Any]", value)
        if "index_map" in fields:
            return IndexMap.from_json(fields["index_map"])
        if "term" in fields:
            return term_from_json(fields["term"])
        if "undef" in fields:
            return UNDEF
        raise ParseError("JSON of trace", f"an argument is {sorted(fields)}")
    if isinstance(value, list):
        return [_decode(v) for v in cast("Sequence[Any]", value)]
    return value
