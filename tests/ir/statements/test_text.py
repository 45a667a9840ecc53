"""Functions as text and JSON, both ways, and the builder that writes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from random_primfuncs import random_case
from seeds import some_of

import eqsat as eq
from eqsat.ir.errors import EqsatError, ParseError
from eqsat.ir.statements.builder import Builder, Cells
from eqsat.ir.statements.primfunc import PrimFunc
from eqsat.ir.statements.stmt import Alias, Alloc, Assume, BufferDecl, For, If, Seq, Store, seq
from eqsat.ir.terms import term as t
from eqsat.ir.terms.holes import new_hole
from eqsat.ir.terms.term import load


def both_ways(func: PrimFunc) -> str:
    text = str(func)
    named = {text.split("symbol ")[n + 1].split()[0]: s for n, s in enumerate(func.symbols)}
    again = PrimFunc.parse(text, named)
    assert again == func and str(again) == text, text
    assert str(PrimFunc.parse(text)) == text
    assert PrimFunc.from_json(func.to_json()) == func
    return text


@pytest.mark.parametrize("seed", some_of(range(60), 25))
def test_random_functions_are_read_as_they_were_written(seed: int) -> None:
    both_ways(random_case(seed).func)


@pytest.mark.slow
def test_many_random_functions_are_read_as_they_were_written() -> None:
    for seed in range(60, 1500):
        both_ways(random_case(seed).func)


def test_everything_that_a_function_may_have_is_in_its_text() -> None:  # feature: D11
    n, m = eq.symbol("N", lower=0, upper=64, multiple_of=4), eq.symbol("N")
    f = eq.primfunc("f")
    x = f.param("x", (n, 4), "float32", strides=(8, 1), elem_offset=n + 2)
    y = f.param("y", (m, 3, 2), "int8", axis_separators=(1, 2))
    padded = eq.Buffer("b", (14,), "float32").transform_layout("i -> i//4, i%4", padded_value)
    b = f.param_of(padded.transform_layout("i, j -> i, j//8, j%8", pad_value=eq.UNDEF))
    c = f.param_of(eq.Buffer("c", (14,), "int32").transform_layout("i -> i//4, i%4"))
    with f.loop("i", n, "parallel") as i, f.loop("k", 4, "unrolled", reduce=True) as k:
        f.assume(x[i, k] < 3)
        local = f.alloc("local", (4,), "float32", note="registers")
        half = f.alias("half", local, (2,), "int32", offset=1)
        with f.when(eq.logical_and(i < 2, half[1] <= 0)):
            local[0:4] = x[i, 0:4] + x[i, 3 - k]
            with f.loop("v", 3, "vectorized") as v:
                b[0, 0, v] = eq.UNDEF
        with f.otherwise():
            y[0, 2, 1] = c[3, 1].same(c[3, 1]) and 1
    text = both_ways(f.build())
    assert "func f(x: float32[N, 4] strides [8, 1] offset [N + 2], y: int8[N_1, 3, 2] separators [1, 2]" in text
    assert "  symbol N lower 0 upper 64 multiple 4\n  symbol N_1\n" in text
    assert '  layout b [14] by "i -> i // 4, i % 4" padding ' in text and 'value "hole(' in text
    assert '  layout c [14] by "i -> i // 4, i % 4" padding "14 <= 4*i0 + i1"\n' in text
    assert "  parallel for i in N:\n    unrolled reduce for k in 4:\n      assume x[i, k] < float32(3.0)\n" in text
    assert '      alloc local: float32[4] note "registers"\n      alias half: int32[2] = local + 1\n' in text
    assert "        local[ramp(0, 1, 4)] = x[i, 3 - k] + x[i, ramp(0, 1, 4)]" in text or "x[i, ramp(0, 1, 4)] +" in text


def padded_value(io: t.Term, ii: t.Term) -> t.Term:
    return t.cast_to(io + ii, "float32")


P, Q = t.ax(0, 4), t.ax(0, 3)
X = BufferDecl("x", (4,), "int32")


def squared(term: t.Term, times: int) -> t.Term:
    return term if not times else squared(term * term + 1, times - 1)


DEEP = squared(load("x", [P], "int32"), 6)
BODIES = {
    "loops of one number": For(P, For(Q, Store("x", (P,), t.cast_to(Q, "int32")))),
    "a variable that is called as an axis": For(t.var("i0", 4), For(P, Store("x", (t.var("i0", 4),), DEEP))),
    "shared subterms": For(P, For(t.var("t0", 2), seq([Assume(DEEP < 5), If(DEEP < 3, Store("x", (P,), DEEP + 1))]))),
    "locals one after the other": Seq((
        Alloc(BufferDecl("a", (1,), "int8"), seq([])), Alloc(BufferDecl("a", (2,), "int8"), seq([])),
        Store("x", (t.index_const(0),), t.const(-1, "int32")), Alias(BufferDecl("a", (16,), "int8"), "x", seq([])),
    )),
    "a local in a branch": If(load("x", [t.index_const(0)], "int32") < 0, Alloc(BufferDecl("a", (), "bool"), Store(
        "a", (), t.FALSE)), seq([])),
    "vectors": Alias(BufferDecl("v", (2,), "int32x2"), "x", Store("v", (t.index_const(0),), t.make(
        "load", (t.index_const(1),), "v", "int32", 2) + 1)),
    "holes": seq([Store("x", (t.index_const(1),), new_hole("int32", ()))]),
    "nothing": seq([]),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_odd_functions_are_read_as_they_were_written(name: str) -> None:
    both_ways(PrimFunc("f", ("x",), {"x": X}, BODIES[name]))


WRONG = {
    "func f(x: int8[4])\n  y[0] = int8(1)": "line 2 .* is no statement",
    "func f(x: int8[4])\n  x[0] = int8(1)\n    x[1] = int8(1)": "line 3 .* further",
    "func f(x: int8[4])\n  for i in 4:": "the end: expected an indented block below line 2",
    "func f(x: int8[4])\n  quick for i in 4:\n    pass": "a loop is parallel",
    "func f(x: int8(4))": "declares no buffer",
    "def f(x)": "expected func name",
    "func f(x: int8[4])\n  x[0] = __import__('os')": "not a known function",
    "func f(x: int8[4])\n  if x[0]:\n    pass": "not bool",
    "func f(x: int8[4])\n  let t0 = 1": "expected the statement",
    "func f(x: int8[4])\n  pass\nx": "stands behind the function",
    "func f(x: int8[4])\n\tpass": "line 2 .*: is indented by a tab",
    'func f(x: int8[4])\n  layout y [4] by "i -> i"': "is no statement",
    'func f(x: int8[4])\n  layout x [4] "i -> i"': "expected: layout x",
    "func f(x: int8[4])\n  alloc a: int8[2] = x": "write alloc",
    "func f(x: int8[4])\n  symbol 3": "expected: symbol",
    "func f(x: int8[n])\n  x[0] = int8(1)": "line 1 .*: n is no size; below the head, `symbol n`",
    "func f(x: int8[4])\n  x[i] = int8(1)": "used outside of its loop",
    "func f(x: int8[4])\n  x[0, 1] = int8(1)": "1 axes, the access has 2",
    "func f(x: int8[4], x: float32[9])\n  x[8] = float32(1)": "line 1 .*: parameter x is declared twice",
    "func f(x: int8[N])\n  symbol N\n  symbol N upper 3\n  x[0] = int8(1)": "line 3 .*: symbol N is declared twice",
    "func f(x: int8[4])\n  alloc a: int8[2]\n  alias a: int8[4] = x\n  a[0] = int8(1)": "'a' is declared twice",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_text_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(EqsatError, match=WRONG[text]):
        PrimFunc.parse(text)


def test_a_refusal_says_once_where_it_is() -> None:
    for line in ("assume x[0] +", "if i j:\n    pass", "for i in 4 +:\n    pass"):
        with pytest.raises(ParseError) as caught:
            PrimFunc.parse(f"func f(x: int8[4])\n  {line}")
        assert str(caught.value).count("text of a function") == 1


def test_remarks_end_lines() -> None:
    text = r"""func f(x: int8[4] note "a # b \" # c")  # of "x
  # a line of its own
  for i in 4:# each
    x[i] = int8(1)  # "one" # again
  alloc y: int8[2] note "#"  # "
  y[0] = x[0]#"""
    plain = r"""func f(x: int8[4] note "a # b \" # c")
  for i in 4:
    x[i] = int8(1)
  alloc y: int8[2] note "#"
  y[0] = x[0]"""
    func = PrimFunc.parse(text)
    assert func == PrimFunc.parse(plain) and func.buffer_map["x"].note == 'a # b " # c'


def nest(loops: int) -> str:
    heads = [f"{'  ' * (n + 1)}for i{n}_ in 1:" for n in range(loops)]
    return "\n".join(["func f(x: int8[1])", *heads, f"{'  ' * (loops + 1)}x[0] = int8(1)"])


def test_blocks_may_be_deep_but_not_endless() -> None:
    func = PrimFunc.parse(nest(128))
    assert PrimFunc.parse(str(func)) == func
    for loops in (129, 250, 3000):
        with pytest.raises(ParseError, match=r"loop or branch number 129.*128 can be"):
            PrimFunc.parse(nest(loops))
    locals_ = "\n".join(f"  alloc a{n}: int8[1]" for n in range(3000))
    with pytest.raises(ParseError, match="nested too deeply"):
        PrimFunc.parse(f"func f(x: int8[1])\n{locals_}\n  x[0] = int8(1)")


@pytest.mark.parametrize("given", [None, 5, b"func f()", ["func f()"]])
def test_what_is_no_text_is_no_function(given: Any) -> None:
    with pytest.raises(ParseError, match="is no text"):
        PrimFunc.parse(given)
    with pytest.raises(ParseError):
        PrimFunc.from_json(given)
    with pytest.raises(ParseError, match="no text"):
        eq.IndexMap.parse(given)
    if given is not None:
        with pytest.raises(ParseError, match="are no dict"):
            PrimFunc.parse("func f(x: int8[4])\n  pass", given)


def test_wrong_json_is_refused() -> None:
    good = PrimFunc("f", ("x",), {"x": X}, For(P, Store("x", (P,), load("x", [P], "int32")))).to_json()
    changes = [
        ('"serial"', '"quick"'), ('"store"', '"stare"'), ('"name":"x","shape"', '"nome":"x"'), ("primfunc", "f"),
        ("false", "0"), ('["axis"', '["load"'), ('"int32"', '"int31"'), ('"body":', '"body":["seq",[3]],"b":'),
    ]  # fmt: skip
    for old, new in changes:
        assert old in good
        with pytest.raises(EqsatError):
            PrimFunc.from_json(good.replace(old, new))
    with pytest.raises(ParseError):
        PrimFunc.from_json("[]")


def test_the_builder_says_what_is_wrong() -> None:
    f = eq.primfunc("f")
    x = f.param("x", (4,), "int32")
    with pytest.raises(EqsatError, match="declared already"):
        f.param("x", (4,), "int32")
    with pytest.raises(EqsatError, match="no `when`"), f.otherwise():
        pass
    with pytest.raises(EqsatError, match="number of lanes"):
        x[1:]
    with f.loop("i", 4), pytest.raises(EqsatError, match="a block is open"):
        f.build()


ODD: list[Any] = [1.5, 2.0, "2", [2], b"2", None]
Write = Callable[[Builder, Cells], object]


def built(write: Write) -> PrimFunc:
    """A function over x: int32[4, 4] and what is written into it."""
    f = eq.primfunc("f")
    write(f, f.param("x", (4, 4), "int32"))
    return f.build()


def zeros(f: Builder, x: Cells, **given: Any) -> None:
    arguments: dict[str, Any] = {"name": "i", "extent": 4, **given}
    with f.loop(**arguments) as i:
        x[i, 0] = 0


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_the_builder_takes_numbers_and_names_only(odd: Any) -> None:
    cases: list[tuple[bool, Write]] = [
        (True, lambda f, x: f.param("y", (2, 2, 2), "int8", axis_separators=[odd])),
        (True, lambda f, x: f.param("y", (2,), "int8", elem_offset=odd)),
        (True, lambda f, x: f.param("y", (odd,), "int8")),
        (True, lambda f, x: f.alias("y", x, (2,), "int32", odd)),
        (True, lambda f, x: f.alias("y", odd, (2,), "int32")),
        (True, lambda f, x: f.add(odd)),
        (True, lambda f, x: f.param_of(odd)),
        (True, lambda f, x: zeros(f, x, extent=odd)),
        (True, lambda f, x: zeros(f, x, reduce=odd)),
        (True, lambda f, x: zeros(f, x, kind=odd)),
        (True, lambda f, x: x.__setitem__((0, odd), 1)),
        (True, lambda f, x: x.__setitem__((0, t.ramp(0, 1, odd)), x[0, 0:2])),
        (True, lambda f, x: f.param("y", (2,), odd)),
        (True, lambda f, x: f.param("y", (2,), "int8", strides=[odd])),
        (not isinstance(odd, str), lambda f, x: eq.primfunc(odd)),
        (not isinstance(odd, str), lambda f, x: PrimFunc(odd, (), {}, seq([]))),
        (True, lambda f, x: f.param(odd, (2,), "int8")),
        (True, lambda f, x: f.alloc(odd, (2,), "int8")),
        (True, lambda f, x: zeros(f, x, name=odd)),
        (True, lambda f, x: PrimFunc("f", (), {}, odd)),
    ]
    for wrong, write in cases:
        if wrong:
            with pytest.raises(EqsatError):
                built(write)


def test_numbers_of_numpy_are_numbers() -> None:
    two: Any = np.int64(2)

    def write(f: Builder, x: Cells) -> None:
        f.param("y", (two, 2, two), "int8", axis_separators=[two])
        z = f.alias("z", x, (two, two), "int32", two)
        zeros(f, z, extent=two, reduce=np.bool_(True))

    func = built(write)
    assert PrimFunc.from_json(func.to_json()) == func
    assert "reduce for i in 2" in both_ways(func) and "separators [2]" in str(func) and "x + 2" in str(func)
    assert eq.IndexMap(("i",), (t.var("i") // 2, t.var("i") % 2), (two - 1,)).axis_separators == (1,)
    with pytest.raises(EqsatError, match=r"1.0 is not an integer"):
        eq.IndexMap(("i",), (t.var("i") // 2, t.var("i") % 2), (1.0,))  # pyright: ignore[reportArgumentType]


def test_bounds_of_symbols_are_whole_numbers() -> None:
    for given in ({"lower": 1.5}, {"upper": 2.5}, {"multiple_of": 2.5}, {"upper": "3"}, {"lower": True}):
        with pytest.raises(EqsatError, match="is not an integer"):
            eq.symbol("N", **given)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("store", ["x[i]=int8(1)", "x[i]  =  int8(1)", "x[ i ] =int8(1)"])
def test_blanks_around_a_store_do_not_matter(store: str) -> None:
    text = "func f(x: int8[4])\n  for i in 4:\n    {}"
    assert PrimFunc.parse(text.format(store)) == PrimFunc.parse(text.format("x[i] = int8(1)"))
    with pytest.raises(EqsatError, match="is no statement"):
        PrimFunc.parse(text.format("x[i] == int8(1)"))


NAMES = [
    "two words",
    "",
    "1f",
    "f\n",
    'q"uo\\te',
    "a#b",
    "f(x: int8[1])\n  pass",
    "a\u2028b\x85\r",
    "a = b:",
    "é",
    "if",
]


@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_a_function_and_any_note_can_be_read_again(name: str) -> None:
    """A program may have any name, and `eq.as_function` keeps it; neither may end a line or hide what follows."""
    f = eq.primfunc(name)
    a = f.param("a", (2,), "float32")
    t = f.alloc("t", (2,), "float32", note=name)
    t[0] = a[1]
    a[0] = t[0]
    func = f.build()
    again = PrimFunc.parse(str(func))
    assert again == func and again.name == name and len(str(func).splitlines()) == 4
    x = eq.input("x", (4,), "float32")
    turned = eq.as_function(eq.Program([x], {"y": x[::-1]}, name=name))
    assert PrimFunc.parse(str(turned)) == turned
