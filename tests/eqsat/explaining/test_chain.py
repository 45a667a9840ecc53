"""Chains of steps: each step is one rule in one place, leads on from the one before, and holds by itself."""

from __future__ import annotations

import json
import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import eqsat as eq
from eqsat.cli import main
from eqsat.explaining import chain as chains
from eqsat.explaining.chain import Chain, explain
from eqsat.explaining.programs import part_of
from eqsat.explaining.rewrites import CONVENTIONS, replaced
from eqsat.explaining.show import chain_data, chain_html, chain_latex
from eqsat.ir.decide import Proof
from eqsat.ir.rule import Idx, Pos, rule
from eqsat.ir.terms.term import Term
from eqsat.nets import channel_shuffle, conv_chain, nhwc_converter_net, transformer, window_partition
from eqsat.proving.read import read
from eqsat.rules import scalar_rules
from eqsat.simplifying.simplify import simplify

NAMES = {r.name for r in scalar_rules()}

PAIRS: list[tuple[str, str, dict[str, Any]]] = [
    ("x // 4 * 4 + x % 4 + y", "y + x", {}),
    ("(i // 4 * 16 + i % 4 * 4 + j) // 4", "i", {"j": 4}),
    ("minimum(x, y) // 3", "minimum(x//3, y//3)", {}),
    ("x%12%4 + (x//4)*4 + x//3//5", "x + x//15", {}),
    ("(-((i + 13) // 16)) % 224 * 16 + (2 - i) % 16", "(2 - i) % 3584", {"i": 100}),
    ("where(x < 8, x // 8 + y, y)", "y", {"x": (0, None)}),
    ("not (io == 3 and ii >= 2)", "4*io + ii < 14", {"io": 4, "ii": 4}),
    ("max(min(x, 3), 5) + (x+y)%4", "(x%4 + y%4)%4 + 5", {}),
    ("(64*a + 8*b + c) // 8 % 8", "b", {"b": 8, "c": 8}),
    ("(x ^ y) ^ y", "x", {}),
    ("i", "i", {}),
]  # fmt: skip


def check(chain: Chain, ranges: dict[str, Any], seed: int = 0) -> None:
    """A chain leads from its start to its end by single rewrites, and all terms have the same values."""
    assert chain.complete and chain.holds, chain
    at, draw = chain.start, random.Random(seed)
    names = {n.payload for n in [*_leaves(chain.start), *_leaves(chain.end)]}
    for link in chain.links:
        assert link.rule in chain.rules or link.rule in (*CONVENTIONS, "spell-predicate"), link
        assert link.whole is not at
        # The part is in its place in the term before, or, where a step is used backwards, in the term after.
        assert link.whole is _with(at, link.path, link.after) or at is _with(link.whole, link.path, link.before), link
        for _ in range(40):
            point = {str(n): _number(draw, ranges.get(str(n))) for n in names}
            assert _value(at, point) == _value(link.whole, point), (link, point)
        at = link.whole
    assert at is chain.end


def _with(root: Term, path: tuple[int, ...], new: Term) -> Term | None:
    try:
        return replaced(root, path, new)
    except (IndexError, eq.EqsatError):
        return None


def _leaves(term: Term) -> list[Term]:
    return [term] if term.op == "var" else [x for a in term.args for x in _leaves(a)]


def _number(draw: random.Random, ends: Any) -> int:
    low, high = (0, ends) if isinstance(ends, int) else ends or (-50, 50)
    return draw.randrange(-50 if low is None else low, 60 if high is None else high)


def _value(term: Term, point: dict[str, int]) -> Any:
    return term.evaluate({k: v for k, v in point.items() if k in {str(x) for x in _leaves(term)}})


@pytest.mark.parametrize(("a", "b", "ranges"), PAIRS, ids=lambda x: x if isinstance(x, str) else "")
def test_chains_hold(a: str, b: str, ranges: dict[str, Any]) -> None:  # feature: J4
    chain = explain(a, b, ranges)
    check(chain, ranges)
    assert set(chain.rules) <= NAMES
    data = chain_data(chain)
    assert json.loads(json.dumps(data))["holds"] and len(data["steps"]) == len(chain.links)
    assert chain_latex(chain).count("\n&=") == len(chain.links)
    assert chain_html(chain).count("<tr>") == len(chain.links) + 2


def _sum(draw: random.Random, size: int) -> str:
    parts = ["x//4*4 + x%4", "(8*x + y)//8", "y%12%4", "x//3//5", "min(y, y + 3)", "(x*6 + 4)//2", "y//2*2 + y%2"]
    return " + ".join(f"({draw.choice(parts)})*{draw.randrange(1, 9)}" for _ in range(size))


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_what_simplify_found_is_explained(size: int) -> None:  # feature: J4
    """Expressions of growing size against what `simplify` makes of them."""
    ranges = {"x": (0, 60), "y": (0, 8)}
    for seed in range(2):
        text = _sum(random.Random(seed), size)
        check(explain(text, simplify(text, ranges), ranges), ranges)


def test_conditions_are_shown_with_their_verdicts() -> None:  # feature: J4
    (link,) = explain("(4*x + y) // 4", "x", {"y": 4}).links
    assert [(str(c), p.verdict) for c, p in link.conditions] == [("0 <= y", "proved"), ("y < 4", "proved")]


def test_what_differs_has_no_chain() -> None:
    with pytest.raises(eq.EqsatError, match="differ at"):
        explain("x // 4", "x // 5")
    with pytest.raises(eq.EqsatError, match="no rules make them equal"):
        explain("(x*x + x) % 2", "0")


@rule("even product")
def even_product(x: Idx, c: Pos):
    return abs(x) % 2, x % 2


def test_own_rules_are_named() -> None:
    chain = explain("abs(x) % 2 + 3", "x % 2 + 3", rules=[even_product])
    assert chain.rules == ("even product",)
    check(chain, {})


def test_a_step_that_does_not_hold_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check of a step does not trust what made it."""

    def never(*_: object, **__: object) -> Proof:
        return Proof("unknown")

    (first, second), box = read(["x // 4 * 4 + x % 4", "x"], {})
    why = chains.explain_terms(first, second)
    monkeypatch.setattr(chains.Portfolio, "equal", never)
    assert not chains.chain_of(first, second, box, why, scalar_rules()).holds


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:  # feature: J4
    page = tmp_path / "why.html"
    assert main(["explain", "(8*x + y)//8", "x", "--ranges", "y=8", "--html", str(page)]) == 0
    assert "div-of-sum: (8*x + y) // 8 = x when 0 <= y: proved" in capsys.readouterr().out
    assert "<table" in page.read_text()
    assert main(["explain", "(8*x + y)//8", "x", "--ranges", "y=8", "--latex"]) == 0
    assert capsys.readouterr().out.startswith("\\begin{align*}")


def test_rules_of_a_module_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EQSAT_DEBUG", "0")
    (tmp_path / "or_rules.py").write_text(
        "import eqsat as eq\nfrom eqsat.ir.rule import Idx, when\n\n\n@eq.rule('low or')\n"
        "def low_or(x: Idx, y: Idx):\n    return x | (4 * y), x + 4*y, when(0 <= x, x < 4)\n"
    )
    assert main(["explain", "x%4 | 8*y", "x%4 + 8*y"]) == 0
    assert "no rules that show it" in capsys.readouterr().out
    assert main(["explain", "x%4 | 8*y", "x%4 + 8*y", "--rules", "or_rules", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["chain"]["rules"] == ["low or"]


# -- programs ---------------------------------------------------------------------------------------------------------


def _converted(x: eq.Tensor) -> eq.Tensor:
    return x.permute_dims((0, 2, 3, 1)).relu().permute_dims((0, 3, 1, 2))


def _padded(x: eq.Tensor) -> eq.Tensor:
    return x.pad(((0, 0), (0, 4), (0, 0), (0, 0))).exp().crop((0, 0, 0, 0), (1, 32, 8, 8))


def _rolled(x: eq.Tensor) -> eq.Tensor:
    return x.roll(3, 1).sigmoid().roll(-3, 1)


@pytest.mark.parametrize("make", [_converted, _padded, _rolled])
@pytest.mark.parametrize("times", [1, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 8, 16, 50))])
def test_steps_of_programs(make: Callable[[eq.Tensor], eq.Tensor], times: int) -> None:  # feature: J4
    y = eq.input("x", (1, 32, 8, 8), "float32")
    for _ in range(times):
        y = make(y).abs()
    result = eq.optimize(y)
    text = result.explain(steps=True)
    assert result.steps is not None
    chain: Any = result.steps(result)
    assert chain.holds and chain.least and {"identity", "spell", "absorb"} <= set(chain.laws)
    assert f"  {len(chain.steps)}. " in text and len(chain.steps) >= 1
    for (
        step
    ) in chain.steps:  # each region by itself needs some of the laws of the whole, and asks some of its questions
        assert step.laws and set(step.laws) <= set(chain.laws)
        assert all(o.proof for o in step.obligations)
    fewer = eq.optimize(y, rules=list(chain.laws))
    assert fewer.final.rank == result.final.rank
    for name in set(chain.laws) - {"identity", "spell", "absorb"}:
        worse = eq.optimize(y, rules=[n for n in chain.laws if n != name])
        assert worse.final.rank > result.final.rank
    assert pickle.loads(pickle.dumps(result)).steps is None


@pytest.mark.parametrize(
    "make",
    [
        conv_chain,
        window_partition,
        *(pytest.param(m, marks=pytest.mark.slow) for m in (channel_shuffle, transformer, nhwc_converter_net)),
    ],
)
def test_steps_of_models(make: Callable[[], Any]) -> None:  # feature: J4
    result = eq.optimize(eq.onnx.load(make()))
    assert result.steps is not None
    chain: Any = result.steps(result)
    assert chain.holds and chain.least and chain.steps and result.cost_after < result.cost_before
    assert all(step.laws and set(step.laws) <= set(chain.laws) for step in chain.steps)


def test_a_part_of_a_program_stands_alone() -> None:
    x = eq.input("x", (4, 6), "float32")
    y = x.permute_dims((1, 0)).relu()
    z = y.permute_dims((1, 0)) + x
    program = eq.Program([x], {"z": z, "y": y})
    part = part_of(program, {y.node.serial, z.node.operands[0].node.serial})
    assert part is not None and [i.shape for i in part.inputs] == [(6, 4)]
    assert sorted(o.shape for o in part.outputs.values()) == [(4, 6), (6, 4)]
    assert part_of(program, ()) is None


def test_regions_are_asked_within_a_budget() -> None:
    """First which laws act in each, then which are needed; regions that there was no time for say so."""
    result = eq.optimize(_rolled(_padded(_converted(eq.input("x", (1, 32, 8, 8), "float32")).abs()).abs()))
    assert result.steps is not None
    none: Any = result.steps(result, seconds=-1.0, whole=False)
    assert [s.laws for s in none.steps] == [None] * len(result.checked)
    some: Any = result.steps(result, seconds=20.0, whole=False)
    assert all(s.laws and s.least for s in some.steps) and len(some.steps) == len(result.checked)
    removed = result.reported(seconds=20.0).data()["removed"]
    assert len(removed) == result.report.before.moves - result.report.after.moves
    assert all(r["laws"] and r["least"] and r["checked"] != "neither" for r in removed)


def test_a_program_without_gain_has_no_steps() -> None:
    x = eq.input("x", (2, 3), "float32")
    assert "by no law" in eq.optimize(x.relu()).explain(steps=True)


def test_steps_of_programs_as_latex() -> None:  # feature: J4
    x = eq.input("x", (2, 3, 5), "float32")
    padded = x.pad(((0, 0), (0, 0), (0, 3)), pad_value=0.0).sum(2)
    text = eq.optimize(padded).explain(steps=True, latex=True)
    before, _, after = text.partition(r"\Longrightarrow")
    assert r"\sum_{0 \leq r_{0} < 8}" in before and r"\begin{cases}" in before
    assert r"\sum_{0 \leq r_{0} < 5} \left({x}_{i_{0},i_{1},r_{0}}\right)" in after and "cases" not in after
    assert "by drop-neutral: proved" in after
    signature = eq.Signature.parse("n m c -> n m c", map="n m c")
    turned = x.permute_dims((0, 2, 1))
    inner = eq.opaque("my_norm", [turned], [((2, 5, 3), "float32")], signature=signature)[0]
    text = eq.optimize(inner.permute_dims((0, 2, 1)).exp()).explain(steps=True, latex=True)
    assert r"t_{1} &= \operatorname{my\_norm}\left(t_{0}\right)" in text
    assert text.count("{") == text.count("}") and text.count(r"\begin{align*}") == text.count(r"\end{align*}") > 0
    with pytest.raises(eq.EqsatError, match="steps=True"):
        eq.optimize(padded).explain(latex=True)
