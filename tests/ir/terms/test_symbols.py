"""Symbols are told apart by identity: in texts, files, processes, sizes and values."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eqsat as eq
from eqsat.ir.errors import EqsatError, EvaluationError, ParseError, ShapeError
from eqsat.ir.flat.map import FlatMap, identity
from eqsat.ir.flat.size_samples import sampled, symbol_sample
from eqsat.ir.flat.size_terms import as_extent, as_size
from eqsat.ir.flat.sizes import monomial
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.layouts.term_json import term_from_json, term_to_json
from eqsat.ir.tensors.bind import program_symbols
from eqsat.ir.tensors.program_json import program_from_json, program_to_json
from eqsat.ir.tensors.tensor import Opaque
from eqsat.ir.terms import term as t
from eqsat.ir.terms.bindings import bindings
from eqsat.ir.terms.exact import integers
from eqsat.ir.terms.parse import parse_expr
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import format_term, names_in, symbol_names

# `first` and `twin` differ in nothing but identity; `wide` has other bounds; `other` another name.
first, twin, wide, other = t.sym("N"), t.sym("N"), t.sym("N", lower=0), t.sym("M")
SYMBOLS = (first, twin, wide, other)
i = t.var("i")

TRIPS: dict[str, Callable[[Term], Term]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda x: pickle.loads(pickle.dumps(x)),
    "json": lambda x: term_from_json(term_to_json(x)),
}


@st.composite
def symbol_terms(draw: st.DrawFn) -> Term:
    """Index terms in which symbols of one name meet."""
    pool: list[Term] = [*SYMBOLS, i]
    for _ in range(draw(st.integers(1, 6))):
        a, b = draw(st.sampled_from(pool)), draw(st.sampled_from(pool))
        how = draw(st.sampled_from(["add", "sub", "mul", "div", "mod", "max"]))
        if how in ("div", "mod"):
            pool.append(
                t.binary("floordiv" if how == "div" else "mod", a, draw(st.sampled_from([*SYMBOLS, t.index_const(3)])))
            )
        elif how == "max":
            pool.append(t.binary("max", a, b))
        else:
            pool.append({"add": t.add, "sub": t.sub, "mul": t.mul}[how](a, b))
    return pool[-1]


@given(symbol_terms(), st.sampled_from(list(TRIPS)))
def test_terms_keep_their_symbols(term: Term, trip: str) -> None:
    assert TRIPS[trip](term) is term


@given(symbol_terms())
def test_text_is_unambiguous_and_reads_back(term: Term) -> None:
    names = names_in(term)
    assert len(set(names.values())) == len(names)
    assert parse_expr(format_term(term, None), {name: leaf for leaf, name in names.items()}) is term


@given(symbol_terms(), st.lists(st.integers(1, 9), min_size=5, max_size=5))
def test_values_go_by_shown_name_or_by_symbol(term: Term, numbers: list[int]) -> None:
    env = dict(zip((*SYMBOLS, i), numbers, strict=True))
    names = names_in(term)
    by_name = {name: env[leaf] for leaf, name in names.items()}
    assert term.evaluate(by_name) == term.evaluate(env)


@given(symbol_terms(), symbol_terms())
def test_sizes_are_equal_only_for_the_same_symbols(a: Term, b: Term) -> None:
    x, y = as_size(a), as_size(b)
    assert (x == y) == (t.as_index(as_extent(x)) is t.as_index(as_extent(y)))
    assert x != y or hash(x) == hash(y)
    assert pickle.loads(pickle.dumps(x)) == x


def test_every_call_makes_a_symbol() -> None:
    assert eq.symbol("N") is not eq.symbol("N")
    assert list(symbol_names([wide, twin, other, first]).values()) == ["N", "N_1", "N_2", "M"]
    assert str(first - twin) == "N - N_1" and str(twin) == "N"
    taken = t.sym("N_1")
    assert sorted(symbol_names([first, twin, taken]).values()) == ["N", "N_1", "N_2"]
    assert symbol_names([first, twin, taken])[taken] == "N_1"
    assert symbol_names([t.var("N"), first])[first] == "N_1", "a variable is its name"


def test_same_name_and_bounds_are_not_one_size() -> None:
    assert monomial(1, first) != monomial(1, twin) and identity(as_size(first)) != identity(as_size(twin))
    assert first.digest != twin.digest and first.order[0] == twin.order[0]
    a, b = (IndexMap.parse("i -> i//n, i%n", {"n": n}) for n in (first, twin))
    assert a != b and hash(a) != hash(b) and a == IndexMap.from_json(a.to_json())
    with pytest.raises(ShapeError, match=r"broadcast of \(N,\) and \(N_1,\).*one eq.symbol object for one size N"):
        _ = eq.input("x", (first,), "int8") + eq.input("y", (twin,), "int8")
    with pytest.raises(ShapeError, match=r"reshape of \(N, 4\) to \(N_1, 4\)"):
        eq.input("x", (first, 4), "int8").reshape((twin, 4))


def program() -> eq.Program:
    x, y = eq.input("x", (first, 4), "float32"), eq.input("y", (twin, 4), "float32")
    z = eq.input("z", (wide,), "float32")
    return eq.Program([x, y, z], {"a": eq.concat([x, y], 0).permute_dims((1, 0)), "b": (z * 2).pad(1)})


PROGRAM_TRIPS: dict[str, Callable[[eq.Program], eq.Program]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda p: pickle.loads(pickle.dumps(p)),
    "json": lambda p: program_from_json(program_to_json(p)),
}


@pytest.mark.parametrize("trip", PROGRAM_TRIPS)
def test_programs_keep_their_symbols(trip: str) -> None:
    p = program()
    q = PROGRAM_TRIPS[trip](p)
    assert all(a is b for a, b in zip(program_symbols(p), program_symbols(q), strict=True))
    assert str(p) == str(q)
    assert "x: float32(N, 4), y: float32(N_1, 4), z: float32(N_2,)" in str(p) and "float32(4, N + N_1)" in str(p)


def test_symbols_come_back_from_another_process() -> None:
    code = (
        "import pickle,sys; x = pickle.load(sys.stdin.buffer); sys.stdout.buffer.write(pickle.dumps((x, x[0] - x[1])))"
    )
    made = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps([first, twin]), capture_output=True, check=True
    )
    back, difference = pickle.loads(made.stdout)
    assert back[0] is first and back[1] is twin and difference is first - twin


def test_json_without_identities_still_reads() -> None:
    shape = term_to_json(first - wide)
    read = term_from_json(_without_keys(shape))
    assert str(read) in ("N - N_1", "-N + N_1", "N_1 - N")
    with pytest.raises(ParseError):
        term_from_json(shape.replace('null,1,"', 'null,1,3,"'))


def _without_keys(text: str) -> str:
    import re

    return re.sub(r',"[0-9a-f]{20,}"', "", text)


# -- values for symbols -----------------------------------------------------------------------------------------------


def test_maps_bind() -> None:
    tile = t.sym("tile")

    def split(i: Term) -> list[Term]:
        return [i // tile, i % tile]

    m = IndexMap.parse("i -> i//tile, i%tile", {"tile": tile})
    assert str(m.bind({"tile": 16})) == "i -> i // 16, i % 16" == str(m.bind({tile: np.int64(16)}))
    assert m.bind({tile: 4}).map_shape((14,)) == (4, 4) and m.bind({}) == m
    assert m.bind({"tile": other}) == IndexMap.parse("i -> i//m, i%m", {"m": other})
    pair = IndexMap.parse("i -> i//n, i%m", {"n": first, "m": twin})
    assert str(pair) == "i -> i // N, i % N_1" and str(pair.bind({"N_1": 3})) == "i -> i // N, i % 3"
    back = IndexMap.from_func(split, inverse_index_map=IndexMap.parse("a, b -> a*tile + b", {"tile": tile}))
    assert back.bind({"tile": 8}).inverse((32,)).map_indices((1, 3)) == (11,)


BAD: dict[str, tuple[Any, str]] = {
    "unknown": ({"K": 3}, "no symbol is K.*N"),
    "below": ({"N": 0}, "0 breaks 1 <= N"),
    "multiple": ({"Q": 6}, "6 breaks.*multiple of 4"),
    "axis": ({"N": t.ax(0, 3)}, "depends on i0"),
    "twice": ({"N": 3, first: 3}, "N has a value already"),
    "float": ({"N": 1.5}, "not an integer"),
}


@pytest.mark.parametrize("case", BAD)
def test_bind_refuses(case: str) -> None:
    values, why = BAD[case]
    with pytest.raises(EqsatError, match=why):
        bindings([first, t.sym("Q", multiple_of=4)], values, "bind")


def test_programs_bind() -> None:
    p = program()
    q = p.bind({"N": 3, twin: 2})
    assert q.outputs["a"].shape == (4, 5) and str(q.outputs["b"].shape) == "(N + 2,)"
    feeds = {"x": np.ones((3, 4), "f4"), "y": np.zeros((2, 4), "f4"), "z": np.zeros(0, "f4")}
    assert all(np.array_equal(v, eq.evaluate(p, feeds)[k]) for k, v in eq.evaluate(q, feeds).items())
    same = p.bind({"N": 3, "N_1": 3, "N_2": 3})
    assert not program_symbols(same)
    with pytest.raises(EvaluationError):
        eq.evaluate(q, feeds | {"x": np.ones((4, 4), "f4")})


def test_operators_bind_with_their_attributes_and_definitions() -> None:
    x = eq.input("x", (first, 3), "float32")

    def twice(a: eq.Tensor) -> eq.Tensor:
        return eq.concat([a, a], 0)

    node = t_opaque(x, twice)
    p = eq.Program([x], {"y": node})
    q = p.bind({"N": 2})
    made = q.outputs["y"].node
    assert isinstance(made, Opaque) and made.attrs == {"rows": 4, "pads": (2, [0])} and made.outputs[0][0] == (4, 3)
    array = np.arange(6, dtype="f4").reshape(2, 3)
    assert np.array_equal(eq.evaluate(q, {"x": array}), np.concatenate([array, array]))


def t_opaque(x: eq.Tensor, definition: Any) -> eq.Tensor:
    attrs = {"rows": 2 * first, "pads": (first, [0])}
    return eq.Tensor(Opaque("twice", [x], [((2 * first, 3), "float32")], attrs, definition=definition))


# -- numbers ----------------------------------------------------------------------------------------------------------


@given(st.integers(-(2**66), 2**66), st.integers(0, 20), st.integers(1, 7))
def test_integers_are_ranges(start: int, count: int, step: int) -> None:
    assert integers(start, start + count, step).tolist() == list(range(start, start + count, step))


@given(
    st.one_of(st.none(), st.integers(-9, 200)), st.one_of(st.none(), st.integers(0, 300)), st.integers(1, 9),
    st.integers(0, 100),
)  # fmt: skip
def test_samples_respect_bounds(lower: int | None, upper: int | None, multiple: int, wish: int) -> None:
    allowed = [v for v in range(-20, 400) if v % multiple == 0]
    allowed = [v for v in allowed if (lower is None or v >= lower) and (upper is None or v <= upper)]
    if lower is not None and upper is not None and (lower > upper or not allowed):
        return
    made = symbol_sample(t.sym("N", lower, upper, multiple), wish)
    assert made in allowed and all(abs(made - wish) <= abs(v - wish) for v in allowed)


def test_sizes_count_as_one_thing() -> None:
    assert [sampled(as_size(d)) for d in (first, 3 * first, first + 3, first * other, first - 100)] == [
        64,
        192,
        67,
        4096,
        1,
    ]
    assert sampled(as_size(first * other), {first: 2}) == 128
    assert isinstance(identity(as_size(first)), FlatMap)
