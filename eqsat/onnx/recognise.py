"""Which ONNX call a node is: calls are proposed from tags and from the shape of the formula, read back, and compared.

Nothing here has to be right for the result to be right: a proposal counts only if the table of operators makes the same
formula of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from eqsat.ir.dtypes import NDArray
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.tensor import Compute, Constant, Opaque, Tensor, View, constant, input
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import evaluate_masked
from eqsat.ir.terms.shape import Shape, output_axes, same_shape, static_shape
from eqsat.ir.terms.tables import load_table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import nodes_of, postorder, substitute, transform
from eqsat.models.package import element_type
from eqsat.onnx.added import MICROSOFT
from eqsat.onnx.call import Call, TensorAttr, accepts
from eqsat.onnx.formulas.windows import never_empty
from eqsat.onnx.ops.math import REDUCTIONS
from eqsat.onnx.ops.nodes import node_names
from eqsat.onnx.ops.pointwise import FORMULAS
from eqsat.onnx.ops.table import OUTPUT, SLOTS, apply, in_slots, tag_call

MAX_ASSIGNMENTS = 64
MAX_DEPTH = 12
"""Formulas of operators with longer chains of steps are not compared."""

_REFUSALS = (EqsatError, TypeError, ValueError, KeyError, IndexError)


def _units(*terms: Term) -> dict[Term, Term]:
    """Axes of extent 1, which are always 0."""
    zero = t.index_const(0)
    return {a: zero for a in nodes_of("axis", *terms) if t.is_const(a.args[0], 1)}


def canonical_body(node: Compute) -> tuple[Term, list[Tensor], tuple[Term, ...]]:
    """The body with operands and reduce axes numbered as they appear and no unit axes; operands; reduce extents."""
    first: dict[tuple[int, int], int] = {}
    alike = tuple(first.setdefault(x.key, n) for n, x in enumerate(node.operands))
    body, places, reduced = _canonical(node.body, alike, node.reduce)
    return body, [node.operands[n] for n in places], reduced


@lru_cache(maxsize=4096)
def _canonical(body: Term, alike: tuple[int, ...], reduce: Shape) -> tuple[Term, tuple[int, ...], tuple[Term, ...]]:
    """A canonical body, its operands by number, and its reduce extents; alike: for each operand the first that it is
    the same tensor as."""
    body = substitute(body, _units(body))
    numbers: dict[int, int] = {}
    places: dict[Term, Term] = {}
    for term in postorder(body):
        if term.op == "load" and isinstance(term.payload, int):
            numbers.setdefault(alike[term.payload], len(numbers))
        elif term.op == "axis" and term.payload[0] == "red":
            places[term] = t.red(len(places), term.args[0])

    def change(term: Term) -> Term | None:
        if term.op == "load" and isinstance(term.payload, int):
            return t.load(numbers[alike[term.payload]], term.args, term.dtype)
        return None

    used = {p.payload[1] for p in places}
    rest = [t.as_index(d) for n, d in enumerate(reduce) if n not in used and not t.is_const(t.as_index(d), 1)]
    return transform(substitute(body, places), change), tuple(numbers), (*(p.args[0] for p in places), *rest)


def same_node(a: Any, b: Any, depth: int = 3) -> bool:
    """Whether two nodes are one formula over the same operands."""
    if (
        len(a.outputs) != len(b.outputs)
        or not same_shape(a.outputs[0][0], b.outputs[0][0])
        or a.outputs[0][1] != b.outputs[0][1]
    ):
        return False
    if isinstance(a, View) and isinstance(b, View):
        units = _units(*a.gather, *b.gather, a.valid, b.valid)
        pairs = zip((*a.gather, a.valid), (*b.gather, b.valid), strict=False)
        same = len(a.gather) == len(b.gather) and all(substitute(p, units) is substitute(q, units) for p, q in pairs)
        return same and a.fill is b.fill and same_tensor(a.source, b.source, depth)
    if isinstance(a, Compute) and isinstance(b, Compute):
        (q, right, other) = canonical_body(b)
        (p, left, reduced) = canonical_body(a)
        if p is not q and a.body.op in ("add", "mul"):  # both commute, bit for bit
            swapped = t.make(a.body.op, tuple(reversed(a.body.args)), None, a.body.dtype)
            (p, left, reduced) = canonical_body(Compute(a.operands, a.shape, swapped, a.reduce, a.combiner))
        combined = a.combiner == b.combiner or not (reduced or other)
        same = p is q and combined and a.ordered == b.ordered and len(reduced) == len(other) and len(left) == len(right)
        return (
            same
            and sorted(x.digest for x in reduced) == sorted(x.digest for x in other)
            and all(same_tensor(x, y, depth) for x, y in zip(left, right, strict=True))
        )
    return False


def same_tensor(a: Tensor, b: Tensor, depth: int) -> bool:
    """Whether two tensors are one value: the same output, equal constants, or equal formulas to some depth."""
    if a == b:
        return True
    if isinstance(a.node, Constant) and isinstance(b.node, Constant):
        return a.dtype == b.dtype and a.shape == b.shape and a.node.array.tobytes() == b.node.array.tobytes()
    return depth > 0 and isinstance(a.node, (View, Compute)) and same_node(a.node, b.node, depth - 1)


def call_of(own: Opaque, opset: int) -> Call | None:
    """The call with the formula of an operator of ours, under the same attributes; None where there is none.

    >>> from eqsat.ir.tensors.reductions import softmax
    >>> found = softmax(input("x", (2, 3), "float32"), 1).node
    >>> call_of(found, 17).op if isinstance(found, Opaque) else None
    'Softmax'
    """
    if own.definition is None or len(own.outputs) != 1:
        return None
    inputs = [input(f"operand{n}", x.shape, x.dtype) for n, x in enumerate(own.operands)]
    wanted = _first(own.definition(*inputs))
    for op in node_names():
        call = Call(op, own.operands, own.attrs, opset, types=tuple(own.outputs))
        try:
            made = apply(call)[0].node if accepts(call) else None
        except EqsatError:
            continue
        theirs = made.definition if isinstance(made, Opaque) else None
        if theirs is not None and same_tensor(_first(theirs(*inputs)), wanted, MAX_DEPTH):
            return call
    return None


def _first(made: Tensor | Sequence[Tensor]) -> Tensor:
    return made if isinstance(made, Tensor) else made[0]


def matches(call: Call, node: Any, output: int = 0) -> bool:
    """Whether the table reads this formula in a call."""
    try:
        made = apply(call)
    except _REFUSALS:
        return False  # a proposal that the operator does not accept
    return output < len(made) and same_node(made[output].node, node)


def recognise(node: View | Compute, opset: int, domains: Collection[str] = ()) -> Call | None:
    """The call that is this node, by an operator of ONNX or of further domains, or None."""
    for call in proposals(node, opset, domains):
        if matches(call, node, 0 if node.tag is None else node.tag.get(OUTPUT, 0)) and accepts(call):
            return call
    return None


def proposals(node: View | Compute, opset: int, domains: Collection[str] = ()) -> Iterator[Call]:
    """Calls that may be this node, likely ones first."""
    tagged = None if node.tag is None else tag_call(node.tag, node.operands, opset)
    if tagged is not None and tagged.domain and tagged.domain not in domains:
        tagged = None
    if tagged is not None and node.tag is not None:
        yield from _assigned(tagged, node.operands, node.tag.get(SLOTS, ()))
        yield from _fused(tagged, node)
    if isinstance(node, View):
        if static_shape(node.outputs[0][0]) is None:
            shape = {"shape": node.outputs[0][0]}
            yield Call("Reshape", (node.source,), shape, opset)
            yield Call("Expand", (node.source,), shape, opset)
        yield from _fills(node, opset)
        yield from _gathers(node, opset)
        return
    yield from _concats(node, opset)
    if tagged is not None and tagged.op == "Einsum":
        yield from _einsums(node, opset)
    if node.combiner is not None:
        yield from _reductions(node, opset)
        yield from _products(node, opset, tagged)
        if MICROSOFT in domains:
            yield from _turned_products(node, opset)
    elif node.body.op == "cast":
        yield Call("Cast", node.operands, {"to": element_type(node.body.dtype)}, opset)
    elif len(node.operands) <= 3:
        last = canonical_body(node)[0].op
        for name in FORMULAS:
            if tagged is None or name != tagged.op:
                for call in _assigned(
                    Call(name, (), {}, opset), node.operands, range(_arity(name, len(node.operands)))
                ):
                    if last_operation(call) in (last, ""):
                        yield call


def _arity(name: str, operands: int) -> int:
    code = FORMULAS[name].__code__
    return operands if code.co_flags & 4 else code.co_argcount - len(FORMULAS[name].__defaults__ or ())


def _assigned(call: Call, operands: Sequence[Tensor], slots: Sequence[int]) -> Iterator[Call]:
    """The call with every assignment of operands to its slots, in order of appearance first."""
    if len(slots) < len(operands):
        return
    if len(slots) == len(operands):
        yield replace(call, operands=in_slots(operands, slots))
    for chosen in itertools.islice(itertools.product(operands, repeat=len(slots)), MAX_ASSIGNMENTS):
        yield replace(call, operands=in_slots(chosen, slots))


def last_operation(call: Call) -> str | None:
    """The last operation of the formula of a call over elements, which no shape changes; None where it has no formula,
    and nothing where that depends on the numbers of a constant."""
    if any(x is None or isinstance(x.node, Constant) for x in call.operands):
        return ""
    keys = [x.key for x in call.tensors]
    return _last_over(call.op, call.opset, tuple(x.dtype for x in call.tensors), tuple(keys.index(k) for k in keys))


@lru_cache(maxsize=4096)
def _last_over(op: str, opset: int, dtypes: tuple[str, ...], firsts: tuple[int, ...]) -> str | None:
    """That of an operator over numbers of some types; `firsts` are the places where each operand stands first.

    >>> _last_over("Relu", 17, ("float32",), (0,)), _last_over("Sub", 17, ("int32", "int32"), (0, 1))
    ('max', 'sub')
    """
    cells = [input(f"cell{n}", (), dtype) for n, dtype in enumerate(dtypes)]
    try:
        made = apply(Call(op, tuple(cells[n] for n in firsts), {}, opset))[0].node
    except _REFUSALS:
        return None
    return made.body.op if isinstance(made, Compute) else None


def _fused(call: Call, node: View | Compute) -> Iterator[Call]:
    """A Gemm whose product is a node of its own."""
    if call.op != "Gemm" or len(node.operands) != 2:
        return
    for product, rest in (node.operands, reversed(node.operands)):
        inner = product.node
        if isinstance(inner, Compute) and inner.combiner is not None:
            for a, b in itertools.permutations(_pair(inner)):
                for ta, tb in itertools.product((0, 1), repeat=2):
                    flags = {k: v for k, v in call.attrs.items() if k not in ("transA", "transB")}
                    flags.update({k: 1 for k, on in (("transA", ta), ("transB", tb)) if on})
                    yield replace(call, operands=(a, b, rest), attrs=flags)


def _pair(node: Compute) -> tuple[Tensor, Tensor]:
    return (node.operands[0], node.operands[-1])


def _fills(node: View, opset: int) -> Iterator[Call]:
    """A constant tensor of one value."""
    source, shape = node.source.node, static_shape(node.outputs[0][0])
    if isinstance(source, Constant) and source.array.shape == () and node.fill is None and shape is not None:
        value = TensorAttr(node.source.dtype, (1,), source.array.tobytes())
        yield Call("ConstantOfShape", (), {"input": shape, "value": value}, opset)


def _gathers(node: View, opset: int) -> Iterator[Call]:
    """A Gather along one axis by the positions that the formula has there."""
    shape, rank = node.outputs[0][0], len(node.source.shape)
    count = len(shape) - rank + 1
    tagged = node.tag is not None and node.tag.name == "onnx:Gather"
    if node.fill is not None or count < 0 or not (tagged or nodes_of("load", *node.gather)):
        return
    for axis in range(rank):
        inner = static_shape(shape[axis : axis + count])
        cells = None if inner is None else _values(node.gather[axis], output_axes(shape)[axis : axis + count], inner)
        if cells is not None:
            yield Call("Gather", (node.source, constant(cells)), {"axis": axis}, opset)


def positions(axes: Sequence[Term], shape: tuple[int, ...]) -> dict[Term, NDArray]:
    """The value of every axis of a box in every cell."""
    return dict(zip(axes, np.indices(shape, dtype=np.int64), strict=True)) if shape else {}


def _values(term: Term, axes: Sequence[Term], shape: tuple[int, ...]) -> Any:
    """The values of an index term over some axes; None where it has others."""
    if set(nodes_of("axis", term)) - set(axes) or nodes_of("sym", term):
        return None
    value, bad = evaluate_masked([term], positions(axes, shape), load_table)[0]
    return None if bad is not None else np.broadcast_to(value, shape).astype(np.int64)


def chain(body: Term) -> list[tuple[Term | None, Term]]:
    """A chain of `where` as (condition, value) pairs; the last has no condition."""
    result: list[tuple[Term | None, Term]] = []
    while body.op == "where":
        result.append((body.args[0], body.args[1]))
        body = body.args[2]
    return [*result, (None, body)]


def _concats(node: Compute, opset: int) -> Iterator[Call]:
    pieces = chain(node.body)
    loads = [value.payload for _, value in pieces if value.op == "load" and isinstance(value.payload, int)]
    if len(loads) == len(pieces) and node.combiner is None:
        for axis in range(len(node.shape)):
            yield Call("Concat", tuple(node.operands[n] for n in loads), {"axis": axis}, opset)


def _reductions(node: Compute, opset: int) -> Iterator[Call]:
    loads = nodes_of("load", node.body)
    if len(node.operands) != 1 or not loads:
        return
    axes = tuple(n for n, i in enumerate(loads[0].args) if i.op == "axis" and i.payload[0] == "red")
    keep = int(len(node.shape) == len(loads[0].args))
    for name, (combiner, _) in REDUCTIONS.items():
        if combiner == node.combiner and not name.startswith("Global"):
            yield Call(name, node.operands, {"axes": axes, "keepdims": keep}, opset)


def _products(node: Compute, opset: int, tagged: Call | None) -> Iterator[Call]:
    if not node.operands or len(node.operands) > 2:
        return
    order = ["Gemm", "MatMul"] if tagged is not None and tagged.op == "Gemm" else ["MatMul", "Gemm"]
    for name in order:
        for a, b in itertools.permutations(_pair(node)):
            if name == "MatMul":
                yield Call(name, (a, b), {}, opset)
                continue
            for ta, tb in itertools.product((0, 1), repeat=2):
                flags = {k: 1 for k, on in (("transA", ta), ("transB", tb)) if on}
                if opset >= 11:
                    yield Call(name, (a, b), flags, opset)


def _turned_products(node: Compute, opset: int) -> Iterator[Call]:
    """The products whose summed axis stands where it does in each operand."""
    loads = [x for x in postorder(node.body) if x.op == "load"]
    if len(loads) != 2 or len(node.operands) != 2:
        return

    def flags(load: Term) -> list[tuple[int, int]]:
        """Whether the last two axes are exchanged, and whether the first one is that before the last, of a left one."""
        places = [n - len(load.args) for n, i in enumerate(load.args) if i.op == "axis" and i.payload[0] == "red"]
        table = {-len(load.args): [(1, 1)], -2: [(1, 0)], -1: [(0, 0), (0, 1)]}
        return [pair for n in places[:1] for pair in table.get(n, ())]

    for a, b in itertools.permutations(loads):
        for (ta, la), (tb, lb) in itertools.product(flags(a), flags(b)):
            pairs = {"transA": ta, "transB": 1 - tb, "transBatchA": la, "transBatchB": lb}
            operands = tuple(node.operands[x.payload] for x in (a, b) if isinstance(x.payload, int))
            yield Call("FusedMatMul", operands, {k: 1 for k, on in pairs.items() if on}, opset, MICROSOFT)


def _einsums(node: Compute, opset: int) -> Iterator[Call]:
    """The contraction by labels; dimensions of extent 1 that no axis indexes have labels of their own."""
    letters: dict[Term, str] = {}
    units = itertools.count()

    def label(i: Term) -> str:
        key = t.var(f"unit{next(units)}", 1) if t.is_const(i, 0) else i
        return letters.setdefault(key, chr(ord("a") + len(letters)))

    loads = [x for x in postorder(node.body) if x.op == "load" and isinstance(x.payload, int)]
    if any(i.op != "axis" and not t.is_const(i, 0) for x in loads for i in x.args):
        return
    parts = ["".join(label(i) for i in x.args) for x in loads]
    if any(_is_apart(part) for part in parts) and not never_empty((*node.shape, *node.reduce)):
        return  # a kernel of onnxruntime divides by the number of cells
    left = ",".join(parts)
    result = "".join(label(i) for i in output_axes(node.shape))
    if len(letters) <= 26:
        operands = tuple(node.operands[int(x.payload)] for x in loads)
        yield Call("Einsum", operands, {"equation": f"{left}->{result}"}, opset)


def _is_apart(labels: str) -> bool:
    """Whether a label occurs again behind another one."""
    return any(x in labels[n + 2 :] and labels[n + 1] != x for n, x in enumerate(labels))
