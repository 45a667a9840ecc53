"""Terms as JSON and back: a list of nodes in which shared subterms stand once, so that size is the size of the DAG.

Reading builds through the checked constructors, so that hostile text can make a ParseError or a well-formed term, but
nothing else.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from eqsat.ir.dtypes import BOOL, ELEMENTS, INDEX, from_bits, itemsize
from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.json_data import JsonReader, write_json
from eqsat.ir.layouts.buffer import Buffer, split_lanes
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import reserve_holes
from eqsat.ir.terms.tables import Table
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder


class TermWriter:
    """Collects terms into one node list; the numbers that `add` answers refer to it."""

    def __init__(self) -> None:
        self.nodes: list[list[Any]] = []
        self.tables: list[str] = []
        self.buffers: list[dict[str, Any]] = []
        self._numbers: dict[Term, int] = {}
        self._source_numbers: dict[str, int] = {}

    def add(self, term: Term) -> int:
        """The number of a term in the list, after its missing subterms were appended."""
        for node in postorder(term, done=self._numbers):
            entry: list[Any] = [node.op, node.dtype, [self._numbers[a] for a in node.args]]
            payload = self._source(node) if node.op == "load" else node.payload
            if payload is not None:
                entry.append(payload)
            self._numbers[node] = len(self.nodes)
            self.nodes.append(entry)
        return self._numbers[term]

    def _source(self, node: Term) -> Any:
        source = node.payload
        if isinstance(source, int):
            return source
        if isinstance(source, Table):
            if source.source_key not in self._source_numbers:
                self._source_numbers[source.source_key] = len(self.tables)
                self.tables.append(base64.b64encode(source.array.astype("<i8").tobytes()).decode())
            return {"table": self._source_numbers[source.source_key]}
        if isinstance(source, Buffer):
            return {"buffer": self.buffer(source)}
        if isinstance(source, str):
            return {"name": source, "lanes": node.lanes}
        raise EqsatError(
            f"JSON of {node}", f"loads from a {type(source).__name__}", "number its operands, or save the whole program"
        )

    def buffer(self, source: Buffer) -> int:
        """The number of a buffer in the list, after the terms that describe it were appended."""
        if source.source_key not in self._source_numbers:
            entry: dict[str, Any] = {
                "name": source.name,
                "shape": [self.add(t.as_index(d)) for d in source.shape],
                "dtype": source.dtype,
                "strides": None if source.strides is None else [self.add(s) for s in source.strides],
                "elem_offset": self.add(source.elem_offset),
                "axis_separators": list(source.axis_separators),
                "data": None if source.data is None else self.buffer(source.data),
            }
            self._source_numbers[source.source_key] = len(self.buffers)
            self.buffers.append(entry)
        return self._source_numbers[source.source_key]

    def data(self) -> dict[str, Any]:
        """The collected lists, for TermReader."""
        lists = {"nodes": self.nodes, "tables": self.tables, "buffers": self.buffers}
        return {key: entries for key, entries in lists.items() if entries or key == "nodes"}


class TermReader:
    """The terms of a node list, by number."""

    def __init__(self, data: Any, reader: JsonReader) -> None:
        self.reader = reader
        fields = reader.mapping(data, "terms")
        self.tables = [self._table(entry) for entry in reader.items(fields.get("tables", []), "tables")]
        self._buffer_data = reader.items(fields.get("buffers", []), "buffers")
        self._buffers: list[Buffer] = []
        self.terms: list[Term] = []
        for number, entry in enumerate(reader.items(reader.field(fields, "nodes"), "nodes")):
            try:
                self.terms.append(self._node(entry))
            except ParseError:
                raise
            except EqsatError as error:
                raise ParseError(f"JSON of {reader.what}, node {number}", str(error)) from error

    def term(self, number: Any, where: str = "term") -> Term:
        """The term with this number."""
        n = self.reader.integer(number, where, 0)
        if n >= len(self.terms):
            self.reader.fail(f"{where} refers to node {n}, which is not there yet")
        return self.terms[n]

    def _table(self, entry: Any) -> Table:
        raw = decode_base64(self.reader, entry, "table")
        if len(raw) % 8:
            self.reader.fail("a table is not a row of 64-bit integers")
        return Table(np.frombuffer(raw, "<i8"))

    def _node(self, entry: Any) -> Term:
        reader = self.reader
        fields = reader.items(entry, "node")
        if not 3 <= len(fields) <= 4:
            reader.fail(f"node has {len(fields)} items, expected 3 or 4")
        op, dtype = reader.string(fields[0], "operation"), reader.string(fields[1], "type")
        if dtype != INDEX and split_lanes(dtype)[0] not in ELEMENTS:
            reader.fail(f"unknown type {dtype!r}")
        args = [self.term(a, "argument") for a in reader.items(fields[2], "arguments")]
        payload = fields[3] if len(fields) == 4 else None
        maker = _MAKERS.get(op)
        if maker is None:
            reader.fail(f"unknown operation {op!r}")
        low, high, build = maker
        if not low <= len(args) <= high:
            reader.fail(f"{op} with {len(args)} arguments")
        term = build(self, args, payload, dtype)
        if term.dtype != dtype:
            reader.fail(f"{op} is of type {term.dtype}, not {dtype}")
        return term

    def const(self, args: Sequence[Term], payload: Any, dtype: str) -> Term:
        value = self.reader.integer(payload, "constant", None if dtype == INDEX else 0)
        if dtype == INDEX:
            return t.index_const(value)
        if value >= (2 if dtype == BOOL else 1 << (8 * itemsize(dtype))):
            self.reader.fail(f"constant {value} is no bit pattern of {dtype}")
        return t.const(from_bits(value, dtype), dtype)

    def axis(self, args: Sequence[Term], payload: Any, dtype: str) -> Term:
        role, number = self.reader.items(payload, "axis", 2)
        if role not in ("ax", "red"):
            self.reader.fail(f"axis role {role!r}")
        return (t.ax if role == "ax" else t.red)(self.reader.integer(number, "axis number", 0), args[0])

    def var(self, args: Sequence[Term], payload: Any, dtype: str) -> Term:
        name = self.reader.string(payload, "variable")
        if dtype != INDEX and not args:  # a quantified value of a rule
            return t.make("var", (), name, dtype)
        return t.var(name, args[0] if args else None)

    def sym(self, args: Sequence[Term], payload: Any, dtype: str) -> Term:
        reader = self.reader
        fields = reader.items(payload, "symbol")
        if len(fields) not in (4, 5):
            reader.fail(f"a symbol has {len(fields)} items, expected 4 or 5")
        name, lower, upper, multiple = fields[:4]
        # Texts without the identity hold every symbol once.
        key = reader.string(fields[4], "symbol key") if len(fields) == 5 else None
        low = None if lower is None else reader.integer(lower, "lower bound")
        high = None if upper is None else reader.integer(upper, "upper bound")
        return t.sym(reader.string(name, "symbol"), low, high, reader.integer(multiple, "multiple", 1), key)

    def hole(self, args: Sequence[Term], payload: Any, dtype: str) -> Term:
        number = self.reader.integer(payload, "hole", 0)
        term = t.hole(number, dtype, args)
        reserve_holes(number)
        return term

    def load(self, args: Sequence[Term], payload: Any, dtype: str) -> Term:
        reader = self.reader
        if not isinstance(payload, dict):
            return t.load(reader.integer(payload, "operand", 0), args, dtype)
        source = reader.mapping(cast(Any, payload), "source")
        if "buffer" in source:
            return self.buffer(source["buffer"])[tuple(args)]
        if "name" in source:  # of a buffer that a function declares, which checks the access
            lanes = reader.integer(reader.field(source, "lanes"), "lanes", 1)
            index = [t.as_index(a) for a in args]
            return t.make("load", index, reader.string(source["name"], "buffer name"), dtype, lanes)
        number = reader.integer(reader.field(source, "table"), "table", 0)
        if number >= len(self.tables):
            reader.fail(f"there is no table {number}")
        if len(args) != 1 or dtype != INDEX:
            reader.fail(f"a table is loaded as {dtype} at {len(args)} indices")
        return t.load(self.tables[number], args, dtype)

    def buffer(self, data: Any) -> Buffer:
        """The buffer with this number; buffers are built in order, as soon as the terms they need are there."""
        reader = self.reader
        number = reader.integer(data, "buffer", 0)
        if number >= len(self._buffer_data):
            reader.fail(f"there is no buffer {number}")
        while len(self._buffers) <= number:
            entry = reader.mapping(self._buffer_data[len(self._buffers)], "buffer")
            strides, base = reader.field(entry, "strides"), reader.field(entry, "data")
            known = len(self._buffers)
            if base is not None and reader.integer(base, "aliased buffer", 0) >= known:
                reader.fail(f"buffer {known} aliases buffer {base}, which is not there yet")
            shape = [self.term(d, "extent") for d in reader.items(reader.field(entry, "shape"), "shape")]
            made = Buffer(
                reader.string(reader.field(entry, "name"), "buffer name"),
                shape,
                reader.string(reader.field(entry, "dtype"), "buffer type"),
                None if strides is None else [self.term(s, "stride") for s in reader.items(strides, "strides")],
                self.term(reader.field(entry, "elem_offset"), "offset"),
                reader.integers(reader.field(entry, "axis_separators"), "axis separators"),
                None if base is None else self._buffers[reader.integer(base, "aliased buffer")],
            )
            self._buffers.append(made)
        return self._buffers[number]

    def ramp(self, args: Sequence[Term], payload: Any, dtype: str) -> Term:
        return t.ramp(args[0], args[1], self.reader.integer(payload, "lanes", 1))

    def broadcast(self, args: Sequence[Term], payload: Any, dtype: str) -> Term:
        return t.broadcast(args[0], self.reader.integer(payload, "lanes", 1))

    def sum(self, args: Sequence[Term], payload: Any, dtype: str) -> Term:
        constant, coefficients = self.reader.items(payload, "sum", 2)
        factors = self.reader.integers(coefficients, "coefficients")
        if len(factors) != len(args):
            self.reader.fail(f"a sum of {len(args)} terms has {len(factors)} coefficients")
        terms = [t.as_index(a) for a in args]
        return t.linear(self.reader.integer(constant, "constant"), zip(factors, terms, strict=True))


_Build = Callable[[TermReader, Sequence[Term], Any, str], Term]
_MANY = 1 << 62


def _makers() -> dict[str, tuple[int, int, _Build]]:
    """Per operation: how many arguments it may have, and what builds it."""

    def binary(op: str) -> _Build:
        return lambda reader, args, payload, dtype: t.binary(op, args[0], args[1])

    def unary(op: str) -> _Build:
        return lambda reader, args, payload, dtype: t.unary(op, args[0])

    def compare(op: str) -> _Build:
        return lambda reader, args, payload, dtype: t.compare(op, args[0], args[1])

    def junction(op: str) -> _Build:
        return lambda reader, args, payload, dtype: t.junction(op, [t.as_bool(a) for a in args])

    table: dict[str, tuple[int, int, _Build]] = {
        "const": (0, 0, TermReader.const),
        "axis": (1, 1, TermReader.axis),
        "var": (0, 1, TermReader.var),
        "sym": (0, 0, TermReader.sym),
        "hole": (0, _MANY, TermReader.hole),
        "load": (0, _MANY, TermReader.load),
        "ramp": (2, 2, TermReader.ramp),
        "broadcast": (1, 1, TermReader.broadcast),
        "sum": (1, _MANY, TermReader.sum),
        "prod": (2, _MANY, lambda r, a, p, d: t.product([t.as_index(x) for x in a])),
        "add": (2, 2, lambda r, a, p, d: t.add(a[0], a[1])),
        "sub": (2, 2, lambda r, a, p, d: t.sub(a[0], a[1])),
        "mul": (2, 2, lambda r, a, p, d: t.mul(a[0], a[1])),
        "not": (1, 1, lambda r, a, p, d: t.logical_not(a[0])),
        "where": (3, 3, lambda r, a, p, d: t.where(a[0], a[1], a[2])),
        "given": (2, 2, lambda r, a, p, d: t.given(a[0], a[1])),
        "cast": (1, 1, lambda r, a, p, d: t.cast_to(a[0], d)),
    }
    for op in dict.fromkeys((*t.INDEX_BINARY, *t.DATA_BINARY)):
        table.setdefault(op, (2, 2, binary(op)))
    for op in ("neg", "abs", "bitnot", *t.FLOAT_UNARY, *t.FLOAT_TEST):
        table[op] = (1, 1, unary(op))
    for op in t.COMPARE:
        table[op] = (2, 2, compare(op))
    for op in ("and", "or"):
        table[op] = (2, _MANY, junction(op))
    return table


_MAKERS = _makers()


def decode_base64(reader: JsonReader, data: Any, where: str) -> bytes:
    """The bytes of a base64 string."""
    try:
        return base64.b64decode(reader.string(data, where), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ParseError(f"JSON of {reader.what}", f"{where} is not base64: {error}") from error


def term_to_json(term: Term) -> str:
    """A term as JSON text; shared subterms are listed once.

    >>> from eqsat.ir.terms.term import var
    >>> print(term_to_json(var("i") // 4))
    {"eqsat":"term","version":1,"terms":{"nodes":[["var","index",[],"i"],["const","index",[],4],["floordiv","index",[0,1]]]},"root":2}

    Raises EqsatError where the term loads from a tensor: save the program instead. Buffers are written with the terms.
    """
    writer = TermWriter()
    root = writer.add(term)
    return write_json({"eqsat": "term", "version": 1, "terms": writer.data(), "root": root})


def term_from_json(text: str) -> Term:
    """The term of a JSON text; the same object as the one written, when it still lives here.

    >>> from eqsat.ir.terms.term import var
    >>> term_from_json(term_to_json(var("i") // 4)).same(var("i") // 4)
    True

    Raises ParseError for anything that `term_to_json` would not write.
    """
    reader = JsonReader("term")
    fields = reader.header(reader.parse(text), "term")
    return TermReader(reader.field(fields, "terms"), reader).term(reader.field(fields, "root"), "root")
