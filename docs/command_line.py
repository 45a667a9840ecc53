"""The page of the commands, written from what they say of themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from eqsat.cli.app import app

INTRO = """\
# The command line

Every command of `eqsat`, with its arguments and options, as `--help` says them.

Exit codes: 0 done, 1 a check failed, 2 bad usage, bad input or a missing package, 3 internal error (`EQSAT_DEBUG=1`
shows where), 130 interrupted. `--json` makes an answer machine-readable, where a command has it.
"""


def command_line() -> str:
    """The page.

    >>> "## `eqsat rules check`" in command_line(), "| `--growth SHARE` |" in command_line()
    (True, True)
    """
    top: Any = typer.main.get_command(app)
    return INTRO + "".join(section(name, command) for name, command in commands("eqsat", top))


def commands(prefix: str, group: Any) -> Iterator[tuple[str, Any]]:
    """The commands of a group and of the groups in it, each with all of its words."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(f"{prefix} {name}", command)
        else:
            yield f"{prefix} {name}", command


def section(name: str, command: Any) -> str:
    """A command: what it does, how it is called, and a table of its options."""
    shown = [p for p in command.params if not getattr(p, "hidden", False)]
    given = [p for p in shown if not _is_option(p)]
    options = [p for p in shown if _is_option(p)]
    words = [p.metavar or p.name.upper() for p in given]
    usage = " ".join([name, *(w if p.required else f"[{w}]" for w, p in zip(words, given, strict=True)), "[OPTIONS]"])
    parts = [f"\n## `{name}` {{ #{name.removeprefix('eqsat ').replace(' ', '-')} }}\n\n{_line(command.help)}\n"]
    parts.append(f"\n```text\n{usage}\n```\n")
    described = [f"- `{w}`: {_line(p.help)}\n" for w, p in zip(words, given, strict=True) if getattr(p, "help", None)]
    if described:
        parts.append("\n" + "".join(described))
    if options:
        parts.append("\n| Option | Meaning | Default |\n|---|---|---|\n" + "".join(map(_row, options)))
    return "".join(parts)


def _is_option(parameter: Any) -> bool:
    return any(o.startswith("-") for o in parameter.opts)


def _row(option: Any) -> str:
    names = ", ".join(f"`{o}`" for o in option.opts[1:])
    value = f" {option.metavar}" if option.metavar else ""
    first = f"`{option.opts[0]}{value}`"
    default = "" if option.default in (None, False) or callable(option.default) else f"`{option.default}`"
    return f"| {first}{', ' if names else ''}{names} | {_line(option.help)} | {default} |\n"


def _line(text: str | None) -> str:
    """A help text as one line that Markdown shows as it stands."""
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
