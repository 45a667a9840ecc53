"""The index e-graph: sums modulo their rest, linear growth, guards that do not leak, alarms, limits, explanations."""

import itertools
import random
import warnings
from collections.abc import Callable, Mapping, Sequence

import pytest

from eqsat.graph.egglog_adapter import EngineFailure
from eqsat.index_graph import stage
from eqsat.index_graph.compile import NotCompiled, compile_rule
from eqsat.index_graph.cost import cost
from eqsat.index_graph.explain import explain_terms, smallest
from eqsat.index_graph.graph import IndexGraph, Limits, Unsound
from eqsat.index_graph.places import Places
from eqsat.index_graph.reversed import reversed_rule
from eqsat.ir.rule import Idx, Pos, Rule, RuleError, rule, when
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.text import parse_expr
from eqsat.proving.rules import normaliser
from eqsat.rewriting.context import Context
from eqsat.rewriting.rewrite import Session
from eqsat.rulebook import check_rules
from eqsat.rules import normal_rules, scalar_rules, tagged
from eqsat.simplifying.simplify import simplify_term

PATIENT = Limits(rows=20_000, seconds=20, patience=30)


def simplest(
    terms: Sequence[Term], ranges: Mapping[Term, tuple[int, int]], rules: Sequence[Rule] | None = None
) -> list[Term]:
    """The cheapest terms that the rules make equal to these, over one graph."""
    with IndexGraph(rules, ranges) as graph:
        for term in terms:
            graph.add(term)
        graph.run()
        return [graph.best(k) for k in range(len(terms))]


def axes(*extents: int) -> list[Term]:
    return [t.ax(n, e) for n, e in enumerate(extents)]


def split_merge_problem(rest: int) -> tuple[Term, Term]:
    x, *others = axes(1000, *(50 + k for k in range(rest)))
    tail = sum(((3 + 2 * k) * a for k, a in enumerate(others)), start=t.index_const(11))
    return x // 16 * 80 + x % 16 * 5 + tail, 5 * x + tail


def pairs_problem(pairs: int) -> tuple[Term, Term]:
    xs = axes(*(100 for _ in range(pairs)))
    left = sum(((5 + 2 * k) * (x // 4 * 4 + x % 4) for k, x in enumerate(xs)), start=t.index_const(0))
    return left, sum(((5 + 2 * k) * x for k, x in enumerate(xs)), start=t.index_const(0))


def div_of_sum_problem(width: int) -> tuple[Term, Term]:
    *xs, y, z = axes(*(20 + k for k in range(width)), 8, 8)
    high = sum(((k + 1) * x for k, x in enumerate(xs)), start=t.index_const(0))
    return (64 * high + 8 * y + z) // 64, high


def digits_problem(count: int) -> tuple[Term, Term]:
    (x,) = axes(4**count)
    digits = [x // 4**d % 4 if d < count - 1 else x // 4**d for d in range(count)]
    left = sum((3 * 4**d * digit for d, digit in enumerate(digits)), start=t.index_const(0))
    return left, 3 * x


PROBLEMS: list[tuple[Callable[[int], tuple[Term, Term]], tuple[int, ...]]] = [
    (split_merge_problem, (2, 4, 8)),
    (pairs_problem, (2, 4, 8)),
    (div_of_sum_problem, (2, 4, 8)),
    (digits_problem, (2, 4, 8)),
]


@pytest.mark.parametrize(("problem", "sizes"), PROBLEMS, ids=lambda p: getattr(p, "__name__", ""))
def test_sums_modulo_the_rest(problem: Callable[[int], tuple[Term, Term]], sizes: tuple[int, ...]) -> None:
    """The optimum is found, and rows grow about linearly with the number of summands (digits: squared), by the rules
    that make terms smaller; what the others add is limited by the costs of what they make, and by rows."""
    rows: list[int] = []
    for size in sizes:
        given, wanted = problem(size)
        graph = IndexGraph(normal_rules())
        root = graph.add(given)
        rows.append(graph.run(PATIENT).rows)
        assert graph.best(root) is wanted
    power = 2 if problem is digits_problem else 1
    assert rows[-1] <= rows[0] * (sizes[-1] / sizes[0]) ** power * 1.3, rows


def test_every_order_and_scale() -> None:
    x, y, z = axes(64, 9, 7)
    orders = itertools.islice(itertools.permutations(range(4)), 0, 24, 3)
    for scale, order in itertools.product((-3, 2), orders):
        parts = [scale * 8 * (x // 8), scale * (x % 8), 7 * y, z // 2]
        shuffled = t.linear(5, [(1, parts[k]) for k in order])
        assert simplest([shuffled], {})[0] is scale * x + 7 * y + z // 2 + 5


def test_layout_chain_becomes_the_identity() -> None:
    """NCHW -> NCHW16c -> NCHW8c -> NCHW, by the index terms alone."""
    n, c, h, w = axes(2, 64, 14, 14)
    channel = c // 16 * 16 + c % 16
    channel = channel // 8 * 8 + channel % 8
    flat = ((n * 64 + channel) * 14 + h) * 14 + w
    back = [flat // (64 * 196), flat // 196 % 64, flat // 14 % 14, flat % 14]
    assert [str(b) for b in simplest(back, {})] == ["i0", "i1", "i2", "i3"]


def test_reshapes_cancel() -> None:
    """Flatten a permuted tensor, cut it anew in the same shape, and permute back."""
    shape = [4, 6, 3, 8]
    xs = axes(*shape)
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 4):
        flat = t.index_const(0)
        for k in order:
            flat = flat * shape[k] + xs[k]
        back: list[Term] = [flat] * 4
        for k in reversed(order):
            back[k], flat = flat % shape[k], flat // shape[k]
        assert all(found is x for found, x in zip(simplest(back, {}), xs, strict=True)), order


# -- soundness --------------------------------------------------------------------------------------------------------


def test_guard_facts_do_not_leak() -> None:
    """With i < 4 in one `where`, an unrelated x[i // 4] must not become x[0]."""
    (i,) = axes(16)
    load = t.load(0, [i // 4], "float32")
    guarded = t.where(i < 4, t.cast_to(i // 4 + 7, "float32"), load)
    inside, outside = simplest([guarded, load], {})
    assert str(outside) == "$0[i0 // 4]"
    assert str(inside) == "where(i0 < 4, float32(7.0), $0[i0 // 4])"


def test_an_impossible_guard_states_nothing() -> None:
    """What holds nowhere, by its bounds or by a proof, has no facts: they would make all numbers equal."""
    (i,) = axes(16)
    for guard, found in ((i < 0, "i0 + 2"), (t.compare("eq", i * i % 4, 2), "where(i0*i0 % 4 == 2, i0 + 1, i0 + 2)")):
        graph = IndexGraph(rules=[])
        root = graph.add(t.where(guard, i + 1, i + 2))
        graph.run()
        assert str(graph.best(root)) == found


def test_guards_of_members_do_not_leak() -> None:
    """The second member of a junction is simplified where the first one holds, and the same term elsewhere is not."""
    (i,) = axes(16)
    second = (i // 4 * 3 + i) % 5 < 2
    inside, outside = simplest([t.logical_and(i < 4, second), second], {})
    assert str(inside) == "i0 < 4 and i0 % 5 < 2" or str(inside) == "i0 < 2"
    assert outside is second


def test_values_are_never_integers() -> None:
    """Equal numbers of different types, and values of their own sort, stay apart."""
    i = t.var("i", 16)
    ones = [t.const(1, d) for d in ("int8", "int16", "float32")] + [t.index_const(1), t.TRUE]
    zeros = [t.const(0.0, "float32"), t.const(-0.0, "float32")]
    with IndexGraph() as graph:
        roots = [graph.add(e) for e in (*ones, *zeros)]
        graph.add(t.cast_to(i // 16 + 1, "int8") * t.const(1, "int8"))
        graph.run()
        assert len({graph.graph.find(graph.roots[r]) for r in roots}) == len(roots)


def test_an_empty_axis_states_nothing() -> None:
    (empty, i) = (t.ax(0, 0), t.ax(1, 8))
    graph = IndexGraph()
    roots = [graph.add(e) for e in (empty, empty + 5, i)]
    graph.run()
    assert not graph.equal(roots[0], roots[1]) and not graph.equal(roots[0], roots[2])


@rule("unsound: floor")
def unsound_floor(x: Idx, c: Pos):
    return x // c, 0, when(x >= 0)


@rule("unsound: remainder")
def unsound_remainder(x: Idx, c: Pos):
    return x % c, x, when(x >= 0)


CONTRADICTED = [(unsound_floor, "(i + 32) // 16"), (unsound_remainder, "(i*i + 20) % 4")]


@pytest.mark.parametrize(("unsound", "text"), CONTRADICTED)
def test_contradictions_are_alarms(unsound: Rule, text: str) -> None:  # feature: J7
    i = t.var("i", 16)
    for rules, fails in ((scalar_rules(), False), ([*scalar_rules(), unsound], True)):
        graph = IndexGraph(rules)
        graph.add(parse_expr(text, {"i": i}))
        if fails:
            with pytest.raises(Unsound):
                graph.run(PATIENT)
        else:
            assert graph.run(PATIENT).status in ("saturated", "settled")


def test_zero_divisors_are_left_alone() -> None:
    """And negative ones keep their meaning."""
    (i,) = axes(16)
    terms = [t.make("floordiv", (i, t.index_const(0))), t.make("mod", (i, t.index_const(-3)))]
    zero, negative = simplest(terms, {})
    assert zero is terms[0]
    assert all(exact(negative, {i: value}) == value % -3 for value in range(16))


def test_large_numbers_stay_exact() -> None:
    (i,) = axes(1 << 40)
    big = 1 << 61
    terms = [(i * big + 5) // big, (i * (1 << 70)) // (1 << 70), i * big * 4 + i % 2]
    for found, given in zip(simplest(terms, {}), terms, strict=True):
        for value in (0, 1, 3, (1 << 40) - 1):
            assert exact(found, {i: value}) == exact(given, {i: value})


def exact(e: Term, env: dict[Term, int]) -> int:
    """The value in Python integers."""
    if e in env:
        return env[e]
    if e.op == "const":
        return e.payload
    args = [exact(a, env) for a in e.args]
    if e.op == "sum":
        return e.payload[0] + sum(k * a for k, a in zip(e.payload[1], args, strict=True))
    value = t.fold_index(e.op, args[0], args[1])
    assert value is not None
    return value


def test_open_conditions_are_proved() -> None:
    """The bounds do not tell that i * (i + 1) is even; without the prover the rule does not act."""
    i = t.var("i", 1 << 40)
    even = i * i + i
    term = even // 2 * 2 + i % 7
    rules = [r for r in scalar_rules() if r.name in ("split-exact", "split-merge")]
    for most, found in ((4, even + i % 7), (0, term)):
        with IndexGraph(rules) as graph:
            graph.terms.obligations.most = most
            root = graph.add(term)
            graph.add(even // 3 * 3)
            graph.run()
            assert graph.best(root) is found
            asked = {str(claim): answer for (claim, _), answer in graph.terms.obligations.answers.items()}
            assert asked["(i*i + i) % 3 == 0"] is False and asked["(i*i + i) % 2 == 0"] is bool(most)


# -- limits and reading -----------------------------------------------------------------------------------------------


def test_limits_end_a_run() -> None:
    xs = axes(6, 4, 6, 8, 3, 5)
    flat = t.index_const(0)
    for x in xs:
        flat = flat * t.as_index(t.int_value(x.args[0]) or 1) + x
    for limits, status in (
        (Limits(rows=60), "row-limit"),
        (Limits(iterations=1, patience=9), "iteration-limit"),
        (Limits(seconds=0.0, patience=9), "time-limit"),
    ):
        graph = IndexGraph()
        root = graph.add(flat // 40 % 6)
        outcome = graph.run(limits)
        assert outcome.status == status
        assert cost(graph.best(root)) <= cost(flat // 40 % 6)


def test_data_operations_are_opaque_but_their_indices_are_not() -> None:
    (i,) = axes(64)
    load = t.load(0, [i // 8 * 8 + i % 8, i], "int8")
    e = load * t.const(2, "int8") // t.const(2, "int8")
    (found,) = simplest([e], {})
    assert str(found) == "$0[i0, i0]*int8(2) // int8(2)"


def test_what_is_read_from_data_is_no_data() -> None:
    """An index as an operand of data has a class of data, and what is cast back from data one of integers."""
    a, b, i, three = t.var("a", 256), t.var("b", 20), t.var("i", 12), t.const(3, "int8")
    product = t.cast_to(t.cast_to(a, "uint8") * t.cast_to(t.binary("min", a, b), "uint8"), t.INDEX)
    e = t.compare("eq", product, t.binary("min", i + b + 3, a))
    assert simplify_term(e, {}, b >= 1).op == "eq"
    turned = t.cast_to(t.const(0, "int8") - t.cast_to(t.where(a < 8, t.index_const(3), i), "int8"), t.INDEX)
    chosen = t.where(t.logical_or(a != 3, t.compare("eq", i, 10)), -a, i)
    for term in (turned + a, t.compare("eq", chosen, turned), t.cast_to(-three, t.INDEX) + turned):
        assert simplify_term(term, {}, t.logical_and(a >= 2, a < 8)).dtype == term.dtype


def test_wide_operations_come_back() -> None:
    xs = axes(4, 4, 4, 4, 4)
    load = t.load(3, [x // 4 + x for x in xs], "float32")
    assert str(simplest([load], {})[0]) == "$3[i0, i1, i2, i3, i4]"


@pytest.mark.parametrize("text", ["x // 4 < 3 and x % 2 == 1", "not (x < 3 or y == 4)", "x*y // 4 + y*x", "abs(x - 3)"])
def test_loading_and_reading_is_the_identity(text: str) -> None:
    e = parse_expr(text)
    graph = IndexGraph(rules=[])
    root = graph.add(e)
    graph.step()
    found = graph.best(root)
    source = random.Random(1)
    for _ in range(40):
        env = {n: source.randint(-9, 9) for n in ("x", "y") if n in text}
        assert found.evaluate(env) == e.evaluate(env)


def test_compiled_rules_are_those_of_arithmetic() -> None:
    """egglog matches the laws of sums itself; the reason is said where it does not."""
    engine = IndexGraph().engine
    assert {"split-merge", "div-low", "mod-add", "le-digit"} <= engine.compiled
    assert engine.skipped.keys() == set(engine.names) - engine.compiled and all(engine.skipped.values())

    @rule("three bare summands")
    def bare(x: Idx, y: Idx, z: Idx, c: Pos):
        return (x + y + z) // c, x // c + (y + z) // c

    with pytest.raises(RuleError, match=r"K\*x \+ y"):
        compile_rule(bare, 0)
    with pytest.raises(NotCompiled, match="not about indices"):
        compile_rule(next(r for r in scalar_rules() if r.name == "where-and"), 0)


def test_rules_from_right_to_left_are_the_same_laws() -> None:
    """Each tagged one can be turned, is proved that way too, and acts only in the e-graph."""
    chosen = tagged("both")
    assert len(chosen) >= 5
    report = check_rules([reversed_rule(r) for r in chosen])
    assert report.ok, report
    with pytest.raises(RuleError, match="does not say what its parameters are"):
        reversed_rule(next(r for r in scalar_rules() if r.name == "split-merge"))
    i = t.var("i", 1 << 20)
    back = t.linear(7, [(-1, (i + 13) // 16)])
    assert Session(normaliser()).normal(back) is back
    with IndexGraph() as graph:
        roots = graph.add(back), graph.add((2 - i) // 16 + 7)
        graph.run(target=roots)
        assert graph.equal(*roots)


def test_a_comparison_that_folds_is_read() -> None:
    """Both sides become one sum, so that nothing is left to compare."""
    names = {name: t.var(name, size) for name, size in (("io", 4), ("ii", 4), ("f", 3))}
    term = parse_expr("(4*io + ii + f) // 4 == io + (ii + f) // 4", names)
    assert simplest([term], {}) == [t.TRUE]


def test_a_refused_command_is_one_error() -> None:
    graph = IndexGraph(rules=[])
    with pytest.raises(EngineFailure):
        graph.graph.run("(run-schedule (run nosuch))")


# -- explanations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "ranges", "rules"),
    [
        ("x // 4 * 8 + x % 4 * 2 + y", "2*x + y", {}, ("split-merge",)),
        ("x // 2 // 3", "x // 6", {}, ("div-div",)),
        ("4*io + ii < 14", "not (io == 3 and ii >= 2)", {"io": 4, "ii": 4}, ("eq-two-sides", "le-merge-and")),
        ("x + 1", "1 + x", {}, ()),
    ],
)
def test_explanations_name_the_rules(a: str, b: str, ranges: dict[str, int], rules: tuple[str, ...]) -> None:
    found = explain_terms(a, b, ranges)  # feature: J4
    assert found.equal and found.rules == rules
    for steps in found.steps:
        for step in steps:
            assert step.rule and step.before is not step.after


def test_explanations_do_not_invent() -> None:
    assert not explain_terms("x // 4", "x // 5").equal
    assert str(explain_terms("x % 3", "x % 4")) == "not found equal"


def test_every_class_keeps_a_term() -> None:
    """Forms that gave way to better ones stay readable: the better one may lead back to the class."""
    (a,) = axes(6)
    low = a % 2 * 3 + a // 2
    high = low // 3 // 2 * 2 + low // 3 % 2
    assert cost(simplest([high // 2 * 6 + high % 2 * 3 + low % 3], {})[0]) <= cost(low)


def test_an_explanation_by_the_e_graph_alone() -> None:
    """Both directions of a law that is not normal."""
    a, b = "minimum(x, y) // 3", "minimum(x // 3, y // 3)"
    assert explain_terms(a, b).rules == ("min-div",)


def test_smallest_subset() -> None:
    rules = normal_rules()[:12]
    wanted = {rules[2].name, rules[7].name, rules[9].name}
    found = smallest(rules, lambda chosen: wanted <= {r.name for r in chosen})
    assert {r.name for r in found} == wanted


def test_what_holds_nowhere_beside_an_assumption_states_nothing() -> None:
    """The guard holds somewhere, and so does the assumption, but not together: no number is another one for that."""
    i, j = (t.var(name, 1 << 20) for name in "ij")
    assumed = t.logical_and(i + j < 10, j >= 3)
    with IndexGraph(facts=Context({}, {}).under(assumed)) as graph:
        graph.state(assumed)
        root = graph.add(t.where(i * i > 200, i // 64 + j, i // 64))
        graph.run()
        assert str(graph.best(root)) == "where(201 <= i*i, i // 64 + j, 0)" or str(graph.best(root)) == "0"


def test_what_is_defined_nowhere_where_it_holds_states_nothing() -> None:
    """A guard that is undefined somewhere and false elsewhere holds nowhere: its facts would contradict the rest."""
    i, v, y = t.var("i", 12), t.var("v", 256), t.var("y")
    rest = v % t.binary("truncdiv", i, y)  # at most 2, or by 0
    data = t.cast_to(t.cast_to(-y, "uint16"), "index")  # 65530 or more
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        simplify_term(t.compare("ne", rest, data), {y: (3, 7)})
    places = Places(Context({y: (3, 7)}, {}))
    guards = (rest < data, data < rest, t.compare("le", data, rest), t.compare("ne", rest, data))
    assert [places.under(places.top, [g], v).alive for g in guards] == [True, False, False, True]


def test_the_second_stage_is_the_same_in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    i = t.var("i")
    term = 255 - (251 - i) % 256
    known = stage.Known({i: (0, 256)}, {i: (0, 256)}, i < 200)
    here = stage.other_form(term, term, known)
    monkeypatch.setattr(stage, "usable", lambda: False)
    assert stage.other_form(term, term, known) is here is i + 4
    monkeypatch.setattr(stage, "MOST", 3)
    assert stage.other_form(term, term, known) is term
