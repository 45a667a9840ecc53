"""Grammars by name: together they can say four fifths of the rules of indices."""

from __future__ import annotations

from eqsat.ir.rule import Kind
from eqsat.ir.terms import term as t
from eqsat.research.grammar import ARITHMETIC, ZERO, Grammar


def _indices(names: str, constants: str = "", predicates: str = "") -> dict[str, Kind]:
    kinds = ((names, Kind.IDX), (constants, Kind.POS), (predicates, Kind.PRED))
    return {name: kind for letters, kind in kinds for name in letters}


X, Y, Z, A, B, C, D = (t.var(name) for name in "xyzabcd")
_OPPOSITE = (t.compare("eq", X + Y, ZERO),)
_CONGRUENT = (t.compare("eq", (X - Y) % C, ZERO),)
_EXACT = (t.compare("eq", X % C, ZERO),)
_SLACK = t.var("w") + X - Y - t.var("z")
_LEVEL, _NEARLY = (t.compare("eq", _SLACK, ZERO),), (_SLACK >= -1, _SLACK <= 1)
_DIGIT = (ZERO <= Y, Y < C)

LATTICE = Grammar(_indices("xyz"), (), ("min", "max"), 4, ((X <= Y,),))
PAIRS = Grammar(_indices("xyzw"), (), ("min", "max"), 4, ((X <= Y,),))
FIVE = Grammar(_indices("xyzwv"), (), ("min", "max"), 4, ((X <= Y,),))
PREDICATES = Grammar(_indices("xy", "", "pq"), (), ("lt", "le", "eq", "and", "or", "not"), 3, ())
SUMS = Grammar(_indices("xy", "c"), (), ("add", "sub", "mul", "floordiv", "mod"), 4, (_DIGIT, _CONGRUENT, _EXACT))
REMAINDERS = Grammar(_indices("xy", "ab"), (), ("add", "sub", "mul", "floordiv", "mod"), 4, ())
RESTS = Grammar(_indices("xy", "c"), (), ("add", "sub", "floordiv", "mod"), 5, (_CONGRUENT,))
TRUNCATION = Grammar(
    _indices("xy", "c"), (), ("truncdiv", "truncmod", "abs", "neg", "add", "sub", "mul", "floordiv", "mod"), 3,
    ((ZERO <= X,), (X <= ZERO,), (-C < X, X < C), _OPPOSITE),
)  # fmt: skip
DIGITS = Grammar(_indices("x", "ab"), (), ("truncdiv", "truncmod", "mul", "sub", "add"), 4, ())
BITS = Grammar(_indices("xyz"), (), ("bitand", "bitor", "bitxor"), 3, ())
BOUNDS = Grammar(_indices("xyz"), (), ("min", "max", "add", "sub"), 4, ((ZERO <= X,),))
SIGNS = Grammar(_indices("xy"), (), ("min", "max", "neg", "abs", "sub"), 4, ((ZERO <= X,), (X <= ZERO,)))
QUOTIENTS = Grammar(
    _indices("xyz", "c"), (), ("min", "max", "floordiv", "mul", "add"), 3,
    ((X // C <= Y // C,), (Y // C <= X // C,), _DIGIT),
)  # fmt: skip
CHOICES = Grammar(_indices("xy", "", "pq"), (), ("where", "and", "or", "not"), 4, ())
CHOSEN = Grammar(_indices("xyzw", "", "p"), (), ("where", "add", "sub"), 3, ())
BOUNDED_CHOICES = Grammar(_indices("xyzw", "", "p"), (), ("where", "min", "max"), 3, ())
EQUALS = Grammar(_indices("xyzw"), (), ("where", "eq", "add"), 3, ())
CASES = Grammar(_indices("xy"), (), ("lt", "le", "and", "where", "min", "max"), 4, ())
FOUR = Grammar(_indices("xyzw"), (), ("min", "max", "add", "sub"), 3, (_LEVEL, _NEARLY))
ORDER = Grammar(_indices("xy", "cd"), (), ("le", "and", "or", "add", "mul", "floordiv"), 3, (_DIGIT, _OPPOSITE))
TESTS = Grammar(_indices("xy", "c"), (), ("eq", "ne", "and", "or", "add", "mul"), 3, (_DIGIT, (-C < Y, Y < C)))
SPELLED = Grammar(_indices("xy"), (), ("le", "eq", "ne", "and", "or"), 3, (_OPPOSITE,))
TWO_SIDES = Grammar(_indices("x"), (), ("le", "eq", "and", "or", "neg"), 4, ())
STRICT = Grammar(_indices("xy"), (1,), ("le", "ne", "or", "add"), 3, ((t.compare("eq", X + Y, t.index_const(-2)),),))
OWN = Grammar(
    _indices("xy", "c"), (1,), ("le", "add", "sub", "mod"), 3, (_OPPOSITE, (t.compare("eq", Y - X, t.index_const(-1)),))
)
PARITY = Grammar(_indices("xy"), (1, 2), ("add", "floordiv", "mod"), 3, ((t.compare("eq", (X - Y) % 2, ZERO),),))
BY_NEGATIVES = Grammar(_indices("x", "c"), (1,), ("neg", "floordiv", "mod", "truncdiv", "truncmod"), 3, ())
PRODUCTS = Grammar(_indices("xy", "ab"), (), ("add", "mul", "floordiv", "mod"), 4, (), (A * B,))
MULTIPLES = Grammar(_indices("xy", "abc"), (), ("add", "mul", "mod"), 4, ((t.compare("eq", A * B % C, ZERO),),))
LEAST_PART = Grammar(_indices("xyz", "c"), (), ("min", "floordiv", "mul", "add"), 4, (_DIGIT,))
GREATEST_PART = Grammar(_indices("xyz", "c"), (), ("max", "floordiv", "mul", "add"), 4, (_DIGIT,))
LEAST = Grammar(_indices("xyz"), (), ("min", "add", "sub", "le", "and", "or"), 5, (), (), True)
GREATEST = Grammar(_indices("xyz"), (), ("max", "add", "sub", "le", "and", "or"), 5, (), (), True)
NOT_ZERO = Grammar(_indices("x"), (1,), ("le", "ne", "or", "neg", "sub"), 6, (), (), True)
UP = Grammar(
    _indices("xy", "c"), (1,), ("add", "sub", "mul", "floordiv", "mod", "neg"), 3, ((t.compare("eq", Y, C - 1),),)
)
BELOW_ZERO = Grammar(_indices("x", "c"), (-1, 1), ("floordiv", "mod", "add"), 2, ((-C <= X, X < ZERO),))
SINGLE = Grammar(_indices("xyz"), (), ("le", "lt", "and", "where"), 4, ((t.compare("eq", Z, Y + 1),),))
MARGINS = Grammar(_indices("xy", "c"), (1,), ("le", "add", "sub", "mul", "floordiv"), 5, (), (), True)
_OPPOSITE_OF_THREE, _NEXT_OF_FOUR = (t.compare("eq", (X + Y - k) % n, ZERO) for k, n in ((0, 3), (1, 4)))
UNITS = Grammar(_indices("x", "ac"), (), ("truncmod", "mul"), 2, ((t.compare("eq", A % C, t.index_const(1)),),))
PRODUCT_UNITS = Grammar(
    _indices("x", "abc"), (), ("truncmod", "mul"), 3, ((t.compare("eq", A * B % C, ZERO),),), (A * B,)
)
THIRDS = Grammar(_indices("xy"), (1, 3), ("add", "sub", "floordiv", "mod"), 4, ((_OPPOSITE_OF_THREE,),))
QUARTERS = Grammar(_indices("xy"), (1, 2, 4), ("sub", "mul", "mod"), 3, ((_NEXT_OF_FOUR,),))
TURNED = {
    name: Grammar(_indices("xyzw", "", "p"), (), ("where", "not", op), 4, ())
    for name, op in (("sum", "add"), ("difference", "sub"), ("least", "min"), ("greatest", "max"))
}
GRAMMARS = {
    "arithmetic": ARITHMETIC, "sums": SUMS, "remainders": REMAINDERS, "rests": RESTS, "digits": DIGITS,
    "products": PRODUCTS, "multiples": MULTIPLES, "up": UP, "below-zero": BELOW_ZERO, "by-negatives": BY_NEGATIVES,
    "truncation": TRUNCATION, "bits": BITS, "lattice": LATTICE, "pairs": PAIRS, "five": FIVE,
    "bounds": BOUNDS, "four": FOUR, "signs": SIGNS, "quotients": QUOTIENTS, "least-part": LEAST_PART,
    "greatest-part": GREATEST_PART, "choices": CHOICES, "chosen": CHOSEN, "bounded-choices": BOUNDED_CHOICES,
    "equals": EQUALS, "cases": CASES, "single": SINGLE, "predicates": PREDICATES, "order": ORDER, "least": LEAST,
    "greatest": GREATEST, "not-zero": NOT_ZERO, "tests": TESTS, "spelled": SPELLED, "two-sides": TWO_SIDES,
    "strict": STRICT, "margins": MARGINS, "own": OWN, "parity": PARITY, "units": UNITS,
    "product-units": PRODUCT_UNITS, "thirds": THIRDS, "quarters": QUARTERS,
    **{f"turned-{name}": grammar for name, grammar in TURNED.items()},
}  # fmt: skip
