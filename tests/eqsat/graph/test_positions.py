"""Permutations of positions along an axis: they pass through every operator that treats the positions alike."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from flat_build import flip, permute
from seeds import each_value, some_of

import eqsat as eq
from eqsat.graph.encode import encode
from eqsat.graph.search import Limits, Snapshot, run, task_of
from eqsat.ir.flat.table import Map
from eqsat.ir.flat.tabled import from_array
from eqsat.ir.tensors.run import evaluate_outputs
from eqsat.ir.tensors.tensor import Compute, Opaque, as_program
from eqsat.ir.terms import term as t
from eqsat.operators import positions
from eqsat.operators.bundles import of_opaque
from eqsat.operators.labels import CanonicalOp, canonicalise, of_compute
from eqsat.operators.positions import moved, moves_positions

Array = np.ndarray[Any, Any]


def _canonical(x: eq.Tensor) -> CanonicalOp:
    node = x.node
    assert isinstance(node, Compute | Opaque)
    return canonicalise(of_compute(node) if isinstance(node, Compute) else of_opaque(node)).operator


def _along(shape: tuple[int, ...], axis: int, order: list[int]) -> Map:
    cells = np.arange(int(np.prod(shape))).reshape(shape)
    return from_array(np.take(cells, order, axis).reshape(-1), cells.size)


def _searched(y: eq.Tensor) -> Snapshot:
    last: list[Snapshot] = []
    run(task_of(encode(as_program(y)), "onnx", Limits()), last.append)
    return last[-1]


def _constant(shape: tuple[int, ...], dtype: str = "float32", seed: int = 0) -> eq.Tensor:
    return eq.constant(np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype))


# -- what an operator allows -------------------------------------------------------------------------------------------


def test_which_maps_move_positions() -> None:
    assert moves_positions(flip((2, 3), (1,))) and moves_positions(_along((2, 3), 1, [1, 2, 0]))
    assert not moves_positions(permute((2, 3), (1, 0))) and not moves_positions(from_array([0, 0, 1], 3))


def test_rows_columns_and_what_is_summed_of_a_product() -> None:
    a, b = eq.input("a", (5, 3), "float32"), eq.input("b", (3, 7), "float32")
    product = _canonical(eq.matmul(a, b))
    rows, inner, columns = [4, 2, 0, 1, 3], [2, 0, 1], [6, 5, 4, 3, 2, 1, 0]
    found = moved(product, 0, _along((5, 3), 0, rows))
    assert found is not None and found[1].is_identity and found[2] == _along((5, 7), 0, rows)
    found = moved(product, 0, _along((5, 3), 1, inner))
    assert found is not None and found[1] == _along((3, 7), 0, inner) and found[2].is_identity
    found = moved(product, 2, _along((5, 7), 1, columns))
    assert found is not None and found[0].is_identity and found[1] == _along((3, 7), 1, columns)


def test_a_batch_and_rows_that_only_one_operand_has_together() -> None:
    """Positions over the batch and the rows at once pass to the operand that has both, and not where another operand
    has the batch alone."""
    a, b = eq.input("a", (2, 5, 3), "float32"), eq.input("b", (3, 7), "float32")
    mixed = np.random.default_rng(0).permutation(10).tolist()
    alone = moved(_canonical(eq.matmul(a, b)), 0, _along((10, 3), 0, mixed))
    assert alone is not None and alone[2] == _along((10, 7), 0, mixed)
    both = _canonical(eq.matmul(a, eq.input("c", (2, 3, 7), "float32")))
    assert moved(both, 0, _along((10, 3), 0, mixed)) is None
    assert moved(both, 0, _along((2, 5, 3), 0, [1, 0])) == (
        _along((2, 5, 3), 0, [1, 0]),
        _along((2, 3, 7), 0, [1, 0]),
        _along((2, 5, 7), 0, [1, 0]),
    )


def test_roles_decide() -> None:
    x = eq.input("x", (4, 6), "float32")

    def op(**roles: str) -> CanonicalOp:
        made = eq.opaque("f", [x], [((4, 6), "float32")], signature=eq.Signature.parse("n c -> n c", **roles))
        return _canonical(made[0])

    along = _along((4, 6), 1, [1, 2, 3, 4, 5, 0])
    mixed = _along((24,), 0, np.random.default_rng(0).permutation(24).tolist())
    assert moved(op(map="n", equivariant="c"), 0, along) == (along, along)
    assert moved(op(map="n", equivariant="c"), 0, mixed) is None
    assert moved(op(map="n c"), 0, mixed) == (mixed, mixed)
    assert moved(op(map="n"), 0, along) is None and moved(op(), 0, flip((4, 6), (0,))) is None


def test_ordered_sums_and_impure_operators_stay() -> None:
    x = eq.input("x", (4, 6), "float32")
    i, k = t.ax(0, 4), t.red(0, 6)
    ordered = Compute([x], (4,), t.load(0, [i, k], "float32"), (6,), "sum", None, True)
    free = Compute([x], (4,), t.load(0, [i, k], "float32"), (6,), "sum", None, False)
    along = _along((4, 6), 1, [5, 4, 3, 2, 1, 0])
    assert moved(canonicalise(of_compute(ordered)).operator, 0, along) is None
    assert moved(canonicalise(of_compute(free)).operator, 0, along) is not None
    rows = _along((4, 6), 0, [1, 0, 2, 3])
    assert moved(canonicalise(of_compute(ordered)).operator, 0, rows) is not None
    signature = eq.Signature.parse("n c -> n c", map="n c")
    noise = eq.opaque("noise", [x], [((4, 6), "float32")], signature=signature, pure=False)
    assert moved(_canonical(noise[0]), 0, rows) is None


# -- programs ----------------------------------------------------------------------------------------------------------


def _normalised(x: eq.Tensor, axis: int) -> eq.Tensor:
    centred = x - x.mean((axis,), keepdims=True)
    return centred / eq.sqrt((centred * centred).mean((axis,), keepdims=True) + 1.0)


BODIES: dict[str, Callable[[eq.Tensor], eq.Tensor]] = {
    "softmax": lambda x: x.softmax(3),
    "softmax along": lambda x: x.softmax(2),
    "normalised": lambda x: _normalised(x, 3),
    "normalised along": lambda x: _normalised(x, 2),
    "product": lambda x: eq.matmul(x, _constant((6, 6))),
    "two": lambda x: eq.matmul(x, _constant((6, 4))).softmax(1) + 1.0,
}
ORDER = np.random.default_rng(1).permutation(20)
MOVES: dict[str, tuple[Callable[[eq.Tensor], eq.Tensor], Callable[[eq.Tensor], eq.Tensor]]] = {
    "flip": (lambda y: y.flip((2,)), lambda y: y.flip((2,))),
    "roll": (lambda y: y.roll(7, 2), lambda y: y.roll(-7, 2)),
    "take": (lambda y: y.take(ORDER, 2), lambda y: y.take(np.argsort(ORDER), 2)),
}


@each_value(name=BODIES, kind=MOVES)
def test_what_is_put_back_is_not_moved(name: str, kind: str) -> None:
    there, back = MOVES[kind]
    y = back(BODIES[name](there(eq.input("x", (2, 3, 20, 6), "float32"))))
    found = eq.optimize(y, "onnx", "bytes")
    assert found.cost_before > 0 == found.cost_after and found.checked.difference is None


def test_a_permutation_of_what_is_reduced_is_gone_or_in_the_weights() -> None:
    x = eq.input("x", (40, 12), "float32")
    order = np.random.default_rng(1).permutation(12)
    for y in (x.take(order, 1).max((1,)), x.flip((1,)).sum((1,)), eq.matmul(x.roll(5, 1), _constant((12, 30)))):
        found = eq.optimize(y, "onnx", "bytes")
        assert found.cost_before > 0 == found.cost_after


def test_columns_of_a_product_are_moved_in_the_weights() -> None:
    x = eq.input("x", (40, 12), "float32")
    found = eq.optimize(eq.matmul(x, _constant((12, 31))).roll(5, 1), "onnx", "bytes")
    assert found.cost_before > 0 == found.cost_after


def test_a_wrong_answer_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides of a match are run on words, for operators without a formula too."""
    import eqsat.laws.answers as answers

    x = eq.input("x", (4, 6), "float32")
    signature = eq.Signature.parse("n c -> n c", map="n", equivariant="c")
    for y in (
        eq.opaque("f", [x.flip((0,))], [((4, 6), "float32")], signature=signature)[0].flip((0,)),
        eq.matmul(x.flip((0,)), _constant((6, 6))).flip((0,)),
    ):
        matches = _searched(y).progress.matches
        assert matches["lift-positions"]

        def wrong(operator: CanonicalOp, place: int, m: Map) -> tuple[Map, ...] | None:
            found = positions.moved(operator, place, m)
            along = _along((4, 6), 1, [1, 2, 3, 4, 5, 0])
            return None if found is None else (along, *found[1:-1], along)

        with monkeypatch.context() as patch:
            patch.setattr(answers, "moved", wrong)
            matches = _searched(y).progress.matches
            assert not matches.get("lift-positions") and not matches.get("move-positions")


def test_positions_that_nobody_can_put_back_are_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of formulas an inverse is not always found: then the operator stays where it is."""
    import eqsat.laws.answers as answers

    y = eq.matmul(eq.input("x", (4, 6), "float32").flip((1,)), _constant((6, 3)))
    assert _searched(y).progress.matches["lift-positions"]
    monkeypatch.setattr(answers, "inverse", lambda m: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert not _searched(y).progress.matches.get("lift-positions")


def _blocks(shifts: list[int]) -> eq.Tensor:
    """Shifted blocks in a row, each with its own weights and a residual."""
    x = eq.input("x", (4, 41, 8), "float32")
    for n, shift in enumerate(shifts):
        y = eq.matmul(_normalised(x.roll(shift, 1), 2), _constant((8, 8), seed=n)).softmax(2)
        x = x + eq.matmul(y, _constant((8, 8), seed=n + 100)).roll(-shift, 1)
    return x


def test_a_value_of_equal_cells_has_no_orders() -> None:
    """All ways to put equal cells in another order leave the value as it is: their group is not searched."""
    x = eq.input("x", (1, 1), "float32")
    whole = x.tile((1, 2)).flip((1,)).roll(1, 1).pad(((2, 2), (2, 2)), mode="wrap").clip(-1, 1).flip((0,)).roll(2, 1)
    found = _searched(whole)
    assert found.progress.status == "saturated" and found.progress.nodes < 100
    assert eq.optimize(whole).cost_after <= 4 * (1 + 5 * 6)


@pytest.mark.slow
def test_the_graph_grows_with_the_blocks() -> None:
    """As many nodes for the last block as for the first, and no more for more ways to be shifted."""
    sizes = {count: _searched(_blocks([1, 2] * count)).progress for count in (1, 2, 4)}
    assert {p.status for p in sizes.values()} == {"saturated"} and not any(p.capped for p in sizes.values())
    assert sizes[4].nodes - sizes[2].nodes <= 2.1 * (sizes[2].nodes - sizes[1].nodes)
    many = _searched(_blocks(list(range(1, 9)))).progress
    assert many.status == "saturated" and many.capped and many.nodes < sizes[4].nodes
    assert eq.optimize(_blocks([1, 2]), "onnx", "bytes").cost_after == 0


# -- random programs ---------------------------------------------------------------------------------------------------


class _Maker:
    """Random programs of reductions, products, softmaxes and operators with signatures between moves of positions."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.dtype = self.rng.choice(["float32", "float32", "float64", "int8", "int32"])
        self.shape = tuple(self.rng.choice([1, 2, 3, 5, 8]) for _ in range(3))
        self.count = 0

    def program(self) -> eq.Tensor:
        x = eq.input("x", self.shape, self.dtype)
        for _ in range(self.rng.randint(3, 6)):
            x = self.moved(x) if self.rng.random() < 0.6 else self.step(x)
        return self.moved(x)

    def moved(self, x: eq.Tensor) -> eq.Tensor:
        axis = self.rng.randrange(x.rank)
        n = x.shape[axis]
        assert isinstance(n, int)
        pick = self.rng.randrange(4)
        if pick == 0:
            return x.flip((axis,))
        if pick == 1:
            return x.roll(self.rng.randint(-2, 3), axis)
        if pick == 2 and n & (n - 1) == 0:
            return x.take(np.arange(n) ^ self.rng.randrange(n), axis)
        return x.take(np.random.default_rng(self.rng.randrange(99)).permutation(n), axis)

    def step(self, x: eq.Tensor) -> eq.Tensor:
        self.count += 1
        rng, shape = self.rng, x.shape
        axis = rng.randrange(x.rank)
        pick = rng.randrange(7)
        if pick == 0:
            return x + getattr(x, rng.choice(["sum", "max", "min"]))((axis,), keepdims=True)
        if pick == 1:
            inner = shape[-1]
            assert isinstance(inner, int)
            return eq.matmul(x, _constant((inner, rng.choice([1, 4, inner])), self.dtype, self.count))
        if pick == 2 and self.dtype.startswith("float"):
            return x.softmax(axis)
        if pick == 3:
            return x * _constant((shape[-1],), self.dtype, self.count)  # type: ignore[arg-type]
        if pick == 4:
            return x.permute_dims(rng.sample(range(x.rank), x.rank))
        if pick == 5:
            return x + x.flip((axis,))
        return self.opaque(x)

    def opaque(self, x: eq.Tensor) -> eq.Tensor:
        """Operators without a formula: along their second axis in any order, by position, or not at all."""
        type_ = [(x.shape, self.dtype)]
        functions: dict[str, Callable[[Array], Array]] = {
            "equivariant": lambda a: (a - a.max(1, keepdims=True)).astype(a.dtype),
            "fixed": lambda a: np.cumsum(a, 1, dtype=a.dtype),
            "map": lambda a: np.maximum(a, a.dtype.type(1)),
        }
        kind = self.rng.choice(sorted(functions))
        roles = {"map": "a c"} | ({kind: "b"} if kind == "equivariant" else {})
        if kind == "map":
            roles["map"] += " b"
        signature = eq.Signature.parse("a b c -> a b c", **roles)
        return eq.opaque(kind, [x], type_, signature=signature, impl=functions[kind])[0]


def _feed(maker: _Maker, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    x = rng.integers(-4, 5, maker.shape).astype(maker.dtype)
    if maker.dtype.startswith("float") and seed % 3 == 0:
        x.reshape(-1)[rng.integers(0, x.size, 2)] = rng.choice([np.nan, np.inf, -0.0], 2)
    return {"x": x}


@pytest.mark.parametrize("seed", some_of(range(60), 7))
def test_random_programs_keep_their_values(seed: int) -> None:
    maker = _Maker(seed)
    y = maker.program()
    feed = _feed(maker, seed)
    with np.errstate(all="ignore"):
        (wanted,) = evaluate_outputs(as_program(y), feed).values()
        for target in ("onnx", "c"):
            result = eq.optimize(y, target, checked=False)
            (got,) = evaluate_outputs(result.program, feed).values()
            np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4, equal_nan=True)


def test_random_programs_move_positions() -> None:
    """The programs above are of the kind that they are meant to be."""
    found = [_searched(_Maker(seed).program()).progress.matches for seed in range(12)]
    assert sum(bool(m.get("lift-positions")) for m in found) >= 4
    assert sum(bool(m.get("move-positions")) for m in found) >= 4
