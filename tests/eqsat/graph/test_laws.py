"""Laws of tensors act as they are declared: proved, matched, answered and checked; those of users like our own."""

from __future__ import annotations

import pickle
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from flat_build import crop, flip, pad, permute
from programs_of_laws import corpus, swapped_twice

import eqsat as eq
from eqsat.engine import Limits
from eqsat.graph.encode import encode
from eqsat.graph.search import Snapshot, run, task_of
from eqsat.ir.errors import EqsatError
from eqsat.ir.fast import by_rules_alone
from eqsat.ir.flat.map import identity
from eqsat.ir.law import (
    HERE,
    Expr,
    Law,
    bijection,
    both,
    combine,
    compose,
    filled,
    gather,
    implies,
    inside,
    mapping,
    negation,
    operands,
    operator_of,
    pointwise,
    read,
    same_box,
    same_index,
    same_value,
    select,
    takes,
    tensor,
    value,
    view,
    widened,
)
from eqsat.ir.tensors.tensor import as_program
from eqsat.ir.terms import term as t
from eqsat.laws import answers as law_answers
from eqsat.laws import cells
from eqsat.laws.answers import LawAnswers
from eqsat.laws.cells import same_cells
from eqsat.laws.match import bind
from eqsat.laws.plan import CannotAct, Plan, Shape, check_can_act, plans
from eqsat.laws.text import acts
from eqsat.laws.tree import Class
from eqsat.operators.forms import FormMaker
from eqsat.operators.interned import Interned
from eqsat.rulebook import check_rules
from eqsat.rulebook.acting import LOADING, law_acts
from eqsat.rulebook.admitted import admitted
from eqsat.rules import layout_laws, tensor_laws

X, Y, M = tensor("x"), tensor("y"), mapping("m")


@eq.law("redundant-mask")
def redundant_mask() -> tuple[Expr, ...]:
    """Selecting another tensor where the first has its values already is the first."""
    held = implies(both(inside(X), negation(takes("c"))), same_value(X, Y))
    return select("c", X, Y), X, same_box(X, Y), held


@eq.law("neutral-operand")
def neutral_operand() -> tuple[Expr, ...]:
    """An element-wise function that another operand does not change is its operand."""
    whole = pointwise("f", X, Y)
    return whole, X, same_box(X, Y), implies(inside(X), same_value(whole, X))


def masked() -> eq.Tensor:
    """A pad, a mask that keeps what the pad shows anyway, and a crop of some of the padding."""
    x = eq.input("x", (5, 8), "float32")
    padded = x.pad(((0, 11), (0, 0)))
    zeros = eq.constant(np.zeros((16, 8), "float32"))
    return eq.compute((16, 8), lambda i, j: eq.where(i < 5, padded[i, j], zeros[i, j])).crop((0, 0), (6, 8))


def with_nothing() -> eq.Tensor:
    """Whole numbers plus the padding of nothing."""
    x, z = eq.input("x", (8, 8), "int32"), eq.input("z", (4, 8), "int32")
    return x + (z * 0).pad(((0, 4), (0, 0)))


# -- declared, proved, acting ------------------------------------------------------------------------------------------


def test_every_law_acts() -> None:
    """In the graph, where targets' forms are spelled, or while a program is loaded."""
    names = {law.name for law in tensor_laws() if not acts(law)}
    assert names == {"spell", "absorb", "reduce-reindex", "reduce-neutral"}
    for law in tensor_laws():
        if acts(law):
            check_can_act(law)


def test_the_list_says_where_laws_act() -> None:
    """Each law acts somewhere, and what is said to act while programs are loaded does."""
    assert all(law_acts(law) for law in tensor_laws())
    loaded: set[str] = set()
    for program in corpus():
        loaded |= set(encode(as_program(program)).laws)
    assert loaded == LOADING


def matched(program: eq.Tensor, laws: list[Law] | None = None) -> dict[str, int]:
    """How often each rule fired in a search, and while the program was loaded."""
    encoded = encode(as_program(program), laws)
    last: list[Snapshot] = []
    run(task_of(encoded, "c", Limits(), laws=laws), last.append)
    fired = dict(encoded.laws)
    for name, count in last[-1].progress.matches.items():
        fired[name] = fired.get(name, 0) + count
    return fired


@cache
def matched_on_corpus() -> list[dict[str, int]]:
    """What fires with the laws as they are; a test that patches them asks before it does."""
    return [matched(program) for program in corpus()]


def test_every_law_fires_on_the_corpus() -> None:
    fired: dict[str, int] = {}
    for found in (*matched_on_corpus(), matched(swapped_twice())):
        for name, count in found.items():
            fired[name] = fired.get(name, 0) + count
    silent = [law.name for law in tensor_laws() if not fired.get(law.name) and not law.axiom]
    assert silent == []


def test_the_graph_alone_finds_what_loading_does() -> None:
    for program in corpus():
        with by_rules_alone():
            slow = eq.optimize(program)
        fast = eq.optimize(program)
        assert slow.cost_after == fast.cost_after
        assert set(slow.progress.loaded) <= {"absorb", "compose"}  # of layouts, which are no nodes of the graph


def test_laws_declared_again_from_outside_do_the_same() -> None:
    again = [pickle.loads(pickle.dumps(law)) for law in tensor_laws()]
    assert [matched(program, again) for program in corpus()] == matched_on_corpus()


# -- laws of users -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("program", "law"), [(masked, redundant_mask), (with_nothing, neutral_operand)])
def test_a_law_of_a_user_saves_what_no_other_does(program: Any, law: Law) -> None:
    plain, own = eq.optimize(program()), eq.optimize(program(), rules=[law])
    assert plain.cost_before >= plain.cost_after > own.cost_after
    assert own.progress.matches[law.name] and law.name in own.explain()
    assert own.checked.count("proved") + own.checked.count("run") == len(own.checked) > 0
    assert any(o.question.startswith(law.name) and o.proof for o in own.obligations)


def test_names_choose_and_laws_are_added() -> None:
    names = [law.name for law in admitted(["compose", redundant_mask])[0]]
    assert names == ["compose", "identity", "spell", "absorb", "redundant-mask"]
    assert [law.name for law in admitted(None)[0]] == [law.name for law in tensor_laws()]


def test_a_law_that_is_wrong_is_refused_with_its_witness() -> None:
    wrong = Law("wrong", "", view(view(X, mapping("f")), M), view(X, M))
    with pytest.raises(EqsatError, match=r"wrong.*refuted: with .* the left side is") as error:
        eq.optimize(masked(), rules=[wrong])
    assert "only proved laws" in str(error.value)


def test_a_law_without_its_condition_is_refused() -> None:
    """A mask is not redundant because it could be, and operands of other boxes are not the same."""
    for law in (
        Law("mask", "", select("c", X, Y), X),
        Law("mask", "", select("c", X, Y), X, redundant_mask.hypotheses[1:]),
        Law("pad", "", view(X, filled(M, value("v"))), X, (same_box(M, X),)),
    ):
        assert check_rules([law]).reports[0].status == "refuted"


def test_a_law_that_can_act_nowhere_is_refused_with_the_reason() -> None:
    two = Law("two", "", pointwise("f", pointwise("g", X)), pointwise("f", pointwise("g", X)))
    with pytest.raises(CannotAct, match="more than one operator"):
        eq.optimize(masked(), rules=[two])
    fixed = Law("fixed", "", view(X, compose(M, mapping("n"))), view(view(X, M), mapping("n")))
    with pytest.raises(CannotAct, match="is matched"):
        eq.optimize(masked(), rules=[fixed])
    with pytest.raises(EqsatError, match="choose another"):
        eq.optimize(masked(), rules=[Law("compose", "", *_sides(redundant_mask))])


def test_a_law_whose_hypotheses_contradict_each_other_is_refused() -> None:
    """It is true of nothing. (None of ours is: tests/rules/test_rules.py.)"""
    never = Law("never", "", select("c", X, Y), X, (both(takes("c"), negation(takes("c"))),))
    report = check_rules([never]).reports[0]
    assert report.status == "proved" and "can act nowhere: its conditions never hold" in report.note
    with pytest.raises(EqsatError, match="its conditions never hold"):
        eq.optimize(masked(), rules=[never])


def test_two_laws_of_one_name_are_refused() -> None:
    other = Law(redundant_mask.name, "", select("c", X, X), X)
    with pytest.raises(EqsatError, match="another one has this name"):
        eq.optimize(masked(), rules=[redundant_mask, other])
    assert admitted([redundant_mask, redundant_mask]) == admitted([redundant_mask])


def _sides(law: Law) -> tuple[Expr, Expr, tuple[Expr, ...]]:
    return law.left, law.right, law.hypotheses


def test_an_unproved_law_is_not_believed_because_it_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown never fires: with the provers off, a condition about cells does not hold."""
    import eqsat.proving.prover as prover
    from eqsat.ir.decide import Proof

    def unknown(self: object, *args: object, **kwargs: object) -> Proof:
        return Proof("unknown", method="off")

    program = corpus_program_of_region()
    encoded = encode(as_program(program))
    last: list[Snapshot] = []
    run(task_of(encoded, "c", Limits()), last.append)
    assert last[-1].progress.matches["pad-of-crop"]
    monkeypatch.setattr(prover.Portfolio, "prove", unknown)
    run(task_of(encode(as_program(program)), "c", Limits()), last.append)
    assert not last[-1].progress.matches.get("pad-of-crop")
    assert {o.proof.verdict for o in last[-1].obligations} == {"unknown"}


def test_that_a_map_is_one_to_one_takes_a_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two irregular views of unknown sizes cancel because Z3 proves it; without Z3, they do not."""
    import eqsat.proving.prover as prover
    from eqsat.proving.points import Answer

    def nothing(*_: object) -> None:
        return None

    def unknown(*_: object) -> Answer:
        return Answer("unknown", "off")

    last: list[Snapshot] = []
    monkeypatch.setattr(prover, "cache_get", nothing)
    monkeypatch.setattr(prover, "cache_put", nothing)
    run(task_of(encode(as_program(swapped_twice())), "c", Limits()), last.append)
    assert last[-1].progress.matches["inverse-pair"]
    proofs = [o.proof for o in last[-1].obligations if o.question.startswith("inverse-pair") and o.proof]
    assert proofs and all(p.method.startswith("z3") for p in proofs)
    monkeypatch.setattr(prover, "z3_claim", unknown)
    run(task_of(encode(as_program(swapped_twice())), "c", Limits()), last.append)
    assert not last[-1].progress.matches.get("inverse-pair")


def corpus_program_of_region() -> eq.Tensor:
    x = eq.input("x", (4, 8), "float32")
    return x.pad(((0, 4), (0, 0))).relu().crop((0, 0), (4, 8)).pad(((0, 4), (0, 0)))


@pytest.mark.parametrize("target", ["c", "onnx"])
def test_a_view_of_operands_in_several_layouts_passes_the_operator(target: str) -> None:
    """Operands that are one flip or gather of values, read in different orders: one permutation is left to move."""
    x = eq.input("x", (1, 8, 16, 16), "float32")
    turned = x.permute_dims((0, 1, 3, 2))
    for axes in ((1,), (1, 2, 3)):
        y = (x.flip(axes) + turned.flip(axes)).flip(axes).permute_dims((0, 1, 3, 2))
        found, plain = (eq.optimize(z, target, "bytes") for z in (y, turned.exp() + x))
        assert found.cost_after == plain.cost_after == 16384
    three = x.flip((1,)) * turned.flip((1,)) - x.exp().flip((1,))
    assert eq.optimize(three.flip((1,)), target, "bytes").cost_after == 16384


@pytest.mark.parametrize("shape", [(64, 256, 256), (64, t.sym("N", 1), 16), (t.sym("K", 1), 64, 8)])
def test_parts_of_large_and_symbolic_selections_are_found(shape: Any) -> None:
    """No table of their cells is made: what a view reads is proved, and read off the formula."""
    x, y = eq.input("x", shape, "float32"), eq.input("y", shape, "float32")
    both_ = eq.concat([x.exp(), y.exp()], axis=1 if isinstance(shape[0], t.Term) else 0)
    start = (0, 64, 0) if isinstance(shape[0], t.Term) else (64, 0, 0)
    there = eq.optimize(both_.crop(start, shape).relu())
    assert there.cost_before > there.cost_after == 0
    assert any(o.question.startswith("select-part") and o.proof for o in there.obligations)
    across = eq.optimize(both_.crop(tuple(d // 2 for d in start), shape).relu())
    rows = across.cost_before // 6  # of one part, read and written: four are joined and two kept; two cut, two joined
    assert across.cost_before == 6 * rows and across.cost_after == 4 * rows
    assert not any(o.question.startswith("select-part") and o.proof for o in across.obligations)


def test_boxes_of_different_symbols_are_not_compared() -> None:
    """Each may be empty where the other is not."""
    n, m = t.sym("N"), t.sym("M")
    x, y = eq.input("x", (n, 8), "float32"), eq.input("y", (m, 8), "float32")
    both_ = eq.concat([x.exp(), y.exp()], axis=0)
    result = eq.optimize(both_.crop((0, 0), (n, 8)).relu())
    assert result.cost_after <= result.cost_before


# -- answers are checked -----------------------------------------------------------------------------------------------


def compose_match(*maps: Any) -> tuple[Interned, Plan, Any]:
    interned = Interned()
    (plan,) = plans(layout_laws.compose_views, None)
    fill = t.const(0.0, "float32")
    numbers = [interned.reindex(m, fill, "float32") for m in maps]
    return interned, plan, bind(plan, interned, FormMaker(interned, {}), numbers)


@pytest.mark.parametrize("rows", [0, 2])
def test_selections_of_no_cells(rows: int) -> None:
    """Empty selections are asked about like any other."""
    x, y = (eq.input(name, (rows, 1), "int32") for name in "xy")
    chosen = eq.compute((rows, 1), lambda i, j: eq.where(i < 1, x[i, j], y[i, j]))
    for program in (chosen.pad(((1, 0), (2, 2)), pad_value=1), eq.concat([x, y], axis=0).pad(((1, 0), (0, 0)))):
        assert matched(program, [law for law in tensor_laws() if law.name != "pad-of-crop"])["ask select-part"]


def test_selections_of_no_cells_in_symbolic_rows() -> None:
    n = t.sym("N")
    x = eq.input("x", (n, 0), "int32")
    assert not encode(as_program(eq.compute((n, 0), lambda i, j: eq.where(i < 1, x[i, j], x[0, j])))).cuts


def test_a_wrong_composition_is_not_believed() -> None:
    inner, outer = pad((6,), (2,), (1,)), crop((9,), (1,), (4,))
    interned, plan, match = compose_match(outer, inner)
    found = LawAnswers(interned, match.forms).answer(plan, [match.numbers[n] for n in plan.question])
    assert found is not None
    match.numbers |= dict(zip(plan.answer, found, strict=True))
    assert same_cells(match)
    for wrong in (identity(6), crop((6,), (1,), (4,)), pad((3,), (1,), (0,))):
        made = [
            interned.reindex(wrong, t.const(0.0, "float32"), "float32"),
            interned.reindex(identity(4), None, "float32"),
        ]
        if wrong.n_in == 6 and wrong.n_out == 4:
            match.numbers |= dict(zip(plan.answer, made, strict=True))
            assert not same_cells(match)


@pytest.mark.parametrize("part", ["map", "fill", "operator", "part", "layout"])
def test_broken_answers_are_noticed(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever of an answer is wrong, the check refuses it, and the search goes on without."""
    made = LawAnswers._made  # pyright: ignore[reportPrivateUsage]
    refused = 0

    def broken(self: LawAnswers, match: Any, m: Any) -> list[int]:
        numbers = made(self, match, m)
        u = self.interned
        if part == "map" and m.kind == "split":
            core = u.reindexes[numbers[0]]
            size = core.map.n_out
            if isinstance(size, int) and size % 2 == 0 and size > 2:
                turned = permute((2, size // 2), (1, 0))
                numbers[1] = u.reindex(turned, None, core.dtype)
        if part == "fill" and m.kind == "split" and u.reindexes[numbers[0]].fill is not None:
            core = u.reindexes[numbers[0]]
            numbers[0] = u.reindex(core.map, t.const(7, core.dtype), core.dtype)
        if part == "layout" and m.kind == "cut":
            layout = u.reindexes[numbers[1]]
            assert isinstance(layout.map.n_out, int)
            numbers[1] = u.reindex(flip((layout.map.n_out,), (0,)), None, layout.dtype)
        if part == {"over": "operator", "cut": "part"}.get(m.kind):
            for n in range(2, len(numbers)):
                view_ = u.reindexes[numbers[n]]
                if isinstance(view_.map.n_out, int) and view_.map.n_out > 1 and view_.map.is_total:
                    turned = flip((view_.map.n_out,), (0,))
                    numbers[n] = u.reindex(_after(view_.map, turned), None, view_.dtype)
        return numbers

    def counted(match: Any) -> bool:
        nonlocal refused
        held = same_cells(match)
        assert held == cells._same_cells(match)  # pyright: ignore[reportPrivateUsage]
        refused += not held
        return held

    matched_on_corpus()  # right answers are remembered, and not taken for wrong ones
    monkeypatch.setattr(LawAnswers, "_made", broken)
    monkeypatch.setattr(law_answers, "same_cells", counted)
    for program in corpus():
        matched(program)
    assert refused


def test_what_was_compared_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of a match holds for another one only where all is the same that its sides follow from."""
    matches: list[Any] = []

    def kept(match: Any) -> bool:
        matches.append(match)
        return same_cells(match)

    monkeypatch.setattr(law_answers, "same_cells", kept)
    x, scale = eq.input("x", (4, 6), "float32"), eq.input("s", (), "float32")
    for program in (*corpus(), (x.pad(1) * scale + 2.0).crop((1, 1), (3, 4)).exp()):
        matched(program)
    compared = cells._compared  # pyright: ignore[reportPrivateUsage]
    changed: set[str] = set()
    for match in matches:
        key, u = compared(match), match.interned
        if key is None:
            continue
        for side in ("left", "right"):
            other = copy(match)
            other.plan = replace(match.plan, **{side: Class("another")})
            assert compared(other) != key
        maps, operators = cells._maps(match), cells._operators(match)  # pyright: ignore[reportPrivateUsage]
        tables = {**dict.fromkeys(maps, len(u.reindexes)), **dict.fromkeys(operators, len(u.operators))}
        tables |= {name: 99 for name in ("o", "k") if name in match.numbers}
        tables |= {f"u{k}": len(u.values) for k in match.plan.unvarying}
        for name, count in tables.items():
            numbers = [n for n in range(count) if n != match.numbers[name]]
            if name[0] == "u":
                held = u.scalar(match.numbers[name])
                numbers = [n for n in numbers if u.scalar(n) is not held]
            for n in numbers[:3]:
                other = copy(match)
                other.numbers = {**match.numbers, name: n}
                assert compared(other) != key, name
                changed.add(name[0])
    assert changed >= {"m", "s", "o", "u"}, changed


def _after(m: Any, turned: Any) -> Any:
    from eqsat.ir.flat.ops import compose as composed

    found = composed(m, turned)
    assert found is not None
    return found


# -- patterns ----------------------------------------------------------------------------------------------------------


def test_a_law_is_widened_to_the_operands_that_there_are() -> None:
    three = widened(layout_laws.push_view, 3)
    assert three is not None
    operator = operator_of(three.left)
    assert operator is not None and len(operands(operator)) == 3
    assert len(three.hypotheses) == 6
    assert widened(layout_laws.compose_views, 2) is None
    one = widened(layout_laws.push_view, 1)
    assert one is not None and one.hypotheses == ()


def test_operands_without_axes_are_part_of_the_function() -> None:
    (plan,) = plans(layout_laws.push_view, Shape(3, (0, 2)))
    assert plan.positions == (0, 2) and len(plan.maps) == 2


def test_a_bijection_in_a_pattern_is_one() -> None:
    """A law may name a bijection, and uses its inverse."""
    b = bijection("b")
    law = Law("there-and-back", "", view(view(X, b), M), view(X, compose(b, M)))
    assert check_rules([law]).reports[0].status == "proved"
    check_can_act(law)
    in_place = Law(
        "moved",
        "",
        combine("op", read(view(X, M), "a")),
        combine("op", read(X, "a")),
        (same_box(M, X), implies(inside(M), same_index(gather(M), HERE))),
    )
    assert check_rules([in_place]).reports[0].status in ("unknown", "refuted")
