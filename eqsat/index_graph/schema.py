"""The tables of the index e-graph, and the rules that belong to its encoding rather than to arithmetic.

A sum is a *form*: `Lin f` is `cst f + sum over j of coef(f, j) * Slot(f, j)`. A form is never edited, so its meaning is
fixed at birth; a better one is united with it, and the old one is retired by deleting its `coef` and `cst` rows.
`Part f m k r` is what rule number r makes of the slots in the mask m, divided by the scale k: the rest of the sum is
what the mask leaves out. `SplitQ`/`SplitR` are quotient and remainder of a form by a number: f = g*Q + R.
`Given g a` is the leaf a where the guards of place g hold, and some fixed value elsewhere: facts of a guard are bounds
on such terms. `Where`, `And` and `Or` have a number that says what may be taken for granted in their later operands
(-1: nothing); `Then` is a rest of a junction of three and more. Values of other types are a sort of their own, `D`, in
which an index is an operand (`Ix`); what is read from such values by a comparison or a cast is an index or a predicate
again (`Of`).
"""

from __future__ import annotations

# name of the constructor, and of the operation of the language, for operations of two or one index operands
BINARY = {
    "floordiv": "Div", "mod": "Mod", "truncdiv": "TDiv", "truncmod": "TMod", "min": "Min", "max": "Max",
    "bitand": "BAnd", "bitor": "BOr", "bitxor": "BXor", "shl": "Shl", "shr": "Shr",
}  # fmt: skip
COMMUTATIVE = ("Min", "Max", "BAnd", "BOr", "BXor", "Mul")
TESTS = {"le": "Nonneg", "eq": "Zero", "ne": "Nonzero"}
DATA = ("DOp0", "DOp1", "DOp2", "DOp3", "DWhere", "Ix")
NODES = (
    *BINARY.values(),
    *TESTS.values(),
    "Abs",
    "And",
    "Or",
    "Then",
    "Not",
    "Where",
    "Op0",
    "Op1",
    "Op2",
    "Op3",
    "Mul",
    "Of",
)
LEAVES = ("Num", "Truth", "Leaf", "Given")
NAMES = ("Leaf", "Num", "Truth", "At", "Lin", "Slot", "Part", "SplitQ", "SplitR", "DLeaf", "DAt")
ASKED = ("Add", "Scale")
LARGEST = 1 << 62
MASKED_SLOTS = 62


def _constructors() -> list[str]:
    two = [f"(constructor {name} (E E) E)" for name in (*BINARY.values(), "Mul")]
    one = [f"(constructor {name} (E) E)" for name in (*TESTS.values(), "Abs", "Not")]
    named = ["Slot (i64 i64)", "Part (i64 i64 i64 i64)", "SplitQ (i64 i64 i64)", "SplitR (i64 i64 i64)", "At (i64)"]
    return [
        "(sort E)",
        *(f"(constructor {name} (i64) E)" for name in ("Num", "Truth", "Leaf", "Lin")),
        "(constructor Given (i64 E) E)",
        "(constructor Where (i64 E E E) E)",
        "(constructor And (i64 E E) E)",
        "(constructor Or (i64 E E) E)",
        "(constructor Then (i64 E E) E)",
        "(sort D)",
        "(constructor DLeaf (i64) D)",
        "(constructor DAt (i64) D :unextractable)",
        "(constructor DOp0 (i64) D)",
        "(constructor DOp1 (i64 D) D)",
        "(constructor DOp2 (i64 D D) D)",
        "(constructor DOp3 (i64 D D D) D)",
        "(constructor DWhere (i64 E D D) D)",
        "(constructor Ix (E) D)",
        "(constructor Of (D) E)",
        "(constructor Op0 (i64) E)",
        "(constructor Op1 (i64 E) E)",
        "(constructor Op2 (i64 E E) E)",
        "(constructor Op3 (i64 E E E) E)",
        *two,
        *one,
        *(f"(constructor {text} E :unextractable)" for text in (*named, "Add (E E)", "Scale (i64 E)")),
        "(function coef (i64 i64) i64 :no-merge)",
        "(function cst (i64) i64 :no-merge)",
        "(function len (i64) i64 :no-merge)",
        "(relation need_split (i64 i64))",
        "(relation split (i64 i64 i64))",
        "(function lo (E) i64 :merge (max old new))",
        "(function hi (E) i64 :merge (min old new))",
        "(function plo (i64 i64) i64 :merge (max old new))",
        "(function phi (i64 i64) i64 :merge (min old new))",
        "(relation alarm (i64))",
        "(relation on (i64))",
        "(ruleset arith)",
        "(ruleset bounds)",
    ]


def _floor(x: str, c: str, out: str) -> str:
    """Floor division of literals: egglog's `/` truncates."""
    return f"(= m (% (+ (% {x} {c}) {c}) {c})) (= {out} (/ (- {x} m) {c}))"


def _ones(value: str) -> str:
    """The least number of the form 2^k - 1 that is not below a value, as v."""
    steps = [f"(= s0 {value})"]
    for n, shift in enumerate((1, 2, 4, 8, 16, 32)):
        steps.append(f"(= s{n + 1} (| s{n} (>> s{n} {shift})))")
    return " ".join([*steps, "(= v s6)"])


def _bounds() -> list[str]:
    def rule(name: str, body: str, *heads: str) -> str:
        return f'(rule ({body}) ({" ".join(heads)}) :ruleset bounds :name "{name}")'

    literal = "(= d (Num c)) (> c 0)"
    rules = [
        rule("bounds-num", "(= e (Num n))", "(set (lo e) n)", "(set (hi e) n)"),
        rule("bounds-mod", f"(= e (Mod x d)) {literal} (= v (- c 1))", "(set (lo e) 0)", "(set (hi e) v)"),
        rule("bounds-mod-hi", f"(= e (Mod x d)) {literal} (>= (lo x) 0) (= v (hi x))", "(set (hi e) v)"),
        rule("bounds-lin-0", "(= c (cst f))", "(set (plo f 0) c)", "(set (phi f 0) c)"),
        rule("bounds-abs", "(= e (Abs x))", "(set (lo e) 0)"),
    ]
    for end in ("lo", "hi"):
        other = "hi" if end == "lo" else "lo"
        floor = f"(= e (Div x d)) {literal} (= l ({end} x)) {_floor('l', 'c', 'v')}"
        rules.append(rule(f"bounds-div-{end}", floor, f"(set ({end} e) v)"))
        for sign, source in ((">", end), ("<", other)):
            body = f"(= k (coef f j)) ({sign} k 0) (= p (p{end} f j)) (= l ({source} (Slot f j)))"
            body += " (= v (+ p (* k l))) (= j1 (+ j 1))"
            rules.append(rule(f"bounds-lin-{end}{sign}", body, f"(set (p{end} f j1) v)"))
        rules.append(rule(f"bounds-lin-{end}", f"(= e (Lin f)) (= n (len f)) (= v (p{end} f n))", f"(set ({end} e) v)"))
        for name, choose in (("Min", "min"), ("Max", "max")):
            body = f"(= e ({name} x y)) (= v ({choose} ({end} x) ({end} y)))"
            rules.append(rule(f"bounds-{choose}-{end}", body, f"(set ({end} e) v)"))
        choose = "min" if end == "lo" else "max"
        body = f"(= e (Where k p x y)) (= v ({choose} ({end} x) ({end} y)))"
        rules.append(rule(f"bounds-where-{end}", body, f"(set ({end} e) v)"))
    for operand in ("x", "y"):
        rules.append(rule(f"bounds-min-{operand}", f"(= e (Min x y)) (= v (hi {operand}))", "(set (hi e) v)"))
        rules.append(rule(f"bounds-max-{operand}", f"(= e (Max x y)) (= v (lo {operand}))", "(set (lo e) v)"))
    both = "(>= (lo x) 0) (>= (lo y) 0)"
    rules.append(rule("bounds-and", f"(= e (BAnd x y)) {both} (= v (min (hi x) (hi y)))", "(set (hi e) v)"))
    for name in ("BAnd", "BOr", "BXor"):
        rules.append(rule(f"bounds-{name}-lo", f"(= e ({name} x y)) {both}", "(set (lo e) 0)"))
    for name in ("BOr", "BXor"):
        body = f"(= e ({name} x y)) {both} {_ones('(| (hi x) (hi y))')}"
        rules.append(rule(f"bounds-{name}-hi", body, "(set (hi e) v)"))
    alarms = ("(= l (lo e)) (= h (hi e)) (> l h)", "(= (Num a) (Num b)) (!= a b)", "(= (Truth a) (Truth b)) (!= a b)")
    rules += [rule(f"alarm-{k}", body, f"(alarm {k})") for k, body in enumerate(alarms)]
    return rules


ALARMS = ("an empty interval", "two numbers are equal", "true and false are equal")
CONSTANT = "constant-from-bounds"


def _encoding() -> list[str]:
    def rule(name: str, body: str, head: str) -> str:
        return f'(rule ({body}) ({head}) :ruleset arith :name "{name}")'

    literal = "(= d (Num n)) (> n 0)"
    folded = {"Div": "q", "Mod": "m"}
    rules = [rule(CONSTANT, "(= l (lo e)) (= h (hi e)) (= l h)", "(union e (Num l))")]
    for name, value in folded.items():
        body = f"(= e ({name} x d)) {literal} (= x (Num a)) {_floor('a', 'n', 'q')}"
        rules.append(rule(f"evaluate-{name}", body, f"(union e (Num {value}))"))
    for name in ("Div", "Mod"):
        body = f"(= e ({name} s d)) {literal} (= s (Lin f)) (= z (cst f))"
        rules.append(rule(f"ask split under {name}", body, "(need_split f n)"))
    for name in TESTS.values():
        body = f"(= e ({name} s)) (= s (Lin f)) (= z (cst f))"
        rules.append(rule(f"ask split under {name}", body, "(need_split f 0)"))
    for name in COMMUTATIVE:
        rules.append(rule(f"commute-{name}", f"(= e ({name} x y))", f"(union e ({name} y x))"))
    for k in (0, 1):
        rules.append(rule(f"not-{k}", f"(= e (Not p)) (= p (Truth {k}))", f"(union e (Truth {1 - k}))"))
    for name, absorbing in (("And", 0), ("Or", 1)):
        for operand in "pq":
            body = f"(= e ({name} n p q)) (= {operand} (Truth {absorbing}))"
            rules.append(rule(f"{name}-{operand}", body, f"(union e (Truth {absorbing}))"))
        # what is left where the first operand is neutral stands at another place: that is read, and loaded anew
        neutral = f"(= e ({name} n p q)) (= q (Truth {1 - absorbing}))"
        rules.append(rule(f"{name}-neutral", neutral, "(union e p)"))
    return rules


def schema() -> str:
    """The commands that make an empty index e-graph, separated by blank lines."""
    return "\n\n".join([*_constructors(), *_bounds(), *_encoding()])
