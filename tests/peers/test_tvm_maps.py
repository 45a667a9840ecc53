"""The differential test against Apache TVM: we are right on every map, whatever TVM says.

What TVM says is counted: `python tests/peers/tvm_report.py` prints the table, with a witness for each wrong answer.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compare_tvm import Case, generated, rows_of
from features_tvm import Feature
from schedule_features_tvm import FEATURES
from tvm_report import answered, main, status, tabulate

from eqsat.ir.errors import FrontendError
from eqsat.ir.layouts.index_map import IndexMap
from eqsat.testing.maps import MAP_FAMILIES
from eqsat.tvm_maps import map_from_tvm, map_to_tvm

pytestmark = pytest.mark.tvm
PER_FAMILY = 8


@pytest.mark.parametrize("family", MAP_FAMILIES)
def test_we_are_right_where_tvm_is_not(family: str) -> None:
    rows = [r for name, m, shape in generated(PER_FAMILY) if name == family for r in rows_of(name, m, shape)]
    print(json.dumps(tabulate(rows), indent=1))
    assert [r for r in rows if r.eqsat.kind != "right"] == []


# feature: A3, A6, A7, A8, A9, A13, A14, A18, A20, A22, B7, C1, D5, D7, D17, E11, F2, F4, F6, F7, F8, F10
@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f"{f.number}-{f.theirs.__name__}")
def test_single_features(feature: Feature) -> None:
    """TVM's part is printed and never fails the test: it may have become right."""
    print(f"{feature.number} {feature.what}\n  eqsat: {feature.ours()}\n  TVM: {status(feature, answered(feature))}")


def test_maps_survive_the_way_to_tvm_and_back() -> None:
    """The translation that all answers pass; where TVM rewrites as it builds, the map stays equal."""
    exact = 0
    for _, m, shape in generated(4, seed=1):
        if m.is_table:
            with pytest.raises(FrontendError, match="TVM has no load"):
                map_to_tvm(m)
            continue
        back = map_from_tvm(map_to_tvm(m))
        exact += back == m
        assert back == m or Case("", m, shape).judge.images == Case("", back, shape).judge.images
    assert exact > 80


def test_what_tvm_cannot_say_is_an_error() -> None:
    with pytest.raises(FrontendError, match="beyond int64"):
        map_to_tvm(IndexMap.parse(f"i -> i + {1 << 63}"))
    with pytest.raises(FrontendError, match="identity of any rank"):
        map_to_tvm(IndexMap((), ()))


def test_the_report_is_data_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.json"
    assert main(["--maps", "1", "--json", str(path)]) == 0
    data = json.loads(path.read_text())
    assert {r["question"] for r in data["rows"]} == set(data["table"]) and data["versions"]["apache-tvm"]
    assert all(r["eqsat"]["kind"] == "right" for r in data["rows"])
    assert "non_surjective_inverse" in capsys.readouterr().out
