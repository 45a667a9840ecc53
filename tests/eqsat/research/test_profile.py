"""Profiles of rules: what each adds to a search, and who is guilty where one runs away."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import eqsat as eq
from eqsat.cli import main
from eqsat.ir.rule import Family, Idx, Pos
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.research.derive import minimize
from eqsat.research.picture import graph_picture
from eqsat.research.profile import corpus_of, profile
from eqsat.research.runaway import diagnose, diagnose_all
from eqsat.research.saturate import LIMITS, saturate
from eqsat.rules import scalar_rules

OWN = Family("own")


@OWN.rule("xor-assoc")
def xor_assoc(x: Idx, y: Idx, z: Idx):
    return (x ^ y) ^ z, x ^ (y ^ z)


@OWN.rule("xor-comm")
def xor_comm(x: Idx, y: Idx):
    return x ^ y, y ^ x


@OWN.rule("div-shifted")
def div_shifted(x: Idx, c: Pos):
    return x // c, (x + c) // c - 1


@OWN.rule("harmless")
def harmless(x: Idx, c: Pos):
    return (x % c) % c + 0 * x, x % c


def xors(n: int) -> Term:
    found = t.var("v0")
    for k in range(1, n):
        found = found ^ t.var(f"v{k}")
    return found


def test_the_culprits_of_an_explosion_are_named() -> None:  # feature: J3
    term = xors(8) + t.var("q") // 3
    limits = replace(LIMITS, rows=1_000, iterations=6)
    found = diagnose_all(term, {}, scalar_rules(), [harmless, xor_comm, xor_assoc, div_shifted], limits)
    assert {name for one in found for name in one.culprits} - {"xor-comm"} == {"xor-assoc", "div-shifted"}
    for one in found:
        assert one.status in ("row-limit", "iteration-limit")
        assert one.rows[-1] > 1.5 * one.rows_without[-1]
    by_shift = next(one for one in found if "div-shifted" in one.culprits)
    assert by_shift.term.op == "floordiv"  # the smallest: a quotient, without the rest
    assert diagnose(xors(3), {}, scalar_rules(), [harmless, xor_comm]) is None


def test_saturation_stays_within_its_limits() -> None:  # feature: J3
    grown = saturate(xors(14), {}, [*scalar_rules(), xor_comm, xor_assoc])
    assert grown.status == "row-limit" and grown.rows[-2] <= LIMITS.rows
    assert not saturate(xors(14), {}, scalar_rules()).is_runaway


def test_matches_rows_and_time_of_each_rule() -> None:  # feature: J3
    found = profile([("(8*x + y) // 8", {"y": 8}), "x // 4 * 4 + x % 4"], [harmless])
    split = found["split-merge"]
    assert split.matches > 0 and split.seconds >= 0 and split.entries == 1
    assert sum(split.by_iteration) == split.matches
    assert set(found.status.values()) == {"saturated"} and not found.runaways
    assert all(len(rows) > 1 for rows in found.growth.values())
    assert json.loads(found.to_json())["rules"][0]["name"] == found.rules[0].name


def test_a_wrong_rule_is_a_contradiction() -> None:  # feature: J7
    family = Family("wrong")

    @family.rule("wrong")
    def wrong(x: Idx, c: Pos):  # pyright: ignore[reportUnusedFunction]
        return x % c, x // c - 9

    found = profile([("x % 8", {"x": (16, 24)})], list(family))
    assert list(found.status.values()) == ["contradiction"]


def test_laws_over_programs() -> None:  # feature: J3
    x = eq.input("x", (1, 32, 8, 8), "float32")
    y = x.permute_dims((0, 2, 3, 1)).relu().permute_dims((0, 3, 1, 2))
    found = profile([eq.Program([x], {"y": y})])
    assert found["spell"].matches > 0


def test_corpus_lines() -> None:
    assert corpus_of(["i//4 ; i=8,j=2:4  # why", "", "j"]) == [("i//4", {"i": 8, "j": (2, 4)}), ("j", {})]
    with pytest.raises(eq.EqsatError, match="no expression"):
        corpus_of(["# nothing"])


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # feature: J3
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shifted_rules.py").write_text(
        "import eqsat as eq\nfrom eqsat.ir.rule import Idx, Pos\n\n\n@eq.rule('div-shifted')\n"
        "def div_shifted(x: Idx, c: Pos):\n    return x // c, (x + c) // c - 1\n"
    )
    (tmp_path / "corpus.txt").write_text("(x + 3) // 8 + y % 4 ; y=9\n")
    assert main(["rules", "profile", "shifted_rules", "--corpus", "corpus.txt", "--on", "x // 5", "--json"]) == 0
    data: Any = json.loads(capsys.readouterr().out)
    assert [r["culprits"] for r in data["runaways"]] == [["div-shifted"]]
    assert data["status"]["x // 5"] == "iteration-limit"
    assert main(["rules", "profile", "shifted_rules", "--on", "x // 5"]) == 0
    assert "runs away: div-shifted let x // 5 grow" in capsys.readouterr().out
    assert main(["rules", "profile", "--on", "x // 5", "--graph", "g.svg"]) == 0 and (tmp_path / "g.svg").exists()
    assert main(["rules", "profile", "--graph", "g.svg"]) == 2


@OWN.rule("cannot be matched")
def unmatched(x: Idx, y: Idx, z: Idx):
    return (x * x * x + y * z) % 4, (x * x * x + y * z + 4) % 4


def test_rules_that_can_be_matched_nowhere_are_named() -> None:
    found = profile(["x % 4 % 4"], [unmatched, harmless])
    assert list(found.idle) == ["cannot be matched"] and "acts nowhere: cannot be matched: summand" in str(found)
    assert found.status == {"x % 4 % 4": "saturated"}
    least = minimize([unmatched, xor_comm])
    assert len(least.kept) == 2 and list(least.idle) == ["cannot be matched"]


def test_the_graph_as_a_picture(tmp_path: Path) -> None:  # feature: J3
    picture = graph_picture("x // 4 * 4 + x % 4 + where(y < 3, y % 8, 0)", {"y": (0, 9)})
    names = {box.name for box in picture.boxes}
    assert picture.status == "saturated" and [box.is_root for box in picture.boxes].count(True) == 1
    root = next(box for box in picture.boxes if box.is_root)
    assert any(node.startswith("x + ") for node in root.nodes) and len(root.nodes) > 1
    for box in picture.boxes:
        assert len(box.nodes) == len(box.reads) and all(name in names for reads in box.reads for name in reads)
    for kind in ("dot", "svg", "html"):
        picture.save(tmp_path / f"g.{kind}")
    page = (tmp_path / "g.html").read_text()
    svg = ElementTree.fromstring((tmp_path / "g.svg").read_text())
    assert all(f'id="{name}"' in page for name in names) and "http" not in page.replace(
        "http://www.w3.org/2000/svg", ""
    )
    assert sum(g.get("id") in names for g in svg.iter("{http://www.w3.org/2000/svg}g")) == len(names)
    assert (tmp_path / "g.dot").read_text().count(" [label=") == len(names)
    with pytest.raises(eq.EqsatError, match="no kind of picture"):
        picture.save(tmp_path / "g.png")


def test_a_large_graph_is_cut_and_says_so() -> None:
    picture = graph_picture(xors(7), rules=[*scalar_rules(), xor_assoc], limits=LIMITS, most=5)
    assert len(picture.boxes) == 5 and f"5 of {5 + picture.cut} classes" in picture.caption and picture.cut > 20


def test_plots(tmp_path: Path) -> None:  # feature: J3
    pytest.importorskip("matplotlib")
    from eqsat.research.plots import plot

    found = profile(["x // 4 * 4 + x % 4"])
    plot(found, tmp_path / "p.svg")
    assert "split-merge" in (tmp_path / "p.svg").read_text() or (tmp_path / "p.svg").stat().st_size > 5_000
    with pytest.raises(eq.EqsatError, match="cannot be written"):
        plot(found, tmp_path / "no" / "p.svg")
