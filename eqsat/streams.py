"""Standard streams for a command that was started without some: what it would say there, nobody wants to hear."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager

NAMES = ("stdin", "stdout", "stderr")


@contextmanager
def complete() -> Generator[None]:
    """Missing streams lead nowhere until the block ends, so that no file that is opened meanwhile gets their numbers.

    >>> with complete():
    ...     print(None in (sys.stdin, sys.stdout, sys.stderr))
    False
    """
    with ExitStack() as stack:
        while (nowhere := os.open(os.devnull, os.O_RDWR)) < len(NAMES):
            stack.callback(os.close, nowhere)
        os.close(nowhere)
        for name in NAMES:
            if getattr(sys, name) is None:
                stream = stack.enter_context(open(os.devnull, "r" if name == "stdin" else "w"))
                stack.callback(setattr, sys, name, None)
                setattr(sys, name, stream)
        yield
