"""The pages of the documentation: their blocks of code, which are run, their headings and their links."""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqsat.cli import main

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
KINDS = {"python", "console", "c", "text"}
"""Languages of blocks: all but text are run, or written to the file that their first line names."""

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^(?:#|/\*) file: (\S+)")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_PROMPT = "$ "


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the line of the page on which the text begins."""

    kind: str
    text: str
    line: int


def pages() -> list[str]:
    """The names of all pages, from docs/."""
    return sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def text_of(page: str) -> str:
    return (DOCS / page).read_text()


def blocks_of(text: str) -> list[Block]:
    return [Block(m[1], m[2], text.count("\n", 0, m.start(2))) for m in _FENCE.finditer(text)]


def without_code(text: str) -> str:
    """A page without its blocks of code and code within lines."""
    return re.sub(r"`[^`\n]*`", "`code`", _FENCE.sub("", text))


def links_of(text: str) -> list[str]:
    return _LINK.findall(without_code(text))


def anchors_of(text: str) -> set[str]:
    """The anchors of the headings of a page, as GitHub and mkdocs name them."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        given = re.search(r"\{ #(\S+) \}", heading)
        plain = re.sub(r"[^\w\s-]", "", heading.lower()).strip()
        found.add(given[1] if given else re.sub(r"[\s]+", "-", plain))
    return found


def run_page(page: str) -> list[str]:
    """Run the blocks of a page in turn, in the current folder; the answer is what went wrong."""
    path, known = list(sys.path), set(sys.modules)
    try:
        return _run_blocks(page)
    finally:
        sys.path[:] = path
        for name in [n for n in sys.modules if n not in known and Path(f"{n}.py").is_file()]:
            del sys.modules[name]


def _run_blocks(page: str) -> list[str]:
    env: dict[str, Any] = {"__name__": "__main__"}
    wrong: list[str] = []
    for block in blocks_of(text_of(page)):
        where = f"docs/{page}:{block.line + 1}"
        named = _FILE.match(block.text)
        if block.kind not in KINDS:
            wrong.append(f"{where}: a block of {block.kind or 'no language'}")
        elif named and block.kind in ("python", "c"):
            Path(named[1]).write_text(block.text)
        elif block.kind == "python":
            wrong += _run_python(block, page, env)
        elif block.kind == "console":
            wrong += _run_console(block, where)
        elif block.kind == "c":
            wrong.append(f"{where}: C without `/* file: NAME */`")
    return wrong


def _run_python(block: Block, page: str, env: dict[str, Any]) -> list[str]:
    test = doctest.DocTestParser().get_doctest(block.text, env, page, f"docs/{page}", block.line)
    if not test.examples:
        return [f"docs/{page}:{block.line + 1}: Python without `>>>` or `# file: NAME`"]
    said = io.StringIO()
    # A test has a copy of the names; the blocks of a page share them.
    vars(test)["globs"] = env
    doctest.DocTestRunner(optionflags=OPTIONS).run(test, out=said.write, clear_globs=False)
    return [said.getvalue()] if said.getvalue() else []


def commands_of(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a console block, each with what it prints."""
    for piece in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        line, _, output = piece.partition("\n")
        yield line, output


def _run_console(block: Block, where: str) -> list[str]:
    wrong: list[str] = []
    for command, expected in commands_of(block.text):
        code, said = _called(command)
        fits = doctest.OutputChecker().check_output(expected, said, OPTIONS)
        failed = code not in (0, 1) or (code == 1 and not expected)
        if failed or not fits:
            wrong.append(f"{where}: {command} ended with {code} and printed\n{said}")
    return wrong


def _called(command: str) -> tuple[int, str]:
    """A command's exit code and output: `eqsat` in this process, others in a shell."""
    words = shlex.split(command)
    if words[0] == "cc" and shutil.which("cc") is None:  # the wheel that brings a compiler where there is none
        command = f"{sys.executable} -m ziglang {command}"
    if words[0] != "eqsat":
        env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(command, shell=True, capture_output=True, text=True, env=env, timeout=120, check=False)
        return done.returncode, done.stdout + done.stderr
    said = io.StringIO()
    sys.path.insert(0, os.getcwd())
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return main(words[1:]), said.getvalue()
    finally:
        sys.path.remove(os.getcwd())
