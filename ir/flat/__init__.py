"""Maps of row-major cells in one canonical form of digits."""
