"""How often a function is called, for tests of how work grows."""

from __future__ import annotations

from typing import Any

import pytest


def counted(monkeypatch: pytest.MonkeyPatch, where: object, name: str) -> list[Any]:
    """The calls of a function or method from now on, each as its positional arguments."""
    calls: list[Any] = []
    before = getattr(where, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        calls.append(args)
        return before(*args, **kwargs)

    monkeypatch.setattr(where, name, call)
    return calls
