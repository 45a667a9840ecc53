"""Signatures: reading, printing, checking against shapes."""

from collections.abc import Callable

import pytest

import eqsat as eq
from eqsat.ir.errors import EqsatError
from eqsat.ir.tensors.signature import Signature
from eqsat.ir.terms.shape import Shape

CONV = Signature.parse("n (g c) h w, (g o) c kh kw -> n (g o) y x", map="n g o", reduce="c")
N = eq.symbol("N")


def test_reads_and_prints() -> None:
    for text in (
        "n c h w, o c kh kw -> n o y x", "n (g c) -> n g c", "a, () -> a", "() -> ()", "a 1 b -> a b", "a -> a, a",
    ):  # fmt: skip
        s = Signature.parse(text)
        assert str(s) == text and Signature.parse(str(s)) == s
    assert (CONV.role("n"), CONV.role("c"), CONV.role("h")) == ("map", "reduce", "fixed")
    assert Signature.parse("-> a").operands == () and Signature.parse("() -> a").operands == ((),)


def test_equal_signatures_are_equal_and_hash_alike() -> None:
    a = Signature.parse("n c -> n c", map="n")
    b = Signature(((("n",), ("c",)),), ((("n",), ("c",)),), {"n": "map", "c": "fixed"})
    assert a == b and hash(a) == hash(b) and a != Signature.parse("n c -> n c", map="c")


def test_extents() -> None:
    x: Shape = (N, 8, 5, 5)
    found = CONV.check([x, (6, 4, 3, 3)], [(N, 6, 3, 3)], "Conv")
    assert (found["g"], found["c"], found["o"]) == (2, 4, 3) and found["n"] is N


BAD: list[Callable[[], object]] = [
    lambda: Signature.parse("a b"),
    lambda: Signature.parse("a -> b -> c"),
    lambda: Signature.parse("(a -> a"),
    lambda: Signature.parse("a) -> a"),
    lambda: Signature.parse("((a)) -> a"),
    lambda: Signature.parse("a ( ) -> a"),
    lambda: Signature.parse("a! -> a"),
    lambda: Signature.parse("a a -> a"),
    lambda: Signature.parse("a -> a", map="b"),
    lambda: Signature.parse("a -> a", map="a", reduce="a"),
    lambda: Signature.parse("a -> a", reduce="a"),
    lambda: Signature.parse("a b -> a", map="b"),
    lambda: Signature(((("a",),),), ((("a",),),), {"a": "odd"}),
    lambda: CONV.check([(1, 8, 5, 5)], [(1, 6, 3, 3)], "Conv"),
    lambda: CONV.check([(1, 8, 5), (6, 4, 3, 3)], [(1, 6, 3, 3)], "Conv"),
    lambda: CONV.check([(1, 8, 5, 5), (6, 4, 3, 3)], [(2, 6, 3, 3)], "Conv"),
    lambda: CONV.check([(1, 9, 5, 5), (6, 4, 3, 3)], [(1, 6, 3, 3)], "Conv"),
    lambda: CONV.check([(1, 8, 5, 5), (6, 4, 3, 3)], [(1, 8, 3, 3)], "Conv"),
    lambda: Signature.parse("(a b) -> a b").check([(6,)], [(2, 4)], "Odd"),
    lambda: Signature.parse("(a b) -> (a b)").check([(6,)], [(6,)], "Odd"),
    lambda: Signature.parse("a 1 -> a").check([(3, 2)], [(3,)], "Odd"),
    lambda: eq.opaque("Odd", [eq.input("x", (3, 4), "int8")], [((4,), "int8")], signature=Signature.parse("a b -> a")),
]


@pytest.mark.parametrize("build", BAD)
def test_refuses(build: Callable[[], object]) -> None:
    with pytest.raises(EqsatError):
        build()
