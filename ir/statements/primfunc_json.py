"""Functions as JSON and back: the terms once each, as `term_json` writes them, statements as nested lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.json_data import JsonReader, write_json
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.term_json import TermReader, TermWriter
from eqsat.ir.statements.decl import BufferDecl, Transform
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, For, If, Seq, Stmt, Store
from eqsat.ir.terms import term as t
from eqsat.ir.terms.shape import Dim

_KINDS = ("serial", "parallel", "vectorized", "unrolled")


class _Writer:
    def __init__(self) -> None:
        self.terms = TermWriter()

    def dims(self, dims: Sequence[Dim]) -> list[int]:
        return [self.terms.add(t.as_index(d)) for d in dims]

    def decl(self, decl: BufferDecl) -> dict[str, Any]:
        fields: dict[str, Any] = {"name": decl.name, "shape": self.dims(decl.shape), "dtype": decl.dtype}
        if decl.note:
            fields["note"] = decl.note
        if decl.strides is not None:
            fields["strides"] = self.dims(decl.strides)
        if not isinstance(decl.elem_offset, int) or decl.elem_offset:
            fields["elem_offset"] = self.dims([decl.elem_offset])[0]
        if decl.axis_separators:
            fields["axis_separators"] = list(decl.axis_separators)
        if decl.transforms:
            fields["transforms"] = [self.transform(s) for s in decl.transforms]
        return fields

    def transform(self, step: Transform) -> dict[str, Any]:
        return {
            "index_map": step.index_map.to_json(),
            "logical_shape": self.dims(step.logical_shape),
            "predicate": self.terms.add(step.predicate),
            "pad_value": None if step.pad_value is None else self.terms.add(step.pad_value),
        }

    def stmt(self, stmt: Stmt) -> list[Any]:
        add = self.terms.add
        if isinstance(stmt, For):
            return ["for", add(stmt.axis), stmt.kind, stmt.reduce, self.stmt(stmt.body)]
        if isinstance(stmt, If):
            orelse = None if stmt.orelse is None else self.stmt(stmt.orelse)
            return ["if", add(stmt.condition), self.stmt(stmt.then), orelse]
        if isinstance(stmt, Store):
            return ["store", stmt.buffer, [add(i) for i in stmt.index], add(stmt.value)]
        if isinstance(stmt, Alloc):
            return ["alloc", self.decl(stmt.buffer), self.stmt(stmt.body)]
        if isinstance(stmt, Alias):
            return ["alias", self.decl(stmt.buffer), stmt.data, stmt.offset, self.stmt(stmt.body)]
        if isinstance(stmt, Assume):
            return ["assume", add(stmt.condition)]
        return ["seq", [self.stmt(p) for p in stmt.parts]]


def function_to_json(name: str, decls: Sequence[BufferDecl], body: Stmt, note: str) -> str:
    """See `PrimFunc.to_json`."""
    writer = _Writer()
    params = [writer.decl(d) for d in decls]
    statements = writer.stmt(body)
    fields: dict[str, Any] = {"eqsat": "primfunc", "version": 1, "name": name, "terms": writer.terms.data()}
    if note:
        fields["note"] = note
    return write_json(fields | {"params": params, "body": statements})


class _Reader:
    def __init__(self, reader: JsonReader, terms: TermReader) -> None:
        self.reader, self.terms = reader, terms

    def dims(self, data: Any, where: str) -> tuple[Dim, ...]:
        terms = [t.as_index(self.terms.term(n, where)) for n in self.reader.items(data, where)]
        return tuple(term if (n := t.int_value(term)) is None else n for term in terms)

    def decl(self, data: Any) -> BufferDecl:
        reader = self.reader
        fields = reader.mapping(data, "buffer")
        strides, offset = fields.get("strides"), fields.get("elem_offset")
        steps = [self.transform(s) for s in reader.items(fields.get("transforms", []), "transforms")]
        return BufferDecl(
            reader.string(reader.field(fields, "name"), "buffer name"),
            self.dims(reader.field(fields, "shape"), "shape"),
            reader.string(reader.field(fields, "dtype"), "buffer type"),
            reader.string(fields.get("note", ""), "note"),
            None if strides is None else self.dims(strides, "strides"),
            0 if offset is None else self.dims([offset], "elem_offset")[0],
            tuple(reader.integers(fields.get("axis_separators", []), "axis separators")),
            tuple(steps),
        )

    def transform(self, data: Any) -> Transform:
        reader = self.reader
        fields = reader.mapping(data, "transform")
        value = reader.field(fields, "pad_value")
        return Transform(
            IndexMap.from_json(reader.string(reader.field(fields, "index_map"), "index map")),
            self.dims(reader.field(fields, "logical_shape"), "logical shape"),
            t.as_bool(self.terms.term(reader.field(fields, "predicate"), "predicate")),
            None if value is None else self.terms.term(value, "pad value"),
        )

    def stmt(self, data: Any) -> Stmt:
        reader, term = self.reader, self.terms.term
        op, *parts = reader.items(data, "statement") or [""]
        if op == "for":
            axis, kind, reduce, body = reader.items(parts, "for", 4)
            if kind not in _KINDS:
                reader.fail(f"loop kind {kind!r}")
            flag = reader.boolean(reduce, "reduce")
            return For(self.axis(axis), self.stmt(body), kind, flag)
        if op == "if":
            condition, then, orelse = reader.items(parts, "if", 3)
            last = None if orelse is None else self.stmt(orelse)
            return If(term(condition, "condition"), self.stmt(then), last)
        if op == "store":
            buffer, index, value = reader.items(parts, "store", 3)
            at = tuple(term(i, "index") for i in reader.items(index, "index"))
            return Store(reader.string(buffer, "buffer"), at, term(value, "value"))
        if op == "alloc":
            decl, body = reader.items(parts, "alloc", 2)
            return Alloc(self.decl(decl), self.stmt(body))
        if op == "alias":
            decl, of, offset, body = reader.items(parts, "alias", 4)
            start = reader.integer(offset, "offset", 0)
            return Alias(self.decl(decl), reader.string(of, "aliased buffer"), self.stmt(body), start)
        if op == "assume":
            return Assume(term(reader.items(parts, "assume", 1)[0], "condition"))
        if op != "seq":
            reader.fail(f"unknown statement {op!r}")
        return Seq(tuple(self.stmt(p) for p in reader.items(reader.items(parts, "seq", 1)[0], "statements")))

    def axis(self, number: Any) -> t.Term:
        axis = self.terms.term(number, "axis")
        if axis.op not in ("axis", "var") or not axis.args:
            self.reader.fail(f"{axis} is no axis")
        return axis


def function_from_json(text: str) -> tuple[str, tuple[str, ...], dict[str, BufferDecl], Stmt, str]:
    """The name, parameters, declarations, body and note of a function; see `PrimFunc.from_json`."""
    reader = JsonReader("function")
    fields = reader.header(reader.parse(text), "primfunc")
    inner = _Reader(reader, TermReader(reader.field(fields, "terms"), reader))
    name, note = reader.string(reader.field(fields, "name"), "name"), reader.string(fields.get("note", ""), "note")
    try:
        decls = [inner.decl(d) for d in reader.items(reader.field(fields, "params"), "parameters")]
        body = inner.stmt(reader.field(fields, "body"))
    except ParseError:
        raise
    except EqsatError as error:
        raise ParseError("JSON of function", str(error)) from error
    except RecursionError as error:
        raise ParseError("JSON of function", "nested too deeply") from error
    return name, tuple(d.name for d in decls), {d.name: d for d in decls}, body, note
