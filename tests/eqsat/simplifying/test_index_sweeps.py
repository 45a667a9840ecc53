"""Seeded sweeps over random index terms and predicates: `simplify` and `decide` against enumeration, and how often
equal terms are printed equal. The short sweeps run always; the long ones behind the marker `slow`."""

import random
import warnings
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from random_index_terms import LEAVES, any_term, digit_term, predicate

from eqsat.index_graph.cost import cost
from eqsat.ir.dtypes import NDArray
from eqsat.ir.points import grid
from eqsat.ir.terms import term as t
from eqsat.ir.terms.evaluate import blocks, evaluate_masked
from eqsat.ir.terms.tables import load_table, table_load
from eqsat.ir.terms.term import Term
from eqsat.proving.prover import Portfolio
from eqsat.simplifying.simplify import simplify_term

Box = dict[Term, tuple[int, int]]
Maker = Callable[[random.Random], Term]
TABLE = np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3])


@pytest.fixture(autouse=True)
def _no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", "off")


# -- random terms -----------------------------------------------------------------------------------------------------


def looked_up(source: random.Random) -> Term:
    """A predicate with a look-up in a table."""
    return t.logical_or(predicate(source, 3, any_term), table_load(TABLE, any_term(source, 2) % 16) <= 4)


KINDS: dict[str, Maker] = {
    "digits": lambda source: digit_term(source, source.choice([1, 2, 3])),
    "terms": lambda source: any_term(source, source.choice([2, 3])),
    "digit predicates": lambda source: predicate(source, source.choice([2, 3]), digit_term),
    "predicates": lambda source: predicate(source, 3, any_term),
}


def small_box(source: random.Random) -> Box:
    choices = ([4, 8, 12, 14, 16, 24], [2, 3, 4, 5, 8], [2, 4, 6])
    return {leaf: (0, source.choice(extents)) for leaf, extents in zip(LEAVES, choices, strict=True)}


def values(term: Term, box: Box) -> tuple[NDArray, NDArray]:
    """The values over a box, and where there are none."""
    shape = tuple(stop - start for start, stop in box.values())
    value, bad = evaluate_masked([term], grid(box), load_table)[0]
    return np.broadcast_to(value, shape), np.broadcast_to(False if bad is None else bad, shape)


# -- simplify ---------------------------------------------------------------------------------------------------------


def sweep_simplify(kind: str, count: int, seed: int) -> None:
    source = random.Random(f"{kind}{seed}")
    for _ in range(count):
        box, e = small_box(source), KINDS[kind](source)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # a result that was computed and then discarded is a failure too
            found = simplify_term(e, box)
        where = f"{e} -> {found} over {box}"
        (before, undefined), (after, undefined_after) = values(e, box), values(found, box)
        assert not np.any(~undefined & (undefined_after | (before != after))), where
        assert cost(found) <= cost(e), where
        assert simplify_term(found, box) is found, where
        if not undefined.any() and (before == before.flat[0]).all():
            assert found.op == "const", f"{where}: has one value"


@pytest.mark.parametrize("kind", KINDS)
def test_simplified_is_equal_smaller_and_settled(kind: str) -> None:  # feature: D17 A15
    sweep_simplify(kind, 20, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_simplified_is_equal_smaller_and_settled_long(kind: str) -> None:
    sweep_simplify(kind, 2500, 2)


# -- equal terms are printed equal ------------------------------------------------------------------------------------


def layout_chain(source: random.Random, extents: list[int], steps: int) -> tuple[list[Term], Box]:
    """What axes become under a chain of splits, merges, exchanges, reversals and rotations."""
    axes = [t.var(name) for name, _ in zip("abcdef", extents, strict=False)]
    current = list(zip(axes, extents, strict=True))
    for _ in range(steps):
        kind, k = source.random(), source.randrange(len(current))
        x, extent = current[k]
        if kind < 0.4:
            divisors = [d for d in range(2, extent + 1) if extent % d == 0]
            d = source.choice(divisors) if divisors else 1
            current[k : k + 1] = [(x // d, extent // d), (x % d, d)]
        elif kind < 0.75 and k + 1 < len(current):
            y, inner = current[k + 1]
            current[k : k + 2] = [(x * inner + y, extent * inner)]
        elif kind < 0.9:
            other = source.randrange(len(current))
            current[k], current[other] = current[other], current[k]
        else:
            current[k] = source.choice([(extent - 1 - x, extent), ((x + 1) % extent, extent)])
    return [x for x, _ in current], {a: (0, e) for a, e in zip(axes, extents, strict=True)}


def families(kind: str, count: int, seed: int) -> list[tuple[Box, list[Term]]]:
    """Terms with the same values over a box."""
    source = random.Random(f"{kind}{seed}")
    result: list[tuple[Box, list[Term]]] = []
    for n in range(3):
        box: Box = {leaf: (0, e) for leaf, e in zip(LEAVES, ((16, 4, 2), (24, 3, 4), (14, 8, 6))[n], strict=True)}
        extents = ([16], [4, 16], [2, 12, 4])[n]
        by_value: dict[bytes, dict[Term, None]] = {}
        for _ in range(count):
            made = [KINDS[kind](source)] if kind in KINDS else []
            if not made:
                made, box = layout_chain(source, extents, source.choice([3, 6, 9]))
            for e in made:
                value, bad = values(e, box)
                if not bad.any():
                    by_value.setdefault(value.tobytes() + str(value.dtype).encode(), {})[e] = None
        result += [(box, list(f)[:8]) for f in by_value.values() if len(f) > 1]
    return result


@pytest.mark.parametrize("count", [50, pytest.param(120, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("kind", "least"), [("layouts", 0.99), ("digits", 0.99), ("digit predicates", 0.93), ("terms", 0.88)]
)
def test_equal_terms_are_printed_equal(kind: str, least: float, count: int) -> None:  # feature: A15 A16
    """Of all pairs of terms with the same values, most have the same simplest form."""
    pairs = agree = 0
    for box, family in families(kind, count, 1):
        found = Counter(simplify_term(e, box) for e in family)
        pairs += len(family) * (len(family) - 1) // 2
        agree += sum(n * (n - 1) // 2 for n in found.values())
    assert pairs > 30 and agree >= least * pairs, (agree, pairs)


# -- decide -----------------------------------------------------------------------------------------------------------


def large_box(source: random.Random) -> Box:
    """Up to a million points, in one to three axes, some of which do not begin at zero."""
    left, rank = source.choice([1000, 50_000, 1_000_000]), source.choice([1, 2, 3])
    box: Box = {}
    for n, leaf in enumerate(LEAVES):
        most = 1 if n >= rank else left if n == rank - 1 else int(left**0.5)
        extent = source.randint(1, max(1, most))
        extent = 1 << (extent.bit_length() - 1) if source.random() < 0.5 else extent
        left //= extent
        start = source.choice([0, 0, 0, -5, 3])
        box[leaf] = (start, start + extent)
    return box


def truth(goal: Term, box: Box) -> str:
    """The decision by trying every point."""
    somewhere, everywhere = False, True
    whole = grid(box)
    for block in blocks([stop - start for start, stop in box.values()], 1 << 18):
        env = {
            leaf: axis[tuple(block[n] if d == n else slice(None) for d in range(len(box)))]
            for n, (leaf, axis) in enumerate(whole.items())
        }
        value, bad = evaluate_masked([goal], env, load_table)[0]
        holds = value if bad is None else np.logical_and(value, np.logical_not(bad))
        somewhere, everywhere = somewhere or bool(holds.any()), everywhere and bool(holds.all())
    return "always" if everywhere else "sometimes" if somewhere else "never"


def sweep_decide(kind: str, count: int, seed: int) -> None:
    source, ask = random.Random(f"{kind}{seed}"), Portfolio(cached=False)
    make = {**KINDS, "look-ups": looked_up}[kind]
    for _ in range(count):
        box, goal = large_box(source), make(source)
        assert ask.decide(goal, box) == truth(goal, box), f"{goal} over {box}"


@pytest.mark.parametrize("kind", ["digit predicates", "predicates", "look-ups"])
def test_decisions_are_complete_and_right(kind: str) -> None:  # feature: D17
    """Never unknown on concrete boxes of up to a million points, and always what enumeration says."""
    sweep_decide(kind, 80, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["digit predicates", "predicates", "look-ups"])
def test_decisions_are_complete_and_right_long(kind: str) -> None:
    sweep_decide(kind, 2500, 2)
