"""How messages to and from a worker process are cut: each is preceded by its length."""

from __future__ import annotations

import struct

HEADER = struct.Struct("<Q")
PIECE = 1 << 20  # bytes that are read or written at a time
