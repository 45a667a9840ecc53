"""One portfolio of provers: points, digits, bits, ranges, isl, Z3."""
