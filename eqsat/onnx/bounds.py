"""What a model would grow to, counted before anything is unfolded: calls of functions, values of shape arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import FunctionProto, ModelProto, helper, numpy_helper

from eqsat.ir.errors import FrontendError
from eqsat.onnx.graphs import nested_nodes

MOST_NODES = 1_000_000
"""Nodes that a model may have once its functions are unfolded; shape inference visits each of them."""
MOST_VALUES = 10_000
"""Numbers in a value that shape inference follows element by element."""

Key = tuple[str, str]


def check_functions(model: ModelProto) -> None:
    """Raise FrontendError where functions call themselves, or unfold to more nodes than anybody can read.

    >>> check_functions(ModelProto())
    """
    functions: dict[Key, FunctionProto] = {(f.domain, f.name): f for f in model.functions}
    sizes: dict[Key, int] = {}
    for start in functions:
        stack: list[tuple[Key, Iterator[Key]]] = [(start, _calls(functions[start], functions))]
        open_keys = {start}
        while stack:
            key, calls = stack[-1]
            callee = next(calls, None)
            if callee is None:
                stack.pop()
                open_keys.discard(key)
                nodes = list(nested_nodes(functions[key].node))
                sizes[key] = len(nodes) + sum(sizes[c] for c in _calls(functions[key], functions))
            elif callee in open_keys:
                raise FrontendError("ONNX model", f"its function {'.'.join(callee).strip('.')!r} calls itself")
            elif callee not in sizes:
                open_keys.add(callee)
                stack.append((callee, _calls(functions[callee], functions)))
    total = sum(1 + sizes.get((n.domain, n.op_type), 0) for n in nested_nodes(model.graph.node))
    if total > MOST_NODES:
        shown = f"{total:,}" if total < 10**15 else f"more than 10^{len(str(total)) - 1}"
        raise FrontendError("ONNX model", f"its functions unfold to {shown} nodes", f"at most {MOST_NODES:,} are read")


def _calls(function: FunctionProto, functions: dict[Key, FunctionProto]) -> Iterator[Key]:
    return iter([key for n in nested_nodes(function.node) if (key := (n.domain, n.op_type)) in functions])


def follows_large_values(model: ModelProto) -> bool:
    """Whether shape inference, which follows values of shape arithmetic, would meet a value of very many numbers.

    It makes each of them, whatever there are, so that two numbers in a file can ask for all memory.
    """
    lengths: dict[str, int] = {}
    values: dict[str, Sequence[int]] = {}
    for x in model.graph.initializer:
        lengths[x.name] = 1
        for d in x.dims:
            lengths[x.name] *= d
        if x.data_type in (6, 7) and len(x.dims) <= 1 and lengths[x.name] <= 64 and x.data_location != 1:
            values[x.name] = numpy_helper.to_array(x).reshape(-1).tolist()
    for node in model.graph.node:
        length = max((lengths.get(name, 1) for name in node.input), default=1)
        if node.op_type == "Concat":
            length = sum(lengths.get(name, 1) for name in node.input)
        elif node.op_type == "ConstantOfShape" and node.input and node.input[0] in values:
            length = 1
            for d in values[node.input[0]]:
                length *= max(0, d)
        elif node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    length = 1
                    for d in attribute.t.dims:
                        length *= d
                elif attribute.name in ("value_ints", "value_int"):
                    found = helper.get_attribute_value(attribute)
                    values[node.output[0]] = found if isinstance(found, (list, tuple)) else [found]
        elif node.op_type in ("Shape", "Size", "Gather", "Squeeze"):
            length = 64
        if length > MOST_VALUES and node.op_type in ("Concat", "ConstantOfShape"):
            return True
        for name in node.output:
            lengths[name] = length
    return False
