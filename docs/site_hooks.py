"""What `make docs` adds to the pages: the API reference, and source files by their names."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

from api_reference import pages

ROOT = Path(__file__).resolve().parent.parent
FOREIGN = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(https?:[^\"'\s>]+)")
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s:]+)\)")


def on_files(files: Any, config: Any) -> Any:
    """Add the pages of the reference, and put them into the navigation."""
    texts = pages()
    names = [name for name in texts if name != "index"]
    # The linters' environment has no mkdocs.
    made: Any = import_module("mkdocs.structure.files").File
    for name, text in texts.items():
        files.append(made.generated(config, f"reference/{name}.md", content=text))
    config.nav[-1]["Reference"] = ["reference/index.md", *(f"reference/{name}.md" for name in names)]
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """A link to a file of the source tree becomes its name: the pages are read without the tree."""
    folder = (Path(config.docs_dir) / page.file.src_uri).parent

    def replaced(match: re.Match[str]) -> str:
        target = (folder / match[2]).resolve()
        outside = not target.is_relative_to(config.docs_dir) and target.is_relative_to(ROOT)
        return match[1] if outside and target.exists() else match[0]

    return LINK.sub(replaced, markdown)


def foreign(page: str) -> list[str]:
    """What a built page would load from elsewhere.

    >>> foreign('<a href="https://a.org">a</a> <script src="https://b.org/c.js"></script> <img src="d.svg">')
    ['https://b.org/c.js']
    """
    return FOREIGN.findall(page)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Stop at a page that would load something from elsewhere."""
    found = foreign(output)
    if found:
        raise ValueError(f"{page.file.src_uri} would load {', '.join(found)}")
    return output
