"""The C compiler: finding it, calling it without a shell, and a cache of objects keyed by content."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import importlib.util
import os
import platform
import re
import sys
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from eqsat.backends import cache
from eqsat.backends.drafts import draft
from eqsat.backends.machine import processor
from eqsat.backends.private import has_owners, is_full, private_folder, write_private
from eqsat.ir.errors import BackendError

if TYPE_CHECKING:
    # What runs a compiler is imported when one runs: a program in the cache starts without it.
    from subprocess import CompletedProcess

FLAGS = (
    "-std=c99", "-O3", "-fPIC", "-Wall", "-Wextra",
    # Values exactly as written: no fused multiply-add; the other two change no value, only errno and trap flags.
    "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math",
    # The workspace holds one type after another.
    "-fno-strict-aliasing",
)  # fmt: skip
NATIVE = "-march=native"
CONTRACT = "-ffp-contract=fast"
"""Products and the sums that take them become one operation, rounded once, where the processor has it."""
OPENMP = "-fopenmp"
OPENMP_PROBE = "#include <omp.h>\nint probe(void) { return omp_get_max_threads(); }\n"
"""What compiles, loads and runs where a compiler has OpenMP."""
TIMEOUT = 300.0
"""Seconds that one run of the compiler may take."""
SCRATCH = "eqsat-"
"""How the names of folders for temporary files begin in which objects are made that are not kept."""
SHOWN_LINES = 12
"""Lines of a compiler's output that an error shows."""
SHOWN_CHARACTERS = 200
"""Characters that it shows of each of them."""
ROOM = 1 << 20
"""Bytes for which there must be room after a compiler has failed: else that was why."""
FULL = re.compile(r"No space left|NoSpaceLeft|quota exceeded|File too large|File size limit", re.IGNORECASE)


class CompilerWarning(UserWarning):
    """A compiler made less than it was asked for; the text says what, and the compiler's own words."""


def extra_flags() -> tuple[str, ...]:
    """What the user adds to every compilation, $EQSAT_CFLAGS: a sanitizer, -g, another -march."""
    return _words("EQSAT_CFLAGS", "correct the flags, or unset EQSAT_CFLAGS")


def _words(variable: str, fix: str) -> tuple[str, ...]:
    """What a shell would make of the value of a variable."""
    text = os.environ.get(variable, "").strip()
    if not text:
        return ()
    import shlex

    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise BackendError(f"{variable}={text!r}", str(error), fix) from error


def _program(name: str) -> str | None:
    """The path of a program, as a shell would find it."""
    folders = [""] if os.path.dirname(name) else os.environ.get("PATH", os.defpath).split(os.pathsep)
    for folder in folders:
        path = os.path.join(folder, name)
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def has_zig() -> bool:
    """Whether the wheel that brings a compiler is installed."""
    return importlib.util.find_spec("ziglang") is not None


def find_compiler() -> tuple[str, ...]:
    """The command of a C compiler: $CC, else cc, gcc or clang, else the one in the ziglang wheel.

    Raises BackendError where there is none, or where $CC does not name a program.
    """
    fix = "name a C compiler, or unset CC"
    whole = os.environ.get("CC", "").strip()
    if os.path.dirname(whole) and _program(whole) is not None:
        # Its path may have spaces, or whatever else separates words.
        return (whole,)
    words = _words("CC", fix)
    if words:
        if _program(words[0]) is None:
            raise BackendError(f"compiler CC={whole!r}", f"{words[0]} is not a program", fix)
        return words
    for name in ("cc", "gcc", "clang"):
        found = _program(name)
        if found:
            return (found,)
    if has_zig():
        return (sys.executable, "-m", "ziglang", "cc")
    fix = "install gcc or clang, or `pip install eqsat[cc]`, which brings one; target='numpy' needs none"
    raise BackendError("target c", "there is no C compiler", fix)


def compiler_identity(command: tuple[str, ...]) -> str:
    """The files that a command consists of, their sizes and times: another compiler is another file.

    >>> compiler_identity(("no such program",))
    ''
    """
    found: list[str] = []
    paths = [_program(word) for word in command]
    if "ziglang" in command:
        wheel = importlib.util.find_spec("ziglang")
        paths.append(wheel.origin if wheel else None)
    for path in paths:
        if path is not None:
            facts = os.stat(path)
            found.append(f"{path} {facts.st_ino} {facts.st_size} {facts.st_mtime_ns}")
    return "\n".join(found)


@lru_cache(maxsize=1)
def machine() -> str:
    """The processor that -march=native means."""
    named = ("model name", "flags", "Features", "CPU part")
    facts = [line for line in processor().splitlines() if line.startswith(named)]
    return platform.machine() + ("\n".join(facts) or platform.processor())


def _run(command: tuple[str, ...], folder: Path) -> CompletedProcess[str]:
    """Run a compiler, whose temporary files lie in the folder too: nobody else can write it, and it is removed."""
    import subprocess

    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT,
            check=False,
            env=os.environ | {"TMPDIR": str(folder)},
            umask=0o077 if has_owners() else -1,
        )
    except subprocess.TimeoutExpired as error:
        raise BackendError(
            f"compiler {command[0]}", f"did not finish in {TIMEOUT:.0f} s", "compile smaller parts"
        ) from error
    except OSError as error:
        raise BackendError(f"compiler {command[0]}", str(error), "name a working C compiler in CC") from error


def elided(text: str) -> str:
    """The first lines of a compiler's output."""
    lines = text.strip().splitlines()
    shown = [line[:SHOWN_CHARACTERS] for line in lines[:SHOWN_LINES]]
    return "\n".join(shown + ([f"... {len(lines) - SHOWN_LINES} more lines"] if len(lines) > SHOWN_LINES else []))


def build(source: str, made: Path, command: tuple[str, ...], flags: tuple[str, ...], parts: Sequence[str] = ()) -> None:
    """Compile C text into a shared object in a folder for this alone, where the compiler's own files lie too.

    `parts` are the same text as several, which are compiled at the same time.
    Errors: OSError where its files cannot be written there, BackendError where the compiler fails otherwise.
    """
    texts = list(parts) or [source]
    units = [made.parent / f"unit{n}.c" for n in range(len(texts))]
    for unit, text in zip(units, texts, strict=True):
        write_private(unit, text.encode())
    done = native = _compile((*command, *FLAGS, NATIVE, *flags), units, made)
    if native.returncode != 0:
        done = _compile((*command, *FLAGS, *flags), units, made)
        if done.returncode == 0 and _knows_native(command, made.parent):
            words = elided(native.stderr or native.stdout)
            problem = f"compiler {' '.join(command)} failed for this processor, so that what it made for any is used"
            warnings.warn(f"{problem}, which is slower; {_advice()}:\n{words}", CompilerWarning, stacklevel=2)
    if not made.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, f"{made.parent} was removed while the compiler ran")
    if done.returncode != 0 or not made.is_file():
        words = elided(done.stderr or done.stdout) or f"it said nothing, and left with status {done.returncode}"
        failure = BackendError(f"compiler {' '.join(command)}", f"failed:\n{words}", _advice())
        full = _full(made.parent, done.stderr + done.stdout)
        raise failure if full is None else full from failure
    # Nobody else may write it, whatever the umask is: it would not be loaded again.
    made.chmod(0o700)


def _knows_native(command: tuple[str, ...], folder: Path) -> bool:
    """Whether a compiler takes the flag at all: some have none for their processor."""
    nothing = folder / "nothing.c"
    write_private(nothing, b"typedef int nothing;\n")
    return _run((*command, NATIVE, "-c", "-o", str(nothing.with_suffix(".o")), str(nothing)), folder).returncode == 0


def _full(folder: Path, words: str) -> OSError | None:
    """The error of a folder that had no room for the files of a compiler, which says so in its own language."""
    try:
        write_private(folder / "room", bytes(ROOM))
    except OSError as error:
        return error if is_full(error) else None
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if FULL.search(words) else None


def _advice() -> str:
    """What to do about a compiler that fails: a user's own choices are looked at first."""
    named = [name for name in ("CC", "EQSAT_CFLAGS") if os.environ.get(name, "").strip()]
    if named:
        return f"check {' and '.join(named)}"
    return "please report the program"


def _compile(command: tuple[str, ...], units: Sequence[Path], made: Path) -> CompletedProcess[str]:
    """One run of the compiler, or one for each unit at the same time and one that links; the first that failed."""
    if len(units) > 1:
        from concurrent.futures import ThreadPoolExecutor

        def one(unit: Path) -> CompletedProcess[str]:
            # Parts have the same beginning, of which each needs some.
            objects = ("-c", "-o", str(unit.with_suffix(".o")), str(unit))
            return _run((*command, "-Wno-unused-function", *objects), made.parent)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            runs = list(pool.map(one, units))
        failed = [run for run in runs if run.returncode != 0]
        if failed:
            return failed[0]
        units = [unit.with_suffix(".o") for unit in units]
    return _run((*command, "-shared", "-o", str(made), *map(str, units), "-lm"), made.parent)


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()


def _intact(path: Path) -> bool:
    """Whether a cached object is ours alone and what was written: a truncated one would crash the process.

    It is loaded by its name afterwards, which only we could give to another file: the folder is ours alone. (The name
    /proc/self/fd/N of what was opened would not do: the loader takes a name that it has seen for the same library.)
    """
    data, check = cache.read(path), cache.read(path.with_suffix(".sum"))
    return data is not None and _digest(data) == check


def load_kernel(source: str, threads: int = 1, contract: bool = False, parts: Sequence[str] = ()) -> ctypes.CDLL:
    """The loaded library of a kernel: threads by OpenMP where the compiler has it, else by POSIX or Windows.

    Raises BackendError as load_library does.
    """
    flags = (CONTRACT,) if contract else ()
    if threads > 1:
        command = find_compiler()
        openmp = has_openmp(command, compiler_identity(command), extra_flags())
        flags = (*flags, OPENMP if openmp else "-pthread")
    return load_library(source, flags, parts)


@lru_cache(maxsize=16)
def has_openmp(command: tuple[str, ...], identity: str, extra: tuple[str, ...]) -> bool:
    """Whether what a compiler makes of OpenMP loads and runs; `identity` and `extra` tell one compiler from another."""
    assert command is not None and identity is not None and extra is not None
    try:
        return load_library(OPENMP_PROBE, (OPENMP,)).probe() >= 1
    except BackendError:
        return False


def load_library(source: str, flags: tuple[str, ...] = (), parts: Sequence[str] = ()) -> ctypes.CDLL:
    """The loaded library of a C text, from the cache or compiled now.

    Raises BackendError without a compiler, and with the compiler's words where it fails.
    """
    command = find_compiler()
    flags = (*flags, *extra_flags())
    if "ziglang" in command:
        flags = (*flags, "-fno-sanitize=undefined")
    question = "\0".join((source, *FLAGS, *flags, *command, compiler_identity(command), machine()))
    name = hashlib.sha256(question.encode()).hexdigest()[:32]
    objects = cache.folder("objects", create=True)
    if objects is None:
        return _load_uncached(source, command, flags, parts)
    path = objects / f"{name}.so"
    if _intact(path):
        with suppress(OSError):
            return ctypes.CDLL(str(path))
    try:
        with cache.making(objects) as folder:
            made = folder / "unit.so"
            build(source, made, command, flags, parts)
            # Loaded before it is where others find it: `eqsat cache clear` may run at any time.
            library = _open(made, command, flags)
            try:
                write_private(folder / "sum", _digest(made.read_bytes()))
                os.replace(made, path)
                os.replace(folder / "sum", path.with_suffix(".sum"))
            except OSError as error:
                cache.warn_unwritable(error)
            return library
    except OSError as error:
        # A cache that cannot be written costs time, nothing else.
        cache.warn_unwritable(error)
        return _load_uncached(source, command, flags, parts, error)


def _open(path: Path, command: tuple[str, ...], flags: tuple[str, ...]) -> ctypes.CDLL:
    """A library that was compiled just now; one that does not load lacks something that its compiler promised."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        fix = "name another compiler in CC, or in EQSAT_CACHE a folder that libraries may be loaded from"
        raise BackendError(f"compiler {' '.join(command)}", f"made what does not load: {error}", fix) from error


@contextmanager
def scratch() -> Generator[Path]:
    """A folder for temporary files that nobody else can write or exchange.

    Errors: OSError, also where others could exchange it: in a folder that all may write and that is not sticky.
    """
    import tempfile

    with draft(tempfile.gettempdir(), SCRATCH) as folder:
        yield private_folder(folder)


def _load_uncached(
    source: str, command: tuple[str, ...], flags: tuple[str, ...], parts: Sequence[str], cached: OSError | None = None
) -> ctypes.CDLL:
    """Without a place to keep objects (or with one that has an error), the library is deleted once it is mapped."""
    try:
        with scratch() as folder:
            build(source, folder / "unit.so", command, flags, parts)
            return _open(folder / "unit.so", command, flags)
    except OSError as error:
        problem = f"its files cannot be written: {error.strerror or error}"
        if cached is not None and cached.strerror != error.strerror:
            problem += f"; in the cache: {cached.strerror or cached}"
        fix = "name a folder of your own with room in TMPDIR"
        raise BackendError(f"compiler {' '.join(command)}", problem, fix) from error
