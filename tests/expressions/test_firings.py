"""Every rule and law fires on its recorded examples, wherever `eqsat rules list` says that it acts."""

from typing import Any

import find_firings
import pytest
from find_firings import FIRINGS, PLACES, fired_by
from seeds import some_of

from eqsat.rulebook.acting import acts, law_acts
from eqsat.rulebook.firings import firings
from eqsat.rules import scalar_rules, tensor_laws
from eqsat.rules.statement_laws import STATEMENT_LAWS, all_declared

# What the intervals of the rewriter settle before it tries a rule.
SETTLED = {("div-small", "rewriter"), ("eq-where", "rewriter")}
RECORDED = [(name, place, row) for name, places in firings().items() for place, row in places.items()]


@pytest.fixture(autouse=True)
def no_verdicts_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that a rule gave before must not stand in for it."""
    monkeypatch.setenv("EQSAT_CACHE", "off")


HALF = {"graph", "proofs"}
"""Places of which every second example is asked in each run, for the others take as long as all else here."""


@pytest.mark.parametrize("every", some_of([2, 1], 1))
@pytest.mark.parametrize("place", PLACES)
def test_recorded_firings_fire_again(place: str, every: int) -> None:
    """Each on its own example; examples that several share are asked once."""
    wanted: dict[str, tuple[dict[str, Any], set[str]]] = {}
    for name, where, row in RECORDED:
        if where == place:
            wanted.setdefault(str(row), (row, set()))[1].add(name)
    asked = [*wanted.items()][:: every if place in HALF else 1]
    missing = {key: names - fired_by(row, place) for key, (row, names) in asked}
    assert wanted and not any(missing.values()), {k: v for k, v in missing.items() if v}


def test_all_that_acts_is_recorded() -> None:
    claimed = {(r.name, place) for r in scalar_rules() for place in acts(r)}
    claimed |= {(law.name, place) for law in tensor_laws() for place in law_acts(law)}
    claimed |= {(law.name, place) for law in STATEMENT_LAWS for place in law.acts}
    assert {(name, place) for name, place, _ in RECORDED} == claimed - SETTLED


def test_names_are_given_once() -> None:
    names = [r.name for r in all_declared()]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_firings_are_found_again() -> None:
    text = FIRINGS.read_text()
    try:
        find_firings.main([])
        firings.cache_clear()
        assert {(name, place) for name, places in firings().items() for place in places} == {r[:2] for r in RECORDED}
    finally:
        FIRINGS.write_text(text)
        firings.cache_clear()
