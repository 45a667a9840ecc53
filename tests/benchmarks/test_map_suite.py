"""The benchmark of index maps: isl is asked the question that we are, wrong answers are seen, and the script runs."""

from __future__ import annotations

import importlib
import json
import pkgutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
from index_maps import main, make_case
from map_suite.check import judge, sample, truth
from map_suite.isl_text import condition_text, map_text, set_text
from map_suite.sides import Case, Eqsat, Found, Isl, Question

from eqsat.ir.errors import FrontendError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.ir.terms import term as t
from eqsat.ir.terms.text import parse_expr
from eqsat.proving.rules import normaliser
from eqsat.testing.maps import MAP_FAMILIES, random_map

ISL: Any = importlib.import_module("islpy")
SPLIT = Case("split", IndexMap.parse("i -> i//4, i%4"), (14,), (4, 4))


def points_of(found: Any) -> set[tuple[int, ...]]:
    """All points of a bounded set of isl."""
    points: set[tuple[int, ...]] = set()

    def add(point: Any) -> None:
        count = point.get_space().dim(ISL.dim_type.set)
        points.add(tuple(int(str(point.get_coordinate_val(ISL.dim_type.set, k))) for k in range(count)))

    found.foreach_point(add)
    return points


@pytest.mark.parametrize("family", MAP_FAMILIES)
def test_isl_gets_our_map(family: str) -> None:
    """The points of the map that isl reads are ours, each with its image."""
    for seed in range(4):
        m, shape = random_map(family, Random(seed), 24)
        try:
            text = map_text(m.outputs, dict(zip(m.names, shape, strict=True)))
        except FrontendError:
            continue
        arrays = sample(shape)
        expected = {tuple(map(int, p)) for p in zip(*arrays, *m.map_indices(arrays), strict=True)}
        assert points_of(ISL.Map(text).wrap().flatten()) == expected, text


@pytest.mark.parametrize(
    "text",
    [
        "4*a + b < 14",
        "not (a == 3 and b >= 2)",
        "a != b or 3*a - b <= 2",
        "minimum(a, b) % 2 == 0",
        "abs(a - b) > 1",
        "(a if b < 2 and a < 3 else 3 - a) > 1",
    ],
)
def test_isl_gets_our_predicate(text: str) -> None:
    predicate = parse_expr(text)
    for asked in (predicate, t.logical_not(predicate)):
        inside = ISL.Set(set_text(condition_text(asked), ["a", "b"])).intersect(
            ISL.Set("{ [a, b]: 0<=a<4 and 0<=b<4 }")
        )
        holds = {(a, b) for a in range(4) for b in range(4) if bool(asked.evaluate({"a": a, "b": b}))}
        assert points_of(inside) == holds


WRONG: list[tuple[Question, Found]] = [
    ("decide", Found("yes")),
    ("decide", Found("yes", "injective", terms=(parse_expr("i // 4"), parse_expr("i % 3")))),
    ("invert", Found("none")),
    ("invert", Found("inverse", "", IndexMap.parse("a, b -> 5*a + b"), parse_expr("4*a + b >= 14"))),
    ("invert", Found("inverse", "", IndexMap.parse("a, b -> 4*a + b"), parse_expr("4*a + b >= 15"))),
]


@pytest.mark.parametrize(("question", "found"), WRONG)
def test_wrong_answers_are_seen(question: Question, found: Found) -> None:
    assert judge(question, SPLIT, found, *truth(SPLIT)) == "wrong"


def test_right_answers_are_right() -> None:
    """Ours and isl's, on maps of every family."""
    sides = (Eqsat(), Isl(1_000_000))
    for family in MAP_FAMILIES:
        case = make_case(family, Random(family), 60)
        for question in ("decide", "invert"):
            for side in sides:
                ask = side.prepare(question, case)
                if ask is not None:
                    found = side.read(question, case, ask())
                    allowed = ("right",) if side.name == "eqsat" else ("right", "unknown")
                    assert judge(question, case, found, *truth(case)) in allowed, (family, side.name, case.m, found)


def test_large_boxes_are_judged_by_samples() -> None:
    """A rotation of a thousand million points, and an inverse that is wrong at every point but few."""
    case = Case("rotate", IndexMap.parse(f"i -> (i + 5) % {10**9}"), (10**9,), (10**9,))
    right = Found("inverse", "", IndexMap.parse(f"a -> (a - 5) % {10**9}"), t.FALSE)
    wrong = Found("inverse", "", IndexMap.parse("a -> a - 5"), t.FALSE)
    assert truth(case) == (None, None)
    assert judge("invert", case, right, None, None) == "right"
    assert judge("invert", case, wrong, None, None) == "wrong"


def test_the_script_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", "off")
    path = tmp_path / "times.json"
    main(["--maps", "1", "--sizes", "60", "--families", "split,xor", "--json", str(path)])
    rows = json.loads(path.read_text())["rows"]
    assert {r["question"] for r in rows} == {"decide", "invert", "simplify map", "simplify predicate"}
    assert all(r["sides"]["eqsat"]["verdict"] in ("right", "longer") and r["sides"]["eqsat"]["seconds"] for r in rows)
    assert "families above" in capsys.readouterr().out


def test_forgotten_answers_are_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are those of a question that was never asked; the rules stay compiled."""
    asked: list[str] = []
    for module, name in (("eqsat.maps.solution", "solve_digits"), ("eqsat.simplifying.normal_forms", "_Box.form")):
        whole = f"{module}.{name}"
        now = pkgutil.resolve_name(whole)

        def noted(*given: Any, _now: Any = now, _name: str = name) -> Any:
            asked.append(_name)
            return _now(*given)

        monkeypatch.setattr(whole, noted)
    m, rules = IndexMap.parse("i, j -> (8*i + j)//7, (8*i + j)%7"), normaliser()
    for _ in range(2):
        Eqsat().forget()
        asked.clear()
        m.non_surjective_inverse((90, 8))
        assert {*asked} == {"solve_digits", "_Box.form"}
    assert normaliser() is rules
