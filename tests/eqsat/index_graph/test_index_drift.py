"""Whatever the rewriter does in one step, below guards too, the index e-graph knows as an equality."""

import random
from collections.abc import Iterator

import pytest
from random_index_terms import any_term, digit_term, predicate
from seeds import some_of

from eqsat.index_graph.graph import IndexGraph, Limits
from eqsat.index_graph.places import Place
from eqsat.ir.dtypes import BOOL, INDEX
from eqsat.ir.rule import Instance, Kind, Rule
from eqsat.ir.terms import term as t
from eqsat.ir.terms.term import Term
from eqsat.ir.terms.walk import postorder, substitute
from eqsat.rewriting.context import Context
from eqsat.rewriting.rewrite import BESIDE, Rewriter, RuleStep, Session
from eqsat.rules import scalar_rules, tagged

AXES = [t.ax(0, 64), t.ax(1, 8), t.ax(2, 5)]
SIZES = [t.sym("N", lower=1), t.sym("M", lower=2, multiple_of=2)]
TRIES = 400
# Rules whose left side the language itself, or the bounds of the rewriter, simplify before any rule is asked.
NEVER_FIRST = {"where-is-predicate", "where-is-opposite"}


def index_value(source: random.Random, kind: Kind) -> Term:
    if kind is Kind.POS:
        return source.choice([t.index_const(source.choice([1, 2, 3, 4, 6, 8, 16])), *SIZES])
    if kind is Kind.NUM:
        return t.index_const(source.choice([-3, -1, 0, 1, 2, 4, 7]))
    parts = [(source.choice([1, 1, 2, 3, 4, -1]), source.choice(AXES)) for _ in range(source.choice([1, 1, 2]))]
    if kind is Kind.NEG:
        return t.linear(0, [(-abs(c), x) for c, x in parts])
    simple = t.linear(source.choice([0, 0, 1, -1, 3, -64]), parts)
    wrapped = t.binary(source.choice(["floordiv", "mod"]), simple, t.index_const(source.choice([2, 4, 5])))
    return source.choice([simple, wrapped, source.choice(AXES), source.choice(AXES) * source.choice(SIZES)])


def value(source: random.Random, kind: Kind, like: Term) -> Term:
    if like.dtype == INDEX:
        return index_value(source, kind)
    if like.dtype == BOOL:
        if source.random() < 0.3:
            return t.compare("lt", t.load(2, [source.choice(AXES)], "int8"), t.const(3, "int8"))
        return t.compare(source.choice(["lt", "le", "eq"]), index_value(source, Kind.IDX), source.choice([1, 2, 5]))
    return t.load(source.choice([0, 1]), [index_value(source, Kind.IDX)], like.dtype)


def instances(source: random.Random, rule: Rule, instance: Instance) -> Iterator[Term]:
    """Left sides over random values, some of them shared."""
    kinds = {p.name: p.kind for p in rule.parameters}
    variables = [v for v in postorder(instance.left) if v.op == "var"]
    for _ in range(TRIES):
        table: dict[Term, Term] = {}
        for v in variables:
            same = [x for k, x in table.items() if k.dtype == v.dtype and kinds[str(k)] is kinds[str(v)]]
            near = same and source.random() < 0.4
            table[v] = source.choice(same) if near else value(source, kinds[str(v)], v)
            if near and kinds[str(v)] is Kind.IDX and source.random() < 0.6:
                table[v] = source.choice([1, -1]) * table[v] + source.choice([-2, -1, 0, 1, 4])
        if not any(
            t.is_const(b, 0) for n in postorder(instance.left) if n.op in ("floordiv", "mod") for b in n.args[1:]
        ):
            yield substitute(instance.left, table)


def steps_known(graph: IndexGraph, rewriter: Rewriter) -> list[str]:
    """The steps of the rewriter at all places of the graph; an AssertionError for one that the graph does not know."""
    places = graph.loader.places.all
    asked: list[tuple[str, Place, Term, Term]] = []
    for number, node in list(graph.loader.loaded):
        place = places[number]
        if place.alive and node.op not in ("axis", "var", "sym", "const"):
            found = rewriter.step(node, place.facts)
            if found is not None:
                asked.append((found.rule, place, found.before, found.after))
    graph.deadline, graph.most_rows = float("inf"), 10**6
    graph.step(terms=True)
    for _, place, _, after in asked:
        graph.loader.load(after, place)
    graph.step()
    graph.settle_bounds()
    graph.graph.run("(run-schedule (run arith))")
    graph.rows = None
    graph.step()
    for rule, place, before, after in asked:
        known = [graph.graph.find(graph.loader.loaded[place.number, e]) for e in (before, after)]
        assert known[0] == known[1], f"{rule} at {place.guards}: {before} = {after}"
    return [rule for rule, *_ in asked]


@pytest.mark.parametrize("rule", scalar_rules(), ids=lambda r: r.name)
@pytest.mark.parametrize("each", some_of([1, 2], 1))
def test_every_rule_acts_in_the_graph(rule: Rule, each: int) -> None:
    """Alone, on its own left sides, in the open and below a guard: so many of its first instance, and of its last."""
    source = random.Random(7)
    rewriter = Rewriter([rule])
    fired = 0
    for instance in (rule.instances[0], rule.instances[-1]):
        for left in instances(source, rule, instance):
            if rewriter.match(left, Context({}, {})) is None:  # in the open, as in the graph
                continue
            fired += 1
            with IndexGraph([rule]) as graph:
                guard = source.choice(AXES) < 3
                other = t.load(5, [AXES[0]], left.dtype) if left.dtype not in (INDEX, BOOL) else AXES[0]
                graph.add(left)
                graph.add(t.logical_and(guard, left) if left.dtype == BOOL else t.where(guard, left, other))
                steps_known(graph, rewriter)
            if fired % each == 0:
                break
    assert fired or rule.name in NEVER_FIRST, f"{rule.name} was never tried"


@pytest.mark.parametrize("seed", some_of(range(8), 3))
def test_random_steps_are_known(seed: int) -> None:
    """All rules together, on random terms and predicates with guards."""
    source = random.Random(seed)
    rewriter = Rewriter(scalar_rules())
    box = {t.var(name): (0, stop) for name, stop in (("i", 24), ("j", 7), ("k", 5))}
    seen: set[str] = set()
    for n in range(12):
        make = (any_term, digit_term)[n % 2]
        term = make(source, 3)
        guard = predicate(source, 1, digit_term)
        term = t.where(guard, term, make(source, 2)) if n % 3 else t.logical_and(guard, term < 9)
        with IndexGraph(ranges=box) as graph:
            graph.add(term)
            seen.update(steps_known(graph, rewriter))
    assert len(seen) >= 5


@pytest.mark.parametrize("most", some_of([8, 20], 1))
def test_members_simplified_by_those_after_them_are_known(most: int) -> None:
    """A step of its own of the rewriter: the first member of a junction, brought into normal form under the others."""
    source = random.Random(3)
    box = {t.var(name): (0, stop) for name, stop in (("i", 24), ("j", 7), ("k", 5))}
    rewriter = Rewriter(tagged("normal"))
    tried = 0
    while tried < most:
        members = [predicate(source, 1, digit_term) for _ in range(2)]
        log: list[RuleStep] = []
        Session(rewriter, box).normal(t.junction(source.choice(["and", "or"]), members), log)
        for step in log:
            if step.rule == BESIDE and step.before.op in ("and", "or"):
                tried += 1
                with IndexGraph(tagged("normal"), box) as graph:
                    roots = graph.add(step.before), graph.add(step.after)
                    graph.run(Limits(rows=20_000, iterations=8, seconds=20), target=roots)
                    assert graph.equal(*roots), step
