"""The summary of a result: its first line, the table by operator, what is left by node, what to do next."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import eqsat as eq
from eqsat.cli import main
from eqsat.ir.tensors.tensor import as_program
from eqsat.reporting.sides import Side, Vertex, side_of_program
from eqsat.reporting.summary import Advice, Report, rows_of


def there_and_back() -> eq.Tensor:
    x = eq.input("x", (1, 32, 8, 8), "float32")
    return x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")


def first(report: Report) -> str:
    return report.text().splitlines()[0]


def test_the_first_line_says_what_was_gained() -> None:
    """Gained, nothing to do, already optimal, given up: no two of them look alike."""
    x = eq.input("x", (1, 32, 8, 8), "float32")
    gained = eq.optimize(there_and_back())
    assert first(gained.report) == "no bytes are moved any more: 2 of 2 moves gone"
    assert first(eq.optimize(x.relu()).report) == "nothing to do: no operator moves data"
    optimal = eq.optimize(x.permute_dims((0, 2, 3, 1)))
    assert first(optimal.report) == "already optimal: nothing that the rules reach moves fewer bytes"
    late = replace(optimal, status="time-limit", seconds=20.0)
    assert first(late.report) == "unchanged: gave up after 20 s"
    assert "next: allow more time: --time 120" in late.report.text(Advice(time="--time 120"))
    unknown = replace(optimal, gap=None)
    assert first(unknown.report) == "unchanged: nothing was found that moves fewer bytes"


@pytest.mark.parametrize(
    ("costs", "moves", "stopped", "said"),
    [
        ((1000, 880), (20, 6), "", "faster by an estimated 12 %: 14 of 20 moves gone"),
        ((1000, 600), (3, 3), "", "faster by an estimated 40 %: 3 moves, as before"),
        ((1000, 600), (3, 5), "", "faster by an estimated 40 %: 5 moves instead of 3, cheaper ones"),
        ((1000, 999), (3, 2), "", "a little better: 1 of 3 moves gone"),
        (
            (1000, 500),
            (9, 2),
            "time-limit",
            "faster by an estimated 50 %: 7 of 9 moves gone; the search gave up after 5 s",
        ),
    ],
)
def test_gains_in_words(costs: tuple[int, int], moves: tuple[int, int], stopped: str, said: str) -> None:
    sides = [Side(tuple(Vertex(f"t{k}", "", "move", "", "", (), 8, 1) for k in range(n)), 0) for n in moves]
    result = eq.optimize(eq.input("x", (2,), "float32").relu())
    report = replace(result.report, objective="time", costs=costs, before=sides[0], after=sides[1], same=False)
    assert replace(report, stopped=stopped, seconds=5.0).verdict == said


def test_the_table_adds_up() -> None:
    program = as_program(there_and_back())
    result = eq.optimize(program)
    before, after = result.sides()
    assert sum(r.nodes[0] for r in rows_of(before, after)) == len(before.operators) == 3
    assert sum(r.moved[0] for r in rows_of(before, after)) == result.initial.bytes_moved
    assert sum(r.moved[1] for r in rows_of(before, after)) == result.bytes_moved
    assert before == side_of_program(program, None)
    lines = result.summary().splitlines()
    assert lines[1].split() == ["operator", "nodes", "bytes", "moved"]
    assert lines[2].split() == ["layout_transform", "2", "->", "0", "32,768", "->", "0"]


def test_verbose_names_rules_and_conditions() -> None:
    result = eq.optimize(there_and_back())
    plain, verbose = result.summary(), result.summary(verbose=True)
    assert "rules that matched" not in plain and "rules that matched" in verbose
    assert set(plain.splitlines()) < set(verbose.splitlines())


@pytest.mark.onnx
def test_the_command_says_it_by_node(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Words and JSON say the same; what is left has the name of its node; the size of the file is said."""
    pytest.importorskip("onnx")
    from eqsat.nets import nhwc_converter_net

    path = tmp_path / "m.onnx"
    path.write_bytes(nhwc_converter_net(2).SerializeToString())
    assert main(["optimize", str(path), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert main(["optimize", str(path), "--verbose"]) == 0
    text = capsys.readouterr().out
    assert text.splitlines()[0] == f"m.onnx: {data['verdict']}"
    assert data["verdict"].startswith("faster by an estimated") and data["cost_after"] < data["cost_before"]
    assert sum(r["nodes"][0] for r in data["operators"]) == data["nodes"][0]
    assert sum(r["bytes"][1] for r in data["operators"]) == data["bytes_after"]
    assert data["size"][0] == path.stat().st_size and f"size: {data['size'][0]:,} ->" in text
    left = [m["node"] for m in data["left"]]
    assert all(x.startswith(("Transpose '", "Expand '")) and f"left: {x} " in text for x in left)
    assert "rules that matched" in text and "next: write it: -o OUT.onnx" in text and data["next"]


@pytest.mark.onnx
def test_a_run_says_its_phase_and_the_best_so_far(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    from eqsat.cli.optimize_job import DONE, READ, Job, Request, run
    from eqsat.nets import nhwc_converter_net
    from eqsat.pricing.table import shipped

    path = tmp_path / "m.onnx"
    path.write_bytes(nhwc_converter_net(2).SerializeToString())
    said: list[str] = []
    run(Job(Request(path), None, None, {}, eq.Limits(), (), shipped()), said.append)
    assert said[0] == READ and said[-1] == DONE and "checking" in said and "choosing the cheapest program" in said
    assert any(s.startswith("best so far: 27 % less estimated time") for s in said)
    assert any(s.startswith("searching: ") and s.endswith("e-nodes") for s in said)
