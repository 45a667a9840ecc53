"""`eqsat cache`: what is kept between runs, where, how much of it there is, and removing it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from eqsat.backends import cache
from eqsat.backends.c.cc import SCRATCH
from eqsat.backends.drafts import abandoned, sweep
from eqsat.cli.output import Output, count
from eqsat.ir.errors import EqsatError
from eqsat.proving.cache import cache_clear, cache_info


@dataclass(frozen=True)
class Row:
    """A kind of things in the cache: where they are, how many, and how many bytes."""

    path: Path | None
    entries: int = 0
    size: int = 0
    problem: str | None = None


def _size(path: Path) -> int:
    """The bytes of a file, or of the files in a folder; those that go away meanwhile count as none."""
    size = 0
    for file in (path, *(Path(folder, name) for folder, _, names in os.walk(path) for name in names)):
        with suppress(OSError):
            found = file.lstat()
            size += 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return size


def _entries(files: tuple[Path, ...]) -> int:
    """How many things there are: a sum belongs to its object."""
    return sum(p.suffix != ".sum" for p in files)


def _scratch() -> Path | None:
    """The folder for temporary files."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return None


def _rows() -> dict[str, Row]:
    """What there is, by kind."""
    verdicts = cache_info()
    rows = {"verdicts": Row(verdicts.path, verdicts.entries, verdicts.size, cache.problem())}
    held = cache.holdings()
    for kind, holding in held.items():
        rows[kind] = Row(holding.path, _entries(holding.files), sum(map(_size, holding.files)), holding.problem)
    left = [path for holding in held.values() for path in holding.unfinished]
    rows["unfinished"] = Row(cache.cache_directory(), len(left), sum(map(_size, left)), cache.problem())
    scratch = _scratch()
    left = [] if scratch is None else abandoned(scratch, SCRATCH)
    rows["temporary"] = Row(scratch, len(left), sum(map(_size, left)))
    return rows


def _lines(rows: Mapping[str, Row]) -> list[str]:
    """A line for each kind; a reason that all share is said once."""
    whole, lines = cache.problem(), list[str]()
    if whole is not None:
        lines.append(f"the cache {cache.cache_directory()} is not used: {whole}")
    for kind, row in rows.items():
        if row.path is None:
            lines.append(f"{kind}: off")
        elif row.problem is None:
            lines.append(f"{kind}: {count(row.entries)} in {row.path} ({count(row.size)} bytes)")
        elif row.problem != whole:
            lines.append(f"{kind}: {row.path} is not used: {row.problem}")
    return lines


def run_info(out: Output) -> int:
    """Print what there is, and why a folder is not used."""
    rows = _rows()
    data: Mapping[str, object] = {
        kind: {"path": row.path, "entries": row.entries, "bytes": row.size, "problem": row.problem}
        for kind, row in rows.items()
    }
    out.answer(data, "\n".join(_lines(rows)))
    return 0


def run_clear(out: Output) -> int:
    """Remove what there is; nothing else in the folders is touched, and nothing in folders that others can write."""
    rows, held = _rows(), cache.holdings()
    cache_clear()
    for holding in held.values():
        for file in holding.files:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:
                raise EqsatError(str(file), f"cannot be removed: {error.strerror or error}") from error
        for folder in holding.unfinished:
            shutil.rmtree(folder, ignore_errors=True)
    scratch = _scratch()
    if scratch is not None:
        sweep(scratch, SCRATCH)
    removed = {kind: row.entries for kind, row in rows.items()}
    problems = _lines({kind: row for kind, row in rows.items() if row.problem is not None})
    text = "removed " + ", ".join(f"{count(n)} {kind}" for kind, n in removed.items())
    out.answer({**removed, "problems": problems}, "\n".join([text, *problems]))
    return 1 if problems else 0
