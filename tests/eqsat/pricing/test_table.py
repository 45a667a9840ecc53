"""Files of prices: written and read back, and refused with a reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eqsat.ir.errors import EqsatError
from eqsat.pricing.table import FORMAT, KINDS, Table, own_file, read, shipped, written
from eqsat.pricing.table import current as current_table


def kept(path: Path, table: Table) -> Path:
    path.write_text(written([table]), encoding="utf-8")
    return path


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read(kept(tmp_path / "p.json", shipped())).data() == shipped().data()


def test_the_package_has_a_price_for_every_kind() -> None:
    assert all(shipped().rate(kind, 64) >= 0 for kind in KINDS)


def test_the_table_for_a_number_of_threads(tmp_path: Path) -> None:
    one, two = shipped().data(), {**shipped().data(), "threads": 2, "source": "twice"}
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"format": FORMAT, "tables": [one, two]}))
    assert (read(file).threads, read(file, 2).source) == (1, "twice")
    with pytest.raises(EqsatError, match="no table for 8 threads, only for 1, 2"):
        read(file, 8)


def test_the_prices_of_this_machine_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EQSAT_CACHE", str(tmp_path))
    assert current_table() is shipped()
    mine = own_file()
    assert mine is not None and mine.parent == tmp_path
    kept(mine, Table("here", 1, shipped().moves, shipped().operators, shipped().products))
    assert current_table().source == "here"


def broken(change: dict[str, Any]) -> str:
    return json.dumps({"format": FORMAT, "tables": [{**shipped().data(), **change}]})


RATES, OPERATORS = "picoseconds_per_byte_by_run", "picoseconds_per_operator"
BAD = {
    "": "is not JSON",
    "[]": f"is not of format {FORMAT}",
    '{"format": 1}': f"is not of format {FORMAT}",
    '{"format": 3, "tables": []}': "has no tables",
    '{"format": 3, "tables": [3]}': "no source",
    broken({"threads": "two"}): "no number of threads",
    broken({RATES: {}}): f"{RATES} has no axis",
    broken({RATES: {**shipped().data()[RATES], "pad": [[4]]}}): "pad has no pairs",
    broken({RATES: {**shipped().data()[RATES], "pad": [[4, -1]]}}): "pad has no pairs",
    broken({RATES: {**shipped().data()[RATES], "pad": [[16, 1], [4, 2]]}}): "pad has runs that do not grow",
    broken({OPERATORS: {"node": "much", "reshape": 1}}): "node has the price 'much'",
    broken({OPERATORS: 3}): f"no {OPERATORS}",
}


@pytest.mark.parametrize("text", BAD)
def test_a_bad_file_is_refused_with_the_reason(text: str, tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text(text)
    with pytest.raises(EqsatError, match=BAD[text]):
        read(file)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EqsatError, match="cannot be read"):
        read(tmp_path / "none.json")
