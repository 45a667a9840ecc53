"""The pages under docs/: every block of code runs, every link leads somewhere, every page can be found."""

import doctest
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import api_reference
import command_line
import pytest
import site_hooks
from api_reference import GROUPS, as_markdown
from api_reference import pages as reference_pages
from pages import DOCS, ROOT, anchors_of, blocks_of, commands_of, links_of, pages, run_page, text_of, without_code

import eqsat as eq

pytestmark = pytest.mark.onnx

RUN = [page for page in pages() if blocks_of(text_of(page))]
FOREIGN = re.compile(r"https?://")


@pytest.mark.parametrize("page", RUN)
def test_the_code_of_a_page_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, golden: Any
) -> None:
    """Pictures that a page saves are those beside it; `make goldens` writes them anew."""
    monkeypatch.chdir(tmp_path)
    assert run_page(page) == []
    for picture in sorted(tmp_path.glob("*.svg")):
        kept = DOCS / "pictures" / picture.name
        if request.config.getoption("--update-goldens"):
            kept.parent.mkdir(exist_ok=True)
            kept.write_text(picture.read_text())
        assert kept.is_file() and kept.read_text() == picture.read_text(), f"{kept} differs: run `make goldens`"


def reference() -> dict[str, str]:
    return {f"reference/{name}.md": text for name, text in reference_pages().items()}


def broken(page: str, text: str, generated: dict[str, str]) -> list[str]:
    """The links of a page that lead nowhere."""
    result: list[str] = []
    for link in links_of(text):
        if FOREIGN.match(link):
            continue
        name, _, anchor = link.partition("#")
        path = ((DOCS / page).parent / name).resolve() if name else DOCS / page
        inside = path.relative_to(DOCS).as_posix() if path.is_relative_to(DOCS) else ""
        target = generated.get(inside) or (path.read_text() if path.suffix == ".md" and path.is_file() else None)
        there = target is not None or (path.exists() and path.is_relative_to(ROOT))
        if not there or (anchor and anchor not in anchors_of(target or "")):
            result.append(link)
    return result


def test_links_lead_somewhere() -> None:
    generated = reference()
    texts = {page: text_of(page) for page in pages()} | {"../README.md": (ROOT / "README.md").read_text()}
    assert {page: bad for page, text in texts.items() if (bad := broken(page, text, generated))} == {}
    wrong = "[a](nowhere.md) [b](index.md#nothing) [c](../eqsat/nothing.py) [d](reference/programs.md#nothing)"
    assert len(broken("index.md", wrong, generated)) == 4
    assert broken("index.md", "[a](index.md) [b](../rules/README.md) [c](reference/programs.md#input)", generated) == []


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    named = re.findall(r"[\w/-]+\.md", nav)
    assert sorted(named) == sorted([*pages(), "reference/index.md"])


def test_what_the_site_adds() -> None:
    """Links into the source tree become names; what a page would load is found; the examples of both modules run."""
    page, config = SimpleNamespace(file=SimpleNamespace(src_uri="how-to/a.md")), SimpleNamespace(docs_dir=str(DOCS))
    text = "[b](add-a-rule.md) [`c`](../../rules/README.md) ![d](../pictures/split.svg) [e](../../nothing.py)"
    seen = "[b](add-a-rule.md) `c` ![d](../pictures/split.svg) [e](../../nothing.py)"
    assert site_hooks.on_page_markdown(text, page, config) == seen
    assert site_hooks.on_post_page("<img src='a.svg'>", page, config)
    with pytest.raises(ValueError, match=r"how-to/a.md would load https://b.org/c"):
        site_hooks.on_post_page("<link rel=x href='https://b.org/c'>", page, config)
    assert [doctest.testmod(m).failed for m in (site_hooks, api_reference, command_line)] == [0, 0, 0]


def test_every_picture_is_shown() -> None:
    shown = {Path(link).name for page in pages() for link in links_of(text_of(page)) if link.endswith(".svg")}
    assert {p.name for p in (DOCS / "pictures").glob("*.svg")} == shown


def test_the_reference_has_every_public_name() -> None:
    anchors = [a for text in reference().values() for a in anchors_of(text)]
    assert {name for name in eq.__all__ if name not in anchors and name != "onnx"} == set()
    assert {"IndexMap.parse", "Schedule.split", "Tensor.layout_transform", "optimize", "check_rules"} <= set(anchors)
    listed = [name for _, _, names in GROUPS.values() for name in names]
    assert len(listed) == len(set(listed)) and set(listed) <= set(eq.__all__)
    assert {"Result.explain", "Proof", "Kernel.bind"} <= set(anchors)
    assert as_markdown("a: what x*y is.\nRaises none.\n\n>>> 1\n1") == (
        "- a: what x\\*y is.\n\nRaises none.\n\n```pycon\n>>> 1\n1\n```"
    )


def test_pages_open_with_what_the_reader_gets() -> None:
    """The first paragraph is text, and sentences are short: 30 words at most, on average 20."""
    for page in pages():
        text = text_of(page)
        assert text.startswith("# "), page
        first = text.split("\n\n")[1]
        assert first[0].isalpha() and len(first) > 40, f"{page} opens with {first[:40]!r}"
        assert "TODO" not in without_code(text)


def test_the_runner_notices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of wrong block is reported, and only those."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pages.DOCS", tmp_path)
    wrong = [
        "```python\n>>> 1 + 1\n3\n```",
        "```python\nx = 1\n```",
        "```console\n$ echo no\nyes\n```",
        "```console\n$ false\n```",
        "```console\n$ eqsat kernel nonsense\n```",
        "```c\nint x;\n```",
        "```sh\nls\n```",
        "```\nnothing\n```",
    ]
    for text in wrong:
        (tmp_path / "a.md").write_text(f"# a\n\n{text}\n")
        assert len(run_page("a.md")) == 1, text
    paths = list(sys.path)
    right = (
        "```python\n>>> x = 1\n```\n\n```python\n>>> x\n1\n```\n\n```console\n$ echo yes\nyes\n$ true\n```\n\n"
        "```python\n# file: made.py\ny = 2\n```\n\n```console\n$ cat made.py\n...y = 2\n```\n\n"
        "```python\n>>> import sys; sys.path.insert(0, '')\n>>> import made; made.y\n2\n```\n"
    )
    (tmp_path / "a.md").write_text(right)
    assert run_page("a.md") == []
    assert sys.path == paths and "made" not in sys.modules
    assert list(commands_of("$ a b\nc\n$ d\n")) == [("a b", "c\n"), ("d", "")]


def rows_of(text: str) -> set[str]:
    """The rows that a text such as "A1-A3, B5" names.

    >>> sorted(rows_of("A1-A3, B5"))
    ['A1', 'A2', 'A3', 'B5']
    """
    found: set[str] = set()
    for first, last in re.findall(r"\b([A-Z]\d+)(?:-([A-Z]\d+))?", text):
        stop = int((last or first)[1:])
        found |= {f"{first[0]}{n}" for n in range(int(first[1:]), stop + 1)}
    return found


def test_each_feature_has_a_test() -> None:
    """Tests name each row in the tables of the page."""
    page = text_of("features.md")
    listed = {row for line in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE) for row in rows_of(line)}
    tags = [
        line for path in (ROOT / "tests").rglob("*.py") for line in re.findall(r"# feature: (.*)", path.read_text())
    ]
    named = {row for line in tags for row in re.findall(r"\b[A-K]\d+", line)}
    assert listed - named == set() and len(listed) > 100
