"""The solver of index maps: inverses, injectivity, padding."""
