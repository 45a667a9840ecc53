"""The API reference: one page for each group of public names, written from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

from command_line import command_line

import eqsat as eq
from eqsat.ir.tensors.arrays import namespace

GROUPS: dict[str, tuple[str, str, list[str]]] = {
    "programs": (
        "Programs",
        "Make tensors and programs, and run them.",
        ["input", "constant", "compute", "opaque", "Tensor", "Program", "Signature", "evaluate", "conv2d", "cast",
         "erf", "sigmoid", "truncdiv", "truncmod", "UNDEF"],
    ),
    "optimise": (
        "Optimise, verify, compile",
        "Make programs better, ask whether two are equal, and make kernels of them.",
        ["optimize", "Limits", "verify", "compile", "jit"],
    ),
    "layouts": (
        "Layouts",
        "Index maps, layout strings, buffers, and pictures of them.",
        ["IndexMap", "AXIS_SEPARATOR", "Layout", "Buffer", "flow_layout", "plot"],
    ),
    "terms": (
        "Terms and proofs",
        "Index terms, and questions about them.",
        ["Term", "symbol", "axis", "const", "ramp", "given", "parse_expr", "simplify", "prove", "decide", "explain"],
    ),
    "rules": (
        "Rules and laws",
        "Declare rules and laws, and have them proved.",
        ["rule", "when", "law", "operator", "pad_value", "check_rules"],
    ),
    "schedules": (
        "Functions and schedules",
        "Functions over buffers, schedules that rewrite them, and programs that call them.",
        ["primfunc", "PrimFunc", "run_primfunc", "Schedule", "split_function", "hoist_preprocessing", "as_view",
         "as_function", "as_formula", "call", "transform_calls"],
    ),
    "errors": ("Errors", "What can go wrong, by class.", ["EqsatError", "ScheduleError"]),
}  # fmt: skip
"""For each page its title, what its names are for, and the names."""
MODULES = {
    "eqsat-onnx": "eqsat.onnx",
    "eqsat-ir-rule": "eqsat.ir.rule",
    "eqsat-rulebook": "eqsat.rulebook",
    "eqsat-testing": "eqsat.testing",
}
RETURNED = {
    "Result": "eqsat.result",
    "OnnxResult": "eqsat.onnx",
    "Move": "eqsat.extraction.left",
    "Checked": "eqsat.checking.verdict",
    "Proof": "eqsat.ir.decide",
    "Kernel": "eqsat.backends.targets",
    "Picture": "eqsat.pictures.plot",
}
"""Classes of what public functions return, and their modules."""
NUMPY = "numpy-names"
REST = "more"
WIDTH = 100
BOUND = ("self", "cls")
ITEM = re.compile(r"[a-z][a-z_\\]*(, [a-z_\\]+)*: ")
CLOSING = re.compile(r"Raises |Errors: ")
"""Lines of a docstring that describe a parameter, and those that end such a list."""


def pages() -> dict[str, str]:
    """The text of each page of the reference, by its name.

    >>> sorted(pages())[:3]
    ['answers', 'command-line', 'eqsat-ir-rule']
    """
    made = {name: _names_page(title, intro, names) for name, (title, intro, names) in GROUPS.items()}
    made[NUMPY] = _names_page(
        "numpy's names", "Functions, constants and types that tensors have as numpy's arrays do.", namespace.__all__
    )
    grouped = {n for _, _, names in GROUPS.values() for n in names} | set(namespace.__all__)
    rest = [n for n in eq.__all__ if n not in grouped and not isinstance(getattr(eq, n), ModuleType)]
    if rest:
        made[REST] = _names_page("More names", "Further public names.", rest)
    found = {name: getattr(import_module(module), name) for name, module in RETURNED.items()}
    parts = (section(name, name, value) for name, value in found.items())
    made["answers"] = "# Answers\n\nWhat functions return: results, proofs, kernels.\n\n" + "\n".join(parts)
    made["command-line"] = command_line()
    made |= {page: _module_page(import_module(name)) for page, name in MODULES.items()}
    titles = "".join(f"- [{text.splitlines()[0][2:]}]({name}.md)\n" for name, text in made.items())
    made["index"] = (
        "# Reference\n\nEvery public name, with its signature and examples, from the docstrings. The examples run in"
        f" the tests.\n\n{titles}"
    )
    return made


def _names_page(title: str, intro: str, names: list[str]) -> str:
    parts = (section(name, f"eq.{name}", getattr(eq, name)) for name in names)
    return f"# {title}\n\n{intro}\n\n" + "\n".join(parts)


def _module_page(module: ModuleType) -> str:
    names: list[str] = list(getattr(module, "__all__", ())) or [
        n for n, v in vars(module).items() if not n.startswith("_") and getattr(v, "__module__", "") == module.__name__
    ]
    parts = (section(name, name, getattr(module, name)) for name in names)
    return f"# {module.__name__}\n\n{as_markdown(inspect.getdoc(module) or '')}\n\n" + "\n".join(parts)


def section(name: str, shown: str, value: Any, level: int = 2) -> str:
    """A name with its signature, its description, and, of a class, its public methods and properties.

    >>> print(section("sigmoid", "eq.sigmoid", eq.sigmoid).splitlines()[0])
    ## `eq.sigmoid` { #sigmoid }
    """
    parts = [f"{'#' * level} `{shown}` {{ #{name} }}\n"]
    described = inspect.isclass(value) or callable(value) or isinstance(value, property)
    if not described:
        return parts[0] + f"\n`{value!r}`, {type(value).__name__}\n"
    written = None if isinstance(value, property) else signature_of(value)
    if written is not None:
        parts.append(f"```python\n{shown.rpartition('.')[2]}{written}\n```\n")
    parts.append(as_markdown(inspect.getdoc(value) or "") + "\n")
    if inspect.isclass(value):
        parts += [section(f"{name}.{n}", f"{value.__name__}.{n}", member, level + 1) for n, member in members(value)]
    return "\n".join(parts)


def members(value: type) -> Iterator[tuple[str, Any]]:
    """The public methods and properties of a class that have a description, without those of an outer package."""
    for base in value.__mro__:
        if not base.__module__.startswith("eqsat"):
            continue
        for name, member in vars(base).items():
            inner: Any = getattr(member, "__func__", member)
            wanted = inspect.isfunction(inner) or isinstance(inner, property)
            if wanted and not name.startswith("_") and getattr(value, name, None) is not None and inspect.getdoc(inner):
                yield name, inner


def signature_of(value: Any) -> str | None:
    """The parameters of a function or class, over several lines where they are long."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return None
    plain = [p.replace(annotation=_plain(p.annotation)) for p in signature.parameters.values() if p.name not in BOUND]
    signature = signature.replace(parameters=plain, return_annotation=_plain(signature.return_annotation))
    text = str(signature)
    if len(text) <= WIDTH:
        return text
    parameters = [str(p) for p in signature.parameters.values()]
    kinds = [p.kind for p in signature.parameters.values()]
    if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
        parameters.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    _, arrow, returned = text.rpartition(" -> ")
    return "(\n" + "".join(f"    {p},\n" for p in parameters) + ")" + (f" -> {returned}" if arrow else "")


class _Text:
    """An annotation that is shown as it was written."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _plain(annotation: Any) -> Any:
    return _Text(annotation) if isinstance(annotation, str) else annotation


def as_markdown(text: str) -> str:
    """A docstring as Markdown: examples as blocks of code, and no sign of arithmetic as emphasis.

    >>> print(as_markdown("Twice x*y, see `a*b`."))
    Twice x\\*y, see `a*b`.
    """
    blocks: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.lstrip().startswith(">>>"):
            code = inspect.cleandoc(paragraph)
            if blocks and blocks[-1].endswith("\n```"):
                blocks[-1] = f"{blocks[-1][:-4]}\n\n{code}\n```"
            else:
                blocks.append(f"```pycon\n{code}\n```")
            continue
        blocks.append(_prose(paragraph))
    return "\n\n".join(blocks)


def _prose(paragraph: str) -> str:
    """Text with its indented lines as lines of their own; what stands between backticks stays."""
    prose, _, example = paragraph.partition("\n>>>")
    pieces = prose.split("`")
    pieces[0::2] = [re.sub(r"([*_<\[\]|])", r"\\\1", p) for p in pieces[0::2]]
    lines = ["- " * bool(ITEM.match(line.strip())) + line.strip() for line in "`".join(pieces).splitlines()]
    first = next((n for n, line in enumerate(lines) if line.startswith("- ")), None)
    if first is not None:
        closing = next((n for n, line in enumerate(lines) if n > first and CLOSING.match(line)), len(lines))
        inside = [line if line.startswith("- ") else f"  {line}" for line in lines[first:closing]]
        lines = [*lines[:first], *[""] * (first > 0), *inside, *[""] * (closing < len(lines)), *lines[closing:]]
    return "\n".join(lines) + (f"\n\n```pycon\n>>>{example}\n```" if example else "")
