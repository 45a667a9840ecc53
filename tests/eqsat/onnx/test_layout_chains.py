"""Chains with a known optimum: what is found moves as few bytes as the body alone, in each of 185 classes.

Long: EQSAT_SEEDS=20 pytest -m slow tests/eqsat/onnx/test_layout_chains.py
"""

from __future__ import annotations

import os

import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import layout_chains as chains

import eqsat as eq
from eqsat.onnx.bytes import bytes_moved
from eqsat.onnx.check import compare_models

pytestmark = pytest.mark.onnx
SEEDS = int(os.environ.get("EQSAT_SEEDS", "3"))
DETOURS = [*chains.ARRANGEMENTS, *chains.PERMUTATIONS]


def moved(name: str, seed: int) -> tuple[int, int, int]:
    """The bytes of a chain as it is, of the result, and of the body alone."""
    model, alone = chains.built(name, seed), chains.built(name, seed, moved=False)
    result = eq.onnx.optimize(model, objective="bytes")
    assert result.checked.difference is None
    before, after, least = (bytes_moved(m).total for m in (model, result.model, alone))
    return before, after, least


def test_there_are_enough_classes() -> None:
    assert len(chains.names()) >= 185


@pytest.mark.parametrize("detour", [*DETOURS[::2], *(pytest.param(d, marks=pytest.mark.slow) for d in DETOURS[1::2])])
def test_a_chain_is_its_body(detour: str) -> None:
    """The generator is right: the detours change nothing but the order of sums, and move bytes."""
    body = next(b for b in ("normalised", "branches") if f"{detour}-{b}" in chains.names())
    model, alone = chains.built(f"{detour}-{body}", 0), chains.built(f"{detour}-{body}", 0, moved=False)
    assert bytes_moved(model).total > bytes_moved(alone).total == 0
    compared = compare_models(model, alone)
    assert compared.equal and compared.can_fail


@pytest.mark.parametrize("detour", DETOURS)
def test_chains_are_at_their_optimum(detour: str) -> None:
    """Each detour with one of the bodies, another one for each; all of them in the long run."""
    bodies = [name for name in chains.names() if name.startswith(f"{detour}-")]
    name = bodies[DETOURS.index(detour) % len(bodies)]
    before, after, least = moved(name, 0)
    assert before > least == after, (name, before, after, least)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", chains.names())
def test_many_chains(name: str) -> None:
    """The same on other seeds; each chain is compared with its body too."""
    for seed in range(SEEDS):
        assert compare_models(chains.built(name, seed), chains.built(name, seed, moved=False)).equal
        _, after, least = moved(name, seed)
        assert after == least, (name, seed, after, least)
