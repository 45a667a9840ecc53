"""What the table says of every operator of the default domain: a formula, a signature, or nothing."""

# feature: I1
from __future__ import annotations

from typing import Any

import pytest

onnx = pytest.importorskip("onnx")

from eqsat.onnx.ops.declare import NEWEST_OPSET  # noqa: E402
from eqsat.onnx.ops.table import BySignature, lookup, operator_names  # noqa: E402

pytestmark = pytest.mark.onnx

SIGNATURES = """
    AffineGrid BitCast BitShift CausalConvWithState DFT DeformConv Det GRU GridSample LSTM LinearAttention MaxRoiPool
    QLinearConv QLinearMatMul RNN RoiAlign STFT ScatterElements TensorScatter TopK
""".split()  # noqa: SIM905
"""No formula: the order of equal values, the rounding or the way is the runtime's, or it is a recurrence."""

CARRIED: dict[str, str] = {
    "another set of values at each run": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform "
    "RandomUniformLike",
    "subgraphs": "If Loop Scan SequenceMap",
    "sequences, optional values": "ConcatFromSequence Optional OptionalGetElement OptionalHasElement SequenceAt "
    "SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength SplitToSequence",
    "strings": "RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "extents depend on data": "NonMaxSuppression NonZero Unique",
    "positions in the flattened tensor": "MaxUnpool",
    "made from numbers, without a tensor to lay out": "BlackmanWindow HammingWindow HannWindow MelWeightMatrix",
    "encoded images": "ImageDecoder",
    "replaced by others": "Scatter",
}
"""Operators without an entry, and why."""


def newest() -> dict[str, Any]:
    """The last version of every operator that the table was compared with."""
    found: dict[str, Any] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain == "" and schema.since_version <= NEWEST_OPSET:
            old = found.get(schema.name)
            found[schema.name] = schema if old is None or old.since_version < schema.since_version else old
    return found


def kind_of(op: str) -> str:
    """How the table knows an operator."""
    found = lookup(op)
    return "carried" if found is None else "signature" if isinstance(found.entry, BySignature) else "formula"


def test_every_operator_is_known_or_has_a_reason() -> None:
    """A new version of ONNX, or an entry that is lost, shows here; `pytest -s` prints the table."""
    kinds = {op: kind_of(op) for op in newest()}
    for kind in ("formula", "signature", "carried"):
        members = sorted(op for op, k in kinds.items() if k == kind)
        print(f"{kind}: {len(members)}", *members)
    assert {op for op, k in kinds.items() if k == "signature"} == {*SIGNATURES}
    assert {op for op, k in kinds.items() if k == "carried"} == {op for ops in CARRIED.values() for op in ops.split()}
    assert set(operator_names()) <= set(kinds)
