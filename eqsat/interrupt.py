"""Ctrl-C in a command: at any moment one line, exit code 130, and nothing left behind.

An exception alone does not do it: raised in a destructor it is printed and forgotten, a library may catch everything,
and code in C does not see it before it returns. So the handler also sets a flag, which is asked at the end; what a
destructor swallows is raised again behind it; and a thread that hears of the signal at once stops what runs in C.
"""

from __future__ import annotations

import _thread
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from eqsat.interrupt_start import at_start, leave

WORD = "interrupted"
CLEANING = 1.0  # seconds after Ctrl-C in which another one does not disturb what is being put away
PAUSE = 0.02
SWALLOWED = b"\0"


class _State:
    """What this process knows of Ctrl-C, while a command runs in it."""

    def __init__(self) -> None:
        self.watched = False
        self.pressed = False
        self.answered = False
        self.held = 0
        self.raised = 0.0
        self.pipe = -1
        self.stops: list[Callable[[], Any]] = []


_state = _State()


def _handler(signum: int, frame: FrameType | None) -> None:
    if _state.answered:
        return
    again = _state.pressed and time.monotonic() - _state.raised < CLEANING
    _state.pressed = True
    if not _state.held and not again:
        _state.raised = time.monotonic()
        raise KeyboardInterrupt


def check() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed in this command, whatever became of it."""
    if _state.pressed and not _state.answered and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def answered() -> None:
    """The command gives its answer, which nothing may cut short: Ctrl-C comes too late from now on."""
    check()
    _state.answered = _state.watched


@contextmanager
def held() -> Generator[None]:
    """What the block does is done as a whole: Ctrl-C waits for its end.

    >>> with held():
    ...     pass
    """
    _state.held += 1
    try:
        yield
    finally:
        _state.held -= 1
    if not _state.held:
        check()


@contextmanager
def stopped_by(stop: Callable[[], Any]) -> Generator[None]:
    """Within the block, which waits for code in C, Ctrl-C calls `stop`, in another thread, until the block ends."""
    _state.stops.append(stop)
    try:
        yield
    finally:
        _state.stops.remove(stop)
    check()


def is_watched() -> bool:
    """Whether this thread runs a command whose Ctrl-C is handled here."""
    return _state.watched and threading.current_thread() is threading.main_thread()


@contextmanager
def watched() -> Generator[None]:
    """Handle Ctrl-C for the command that the block runs; it ends in KeyboardInterrupt or not at all.

    In a process that is nothing but this command, what comes after the block is not interrupted any more. Nothing is
    done in other threads than the main one, nor where the signal is ignored or handled by somebody else.
    """
    global _state
    before = signal.getsignal(signal.SIGINT)
    if _state.watched or threading.current_thread() is not threading.main_thread() or before not in _REPLACED:
        yield
        return
    _state = _State()
    _state.watched = True
    hook = sys.unraisablehook
    reading, writing = os.pipe()
    _state.pipe = writing
    os.set_blocking(writing, False)
    known = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(reading,), daemon=True).start()
    last = before is at_start
    try:
        sys.unraisablehook = _unraisable
        signal.signal(signal.SIGINT, _handler)
        yield
        check()
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN if last else before)
        signal.set_wakeup_fd(known)
        os.close(writing)
        _state.watched = False
        if not last:
            sys.unraisablehook = hook
            _state = _State()


def _unraisable(args: Any) -> None:
    """An interrupt that came to a destructor is sent again, to the code behind it; what else a destructor says after
    Ctrl-C is about objects that were not finished."""
    if issubclass(args.exc_type, KeyboardInterrupt) and _state.watched:
        _state.raised = 0.0
        os.write(_state.pipe, SWALLOWED)
    elif not _state.pressed:
        sys.__unraisablehook__(args)


def _listen(pipe: int) -> None:
    """Stop what runs in C when the signal comes, as Python's own handler has to wait for its end; and send the signal
    again where it was swallowed.

    Ctrl-C once more, while the first is still waiting, ends the process.
    """
    first = 0.0
    while data := os.read(pipe, 64):
        if SWALLOWED in data:
            time.sleep(PAUSE / 10)  # the destructor has to end first
            _thread.interrupt_main()
        if signal.SIGINT in data and not _state.pressed:
            if first and time.monotonic() - first > CLEANING:
                leave()
            first = first or time.monotonic()
            while _state.watched and not _state.pressed and not select.select([pipe], [], [], PAUSE)[0]:
                for stop in list(_state.stops):
                    stop()
    os.close(pipe)


_REPLACED = (signal.default_int_handler, at_start)
