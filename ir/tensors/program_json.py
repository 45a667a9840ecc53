"""Programs as JSON and back. Terms stand in one shared list, constants as base64 of their bytes, little-endian.

A Python function cannot be written: operators defined in `eqsat.ir.tensors.library` find theirs again by name, the
`impl` of an opaque operator is refused or, when asked for, left out.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import NDArray, itemsize
from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.json_data import JsonReader, write_json
from eqsat.ir.layouts.term_json import TermReader, TermWriter, decode_base64
from eqsat.ir.tensors.library import operator_names, operator_node
from eqsat.ir.tensors.signature import Dims, Signature
from eqsat.ir.tensors.tensor import Compute, Constant, Input, Node, Opaque, Program, Tag, Tensor, View, data_dtype
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Shape, as_shape, size
from eqsat.ir.terms.term import Term

MAX_NESTING = 50
MAX_EXTENT = 1 << 40


class _Writer:
    def __init__(self, drop_impl: bool) -> None:
        self.terms = TermWriter()
        self.drop_impl = drop_impl
        self.numbers: dict[int, int] = {}

    def shape(self, shape: Shape) -> list[int]:
        return [self.terms.add(t.as_index(d)) for d in shape]

    def tensor(self, x: Tensor) -> list[int]:
        return [self.numbers[x.node.serial], x.index]

    def node(self, node: Node) -> dict[str, Any]:
        entry: dict[str, Any] = {"kind": type(node).__name__.lower()}
        if node.operands:
            entry["operands"] = [self.tensor(x) for x in node.operands]
        if isinstance(node, (Input, Opaque)):
            entry["outputs"] = [[self.shape(s), d] for s, d in node.outputs]
        if isinstance(node, Input):
            entry |= {"name": node.name, **({"parameter": True} if node.parameter else {})}
        elif isinstance(node, Constant):
            entry |= {"name": node.name, "array": self.value(node.array, "constant")}
        elif isinstance(node, View):
            entry["shape"] = self.shape(node.outputs[0][0])
            entry["gather"] = [self.terms.add(g) for g in node.gather]
            entry["valid"] = self.terms.add(node.valid)
            entry["fill"] = None if node.fill is None else self.terms.add(node.fill)
            entry["tag"] = self.tag(node.tag)
        elif isinstance(node, Compute):
            entry["shape"], entry["reduce"] = self.shape(node.shape), self.shape(node.reduce)
            entry |= {"combiner": node.combiner, "ordered": node.ordered, "body": self.terms.add(node.body)}
            entry["tag"] = self.tag(node.tag)
        elif isinstance(node, Opaque):
            entry |= self.opaque(node)
        return entry

    def opaque(self, node: Opaque) -> dict[str, Any]:
        if node.impl is not None and not self.drop_impl:
            raise EqsatError(
                f"JSON of operator {node.op}", "its impl is a Python function", "program_to_json(p, drop_impl=True)"
            )
        # Beside an impl the definition is a Python function as well, and left out with it.
        defined = node.definition is not None and node.impl is None
        if defined and node.op not in operator_names():
            raise EqsatError(f"JSON of operator {node.op}", "its definition is not in eqsat.ir.tensors.library")
        s = node.signature
        signature = None if s is None else {"operands": s.operands, "outputs": s.outputs, "roles": dict(s.roles)}
        attrs = {str(k): self.value(v, f"attribute {k} of operator {node.op}") for k, v in node.attrs.items()}
        return {"op": node.op, "attrs": attrs, "signature": signature, "pure": node.pure, "defined": defined}

    def tag(self, tag: Tag | None) -> Any:
        if tag is None:
            return None
        return [tag.name, [[k, self.value(v, f"attribute {k} of {tag.name}")] for k, v in tag.attrs]]

    def value(self, value: Any, what: str) -> Any:
        """An attribute: plain where JSON says it exactly, else an object that names its kind."""
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int) and not isinstance(value, np.generic):
            return value
        if isinstance(value, float) and not isinstance(value, np.generic):
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, bytes):
            return {"bytes": base64.b64encode(value).decode()}
        if isinstance(value, (np.ndarray, np.generic)):
            array: NDArray = np.asarray(cast(Any, value))
            data = array.astype(array.dtype.newbyteorder("<")).tobytes()
            kind = "scalar" if isinstance(value, np.generic) else "array"
            return {kind: [data_dtype(array.dtype), list(array.shape), base64.b64encode(data).decode()]}
        if isinstance(value, Term):
            return {"term": self.terms.add(value)}
        if isinstance(value, (list, tuple)):
            items = [self.value(v, what) for v in cast("list[Any]", value)]
            return {"tuple": items} if isinstance(value, tuple) else items
        if isinstance(value, Mapping):
            pairs = cast("Mapping[Any, Any]", value).items()
            return {"dict": [[self.value(k, what), self.value(v, what)] for k, v in pairs]}
        raise EqsatError(f"JSON of {what}", f"a {type(value).__name__} cannot be written")


def program_to_json(program: Program, drop_impl: bool = False) -> str:
    """A program as JSON text.

    >>> import eqsat as eq
    >>> x = eq.input("x", (2, 3), "float32")
    >>> p = program_from_json(program_to_json(eq.Program([x], {"y": x.permute_dims((1, 0)).relu()})))
    >>> p.outputs["y"].shape
    (3, 2)

    Raises EqsatError where an opaque operator has an `impl`, a Python function: `drop_impl=True` leaves it out.
    """
    writer = _Writer(drop_impl)
    nodes: list[dict[str, Any]] = []
    for node in program.all_nodes():
        entry = writer.node(node)
        writer.numbers[node.serial] = len(nodes)
        nodes.append(entry)
    return write_json(
        {
            "eqsat": "program",
            "version": 1,
            "name": program.name,
            "inputs": [writer.tensor(x) for x in program.inputs],
            "outputs": [[name, *writer.tensor(x)] for name, x in program.outputs.items()],
            "nodes": nodes,
            "terms": writer.terms.data(),
        }
    )


class _Reader:
    def __init__(self, fields: dict[str, Any], reader: JsonReader, functions: Mapping[int, Callable[..., Any]]) -> None:
        self.reader, self.functions = reader, functions
        self.terms = TermReader(reader.field(fields, "terms"), reader)
        self.nodes: list[Node] = []
        for number, entry in enumerate(reader.items(reader.field(fields, "nodes"), "nodes")):
            try:
                self.nodes.append(self.node(reader.mapping(entry, "node"), number))
            except ParseError:
                raise
            except EqsatError as error:
                raise ParseError(f"JSON of program, node {number}", str(error)) from error

    def tensor(self, data: Any) -> Tensor:
        number, index = self.reader.integers(self.reader.items(data, "tensor", 2), "tensor", 0)
        if number >= len(self.nodes) or index >= len(self.nodes[number].outputs):
            self.reader.fail(f"output {index} of node {number} is not there yet")
        return Tensor(self.nodes[number], index)

    def shape(self, data: Any) -> Shape:
        return as_shape([self.terms.term(d, "extent") for d in self.reader.items(data, "shape")])

    def node(self, entry: dict[str, Any], number: int) -> Node:
        reader = self.reader
        kind = reader.string(reader.field(entry, "kind"), "kind")
        operands = [self.tensor(x) for x in reader.items(entry.get("operands", []), "operands")]
        if kind == "input":
            types = self.types(entry)
            if len(types) != 1:
                reader.fail(f"an input has {len(types)} outputs")
            parameter = entry.get("parameter", False) is True
            return Input(reader.string(reader.field(entry, "name"), "name"), *types[0], parameter)
        if kind == "constant":
            array = self.value(reader.field(entry, "array"), 0)
            if not isinstance(array, np.ndarray):
                reader.fail("a constant is no array")
            return Constant(cast(NDArray, array), reader.string(reader.field(entry, "name"), "name"))
        if kind == "view":
            return self.view(entry, operands)
        if kind == "compute":
            combiner = reader.field(entry, "combiner")
            return Compute(
                operands,
                self.shape(reader.field(entry, "shape")),
                self.terms.term(reader.field(entry, "body"), "body"),
                self.shape(reader.field(entry, "reduce")),
                None if combiner is None else reader.string(combiner, "combiner"),
                self.tag(reader.field(entry, "tag")),
                reader.boolean(reader.field(entry, "ordered"), "ordered"),
            )
        if kind == "opaque":
            return self.opaque(entry, operands, number)
        reader.fail(f"unknown kind of node {kind!r}")

    def types(self, entry: dict[str, Any]) -> list[tuple[Shape, str]]:
        reader = self.reader
        pairs = [reader.items(o, "output", 2) for o in reader.items(reader.field(entry, "outputs"), "outputs")]
        return [(self.shape(s), data_dtype(reader.string(d, "type"))) for s, d in pairs]

    def view(self, entry: dict[str, Any], operands: list[Tensor]) -> View:
        reader = self.reader
        if len(operands) != 1:
            reader.fail(f"a view of {len(operands)} tensors")
        fill = reader.field(entry, "fill")
        return View(
            operands[0],
            self.shape(reader.field(entry, "shape")),
            [self.terms.term(g, "gather") for g in reader.items(reader.field(entry, "gather"), "gather")],
            t.as_bool(self.terms.term(reader.field(entry, "valid"), "valid")),
            None if fill is None else self.terms.term(fill, "fill"),
            self.tag(reader.field(entry, "tag")),
        )

    def opaque(self, entry: dict[str, Any], operands: list[Tensor], number: int) -> Opaque:
        reader = self.reader
        op = reader.string(reader.field(entry, "op"), "op")
        attrs = reader.mapping(reader.field(entry, "attrs"), "attributes")
        values = {key: self.value(v, 0) for key, v in attrs.items()}
        definition = None
        types = self.types(entry)
        if reader.boolean(reader.field(entry, "defined"), "defined"):
            spec = operator_node(op, operands, values)
            definition = spec.definition
            if [d for _, d in spec.outputs] != [d for _, d in types] or len(spec.outputs) != len(types):
                reader.fail(f"operator {op} does not give the outputs that are declared")
        return Opaque(
            op,
            operands,
            types,
            values,
            self.signature(reader.field(entry, "signature")),
            self.functions.get(number),
            definition,
            reader.boolean(reader.field(entry, "pure"), "pure"),
        )

    def signature(self, data: Any) -> Signature | None:
        if data is None:
            return None
        reader = self.reader
        fields = reader.mapping(data, "signature")

        def labels_of(dims: Any) -> Dims:
            axes = [reader.items(d, "axis") for d in reader.items(dims, "axes")]
            return tuple(tuple(reader.string(x, "label") for x in d) for d in axes)

        def groups(key: str) -> tuple[Dims, ...]:
            return tuple(labels_of(dims) for dims in reader.items(reader.field(fields, key), key))

        roles = reader.mapping(reader.field(fields, "roles"), "roles")
        labels = {label: reader.string(role, "role") for label, role in roles.items()}
        return Signature(groups("operands"), groups("outputs"), labels)

    def tag(self, data: Any) -> Tag | None:
        if data is None:
            return None
        reader = self.reader
        name, attrs = reader.items(data, "tag", 2)
        pairs = [reader.items(pair, "attribute", 2) for pair in reader.items(attrs, "attributes")]
        return Tag(reader.string(name, "tag"), tuple((reader.string(k, "key"), self.value(v, 0)) for k, v in pairs))

    def value(self, data: Any, depth: int) -> Any:
        reader = self.reader
        if depth > MAX_NESTING:
            reader.fail("an attribute is nested too deeply")
        if isinstance(data, list):
            return [self.value(v, depth + 1) for v in cast("list[Any]", data)]
        if not isinstance(data, dict):
            return data
        fields = cast("dict[str, Any]", data)
        if len(fields) != 1:
            reader.fail("an attribute names no single kind")
        kind, content = next(iter(fields.items()))
        if kind == "float":
            if content not in ("nan", "inf", "-inf"):
                reader.fail(f"float {content!r}")
            return float(content)
        if kind == "bytes":
            return decode_base64(reader, content, "bytes")
        if kind in ("array", "scalar"):
            array = self.array(content)
            return array if kind == "array" else array[()]
        if kind == "term":
            return self.terms.term(content)
        if kind == "tuple":
            return tuple(self.value(v, depth + 1) for v in reader.items(content, "tuple"))
        if kind == "dict":
            pairs = [reader.items(pair, "entry", 2) for pair in reader.items(content, "dict")]
            return {self.key(self.value(k, depth + 1)): self.value(v, depth + 1) for k, v in pairs}
        reader.fail(f"unknown kind of attribute {kind!r}")

    def key(self, value: Any) -> Any:
        if not isinstance(value, (str, int, float, bytes)):
            self.reader.fail("a dict has a key that is neither text nor number")
        return value

    def array(self, content: Any) -> NDArray:
        reader = self.reader
        dtype, shape, data = reader.items(content, "array", 3)
        name, extents = data_dtype(reader.string(dtype, "type")), reader.integers(shape, "shape", 0)
        raw = decode_base64(reader, data, "array")
        if len(raw) != size(extents) * itemsize(name):
            reader.fail(f"an array of shape {tuple(extents)} and type {name} has {len(raw)} bytes")
        if len(extents) > 32 or max(extents, default=0) >= MAX_EXTENT:
            reader.fail(f"an array of shape {tuple(extents)}")
        return np.frombuffer(raw, np.dtype(name).newbyteorder("<")).astype(name).reshape(extents)


def program_from_json(text: str | bytes, functions: Mapping[int, Callable[..., Any]] | None = None) -> Program:
    """The program of a JSON text; `functions` gives back the `impl` of opaque operators by the number of their node.

    Holes keep their numbers, and new holes get others. Raises ParseError for anything that `program_to_json` would not
    write; nothing is executed.
    """
    reader = JsonReader("program")
    fields = reader.header(reader.parse(text), "program")
    found = _Reader(fields, reader, functions or {})
    inputs = [found.tensor(x) for x in reader.items(reader.field(fields, "inputs"), "inputs")]
    outputs: dict[str, Tensor] = {}
    for entry in reader.items(reader.field(fields, "outputs"), "outputs"):
        name, *place = reader.items(entry, "output", 3)
        if reader.string(name, "output name") in outputs:
            reader.fail(f"two outputs are named {name!r}")
        outputs[name] = found.tensor(place)
    name = reader.string(reader.field(fields, "name"), "name")
    try:
        return Program(inputs, outputs, name)
    except EqsatError as error:
        raise ParseError("JSON of program", str(error)) from error
