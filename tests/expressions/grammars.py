"""Seeded grammars of expressions that may have smaller forms, one for each class of the table.

`expression(group, seed)` is the same text for the same seed. A class fixes the variables, the constants and the
operations, so that all terms over them can be enumerated by size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

Ranges = Mapping[str, int | tuple[int | None, int | None]]


@dataclass(frozen=True)
class Profile:
    """Ranges of the variables by name (those left out are all integers), and an assumption."""

    ranges: Ranges
    assuming: str = ""


@dataclass(frozen=True)
class Group:
    """A class of expressions: what its terms are made of, and how many of them the table has.

    constants: those that occur alone, as summands or operands. factors: coefficients beside 1 and -1. divisors: numbers
    to divide by. operations: what the enumeration may use beside sums.
    """

    name: str
    write: Callable[[Random], str]
    count: int
    names: tuple[str, ...]
    constants: tuple[int, ...]
    factors: tuple[int, ...]
    divisors: tuple[int, ...]
    operations: frozenset[str]
    profiles: tuple[Profile, ...]


def expression(group: Group, seed: int) -> tuple[str, Profile]:
    """The expression of a class for a seed, and where it is asked."""
    source = Random(f"{group.name} {seed}")
    profile = group.profiles[seed // 3 % len(group.profiles)]
    return group.write(source), profile


def _op(r: Random) -> str:
    return r.choice(["minimum", "maximum"])


def _call(name: str, *args: str) -> str:
    return f"{name}({', '.join(args)})"


def _sign(r: Random) -> str:
    return r.choice(["+", "-"])


# -- min and max -------------------------------------------------------------------------------------------------------


def _tree(r: Random, leaves: Sequence[str], depth: int) -> str:
    """A tree of min and max in which leaves repeat."""
    if depth == 0 or (depth == 1 and r.random() < 0.2):
        return r.choice(leaves)
    return _call(_op(r), _tree(r, leaves, depth - 1), _tree(r, leaves, depth - 1))


def lattice(r: Random) -> str:
    """Trees of min and max with repeated operands, common addends and common factors."""
    plain = r.sample(["x", "y", "z"], r.choice([2, 3]))
    style = r.randrange(6)
    if style <= 1:
        return _tree(r, [*plain, *r.choice([[], ["2"], ["0", "3"]])], r.choice([2, 2, 3]))
    if style == 2:
        addend = r.choice([*plain, "1", "2"])
        leaves = [f"{leaf} {_sign(r)} {addend}" for leaf in plain] if r.random() < 0.3 else []
        return _tree(r, leaves or [f"({leaf} + {addend})" for leaf in [*plain, "0"]], r.choice([1, 2, 2]))
    if style == 3:
        factor = r.choice([2, 3, -1, -2])
        return _tree(r, [f"{leaf}*{factor}" for leaf in plain], r.choice([1, 2, 2]))
    a, b, c = r.choice(plain), r.choice(["x", "y", "z"]), r.choice(["x", "y", "z", "2"])
    if style == 4:
        first, second = _call(_op(r), a, b), _call(_op(r), *r.sample([a, b], 2))
        return r.choice([f"{first} {_sign(r)} {second}", f"{first} {_sign(r)} {second} {_sign(r)} {c}"])
    return f"{_call(_op(r), _call(_op(r), a, b), c)} {_sign(r)} {_call(_op(r), a, c)}"


def scaled(r: Random) -> str:
    """Minima and maxima of sums and of multiples, below and beside other operations."""
    k, c, d = r.choice([2, 3, 4]), r.randrange(1, 5), r.randrange(0, 4)
    a, b = r.sample(["x", "y"], 2)
    rounded = r.choice([f"{a} // {k} * {k}", f"({a} + {k - 1}) // {k} * {k}"])
    style = r.randrange(9)
    if style == 0:
        return _call(_op(r), f"{a} + {c}", f"{a} {_sign(r)} {d}")
    if style == 1:
        return f"{_call(_op(r), f'{a} - {b}', str(r.choice([0, 0, d])))} + {b}"
    if style == 2:
        return f"{_call(_op(r), f'{a}*{k}', r.choice([f'{b}*{k}', f'{b}*{k} + {d % k}', str(k * d)]))} // {k}"
    if style == 3:
        return _call(_op(r), f"{rounded} + {r.choice([0, 0, k - 1, k])}", r.choice([a, a, f"{a} + {k}"]))
    if style == 4:
        return f"{_call(_op(r), a, b)} {_sign(r)} {_call(_op(r), a, b)} {_sign(r)} {r.choice([a, b])}"
    if style == 5:
        inner = _call(_op(r), f"{a} + {c}", b)
        return r.choice([f"{inner} - {c}", _call(_op(r), inner, f"{a} + {d}"), _call(_op(r), inner, f"{b} + {d}")])
    if style == 6:
        return _call(_op(r), _call(_op(r), f"{a}*{k}", f"{b}*{k}"), f"{r.choice([a, b])}*{k} {_sign(r)} {d}")
    if style == 7:
        return f"{_call(_op(r), f'{a} {_sign(r)} {b}', a)} {_sign(r)} {r.choice([a, b, f'{a} - {b}'])}"
    return f"{_call(_op(r), a, str(c))} {_sign(r)} {_call(_op(r), r.choice([a, f'{a} - {c}', f'-{a}']), str(d))}"


# -- divisions ---------------------------------------------------------------------------------------------------------


def _truncated(r: Random, depth: int) -> str:
    if depth == 0:
        return r.choice(["x", "x", "y", "(x + y)"])
    style, c = r.randrange(7), r.choice([2, 3, 4, 6, 8])
    inner = _truncated(r, depth - 1)
    if style <= 1:
        return _call("truncdiv", inner, str(c))
    if style <= 3:
        return _call("truncmod", inner, str(c))
    if style == 4:
        return f"{inner} * {r.choice([2, 3, 4, 6, -1])}"
    if style == 5:
        return f"(truncdiv({inner}, {c}) * {c} + truncmod({inner}, {c}))"
    return _call(r.choice(["truncdiv", "truncmod"]), f"{inner} * {r.choice([2, 4, 8, -1, -2])}", str(c))


def trunc(r: Random) -> str:
    """Truncating divisions of numbers of unknown sign."""
    c = r.choice([2, 3, 4, 6, 8])
    if r.random() < 0.4:
        a = r.choice(["x", "x*2", "(x + y)", "-x", "x*4", "(x - y)"])
        return r.choice(
            [
                f"{a} - truncdiv({a}, {c}) * {c}",
                f"truncdiv({a}, {c}) + truncdiv(-{a}, {c})",
                f"truncmod({a}, {c}) + truncmod(-{a}, {c})",
                f"truncmod({a}, {c}) - truncmod(-{a}, {c})",
                f"{a} - truncmod({a}, {c})",
                f"abs(truncdiv({a}, {c}))",
                f"truncmod(abs({a}), {c})",
                f"truncdiv({a} - truncmod({a}, {c}), {c})",
                f"truncdiv({a}, {c}) - truncdiv({a}, {c * 2}) * 2",
            ]
        )
    return _truncated(r, r.choice([2, 2, 3]))


def digits(r: Random) -> str:
    """Sums and differences of quotients and remainders."""
    c, k = r.choice([2, 2, 3, 4]), r.choice([2, 2, 3])
    a = r.choice(["x", "x", "x", "y", "(x + y)", "(x - y)"])
    b = r.choice(["x", "y"])
    e, d = r.randrange(1, 2 * c), r.randrange(0, c + 1)
    style = r.randrange(10)
    if style == 0:
        return r.choice([f"{a} // {c} - ({a} + {e}) // {c}", f"({a} + {e}) // {c} - ({a} + {d}) // {c}"])
    if style == 1:
        return f"{a} // {c} * {r.choice([1, c, c - 1, c + 1, 2 * c])} {_sign(r)} {a} % {c}"
    if style == 2:
        return f"{a} {_sign(r)} {r.choice([f'{a} // {c} * {c}', f'{a} % {c}', f'({a} + {c - 1}) // {c} * {c}'])}"
    if style == 3:
        return f"({a} + {d}) // {c} - ({a} + {d}) // {c * k} * {k}"
    if style == 4:
        return f"({a} {_sign(r)} {a} % {c}{r.choice(['', f' + {d}'])}) {r.choice(['//', '%'])} {r.choice([c, c * k])}"
    if style == 5:
        return f"({a} % {r.choice([c, c * k])} {_sign(r)} {r.choice([b, f'{b} % {c}'])}) % {c}"
    if style == 6:
        return f"({d} - {a}) {'//'} {c} + {a} // {c}"
    if style == 7:
        return f"({d} - {a}) {'%'} {c} {_sign(r)} {a} % {c}"
    if style == 8:
        return f"({a} // {c} {_sign(r)} {b}) // {k} {_sign(r)} {a} // {c * k}"
    return f"{a} // {c} + ({a} + {e}) // {c}{r.choice(['', f' + {a} % {c}'])}"


def symbolic(r: Random) -> str:
    """Divisions by sizes."""
    n = r.choice(["N", "N", "N", "M"])
    m = "M" if n == "N" else "N"
    a, b = r.choice([("x", "y"), ("x", "x"), ("y", "x")])
    inner = r.choice(
        [
            f"{a}*{n}", f"{a}*{n} + {b}", f"{a} + {n}", f"{a} - {n}", f"{a}*{n} + {b}*{n}", f"{a}*{n}*{m}",
            f"{a} % {n}", f"{a} // {n}", f"{a} % ({n}*{m})", f"{a} + 2*{n}", f"{a} // {n} * {n}", f"{a}*{n} + {n}",
            f"{a} % {n} + {b} % {n}", f"{a} + {b}*{n}", f"{a} % {n} + {b}*{n}", f"2*{a}", f"{a} % {n} + {n}",
            f"{n} - 1 - {a} % {n}", f"{b} - {a} % {n}", f"{a} // {n} * {n} + {b} % {n}",
        ]
    )  # fmt: skip
    divisor = r.choice([n, n, n, f"({n}*{m})", m, f"(2*{n})"])
    whole = f"({inner}) {r.choice(['//', '%'])} {divisor}"
    style = r.randrange(5)
    if style == 0:
        return f"{whole} * {n} {_sign(r)} {a} {r.choice(['//', '%'])} {n}"
    if style == 1:
        return f"{whole} {_sign(r)} {r.choice([a, b, f'{a} // {n}', f'{a} % {n}'])}"
    if style == 2:
        return f"({inner}) // {n} * {n} + ({inner}) % {n}"
    return whole


# -- selections, products, congruences, comparisons --------------------------------------------------------------------


def selects(r: Random) -> str:
    """Two selections by one condition, or by opposite ones."""
    condition = r.choice(["x < y", "x < 3", "z < 2", "z == 1", "x == y"])
    opposite = {"x < y": "x >= y", "x < 3": "x >= 3", "z < 2": "not z < 2", "z == 1": "z != 1", "x == y": "x != y"}
    leaves = ["x", "y", "z", "0", "1", "2", "x + 1", "y + 1", "2*x", "x + y"]
    second = r.choice([condition, condition, opposite[condition]])
    one = f"where({condition}, {r.choice(leaves)}, {r.choice(leaves)})"
    two = f"where({second}, {r.choice(leaves)}, {r.choice(leaves)})"
    style = r.randrange(6)
    if style <= 2:
        return f"{one} {_sign(r)} {two}"
    if style == 3:
        return _call(_op(r), one, two)
    if style == 4:
        return f"where({condition}, {two}, {r.choice(leaves)}) {_sign(r)} {r.choice(['x', 'y', two])}"
    return f"{one} {_sign(r)} {r.choice(['x', 'y', two + ' - x'])}"


def products(r: Random) -> str:
    """Sums of products with a common factor."""
    a, b, c = r.sample(["x", "y", "z"], 3)
    k, e = r.choice([2, 3]), r.choice([1, 1, 2, 3])
    first = r.choice([f"{a}*{b}", f"{k}*{a}*{b}", f"({a} {_sign(r)} {e})*{b}", f"({a} {_sign(r)} {c})*{b}"])
    second = r.choice([f"{a}*{c}", f"{b}*{c}", f"{b}", f"{b}*{b}", f"{k}*{b}", f"{k}*{b}*{c}", f"({c} + {e})*{b}"])
    third = r.choice(["", "", "", f" {_sign(r)} {b}", f" {_sign(r)} {c}", f" {_sign(r)} {a}*{b}", f" {_sign(r)} {e}"])
    return f"{first} {_sign(r)} {second}{third}"


def congruent(r: Random) -> str:
    """Divisions of numbers whose remainders are assumed."""
    c, d = r.choice([2, 4, 4, 8]), r.choice([0, 0, 1, 2, 3, 5])
    a = r.choice(["x", "x", "y", "x + y", "x - y", "2*x", "x + 2*y"])
    inner = r.choice([f"({a} + {d})", f"({a} - {d})", f"({d} - x)"])
    style = r.randrange(6)
    if style <= 1:
        return f"{inner} {r.choice(['//', '%'])} {c}"
    if style == 2:
        return f"{inner} // {c} * {c}"
    if style == 3:
        return f"{inner} // {c} {_sign(r)} {r.choice(['x', 'y'])} // {r.choice([c, 4])}"
    if style == 4:
        return f"{inner} // {r.choice([2, 4])} % 2"
    return f"{inner} // {c} * {c} {_sign(r)} {r.choice(['x', 'y % 4', 'x % 2'])}"


def compared(r: Random) -> str:
    """Comparisons of sums, of quotients, of minima, and pairs of them."""
    c, d, e = r.choice([2, 3, 4]), r.randrange(0, 7), r.randrange(0, 4)
    a, b = r.sample(["x", "y"], 2)
    relation = r.choice(["<", "<=", "==", "!=", ">", ">="])
    style = r.randrange(8)
    if style == 0:
        return f"{a}*{c} {relation} {b}*{c} + {r.choice([0, e, c])}"
    if style == 1:
        return f"{a} // {c} {relation} {r.choice([d % 4, f'{b} // {c}'])}"
    if style == 2:
        return f"{_call(_op(r), a, r.choice([b, str(d)]))} {relation} {r.choice([a, b, str(e)])}"
    if style == 3:
        return f"{a} + {b} {relation} {a} + {r.choice([b, str(d), f'2*{b}'])}"
    if style == 4:
        joint, more = r.choice(["and", "or"]), r.choice(["<", "<=", "==", "!="])
        return f"{a} {relation} {r.choice([b, str(d)])} {joint} {a} {more} {r.choice([b, str(e)])}"
    if style == 5:
        return f"{a} // {c} * {c} {relation} {r.choice([a, str(d), f'{a} - {e}'])}"
    if style == 6:
        return f"{a} % {c} {relation} {r.choice([a, str(e), str(c - 1)])}"
    return f"{_call(_op(r), f'{a} + {e}', b)} {relation} {r.choice([b, f'{a} + {d}', f'{b} + {e}'])}"


ANY, NONNEGATIVE = Profile({}), Profile({"x": (0, None), "y": (0, None), "z": (0, None)})
BOXED = Profile({"x": 16, "y": (-3, 8), "z": 4})
SIZES = Profile({"N": (1, None), "M": (1, None)})
SIZED = Profile({"x": (0, None), "y": (0, None), "N": (1, None), "M": (1, None)})
MOSTLY_ANY = (ANY, ANY, ANY, ANY, NONNEGATIVE, BOXED)
CHOICES = frozenset(("min", "max", "abs"))
DIVISIONS = frozenset(("floordiv", "mod"))
TRUNCATED = frozenset(("truncdiv", "truncmod", "abs"))
CONGRUENCES = (
    Profile({}, "x % 4 == 1"),
    Profile({}, "x % 4 == 0 and y % 4 == 2"),
    Profile({}, "x % 8 == 3 and y % 8 == 5"),
    Profile({}, "x % 2 == 1 and y % 2 == 1"),
)

GROUPS = (
    Group("lattice", lattice, 230, ("x", "y", "z"), (0, 1, 2, 3, 4), (2, 3), (), CHOICES, MOSTLY_ANY),
    Group("scaled", scaled, 125, ("x", "y"), tuple(range(9)), (2, 3, 4), (2, 3, 4), CHOICES | DIVISIONS, MOSTLY_ANY),
    Group("trunc", trunc, 100, ("x", "y"), (0, 1), (2, 3, 4, 6, 8), (2, 3, 4, 6, 8, 9, 12, 16, 18, 24, 32, 36, 48, 64),
          TRUNCATED, (ANY,)),
    Group("digits", digits, 60, ("x", "y"), tuple(range(8)), (2, 3, 4), (2, 3, 4, 6, 8, 9, 12), DIVISIONS, MOSTLY_ANY),
    Group("selects", selects, 45, ("x", "y", "z"), (0, 1, 2, 3, 4), (2, 3), (), CHOICES | {"where", "lt", "eq"},
          (ANY, ANY, ANY, BOXED)),
    Group("symbolic", symbolic, 35, ("x", "y", "N", "M"), (0, 1, 2), (2,), (), DIVISIONS | {"prod"}, (SIZES, SIZED)),
    Group("products", products, 30, ("x", "y", "z"), (0, 1, 2, 3), (2, 3, 4), (), frozenset(("prod",)), (ANY,)),
    Group("congruent", congruent, 10, ("x", "y"), tuple(range(9)), (2, 3, 4), (2, 4, 8), DIVISIONS, CONGRUENCES),
    Group("compared", compared, 15, ("x", "y"), tuple(range(-8, 25)), (2, 3, 4), (2, 3, 4),
          CHOICES | DIVISIONS | {"lt", "eq", "and"}, MOSTLY_ANY),
)  # fmt: skip
