"""The first lines that a command runs: from here on Ctrl-C ends it by one line, while everything else is imported.

Only modules that Python itself has loaded are used: each other one would be a time in which Ctrl-C is a traceback.
"""

import os
import sys

_signal = __import__("_signal")  # what `signal` is made of: that one takes milliseconds to import
CODE = 130


def is_command() -> bool:
    """Whether this process was started as `eqsat`, `python -m eqsat` or one of its modules."""
    if sys.argv[:1] == ["-m"]:  # so it is while the package of the module is imported
        return any(arg.partition(".")[0] in ("eqsat", "-meqsat") for arg in sys.orig_argv)
    return os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0] == "eqsat"


def leave() -> None:
    """End at once, with the line that a command ends with."""
    answer = b'{"error": "interrupted", "exit": 130}\n' if "--json" in sys.argv else b""
    for stream, text in ((1, answer), (2, b"eqsat: interrupted\n")):
        try:  # noqa: SIM105 - contextlib may not be loaded
            os.write(stream, text)
        except OSError:  # there is nobody to tell
            pass
    os._exit(CODE)


def at_start(signum: int, frame: object) -> None:
    """The handler until a command takes over: there is nothing to put away, and an exception would be a traceback."""
    leave()


if is_command() and _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
    _signal.signal(_signal.SIGINT, at_start)
