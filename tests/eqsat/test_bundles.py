"""Operators of which only a signature is known, under random layouts: what is written computes the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import eqsat as eq
from eqsat.ir.flat.facts import inverse
from eqsat.ir.flat.map import digit, from_digits
from eqsat.ir.flat.table import Map
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Opaque, Program, Tensor
from eqsat.ir.terms.shape import Shape
from eqsat.ir.terms.shape import static_shape as _static_shape
from eqsat.operators.bundles import bundles_of, of_opaque
from eqsat.operators.forms import FormMaker, freedom
from eqsat.operators.interned import Interned
from eqsat.operators.labels import canonicalise

NAMES = "abcdef"


def static_shape(shape: Shape) -> tuple[int, ...]:
    found = _static_shape(shape)
    assert found is not None
    return found


@dataclass(frozen=True)
class Some:
    """A random function that is as symmetric as a signature with these extents says."""

    signature: Signature
    extents: dict[str, int]

    def shape(self, dims: Dims) -> tuple[int, ...]:
        return tuple(prod(self.extents[x] for x in d) for d in dims)

    def __call__(self, *arrays: Any) -> list[Any]:
        """Sums along `reduce` labels, running sums along `fixed` ones, of products of what the operands have; whole
        numbers, so that no order of summing shows."""
        full = tuple(self.extents.values())
        total: Any = np.ones(full, np.int64)
        for n, (array, dims) in enumerate(zip(arrays, self.signature.operands, strict=True)):
            names = [x for d in dims for x in d]
            axes = [names.index(x) for x in self.extents if x in names]
            wide = tuple(e if x in names else 1 for x, e in self.extents.items())
            spread = array.reshape([self.extents[x] for x in names]).transpose(axes).reshape(wide)
            total = total * (spread + n + 2)
        outputs: list[Any] = []
        for k, dims in enumerate(self.signature.outputs):
            names = [x for d in dims for x in d]
            value, left = total + k, list(self.extents)
            for x in self.extents:
                if x not in names:
                    value, left = value.sum(axis=left.index(x)), [y for y in left if y != x]
                elif self.signature.role(x) == "fixed":
                    value = np.cumsum(value, axis=left.index(x))
                elif self.signature.role(x) == "equivariant":
                    value = value * value.sum(axis=left.index(x), keepdims=True)
            outputs.append(value.transpose([left.index(x) for x in names]).reshape(self.shape(dims)))
        return outputs


@st.composite
def grouped(draw: st.DrawFn, names: list[str]) -> Dims:
    """Names as dimensions, some of them products."""
    dims: list[tuple[str, ...]] = []
    for x in names:
        if dims and draw(st.integers(0, 3)) == 0:
            dims[-1] = (*dims[-1], x)
        else:
            dims.append((x,))
    return tuple(dims)


@st.composite
def operators(draw: st.DrawFn) -> Some:
    names = list(NAMES[: draw(st.integers(2, 5))])
    extents = {x: draw(st.sampled_from([1, 2, 4, 4, 6, 6])) for x in names}
    roles = {x: draw(st.sampled_from(["map"] * 4 + ["equivariant", "reduce", "fixed"])) for x in names}
    kept = [x for x in names if roles[x] != "reduce"]
    operands: list[Dims] = []
    for n in range(draw(st.integers(1, 3))):
        some = names if n == 0 else [x for x in names if draw(st.booleans())]
        operands.append(draw(grouped(some if n == 0 else draw(st.permutations(some)))))
    outputs = [draw(grouped(kept))]
    if draw(st.booleans()):
        outputs.append(draw(grouped(draw(st.permutations(kept)))))
    # Each extent has to follow from the shapes: a product that hides one is given a plain dimension elsewhere.
    operands[0] = tuple((x,) for d in operands[0] for x in d)
    return Some(Signature(tuple(operands), tuple(outputs), {x: r for x, r in roles.items() if x in names}), extents)


def turned(x: Tensor, dims: Dims, extents: dict[str, int], cuts: dict[str, int]) -> Tensor:
    """The tensor with the positions of each label in another order: i * cut + j stands at j * (extent / cut) + i."""
    names = [y for d in dims for y in d]
    digits = [e for y in names for e in (extents[y] // cuts[y], cuts[y])]
    order = [k for n in range(len(names)) for k in (2 * n + 1, 2 * n)]
    return x.reshape(digits).permute_dims(order).reshape(x.shape)


def divisors(n: int) -> list[int]:
    return [k for k in range(1, n + 1) if n % k == 0]


@settings(max_examples=18)
@given(st.data())
def test_operators_compute_the_same_after_the_search(data: st.DataObject) -> None:
    some = data.draw(operators())
    cuts = {x: data.draw(st.sampled_from(divisors(e))) for x, e in some.extents.items()}
    back = {x: e // cuts[x] for x, e in some.extents.items()}
    extents = some.extents
    inputs: list[Tensor] = []
    operands: list[Tensor] = []
    for n, dims in enumerate(some.signature.operands):
        if n and dims == some.signature.operands[0] and data.draw(st.booleans()):
            operands.append(operands[0])
            continue
        inputs.append(eq.input(f"x{n}", some.shape(dims), "int64"))
        operands.append(turned(inputs[-1], dims, extents, cuts) if data.draw(st.integers(0, 3)) else inputs[-1])
    types = [(some.shape(dims), "int64") for dims in some.signature.outputs]
    node = Opaque("some", operands, types, {}, some.signature, some)
    results: dict[str, Tensor] = {}
    for k, dims in enumerate(some.signature.outputs):
        if k == 0 or data.draw(st.booleans()):
            y = Tensor(node, k)
            results[f"y{k}"] = turned(y, dims, extents, back) if data.draw(st.integers(0, 3)) else y
    program = Program(tuple(inputs), results)
    rng = np.random.default_rng(0)
    arrays = {x.name: rng.integers(-9, 9, static_shape(x.shape)) for x in inputs}
    wanted = eq.evaluate(program, arrays)
    for target in ("onnx", "c"):
        found = eq.optimize(program, target=target)
        assert found.checked.difference is None
        assert found.final.rank <= found.initial.rank
        made = eq.evaluate(found.program, arrays)
        for name in results if len(results) > 1 else [None]:
            assert np.array_equal(*(x if name is None else x[name] for x in (wanted, made)))


def flat(values: Any, m: Map) -> Any:
    return m.gather(np.asarray(values).reshape(-1), 0)


@settings(max_examples=150)
@given(st.data())
def test_every_form_is_the_operator(data: st.DataObject) -> None:
    """The operator over operands in the layouts of a form has its outputs in those of the form, whatever was asked."""
    some = data.draw(operators())
    inputs = [eq.input(f"x{n}", some.shape(dims), "int64") for n, dims in enumerate(some.signature.operands)]
    types = [(some.shape(dims), "int64") for dims in some.signature.outputs]
    node = Opaque("some", inputs, types, {}, some.signature, some)
    done, u = canonicalise(of_opaque(node)), Interned()
    number = u.operators.number(done.operator)
    maker = FormMaker(u, {number: freedom(done.operator, node, "onnx")})
    rng = np.random.default_rng(0)
    values = [rng.integers(-9, 9, prod(static_shape(x.shape))) for x in inputs]

    def results(reads: Sequence[Map], makes: Sequence[Map]) -> list[Any]:
        """The outputs in normal form, by a form with these layouts."""
        given_ = [flat(v, m).reshape(static_shape(x.shape)) for v, m, x in zip(values, reads, inputs, strict=True)]
        return [flat(y, known(inverse(m))) for y, m in zip(some(*given_), makes, strict=True)]

    wanted = results(done.operand_maps, done.output_maps)
    sides = [*done.operator.operands, *done.operator.outputs]
    found: set[int] = set()
    for k, order in enumerate(sides):
        digits = [e for i in order for e in split(data, done.operator.labels[i].extent)]
        places = data.draw(st.permutations(range(len(digits))))
        strides = [prod(digits[n + 1 :]) for n in range(len(digits))]
        layout = from_digits(prod(digits), [digit(digits[n], strides[n]) for n in places])
        if k < len(inputs):
            found.update(maker.for_operand(number, k, layout))
        else:
            found.update(maker.for_output(number, k - len(inputs), layout))
    for f in found:
        form = u.forms[f]
        made = results([u.reindexes[m].map for m in form.operand_maps], [u.reindexes[m].map for m in form.output_maps])
        for one, other in zip(wanted, made, strict=True):
            assert np.array_equal(one, other)


def split(data: st.DataObject, extent: Any) -> list[int]:
    inner = data.draw(st.sampled_from(divisors(extent)))
    return [extent // inner, inner]


def known(m: Map | None) -> Map:
    assert m is not None
    return m


def test_operators_that_look_alike_are_alike() -> None:
    """What is remembered of one operator is not taken for another one: other attributes, extents, types, functions of a
    caller, and identities."""

    def made(op: str, shape: Shape, reads: str = "float32", makes: str = "float32", **options: Any) -> Opaque:
        own: dict[str, Any] = {"signature": Signature.parse("a b -> a b", map="a"), **options}
        return Opaque(op, [eq.input("x", shape, reads)], [(shape, makes)], **own)

    nodes = [
        *(made(op, shape) for op in ("f", "g") for shape in ((2, 3), (3, 2))),
        *(made("f", (2, 3), reads, makes) for reads in ("float32", "int8") for makes in ("float32", "int8")),
        *(made("f", (2, 3), signature=x) for x in (Signature.parse("a b -> a b", map="a b"), None)),
        *(made("f", (2, 3), attrs={"axis": axis}) for axis in (0, 1)),
        *(made("f", (2, 3), attrs={"table": np.array(row)}) for row in ([1, 2], [1, 3])),
        *(made("f", (2, 3), impl=impl) for impl in (np.sin, np.cos)),
        *(made("f", (2, 3), pure=False) for _ in range(2)),
        *(eq.input("x", (3, 4), "float32").softmax(axis).node for axis in (0, 1)),
    ]
    for node in (*nodes, *nodes):
        if isinstance(node, Opaque):
            assert bundles_of(node) == of_opaque(node), node
