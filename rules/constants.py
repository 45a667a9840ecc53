"""Laws of data arithmetic that hold bit by bit in the dtype they name, and folding of constants by evaluation.

Fixed-width integers wrap and floats round, so few of the usual identities hold: `x + 0.0` is not x for x = -0.0,
`0 * x` is not 0 for NaN, and `x * 2 // 2` is not x where `x * 2` wraps.
"""

from __future__ import annotations

from eqsat.ir.dtypes import FLOATS, INTS, UINTS
from eqsat.ir.rule import Data, Family
from eqsat.ir.terms import term as t

RULES = Family("constants")
rule = RULES.rule

INTEGERS = (*INTS, *UINTS)
NUMBERS = (*INTEGERS, *FLOATS)


@rule("mul-one", tags=["normal"], dtypes=NUMBERS)
def mul_one(x: Data):
    """One is neutral in every numeric type."""
    return x * t.const(1, x.dtype), x


@rule("one-mul", tags=["normal"], dtypes=NUMBERS)
def one_mul(x: Data):
    """One is neutral in every numeric type."""
    return t.const(1, x.dtype) * x, x


@rule("div-one", tags=["normal"], dtypes=FLOATS)
def div_one(x: Data):
    """Dividing by one changes no float."""
    return x / t.const(1, x.dtype), x


@rule("add-zero", tags=["normal"], dtypes=INTEGERS)
def add_zero(x: Data):
    """Zero is neutral for integers."""
    return x + t.const(0, x.dtype), x


@rule("zero-add", tags=["normal"], dtypes=INTEGERS)
def zero_add(x: Data):
    """Zero is neutral for integers."""
    return t.const(0, x.dtype) + x, x


@rule("add-minus-zero", tags=["normal"], dtypes=FLOATS)
def add_minus_zero(x: Data):
    """The neutral float of addition is -0.0."""
    return x + t.const(-0.0, x.dtype), x


@rule("sub-zero", tags=["normal"], dtypes=NUMBERS)
def sub_zero(x: Data):
    """Subtracting (positive) zero changes nothing."""
    return x - t.const(0, x.dtype), x


@rule("sub-self", tags=["normal"], dtypes=INTEGERS)
def sub_self(x: Data):
    """An integer minus itself is zero; a float may be infinite or NaN."""
    return x - x, 0


@rule("mul-zero", tags=["normal"], dtypes=INTEGERS)
def mul_zero(x: Data):
    """Zero absorbs integers; a float may be infinite or NaN."""
    return x * t.const(0, x.dtype), 0


@rule("zero-mul", tags=["normal"], dtypes=INTEGERS)
def zero_mul(x: Data):
    """Zero absorbs integers; a float may be infinite or NaN."""
    return t.const(0, x.dtype) * x, 0


@rule("neg-neg", tags=["normal"], dtypes=(*INTS, *FLOATS))
def neg_neg(x: Data):
    """Two changes of sign cancel, also where the first one wraps."""
    return t.neg(t.neg(x)), x


@rule("abs-abs", tags=["normal"], dtypes=FLOATS)
def abs_abs(x: Data):
    """A magnitude is its own magnitude; the least integer has none, so this is a law of floats."""
    return abs(abs(x)), abs(x)


@rule("min-self", tags=["normal"], dtypes=NUMBERS)
def min_self(x: Data):
    """min is idempotent, NaN included."""
    return t.binary("min", x, x), x


@rule("max-self", tags=["normal"], dtypes=NUMBERS)
def max_self(x: Data):
    """max is idempotent, NaN included."""
    return t.binary("max", x, x), x


@rule("xor-self", tags=["normal"], dtypes=INTEGERS)
def xor_self(x: Data):
    """The bits of x differ nowhere from those of x."""
    return x ^ x, 0


@rule("and-self", tags=["normal"], dtypes=INTEGERS)
def and_self(x: Data):
    """Intersection is idempotent."""
    return x & x, x


@rule("or-self", tags=["normal"], dtypes=INTEGERS)
def or_self(x: Data):
    """Union is idempotent."""
    return x | x, x


@rule("not-not", tags=["normal"], dtypes=INTEGERS)
def not_not(x: Data):
    """Inverting all bits twice changes nothing."""
    return t.unary("bitnot", t.unary("bitnot", x)), x
