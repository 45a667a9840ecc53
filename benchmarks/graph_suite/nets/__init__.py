# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
# torch is not installed where the types are checked.
"""Seeded networks in torch, one function each; `NETS` lists them with their inputs and families."""

from __future__ import annotations

from graph_suite.nets import attention, audio, convolution, language, windows
from graph_suite.nets.net import NETS, Net

__all__ = ["NETS", "Net", "attention", "audio", "convolution", "language", "windows"]
