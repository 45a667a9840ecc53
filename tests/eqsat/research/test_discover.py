"""Rules that are found: true, none following from the others, the classic ones among them, and what is taken away."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rule_mutants import theorem, wrong_at
from said_by_grammars import covered
from seeds import some_of

import eqsat as eq
from eqsat.cli import main
from eqsat.index_graph.cost import cost
from eqsat.ir.rule import Family, Idx, Kind, Pos, Rule, when
from eqsat.research.candidates import Candidate
from eqsat.research.derive import Deriver, derivation, minimize
from eqsat.research.discover import Discovery, discover
from eqsat.research.grammar import ARITHMETIC, Grammar
from eqsat.research.grammars import GRAMMARS, LATTICE, PREDICATES
from eqsat.research.paste import HEAD, rule_text
from eqsat.rules import scalar_rules

OWN = Family("own")


@OWN.rule("nested")
def nested(x: Idx, a: Pos, b: Pos):
    return x // a // b, x // (a * b)


@OWN.rule("nested-twice")
def nested_twice(x: Idx, a: Pos, b: Pos, c: Pos):
    return x // a // b // c, x // (a * b * c)


@OWN.rule("quotient-of-digits")
def quotient_of_digits(x: Idx, y: Idx, c: Pos):
    return (c * x + y) // c, x, when(y >= 0, y < c)


ONE = Grammar({"x": Kind.IDX, "a": Kind.POS}, size=4)
TWO = Grammar({"x": Kind.IDX, "a": Kind.POS, "b": Kind.POS}, operations=("floordiv", "mod", "mul"), size=3)
SUMS = Grammar({"x": Kind.IDX, "y": Kind.IDX, "a": Kind.POS}, size=3)


def short_or_a_name(candidate: Candidate) -> bool:
    """Terms up to rank 8; longer ones where they are but a name."""
    return candidate.rank[0] <= (8 if candidate.right.args else 11)


@cache
def found_in(name: str) -> Discovery:
    """What is found in a small grammar, for the tests that ask nothing else of the search."""
    if name == "predicates":
        return discover(PREDICATES, [], seconds=120, keep=up_to(7))
    return discover(ONE, [], seconds=120, keep=short_or_a_name)


def follows(names: list[str], found: Discovery, beside: list[Rule] | None = None) -> None:
    deriver = Deriver([*found.rules, *(beside or [])])
    for name in names:
        rule = next(r for r in scalar_rules() if r.name == name)
        assert deriver.derive(rule), (name, [str(r) for r in found.rules])


def sound(found: Discovery) -> None:
    """By an evaluator that shares no code with the prover."""
    assert found.refuted * 20 <= found.candidates
    for rule in found.rules:
        assert wrong_at(theorem(rule, rule.instances[0])) is None, rule


@pytest.mark.parametrize(
    ("grammar", "names"),
    [
        pytest.param(ONE, ["split-merge", "div-small", "mod-small"], marks=pytest.mark.slow),
        (TWO, ["div-div", "mod-mod", "div-of-mod", "div-of-digit", "mod-of-digit"]),
        (SUMS, ["div-of-sum", "mod-of-sum", "div-add", "mod-add"]),
    ],
    ids=["one", "two", "sums"],
)
def test_the_classic_laws_from_nothing(grammar: Grammar, names: list[str]) -> None:  # feature: J5
    found = discover(grammar, [], seconds=120, keep=up_to(11))
    follows(names, found)
    sound(found)
    assert found.seconds < 60


def test_the_laws_of_one_number_from_nothing() -> None:  # feature: J5
    found = found_in("one")
    follows(["split-merge", "div-small", "mod-small"], found)
    sound(found)
    assert found.seconds < 60


@pytest.mark.smoke
def test_rules_of_bits_from_nothing() -> None:  # feature: J5
    found = discover(Grammar({"x": Kind.IDX, "y": Kind.IDX}, operations=("bitxor", "bitand", "bitor"), size=2), [])
    assert str(found.rules[0]) == "found-1: x | 0 = x" and not found.refuted
    sound(found)


@pytest.mark.slow
def test_all_classic_laws_at_once_in_a_minute() -> None:  # feature: J5
    found = discover(ARITHMETIC, [], seconds=60)
    follows(["split-merge", "div-div", "mod-mod", "div-of-sum", "mod-of-sum", "div-of-mod", "mod-add"], found)
    sound(found)


def test_none_of_the_rules_found_follows_from_the_others() -> None:  # feature: J5 J6
    found = discover(TWO, [], seconds=120)
    for rule in found.rules:
        rest = [r for r in found.rules if r is not rule]
        assert Deriver(rest).by(rule, rule.instances[0], 0) is None, rule


@pytest.mark.parametrize("rank", some_of([6, 7], 1))
def test_the_grammar_of_least_and_greatest(rank: int) -> None:  # feature: J5
    found = discover(LATTICE, [], seconds=120, keep=up_to(rank))
    sound(found)
    assert len(found.rules) >= 10


def test_the_grammar_of_predicates() -> None:  # feature: J5
    found = found_in("predicates")
    sound(found)
    assert len(found.rules) >= 3


def test_the_grammars_cover_four_fifths_of_the_index_rules() -> None:  # feature: J5
    of_indices = [r for r in scalar_rules() if len(r.instances) == 1 and not r.instances[0].dtype]
    assert len(said()) * 100 >= 80 * len(of_indices) > 15_000


@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("bits", ["bits-or-zero", "bits-and-absorbs"]),
        pytest.param("choices", ["where-and", "where-or"], marks=pytest.mark.slow),
        pytest.param("truncation", ["truncdiv-of-positive", "abs-factor"], marks=pytest.mark.slow),
        pytest.param("strict", ["or-different"], marks=pytest.mark.slow),
        pytest.param("parity", ["half-and-parity"], marks=pytest.mark.slow),
        ("by-negatives", ["truncdiv-by-one"]),
        ("below-zero", ["div-small-negative"]),
        pytest.param("turned-least", ["min-of-opposites"], marks=pytest.mark.slow),
        pytest.param("five", ["max-of-nested-mins"], marks=pytest.mark.slow),
        pytest.param("least", ["min-minus-part"], marks=pytest.mark.slow),
        pytest.param("greatest", ["max-minus-part"], marks=pytest.mark.slow),
        pytest.param("digits", ["truncmod-truncmod", "truncdiv-truncdiv"], marks=pytest.mark.slow),
    ],
)
def test_each_grammar_finds_its_own_again(name: str, gone: list[str]) -> None:  # feature: J5
    """Rules that a grammar can say, left out: they are found, or what they follow from."""
    grammar = GRAMMARS[name]
    rules = [r for r in scalar_rules() if r.name in gone]
    assert len(rules) == len(gone) and all(covered(r, grammar) for r in rules)
    rest = [r for r in scalar_rules() if r not in rules]
    before = Deriver(rest, cases=0)
    wanted = [r.name for r in rules if not before.derive(r)]
    most = max(max(cost(r.left), cost(r.right)) + 3 * len(r.instances[0].conditions) for r in rules)
    found = discover(grammar, rest, seconds=240, keep=lambda c: c.rank[0] <= most)
    assert wanted
    follows(wanted, found, rest)


@pytest.mark.parametrize(
    "gone",
    [
        ["le-own-remainder", "le-above-remainder"],
        pytest.param(["div-up", "mod-up"], marks=pytest.mark.slow),
        pytest.param(["where-plus-where", "where-minus-where"], marks=pytest.mark.slow),
    ],
    ids=" ".join,
)
def test_some_follow_from_the_rest(gone: list[str]) -> None:  # feature: J6
    """Rules that are there because rewriting needs them as they are."""
    rest = Deriver([r for r in scalar_rules() if r.name not in gone], cases=0)
    assert all(rest.by(r, r.instances[0], seconds=60.0) is not None for r in scalar_rules() if r.name in gone)


def rank_of(rule: Rule) -> int:
    """The rank, at most, of the candidate that says a rule."""
    (instance,) = rule.instances
    return max(cost(rule.left), cost(instance.right)) + 3 * len(instance.conditions)


def up_to(rank: int) -> Callable[[Candidate], bool]:
    return lambda candidate: candidate.rank[0] <= rank


def found_again(gone: list[Rule], grammars: list[str], seconds: float) -> tuple[list[str], list[str]]:
    """Of rules of ours that are left out: which do not follow from the rest, and which of those are not found either.

    A grammar that can say a rule looks for all that is missing, until what has been found makes the rule follow.
    """
    rest = [r for r in scalar_rules() if r not in gone]
    known = Deriver(rest)
    wanted = [r for r in gone if not known.derive(r)]
    lost: list[str] = []
    found: list[Rule] = []
    looked: dict[str, int] = {}
    for rule in sorted(wanted, key=rank_of):
        for name in grammars:
            if Deriver([*found, *rest]).derive(rule):
                break
            if covered(rule, GRAMMARS[name]) and looked.get(name, 0) < rank_of(rule):
                looked[name] = rank_of(rule)
                more = discover(GRAMMARS[name], rest, seconds=seconds, keep=up_to(looked[name]))
                sound(more)
                found += more.rules
        else:
            if not Deriver([*found, *rest]).derive(rule):
                lost.append(rule.name)
    return [r.name for r in wanted], lost


def said() -> list[Rule]:
    """The rules that some grammar can say."""
    of_indices = [r for r in scalar_rules() if len(r.instances) == 1 and not r.instances[0].dtype]
    return [r for r in of_indices if any(covered(r, grammar) for grammar in GRAMMARS.values())]


@pytest.mark.parametrize(
    ("names", "missing"),
    [
        ({"bits-or-zero", "where-or", "mod-small"}, {"bits-or-zero"}),
        pytest.param(
            {"div-div", "div-small", "bits-or-zero", "where-or", "mod-small"},
            {"div-div", "div-small", "bits-or-zero"},
            marks=pytest.mark.slow,
        ),
    ],
    ids=["some", "five"],
)
def test_what_is_taken_away_is_found_again(names: set[str], missing: set[str]) -> None:  # feature: J5
    """Rules of small grammars, of which some follow from the rest."""
    gone = [r for r in said() if r.name in names]
    wanted, lost = found_again(gone, ["arithmetic", "bits", "choices"], 60)
    assert len(gone) == len(names) and set(wanted) >= missing and not lost


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(20))
def test_any_five_are_found_again(seed: int) -> None:  # feature: J5
    """Five rules of ours drawn from all that the grammars can say."""
    gone = random.Random(seed).sample(said(), 5)
    wanted, lost = found_again(gone, list(GRAMMARS), 120)
    print(f"draw {seed}: {', '.join(r.name for r in gone)}; missing: {', '.join(wanted)}; lost: {', '.join(lost)}")
    assert not lost


def test_what_is_printed_can_be_pasted() -> None:  # feature: J5
    found = found_in("one")
    scope: dict[str, Any] = {}
    text = str(found)
    exec(text, scope)
    pasted = {r.name: r for r in scope.values() if isinstance(r, Rule)}
    assert {str(r) for r in pasted.values()} == {str(r) for r in found.rules}
    assert all(pasted[r.name].instances[0].left is r.left for r in found.rules)
    assert json.loads(found.to_json())["rules"][0]["text"] in text


def test_predicates_are_printed_as_functions() -> None:
    found = found_in("predicates")
    scope: dict[str, Any] = {}
    exec(HEAD + "\n" + "\n".join(rule_text(r) for r in found.rules), scope)
    assert sum(isinstance(x, Rule) for x in scope.values()) == len(found.rules)


def test_candidates_can_be_filtered() -> None:
    def without_mod(c: Candidate) -> bool:
        return "%" not in str(c.left)

    found = discover(ONE, [], seconds=120, keep=without_mod, most=2)
    assert 0 < len(found.rules) <= 2 and all("%" not in str(r.left) for r in found.rules)


# -- derivability -----------------------------------------------------------------------------------------------------


def test_minimize() -> None:  # feature: J6
    found = minimize([nested, nested_twice])
    assert [r.name for r in found.kept] == ["nested"]
    assert [(d.rule, d.by) for d in found.dropped] == [("nested-twice", ("nested",))]
    assert len(minimize([nested, quotient_of_digits]).kept) == 2


def test_derivable_from_ours() -> None:  # feature: J6
    ours = Deriver(scalar_rules())
    assert ours.derive(nested_twice).by == ("div-div",)
    without = Deriver([r for r in scalar_rules() if r.name not in ("div-div", "div-of-div-plus")])
    assert not without.derive(nested)


def test_where_a_derivation_breaks() -> None:  # feature: J8
    steps = derivation(["(8*x + y) // 8", "x + y // 8", "x", "x + y"], {"y": 8})
    assert [s.verdict for s in steps] == ["derived", "derived", "wrong"]
    assert "differs at" in steps[2].reason and steps[0].chain is not None and steps[0].chain.holds
    assert [s.verdict for s in derivation(["(x*x + x) % 2", "0"])] == ["true"]
    with pytest.raises(eq.EqsatError, match="no step"):
        derivation(["x"])


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:  # feature: J5 J6 J8
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQSAT_DEBUG", "0")
    monkeypatch.delitem(sys.modules, "nested_rules", raising=False)
    (tmp_path / "nested_rules.py").write_text(
        "import eqsat as eq\nfrom eqsat.ir.rule import Idx, Pos\n\n\n@eq.rule('nested')\n"
        "def nested(x: Idx, a: Pos, b: Pos):\n    return x // a // b, x // (a * b)\n\n\n@eq.rule('twice')\n"
        "def twice(x: Idx, a: Pos):\n    return x // a // a // a, x // (a * a * a)\n"
    )
    (tmp_path / "steps.txt").write_text("(8*x + y) // 8\nx\nx + 1  # wrong\n")
    assert main(["rules", "minimize", "nested_rules", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["kept"] == ["nested"]
    assert main(["rules", "derivable", "nested_rules", "--json"]) == 0
    assert [r["by"] for r in json.loads(capsys.readouterr().out)["rules"]] == [["div-div"], ["div-div"]]
    assert main(["rules", "derivable", "--steps", "steps.txt", "--ranges", "y=8"]) == 1
    assert "wrong" in capsys.readouterr().out
    assert main(["rules", "discover", "--grammar", "lattice", "--known", "none", "--most", "2", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rules"]) in (1, 2)
    again = ["rules", "discover", "--grammar", "bits", "--without", "bits-or-zero", "--most", "1", "--json"]
    assert main(again) == 0
    assert json.loads(capsys.readouterr().out)["rules"][0]["law"] == "x | 0 = x"
    assert main(["rules", "discover", "--without", "bits-or-one"]) == 2
    assert "'bits-or-one' is none of the known rules" in capsys.readouterr().err
    assert main(["rules", "discover", "--grammar", "nothing"]) == 2
    assert main(["rules", "derivable"]) == 2
