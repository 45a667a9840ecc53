"""Checking rules: unsound ones are refuted with their smallest counterexample, and what is not proved is not used."""

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from types import ModuleType
from typing import Any, cast
from xml.etree import ElementTree

import pytest

import eqsat as eq
from eqsat.ir.errors import EqsatError, TypeMismatch
from eqsat.ir.law import select, tensor
from eqsat.ir.rule import Buffer, Data, Idx, Pos, Pred, RuleError, Total, choose, rule, when
from eqsat.ir.terms import term as t
from eqsat.rulebook import admit, check_rule, check_rules, default_rules
from eqsat.rulebook.acting import acts
from eqsat.rules import scalar_rules, split_merge
from eqsat.simplifying.simplify import simplify


def div_unbounded(x: Idx, y: Idx, c: Pos):
    return (c * x + y) // c, x


def off_by_one(x: Idx, c: Pos):
    return x // c, 0, when(x >= 0, x <= c)


def negative(x: Idx, c: Pos):
    return x % c, x, when(x < c)


def and_swapped(p: Pred, q: Pred):
    return t.logical_and(p, q), t.logical_and(q, p)


def merge_of_partial(x: Idx, y: Idx, c: Pos):
    left = t.logical_or(t.compare("ne", t.index_const(0), x), y >= 0)
    return left, c * x + y >= 0, when(x >= 0, -c <= y), choose(c, width_of=y)


def divides_by_more(x: Idx, y: Idx):
    least = t.binary("min", x, y)
    return t.binary("min", least, x), t.binary("min", least, x // y * y + x % y)


def double_and_halve(x: Data):
    return x * t.const(2, x.dtype) // t.const(2, x.dtype), x


def plus_zero(x: Data):
    return x + t.const(0, x.dtype), x


def times_zero(x: Data):
    return x * t.const(0, x.dtype), 0


def scale_and_divide(x: Data):
    return x * t.const(65536, x.dtype) // t.const(65536, x.dtype), x


UNSOUND: list[tuple[Callable[..., Any], tuple[str, ...], dict[str, Any]]] = [
    (div_unbounded, (), {"x": 0, "y": 1, "c": 1}),
    (off_by_one, (), {"x": 1, "c": 1}),
    (negative, (), {"x": -1, "c": 1}),
    (and_swapped, (), {"p": False, "q": "undefined"}),
    (merge_of_partial, (), {"x": 1, "y": "undefined", "c": 1}),
    (divides_by_more, (), {"x": 0, "y": 0}),
    (double_and_halve, ("int8",), {"x": 127}),
    (double_and_halve, ("uint8",), {"x": 255}),
    (plus_zero, ("float32",), {"x": -0.0}),
    (times_zero, ("float64",), {"x": -0.0}),
    (scale_and_divide, ("int32",), {"x": 2**31 - 1}),
]


@pytest.mark.parametrize(("declare", "dtypes", "witness"), UNSOUND, ids=lambda x: getattr(x, "__name__", ""))
def test_unsound_rules_are_refuted(
    declare: Callable[..., Any], dtypes: tuple[str, ...], witness: dict[str, Any]
) -> None:  # feature: J2 J7
    report = check_rule(rule("unsound", dtypes=dtypes)(declare))
    assert report.status == "refuted" and report.witness is not None
    assert dict(report.witness) == witness


@rule("sound for total values")
def merge_of_total(x: Idx, y: Total, c: Pos):
    left = t.logical_or(t.compare("ne", t.index_const(0), x), y >= 0)
    return left, c * x + y >= 0, when(x >= 0, -c <= y), choose(c, width_of=y)


@rule("out of range")
def out_of_range(x: Buffer, i: Idx):
    """Equal wherever both sides are defined; but the right side reads where the left does not."""
    zero, one, inside = t.const(0.0, "float32"), t.const(1.0, "float32"), t.logical_and(i >= 0, i < 14)
    return t.where(inside, x[i], zero), x[i] * t.where(inside, one, zero)


@rule("far away")
def far_away(x: Idx, y: Idx):
    """Looks at y first, which matters only for large values of x."""
    return t.logical_or(x >= 10**6, y >= 0), t.logical_or(y >= 0, x >= 10**6)


@rule("in range")
def in_range(x: Buffer, i: Idx):
    """Under the same guard the read is the same."""
    zero = t.const(0.0, "float32")
    return t.where(i < 4, t.where(i < 4, x[i], zero), zero), t.where(i < 4, x[i], zero)


def test_a_right_side_that_reads_out_of_range_is_refused() -> None:
    assert check_rule(merge_of_total).status == "proved"
    assert check_rule(in_range).status == "proved"
    report = check_rule(far_away)
    assert report.status == "refuted" and report.witness is not None
    assert dict(report.witness) == {"x": 10**6, "y": "undefined"}
    report = check_rule(out_of_range)
    assert report.status == "refuted" and report.witness is not None and report.witness["len(x)"] == 1


@rule("odd function", dtypes=["float32"])
def odd_function(x: Data):
    """True on all numbers that were tried, but no solver knows tanh."""
    return t.unary("tanh", t.neg(x)), t.neg(t.unary("tanh", x))


def test_unproved_rules_are_not_admitted() -> None:  # feature: J9
    assert check_rule(odd_function).status == "tested"
    with pytest.raises(EqsatError, match="only proved rules may be used"):
        admit([odd_function])
    with pytest.raises(EqsatError, match="refuted"):
        admit([rule("wrong")(negative)])
    assert [r.name for r in admit(split_merge.RULES)] == [r.name for r in split_merge.RULES]


@rule("negative and not")
def never(x: Idx, c: Pos):
    return x % c, x, when(x < 0, x > 3)


def test_a_rule_whose_conditions_contradict_each_other_is_refused() -> None:
    """It is proved, and true of nothing. (None of ours is: tests/rules/test_rules.py.)"""
    report = check_rule(never)
    assert report.status == "proved" and report.note == "can act nowhere: its conditions never hold together"
    with pytest.raises(EqsatError, match="its conditions never hold"):
        eq.simplify("i % 4", {"i": 4}, rules=[never])


def test_two_rules_of_one_name_are_refused() -> None:
    def same(x: Idx):
        return x * 3 // 3, x

    def other(x: Idx):
        return x * 5 // 5, x

    with pytest.raises(EqsatError, match="another one has this name"):
        eq.simplify("i", {"i": 4}, rules=[rule("mine")(same), rule("mine")(other)])
    again = [rule("mine")(same), rule("mine")(same)]  # a cell of a notebook, run twice
    assert str(eq.simplify("i*3//3", {"i": 4}, rules=again)) == "i"


def test_what_is_no_function_of_values_is_no_rule() -> None:
    def several(*x: Idx):
        return x[0], x[0]

    def unnamed(x: Idx, /):
        return x, x

    for wrong, problem in ((int, "no function"), (several, r"\*x"), (unnamed, "not one value")):
        with pytest.raises(RuleError, match=problem):
            rule("mine")(wrong)
    with pytest.raises(TypeMismatch, match="no name"):
        rule("two\nlines")


@rule("or from and and xor", tags=["normal"])
def or_of_parts(x: Idx, y: Idx):
    """What two numbers have in common, and what they do not."""
    return (x & y) | (x ^ y), x | y


@rule("sum from and and or")
def sum_of_parts(x: Idx, y: Idx):
    """Common bits count twice. Without a tag: for the e-graph alone."""
    return (x & y) + (x | y), x + y


@rule("split index")
def bare(x: Buffer, i: Idx):
    return x[i // 4 * 4 + i % 4], x[i]


def test_rules_of_ones_own_act() -> None:
    """In the rewriter and in the e-graph, and only where they are given."""
    assert acts(or_of_parts) == ("rewriter", "graph") and acts(sum_of_parts) == ("graph",)
    ranges = {"i": 10**6, "j": 10**6}
    for text, found, own in (
        ("(i & j) | (i ^ j)", "i | j", [or_of_parts]),
        ("(i & j) + (i | j) + 1", "i + j + 1", [sum_of_parts]),
        ("((i & j) | (i ^ j)) + (j & i)", "i + j", [sum_of_parts, or_of_parts]),
    ):
        assert str(simplify(text, ranges, rules=own)) == found
        assert str(simplify(text, ranges)) != found
    assert str(simplify("i // 4 // 8 + j // 4 * 4 + j % 4", rules=["div-div"])) == "j // 4 * 4 + j % 4 + i // 32"


def test_rules_that_may_not_be_used() -> None:
    """Unproved, unmatched, unknown ones, and those that take the name of another, are refused with the reason."""
    with pytest.raises(EqsatError, match=r"can act nowhere.*loads stand on right sides only"):
        simplify("i // 4", rules=[bare])
    assert "can act nowhere" in check_rule(bare).note
    with pytest.raises(EqsatError, match="refuted at"):
        simplify("i // 4", rules=[rule("wrong too")(negative)])
    with pytest.raises(EqsatError, match="no rule of this name"):
        simplify("i // 4", rules=["div-diw"])
    with pytest.raises(EqsatError, match="has a rule of this name"):
        simplify("i // 4", rules=[rule("div-div")(negative)])


def test_all_rules_act_somewhere() -> None:
    assert all("graph" in acts(r) for r in scalar_rules())


def test_reports() -> None:
    book = check_rules([rule("a < b & c")(negative), *split_merge.RULES.rules[:1]])
    assert not book.ok and book.counts() == {"proved": 1, "refuted": 1}
    parsed = json.loads(book.to_json())
    assert parsed["rules"][0]["witness"] == {"x": -1, "c": 1}
    suite = ElementTree.fromstring(book.to_junit())
    assert suite.attrib["failures"] == "1" and [c.attrib["name"] for c in suite] == ["a < b & c", "split-merge"]
    assert suite[0][0].tag == "failure" and len(suite[1]) == 0
    assert "refuted" in str(book) and "1 proved, 1 refuted" in str(book)


def test_executors() -> None:
    chosen = split_merge.RULES.rules[:2]
    with ThreadPoolExecutor(2) as threads:
        assert check_rules(chosen, threads).ok
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        assert check_rules(chosen, processes).ok


def test_default_rules() -> None:
    assert [r.name for r in default_rules()] == [r.name for r in scalar_rules()]


def a_law(*answer: Any) -> Any:
    return lambda: answer


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: eq.law("l")(cast(Any, lambda: None)), "law l: its function returns None"),
        (lambda: eq.law("l")(a_law(1, 2)), r"law l: its function returns \(1, 2\)"),
        (lambda: eq.law("l")(a_law(tensor("x"))), "law l: its function returns"),
        (lambda: eq.law("l")(cast(Any, lambda z: (z, z))), "law l: its function takes z"),  # pyright: ignore
        (lambda: eq.law(a_law()), "law: <function .* is no name"),
        (lambda: rule(cast(Any, div_unbounded)), "rule: <function .* is no name"),
        (lambda: rule(""), "rule: '' is no name"),
    ],
)
def test_declarations_that_make_no_rule_say_so(declare: Callable[[], object], said: str) -> None:
    with pytest.raises(EqsatError, match=said):
        declare()


LAW = eq.law("select-same")(lambda: (select("c", tensor("x"), tensor("x")), tensor("x")))


USES: list[Callable[[Any], object]] = [
    lambda rules: eq.simplify("i*8//4//2", {"i": 9}, rules=rules),
    lambda rules: eq.optimize(eq.input("x", (4, 4), "float32").flip(0), rules=rules),
    lambda rules: eq.explain("i//2", "i//2", rules=rules),
    eq.check_rules,
]


@pytest.mark.parametrize("use", USES)
def test_what_is_given_for_rules_and_is_none(use: Callable[[Any], object]) -> None:
    """Nothing is passed over: it would be believed to act."""
    for wrong in ([None], [3], 3, [split_merge.split_merge, None]):
        with pytest.raises(EqsatError, match="is no rule, law or name"):
            use(wrong)


@pytest.mark.parametrize("use", USES)
def test_a_module_stands_for_what_it_declares(use: Callable[[Any], object]) -> None:
    """As on the command line (`--rules MODULE`): alone or among others; one that declares nothing is an error."""
    module = ModuleType("mine")
    with pytest.raises(EqsatError, match=r"module mine: declares no law, rule"):
        use(module)
    vars(module).update(law=LAW, one=split_merge.split_merge, number=3)
    for given in (module, [module], [split_merge.split_merge, module]):
        use(given)


def test_the_law_of_a_module_acts() -> None:
    module = ModuleType("mine")
    vars(module)["law"] = LAW
    x = eq.input("x", (4, 4), "float32")
    program = eq.compute((4, 4), lambda i, j: eq.where(eq.input("k", (4,), "float32")[i] > 0, x[i, j], x[i, j])).flip(0)
    alone, several = (eq.optimize(program, rules=given).program for given in ([LAW], module))
    assert str(alone) == str(several)


def test_laws_are_no_rules_of_terms() -> None:
    with pytest.raises(EqsatError, match=r"select-same: .*: is not a rule or a name"):
        simplify("i*8", {"i": 9}, rules=cast(Any, [LAW]))
    with pytest.raises(EqsatError, match="'div-div': is not a rule or a law"):
        check_rules(cast(Any, ["div-div"]))
    assert str(simplify("i // 2 // 3", rules="div-div")) == "i // 6"
