"""The command `eqsat`: exit codes and messages. `app` has the commands and their options, a module for each does it.

Exit codes: 0 done (what stays unknown is a note), 1 a check failed, 2 bad usage or input or a missing optional package,
3 an internal error, 130 interrupted.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import traceback
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from eqsat import interrupt, streams
from eqsat.backends.cache import CacheWarning
from eqsat.interrupt_start import CODE
from eqsat.ir.errors import EqsatError, MissingPackage
from eqsat.workers.call import Preparation, WorkerFailure, prepare

DONE, BAD, INTERNAL, INTERRUPTED = 0, 2, 3, CODE  # 1, a check failed, is what commands answer
FOR_SEARCH = Preparation(("eqsat.graph.egglog_bindings", "eqsat.graph.search"))
FOR_OPTIMIZE = Preparation(
    ("onnx", "eqsat.cli.optimize_job", "eqsat.onnx.read", "eqsat.onnx.write", "eqsat.checking.models"), FOR_SEARCH
)
"""What the worker of `eqsat optimize` imports while this process imports what it needs itself."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the answer is its exit code.

    >>> main(["kernel", "NCHW ->", "--shape", "1,2,3,4"])
    2
    """
    args = list(sys.argv[1:] if argv is None else argv)
    with streams.complete():
        try:
            with interrupt.watched():
                return _code_of(args)
        except KeyboardInterrupt:
            return _complain(args, interrupt.WORD, INTERRUPTED)


def _code_of(args: list[str]) -> int:
    """The exit code of a command. After Ctrl-C, whatever else went wrong is a consequence of it."""
    try:
        with _warnings_in_one_line():
            code = _run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the output went away (`| head`). Nothing is wrong; Python's own flush at exit must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except EqsatError as error:
        interrupt.check()
        if isinstance(error, WorkerFailure):
            return _internal(args, error)
        _debug()
        return _complain(args, str(error), BAD)
    except MemoryError as error:
        interrupt.check()
        _debug()
        return _complain(args, f"not enough memory: {error}".removesuffix(": "), BAD)
    except Exception as error:
        interrupt.check()
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is buffered has no place either
            return _complain(args, "the output is not written whole: no space is left on its device", BAD)
        return _internal(args, error)


def _run(args: list[str]) -> int:
    if args[:1] == ["optimize"] and not {"-h", "--help"} & set(args):
        prepare(FOR_OPTIMIZE)
    try:
        import typer

        from eqsat.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        raise MissingPackage(
            "the command eqsat", f"the package {error.name} is not installed", f"pip install {error.name}"
        ) from error
    # Typer brings its own copy of click or uses the installed one, by version; both call their errors so.
    usage: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    try:
        code = app(args, prog_name="eqsat", standalone_mode=False)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except SystemExit as error:  # Typer's own answer to a reader that went away
        raise BrokenPipeError from error
    except usage as error:
        message: str = getattr(error, "format_message")()  # noqa: B009
        path: str = getattr(getattr(error, "ctx", None), "command_path", "eqsat")
        return _complain(args, f"{message} (see {path} --help)" if message else f"see {path} --help", BAD)
    if code == INTERRUPTED:  # some versions of Typer answer an interrupt so, others raise Abort
        raise KeyboardInterrupt
    return code if isinstance(code, int) else DONE


@contextmanager
def _warnings_in_one_line() -> Generator[None]:
    """Print what the cache warns of as commands print errors, without a place in our source."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if issubclass(category, CacheWarning):
                print(f"eqsat: {message}", file=sys.stderr)
            else:
                usual(message, category, *rest, **more)

        warnings.showwarning = show
        yield


def _complain(args: Sequence[str], message: str, code: int) -> int:
    from eqsat.cli.output import shown

    if "--json" in args:
        print(json.dumps({"error": message, "exit": code}))
    print(f"eqsat: {shown(message)}", file=sys.stderr)
    return code


def _internal(args: Sequence[str], error: Exception) -> int:
    _debug()
    text = (str(error).strip().splitlines() or [""])[0][:300]
    message = f"internal error: {type(error).__name__}: {text} (EQSAT_DEBUG=1 shows the traceback; please report it)"
    return _complain(args, message, INTERNAL)


def _debug() -> None:
    if os.environ.get("EQSAT_DEBUG", "0") not in ("", "0"):
        traceback.print_exc()


if __name__ == "__main__":
    sys.exit(main())
