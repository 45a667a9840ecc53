"""What notebooks show of objects, and what editors see of results."""

import inspect
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import eqsat as eq
from eqsat.ir.layouts.map_grid import example_box, map_grid

ROOT = Path(__file__).parents[3]


class Tree(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("br", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element that is closed at once."""


def shown(thing: Any) -> str:
    text: str = thing._repr_html_()
    tree = Tree()
    tree.feed(text)
    assert not tree.open and not re.search(r"https?://|<script", text)
    return text


def things() -> dict[str, tuple[Any, str]]:
    x = eq.input("<i>x", (1, 16, 4, 4), "float32")
    y = x.layout_transform("NCHW", "NHWC").relu()
    f = eq.primfunc("twice")
    src, dst = f.param("src", (14,), "float32"), f.param("dst", (14,), "float32")
    with f.loop("i", 14) as i:
        dst[i] = src[i] + src[i]
    function = f.build()
    return {
        "term": (eq.parse_expr("4*io + ii < 14"), "4*io + ii &lt; 14"),
        "map": (eq.IndexMap.parse("i -> i//4, i%4"), "repeating"),
        "layout": (eq.Layout("NCHW16c"), "16c"),
        "pair": (eq.Layout("NCHW").to("NCHW4c"), "<table"),
        "buffer": (eq.Buffer("B", (3, 5), "float32", axis_separators=(1,)), "flat shape: <code>(3, 5)"),
        "tensor": (y, "&lt;i&gt;x"),
        "program": (eq.Program([x], {"y": y}), "relu maximum"),
        "result": (eq.optimize(y), "already optimal"),
        "proved": (eq.prove("4*io + ii < 16", {"io": 4, "ii": 4}), "proved"),
        "refuted": (eq.prove("4*io + ii < 14", {"io": 4, "ii": 4}), "ii"),
        "function": (function, "src[i]"),
        "schedule": (eq.Schedule(function), "src[i]"),
        "kernel": (eq.compile(y, target="numpy"), "workspace"),
        "chain": (eq.explain("(4*x + y) // 4", "x", {"y": 4}), "div-of-sum"),
    }


def test_notebooks_show_it() -> None:
    # feature: M1
    for name, (thing, part) in things().items():
        assert part in shown(thing), name
    picture: Any = eq.plot("i -> i//4, i%4", (14,))
    assert "<svg" in picture._repr_svg_()


@pytest.mark.parametrize("text", ["i -> i//4, i%4", "i, j -> j, i", "i -> i//8, i%8//4, i%4", "i, j -> i, (i+j)%4"])
def test_a_grid_holds_every_point_once(text: str) -> None:
    m = eq.IndexMap.parse(text)
    found = map_grid(m)
    assert found is not None and found[0] == example_box(m)
    box, html = found
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", html)
    labels = sorted(part for cell in cells for part in cell.split(" | ") if part)
    assert labels == sorted(",".join(map(str, point)) for point in np.ndindex(*box))


def test_maps_that_no_small_box_shows_are_text() -> None:
    for text in ("i -> i//1000, i%1000", "i -> i % 7 - 8"):
        assert "<table" not in shown(eq.IndexMap.parse(text))


def test_options_and_attributes_can_be_completed() -> None:
    """No option hides behind **options, and results list what they have."""
    for function in (eq.optimize, eq.onnx.optimize, eq.compile, eq.prove, eq.simplify, eq.plot, eq.explain, eq.verify):
        kinds = {p.name: p.kind for p in inspect.signature(function).parameters.values()}
        hidden = [n for n, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD]
        assert hidden in ([], ["sizes"]), f"{function.__name__} hides {hidden}"
    wanted = {"cost_before", "cost_after", "objective", "bytes_moved", "program", "summary", "explain", "to_html"}
    assert wanted <= set(dir(eq.optimize(eq.input("x", (2,), "float32").relu())))
    of_models = {*dir(eq.onnx.OnnxResult), *eq.onnx.OnnxResult.__dataclass_fields__}
    assert wanted | {"model", "source", "save", "confirmation"} <= of_models


def test_licences_name_every_package() -> None:
    """The page of licences has each dependency, and each extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / "docs" / "stability.md").read_text()
    extras = {k: v for k, v in project["optional-dependencies"].items() if k != "lint"}
    asked = [*project["dependencies"], *(x for group in extras.values() for x in group)]
    names = {re.split(r"[\[<>=;]", x)[0] for x in asked} - {"eqsat"}
    assert all(re.search(rf"\b{re.escape(name)}\b", page) for name in names)
    wanted = {"onnx", "opencl", "cc", "plot", "notebook", "testing", "distributed", "docs", "test"}
    assert wanted <= set(extras) and all(f"eqsat[{x}]" in page for x in wanted)
