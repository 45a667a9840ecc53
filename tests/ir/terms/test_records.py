"""Dataclasses that hold terms compare them by identity: what Python generates asks `==`, which makes a term."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from eqsat.ir.terms import term as t
from eqsat.ir.terms.records import Record
from eqsat.ir.terms.term import Term

pytestmark = pytest.mark.smoke  # what is generated for dataclasses is another thing in each version of Python
ROOT = Path(__file__).parents[3]
HOMES = ("eqsat", "ir", "rules", "backends", "benchmarks", "tests")


@dataclass(frozen=True, eq=False)
class Pair(Record):
    left: Term
    right: Term | int
    note: str = field(default="", compare=False)


@dataclass(frozen=True, eq=False)
class One(Record):
    term: Term


def test_records_of_the_same_terms_are_equal() -> None:
    x, y = t.var("x"), t.var("y")
    assert Pair(x, y) == Pair(x, y, "another note") and hash(Pair(x, y)) == hash(Pair(x, y, "another note"))
    assert (
        Pair(x, 1) == Pair(x, 1) and Pair(x, 1) != Pair(x, 2) and Pair(x, 1) != Pair(x, y) and Pair(x, y) != Pair(y, x)
    )
    assert One(x) == One(x) and One(x) != One(y) and One(x) != Pair(x, x) and len({One(x), One(x), One(y)}) == 2


def unequal(text: str) -> list[str]:
    """The dataclasses of a module that hold a term and are compared by a generated `__eq__`."""
    found: list[str] = []
    if "@dataclass" not in text or "Term" not in text:
        return found  # most modules: to parse all of them takes seconds
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.ClassDef):
            continue
        made = [ast.unparse(d) for d in node.decorator_list if ast.unparse(d).startswith("dataclass")]
        own = any(isinstance(x, ast.FunctionDef) and x.name == "__eq__" for x in node.body)
        if not made or "eq=False" in made[0] or own:
            continue
        fields = [x for x in node.body if isinstance(x, ast.AnnAssign)]
        terms = [x for x in fields if re.fullmatch(r"(.*\| )?Term( \|.*)?", ast.unparse(x.annotation))]
        if any("compare=False" not in ast.unparse(x) for x in terms):
            found.append(node.name)
    return found


def test_no_dataclass_compares_terms_by_a_term() -> None:
    files = [p for home in HOMES for p in (ROOT / home).rglob("*.py") if not any(q.is_symlink() for q in p.parents)]
    assert len(files) > 500
    assert {str(p): names for p in files if (names := unequal(p.read_text()))} == {}


@pytest.mark.parametrize("kind", ["Term", "Term | None", "int | Term"])
def test_one_that_does_is_found(kind: str) -> None:
    text = f"@dataclass(frozen=True)\nclass A:\n    x: {kind}"
    assert unequal(text) == ["A"] and not unequal(text.replace("frozen=True", "frozen=True, eq=False"))
