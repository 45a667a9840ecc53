"""Rule declarations, the matcher (sums modulo the rest, up to a scale), the termination order and the rewriter."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from eqsat.ir.order import decreases
from eqsat.ir.rule import Data, Family, Idx, Kind, Pos, Pred, Rule, RuleError, rule, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.text import parse_expr
from eqsat.rewriting.match import Pattern
from eqsat.rewriting.rewrite import Rewriter, RuleStep

X, Y, C = t.var("x"), t.var("y"), t.var("c")


@rule("split-merge", tags=["normal"])
def split_merge(x: Idx, c: Pos):
    """Splitting and merging."""
    return x // c * c + x % c, x


@rule("div-low", tags=["normal"])
def div_low(x: Idx, y: Idx, g: Pos, d: Pos):
    """A low part does not count."""
    return (g * x + y) // (g * d), x // d, when(y >= 0, y < g)


@rule("mod-mod", tags=["normal"])
def mod_mod(x: Idx, a: Pos, b: Pos):
    """Nested remainders."""
    return x % (a * b) % a, x % a


def test_a_rule_is_its_declaration() -> None:  # feature: J1
    assert split_merge.name == "split-merge" and split_merge.doc == "Splitting and merging."
    assert [p.kind for p in split_merge.parameters] == [Kind.IDX, Kind.POS]
    assert str(div_low).endswith("= x // d when 0 <= y, y < g")
    assert "normal" in split_merge.tags


def test_families_keep_order_and_refuse_twins() -> None:
    family = Family("mine")
    family.rule("one")(lambda_of("x // 1, x"))
    assert [r.name for r in family] == ["one"] and family.rules[0].family == "mine"
    with pytest.raises(RuleError, match="has a rule of this name"):
        family.rule("one")(lambda_of("x // 1, x"))


def lambda_of(text: str) -> Callable[[Any], Any]:
    sides = [parse_expr(s.strip()) for s in text.split(",")]

    def declare(x: Idx):
        return tuple(sides)

    return declare


def test_data_rules_have_a_theorem_per_dtype() -> None:
    @rule("mul-one", dtypes=("int8", "float32"))
    def mul_one(x: Data):
        return x * t.const(1, x.dtype), x

    assert [i.dtype for i in mul_one.instances] == ["int8", "float32"]
    assert all(i.left.dtype == i.dtype for i in mul_one.instances)


def bad_returns_one(x: Idx):
    return x


def bad_same(x: Idx):
    return x - x + x, x


def bad_free(x: Idx):
    return x // 1, x + t.var("z")


def bad_types(p: Pred, x: Idx):
    return t.logical_and(p, x < 0), x


def bad_variable(x: Idx):
    return x, x + 0


def bad_kind(x: int):
    return x, x


def bad_grows(x: Idx, c: Pos):
    return x % c, x - x // c * c


def bad_data(x: Data):
    return x, x


def bad_number(p: Pred):
    return t.logical_and(p, t.logical_not(p)), 3


@pytest.mark.parametrize(
    ("declare", "tags", "problem"),
    [
        (bad_returns_one, (), "returns x"),
        (bad_same, (), "both sides are x"),
        (bad_free, (), "z occurs in the right side"),
        (bad_types, (), "the sides have types bool and index"),
        (bad_variable, (), "both sides are x"),
        (bad_kind, (), "parameter x has no kind"),
        (bad_grows, ("normal",), "is not smaller than"),
        (bad_data, (), "Data parameters and dtypes belong together"),
        (bad_grows, ("fast",), "unknown tag 'fast'"),
        (bad_number, (), "does not fit bool"),
    ],
)
def test_bad_declarations_say_what_is_wrong(declare: Callable[..., Any], tags: tuple[str, ...], problem: str) -> None:
    with pytest.raises(Exception, match=problem.replace("(", r"\(")):
        rule("bad", tags=tags)(declare)


def root_sum_of_variables(x: Idx, y: Idx, c: Pos):
    return c * x + y // c, x


def product_pattern(x: Idx, y: Idx, z: Idx):
    return (x * y * z) // 2, x


@pytest.mark.parametrize("declare", [root_sum_of_variables, product_pattern])
def test_patterns_that_cannot_be_matched_are_refused(declare: Callable[..., Any]) -> None:
    made = rule("bad")(declare)
    with pytest.raises(RuleError):
        Pattern(made, made.instances[0])


@rule("low-digit")
def low_digit(x: Idx, y: Idx):
    return t.binary("bitor", 4 * x, y), 4 * x + y, when(y >= 0, y < 4)


@rule("half")
def half(x: Idx, y: Idx):
    return (2 * x + y) // 2, x + y // 2


@pytest.mark.parametrize(
    ("left", "right", "smaller"),
    [
        ("x // c * c + x % c", "x", True),
        ("x % c", "x - x // c * c", False),
        ("x // 2 // 3", "x // 6", True),
        ("(2*x + y) % 8", "2 * (x % 4) + y", True),
        ("2 * (x % 4) + y % 2", "(2*x + y) % 8", False),
        ("x", "x", False),
        ("x // 2 + y", "y // 2 + x", False),
        ("not (x < y and y < 3)", "y <= x or 3 <= y", True),
    ],
)
def test_order(left: str, right: str, smaller: bool) -> None:
    assert decreases(parse_expr(left), parse_expr(right), {C}) is smaller


def matched(r: Rule, text: str) -> str | None:
    """The text after one application at the root; x, y, z lie in 0..63."""
    pattern = Pattern(r, r.instances[0])
    subject = parse_expr(text)
    ranges = {t.var(n): (0, 63) for n in "xyz"}
    found = pattern.first(subject, lambda a: _interval(a, ranges))
    return None if found is None else str(found.build(r.right))


def _interval(a: t.Term, ranges: dict[t.Term, tuple[int, int]]) -> tuple[int | None, int | None]:
    from eqsat.ir.ranges.bounds import Bounds

    return Bounds({k: (lo, hi + 1) for k, (lo, hi) in ranges.items()}).of(a)


@pytest.mark.parametrize(
    ("r", "text", "result"),
    [
        (split_merge, "x // 4 * 4 + x % 4", "x"),
        (split_merge, "x // 4 * 12 + x % 4 * 3 + y + 7", "3*x + y + 7"),
        (split_merge, "y // 5 - x // 4 * 4 - x % 4", "y // 5 - x"),
        (split_merge, "(x + y) // 4 * 4 + (x + y) % 4", "x + y"),
        (split_merge, "x // 4 * 8 + x % 4", None),
        (split_merge, "x // 4 * 4 + y % 4", None),
        (split_merge, "x // 4 * 4 + x % 8", None),
        (split_merge, "x // 4 * 4 - x % 4", None),
        (mod_mod, "x % 12 % 4", "x % 4"),
        (mod_mod, "x % 12 % 5", None),
        (div_low, "(8*x + y % 4) // 16", "x // 2"),
        (div_low, "(8*x + y % 4 + 3) // 16", "x // 2"),
        (div_low, "(8*x + y % 4 - 1) // 16", None),
        (div_low, "(8*x + 64*y + z % 8 - 16) // 8", "(8*y + x - 2) // 1"),
        (div_low, "x // 8", None),
        (low_digit, "(8*x + 4*z) | (y % 4)", "8*x + 4*z + y % 4"),
        (low_digit, "(y % 4) | (8*x)", "8*x + y % 4"),
        (low_digit, "(8*x + 2*z) | (y % 4)", None),
        (low_digit, "(8*x) | (y % 5)", None),
        (half, "(6*x + z % 2) // 2", "3*x + z % 2 // 2"),
    ],
)
def test_matching_modulo_the_rest(r: Rule, text: str, result: str | None) -> None:
    assert matched(r, text) == result


def test_order_and_scale_do_not_matter() -> None:
    rest = ["5*y", "z", "11", "z // 3"]
    for scale in (-3, 1, 2, 64):
        for order in itertools.permutations([f"{4 * scale}*(x // 4)", f"{scale}*(x % 4)", *rest[:2]]):
            assert matched(split_merge, " + ".join(order)) == str(parse_expr(f"{scale}*x + 5*y + z"))


def test_symbols_are_constants_where_they_are_positive() -> None:
    n, free = t.sym("N"), t.sym("M", lower=None)
    for size, result in ((n, "3*N*x + y"), (free, None)):
        subject = 3 * (X // size) * size * size + 3 * (X % size) * size + Y
        pattern = Pattern(split_merge, split_merge.instances[0])
        found = pattern.first(subject, lambda a: _interval(a, {}))
        assert (None if found is None else str(found.build(split_merge.right))) == result


# -- the rewriter -----------------------------------------------------------------------------------------------------


def test_log_names_rules_and_subterms() -> None:
    log: list[RuleStep] = []
    i = t.var("i", 64)
    result = Rewriter([split_merge, mod_mod]).normalise((i // 4 * 4 + i % 4) % 32 % 8 + 1, None, log)
    assert str(result) == "i % 8 + 1"
    assert [(s.rule, str(s.before), str(s.after)) for s in log] == [
        ("split-merge", "i // 4 * 4 + i % 4", "i"),
        ("mod-mod", "i % 32 % 8", "i % 8"),
    ]


def test_rules_that_turn_in_circles_end() -> None:
    @rule("forth")
    def forth(x: Idx, y: Idx):
        return t.binary("min", x, y) // 2, t.binary("max", x, y) // 2

    @rule("back")
    def back(x: Idx, y: Idx):
        return t.binary("max", x, y) // 2, t.binary("min", x, y) // 2

    result = Rewriter([forth, back]).normalise(t.binary("min", X, Y) // 2)
    assert str(result) in ("minimum(x, y) // 2", "maximum(x, y) // 2")


def test_deep_terms_need_no_recursion() -> None:
    e = X
    for k in range(3000):
        e = (e + Y) // (2 + k % 3)
    result = Rewriter([split_merge]).normalise(e // 4 * 4 + e % 4)
    assert result is e


def test_guard_facts_stay_under_the_guard() -> None:
    @rule("div-small", tags=["normal"])
    def div_small(x: Idx, c: Pos):
        return x // c, 0, when(x >= 0, x < c)

    i = t.var("i", 16)
    e = t.where(i < 4, i // 4 + 7, i // 16 + i // 8) + i // 4
    result = Rewriter([div_small]).normalise(e)
    assert str(result) == "i // 4 + where(i < 4, 7, i // 8)"
    values = np.arange(16)
    assert (result.evaluate({"i": values}) == e.evaluate({"i": values})).all()
