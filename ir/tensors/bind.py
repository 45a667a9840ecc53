"""Giving symbols their values: numbers, or other sizes, for the symbols of maps and programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from eqsat.ir.tensors.tensor import Compute, Input, Node, Opaque, Program, Tag, Tensor, View, node_order
from eqsat.ir.terms import term as t
from eqsat.ir.terms.bindings import Bindings, bindings
from eqsat.ir.terms.shape import Shape, with_sizes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import substitute, symbols


def node_symbols(node: Node) -> list[Term]:
    """The symbols that occur in a node: in its shapes, its formulas, its attributes."""
    return symbols(*_terms(node))


def _terms(node: Node) -> Iterator[Term]:
    yield from (d for shape, _ in node.outputs for d in shape if isinstance(d, Term))
    if isinstance(node, View):
        yield from (*node.gather, node.valid, *(() if node.fill is None else (node.fill,)))
    elif isinstance(node, Compute):
        yield from (node.body, *(d for d in node.reduce if isinstance(d, Term)))
    elif isinstance(node, Opaque):
        yield from _terms_in(node.attrs)
    if isinstance(node, (View, Compute)) and node.tag is not None:
        yield from _terms_in(node.tag.attrs)


def _terms_in(value: Any) -> Iterator[Term]:
    if isinstance(value, Term):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in cast("Sequence[Any]", value):
            yield from _terms_in(item)
    elif isinstance(value, Mapping):
        for item in cast("Mapping[Any, Any]", value).values():
            yield from _terms_in(item)


def program_symbols(program: Program) -> list[Term]:
    """The symbols of a program, in order of appearance."""
    return list(dict.fromkeys(s for node in program.all_nodes() for s in node_symbols(node)))


def bind_program(program: Program, values: Bindings) -> Program:
    """See `Program.bind`."""
    table = bindings(program_symbols(program), values, f"bind of program {program.name}")
    if not table:
        return program
    roots = _rebuilt([*program.inputs, *program.outputs.values()], table)
    count = len(program.inputs)
    return Program(roots[:count], dict(zip(program.outputs, roots[count:], strict=True)), program.name)


def _rebuilt(roots: Sequence[Tensor], table: Mapping[Term, Term]) -> list[Tensor]:
    """The same tensors with terms in the place of symbols."""
    done: dict[tuple[int, int], Tensor] = {}
    for node in node_order(roots):
        operands = [done[x.key] for x in node.operands]
        moved = any(a != b for a, b in zip(operands, node.operands, strict=True))
        inside = any(s in table for s in node_symbols(node))
        captured = isinstance(node, Opaque) and node.definition is not None
        new = _bound(node, operands, table) if moved or inside or captured else node
        for k in range(len(node.outputs)):
            done[node.serial, k] = Tensor(new, k)
    return [done[x.key] for x in roots]


def _bound(node: Node, operands: list[Tensor], table: Mapping[Term, Term]) -> Node:
    def term(x: Term) -> Term:
        return substitute(x, table)

    def shape(dims: Shape) -> Shape:
        return tuple(with_sizes(d, table) for d in dims)

    outputs = [(shape(s), dtype) for s, dtype in node.outputs]
    if isinstance(node, Input):
        return Input(node.name, *outputs[0], node.parameter)
    if isinstance(node, View):
        fill = None if node.fill is None else term(node.fill)
        gather = [term(g) for g in node.gather]
        return View(operands[0], outputs[0][0], gather, term(node.valid), fill, _tag(node.tag, table))
    if isinstance(node, Compute):
        reduce = shape(node.reduce)
        body = term(node.body)
        return Compute(operands, outputs[0][0], body, reduce, node.combiner, _tag(node.tag, table), node.ordered)
    assert isinstance(node, Opaque)
    attrs = {key: _value(v, table) for key, v in node.attrs.items()}
    definition = None if node.definition is None else _definition(node.definition, table)
    return Opaque(node.op, operands, outputs, attrs, node.signature, node.impl, definition, node.pure)


def _tag(tag: Tag | None, table: Mapping[Term, Term]) -> Tag | None:
    return None if tag is None else Tag(tag.name, tuple((key, _value(v, table)) for key, v in tag.attrs))


def _value(value: Any, table: Mapping[Term, Term]) -> Any:
    """An attribute with terms in the place of symbols; sizes that become numbers are plain numbers."""
    if isinstance(value, Term):
        new = substitute(value, table)
        number = t.int_value(new)
        return new if number is None or value.op == "const" else number
    if isinstance(value, (tuple, list)):
        items = [_value(v, table) for v in cast("Sequence[Any]", value)]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, Mapping):
        return {k: _value(v, table) for k, v in cast("Mapping[Any, Any]", value).items()}
    return value


def _definition(old: Callable[..., Any], table: Mapping[Term, Term]) -> Callable[..., Any]:
    """A definition whose own symbols are bound as well."""

    def definition(*tensors: Tensor) -> Any:
        made = old(*tensors)
        roots = _rebuilt([made] if isinstance(made, Tensor) else list(made), table)
        return roots[0] if isinstance(made, Tensor) else roots

    return definition


# -- the sizes of two programs -----------------------------------------------------------------------------------------


def unified(program: Program, like: Program) -> Program:
    """The program with the symbols of another one, where an input or an output has them at the same place.

    A symbol is renamed only if every value that the other one may have is allowed for it, and if no two become one.
    A size that only an operator knows (its output has it, no input) is taken for one of the same name and bounds that
    an operator of the other program gives.
    """
    table: dict[Term, Term] = {}
    used: set[Term] = set(program_symbols(like)) & set(program_symbols(program))

    def pair(mine: Any, other: Any) -> None:
        if not (isinstance(mine, Term) and isinstance(other, Term)) or mine.op != "sym" or other.op != "sym":
            return
        if mine is not other and mine not in table and mine not in used and other not in used and _wider(mine, other):
            table[mine] = other
            used.add(other)

    ends = [({x.name: x for x in program.inputs}, {x.name: x for x in like.inputs}), (program.outputs, like.outputs)]
    for mine, other in ends:
        for name in (n for n in mine if n in other):
            for a, b in zip(mine[name].shape, other[name].shape, strict=False):
                pair(a, b)
    loose = {t.symbol_facts(s)[:-1]: s for s in reversed(_learned(like)) if s not in used}
    for symbol in _learned(program):
        pair(symbol, loose.get(t.symbol_facts(symbol)[:-1]))
    return bind_program(program, table) if table else program


def _learned(program: Program) -> list[Term]:
    """The symbols in the outputs of operators without a formula."""
    shapes = (s for node in program.nodes() if isinstance(node, Opaque) for s, _ in node.outputs)
    return symbols(*(d for shape in shapes for d in shape if isinstance(d, Term)))


def _wider(symbol: Term, other: Term) -> bool:
    """Whether a symbol may have every value that the other one may have."""
    _, low, high, step, _ = t.symbol_facts(symbol)
    _, least, most, unit, _ = t.symbol_facts(other)
    above = low is None or (least is not None and low <= least)
    return above and (high is None or (most is not None and most <= high)) and unit % step == 0
