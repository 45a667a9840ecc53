"""What entries of the ONNX tables understand is declared: no entry can swallow what a later opset adds."""

# feature: I1
from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from seeds import each_value

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from odd_nodes import odd_model  # noqa: E402
from onnx import helper, numpy_helper  # noqa: E402
from onnx_fuzz import draw  # noqa: E402

import eqsat.onnx as front  # noqa: E402
from eqsat.ir.errors import EqsatError  # noqa: E402
from eqsat.ir.tensors.run import evaluate_outputs  # noqa: E402
from eqsat.ir.tensors.tensor import Opaque, Tensor, input  # noqa: E402
from eqsat.models.package import element_type, run_session, session  # noqa: E402
from eqsat.onnx.call import Call, Declined  # noqa: E402
from eqsat.onnx.call import schema as schema_of  # noqa: E402
from eqsat.onnx.kernels import runs  # noqa: E402
from eqsat.onnx.ops import declare as onnx_declare  # noqa: E402
from eqsat.onnx.ops import table as onnx_ops  # noqa: E402
from eqsat.onnx.ops.declare import NEWEST_OPSET, Declared, declare  # noqa: E402
from eqsat.onnx.ops.math import REDUCTIONS  # noqa: E402
from eqsat.onnx.ops.pointwise import FORMULAS  # noqa: E402
from eqsat.onnx.read import read  # noqa: E402
from eqsat.onnx.write import write  # noqa: E402
from eqsat.pricing.table import shipped  # noqa: E402

pytestmark = pytest.mark.onnx

CONSUMED = (
    "Abs Ceil Clip Dropout Elu Exp Floor HardSigmoid LeakyRelu Log Max Mean Min Neg PRelu Reciprocal Relu Reshape Selu "
    "Sigmoid Sqrt Sum Tanh"
)
CARRIED: dict[str, set[str]] = {
    **{op: {"axis", "broadcast", "consumed_inputs"} for op in ("Add", "Sub", "Mul", "Div")},
    **{op: {"axis", "broadcast"} for op in ("And", "Or", "Xor", "Equal", "Greater", "Less", "Pow")},
    **{op: {"consumed_inputs"} for op in CONSUMED.split()},
    "Constant": {"sparse_value", "value_string", "value_strings"},
    "Range": {"stash_type"},
    **{op: {"activations", "output_sequence"} for op in ("GRU", "LSTM", "RNN")},
    "Upsample": {"height_scale", "width_scale"},
}
"""Attributes that the tables leave to barriers. Add a new one here, or declare it and give it its meaning."""


def table() -> Iterator[tuple[str, Declared]]:
    for op in onnx_ops.operator_names():
        entry = onnx_ops.lookup(op)
        assert entry is not None
        yield op, entry.declared


@lru_cache(maxsize=1)
def schemas() -> list[Any]:
    return list(onnx.defs.get_all_schemas_with_history())


def history(op: str) -> list[Any]:
    """All versions of an operator that the tables were compared with."""
    every = [s for s in schemas() if s.name == op and s.domain == ""]
    return sorted((s for s in every if s.since_version <= NEWEST_OPSET), key=lambda s: s.since_version)


def test_declarations_name_what_the_schemas_have() -> None:
    for op, known in table():
        known_versions = history(op)
        attributes = {a for s in known_versions for a in s.attributes}
        inputs = {str(i.name).lower() for s in known_versions for i in s.inputs}
        assert set(known.attributes) <= attributes | inputs, op
        assert set(known.constants) <= inputs, op
        newest = [str(i.name).lower() for i in known_versions[-1].inputs]
        assert len(known.inputs) == len(newest), op
        texts = {a for s in known_versions for a, x in s.attributes.items() if "STRING" in str(x.type)}
        for name in texts & set(known.attributes) - ({"to"} if op == "Cast" else set()):
            assert known.attributes[name], f"{op}: the values of {name} are not listed"


def test_every_attribute_is_declared_or_known_to_be_carried() -> None:
    found = {
        op: carried
        for op, known in table()
        if (carried := {a for s in history(op) for a in s.attributes} - set(known.attributes))
    }
    assert found == CARRIED


def operands(schema: Any) -> tuple[Tensor, ...]:
    return tuple(input(f"x{n}", (1, 4, 2, 2), "float32") for n in range(max(1, int(schema.min_input))))


def test_whatever_is_not_declared_is_declined() -> None:
    """In every version: an attribute that is not declared, a later one, another text, another input."""
    for op, known in table():
        for schema in history(op):
            plain = Call(op, operands(schema), {}, int(schema.since_version))
            wrong: list[Call] = [
                replace(plain, attrs={name: 1}) for name in schema.attributes if name not in known.attributes
            ]
            wrong.append(replace(plain, attrs={"added_later": 0}))
            wrong += [replace(plain, attrs={n: "LATER"}) for n, v in known.attributes.items() if v != ("*",)]
            wrong += [replace(plain, attrs={n: 97}) for n, v in known.attributes.items() if v and v != ("*",)]
            if not known.variadic:
                more = (*plain.operands, *operands(schema) * 9)[: len(known.inputs) + 1]
                wrong.append(replace(plain, operands=more))
            wrong.append(replace(plain, operands=(None,) * max(1, len(plain.operands)), attrs={}))
            for call in wrong:
                if call.operands == (None,) and all(n in known.optional for n in known.inputs):
                    continue
                with pytest.raises(Declined):
                    known.admit(call)


def test_a_version_after_the_tables_is_declined(monkeypatch: pytest.MonkeyPatch) -> None:
    x = input("x", (2, 3), "float32")
    assert onnx_ops.apply(Call("Relu", (x,), opset=17))
    monkeypatch.setattr(onnx_declare, "NEWEST_OPSET", 12)
    with pytest.raises(Declined, match="newer"):
        onnx_ops.apply(Call("Relu", (x,), opset=17))


def blocks(mode: str | None) -> Any:
    attrs = {} if mode is None else {"mode": mode}
    node = helper.make_node("SpaceToDepth", ["t"], ["s"], blocksize=2, **attrs)
    turn, back = (helper.make_node("Transpose", [i], [o], perm=p) for i, o, p in (
        ("x", "t", [0, 3, 1, 2]), ("s", "y", [0, 2, 3, 1])))  # fmt: skip
    ends = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [1, 4, 6, 3]), ("y", [1, 2, 3, 12]))]
    graph = helper.make_graph([turn, node, back], "g", ends[:1], ends[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 28)], ir_version=10)


@pytest.mark.skipif(onnx.defs.onnx_opset_version() < 28, reason="this onnx has no SpaceToDepth of opset 28")
@pytest.mark.parametrize("mode", [None, "DCR", "CRD"])
@pytest.mark.parametrize("understood", [True, False], ids=["mode is declared", "mode is not declared"])
def test_modes_of_space_to_depth(mode: str | None, understood: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from onnx.reference import ReferenceEvaluator

    model = blocks(mode)
    feeds = {"x": np.arange(72, dtype=np.float32).reshape(1, 4, 6, 3)}
    if not understood:
        old = onnx_ops.lookup("SpaceToDepth")
        assert old is not None
        known = replace(old, declared=declare("input", "blocksize"))
        monkeypatch.setitem(onnx_ops._operators, "SpaceToDepth", known)  # pyright: ignore[reportPrivateUsage]
    after = front.optimize(model).model
    runner: Any = ReferenceEvaluator
    wanted = runner(model).run(None, feeds)
    assert np.array_equal(wanted[0], runner(after).run(None, feeds)[0])
    if understood:
        assert np.array_equal(wanted[0], evaluate_outputs(read(model), feeds)["y"])
    carried = [x for x in read(model).nodes() if isinstance(x, Opaque)]
    assert len(carried) == (0 if understood or mode is None else 1)


IGNORED: dict[str, set[str]] = {
    "BatchNormalization": {"momentum", "spatial"},
    "Cast": {"saturate", "round_mode"},
    "CastLike": {"saturate", "round_mode"},
    "Constant": {"value_int", "value_ints", "value_float", "value_floats", "value"},
    "Dropout": {"ratio", "seed"},
    "Trilu": set(),
}
"""Declared attributes without a meaning for the values that programs have, and those of which one is looked at."""


class Watched(dict[str, Any]):
    """Parameters that remember which of them were looked at."""

    seen: set[str]

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.seen.add(str(key))
        return super().__contains__(key)


def test_formulas_look_at_what_they_declare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that makes a formula has no other place where an attribute could take effect."""
    given: dict[str, set[str]] = {}
    seen: dict[str, set[str]] = {}
    original = Declared.admit

    def watched(self: Declared, call: Call) -> Call:
        made = original(self, call)
        attrs = Watched(made.attrs)
        attrs.seen = set()
        return replace(made, attrs=attrs)

    def entry_of(op: str, entry: Any) -> Any:
        def checked(call: Call) -> Any:
            made = entry(call)
            outputs = [made] if isinstance(made, Tensor) else list(made)
            if isinstance(call.attrs, Watched) and not any(isinstance(x.node, Opaque) for x in outputs):
                given.setdefault(op, set()).update(call.attrs)
                seen.setdefault(op, set()).update(call.attrs.seen)
            return made

        return checked

    onnx_ops.lookup("Add")
    from eqsat.onnx.ops.pointwise import FORMULAS

    for op, operator in list(onnx_ops._operators.items()):  # pyright: ignore[reportPrivateUsage]
        if op not in FORMULAS:  # there the signature of the formula is the declaration
            changed = replace(operator, entry=entry_of(op, operator.entry))
            monkeypatch.setitem(onnx_ops._operators, op, changed)  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(Declared, "admit", watched)
    for op in ("DepthToSpace", "Pad", "Slice", "Gather", "Gemm", "ReduceSum", "Split", "Trilu", "Concat", "Flatten"):
        for seed in range(6):
            drawn = draw(seed, op)
            if drawn is not None:
                read(drawn.model)
    unread = {op: names - seen[op] - IGNORED.get(op, set()) for op, names in given.items()}
    assert {op: names for op, names in unread.items() if names} == {}
    assert {"DepthToSpace", "Pad", "Slice", "Gather", "Trilu"} <= set(given)


def test_numbers_and_lists_are_read_as_declared() -> None:
    known = declare("x k axes?", "", "k axes[]")
    x = input("x", (2, 3), "float32")
    assert dict(known.admit(Call("TopK", (x,), {"k": (1,), "axes": 2})).attrs) == {"k": 1, "axes": (2,)}
    for wrong in ((), (1, 2)):
        with pytest.raises(Declined):
            known.admit(Call("TopK", (x,), {"k": wrong}))


@each_value(value=[-(2**63), -7, -1, 0, 1, 3, 2**62], shape=[(), (0,), (1,), (2,), (3,), (2, 2)])
def test_odd_parameters_are_no_crash(value: int, shape: tuple[int, ...]) -> None:
    """What onnxruntime refuses is carried or refused with one error; it is never a traceback of another library."""
    ops = "Reshape Squeeze Unsqueeze Expand Tile Pad Slice Split Trilu CumSum TopK ReduceSum Range ConstantOfShape"
    number = np.full(shape, value, np.int64)
    for op in ops.split():
        slots = {"Slice": 4, "Range": 2}.get(op, 1 if op != "ConstantOfShape" else 0)
        names = ["x", *(f"c{k}" for k in range(slots))]
        if op in ("Range", "ConstantOfShape"):
            names = [f"c{k}" for k in range(slots + 1)]
        outputs = ["y", "z"] if op in ("TopK", "Split") else ["y"]
        graph = helper.make_graph(
            [helper.make_node(op, names, outputs)],
            "g",
            [helper.make_tensor_value_info("x", 1, [2, 3])],
            [helper.make_tensor_value_info(o, 7 if op == "Range" or o == "z" else 1, [None, None]) for o in outputs],
            [numpy_helper.from_array(number, f"c{k}") for k in range(slots + 1)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        feeds = {"x": np.ones((2, 3), np.float32)}
        try:
            program = read(model)
        except EqsatError:
            continue  # shape inference refuses the model
        after = write(program)
        try:
            wanted = run_session(session(model), feeds)
        except EqsatError:
            continue
        for a, b in zip(wanted, run_session(session(after), feeds), strict=True):
            assert a.shape == b.shape and np.array_equal(a, b), op


@pytest.mark.parametrize("part", range(2))
def test_odd_nodes_are_no_crash(part: int) -> None:
    """Operands of ranks, types and parameters that do not fit are refused with one error, or carried."""
    read_ones = 0
    for seed in range(200 * part, 200 * part + 200):
        model = odd_model(seed)
        if model is None:
            continue
        try:
            program = read(model)
        except EqsatError:
            continue
        read_ones += 1
        with contextlib.suppress(EqsatError):
            write(program)
    assert read_ones > 60


ODD: dict[str, tuple[list[tuple[int, Any]], dict[str, Any]]] = {
    "GatherElements": ([(1, [2, 3]), (7, [2, 3, 4])], {}),
    "ScatterElements": ([(1, [2, 4, 3, 3]), (7, []), (1, [])], {}),
    "ScatterND": ([(1, [2, 4, 5, 6]), (7, [3]), (1, [2, 4, 3, 3])], {}),
    "InstanceNormalization": ([(1, []), (1, []), (1, [])], {}),
}


@pytest.mark.parametrize("op", ODD)
def test_ranks_that_do_not_fit_are_carried(op: str) -> None:
    operands, attrs = ODD[op]
    ends = [helper.make_tensor_value_info(f"x{k}", t, s) for k, (t, s) in enumerate(operands)]
    node = helper.make_node(op, [x.name for x in ends], ["y"], **attrs)
    graph = helper.make_graph([node], "g", ends, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    with contextlib.suppress(EqsatError):  # inference knows better
        assert [n.op_type for n in write(read(model)).graph.node] == [op]


@pytest.mark.parametrize("opset", [pytest.param(11, marks=pytest.mark.slow), 22])
def test_ranks_that_no_model_has_are_declined(opset: int) -> None:
    """Operands of any rank, and parameters for others: an entry has a formula, or says that it has none."""
    for op in onnx_ops.operator_names():
        for ranks in [(n,) for n in range(6)] + [
            (n, m, *(1,) * k) for n in range(6) for m in range(6) for k in range(2)
        ]:
            operands = tuple(input(f"x{k}", (2,) * rank, "float32") for k, rank in enumerate(ranks))
            taps = (1,) * max(0, ranks[0] - 2)
            for attrs in ({}, {"auto_pad": "SAME_UPPER"}, {"kernel_shape": taps}, {"output_shape": taps}, {"axis": 3}):
                with contextlib.suppress(EqsatError):
                    onnx_ops.apply(Call(op, operands, attrs, opset))


FLOATS, WHOLE = ("float16", "float32", "float64"), ("int8", "int16", "int32", "int64", "uint8", "uint32", "uint64")


@pytest.mark.parametrize("opset", [6, 7, 12, 17])
@pytest.mark.parametrize("op", sorted({*FORMULAS, *REDUCTIONS}))
def test_an_operator_that_is_brought_in_has_a_kernel(op: str, opset: int) -> None:
    """In every type that the schema has and `runs` does not rule out."""
    known = schema_of(op, opset)
    if known is None or len({x.type_str for x in known.inputs[: known.min_input]}) > 1:
        pytest.skip(f"opset {opset} has none over operands of one type")
    attrs = {"direction": "LEFT"} if op == "BitShift" else {}
    for dtype in (*FLOATS, *WHOLE, "bool"):
        if f"tensor({helper.tensor_dtype_to_string(element_type(dtype))[12:].lower()})" not in known.inputs[0].types:
            continue
        shape = (1, 4, 2, 2) if op.startswith("Global") else (2, 4)
        names = [f"x{k}" for k in range(max(known.min_input, 1))]
        ends = [helper.make_tensor_value_info(name, element_type(dtype), shape) for name in names]
        node = helper.make_node(op, names, ["y"], **attrs)
        graph = helper.make_graph([node], "g", ends, [helper.make_empty_tensor_value_info("y")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        if runs(op, dtype, opset):
            session(model)


@pytest.mark.parametrize("used", [1, 2, 3])
@pytest.mark.parametrize("opset", [13, 18])
def test_a_split_of_unknown_size_keeps_its_outputs(used: int, opset: int) -> None:
    """Without those that nobody reads, it would be another Split."""
    ends = [helper.make_tensor_value_info("x", 1, ("n", "m", 6))]
    ends += [helper.make_tensor_value_info(f"y{k}", 1, (None, None, 6)) for k in range(used)]
    count: dict[str, Any] = {"num_outputs": 3} if opset >= 18 else {}
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1])]
    nodes.append(helper.make_node("Split", ["t"], ["a0", "a1", "a2"], axis=2, **count))
    nodes += [helper.make_node("Transpose", [f"a{k}"], [f"y{k}"], perm=[0, 2, 1]) for k in range(used)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", ends[:1], ends[1:]), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    assert len(read(model).nodes()[2].outputs) == 3
    feeds = {"x": np.arange(2 * 6 * 6, dtype=np.float32).reshape(2, 6, 6)}
    wanted = run_session(session(model), feeds)
    best = front.optimize(model, checked=False, prices=shipped()).model
    assert [n.op_type for n in best.graph.node] == ["Split"]
    for made in (write(read(model)), best):
        found = run_session(session(made), feeds)
        assert all(np.array_equal(a, b) for a, b in zip(wanted, found, strict=True)) and len(found) == used
