"""Terms and programs as JSON, as pickles and in other processes; hostile JSON is refused, never run."""

import json
import pickle
import subprocess
import sys
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from term_strategies import LEAVES, TABLE, terms

import eqsat as eq
from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.layouts.buffer import Buffer
from eqsat.ir.layouts.term_json import term_from_json, term_to_json
from eqsat.ir.tensors.library import operator
from eqsat.ir.tensors.program_json import program_from_json, program_to_json
from eqsat.ir.tensors.tensor import Compute, Input, Node, Opaque, Program, View
from eqsat.ir.tensors.views import view
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.ir.terms.tables import table_load
from eqsat.ir.terms.term import Term


@given(terms(steps=16))
def test_terms_survive(term: Term) -> None:
    assert term_from_json(term_to_json(term)) is term
    assert pickle.loads(pickle.dumps(term)) is term


def test_shared_subterms_are_written_once() -> None:
    term = t.var("i")
    for _ in range(300):
        term = term * term + 1
    assert len(term_to_json(term)) < 50_000
    assert term_from_json(term_to_json(term)) is term


def test_buffers_are_written_with_the_term() -> None:
    n = t.sym("N")
    base = Buffer("base", (4, n), "float32")
    alias = Buffer("alias", (n,), "float32", elem_offset=3, data=base)
    term = base[t.var("i"), 0] + alias[t.var("j")] * base[t.var("i"), 1]
    read = term_from_json(term_to_json(term))
    assert str(read) == str(term)
    loads = {node.payload.name: node.payload for node in read.args[1].args}
    assert loads["alias"].data is loads["base"] is read.args[0].payload
    assert (loads["base"].shape, loads["alias"].elem_offset) == ((4, n), t.index_const(3))


def test_a_load_of_a_tensor_needs_its_program() -> None:
    x = eq.input("x", (3,), "float32")
    with pytest.raises(EqsatError, match="save the whole program"):
        term_to_json(x[t.ax(0, 3)])
    for thing in (x, x.node):
        with pytest.raises(EqsatError, match=r"pickle an eq\.Program"):
            pickle.dumps(thing)


def test_read_holes_keep_their_number_and_new_ones_get_others() -> None:
    term = t.hole(10_000_000, "float32", [t.var("i")])
    assert term_from_json(term_to_json(term)) is term
    assert new_hole("float32", [t.var("i")]).payload > 10_000_000


READ = """
import pickle, sys
import numpy as np
import eqsat as eq
term, program = pickle.load(sys.stdin.buffer)
value = eq.evaluate(program, {"x": np.arange(12).reshape(3, 4)})
print(str(term), len(program.nodes()), int(value.sum()))
"""


def test_another_process_reads_the_same() -> None:
    x = eq.input("x", (t.sym("N"), 4), "int64")
    program = Program([x], {"y": x.take([3, 0, 0], 1) + 1})
    term = table_load(TABLE.array, LEAVES[0]) * t.sym("M", 2, 64, 2) + LEAVES[1]
    sent = pickle.dumps((term, program))
    found = subprocess.run([sys.executable, "-c", READ], input=sent, capture_output=True, timeout=60, check=True)
    value = eq.evaluate(program, {"x": np.arange(12).reshape(3, 4)})
    assert found.stdout.decode().strip() == f"{term} {len(program.nodes())} {int(value.sum())}"


def rich_program() -> Program:
    """Every kind of node and of attribute."""
    n = eq.symbol("N")
    x, w, unused = eq.input("x", (n, 4, 6), "float32"), eq.input("w", (6, 5), "float32"), eq.input("u", (), "int8")
    padded = x.pad(((0, 0), (1, 2), (0, 0)), eq.UNDEF).roll(1, 2).take([5, 0, 5, 1, 2, 3], 2)
    y = eq.matmul(padded.crop((0, 1, 0), (n, 4, 6), cropped_value=-0.0), w)
    z = eq.where(y > 0.5, y, eq.constant(np.float32(np.nan))).softmax(2).clip(0, np.float32(0.5))
    signature = eq.Signature.parse("a b c -> a b c, a", map="a", equivariant="b")
    attrs = {
        "i": 3, "f": float("nan"), "s": "text", "b": b"\x00\xff", "a": np.arange(3, dtype="int16"), "t": (1, (2.5,)),
        "d": {"k": [None, True]}, "n": np.float32(1.5), "e": n + 1,
    }  # fmt: skip
    p, q = eq.opaque("Odd", [z], [(z.shape, "float32"), ((n,), "int64")], attrs, signature, pure=False)
    s = eq.compute((n,), lambda i, r: p[i, 0, r], reduce=(5,), ordered=True)  # pyright: ignore[reportUnknownLambdaType]
    flag = eq.constant(np.array([[True]]), name="flag")
    return Program([x, w, unused], {"s": s, "q": q, "again": s, "c": flag}, "rich")


def _places(node: Node, place: dict[int, int]) -> Any:
    """What a node reads and gives, with nodes by their place in the program; equal terms are one object."""
    operands = [(place[x.node.serial], x.index) for x in node.operands]
    return operands, [(tuple(map(t.as_index, shape)), dtype) for shape, dtype in node.outputs]


def _same_nodes(a: Program, b: Program) -> None:
    assert (a.name, list(a.outputs)) == (b.name, list(b.outputs))
    assert [x.name for x in a.inputs] == [x.name for x in b.inputs]
    first, second = a.all_nodes(), b.all_nodes()
    place = {m.serial: n for n, m in enumerate(first)} | {m.serial: n for n, m in enumerate(second)}
    for m, n in zip(first, second, strict=True):
        assert type(m) is type(n) and m.serial != n.serial
        assert _places(m, place) == _places(n, place)
        if isinstance(m, View) and isinstance(n, View):
            assert m.gather == n.gather and m.valid is n.valid and m.fill is n.fill and m.tag == n.tag
        if isinstance(m, Compute) and isinstance(n, Compute):
            assert m.body is n.body and m.combiner == n.combiner and m.ordered == n.ordered and m.tag == n.tag
        if isinstance(m, Input) and isinstance(n, Input):
            assert m.name == n.name
        if isinstance(m, Opaque) and isinstance(n, Opaque):
            assert (m.op, m.pure, m.signature, str(m.attrs)) == (n.op, n.pure, n.signature, str(n.attrs))
            assert (m.definition is None) == (n.definition is None)


def test_programs_survive() -> None:
    program = rich_program()
    read = program_from_json(program_to_json(program))
    _same_nodes(program, read)
    assert program_to_json(read) == program_to_json(program)
    _same_nodes(program, pickle.loads(pickle.dumps(program)))
    array = next(n for n in read.nodes() if isinstance(n, Opaque) and n.op == "Odd").attrs["a"]
    assert array.dtype == "int16" and array.tolist() == [0, 1, 2]


def test_operators_of_the_library_find_their_definition() -> None:
    x = eq.input("x", (2, 3), "float32")
    read = program_from_json(program_to_json(Program([x], {"y": x.softmax(1)})))
    a = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_array_equal(eq.evaluate(read, {"x": a}), eq.evaluate(x.softmax(1), {"x": a}))


@pytest.mark.parametrize("attrs", [{}, {"nope": 1}, {"axis": 5}, {"axis": "x"}, {"axis": None}, {"axis": 1, "b": 2}])
def test_wrong_attributes_of_an_operator(attrs: dict[str, Any]) -> None:
    x = eq.input("x", (2, 3), "float32")
    with pytest.raises(EqsatError):
        operator("softmax", [x], attrs)
    document = json.loads(program_to_json(Program([x], {"y": x.softmax(1)})))
    document["nodes"][1]["attrs"] = attrs
    with pytest.raises(ParseError):
        program_from_json(json.dumps(document))


def double(a: Any) -> Any:
    return a * 2


def test_functions_are_refused_or_left_out_but_pickled() -> None:
    x = eq.input("x", (2,), "float32")
    program = Program([x], {"y": eq.opaque("Double", [x], [((2,), "float32")], impl=double)[0]})
    with pytest.raises(EqsatError, match="drop_impl=True"):
        program_to_json(program)
    feed = {"x": np.array([1, 2], "float32")}
    with pytest.raises(EqsatError, match="impl"):
        eq.evaluate(program_from_json(program_to_json(program, drop_impl=True)), feed)
    assert eq.evaluate(pickle.loads(pickle.dumps(program)), feed).tolist() == [2, 4]


def test_what_json_cannot_say_is_refused() -> None:
    x = eq.input("x", (2,), "float32")
    with pytest.raises(EqsatError, match="attribute f of operator Odd"):
        program_to_json(Program([x], {"y": eq.opaque("Odd", [x], [((2,), "float32")], {"f": double})[0]}))


def test_deep_programs() -> None:
    x = y = eq.input("x", (4,), "float32")
    for n in range(5000):
        y = y.flip() if n % 2 else y + 1.0
    program = Program([x], {"y": y})
    read = pickle.loads(pickle.dumps(program))
    assert len(read.all_nodes()) == len(program.all_nodes()) > 7000
    assert len(str(program)) < 40_000


def _mutations(data: Any) -> list[Any]:
    """The document with one value at a time replaced by something else."""
    wrong: list[Any] = [None, -1, 10**30, True, "x", "const", [], [0], [[0, 0]], {}, {"eqsat": "term"}, 1.5, "AAAA"]
    found: list[Any] = []

    def visit(parent: Any, key: Any) -> None:
        child = parent[key]
        for value in wrong:
            parent[key] = value
            found.append(json.loads(json.dumps(data)))
        parent[key] = child
        if isinstance(child, dict):
            for inner in list(cast("dict[str, Any]", child)):
                visit(child, inner)
        elif isinstance(child, list):
            for place in range(min(6, len(cast("list[Any]", child)))):
                visit(child, place)

    for key in list(data):
        visit(data, key)
    return found


@given(terms(steps=8), st.data())
def test_damaged_terms_are_refused_or_well_formed(term: Term, data: st.DataObject) -> None:
    document = json.loads(term_to_json(term))
    for changed in data.draw(st.lists(st.sampled_from(_mutations(document)), max_size=20)):
        try:
            read = term_from_json(json.dumps(changed))
        except ParseError:
            continue
        assert term_from_json(term_to_json(read)) is read


def test_damaged_programs_are_refused_or_well_formed() -> None:
    document = json.loads(program_to_json(rich_program()))
    refused = 0
    for changed in _mutations(document)[::7]:
        try:
            read = program_from_json(json.dumps(changed))
        except ParseError:
            refused += 1
            continue
        program_to_json(read)
    assert refused > 200


REFUSED = [
    "", "null", "[]", "{", "3", '"x"', "{}", '{"eqsat":"term","version":2,"terms":{"nodes":[]},"root":0}',
    '{"eqsat":"term","version":1,"terms":{"nodes":[]},"root":0}', "[" * 100_000, '{"eqsat":' + "9" * 10_000 + "}",
    '{"eqsat":"term","version":1,"terms":{"nodes":[["axis","index",[0],["ax",0]]]},"root":0}',
    '{"eqsat":"term","version":1,"terms":{"nodes":[["load","index",[],{"buffer":0}]],"buffers":[{}]},"root":0}',
    '{"eqsat":"term","version":1,"terms":{"nodes":[["var","index",[],"__import__(1)"]]},"root":0}',
    '{"eqsat":"term","version":1,"terms":{"nodes":[["const","float32",[],4294967296]]},"root":0}',
    '{"eqsat":"term","version":1,"terms":{"nodes":[["const","bool",[],2]]},"root":0}',
]  # fmt: skip


@pytest.mark.parametrize("text", REFUSED, ids=[text[:30] for text in REFUSED])
def test_hostile_text_is_a_parse_error(text: str) -> None:
    for read in (term_from_json, program_from_json):
        with pytest.raises(ParseError):
            read(text)


def test_a_gather_by_data_is_refused() -> None:
    x = eq.input("x", (3,), "int64")
    with pytest.raises(EqsatError, match="decides where to read"):
        view(x, (3,), [t.cast_to(t.load(0, [t.ax(0, 3)], "int64"), "index")])
