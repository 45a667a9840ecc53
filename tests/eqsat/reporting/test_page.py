"""The page of a result: one file that loads nothing, and, in a browser, without errors at any width, light and dark."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import look

import eqsat as eq
from eqsat.checking.verdict import Checked, RegionCheck
from eqsat.ir.errors import EqsatError
from eqsat.reporting.layers import HEIGHT, WIDTH, places
from eqsat.reporting.page import page
from eqsat.reporting.sides import Side, Vertex
from eqsat.reporting.summary import Report


class Tree(HTMLParser):
    """Tags that are open, and those that were closed in the wrong order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element that is closed at once."""

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def result() -> eq.Tensor:
    x = eq.input("<b>x", (1, 32, 8, 8), "float32")
    y = x.layout_transform("NCHW", "NHWC").relu().layout_transform("NHWC", "NCHW")
    return y.permute_dims((0, 2, 3, 1)).softmax(1)


def large(count: int) -> Report:
    """A report of a chain of so many operators, every fourth of which moves data and is gone."""

    def side(moves: bool) -> Side:
        made = [Vertex("x", "", "input", "float32(8)", "input x", ())]
        for n in range(count):
            kind, moved = ("Transpose", 64) if n % 4 == 0 else ("Relu", 0)
            if moves or not moved:
                reads = (made[-1].tensor,) if n % 7 else (made[-1].tensor, made[len(made) // 2].tensor)
                made.append(
                    Vertex(f"t{n}", f"node{n}", kind, "float32(8)", f"t{n}[i0]", reads, moved, 1000, f"node{n}")
                )
        return Side(tuple(made), 0)

    gone = tuple(f"node{n}" for n in range(0, count, 4))
    checked = Checked((RegionCheck("proved", "the same operations", 0.01, gone, ()),), 0.01)
    base = eq.optimize(eq.input("x", (8,), "float32").relu()).report
    history = [(0.1 * k, 10 * k) for k in range(1, 9)]
    told = replace(base, before=side(True), after=side(False), costs=(count, count // 2), same=False)
    return replace(told, checked=checked, history=history)


def test_the_page_is_whole_and_loads_nothing(tmp_path: Path) -> None:
    found = eq.optimize(result())
    found.to_html(tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    tree = Tree()
    tree.feed(text)
    assert not tree.wrong and not tree.open
    assert not re.findall(r"""(?:src|href)=["'](?!#)|url\(|@import|https?://""", text)
    assert "<b>x" not in text and "&lt;b&gt;x" in text, "names are text"
    assert found.report.verdict in text and "moved by layouts" in text
    for law in found.report.laws:
        assert f'id="law-{law[0]}"' in text
    for region in found.checked:
        assert all(name in text for name in (*region.before, *region.after))
    assert "none of which can be left out" in text[text.index("Moves that were removed") :], "of each region"
    assert "were not found in the time" in page(found.reported(seconds=1e-9)), "said where the time is over"


def test_the_laws_that_are_needed(tmp_path: Path) -> None:
    found = eq.optimize(result())
    found.to_html(tmp_path / "r.html", steps=True)
    text = (tmp_path / "r.html").read_text()
    named = set(re.findall(r'id="law-([\w-]+)"', text))
    assert named < {law[0] for law in found.report.laws} and "none of which can be left out" in text
    with pytest.raises(EqsatError, match="not made by"):
        replace(found, steps=None).to_html(tmp_path / "other.html", steps=True)


def test_removed_moves_have_their_region_and_their_place() -> None:
    """Every move that is gone is listed once, with a link to its box in the picture."""
    text = page(large(40))
    boxes = dict(re.findall(r'<g id="(before-\d+)" class="node (\w+)"', text))
    gone = [number for number, kind in boxes.items() if kind == "changed"]
    assert len(gone) == 10
    listed = text[text.index("Moves that were removed") : text.index("in its place")]
    assert all(listed.count(f'href="#{number}">') == 2 for number in gone), "in the table, and among the region's nodes"


def test_boxes_do_not_overlap() -> None:
    side = large(300).before
    corners = places(side.vertices)
    rows: dict[int, list[float]] = {}
    for x, y in corners:
        rows.setdefault(y, []).append(x)
    assert all(b - a >= WIDTH for xs in rows.values() for a, b in zip(sorted(xs), sorted(xs)[1:], strict=False))
    numbers = {v.tensor: n for n, v in enumerate(side.vertices)}
    below = [corners[n][1] - corners[numbers[t]][1] for n, v in enumerate(side.vertices) for t in v.reads]
    assert min(below) > HEIGHT, "what reads is below what it reads"


LOOK = """
  const before = document.querySelector(".pane.before svg"), box = () => before.getAttribute("viewBox");
  const first = box();
  document.querySelector(".pane.before [data-do=in]").click();
  const closer = box();
  document.querySelector(".pane.before [data-do=fit]").click();
  const whole = box() === before.dataset.box;
  const node = document.querySelector(".node.changed");
  node.dispatchEvent(new Event("pointerover", { bubbles: true }));
  const told = document.getElementById("told").textContent;
  document.querySelector("a.to").click();
  return { zoomed: first !== closer, whole, told, chosen: document.querySelectorAll(".node.chosen").length,
    nodes: document.querySelectorAll(".node").length, bars: document.querySelectorAll(".bar").length };
"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("width", "dark"), [(420, False), (800, True), pytest.param(1280, False, marks=pytest.mark.slow)]
)
def test_the_page_in_a_browser(width: int, dark: bool, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    eq.optimize(result()).to_html(path)
    seen = look(path, LOOK, width, dark)
    assert seen.problems == [] and seen.opened == [] and seen.width == width
    assert seen.needed <= width, "nothing is wider than the window"
    assert seen.back == ("rgb(13, 17, 23)" if dark else "rgb(255, 255, 255)")
    assert seen.answer["zoomed"] and seen.answer["whole"] and seen.answer["chosen"] == 1
    assert "layout_transform" in seen.answer["told"] and "moves 16,384 bytes" in seen.answer["told"]
    assert seen.answer["bars"]


@pytest.mark.browser
def test_two_thousand_nodes_in_a_browser(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text(page(large(2000)))
    assert path.stat().st_size < 1_500_000, "the time to open a page goes with its size"
    seen = look(path, LOOK, 1280)
    assert seen.problems == [] and seen.answer["nodes"] > 3000


PRINTED = """
  const seen = document.querySelector(".pane.before svg");
  dispatchEvent(new Event("beforeprint"));
  return { open: [...document.querySelectorAll("details")].every((part) => part.open),
    whole: seen.getAttribute("viewBox") === seen.dataset.box };
"""


@pytest.mark.browser
def test_paper_shows_everything(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text(page(large(400)))
    assert look(path, PRINTED).answer == {"open": True, "whole": True}
