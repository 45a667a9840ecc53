"""How messages to and from a worker process are cut: each is preceded by its length."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<Q")
PIECE = 1 << 20  # bytes that are read or written at a time


def pieces(frame: bytes) -> tuple[bytes, ...]:
    """What is written for a frame: where it is small, its length and itself at once, so that who reads wakes once.

    >>> pieces(b"ab")
    (b'\\x02\\x00\\x00\\x00\\x00\\x00\\x00\\x00ab',)
    """
    length = HEADER.pack(len(frame))
    return (length + frame,) if len(frame) < PIECE else (length, frame)
