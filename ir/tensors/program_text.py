"""Programs as text: one line per node, views with their gather in index notation, huge programs elided."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, cast

from eqsat.ir.tensors.bind import node_symbols
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, Tag, Tensor, View
from eqsat.ir.terms.shape import Shape, format_shape, output_axes
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import format_term, symbol_names
from eqsat.ir.terms.walk import postorder, renumber_loads

MAX_LINES = 200
MAX_BODY = 60


def format_program(program: Program, limit: int = MAX_LINES) -> str:
    """One line per node: its name, what makes it, its type; beyond `limit` nodes the middle is left out.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> print(format_program(eq.Program([x], {"y": x.permute_dims((1, 0)).relu()})))
    program(x: float32(2, 3)) -> y
      t0 = permute_dims x[i1, i0]                       # float32(3, 2)
      y = relu maximum(t0[i0, i1], float32(0.0))        # float32(3, 2)
    """
    nodes = [n for n in program.nodes() if not isinstance(n, Input)]
    names = tensor_names(program)
    labels = _labels(program)
    inputs = ", ".join(f"{x.name}: {x.dtype}{format_shape(x.shape, labels)}" for x in program.inputs)
    lines = [f"{program.name}({inputs}) -> {', '.join(program.outputs)}"]
    shown = set(range(len(nodes)))
    if len(nodes) > limit:
        shown = {*range(limit // 2), *range(len(nodes) - limit // 2, len(nodes))}
    for number, node in enumerate(nodes):
        if number in shown:
            lines.append(_line(node, names, labels))
        elif number - 1 in shown:
            lines.append(f"  ... {len(nodes) - len(shown)} more nodes ...")
    for name, x in program.outputs.items():
        if names[x.key] != name:
            lines.append(f"  {name} = {names[x.key]}")
    return "\n".join(lines)


def node_texts(program: Program, given: Mapping[tuple[int, int], str] | None = None) -> dict[int, tuple[str, str]]:
    """What makes each node and its types, by the node's serial, as the printed program has them; given: other names of
    tensors, by node and output.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> list(node_texts(eq.Program([x], {"y": x.permute_dims((1, 0))})).values())
    [('input x', 'float32(2, 3)'), ('permute_dims x[i1, i0]', 'float32(3, 2)')]
    """
    names, labels = {**tensor_names(program), **(given or {})}, _labels(program)
    return {
        node.serial: (_right(node, [names[x.key] for x in node.operands], labels), _kinds(node, labels))
        for node in program.nodes()
    }


def tensor_names(program: Program) -> dict[tuple[int, int], str]:
    """The names of the tensors of a program, by node and output: inputs and outputs have their own, the rest count from
    t0.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> list(tensor_names(eq.Program([x], {"y": x.permute_dims((1, 0)).relu()})).values())
    ['x', 'y', 't0']
    """
    nodes = [n for n in program.nodes() if not isinstance(n, Input)]
    names: dict[tuple[int, int], str] = {x.key: x.name for x in program.inputs}
    for name, x in program.outputs.items():
        names.setdefault(x.key, name)
    taken = set(names.values())
    count = 0
    for node in nodes:
        for index in range(len(node.outputs)):
            if (node.serial, index) in names:
                continue
            name = node.name if isinstance(node, Constant) and node.name else ""
            while not name or name in taken:
                name, count = f"t{count}", count + 1
            names[(node.serial, index)] = name
            taken.add(name)
    return names


def _labels(program: Program) -> dict[Term, str]:
    """The names of symbols, the same in every line."""
    found = dict.fromkeys(s for node in program.all_nodes() for s in node_symbols(node))
    return symbol_names(found)


def _line(node: Node, names: Mapping[tuple[int, int], str], labels: Mapping[Term, str]) -> str:
    left = ", ".join(names[(node.serial, k)] for k in range(len(node.outputs)))
    right = _right(node, [names[x.key] for x in node.operands], labels)
    return f"{f'  {left} = {right}':<50}  # {_kinds(node, labels)}".rstrip()


def _kinds(node: Node, labels: Mapping[Term, str]) -> str:
    return ", ".join(f"{dtype}{format_shape(shape, labels)}" for shape, dtype in node.outputs)


def _right(node: Node, sources: list[str], labels: Mapping[Term, str]) -> str:
    if isinstance(node, Input):
        return f"input {node.name}"
    if isinstance(node, Constant):
        return f"constant {node.array.item()!r}" if node.array.size == 1 else "constant"
    if isinstance(node, View):
        return _view(node, sources[0], labels)
    if isinstance(node, Compute):
        return _compute(node, sources, labels)
    assert isinstance(node, Opaque)
    attrs = _attrs(tuple(node.attrs.items()), labels)
    marks = ("" if node.signature is None else f" {{{node.signature}}}") + ("" if node.pure else " impure")
    return f"{node.op}({', '.join(sources)}{', ' if attrs and sources else ''}{attrs}){marks}"


def _view(node: View, source: str, labels: Mapping[Term, str]) -> str:
    head = _head(node.tag, "view", labels)
    if node.fill is None and _is_identity(node.gather, node.outputs[0][0], node.source):
        return f"{head} {source}"
    text = f"{source}[{', '.join(_short(g, {}, labels) for g in node.gather)}]"
    if node.fill is not None:
        text += f" where {_short(node.valid, {}, labels)} else {_short(node.fill, {0: source}, labels)}"
    return f"{head} {text}"


def _is_identity(gather: tuple[Term, ...], shape: Shape, source: Tensor) -> bool:
    axes = output_axes(shape)
    return len(gather) == len(axes) and all(g is a for g, a in zip(gather, axes, strict=True)) and bool(source.rank)


def _compute(node: Compute, sources: list[str], labels: Mapping[Term, str]) -> str:
    body = _short(node.body, dict(enumerate(sources)), labels)
    over = ", ".join(f"r{n} < {_value(d, labels)}" for n, d in enumerate(node.reduce))
    ordered = "ordered " if node.ordered else ""
    text = body if node.combiner is None else f"{ordered}{node.combiner}({body} for {over})"
    # The formula says which axes it reduces; what the tag's attributes number are those of the layout it was made in.
    return f"{'compute' if node.tag is None else node.tag.name} {text}"


def _head(tag: Tag | None, default: str, labels: Mapping[Term, str]) -> str:
    if tag is None:
        return default
    return f"{tag.name}({_attrs(tag.attrs, labels)})" if tag.attrs and tag.name != "permute_dims" else tag.name


def _attrs(pairs: tuple[tuple[str, Any], ...], labels: Mapping[Term, str]) -> str:
    return ", ".join(f"{key}={_value(value, labels)}" for key, value in pairs)


def _value(value: Any, labels: Mapping[Term, str]) -> str:
    text = _text(value, labels)
    return text if len(text) <= MAX_BODY else f"<{type(value).__name__}>"


def _text(value: Any, labels: Mapping[Term, str]) -> str:
    if isinstance(value, Term):
        return format_term(value, names=labels)
    if isinstance(value, (tuple, list)):
        items = [_text(v, labels) for v in cast("Sequence[Any]", value)]
        if isinstance(value, list):
            return f"[{', '.join(items)}]"
        return f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})"
    return repr(value)


class _Named:
    """A load source that prints under a node's name."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def source_key(self) -> str:
        return f"named {self.name}"


def _short(term: Term, sources: Mapping[int, str], labels: Mapping[Term, str]) -> str:
    """A term with its operands under their names, elided when it is large."""
    if len(list(islice(postorder(term), MAX_BODY + 1))) > MAX_BODY:
        return f"<{term.op} of more than {MAX_BODY} nodes>"
    named = {n: _Named(name) for n, name in sources.items()}
    return format_term(renumber_loads(term, named), limit=None, names=labels)
