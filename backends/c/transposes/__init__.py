"""Transposes in C: blocks of 16 bytes in registers, tiles of them, and what is larger than the caches."""
